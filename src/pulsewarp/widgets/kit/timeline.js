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

/**
 * Cycles between two labelled ticks, a round number of them.
 * @param {number} cell width of a cycle @param {number} [room] what a label takes, with air around it
 * @returns {number}
 */
export function tickStep(cell, room = 42) {
  let step = 1;
  for (let i = 0; step * cell < room; i++) step = [1, 2, 5][i % 3] * 10 ** Math.floor(i / 3);
  return step;
}
