"""What the first question to the catalogue costs."""

from __future__ import annotations

import statistics
import time
from typing import Any

from pulsewarp.chips.files import DATA
from pulsewarp.chips.loader import read_chips


def bench_chips() -> list[dict[str, Any]]:
    """Read all chips from their files; later questions are answered from memory."""
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        read_chips(DATA)
        seconds.append(time.perf_counter() - start)
    return [
        {
            "name": "read the catalogue of chips",
            "value": statistics.median(seconds),
            "unit": "s",
            "limit": 0.15,
        }
    ]
