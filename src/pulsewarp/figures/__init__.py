"""Data in, Plotly figure out: rooflines, measured against predicted, padding, Little's law.

Figures are values. They hold no callbacks, are never updated from Python, and read the same in
colour, in grey and in print: a line has a dash and a mark besides its colour, and whatever the
colour says, the hover text says in words. Ceilings come from `pulsewarp.roofline`, never from here.
"""

from __future__ import annotations

from pulsewarp.figures._style import ON_PAPER, PAGE_STYLE, is_on_paper
from pulsewarp.figures.comparisons import ratios
from pulsewarp.figures.events import timeline
from pulsewarp.figures.gaps import gap_bars
from pulsewarp.figures.kernels import kernel_shares
from pulsewarp.figures.latency import littles_law
from pulsewarp.figures.padding import padding_staircase
from pulsewarp.figures.predictions import measured_against_predicted
from pulsewarp.figures.roofs import roofline
from pulsewarp.figures.splits import scaling

__all__ = [
    "ON_PAPER",
    "PAGE_STYLE",
    "gap_bars",
    "is_on_paper",
    "kernel_shares",
    "littles_law",
    "measured_against_predicted",
    "padding_staircase",
    "ratios",
    "roofline",
    "scaling",
    "timeline",
]
