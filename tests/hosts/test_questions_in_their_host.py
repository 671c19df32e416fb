"""A prediction in an application: the kernel computes when asked, and a scene waits for the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from notebook_hosts import Host, Visit
    from playwright.sync_api import ElementHandle, Page

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("questions")]  # one visit for all of them

CELLS = [
    "from pulsewarp import lesson, simt, widgets\ntrace = simt.simulate([simt.load_compute(1, 2)] * 2)",
    "player = widgets.WarpPlayer(trace, start=3)\nplayer",
    'ask = {"unit": "cycles", "answer": lambda: trace.cycles, "hides": player}\n'
    'lesson.predict("How many cycles?", **ask)',
    'policy = lesson.predict("Which policy?", choices=["lrr", "gto"], answer=lambda: trace.policy)\npolicy',
    'policy.guess = "gto"\nlesson.reveal(policy)',
    'print("the end")',
]

# Pixels right of the present cycle that are not paper: none while the future is hidden.
INK_AHEAD = """(root) => {
  const canvas = root.querySelector('.pw-warps'), wide = canvas.width;
  const scale = wide / parseFloat(canvas.style.width);
  const { data } = canvas.getContext('2d').getImageData(wide / 2, 30 * scale, wide / 3, 20 * scale);
  const first = data.slice(0, 3).join();
  return Array.from({ length: data.length / 4 }, (_, i) => data.slice(4 * i, 4 * i + 3).join())
    .filter((pixel) => pixel !== first).length;
}"""


def shown(opened: tuple[Host, Page, Visit], cell: int) -> ElementHandle:
    host, page, _ = opened
    page.evaluate(host.app.show_cell, cell)
    element = host.output(page, cell, 0).as_element()
    assert element is not None
    return element


def test_questions_draw_in_their_host(opened: tuple[Host, Page, Visit]) -> None:
    assert opened[2].problems() == []


def test_reveal_reaches_the_question_on_screen(opened: tuple[Host, Page, Visit]) -> None:
    told = shown(opened, 3).inner_text()
    assert "You said\ngto\nComputed\nlrr" in told


def test_the_kernel_computes_when_asked_and_the_scene_shows_its_future(
    opened: tuple[Host, Page, Visit],
) -> None:
    page = opened[1]
    assert shown(opened, 1).evaluate(INK_AHEAD) == 0
    question = shown(opened, 2)
    field = question.query_selector("input")
    assert field is not None
    field.focus()
    page.keyboard.type("12")
    page.keyboard.press("Enter")
    page.wait_for_function("(root) => root.querySelector('.pw-answer')", arg=question, timeout=30_000)
    assert "Computed\n27 cycles\nSo\n✗ Yours is 2.25 times too low." in question.inner_text()
    scene = shown(opened, 1)
    page.wait_for_function(f"(scene) => ({INK_AHEAD})(scene) > 0", arg=scene, timeout=30_000)
