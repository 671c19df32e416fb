"""Where the time of a few calls went: a profiler's trace as lanes of events, bounded in size.

JAX's profiler writes a folder ``plugins/profile/DATE`` with two files: ``*.xplane.pb`` and the same as
``*.trace.json.gz``, a list of Chrome trace events, times in microseconds. This module reads the second and
needs no JAX, so a trace taken on another machine can be shown anywhere. What is written was looked at with
JAX 0.4.30, 0.7.2 and 0.12.0 on a CPU on 2026-12-01; names of devices' lanes ("XLA Ops", "XLA Modules",
"Steps", "Stream #n") are those that readers of traces from TPUs and GPUs rely on (public code, same day).
"""

from __future__ import annotations

import gzip
import html
import itertools
import json
import math
import os
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from pulsewarp._checks import names_keywords, whole_number
from pulsewarp._text import counted
from pulsewarp.bench.measurement import with_prefix

# What an event can be, and what a legend says of it.
CATEGORIES = {
    "call": "from its start until its result was there",
    "operation": "of the compiled program",
    "handed over": "work of other threads, no events",
    "kernel": "on the device",
    "copy": "to, from or on the device",
    "program": "a whole program or step on the device",
    "wait": "for other threads or the device",
    "runtime": "JAX and what lies below it",
}
WORK = ("operation", "handed over", "kernel", "copy")  # what a device is for

_MOST_EVENTS, _MOST_LANES, _MOST_IDLE, _MOST_TOTALS = 400, 12, 20, 50
_LARGEST_FILE = 400 * 2**20  # bytes, unpacked: json takes several times that
_CALL = re.compile(r"call \d+ of \d+")
_DEVICE_LANES = {
    "XLA Ops": "operation",
    "XLA Modules": "program",
    "Steps": "program",
    "Async XLA Ops": "copy",
}
_SHORTEST = 1e-9  # seconds; the profiler writes marks as events of 1e-12 s
_AFTER_AN_END = 50e-6  # seconds within which the runtime marks the end of what it ran itself


@dataclass(frozen=True)
class Event:
    """One stretch of time.

    Parameters
    ----------
    name : str
        As the profiler wrote it; an operation's is that of the compiled program.
    category : str
        A key of `CATEGORIES`.
    lane : int
        Its lane's place in `Timeline.lanes`.
    start, seconds : float
        Since the first event, and how long.
    own_seconds : float
        Without the events inside it.
    depth : int
        How many events of its lane it lies in.
    """

    name: str
    category: str
    lane: int
    start: float
    seconds: float
    own_seconds: float
    depth: int = 0


@dataclass(frozen=True)
class Idle:
    """A stretch in which a lane shows nothing."""

    start: float
    seconds: float


@dataclass(frozen=True)
class Lane:
    """One thread of the host, or one queue of a device.

    Parameters
    ----------
    name : str
        Of the thread or queue.
    process : str
        ``"host"`` or the device, such as ``"TPU:0"``.
    events : int
        How many it had, those left out included.
    busy_seconds : float
        Time covered by them.
    idle : tuple of Idle
        The longest stretches between its first and last event that none covers, longest first, at most 20.
    """

    name: str
    process: str
    events: int
    busy_seconds: float
    idle: tuple[Idle, ...] = ()


@dataclass(frozen=True)
class Total:
    """All events of one name, those that a timeline leaves out included."""

    name: str
    category: str
    count: int
    seconds: float
    own_seconds: float


