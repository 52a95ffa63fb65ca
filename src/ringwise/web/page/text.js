// Text for people: counts, ages, times, and signs that must not act.

import { drainStart } from "./store.js";

/**
 * Signs that change how the text around them is shown, or that are not shown at all: controls, marks and overrides of
 * the direction, spaces without a width, tags, halves of signs. Line feed and tab stay.
 */
// eslint-disable-next-line no-control-regex
const ACTING = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

/**
 * The text with every such sign written as its number, so that it is seen and does nothing.
 * @param {string} text
 */
export function visible(text) {
  return text.replace(ACTING, (sign) => `[U+${/** @type {number} */ (sign.codePointAt(0)).toString(16).toUpperCase().padStart(4, "0")}]`);
}

/**
 * A name as a part of an address; half of a sign, which an address cannot have, becomes the sign for that.
 * @param {string} part
 */
export function encoded(part) {
  return encodeURIComponent(part.replace(/[\ud800-\udfff]/gu, "\ufffd"));
}

const GROUPED = new Intl.NumberFormat("en-US");

/** @param {number} value */
export function number(value) {
  return GROUPED.format(value);
}

/**
 * "1 chip", "2 chips".
 * @param {number} value
 * @param {string} one
 * @param {string} [many]
 */
export function count(value, one, many = `${one}s`) {
  return `${number(value)} ${value === 1 ? one : many}`;
}

/**
 * The resource as chips are called: Ascend910.
 * @param {string} resource
 */
export function resourceText(resource) {
  return resource.slice(resource.lastIndexOf("/") + 1) || "of no known board";
}

/**
 * The first namespaces, with the processor time of the scheduler that they used: "flood 12.5s, b and 2 more".
 * @param {Record<string, number>} throttled seconds by name; 0: not known
 */
export function throttledText(throttled) {
  const all = Object.entries(throttled).sort(([, one], [, other]) => other - one);
  const shown = all.slice(0, 3).map(([name, seconds]) => (seconds ? `${name} ${number(seconds)}s` : name)).join(", ");
  return all.length > 3 ? `${shown} and ${number(all.length - 3)} more` : shown;
}

/** @param {number} share from 0 to 1 */
export function percent(share) {
  return `${Math.round(share * 100)} %`;
}

/** Units of durations, in seconds. @type {[number, string][]} */
const UNITS = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];

/**
 * The largest unit of a duration and the next smaller one, as commands write it (`45s`, `5m`, `2h10m`, `3d4h`), and
 * how long these are together.
 * @param {number} seconds
 * @returns {{text: string, seconds: number}}
 */
export function shownSpan(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  const largest = UNITS.findIndex(([size]) => whole >= size);
  let [rest, text] = [whole, ""];
  for (const [size, unit] of largest < 0 ? [] : UNITS.slice(largest, largest + 2)) {
    const amount = Math.floor(rest / size);
    if (amount) text += `${amount}${unit}`;
    rest -= amount * size;
  }
  return { text: text || "0s", seconds: whole - rest };
}

/** @param {number} seconds */
export function span(seconds) {
  return shownSpan(seconds).text;
}

/**
 * How long before `now` something was; empty where a time is not known.
 * @param {string} since
 * @param {string} now
 */
export function age(since, now) {
  const seconds = (Date.parse(now) - Date.parse(since)) / 1000;
  return Number.isNaN(seconds) ? "" : span(seconds);
}

/** The last second of the year 9999, in milliseconds. */
const LAST_TIME = 253_402_300_799_000;

/**
 * A time in nanoseconds since 1970 as RFC 3339 writes it. Of later times than the year 9999, as commands do, the last
 * one with a name: many jobs in a row that are said to run for centuries are expected to start then.
 * @param {number} nanoseconds
 */
export function rfc3339(nanoseconds) {
  return `${new Date(Math.min(nanoseconds / 1e6, LAST_TIME)).toISOString().slice(0, 19)}Z`;
}

/**
 * A time as seen from `now`: `5m ago`, `in 2h10m`.
 * @param {number} time in nanoseconds since 1970
 * @param {string} now
 */
