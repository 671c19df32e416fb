// One question before anything is shown: choices or a number, then the computed answer beside the reader's own.
//
// Three parts: layout (pure: what is asked), draw (pure: words for every state), render (wires the kit).
// The browser never knows the answer before it is asked for, except on a page without a kernel, where the
// answer was computed when the page was made.

import { h, set, uniquePrefix, write } from "./kit/dom.js";
import { hear, hosted, save } from "./kit/host.js";
import { theme } from "./kit/theme.js";

/** @typedef {{answer?: string, number?: number | null, explanation?: string, problem?: string}} Outcome */
/** @typedef {{question: string, choices: string[], unit: string, within: number, given: string, asked: boolean, outcome: Outcome}} Asked */

// ---------------------------------------------------------------------------------------------- layout

/**
 * What the model asks, as one value.
 * @param {import("./kit/host.js").Model} model
 * @returns {Asked}
 */
export function read(model) {
  return {
    question: model.get("question"), choices: model.get("choices"), unit: model.get("unit"),
    within: model.get("within"), given: model.get("given"), asked: model.get("asked"),
    outcome: model.get("outcome") ?? {},
  };
}

/**
 * Text with its code marked: pieces at odd places stood between backquotes.
 * @param {string} text
 * @returns {string[]}
 */
export function pieces(text) {
  return text.split("`");
}

// ------------------------------------------------------------------------------------------------ draw

/**
 * How many times too high or too low, at least 1; null where no factor exists.
 * @param {number} guess
 * @param {number} number
 * @returns {number | null}
 */
export function errorFactor(guess, number) {
  return guess * number > 0 ? Math.max(guess / number, number / guess) : null;
}

/**
 * The verdict in words, empty without a guess.
 * @param {Asked} asked
 * @returns {{right: boolean, words: string}}
 */
export function verdict({ given, choices, within, outcome }) {
  if (!given || outcome.answer === undefined) return { right: false, words: "" };
  if (choices.length || outcome.number === null || outcome.number === undefined) {
    const right = given === outcome.answer;
    return { right, words: right ? "Right." : "Not what was computed." };
  }
  const guess = Number(given);
  const factor = errorFactor(guess, outcome.number);
  if (guess === outcome.number) return { right: true, words: "Right." };
  if (factor === null) return { right: false, words: `Off by ${figure(Math.abs(guess - outcome.number))}.` };
  const way = guess > outcome.number ? "too high" : "too low";
  const right = factor <= within;
  return { right, words: `${right ? "Close enough: y" : "Y"}ours is ${times(factor)}${way}.` };
}

/** @param {number} value @returns {string} a number for reading: three digits where it is not whole */
function figure(value) {
  return Number.isInteger(value) && Math.abs(value) < 1e9 ? String(value) : String(Number(value.toPrecision(3)));
}

/** @param {number} factor @returns {string} "1 times too low" would say that a wrong answer is right */
function times(factor) {
  return figure(factor) === "1" ? "a little " : `${figure(factor)} times `;
}

// ---------------------------------------------------------------------------------------------- render

/** @param {string} text @returns {DocumentFragment} */
function marked(text) {
  const fragment = document.createDocumentFragment();
  pieces(text).forEach((piece, i) => fragment.append(i % 2 ? h("code", {}, piece) : piece));
  return fragment;
}

