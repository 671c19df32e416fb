// The tile pipeline: HBM to VMEM, MXU, VMEM to HBM as lanes over time, two buffers above one, and the buffers as boxes
// that fill and empty. Three parts: the runs and their words (look-ups), layout (pure), drawing and wiring (short).
//
// Letters: r counts runs from the top, e a run's events, f frames; a frame is a cycle in which something starts or ends.

import { comparison, curves } from "./kit/compare.js";
import { h, s, set, write } from "./kit/dom.js";
import { legend } from "./kit/panels.js";
import { stage } from "./kit/stage.js";
import { firstCycle, tickStep } from "./kit/timeline.js";
import { inColour, number } from "./kit/words.js";

/** @typedef {import("./kit/wire.js").Numbers} Numbers */
/** @typedef {ReturnType<typeof readRuns>[number]} Run */
/** @typedef {ReturnType<typeof layout>} Layout */

const MULTIPLY = 2;
const WRITE = 3;
const LANES = ["HBM → VMEM", "MXU", "VMEM → HBM"];

// ---------------------------------------------------------------------------------------------- the runs

/** @param {import("./kit/wire.js").Packed} packed */
export function readRuns({ header, columns }) {
  const heads = /** @type {{name: string, buffers: number, cycles: number, steps: number, high_water: number}[]} */ (header.runs);
  return heads.map((head, r) => {
    /** @param {string} name @returns {Numbers} */
    const column = (name) => columns[`${name}${r}`];
    const [kind, step, tiles, start, end, slot, size, after] =
      ["kind", "step", "tiles", "start", "end", "slot", "size", "after"].map(column);
    return {
      ...head, kind, step, tiles, start, end, slot, size, after, events: kind.length,
      mxu: column("mxu"), dma: column("dma"), sentence: column("sentence"), tally: column("tally"),
      held: column("held"), state: column("state"), share: column("share"),
    };
  });
}

/** The lane of an event. @param {Run} run @param {number} e */
const laneOf = (run, e) => (run.kind[e] === MULTIPLY ? 1 : run.kind[e] === WRITE ? 2 : 0);

/** @param {number} kind @returns {"a" | "b" | "c"} the matrix that a transfer carries */
const letterOf = (kind) => (kind === 0 ? "a" : kind === 1 ? "b" : "c");

/** @param {Run} run @param {number} e @param {"a" | "b" | "c"} letter @returns {string} such as A[0,1] */
function tileName(run, e, letter) {
  const [i, p, j] = run.tiles.subarray(3 * e, 3 * e + 3);
  return { a: `A[${i},${p}]`, b: `B[${p},${j}]`, c: `C[${i},${j}]` }[letter];
}

/** @param {Run} run @param {number} e @returns {string} */
function eventName(run, e) {
  if (run.kind[e] === MULTIPLY) return `step ${run.step[e]}`;
  return run.kind[e] === WRITE ? `the write of ${tileName(run, e, "c")}` : `the fetch of ${tileName(run, e, letterOf(run.kind[e]))}`;
}

/** One event in words: what, when, and what let it start. @param {Run} run @param {number} e @returns {string} */
export function describe(run, e) {
  const when = `cycles ${number(run.start[e])} to ${number(run.end[e])}`;
  const what = run.kind[e] === MULTIPLY
    ? `Step ${run.step[e]} multiplies ${tileName(run, e, "a")} by ${tileName(run, e, "b")}, ${when}`
    : run.kind[e] === WRITE ? `${tileName(run, e, "c")} is written to HBM, ${when}, ${number(run.size[e])} B`
      : `${tileName(run, e, letterOf(run.kind[e]))} is fetched for step ${run.step[e]}, ${when}, ${number(run.size[e])} B`;
  return `${what}; ${run.after[e] < 0 ? "it starts with the run" : `it could start when ${eventName(run, run.after[e])} had ended`}.`;
}

