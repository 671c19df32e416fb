// Blocks enter one SM one by one until something runs out. Three parts in this order: what the launches hold
// (pure), drawing one frame (pure), wiring (short).
//
// Letters: t blocks placed, i launch, b block (from 1), w warp slot. What is taken after t blocks, how many fit and
// what runs out comes from Python (occupancy.py); here it is looked up, and each slot has its block by its number.

import { comparison } from "./kit/compare.js";
import { h, s, set, write } from "./kit/dom.js";
import { legend } from "./kit/panels.js";
import { stage } from "./kit/stage.js";
import { capital, counted, number } from "./kit/words.js";

/** @typedef {ReturnType<typeof readLane>} Lane */
/** @typedef {{name: string, label: string, part: number, has: number, limit: number | null, limiting: boolean}} Resource */
/** @typedef {"free" | "placed" | "now" | "asked"} State */

// ---------------------------------------------------------------------------------------- the launches

const percent = (/** @type {number} */ share) => `${Number((100 * share).toFixed(1))} %`;
/** Bytes in KiB where they are whole quarters of one, as Python says them. @param {number} bytes */
const size = (bytes) => (bytes && bytes % 256 === 0 ? `${(bytes / 1024).toLocaleString("en-US")} KiB` : `${number(bytes)} B`);
/** @param {Resource} resource @param {number} value */
const amount = ({ name }, value) => (name === "shared_memory" ? size(value) : number(value));
/** Two amounts of one resource, the unit said once where it is the same. @param {Resource} resource @param {number} value */
function share(resource, value) {
  const [part, whole] = [amount(resource, value), amount(resource, resource.has)];
  return part.endsWith(" KiB") && whole.endsWith(" KiB") ? `${part.slice(0, -4)} of ${whole}` : `${part} of ${whole}`;
}

/** @param {any} lane of the header @param {number} i @param {import("./kit/wire.js").Numbers} taken */
function readLane(lane, i, taken) {
  const resources = /** @type {Resource[]} */ (lane.resources);
  const n = /** @type {number} */ (lane.blocks);
  return {
    i, n, resources,
    name: /** @type {string} */ (lane.name),
    detail: /** @type {string} */ (lane.detail),
    warps: /** @type {number} */ (lane.warps),
    maxWarps: /** @type {number} */ (lane.max_warps),
    partitions: /** @type {number} */ (lane.partitions),
    perWarp: /** @type {number} */ (lane.registers_per_warp),
    partRegisters: /** @type {number} */ (lane.partition_registers),
    partWarps: /** @type {number} */ (lane.partition_warps),
    wholeShared: /** @type {number} */ (lane.whole_shared),
    reserved: /** @type {number} */ (lane.reserved),
    asked: /** @type {number} */ (lane.asked),
    capability: /** @type {string} */ (lane.capability),
    why: /** @type {string[]} */ (lane.why),
    advice: /** @type {string[]} */ (lane.advice),
    /** Blocks resident after frame t. @param {number} t */
    placed: (t) => Math.min(t, n),
    /** Whether the block that does not fit has been tried. @param {number} t */
    full: (t) => t > n,
    /** What is taken of a resource. @param {number} t @param {number} r */
    taken: (t, r) => taken[Math.min(t, n) * resources.length + r],
    /** What a block's part of the SM is in a frame. @param {number} t @param {number} b @returns {State} */
    state(t, b) {
      if (b <= Math.min(t, n)) return b === t ? "now" : "placed";
      return b === n + 1 && t > n ? "asked" : "free";
    },
    /** The block that has a warp slot. @param {number} w */
    owner: (w) => Math.floor(w / lane.warps) + 1,
  };
}

/** @param {import("./kit/wire.js").Packed} packed @returns {Lane[]} */
export function readLaunches({ header, columns }) {
  return header.lanes.map((/** @type {any} */ lane, /** @type {number} */ i) => readLane(lane, i, columns[`${i}.taken`]));
}

