"""How fast the array and the tile pipeline step, a cost is counted, and what a run needs in memory.

Everything here runs in one thread, so times are processor time: what else the machine does disturbs it less.
"""

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
    start = time.process_time()
    for _ in range(CYCLES):
        np.multiply(x, y, out=out)
    return time.process_time() - start


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
            start = time.process_time()
            run = systolic.simulate(
                a, b, rows=CELLS, cols=CELLS, dataflow=dataflow, trace=False, probes=samples
            )
            stepping.append(time.process_time() - start)
        check_samples(run, a, b)
        check_floats(rng, dataflow)
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


def check_floats(rng: np.random.Generator, dataflow: str) -> None:
    """Hold a product of floats to the sums in order of k, each rounded once, bit for bit."""
    a, b = (rng.standard_normal((SIDE, SIDE)).astype(np.float32) for _ in range(2))
    run = systolic.simulate(a, b, rows=CELLS, cols=CELLS, dataflow=dataflow, trace=False)
    expected = np.zeros((SIDE, SIDE), np.float32)
    for k in range(SIDE):
        expected += a[:, k, None] * b[k]
    if run.result.dtype != np.float32 or not np.array_equal(
        run.result.view(np.int32), expected.view(np.int32)
    ):
        raise AssertionError(f"{run} does not add in order of k")


def bench_gemm() -> dict[str, Any]:
    """Count costs in closed form, small and large; a row tells of the slowest."""
    slowest = 0.0
    for side in (1, 129, 4096, 1_000_000):
        for dataflow in systolic.DATAFLOWS:
            times = []
            for _ in range(5):
                start = time.process_time()
                for _ in range(1000):
                    systolic.gemm(m=side, k=side, n=side, rows=CELLS, cols=CELLS, dataflow=dataflow)
                times.append((time.process_time() - start) / 1000)
            slowest = max(slowest, min(times))
    return {"name": "systolic.gemm, any size", "value": slowest, "unit": "s", "limit": 20e-6}


def bench_memory() -> list[dict[str, Any]]:
    """Peak of what the same run allocates, with and without its schedule and shadow registers."""
    a = np.ones((SIDE, SIDE), np.float32)
    rows = []
    for trace, overlap in ((False, False), (True, False), (True, True)):
        tracemalloc.start()
        systolic.simulate(a, a, rows=CELLS, cols=CELLS, trace=trace, overlap=overlap)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        name = f"memory of that run, trace={trace}, overlap={overlap}"
        rows.append({"name": name, "value": peak, "unit": "B", "limit": 200e6})
    return rows


def bench_pipeline() -> list[dict[str, Any]]:
    """Events a second of the tile pipeline: many small tiles, each with its times, buffers and bytes."""
    rows = []
    for buffers in (1, 2):
        times = []
        for _ in range(3):
            start = time.process_time()
            trace = systolic.pipeline(
                m=2048, k=2048, n=2048, tile=(128, 128, 128), chip="tpu_v5e", buffers=buffers
            )
            times.append(time.process_time() - start)
        events = trace.kind.size
        name = f"tile pipeline, {events} events, buffers={buffers}"
        rows.append({"name": name, "value": events / min(times), "unit": "events/s"})
    return rows
