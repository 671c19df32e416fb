// The systolic array: matrices, skewed queue, cells, exits, results, ledger. How a run is read and an array drawn is
// in kit/array.js, which other scenes share; here are this scene's own words and its wiring.
//
// Letters: t cycle, r array row, c array column, m n k the product's indices. Registers of a cell: `held`
// stays, `right` moves right, `down` moves down; `run.roles` says which matrix each carries.

import { chapters, describe, exact, frameTable, legendOf, makeActivity, makeArray, makeProduct, mark, readRun, ruleOf } from "./kit/array.js";
import { h } from "./kit/dom.js";
import { chart, ledger, legend } from "./kit/panels.js";
import { stage } from "./kit/stage.js";
import { number } from "./kit/words.js";

/** @typedef {import("./kit/array.js").Run} Run */

/** What works, where folds overlap. @param {Run} run @param {number} t @returns {string} */
function overlapWords(run, t) {
  const { R, C, folds, columns, origins } = run;
  const busy = columns.busy[t];
  const letter = run.roles.held.toUpperCase();
  const phase = run.phase(t);
  if (phase === "load") return `Load: ${letter} sinks into the shadow registers from the top, each column one cycle after the one before; nothing is multiplied yet.`;
  if (busy === 0) return run.loads ? "Drain: the last sums travel down to the bottom edge." : "Drain: the last finished sums sink through the shadow registers and out.";
  // A fold works from its origin until its last cell, r + c cycles later, has met the last of the stream.
  const at = folds.filter(({ index, rows, cols }) => origins[index] <= t && t < origins[index] + rows + cols - 2 + run.stream).map((fold) => fold.number);
  const which = at.length > 1 ? `for folds ${at.slice(0, -1).join(", ")} and ${at[at.length - 1]} at once` : `for fold ${at[0]}`;
  const words = `${phase[0].toUpperCase()}${phase.slice(1)}: ${number(busy)} of ${number(R * C)} cells multiply, ${which}.`;
  // The cells that take the next fold over stand on one anti-diagonal.
  for (const { index } of folds.slice(1)) {
    const d = t - origins[index];
    if (d < 0 || d > R + C - 2) continue;
    let taking = 0;
    for (let r = Math.max(0, d - C + 1); r <= Math.min(R - 1, d); r++) taking += Number(columns.start[(index * R + r) * C + d - r] === t);
    if (taking) return `${words} On one anti-diagonal ${taking === 1 ? "one cell begins" : `${number(taking)} cells begin`} fold ${folds[index].number}${run.loads ? `, with ${letter} from ${taking === 1 ? "its shadow register" : "their shadow registers"}` : ""}.`;
  }
  return words;
}

/** The whole frame in words. @param {Run} run @param {number} t @returns {string[]} */
export function frameWords(run, t) {
  const busy = run.columns.busy[t];
  const fold = run.foldAt(t);
  const many = run.foldCount > 1 ? ` of fold ${fold.number}` : "";
  const used = fold.rows * fold.cols;
  const inUse = used === run.R * run.C ? `${number(used)} cells` : `the ${number(used)} cells in use`;
  const { held, right, down } = run.roles;
  const letters = [held, right, down].map((letter) => letter.toUpperCase());
  const phase = run.phase(t);
  /** @type {string} */
  let first;
  if (run.overlap) {
    first = overlapWords(run, t);
  } else if (phase === "load") {
    first = `Load${many}: ${letters[0]} sinks in from the top, its bottom row first, one row of cells a cycle; nothing is multiplied yet.`;
  } else if (phase === "fill") {
    first = run.loads
      ? `Fill${many}: ${letters[1]} enters from the left, each row one cycle after the row above, so the front is a diagonal. ${number(busy)} of ${inUse} multiply.`
      : `Fill${many}: A enters from the left and B from the top, each line one cycle after the one before, so the front is a diagonal. ${number(busy)} of ${inUse} multiply.`;
  } else if (phase === "steady") {
    first = `Steady${many}: ${busy === used ? `all ${inUse.replace("the ", "")}` : `${number(busy)} of ${inUse}`} multiply and add in this one cycle.`;
  } else if (busy > 0) {
    first = `Drain${many}: the streams end, and cells fall idle from the top left on; ${number(busy)} of ${inUse} multiply.`;
  } else {
    first = run.loads ? `Drain${many}: the last sums travel down to the bottom edge.`
      : `Drain${many}: the finished sums are shifted down and out, one row a cycle.`;
  }
  const leaving = run.exits.get(t) ?? [];
  if (!leaving.length) {
    const now = run.listed ? "No sum leaves in this cycle; " : "";
    return [first, `${now}${number(run.gone(t))} of ${number(run.M * run.N)} elements of C have left the array.`];
  }
  const named = leaving.slice(0, 4);
  const more = leaving.length > 4 ? ` and ${leaving.length - 4} more` : "";
  // Where folds overlap, some columns may still give sums of the one while others already give those of the next.
  /** @param {boolean} final */
  const list = (final) => named.filter((each) => each.final === final)
    .map(({ m, n }) => `C[${m},${n}] = ${exact(run.leaving(t, m, n), run.header.accumulator)}`).join(", ");
  const [whole, partial] = [list(true), list(false)];
  const [head, tail] = [whole && `complete: ${whole}`, partial && `not yet complete, later folds add to it: ${partial}`];
  return [first, `Leaving at the bottom, ${[head, tail].filter(Boolean).join("; ")}${more}.`];
}

