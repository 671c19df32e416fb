// One warp at a branch: the program with a mark for every lane at the line where it stands, beside it every lane over
// time; one machine above another on one clock. Three parts: the runs (look-ups), layout (pure), drawing and wiring.
//
// Letters: r counts runs from the top, t cycles, l lanes. Line 0 is the end of the program.

import { comparison } from "./kit/compare.js";
import { h, s, set } from "./kit/dom.js";
import { legend } from "./kit/panels.js";
import { stage } from "./kit/stage.js";
import { surface } from "./kit/states.js";
import { tickStep } from "./kit/timeline.js";
import { capital, number } from "./kit/words.js";

/** @typedef {import("./kit/wire.js").Numbers} Numbers */
/** @typedef {[string, number, number, number, string]} Standing what the lanes do, their line, the entry's last line or -1, mask, lanes in words */
/** @typedef {ReturnType<typeof readRuns>[number]} Run */
/** @typedef {ReturnType<typeof layout>} Layout */
/** @typedef {ReturnType<typeof paletteOf>} Palette */

const LANES = 32;

// ---------------------------------------------------------------------------------------------- the runs

/** @param {import("./kit/wire.js").Packed} packed */
export function readRuns({ header, columns }) {
  const heads = /** @type {{name: string, machine: string, lines: string[], lanes: number, cycles: number, ends: boolean, ending: string, first: number, stacked: boolean, registers: string[], shared: string[], sentences: string[], standings: Standing[][]}[]} */ (header.runs);
  return heads.map((head, r) => {
    /** @param {string} name @returns {Numbers} */
    const column = (name) => columns[`${name}${r}`];
    const [state, line, value, known, shared, tally, efficiency] = ["state", "line", "value", "known", "shared", "tally", "efficiency"].map(column);
    /** The cycle to look at: a run that is done stays at its last one. @param {number} t */
    const at = (t) => Math.min(t, head.cycles - 1);
    return {
      ...head,
      over: (/** @type {number} */ t) => t >= head.cycles,
      /** @param {number} t @param {number} l @returns {string} */
      state: (t, l) => (t < head.cycles ? header.states[state[t * LANES + l]] : head.ends ? "ended" : header.states[state[at(t) * LANES + l]]),
      /** @param {number} t @param {number} l */
      line: (t, l) => (t >= head.cycles && head.ends ? 0 : line[at(t) * LANES + l]),
      /** What a register holds after the edge, as text. @param {number} t @param {number} l @param {string} name */
      value(t, l, name) {
        const i = (at(t) * head.registers.length + head.registers.indexOf(name)) * LANES + l;
        return head.registers.includes(name) && known[i] ? String(value[i]) : "-";
      },
      /** @param {number} t @param {string} name */
      shared: (t, name) => (head.shared.includes(name) ? String(shared[at(t) * head.shared.length + head.shared.indexOf(name)]) : "-"),
      /** @param {number} t @param {string} name */
      count: (t, name) => tally[at(t) * header.tally.length + header.tally.indexOf(name)],
      efficiency: (/** @type {number} */ t) => efficiency[at(t)],
      sentence: (/** @type {number} */ t) => head.sentences[column("sentence")[t]],
      standing: (/** @type {number} */ t) => (t >= head.cycles && head.ends ? [] : head.standings[column("standing")[at(t)]]),
      variables: head.shared,
    };
  });
}

/** @type {Record<string, string>} */
const DOES = {
  runs: "runs", off: "is off", stalled: "needs a result", meets: "waits where the branch ends", syncwarp: "waits at syncwarp()",
  syncthreads: "waits at syncthreads()", ended: "has ended",
};

/** @param {number} line */
const place = (line) => (line ? `line ${line}` : "the end");

/** One lane in words. @param {Run} run @param {number} t @param {number} l */
export function describe(run, t, l) {
  if (l >= run.lanes) return `Lane ${l} takes no part.`;
  const state = run.state(t, l);
  const held = run.registers.map((name) => `${name} = ${run.value(t, l, name)}`).join(", ");
  const where = state === "ended" ? "" : state === "runs" ? ` ${place(run.line(t, l))}` : `, its next line is ${place(run.line(t, l)).replace("line ", "")}`;
  return `Lane ${l} ${DOES[state]}${where}${held ? `; after this cycle ${held}` : ""}.`;
}

