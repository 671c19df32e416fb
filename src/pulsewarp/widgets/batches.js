// Batches through a weight-stationary array: the skewed stream of A on its way into the cells, and the cells at work by
// cycle, batch upon batch. Three parts in this order: the lanes and their words (look-ups in the recorded schedule),
// where things lie (pure), drawing and wiring (short).
//
// A lane is one array with its runs; rows of A are counted over the lane. Letters: t cycle, r array row, c array column,
// i lane, b batch (from 0 in code, from 1 in words).

import { pixel } from "./kit/array.js";
import { comparison } from "./kit/compare.js";
import { h, s, set, write } from "./kit/dom.js";
import { legend } from "./kit/panels.js";
import { stage } from "./kit/stage.js";
import { capital, counted, number } from "./kit/words.js";

/** @typedef {ReturnType<typeof readLane>} Lane */
/** @typedef {{run: number, row: number, row0: number, col0: number, rows: number, cols: number, first: number, end: number}} Fold */

// ------------------------------------------------------------------------------------------ the lanes

/** @param {import("./kit/wire.js").Packed} packed @param {number} i */
export function readLane({ header, columns: all }, i) {
  const own = header.lanes[i];
  const { rows: R, cols: C, cycles: T, m: M, batches } = own;
  const columns = Object.fromEntries(["start", "length", "phase", "busy", "macs", "reads_b"].map((name) => [name, all[`${i}.${name}`]]));
  const { start, length } = columns;
  const B = batches.length;
  /** First row of each batch, and the end of the last. @type {number[]} */
  const bounds = [0];
  for (const size of batches) bounds.push(bounds[bounds.length - 1] + size);
  /** Batch of each row of A. */
  const batchOf = new Uint8Array(M);
  for (let b = 0; b < B; b++) batchOf.fill(b, bounds[b], bounds[b + 1]);

  // Folds may overlap in time: each has the cycles in which any of its cells works.
  /** @type {Fold[]} */
  const folds = own.folds.map((/** @type {number[]} */ [run, row, row0, col0, rows, cols], /** @type {number} */ f) => {
    let [first, end] = [Infinity, 0];
    for (let cell = f * R * C; cell < (f + 1) * R * C; cell++) {
      if (start[cell] < 0) continue;
      first = Math.min(first, start[cell]);
      end = Math.max(end, start[cell] + length[cell]);
    }
    return { run, row, row0, col0, rows, cols, first, end };
  });
  /** Which row of A enters array row r in a cycle, -1 for none: entry r * T + cycle. */
  const enters = new Int32Array(R * T).fill(-1);
  folds.forEach(({ row }, f) => {
    for (let r = 0; r < R; r++) {
      const begins = start[(f * R + r) * C];
      for (let step = 0; begins >= 0 && step < length[(f * R + r) * C]; step++) enters[r * T + begins + step] = row + step;
    }
  });
  /** Cycles so far that were not steady. */
  const unsteady = new Int32Array(T);
  const steady = header.phases.indexOf("steady");
  for (let t = 0; t < T; t++) unsteady[t] = (t ? unsteady[t - 1] : 0) + (columns.phase[t] === steady ? 0 : 1);

  /** Folds with a cell at work, and the cycle they are of. @type {{t: number, all: number[]}} */
  let alive = { t: -1, all: [] };
  /** @param {number} t */
  const foldsAt = (t) => {
    if (alive.t !== t) alive = { t, all: folds.flatMap(({ first, end }, f) => (first <= t && t < end ? [f] : [])) };
    return alive.all;
  };

  return {
    i, R, C, T, M, B, batches, bounds, batchOf, folds, columns, unsteady,
    name: /** @type {string} */ (own.name), overlap: /** @type {boolean} */ (own.overlap),
    /** @param {number} t */
    phase: (t) => /** @type {string} */ (header.phases[columns.phase[t]]),
    enters, foldsAt,
    /** The row of A that a cell works on, and the fold, or null. @param {number} t @param {number} r @param {number} c */
    work(t, r, c) {
      for (const f of foldsAt(t)) {
        const cell = (f * R + r) * C + c;
        const step = t - start[cell];
        if (start[cell] >= 0 && step >= 0 && step < length[cell]) return { row: folds[f].row + step, f };
      }
      return null;
    },
    /** When a cell works next after cycle t, or -1. @param {number} t @param {number} r @param {number} c */
    next(t, r, c) {
      let soonest = -1;
      for (let f = 0; f < folds.length; f++) {
        const begins = start[(f * R + r) * C + c];
        if (begins > t && (soonest < 0 || begins < soonest)) soonest = begins;
      }
      return soonest;
    },
    /** Cells at work on batch b. @param {number} t @param {number} b */
    busyOn: (t, b) => columns.busy[t * B + b],
    /** @param {number} t */
    busy(t) {
      let sum = 0;
      for (let b = 0; b < B; b++) sum += columns.busy[t * B + b];
      return sum;
    },
    /** Share of the cell-cycles so far in which a cell worked. @param {number} t */
    utilization: (t) => columns.macs[t] / ((t + 1) * R * C),
  };
}

