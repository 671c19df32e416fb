// The reader's own workload: fields in groups, most of them folded, and below them the report that Python made.
//
// Three parts: layout (pure: which report, which fields), draw (elements for a report), render (wires the kit).
// Nothing is decided here: every sentence and every number of a report is text that travels.

import { h, set, uniquePrefix, write } from "./kit/dom.js";
import { control } from "./kit/form.js";
import { ask, hear, hosted, save } from "./kit/host.js";
import { theme } from "./kit/theme.js";

/** @typedef {import("./kit/form.js").Field} Field */
/** @typedef {{title: string, open: boolean, fields: Field[]}} Group */
/** @typedef {[text: string, address: string]} Cell */
/** @typedef {{title: string, head: string[], rows: Cell[][], fold: boolean, notes: string[]}} Table */
/** @typedef {{kind: string, machine: string, text: string, source: string, address: string, more: [string, string][]}} Reason */
/**
 * @typedef {object} Report
 * @property {string} verdict
 * @property {string} headline
 * @property {string} because
 * @property {Reason[]} reasons
 * @property {Table[]} tables
 * @property {{lines: string[], tables: Table[], watch: string[], terraform: string}} pilot
 * @property {string} python
 * @property {string} yaml
 * @property {string} footer
 */
/** @typedef {{label: string, values: Record<string, string>, report?: Report}} Example */

// ---------------------------------------------------------------------------------------------- layout

/**
 * How many fields of a group say something: what its folded line tells.
 * @param {Record<string, string>} values by field
 * @param {Field[]} fields
 */
export function said(values, fields) {
  return fields.filter(({ name }) => values[name] !== "" && values[name] !== "any").length;
}

// ------------------------------------------------------------------------------------------------ draw

/** @param {string} text @param {string} address @returns {Node | string} */
function linked(text, address) {
  return address.startsWith("https://") ? h("a", { href: address, rel: "noopener" }, text) : text;
}

/** @param {Reason} reason */
function reasonItem({ kind, machine, text, source, address, more }) {
  return h("li", {},
    h("p", {}, h("b", { class: "pw-kind" }, machine ? `${kind} ${machine}` : kind), " ", text),
    source && h("p", { class: "pw-note" }, linked(source, address)),
    more.length > 0 && h("details", {}, h("summary", {}, more.map(([label]) => label).join(", ")),
      h("dl", {}, ...more.flatMap(([label, sentence]) => [h("dt", {}, label), h("dd", {}, sentence)]))));
}

/** @param {Table} table */
function tableBlock({ title, head, rows, fold, notes }) {
  const block = h("div", { class: "pw-scrolling", tabindex: 0, role: "group", "aria-label": title },
    h("table", { class: head.length > 4 ? "pw-many" : null }, !fold && h("caption", {}, title),
      h("thead", {}, h("tr", {}, ...head.map((cell) => h("th", { scope: "col" }, cell)))),
      h("tbody", {}, ...rows.map(([first, ...rest]) => h("tr", {}, h("th", { scope: "row" }, linked(...first)),
        ...rest.map((cell) => h("td", {}, linked(...cell))))))));
  return fold ? folded(title, block) : h("div", {}, block, ...notes.map((note) => h("p", { class: "pw-note" }, note)));
}

/** Text to be copied. @param {string} title @param {string} text */
function code(title, text) {
  return h("div", {}, h("h4", {}, title), h("pre", { class: "pw-python", tabindex: 0, role: "group", "aria-label": title }, text));
}

/** @param {string} title @param {...import("./kit/dom.js").Child} inside */
function folded(title, ...inside) {
  return h("details", { class: "pw-fold" }, h("summary", {}, title), ...inside);
}

/** @param {Report} report @returns {Node[]} */
function reportParts(report) {
  return [
    h("p", { class: "pw-headline" }, report.headline),
    h("p", {}, report.because),
    h("h4", {}, "Reasons, strongest first"),
    h("ol", { class: "pw-reasons" }, ...report.reasons.map(reasonItem)),
    ...report.tables.map(tableBlock),
    folded("The pilot that would settle it", ...report.pilot.lines.map((line) => h("p", {}, line)),
      ...report.pilot.tables.map(tableBlock),
      report.pilot.watch.length > 0 && h("h4", {}, "What to watch"),
      h("ul", {}, ...report.pilot.watch.map((line) => h("li", {}, line))),
      report.pilot.terraform && code("Its machines as a Terraform file", report.pilot.terraform)),
    folded("The same in Python, and as a file for the command line",
      code("In Python", report.python),
      code("As workload.yaml; then run: pulsewarp advise workload.yaml", report.yaml)),
    h("p", { class: "pw-note" }, report.footer),
  ];
}

// ---------------------------------------------------------------------------------------------- render

const NO_KERNEL = "No kernel runs behind this page, so it shows workloads that were worked out when it was made. Open the notebook in Jupyter or Colab to ask about your own.";
const BELOW = "The report is below.";
const HINT = "Say what you know and leave the rest unknown: a rule that needs what you left out stays silent. Nothing you type is kept in the notebook or sent anywhere but to its kernel.";

