// Break it: a sound and a broken machine on one clock. What differs, what is wrong and which cells explain it was
// computed in Python and is looked up here; the words say where and why, from the indices of the values that meet.
// Three parts in this order: the two runs and the words about them, drawing, wiring.
//
// Letters: t cycle, r array row, c array column, m n k the product's indices.

import { chapters, describe, EMPTY, exact, label, layout, legendOf, makeArray, mark, MONO11, part, readRun, REGISTERS, RULES, short, textWidths } from "./kit/array.js";
import { comparison } from "./kit/compare.js";
import { h, s, set, write } from "./kit/dom.js";
import { chart, legend } from "./kit/panels.js";
import { stage } from "./kit/stage.js";
import { counted } from "./kit/words.js";

/** @typedef {import("./kit/array.js").Run} Run */
/** @typedef {import("./kit/array.js").Cell} Cell */
/** @typedef {import("./kit/array.js").Letter} Letter */
/** @typedef {import("./kit/array.js").Register} Register */
/** @typedef {ReturnType<typeof readPair>} Pair */
/** @typedef {{r: number, c: number, rank: number, says: string}} Telling */
/** @typedef {{solved: boolean, tried: Set<string>}} Game what the reader has found out so far; one for each view */

const ACTIVE = 1 << REGISTERS.length;

// ---------------------------------------------------------------------------------------------- the two runs

/**
 * One of the two machines: it shows nothing once it has ended, and what leaves it is what was in its registers.
 * @param {import("./kit/wire.js").Packed} packed @param {string} name @param {number} T
 */
function readMachine(packed, name, T) {
  const run = readRun(part(packed, name));
  const { R, C, columns } = run;
  return {
    ...run, T, ends: run.T,
    /** @param {number} t @param {number} r @param {number} c */
    cell: (t, r, c) => (t >= 0 && t < run.T ? run.cell(t, r, c) : EMPTY),
    /** @param {number} t */
    phase: (t) => (t < run.T ? run.phase(t) : "ended"),
    /** @param {number} t @param {number} m @param {number} n */
    leaving(t, m, n) {
      const col = (run.exits.get(t) ?? []).find((exit) => exit.m === m && exit.n === n)?.col ?? 0;
      // A stationary sum leaves in the cycle that shifts it out, so it was in the bottom row one cycle before.
      return run.loads ? columns.down[(t * R + R - 1) * C + col] : columns.held[((t - 1) * R + R - 1) * C + col];
    },
  };
}

/** @param {import("./kit/wire.js").Packed} packed */
export function readPair(packed) {
  const { header, columns } = packed;
  const T = /** @type {number} */ (header.cycles);
  const [sound, broken] = ["sound", "broken"].map((name) => readMachine(packed, name, T));
  const { R, C, M, N } = sound;
  const ordered = Float64Array.from(columns.told).sort();
  return {
    header, columns, sound, broken, R, C, M, N, T,
    fault: /** @type {{kind: string, says: string, row: number | null, col: number | null}} */ (header.fault),
    puzzle: /** @type {{near: number[][], fits: number[][], clues: string[], verdicts: string[]} | null} */ (header.puzzle),
    /** Which registers differ, one bit each. @param {number} t @param {number} r @param {number} c */
    differ: (t, r, c) => columns.differ[(t * R + r) * C + c],
    /** @param {number} m @param {number} n */
    wrong: (m, n) => columns.wrong[m * N + n] === 1,
    /** How many results are out, or should be. @param {number} t */
    left: (t) => ordered.reduce((sum, when) => sum + Number(when <= t), 0),
    /** What `telling` has found, by cycle. @type {Map<number, Telling | null>} */
    told: new Map(),
  };
}

// ---------------------------------------------------------------------------------------------- words

const WORDS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight"];
/** @param {number} count @param {string} noun */
const inWords = (count, noun) => `${WORDS[count] ?? count} ${noun}${count === 1 ? "" : "s"}`;

/** The three indices of what a register holds. @param {Run} run @param {Register} register @param {Cell} cell @returns {Record<string, number>} */
function indices(run, register, cell) {
  const letter = run.roles[register];
  const [first, second] = run.element(letter, cell[`${register}Index`]);
  const [one, other] = /** @type {Record<Letter, [string, string]>} */ ({ a: ["m", "k"], b: ["k", "n"], c: ["m", "n"] })[letter];
  return { [one]: first, [other]: second };
}

/** The first cycle, looked for outwards from t, in which a run has an element in a cell's register; -1 for never.
 * @param {Run} run @param {number} t @param {number} r @param {number} c @param {Register} register @param {number} index */