/** The cycle a lane shows: its last one once it has ended. @param {Lane} lane @param {number} t */
const own = (lane, t) => Math.min(t, lane.T - 1);

/** @param {Lane} lane @param {number} t */
const phaseOf = (lane, t) => (t >= lane.T ? "ended" : lane.phase(t));

/** A share in per cent. @param {number} share @returns {string} */
export function percent(share) {
  const x = 100 * share;
  return `${x >= 9.95 ? Math.round(x) : Number(x.toPrecision(2))}\u00a0%`;
}

/** A ratio with three digits. @param {number} x */
const few = (x) => (x < 100 ? String(Number(x.toPrecision(3))) : number(Math.round(x)));

/** Which batches the cells work on. @param {Lane} lane @param {number} t @returns {string} */
function split(lane, t) {
  const now = [];
  for (let b = 0; b < lane.B; b++) if (lane.busyOn(t, b) > 0) now.push(b);
  if (lane.B === 1 || now.length === 0) return "";
  if (now.length > 4) return `, on batches ${now[0] + 1} to ${now[now.length - 1] + 1}`;
  if (now.length === 1) return lane.busy(t) === 1 ? `, on batch ${now[0] + 1}` : `, all on batch ${now[0] + 1}`;
  return `: ${now.map((b) => `${number(lane.busyOn(t, b))} on batch ${b + 1}`).join(", ")}`;
}

/** @param {Lane} lane */
const laneName = (lane) => `Lane ${lane.i + 1}, ${lane.name}`;

/** Weights that come in during cycle t. @param {Lane} lane @param {number} t */
const loaded = (lane, t) => lane.columns.reads_b[t] - (t ? lane.columns.reads_b[t - 1] : 0);

/**
 * The frame in words: of each lane its phase, the cells at work and on what, the share of work so far.
 * @param {Lane[]} lanes @param {number} t @returns {string[]}
 */
export function frameWords(lanes, t) {
  return lanes.flatMap((lane) => {
    const lead = lanes.length > 1 ? `${laneName(lane)}: ` : "";
    if (t >= lane.T) return [`${lead}ended in cycle ${lane.T - 1}; utilisation ${percent(lane.utilization(lane.T - 1))}.`];
    const busy = lane.busy(t);
    const cells = number(lane.R * lane.C);
    const weights = loaded(lane, t);
    const load = weights > 0 ? `${counted(weights, "weight")} ${weights === 1 ? "comes" : "come"} in` : "";
    const works = busy === 0 ? (load ? `${load}, no cell works yet` : "no cell works, the last sums are on their way out")
      : `${number(busy)} of ${cells} cells ${busy === 1 ? "works" : "work"}${split(lane, t)}${load && `; meanwhile ${load}`}`;
    const share = percent(lane.utilization(t));
    if (lead) return [`${lead}${lane.phase(t)}; ${works}; utilisation so far ${share}.`];
    return [`${capital(lane.phase(t))}: ${works}.`,
      `Utilisation so far ${share}: ${counted(lane.columns.macs[t], "multiply-add")} in ${counted(t + 1, "cycle")} of ${cells} cells; at the end ${percent(lane.utilization(lane.T - 1))}.`];
  });
}

/**
 * What is at (cycle, lane, cell), in words.
 * @param {Lane[]} lanes @param {number} t @param {number[]} place @returns {string[]}
 */
export function describeCell(lanes, t, [i, r, c]) {
  const lane = lanes[i];
  const lead = `${lanes.length > 1 ? `Lane ${i + 1}, cell` : "Cell"} (${r},${c})`;
  const now = lane.work(t, r, c);
  if (now) {
    const { start, length } = lane.columns;
    const fold = lane.folds[now.f];
    const cell = (now.f * lane.R + r) * lane.C + c;
    const b = lane.batchOf[now.row];
    const run = lane.folds.some((each) => each.run > 0) ? ` of run ${fold.run + 1}` : "";
    const which = lane.batches[b] === 1 ? "its only row" : `its row ${now.row - lane.bounds[b]} (0 to ${lane.batches[b] - 1})`;
    return [
      `${lead} works on batch ${b + 1}, ${which}: A[${now.row - fold.row},${fold.row0 + r}] meets B[${fold.row0 + r},${fold.col0 + c}]${run}, which stays.`,
      `It has worked since cycle ${start[cell]} and goes on to cycle ${start[cell] + length[cell] - 1} without a pause.`,
    ];
  }
  const next = lane.next(t, r, c);
  if (next >= 0) return [`${lead} is idle; it works again from cycle ${next}.`.replace("again ", earlier(lane, t, r, c) ? "again " : "")];
  return [`${lead} is idle; ${earlier(lane, t, r, c) ? "its work is done" : "no run uses it"}.`];
}

