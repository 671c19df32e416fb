"""What every figure looks like: paper and ink, marks, ticks, the rows' names, title and legend."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from pulsewarp.bench.measurement import with_prefix

INK, MUTED, HAIRLINE, PAPER = "#1d2733", "#5f6b78", "#d5dbe1", "#ffffff"
BLUE, ORANGE, GREEN, VIOLET = "#0072B2", "#b05400", "#00795a", "#7f5599"
# Their pale partners fill a bar, so that its name can be read on it in ink.
PALE_BLUE, PALE_ORANGE, PALE_GREEN = "#d3e6f3", "#f6e3d3", "#d6ece6"
PALE_VIOLET, PALE_MUTED = "#e6ddec", "#e8ebee"

# Dark enough for paper and apart from each other under the three common colour blindnesses; dash and
# mark differ too, so that none of it hangs on colour.
STYLES = (
    (BLUE, "solid", "circle"),
    (ORANGE, "dash", "square"),
    (GREEN, "dot", "diamond"),
    (VIOLET, "dashdot", "triangle-up"),
    (INK, "longdash", "triangle-down"),
    (MUTED, "longdashdot", "pentagon"),
)
MARKS = ("circle", "diamond", "square", "triangle-up", "triangle-down", "pentagon", "star", "hexagon")
SMALL: dict[str, Any] = {"font": {"size": 12}, "bgcolor": PAPER}  # so that no line runs through the words
# Fill, edge and pattern of a bar that means arithmetic at its peak, and of one that means memory.
ARITHMETIC = (PALE_GREEN, GREEN, "")
MEMORY = (PALE_BLUE, BLUE, "/")

# A figure brings its paper along: it is a value, so it cannot ask whether its host is dark, and no ink alone
# has 4.5 to 1 on white and on the dark ground of a notebook. A page that knows turns its figures into dark
# partners of the same hues, near those of the scenes, and lets its ground show for their paper.
ON_PAPER = "pw-figure"  # class of what holds such a figure
PAGE_STYLE = f"""
@media screen and (prefers-color-scheme: dark) {{
  .{ON_PAPER} {{ filter: invert(0.92) hue-rotate(180deg); mix-blend-mode: lighten; }}
}}
"""

# Mantissas of the ticks of a log axis; the first that give so many are taken. No axis here is shorter than a
# factor of four, in which the last always do.
_MANTISSAS, _FEWEST_TICKS = ((1,), (1, 2, 5), (1, 1.5, 2, 3, 5, 7)), 3


def log_axis(axis: Any, title: str, span: tuple[float, float]) -> None:
    """Make an axis logarithmic over `span`, with ticks in SI prefixes: decades, and between them if few."""
    ticks = next(
        ticks for ticks in (_ticks(span, each) for each in _MANTISSAS) if len(ticks) >= _FEWEST_TICKS
    )
    texts = [with_prefix(tick, "").split(" ") for tick in ticks]
    axis.update(
        type="log",
        title={"text": title},
        range=[float(np.log10(end)) for end in span],
        tickvals=ticks,
        ticktext=[f"{float(number):g} {prefix}".strip() for number, prefix in texts],
    )


def _ticks(span: tuple[float, float], mantissas: Sequence[float]) -> list[float]:
    """Return what lies in `span` of the mantissas times powers of ten."""
    first, last = (int(np.floor(np.log10(end))) for end in span)
    every = [float(f"{each}e{power}") for power in range(first, last + 1) for each in mantissas]
    return [tick for tick in every if span[0] <= tick <= span[1]]


def error_bars(middle: Sequence[float], low: Sequence[float], high: Sequence[float]) -> dict[str, object]:
    """Bars from `low` to `high`, as Plotly wants them: distances from the middle."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [end - value for value, end in zip(middle, high, strict=True)],
        "arrayminus": [value - end for value, end in zip(middle, low, strict=True)],
        "thickness": 1.5,
        "width": 0,
    }


def wrapped(sentences: Iterable[str]) -> str:
    """Join sentences as lines of a hover box that fits on a phone."""
    return "<br>".join(line for sentence in sentences for line in textwrap.wrap(sentence, 46))


def laid_out(figure: go.Figure, title: str, subtitle: str, plot_height: int) -> go.Figure:
    """Give a figure the house's paper, ink and type, and a legend below that a phone can read."""
    lines = textwrap.wrap(subtitle, 52)
    entries = [str(trace.name) for trace in figure.data if trace.showlegend is not False]
    head = 54 + 16 * len(lines)
    legend = sum(10 + 17 * (1 + name.count("<br>")) for name in entries)
    below = 64  # tick labels and the title of the axis
    large = f'<span style="font-size:18px"><b>{title}</b></span>'
    figure.update_layout(
        template="none",
        title={"text": "<br>".join([large, *lines]), "font": {"size": 12}},
        font={"family": "system-ui, sans-serif", "size": 13, "color": INK},
        paper_bgcolor=PAPER,
        plot_bgcolor=PAPER,
        margin={"l": 64, "r": 16, "t": head, "b": below},
        height=head + plot_height + below + legend,
        showlegend=True,
        legend={"orientation": "h", "x": 0, "xanchor": "left", "font": {"size": 12}},
        hoverlabel={"bgcolor": PAPER, "font": {"color": INK, "size": 13}, "align": "left"},
    )
    figure.update_layout(
        title={
            "xref": "container",
            "x": 0,
            "yref": "container",
            "y": 1,
            "yanchor": "top",
            "pad": {"t": 24, "l": 12},
        },
        legend={"y": -below / plot_height, "yanchor": "top"},
    )
    for axis in (figure.layout.xaxis, figure.layout.yaxis):
        axis.update(gridcolor=HAIRLINE, linecolor=MUTED, showline=True, zeroline=False, ticks="outside")
        axis.title.font.size = 13
    figure.layout.yaxis.automargin = "left"
    return figure


def is_on_paper(layout: Mapping[str, Any]) -> bool:
    """Tell whether a figure's layout, as JSON has it, is one of ours; of others' colours nothing is known."""
    return (layout.get("paper_bgcolor"), layout.get("font", {}).get("color")) == (PAPER, INK)


def name_row(figure: go.Figure, row: float | str, words: str, **how: Any) -> None:
    """Write a row's name above it; beside the axis it would take half of a phone."""
    figure.add_annotation(
        {"x": 0, "xref": "paper", "xanchor": "left", "y": row, "yanchor": "bottom", **how},
        text=words,
        showarrow=False,
    )


def without_row_ticks(figure: go.Figure, grid: bool = False) -> go.Figure:
    """Take away what an axis of rows would say, since the rows carry their names."""
    figure.update_yaxes(ticks="", showticklabels=False)
    if not grid:
        figure.update_yaxes(showgrid=False)
    figure.layout.margin.l = 16
    return figure
