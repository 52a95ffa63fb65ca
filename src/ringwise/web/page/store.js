// What the page knows of the cluster: the snapshot, with all changes since.

/** @typedef {import("./types.js").NodeRow} NodeRow */
/** @typedef {import("./types.js").JobRow} JobRow */
/** @typedef {import("./types.js").QueueRow} QueueRow */
/** @typedef {import("./types.js").Snapshot} Snapshot */
/** @typedef {import("./types.js").Change} Change */
/** @typedef {import("./types.js").Board} Board */

/** What the letters of the states of chips say. */
export const CHIP_STATES = /** @type {Record<string, "used" | "faulty" | "isolated" | "reserved" | "unschedulable" | "free">} */ ({
  u: "used",
  f: "faulty",
  i: "isolated",
  r: "reserved",
  c: "unschedulable",
  ".": "free",
});

/** State of a node -> its sign; those that close nothing have none. */
const SIGNS = /** @type {Record<string, import("./types.js").NodeSign>} */ ({
  "not ready": "not-ready",
  unhealthy: "unhealthy",
  invalid: "invalid",
  unstable: "invalid",
  draining: "draining",
  isolated: "closed",
  cordoned: "closed",
});

/**
 * What a listener is notified of. `nodes`: the rows that changed in place; null if nodes were added, removed
 * or moved to another group, so that everything that depends on the set of nodes must be rebuilt.
 * @typedef {{nodes: NodeRow[] | null, jobs: boolean}} StoreChange
 */

/** @type {import("./types.js").Totals} */
const NO_TOTALS = { resources: {}, pending: 0, rejected: 0, running: 0 };

export class Store {
  constructor() {
    /** Whether a snapshot has arrived. */
    this.loaded = false;
    this.epoch = "";
    this.sequence = 0;
    this.time = "";
    /** @type {import("./types.js").Source} */
    this.source = { kind: "", name: "", version: "", live: false, leader: "" };
    /** @type {Board[]} */
    this.boards = [];
    /** @type {Map<string, NodeRow>} in natural order of their names */
    this.nodes = new Map();
    /** @type {Map<number, JobRow>} */
    this.jobs = new Map();
    /** @type {Map<string, number>} namespace/name -> id */
    this.jobIds = new Map();
    /** @type {QueueRow[]} */
    this.queues = [];
    this.totals = NO_TOTALS;
    /** @type {Set<(change: StoreChange) => void>} */
    this._listeners = new Set();
  }

  /**
   * @param {(change: StoreChange) => void} listener
   * @returns {() => void} ends it
   */
  subscribe(listener) {
    this._listeners.add(listener);
    return () => void this._listeners.delete(listener);
  }

  /** @param {Snapshot} snapshot */
  load(snapshot) {
    this.loaded = true;
    this.epoch = snapshot.epoch;
    this.sequence = snapshot.sequence;
    this.time = snapshot.time;
    this.source = snapshot.source;
    this.boards = snapshot.boards;
    this.nodes = new Map(snapshot.nodes.map((node) => [node.name, node]));
    this.jobs = new Map(snapshot.jobs.map((job) => [job.id, job]));
    this.jobIds = new Map(snapshot.jobs.map((job) => [`${job.namespace}/${job.name}`, job.id]));
    this.queues = snapshot.queues;
    this.totals = snapshot.totals;
    this._tell({ nodes: null, jobs: true });
  }

  /** @param {Change} change */
  apply(change) {
    this.sequence = change.sequence;
    this.time = change.time;
    const nodesCameOrWent = this._applyNodes(change);
    for (const id of change.removed_jobs ?? []) {
      const gone = this.jobs.get(id);
      this.jobs.delete(id);
      // A new job of the same name may already have another id.
      if (gone && this.jobIds.get(`${gone.namespace}/${gone.name}`) === id) {
        this.jobIds.delete(`${gone.namespace}/${gone.name}`);
      }
    }
    for (const job of change.jobs ?? []) {
      this.jobs.set(job.id, job);
      this.jobIds.set(`${job.namespace}/${job.name}`, job.id);
    }
    if (change.queues?.length) this.queues = change.queues;
    if (change.totals) this.totals = change.totals;
    this._tell({
      nodes: nodesCameOrWent ? null : (change.nodes ?? []),
      jobs: Boolean(change.jobs?.length || change.removed_jobs?.length),
    });
  }

  /**
   * @param {Change} change
   * @returns {boolean} whether nodes came, went, or moved
   */
  _applyNodes(change) {
    let structure = false;
    let added = false;
    for (const name of change.removed_nodes ?? []) structure = this.nodes.delete(name) || structure;
    for (const node of change.nodes ?? []) {
      const before = this.nodes.get(node.name);
      added = added || !before;
      structure =
        structure ||
        !before ||
        before.board !== node.board ||
        before.switch !== node.switch ||
        before.superpod !== node.superpod ||
        before.rack !== node.rack ||
        before.numbers.length !== node.numbers.length;
      this.nodes.set(node.name, node);
    }
    if (added) {
      const sorted = [...this.nodes.values()].sort((a, b) => natural(a.name, b.name));
      this.nodes = new Map(sorted.map((node) => [node.name, node]));
    }
    return structure;
  }

