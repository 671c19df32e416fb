"""Data in, Plotly figure out: rooflines, measured against predicted, padding, Little's law.

Figures are values. They hold no callbacks, are never updated from Python, and read the same in
colour, in grey and in print: a line has a dash and a mark besides its colour, and whatever the
colour says, the hover text says in words. Ceilings come from `pulsewarp.roofline`, never from here.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from itertools import cycle
from typing import Any

import numpy as np
import plotly.graph_objects as go

from pulsewarp import chips, simt
from pulsewarp import roofline as ceilings
from pulsewarp._checks import choice, instance, names_keywords, positive_number, several, whole_number
from pulsewarp._text import counted
from pulsewarp.bench.comparison import COVERAGE, ComparedRow, Comparison
from pulsewarp.bench.gaps import PARTS, Gap, GapPart, own_chip
from pulsewarp.bench.kernel_list import KERNELS
from pulsewarp.bench.kernel_measurement import KernelMeasurement
from pulsewarp.bench.measured_ceilings import MEASURED_HERE, Ceilings
from pulsewarp.bench.measurement import Measurement, with_prefix
from pulsewarp.bench.sharded_measurement import ShardedMeasurement
from pulsewarp.bench.timeline import CATEGORIES, Event, Timeline
from pulsewarp.chips import Chip
from pulsewarp.matmul import Matmul

INK, MUTED, HAIRLINE, PAPER = "#1d2733", "#5f6b78", "#d5dbe1", "#ffffff"

# Dark enough for paper and apart from each other under the three common colour blindnesses; dash and
# mark differ too, so that none of it hangs on colour.
_STYLES = (
    ("#0072B2", "solid", "circle"),
    ("#b05400", "dash", "square"),
    ("#00795a", "dot", "diamond"),
    ("#7f5599", "dashdot", "triangle-up"),
    ("#1d2733", "longdash", "triangle-down"),
    ("#5f6b78", "longdashdot", "pentagon"),
)
_MARKS = ("circle", "diamond", "square", "triangle-up", "triangle-down", "pentagon", "star", "hexagon")
# Fill, edge and pattern of each kind of event: pale, so that its name can be read on it.
_EVENT_STYLES = {
    "call": (PAPER, INK, ""),
    "operation": ("#d3e6f3", "#0072B2", ""),
    "handed over": ("#eaf3f9", "#0072B2", "/"),
    "kernel": ("#e6ddec", "#7f5599", ""),
    "copy": ("#f6e3d3", "#b05400", "x"),
    "program": ("#d6ece6", "#00795a", ""),
    "wait": (PAPER, MUTED, "."),
    "runtime": ("#e8ebee", MUTED, ""),
}
_DEEPEST_ROW = 3
# The same of each part of a gap, and what it is.
_PART_STYLES = {
    "ideal": ("#d6ece6", "#00795a", ""),
    "memory": ("#d3e6f3", "#0072B2", "/"),
    "precision": ("#f6e3d3", "#b05400", "x"),
    "padding": ("#e6ddec", "#7f5599", "\\"),
    "launch": ("#e8ebee", MUTED, "|"),
    "unexplained": (PAPER, INK, ""),
}
_GAP_PARTS = {
    "ideal": "arithmetic at the peak",
    "memory": "least traffic, beyond that",
    "precision": "the arithmetic asked for",
    "padding": "tiles, filling, last wave",
    "launch": "call clock less device clock",
    "unexplained": "what no part names",
}
_RATIO_TICKS = (
    *(0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 5, 10),
    *(30, 100, 300, 1000),
)
# Mantissas of the ticks of a log axis; the first that give so many are taken. No axis here is shorter than a
# factor of four, in which the last always do.
_MANTISSAS, _FEWEST_TICKS = ((1,), (1, 2, 5), (1, 1.5, 2, 3, 5, 7)), 3
_LABEL_SHARE = 0.11  # of the width of a phone's figure, which a label of a ratio takes
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
    known = _chips(chip_ids)
    runs = _runs(measurements)
    unit = _rate_unit(dtype)
    ridges = [ceilings.ridge_point(chip, dtype) for chip in known]
    reached = (*ridges, *(run.matmul.intensity for run in runs)) or _NOTHING_DRAWN
    span = min(1.0, min(reached) / 2), max(10.0, 4 * max(reached))
    figure = go.Figure()
    for chip, ridge, style in zip(known, ridges, cycle(_STYLES), strict=False):
        _add_roof(figure, chip, dtype, ridge, span, style)
    for group, mark in zip(_groups(runs), cycle(_MARKS), strict=False):
        _add_points(figure, group, mark)
    rates = [float(rate) for trace in figure.data for rate in trace.y] or [*_NOTHING_DRAWN]
    _log_axis(figure.layout.xaxis, f"Arithmetic intensity ({unit.removesuffix('/s')}/B, log scale)", span)
    figure.update_xaxes(ticktext=[f"{tick:g}" for tick in figure.layout.xaxis.tickvals])
    _log_axis(figure.layout.yaxis, f"Rate ({unit}, log scale)", (min(rates) / 2, max(rates) * 2))
    subtitle = _about_roofs(known, dtype)
    if runs:
        subtitle += " Other marks: measured; filled = live, open = recorded."
    return _laid_out(figure, "Roofline", subtitle, plot_height=380)


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
    runs = _runs(measurements)
    if not runs:
        raise ValueError("measurements is empty; give at least one, for example bench.recorded().")
    bounds = [_bound(run, chip, dtype) for run in runs]
    rows = list(dict.fromkeys(_shape(run) for run in runs))
    figure = go.Figure()
    known = [bound for bound in bounds if bound is not None]
    _add_bounds(figure, [(_shape(run), bound) for run, bound in zip(runs, bounds, strict=True) if bound])
    groups = _groups(runs)
    for group, mark in zip(groups, cycle(_MARKS), strict=False):
        own = [_bound(run, chip, dtype) for run in group]
        _add_times(figure, group, own, mark, named=len(groups) == 1)
    seconds = [float(value) for trace in figure.data for value in trace.x]
    low, high = min(seconds) / 3, max(seconds) * 3
    if len(groups) == 1:
        high *= (high / low) ** 0.4  # room for the ratios that stand beside the marks
    _log_axis(figure.layout.xaxis, "Seconds a product (log scale)", (low, high))
    figure.update_yaxes(categoryorder="array", categoryarray=rows[::-1], range=[-0.6, len(rows) - 0.4])
    for row in rows:  # beside the axis these labels would take half of a phone
        figure.add_annotation(
            {"x": 0, "xref": "paper", "xanchor": "left", "y": row, "yanchor": "bottom", "yshift": 7},
            text=row,
            showarrow=False,
        )
    sentences = [
        f"Bound: published ceilings of {name}, catalogue of {date}."
        for name, date in sorted({(bound.chip.name, bound.chip.as_of) for bound in known})
    ]
    unknown = sorted({run.device.label for run, bound in zip(runs, bounds, strict=True) if bound is None})
    sentences += [f"No published ceiling is known for {name}, so nothing is predicted." for name in unknown]
    if any(run.origin == "recorded" for run in runs):
        sentences.append("Open marks are recorded runs.")
    _laid_out(figure, "Measured against predicted", " ".join(sentences), plot_height=60 + 46 * len(rows))
    figure.update_yaxes(ticks="", showticklabels=False)
    figure.layout.margin.l = 16
    return figure


@names_keywords
def gap_bars(explained: Gap | Iterable[Gap]) -> go.Figure:
    """Draw where the time of each measured product went: a bar of its parts, in shares of the measured time.

    Above each bar stands what it shows, in words and numbers. Where a run beats its model, the parts reach
    beyond 100 %, and what is too much stands left of zero.

    Parameters
    ----------
    explained : Gap or iterable of Gap
        From `bench.explain` or `bench.explain_all`.

    Returns
    -------
    go.Figure
        A trace for each part.

    Raises
    ------
    ValueError
        When there is none.
    TypeError
        When something is no Gap.

    Notes
    -----
    The parts are `pulsewarp.bench.gaps`'s.

    Examples
    --------
    >>> from pulsewarp import bench
    >>> figure = gap_bars(bench.explain(bench.recorded()[0]))
    >>> [trace.name.split(":")[0] for trace in figure.data if any(trace.x)]
    ['unexplained']
    """
    remedy = "pass what bench.explain or bench.explain_all returned"
    listed = (explained,) if isinstance(explained, Gap) else several("explained", explained, remedy)
    rows = [instance("A gap", gap, Gap, remedy) for gap in listed]
    if not rows:
        raise ValueError("explained is empty; give at least one, for example bench.explain(run).")
    devices = list(dict.fromkeys(gap.run.device.label for gap in rows))
    words = [_gap_in_words(gap, named=len(devices) > 1) for gap in rows]
    lines = max(map(len, words))
    pitch = 44 + 16 * lines  # pixels: the words, the bar, a little air
    figure = go.Figure()
    for place, (name, meaning) in enumerate(_GAP_PARTS.items()):
        _add_part(figure, name, meaning, rows, [gap.parts[place] for gap in rows], 22 / pitch)
    for row, said in enumerate(words):
        figure.add_annotation(
            {"x": 0, "xref": "paper", "xanchor": "left", "y": -row, "yanchor": "bottom", "yshift": 14},
            text="<br>".join([f"<b>{said[0]}</b>", *said[1:]]),
            align="left",
            font={"size": 12},
            bgcolor=PAPER,  # no line of the grid runs through words
            showarrow=False,
        )
    least = min(0.0, *(gap.unexplained / gap.measured for gap in rows))
    most = 1.0 - least
    figure.add_vline(x=1, line={"color": INK, "width": 1, "dash": "dot"})
    figure.update_layout(barmode="relative", uniformtext={"minsize": 11, "mode": "hide"})
    figure.update_xaxes(
        title_text="Share of the measured time", tickformat=".0%", range=[1.05 * least, most + 0.02]
    )
    figure.update_yaxes(range=[0.5 - len(rows), (16 * lines + 24) / pitch], title_text="")
    sentences = ["Each part is what it adds to those before it; the dotted line is the measured time."]
    if len(devices) == 1:
        sentences.append(f"Runs on {devices[0]}.")
    if least < 0:
        sentences.append("Left of zero: what a model takes too much.")
    _laid_out(figure, "Model against metal", " ".join(sentences), plot_height=20 + pitch * len(rows))
    figure.update_yaxes(ticks="", showticklabels=False, showgrid=False)
    figure.layout.margin.l = 16
    return figure


def _gap_in_words(gap: Gap, named: bool) -> list[str]:
    """Return what a bar shows, as lines that fit on a phone; `named` says also on which device it ran."""
    run = gap.call_run or gap.run
    kept = "" if run.origin == "live" else f", {run.origin} {run.when[:10]}"
    what = gap.title if named else run.title
    time = with_prefix(gap.measured, "s").replace(" ", "\u00a0")  # a number keeps its unit
    head = f"{what}: {time}, {gap.clock} clock{kept}"
    shares = zip(gap.parts, gap.shares(), strict=True)
    parts = [f"{part.name} {share}" for part, share in shares if part.seconds]
    unknown = [part.name for part in gap.parts if part.seconds is None]
    told = ", ".join(parts) + (f"; unknown: {', '.join(unknown)}" if unknown else "")
    first, *others = textwrap.wrap(head, 44)
    return [first, *(f"<b>{line}</b>" for line in others), *textwrap.wrap(told, 48)]


def _add_part(
    figure: go.Figure,
    name: str,
    meaning: str,
    rows: Sequence[Gap],
    parts: Sequence[GapPart],
    width: float,
) -> None:
    fill, edge, pattern = _PART_STYLES[name]
    figure.add_bar(
        x=[(part.seconds or 0.0) / gap.measured for gap, part in zip(rows, parts, strict=True)],
        y=[-row for row in range(len(rows))],
        orientation="h",
        width=width,
        name=f"{name}: {meaning}",
        text=[
            gap.shares()[PARTS.index(name)] if part.seconds else ""
            for gap, part in zip(rows, parts, strict=True)
        ],
        textposition="inside",
        insidetextanchor="middle",
        textangle=0,
        insidetextfont={"color": INK, "size": 12},
        marker={
            "color": fill,
            "line": {"color": edge, "width": 1.5},
            "pattern": {"shape": pattern, "fgcolor": edge, "bgcolor": fill, "size": 6, "solidity": 0.12},
        },
        hovertext=[
            _wrapped(
                [
                    f"{gap.run.title} on {gap.run.device.label}",
                    f"{name}: {'unknown' if part.seconds is None else with_prefix(part.seconds, 's')}",
                    part.reason,
                ]
            )
            for gap, part in zip(rows, parts, strict=True)
        ],
        hoverinfo="text",
    )


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
        error_x=_bars(centres, low, high),
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
    ticks = _apart([tick for tick in _RATIO_TICKS if span[0] <= tick <= span[1]], span)
    figure.update_xaxes(
        type="log",
        range=[float(np.log10(end)) for end in span],
        tickvals=ticks,
        ticktext=[f"{tick:g}" for tick in ticks],
        tickangle=0,
        title={"text": "Time ratio (log scale); left of 1 is faster"},
    )
    for i, row in enumerate(rows):  # beside the axis these labels would take half of a phone
        figure.add_annotation(
            {"x": 0, "xref": "paper", "xanchor": "left", "y": i, "yanchor": "bottom", "yshift": 7},
            text=f"{row.title}: {row.ratio:.3g}",
            font={"size": 12},
            bgcolor=PAPER,
            showarrow=False,
        )
    figure.update_yaxes(range=[len(rows) - 0.4, -0.9])
    _laid_out(figure, f"{second} against {first}", " ".join(compared.differences), 60 + 46 * len(rows))
    figure.update_yaxes(ticks="", showticklabels=False)
    figure.layout.margin.l = 16
    return figure


def _ratio_in_words(row: ComparedRow, names: tuple[str, str]) -> str:
    times = [
        f"{name}: {with_prefix(run.median, 's')}, {counted(len(run.seconds), 'repeat')}"
        for name, run in zip(names, (row.first, row.second), strict=True)
    ]
    between = "" if row.low is None else f", {COVERAGE:.0%} interval {row.low:.3g} to {row.high:.3g}"
    return _wrapped([row.title, *times, f"ratio {row.ratio:.3g}{between}: {row.verdict}", *row.differences])


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
        (KernelMeasurement, "kernel: share of the memory roof", _PART_STYLES["memory"]),
        (Measurement, "matrix product: share of its own roof", _PART_STYLES["ideal"]),
    ):
        own = [(i, share, run) for i, (share, run) in enumerate(rows) if isinstance(run, kind)]
        _add_shares(figure, own, name, style)
    for i, (_, run) in enumerate(rows):  # beside the axis these labels would take half of a phone
        figure.add_annotation(
            {"x": 0, "xref": "paper", "xanchor": "left", "y": i, "yanchor": "bottom", "yshift": 11},
            text=_share_label(run),
            align="left",
            font={"size": 12},
            bgcolor=PAPER,
            showarrow=False,
        )
    low = min(share for share, _ in rows) / 30  # the words stand left of a bar's end
    figure.add_vline(x=1, line={"color": INK, "width": 1.5})
    _log_axis(figure.layout.xaxis, "Share of the roof (log scale)", (low, max(2.0, 2 * rows[0][0])))
    ticks = figure.layout.xaxis.tickvals[:: 1 + len(figure.layout.xaxis.tickvals) // 6]
    figure.update_xaxes(tickvals=ticks, ticktext=[_percent(tick) for tick in ticks])
    subtitle = (
        f"{devices[0]}. Roof of memory: {with_prefix(bandwidth, 'B/s')}, by compulsory bytes. A bar is the "
        "factor that is lost."
    )
    _laid_out(figure, "How far from the roof", subtitle, plot_height=60 + 62 * len(rows))
    figure.update_yaxes(range=[len(rows) - 0.5, -0.9], ticks="", showticklabels=False, showgrid=False)
    figure.update_layout(bargap=0.72, barmode="overlay")
    figure.layout.margin.l = 16
    return figure


def _roof_and_products(
    roof: float | Ceilings, products: Iterable[Measurement]
) -> tuple[float, list[tuple[Measurement, float]]]:
    """Return the bandwidth, and each product with its share of its own roof."""
    given = _runs(products)
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
    return _wrapped(
        [
            f"{run.title}: {_percent(share)} of the roof",
            f"{run.clock} clock: median {with_prefix(run.median, 's')}, quartiles {with_prefix(low, 's')} to "
            f"{with_prefix(high, 's')}, {run.origin} {run.when[:10]}",
            *run.facts,
            *run.notes,
        ]
    )


@names_keywords
def padding_staircase(chip_ids: str | Chip | Iterable[str | Chip], largest: int = 512) -> go.Figure:
    """Draw how much of a systolic array's work is useful, for every side of a square weight matrix.

    Parameters
    ----------
    chip_ids : str, Chip or iterable of them
        Chips whose matrix unit has a known shape.
    largest : int
        Largest side drawn, from 2 to 65536.

    Returns
    -------
    go.Figure

    Raises
    ------
    ValueError
        A chip without a matrix unit of known shape, or a `largest` out of range.

    Notes
    -----
    The values are `pulsewarp.roofline.tile_padding`.

    Examples
    --------
    >>> line = padding_staircase("tpu_v5e", largest=256).data[0]
    >>> line.x[127], line.y[127], line.x[128], round(line.y[128], 3)
    (128, 1.0, 129, 0.254)
    """
    largest = whole_number("largest", largest, least=2, most=65536)
    known = _chips(chip_ids)
    sides = range(1, largest + 1)
    figure = go.Figure()
    for chip, (color, dash, _) in zip(known, cycle(_STYLES), strict=False):
        padding = [ceilings.tile_padding(Matmul(1, side, side), chip) for side in sides]
        useful = [each.efficiency for each in padding]
        rows, cols = padding[0].rows, padding[0].cols
        figure.add_scatter(
            x=list(sides),
            y=useful,
            name=f"{chip.name}, unit of {rows} x {cols}",
            mode="lines",
            line={"color": color, "dash": dash, "width": 2},
            hovertext=[
                f"{chip.name}: a {side} x {side} matrix keeps {share:.1%} of its multiply-accumulates useful"
                for side, share in zip(sides, useful, strict=True)
            ],
            hoverinfo="text",
        )
    figure.update_xaxes(title_text="Side of the weight matrix (k = n)", range=[0, largest])
    figure.update_yaxes(title_text="Useful share of the work", tickformat=".0%", range=[0, 1.05])
    subtitle = "Both sides are padded to whole matrix units; a side of one more than a multiple pays most."
    return _laid_out(figure, "Padding to the matrix unit", subtitle, plot_height=300)


@names_keywords
def littles_law(
    architecture: str | simt.Architecture,
    operation: str = "FFMA",
    ilp: Sequence[int] = (1, 2, 4),
) -> go.Figure:
    """Draw how busy a unit is against the warps there are: Little's law, and the simulation beside it.

    Modelled: warps that each run one kind of instruction in `ilp` independent chains, round robin, on one
    scheduler; for a load, on all that share the memory unit. Not modelled: bandwidth behind the unit.

    Parameters
    ----------
    architecture : str or Architecture
        As for `simt.architecture`.
    operation : str
        One of its operations.
    ilp : sequence of int
        Independent instructions of one warp, a line for each, at most 6.

    Returns
    -------
    go.Figure
        For each `ilp` a line, the law, and marks, the simulation.

    Raises
    ------
    ValueError
        When the architecture has no such operation, or a number is out of its range.

    Notes
    -----
    The law is ``min(1, warps * ilp * interval / latency)``; marks are issues of `simt.simulate`, counted
    over whole rounds of each warp's instructions.

    Examples
    --------
    >>> law, simulated = littles_law("volta", ilp=[1]).data
    >>> list(zip(law.x, law.y)), simulated.y[:3]
    ([(0.0, 0.0), (2.0, 1.0), (16.0, 1.0)], (0.5, 1.0, 1.0))
    """
    machine = simt.architecture(architecture)
    known = machine.instruction(operation)
    counts = [
        whole_number(f"ilp[{i}]", value, most=64)
        for i, value in enumerate(several("ilp", ilp, "give whole numbers"))
    ]
    whole_number("The number of values in ilp", len(counts), most=len(_STYLES))
    of_sm = known.unit == "mem"
    most = 64 if of_sm else 16  # warps an SM holds, and a scheduler
    steps = [warps for warps in range(1, most + 1) if not of_sm or warps in (1, 2) or warps % 4 == 0]
    figure = go.Figure()
    for per_warp, (color, dash, mark) in zip(counts, _STYLES, strict=False):
        need = simt.littles_law_warps(known.latency, per_warp, known.interval)
        name = f"{per_warp} in flight: {counted(need, 'warp')} needed"
        program = simt.chain(12 * per_warp, ilp=per_warp, architecture=machine, operation=operation)
        busy = [_busy(simt.simulate([program] * warps, schedulers=1), per_warp) for warps in steps]
        full = known.latency / (per_warp * known.interval)  # where the line bends; warps come whole
        bends = sorted({0.0, min(full, float(most)), float(most)})
        law = [min(1.0, warps / full) for warps in bends]
        drawn = (("lines", "law", bends, law), ("markers", "simulated", steps, busy))
        for mode, word, warps_at, shares in drawn:
            figure.add_scatter(
                x=warps_at,
                y=shares,
                mode=mode,
                name=f"{name}, {word}",
                line={"color": color, "dash": dash, "width": 2},
                marker={"color": color, "symbol": mark, "size": 7},
                hovertext=[
                    f"{warps:g} {'warp' if warps == 1 else 'warps'}, {per_warp} in flight each: the unit is "
                    f"busy {share:.0%} of the time ({word})"
                    for warps, share in zip(warps_at, shares, strict=True)
                ],
                hoverinfo="text",
            )
    whose = "an SM" if of_sm else "a scheduler"
    figure.update_xaxes(title_text=f"Warps of {whose}", range=[0, 1.03 * most])
    figure.update_yaxes(title_text="Unit busy", title_standoff=14, tickformat=".0%", range=[0, 1.05])
    subtitle = (
        f"{operation} on {machine.title}: {known.latency} cycles until the result, the unit taken for "
        f"{known.interval}. Little: warps needed = latency / (in flight a warp x interval), rounded up."
    )
    return _laid_out(figure, "How many warps hide a latency", subtitle, plot_height=300)


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
    for lane, top in zip(taken.lanes, tops, strict=True):  # beside the axis they would take half of a phone
        figure.add_annotation(
            {"x": 0, "xref": "paper", "xanchor": "left", "y": top, "yanchor": "top"},
            text=f"<b>{lane.process}</b> {lane.name}",
            showarrow=False,
        )
    sentences = " ".join([taken.summary, *taken.notes])
    _laid_out(figure, "Where the time of the calls went", sentences, plot_height=60 + round(24 * height))
    figure.update_yaxes(ticks="", showticklabels=False, showgrid=False)
    figure.layout.margin.l = 16
    return figure


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
    fill, edge, pattern = _EVENT_STYLES[category]
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
            _wrapped(
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
    for group, style in zip(groups.values(), cycle(_STYLES), strict=False):
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
    return _laid_out(figure, "Scaling", " ".join(sentences), plot_height=340)


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
            _wrapped([run.title, *run.facts, f"median {with_prefix(run.median, 's')}"]) for run in runs
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


def _busy(run: simt.WarpTrace, per_warp: int) -> float:
    """Return the share of time the unit is taken, up to where the first warp begins its last round."""
    interval = run.programs[0][0].interval
    end = int(np.flatnonzero(run.issued[:, 0] == 0)[-per_warp])
    return float(interval * (run.issued[:end, 0] >= 0).sum() / end)


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


def _chips(given: str | Chip | Iterable[str | Chip]) -> tuple[Chip, ...]:
    remedy = "give a catalogue id such as 'tpu_v5e', or several"
    listed = (given,) if isinstance(given, str | Chip) else several("chip_ids", given, remedy)
    return tuple(
        chips.get(each) if isinstance(each, str) else instance("A chip", each, Chip, remedy)
        for each in listed
    )


def _runs(given: Iterable[Measurement]) -> tuple[Measurement, ...]:
    remedy = "pass a list of what bench.time_matmul, bench.sweep or bench.recorded returned"
    listed = several("measurements", given, remedy)
    return tuple(instance("A measurement", each, Measurement, remedy) for each in listed)


def _rate_unit(dtype: str) -> str:
    return "OP/s" if dtype.startswith("int") else "FLOP/s"


def _add_roof(
    figure: go.Figure,
    chip: Chip,
    dtype: str,
    ridge: float,
    span: tuple[float, float],
    style: tuple[str, str, str],
) -> None:
    color, dash, mark = style
    unit = _rate_unit(dtype)
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
        hovertext=[_wrapped(words)],
        hoverinfo="text",
    )


def _groups(runs: Sequence[Measurement]) -> list[list[Measurement]]:
    """Collect measurements that share a mark, in order of appearance: only their products differ."""
    groups: dict[tuple[str, ...], list[Measurement]] = {}
    for run in runs:
        key = (run.device.label, run.origin, run.clock, run.matmul.dtype, run.precision)
        groups.setdefault(key, []).append(run)
    return list(groups.values())


def _group_name(runs: Sequence[Measurement]) -> str:
    first = runs[0]
    days = sorted({run.when[:10] for run in runs})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return (
        f"{first.device.label}<br>{first.origin} {when}, {first.clock} clock<br>"
        f"{first.matmul.dtype} at precision {first.precision}"
    )


def _measured_mark(run: Measurement, mark: str) -> dict[str, object]:
    symbol = mark if run.origin == "live" else f"{mark}-open"
    return {"symbol": symbol, "size": 9, "color": INK, "line": {"width": 1.5, "color": INK}}


def _bars(middle: Sequence[float], low: Sequence[float], high: Sequence[float]) -> dict[str, object]:
    """Bars from `low` to `high`, as Plotly wants them: distances from the middle."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [end - value for value, end in zip(middle, high, strict=True)],
        "arrayminus": [value - end for value, end in zip(middle, low, strict=True)],
        "thickness": 1.5,
        "width": 0,
    }