/** Lanes that run in a cycle. @param {Run} run @param {number} t */
const on = (run, t) => Array.from({ length: LANES }, (_, l) => run.state(t, l)).filter((state) => state === "runs").length;

// ---------------------------------------------------------------------------------------------- layout

const ROW = 17; // of the program
const CHAR = 7.25; // of the monospace at 12 px, a little more than it takes

/**
 * Where everything lies, in CSS pixels: the program with the lanes at its lines, and lanes over time beside or below it.
 * @param {{lines: string[], first: number, lanes: number, cycles: number}[]} runs @param {number} width
 */
export function layout(runs, width) {
  const narrow = width < 600;
  const cycles = Math.max(...runs.map((run) => run.cycles));
  const lanes = Math.max(...runs.map((run) => run.lanes)); // those that take no part are not drawn
  const longest = Math.max(...runs.flatMap((run) => run.lines.map((line) => line.length)), 8);
  const cell = narrow ? Math.min(16, Math.max(3, Math.floor((width * 0.52) / lanes))) : Math.min(22, Math.max(5, Math.floor((width * 0.28) / lanes)));
  const grid = cell * lanes;
  const digits = String(Math.max(...runs.map((run) => run.first + run.lines.length))).length;
  const text = 12 + Math.max(2, digits) * CHAR; // where the program's text begins
  const wanted = Math.ceil(longest * CHAR + text) + 7;
  const code = narrow ? width - grid - 4 : Math.min(wanted, Math.round(width * 0.34));
  const label = narrow ? 26 : code + grid + 46;
  let y = 4;
  const blocks = runs.map((run) => {
    const title = y + 13;
    const top = title + 26;
    const rows = (run.lines.length + 1) * ROW;
    const lane = Math.max(narrow ? 3 : 4, Math.min(narrow ? 12 : 22, Math.floor((narrow ? 96 : rows) / lanes)));
    const plotTop = narrow ? top + rows + 22 : top;
    const bottom = plotTop + lane * lanes;
    y = Math.max(top + rows, bottom + 16) + 12;
    return { title, top, rows, lane, plotTop, bottom };
  });
  return { width, narrow, cycles, lanes, text, code, cell, grid, label, plot: width - label - 2, blocks, axis: y - 6, height: y + 16 };
}

/** @param {Layout} at @param {number} t */
const across = (at, t) => at.label + (at.plot * t) / Math.max(1, at.cycles);

/** The lane under a point, as [run, lane]. @param {Layout} at @param {{lines: string[]}[]} runs @param {number} x @param {number} y @returns {number[] | null} */
export function under(at, runs, x, y) {
  for (let r = 0; r < runs.length; r++) {
    const { top, rows, plotTop, bottom, lane } = at.blocks[r];
    if (x >= at.code && x < at.code + at.grid && y >= top - 14 && y < top + rows) return [r, Math.floor((x - at.code) / at.cell)];
    if (x >= at.label && x <= at.label + at.plot && y >= plotTop && y < bottom) return [r, Math.floor((y - plotTop) / lane)];
  }
  return null;
}

// ------------------------------------------------------------------------------------------------ draw

/** @param {Element} node */
function paletteOf(node) {
  const style = getComputedStyle(node);
  /** @param {string} name */
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    paper: colour("paper"), panel: colour("panel"), ink: colour("ink"), muted: colour("muted"), hair: colour("hair"), now: colour("orange"),
    lost: colour("lost"), await: colour("await"), barrier: colour("barrier"), result: colour("result"), sans: colour("sans"), mono: colour("mono"),
  };
}