/** Whether a cell worked before cycle t. @param {Lane} lane @param {number} t @param {number} r @param {number} c */
function earlier(lane, t, r, c) {
  return lane.folds.some((_, f) => {
    const begins = lane.columns.start[(f * lane.R + r) * lane.C + c];
    return begins >= 0 && begins < t;
  });
}

/** The frame as a table: a row for each batch. @param {Lane[]} lanes @param {number} t */
function tableOf(lanes, t) {
  return {
    caption: `Cells at work in cycle ${t}, and multiply-adds so far, by batch`,
    head: ["lane", "phase", "batch", "rows of A", "cells at work", "multiply-adds so far"],
    rows: lanes.flatMap((lane) => lane.batches.map((/** @type {number} */ size, /** @type {number} */ b) => {
      let sum = 0;
      for (let u = 0; u <= own(lane, t); u++) sum += lane.busyOn(u, b);
      return [`lane ${lane.i + 1}`, phaseOf(lane, t), b + 1, size, t < lane.T ? number(lane.busyOn(t, b)) : 0, number(sum)];
    })),
  };
}

/** What is compared. @param {Lane[]} lanes */
function counters(lanes) {
  /** @param {(lane: Lane, t: number) => string} text */
  const of = (text) => (/** @type {number} */ i, /** @type {number} */ t) => text(lanes[i], own(lanes[i], t));
  return [
    { label: "cycles", text: of((lane, t) => `${number(t + 1)} / ${number(lane.T)}`), help: "Cycles so far, of all that the lane takes." },
    { label: "cycles not steady", text: of((lane, t) => `${number(lane.unsteady[t])} / ${number(lane.unsteady[lane.T - 1])}`), help: "Cycles of load, fill and drain, in which some cells of the fold are idle." },
    { label: "multiply-adds", text: of((lane, t) => `${number(lane.columns.macs[t])} / ${number(lane.columns.macs[lane.T - 1])}`), help: "One product and one addition each." },
    { label: "utilisation", text: of((lane, t) => `${percent(lane.utilization(t))} / ${percent(lane.utilization(lane.T - 1))}`), help: "Multiply-adds, of those that all cells could have done in these cycles." },
    { label: "rows of A", text: of((lane) => number(lane.M)), help: "Rows of A in all batches together." },
    { label: "cycles per row", text: of((lane) => few(lane.T / lane.M)), help: "All cycles of the lane, divided by its rows of A." },
    { label: "weights per row", text: of((lane) => few(lane.columns.reads_b[lane.T - 1] / lane.M)), help: "Elements of B that enter in the whole run, divided by the rows of A that use them." },
  ];
}

// ------------------------------------------------------------------------------------------ layout

/** Cells at least so large, in px, carry the number of their batch. */
const NUMBERED = 14;
/** Room for the array's frame. */
const EDGE = 4;

/**
 * How large a cell is drawn and how many cycles of the stream before the array, the same in every lane.
 * @param {Lane[]} lanes @param {number} width
 */
export function layout(lanes, width) {
  const C = Math.max(...lanes.map((lane) => lane.C));
  const R = Math.max(...lanes.map((lane) => lane.R));
  // The longest way from the first cycle to the last entry of any lane, though never more than the room for it.
  let ahead = 1;
  for (const lane of lanes) {
    for (let f = 0; f < lane.folds.length; f++) {
      const cell = (f * lane.R + lane.folds[f].rows - 1) * lane.C;
      ahead = Math.max(ahead, lane.columns.start[cell] + lane.columns.length[cell]);
    }
  }
  // A few cells large enough for numbers, even if that cuts the stream off; many at least as a map.
  const least = Math.max(0.5, Math.min(20, 128 / R, (width - EDGE) / (1.5 * C)));
  const fits = Math.max(least, Math.min(34, (width - EDGE) / (ahead + C), (lanes.length > 1 ? 200 : 300) / R));
  const scale = fits >= 3 ? Math.floor(fits) : Math.max(0.25, Math.floor(fits * 4) / 4);
  return { scale, queue: Math.max(1, Math.min(ahead, Math.floor((width - EDGE) / scale) - C)), width };
}

