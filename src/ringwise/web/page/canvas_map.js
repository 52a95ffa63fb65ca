// The map: every chip of the cluster on a canvas.
//
// Chips are written as pixels into one buffer: a change repaints its node only, and a whole cluster of 80,000 chips is
// a few milliseconds also where no graphics processor helps. Names and outlines are on a second canvas above it.

import { chipColors, css, inSign, mix, Palette, pixel, queueIndexes } from "./colors.js";
import { chipText, groupText, groupTitle, nodeText } from "./describe.js";
import { at, chipOrigin, layOut, NODE_HEAD } from "./layout.js";
import { CHIP_STATES, jobsOnChip, nodeSign, partlyUsed } from "./store.js";
import { visible } from "./text.js";

/** @typedef {import("./store.js").Store} Store */
/** @typedef {import("./types.js").NodeRow} NodeRow */
/** @typedef {import("./layout.js").Layout} Layout */
/** @typedef {import("./layout.js").Group} Group */
/** @typedef {import("./layout.js").PlacedNode} PlacedNode */
/** @typedef {import("./layout.js").Box} Box */

/** What the cursor is on: a group, a node, or a chip of a node.
 * @typedef {{group: Group | null, node: PlacedNode | null, chip: number}} Place
 */

/** What is to be seen among others: a job, a queue, or chips of nodes.
 * @typedef {{job?: number, queue?: string, chips?: Map<string, Set<number>>}} Highlight
 */

/** @typedef {(place: Place, text: string, path: Group[]) => void} PlaceListener */

const LARGEST_CHIP = 130;
/** How much of the picture the whole cluster fills. */
const WHOLE = 0.97;
const ZOOM_STEP = 1.5;
const ZOOM_TIME = 180;
const FONT = "system-ui, sans-serif";

export class CanvasMap {
  /**
   * @param {HTMLCanvasElement} base
   * @param {HTMLCanvasElement} overlay
   * @param {Store} store
   * @param {{onPlace: PlaceListener, onHover: (text: string, x: number, y: number) => void, onOpen: (node: string) => void}} listeners
   */
  constructor(base, overlay, store, listeners) {
    this.base = base;
    this.overlay = overlay;
    this.store = store;
    this.listeners = listeners;
    this.mode = "job";
    this.grouping = "none";
    /** @type {Highlight} */
    this.highlight = {};
    this.palette = new Palette(overlay);
    /** @type {Layout} */
    this.layout = layOut([], [], "none", 1);
    /** @type {Place} */
    this.place = { group: null, node: null, chip: -1 };
    /** @type {Place} */
    this._hover = { group: null, node: null, chip: -1 };
    this._queues = queueIndexes(store);
    this._width = 0;
    this._height = 0;
    this._ratio = 1;
    this._scale = 1;
    this._x = 0;
    this._y = 0;
    /** Whether the map shows the whole cluster, and is scaled again when the cluster or the window grows. */
    this._fitted = true;
    this._image = new ImageData(1, 1);
    this._pixels = new Uint32Array(this._image.data.buffer);
    this._repaint = true;
    /** @type {Set<string>} */
    this._changed = new Set();
    this._frame = 0;
    this._tween = 0;
    this._ended = new AbortController();
    this._listen();
    this._unsubscribe = store.subscribe((change) => this._onChange(change));
    this._resizes = new ResizeObserver(() => this.resize());
    this._resizes.observe(overlay);
    this.resize();
  }

  close() {
    this._ended.abort();
    this._unsubscribe();
    this._resizes.disconnect();
    cancelAnimationFrame(this._frame);
    cancelAnimationFrame(this._tween);
  }

  /** @param {{mode: string, grouping: string, highlight: Highlight}} options */
  setOptions(options) {
    const other = options.grouping !== this.grouping;
    Object.assign(this, options);
    if (other) this._layOut();
    this._schedule(true);
  }

  /** Read the colors of the theme again. */
  themeChanged() {
    this.palette = new Palette(this.overlay);
    this._schedule(true);
  }

