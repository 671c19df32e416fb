"""The base of every player: one widget, one self-contained module, the same in every host.

A scene's Python file subclasses :class:`Player`, names its scene file, and packs its trace::

    class SystolicPlayer(Player):
        _scene = "systolic.js"

        def __init__(self, trace, *, start=None, rate=None, title=None):
            super().__init__(pack("systolic", header, columns), cursor=start, rate=rate, title=title)

        def __repr__(self): ...        # stable: no address, no dictionary order

The browser owns time. Python hears where the playhead rests and what was selected, and may seek.
"""

from __future__ import annotations

import html
import json
import sys
from collections.abc import Mapping
from typing import Any, ClassVar

import anywidget
import traitlets

from pulsewarp import _checks
from pulsewarp._text import script_safe
from pulsewarp.widgets import _module

_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


class Scene(anywidget.AnyWidget):  # type: ignore[misc]  # anywidget is untyped here (see pyproject)
    """One widget from one scene file, the same in every host: what players and questions share."""

    _scene: ClassVar[str]  # an attribute: traitlets of Colab's age take no keyword in a class statement

    # ipywidgets 7 would display through this and skip the mime bundle with its fallback.
    _ipython_display_ = None

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Join the scene's files when the class is made."""
        if "_scene" in cls.__dict__:
            cls._esm = _module.join(cls._scene)
            cls._css = _module.style(cls._scene)
        super().__init_subclass__(**keywords)

    def __init__(self, **traits: Any) -> None:
        super().__init__(**traits, **_any_version())

    def to_html(self) -> str:
        """Return the scene as one page that needs no network, no kernel and no widget manager.

        Returns
        -------
        str
            A complete HTML document; it also works when opened from a file.
        """
        return self._page(self._page_state())

    def _page_state(self) -> dict[str, Any]:
        """Return the traits a page starts from, as JSON can hold them."""
        raise NotImplementedError

    def _page_title(self) -> str:
        return repr(self)

    def _page(self, state: Mapping[str, Any]) -> str:
        return _PAGE.format(
            title=html.escape(self._page_title()),
            style=self._css,
            module=script_safe(str(self._esm)),
            state=script_safe(json.dumps(state)),
            default=f"{_module.default_name(self._scene)}",
        )

    def _fallback(self) -> str:
        """Return the page shown where no widget manager is: in saved notebooks and exported pages."""
        return self._page(self._page_state())

    def _repr_mimebundle_(self, **keywords: Any) -> Any:
        bundle = super()._repr_mimebundle_(**keywords)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        return {**data, "text/html": _frame(self._fallback(), repr(self))}, metadata


class Player(Scene):
    """Play a trace: what every scene shares on the Python side.

    Modelled nothing: a player takes a trace and plays it; it simulates and times nothing.

    Synced traits: ``trace`` -> browser (the packed run, as text), ``options`` -> browser (title, rate),
    ``cursor`` <-> (the cycle at which the playhead rests; set it, or call :meth:`seek`, to move the
    playhead), ``seeks`` -> browser (how often Python sought), ``selected`` <-> (what the reader points at;
    its meaning is the scene's).

    Parameters
    ----------
    packed : str
        What :func:`pulsewarp.widgets._wire.pack` returned.
    cycles : int
        How many frames there are; the playhead is one of ``0 .. cycles - 1``.
    cursor : int
        The frame shown at first.
    options : mapping, optional
        Settings the scene's JavaScript reads; entries that are None are left out.
    """

    trace = traitlets.Unicode().tag(sync=True)
    options = traitlets.Dict().tag(sync=True)
    cursor = traitlets.Int(0).tag(sync=True)
    seeks = traitlets.Int(0).tag(sync=True)
    selected = traitlets.List(traitlets.Int()).tag(sync=True)

    def __init__(
        self, packed: str, *, cycles: int, cursor: int = 0, options: Mapping[str, Any] | None = None
    ) -> None:
        self._cycles = cycles
        given = {key: value for key, value in (options or {}).items() if value is not None}
        super().__init__(trace=packed, cursor=cursor, options=given)

    @traitlets.validate("cursor")
    def _check_cursor(self, proposal: Mapping[str, Any]) -> int:
        return _checks.whole_number("cycle", proposal["value"], least=0, most=self._cycles - 1)

    def seek(self, cycle: int) -> None:
        """Move the playhead of every view to a cycle.

        Parameters
        ----------
        cycle : int
            The cycle to show, counted from 0.

        Raises
        ------
        ValueError
            When the run has no such cycle.
        """
        self.cursor = _checks.whole_number("cycle", cycle, least=0, most=self._cycles - 1)
        self.seeks += (
            1  # a view that plays has left the cursor behind; it must move even to where that already is
        )

    def replace(self, packed: str, *, cycles: int, cursor: int = 0) -> None:
        """Show another run in the same views: the packed text, its number of frames, its first frame."""
        with self.hold_sync():
            self._cycles = cycles
            self.selected = []
            self.cursor = cursor
            self.trace = packed

    def _page_state(self) -> dict[str, Any]:
        return {
            "trace": self.trace,
            "options": self.options,
            "cursor": self.cursor,
            "selected": self.selected,
        }

    def _page_title(self) -> str:
        return str(self.options.get("title", repr(self)))


def _any_version() -> dict[str, str]:
    """Return trait values that let any front end of anywidget take the widget.

    A front end 0.9.21 refuses a kernel that asks for 0.11; Colab loads the version it is asked for.
    """
    if "google.colab" in sys.modules:
        return {}
    return {"_model_module_version": "*", "_view_module_version": "*"}


def _frame(page: str, name: str) -> str:
    """Return the page as a frame of its own, so that two outputs on one page cannot collide."""
    return (
        f'<iframe title="{html.escape(name, quote=True)}" srcdoc="{html.escape(page, quote=True)}" '
        f'style="width:100%;height:760px;border:0" loading="lazy"></iframe>'
    )


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
html {{ color-scheme: light dark; }}
body {{ margin: 0; }}
@media screen and (prefers-color-scheme: dark) {{ body {{ background: #14191f; }} }}
{style}
</style>
</head>
<body>
<main id="player">
<noscript>{title}: this scene is drawn by JavaScript, which is switched off here.</noscript>
</main>
<script type="module">
{module}
mountPage({default}, document.getElementById("player"), {state});
</script>
</body>
</html>
"""
