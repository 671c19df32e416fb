"""The GPU side: programs, warps, and schedulers one can watch decide."""

from __future__ import annotations

from pulsewarp.simt._instruction import LANES, Instruction, bar
from pulsewarp.simt._states import STATES
from pulsewarp.simt.kernel import Kernel, matmul_kernel
from pulsewarp.simt.trace import WarpTrace, simulate

__all__ = ["LANES", "STATES", "Instruction", "Kernel", "WarpTrace", "bar", "matmul_kernel", "simulate"]
