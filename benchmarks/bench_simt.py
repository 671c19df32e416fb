"""Warp instructions a second of `simt.simulate`, states included, on programs bound by different things."""

from __future__ import annotations

import time

from pulsewarp import simt


def _mixed() -> list[simt.Instruction]:
    """Return 1,040 instructions: loads, sums that use them, eight accumulators."""
    step = []
    for k in range(8):
        step.append(simt.Instruction("mem", 28, 1, f"ld{k}", (), f"LDG ld{k}"))
    for k in range(96):
        step.append(simt.Instruction("alu", 4, 1, f"acc{k % 8}", (f"acc{k % 8}", f"ld{k % 8}"), "FFMA"))
    return step * 10


def programs() -> dict[str, tuple[list[object], dict[str, object]]]:
    """Return the programs of 32 warps each, and how they are run."""
    chain, barrier = simt.chain(1000), simt.chain_and_barrier(100, 9)
    late = simt.chain_and_barrier(100, 18)
    return {
        "loads, sums, 8 accumulators": ([_mixed()] * 32, {}),
        "arithmetic: dependent chain": ([chain] * 32, {}),
        "arithmetic: units taken 2 cycles": ([simt.chain(1000, ilp=4, interval=2)] * 32, {}),
        "memory: independent loads": ([simt.load_stream(200)] * 32, {}),
        "memory: load and use, latency 400": ([simt.load_compute(200, 4, load_latency=400)] * 32, {}),
        "memory: 8 loads in flight": (
            [simt.load_compute(200, 4, load_latency=100)] * 32,
            {"max_outstanding": 8},
        ),
        "barrier every 9 sums": ([barrier] * 32, {"blocks": [w // 8 for w in range(32)]}),
        "barrier, one warp late": ([late] + [barrier] * 31, {}),
        "16x16 product, k = 256": (
            list(simt.matmul_kernel([[1] * 256] * 16, [[1] * 16] * 256).programs),
            {},
        ),
    }


def scheduling() -> list[dict[str, object]]:
    """Return a row for each program and policy: best of three runs, in processor time of this one thread."""
    rows: list[dict[str, object]] = []
    for name, (warps, keywords) in programs().items():
        for policy in simt.POLICIES:
            best = float("inf")
            for _ in range(3):
                start = time.process_time()
                trace = simt.simulate(warps, schedulers=4, policy=policy, **keywords)
                best = min(best, time.process_time() - start)
            rows.append(
                {
                    "program": name,
                    "policy": policy,
                    "instructions": trace.issue_count,
                    "cycles": trace.cycles,
                    "instructions_per_second": round(trace.issue_count / best),
                }
            )
    return rows


def sentences() -> list[dict[str, object]]:
    """Return how long it takes to put a long trace into words."""
    trace = simt.simulate([_mixed()] * 8, schedulers=4)
    start = time.process_time()
    told = trace.sentences()
    seconds = time.process_time() - start
    return [{"cycles": trace.cycles, "sentences": sum(map(len, told)), "seconds": round(seconds, 3)}]
