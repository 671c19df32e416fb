// Block placement: every SM of a GPU as a square with its slots, beside it every slot as a line over time; one grid
// above another on one clock. Three parts: the runs and their words (look-ups), layout (pure), drawing and wiring (short).
//
// Letters: r counts runs from the top, b blocks, f frames; a frame is a cycle, looked up in `time`.

import { comparison, curves } from "./kit/compare.js";
import { h, set } from "./kit/dom.js";
import { legend } from "./kit/panels.js";
import { stage } from "./kit/stage.js";
import { surface } from "./kit/states.js";
import { tickStep } from "./kit/timeline.js";
import { capital, number } from "./kit/words.js";

/** @typedef {import("./kit/wire.js").Numbers} Numbers */
/** @typedef {ReturnType<typeof readRuns>[number]} Run */
/** @typedef {ReturnType<typeof layout>} Layout */
/** @typedef {ReturnType<typeof paletteOf>} Palette */

const WAVES = 3; // textures; the fourth wave looks as the first again

// ---------------------------------------------------------------------------------------------- the runs

/** @param {import("./kit/wire.js").Packed} packed */
export function readRuns({ header, columns }) {
  const heads = /** @type {{name: string, sms: number, each: number, blocks: number, cycles: number, waves: number, tail_start: number, tail_cycles: number}[]} */ (header.runs);
  return heads.map((head, r) => {
    /** @param {string} name @returns {Numbers} */
    const column = (name) => columns[`${name}${r}`];
    const [sm, slot, start, end, wave] = ["sm", "slot", "start", "end", "wave"].map(column);
    const last = new Float64Array(head.sms * head.each); // when the last block of each slot has ended
    for (let b = 0; b < head.blocks; b++) last[sm[b] * head.each + slot[b]] = Math.max(last[sm[b] * head.each + slot[b]], end[b]);
    return { ...head, sm, slot, start, end, wave, last, sentence: column("sentence"), tally: column("tally") };
  });
}

/** @param {number} n */
const ordinal = (n) => `${n}${n % 100 > 10 && n % 100 < 14 ? "th" : ["th", "st", "nd", "rd"][n % 10] ?? "th"}`;

/** The block in each slot at a cycle, -1 for none. @param {Run} run @param {number} t */
export function held(run, t) {
  const now = new Int32Array(run.sms * run.each).fill(-1);
  for (let b = 0; b < run.blocks; b++) if (run.start[b] <= t && t < run.end[b]) now[run.sm[b] * run.each + run.slot[b]] = b;
  return now;
}

/** One SM in words. @param {Run} run @param {number} t @param {number} sm @returns {string} */
export function describe(run, t, sm) {
  const now = held(run, t).subarray(sm * run.each, (sm + 1) * run.each);
  const blocks = Array.from(now).filter((b) => b >= 0);
  if (!blocks.length) return `SM ${sm} holds no block.`;
  const few = blocks.slice(0, 4).map((b) => `b${b} until cycle ${number(run.end[b])} (the ${ordinal(run.wave[b] + 1)} in its slot)`);
  const more = blocks.length > few.length ? ` and ${blocks.length - few.length} more` : "";
  return `SM ${sm} holds ${blocks.length} of ${run.each}: ${few.join(", ")}${more}.`;
}

/** SMs that stand alike and next to each other, as rows. @param {Run} run @param {number} t @returns {string[][]} SMs, slots taken, waves */
export function groups(run, t) {
  const now = held(run, t);
  /** @type {{from: number, to: number, taken: string, waves: string}[]} */
  const found = [];
  for (let sm = 0; sm < run.sms; sm++) {
    const blocks = Array.from(now.subarray(sm * run.each, (sm + 1) * run.each)).filter((b) => b >= 0);
    const taken = `${blocks.length} of ${run.each}`;
    const waves = Array.from(new Set(blocks.map((b) => run.wave[b] + 1))).sort((a, b) => a - b).map(ordinal).join(", ") || "none";
    const before = found.at(-1);
    if (before && before.taken === taken && before.waves === waves) before.to = sm;
    else found.push({ from: sm, to: sm, taken, waves });
  }
  return found.map(({ from, to, taken, waves }) => [from === to ? `SM ${from}` : `SM ${from} to ${to}`, taken, waves]);
}

// ---------------------------------------------------------------------------------------------- layout

/**
 * Where everything lies, in CSS pixels: squares on the left, or above where it is narrow, lines over time beside them.
 * @param {{sms: number, each: number, cycles: number}[]} runs @param {number} width
 */
