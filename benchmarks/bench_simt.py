"""Warp instructions a second of `simt.simulate`, states included, on programs bound by different things."""

from __future__ import annotations

import time
from typing import Any

from pulsewarp import simt

# Warp instructions a second of Accel-Sim on the first of these runs, where the reference rows were made.
ACCELSIM = 8_167
LEAST = 300_000  # on any other run


def mixed() -> list[simt.Instruction]:
    """Return 1,040 instructions: loads, FMAs that use them, eight accumulators."""
    step = []
    for k in range(8):
        step.append(simt.Instruction("mem", 28, 1, f"ld{k}", (), f"LDG ld{k}"))
    for k in range(96):
        step.append(simt.Instruction("alu", 4, 1, f"acc{k % 8}", (f"acc{k % 8}", f"ld{k % 8}"), "FFMA"))
    return step * 10


def tensor_tiles() -> list[simt.Instruction]:
    """Return 800 instructions: per tile two loads, a barrier, 16 mma on 4 accumulators, a barrier."""
    tile = [simt.Instruction("mem", 28, 2, f"t{k}", (), "LDS") for k in range(2)]
    tile.append(simt.bar())
    tile += [simt.Instruction("tensor", 18, 8, f"c{k % 4}", (f"c{k % 4}", "t0", "t1")) for k in range(16)]
    return [*tile, simt.bar()] * 40


def runs() -> dict[str, dict[str, Any]]:
    """Return the arguments of `simulate` by what holds the warps up; 32 warps, or as many as a kernel has."""
    barrier, late = simt.chain_and_barrier(100, 9), simt.chain_and_barrier(100, 18)
    kernel = simt.matmul_kernel([[1] * 256] * 16, [[1] * 16] * 256)
    return {
        "loads, FMAs, 8 accumulators": {"programs": [mixed()] * 32},
        "arithmetic: dependent chain": {"programs": [simt.chain(1000)] * 32},
        "arithmetic: units taken 2 cycles": {"programs": [simt.chain(1000, ilp=4, interval=2)] * 32},
        "memory: independent loads": {"programs": [simt.load_stream(200)] * 32},
        "memory: load and use, latency 400": {"programs": [simt.load_compute(200, 4, load_latency=400)] * 32},
        "memory: 8 loads in flight": {
            "programs": [simt.load_compute(200, 4, load_latency=100)] * 32,
            "max_outstanding": 8,
        },
        "barrier every 9 FMAs": {"programs": [barrier] * 32, "blocks": [w // 8 for w in range(32)]},
        "barrier, one warp late": {"programs": [late] + [barrier] * 31},
        "barrier every FMA": {"programs": [simt.chain_and_barrier(500, 1)] * 32},
        "divergence: 4 paths of 8 lanes": {"programs": [simt.diverge(4, 200, 200)] * 32},
        "tensor: 4 accumulators, staged by barriers": {"programs": [tensor_tiles()] * 32},
        "16x16 product, k = 256": {"programs": kernel.programs, "blocks": kernel.blocks},
    }


def processor_seconds(arguments: dict[str, Any]) -> tuple[float, int]:
    """Return the best of five runs in processor time of this one thread, and the instructions issued."""
    best = float("inf")
    for _ in range(5):
        start = time.process_time()
        trace = simt.simulate(**arguments)
        best = min(best, time.process_time() - start)
    return best, trace.issue_count


def bench_scheduling() -> list[dict[str, Any]]:
    """Simulate each run under each policy; a row tells of the slowest."""
    rows: list[dict[str, Any]] = []
    for name, arguments in runs().items():
        rates = {}
        for policy in simt.POLICIES:
            seconds, count = processor_seconds({**arguments, "policy": policy})
            rates[policy] = count / seconds
        slowest = min(rates, key=lambda policy: rates[policy])
        least = LEAST if rows else 100 * ACCELSIM
        row = {"name": f"{name} ({slowest})", "value": rates[slowest], "unit": "instr/s"}
        rows.append({**row, "limit": least, "better": "higher"})
    best = {
        "name": f"the first, against Accel-Sim's {ACCELSIM} instr/s",
        "value": rows[0]["value"] / ACCELSIM,
    }
    rows.append({**best, "unit": "times"})
    return rows


def bench_sentences() -> dict[str, Any]:
    """Put a long trace into words."""
    trace = simt.simulate([mixed()] * 8)
    start = time.process_time()
    told = trace.sentences()
    name = f"{sum(map(len, told))} sentences of a trace"
    return {"name": name, "value": time.process_time() - start, "unit": "s"}
