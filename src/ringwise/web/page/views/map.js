// The map of the cluster with its legend, and what the cursor is on in words.

import { CanvasMap } from "../canvas_map.js";
import { legend, MODES, Palette } from "../colors.js";
import { store, useStore } from "../context.js";
import { groupTitle } from "../describe.js";
import { Choice, JobLink, NodeLink, Search, Select, ViewHead } from "../elements.js";
import { html, useEffect, useMemo, useRef, useState } from "../html.js";
import { GROUPINGS, groupingsOf } from "../layout.js";
import { changeSettings, link } from "../routes.js";
import { holdersOf, jobName, natural } from "../store.js";
import { count, number, resourceText } from "../text.js";
import { onThemeChange } from "../theme.js";
import { plannedChips } from "./what_if_plan.js";

/** @typedef {import("../canvas_map.js").Place} Place */
/** @typedef {import("../layout.js").Group} Group */

const NOWHERE = { group: null, node: null, chip: -1 };

/** @param {{settings: URLSearchParams}} props */
export function MapView({ settings }) {
  const { nodes } = useStore();
  const possible = groupingsOf(nodes.values());
  const mode = settings.get("color") ?? "job";
  const asked = settings.get("group") ?? "";
  const grouping = possible.includes(asked) ? asked : possible[0];
  const color = Object.hasOwn(MODES, mode) ? mode : "job";
  const base = useRef(null);
  const overlay = useRef(null);
  const map = useRef(/** @type {CanvasMap | null} */ (null));
  const [cursor, setCursor] = useState(/** @type {{place: Place, text: string, path: Group[]}} */ ({ place: NOWHERE, text: "", path: [] }));
  const [hover, setHover] = useState({ text: "", x: 0, y: 0 });
  const highlight = useHighlight(settings);

  useEffect(() => {
    if (!base.current || !overlay.current) return undefined;
    const created = new CanvasMap(base.current, overlay.current, store, {
      onPlace: (place, text, path) => setCursor({ place, text, path }),
      onHover: (text, x, y) => setHover({ text, x, y }),
      onOpen: (node) => void (location.hash = link(["nodes", node])),
    });
    map.current = created;
    const unlisten = onThemeChange(() => created.themeChanged());
    return () => {
      unlisten();
      created.close();
    };
  }, []);
  useEffect(() => map.current?.setOptions({ mode: color, grouping, highlight }), [color, grouping, highlight]);
  const wanted = settings.get("node") ?? "";
  useEffect(() => showNode(map.current, wanted), [wanted, grouping]);

  return html`
    <${ViewHead} title="Map" />
    <div class="toolbar">
      <${Choice} label="Color by" name="color" options=${MODES} value=${color} onChange=${(/** @type {string} */ value) => changeSettings({ color: value })} />
      <${Select} label="Group by" options=${Object.fromEntries(possible.map((key) => [key, GROUPINGS[key]]))} value=${grouping}
        onChange=${(/** @type {string} */ value) => changeSettings({ group: value })} />
      <${Find} />
      <div class="buttons" role="group" aria-label="Zoom">
        <button type="button" onClick=${() => map.current?.zoom(1 / 1.5)} aria-label="Zoom out">−</button>
        <button type="button" onClick=${() => map.current?.zoom(1.5)} aria-label="Zoom in">+</button>
        <button type="button" onClick=${() => map.current?.fit()}>Whole cluster</button>
      </div>
    </div>
    <${HighlightNote} settings=${settings} />
    <div class="map-view">
      <div class="map-frame">
        <canvas ref=${base} class="map-base" aria-hidden="true"></canvas>
        <canvas ref=${overlay} class="map-overlay" tabindex="0" role="application" aria-roledescription="map"
          aria-label=${`Map of ${count(nodes.size, "node")}, colored by ${MODES[color]}`} aria-describedby="map-keys"></canvas>
        ${nodes.size === 0 && html`<p class="empty no-nodes" role="status">The cluster has no nodes.</p>`}
        ${hover.text && html`<div class="hover" aria-hidden="true" style=${hoverPlace(hover, overlay.current)}>${hover.text}</div>`}
      </div>
      <aside class="map-side" aria-label="Legend and cursor">
        <section class="panel cursor" aria-label="At the cursor">
          <h2>At the cursor</h2>
          <nav class="path" aria-label="Where the cursor is">
            <button type="button" class="plain" onClick=${() => { map.current?.setPlace(NOWHERE); map.current?.fit(); }}>Cluster</button>
            ${cursor.path.filter((group) => group.kind).map((group) => html`<span key=${group.kind}> › <button type="button" class="plain"
              onClick=${() => { map.current?.setPlace({ group, node: null, chip: -1 }); map.current?.showGroup(group); }}>${groupTitle(group)}</button></span>`)}
            ${cursor.place.node && html`<span> › <${NodeLink} name=${cursor.place.node.row.name} /></span>`}
          </nav>
          <p id="map-cursor" aria-live="polite">${cursor.text || "Nothing is selected. Click on the map, or use the arrow keys on it."}</p>
          <${Holders} place=${cursor.place} />
        </section>
        <${Legend} mode=${color} element=${overlay} />
        <p id="map-keys" class="keys">Keys on the map: arrows move the cursor, Enter goes in (group, node, chip, page of the node), Escape goes
          out, + and - zoom, 0 shows the whole cluster, o opens the page of the node.
          The same in words: <a href=${link(["nodes"])}>all nodes as a table</a>.</p>
      </aside>
    </div>`;
}

