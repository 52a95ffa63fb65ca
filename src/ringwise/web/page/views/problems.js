// What is broken or blocked, which jobs are affected, since when, and what to do.

import { store, useDocument, useStore } from "../context.js";
import { Badge, JobLinkByKey, NodeLink, Problem, Since, Table, ViewHead } from "../elements.js";
import { html } from "../html.js";
import { count, number } from "../text.js";

/** @typedef {import("../types.js").ProblemFields} ProblemFields */

/** Milliseconds between two questions: the answer is about the whole cluster. */
const PAUSE = 5000;

export function ProblemsView() {
  const { sequence } = useStore();
  const { document, error } = /** @type {{document: import("../types.js").ProblemsDocument | null, error: any}} */ (useDocument("problems", sequence, PAUSE));
  const problems = document?.problems ?? [];
  const errors = problems.filter((one) => one.severity === "error").length;
  return html`
    <${ViewHead} title="Problems">
      ${problems.length > 0 && html`<p class="found" role="status">${count(errors, "error")}, ${count(problems.length - errors, "warning")}</p>`}<//>
    <${Problem} error=${error} what="The list of problems" />
    ${document
      ? html`<${Table} label="Problems" columns=${COLUMNS} rows=${problems} id=${(/** @type {ProblemFields} */ row) => `${row.code} ${row.object} ${row.message}`}
          empty="There are no problems." />`
      : !error && html`<p class="empty" role="status">Reading.</p>`}
    ${document?.remaining_item_count && html`<p class="note">${count(document.remaining_item_count, "more problem")}: see <code>ringwise doctor</code>.</p>`}`;
}

/** @param {ProblemFields} row */
function where(row) {
  const node = /^node (\S+)$/.exec(row.object)?.[1] ?? "";
  return store.nodes.has(node) ? html`node <${NodeLink} name=${node} />` : html`<bdi>${row.object}</bdi>`;
}

/** Some reasons have no fix for all jobs: the page of a job has those that were tried. @param {ProblemFields} row */
function whatToDo(row) {
  if (row.fix || !row.jobs.length) return row.fix && html`<bdi>${row.fix}</bdi>`;
  return html`see what would start <${JobLinkByKey} job=${row.jobs[0]} />`;
}

/** @type {import("../elements.js").Column<ProblemFields>[]} */
const COLUMNS = [
  { title: "severity", cell: (row) => html`<${Badge} kind=${row.severity === "error" ? "bad" : "waiting"}>${row.severity}<//>`, sort: (row) => row.severity },
  { title: "where", cell: where, sort: (row) => row.object },
  { title: "problem", kind: "wide", cell: (row) => html`<bdi>${row.message}</bdi> <code>${row.code}</code>`, sort: (row) => row.code },
  {
    title: "affected jobs",
    cell: (row) => row.jobs.length > 0 && html`<ul class="plain-list">${row.jobs.map((job) => html`<li key=${job}><${JobLinkByKey} job=${job} /></li>`)}
      ${row.more_jobs > 0 && html`<li class="faint">and ${number(row.more_jobs)} more</li>`}</ul>`,
    sort: (row) => -(row.jobs.length + row.more_jobs),
  },
  { title: "since", cell: (row) => html`<${Since} time=${row.since} />`, sort: (row) => row.since ?? Infinity, kind: "number" },
  { title: "what to do", kind: "wide", cell: whatToDo },
];