function whenIn(run, t, r, c, register, index) {
  for (let by = 1; by < run.T; by++) {
    for (const u of [t - by, t + by]) if (u >= 0 && u < run.T && run.cell(u, r, c)[`${register}Index`] === index) return u;
  }
  return -1;
}

/**
 * Why a cell of the broken machine differs in a cycle: the sentence, and how near it is to the cause. 0: here the rule is
 * broken, or what must not meet meets; 1: a value is where or when it should not be; 2: a wrong sum goes on.
 * @param {Pair} pair @param {number} t @param {number} r @param {number} c
 * @returns {{rank: number, says: string}}
 */
export function explain(pair, t, r, c) {
  const { sound, broken, fault } = pair;
  const [was, now] = [sound.cell(t, r, c), broken.cell(t, r, c)];
  const here = `Cell (${r},${c})`;
  const full = (/** @type {number} */ x) => exact(x, broken.header.accumulator);
  /** @param {Run} run @param {Register} register @param {Cell} cell */
  const name = (run, register, cell) => run.name(run.roles[register], cell[`${register}Index`]);
  const other = /** @type {Register} */ (broken.loads ? "held" : "down");
  const sum = broken.register("c");

  if (t >= broken.ends) {
    const done = broken.folds.length;
    return { rank: 0, says: `The broken machine has ended after ${counted(done, "fold")}; the sound one works on fold ${sound.foldAt(t).index + 1} of ${sound.folds.length}, whose products the broken one never forms.` };
  }
  if (now.active) {
    const operands = `${name(broken, "right", now)} = ${full(now.right)} by ${name(broken, other, now)} = ${full(now[other])}`;
    if (fault.kind === "stuck_cell" && fault.row === r && fault.col === c) {
      return { rank: 0, says: `${here} multiplies ${operands}, but adds 0 instead of ${full(timesOf(broken, now.right, now[other]))}: its product is always 0.` };
    }
    const [one, two] = [indices(broken, "right", now), indices(broken, other, now)];
    const [a, b] = broken.roles.right === "a" ? [one, two] : [two, one];
    if (a.k !== b.k) return { rank: 0, says: `${here} multiplies ${operands}: their k differ, ${a.k} and ${b.k}, so this is a product of no element of C.` };
    if (broken.loads) {
      const wanted = broken.name("c", a.m * broken.N + b.n);
      if (now.downIndex < 0) {
        const row = Array.from({ length: pair.R }, (_, i) => i).find((i) => broken.cell(t, i, c).downIndex === a.m * broken.N + b.n);
        const where = row === undefined ? "is not in the array" : `is in cell (${row},${c})`;
        return { rank: 0, says: `${here} multiplies ${operands}, but no sum has come from above to take the product: that of ${wanted} ${where}.` };
      }
      const at = indices(broken, "down", now);
      if (at.m !== a.m || at.n !== b.n) {
        const line = at.m !== a.m ? `row ${at.m}` : `column ${at.n}`;
        return { rank: 0, says: `${here} multiplies ${operands}, a product for ${wanted}, but the sum from above belongs to ${line}: it is that of ${name(broken, "down", now)}.` };
      }
    }
  }
  for (const register of /** @type {Register[]} */ (["right", "down"])) {
    const index = now[`${register}Index`];
    if (!(pair.differ(t, r, c) & (1 << REGISTERS.indexOf(register))) || index === was[`${register}Index`]) continue;
    const along = register === "right" ? c : r;
    if (index >= 0) {
      const from = Array.from({ length: along }, (_, i) => i).find((i) =>
        (register === "right" ? broken.cell(t - 1, r, i) : broken.cell(t - 1, i, c))[`${register}Index`] === index);
      if (from !== undefined && along - from !== 1) {
        const place = register === "right" ? `(${r},${from})` : `(${from},${c})`;
        return { rank: 0, says: `${name(broken, register, now)} is in cell (${r},${c}); one cycle ago it was in cell ${place}, so it has moved ${inWords(along - from, "cell")} at once.` };
      }
      const due = whenIn(sound, t, r, c, register, index);
      const gap = due < 0 ? "where the sound machine never has it" : `${inWords(Math.abs(t - due), "cycle")} too ${t < due ? "early" : "late"}`;
      return { rank: 1, says: `${name(broken, register, now)} is in cell (${r},${c}), ${gap}.` };
    }
    const comes = whenIn(broken, t, r, c, register, was[`${register}Index`]);
    const gap = comes < 0 ? "and it never comes there" : comes > t ? `where it comes ${inWords(comes - t, "cycle")} late` : `which it left ${inWords(t - comes, "cycle")} ago`;
    return { rank: 1, says: `${name(sound, register, was)} should be in cell (${r},${c}), ${gap}.` };
  }
  if (now.heldIndex !== was.heldIndex) {
    const holds = now.heldIndex < 0 ? "is empty" : `holds ${name(broken, "held", now)}`;
    return { rank: 1, says: `${here} ${holds}; in the sound machine it ${was.heldIndex < 0 ? "is empty" : `holds ${name(sound, "held", was)}`}.` };
  }
  if (now[`${sum}Index`] >= 0) {
    const values = `${name(broken, sum, now)} is now ${full(now[sum])} instead of ${full(was[sum])}`;
    const enters = broken.loads && r === 0 && broken.foldAt(t).row0 > 0;
    const how = enters ? "takes back from an earlier fold a sum that is wrong already" : now.active ? "adds its product to a sum that is wrong already" : "has a sum that is wrong already";
    return { rank: enters ? 1 : 2, says: `${here} ${how}: ${values}.` };
  }
  if (now[`${sum}Index`] < 0 && now[sum] !== 0) return { rank: 2, says: `${here} has a sum of ${full(now[sum])} that belongs to no element of C.` };
  return { rank: 2, says: `${here} does not hold what it holds in the sound machine.` };
}