  resize() {
    const box = this.overlay.getBoundingClientRect();
    this._ratio = Math.min(window.devicePixelRatio || 1, 3);
    const [width, height] = [Math.round(box.width * this._ratio), Math.round(box.height * this._ratio)];
    if (!width || !height || (width === this._width && height === this._height)) return;
    this._width = this.base.width = this.overlay.width = width;
    this._height = this.base.height = this.overlay.height = height;
    this._image = new ImageData(width, height);
    this._pixels = new Uint32Array(this._image.data.buffer);
    if (this._fitted) this._layOut();
    this._schedule(true);
  }

  // -- zoom

  fit() {
    this._fitted = true;
    this._moveTo({ x: 0, y: 0, w: this.layout.w, h: this.layout.h }, WHOLE);
  }

  /** @param {number} factor */
  zoom(factor) {
    this._zoomAt(factor, this._width / 2, this._height / 2);
  }

  /** @param {PlacedNode} node */
  showNode(node) {
    this._fitted = false;
    this._moveTo(node.box, 0.8);
  }

  /** @param {Group} group */
  showGroup(group) {
    this._fitted = false;
    this._moveTo(group.box, 0.95);
  }

  get scale() {
    return this._scale;
  }

  /** @param {Box} box @param {number} share of the picture that it fills */
  _viewOf(box, share) {
    const scale = Math.min((this._width / box.w) * share, (this._height / box.h) * share, LARGEST_CHIP * this._ratio);
    return { scale, x: this._width / 2 - (box.x + box.w / 2) * scale, y: this._height / 2 - (box.y + box.h / 2) * scale };
  }

  /** @param {Box} box @param {number} share */
  _moveTo(box, share) {
    if (!box.w || !box.h) return;
    const [from, to] = [{ scale: this._scale, x: this._x, y: this._y }, this._viewOf(box, share)];
    cancelAnimationFrame(this._tween);
    if (matchMedia("(prefers-reduced-motion: reduce)").matches || document.hidden) {
      return this._setView(to.scale, to.x, to.y);
    }
    const began = performance.now();
    /** @param {number} now */
    const step = (now) => {
      const t = Math.min(1, Math.max(0, (now - began) / ZOOM_TIME));
      const k = t * t * (3 - 2 * t);
      // The scale goes in equal factors, and the middle of the picture straight to its place.
      const scale = from.scale * (to.scale / from.scale) ** k;
      /** @param {{scale: number, x: number, y: number}} view @param {number} size @param {"x" | "y"} axis */
      const middle = (view, size, axis) => (size / 2 - view[axis]) / view.scale;
      const part = Math.abs(to.scale - from.scale) < 1e-9 ? k : (1 / from.scale - 1 / scale) / (1 / from.scale - 1 / to.scale);
      const cx = middle(from, this._width, "x") + (middle(to, this._width, "x") - middle(from, this._width, "x")) * part;
      const cy = middle(from, this._height, "y") + (middle(to, this._height, "y") - middle(from, this._height, "y")) * part;
      this._setView(scale, this._width / 2 - cx * scale, this._height / 2 - cy * scale);
      if (t < 1) this._tween = requestAnimationFrame(step);
    };
    this._tween = requestAnimationFrame(step);
  }

  /** @param {number} factor @param {number} px @param {number} py */
  _zoomAt(factor, px, py) {
    const whole = this._viewOf({ x: 0, y: 0, w: this.layout.w || 1, h: this.layout.h || 1 }, WHOLE).scale;
    const scale = Math.min(Math.max(this._scale * factor, whole), LARGEST_CHIP * this._ratio);
    if (scale === whole) return this.fit();
    const real = scale / this._scale;
    this._fitted = false;
    this._setView(scale, px - (px - this._x) * real, py - (py - this._y) * real);
  }

