// What the map shows, in words: for the line below it, for screen readers and for tables.

import { grouped } from "./layout.js";
import { CHIP_STATES, chipCounts, holdersOf, jobsOnChip, nodeWhy, partlyUsed } from "./store.js";
import { count, healthText, nodeStateText, number, ranges, resourceText } from "./text.js";

/** @typedef {import("./types.js").NodeRow} NodeRow */
/** @typedef {import("./store.js").Store} Store */
/** @typedef {import("./layout.js").Group} Group */

/** @param {Group} group */
export function groupTitle(group) {
  if (!group.kind) return "all nodes";
  if (group.name) return `${group.kind} ${group.name}`;
  return group.kind === "board" ? "board not known" : `without a ${group.kind}`;
}

/**
 * @param {Group} group
 * @returns {NodeRow[]}
 */
export function nodesOf(group) {
  return [...group.nodes.map((node) => node.row), ...group.groups.flatMap(nodesOf)];
}

/**
 * Nodes and their chips, counted. The chips mean something where all nodes have the same resource.
 * @param {Iterable<NodeRow>} nodes
 */
export function summary(nodes) {
  const found = {
    nodes: 0, chips: 0, used: 0, faulty: 0, isolated: 0, reserved: 0, unschedulable: 0, free: 0, whollyFree: 0, nodesClosed: 0,
    /** @type {Set<number>} */
    jobs: new Set(),
    /** @type {Map<string, number>} state -> nodes, without those that are ready */
    states: new Map(),
  };
  for (const node of nodes) {
    const counts = chipCounts(node);
    found.nodes += 1;
    for (const name of /** @type {const} */ (["chips", "used", "faulty", "isolated", "reserved", "unschedulable", "free"])) found[name] += counts[name];
    if (counts.chips && counts.free === counts.chips) found.whollyFree += 1;
    if (!node.schedulable) found.nodesClosed += 1;
    if (node.state !== "ready") found.states.set(node.state, (found.states.get(node.state) ?? 0) + 1);
    for (const holder of node.holders) if (holder >= 0) found.jobs.add(holder);
  }
  return found;
}

/** The chips that no job may take, in words; some of them may be in use.
 * @param {{faulty: number, isolated: number, reserved: number, unschedulable: number}} counts
 */
export function withheldText(counts) {
  const names = /** @type {const} */ (["faulty", "isolated", "reserved", "unschedulable"]);
  return names.filter((name) => counts[name]).map((name) => `${number(counts[name])} ${name}`);
}

/** @param {Store} store @param {Group} group */
export function groupText(store, group) {
  const members = nodesOf(group);
  const found = summary(members);
  const byResource = grouped(members, (node) => store.resource(node));
  const parts = [
    `${groupTitle(group)}: ${count(found.nodes, "node")}`,
    ...byResource.flatMap(([resource, same]) => {
      const chips = summary(same);
      const kind = byResource.length > 1 ? ` ${resourceText(resource)}` : "";
      return [`${number(chips.free)} of ${count(chips.chips, "chip")}${kind} free`, ...withheldText(chips)];
    }),
    `${count(found.whollyFree, "node")} wholly free`,
    count(found.jobs.size, "job"),
    ...[...found.states].map(([state, nodes]) => `${count(nodes, "node")} ${state}`),
  ];
  return parts.join(", ");
}

/**
 * @param {Store} store
 * @param {NodeRow} node
 */
export function nodeText(store, node) {
  const counts = chipCounts(node);
  const parts = [`${node.name}: ${nodeStateText(node)}${nodeWhy(node) ? ` (${nodeWhy(node)})` : ""}`];
  if (modeText(node)) parts.push(modeText(node));
  parts.push([`${counts.free} of ${count(counts.chips, "chip")} free`, ...withheldText(counts)].join(", "));
  const holders = [...holdersOf(node)];
  if (holders.length) {
    parts.push(holders.map(([id, chips]) => `${store.holderName(id)} holds ${chips}`).join(", "));
  }
  const bad = unhealthyText(node);
  if (bad.length) parts.push(bad.join(", "));
  return parts.join("; ");
}

