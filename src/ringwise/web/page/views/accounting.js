// Chip-hours, waiting times and losses: what `ringwise report` prints, with plots.

import { connection, useStore } from "../context.js";
import { Badge, JobLink, Problem, Section, Select, Table, ViewHead } from "../elements.js";
import { html, useEffect, useState } from "../html.js";
import { changeSettings } from "../routes.js";
import { count, number, rfc3339, shownSpan, span, visible } from "../text.js";

/** @typedef {import("../types.js").Report} Report */
/** @typedef {import("../types.js").ReportRow} ReportRow */
/** @typedef {{key: string, label: unknown, text: string, color: string, values: number[]}} Stack */

const BY = { queue: "queue", namespace: "namespace", user: "user", job: "job" };
const DAYS = { 7: "7 days", 30: "30 days", 90: "90 days", 366: "a year" };
/** Rows with a color of their own; the others share one. */
const SHOWN = 6;
/** Seconds after which it is asked again: documents are written once a minute. */
const AGAIN = 60;

/** @param {number} index */
const nth = (index) => (index < SHOWN ? `var(--plot-${index + 1})` : "var(--muted)");

/** Chip-hours as they are shown: large numbers rounded to whole ones, small ones with two digits. With soft shares and
 * vNPUs all have at least two decimals, as in the tables of `ringwise report`.
 * @param {number} value @param {Report} report
 */
function rounded(value, { has_chip_fractions: fractions }) {
  if (value < 1) return Number(value.toPrecision(2));
  if (fractions) return Math.round(value * 100) / 100;
  return value >= 100 ? Math.round(value) : Math.round(value * 10) / 10;
}

