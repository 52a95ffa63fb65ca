// Pictures made of lists: the chips of a node, and where a job is. A screen reader reads them as lists.

import { chipColors, css, Palette, queueIndexes } from "../colors.js";
import { store } from "../context.js";
import { NodeLink } from "../elements.js";
import { html, useEffect, useState } from "../html.js";
import { nodeShape } from "../layout.js";
import { CHIP_STATES, jobsOnChip, natural, partlyUsed } from "../store.js";
import { count, healthText, number as numberText, ranges } from "../text.js";
import { onThemeChange } from "../theme.js";

/** @typedef {import("../types.js").NodeRow} NodeRow */
/** @typedef {import("../types.js").PodFields} PodFields */

function usePalette() {
  const [palette, setPalette] = useState(() => new Palette(document.documentElement));
  useEffect(() => onThemeChange(() => setPalette(new Palette(document.documentElement))), []);
  return palette;
}

/** `chips` have what pods have of them, once that is known. @param {{node: NodeRow, chips?: import("../types.js").ChipFields[]}} props */
export function NodePicture({ node, chips = [] }) {
  const palette = usePalette();
  const shape = nodeShape(store.board(node), node.numbers);
  const colors = chipColors("job", palette, store, node, queueIndexes(store));
  return html`<ol class="node-picture" aria-label=${`Chips of ${node.name}`}>
    ${node.numbers.map((number, i) => {
      const holder = node.holders[i];
      const others = jobsOnChip(node, i).length - 1;
      const [column, row] = [Math.floor(shape.xs[i]) + 1, Math.floor(shape.ys[i]) + 1];
      const gaps = { marginLeft: `${(shape.xs[i] % 1) * 3}em`, marginTop: `${(shape.ys[i] % 1) * 3}em` };
      return html`<li key=${number} class=${`chip-box ${node.health[i] === "h" ? "" : "unhealthy"}`}
          style=${{ gridColumn: column, gridRow: row, "--swatch": css(colors[i]), ...gaps }}>
        <strong>${number}</strong>
        <span class="holder"><bdi>${holder < 0 ? CHIP_STATES[node.chip_states[i]] : store.holderName(holder).replace(/^[^/]*\//, "")}</bdi>${others > 0 ? ` and ${numberText(others)} more` : ""}</span>
        <${Shares} chip=${chips.find((chip) => chip.number === number)} palette=${palette} node=${node} index=${i} />
        ${node.health[i] !== "h" && !(holder < 0 && healthText(node.health[i]).startsWith(CHIP_STATES[node.chip_states[i]])) && html`<span class="health">${healthText(node.health[i])}</span>`}
      </li>`;
    })}
  </ol>`;
}

/** The shares or vNPUs of a chip side by side, each in the color of its job.
 * @param {{chip?: import("../types.js").ChipFields, palette: Palette, node: NodeRow, index: number}} props
 */
function Shares({ chip, palette, node, index }) {
  const shares = chip?.shares ?? [];
  if (!shares.length) return null;
  /** @param {string} name */
  const jobOf = (name) => jobsOnChip(node, index).find((id) => store.holderName(id) === name) ?? node.holders[index];
  const label = `${partlyUsed(node, index)}% used: ${shares.map((share) => `${share.pod} ${share.message}`).join(", ")}`;
  return html`<span class="stripes" role="img" aria-label=${label} title=${label}>
    ${shares.map((share) => html`<i key=${share.pod} style=${{ background: css(palette.nth(jobOf(share.job))), width: `${share.percent}%` }}></i>`)}</span>`;
}

/**
 * @typedef {{title: string, nodes: Map<string, PodFields[]>}} Area
 */

/**
 * The pods of a job by SuperPoD and block, or by leaf switch, and in them by node.
 * @param {PodFields[]} pods
 * @returns {{areas: Area[], without: PodFields[]}}
 */
export function areasOf(pods) {
  const without = pods.filter((pod) => !pod.node);
  const superpods = pods.some((pod) => pod.superpod !== null);
  /** @type {Map<string, Area>} */
  const areas = new Map();
  for (const pod of pods) {
    if (!pod.node) continue;
    const parts = [];
    if (superpods) parts.push(pod.superpod === null ? "without a SuperPoD" : `SuperPoD ${pod.superpod}`);
    else if (pod.switch) parts.push(`leaf switch ${pod.switch}`);
    if (pod.block) parts.push(`block ${pod.block}`);
    if (pod.rack !== null) parts.push(`rack ${pod.rack}`);
    const title = parts.join(", ");
    const area = areas.get(title) ?? { title, nodes: new Map() };
    areas.set(title, area);
    area.nodes.set(pod.node, [...(area.nodes.get(pod.node) ?? []), pod]);
  }
  return { areas: [...areas.values()].sort((a, b) => natural(a.title, b.title)), without };
}

/** @param {{pods: PodFields[]}} props */
export function JobPicture({ pods }) {
  const { areas, without } = areasOf(pods);
  if (!areas.length) return html`<p class="empty">No pod has a node.</p>`;
  return html`<ul class="areas" aria-label="Where the job is">
    ${areas.map((area) => html`<li key=${area.title} class="area">
      ${area.title && html`<h3>${area.title} <small>${count(area.nodes.size, "node")}</small></h3>`}
      <ul class="area-nodes" aria-label=${area.title || "nodes"}>
        ${[...area.nodes].map(([name, inNode]) => html`<${AreaNode} key=${name} name=${name} pods=${inNode} />`)}
      </ul>
    </li>`)}
    ${without.length > 0 && html`<li class="area none"><h3>without a node <small>${count(without.length, "pod")}</small></h3></li>`}
  </ul>`;
}

/** @param {{name: string, pods: PodFields[]}} props */
function AreaNode({ name, pods }) {
  const row = store.nodes.get(name);
  const mine = new Set(pods.flatMap((pod) => pod.chips));
  const ranks = pods.flatMap((pod) => (pod.rank === null ? [] : [pod.rank]));
  const text = `${ranks.length ? `rank ${ranges(ranks)}, ` : ""}chips ${ranges([...mine]) || "none"}`;
  const shape = row && nodeShape(store.board(row), row.numbers);
  return html`<li>
    <${NodeLink} name=${name} />
    ${row && shape && html`<span class="mini" aria-hidden="true" style=${{ width: `${shape.w * 9}px`, height: `${shape.h * 9}px` }}>
      ${row.numbers.map((number, i) => html`<i key=${number} class=${mine.has(number) ? "mine" : row.holders[i] >= 0 ? "other" : ""}
        style=${{ left: `${shape.xs[i] * 9}px`, top: `${shape.ys[i] * 9}px` }}></i>`)}
    </span>`}
    <span class="faint">${text}</span>
  </li>`;
}
