"""Whether the clocks of `bench.time_matmul` tell the truth: against loops written by hand, in one run.

What is compared alternates within the run, so that a slow moment hits both alike.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import Any

from pulsewarp.bench.live import _clock, timing
from pulsewarp.matmul import Matmul

PRODUCT = Matmul(512, 512, 512, "fp32")
LENGTH = 10
ROUNDS = 15


def _ratio(first: list[float], second: list[float]) -> float:
    return statistics.median(x / y for x, y in zip(first, second, strict=True))


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

    factors = jax.device_put(timing._factors(jax, PRODUCT, seed=0))
    ours, _, _ = _clock.compile_for(jax, timing.chain(jax, PRODUCT, "highest", LENGTH), factors)
    theirs = jax.jit(by_hand).lower(*factors).compile()
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS + 3):
        for times, program in zip(seconds, (ours, theirs), strict=True):
            times.append(_clock.call_once(jax, program, factors)[0])
    ratio = _ratio(seconds[0][3:], seconds[1][3:])
    name = "device clock off a loop by hand"
    return {"name": name, "value": abs(ratio - 1), "unit": "fraction", "limit": 0.03}


def bench_call_clock() -> dict[str, Any]:
    """Compare a call as we time it with a call of jitted code as a reader times it."""
    import jax

    factors = jax.device_put(timing._factors(jax, PRODUCT, seed=0))
    ours, _, _ = _clock.compile_for(jax, timing.single(jax, PRODUCT, "highest"), factors)
    theirs = jax.jit(lambda a, b: jax.lax.dot(a, b, precision="highest"))
    mine: list[float] = []
    yours: list[float] = []
    for _ in range(10 * ROUNDS):
        mine.append(_clock.call_once(jax, ours, factors)[0])
        start = time.perf_counter()
        theirs(*factors).block_until_ready()
        yours.append(time.perf_counter() - start)
    ratio = _ratio(mine[10:], yours[10:])
    name = "call clock off a call by hand"
    return {"name": name, "value": abs(ratio - 1), "unit": "fraction", "limit": 0.05}


def bench_memory_over_jax() -> dict[str, Any]:
    """Peak memory of timing a 512 product, over the same product through JAX alone."""
    alone = (
        "import jax, numpy as np\n"
        "jax.jit(lambda x: x @ x)(np.ones((512, 512), np.float32)).block_until_ready()"
    )
    timed = "from pulsewarp import bench; bench.time_matmul(512, 512, 512)"
    peaks = []
    for code in (alone, timed):
        show = f"{code}\nimport resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True)
        peaks.append(int(done.stdout) * 1024)
    more = (peaks[1] - peaks[0]) / 1e6
    return {"name": "memory of the harness over JAX", "value": more, "unit": "MB", "limit": 50}