  /**
   * @param {string} namespace
   * @param {string} name
   */
  job(namespace, name) {
    const id = this.jobIds.get(`${namespace}/${name}`);
    return id === undefined ? undefined : this.jobs.get(id);
  }

  /** @param {NodeRow} node */
  board(node) {
    return node.board === null ? undefined : this.boards[node.board];
  }

  /** What the chips of a node are; empty where its board is not known.
   * @param {NodeRow} node
   */
  resource(node) {
    return this.board(node)?.resource ?? "";
  }

  /** Whether the cluster has chips that cannot stand for each other. */
  get isMixed() {
    return Object.keys(this.totals.resources).length > 1;
  }

  /** @param {number} holder */
  holderName(holder) {
    const job = this.jobs.get(holder);
    return job ? jobName(job) : `job ${holder}`;
  }

  /** @param {StoreChange} change */
  _tell(change) {
    for (const listener of [...this._listeners]) listener(change);
  }
}

const COLLATOR = new Intl.Collator("en", { numeric: true });

/**
 * node-2 before node-10.
 * @param {string} a
 * @param {string} b
 */
export function natural(a, b) {
  return COLLATOR.compare(a, b) || (a < b ? -1 : a > b ? 1 : 0);
}

/** @param {JobRow} job */
export function jobName(job) {
  return `${job.namespace}/${job.name}`;
}

/** What became of a job so far, in the word that filters and badges use.
 * @param {JobRow} job
 * @returns {"running" | "pending" | "rejected" | "suspended" | "finished"}
 */
export function jobState(job) {
  if (job.state === "scheduled") return "running";
  return job.state === "rejected" || job.state === "suspended" || job.state === "finished" ? job.state : "pending";
}

/**
 * The chips of a node by state, as the server counts them: one that is in use and faulty or isolated counts as both.
 * `inUse` are those of the faulty and isolated ones.
 * @param {NodeRow} node
 */
export function chipCounts(node) {
  const counts = { chips: node.chip_states.length, used: 0, faulty: 0, isolated: 0, reserved: 0, unschedulable: 0, free: 0, inUse: { faulty: 0, isolated: 0 } };
  for (let i = 0; i < node.chip_states.length; i += 1) {
    const letter = node.chip_states[i];
    counts[CHIP_STATES[letter]] += 1;
    const also = letter === "u" ? CHIP_STATES[node.health[i]] : undefined;
    if (also !== "faulty" && also !== "isolated") continue;
    counts[also] += 1;
    counts.inUse[also] += 1;
  }
  return counts;
}

/**
 * When its drain begins or began, in nanoseconds since 1970; null: no time is set.
 * @param {NodeRow} node
 */
export function drainStart(node) {
  return node.states.find((one) => one.state === "draining" && one.start !== null)?.start ?? null;
}

/**
 * Why it takes no pods, or what is wrong with it; else empty.
 * @param {NodeRow} node
 */
export function nodeWhy(node) {
  return node.states[0].message;
}

/**
 * Which sign a node has on the map; empty: none.
 * @param {NodeRow} node
 * @returns {"" | import("./types.js").NodeSign}
 */
export function nodeSign(node) {
  const sign = SIGNS[node.state];
  // A scheduled drain does not take chips away before it starts.
  if (node.schedulable && (!sign || sign === "draining")) {
    if (drainStart(node) !== null) return "drain-ahead";
    return node.states.some((one) => one.state === "reserved") ? "reserved" : "";
  }
  return sign ?? (node.schedulable ? "" : "closed");
}

/**
 * The jobs that hold chips of a node -> how many.
 * @param {NodeRow} node
 * @returns {Map<number, number>}
 */
export function holdersOf(node) {
  const found = new Map();
  node.holders.forEach((_, i) => {
    for (const holder of jobsOnChip(node, i)) found.set(holder, (found.get(holder) ?? 0) + 1);
  });
  return found;
}

/**
 * The jobs that use a chip: several where it is shared or divided.
 * @param {NodeRow} node
 * @param {number} index
 * @returns {number[]}
 */
export function jobsOnChip(node, index) {
  const holder = node.holders[index];
  return node.jobs_on_chips?.[index] ?? (holder < 0 ? [] : [holder]);
}

/**
 * How much of a chip shares or vNPUs use, if a part of it is left; else 100.
 * @param {NodeRow} node
 * @param {number} index
 */
export function partlyUsed(node, index) {
  return node.chip_states[index] === "u" ? (node.used_percent?.[index] ?? 100) : 100;
}