// ---------------------------------------------------------------------------------------------- render

/**
 * @param {Run} run
 * @param {import("./kit/stage.js").Tools} tools
 * @param {boolean} hidden what comes later is kept from the reader
 * @returns {import("./kit/stage.js").Picture}
 */
function mount(run, { signal, still, prefix, select, point }, hidden) {
  const array = makeArray(run, { prefix, still });
  const activity = run.large ? makeActivity(run) : null;
  const el = h("div", { class: "sy" }, activity?.el, still && activity ? null : array.svg);
  if (still) {
    return {
      el,
      resize(width) {
        array.resize(width);
        activity?.resize(Math.min(width, 256));
      },
      show(frame) {
        array.show(frame.cycle, []);
        activity?.show(frame.cycle, frame.theme, [], 0);
      },
    };
  }
  /** @type {number[]} */
  let shown = [];
  /** @param {MouseEvent} event @returns {number[] | null} */
  const under = (event) => {
    const target = /** @type {Element} */ (event.target);
    const map = activity && target.closest(".sy-map");
    const box = (map ? activity.canvas : array.svg).getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    if (map) return [Math.floor((y / box.height) * run.R), Math.floor((x / box.width) * run.C)].map((v, i) => Math.max(0, Math.min([run.R, run.C][i] - 1, v)));
    return target.closest(".sy-array") ? array.hit(x, y, shown) : null;
  };
  // Over the window itself a hover would drag the window along under the pointer; there a click selects.
  el.addEventListener("pointermove", (event) => {
    const inWindow = run.large && /** @type {Element} */ (event.target).closest(".sy-array");
    if (event.pointerType !== "touch" && !inWindow) point(under(event));
  }, { signal });
  el.addEventListener("pointerleave", () => point(null), { signal });
  el.addEventListener("click", (event) => {
    select(under(event) ?? []);
  }, { signal });

  const product = makeProduct(run);
  const curve = chart({
    title: "cells working, by cycle", values: run.columns.busy, most: run.R * run.C, signal, ends: !hidden,
    summary: `Cells working in each cycle, of ${run.R * run.C}`,
  });
  const bill = ledger({ title: "ledger so far", rows: ledgerRows(run, hidden) });
  const observer = new ResizeObserver(([entry]) => {
    product.resize(entry.contentRect.width);
    product.show(cycle, shown, theme);
  });
  let cycle = 0;
  let theme = "light";
  observer.observe(/** @type {Element} */ (product.el.querySelector("header")));
  signal.addEventListener("abort", () => observer.disconnect(), { once: true });
  product.resize(300);

  return {
    el,
    panels: [product.el, curve.el, bill.el],
    legend: legend(legendOf(run)),
    snug: true,
    resize(width) {
      const beside = activity && width >= 740;
      array.resize(beside ? Math.min(width - 276, 560) : width);
      activity?.resize(beside ? Math.min(width - array.width() - 20, 512) : Math.min(width, 400));
    },
    show(frame) {
      ({ cycle, selected: shown, theme } = frame);
      array.show(cycle, shown);
      activity?.show(cycle, theme, shown, array.span());
      product.show(cycle, shown, theme);
      curve.show(cycle);
      bill.show(cycle);
    },
  };
}

/** @param {Run} run @param {boolean} hidden what comes later is kept from the reader */
function ledgerRows(run, hidden) {
  const { columns } = run;
  const { cycle: first, cycles } = run.header.whole;
  const all = /** @type {Record<string, number>} */ ({ macs: run.M * run.N * run.K });
  const of = (/** @type {number} */ total) => (hidden ? "" : ` of ${number(total)}`);
  /** @param {string} name */
  const ofAll = (name) => (/** @type {number} */ t) => `${number(columns[name][t])}${of(all[name])}`;
  /** @param {string} name */
  const soFar = (name) => (/** @type {number} */ t) => number(columns[name][t]);
  return [
    { label: "cycles", text: (/** @type {number} */ t) => `${number(first + t + 1)}${of(cycles)}`, help: "Cycle 0 is the first, so cycle t ends after t + 1 of them." },
    { label: "multiply-adds", text: ofAll("macs"), help: "One product and one addition each; a product of m, k, n needs m × k × n." },
    { label: "reads of A / of B", text: (/** @type {number} */ t) => `${number(columns.reads_a[t])} / ${number(columns.reads_b[t])}`, help: "Elements of A and of B that entered the array." },
    { label: "sums written out", text: soFar("writes_out"), help: "Sums that left the array, complete or for a later fold." },
    { label: "hops", text: soFar("hops"), help: "Moves of a value from a cell to its neighbour." },
    { label: "issue decisions", text: (/** @type {number} */ t) => `${number(columns.decisions[t])} (one a fold)`, help: "How often anything had to be decided: once for each filling of the array, never for a cell." },
    { label: "idle cell-cycles", text: soFar("idle_cell_cycles"), help: "Cells that did not multiply, added up over cycles." },
  ];
}

