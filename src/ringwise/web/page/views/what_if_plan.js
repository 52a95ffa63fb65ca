// The last answer of the what-if, for the map.

/** @type {import("../types.js").PlaceDocument | null} */
let last = null;

/** @param {import("../types.js").PlaceDocument | null} answer */
export function keepPlan(answer) {
  last = answer;
}

/** @returns {Map<string, Set<number>>} node -> chip numbers */
export function plannedChips() {
  /** @type {Map<string, Set<number>>} */
  const found = new Map();
  for (const job of last?.jobs ?? []) {
    for (const pod of job.pods) {
      if (!pod.node) continue;
      const chips = found.get(pod.node) ?? new Set();
      for (const chip of pod.chips ?? []) chips.add(chip);
      found.set(pod.node, chips);
    }
  }
  return found;
}
