"""The GPU side: programs, warps, and schedulers one can watch decide."""

from __future__ import annotations

from pulsewarp.simt import cuda, lesson_kernels
from pulsewarp.simt._barriers import BarrierRound, Barriers, barriers
from pulsewarp.simt._instruction import LANES, Instruction, bar
from pulsewarp.simt._occupancy import LaunchChange, Occupancy, best_block_size, occupancy
from pulsewarp.simt._policy import POLICIES, POLICY_NAMES
from pulsewarp.simt._states import STATES
from pulsewarp.simt.access import (
    Access,
    BankAccess,
    BankWord,
    SectorCounts,
    Wavefront,
    WavefrontCounts,
    count_sectors,
    count_wavefronts,
    sectors,
    wavefronts,
)
from pulsewarp.simt.compute_capability import ComputeCapability, compute_capabilities
from pulsewarp.simt.divergence import DivergenceTrace, follow_lanes, run_warp
from pulsewarp.simt.families import (
    chain,
    chain_and_barrier,
    diverge,
    littles_law_warps,
    load_compute,
    load_stream,
)
from pulsewarp.simt.kernel import matmul_kernel
from pulsewarp.simt.patterns import pattern
from pulsewarp.simt.placement import ORDERS, Placement, place_blocks
from pulsewarp.simt.presets import Architecture, Operation, architecture, architectures
from pulsewarp.simt.scheduler import simulate
from pulsewarp.simt.tensor import (
    FILL_COLUMNS,
    ROLE_COLUMNS,
    ROLES,
    STAGE_STATES,
    WORK_COLUMNS,
    Fragment,
    MmaShape,
    TiledCounts,
    TiledKernel,
    TiledTally,
    TiledTrace,
    ffma_kernel,
    fragment,
    matrix_load,
    mma_shapes,
    tensor_kernel,
)
from pulsewarp.simt.trace import Kernel, WarpTrace
from pulsewarp.simt.tracing import GpuRun, KernelTrace, compile_kernel, run_on_gpu, trace_kernel

__all__ = [
    "FILL_COLUMNS",
    "LANES",
    "ORDERS",
    "POLICIES",
    "POLICY_NAMES",
    "ROLES",
    "ROLE_COLUMNS",
    "STAGE_STATES",
    "STATES",
    "WORK_COLUMNS",
    "Access",
    "Architecture",
    "BankAccess",
    "BankWord",
    "BarrierRound",
    "Barriers",
    "ComputeCapability",
    "DivergenceTrace",
    "Fragment",
    "GpuRun",
    "Instruction",
    "Kernel",
    "KernelTrace",
    "LaunchChange",
    "MmaShape",
    "Occupancy",
    "Operation",
    "Placement",
    "SectorCounts",
    "TiledCounts",
    "TiledKernel",
    "TiledTally",
    "TiledTrace",
    "WarpTrace",
    "Wavefront",
    "WavefrontCounts",
    "architecture",
    "architectures",
    "bar",
    "barriers",
    "best_block_size",
    "chain",
    "chain_and_barrier",
    "compile_kernel",
    "compute_capabilities",
    "count_sectors",
    "count_wavefronts",
    "cuda",
    "diverge",
    "ffma_kernel",
    "follow_lanes",
    "fragment",
    "lesson_kernels",
    "littles_law_warps",
    "load_compute",
    "load_stream",
    "matmul_kernel",
    "matrix_load",
    "mma_shapes",
    "occupancy",
    "pattern",
    "place_blocks",
    "run_on_gpu",
    "run_warp",
    "sectors",
    "simulate",
    "tensor_kernel",
    "trace_kernel",
    "wavefronts",
]
