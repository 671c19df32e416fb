"""One page on which player after player of a scene is shown: to load a page costs more than a look at it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from scene_page import settle

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page

    from pulsewarp.widgets._player import Player

#: Ends the view that is there and draws another as `mountPage` does, with an end that can be called.
_SHOW = """(state) => {
  window.end?.abort();
  document.body.removeAttribute("style");
  const el = document.getElementById("player");
  el.replaceChildren();
  scrollTo(0, 0);
  window.end = new AbortController();
  staged.render({ model: staged_model(state), el, signal: end.signal });
}"""


class Stage:
    """A page that is loaded once; `show` ends what is on it and draws the next player."""

    def __init__(self, page: Page, folder: Path) -> None:
        self.page, self.folder = page, folder
        self.scene = ""
        self.wrong: list[str] = []
        self.address = (folder / "page-0.html").as_uri()
        page.on("console", lambda said: self.wrong.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self.wrong.append(f"uncaught: {error}"))
        page.on("request", lambda request: self._asked(request.url))

    def _asked(self, url: str) -> None:
        if url != self.address and not url.startswith(("data:", "blob:", "about:")):
            self.wrong.append(f"request: {url}")

    def _load(self, html: str) -> None:
        html, found = re.subn(
            r"\n(.*)mountPage\((\$\w+\.default), document.*",
            r"\n\1window.staged = \2; window.staged_model = $kit_host.pageModel;",
            html,
        )
        assert found == 1, "the page mounts its scene once"
        (self.folder / "page-0.html").write_text(html, encoding="utf-8")
        self.page.goto(self.address)

    def show(
        self,
        player: Player,
        page_of: Callable[[Player], str] | None = None,
        *,
        viewport: tuple[int, int] = (1280, 900),
        dark: bool = False,
        reduced_motion: bool = False,
    ) -> Page:
        """Show a player; `page_of` gives the page to load where that is not `player.to_html()`."""
        page = self.page
        page.set_viewport_size({"width": viewport[0], "height": viewport[1]})
        page.emulate_media(
            media="null",
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce" if reduced_motion else "no-preference",
        )
        page.mouse.move(0, 0)
        if self.scene != player._scene:
            self._load(page_of(player) if page_of else player.to_html())
            self.scene = player._scene
        page.evaluate(_SHOW, json.loads(json.dumps(player._page_state())))
        page.wait_for_function("document.querySelector('.pw')?.dataset.cycle !== undefined")
        settle(page)
        return page
