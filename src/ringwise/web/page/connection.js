// The way to the server: documents, the stream of changes, and what to do when it breaks.

import { EventStreamParser } from "./event_stream.js";
import { SilenceLimit } from "./silence.js";

/** @typedef {import("./store.js").Store} Store */

const API = "api/v1/";
const TOKEN_KEY = "ringwise-token";
const FIRST_WAIT = 500;
const LONGEST_WAIT = 15_000;
/** The code of the error with which a replica answers that another one leads. */
const NOT_LEADING = "not-leading";
/** The code of the error for a token whose owner may not read the cluster. */
const FORBIDDEN = "forbidden";
/** How often another replica is tried at once: behind a Service each new connection may reach the leader. */
const OTHER_TRIES = 4;
const OTHER_WAIT = 100;
/** In a stream: the server sends at least a comment every 15 seconds. In a document: it may be large. */
const SILENCE = 40_000;
/** The server begins a stream at once, or as soon as the API server has checked the token. */
const STREAM_START = 10_000;

/** An answer that is not the document: its status, and the text of the server. */
export class ApiError extends Error {
  /**
   * @param {number} status 0: no answer came
   * @param {string} code
   * @param {string} message
   * @param {{leader?: string, address?: string}} [leading] the leader, if the server reported it
   */
  constructor(status, code, message, leading = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.leading = leading;
  }
}

/**
 * connecting: the first time; live; waiting: for the next attempt; token: the server asks for one; standby: another
 * replica leads; ended: the source does not change, so there is nothing to follow.
 * @typedef {object} Status
 * @property {"connecting" | "live" | "waiting" | "token" | "standby" | "ended"} state
 * @property {string} problem
 * @property {number} retryIn seconds
 * @property {string} leader
 * @property {string} address
 */

