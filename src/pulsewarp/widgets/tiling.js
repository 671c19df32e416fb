// A product of true size on an array of true size: the stationary matrix in tiles, the array as activity,
// folds on a time axis. Three parts in this order: what the cost holds and where things lie (pure), drawing
// one frame (pure), wiring (short).
//
// Letters: t cycle, r array row, c array column. When a fold begins and how many cells work so many cycles
// later comes from Python (tiling.py); here it is looked up and added.

import { makeBitmap, pixel, STRIPE, TONES } from "./kit/array.js";
import { h, s, set, write } from "./kit/dom.js";
import { chart, ledger, legend } from "./kit/panels.js";
import { stage } from "./kit/stage.js";
import { width } from "./kit/theme.js";
import { number } from "./kit/words.js";

/** @typedef {ReturnType<typeof readCost>} Cost */
/**
 * @typedef {{index: number, first: number, begin: number, end: number, ended: number, row0: number, col0: number,
 *   rows: number, cols: number, kind: number}} Fold
 *   `first`: its own first cycle; `begin`: that of its first product; `end`, `ended`: one after its own last cycle,
 *   and one after that of its last product
 */
/** @typedef {"padding" | "waits" | "works" | "done"} State */

// ---------------------------------------------------------------------------------------------- the cost

/**
 * @param {import("./kit/wire.js").Packed} packed
 */
export function readCost({ header, columns, shapes }) {
  const { rows: R, cols: C, cycles: T, stream, load, overlap, roles, axes, kinds, cycles_per_fold: own } = header;
  const F = shapes.folds[0];
  const [span, K] = shapes.profile;
  const table = columns.folds;
  const loads = roles.held !== "c";

  /** @param {number} i @returns {Fold} */
  function fold(i) {
    const [first, begin, row0, col0, kind] = table.subarray(5 * i, 5 * i + 5);
    return {
      index: i, first, begin, row0, col0, kind, rows: kinds[kind].rows, cols: kinds[kind].cols,
      end: first + own, ended: begin + kinds[kind].rows + kinds[kind].cols + stream - 2,
    };
  }

  /** The last fold whose number in a column of the table is at most t, or -1. @param {number} t @param {number} column */
  function last(t, column) {
    let [low, high] = [0, F];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (table[5 * middle + column] <= t) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }
  /** @param {number} t the last fold with a product formed by then */
  const begun = (t) => last(t, 1);

  // Products of one fold by so many cycles after its first, for each kind; and of all folds before one.
  const formed = new Float64Array(span * K);
  for (let i = 0; i < formed.length; i++) formed[i] = columns.profile[i] + (i >= K ? formed[i - K] : 0);
  const total = Array.from({ length: K }, (_, kind) => formed[(span - 1) * K + kind]);
  const before = new Float64Array(F + 1);
  for (let i = 0; i < F; i++) before[i + 1] = before[i] + total[table[5 * i + 4]];

  /** Folds with cells at work after clock edge t, the earliest first. @param {number} t */
  function atWork(t) {
    const found = [];
    for (let i = begun(t); i >= 0 && t - table[5 * i + 1] < span; i--) {
      const one = fold(i);
      if (t < one.ended) found.unshift({ ...one, busy: columns.profile[(t - one.begin) * K + one.kind] });
    }
    return found;
  }

  /** Multiply-adds by the end of cycle t; `full`: had every tile been full. @param {number} t @param {boolean} [full] */
  function done(t, full = false) {
    let sum = 0;
    let i = begun(t);
    for (; i >= 0 && t - table[5 * i + 1] < span; i--) sum += formed[(t - table[5 * i + 1]) * K + (full ? 0 : table[5 * i + 4])];
    return sum + (full ? (i + 1) * total[0] : before[i + 1]);
  }

  /** The fold a cycle belongs to; where folds overlap, the last one whose stream has begun. @param {number} t */
  const at = (t) => fold(Math.max(0, last(t, overlap ? 1 : 0)));

  /** @param {number} t @returns {string} */
  function phase(t) {
    if (overlap) return ["load", "fill", "steady", "drain"][header.phases.filter((/** @type {number} */ from) => from <= t).length];
    const now = at(t);
    let from = now.first;
    const lengths = kinds[now.kind].phases;
    for (let i = 0; i < 3; i++) {
      from += lengths[i];
      if (t < from) return ["load", "fill", "steady"][i];
    }
    return "drain";
  }

  /**
   * Which fold a cell belongs to after clock edge t, what it does and since when.
   * @param {number} t @param {number} r @param {number} c
   * @returns {{fold: Fold, state: State, step: number, there: boolean}}
   *   `step` of the stream, `there`: its element has come to it
   */
  function cell(t, r, c) {
    const i = overlap ? begun(t - r - c) : Math.max(begun(t - r - c), last(t, 0));
    const own = fold(Math.max(0, i));
    const step = t - own.begin - r - c;
    /** @type {State} */
    const state = r >= own.rows || c >= own.cols ? "padding" : step < 0 ? "waits" : step < stream ? "works" : "done";
    return { fold: own, state, step, there: state !== "padding" && (step >= 0 || (!overlap && r + sinks(t, own) < own.rows)) };
  }

  /** Rows by which a tile that is being loaded still has to sink. @param {number} t @param {Fold} one */
  const sinks = (t, one) => (loads ? Math.max(0, load - 1 - (t - one.first)) : Infinity);

  return {
    header, columns, R, C, T, F, stream, load, loads, overlap, axes, span,
    cells: R * C,
    held: /** @type {"a" | "b" | "c"} */ (roles.held),
    fold, begun, atWork, at, phase, cell, sinks, done,
    /** The fold whose tile is being shifted in, or null. @param {number} t */
    loading(t) {
      const i = last(t, 0);
      return i >= 0 && t < table[5 * i + 1] ? fold(i) : null;
    },
    /**
     * The rise and fall of a fold: cycles since its first product, share of all cells at work then.
     * @param {Fold} one @returns {[number, number][]}
     */
    outline({ begin, ended, kind }) {
      const steps = Math.min(40, ended - begin - 1);
      return Array.from({ length: steps + 1 }, (_, k) => {
        const after = steps ? Math.round((k * (ended - begin - 1)) / steps) : 0;
        return [after, columns.profile[after * K + kind] / (R * C)];
      });
    },
    /** Cells that multiply in cycle t. @param {number} t */
    busy: (t) => atWork(t).reduce((sum, one) => sum + one.busy, 0),
    /** Folds whose own last cycle has passed. @param {number} t */
    ended: (t) => last(t + 1 - own, 0) + 1,
  };
}

