// Three dataflows on one clock: the same product on three arrays of one size. Three parts in this order: the machines
// and their words (look-ups in what was recorded), where they lie (pure), drawing and wiring (short).
//
// Letters as in kit/array.js; i counts machines in the order of the header: ws, os, is.

import { describe, exact, frameTable, layout, legendOf, makeArray, mark, MONO11, part, readRun, textWidths } from "./kit/array.js";
import { comparison, curves } from "./kit/compare.js";
import { h, set } from "./kit/dom.js";
import { legend } from "./kit/panels.js";
import { stage } from "./kit/stage.js";
import { number } from "./kit/words.js";

/** @typedef {import("./kit/array.js").Run} Run */
/** @typedef {import("./kit/array.js").Letter} Letter */

// ------------------------------------------------------------------------------------------ the machines

/** @param {import("./kit/wire.js").Packed} packed @returns {Run[]} */
export const readMachines = (packed) => packed.header.order.map((/** @type {string} */ name) => readRun(part(packed, name)));

/** The cycle a machine shows: its last one once it has ended. @param {Run} run @param {number} t */
const own = (run, t) => Math.min(t, run.T - 1);

/** @param {Run} run @param {number} t */
const ended = (run, t) => t >= run.T;

/** @param {Run} run */
const flowName = (run) => `${run.header.flow[0].toUpperCase()}${run.header.flow.slice(1)}`;

/** The phase of a machine in a word or a few. @param {Run} run @param {number} t */
const phaseOf = (run, t) => (ended(run, t) ? "ended" : run.phase(t) + (run.folds.length > 1 ? ` of fold ${run.foldAt(t).index + 1}` : ""));

/** One machine in one sentence. @param {Run} run @param {number} t @returns {string} */
export function machineWords(run, t) {
  if (ended(run, t)) return `${flowName(run)}: ended in cycle ${run.T - 1}, after ${number(run.T)} cycles.`;
  const { columns, roles } = run;
  const phase = phaseOf(run, t);
  const busy = columns.busy[t];
  if (run.phase(t) === "load") {
    const letter = roles.held.toUpperCase();
    return `${flowName(run)}: ${phase}; ${letter} sinks into its cells, nothing is multiplied yet.`;
  }
  const works = busy === 0 ? "no cell multiplies any more" : `${number(busy)} of ${number(run.R * run.C)} cells ${busy === 1 ? "multiplies" : "multiply"}`;
  const leaving = run.exits.get(t) ?? [];
  const partial = leaving.length > 0 && !leaving[0].final;
  const sums = leaving.length === 0 ? (run.gone(t) === 0 ? "no sum has left yet" : "no sum leaves")
    : leaving.length === 1 ? `C[${leaving[0].m},${leaving[0].n}] = ${exact(run.leaving(t, leaving[0].m, leaving[0].n), run.header.accumulator)} leaves`
      : `${leaving.length} sums leave`;
  return `${flowName(run)}: ${phase}; ${works}, ${sums}${partial ? ", to be read again by a later fold" : ""}.`;
}

/** Cycle and cell of every product of a machine, by its m, n and k. @type {WeakMap<Run, Map<string, number[]>>} */
const known = new WeakMap();

/** @param {Run} run @returns {Map<string, number[]>} */
function products(run) {
  let all = known.get(run);
  if (all) return all;
  all = new Map();
  for (let t = 0; t < run.T; t++) {
    for (let r = 0; r < run.R; r++) {
      for (let c = 0; c < run.C; c++) {
        const key = productKey(run, t, r, c);
        if (key) all.set(key, [t, r, c]);
      }
    }
  }
  known.set(run, all);
  return all;
}

/** Which product a cell forms: "m,n,k", or "" when it forms none. @param {Run} run @param {number} t @param {number} r @param {number} c */
function productKey(run, t, r, c) {
  const cell = run.cell(t, r, c);
  if (!cell.active) return "";
  const index = /** @param {Letter} letter */ (letter) => cell[/** @type {"heldIndex"} */ (`${run.register(letter)}Index`)];
  const [m, k] = run.element("a", index("a"));
  return `${m},${run.element("b", index("b"))[1]},${k}`;
}

/**
 * What is at (cycle, machine, cell), in words, and where the other machines form the same product.
 * @param {Run[]} runs @param {number} t @param {number[]} place @returns {string[]}
 */