/** A fill for each state of a lane. @param {CanvasRenderingContext2D} to @param {Palette} palette @returns {Record<string, string | CanvasPattern>} */
function fills(to, palette) {
  /** @param {string} ink @param {(pen: CanvasRenderingContext2D) => void} marks */
  const tile = (ink, marks) => {
    const one = document.createElement("canvas");
    one.width = one.height = 4;
    const pen = /** @type {CanvasRenderingContext2D} */ (one.getContext("2d"));
    pen.fillStyle = palette.paper;
    pen.fillRect(0, 0, 4, 4);
    pen.fillStyle = pen.strokeStyle = ink;
    marks(pen);
    return to.createPattern(one, "repeat") ?? ink;
  };
  const upright = (/** @type {CanvasRenderingContext2D} */ pen) => pen.fillRect(1, 0, 1.5, 4);
  return {
    runs: palette.ink,
    off: tile(palette.lost, (pen) => {
      pen.lineWidth = 0.9;
      for (const shift of [-4, 0, 4]) {
        pen.beginPath();
        pen.moveTo(shift, 4);
        pen.lineTo(shift + 4, 0);
        pen.stroke();
      }
    }),
    meets: tile(palette.await, (pen) => {
      pen.fillRect(0, 0, 1.7, 1.7);
      pen.fillRect(2, 2, 1.7, 1.7);
    }),
    syncwarp: tile(palette.barrier, upright),
    syncthreads: tile(palette.barrier, upright),
    stalled: tile(palette.result, (pen) => pen.fillRect(0, 1, 4, 1.2)),
    ended: palette.paper,
  };
}

/** All of time, without the playhead. @param {CanvasRenderingContext2D} to @param {Layout} at @param {Run[]} runs @param {Palette} palette */
function drawTime(to, at, runs, palette) {
  to.fillStyle = palette.paper;
  to.fillRect(0, 0, at.width, at.height);
  const paint = fills(to, palette);
  const wide = at.plot / at.cycles;
  const gap = wide >= 5 ? 1 : 0;
  runs.forEach((run, r) => {
    const { plotTop, lane, bottom } = at.blocks[r];
    for (let t = 0; t < run.cycles; t++) {
      for (let l = 0; l < run.lanes; l++) {
        const state = run.state(t, l);
        let many = 1;
        while (l + many < run.lanes && run.state(t, l + many) === state) many += 1;
        to.fillStyle = paint[state];
        to.fillRect(across(at, t), plotTop + l * lane, Math.max(0.6, wide - gap), many * lane - (lane >= 4 && state === "runs" ? 0.5 : 0));
        l += many - 1;
      }
    }
    to.strokeStyle = palette.hair;
    to.lineWidth = 1;
    to.strokeRect(at.label - 0.5, plotTop - 0.5, across(at, run.cycles) - at.label + 1, bottom - plotTop + 1);
    to.font = `11px ${palette.sans}`;
    to.fillStyle = palette.muted;
    to.textAlign = "right";
    for (const l of new Set([0, at.lanes - 1])) to.fillText(String(l), at.label - 5, plotTop + l * lane + (l ? lane : 9));
    if (wide >= 13) {
      to.fillText("line", at.label - 5, bottom + 12);
      to.textAlign = "center";
      for (let t = 0; t < run.cycles; t++) {
        const l = Array.from({ length: LANES }, (_, i) => i).find((i) => run.state(t, i) === "runs");
        if (l !== undefined) to.fillText(String(run.line(t, l)), across(at, t) + (wide - gap) / 2, bottom + 12);
      }
    }
  });
  to.font = `12px ${palette.sans}`;
  to.fillStyle = palette.muted;
  const step = tickStep(at.plot / at.cycles, 44);
  for (let tick = 0; tick < at.cycles; tick += step) {
    const x = across(at, tick) + wide / 2;
    to.textAlign = x > at.width - 20 ? "right" : "center";
    to.fillText(number(tick), Math.min(x, at.width - 2), at.axis + 13);
  }
  if (!at.narrow) {
    to.textAlign = "right";
    to.fillText("cycle", at.label - 12, at.axis + 13);
  }
}

/**
 * The program and the lanes at its lines.
 * @param {CanvasRenderingContext2D} to @param {Layout} at @param {Run} run @param {Layout["blocks"][number]} block @param {Palette} palette
 * @param {number} t
 */
