// The warp scheduler of one SM, cycle by cycle: which warp each scheduler issues, and why the others wait.
//
// Three parts: layout (pure: where things lie), draw (pure: one frame of the picture), render (wires the kit).
// Everything about time comes from the trace; sentences about schedulers are looked up, not made here.

import { h, set, write } from "./kit/dom.js";
import { chart, legend } from "./kit/panels.js";
import { stage } from "./kit/stage.js";
import { legendMarks, outline, paint, paletteOf, surface } from "./kit/states.js";
import { width } from "./kit/theme.js";
import { firstCycle, tickStep } from "./kit/timeline.js";

/** @typedef {import("./kit/wire.js").Packed} Packed */
/** @typedef {{text: string, unit: string, latency: number, interval: number, lanes: number, dst: string | null, srcs: string[], role?: string}} Line */
/** @typedef {{warp: number, y: number, labelX: number}} Row */
/** @typedef {{scheduler: number, top: number, bottom: number}} Group */

// ---------------------------------------------------------------------------------------------- layout

const TOP = 22; // room for the number of the present cycle
const AXIS = 22;
const OVERVIEW_ROW = 7;

/** Row pitch by the most warps that still get it: labels stay at 11 px, set in two columns when rows are lower. */
const PITCHES = [[2, 52], [4, 40], [8, 30], [16, 20], [32, 14], [Infinity, 9]];

/**
 * Where everything in the picture lies, in CSS pixels.
 * @param {{warps: number, schedulers: number, cycles: number}} machine
 * @param {number} width of the picture
 */
export function layout({ warps, schedulers, cycles }, width) {
  const narrow = width < 560;
  const pitch = PITCHES.find(([most]) => warps <= most)?.[1] ?? 9;
  const staggered = pitch < 13;
  const label = (staggered ? 52 : 32) + (narrow ? 0 : 84);
  const headed = narrow ? 18 : 0; // on a narrow screen the scheduler's name stands above its rows
  const space = Math.max(60, width - label - 4);
  const fits = space / cycles >= (narrow ? 7 : 6);
  const cell = fits ? Math.min(26, space / cycles) : pitch < 13 ? 8 : 10;
  const count = fits ? cycles : Math.floor(space / cell);

  /** @type {Row[]} */
  const rows = [];
  /** @type {Group[]} */
  const groups = [];
  let y = TOP;
  for (let s = 0; s < schedulers; s++) {
    y += headed;
    const top = y;
    for (let w = s, k = 0; w < warps; w += schedulers, k++) {
      rows[w] = { warp: w, y, labelX: label - 6 - (staggered && k % 2 === 0 ? 24 : 0) };
      y += pitch;
    }
    if (s >= warps && !narrow) y += 16; // a scheduler without warps is still there, and idle
    groups.push({ scheduler: s, top, bottom: y });
    y += pitch >= 20 ? 12 : 8;
  }
  const bottom = y - (pitch >= 20 ? 12 : 8);
  const overview = fits ? null : { top: bottom + AXIS + 4, height: schedulers * OVERVIEW_ROW };
  return {
    width, narrow, pitch, label, names: label - (staggered ? 54 : 34), cell, count, cycles, rows, groups, top: TOP, bottom, overview,
    mark: pitch - (pitch > 30 ? 8 : pitch >= 20 ? 5 : pitch >= 13 ? 3 : 2),
    space: fits ? count * cell : space,
    height: bottom + AXIS + (overview ? overview.height + 12 : 0),
  };
}

/** @typedef {ReturnType<typeof layout>} Layout */

/**
 * What lies under a point of the picture: a warp at a cycle, or nothing.
 * @param {Layout} at
 * @param {number} cycle the present one, which decides the window
 * @param {number} x
 * @param {number} y
 * @param {number} last the last cycle there is, or that may be seen
 * @returns {{warp: number, cycle: number} | null}
 */
export function under(at, cycle, x, y, last) {
  const row = at.rows.find((r) => y >= r.y && y < r.y + at.pitch);
  const column = Math.floor((x - at.label) / at.cell);
  const there = firstCycle(at, cycle) + column;
  return row && column >= 0 && column < at.count && there <= last ? { warp: row.warp, cycle: there } : null;
}

// ------------------------------------------------------------------------------------------------ draw

/** @typedef {import("./kit/states.js").Palette} Palette */
/** @typedef {{state: ArrayLike<number>, lanes: ArrayLike<number>, names: string[], warps: number, schedulers: number, blocks?: number[]}} Run `blocks` where there are several */
/** @typedef {"dimmed" | "hidden"} Future */

/**
 * Draw the picture of one cycle.
 * @param {CanvasRenderingContext2D} to scaled so that its units are CSS pixels
 * @param {Layout} at
 * @param {Run} run
 * @param {number[][]} rate share of issue slots used, for the overview: one list of buckets for each scheduler
 * @param {{cycle: number, selected: number, pointed: number, palette: Palette, future: Future, sans: string, mono: string}} frame
 */