@dataclass(frozen=True, repr=False)
class Timeline:
    """A trace, bounded: the longest events, and sums over all of them.

    Times under a profiler include its own cost; for a rate use `time_matmul`.

    Parameters
    ----------
    lanes : tuple of Lane
        At most 12, the host's first.
    events : tuple of Event
        The longest, in order of lane and start.
    totals : tuple of Total
        By name, largest own time first, at most 50, over all events.
    seconds : float
        From the first start to the last end.
    left_out : int
        Shorter events, and those of lanes for which there was no room.
    busy_share : float or None
        Share of the calls' time in which an operation ran; None where either is missing.
    notes : tuple of str
        What must be known to read it.
    folder : str or None
        Where the profiler's files lie, if they were kept.
    """

    lanes: tuple[Lane, ...] = ()
    events: tuple[Event, ...] = ()
    totals: tuple[Total, ...] = ()
    seconds: float = 0.0
    left_out: int = 0
    busy_share: float | None = None
    notes: tuple[str, ...] = ()
    folder: str | None = None

    @property
    def calls(self) -> tuple[Event, ...]:
        """The calls that were profiled, where they are marked."""
        return tuple(event for event in self.events if event.category == "call")

    @property
    def how_to_open(self) -> str:
        """How to look at the whole trace, in other programs (docs.jax.dev/en/latest/profiling.html)."""
        if self.folder is None:
            return "The profiler's files were not kept; give folder= to keep them for XProf or Perfetto."
        return (
            f"XProf: pip install xprof, then xprof --port 8791 {self.folder}, open http://localhost:8791 and "
            "choose trace_viewer. Perfetto: open https://ui.perfetto.dev and give it perfetto_trace.json.gz "
            f"from {self.folder}/plugins/profile."
        )

    def largest(self, count: int = 10) -> tuple[Total, ...]:
        """Return the names with the largest own time: operations if there are any, else everything.

        Parameters
        ----------
        count : int
            How many at most.

        Returns
        -------
        tuple of Total
        """
        count = whole_number("count", count)
        work = [total for total in self.totals if total.category in WORK]
        # A GPU's kernels are the same work as its operations, seen from nearer: one of the two.
        if any(total.category == "operation" for total in work):
            work = [total for total in work if total.category != "kernel"]
        return tuple((work or [total for total in self.totals if total.category != "call"])[:count])

    def rows(self) -> tuple[tuple[str, str, str, str], ...]:
        """Return the ten largest as (own time, times, kind, name), ready to print.

        Returns
        -------
        tuple of (str, str, str, str)
        """
        return tuple(
            (with_prefix(total.own_seconds, "s"), str(total.count), total.category, total.name)
            for total in self.largest()
        )

    @property
    def summary(self) -> str:
        """What it holds, in a sentence or two."""
        if not self.events:
            return "Nothing was recorded."
        parts = [f"{counted(len(self.calls), 'call')} in"] if self.calls else []
        text = " ".join([*parts, f"{with_prefix(self.seconds, 's')} on {counted(len(self.lanes), 'lane')}."])
        if self.busy_share is not None:
            text += f" An operation ran in {self.busy_share:.0%} of the calls' time."
        if self.left_out:
            text += f" The {len(self.events)} longest events; {self.left_out} shorter ones are left out."
        return text

    def __repr__(self) -> str:
        lines = [f"Timeline: {self.summary}"]
        if self.totals:
            lines.append(f"{'own time':>10}{'times':>7}  {'kind':<12}name")
            lines += [f"{own:>10}{times:>7}  {kind:<12}{name}" for own, times, kind, name in self.rows()]
        return "\n".join([*lines, *self.notes, self.how_to_open])

    def _repr_html_(self) -> str:
        style = 'style="text-align:left;white-space:nowrap"'
        cell = f"<td {style}>"
        columns = ("own time", "times", "kind", "name")
        head = "".join(f'<th scope="col" {style}>{name}</th>' for name in columns)
        body = "".join(
            "<tr>" + "".join(f"{cell}{html.escape(text)}</td>" for text in row) + "</tr>"
            for row in self.rows()
        )
        table = f'<div style="overflow-x:auto"><table><tr>{head}</tr>{body}</table></div>' if body else ""
        sentences = (self.summary, *self.notes, self.how_to_open)
        return table + "".join(f"<p>{html.escape(sentence)}</p>" for sentence in sentences)


@names_keywords
def read_timeline(path: str | os.PathLike[str], *, most_events: int = _MOST_EVENTS) -> Timeline:
    """Read a trace that JAX's profiler wrote, here or on another machine.

    Parameters
    ----------
    path : path
        A ``*.trace.json.gz`` file, or the folder given to the profiler: its newest run is taken.
    most_events : int
        How many events to keep, the longest; sums are over all of them.

    Returns
    -------
    Timeline

    Raises
    ------
    FileNotFoundError
        Nothing is there, or no trace in the folder.
    ValueError
        The file is cut short, too large, or no trace.
    """
    most_events = whole_number("most_events", most_events, most=5000)
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path is {path!r}, but must be a folder or file, such as 'my_trace'.")
    file = _find(Path(path))
    return build_timeline(_load(file), most_events, str(path) if Path(path).is_dir() else None)