function drawProgram(to, at, run, block, palette, t) {
  const paint = fills(to, palette);
  const { top, rows } = block;
  to.font = `11px ${palette.sans}`;
  to.fillStyle = palette.muted;
  for (const l of new Set([0, 8, 16, 24, at.lanes - 1].filter((one) => one < at.lanes))) {
    to.textAlign = "center";
    to.fillText(String(l), at.code + (l + 0.5) * at.cell, top - 5);
  }
  to.textAlign = "left";
  if (!at.narrow) to.fillText("lanes", at.code + at.grid + 7, top - 5);
  const running = new Set(Array.from({ length: LANES }, (_, l) => (run.state(t, l) === "runs" ? run.line(t, l) : -1)));
  const letters = Math.floor((at.code - at.text - 3) / CHAR);
  [...run.lines, "end"].forEach((words, i) => {
    const line = i < run.lines.length ? run.first + i : 0;
    const y = top + i * ROW;
    const now = running.has(line);
    if (now) {
      to.fillStyle = palette.panel;
      to.fillRect(0, y, at.code + at.grid, ROW);
      to.fillStyle = palette.now;
      to.fillRect(0, y, 3, ROW);
    }
    to.font = `12px ${palette.mono}`;
    to.fillStyle = palette.muted;
    to.textAlign = "right";
    if (line) to.fillText(String(line), at.text - 7, y + 12.5);
    to.textAlign = "left";
    to.font = `${now ? "700 " : ""}12px ${line ? palette.mono : palette.sans}`;
    to.fillStyle = line ? palette.ink : palette.muted;
    to.fillText(words.length > letters ? `${words.slice(0, letters - 1)}…` : words, at.text, y + 12.5);
    to.fillStyle = palette.hair;
    to.fillRect(at.code, y + ROW - 1, at.grid, 1);
  });
  for (let l = 0; l < run.lanes; l++) {
    const [state, line] = [run.state(t, l), run.line(t, l)];
    const y = top + (line ? line - run.first : run.lines.length) * ROW + 2;
    const wide = at.cell - (at.cell > 4 ? 1 : 0);
    to.fillStyle = paint[state];
    to.fillRect(at.code + l * at.cell, y, wide, ROW - 5);
    if (state !== "runs") {
      to.strokeStyle = state === "ended" ? palette.hair : palette.muted;
      to.lineWidth = 0.6;
      to.strokeRect(at.code + l * at.cell + 0.3, y + 0.3, wide - 0.6, ROW - 5.6);
    }
  }
  to.strokeStyle = palette.hair;
  to.lineWidth = 1;
  to.strokeRect(at.code - 0.5, top - 0.5, at.grid + 1, rows + 0.5);
}

/**
 * One frame on top of all of time.
 * @param {CanvasRenderingContext2D} to @param {Layout} at @param {Run[]} runs @param {Palette} palette @param {number} t
 * @param {{hidden: boolean, selected: number[]}} how
 */
function drawNow(to, at, runs, palette, t, { hidden, selected }) {
  const wide = at.plot / at.cycles;
  const [x, after] = [across(at, t), across(at, t + 1)];
  runs.forEach((run, r) => {
    const block = at.blocks[r];
    to.font = `650 13px ${palette.sans}`;
    to.textAlign = "left";
    to.fillStyle = palette.ink;
    const ended = run.over(t) ? (run.ends ? `: done after ${number(run.cycles)} cycles` : `: ${run.ending}`) : "";
    to.fillText(`${capital(at.narrow ? run.name : run.machine)}${ended}`, 0, block.title);
    drawProgram(to, at, run, block, palette, t);
    to.globalAlpha = hidden ? 1 : 0.62;
    to.fillStyle = palette.paper;
    if (after < at.width - 2) to.fillRect(after, block.plotTop - 1, at.width - after, block.bottom - block.plotTop + 17);
    to.globalAlpha = 1;
    to.strokeStyle = palette.now;
    to.lineWidth = 2;
    if (!run.over(t)) to.strokeRect(x - 1, block.plotTop - 2, Math.max(3, wide + (wide >= 5 ? 1 : 2)), block.bottom - block.plotTop + 4);
    if (selected[0] === r && selected[1] < at.lanes) {
      const l = selected[1];
      to.strokeStyle = palette.ink;
      to.lineWidth = 1.5;
      to.strokeRect(at.code + l * at.cell - 1, block.top - 1, at.cell + 1, block.rows + 1);
      to.strokeRect(at.label - 1, block.plotTop + l * block.lane - 1, at.plot + 2, block.lane + 2);
    }
    to.lineWidth = 1;
  });
}

