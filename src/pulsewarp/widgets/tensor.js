// One matrix product on tensor cores: which warp's mma each tensor unit works on and what lies in the stages of shared
// memory, over time; below, one mma and its elements spread over the 32 lanes. Three parts in this order: the runs and
// their words (look-ups), layout (pure), drawing and wiring (short).
//
// Letters: r counts runs from the top, e a run's mma instructions in the order of their issue, t cycles, f frames (cycles in
// which something starts or ends), u tensor units, l lanes. What happens when was decided in Python; here it is looked up.

import { comparison } from "./kit/compare.js";
import { h, s, set, write } from "./kit/dom.js";
import { legend } from "./kit/panels.js";
import { stage } from "./kit/stage.js";
import { firstCycle, tickStep } from "./kit/timeline.js";
import { capital, inColour, number } from "./kit/words.js";

/** @typedef {import("./kit/wire.js").Packed} Packed */
/** @typedef {import("./kit/wire.js").Numbers} Numbers */
/** @typedef {"a" | "b" | "c"} Letter */
/** @typedef {ReturnType<typeof readRuns>[number]} Run */
/** @typedef {ReturnType<typeof readFragments>} Fragments */
/** @typedef {ReturnType<typeof layout>} Layout */
/** @typedef {Layout["blocks"][number]} Block */
/** @typedef {{letter: Letter, lane: number, row: number, col: number, down: number, across: number}} Box cells side by side that one lane holds */

const LANES = 32;
/** @type {Letter[]} */
const LETTERS = ["a", "b", "c"];

// ---------------------------------------------------------------------------------------------- the runs

/** @param {Packed} packed */
export function readRuns({ header, columns }) {
  const heads = /** @type {{name: string, cycles: number, units: number, stages: number, deep: number}[]} */ (header.runs);
  return heads.map((head, r) => {
    /** @param {string} name @returns {Numbers} */
    const column = (name) => columns[`${name}${r}`];
    const [issue, free, lands, warp, unit, piece, after, span, slot, now, focus, sums, told] =
      ["issue", "free", "lands", "warp", "unit", "piece", "after", "span", "slot", "now", "focus", "sums", "told"].map(column);
    return { ...head, r, issue, free, lands, warp, unit, piece, after, span, slot, now, focus, sums, told, events: issue.length };
  });
}

/** Who holds what of one mma: for each matrix, lane, register and place in it of every element. @param {Packed} packed */
export function readFragments({ columns, shapes }) {
  /** @param {Letter} letter */
  const one = (letter) => {
    const [rows, cols] = shapes[`lane_${letter}`];
    return { rows, cols, lane: columns[`lane_${letter}`], register: columns[`register_${letter}`], place: columns[`place_${letter}`] };
  };
  return { a: one("a"), b: one("b"), c: one("c") };
}

/** The elements of one lane, in the order of its registers. @param {Fragments} fragments @param {Letter} letter @param {number} l */
export function heldBy(fragments, letter, l) {
  const { rows, cols, lane, register, place } = fragments[letter];
  return Array.from({ length: rows * cols }, (_, i) => i).filter((i) => lane[i] === l)
    .sort((i, j) => register[i] - register[j] || place[i] - place[j])
    .map((i) => ({ row: Math.floor(i / cols), col: i % cols, register: register[i] }));
}

/** Neighbours of one lane drawn as one box: along a row of A and C, down a column of B. @param {Fragments} fragments @returns {Box[]} */
export function boxesOf(fragments) {
  return LETTERS.flatMap((letter) => {
    const { rows, cols, lane } = fragments[letter];
    const upright = letter === "b";
    const [lines, length] = upright ? [cols, rows] : [rows, cols];
    /** @type {Box[]} */
    const found = [];
    for (let line = 0; line < lines; line++) {
      for (let i = 0; i < length; i++) {
        const [row, col] = upright ? [i, line] : [line, i];
        const l = lane[row * cols + col];
        const last = found[found.length - 1];
        if (i > 0 && last.lane === l) last[upright ? "down" : "across"] += 1;
        else found.push({ letter, lane: l, row, col, down: 1, across: 1 });
      }
    }
    return found;
  });
}

/** First row and column of the piece of a matrix that an mma takes. @param {Run} run @param {number} e @param {Letter} letter @returns {[number, number]} */
function origin(run, e, letter) {
  const [m, k, n] = run.piece.subarray(3 * e, 3 * e + 3);
  return letter === "a" ? [m, k] : letter === "b" ? [k, n] : [m, n];
}

/** @param {Run} run @param {number} e @param {number} t @returns {"to come" | "works" | "in flight" | "landed"} */
function stateOf(run, e, t) {
  if (t < run.issue[e]) return "to come";
  if (t < run.free[e]) return "works";
  return t < run.lands[e] ? "in flight" : "landed";
}

/**
 * An element of the product as it is in a frame: of A and B as given, of C what has been summed, null for nothing yet.
 * @param {Packed} packed @param {Run} run @param {number} f @param {Letter} letter @param {number} row @param {number} col
 */
function valueAt({ header, columns }, run, f, letter, row, col) {
  const [m, k, n] = header.shape;
  if (letter !== "c") return letter === "a" ? columns.a[row * k + col] : columns.b[row * n + col];
  const [high, wide] = header.piece;
  const pieces = (m / high) * (n / wide);
  const p = Math.floor(row / high) * (n / wide) + Math.floor(col / wide);
  const e = run.sums[f * pieces + p];
  return e < 0 ? null : run.after[(e * high + (row % high)) * wide + (col % wide)];
}