export default {
  render: hosted(({ model, el, signal }) => {
    const page = Boolean(model.page);
    const prefix = uniquePrefix();
    /** @type {Group[]} */
    const groups = model.get("groups");
    /** @type {Example[]} */
    const examples = model.get("examples");
    const task = model.get("task");

    const made = groups.map((group) => {
      const items = group.fields.map((field) => {
        const id = `${prefix}-${field.name}`;
        const input = control(field, id);
        const problem = h("p", { id: `${id}-problem`, class: "pw-problem", hidden: true });
        set(input, { disabled: page });
        return { field, input, problem, el: h("div", { class: "pw-item" }, h("label", { for: id }, field.label), input, problem) };
      });
      const count = h("span", { class: "pw-note" });
      const body = h("div", { class: "pw-items" }, ...items.map((item) => item.el));
      const fold = group.open ? null : h("details", { class: "pw-fold" }, h("summary", {}, h("span", {}, group.title), " ", count), body);
      return { group, items, count, fold, el: fold ?? h("div", { role: "group", "aria-label": group.title }, body) };
    });
    const all = made.flatMap(({ items, fold }) => items.map((item) => ({ ...item, fold })));

    const start = h("select", { id: `${prefix}-start`, class: "pw-select pw-start" },
      h("option", { value: "" }, page ? "Choose one" : "My own"), ...examples.map(({ label }, i) => h("option", { value: i }, label)));
    const button = h("button", { type: "submit", class: "pw-button pw-run", hidden: page }, "Advise me");
    const status = h("p", { class: "pw-note", role: "status" });
    const form = h("form", { class: "pw-form", novalidate: true },
      h("p", { class: "pw-note" }, page ? NO_KERNEL : HINT),
      h("div", { class: "pw-item" }, h("label", { for: start.id }, page ? "Workload" : "Start from"), start),
      ...made.map((group) => group.el),
      h("div", { class: "pw-asking" }, button, status));
    const result = h("section", { class: "pw-report", "aria-label": "Report" });
    const root = h("section", { class: "pw pw-workload pw-shell", "aria-label": "Your workload", "data-lm-suppress-shortcuts": "true" },
      h("h3", {}, "Which chip for your workload?"), task && h("p", { class: "pw-task" }, task), form, result);
    theme(root, signal);
    el.append(root);
    signal.addEventListener("abort", () => root.remove(), { once: true });

    const values = () => Object.fromEntries(all.map(({ field, input }) => [field.name, input.value]));

    function tellCounts() {
      const now = values();
      for (const { group, count } of made) {
        const known = said(now, group.fields);
        write(count, known ? `${known} of ${group.fields.length} given` : "unknown");
      }
    }

    /** @param {Report | null} report */
    function show(report) {
      set(result, { "data-stale": null, "data-verdict": report?.verdict ?? null });
      result.replaceChildren(...(report?.verdict ? reportParts(report) : []));
    }

    /** @param {string} [name] @param {string} [sentence] */
    function complain(name, sentence = "") {
      for (const { field, input, problem, fold } of all) {
        const here = field.name === name;
        write(problem, here ? `✗ ${sentence}` : "");
        problem.hidden = !here;
        set(input, { "aria-invalid": here ? "true" : null, "aria-describedby": here ? problem.id : null });
        if (here && fold) fold.open = true;
        if (here) input.focus();
      }
    }

    /** What is shown is no longer about what the fields say. */
    function changed() {
      tellCounts();
      if (!result.dataset.verdict || result.dataset.stale) return;
      set(result, { "data-stale": "true" });
      write(status, "The report below is about what the fields said before; ask again.");
    }

    form.addEventListener("input", (event) => {
      if (event.target !== start) changed();
    }, { signal });
    start.addEventListener("change", () => {
      const example = examples[Number(start.value)];
      const chosen = start.value === "" ? null : example;
      complain();
      for (const { field, input } of all) input.value = chosen?.values[field.name] ?? (field.kind === "choice" ? (field.choices ?? [])[0][0] : "");
      if (chosen?.report) show(chosen.report);
      else if (page) show(null);
      else changed();
      tellCounts();
      if (page) write(status, chosen?.report ? BELOW : "");
    }, { signal });

    // The notebook around us has its own meaning for keys.
    root.addEventListener("keydown", (event) => event.stopPropagation(), { signal });

    /** @type {AbortController | null} */
    let asking = null;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (page) return;
      asking?.abort();
      const own = (asking = new AbortController());
      signal.addEventListener("abort", () => own.abort(), { once: true });
      complain();
      set(status, { class: "pw-note" });
      write(status, "The kernel works it out.");
      ask(model, { kind: "advise", values: values() }, {
        signal: own.signal,
        answered(reply) {
          const at = all.some(({ field }) => field.name === reply.field);
          if (reply.error) {
            if (at) complain(reply.field, reply.error);
            set(status, { class: at ? "pw-note" : "pw-note pw-problem" });
            write(status, at ? "One field cannot be used as it is; see its sentence." : `✗ ${reply.error}`);
          } else {
            show(reply.report);
            write(status, BELOW);
          }
          save(model, "request", {}); // what was typed does not stay in the widget
          save(model, "reply", {});
        },
        waiting: () => write(status, "No kernel has answered yet: it may be busy, or gone. If it answers, the report appears below; else run the notebook's cells again."),
      });
    }, { signal });

    hear(model, "report", signal, show);
    tellCounts();
    if (page && !model.get("report")?.verdict && examples[0]?.report) {
      start.value = "0";
      start.dispatchEvent(new Event("change"));
    } else show(model.get("report"));
  }),
};
