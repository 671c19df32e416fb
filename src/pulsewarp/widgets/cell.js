// One cell, its row, the whole array: three zooms on one clock. Four parts in this order: what a cell does in a cycle
// (look-ups in what was recorded), words, where things lie (pure) and drawing, wiring (short).
//
// Letters as in kit/array.js. What is rounded was worked out in Python; here it is shown.

import { chapters, describe, drawCell, label, layout, makeArray, makeCell, makeChip, makeHatch, mark, readRun, RULES, short, textWidths } from "./kit/array.js";
import { h, s, set, write } from "./kit/dom.js";
import { ledger, legend } from "./kit/panels.js";
import { stage } from "./kit/stage.js";
import { number } from "./kit/words.js";

/** @typedef {import("./kit/array.js").Run} Run */
/** @typedef {import("./kit/array.js").Letter} Letter */
/** @typedef {import("./kit/array.js").Register} Register */
/** @typedef {"cell" | "row" | "array"} Zoom */
/**
 * @typedef {object} Step one multiply-add, before and after each rounding
 * @property {number} m @property {number} n @property {number} k
 * @property {number} product @property {number} exactProduct @property {number} productLost
 * @property {number} earlier @property {number} total @property {number} exactTotal @property {number} totalLost
 */

const ZOOMS = /** @type {Zoom[]} */ (["cell", "row", "array"]);

// ------------------------------------------------------------------------------------------ what a cell does

/** The multiply-add of a cell in a cycle, or null. @param {Run} run @param {number} t @param {number} r @param {number} c @returns {Step | null} */
export function stepAt(run, t, r, c) {
  const cell = run.cell(t, r, c);
  if (!cell.active) return null;
  const other = /** @type {Register} */ (run.loads ? "held" : "down");
  /** @type {Record<string, number[]>} */
  const at = {
    [run.roles.right]: run.element(run.roles.right, cell.rightIndex),
    [run.roles[other]]: run.element(run.roles[other], cell[`${other}Index`]),
  };
  return stepOf(run, at.a[0], at.b[1], at.a[1]);
}

/** @param {Run} run @param {number} m @param {number} n @param {number} k @returns {Step} */
function stepOf(run, m, n, k) {
  const { columns, M, N } = run;
  const i = (k * M + m) * N + n;
  return {
    m, n, k,
    product: columns.each_product[i], exactProduct: columns.each_exact_product[i], productLost: columns.each_product_lost[i],
    earlier: k === 0 ? 0 : columns.each_total[i - M * N],
    total: columns.each_total[i], exactTotal: columns.each_exact_total[i], totalLost: columns.each_total_lost[i],
  };
}

/** Multiply-adds of one cell up to a cycle. @param {Run} run @param {number} t @param {number} r @param {number} c */
function worked(run, t, r, c) {
  let count = 0;
  for (let u = 0; u <= t; u++) count += Number(run.cell(u, r, c).active);
  return count;
}

/** Where a moving value comes from and goes to. @param {Run} run @param {number} r @param {number} c */
function neighbours(run, r, c) {
  return {
    left: c === 0 ? "the left edge" : `cell (${r},${c - 1})`,
    above: r === 0 ? "the top edge" : `cell (${r - 1},${c})`,
    right: c === run.C - 1 ? "out at the right edge" : `to cell (${r},${c + 1})`,
    below: r === run.R - 1 ? "out at the bottom edge" : `to cell (${r + 1},${c})`,
  };
}

/** The cell shown: the one selected, else the run's own. @param {Run} run @param {number[]} selected @returns {[number, number]} */
export function placeOf(run, selected) {
  const [r, c] = selected.length === 2 ? selected : run.header.cell;
  return [Math.min(r, run.R - 1), Math.min(c, run.C - 1)];
}

// ---------------------------------------------------------------------------------------------------- words

/** A number in full, every digit that it has in double precision. @param {number} x @returns {string} */
export const full = (x) => String(x === 0 ? 0 : x);

/** The same run, whose words give every number in full. @param {Run} run @returns {Run} */
const plain = (run) => ({ ...run, header: { ...run.header, accumulator: "float64" } });

/** A number in full where there is room, else as it fits. @param {number} x @param {number} room in characters @returns {string} */
const fitted = (x, room) => (full(x).length <= room ? full(x) : short(x));

/** @param {Run} run */
const whole = (run) => run.header.accumulator !== "float32";

/** Where the sum so far comes from. @param {Run} run @param {Step} step @param {number} r @param {number} c */
function origin(run, step, r, c) {
  if (step.k === 0) return "begins here";
  if (!run.loads) return "stays here";
  return r > 0 ? `from cell (${r - 1},${c})` : "left by an earlier fold";
}

/**
 * The chosen cell in a cycle, in words; caption, table and live region say this.
 * @param {Run} run @param {number} t @param {number} r @param {number} c
 * @returns {string[]}
 */
