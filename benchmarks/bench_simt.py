"""Warp instructions a second of `simt.simulate`, with the states of every cycle read and without."""

from __future__ import annotations

import random
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


def irregular(bars: bool) -> list[simt.Instruction]:
    """Return 1,000 instructions drawn at random, loads and FMAs: nothing in them repeats."""
    draw = random.Random(7)
    registers = [f"r{k}" for k in range(12)]

    def instruction() -> simt.Instruction:
        load = draw.random() < 0.25
        latency = draw.choice((30, 60, 200, 400) if load else (4, 4, 6))
        srcs = () if load else tuple(draw.sample(registers, 2))
        return simt.Instruction("mem" if load else "alu", latency, 1, draw.choice(registers), srcs)

    return [simt.bar() if bars and pc % 25 == 24 else instruction() for pc in range(1000)]


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
        "irregular: loads and FMAs": {"programs": [irregular(bars=False)] * 32},
        "irregular, with barriers": {"programs": [irregular(bars=True)] * 32},
        "16x16 product, k = 256": {"programs": kernel.programs, "blocks": kernel.blocks},
    }


def processor_seconds(arguments: dict[str, Any]) -> tuple[float, float, int]:
    """Return seconds without the states and with them, and the instructions issued.

    Each the best of five runs, in processor time of this one thread.
    """
    bare = full = float("inf")
    for _ in range(5):
        start = time.process_time()
        trace = simt.simulate(**arguments)
        bare = min(bare, time.process_time() - start)
        assert trace.state.size  # worked out as it is read
        full = min(full, time.process_time() - start)
    return bare, full, trace.issue_count


def additions_a_second() -> float:
    """Return how many additions a second a loop in Python makes here: what machine this is."""
    best = float("inf")
    for _ in range(5):
        start, total = time.process_time(), 0
        for k in range(1_000_000):
            total += k
        best = min(best, time.process_time() - start)
    return 1_000_000 / best


def bench_scheduling() -> list[dict[str, Any]]:
    """Simulate each run under each policy; a row tells of the slowest."""
    rows: list[dict[str, Any]] = []
    for name, arguments in runs().items():
        bare, full = {}, {}
        for policy in simt.POLICIES:
            seconds, with_states, count = processor_seconds({**arguments, "policy": policy})
            bare[policy], full[policy] = count / seconds, count / with_states
        least = LEAST if rows else 100 * ACCELSIM
        for rates, what, limit in ((bare, "", least), (full, ", states read", None)):
            slowest = min(rates, key=lambda policy: rates[policy])
            row = {"name": f"{name} ({slowest}{what})", "value": rates[slowest], "unit": "instr/s"}
            rows.append({**row, "limit": limit, "better": "higher"})
    first, with_states = (row["value"] for row in rows[:2])
    for value, what in ((first, "the first"), (with_states, "the first, states read")):
        name = f"{what}, against Accel-Sim's {ACCELSIM} instr/s where that was measured"
        rows.append({"name": name, "value": value / ACCELSIM, "unit": "times"})
    name = "additions of a Python loop here for one instruction of the first"
    rows.append({"name": name, "value": additions_a_second() / first, "unit": "additions"})
    return rows


def bench_sentences() -> dict[str, Any]:
    """Put a long trace into words."""
    trace = simt.simulate([mixed()] * 8)
    start = time.process_time()
    told = trace.sentences()
    name = f"{sum(map(len, told))} sentences of a trace"
    return {"name": name, "value": time.process_time() - start, "unit": "s"}
