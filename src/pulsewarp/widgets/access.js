// One warp's request taken apart: 32 lanes to 32-byte sectors, or 32 lanes to 32 banks. Four parts in this order: the
// requests (look-ups), words, where things lie (pure) and drawing, wiring (short).
//
// Letters: q request, i frame within it (0: asked, nothing served), p part (a sector or a wavefront) over all requests,
// l lane. What is counted was counted in Python (access.py); here it is looked up.

import { h, s, set, write } from "./kit/dom.js";
import { ledger, legend } from "./kit/panels.js";
import { stage } from "./kit/stage.js";
import { counted, number } from "./kit/words.js";

/** @typedef {ReturnType<typeof readRun>} Run */
/** @typedef {"off" | "waits" | "now" | "done"} State */
/**
 * @typedef {object} Request
 * @property {string} name @property {number} first its first frame @property {number} bytes that a lane asks for
 * @property {number} lanes that take part @property {number} parts sectors or wavefronts
 * @property {number} lines @property {number} requested @property {number} unique @property {number} moved
 * @property {number | null} efficiency
 * @property {number} phases @property {number} ways @property {number} conflicts @property {number} paired
 */
/** @typedef {{bank: number, word: number, lanes: number[]}} Word */

const LANES = 32;
const SECTOR = 32;
const LINE = 128;

// ---------------------------------------------------------------------------------------------- the requests

/** @param {import("./kit/wire.js").Packed} packed */
export function readRun({ header, columns }) {
  const requests = /** @type {Request[]} */ (header.requests);
  const banks = header.mode === "banks";
  let sum = 0;
  const base = requests.map(({ parts }) => (sum += parts) - parts);

  /** Lanes whose bit is set. @param {number} mask */
  const lanesOf = (mask) => Array.from({ length: LANES }, (_, l) => l).filter((l) => Math.floor(mask / 2 ** l) % 2 === 1);

  /** @param {number} t */
  function at(t) {
    let q = requests.length - 1;
    while (requests[q].first > t) q--;
    return { q, i: t - requests[q].first, request: requests[q] };
  }
  /** @param {number} q @param {number} l */
  const asked = (q, l) => columns.asked[q * LANES + l];

  /** A sector of a request. @param {number} q @param {number} k */
  function sector(q, k) {
    const p = base[q] + k;
    return { address: columns.address[p], used: columns.used[p], useful: columns.useful[p], lanes: lanesIn(q, k) };
  }
  /** @param {number} q @param {number} k */
  const lanesIn = (q, k) => lanesOf(0xffffffff).filter((l) => columns.sector[q * LANES + l] === k);

  /** A wavefront of a request: its phase, its turn in it, the wavefronts of the phase, its busiest bank, its words. @param {number} q @param {number} k */
  function wave(q, k) {
    const p = base[q] + k;
    const [phase, turn, ways, busiest, from] = columns.wave.subarray(5 * p, 5 * p + 5);
    const to = 5 * (p + 1) < columns.wave.length ? columns.wave[5 * (p + 1) + 4] : columns.bank.length;
    const words = /** @type {Word[]} */ ([]);
    for (let e = from; e < to; e++) words.push({ bank: columns.bank[e], word: columns.word[e], lanes: lanesOf(columns.wanted[e]) });
    return { phase, turn, ways, busiest, words };
  }

  /** By request and lane: the parts that serve it. @type {number[][][]} */
  const servedBy = requests.map(({ parts }, q) => {
    const by = Array.from({ length: LANES }, () => /** @type {number[]} */ ([]));
    for (let k = 0; k < parts; k++) {
      const lanes = banks ? new Set(wave(q, k).words.flatMap((word) => word.lanes)) : lanesIn(q, k);
      for (const l of lanes) by[l].push(k);
    }
    return by;
  });

  /** What becomes of a lane in frame i of a request. @param {number} q @param {number} i @param {number} l @returns {State} */
  function lane(q, i, l) {
    const by = servedBy[q][l];
    if (!by.length) return "off";
    if (by.includes(i - 1)) return "now";
    return by[by.length - 1] < i - 1 ? "done" : "waits";
  }

  return {
    header, requests, banks, steps: /** @type {number} */ (header.steps), at, asked, sector, wave, servedBy, lane,
    /** Useful bytes of the first so many sectors. @param {number} q @param {number} i */
    useful(q, i) {
      let all = 0;
      for (let p = base[q]; p < base[q] + i; p++) all += columns.useful[p];
      return all;
    },
    /** Lanes served by the end of frame i. @param {number} q @param {number} i */
    finished: (q, i) => lanesOf(0xffffffff).filter((l) => ["now", "done"].includes(lane(q, i, l)) && (servedBy[q][l].at(-1) ?? 0) < i).length,
  };
}

/** @param {Run} run @param {number} t @returns {State} */
const stateOf = (run, t, /** @type {number} */ part) => {
  const { i } = run.at(t);
  return part === i - 1 ? "now" : part < i - 1 ? "done" : "waits";
};

