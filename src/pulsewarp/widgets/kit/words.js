// Words of a sentence: a number as it is read, a noun with its count, a sentence's first letter, a matrix's name.

import { h } from "./dom.js";

/** A count, with commas between the thousands. @param {number} x @returns {string} */
export const number = (x) => x.toLocaleString("en-US");

/** A noun with its count: "1 warp", "2,000 warps". @param {number} x @param {string} noun @returns {string} */
export const counted = (x, noun) => `${number(x)} ${noun}${x === 1 ? "" : "s"}`;

/** A text whose first letter is a capital; an empty one stays empty. @param {string} text @returns {string} */
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** A sentence whose parts of matrices, such as "C[3,5]", have their matrix's colour. @param {string} sentence @returns {(Node | string)[]} */
export const inColour = (sentence) => sentence.split(/([ABC]\[[^\]]*\])/).filter(Boolean).map((part) =>
  (/^[ABC]\[/.test(part) ? h("b", { class: `pw-name-${part[0].toLowerCase()}` }, part) : part));
