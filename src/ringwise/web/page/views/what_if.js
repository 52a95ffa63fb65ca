// What-if: where the jobs of a manifest would go now, and what would start them. Nothing is changed.

import { connection } from "../context.js";
import { Badge, Name, NodeLink, Section, Table, ViewHead } from "../elements.js";
import { html, useRef, useState } from "../html.js";
import { link } from "../routes.js";
import { count, ranges } from "../text.js";
import { keepPlan } from "./what_if_plan.js";

/** @typedef {import("../types.js").PlaceDocument} PlaceDocument */
/** @typedef {import("../types.js").PlacedJob} PlacedJob */
/** @typedef {import("../types.js").PlacedPod} PlacedPod */

const LARGEST = 1 << 20;
/** Milliseconds: a large manifest on a large cluster takes some time, and others may be asking. */
const PATIENCE = 120_000;
/** The text and its answer stay when another view is opened in between. */
/** @type {{text: string, answer: PlaceDocument | null, problem: string}} */
const kept = { text: "", answer: null, problem: "" };

export function WhatIfView() {
  const [text, setText] = useState(kept.text);
  const [answer, setAnswer] = useState(kept.answer);
  const [problem, setProblem] = useState(kept.problem);
  const [busy, setBusy] = useState(false);
  const [over, setOver] = useState(false);
  const area = useRef(/** @type {HTMLTextAreaElement | null} */ (null));

  /** @param {PlaceDocument | null} document @param {string} error */
  const show = (document, error) => {
    Object.assign(kept, { answer: document, problem: error });
    keepPlan(document);
    setAnswer(document);
    setProblem(error);
    setBusy(false);
  };
  /** @param {string} value */
  const change = (value) => {
    kept.text = value;
    setText(value);
  };
  /** @param {string} manifest */
  const ask = async (manifest) => {
    if (!manifest.trim()) return show(null, "There is no manifest: paste one, or drop a file.");
    if (new Blob([manifest]).size > LARGEST) return show(null, "The manifest is larger than 1 MiB.");
    setBusy(true);
    try {
      return show(await connection.document("what-if", { method: "POST", body: manifest, headers: { "Content-Type": "text/plain; charset=utf-8" } }, PATIENCE), "");
    } catch (error) {
      return show(null, error instanceof Error ? error.message : String(error));
    }
  };
  /** @param {FileList | null | undefined} files */
  const take = async (files) => {
    const all = await Promise.all([...(files ?? [])].map((file) => file.text()));
    if (!all.length) return;
    const joined = all.join("\n---\n");
    change(joined);
    await ask(joined);
  };
  return html`
    <${ViewHead} title="What-if" />
    <p>Paste the manifest of jobs, or drop files. The scheduler answers where they would go now and what would start them. Nothing is changed.</p>
    <form class=${`what-if ${over ? "over" : ""}`}
        onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); void ask(text); }}
        onDragOver=${(/** @type {DragEvent} */ event) => { event.preventDefault(); setOver(true); }}
        onDragLeave=${() => setOver(false)}
        onDrop=${(/** @type {DragEvent} */ event) => { event.preventDefault(); setOver(false); void take(event.dataTransfer?.files); }}>
      <label class="field tall"><span>Manifest (YAML or JSON)</span>
        <textarea ref=${area} rows="14" spellcheck="false" autocomplete="off" value=${text}
          onInput=${(/** @type {any} */ event) => change(event.target.value)}
          onKeyDown=${(/** @type {KeyboardEvent} */ event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void ask(text); }}></textarea>
      </label>
      <div class="buttons">
        <button type="submit" class="primary" disabled=${busy}>${busy ? "Asking" : "Where would it go?"}</button>
        <label class="file"><span>Open a file</span>
          <input type="file" multiple accept=".yaml,.yml,.json,.txt" onChange=${(/** @type {any} */ event) => { void take(event.target.files); event.target.value = ""; }} />
        </label>
        <span class="faint">Ctrl+Enter asks, too.</span>
      </div>
    </form>
    <div role="status" aria-live="polite">
      ${problem && html`<pre class="problem">${problem}</pre>`}
      ${answer && html`<p class="found">${count(answer.jobs.length, "job")}: ${outcomes(answer)}.
        ${answer.jobs.some((job) => job.state === "scheduled") && html` <a href=${link(["map"], { plan: "1" })}>Show on the map</a>`}</p>`}
    </div>
    ${answer?.jobs.map((job) => html`<${Answer} key=${`${job.namespace}/${job.name}`} job=${job} />`)}`;
}

/** @param {PlaceDocument} answer */
function outcomes(answer) {
  /** @type {Map<string, number>} */
  const found = new Map();
  for (const job of answer.jobs) found.set(job.state, (found.get(job.state) ?? 0) + 1);
  return [...found].map(([state, jobs]) => `${jobs} ${state}`).join(", ") || "none";
}

/** @param {{job: PlacedJob}} props */
function Answer({ job }) {
  const placed = job.pods.filter((pod) => pod.node);
  return html`<${Section} title=${`${job.namespace}/${job.name}`} class="answer">
    <p><${Badge} kind=${job.state === "scheduled" ? "running" : job.state === "rejected" ? "bad" : "waiting"}>${job.state}<//>
      ${job.class && html` <span class="faint">${job.class} job</span>`}
      ${job.reason && html` <code>${job.reason.code}</code> <bdi class="sentence">${job.reason.message}</bdi>`}</p>
    ${(job.reason?.fixes.length ?? 0) > 0 && html`<h3>What would start it</h3>
      <ul class="fixes" aria-label="Fixes">${job.reason?.fixes.map((fix) => html`<li key=${fix}><bdi>${fix}</bdi></li>`)}</ul>`}
    ${placed.length > 0 && html`<${Table} label=${`Pods of ${job.name}`} rows=${job.pods} id=${(/** @type {PlacedPod} */ pod) => pod.name} columns=${podColumns(job.pods)} />`}
  <//>`;
}

/** @param {PlacedPod[]} pods @returns {import("../elements.js").Column<PlacedPod>[]} */
function podColumns(pods) {
  /** @type {import("../elements.js").Column<PlacedPod>[]} */
  const columns = [
    { title: "rank", cell: (pod) => pod.rank, sort: (pod) => pod.rank, kind: "number" },
    { title: "pod", kind: "named", cell: (pod) => html`<${Name}>${pod.name}<//>`, sort: (pod) => pod.name },
    { title: "node", cell: (pod) => (pod.node ? html`<${NodeLink} name=${pod.node} />` : html`<span class="faint">none</span>`), sort: (pod) => pod.node ?? "" },
    { title: "chips", cell: (pod) => ranges(pod.chips ?? []) },
  ];
  for (const [field, title] of /** @type {const} */ ([["switch", "leaf switch"], ["superpod", "SuperPoD"], ["logical_superpod", "block"]])) {
    if (pods.some((pod) => pod[field] !== null)) columns.push({ title, cell: (pod) => pod[field] ?? "", sort: (pod) => pod[field] ?? "" });
  }
  return columns;
}
