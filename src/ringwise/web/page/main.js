// The page: header, navigation, and the view that the address asks for.

import { connection, store, useConnection, useStore } from "./context.js";
import { html, render, useEffect, useErrorBoundary, useRef, useState } from "./html.js";
import { link, useRoute } from "./routes.js";
import { clock, count, number, percent } from "./text.js";
import { currentTheme, setTheme, THEMES } from "./theme.js";
import { JobView } from "./views/job.js";
import { JobsView } from "./views/jobs.js";
import { MapView } from "./views/map.js";
import { NodeView } from "./views/node.js";
import { NodesView } from "./views/nodes.js";
import { OverTimeView } from "./views/over_time.js";
import { QueuesView } from "./views/queues.js";
import { WhatIfView } from "./views/what_if.js";

/** @typedef {import("./routes.js").Route} Route */

const VIEWS = /** @type {[string, string][]} */ ([
  ["map", "Map"],
  ["jobs", "Jobs"],
  ["nodes", "Nodes"],
  ["queues", "Queues"],
  ["what-if", "What-if"],
  ["over-time", "Over time"],
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
  if (view === "jobs" && first && second) return html`<${JobView} key=${`${first}/${second}`} namespace=${first} name=${second} />`;
  if (view === "jobs") return html`<${JobsView} settings=${route.settings} />`;
  if (view === "nodes" && first) return html`<${NodeView} key=${first} name=${first} />`;
  if (view === "nodes") return html`<${NodesView} settings=${route.settings} />`;
  if (view === "queues") return html`<${QueuesView} />`;
  if (view === "what-if") return html`<${WhatIfView} />`;
  if (view === "over-time") return html`<${OverTimeView} />`;
  return html`<${MapView} settings=${route.settings} />`;
}

/** Whether the page follows the cluster, in a word. */
function ConnectionState() {
  const status = useConnection();
  const { source, time } = useStore();
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
    <span><strong>${words[status.state]}</strong>${time && html` <span class="faint">at <time datetime=${time}>${clock(time)}</time></span>`}</span>
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

function Totals() {
  const { totals, loaded } = useStore();
  if (!loaded) return null;
  /** @param {string} name @param {string} value @param {string} [href] @param {string} [kind] */
  const item = (name, value, href, kind = "") => html`<div class=${kind} key=${name}>
    <dt>${name}</dt><dd>${href ? html`<a href=${href} aria-label=${`${name}: ${value}`}>${value}</a>` : value}</dd></div>`;
  return html`<dl class="totals" aria-label="Totals of the cluster">
    ${item("chips", number(totals.chips))}
    ${item("in use", `${number(totals.used)}`)}
    ${item("free", number(totals.free), link(["map"], { colour: "free" }))}
    ${item("faulty", number(totals.faulty), link(["map"], { colour: "health" }), totals.faulty ? "bad" : "")}
    ${item("isolated", number(totals.isolated))}
    ${totals.reserved > 0 && item("reserved", number(totals.reserved))}
    ${totals.closed > 0 && item("closed", number(totals.closed), link(["nodes"], { show: "bad" }))}
    ${item("jobs running", number(totals.running), link(["jobs"], { state: "running" }))}
    ${item("jobs waiting", number(totals.waiting), link(["jobs"], { state: "waiting" }), totals.waiting ? "warn" : "")}
    ${item("fragmentation", percent(totals.fragmentation), link(["map"], { colour: "fragmentation" }))}
  </dl>`;
}

function ThemeSwitch() {
  const [theme, change] = useState(currentTheme());
  return html`<label class="theme"><span class="visually-hidden">Colours of the page</span>
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
  useEffect(() => {
    // Another view: its heading gets the focus, unless the page was only just opened.
    if (opened.current !== address) document.getElementById("view-title")?.focus();
    opened.current = address;
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
      </nav>
      <${ThemeSwitch} />
    </header>
    <${Banner} />
    <${Totals} />
    <main>${loaded ? html`<${GuardedView} route=${route} />` : html`<p class="empty" role="status">Waiting for the state of the cluster.</p>`}</main>
    <footer>
      <span>Ringwise ${source.version}${loaded ? `, ${count(store.nodes.size, "node")}` : ""}. Nothing on this page changes the cluster.</span>
      <a href="api/">API</a>
    </footer>`;
}

setTheme(currentTheme());
const root = document.getElementById("app");
if (root) {
  root.replaceChildren();
  render(html`<${App} />`, root);
}
connection.start();

export { connection, store };
