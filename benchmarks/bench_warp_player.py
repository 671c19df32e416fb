"""What it takes to hand a full SM's run to the browser."""

from __future__ import annotations

import time

from pulsewarp import simt, widgets


def bench_full_sm() -> list[dict[str, object]]:
    """Pack 64 warps over several thousand cycles: seconds, beside simulating them, and megabytes of text."""
    program = simt.load_compute(12, 6, load_latency=200, load_interval=2)
    start = time.perf_counter()
    trace = simt.simulate([program] * 64, policy="gty", max_outstanding=24)
    simulated = time.perf_counter()
    player = widgets.WarpPlayer(trace)
    packed = time.perf_counter()
    run = f"64 warps, {trace.cycles} cycles"
    return [
        {"name": f"simulate {run}", "value": simulated - start, "unit": "s"},
        {"name": f"pack {run}, with every sentence", "value": packed - simulated, "unit": "s"},
        {
            "name": f"text of {run}",
            "value": len(player.trace) / 1e6,
            "unit": "MB",
            "limit": 5,
            "better": "lower",
        },
    ]
