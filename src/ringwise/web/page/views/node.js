// The page of a node: its chips ring by ring, who holds them, and why the scheduler avoids it.

import { store, useDocument, useStore } from "../context.js";
import { modeText, nodeText, withheldText } from "../describe.js";
import { Badge, Facts, JobLinkByKey, KeyValues, Name, Problem, Section, Table, ViewHead } from "../elements.js";
import { html } from "../html.js";
import { link } from "../routes.js";
import { CHIP_STATES, chipCounts, nodeWhy } from "../store.js";
import { count, encoded, healthText, known, nodeStateKind, nodeStateText, ranges } from "../text.js";
import { NodePicture } from "./pictures.js";

/** @typedef {import("../types.js").NodeDocument} NodeDocument */

const PLURALS = /** @type {Record<string, string>} */ ({ mesh: "meshes" });

/** @param {{name: string}} props */
export function NodeView({ name }) {
  const { nodes } = useStore();
  const row = nodes.get(name);
  const { document, error } = /** @type {{document: NodeDocument | null, error: any}} */ (useDocument(`nodes/${encoded(name)}`, row));
  const node = row ?? document?.node;
  if (!node) {
    return html`<${ViewHead} title=${name} />${error ? html`<${Problem} error=${error} what="The node" />` : html`<p class="empty" role="status">Reading.</p>`}`;
  }
  const counts = chipCounts(node);
  const board = store.board(node);
  return html`
    <${ViewHead} title=${name}><${Badge} kind=${nodeStateKind(node)}>${nodeStateText(node)}<//>
      <a href=${link(["map"], { node: name })}>Show on the map</a><//>
    <${Problem} error=${error} what="The node" />
    <div class="columns">
      <${Section} title="Node">
        <${Facts} items=${[
          ["state", nodeWhy(node) ? html`${nodeStateText(node)}: <bdi>${nodeWhy(node)}</bdi>` : nodeStateText(node)],
          ["allocation mode", modeText(node)],
          ["board", board ? html`${board.name} <span class="faint">${board.accelerator}</span>` : "not known"],
          ["chips", [`${counts.free} of ${count(counts.chips, "chip")} free`, `${counts.used} used`, ...withheldText(counts)].join(", ")],
          ["leaf switch", node.switch && html`<${Name}>${node.switch}<//>`],
          ["SuperPoD", node.superpod !== null && html`<${Name}>${known(node.superpod)}<//>`],
          ["rack", node.rack !== null && html`<${Name}>${known(node.rack)}<//>`],
          ["address", document?.address],
        ]} />
        ${document && document.reasons.length > 0 && html`<h3>Why the scheduler avoids it</h3>
          <ul>${document.reasons.map((reason) => html`<li key=${reason.code}><code>${reason.code}</code> <bdi>${reason.message}</bdi></li>`)}</ul>`}
      <//>
      <${Section} title="Chips" note=${board && board.rings.length > 1 ? count(board.rings.length, board.ring_kind, PLURALS[board.ring_kind]) : ""}>
        <${NodePicture} node=${node} chips=${document?.chips} />
        <p class="visually-hidden">${nodeText(store, node)}</p>
      <//>
    </div>
    <${Section} title="Each chip">
      <${Table} label="Chips" rows=${document?.chips ?? []} id=${(/** @type {any} */ chip) => chip.number} empty="No chips are known." columns=${chipColumns(node)} />
    <//>
    ${document && document.pods.length > 0 && html`<${Section} title="Pods">
      <${Table} label="Pods" rows=${document.pods} id=${(/** @type {any} */ pod) => `${pod.namespace}/${pod.name}`} columns=${podColumns()} /><//>`}
    ${document && (Object.keys(document.labels).length > 0 || Object.keys(document.annotations).length > 0) && html`<${Section} title="What the scheduler reads">
      <${KeyValues} label="Labels" values=${document.labels} />
      <${KeyValues} label="Annotations" values=${document.annotations} /><//>`}`;
}

/**
 * @param {import("../types.js").NodeRow} node
 * @returns {import("../elements.js").Column<import("../types.js").ChipFields>[]}
 */
function chipColumns(node) {
  /** @param {import("../types.js").ChipFields} chip */
  const state = (chip) => CHIP_STATES[node.chip_states[node.numbers.indexOf(chip.number)]] ?? "";
  return [
    { title: "chip", cell: (chip) => html`${chip.number} <span class="faint">${chip.name}</span>`, sort: (chip) => chip.number },
    { title: "health", cell: (chip) => html`<${Badge} kind=${chip.health === "h" ? "running" : "bad"}>${healthText(chip.health)}<//>`, sort: (chip) => chip.health },
    { title: "held by", cell: (chip) => (chip.job ? html`${jobsOf(chip).map((job) => html`<${JobLinkByKey} key=${job} job=${job} /> `)}` : html`<span class="faint">${state(chip)}</span>`), sort: (chip) => chip.job || state(chip) },
    { title: "pod", cell: (chip) => (chip.shares?.length ? chip.shares.map((share) => html`<bdi key=${share.pod}>${share.pod} (${share.message})</bdi> `) : html`<bdi>${chip.pod}</bdi>`), sort: (chip) => chip.pod },
    { title: "fault codes and notes", cell: (chip) => [...chip.codes, chip.note].filter(Boolean).map((text) => html`<bdi key=${text}>${text}</bdi> `), kind: "wide" },
  ];
}

/** @param {import("../types.js").ChipFields} chip */
function jobsOf(chip) {
  return chip.shares?.length ? [...new Set(chip.shares.map((share) => share.job))] : [chip.job];
}

/** @returns {import("../elements.js").Column<NodeDocument["pods"][number]>[]} */
function podColumns() {
  return [
    { title: "pod", kind: "named", cell: (pod) => html`<${Name}>${pod.namespace}/${pod.name}<//>`, sort: (pod) => pod.name },
    { title: "job", cell: (pod) => pod.job && html`<${JobLinkByKey} job=${pod.job} />`, sort: (pod) => pod.job },
    { title: "phase", cell: (pod) => pod.phase, sort: (pod) => pod.phase },
    { title: "chips", cell: (pod) => ranges(pod.chips) },
  ];
}
