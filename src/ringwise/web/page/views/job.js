// The page of a job: why it waits and what would help, its pods, where it is, and its history.

import { useDocument, useStore } from "../context.js";
import { Badge, Facts, JobBadge, JobLinkByKey, KeyValues, Name, NodeLink, Problem, Section, Since, Table, ViewHead } from "../elements.js";
import { html } from "../html.js";
import { link } from "../routes.js";
import { jobState } from "../store.js";
import { clock, count, encoded, known, number, ranges, span, startDetail, startText } from "../text.js";
import { JobPicture } from "./pictures.js";

/** @typedef {import("../types.js").JobDocument} JobDocument */
/** @typedef {import("../types.js").WhyDocument} WhyDocument */
/** @typedef {import("../types.js").HistoryDocument} HistoryDocument */
/** @typedef {import("../types.js").PodFields} PodFields */

/** @param {{namespace: string, name: string}} props */
export function JobView({ namespace, name }) {
  const shown = useStore();
  const { time } = shown;
  const row = shown.job(namespace, name);
  const path = `jobs/${encoded(namespace)}/${encoded(name)}`;
  const { document, error } = /** @type {{document: JobDocument | null, error: any}} */ (useDocument(path, row));
  const job = row ?? document?.job;
  if (!job) {
    return html`<${ViewHead} title=${`${namespace}/${name}`} />${error ? html`<${Problem} error=${error} what="The job" />` : html`<p class="empty" role="status">Reading.</p>`}`;
  }
  const state = jobState(job);
  return html`
    <${ViewHead} title=${`${namespace}/${name}`}><${JobBadge} job=${job} />
      ${state === "running" && html`<a href=${link(["map"], { job: `${namespace}/${name}` })}>Show on the map</a>`}<//>
    ${!row && html`<p class="note" role="status">This job no longer exists; its last known state is shown.</p>`}
    <${Problem} error=${error} what="The job" />
    <div class="columns">
      <${Section} title="Job">
        <${Facts} items=${[
          ["kind", job.kind],
          ["queue", html`<bdi>${job.queue}</bdi>`],
          ["pods", `${number(job.running)} of ${number(job.pods)} running${document && document.min_available !== job.pods ? `, ${document.min_available} must start together` : ""}`],
          ["chips", number(job.chips)],
          ["priority", number(job.priority)],
          ["user", job.user && html`<bdi>${job.user}</bdi>`],
          ["created", html`<${Since} time=${job.created} />`],
          ["expected end", job.expected_end !== null && html`<${Since} time=${job.expected_end} />`],
          ["affected by", job.affected_by.length > 0 ? html`<ul>${job.affected_by.map((fault) => html`<li key=${fault}><bdi>${fault}</bdi></li>`)}</ul>` : ""],
          ["board", document?.board],
          ["class", document?.class],
        ]} />
      <//>
      <${Why} path=${path} version=${row} job=${job} time=${time} />
    </div>
    <${Plans} plans=${document?.plans ?? []} />
    <${Section} title="Where it is">${document ? html`<${JobPicture} pods=${document.pods} />` : html`<p class="empty">Reading.</p>`}<//>
    <${Section} title="Pods" note=${document ? count(document.pods.length, "pod") : ""}>
      <${Table} label="Pods" rows=${document?.pods ?? []} id=${(/** @type {PodFields} */ pod) => pod.name} columns=${podColumns(document?.pods ?? [])} empty="It has no pods." />
    <//>
    <${History} path=${path} version=${row} waits=${state === "pending"} time=${time} />
    ${document && (Object.keys(document.labels).length > 0 || Object.keys(document.annotations).length > 0) && html`<${Section} title="What the scheduler reads" note="of its PodGroup and of its first pod with chips">
      <${KeyValues} label="Labels" values=${document.labels} />
      <${KeyValues} label="Annotations" values=${document.annotations} /><//>`}`;
}

/** @type {Record<string, string>} */
const PLAN_STATES = { running: "waiting", done: "running", failed: "bad", rejected: "bad" };