  /** @param {number} scale @param {number} x @param {number} y */
  _setView(scale, x, y) {
    this._scale = scale;
    // The cluster never leaves the picture.
    const [w, h] = [this.layout.w * scale, this.layout.h * scale];
    this._x = w <= this._width ? (this._width - w) / 2 : Math.min(this._width * 0.1, Math.max(this._width * 0.9 - w, x));
    this._y = h <= this._height ? (this._height - h) / 2 : Math.min(this._height * 0.1, Math.max(this._height * 0.9 - h, y));
    this.overlay.classList.toggle("zoomed", !this._fitted);
    this._schedule(true);
  }

  // -- changes

  /** @param {import("./store.js").StoreChange} change */
  _onChange(change) {
    this._queues = queueIndexes(this.store);
    if (change.nodes === null) {
      this._layOut();
      this._schedule(true);
      return;
    }
    for (const row of change.nodes) {
      const node = this.layout.nodes.get(row.name);
      if (node) node.row = row;
      this._changed.add(row.name);
    }
    if (change.nodes.length) this._schedule(false);
    if (this.place.node && this._changed.has(this.place.node.row.name)) this._tell();
  }

  _layOut() {
    const aspect = this._width && this._height ? this._width / this._height : 1.6;
    this.layout = layOut(this.store.nodes.values(), this.store.boards, this.grouping, aspect);
    // The cursor stays on what it was on, if that is still there.
    const { node, group, chip } = this.place;
    const found = node ? this.layout.nodes.get(node.row.name) : undefined;
    const same = group ? [...this.layout.tops, ...this.layout.leaves].find((one) => one.kind === group.kind && one.name === group.name) : undefined;
    this.place = found ? { group: found.leaf, node: found, chip } : { group: same ?? null, node: null, chip: -1 };
    this._hover = { group: null, node: null, chip: -1 };
    if (this._fitted && this._width) {
      const view = this._viewOf({ x: 0, y: 0, w: this.layout.w || 1, h: this.layout.h || 1 }, WHOLE);
      this._setView(view.scale, view.x, view.y);
    }
    this._tell();
  }

  // -- drawing

  /** @param {boolean} all */
  _schedule(all) {
    this._repaint ||= all;
    if (!this._frame) this._frame = requestAnimationFrame(() => this._draw());
  }

  _draw() {
    this._frame = 0;
    const context = this.base.getContext("2d", { alpha: false });
    if (!context || !this._width) return;
    if (this._repaint) {
      this._paintAll();
      context.putImageData(this._image, 0, 0);
    } else if (this._changed.size) {
      let [left, top, right, bottom] = [this._width, this._height, 0, 0];
      for (const name of this._changed) {
        const node = this.layout.nodes.get(name);
        const painted = node && this._paintNode(node);
        if (!painted) continue;
        [left, top] = [Math.min(left, painted[0]), Math.min(top, painted[1])];
        [right, bottom] = [Math.max(right, painted[2]), Math.max(bottom, painted[3])];
      }
      if (right > left) context.putImageData(this._image, 0, 0, left, top, right - left, bottom - top);
    }
    this._changed.clear();
    this._repaint = false;
    this._drawOverlay();
  }

  _paintAll() {
    const { rgb } = this.palette;
    this._pixels.fill(pixel(rgb.page));
    for (const top of this.layout.tops) {
      if (top.kind) this._fill(top.box, pixel(rgb.surface));
      for (const inner of top.groups) this._fill(inner.box, pixel(mix(rgb.surface, rgb.page, 0.6)));
    }
    for (const leaf of this.layout.leaves) {
      if (!this._visible(leaf.box)) continue;
      for (const node of leaf.nodes) this._paintNode(node);
    }
  }

  /** @param {Box} box */
  _visible(box) {
    const [x, y] = [box.x * this._scale + this._x, box.y * this._scale + this._y];
    return x < this._width && y < this._height && x + box.w * this._scale > 0 && y + box.h * this._scale > 0;
  }

