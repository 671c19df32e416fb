// A traced kernel: which source line each warp is at, what its lanes do, what memory holds, and what it has cost;
// two kernels beside each other on one clock.
//
// Three parts: words and reading (pure), draw (pure: canvases of one frame), render (wires the kit). What happens when,
// and every count, comes from the trace; here values are looked up, and writes are put in place in the order given.

import { comparison, curves } from "./kit/compare.js";
import { h, set, write } from "./kit/dom.js";
import { legend } from "./kit/panels.js";
import { stage } from "./kit/stage.js";
import { legendMarks, outline, paint, paletteOf, surface } from "./kit/states.js";
import { firstCycle } from "./kit/timeline.js";
import { capital, counted, number } from "./kit/words.js";

/** @typedef {import("./kit/wire.js").Packed} Packed */
/** @typedef {import("./kit/wire.js").Numbers} Numbers */
/** @typedef {import("./kit/states.js").Palette & {blue: string, working: string, bar: string}} Colours */
/** @typedef {{name: string, first: string, space: string, dtype: string, shape: number[], rows: number, cols: number, count: number, of: number, wrapped: boolean, written: boolean}} Memory */
/** @typedef {{values: Float64Array, state: Uint8Array}} Content `state`: 0 not defined, 1 as passed, 2 written */
/** @typedef {ReturnType<typeof reader>} Kernel */

const LANES = 32;
const [UNDEFINED, PASSED, WRITTEN] = [0, 1, 2];


// --------------------------------------------------------------------------------------------- reading

/**
 * One kernel of the trace, with what the scene asks of it.
 * @param {Packed} packed
 * @param {number} n which kernel
 */
function reader({ header, columns }, n) {
  const head = header.kernels[n];
  /** @param {string} name @returns {Numbers} */
  const column = (name) => columns[`${name}${n}`];
  const W = head.warps;
  const [state, pc, until, follow] = ["state", "pc", "until", "follow"].map(column);
  const table = Object.fromEntries(["warp", "at", "line", "text", "kind", "mask", "array", "count", "least", "latency", "place", "value"]
    .map((name) => [name, column(`i_${name}`)]));
  const issueFrame = column("issue_frame");
  /** @type {number[][]} rows of the table by warp, in program order */
  const rows = Array.from({ length: W }, () => []);
  table.warp.forEach((w, row) => { rows[w].push(row); });
  const memory = contents(head, column);
  /** @param {number} line @returns {string} */
  const code = (line) => (head.source.find((/** @type {{line: number}} */ each) => each.line === line)?.text ?? "").trim();

  const kernel = {
    n, head, table, issueFrame, column, rows, memory, code,
    name: /** @type {string} */ (head.name),
    time: columns.time,
    /** @param {number} t @returns {boolean} whether it had ended before this frame */
    ended: (t) => columns.time[t] >= head.cycles,
    /** @param {number} t @param {number[]} selected @returns {number} */
    warp: (t, selected) => (selected.length > 1 && selected[0] === n && selected[1] < W ? selected[1] : follow[t]),
    /** @param {number} t @param {number} w @returns {string} */
    state: (t, w) => (kernel.ended(t) && !head.stops ? "finished" : header.states[state[t * W + w]]),
    /** @param {number} t @param {number} w @returns {number} */
    until: (t, w) => until[t * W + w],
    /** @param {number} t @param {number} w @returns {number | null} the row it issues in this frame */
    issuing: (t, w) => (!kernel.ended(t) && header.states[state[t * W + w]] === "issues" ? rows[w][pc[t * W + w]] : null),
    /** @param {number} t @param {number} w @returns {number | null} the row it issues now or next */
    next: (t, w) => (kernel.ended(t) ? null : rows[w][pc[t * W + w]] ?? null),
    /** @param {number} t @param {number} w @returns {number | null} the row it issued last, this frame included */
    last: (t, w) => kernel.issuing(t, w) ?? rows[w][pc[t * W + w] - 1] ?? null,
    /** @param {number} t @param {number} w @returns {number | null} the line it is at */
    line(t, w) {
      const row = kernel.next(t, w);
      if (row !== null) return table.line[row];
      if (kernel.state(t, w) !== "barrier") return null;
      return table.line[rows[w][rows[w].length - 1]];
    },
    /** @param {number} row @returns {boolean} */
    loads: (row) => header.what[table.kind[row]] === "load",
    /** @param {number} row @returns {Numbers | null} the elements of its lanes */
    places: (row) => (table.place[row] < 0 ? null : column("places").subarray(table.place[row] * LANES, (table.place[row] + 1) * LANES)),
    /** @param {number} row @returns {Numbers | null} the values of its lanes */
    values: (row) => (table.value[row] < 0 ? null : column("values").subarray(table.value[row] * LANES, (table.value[row] + 1) * LANES)),
    /** @param {number} a @param {number} w @returns {number} whose copy of an array a warp sees */
    owner: (a, w) => ({ global: 0, shared: head.blocks[w], local: head.owner[w] })[/** @type {"global" | "shared" | "local"} */ (head.arrays[a].space)],
    /** @param {number} t @param {number} line @returns {number[]} instructions, lanes off, sectors, least, wavefronts, least */
    cost(t, line) {
      const L = head.lines.length;
      const at = head.lines.indexOf(line);
      return at < 0 ? [] : Array.from({ length: 6 }, (_, i) => column("line_score")[(t * L + at) * 6 + i]);
    },
    /** @param {number} t @param {string} what @returns {number} */
    score: (t, what) => column("score")[t * header.score.length + header.score.indexOf(what)],
  };
  return kernel;
}

/**
 * What arrays hold in a frame: writes are put in place in the order in which they were sent.
 * @param {Packed["header"]} head @param {(name: string) => Numbers} column
 */