/** Plans of moves: jobs that are moved so that another one can start. @param {{plans: import("../types.js").PlanFields[]}} props */
function Plans({ plans }) {
  if (plans.length === 0) return null;
  return html`<${Section} title="Moves" note=${count(plans.length, "plan")}>
    <ul class="plans" aria-label="Moves">${plans.map((plan) => html`<li key=${`${plan.job} ${plan.time}`}>
      <${Badge} kind=${PLAN_STATES[plan.state] ?? "ended"}>${plan.state}<//>
      ${" "}<${Since} time=${plan.time} />${" "}
      ${plan.moved.map((job, i) => html`${i > 0 && ", "}<${JobLinkByKey} job=${job} />`)} for <${JobLinkByKey} job=${plan.job} />
      ${plan.state === "running" && html` <span class="faint">${number(plan.deleted_pods)} of ${count(plan.pods.length, "pod")} gone</span>`}
      ${plan.message && html`: <bdi>${plan.message}</bdi>`}
      ${plan.pods.length > 0 && html`<ul>${plan.pods.map((pod) => html`<li key=${pod.pod}><bdi>${pod.pod}</bdi>: <bdi>${moved(pod)}</bdi></li>`)}</ul>`}
    </li>`)}</ul>
  <//>`;
}

/** @param {PodFields[]} pods @returns {import("../elements.js").Column<PodFields>[]} */
function podColumns(pods) {
  /** @type {import("../elements.js").Column<PodFields>[]} */
  const columns = [
    { title: "rank", cell: (pod) => pod.rank ?? "", sort: (pod) => pod.rank ?? -1, kind: "number" },
    { title: "pod", kind: "named", cell: (pod) => html`<${Name}>${pod.name}<//>`, sort: (pod) => pod.name },
    { title: "phase", cell: (pod) => html`<${Badge} kind=${{ Running: "running", Failed: "bad", Pending: "waiting" }[pod.phase] ?? "ended"}>${pod.phase}<//>`, sort: (pod) => pod.phase },
    { title: "node", cell: (pod) => (pod.node ? html`<${NodeLink} name=${pod.node} />` : html`<span class="faint">none</span>`), sort: (pod) => pod.node },
    { title: "chips", cell: (pod) => ranges(pod.chips) },
  ];
  for (const [field, title] of /** @type {const} */ ([["switch", "leaf switch"], ["superpod", "SuperPoD"], ["block", "block"], ["rack", "rack"]])) {
    if (pods.some((pod) => known(pod[field]))) columns.push({ title, cell: (pod) => html`<bdi>${known(pod[field])}</bdi>`, sort: (pod) => pod[field] ?? "" });
  }
  return columns;
}

/** @param {{path: string, version: unknown, job: import("../types.js").JobRow, time: string}} props */
function Why({ path, version, job: row, time }) {
  const { document: why, error } = /** @type {{document: WhyDocument | null, error: any}} */ (useDocument(`${path}/why`, version));
  if (!why) return html`<${Section} title="Why" class="why">${error ? html`<${Problem} error=${error} what="The reason" />` : html`<p class="empty" role="status">Being computed.</p>`}<//>`;
  const refusals = Object.entries(why.rejected_nodes ?? {}).sort(([, a], [, b]) => b - a);
  const start = why.expected_start;
  const isStuck = why.state === "pending" || why.state === "rejected";
  return html`<${Section} title="Why" class="why" note=${why.state}>
    <p class="sentence">${why.reason && html`<code>${why.reason.code}</code> `}<bdi>${why.message}</bdi></p>
    ${row.reason_source && html`<p class="faint">Its scheduler wrote into the condition of the ${row.reason_source}: <code>${row.reason_code}</code> <bdi>${row.reason_message}</bdi></p>`}
    ${(why.notes ?? []).map((note) => html`<p key=${note} class="faint"><bdi>${note}</bdi></p>`)}
    ${why.board_reason && html`<p class="faint"><bdi>${why.board_reason}</bdi></p>`}
    ${why.fixes.length > 0 && html`<h3>Fixes</h3>
      <ul class="fixes" aria-label="Fixes">${why.fixes.map((fix) => html`<li key=${fix.message}><bdi>${fix.message}</bdi>
        ${fix.conflicting_jobs > 0 && html` <span class="faint">(${count(fix.conflicting_jobs, "job")} ahead would take it first)</span>`}</li>`)}</ul>`}
    ${why.fixes.length === 0 && (why.reason?.fixes.length ?? 0) > 0 && html`<h3>Common fixes</h3>
      <ul class="fixes" aria-label="Fixes">${why.reason?.fixes.map((fix) => html`<li key=${fix}><bdi>${fix}</bdi></li>`)}</ul>`}
    ${isStuck && why.fixes.length === 0 && !why.reason?.fixes.length && html`<p class="faint">Nothing that was tried would start it now.</p>`}
    ${why.state === "pending" && html`<${Facts} items=${[
      ["place in its queue", why.queue.position === null ? "" : `${why.queue.position} of ${why.queue.pending} pending`],
      ["ahead of it", why.queue.jobs_ahead.length ? html`${why.queue.jobs_ahead.slice(0, 8).map((job, i) => html`${i > 0 && ", "}<${JobLinkByKey} job=${job} />`)}${why.queue.jobs_ahead.length > 8 && ` and ${why.queue.jobs_ahead.length - 8} more`}` : ""],
      ["expected start", start ? html`${startText(start, time)} <span class="faint"><bdi>${startDetail(start)}</bdi></span>` : ""],
      ["reserved for it", why.reserved_chips ? count(why.reserved_chips, "chip") : ""],
      ["nodes that fit", why.fitting_nodes === null ? "" : number(why.fitting_nodes)],
    ]} />`}
    ${refusals.length > 0 && html`<h3>Why no node fits</h3>
      <ul class="verdicts">${refusals.map(([code, nodes]) => html`<li key=${code}><code>${code}</code> ${count(nodes, "node")}</li>`)}</ul>`}
    ${why.closest_nodes.length > 0 && html`<h3>Closest nodes</h3>
      <ul class="misses">${why.closest_nodes.map((miss) => html`<li key=${miss.node}><${NodeLink} name=${miss.node} />: <bdi>${miss.message}</bdi></li>`)}</ul>`}
    ${why.plan.length > 0 && html`<h3>${why.state === "pending" ? "What is planned for it" : "Why there"}</h3><ul>${why.plan.map((line) => html`<li key=${line}><bdi>${line}</bdi></li>`)}</ul>`}
  <//>`;
}