/** @type {[string, string][]} */
const LEGEND = [
  ["runs", "runs this line"], ["off", "off: another path runs, the slot is lost"], ["meets", "waits where the branch ends"],
  ["syncwarp", "waits at a barrier"], ["stalled", "waits for a result"], ["ended", "has ended"],
];

/** @param {Run[]} runs */
function legendMarks(runs) {
  const seen = new Set(runs.flatMap((run) => Array.from({ length: run.cycles * LANES }, (_, i) => run.state(Math.floor(i / LANES), i % LANES))));
  if (seen.has("syncthreads")) seen.add("syncwarp");
  const shown = LEGEND.filter(([state]) => seen.has(state) || state === "ended");
  const canvases = shown.map(() => h("canvas", { class: "dv-swatch", "aria-hidden": "true" }));
  return {
    entries: shown.map(([, text], i) => ({ mark: canvases[i], text })),
    /** @param {Palette} palette */
    show(palette) {
      canvases.forEach((canvas, i) => {
        const to = surface(canvas, 22, 14);
        to.fillStyle = fills(to, palette)[shown[i][0]];
        to.fillRect(0, 0, 22, 14);
        to.strokeStyle = shown[i][0] === "ended" ? palette.hair : palette.muted;
        to.strokeRect(0.5, 0.5, 21, 13);
      });
    },
  };
}

// ---------------------------------------------------------------------------------------------- render

/** The stack, or lanes by where they stand, as rows. @param {Run} run @param {boolean} several */
function standingPanel(run, several) {
  const most = Math.max(1, ...run.standings.map((rows) => rows.length));
  const list = h("ol", { class: "dv-standing", style: `--rows: ${most}` });
  const title = run.stacked ? "the stack, its top first" : "where the lanes stand";
  const el = h("section", { class: "pw-panel" }, h("header", {}, h("h4", {}, several ? (run.stacked ? "stack, its top first" : `${run.name}: ${title}`) : title)), list);
  /** @type {Standing[] | null} */
  let shown = null;
  return {
    el,
    /** @param {number} t */
    show(t) {
      const rows = run.standing(t);
      if (rows === shown) return;
      shown = rows;
      list.replaceChildren(...rows.map(([state, line, end, mask, who], i) => {
        let path = "";
        for (let l = 0; l < LANES; l++) if ((mask >>> l) & 1) path += `M${l * 6 + 0.5} 1h5v8h-5z`;
        const to = end < 0 ? "" : `, up to ${place(end)}`;
        const does = { runs: "", stalled: ", needs a result", off: ", off", meets: end < 0 ? ", waiting where the branch ends" : ", later", ended: "" }[state] ?? `, ${DOES[state].replace("waits", "waiting")}`;
        return h("li", { class: i === 0 ? "dv-now" : null }, h("p", {}, h("b", {}, capital(place(line))), `${to}: ${who}${does}`),
          s("svg", { class: "dv-strip", viewBox: "0 0 192 10", preserveAspectRatio: "none", "aria-hidden": "true" },
            s("path", { class: "dv-out", d: "M0.5 0.5h191v9h-191z" }), s("path", { class: "dv-in", d: path })));
      }));
      if (!rows.length) list.append(h("li", {}, run.ends ? "Empty: all lanes have ended." : "Nothing."));
    },
  };
}

