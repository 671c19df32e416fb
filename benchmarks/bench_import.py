"""What it costs to say `import pulsewarp`."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import Any


def import_seconds(module: str) -> float:
    """Return the wall time of a fresh interpreter that imports `module`, less that of an empty one."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", f"import {module}" if module else "pass"], check=True)
    return time.perf_counter() - start


def bench_import() -> list[dict[str, Any]]:
    """Alternate the three, so that a slow moment hits them alike; compare medians."""
    seconds: dict[str, list[float]] = {
        "": [],
        "numpy": [],
        "pulsewarp": [],
        "pulsewarp.systolic, pulsewarp.simt": [],
    }
    for _ in range(7):
        for module, times in seconds.items():
            times.append(import_seconds(module))
    empty, numpy, package, simulators = (statistics.median(times) for times in seconds.values())
    return [
        {"name": "import numpy", "value": numpy - empty, "unit": "s"},
        {"name": "import pulsewarp over import numpy", "value": (package - empty) / (numpy - empty),
         "unit": "ratio", "limit": 3},
        {"name": "both simulators over import numpy", "value": (simulators - empty) / (numpy - empty),
         "unit": "ratio", "limit": 3},
    ]  # fmt: skip
