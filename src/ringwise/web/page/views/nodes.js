// All nodes as a table: everything that the map says with colors, in words.

import { store, useStore } from "../context.js";
import { chipSigns, modeText, signsText, summary, unhealthyText, withheldText } from "../describe.js";
import { Badge, Name, NodeLink, Search, Select, Table, ViewHead } from "../elements.js";
import { html } from "../html.js";
import { boardName, grouped } from "../layout.js";
import { changeSettings } from "../routes.js";
import { chipCounts, holdersOf, nodeWhy } from "../store.js";
import { count, known, nodeStateKind, nodeStateText, number, resourceText } from "../text.js";

/** @typedef {import("../types.js").NodeRow} NodeRow */
/** The nodes of a group that have chips of one resource. @typedef {{name: string, resource: string, found: ReturnType<typeof summary>}} GroupRow */

const ROWS = /** @type {Record<string, string>} */ ({ node: "nodes", switch: "leaf switches", superpod: "SuperPoDs", rack: "racks", board: "boards" });
const TITLES = /** @type {Record<string, string>} */ ({ switch: "leaf switch", superpod: "SuperPoD", rack: "rack", board: "board" });
/** @type {Record<string, (node: NodeRow) => string>} */
const NAMES = {
  switch: (node) => known(node.switch),
  superpod: (node) => known(node.superpod),
  rack: (node) => (node.rack === null ? "" : `${known(node.superpod)} / ${node.rack}`),
  board: (node) => boardName(node, store.boards),
};
const SHOW = { "": "all", free: "with free chips", partly: "partly in use", bad: "with a problem" };

/** @param {{settings: URLSearchParams}} props */
export function NodesView({ settings }) {
  const { nodes } = useStore();
  const [text, show, rows] = [settings.get("text") ?? "", settings.get("show") ?? "", settings.get("rows") ?? "node"];
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [...nodes.values()].filter((node) => {
    const counts = chipCounts(node);
    if (show === "free" && !counts.free) return false;
    if (show === "partly" && (!counts.free || !counts.used)) return false;
    if (show === "bad" && node.state === "ready" && !/[^h]/.test(node.health)) return false;
    if (!words.length) return true;
    const jobs = [...holdersOf(node).keys()].map((id) => store.holderName(id)).join(" ");
    const all = `${node.name} ${known(node.switch)} ${known(node.superpod)} ${node.state} ${nodeWhy(node)} ${store.board(node)?.name ?? ""} ${jobs}`.toLowerCase();
    return words.every((word) => all.includes(word));
  });
  const inGroups = Object.hasOwn(NAMES, rows);
  return html`
    <${ViewHead} title="Nodes" />
    <div class="toolbar">
      <${Select} label="Rows are" options=${ROWS} value=${inGroups ? rows : "node"} onChange=${(/** @type {string} */ value) => changeSettings({ rows: value })} />
      <${Search} label="Filter" placeholder="words of a node, switch, job" value=${text} onInput=${(/** @type {string} */ value) => changeSettings({ text: value })} />
      <${Select} label="Show" options=${SHOW} value=${show} onChange=${(/** @type {string} */ value) => changeSettings({ show: value })} />
      <p class="found" role="status">${found.length === nodes.size ? count(nodes.size, "node") : `${number(found.length)} of ${count(nodes.size, "node")}`}</p>
    </div>
    ${inGroups
      ? html`<${Table} key=${rows} label=${ROWS[rows]} columns=${groupColumns(rows)} rows=${groupRows(found, rows)} id=${(/** @type {GroupRow} */ row) => `${row.name} ${row.resource}`} empty=${nodes.size ? "No node fits the filter." : "The cluster has no nodes."} />`
      : html`<p class="faint signs">Chips, ring by ring: ${signsText(found)}.</p>
        <${Table} key="node" label="Nodes" columns=${nodeColumns(found)} rows=${found} id=${(/** @type {NodeRow} */ node) => node.name} empty=${nodes.size ? "No node fits the filter." : "The cluster has no nodes."} />`}`;
}

