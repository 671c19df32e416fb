// Barriers: the warps of every block as lanes over time, who has arrived, who is late, when it opens, what it costs.
//
// Three parts: layout (pure: where things lie), draw (pure: one frame of the picture), render (wires the kit).
// Arrivals, openings, counts and sentences come from the trace; nothing is decided here. Letters: r a run, t a cycle,
// w a warp, b the index of a block.

import { comparison, curves } from "./kit/compare.js";
import { h, set, write } from "./kit/dom.js";
import { legend } from "./kit/panels.js";
import { stage } from "./kit/stage.js";
import { outline, paint, paletteOf, surface } from "./kit/states.js";
import { firstCycle, tickStep } from "./kit/timeline.js";
import { capital, number } from "./kit/words.js";

/** @typedef {import("./kit/states.js").Palette} Palette */
/** @typedef {import("./kit/wire.js").Numbers} Numbers */
/** @typedef {{block: number, number: number, first: number, end: number, last: number[], opens: number | null, waited: number}} Round */
/** @typedef {ReturnType<typeof readRuns>[number]} Run */
/** @typedef {ReturnType<typeof layout>} Layout */

/** @param {import("./kit/wire.js").Packed} packed */
export function readRuns({ header, columns }) {
  const heads = /** @type {{name: string, cycles: number, warps: number, blocks: number[], block_of: number[], rounds: Round[], over: string}[]} */ (header.runs);
  return heads.map((head, r) => {
    /** @param {string} name @returns {Numbers} */
    const column = (name) => columns[`${name}${r}`];
    const [state, sentence, told, all, arrivals] = ["state", "sentence", "told", "all", "arrivals"].map(column);
    const [arrived, expected, current, late, waited] = ["arrived", "expected", "current", "late", "waited"].map(column);
    const [standing, total, lost, slots, share, opened] = ["standing", "total", "lost", "slots", "share", "opened"].map(column);
    return {
      ...head, state, sentence, told, all, arrivals, arrived, expected, current, late, waited, standing, total, lost, slots, share, opened,
      /** The run's own cycle: one that is over stays at its last. @param {number} t */
      at: (t) => Math.min(t, head.cycles - 1),
    };
  });
}

// ---------------------------------------------------------------------------------------------- layout

const TOP = 22; // room for the number of the present cycle
const HEAD = 20; // the line above a block
const FOOT = 15; // numbers of the barriers below it

/** Height of a lane by the most lanes that still get it. */
const PITCHES = [[8, 26], [16, 20], [32, 14], [Infinity, 9]];

/**
 * Where everything lies, in CSS pixels.
 * @param {{warps: number, blocks: number[], block_of: number[], cycles: number, name: string}[]} runs @param {number} width
 */
export function layout(runs, width) {
  const narrow = width < 560;
  const cycles = Math.max(...runs.map((run) => run.cycles));
  const warps = runs.reduce((sum, run) => sum + run.warps, 0);
  const pitch = PITCHES.find(([most]) => warps <= most)?.[1] ?? 9;
  const staggered = pitch < 13;
  const label = staggered ? 72 : 62;
  const tally = 54; // cycles waited, at the right
  const space = Math.max(60, width - label - tally);
  const least = 1.2;
  const fits = space / cycles >= least;
  const cell = fits ? Math.min(16, space / cycles) : 3;
  const count = fits ? cycles : Math.floor(space / cell);
  /** @type {{run: number, warp: number, y: number, labelX: number}[]} */
  const rows = [];
  /** @type {{run: number, block: number, head: number, top: number, bottom: number}[]} */
  const blocks = [];
  /** @type {{run: number, y: number}[]} */
  const titles = [];
  let y = TOP;
  runs.forEach((run, r) => {
    if (runs.length > 1) {
      titles.push({ run: r, y: y + 12 });
      y += 22;
    }
    run.blocks.forEach((_, b) => {
      const head = y + HEAD / 2;
      y += HEAD;
      const top = y;
      run.block_of.forEach((of, w) => {
        if (of !== b) return;
        const k = (y - top) / pitch;
        rows.push({ run: r, warp: w, y, labelX: label - 6 - (staggered && k % 2 === 0 ? 26 : 0) });
        y += pitch;
      });
      blocks.push({ run: r, block: b, head, top, bottom: y });
      y += FOOT;
    });
    y += runs.length > 1 && r === 0 ? 8 : 0;
  });
  const bottom = y;
  return {
    width, narrow, pitch, label, tally, cell, count, cycles, rows, blocks, titles, bottom, space: fits ? count * cell : space,
    mark: pitch - (pitch >= 20 ? 6 : pitch >= 13 ? 4 : 2), height: bottom + 20,
  };
}

