// What colours say on the map, and the same in words.

import { chipCounts, jobName, usable } from "./store.js";
import { HEALTH } from "./text.js";

/** @typedef {import("./types.js").NodeRow} NodeRow */
/** @typedef {import("./store.js").Store} Store */
/** @typedef {[number, number, number]} Rgb */

/** @typedef {{label: string, colour: string, count: number, unit: "chip" | "node", job?: number, queue?: string, hatched?: boolean}} LegendEntry */

export const MODES = /** @type {Record<string, string>} */ ({
  job: "job",
  queue: "queue",
  health: "health",
  free: "free",
  fragmentation: "fragmentation",
});

/** Colours that do not depend on a name are in the style sheet, one set for each theme. */
const NAMES = /** @type {const} */ ([
  "page", "surface", "node", "line", "text", "muted", "accent",
  "free", "held", "partly-free", "partly-held", "wholly-free",
  "health-h", "health-f", "health-s", "health-n", "health-i", "health-u",
  "state-not-ready", "state-closed",
]);

export class Palette {
  /** @param {Element} element any of the page: its style has the colours of the theme */
  constructor(element) {
    const style = getComputedStyle(element);
    /** @type {Record<string, Rgb>} */
    this.rgb = {};
    for (const name of NAMES) this.rgb[name] = parseHex(style.getPropertyValue(`--map-${name}`));
    const page = this.rgb.page;
    this.dark = page[0] + page[1] + page[2] < 384;
    /** @type {Map<string, Rgb>} */
    this._named = new Map();
  }

  /**
   * The colour of the n-th job or queue: multiples of the golden ratio are far from each other for numbers near each
   * other. None has the red of faults.
   * @param {number} index
   * @returns {Rgb}
   */
  nth(index) {
    const key = `${index}`;
    let found = this._named.get(key);
    if (!found) {
      const hue = 40 + 300 * ((index * 0.6180339887) % 1);
      const step = index % 4;
      found = this.dark ? hsl(hue, 0.5, 0.46 + 0.08 * step) : hsl(hue, 0.52, 0.36 + 0.08 * step);
      this._named.set(key, found);
    }
    return found;
  }

  /** @param {string} letter */
  health(letter) {
    return this.rgb[`health-${letter}`] ?? this.rgb["health-u"];
  }
}

/** @param {Rgb} rgb */
export function css(rgb) {
  return `rgb(${rgb.join(" ")})`;
}

/**
 * One number as the pixels of a canvas have it on machines with little-endian order, which is all that browsers run on.
 * @param {Rgb} rgb
 */