/** @param {Lane} lane @param {number} t */
const resident = (lane, t) => `${number(lane.taken(t, 0))} of ${lane.maxWarps} warps (${percent(lane.taken(t, 0) / lane.maxWarps)})`;

/** What a block takes, in a few words. @param {Lane} lane */
export function partWords({ warps, resources, asked }) {
  const words = [counted(warps, "warp")];
  if (resources[1].part) words.push(`${number(resources[1].part)} registers`);
  if (resources[2].part) words.push(`${size(resources[2].part)} of ${asked ? "" : "reserved "}shared memory`);
  return words;
}

/** @param {string[]} words */
const list = (words) => (words.length > 1 ? `${words.slice(0, -1).join(", ")} and ${words[words.length - 1]}` : words[0]);

/**
 * One launch in one frame. With several launches the sentences stay short and begin with the launch.
 * @param {Lane} lane @param {number} t @param {boolean} several @returns {string[]}
 */
function laneWords(lane, t, several) {
  const lead = several ? `${capital(lane.name)}: ` : "";
  const now = `${counted(lane.placed(t), "block")}, ${resident(lane, t)}`;
  if (!lane.full(t)) {
    return [several ? `${lead}block ${t} is placed; ${now}.` : `Block ${t} is placed: it takes ${list(partWords(lane))}. Resident now: ${now}.`];
  }
  const what = list(lane.resources.filter(({ limiting }) => limiting).map(({ label }) => label.toLowerCase()));
  if (!lane.n) return [`${lead}${lane.why[0]}`, ...lane.why.slice(1)];
  if (several) return [`${lead}block ${lane.n + 1} ${t === lane.n + 1 ? "does" : "did"} not fit, ${what} ran out; ${now}.`];
  return [`Block ${t} does not fit.`, ...lane.why, `Resident: ${now}.`];
}


/** The frame in words. @param {Lane[]} lanes @param {number} t @returns {string[]} */
export function frameWords(lanes, t) {
  if (t > 0) return lanes.flatMap((lane) => laneWords(lane, t, lanes.length > 1));
  return lanes.filter(({ i, resources }) => lanes.findIndex((other) => String(other.resources.map(({ has }) => has)) === String(resources.map(({ has }) => has))) === i)
    .map(({ resources, capability }) => `The SM is empty${lanes.length > 1 ? ` (compute capability ${capability})` : ""}: it has ${list(resources.map((one) => `${amount(one, one.has)} ${one.name === "shared_memory" ? "of shared memory" : one.label.toLowerCase()}`))}.`);
}

/** One block in words. @param {Lane[]} lanes @param {number} t @param {number[]} at launch and block */
export function describe(lanes, t, [i, b]) {
  const lane = lanes[i];
  const lead = lanes.length > 1 ? `${capital(lane.name)}, block ${b}` : `Block ${b}`;
  if (b > lane.n) return [`${lead} does not fit.`, ...lane.why];
  const first = (b - 1) * lane.warps;
  const slots = lane.warps === 1 ? `warp slot ${first}` : `warp slots ${first} to ${first + lane.warps - 1}`;
  const { part } = lane.resources[2];
  const shared = part ? `, shared memory from ${size((b - 1) * part)} to ${size(b * part)}${lane.reserved ? `, ${size(lane.reserved)} of it reserved by the system` : ""}` : "";
  const registers = lane.perWarp ? `, ${number(lane.perWarp)} registers for each warp, ${number(lane.resources[1].part)} in all` : "";
  return [`${lead} ${b <= lane.placed(t) ? "holds" : "will hold"} ${slots}${registers}${shared}, and block slot ${b - 1}.`];
}