export function layout(runs, width) {
  const narrow = width < 560;
  const cycles = Math.max(...runs.map((run) => run.cycles));
  const room = narrow ? width : Math.min(260, Math.round(width * 0.32));
  let y = 18;
  const blocks = runs.map((run) => {
    const title = y + 14;
    const top = title + 9;
    const aim = narrow ? 96 : 196; // as high as the squares may be
    let cols = 1;
    while (Math.ceil(run.sms / cols) * (room / cols) > aim) cols += 1;
    const cell = Math.min(room / cols, 44);
    const rows = Math.ceil(run.sms / cols);
    const parts = Math.ceil(Math.sqrt(run.each)); // slots of an SM side by side
    const slots = run.sms * run.each;
    const plotTop = narrow ? top + rows * cell + 8 : top;
    const plotHigh = narrow ? 120 : Math.max(aim, rows * cell);
    y = plotTop + plotHigh + 12;
    return { title, top, cols, cell, rows, parts, deep: Math.ceil(run.each / parts), plotTop, plotHigh, lane: plotHigh / slots, bottom: plotTop + plotHigh };
  });
  const label = narrow ? 0 : room + 22;
  return { width, narrow, room, label, plot: width - label - 2, cycles, blocks, axis: y - 6, height: y + 16 };
}

/** @param {Layout} at @param {number} t */
const across = (at, t) => at.label + (at.plot * t) / Math.max(1, at.cycles);

/** Where a slot is drawn in its square. @param {Layout} at @param {Run} run @param {number} r @param {number} place @returns {[number, number, number, number]} */
function box(at, run, r, place) {
  const { top, cols, cell, parts, deep } = at.blocks[r];
  const [sm, slot] = [Math.floor(place / run.each), place % run.each];
  const inner = cell - 3;
  return [
    (sm % cols) * cell + 1 + ((slot % parts) * inner) / parts, top + Math.floor(sm / cols) * cell + 1 + (Math.floor(slot / parts) * inner) / deep,
    inner / parts, inner / deep,
  ];
}

/** The SM under a point, as [run, SM]. @param {Layout} at @param {Run[]} runs @param {number} x @param {number} y @returns {number[] | null} */
export function under(at, runs, x, y) {
  for (let r = 0; r < runs.length; r++) {
    const { top, cols, cell, rows, plotTop, bottom } = at.blocks[r];
    if (x < cols * cell && y >= top && y < top + rows * cell) {
      const sm = Math.floor((y - top) / cell) * cols + Math.floor(x / cell);
      return sm < runs[r].sms ? [r, sm] : null;
    }
    if (x >= at.label && y >= plotTop && y < bottom) return [r, Math.min(runs[r].sms - 1, Math.floor((y - plotTop) / (at.blocks[r].lane * runs[r].each)))];
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
    paper: colour("paper"), ink: colour("ink"), muted: colour("muted"), hair: colour("hair"), now: colour("orange"),
    idle: colour("idle"), on: colour("on-wave"), waves: Array.from({ length: WAVES }, (_, i) => colour(`wave-${i}`)), sans: colour("sans"),
  };
}

/** Fills: one for each wave's texture, and one for idle in the tail. @param {CanvasRenderingContext2D} to @param {Palette} palette */
function fills(to, palette) {
  /** @param {string} ground @param {string} ink @param {(pen: CanvasRenderingContext2D) => void} [marks] */
  const tile = (ground, ink, marks) => {
    const one = document.createElement("canvas");
    one.width = one.height = 6;
    const pen = /** @type {CanvasRenderingContext2D} */ (one.getContext("2d"));
    pen.fillStyle = ground;
    pen.fillRect(0, 0, 6, 6);
    pen.strokeStyle = pen.fillStyle = ink;
    marks?.(pen);
    return to.createPattern(one, "repeat") ?? ground;
  };
  /** @param {CanvasRenderingContext2D} pen */
  const stripes = (pen) => {
    pen.globalAlpha = 0.45;
    for (const shift of [-6, 0, 6]) {
      pen.beginPath();
      pen.moveTo(shift, 6);
      pen.lineTo(shift + 6, 0);
      pen.stroke();
    }
  };
  /** @param {CanvasRenderingContext2D} pen */
  const dots = (pen) => {
    pen.globalAlpha = 0.75;
    pen.fillRect(1, 1, 1.6, 1.6);
    pen.fillRect(4, 4, 1.6, 1.6);
  };
  /** @param {CanvasRenderingContext2D} pen */
  const idle = (pen) => {
    pen.globalAlpha = 0.8;
    pen.fillRect(2, 2, 1.2, 1.2);
  };
  return {
    waves: [palette.waves[0], tile(palette.waves[1], palette.on, stripes), tile(palette.waves[2], palette.paper, dots)],
    idle: tile(palette.paper, palette.idle, idle),
  };
}