/** Its chips that are not healthy: a text for each kind of health.
 * @param {NodeRow} node
 */
export function unhealthyText(node) {
  return [...new Set(node.health)].filter((letter) => letter !== "h").map((letter) => {
    const chips = node.numbers.filter((_, i) => node.health[i] === letter);
    return `${chips.length === 1 ? "chip" : "chips"} ${ranges(chips)} ${healthText(letter)}`;
  });
}

/**
 * @param {Store} store
 * @param {NodeRow} node
 * @param {number} index
 */
export function chipText(store, node, index) {
  const words = [chipStateText(store, node, index)];
  const health = healthText(node.health[index]);
  if (!health.startsWith(words[0])) words.push(health);
  return `${node.name}, chip ${node.numbers[index]}: ${words.join(", ")}`;
}

/**
 * The state in which a chip counts; of one that a job holds, who does.
 * @param {Store} store
 * @param {NodeRow} node
 * @param {number} index
 */
export function chipStateText(store, node, index) {
  const jobs = jobsOnChip(node, index);
  if (!jobs.length) return CHIP_STATES[node.chip_states[index]];
  const others = jobs.length > 1 ? ` and ${count(jobs.length - 1, "other job")}` : "";
  const used = partlyUsed(node, index);
  return `held by ${store.holderName(jobs[0])}${others}${used < 100 ? `, ${used}% used` : ""}`;
}

const MODES = /** @type {Record<string, string>} */ ({ soft: "soft shares", static: "static vNPUs", dynamic: "dynamic vNPUs" });

/** How the chips of a node are given out; empty for whole chips. @param {NodeRow} node */
export function modeText(node) {
  return MODES[node.allocation_mode ?? ""] ?? "";
}

const LONGEST = 16;
const CHIP_SIGNS = /** @type {Record<string, string>} */ ({ u: "#", f: "x", i: "i", r: "~", c: "-", ".": "." });
const SIGNS_TEXT = "# used, . free, x faulty, X used and faulty, i isolated, ~ reserved, - closed";

/** What the signs of these nodes mean. @param {NodeRow[]} nodes */
export function signsText(nodes) {
  return nodes.some((node) => node.used_percent) ? `${SIGNS_TEXT}, 1-9 tenths used by shares or vNPUs` : SIGNS_TEXT;
}

/**
 * The chips of a node as the command line draws them, ring by ring.
 * @param {Store} store
 * @param {NodeRow} node
 */
export function chipSigns(store, node) {
  const signs = new Map(
    node.numbers.map((chip, i) => {
      const letter = node.chip_states[i];
      const used = partlyUsed(node, i);
      const sign = used < 100 ? `${Math.max(1, Math.floor(used / 10))}` : CHIP_SIGNS[letter];
      return [chip, letter === "u" && node.health[i] === "f" ? "X" : sign];
    }),
  );
  const known = (store.board(node)?.rings ?? []).map((ring) => ring.filter((chip) => signs.has(chip)));
  const inRings = new Set(known.flat());
  const others = node.numbers.filter((chip) => !inRings.has(chip));
  const rings = [...known, others].filter((ring) => ring.length);
  return `[${rings.map((ring) => short(ring.map((chip) => signs.get(chip) ?? ""))).join("|")}]`;
}

/** Sixty-four signs in a row cannot be read: they are counted.
 * @param {string[]} signs
 */
function short(signs) {
  if (signs.length <= LONGEST) return signs.join("");
  const counts = new Map();
  for (const sign of signs) counts.set(sign, (counts.get(sign) ?? 0) + 1);
  return [...counts].map(([sign, chips]) => `${chips}${sign}`).join(" ");
}