export function relative(time, now) {
  const seconds = time / 1e9 - Date.parse(now) / 1000;
  if (Number.isNaN(seconds)) return clock(rfc3339(time));
  return seconds > 0 ? `in ${span(seconds)}` : `${span(-seconds)} ago`;
}

/** Seconds after which a start that was expected counts as overdue: until then the next cycle may bring it. */
const GRACE = 60;

/**
 * When a job is expected to start, counted from now: a time that has passed is never shown as one to come.
 * @param {import("./types.js").ExpectedStart} start
 * @param {string} now
 */
export function startText({ earliest, latest, estimated }, now) {
  const [first, last] = [earliest, latest].map((time) => (time === null ? null : time / 1e9 - Date.parse(now) / 1000));
  const mark = estimated ? " (estimated)" : "";
  if (last === null) return first === null || first <= 0 ? "unknown" : `in ${span(first)} or later${mark}`;
  if (last <= 0) return last > -GRACE ? "in the next cycle" : `overdue by ${span(-last)}${mark}`;
  if (first === null || first <= 0) return `within ${span(last)}${mark}`;
  const [from, to] = [span(first), span(last)];
  return `in ${from === to ? from : `${from} to ${to}`}${mark}`;
}

/**
 * The times of an expected start and what they depend on; empty if there is nothing to add.
 * @param {import("./types.js").ExpectedStart} start
 */
export function startDetail({ earliest, latest, estimated, after, reason }) {
  const [first, last] = [earliest, latest].map((time) => (time === null ? "" : clock(rfc3339(time))));
  const times = !last ? first && `not before ${first}` : first === last || !first ? `at ${last}` : `between ${first} and ${last}`;
  const ends = after.length ? `after the end of ${after.join(", ")}` : "";
  return [times, ends, reason, estimated && "estimated from what jobs of the same size took lately"].filter(Boolean).join("; ");
}

/**
 * The name or number of where something is, which may be 0; empty where it is not known.
 * @param {string | number | null} value
 */
export function known(value) {
  return value === null ? "" : `${value}`;
}

/**
 * A time as the documents write it, for a reader.
 * @param {string} time
 */
export function clock(time) {
  const match = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)/.exec(time);
  return match ? `${match[1]} ${match[2]}` : time;
}

/** Chip numbers in a row as ranges: 0-3, 6.
 * @param {readonly number[]} numbers
 */
export function ranges(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  const parts = [];
  for (let start = 0; start < sorted.length; ) {
    let end = start;
    while (end + 1 < sorted.length && sorted[end + 1] === sorted[end] + 1) end += 1;
    parts.push(end === start ? `${sorted[start]}` : `${sorted[start]}-${sorted[end]}`);
    start = end + 1;
  }
  return parts.join(", ");
}

/** What the letters of the health of chips say. */
export const HEALTH = /** @type {Record<string, string>} */ ({
  h: "healthy",
  f: "faulty",
  s: "sub-healthy",
  n: "network fault",
  i: "isolated by an operator",
  u: "unknown, no report",
});

/** @param {string} letter */
export const healthText = (letter) => HEALTH[letter] ?? letter;

/**
 * The state of a node; of a drain with a time also when, of a reservation since or from when.
 * @param {import("./types.js").NodeRow} node
 */
export function nodeStateText(node) {
  const reserved = node.states[0].state === "reserved" ? node.states[0].start : null;
  if (reserved !== null) return `reserved from ${clock(rfc3339(reserved))}`;
  const start = drainStart(node);
  if (node.state !== "draining" || start === null) return node.state;
  return `${node.schedulable ? "drained at" : "draining since"} ${clock(rfc3339(start))}`;
}

/**
 * How a badge shows the state of a node.
 * @param {import("./types.js").NodeRow} node
 */
export function nodeStateKind(node) {
  if (node.state === "ready") return "running";
  return node.state === "not ready" || node.state === "unhealthy" ? "bad" : "waiting";
}