/** @param {Run[]} runs */
function counters(runs) {
  /** @param {(run: Run, t: number) => string} text */
  const each = (text) => (/** @type {number} */ r, /** @type {number} */ t) => text(runs[r], t);
  const shared = Array.from(new Set(runs.flatMap((run) => run.variables)));
  return [
    { label: "instructions issued", text: each((run, t) => number(run.count(t, "issue_count"))), help: "The sum over the paths." },
    { label: "lane slots used", text: each((run, t) => number(run.count(t, "work"))), help: "Lanes that ran, summed over the instructions." },
    { label: "lane slots lost", text: each((run, t) => number(run.count(t, "lanes_off"))), help: "Lanes that were off, or take no part, summed over the instructions." },
    { label: "share used", text: each((run, t) => (run.count(t, "issue_count") ? `${(100 * run.efficiency(t)).toFixed(1)} %` : "-")), help: "Lane slots used, of all so far." },
    { label: "cycles so far", text: each((run, t) => number(Math.min(t + 1, run.cycles))), help: "A run that is done stays at its last cycle." },
    ...shared.map((name) => ({ label: `shared ${name}`, text: each((run, t) => run.shared(t, name)), help: "After the clock edge of this cycle." })),
  ];
}

export default {
  render: stage((packed, options) => {
    const { header } = packed;
    const runs = readRuns(packed);
    const several = runs.length > 1;
    const hidden = options.future === "hidden";
    const registers = Array.from(new Set(runs.flatMap((run) => run.registers)));
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
      pictureLabel: "The program, and every lane over time; arrow keys pick a lane",
      phase: (t) => `${runs.map((run) => `${on(run, t)} of ${run.lanes}`).join(", ")} lanes on`,
      caption: (t, [r, l]) => [
        ...runs.map((run) => `${several ? `${capital(run.name)}: ` : ""}${run.sentence(t)}`),
        ...(r in runs && l < LANES ? [`${several ? `${capital(runs[r].name)}, chosen: ` : ""}${describe(runs[r], t, l)}`] : []),
      ],
      table: (t) => ({
        caption: `Cycle ${number(t)}: every lane, its line in this cycle, its registers after it`,
        head: ["lane", ...(several ? ["machine"] : []), "does", "line", ...registers],
        rows: runs.flatMap((run) => Array.from({ length: run.lanes }, (_, l) => [
          l, ...(several ? [run.name] : []), DOES[run.state(t, l)], run.line(t, l) || "end", ...registers.map((name) => run.value(t, l, name)),
        ])),
      }),
      move([r = 0, l = -1], key) {
        if (key === "ArrowLeft" || key === "ArrowRight") {
          const next = l < 0 ? 0 : l + (key === "ArrowLeft" ? -1 : 1);
          return next < 0 || next >= LANES ? null : [r, next];
        }
        const other = r + (key === "ArrowUp" ? -1 : 1);
        return other in runs ? [other, Math.max(0, l)] : null;
      },
      mount({ signal, still, select, point }) {
        const canvas = h("canvas", { class: "dv-canvas", "aria-hidden": "true" });
        const whole = h("canvas", {}); // all of time, drawn once for a width and a theme
        const marks = legendMarks(runs);
        const bill = comparison({ title: "ledger so far", names: runs.map((run) => (several ? run.name : "")), rows: counters(runs) });
        const standings = still ? [] : runs.map((run) => standingPanel(run, several));
        let at = layout(runs, 720);
        let drawn = "";
        canvas.addEventListener("pointermove", (event) => point(under(at, runs, event.offsetX, event.offsetY)), { signal });
        canvas.addEventListener("pointerleave", () => point(null), { signal });
        canvas.addEventListener("click", (event) => {
          const found = under(at, runs, event.offsetX, event.offsetY);
          if (found) select(found);
        }, { signal });
        return {
          el: h("div", { class: "dv-picture" }, canvas),
          legend: legend(marks.entries),
          panels: [bill.el, ...standings.map((one) => one.el)],
          resize(wide) {
            at = layout(runs, wide);
            drawn = "";
          },
          show({ cycle: t, selected, theme }) {
            const palette = paletteOf(canvas);
            if (drawn !== theme) {
              drawTime(surface(whole, at.width, at.height), at, runs, palette);
              drawn = theme;
              marks.show(palette);
            }
            const to = surface(canvas, at.width, at.height);
            to.drawImage(whole, 0, 0, at.width, at.height);
            drawNow(to, at, runs, palette, t, { hidden, selected: still ? [] : selected });
            set(canvas, { "data-cycle": t, "data-at": JSON.stringify({ ...at }) });
            if (still) return;
            bill.show(t);
            for (const one of standings) one.show(t);
          },
        };
      },
    };
  }),
};
