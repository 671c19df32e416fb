"""Model against metal: where the time of each measured product went."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

import plotly.graph_objects as go

from pulsewarp._checks import instance, names_keywords, several
from pulsewarp.bench.gaps import PARTS, Gap, GapPart
from pulsewarp.bench.measurement import with_prefix
from pulsewarp.figures._style import (
    ARITHMETIC,
    INK,
    MEMORY,
    MUTED,
    ORANGE,
    PALE_MUTED,
    PALE_ORANGE,
    PALE_VIOLET,
    PAPER,
    SMALL,
    VIOLET,
    laid_out,
    name_row,
    without_row_ticks,
    wrapped,
)

# What each part of a gap is.
_PARTS = {
    "ideal": "arithmetic at the peak",
    "memory": "least traffic, beyond that",
    "precision": "the arithmetic asked for",
    "padding": "tiles, filling, last wave",
    "launch": "call clock less device clock",
    "unexplained": "what no part names",
}
# Its fill, edge and pattern.
_STYLES = {
    "ideal": ARITHMETIC,
    "memory": MEMORY,
    "precision": (PALE_ORANGE, ORANGE, "x"),
    "padding": (PALE_VIOLET, VIOLET, "\\"),
    "launch": (PALE_MUTED, MUTED, "|"),
    "unexplained": (PAPER, INK, ""),
}


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
    for place, (name, meaning) in enumerate(_PARTS.items()):
        _add_part(figure, name, meaning, rows, [gap.parts[place] for gap in rows], 22 / pitch)
    for row, said in enumerate(words):
        told = "<br>".join([f"<b>{said[0]}</b>", *said[1:]])
        name_row(figure, -row, told, **SMALL, yshift=14, align="left")
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
    laid_out(figure, "Model against metal", " ".join(sentences), plot_height=20 + pitch * len(rows))
    return without_row_ticks(figure)


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
    fill, edge, pattern = _STYLES[name]
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
            wrapped(
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