// ---------------------------------------------------------------------------------------------- words

/** A value in at most so many letters, rounded where it must be; the panel beside has all of it. @param {number | null} value @param {number} letters @returns {string} */
export function figure(value, letters) {
  if (value === null) return "";
  const rounded = [4, 3, 2, 1].map((digits) => String(Number(value.toPrecision(digits))).replace(/^(-?)0\./, "$1."));
  const power = value.toExponential(0).replace("e+", "e");
  return ([Number.isInteger(value) ? String(value) : rounded[0], ...rounded, power].find((each) => each.length <= letters) ?? "…").replace("-", "−");
}

/** Minus as a sign, not a hyphen. @param {number | null} value */
const exact = (value) => (value === null ? "nothing yet" : String(Number(value.toPrecision(7))).replace("-", "−"));

/** @param {Letter} letter @param {number} row @param {number} col */
const elementName = (letter, row, col) => `${letter.toUpperCase()}[${row},${col}]`;

/** The piece of a matrix an mma takes, such as A[0–15, 16–31]. @param {Run} run @param {number} e @param {Letter} letter @param {Fragments} fragments */
function pieceName(run, e, letter, fragments) {
  const [row, col] = origin(run, e, letter);
  const { rows, cols } = fragments[letter];
  return `${letter.toUpperCase()}[${row}–${row + rows - 1}, ${col}–${col + cols - 1}]`;
}

/** One mma in words: which piece of the product, and where in time it stands. @param {Run} run @param {number} e @param {number} t @param {Fragments} fragments */
export function describeMma(run, e, t, fragments) {
  const [a, b, c] = LETTERS.map((letter) => pieceName(run, e, letter, fragments));
  const [issue, free, lands] = [run.issue[e], run.free[e], run.lands[e]].map(number);
  const when = {
    "to come": `it issues in cycle ${issue}`,
    works: `issued in cycle ${issue}, it keeps the unit until ${free}, and its sums are there from ${lands}`,
    "in flight": `issued in cycle ${issue}; the unit is free since ${free}, the sums are there from ${lands}`,
    landed: `issued in cycle ${issue}, its sums are there since ${lands}`,
  }[stateOf(run, e, t)];
  return `mma ${e + 1} of ${run.events}, by w${run.warp[e]} on tensor unit ${run.unit[e]}, adds ${a} × ${b} to ${c}: ${when}.`;
}

/** One lane's part of an mma in words. @param {Packed} packed @param {Run} run @param {number} e @param {number} f @param {number} l @param {Fragments} fragments */
export function describeLane(packed, run, e, f, l, fragments) {
  const [a, b, c] = LETTERS.map((letter) => heldBy(fragments, letter, l));
  const [row, col] = origin(run, e, "c");
  const names = c.map((cell) => elementName("c", row + cell.row, col + cell.col));
  const sums = c.map((cell) => exact(valueAt(packed, run, f, "c", row + cell.row, col + cell.col)));
  const said = sums.every((text) => text === "nothing yet") ? "no sums yet" : `now ${sums.join(", ")}`;
  return `Lane ${l} brings ${a.length} elements of A and ${b.length} of B, and keeps ${names.slice(0, -1).join(", ")} and ${names[names.length - 1]}: ${said}.`;
}

/** What a tensor unit does, for the table. @param {Run} run @param {number} f @param {number} u @param {Fragments} fragments */
function unitWords(run, f, u, fragments) {
  const e = run.now[f * run.units + u];
  return e < 0 ? "idle" : `mma ${e + 1} of w${run.warp[e]}, ${pieceName(run, e, "c", fragments)}, until ${number(run.free[e])}`;
}

/** What a stage holds, for the table. @param {Run} run @param {number} t @param {number} which @param {string[]} states */
function stageWords(run, t, which, states) {
  const held = stagesAt(run, t).find((one) => one.stage === which);
  return held ? `k ${held.k}–${held.k + run.deep - 1}, ${states[held.state]}, until ${number(held.until)}` : "free";
}

/** A stage's name and state beside its row. @param {Run} run @param {string} name @param {number} t @param {number} which @param {string[]} states @param {boolean} narrow */
function stageLabel(run, name, t, which, states, narrow) {
  const held = stagesAt(run, t).find((one) => one.stage === which);
  return `${narrow ? name.replace("stage ", "s") : name}: ${held ? states[held.state] : "free"}`;
}

/** What the stages hold at a cycle. @param {Run} run @param {number} t @returns {{stage: number, state: number, from: number, until: number, k: number}[]} */
function stagesAt(run, t) {
  const found = [];
  for (let i = 0; i < run.span.length; i += 5) {
    const [which, state, from, until, k] = run.span.subarray(i, i + 5);
    if (from <= t && t < until) found.push({ stage: which, state, from, until, k });
  }
  return found;
}

/** Whether some of these values are rounded to be written in so many letters. @param {Numbers} values @param {number} letters */
const rounds = (values, letters) => Array.prototype.some.call(values, (x) => Number(figure(x, letters).replace("−", "-")) !== x);

// ---------------------------------------------------------------------------------------------- layout

