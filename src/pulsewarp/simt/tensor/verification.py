"""Checks of a run of a tiled kernel, counted again from its issues and the roles of its instructions."""

from __future__ import annotations

import numpy as np

from pulsewarp._report import Check, Report
from pulsewarp.simt.tensor.trace import TiledTrace


def verify(trace: TiledTrace) -> Report:
    """Return what holds of a run."""
    return Report(
        (Check("result", bool(np.all(np.abs(trace.result - trace.kernel.exact) <= trace.kernel.bound)), ""),)
    )
