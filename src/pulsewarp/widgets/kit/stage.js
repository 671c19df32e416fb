// The anatomy every scene shares, wired once: title and cycle, rule, picture with side panels, legend,
// caption, transport with chapters, table, verify, copy as Python, help; film strip where motion is unwanted.
//
// A scene file has three parts, layout (pure), draw (pure), render (short), and ends in
//
//   import { stage } from "./kit/stage.js";
//   export default { render: stage((packed, options) => ({ title, rule, ..., mount })) };
//
// `stage` calls the function once per trace with the unpacked wire and the `options` trait; what it
// returns is a `Scene` (below). `Scene.mount` is called once for the stage and once for each still of the
// film strip; it returns a `Picture` whose `show` draws one frame.

import { browserFrames, clock } from "./clock.js";
import { h, set, uniquePrefix, write } from "./dom.js";
import { ownForm } from "./form.js";
import { hear, hosted, save } from "./host.js";
import { KEYS, keyboard } from "./keyboard.js";
import { media, theme, visibility, width } from "./theme.js";
import { transport } from "./transport.js";
import { verifier } from "./verify.js";
import { unpack } from "./wire.js";

/** A sentence of a caption takes a line at least, so many letters long; so many frames are looked through and measured for its height. */
const LINE = 60, SAMPLED = 40, MEASURED = 8;

/** @typedef {import("./wire.js").Packed} Packed */
/** @typedef {import("./transport.js").Chapter} Chapter */
/** @typedef {{title?: string, task?: string, rate?: number, verify?: boolean} & Record<string, any>} Options the `options` trait */
/** @typedef {{caption: string, head: string[], rows: (string | number)[][]}} Table the frame as a table */
/** @typedef {{cycle: number, playing: boolean, selected: number[], theme: string}} Frame */
/**
 * @typedef {object} Picture
 * @property {HTMLElement} el the picture itself; focusable parts are the stage's business
 * @property {HTMLElement[]} [panels] beside it, or below it where the screen is narrow
 * @property {HTMLElement} [legend]
 * @property {HTMLElement} [after] more of the picture, below the transport: what is read at rest, not while playing
 * @property {(frame: Frame) => void} show draw one frame; pure in `frame`
 * @property {(width: number, whole: number) => void} [resize] called before the first `show` and when the width the
 *   picture may take, or that of the whole scene, changes
 * @property {boolean} [snug] the picture keeps the width it draws itself; the panels take all the rest
 * @property {number} [wide] below this width of the scene the picture takes all of it, and sentence and panels stand below
 */
/**
 * @typedef {object} Tools what `mount` is given
 * @property {AbortSignal} signal ends with the view
 * @property {boolean} still true for a still of the film strip: no panels, no legend wanted
 * @property {string} prefix for ids inside this mount
 * @property {(place: number[]) => void} select the reader picked a place (click, tap); `[]`: none. Python hears it
 * @property {(place: number[] | null) => void} point the pointer is over a place; for as long as it stays, it
 *   takes the place of what is selected in `Frame.selected`, caption and table. Python does not hear it
 */
/**
 * @typedef {object} Scene
 * @property {string} title what machine this is
 * @property {string} rule the rule it obeys, one line
 * @property {string} simplified what is simplified, one line
 * @property {number} cycles how many frames: 0 .. cycles - 1
 * @property {string} [unit] what one frame is; "cycle" if left out
 * @property {number} [rate] cycles a second at first
 * @property {Chapter[]} chapters
 * @property {number[]} stills cycles of the film strip
 * @property {string} [given] times and limits the run was given, one line
 * @property {(t: number) => string} phase which phase a cycle belongs to, in a word or a few
 * @property {(tools: Tools) => Picture} mount
 * @property {(t: number, selected: number[]) => string[]} caption the frame in words; THE describe function
 * @property {(t: number, selected: number[]) => Table} table the frame as a table, windowed where large
 * @property {(selected: number[], key: string) => number[] | null} [move] arrow keys inside the picture
 * @property {string} [pictureLabel] name of the picture for a screen reader
 * @property {(sentence: string) => (Node | string)[]} [mark] a caption's sentence with the operands in their colours
 * @property {string} python one line of Python that recreates the run
 * @property {string[]} help sentences for the help panel
 */