def build_timeline(
    raw: Sequence[Any], most_events: int = _MOST_EVENTS, folder: str | None = None
) -> Timeline:
    """Make a timeline from Chrome trace events.

    Parameters
    ----------
    raw : sequence of mapping
        With ``ph``, ``pid``, ``tid``, ``ts``, ``dur`` and ``name``; what is malformed is left out.
    most_events : int
        How many to keep.
    folder : str, optional
        Where the files lie.

    Returns
    -------
    Timeline

    Examples
    --------
    >>> names = [{"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:TPU:0"}},
    ...          {"ph": "M", "pid": 1, "tid": 2, "name": "thread_name", "args": {"name": "XLA Ops"}}]
    >>> spans = [{"ph": "X", "pid": 1, "tid": 2, "ts": 10 * i, "dur": 6, "name": "fusion.1"} for i in (0, 1)]
    >>> made = build_timeline(names + spans)
    >>> made.rows(), [(round(gap.start, 9), round(gap.seconds, 9)) for gap in made.lanes[0].idle]
    ((('12.0 µs', '2', 'operation', 'fusion.1'),), [(6e-06, 4e-06)])
    """
    names = _names(raw)
    spans, python = _spans(raw, names)
    if not spans:
        return Timeline(notes=("The trace holds no event.",), folder=folder)
    handed = _handed_over(spans)
    ends = {id(span) for span in spans if span.name.startswith("end: ")}  # marks, read above
    spans = [span for span in [*spans, *handed] if id(span) not in ends]
    first = min(span.start for span in spans)
    lanes: dict[tuple[Any, Any], list[_Span]] = defaultdict(list)
    for span in spans:
        lanes[span.key].append(span)
    for of_lane in lanes.values():
        _nest(of_lane)
    kept, order = _bounded(lanes, names, most_events)
    seconds = max(span.end for span in spans) - first
    return Timeline(
        lanes=tuple(_lane(title, lanes[key], first) for key, title in order.items()),
        events=tuple(_event(span, list(order).index(span.key), first) for span in kept),
        totals=_totals(spans),
        seconds=seconds,
        left_out=len(spans) - len(kept),
        busy_share=_busy_share(spans),
        notes=_notes(spans, python),
        folder=folder,
    )


@dataclass(eq=False)
class _Span:
    key: tuple[Any, Any]
    name: str
    category: str
    start: float
    end: float
    run: str | None = None
    depth: int = 0
    inside: float = 0.0  # seconds of the spans directly inside it

    @property
    def seconds(self) -> float:
        return self.end - self.start


def _find(path: Path) -> Path:
    if path.is_file():
        return path
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; give the folder that the profiler wrote to.")
    found = sorted(path.rglob("*.trace.json.gz"), key=lambda file: (file.parent.stat().st_mtime, file.name))
    if not found:
        raise FileNotFoundError(
            f"{path} holds no *.trace.json.gz; give the folder that jax.profiler.trace wrote to."
        )
    return found[-1]