/** All of time, without the playhead. @param {CanvasRenderingContext2D} to @param {Layout} at @param {Run[]} runs @param {Palette} palette */
function drawTime(to, at, runs, palette) {
  to.fillStyle = palette.paper;
  to.fillRect(0, 0, at.width, at.height);
  const paint = fills(to, palette);
  runs.forEach((run, r) => {
    const { plotTop, lane, bottom } = at.blocks[r];
    const gap = lane >= 4 ? 1 : 0;
    // Few blocks in a wide tail would be thinner than the eye: they are drawn over the idle slots below them.
    const few = 8 * run.end.filter((/** @type {number} */ end) => end > run.tail_start).length <= run.last.length;
    for (let place = 0; place < run.last.length; place++) {
      if (run.last[place] >= run.cycles) continue;
      to.fillStyle = paint.idle;
      to.fillRect(across(at, run.last[place]), plotTop + place * lane, across(at, run.cycles) - across(at, run.last[place]), lane);
    }
    for (let b = 0; b < run.blocks; b++) {
      const [x, y] = [across(at, run.start[b]), plotTop + (run.sm[b] * run.each + run.slot[b]) * lane];
      to.fillStyle = paint.waves[run.wave[b] % WAVES];
      const high = few && run.end[b] > run.tail_start ? Math.max(5, lane - gap) : lane - gap;
      to.fillRect(x, y, Math.max(0.6, across(at, run.end[b]) - x - 1), high);
      if (high > lane) {
        to.strokeStyle = palette.ink;
        to.strokeRect(x + 0.5, y + 0.5, Math.max(1, across(at, run.end[b]) - x - 2), high);
      }
    }
    to.strokeStyle = palette.muted;
    to.lineWidth = 1;
    to.strokeRect(at.label + 0.5, plotTop - 0.5, across(at, run.cycles) - at.label, bottom - plotTop + 1);
  });
  to.font = `12px ${palette.sans}`;
  to.fillStyle = palette.muted;
  const step = tickStep(at.plot / at.cycles, at.narrow ? 70 : 90);
  for (let tick = 0; tick <= at.cycles; tick += step) {
    const x = across(at, tick);
    to.textAlign = x > at.width - 24 ? "right" : x < at.label + 12 ? "left" : "center";
    to.fillText(number(tick), x, at.axis + 13);
    to.fillRect(x, at.axis - 5, 1, 4);
  }
}

/**
 * One frame on top of all of time.
 * @param {CanvasRenderingContext2D} to @param {Layout} at @param {Run[]} runs @param {Palette} palette @param {number} t
 * @param {{hidden: boolean, selected: number[]}} how
 */
function drawNow(to, at, runs, palette, t, { hidden, selected }) {
  const paint = fills(to, palette);
  const here = across(at, t);
  runs.forEach((run, r) => {
    const { title, plotTop, bottom, cell, cols, top } = at.blocks[r];
    to.font = `650 13px ${palette.sans}`;
    to.textAlign = "left";
    to.fillStyle = palette.ink;
    const name = t >= run.cycles ? `${capital(run.name)}: done at cycle ${number(run.cycles)}` : capital(run.name);
    to.fillText(name, 0, title);
    const axis = `every slot over time, SM 0 at the top, SM ${run.sms - 1} at the bottom`;
    const from = Math.max(at.label, to.measureText(name).width + 16);
    to.font = `12px ${palette.sans}`;
    to.fillStyle = palette.muted;
    if (!at.narrow && from + to.measureText(axis).width <= at.width) to.fillText(axis, from, title);
    const now = held(run, t);
    for (let place = 0; place < now.length; place++) {
      const [x, y, wide, high] = box(at, run, r, place);
      const b = now[place];
      to.fillStyle = b >= 0 ? paint.waves[run.wave[b] % WAVES] : t >= run.tail_start && t < run.cycles ? paint.idle : palette.paper;
      to.fillRect(x, y, wide - (wide > 3 ? 1 : 0), high - (high > 3 ? 1 : 0));
    }
    for (let sm = 0; sm < run.sms; sm++) {
      const some = now.subarray(sm * run.each, (sm + 1) * run.each).some((b) => b >= 0);
      to.strokeStyle = some ? palette.muted : palette.hair;
      to.strokeRect((sm % cols) * cell + 0.5, top + Math.floor(sm / cols) * cell + 0.5, cell - 2, cell - 2);
    }
    if (selected[0] === r && selected[1] < run.sms) {
      const sm = selected[1];
      to.strokeStyle = palette.ink;
      to.lineWidth = 2;
      to.strokeRect((sm % cols) * cell, top + Math.floor(sm / cols) * cell, cell - 1, cell - 1);
      to.strokeRect(at.label + 1, plotTop + sm * run.each * at.blocks[r].lane, at.plot - 2, Math.max(3, run.each * at.blocks[r].lane));
      to.lineWidth = 1;
    }
    to.globalAlpha = hidden ? 1 : 0.55;
    to.fillStyle = palette.paper;
    to.fillRect(here, plotTop - 2, at.width - here, bottom - plotTop + 4);
    if (hidden && r === runs.length - 1) to.fillRect(here + 1, bottom, at.width - here, at.height - bottom); // the numbers of the axis say when it ends
    to.globalAlpha = 1;
    to.fillStyle = palette.now;
    to.fillRect(Math.min(here, at.width - 2) - 1, plotTop - 4, 2, bottom - plotTop + 8);
  });
  const words = `cycle ${number(t)}`;
  to.font = `700 12px ${palette.sans}`;
  const half = to.measureText(words).width / 2;
  to.textAlign = "center";
  to.fillStyle = palette.now;
  to.fillText(words, Math.max(at.label + half, Math.min(here, at.width - half)), 12);
}