export default {
  render: hosted(({ model, el, signal }) => {
    const first = read(model);
    const prefix = uniquePrefix();
    const number = first.choices.length
      ? null
      : h("input", { type: "text", inputmode: "decimal", autocomplete: "off", id: `${prefix}-number`, class: "pw-number" });
    const radios = first.choices.map((choice, i) =>
      h("input", { type: "radio", name: prefix, value: choice, id: `${prefix}-${i}` }));
    const check = h("button", { type: "submit", class: "pw-button pw-check" }, "Check my answer");
    const show = h("button", { type: "button", class: "pw-button" }, "Show the answer");
    const again = h("button", { type: "button", class: "pw-button" }, "Answer again");
    const note = h("p", { class: "pw-remark", role: "alert" });
    const result = h("div", { class: "pw-result", role: "status" });
    const form = h("form", { novalidate: true },
      h("fieldset", {},
        h("legend", {}, marked(first.question)),
        ...radios.map((radio, i) => h("label", { for: radio.id, class: "pw-choice" }, radio, h("span", {}, marked(first.choices[i])))),
        number && h("label", { for: number.id, class: "pw-typed" },
          h("span", {}, "Your prediction"), number, h("span", { class: "pw-unit" }, first.unit))),
      h("div", { class: "pw-actions" }, check, show, again),
      note);
    const root = h("section", { class: "pw pw-question", "aria-label": "Prediction", "data-lm-suppress-shortcuts": "true" }, form, result);
    theme(root, signal);
    el.append(root);
    signal.addEventListener("abort", () => root.remove(), { once: true });

    /** Fill in what the model knows; the only place that changes the page. */
    function update() {
      const asked = read(model);
      const open = !asked.asked;
      for (const input of number ? [number] : radios) set(input, { disabled: !open });
      for (const radio of radios) radio.checked = radio.value === asked.given;
      if (number && (asked.given || !open)) number.value = asked.given;
      set(check, { hidden: !open });
      set(show, { hidden: !open });
      set(again, { hidden: open });
      set(root, { "data-asked": asked.asked, "data-given": asked.given || null });
      result.replaceChildren(...(open ? [] : answered(asked)));
    }

    /** @param {Asked} asked @returns {HTMLElement[]} */
    function answered(asked) {
      const { outcome, given, unit } = asked;
      set(root, { "data-right": null });
      if (outcome.problem) return [h("p", { class: "pw-problem" }, outcome.problem)];
      if (outcome.answer === undefined) return [h("p", { class: "pw-waiting" }, model.get("live") === false ? NO_KERNEL : COMPUTING)];
      const { right, words } = verdict(asked);
      if (given) set(root, { "data-right": String(right) });
      const tail = asked.choices.length || !unit ? "" : ` ${unit}`;
      const rows = h("dl", {},
        h("dt", {}, "Computed"), h("dd", { class: "pw-answer" }, marked(outcome.answer), tail));
      if (given) rows.prepend(h("dt", {}, "You said"), h("dd", { class: "pw-given" }, marked(given), tail));
      const lines = [rows];
      if (words) rows.append(h("dt", {}, "So"), h("dd", { class: right ? "pw-right" : "pw-wrong" }, `${right ? "✓" : "✗"} ${words}`));
      const paragraphs = (outcome.explanation ?? "").split("\n\n").filter(Boolean);
      return [...lines, ...paragraphs.map((text) => h("p", {}, marked(text)))];
    }

    /** @param {string} given @param {boolean} asked */
    function raise(given, asked) {
      write(note, "");
      save(model, "given", given);
      save(model, "asked", asked);
      const inside = form.contains(document.activeElement);
      update();
      if (asked && inside) again.focus(); // the button that had the focus is gone
    }

    // The notebook around us has its own meaning for keys.
    root.addEventListener("keydown", (event) => event.stopPropagation(), { signal });

    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const given = number ? number.value.trim() : radios.find((radio) => radio.checked)?.value ?? "";
      if (!given) write(note, number ? "Type a number first, or let the answer be shown." : "Choose one first, or let the answer be shown.");
      else if (number && !NUMBER.test(given)) write(note, `"${given}" is not a number; write it like 12, 0.5 or 1.5e9.`);
      else raise(given, true);
    }, { signal });
    show.addEventListener("click", () => raise("", true), { signal });
    again.addEventListener("click", () => {
      raise("", false);
      if (number) number.value = "";
      (number ?? radios[0]).focus();
    }, { signal });
    for (const name of ["given", "asked", "outcome"]) hear(model, name, signal, update);
    update();
  }),
};

// What Python's float() reads as well.
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,2})?$/i;
const COMPUTING = "Computing the answer …";
const NO_KERNEL = "This page was saved without the answer; run the notebook to see it.";
