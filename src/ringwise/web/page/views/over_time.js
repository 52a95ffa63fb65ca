// Plots of what the process remembers.

import { connection, useStore } from "../context.js";
import { Problem, Section, ViewHead } from "../elements.js";
import { html, useEffect, useMemo, useRef, useState } from "../html.js";
import { number, percent, resourceText, span } from "../text.js";
import { onThemeChange } from "../theme.js";
import uPlot from "../vendor/uplot.js";

/** @typedef {import("../types.js").Series} Series */
/** @typedef {{label: string, color: string, read: (series: Series) => number[]}} Line */
/** @typedef {{title: string, lines: Line[], write: (value: number) => string, steps?: number[]}} PlotOf */

/** Distances of the marks beside plots of things that are counted: there is no half job. */
const WHOLE = [1, 2, 5].flatMap((first) => [0, 1, 2, 3, 4, 5, 6].map((power) => first * 10 ** power)).sort((a, b) => a - b);
const COLORS = ["--plot-1", "--plot-2", "--plot-3", "--plot-4"];

/** Small rates are shown with more digits. @param {number} value */
const rate = (value) => Number(value.toPrecision(2)).toString();

/** @param {number} value */
const whole = (value) => number(Math.round(value));

/**
 * A plot of chips for each resource: those of different ones are not added.
 * @param {readonly string[]} resources
 * @returns {PlotOf[]}
 */
function plotsOf(resources) {
  const several = resources.length > 1;
  /** @param {string} resource @param {string} what */
  const titled = (resource, what) => (several ? `${what}, ${resourceText(resource)}` : what);
  return [
    ...resources.map((resource) => ({
      title: titled(resource, "Chips"),
      lines: [
        { label: "in use", color: "--plot-1", read: (/** @type {Series} */ series) => series.resources[resource].used },
        { label: "free", color: "--plot-2", read: (/** @type {Series} */ series) => series.resources[resource].free },
      ],
      write: whole,
      steps: WHOLE,
    })),
    { title: "Jobs pending", lines: [{ label: "pending", color: "--plot-3", read: (series) => series.pending }], write: whole, steps: WHOLE },
    {
      title: "Fragmentation",
      lines: resources.map((resource, i) => ({
        label: titled(resource, "fragmentation"),
        color: several ? COLORS[i % COLORS.length] : "--plot-4",
        read: (/** @type {Series} */ series) => series.resources[resource].fragmentation,
      })),
      write: percent,
    },
    { title: "Decisions per second", lines: [{ label: "decisions", color: "--plot-1", read: (series) => series.decisions }], write: rate },
  ];
}

export function OverTimeView() {
  const { series, error } = useSeries();
  const resources = series ? Object.keys(series.resources) : [];
  const plots = useMemo(() => plotsOf(resources), [resources.join(" ")]);
  return html`
    <${ViewHead} title="Over time" />
    <${Problem} error=${error} what="The past" />
    ${!series && !error && html`<p class="empty" role="status">Reading.</p>`}
    ${series && series.times.length < 2 && html`<p class="empty">The process has just begun to remember: it takes a point every ${span(series.interval_seconds)} while time passes, and a plot needs two.</p>`}
    ${series && series.times.length >= 2 && html`
      <p class="faint">The last ${span(series.times[series.times.length - 1] - series.times[0])}, a point every ${span(series.interval_seconds)}, kept by this process.</p>
      <div class="plots">${plots.map((plot) => html`<${Plot} key=${plot.title} plot=${plot} series=${series} />`)}</div>
      <${Values} plots=${plots} series=${series} />`}`;
}

