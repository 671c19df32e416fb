// Side panels: a curve over time with the playhead in it, and a ledger. Both show numbers they are given.
//
//   const curve = chart({ title: "cells working, by cycle", values, most: 16, signal });
//   const bill = ledger({ title: "ledger so far", rows: [{ label, text: (t) => "48 of 160", help }] });
//   panels: [curve.el, bill.el]   and in show(frame):  curve.show(frame.cycle); bill.show(frame.cycle);

import { h, s, set, uniquePrefix, write } from "./dom.js";
import { width } from "./theme.js";
import { number } from "./words.js";


/**
 * @param {{title: string, values: ArrayLike<number>, most: number, unit?: string, summary: string,
 *   signal: AbortSignal, hidden?: boolean, ends?: boolean}} options
 *   `most`: the top of the scale; `hidden`: what lies after the playhead is not drawn; `ends`: the last number is said
 */
export function chart({ title, values, most, unit = "cycle", summary, signal, hidden = true, ends = true }) {
  const HEIGHT = 76;
  const now = h("b", { class: "pw-now" });
  // The whole curve is drawn once; what lies after the playhead is clipped away, which costs nothing a frame.
  const clip = `${uniquePrefix()}-past`;
  const edge = s("rect", { y: 0, height: HEIGHT + 20 });
  const past = s("path", { class: "pw-past", "clip-path": `url(#${clip})` });
  const rest = s("path", { class: "pw-rest" });
  const bar = s("rect", { class: "pw-present" });
  const scale = s("text", { class: "pw-scale", x: 0, y: 10 }, number(most));
  const axis = s("path", { class: "pw-axis" });
  const first = s("text", { class: "pw-scale", x: 0, y: HEIGHT + 32 }, "0");
  const last = s("text", { class: "pw-scale", y: HEIGHT + 32, "text-anchor": "end" }, ends ? number(values.length - 1) : "");
  const middle = s("text", { class: "pw-scale", y: HEIGHT + 32, "text-anchor": "middle" }, unit);
  const svg = s("svg", { class: "pw-chart", height: HEIGHT + 36, role: "img", "aria-label": summary },
    s("defs", {}, s("clipPath", { id: clip }, edge)), axis, scale, first, middle, last, rest, past, bar);
  const el = h("section", { class: "pw-panel" },
    h("header", {}, h("h4", {}, title), now), svg);

  let wide = 0;
  let cycle = 0;
  const top = 16;
  /** @param {number} t */
  const x = (t) => (wide * t) / Math.max(1, values.length);
  /** @param {number} v */
  const y = (v) => top + HEIGHT - (HEIGHT * v) / Math.max(1, most);

  /** @param {number} from @param {number} to @returns {string} the outline of the bars from..to */
  const bars = (from, to) => {
    if (to <= from) return "";
    const step = Math.max(1, Math.floor(values.length / Math.max(1, wide * 2)));
    const gap = x(1) > 5 ? 1 : 0;
    let path = "";
    for (let t = from; t < to; t += step) {
      // Where a pixel stands for several cycles it shows their mean, not one of them.
      let sum = 0;
      for (let u = t; u < Math.min(t + step, to); u++) sum += values[u];
      path += `M${x(t).toFixed(2)} ${y(0)}V${y(sum / (Math.min(t + step, to) - t)).toFixed(2)}H${(x(Math.min(t + step, to)) - gap).toFixed(2)}V${y(0)}z`;
    }
    return path;
  };

  const draw = () => {
    if (!wide) return;
    set(edge, { width: x(cycle) });
    const bin = Math.max(x(1) - (x(1) > 5 ? 1 : 0), 2);
    set(bar, { x: x(cycle), width: bin, y: Math.min(y(values[cycle]), y(0) - 1), height: Math.max(1, y(0) - y(values[cycle])) });
  };
  width(svg, signal, (next) => {
    wide = next;
    set(axis, { d: `M0 ${y(0) + 0.5}H${wide}M0 ${y(most) - 0.5}H${wide}` });
    set(last, { x: wide });
    set(middle, { x: wide / 2 });
    set(past, { d: bars(0, values.length) });
    if (!hidden) set(rest, { d: bars(0, values.length) });
    draw();
  });
  return {
    el,
    /** @param {number} t @param {string} [text] beside the title */
    show(t, text) {
      cycle = t;
      write(now, text ?? `now ${number(values[t])} of ${number(most)}`);
      draw();
    },
  };
}

/**
 * @param {{title: string, rows: {label: string, text: (t: number) => string, help?: string}[]}} options
 *   `help` is a sentence that says what the row counts
 */
export function ledger({ title, rows }) {
  const cells = rows.map(() => h("dd", {}));
  const el = h("section", { class: "pw-panel" }, h("header", {}, h("h4", {}, title)),
    h("dl", { class: "pw-ledger" }, ...rows.flatMap(({ label, help }, i) => [h("dt", { title: help }, label), cells[i]])));
  return {
    el,
    /** @param {number} t */
    show: (t) => rows.forEach((row, i) => write(cells[i], row.text(t))),
  };
}

/**
 * A legend: a mark and its meaning, side by side.
 * @param {{mark: Node, text: string}[]} entries
 * @returns {HTMLElement}
 */
export function legend(entries) {
  return h("ul", { class: "pw-legend", "aria-label": "Legend" },
    ...entries.map(({ mark, text }) => h("li", {}, mark, h("span", {}, text))));
}