export class Connection {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    /** @type {Status} */
    this.status = { state: "connecting", problem: "", retryIn: 0, leader: "", address: "" };
    /** How many changes were applied. */
    this.changes = 0;
    /** How often the server was reached again after it was away: what could not be read may be readable since. */
    this.returns = 0;
    /** @type {SilenceLimit | null} */
    this._reading = null;
    /** @type {Set<() => void>} */
    this._listeners = new Set();
    this._wait = FIRST_WAIT;
    this._started = false;
    /** @type {() => void} */
    this._wake = () => {};
  }

  /**
   * @param {() => void} listener
   * @returns {() => void} ends it
   */
  subscribe(listener) {
    this._listeners.add(listener);
    return () => void this._listeners.delete(listener);
  }

  get token() {
    return sessionStorage.getItem(TOKEN_KEY) ?? "";
  }

  /** @param {string} token */
  setToken(token) {
    sessionStorage.setItem(TOKEN_KEY, token.trim());
    this._wake();
  }

  /** Follow the server until the page is closed. */
  start() {
    if (this._started) return;
    this._started = true;
    window.addEventListener("online", () => {
      // A connection that was made before may never bring anything again.
      this._reading?.break();
      this._wake();
    });
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this._wake();
    });
    void this._follow();
  }

  /** Try again now. */
  retry() {
    this._wake();
  }

  /**
   * @param {string} path below the API
   * @param {RequestInit} [options]
   * @returns {Promise<Response>}
   */
  async request(path, options = {}) {
    for (let tries = 0; ; tries += 1) {
      try {
        return await this._ask(path, options);
      } catch (error) {
        if (!(error instanceof ApiError) || error.code !== NOT_LEADING || tries === OTHER_TRIES) throw error;
        await new Promise((resolve) => setTimeout(resolve, OTHER_WAIT * (tries + 1)));
      }
    }
  }

  /**
   * @param {string} path
   * @param {RequestInit} options
   * @returns {Promise<Response>}
   */
  async _ask(path, options) {
    const headers = new Headers(options.headers);
    if (this.token) headers.set("Authorization", `Bearer ${this.token}`);
    let response;
    try {
      response = await fetch(API + path, { ...options, headers, cache: "no-store", credentials: "same-origin" });
    } catch (error) {
      if (error instanceof DOMException && error.name === "AbortError") throw error;
      throw new ApiError(0, "no-answer", "the server does not answer");
    }
    if (response.ok) return response;
    const text = await response.text();
    let code = `${response.status}`;
    let message = text.slice(0, 2000) || response.statusText;
    let leading = {};
    try {
      const { error } = JSON.parse(text);
      code = String(error.code);
      message = String(error.message);
      leading = { leader: error.leader, address: error.address };
    } catch {
      // A proxy in between may answer with a page of its own: its text is shown.
    }
    throw new ApiError(response.status, code, message, leading);
  }

  /**
   * @param {string} path
   * @param {RequestInit} [options]
   * @param {number} [patience] milliseconds without a byte after which it fails
   * @returns {Promise<any>}
   */
  async document(path, options = {}, patience = SILENCE) {
    const limit = new SilenceLimit(patience, options.signal);
    try {
      const { body } = await this.request(path, { ...options, signal: limit.signal });
      const heard = new TransformStream({
        transform(piece, control) {
          limit.hear(patience);
          control.enqueue(piece);
        },
      });
      return await new Response(body?.pipeThrough(heard)).json();
    } catch (error) {
      if (limit.silent) throw new ApiError(0, "silence", "the server is silent");
      if (error instanceof ApiError || limit.signal.aborted) throw error;
      if (error instanceof SyntaxError) throw new ApiError(0, "no-document", "the response is not a document of Ringwise");
      throw new ApiError(0, "broken", "the connection is lost");
    } finally {
      limit.end();
    }
  }

  /** @param {Partial<Status>} changes */
  _set(changes) {
    this.status = { ...this.status, ...changes };
    for (const listener of [...this._listeners]) listener();
  }

  async _follow() {
    for (;;) {
      try {
        if (!this.store.epoch) await this._loadSnapshot();
        await this._readStream();
      } catch (error) {
        await this._pause(error);
      }
    }
  }

  async _loadSnapshot() {
    this.store.load(await this.document("snapshot"));
  }

  /** Read changes until the stream ends or breaks; always ends with an error, or with a new snapshot. */
  async _readStream() {
    const limit = new SilenceLimit(STREAM_START);
    this._reading = limit;
    try {
      const since = `epoch=${encodeURIComponent(this.store.epoch)}&since=${this.store.sequence}`;
      const response = await this.request(`stream?${since}`, { signal: limit.signal });
      if (!response.body) throw new ApiError(0, "no-body", "the server sends no stream");
      limit.hear(SILENCE);
      this._wait = FIRST_WAIT;
      if (this.status.state === "waiting") this.returns += 1;
      this._set({ state: "live", problem: "", retryIn: 0, leader: "", address: "" });
      const parser = new EventStreamParser();
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        limit.hear(SILENCE);
        for (const event of parser.take(value)) {
          if (event.event === "reset") {
            limit.abort();
            return await this._loadSnapshot();
          }
          this._take(event.event, event.data);
        }
      }
    } catch (error) {
      if (limit.silent) throw new ApiError(0, "silence", "the server is silent");
      throw error instanceof ApiError ? error : new ApiError(0, "broken", "the connection is lost");
    } finally {
      this._reading = null;
      limit.abort();
    }
    throw new ApiError(0, "ended", "the server ended the stream");
  }

  /**
   * @param {string} event
   * @param {string} data
   */
  _take(event, data) {
    const document = JSON.parse(data);
    if (event === "change") {
      this.store.apply(document);
      this.changes += 1;
    } else if (event === "leader") this._standby(document);
  }

  /** @param {{leader?: string, address?: string}} document */
  _standby({ leader, address }) {
    this._set({ state: "standby", problem: "", leader: String(leader ?? ""), address: String(address ?? "") });
  }

  /**
   * Wait before the next attempt: half a second first, then twice as long each time. Coming back online, showing
   * the page again, a new token and the button end the wait.
   * @param {unknown} error
   */
  async _pause(error) {
    const problem = error instanceof Error ? error.message : String(error);
    // A token without the permissions is as good as none: another one may have them.
    const asksForToken = error instanceof ApiError && (error.status === 401 || error.code === FORBIDDEN);
    // A page for a source that does not change is complete with its snapshot.
    const ended = this.store.loaded && !this.store.source.live && error instanceof ApiError && error.code === "ended";
    const wait = asksForToken ? null : ended ? LONGEST_WAIT : this._wait * (0.75 + Math.random() / 2);
    this._wait = Math.min(this._wait * 2, LONGEST_WAIT);
    // Only here: a document that a standby refused says nothing about the replica that the stream comes from.
    if (error instanceof ApiError && error.code === NOT_LEADING) this._standby(error.leading);
    if (asksForToken) this._set({ state: "token", problem });
    else if (ended) this._set({ state: "ended", problem: "" });
    else if (this.status.state !== "standby" || !(error instanceof ApiError) || ![NOT_LEADING, "ended"].includes(error.code)) {
      this._set({ state: "waiting", problem, retryIn: Math.ceil((wait ?? 0) / 1000) });
    }
    await new Promise((resolve) => {
      const timer = wait === null ? 0 : window.setTimeout(resolve, wait);
      this._wake = () => {
        clearTimeout(timer);
        resolve(undefined);
      };
    });
    this._wake = () => {};
  }
}