/** @param {{path: string, version: unknown, waits: boolean, time: string}} props */
function History({ path, version, waits, time }) {
  const { document: history, error } = /** @type {{document: HistoryDocument | null, error: any}} */ (useDocument(`${path}/history`, version));
  if (error && !history) return error.status === 404 ? null : html`<${Section} title="History"><${Problem} error=${error} what="The history" /><//>`;
  if (!history) return html`<${Section} title="History"><p class="empty" role="status">Being computed.</p><//>`;
  // Nothing is recorded while nothing happens: a job that waits has waited longer than its history knows.
  const since = waits ? Math.max(0, (Date.parse(time) - Date.parse(history.until)) / 1000) || 0 : 0;
  const note = [history.faults && count(history.faults, "fault"), history.moved_pods && `${count(history.moved_pods, "pod")} moved`, `pending for ${span(history.pending_seconds + since)}`].filter(Boolean).join(", ");
  return html`<${Section} title="History" note=${note}>
    <ol class="history" aria-label="History">
      ${history.entries.map((entry, i) => html`<li key=${i} class=${`entry entry-${entry.kind.replace(/[^a-z-]/g, "")}`}>
        <time datetime=${entry.time}>${clock(entry.time)}</time>
        <div>${entry.kind !== entry.message && html`<strong class="history-kind">${entry.kind}</strong> `}<span class="what"><bdi>${entry.message}</bdi></span>
          ${entry.duration_seconds !== null && html` <span class="faint">took ${span(entry.duration_seconds)}</span>`}
          ${entry.pods.length > 0 && html`<details><summary>${count(entry.pods.length, "pod")}</summary>
            <ul>${entry.pods.map((pod) => html`<li key=${pod.name}><bdi>${pod.name}</bdi>: <bdi>${moved(pod)}</bdi></li>`)}</ul></details>`}
        </div>
      </li>`)}
    </ol>
    ${history.entries.length === 0 && html`<p class="empty">Nothing is recorded.</p>`}
  <//>`;
}

/** @param {{from: string | null, to: string | null, chips: number[]}} pod */
function moved({ from, to, chips }) {
  const where = from && to ? (from === to ? `stays on ${to}` : `from ${from} to ${to}`) : to ? `to ${to}` : from ? `leaves ${from}` : "without a node";
  return chips.length ? `${where}, chips ${ranges(chips)}` : where;
}
