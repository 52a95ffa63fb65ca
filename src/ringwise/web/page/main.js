// The page: header, navigation, and the view that the address asks for.

import { connection, store, useConnection, useStore } from "./context.js";
import { html, render, useEffect, useErrorBoundary, useLayoutEffect, useRef, useState } from "./html.js";
import { focusSearch, hideKeys, KeyList, showKeys, useKeys } from "./keys.js";
import { link, useRoute } from "./routes.js";
import { clock, count, number, percent, resourceText, throttledText } from "./text.js";
import { currentTheme, setTheme, THEMES } from "./theme.js";
import { AccountingView } from "./views/accounting.js";
import { JobView } from "./views/job.js";
import { JobsView } from "./views/jobs.js";
import { MapView } from "./views/map.js";
import { NodeView } from "./views/node.js";
import { NodesView } from "./views/nodes.js";
import { OperationsView } from "./views/operations.js";
import { OverTimeView } from "./views/over_time.js";
import { ProblemsView } from "./views/problems.js";
import { QueuesView } from "./views/queues.js";
import { WhatIfView } from "./views/what_if.js";

/** @typedef {import("./routes.js").Route} Route */

const VIEWS = /** @type {[string, string][]} */ ([
  ["problems", "Problems"],
  ["map", "Map"],
  ["jobs", "Jobs"],
  ["nodes", "Nodes"],
  ["queues", "Queues"],
  ["operations", "Operations"],
  ["what-if", "What-if"],
  ["over-time", "Over time"],
  ["accounting", "Accounting"],
]);

/** A view that cannot be drawn takes nothing else with it. @param {{route: Route}} props */
function GuardedView({ route }) {
  const [error, reset] = useErrorBoundary();
  const address = route.path.join("/");
  useEffect(() => reset(), [address]);
  if (error) {
    return html`<h1 id="view-title" tabindex="-1">Something is wrong with this view</h1>
      <p class="problem" role="alert">${error instanceof Error ? error.message : String(error)}</p>`;
  }
  return html`<${View} route=${route} />`;
}

/** @param {{route: Route}} props */
function View({ route }) {
  const [view = "map", first, second] = route.path;
  if (view === "problems") return html`<${ProblemsView} />`;
  if (view === "jobs" && first && second) return html`<${JobView} key=${`${first}/${second}`} namespace=${first} name=${second} />`;
  if (view === "jobs") return html`<${JobsView} settings=${route.settings} />`;
  if (view === "nodes" && first) return html`<${NodeView} key=${first} name=${first} />`;
  if (view === "nodes") return html`<${NodesView} settings=${route.settings} />`;
  if (view === "queues") return html`<${QueuesView} />`;
  if (view === "operations") return html`<${OperationsView} settings=${route.settings} />`;
  if (view === "what-if") return html`<${WhatIfView} />`;
  if (view === "over-time") return html`<${OverTimeView} />`;
  if (view === "accounting") return html`<${AccountingView} settings=${route.settings} />`;
  return html`<${MapView} settings=${route.settings} />`;
}

/** Whether the page follows the cluster, in a word. */
function ConnectionState() {
  const status = useConnection();
  const { source, time } = useStore();
  // Manifests are of no time.
  const timed = time !== "" && Date.parse(time) !== 0;
  const words = {
    connecting: "connecting",
    live: source.live ? "live" : "complete",
    waiting: "not connected",
    token: "a token is needed",
    standby: "standby replica",
    ended: "complete",
  };
  return html`<p class=${`connection connection-${status.state}`} role="status">
    <span class="dot" aria-hidden="true"></span>
    <span><strong>${words[status.state]}</strong>${timed && html` <span class="faint">at <time datetime=${time}>${clock(time)}</time></span>`}</span>
  </p>`;
}

function Banner() {
  const status = useConnection();
  if (status.state === "waiting") {
    return html`<div class="banner" role="alert">
      <p>Not connected: ${status.problem}. What is shown is the last known state. The page tries again by itself.</p>
      <button type="button" onClick=${() => connection.retry()}>Try now</button>
    </div>`;
  }
  if (status.state === "standby") {
    const safe = /^https?:\/\//.test(status.address);
    return html`<div class="banner" role="alert"><p>This replica is a standby.
      ${status.leader ? html` <bdi>${status.leader}</bdi> leads.` : " No replica leads at the moment."}
      ${safe && html` <a href=${status.address} rel="noreferrer">Open its page</a>`}</p></div>`;
  }
  if (status.state === "token") return html`<${TokenField} problem=${status.problem} />`;
  return null;
}

