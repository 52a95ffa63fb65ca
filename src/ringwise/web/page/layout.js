// Where everything is on the map, in units of one chip: chips in nodes, nodes in groups, groups in the cluster.

import { natural } from "./store.js";
import { known } from "./text.js";

/** @typedef {import("./types.js").NodeRow} NodeRow */
/** @typedef {import("./types.js").Board} Board */
/** @typedef {{x: number, y: number, w: number, h: number}} Box */

/**
 * The chips of a node: size in units, the corner of each chip, and the size of a chip.
 * @typedef {{w: number, h: number, xs: number[], ys: number[], chip: number}} NodeShape
 */

/** @typedef {{row: NodeRow, shape: NodeShape, box: Box, leaf: Group}} PlacedNode */

/**
 * A SuperPoD, a rack, a leaf switch, a board; one that holds nodes has `columns`. Its nodes have cells of one size.
 * @typedef {object} Group
 * @property {string} kind SuperPoD, rack, leaf switch, board, or empty for all nodes
 * @property {string} name
 * @property {Box} box
 * @property {Group | null} parent
 * @property {Group[]} groups
 * @property {PlacedNode[]} nodes
 * @property {number} columns
 */

/**
 * @typedef {object} Layout
 * @property {number} w
 * @property {number} h
 * @property {Group[]} tops
 * @property {Group[]} leaves groups that hold nodes
 * @property {Map<string, PlacedNode>} nodes
 */

/** Between rings of a node. */
const RING_GAP = 0.25;
/** Around the chips of a node, and above them for its name. */
const NODE_PAD = 0.25;
export const NODE_HEAD = 0.7;
const LONGEST_ROW = 8;
const FEW = 8;

/**
 * Each ring in a row, or several short rings side by side, so that the node is about twice as wide as high.
 * @param {Board | undefined} board
 * @param {readonly number[]} numbers
 * @returns {NodeShape}
 */
export function nodeShape(board, numbers) {
  const inRings = new Set(board?.rings.flat() ?? []);
  const others = numbers.filter((number) => !inRings.has(number));
  const present = new Set(numbers);
  const rings = (board?.rings ?? []).filter((ring) => ring.some((number) => present.has(number)));
  if (others.length) rings.push(others);
  if (!rings.length) return { w: 1, h: 1, xs: [], ys: [], chip: 1 };
  const single = rings.every((ring) => ring.length === 1);
  const rows = single ? [rings.flat()] : rings;
  const longest = Math.min(LONGEST_ROW, Math.max(...rows.map((ring) => ring.length)));
  const heights = Math.max(...rows.map((ring) => Math.ceil(ring.length / longest)));
  let beside = 1;
  let best = Infinity;
  for (let tried = 1; tried <= rows.length; tried += 1) {
    const width = tried * longest;
    const height = Math.ceil(rows.length / tried) * heights;
    const badness = Math.abs(Math.log(width / height / 2));
    if (badness < best - 1e-9) [best, beside] = [badness, tried];
  }
  /** @type {Map<number, [number, number]>} */
  const corners = new Map();
  rows.forEach((ring, index) => {
    const left = (index % beside) * (longest + RING_GAP);
    const top = Math.floor(index / beside) * (heights + RING_GAP);
    ring.forEach((number, i) => corners.set(number, [left + (i % longest), top + Math.floor(i / longest)]));
  });
  const xs = numbers.map((number) => (corners.get(number) ?? [0, 0])[0]);
  const ys = numbers.map((number) => (corners.get(number) ?? [0, 0])[1]);
  return { w: Math.max(...xs) + 1, h: Math.max(...ys) + 1, xs, ys, chip: 1 };
}

/**
 * The same with larger chips, so that a node of eight chips beside nodes of sixty-four fills its cell, too.
 * @param {NodeShape} shape
 * @param {number} w
 * @param {number} h
 * @returns {NodeShape}
 */
function enlarged(shape, w, h) {
  const chip = Math.min(w / shape.w, h / shape.h);
  if (chip < 1.01) return shape;
  const times = (/** @type {number} */ length) => length * chip;
  return { w: times(shape.w), h: times(shape.h), xs: shape.xs.map(times), ys: shape.ys.map(times), chip };
}