/** The cycles in which a unit stands still before an event: [from, until, lane]. @param {Run} run @returns {[number, number, number][]} */
export function waits(run) {
  /** @type {[number, number, number][]} */
  const found = [];
  const before = [0, 0]; // when the channel and the MXU were last done
  for (let e = 0; e < run.events; e++) {
    const unit = run.kind[e] === MULTIPLY ? 1 : 0;
    if (run.start[e] > before[unit]) found.push([before[unit], run.start[e], laneOf(run, e)]);
    before[unit] = run.end[e];
  }
  return found;
}

// ---------------------------------------------------------------------------------------------- layout

/**
 * Where everything lies, in CSS pixels.
 * @param {{buffers: number, cycles: number, steps: number}[]} runs @param {number} width @param {number} letters of the longest tile name
 */
export function layout(runs, width, letters) {
  const narrow = width < 560;
  const label = narrow ? 78 : 130;
  const plot = Math.max(60, width - label - 2);
  const cycles = Math.max(...runs.map((run) => run.cycles));
  const typical = Math.min(...runs.map((run) => run.cycles / run.steps));
  const fits = (plot / cycles) * typical >= 15;
  const scale = fits ? plot / cycles : (narrow ? 34 : 48) / typical;
  const lane = narrow ? 22 : 24;
  const box = narrow ? 38 : 40;
  const most = Math.max(...runs.map((run) => run.buffers));
  let y = 18;
  const blocks = runs.map((run) => {
    const top = y + 22;
    const lanes = LANES.map((_, i) => top + i * (lane + 4));
    const bottom = lanes[2] + lane;
    const boxes = bottom + (narrow ? 22 : 8);
    const from = narrow ? 0 : label;
    // Where one run has two buffers, the other's boxes leave the place of the second one empty.
    const wide = Math.min((width - from) / (3 * most), narrow ? Infinity : 150);
    const every = most / run.buffers;
    y = boxes + box + 14;
    return { title: top - 8, top, lanes, bottom, boxes, boxX: (/** @type {number} */ i) => from + i * every * wide, boxWide: wide - 4 };
  });
  return {
    width, narrow, label, plot, scale, lane, box, blocks, cycles, small: narrow || letters > 8 ? 11 : 12,
    span: fits ? cycles : plot / scale, axis: y + 2, height: y + 20,
  };
}

// ------------------------------------------------------------------------------------------------ draw

/** @param {number} x @param {number} y @param {number} wide @param {number} high @param {string} kind class of the mark */
const bar = (x, y, wide, high, kind) =>
  s("rect", { x: x.toFixed(2), y, width: Math.max(1, wide).toFixed(2), height: high, class: `pw-bar pw-bar-${kind}` });

/** Textures, one set for each view. @param {string} prefix */
function textures(prefix) {
  /** @param {string} name @param {number} size @param {...Element} marks */
  const pattern = (name, size, ...marks) =>
    s("pattern", { id: `${prefix}-${name}`, width: size, height: size, patternUnits: "userSpaceOnUse" }, ...marks);
  return s("defs", {},
    pattern("stall", 7, s("path", { class: "pw-hatch", d: "M-1 8L8 -1M-1 1L1 -1M6 8L8 6" })),
    pattern("b", 4, s("rect", { class: "pw-bar-b-ground", width: 4, height: 4 }), s("path", { class: "pw-stripe", d: "M2 0V4" })),
    pattern("bubble", 7, s("circle", { class: "pw-dot", cx: 3.5, cy: 3.5, r: 1.1 })));
}

