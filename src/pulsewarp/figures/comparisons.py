"""How the times of two sets of measurements relate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from pulsewarp._checks import instance, names_keywords
from pulsewarp._text import counted
from pulsewarp.bench.comparison import COVERAGE, ComparedRow, Comparison
from pulsewarp.bench.measurement import with_prefix
from pulsewarp.figures._style import (
    INK,
    MUTED,
    SMALL,
    error_bars,
    laid_out,
    name_row,
    without_row_ticks,
    wrapped,
)

_TICKS = (
    *(0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 5, 10),
    *(30, 100, 300, 1000),
)
_LABEL_SHARE = 0.11  # of the width of a phone's figure, which a label of a ratio takes


@names_keywords
def ratios(compared: Comparison) -> go.Figure:
    """Show how the times of two sets of measurements relate, row by row, with the interval of each ratio.

    Parameters
    ----------
    compared : Comparison
        What `pulsewarp.bench.compare` returned, with at least one row.

    Returns
    -------
    go.Figure
        Filled marks: the interval lies on one side of 1. Open marks: it does not, or there is none.

    Raises
    ------
    ValueError
        When the two sets have nothing in common.

    Examples
    --------
    >>> from pulsewarp import bench
    >>> runs = bench.recorded()
    >>> list(ratios(bench.compare(runs, runs[:2])).data[0].x)
    [1.0, 1.0]
    """
    rows = instance("compared", compared, Comparison, "pass what bench.compare returned").rows
    first, second = compared.names
    if not rows:
        raise ValueError(f"{first} and {second} have no row in common, so there is no ratio to draw.")
    low = [row.low or row.ratio for row in rows]
    high = [row.high or row.ratio for row in rows]
    centres = [row.ratio for row in rows]
    settled = [row.verdict in ("faster", "slower") for row in rows]
    figure = go.Figure()
    figure.add_scatter(
        x=centres,
        y=list(range(len(rows))),
        error_x=error_bars(centres, low, high),
        name=f"{second} over {first}, {COVERAGE:.0%} interval<br>open: no difference seen, or few repeats",
        mode="markers",
        marker={
            "symbol": ["circle" if each else "circle-open" for each in settled],
            "size": 9,
            "color": INK,
            "line": {"width": 1.5, "color": INK},
        },
        hovertext=[_ratio_in_words(row, compared.names) for row in rows],
        hoverinfo="text",
    )
    span = min(*low, 1.0) / 1.2, max(*high, 1.0) * 1.2
    figure.add_vline(x=1, line={"color": MUTED, "width": 1.5, "dash": "dash"})
    ticks = _apart([tick for tick in _TICKS if span[0] <= tick <= span[1]], span)
    figure.update_xaxes(
        type="log",
        range=[float(np.log10(end)) for end in span],
        tickvals=ticks,
        ticktext=[f"{tick:g}" for tick in ticks],
        tickangle=0,
        title={"text": "Time ratio (log scale); left of 1 is faster"},
    )
    for i, row in enumerate(rows):
        name_row(figure, i, f"{row.title}: {row.ratio:.3g}", **SMALL, yshift=7)
    figure.update_yaxes(range=[len(rows) - 0.4, -0.9])
    laid_out(figure, f"{second} against {first}", " ".join(compared.differences), 60 + 46 * len(rows))
    return without_row_ticks(figure, grid=True)


def _ratio_in_words(row: ComparedRow, names: tuple[str, str]) -> str:
    times = [
        f"{name}: {with_prefix(run.median, 's')}, {counted(len(run.seconds), 'repeat')}"
        for name, run in zip(names, (row.first, row.second), strict=True)
    ]
    between = "" if row.low is None else f", {COVERAGE:.0%} interval {row.low:.3g} to {row.high:.3g}"
    return wrapped([row.title, *times, f"ratio {row.ratio:.3g}{between}: {row.verdict}", *row.differences])


def _apart(ticks: Sequence[float], span: tuple[float, float]) -> list[float]:
    """Return 1 and those ticks, outwards from it, whose labels do not touch on a phone."""
    apart = _LABEL_SHARE * float(np.log10(span[1] / span[0]))
    kept = [1.0]
    for side in ([tick for tick in ticks if tick > 1], [tick for tick in reversed(ticks) if tick < 1]):
        last = 1.0
        for tick in side:
            if abs(float(np.log10(tick / last))) >= apart:
                kept.append(tick)
                last = tick
    return sorted(kept)