const ROOMY = 20; // an element so wide shows its value
const CLOSE = 15.4; // one narrower has no room for the number of its lane
const STRETCH = 1.5; // sums are longer than operands
const LETTER = 6.65; // a monospace letter of 11 px

/**
 * Where everything lies, in CSS pixels: the runs over time, one below the other, and the three fragments of one mma.
 * @param {{units: number, stages: number, cycles: number}[]} runs
 * @param {number} shortest time in which a unit is taken by an mma, in cycles
 * @param {Fragments} fragments @param {number} width
 */
export function layout(runs, shortest, fragments, width) {
  const narrow = width < 560;
  const label = narrow ? 82 : 136;
  const plot = Math.max(60, width - label - 2);
  const cycles = Math.max(...runs.map((run) => run.cycles));
  const least = (narrow ? 18 : 24) / Math.min(24, Math.max(4, shortest));
  const scale = Math.max(plot / cycles, Math.min(least, 3));
  const lane = runs.length > 1 || narrow ? 17 : 20;
  let y = 20;
  const blocks = runs.map((run) => {
    const top = y + (runs.length > 1 ? 20 : 2);
    const units = Array.from({ length: run.units }, (_, u) => top + u * (lane + 3));
    const memory = top + run.units * (lane + 3) + 6;
    const stages = Array.from({ length: run.stages }, (_, i) => memory + i * (lane + 3));
    const bottom = memory + run.stages * (lane + 3) - 3;
    y = bottom + 6;
    return { title: top - 7, top, units, stages, bottom };
  });
  return {
    width, narrow, label, plot, scale, lane, blocks, cycles, span: Math.min(cycles, plot / scale),
    axis: y + 2, height: y + 20, fragment: fragmentLayout(fragments, width),
  };
}

/** The three fragments: side by side, on a narrow screen B and C below A. @param {Fragments} fragments @param {number} width */
function fragmentLayout({ a, b, c }, width) {
  const lanes = (width - 102) / (a.cols + b.cols + c.cols); // of an element beside each other, gutters and gaps off
  const sideways = (width - 102) / (a.cols + b.cols + STRETCH * c.cols);
  const values = sideways >= ROOMY;
  const stacked = lanes < CLOSE;
  const stretch = values ? STRETCH : 1;
  const gutter = stacked ? 20 : 24;
  const gap = stacked ? 8 : 14;
  const [first, cell] = stacked ? [(width - 22) / a.cols, (width - 50) / (b.cols + c.cols)].map((size) => Math.min(30, size))
    : values ? [sideways, sideways] : [lanes, lanes];
  const high = values ? 26 : 17;
  const head = 34; // a name, and the numbers of columns
  const below = stacked ? head + a.rows * high + 10 : 0;
  const right = gutter + (stacked ? 0 : a.cols * first + gap + gutter);
  return {
    values, high, gutter, letters: Math.floor((cell - 4) / LETTER), sums: Math.floor((stretch * cell - 4) / LETTER),
    a: { x: gutter, y: head, wide: first },
    b: { x: right, y: below + head, wide: cell },
    c: { x: right + b.cols * cell + gap + gutter, y: below + head, wide: stretch * cell },
    height: below + head + Math.max(stacked ? 0 : a.rows, b.rows, c.rows) * high + 2,
  };
}

// ------------------------------------------------------------------------------------------------ draw

/** @param {number} x @param {number} y @param {number} wide @param {number} high @param {string} kind class of the mark */
const bar = (x, y, wide, high, kind) =>
  s("rect", { x: x.toFixed(2), y, width: Math.max(1, wide).toFixed(2), height: high, class: `tc-bar tc-${kind}` });

/** A stage's time in one state: A above, B below. @param {number} x @param {number} y @param {number} wide @param {number} high @param {string} state */
function stageMark(x, y, wide, high, state) {
  const half = high / 2;
  return s("g", { class: `tc-stage tc-${state.replaceAll(" ", "-")}` }, bar(x, y, wide, half, "half-a"), bar(x, y + half, wide, half, "half-b"), bar(x, y, wide, high, "edge"));
}

/** @param {string | number} text @param {number} x @param {number} y @param {string} kind */
const label = (text, x, y, kind) => s("text", { x: x.toFixed(1), y, class: kind }, text);

const SLOT = 5; // above the bars of a unit: its scheduler's issue slots

/** Everything of one run that time moves through, in cycles from 0. @param {Layout} at @param {Run} run @param {string[]} states @returns {Element[]} */
function history(at, run, states) {
  const { units, stages } = at.blocks[run.r];
  const high = at.lane - SLOT;
  /** @type {Element[]} */
  const marks = [];
  const x = (/** @type {number} */ t) => t * at.scale;
  for (let e = 0; e < run.events; e++) {
    const y = units[run.unit[e]] + SLOT;
    const wide = x(run.free[e] - run.issue[e]) - 1;
    const mark = bar(x(run.issue[e]), y, wide, high, "mma");
    set(mark, { "data-run": run.r, "data-event": e });
    const name = `w${run.warp[e]}`;
    marks.push(s("path", { class: "tc-tail", d: `M${x(run.free[e]).toFixed(2)} ${y + high - 1}H${x(run.lands[e]).toFixed(2)}v-4` }), mark);
    if (name.length * 6.8 + 2 <= wide) marks.push(label(name, x(run.issue[e]) + wide / 2, y + high / 2 + 4, "tc-on"));
  }
  for (let i = 0; i < run.span.length; i += 5) {
    const [which, state, from, until, k] = run.span.subarray(i, i + 5);
    const wide = x(until - from) - 1;
    const name = [`k ${k}–${k + run.deep - 1}`, `k ${k}`, `${k}`].find((text) => text.length * 6.8 + 6 <= wide);
    marks.push(stageMark(x(from), stages[which], wide, at.lane, states[state]));
    if (name) marks.push(label(name, x(from) + wide / 2, stages[which] + at.lane / 2 + 4, "tc-on"));
  }
  return [...marks, ...slots(at, run)];
}