export function draw(to, at, run, rate, { cycle, selected, pointed, palette, future, sans, mono }) {
  const first = firstCycle(at, cycle);
  const until = Math.min(at.cycles, first + at.count);
  const right = at.label + at.space;
  const here = at.label + (cycle - first) * at.cell;
  const gap = at.cell >= 5 ? 1 : 0;
  to.clearRect(0, 0, at.width, at.height);
  to.fillStyle = palette.paper;
  to.fillRect(0, 0, at.width, at.height);

  to.textBaseline = "middle";
  for (const row of at.rows) {
    if (row.warp === selected) {
      to.fillStyle = palette.panel;
      to.fillRect(at.names, row.y, right - at.names, at.pitch);
    }
    to.fillStyle = row.warp === selected ? palette.now : palette.ink;
    to.font = `${row.warp === selected ? "700 " : ""}${at.pitch >= 20 ? 13 : 11}px ${mono}`;
    to.textAlign = "right";
    to.fillText(`w${row.warp}`, row.labelX, row.y + at.pitch / 2);
    if (run.blocks) {
      // Every other block's warps have a bar: the table and the sentence of a warp name the block.
      const odd = run.blocks[row.warp] % 2;
      to.fillStyle = odd ? palette.muted : palette.hairline;
      to.fillRect(at.label - 4, row.y, 3, at.pitch);
    }
  }
  const last = future === "hidden" ? cycle + 1 : until;
  for (const row of at.rows) stretches(to, at, run, row, first, last, palette);
  if (gap) {
    to.fillStyle = palette.paper;
    for (let t = first + 1; t < last; t++) to.fillRect(at.label + (t - first) * at.cell - gap, at.top, gap, at.bottom - at.top);
  }
  if (future === "dimmed" && cycle + 1 < until) {
    to.globalAlpha = 0.62;
    to.fillStyle = palette.paper;
    to.fillRect(here + at.cell, at.top, right - here - at.cell, at.bottom - at.top);
    to.globalAlpha = 1;
  }
  if (future === "hidden" && right - here > 190) {
    to.font = `13px ${sans}`;
    to.fillStyle = palette.muted;
    to.textAlign = "left";
    to.fillText("what comes is hidden", here + at.cell + 14, at.bottom - at.pitch / 2);
  }
  schedulers(to, at, run.warps, palette, sans);
  axis(to, at, first, until, palette, sans);
  present(to, at, cycle, here, gap, palette, sans);
  if (pointed >= first && pointed < until && at.rows[selected]) {
    to.setLineDash([3, 2]);
    outline(to, palette.ink, at.label + (pointed - first) * at.cell - 2.5, at.rows[selected].y, at.cell - gap + 5, at.pitch, 1.5);
    to.setLineDash([]);
  }
  if (at.overview) overview(to, at, rate, first, until, cycle, palette, future, sans);
}

/** @param {CanvasRenderingContext2D} to @param {Layout} at @param {Run} run @param {Row} row @param {number} first @param {number} last @param {Palette} palette */
function stretches(to, at, run, row, first, last, palette) {
  const y = row.y + (at.pitch - at.mark) / 2;
  for (let t = first; t < last;) {
    const i = t * run.warps + row.warp;
    const state = run.names[run.state[i]];
    let end = t + 1;
    const alone = state === "issues" || state === "ready"; // each of these is one decision, drawn as one mark
    while (!alone && end < last && run.state[end * run.warps + row.warp] === run.state[i]) end += 1;
    const gap = alone && at.cell >= 5 ? 1 : 0;
    paint(to, palette, state, at.label + (t - first) * at.cell, y, (end - t) * at.cell - gap, at.mark, run.lanes[i] || 32);
    t = end;
  }
}

/** @param {CanvasRenderingContext2D} to @param {Layout} at @param {number} warps @param {Palette} palette @param {string} sans */
function schedulers(to, at, warps, palette, sans) {
  to.font = `13px ${sans}`;
  to.fillStyle = palette.muted;
  to.textAlign = "left";
  for (const { scheduler, top, bottom } of at.groups) {
    const idle = scheduler >= warps;
    const y = at.narrow ? top - 9 : (top + bottom) / 2;
    to.fillText(`scheduler ${scheduler}${idle && at.narrow ? ": no warps" : ""}`, 0, y);
    if (idle && !at.narrow) to.fillText("no warps", at.label, y);
  }
}

/** @param {CanvasRenderingContext2D} to @param {Layout} at @param {number} first @param {number} until @param {Palette} palette @param {string} sans */
function axis(to, at, first, until, palette, sans) {
  const step = tickStep(at.cell);
  to.font = `12px ${sans}`;
  to.textAlign = "center";
  to.fillStyle = palette.muted;
  for (let t = Math.ceil(first / step) * step; t < until; t += step) {
    const x = at.label + (t - first + 0.5) * at.cell;
    to.fillRect(x - 0.5, at.bottom + 1, 1, 4);
    to.fillText(String(t), x, at.bottom + 13);
  }
}

/** @param {CanvasRenderingContext2D} to @param {Layout} at @param {number} cycle @param {number} here @param {number} gap @param {Palette} palette @param {string} sans */
function present(to, at, cycle, here, gap, palette, sans) {
  // On a narrow screen the frame leaves out the schedulers' names, which stand between the rows.
  const frames = at.narrow ? at.groups.filter(({ top, bottom }) => bottom > top) : [at];
  for (const { top, bottom } of frames) outline(to, palette.now, here - 2.5, top - 3, at.cell - gap + 5, bottom - top + 6, 2);
  to.fillStyle = palette.now;
  to.font = `700 12px ${sans}`;
  to.textAlign = "center";
  const said = `cycle ${cycle}`;
  const half = to.measureText(said).width / 2;
  to.fillText(said, Math.max(at.label + half, Math.min(here + (at.cell - gap) / 2, at.label + at.space - half)), at.top - 12);
}

