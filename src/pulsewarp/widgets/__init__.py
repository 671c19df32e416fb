"""Players: one Python and one JavaScript file for each scene, on a shared kit."""

from __future__ import annotations

from pulsewarp.widgets.access import AccessPlayer
from pulsewarp.widgets.barrier import BarrierPlayer
from pulsewarp.widgets.batches import BatchesPlayer
from pulsewarp.widgets.cell import CellPlayer
from pulsewarp.widgets.dataflows import DataflowsPlayer
from pulsewarp.widgets.divergence import DivergencePlayer
from pulsewarp.widgets.fault import FaultPlayer
from pulsewarp.widgets.kernel import KernelPlayer
from pulsewarp.widgets.occupancy import OccupancyPlayer
from pulsewarp.widgets.pipeline import PipelinePlayer
from pulsewarp.widgets.placement import PlacementPlayer
from pulsewarp.widgets.question import Question
from pulsewarp.widgets.systolic import SystolicPlayer
from pulsewarp.widgets.tensor import TensorPlayer
from pulsewarp.widgets.tiling import TilingPlayer
from pulsewarp.widgets.warp import WarpPlayer
from pulsewarp.widgets.workload import WorkloadForm

__all__ = [
    "AccessPlayer",
    "BarrierPlayer",
    "BatchesPlayer",
    "CellPlayer",
    "DataflowsPlayer",
    "DivergencePlayer",
    "FaultPlayer",
    "KernelPlayer",
    "OccupancyPlayer",
    "PipelinePlayer",
    "PlacementPlayer",
    "Question",
    "SystolicPlayer",
    "TensorPlayer",
    "TilingPlayer",
    "WarpPlayer",
    "WorkloadForm",
]