/**
 * Turn a scene into anywidget's `render`.
 * @param {(packed: Packed, options: Options) => Scene} open
 */
export function stage(open) {
  return hosted(({ model, el, signal }) => {
    const root = h("div", { class: "pw", tabindex: 0, role: "group", "data-lm-suppress-shortcuts": "true" });
    root.append(h("p", { class: "pw-wait" }, "Reading the recorded run."));
    el.append(root);
    signal.addEventListener("abort", () => root.remove(), { once: true });
    theme(root, signal);

    // The reader's fields outlive the run they ask for: what was typed is never lost.
    const offer = model.get("options")?.form;
    const form = offer ? ownForm(offer, { model, signal }) : null;
    /** @type {AbortController | null} */
    let shown = null;
    const show = async () => {
      shown?.abort();
      const own = (shown = new AbortController());
      try {
        const scene = open(await unpack(model.get("trace")), model.get("options") ?? {});
        if (!own.signal.aborted && !signal.aborted) play(scene, { root, model, form, signal: own.signal });
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        root.replaceChildren(h("p", { class: "pw-wait", role: "alert" }, `This scene cannot be drawn. ${reason}`), ...(form ? [form] : []));
        throw error;
      }
    };
    signal.addEventListener("abort", () => shown?.abort(), { once: true });
    hear(model, "trace", signal, show);
    hear(model, "options", signal, show);
    show();
  });
}

/**
 * @param {Scene} scene
 * @param {{root: HTMLElement, model: import("./host.js").Model, form: HTMLElement | null, signal: AbortSignal}} view
 */