// ---------------------------------------------------------------------------------------------- words

/** A share in per cent, with digits enough not to be 0. @param {number} x */
export function percent(x) {
  if (x === 0 || x === 1) return `${100 * x} %`;
  const digits = x >= 0.001 && x <= 0.999 ? (100 * x).toFixed(1) : x > 0.5 ? (100 * x).toFixed(3) : (100 * x).toPrecision(1);
  return `${Number(digits)} %`;
}

/** @param {number} from @param {number} count */
const range = (from, count) => (count === 1 ? `${from}` : `${from} to ${from + count - 1}`);

/** @param {number} count */
const multiply = (count) => (count === 1 ? "multiplies" : "multiply");

/** The tile of a fold, by the indices of its matrix. @param {Cost} cost @param {Fold} one */
export function tileName(cost, one) {
  const [down, across] = [range(one.row0, one.rows), range(one.col0, one.cols)];
  const { held } = cost;
  return held === "a" ? `A[${across}, ${down}]` : `${held.toUpperCase()}[${down}, ${across}]`;
}

/** What streams through a fold, counted. @param {Cost} cost */
const streamed = (cost) => ({ b: "rows of A", a: "columns of B", c: "steps along k" }[cost.held]);

/** The operands at a cell, by name. @param {Cost} cost @param {Fold} one @param {number} r @param {number} c @param {number} step */
function names(cost, one, r, c, step) {
  const at = /** @type {Record<string, number>} */ ({ [cost.axes.row]: one.row0 + r, [cost.axes.col]: one.col0 + c, [cost.axes.stream]: step });
  return { a: `A[${at.m},${at.k}]`, b: `B[${at.k},${at.n}]`, c: `C[${at.m},${at.n}]` };
}

/** @param {Cost} cost @param {Fold} one */
const ofFold = (cost, one) => (cost.F > 1 ? ` of fold ${number(one.index + 1)} of ${number(cost.F)}` : "");

/**
 * What is at (cycle, cell), in words.
 * @param {Cost} cost @param {number} t @param {number} r @param {number} c
 * @returns {string[]}
 */
export function describe(cost, t, r, c) {
  const { fold: own, state, step, there } = cost.cell(t, r, c);
  const here = `Cell (${r},${c})`;
  const inFold = cost.F > 1 ? ` in fold ${number(own.index + 1)}` : "";
  if (state === "padding") {
    return [`${here} is padding${inFold}: the tile ${tileName(cost, own)} has ${number(own.rows)} of ${cost.R} rows and ${number(own.cols)} of ${cost.C} columns, so no element is for this cell.`];
  }
  const name = names(cost, own, r, c, step);
  const stays = names(cost, own, r, c, 0)[cost.held];
  const begins = own.begin + r + c;
  if (state === "works") {
    const product = cost.loads
      ? `${cost.held === "b" ? name.a : name.b} meets ${stays}, which stays, for ${name.c}`
      : `${name.a} meets ${name.b} for ${stays}, which stays`;
    return [`${here} multiplies: ${product}. It is step ${number(step + 1)} of ${number(cost.stream)}${inFold}, from cycle ${number(begins)} to ${number(begins + cost.stream - 1)}.`];
  }
  if (state === "waits") {
    const what = !cost.loads ? "has no sum yet" : there ? `holds ${stays} and waits` : cost.overlap ? `waits for ${stays}, which comes through its shadow register` : `is empty so far; ${stays} is on its way`;
    return [`${here} ${what}; its first product${inFold} is in cycle ${number(begins)}, the cell's place in the skew.`];
  }
  return [`${here} has formed its ${number(cost.stream)} product${cost.stream === 1 ? "" : "s"}${inFold}: ${stays} has met all ${streamed(cost)}; the last one in cycle ${number(begins + cost.stream - 1)}.`];
}