  /**
   * @param {PlacedNode} node
   * @returns {[number, number, number, number] | null} the pixels that changed
   */
  _paintNode(node) {
    const { box, row, shape } = node;
    if (!this._visible(box)) return null;
    const { rgb } = this.palette;
    const scale = this._scale;
    const gap = scale >= 10 ? Math.round(scale / 14) : scale >= 4 ? 1 : 0;
    const sign = nodeSign(row);
    const edge = sign ? rgb[`sign-${sign}`] : rgb.node;
    const inset = { x: box.x + 0.08, y: box.y + 0.08, w: box.w - 0.16, h: box.h - 0.16 };
    const painted = this._fill(inset, pixel(sign && !row.schedulable ? mix(rgb.node, edge, 0.35) : rgb.node));
    const colors = chipColors(this.mode, this.palette, this.store, row, this._queues);
    const [left, top] = chipOrigin(node);
    for (let i = 0; i < colors.length; i += 1) {
      const dim = !this._isHighlighted(row, i);
      const x0 = Math.round((left + shape.xs[i]) * scale + this._x);
      const y0 = Math.round((top + shape.ys[i]) * scale + this._y);
      const x1 = Math.round((left + shape.xs[i] + shape.chip) * scale + this._x) - gap;
      const y1 = Math.round((top + shape.ys[i] + shape.chip) * scale + this._y) - gap;
      const fill = pixel(dim ? mix(colors[i], rgb.surface, 0.82) : colors[i]);
      // A chip with shares or vNPUs is filled from below as far as it is used.
      const used = partlyUsed(row, i);
      if (used < 100) this._rectangle(x0, y0, x1, y1, pixel(dim ? mix(rgb.free, rgb.surface, 0.82) : rgb.free));
      this._rectangle(x0, used < 100 ? Math.min(y1 - 1, y0 + Math.round(((y1 - y0) * (100 - used)) / 100)) : y0, x1, y1, fill);
      if (row.health[i] !== "h" && x1 - x0 >= 11) this._cross(x0, y0, x1, y1, pixel(mix(colors[i], rgb.page, 0.65)));
    }
    if (sign) this._sign(inset, pixel(edge), sign);
    if (row.allocation_mode) this._corner(painted, pixel(rgb.text));
    return painted;
  }

  /** The lower right corner of a node whose chips are shared or divided.
   * @param {[number, number, number, number]} box @param {number} color
   */
  _corner([, , right, bottom], color) {
    const size = Math.round(Math.min(6 * this._ratio, Math.max(2, this._scale / 3)));
    for (let i = 0; i < size; i += 1) this._rectangle(right - i - 1, bottom - size + i, right, bottom - size + i + 1, color);
  }

  /** @param {NodeRow} row @param {number} index */
  _isHighlighted(row, index) {
    const { job, queue, chips } = this.highlight;
    if (job !== undefined) return jobsOnChip(row, index).includes(job);
    if (queue !== undefined) return jobsOnChip(row, index).some((id) => this.store.jobs.get(id)?.queue === queue);
    if (chips) return chips.get(row.name)?.has(row.numbers[index]) ?? false;
    return true;
  }

  /** @param {Box} box @param {number} color @returns {[number, number, number, number]} */
  _fill(box, color) {
    const x0 = Math.round(box.x * this._scale + this._x);
    const y0 = Math.round(box.y * this._scale + this._y);
    const x1 = Math.round((box.x + box.w) * this._scale + this._x);
    const y1 = Math.round((box.y + box.h) * this._scale + this._y);
    this._rectangle(x0, y0, x1, y1, color);
    return [Math.max(0, x0), Math.max(0, y0), Math.min(this._width, x1), Math.min(this._height, y1)];
  }

  /** @param {number} x0 @param {number} y0 @param {number} x1 @param {number} y1 @param {number} color */
  _rectangle(x0, y0, x1, y1, color) {
    const [left, right] = [Math.max(0, x0), Math.min(this._width, x1)];
    const [top, bottom] = [Math.max(0, y0), Math.min(this._height, y1)];
    if (left >= right) return;
    for (let y = top; y < bottom; y += 1) {
      const row = y * this._width;
      if (right - left > 16) this._pixels.fill(color, row + left, row + right);
      else for (let x = left; x < right; x += 1) this._pixels[row + x] = color;
    }
  }