/** @param {{x: number, y: number}} hover @param {HTMLCanvasElement | null} canvas */
function hoverPlace({ x, y }, canvas) {
  const right = canvas && x > canvas.clientWidth / 2;
  const low = canvas && y > canvas.clientHeight - 90;
  return {
    left: right ? "auto" : `${x + 14}px`,
    right: right && canvas ? `${canvas.clientWidth - x + 14}px` : "auto",
    top: low ? "auto" : `${y + 14}px`,
    bottom: low && canvas ? `${canvas.clientHeight - y + 8}px` : "auto",
  };
}

/** @param {CanvasMap | null} map @param {string} name */
function showNode(map, name) {
  const node = map?.layout.nodes.get(name);
  if (!map || !node) return;
  map.setPlace({ group: node.leaf, node, chip: -1 });
  map.showNode(node);
}

/**
 * What the address asks to be highlighted: a job, a queue, or the last answer of the what-if.
 * @param {URLSearchParams} settings
 */
function useHighlight(settings) {
  const [job, queue, plan] = [settings.get("job") ?? "", settings.get("queue"), settings.get("plan")];
  const id = job ? store.jobIds.get(job) : undefined;
  return useMemo(() => {
    if (plan) return { chips: plannedChips() };
    if (job) return { job: id ?? -2 };
    return queue ? { queue } : {};
  }, [job, id, queue, plan]);
}

/** @param {{settings: URLSearchParams}} props */
function HighlightNote({ settings }) {
  const [job, queue, plan] = [settings.get("job"), settings.get("queue"), settings.get("plan")];
  if (!job && !queue && !plan) return null;
  const what = plan ? "the chips that the what-if would take" : job ? html`job <bdi>${job}</bdi>` : html`queue <bdi>${queue}</bdi>`;
  return html`<p class="note">Highlighted: ${what}.${" "}
    <button type="button" onClick=${() => changeSettings({ job: "", queue: "", plan: "" })}>Show all</button></p>`;
}

/** Find a node or a job by its name. */
function Find() {
  const [text, setText] = useState("");
  const { nodes, jobs } = useStore();
  const found = useMemo(() => {
    const wanted = text.trim().toLowerCase();
    if (!wanted) return [];
    /** @type {{title: string, settings: Record<string, string>}[]} */
    const hits = [];
    for (const name of nodes.keys()) {
      if (name.toLowerCase().includes(wanted)) hits.push({ title: name, settings: { node: name } });
      if (hits.length >= 6) break;
    }
    for (const job of jobs.values()) {
      if (hits.length >= 10) break;
      const name = jobName(job);
      if (name.toLowerCase().includes(wanted)) hits.push({ title: `job ${name}`, settings: { job: name, queue: "", plan: "" } });
    }
    return hits;
  }, [text, nodes, jobs.size]);
  return html`<div class="find">
    <${Search} label="Find" placeholder="node or job" value=${text} onInput=${setText} />
    ${text.trim() && html`<ul class="hits" aria-label="Found">
      ${found.map((hit) => html`<li key=${hit.title}><button type="button" class="plain" onClick=${() => { setText(""); changeSettings(hit.settings); }}>
        <bdi>${hit.title}</bdi></button></li>`)}
      ${!found.length && html`<li>nothing found</li>`}
    </ul>`}
  </div>`;
}

/** Links to the jobs of the node or chip at the cursor. @param {{place: Place}} props */
function Holders({ place }) {
  const row = place.node?.row;
  if (!row) return null;
  const ids = place.chip >= 0 ? [row.holders[place.chip]] : [...holdersOf(row).keys()];
  const held = ids.flatMap((id) => store.jobs.get(id) ?? []);
  return html`<ul class="links">
    ${held.map((job) => html`<li key=${job.id}><${JobLink} namespace=${job.namespace} name=${job.name} /></li>`)}
    <li><a href=${link(["nodes", row.name])}>Page of the node</a></li>
  </ul>`;
}

/**
 * How many chips, by resource where the cluster has several.
 * @param {Map<string, number>} chips
 */
function chipsText(chips) {
  if (!store.isMixed) return number([...chips.values()][0] ?? 0);
  const parts = [...chips].sort(([a], [b]) => natural(a, b));
  return parts.length ? parts.map(([resource, amount]) => html`<span key=${resource}>${number(amount)} <small>${resourceText(resource)}</small></span>`) : "0";
}

/** @param {{mode: string, element: {current: Element | null}}} props */
function Legend({ mode, element }) {
  useStore();
  const [palette, setPalette] = useState(/** @type {Palette | null} */ (null));
  useEffect(() => {
    const read = () => setPalette(element.current && new Palette(element.current));
    read();
    return onThemeChange(read);
  }, []);
  if (!palette) return null;
  const entries = legend(mode, palette, store);
  return html`<section class="panel" aria-label="Legend">
    <h2>Colored by ${MODES[mode]}</h2>
    <ul class="legend">
      ${entries.map((entry) => html`<li key=${entry.label}>
        <span class=${`swatch ${entry.sign ? `sign-${entry.sign}` : ""} ${entry.color ? "" : "many"}`} style=${{ "--swatch": entry.color || "transparent" }} aria-hidden="true"></span>
        ${entry.job !== undefined
          ? html`<button type="button" class="plain" title="Highlight this job" onClick=${() => changeSettings({ job: entry.label, queue: "", plan: "" })}><bdi>${entry.label}</bdi></button>`
          : entry.queue
            ? html`<button type="button" class="plain" title="Highlight this queue" onClick=${() => changeSettings({ queue: entry.queue ?? "", job: "", plan: "" })}><bdi>${entry.label}</bdi></button>`
            : html`<span>${entry.label}</span>`}
        <span class="amount">${entry.nodes === undefined ? chipsText(entry.chips) : count(entry.nodes, "node")}</span>
      </li>`)}
    </ul>
    <p class="faint">Numbers are chips, if nothing else is said. A cross on a chip: it is not healthy, or no report says that it is.</p>
  </section>`;
}
