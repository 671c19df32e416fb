// Elements by one call. A scene uses `h` for HTML and `s` for SVG; nothing here keeps state.

/** @typedef {Node | string | number | null | undefined | false} Child */
/** @typedef {Record<string, string | number | boolean | null | undefined>} Attributes */

/**
 * Put attributes and children on an element; `null`, `undefined` and `false` leave an attribute off.
 * @template {Element} E
 * @param {E} node
 * @param {Attributes} attributes
 * @param {Child[]} children
 * @returns {E}
 */
function fill(node, attributes, children) {
  set(node, attributes);
  for (const child of children) {
    if (child !== null && child !== undefined && child !== false) {
      node.append(child instanceof Node ? child : String(child));
    }
  }
  return node;
}

/**
 * Set attributes only where they differ, so that a frame that changes nothing costs no layout.
 * @param {Element} node
 * @param {Attributes} attributes
 */
export function set(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) {
      if (node.hasAttribute(name)) node.removeAttribute(name);
    } else if (node.getAttribute(name) !== String(value)) {
      node.setAttribute(name, value === true ? "" : String(value));
    }
  }
}

/**
 * Set an element's text only where it differs.
 * @param {Node} node
 * @param {string | number} text
 */
export function write(node, text) {
  if (node.textContent !== String(text)) node.textContent = String(text);
}

/**
 * An HTML element.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/**
 * An SVG element.
 * @template {keyof SVGElementTagNameMap} K
 * @param {K} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {SVGElementTagNameMap[K]}
 */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

let views = 0;

/**
 * A prefix for ids, new for every view: two views of one player never share an id.
 * @returns {string}
 */
export function uniquePrefix() {
  views += 1;
  const random = Math.random().toString(36).slice(2, 8);
  return `pw-${random}-${views}`;
}
