// Keys, heard on the scene's root only. `stage` wires this; a scene adds cell movement through its
// picture (see `Scene.move` in stage.js).
//
//   space play or pause · left, right step · shift+left, shift+right chapter · Home, End · "." and ","
//   step also while the picture's cell cursor has the arrows.

/** @typedef {import("./clock.js").Clock} Clock */

export const KEYS = [
  ["Space", "play or pause"],
  ["← →", "one cycle back or on"],
  ["Shift + ← →", "the chapter before or after"],
  ["Home, End", "first or last cycle"],
  ["Tab into the picture, then ← ↑ → ↓", "move the cursor in it; , and . still step"],
  ["Escape", "end the selection"],
];

/**
 * @param {{root: HTMLElement, picture: HTMLElement | null, time: Clock, signal: AbortSignal,
 *   toggle: () => void, clear: () => boolean, move?: (key: string) => boolean}} options
 *   `move` answers an arrow key inside the picture, `clear` ends a selection; true when there was something to do
 */
export function keyboard({ root, picture, time, toggle, clear, move, signal }) {
  root.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || !(event.target instanceof Element)) return;
    if (answer(event, event.target)) {
      event.preventDefault();
      event.stopPropagation(); // the notebook around us has its own meaning for these keys
    }
  }, { signal });

  /** @param {KeyboardEvent} event @param {Element} target @returns {boolean} */
  function answer(event, target) {
    if (target.closest("select, textarea, input:not([type=range])")) return false;
    const { key } = event;
    if (key === " ") {
      if (target.closest("button, summary, a, input")) return false;
      toggle();
      return true;
    }
    if (key === "Escape") return clear();
    if (picture?.contains(target) && move && !event.shiftKey && key.startsWith("Arrow")) return move(key);
    if (key === "ArrowLeft" || key === "ArrowRight") {
      const by = key === "ArrowLeft" ? -1 : 1;
      if (event.shiftKey) time.chapter(by);
      else time.step(by);
      return true;
    }
    if (key === "," || key === ".") time.step(key === "," ? -1 : 1);
    else if (key === "Home") time.home();
    else if (key === "End") time.end();
    else return false;
    return true;
  }
}