/** @param {Lane[]} lanes @param {number} t @returns {import("./kit/stage.js").Table} */
function tableOf(lanes, t) {
  const several = lanes.length > 1;
  return {
    caption: t === 0 ? "The SM before the first block" : `The SM after block ${t} has come or been refused`,
    head: [several ? "launch" : "resource", ...(several ? ["resource"] : []), "a block takes", "taken", "free", "the SM has", "blocks it allows", "runs out"],
    rows: lanes.flatMap((lane) => lane.resources.map((one, r) => [
      several ? lane.name : one.label, ...(several ? [one.label] : []),
      amount(one, one.part), amount(one, lane.taken(t, r)), amount(one, one.has - lane.taken(t, r)), amount(one, one.has),
      one.limit === null ? "no limit" : one.limit, lane.full(t) && one.limiting ? "yes" : "no",
    ])),
  };
}

// ------------------------------------------------------------------------------------------------ draw

/** Marks on free ground, by the ids of a mount. @param {string} prefix */
const patterns = (prefix) => s("defs", {},
  s("pattern", { id: `${prefix}-rest`, width: 6, height: 6, patternUnits: "userSpaceOnUse" }, s("path", { d: "M-1 1L1 -1M0 6L6 0M5 7L7 5", class: "oc-hatch" })),
  s("pattern", { id: `${prefix}-cache`, width: 5, height: 5, patternUnits: "userSpaceOnUse" }, s("circle", { cx: 2.5, cy: 2.5, r: 0.9, class: "oc-dot" })),
  s("pattern", { id: `${prefix}-asked`, width: 6, height: 6, patternUnits: "userSpaceOnUse" }, s("path", { d: "M-1 5L1 7M0 0L6 6M5 -1L7 1", class: "oc-slash" })));

/**
 * One SM with a launch: every part of it as a bar that fills from the left.
 * @param {Lane} lane @param {{prefix: string, headed: boolean, barriers: boolean}} setting `barriers`: some SM on show has them
 */