/** A product in the accumulator's type. @param {Run} run @param {number} x @param {number} y */
function timesOf(run, x, y) {
  const { accumulator } = run.header;
  return accumulator === "float32" ? Math.fround(x * y) : accumulator === "int32" ? Math.imul(x, y) : x * y;
}

/** The cell of a frame that tells most about its cause, or null. @param {Pair} pair @param {number} t */
export function telling(pair, t) {
  const known = pair.told.get(t);
  if (known !== undefined) return known;
  let best = null;
  for (let r = 0; r < pair.R; r++) {
    for (let c = 0; c < pair.C; c++) {
      if (!pair.differ(t, r, c)) continue;
      const found = explain(pair, t, r, c);
      if (!best || found.rank < best.rank) best = { r, c, ...found };
    }
  }
  pair.told.set(t, best);
  return best;
}

/** What leaves the broken machine in a cycle, against what should. @param {Pair} pair @param {number} t @returns {string} */
function leavingWords(pair, t) {
  const { broken, sound } = pair;
  const full = (/** @type {number} */ x) => exact(x, broken.header.accumulator);
  const [bad, good] = [/** @type {string[]} */ ([]), /** @type {string[]} */ ([])];
  for (let i = 0; i < pair.M * pair.N; i++) {
    if (pair.columns.told[i] !== t) continue;
    const [m, n] = broken.element("c", i);
    const [name, given, due] = [`C[${m},${n}]`, broken.columns.result[i], sound.columns.result[i]];
    const leaves = (broken.exits.get(t) ?? []).some((exit) => exit.final && exit.m === m && exit.n === n);
    if (!pair.wrong(m, n)) good.push(`${name} = ${full(given)}`);
    else if (!leaves) bad.push(`${name} is due and does not leave: it stays ${full(given)} instead of ${full(due)}`);
    else if (broken.leaving(t, m, n) === due) bad.push(`${name} leaves as ${full(due)}, but is added to the earlier sum once more: ${full(given)}`);
    else bad.push(`${name} leaves as ${full(given)} instead of ${full(due)}`);
  }
  const few = (/** @type {string[]} */ list) => (list.length > 2 ? `${list.slice(0, 2).join("; ")}; and ${list.length - 2} more` : list.join("; "));
  return [bad.length ? `${few(bad)}.` : "", good.length ? `Right: ${few(good)}.` : ""].filter(Boolean).join(" ");
}

/** How many results are wrong of those that are out. @param {Pair} pair @param {number} t @returns {string} */
function scoreWords(pair, t) {
  const [left, wrong] = [pair.left(t), pair.columns.wrong_so_far[t]];
  if (left < 2) return left ? `The one result due by now is ${wrong ? "wrong" : "right"}.` : "No result is due yet.";
  if (wrong === 0 || wrong === left) return `All ${left} results due by now are ${wrong ? "wrong" : "right"}.`;
  return `${wrong} of the ${left} results due by now ${wrong === 1 ? "is" : "are"} wrong.`;
}

