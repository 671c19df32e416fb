// What differs between hosts: anywidget with and without a signal, and a bare page.
//
//   export default { render: hosted((view) => { ... view.model, view.el, view.signal ... }) };
//
// `signal` is the only clean-up a scene knows. Where the host gives none (anywidget 0.9.21), one is made
// and ended by the returned clean-up.

import { uniquePrefix } from "./dom.js";

/**
 * @typedef {object} Model
 * @property {(name: string) => any} get
 * @property {(name: string, value: any) => void} set
 * @property {() => void} save_changes
 * @property {(event: string, listener: () => void) => void} on
 * @property {(event: string, listener: () => void) => void} off
 * @property {boolean} [page] this is a page without a kernel
 */
/** @typedef {{model: Model, el: HTMLElement, signal: AbortSignal}} View */

/**
 * Turn a drawing function into `render`.
 * @param {(view: View) => void} draw
 * @returns {(context: {model: Model, el: HTMLElement, signal?: AbortSignal}) => (() => void) | undefined}
 */
export function hosted(draw) {
  return ({ model, el, signal }) => {
    if (signal) {
      draw({ model, el, signal });
      return undefined;
    }
    const own = new AbortController();
    draw({ model, el, signal: own.signal });
    return () => own.abort();
  };
}

// One module is loaded per model, so this says of every view of that model: the change is our own.
let saving = false;

/**
 * Hand a value to Python. Other views of the same model in this browser do not follow.
 * @param {Model} model
 * @param {string} name
 * @param {any} value
 */
export function save(model, name, value) {
  saving = true;
  try {
    model.set(name, value);
  } finally {
    saving = false;
  }
  model.save_changes();
}

/**
 * Hear what Python sets, not what a view in this browser saved.
 * @param {Model} model
 * @param {string} name
 * @param {AbortSignal} signal
 * @param {(value: any) => void} listener
 */
export function hear(model, name, signal, listener) {
  const event = `change:${name}`;
  const heard = () => {
    if (!saving && !signal.aborted) listener(model.get(name));
  };
  model.on(event, heard);
  signal.addEventListener("abort", () => model.off(event, heard), { once: true });
}

/** How long a kernel may take before the reader is told that it has not answered. */
export const PATIENCE = 4000;

/**
 * Ask Python, through the traits `request` and `reply`. Several may be asked; each hears its own answer only.
 * @param {Model} model
 * @param {Record<string, any>} request its `kind`, and what that kind needs
 * @param {{signal: AbortSignal, answered: (reply: Record<string, any>) => void, waiting: () => void}} hears
 *   `waiting`: no answer for `PATIENCE` ms; one may still come
 */
export function ask(model, request, { signal, answered, waiting }) {
  const id = uniquePrefix();
  const own = new AbortController();
  const end = () => own.abort();
  signal.addEventListener("abort", end, { once: true });
  const patience = setTimeout(waiting, PATIENCE);
  own.signal.addEventListener("abort", () => {
    clearTimeout(patience);
    signal.removeEventListener("abort", end);
  }, { once: true });
  hear(model, "reply", own.signal, (reply) => {
    if (reply?.id !== id) return;
    end();
    answered(reply);
  });
  save(model, "request", { ...request, id });
}

/**
 * A model for a page without a kernel: it holds the state the page was saved with.
 * @param {Record<string, any>} state
 * @returns {Model}
 */
export function pageModel(state) {
  const values = { ...state };
  /** @type {Record<string, Set<() => void>>} */
  const listeners = {};
  return {
    page: true,
    get: (name) => values[name],
    set(name, value) {
      if (values[name] === value) return;
      values[name] = value;
      for (const listener of [...(listeners[`change:${name}`] ?? [])]) listener();
    },
    save_changes() {},
    on(event, listener) {
      (listeners[event] ??= new Set()).add(listener);
    },
    off(event, listener) {
      listeners[event]?.delete(listener);
    },
  };
}