function makeLane(lane, { prefix, headed, barriers }) {
  const fits = h("b", { class: "oc-fits" });
  const over = h("span", { class: "oc-over" }, lane.n ? "full" : "cannot start");
  const rows = lane.resources.map((resource, r) => {
    const said = h("span", { class: "oc-said" });
    const mark = h("b", { class: "oc-mark", "aria-hidden": "true" });
    const svg = s("svg", { class: "oc-bar", "aria-hidden": "true" });
    const stub = s("rect", { class: "oc-part oc-asked", style: `fill:url(#${prefix}-asked)` });
    return { resource, r, said, mark, svg, stub, el: h("div", { class: "oc-row" }, h("div", { class: "oc-label" }, h("span", {}, mark, resource.label), said), svg) };
  });
  /** Parts of the picture that belong to a block. @type {{node: Element, b: number, text?: Element}[]} */
  let parts = [];
  const none = barriers && lane.resources.length < 5
    ? h("div", { class: "oc-row" }, h("div", { class: "oc-label" }, h("span", {}, "Barriers"), h("span", { class: "oc-said" }, "not counted below 9.0"))) : null;
  const el = h("section", { class: "oc-lane", "data-lane": lane.i },
    h("header", {}, h("div", { class: "oc-head" }, headed ? h("h4", {}, capital(lane.name)) : fits, over), headed && lane.detail && h("p", { class: "oc-detail" }, lane.detail), headed && fits,
      h("p", {}, `a block: ${partWords(lane).join(", ")}`)),
    s("svg", { width: 0, height: 0, class: "oc-defs", "aria-hidden": "true" }, patterns(prefix)),
    ...rows.map((row) => row.el), none);

  /** @param {Element} svg @param {number} b @param {Record<string, number>} box */
  function part(svg, b, box) {
    const node = s("rect", { ...box, class: "oc-part", "data-block": b });
    svg.append(node);
    parts.push({ node, b });
    return node;
  }

  /** @param {number} wide @param {number} high @param {SVGElement} svg @param {...Node} children */
  function start(svg, wide, high, ...children) {
    set(svg, { width: wide, height: high });
    svg.replaceChildren(...children);
  }

  /** @param {number} wide @param {boolean} low bars are lower, where several stand below each other */
  function resize(wide, low) {
    parts = [];
    const W = wide - 17; // right of it the block that does not fit sticks out
    const [warpBar, registerBar, sharedBar, slotBar, barrierBar] = rows.map(({ svg }) => svg);
    const lines = lane.partitions;
    const STEP = low ? 9 : 12;
    // Warp slots: a line for each sub-partition; slots are dealt in turn.
    start(warpBar, wide, lines * STEP);
    const slot = W / (lane.maxWarps / lines);
    for (let w = 0; w < lane.maxWarps; w++) {
      part(warpBar, lane.owner(w), { x: 0.5 + slot * Math.floor(w / lines), y: 0.5 + STEP * (w % lines), width: slot - 1, height: STEP - 3 });
    }
    // Registers: as wide as they are many; what is left over at the end of a line is too small for a warp.
    const scale = W / lane.partRegisters;
    const rest = lane.partRegisters - lane.partWarps * lane.perWarp;
    start(registerBar, wide, lines * STEP, ...Array.from({ length: lines }, (_, p) => s("g", {},
      s("rect", { x: 0.5, y: 0.5 + STEP * p, width: W, height: STEP - 3, class: "oc-ground" }),
      lane.perWarp && rest > 0 ? s("rect", { x: 0.5 + W - rest * scale, y: 0.5 + STEP * p, width: rest * scale, height: STEP - 3, class: "oc-rest", fill: `url(#${prefix}-rest)` }) : null)));
    for (let w = 0; w < lane.partWarps * lines; w++) {
      part(registerBar, lane.owner(w), { x: 0.5 + lane.perWarp * scale * Math.floor(w / lines), y: 0.5 + STEP * (w % lines), width: Math.max(0.8, lane.perWarp * scale - 1), height: STEP - 3 });
    }
    // Shared memory: one bar; what the carve-out leaves to the L1 cache is dotted.
    const { part: bytes, has } = lane.resources[2];
    const each = W / lane.wholeShared;
    start(sharedBar, wide, 18, s("rect", { x: 0.5, y: 0.5, width: has * each, height: 16, class: "oc-ground" }),
      has < lane.wholeShared ? s("rect", { x: 0.5 + has * each, y: 0.5, width: (lane.wholeShared - has) * each, height: 16, class: "oc-cache", fill: `url(#${prefix}-cache)` }) : s("g"));
    for (let b = 1; bytes && b <= lane.n + 1; b++) {
      const width = Math.min(bytes, has - (b - 1) * bytes) * each - 1;
      if (width > 0) part(sharedBar, b, { x: 0.5 + (b - 1) * bytes * each, y: 0.5, width, height: 16 });
    }
    // Block slots: in as many lines as it takes for a number to have room.
    const slots = lane.resources[3].has;
    const line = Math.ceil(slots / Math.ceil((slots * 20) / W));
    const side = W / line;
    start(slotBar, wide, Math.ceil(slots / line) * 18);
    for (let b = 1; b <= slots; b++) {
      const [x, y] = [0.5 + side * ((b - 1) % line), 0.5 + 18 * Math.floor((b - 1) / line)];
      const node = part(slotBar, b, { x, y, width: side - 1, height: 15 });
      const text = s("text", { x: x + (side - 1) / 2, y: y + 11.5, class: "oc-number" }, String(b));
      slotBar.append(text);
      parts[parts.length - 1] = { node, b, text };
    }
    if (barrierBar) {
      const count = lane.resources[4].has;
      start(barrierBar, wide, 11);
      for (let b = 1; b <= count; b++) part(barrierBar, b, { x: 0.5 + (W / count) * (b - 1), y: 0.5, width: Math.max(1, W / count - 1), height: 9 });
    }
    for (const { svg, stub } of rows) {
      set(stub, { x: W + 2.5, y: 0.5, width: 13, height: Number(svg.getAttribute("height")) - 3 });
      svg.append(stub);
    }
  }

  /** @param {number} t @param {number[]} selected */
  function show(t, selected) {
    const full = lane.full(t);
    const chosen = selected[0] === lane.i ? selected[1] : 0;
    for (const { node, b, text } of parts) {
      const state = lane.state(t, b);
      const thin = Number(node.getAttribute("width")) < 5; // an outline would cover it
      set(node, {
        class: `oc-part oc-${state}${b % 2 ? " oc-odd" : ""}${thin ? " oc-thin" : ""}${b === chosen ? " oc-chosen" : ""}`,
        style: state === "asked" && !text ? `fill:url(#${prefix}-asked)` : null, // under a number it would not be read
      });
      if (text) set(text, { class: `oc-number oc-on-${state}` });
    }
    for (const { resource, r, said, mark, stub, el: row } of rows) {
      const out = full && resource.limiting;
      write(said, resource.part || r < 2 ? (resource.part ? share(resource, lane.taken(t, r)) : "none counted") : "none asked for");
      write(mark, out ? "✗ " : "");
      set(row, { "data-out": out || null });
      set(stub, { visibility: out ? null : "hidden" });
    }
    set(el, { "data-full": full || null });
    write(fits, `${counted(lane.placed(t), "block")}, ${number(lane.taken(t, 0))} of ${lane.maxWarps} warps`);
    set(over, { "data-on": full || null });
  }
  return { el, resize, show };
}