export function describeCell(runs, t, [i, r, c]) {
  const run = runs[i];
  if (ended(run, t)) return [machineWords(run, t)];
  const words = describe(run, t, r, c);
  words[0] = `${flowName(run)}, ${words[0][0].toLowerCase()}${words[0].slice(1)}`;
  const key = productKey(run, t, r, c);
  if (!key) return words;
  const elsewhere = runs.filter((other) => other !== run).map((other) => {
    const [at, row, col] = products(other).get(key) ?? [];
    return `${other.header.flow} cell (${row},${col}) in cycle ${at}`;
  });
  return [...words, `The same product is formed by ${elsewhere.join(", and by ")}.`];
}

/** The frame as a table: every cell of every machine. @param {Run[]} runs @param {number} t */
function tableOf(runs, t) {
  return {
    caption: `Registers after cycle ${t}`,
    head: ["machine", "cell", "state", "stays", "moves right", "moves down", "product"],
    rows: runs.flatMap((run) => (ended(run, t) ? [[run.header.dataflow, "all", "ended", "–", "–", "–", "–"]]
      : frameTable(run, t, []).rows.map((row) => [run.header.dataflow, ...row]))),
  };
}

/** What is counted, by machine. @param {Run[]} runs */
function counters(runs) {
  /** @param {string} name */
  const soFar = (name) => (/** @type {number} */ i, /** @type {number} */ t) => {
    const values = runs[i].columns[name];
    return `${number(values[own(runs[i], t)])} / ${number(values[runs[i].T - 1])}`;
  };
  return [
    { label: "cycles", text: (/** @type {number} */ i, /** @type {number} */ t) => `${number(own(runs[i], t) + 1)} / ${number(runs[i].T)}`, help: "Cycles so far, of all that the machine takes." },
    { label: "multiply-adds", text: soFar("macs"), help: "One product and one addition each; the same for every dataflow." },
    { label: "reads of A", text: soFar("reads_a"), help: "Elements of A that entered the array; one that is needed by several folds enters again." },
    { label: "reads of B", text: soFar("reads_b"), help: "Elements of B that entered the array." },
    { label: "sums read again", text: soFar("reads_partial"), help: "Partial sums of an earlier fold that came back to be added to." },
    { label: "sums written out", text: soFar("writes_out"), help: "Sums that left the array, complete or for a later fold." },
    { label: "hops", text: soFar("hops"), help: "Moves of a value from a cell to its neighbour." },
    { label: "idle cell-cycles", text: soFar("idle_cell_cycles"), help: "Cells that did not multiply, added up over cycles." },
    { label: "issue decisions", text: soFar("decisions"), help: "How often anything had to be decided: once for each filling of the array, never for a cell." },
  ];
}

// ------------------------------------------------------------------------------------------ layout

/** Between cells: room for an arrow; on a phone a small one. */
const GAP = { wide: 10, narrow: 9 };
/** @typedef {"queues" | "registers" | "sums"} Look registers with what comes and leaves, registers alone, sums alone */

/** The widest text of each matrix on any of the machines. @param {Run[]} runs @returns {Record<Letter, number>} */
function widest(runs) {
  const all = runs.map(textWidths);
  const most = (/** @type {Letter} */ letter) => Math.max(...all.map((each) => each[letter]));
  return { a: most("a"), b: most("b"), c: most("c") };
}

/**
 * How many arrays stand beside each other, how wide each may be, and what they show: as much as has room in all three.
 * @param {Run[]} runs @param {Record<Letter, number>} chars @param {number} width
 * @returns {{across: number, room: number, look: Look, values: boolean}} `values`: whether there is room for any
 */
export function arrange(runs, chars, width) {
  const between = 20;
  const compact = runs[0].C * (Math.max(30, Math.ceil(chars.c * MONO11 + 5)) + GAP.narrow) + 3;
  const share = (/** @type {number} */ count) => Math.floor((width - (count - 1) * between) / count);
  const room = share(3);
  if (room >= 240) {
    /** @param {string[]} forms @param {number} [ahead] */
    const fits = (forms, ahead) => runs.every((run) => forms.includes(layout(run, chars, room, { ahead, gap: GAP.wide }).form));
    for (const forms of [["full", "stack"], ["bare"], ["compact"]]) {
      if (fits(forms)) return { across: 3, room, look: "queues", values: true };
      if (fits(forms, 0)) return { across: 3, room, look: "registers", values: true };
    }
    return { across: 3, room, look: "queues", values: false };
  }
  // On a phone the sums alone: all three arrays are to be seen without much scrolling.
  const across = [3, 2].find((count) => share(count) >= Math.max(160, compact)) ?? 1;
  return { across, room: Math.min(share(across), compact), look: "sums", values: share(across) >= compact };
}

