"""Rooflines, and measured products below them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import cycle

import numpy as np
import plotly.graph_objects as go

from pulsewarp import chips
from pulsewarp import roofline as ceilings
from pulsewarp._checks import choice, names_keywords
from pulsewarp.bench.measured_ceilings import MEASURED_HERE
from pulsewarp.bench.measurement import Measurement, with_prefix
from pulsewarp.chips import Chip
from pulsewarp.figures._measured import (
    group_name,
    groups_of,
    mark_of,
    rate_unit,
    run_in_words,
    several_chips,
    several_runs,
)
from pulsewarp.figures._style import MARKS, PAPER, STYLES, error_bars, laid_out, log_axis, wrapped

_NOTHING_DRAWN = (1.0, 1e3)  # range of either axis when there is neither a roof nor a point


@names_keywords
def roofline(
    chip_ids: str | Chip | Iterable[str | Chip],
    measurements: Iterable[Measurement] = (),
    dtype: str = "bf16",
) -> go.Figure:
    """Draw the roof of each chip, and measured products below it.

    Drawn are the dense peak and the bandwidth of main memory. Not drawn: caches, launch, power
    limits. A measured point may lie above a slope where its operands stayed in a cache.

    Parameters
    ----------
    chip_ids : str, Chip or iterable of them
        Catalogue ids, or chips such as `Chip.per_jax_device` gives, or a device's own measured roof as
        ``bench.ceilings().as_chip()`` gives it, which is labelled so. None of them is fine.
    measurements : iterable of Measurement
        Live and recorded ones look different: filled and open marks. The bars are quartiles.
    dtype : str
        Name of the peak to draw; a point keeps its own dtype, which the legend names.

    Returns
    -------
    go.Figure

    Raises
    ------
    ValueError
        An unknown chip, or one whose peak or bandwidth is unknown or a projection.

    Notes
    -----
    The roofs are `pulsewarp.roofline.attainable`, the marks on them `pulsewarp.roofline.ridge_point`.

    Examples
    --------
    >>> figure = roofline("tpu_v5e")
    >>> [trace.name for trace in figure.data]
    ['TPU v5e, ridge 241 FLOP/B<br>197 TFLOP/s, 819 GB/s', 'ridge point of TPU v5e']
    """
    choice("dtype", dtype, chips.PEAK_DTYPES)
    known = several_chips(chip_ids)
    runs = several_runs(measurements)
    unit = rate_unit(dtype)
    ridges = [ceilings.ridge_point(chip, dtype) for chip in known]
    reached = (*ridges, *(run.matmul.intensity for run in runs)) or _NOTHING_DRAWN
    span = min(1.0, min(reached) / 2), max(10.0, 4 * max(reached))
    figure = go.Figure()
    for chip, ridge, style in zip(known, ridges, cycle(STYLES), strict=False):
        _add_roof(figure, chip, dtype, ridge, span, style)
    for group, mark in zip(groups_of(runs), cycle(MARKS), strict=False):
        _add_points(figure, group, mark)
    rates = [float(rate) for trace in figure.data for rate in trace.y] or [*_NOTHING_DRAWN]
    log_axis(figure.layout.xaxis, f"Arithmetic intensity ({unit.removesuffix('/s')}/B, log scale)", span)
    figure.update_xaxes(ticktext=[f"{tick:g}" for tick in figure.layout.xaxis.tickvals])
    log_axis(figure.layout.yaxis, f"Rate ({unit}, log scale)", (min(rates) / 2, max(rates) * 2))
    subtitle = _about_roofs(known, dtype)
    if runs:
        subtitle += " Other marks: measured; filled = live, open = recorded."
    return laid_out(figure, "Roofline", subtitle, plot_height=380)


def _about_roofs(known: Sequence[Chip], dtype: str) -> str:
    """Say where the roofs come from: the catalogue, this machine's own measuring, or both."""
    published = sorted({chip.as_of for chip in known if chip.status != MEASURED_HERE})
    if not known:
        return "No published ceiling is drawn."
    if not published:
        return f"Lines: {dtype} peak and memory bandwidth, {MEASURED_HERE}; ridges marked."
    catalogue = f"catalogue of {' and '.join(published)}"
    if all(chip.status != MEASURED_HERE for chip in known):
        return f"Lines: published dense {dtype} peak and memory bandwidth, {catalogue}; ridges marked."
    return (
        f"Lines: dense {dtype} peak and memory bandwidth, published ({catalogue}) or, where the name "
        "says so, measured here; ridges marked."
    )


def _add_roof(
    figure: go.Figure,
    chip: Chip,
    dtype: str,
    ridge: float,
    span: tuple[float, float],
    style: tuple[str, str, str],
) -> None:
    color, dash, mark = style
    unit = rate_unit(dtype)
    per_byte = f"{unit.removesuffix('/s')}/B"
    at = np.unique(np.append(np.geomspace(*span, 60), ridge))
    roof = np.asarray(ceilings.attainable(chip, dtype, at))
    peak = float(ceilings.attainable(chip, dtype, ridge))
    bandwidth = chip.bandwidth_bytes_per_second or 0.0  # attainable has refused a chip without one
    figure.add_scatter(
        x=at,
        y=roof,
        name=f"{chip.name}, ridge {ridge:.0f} {per_byte}<br>"
        f"{with_prefix(peak, unit)}, {with_prefix(bandwidth, 'B/s')}",
        legendgroup=chip.name,
        mode="lines",
        line={"color": color, "dash": dash, "width": 2.5},
        hovertext=[
            f"{chip.name} at {x:.3g} {per_byte}: at most {with_prefix(y, unit)}, "
            f"limited by {'memory' if x < ridge else 'compute'}"
            for x, y in zip(at, roof, strict=True)
        ],
        hoverinfo="text",
    )
    peak_source = chip.source(f"peak_flops_per_second.{dtype}")
    bandwidth_source = chip.source("bandwidth_bytes_per_second")
    words = [
        f"{chip.name}: from {ridge:.3g} {per_byte} on compute limits, below it memory does",
        f"Peak: {peak_source.title}, {peak_source.date}",
        f"Bandwidth: {bandwidth_source.title}, {bandwidth_source.date}",
        *([chip.caveat] if chip.caveat else []),
    ]
    figure.add_scatter(
        x=[ridge],
        y=[peak],
        name=f"ridge point of {chip.name}",
        legendgroup=chip.name,
        showlegend=False,
        mode="markers",
        marker={"symbol": mark, "size": 11, "color": color, "line": {"color": PAPER, "width": 1}},
        hovertext=[wrapped(words)],
        hoverinfo="text",
    )


def _add_points(figure: go.Figure, runs: Sequence[Measurement], mark: str) -> None:
    rates = [run.flops_per_second for run in runs]
    slow = [run.matmul.flops / run.quartiles[1] for run in runs]
    fast = [run.matmul.flops / run.quartiles[0] for run in runs]
    figure.add_scatter(
        x=[run.matmul.intensity for run in runs],
        y=rates,
        error_y=error_bars(rates, slow, fast),
        name=group_name(runs),
        mode="markers",
        marker=mark_of(runs[0], mark),
        hovertext=[run_in_words(run) for run in runs],
        hoverinfo="text",
    )
