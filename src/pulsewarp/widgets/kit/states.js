// The states of a warp, painted the same in every scene: colours, textures, legend, and the canvas they are painted on.
//
//   const palette = paletteOf(canvas, frame.theme), to = surface(canvas, wide, high);
//   paint(to, palette, "memory", x, y, width, height);
//   const marks = legendMarks(new Set(["issues", "memory"]), lanes);   legend(marks.entries); marks.show(palette);

import { h } from "./dom.js";

/** @typedef {Record<"paper" | "panel" | "ink" | "muted" | "hairline" | "now" | "ready" | "memory" | "unit" | "result" | "barrier" | "limit", string>} Palette */

/** Colours of waits: none of them is an operand's, and each goes with a texture of its own. */
export const WAITS = {
  light: { memory: "#4a6072", limit: "#4a6072", unit: "#5f6d00", result: "#a62a84", barrier: "#b3202c" },
  dark: { memory: "#9db2c4", limit: "#9db2c4", unit: "#b9c64a", result: "#e58acb", barrier: "#ff8f8a" },
};

/** What the legend says of each state, in its order; "finished" is blank and says so. */
export const LEGEND = [
  ["issues", "issues an instruction"],
  ["ready", "ready, not picked"],
  ["pending", "has its operands, but is outside the active pool"],
  ["unit", "waits for a busy unit"],
  ["memory", "waits for memory"],
  ["limit", "waits: too many loads in flight"],
  ["result", "waits for a result"],
  ["barrier", "waits at the barrier"],
  ["finished", "finished"],
];

/**
 * Paint one stretch of a state. The same function paints picture, legend and ledger, so they cannot disagree.
 * @param {CanvasRenderingContext2D} to
 * @param {Palette} palette
 * @param {string} state
 * @param {number} x
 * @param {number} y
 * @param {number} wide
 * @param {number} high
 * @param {number} [lanes] active lanes of an issued instruction: its bar is filled that far
 */
export function paint(to, palette, state, x, y, wide, high, lanes = 32) {
  if (state === "finished") return;
  if (state === "issues") {
    to.fillStyle = palette.ink;
    const filled = Math.max(2, (high * lanes) / 32);
    to.fillRect(x, y + high - filled, wide, filled);
    if (lanes < 32) outline(to, palette.ink, x, y, wide, high, 1);
    return;
  }
  if (state === "ready") {
    outline(to, palette.ready, x, y, wide, high, Math.min(2, wide / 4));
    return;
  }
  if (state === "pending") {
    to.save();
    to.setLineDash([2, 2]);
    outline(to, palette.ready, x, y, wide, high, 1);
    to.restore();
    return;
  }
  const colour = palette[/** @type {keyof Palette} */ (state)];
  to.save();
  to.beginPath();
  to.rect(x, y, wide, high);
  to.clip();
  to.fillStyle = colour;
  to.globalAlpha = 0.1;
  to.fillRect(x, y, wide, high);
  to.globalAlpha = 1;
  to.strokeStyle = colour;
  to.lineWidth = 1.2;
  to.beginPath();
  TEXTURES[state](to, x, y, wide, high);
  to.stroke();
  to.restore();
}

/** @param {CanvasRenderingContext2D} to @param {string} colour @param {number} x @param {number} y @param {number} wide @param {number} high @param {number} line */
export function outline(to, colour, x, y, wide, high, line) {
  to.strokeStyle = colour;
  to.lineWidth = line;
  to.strokeRect(x + line / 2, y + line / 2, wide - line, high - line);
}

// Textures lie on a grid of the whole picture, so that a stretch looks the same wherever it is cut.
/** @type {Record<string, (to: CanvasRenderingContext2D, x: number, y: number, wide: number, high: number) => void>} */
const TEXTURES = {
  memory: (to, x, y, wide, high) => diagonals(to, x, y, wide, high, 1, 6),
  unit: (to, x, y, wide, high) => diagonals(to, x, y, wide, high, -1, 6),
  limit(to, x, y, wide, high) {
    to.lineWidth = 1;
    diagonals(to, x, y, wide, high, 1, 8);
    diagonals(to, x, y, wide, high, -1, 8);
  },
  barrier(to, x, y, wide, high) {
    for (let i = Math.ceil((x - 2) / 5) * 5 + 2; i < x + wide; i += 5) {
      to.moveTo(i, y);
      to.lineTo(i, y + high);
    }
  },
  result(to, x, y, wide, high) {
    for (let j = 0; j * 5 + 3 < high; j++) {
      for (let i = Math.ceil((x - 2.5) / 5) * 5 + 2.5; i < x + wide; i += 5) {
        to.moveTo(i - 0.8, y + 3 + j * 5);
        to.lineTo(i + 0.8, y + 3 + j * 5);
      }
    }
    to.lineWidth = 1.8;
  },
};

/** @param {CanvasRenderingContext2D} to @param {number} x @param {number} y @param {number} wide @param {number} high @param {1 | -1} slope @param {number} every */
function diagonals(to, x, y, wide, high, slope, every) {
  const from = Math.floor((x - high) / every) * every;
  for (let i = from; i < x + wide + high; i += every) {
    to.moveTo(slope > 0 ? i : i + high, y + high);
    to.lineTo(slope > 0 ? i + high : i, y);
  }
}

/**
 * A canvas ready to draw on in CSS pixels, sharp on any screen.
 * @param {HTMLCanvasElement} canvas
 * @param {number} wide
 * @param {number} high
 * @returns {CanvasRenderingContext2D}
 */
export function surface(canvas, wide, high) {
  const scale = window.devicePixelRatio || 1;
  const [w, hi] = [Math.round(wide * scale), Math.round(high * scale)];
  if (canvas.width !== w || canvas.height !== hi) {
    canvas.width = w;
    canvas.height = hi;
    canvas.style.width = `${wide}px`;
    canvas.style.height = `${high}px`;
  }
  const to = canvas.getContext("2d");
  if (!to) throw new Error("This browser gives no 2D canvas.");
  to.setTransform(scale, 0, 0, scale, 0, 0);
  return to;
}

/** @param {Element} node @param {string} theme @returns {Palette} */
export function paletteOf(node, theme) {
  const style = getComputedStyle(node);
  /** @param {string} name */
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    paper: colour("paper"), panel: colour("panel"), ink: colour("ink"), muted: colour("muted"),
    hairline: colour("hair"), now: colour("orange"), ready: colour("green"),
    ...WAITS[theme === "dark" ? "dark" : "light"],
  };
}

/** @param {Set<string>} present @param {ArrayLike<number>} lanes */
export function legendMarks(present, lanes) {
  const partly = Array.prototype.some.call(lanes, (count) => count > 0 && count < 32);
  const chosen = LEGEND.filter(([state]) => present.has(state));
  const canvases = chosen.map(([state]) => h("canvas", { class: "pw-swatch", "data-state": state, "aria-hidden": "true" }));
  return {
    entries: chosen.map(([state, text], i) => ({
      mark: canvases[i],
      text: state === "issues" && partly ? `${text} (filled: the share of 32 lanes that are on)` : text,
    })),
    /** @param {Palette} palette */
    show(palette) {
      chosen.forEach(([state], i) => {
        const to = surface(canvases[i], 22, 18);
        to.clearRect(0, 0, 22, 18);
        const alone = state === "issues" || state === "ready";
        paint(to, palette, state, alone ? 6 : 1, 1, alone ? 10 : 20, 16);
        if (state === "finished") outline(to, palette.hairline, 1, 1, 20, 16, 1);
      });
    },
  };
}