/** The frame in words, the faulty machine open. @param {Pair} pair @param {number} t @returns {string[]} */
export function frameWords(pair, t) {
  const count = pair.columns.differing[t];
  const cause = telling(pair, t);
  const { first, first_wrong: bad } = pair.header;
  const event = leavingWords(pair, t);
  const after = [event, scoreWords(pair, t)].filter(Boolean).join(" ");
  if (cause) return [cause.says, `${count} of ${3 * pair.R * pair.C} registers ${count === 1 ? "differs" : "differ"}. ${after}`];
  if (first < 0 && bad < 0) return ["This fault makes no difference to this product: both machines hold the same in every register, and every result is right.", after];
  if (first < 0) {
    return t < bad ? [`Up to now both machines are alike; the first wrong result leaves in cycle ${bad}.`, after]
      : [after, "No register ever differs: what goes wrong happens where sums are put down, below the cells."];
  }
  if (t < first) return [`Up to now both machines hold the same in every register; they part in cycle ${first}.`, after];
  return ["In this cycle both machines hold the same in every register.", after];
}

/** All registers of a cell. @param {Run} run @param {number} t @param {number} r @param {number} c @returns {string} */
function holds(run, t, r, c) {
  const cell = run.cell(t, r, c);
  const all = REGISTERS.filter((register) => cell[`${register}Index`] >= 0 || cell[register] !== 0).map((register) => {
    const index = cell[`${register}Index`];
    return `${index < 0 ? "no element" : run.name(run.roles[register], index)} = ${exact(cell[register], run.header.accumulator)}`;
  });
  return all.length ? all.join(", ") : "empty";
}

/** One cell in words, the faulty machine open. @param {Pair} pair @param {number} t @param {number} r @param {number} c @returns {string[]} */
export function cellWords(pair, t, r, c) {
  if (!pair.differ(t, r, c)) return ["The same in both machines.", ...describe(pair.sound, t, r, c).slice(0, 1)];
  return [explain(pair, t, r, c).says, `Cell (${r},${c}), sound: ${holds(pair.sound, t, r, c)}. Broken: ${holds(pair.broken, t, r, c)}.`];
}

/** The answer to a picked cell. @param {Pair} pair @param {number[]} pick @returns {string[]} */
export function verdictWords(pair, [r, c, how]) {
  const { fault, puzzle } = pair;
  if (!puzzle) return [];
  const verdict = puzzle.verdicts[r * pair.C + c].replaceAll("] x ", "] × ");
  const right = fault.row === r && fault.col === c;
  const fits = puzzle.fits.some(([i, j]) => i === r && j === c);
  const open = pair.header.first < 0 ? "The cover is off: all its products are 0 in this run anyway, so nothing differs."
    : `The cover is off: in cycle ${pair.header.first} the cell first adds 0.`;
  if (right && how === 2) return [`It is cell (${r},${c}). ${verdict}`, open];
  if (right) return [`Right. ${verdict}`, puzzle.fits.length > 1 ? `It is the one. ${open}` : open];
  return fits ? [verdict, "It is another of these: here one can only guess."] : [verdict];
}

/** What a cell adds to which results in a whole run: the first few, and how many more. @param {Run} run @param {number} r @param {number} c */
function productsOf(run, r, c) {
  const all = [];
  const full = (/** @type {number} */ x) => exact(x, run.header.accumulator);
  for (let t = 0; t < run.T; t++) {
    const cell = run.cell(t, r, c);
    if (!cell.active) continue;
    const other = /** @type {Register} */ (run.loads ? "held" : "down");
    const names = [/** @type {Register} */ ("right"), other].map((register) => run.name(run.roles[register], cell[`${register}Index`])).sort();
    all.push(`${names.join(" × ")} = ${full(timesOf(run, cell.right, cell[other]))} to ${run.name("c", cell[`${run.register("c")}Index`])}`);
  }
  return { some: all.slice(0, 3), more: Math.max(0, all.length - 3) };
}

/** The frame in words, the faulty machine covered. @param {Pair} pair @param {number} t @param {number[]} at @returns {string[]} */
function coveredWords(pair, t, at) {
  if (at.length === 2) {
    const [r, c] = at;
    const { some, more } = productsOf(pair.sound, r, c);
    if (!some.length) return [`Cell (${r},${c}) has no part in this product.`];
    return [`In the sound machine cell (${r},${c}) adds ${some.join(", ")}${more ? ` and ${more} more` : ""}.`,
      "If just these are missing from the wrong results, pick it."];
  }
  const { broken, sound, N } = pair;
  const bad = [];
  for (let i = 0; i < pair.M * N; i++) {
    if (!pair.columns.wrong[i] || pair.columns.told[i] > t) continue;
    const value = (/** @type {Run} */ run) => exact(run.columns.result[i], run.header.accumulator);
    bad.push(`C[${Math.floor(i / N)},${i % N}] is ${value(broken)} instead of ${value(sound)}`);
  }
  const list = bad.length > 4 ? `${bad.slice(0, 4).join("; ")}; and ${bad.length - 4} more` : bad.join("; ");
  return [`${scoreWords(pair, t)}${bad.length ? ` ${list}.` : ""}`,
    "One cell of the broken machine adds 0 instead of its product. Point at a cell to see what it adds in the sound machine."];
}