export function cellWords(run, t, r, c) {
  const step = stepAt(run, t, r, c);
  let busy = 0;
  for (let col = 0; col < run.C; col++) busy += Number(run.cell(t, r, col).active);
  const around = `In row ${r}, ${busy} of ${run.C} cells multiply in this cycle; in the array, ${number(run.columns.busy[t])} of ${number(run.R * run.C)}.`;
  if (!step) return [...describe(plain(run), t, r, c), around];
  const now = run.cell(t, r, c);
  const type = run.header.accumulator;
  const by = neighbours(run, r, c);
  const moving = run.name(run.roles.right, now.rightIndex);
  const other = run.loads ? run.name(run.roles.held, now.heldIndex) : run.name(run.roles.down, now.downIndex);
  const y = run.loads ? now.held : now.down;
  const sum = `C[${step.m},${step.n}]`;
  const count = `${step.k + 1} of ${run.K} products`;
  const product = step.productLost === 0 ? `which ${type} holds exactly.` : `kept as ${full(step.product)}; ${full(step.productLost)} is rounded away.`;
  const kept = step.totalLost === 0 ? `which ${type} holds exactly` : whole(run) ? `beyond ${type}, so it wraps around to ${full(step.total)}`
    : `kept as ${full(step.total)}; ${full(step.totalLost)} is rounded away`;
  return [
    `Cell (${r},${c}): ${moving} = ${full(now.right)}, from ${by.left}, meets ${other} = ${full(y)}, ${run.loads ? "which stays" : `from ${by.above}`}. `
      + `${full(now.right)} × ${full(y)} = ${full(step.exactProduct)}, ${product}`,
    `The sum so far, ${full(step.earlier)} (${origin(run, step, r, c)}), plus ${full(step.product)} is ${full(step.exactTotal)}, ${kept}: ${sum} has ${count}.`,
    `Next, ${moving} goes ${by.right} and ${run.loads ? `the sum ${by.below}` : `${other} ${by.below}`}. ${around}`,
  ];
}

/** The frame as a table: one row a cell. @param {Run} run @param {number} t */
function frameTable(run, t) {
  const { right, held, down } = run.roles;
  const other = run.loads ? held : down;
  const head = ["cell", "state", `${right.toUpperCase()}, moving`, `${other.toUpperCase()}, ${run.loads ? "stays" : "moving"}`, "product", "rounded away", "sum so far", "sum before rounding", "rounded away", "sum now"];
  const rows = [];
  for (let r = 0; r < run.R; r++) {
    for (let c = 0; c < run.C; c++) {
      const cell = run.cell(t, r, c);
      const step = stepAt(run, t, r, c);
      const index = run.loads ? cell.heldIndex : cell.downIndex;
      rows.push([
        `(${r},${c})`, step ? "multiplies" : "idle",
        cell.rightIndex < 0 ? "–" : `${run.name(right, cell.rightIndex)} = ${full(cell.right)}`,
        index < 0 ? "–" : `${run.name(other, index)} = ${full(run.loads ? cell.held : cell.down)}`,
        ...(step ? [step.product, step.productLost, step.earlier, step.exactTotal, step.totalLost, step.total].map(full) : Array(6).fill("–")),
      ]);
    }
  }
  return { caption: `Every cell after cycle ${t}: values, product and sum before and after rounding to ${run.header.accumulator}`, head, rows };
}

// ----------------------------------------------------------------------------------------------- the datapath

/**
 * Where the parts of a cell lie, for a width in px.
 * @param {number} width @param {boolean} loads
 */
export function cellLayout(width, loads) {
  const wide = Math.min(width, 600);
  const margin = wide < 480 ? 18 : 40;
  const [left, right, top] = [margin, wide - margin, 34];
  const text = left + (loads ? 16 : 44); // where registers and numbers begin
  const sum = right - 24; // the wire of the sum, or its way back
  const operator = sum - 46;
  return {
    wide, left, right, top, text, sum, operator, down: left + 24,
    register: Math.min(250, operator - 44 - text),
    room: operator - 24 - text,
    moving: top + 46, other: top + 104, product: top + 136, adds: top + 206, total: top + 236, result: top + 312,
    bottom: top + 340, height: top + 340 + 32,
  };
}

/** @param {number} x @param {number} y @param {string} kind */
const tip = (x, y, kind) => ({ right: `M${x - 9} ${y - 5}l9 5l-9 5z`, down: `M${x - 5} ${y - 9}l5 9l5-9z`, left: `M${x + 9} ${y - 5}l-9 5l9 5z` }[kind] ?? "");

/**
 * The inside of one cell: registers, multiplier, adder, wires.
 * @param {Run} run @param {string} prefix
 */
