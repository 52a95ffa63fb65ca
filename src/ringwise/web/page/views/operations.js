// What operators want of the cluster: reservations, isolations, limits, moves and HyperNodes, as commands print them.

import { store, useDocument, useStore } from "../context.js";
import { Choice, JobLink, JobLinkByKey, NodeLink, Problem, Section, Since, Table, ViewHead } from "../elements.js";
import { html } from "../html.js";
import { changeSettings } from "../routes.js";
import { number } from "../text.js";

/** @typedef {Record<string, any>} Fields */

/** Tab -> its title, and its documents. */
const TABS = /** @type {Record<string, {title: string, documents: string[]}>} */ ({
  reservations: { title: "Reservations", documents: ["reservations"] },
  isolations: { title: "Isolations", documents: ["isolations"] },
  limits: { title: "Limits", documents: ["limits", "usagelimits"] },
  moves: { title: "Moves", documents: ["moves", "moveplans", "defrag-plan"] },
  hypernodes: { title: "HyperNodes", documents: ["hypernodes"] },
});
/** Milliseconds between two questions: the answers are about the whole cluster. */
const PAUSE = 5000;
/** Values of a list in one cell. */
const SHOWN = 5;
/** A number that is larger is a time in nanoseconds since 1970, in 2001 or later; amounts of memory are smaller. */
const LEAST_TIME = 1e18;
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;
/** Fields that identify a row or a part of it: their values stand without their names. */
const NAMES = ["name", "node", "job", "pod", "kind", "message"];

/** @param {{settings: URLSearchParams}} props */
export function OperationsView({ settings }) {
  const asked = settings.get("tab") ?? "";
  const tab = Object.hasOwn(TABS, asked) ? asked : "reservations";
  return html`
    <${ViewHead} title="Operations" />
    <div class="toolbar">
      <${Choice} label="Show" name="tab" options=${Object.fromEntries(Object.entries(TABS).map(([key, { title }]) => [key, title]))} value=${tab}
        onChange=${(/** @type {string} */ value) => changeSettings({ tab: value })} />
    </div>
    ${TABS[tab].documents.map((name) => html`<${Lists} key=${name} name=${name} />`)}`;
}

/** The lists of a document: rows as tables, sentences as notes. @param {{name: string}} props */
function Lists({ name }) {
  const { sequence } = useStore();
  const { document, error } = /** @type {{document: Fields | null, error: any}} */ (useDocument(name, sequence, PAUSE));
  if (!document) return error ? html`<${Problem} error=${error} what="The document" />` : html`<p class="empty" role="status">Reading.</p>`;
  const all = Object.entries(document).filter(([, value]) => Array.isArray(value));
  const sentences = all.flatMap(([, list]) => list.filter((/** @type {unknown} */ one) => typeof one === "string"));
  return html`
    <${Problem} error=${error} what="The document" />
    ${sentences.map((text) => html`<p class="note" key=${text}><bdi>${text}</bdi></p>`)}
    ${all.filter(([, list]) => typeof list[0] !== "string").map(([key, list], at) => (list.length > 0 || at === 0) && html`<${Section} key=${key} title=${heading(key)}>
      <${Table} label=${heading(key)} columns=${columnsOf(list)} rows=${list} id=${(/** @type {Fields} */ row) => list.indexOf(row)} empty=${`There are no ${words(key)}.`} />
      ${key === name && document.remaining_item_count > 0 && html`<p class="note">${number(document.remaining_item_count)} more are not shown.</p>`}
    <//>`)}`;
}

/** @param {string} key */
const words = (key) => ({ hypernodes: "HyperNodes", moveplans: "MovePlans", usagelimits: "UsageLimits", max_run_times: "run times", plans: "possible moves", without_plan: "jobs without a plan" })[key] ?? key.replaceAll("_", " ");

/** @param {string} key */
function heading(key) {
  const text = words(key);
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** A column for each field that some row has a value for, as the document orders them.
 * @param {Fields[]} rows @returns {import("../elements.js").Column<Fields>[]}
 */
function columnsOf(rows) {
  const keys = new Set(rows.flatMap((row) => Object.keys(row).filter((key) => !isEmpty(row[key]))));
  const [first, isJob] = [rows[0] ?? {}, keys.has("namespace") && keys.has("name") && rows.every((row) => store.jobIds.has(`${row.namespace}/${row.name}`))];
  const shown = Object.keys({ ...first, ...Object.fromEntries([...keys].map((key) => [key, 0])) }).filter((key) => keys.has(key) && !(isJob && key === "namespace"));
  return shown.map((key) => ({
    title: isJob && key === "name" ? "job" : key.replaceAll("_", " "),
    kind: rows.every((row) => isEmpty(row[key]) || typeof row[key] === "number") ? "number" : rows.some((row) => isLong(row[key])) ? "wide" : undefined,
    cell: (row) => (isJob && key === "name" ? html`<${JobLink} namespace=${row.namespace} name=${row.name} />` : shownValue(key, row[key])),
    sort: rows.some((row) => typeof row[key] === "object" && row[key] !== null) ? undefined : (row) => row[key] ?? "",
  }));
}

/** @param {any} value @returns {boolean} */
const isEmpty = (value) => value === null || value === undefined || value === "" || (typeof value === "object" && Object.keys(value).length === 0);

/** @param {any} value @returns {boolean} */
const isLong = (value) => (typeof value === "string" ? value.length > 24 : typeof value === "object" && value !== null);

/** A value of a document for a reader.
 * @param {string} key @param {any} value @returns {unknown}
 */
export function shownValue(key, value) {
  if (isEmpty(value)) return "";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") return value > LEAST_TIME ? html`<${Since} time=${value} />` : number(value);
  if (typeof value === "string") {
    if (TIME.test(value) && !Number.isNaN(Date.parse(value))) return html`<${Since} time=${Date.parse(value) * 1e6} />`;
    if (store.nodes.has(value)) return html`<${NodeLink} name=${value} />`;
    return store.jobIds.has(value) ? html`<${JobLinkByKey} job=${value} />` : html`<bdi>${value}</bdi>`;
  }
  if (Array.isArray(value)) {
    return html`<ul class="plain-list">${value.slice(0, SHOWN).map((one, i) => html`<li key=${i}>${shownValue(key, one)}</li>`)}
      ${value.length > SHOWN && html`<li class="faint">and ${number(value.length - SHOWN)} more</li>`}</ul>`;
  }
  if (value.message) return html`<bdi>${value.message}</bdi>`;
  const isJob = store.jobIds.has(`${value.namespace}/${value.name}`);
  const parts = Object.entries(value).filter(([name, one]) => !isEmpty(one) && !(isJob && ["namespace", "name"].includes(name)));
  return html`${isJob && html`<${JobLink} namespace=${value.namespace} name=${value.name} /> `}
    ${parts.map(([name, one], i) => html`<span key=${name}>${i > 0 && ", "}${!NAMES.includes(name) && `${name.replaceAll("_", " ")} `}${partOf(name, one)}</span>`)}`;
}

/** A list inside of a part is counted, unless it is of numbers. @param {string} key @param {any} value */
function partOf(key, value) {
  if (!Array.isArray(value)) return shownValue(key, value);
  return typeof value[0] === "number" ? value.join(", ") : number(value.length);
}
