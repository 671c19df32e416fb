"""Draw the README's picture from the product: both machines in mid-run, side by side.

    python tools/picture.py

Needs the package, Playwright and a browser (`tools/find_browser.py` finds one). Nothing in it is set by
hand: both scenes show simulated runs of products of the same two matrices.
"""

from __future__ import annotations

import html
import os
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

from pulsewarp import simt, systolic, widgets

PICTURE = Path(__file__).parent.parent / "notebooks" / "images" / "both_machines.png"
WIDTH, HEIGHT = 1060, 1000  # down to the buttons; the warp scene's lanes come below them


def main() -> None:
    rng = np.random.default_rng(7)
    a, b = rng.integers(-4, 5, (16, 16)), rng.integers(-4, 5, (16, 16))
    scenes = [
        widgets.SystolicPlayer(systolic.simulate(a[:6, :4], b[:4, :4], rows=4, cols=4), start=9),
        widgets.WarpPlayer(simt.matmul_kernel(a, b).simulate(schedulers=4), start=45),
    ]
    size = f'width="{WIDTH}" height="{HEIGHT}"'
    pages = [html.escape(scene.to_html(), quote=True) for scene in scenes]
    frames = "".join(f'<iframe srcdoc="{page}" {size}></iframe>' for page in pages)
    page_text = f"<style>body{{margin:0;display:flex}}iframe{{border:0}}</style>{frames}"
    PICTURE.parent.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("PULSEWARP_BROWSER"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 2 * WIDTH, "height": HEIGHT})
        page.set_content(page_text)
        for frame in page.frames[1:]:
            frame.locator("button", has_text="Play").wait_for()
        page.screenshot(path=PICTURE)
        browser.close()
    print(PICTURE)


if __name__ == "__main__":
    main()