/** The frame as a table. @param {Pair} pair @param {number} t @param {boolean} covered @returns {import("./kit/stage.js").Table} */
function frameTable(pair, t, covered) {
  const { sound, broken, R, C, M, N } = pair;
  const rows = [];
  if (covered) {
    const value = (/** @type {Run} */ run, /** @type {number} */ i) => exact(run.columns.result[i], run.header.accumulator);
    for (let i = 0; i < M * N; i++) {
      const [out, due] = [sound.columns.final[i] <= t, pair.columns.told[i] <= t];
      rows.push([`C[${Math.floor(i / N)},${i % N}]`, out ? value(sound, i) : "–", due ? value(broken, i) : "–",
        due ? (pair.columns.wrong[i] ? "wrong" : "right") : "not due yet"]);
    }
    return { caption: `Results after cycle ${t}; the registers of the broken machine are covered`, head: ["result", "sound", "broken", "state"], rows };
  }
  for (let r = 0; r < R; r++) {
    for (let c = 0; c < C; c++) {
      const bits = pair.differ(t, r, c);
      const names = REGISTERS.filter((_, i) => bits & (1 << i)).map((register) => sound.roles[register].toUpperCase());
      if (bits & ACTIVE) names.push(broken.cell(t, r, c).active ? "multiplies" : "idle");
      rows.push([`(${r},${c})`, holds(sound, t, r, c), holds(broken, t, r, c), names.join(", ") || "same"]);
    }
  }
  return { caption: `Registers of both machines after cycle ${t}`, head: ["cell", "sound", "broken", "what differs"], rows };
}

// ---------------------------------------------------------------------------------------------- draw

/** The results of both machines beside each other. @param {Pair} pair */
function makeResults(pair) {
  const { M, N, sound, broken } = pair;
  const machines = [sound, broken];
  const chars = Math.max(...machines.map((run) => textWidths(run).c));
  const note = h("b", { class: "pw-now" });
  const svg = s("svg", { class: "ft-results", role: "img" });
  const el = h("section", { class: "pw-panel" }, h("header", {}, h("h4", {}, "C from both machines"), note), svg);
  /** @type {{box: SVGElement, cross: SVGElement, text: SVGTextElement}[][]} */
  let elements = [];
  const HIGH = 26;
  const HEAD = 20;

  /** @param {number} width */
  function resize(width) {
    if (width < 60) return; // out of the page, or not yet in it
    const gap = 16;
    const need = Math.max(30, chars * MONO11 + 14);
    const beside = 2 * N * need + gap <= width;
    const unit = Math.min(64, beside ? (width - gap) / (2 * N) : width / N);
    const values = unit >= chars * MONO11 + 4;
    const block = HEAD + M * HIGH + 6;
    svg.replaceChildren();
    set(svg, { width, height: beside ? block : 2 * block + 6 });
    elements = machines.map((_, i) => {
      const x = beside ? i * (N * unit + gap) + 1 : 1;
      const y = beside ? 0 : i * (block + 6);
      svg.append(label(["sound", "broken"][i], { class: "ft-name", x, y: y + 13 }));
      return Array.from({ length: M * N }, (_, e) => {
        const [left, top] = [x + (e % N) * unit, y + HEAD + Math.floor(e / N) * HIGH];
        const box = s("rect", { class: "ft-element", x: left + 1, y: top + 1, width: unit - 3, height: HIGH - 3, rx: 3 });
        const cross = s("path", { class: "sy-cross", d: `M${left + unit - 7} ${top - 1}l6 6m0 -6l-6 6` });
        const text = label("", { class: "sy-small sy-c", x: left + unit / 2 - 1, y: top + 17, "text-anchor": "middle" });
        svg.append(box, cross, ...(values ? [text] : []));
        return { box, cross, text };
      });
    });
  }

  /** @param {number} t */
  function show(t) {
    const wrong = pair.columns.wrong_so_far[t];
    write(note, `${wrong} wrong of ${pair.left(t)} so far`);
    set(svg, { "aria-label": `${wrong} of ${pair.left(t)} results of the broken machine are wrong so far` });
    elements.forEach((block, i) => block.forEach(({ box, cross, text }, e) => {
      const { columns } = machines[i];
      const known = (i === 0 ? columns.final[e] : pair.columns.told[e]) <= t;
      const bad = i === 1 && known && pair.columns.wrong[e] === 1;
      set(box, { "data-known": known || null, "data-wrong": bad || null });
      set(cross, { visibility: bad ? "visible" : "hidden" });
      write(text, known ? short(columns.result[e]) : "·");
    }));
  }
  return { el, resize, show };
}