function makeDatapath(run, prefix) {
  const hatch = `${prefix}-cell-hatch`;
  const svg = s("svg", { class: "ce-path", "aria-hidden": "true" });
  const { right: moving, held, down } = run.roles;
  const other = run.loads ? held : down;
  const texts = /** @type {Record<string, SVGTextElement>} */ ({});
  for (const name of ["above", "right", "below", "movingName", "otherName", "sumName", "productName", "totalName", "productLost", "totalLost", "earlierName"]) {
    texts[name] = label("", { class: "ce-note" });
  }
  for (const [name, letter] of [["moving", moving], ["other", other], ["sum", "c"], ["product", ""], ["total", ""], ["earlier", "c"]]) {
    texts[name] = label("", { class: `ce-value${letter ? ` sy-${letter}` : ""}` });
  }
  const frame = s("rect", { class: "ce-frame", rx: 8 });
  const texture = s("rect", { class: "ce-hatch", rx: 8, fill: `url(#${hatch})` });
  const boxes = { moving: s("rect", { class: `ce-register sy-${moving}`, rx: 4 }), other: s("rect", { class: `ce-register sy-${other}${run.loads ? " ce-stays" : ""}`, rx: 4 }), sum: s("rect", { class: `ce-register sy-c${run.loads ? "" : " ce-stays"}`, rx: 4 }) };
  /** @param {string} letter */
  const wire = (letter) => ({ line: s("path", { class: `ce-wire sy-${letter}` }), tip: s("path", { class: `ce-tip sy-${letter}` }) });
  const wires = { moving: wire(moving), other: wire(other), product: wire(""), earlier: wire("c"), sum: wire("c"), out: wire(run.loads ? "c" : other) };
  const through = s("circle", { class: `ce-dot sy-${moving}`, r: 3.5 });
  const operators = ["×", "+"].map((sign) => {
    const ring = s("circle", { class: "ce-operator", r: 14 });
    return { ring, sign: label(sign, { class: "ce-sign", "text-anchor": "middle" }) };
  });
  /** @type {ReturnType<typeof cellLayout> | null} */
  let place = null;

  /** @param {number} width */
  function resize(width) {
    const at = (place = cellLayout(width, run.loads));
    set(svg, { width: at.wide, height: at.height, viewBox: `0 0 ${at.wide} ${at.height}` });
    set(frame, { x: at.left, y: at.top, width: at.right - at.left, height: at.bottom - at.top });
    set(texture, { x: at.left, y: at.top, width: at.right - at.left, height: at.bottom - at.top });
    for (const [name, y, x] of /** @type {["moving" | "other" | "sum", number, number][]} */ ([["moving", at.moving, at.text], ["other", at.other, run.loads ? at.text : at.left + 12], ["sum", at.result, at.text]])) {
      set(boxes[name], { x, y: y - 14, width: at.register + at.text - x, height: 28 });
      set(texts[name], { x: x + (name === "other" && !run.loads ? 32 : 10), y: y + 5 });
      set(texts[`${name}Name`], { x: at.text, y: y - 20 });
    }
    const edge = at.text + at.register;
    /** @param {{line: SVGPathElement, tip: SVGPathElement}} one @param {string} line @param {string} end */
    const draw = (one, line, end) => {
      set(one.line, { d: line });
      set(one.tip, { d: end });
    };
    draw(wires.moving, `M0 ${at.moving}H${at.text}M${edge} ${at.moving}H${at.wide - 6}M${at.operator} ${at.moving}V${at.other - 15}`,
      tip(at.text - 1, at.moving, "right") + tip(at.wide, at.moving, "right") + tip(at.operator, at.other - 14, "down"));
    set(through, { cx: at.operator, cy: at.moving });
    draw(wires.other, `M${edge} ${at.other}H${at.operator - 15}${run.loads ? "" : `M${at.down} 4V${at.other - 15}`}`,
      tip(at.operator - 14, at.other, "right") + (run.loads ? "" : tip(at.down, at.other - 14, "down")));
    draw(wires.product, `M${at.operator} ${at.other + 14}V${at.adds - 15}`, tip(at.operator, at.adds - 14, "down"));
    draw(wires.earlier, run.loads ? `M${at.sum} 4V${at.adds}H${at.operator + 15}` : `M${edge} ${at.result - 7}H${at.sum}V${at.adds}H${at.operator + 15}`, tip(at.operator + 14, at.adds, "left"));
    draw(wires.sum, `M${at.operator} ${at.adds + 14}V${at.result + 5}H${edge + 8}`, tip(edge, at.result + 5, "left"));
    const out = run.loads ? at.text + 24 : at.down;
    draw(wires.out, `M${out} ${run.loads ? at.result + 14 : at.other + 14}V${at.height - 8}`, tip(out, at.height - 1, "down"));
    [at.other, at.adds].forEach((y, i) => {
      set(operators[i].ring, { cx: at.operator, cy: y });
      set(operators[i].sign, { x: at.operator, y: y + 6 });
    });
    set(texts.above, run.loads ? { x: at.sum - 8, y: 16, "text-anchor": "end" } : { x: at.down + 10, y: 16 });
    set(texts.right, { x: at.sum - 8, y: at.moving - 9, "text-anchor": "end" });
    set(texts.below, { x: out + 12, y: at.height - 10 });
    for (const [name, y] of /** @type {[string, number][]} */ ([["product", at.product], ["total", at.total]])) {
      set(texts[`${name}Name`], { x: at.text, y });
      set(texts[name], { x: at.text, y: y + 17 });
      set(texts[`${name}Lost`], { x: at.text, y: y + 34 });
    }
    set(texts.earlierName, { x: at.text, y: at.adds - 11 });
    set(texts.earlier, { x: at.text, y: at.adds + 6 });
    svg.replaceChildren(s("defs", {}, makeHatch(hatch)), frame, texture,
      ...Object.values(wires).flatMap(({ line, tip: end }) => [line, end]), through,
      ...Object.values(boxes), ...operators.flatMap(({ ring, sign }) => [ring, sign]), ...Object.values(texts));
  }

  /** @param {number} t @param {number} r @param {number} c */
  function show(t, r, c) {
    if (!place) return;
    const now = run.cell(t, r, c);
    const step = stepAt(run, t, r, c);
    const by = neighbours(run, r, c);
    const type = run.header.accumulator;
    const before = whole(run) ? "" : ", before rounding";
    const fits = Math.floor((place.register - 20) / 7.9);
    const room = Math.floor(place.room / 7.9);
    const otherIndex = run.loads ? now.heldIndex : now.downIndex;
    const sumIndex = run.loads ? now.downIndex : now.heldIndex;
    const sinking = run.loads && run.columns.sunk[t] > 0;
    const draining = !run.loads && run.columns.sunk[t] > 0;
    const spacious = place.operator - place.text > 300;
    set(svg, { "data-state": step ? "working" : "idle" });
    write(texts.above, run.loads ? (step && r > 0 ? `sum from ${by.above}` : `from ${by.above}`) : `from ${by.above}`);
    write(texts.right, now.rightIndex < 0 ? "" : spacious ? `next, ${by.right}` : by.right);
    write(texts.below, (run.loads ? sumIndex : now.downIndex) < 0 && !draining ? "" : `next, ${by.below}`);
    write(texts.movingName, now.rightIndex < 0 ? `nothing from ${by.left}` : `${run.name(moving, now.rightIndex)}, from ${by.left}`);
    write(texts.moving, now.rightIndex < 0 ? "" : fitted(now.right, fits));
    write(texts.otherName, otherIndex < 0 ? `no element of ${other.toUpperCase()} here` : `${run.name(other, otherIndex)}, ${sinking ? `on its way to row ${r + run.columns.sunk[t]}` : run.loads ? "stays" : `from ${by.above}`}`);
    write(texts.other, otherIndex < 0 ? "" : fitted(run.loads ? now.held : now.down, fits - (run.loads ? 0 : 3)));
    write(texts.sumName, sumIndex < 0 ? "no sum here" : `sum for ${run.name("c", sumIndex)}, ${draining ? "on its way out" : run.loads ? "now" : "stays"}`);
    write(texts.sum, sumIndex < 0 ? "" : fitted(run.loads ? now.down : now.held, fits));
    write(texts.productName, step ? `product${before}` : "");
    write(texts.product, step ? fitted(step.exactProduct, room) : "");
    write(texts.earlierName, step ? `sum so far, ${origin(run, step, r, c)}` : "");
    write(texts.earlier, step ? fitted(step.earlier, room) : "");
    write(texts.totalName, step ? `sum${before}` : "");
    write(texts.total, step ? fitted(step.exactTotal, room) : "");
    for (const [name, lost] of /** @type {[string, number][]} */ ([["productLost", step?.productLost ?? 0], ["totalLost", step?.totalLost ?? 0]])) {
      write(texts[name], !step ? "" : lost === 0 ? `${type} holds it exactly` : whole(run) ? "wraps around" : `rounded away: ${fitted(lost, room - 14)}`);
      set(texts[name], { "data-lost": (step && lost !== 0) || null });
    }
    set(operators[0].ring, { "data-lost": (step && step.productLost !== 0) || null });
    set(operators[1].ring, { "data-lost": (step && step.totalLost !== 0) || null });
    for (const name of /** @type {("moving" | "other" | "sum")[]} */ (["moving", "other", "sum"])) {
      set(boxes[name], { "data-empty": texts[name].textContent === "" || null });
    }
  }
  return { el: svg, resize, show };
}