/** The warp under a point, as [run, warp]. @param {Layout} at @param {number} x @param {number} y @returns {number[] | null} */
export function under(at, x, y) {
  const row = x <= at.width ? at.rows.find((one) => y >= one.y && y < one.y + at.pitch) : undefined;
  return row ? [row.run, row.warp] : null;
}

// ------------------------------------------------------------------------------------------------ draw

/** What stands above a block: its present barrier and who is there. @param {Run} run @param {number} b @param {number} t @param {boolean} narrow */
export function heading(run, b, t, narrow) {
  const at = run.at(t) * run.blocks.length + b;
  const number = run.current[at];
  const own = run.rounds.filter((round) => round.block === b);
  if (!own.length) return "no barrier";
  if (!number) return narrow ? "all passed" : `all ${own.length} passed`;
  const many = `barrier ${number}${narrow ? "" : ` of ${own.length}`}: ${run.arrived[at]} of ${run.expected[at]} threads${narrow ? "" : " are there"}`;
  return own[number - 1].opens === null && run.at(t) >= own[number - 1].end ? `${many}, never opens` : many;
}

/**
 * @param {CanvasRenderingContext2D} to @param {Layout} at @param {Run[]} runs
 * @param {{cycle: number, selected: number[], palette: Palette, hidden: boolean, states: string[], sans: string, mono: string}} frame
 */
export function draw(to, at, runs, { cycle, selected, palette, hidden, states, sans, mono }) {
  const first = firstCycle(at, cycle);
  const until = Math.min(at.cycles, first + at.count);
  const right = at.label + at.space;
  /** @param {number} t */
  const x = (t) => at.label + (t - first) * at.cell;
  to.clearRect(0, 0, at.width, at.height);
  to.fillStyle = palette.paper;
  to.fillRect(0, 0, at.width, at.height);
  to.textBaseline = "middle";

  for (const row of at.rows) {
    const run = runs[row.run];
    if (selected[0] === row.run && selected[1] === row.warp) {
      to.fillStyle = palette.panel;
      to.fillRect(0, row.y, at.width, at.pitch);
      outline(to, palette.hairline, 0, row.y, at.width, at.pitch, 1);
    }
    lane(to, at, run, row, { first, until: Math.min(until, run.cycles, hidden ? cycle + 1 : until), x, palette, states });
  }
  to.save();
  to.beginPath();
  to.rect(at.label - 2, 0, at.space + 4, at.bottom);
  to.clip();
  gates(to, at, runs, { first, until, cycle, hidden, x, palette, sans });
  to.restore();
  if (!hidden && cycle + 1 < until) {
    to.globalAlpha = 0.6;
    to.fillStyle = palette.paper;
    to.fillRect(x(cycle + 1), TOP, right - x(cycle + 1), at.bottom - TOP);
    to.globalAlpha = 1;
  }
  words(to, at, runs, { cycle, palette, sans, mono });

  const step = tickStep(at.cell);
  to.font = `12px ${sans}`;
  to.textAlign = "center";
  to.fillStyle = palette.muted;
  for (let t = Math.ceil(first / step) * step; t < until; t += step) {
    to.fillRect(x(t + 0.5) - 0.5, at.bottom - 1, 1, 4);
    to.fillText(String(t), Math.max(at.label + 8, x(t + 0.5)), at.bottom + 10);
  }
  // The playhead leaves out the lines of words between the blocks.
  const wide = Math.max(3, at.cell);
  for (const { top, bottom } of at.blocks) outline(to, palette.now, x(cycle + 0.5) - wide / 2 - 1.5, top - 2, wide + 3, bottom - top + 4, 2);
  to.fillStyle = palette.now;
  to.font = `700 12px ${sans}`;
  const said = `cycle ${cycle}`;
  const half = to.measureText(said).width / 2;
  to.fillText(said, Math.min(right - half, Math.max(at.label + half, x(cycle + 0.5))), 11);
  to.font = `12px ${sans}`;
  to.fillStyle = palette.muted;
  to.textAlign = "right";
  to.fillText("waited", at.width - 2, 11);
}