function contents(head, column) {
  const [frame, array, owner, place, value] = ["frame", "array", "owner", "place", "value"].map((name) => column(`change_${name}`));
  /** @type {Map<string, Content>} */
  const held = new Map();
  let next = 0;
  let shown = -1;
  /** @param {number} a @param {number} whose @returns {Content} */
  const of = (a, whose) => {
    const key = `${a} ${whose}`;
    let found = held.get(key);
    if (!found) {
      const { count, space } = head.arrays[a];
      found = { values: new Float64Array(count), state: new Uint8Array(count).fill(space === "global" ? PASSED : UNDEFINED) };
      if (space === "global") found.values.set(column(`before${a}_`));
      held.set(key, found);
    }
    return found;
  };
  /** @param {number} t @param {number} a @param {number} whose @returns {Content} */
  return (t, a, whose) => {
    if (t < shown) {
      held.clear();
      next = 0;
    }
    shown = t;
    for (; next < frame.length && frame[next] <= t; next++) {
      const into = of(array[next], owner[next]);
      into.values[place[next]] = value[next];
      into.state[place[next]] = WRITTEN;
    }
    return of(a, whose);
  };
}

/** @param {Memory} memory @param {number} place in the order of indices @returns {number[]} */
function index({ shape, space }, place) {
  let rest = space === "local" ? place % shape.reduce((product, side) => product * side, 1) : place;
  const found = [];
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    found.unshift(rest % shape[axis]);
    rest = Math.floor(rest / shape[axis]);
  }
  return found;
}

/** @param {Memory} memory @param {number} place in the order of indices @returns {string} such as a[3, 4] */
function element(memory, place) {
  const lane = memory.space === "local" ? ` of lane ${Math.floor(place / (memory.count / memory.rows))}` : "";
  return `${memory.first}[${index(memory, place).join(", ")}]${lane}`;
}

/** @param {number} mask @returns {number} */
function lanesOn(mask) {
  let count = 0;
  for (let l = 0; l < LANES; l++) count += (mask >>> l) & 1;
  return count;
}

// ----------------------------------------------------------------------------------------------- words

/**
 * A value in at most so many letters; the cell's title has all of it.
 * @param {number} value @param {number} letters @returns {string}
 */
function figure(value, letters) {
  const text = Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
  const shorter = [3, 2, 1, 0].map((digits) => value.toExponential(digits).replace("e+", "e"));
  return [text, ...shorter].find((each) => each.length <= letters) ?? shorter[3];
}

/** @param {Kernel} kernel @param {number} w @returns {string} */
function named({ head }, w) {
  const label = head.blocks.some((/** @type {number} */ b) => b !== head.blocks[0]) ? ` (w${w})` : "";
  return `warp ${head.warp_in_block[w]} of block ${head.blocks[w]}${label}`;
}

/** @param {Kernel} kernel @param {number} line @returns {string} */
const quoted = (kernel, line) => `line ${line}, \u201c${kernel.code(line)}\u201d`;

/** What a warp does with an instruction. @param {Packed["header"]} header @param {Kernel} kernel @param {number} row @param {number} w @returns {string} */
function effect(header, kernel, row, w) {
  const { table, head } = kernel;
  const what = header.what[table.kind[row]];
  const on = lanesOn(table.mask[row]);
  const off = head.lanes[w] - on;
  const lanes = `${counted(on, "lane")}${off ? ` (${off} masked off)` : ""}`;
  if (what === "barrier") return "it arrives at the block's barrier";
  if (what === "warp barrier") return `${lanes} meet`;
  if (what === "branch") {
    const values = kernel.values(row);
    if (!values) return `${lanes} decide`;
    let yes = 0;
    for (let l = 0; l < LANES; l++) yes += (table.mask[row] >>> l) & 1 && values[l] ? 1 : 0;
    return `it holds in ${yes} of ${lanes}`;
  }
  const memory = /** @type {Memory | undefined} */ (head.arrays[table.array[row]]);
  if (!memory) return `${lanes} compute ${head.texts[table.text[row]]}`;
  const verb = what === "load" ? "read" : what === "store" ? "write" : "change";
  const count = table.count[row];
  const least = table.least[row];
  if (memory.space === "local") return `${lanes} ${verb} their own ${memory.name}`;
  if (count < 0) return `${lanes} ask for elements that ${memory.name} does not have`;
  const [unit, would] = memory.space === "global" ? ["sector", "hold these bytes"] : ["wavefront", "do without a bank conflict"];
  const told = `${counted(count, unit)}${count > least ? `, where ${least} would ${would}` : ""}`;
  return memory.space === "global" ? `${lanes} ${verb} ${memory.name}: ${told}` : `${lanes} ${verb} ${memory.name} in ${told}`;
}

/** What waits are called after a warp's name. @type {Record<string, string>} */
const WAITS = {
  memory: "waits for memory", result: "waits for a result", unit: "waits for a busy unit", limit: "waits, with too many loads in flight",
  barrier: "waits at the barrier", ready: "is ready, but its scheduler issues another warp",
  pending: "has its operands, but is outside the active pool", finished: "has finished",
};

/**
 * What one warp does in a frame: caption, lanes and table use it.
 * @param {Packed["header"]} header @param {Kernel} kernel @param {number} t @param {number} w @returns {string}
 */
function describe(header, kernel, t, w) {
  const { head, table, time } = kernel;
  const row = kernel.issuing(t, w);
  if (row !== null) {
    const lands = kernel.loads(row) ? `; it lands in cycle ${number(time[t] + table.latency[row])}` : "";
    return `${named(kernel, w)} issues ${quoted(kernel, table.line[row])}: ${effect(header, kernel, row, w)}${lands}.`;
  }
  const state = kernel.state(t, w);
  const until = kernel.until(t, w);
  const line = kernel.line(t, w);
  if (state === "barrier" && kernel.next(t, w) === null && head.stops) {
    return `${named(kernel, w)} waits at a barrier that never opens: ${quoted(kernel, line ?? 0)}.`;
  }
  const ends = until >= 0 && state !== "finished" ? ` until cycle ${number(until)}` : "";
  return `${named(kernel, w)} ${WAITS[state]}${ends}${line === null || state === "finished" ? "" : `; it is at ${quoted(kernel, line)}`}.`;
}