/** @param {CanvasRenderingContext2D} to @param {Layout} at @param {number[][]} rate @param {number} first @param {number} until @param {number} cycle @param {Palette} palette @param {Future} future @param {string} sans */
function overview(to, at, rate, first, until, cycle, palette, future, sans) {
  if (!at.overview) return;
  const { top, height } = at.overview;
  const scale = at.space / at.cycles;
  to.fillStyle = palette.muted;
  to.font = `${at.narrow ? 11 : 13}px ${sans}`;
  to.textAlign = "left";
  to.fillText(at.narrow ? "all" : "whole run", 0, top + height / 2);
  to.fillStyle = palette.panel;
  to.fillRect(at.label, top, at.space, height);
  to.fillStyle = palette.ink;
  const shown = future === "hidden" ? (cycle + 1) / at.cycles : 1;
  rate.forEach((buckets, s) => {
    const wide = at.space / buckets.length;
    for (let i = 0; i < Math.ceil(buckets.length * shown); i++) {
      to.globalAlpha = buckets[i];
      to.fillRect(at.label + i * wide, top + s * OVERVIEW_ROW + 1, wide, OVERVIEW_ROW - 2);
    }
  });
  to.globalAlpha = 1;
  outline(to, palette.ink, at.label + first * scale, top - 2, Math.max(4, (until - first) * scale), height + 4, 1);
  to.fillStyle = palette.now;
  to.fillRect(at.label + cycle * scale - 1, top - 4, 2, height + 8);
}

// ----------------------------------------------------------------------------------------------- words

const MOST_NAMED = 3;

/**
 * What one warp does at one cycle, in words: caption, tip and table all use this. It says what the trace's
 * own `why_warp(t, w)` says, from the columns that were sent; a test holds the two together.
 * @param {Packed} packed
 * @param {number[][]} issueCycles
 * @param {number} t
 * @param {number} w
 * @returns {string}
 */
export function describe(packed, issueCycles, t, w) {
  const { header, columns } = packed;
  const i = t * header.warps + w;
  const state = header.states[columns.state[i]];
  const program = programOf(header, w);
  const line = program[columns.pc[i]];
  if (state === "finished") return `w${w} has finished.`;
  if (state === "issues" && line) return `w${w} issues ${line.text} on ${line.lanes} lane${line.lanes > 1 ? "s" : ""}.`;
  if (state === "ready" && line) {
    const s = w % header.schedulers;
    const other = columns.issued[t * header.schedulers + s];
    return `w${w} is ready to issue ${line.text}; scheduler ${s} issues w${other}, ${reason(packed, t, s, other)}.`;
  }
  const until = columns.until[i];
  const head = `w${w} waits ${wait(packed, t, w, state)}${until >= 0 ? ` until ${until}` : ""}`;
  if (state === "barrier" || !line) return `${head}.`;
  if (state !== "memory" && state !== "result") return `${head}, to issue ${line.text}.`;
  return `${head}: ${line.text} needs ${needs(program, issueCycles[w], columns.pc[i], t)}.`;
}

/** @param {Packed["header"]} header @param {number} w @returns {Line[]} */
function programOf(header, w) {
  return header.programs[header.program_of[w]];
}

/** @param {Packed} packed @param {number} t @param {number} s @param {number} picked @returns {string} why the policy picked this one */
function reason({ header, columns }, t, s, picked) {
  let last = -1;
  for (let u = t - 1; u >= 0 && last < 0; u--) last = columns.issued[u * header.schedulers + s];
  if (header.policy === "lrr" || header.policy === "two_level") return last >= 0 ? `next after w${last} in round robin` : "the first in round robin";
  if (header.policy !== "oldest" && picked === last) return "which issued last (greedy)";
  return header.policy === "gty" ? "the youngest ready" : "the oldest ready";
}

/** @param {Packed} packed @param {number} t @param {number} w @param {string} state @returns {string} to follow "waits" */
function wait(packed, t, w, state) {
  const { header, columns } = packed;
  const line = programOf(header, w)[columns.pc[t * header.warps + w]];
  if (state === "memory") return line ? "for memory" : "for its last memory access";
  if (state === "result") return line ? "for a result" : "for its last result";
  if (state === "unit") return `for the ${line.unit === "mem" ? "memory" : line.unit} unit`;
  const most = header.max_outstanding;
  if (state === "limit") return `for ${most === 1 ? "" : "one of "}the ${most} load${most === 1 ? "" : "s"} in flight`;
  if (state === "pending") return "for a place in the active pool";
  const short = shortAt(packed, t, w);
  if (short) return `at a barrier that never opens: ${short}`;
  const late = absent(packed, t, w);
  return `at the barrier${late.length ? ` for ${named(late)}` : ""}`;
}