/**
 * One warp over time: what it issues, and where it stands at a barrier.
 * @param {CanvasRenderingContext2D} to @param {Layout} at @param {Run} run @param {{warp: number, y: number}} row
 * @param {{first: number, until: number, x: (t: number) => number, palette: Palette, states: string[]}} frame
 */
function lane(to, at, run, { warp, y }, { first, until, x, palette, states }) {
  const top = y + (at.pitch - at.mark) / 2;
  for (let t = first; t < until;) {
    const state = states[run.state[t * run.warps + warp]];
    let end = t + 1;
    while (end < until && run.state[end * run.warps + warp] === run.state[t * run.warps + warp]) end += 1;
    const wide = (end - t) * at.cell;
    if (state === "barrier") paint(to, palette, state, x(t), top, wide, at.mark);
    else if (state !== "finished") {
      to.fillStyle = palette.muted;
      to.fillRect(x(t), y + at.pitch / 2 - 0.5, wide, 1);
    }
    if (state === "issues") {
      const high = at.mark * 0.55;
      to.fillStyle = palette.ink;
      for (let u = t; u < end; u++) to.fillRect(x(u), y + (at.pitch - high) / 2, Math.max(1, at.cell - 1), high);
    }
    t = end;
  }
}

/**
 * Where warps arrive, and the lines at which barriers open.
 * @param {CanvasRenderingContext2D} to @param {Layout} at @param {Run[]} runs
 * @param {{first: number, until: number, cycle: number, hidden: boolean, x: (t: number) => number, palette: Palette, sans: string}} frame
 */
function gates(to, at, runs, { first, until, cycle, hidden, x, palette, sans }) {
  const end = hidden ? cycle + 1 : until;
  for (const row of at.rows) {
    const run = runs[row.run];
    for (let i = 0; i < run.arrivals.length; i += 4) {
      const [, t, w, last] = run.arrivals.slice(i, i + 4);
      if (w !== row.warp || t < first || t >= end) continue;
      to.fillStyle = last ? palette.now : palette.ink;
      const [wide, high] = last ? [Math.max(4, Math.min(6, at.cell)), at.pitch - 1] : [2, at.mark + 2];
      to.fillRect(x(t + 1) - wide, row.y + (at.pitch - high) / 2, wide, high);
    }
  }
  to.font = `700 11px ${sans}`;
  to.textAlign = "center";
  for (const { run: r, block, top, bottom } of at.blocks) {
    let free = -Infinity;
    for (const { block: of, opens, number } of runs[r].rounds) {
      if (of !== block || opens === null || opens < first || opens > end || (hidden && opens > cycle)) continue;
      to.fillStyle = palette.ready;
      to.fillRect(x(opens) - 1, top - 3, 2, bottom - top + 6);
      if (x(opens) < free) continue;
      to.fillText(String(number), Math.max(at.label + 4, x(opens)), bottom + 9);
      free = x(opens) + 8 + 7 * String(number).length;
    }
  }
}

/**
 * What stands left of the lanes, right of them, and above each block.
 * @param {CanvasRenderingContext2D} to @param {Layout} at @param {Run[]} runs @param {{cycle: number, palette: Palette, sans: string, mono: string}} frame
 */
