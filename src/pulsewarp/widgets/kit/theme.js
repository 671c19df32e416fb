// Light or dark, as the host says; reduced motion, print and screen visibility as the browser says.
// `stage` calls these; a widget without a stage (a question) calls `theme` on its own root.

/**
 * What the host page says of itself, or null where it says nothing.
 * @returns {"light" | "dark" | null}
 */
function hostTheme() {
  const { documentElement: page, body } = document;
  const lab = body?.getAttribute("data-jp-theme-light"); // JupyterLab, Notebook 7
  if (lab) return lab === "true" ? "light" : "dark";
  const colab = page.getAttribute("theme");
  if (colab === "dark" || colab === "light") return colab;
  if (body?.classList.contains("vscode-dark")) return "dark";
  if (body?.classList.contains("vscode-light")) return "light";
  if (body?.classList.contains("vscode-high-contrast-light")) return "light";
  if (body?.classList.contains("vscode-high-contrast")) return "dark";
  if (body?.classList.contains("notebook_app")) return "light"; // classic Notebook knows no dark
  return null;
}

/**
 * Keep `data-theme` on `root` true to the host until `signal` ends.
 * @param {HTMLElement} root
 * @param {AbortSignal} signal
 * @param {(theme: "light" | "dark") => void} [changed] for drawings that cannot use CSS variables (canvas)
 */
export function theme(root, signal, changed) {
  const prefers = matchMedia("(prefers-color-scheme: dark)");
  const paper = matchMedia("print");
  const apply = () => {
    const next = paper.matches ? "light" : hostTheme() ?? (prefers.matches ? "dark" : "light");
    if (root.dataset.theme === next) return;
    root.dataset.theme = next;
    changed?.(next);
  };
  prefers.addEventListener("change", apply, { signal });
  paper.addEventListener("change", apply, { signal });
  const observer = new MutationObserver(apply);
  const attributeFilter = ["class", "theme", "data-jp-theme-light"];
  observer.observe(document.documentElement, { attributes: true, attributeFilter });
  if (document.body) observer.observe(document.body, { attributes: true, attributeFilter });
  signal.addEventListener("abort", () => observer.disconnect(), { once: true });
  apply();
}

/**
 * Follow a media query until `signal` ends; the listener hears the present state at once.
 * @param {string} query
 * @param {AbortSignal} signal
 * @param {(matches: boolean) => void} listener
 */
export function media(query, signal, listener) {
  const list = matchMedia(query);
  list.addEventListener("change", () => listener(list.matches), { signal });
  listener(list.matches);
}

/**
 * Tell when `element` comes on or goes off screen.
 * @param {Element} element
 * @param {AbortSignal} signal
 * @param {(visible: boolean) => void} listener
 */
export function visibility(element, signal, listener) {
  const observer = new IntersectionObserver((entries) => {
    listener(entries[entries.length - 1].isIntersecting);
  });
  observer.observe(element);
  signal.addEventListener("abort", () => observer.disconnect(), { once: true });
}

/**
 * Tell an element's width, now and whenever it changes.
 * @param {Element} element
 * @param {AbortSignal} signal
 * @param {(width: number) => void} listener
 */
export function width(element, signal, listener) {
  let known = -1;
  const tell = () => {
    const next = Math.floor(element.getBoundingClientRect().width);
    if (next > 0 && next !== known) {
      known = next;
      listener(next);
    }
  };
  const observer = new ResizeObserver(tell);
  observer.observe(element);
  signal.addEventListener("abort", () => observer.disconnect(), { once: true });
  tell();
}