function useSeries() {
  const { epoch } = useStore();
  const [state, setState] = useState(/** @type {{series: Series | null, error: any}} */ ({ series: null, error: null }));
  useEffect(() => {
    const control = new AbortController();
    let timer = 0;
    const read = async () => {
      let wait = 10;
      try {
        const series = await connection.document("series", { signal: control.signal });
        setState({ series, error: null });
        wait = Math.min(60, Math.max(1, series.interval_seconds));
      } catch (error) {
        if (control.signal.aborted) return;
        setState((/** @type {any} */ old) => ({ ...old, error }));
      }
      timer = window.setTimeout(read, wait * 1000);
    };
    void read();
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [epoch]);
  return state;
}

/** @param {number[]} values */
function bounds(values) {
  const known = values.filter((value) => Number.isFinite(value));
  return known.length ? { now: known[known.length - 1], least: Math.min(...known), most: Math.max(...known) } : null;
}

/** @param {{plot: PlotOf, series: Series}} props */
function Plot({ plot, series }) {
  const frame = useRef(/** @type {HTMLElement | null} */ (null));
  const chart = useRef(/** @type {any} */ (null));
  const data = [series.times, ...plot.lines.map((line) => line.read(series))];
  const latest = useRef(data);
  latest.current = data;
  useEffect(() => {
    const element = frame.current;
    if (!element) return undefined;
    const make = () => {
      chart.current?.destroy();
      chart.current = new uPlot(plotOptions(plot, element), latest.current, element);
    };
    make();
    const sizes = new ResizeObserver(() => chart.current?.setSize({ width: element.clientWidth, height: element.clientHeight }));
    sizes.observe(element);
    const unlisten = onThemeChange(make);
    return () => {
      unlisten();
      sizes.disconnect();
      chart.current?.destroy();
      chart.current = null;
    };
  }, [plot]);
  useEffect(() => chart.current?.setData(latest.current), [series]);
  const texts = plot.lines.map((line) => {
    const found = bounds(line.read(series));
    return found ? `${line.label} ${plot.write(found.now)} now, ${plot.write(found.least)} at least, ${plot.write(found.most)} at most` : `${line.label}: nothing known`;
  });
  return html`<${Section} title=${plot.title} class="plot">
    <p class="plot-text">${plot.lines.map((line, i) => html`<span key=${line.label}><i class="line" aria-hidden="true" style=${{ background: `var(${line.color})` }}></i>${texts[i]}</span>`)}</p>
    <div class="plot-frame" ref=${frame} role="img" aria-label=${`${plot.title} over time: ${texts.join("; ")}`}></div>
  <//>`;
}

/** A time of the day, UTC as all times of the page. @param {number} seconds */
function hours(seconds) {
  return new Date(seconds * 1000).toISOString().slice(11, seconds % 60 ? 19 : 16);
}

/** @param {PlotOf} plot @param {HTMLElement} element */
function plotOptions(plot, element) {
  const style = getComputedStyle(element);
  const axis = { stroke: style.getPropertyValue("--muted"), grid: { stroke: style.getPropertyValue("--line"), width: 1 }, ticks: { stroke: style.getPropertyValue("--line"), width: 1 }, font: "11px system-ui" };
  return {
    width: element.clientWidth || 300,
    height: element.clientHeight || 160,
    legend: { show: false },
    cursor: { drag: { x: false, y: false } },
    scales: { y: { range: (/** @type {unknown} */ _, /** @type {number} */ _least, /** @type {number} */ most) => [0, most > 0 ? most * 1.08 : 1] } },
    axes: [{ ...axis, size: 30, values: (/** @type {unknown} */ _, /** @type {number[]} */ times) => times.map(hours) }, { ...axis, size: 56, ...(plot.steps && { incrs: plot.steps }), values: (/** @type {unknown} */ _, /** @type {number[]} */ values) => values.map(plot.write) }],
    series: [
      {},
      ...plot.lines.map((line) => ({ label: line.label, stroke: style.getPropertyValue(line.color), width: 1.5, points: { show: false } })),
    ],
  };
}

/** The same as numbers. @param {{plots: PlotOf[], series: Series}} props */
function Values({ plots, series }) {
  const step = Math.max(1, Math.ceil(series.times.length / 60));
  const rows = series.times.map((_, i) => i).filter((i) => (series.times.length - 1 - i) % step === 0).reverse();
  const lines = plots.flatMap((plot) => plot.lines.map((line) => {
    const title = plot.title.startsWith("Chips, ") ? `${line.label}, ${plot.title.slice(7)}` : line.label;
    return { title, values: line.read(series), write: plot.write };
  }));
  return html`<details class="panel"><summary>The same as a table</summary>
    <div class="table-frame"><table role="table" aria-label="Values over time"><thead role="rowgroup"><tr role="row"><th role="columnheader" scope="col">time</th>
      ${lines.map((line) => html`<th key=${line.title} role="columnheader" scope="col" class="number">${line.title}</th>`)}</tr></thead>
    <tbody role="rowgroup">${rows.map((i) => html`<tr key=${series.times[i]} role="row"><td role="cell" data-title="time" class="named"><div class="value">${new Date(series.times[i] * 1000).toISOString().slice(0, 19).replace("T", " ")}</div></td>
      ${lines.map((line) => html`<td key=${line.title} role="cell" data-title=${line.title} class="number"><div class="value">${line.write(line.values[i])}</div></td>`)}</tr>`)}</tbody></table></div>
  </details>`;
}