function words(to, at, runs, { cycle, palette, sans, mono }) {
  const size = at.pitch >= 20 ? 13 : 11;
  for (const { run: r, warp, y, labelX } of at.rows) {
    const run = runs[r];
    const t = run.at(cycle);
    const late = cycle < run.cycles && run.late[t * run.warps + warp];
    to.textAlign = "right";
    to.fillStyle = late ? palette.now : palette.ink;
    to.font = `${late ? "700 " : ""}${size}px ${mono}`;
    to.fillText(`w${warp}`, labelX, y + at.pitch / 2);
    if (late && at.pitch >= 13) {
      to.font = `700 11px ${sans}`;
      to.fillText("late", labelX - 28, y + at.pitch / 2);
    } else if (late) arrow(to, labelX - 32, y + at.pitch / 2);
    const waited = run.waited[t * run.warps + warp];
    to.fillStyle = waited ? palette.barrier : palette.muted;
    to.font = `${size}px ${mono}`;
    to.textAlign = "right";
    to.fillText(String(waited), at.width - 4 - (at.pitch < 13 && labelX < at.label - 6 ? 24 : 0), y + at.pitch / 2);
  }
  to.textAlign = "left";
  for (const { run: r, y } of at.titles) {
    to.fillStyle = palette.ink;
    to.font = `700 13px ${sans}`;
    to.fillText(capital(runs[r].name), 0, y);
  }
  for (const { run: r, block, head } of at.blocks) {
    to.font = `650 12px ${sans}`;
    to.fillStyle = palette.ink;
    to.fillText(`block ${runs[r].blocks[block]}`, 0, head);
    const said = heading(runs[r], block, cycle, at.narrow);
    to.font = `12px ${sans}`;
    to.fillStyle = palette.muted;
    to.fillText(said, at.label, head);
    meter(to, runs[r], block, cycle, at.label + to.measureText(said).width + 12, head, at, palette);
  }
}

/** Where rows are too low for a word: a warp is late. @param {CanvasRenderingContext2D} to @param {number} x @param {number} y */
function arrow(to, x, y) {
  to.beginPath();
  to.moveTo(x, y - 4);
  to.lineTo(x + 7, y);
  to.lineTo(x, y + 4);
  to.fill();
}

/** The share of a block's threads that is there. @param {CanvasRenderingContext2D} to @param {Run} run @param {number} b @param {number} cycle @param {number} x @param {number} y @param {Layout} at @param {Palette} palette */
function meter(to, run, b, cycle, x, y, at, palette) {
  const i = run.at(cycle) * run.blocks.length + b;
  const wide = Math.min(120, at.label + at.space - x);
  if (!run.current[i] || wide < 30) return;
  const part = Math.round((wide * run.arrived[i]) / Math.max(1, run.expected[i]));
  paint(to, palette, "barrier", x, y - 4, part, 9);
  outline(to, palette.muted, x, y - 4, wide, 9, 1);
}

// ---------------------------------------------------------------------------------------------- panels

const MOST_ROUNDS = 8;

/** The barriers of one block, one a row: first and last arrival, when it opened. @param {Run[]} runs */
function roundsPanel(runs) {
  const title = h("caption", {});
  const head = ["barrier", "first", "last", "by", "opened", "waited"];
  const most = Math.max(...runs.flatMap((run) => run.blocks.map((_, b) => run.rounds.filter(({ block }) => block === b).length)));
  const rows = Array.from({ length: Math.min(MOST_ROUNDS, most) }, () => {
    const cells = head.slice(1).map(() => h("td", {}));
    const name = h("th", { scope: "row" });
    return { name, cells, el: h("tr", {}, name, ...cells) };
  });
  const el = h("section", { class: "pw-panel" }, h("div", { class: "pw-compared" }, h("table", { class: "pw-compare pw-rounds" }, title,
    h("thead", {}, h("tr", {}, ...head.map((word) => h("th", { scope: "col" }, word)))), h("tbody", {}, ...rows.map((row) => row.el)))));
  return {
    el,
    /** @param {number} t @param {number} r @param {number} w */
    show(t, r, w) {
      const run = runs[r];
      const b = run.block_of[w];
      const own = run.rounds.filter((round) => round.block === b);
      const begun = own.filter((round) => round.first <= t);
      // The present one stands last but one where there are more than rows; the height stays, whatever is shown.
      const from = Math.max(0, Math.min(begun.length + 1, own.length) - rows.length);
      write(title, `${run.name ? `${run.name}, ` : ""}block ${run.blocks[b]}: ${begun.length} of ${own.length} barriers reached`);
      rows.forEach(({ name, cells, el: row }, i) => {
        const round = own[from + i];
        set(row, { class: round ? null : "pw-later" });
        if (!round) return;
        const reached = round.first <= t;
        const full = round.end <= t;
        const open = round.opens !== null && round.opens <= t;
        const by = round.last.length > 2 ? `${round.last.length} warps` : round.last.map((v) => `w${v}`).join(", ");
        write(name, round.number);
        [reached ? number(round.first) : "–", full ? number(round.end) : "–", full ? by : "–", open ? number(round.opens ?? 0) : full && round.opens === null ? "never" : "–",
          open ? number(round.waited) : "–"].forEach((text, c) => write(cells[c], text));
        set(row, { "aria-current": reached && !open ? "true" : null });
      });
    },
  };
}