/** @param {Run[]} runs */
function legendMarks(runs) {
  const most = Math.max(...runs.map((run) => Math.max(...Array.from(run.wave)))) + 1;
  const names = ["the first block of a slot (first wave)", "its second block", "its third block"].slice(0, Math.min(most, WAVES));
  if (most > WAVES) names[0] = `${names[0].slice(0, -1)}, and every third after it)`;
  const tail = runs.some((run) => run.tail_cycles > 0);
  const each = Math.max(...runs.map((run) => run.each));
  const texts = [...names, ...(tail ? ["idle to the end: no block waits (tail)"] : []), each > 1 ? "a square: one SM, its parts are its slots" : "a square: one SM, with one slot"];
  const canvases = texts.map(() => h("canvas", { class: "pl-swatch", "aria-hidden": "true" }));
  return {
    entries: texts.map((text, i) => ({ mark: canvases[i], text })),
    /** @param {Palette} palette */
    show(palette) {
      canvases.forEach((canvas, i) => {
        const to = surface(canvas, 22, 16);
        const paint = fills(to, palette);
        const square = i === texts.length - 1;
        to.clearRect(0, 0, 22, 16);
        to.fillStyle = i < names.length ? paint.waves[i] : square ? palette.paper : paint.idle;
        to.fillRect(0, 0, 22, 16);
        to.strokeStyle = i < names.length || square ? palette.muted : palette.hair;
        to.strokeRect(square ? 3.5 : 0.5, 0.5, square ? 15 : 21, 15);
      });
    },
  };
}

// ---------------------------------------------------------------------------------------------- render

/**
 * @param {Run[]} runs @param {Numbers} time @param {string[]} names of the columns of `tally`
 * @param {boolean} hidden what the whole grid comes to is kept from the reader
 */
function counters(runs, time, names, hidden) {
  /** @param {string} name */
  const count = (name) => (/** @type {number} */ r, /** @type {number} */ f) => runs[r].tally[f * names.length + names.indexOf(name)];
  /** @param {string} name */
  const plain = (name) => (/** @type {number} */ r, /** @type {number} */ f) => number(count(name)(r, f));
  return [
    { label: "blocks resident", text: plain("resident"), help: "Blocks that are on an SM now." },
    { label: "blocks waiting", text: plain("waiting"), help: "Blocks that have not started." },
    { label: "blocks done", text: plain("done"), help: "Blocks that have ended." },
    { label: "slots", text: (/** @type {number} */ r) => number(runs[r].last.length), help: "SMs times blocks an SM holds at once." },
    { label: "idle slot-cycles", text: plain("idle"), help: "Cycles so far in which a slot held no block, summed over slots." },
    { label: "slots used so far", text: (/** @type {number} */ r, /** @type {number} */ f) => {
      const passed = Math.min(time[f], runs[r].cycles) * runs[r].last.length;
      return passed ? `${((100 * (passed - count("idle")(r, f))) / passed).toFixed(1)} %` : "no cycle yet";
    }, help: "Utilisation: the share of slot-cycles so far in which the slot held a block." },
    ...(hidden ? [] : [{ label: "waves", text: (/** @type {number} */ r) => number(runs[r].waves), help: "ceil(blocks / slots), for the whole grid." }]),
    { label: "cycles so far", text: (/** @type {number} */ r, /** @type {number} */ f) => number(Math.min(time[f], runs[r].cycles)), help: "A grid that is done stays at its last cycle." },
  ];
}

