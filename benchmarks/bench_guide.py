"""What a verdict costs after import: `guide.advise` on a workload whose every number is known."""

from __future__ import annotations

import statistics
import time
from typing import Any

from pulsewarp import guide


def bench_guide() -> list[dict[str, Any]]:
    """Time advise on workloads it has not seen, so that no cached estimate helps; the median of nine."""
    guide.advise(guide.Workload())  # the catalogue is read once
    seconds = []
    for size in range(9):
        workload = guide.Workload(
            domain="llm", phase="train", params_b=7 + size, seq_len=4096, precision="bf16", framework="jax",
            shapes="static", location="multi_cloud", chips=512, tokens_b=2000,
        )  # fmt: skip
        start = time.perf_counter()
        guide.advise(workload)
        seconds.append(time.perf_counter() - start)
    return [
        {"name": "advise, nothing cached", "value": statistics.median(seconds), "unit": "s", "limit": 0.05}
    ]