// ------------------------------------------------------------------------------------------------------- row

/**
 * Where a row lies: all its cells, or as many around the chosen one as can show their values.
 * @param {Run} run @param {Record<Letter, number>} chars @param {number} width
 */
export function rowLayout(run, chars, width) {
  for (let count = run.C; ; count--) {
    const cells = layout({ ...run, R: 1, C: count }, chars, width, { ahead: count === run.C ? 3 : 0 });
    if (count <= 2 || (cells.form !== "dot" && cells.form !== "compact")) return { ...cells, count, y: () => 58, below: 58 + cells.cellH };
  }
}

/**
 * One row of the array: the operand that hops along it, and in which cycle it is where.
 * @param {Run} run @param {string} prefix
 */
function makeRow(run, prefix) {
  const hatch = `${prefix}-row-hatch`;
  const svg = s("svg", { class: "sy-array ce-row", "aria-hidden": "true" });
  const chars = textWidths(run);
  const title = label("", { class: "ce-note", x: 0, y: 14 });
  const followed = label("", { class: "ce-note", x: 0 });
  /** @type {ReturnType<typeof rowLayout> | null} */
  let place = null;
  let room = 0;
  /** @type {ReturnType<typeof makeCell>[]} */
  let cells = [];
  /** @type {ReturnType<typeof makeChip>[]} */
  let queue = [];
  /** @type {{above: SVGTextElement, below: SVGTextElement, cycle: SVGTextElement, ring: SVGRectElement, hop: SVGPathElement}[]} */
  let marks = [];

  /** @param {number} width */
  function resize(width) {
    const at = (place = rowLayout(run, chars, width));
    room = width;
    cells = Array.from({ length: at.count }, (_, i) => makeCell(run, at, 0, i, hatch));
    queue = Array.from({ length: at.slots }, () => makeChip(`sy-${run.roles.right}`));
    marks = Array.from({ length: at.count }, (_, i) => {
      const middle = at.x(i) + at.cellW / 2;
      const from = middle - at.cellW - at.gap + 18;
      const y = at.below + 45;
      return {
        above: label("", { class: "sy-value sy-small sy-c", x: middle, y: at.y() - 10, "text-anchor": "middle" }),
        below: label("", { class: "sy-value sy-small sy-c", x: middle, y: at.below + 18, "text-anchor": "middle" }),
        cycle: label("", { class: "ce-cycle", x: middle, y: at.below + 50, "text-anchor": "middle" }),
        ring: s("rect", { class: `ce-ring sy-${run.roles.right}`, x: middle - 15, y: at.below + 34, width: 30, height: 22, rx: 11 }),
        hop: s("path", { class: `ce-hop sy-${run.roles.right}`, d: i === 0 ? "" : `M${from} ${y}H${middle - 18}m-6 -4l6 4l-6 4` }),
      };
    });
    const height = at.below + 88;
    const wide = Math.max(at.width, Math.min(width, 330));
    set(svg, { width: wide, height, viewBox: `0 0 ${wide} ${height}` });
    set(followed, { y: height - 8 });
    svg.replaceChildren(s("defs", {}, makeHatch(hatch)), title, followed, ...cells.map((cell) => cell.node), ...queue.map((chip) => chip.node),
      ...marks.flatMap((each) => [each.above, each.below, each.hop, each.ring, each.cycle]));
  }

  /** @param {number} t @param {number} r @param {number} c */
  function show(t, r, c) {
    if (!place) return;
    const at = place;
    const { right } = run.roles;
    const first = Math.max(0, Math.min(run.C - at.count, c - Math.floor(at.count / 2)));
    const index = run.cell(t, r, c).rightIndex;
    const end = run.foldAt(t).start + run.foldAt(t).cycles;
    const part = at.count < run.C ? `row ${r}, columns ${first} to ${first + at.count - 1} of ${run.C}` : `row ${r} of ${run.R}`;
    const moves = `${right.toUpperCase()} moves right, one cell a cycle`;
    write(title, room < 560 || at.count < run.C ? `${part}: ${right.toUpperCase()} moves right` : `${part}: ${moves}${run.loads ? "; sums pass from above to below" : ""}`);
    cells.forEach((view, i) => {
      const col = first + i;
      const cell = run.cell(t, r, col);
      drawCell(run, view, cell, col === c, { right: cell.rightIndex >= 0 && i < at.count - 1, down: false });
      set(view.node, { "data-col": col });
      const step = run.loads ? stepAt(run, t, r, col) : null;
      const falling = (/** @type {number} */ x) => `${short(x)} ↓`;
      const fits = (/** @type {string} */ text) => (text.length * 6.7 <= at.cellW + at.gap ? text : "");
      write(marks[i].above, step ? fits(falling(step.earlier)) : "");
      write(marks[i].below, step ? fits(falling(step.total)) : "");
      // In which cycle the operand of the chosen cell is in this one: looked up, not counted.
      const when = t + col - c;
      const there = index >= 0 && when >= 0 && when < run.T && run.cell(when, r, col).rightIndex === index;
      write(marks[i].cycle, there ? String(when) : "");
      set(marks[i].cycle, { "data-now": col === c || null });
      set(marks[i].ring, { visibility: there ? "visible" : "hidden", "data-now": col === c || null });
      set(marks[i].hop, { visibility: there && i > 0 ? "visible" : "hidden" });
    });
    queue.forEach((slot, i) => {
      const later = t + i + 1 < end ? run.cell(t + i + 1, r, 0) : null;
      slot.show(later && later.rightIndex >= 0 ? short(later.right) : null, at.left - 12 - (i + 1) * (at.chip + 4) + 4, at.y() + at.cellH / 2 - 11, at.chip);
    });
    write(followed, index < 0 ? `no element of ${right.toUpperCase()} is in cell (${r},${c}) now` : `${run.name(right, index)}: in which cycle it is in each cell`);
  }
  return { el: svg, resize, show };
}