/** @param {{problem: string}} props */
function TokenField({ problem }) {
  const [token, setToken] = useState("");
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    if (token.trim()) connection.setToken(token);
  };
  return html`<form class="banner" onSubmit=${submit}>
    <p role="alert">The server asks for a bearer token of the cluster${problem ? `: ${problem}` : ""}. It is kept until this tab is closed.</p>
    <label class="field"><span>Token</span>
      <input type="password" autocomplete="off" value=${token} onInput=${(/** @type {any} */ event) => setToken(event.target.value)} />
    </label>
    <button type="submit">Use it</button>
  </form>`;
}

const NO_CHIPS = { chips: 0, used: 0, faulty: 0, isolated: 0, reserved: 0, unschedulable: 0, free: 0, until_drain: 0, fragmentation: 0 };

/**
 * What the header says of the chips of one resource.
 * @param {import("./types.js").ChipTotals} chips
 * @returns {{name: string, value: string, href?: string, kind?: string, left?: boolean}[]} left: out where it is 0
 */
function chipItems(chips) {
  // A chip is in one state, except that one in use may be faulty or isolated, too.
  const inUse = chips.used + chips.free + chips.faulty + chips.isolated + chips.reserved + chips.unschedulable - chips.chips;
  return [
    { name: "chips", value: number(chips.chips) },
    { name: "in use", value: number(chips.used) },
    { name: "free", value: number(chips.free), href: link(["map"], { color: "free" }) },
    { name: "of these only before a drain", value: number(chips.until_drain), href: link(["nodes"], { show: "bad" }), left: !chips.until_drain },
    { name: "faulty", value: number(chips.faulty), href: link(["map"], { color: "health" }), kind: chips.faulty ? "bad" : "" },
    { name: "isolated", value: number(chips.isolated) },
    { name: "of these in use", value: number(inUse), href: link(["map"], { color: "health" }), kind: "bad", left: !inUse },
    { name: "reserved", value: number(chips.reserved), left: !chips.reserved },
    { name: "unschedulable", value: number(chips.unschedulable), href: link(["nodes"], { show: "bad" }), left: !chips.unschedulable },
    { name: "fragmentation", value: percent(chips.fragmentation), href: link(["map"], { color: "fragmentation" }) },
  ];
}

/** @param {{items: ReturnType<typeof chipItems>, label: string}} props */
function TotalsLine({ items, label }) {
  return html`<dl class="totals" aria-label=${label}>
    ${items.filter((item) => !item.left).map(({ name, value, href, kind = "" }) => html`<div class=${kind} key=${name}>
      <dt>${name}</dt><dd>${href ? html`<a href=${href} aria-label=${`${name}: ${value}`}>${value}</a>` : value}</dd></div>`)}
  </dl>`;
}

