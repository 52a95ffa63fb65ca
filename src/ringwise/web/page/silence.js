// A limit to silence: a network that is cut without a word leaves requests open that are never answered.

/** Aborts what its signal was given to when nothing was heard for a while, or when an outer signal does. */
export class SilenceLimit {
  /**
   * @param {number} limit milliseconds until the first sign
   * @param {AbortSignal | null} [outer]
   */
  constructor(limit, outer) {
    this._control = new AbortController();
    this._timer = 0;
    /** Whether it was the silence that ended it. */
    this.silent = false;
    if (outer?.aborted) this.abort();
    else {
      outer?.addEventListener("abort", () => this.abort(), { once: true });
      this.hear(limit);
    }
  }

  get signal() {
    return this._control.signal;
  }

  /**
   * A sign of life: the limit counts from now.
   * @param {number} limit milliseconds until the next one
   */
  hear(limit) {
    clearTimeout(this._timer);
    this._timer = window.setTimeout(() => this.break(), limit);
  }

  /** Take it for silent: the network is another one, or the time is over. */
  break() {
    this.silent = true;
    this.abort();
  }

  /** No sign is awaited. */
  end() {
    clearTimeout(this._timer);
  }

  abort() {
    this.end();
    this._control.abort();
  }
}