/** @param {Pair} pair @returns {HTMLElement} */
function makeLegend(pair) {
  /** @param {...Node} more */
  const box = (...more) => s("svg", { width: 22, height: 18, viewBox: "0 0 22 18", "aria-hidden": "true" }, ...more);
  const bad = () => box(s("rect", { x: 1.5, y: 2, width: 17, height: 14, rx: 3, class: "ft-bad" }), s("path", { class: "sy-cross", d: "M14 2l6 6m0 -6l-6 6" }));
  const own = pair.header.hidden
    ? [{ mark: box(s("rect", { x: 1.5, y: 2, width: 19, height: 14, rx: 3, class: "ft-cover" })), text: "covered: what it holds is out of sight" },
      { mark: bad(), text: "a wrong result; a cell that was picked and is not it; uncovered: a register that differs" }]
    : [{ mark: box(s("rect", { x: 1.5, y: 2, width: 19, height: 14, rx: 4, class: "sy-cursor" })), text: "the cell the sentence speaks of" },
      { mark: bad(), text: "differs from the sound machine; a wrong result" },
      { mark: box(label("19", { x: 11, y: 13, "text-anchor": "middle", class: "sy-value sy-c", "data-wrong": "true" })), text: "the value that differs" }];
  return legend([...own, ...legendOf(pair.sound).filter(({ text }) => text !== "element of C in the making")]);
}

// ---------------------------------------------------------------------------------------------- render

/**
 * Take note of what the reader has picked. @param {Pair} pair @param {Game} game @param {number[]} at
 */
function note(pair, game, [r, c, how]) {
  if (!pair.puzzle || how === undefined) return;
  if (pair.fault.row === r && pair.fault.col === c) game.solved = true;
  else game.tried.add(`${r},${c}`);
}

/**
 * @param {Pair} pair @param {Game} game
 * @param {import("./kit/stage.js").Tools} tools
 * @returns {import("./kit/stage.js").Picture}
 */
