"""Measured times beside what the roofline predicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import cycle

import plotly.graph_objects as go

from pulsewarp import roofline as ceilings
from pulsewarp._checks import names_keywords
from pulsewarp.bench.gaps import own_chip
from pulsewarp.bench.measurement import Measurement, with_prefix
from pulsewarp.chips import Chip
from pulsewarp.figures._measured import (
    group_name,
    groups_of,
    mark_of,
    run_in_words,
    several_chips,
    several_runs,
    shape_of,
)
from pulsewarp.figures._style import (
    INK,
    MARKS,
    STYLES,
    error_bars,
    laid_out,
    log_axis,
    name_row,
    without_row_ticks,
)


@names_keywords
def measured_against_predicted(
    measurements: Iterable[Measurement], chip: str | Chip | None = None, dtype: str | None = None
) -> go.Figure:
    """Show each product's measured time beside the roofline bound, and name their ratio.

    Parameters
    ----------
    measurements : iterable of Measurement
        At least one.
    chip : str or Chip, optional
        Whose ceilings to predict from. Left out, each measurement's own chip, and of a chip whose
        cores are separate devices the share of one device. Where the catalogue has no ceiling for
        it, as for a CPU, the figure shows what was measured alone, and says so.
    dtype : str, optional
        Name of the peak, when it is not that of the product's dtype, such as "tf32".

    Returns
    -------
    go.Figure

    Raises
    ------
    ValueError
        No measurement, an unknown chip, or a chip that was named and has no such ceiling.

    Notes
    -----
    The prediction is `pulsewarp.roofline.bound`.

    Examples
    --------
    >>> from pulsewarp import bench
    >>> figure = measured_against_predicted(bench.recorded(), chip="tpu_v5e", dtype="bf16")
    >>> figure.data[0].name
    'roofline bound, bf16 on TPU v5e'
    """
    runs = several_runs(measurements)
    if not runs:
        raise ValueError("measurements is empty; give at least one, for example bench.recorded().")
    bounds = [_bound(run, chip, dtype) for run in runs]
    rows = list(dict.fromkeys(shape_of(run) for run in runs))
    figure = go.Figure()
    known = [bound for bound in bounds if bound is not None]
    _add_bounds(figure, [(shape_of(run), bound) for run, bound in zip(runs, bounds, strict=True) if bound])
    groups = groups_of(runs)
    for group, mark in zip(groups, cycle(MARKS), strict=False):
        own = [_bound(run, chip, dtype) for run in group]
        _add_times(figure, group, own, mark, named=len(groups) == 1)
    seconds = [float(value) for trace in figure.data for value in trace.x]
    low, high = min(seconds) / 3, max(seconds) * 3
    if len(groups) == 1:
        high *= (high / low) ** 0.4  # room for the ratios that stand beside the marks
    log_axis(figure.layout.xaxis, "Seconds a product (log scale)", (low, high))
    figure.update_yaxes(categoryorder="array", categoryarray=rows[::-1], range=[-0.6, len(rows) - 0.4])
    for row in rows:
        name_row(figure, row, row, yshift=7)
    sentences = [
        f"Bound: published ceilings of {name}, catalogue of {date}."
        for name, date in sorted({(bound.chip.name, bound.chip.as_of) for bound in known})
    ]
    unknown = sorted({run.device.label for run, bound in zip(runs, bounds, strict=True) if bound is None})
    sentences += [f"No published ceiling is known for {name}, so nothing is predicted." for name in unknown]
    if any(run.origin == "recorded" for run in runs):
        sentences.append("Open marks are recorded runs.")
    laid_out(figure, "Measured against predicted", " ".join(sentences), plot_height=60 + 46 * len(rows))
    return without_row_ticks(figure, grid=True)


def _bound(run: Measurement, chip: str | Chip | None, dtype: str | None) -> ceilings.Bound | None:
    """Return the roofline bound of a run; None where the catalogue has no ceiling for its device."""
    if chip is not None:
        return ceilings.bound(run.matmul, several_chips(chip)[0], dtype)
    own = own_chip(run.device)
    if own is None:
        return None
    if not own.has_roofline or (dtype or run.matmul.dtype) not in own.peak_flops_per_second:
        return None
    return ceilings.bound(run.matmul, own, dtype)


def _add_bounds(figure: go.Figure, bounds: Iterable[tuple[str, ceilings.Bound]]) -> None:
    """Mark the bound in each row: one trace for each chip and dtype."""
    kinds: dict[tuple[str, str], dict[str, ceilings.Bound]] = {}
    for row, bound in bounds:
        kinds.setdefault((bound.dtype, bound.chip.name), {})[row] = bound
    for ((dtype, name), own), (color, _, _) in zip(kinds.items(), cycle(STYLES), strict=False):
        figure.add_scatter(
            x=[bound.seconds for bound in own.values()],
            y=list(own),
            name=f"roofline bound, {dtype} on {name}",
            mode="markers",
            marker={
                "symbol": "line-ns-open",
                "size": 13,
                "color": color,
                "line": {"width": 3, "color": color},
            },
            hovertext=[
                f"{row}: at best {with_prefix(bound.seconds, 's')} on {name}, limited by {bound.limit}"
                for row, bound in own.items()
            ],
            hoverinfo="text",
        )


def _add_times(
    figure: go.Figure,
    runs: Sequence[Measurement],
    bounds: Sequence[ceilings.Bound | None],
    mark: str,
    named: bool,
) -> None:
    """Mark measured times in their rows; `named` also writes beside each its ratio, or else its time."""
    seconds = [run.median for run in runs]
    ratios = [
        "" if bound is None else f"{run.median / bound.seconds:.3g} x bound"
        for run, bound in zip(runs, bounds, strict=True)
    ]
    figure.add_scatter(
        x=seconds,
        y=[shape_of(run) for run in runs],
        error_x=error_bars(seconds, [run.quartiles[0] for run in runs], [run.quartiles[1] for run in runs]),
        name=group_name(runs),
        mode="markers+text" if named else "markers",
        text=[f"  {ratio or with_prefix(value, 's')}" for value, ratio in zip(seconds, ratios, strict=True)],
        textposition="middle right",
        textfont={"color": INK, "size": 12},
        marker=mark_of(runs[0], mark),
        hovertext=[
            "<br>".join([run_in_words(run), *([ratio] if ratio else [])])
            for run, ratio in zip(runs, ratios, strict=True)
        ],
        hoverinfo="text",
    )