const EXACT = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 15 });
const DECIMALS = new Intl.NumberFormat("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 8 });

/** @param {number} value @param {Report} report */
function hours(value, report) {
  return (report.has_chip_fractions ? DECIMALS : EXACT).format(rounded(value, report));
}

/** @param {ReportRow} row */
function rowKey(row) {
  return JSON.stringify([row.queue, row.namespace, row.user, row.verified, row.job, row.uid, row.board]);
}

/** What a row is called, without markup. @param {ReportRow} row @param {Report["group_by"]} by */
function rowText(row, by) {
  if (by === "job") return row.job ? `${row.namespace}/${row.job}` : `${row.namespace}: merged jobs`;
  if (by === "user") return row.user ? `${row.user}${row.verified ? "" : " (unverified)"}` : "not known";
  return row[by] || "none";
}

/** @param {{row: ReportRow, by: Report["group_by"]}} props */
function RowName({ row, by }) {
  if (by === "job" && row.job) return html`<${JobLink} namespace=${row.namespace ?? ""} name=${row.job} />`;
  if (by === "user" && row.user) return html`<bdi class="name">${row.user}</bdi>${!row.verified && html` <${Badge} kind="waiting">unverified<//>`}`;
  return html`<bdi class="name">${rowText(row, by)}</bdi>`;
}

/** @param {{settings: URLSearchParams}} props */
export function AccountingView({ settings }) {
  const by = /** @type {Report["group_by"]} */ (Object.keys(BY).find((one) => one === settings.get("by")) ?? "queue");
  const days = Object.keys(DAYS).find((one) => one === settings.get("days")) ?? "7";
  const { report: all, error } = useReport(by, days);
  const boards = (all?.totals ?? []).map((total) => total.board).filter(Boolean);
  const board = boards.find((one) => one === settings.get("board")) ?? boards[0] ?? "";
  const report = all && ofBoard(all, board);
  return html`
    <${ViewHead} title="Accounting" />
    <div class="toolbar">
      <${Select} label="Of each" options=${BY} value=${by} onChange=${(/** @type {string} */ value) => changeSettings({ by: value })} />
      <${Select} label="Of the last" options=${DAYS} value=${days} onChange=${(/** @type {string} */ value) => changeSettings({ days: value })} />
      ${boards.length > 1 && html`<${Select} label="On board" options=${Object.fromEntries(boards.map((one) => [one, one]))} value=${board} onChange=${(/** @type {string} */ value) => changeSettings({ board: value })} />`}
      <p class="found" role="status">${report && `${hours(heldOf(report).held, report)} chip-hours held`}</p>
    </div>
    ${error?.code === "no-accounting"
      ? html`<p class="empty">There is no accounting: <bdi>${error.message}</bdi>.</p>`
      : html`<${Problem} error=${error} what="Accounting" />`}
    ${!report && !error && html`<p class="empty" role="status">Reading.</p>`}
    ${report && html`<${UnconfirmedChips} report=${report} />`}
    ${report && (report.rows.length ? html`<${Figures} report=${report} />` : html`<p class="empty">In these days no job held chips or waited for them.</p>`)}`;
}

/** The rows of one board, and those of jobs that had no node: chips of different boards are never added.
 * @param {Report} report @param {string} board @returns {Report}
 */
function ofBoard(report, board) {
  /** @param {{board: string}} one */
  const isShown = (one) => one.board === board || !one.board;
  return { ...report, rows: report.rows.filter(isShown), totals: report.totals.filter(isShown) };
}

/** @param {Report} report */
function heldOf(report) {
  const total = report.totals.find(({ board }) => board) ?? report.totals[0];
  return { held: total?.allocated_chip_hours ?? 0, uncertain: total?.uncertain_chip_hours ?? 0 };
}

/** @param {string} by @param {string} days */
function useReport(by, days) {
  const { epoch } = useStore();
  const [state, setState] = useState(/** @type {{report: Report | null, error: any}} */ ({ report: null, error: null }));
  useEffect(() => {
    const control = new AbortController();
    let timer = 0;
    const read = async () => {
      try {
        const report = await connection.document(`report?by=${by}&days=${days}`, { signal: control.signal });
        setState({ report, error: null });
      } catch (error) {
        if (control.signal.aborted) return;
        setState((/** @type {any} */ old) => ({ ...old, error }));
      }
      timer = window.setTimeout(read, AGAIN * 1000);
    };
    void read();
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [epoch, by, days]);
  // Until the answer is there the old one would be under the wrong heading.
  return state.report && (state.report.group_by !== by || state.report.days.length !== Number(days)) ? { report: null, error: state.error } : state;
}

/** What the numbers leave out. @param {{report: Report}} props */
function UnconfirmedChips({ report }) {
  const said = [
    heldOf(report).uncertain > 0 && `${hours(heldOf(report).uncertain, report)} of the chip-hours belong to pods whose end was not observed; they are counted until the pod was last observed.`,
    report.gaps.length > 0 && `No scheduler wrote in ${count(report.gaps.length, "span")}, the last until ${rfc3339(report.gaps[report.gaps.length - 1].until)}.`,
    report.merged_jobs > 0 && `${count(report.merged_jobs, "job")} merged into the lines of their namespaces for want of room.`,
    report.discarded_before && `Days before ${report.discarded_before} were discarded for lack of space.`,
    report.unreadable.length > 0 && `${count(report.unreadable.length, "document")} cannot be read: ${report.unreadable.slice(0, 3).join("; ")}`,
  ].filter(Boolean);
  return said.length ? html`<ul class="faint">${said.map((text) => html`<li key=${text}>${text}</li>`)}</ul>` : null;
}

/** @param {{report: Report}} props */
function Figures({ report }) {
  const { group_by: by, rows } = report;
  const first = rows.slice(0, SHOWN);
  const others = rows.slice(SHOWN);
  /** @type {Stack[]} */
  const stacks = first.map((row, i) => ({ key: rowKey(row), label: html`<bdi>${rowText(row, by)}</bdi>`, text: rowText(row, by), color: nth(i), values: row.allocated_by_day }));
  if (others.length) {
    const sums = report.days.map((_, day) => others.reduce((sum, row) => sum + row.allocated_by_day[day], 0));
    stacks.push({ key: "", label: `${number(others.length)} others`, text: "others", color: nth(SHOWN), values: sums });
  }
  return html`
    <div class="plots of-three">
      <${ByDay} report=${report} stacks=${stacks} />
      <${Waits} rows=${rows} by=${by} />
      <${Lost} report=${report} />
    </div>
    <${Table} label="Accounting" rows=${rows} id=${rowKey} columns=${columnsOf(report)} />`;
}

/** Columns of chip-hours, one for each day. @param {{report: Report, stacks: Stack[]}} props */
function ByDay({ report, stacks }) {
  const { days } = report;
  const totals = days.map((_, day) => stacks.reduce((sum, { values }) => sum + values[day], 0));
  const most = Math.max(...totals, 0);
  const sums = stacks.map(({ values }) => values.reduce((sum, one) => sum + one, 0));
  const words = stacks.map(({ text }, i) => `${visible(text)} ${hours(sums[i], report)}`).join("; ");
  return html`<${Section} title="Chip-hours by day" class="plot" note=${`at most ${hours(most, report)} a day`}>
    <p class="plot-text">${stacks.map(({ key, label, color }, i) => html`<span key=${key}><i class="square" aria-hidden="true" style=${{ background: color }}></i>${label} ${hours(sums[i], report)}</span>`)}</p>
    <div class="days" role="img" aria-label=${`Chip-hours of ${count(days.length, "day")}: ${words}`}>
      ${days.map((day, i) => html`<span key=${day} title=${`${day}: ${hours(totals[i], report)} chip-hours`}>
        ${[...stacks].reverse().map(({ key, color, values }) => html`<i key=${key} style=${{ background: color, height: `${most > 0 ? (100 * values[i]) / most : 0}%` }}></i>`)}</span>`)}
    </div>
    <p class="days-ends"><span>${days[0]}</span><span>${days[days.length - 1]} (UTC)</span></p>
  <//>`;
}

/** How long a job waited until it started, on average. @param {ReportRow} row */
function waitOf(row) {
  return shownSpan((3600 * row.pending_hours) / (row.starts || 1));
}

/** @param {{rows: ReportRow[], by: Report["group_by"]}} props */
function Waits({ rows, by }) {
  const waits = rows.map((row) => ({ row, wait: waitOf(row) })).filter(({ wait }) => wait.seconds > 0);
  const shown = waits.sort((a, b) => b.wait.seconds - a.wait.seconds).slice(0, SHOWN);
  const most = shown[0]?.wait.seconds ?? 0;
  return html`<${Section} title="Waiting time" class="plot" note="for each start; the longest">
    ${shown.length ? html`<dl class="facts">${shown.map(({ row, wait }) => html`<div key=${rowKey(row)}><dt><${RowName} row=${row} by=${by} /></dt><dd>
      <${Stripes} of=${most} label=${`waited ${wait.text}`} parts=${[["waited", wait.seconds, nth(2)]]} /> ${wait.text}, ${count(row.starts, "start")}</dd></div>`)}</dl>` : html`<p class="empty">No job waited.</p>`}
  <//>`;
}

/** @param {ReportRow} row */
function lostOf(row) {
  return Object.values(row.lost_chip_hours).reduce((sum, one) => sum + one, 0);
}

/** @param {{report: Report}} props */
function Lost({ report }) {
  const { rows, group_by: by } = report;
  const causes = [...new Set(rows.flatMap((row) => Object.keys(row.lost_chip_hours)))].sort();
  const shown = [...rows].sort((a, b) => lostOf(b) - lostOf(a)).filter((row) => lostOf(row) > 0).slice(0, SHOWN);
  const most = Math.max(...shown.map((row) => rounded(lostOf(row), report)), 0);
  return html`<${Section} title="Lost chip-hours" class="plot" note="by cause; the most">
    ${shown.length ? html`<p class="plot-text">${causes.map((cause, i) => html`<span key=${cause}><i class="square" aria-hidden="true" style=${{ background: nth(i) }}></i>${cause}</span>`)}</p>
      <dl class="facts">${shown.map((row) => html`<div key=${rowKey(row)}><dt><${RowName} row=${row} by=${by} /></dt><dd>
        <${LostParts} report=${report} row=${row} of=${most} causes=${causes} /> ${hours(lostOf(row), report)}</dd></div>`)}</dl>` : html`<p class="empty">No work was lost.</p>`}
  <//>`;
}

/** Together as long as the number beside them says. @param {{report: Report, row: ReportRow, of: number, causes: string[]}} props */
function LostParts({ report, row, of, causes }) {
  const lost = causes.map((cause) => row.lost_chip_hours[cause] ?? 0);
  const scale = rounded(lostOf(row), report) / lostOf(row);
  const label = causes.flatMap((cause, i) => (lost[i] > 0 ? `${cause} ${hours(lost[i], report)}` : [])).join(", ");
  return html`<${Stripes} of=${of} label=${label} parts=${causes.map((cause, i) => [cause, lost[i] * scale, nth(i)])} />`;
}

/** @param {{parts: [string, number, string][], of: number, label: string}} props */
function Stripes({ parts, of, label }) {
  const known = parts.filter(([, value]) => value > 0);
  return html`<span class="stripes" role="img" aria-label=${label} title=${label}>
    ${known.map(([name, value, color]) => html`<i key=${name} style=${{ background: color, width: `${of > 0 ? (100 * value) / of : 0}%` }}></i>`)}</span>`;
}

/** @param {Report} report @returns {import("../elements.js").Column<ReportRow>[]} */
function columnsOf(report) {
  const { group_by: by } = report;
  return [
    { title: by, kind: "named", cell: (row) => html`<${RowName} row=${row} by=${by} />`, sort: (row) => rowText(row, by) },
    { title: "held chip-hours", cell: (row) => hours(row.allocated_chip_hours, report), sort: (row) => row.allocated_chip_hours, kind: "number" },
    { title: "lost chip-hours", cell: (row) => hours(lostOf(row), report), sort: lostOf, kind: "number" },
    { title: "waited", cell: (row) => span(3600 * row.pending_hours), sort: (row) => row.pending_hours, kind: "number" },
    { title: "starts", cell: (row) => number(row.starts), sort: (row) => row.starts, kind: "number" },
    { title: "failures", cell: (row) => number(row.failures), sort: (row) => row.failures, kind: "number" },
  ];
}
