// Painting a pattern: 32 lanes across, elements downward, one square a lane. What is painted is written into a text
// field as a list of addresses, which Python reads as it reads anything typed there.

import { h, s, set, write } from "./dom.js";

const LANES = 32;
const ELEMENTS = 32;
const CELL = 10; // in the drawing's own units; it is scaled to the width there is

/**
 * The element of each lane that a list of addresses names; null for a lane that is off, undefined where it is no list.
 * @param {string} text @param {number} scale bytes of an element
 * @returns {(number | null)[] | undefined}
 */
export function readLanes(text, scale) {
  const parts = text.replace(/[[\]]/g, " ").split(",").map((part) => part.trim());
  if (parts.length !== LANES || !parts.every((part) => /^(\d+|-|None)$/.test(part))) return undefined;
  return parts.map((part) => (/^\d/.test(part) ? Math.floor(Number(part) / scale) : null));
}

/**
 * @param {{input: HTMLInputElement, scale: () => number, signal: AbortSignal}} options
 * @returns {HTMLElement}
 */
export function painter({ input, scale, signal }) {
  /** @type {(number | null)[]} */
  let lanes = Array.from({ length: LANES }, (_, l) => l);
  let cursor = 0;
  const marks = lanes.map(() => s("rect", { class: "pw-painted", width: CELL - 1, height: CELL - 1 }));
  const focus = s("rect", { class: "pw-brush", width: CELL, height: CELL * ELEMENTS, y: 0 });
  let grid = "";
  for (let i = 0; i <= LANES; i += 4) grid += `M${i * CELL} 0V${ELEMENTS * CELL}`;
  for (let i = 0; i <= ELEMENTS; i += 4) grid += `M0 ${i * CELL}H${LANES * CELL}`;
  const said = h("p", { class: "pw-note", "aria-live": "polite" });
  const svg = s("svg", {
    class: "pw-paint", viewBox: `-1 -1 ${LANES * CELL + 2} ${ELEMENTS * CELL + 2}`, tabindex: 0, role: "application",
    "aria-label": "Lanes across, elements of memory downward. Arrow left and right choose a lane, up and down move its element, Delete switches it off.",
  }, s("path", { class: "pw-squares", d: grid }), focus, ...marks);

  function draw() {
    lanes.forEach((element, l) => set(marks[l], {
      x: l * CELL + 0.5, y: (element ?? 0) * CELL + 0.5, visibility: element === null || element >= ELEMENTS ? "hidden" : "visible",
    }));
    set(focus, { x: cursor * CELL });
    const now = lanes[cursor];
    write(said, `Lane ${cursor} ${now === null ? "is off" : `asks for element ${now}, byte ${now * scale()}`}.`);
  }
  /** @param {number} lane @param {number | null} element */
  function paint(lane, element) {
    cursor = Math.max(0, Math.min(LANES - 1, lane));
    lanes[cursor] = element === null ? null : Math.max(0, Math.min(ELEMENTS - 1, element));
    input.value = lanes.map((one) => (one === null ? "-" : one * scale())).join(", ");
    draw();
  }
  function reread() {
    lanes = readLanes(input.value, scale()) ?? lanes;
    draw();
  }

  /** @param {PointerEvent} event */
  const under = (event) => {
    const box = svg.getBoundingClientRect();
    return [Math.floor(((event.clientX - box.left) / box.width) * LANES), Math.floor(((event.clientY - box.top) / box.height) * ELEMENTS)];
  };
  svg.addEventListener("pointerdown", (event) => {
    if (input.matches(":disabled")) return;
    svg.setPointerCapture(event.pointerId);
    const [lane, element] = under(event);
    paint(lane, lanes[lane] === element ? null : element); // a painted square is taken away again
  }, { signal });
  svg.addEventListener("pointermove", (event) => {
    if (!svg.hasPointerCapture(event.pointerId)) return;
    const [lane, element] = under(event);
    if (lane !== cursor || lanes[cursor] !== null) paint(lane, element);
  }, { signal });
  svg.addEventListener("keydown", (event) => {
    if (input.matches(":disabled")) return;
    const now = lanes[cursor];
    const moves = /** @type {Record<string, () => void>} */ ({
      ArrowLeft: () => { cursor = Math.max(0, cursor - 1); draw(); },
      ArrowRight: () => { cursor = Math.min(LANES - 1, cursor + 1); draw(); },
      ArrowUp: () => paint(cursor, (now ?? 1) - 1),
      ArrowDown: () => paint(cursor, (now ?? -1) + 1),
      Delete: () => paint(cursor, null),
      Backspace: () => paint(cursor, null),
    });
    if (!moves[event.key]) return;
    event.preventDefault();
    moves[event.key]();
  }, { signal });
  const fold = h("details", { class: "pw-paints" }, h("summary", {}, "Paint the lanes instead"),
    h("p", { class: "pw-note" }, "Lanes 0 to 31 across, elements 0 to 31 of memory downward: click or drag; click a square again, or press Delete, to switch its lane off."), svg, said);
  fold.addEventListener("toggle", reread, { signal });
  draw();
  return fold;
}