// ---------------------------------------------------------------------------------------------- render

/** What to change for one more block, launch by launch. @param {Lane[]} lanes */
function makeAdvice(lanes) {
  return h("section", { class: "pw-panel oc-advice" }, h("header", {}, h("h4", {}, "for one more block")),
    h("div", { class: "oc-ways" }, ...lanes.map((lane) => h("div", {}, lanes.length > 1 && h("b", {}, capital(lane.name)),
      lane.detail && ` (${lane.detail})`, h("ul", {}, ...lane.advice.map((sentence) => h("li", {}, sentence)))))),
    h("p", {}, "More occupancy is not more speed: it gives the schedulers more warps to choose from, and helps only while they have too few."));
}

/** @param {Lane[]} lanes */
function limitRows(lanes) {
  const names = /** @type {[string, string][]} */ ([["warps", "by warp slots"], ["registers", "by registers"], ["shared_memory", "by shared memory"], ["blocks", "by block slots"], ["barriers", "by barriers"]]);
  const of = (/** @type {number} */ i, /** @type {string} */ name) => lanes[i].resources.find((one) => one.name === name);
  return [
    ...names.filter(([name]) => lanes.some(({ i }) => of(i, name))).map(([name, label]) => ({
      label,
      help: `Blocks the SM would hold if nothing but ${label.slice(3)} counted.`,
      text: (/** @type {number} */ i, /** @type {number} */ t) => {
        const one = of(i, name);
        if (!one || one.limit === null) return "no limit";
        return `${lanes[i].full(t) && one.limiting ? "✗ " : ""}${number(one.limit)}`;
      },
    })),
    { label: "blocks placed", help: "Blocks that are resident in this frame.", text: (/** @type {number} */ i, /** @type {number} */ t) => number(lanes[i].placed(t)) },
    { label: "warps resident", help: "Warps of those blocks.", text: (/** @type {number} */ i, /** @type {number} */ t) => `${number(lanes[i].taken(t, 0))} of ${lanes[i].maxWarps}` },
    { label: "occupancy", help: "Resident warps as a share of the most the SM holds.", text: (/** @type {number} */ i, /** @type {number} */ t) => percent(lanes[i].taken(t, 0) / lanes[i].maxWarps) },
  ];
}