def _add_points(figure: go.Figure, runs: Sequence[Measurement], mark: str) -> None:
    rates = [run.flops_per_second for run in runs]
    slow = [run.matmul.flops / run.quartiles[1] for run in runs]
    fast = [run.matmul.flops / run.quartiles[0] for run in runs]
    figure.add_scatter(
        x=[run.matmul.intensity for run in runs],
        y=rates,
        error_y=_bars(rates, slow, fast),
        name=_group_name(runs),
        mode="markers",
        marker=_measured_mark(runs[0], mark),
        hovertext=[_in_words(run) for run in runs],
        hoverinfo="text",
    )


def _bound(run: Measurement, chip: str | Chip | None, dtype: str | None) -> ceilings.Bound | None:
    """Return the roofline bound of a run; None where the catalogue has no ceiling for its device."""
    if chip is not None:
        return ceilings.bound(run.matmul, _chips(chip)[0], dtype)
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
    for ((dtype, name), own), (color, _, _) in zip(kinds.items(), cycle(_STYLES), strict=False):
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
        y=[_shape(run) for run in runs],
        error_x=_bars(seconds, [run.quartiles[0] for run in runs], [run.quartiles[1] for run in runs]),
        name=_group_name(runs),
        mode="markers+text" if named else "markers",
        text=[f"  {ratio or with_prefix(value, 's')}" for value, ratio in zip(seconds, ratios, strict=True)],
        textposition="middle right",
        textfont={"color": INK, "size": 12},
        marker=_measured_mark(runs[0], mark),
        hovertext=[
            "<br>".join([_in_words(run), *([ratio] if ratio else [])])
            for run, ratio in zip(runs, ratios, strict=True)
        ],
        hoverinfo="text",
    )


def _in_words(run: Measurement) -> str:
    low, high = run.quartiles
    return _wrapped(
        [
            f"{_shape(run)} in {run.matmul.dtype} on {run.device.label}",
            f"{with_prefix(run.flops_per_second, _rate_unit(run.matmul.dtype))}, {run.clock} clock",
            f"median {with_prefix(run.median, 's')}",
            f"quartiles {with_prefix(low, 's')} to {with_prefix(high, 's')}",
            f"precision {run.precision}, relative error {run.relative_error:.1e}",
            f"{run.origin} {run.when[:10]}",
            *run.notes,
        ]
    )


def _wrapped(sentences: Iterable[str]) -> str:
    """Join sentences as lines of a hover box that fits on a phone."""
    return "<br>".join(line for sentence in sentences for line in textwrap.wrap(sentence, 46))


def _shape(run: Measurement) -> str:
    return f"{run.matmul.m} x {run.matmul.k} x {run.matmul.n}"


def _log_axis(axis: Any, title: str, span: tuple[float, float]) -> None:
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


def _laid_out(figure: go.Figure, title: str, subtitle: str, plot_height: int) -> go.Figure:
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
