"""How fast the array steps, how fast its cost is counted, and what a run needs in memory."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import numpy as np

from pulsewarp import systolic

SIDE, CELLS = 512, 128
CYCLES = 14_304


def multiply_seconds() -> float:
    """Return what as many elementwise float32 products of the array's size cost as the run has cycles."""
    x, y, out = (np.ones((CELLS, CELLS), np.float32) for _ in range(3))
    start = time.perf_counter()
    for _ in range(CYCLES):
        np.multiply(x, y, out=out)
    return time.perf_counter() - start


def bench_stepping() -> list[dict[str, Any]]:
    """Step every register of 512 x 512 x 512 on 128 x 128 cells; compare with bare products in one run."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-8, 9, (SIDE, SIDE)).astype(np.float32) for _ in range(2))
    samples = [
        (int(t), int(r), int(c))
        for t, r, c in zip(*(rng.integers(0, top, 100) for top in (CYCLES, CELLS, CELLS)), strict=True)
    ]
    rows = []
    for dataflow in systolic.DATAFLOWS:
        bare, stepping = [], []
        for _ in range(5):
            bare.append(multiply_seconds())
            start = time.perf_counter()
            run = systolic.simulate(
                a, b, rows=CELLS, cols=CELLS, dataflow=dataflow, trace=False, probes=samples
            )
            stepping.append(time.perf_counter() - start)
        check_samples(run, a, b)
        name = f"{CYCLES} cycles of {CELLS}x{CELLS} cells ({dataflow}), over as many products"
        rows.append({"name": name, "value": min(stepping) / min(bare), "unit": "ratio", "limit": 5})
    return rows


def check_samples(run: systolic.SystolicTrace, a: np.ndarray, b: np.ndarray) -> None:
    """Hold the result to NumPy and the sampled registers to those looked up in a traced run."""
    if run.cycles != CYCLES or not np.array_equal(run.result, a @ b):
        raise AssertionError(f"{run} is not the product in {CYCLES} cycles")
    traced = systolic.simulate(a, b, rows=CELLS, cols=CELLS, dataflow=run.dataflow)
    for t, r, c, *seen in run.probed:
        cell = traced.registers(t, slice(r, r + 1), slice(c, c + 1))
        if seen != [cell.held.item(), cell.right.item(), cell.down.item()]:
            raise AssertionError(f"cell ({r}, {c}) holds {seen} at cycle {t}, not what was looked up")


def bench_gemm() -> dict[str, Any]:
    """Count one cost in closed form."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(2000):
            systolic.gemm(m=4096, k=4096, n=4096, rows=128, cols=128)
        times.append((time.perf_counter() - start) / 2000)
    return {"name": "systolic.gemm", "value": min(times), "unit": "s", "limit": 20e-6}


def bench_memory() -> list[dict[str, Any]]:
    """Peak of what the same run allocates, with and without its schedule."""
    a = np.ones((SIDE, SIDE), np.float32)
    rows = []
    for trace in (False, True):
        tracemalloc.start()
        systolic.simulate(a, a, rows=CELLS, cols=CELLS, trace=trace)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        name = f"memory of that run, trace={trace}"
        rows.append({"name": name, "value": peak, "unit": "B", "limit": 200e6})
    return rows
