// The text of server-sent events. The stream is read with fetch, because EventSource can send no token.

const LINE_END = /[\r\n]/g;

/** @typedef {{event: string, id: string, data: string}} ServerEvent */

/**
 * Takes the text of a stream in pieces of any size, and gives its events. Comments and unknown fields are left out.
 */
export class EventStreamParser {
  constructor() {
    this._rest = "";
    /** @type {string[]} */
    this._data = [];
    this._event = "";
    this._id = "";
  }

  /**
   * @param {string} text
   * @returns {ServerEvent[]}
   */
  take(text) {
    /** @type {ServerEvent[]} */
    const events = [];
    const all = this._rest + text;
    let start = 0;
    for (;;) {
      LINE_END.lastIndex = start;
      const found = LINE_END.exec(all);
      if (!found) break;
      const stop = found.index;
      // A carriage return at the end of a piece may have its line feed in the next one.
      if (all[stop] === "\r" && stop + 1 === all.length) break;
      this._line(all.slice(start, stop), events);
      start = stop + (all[stop] === "\r" && all[stop + 1] === "\n" ? 2 : 1);
    }
    this._rest = all.slice(start);
    return events;
  }

  /**
   * @param {string} line
   * @param {ServerEvent[]} events
   */
  _line(line, events) {
    if (line === "") {
      if (this._data.length) events.push({ event: this._event || "message", id: this._id, data: this._data.join("\n") });
      this._data = [];
      this._event = "";
      return;
    }
    if (line.startsWith(":")) return;
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") this._data.push(value);
    else if (field === "event") this._event = value;
    else if (field === "id") this._id = value;
  }
}