function mount(pair, game, { signal, still, prefix, select, point }) {
  const { sound, broken, fault } = pair;
  const covered = () => pair.header.hidden && !game.solved;
  const each = [sound, broken].map(textWidths);
  const chars = /** @type {Record<Letter, number>} */ (Object.fromEntries(["a", "b", "c"].map((letter) =>
    [letter, Math.max(...each.map((widths) => widths[/** @type {Letter} */ (letter)]))])));
  const arrays = [
    makeArray(sound, { prefix: `${prefix}-sound`, still, chars }),
    makeArray(broken, {
      prefix: `${prefix}-broken`, still, chars, covered,
      wrong: {
        cell: (t, r, c) => (covered() ? game.tried.has(`${r},${c}`) : pair.differ(t, r, c) !== 0),
        register: (t, r, c, register) => Boolean(pair.differ(t, r, c) & (1 << REGISTERS.indexOf(register))),
        result: pair.wrong,
      },
    }),
  ];
  const name = h("b", {});
  const machines = h("div", { class: "ft-machines" },
    h("div", { class: "ft-machine" }, h("p", { class: "ft-title" }, h("b", {}, "sound")), arrays[0].svg),
    h("div", { class: "ft-machine" }, h("p", { class: "ft-title" }, name), arrays[1].svg));
  const pick = h("button", { type: "button", class: "pw-button" });
  const tell = h("button", { type: "button", class: "pw-button" }, "Show the answer");
  const choice = h("div", { class: "ft-choice", role: "group", "aria-label": "Your answer" }, pick, tell);
  const el = h("div", { class: "sy ft" }, machines, !still && pair.header.hidden && choice);
  /** @param {number} width */
  const resize = (width) => {
    const wide = width >= 640;
    const half = Math.floor((width - (wide ? 28 : 6)) / 2);
    // Side by side as long as sums can be read; else the one above the other.
    const gap = wide ? 8 : 4;
    const stacked = layout(sound, chars, half, { still, gap }).form === "dot";
    set(machines, { class: `ft-machines${stacked ? " ft-stacked" : wide ? "" : " ft-near"}` });
    arrays.forEach((array) => (stacked ? array.resize(width) : array.resize(half, gap)));
  };
  /** @param {number} t @param {number[]} at */
  const draw = (t, at) => {
    // Without a place of the reader's own, the cursor is on the cell of which the sentence speaks.
    const spoken = at.length || covered() ? null : telling(pair, t);
    arrays.forEach((array) => array.show(t, spoken ? [spoken.r, spoken.c] : at.slice(0, 2)));
    write(name, covered() ? "broken, covered" : `broken: ${fault.row === null ? fault.kind.replaceAll("_", " ") : `cell (${fault.row},${fault.col})`}`);
  };
  if (still) return { el, resize, show: ({ cycle }) => draw(cycle, []) };

  /** @type {number[]} */
  let chosen = [];
  let pointing = false;
  /** @param {MouseEvent} event @returns {number[] | null} */
  const under = (event) => {
    const svg = /** @type {Element} */ (event.target).closest(".sy-array");
    const array = arrays.find((one) => one.svg === svg);
    const box = svg?.getBoundingClientRect();
    return array && box ? array.hit(event.clientX - box.left, event.clientY - box.top, []) : null;
  };
  machines.addEventListener("pointermove", (event) => {
    if (event.pointerType === "touch") return;
    const place = under(event);
    pointing = place !== null;
    point(place);
  }, { signal });
  machines.addEventListener("pointerleave", () => {
    pointing = false;
    point(null);
  }, { signal });
  machines.addEventListener("click", (event) => {
    const place = under(event) ?? [];
    pointing = false;
    point(null);
    select(place);
  }, { signal });
  pick.addEventListener("click", () => {
    if (chosen.length >= 2) select([chosen[0], chosen[1], 1]);
  }, { signal });
  tell.addEventListener("click", () => select([fault.row ?? 0, fault.col ?? 0, 2]), { signal });

  const results = makeResults(pair);
  const values = pair.header.hidden ? pair.columns.wrong_so_far : pair.columns.differing;
  const all = pair.header.hidden ? pair.M * pair.N : 3 * pair.R * pair.C;
  const curve = chart({
    title: pair.header.hidden ? "wrong results so far" : "registers that differ, by cycle", values, most: Math.max(1, ...values), signal,
    summary: pair.header.hidden ? `Wrong results so far, of ${all}` : `Registers that differ in each cycle, of ${all}`,
  });
  const counts = comparison({ title: "ledger so far", names: ["sound", "broken"], rows: counters(pair) });
  let cycle = 0;
  const observer = new ResizeObserver(([entry]) => {
    results.resize(entry.contentRect.width);
    results.show(cycle);
  });
  observer.observe(/** @type {Element} */ (results.el.querySelector("header")));
  signal.addEventListener("abort", () => observer.disconnect(), { once: true });
  results.resize(300);

  return {
    el, resize, panels: [results.el, curve.el, counts.el], legend: makeLegend(pair), snug: true,
    show(frame) {
      ({ cycle } = frame);
      if (!pointing) chosen = frame.selected;
      note(pair, game, chosen);
      draw(cycle, frame.selected);
      // Whoever pressed a button that goes away is still in the picture.
      if (game.solved && choice.contains(document.activeElement)) /** @type {HTMLElement | null} */ (el.closest(".pw-picture"))?.focus();
      choice.hidden = game.solved;
      pick.disabled = chosen.length !== 2;
      write(pick, chosen.length < 2 ? "Choose a cell" : chosen.length === 2 ? `Pick cell (${chosen[0]},${chosen[1]})` : "Choose another cell");
      results.show(cycle);
      curve.show(cycle, `now ${values[cycle]} of ${all}`);
      counts.show(cycle);
    },
  };
}

