// "Verify this frame": Python runs the checks of the run shown and of the frame at the playhead. On a page without
// a kernel the report is the one that was made when the page was written, and the scene says so.

import { h, set, write } from "./dom.js";
import { ask } from "./host.js";

/** @typedef {[name: string, passed: boolean, says: string]} Row */

/** @param {Row[]} rows @param {string} lead */
function list(rows, lead) {
  const held = rows.filter(([, passed]) => passed).length;
  const all = held === rows.length;
  return [
    h("p", { class: `pw-verdict ${all ? "pw-holds" : "pw-fails"}` },
      `${all ? "✓" : "✗"} ${held} of ${rows.length} checks hold${all ? "" : `; ${rows.length - held} ${rows.length - held === 1 ? "fails" : "fail"}`} ${lead}`),
    h("ul", { class: "pw-checks" }, ...rows.map(([name, passed, says]) =>
      h("li", { class: passed ? "pw-holds" : "pw-fails" },
        h("b", {}, h("span", { "aria-hidden": "true" }, passed ? "✓ " : "✗ "), passed ? "holds" : "FAILS", `: ${name}`), h("span", {}, says)))),
  ];
}

/**
 * @param {{model: import("./host.js").Model, signal: AbortSignal, prefix: string, cycle: () => number, unit: string}} view
 */
export function verifier({ model, signal, prefix, cycle, unit }) {
  const drawer = h("div", { class: "pw-drawer pw-verify", id: `${prefix}-verify`, hidden: true, tabindex: 0, role: "region", "aria-label": "Report", "aria-live": "polite" });
  const button = h("button", { type: "button", class: "pw-button", "aria-controls": drawer.id }, "Verify this frame");
  /** @type {AbortController | null} */
  let asking = null;
  /** @param {...(Node | string)} parts */
  const tell = (...parts) => {
    drawer.replaceChildren(...parts);
    drawer.hidden = false;
  };

  /** @param {number} t */
  function written(t) {
    const made = model.get("written") ?? {};
    if (!made.run) return tell(h("p", {}, made.left_out ?? "No kernel runs behind this page, and no report was written with it."));
    const frame = /** @type {Row[]} */ (made.frames?.[t] ?? []);
    const what = frame.length ? `of this run and of ${unit} ${t}` : "of this run";
    tell(...list([...made.run, ...frame], what), h("p", { class: "pw-note" }, `Made when this page was written: no kernel runs behind it. ${made.no_frames ?? ""}`.trim()));
  }

  button.addEventListener("click", () => {
    const t = cycle();
    if (model.page) return written(t);
    asking?.abort();
    const own = (asking = new AbortController());
    signal.addEventListener("abort", () => own.abort(), { once: true });
    set(button, { "aria-busy": "true" });
    const note = h("p", { class: "pw-note" }, "The kernel checks this run.");
    tell(note);
    ask(model, { kind: "verify", cycle: t }, {
      signal: own.signal,
      answered(reply) {
        set(button, { "aria-busy": null });
        if (reply.error) tell(h("p", { class: "pw-fails" }, `✗ ${reply.error}`));
        else tell(...list(reply.report, `of this run and of ${unit} ${t}`));
      },
      waiting: () => write(note, "No kernel has answered yet: it may be busy, or gone. If it answers, the report appears here; "
        + "else run the notebook's cells again."),
    });
    return undefined;
  }, { signal });
  return { button, drawer };
}