/** The whole frame in words. @param {Cost} cost @param {number} t @returns {string[]} */
export function frameWords(cost, t) {
  const now = cost.at(t);
  const used = now.rows * now.cols;
  const working = cost.atWork(t);
  const busy = cost.busy(t);
  const fills = used === cost.cells ? `The tile fills all ${number(used)} cells.`
    : `The tile fills ${number(used)} of ${number(cost.cells)} cells (${percent(used / cost.cells)}); the other ${number(cost.cells - used)} are padding and add nothing to the result.`;
  if (cost.overlap && cost.F > 1) return [overlapWords(cost, t, working, busy), cost.loading(t)?.index === now.index ? fills : fills.replace("The tile", `The tile of fold ${number(now.index + 1)}`)];
  const phase = cost.phase(t);
  const lead = { load: "Load", fill: "Fill", steady: "Steady state" }[phase] ?? "Drain";
  const all = busy === used ? `all ${number(used)}` : `${number(busy)} of ${number(used)}`;
  const first = /** @type {Record<string, string>} */ ({
    load: `${lead}${ofFold(cost, now)}: ${tileName(cost, now)} is shifted in from the top, one row of cells a cycle; no cell multiplies.`,
    fill: `${lead}${ofFold(cost, now)}: the front runs through the array, one diagonal a cycle; ${all} cells in use ${multiply(busy)}.`,
    steady: `${lead}${ofFold(cost, now)}: ${all} cells in use ${multiply(busy)} in this cycle.`,
    drain: busy ? `${lead}${ofFold(cost, now)}: the stream has ended at the top left${t < now.ended - cost.stream ? " and its band crosses the array" : ""}; ${all} cells in use ${multiply(busy)}.`
      : cost.loads ? `${lead}${ofFold(cost, now)}: the last sums leave at the bottom edge; no cell multiplies.`
        : `${lead}${ofFold(cost, now)}: the finished sums are shifted out at the bottom edge; no cell multiplies.`,
  });
  return [first[phase], fills];
}

/** @param {Cost} cost @param {number} t @param {ReturnType<Cost["atWork"]>} working @param {number} busy */
function overlapWords(cost, t, working, busy) {
  const shares = working.map((one) => `${number(one.busy)} for fold ${number(one.index + 1)}`);
  const split = shares.length > 1 ? `: ${shares.slice(0, -1).join(", ")} and ${shares[shares.length - 1]}` : shares.length ? ` for fold ${number(working[0].index + 1)} of ${number(cost.F)}` : "";
  const counted = busy === 0 ? "No cell multiplies." : `${busy === cost.cells ? `All ${number(busy)}` : `${number(busy)} of ${number(cost.cells)}`} cells ${multiply(busy)}${split}.`;
  const coming = cost.loading(t);
  const meanwhile = coming ? ` ${busy ? "Meanwhile the" : "The"} tile of fold ${number(coming.index + 1)}, ${tileName(cost, coming)}, is shifted in${busy ? " through the shadow registers" : ""}.`
    : busy ? "" : cost.loads ? " The last sums leave at the bottom edge." : " The last sums are shifted out at the bottom edge.";
  return counted + meanwhile;
}

/** @param {Cost} cost @param {number} t @returns {import("./kit/stage.js").Table} */
function frameTable(cost, t) {
  const coming = cost.loading(t);
  const working = cost.atWork(t);
  const shown = [...working, ...(coming && !working.some((one) => one.index === coming.index) ? [{ ...coming, busy: 0 }] : [])];
  if (!shown.length) shown.push({ ...cost.at(t), busy: 0 });
  return {
    caption: `Cycle ${number(t)}: folds at work, being loaded or leaving`,
    head: ["fold", "tile", "does", "cells in use", "multiply now", "first product in cycle", "last cycle"],
    rows: shown.map((one) => [
      number(one.index + 1), tileName(cost, one), one.busy ? "multiplies" : t < one.begin ? "is loaded" : "leaves",
      `${number(one.rows * one.cols)} (${percent((one.rows * one.cols) / cost.cells)})`, number(one.busy), number(one.begin), number(one.end - 1),
    ]),
  };
}

// ---------------------------------------------------------------------------------------------- drawing

/** Colours beside those of the large array; a waiting cell that holds its element is tinted in the matrix's colour. */
const EXTRA = /** @type {Record<string, Record<string, number[]>>} */ ({
  light: { front: [176, 84, 0], pad: [150, 160, 170], a: [209, 230, 242], b: [231, 222, 237], c: [243, 226, 210] },
  dark: { front: [240, 154, 74], pad: [92, 104, 116], a: [26, 54, 74], b: [58, 46, 70], c: [74, 50, 26] },
});