/** @param {Packed["header"]} header @param {Kernel[]} kernels @param {number} t @param {number[]} selected @returns {string[]} */
function caption(header, kernels, t, selected) {
  const two = kernels.length > 1;
  return kernels.map((kernel) => {
    const { head } = kernel;
    if (kernel.ended(t)) {
      return `${capital(kernel.name)} ${head.stops ? "stopped" : "has ended"}: it took ${counted(head.cycles, "cycle")}.`;
    }
    const w = kernel.warp(t, selected);
    const words = describe(header, kernel, t, w);
    const others = issuers(kernel, t).filter((v) => v !== w);
    const too = others.length ? ` ${listed(others)} issue${others.length === 1 ? "s" : ""} too.` : "";
    const row = kernel.issuing(t, w);
    const problem = row === null ? null : head.problems.find((/** @type {{lines: number[]}} */ p) => p.lines.includes(kernel.table.line[row]));
    const wrong = problem ? ` This line is part of what went wrong: ${problem.kind}.` : "";
    return `${two ? `${capital(kernel.name)}: ${words}` : capital(words)}${too}${wrong}`;
  });
}

/** @param {Kernel} kernel @param {number} t @returns {number[]} the warps that issue in a frame */
function issuers(kernel, t) {
  return kernel.rows.flatMap((_, w) => (kernel.issuing(t, w) === null ? [] : [w]));
}

/** @param {number[]} warps @returns {string} such as w1, w2 and w3 */
function listed(warps) {
  const words = warps.map((w) => `w${w}`);
  return words.length === 1 ? words[0] : `${words.slice(0, -1).join(", ")} and ${words[words.length - 1]}`;
}

/** @param {number[]} warps ascending @returns {string} neighbours together: w0–3 w6 */
function ranges(warps) {
  /** @type {[number, number][]} */
  const runs = [];
  for (const w of warps) {
    const last = runs[runs.length - 1];
    if (last && w === last[1] + 1) last[1] = w;
    else runs.push([w, w]);
  }
  return runs.map(([a, b]) => (a === b ? `w${a}` : `w${a}\u2013${b}`)).join(" ");
}

/** @param {Kernel} kernel @param {number} t @returns {Map<number, {now: number[], wait: number[]}>} the warps at each line */
function standing(kernel, t) {
  /** @type {Map<number, {now: number[], wait: number[]}>} */
  const found = new Map();
  kernel.rows.forEach((_, w) => {
    const line = kernel.line(t, w);
    if (line === null) return;
    const here = found.get(line) ?? { now: [], wait: [] };
    found.set(line, here);
    (kernel.issuing(t, w) === null ? here.wait : here.now).push(w);
  });
  return found;
}

/** @param {number} count @param {number} least @returns {string} such as 128 (16) */
const ofLeast = (count, least) => (count ? `${number(count)} (${number(least)})` : "");

/** A line's score in a few words. @param {number[]} cost @returns {string} */
function told([issued, off, sectors, leastSectors, waves, leastWaves]) {
  if (!issued) return "";
  const parts = [`${number(issued)} instr.`, off ? `${number(off)} lanes off` : "", sectors ? `${ofLeast(sectors, leastSectors)} sectors` : "", waves ? `${ofLeast(waves, leastWaves)} wavefronts` : ""];
  return parts.filter(Boolean).join(" \u00b7 ");
}

/** @param {Packed["header"]} header @param {Kernel[]} kernels @param {number} t */
function frameTable(header, kernels, t) {
  const cycle = kernels[0].time[t];
  const rows = kernels.flatMap((kernel) => {
    const there = standing(kernel, t);
    return kernel.head.lines.map((/** @type {number} */ line) => {
      const { now, wait } = there.get(line) ?? { now: [], wait: [] };
      const [issued, off, ...traffic] = kernel.cost(t, line);
      return [line, kernel.name, kernel.code(line), ranges(now) || "-", ranges(wait) || "-", issued, off, ...traffic];
    });
  });
  return {
    caption: `Cycle ${cycle}: where the warps are, and what each line has cost so far`,
    head: ["line", "kernel", "source", "issue it now", "wait at it", "instructions", "lanes off", "sectors", "least", "wavefronts", "least"],
    rows,
  };
}

// ------------------------------------------------------------------------------------------------ draw

const [CELL, WIDEST_CELL] = [9, 18]; // a frame in the strip; few frames are drawn wider
const STRIP_TOP = 15;

/** @param {number} warps @returns {number} height of a warp in the strip */
function pitchOf(warps) {
  return warps <= 4 ? 15 : warps <= 8 ? 11 : warps <= 16 ? 8 : warps <= 32 ? 5 : 3;
}

/** @param {number} wide @param {number} frames @param {number} warps where the strip lies, in CSS pixels */
function stripLayout(wide, frames, warps) {
  const label = 30;
  const pitch = pitchOf(warps);
  const cell = Math.max(CELL, Math.min(WIDEST_CELL, Math.floor((wide - label - 2) / frames)));
  const count = Math.max(4, Math.min(frames, Math.floor((wide - label - 2) / cell)));
  return { wide, label, pitch, cell, count, frames, every: Math.ceil(12 / pitch), height: STRIP_TOP + warps * pitch + 20 };
}

/** The first frame of the strip. @param {{count: number, frames: number}} at @param {number} t @returns {number} */
const firstFrame = ({ count, frames }, t) => firstCycle({ count, cycles: frames }, t);

/**
 * @param {CanvasRenderingContext2D} to @param {ReturnType<typeof stripLayout>} at @param {Kernel} kernel
 * @param {{t: number, warp: number, colours: Colours, hidden: boolean, sans: string, mono: string}} frame
 */