/** How nodes can be put into groups. */
export const GROUPINGS = /** @type {Record<string, string>} */ ({
  superpod: "SuperPoD",
  switch: "leaf switch",
  rack: "SuperPoD and rack",
  board: "board",
  none: "nothing",
});

/**
 * Those groupings that say something about these nodes; the first is the one to begin with.
 * @param {Iterable<NodeRow>} nodes
 * @returns {string[]}
 */
export function groupingsOf(nodes) {
  let [superpod, leaf, rack] = [false, false, false];
  const boards = new Set();
  for (const node of nodes) {
    boards.add(node.board);
    superpod ||= node.superpod !== null;
    leaf ||= node.switch !== null;
    rack ||= node.rack !== null;
  }
  // Of several boards, what a job can use depends on the board first.
  const found = boards.size > 1 ? ["board"] : [];
  if (rack) found.push("rack");
  if (superpod) found.push("superpod");
  if (leaf) found.push("switch");
  found.push("none");
  return found;
}

/**
 * Put boxes side by side, in rows, so that all fit into a picture of this form as large as possible.
 * @param {{w: number, h: number}[]} boxes
 * @param {number} aspect width by height
 * @param {number} gap
 * @returns {{w: number, h: number, corners: {x: number, y: number}[]}}
 */
export function pack(boxes, aspect, gap) {
  const widest = Math.max(...boxes.map((box) => box.w));
  const area = boxes.reduce((sum, box) => sum + (box.w + gap) * (box.h + gap), 0);
  const middle = Math.sqrt(area * aspect);
  /** @type {{w: number, h: number, corners: {x: number, y: number}[]} | null} */
  let best = null;
  let smallest = Infinity;
  for (let step = -12; step <= 12; step += 1) {
    const limit = Math.max(widest, middle * 1.04 ** step);
    const tried = shelves(boxes, limit, gap);
    const size = Math.max(tried.w / aspect, tried.h);
    if (size < smallest) [smallest, best] = [size, tried];
  }
  return best ?? { w: 0, h: 0, corners: [] };
}

/**
 * @param {{w: number, h: number}[]} boxes
 * @param {number} limit
 * @param {number} gap
 */
function shelves(boxes, limit, gap) {
  let [x, y, height, width] = [0, 0, 0, 0];
  const corners = boxes.map((box) => {
    if (x > 0 && x + box.w > limit + 1e-6) [x, y, height] = [0, y + height + gap, 0];
    const corner = { x, y };
    width = Math.max(width, x + box.w);
    x += box.w + gap;
    height = Math.max(height, box.h);
    return corner;
  });
  return { w: width, h: y + height, corners };
}

/**
 * The nodes by the name of their group, in natural order, those without one last.
 * @param {Iterable<NodeRow>} nodes
 * @param {(node: NodeRow) => string} nameOf
 * @returns {[string, NodeRow[]][]}
 */
export function grouped(nodes, nameOf) {
  /** @type {Map<string, NodeRow[]>} */
  const found = new Map();
  for (const node of nodes) {
    const name = nameOf(node);
    const members = found.get(name);
    if (members) members.push(node);
    else found.set(name, [node]);
  }
  return [...found].sort(([a], [b]) => Number(a === "") - Number(b === "") || natural(a, b));
}

/**
 * The name of a node's board; where nodes with different labels have it, with the label.
 * @param {NodeRow} node
 * @param {readonly Board[]} boards
 */
export function boardName(node, boards) {
  const board = node.board === null ? undefined : boards[node.board];
  if (!board) return "";
  const twice = boards.some((other) => other !== board && other.name === board.name);
  return twice ? `${board.name} (${board.accelerator || board.resource})` : board.name;
}

const KINDS = { superpod: "SuperPoD", switch: "leaf switch", rack: "rack", board: "board" };

/**
 * @param {Iterable<NodeRow>} nodes
 * @param {readonly Board[]} boards
 * @param {string} grouping
 * @param {number} aspect width by height of the picture
 * @returns {Layout}
 */