/** Cycles in which a cell that has just begun is marked: wide enough to be seen on a large array. @param {Cost} cost */
const frontWidth = (cost) => Math.max(1, Math.round(Math.max(cost.R, cost.C) / 64));

/** Pixels a cell on each side: one on a large array; on a small one so many that a hatching shows. @param {Cost} cost */
const dots = (cost) => Math.max(1, Math.floor(128 / Math.max(cost.R, cost.C)));

/**
 * Set every pixel to what its cell does after clock edge t; `q` x `q` pixels a cell.
 * @param {Uint32Array} pixels @param {Cost} cost @param {number} t @param {string} theme @param {number} [q]
 */
export function fillArray(pixels, cost, t, theme, q = 1) {
  const { R, C, stream, overlap, loads } = cost;
  const tones = { ...(TONES[theme] ?? TONES.light), ...(EXTRA[theme] ?? EXTRA.light) };
  const colour = (/** @type {string} */ name) => pixel(tones[name]);
  const [unused, waits, hatch, works, stripe, done, front, pad, holds] = ["unused", "waits", "hatch", "works", "stripe", "done", "front", "pad", cost.held].map(colour);
  const fresh = frontWidth(cost);
  // All cells of a diagonal are at the same step of the same fold: what they do is found once for each.
  const diagonals = R + C - 1;
  const [rows, cols] = [new Int32Array(diagonals), new Int32Array(diagonals)];
  const tone = new Uint32Array(diagonals); // 0: waits
  const upTo = new Int32Array(diagonals); // rows above this one hold their element already
  let i = cost.begun(t);
  const present = overlap ? null : cost.at(t);
  for (let d = 0; d < diagonals; d++) {
    while (i >= 0 && cost.fold(i).begin + d > t) i--;
    const own = present && present.index > i ? present : cost.fold(Math.max(0, i));
    const step = t - own.begin - d;
    rows[d] = own.rows;
    cols[d] = own.cols;
    if (step >= 0) tone[d] = step >= stream ? done : step < fresh ? front : step % STRIPE.every < STRIPE.steps ? stripe : works;
    else upTo[d] = loads && !overlap ? Math.max(0, own.rows - cost.sinks(t, own)) : 0;
  }
  const [high, wide] = [R * q, C * q];
  const edge = q >= 6 ? q - 1 : q; // between the cells of a small array a line is left open
  for (let y = 0, p = 0; y < high; y++) {
    const r = q === 1 ? y : Math.floor(y / q);
    for (let x = 0; x < wide; x++, p++) {
      const c = q === 1 ? x : Math.floor(x / q);
      const d = r + c;
      if (q > 1 && (y % q >= edge || x % q >= edge)) pixels[p] = hatch;
      else if (r >= rows[d] || c >= cols[d]) pixels[p] = ((x + y) & 7) === 0 || ((x - y) & 7) === 0 ? pad : unused;
      else if (tone[d]) pixels[p] = tone[d];
      else pixels[p] = ((x - y) & 7) === 0 ? hatch : r < upTo[d] ? holds : waits;
    }
  }
}

/**
 * The array as one picture.
 * @param {Cost} cost
 */
function makeArray(cost) {
  const { R, C } = cost;
  const q = dots(cost);
  const map = makeBitmap(R * q, C * q);
  const spot = h("div", { class: "ti-spot", hidden: true });
  const title = h("p", { class: "ti-title" }, `The array, ${R} × ${C} cells`);
  const el = h("div", { class: "ti-array" }, title, h("div", { class: "sy-map" }, map.canvas, spot));
  /** @param {number} t @param {string} theme @param {number[]} place */
  function show(t, theme, place) {
    map.paint((pixels) => fillArray(pixels, cost, t, theme, q));
    spot.hidden = place.length !== 2;
    if (place.length === 2) set(spot, { style: `left:${(100 * (place[1] + 0.5)) / C}%;top:${(100 * (place[0] + 0.5)) / R}%` });
  }
  return { el, canvas: map.canvas, resize: map.resize, show };
}

/** The hatching of padding, as in the array. @param {string} id */
const padding = (id) => s("pattern", { id, width: 8, height: 8, patternUnits: "userSpaceOnUse" }, s("path", { d: "M0 0L8 8M8 0L0 8", class: "ti-hatch" }));

/**
 * The stationary matrix as it lies on the array, cut into tiles, with the padding around it.
 * @param {Cost} cost @param {string} prefix
 */
