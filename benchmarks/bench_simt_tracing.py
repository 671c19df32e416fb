"""Seconds to trace a kernel: the 64x64x64 tiled product that is promised, the naive one, and its timing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pulsewarp import simt


def best_seconds(call: Callable[[], object]) -> float:
    """Return the best of three runs in processor time of this one thread."""
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def bench_tracing() -> list[dict[str, Any]]:
    """Trace 64x64x64 products; time what was traced."""
    kernels = simt.lesson_kernels
    tiled = kernels.product(kernels.tiled_product, m=64, k=64, n=64)
    naive = kernels.product(kernels.naive_product, m=64, k=64, n=64)
    run = tiled.trace()
    issued = sum(len(warp.instructions) for warp in run.warps)
    rows: list[dict[str, Any]] = [
        {
            "name": f"tiled product 64x64x64, {issued} instructions",
            "value": best_seconds(tiled.trace),
            "limit": 5.0,
        },
        {"name": "naive product 64x64x64", "value": best_seconds(naive.trace)},
        {"name": "sectors and wavefronts of the tiled one, by line", "value": best_seconds(run.lines)},
        {"name": "the tiled one's first 8 blocks on an SM", "value": best_seconds(run.simulate)},
    ]
    return [{**row, "unit": "s"} for row in rows]