/** Issue slots of every scheduler: one stroke for an mma, another for what else was issued. @param {Layout} at @param {Run} run @returns {Element[]} */
function slots(at, run) {
  const paths = ["", "", ""];
  for (let i = 0; i < run.slot.length; i += 3) {
    const [t, u, kind] = run.slot.subarray(i, i + 3);
    paths[kind] += `M${((t + 0.5) * at.scale).toFixed(2)} ${at.blocks[run.r].units[u]}v${SLOT - 1}`;
  }
  const stroke = Math.max(1, Math.min(3, at.scale - 1)).toFixed(1);
  return [1, 2].map((kind) => s("path", { class: `tc-slot tc-slot-${kind}`, d: paths[kind], "stroke-width": stroke }));
}

/**
 * The three fragments of one mma, made once for a width; `show` writes values and says whose they are.
 * @param {Layout} at @param {Fragments} fragments @param {Box[]} boxes @param {Record<Letter, boolean>} written whether there is room for values
 */
function fragmentPicture(at, fragments, boxes, written) {
  const { high, values, sums, letters, ...place } = at.fragment;
  const made = boxes.map((box) => {
    const { x, y, wide } = place[box.letter];
    const [left, top] = [x + box.col * wide, y + box.row * high];
    const [w, tall] = [box.across * wide, box.down * high];
    const lane = label(box.lane, left + w / 2, written[box.letter] ? top + 10.5 : top + tall / 2 + 4, "tc-lane");
    const texts = written[box.letter] ? Array.from({ length: box.down * box.across }, (_, i) =>
      label("", box.down > 1 ? left + w / 2 : left + (i + 0.5) * wide, top + 22.5 + (box.down > 1 ? 2 + i * 14 : 0), "tc-value")) : [];
    const el = s("g", { class: `tc-box tc-box-${box.letter}${(box.col / box.across + box.row / box.down) % 2 ? " tc-odd" : ""}`, "data-lane": box.lane },
      s("rect", { x: (left + 0.5).toFixed(2), y: top + 0.5, width: (w - 1).toFixed(2), height: tall - 1 }), lane, ...texts);
    return { box, el, texts };
  });
  const every = (/** @type {number} */ size) => (size < 20 ? 4 : size < 26 ? 2 : 1);
  const heads = LETTERS.map((letter) => {
    const { x, y, wide } = place[letter];
    const { rows, cols } = fragments[letter];
    const title = label("", x, y - 20, `tc-title tc-title-${letter}`);
    const across = Array.from({ length: cols }, (_, c) => ({ at: c, el: label("", x + (c + 0.5) * wide, y - 5, "tc-index") }));
    const down = Array.from({ length: rows }, (_, r) => ({ at: r, el: s("text", { x: x - 4, y: y + (r + 0.5) * high + 4, class: "tc-index tc-index-down" }) }));
    return { letter, title, across: across.filter(({ at: c }) => c % every(wide) === 0), down: down.filter(({ at: r }) => r % (values ? 1 : 2) === 0) };
  });
  return {
    els: [...heads.flatMap(({ title, across, down }) => [title, ...across.map(({ el }) => el), ...down.map(({ el }) => el)]), ...made.map(({ el }) => el)],
    /**
     * @param {(letter: Letter) => [number, number]} first row and column of a fragment in its matrix
     * @param {(letter: Letter) => string} named @param {number} l the lane that stands out
     * @param {(letter: Letter, row: number, col: number) => number | null} value of an element of the product
     */
    show(first, named, l, value) {
      for (const { letter, title, across, down } of heads) {
        const [row, col] = first(letter);
        write(title, named(letter));
        for (const { at: c, el } of across) write(el, col + c);
        for (const { at: r, el } of down) write(el, row + r);
      }
      for (const { box, el, texts } of made) {
        const [row, col] = first(box.letter);
        set(el, { "data-chosen": box.lane === l ? "" : null });
        texts.forEach((text, i) => {
          const x = value(box.letter, row + box.row + Math.floor(i / box.across), col + box.col + (i % box.across));
          write(text, figure(x, box.letter === "c" ? sums : letters));
        });
      }
      if (made.length) made.filter(({ box }) => box.lane === l).forEach(({ el }) => el.parentNode?.append(el)); // its outline lies above its neighbours'
    },
  };
}

/** Frame the mma a unit works on, or the one chosen. @param {Element} mark @param {Layout} at @param {Run} run @param {number} e -1: none @param {boolean} picked */
function outline(mark, at, run, e, picked) {
  if (e < 0) return set(mark, { class: "tc-none", "data-now": -1 });
  return set(mark, {
    class: picked ? "tc-active tc-picked" : "tc-active", x: (run.issue[e] * at.scale - (picked ? 2.5 : 0)).toFixed(2),
    y: at.blocks[run.r].units[run.unit[e]] + SLOT - (picked ? 3 : 0), "data-now": e,
    width: Math.max(2, (run.free[e] - run.issue[e]) * at.scale - 1 + (picked ? 5 : 0)).toFixed(2), height: at.lane - SLOT + (picked ? 6 : 0),
  });
}