export function pixel([r, g, b]) {
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

/**
 * @param {Rgb} a
 * @param {Rgb} b
 * @param {number} share of b
 * @returns {Rgb}
 */
export function mix(a, b, share) {
  return /** @type {Rgb} */ (a.map((part, i) => Math.round(part + (b[i] - part) * share)));
}

/** @param {string} text */
function parseHex(text) {
  const match = /^#(..)(..)(..)$/.exec(text.trim());
  return /** @type {Rgb} */ (match ? match.slice(1).map((part) => parseInt(part, 16)) : [128, 128, 128]);
}

/**
 * @param {number} hue in degrees
 * @param {number} saturation
 * @param {number} lightness
 * @returns {Rgb}
 */
function hsl(hue, saturation, lightness) {
  const chroma = saturation * Math.min(lightness, 1 - lightness);
  /** @param {number} n */
  const part = (n) => {
    const k = (n + hue / 30) % 12;
    return Math.round(255 * (lightness - chroma * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return [part(0), part(8), part(4)];
}

/**
 * The colours of the chips of a node, in order.
 * @param {string} mode
 * @param {Palette} palette
 * @param {Store} store
 * @param {NodeRow} node
 * @param {Map<string, number>} queueIndex
 * @returns {Rgb[]}
 */
export function chipColours(mode, palette, store, node, queueIndex) {
  const { rgb } = palette;
  const counts = mode === "fragmentation" ? chipCounts(node) : null;
  const partly = counts !== null && counts.free > 0 && counts.free < counts.chips - counts.unusable;
  return node.holders.map((holder, i) => {
    const letter = node.health[i];
    if (mode === "health") return palette.health(letter);
    if (letter === "f" || (holder < 0 && !usable(letter))) return palette.health(letter);
    if (mode === "free") return holder < 0 ? rgb.free : rgb.held;
    if (mode === "fragmentation") {
      if (partly) return holder < 0 ? rgb["partly-free"] : rgb["partly-held"];
      return holder < 0 ? rgb["wholly-free"] : rgb.held;
    }
    if (holder < 0) return rgb.free;
    if (mode === "job") return palette.nth(holder);
    const queue = store.jobs.get(holder)?.queue;
    return queue === undefined ? rgb.held : palette.nth(queueIndex.get(queue) ?? 0);
  });
}

/** @param {Store} store */
export function queueIndexes(store) {
  return new Map(store.queues.map((queue, i) => [queue.name, i + 1]));
}

const LEGEND_JOBS = 12;

/**
 * What is on the map now, in words and numbers.
 * @param {string} mode
 * @param {Palette} palette
 * @param {Store} store
 * @returns {LegendEntry[]}
 */
export function legend(mode, palette, store) {
  const { rgb } = palette;
  /** @type {Map<number, number>} */
  const byJob = new Map();
  /** @type {Record<string, number>} */
  const byHealth = {};
  /** @type {Record<string, number>} */
  const out = {};
  const chips = { free: 0, closed: 0, held: 0, partlyFree: 0, partlyHeld: 0, whollyFree: 0 };
  let [notReady, closed] = [0, 0];
  for (const node of store.nodes.values()) {
    if (node.state === "not-ready") notReady += 1;
    else if (node.state !== "ready") closed += 1;
    const counts = chipCounts(node);
    const partly = counts.free > 0 && counts.free < counts.chips - counts.unusable;
    for (let i = 0; i < node.holders.length; i += 1) {
      const [holder, letter] = [node.holders[i], node.health[i]];
      byHealth[letter] = (byHealth[letter] ?? 0) + 1;
      if (letter === "f" || (holder < 0 && !usable(letter))) out[letter] = (out[letter] ?? 0) + 1;
      else if (holder < 0) {
        if (node.state !== "ready") chips.closed += 1;
        else {
          chips.free += 1;
          if (partly) chips.partlyFree += 1;
          else chips.whollyFree += 1;
        }
      } else {
        chips.held += 1;
        if (partly) chips.partlyHeld += 1;
        byJob.set(holder, (byJob.get(holder) ?? 0) + 1);
      }
    }
  }
  /** @type {LegendEntry[]} */
  const entries = [];
  /** @param {string} label @param {Rgb} colour @param {number} count */
  const add = (label, colour, count) => entries.push({ label, colour: css(colour), count, unit: "chip" });
  if (mode === "health") {
    for (const letter of Object.keys(HEALTH)) {
      if (letter === "h" || byHealth[letter]) add(HEALTH[letter], palette.health(letter), byHealth[letter] ?? 0);
    }
  } else {
    if (mode === "free") {
      add("free", rgb.free, chips.free);
      add("held by a job", rgb.held, chips.held);
    } else if (mode === "fragmentation") {
      add("free, on a node that is wholly free", rgb["wholly-free"], chips.whollyFree);
      add("free, on a node that is partly in use", rgb["partly-free"], chips.partlyFree);
      add("held, on a node that is partly in use", rgb["partly-held"], chips.partlyHeld);
      add("held, on a node without free chips", rgb.held, chips.held - chips.partlyHeld);
    } else {
      add("free", rgb.free, chips.free);
      entries.push(...(mode === "job" ? jobEntries(byJob, palette, store) : queueEntries(byJob, palette, store)));
    }
    for (const letter of Object.keys(HEALTH)) {
      if (out[letter]) add(letter === "f" ? HEALTH[letter] : `not usable: ${HEALTH[letter]}`, palette.health(letter), out[letter]);
    }
  }
  if (notReady) entries.push({ label: "node not ready", colour: css(rgb["state-not-ready"]), count: notReady, unit: "node", hatched: true });
  if (chips.closed && mode !== "health") {
    entries.push({ label: "free, on a node that takes no pods", colour: css(rgb[mode === "fragmentation" ? "wholly-free" : "free"]), count: chips.closed, unit: "chip", hatched: true });
  }
  if (closed) entries.push({ label: "node cordoned or isolated", colour: css(rgb["state-closed"]), count: closed, unit: "node", hatched: true });
  return entries;
}

/**
 * @param {Map<number, number>} byJob
 * @param {Palette} palette
 * @param {Store} store
 * @returns {LegendEntry[]}
 */
function jobEntries(byJob, palette, store) {
  const sorted = [...byJob].sort(([a, chipsA], [b, chipsB]) => chipsB - chipsA || a - b);
  /** @type {LegendEntry[]} */
  const entries = sorted.slice(0, LEGEND_JOBS).map(([id, chips]) => {
    const job = store.jobs.get(id);
    return { label: job ? jobName(job) : `job ${id}`, colour: css(palette.nth(id)), count: chips, unit: "chip", job: id };
  });
  const rest = sorted.slice(LEGEND_JOBS);
  if (rest.length) {
    const chips = rest.reduce((sum, [, held]) => sum + held, 0);
    entries.push({ label: `${rest.length} smaller jobs, in other colours`, colour: "", count: chips, unit: "chip" });
  }
  return entries;
}

/**
 * @param {Map<number, number>} byJob
 * @param {Palette} palette
 * @param {Store} store
 * @returns {LegendEntry[]}
 */
function queueEntries(byJob, palette, store) {
  /** @type {Map<string, number>} */
  const byQueue = new Map();
  for (const [id, chips] of byJob) {
    const queue = store.jobs.get(id)?.queue ?? "";
    byQueue.set(queue, (byQueue.get(queue) ?? 0) + chips);
  }
  const indexes = queueIndexes(store);
  return [...byQueue]
    .sort(([, a], [, b]) => b - a)
    .map(([queue, chips]) => ({
      label: queue ? `queue ${queue}` : "queue not known",
      colour: css(queue ? palette.nth(indexes.get(queue) ?? 0) : palette.rgb.held),
      count: chips,
      unit: /** @type {const} */ ("chip"),
      queue,
    }));
}