  /** Draw two diagonals, so that health is shown by a symbol as well as by a color if there is space for it.
   * @param {number} x0 @param {number} y0 @param {number} x1 @param {number} y1 @param {number} color
   */
  _cross(x0, y0, x1, y1, color) {
    const thick = Math.max(1, Math.round((x1 - x0) / 14));
    for (let y = y0; y < y1; y += 1) {
      const share = (y - y0) / Math.max(1, y1 - y0);
      for (const middle of [x0 + (x1 - x0) * share, x1 - (x1 - x0) * share]) {
        this._rectangle(Math.max(x0, Math.round(middle - thick)), y, Math.min(x1, Math.round(middle + thick)), y + 1, color);
      }
    }
  }

  /** @param {Box} box @param {number} color @param {import("./types.js").NodeSign} sign */
  _sign(box, color, sign) {
    const period = Math.round(7 * this._ratio);
    const thick = Math.max(1, Math.round(1.5 * this._ratio));
    const [x, y, w, h] = this._device(box);
    const [left, top, right, bottom] = [Math.round(x), Math.round(y), Math.round(x + w), Math.round(y + h)];
    for (let v = Math.max(0, top); v < Math.min(this._height, bottom); v += 1) {
      for (let u = Math.max(0, left); u < Math.min(this._width, right); u += 1) {
        if (inSign(sign, u - left, v - top, right - left, period, thick)) this._pixels[v * this._width + u] = color;
      }
    }
  }

  _drawOverlay() {
    const context = this.overlay.getContext("2d");
    if (!context) return;
    context.clearRect(0, 0, this._width, this._height);
    const { rgb } = this.palette;
    context.textBaseline = "middle";
    for (const top of this.layout.tops) {
      this._drawGroup(context, top, true);
      for (const inner of top.groups) this._drawGroup(context, inner, false);
    }
    for (const leaf of this.layout.leaves) {
      const cell = leaf.nodes[0]?.box.w ?? 0;
      if (this._scale * cell <= 58 * this._ratio || !this._visible(leaf.box)) continue;
      for (const node of leaf.nodes) if (this._visible(node.box)) this._drawNode(context, node);
    }
    this._outline(context, this._hover, css(rgb.muted), 1.5);
    this._outline(context, this.place, css(rgb.accent), 2.5);
  }

  /** @param {CanvasRenderingContext2D} context @param {Group} group @param {boolean} outer */
  _drawGroup(context, group, outer) {
    if (!group.kind || !this._visible(group.box)) return;
    const { rgb } = this.palette;
    const [x, y, w, h] = this._device(group.box);
    context.lineWidth = outer ? this._ratio : 0.5 * this._ratio;
    context.strokeStyle = css(rgb.line);
    if (w > 12) context.strokeRect(x - 0.5, y - 0.5, w + 1, h + 1);
    const first = group.groups[0]?.box.y ?? group.nodes[0]?.box.y ?? group.box.y;
    const head = (first - group.box.y) * this._scale;
    const size = Math.min(13 * this._ratio, head * 0.86);
    if (size < 7.5 * this._ratio) return;
    context.font = `${outer ? 600 : 500} ${size}px ${FONT}`;
    context.fillStyle = css(rgb.text);
    // The name stays in the picture while part of the group is.
    const left = Math.max(x, 0) + 5 * this._ratio;
    this._text(context, groupTitle(group), left, y + head / 2, x + w - left - 4 * this._ratio);
  }

