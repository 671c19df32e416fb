"""Occupancies a second: of launches that all differ, and of the search for one more block."""

from __future__ import annotations

import time
from typing import Any

from pulsewarp import simt

COUNT = 20_000


def launches() -> list[dict[str, Any]]:
    """Return launches over all compute capabilities, no two of them alike."""
    names = list(simt.compute_capabilities())
    return [
        {
            "compute_capability": names[i % len(names)],
            "threads_per_block": 1 + i % 1024,
            "registers_per_thread": i % 256,
            "dynamic_shared": 3 * i % 100_000,
            "shared_opt_in": bool(i % 2),
            "carveout": None if i % 3 else i % 101,
        }
        for i in range(COUNT)
    ]


def bench_occupancy() -> list[dict[str, Any]]:
    """Count blocks, and look for one more; the best of three in processor time of this one thread."""
    given = launches()
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        held = [simt.occupancy(**launch) for launch in given]
        best = min(best, time.process_time() - start)
    start = time.process_time()
    found = sum(len(one.one_more()) for one in held[::100])
    search = time.process_time() - start
    return [
        {
            "name": "occupancy evaluations",
            "value": COUNT / best,
            "unit": "1/s",
            "limit": 50_000,
            "better": "higher",
        },
        {
            "name": f"search for one more block ({found} changes)",
            "value": len(held[::100]) / search,
            "unit": "1/s",
        },
    ]