function play(scene, { root, model, form, signal }) {
  const prefix = uniquePrefix();
  const options = model.get("options") ?? {};
  const unit = scene.unit ?? "cycle";
  let selected = /** @type {number[]} */ ([...(model.get("selected") ?? [])]);
  let still = false; // the reader wants no motion

  const time = clock({
    cycles: scene.cycles,
    start: model.get("cursor"),
    rate: options.rate ?? scene.rate ?? 1,
    chapters: scene.chapters.map((chapter) => chapter.cycle),
    frames: browserFrames(),
    signal,
  });
  /** @type {number[] | null} */
  let pointed = null;
  const place = () => pointed ?? selected;
  // A run first seen at a telling cycle in its middle is a poster: play begins at the beginning.
  let poster = Boolean(options.poster) && time.now().cycle === options.poster;
  const toggle = () => {
    if (still) return time.step(1);
    if (poster) time.home();
    return time.toggle();
  };
  /** @param {number[]} next */
  const select = (next) => {
    if (next.length === selected.length && next.every((value, i) => value === selected[i])) return;
    selected = next;
    paint(time.now());
    later("selected", () => selected);
  };

  /** @param {number[] | null} next */
  const point = (next) => {
    if (String(next) === String(pointed)) return;
    pointed = next;
    paint(time.now());
  };

  const picture = scene.mount({ signal, still: false, prefix, select, point });
  const heading = h("h3", { id: `${prefix}-title` }, options.title ?? scene.title);
  const now = h("p", { class: "pw-cycle" });
  const phaseNow = h("span");
  const phase = h("p", { class: "pw-phase" }, phaseNow);
  // One form in every scene: the cycle by its number, and the first and the last number there is.
  const hidden = options.future === "hidden"; // what comes later is kept from the reader, its number and its chapters too
  const clockText = (/** @type {number} */ t) => (hidden ? `${unit} ${t}` : `${unit} ${t} (0 to ${time.last})`);
  const caption = h("div", { class: "pw-caption", id: `${prefix}-caption`, "aria-live": "polite" });
  const frame = h("div", {
    class: "pw-picture", tabindex: scene.move ? 0 : null, role: "group",
    "aria-label": scene.pictureLabel ?? scene.title, "aria-describedby": `${prefix}-caption`,
  }, picture.el);
  const controls = transport({
    time, unit, toggle, signal, chapters: hidden ? [] : scene.chapters,
    valueText: (t) => `${clockText(t)}, phase: ${scene.phase(t)}`,
  });
  const table = h("div", { class: "pw-drawer pw-scrolls", id: `${prefix}-table`, hidden: true, tabindex: 0, role: "region", "aria-label": "This frame as a table" });
  const help = h("div", { class: "pw-drawer", id: `${prefix}-help`, hidden: true, tabindex: 0, role: "region", "aria-label": "Help" }, ...helpText(scene));
  const film = h("div", { class: "pw-film", hidden: true, role: "region", "aria-label": "Film strip" });

  const tableButton = drawerButton("Table", table, signal, () => paint(time.now()));
  const helpButton = drawerButton("Help", help, signal, () => {});
  const copyButton = copier(scene.python, signal);
  const verify = options.verify ? verifier({ model, signal, prefix, unit, cycle: () => time.now().cycle }) : null;
  const foot = h("div", { class: "pw-foot", role: "group", "aria-label": "More" },
    tableButton, verify?.button, copyButton.el, helpButton);

  const panels = picture.panels ?? [];
  let beside = panels.length > 0; // from some width on
  const main = h("div", { class: "pw-main" }, frame, picture.legend);
  const side = panels.length ? h("div", { class: "pw-side" }, h("div", { class: "pw-panels" }, ...panels)) : null;
  const body = h("div", { class: `pw-body${picture.snug ? " pw-snug" : ""}${beside ? " pw-beside" : ""}` },
    main, side, caption);
  const focused = /** @type {Document | ShadowRoot} */ (root.getRootNode()).activeElement;
  const shell = h("div", { class: "pw-shell" },
    h("header", { class: "pw-head" }, heading, now, phase,
      h("div", { class: "pw-rules" }, h("p", { class: "pw-rule" }, scene.rule),
        options.task && h("p", { class: "pw-task" }, h("b", {}, "Do this: "), options.task), scene.given && h("p", { class: "pw-given" }, scene.given))),
    body,
    controls.el, foot, verify?.drawer, copyButton.text, table, help, form,
    picture.after && h("div", { class: "pw-after" }, picture.after), film,
    h("p", { class: "pw-simplified" }, scene.simplified));
  root.replaceChildren(shell);
  if (focused && form?.contains(focused)) /** @type {HTMLElement} */ (focused).focus({ preventScroll: true });
  set(root, { "aria-labelledby": `${prefix}-title`, "aria-keyshortcuts": "Space ArrowLeft ArrowRight Home End" });

  /** @param {Element} into @param {string[]} words */
  const tell = (into, words) => {
    while (into.children.length > words.length) into.lastChild?.remove();
    words.forEach((sentence, i) => {
      const line = into.children[i] ?? into.appendChild(h("p"));
      if (line.textContent !== sentence) line.replaceChildren(...(scene.mark?.(sentence) ?? [sentence]));
    });
  };

  const sampled = () => {
    const frames = new Set([...scene.stills, ...scene.chapters.map((chapter) => chapter.cycle)]);
    for (let i = 0; i <= SAMPLED; i++) frames.add(Math.round((time.last * i) / SAMPLED));
    return [...frames];
  };

  // The phase takes the room of its longest words (kit.css), so that the rule beside it never breaks anew.
  if (!hidden) set(phase, { "data-room": sampled().map((t) => `phase: ${scene.phase(t)}`).reduce((long, each) => (each.length > long.length ? each : long)) });

  // The caption has the height of its longest words from the start: the transport below stays where a hand left it.
  let spoken = 0;
  let longest = Infinity; // until there is a width, nothing is measured
  const extent = (/** @type {string[]} */ words) => words.reduce((sum, { length }) => sum + Math.max(length, LINE), 0);

  /** Make room for the longest of the captions of some frames, at the present width. */
  function reserve() {
    spoken = longest = 0;
    caption.style.minHeight = "";
    const wide = caption.offsetWidth;
    if (!wide) return;
    const told = sampled().map((t) => scene.caption(t, place())).sort((one, other) => extent(other) - extent(one));
    longest = extent(told[0]);
    const ruler = h("div", { class: "pw-caption", "aria-hidden": "true" });
    Object.assign(ruler.style, { position: "absolute", visibility: "hidden", boxSizing: "border-box", width: `${wide}px` });
    shell.append(ruler);
    for (const words of told.slice(0, MEASURED)) {
      tell(ruler, words);
      spoken = Math.max(spoken, ruler.offsetHeight);
    }
    ruler.remove();
    caption.style.minHeight = `${spoken}px`;
    reserveHead();
  }

  /** Give the number of the frame the width of the last one's: else a longer one breaks the rule beside it into more lines. */
  function reserveHead() {
    now.style.minWidth = "";
    if (shell.offsetWidth < 640) return; // as in kit.css: there the rule stands below it
    const said = now.textContent ?? "";
    write(now, clockText(time.last));
    now.style.minWidth = `${now.offsetWidth}px`;
    write(now, said);
  }

  /** @param {import("./clock.js").Moment} moment */
  function paint(moment) {
    const { cycle, playing } = moment;
    if (cycle !== options.poster) poster = false;
    controls.playWord = still ? "Step" : playing ? "Pause" : poster ? "Play from 0" : "Play";
    picture.show({ cycle, playing, selected: place(), theme: root.dataset.theme ?? "light" });
    write(now, clockText(cycle));
    write(phaseNow, `phase: ${scene.phase(cycle)}`);
    controls.show(moment);
    set(caption, { "aria-live": playing ? "off" : "polite" });
    const words = scene.caption(cycle, place());
    tell(caption, words);
    const letters = extent(words);
    if (letters > longest) {
      longest = letters;
      spoken = Math.max(spoken, caption.offsetHeight);
      caption.style.minHeight = `${spoken}px`;
    }
    set(frame, { title: pointed ? words.join(" ") : null }); // where the caption is out of sight
    if (!table.hidden) drawTable(table, scene.table(cycle, place()));
    set(root, { "data-cycle": cycle, "data-playing": String(playing) });
  }

  // What crosses to Python: where the playhead rests and what is selected, once things are quiet.
  /** @type {Record<string, ReturnType<typeof setTimeout>>} */
  const waiting = {};
  /** @param {string} name @param {() => any} value */
  function later(name, value) {
    clearTimeout(waiting[name]);
    waiting[name] = setTimeout(() => {
      if (!time.now().playing) save(model, name, value());
    }, 200);
  }
  signal.addEventListener("abort", () => Object.values(waiting).forEach(clearTimeout), { once: true });

  time.onShow(paint);
  time.onRest(() => later("cursor", () => time.now().cycle));
  hear(model, "cursor", signal, (cycle) => time.seek(cycle));
  // Python may seek where the playhead last rested, which changes no cursor: a view that plays moves all the same.
  hear(model, "seeks", signal, () => time.seek(model.get("cursor")));
  hear(model, "selected", signal, (next) => {
    selected = [...next];
    paint(time.now());
  });
  keyboard({
    root, picture: frame, time, toggle, signal,
    clear() {
      const had = selected.length > 0;
      select([]);
      return had;
    },
    move: scene.move && ((key) => {
      const next = scene.move?.(selected, key);
      if (next) select(next);
      return Boolean(next);
    }),
  });
  visibility(root, signal, (seen) => time.setVisible(seen));
  /** Stills of the film, each redrawn for a theme and a width. @type {{draw: (tone: string) => void, resize: (wide: number) => void}[]} */
  const drawn = [];
  const repaint = new MutationObserver(() => {
    paint(time.now());
    for (const { draw } of drawn) draw(root.dataset.theme ?? "light");
  });
  repaint.observe(root, { attributes: true, attributeFilter: ["data-theme"] });
  signal.addEventListener("abort", () => repaint.disconnect(), { once: true });
  if (picture.resize) {
    width(shell, signal, (wide) => {
      // As in kit.css: panels stand beside the picture from 880 px on, and then take a part of the width.
      beside = panels.length > 0 && wide >= Math.max(880, picture.wide ?? 0);
      body.classList.toggle("pw-beside", beside);
      body.classList.toggle("pw-wide", !beside && panels.length > 0);
      const room = picture.snug ? Math.min(wide * 0.76, wide - 354) : wide * 0.66 - 24;
      picture.resize?.(Math.floor(beside ? room : wide), wide);
      paint(time.now());
      // Where the panels are the taller, the sentence fills the room under the picture.
      body.classList.toggle("pw-low", beside && side !== null && side.offsetHeight > main.offsetHeight + 60);
      reserve();
    });
  }
  paint(time.now());

  const strip = () => {
    if (film.childElementCount) return;
    for (const t of scene.stills) {
      const one = scene.mount({ signal, still: true, prefix: `${prefix}-still-${t}`, select: () => {}, point: () => {} });
      drawn.push({
        draw: (tone) => one.show({ cycle: t, playing: false, selected: [], theme: tone }),
        resize: (wide) => one.resize?.(wide, wide),
      });
      const open = h("button", { type: "button", class: "pw-link" }, clockText(t));
      open.addEventListener("click", () => time.seek(t), { signal });
      film.append(h("figure", {}, h("div", { class: "pw-still", "aria-hidden": "true" }, one.el),
        h("figcaption", {}, open, h("span", {}, scene.caption(t, []).join(" ")))));
    }
    const fit = (/** @type {number} */ wide) => {
      for (const { draw, resize } of drawn) {
        resize(Math.min(wide, 480));
        draw(root.dataset.theme ?? "light");
      }
    };
    fit(320); // print measures nothing before it draws
    width(/** @type {Element} */ (film.querySelector(".pw-still")), signal, fit);
  };
  media("(prefers-reduced-motion: reduce)", signal, (reduce) => {
    still = reduce;
    if (reduce) {
      time.pause();
      strip();
    }
    film.hidden = !reduce;
    paint(time.now());
  });
  media("print", signal, (printing) => {
    if (printing) strip();
  });
}