// ---------------------------------------------------------------------------------------------- words

/** Whole numbers in runs: "0 to 7, 9 and 12". @param {number[]} list */
export function runs(list) {
  /** @type {number[][]} */
  const found = [];
  for (const x of list) {
    const last = found[found.length - 1];
    if (last && x === last[1] + 1) last[1] = x;
    else found.push([x, x]);
  }
  if (found.length > 5) return null;
  const parts = found.map(([from, to]) => (from === to ? `${from}` : to === from + 1 ? `${from} and ${to}` : `${from} to ${to}`));
  return parts.length === 1 ? parts[0] : `${parts.slice(0, -1).join(", ")} and ${parts[parts.length - 1]}`.replace(/ and (\d+) and /, ", $1 and ");
}

/** @param {number[]} lanes */
const lanesNamed = (lanes) => {
  const named = runs(lanes);
  return named === null ? `${lanes.length} lanes (the first: ${lanes.slice(0, 3).join(", ")})` : `lane${lanes.length === 1 ? "" : "s"} ${named}`;
};

/** @param {number} from @param {number} count */
const span = (from, count) => (count === 1 ? `byte ${number(from)}` : `bytes ${number(from)} to ${number(from + count - 1)}`);

/** @param {number} share */
const percent = (share) => `${Number((100 * share).toFixed(1))} %`;

/** @param {Request} request */
const ask = (request) => (request.lanes === LANES ? "all 32 lanes ask" : request.lanes === 1 ? "one lane asks" : `${request.lanes} lanes ask`);

/** @param {string} name */
const called = (name) => `Request “${name}”`;

/** Lanes served together. @param {number} bytes */
const group = (bytes) => LANES / Math.max(1, bytes / 4);

/**
 * The frame in words; caption, table and live region say this.
 * @param {Run} run @param {number} t @param {boolean} hidden what comes later is kept from the reader
 * @returns {string[]}
 */
export function frameWords(run, t, hidden) {
  const { q, i, request } = run.at(t);
  if (!request.lanes) return [`${called(request.name)}: no lane is active, so nothing is asked for and nothing ${run.banks ? "is given" : "moves"}.`];
  return (run.banks ? bankWords : sectorWords)(run, q, i, hidden);
}

/** @param {Run} run @param {number} q @param {number} i @param {boolean} hidden */
function sectorWords(run, q, i, hidden) {
  const request = run.requests[q];
  const { name, bytes, requested, unique, parts, lines, moved, efficiency } = request;
  if (i === 0) {
    const all = Array.from({ length: LANES }, (_, l) => run.asked(q, l)).filter((at) => at >= 0);
    const [low, high] = [Math.min(...all), Math.max(...all)];
    const different = unique < requested ? `, ${number(unique)} of them different` : "";
    return [
      `${called(name)}: ${ask(request)} for ${counted(bytes, "byte")} each, from byte ${number(low)} to byte ${number(high + bytes - 1)}.`,
      `${counted(requested, "byte")} are asked for${different}; nothing has moved yet.${hidden ? "" : ` They lie in ${counted(parts, "sector")} of ${counted(lines, "line")}.`}`,
    ];
  }
  const { address, useful, lanes } = run.sector(q, i - 1);
  const waste = useful < SECTOR ? `${useful} of its 32 bytes; ${SECTOR - useful} move for nothing` : "all its 32 bytes";
  const named = lanesNamed(lanes);
  return [
    `Sector ${i}${hidden ? "" : ` of ${parts}`} moves: ${span(address, SECTOR)}.`,
    `${named[0].toUpperCase()}${named.slice(1)} ${lanes.length === 1 ? "uses" : "use"} ${waste}.`,
    i === parts ? `Complete: ${counted(parts, "sector")}, ${number(unique)} of ${number(moved)} bytes asked for, efficiency ${percent(efficiency ?? 0)}.`
      : `So far: ${number(SECTOR * i)} bytes moved, ${number(run.useful(q, i))} of them asked for.`,
  ];
}