/** @param {Layout} at @param {Run} run @param {number} r @param {string} prefix @returns {Element[]} every bar of a run, in cycles from 0 */
function bars(at, run, r, prefix) {
  const { lanes } = at.blocks[r];
  /** @type {Element[]} */
  const marks = [];
  const letterWide = at.small * 0.61;
  for (const [from, until, lane] of waits(run)) {
    const wide = (until - from) * at.scale;
    const kind = lane === 1 ? "stall" : "bubble";
    const wait = bar(from * at.scale, lanes[lane] + 4, wide - 1, at.lane - 8, kind);
    wait.setAttribute("fill", `url(#${prefix}-${kind})`);
    marks.push(wait);
  }
  for (let e = 0; e < run.events; e++) {
    const lane = laneOf(run, e);
    const [x, wide] = [run.start[e] * at.scale, (run.end[e] - run.start[e]) * at.scale - 1];
    const kind = lane === 1 ? "mxu" : letterOf(run.kind[e]);
    const mark = bar(x, lanes[lane], wide, at.lane, kind);
    set(mark, { "data-run": r, "data-event": e, fill: kind === "b" ? `url(#${prefix}-b)` : null });
    marks.push(mark);
    const names = lane === 1
      ? [`${tileName(run, e, "a")} × ${tileName(run, e, "b")}`, String(run.step[e])]
      : [tileName(run, e, letterOf(run.kind[e])), letterOf(run.kind[e]).toUpperCase()];
    const name = names.find((text) => text.length * letterWide + 4 <= wide);
    if (name) marks.push(s("text", { x: (x + wide / 2).toFixed(2), y: lanes[lane] + at.lane / 2 + 4, class: `pw-on pw-on-${kind}`, "font-size": at.small }, name));
  }
  return marks;
}

/** The buffers of a run, made once for a width; `show` fills them. @param {Layout} at @param {Run} run @param {number} r @param {string[]} states */
function boxes(at, run, r, states) {
  const { boxes: y, boxX, boxWide } = at.blocks[r];
  const all = Array.from({ length: 3 * run.buffers }, (_, i) => {
    const letter = /** @type {"a" | "b" | "c"} */ ("abc"[Math.floor(i / run.buffers)]);
    const level = s("rect", { x: boxX(i), y, height: at.box, class: `pw-level pw-level-${letter}` });
    const edge = s("rect", { x: boxX(i) + 0.5, y: y + 0.5, width: boxWide - 1, height: at.box - 1, rx: 3 });
    const name = s("text", { x: boxX(i) + boxWide / 2, y: y + 16, class: `pw-on pw-on-${letter}`, "font-size": at.small });
    const word = s("text", { x: boxX(i) + boxWide / 2, y: y + 31, class: "pw-word" });
    return { letter, level, edge, name, word, el: s("g", {}, level, edge, name, word) };
  });
  return {
    els: all.map((one) => one.el),
    /** @param {number} f */
    show(f) {
      all.forEach(({ letter, level, edge, name, word, el }, i) => {
        const at0 = f * all.length + i;
        const state = states[run.state[at0]];
        set(level, { width: (boxWide * run.share[at0]).toFixed(1) });
        set(edge, { class: `pw-box pw-box-${letter} pw-box-${state.replace(" ", "-")}` });
        write(name, run.held[at0] < 0 ? `${letter.toUpperCase()} ${i % run.buffers}` : tileName(run, run.held[at0], letter));
        write(word, state);
        set(el, { "data-state": state, "data-share": run.share[at0].toFixed(3) });
      });
    },
  };
}

// ---------------------------------------------------------------------------------------------- panels

/** @param {Run[]} runs @param {Numbers} time @param {string[]} names of the columns of `tally` */
function counters(runs, time, names) {
  /** @param {string} name @param {number} r @param {number} f */
  const value = (name, r, f) => runs[r].tally[f * names.length + names.indexOf(name)];
  /** @param {string} name */
  const plain = (name) => (/** @type {number} */ r, /** @type {number} */ f) => number(value(name, r, f));
  return [
    { label: "MXU works", text: (/** @type {number} */ r, /** @type {number} */ f) => {
      const passed = Math.min(time[f], runs[r].cycles);
      return passed ? `${Math.round((100 * value("multiplied", r, f)) / passed)} %` : "0 %";
    }, help: "Share of the cycles so far in which the MXU multiplied." },
    { label: "MXU waits (stalls), cycles", text: plain("stalled"), help: "Cycles in which the MXU waited for a tile before a step." },
    { label: "DMA waits (bubbles), cycles", text: plain("bubbles"), help: "Cycles in which the DMA channel waited before a transfer." },
    { label: "bytes in", text: plain("bytes_in"), help: "Bytes of A and B that have come from HBM." },
    { label: "bytes out", text: plain("bytes_out"), help: "Bytes of C that have gone to HBM." },
    { label: "VMEM now, B", text: plain("vmem"), help: "Bytes of VMEM that hold a tile, or into which one is on its way." },
    { label: "cycles so far", text: (/** @type {number} */ r, /** @type {number} */ f) => number(Math.min(time[f], runs[r].cycles)), help: "A run that is done stays at its last cycle." },
  ];
}

