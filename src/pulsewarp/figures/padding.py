"""What padding to whole matrix units costs."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import cycle

import plotly.graph_objects as go

from pulsewarp import roofline as ceilings
from pulsewarp._checks import names_keywords, whole_number
from pulsewarp.chips import Chip
from pulsewarp.figures._measured import several_chips
from pulsewarp.figures._style import STYLES, laid_out
from pulsewarp.matmul import Matmul


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
    known = several_chips(chip_ids)
    sides = range(1, largest + 1)
    figure = go.Figure()
    for chip, (color, dash, _) in zip(known, cycle(STYLES), strict=False):
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
    return laid_out(figure, "Padding to the matrix unit", subtitle, plot_height=300)