def _load(file: Path) -> list[Any]:
    data = file.read_bytes()
    try:
        if data[:2] == b"\x1f\x8b":
            unpacker = zlib.decompressobj(wbits=31)
            data = unpacker.decompress(data, _LARGEST_FILE)
            if not unpacker.eof:
                cut = "is cut short" if not unpacker.unconsumed_tail else "is too large to read here"
                raise ValueError(f"{file} {cut}; profile fewer calls, or open it in XProf or Perfetto.")
        found = json.loads(data)
    except (zlib.error, gzip.BadGzipFile, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{file} is no profiler's trace: {error}. It may have been cut short.") from error
    events = found.get("traceEvents") if isinstance(found, dict) else None
    if not isinstance(events, list):
        raise ValueError(f"{file} holds no list of traceEvents; was it written by another program?")
    return events


def _names(raw: Iterable[Any]) -> dict[Any, str]:
    """Names of processes, by pid, and of threads, by (pid, tid)."""
    names: dict[Any, str] = {}
    for event in raw:
        if not isinstance(event, Mapping) or event.get("ph") != "M":
            continue
        given = event.get("args", {}).get("name")
        if event.get("name") == "process_name":
            names[event.get("pid")] = str(given)
        elif event.get("name") == "thread_name":
            names[event.get("pid"), event.get("tid")] = str(given)
    return names


def _spans(raw: Iterable[Any], names: Mapping[Any, str]) -> tuple[list[_Span], int]:
    """Return every event that lasts, and how many of Python's own functions there were beside them."""
    spans, python = [], 0
    for event in raw:
        if not isinstance(event, Mapping) or event.get("ph") != "X":
            continue
        start, lasts, name = event.get("ts"), event.get("dur"), event.get("name")
        if not (_number(start) and _number(lasts) and isinstance(name, str)):
            continue
        if name.startswith("$"):
            python += 1
        elif lasts * 1e-6 >= _SHORTEST:
            key = event.get("pid"), event.get("tid")
            arguments = event.get("args")
            arguments = arguments if isinstance(arguments, Mapping) else {}
            category = _category(names.get(key[0], ""), names.get(key, ""), name, arguments)
            run = arguments.get("run_id") if category == "operation" else None
            spans.append(_Span(key, name, category, start * 1e-6, (start + lasts) * 1e-6, run))
    return spans, python


def _number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _category(process: str, thread: str, name: str, arguments: Mapping[str, Any]) -> str:
    if process.startswith("/device:") and "CUSTOM" not in process:
        if thread.startswith("Stream"):
            return "copy" if name.lower().startswith(("memcpy", "memset")) else "kernel"
        known = {
            "XLA Ops": "operation",
            "XLA Modules": "program",
            "Steps": "program",
            "Async XLA Ops": "copy",
        }
        return known.get(thread, "runtime")
    if "hlo_op" in arguments:
        return "operation"
    if _CALL.fullmatch(name):
        return "call"
    return "wait" if re.search(r"\bwait|Await|Wait", name) else "runtime"


def _handed_over(spans: Sequence[_Span]) -> list[_Span]:
    """Return the stretches in which a CPU's operation went on without an event.

    The runtime of a CPU ends an operation's event when the thread that began it is done, though other
    threads may still work on it. It lasts until the next operation of its run begins, the call returns, or
    its mark ("end: NAME") is written, whichever comes first: a mark is written after the end, at times
    long after, because the thread that writes it first runs what comes next. Marks do not name their run,
    so the first mark after an operation is its own, the next one that of its next run.
    """
    marks = defaultdict(list)
    for span in sorted(spans, key=lambda span: span.start):
        if span.name.startswith("end: "):
            marks[span.key[0], span.name].append(span.start)
    runs = defaultdict(list)
    for span in spans:
        if span.category == "operation" and span.run is not None:
            runs[span.key[0], span.run].append(span)
    if not marks:
        return []
    calls = [span for span in spans if span.category == "call"]
    found = []
    for run in sorted(runs.values(), key=lambda run: min(span.start for span in run)):
        run.sort(key=lambda span: span.start)
        reached = -math.inf
        for span, following in zip(run, [*run[1:], None], strict=True):
            reached = max(reached, span.end)
            around = [call.end for call in calls if call.start <= span.start and span.end <= call.end]
            until = following.start if following else min(around, default=span.end)
            until = min(until, _take_mark(marks[span.key[0], f"end: {span.name}"], span.end))
            if span.end >= reached and until - span.end > _AFTER_AN_END:
                key = span.key[0], "handed over"
                found.append(_Span(key, span.name, "handed over", span.end, until, span.run))
    return found


def _take_mark(marks: list[float], end: float) -> float:
    """Remove and return the first mark at about `end` or later; infinity when there is none."""
    while marks and marks[0] < end - _AFTER_AN_END:
        marks.pop(0)
    return marks.pop(0) if marks else math.inf


def _nest(spans: list[_Span]) -> None:
    """Give each span of a lane its depth, and its parent the time that it takes."""
    spans.sort(key=lambda span: (span.start, -span.end))
    open_spans: list[_Span] = []
    for span in spans:
        while open_spans and open_spans[-1].end <= span.start + _SHORTEST:
            open_spans.pop()
        span.depth = len(open_spans)
        if open_spans:
            open_spans[-1].inside += min(span.end, open_spans[-1].end) - span.start
        open_spans.append(span)


def _bounded(
    lanes: Mapping[tuple[Any, Any], list[_Span]], names: Mapping[Any, str], most: int
) -> tuple[list[_Span], dict[tuple[Any, Any], tuple[str, str]]]:
    """Return the spans to keep, in order, and the lanes that are left, with their (name, process)."""

    def weight(key: tuple[Any, Any]) -> tuple[bool, float, float]:
        spans = lanes[key]
        work = sum(span.seconds for span in spans if span.category in WORK)
        marked = any(span.category == "call" for span in spans)
        return marked, work, max(span.seconds for span in spans)

    ranked = sorted(lanes, key=weight, reverse=True)[:_MOST_LANES]
    candidates = [span for key in ranked for span in lanes[key]]
    candidates.sort(key=lambda span: (span.category != "call", -span.seconds))
    kept = candidates[:most]
    left = {span.key for span in kept}
    titles = _titles([key for key in ranked if key in left], names)
    place = {key: i for i, key in enumerate(titles)}
    kept.sort(key=lambda span: (place[span.key], span.start, span.depth))
    return kept, titles


def _titles(keys: list[tuple[Any, Any]], names: Mapping[Any, str]) -> dict[tuple[Any, Any], tuple[str, str]]:
    """Name lanes: the host first; a thread's number in place of its id, which differs at each run."""
    processes = {key: names.get(key[0], "unknown") for key in keys}
    keys = sorted(keys, key=lambda key: processes[key].startswith("/device:"))  # stable: else as ranked
    plain = {key: names.get(key, str(key[1])).split("/")[0].removeprefix("tf_") for key in keys}
    many, seen = Counter((key[0], plain[key]) for key in keys), Counter[tuple[Any, str]]()
    titles = {}
    for key in keys:
        name = plain[key] or "unnamed"
        seen[key[0], plain[key]] += 1
        if many[key[0], plain[key]] > 1:
            name += f" {seen[key[0], plain[key]]}"
        process = processes[key]
        titles[key] = (name, process.removeprefix("/device:") if process.startswith("/device:") else "host")
    return titles


def _lane(title: tuple[str, str], spans: Sequence[_Span], first: float) -> Lane:
    covered = _union((span.start, span.end) for span in spans)
    gaps = (Idle(a[1] - first, b[0] - a[1]) for a, b in itertools.pairwise(covered))
    longest = sorted(gaps, key=lambda gap: -gap.seconds)[:_MOST_IDLE]
    return Lane(*title, len(spans), sum(end - start for start, end in covered), tuple(longest))


def _event(span: _Span, lane: int, first: float) -> Event:
    own = max(0.0, span.seconds - span.inside)
    return Event(span.name, span.category, lane, span.start - first, span.seconds, own, span.depth)


def _union(stretches: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    joined: list[tuple[float, float]] = []
    for start, end in sorted(stretches):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined


def _totals(spans: Iterable[_Span]) -> tuple[Total, ...]:
    groups = defaultdict(list)
    for span in spans:
        groups[span.name, span.category].append(span)
    totals = [
        Total(
            name,
            category,
            len(group),
            sum(span.seconds for span in group),
            sum(max(0.0, span.seconds - span.inside) for span in group),
        )
        for (name, category), group in groups.items()
    ]
    # Work first: a reader's operations must not be crowded out by a runtime's many names.
    totals.sort(key=lambda total: (total.category not in WORK, -total.own_seconds, total.name))
    return tuple(totals[:_MOST_TOTALS])


def _busy_share(spans: Sequence[_Span]) -> float | None:
    calls = _union((span.start, span.end) for span in spans if span.category == "call")
    work = _union((span.start, span.end) for span in spans if span.category in WORK)
    if not calls or not work:
        return None
    both = sum(
        max(0.0, min(call[1], stretch[1]) - max(call[0], stretch[0])) for call in calls for stretch in work
    )
    return both / sum(end - start for start, end in calls)


def _notes(spans: Sequence[_Span], python: int) -> tuple[str, ...]:
    categories = {span.category for span in spans}
    notes = []
    if not categories & set(WORK):
        notes.append(
            "This JAX records no single operation on this device: calls and the runtime are all there is."
        )
    if "handed over" in categories:
        notes.append(
            "On a CPU an operation's event ends when its thread is done. Work that other threads go on "
            "with has no event: it is shown as handed over, until the next operation or the call's end."
        )
    if python:
        notes.append(f"{counted(python, 'event')} of Python's own functions are left out.")
    return tuple(notes)