/** @param {Run} run @param {number} q @param {number} i @param {boolean} hidden */
function bankWords(run, q, i, hidden) {
  const request = run.requests[q];
  const { name, bytes, parts, phases } = request;
  const size = group(bytes);
  if (i === 0) {
    const full = LANES / size;
    const how = full === 1 ? "one phase of 32 lanes" : `${phases < full ? `${phases} of ` : ""}${full} phases of ${size} lanes, one after the other`;
    const first = run.servedBy[q].map((by, l) => (by.length ? l : -1)).filter((l) => l >= 0).slice(0, 2);
    const examples = first.map((l, k) => `${k ? "lane" : "Lane"} ${l} wants ${wordsWanted(run, q, l)}`);
    return [`${called(name)}: ${ask(request)} for ${counted(bytes, "byte")} each: ${how}.`, `${examples.join(", ")}; no bank has given anything yet.`];
  }
  const { phase, turn, ways, busiest, words } = run.wave(q, i - 1);
  const idle = LANES - words.length;
  const to = lanesNamed([...new Set(words.flatMap((word) => word.lanes))].sort((x, y) => x - y));
  const gives = words.length === 1 ? `bank ${words[0].bank} gives word ${number(words[0].word)} to ${to}` : `${words.length} banks give a word each, to ${to}`;
  const where = size < LANES ? `, phase ${phase + 1} (lanes ${phase * size} to ${(phase + 1) * size - 1})` : "";
  const first = `Wavefront ${i}${hidden ? "" : ` of ${parts}`}${where}: ${gives}; ${idle ? `${counted(idle, "bank")} ${idle === 1 ? "is" : "are"} idle` : "no bank is idle"}.`;
  const one = size < LANES ? "this phase" : "the request";
  const why = ways === 1 ? `No bank is asked for two different words${size < LANES ? " in this phase" : ""}: no conflict.`
    : hidden && turn < ways - 1 ? `Bank ${busiest} is asked for more words than it has given.`
      : `Bank ${busiest} is asked for ${ways} different words, so ${one} takes ${ways} wavefronts: a ${ways}-way conflict.`;
  return [first, why, ...(i === parts ? [`Complete: ${counted(parts, "wavefront")}${phases > 1 ? ` in ${phases} phases` : ""}, ${request.conflicts ? `${request.conflicts} of them for conflicts` : "none of them for conflicts"}.`] : [])];
}

/** @param {Run} run @param {number} q @param {number} l */
function wordsWanted(run, q, l) {
  const { bytes } = run.requests[q];
  const from = Math.floor(run.asked(q, l) / 4);
  const count = Math.max(1, bytes / 4);
  const bank = from % 32;
  return count === 1 ? `word ${number(from)} in bank ${bank}` : `words ${number(from)} to ${number(from + count - 1)} in banks ${bank} to ${bank + count - 1}`;
}

/** One lane in words. @param {Run} run @param {number} t @param {number} l @param {boolean} hidden @returns {string[]} */
export function laneWords(run, t, l, hidden) {
  const { q, i, request } = run.at(t);
  const state = run.lane(q, i, l);
  if (state === "off") return [`${called(request.name)}: lane ${l} is off; it asks for nothing.`];
  const by = run.servedBy[q][l];
  const known = !hidden || state === "now" || state === "done";
  const noun = run.banks ? "wavefront" : "sector";
  const which = `${noun}${by.length > 1 ? "s" : ""} ${runs(by.map((k) => k + 1)) ?? `${by[0] + 1} and later`}`;
  const lead = `${called(request.name)}: lane ${l} asks for ${span(run.asked(q, l), request.bytes)}, ${run.banks ? wordsWanted(run, q, l) : `in the sector of ${span(Math.floor(run.asked(q, l) / SECTOR) * SECTOR, SECTOR)}`}.`;
  const partly = state === "waits" && by[0] < i;
  const end = { now: run.banks ? "It is given in this step" : "It moves in this step", done: run.banks ? "It has been given" : "It has moved", waits: partly ? "It has been given in part" : "It waits" }[state];
  return [lead, `${end}${known ? `: ${which}` : ""}.`];
}

/** @param {Run} run @param {number} t @param {boolean} hidden @returns {import("./kit/stage.js").Table} */
function frameTable(run, t, hidden) {
  const { q, i, request } = run.at(t);
  const said = { off: "is off", waits: "waits", now: run.banks ? "is given" : "moves", done: run.banks ? "has been given" : "has moved" };
  const rows = Array.from({ length: LANES }, (_, l) => {
    const state = run.lane(q, i, l);
    if (state === "off") return [l, "", "", "", said.off];
    const from = run.asked(q, l);
    const by = run.servedBy[q][l].filter((k) => !hidden || k < i).map((k) => k + 1).join(", ");
    if (!run.banks) return [l, number(from), number(Math.floor(from / SECTOR) * SECTOR), by, said[state]];
    const count = Math.max(1, request.bytes / 4);
    const word = Math.floor(from / 4);
    return [l, number(from), count === 1 ? `${number(word)} in ${word % 32}` : `${number(word)} to ${number(word + count - 1)} in ${word % 32} to ${(word % 32) + count - 1}`, by, said[state]];
  });
  return {
    caption: `Step ${t}, ${request.name}: what each lane asks for and what has come of it`,
    head: run.banks ? ["lane", "byte offset", "word in bank", "wavefront", "now"] : ["lane", "byte address", "sector from byte", "sector no.", "now"],
    rows,
  };
}

// ---------------------------------------------------------------------------------------------- where things lie

/** Rough width of a text of 11 px in pixels. @param {string} text */
const wide = (text) => 6.8 * text.length;

const LANE_TOP = 20;
const LANE_HIGH = 24;

/**
 * Lanes of a picture so many pixels wide.
 * @param {Run} run @param {number} width
 */
function laneLayout(run, width) {
  const left = run.banks ? 32 : 1;
  const cell = (width - left - 1) / LANES;
  return { left, cell, every: cell >= 17 ? 1 : cell >= 9 ? 4 : 8, x: (/** @type {number} */ l) => left + (l + 0.5) * cell, bottom: LANE_TOP + LANE_HIGH };
}

