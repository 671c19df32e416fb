"""A kernel in the syntax of Numba CUDA, run warp by warp: results, instructions, and what went wrong."""

from __future__ import annotations

from pulsewarp.simt.tracing.gpu import GpuRun, run_on_gpu
from pulsewarp.simt.tracing.result import KernelTrace, LineScore
from pulsewarp.simt.tracing.stream import Memory, Problem, Touch, TracedInstruction, TracedWarp
from pulsewarp.simt.tracing.tracer import compile_kernel, trace_kernel

__all__ = [
    "GpuRun",
    "KernelTrace",
    "LineScore",
    "Memory",
    "Problem",
    "Touch",
    "TracedInstruction",
    "TracedWarp",
    "compile_kernel",
    "run_on_gpu",
    "trace_kernel",
]
