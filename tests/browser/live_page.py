"""A scene with a kernel behind it: the widget's traits travel between one page and a player of this process.

What a notebook's front end and kernel do between them is done here without either: a trait that a view saves
is set on the player, and what the player then changed is set in the page. `silent=True` is a kernel that is
gone; what it had been asked is in `asked`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from scene_page import settle

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from pulsewarp.widgets._player import Player

_LIVE = """<!doctype html><html lang="en"><meta charset="utf-8"><link rel="icon" href="data:,">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>live</title>
<style>body { margin: 0 } %(style)s</style><body><main id="one"></main><script type="module">
const text = %(module)s, state = %(state)s;
const { default: scene } = await import(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
const listeners = {}, changed = {};
const tell = (name) => [...(listeners["change:" + name] ?? [])].forEach((heard) => heard());
window.model = {
  get: (name) => state[name],
  set(name, value) { state[name] = value; changed[name] = value; tell(name); },
  async save_changes() {
    const saved = { ...changed };
    for (const name of Object.keys(saved)) delete changed[name];
    const back = JSON.parse(await window.kernel(JSON.stringify(saved)));
    Object.assign(state, back);
    Object.keys(back).forEach(tell);
  },
  on: (event, heard) => (listeners[event] ??= new Set()).add(heard),
  off: (event, heard) => listeners[event]?.delete(heard),
};
window.heard = () => Object.values(listeners).reduce((sum, set) => sum + set.size, 0);
window.end = new AbortController();
await new Promise((started) => { window.start = started; });
scene.render({ model, el: document.getElementById("one"), signal: end.signal });
</script></body></html>"""


def live(
    open_html: Callable[..., Page],
    player: Player,
    *,
    silent: bool = False,
    asked: list[Any] | None = None,
    change: tuple[str, str] | None = None,
    **settings: Any,
) -> Page:
    """Open a player in a page whose requests this process answers; `change` edits the scene's module."""
    names = [name for name in player.keys if name[0] != "_"]

    def kernel(saved: str) -> str:
        back: dict[str, Any] = {}

        def note(told: Any) -> None:
            back[told["name"]] = told["new"]

        player.observe(note, names)
        try:
            for name, value in json.loads(saved).items():
                if asked is not None:
                    asked.append((name, value))
                if not silent:
                    setattr(player, name, value)
                    if back.get(name) == value:
                        del back[name]
        finally:
            player.unobserve(note, names)
        return json.dumps(back)

    module = str(player._esm)
    if change:
        assert change[0] in module
        module = module.replace(*change)
    state = json.dumps({name: getattr(player, name) for name in names}, default=str)
    page = open_html(
        _LIVE
        % {
            "style": player._css,
            "module": json.dumps(module).replace("</", "<\\/"),
            "state": state.replace("</", "<\\/"),
        },
        lasting=True,
        **settings,
    )
    page.expose_function("kernel", kernel)
    page.wait_for_function("window.start !== undefined")
    page.evaluate("start()")
    page.wait_for_selector(".pw-shell")
    settle(page)
    return page
