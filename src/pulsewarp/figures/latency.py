"""Little's law, and the simulation beside it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from pulsewarp import simt
from pulsewarp._checks import names_keywords, several, whole_number
from pulsewarp._text import counted
from pulsewarp.figures._style import STYLES, laid_out


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
    whole_number("The number of values in ilp", len(counts), most=len(STYLES))
    of_sm = known.unit == "mem"
    most = 64 if of_sm else 16  # warps an SM holds, and a scheduler
    steps = [warps for warps in range(1, most + 1) if not of_sm or warps in (1, 2) or warps % 4 == 0]
    figure = go.Figure()
    for per_warp, (color, dash, mark) in zip(counts, STYLES, strict=False):
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
    return laid_out(figure, "How many warps hide a latency", subtitle, plot_height=300)


def _busy(run: simt.WarpTrace, per_warp: int) -> float:
    """Return the share of time the unit is taken, up to where the first warp begins its last round."""
    interval = run.programs[0][0].interval
    end = int(np.flatnonzero(run.issued[:, 0] == 0)[-per_warp])
    return float(interval * (run.issued[:end, 0] >= 0).sum() / end)
