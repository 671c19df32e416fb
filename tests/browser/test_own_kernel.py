"""The reader's own kernel in its scene: typed, run, shown, refused at its line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from live_page import live
from scene_page import opened, resize

from pulsewarp import lesson

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
Open = Callable[..., "Page"]

DOUBLE = "def double(x, out):\n    i = cuda.grid(1)\n    if i < out.size:\n        out[i] = 2 * x[i]\n"


def player() -> Any:
    return lesson.own_kernel(
        DOUBLE, grid=1, block=32, args=(np.arange(20, dtype=np.float32), np.zeros(20, np.float32))
    )


def run(page: Page, text: str, expected: str) -> None:
    page.get_by_label("Kernel", exact=True).fill(text)
    page.keyboard.press("Control+Enter")
    page.wait_for_function(
        "(words) => document.querySelector('.pw-form').innerText.includes(words)", arg=expected
    )


def chosen(page: Page) -> str:
    text: str = page.get_by_label("Kernel", exact=True).evaluate(
        "(x) => x.value.slice(x.selectionStart, x.selectionEnd)"
    )
    return text


def test_a_typed_kernel_is_shown_line_by_line(open_html: Open) -> None:
    own = player()
    page = live(open_html, own)
    run(page, DOUBLE.replace("double", "triple").replace("2 *", "3 *"), "Now shown: 1 warp")
    page.wait_for_function("document.querySelector('h3').textContent.startsWith('triple')")
    shown = page.inner_text(".pw-picture") + page.inner_text(".pw-body")
    assert "out[i] = 3 * x[i]" in shown and "2 * x[i]" not in shown
    assert repr(own).startswith("KernelPlayer(triple: 1 warp")


def test_a_kernel_that_cannot_run_leaves_the_run_before_and_marks_its_line(open_html: Open) -> None:
    page = live(open_html, player())
    before = page.inner_text("h3")
    run(page, DOUBLE.replace("2 * x[i]", "[x[i]]"), "Line 4 of double uses a list, which is not traced")
    assert chosen(page) == "        out[i] = [x[i]]"
    assert page.inner_text("h3") == before
    run(page, DOUBLE.replace("if i < out.size", "if i < 32"), "touches x[20], but x has shape 20")
    assert chosen(page) == "        out[i] = 2 * x[i]", "shown all the same, and its line marked"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_form_fits_a_phone_and_has_no_serious_finding(
    dark: bool, open_html: Open, serious: Callable[[Page], list[Any]]
) -> None:
    page = live(open_html, player(), dark=dark)
    run(page, "def f(x:", "Line 1 is no Python")
    assert serious(page) == []
    for wide in (1280, 390):
        resize(page, wide)
        assert page.evaluate("document.documentElement.scrollWidth") == wide


def test_without_a_kernel_process_the_text_can_be_read_and_not_run(open_html: Open) -> None:
    page = opened(open_html, player())
    assert "No kernel runs behind this page" in page.inner_text(".pw-form")
    assert page.get_by_label("Kernel", exact=True).is_disabled()
    assert page.get_by_label("Kernel", exact=True).input_value() == DOUBLE