/** From which width of the scene on the panels may stand beside the arrays: one at which values still have room. */
const beside = (/** @type {Run[]} */ runs, /** @type {Record<Letter, number>} */ chars) =>
  [1180, 1300, 1440].find((whole) => arrange(runs, chars, Math.min(whole * 0.76, whole - 354)).values) ?? Infinity;

// ------------------------------------------------------------------------------------------ draw and render

/** @param {Run} run @param {{prefix: string, still: boolean, chars: Record<Letter, number>}} setting */
function makeMachine(run, { prefix, still, chars }) {
  let over = false; // a machine that has ended shows nothing in its cells
  const covered = () => over;
  const looks = {
    queues: makeArray(run, { prefix: `${prefix}-queues`, still, chars, covered, gap: GAP.wide }),
    registers: makeArray(run, { prefix: `${prefix}-registers`, still, chars, covered, gap: GAP.wide, ahead: 0 }),
    sums: makeArray(run, { prefix: `${prefix}-sums`, still: true, chars, covered, gap: GAP.narrow }),
  };
  const { held, right, down } = run.roles;
  const name = (/** @type {Letter} */ letter) => (letter === "c" ? "sums of C" : letter.toUpperCase());
  const now = h("p", { class: "df-now" });
  const el = h("section", { class: "df-machine" },
    h("h4", {}, flowName(run)), now,
    h("p", { class: "df-roles" },
      h("span", {}, h("b", { class: `df-stays sy-${held}` }, name(held)), held === "c" ? " stay" : " stays"),
      h("span", {}, h("b", { class: `sy-${right}` }, `${name(right)} ▸`), " right"),
      h("span", {}, h("b", { class: `sy-${down}` }, `${name(down)} ▾`), " down")));
  let array = looks.queues;
  el.append(array.svg);
  return {
    el,
    /** @param {number} room @param {Look} look */
    resize(room, look) {
      if (looks[look] !== array) array.svg.replaceWith(looks[look].svg);
      array = looks[look];
      array.resize(room);
    },
    /** @param {number} t @param {number[]} selected */
    show(t, selected) {
      over = ended(run, t);
      set(el, { "data-ended": over || null });
      now.replaceChildren(h("b", {}, phaseOf(run, t)), over ? ` after ${number(run.T)} cycles` : `, cycle ${t} (0 to ${run.T - 1})`);
      array.show(Math.min(t, run.T), selected);
    },
    /** @param {number} x @param {number} y of the window @param {number[]} selected */
    hit(x, y, selected) {
      const box = array.svg.getBoundingClientRect();
      return array.hit(x - box.left, y - box.top, selected);
    },
  };
}

/**
 * @param {Run[]} runs
 * @param {import("./kit/stage.js").Tools} tools
 * @returns {import("./kit/stage.js").Picture}
 */