/** @param {Pair} pair */
function counters({ sound, broken, columns, header }) {
  const runs = [sound, broken];
  /** @param {string} name */
  const soFar = (name) => (/** @type {number} */ i, /** @type {number} */ t) => runs[i].columns[name][Math.min(t, runs[i].ends - 1)].toLocaleString("en-US");
  return [
    { label: "cycles", text: (/** @type {number} */ i, /** @type {number} */ t) => `${Math.min(t + 1, runs[i].ends)} of ${runs[i].ends}`, help: "Cycle 0 is the first, so cycle t ends after t + 1 of them." },
    { label: "multiply-adds", text: soFar("macs"), help: "One product and one addition each." },
    { label: "sums written out", text: soFar("writes_out"), help: "Sums that left the array, complete or for a later fold." },
    ...(header.hidden ? [] : [{ label: "differing now", text: (/** @type {number} */ i, /** @type {number} */ t) => (i === 0 ? "" : String(columns.differing[t])), help: "Registers of the broken machine that hold another element or value than those of the sound one, in this cycle." }]),
    { label: "wrong results", text: (/** @type {number} */ i, /** @type {number} */ t) => (i === 0 ? "0" : String(columns.wrong_so_far[t])), help: "Results of the broken machine that differ from those of the sound one, of those due by now." },
  ];
}

/** Phases of the sound machine, and where the two part. @param {Pair} pair @param {Run} run @returns {import("./kit/stage.js").Chapter[]} */
function marksOf({ header }, run) {
  const marks = chapters(run);
  /** @type {[number, string][]} */
  const own = header.hidden ? [[header.first_wrong, "first wrong result"]] : [[header.first, "first difference"], [header.first_wrong, "first wrong result"]];
  for (const [cycle, words] of own) {
    if (cycle < 0) continue;
    const there = marks.find((one) => one.cycle === cycle);
    if (there) there.label = `${there.label}, ${words}`;
    else marks.push({ cycle, label: words });
  }
  return marks.sort((x, y) => x.cycle - y.cycle);
}

/** @param {import("./kit/wire.js").Packed} packed @returns {import("./kit/stage.js").Scene} */
function open(packed) {
  const pair = readPair(packed);
  const { header, sound, fault, R, C, T } = pair;
  /** @type {Game} */
  const game = { solved: false, tried: new Set() };
  const covered = () => header.hidden && !game.solved;
  const marks = marksOf(pair, readRun(part(packed, "sound")));
  const known = [header.first, header.first_wrong].filter((t) => t >= 0);
  const stills = [...new Set([0, ...(header.hidden ? known.slice(1) : known), header.poster, Math.floor((header.poster + T) / 2), T - 1])].sort((x, y) => x - y);
  const says = fault.row === null ? fault.says : `The product of ${header.hidden ? "one cell" : `cell (${fault.row},${fault.col})`} is always 0.`;
  const rule = `${RULES[sound.header.dataflow]} Broken: ${says[0].toLowerCase()}${says.slice(1)}`;
  return {
    title: header.hidden ? "Break it: find the faulty cell" : `Break it: ${fault.row === null ? fault.kind.replaceAll("_", " ") : "a cell that adds 0"}`,
    rule,
    simplified: "Both machines get the same operands in the same cycle; a frame shows the registers at the end of its cycle. Simplified: one fault that is always there, "
      + `no memory, sums kept as ${sound.header.accumulator}.`,
    cycles: T,
    rate: T <= 64 ? 1 : T <= 200 ? 8 : 60,
    chapters: marks,
    stills,
    phase: (t) => sound.phase(t) + (sound.folds.length > 1 ? `, fold ${sound.foldAt(t).index + 1} of ${sound.folds.length}` : ""),
    mount: (tools) => mount(pair, game, tools),
    caption(t, at) {
      note(pair, game, at);
      if (header.hidden && at.length === 3) return verdictWords(pair, at);
      if (covered()) return coveredWords(pair, t, at);
      return at.length >= 2 ? cellWords(pair, t, at[0], at[1]) : frameWords(pair, t);
    },
    table: (t) => frameTable(pair, t, covered()),
    move(at, key) {
      if (at.length < 2) return [0, 0];
      const [dr, dc] = /** @type {Record<string, number[]>} */ ({ ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] })[key];
      return [Math.max(0, Math.min(R - 1, at[0] + dr)), Math.max(0, Math.min(C - 1, at[1] + dc))];
    },
    pictureLabel: "Both machines; arrow keys move a cell cursor",
    mark,
    python: header.python,
    help: [
      rule,
      "Left is the sound machine, right the broken one: the same product, the same cycle. A cell of the broken machine is crossed where one of its registers differs, and the value that differs is underlined.",
      "A wrong result is crossed from the cycle in which it leaves, or should have left.",
      ...(header.hidden ? ["Point at a cell, or tab into the picture and use the arrow keys; the sentence says what that cell adds in the sound machine. The button under the machines picks it."]
        : ["Point at a cell, or tab into the picture and use the arrow keys: the sentence says what both machines hold there and why they differ."]),
    ],
  };
}

export default { render: stage(open) };
