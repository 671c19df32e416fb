// A picture whose columns are cycles: which stretch of a long run it shows, and where its axis has numbers.

/**
 * The first cycle in the picture. It moves in jumps of half a window, so that between jumps only the playhead moves;
 * it depends on the cycle alone, so that a frame looks the same however one came to it.
 * @param {{count: number, cycles: number}} at how many cycles the picture holds, and how many there are
 * @param {number} cycle the present one
 * @returns {number}
 */
export function firstCycle({ count, cycles }, cycle) {
  const half = Math.max(1, Math.floor(count / 2));
  const first = Math.floor(cycle / half) * half - Math.floor(half / 2);
  return Math.max(0, Math.min(first, cycles - count));
}

/** @param {number} cell width of a cycle @returns {number} cycles between two labelled ticks */
export function tickStep(cell) {
  return [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].find((step) => step * cell >= 42) ?? 1000;
}
