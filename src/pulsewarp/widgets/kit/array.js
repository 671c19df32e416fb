// An array and what a run of it holds: shared by every scene that shows systolic cells. Four parts in this order:
// the run (look-ups in what was recorded), words (what is at a cycle and a cell), layout (pure), drawing (pure).
//
//   const run = readRun(packed);                      one run in the wire
//   const runs = ["ws", "os"].map((name) => readRun(part(packed, name)));      several, packed by `pack_runs`
//   const array = makeArray(run, { prefix, still, wrong });
//   el: array.svg;   resize(width) { array.resize(width); }   show(frame) { array.show(frame.cycle, frame.selected); }
//
// Letters: t cycle, r array row, c array column, m n k the product's indices. Registers of a cell: `held`
// stays, `right` moves right, `down` moves down; `run.roles` says which matrix each carries.

import { h, s, set, write } from "./dom.js";
import { number } from "./words.js";

/** @typedef {"a" | "b" | "c"} Letter */
/** @typedef {"held" | "right" | "down"} Register */
/** @typedef {{held: number, right: number, down: number, shadow: number, heldIndex: number, rightIndex: number, downIndex: number, shadowIndex: number, active: boolean}} Cell `shadow`: only where folds overlap */
/** @typedef {{index: number, number: number, start: number, cycles: number, row0: number, rows: number, col0: number, cols: number}} Fold `number`: among all folds of the run, from 1 */
/** @typedef {ReturnType<typeof readRun>} Run */
/** @typedef {ReturnType<typeof layout>} Layout */
/**
 * @typedef {object} Wrong says which values are not what they should be; the picture marks them
 * @property {(t: number, r: number, c: number) => boolean} [cell] the sum in this cell after clock edge t
 * @property {(t: number, r: number, c: number, register: Register) => boolean} [register] one register of it
 * @property {(m: number, n: number) => boolean} [result] this element of C as it left
 */

export const REGISTERS = /** @type {Register[]} */ (["held", "right", "down"]);
/** Rows and columns of the window of values on an array too large to show all of them; on a phone 3. */
export const WINDOW = 5;
/** Up to this many rows and columns all values are shown. */
export const VALUES_UP_TO = 8;
/** A cell in which nothing is. @type {Cell} */
export const EMPTY = { held: 0, right: 0, down: 0, shadow: 0, heldIndex: -1, rightIndex: -1, downIndex: -1, shadowIndex: -1, active: false };

// ---------------------------------------------------------------------------------------------- the run

/**
 * One of several runs that cross in one wire (`pack_runs` in systolic.py), as if it had crossed alone.
 * @param {import("./wire.js").Packed} packed @param {string} name
 * @returns {import("./wire.js").Packed}
 */
export function part({ header, columns, shapes }, name) {
  const of = (/** @type {Record<string, any>} */ all) => Object.fromEntries(
    Object.entries(all).filter(([key]) => key.startsWith(`${name}.`)).map(([key, value]) => [key.slice(name.length + 1), value]));
  return { header: header.runs[name], columns: of(columns), shapes: of(shapes) };
}

/**
 * @param {import("./wire.js").Packed} packed
 */