/** @param {Packed} packed @param {number} t @param {number} w @returns {string} who of its block reached the barrier with some of its threads only, empty where nobody did */
function shortAt({ header, columns }, t, w) {
  for (const v of rowsOf(header).filter((each) => header.blocks[each] === header.blocks[w])) {
    const i = t * header.warps + v;
    if (header.states[columns.state[i]] !== "barrier") continue;
    const left = programOf(header, v).slice(Math.max(0, columns.pc[i] - 1)).map((line) => line.lanes);
    const [there, threads] = [left[0], Math.max(...left)];
    if (there < threads) return `${there} of the ${threads} threads of w${v} reached it`;
  }
  return "";
}

/** @param {Packed} packed @param {number} t @param {number} w @returns {number[]} warps of its block that neither arrived nor exited by the end of the cycle */
function absent({ header, columns }, t, w) {
  /** @param {number} v @param {number} pc */
  const bars = (v, pc) => programOf(header, v).slice(0, pc).filter((line) => line.unit === "bar").length;
  /** @param {number} v */
  const pc = (v) => columns.pc[t * header.warps + v];
  /** @param {number} v */
  const issues = (v) => (header.states[columns.state[t * header.warps + v]] === "issues" ? 1 : 0);
  const barrier = bars(w, pc(w));
  return rowsOf(header).filter((v) => {
    const done = pc(v) + issues(v);
    return header.blocks[v] === header.blocks[w] && done < programOf(header, v).length && bars(v, done) < barrier;
  });
}

/** @param {Packed["header"]} header @returns {number[]} */
function rowsOf({ warps }) {
  return Array.from({ length: warps }, (_, w) => w);
}

/** @param {number[]} warps @returns {string} */
function named(warps) {
  if (warps.length > MOST_NAMED) return `${warps.length} warps`;
  const words = warps.map((w) => `w${w}`);
  return words.length === 1 ? words[0] : `${words.slice(0, -1).join(", ")} and ${words[words.length - 1]}`;
}

/** @param {Line[]} program @param {number[]} cycles when its instructions issued @param {number} pc @param {number} t @returns {string} registers not there yet */
function needs(program, cycles, pc, t) {
  const { srcs, dst } = program[pc];
  const parts = [];
  for (const register of new Set([...srcs, ...(dst === null ? [] : [dst])])) {
    let writer = pc - 1;
    while (writer >= 0 && program[writer].dst !== register) writer -= 1;
    if (writer < 0 || cycles[writer] + program[writer].latency <= t) continue;
    parts.push(`${register} (${program[writer].text.split(" ")[0]} issued at ${cycles[writer]})`);
  }
  return parts.join(" and ");
}

// ---------------------------------------------------------------------------------------------- render

const MOST_LINES = 12;
const MOST_SHOWN_SIDE = 8; // a larger C is a map of progress; its values stand in the lane strip

