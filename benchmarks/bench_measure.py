"""Whether the clocks of `bench.time_matmul` tell the truth: against loops written by hand, in one run.

What is compared alternates within the run, pair by pair and each in turn first, so that a slow moment hits
both alike and neither gains from going first. Each of a pair is the shortest of several calls, since what
disturbs a shared machine only ever adds; the figure is the median of the pairs' ratios. Rounds go on until
that median is known to half a percent (1.57 times the quartiles' distance over the root of their number, as
in the notches of a box plot) or most of a minute is over. A machine so restless that the median stays
unknown by more than half of what is allowed gives "not measured", and never a pass.
"""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pulsewarp.bench.live import _clock, timing
from pulsewarp.bench.live.timing import Work
from pulsewarp.matmul import Matmul

PRODUCT = Matmul(512, 512, 512, "fp32")
WORK = Work(PRODUCT, "float32", precision="highest")
LENGTH = 5
CALLS = 5
FEWEST_ROUNDS, LONGEST, KNOWN_TO = 20, 40.0, 0.005
BLAS_SIDE = 2048

Timer = Callable[[], float]


def _ratio(ours: Timer, theirs: Timer, known_to: float = KNOWN_TO) -> tuple[float, float, int]:
    """Median of paired ratios, how far it may still move, and the pairs that it took."""
    for timer in (ours, theirs) * 3:
        timer()
    ratios: list[float] = []
    start = time.perf_counter()
    while True:
        if len(ratios) % 2:
            first, second = theirs(), ours()
            ratios.append(second / first)
        else:
            first, second = ours(), theirs()
            ratios.append(first / second)
        if len(ratios) < FEWEST_ROUNDS:
            continue
        low, middle, high = np.quantile(ratios, (0.25, 0.5, 0.75))
        within = 1.57 * float(high - low) / math.sqrt(len(ratios))
        if within < known_to or time.perf_counter() - start > LONGEST:
            return float(middle), within, len(ratios)


def _row(name: str, found: tuple[float, float, int], limit: float) -> dict[str, Any]:
    ratio, within, pairs = found
    row: dict[str, Any] = {"name": name, "value": abs(ratio - 1), "unit": "fraction", "limit": limit}
    if within > limit / 2:
        why = (
            f"ratio {ratio:.3f}, known to {within:.3f} only after {pairs} pairs: the machine is too restless"
        )
        return row | {"value": None, "why": why}
    return row | {"note": f"ratio {ratio:.4f}, known to {within:.4f}, {pairs} pairs"}


def bench_device_clock() -> dict[str, Any]:
    """Compare our chain with a loop of the same products that a careful reader writes by hand."""
    import jax
    from jax import lax

    def by_hand(a: Any, b: Any) -> Any:
        def step(_: int, state: Any) -> Any:
            a, last = state
            a = a.at[0, 0].set(lax.clamp(-1.0, last[0, 0], 1.0))
            return a, lax.dot(a, b, precision="highest")

        return lax.fori_loop(0, LENGTH, step, (a, jax.numpy.zeros((512, 512))))

    a, b = timing._factors(jax, WORK, seed=0)
    ours = timing.links_of(jax, WORK, (a, b), WORK.smaller)
    ours.make(LENGTH)
    factors = jax.device_put((a, b))
    theirs = jax.jit(by_hand).lower(*factors).compile()

    def shortest(program: Any, arguments: tuple[Any, ...]) -> Timer:
        return lambda: min(_clock.call_once(jax, program, arguments)[0] for _ in range(CALLS))

    return _row(
        "device clock off a loop by hand", _ratio(shortest(ours, ()), shortest(theirs, factors)), 0.03
    )


