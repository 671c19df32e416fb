"""Scaling: how much faster several devices work than one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import cycle

import numpy as np
import plotly.graph_objects as go

from pulsewarp._checks import instance, names_keywords, several
from pulsewarp._text import counted
from pulsewarp.bench.measurement import with_prefix
from pulsewarp.bench.sharded_measurement import ShardedMeasurement
from pulsewarp.figures._style import MUTED, PAPER, STYLES, laid_out, wrapped


@names_keywords
def scaling(runs: Iterable[ShardedMeasurement]) -> go.Figure:
    """Draw how much faster several devices work than one, beside the ideal, and what communication costs.

    Work is operations in a second, so that strong and weak scaling stand on the same axis: ideal is as many
    times the work of one device as there are devices.

    Parameters
    ----------
    runs : iterable of ShardedMeasurement
        What `bench.scaling` returned, of one split or of several. Each split needs a run on one device.

    Returns
    -------
    go.Figure
        The ideal, and for each split a line through what was measured, and marks for the same local products
        without their exchange where that was measured.

    Raises
    ------
    ValueError
        No run, or a split without one on a single device.

    Examples
    --------
    >>> from pulsewarp.bench.measurement import MeasuredDevice
    >>> from pulsewarp.matmul import Matmul
    >>> given = dict(
    ...     matmul=Matmul(64, 64, 64, "fp32"), split="rows", gather=False, processes=1, collectives=(),
    ...     device=MeasuredDevice("gpu", "Example GPU", None, 1, "Example CPU", 16), clock="call",
    ...     precision="highest", precision_in_program="highest", products_per_repeat=1, compile_seconds=0.1,
    ...     warmup_calls=3, relative_error=1e-7, error_rows=64, seed=0, versions={}, when="2026-12-01T12:00Z")
    >>> one, two = (ShardedMeasurement(devices=d, seconds=(s,), **given) for d, s in ((1, 4e-4), (2, 2.5e-4)))
    >>> ideal, measured = scaling([one, two]).data
    >>> list(measured.x), list(measured.y)
    ([1, 2], [1.0, 1.6])
    """
    remedy = "pass what bench.scaling returned"
    listed = several("runs", runs, remedy)
    groups: dict[tuple[object, ...], list[ShardedMeasurement]] = {}
    for run in listed:
        instance("A run", run, ShardedMeasurement, remedy)
        key = (run.split, run.gather, run.device.label, run.origin, run.matmul.dtype, run.precision)
        groups.setdefault(key, []).append(run)
    if not groups:
        raise ValueError(f"runs is empty; {remedy}.")
    most = max(run.devices for run in listed)
    figure = go.Figure()
    figure.add_scatter(
        x=[1, most],
        y=[1, most],
        name="ideal",
        mode="lines",
        line={"color": MUTED, "dash": "dot", "width": 2},
        hoverinfo="skip",
    )
    for group, style in zip(groups.values(), cycle(STYLES), strict=False):
        _add_scaling(figure, sorted(group, key=lambda run: run.devices), style, alone=len(groups) == 1)
    counts = sorted({run.devices for run in listed})
    figure.update_xaxes(title_text="Devices (log scale)", type="log", tickvals=counts, ticktext=counts)
    figure.update_xaxes(range=[np.log10(0.9), np.log10(1.15 * most)])
    figure.update_yaxes(title_text="Work in a second, times one device (log scale)", title_standoff=14)
    lowest = min(float(value) for trace in figure.data for value in trace.y)
    ticks = [2.0**power for power in range(int(np.floor(np.log2(lowest))), most.bit_length() + 1)]
    figure.update_yaxes(type="log", tickvals=ticks, ticktext=[f"{tick:g}" for tick in ticks])
    figure.update_yaxes(range=[np.log10(lowest / 1.5), np.log10(1.2 * most)])  # room for the last percentage
    sentences = ["Percentages: what the exchange adds, as a part of the time; none where there is none."]
    if any(run.origin == "recorded" for run in listed):
        sentences.append("Open marks are recorded runs.")
    if any(run.is_one_cpu for run in listed):
        sentences.append(
            "The devices are parts of one CPU and share its cores, so no gain is to be expected."
        )
    return laid_out(figure, "Scaling", " ".join(sentences), plot_height=340)


def _add_scaling(
    figure: go.Figure, runs: Sequence[ShardedMeasurement], style: tuple[str, str, str], alone: bool
) -> None:
    """Draw runs of one split; percentages stand beside each mark where it is `alone`, else at the last."""
    color, dash, mark = style
    first = runs[0]
    if first.devices != 1:
        raise ValueError(
            f"The runs split by {first.split} begin at {first.devices} devices, but one device is what they "
            "are compared with; add 1 to counts in bench.scaling."
        )
    what = f"{first.split}{', gathered' if first.gather else ''}"
    shape = mark if first.origin == "live" else f"{mark}-open"
    figure.add_scatter(
        x=[run.devices for run in runs],
        y=[run.flops_per_second / first.flops_per_second for run in runs],
        name=f"{what}<br>{first.device.label}, {first.origin}",
        mode="lines+markers",
        line={"color": color, "dash": dash, "width": 2},
        marker={"color": color, "symbol": shape, "size": 9},
        hovertext=[
            wrapped([run.title, *run.facts, f"median {with_prefix(run.median, 's')}"]) for run in runs
        ],
        hoverinfo="text",
    )
    for run in runs if alone else runs[-1:]:
        if run.communication_share:
            figure.add_annotation(
                x=float(np.log10(run.devices)),
                y=float(np.log10(run.flops_per_second / first.flops_per_second)),
                text=f"{run.communication_share:.0%}",
                yanchor="top",
                yshift=-8,  # below the mark, and with paper of its own: no line runs through words
                font={"size": 12},
                bgcolor=PAPER,
                borderpad=0,
                showarrow=False,
            )
    without = [run for run in runs if run.local_seconds]
    if without:
        figure.add_scatter(
            x=[run.devices for run in without],
            y=[run.flops / float(np.median(run.local_seconds)) / first.flops_per_second for run in without],
            name=f"{what}: without the exchange",
            mode="markers",
            marker={
                "color": color,
                "symbol": "line-ew-open",
                "size": 14,
                "line": {"width": 2, "color": color},
            },
            hovertext=[
                f"{counted(run.devices, 'device')}: {with_prefix(float(np.median(run.local_seconds)), 's')} "
                "without the exchange"
                for run in without
            ],
            hoverinfo="text",
        )