function drawStrip(to, at, kernel, { t, warp, colours, hidden, sans, mono }) {
  const first = firstFrame(at, t);
  const end = Math.min(at.frames, first + at.count);
  to.clearRect(0, 0, at.wide, at.height);
  to.textBaseline = "middle";
  kernel.rows.forEach((_, w) => {
    const y = STRIP_TOP + w * at.pitch;
    if (w === warp) {
      to.fillStyle = colours.panel;
      to.fillRect(0, y, at.label + at.count * at.cell, at.pitch);
    }
    if (w === warp || (w % at.every === 0 && Math.abs(w - warp) >= at.every)) {
      to.fillStyle = w === warp ? colours.now : colours.muted;
      to.font = `${w === warp ? "700 " : ""}11px ${mono}`;
      to.textAlign = "right";
      to.fillText(`w${w}`, at.label - 4, y + at.pitch / 2 + 0.5);
    }
    for (let f = first; f < (hidden ? Math.min(end, t + 1) : end); f++) {
      const row = kernel.issuing(f, w);
      const on = row === null ? LANES : lanesOn(kernel.table.mask[row]);
      paint(to, colours, kernel.state(f, w), at.label + (f - first) * at.cell, y + 0.5, at.cell - 1, at.pitch - 1.5, on);
    }
  });
  const bottom = STRIP_TOP + kernel.rows.length * at.pitch;
  const here = at.label + (t - first) * at.cell;
  if (!hidden && t + 1 < end) {
    to.globalAlpha = 0.62;
    to.fillStyle = colours.paper;
    to.fillRect(here + at.cell, STRIP_TOP, (end - t - 1) * at.cell, bottom - STRIP_TOP);
    to.globalAlpha = 1;
  }
  to.font = `11px ${sans}`;
  to.textAlign = "center";
  to.fillStyle = colours.muted;
  const told = hidden ? Math.min(end, t + 1) : end;
  for (let f = first + 1; f < told; f++) { // between two frames: a slash where cycles are left out
    if (kernel.time[f] - kernel.time[f - 1] === 1) continue;
    slash(to, at.label + (f - first) * at.cell - 0.5, bottom + 2);
  }
  const every = Math.ceil(56 / at.cell);
  for (let f = Math.ceil(first / every) * every; f < told; f += every) {
    const x = at.label + (f - first + 0.5) * at.cell;
    const text = number(kernel.time[f]);
    const half = to.measureText(text).width / 2;
    to.fillText(text, Math.max(at.label + half, Math.min(x, at.wide - half)), bottom + 13);
  }
  outline(to, colours.now, here - 1.5, STRIP_TOP - 2, at.cell + 2, bottom - STRIP_TOP + 4, 2);
  to.fillStyle = colours.now;
  to.font = `700 11px ${sans}`;
  const said = `cycle ${number(kernel.time[t])}`;
  const half = to.measureText(said).width / 2;
  to.fillText(said, Math.max(at.label + half, Math.min(here + at.cell / 2, at.wide - half)), 6);
}

/** Where the strip leaves cycles out. @param {CanvasRenderingContext2D} to @param {number} x @param {number} y */
function slash(to, x, y) {
  to.strokeStyle = to.fillStyle;
  to.lineWidth = 1;
  to.beginPath();
  to.moveTo(x - 2, y + 4);
  to.lineTo(x + 2, y);
  to.stroke();
}

const TEXT = 11;

const GAP = 18;
const FIGCAPTION = 20;
const SIDES = [10, 9, 8, 7, 6, 5, 4, 3, 2, 1];

/** @typedef {{text: boolean, w: number, h: number, width: number, height: number}} Grid */

/** One array with its values, or as a map with cells of so many pixels. @param {Memory} memory @param {number} letters @param {boolean} text @param {number} side @returns {Grid} */
function gridLayout({ rows, cols }, letters, text, side) {
  const [w, hi] = text ? [Math.max(16, letters * 6.7 + 5), 16] : [side, side];
  return { text, w, h: hi, width: Math.ceil(cols * w) + 1, height: rows * hi + 1 };
}

/**
 * How a kernel's arrays share the room: with their values where that fits into the height, outputs before inputs, the rest as maps.
 * @param {Memory[]} memories @param {number[]} letters of each one's widest value @param {number} wide @param {number} high
 * @returns {Grid[]}
 */
function memoryLayout(memories, letters, wide, high) {
  const readable = memories.map(({ rows, cols }, a) => cols * Math.max(16, letters[a] * 6.7 + 5) + 1 <= wide && rows <= 20);
  const rank = memories.map((memory, a) => [memory.written && memory.space === "global" ? 0 : memory.written ? 1 : 2, memory.count, a]);
  const order = rank.sort((one, other) => other[0] - one[0] || other[1] - one[1]).map((each) => each[2]); // who becomes a map first
  for (let maps = 0; maps <= memories.length; maps++) {
    const mapped = new Set(order.slice(0, maps));
    for (const side of SIDES) {
      const grids = memories.map((memory, a) => gridLayout(memory, letters[a], readable[a] && !mapped.has(a), side));
      const few = maps < memories.length ? side < 5 : side === 1;
      if (grids.every((grid) => grid.width <= wide) && (flowHeight(grids, wide) <= high || (few && maps === memories.length))) return grids;
      if (few) break;
    }
  }
  return memories.map((memory, a) => gridLayout(memory, letters[a], false, 1));
}

/** @param {Grid[]} grids @param {number} wide @returns {number} the height they take, one beside the other and broken into rows */
function flowHeight(grids, wide) {
  let [x, row, total] = [0, 0, 0];
  for (const { width, height } of grids) {
    if (x && x + width > wide) {
      total += row;
      [x, row] = [0, 0];
    }
    x += Math.max(width, 78) + GAP;
    row = Math.max(row, height + FIGCAPTION);
  }
  return total + row;
}

/**
 * @param {CanvasRenderingContext2D} to @param {Grid} at @param {Memory} memory @param {Content} content
 * @param {{places: Numbers | null, writes: boolean, letters: number, colours: Colours, mono: string}} frame
 */