const MOST_GRID = 8;

/** A, B and C as grids of tiles, with those in VMEM and in use. @param {Run[]} runs @param {number[]} grid @param {string[]} states */
function product(runs, grid, states) {
  const [m, k, n] = grid;
  if (Math.max(m, k, n) > MOST_GRID) return null;
  const side = Math.max(9, Math.min(18, Math.floor(56 / Math.max(m, k, n))));
  const shapes = { a: [m, k], b: [k, n], c: [m, n] };
  const rows = runs.map((run) => {
    const cells = /** @type {Record<string, Element[]>} */ ({});
    const els = Object.entries(shapes).map(([letter, [down, across]]) => {
      cells[letter] = Array.from({ length: down * across }, (_, i) =>
        s("rect", { x: (i % across) * side + 1, y: Math.floor(i / across) * side + 1, width: side - 2, height: side - 2 }));
      return h("span", { class: "pw-tiles" }, letter.toUpperCase(),
        s("svg", { width: across * side, height: down * side, "aria-hidden": "true" }, ...cells[letter]));
    });
    return { run, cells, el: h("div", { class: "pw-tiles-row" }, h("span", { class: "pw-tiles-name" }, run.name), ...els) };
  });
  const el = h("section", { class: "pw-panel pw-product" }, h("header", {}, h("h4", {}, "the product in tiles")),
    ...rows.map((row) => row.el), h("p", { class: "pw-grid-note" }, "filled: in VMEM; framed: in use; green: written to HBM"));
  return {
    el,
    /** @param {number} f @param {number} t */
    show(f, t) {
      for (const { run, cells } of rows) {
        const kinds = /** @type {Record<string, string[]>} */ (Object.fromEntries(Object.entries(cells).map(([letter, all]) => [letter, all.map(() => "")])));
        for (let i = 0; i < 3 * run.buffers; i++) {
          const at = f * 3 * run.buffers + i;
          const e = run.held[at];
          if (e < 0) continue;
          const state = states[run.state[at]];
          const letter = "abc"[Math.floor(i / run.buffers)];
          const [mi, ki, ni] = run.tiles.subarray(3 * e, 3 * e + 3);
          const flat = letter === "a" ? mi * k + ki : letter === "b" ? ki * n + ni : mi * n + ni;
          kinds[letter][flat] = state === "in use" || state === "summing" ? "used" : "there";
        }
        for (let e = 0; e < run.events; e++) {
          if (run.kind[e] === WRITE && run.end[e] <= t) kinds.c[run.tiles[3 * e] * n + run.tiles[3 * e + 2]] = "done";
        }
        for (const [letter, all] of Object.entries(cells)) all.forEach((cell, i) => set(cell, { class: `pw-cell pw-cell-${letter} pw-cell-${kinds[letter][i] || "out"}` }));
      }
    },
  };
}