/** The axis below, drawn anew when the window moves. @param {Element} into @param {Layout} at @param {number} first */
function axis(into, at, first) {
  const known = `${first} ${at.width}`;
  if (into.getAttribute("data-first") === known) return;
  set(into, { "data-first": known });
  const step = tickStep(at.scale, at.narrow ? 56 : 70);
  const marks = [];
  for (let tick = Math.ceil(first / step) * step; tick <= first + at.span; tick += step) {
    const x = at.label + (tick - first + 0.5) * at.scale;
    const anchor = x > at.width - 24 ? "end" : x < at.label + 20 ? "start" : "middle";
    marks.push(s("path", { class: "tc-tickline", d: `${at.blocks.map(({ top, bottom }) => `M${x.toFixed(1)} ${top - 2}V${bottom + 2}`).join("")}M${x.toFixed(1)} ${at.axis - 4}V${at.axis}` }),
      s("text", { x: Math.min(x, at.width - 1).toFixed(1), y: at.axis + 13, class: "tc-tick", "text-anchor": anchor }, number(tick)));
  }
  into.replaceChildren(...marks);
}

// ---------------------------------------------------------------------------------------------- panels

/** A, B and C with the block's tile, the pieces in the tensor units, and C as it fills. @param {Packed} packed @param {Run[]} runs */
function productPanel({ header }, runs) {
  const [m, k, n] = header.shape;
  const [high, wide, deep] = header.piece;
  const now = h("b", { class: "pw-now" });
  // C is what fills: it has room, and k is drawn to a scale of its own.
  const size = Math.min(8, 100 / Math.max(m, n));
  const along = Math.min(size, 116 / k);
  const gap = 12;
  const [left, top] = [18, 16];
  const [x0, y0] = [left + k * along + gap, top + k * along + gap];
  const at = { a: [left, y0, k, m], b: [x0, top, n, k], c: [x0, y0, n, m] };
  /** Pixels of a row and of a column. @param {Letter} letter */
  const pitch = (letter) => [letter === "b" ? along : size, letter === "a" ? along : size];
  /** @param {Letter} letter @param {number} row @param {number} col @param {number} down @param {number} across */
  const box = (letter, row, col, down, across) => {
    const [high1, wide1] = pitch(letter);
    return {
      x: (at[letter][0] + col * wide1).toFixed(2), y: (at[letter][1] + row * high1).toFixed(2), width: (across * wide1).toFixed(2), height: (down * high1).toFixed(2),
    };
  };
  const shapes = { a: [high, deep], b: [deep, wide], c: [high, wide] };
  const frames = LETTERS.map((letter) => s("rect", { ...box(letter, 0, 0, at[letter][3], at[letter][2]), class: `tc-matrix tc-matrix-${letter}` }));
  const grid = LETTERS.map((letter) => {
    const [x, y, across, down] = at[letter];
    const [r, c] = shapes[letter];
    const [high1, wide1] = pitch(letter);
    const lines = [...Array.from({ length: down / r - 1 }, (_, i) => `M${x} ${(y + (i + 1) * r * high1).toFixed(2)}h${(across * wide1).toFixed(2)}`),
      ...Array.from({ length: across / c - 1 }, (_, i) => `M${(x + (i + 1) * c * wide1).toFixed(2)} ${y}v${(down * high1).toFixed(2)}`)];
    return s("path", { class: "tc-cut", d: lines.join("") });
  });
  const names = LETTERS.map((letter) => s("text", { class: `tc-title tc-title-${letter}`, x: letter === "a" ? at.a[0] - 14 : at[letter][0], y: letter === "a" ? at.a[1] + 12 : letter === "b" ? at.b[1] - 4 : at.c[1] + m * size + 14 }, letter.toUpperCase()));
  const fills = Array.from({ length: (m / high) * (n / wide) }, () => s("rect", { class: "tc-sum" }));
  const strips = LETTERS.slice(0, 2).map((letter) => s("rect", { class: `tc-strip tc-strip-${letter}` }));
  const others = Array.from({ length: Math.max(...runs.map((run) => run.units)) }, () => LETTERS.map(() => s("rect", { class: "tc-busy" })));
  const chosen = LETTERS.map((letter) => s("rect", { class: `tc-piece tc-piece-${letter}` }));
  const svg = s("svg", { width: Math.ceil(at.c[0] + n * size + 2), height: Math.ceil(at.c[1] + m * size + 18), "aria-hidden": "true" },
    ...frames, ...strips, ...fills, ...grid, ...others.flat(), ...chosen, ...names);
  const key = h("p", { class: "pw-note" }, "Filled: what lies in shared memory, and of C what is summed. Thin frames: at work in a tensor unit; thick: the mma shown by lane.");
  const el = h("section", { class: "pw-panel tc-product" }, h("header", {}, h("h4", {}, "the product"), now), svg, key);
  return {
    el,
    /** @param {Run} run @param {number} e @param {number} f @param {number} t */
    show(run, e, f, t) {
      let complete = 0;
      fills.forEach((fill, p) => {
        const last = run.sums[f * fills.length + p];
        const share = last < 0 ? 0 : (run.piece[3 * last + 1] + deep) / k;
        if (share === 1) complete += 1;
        const across = n / wide;
        set(fill, { ...box("c", Math.floor(p / across) * high + high * (1 - share), (p % across) * wide, high * share, wide), class: share === 1 ? "tc-sum tc-complete" : "tc-sum" });
      });
      const tiles = stagesAt(run, t);
      /** @param {Element} mark @param {Letter} letter @param {number} one */
      const frame = (mark, letter, one) => {
        const [row, col] = origin(run, one, letter);
        set(mark, box(letter, row, col, shapes[letter][0], shapes[letter][1]));
      };
      strips.forEach((strip, i) => {
        const held = tiles.filter(({ state }) => ["landed", "ready", "in use"].includes(header.states[state])).map((tile) => tile.k);
        const [from, until] = held.length ? [Math.min(...held), Math.max(...held) + run.deep] : [0, 0];
        set(strip, i ? box("b", from, 0, until - from, n) : box("a", 0, from, m, until - from));
      });
      others.forEach((marks, u) => {
        const busy = u < run.units ? run.now[f * run.units + u] : -1;
        marks.forEach((mark, i) => {
          set(mark, { visibility: busy < 0 ? "hidden" : null });
          if (busy >= 0) frame(mark, LETTERS[i], busy);
        });
      });
      chosen.forEach((mark, i) => frame(mark, LETTERS[i], e));
      write(now, `${complete} of ${fills.length} pieces of C complete`);
      set(el, { "data-complete": complete });
    },
  };
}