function drawGrid(to, at, memory, content, { places, writes, letters, colours, mono }) {
  to.clearRect(0, 0, at.width, at.height);
  const gap = at.w >= 4 ? 1 : 0;
  const touched = new Set(places ? Array.from(places).filter((p) => p >= 0) : []);
  to.textAlign = "center";
  to.textBaseline = "middle";
  for (let i = 0; i < memory.count; i++) {
    const [x, y] = [(i % memory.cols) * at.w, Math.floor(i / memory.cols) * at.h];
    const state = content.state[i];
    const hit = touched.has(i);
    const [wide, high] = [at.w - gap, at.h - gap];
    to.fillStyle = hit ? (writes ? colours.now : colours.blue) : state === WRITTEN ? (at.text ? colours.working : colours.bar) : state === PASSED && !at.text ? colours.hairline : colours.panel;
    to.fillRect(x + gap, y + gap, wide, high);
    if (state === UNDEFINED && !hit && at.w >= 4) {
      to.fillStyle = colours.bar;
      to.fillRect(x + gap + wide / 2 - 1, y + gap + high / 2 - 1, 2, 2);
    }
    if (hit && writes && at.w >= 6) outline(to, colours.ink, x + gap, y + gap, wide, high, 1);
    if (at.text && state !== UNDEFINED) {
      to.font = `${state === WRITTEN || hit ? "650 " : ""}${TEXT}px ${mono}`;
      to.fillStyle = hit ? colours.paper : state === WRITTEN ? colours.ink : colours.muted;
      to.fillText(figure(content.values[i], letters), x + gap + wide / 2, y + gap + high / 2 + 0.5);
    }
  }
}

/** @param {Element} node @param {string} theme @returns {Colours} */
function coloursOf(node, theme) {
  const style = getComputedStyle(node);
  /** @param {string} name */
  const own = (name) => style.getPropertyValue(`--${name}`).trim();
  return { ...paletteOf(node, theme), blue: own("blue"), working: own("working"), bar: own("bar") };
}

// ---------------------------------------------------------------------------------------------- render

const SIDE_BY_SIDE = 860; // from this width on two kernels stand beside each other
const ROOMY = 500; // from this width on a line's score stands beside it
const LONG = 16; // a source of so many lines has room for all panels beside it
const MOST_LETTERS = 6;

export default {
  render: stage((packed, options) => {
    const { header, columns } = packed;
    const kernels = header.kernels.map((/** @type {unknown} */ _, /** @type {number} */ n) => reader(packed, n));
    const hidden = options.future === "hidden";
    let shown = 0;
    return {
      title: header.title,
      rule: header.rule,
      simplified: header.simplified,
      given: header.given,
      cycles: header.frames,
      unit: "step",
      rate: 2,
      chapters: header.chapters,
      stills: header.stills,
      python: header.python,
      help: header.help,
      pictureLabel: `${header.title}; arrow keys choose a warp`,
      phase: (t) => header.chapters.filter((/** @type {{cycle: number}} */ c) => c.cycle <= t).at(-1)?.label ?? "",
      caption: (t, selected) => caption(header, kernels, t, selected),
      mark: (sentence) => sentence.split(/(\u201c[^\u201d]*\u201d)/).map((part) => (part.startsWith("\u201c") ? h("code", {}, part) : part)),
      table: (t) => frameTable(header, kernels, t),
      move(selected, key) {
        const n = selected.length > 1 ? selected[0] : 0;
        const w = kernels[n].warp(shown, selected);
        if (key === "ArrowLeft" || key === "ArrowRight") {
          const other = n + (key === "ArrowLeft" ? -1 : 1);
          return kernels[other] ? [other, Math.min(w, kernels[other].head.warps - 1)] : null;
        }
        const next = w + (key === "ArrowUp" ? -1 : 1);
        return next < 0 || next >= kernels[n].head.warps ? null : [n, next];
      },
      mount({ signal, still, select }) {
        const parts = kernels.map((/** @type {Kernel} */ kernel) => kernelPicture(header, kernel, { still, signal, select, hidden }));
        const lanes = still ? [] : kernels.map((/** @type {Kernel} */ kernel) => lanePanel(header, kernel, kernels.length > 1));
        const el = h("div", { class: "kn", "data-kernels": kernels.length }, ...parts.map((/** @type {{el: HTMLElement}} */ part) => part.el));
        const bill = scorePanel(packed, kernels);
        const wrong = kernels.flatMap((/** @type {Kernel} */ kernel) => kernel.head.problems.map((/** @type {{kind: string, text: string, lines: number[]}} */ p) => ({ ...p, of: kernel.name })));
        const problems = wrong.length ? problemPanel(wrong, kernels.length > 1) : null;
        const traffic = still || hidden ? null : sectorCurves(packed, kernels, signal);
        const sides = lanes.map((/** @type {{el: HTMLElement}} */ l) => l.el);
        const rest = [bill.el, ...(traffic ? [traffic.el] : [])];
        const beside = kernels.length === 1 ? [problems?.el, ...sides] : [];
        const below = kernels.length === 1 ? [] : [problems?.el, bill.el, ...sides, ...rest.slice(1)];
        (kernels.length === 1 && kernels[0].head.source.length >= LONG ? beside : below).push(...(kernels.length === 1 ? rest : []));
        const marks = legendMarks(statesPresent(packed), kernels.flatMap((/** @type {Kernel} */ kernel) => Array.from(kernel.table.mask, lanesOn)));
        const touches = [["kn-read", "read now"], ["kn-write", "written now"], ["kn-done", "written before"], ["kn-passed", "as passed"], ["kn-none", "not yet defined"]]
          .map(([mark, text]) => ({ mark: h("i", { class: `kn-key ${mark}`, "aria-hidden": "true" }), text }));
        const here = { mark: h("b", { class: "kn-issue", "aria-hidden": "true" }, "w0"), text: "issues this line now" };
        const gap = skips(columns.time) ? [{ mark: h("b", { class: "kn-slash", "aria-hidden": "true" }, "/"), text: "cycles left out in which nothing changes" }] : [];
        return {
          el,
          legend: h("div", {}, legend([here, ...touches, ...marks.entries, ...gap])),
          // One kernel has panels beside it, as many as its source is long; what is read at rest stands below the transport.
          panels: still ? [] : beside.filter((x) => x !== undefined),
          after: still || !below.length ? undefined : h("div", { class: "kn-below" }, ...below),
          resize(wide) {
            const two = kernels.length > 1 && wide >= SIDE_BY_SIDE;
            set(el, { "data-beside": two });
            const lines = kernels.map((/** @type {Kernel} */ kernel) => kernel.head.source.length);
            parts.forEach((/** @type {ReturnType<typeof kernelPicture>} */ part, /** @type {number} */ n) => {
              if (two) part.resize(Math.floor((wide - 28) / 2), 150 + 20 * (Math.max(...lines) - lines[n])); // the shorter source leaves room
              else part.resize(wide, kernels.length > 1 || wide < ROOMY ? 200 : 330);
            });
          },
          show(frame) {
            if (!still) shown = frame.cycle;
            parts.forEach((/** @type {ReturnType<typeof kernelPicture>} */ part) => part.show(frame));
            if (still) return;
            marks.show(paletteOf(el, frame.theme));
            bill.show(frame.cycle);
            lanes.forEach((/** @type {{show: (t: number, s: number[]) => void}} */ panel) => panel.show(frame.cycle, frame.selected));
            traffic?.show(columns.time[frame.cycle]);
          },
        };
      },
    };
  }),
};

