// What colors say on the map, and the same in words.

import { chipCounts, jobName, jobsOnChip, nodeSign } from "./store.js";
import { HEALTH } from "./text.js";

/** @typedef {import("./types.js").NodeRow} NodeRow */
/** @typedef {import("./store.js").Store} Store */
/** @typedef {[number, number, number]} Rgb */

/**
 * `chips` is by resource: of chips that cannot stand for each other there is no sum.
 * @typedef {{label: string, color: string, chips: Map<string, number>, nodes?: number, job?: number, queue?: string, sign?: import("./types.js").NodeSign | "divided"}} LegendEntry
 */

export const MODES = /** @type {Record<string, string>} */ ({
  job: "job",
  queue: "queue",
  health: "health",
  free: "free",
  fragmentation: "fragmentation",
});

/** Colors that do not depend on a name are in the style sheet, one set for each theme. */
const NAMES = /** @type {const} */ ([
  "page", "surface", "node", "line", "text", "muted", "accent",
  "free", "held", "partly-free", "partly-held", "wholly-free",
  "health-h", "health-f", "health-s", "health-n", "health-i", "health-u",
  "reserved", "closed",
  "sign-not-ready", "sign-unhealthy", "sign-invalid", "sign-draining", "sign-closed", "sign-drain-ahead",
  "sign-reserved",
]);

export class Palette {
  /** @param {Element} element any of the page: its style has the colors of the theme */
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
   * The color of the n-th job or queue: multiples of the golden ratio are far from each other for numbers near each
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