/**
 * The sectors of a request as slots: all four of each line where there is room, else those touched.
 * @param {Run} run @param {number} q @param {number} width
 * @returns {{address: number, part: number, x: number, w: number}[]} part -1: not touched
 */
export function slots(run, q, width) {
  const { parts, lines } = run.requests[q];
  if (!parts) return [];
  const touched = Array.from({ length: parts }, (_, k) => run.sector(q, k).address);
  const whole = lines * 4 <= LANES;
  const shown = whole ? [...new Set(touched.map((at) => at - (at % LINE)))].flatMap((at) => [0, 1, 2, 3].map((k) => at + k * SECTOR)) : touched;
  const starts = shown.map((at, k) => k > 0 && Math.floor(at / LINE) !== Math.floor(shown[k - 1] / LINE));
  const space = shown.length > 16 ? 3 : 8;
  const gaps = starts.filter(Boolean).length * space;
  const w = (width - 2 - gaps) / shown.length;
  let x = 1;
  return shown.map((address, k) => {
    if (starts[k]) x += space;
    const slot = { address, part: touched.indexOf(address), x, w };
    x += w;
    return slot;
  });
}

/** Runs of set bits as [from, count]. @param {number} bits */
export function bitRuns(bits) {
  /** @type {[number, number][]} */
  const found = [];
  for (let b = 0; b < 32; b++) {
    if (Math.floor(bits / 2 ** b) % 2 === 0) continue;
    const last = found[found.length - 1];
    if (last && last[0] + last[1] === b) last[1] += 1;
    else found.push([b, 1]);
  }
  return found;
}

/** Height of a wavefront's row in a request of so many; low on a phone, where the sentence stands below. @param {number} parts @param {number} width */
const rowHeight = (parts, width) => (width < 500 ? Math.max(6, Math.min(20, Math.floor(192 / Math.max(1, parts)))) : Math.max(9, Math.min(24, Math.floor(288 / Math.max(1, parts)))));

// ---------------------------------------------------------------------------------------------- drawing

/** @param {string} id */
const hatch = (id) => s("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse" }, s("path", { d: "M-1 7L7 -1M-1 1L1 -1M5 7L7 5", class: "ac-hatch" }));

/** @param {string | number} text @param {Record<string, string | number | null>} attributes */
const label = (text, attributes) => s("text", attributes, text);

/**
 * The picture of one mode: drawn once a request and width, then only states change.
 * @param {Run} run @param {string} prefix @param {boolean} hidden
 */
