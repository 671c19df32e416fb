"""Exported pages in a browser: opened from a file, nothing leaves the machine, scenes play, figures draw."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pulsewarp.cli import main

if TYPE_CHECKING:
    from playwright.sync_api import FrameLocator, Page

pytestmark = pytest.mark.browser
nbformat = pytest.importorskip("nbformat", reason="notebooks are made and read with it")
pytest.importorskip("nbconvert", reason="exporting a notebook needs it; the lab extra brings it")

CELLS = (
    "from pulsewarp import guide, simt, systolic, widgets",
    "widgets.SystolicPlayer(systolic.simulate([[1, 2], [3, 4]], [[5, 6], [7, 8]], rows=2, cols=2), start=0)",
    "widgets.WarpPlayer(simt.matmul_kernel([[1, 2], [3, 4]], [[5, 6], [7, 8]]).simulate(), start=0)",
    'from pulsewarp import figures\n\nfigures.roofline("tpu_v5e")',
    "import plotly.graph_objects as go\n\ngo.Figure(go.Scatter(x=[1, 2, 3], y=[4, 1, 2]))",
    'guide.advise(guide.Workload(framework="pytorch", custom_kernels="cuda"))',
    'print("a line that is far too long for the page " * 9)',
)
# Code within words and code of its own, both wider than a phone.
LONG = "a_name_that_is_longer_than_a_phone_is_wide_" * 2
TEXT = f"# Both machines\n\n| a | b |\n|---|---|\n| c | `{LONG}` |\n\nSee `{LONG}`.\n\n```\n{LONG} = 1\n```"
# With a language a block of code gets colours, and other elements around it.
TEXT += f"\n\n```python\n{LONG} = 2\n```"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A notebook with both scenes, a figure and a report, exported once for the tests of this file."""
    folder = tmp_path_factory.mktemp("export")
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_markdown_cell(TEXT)]
    notebook.cells += [nbformat.v4.new_code_cell(text) for text in CELLS]
    nbformat.write(notebook, folder / "both.ipynb")
    assert main(["export", str(folder / "both.ipynb"), "-o", str(folder / "both.html")]) == 0
    return (folder / "both.html").read_text(encoding="utf-8")


def check_plays(scene: Page | FrameLocator) -> None:
    """One step on moves the scrub bar by one, and playing moves it by itself."""
    scrub = scene.locator(".pw-scrub")
    scrub.wait_for()
    before = int(scrub.input_value())
    scene.get_by_role("button", name="One cycle on").click()
    assert int(scrub.input_value()) == before + 1
    scene.locator(".pw-play").click()
    for _ in range(60):
        if int(scrub.input_value()) > before + 1:
            break
        scrub.page.wait_for_timeout(100)
    assert int(scrub.input_value()) > before + 1


def test_an_exported_notebook_plays_offline(exported: str, open_html: Callable[..., Page]) -> None:
    page = open_html(exported)
    assert page.title() == "Both machines"
    frames = page.locator("iframe")
    assert frames.count() == 2
    for number in range(2):
        frames.nth(number).scroll_into_view_if_needed()
        check_plays(frames.nth(number).content_frame)
    the_report_made_with_the_page_is_shown(frames.first.content_frame)


def the_report_made_with_the_page_is_shown(scene: FrameLocator) -> None:
    scene.get_by_role("button", name="Verify this frame").click()
    told = scene.locator(".pw-verify").inner_text()
    assert "4 of 4 results equal NumPy's a @ b" in told
    assert "Made when this page was written: no kernel runs behind it." in told


def test_figures_and_reports_are_drawn_and_read_in_light_and_in_the_dark(
    exported: str, open_html: Callable[..., Page], serious: Callable[..., list[object]]
) -> None:
    # One page for all of it: opening it is what takes the time.
    page = open_html(exported)
    page.locator(".js-plotly-plot .scatterlayer path").nth(1).wait_for()
    assert page.get_by_role("table", name="Reasons, strongest first").is_visible()
    assert "Use GPUs." in page.inner_text("main")
    our_figures_have_dark_partners_and_others_keep_their_colours(page, dark=False)
    assert serious(page, dark_too=True) == []
    our_figures_have_dark_partners_and_others_keep_their_colours(page, dark=True)


def our_figures_have_dark_partners_and_others_keep_their_colours(page: Page, *, dark: bool) -> None:
    filters = page.locator(".js-plotly-plot").evaluate_all(
        "all => all.map(each => getComputedStyle(each).filter)"
    )
    assert [each.split("(")[0] for each in filters] == ["invert" if dark else "none", "none"]


def test_an_exported_page_fits_a_phone(exported: str, open_html: Callable[..., Page]) -> None:
    page = open_html(exported, viewport=(390, 844), dark=True)
    page.locator(".js-plotly-plot .scatterlayer path").nth(1).wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    # Without the rule that lets code scroll, it does not: what is too wide is seen.
    page.add_style_tag(content=".text_cell_render pre { overflow-x: visible; }")
    assert page.evaluate("document.documentElement.scrollWidth") > 390


@pytest.mark.parametrize("scene", ["systolic", "warp"])
def test_an_exported_scene_plays(scene: str, open_html: Callable[..., Page], tmp_path: Path) -> None:
    target = tmp_path / f"{scene}.html"
    assert main(["export", scene, "-o", str(target)]) == 0
    page = open_html(target.read_text(encoding="utf-8"))
    page.get_by_role("button", name="First cycle").click()
    check_plays(page)


def test_a_scene_that_does_not_step_is_noticed(open_html: Callable[..., Page], tmp_path: Path) -> None:
    target = tmp_path / "scene.html"
    assert main(["export", "systolic", "-o", str(target)]) == 0
    whole = target.read_text(encoding="utf-8")
    broken = whole.replace("time.step(1)", "time.step(0)")
    assert broken != whole
    with pytest.raises(AssertionError):
        check_plays(open_html(broken))
