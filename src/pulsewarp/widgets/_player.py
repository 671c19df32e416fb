"""The base of every player: one widget, one self-contained module, the same in every host.

A scene's Python file subclasses :class:`Player`, names its scene file, and packs its trace::

    class SystolicPlayer(Player):
        _scene = "systolic.js"

        def __init__(self, trace, *, start=None, title=None, task=None):
            super().__init__(pack("systolic", header, columns), cycles=trace.cycles, cursor=start,
                             options={"title": title}, task=task, shows=trace)

        def __repr__(self): ...        # stable: no address, no dictionary order

The browser owns time. Python hears where the playhead rests and what was selected, and may seek. What a
reader asks for (to verify a frame, to run other numbers) travels as one trait, `request`, and the answer as
another, `reply`: traits, not messages, because they work in every host.
"""

from __future__ import annotations

import html
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

import anywidget
import traitlets

from pulsewarp import _checks
from pulsewarp._text import script_safe
from pulsewarp.widgets import _module

FUTURES = ("dimmed", "hidden")

_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"

#: A page brings the report of a run that crosses in so many bytes of text; larger ones take seconds to check.
MOST_BYTES_VERIFIED = 2**20
#: A page brings the check of every single frame of a run with so many cycles, and so many bytes of text.
MOST_CYCLES_VERIFIED, MOST_BYTES_OF_FRAMES = 256, 2**16


@runtime_checkable  # the type checks of the tests ask for it
class Finding(Protocol):
    """One check of a report: its name, whether it holds, its numbers in a sentence."""

    @property
    def name(self) -> str: ...
    @property
    def passed(self) -> bool: ...
    @property
    def says(self) -> str: ...


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