/**
 * Rows of A by place, -1 where there is none: for each array row first the stream that comes, soonest last, then the
 * cells; entry r * (queue + C) + x.
 * @param {Lane} lane @param {number} t @param {number} queue
 */
export function stripAt(lane, t, queue) {
  const { R, C } = lane;
  const { start, length } = lane.columns;
  const wide = queue + C;
  const strip = new Int32Array(R * wide).fill(-1);
  if (t >= lane.T) return strip;
  for (let r = 0; r < R; r++) {
    const [first, at] = [r * lane.T + t + queue, r * wide];
    for (let x = Math.max(0, t + queue - lane.T + 1); x < queue; x++) strip[at + x] = lane.enters[first - x];
  }
  for (const f of lane.foldsAt(t)) {
    const { row } = lane.folds[f];
    for (let r = 0, cell = f * R * C; r < R; r++) {
      for (let c = 0; c < C; c++, cell++) {
        const step = t - start[cell];
        if (start[cell] >= 0 && step >= 0 && step < length[cell]) strip[r * wide + queue + c] = row + step;
      }
    }
  }
  return strip;
}

// ------------------------------------------------------------------------------------------ draw

/** Four batches apart by colour and texture; a fifth looks like the first and has its own number. */
const KINDS = 4;
/** @type {Record<string, {batches: number[][], light: number[], paper: number[], idle: number[], ink: string, hair: string}>} */
const TONES = {
  light: { batches: [[185, 142, 0], [132, 139, 240], [207, 124, 138], [27, 163, 178]], light: [255, 255, 255], paper: [255, 255, 255], idle: [225, 230, 235], ink: "#1d2733", hair: "#d5dbe1" },
  dark: { batches: [[131, 101, 0], [93, 98, 170], [147, 88, 98], [19, 115, 126]], light: [228, 233, 238], paper: [20, 25, 31], idle: [44, 53, 62], ink: "#e4e9ee", hair: "#39424c" },
};
/** @param {number[]} one @param {number[]} other @param {number} share */
const mix = (one, other, share) => one.map((x, i) => Math.round(x + (other[i] - x) * share));

/**
 * Whether a pixel of a batch carries its texture, which travels with the stream. In a long batch of the first kind a
 * few of every 16 rows are marked, so that one sees it move. Array rows repeat after `PERIOD`.
 * @param {number} kind @param {number} step row within the batch @param {number} r @param {number} size of the batch
 */
function textured(kind, step, r, size) {
  if (kind === 0) return size > 32 && step % 16 < 4;
  if (kind === 1) return (step + r) % 4 < 2;
  return kind === 2 ? step % 4 < 2 && r % 4 < 2 : r % 4 === 0;
}

const PERIOD = 4;

/** The texture of a kind inside a square of side 8, as a path. */
const TEXTURES = ["", "M-2 2L2 -2M0 8L8 0M6 10L10 6", "M2 2h1.5v1.5h-1.5zM6 6h1.5v1.5h-1.5z", "M0 2H8M0 6H8"];

/**
 * The stream and the cells of a lane on one canvas: cell by cell where they are large, else a pixel each.
 * @param {Lane} lane @param {boolean} explained whether the skew is named over it
 */