// ------------------------------------------------------------------------------------------------------- map

/** The array small, with the chosen cell and its row. @param {Run} run @param {string} prefix */
function makeMap(run, prefix) {
  const hatch = `${prefix}-map-hatch`;
  const size = Math.max(run.R, run.C) > 5 ? 15 : 20;
  const band = s("rect", { class: "ce-band", x: 0, width: run.C * size + 8, height: size + 2, rx: 3 });
  const chosen = s("rect", { class: "ce-chosen", width: size, height: size, rx: 2 });
  const squares = Array.from({ length: run.R * run.C }, (_, i) => s("rect", {
    class: "ce-square", x: 4 + (i % run.C) * size + 2, y: 4 + Math.floor(i / run.C) * size + 2, width: size - 4, height: size - 4, rx: 2,
    "data-place": `${Math.floor(i / run.C)},${i % run.C}`,
  }));
  const note = h("p", {});
  const el = h("div", { class: "ce-map" },
    s("svg", { width: run.C * size + 8, height: run.R * size + 8, "aria-hidden": "true" }, s("defs", {}, makeHatch(hatch)), band, ...squares, chosen), note);
  return {
    el,
    /** @param {number} t @param {number} r @param {number} c */
    show(t, r, c) {
      squares.forEach((square, i) => {
        const active = run.cell(t, Math.floor(i / run.C), i % run.C).active;
        set(square, { "data-works": active || null, fill: active ? null : `url(#${hatch})` });
      });
      set(band, { y: 4 + r * size - 1 });
      set(chosen, { x: 4 + c * size, y: 4 + r * size });
      write(note, `cell (${r},${c}) of ${run.R} × ${run.C}`);
    },
  };
}