/** @param {Numbers} time @returns {boolean} whether the frames leave cycles out */
const skips = (time) => Array.prototype.some.call(time, (t, f) => f > 0 && t - time[f - 1] > 1);

/** @param {Packed} packed @returns {Set<string>} the states that occur, so that the legend names no others */
function statesPresent({ header, columns }) {
  return new Set(header.kernels.flatMap((/** @type {unknown} */ _, /** @type {number} */ n) =>
    Array.from(new Set(columns[`state${n}`]), (code) => header.states[code])));
}

/**
 * The picture of one kernel: its source with where the warps are and what each line has cost, the warps over time, memory.
 * @param {Packed["header"]} header @param {Kernel} kernel
 * @param {{still: boolean, signal: AbortSignal, select: (place: number[]) => void, hidden: boolean}} tools
 */
function kernelPicture(header, kernel, { still, signal, select, hidden }) {
  const { head } = kernel;
  const now = h("b", { class: "pw-now" });
  const source = sourceList(kernel);
  const strip = h("canvas", { class: "kn-strip", role: "img" });
  const grids = head.arrays.map((/** @type {Memory} */ memory, /** @type {number} */ a) => gridOf(kernel, memory, a, signal));
  const spaces = ["global", "shared", "local"].flatMap((space) => {
    const mine = grids.filter((/** @type {unknown} */ _, /** @type {number} */ a) => head.arrays[a].space === space);
    const label = h("p", {}, `${space} memory`);
    return mine.length ? [{ space, label, el: h("div", { class: "kn-space" }, label, h("div", { class: "kn-arrays" }, ...mine.map((/** @type {{el: HTMLElement}} */ grid) => grid.el))) }] : [];
  });
  const memory = h("div", { class: "kn-memory" }, ...spaces.map((each) => each.el));
  const el = h("section", { class: "kn-kernel", "data-kernel": kernel.name },
    h("header", {}, h("h4", {}, kernel.name), now), source.el, memory, strip);
  let at = stripLayout(480, header.frames, head.warps);
  let t = 0;
  strip.addEventListener("click", (event) => {
    const w = Math.floor((event.offsetY - STRIP_TOP) / at.pitch);
    if (w >= 0 && w < head.warps) select([kernel.n, w]);
  }, { signal });
  return {
    el,
    /** @param {number} wide @param {number} high what memory may take */
    resize(wide, high) {
      at = stripLayout(wide, header.frames, head.warps);
      set(el, { "data-roomy": wide >= ROOMY && !still });
      // On a phone a long source scrolls by itself, so that memory and the sentence stay near it.
      const scrolls = wide < ROOMY && !still && head.source.length >= LONG;
      set(source.el, { "data-scrolls": scrolls, tabindex: scrolls ? 0 : null, "aria-label": `source of ${kernel.name}` });
      const shares = memoryLayout(head.arrays, grids.map((/** @type {{letters: number}} */ grid) => grid.letters), wide, high);
      grids.forEach((/** @type {{resize: (grid: Grid) => void}} */ grid, /** @type {number} */ a) => grid.resize(shares[a]));
    },
    /** @param {import("./kit/stage.js").Frame} frame */
    show(frame) {
      t = frame.cycle;
      const w = kernel.warp(t, frame.selected);
      const row = kernel.issuing(t, w);
      const colours = coloursOf(el, frame.theme);
      const style = getComputedStyle(el);
      const [sans, mono] = [style.getPropertyValue("--sans"), style.getPropertyValue("--mono")];
      const cycle = number(kernel.time[t]);
      write(now, kernel.ended(t) ? `${head.stops ? "stopped" : "ended"} after ${counted(head.cycles, "cycle")}` : `cycle ${cycle}`);
      source.show(t, w);
      drawStrip(surface(strip, at.wide, at.height), at, kernel, { t, warp: w, colours, hidden, sans, mono });
      set(strip, { "aria-label": `The states of ${counted(head.warps, "warp")} around cycle ${cycle}`, "data-first": firstFrame(at, t), "data-warp": w });
      for (const grid of grids) grid.show(t, w, row, colours, mono);
      for (const { space, label } of spaces) write(label, `${space} memory${space === "shared" ? ` of block ${head.blocks[w]}` : space === "local" ? ` of w${w}, a row for each lane` : ""}`);
      set(el, { "data-ended": kernel.ended(t), "data-warp": w, "data-row": row ?? "" });
    },
  };
}

const TITLES = [
  ["", ""], ["source", ""], ["warps here", "The warps that are at this line; in orange those that issue it now."],
  ["instr.", "Instructions issued for this line so far, all warps together."], ["lanes off", "Lanes that those instructions left idle."],
  ["sectors (least)", "32-byte pieces of global memory; in brackets, how many would hold the bytes."],
  ["wavefr. (least)", "Wavefronts, passes through shared memory; in brackets, how many would do without a bank conflict."],
];