/** @param {Run[]} runs */
function counters(runs) {
  /** @param {(run: Run, t: number) => string} text */
  const of = (text) => (/** @type {number} */ r, /** @type {number} */ t) => text(runs[r], runs[r].at(t));
  return [
    { label: "warps at a barrier", text: of((run, t) => `${run.standing[t]} of ${run.warps}`), help: "Warps that stand at a barrier in this cycle." },
    { label: "warp-cycles waited", text: of((run, t) => number(run.total[t])), help: "Cycles in which a warp stood at a barrier, summed over warps." },
    { label: "issue slots lost to it", text: of((run, t) => number(run.lost[t])), help: "Slots in which nothing was issued and the barrier is what was waited for." },
    { label: "of issue slots so far", text: of((run, t) => number(run.slots[t])), help: "Schedulers times cycles." },
    { label: "lost, %", text: of((run, t) => (100 * run.share[t]).toFixed(1)), help: "Share of the slots so far." },
    { label: "barriers opened", text: of((run, t) => `${run.opened[t]} of ${run.rounds.length}`), help: "Of all blocks." },
  ];
}

/** @param {Run[]} runs @param {Layout} at */
function legendMarks(runs, at) {
  const texts = [
    ["issue", "issues an instruction"], ["barrier", "stands at the barrier"], ["arrival", "arrives"], ["last", "arrives last: the others waited for it"],
    ["gate", "the barrier opens, with its number"], ["late", "late: others stand at the barrier"],
  ].filter(([mark]) => (mark !== "late" || at.pitch < 13) && (mark !== "gate" || runs.some(({ rounds }) => rounds.some(({ opens }) => opens !== null))));
  const canvases = texts.map(() => h("canvas", { class: "pw-swatch", "aria-hidden": "true" }));
  return {
    entries: texts.map(([, text], i) => ({ mark: canvases[i], text })),
    /** @param {Palette} palette */
    show(palette) {
      canvases.forEach((canvas, i) => {
        const to = surface(canvas, 22, 18);
        to.clearRect(0, 0, 22, 18);
        const [mark] = texts[i];
        if (mark === "barrier") return paint(to, palette, "barrier", 1, 1, 20, 16);
        to.fillStyle = palette.now;
        if (mark === "late") return arrow(to, 7, 9);
        to.fillStyle = palette.muted;
        if (mark !== "gate") to.fillRect(0, 8.5, 22, 1);
        to.fillStyle = mark === "gate" ? palette.ready : mark === "last" ? palette.now : palette.ink;
        if (mark === "issue") for (const x of [3, 14]) to.fillRect(x, 4.5, 3, 9);
        else to.fillRect(mark === "last" ? 9 : 10, 0, mark === "last" ? 5 : 2, 18);
      });
    },
  };
}

// ---------------------------------------------------------------------------------------------- render

/** The sentences of a frame: of each run its blocks, then what waiting has cost. @param {import("./kit/wire.js").Packed["header"]} header @param {Run[]} runs @param {number} t @param {number[]} selected */
export function caption(header, runs, t, selected) {
  const told = runs.flatMap((run, r) => {
    const lead = run.name && runs.length > 1 ? `${capital(run.name)}: ` : "";
    if (t >= run.cycles) return [`${lead}${run.over}`];
    const many = run.blocks.length;
    /** @param {number} b @returns {string} */
    const of = (b) => header.sentences[run.sentence[t * many + b]];
    const chosen = selected[0] === r ? run.block_of[selected[1]] : 0;
    const own = many <= header.told ? run.blocks.map((_, b) => of(b)) : [header.sentences[run.all[t]], of(chosen)];
    return own.map((sentence) => `${lead}${sentence}`);
  });
  const cost = runs.map((run) => `${number(run.lost[run.at(t)])} of ${number(run.slots[run.at(t)])} issue slots${runs.length > 1 ? ` (${run.name})` : ""}`);
  told.push(`Waiting at barriers has cost ${cost.join(" and ")} so far.`);
  const [r, w] = selected;
  if (r in runs && w < runs[r].warps) told.push(`${runs.length > 1 ? `${capital(runs[r].name)}: ` : ""}${header.sentences[runs[r].told[runs[r].at(t) * runs[r].warps + w]]}`);
  return told;
}