function makeTiles(cost, prefix) {
  const { header, R, C, held, axes } = cost;
  const [down, across] = header.tiles;
  const [high, wide] = [header[axes.row], header[axes.col]];
  const letter = held.toUpperCase();
  const turned = held === "a" ? ", turned" : "";
  const title = h("p", { class: "ti-title" }, h("b", { class: `ti-word sy-${held}` }, letter),
    `${turned}, ${number(high)} × ${number(wide)}: ${number(down)} × ${number(across)} tile${cost.F === 1 ? "" : "s"} of ${R} × ${C}`);
  const svg = s("svg", { class: `ti-tiles sy-${held}`, role: "img", "aria-label": `${letter} in ${number(cost.F)} tile${cost.F === 1 ? "" : "s"}; ${percent(header.useful_cells / header.padded_cells)} of their cells are useful` });
  const share = h("p", { class: "ti-share" }, h("b", {}, `${percent(header.useful_cells / header.padded_cells)} useful`),
    header.useful_cells === header.padded_cells ? "; no padding." : `, ${percent(1 - header.useful_cells / header.padded_cells)} padding.`);
  /** @param {string} kind @param {string} text */
  const key = (kind, text) => h("li", {}, s("svg", { class: `sy-${held}`, width: 22, height: 16, viewBox: "0 0 22 16", "aria-hidden": "true" }, s("rect", { x: 1.5, y: 1.5, width: 19, height: 13, class: kind })), h("span", {}, text));
  const keys = h("ul", { class: "ti-keys" }, key("ti-now", "in the array now"), key("ti-done", "done"), cost.loads ? key("ti-next", "being loaded") : null, key("ti-all", "to come"));
  const el = h("div", { class: "ti-matrix" }, title, h("div", { class: "ti-beside" }, svg, h("div", {}, share, keys)));
  const finished = [s("rect", { class: "ti-done" }), s("rect", { class: "ti-done" })];
  const present = Array.from({ length: 4 }, () => s("rect", { class: "ti-now" }));
  const coming = s("rect", { class: "ti-next" });
  let [x, y] = [1, 1]; // px a cell

  /** @param {number} width */
  function resize(width) {
    const most = Math.min(width, 320) - 2;
    const scale = Math.min(most / (across * C), most / (down * R));
    [x, y] = [Math.max(scale, 40 / (across * C)), Math.max(scale, 40 / (down * R))]; // a long matrix is drawn thicker
    const [w, tall] = [across * C * x, down * R * y];
    set(svg, { width: w + 2, height: tall + 2, viewBox: `-1 -1 ${w + 2} ${tall + 2}` });
    let lines = "";
    for (let i = 0; i <= down; i++) lines += `M0 ${(i * R * y).toFixed(1)}H${w.toFixed(1)}`;
    for (let j = 0; j <= across; j++) lines += `M${(j * C * x).toFixed(1)} 0V${tall.toFixed(1)}`;
    svg.replaceChildren(
      s("defs", {}, padding(`${prefix}-pad`)),
      s("rect", { class: "ti-all", width: wide * x, height: high * y }), ...finished, ...present,
      s("path", { fill: `url(#${prefix}-pad)`, d: `M${wide * x} 0H${w}V${tall}H0V${high * y}H${wide * x}z` }),
      ...(C * x < 6 || R * y < 6 ? [s("rect", { class: "ti-edge", width: w, height: tall })] : [s("path", { class: "ti-grid", d: lines })]),
      coming, ...shares());
  }

  /** What each tile uses of the array, where there is room to say it. */
  function shares() {
    if (C * x < 64 || R * y < 24 || cost.F > 25) return [];
    return Array.from({ length: cost.F }, (_, i) => {
      const one = cost.fold(i);
      const text = percent((one.rows * one.cols) / cost.cells);
      const [middle, at] = [(one.col0 + C / 2) * x, (one.row0 + R / 2) * y];
      return s("g", {}, s("rect", { class: "ti-plate", x: middle - text.length * 4.2 - 4, y: at - 10, width: text.length * 8.4 + 8, height: 20, rx: 3 }),
        s("text", { class: "ti-percent", x: middle, y: at + 5, "text-anchor": "middle" }, text));
    });
  }

  /** @param {SVGRectElement} rect @param {Fold | null} one */
  const outline = (rect, one) => set(rect, one ? { x: one.col0 * x, y: one.row0 * y, width: Math.max(2, one.cols * x), height: Math.max(2, one.rows * y), visibility: "visible" } : { visibility: "hidden" });

  /** @param {number} t */
  function show(t) {
    const working = cost.atWork(t);
    const ended = working.length ? working[0].index : cost.begun(t) + 1;
    const [columns, rest] = [Math.floor(ended / down), ended % down];
    set(finished[0], { width: Math.min(wide, columns * C) * x, height: high * y });
    set(finished[1], { x: columns * C * x, width: Math.max(0, Math.min(wide - columns * C, C)) * x, height: rest * R * y });
    present.forEach((rect, i) => outline(rect, working[working.length - 1 - i] ?? null));
    outline(coming, cost.loading(t));
  }
  return { el, resize, show };
}

/**
 * Folds on the time axis: loading, working, leaving; those around the present one.
 * @param {Cost} cost @param {AbortSignal} signal @param {string} prefix
 */