/** The elements in one register, which follow each other along k: one by its name, more as a range. @param {Letter} letter @param {number[][]} cells */
function registerName(letter, cells) {
  const [[row, col], [lastRow, lastCol]] = [cells[0], cells[cells.length - 1]];
  return `${letter.toUpperCase()}[${row === lastRow ? row : `${row}–${lastRow}`},${col === lastCol ? col : `${col}–${lastCol}`}]`;
}

const HELD = 8; // letters of a value that shares its register: two of them fit a panel

/** What one lane holds, register by register. @param {Fragments} fragments */
function registersPanel(fragments) {
  const title = h("h4", {});
  const bodies = LETTERS.map((letter) => {
    const registers = new Set(heldBy(fragments, letter, 0).map((cell) => cell.register));
    return { letter, rows: [...registers].map((register) => ({ register, name: h("td", {}), values: h("td", { class: "tc-held" }) })) };
  });
  const table = h("table", { class: "tc-registers" },
    h("thead", {}, h("tr", {}, ...["register", "elements", "values"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, ...bodies.flatMap(({ letter, rows }) => rows.map(({ register, name, values }) =>
      h("tr", { class: `tc-of-${letter}` }, h("th", { scope: "row" }, `${letter.toUpperCase()} ${register}`), name, values)))));
  const el = h("section", { class: "pw-panel" }, h("header", {}, title), table);
  return {
    el,
    /**
     * @param {number} l @param {number} w @param {(letter: Letter) => [number, number]} first
     * @param {(letter: Letter, row: number, col: number) => number | null} value
     */
    show(l, w, first, value) {
      write(title, `lane ${l} of w${w}, register by register`);
      for (const { letter, rows } of bodies) {
        const [row, col] = first(letter);
        for (const { register, name, values } of rows) {
          const cells = heldBy(fragments, letter, l).filter((cell) => cell.register === register);
          write(name, registerName(letter, cells.map((cell) => [row + cell.row, col + cell.col])));
          write(values, cells.map((cell) => value(letter, row + cell.row, col + cell.col)).map((x) => (x === null ? "–" : cells.length > 1 ? figure(x, HELD) : exact(x))).join(" "));
        }
      }
      set(el, { "data-lane": l });
    },
  };
}

/** Marks of the legend: the same shapes as in the picture. @param {string[]} states of a stage */
function legendMarks(states) {
  /** @param {...Element} marks */
  const swatch = (...marks) => s("svg", { class: "tc", width: 26, height: 18, "aria-hidden": "true" }, ...marks);
  return [
    { mark: swatch(bar(1, 4, 22, 13, "mma"), label("w0", 12, 14.5, "tc-on")), text: "an mma of warp 0 keeps the tensor unit" },
    { mark: swatch(s("path", { class: "tc-tail", d: "M1 14H23v-5" })), text: "until its sums are there" },
    { mark: swatch(s("path", { class: "tc-slot tc-slot-1", d: "M8 5v9", "stroke-width": 2.5 }), s("path", { class: "tc-slot tc-slot-2", d: "M17 5v9", "stroke-width": 2.5 })), text: "issue slot: an mma, another instruction" },
    ...states.filter((state) => state !== "free").map((state) => ({ mark: swatch(stageMark(1, 1, 23, 16, state)), text: `stage: ${STATE_WORDS[state] ?? state}` })),
  ];
}

/** @type {Record<string, string>} */
const STATE_WORDS = { filling: "copy on its way", landed: "landed, warps not yet let in", ready: "ready", "in use": "being read" };

/** The score of every variant, row by row as Python wrote it. @param {Packed} packed @param {boolean} hidden its end is kept from the reader */
function counters({ header, columns }, hidden) {
  const rows = /** @type {{label: string, help: string, digits?: number}[]} */ (header.tally);
  const soFar = rows.map(({ label: name, help, digits = 0 }, i) => ({
    label: name, help,
    text: (/** @type {number} */ v, /** @type {number} */ f) =>
      columns[`tally${v}`][f * rows.length + i].toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits }),
  }));
  const whole = { label: "cycles, whole run", help: "From its first instruction until C is written.", text: (/** @type {number} */ v) => number(header.lengths[v]) };
  return hidden ? soFar : [...soFar, whole];
}

