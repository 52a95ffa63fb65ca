// What the map shows, in words: for the line below it, for screen readers and for tables.

import { chipCounts, holdersOf } from "./store.js";
import { count, healthText, nodeStateText, number } from "./text.js";

/** @typedef {import("./types.js").NodeRow} NodeRow */
/** @typedef {import("./store.js").Store} Store */
/** @typedef {import("./layout.js").Group} Group */

/** @param {Group} group */
export function groupTitle(group) {
  if (!group.kind) return "all nodes";
  return group.name ? `${group.kind} ${group.name}` : `without a ${group.kind}`;
}

/**
 * @param {Group} group
 * @returns {NodeRow[]}
 */
export function nodesOf(group) {
  return [...group.nodes.map((node) => node.row), ...group.groups.flatMap(nodesOf)];
}

/**
 * Nodes and their chips, counted.
 * @param {Iterable<NodeRow>} nodes
 */
export function summary(nodes) {
  const found = { nodes: 0, chips: 0, free: 0, held: 0, unusable: 0, whollyFree: 0, notReady: 0, closed: 0, jobs: new Set() };
  for (const node of nodes) {
    const counts = chipCounts(node);
    found.nodes += 1;
    found.chips += counts.chips;
    found.free += counts.free;
    found.held += counts.held;
    found.unusable += counts.unusable;
    if (counts.chips && counts.free === counts.chips) found.whollyFree += 1;
    if (node.state === "not-ready") found.notReady += 1;
    else if (node.state !== "ready") found.closed += 1;
    for (const holder of node.holders) if (holder >= 0) found.jobs.add(holder);
  }
  return found;
}

/** @param {Group} group */
export function groupText(group) {
  const found = summary(nodesOf(group));
  const parts = [
    `${groupTitle(group)}: ${count(found.nodes, "node")}`,
    `${number(found.free)} of ${count(found.chips, "chip")} free`,
    `${count(found.whollyFree, "node")} wholly free`,
    count(found.jobs.size, "job"),
  ];
  if (found.unusable) parts.push(`${count(found.unusable, "free chip")} not usable`);
  if (found.notReady) parts.push(`${count(found.notReady, "node")} not ready`);
  if (found.closed) parts.push(`${count(found.closed, "node")} cordoned or isolated`);
  return parts.join(", ");
}

/**
 * @param {Store} store
 * @param {NodeRow} node
 */
export function nodeText(store, node) {
  const counts = chipCounts(node);
  const parts = [`${node.name}: ${nodeStateText(node.state)}${node.why ? ` (${node.why})` : ""}`];
  parts.push(`${counts.free} of ${count(counts.chips, "chip")} free`);
  const holders = [...holdersOf(node)];
  if (holders.length) {
    parts.push(holders.map(([id, chips]) => `${store.holderName(id)} holds ${chips}`).join(", "));
  }
  const bad = [...node.health].flatMap((letter, i) => (letter === "h" ? [] : [`chip ${node.numbers[i]} ${healthText(letter)}`]));
  if (bad.length) parts.push(bad.join(", "));
  return parts.join("; ");
}

/**
 * @param {Store} store
 * @param {NodeRow} node
 * @param {number} index
 */
export function chipText(store, node, index) {
  const holder = node.holders[index];
  const held = holder < 0 ? "free" : `held by ${store.holderName(holder)}`;
  return `${node.name}, chip ${node.numbers[index]}: ${held}, ${healthText(node.health[index])}`;
}

/**
 * The chips of a node as the command line draws them, ring by ring: `#` held, `.` free, `x` faulty, `-` not usable.
 * @param {Store} store
 * @param {NodeRow} node
 */
export function chipSigns(store, node) {
  const signs = new Map(
    node.numbers.map((chip, i) => {
      const [holder, letter] = [node.holders[i], node.health[i]];
      if (letter === "f") return [chip, "x"];
      if (holder >= 0) return [chip, "#"];
      return [chip, letter === "h" || letter === "s" ? "." : "-"];
    }),
  );
  const known = (store.board(node)?.rings ?? []).map((ring) => ring.filter((chip) => signs.has(chip)));
  const inRings = new Set(known.flat());
  const others = node.numbers.filter((chip) => !inRings.has(chip));
  const rings = [...known, others].filter((ring) => ring.length);
  return `[${rings.map((ring) => ring.map((chip) => signs.get(chip)).join("")).join("|")}]`;
}