export default {
  render: stage((packed, options) => {
    const { header } = packed;
    const runs = readRuns(packed);
    const several = runs.length > 1;
    const hidden = options.future === "hidden";
    const order = layout(runs, 720).rows;
    return {
      title: header.title,
      rule: header.rule,
      simplified: header.simplified,
      given: header.given,
      cycles: header.cycles,
      chapters: header.chapters,
      stills: header.stills,
      python: header.python,
      help: header.help,
      pictureLabel: "Warps over time, by block; arrow keys up and down pick a warp",
      phase: (t) => (several ? `${runs.map((run) => run.standing[run.at(t)]).join(" and ")} warps wait` : `${runs[0].standing[t]} of ${runs[0].warps} warps wait`),
      caption: (t, selected) => caption(header, runs, t, selected),
      table: (t) => ({
        caption: `Cycle ${t}: every warp and its barrier`,
        head: [...(several ? ["run"] : []), "warp", "block", "late", "what it has to do", "cycles waited"],
        rows: order.map(({ run: r, warp: w }) => {
          const run = runs[r];
          const i = run.at(t) * run.warps + w;
          return [...(several ? [run.name] : []), `w${w}`, run.blocks[run.block_of[w]], run.late[i] ? "yes" : "no", header.sentences[run.told[i]], run.waited[i]];
        }),
      }),
      move(selected, key) {
        if (key !== "ArrowUp" && key !== "ArrowDown") return null;
        const at = order.findIndex(({ run, warp }) => run === selected[0] && warp === selected[1]);
        const next = order[at + (key === "ArrowUp" ? -1 : 1)];
        return next ? [next.run, next.warp] : null;
      },
      mount({ signal, still, select, point }) {
        const canvas = h("canvas", { class: "pw-lanes-of-time", "aria-hidden": "true" });
        const marks = legendMarks(runs, layout(runs, 720));
        const bill = comparison({ title: "so far", names: runs.map(({ name }) => name), rows: counters(runs) });
        const rounds = roundsPanel(runs);
        const most = Math.max(...runs.map(({ warps }) => warps));
        const waiting = still || hidden ? null : curves({
          title: "warps at a barrier, by cycle", cycles: header.cycles, most, signal,
          lines: runs.map(({ name, standing }) => ({ name: name || "warps", values: standing })),
          summary: `Warps that stand at a barrier in each of ${header.cycles} cycles, at most ${most}.`,
        });
        let at = layout(runs, 720);
        canvas.addEventListener("pointermove", (event) => point(under(at, event.offsetX, event.offsetY)), { signal });
        canvas.addEventListener("pointerleave", () => point(null), { signal });
        canvas.addEventListener("click", (event) => {
          const place = under(at, event.offsetX, event.offsetY);
          if (place) select(place);
        }, { signal });
        return {
          el: canvas,
          legend: legend(marks.entries),
          panels: [rounds.el, bill.el, ...(waiting ? [waiting.el] : [])],
          resize(wide) {
            at = layout(runs, wide);
          },
          show({ cycle, selected, theme }) {
            const palette = paletteOf(canvas, theme);
            const style = getComputedStyle(canvas);
            draw(surface(canvas, at.width, at.height), at, runs, {
              cycle, selected: still ? [] : selected, palette, hidden, states: header.states,
              sans: style.getPropertyValue("--sans"), mono: style.getPropertyValue("--mono"),
            });
            set(canvas, {
              "data-first": firstCycle(at, cycle), "data-cell": at.cell, "data-label": at.label, "data-mark": at.mark,
              "data-rows": JSON.stringify(at.rows), "data-pitch": at.pitch,
            });
            if (still) return;
            marks.show(palette);
            rounds.show(runs[selected[0] ?? 0].at(cycle), selected[0] ?? 0, selected[1] ?? 0);
            bill.show(cycle);
            waiting?.show(cycle);
          },
        };
      },
    };
  }),
};