function Totals() {
  const { totals, loaded, isMixed } = useStore();
  if (!loaded) return null;
  const jobs = [
    { name: "jobs running", value: number(totals.running), href: link(["jobs"], { state: "running" }) },
    { name: "jobs pending", value: number(totals.pending), href: link(["jobs"], { state: "pending" }), kind: totals.pending ? "warn" : "" },
    { name: "jobs rejected", value: number(totals.rejected), href: link(["jobs"], { state: "rejected" }), kind: totals.rejected ? "warn" : "", left: !totals.rejected },
    { name: "throttled namespaces", value: throttledText(totals.throttled ?? {}), href: link(["jobs"], { state: "pending" }), kind: "warn", left: !totals.throttled },
  ];
  const resources = Object.entries(totals.resources);
  if (!isMixed) return html`<${TotalsLine} label="Totals of the cluster" items=${[...chipItems(resources[0]?.[1] ?? NO_CHIPS), ...jobs]} />`;
  const rows = resources.map(([resource, chips]) => ({ resource, items: chipItems(chips) }));
  // A column stays where any resource needs it.
  const shown = rows[0].items.map((_, i) => rows.some(({ items }) => !items[i].left));
  return html`<div class="totals-mixed">
    <table role="table" aria-label="Totals of the cluster by resource">
      <thead role="rowgroup"><tr role="row"><th role="columnheader" scope="col">resource</th>
        ${rows[0].items.map(({ name }, i) => shown[i] && html`<th key=${name} role="columnheader" scope="col" class="number">${name}</th>`)}</tr></thead>
      <tbody role="rowgroup">${rows.map(({ resource, items }) => html`<tr key=${resource} role="row">
        <td role="cell" class="named" title=${resource}><div class="value"><bdi>${resourceText(resource)}</bdi></div></td>
        ${items.map(({ name, value, href, kind = "" }, i) => shown[i] && html`<td key=${name} role="cell" data-title=${name} class=${`number ${kind}`}><div class="value">
          ${href ? html`<a href=${href} aria-label=${`${name}, ${resourceText(resource)}: ${value}`}>${value}</a>` : value}</div></td>`)}</tr>`)}</tbody>
    </table>
    <${TotalsLine} label="Jobs of the cluster" items=${jobs} />
  </div>`;
}

function ThemeSwitch() {
  const [theme, change] = useState(currentTheme());
  return html`<label class="theme"><span class="visually-hidden">Colors of the page</span>
    <select value=${theme} onChange=${(/** @type {any} */ event) => { setTheme(event.target.value); change(event.target.value); }}>
      ${Object.entries(THEMES).map(([key, title]) => html`<option key=${key} value=${key} selected=${key === theme}>${title}</option>`)}
    </select>
  </label>`;
}

function App() {
  const route = useRoute();
  const { source, loaded } = useStore();
  const view = route.path[0] ?? "map";
  const address = route.path.join("/");
  const opened = useRef(address);
  const searches = useKeys();
  // Before the view is painted: who reads its heading finds the focus there, and no key pressed at once is lost.
  useLayoutEffect(() => {
    // Another view: its heading gets the focus, unless the page was only just opened.
    if (opened.current !== address) hideKeys();
    if (opened.current !== address && !(searches.current && focusSearch())) document.getElementById("view-title")?.focus();
    opened.current = address;
    searches.current = false;
  }, [address]);
  return html`
    <a class="skip" href="#view-title" onClick=${(/** @type {Event} */ event) => { event.preventDefault(); document.getElementById("view-title")?.focus(); }}>To the content</a>
    <header>
      <div class="brand">
        <img src="page/icon.svg" alt="" width="22" height="22" />
        <strong>Ringwise</strong>
        ${loaded && html`<span class="source"><span class="faint">${source.kind}</span> <bdi>${source.name}</bdi></span>`}
      </div>
      <${ConnectionState} />
      <nav class="views" aria-label="Views">
        ${VIEWS.map(([key, title]) => html`<a key=${key} href=${link([key])} aria-current=${view === key ? "page" : undefined}>${title}</a>`)}
        <label><span class="visually-hidden">View</span>
          <select value=${view} onChange=${(/** @type {any} */ event) => void (location.hash = link([event.target.value]))}>
            ${VIEWS.map(([key, title]) => html`<option key=${key} value=${key} selected=${key === view}>${title}</option>`)}
          </select></label>
      </nav>
    </header>
    <${Banner} />
    <${Totals} />
    <main>${loaded ? html`<${GuardedView} route=${route} />` : html`<p class="empty" role="status">Waiting for the state of the cluster.</p>`}</main>
    <footer>
      <span>Ringwise ${source.version}${loaded ? html`, ${source.kind} <bdi>${source.name}</bdi>, ${count(store.nodes.size, "node")}` : ""}. Nothing on this page changes the cluster.</span>
      <a href="api/">API</a>
      <button type="button" class="plain" onClick=${showKeys}>Keys</button>
      <${ThemeSwitch} />
    </footer>
    <${KeyList} />`;
}

setTheme(currentTheme());
const root = document.getElementById("app");
if (root) {
  root.replaceChildren();
  render(html`<${App} />`, root);
}
connection.start();

export { connection, store };
