// Words of a sentence: a number as it is read, a noun with its count, a sentence's first letter.

/** A count, with commas between the thousands. @param {number} x @returns {string} */
export const number = (x) => x.toLocaleString("en-US");

/** A noun with its count: "1 warp", "2,000 warps". @param {number} x @param {string} noun @returns {string} */
export const counted = (x, noun) => `${number(x)} ${noun}${x === 1 ? "" : "s"}`;

/** A text whose first letter is a capital; an empty one stays empty. @param {string} text @returns {string} */
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
