"""Memory requests a second: sectors and wavefronts of one warp at a time, and of many at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from pulsewarp import simt

REQUESTS = 2**15
ADDRESSES = 4 * np.random.default_rng(0).integers(0, 4096, (REQUESTS, 32))


def rate(call: Callable[[], object], requests: int) -> float:
    """Return requests a second, the best of three runs in processor time."""
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return requests / best


def bench_access() -> list[dict[str, Any]]:
    """Count random 4-byte requests; one by one, each is also taken apart lane by lane."""
    single = [tuple(row) for row in ADDRESSES[:2000].tolist()]
    runs: list[tuple[str, Callable[[], object], int]] = [
        ("sectors, many requests at once", lambda: simt.count_sectors(ADDRESSES, 4), REQUESTS),
        ("wavefronts, many requests at once", lambda: simt.count_wavefronts(ADDRESSES, 4), REQUESTS),
        ("sectors, one request a call", lambda: [simt.sectors(row, 4) for row in single], len(single)),
        ("wavefronts, one request a call", lambda: [simt.wavefronts(row, 4) for row in single], len(single)),
    ]
    return [{"name": name, "value": rate(call, count), "unit": "requests/s"} for name, call, count in runs]