/** @param {Kernel} kernel the source, with the marked line, the warps at each line and what each has cost */
function sourceList(kernel) {
  const { head } = kernel;
  const wrong = new Set(head.problems.flatMap((/** @type {{lines: number[]}} */ p) => p.lines));
  const rows = head.source.map((/** @type {{line: number, text: string}} */ { line, text }) => {
    if (line < 0) return { line, el: h("li", { class: "kn-head" }, text), cells: null };
    const indent = text.length - text.trimStart().length;
    const [now, wait] = [h("span", { class: "kn-issue" }), h("span", { class: "kn-wait" })];
    const cells = {
      now, wait, there: h("span", { class: "kn-there" }, now, " ", wait),
      cost: ["issued", "off", "sectors", "waves"].map((name) => h("span", { class: `kn-cost kn-${name}` })),
    };
    const code = h("code", { style: `--indent: ${indent}` }, text.trim());
    const el = h("li", { "data-line": line, "data-wrong": wrong.has(line), "data-costs": head.lines.includes(line) },
      h("span", { class: "kn-number" }, line), code, cells.there, ...cells.cost);
    return { line, el, cells };
  });
  const top = h("li", { class: "kn-titles", "aria-hidden": "true" }, ...TITLES.map(([title, help], i) => h("span", { class: i > 2 ? "kn-cost" : "", title: help }, title)));
  const el = h("ol", { class: "kn-source", "data-shared": head.uses_shared }, top, ...rows.map((/** @type {{el: HTMLElement}} */ row) => row.el));
  return {
    el,
    /** @param {number} t @param {number} w */
    show(t, w) {
      const there = standing(kernel, t);
      const marked = kernel.line(t, w);
      const issues = kernel.issuing(t, w) !== null;
      for (const { line, el: row, cells } of rows) {
        if (!cells) continue;
        const here = there.get(line) ?? { now: [], wait: [] };
        write(cells.now, ranges(here.now));
        write(cells.wait, ranges(here.wait));
        set(cells.there, { title: here.now.length + here.wait.length ? ranges([...here.now, ...here.wait].sort((a, b) => a - b)) : null });
        const cost = kernel.cost(t, line);
        const [issued, off, sectors, leastSectors, waves, leastWaves] = cost;
        const texts = cost.length ? [issued ? number(issued) : "", off ? number(off) : "", ofLeast(sectors, leastSectors), ofLeast(waves, leastWaves)] : ["", "", "", ""];
        cells.cost.forEach((/** @type {HTMLElement} */ cell, /** @type {number} */ i) => write(cell, texts[i]));
        set(row, {
          "data-told": cost.length ? told(cost) : null, "aria-current": line === marked ? "true" : null, "data-issues": line === marked && issues,
          "data-warps": [...here.now, ...here.wait].sort((a, b) => a - b).join(" "), "data-cost": cost.join(" "),
        });
        if (line === marked && el.hasAttribute("data-scrolls")) el.scrollTop = row.offsetTop - (el.clientHeight - row.offsetHeight) / 2;
      }
    },
  };
}

/** One array as a grid. @param {Kernel} kernel @param {Memory} memory @param {number} a @param {AbortSignal} signal */
function gridOf(kernel, memory, a, signal) {
  const times = "\u00d7";
  const size = memory.shape.join(` ${times} `);
  const canvas = h("canvas", { role: "img" });
  const el = h("figure", { class: "kn-array", "data-array": memory.name },
    h("figcaption", {}, h("b", {}, memory.name), ` ${size}${memory.wrapped ? `, ${memory.cols} a row` : ""}`), canvas);
  const letters = widest(kernel, memory, a);
  let at = gridLayout(memory, letters, false, 2);
  /** @type {Content | null} */
  let content = null;
  canvas.addEventListener("pointermove", (event) => {
    const [col, row] = [Math.floor(event.offsetX / at.w), Math.floor(event.offsetY / at.h)];
    const i = row * memory.cols + col;
    const there = content && col >= 0 && col < memory.cols && i >= 0 && i < memory.count;
    set(canvas, { title: there && content ? `${element(memory, i)}: ${content.state[i] === UNDEFINED ? "not yet defined" : content.values[i]}` : null });
  }, { signal });
  return {
    el,
    letters,
    /** @param {Grid} next */
    resize(next) {
      at = next;
    },
    /** @param {number} t @param {number} w @param {number | null} row @param {Colours} colours @param {string} mono */
    show(t, w, row, colours, mono) {
      const owner = kernel.owner(a, w);
      content = kernel.memory(t, a, owner);
      const mine = row !== null && kernel.table.array[row] === a;
      const places = mine && row !== null ? kernel.places(row) : null;
      const writes = mine && row !== null && !kernel.loads(row);
      drawGrid(surface(canvas, at.width, at.height), at, memory, content, { places, writes, letters, colours, mono });
      const written = content.state.reduce((sum, state) => sum + (state === WRITTEN ? 1 : 0), 0);
      const touched = places ? new Set(Array.from(places).filter((p) => p >= 0)).size : 0;
      set(canvas, {
        "aria-label": `${memory.name}: ${written} of ${memory.count} elements written${touched ? `, ${touched} ${writes ? "written" : "read"} now` : ""}`,
        "data-owner": owner, "data-written": written, "data-touched": touched, "data-writes": writes && touched > 0,
      });
    },
  };
}

/** @param {Kernel} kernel @param {Memory} memory @param {number} a @returns {number} letters of the widest value an array ever holds */
function widest(kernel, memory, a) {
  let most = 1;
  /** @param {ArrayLike<number>} values @param {(i: number) => boolean} mine */
  const look = (values, mine) => {
    for (let i = 0; i < values.length && most < MOST_LETTERS; i++) if (mine(i)) most = Math.max(most, figure(values[i], MOST_LETTERS).length);
  };
  if (memory.space === "global") look(kernel.column(`before${a}_`), () => true);
  const array = kernel.column("change_array");
  look(kernel.column("change_value"), (i) => array[i] === a);
  return most;
}