// ------------------------------------------------------------------------------------------------------ panels

/** Exponents of the highest and the lowest bit that is 1. @param {number} x @returns {[number, number] | null} */
export function extent(x) {
  if (x === 0) return null;
  const size = Math.abs(x);
  let high = Math.floor(Math.log2(size));
  if (2 ** high > size) high -= 1;
  else if (2 ** (high + 1) <= size) high += 1;
  let low = high;
  for (let rest = size / 2 ** high - 1; rest > 0; low--) rest = (rest * 2) % 1;
  return [high, low];
}

/**
 * The binary digits of a number from one exponent down to another, its sign before the first; blank where it has none.
 * A number whose last place is always written, as that of a whole number is, names it.
 * @param {number} x @param {number} high @param {number} low @param {number} [final] @returns {string}
 */
export function digits(x, high, low, final) {
  const own = extent(x);
  let text = "";
  for (let e = high; e >= low; e--) {
    if (e === final && !own) text += "0";
    else if (!own || e < Math.min(own[1], final ?? own[1])) text += "\u00a0";
    else if (e > own[0]) text += e === own[0] + 1 && x < 0 ? "\u2212" : "\u00a0";
    else text += String(Math.floor(Math.abs(x) / 2 ** e) % 2);
  }
  return text;
}

/** A power of two as it is written. @param {number} exponent */
const powerOfTwo = (exponent) => `2${[...String(exponent)].map((sign) => (sign === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(sign)])).join("")}`;

const SIGNIFICANT = 24; // of float32
const DRAWN = 38; // so many binary places find room in the panel

/** The addition in binary: what is kept, and what is rounded away. @param {Run} run */
function makeBits(run) {
  const rounds = !whole(run);
  const names = rounds ? ["sum so far", "+ product", "= before rounding", "kept"] : ["sum so far", "+ product", "= sum"];
  const rows = names.map((name) => {
    const parts = ["ce-lead", "ce-kept", "ce-away"].map((kind) => h("span", { class: kind }));
    return { el: h("div", { class: "ce-bits" }, h("span", { class: "ce-label" }, name), h("code", {}, ...parts)), parts };
  });
  const note = h("p", {});
  const el = h("section", { class: "pw-panel ce-binary", "data-rounds": rounds || null }, h("header", {}, h("h4", {}, "the addition in binary")), ...rows.map((row) => row.el), note);

  /** @param {Step | null} step */
  function show(step) {
    const values = step ? [step.earlier, step.product, step.exactTotal, step.total] : [];
    const extents = values.map(extent).filter((each) => each !== null);
    const window = step ? extent(step.total) : null;
    const most = Math.max(...extents.map(([top]) => top));
    const first = rounds ? window?.[0] ?? 0 : most;
    const last = rounds ? first - SIGNIFICANT + 1 : 0;
    const low = Math.min(last, ...extents.map(([, bottom]) => bottom));
    const draw = window !== null && most - low < DRAWN;
    rows.forEach(({ el: line, parts }, i) => {
      line.hidden = !draw;
      const away = draw && i < 3 ? digits(values[i], last - 1, low).trimEnd() : "";
      write(parts[0], draw ? digits(values[i], most + 1, first + 1) : "");
      write(parts[1], draw ? digits(values[i], first, last, rounds ? undefined : 0) : "\u00a0");
      write(parts[2], away);
      set(parts[2], { "data-struck": (away !== "" && i === 2) || null });
    });
    const type = run.header.accumulator;
    if (!step) write(note, "Nothing is added in this cycle.");
    else if (!window) write(note, "The sum is 0.");
    else if (!rounds) write(note, `${type} holds every whole number up to ${powerOfTwo(type === "int32" ? 31 : 63)} − 1: nothing is rounded. This sum takes ${window[0] + 1} bits and a sign.`);
    else if (!draw) write(note, `Sum and product lie too far apart to be drawn: ${most - low + 1} places from the first bit to the last, and float32 keeps ${SIGNIFICANT}.`);
    else write(note, `float32 keeps ${SIGNIFICANT} bits; the last one here is worth ${powerOfTwo(last)}. ${step.totalLost === 0 ? "No bit lies below it."
      : Math.abs(step.totalLost) === 2 ** (last - 1) ? "What lies below is exactly half of that, so the even neighbour is taken." : "What lies below it is rounded to the nearest."}`);
  }
  return { el, show };
}

const LISTED = 8;