export function layOut(nodes, boards, grouping, aspect) {
  const rows = [...nodes];
  /** @type {Map<string, NodeShape>} */
  const shapes = new Map();
  /** @param {NodeRow} node */
  const shapeOf = (node) => {
    const key = `${node.board} ${node.numbers.join(" ")}`;
    let shape = shapes.get(key);
    if (!shape) shapes.set(key, (shape = nodeShape(node.board === null ? undefined : boards[node.board], node.numbers)));
    return shape;
  };
  /** @type {Layout} */
  const layout = { w: 0, h: 0, tops: [], leaves: [], nodes: new Map() };

  /**
   * The size of the cell of each node. It is of this group alone: nodes of sixty-four chips make nodes of eight in
   * another group no smaller.
   * @param {NodeRow[]} members
   * @returns {[number, number]}
   */
  const cellOf = (members) => {
    let [w, h] = [1, 1];
    for (const node of members) [w, h] = [Math.max(w, shapeOf(node).w), Math.max(h, shapeOf(node).h)];
    return [w + 2 * NODE_PAD, h + 2 * NODE_PAD + NODE_HEAD];
  };

  /**
   * @param {number} amount of nodes
   * @param {[number, number]} cell
   * @param {boolean} named
   * @param {number} form
   */
  const sizeOf = (amount, [cellWidth, cellHeight], named, form) => {
    const columns = columnsFor(amount, (cellHeight * form) / cellWidth);
    const [w, inner] = [columns * cellWidth, Math.ceil(amount / columns) * cellHeight];
    const head = named ? headOf(w, inner) : 0;
    return { columns, head, w, h: inner + head };
  };

  /**
   * @param {string} kind
   * @param {string} name
   * @param {NodeRow[]} members
   * @param {Group | null} parent
   * @param {number} form
   * @returns {Group}
   */
  const leafGroup = (kind, name, members, parent, form) => {
    const cell = cellOf(members);
    const [cellWidth, cellHeight] = cell;
    const { columns, head, w, h } = sizeOf(members.length, cell, kind !== "", form);
    /** @type {Group} */
    const group = { kind, name, box: { x: 0, y: 0, w, h }, parent, groups: [], nodes: [], columns };
    /** @type {Map<NodeShape, NodeShape>} */
    const fitting = new Map();
    /** @param {NodeShape} shape */
    const fit = (shape) => {
      const found = fitting.get(shape) ?? enlarged(shape, cellWidth - 2 * NODE_PAD, cellHeight - 2 * NODE_PAD - NODE_HEAD);
      fitting.set(shape, found);
      return found;
    };
    group.nodes = members.map((row, i) => ({
      row,
      shape: fit(shapeOf(row)),
      box: { x: (i % columns) * cellWidth, y: head + Math.floor(i / columns) * cellHeight, w: cellWidth, h: cellHeight },
      leaf: group,
    }));
    layout.leaves.push(group);
    for (const node of group.nodes) layout.nodes.set(node.row.name, node);
    return group;
  };

  /** @param {[number, [number, number]][]} groups how many nodes of which cell */
  const bestForm = (groups) => {
    let [best, least] = [1.6, Infinity];
    for (const form of [1.6, 1.2, 0.8, 0.6, 2.4, 3.2]) {
      const packed = pack(groups.map(([amount, cell]) => sizeOf(amount, cell, true, form)), aspect, 1);
      const size = Math.max(packed.w / aspect, packed.h);
      if (size < least * 0.97) [best, least] = [form, size];
    }
    return best;
  };

  if (grouping === "rack") {
    for (const [name, members] of grouped(rows, (node) => known(node.superpod))) {
      /** @type {Group} */
      const top = { kind: KINDS.superpod, name, box: { x: 0, y: 0, w: 0, h: 0 }, parent: null, groups: [], nodes: [], columns: 0 };
      top.groups = grouped(members, (node) => known(node.rack)).map(([rack, inRack]) => leafGroup(KINDS.rack, rack, inRack, top, 1.6));
      const packed = pack(top.groups.map((group) => group.box), 1.6, 0.8);
      const head = headOf(packed.w, packed.h);
      packed.corners.forEach((corner, i) => move(top.groups[i], corner.x + 0.6, corner.y + head));
      top.box = { x: 0, y: 0, w: packed.w + 1.2, h: packed.h + head + 0.6 };
      layout.tops.push(top);
    }
  } else if (grouping === "superpod" || grouping === "switch" || grouping === "board") {
    /** @param {NodeRow} node */
    const nameOf = (node) => (grouping === "board" ? boardName(node, boards) : known(node[grouping]));
    const found = grouped(rows, nameOf);
    // Of a few large groups the form decides how much of the picture they fill.
    const form = found.length > FEW ? 1.6 : bestForm(found.map(([, members]) => [members.length, cellOf(members)]));
    layout.tops = found.map(([name, members]) => leafGroup(KINDS[grouping], name, members, null, form));
  } else if (rows.length) {
    layout.tops = [leafGroup("", "", rows, null, aspect)];
  }
  if (!layout.tops.length) return layout;
  const gap = layout.tops.length > 1 ? 0.8 + 0.03 * Math.min(...layout.tops.map((group) => group.box.w)) : 0;
  const packed = pack(layout.tops.map((group) => group.box), aspect, gap);
  packed.corners.forEach((corner, i) => move(layout.tops[i], corner.x, corner.y));
  layout.w = packed.w;
  layout.h = packed.h;
  return layout;
}

