// Queues: their share, what they use, who waits.

import { useStore } from "../context.js";
import { Badge, Bar, Table, ViewHead } from "../elements.js";
import { html, useMemo } from "../html.js";
import { link } from "../routes.js";
import { natural } from "../store.js";
import { number, resourceText } from "../text.js";

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

/** What a queue has of one resource. @typedef {QueueInTree & {resource: string, isFirst: boolean, scale: number}} QueueLine */

/**
 * A line for each queue and resource: chips of one resource are of no use to a job that asks for another.
 * @param {QueueRow[]} queues
 * @param {Record<string, import("../types.js").ChipTotals>} totals
 * @returns {QueueLine[]}
 */
export function queueLines(queues, totals) {
  const resources = Object.keys(totals).length ? Object.keys(totals) : [""];
  const scales = new Map(resources.map((resource) => {
    const most = Math.max(1, ...queues.map((queue) => Math.max(...[queue.used, queue.fair_share, queue.capability].map((amounts) => amounts[resource] ?? 0))));
    return [resource, Math.min(most, Math.max(1, totals[resource]?.chips ?? 0))];
  }));
  return queueTree(queues).flatMap((queue) => resources.map((resource, i) => ({ ...queue, resource, isFirst: i === 0, scale: scales.get(resource) ?? 1 })));
}

export function QueuesView() {
  const { queues, totals, isMixed } = useStore();
  const rows = useMemo(() => queueLines(queues, totals.resources), [queues, totals]);
  return html`
    <${ViewHead} title="Queues" />
    <p class="faint">The bar is what a queue uses, the mark its share. A queue above its share can lose chips to others by reclaim.
      ${isMixed && " Each resource has its own line: its chips are shared among the queues by themselves."}</p>
    <${Table} label="Queues" rows=${rows} id=${(/** @type {QueueLine} */ line) => `${line.name} ${line.resource}`} columns=${columnsOf(isMixed)} empty="There are no queues." />`;
}

/** @param {boolean} isMixed @returns {import("../elements.js").Column<QueueLine>[]} */
function columnsOf(isMixed) {
  /** @param {QueueLine} line */
  const used = (line) => line.used[line.resource] ?? 0;
  /** @param {QueueLine} line */
  const share = (line) => line.fair_share[line.resource] ?? 0;
  /** @param {QueueLine} line */
  const limit = (line) => Math.min(line.capability[line.resource] ?? Infinity, line.limit[line.resource] ?? Infinity);
  /** @param {QueueLine} line */
  const kind = (line) => (isMixed ? ` ${resourceText(line.resource)}` : "");
  /** @type {import("../elements.js").Column<QueueLine>[]} */
  const resource = isMixed ? [{ title: "resource", cell: (line) => resourceText(line.resource), sort: (line) => line.resource }] : [];
  /** Jobs are counted once, in the first line of their queue.
   * @param {string} state @param {(line: QueueLine) => number} amount @param {string} verb
   * @returns {import("../elements.js").Column<QueueLine>}
   */
  const jobs = (state, amount, verb) => ({
    title: state,
    kind: "number",
    cell: (line) => line.isFirst && html`<a href=${link(["jobs"], { queue: line.name, state })} aria-label=${`${amount(line)} jobs of ${line.name} ${verb}`}>${number(amount(line))}</a>`,
    sort: amount,
  });
  return [
    { title: "queue", kind: "named", cell: (line) => html`<span class="tree" style=${{ paddingLeft: `${line.depth * 1.2}em` }}>${line.depth > 0 && html`<span class="faint" aria-hidden="true">└ </span>`}<bdi class="name">${line.name}</bdi></span>` },
    ...resource,
    { title: "state", cell: (line) => html`<${Badge} kind=${line.state === "Open" ? "running" : "waiting"}>${line.state}<//>`, sort: (line) => line.state },
    { title: "weight", cell: (line) => number(line.weight), sort: (line) => line.weight, kind: "number" },
    {
      title: "use",
      kind: "wide",
      cell: (line) => html`<${Bar} value=${used(line)} of=${line.scale} mark=${share(line)} text=${`uses ${number(used(line))}${kind(line)} chips, its share is ${number(share(line))}`} />`,
    },
    { title: "used", cell: (line) => number(used(line)), sort: used, kind: "number" },
    { title: "share", cell: (line) => number(share(line)), sort: share, kind: "number" },
    {
      title: "limit",
      kind: "number",
      cell: (line) => (limit(line) < Infinity ? number(limit(line)) : html`<span class="faint">no limit</span>`),
      sort: limit,
    },
    jobs("running", (line) => line.running, "run"),
    jobs("pending", (line) => line.pending, "are pending"),
    jobs("rejected", (line) => line.rejected, "are rejected"),
    { title: "map", cell: (line) => line.isFirst && html`<a href=${link(["map"], { queue: line.name, color: "queue" })} aria-label=${`Show ${line.name} on the map`}>show</a>` },
  ];
}
