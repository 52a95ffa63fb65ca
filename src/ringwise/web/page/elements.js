// Parts that several views use.

import { store } from "./context.js";
import { html, useLayoutEffect, useMemo, useState } from "./html.js";
import { jobState } from "./store.js";
import { link } from "./routes.js";
import { clock, number, relative, rfc3339 } from "./text.js";

/** @typedef {import("./types.js").JobRow} JobRow */

/** A name that others chose: its direction stays inside it.
 * @param {{children?: unknown}} props
 */
export function Name({ children }) {
  return html`<bdi class="name">${children}</bdi>`;
}

/** @param {{namespace: string, name: string}} props */
export function JobLink({ namespace, name }) {
  return html`<a class="job-link" href=${link(["jobs", namespace, name])}><bdi class="name"><span class="faint">${namespace}/</span>${name}</bdi></a>`;
}

/** A job as `namespace/name`.
 * @param {{job: string}} props
 */
export function JobLinkByKey({ job }) {
  const slash = job.indexOf("/");
  return html`<${JobLink} namespace=${job.slice(0, slash)} name=${job.slice(slash + 1)} />`;
}

/** @param {{name: string}} props */
export function NodeLink({ name }) {
  return html`<a href=${link(["nodes", name])}><bdi class="name">${name}</bdi></a>`;
}

/**
 * How long ago something was, or in how long it will be, with the time itself under the pointer.
 * @param {{time: number | null}} props in nanoseconds since 1970; null: not known
 */
export function Since({ time }) {
  if (time === null) return null;
  const written = rfc3339(time);
  return html`<time datetime=${written} title=${`${clock(written)} UTC`}>${relative(time, store.time)}</time>`;
}

/** @param {{kind: string, children?: unknown}} props */
export function Badge({ kind, children }) {
  return html`<span class=${`badge badge-${kind}`}>${children}</span>`;
}

/** The badge of a job by its state. @type {Record<string, string>} */
const JOB_KINDS = { pending: "waiting", rejected: "bad", suspended: "ended", finished: "ended" };

/** @param {{job: JobRow}} props */
export function JobBadge({ job }) {
  const state = jobState(job);
  return html`<${Badge} kind=${JOB_KINDS[state] ?? state}>${state === "rejected" || state === "suspended" ? state : job.phase || state}<//>`;
}

/**
 * The heading of a view; it gets the focus when the view is opened, so that a screen reader reads it.
 * @param {{title: string, children?: unknown}} props
 */
export function ViewHead({ title, children }) {
  useLayoutEffect(() => {
    document.title = `${title} · Ringwise`;
  }, [title]);
  return html`<div class="view-head"><h1 id="view-title" tabindex="-1"><bdi>${title}</bdi></h1>${children}</div>`;
}

/** @param {{title: string, class?: string, note?: string, children?: unknown}} props */
export function Section({ title, note, children, ...rest }) {
  return html`<section class=${`panel ${rest.class ?? ""}`} aria-label=${title}>
    <h2>${title}${note && html` <small>${note}</small>`}</h2>
    ${children}
  </section>`;
}

/**
 * Names with values, without those that are empty.
 * @param {{items: [string, unknown][]}} props
 */
