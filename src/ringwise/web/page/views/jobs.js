// All jobs, with a filter and why they wait.

import { useStore } from "../context.js";
import { Badge, JobBadge, JobLink, Search, Select, Since, Table, ViewHead } from "../elements.js";
import { html, useMemo } from "../html.js";
import { changeSettings } from "../routes.js";
import { jobName, jobState } from "../store.js";
import { count, number, startDetail, startText } from "../text.js";

/** @typedef {import("../types.js").JobRow} JobRow */

const STATES = { "": "all", running: "running", pending: "pending", rejected: "rejected", suspended: "suspended", finished: "finished", affected: "affected by a fault" };
/** Pending and rejected jobs first: they are what an operator looks for. */
const ORDER = { pending: 0, rejected: 0, running: 1, suspended: 2, finished: 3 };

/** @param {{settings: URLSearchParams}} props */
export function JobsView({ settings }) {
  const { jobs, time, queues } = useStore();
  const [text, state, queue] = [settings.get("text") ?? "", settings.get("state") ?? "", settings.get("queue") ?? ""];
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [...jobs.values()].filter((job) => {
    if (state === "affected" ? job.affected_by.length === 0 : state && jobState(job) !== state) return false;
    if (queue && job.queue !== queue) return false;
    const all = `${jobName(job)} ${job.kind} ${job.user} ${job.queue} ${job.phase} ${job.reason_code} ${job.reason_message} ${job.affected_by.join(" ")} ${job.moves.join(" ")}`.toLowerCase();
    return words.every((word) => all.includes(word));
  });
  found.sort((a, b) => ORDER[jobState(a)] - ORDER[jobState(b)] || b.created - a.created || a.id - b.id);
  const users = [...jobs.values()].some((job) => job.user);
  const columns = useMemo(() => columnsAt(time, users), [time, users]);
  return html`
    <${ViewHead} title="Jobs" />
    <div class="toolbar">
      <${Search} label="Filter" placeholder="words of a name, kind, reason" value=${text} onInput=${(/** @type {string} */ value) => changeSettings({ text: value })} />
      <${Select} label="State" options=${STATES} value=${state} onChange=${(/** @type {string} */ value) => changeSettings({ state: value })} />
      <${Select} label="Queue" options=${{ "": "all", ...Object.fromEntries(queues.map(({ name }) => [name, name])) }} value=${queue}
        onChange=${(/** @type {string} */ value) => changeSettings({ queue: value })} />
      <p class="found" role="status">${found.length === jobs.size ? count(jobs.size, "job") : `${number(found.length)} of ${count(jobs.size, "job")}`}</p>
    </div>
    <${Table} label="Jobs" columns=${columns} rows=${found} id=${(/** @type {JobRow} */ job) => job.id}
      empty=${jobs.size ? "No job fits the filter." : "There are no jobs."} />`;
}

/** When it starts, or when it ends. @param {JobRow} job @param {string} now */
function expected(job, now) {
  if (job.expected_start) return html`<span title=${startDetail(job.expected_start)}>start ${startText(job.expected_start, now)}</span>`;
  return job.expected_end !== null && html`end <${Since} time=${job.expected_end} />`;
}

/** @param {string} now @param {boolean} users whether some job has a user @returns {import("../elements.js").Column<JobRow>[]} */
function columnsAt(now, users) {
  /** @type {import("../elements.js").Column<JobRow>} */
  const user = { title: "user", cell: (job) => job.user && html`<bdi>${job.user}</bdi>`, sort: (job) => job.user };
  return [
    { title: "job", kind: "named", cell: (job) => html`<${JobLink} namespace=${job.namespace} name=${job.name} />`, sort: jobName },
    { title: "phase", cell: (job) => html`<${JobBadge} job=${job} />${job.affected_by.length > 0 && html` <${Badge} kind="bad">affected<//>`}${job.moves.length > 0 && html` <${Badge} kind="waiting">moves<//>`}`, sort: (job) => job.phase },
    ...(users ? [user] : []),
    { title: "kind", cell: (job) => job.kind, sort: (job) => job.kind },
    { title: "queue", cell: (job) => html`<bdi>${job.queue}</bdi>`, sort: (job) => job.queue },
    { title: "pods", cell: (job) => `${number(job.running)} of ${number(job.pods)}`, sort: (job) => job.pods, kind: "number" },
    { title: "chips", cell: (job) => number(job.chips), sort: (job) => job.chips, kind: "number" },
    { title: "priority", cell: (job) => number(job.priority), sort: (job) => job.priority, kind: "number" },
    { title: "created", cell: (job) => html`<${Since} time=${job.created} />`, sort: (job) => -job.created, kind: "number" },
    { title: "expected", cell: (job) => expected(job, now), sort: (job) => job.expected_start?.earliest ?? job.expected_end ?? Infinity },
    {
      title: "reason",
      cell: (job) => job.reason_code && html`<span class="reason"><code>${job.reason_code}</code> <bdi>${job.reason_message}</bdi>
        ${job.reason_source && html` <small class="faint">condition of the ${job.reason_source}</small>`}</span>`,
      sort: (job) => job.reason_code,
      kind: "wide",
    },
  ];
}