export default {
  render: stage((packed, options) => {
    const { header, columns } = packed;
    /** @type {Run} */
    const run = {
      state: columns.state, lanes: columns.lanes, names: header.states,
      warps: header.warps, schedulers: header.schedulers, blocks: severalBlocks(header) ? blockTurns(header) : undefined,
    };
    const machine = { warps: header.warps, schedulers: header.schedulers, cycles: header.cycles };
    const issueCycles = issuesByWarp(packed);
    const rate = slotRate(packed, 360);
    const busy = slotsUsed(packed);
    const present = statesPresent(packed);
    const letters = header.kernel ? longest(columns.values ?? []) : 0;
    /** @type {number} the cycle on screen, for arrow keys that start from it */
    let shown = 0;
    const hidden = options.future === "hidden";
    const lastSeen = () => (hidden ? shown : header.cycles - 1);
    /** @param {number[]} selected @returns {[number, number]} the warp pointed at, and the cycle it is pointed at in */
    const target = (selected) => [selected[0] ?? 0, selected[1] ?? shown];

    return {
      title: header.title,
      rule: header.rule,
      simplified: header.simplified,
      cycles: header.cycles,
      rate: header.rate,
      chapters: header.chapters,
      stills: header.stills,
      python: header.python,
      help: header.help,
      pictureLabel: `Timeline of ${header.warps} warp${header.warps > 1 ? "s" : ""}; arrow keys pick a warp and a cycle`,
      given: header.costs,
      phase: (t) => phaseAt(header.chapters, t),
      caption(t, selected) {
        const [warp, cycle] = [selected[0] ?? 0, selected[1] ?? t];
        const words = describe(packed, issueCycles, cycle, warp);
        return [...sentences(packed, t), cycle === t ? words : `At cycle ${cycle}: ${words}`];
      },
      mark: operands,
      table: (t) => frameTable(packed, issueCycles, t),
      move(selected, key) {
        const [warp, cycle] = target(selected);
        if (key === "ArrowUp" || key === "ArrowDown") {
          const order = rowOrder(header);
          const at = order.indexOf(warp) + (key === "ArrowUp" ? -1 : 1);
          if (at < 0 || at >= order.length) return null;
          return selected.length > 1 ? [order[at], cycle] : [order[at]];
        }
        const next = cycle + (key === "ArrowLeft" ? -1 : 1);
        if (next < 0 || next > lastSeen()) return null;
        return next === shown ? [warp] : [warp, next];
      },
      mount({ signal, still, select, point }) {
        const canvas = h("canvas", { class: "pw-warps", "aria-hidden": "true" });
        const tip = h("div", { class: "pw-tip", hidden: true, "aria-hidden": "true" });
        const el = h("div", { class: "pw-timeline" }, canvas, tip);
        const listing = programPanel(packed);
        const slots = slotsPanel(packed, still, signal);
        const lanes = header.kernel && lanePanel(packed, issueCycles);
        const matrix = header.kernel && matrixPanel(packed, issueCycles);
        const curve = still ? null : chart({
          title: "issue slots used, by cycle", values: busy, most: header.schedulers, signal,
          summary: `Issue slots used in each of ${header.cycles} cycles, at most ${header.schedulers}.`,
        });
        const below = h("div", { class: "pw-below" }); // under the legend, where the picture is low and the screen wide
        const values = h("div", { class: "pw-values" }, lanes?.el, matrix?.el);
        const marks = legendMarks(present, columns.lanes);
        /** @type {Layout} */
        let at = layout(machine, 720);
        /** @type {Palette} */
        let palette;

        canvas.addEventListener("pointermove", (event) => {
          const place = under(at, shown, event.offsetX, event.offsetY, lastSeen());
          tip.hidden = !place;
          point(place && (place.cycle === shown ? [place.warp] : [place.warp, place.cycle]));
          if (!place) return;
          write(tip, `${place.cycle === shown ? "Now" : `Cycle ${place.cycle}`}: ${describe(packed, issueCycles, place.cycle, place.warp)}`);
          tip.style.left = `${Math.min(event.offsetX + 14, Math.max(0, at.width - 260))}px`;
          tip.style.top = `${event.offsetY + 18}px`;
        }, { signal });
        canvas.addEventListener("pointerleave", () => {
          tip.hidden = true;
          point(null);
        }, { signal });
        canvas.addEventListener("click", (event) => {
          const place = under(at, shown, event.offsetX, event.offsetY, lastSeen());
          if (place) select(place.cycle === shown ? [place.warp] : [place.warp, place.cycle]);
        }, { signal });

        return {
          el,
          legend: h("div", {}, legend([...marks.entries, ...(run.blocks ? [blocksMark()] : [])]), below),
          after: lanes && matrix ? values : undefined,
          panels: [listing.el, slots.el, ...(curve ? [curve.el] : [])],
          resize(wide, whole) {
            at = layout(machine, wide);
            if (lanes && matrix) {
              const share = valuesLayout({ m: header.kernel.m, n: header.kernel.n, letters }, whole);
              lanes.letters = share.lanes;
              matrix.letters = share.matrix;
              set(values, { style: share.style });
            }
            if (curve && !at.narrow && header.warps <= 16) below.replaceChildren(curve.el);
            else if (curve) slots.el.after(curve.el);
          },
          show(frame) {
            const [warp] = target(frame.selected);
            if (!still) shown = frame.cycle;
            palette = paletteOf(canvas, frame.theme);
            const to = surface(canvas, at.width, at.height);
            const style = getComputedStyle(canvas);
            draw(to, at, run, rate, {
              cycle: frame.cycle, selected: still ? -1 : warp, pointed: frame.selected[1] ?? -1, palette,
              future: hidden ? "hidden" : "dimmed",
              sans: style.getPropertyValue("--sans"), mono: style.getPropertyValue("--mono"),
            });
            set(canvas, {
              "data-first": firstCycle(at, frame.cycle), "data-count": at.count, "data-cell": at.cell, "data-label": at.label,
              "data-mark": at.mark, "data-rows": at.rows.map((row) => row.y + (at.pitch - at.mark) / 2).join(" "),
            });
            if (still) return;
            marks.show(palette);
            listing.show(frame.cycle, warp);
            slots.show(frame.cycle, palette);
            lanes?.show(frame.cycle, warp);
            matrix?.show(frame.cycle, warp, palette);
            curve?.show(frame.cycle, `now ${busy[frame.cycle]} of ${header.schedulers}`);
          },
        };
      },
    };
  }),
};

/** @param {{cycle: number, label: string}[]} chapters @param {number} t @returns {string} the label of the chapter a cycle lies in */
function phaseAt(chapters, t) {
  return chapters.filter(({ cycle }) => cycle <= t).at(-1)?.label ?? "";
}

/** @param {Packed["header"]} header @returns {number[]} warps from top to bottom */
function rowOrder({ warps, schedulers }) {
  const order = [];
  for (let s = 0; s < schedulers; s++) for (let w = s; w < warps; w += schedulers) order.push(w);
  return order;
}

/** @param {Packed} packed @returns {number[][]} the issue cycles of each warp, in program order */
function issuesByWarp({ header, columns }) {
  /** @type {number[][]} */
  const cycles = Array.from({ length: header.warps }, () => []);
  columns.issued.forEach((w, i) => {
    if (w >= 0) cycles[w].push(Math.floor(i / header.schedulers));
  });
  return cycles;
}

/** @param {Packed} packed @returns {Uint16Array} issue slots used in each cycle */
function slotsUsed({ header, columns }) {
  const used = new Uint16Array(header.cycles);
  columns.issued.forEach((w, i) => {
    if (w >= 0) used[Math.floor(i / header.schedulers)] += 1;
  });
  return used;
}