export function Facts({ items }) {
  const known = items.filter(([, value]) => value !== "" && value !== null && value !== undefined && value !== false);
  return html`<dl class="facts">${known.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/**
 * @template T
 * @typedef {object} Column
 * @property {string} title
 * @property {(row: T) => unknown} cell
 * @property {(row: T) => number | string} [sort] what it is ordered by; without it the column orders nothing
 * @property {"number" | "wide" | "named"} [kind]
 */

const PAGE = 100;

/**
 * A table of which a hundred rows are drawn at a time. On a narrow screen each row becomes a block with the titles
 * beside the values; the roles keep it a table for screen readers.
 * @template T
 * @param {{label: string, columns: Column<T>[], rows: T[], id: (row: T) => string | number, order?: string, empty?: string}} props
 */
export function Table({ label, columns, rows, id, order = "", empty = "none" }) {
  const [sorted, setSorted] = useState(order);
  const [page, setPage] = useState(0);
  const down = sorted.startsWith("-");
  const column = columns.find((one) => one.title === sorted.replace(/^-/, ""));
  const ordered = useMemo(() => {
    const by = column?.sort;
    if (!by) return rows;
    const factor = down ? -1 : 1;
    return rows
      .map((row, i) => ({ row, key: by(row), i }))
      .sort((a, b) => factor * (a.key < b.key ? -1 : a.key > b.key ? 1 : 0) || a.i - b.i)
      .map((entry) => entry.row);
  }, [rows, column?.title, down]);
  const pages = Math.max(1, Math.ceil(rows.length / PAGE));
  const shownPage = Math.min(page, pages - 1);
  const shown = ordered.slice(shownPage * PAGE, (shownPage + 1) * PAGE);
  if (!rows.length) return html`<p class="empty">${empty}</p>`;
  return html`
    <div class="table-frame">
      <table role="table" aria-label=${label}>
        <thead role="rowgroup"><tr role="row">
          ${columns.map((one) => html`<th key=${one.title} role="columnheader" scope="col" class=${one.kind ?? ""}
              aria-sort=${column === one ? (down ? "descending" : "ascending") : undefined}>
            ${one.sort
              ? html`<button type="button" class="sort" onClick=${() => setSorted(sorted === one.title ? `-${one.title}` : one.title)}>
                  ${one.title}<span aria-hidden="true" class="arrow">${column === one ? (down ? "▾" : "▴") : ""}</span>
                </button>`
              : one.title}
          </th>`)}
        </tr></thead>
        <tbody role="rowgroup">
          ${shown.map((row) => html`<tr key=${id(row)} role="row">
            ${columns.map((one) => html`<td key=${one.title} role="cell" data-title=${one.title} class=${one.kind ?? ""}><div class="value">${one.cell(row)}</div></td>`)}
          </tr>`)}
        </tbody>
      </table>
    </div>
    ${pages > 1 && html`<nav class="pager" aria-label=${`Pages of ${label}`}>
      <button type="button" disabled=${shownPage === 0} onClick=${() => setPage(shownPage - 1)}>Previous</button>
      <span>${number(shownPage * PAGE + 1)} to ${number(Math.min(rows.length, (shownPage + 1) * PAGE))} of ${number(rows.length)}</span>
      <button type="button" disabled=${shownPage === pages - 1} onClick=${() => setPage(shownPage + 1)}>Next</button>
    </nav>`}`;
}

/**
 * A bar with a mark, and the same in words.
 * @param {{value: number, of: number, mark?: number | null, text: string}} props
 */
export function Bar({ value, of, mark = null, text }) {
  const share = of > 0 ? Math.min(1, value / of) : 0;
  return html`<span class="bar" role="img" aria-label=${text}>
    <span class=${`bar-fill ${mark !== null && value > mark ? "over" : ""}`} style=${{ width: `${share * 100}%` }}></span>
    ${mark !== null && of > 0 && html`<span class="bar-mark" style=${{ left: `${Math.min(1, mark / of) * 100}%` }}></span>`}
  </span>`;
}

/**
 * A choice of a few words, as radio buttons.
 * @param {{label: string, name: string, options: Record<string, string>, value: string, onChange: (value: string) => void}} props
 */
export function Choice({ label, name, options, value, onChange }) {
  return html`<fieldset class="choice">
    <legend>${label}</legend>
    ${Object.entries(options).map(([key, title]) => html`<label key=${key}>
      <input type="radio" name=${name} value=${key} checked=${key === value} onChange=${() => onChange(key)} /><span>${title}</span>
    </label>`)}
  </fieldset>`;
}

/**
 * @param {{label: string, options: Record<string, string>, value: string, onChange: (value: string) => void}} props
 */
export function Select({ label, options, value, onChange }) {
  return html`<label class="field"><span>${label}</span>
    <select value=${value} onChange=${(/** @type {any} */ event) => onChange(event.target.value)}>
      ${Object.entries(options).map(([key, title]) => html`<option key=${key} value=${key} selected=${key === value}>${title}</option>`)}
    </select>
  </label>`;
}

/**
 * @param {{label: string, value: string, placeholder?: string, onInput: (value: string) => void}} props
 */
export function Search({ label, value, placeholder = "", onInput }) {
  return html`<label class="field"><span>${label}</span>
    <input type="search" value=${value} placeholder=${placeholder} spellcheck="false" autocomplete="off"
      onInput=${(/** @type {any} */ event) => onInput(event.target.value)} />
  </label>`;
}

/** @param {{error: import("./connection.js").ApiError | null, what: string}} props */
export function Problem({ error, what }) {
  if (!error) return null;
  const text = error.status === 404 ? `${what} does not exist.` : `${what} cannot be shown: ${error.message}`;
  return html`<p class="problem" role="status">${text}</p>`;
}

/** Labels or annotations, whatever is in them.
 * @param {{label: string, values: Record<string, string>}} props
 */
export function KeyValues({ label, values }) {
  const entries = Object.entries(values ?? {});
  if (!entries.length) return null;
  return html`<h3>${label}</h3><dl class="key-values" aria-label=${label}>
    ${entries.map(([key, value]) => html`<div key=${key}><dt><bdi>${key}</bdi></dt><dd><bdi>${value}</bdi></dd></div>`)}
  </dl>`;
}
