"""What a reader asks of the kernel in an application: it verifies the frame, and runs numbers typed there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from notebook_hosts import Host, Visit
    from playwright.sync_api import ElementHandle, Page

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("requests")]  # one visit for all of them

CELLS = [
    "from pulsewarp import lesson",
    "player = lesson.own_product([[1, 2], [3, 4]], [[5, 6], [7, 8]], rows=2, cols=2)\nplayer",
    "lesson.own_sizes(64, 65, 65)",
    'print("the end")',
]


def shown(opened: tuple[Host, Page, Visit], cell: int) -> ElementHandle:
    host, page, _ = opened
    page.evaluate(host.app.show_cell, cell)
    element = host.output(page, cell, 0).as_element()
    assert element is not None
    return element


def press(scene: ElementHandle, button: str) -> None:
    """Press a button as a hand does, wherever the application has scrolled it."""
    part = scene.query_selector(f"button:text-is('{button}')")
    assert part is not None, button
    part.scroll_into_view_if_needed()
    part.click()


def test_scenes_with_fields_draw_in_their_host(opened: tuple[Host, Page, Visit]) -> None:
    assert opened[2].problems() == []


def test_the_kernel_verifies_the_frame(opened: tuple[Host, Page, Visit]) -> None:
    page, scene = opened[1], shown(opened, 1)
    press(scene, "Verify this frame")
    page.wait_for_function("(root) => root.querySelector('.pw-checks li')", arg=scene, timeout=30_000)
    report = scene.query_selector(".pw-verify")
    assert report is not None
    told = report.inner_text()
    assert "4 of 4 results equal NumPy's a @ b in int64" in told and "FAILS" not in told
    assert "no kernel" not in told.lower()


def test_the_kernel_runs_what_was_typed_and_a_fault_stands_at_its_field(
    opened: tuple[Host, Page, Visit],
) -> None:
    page, scene = opened[1], shown(opened, 1)
    first, second = scene.query_selector_all(".pw-form textarea")
    first.scroll_into_view_if_needed()
    first.focus()
    page.keyboard.press("Control+a")
    page.keyboard.type("1 2 3")
    page.keyboard.press("Enter")  # a new line in the field, and no key of the application's
    page.keyboard.type("4 5 6")
    press(scene, "Run")
    problem = "B has 2 rows, but A has 3 columns"
    wait = "([root, words]) => root.querySelector('.pw-form').innerText.includes(words)"
    page.wait_for_function(wait, arg=[scene, problem], timeout=30_000)
    assert first.input_value() == "1 2 3\n4 5 6"
    second.focus()
    page.keyboard.press("Control+a")
    page.keyboard.type("1 0; 0 1; 1 1")
    page.keyboard.press("Control+Enter")
    page.wait_for_function(wait, arg=[scene, "Now shown: 2 x 3 by 3 x 2"], timeout=30_000)
    drawn = "(root) => root.querySelector('.sy-matrices')?.textContent.includes('A 2 \u00d7 3')"
    page.wait_for_function(drawn, arg=scene, timeout=30_000)
    assert first.input_value() == "1 2 3\n4 5 6"


def test_the_kernel_counts_other_sizes(opened: tuple[Host, Page, Visit]) -> None:
    page, scene = opened[1], shown(opened, 2)
    field = scene.query_selector(".pw-form input[type=number]")
    assert field is not None
    field.fill("96")
    press(scene, "Run")
    drawn = "(root) => root.querySelector('h3').textContent.startsWith('96 ')"
    page.wait_for_function(drawn, arg=scene, timeout=30_000)