export default {
  render: stage((packed, options) => {
    const { header, columns } = packed;
    const runs = readRuns(packed);
    const { time } = columns;
    const several = runs.length > 1;
    const hidden = options.future === "hidden";

    /** @param {number} f @returns {string[]} */
    const caption = (f) => runs.map((run) => {
      const words = [0, 1].map((i) => header.sentences[run.sentence[2 * f + i]]).join(" ");
      return several ? `${capital(run.name)}: ${words}` : words;
    });
    return {
      title: header.title,
      rule: header.rule,
      simplified: header.simplified,
      given: header.given,
      cycles: header.frames,
      unit: "frame",
      chapters: header.chapters,
      stills: header.stills,
      python: header.python,
      help: header.help,
      pictureLabel: "SMs and their slots over time; arrow keys pick an SM",
      phase: (f) => `${header.chapters.filter((/** @type {{cycle: number}} */ { cycle }) => cycle <= f).at(-1)?.label ?? ""}, cycle ${number(time[f])}`,
      caption: (f, [r, sm]) => [...caption(f), ...(r in runs && sm < runs[r].sms ? [`${several ? `${capital(runs[r].name)}, chosen: ` : ""}${describe(runs[r], time[f], sm)}`] : [])],
      table: (f) => ({
        caption: `Cycle ${number(time[f])}: SMs that stand alike`,
        head: [...(several ? ["grid"] : []), "SMs", "slots taken", "waves of their blocks"],
        rows: runs.flatMap((run) => groups(run, time[f]).map((row) => [...(several ? [run.name] : []), ...row])),
      }),
      move([r = 0, sm = -1], key) {
        const last = runs[r].sms - 1;
        if (key === "ArrowLeft" || key === "ArrowRight") {
          const next = sm < 0 ? 0 : sm + (key === "ArrowLeft" ? -1 : 1);
          return next < 0 || next > last ? null : [r, next];
        }
        const other = r + (key === "ArrowUp" ? -1 : 1);
        return other in runs ? [other, Math.min(Math.max(0, sm), runs[other].sms - 1)] : null;
      },
      mount({ signal, still, select, point }) {
        const canvas = h("canvas", { class: "pl-canvas", "aria-hidden": "true" });
        const whole = h("canvas", {}); // all of time, drawn once for a width and a theme
        const el = h("div", { class: "pl-picture" }, canvas);
        const marks = legendMarks(runs);
        const bill = comparison({ title: "ledger so far", names: runs.map((run) => run.name), rows: counters(runs, time, header.tally, hidden) });
        const most = Math.max(...runs.map((run) => run.last.length));
        const resident = still || hidden ? null : curves({
          title: "blocks resident", unit: "frame", cycles: header.frames, most, signal,
          lines: runs.map((run) => ({ name: run.name, values: Array.from({ length: header.frames }, (_, f) => run.tally[f * header.tally.length]) })),
          summary: `Blocks resident at each frame, at most ${number(most)}.`,
        });
        let at = layout(runs, 720);
        let drawn = "";
        canvas.addEventListener("pointermove", (event) => point(under(at, runs, event.offsetX, event.offsetY)), { signal });
        canvas.addEventListener("pointerleave", () => point(null), { signal });
        canvas.addEventListener("click", (event) => {
          const place = under(at, runs, event.offsetX, event.offsetY);
          if (place) select(place);
        }, { signal });
        return {
          el,
          legend: legend(marks.entries),
          panels: [bill.el, ...(resident ? [resident.el] : [])],
          resize(wide) {
            at = layout(runs, wide);
            drawn = "";
          },
          show({ cycle: f, selected, theme }) {
            const palette = paletteOf(canvas);
            if (drawn !== theme) {
              drawTime(surface(whole, at.width, at.height), at, runs, palette);
              drawn = theme;
              marks.show(palette);
            }
            const to = surface(canvas, at.width, at.height);
            to.drawImage(whole, 0, 0, at.width, at.height);
            drawNow(to, at, runs, palette, time[f], { hidden, selected: still ? [] : selected });
            set(canvas, { "data-cycle": time[f], "data-label": at.label, "data-plot": at.plot, "data-blocks": JSON.stringify(at.blocks) });
            if (still) return;
            bill.show(f);
            resident?.show(f);
          },
        };
      },
    };
  }),
};