function makeStrip(lane, explained) {
  const canvas = h("canvas", { class: "ba-canvas", "aria-hidden": "true" });
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d", { alpha: false }));
  const array = h("div", { class: "ba-array", "aria-hidden": "true", "data-rows": lane.R, "data-cols": lane.C });
  const cursor = h("div", { class: "ba-cursor", "aria-hidden": "true" });
  const coming = h("span", {}, explained ? "A comes in, each row one cycle after the row above: the skew ▸" : "");
  const cells = h("span", {}, `${lane.R} × ${lane.C} cells`);
  const heads = h("div", { class: "ba-heads", "aria-hidden": "true" }, coming, cells);
  const holder = h("div", { class: "ba-holder" }, canvas, array, cursor);
  const el = h("div", { class: "ba-strip" }, heads, holder);
  let [scale, queue] = [1, 1];
  /** @type {ImageData | null} */
  let image = null;
  /** Colour of each row of A, by array row within the period of the textures; painted for `toned`. */
  const palette = new Uint32Array(lane.M * PERIOD);
  /** @type {typeof TONES["light"] | null} */
  let toned = null;

  /** @param {ReturnType<typeof layout>} place */
  function resize(place) {
    ({ scale, queue } = place);
    const [wide, high] = [(queue + lane.C) * scale, lane.R * scale];
    const fine = scale >= NUMBERED ? Math.max(1, globalThis.devicePixelRatio || 1) : 1;
    set(canvas, scale >= NUMBERED ? { width: Math.round(wide * fine), height: Math.round(high * fine) } : { width: queue + lane.C, height: lane.R });
    // Where several cells share a pixel it shows their mean: a single row stays to be seen.
    set(canvas, { style: `width:${wide}px;height:${high}px${scale < 1 ? ";image-rendering:auto" : ""}` });
    set(holder, { style: `width:${wide}px;height:${high}px` });
    set(array, { style: `left:${queue * scale}px;width:${lane.C * scale}px;height:${high}px` });
    // The words stand where there is room: over the stream, or over the array if that is the wider.
    set(coming, { style: `width:${Math.max(0, queue * scale - 8)}px` });
    set(heads, { style: `width:${Math.max(wide, Math.min(place.width, queue * scale + 100))}px` });
    if (scale >= NUMBERED) context.setTransform(fine, 0, 0, fine, 0, 0);
    image = scale >= NUMBERED ? null : context.createImageData(queue + lane.C, lane.R);
  }

  /** @param {number} t @param {string} theme @param {number[]} selected */
  function show(t, theme, selected) {
    const tones = TONES[theme] ?? TONES.light;
    const strip = stripAt(lane, t, queue);
    if (image) paintPixels(strip, tones, image);
    else paintCells(strip, tones);
    cursor.hidden = selected.length !== 2;
    const [r = 0, c = 0] = selected;
    const side = Math.max(scale, 5);
    set(cursor, { style: `left:${(queue + c) * scale - 2}px;top:${r * scale - 2}px;width:${side + 4}px;height:${side + 4}px` });
  }

  /** @param {Int32Array} strip @param {typeof TONES["light"]} tones @param {ImageData} whole */
  function paintPixels(strip, tones, whole) {
    const pixels = new Uint32Array(whole.data.buffer);
    if (toned !== tones) {
      toned = tones;
      for (let row = 0; row < lane.M; row++) {
        const b = lane.batchOf[row];
        const tone = tones.batches[b % KINDS];
        for (let r = 0; r < PERIOD; r++) {
          const marked = textured(b % KINDS, row - lane.bounds[b], r, lane.batches[b]);
          palette[row * PERIOD + r] = pixel(marked ? mix(tone, tones.light, 0.45) : tone);
        }
      }
    }
    const [paper, idle] = [pixel(tones.paper), pixel(tones.idle)];
    const period = scale > 3 ? 4 : 8; // of the hatch
    const wide = queue + lane.C;
    for (let r = 0, at = 0; r < lane.R; r++) {
      for (let x = 0; x < wide; x++, at++) {
        const row = strip[at];
        if (row >= 0) pixels[at] = palette[row * PERIOD + r % PERIOD];
        else pixels[at] = x >= queue && (x - queue - r + lane.R * period) % period < period / 4 ? idle : paper;
      }
    }
    context.putImageData(whole, 0, 0);
  }

  /** @param {Int32Array} strip @param {typeof TONES["light"]} tones */
  function paintCells(strip, tones) {
    const wide = queue + lane.C;
    const colour = (/** @type {number[]} */ tone) => `rgb(${tone.join()})`;
    context.fillStyle = colour(tones.paper);
    context.fillRect(0, 0, wide * scale, lane.R * scale);
    context.textAlign = "center";
    context.textBaseline = "middle";
    const textures = TEXTURES.map((path) => new Path2D(path));
    for (let at = 0; at < strip.length; at++) {
      const row = strip[at];
      const [x, y] = [(at % wide) * scale, Math.floor(at / wide) * scale];
      context.save();
      context.beginPath();
      context.rect(x + 1, y + 1, scale - 2, scale - 2);
      context.clip();
      context.translate(x + 1, y + 1);
      if (row < 0) {
        if (at % wide >= queue) {
          context.strokeStyle = tones.hair;
          context.lineWidth = 1.2;
          context.stroke(new Path2D(`M0 ${scale}L${scale} 0M0 ${scale / 2}L${scale / 2} 0M${scale / 2} ${scale}L${scale} ${scale / 2}`));
        }
        context.restore();
        continue;
      }
      const b = lane.batchOf[row];
      context.fillStyle = colour(tones.batches[b % KINDS]);
      context.fillRect(0, 0, scale, scale);
      context.strokeStyle = colour(mix(tones.batches[b % KINDS], tones.light, 0.45));
      context.lineWidth = 1.3;
      for (let dx = 0; dx < scale; dx += 8) {
        for (let dy = 0; dy < scale; dy += 8) {
          context.save();
          context.translate(dx, dy);
          context.stroke(textures[b % KINDS]);
          context.restore();
        }
      }
      context.fillStyle = tones.ink;
      context.font = `650 ${scale >= 20 ? 13 : 11}px system-ui, sans-serif`;
      context.fillText(String(b + 1), scale / 2 - 1, scale / 2 - 0.5, scale - 3);
      context.restore();
    }
  }

  /** Which cell is under a point of the window. @param {number} x @param {number} y @returns {number[] | null} */
  function hit(x, y) {
    const box = canvas.getBoundingClientRect();
    const c = Math.floor((x - box.left) / scale) - queue;
    const r = Math.floor((y - box.top) / scale);
    return c >= 0 && c < lane.C && r >= 0 && r < lane.R ? [r, c] : null;
  }
  return { el, resize, show, hit };
}