function makePicture(run, prefix, hidden) {
  const svg = s("svg", { class: "ac-picture", role: "img" });
  const el = h("div", { class: `ac ac-${run.header.mode}` }, svg);
  let width = 0;
  let drawn = -1;
  /** @type {Element[]} */
  let lanes = [];
  /** Parts with the number of the sector or wavefront that decides their state. @type {{el: Element, part: number}[]} */
  let parts = [];
  /** @type {{el: Element, lane: number, parts: number[]}[]} */
  let links = [];
  /** @type {{el: Element, phase: number}[]} */
  let phases = [];
  const ring = s("rect", { class: "ac-ring", visibility: "hidden" });

  /** @param {number} q */
  function build(q) {
    const at = laneLayout(run, width);
    const request = run.requests[q];
    lanes = Array.from({ length: LANES }, (_, l) => s("g", { class: "ac-lane", "data-lane": l },
      s("rect", { x: (at.left + l * at.cell + 0.5).toFixed(2), y: LANE_TOP, width: Math.max(2, at.cell - 1.5).toFixed(2), height: LANE_HIGH, rx: 2 }),
      l % at.every === 0 ? label(l, { x: at.x(l).toFixed(2), y: LANE_TOP + 16, "text-anchor": "middle" }) : null));
    parts = [];
    links = [];
    phases = [];
    const body = run.banks ? buildBanks(q, at) : buildSectors(q, at);
    const size = group(request.bytes);
    const heads = run.banks && size < LANES
      ? Array.from({ length: LANES / size }, (_, k) => {
        const head = s("g", { class: "ac-phase" },
          s("path", { d: `M${(at.left + k * size * at.cell + 2).toFixed(1)} ${LANE_TOP - 4}h${(size * at.cell - 5).toFixed(1)}` }),
          label(size * at.cell > 130 ? `phase ${k + 1}: lanes ${k * size} to ${(k + 1) * size - 1}` : `phase ${k + 1}`, { x: (at.left + k * size * at.cell + 2).toFixed(1), y: 11 }));
        phases.push({ el: head, phase: k });
        return head;
      })
      : [label(`lanes of the warp${width > 500 ? `, each asking for ${counted(request.bytes, "byte")}` : ""}`, { class: "ac-title", x: at.left, y: 12 })];
    svg.replaceChildren(s("defs", {}, hatch(`${prefix}-hatch`)), ...heads, ...body.below, ...links.map((link) => link.el), ...lanes, ...body.above, ring);
    set(svg, { width, height: body.high, viewBox: `0 0 ${width} ${body.high}`, "aria-label": `${request.name}: ${run.banks ? "lanes above, banks below, a row a wavefront" : "lanes above, sectors of memory below"}` });
    drawn = q;
  }

  /** @param {number} q @param {ReturnType<typeof laneLayout>} at */
  function buildSectors(q, at) {
    const request = run.requests[q];
    const top = at.bottom + 96;
    const high = 34;
    const below = /** @type {Element[]} */ ([]);
    const all = slots(run, q, width);
    const roomy = all.every(({ address, w }) => w >= wide(number(address)) + 8); // every sector has its address, or none
    for (const { address, part, x, w } of all) {
      const box = { x: (x + 0.5).toFixed(2), y: top, width: Math.max(1, w - 1).toFixed(2), height: high };
      if (part < 0) {
        below.push(s("rect", { ...box, class: "ac-untouched" }));
      } else {
        const { used, lanes: its } = run.sector(q, part);
        const one = s("g", { class: "ac-sector" }, s("rect", { ...box, class: "ac-frame" }), s("rect", { ...box, class: "ac-waste", fill: `url(#${prefix}-hatch)` }),
          ...bitRuns(used).map(([from, count]) => s("rect", { class: "ac-used", x: (x + 0.5 + (from * (w - 1)) / 32).toFixed(2), y: top, width: ((count * (w - 1)) / 32).toFixed(2), height: high })),
          s("rect", { ...box, class: "ac-edge" }));
        const element = (request.bytes * w) / 32;
        const named = new Set();
        for (const l of its) {
          const byte = run.asked(q, l) - address;
          const middle = x + ((byte + request.bytes / 2) * w) / 32;
          links.push({ el: s("path", { class: "ac-link", d: `M${at.x(l).toFixed(1)} ${at.bottom}L${middle.toFixed(1)} ${top}` }), lane: l, parts: [part] });
          if (element >= 17 && !named.has(byte)) one.append(label(l, { class: "ac-who", x: middle.toFixed(1), y: top + 21, "text-anchor": "middle" }));
          if (element >= 6 && byte > 0) one.append(s("path", { class: "ac-cut", d: `M${(x + (byte * w) / 32).toFixed(1)} ${top}v${high}` }));
          named.add(byte);
        }
        parts.push({ el: one, part });
        below.push(one);
      }
      if (roomy) below.push(label(number(address), { class: "ac-address", x: (x + 1).toFixed(1), y: top + high + 13 }));
    }
    // Each line of 128 bytes as a bracket under its sectors.
    const foot = top + high + (roomy && all.length ? 20 : 6);
    /** @type {[line: number, x0: number, x1: number][]} */
    const lines = [];
    for (const { address, x, w } of all) {
      const line = Math.floor(address / LINE);
      const last = lines[lines.length - 1];
      if (last?.[0] === line) last[2] = x + w - 0.5;
      else lines.push([line, x + 0.5, x + w - 0.5]);
    }
    const ways = [(/** @type {number} */ at) => `line of bytes ${number(at)} to ${number(at + LINE - 1)}`, (/** @type {number} */ at) => `${number(at)} to ${number(at + LINE - 1)}`, number];
    const furthest = (lines[lines.length - 1]?.[0] ?? 0) * LINE;
    const narrowest = Math.min(...lines.map(([, x0, x1]) => x1 - x0));
    const say = ways.find((one) => wide(one(furthest)) + 4 <= narrowest) ?? number;
    const every = Math.ceil((wide(say(furthest)) + 4) / (narrowest + 3)); // so many lines have one label
    let free = 0; // where the label before it ends: at the edges labels are moved inward
    lines.forEach(([line, x0, x1], k) => {
      below.push(s("path", { class: "ac-line", d: `M${x0.toFixed(1)} ${foot}v4H${x1.toFixed(1)}v-4` }));
      const text = say(line * LINE);
      const middle = Math.max(wide(text) / 2, Math.min(width - wide(text) / 2, (x0 + x1) / 2));
      if (k % every !== 0 || middle - wide(text) / 2 < free) return;
      free = middle + wide(text) / 2;
      below.push(label(text, { class: "ac-address", x: middle.toFixed(1), y: foot + 17, "text-anchor": "middle" }));
    });
    return { below, above: [label(`memory: sectors of 32 bytes${width > 560 ? " by the address of their first byte, lines of 128 bytes below" : ""}`, { class: "ac-title", x: 1, y: top + high + 56 })], high: top + high + 62 };
  }

  /** @param {number} q @param {ReturnType<typeof laneLayout>} at */
  function buildBanks(q, at) {
    const request = run.requests[q];
    const top = at.bottom + 72;
    const head = 20;
    const grid = top + head + 2;
    const row = rowHeight(request.parts, width);
    // All requests of a scene take the height of the tallest: what stands below stays where it is.
    const tallest = Math.max(...run.requests.map(({ parts: each }) => each * rowHeight(each, width)));
    const below = /** @type {Element[]} */ ([]);
    const right = at.left + LANES * at.cell;
    below.push(...Array.from({ length: LANES }, (_, b) => s("g", { class: "ac-bank" },
      s("rect", { x: (at.left + b * at.cell + 0.5).toFixed(2), y: top, width: Math.max(2, at.cell - 1.5).toFixed(2), height: head, rx: 2 }),
      b % at.every === 0 ? label(b, { x: at.x(b).toFixed(2), y: top + 14, "text-anchor": "middle" }) : null)));
    const numbers = row >= 13 ? 1 : 4;
    for (let k = 0; k < request.parts; k++) {
      const wave = run.wave(q, k);
      const y = grid + k * row;
      const one = s("g", { class: "ac-wave" }, s("rect", { class: "ac-waste", fill: `url(#${prefix}-hatch)`, x: at.left, y: y + 0.5, width: (LANES * at.cell).toFixed(1), height: row - 1 }),
        k % numbers === 0 || k === request.parts - 1 ? label(k + 1, { class: "ac-number", x: at.left - 5, y: y + row / 2 + 4, "text-anchor": "end" }) : null,
        wave.turn === 0 && k > 0 ? s("path", { class: "ac-part", d: `M${at.left - 26} ${y}H${right.toFixed(1)}` }) : null,
        ...wave.words.map(({ bank, lanes: its }) => {
          const text = its.length === 1 ? `${its[0]}` : `×${its.length}`;
          return s("g", { class: "ac-word" },
            s("rect", { x: (at.left + bank * at.cell + 0.5).toFixed(2), y: y + 0.5, width: Math.max(2, at.cell - 1.5).toFixed(2), height: row - 1.5, rx: 1.5 }),
            row >= 14 && at.cell >= wide("×32") ? label(text, { x: at.x(bank).toFixed(2), y: y + row / 2 + 4, "text-anchor": "middle" }) : null);
        }));
      parts.push({ el: one, part: k });
      below.push(one);
      for (const { bank, lanes: its } of wave.words) {
        for (const l of its) links.push({ el: s("path", { class: "ac-link", d: `M${at.x(l).toFixed(1)} ${at.bottom}L${at.x(bank).toFixed(1)} ${top}` }), lane: l, parts: [k] });
      }
    }
    return {
      below,
      above: [
        label("lane", { class: "ac-title", x: at.left - 3, y: LANE_TOP + 16, "text-anchor": "end" }), label("bank", { class: "ac-title", x: at.left - 3, y: top + 14, "text-anchor": "end" }),
        label(`A row is a wavefront${width > 500 && row >= 14 ? "; in a box the lane that gets the word, ×n: n lanes" : ""}.`, { class: "ac-title", x: at.left, y: grid + request.parts * row + 15 }),
      ],
      high: grid + tallest + 22,
    };
  }

  return {
    el, svg,
    /** @param {number} next */
    resize(next) {
      width = next;
      drawn = -1;
    },
    /** @param {number} t @param {number[]} selected */
    show(t, selected) {
      const { q, i } = run.at(t);
      if (drawn !== q) build(q);
      lanes.forEach((one, l) => set(one, { "data-state": run.lane(q, i, l) }));
      for (const { el: one, part } of parts) set(one, { "data-state": stateOf(run, t, part), visibility: hidden && part >= i ? "hidden" : null });
      const chosen = selected.length === 1 ? selected[0] : -1;
      for (const { el: one, lane, parts: own } of links) {
        set(one, { "data-state": stateOf(run, t, own[0]), "data-chosen": lane === chosen ? "true" : null, visibility: hidden && own[0] >= i && lane !== chosen ? "hidden" : null });
      }
      const phase = run.banks && i > 0 ? run.wave(q, i - 1).phase : -1;
      for (const one of phases) set(one.el, { "data-now": one.phase === phase ? "true" : null });
      const box = chosen >= 0 ? lanes[chosen].querySelector("rect") : null;
      set(ring, { visibility: box ? "visible" : "hidden" });
      if (box) for (const name of ["x", "y", "width", "height"]) set(ring, { [name]: box.getAttribute(name) });
    },
  };
}

