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
 * @property {"matrix" | "whole" | "number" | "choice" | "switch" | "lanes" | "text" | "code"} kind "number": may be empty, may have a point; "lanes": a text, such as an expression, or painted; "text": one line; "code": many
 * @property {string | number | boolean} value
 * @property {[value: string, label: string][]} [choices]
 * @property {number} [least]
 * @property {number} [most]
 * @property {string} [note] a sentence under the field
 * @property {boolean} [wide] of a line of text: it takes the room that is left
 * @property {string} [scale] of painted lanes: the field that says how many bytes a square has
 */
/** @typedef {{title: string, hint: string, fields: Field[]}} Offer */

const PLAIN = { spellcheck: "false", autocapitalize: "off", autocomplete: "off", autocorrect: "off" };

/** @param {Field} field @param {string} id @returns {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} */
export function control({ kind, value, choices, least, most }, id) {
  if (kind === "matrix") {
    const rows = Math.max(3, Math.min(8, String(value).split("\n").length));
    const area = h("textarea", { id, class: "pw-field pw-matrix", rows, ...PLAIN, wrap: "off" });
    area.value = String(value);
    return area;
  }
  if (kind === "code") {
    const rows = Math.max(8, Math.min(24, String(value).split("\n").length + 1));
    const area = h("textarea", { id, class: "pw-field pw-code", rows, ...PLAIN, wrap: "off" });
    area.value = String(value);
    return area;
  }
  if (kind === "choice") {
    return h("select", { id, class: "pw-select" }, ...(choices ?? []).map(([each, label]) => h("option", { value: each, selected: each === value }, label)));
  }
  if (kind === "lanes" || kind === "text") return h("input", { id, class: "pw-field pw-text", type: "text", ...PLAIN, value: String(value) });
  if (kind === "number") return h("input", { id, class: "pw-field pw-quantity", type: "text", inputmode: "decimal", ...PLAIN, value: String(value) });
  if (kind === "switch") return h("input", { id, type: "checkbox", checked: value === true });
  return h("input", { id, class: "pw-field pw-whole", type: "number", inputmode: "numeric", min: least, max: most, step: 1, value: String(value) });
}

/**
 * Begin a new line as far in as the one before, and further in after a colon. Tab stays what it is on every page:
 * it leaves the field.
 * @param {HTMLTextAreaElement} area @param {KeyboardEvent} event
 */
function indent(area, event) {
  if (event.key !== "Enter" || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || event.isComposing) return;
  const line = area.value.slice(area.value.lastIndexOf("\n", area.selectionStart - 1) + 1, area.selectionStart);
  const further = /:\s*(#.*)?$/.test(line) ? "    " : "";
  const put = `\n${/^[ \t]*/.exec(line)?.[0] ?? ""}${further}`;
  event.preventDefault();
  // Deprecated, and the only way of putting text in that Undo takes back.
  if (!document.execCommand("insertText", false, put)) area.setRangeText(put, area.selectionStart, area.selectionEnd, "end");
}

/** Put the caret on a line, counted from 1. @param {HTMLTextAreaElement} area @param {number} number */
function showLine(area, number) {
  const lines = area.value.split("\n");
  const start = lines.slice(0, number - 1).reduce((sum, line) => sum + line.length + 1, 0);
  area.setSelectionRange(start, start + (lines[number - 1] ?? "").length);
  area.scrollTop = Math.max(0, (number - 3) * (area.scrollHeight / lines.length));
  area.scrollLeft = 0;
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
    const note = field.note ? h("p", { id: `${id}-note`, class: "pw-note" }, field.note) : null;
    if (note) set(input, { "aria-describedby": note.id });
    const el = h("div", { class: `pw-item pw-item-${field.kind}${field.wide ? " pw-item-wide" : ""}` }, ...(field.kind === "switch" ? [input, name] : [name, input]), problem, note);
    if (field.kind === "code" && input instanceof HTMLTextAreaElement) input.addEventListener("keydown", (event) => indent(input, event), { signal });
    return { field, input, problem, note, el };
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

  /** @param {string} [name] @param {string} [sentence] @param {number} [line] of a text of many */
  function show(name, sentence = "", line) {
    for (const { field, input, problem, note } of made) {
      const here = field.name === name;
      write(problem, here ? `✗ ${sentence}` : "");
      problem.hidden = !here;
      const said = [here ? problem.id : "", note?.id ?? ""].filter(Boolean).join(" ");
      set(input, { "aria-invalid": here ? "true" : null, "aria-describedby": said || null });
      if (here) input.focus({ preventScroll: true });
      if (here && line && input instanceof HTMLTextAreaElement) showLine(input, line);
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
        const wrong = reply.error ?? reply.problem; // a problem is one of a run that is shown
        if (at && wrong) show(reply.field, wrong, reply.line);
        set(said, { class: reply.error && !at ? "pw-note pw-problem" : "pw-note" });
        write(said, reply.error ? (at ? "Nothing was run; what is shown is the run before." : `✗ ${reply.error}`) : reply.done);
      },
      waiting: () => write(said, "No kernel has answered yet: it may be busy, or gone. If it answers, the run appears above; else run the notebook's cells again."),
    });
  }, { signal });
  return el;
}
