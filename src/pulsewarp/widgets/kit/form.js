// The reader's own numbers: fields that Python describes (`Player.offer`), sent as they were typed. Python reads,
// checks and simulates them and replaces the trace; an error comes back as one sentence and stands at its field.
// What was typed stays in the fields, whatever happens.

import { h, set, uniquePrefix, write } from "./dom.js";
import { ask } from "./host.js";
import { painter } from "./paint.js";

/**
 * @typedef {object} Field
 * @property {string} name
 * @property {string} label
 * @property {"matrix" | "whole" | "choice" | "switch" | "lanes"} kind "lanes": a text, such as an expression, or painted
 * @property {string | number | boolean} value
 * @property {[value: string, label: string][]} [choices]
 * @property {number} [least]
 * @property {number} [most]
 * @property {string} [scale] of painted lanes: the field that says how many bytes a square has
 */
/** @typedef {{title: string, hint: string, fields: Field[]}} Offer */

/** @param {Field} field @param {string} id @returns {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} */
function control({ kind, value, choices, least, most }, id) {
  if (kind === "matrix") {
    const rows = Math.max(3, Math.min(8, String(value).split("\n").length));
    const area = h("textarea", { id, class: "pw-field pw-matrix", rows, spellcheck: "false", autocapitalize: "off", autocomplete: "off", wrap: "off" });
    area.value = String(value);
    return area;
  }
  if (kind === "choice") {
    return h("select", { id, class: "pw-select" }, ...(choices ?? []).map(([each, label]) => h("option", { value: each, selected: each === value }, label)));
  }
  if (kind === "lanes") {
    return h("input", { id, class: "pw-field pw-text", type: "text", spellcheck: "false", autocapitalize: "off", autocomplete: "off", value: String(value) });
  }
  if (kind === "switch") return h("input", { id, type: "checkbox", checked: value === true });
  return h("input", { id, class: "pw-field pw-whole", type: "number", inputmode: "numeric", min: least, max: most, step: 1, value: String(value) });
}

/**
 * @param {Offer} offer
 * @param {{model: import("./host.js").Model, signal: AbortSignal}} view the view's signal: the fields outlive a trace
 */
export function ownForm({ title, hint, fields }, { model, signal }) {
  const prefix = uniquePrefix();
  const made = fields.map((field) => {
    const id = `${prefix}-${field.name}`;
    const problem = h("span", { id: `${id}-problem`, class: "pw-problem", hidden: true });
    const input = control(field, id);
    const name = h("label", { for: id }, field.label);
    const el = h("div", { class: `pw-item pw-item-${field.kind}` }, ...(field.kind === "switch" ? [input, name] : [name, input]), problem);
    return { field, input, problem, el };
  });
  for (const { field, input, el } of made) {
    const scale = made.find((other) => other.field.name === field.scale)?.input;
    if (field.kind === "lanes" && input instanceof HTMLInputElement) el.append(painter({ input, scale: () => Number(scale?.value ?? 1), signal }));
  }
  const run = h("button", { type: "submit", class: "pw-button pw-run" }, "Run");
  const said = h("p", { class: "pw-note", role: "status" });
  const parts = h("fieldset", { class: "pw-fields", disabled: Boolean(model.page) }, h("legend", {}, title),
    h("p", { class: "pw-note" }, model.page
      ? "No kernel runs behind this page, so these controls are switched off; open the notebook in Jupyter or Colab to use them."
      : hint),
    h("div", { class: "pw-items" }, ...made.map(({ el }) => el), h("div", { class: "pw-item" }, run)), said);
  const el = h("form", { class: "pw-form", novalidate: true }, parts);

  /** @param {string} [name] @param {string} [sentence] */
  function show(name, sentence = "") {
    for (const { field, input, problem } of made) {
      const here = field.name === name;
      write(problem, here ? `✗ ${sentence}` : "");
      problem.hidden = !here;
      set(input, { "aria-invalid": here ? "true" : null, "aria-describedby": here ? problem.id : null });
      if (here) input.focus({ preventScroll: true });
    }
  }

  el.addEventListener("keydown", (event) => {
    event.stopPropagation(); // a notebook has its own meaning for these keys
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) el.requestSubmit();
  }, { signal });
  /** @type {AbortController | null} */
  let asking = null;
  el.addEventListener("submit", (event) => {
    event.preventDefault();
    if (model.page) return;
    asking?.abort();
    const own = (asking = new AbortController());
    signal.addEventListener("abort", () => own.abort(), { once: true });
    show();
    set(said, { class: "pw-note" });
    write(said, "The kernel simulates it.");
    const values = Object.fromEntries(made.map(({ field, input }) =>
      [field.name, input instanceof HTMLInputElement && input.type === "checkbox" ? input.checked : input.value]));
    ask(model, { kind: "own", values }, {
      signal: own.signal,
      answered(reply) {
        const at = made.some(({ field }) => field.name === reply.field);
        if (at) show(reply.field, reply.error);
        set(said, { class: reply.error && !at ? "pw-note pw-problem" : "pw-note" });
        write(said, reply.error ? (at ? "Nothing was run; what is shown is the run before." : `✗ ${reply.error}`) : reply.done);
      },
      waiting: () => write(said, "No kernel has answered yet: it may be busy, or gone. If it answers, the run appears above; else run the notebook's cells again."),
    });
  }, { signal });
  return el;
}