/** @param {Packed} packed @param {number} most @returns {number[][]} for each scheduler the share of slots used, in at most `most` buckets */
function slotRate({ header, columns }, most) {
  const buckets = Math.min(most, header.cycles);
  return Array.from({ length: header.schedulers }, (_, s) =>
    Array.from({ length: buckets }, (__, i) => {
      const from = Math.floor((i * header.cycles) / buckets);
      const to = Math.max(from + 1, Math.floor(((i + 1) * header.cycles) / buckets));
      let used = 0;
      for (let t = from; t < to; t++) used += columns.issued[t * header.schedulers + s] >= 0 ? 1 : 0;
      return used / (to - from);
    }));
}

/** @param {Packed} packed @returns {Set<string>} the states that occur, so that the legend names no others */
function statesPresent({ header, columns }) {
  return new Set(Array.from(new Set(columns.state), (i) => header.states[i]));
}

/** What schedulers say that have nothing to do; several that say the same share a line. */
const IDLE = [
  ["it has no warps.", "they have no warps."],
  ["all its warps have finished.", "all their warps have finished."],
];

/** @param {Packed} packed @param {number} t @returns {string[]} one sentence a scheduler, looked up */
function sentences({ header, columns }, t) {
  const told = Array.from({ length: header.schedulers }, (_, s) => header.sentences[columns.sentence[t * header.schedulers + s]]);
  for (const [one, several] of IDLE) {
    const same = told.flatMap((sentence, s) => (sentence === `Scheduler ${s} issues nothing: ${one}` ? [s] : []));
    if (same.length < 2) continue;
    const names = `${same.slice(0, -1).join(", ")} and ${same[same.length - 1]}`;
    told[same[0]] = `Schedulers ${names} issue nothing: ${several}`;
    same.slice(1).forEach((s) => { told[s] = ""; });
  }
  return told.filter((sentence) => sentence);
}

/** @param {Packed["header"]} header @returns {number[]} the block of each warp, as the how manieth there is */
function blockTurns({ blocks }) {
  const order = [...new Set(/** @type {number[]} */ (blocks))].sort((a, b) => a - b);
  return blocks.map((/** @type {number} */ block) => order.indexOf(block));
}

/** The bars beside the rows. */
function blocksMark() {
  const mark = h("span", { class: "pw-block-bars", "aria-hidden": "true" }, h("i", {}), h("i", {}));
  return { mark, text: "a bar by turns: the first block, the next" };
}

/** @param {Packed["header"]} header @returns {boolean} */
function severalBlocks({ blocks }) {
  return new Set(blocks).size > 1;
}

/** @param {Packed} packed @param {number[][]} issueCycles @param {number} t */
function frameTable(packed, issueCycles, t) {
  const { header, columns } = packed;
  return {
    caption: `Cycle ${t}: what every warp does`,
    head: ["warp", ...(severalBlocks(header) ? ["block"] : []), "scheduler", "next instruction", "what it does"],
    rows: rowOrder(header).map((w) => {
      const line = header.programs[header.program_of[w]][columns.pc[t * header.warps + w]];
      return [`w${w}`, ...(severalBlocks(header) ? [header.blocks[w]] : []), w % header.schedulers, line ? line.text : "none left", describe(packed, issueCycles, t, w)];
    }),
  };
}

/** @param {Packed} packed the listing, and which warps stand at each line */
function programPanel({ header, columns }) {
  const head = h("h4", {});
  const gone = h("p", { class: "pw-aside" });
  const rows = Array.from({ length: MOST_LINES }, () => {
    const cells = [h("span", { class: "pw-lineno" }), h("code", {}), h("span", { class: "pw-at" })];
    return { cells, el: h("li", {}, ...cells) };
  });
  const el = h("section", { class: "pw-panel pw-program" }, h("header", {}, head), h("ol", {}, ...rows.map((row) => row.el)), gone);
  return {
    el,
    /** @param {number} t @param {number} warp */
    show(t, warp) {
      const which = header.program_of[warp];
      const program = header.programs[which];
      const peers = header.program_of.flatMap((/** @type {number} */ p, /** @type {number} */ w) => (p === which ? [w] : []));
      /** @param {number} w */
      const pc = (w) => columns.pc[t * header.warps + w];
      const first = Math.max(0, Math.min(pc(warp) - 5, program.length - MOST_LINES));
      const others = peers.length === 1 ? "alone" : `and ${peers.length - 1} more warp${peers.length > 2 ? "s" : ""}`;
      write(head, header.programs.length === 1 ? "program, and where each warp is" : `program of w${warp} ${others}`);
      rows.forEach(({ el: row, cells: [number, code, at] }, i) => {
        const line = program[first + i];
        row.hidden = !line;
        if (!line) return;
        write(number, first + i);
        if (code.textContent !== line.text) code.replaceChildren(...operands(line.text));
        const here = peers.filter((/** @type {number} */ w) => pc(w) === first + i);
        write(at, names(here, warp));
        set(row, { "data-pc": first + i, "data-warps": here.join(" "), "aria-current": here.includes(warp) ? "true" : null });
      });
      const done = peers.filter((/** @type {number} */ w) => pc(w) >= program.length);
      write(gone, done.length ? `at the end: ${names(done, warp)}` : program.length > MOST_LINES ? `of ${program.length} instructions, 0 to ${program.length - 1}` : "");
    },
  };
}