/**
 * @param {Lane[]} lanes
 * @param {import("./kit/stage.js").Tools} tools
 * @returns {import("./kit/stage.js").Picture}
 */
function mount(lanes, { signal, still, prefix, select, point }) {
  const barriers = lanes.some(({ resources }) => resources.length > 4);
  const views = lanes.map((lane) => makeLane(lane, { prefix: `${prefix}-${lane.i}`, headed: lanes.length > 1, barriers }));
  const el = h("div", { class: "oc" }, ...views.map((view) => view.el));
  const resize = (/** @type {number} */ width) => {
    const GAP = 14;
    const columns = Math.max(1, Math.min(lanes.length, Math.floor((width + GAP) / (224 + GAP))));
    const wide = Math.min(820, Math.floor((width - GAP * (columns - 1)) / columns));
    set(el, { style: `grid-template-columns:repeat(${columns},${wide}px);column-gap:${GAP}px` });
    for (const view of views) view.resize(wide, columns < lanes.length);
  };
  const show = (/** @type {import("./kit/stage.js").Frame} */ { cycle, selected }) => views.forEach((view) => view.show(cycle, selected));
  if (still) return { el, resize, show };

  /** @param {Event} event @returns {number[] | null} */
  const under = ({ target }) => {
    const node = target instanceof Element ? target.closest("[data-block]") : null;
    if (!node) return null;
    const i = Number(/** @type {HTMLElement} */ (node.closest(".oc-lane")).dataset.lane);
    const b = Number(node.getAttribute("data-block"));
    return b <= lanes[i].n + 1 ? [i, b] : null;
  };
  el.addEventListener("pointermove", (event) => {
    if (event.pointerType !== "touch") point(under(event));
  }, { signal });
  el.addEventListener("pointerleave", () => point(null), { signal });
  el.addEventListener("click", (event) => select(under(event) ?? []), { signal });

  const bill = comparison({
    title: "blocks an SM, by each limit alone", rows: limitRows(lanes),
    names: lanes.map((lane) => (lanes.length > 1 ? capital(lane.name) : "")),
  });
  return {
    el,
    // Of several launches it is read at rest, below the transport.
    panels: lanes.length > 1 ? [bill.el] : [bill.el, makeAdvice(lanes)],
    after: lanes.length > 1 ? makeAdvice(lanes) : undefined,
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
  /** @param {...Node} children */
  const mark = (...children) => s("svg", { width: 26, height: 16, viewBox: "0 0 26 16", "aria-hidden": "true" }, ...children);
  const box = (/** @type {string} */ kind, /** @type {string} */ fill = "") => s("rect", { x: 0.5, y: 2.5, width: 25, height: 11, class: kind, style: fill ? `fill:${fill}` : null });
  const cached = lanes.some((lane) => lane.resources[2].has < lane.wholeShared);
  const rests = lanes.some((lane) => lane.perWarp && lane.partRegisters > lane.partWarps * lane.perWarp);
  return legend([
    { mark: mark(s("rect", { x: 0.5, y: 2.5, width: 12, height: 11, class: "oc-part oc-placed" }), s("rect", { x: 13.5, y: 2.5, width: 12, height: 11, class: "oc-part oc-placed oc-odd" })), text: "blocks placed, in turn" },
    { mark: mark(box("oc-part oc-now")), text: "the block placed in this frame" },
    { mark: mark(box("oc-part oc-free")), text: "free" },
    { mark: mark(box("oc-part oc-asked", `url(#${prefix}-0-asked)`)), text: "the block that does not fit; what sticks out has no room" },
    ...(rests ? [{ mark: mark(box("oc-rest", `url(#${prefix}-0-rest)`)), text: "too small for a warp" }] : []),
    ...(cached ? [{ mark: mark(box("oc-cache", `url(#${prefix}-0-cache)`)), text: "L1 cache, by the carve-out" }] : []),
    { mark: h("b", { class: "oc-mark", "aria-hidden": "true" }, "✗"), text: "runs out" },
  ]);
}

/** @param {import("./kit/wire.js").Packed} packed @returns {import("./kit/stage.js").Scene} */
function open(packed) {
  const { header } = packed;
  const lanes = readLaunches(packed);
  const T = header.frames;
  const rule = "Rule: a block enters an SM whole, when everything it needs is free, and keeps it until it ends; what runs out first decides.";
  const ends = lanes.map((/** @type {Lane} */ lane) => lane.n + 1);
  const stills = [...new Set([0, 1, ...ends, Math.floor((T - 1) / 2)])].filter((t) => t < T).sort((x, y) => x - y);
  while (stills.length < 3 && stills.length < T) stills.push(stills.length);
  const alike = new Set(lanes.map((/** @type {Lane} */ { capability }) => capability)).size === 1;
  const [lane] = lanes;
  return {
    title: `Blocks on one SM${alike ? ` of compute capability ${lane.capability}` : ""}${lanes.length > 1 ? `: ${lanes.length} launches` : ""}`,
    rule,
    given: header.given || undefined,
    simplified: "Blocks are counted from 1; frame 0 is the empty SM. Counted as NVIDIA's occupancy header (CUDA 13.0) does. Simplified: the grid has blocks enough, none ends, "
      + "and warps are dealt to the four sub-partitions in turn; which one a warp really goes to is not documented.",
    cycles: T,
    unit: "block",
    rate: T > 14 ? 3 : 1,
    chapters: header.chapters,
    stills,
    phase: (t) => {
      const full = lanes.filter((/** @type {Lane} */ one) => one.full(t)).length;
      if (lanes.length > 1) return `${full} of ${lanes.length} launches full`;
      return t === 0 ? "empty" : !full ? "filling" : lane.n ? "full" : "cannot start";
    },
    mount: (tools) => mount(lanes, tools),
    caption: (t, at) => (at.length === 2 ? describe(lanes, t, at) : frameWords(lanes, t)),
    table: (t) => tableOf(lanes, t),
    move(at, key) {
      if (at.length !== 2) return [0, 1];
      const [i, b] = at;
      const next = key === "ArrowUp" ? i - 1 : key === "ArrowDown" ? i + 1 : i;
      const to = Math.max(0, Math.min(lanes.length - 1, next));
      const step = key === "ArrowLeft" ? -1 : key === "ArrowRight" ? 1 : 0;
      return [to, Math.max(1, Math.min(lanes[to].n + 1, b + step))];
    },
    pictureLabel: "The SM of each launch; arrow keys move over its blocks",
    python: header.python,
    help: [
      rule,
      "Warp slots: a block takes one for each 32 threads, its last warp full or not.",
      "Registers: a warp is given them in steps of 256, and all of them in one of four sub-partitions of 16,384. What is left there may be too small for another warp, so fewer blocks may fit than 65,536 registers would hold together.",
      "Shared memory: static and dynamic together, from compute capability 8.0 on with 1 KiB that the system reserves in each block, rounded up to 128 bytes (256 on 7.x).",
      "Block slots and barriers are the SM's own: no change of a launch gives more of them.",
      ...limitRows(lanes).map(({ label, help }) => `${capital(label)}: ${help[0].toLowerCase()}${help.slice(1)}`),
      "More occupancy is not more speed: a kernel whose warps issue several independent instructions each hides the same latency with fewer warps (V. Volkov, Better Performance at Lower Occupancy, GPU Technology Conference 2010, nvidia.com/content/GTC-2010/pdfs/2238_GTC2010.pdf; cited as others cite it, the slides were not read).",
      "Fewer registers may make the compiler spill to local memory, which costs loads and stores; measure both.",
      "Point at a part of a bar, or tab into the picture and use the arrow keys: the sentence says what that block holds.",
    ],
  };
}

export default { render: stage(open) };
