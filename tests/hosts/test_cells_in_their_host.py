"""Scenes, questions and forms in one notebook of an application: what a reader does reaches the kernel.

Scenes move by keys and are silent towards the kernel while they play; a question makes it compute, and then a
scene shows its future; the kernel verifies a frame, runs what was typed, and advises on a workload.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from pulsewarp import guide

if TYPE_CHECKING:
    from notebook_hosts import Desk, Host, Visit
    from playwright.sync_api import ElementHandle, Page

pytestmark = pytest.mark.lab

CELLS = {
    "start": "from pulsewarp import lesson, simt, systolic, widgets",
    "array": "widgets.SystolicPlayer(systolic.simulate([[1, 2], [3, 4]], [[5, 6], [7, 8]], rows=2, cols=2))",
    "warps": "kernel = simt.matmul_kernel([[1, 2], [3, 4]], [[5, 6], [7, 8]])\n"
    'widgets.WarpPlayer(kernel.simulate(schedulers=1, policy="lrr"))',
    "hidden": "trace = simt.simulate([simt.load_compute(1, 2)] * 2)\n"
    "hidden = widgets.WarpPlayer(trace, start=3)\nhidden",
    "question": 'ask = {"unit": "cycles", "answer": lambda: trace.cycles, "hides": hidden}\n'
    'lesson.predict("How many cycles?", **ask)',
    "policy": 'ask = {"choices": ["lrr", "gto"], "answer": lambda: trace.policy}\n'
    'policy = lesson.predict("Which policy?", **ask)\npolicy',
    "reveal": 'policy.guess = "gto"\nlesson.reveal(policy)',
    "product": "lesson.own_product([[1, 2], [3, 4]], [[5, 6], [7, 8]], rows=2, cols=2)",
    "sizes": "lesson.own_sizes(64, 65, 65)",
    "workload": "lesson.own_workload()",
    "end": 'print("the end")',
}
PLAYERS = ("array", "warps")

# Pixels right of the present cycle that are not paper: none while the future is hidden.
INK_AHEAD = """(root) => {
  const canvas = root.querySelector('.pw-warps'), wide = canvas.width;
  const scale = wide / parseFloat(canvas.style.width);
  const { data } = canvas.getContext('2d').getImageData(wide / 2, 30 * scale, wide / 3, 20 * scale);
  const first = data.slice(0, 3).join();
  return Array.from({ length: data.length / 4 }, (_, i) => data.slice(4 * i, 4 * i + 3).join())
    .filter((pixel) => pixel !== first).length;
}"""


@dataclass(frozen=True)
class Opened:
    """The notebook, open, with all its cells run."""

    host: Host
    page: Page
    visit: Visit

    def shown(self, cell: str) -> ElementHandle:
        """Bring a cell on screen and return the element that shows its output."""
        number = list(CELLS).index(cell)
        self.page.wait_for_function(self.host.app.show_cell, arg=number)
        element = self.host.output(self.page, number, 0).as_element()
        assert element is not None, cell
        return element

    def scene(self, cell: str) -> ElementHandle:
        """Return the root of the scene in a cell."""
        root = self.shown(cell).query_selector(".pw:has(.pw-scrub)")
        assert root is not None, cell
        return root

    def wait(self, condition: str, argument: object) -> None:
        """Wait until the page, and the kernel behind it, have done what was asked."""
        self.page.wait_for_function(condition, arg=argument, timeout=30_000)


@pytest.fixture(scope="module")
def opened(
    host: Host,
    desk: Desk,
    serve: Callable[[str, Sequence[str]], str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Opened]:
    own = tmp_path_factory.getbasetemp()  # of this worker, in that of them all
    whole = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    (whole / "cells were opened").touch(exist_ok=False)  # once: by one worker, for all tests here
    with desk.visit(serve("cells", list(CELLS.values()))) as (page, visit):
        yield Opened(host, page, visit)
    assert visit.problems() == []  # nor did anything that the tests did go wrong


def press(scene: ElementHandle, button: str) -> None:
    """Press a button as a hand does, wherever the application has scrolled it."""
    part = scene.query_selector(f"button:text-is('{button}')")
    assert part is not None, button
    part.scroll_into_view_if_needed()
    part.click()


def test_everything_draws(opened: Opened) -> None:
    assert opened.visit.problems() == []
    assert len(opened.visit.views) == len(CELLS) - len(("start", "reveal", "end"))


# --- scenes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("player", PLAYERS)
def test_a_focused_scene_answers_the_keyboard(opened: Opened, player: str) -> None:
    from notebook_hosts import answers_keyboard

    assert answers_keyboard(opened.page, opened.scene(player))


@pytest.mark.parametrize("player", PLAYERS)
def test_nothing_crosses_to_the_kernel_while_a_scene_plays(opened: Opened, player: str) -> None:
    from notebook_hosts import messages_while_playing

    assert messages_while_playing(opened.page, opened.visit, opened.scene(player)) == []


@pytest.mark.parametrize("player", PLAYERS)
def test_where_the_playhead_rests_does_reach_the_kernel(opened: Opened, player: str) -> None:
    # The counter of the test above, seen to count: without this it could be deaf.
    from notebook_hosts import wait_for_message, wait_until_quiet

    opened.scene(player).focus()
    opened.page.keyboard.press("End")
    wait_until_quiet(opened.page, opened.visit)
    before = len(opened.visit.messages)
    opened.page.keyboard.press("Home")
    assert wait_for_message(opened.page, opened.visit, "to kernel: comm_msg", since=before)


def test_the_ledger_keeps_its_two_columns(opened: Opened) -> None:
    # JupyterLab floats every list of an output; without our own rule labels and numbers scatter.
    rows = opened.scene("array").eval_on_selector_all(
        ".pw-ledger dt",
        "labels => labels.map(label => [label, label.nextSibling].map(part => part.getBoundingClientRect()))"
        ".map(([label, number]) => [number.top - label.top, number.left - label.right])",
    )
    assert len(rows) >= 5
    assert all(abs(lower) < 3 and gap >= 0 for lower, gap in rows)


# --- questions --------------------------------------------------------------------------------------------


def test_reveal_reaches_the_question_on_screen(opened: Opened) -> None:
    told = opened.shown("policy").inner_text()
    assert "You said\ngto\nComputed\nlrr" in told


def test_the_kernel_computes_when_asked_and_the_scene_shows_its_future(opened: Opened) -> None:
    assert opened.shown("hidden").evaluate(INK_AHEAD) == 0
    question = opened.shown("question")
    field = question.query_selector("input")
    assert field is not None
    field.focus()
    opened.page.keyboard.type("12")
    opened.page.keyboard.press("Enter")
    opened.wait("(root) => root.querySelector('.pw-answer')", question)
    assert "Computed\n27 cycles\nSo\n✗ Yours is 2.25 times too low." in question.inner_text()
    opened.wait(f"(scene) => ({INK_AHEAD})(scene) > 0", opened.shown("hidden"))


# --- what is asked of the kernel --------------------------------------------------------------------------


def test_the_kernel_verifies_the_frame(opened: Opened) -> None:
    scene = opened.shown("product")
    press(scene, "Verify this frame")
    opened.wait("(root) => root.querySelector('.pw-checks li')", scene)
    report = scene.query_selector(".pw-verify")
    assert report is not None
    told = report.inner_text()
    assert "4 of 4 results equal NumPy's a @ b in int64" in told and "FAILS" not in told
    assert "no kernel" not in told.lower()


def test_the_kernel_runs_what_was_typed_and_a_fault_stands_at_its_field(opened: Opened) -> None:
    page, scene = opened.page, opened.shown("product")
    first, second = scene.query_selector_all(".pw-form textarea")
    first.scroll_into_view_if_needed()
    first.focus()
    page.keyboard.press("Control+a")
    page.keyboard.type("1 2 3")
    page.keyboard.press("Enter")  # a new line in the field, and no key of the application's
    page.keyboard.type("4 5 6")
    press(scene, "Run")
    problem = "B has 2 rows, but A has 3 columns"
    said = "([root, words]) => root.querySelector('.pw-form').innerText.includes(words)"
    opened.wait(said, [scene, problem])
    assert first.input_value() == "1 2 3\n4 5 6"
    second.focus()
    page.keyboard.press("Control+a")
    page.keyboard.type("1 0; 0 1; 1 1")
    page.keyboard.press("Control+Enter")
    opened.wait(said, [scene, "Now shown: 2 x 3 by 3 x 2"])
    opened.wait("(root) => root.querySelector('.sy-matrices')?.textContent.includes('A 2 \u00d7 3')", scene)
    assert first.input_value() == "1 2 3\n4 5 6"


def test_the_kernel_counts_other_sizes(opened: Opened) -> None:
    scene = opened.shown("sizes")
    field = scene.query_selector(".pw-form input[type=number]")
    assert field is not None
    field.fill("96")
    press(scene, "Run")
    opened.wait("(root) => root.querySelector('h3').textContent.startsWith('96 ')", scene)


def test_the_kernel_advises_on_what_was_chosen_and_typed_and_advises_again(opened: Opened) -> None:
    form = opened.shown("workload")
    report, framework = (form.query_selector(part) for part in (".pw-report", "select[id$=-framework]"))
    kernels, chips = (form.query_selector(f"[id$=-{name}]") for name in ("custom_kernels", "chips"))
    assert report and framework and kernels and chips
    assert report.inner_text() == ""
    framework.select_option("jax")
    chips.scroll_into_view_if_needed()
    chips.focus()
    opened.page.keyboard.type("8")
    opened.page.keyboard.press("Enter")  # asks, and is no key of the application's
    one = guide.advise(guide.Workload(framework="jax", chips=8))
    other = guide.advise(guide.Workload(framework="jax", chips=8, custom_kernels="triton"))
    assert one.verdict != other.verdict
    given = "([report, verdict]) => report.dataset.verdict === verdict && !report.dataset.stale"
    opened.wait(given, [report, one.verdict])
    assert one.summary.startswith(report.eval_on_selector(".pw-headline", "(line) => line.innerText"))
    kernels.select_option("triton")
    assert report.get_attribute("data-stale") == "true"
    press(form, "Advise me")
    opened.wait(given, [report, other.verdict])
    assert other.summary.startswith(report.eval_on_selector(".pw-headline", "(line) => line.innerText"))
    shown = report.eval_on_selector_all(".pw-reasons > li", "(items) => items.map((item) => item.innerText)")
    assert all(reason.text in text for reason, text in zip(other.reasons, shown, strict=True))