/** @param {string} text @returns {(string | HTMLElement)[]} an instruction, its matrices in the colours they have everywhere */
function operands(text) {
  return text.split(/(\[[ABC]\])/).filter(Boolean).map((part) =>
    (/^\[[ABC]\]$/.test(part) ? h("span", { class: `pw-code-${part[1].toLowerCase()}` }, part) : part));
}

/** @param {number[]} warps @param {number} first the one named whatever happens @returns {string} at most four names, and how many more */
function names(warps, first) {
  const order = warps.includes(first) ? [first, ...warps.filter((w) => w !== first)] : warps;
  const shown = order.slice(0, 4).sort((a, b) => a - b).map((w) => `w${w}`).join(" ");
  return warps.length > 4 ? `${shown} +${warps.length - 4}` : shown;
}

/** @param {Packed} packed @param {boolean} still @param {AbortSignal} signal issue slots so far: used, and lost by reason */
function slotsPanel({ header, columns }, still, signal) {
  const bar = h("canvas", { class: "pw-slots", "aria-hidden": "true" });
  const words = h("p", {});
  const el = h("section", { class: "pw-panel" }, h("header", {}, h("h4", {}, "issue slots so far")), bar, words);
  /** @type {string[]} */
  const reasons = header.lost;
  let wide = 280;
  const panel = {
    el,
    /** @param {number} t @param {Palette} palette */
    show(t, palette) {
      if (still) return;
      again = () => panel.show(t, palette);
      const total = columns.slots[t];
      const used = columns.used[t];
      /** @type {[string, number][]} */
      const all = reasons.map((reason, i) => [reason, columns.lost[t * reasons.length + i]]);
      const lost = all.filter(([, count]) => count > 0).sort((one, other) => other[1] - one[1]);
      const to = surface(bar, wide, 26);
      to.clearRect(0, 0, wide, 26);
      let x = 0;
      /** @type {[string, number][]} */
      const shares = [["issues", used], ...lost];
      for (const [state, count] of shares) {
        const share = (wide * count) / total;
        paint(to, palette, state, x, 1, share, 24);
        x += share;
      }
      outline(to, palette.hairline, 0, 0, wide, 26, 1);
      const parts = lost.map(([reason, count]) => `${count} ${header.lost_words[reason]}`);
      write(words, `${used} of ${total} used${parts.length ? `; lost: ${parts.join(", ")}` : ""}`);
      set(el, { "data-used": used, "data-total": total, "data-lost": lost.map((pair) => pair.join(":")).join(" ") });
    },
  };
  let again = () => {};
  // A notebook takes scenes out of the page and puts them back: only a width that was seen counts.
  if (!still) {
    width(el, signal, (next) => {
      wide = Math.max(120, next - 28);
      again();
    });
  }
  return panel;
}

/**
 * A value in at most so many letters: as it is if that fits, else with an exponent; the cell's title has all of it.
 * @param {number} value
 * @param {number} letters
 * @returns {string}
 */
function figure(value, letters) {
  const text = Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
  const shorter = [3, 2, 1, 0].map((digits) => value.toExponential(digits).replace("e+", "e"));
  return [text, ...shorter].find((each) => each.length <= letters) ?? shorter[3];
}

const MOST_LETTERS = 7;

/**
 * How lanes and result share the width: side by side where the widest value leaves room for both.
 * @param {{m: number, n: number, letters: number}} kernel `letters` of the widest value
 * @param {number} wide
 */
function valuesLayout({ m, n, letters }, wide) {
  const tight = wide < 560;
  const size = tight ? 11 : 13;
  const letter = size * 0.61; // the widest monospace digit, in em
  const cell = Math.min(letters, MOST_LETTERS) * letter + 8;
  const small = m <= MOST_SHOWN_SIDE && n <= MOST_SHOWN_SIDE;
  const columns = tight ? (letters > 5 ? 4 : 8) : small && wide >= 16 * (cell + 3) + 250 ? 16 : 8;
  const side = Math.ceil(Math.max(176, small ? n * cell + 26 : 226));
  const beside = !tight && wide >= columns * (cell + 3) + 24 + side + 12;
  /** @param {number} room @param {number} across @returns {number} */
  const fitting = (room, across) => Math.floor((room / across - 8) / letter);
  return {
    style: `--lanes: ${columns}; --value: ${size}px;${beside ? ` grid-template-columns: minmax(0, 1fr) ${side}px` : ""}`,
    lanes: Math.min(MOST_LETTERS, fitting((beside ? wide - side - 12 : wide) - 24, columns)),
    matrix: Math.min(MOST_LETTERS, fitting((beside ? side : wide) - 24, n)),
  };
}

/** @param {ArrayLike<number>} values @returns {number} letters of the longest as shown, at least 3 */
function longest(values) {
  let most = 3;
  for (let i = 0; i < values.length; i++) if (values[i] !== 0) most = Math.max(most, figure(values[i], MOST_LETTERS).length);
  return most;
}

/**
 * The last instruction a warp issued up to a cycle: its index, when, and when its result lands.
 * @param {Packed} packed
 * @param {number[][]} issueCycles
 * @param {number} t
 * @param {number} w
 */
function lastIssued({ header }, issueCycles, t, w) {
  const times = issueCycles[w];
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= t) low = middle + 1;
    else high = middle;
  }
  if (!low) return null;
  const line = header.programs[header.program_of[w]][low - 1];
  return { pc: low - 1, line, issued: times[low - 1], lands: times[low - 1] + line.latency };
}

