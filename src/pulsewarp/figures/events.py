"""Where the time of a few calls went: a profiler's events in their lanes."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from pulsewarp._checks import instance, names_keywords
from pulsewarp.bench.measurement import with_prefix
from pulsewarp.bench.timeline import CATEGORIES, Event, Timeline
from pulsewarp.figures._style import (
    BLUE,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    PALE_BLUE,
    PALE_GREEN,
    PALE_MUTED,
    PALE_ORANGE,
    PALE_VIOLET,
    PAPER,
    VIOLET,
    laid_out,
    name_row,
    without_row_ticks,
    wrapped,
)

# Fill, edge and pattern of each kind of event: pale, so that its name can be read on it.
_STYLES = {
    "call": (PAPER, INK, ""),
    "operation": (PALE_BLUE, BLUE, ""),
    "handed over": ("#eaf3f9", BLUE, "/"),
    "kernel": (PALE_VIOLET, VIOLET, ""),
    "copy": (PALE_ORANGE, ORANGE, "x"),
    "program": (PALE_GREEN, GREEN, ""),
    "wait": (PAPER, MUTED, "."),
    "runtime": (PALE_MUTED, MUTED, ""),
}
_DEEPEST_ROW = 3


@names_keywords
def timeline(taken: Timeline) -> go.Figure:
    """Draw where the time of a few calls went: a lane for each thread or queue, a bar for each event.

    What lies inside an event stands in the row below it; deeper than three, in the lowest row. The longest
    events are drawn, those left out are counted in the title. The ten names with most time are in the
    timeline itself, as a table.

    Parameters
    ----------
    taken : Timeline
        From `bench.profile` or `bench.read_timeline`.

    Returns
    -------
    go.Figure
        A trace for each kind of event.

    Raises
    ------
    TypeError
        When it is no Timeline.

    Examples
    --------
    >>> from pulsewarp.bench.timeline import build_timeline
    >>> spans = [{"ph": "X", "pid": 1, "tid": 2, "ts": 0, "dur": 6, "name": "f", "args": {"hlo_op": "f"}}]
    >>> figure = timeline(build_timeline(spans))
    >>> figure.data[0].name, figure.data[0].hovertext[0].split("<br>")[0]
    ('operation: of the compiled program', 'f')
    """
    instance("timeline", taken, Timeline, "pass what bench.profile or bench.read_timeline returned")
    figure = go.Figure()
    tops, height = _lane_rows(taken)
    for category in CATEGORIES:
        events = [event for event in taken.events if event.category == category]
        if events:
            _add_events(figure, taken, category, events, [_row_of(event, tops) for event in events])
    figure.update_layout(barmode="overlay", uniformtext={"minsize": 11, "mode": "hide"})
    span = taken.seconds or 1e-3
    figure.update_xaxes(
        title_text="Time since the first event",
        tickformat="~s",
        ticksuffix="s",
        nticks=8,
        range=[-0.01 * span, 1.01 * span],
    )
    figure.update_yaxes(range=[-height - 0.3, 0.2], title_text="")
    for lane, top in zip(taken.lanes, tops, strict=True):
        name_row(figure, top, f"<b>{lane.process}</b> {lane.name}", yanchor="top")
    sentences = " ".join([taken.summary, *taken.notes])
    laid_out(figure, "Where the time of the calls went", sentences, plot_height=60 + round(24 * height))
    return without_row_ticks(figure)


def _lane_rows(taken: Timeline) -> tuple[list[float], float]:
    """Return where each lane begins, downwards from 0, and how many rows there are in all."""
    tops, at = [], 0.0
    for place in range(len(taken.lanes)):
        tops.append(-at)
        depths = [event.depth for event in taken.events if event.lane == place]
        at += 2.3 + min(_DEEPEST_ROW, max(depths, default=0))  # a label's row, the events', a little air
    return tops, max(at, 1.0)


def _row_of(event: Event, tops: Sequence[float]) -> float:
    return tops[event.lane] - 1.4 - min(_DEEPEST_ROW, event.depth)


def _add_events(
    figure: go.Figure, taken: Timeline, category: str, events: Sequence[Event], rows: Sequence[float]
) -> None:
    fill, edge, pattern = _STYLES[category]
    figure.add_bar(
        x=[event.seconds for event in events],
        base=[event.start for event in events],
        y=rows,
        orientation="h",
        width=0.84,
        name=f"{category}: {CATEGORIES[category]}",
        text=[event.name for event in events],
        textposition="inside",
        insidetextanchor="start",
        textangle=0,
        insidetextfont={"color": INK, "size": 12},
        constraintext="inside",
        marker={
            "color": fill,
            "line": {"color": edge, "width": 1},
            "pattern": {
                "shape": pattern,
                "fgcolor": edge,
                "fgopacity": 0.4,  # a name is written on it
                "bgcolor": fill,
                "size": 6,
                "solidity": 0.15,
            },
        },
        hovertext=[
            wrapped(
                [
                    event.name,
                    f"{category} on {taken.lanes[event.lane].process}, {taken.lanes[event.lane].name}",
                    f"from {with_prefix(event.start, 's')}, {with_prefix(event.seconds, 's')} long",
                    f"{with_prefix(event.own_seconds, 's')} without what lies inside it",
                ]
            )
            for event in events
        ],
        hoverinfo="text",
    )