/** @param {Packed["header"]} header @param {Kernel} kernel @param {boolean} two the 32 lanes of the followed warp */
function lanePanel(header, kernel, two) {
  const title = h("h4", {});
  const cells = Array.from({ length: LANES }, (_, l) => {
    const parts = [h("span", { class: "kn-lane" }, l), h("b", {}), h("span", { class: "kn-element" })];
    return { parts, el: h("li", {}, ...parts) };
  });
  const el = h("section", { class: "pw-panel kn-lanes" }, h("header", {}, title),
    h("ol", {}, ...cells.map((cell) => cell.el)), h("p", { class: "pw-note" }, "A box: the lane, its value, the element it touches; dashed while a load is on its way."));
  return {
    el,
    /** @param {number} t @param {number[]} selected */
    show(t, selected) {
      const { table, head } = kernel;
      const w = kernel.warp(t, selected);
      const row = kernel.last(t, w);
      const lead = `${two ? `${kernel.name}, ` : ""}w${w}, lane by lane: `;
      const issued = row === null ? 0 : kernel.time[kernel.issueFrame[row]];
      write(title, row === null ? `${lead}nothing issued yet` : `${lead}${head.texts[table.text[row]]}, line ${table.line[row]}, issued in cycle ${number(issued)}`);
      const [places, values] = row === null ? [null, null] : [kernel.places(row), kernel.values(row)];
      const memory = row === null ? undefined : head.arrays[table.array[row]];
      const flying = row !== null && kernel.loads(row) && issued + table.latency[row] > kernel.time[t];
      const kind = row === null ? "" : memory ? (kernel.loads(row) ? "kn-loads" : "kn-stores") : "";
      cells.forEach(({ el: cell, parts: [, value, where] }, l) => {
        const on = row !== null && Boolean((table.mask[row] >>> l) & 1);
        const exact = on && values ? values[l] : null;
        write(value, !on ? (row === null ? "\u2013" : "off") : exact === null ? "on" : figure(exact, MOST_LETTERS));
        const place = on && places && memory ? places[l] : -1;
        write(where, place >= 0 && memory ? index(memory, place).join(",") : on && memory ? "outside" : "");
        set(cell, { class: `${kind}${on ? "" : " kn-off"}${flying ? " kn-flying" : ""}`, "data-value": exact, title: exact === null ? null : `lane ${l}: ${exact}` });
      });
      set(el, { "data-row": row ?? "" });
    },
  };
}

const COUNTS = [
  ["cycles", "cycles", "Cycles that have passed; a kernel that has ended stands still."],
  ["instructions", "issued", "Warp instructions issued."],
  ["lanes masked off", "masked", "Lanes that an issued instruction left idle."],
  ["sectors (least)", "sectors", "32-byte pieces of global memory touched; in brackets, how many would hold the bytes."],
  ["bytes asked for", "bytes", "Bytes of global memory that lanes asked for."],
  ["wavefronts (least)", "wavefronts", "Passes through shared memory; in brackets, how many would do without a bank conflict."],
  ["idle issue slots", "idle", "Cycles times schedulers in which a scheduler issued nothing."],
];

/** @type {Record<string, string>} */
const IDLE = { memory: "for memory", result: "for a result", unit: "for a busy unit", barrier: "at a barrier", limit: "for the limit on loads", finished: "no warp left" };

/** @param {Packed} packed @param {Kernel[]} kernels the score of each, and what one is of the other */
function scorePanel({ header, columns }, kernels) {
  const two = kernels.length > 1;
  /** @param {number} t @param {string} what @returns {string} */
  const ratio = (t, what) => {
    const value = columns.ratio[t * header.score.length + header.score.indexOf(what)];
    if (!Number.isFinite(value) || value === 0) return "\u2013";
    return `${value >= 100 ? number(Math.round(value)) : Number(value.toPrecision(2))}\u00a0\u00d7`;
  };
  const rows = COUNTS.map(([label, what, help]) => ({
    label, help,
    text: (/** @type {number} */ n, /** @type {number} */ t) => {
      if (n === kernels.length) return ratio(t, what);
      const count = kernels[n].score(t, what);
      if (what !== "sectors" && what !== "wavefronts") return number(count);
      return `${number(count)} (${number(kernels[n].score(t, `least_${what}`))})`;
    },
  }));
  const reasons = [...new Set(kernels.flatMap((kernel) => kernel.head.lost))];
  const idle = reasons.map((reason) => ({
    label: `\u2003${IDLE[reason] ?? reason}`, help: "Slots are charged to the wait that ends first.",
    text: (/** @type {number} */ n, /** @type {number} */ t) => {
      const kernel = kernels[n];
      const at = kernel ? kernel.head.lost.indexOf(reason) : -1;
      return kernel ? number(at < 0 ? 0 : kernel.column("lost")[t * kernel.head.lost.length + at]) : "";
    },
  }));
  const names = kernels.map((kernel) => kernel.name);
  return comparison({ title: two ? "score so far, on one clock; ratio: first to second" : "score so far", names: two ? [...names, "ratio"] : names, rows: [...rows, ...idle] });
}

/** @param {{kind: string, text: string, lines: number[], of: string}[]} problems @param {boolean} two */
function problemPanel(problems, two) {
  return {
    el: h("section", { class: "pw-panel kn-problems" }, h("header", {}, h("h4", {}, "what went wrong")),
      h("ul", {}, ...problems.map(({ kind, text, of }) => h("li", {}, h("b", {}, `${two ? `${of}: ` : ""}${kind}`), h("span", {}, text))))),
  };
}

/** @param {Packed} packed @param {Kernel[]} kernels @param {AbortSignal} signal sectors by cycle, of both on one axis */
function sectorCurves({ header, columns }, kernels, signal) {
  const lines = kernels.map((kernel) => {
    const values = new Uint32Array(header.cycles);
    for (let f = 0; f < header.frames; f++) values.fill(kernel.score(f, "sectors"), columns.time[f], columns.time[f + 1] ?? header.cycles);
    return { name: kernel.name, values };
  });
  const most = Math.max(1, ...kernels.map((kernel) => kernel.score(header.frames - 1, "sectors")));
  const ends = kernels.map((kernel) => `${kernel.name} ends after ${kernel.head.cycles} cycles`).join(", ");
  return curves({ title: "sectors of global memory so far, by cycle", lines, most, cycles: header.cycles, summary: `Sectors moved so far by cycle; ${ends}.`, signal });
}