/** Patterns of the four kinds, for the curve and the legend. @param {string} prefix */
const patterns = (prefix) => TEXTURES.map((path, kind) => s("pattern", { id: `${prefix}-kind-${kind}`, width: 8, height: 8, patternUnits: "userSpaceOnUse" },
  s("rect", { width: 8, height: 8, class: `ba-fill-${kind}` }), s("path", { d: path, class: `ba-texture ba-texture-${kind}` })));

/**
 * The cells at work by cycle, batch upon batch, with the phases under them; what is to come is faint.
 * @param {Lane} lane
 * @param {{prefix: string, cycles: number, high: number}} setting `cycles`: the length of the axis, the same in every lane
 */
function makeCurve(lane, { prefix, cycles, high: tall }) {
  const edge = s("rect", { y: -4, height: tall + 12 });
  const past = s("g", { "clip-path": `url(#${prefix}-past)` });
  const rest = s("g", { class: "ba-to-come" });
  const band = s("g", {});
  const axis = s("path", { class: "ba-axis" });
  const playhead = s("path", { class: "ba-playhead" });
  const scale = s("text", { class: "ba-note", x: 0, y: -4 }, `${number(lane.R * lane.C)} cells`);
  const svg = s("svg", { class: "ba-curve", role: "img", "aria-label": `Cells at work in each cycle, of ${lane.R * lane.C}, by batch` },
    s("defs", {}, s("clipPath", { id: `${prefix}-past` }, edge), ...patterns(prefix)), s("g", { transform: "translate(0 16)" }, axis, rest, past, band, playhead, scale));
  let wide = 0;
  let cycle = 0;
  /** @param {number} t */
  const x = (t) => (wide * t) / cycles;
  /** @param {number} v */
  const y = (v) => tall - (tall * v) / (lane.R * lane.C);

  /** Outlines of the batches, each standing on those before it. */
  function areas() {
    const every = Math.max(1, Math.floor(cycles / Math.max(1, 2 * wide)));
    const floor = new Float64Array(Math.ceil(lane.T / every));
    return lane.batches.map((/** @type {number} */ _, /** @type {number} */ b) => {
      let [top, back, any] = ["", "", false];
      floor.forEach((low, bin) => {
        const [from, to] = [bin * every, Math.min((bin + 1) * every, lane.T)];
        let sum = 0;
        for (let t = from; t < to; t++) sum += lane.busyOn(t, b);
        const high = low + sum / (to - from);
        any ||= sum > 0;
        top += `${bin ? "L" : "M"}${x(from).toFixed(2)} ${y(high).toFixed(2)}H${x(to).toFixed(2)}`;
        back = `L${x(to).toFixed(2)} ${y(low).toFixed(2)}H${x(from).toFixed(2)}${back}`;
        floor[bin] = high;
      });
      return any ? `${top}${back}z` : "";
    });
  }

  /** Stretches of one phase. */
  function stretches() {
    /** @type {{from: number, to: number, phase: string}[]} */
    const all = [];
    for (let t = 0; t < lane.T; t++) {
      const phase = lane.phase(t);
      const last = all[all.length - 1];
      if (last?.phase === phase) last.to = t + 1;
      else all.push({ from: t, to: t + 1, phase });
    }
    return all;
  }

  return {
    svg,
    /** @param {number} width */
    resize(width) {
      wide = width;
      set(svg, { width: wide, height: tall + 50 });
      const paths = areas();
      for (const group of [past, rest]) {
        group.replaceChildren(...paths.map((/** @type {string} */ d, /** @type {number} */ b) => s("path", { d, class: "ba-area", fill: `url(#${prefix}-kind-${b % KINDS})` })));
      }
      set(axis, { d: `M0 0.5H${x(lane.T)}M0 ${tall + 0.5}H${wide}` });
      band.replaceChildren(...stretches().flatMap(({ from, to, phase }) => {
        const [left, right, up, low] = [x(from), x(to), tall + 4, tall + 13];
        const shape = /** @type {Record<string, string>} */ ({
          load: `M${left} ${up}H${right}V${low}H${left}z`, fill: `M${left} ${low}L${right} ${up}V${low}z`,
          steady: `M${left} ${up}H${right}V${low}H${left}z`, drain: `M${left} ${up}L${right} ${low}H${left}z`,
        })[phase];
        const room = right - left > 6.6 * phase.length + 4;
        return [s("path", { d: shape, class: `ba-phase ba-${phase}` }),
          ...(room ? [s("text", { class: "ba-note", x: left + 1, y: low + 14 }, phase)] : [])];
      }));
      this.show(cycle);
    },
    /** @param {number} t */
    show(t) {
      cycle = t;
      set(edge, { width: x(own(lane, t) + 1) });
      set(playhead, { d: `M${x(Math.min(t, cycles) + 0.5).toFixed(2)} -6V${tall + 14}` });
    },
  };
}