/** The sum of one element of C, product by product; what is still to come is not shown. @param {Run} run */
function makeSums(run) {
  const title = h("h4", {});
  const lines = Array.from({ length: Math.min(LISTED, run.K) }, () => {
    const cells = Array.from({ length: 4 }, () => h("td", {}));
    return { el: h("tr", {}, ...cells), cells };
  });
  const el = h("section", { class: "pw-panel" }, h("header", {}, title), h("table", { class: "ce-sums" },
    h("thead", {}, h("tr", {}, ...["k", "product", "sum", whole(run) ? "lost" : "rounded away"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, ...lines.map((line) => line.el))));
  return {
    el,
    /** @param {Step | null} step */
    show(step) {
      write(title, step ? `C[${step.m},${step.n}], product by product` : "no sum grows here in this cycle");
      const first = step ? Math.max(0, Math.min(step.k - LISTED + 2, run.K - lines.length)) : 0;
      lines.forEach((line, i) => {
        const k = first + i;
        const each = step && k <= step.k ? stepOf(run, step.m, step.n, k) : null;
        const lost = each ? each.productLost + each.totalLost : 0;
        const texts = each ? [String(k), short(each.product), short(each.total), lost === 0 ? "nothing" : short(lost)] : [step ? String(k) : "·", "·", "·", "·"];
        line.cells.forEach((cell, j) => write(cell, texts[j]));
        set(line.el, { "data-now": (step && k === step.k) || null, "data-lost": lost !== 0 || null });
      });
    },
  };
}

/** @param {Run} run */
function makeLegend(run) {
  /** @param {...Node} children */
  const picture = (...children) => s("svg", { width: 24, height: 18, viewBox: "0 0 24 18", "aria-hidden": "true" }, ...children);
  const { held, right, down } = run.roles;
  const box = (/** @type {string} */ kind) => s("rect", { x: 2, y: 3, width: 20, height: 12, rx: 3, class: kind });
  const sum = run.loads ? "moves down" : "stays";
  return legend([
    { mark: picture(box(`ce-register sy-${right}`)), text: `element of ${right.toUpperCase()}: moves right` },
    { mark: picture(box(`ce-register sy-${run.loads ? held : down}${run.loads ? " ce-stays" : ""}`)), text: `element of ${(run.loads ? held : down).toUpperCase()}: ${run.loads ? "stays" : "moves down"}` },
    { mark: picture(box(`ce-register sy-c${run.loads ? "" : " ce-stays"}`)), text: `sum for C: ${sum}` },
    ...(whole(run) ? [] : [{ mark: picture(s("circle", { cx: 12, cy: 9, r: 7, class: "ce-operator", "data-lost": true })), text: "rounds something away" }]),
    { mark: picture(s("path", { d: "M5 16L15 2M11 16L20 4M2 11L8 3", class: "sy-hatching" }), box("sy-legend-idle")), text: "idle" },
  ]);
}

// ------------------------------------------------------------------------------------------------------ render

/** Which of three zooms: radio buttons, so that arrow keys choose. @param {Zoom} first @param {string} prefix @param {AbortSignal} signal @param {(zoom: Zoom) => void} changed */
function makeZoom(first, prefix, signal, changed) {
  const inputs = ZOOMS.map((zoom) => {
    const input = h("input", { type: "radio", name: `${prefix}-zoom`, value: zoom, checked: zoom === first });
    input.addEventListener("change", () => changed(zoom), { signal });
    return h("label", {}, input, h("span", {}, zoom));
  });
  return h("fieldset", { class: "ce-zoom" }, h("legend", {}, "Zoom"), ...inputs);
}

/**
 * @param {Run} run @param {Zoom} first
 * @param {import("./kit/stage.js").Tools} tools
 * @returns {import("./kit/stage.js").Picture}
 */
function mount(run, first, { signal, still, prefix, select }) {
  let zoom = first;
  const views = { cell: makeDatapath(run, prefix), row: makeRow(run, prefix), array: arrayView(run, prefix, still) };
  const map = makeMap(run, prefix);
  const holder = h("div", { class: "ce-view" });
  const control = still ? null : makeZoom(first, prefix, signal, (next) => {
    zoom = next;
    fit();
    draw();
  });
  const el = h("div", { class: "ce" }, control, holder, still ? null : map.el);
  let [cycle, width] = [0, 600];
  /** @type {number[]} */
  let at = run.header.cell;
  const fit = () => {
    // Beside the cell there is room for the map; a row and an array take all the width.
    views[zoom].resize(zoom === "cell" && width > 560 ? width - 130 : width);
    holder.replaceChildren(views[zoom].el);
    set(el, { "data-zoom": zoom, "data-narrow": width <= 560 || null });
  };
  const draw = () => {
    views[zoom].show(cycle, at[0], at[1]);
    map.show(cycle, at[0], at[1]);
  };
  fit();
  if (still) {
    return {
      el,
      resize(wide) {
        width = wide;
        fit();
      },
      show(frame) {
        cycle = frame.cycle;
        draw();
      },
    };
  }
  el.addEventListener("click", (event) => {
    const target = /** @type {Element} */ (event.target);
    const square = target.closest("[data-place]")?.getAttribute("data-place");
    const column = target.closest("[data-col]")?.getAttribute("data-col");
    if (square) select(square.split(",").map(Number));
    else if (column) select([at[0], Number(column)]);
    else if (zoom === "array" && target.closest(".sy-array")) {
      const box = views.array.el.getBoundingClientRect();
      const hit = views.array.hit(event.clientX - box.left, event.clientY - box.top);
      if (hit) select(hit);
    }
  }, { signal });

  const bits = makeBits(run);
  const sums = makeSums(run);
  const { columns, T } = run;
  const bill = ledger({
    title: "ledger so far", rows: [
      { label: "cycles", text: (t) => `${number(t + 1)} of ${number(T)}`, help: "Cycle 0 is the first, so cycle t ends after t + 1 of them." },
      { label: "multiply-adds, this cell", text: (t) => number(worked(run, t, at[0], at[1])), help: "How many products the chosen cell has formed and added." },
      { label: "multiply-adds, array", text: (t) => `${number(columns.macs[t])} of ${number(columns.macs[T - 1])}`, help: "The same of all cells; a product of m, k, n needs m × k × n." },
      { label: whole(run) ? "sums that wrapped around" : "multiply-adds that lost bits", text: (t) => number(columns.rounded[t]), help: "Multiply-adds of the array whose product or sum did not fit the accumulator's type." },
    ],
  });
  return {
    el,
    panels: [bits.el, sums.el, bill.el],
    legend: makeLegend(run),
    resize(wide) {
      width = wide;
      fit();
    },
    show(frame) {
      cycle = frame.cycle;
      at = placeOf(run, frame.selected);
      draw();
      const step = stepAt(run, cycle, at[0], at[1]);
      bits.show(step);
      sums.show(step);
      bill.show(cycle);
    },
  };
}

/** The whole array, as the systolic scene draws it. @param {Run} run @param {string} prefix @param {boolean} still */
function arrayView(run, prefix, still) {
  const array = makeArray(run, { prefix: `${prefix}-array`, still, ahead: 2 });
  return {
    el: array.svg,
    resize: array.resize,
    /** @param {number} t @param {number} r @param {number} c */
    show: (t, r, c) => array.show(t, [r, c]),
    /** @param {number} x @param {number} y */
    hit: (x, y) => array.hit(x, y, []),
  };
}

/** @param {import("./kit/wire.js").Packed} packed @param {import("./kit/stage.js").Options} options @returns {import("./kit/stage.js").Scene} */
function open(packed, options) {
  const run = readRun(packed);
  const { header, R, C, T } = run;
  const marks = chapters(run);
  const [row, col] = placeOf(run, []);
  const works = Array.from({ length: T }, (_, t) => t).filter((t) => run.cell(t, row, col).active);
  // The film: before the cell's work, its first steps, its last one, the end of the run.
  const told = works.length ? [Math.max(0, works[0] - 1), ...works.slice(0, 3), works[works.length - 1]] : marks.map(({ cycle }) => cycle);
  const stills = [...new Set([0, ...told, T - 1])].sort((x, y) => x - y).slice(0, 7);
  const kinds = [...new Set(/** @type {string[]} */ (header.operands))].join(" and ");
  return {
    title: `One cell of ${/^[aeiou]/.test(header.flow) ? "an" : "a"} ${header.flow} array, ${R} × ${C}`,
    rule: `Rule: in each cycle a cell multiplies two ${kinds} numbers, adds the product to a sum in ${header.accumulator}, and hands its moving values on to its neighbours.`,
    simplified: (whole(run) ? `Sums beyond ${header.accumulator} wrap around; a unit may saturate instead, which is not shown. `
      : `Product and sum are rounded one after the other to ${header.accumulator}, to the nearest, ties to even; what a real cell keeps in between is not documented. `)
      + "Cycles are counted from 0; a frame shows the registers at the end of its cycle.",
    cycles: T,
    chapters: marks,
    stills,
    phase: (t) => run.phase(t) + (run.folds.length > 1 ? `, fold ${run.foldAt(t).index + 1} of ${run.folds.length}` : ""),
    mount: (tools) => mount(run, ZOOMS.includes(options.zoom) ? options.zoom : "cell", tools),
    caption: (t, at) => cellWords(run, t, ...placeOf(run, at)),
    table: (t) => frameTable(run, t),
    move(at, key) {
      const [r, c] = placeOf(run, at);
      const [dr, dc] = /** @type {Record<string, number[]>} */ ({ ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] })[key];
      return [Math.max(0, Math.min(R - 1, r + dr)), Math.max(0, Math.min(C - 1, c + dc))];
    },
    pictureLabel: "A cell, its row or the array; arrow keys choose another cell",
    mark,
    python: header.python,
    help: [
      RULES[header.dataflow],
      "Zoom: the cell with its registers, multiplier and adder; the row with the operand that hops along it; the whole array. All three show the same cycle.",
      "Choose another cell by a click in the small array, in the row or in the array, or with the arrow keys while the picture has the focus.",
      whole(run) ? `${header.accumulator} holds whole numbers exactly; a sum beyond its range wraps around.`
        : "float32 keeps 24 significant bits. A product of two bf16 numbers has at most 16, so it is exact; a sum may need more, and the rest is rounded away.",
    ],
  };
}

export default { render: stage(open) };