  /** Of a chip that is neither used nor free.
   * @param {string} letter of its state
   */
  withheld(letter) {
    return letter === "r" ? this.rgb.reserved : letter === "c" ? this.rgb.closed : this.health(letter);
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
 * The colors of the chips of a node, in order.
 * @param {string} mode
 * @param {Palette} palette
 * @param {Store} store
 * @param {NodeRow} node
 * @param {Map<string, number>} queueIndex
 * @returns {Rgb[]}
 */
export function chipColors(mode, palette, store, node, queueIndex) {
  const { rgb } = palette;
  const partly = mode === "fragmentation" && node.chip_states.includes("u") && node.chip_states.includes(".");
  return node.holders.map((holder, i) => {
    if (mode === "health") return palette.health(node.health[i]);
    const letter = node.chip_states[i];
    if (letter !== "u" && letter !== ".") return palette.withheld(letter);
    const free = letter === ".";
    if (mode === "free") return free ? rgb.free : rgb.held;
    if (mode === "fragmentation") {
      if (partly) return free ? rgb["partly-free"] : rgb["partly-held"];
      return free ? rgb["wholly-free"] : rgb.held;
    }
    if (free) return rgb.free;
    if (holder < 0) return rgb.held;
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

/** Chips counted by a key, and there by resource.
 * @template K
 */
class Tally {
  constructor() {
    /** @type {Map<K, Map<string, number>>} */
    this.of = new Map();
  }

  /** @param {K} key @param {string} resource @param {number} [chips] */
  add(key, resource, chips = 1) {
    if (!chips) return;
    const known = this.of.get(key) ?? new Map();
    this.of.set(key, known.set(resource, (known.get(resource) ?? 0) + chips));
  }

  /** @param {K} key @returns {Map<string, number>} */
  chips(key) {
    return this.of.get(key) ?? new Map();
  }
}

/** @param {Map<string, number>} chips */
const most = (chips) => Math.max(0, ...chips.values());

/**
 * What is on the map now, in words and numbers.
 * @param {string} mode
 * @param {Palette} palette
 * @param {Store} store
 * @returns {LegendEntry[]}
 */
export function legend(mode, palette, store) {
  const { rgb } = palette;
  /** @type {Tally<number>} */
  const byJob = new Tally();
  /** @type {Tally<string>} */
  const byHealth = new Tally();
  /** @type {Record<string, number>} health of chips in use */
  const inUse = {};
  // What has the color of its job, although it is faulty or isolated.
  const held = { faulty: 0, isolated: 0, reserved: 0, unschedulable: 0 };
  /** @type {Tally<typeof STATES[number] | "partly free" | "wholly free" | "partly used" | "wholly used">} */
  const chips = new Tally();
  /** @type {Map<import("./types.js").NodeSign, number>} */
  const signs = new Map();
  let divided = 0;
  for (const node of store.nodes.values()) {
    const [sign, resource] = [nodeSign(node), store.resource(node)];
    if (sign) signs.set(sign, (signs.get(sign) ?? 0) + 1);
    const counts = chipCounts(node);
    for (const name of STATES) chips.add(name, resource, counts[name] - (name === "faulty" || name === "isolated" ? counts.inUse[name] : 0));
    for (const name of /** @type {const} */ (["faulty", "isolated"])) held[name] += counts.inUse[name];
    const part = counts.used && counts.free ? "partly" : "wholly";
    chips.add(`${part} free`, resource, counts.free);
    chips.add(`${part} used`, resource, counts.used);
    for (let i = 0; i < node.chip_states.length; i += 1) {
      const letter = node.health[i];
      byHealth.add(letter, resource);
      if (node.chip_states[i] !== "u") continue;
      inUse[letter] = (inUse[letter] ?? 0) + 1;
      const jobs = jobsOnChip(node, i);
      for (const job of jobs.length ? jobs : [-1]) byJob.add(job, resource);
    }
    if (node.allocation_mode) divided += 1;
  }
  /** @type {LegendEntry[]} */
  const entries = [];
  /** @param {string} label @param {Rgb} color @param {Map<string, number>} found */
  const add = (label, color, found) => entries.push({ label, color: css(color), chips: found });
  if (mode === "health") {
    for (const letter of Object.keys(HEALTH)) {
      if (letter !== "h" && !most(byHealth.chips(letter))) continue;
      const also = letter !== "h" && inUse[letter] ? `, ${inUse[letter]} of them in use` : "";
      add(`${HEALTH[letter]}${also}`, palette.health(letter), byHealth.chips(letter));
    }
  } else {
    if (mode === "free") {
      add("free", rgb.free, chips.chips("free"));
      add("used", rgb.held, chips.chips("used"));
    } else if (mode === "fragmentation") {
      add("free, on a node without used chips", rgb["wholly-free"], chips.chips("wholly free"));
      add("free, on a node that is partly in use", rgb["partly-free"], chips.chips("partly free"));
      add("used, on a node that is partly in use", rgb["partly-held"], chips.chips("partly used"));
      add("used, on a node without free chips", rgb.held, chips.chips("wholly used"));
    } else {
      add("free", rgb.free, chips.chips("free"));
      entries.push(...(mode === "job" ? jobEntries(byJob, palette, store) : queueEntries(byJob, palette, store)));
    }
    for (const [letter, name, label] of WITHHELD) if (most(chips.chips(name))) add(held[name] ? `${label}, not in use` : label, palette.withheld(letter), chips.chips(name));
  }
  if (divided) entries.push({ label: "node with soft shares or vNPUs; a chip is filled as far as it is used", color: css(rgb.text), chips: new Map(), nodes: divided, sign: "divided" });
  for (const [sign, label] of Object.entries(SIGN_TEXTS)) {
    const nodes = signs.get(/** @type {import("./types.js").NodeSign} */ (sign));
    if (nodes) entries.push({ label, color: css(rgb[`sign-${sign}`]), chips: new Map(), nodes, sign: /** @type {import("./types.js").NodeSign} */ (sign) });
  }
  return entries;
}

const STATES = /** @type {const} */ (["used", "faulty", "isolated", "reserved", "unschedulable", "free"]);
const WITHHELD = /** @type {const} */ ([
  ["f", "faulty", "faulty"],
  ["i", "isolated", "isolated by an operator"],
  ["r", "reserved", "reserved for one job, queue or namespace"],
  ["c", "unschedulable", "unschedulable: the node accepts no new pods"],
]);
const SIGN_TEXTS = /** @type {Record<import("./types.js").NodeSign, string>} */ ({
  "not-ready": "node not ready",
  unhealthy: "node unhealthy",
  invalid: "node invalid or unstable",
  draining: "node draining",
  closed: "node cordoned or isolated",
  "drain-ahead": "node drained at a time ahead",
  reserved: "node reserved for a queue or a namespace",
});

/**
 * Whether a pixel of a node belongs to its sign: a pattern of its own for each, so that color alone says nothing.
 * @param {import("./types.js").NodeSign} sign
 * @param {number} x from the left of the node
 * @param {number} y from its top
 * @param {number} width
 * @param {number} period of the pattern
 * @param {number} thick of its lines
 */
export function inSign(sign, x, y, width, period, thick) {
  const rising = (x + y) % period < thick;
  const falling = (((x - y) % period) + period) % period < thick;
  switch (sign) {
    case "not-ready": return rising;
    case "closed": return falling;
    case "unhealthy": return rising || falling;
    case "draining": return y % period < thick;
    case "invalid": return x % period < 2 * thick && y % period < 2 * thick;
    // A corner each: what is still open stays as it is.
    case "reserved": return x + y < Math.max(2 * thick, Math.min(width / 3, 2 * period));
    default: return width - x + y < Math.max(2 * thick, Math.min(width / 3, 2 * period));
  }
}

/**
 * @param {Tally<number>} byJob
 * @param {Palette} palette
 * @param {Store} store
 * @returns {LegendEntry[]}
 */
function jobEntries(byJob, palette, store) {
  const sorted = [...byJob.of].sort(([a, chipsA], [b, chipsB]) => most(chipsB) - most(chipsA) || a - b);
  /** @type {LegendEntry[]} */
  const entries = sorted.slice(0, LEGEND_JOBS).map(([id, chips]) => {
    const job = store.jobs.get(id);
    if (id < 0) return { label: "used, by a job that is not known", color: css(palette.rgb.held), chips };
    return { label: job ? jobName(job) : `job ${id}`, color: css(palette.nth(id)), chips, job: id };
  });
  const rest = sorted.slice(LEGEND_JOBS);
  if (rest.length) {
    /** @type {Tally<string>} */
    const smaller = new Tally();
    for (const [, chips] of rest) for (const [resource, held] of chips) smaller.add("", resource, held);
    entries.push({ label: `${rest.length} smaller jobs, in other colors`, color: "", chips: smaller.chips("") });
  }
  return entries;
}

/**
 * @param {Tally<number>} byJob
 * @param {Palette} palette
 * @param {Store} store
 * @returns {LegendEntry[]}
 */
function queueEntries(byJob, palette, store) {
  /** @type {Tally<string>} */
  const byQueue = new Tally();
  for (const [id, chips] of byJob.of) {
    for (const [resource, held] of chips) byQueue.add(store.jobs.get(id)?.queue ?? "", resource, held);
  }
  const indexes = queueIndexes(store);
  return [...byQueue.of]
    .sort(([, a], [, b]) => most(b) - most(a))
    .map(([queue, chips]) => ({
      label: queue ? `queue ${queue}` : "queue not known",
      color: css(queue ? palette.nth(indexes.get(queue) ?? 0) : palette.rgb.held),
      chips,
      queue,
    }));
}
