"""Blocks placed a second, in every order of SMs, equal and uneven."""

from __future__ import annotations

import time
from typing import Any

from pulsewarp import simt

BLOCKS, SMS, EACH = 50_000, 132, 16


def bench_placement() -> list[dict[str, Any]]:
    """Place one large grid on an H100's number of SMs; the best of three in processor time."""
    uneven = [100 + 7919 * b % 900 for b in range(BLOCKS)]
    rows = []
    for name, cycles in (("equal", 1000), ("uneven", uneven)):
        for order in simt.ORDERS:
            best = float("inf")
            for _ in range(3):
                start = time.process_time()
                simt.place_blocks(BLOCKS, SMS, EACH, cycles, order)
                best = min(best, time.process_time() - start)
            rows.append(
                {"name": f"placement of {name} blocks, {order}", "value": BLOCKS / best, "unit": "1/s"}
            )
    return rows
