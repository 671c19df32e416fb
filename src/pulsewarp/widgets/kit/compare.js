// Several machines beside each other on one clock: their counters as a table, their curves in one chart. Both show
// numbers they are given.
//
//   const bill = comparison({ title: "counters so far", names: ["ws", "os"], rows: [{ label, text: (i, t) => "12", help }] });
//   const busy = curves({ title, lines: [{ name: "ws", values }, ...], most: 16, cycles, summary, signal });
//   panels: [bill.el, busy.el]   and in show(frame):  bill.show(frame.cycle); busy.show(frame.cycle);

import { h, s, set, uniquePrefix, write } from "./dom.js";
import { width } from "./theme.js";

/**
 * @param {{title: string, names: string[], rows: {label: string, text: (machine: number, t: number) => string, help?: string}[]}} options
 *   `help` is a sentence that says what the row counts
 */
export function comparison({ title, names, rows }) {
  const cells = rows.map(() => names.map(() => h("td", {})));
  const el = h("section", { class: "pw-panel" }, h("div", { class: "pw-compared" },
    h("table", { class: "pw-compare" }, h("caption", {}, title),
      h("thead", {}, h("tr", {}, h("td", {}), ...names.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, ...rows.map(({ label, help }, i) => h("tr", {}, h("th", { scope: "row", title: help }, label), ...cells[i]))))));
  return {
    el,
    /** @param {number} t */
    show: (t) => rows.forEach((row, i) => cells[i].forEach((cell, machine) => write(cell, row.text(machine, t)))),
  };
}

const STROKES = 3;

/**
 * The outline of a curve that keeps its value for a cycle. Where a pixel stands for several cycles it shows their mean.
 * @param {ArrayLike<number>} values @param {(t: number) => number} x @param {(v: number) => number} y
 */
export function steps(values, x, y) {
  const every = Math.max(1, Math.floor(1 / Math.max(1e-9, 2 * (x(1) - x(0)))));
  let path = `M${x(0)} ${y(0)}`;
  for (let t = 0; t < values.length; t += every) {
    const end = Math.min(t + every, values.length);
    let sum = 0;
    for (let u = t; u < end; u++) sum += values[u];
    path += `V${y(sum / (end - t)).toFixed(2)}H${x(end).toFixed(2)}`;
  }
  return `${path}V${y(0)}`;
}

/**
 * Up to three curves in one chart, told apart by their strokes; what lies after the playhead is faint.
 * @param {{title: string, lines: {name: string, values: ArrayLike<number>}[], most: number, cycles: number, unit?: string,
 *   summary: string, signal: AbortSignal}} options `most`: the top of the scale; `cycles`: the length of the axis
 */
export function curves({ title, lines, most, cycles, unit = "cycle", summary, signal }) {
  if (lines.length > STROKES) throw new Error(`${lines.length} curves cannot be told apart; at most ${STROKES} are drawn.`);
  const HEIGHT = 84;
  const top = 16;
  const clip = `${uniquePrefix()}-past`;
  const edge = s("rect", { y: 0, height: HEIGHT + 20 });
  const now = h("b", { class: "pw-now" });
  const past = lines.map((_, i) => s("path", { class: `pw-line pw-line-${i}` }));
  const rest = lines.map((_, i) => s("path", { class: `pw-line pw-line-${i}` }));
  const playhead = s("path", { class: "pw-playhead" });
  const axis = s("path", { class: "pw-axis" });
  const scale = s("text", { class: "pw-scale", x: 0, y: 10 }, most.toLocaleString("en-US"));
  const first = s("text", { class: "pw-scale", x: 0, y: HEIGHT + 32 }, "0");
  const last = s("text", { class: "pw-scale", y: HEIGHT + 32, "text-anchor": "end" }, (cycles - 1).toLocaleString("en-US"));
  const middle = s("text", { class: "pw-scale", y: HEIGHT + 32, "text-anchor": "middle" }, unit);
  const svg = s("svg", { class: "pw-chart", height: HEIGHT + 36, role: "img", "aria-label": summary },
    s("defs", {}, s("clipPath", { id: clip }, edge)), axis, scale, first, middle, last,
    s("g", { class: "pw-to-come" }, ...rest), s("g", { "clip-path": `url(#${clip})` }, ...past), playhead);
  const key = h("ul", { class: "pw-key" }, ...lines.map(({ name }, i) => h("li", {},
    s("svg", { width: 30, height: 10, "aria-hidden": "true" }, s("path", { class: `pw-line pw-line-${i}`, d: "M1 5H29" })), name)));
  const el = h("section", { class: "pw-panel" }, h("header", {}, h("h4", {}, title), now), svg, key);

  let wide = 0;
  let cycle = 0;
  /** @param {number} t */
  const x = (t) => (wide * t) / Math.max(1, cycles);
  /** @param {number} v */
  const y = (v) => top + HEIGHT - (HEIGHT * v) / Math.max(1, most);
  const draw = () => {
    if (!wide) return;
    set(edge, { width: x(cycle + 1) });
    const here = x(cycle + 0.5).toFixed(2);
    set(playhead, { d: `M${here} ${top - 6}V${y(0)}` });
  };
  width(svg, signal, (next) => {
    wide = next;
    set(axis, { d: `M0 ${y(0) + 0.5}H${wide}M0 ${y(most) - 0.5}H${wide}` });
    set(last, { x: wide });
    set(middle, { x: wide / 2 });
    lines.forEach(({ values }, i) => [past, rest].forEach((all) => set(all[i], { d: steps(values, x, y) })));
    draw();
  });
  return {
    el,
    /** @param {number} t */
    show(t) {
      cycle = t;
      write(now, `now ${lines.map(({ values }) => values[t] ?? 0).join(", ")} of ${most.toLocaleString("en-US")}`);
      draw();
    },
  };
}
