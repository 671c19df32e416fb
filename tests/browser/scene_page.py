"""What the tests of every scene share: opening a player, moving its playhead, waiting until it stands still.

A slow machine draws a new size a second late. So nothing here waits a fixed time before something is
expected of the page: it waits for what must come, and only then do tests look.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from pulsewarp.widgets._player import Player

#: Resolves when size, extent and number of elements have stayed the same over four drawn frames.
_SETTLED = """() => new Promise((done) => {
  let last = "", same = 0;
  const look = () => {
    const { scrollWidth, scrollHeight } = document.documentElement;
    const parts = document.querySelectorAll("*").length;
    const now = [innerWidth, innerHeight, scrollWidth, scrollHeight, parts].join();
    same = now === last ? same + 1 : 0;
    last = now;
    if (same >= 4) done(); else requestAnimationFrame(look);
  };
  look();
})"""


def settle(page: Page) -> None:
    """Wait until the page, at rest, has drawn whatever it still had to draw."""
    page.evaluate(_SETTLED)


def resize(page: Page, width: int, height: int = 800) -> None:
    """Give the page another size and wait until it stands."""
    page.set_viewport_size({"width": width, "height": height})
    page.wait_for_function("([w, h]) => innerWidth === w && innerHeight === h", arg=[width, height])
    settle(page)


def opened(open_html: Callable[..., Page], player: Player, **settings: Any) -> Page:
    """Open a player's own page and wait for its first frame; settings as for `open_html`."""
    page = open_html(player.to_html(), **settings)
    page.wait_for_selector(".pw-shell")
    page.wait_for_function("document.querySelector('.pw').dataset.cycle !== undefined")
    settle(page)
    return page


def cycle(page: Page) -> int:
    """Return the cycle on show."""
    shown = page.get_attribute(".pw", "data-cycle")
    assert shown is not None
    return int(shown)


def seek(page: Page, t: int) -> None:
    """Move the scrub bar as a hand does."""
    scan(page, [t], "null")


def scan(page: Page, cycles: Iterable[int], look: str) -> list[Any]:
    """Move the scrub bar as `seek` does, to one cycle after the other, and return what `look` gives at each.

    `look` is a JavaScript expression. The whole walk is one call into the page: a call for each frame
    would take four fifths of the time.
    """
    found: list[Any] = page.evaluate(
        f"""(cycles) => {{
          const bar = document.querySelector(".pw-scrub"), pw = document.querySelector(".pw");
          const words = (selector) => [...document.querySelectorAll(selector)]
            .map((one) => one.textContent.replace(/\\s+/g, " ").trim());
          return cycles.map((t) => {{
            bar.value = t;
            bar.dispatchEvent(new Event("input"));
            if (Number(pw.dataset.cycle) !== t) throw new Error(`${{t}} asked, ${{pw.dataset.cycle}} shown`);
            return {look};
          }});
        }}""",
        [int(t) for t in cycles],
    )
    return found


def caption(page: Page) -> list[str]:
    """Return the sentences under the picture."""
    return [" ".join(text.split()) for text in page.locator(".pw-caption p").all_text_contents()]


_VIEWS = """<!doctype html><html lang="en"><meta charset="utf-8"><link rel="icon" href="data:,">
<title>two views</title>
<style>%(style)s</style><body><div id="one"></div><div id="two"></div><script type="module">
const text = %(module)s, state = %(state)s;
const { default: scene } = await import(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
const listeners = {};
window.saved = [];
window.model = {
  get: (name) => state[name],
  set(name, value) {
    state[name] = value;
    saved.push(name);
    for (const heard of [...(listeners["change:" + name] ?? [])]) heard();
  },
  save_changes() {},
  on: (event, heard) => (listeners[event] ??= new Set()).add(heard),
  off: (event, heard) => listeners[event]?.delete(heard),
};
window.heard = () => Object.values(listeners).reduce((sum, set) => sum + set.size, 0);
window.ends = ["one", "two"].map((id) => {
  const end = new AbortController();
  scene.render({ model, el: document.getElementById(id), signal: end.signal });
  return end;
});
</script></body></html>"""


def spilt_texts(page: Page, cells: str) -> list[str]:
    """Return the texts in these parts of a picture that reach beyond the box of their part."""
    spilt: list[str] = page.eval_on_selector_all(
        cells,
        """(cells) => cells.flatMap((cell) => {
          const box = (cell.querySelector(".sy-box") ?? cell).getBoundingClientRect();
          return [...cell.querySelectorAll("text")].filter((text) => {
            const { left, right, width } = text.getBoundingClientRect();
            return width && (left < box.left - 0.5 || right > box.right + 0.5);
          }).map((text) => text.textContent);
        })""",
    )
    return spilt


def two_views(open_html: Callable[..., Page], player: Player) -> Page:
    """Open one model in two views, as a notebook does; `ends`, `model`, `saved`, `heard()` are in reach."""
    module = json.dumps(str(player._esm)).replace("</", "<\\/")
    state = json.dumps({name: getattr(player, name) for name in player.keys if name[0] != "_"}, default=str)
    page = open_html(_VIEWS % {"style": player._css, "module": module, "state": state.replace("</", "<\\/")})
    page.wait_for_function("document.querySelectorAll('.pw-shell').length === 2")
    settle(page)
    return page
