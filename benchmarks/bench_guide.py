"""What a verdict costs after import: `guide.advise` on workloads whose numbers it has not seen."""

from __future__ import annotations

import statistics
import time
from typing import Any

from pulsewarp import guide

_WORKLOADS: dict[str, dict[str, Any]] = {
    "training": {
        "domain": "llm", "phase": "train", "params_b": 70.0, "precision": "bf16", "framework": "jax",
        "shapes": "static", "location": "multi_cloud", "chips": 512, "tokens_b": 2000.0,
    },
    "serving": {"phase": "inference", "model": "llama-3.1-70b", "latency": "interactive"},
}  # fmt: skip


def bench_guide() -> list[dict[str, Any]]:
    """Time advise on workloads it has not seen, so that no cached estimate helps; the median of nine.

    Processor time, since what else runs on the machine is none of the guide's work.
    """
    found = []
    for name, fields in _WORKLOADS.items():
        guide.advise(guide.Workload(**fields))  # the catalogue and the fits are read once
        seconds = []
        for context in range(4096, 4105):
            workload = guide.Workload(**fields, seq_len=context)
            start = time.process_time()
            guide.advise(workload)
            seconds.append(time.process_time() - start)
        value = statistics.median(seconds)
        found.append({"name": f"advise, {name}, nothing cached", "value": value, "unit": "s", "limit": 0.05})
    return found