class Answering(Scene):
    """A scene whose reader can ask Python something: through the traits `request` and `reply`."""

    request = traitlets.Dict().tag(sync=True)
    reply = traitlets.Dict().tag(sync=True)

    def __init__(self, **traits: Any) -> None:
        self._answers: dict[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {}
        super().__init__(**traits)

    def answer(self, kind: str, function: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> None:
        """Let a function answer the requests of a kind: it takes the request and returns the reply.

        What it raises is shown to the reader as a sentence. Who edits numbers in a scene answers here,
        simulates and calls the player's ``show``; a player itself never simulates.
        """
        self._answers[kind] = function

    @traitlets.observe("request")
    def _on_request(self, change: Mapping[str, Any]) -> None:
        request = change["new"]
        if request:
            self.reply = {"id": request.get("id"), **self._answer_to(request)}

    def _answer_to(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        function = self._answers.get(str(request.get("kind")))
        if function is None:
            return {"error": f"Nothing in this notebook answers a request for {request.get('kind')!r}."}
        try:
            return function(request)
        except (ValueError, TypeError) as error:
            return {"error": str(error)}
        except Exception as error:  # no reader sees a kernel's log
            return {"error": f"The kernel failed: {type(error).__name__}: {error}"}


class Player(Answering):
    """Play a trace: what every scene shares on the Python side.

    Modelled nothing: a player takes a trace and plays it; it simulates and times nothing.

    Synced traits: ``trace`` -> browser (the packed run, as text), ``options`` -> browser (title, rate),
    ``cursor`` <-> (the cycle at which the playhead rests; set it, or call :meth:`seek`, to move the
    playhead), ``seeks`` -> browser (how often Python sought), ``selected`` <-> (what the reader points at;
    its meaning is the scene's), ``request`` <- browser (``id``, ``kind`` and what the kind needs),
    ``reply`` -> browser (the request's ``id``, and ``error``, one sentence, or what was found).

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
    task : str, optional
        What the reader is asked to do, one sentence; the scene shows it under its rule.
    shows : optional
        The trace shown, or several by name. Where one has a method ``verify`` (the checks of a run, as a
        report), the scene has a button that asks for it; where it has ``cycles`` and ``verify_frame``
        (the check of one cycle), the frame is checked too.
    """

    trace = traitlets.Unicode().tag(sync=True)
    options = traitlets.Dict().tag(sync=True)
    cursor = traitlets.Int(0).tag(sync=True)
    seeks = traitlets.Int(0).tag(sync=True)
    selected = traitlets.List(traitlets.Int()).tag(sync=True)
    _first_cycle = 0  # of the trace, where only a part of it is shown

    def __init__(
        self,
        packed: str,
        *,
        cycles: int,
        cursor: int = 0,
        options: Mapping[str, Any] | None = None,
        task: str | None = None,
        shows: object = None,
    ) -> None:
        self._cycles = cycles
        self._verified = _verifiable(shows)
        if task is not None:
            task = _checks.instance("task", task, str, "write one sentence that says what to do")
        given = {**(options or {}), "task": task, "verify": bool(self._verified) or None}
        super().__init__(trace=packed, cursor=cursor, options=_without_none(given))
        self.answer("verify", self._verify)

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
        # A view that plays has left the cursor behind; it must move even to where that already is.
        self.seeks += 1

    def replace(self, packed: str, *, cycles: int, cursor: int = 0, shows: object = None) -> None:
        """Show another run in the same views: the packed text, its number of frames, its first frame."""
        with self.hold_sync():
            self._cycles = cycles
            self._verified = _verifiable(shows)
            self.selected = []
            self.cursor = cursor
            poster = cursor if "poster" in self.options else None
            verify = bool(self._verified) or None
            self.options = _without_none({**self.options, "poster": poster, "verify": verify})
            self.trace = packed

    def offer(
        self,
        title: str,
        hint: str,
        fields: Sequence[Mapping[str, Any]],
        run: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    ) -> None:
        """Put fields for the reader's own numbers under the scene, and let `run` answer them.

        A field has ``name``, ``label``, ``kind`` ("matrix", "whole", "choice", "switch", "lanes", "text",
        "code") and ``value``, a choice also ``choices`` (pairs of value and label), a whole number ``least``
        and ``most``, any of them a ``note``, a text ``wide``. `run` takes the values by name, texts as they
        were typed, and returns ``{"done": sentence}``, or ``{"error": sentence, "field": name}``; with
        ``"problem"`` instead of ``"error"`` the run is shown all the same. ``"line"`` says which line of a
        code field is meant. A view takes the fields that are there when it opens.
        """
        self.answer("own", lambda request: run(request.get("values") or {}))
        self.options = {
            **self.options,
            "form": {"title": title, "hint": hint, "fields": [*map(dict, fields)]},
        }

    def _verify(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        cycle = _checks.whole_number("cycle", request.get("cycle"), least=0, most=self._cycles - 1)
        return {"report": self._report(cycle)}

    def _report(self, frame: int | None = None) -> list[list[Any]]:
        """Return the checks of what is shown as rows of name, whether it holds, and its sentence."""
        rows = [
            _row(name, check) for name, trace in self._verified.items() for check in trace.verify().checks
        ]
        return rows if frame is None else rows + self._frame_alone(frame)

    def _written_report(self) -> dict[str, Any]:
        """Return what a page knows of its run without a kernel: the report made while it is written.

        The checks of single frames come along where they are few; a run so large that its checks would hold
        up every display brings a sentence instead.
        """
        if not self._verified:
            return {}
        if len(self.trace) > MOST_BYTES_VERIFIED:
            return {
                "left_out": "This run is too large to have been checked with the page; in Python, "
                "trace.verify() checks it."
            }
        written: dict[str, Any] = {"run": self._report(), "frames": {}}
        if any(map(_has_frames, self._verified.values())):
            if self._cycles <= MOST_CYCLES_VERIFIED and len(self.trace) <= MOST_BYTES_OF_FRAMES:
                written["frames"] = {t: self._frame_alone(t) for t in range(self._cycles)}
            else:
                written["no_frames"] = "Of a run this long, single frames are checked by a kernel only."
        return written

    def _frame_alone(self, frame: int) -> list[list[Any]]:
        """Return the rows of a frame by itself, one for each trace that can check a cycle."""
        cycle = self._cycle_of(frame)
        return [
            _row(name, trace.verify_frame(min(cycle, trace.cycles - 1)))
            for name, trace in self._verified.items()
            if _has_frames(trace)
        ]

    def _cycle_of(self, frame: int) -> int:
        """Return the cycle of the trace that a frame shows."""
        return frame + self._first_cycle

    def _page_state(self) -> dict[str, Any]:
        return {
            "trace": self.trace,
            "options": self.options,
            "cursor": self.cursor,
            "selected": self.selected,
            "written": self._written_report(),
        }

    def _page_title(self) -> str:
        return str(self.options.get("title", repr(self)))


class HidingPlayer(Player):
    """A player that can keep from the reader what comes later, until a prediction is made.

    ``lesson.predict(..., hides=player)`` sets :attr:`future`; the scene reads it as ``options.future``.
    """

    @property
    def future(self) -> str:
        """What the scene shows of later cycles: ``"dimmed"`` or ``"hidden"``; may be set."""
        return str(self.options["future"])

    @future.setter
    def future(self, value: str) -> None:
        _checks.choice("future", value, FUTURES)
        self.options = {**self.options, "future": value}


def spread_stills(frames: int, telling: int, count: int) -> list[int]:
    """Return `count` frames for the film strip, spread over the run, and the telling one among them."""
    return sorted({round(i * (frames - 1) / (count - 1)) for i in range(count)} | {telling})


def first_frame(start: int | None, telling: int, cycles: int) -> tuple[int, int | None]:
    """Return the frame shown at first, and the poster: a frame that tells most, which "play" leaves for 0.

    Who gives a `start` wants no poster, and frame 0 is where "play" begins anyway.
    """
    if start is None:
        return telling, telling or None
    return _checks.whole_number("start", start, least=0, most=cycles - 1), None


def _verifiable(shows: object) -> dict[str, Any]:
    """Return by name the traces that can be verified; a single one has no name."""
    traces = shows if isinstance(shows, Mapping) else {"": shows}
    return {name: trace for name, trace in traces.items() if callable(getattr(trace, "verify", None))}


def _has_frames(trace: Any) -> bool:
    return callable(getattr(trace, "verify_frame", None))


def _row(name: str, check: Finding) -> list[Any]:
    return [f"{name}: {check.name}" if name else check.name, check.passed, check.says]


def _without_none(options: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if value is not None}


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
