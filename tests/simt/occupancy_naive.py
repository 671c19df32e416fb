"""Occupancy counted naively: an SM of plain numbers, blocks put into it one by one until one does not fit.

Nothing here divides: what fits is found by taking away until nothing is left. It reads its limits from the
oracle's own table of devices, not from the product's data.
"""

from __future__ import annotations

import csv
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

REFERENCE = Path(__file__).parent.parent / "reference"
DEVICES = {row["cc"]: row for row in csv.DictReader((REFERENCE / "cuda_devices.csv").open())}
ENDLESS = 2000
"""More blocks than any SM has slots for: a resource that still has room then sets no limit."""


def grown(amount: int, step: int) -> int:
    while amount % step:
        amount += 1
    return amount


def place(room: int, part: int) -> int | float:
    """Count how often a part can be taken from the room."""
    times = 0
    while room >= part:
        room, times = room - part, times + 1
        if times == ENDLESS:
            return math.inf
    return times


def limits(
    compute_capability: str,
    threads_per_block: int,
    registers_per_thread: int,
    static_shared: int,
    dynamic_shared: int,
    shared_opt_in: bool,
    carveout: int | None,
) -> dict[str, int | float]:
    device = DEVICES[compute_capability]

    def of(name: str) -> int:
        return int(device[name])

    warps = len(range(0, threads_per_block, 32))
    found: dict[str, int | float] = {"warps": place(of("max_warps_per_sm"), warps)}
    if threads_per_block > 1024:
        found["warps"] = 0

    # Each of the four sub-partitions takes whole warps; a block takes its warps wherever there are some left.
    each = grown(32 * registers_per_thread, 256)
    fitting = 4 * place(16384, each) if each else math.inf
    found["registers"] = place(int(fitting), warps) if each else math.inf
    # At launch a block is held against the whole file, its warps counted in fours.
    if each * grown(warps, 4) > 65536 or registers_per_thread > 256:
        found["registers"] = 0

    reserved = of("smem_reserved_per_block")
    asked = static_shared + dynamic_shared
    shared = grown(asked + reserved, of("smem_alloc_granularity"))
    allowed = of("smem_per_block_default")
    if shared_opt_in and asked > allowed:
        allowed = of("smem_per_block_optin")
    sizes = [1024 * int(size) for size in device["smem_carveouts_kib"].split()]
    capacity = of("smem_per_sm")
    if carveout is not None and shared <= capacity:
        wanted = int(Fraction(carveout, 100) * capacity)
        capacity = min(size for size in sizes if size >= wanted and size >= shared)
    found["shared_memory"] = place(capacity, shared) if shared else math.inf
    if shared > allowed + reserved:
        found["shared_memory"] = 0
    found["blocks"] = of("max_blocks_per_sm")
    barriers = device["block_barriers_per_sm_header"]
    found["barriers"] = int(barriers) if barriers else math.inf
    return found


def blocks(found: dict[str, int | float]) -> int:
    """Put blocks in until one limit is reached."""
    count = 0
    while all(limit > count for limit in found.values()):
        count += 1
    return count


def launch_of(row: dict[str, str]) -> dict[str, Any]:
    """Return the keywords of `simt.occupancy` for a row of the oracle."""
    carveout = int(row["carveout"])
    return {
        "compute_capability": row["cc"],
        "threads_per_block": int(row["threads_per_block"]),
        "registers_per_thread": int(row["regs_per_thread"]),
        "static_shared": int(row["static_smem"]),
        "dynamic_shared": int(row["dynamic_smem"]),
        "shared_opt_in": row["smem_optin"] == "1",
        "carveout": None if carveout == -1 else carveout,
    }


def rows(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((REFERENCE / name).open()))