def bench_call_clock() -> dict[str, Any]:
    """Compare calls as we time them with calls of jitted code as a reader times them."""
    import jax

    factors = jax.device_put(timing._factors(jax, WORK, seed=0))
    program, _, _ = _clock.compile_for(jax, timing.single_of(jax, WORK), factors)
    jitted = jax.jit(lambda a, b: jax.lax.dot(a, b, precision="highest"))

    def ours() -> float:
        return min(_clock.call_once(jax, program, factors)[0] for _ in range(CALLS))

    def theirs() -> float:
        seconds = []
        for _ in range(CALLS):
            start = time.perf_counter()
            jitted(*factors).block_until_ready()
            seconds.append(time.perf_counter() - start)
        return min(seconds)

    return _row("call clock off a call by hand", _ratio(ours, theirs), 0.05)


def bench_against_blas() -> list[dict[str, Any]]:
    """Compare a float32 2048 product through JAX with NumPy's BLAS, by the same rule and alternating.

    Where the two differ by more than a tenth, the other rows say why: seconds of all processors together tell
    whose kernels need more work, and cores kept busy tell whose threads wait.
    """
    import jax

    work = Work(Matmul(BLAS_SIDE, BLAS_SIDE, BLAS_SIDE, "fp32"), "float32", precision="highest")
    a, b = timing._factors(jax, work, seed=0)
    on_device = jax.device_put((a, b))
    program, _, _ = _clock.compile_for(jax, timing.single_of(jax, work), on_device)
    out = np.empty((BLAS_SIDE, BLAS_SIDE), np.float32)
    walls: dict[str, list[float]] = {"XLA": [], "BLAS": []}
    processors: dict[str, list[float]] = {"XLA": [], "BLAS": []}

    def timer(name: str, call: Callable[[], object]) -> Timer:
        def timed() -> float:
            busy, start = time.process_time(), time.perf_counter()
            call()
            walls[name].append(time.perf_counter() - start)
            processors[name].append(time.process_time() - busy)
            return walls[name][-1]

        return timed

    xla = timer("XLA", lambda: program(*on_device).block_until_ready())
    blas = timer("BLAS", lambda: np.matmul(a, b, out=out))
    ratio, within, pairs = _ratio(xla, blas, known_to=0.01)
    work_ratio = statistics.median(processors["XLA"]) / statistics.median(processors["BLAS"])
    rows: list[dict[str, Any]] = [
        {
            "name": "XLA's 2048 product over BLAS's",
            "value": ratio,
            "unit": "times",
            "note": f"known to {within:.3f}, {pairs} pairs",
        },
        {
            "name": "the shortest of XLA's over that of BLAS's",
            "value": min(walls["XLA"]) / min(walls["BLAS"]),
        },
        {"name": "processor seconds, XLA's over BLAS's", "value": work_ratio},
    ]
    for name, seconds in walls.items():
        kept = statistics.median(x / y for x, y in zip(processors[name], seconds, strict=True))
        rows.append({"name": f"cores that {name} keeps busy", "value": kept, "unit": "cores"})
    rows.append({"name": "cores that may be used", "value": float(_usable_cores()), "unit": "cores"})
    return [{"unit": "times", **row} for row in rows]


def bench_memory_over_jax() -> dict[str, Any]:
    """Peak memory of timing a 512 product, over the same product through JAX alone (Linux only)."""
    name = "memory of the harness over JAX"
    if not Path("/proc/self/status").exists():
        return {"name": name, "value": None, "unit": "MB", "why": "no /proc/self/status on this system"}
    alone = (
        "import jax, numpy as np\n"
        "jax.jit(lambda x: x @ x)(np.ones((512, 512), np.float32)).block_until_ready()"
    )
    timed = "from pulsewarp import bench; bench.time_matmul(512, 512, 512)"
    peaks = []
    for code in (alone, timed):
        # Not getrusage: a child's begins with what its parent had, which here is the larger of the two.
        show = f"{code}\nprint(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])"
        done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True)
        peaks.append(int(done.stdout) * 1024)
    more = (peaks[1] - peaks[0]) / 1e6
    return {"name": name, "value": more, "unit": "MB", "limit": 50}


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