function makeTimeline(cost, signal, prefix) {
  const ROW = 20;
  const shown = Math.min(cost.F, 5);
  const left = 12 + 8 * String(cost.F).length + 28;
  const note = h("b", { class: "pw-now" });
  const rows = Array.from({ length: shown }, () => ({
    name: s("text", { class: "ti-fold" }), load: s("rect", { class: `ti-load sy-${cost.held}` }),
    work: s("path", { class: "ti-work" }), rest: s("rect", { class: "ti-rest" }),
  }));
  const line = s("path", { class: "ti-playhead" });
  const [from, to] = [s("text", { class: "pw-scale" }), s("text", { class: "pw-scale", "text-anchor": "end" })];
  const high = shown * ROW + 24;
  const svg = s("svg", { class: "pw-chart", height: high, role: "img", "aria-label": `Folds on the time axis, ${shown} of ${number(cost.F)} at a time` },
    s("defs", {}, s("pattern", { id: `${prefix}-load`, width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, s("path", { d: "M0 0V5", class: `ti-stroke sy-${cost.held}` }))),
    ...rows.flatMap(({ name, load, work, rest }) => [name, rest, load, work]), from, to, line);
  const el = h("section", { class: "pw-panel" }, h("header", {}, h("h4", {}, "folds on the time axis"), note), svg);
  let wide = 0;
  let cycle = 0;

  function draw() {
    if (!wide) return;
    const current = cost.at(cycle).index;
    const top = Math.max(0, Math.min(cost.F - shown, current - 1));
    const [begin, end] = [cost.fold(top).first, cost.fold(top + shown - 1).end];
    const x = (/** @type {number} */ t) => left + ((wide - left) * (t - begin)) / (end - begin);
    rows.forEach(({ name, load, work, rest }, i) => {
      const one = cost.fold(top + i);
      const [y, tall] = [i * ROW + 3, ROW - 7];
      write(name, `fold ${number(one.index + 1)}`);
      set(name, { x: 0, y: y + tall - 2, "data-now": one.index === current || null });
      set(rest, { x: x(one.first), y: y + 0.5, width: Math.max(1, x(one.end) - x(one.first)), height: tall - 1 });
      set(load, { x: x(one.first), y, width: Math.max(0, x(one.begin) - x(one.first)), height: tall, fill: `url(#${prefix}-load)` });
      set(work, { d: cost.outline(one).map(([after, share], k) => `${k ? "L" : "M"}${x(one.begin + after).toFixed(1)} ${(y + tall - Math.max(share * tall, 1.2)).toFixed(1)}`).join("") + `L${x(one.ended)} ${y + tall}L${x(one.begin)} ${y + tall}z` });
    });
    set(from, { x: left, y: high - 6 });
    write(from, number(begin));
    set(to, { x: wide, y: high - 6 });
    write(to, `cycle ${number(end - 1)}`);
    set(line, { d: `M${x(cycle + 0.5)} 0V${shown * ROW + 4}` });
  }
  width(svg, signal, (next) => {
    wide = next;
    draw();
  });
  return {
    el,
    /** @param {number} t */
    show(t) {
      cycle = t;
      write(note, cost.F > 1 ? `fold ${number(cost.at(t).index + 1)} of ${number(cost.F)}` : "");
      draw();
    },
  };
}

/** @param {Cost} cost @param {string} prefix @returns {HTMLElement} */
function makeLegend(cost, prefix) {
  /** @param {string} kind @param {...Node} more */
  const swatch = (kind, ...more) => s("svg", { width: 22, height: 18, viewBox: "0 0 22 18", "aria-hidden": "true" },
    s("rect", { x: 1, y: 2, width: 20, height: 14, rx: 2, class: `sy-tone ${kind}` }), ...more);
  const hatched = s("path", { d: "M2 6l10 10M6 2l14 14M14 2l6 6", class: "sy-waiting" });
  const front = frontWidth(cost);
  const letter = cost.held.toUpperCase();
  const padded = cost.header.useful_cells < cost.header.padded_cells;
  return legend([
    { mark: swatch("sy-tone-works"), text: "multiplies" },
    { mark: swatch("sy-tone-stripe"), text: `multiplies too: ${STRIPE.steps} of every ${STRIPE.every} steps are marked, so that the stream can be followed` },
    { mark: swatch("ti-tone-front"), text: front === 1 ? "the front: forms its first product of a fold" : `the front: formed its first product of a fold in the last ${front} cycles` },
    ...(cost.loads && !cost.overlap ? [{ mark: swatch(`ti-tone-holds sy-${cost.held}`, hatched), text: `holds its element of ${letter} and waits` }] : []),
    { mark: swatch("sy-tone-waits", hatched.cloneNode()), text: "waits, empty so far" },
    { mark: swatch("sy-tone-done"), text: "done in this fold" },
    ...(padded ? [{ mark: s("svg", { width: 22, height: 18, viewBox: "0 0 22 18", "aria-hidden": "true" }, s("defs", {}, padding(`${prefix}-pad-legend`)),
      s("rect", { x: 1, y: 2, width: 20, height: 14, fill: `url(#${prefix}-pad-legend)`, class: "ti-plain" })), text: "padding: no element is for this cell" }] : []),
  ]);
}

/** @param {Cost} cost */
function ledgerRows(cost) {
  const { cells, T } = cost;
  const whole = cost.done(T - 1);
  /** @param {number} count @param {number} t */
  const share = (count, t) => `${number(count)} (${percent(count / (cells * (t + 1)))})`;
  return [
    { label: "cycles", text: (/** @type {number} */ t) => `${number(t + 1)} of ${number(T)}`, help: "Cycle 0 is the first, so cycle t ends after t + 1 of them." },
    { label: "folds ended", text: (/** @type {number} */ t) => `${number(cost.ended(t))} of ${number(cost.F)}`, help: "Fillings of the array whose own last cycle has passed." },
    { label: "product done", text: (/** @type {number} */ t) => percent(cost.done(t) / whole), help: "Multiply-adds done over those a product of m, k, n needs, m × k × n." },
    { label: "useful: multiply-adds", text: (/** @type {number} */ t) => share(cost.done(t), t), help: "One a working cell and cycle, all of them useful; and their share of all cells times cycles so far." },
    { label: "idle: padding", text: (/** @type {number} */ t) => share(cost.done(t, true) - cost.done(t), t), help: "Cell-cycles in which a cell would have worked had its tile been full, and their share." },
    { label: "idle: load, fill, drain", text: (/** @type {number} */ t) => share(cells * (t + 1) - cost.done(t, true), t), help: "All other cell-cycles without a product, and their share." },
  ];
}

// ---------------------------------------------------------------------------------------------- render

/** @param {Cost} cost @returns {import("./kit/stage.js").Chapter[]} */
function chapters(cost) {
  const { F, overlap, header } = cost;
  const begins = (/** @type {number} */ i) => (overlap && i > 0 ? cost.fold(i).begin : cost.fold(i).first);
  if (F <= 3 && !overlap) {
    const marks = [];
    for (let i = 0; i < F; i++) {
      const one = cost.fold(i);
      let from = one.first;
      const [load, fill, steady] = header.kinds[one.kind].phases;
      for (const [length, label] of /** @type {[number, string][]} */ ([[load, "load"], [fill, "fill"], [steady, "steady"], [1, "drain"]])) {
        if (length > 0) marks.push({ cycle: from, label: F > 1 && from === one.first ? `fold ${i + 1}: ${label}` : label });
        from += length;
      }
    }
    return marks;
  }
  const every = Math.ceil(F / 24);
  return Array.from({ length: Math.ceil(F / every) }, (_, i) => ({ cycle: begins(i * every), label: `fold ${number(i * every + 1)}` }));
}

/**
 * @param {Cost} cost
 * @param {import("./kit/stage.js").Tools} tools
 * @returns {import("./kit/stage.js").Picture}
 */
function mount(cost, { signal, still, prefix, select, point }) {
  const array = makeArray(cost);
  if (still) {
    return {
      el: h("div", { class: "ti" }, array.el),
      resize: (width) => array.resize(Math.min(width, 256)),
      show: (frame) => array.show(frame.cycle, frame.theme, []),
    };
  }
  const tiles = makeTiles(cost, prefix);
  const el = h("div", { class: "ti" }, tiles.el, array.el);
  /** @param {MouseEvent} event @returns {number[] | null} */
  const under = (event) => {
    if (event.target !== array.canvas) return null;
    const box = array.canvas.getBoundingClientRect();
    return [Math.floor(((event.clientY - box.top) / box.height) * cost.R), Math.floor(((event.clientX - box.left) / box.width) * cost.C)]
      .map((v, i) => Math.max(0, Math.min([cost.R, cost.C][i] - 1, v)));
  };
  el.addEventListener("pointermove", (event) => {
    if (event.pointerType !== "touch") point(under(event));
  }, { signal });
  el.addEventListener("pointerleave", () => point(null), { signal });
  el.addEventListener("click", (event) => select(under(event) ?? []), { signal });

  const { bin } = cost.header;
  const timeline = makeTimeline(cost, signal, prefix);
  const curve = chart({
    title: bin === 1 ? "cells working, by cycle" : `cells working, mean of every ${number(bin)} cycles`, values: cost.columns.curve, most: cost.cells, signal,
    unit: bin === 1 ? "cycle" : `times ${number(bin)} cycles`,
    summary: `Cells that multiply in each cycle, of ${number(cost.cells)}`,
  });
  const bill = ledger({ title: "ledger so far (share of cell-cycles)", rows: ledgerRows(cost) });
  return {
    el,
    panels: [timeline.el, curve.el, bill.el],
    legend: makeLegend(cost, prefix),
    snug: true,
    resize(width) {
      const beside = width >= 560;
      const matrix = beside ? Math.max(200, Math.min(320, width - 536)) : Math.min(width * 0.45, 200);
      el.classList.toggle("ti-narrow", !beside);
      tiles.resize(matrix);
      array.resize(beside ? Math.min(width - matrix - 24, 512) : Math.min(width, 400));
    },
    show({ cycle, selected, theme }) {
      array.show(cycle, theme, selected);
      tiles.show(cycle);
      timeline.show(cycle);
      curve.show(Math.floor(cycle / bin), `now ${number(cost.busy(cycle))} of ${number(cost.cells)}`);
      bill.show(cycle);
    },
  };
}

/** Cycles a second with which a run takes under a minute, a round number. @param {number} cycles */
function pace(cycles) {
  if (cycles <= 64) return 1;
  if (cycles <= 200) return 8;
  const least = cycles / 45;
  const tens = 10 ** Math.floor(Math.log10(least));
  return Math.max(60, [1, 2, 5, 10].map((step) => step * tens).find((rate) => rate >= least) ?? least);
}

/** The operands of a sentence in their colours. @param {string} sentence @returns {(Node | string)[]} */
function mark(sentence) {
  return sentence.split(/([ABC]\[[\d to,]+\])/).map((part) => (/^[ABC]\[/.test(part) ? h("span", { class: `sy-word sy-${part[0].toLowerCase()}` }, part) : part));
}

/** @param {import("./kit/wire.js").Packed} packed @returns {import("./kit/stage.js").Scene} */
function open(packed) {
  const cost = readCost(packed);
  const { header, R, C, T, F } = cost;
  const letter = cost.held.toUpperCase();
  const marks = chapters(cost);
  const middles = marks.slice(0, 4).map(({ cycle }, i) => Math.floor((cycle + (marks[i + 1]?.cycle ?? T)) / 2));
  const others = header.conventions.filter((/** @type {[string, number | null, string]} */ [name, cycles]) => name !== "register" && cycles !== null);
  const called = /** @type {Record<string, string>} */ ({ scalesim: "SCALE-Sim 3.0.0", stonne: "STONNE" });
  const rule = cost.loads
    ? `Rule: ${letter} is cut into tiles of the array's size; each tile fills the array once, a fold, and all ${number(cost.stream)} ${streamed(cost)} stream through it.`
    : `Rule: C is cut into tiles of the array's size; each tile's sums stay in the array for one fold, while ${number(cost.stream)} ${streamed(cost)} stream through it.`;
  return {
    title: `${number(header.m)} × ${number(header.k)} times ${number(header.k)} × ${number(header.n)} on ${R} × ${C} cells, ${header.flow}`,
    rule,
    given: `${number(F)} fold${F === 1 ? "" : "s"} of ${number(header.cycles_per_fold)} cycles${F === 1 ? "" : cost.overlap ? `, a new one every ${number(header.interval)}` : ""}: `
      + `${number(T)} cycles, counting each in which a register changes. ${others.map((/** @type {[string, number]} */ [name, cycles]) => `${called[name]} counts ${number(cycles)}`).join(", ")} (see Help).`,
    simplified: "Cycles are counted from 0. Simplified: operands are always there in time (no memory), "
      + `${cost.overlap ? "the next tile is loaded while the present one works" : "a fold loads only when the one before has ended"}, cells are shown by what they do, without values.`,
    cycles: T,
    rate: pace(T),
    chapters: marks,
    stills: [...new Set([0, ...middles, T - 1])].sort((x, y) => x - y),
    phase: (t) => cost.phase(t) + (F > 1 ? `, fold ${number(cost.at(t).index + 1)} of ${number(F)}` : ""),
    mount: (tools) => mount(cost, tools),
    caption: (t, at) => (at.length === 2 ? describe(cost, t, at[0], at[1]) : frameWords(cost, t)),
    table: (t) => frameTable(cost, t),
    move(at, key) {
      if (at.length !== 2) return [Math.floor(R / 2), Math.floor(C / 2)];
      const [dr, dc] = /** @type {Record<string, number[]>} */ ({ ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] })[key];
      return [Math.max(0, Math.min(R - 1, at[0] + dr)), Math.max(0, Math.min(C - 1, at[1] + dc))];
    },
    pictureLabel: "The tiles and the array; arrow keys move a cell cursor",
    mark,
    python: header.python,
    help: [
      rule,
      `A cell at row r and column c begins r + c cycles after the fold's first product and works for ${number(cost.stream)} cycles: the front is a diagonal.`,
      "Padding: a tile at the edge of the matrix may be smaller than the array; the cells beyond it do nothing useful, but the fold takes as long.",
      ...header.conventions.map((/** @type {[string, number | null, string]} */ [name, cycles, reason]) => `Counted by ${called[name] ?? "every register, as here"}: ${cycles === null ? "no count" : `${number(cycles)} cycles`}. ${reason}`),
      ...ledgerRows(cost).map(({ label, help }) => `${label[0].toUpperCase()}${label.slice(1)}: ${help[0].toLowerCase()}${help.slice(1)}`),
      "Point at a cell, or tab into the picture and use the arrow keys: the sentence below says what it does and since when.",
    ],
  };
}

export default { render: stage(open) };