/** @param {Packed} packed @param {number[][]} issueCycles the 32 lanes of one warp, with what its last instruction writes */
function lanePanel(packed, issueCycles) {
  const { header, columns } = packed;
  const title = h("h4", {});
  const cells = Array.from({ length: 32 }, (_, l) => {
    const parts = [h("span", { class: "pw-lane" }, l), h("b", {}), h("span", { class: "pw-owner" })];
    return { parts, el: h("li", {}, ...parts) };
  });
  const el = h("section", { class: "pw-panel pw-lanes" }, h("header", {}, title), h("ol", {}, ...cells.map((cell) => cell.el)));
  return {
    el,
    letters: MOST_LETTERS,
    /** @param {number} t @param {number} w */
    show(t, w) {
      const last = lastIssued(packed, issueCycles, t, w);
      const { n, offsets } = header.kernel;
      const on = header.active_lanes[w];
      const off = on < 32 ? ` ${32 - on} of 32 lanes are off: no element is left for them.` : "";
      write(title, last
        ? `w${w}, lane by lane: ${last.line.text}, issued at ${last.issued}, ${last.line.unit === "mem" && last.line.role === "stored" ? "stores" : t < last.lands ? `lands at ${last.lands}` : `landed at ${last.lands}`}.${off}`
        : `w${w}, lane by lane: nothing issued yet.${off}`);
      cells.forEach(({ el: cell, parts: [, value, owner] }, l) => {
        const i = w * 32 + l;
        const v = last && l < on ? columns.values[offsets[w] + last.pc * 32 + l] : null;
        write(value, l >= on ? "off" : v === null ? "–" : figure(v, this.letters));
        write(owner, l < on ? `C${Math.floor(i / n)},${i % n}` : "");
        set(cell, {
          class: `${l >= on ? "pw-off" : last && t < last.lands ? "pw-flying" : ""} pw-role-${last?.line.role ?? "none"}`,
          title: v === null ? null : `lane ${l}: ${v}`, "data-value": v,
        });
      });
    },
  };
}

/** @param {Packed} packed @param {number[][]} issueCycles the result as it fills */
function matrixPanel(packed, issueCycles) {
  const { header, columns } = packed;
  const { m, n, offsets } = header.kernel;
  const now = h("b", { class: "pw-now" });
  const small = m <= MOST_SHOWN_SIDE && n <= MOST_SHOWN_SIDE;
  const cells = small ? Array.from({ length: m * n }, () => h("li")) : [];
  const map = h("canvas", { class: "pw-map", role: "img", "aria-label": `Progress of the ${m} x ${n} result` });
  const grid = h("ol", { style: `grid-template-columns: repeat(${n}, minmax(0, 1fr))` }, ...cells);
  const key = h("p", { class: "pw-aside" }, small ? "dashed: sum so far; solid: stored" : "orange: share of k summed; black: stored; outlined: this warp's elements");
  const el = h("section", { class: "pw-panel pw-matrix" }, h("header", {}, h("h4", {}, "C fills"), now), small ? grid : map, key);
  /** @param {number} t @param {number} w @returns {{sum: number, stored: boolean, share: number}} pc of the warp's last landed sum */
  const state = (t, w) => {
    const last = lastIssued(packed, issueCycles, t, w);
    const program = header.programs[header.program_of[w]];
    let sum = last ? last.pc : -1;
    while (sum >= 0 && !(program[sum].role === "c" && issueCycles[w][sum] + program[sum].latency <= t)) sum -= 1;
    return { sum, stored: last !== null && last.line.role === "stored", share: (sum + 1) / (program.length - 1) };
  };
  return {
    el,
    letters: MOST_LETTERS,
    /** @param {number} t @param {number} selected @param {Palette} palette */
    show(t, selected, palette) {
      const states = issueCycles.map((_, w) => state(t, w));
      let done = 0;
      const size = Math.max(2, Math.min(12, Math.floor(200 / Math.max(m, n))));
      const to = small ? null : surface(map, n * size, m * size);
      to?.clearRect(0, 0, n * size, m * size);
      for (let i = 0; i < m * n; i++) {
        const [w, l] = [i >> 5, i & 31];
        const { sum, stored, share } = states[w];
        if (stored) done += 1;
        if (!to) {
          const v = sum < 0 ? null : columns.values[offsets[w] + sum * 32 + l];
          write(cells[i], v === null ? "" : figure(v, this.letters));
          set(cells[i], { title: `C[${Math.floor(i / n)}, ${i % n}]${v === null ? "" : `: ${v}`}`, class: stored ? "pw-stored" : sum < 0 ? "pw-empty" : "pw-partial", "data-selected": w === selected });
          continue;
        }
        const [x, y] = [(i % n) * size, Math.floor(i / n) * size];
        to.fillStyle = stored ? palette.ink : palette.now;
        to.globalAlpha = stored ? 1 : 0.08 + 0.72 * share;
        to.fillRect(x, y, size - 1, size - 1);
        to.globalAlpha = 1;
        if (w === selected) outline(to, palette.ready, x, y, size - 1, size - 1, 1);
      }
      write(now, `${done} of ${m * n} stored`);
      set(el, { "data-stored": done });
    },
  };
}