// ------------------------------------------------------------------------------------------ render

/**
 * @param {Lane[]} lanes @param {number} cycles
 * @param {import("./kit/stage.js").Tools} tools
 * @returns {import("./kit/stage.js").Picture}
 */
function mount(lanes, cycles, { signal, still, prefix, select, point }) {
  const views = lanes.map((lane) => {
    const strip = makeStrip(lane, lane.i === 0 && !still);
    const curve = makeCurve(lane, { prefix: `${prefix}-${lane.i}`, cycles, high: lanes.length > 1 || still ? 56 : 96 });
    const now = h("span", { class: "ba-now" });
    const share = h("b", { class: "ba-share" });
    const el = h("section", { class: "ba-lane" },
      h("header", {}, lanes.length > 1 && h("h4", {}, laneName(lane)), now, share), strip.el, curve.svg);
    return { lane, strip, curve, now, share, el };
  });
  const el = h("div", { class: "ba" }, ...views.map((view) => view.el));
  const resize = (/** @type {number} */ width) => {
    const place = layout(lanes, width);
    for (const { strip, curve } of views) {
      strip.resize(place);
      curve.resize(width);
    }
  };
  const show = (/** @type {import("./kit/stage.js").Frame} */ { cycle: t, selected, theme }) => {
    for (const { lane, strip, curve, now, share, el: whole } of views) {
      const over = t >= lane.T;
      set(whole, { "data-ended": over || null });
      write(now, over ? `ended after ${counted(lane.T, "cycle")}` : lanes.length > 1 ? `${lane.phase(t)}, cycle ${t} (0 to ${lane.T - 1})` : "");
      write(share, `utilisation ${over ? "" : "so far "}${percent(lane.utilization(own(lane, t)))}`);
      strip.show(t, theme, selected[0] === lane.i ? selected.slice(1) : []);
      curve.show(t);
    }
  };
  if (still) return { el, resize, show };

  /** @param {MouseEvent} event @returns {number[] | null} */
  const under = (event) => {
    const view = views.find(({ el: whole }) => whole.contains(/** @type {Node} */ (event.target)));
    const cell = view?.strip.hit(event.clientX, event.clientY);
    return view && cell ? [view.lane.i, ...cell] : null;
  };
  el.addEventListener("pointermove", (event) => {
    if (event.pointerType !== "touch") point(under(event));
  }, { signal });
  el.addEventListener("pointerleave", () => point(null), { signal });
  el.addEventListener("click", (event) => select(under(event) ?? []), { signal });

  const bill = comparison({
    title: "ledger: so far / at the end", rows: counters(lanes),
    names: lanes.map((lane) => (lanes.length > 1 ? `lane ${lane.i + 1}` : "")),
  });
  return {
    el,
    panels: [bill.el],
    legend: makeLegend(lanes, prefix),
    resize,
    show(frame) {
      show(frame);
      bill.show(frame.cycle);
    },
  };
}