/** The requests side by side: a bar each. @param {Run} run @param {boolean} hidden */
function makeCompared(run, hidden) {
  const most = Math.max(1, ...run.requests.map(({ parts }) => parts));
  const rows = run.requests.map((request) => {
    const used = h("i", { class: "ac-good" });
    const waste = h("i", { class: "ac-lost" });
    const value = h("span", { class: "ac-value" });
    const el = h("li", {}, h("span", { class: "ac-name" }, request.name), value, h("div", { class: "ac-bar", "aria-hidden": "true" }, used, waste));
    return { el, used, waste, value, request };
  });
  const el = h("section", { class: "pw-panel" }, h("header", {}, h("h4", {}, run.banks ? "wavefronts by request" : "bytes moved by request")),
    h("ul", { class: "ac-compared" }, ...rows.map((one) => one.el)));
  return {
    el,
    /** @param {number} t */
    show(t) {
      const { q, i } = run.at(t);
      rows.forEach(({ el: one, used, waste, value, request }, k) => {
        set(one, { "data-now": k === q ? "true" : null });
        const known = !hidden || k < q || (k === q && i === request.parts);
        const parts = known ? request.parts : k === q ? i : 0;
        const good = run.banks ? (known ? request.phases : 0) : known ? request.unique / SECTOR : 0;
        set(used, { style: `width:${(100 * (known ? good : parts)) / most}%` });
        set(waste, { style: `width:${(100 * (known ? parts - good : 0)) / most}%` });
        const cost = run.banks ? `${counted(parts, "wavefront")}${request.ways > 1 ? `, ${request.ways} ways` : ""}` : `${counted(parts, "sector")}${request.efficiency === null ? "" : `, ${percent(request.efficiency)} used`}`;
        write(value, known ? cost : k === q ? `${counted(i, run.banks ? "wavefront" : "sector")} so far` : "?");
      });
    },
  };
}