export function readRun({ header, columns, shapes }) {
  const { rows: R, cols: C, cycles: T, m: M, k: K, n: N, roles, axes, accumulator } = header;
  /** @type {Fold[]} */
  const folds = header.folds.map((/** @type {number[]} */ [start, cycles, row0, rows, col0, cols], /** @type {number} */ index) =>
    ({ index, number: (header.whole?.fold ?? 0) + index + 1, start, cycles, row0, rows, col0, cols }));
  const sizes = /** @type {Record<string, number>} */ ({ m: M, k: K, n: N });
  const loads = roles.held !== "c";
  const stream = sizes[axes.stream];
  const kept = "held" in columns;

  // The accumulator's arithmetic, operation by operation: what the array did, the browser does.
  const round = /** @type {(x: number) => number} */ ({
    float32: Math.fround, int32: (/** @type {number} */ x) => x | 0,
  }[/** @type {string} */ (accumulator)] ?? ((x) => x));
  const times = accumulator === "int32" ? Math.imul : (/** @type {number} */ x, /** @type {number} */ y) => round(x * y);

  // With shadow registers folds run into each other: which one a cell works on depends on where it stands.
  const overlap = Boolean(header.overlap);
  /** The cycle in which the upper left cell takes its first pair, by fold. */
  const origins = folds.map(({ index }) => columns.start[index * R * C]);
  /** The number of the last fold whose origin is not after t, -1 for none. @param {number} t @param {number} [early] counted from so many cycles before it */
  function begun(t, early = 0) {
    let [low, high] = [0, folds.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (origins[middle] - early <= t) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }
  /** The fold under way; where they overlap, the last one whose streams have begun to enter. @param {number} t @returns {Fold} */
  const foldAt = (t) => folds[overlap ? Math.max(0, begun(t)) : Math.min(folds.length - 1, Math.floor(t / folds[0].cycles))];
  /** The fold that a cell is in, or was in last. @param {number} t @param {number} r @param {number} c @returns {Fold | null} */
  function foldIn(t, r, c) {
    if (!overlap) return foldAt(t);
    return folds[begun(t - r - c)] ?? null;
  }
  /** The fold that a cell's shadow register serves. @param {number} t @param {number} r @param {number} c @returns {Fold | null} */
  function shadowFold(t, r, c) {
    if (!overlap) return null;
    return folds[loads ? begun(t - r - c, R) : begun(t - r - c - stream)] ?? null;
  }

  /** The sum of the first `terms` products of one result, in the order of the array. @param {number} m @param {number} n @param {number} terms */
  function sum(m, n, terms) {
    let total = 0;
    for (let k = 0; k < terms; k++) total = round(total + times(round(columns.a[m * K + k]), round(columns.b[k * N + n])));
    return total;
  }

  /** @param {Letter} letter @param {number} index @returns {[number, number]} the element's row and column in its matrix */
  function element(letter, index) {
    const wide = letter === "a" ? K : N;
    return [Math.floor(index / wide), index % wide];
  }

  /** @param {Letter} letter @param {Record<string, number>} at @returns {number} */
  function flat(letter, at) {
    return letter === "a" ? at.m * K + at.k : letter === "b" ? at.k * N + at.n : at.m * N + at.n;
  }

  /**
   * The registers of one cell after clock edge t: as recorded, or looked up by the recorded schedule.
   * @param {number} t @param {number} r @param {number} c
   * @returns {Cell}
   */
  function cell(t, r, c) {
    const i = (t * R + r) * C + c;
    if (kept) {
      return {
        held: columns.held[i], right: columns.right[i], down: columns.down[i],
        heldIndex: columns.held_index[i], rightIndex: columns.right_index[i], downIndex: columns.down_index[i],
        shadow: overlap ? columns.shadow[i] : 0, shadowIndex: overlap ? columns.shadow_index[i] : -1,
        active: columns.active[i] === 1,
      };
    }
    return overlap ? overlapping(t, r, c) : lookedUp(t, r, c);
  }

  /** @param {number} t @param {number} r @param {number} c @returns {Cell} */
  function lookedUp(t, r, c) {
    const fold = foldAt(t);
    const origin = columns.start[fold.index * R * C];
    const begins = columns.start[(fold.index * R + r) * C + c];
    const step = t - origin - r - c; // a value here was at the edge r + c cycles ago
    const flows = step >= 0 && step < stream;
    const at = { [axes.row]: fold.row0 + r, [axes.col]: fold.col0 + c, [axes.stream]: step };
    const row = loads ? r + columns.sunk[t] : r - columns.sunk[t];
    const local = t - fold.start;
    let there = row >= 0 && row < fold.rows && c < fold.cols;
    if (loads) there &&= r <= local;
    else there &&= t >= columns.start[(fold.index * R + row) * C + c];
    const index = {
      held: there ? flat(roles.held, { ...at, [axes.row]: fold.row0 + row }) : -1,
      right: flows && r < fold.rows ? flat(roles.right, at) : -1,
      down: flows && c < fold.cols ? flat(roles.down, at) : -1,
    };
    /** @param {Register} register @returns {number} */
    const value = (register) => {
      const letter = roles[register];
      if (index[register] < 0) return 0;
      if (letter !== "c") return round(columns[letter][index[register]]);
      const [m, n] = element("c", index[register]);
      if (loads) return sum(m, n, fold.row0 + Math.min(r, fold.rows - 1) + 1);
      const done = t + 1 - columns.start[(fold.index * R + m - fold.row0) * C + n - fold.col0];
      return sum(m, n, Math.max(0, Math.min(K, done)));
    };
    return {
      held: value("held"), right: value("right"), down: value("down"),
      heldIndex: index.held, rightIndex: index.right, downIndex: index.down, shadow: 0, shadowIndex: -1,
      active: begins >= 0 && t >= begins && t < begins + columns.length[(fold.index * R + r) * C + c],
    };
  }

  /** The same where folds overlap. @param {number} t @param {number} r @param {number} c @returns {Cell} */
  function overlapping(t, r, c) {
    /** @param {Fold} fold @param {number} row which of its rows stands here */
    const tile = (fold, row) => (row >= 0 && row < fold.rows && c < fold.cols
      ? flat(roles.held, { [axes.row]: fold.row0 + row, [axes.col]: fold.col0 + c, [axes.stream]: 0 }) : -1);
    /** @param {Letter} letter @param {number} index @param {Fold} fold @returns {number} */
    const value = (letter, index, fold) => {
      if (index < 0) return 0;
      if (letter !== "c") return round(columns[letter][index]);
      const [m, n] = element("c", index);
      if (loads) return sum(m, n, fold.row0 + Math.min(r, fold.rows - 1) + 1);
      const done = t + 1 - columns.start[(fold.index * R + m - fold.row0) * C + n - fold.col0];
      return sum(m, n, Math.max(0, Math.min(K, done)));
    };
    const now = { ...EMPTY };
    const fold = foldIn(t, r, c);
    if (fold) {
      const step = t - origins[fold.index] - r - c;
      const flows = step < stream;
      const at = { [axes.row]: fold.row0 + r, [axes.col]: fold.col0 + c, [axes.stream]: step };
      // A tile is there until the next is taken over, a sum from its first product to its last.
      now.heldIndex = loads || flows ? tile(fold, r) : -1;
      now.rightIndex = flows && r < fold.rows ? flat(roles.right, at) : -1;
      now.downIndex = flows && c < fold.cols ? flat(roles.down, at) : -1;
      now.held = value(roles.held, now.heldIndex, fold);
      now.right = value(roles.right, now.rightIndex, fold);
      now.down = value(roles.down, now.downIndex, fold);
      const i = (fold.index * R + r) * C + c;
      now.active = columns.start[i] >= 0 && t >= columns.start[i] && t < columns.start[i] + columns.length[i];
    }
    const next = shadowFold(t, r, c);
    if (next) {
      // Loading: rows that still have to sink, then the cell's own until it is taken over. Draining: the cell's own
      // until the last sum of its column is finished, then those from above.
      const since = t - origins[next.index] - r - c + (loads ? R : -stream);
      const there = loads ? since < R : true;
      now.shadowIndex = there ? tile(next, loads ? r + Math.max(R - 1 - r - since, 0) : r - Math.max(since + r - R + 2, 0)) : -1;
      now.shadow = value(roles.held, now.shadowIndex, next);
    }
    return now;
  }

  /** Exits by cycle: which sums leave, and whether for good. @type {Map<number, {col: number, m: number, n: number, final: boolean}[]>} */
  const exits = new Map();
  for (let i = 0; i < (shapes.exits?.[0] ?? 0); i++) {
    const [t, col, m, n, final] = columns.exits.subarray(5 * i, 5 * i + 5);
    if (!exits.has(t)) exits.set(t, []);
    exits.get(t)?.push({ col, m, n, final: final === 1 });
  }

  const finals = Float64Array.from(columns.final).sort();

  /** How many elements of C have left for good by cycle t. @param {number} t */
  function gone(t) {
    let [low, high] = [0, finals.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (finals[middle] <= t) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  return {
    header, columns, R, C, T, M, K, N, roles: /** @type {Record<Register, Letter>} */ (roles), axes, folds, loads, stream, kept, sizes, exits,
    phases: /** @type {string[]} */ (header.phases),
    /** Folds of the run, of which perhaps not all are shown. */
    foldCount: /** @type {number} */ (header.whole?.folds ?? folds.length),
    foldAt, foldIn, shadowFold, overlap, origins, sum, element, cell, gone,
    large: Math.max(R, C) > VALUES_UP_TO,
    listed: "exits" in columns,
    /** @param {number} t */
    phase: (t) => /** @type {string} */ (header.phases[columns.phase[t]]),
    /** The register that carries a matrix. @param {Letter} letter */
    register: (letter) => /** @type {Register} */ (REGISTERS.find((register) => roles[register] === letter)),
    /** @param {Letter} letter @param {number} index */
    name: (letter, index) => `${letter.toUpperCase()}[${element(letter, index).join(",")}]`,
    /** The value a result had when it left in this fold. @param {number} t @param {number} m @param {number} n */
    leaving(t, m, n) {
      if (!loads) return sum(m, n, K);
      const col = exits.get(t)?.find((exit) => exit.m === m && exit.n === n)?.col ?? 0;
      const fold = foldIn(t, R - 1, col) ?? foldAt(t);
      return sum(m, n, fold.row0 + fold.rows);
    },
  };
}
// ---------------------------------------------------------------------------------------------- words

/** A number as it fits a cell. @param {number} x @returns {string} */
export function short(x) {
  if (Number.isInteger(x) && Math.abs(x) < 1e7) return String(x);
  if (Math.abs(x) >= 1e4 && Math.abs(x) < 1e7) return String(Math.round(x)); // shorter than with an exponent, and closer
  const digits = Math.abs(x) >= 1e7 || Math.abs(x) < 1e-3 ? x.toExponential(2) : x.toPrecision(Math.abs(x) < 0.1 ? 3 : 4);
  return digits.includes("e") || !digits.includes(".") ? digits : digits.replace(/\.?0+$/, "");
}

/** A number in full: the shortest text that gives it back in its own type. @param {number} x @param {string} type @returns {string} */
export function exact(x, type) {
  if (type !== "float32" || Number.isInteger(x)) return String(x);
  for (let digits = 1; digits < 10; digits++) {
    const text = x.toPrecision(digits);
    if (Math.fround(Number(text)) === x) return String(Number(text));
  }
  return String(x);
}

/**
 * What is at (cycle, cell), in words: where each value came from and where it goes. Caption, tooltip, live
 * region and table all say this.
 * @param {Run} run @param {number} t @param {number} r @param {number} c
 * @returns {string[]}
 */
export function describe(run, t, r, c) {
  const now = run.cell(t, r, c);
  const here = `Cell (${r},${c})`;
  const full = (/** @type {number} */ x) => exact(x, run.header.accumulator);
  const right = now.rightIndex >= 0 ? run.name(run.roles.right, now.rightIndex) : "";
  const held = now.heldIndex >= 0 ? run.name(run.roles.held, now.heldIndex) : "";
  const down = now.downIndex >= 0 ? run.name(run.roles.down, now.downIndex) : "";
  const fromLeft = c === 0 ? "from the left edge" : `from cell (${r},${c - 1})`;
  const fromAbove = r === 0 ? "from the top edge" : `from cell (${r - 1},${c})`;
  const toRight = c === run.C - 1 ? "leaves at the right edge" : `moves right to cell (${r},${c + 1})`;
  const toBelow = r === run.R - 1 ? "leaves at the bottom edge" : `moves down to cell (${r + 1},${c})`;

  if (now.active && run.loads) {
    const product = productAt(run, now);
    const [m, n] = run.element("c", now.downIndex);
    const { row0, rows } = run.foldIn(t, r, c) ?? run.foldAt(t);
    const earlier = run.sum(m, n, row0 + r);
    const origin = r > 0 ? `the ${full(earlier)} ${fromAbove}`
      : row0 > 0 ? `${full(earlier)}, what an earlier fold left for ${down}` : "0, because the sum begins here";
    const end = r < run.R - 1 ? toBelow : row0 + rows < run.K
      ? "leaves at the bottom edge and waits for the next fold" : `leaves at the bottom edge: ${down} is complete`;
    return [
      `${here}: ${right} = ${full(now.right)}, ${fromLeft}, meets ${held} = ${full(now.held)}, which stays. `
      + `${full(now.right)} × ${full(now.held)} = ${full(product)} is added to ${origin}: ${down} is now ${full(now.down)}.`,
      `Next, ${right} ${toRight} and the sum ${end}.`,
      ...shadowWords(run, t, r, c, now),
    ];
  }
  if (now.active) {
    const k = run.element("a", now.rightIndex)[1];
    return [
      `${here}: ${right} = ${full(now.right)}, ${fromLeft}, meets ${down} = ${full(now.down)}, ${fromAbove}. `
      + `${full(now.right)} × ${full(now.down)} = ${full(productAt(run, now))} is added to the sum that stays here: `
      + `${held} is now ${full(now.held)}, after ${k + 1} of ${run.K} products.`,
      `Next, ${right} ${toRight} and ${down} ${toBelow}.`,
      ...shadowWords(run, t, r, c, now),
    ];
  }
  return [`${here}: ${idle(run, t, r, c, now, { right, held, down, toRight, toBelow })}`, ...shadowWords(run, t, r, c, now)];
}

/**
 * What a cell's shadow register does; nothing where folds do not overlap.
 * @param {Run} run @param {number} t @param {number} r @param {number} c @param {Cell} now
 * @returns {string[]}
 */
function shadowWords(run, t, r, c, now) {
  if (!run.overlap) return [];
  const said = [];
  const held = now.heldIndex >= 0 ? run.name(run.roles.held, now.heldIndex) : "";
  const fold = run.foldIn(t, r, c);
  if (fold && fold.index > 0 && held && t === run.columns.start[(fold.index * run.R + r) * run.C + c]) {
    said.push(run.loads ? `In this cycle the cell takes ${held} over from its shadow register.`
      : `In this cycle the cell begins ${held}; what it had finished is now in its shadow register.`);
  }
  const next = run.shadowFold(t, r, c);
  if (now.shadowIndex < 0 || !next) return said;
  const name = `${run.name(run.roles.held, now.shadowIndex)} = ${exact(now.shadow, run.header.accumulator)}`;
  const letter = /** @type {Letter} */ (run.roles.held);
  const [first, second] = run.element(letter, now.shadowIndex);
  const axis = run.axes.row === (letter === "b" ? "k" : "m") ? first : second;
  const row = axis - next.row0;
  if (!run.loads) {
    said.push(row === r ? `Its shadow register holds the finished ${name} until the cells below it have finished too.`
      : `Through its shadow register ${name}, finished in row ${row}, sinks out of the array.`);
  } else if (row === r) {
    said.push(`In its shadow register ${name} waits; the cell takes it over in cycle ${run.columns.start[(next.index * run.R + r) * run.C + c]}.`);
  } else {
    said.push(`Through its shadow register ${name} sinks to row ${row}.`);
  }
  return said;
}

/** @param {Run} run @param {Cell} cell @returns {number} the product in the accumulator's type, as the cell formed it */
export function productAt(run, cell) {
  const other = run.loads ? cell.held : cell.down;
  const exactly = cell.right * other;
  return run.header.accumulator === "float32" ? Math.fround(exactly) : run.header.accumulator === "int32" ? Math.imul(cell.right, other) : exactly;
}

/**
 * A cell that does not multiply in this cycle.
 * @param {Run} run @param {number} t @param {number} r @param {number} c @param {Cell} now
 * @param {{right: string, held: string, down: string, toRight: string, toBelow: string}} words
 * @returns {string}
 */
function idle(run, t, r, c, now, words) {
  const full = (/** @type {number} */ x) => exact(x, run.header.accumulator);
  const fold = run.foldIn(t, r, c) ?? run.foldAt(t);
  if (now.rightIndex >= 0) return `${words.right} = ${full(now.right)} passes through to the right; no element of ${run.roles.held === "c" ? "B" : run.roles.held.toUpperCase()} is here to meet it.`;
  if (now.downIndex >= 0) return `${words.down} = ${full(now.down)} passes through on its way down.`;
  if (now.heldIndex >= 0 && run.loads) {
    const sinks = run.columns.sunk[t];
    if (sinks > 0) return `${words.held} = ${full(now.held)} is on its way to row ${r + sinks}; next it ${words.toBelow}.`;
    const begins = run.columns.start[(fold.index * run.R + r) * run.C + c];
    const moving = run.roles.right.toUpperCase();
    if (run.overlap) {
      const last = fold.index === run.folds.length - 1;
      return `${words.held} = ${full(now.held)} has met all its elements of ${moving}; ${last ? "its work is done" : "it stays until the next is taken over"}.`;
    }
    if (t < begins) return `${words.held} = ${full(now.held)} is in place and waits; the first element of ${moving} comes in cycle ${begins}.`;
    return `${words.held} = ${full(now.held)} has met all its elements of ${moving}; its work in this fold is done.`;
  }
  if (now.heldIndex >= 0) {
    if (run.columns.sunk[t] > 0 || t + 1 < run.T && run.columns.sunk[t + 1] > 0) return `${words.held} = ${full(now.held)} is complete; next it ${words.toBelow}.`;
    return `${words.held} = ${full(now.held)} is complete and waits to be shifted out.`;
  }
  if (r >= fold.rows || c >= fold.cols) return "empty; this fold does not reach it.";
  if (run.overlap) return t < run.origins[0] + r + c ? "empty so far." : "empty; its sum has moved on.";
  return run.loads ? "empty so far." : run.columns.sunk[t] > 0 ? "empty; its result has moved on." : "empty so far; its first pair is still on the way.";
}

export const RULES = /** @type {Record<string, string>} */ ({
  ws: "Rule: each cell keeps one element of B; A moves right, sums move down, one cell a cycle.",
  is: "Rule: each cell keeps one element of A; B moves right, sums move down, one cell a cycle.",
  os: "Rule: each cell keeps the sum of one element of C; A moves right, B moves down, one cell a cycle.",
});

/** The operands of a sentence in their colours. @param {string} sentence @returns {(Node | string)[]} */
export function mark(sentence) {
  return sentence.split(/([ABC]\[\d+,\d+\](?: = -?[\d.e+-]*\d)?)/).map((part) =>
    /^[ABC]\[/.test(part) ? h("span", { class: `sy-word sy-${part[0].toLowerCase()}` }, part) : part);
}

/**
 * The frame as a table: one row for each cell, or for each cell of the window.
 * @param {Run} run @param {number} t @param {number[]} place
 */
export function frameTable(run, t, place) {
  const { top, left, rows, cols } = windowAt(run, place);
  const full = (/** @type {number} */ x) => exact(x, run.header.accumulator);
  const head = ["cell", "state", ...REGISTERS.map((register) => `${run.roles[register].toUpperCase()}, ${
    { held: run.loads ? "held" : "stays", right: "moving right", down: "moving down" }[register]}`),
    ...(run.overlap ? [`${run.roles.held.toUpperCase()}, in the shadow`] : []), "product"];
  const lines = [];
  for (let r = top; r < top + rows; r++) {
    for (let c = left; c < left + cols; c++) {
      const cell = run.cell(t, r, c);
      const entries = REGISTERS.map((register) => {
        const index = cell[`${register}Index`];
        return index < 0 ? "–" : `${run.name(run.roles[register], index)} = ${full(cell[register])}`;
      });
      if (run.overlap) entries.push(cell.shadowIndex < 0 ? "–" : `${run.name(run.roles.held, cell.shadowIndex)} = ${full(cell.shadow)}`);
      lines.push([`(${r},${c})`, cell.active ? "multiplies" : "idle", ...entries, cell.active ? full(productAt(run, cell)) : "–"]);
    }
  }
  const part = run.large ? `, rows ${top} to ${top + rows - 1}, columns ${left} to ${left + cols - 1} (move the cell cursor for others)` : "";
  return { caption: `Registers after cycle ${t}${part}`, head, rows: lines };
}

/** The rule in one line. @param {Run} run @returns {string} */
export function ruleOf(run) {
  if (!run.overlap) return RULES[run.header.dataflow];
  return RULES[run.header.dataflow].replace(/\.$/, run.loads
    ? "; shadow registers load the next fold."
    : "; shadow registers shift finished ones out.");
}

/** Where phases begin, or where there are many, folds. @param {Run} run @returns {import("./stage.js").Chapter[]} */
export function chapters(run) {
  const marks = [];
  const byFold = run.folds.length > 3;
  if (run.overlap && run.folds.length > 1) {
    const drains = run.columns.phase.findIndex((phase) => run.phases[phase] === "drain");
    return [...(run.loads ? [{ cycle: 0, label: "load" }] : []),
      ...run.origins.map((cycle, i) => ({ cycle, label: `fold ${i + 1}` })),
      ...(drains > run.origins[run.origins.length - 1] ? [{ cycle: drains, label: "drain" }] : [])];
  }
  for (let t = 0; t < run.T; t++) {
    const fold = run.foldAt(t);
    const begins = t === fold.start;
    if (byFold) {
      if (begins) marks.push({ cycle: t, label: `fold ${fold.number}` });
    } else if (begins || run.columns.phase[t] !== run.columns.phase[t - 1]) {
      marks.push({ cycle: t, label: begins && run.foldCount > 1 ? `fold ${fold.number}: ${run.phase(t)}` : run.phase(t) });
    }
  }
  return marks;
}

// ---------------------------------------------------------------------------------------------- layout

/**
 * Which cells show values: all, or a window around the place pointed at.
 * @param {{R: number, C: number, large: boolean}} run @param {number[]} place
 * @param {number} [span]
 */
export function windowAt(run, place, span = WINDOW) {
  if (!run.large) return { top: 0, left: 0, rows: run.R, cols: run.C };
  const [r, c] = place.length === 2 ? place : [Math.floor(run.R / 2), Math.floor(run.C / 2)];
  const rows = Math.min(span, run.R);
  const cols = Math.min(span, run.C);
  const half = Math.floor(span / 2);
  const within = (/** @type {number} */ x, /** @type {number} */ most) => Math.max(0, Math.min(most, x));
  return { top: within(r - half, run.R - rows), left: within(c - half, run.C - cols), rows, cols };
}

export const MONO12 = 7.3; // width of a character of 12 px monospace, the widest of the usual faces
export const MONO11 = 6.7;

/** Widest text of each matrix. @param {Run} run @returns {Record<Letter, number>} */
export function textWidths(run) {
  /** @param {ArrayLike<number>} values */
  const widest = (values) => {
    let least = 0;
    let most = 0;
    let whole = true;
    for (let i = 0; i < values.length; i++) {
      least = Math.min(least, values[i]);
      most = Math.max(most, values[i]);
      whole &&= Number.isInteger(values[i]);
    }
    return whole ? Math.max(short(least).length, short(most).length) : 8;
  };
  const sums = run.kept ? widest(run.columns[run.register("c")]) : 8;
  return { a: widest(run.columns.a), b: widest(run.columns.b), c: Math.max(sums, run.columns.result ? widest(run.columns.result) : 1) };
}

/**
 * Where everything in the array's picture lies, for a width in px.
 * @param {Run} run @param {Record<Letter, number>} chars @param {number} width
 * @param {{still?: boolean, ahead?: number, gap?: number}} [look] `ahead`: at most so many steps of the queue are drawn;
 *   `gap`: between cells, where the arrows are
 */
export function layout(run, chars, width, { still = false, ahead = 4, gap = width < 480 ? 6 : 10 } = {}) {
  const span = width < 480 ? 3 : WINDOW;
  const { rows, cols } = windowAt(run, [], span);
  const rightChars = chars[run.roles.right];
  const other = run.loads ? "held" : "down";
  const otherChars = chars[run.roles[other]];
  const chip = Math.max(26, rightChars * MONO12 + 10);
  const most = still || run.large ? 0 : Math.min(ahead, Math.max(2, Math.min(width < 480 ? 2 : width < 620 ? 3 : 4, Math.floor(160 / (chip + 4)))));
  const label = run.large ? 30 : 0; // row numbers beside a window
  /** @param {number} slots */
  const queue = (slots) => (slots ? slots * (chip + 4) + 12 : 0);
  const more = run.overlap ? 20 : 0; // the line of the shadow register
  const behind = run.overlap ? (5 + chars[run.roles.held]) * MONO11 + 14 : 0;
  const forms = {
    full: [Math.max(86, behind, (5 + otherChars + rightChars) * MONO12 + 26, (3 + otherChars + rightChars) * MONO12 + 12, (4 + chars.c) * MONO12 + 14), 78 + more],
    stack: [Math.max(48, behind, (2 + Math.max(rightChars, otherChars, chars.c)) * MONO12 + 14), 58 + more],
    bare: [Math.max(34, (Math.max(rightChars, otherChars, chars.c) + (run.overlap ? 2 : 0)) * MONO11 + 12), 58 + more], // the stack without its letters
    compact: [Math.max(30, chars.c * MONO11 + 5), 34],
  };
  // From the most telling to the least: values matter more than how far ahead the queue is seen.
  /** @type {["full" | "stack" | "bare" | "compact", number][]} */
  const wishes = [["full", most], ["stack", most], ["stack", 2], ["stack", 1], ["bare", 2], ["bare", 1], ["bare", 0], ["compact", 2], ["compact", 1], ["compact", 0]];
  const fits = wishes.find(([form, slots]) => slots <= most && !((still || run.large) && form === "full")
    && Math.max(2, label + queue(slots)) + cols * (forms[form][0] + gap) <= width);
  const slots = fits ? fits[1] : Math.min(2, most);
  const form = fits ? fits[0] : /** @type {const} */ ("dot");
  const [cellW, cellH] = fits ? forms[fits[0]] : [Math.max(14, Math.floor((width - queue(slots) - label) / cols) - gap), 26];
  const above = run.large ? 22 : still ? 4 : (run.loads ? 2 : 3) * 24 + 26;
  const left = Math.max(2, label + queue(slots)); // room for half a line of the first cell's frame
  return {
    span, form, cellW: Math.floor(cellW), cellH, gap, rows, cols, chip, slots, left, above,
    width: left + cols * (Math.floor(cellW) + gap),
    height: above + rows * (cellH + gap) + (run.large || still ? 4 : form === "dot" || form === "compact" ? 56 : 44),
    /** @param {number} c */
    x: (c) => left + c * (Math.floor(cellW) + gap),
    /** @param {number} r */
    y: (r) => above + r * (cellH + gap),
  };
}

// ---------------------------------------------------------------------------------------------- draw

/** @param {string} text @param {Record<string, string | number>} attributes */
export const label = (text, attributes) => s("text", attributes, text);

/**
 * One cell: its frame and its texts, made once and repainted.
 * @param {Run} run @param {Layout} place @param {number} r @param {number} c @param {string} hatch
 */
export function makeCell(run, place, r, c, hatch) {
  const { form, cellW: w, cellH: hgt } = place;
  const other = /** @type {Register} */ (run.loads ? "held" : "down");
  const sum = run.register("c");
  const box = s("rect", { class: "sy-box", width: w, height: hgt, rx: 5 });
  const texture = s("rect", { class: "sy-hatch", width: w, height: hgt, rx: 5, fill: `url(#${hatch})` });
  const cross = s("path", { class: "sy-cross", d: `M${w - 4.5} -4.5l9 9m0 -9l-9 9` }); // on the corner: beside the values at any width
  const cursor = s("rect", { class: "sy-cursor", x: -4, y: -4, width: w + 8, height: hgt + 8, rx: 7 });
  const pin = s("rect", { class: "sy-pin", rx: 3, height: 18 });
  /** @type {Record<Register, SVGTextElement>} */
  const texts = {
    held: s("text", { class: `sy-value sy-${run.roles.held}` }),
    right: s("text", { class: `sy-value sy-${run.roles.right}` }),
    down: s("text", { class: `sy-value sy-${run.roles.down}` }),
  };
  const product = s("text", { class: "sy-value sy-product" });
  const shadow = s("text", { class: `sy-small sy-${run.roles.held}`, x: form === "full" ? w / 2 : form === "bare" ? 6 : 7, y: hgt - 8, "text-anchor": form === "full" ? "middle" : null });
  const fence = s("path", { class: "sy-fence", d: `M5 ${hgt - 21.5}H${w - 5}` });
  const corner = s("path", { class: `sy-corner sy-${run.roles.held}`, d: `M${w - 2} ${hgt - 10}V${hgt - 2}H${w - 10}z` });
  const behind = !run.overlap || form === "dot" ? [] : form === "compact" ? [corner] : [fence, shadow];
  if (form === "full") {
    set(texts[other], { x: 10, y: 20 });
    set(texts.right, { x: w - 10, y: 20, "text-anchor": "end" });
    set(product, { x: w / 2, y: 43, "text-anchor": "middle" });
    set(texts[sum], { x: w / 2, y: 66, "text-anchor": "middle" });
  } else if (form === "stack" || form === "bare") {
    const x = form === "bare" ? 6 : 7;
    set(texts.right, { x, y: 16 });
    set(texts[other], { x, y: 33 });
    set(texts[sum], { x, y: 50 });
    if (form === "bare") for (const register of REGISTERS) texts[register].classList.add("sy-small");
  } else {
    set(texts[sum], { x: w / 2, y: hgt / 2 + 4, "text-anchor": "middle" });
    set(texts[run.register("c")], { class: "sy-value sy-small sy-c" });
  }
  const shown = form === "dot" ? [] : form === "compact" ? [sum] : REGISTERS;
  const tip = Math.max(1, place.gap - 5);
  const arrows = {
    right: s("path", { class: `sy-hop sy-${run.roles.right}`, d: `M${w + 2} ${hgt / 2 - 4}l${tip} 4l${-tip} 4z` }),
    down: s("path", { class: `sy-hop sy-${run.roles.down}`, d: `M${w / 2 - 4} ${hgt + 2}l4 ${tip}l4 ${-tip}z` }),
  };
  const node = s("g", { class: "sy-cell", transform: `translate(${place.x(c)} ${place.y(r)})` },
    arrows.right, arrows.down, texture, box, ...(shown.length === 3 ? [pin] : []), ...shown.map((register) => texts[register]),
    form === "full" && product, ...behind, cross, cursor);
  return { node, box, texture, cross, cursor, pin, texts, product, shadow, corner, arrows, form };
}

/**
 * @param {Run} run @param {ReturnType<typeof makeCell>} view @param {Cell} cell @param {boolean} chosen
 * @param {{right: boolean, down: boolean}} leaves whether each moving value hops to a neighbour next
 * @param {boolean} [wrong] its sum is not what it should be
 * @param {(register: Register) => boolean} [off] which of its registers are not
 */
export function drawCell(run, view, cell, chosen, leaves, wrong = false, off) {
  const state = cell.active ? "working" : cell.heldIndex >= 0 || cell.downIndex >= 0 || cell.rightIndex >= 0 ? "holding" : "empty";
  set(view.node, { "data-state": state, "data-wrong": wrong || null });
  set(view.cross, { visibility: wrong ? "visible" : "hidden" });
  set(view.texture, { visibility: cell.active ? "hidden" : "visible" });
  set(view.cursor, { visibility: chosen ? "visible" : "hidden" });
  for (const register of REGISTERS) {
    const index = cell[`${register}Index`];
    const letter = run.roles[register];
    const word = view.form === "compact" || view.form === "bare" ? "" : letter === "c" && view.form === "full" ? "sum " : `${letter} `;
    // In a machine known to be broken a register may hold a value that belongs to no element.
    const there = index >= 0 || (off !== undefined && cell[register] !== 0);
    write(view.texts[register], there ? word + short(cell[register]) : "");
    set(view.texts[register], { "data-wrong": (there && off?.(register)) || null });
  }
  if (run.overlap) {
    const there = cell.shadowIndex >= 0;
    write(view.shadow, !there ? "" : view.form === "bare" ? `(${short(cell.shadow)})` : `${run.loads ? "next" : "out"} ${short(cell.shadow)}`);
    set(view.corner, { visibility: there ? "visible" : "hidden" });
  }
  if (view.form === "full") write(view.product, cell.active ? `${short(cell.right)} × ${short(run.loads ? cell.held : cell.down)}` : "");
  // A frame round the value that stays: the mark of "stationary" that needs no colour.
  const text = view.texts.held;
  const held = text.textContent ?? "";
  const wide = held.length * (view.form === "bare" ? MONO11 : MONO12) + 8;
  const x = Number(text.getAttribute("x"));
  set(view.pin, {
    visibility: held ? "visible" : "hidden", class: `sy-pin sy-${run.roles.held}`,
    x: text.getAttribute("text-anchor") === "middle" ? x - wide / 2 : x - 4, y: Number(text.getAttribute("y")) - 13, width: wide,
  });
  set(view.arrows.right, { visibility: leaves.right ? "visible" : "hidden" });
  set(view.arrows.down, { visibility: leaves.down ? "visible" : "hidden" });
}

/** A small box with a value: queue, exits. @param {string} kind */
export function makeChip(kind) {
  const box = s("rect", { class: "sy-chip", rx: 4 });
  const text = s("text", { class: "sy-value", "text-anchor": "middle" });
  const node = s("g", { class: kind }, box, text);
  return {
    node,
    /** @param {string | null} value `null`: a cycle in which nothing enters; empty: no chip @param {number} x @param {number} y @param {number} w */
    show(value, x, y, w) {
      set(node, { "data-none": value === null || null, visibility: value === "" ? "hidden" : "visible" });
      set(box, { x, y, width: w, height: 22 });
      set(text, { x: x + w / 2, y: y + 15 });
      write(text, value ?? "·");
    },
  };
}

/**
 * The hatching of an idle cell, to be put in a `defs` and named as `url(#id)`.
 * @param {string} id
 */
export function makeHatch(id) {
  return s("pattern", { id, width: 7, height: 7, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    s("path", { d: "M0 0V7", class: "sy-hatching" }));
}

/**
 * The array with its queues and exits; for a large array the window of values.
 * @param {Run} run
 * @param {{prefix: string, still?: boolean, ahead?: number, wrong?: Wrong, covered?: () => boolean, chars?: Record<Letter, number>, gap?: number}} look `prefix`: for ids, its own for each
 *   array of a view; `still`: no queues, no exits; `ahead`: at most so many steps of the queue; `covered`: whether
 *   the registers are out of sight, so that only what enters and leaves is seen; `chars`: the widest text of each
 *   matrix, where several arrays are to be drawn alike; `gap`: between cells, as in `layout`
 */
export function makeArray(run, { prefix, still = false, ahead, wrong, covered, chars = textWidths(run), gap }) {
  const hatch = `${prefix}-hatch`;
  const pattern = makeHatch(hatch);
  const svg = s("svg", { class: "sy-array", "aria-hidden": "true" });
  /** @type {Layout | null} */
  let place = null;
  /** @type {ReturnType<typeof makeCell>[]} */
  let cells = [];
  /** @type {ReturnType<typeof makeChip>[][]} */
  let fromLeft = [];
  /** @type {ReturnType<typeof makeChip>[][]} */
  let fromTop = [];
  /** @type {{node: SVGElement, name: SVGTextElement, value: SVGTextElement}[]} */
  let below = [];
  /** @type {SVGTextElement[]} */
  let numbers = [];
  const { right, held, down } = run.roles;
  const top = run.loads ? held : down;
  const topRegister = /** @type {Register} */ (run.loads ? "held" : "down");
  const topNote = label("", { class: "sy-note", y: 13 });
  const tapNote = label("Tap or point at a cell for its values.", { class: "sy-note", x: 0 });
  const leftNote = label("", { class: "sy-note" });

  /** @param {number} width @param {number} [between] another gap between cells at this width */
  function resize(width, between = gap) {
    const next = layout(run, chars, width, { still, ahead, gap: between });
    place = next;
    cells = [];
    svg.replaceChildren(s("defs", {}, pattern));
    set(svg, { width: next.width, height: next.height, viewBox: `0 0 ${next.width} ${next.height}` });
    for (let r = 0; r < next.rows; r++) {
      for (let c = 0; c < next.cols; c++) cells.push(makeCell(run, next, r, c, hatch));
    }
    svg.append(...cells.map((cell) => cell.node));
    numbers = [];
    fromLeft = [];
    fromTop = [];
    below = [];
    if (run.large) {
      numbers = [
        ...Array.from({ length: next.cols }, (_, c) => label("", { class: "sy-number", x: next.x(c) + next.cellW / 2, y: 14, "text-anchor": "middle" })),
        ...Array.from({ length: next.rows }, (_, r) => label("", { class: "sy-number", x: 24, y: next.y(r) + next.cellH / 2 + 4, "text-anchor": "end" })),
      ];
      svg.append(...numbers);
    } else if (!still) {
      fromLeft = Array.from({ length: next.rows }, () => Array.from({ length: next.slots }, () => makeChip(`sy-${right}`)));
      fromTop = Array.from({ length: next.cols }, () => Array.from({ length: run.loads ? 2 : 3 }, () => makeChip(`sy-${top}`)));
      below = Array.from({ length: next.cols }, (_, c) => {
        const middle = next.x(c) + next.cellW / 2;
        const name = label("", { class: "sy-out-name", x: middle, y: next.y(next.rows) + 12, "text-anchor": "middle" });
        const value = label("", { class: "sy-out", x: middle, y: next.y(next.rows) + 29, "text-anchor": "middle" });
        return { node: s("g", {}, name, value), name, value };
      });
      set(topNote, { x: next.left });
      set(leftNote, { x: 0, y: next.above - 12 });
      set(tapNote, { y: next.height - 2 });
      if (next.form === "dot" || next.form === "compact") svg.append(tapNote);
      svg.append(topNote, leftNote, ...[...fromLeft, ...fromTop].flat().map((chip) => chip.node), ...below.map((out) => out.node));
    }
  }

  /** @param {number} t @param {number[]} selected */
  function show(t, selected) {
    if (!place) return;
    const { rows, cols, chip, slots, cellW, cellH } = place;
    const at = windowAt(run, selected, place.span);
    const dark = covered?.() ?? false;
    set(svg, { "data-covered": dark || null });
    for (let r = 0; r < rows; r++) {
      for (let c = 0; c < cols; c++) {
        const cell = dark ? EMPTY : run.cell(t, at.top + r, at.left + c);
        const chosen = selected.length === 2 && selected[0] === at.top + r && selected[1] === at.left + c;
        drawCell(run, cells[r * cols + c], cell, chosen, {
          right: cell.rightIndex >= 0 && c < cols - 1,
          down: cell.downIndex >= 0 && r < rows - 1,
        }, wrong?.cell?.(t, at.top + r, at.left + c), wrong?.register && ((register) => wrong.register?.(t, at.top + r, at.left + c, register) ?? false));
      }
    }
    numbers.forEach((number, i) => write(number, i < cols ? at.left + i : at.top + i - cols));
    if (run.large || still) return;

    const end = run.overlap ? run.T : run.foldAt(t).start + run.foldAt(t).cycles;
    /** What enters at the edge so many cycles from now, or null. @param {number} after @param {number} r @param {number} c @param {Register} register */
    const entering = (after, r, c, register) => {
      if (t + after >= end) return null;
      const later = run.cell(t + after, r, c);
      if (register === "held" && run.overlap) {
        const came = later.shadowIndex >= 0 && later.shadowIndex !== run.cell(t + after - 1, r, c).shadowIndex;
        return came ? short(later.shadow) : null;
      }
      if (register === "held" && run.phase(t + after) !== "load") return null;
      return later[`${register}Index`] < 0 ? null : short(later[register]);
    };
    const lines = fromLeft.map((line, r) => line.map((_, i) => entering(i + 1, r, 0, "right")));
    const columns = fromTop.map((line, c) => line.map((_, i) => entering(i + 1, 0, c, topRegister)));
    const leftComes = lines.flat().some((value) => value !== null);
    const topComes = columns.flat().some((value) => value !== null);
    fromLeft.forEach((line, r) => line.forEach((slot, i) => {
      slot.show(leftComes ? lines[r][i] : "", place ? place.left - 12 - (i + 1) * (chip + 4) + 4 : 0, (place?.y(r) ?? 0) + cellH / 2 - 11, chip);
    }));
    write(leftNote, slots === 0 ? "" : leftComes ? `${right.toUpperCase()} →` : `all of ${right.toUpperCase()} has entered`);
    const wide = Math.max(26, (run.loads ? chars[held] : chars[down]) * MONO12 + 10);
    fromTop.forEach((line, c) => line.forEach((slot, i) => {
      slot.show(topComes ? columns[c][i] : "", (place?.x(c) ?? 0) + (cellW - wide) / 2, (place?.above ?? 0) - 6 - (i + 1) * 24 + 2, wide);
    }));
    write(topNote, topComes ? `${top.toUpperCase()} ↓ enters from the top` : run.loads && !run.overlap ? `${top.toUpperCase()} is loaded and stays` : `all of ${top.toUpperCase()} has entered`);
    for (const out of below) {
      write(out.name, "");
      write(out.value, "");
      set(out.node, { "data-wrong": null });
    }
    for (const { col, m, n, final } of run.exits.get(t) ?? []) {
      const value = short(run.leaving(t, m, n));
      // Names and values that would touch their neighbours are left to the caption.
      const name = `C[${m},${n}]`;
      const room = cellW + place.gap - 4;
      const fits = Math.max(value.length * 7.9, name.length * MONO11) <= room;
      const told = final || (name.length + 7) * MONO11 > room ? name : `so far ${name}`;
      const no = final && wrong?.result?.(m, n);
      write(below[col].name, fits ? told : "");
      write(below[col].value, fits ? (no && value.length * 7.9 + 16 <= room ? `${value} ✗` : value) : no ? "✗" : "\u2193");
      set(below[col].node, { "data-wrong": no || null });
    }
  }

  /** Which cell is at a point of the picture. @param {number} x @param {number} y @param {number[]} selected @returns {number[] | null} */
  function hit(x, y, selected) {
    if (!place) return null;
    const c = Math.floor((x - place.left) / (place.cellW + place.gap));
    const r = Math.floor((y - place.above) / (place.cellH + place.gap));
    if (r < 0 || c < 0 || r >= place.rows || c >= place.cols) return null;
    const at = windowAt(run, selected, place.span);
    return [at.top + r, at.left + c];
  }
  return { svg, resize, show, hit, width: () => place?.width ?? 0, span: () => place?.span ?? WINDOW };
}

/** Colours of the activity picture, by theme. @type {Record<string, Record<string, number[]>>} */
export const TONES = {
  light: { unused: [255, 255, 255], waits: [246, 248, 250], hatch: [185, 196, 206], works: [0, 114, 178], stripe: [125, 190, 224], done: [213, 219, 225], front: [176, 84, 0] },
  dark: { unused: [20, 25, 31], waits: [27, 34, 41], hatch: [76, 88, 100], works: [86, 177, 232], stripe: [30, 88, 124], done: [57, 66, 76], front: [240, 154, 74] },
};
/** A colour as one little-endian word of an image. @param {number[]} tone */
export const pixel = ([red, green, blue]) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
/** Of so many steps of the stream the first few are marked: one sees the stream move though all cells work. */
export const STRIPE = { every: 16, steps: 4 };

/**
 * A picture of R x C cells, one pixel a cell, scaled up by CSS: fast where every cell changes with every frame.
 * @param {number} R @param {number} C
 */
export function makeBitmap(R, C) {
  const canvas = h("canvas", { class: "sy-activity", width: C, height: R, "aria-hidden": "true" });
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d", { alpha: false }));
  const image = context.createImageData(C, R);
  const pixels = new Uint32Array(image.data.buffer);
  return {
    canvas,
    /** Repaint: `fill` sets every pixel, row by row, to a `pixel(...)`. @param {(pixels: Uint32Array) => void} fill */
    paint(fill) {
      fill(pixels);
      context.putImageData(image, 0, 0);
    },
    /** @param {number} width the most it may take */
    resize(width) {
      const whole = Math.floor(width / Math.max(R, C));
      const quarters = Math.floor((4 * width) / Math.max(R, C)) / 4;
      const scale = whole >= 3 ? whole : quarters >= 1 ? quarters : width / Math.max(R, C);
      canvas.style.width = `${C * scale}px`;
      canvas.style.height = `${R * scale}px`;
    },
  };
}

/**
 * What each cell does, from its first cycle of work and how long it works: waits, works, done or not used.
 * @param {Uint32Array} pixels
 * @param {{R: number, C: number, t: number, theme: string, start: ArrayLike<number>, length: ArrayLike<number>, base?: number}} now
 *   `start` and `length` by cell, -1 where a cell is not used, beginning at `base`
 */
export function fillActivity(pixels, { R, C, t, theme, start, length, base = 0 }) {
  const tones = TONES[theme] ?? TONES.light;
  const [unused, waits, hatch, works, stripe, done] = ["unused", "waits", "hatch", "works", "stripe", "done"].map((name) => pixel(tones[name]));
  for (let r = 0, i = 0; r < R; r++) {
    for (let c = 0; c < C; c++, i++) {
      const begins = start[base + i];
      const step = t - begins;
      // What waits is hatched, and across the way the stream's front lies: no colour of an operand, no motion.
      pixels[i] = begins < 0 ? unused : step < 0 ? (((c - r) & 7) < 2 ? hatch : waits)
        : step >= length[base + i] ? done : step % STRIPE.every < STRIPE.steps ? stripe : works;
    }
  }
}

/**
 * The same where folds overlap: each cell by the fold it is in, and the front on which cells take the next one over.
 * @param {Uint32Array} pixels @param {Run} run @param {number} t @param {string} theme
 */
function fillOverlapping(pixels, run, t, theme) {
  const { R, C, folds } = run;
  const { start, length } = run.columns;
  const tones = TONES[theme] ?? TONES.light;
  const [unused, waits, hatch, works, stripe, done, front] = ["unused", "waits", "hatch", "works", "stripe", "done", "front"].map((name) => pixel(tones[name]));
  // Cells on one anti-diagonal are in the same fold.
  const fold = Array.from({ length: R + C - 1 }, (_, d) => run.foldIn(t, d, 0)?.index ?? -1);
  const cells = R * C;
  for (let r = 0, i = 0; r < R; r++) {
    for (let c = 0; c < C; c++, i++) {
      const f = fold[r + c];
      const begins = start[Math.max(0, f) * cells + i];
      const step = t - begins;
      const away = begins < 0 && (f >= 0 || folds.length === 1);
      pixels[i] = f < 0 ? (away ? unused : ((c - r) & 7) < 2 ? hatch : waits) : begins < 0 ? unused
        : step === 0 && f > 0 ? front : step >= length[f * cells + i] ? done : step % STRIPE.every < STRIPE.steps ? stripe : works;
    }
  }
}

/**
 * The whole of a large array with a frame round the cells whose values are shown.
 * @param {Run} run
 */
export function makeActivity(run) {
  const { R, C } = run;
  const map = makeBitmap(R, C);
  const frame = h("div", { class: "sy-window" });
  const el = h("div", { class: "sy-map" }, map.canvas, frame);

  /** @param {number} t @param {string} theme @param {number[]} selected @param {number} span */
  function show(t, theme, selected, span) {
    const { start, length } = run.columns;
    map.paint((pixels) => (run.overlap ? fillOverlapping(pixels, run, t, theme)
      : fillActivity(pixels, { R, C, t, theme, start, length, base: run.foldAt(t).index * R * C })));
    frame.hidden = span === 0;
    const at = windowAt(run, selected, span);
    frame.style.left = `${(100 * at.left) / C}%`;
    frame.style.top = `${(100 * at.top) / R}%`;
    frame.style.width = `${(100 * at.cols) / C}%`;
    frame.style.height = `${(100 * at.rows) / R}%`;
  }
  return { el, canvas: map.canvas, show, resize: map.resize };
}

/**
 * A, B and C in the layout of the product: the row of A and the column of B that meet in an element of C.
 * @param {Run} run
 * @param {{title?: string, wrong?: Wrong}} [look]
 */
export function makeProduct(run, { title = "A × B = C", wrong } = {}) {
  const { M, K, N } = run;
  const svg = s("svg", { class: "sy-matrices", role: "img" });
  const note = h("b", { class: "pw-now" });
  const el = h("section", { class: "pw-panel" }, h("header", {}, h("h4", {}, title), note), svg);
  const chars = textWidths(run);
  /** @type {Record<Letter, {rows: number, cols: number, x: number, y: number}>} */
  const blocks = { a: { rows: M, cols: K, x: 0, y: 0 }, b: { rows: K, cols: N, x: 0, y: 0 }, c: { rows: M, cols: N, x: 0, y: 0 } };
  const letters = /** @type {Letter[]} */ (["a", "b", "c"]);
  /** @type {Record<string, {box: SVGRectElement, text: SVGTextElement}[]>} */
  let elements = {};
  /** @type {Record<string, {tile: SVGRectElement, image: CanvasRenderingContext2D | null}>} */
  let maps = {};
  let values = false; // every element with its number
  let painted = ""; // what C's map shows, so that it is painted only when that changes
  let separate = false; // every element on its own, else as a map

  /** @param {number} width */
  function resize(width) {
    if (width < 60) return; // out of the page, or not yet in it
    const unit = Math.max(22, Math.max(chars.a, chars.b, chars.c) * MONO11 + 5);
    const head = 18;
    values = run.listed && M + K <= 18 && (K + N) * unit + 16 <= width;
    const room = (width - 16) / (K + N);
    const scale = values ? Math.min(Math.max(44, unit), room) : Math.min(room, 210 / (M + K), 18);
    const high = values ? 22 : scale;
    separate = run.listed && scale >= 7;
    const gap = 14;
    blocks.a = { ...blocks.a, x: 1, y: K * high + gap + head };
    blocks.b = { ...blocks.b, x: K * scale + gap, y: head };
    blocks.c = { ...blocks.c, x: K * scale + gap, y: K * high + gap + head };
    painted = "";
    svg.replaceChildren();
    set(svg, { width, height: blocks.a.y + M * high + 20 });
    elements = {};
    maps = {};
    for (const letter of letters) {
      const { rows, cols, x, y } = blocks[letter];
      const name = label(`${letter.toUpperCase()} ${rows} × ${cols}`, { class: `sy-letter sy-${letter}`, x, y: y - 6 });
      if (letter !== "b" && (letter === "a" || K * scale > 84)) set(name, { x, y: y + rows * high + 15 });
      else if (letter === "c" && x + cols * scale + 6 + (name.textContent ?? "").length * 8.4 <= width) set(name, { x: x + cols * scale + 6, y: y + 12 });
      else if (letter === "c") set(name, { x: x + cols * scale, y: y + rows * high + 15, "text-anchor": "end" });
      svg.append(name);
      if (separate) {
        elements[letter] = Array.from({ length: rows * cols }, (_, i) => {
          const box = s("rect", { class: "sy-element", x: x + (i % cols) * scale + 1, y: y + Math.floor(i / cols) * high + 1, width: scale - 2, height: high - 2, rx: values ? 3 : 1.5 });
          const text = s("text", { class: `sy-small sy-${letter}`, x: x + (i % cols + 0.5) * scale, y: y + Math.floor(i / cols) * high + 15, "text-anchor": "middle" });
          svg.append(box, ...(values ? [text] : []));
          return { box, text };
        });
      } else {
        svg.append(s("rect", { class: "sy-field", x, y, width: cols * scale, height: rows * high }));
        let image = null;
        if (letter === "c") {
          const canvas = h("canvas", { width: Math.min(cols, 256), height: Math.min(rows, 256) });
          image = canvas.getContext("2d");
          const holder = s("foreignObject", { x, y, width: cols * scale, height: rows * high }, canvas);
          canvas.setAttribute("style", "display:block;width:100%;height:100%;image-rendering:pixelated");
          svg.append(holder);
        }
        const tile = s("rect", { class: `sy-tile sy-${letter}` });
        svg.append(tile);
        maps[letter] = { tile, image };
      }
    }
  }

  /** @param {number} t @param {number[]} selected @param {string} theme */
  function show(t, selected, theme) {
    const complete = run.gone(t);
    write(note, `${number(complete)} of ${number(M * N)} have left`);
    set(svg, { "aria-label": `${complete} of ${M * N} elements of C have left the array` });
    if (separate) showElements(t, selected);
    else showMaps(t, theme);
  }

  /** @param {number} t @param {number[]} selected */
  function showElements(t, selected) {
    /** @type {Record<Letter, Set<number>>} */
    const inside = { a: new Set(), b: new Set(), c: new Set() };
    /** @type {Record<Letter, number>} */
    const chosen = { a: -1, b: -1, c: -1 };
    for (let r = 0; r < run.R; r++) {
      for (let c = 0; c < run.C; c++) {
        const cell = run.cell(t, r, c);
        for (const register of REGISTERS) {
          const index = cell[`${register}Index`];
          if (index < 0) continue;
          inside[run.roles[register]].add(index);
          if (selected[0] === r && selected[1] === c) chosen[run.roles[register]] = index;
        }
      }
    }
    for (const letter of letters) {
      elements[letter].forEach(({ box, text }, i) => {
        const here = inside[letter].has(i);
        const known = letter !== "c" || run.columns.final[i] <= t;
        set(box, { class: `sy-element sy-${letter}${values ? "" : " sy-bare"}`, "data-inside": here || null, "data-chosen": chosen[letter] === i || null, "data-known": known || null,
          "data-wrong": (letter === "c" && known && wrong?.result?.(Math.floor(i / N), i % N)) || null });
        write(text, letter === "c" ? (known ? short(run.columns.result[i]) : "·") : short(run.columns[letter][i]));
      });
    }
  }

  /** @param {number} t @param {string} theme */
  function showMaps(t, theme) {
    const fold = run.foldAt(t);
    const tones = TONES[theme] ?? TONES.light;
    const span = /** @type {Record<string, [number, number]>} */ ({
      [run.axes.row]: [fold.row0, fold.rows], [run.axes.col]: [fold.col0, fold.cols], [run.axes.stream]: [0, run.stream],
    });
    const axes = /** @type {Record<Letter, [string, string]>} */ ({ a: ["m", "k"], b: ["k", "n"], c: ["m", "n"] });
    for (const letter of letters) {
      const { x, y, rows, cols } = blocks[letter];
      const field = /** @type {SVGRectElement} */ (svg.querySelectorAll(".sy-field")[letters.indexOf(letter)]);
      const wide = Number(field.getAttribute("width")) / cols;
      const high = Number(field.getAttribute("height")) / rows;
      const [first, second] = axes[letter];
      set(maps[letter].tile, {
        x: x + span[second][0] * wide, y: y + span[first][0] * high, width: Math.max(2, span[second][1] * wide), height: Math.max(2, span[first][1] * high),
      });
    }
    const { image } = maps.c;
    const state = `${run.gone(t)} ${theme} ${Number(image?.canvas.width)}`;
    if (!image || state === painted) return;
    painted = state;
    const { width: w, height: hgt } = image.canvas;
    const data = image.createImageData(w, hgt);
    const pixels = new Uint32Array(data.data.buffer);
    const done = pixel(theme === "dark" ? [240, 154, 74] : [176, 84, 0]);
    const open = pixel(tones.unused);
    for (let y = 0; y < hgt; y++) {
      const row = Math.floor((y * M) / hgt) * N;
      for (let x = 0; x < w; x++) pixels[y * w + x] = run.columns.final[row + Math.floor((x * N) / w)] <= t ? done : open;
    }
    image.putImageData(data, 0, 0);
  }
  return { el, resize, show };
}

/** What the marks of an array mean, for `legend`. @param {Run} run @returns {{mark: Node, text: string}[]} */
export function legendOf(run) {
  /** @param {number} width @param {...Node} children */
  const wideMark = (width, ...children) => s("svg", { width, height: 18, viewBox: `0 0 ${width} 18`, "aria-hidden": "true" }, ...children);
  /** @param {...Node} children */
  const mark = (...children) => wideMark(22, ...children);
  const { held, right, down } = run.roles;
  const sum = run.loads ? down : held;
  /** @param {string} text @param {string} letter */
  const glyph = (text, letter) => label(text, { x: 11, y: 13, "text-anchor": "middle", class: `sy-value sy-${letter}` });
  if (run.large) {
    const swatch = (/** @type {string} */ kind) => mark(s("rect", { x: 1, y: 2, width: 20, height: 14, rx: 2, class: `sy-tone sy-tone-${kind}` }),
      ...(kind === "waits" ? [s("path", { d: "M2 6l10 10M6 2l14 14M14 2l6 6", class: "sy-waiting" })] : []));
    return [
      { mark: swatch("works"), text: `works on its element of ${held === "c" ? "C" : held.toUpperCase()}` },
      { mark: swatch("stripe"), text: `works too: ${STRIPE.steps} of every ${STRIPE.every} steps are marked, so that the stream can be followed` },
      { mark: swatch("waits"), text: "not yet begun" },
      { mark: mark(s("rect", { x: 5, y: 3, width: 12, height: 12, class: "sy-legend-window" })), text: "the cells whose values are shown" },
      ...(run.overlap && run.folds.length > 1 ? [{ mark: swatch("front"), text: "takes the next fold over in this cycle" }] : []),
      { mark: swatch("done"), text: "done in this fold" },
      ...(run.folds.some((fold) => fold.rows < run.R || fold.cols < run.C) ? [{ mark: swatch("unused"), text: "not used by this fold" }] : []),
    ];
  }
  const box = (/** @type {string} */ kind) => s("rect", { x: 1.5, y: 2, width: 19, height: 14, rx: 3, class: kind });
  return [
    { mark: mark(box("sy-legend-working")), text: "multiplies in this cycle" },
    { mark: mark(box("sy-legend-idle"), s("path", { d: "M5 16L15 2M11 16L20 4M1.5 11L8 2", class: "sy-hatching" })), text: "idle" },
    { mark: mark(s("rect", { x: 3, y: 0.5, width: 16, height: 17, rx: 3, class: `sy-pin sy-${held}` }), glyph(held, held)), text: `${held === "c" ? "sum for C" : `element of ${held.toUpperCase()}`}: stays in its cell` },
    { mark: mark(glyph(`${right}▸`, right)), text: `element of ${right.toUpperCase()}: moves right` },
    { mark: mark(glyph(`${down}▾`, down)), text: `${sum === down ? "sum for C" : `element of ${down.toUpperCase()}`}: moves down` },
    ...(run.overlap ? [{ mark: wideMark(30, s("path", { class: "sy-fence", d: "M1 2.5H29" }), label(run.loads ? "next" : "out", { x: 15, y: 14, "text-anchor": "middle", class: `sy-small sy-${held}` })),
      text: run.loads ? `in the shadow register: the next fold's element of ${held.toUpperCase()}` : "in the shadow register: a finished sum on its way out" }] : []),
    { mark: mark(s("rect", { x: 3, y: 1, width: 16, height: 16, rx: 3, class: "sy-element sy-c", "data-inside": true })), text: "element of C in the making" },
    { mark: mark(s("circle", { cx: 11, cy: 9, r: 1.5, class: "sy-dot" })), text: "nothing enters; in C: nothing yet" },
  ];
}
