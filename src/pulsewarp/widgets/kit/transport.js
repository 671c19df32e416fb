// Buttons, scrub bar with the chapters as marks, speed. `stage` makes one; a scene only names chapters.

import { h, s, set, write } from "./dom.js";
import { width } from "./theme.js";

/** @typedef {import("./clock.js").Clock} Clock */
/** @typedef {{cycle: number, label: string}} Chapter */

/** Cycles a second a reader can choose; a scene's own rate is added when it is none of these. */
export const RATES = [0.5, 1, 2, 4, 8, 15, 30, 60];

const GLYPHS = {
  home: "M3 3v10M13 3.5 6 8l7 4.5z",
  back: "M11 3.5 4 8l7 4.5z",
  play: "M4.5 3 13 8l-8.5 5z",
  pause: "M5 3v10M11 3v10",
  on: "M5 3.5 12 8l-7 4.5z",
  end: "M13 3v10M3 3.5 10 8l-7 4.5z",
};

/** @param {keyof typeof GLYPHS} name */
function glyph(name) {
  return s("svg", { viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true", class: "pw-glyph" },
    s("path", { d: GLYPHS[name] }));
}

/**
 * Which row each label goes to so that no two touch and no stem, which comes down from the bar to its label,
 * crosses another; -1 where no row has room.
 * @param {{left: number, width: number, stem?: number}[]} labels in order of their stems; a stem left out is at `left`
 * @param {number} rows
 * @param {number} room the width they share
 * @returns {number[]}
 */
export function labelRows(labels, rows, room) {
  const row = new Array(labels.length).fill(-1);
  const right = labels.map((label) => label.left + label.width);
  const stem = labels.map((label) => label.stem ?? label.left);
  /** @param {number} i @param {number} j @returns {boolean} whether the stem of j goes through the text of i */
  const crosses = (i, j) => labels[i].left < stem[j] && stem[j] < right[i];
  /** @param {number} i @param {number} r @param {number} j */
  const apart = (i, r, j) => row[j] < 0
    || (row[j] > r && !crosses(i, j))
    || (row[j] < r && !crosses(j, i))
    || (row[j] === r && (right[i] + 8 <= labels[j].left || right[j] + 8 <= labels[i].left));
  // Those left of their stems from the left, then the others from the right: the next one's stem is outside.
  const numbers = labels.map((_, i) => i);
  const leftward = numbers.filter((i) => labels[i].left < stem[i]);
  const rightward = numbers.filter((i) => labels[i].left >= stem[i]).reverse();
  for (const i of [...leftward, ...rightward]) {
    if (right[i] > room) continue;
    const free = Array.from({ length: rows }, (_, r) => r).find((r) => labels.every((_, j) => j === i || apart(i, r, j)));
    row[i] = free ?? -1;
  }
  return row;
}

/**
 * @param {{time: Clock, chapters: Chapter[], unit: string, valueText: (cycle: number) => string,
 *   toggle: () => void, signal: AbortSignal}} options
 */
export function transport({ time, chapters, unit, valueText, toggle, signal }) {
  /** @param {keyof typeof GLYPHS} name @param {string} label @param {() => void} act */
  const button = (name, label, act) => {
    const node = h("button", { type: "button", class: "pw-button pw-icon", "aria-label": label, title: label }, glyph(name));
    node.addEventListener("click", act, { signal });
    return node;
  };
  const playGlyph = h("span", { class: "pw-slot" });
  const playWord = h("span", {});
  const play = h("button", { type: "button", class: "pw-button pw-play" }, playGlyph, playWord);
  play.addEventListener("click", toggle, { signal });

  const scrub = h("input", {
    type: "range", class: "pw-scrub", min: 0, max: time.last, step: 1, "aria-label": unit,
  });
  scrub.addEventListener("input", () => time.seek(Number(scrub.value)), { signal });
  const marks = h("div", { class: "pw-chapters" });
  const ticks = chapters.map(() => marks.appendChild(h("i", { class: "pw-tick", "aria-hidden": "true" })));
  const labels = chapters.map(({ cycle, label }) => {
    const node = h("button", { type: "button", class: "pw-chapter", title: `${label}: from ${unit} ${cycle}` }, label);
    node.addEventListener("click", () => time.seek(cycle), { signal });
    marks.append(node);
    return node;
  });

  const { rate } = time.now();
  const rates = RATES.includes(rate) ? RATES : [...RATES, rate].sort((a, b) => a - b);
  const speed = h("select", { class: "pw-select", "aria-label": "Speed" },
    ...rates.map((each) => h("option", { value: each, selected: each === rate }, `${each === 0.5 ? "½" : each} ${unit}${each > 1 ? "s" : ""}/s`)));
  speed.addEventListener("change", () => time.setRate(Number(speed.value)), { signal });
  const stops = h("input", { type: "checkbox" });
  stops.addEventListener("change", () => time.setStops(stops.checked), { signal });

  const el = h("div", { class: "pw-transport" },
    h("div", { class: "pw-buttons", role: "group", "aria-label": "Playback" },
      button("home", `First ${unit}`, time.home), button("back", `One ${unit} back`, () => time.step(-1)), play,
      button("on", `One ${unit} on`, () => time.step(1)), button("end", `Last ${unit}`, time.end)),
    h("div", { class: "pw-track" }, scrub, marks),
    h("div", { class: "pw-pace" }, speed,
      chapters.length > 1 && h("label", { class: "pw-stops" }, stops, "stop at chapters")));

  const THUMB = 18; // as in kit.css: the thumb's centre travels the bar less one thumb
  /** @param {number} room */
  const arrange = (room) => {
    const boxes = labels.map((node, i) => {
      const stem = THUMB / 2 + (room - THUMB) * (time.last ? chapters[i].cycle / time.last : 0);
      const wide = node.scrollWidth;
      // At the right edge a label stands left of its stem.
      return { stem, width: wide, left: stem + wide > room + 8 ? stem - wide : stem };
    });
    const most = Number(getComputedStyle(marks).getPropertyValue("--label-rows")) || 3;
    const staggered = labelRows(boxes, most, room + 8);
    const single = labelRows(boxes, 1, room + 8);
    const placed = (/** @type {number[]} */ each) => each.filter((row) => row >= 0).length;
    // Of a few chapters every label counts. Of many that do not all fit, one even row says more than a zigzag.
    const even = placed(single) >= placed(staggered) || (labels.length > 5 && staggered.includes(-1));
    const rows = even ? single : staggered;
    labels.forEach((node, i) => {
      ticks[i].style.left = `${boxes[i].stem}px`;
      // Held at its stem, so that the present one, which is bold, grows away from the edge.
      const leftward = boxes[i].left < boxes[i].stem;
      node.style.left = leftward ? "auto" : `${boxes[i].left}px`;
      node.style.right = leftward ? `${room - boxes[i].stem}px` : "auto";
      node.style.setProperty("--row", String(Math.max(0, rows[i])));
      node.classList.toggle("pw-unlabelled", rows[i] < 0);
      node.classList.toggle("pw-leftward", leftward);
    });
    marks.style.setProperty("--rows", String(Math.max(1, ...rows.map((row) => row + 1))));
  };
  width(marks, signal, arrange);

  return {
    el,
    /** What the play button does now, in a word or two. */
    playWord: "Play",
    /** @param {import("./clock.js").Moment} moment */
    show({ cycle, playing }) {
      scrub.value = String(cycle);
      set(scrub, { "aria-valuetext": valueText(cycle), style: `--done-share:${time.last ? cycle / time.last : 1}` });
      if (playWord.textContent !== this.playWord) {
        write(playWord, this.playWord);
        playGlyph.replaceChildren(glyph(playing ? "pause" : "play"));
      }
      let present = -1;
      chapters.forEach((chapter, i) => {
        if (chapter.cycle <= cycle) present = i;
      });
      labels.forEach((node, i) => set(node, { "aria-current": i === present ? "step" : null }));
    },
  };
}
