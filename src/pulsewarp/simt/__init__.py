"""The GPU side: programs, warps, and schedulers one can watch decide."""

from __future__ import annotations

from pulsewarp.simt._instruction import LANES, Instruction, bar
from pulsewarp.simt._policy import POLICIES, POLICY_NAMES
from pulsewarp.simt._states import STATES
from pulsewarp.simt.families import (
    chain,
    chain_and_barrier,
    diverge,
    littles_law_warps,
    load_compute,
    load_stream,
)
from pulsewarp.simt.kernel import matmul_kernel
from pulsewarp.simt.scheduler import simulate
from pulsewarp.simt.trace import Kernel, WarpTrace

__all__ = [
    "LANES",
    "POLICIES",
    "POLICY_NAMES",
    "STATES",
    "Instruction",
    "Kernel",
    "WarpTrace",
    "bar",
    "chain",
    "chain_and_barrier",
    "diverge",
    "littles_law_warps",
    "load_compute",
    "load_stream",
    "matmul_kernel",
    "simulate",
]
