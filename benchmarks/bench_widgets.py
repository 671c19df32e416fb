"""What a scene costs: bytes on the wire, time of a frame, messages to the kernel while it plays."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from pulsewarp import systolic
from pulsewarp.widgets import SystolicPlayer, TilingPlayer
from pulsewarp.widgets._player import Player
from pulsewarp.widgets.systolic import pack_trace

ROOT = Path(__file__).parent.parent


def large_trace(kind: str, m: int = 256, side: int = 256) -> systolic.SystolicTrace:
    """Return m x side by side x side numbers on 256 x 256 cells; with side 256, one fold."""
    rng = np.random.default_rng(0)
    shapes = (m, side), (side, side)
    if kind == "int8":
        a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in shapes)
    else:
        dtype = np.dtype(ml_dtypes.bfloat16 if kind == "bf16" else kind)
        a, b = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
    return systolic.simulate(a, b, rows=256, cols=256)


def bench_wire() -> list[dict[str, Any]]:
    """Text that crosses once: one fold through which 1,024 rows stream, and a whole product of 16 folds."""
    cases = [
        ("int8", 1024, 256, 1.5), ("bf16", 1024, 256, 1.5), ("float32", 1024, 256, 5.0),
        ("int8", 1024, 1024, 5.0), ("bf16", 1024, 1024, 5.0),
    ]  # fmt: skip
    return [
        {
            "name": f"wire of {m}x{side}x{side} on 256x256 cells, {kind}",
            "value": len(pack_trace(large_trace(kind, m, side))) / 1e6,
            "unit": "MB",
            "limit": limit,
        }
        for kind, m, side, limit in cases
    ]


FRAMES = 400
# The time between frames says whether 60 a second are kept; the time inside one, how much room is left.
WATCH = """
() => new Promise((done) => {
  const gaps = [], work = [];
  let before = null;
  const root = document.querySelector(".pw");
  const own = window.requestAnimationFrame.bind(window);
  window.requestAnimationFrame = (callback) => own((now) => {
    const begin = performance.now();
    callback(now);
    work.push(performance.now() - begin);
  });
  const watch = (now) => {
    if (before !== null) gaps.push(now - before);
    before = now;
    if (gaps.length < FRAMES) own(watch);
    else done({ gaps, work, cycle: Number(root.dataset.cycle) });
  };
  document.querySelector(".pw-play").click();
  own(watch);
})
""".replace("FRAMES", str(FRAMES))


ROUNDS = 3


def bench_frames() -> list[dict[str, Any]]:
    """Play 256 x 256 cells at 60 cycles a second in headless Chromium and time every frame.

    The best of three rounds: other programs on the machine delay frames too, and that is no property of ours.
    """
    from playwright.sync_api import sync_playwright

    whole = systolic.gemm(m=1024, k=1024, n=1024, rows=256, cols=256, overlap=True)
    players: dict[str, Player] = {
        "with values": SystolicPlayer(large_trace("float32"), start=0, rate=60),
        "in tiles": TilingPlayer(whole, start=0, rate=60),
    }
    rows = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=find_browser())
        for scene, player in players.items():
            path = Path(folder) / "page.html"
            path.write_text(player.to_html(), encoding="utf-8")
            page = browser.new_page(viewport={"width": 1280, "height": 1200})
            page.goto(path.as_uri())
            page.wait_for_selector(".pw-shell")
            page.wait_for_timeout(1000)
            rows += frame_rows(scene, watch(page))
            page.close()
        browser.close()
    return rows


def watch(page: Any) -> list[dict[str, list[float]]]:
    """Play a scene from its first cycle, several times over, and return what was timed."""
    rounds = []
    for _ in range(ROUNDS):
        seen = page.evaluate(WATCH)
        if seen["cycle"] < FRAMES // 2:  # at one cycle a frame
            raise AssertionError(
                f"the scene stood still: {FRAMES} frames brought it to cycle {seen['cycle']}"
            )
        rounds.append(seen)
        page.get_by_role("button", name="First cycle").click()
        page.click(".pw-play")  # playing went on from cycle 0; this pauses it
    return rounds


def frame_rows(scene: str, rounds: list[dict[str, list[float]]]) -> list[dict[str, Any]]:
    """Return the best round as rows."""
    gaps, work = min(
        ((np.array(seen["gaps"]), np.array(seen["work"])) for seen in rounds),
        key=lambda one: float(np.percentile(one[0], 95)),
    )
    values = [
        ("95 % of frames apart", float(np.percentile(gaps, 95)), 17.0),
        ("half of frames apart", float(np.median(gaps)), None),
        ("95 % of frames' own work", float(np.percentile(work, 95)), 17.0),
        ("half of frames' own work", float(np.median(work)), None),
    ]
    return [
        {"name": f"256x256 {scene}, 60 cycles a second, {name}", "value": value, "unit": "ms", "limit": limit}
        for name, value, limit in values
    ]


def find_browser() -> str:
    """Return the browser that the tests use."""
    spec = importlib.util.spec_from_file_location("find_browser", ROOT / "tools" / "find_browser.py")
    assert spec is not None and spec.loader is not None
    finder = importlib.util.module_from_spec(spec)
    sys.modules.setdefault("find_browser", finder)
    spec.loader.exec_module(finder)
    return str(finder.find_browser())
