"""What the lessons cost on this machine, and that a playing scene leaves the kernel alone."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent / "tools"))

import keep_outputs

BOTH_PLAYERS = (
    "from pulsewarp import simt, systolic, widgets\n"
    "widgets.SystolicPlayer(systolic.simulate([[1, 2], [3, 4]], [[5, 6], [7, 8]], rows=2, cols=2))",
    "kernel = simt.matmul_kernel([[1, 2], [3, 4]], [[5, 6], [7, 8]])\n"
    "widgets.WarpPlayer(kernel.simulate(schedulers=1))",
)


def bench_notebooks() -> list[dict[str, Any]]:
    """Run each lesson to its end in a kernel of its own, without a browser and without an accelerator."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")  # the promise is about machines that have none
    rows: list[dict[str, Any]] = []
    total = 0.0
    for path in keep_outputs.paths():
        run = keep_outputs.execute(path)
        total += run.seconds
        rows.append({"name": f"{path.stem} runs to its end", "value": run.seconds, "unit": "s"})
        rows.append(
            {"name": f"{path.stem} peak memory", "value": run.peak_bytes / 1e9, "unit": "GB", "limit": 1.0}
        )
    rows.append({"name": "all lessons together", "value": total, "unit": "s", "limit": 180})
    return rows


def bench_messages_while_playing() -> list[dict[str, Any]]:
    """Count what crosses between browser and kernel while each player plays, in JupyterLab."""
    import notebook_hosts
    from find_browser import find_browser
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        path = notebook_hosts.write_notebook(Path(folder) / "both.ipynb", BOTH_PLAYERS)
        browser = driver.chromium.launch(executable_path=find_browser())
        with (
            notebook_hosts.serving(notebook_hosts.Lab, [path]) as host,
            host.visit(browser, path.name) as (page, visit),
        ):
            counts = [
                len(notebook_hosts.messages_while_playing(page, visit, scene))
                for scene in host.scenes(page, visit)
            ]
        browser.close()
    if len(counts) != len(BOTH_PLAYERS):
        raise RuntimeError(f"Only {len(counts)} of {len(BOTH_PLAYERS)} players were drawn.")
    return [
        {"name": f"kernel messages while the {player} plays", "value": count, "unit": "messages", "limit": 0}
        for player, count in zip(("array", "warp scene"), counts, strict=True)
    ]