// ---------------------------------------------------------------------------------------------- render

export default {
  render: stage((packed, options) => {
    const { header, columns } = packed;
    const runs = readRuns(packed);
    const fragments = readFragments(packed);
    const boxes = boxesOf(fragments);
    const { time } = columns;
    const states = /** @type {string[]} */ (header.states);
    const hidden = options.future === "hidden";
    const several = runs.length > 1;

    /** Lane, run and mma that a frame is about: those picked, else lane 0 and what the first run's first tensor unit does. @param {number} f @param {number[]} place */
    const chosen = (f, [l = 0, r = 0, e = -1]) => {
      const run = runs[r] ?? runs[0];
      return { l: Math.min(l, LANES - 1), run, e: e >= 0 && e < run.events ? e : run.focus[f] };
    };
    /** @param {number} f @returns {string[]} */
    const told = (f) => runs.flatMap((run) => {
      const count = run.told.length / header.frames;
      const words = Array.from(run.told.subarray(count * f, count * (f + 1)), (i) => header.sentences[i]).filter(Boolean);
      return several ? [`${capital(run.name)}: ${words.join(" ")}`] : words;
    });

    return {
      title: header.title,
      rule: header.rule,
      simplified: header.simplified,
      given: header.given,
      cycles: header.frames,
      unit: "event",
      chapters: header.chapters,
      stills: header.stills,
      python: header.python,
      help: header.help,
      pictureLabel: "Tensor units and shared memory over time, and the fragments of one mma; arrow keys choose a lane",
      phase: (f) => `${header.chapters.filter((/** @type {{cycle: number}} */ { cycle }) => cycle <= f).at(-1)?.label ?? ""}, cycle ${number(time[f])}`,
      caption(f, selected) {
        const { l, run, e } = chosen(f, selected);
        return [...told(f), `${capital(describeMma(run, e, time[f], fragments))} ${describeLane(packed, run, e, f, l, fragments)}`];
      },
      mark: inColour,
      table(f, selected) {
        const { run, e } = chosen(f, selected);
        const t = time[f];
        /** @param {Letter} letter @param {number} l */
        const cells = (letter, l) => {
          const [row, col] = origin(run, e, letter);
          return heldBy(fragments, letter, l).map((cell) => {
            const value = valueAt(packed, run, f, letter, row + cell.row, col + cell.col);
            return `${elementName(letter, row + cell.row, col + cell.col)} = ${value === null ? "–" : exact(value)}`;
          }).join(", ");
        };
        return {
          caption: `Cycle ${number(t)}: ${describeMma(run, e, t, fragments)}`,
          head: ["where", "now, or elements of A", "elements of B", "elements of C"],
          rows: [
            ...runs.flatMap((one) => Array.from({ length: one.units }, (_, u) => [`${several ? `${one.name}, ` : ""}tensor unit ${u}`, unitWords(one, f, u, fragments), "", ""])),
            ...runs.flatMap((one) => Array.from({ length: one.stages }, (_, i) => [`${several ? `${one.name}, ` : ""}${header.stages[one.r][i]}`, stageWords(one, t, i, states), "", ""])),
            ...Array.from({ length: LANES }, (_, l) => [`lane ${l}`, cells("a", l), cells("b", l), cells("c", l)]),
          ],
        };
      },
      move(selected, key) {
        const [l = 0, ...rest] = selected;
        const next = l + ({ ArrowLeft: -1, ArrowRight: 1, ArrowUp: -4, ArrowDown: 4 }[key] ?? 0);
        return next < 0 || next >= LANES ? null : [next, ...rest];
      },
      mount({ signal, still, prefix, select, point }) {
        const clip = `${prefix}-plot`;
        const edge = s("rect", {});
        const moving = s("g", {});
        const future = s("rect", { class: hidden ? "tc-future tc-hidden" : "tc-future" });
        const over = s("g", {}); // what is under way stands out of the dimmed part
        const fixed = s("g", {});
        const ticks = s("g", {});
        const line = s("path", { class: "tc-present-line" });
        const nowText = s("text", { class: "tc-present-text", "text-anchor": "middle" });
        const timeline = s("svg", { class: "tc tc-time", "aria-hidden": "true" }, s("defs", {}, s("clipPath", { id: clip }, edge)),
          s("g", { "clip-path": `url(#${clip})` }, moving, future, over), ticks, fixed, line, nowText);
        const spread = s("svg", { class: "tc tc-fragments", "aria-hidden": "true" });
        const heading = h("p", { class: "tc-said" });
        const bill = comparison({ title: "score so far", names: header.score, rows: counters(packed, hidden) });
        const product = productPanel(packed, runs);
        const registers = registersPanel(fragments);
        /** @type {Layout} */
        let at;
        /** @type {ReturnType<typeof fragmentPicture>} */
        let fragment;
        /** @type {Element[]} */
        let active = [];
        /** @type {Element[]} */
        let words = [];
        /** @type {number[]} */
        let picked = [];
        let short = false;

        /** @param {Event} event @returns {number[] | null} */
        const under = ({ target }) => {
          if (!(target instanceof Element)) return null;
          const mma = target.closest("[data-event]");
          if (mma) return [picked[0] ?? 0, Number(mma.getAttribute("data-run")), Number(mma.getAttribute("data-event"))];
          const box = target.closest("[data-lane]");
          return box ? [Number(box.getAttribute("data-lane")), ...picked.slice(1)] : null;
        };
        for (const svg of [timeline, spread]) {
          svg.addEventListener("pointermove", (event) => point(under(event)), { signal });
          svg.addEventListener("pointerleave", () => point(null), { signal });
          svg.addEventListener("click", (event) => {
            const place = under(event);
            if (place) select((picked = place));
          }, { signal });
        }

        return {
          el: h("div", { class: "tc-picture" }, timeline, still ? null : heading, still ? null : spread),
          legend: legend(legendMarks(states)),
          panels: [product.el, registers.el, bill.el],
          snug: true,
          resize(wide) {
            at = layout(runs, header.shortest, fragments, wide);
            set(timeline, { width: wide, height: at.height, viewBox: `0 0 ${wide} ${at.height}` });
            set(edge, { x: at.label, y: 0, width: at.plot + 2, height: at.height });
            set(future, { y: at.blocks[0].top - 2, height: at.axis - at.blocks[0].top });
            moving.replaceChildren(...runs.flatMap((run) => history(at, run, states)));
            active = runs.flatMap((run) => Array.from({ length: run.units + 1 }, () => s("rect", { class: "tc-active" })));
            over.replaceChildren(...active);
            words = [];
            fixed.replaceChildren(...runs.flatMap((run) => {
              const { title, units, stages } = at.blocks[run.r];
              const size = at.narrow ? 11 : 13;
              const name = (/** @type {string} */ text, /** @type {number} */ y) => s("text", { x: 0, y: y + at.lane / 2 + 4, class: "tc-lane-name", "font-size": size }, text);
              const mine = stages.map((y) => name("", y));
              words.push(...mine);
              return [...(several ? [label(run.name, 0, title, "tc-run")] : []), ...units.map((y, u) => name(`tensor unit ${u}`, y)), ...mine];
            }));
            if (still) return;
            set(spread, { width: wide, height: at.fragment.height, viewBox: `0 0 ${wide} ${at.fragment.height}` });
            const { values, letters, sums } = at.fragment;
            const [a, b] = [columns.a, columns.b].map((all) => values && !rounds(all, letters));
            fragment = fragmentPicture(at, fragments, boxes, { a, b, c: values });
            spread.replaceChildren(...fragment.els);
            short = values && runs.some((run) => rounds(run.after, sums));
          },
          show({ cycle: f, selected }) {
            const t = time[f];
            const { l, run, e } = chosen(f, selected);
            const first = firstCycle({ count: at.span, cycles: at.cycles }, t);
            const x = (/** @type {number} */ cycle) => at.label + (cycle - first) * at.scale;
            const here = Math.min(x(t + 0.5), at.label + at.plot);
            for (const group of [moving, over]) set(group, { transform: `translate(${(at.label - first * at.scale).toFixed(2)} 0)` });
            set(future, { x: here.toFixed(2), width: Math.max(0, at.label + at.plot + 2 - here).toFixed(2) });
            // After the end there is no place for the present any more: only its number is told.
            const ended = t >= at.cycles;
            set(line, { d: ended ? "M0 0" : at.blocks.map(({ top, bottom }) => `M${here.toFixed(2)} ${top - 4}V${bottom + 3}`).join("") });
            const said = ended ? `cycle ${number(t)}, after the end` : `cycle ${number(t)}`;
            const room = said.length * 3.7;
            set(nowText, { x: Math.max(at.label + room, Math.min(here, at.width - room)).toFixed(1), y: 13 });
            write(nowText, said);
            axis(ticks, at, first);
            let i = 0;
            for (const one of runs) {
              const busy = Array.from({ length: one.units }, (_, u) => one.now[f * one.units + u]);
              for (const [k, mine] of [...busy, one === run && !still ? e : -1].entries()) outline(active[i++], at, one, mine, k === one.units);
            }
            runs.flatMap((one) => Array.from({ length: one.stages }, (_, which) => stageLabel(one, header.stages[one.r][which], t, which, states, at.narrow)))
              .forEach((text, k) => write(words[k], text));
            set(timeline, { "data-cycle": t, "data-event": e });
            if (still) return;
            const firstOf = (/** @type {Letter} */ letter) => origin(run, e, letter);
            const value = (/** @type {Letter} */ letter, /** @type {number} */ row, /** @type {number} */ col) => valueAt(packed, run, f, letter, row, col);
            write(heading, `One mma of w${run.warp[e]}: a box is what the lane of that number holds${short ? " (sums rounded; to 7 digits in the panel)" : ""}`);
            fragment.show(firstOf, (letter) => pieceName(run, e, letter, fragments), l, value);
            registers.show(l, run.warp[e], firstOf, value);
            product.show(run, e, f, t);
            bill.show(f);
          },
        };
      },
    };
  }),
};