function mount(runs, { signal, still, prefix, select, point }) {
  const chars = widest(runs);
  const machines = runs.map((run, i) => makeMachine(run, { prefix: `${prefix}-${i}`, still, chars }));
  const el = h("div", { class: "df" }, ...machines.map((machine) => machine.el));
  const [{ R, C }] = runs;
  const longest = Math.max(...runs.map((run) => run.T));
  /** @type {number[]} */
  let shown = [];
  const resize = (/** @type {number} */ width) => {
    const { across, room, look } = arrange(runs, chars, width);
    set(el, { style: `--across: ${across}` });
    for (const machine of machines) machine.resize(room, look);
  };
  const show = (/** @type {import("./kit/stage.js").Frame} */ { cycle, selected }) => {
    shown = selected;
    machines.forEach((machine, i) => machine.show(cycle, selected[0] === i ? selected.slice(1) : []));
  };
  if (still) return { el, resize, show };

  /** @param {MouseEvent} event @returns {number[] | null} */
  const under = (event) => {
    const target = /** @type {Element} */ (event.target);
    const i = machines.findIndex((machine) => machine.el.contains(target));
    const cell = i >= 0 && target.closest(".sy-array") ? machines[i].hit(event.clientX, event.clientY, shown.slice(1)) : null;
    return cell && [i, ...cell];
  };
  el.addEventListener("pointermove", (event) => {
    if (event.pointerType !== "touch") point(under(event));
  }, { signal });
  el.addEventListener("pointerleave", () => point(null), { signal });
  el.addEventListener("click", (event) => select(under(event) ?? []), { signal });

  const names = runs.map((run) => run.header.dataflow);
  const bill = comparison({ title: "ledger: so far / at the end", names, rows: counters(runs) });
  const curve = curves({
    title: "cells working, by cycle", lines: runs.map((run, i) => ({ name: names[i], values: run.columns.busy })),
    most: R * C, cycles: longest, signal, summary: `Cells that multiply in each cycle, of ${R * C}, on each of the three machines`,
  });
  const kinds = legendOf(runs[0]);
  return {
    el,
    panels: [bill.el, curve.el],
    legend: legend([...kinds.slice(0, 2),
      { mark: h("b", { class: "df-key" }, "▢"), text: "framed value: stays in its cell" },
      { mark: h("b", { class: "df-key" }, names.join(", ")), text: `${runs.map((run) => run.header.flow.replace("stationary", "")).join(", ")}stationary` },
      { mark: h("b", { class: "df-key" }, "▸▾"), text: "moves to the next cell, right or down" }]),
    snug: true,
    wide: beside(runs, chars),
    resize,
    show(frame) {
      show(frame);
      bill.show(frame.cycle);
      curve.show(frame.cycle);
    },
  };
}

/** @param {import("./kit/wire.js").Packed} packed @returns {import("./kit/stage.js").Scene} */
function open(packed) {
  const runs = readMachines(packed);
  const { header } = packed;
  const [{ R, C, M, K, N }] = runs;
  const T = header.cycles;
  const spread = [0, ...header.chapters.map((/** @type {{cycle: number}} */ chapter) => chapter.cycle), T - 1];
  const stills = [...new Set(spread)].sort((x, y) => x - y);
  const rule = "Rule: values move one cell a cycle, and where two meet they are multiplied and added; the machines differ in what stays: B, the sums, or A.";
  return {
    title: `Three dataflows: ${M} × ${K} by ${K} × ${N} on ${R} × ${C} cells`,
    rule,
    simplified: "Cycles are counted from 0; a frame shows the registers at the end of its cycle. Simplified: operands are always there in time (no memory), "
      + `sums are kept as ${runs[0].header.accumulator}. A fold takes 2 × rows + columns + stream - 2 cycles in all three, with the cycles that drain an output-stationary array counted.`,
    cycles: T,
    rate: 1,
    chapters: header.chapters,
    stills: stills.length <= 6 ? stills : [0, 1, 2, 3, 4, 5].map((i) => stills[Math.round((i * (stills.length - 1)) / 5)]),
    phase: (t) => runs.map((run) => `${run.header.dataflow} ${ended(run, t) ? "ended" : run.phase(t)}`).join(", "),
    mount: (tools) => mount(runs, tools),
    caption: (t, at) => (at.length === 3 ? describeCell(runs, t, at) : runs.map((run) => machineWords(run, t))),
    table: (t) => tableOf(runs, t),
    move(at, key) {
      if (at.length !== 3) return [0, 0, 0];
      const [i, r, c] = at;
      if (key === "ArrowUp" || key === "ArrowDown") return [i, Math.max(0, Math.min(R - 1, r + (key === "ArrowUp" ? -1 : 1))), c];
      // Through the edge of one array into the next, so that the arrows reach all three.
      const across = i * C + c + (key === "ArrowLeft" ? -1 : 1);
      if (across < 0 || across >= runs.length * C) return at;
      return [Math.floor(across / C), r, across % C];
    },
    pictureLabel: "Three arrays; arrow keys move a cell cursor, through the edge of one into the next",
    mark,
    python: header.python,
    help: [
      rule,
      "Weight-stationary (ws) keeps B and streams A; output-stationary (os) keeps the sums and streams A and B; input-stationary (is) keeps A and streams B.",
      "All three form the same products and give the same result; they differ in what is read how often, in how far values travel, and in when results leave.",
      ...counters(runs).map(({ label, help }) => `${label[0].toUpperCase()}${label.slice(1)}: ${help[0].toLowerCase()}${help.slice(1)}`),
      "Point at a cell, or tab into the picture and use the arrow keys: the sentence says what happens there, and which cell of the other machines forms the same product.",
    ],
  };
}

export default { render: stage(open) };
