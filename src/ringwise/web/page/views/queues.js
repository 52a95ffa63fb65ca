// Queues: their share, what they use, who waits.

import { useStore } from "../context.js";
import { Badge, Bar, Table, ViewHead } from "../elements.js";
import { html, useMemo } from "../html.js";
import { link } from "../routes.js";
import { natural } from "../store.js";
import { number } from "../text.js";

/** @typedef {import("../types.js").QueueRow} QueueRow */
/** @typedef {QueueRow & {depth: number}} QueueInTree */

/**
 * Each queue below its parent.
 * @param {QueueRow[]} queues
 * @returns {QueueInTree[]}
 */
export function queueTree(queues) {
  const names = new Set(queues.map((queue) => queue.name));
  /** @type {QueueInTree[]} */
  const ordered = [];
  /** @type {Set<string>} */
  const seen = new Set();
  /** @param {QueueRow} queue @param {number} depth */
  const visit = (queue, depth) => {
    // Parents in a circle are an error of the cluster, and no reason to hang.
    if (seen.has(queue.name)) return;
    seen.add(queue.name);
    ordered.push({ ...queue, depth });
    for (const child of sorted.filter((other) => other.parent === queue.name)) visit(child, depth + 1);
  };
  const sorted = [...queues].sort((a, b) => natural(a.name, b.name));
  for (const queue of sorted) if (!names.has(queue.parent) || queue.parent === queue.name) visit(queue, 0);
  for (const queue of sorted) visit(queue, 0);
  return ordered;
}

export function QueuesView() {
  const { queues, totals } = useStore();
  const rows = useMemo(() => queueTree(queues), [queues]);
  const most = Math.max(1, ...queues.map((queue) => Math.max(queue.used, queue.share, queue.capability ?? 0)));
  const scale = Math.min(most, Math.max(1, totals.chips));
  return html`
    <${ViewHead} title="Queues" />
    <p class="faint">The bar is what a queue uses, the mark its share. A queue above its share can lose chips to others by reclaim.</p>
    <${Table} label="Queues" rows=${rows} id=${(/** @type {QueueInTree} */ queue) => queue.name} columns=${columnsOf(scale)} empty="There are no queues." />`;
}

/** @param {number} scale @returns {import("../elements.js").Column<QueueInTree>[]} */
function columnsOf(scale) {
  return [
    { title: "queue", kind: "named", cell: (queue) => html`<span class="tree" style=${{ paddingLeft: `${queue.depth * 1.2}em` }}>${queue.depth > 0 && html`<span class="faint" aria-hidden="true">└ </span>`}<bdi class="name">${queue.name}</bdi></span>` },
    { title: "state", cell: (queue) => html`<${Badge} kind=${queue.state === "Open" ? "running" : "waiting"}>${queue.state}<//>`, sort: (queue) => queue.state },
    { title: "weight", cell: (queue) => number(queue.weight), sort: (queue) => queue.weight, kind: "number" },
    {
      title: "use",
      kind: "wide",
      cell: (queue) => html`<${Bar} value=${queue.used} of=${scale} mark=${queue.share} text=${`uses ${number(queue.used)} chips, its share is ${number(queue.share)}`} />`,
    },
    { title: "used", cell: (queue) => number(queue.used), sort: (queue) => queue.used, kind: "number" },
    { title: "share", cell: (queue) => number(queue.share), sort: (queue) => queue.share, kind: "number" },
    { title: "at most", cell: (queue) => (queue.capability === null ? html`<span class="faint">no limit</span>` : number(queue.capability)), sort: (queue) => queue.capability ?? Infinity, kind: "number" },
    { title: "running", cell: (queue) => html`<a href=${link(["jobs"], { queue: queue.name, state: "running" })} aria-label=${`${queue.running} jobs of ${queue.name} run`}>${number(queue.running)}</a>`, sort: (queue) => queue.running, kind: "number" },
    { title: "waiting", cell: (queue) => html`<a href=${link(["jobs"], { queue: queue.name, state: "waiting" })} aria-label=${`${queue.waiting} jobs of ${queue.name} wait`}>${number(queue.waiting)}</a>`, sort: (queue) => queue.waiting, kind: "number" },
    { title: "map", cell: (queue) => html`<a href=${link(["map"], { queue: queue.name, colour: "queue" })} aria-label=${`Show ${queue.name} on the map`}>show</a>` },
  ];
}