/** @param {Run} run @param {boolean} hidden */
function ledgerRows(run, hidden) {
  /** @param {(q: number, i: number, request: Request) => string} text */
  const row = (text) => (/** @type {number} */ t) => {
    const { q, i, request } = run.at(t);
    return text(q, i, request);
  };
  /** @param {number} i @param {Request} request */
  const of = (i, request) => (hidden && i < request.parts ? `${i}` : `${i} of ${request.parts}`);
  const served = { label: "lanes served", text: row((q, i, { lanes }) => `${run.finished(q, i)} of ${lanes}`), help: "Lanes of this request that have all they asked for." };
  if (run.banks) {
    return [
      { label: "wavefronts", text: row((_, i, request) => of(i, request)), help: "Passes over the banks, each up to one word a bank." },
      served,
      { label: "words given", text: row((q, i) => number(given(run, q, i))), help: "A word is given once a phase, to every lane that wants it." },
      { label: "bank slots idle", text: row((q, i) => (i ? `${number(i * LANES - given(run, q, i))} of ${number(i * LANES)}` : "0")), help: "32 banks a wavefront, less the words given." },
      { label: "wavefronts for conflicts", text: row((_, i, request) => (hidden && i < request.parts ? "?" : `${request.conflicts}`)), help: "Of the whole request: wavefronts beyond one a phase." },
    ];
  }
  return [
    { label: "sectors moved", text: row((_, i, request) => of(i, request)), help: "Aligned segments of 32 bytes, each moved once." },
    served,
    { label: "bytes moved", text: row((_, i) => number(SECTOR * i)), help: "32 a sector." },
    { label: "of them asked for", text: row((q, i) => number(run.useful(q, i))), help: "Each byte once, however many lanes ask for it." },
    { label: "moved for nothing", text: row((q, i) => number(SECTOR * i - run.useful(q, i))), help: "Bytes moved that no lane asked for: hatched in the picture." },
    { label: "efficiency, whole request", text: row((_, i, request) => (request.efficiency === null ? "none" : hidden && i < request.parts ? "?" : percent(request.efficiency))), help: "Different bytes asked for over bytes moved." },
  ];
}

/** @param {Run} run @param {number} q @param {number} i */
function given(run, q, i) {
  let sum = 0;
  for (let k = 0; k < i; k++) sum += run.wave(q, k).words.length;
  return sum;
}

/** @param {Run} run @param {string} prefix */
function makeLegend(run, prefix) {
  /** @param {string} state @param {boolean} [hatched] */
  const mark = (state, hatched) => s("svg", { width: 22, height: 16, viewBox: "0 0 22 16", "aria-hidden": "true" },
    hatched ? s("defs", {}, hatch(`${prefix}-legend-${state}`)) : null,
    s("g", { class: `ac-key ac-key-${state}` }, s("rect", { x: 1.5, y: 1.5, width: 19, height: 13, rx: 2, fill: hatched ? `url(#${prefix}-legend-${state})` : null })));
  const verb = run.banks ? "given" : "moved";
  const entries = [
    { mark: mark("waits"), text: "waits" },
    { mark: mark("now"), text: run.banks ? "given in this step" : "moves in this step" },
    { mark: mark("done"), text: `${verb} already` },
    { mark: mark("waste", true), text: run.banks ? "bank idle in a wavefront" : "moved, but nobody asked for it" },
    ...(run.banks ? [] : [{ mark: mark("untouched"), text: "sector not touched" }]),
    ...(run.requests.some(({ lanes }) => lanes < LANES) ? [{ mark: mark("off"), text: "lane is off" }] : []),
  ];
  return legend(entries);
}

// ---------------------------------------------------------------------------------------------- wiring

/**
 * @param {Run} run @param {boolean} hidden
 * @param {import("./kit/stage.js").Tools} tools
 * @returns {import("./kit/stage.js").Picture}
 */
