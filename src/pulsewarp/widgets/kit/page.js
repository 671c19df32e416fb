// A bare page: the same module without a widget manager. Written into the page by `Player.to_html()`.

import { pageModel } from "./host.js";

/**
 * Draw a scene into `el` from saved state; inside a frame, ask the frame to grow with the scene.
 * @param {{render: (context: {model: import("./host.js").Model, el: HTMLElement, signal?: AbortSignal}) => unknown}} scene
 * @param {HTMLElement} el
 * @param {Record<string, any>} state
 */
export function mountPage(scene, el, state) {
  el.replaceChildren();
  scene.render({ model: pageModel(state), el });
  /** @type {Element | null} */
  let frame = null;
  try {
    frame = window.frameElement;
  } catch {
    return; // a frame of another origin keeps the height it was given
  }
  if (!frame) return;
  // The frame belongs to the page around, so its class is not this window's HTMLElement.
  const { style } = /** @type {HTMLElement} */ (frame);
  new ResizeObserver(() => {
    style.height = `${Math.ceil(el.getBoundingClientRect().height) + 2}px`;
  }).observe(el);
}