  /** @param {CanvasRenderingContext2D} context @param {PlacedNode} node */
  _drawNode(context, node) {
    const { rgb } = this.palette;
    const scale = this._scale;
    const [x, y, w] = this._device(node.box);
    const size = Math.min(13 * this._ratio, NODE_HEAD * scale * 0.82);
    if (size < 7 * this._ratio) return;
    context.font = `500 ${size}px ${FONT}`;
    context.fillStyle = css(rgb.text);
    const pad = 0.25 * scale;
    this._text(context, node.row.name, x + pad, y + (0.12 + NODE_HEAD / 2) * scale, w - 2 * pad);
    const side = scale * node.shape.chip;
    if (side < 24 * this._ratio) return;
    const colors = chipColors(this.mode, this.palette, this.store, node.row, this._queues);
    const [left, top] = chipOrigin(node);
    for (let i = 0; i < node.row.numbers.length; i += 1) {
      const cx = (left + node.shape.xs[i]) * scale + this._x;
      const cy = (top + node.shape.ys[i]) * scale + this._y;
      if (cx > this._width || cy > this._height || cx + side < 0 || cy + side < 0) continue;
      const shade = this._isHighlighted(node.row, i) ? colors[i] : mix(colors[i], rgb.surface, 0.82);
      context.fillStyle = shade[0] * 0.3 + shade[1] * 0.59 + shade[2] * 0.11 > 140 ? "#10151b" : "#ffffff";
      const large = Math.min(12 * this._ratio, side * 0.34);
      context.font = `600 ${large}px ${FONT}`;
      this._text(context, `${node.row.numbers[i]}`, cx + side * 0.1, cy + side * 0.24, side * 0.8);
      if (side < 54 * this._ratio) continue;
      context.font = `${Math.min(11 * this._ratio, side * 0.17)}px ${FONT}`;
      const holder = node.row.holders[i];
      const name = holder < 0 ? CHIP_STATES[node.row.chip_states[i]] : (this.store.jobs.get(holder)?.name ?? `job ${holder}`);
      const used = partlyUsed(node.row, i);
      this._text(context, used < 100 ? `${used}% ${name}` : name, cx + side * 0.1, cy + side * 0.52, side * 0.76);
      const health = healthWord(node.row.health[i]);
      if (node.row.health[i] !== "h" && health !== name) this._text(context, health, cx + side * 0.1, cy + side * 0.76, side * 0.76);
    }
  }