function mount(run, hidden, { signal, still, prefix, select, point }) {
  const picture = makePicture(run, prefix, hidden);
  if (still) return { el: picture.el, resize: picture.resize, show: ({ cycle }) => picture.show(cycle, []) };
  /** @param {Event} event @returns {number[] | null} */
  const under = (event) => {
    const lane = /** @type {Element} */ (event.target).closest?.("[data-lane]");
    return lane ? [Number(lane.getAttribute("data-lane"))] : null;
  };
  picture.svg.addEventListener("pointermove", (event) => {
    if (event.pointerType !== "touch") point(under(event));
  }, { signal });
  picture.svg.addEventListener("pointerleave", () => point(null), { signal });
  picture.svg.addEventListener("click", (event) => select(under(event) ?? []), { signal });
  const compared = makeCompared(run, hidden);
  const bill = ledger({ title: "this request so far", rows: ledgerRows(run, hidden) });
  return {
    el: picture.el,
    panels: [compared.el, bill.el],
    legend: makeLegend(run, prefix),
    resize: picture.resize,
    show({ cycle, selected }) {
      picture.show(cycle, selected);
      compared.show(cycle);
      bill.show(cycle);
    },
  };
}

/** @param {import("./kit/wire.js").Packed} packed @param {import("./kit/stage.js").Options} options @returns {import("./kit/stage.js").Scene} */
function open(packed, options) {
  const run = readRun(packed);
  const hidden = options.future === "hidden";
  const ends = run.requests.map(({ first, parts }) => first + parts);
  const rule = run.banks
    ? "Rule: word w lies in bank w mod 32. In a wavefront each bank gives one word, to every lane that wants it; further words of the same bank wait."
    : "Rule: every aligned 32-byte sector that an active lane touches moves whole, and once, however many lanes touch it and in whatever order.";
  const wideLoads = run.banks && run.requests.some(({ bytes }) => bytes > 4);
  return {
    title: run.banks ? "Shared memory: 32 lanes to 32 banks" : "Global memory: 32 lanes to 32-byte sectors",
    rule,
    simplified: run.banks
      ? `Simplified: a step is a wavefront, not a cycle; which word of a bank comes first is not documented, here the order of lanes.${wideLoads ? " How 8- and 16-byte accesses are split into phases is measured, not documented (see Help)." : ""}`
      : "Simplified: a step is a sector, not a cycle; the order of sectors is not documented, here ascending; no caches: what they hold already would not come from memory.",
    cycles: run.steps,
    unit: "step",
    rate: 1,
    chapters: run.requests.map(({ first, name }) => ({ cycle: first, label: name })),
    stills: [...new Set([0, ...ends.slice(0, 4), Math.floor((run.requests[0].first + ends[0]) / 2), run.steps - 1])].sort((x, y) => x - y),
    phase: (t) => run.at(t).request.name,
    mount: (tools) => mount(run, hidden, tools),
    caption: (t, at) => (at.length === 1 ? laneWords(run, t, at[0], hidden) : frameWords(run, t, hidden)),
    table: (t) => frameTable(run, t, hidden),
    move(at, key) {
      if (at.length !== 1) return [0];
      const by = /** @type {Record<string, number>} */ ({ ArrowLeft: -1, ArrowRight: 1, ArrowUp: -8, ArrowDown: 8 })[key];
      return [Math.max(0, Math.min(LANES - 1, at[0] + by))];
    },
    pictureLabel: "Lanes and what they ask for; arrow keys move a cursor from lane to lane",
    python: run.header.python,
    help: [
      rule,
      ...(run.banks ? [
        "A conflict is two different words of one bank wanted in the same phase; lanes that want the same word share it and never conflict.",
        "Up to 4 bytes a lane: one phase of 32 lanes. 8 bytes: two phases of 16 lanes, 16 bytes: four of 8, so that a perfect 16-byte access takes 4 wavefronts and has no conflict. The rule for 4 bytes is in the CUDA C++ Programming Guide; the phases agree with what NVIDIA staff explain (developer forum 77228) and are not documented beyond that.",
        ...run.requests.filter(({ paired, parts }) => paired !== parts).map(({ name, paired, parts }) => `${name}: on compute capability 7.0 to 7.5 lanes in pairs with equal addresses are served together (same post), which makes ${counted(paired, "wavefront")} of ${parts}. Not known of later ones.`),
      ] : [
        "Efficiency is the different bytes asked for over the bytes moved: 32 lanes side by side reach 100 %, 32 lanes in 32 sectors 4 bytes of 32, 12.5 %.",
        "A line of 128 bytes is what a cache keeps a tag for; it holds four sectors, and only those touched move. Sources: CUDA C++ Best Practices Guide on coalesced access; NVIDIA staff, developer forum 312884.",
      ]),
      ...ledgerRows(run, hidden).map(({ label: name, help }) => `${name[0].toUpperCase()}${name.slice(1)}: ${help[0].toLowerCase()}${help.slice(1)}`),
      "Point at a lane, or tab into the picture and use the arrow keys: the sentence says what it asks for and what comes of it.",
    ],
  };
}

export default { render: stage(open) };