/**
 * How many columns make a group about as wide as asked for, with few places left empty in its last row.
 * @param {number} nodes
 * @param {number} form columns by rows
 */
function columnsFor(nodes, form) {
  const ideal = Math.sqrt(nodes * form);
  let best = 1;
  let least = Infinity;
  for (let columns = Math.max(1, Math.floor(ideal * 0.65)); columns <= Math.min(nodes, Math.ceil(ideal * 1.5)); columns += 1) {
    const empty = Math.ceil(nodes / columns) * columns - nodes;
    const badness = Math.abs(Math.log(columns / ideal)) + (2 * empty) / nodes;
    if (badness < least) [least, best] = [badness, columns];
  }
  return best;
}

/**
 * The height for the name of a group; a large group is seen from further away.
 * @param {number} w
 * @param {number} h
 */
function headOf(w, h) {
  return 0.6 + 0.055 * Math.sqrt(w * h);
}

/**
 * @param {Group} group
 * @param {number} x
 * @param {number} y
 */
function move(group, x, y) {
  group.box.x += x;
  group.box.y += y;
  for (const node of group.nodes) {
    node.box.x += x;
    node.box.y += y;
  }
  for (const inner of group.groups) move(inner, x, y);
}

/**
 * What is at a point of the layout.
 * @param {Layout} layout
 * @param {number} x
 * @param {number} y
 * @returns {{group: Group | null, node: PlacedNode | null, chip: number}} chip: its index in the node, or -1
 */
export function at(layout, x, y) {
  const group = layout.leaves.find((leaf) => inside(leaf.box, x, y));
  if (!group) return { group: layout.tops.find((top) => inside(top.box, x, y)) ?? null, node: null, chip: -1 };
  const first = group.nodes[0]?.box;
  if (!first || y < first.y) return { group, node: null, chip: -1 };
  const column = Math.floor((x - first.x) / first.w);
  const node = column < group.columns ? group.nodes[Math.floor((y - first.y) / first.h) * group.columns + column] : undefined;
  if (!node) return { group, node: null, chip: -1 };
  const { xs, ys, chip: size } = node.shape;
  const [left, top] = chipOrigin(node);
  const chip = xs.findIndex((cx, i) => x >= left + cx && x < left + cx + size && y >= top + ys[i] && y < top + ys[i] + size);
  return { group, node, chip };
}

/**
 * The corner of the chips of a node, which are in the middle of its cell.
 * @param {PlacedNode} node
 * @returns {[number, number]}
 */
export function chipOrigin(node) {
  const { box, shape } = node;
  return [box.x + (box.w - shape.w) / 2, box.y + NODE_HEAD + (box.h - NODE_HEAD - shape.h) / 2];
}

/**
 * @param {Box} box
 * @param {number} x
 * @param {number} y
 */
function inside(box, x, y) {
  return x >= box.x && x < box.x + box.w && y >= box.y && y < box.y + box.h;
}