/** Who counts cycles otherwise, by the name in the header. */
const TOOLS = /** @type {Record<string, string>} */ ({ scalesim: "SCALE-Sim 3.0.0", stonne: "STONNE" });

/** Which part of the run is shown, and by which count its cycles go. @param {Run} run @returns {string} */
function given(run) {
  const { fold, folds, cycle, cycles } = run.header.whole;
  const shown = run.folds.length;
  const last = fold + shown;
  const part = shown === folds ? "" : `Shown: ${shown === 1 ? `fold ${last}` : `folds ${fold + 1} to ${last}`} of ${number(folds)}`
    + `${cycle ? `; cycle 0 here is cycle ${number(cycle)} of the run` : ""}. `;
  /** @type {[string, number | null, string][]} */
  const others = run.header.conventions.filter((/** @type {[string, number | null, string]} */ [name, count]) => name in TOOLS && count !== null);
  const counts = others.map(([name, count, reason], i) => {
    const told = `${TOOLS[name]} counts ${number(count ?? 0)}`;
    return i === 0 && reason.startsWith(`${TOOLS[name]} `) ? `${told}: it ${reason.slice(TOOLS[name].length + 1)}` : `${told} (see Help).`;
  });
  return `${part}${number(cycles)} cycles, counting each in which a register changes. ${counts.join(" ")}`;
}

/**
 * @param {import("./kit/wire.js").Packed} packed @param {import("./kit/stage.js").Options} options
 * @returns {import("./kit/stage.js").Scene}
 */
function open(packed, options) {
  const run = readRun(packed);
  const hidden = options.future === "hidden";
  const { header, R, C, T } = run;
  const marks = chapters(run);
  // The film: the middle of each of the first chapters, between the first cycle and the last.
  const middles = marks.slice(0, 4).map(({ cycle }, i) => Math.floor((cycle + (marks[i + 1]?.cycle ?? T)) / 2));
  const stills = [...new Set([0, ...middles, T - 1])].sort((x, y) => x - y);
  const title = header.flow[0].toUpperCase() + header.flow.slice(1);
  return {
    title: `${title} array, ${R} × ${C}`,
    rule: ruleOf(run),
    simplified: "Cycles are counted from 0; a frame shows the registers at the end of its cycle. Simplified: operands are always there in time (no memory), "
      + `${run.overlap ? "" : "a fold loads only when the one before has ended, "}sums are kept as ${header.accumulator}.`,
    given: hidden ? undefined : given(run),
    cycles: T,
    rate: T <= 64 ? 1 : T <= 200 ? 8 : 60,
    chapters: marks,
    stills,
    phase: (t) => run.phase(t) + (run.foldCount > 1 && !hidden ? `, fold ${run.foldAt(t).number} of ${number(run.foldCount)}` : ""),
    mount: (tools) => mount(run, tools, hidden),
    caption: (t, at) => (at.length === 2 ? describe(run, t, at[0], at[1]) : frameWords(run, t)),
    table: (t, at) => frameTable(run, t, at),
    move(at, key) {
      if (at.length !== 2) return run.large ? [Math.floor(R / 2), Math.floor(C / 2)] : [0, 0];
      const [dr, dc] = /** @type {Record<string, number[]>} */ ({ ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] })[key];
      return [Math.max(0, Math.min(R - 1, at[0] + dr)), Math.max(0, Math.min(C - 1, at[1] + dc))];
    },
    pictureLabel: "The array; arrow keys move a cell cursor",
    mark,
    python: header.python,
    help: [
      ruleOf(run),
      "Load: the stationary matrix is shifted in. Fill: more and more cells work. Steady: all cells in use work. Drain: cells fall idle while the last sums leave.",
      "A fold is one filling of the array; a product larger than the array takes several.",
      ...ledgerRows(run, hidden).map(({ label: name, help }) => `${name[0].toUpperCase()}${name.slice(1)}: ${help[0].toLowerCase()}${help.slice(1)}`),
      ...(hidden ? [] : header.conventions.map((/** @type {[string, number | null, string]} */ [name, count, reason]) =>
        `Counted ${name in TOOLS ? `by ${TOOLS[name]}` : "here"}: ${count === null ? "no count" : `${number(count)} cycles`}. ${reason}`)),
      "Point at a cell, or tab into the picture and use the arrow keys: the sentence below says where each value came from and where it goes.",
    ],
  };
}

export default { render: stage(open) };