/** @param {NodeRow} node */
function boardText(node) {
  return [store.board(node)?.name, modeText(node)].filter(Boolean).join(", ");
}

/** @param {NodeRow} node */
function stateBadge(node) {
  return html`<${Badge} kind=${nodeStateKind(node)}>${nodeStateText(node)}<//>
    ${nodeWhy(node) && html` <span class="faint"><bdi>${nodeWhy(node)}</bdi></span>`}`;
}

/** @param {NodeRow[]} nodes @returns {import("../elements.js").Column<NodeRow>[]} */
function nodeColumns(nodes) {
  /** @type {import("../elements.js").Column<NodeRow>[]} */
  const leaf = [{ title: "leaf switch", cell: (node) => html`<bdi>${known(node.switch)}</bdi>`, sort: (node) => known(node.switch) }];
  /** @type {import("../elements.js").Column<NodeRow>[]} */
  const superpod = [{ title: "SuperPoD", cell: (node) => html`<bdi>${known(node.superpod)}${node.rack === null ? "" : `, rack ${node.rack}`}</bdi>`, sort: (node) => known(node.superpod) }];
  return [
    { title: "node", kind: "named", cell: (node) => html`<${NodeLink} name=${node.name} />` },
    { title: "state", cell: stateBadge, sort: (node) => node.state },
    { title: "chips", cell: (node) => html`<code class="chip-signs">${chipSigns(store, node)}</code>` },
    { title: "free", cell: (node) => number(chipCounts(node).free), sort: (node) => chipCounts(node).free, kind: "number" },
    { title: "board", cell: boardText, sort: boardText },
    ...(nodes.some((node) => node.switch !== null) ? leaf : []),
    ...(nodes.some((node) => node.superpod !== null) ? superpod : []),
    {
      title: "jobs and health",
      kind: "wide",
      cell: (node) => html`${[...holdersOf(node)].map(([id, chips], i) => html`${i > 0 && ", "}<${Name}>${store.holderName(id)}<//> (${chips})`)}
        ${unhealthyText(node).map((text) => html` <${Badge} key=${text} kind="bad">${text}<//>`)}`,
    },
  ];
}

/**
 * @param {NodeRow[]} nodes
 * @param {string} field
 * @returns {GroupRow[]}
 */
function groupRows(nodes, field) {
  return grouped(nodes, NAMES[field]).flatMap(([name, members]) =>
    grouped(members, (node) => store.resource(node)).map(([resource, same]) => ({ name, resource, found: summary(same) })),
  );
}

/** @param {string} field @returns {import("../elements.js").Column<GroupRow>[]} */
function groupColumns(field) {
  /** @type {import("../elements.js").Column<GroupRow>[]} */
  const kind = store.isMixed ? [{ title: "resource", cell: (row) => resourceText(row.resource), sort: (row) => row.resource }] : [];
  return [
    { title: TITLES[field], cell: (row) => (row.name ? html`<${Name}>${row.name}<//>` : html`<span class="faint">none</span>`) },
    ...kind,
    { title: "nodes", cell: (row) => number(row.found.nodes), sort: (row) => row.found.nodes, kind: "number" },
    { title: "nodes wholly free", cell: (row) => number(row.found.whollyFree), sort: (row) => row.found.whollyFree, kind: "number" },
    { title: "chips", cell: (row) => number(row.found.chips), sort: (row) => row.found.chips, kind: "number" },
    { title: "used", cell: (row) => number(row.found.used), sort: (row) => row.found.used, kind: "number" },
    { title: "free", cell: (row) => number(row.found.free), sort: (row) => row.found.free, kind: "number" },
    { title: "not available", cell: (row) => withheldText(row.found).join(", "), sort: (row) => row.found.faulty + row.found.isolated + row.found.reserved + row.found.unschedulable },
    { title: "nodes closed", cell: (row) => number(row.found.nodesClosed), sort: (row) => row.found.nodesClosed, kind: "number" },
    { title: "jobs", cell: (row) => number(row.found.jobs.size), sort: (row) => row.found.jobs.size, kind: "number" },
  ];
}