/**
 * @param {HTMLElement} holder
 * @param {Table} table
 */
function drawTable(holder, table) {
  const [first, ...others] = table.head;
  const words = table.head.map((_, i) => table.rows.some((row) => typeof row[i] === "string" && /^[a-z]/i.test(String(row[i]))));
  /** Numbers line up on the right, columns of words on the left. @param {number} i column */
  const kind = (i) => ({ class: words[i] ? "pw-words" : null });
  holder.replaceChildren(h("table", {}, h("caption", {}, table.caption),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, first),
      ...others.map((name, i) => h("th", { scope: "col", ...kind(i + 1) }, name)))),
    h("tbody", {}, ...table.rows.map(([name, ...values]) => h("tr", {}, h("th", { scope: "row" }, name),
      ...values.map((value, i) => h("td", kind(i + 1), value)))))));
}

/**
 * @param {string} word
 * @param {HTMLElement} drawer
 * @param {AbortSignal} signal
 * @param {() => void} opened
 */
function drawerButton(word, drawer, signal, opened) {
  const button = h("button", { type: "button", class: "pw-button", "aria-expanded": "false", "aria-controls": drawer.id }, word);
  button.addEventListener("click", () => {
    drawer.hidden = !drawer.hidden;
    set(button, { "aria-expanded": drawer.hidden ? "false" : "true" });
    if (!drawer.hidden) opened();
  }, { signal });
  return button;
}

/**
 * Copy a line of Python; where the clipboard is out of reach the line is shown to be copied by hand.
 * @param {string} python
 * @param {AbortSignal} signal
 */
function copier(python, signal) {
  const el = h("button", { type: "button", class: "pw-button" }, "Copy as Python");
  const text = h("pre", { class: "pw-drawer pw-python", hidden: true, tabindex: 0 }, python);
  el.addEventListener("click", async () => {
    let word = "Copied";
    try {
      await navigator.clipboard.writeText(python);
    } catch {
      word = "Copy it from below";
    }
    if (signal.aborted) return;
    text.hidden = false;
    write(el, word);
    const back = setTimeout(() => write(el, "Copy as Python"), 2000);
    signal.addEventListener("abort", () => clearTimeout(back), { once: true });
  }, { signal });
  return { el, text };
}

/** @param {Scene} scene @returns {Node[]} */
function helpText(scene) {
  return [
    h("dl", { class: "pw-keys" }, ...KEYS.flatMap(([keys, does]) => [h("dt", {}, keys), h("dd", {}, does)])),
    ...scene.help.map((sentence) => h("p", {}, sentence)),
    h("p", {}, scene.simplified),
  ];
}