  /**
   * Text that ends with an ellipsis where there is no more space.
   * @param {CanvasRenderingContext2D} context @param {string} text @param {number} x @param {number} y @param {number} width
   */
  _text(context, text, x, y, width) {
    let shown = visible(text);
    if (width <= 0) return;
    if (context.measureText(shown).width > width) {
      let [low, high] = [0, shown.length];
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (context.measureText(`${shown.slice(0, middle)}…`).width <= width) low = middle;
        else high = middle - 1;
      }
      shown = low ? `${shown.slice(0, low)}…` : "";
    }
    context.direction = "ltr";
    context.fillText(shown, x, y);
  }

  /** @param {Box} box @returns {[number, number, number, number]} */
  _device(box) {
    return [box.x * this._scale + this._x, box.y * this._scale + this._y, box.w * this._scale, box.h * this._scale];
  }

  /** @param {CanvasRenderingContext2D} context @param {Place} place @param {string} color @param {number} width */
  _outline(context, place, color, width) {
    const box = this._boxOf(place);
    if (!box) return;
    const [x, y, w, h] = this._device(box);
    context.lineWidth = width * this._ratio;
    context.strokeStyle = color;
    const least = 8 * this._ratio;
    const grow = Math.max(0, (least - Math.min(w, h)) / 2);
    context.strokeRect(x - grow, y - grow, w + 2 * grow, h + 2 * grow);
  }

  /** @param {Place} place @returns {Box | null} */
  _boxOf(place) {
    if (place.node && place.chip >= 0) {
      const [left, top] = chipOrigin(place.node);
      return { x: left + place.node.shape.xs[place.chip], y: top + place.node.shape.ys[place.chip], w: place.node.shape.chip, h: place.node.shape.chip };
    }
    return place.node?.box ?? place.group?.box ?? null;
  }

  // -- the cursor

  /** @param {Place} place */
  placeText(place) {
    if (place.node && place.chip >= 0) return chipText(this.store, place.node.row, place.chip);
    if (place.node) return nodeText(this.store, place.node.row);
    return place.group ? groupText(this.store, place.group) : "";
  }

  /** @param {Place} place */
  setPlace(place) {
    this.place = place;
    this._tell();
    this._schedule(false);
  }

  _tell() {
    const path = [];
    for (let group = this.place.group; group; group = group.parent) path.unshift(group);
    this.listeners.onPlace(this.place, this.placeText(this.place), path);
  }

  /** Go one step in: from a group to its nodes, from a node to its chips, from a chip to the page of the node. */
  enter() {
    const { group, node, chip } = this.place;
    if (node && chip >= 0) return this.listeners.onOpen(node.row.name);
    if (node) {
      this.showNode(node);
      return node.row.numbers.length ? this.setPlace({ group: node.leaf, node, chip: 0 }) : this.listeners.onOpen(node.row.name);
    }
    if (group) {
      this.showGroup(group);
      const inner = group.groups[0];
      return this.setPlace(inner ? { group: inner, node: null, chip: -1 } : { group, node: group.nodes[0] ?? null, chip: -1 });
    }
    return this._begin();
  }

  /** Go one step out. */
  leave() {
    const { group, node, chip } = this.place;
    if (node && chip >= 0) {
      if (node.leaf.kind) this.showGroup(node.leaf);
      else this.fit();
      return this.setPlace({ group: node.leaf, node, chip: -1 });
    }
    if (node && node.leaf.kind) {
      if (node.leaf.parent) this.showGroup(node.leaf.parent);
      else this.fit();
      return this.setPlace({ group: node.leaf, node: null, chip: -1 });
    }
    this.fit();
    return this.setPlace({ group: group?.parent ?? null, node: null, chip: -1 });
  }

  _begin() {
    const top = this.layout.tops[0];
    if (top) this.setPlace(top.kind ? { group: top, node: null, chip: -1 } : { group: top, node: top.nodes[0] ?? null, chip: -1 });
  }

  /**
   * Move the cursor to the nearest thing of its kind in a direction.
   * @param {number} dx @param {number} dy
   */
  step(dx, dy) {
    const from = this._boxOf(this.place);
    if (!from) return this._begin();
    /** @type {[Box, Place][]} */
    const others = this._peers().flatMap((place) => {
      const box = this._boxOf(place);
      return box ? [[box, place]] : [];
    });
    let best = null;
    let nearest = Infinity;
    const [cx, cy] = [from.x + from.w / 2, from.y + from.h / 2];
    for (const [box, place] of others) {
      const along = (box.x + box.w / 2 - cx) * dx + (box.y + box.h / 2 - cy) * dy;
      const across = Math.abs((box.x + box.w / 2 - cx) * dy) + Math.abs((box.y + box.h / 2 - cy) * dx);
      if (along <= 0.01) continue;
      const distance = along + across * 3;
      if (distance < nearest) [nearest, best] = [distance, place];
    }
    if (!best) return undefined;
    this.setPlace(best);
    return this._keepInView();
  }

  /** @returns {Place[]} */
  _peers() {
    const { group, node, chip } = this.place;
    if (node && chip >= 0) return node.row.numbers.map((_, i) => ({ group: node.leaf, node, chip: i }));
    if (node) return [...this.layout.nodes.values()].map((other) => ({ group: other.leaf, node: other, chip: -1 }));
    const level = group?.parent ? this.layout.leaves : this.layout.tops;
    return level.map((other) => ({ group: other, node: null, chip: -1 }));
  }

  _keepInView() {
    const box = this._boxOf(this.place);
    if (!box) return;
    const [x, y, w, h] = this._device(box);
    const margin = 12 * this._ratio;
    const dx = x < margin ? margin - x : x + w > this._width - margin ? this._width - margin - x - w : 0;
    const dy = y < margin ? margin - y : y + h > this._height - margin ? this._height - margin - y - h : 0;
    if (!this._fitted && (dx || dy)) this._setView(this._scale, this._x + dx, this._y + dy);
  }

  // -- input

  _listen() {
    const { overlay } = this;
    const { signal } = this._ended;
    /** @type {Map<number, {x: number, y: number}>} */
    const pointers = new Map();
    let travelled = 0;
    /** @param {MouseEvent} event */
    const point = (event) => {
      const box = overlay.getBoundingClientRect();
      return { x: (event.clientX - box.left) * this._ratio, y: (event.clientY - box.top) * this._ratio };
    };
    overlay.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        const { x, y } = point(event);
        this._zoomAt(Math.exp(-event.deltaY * (event.deltaMode === 1 ? 0.05 : 0.0016)), x, y);
      },
      { passive: false, signal },
    );
    overlay.addEventListener("pointerdown", (event) => {
      pointers.set(event.pointerId, point(event));
      if (pointers.size === 1) travelled = 0;
      overlay.setPointerCapture(event.pointerId);
    }, { signal });
    overlay.addEventListener("pointermove", (event) => {
      const now = point(event);
      const before = pointers.get(event.pointerId);
      if (!before) return this._hoverAt(now, event);
      pointers.set(event.pointerId, now);
      const [dx, dy] = [now.x - before.x, now.y - before.y];
      travelled += Math.abs(dx) + Math.abs(dy);
      if (pointers.size === 2) {
        const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1] ?? now;
        const spread = Math.hypot(before.x - other.x, before.y - other.y);
        if (spread > 1) this._zoomAt(Math.hypot(now.x - other.x, now.y - other.y) / spread, other.x, other.y);
        travelled += 100;
      } else if (!this._fitted && travelled > 4 * this._ratio) this._setView(this._scale, this._x + dx, this._y + dy);
      return undefined;
    }, { signal });
    for (const kind of /** @type {const} */ (["pointerup", "pointercancel"])) {
      overlay.addEventListener(kind, (event) => {
        const known = pointers.delete(event.pointerId);
        if (known && kind === "pointerup" && travelled <= 6 * this._ratio) this.setPlace(this._at(point(event)));
      }, { signal });
    }
    overlay.addEventListener("pointerleave", () => {
      this._hover = { group: null, node: null, chip: -1 };
      this.listeners.onHover("", 0, 0);
      this._schedule(false);
    }, { signal });
    overlay.addEventListener("dblclick", (event) => {
      const { group, node } = this._at(point(event));
      const large = node && node.box.w * this._scale > this._width * 0.5;
      if (node && large) this.listeners.onOpen(node.row.name);
      else if (node && (node.box.w * this._scale > 40 * this._ratio || !group?.kind)) this.showNode(node);
      else if (group) this.showGroup(group);
    }, { signal });
    overlay.addEventListener("keydown", (event) => this._onKey(event), { signal });
  }

  /** @param {{x: number, y: number}} point @returns {Place} */
  _at({ x, y }) {
    const found = at(this.layout, (x - this._x) / this._scale, (y - this._y) / this._scale);
    // A chip that is hardly seen is not what the pointer is meant for.
    return this._scale < 9 * this._ratio ? { ...found, chip: -1 } : found;
  }

  /** @param {{x: number, y: number}} now @param {PointerEvent} event */
  _hoverAt(now, event) {
    this._hover = this._at(now);
    const box = this.overlay.getBoundingClientRect();
    this.listeners.onHover(this.placeText(this._hover), event.clientX - box.left, event.clientY - box.top);
    this._schedule(false);
  }

  /** @param {KeyboardEvent} event */
  _onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    /** @type {Record<string, () => void>} */
    const keys = {
      ArrowLeft: () => this.step(-1, 0),
      ArrowRight: () => this.step(1, 0),
      ArrowUp: () => this.step(0, -1),
      ArrowDown: () => this.step(0, 1),
      Enter: () => this.enter(),
      Escape: () => this.leave(),
      Backspace: () => this.leave(),
      "+": () => this.zoom(ZOOM_STEP),
      "=": () => this.zoom(ZOOM_STEP),
      "-": () => this.zoom(1 / ZOOM_STEP),
      0: () => this.fit(),
      Home: () => this.fit(),
      o: () => this.place.node && this.listeners.onOpen(this.place.node.row.name),
    };
    const action = keys[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }
}

/** @param {string} letter */
function healthWord(letter) {
  return { f: "faulty", s: "sub-healthy", n: "network", i: "isolated", u: "no report" }[letter] ?? letter;
}
