"""Kernels that are no matrix product: how far from its roof each stays."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

import numpy as np
import plotly.graph_objects as go

from pulsewarp import roofline as ceilings
from pulsewarp._checks import instance, names_keywords, positive_number, several
from pulsewarp.bench.kernel_list import KERNELS
from pulsewarp.bench.kernel_measurement import KernelMeasurement
from pulsewarp.bench.measured_ceilings import Ceilings
from pulsewarp.bench.measurement import Measurement, with_prefix
from pulsewarp.figures._measured import several_runs
from pulsewarp.figures._style import (
    ARITHMETIC,
    INK,
    MEMORY,
    PAPER,
    SMALL,
    laid_out,
    log_axis,
    name_row,
    without_row_ticks,
    wrapped,
)


@names_keywords
def kernel_shares(
    runs: Iterable[KernelMeasurement], roof: float | Ceilings, products: Iterable[Measurement] = ()
) -> go.Figure:
    """Show how far from its roof each kernel that is no matrix product stays, and what holds it back.

    A bar reaches from the roof down to the measured share, so its length is the factor that is lost. For a
    kernel the roof is the memory bandwidth, by its compulsory bytes; for a matrix product beside them it is
    the lower of that bandwidth and the peak, at its intensity.

    Parameters
    ----------
    runs : iterable of KernelMeasurement
        At least one, all of one device.
    roof : float or Ceilings
        Bytes a second, or what `pulsewarp.bench.ceilings` measured on that device.
    products : iterable of Measurement
        Of the same device; drawn where `roof` is Ceilings. Left out: the fastest product of each dtype there,
        which is its own peak.

    Returns
    -------
    go.Figure
        The largest share on top.

    Raises
    ------
    ValueError
        No kernel, runs of several devices, ceilings without a bandwidth, or products without ceilings.

    Examples
    --------
    >>> from pulsewarp.bench.measurement import MeasuredDevice
    >>> cpu = MeasuredDevice("cpu", "cpu", None, 1, "Example CPU", 2)
    >>> run = KernelMeasurement(
    ...     name="sort", size=1_000_000, dtype="fp32", bytes_moved=8_000_000, device=cpu, clock="device",
    ...     seconds=(4e-2, 4e-2, 5e-2), products_per_repeat=2, compile_seconds=0.1, warmup_calls=3,
    ...     relative_error=0.0, versions={"jax": "0.7.2"}, when="2026-11-30T12:00:00+00:00")
    >>> kernel_shares([run], roof=10e9).data[0].text
    ('2% of the roof',)
    """
    remedy = "pass a list of what bench.time_kernel or bench.time_kernels returned"
    kernels = [instance("A kernel", run, KernelMeasurement, remedy) for run in several("runs", runs, remedy)]
    if not kernels:
        raise ValueError("runs is empty; give at least one, for example bench.time_kernels().")
    bandwidth, beside = _roof_and_products(roof, products)
    devices = sorted({run.device.label for run in (*kernels, *(run for run, _ in beside))})
    if len(devices) > 1:
        raise ValueError(f"The runs are of {' and '.join(devices)}, but one roof is of one device.")
    rows = [(run.share_of(bandwidth), run) for run in kernels] + [(share, run) for run, share in beside]
    rows.sort(key=lambda row: -row[0])
    figure = go.Figure()
    for kind, name, style in (
        (KernelMeasurement, "kernel: share of the memory roof", MEMORY),
        (Measurement, "matrix product: share of its own roof", ARITHMETIC),
    ):
        own = [(i, share, run) for i, (share, run) in enumerate(rows) if isinstance(run, kind)]
        _add_shares(figure, own, name, style)
    for i, (_, run) in enumerate(rows):
        name_row(figure, i, _share_label(run), **SMALL, yshift=11, align="left")
    low = min(share for share, _ in rows) / 30  # the words stand left of a bar's end
    figure.add_vline(x=1, line={"color": INK, "width": 1.5})
    log_axis(figure.layout.xaxis, "Share of the roof (log scale)", (low, max(2.0, 2 * rows[0][0])))
    ticks = figure.layout.xaxis.tickvals[:: 1 + len(figure.layout.xaxis.tickvals) // 6]
    figure.update_xaxes(tickvals=ticks, ticktext=[_percent(tick) for tick in ticks])
    subtitle = (
        f"{devices[0]}. Roof of memory: {with_prefix(bandwidth, 'B/s')}, by compulsory bytes. A bar is the "
        "factor that is lost."
    )
    laid_out(figure, "How far from the roof", subtitle, plot_height=60 + 62 * len(rows))
    figure.update_yaxes(range=[len(rows) - 0.5, -0.9])
    figure.update_layout(bargap=0.72, barmode="overlay")
    return without_row_ticks(figure)


def _roof_and_products(
    roof: float | Ceilings, products: Iterable[Measurement]
) -> tuple[float, list[tuple[Measurement, float]]]:
    """Return the bandwidth, and each product with its share of its own roof."""
    given = several_runs(products)
    if not isinstance(roof, Ceilings):
        if given:
            raise ValueError(
                "The products need a peak as well as a bandwidth; pass roof=bench.ceilings() for them."
            )
        return positive_number("roof", roof), []
    if roof.bandwidth_bytes_per_second is None:
        raise ValueError("The ceilings hold no bandwidth; measure them with bench.ceilings().")
    own = roof.as_chip()
    shares = [
        (run, ceilings.attainable(own, run.matmul.dtype, run.flops / run.bytes_moved))
        for run in given or roof.products
    ]
    return roof.bandwidth_bytes_per_second, [
        (run, run.flops_per_second / float(attainable)) for run, attainable in shares
    ]


def _add_shares(
    figure: go.Figure,
    rows: Sequence[tuple[int, float, KernelMeasurement | Measurement]],
    name: str,
    style: tuple[str, str, str],
) -> None:
    fill, edge, pattern = style
    if not rows:
        return
    figure.add_bar(
        x=[abs(1 - share) for _, share, _ in rows],
        base=[min(1.0, share) for _, share, _ in rows],
        y=[row for row, _, _ in rows],
        orientation="h",
        name=name,
        marker={
            "color": fill,
            "line": {"color": edge, "width": 1.2},
            "pattern": {"shape": pattern, "fgcolor": edge, "size": 6, "solidity": 0.2},
        },
        text=[f"{_percent(share)} of the roof" for _, share, _ in rows],
        textposition="none",
        hovertext=[_share_in_words(share, run) for _, share, run in rows],
        hoverinfo="text",
    )
    for row, share, _ in rows:
        figure.add_annotation(
            x=float(np.log10(min(1.0, share))),
            y=row,
            text=f"{_percent(share)} ",
            xanchor="right",
            font={"size": 13},
            bgcolor=PAPER,
            showarrow=False,
        )


def _percent(share: float) -> str:
    """Write a share in two digits: in percent, or as one part of many where it is below a thousandth."""
    if share >= 0.000995:
        return f"{float(f'{100 * share:.2g}'):g}%"
    return f"1/{int(float(f'{1 / share:.2g}')):,}"


def _share_label(run: KernelMeasurement | Measurement) -> str:
    if isinstance(run, Measurement):
        return f"<b>matrix product</b> {run.title}"
    known = KERNELS.get(run.name)
    words = f"<b>{run.name.replace('_', ' ')}</b> {run.dtype}, {run.clock} clock"
    if known is None:
        return words
    return "<br>".join([words, *textwrap.wrap(known.bound_by, 52)])


def _share_in_words(share: float, run: KernelMeasurement | Measurement) -> str:
    low, high = run.quartiles
    return wrapped(
        [
            f"{run.title}: {_percent(share)} of the roof",
            f"{run.clock} clock: median {with_prefix(run.median, 's')}, quartiles {with_prefix(low, 's')} to "
            f"{with_prefix(high, 's')}, {run.origin} {run.when[:10]}",
            *run.facts,
            *run.notes,
        ]
    )