/** Marks of the legend: the same shapes and textures as in the picture. @param {string} prefix */
function legendMarks(prefix) {
  /** @param {string} kind @param {string} [letter] */
  const mark = (kind, letter) => {
    const one = bar(1, 1, 24, 16, kind);
    if (["stall", "bubble", "b"].includes(kind)) one.setAttribute("fill", `url(#${prefix}-${kind})`);
    return s("svg", { width: 26, height: 18, "aria-hidden": "true" }, one, letter && s("text", { x: 13, y: 13, class: `pw-on pw-on-${kind}`, "font-size": 11 }, letter));
  };
  return [
    { mark: mark("a", "A"), text: "a tile of A on its way" },
    { mark: mark("b", "B"), text: "of B" },
    { mark: mark("c", "C"), text: "of C, on its way out" },
    { mark: mark("mxu", "0"), text: "a step of the MXU; the vector unit adds its sums to C" },
    { mark: mark("stall"), text: "the MXU waits" },
    { mark: mark("bubble"), text: "the DMA waits for the scalar unit to start the next transfer" },
  ];
}

// ---------------------------------------------------------------------------------------------- render

export default {
  render: stage((packed, options) => {
    const { header, columns } = packed;
    const runs = readRuns(packed);
    const { time } = columns;
    const states = /** @type {string[]} */ (header.states);
    const several = runs.length > 1;
    const grid = /** @type {number[]} */ (header.grid);
    const letters = Math.max(...runs.map((run) => Math.max(...Array.from({ length: run.events }, (_, e) =>
      tileName(run, e, run.kind[e] === MULTIPLY ? "c" : letterOf(run.kind[e])).length))));
    const hidden = options.future === "hidden";
    let shown = 0;

    /** @param {number} f @returns {string[]} */
    const caption = (f) => runs.map((run) => {
      const words = [0, 1].map((unit) => header.sentences[run.sentence[2 * f + unit]]).join(" ");
      return several ? `${run.name[0].toUpperCase()}${run.name.slice(1)}: ${words}` : words;
    });
    /** @param {number[]} place @returns {string[]} */
    const chosen = ([r, e]) => (r in runs && e < runs[r].events ? [`${several ? `${runs[r].name[0].toUpperCase()}${runs[r].name.slice(1)}, chosen: ` : ""}${describe(runs[r], e)}`] : []);

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
      pictureLabel: "Timeline of the tile pipeline; arrow keys pick an event",
      phase: (f) => `${header.chapters.filter((/** @type {{cycle: number}} */ { cycle }) => cycle <= f).at(-1)?.label ?? ""}, cycle ${number(time[f])}`,
      caption: (f, selected) => [...caption(f), ...(selected.length ? chosen(selected) : [])],
      mark: inColour,
      table: (f) => ({
        caption: `Event ${f}, cycle ${number(time[f])}`,
        head: [...(several ? ["run"] : []), "where", "what"],
        rows: runs.flatMap((run, r) => [
          ...[0, 1].map((unit) => [...(several ? [run.name] : []), ["MXU", "DMA"][unit], header.sentences[run.sentence[2 * f + unit]]]),
          ...Array.from({ length: 3 * run.buffers }, (_, i) => {
            const at = f * 3 * run.buffers + i;
            const letter = /** @type {"a" | "b" | "c"} */ ("abc"[Math.floor(i / run.buffers)]);
            const what = run.held[at] < 0 ? "free" : `${tileName(run, run.held[at], letter)}, ${states[run.state[at]]}, ${Math.round(100 * run.share[at])} %`;
            return [...(several ? [runs[r].name] : []), `buffer ${letter.toUpperCase()} ${i % run.buffers}`, what];
          }),
        ]),
      }),
      move(selected, key) {
        const r = selected[0] ?? 0;
        const run = runs[r];
        const e = selected[1] ?? Math.max(0, run.mxu[shown]);
        const along = key === "ArrowLeft" || key === "ArrowRight";
        const by = key === "ArrowLeft" || key === "ArrowUp" ? -1 : 1;
        if (along) {
          for (let next = e + by; next >= 0 && next < run.events; next += by) if (laneOf(run, next) === laneOf(run, e)) return [r, next];
          return null;
        }
        const line = 3 * r + laneOf(run, e) + by;
        const to = runs[Math.floor(line / 3)];
        if (!to) return null;
        const mine = Array.from({ length: to.events }, (_, i) => i).filter((i) => laneOf(to, i) === line % 3);
        const nearest = mine.reduce((best, i) => (Math.abs(to.start[i] - run.start[e]) < Math.abs(to.start[best] - run.start[e]) ? i : best), mine[0]);
        return [Math.floor(line / 3), nearest];
      },
      mount({ signal, still, prefix, select, point }) {
        const clip = `${prefix}-plot`;
        const edge = s("rect", {});
        const moving = s("g", {});
        const over = s("g", {}); // what is under way stands out of the dimmed part
        const fixed = s("g", {});
        const ticks = s("g", {});
        const future = s("rect", { class: "pw-future" });
        const line = s("path", { class: "pw-present-line" });
        const nowText = s("text", { class: "pw-present-text", "text-anchor": "middle" });
        const svg = s("svg", { class: "pw-pipe", "aria-hidden": "true" }, textures(prefix), s("defs", {}, s("clipPath", { id: clip }, edge)),
          s("g", { "clip-path": `url(#${clip})` }, moving, future, over), ticks, fixed, line, nowText);
        const holder = h("div", { class: "pw-timeline" }, svg);
        const bill = comparison({ title: "ledger so far", names: runs.map((run) => run.name), rows: counters(runs, time, header.tally) });
        const vmem = header.tally.indexOf("vmem");
        const most = Math.max(...runs.map((run) => run.high_water));
        const [size, word] = most >= 2 ** 20 ? [2 ** 20, "MiB"] : most >= 2 ** 12 ? [2 ** 10, "KiB"] : [1, "B"];
        /** @param {number} bytes */
        const scaled = (bytes) => Math.round((100 * bytes) / size) / 100;
        const use = still ? null : curves({
          title: `VMEM in use, ${word}`, unit: "event", cycles: header.frames, most: scaled(most), signal,
          lines: runs.map((run) => ({
            name: `${run.name}, at most ${number(scaled(run.high_water))}`,
            values: Array.from({ length: header.frames }, (_, f) => scaled(run.tally[f * header.tally.length + vmem])),
          })),
          summary: `VMEM in use at each event, at most ${number(most)} of ${number(header.vmem_bytes)} bytes.`,
        });
        const tiles = product(runs, grid, states);
        /** @type {Layout} */
        let at;
        /** @type {ReturnType<typeof boxes>[]} */
        let slots = [];
        /** @type {Element[]} */
        let titles = [];
        /** @type {Element[]} */
        let active = [];

        /** @param {Event} event @returns {number[] | null} */
        const under = (event) => {
          const found = event.target instanceof Element ? event.target.closest("[data-event]") : null;
          return found ? [Number(found.getAttribute("data-run")), Number(found.getAttribute("data-event"))] : null;
        };
        svg.addEventListener("pointermove", (event) => point(under(event)), { signal });
        svg.addEventListener("pointerleave", () => point(null), { signal });
        svg.addEventListener("click", (event) => {
          const place = under(event);
          if (place) select(place);
        }, { signal });

        return {
          el: holder,
          legend: legend(legendMarks(prefix)),
          panels: [...(tiles ? [tiles.el] : []), bill.el, ...(use ? [use.el] : [])],
          resize(wide) {
            at = layout(runs, wide, letters);
            set(svg, { width: wide, height: at.height, viewBox: `0 0 ${wide} ${at.height}` });
            set(edge, { x: at.label, y: 0, width: at.plot + 2, height: at.height });
            set(future, { y: at.blocks[0].top - 2, height: at.axis - at.blocks[0].top, class: hidden ? "pw-future pw-hidden" : "pw-future" });
            active = runs.flatMap(() => [0, 1, 2].map(() => s("rect", { class: "pw-active" })));
            moving.replaceChildren(...runs.flatMap((run, r) => bars(at, run, r, prefix)));
            over.replaceChildren(...active);
            slots = runs.map((run, r) => boxes(at, run, r, states));
            fixed.replaceChildren(...runs.flatMap((run, r) => {
              const { title, lanes, boxes: top, bottom } = at.blocks[r];
              titles[r] = s("text", { x: 0, y: title, class: "pw-run" });
              return [
                titles[r],
                ...LANES.map((name, i) => s("text", { x: 0, y: lanes[i] + at.lane / 2 + 4, class: "pw-pipe-lane", "font-size": at.narrow ? 11 : 13 }, i === 1 && !at.narrow ? "MXU + vector unit" : name)),
                s("text", { x: 0, y: at.narrow ? bottom + 16 : top + at.box / 2 + 4, class: "pw-pipe-lane", "font-size": at.narrow ? 11 : 13 }, "VMEM now"),
                ...slots[r].els,
              ];
            }));
          },
          show({ cycle: f, selected }) {
            if (!still) shown = f;
            const t = time[f];
            const first = firstCycle({ count: at.span, cycles: at.cycles }, t);
            const here = at.label + (t - first) * at.scale;
            for (const group of [moving, over]) set(group, { transform: `translate(${(at.label - first * at.scale).toFixed(2)} 0)` });
            set(future, { x: here.toFixed(2), width: Math.max(0, at.label + at.plot + 2 - here).toFixed(2) });
            set(line, { d: at.blocks.map(({ top, bottom }) => `M${here.toFixed(2)} ${top - 5}V${bottom + 4}`).join("") });
            const room = `cycle ${number(t)}`.length * 3.6; // half of what the label takes at 12 px
            set(nowText, { x: Math.max(at.label, Math.min(here, at.width - room)).toFixed(1), y: 13 });
            write(nowText, `cycle ${number(t)}`);
            const step = tickStep(at.scale, at.narrow ? 62 : 84);
            if (ticks.getAttribute("data-first") !== `${first} ${at.width}`) {
              set(ticks, { "data-first": `${first} ${at.width}` });
              const marks = [];
              for (let tick = Math.ceil(first / step) * step; tick <= first + at.span; tick += step) {
                const x = at.label + (tick - first) * at.scale;
                const anchor = x > at.width - 24 ? "end" : x < at.label + 20 ? "start" : "middle";
                marks.push(s("path", { class: "pw-tickline", d: `${at.blocks.map(({ top, bottom }) => `M${x.toFixed(1)} ${top - 2}V${bottom + 3}`).join("")}M${x.toFixed(1)} ${at.axis - 4}V${at.axis}` }),
                  s("text", { x: x.toFixed(1), y: at.axis + 13, class: "pw-tick-text", "text-anchor": anchor }, number(tick)));
              }
              ticks.replaceChildren(...marks);
            }
            runs.forEach((run, r) => {
              const events = [run.mxu[f], run.dma[f], selected[0] === r && !still ? selected[1] : -1];
              events.forEach((e, i) => {
                const box = active[3 * r + i];
                const there = e >= 0 && e < run.events;
                set(box, there ? {
                  class: i === 2 ? "pw-active pw-chosen" : "pw-active", x: (run.start[e] * at.scale).toFixed(2), y: at.blocks[r].lanes[laneOf(run, e)] - 1,
                  width: Math.max(2, (run.end[e] - run.start[e]) * at.scale - 1).toFixed(2), height: at.lane + 2, "data-now": e,
                } : { class: "pw-none", "data-now": -1 });
              });
              slots[r].show(f);
              const all = at.narrow ? "" : " for each of A, B and C";
              write(titles[r], t >= run.cycles ? `${run.name}: done at cycle ${number(run.cycles)}` : `${run.name}${all}`);
            });
            set(svg, { "data-cycle": t, "data-here": here.toFixed(2), "data-scale": at.scale, "data-from": first, "data-label": at.label });
            if (still) return;
            bill.show(f);
            use?.show(f);
            tiles?.show(f, t);
          },
        };
      },
    };
  }),
};