/** @param {Lane[]} lanes @param {string} prefix */
function makeLegend(lanes, prefix) {
  const most = Math.max(...lanes.map((lane) => lane.B));
  /** @param {...Node} children */
  const mark = (...children) => s("svg", { width: 22, height: 16, viewBox: "0 0 22 16", "aria-hidden": "true" }, ...children);
  const kinds = [0, 1, 2, 3].slice(0, Math.min(most, KINDS)).map((kind) => ({
    mark: mark(...(kind ? [] : [s("defs", {}, ...patterns(`${prefix}-key`))]), s("rect", { width: 22, height: 16, fill: `url(#${prefix}-key-kind-${kind})` })),
    text: most === 1 ? "rows of A, and cells at work on them" : `batch ${kind + 1}${most > KINDS ? `, ${kind + 1 + KINDS}, …` : ""}`,
  }));
  return legend([...kinds,
    { mark: mark(s("rect", { x: 0.5, y: 0.5, width: 21, height: 15, class: "ba-box" }), s("path", { d: "M3 16L15 0M11 16L22 2M0 9L7 0", class: "ba-idle" })), text: "idle cell" },
    { mark: mark(s("path", { d: "M1 3H21V12H1z", class: "ba-phase ba-load" })), text: "load" },
    { mark: mark(s("path", { d: "M1 12L21 3V12z", class: "ba-phase ba-fill" })), text: "fill" },
    { mark: mark(s("path", { d: "M1 3H21V12H1z", class: "ba-phase ba-steady" })), text: "steady" },
    { mark: mark(s("path", { d: "M1 3L21 12H1z", class: "ba-phase ba-drain" })), text: "drain" },
    { mark: mark(s("path", { d: "M11 0V16", class: "ba-playhead" })), text: "the present cycle" }]);
}

/** @param {import("./kit/wire.js").Packed} packed @returns {import("./kit/stage.js").Scene} */
function open(packed) {
  const { header } = packed;
  const lanes = header.lanes.map((/** @type {unknown} */ _, /** @type {number} */ i) => readLane(packed, i));
  const T = header.cycles;
  const spread = [0, ...header.chapters.map((/** @type {{cycle: number}} */ chapter, /** @type {number} */ i) =>
    Math.floor((chapter.cycle + (header.chapters[i + 1]?.cycle ?? T)) / 2)), T - 1];
  const stills = [...new Set(/** @type {number[]} */ (spread))].sort((x, y) => x - y);
  const rule = "Rule: B stays; rows of A stream through, one cell a cycle, each array row one cycle after the row above; the next batch may follow at once.";
  const overlap = lanes.some((/** @type {Lane} */ lane) => lane.overlap);
  const [{ R, C }] = lanes;
  return {
    title: `${lanes.length === 1 ? capital(lanes[0].name) : `What a batch costs: ${lanes.length} lanes on one clock`} (weight-stationary array, ${R} × ${C})`,
    rule,
    simplified: "Cycles are counted from 0. Simplified: operands are always there in time (no memory)"
      + (overlap ? "; where the next weights are loaded meanwhile, each cell has a second register for them." : "; new weights are loaded only when the fold before has ended."),
    cycles: T,
    rate: T <= 64 ? 2 : T <= 200 ? 8 : 30,
    chapters: header.chapters,
    stills: stills.length <= 6 ? stills : [0, 1, 2, 3, 4, 5].map((i) => stills[Math.round((i * (stills.length - 1)) / 5)]),
    phase: (t) => lanes.map((/** @type {Lane} */ lane) => `${lanes.length > 1 ? `lane ${lane.i + 1} ` : ""}${phaseOf(lane, t)}`).join(", "),
    mount: (tools) => mount(lanes, T, tools),
    caption: (t, at) => (at.length === 3 ? describeCell(lanes, t, at) : frameWords(lanes, t)),
    table: (t) => tableOf(lanes, t),
    move(at, key) {
      if (at.length !== 3) return [0, 0, 0];
      const [i, r, c] = at;
      if (key === "ArrowLeft" || key === "ArrowRight") return [i, r, Math.max(0, Math.min(lanes[i].C - 1, c + (key === "ArrowLeft" ? -1 : 1)))];
      const next = r + (key === "ArrowUp" ? -1 : 1);
      // Through the edge of one lane into the next, so that the arrows reach all.
      if (next < 0) return i > 0 ? [i - 1, lanes[i - 1].R - 1, Math.min(c, lanes[i - 1].C - 1)] : at;
      if (next >= lanes[i].R) return i + 1 < lanes.length ? [i + 1, 0, Math.min(c, lanes[i + 1].C - 1)] : at;
      return [i, next, c];
    },
    pictureLabel: "Stream and cells of each lane; arrow keys move a cell cursor",
    python: header.python,
    help: [
      rule,
      "Skew: the stream is a parallelogram, because array row r gets its element r cycles after row 0. Fill: its slanted front passes through the array. Drain: its slanted end does.",
      "Load, fill and drain take the same cycles however many rows pass: the more rows, the less they matter. A batch that follows at once pays neither fill nor drain of its own.",
      ...counters(lanes).map(({ label, help }) => `${capital(label)}: ${help[0].toLowerCase()}${help.slice(1)}`),
      "Point at a cell, or tab into the picture and use the arrow keys: the sentence says which row of which batch it works on.",
    ],
  };
}

export default { render: stage(open) };
