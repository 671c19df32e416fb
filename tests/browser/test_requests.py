"""What a reader asks of the kernel through a scene: to verify a frame, and to run numbers of their own."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from live_page import live
from scene_page import cycle, opened, resize, seek, settle

from pulsewarp import lesson, simt, systolic, widgets

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
Open = Callable[..., "Page"]
IMPATIENT = ("PATIENCE = 4000", "PATIENCE = 300")


def product(dataflow: str = "ws") -> systolic.SystolicTrace:
    return systolic.simulate([[1, 2], [3, 4]], [[5, 6], [7, 8]], rows=2, cols=2, dataflow=dataflow)


def spoilt() -> systolic.SystolicTrace:
    """A trace whose result is not the product: its first element is one too large."""
    trace = product()
    result = trace.result.copy()
    result[0, 0] += 1
    object.__setattr__(trace, "result", result)
    return trace


def report(page: Page) -> list[str]:
    page.wait_for_selector(".pw-checks li")
    return [" ".join(text.split()) for text in page.locator(".pw-checks li").all_inner_texts()]


def verify(page: Page) -> list[str]:
    page.get_by_role("button", name="Verify this frame").click()
    return report(page)


# ------------------------------------------------------------------------------------ verify this frame


@pytest.mark.parametrize("with_kernel", [True, False], ids=["kernel", "page"])
def test_the_report_shown_is_the_traces_own(with_kernel: bool, open_html: Open) -> None:
    trace = product("os")
    player = widgets.SystolicPlayer(trace, start=3)
    page = live(open_html, player) if with_kernel else opened(open_html, player)
    told = " ".join(verify(page))
    for check in player._report(3):
        assert f"\u2713 holds: {check[0]} {check[2]}" in told
    verdict = page.inner_text(".pw-verdict")
    count = len(player._report(3))
    assert verdict.startswith(f"\u2713 {count} of {count} checks hold")
    written = "Made when this page was written: no kernel runs behind it."
    assert (written in page.inner_text(".pw-verify")) is not with_kernel


@pytest.mark.parametrize("with_kernel", [True, False], ids=["kernel", "page"])
def test_a_wrong_trace_shows_red_and_says_which_check_fails(with_kernel: bool, open_html: Open) -> None:
    player = widgets.SystolicPlayer(spoilt())
    page = live(open_html, player) if with_kernel else opened(open_html, player)
    told = verify(page)
    failed = [line for line in told if "FAILS" in line]
    assert len(failed) == 1
    assert failed[0].startswith("\u2717 FAILS: product 3 of 4 results equal NumPy's a @ b in int64")
    assert re.match(r"\u2717 \d+ of \d+ checks hold; 1 fails", page.inner_text(".pw-verdict"))
    red = page.eval_on_selector(".pw-verdict", "x => getComputedStyle(x).color")
    assert red == "rgb(179, 38, 30)"


@pytest.mark.parametrize(
    "change",
    [('passed ? "holds" : "FAILS"', '"holds"'), ("filter(([, passed]) => passed)", "filter(() => true)")],
    ids=["every check holds", "all are counted"],
)
def test_a_report_that_hides_a_failure_is_seen(change: tuple[str, str], open_html: Open) -> None:
    page = live(open_html, widgets.SystolicPlayer(spoilt()), change=change)
    honest = any("FAILS" in line for line in verify(page))
    assert not honest or "fails" not in page.inner_text(".pw-verdict")


def test_the_frame_asked_for_is_the_one_at_the_playhead(open_html: Open) -> None:
    asked: list[Any] = []
    page = live(open_html, widgets.SystolicPlayer(product(), start=0), asked=asked)
    seek(page, 4)
    verify(page)
    (request,) = [value for name, value in asked if name == "request"]
    assert request["kind"] == "verify" and request["cycle"] == 4
    assert page.inner_text(".pw-verdict").endswith("of this run and of cycle 4")


def test_a_kernel_that_is_gone_is_said(open_html: Open) -> None:
    page = live(open_html, widgets.SystolicPlayer(product()), silent=True, change=IMPATIENT)
    page.get_by_role("button", name="Verify this frame").click()
    assert page.inner_text(".pw-verify") == "The kernel checks this run."
    page.wait_for_function("document.querySelector('.pw-verify').textContent.startsWith('No kernel has')")


def test_a_failure_of_the_check_is_a_sentence(open_html: Open) -> None:
    player = widgets.SystolicPlayer(product())

    def broken(_: object) -> dict[str, Any]:
        raise KeyError("gone")

    player.answer("verify", broken)
    page = live(open_html, player)
    page.get_by_role("button", name="Verify this frame").click()
    page.wait_for_selector(".pw-verify .pw-fails")
    assert page.inner_text(".pw-verify") == "\u2717 The kernel failed: KeyError: 'gone'"


def test_a_trace_without_checks_has_no_button(open_html: Open) -> None:
    page = opened(open_html, widgets.WarpPlayer(simt.simulate([simt.load_compute(1, 1)] * 2)))
    assert page.get_by_role("button", name="Verify this frame").count() == int(
        hasattr(simt.WarpTrace, "verify")
    )


def test_the_task_stands_under_the_rule(open_html: Open) -> None:
    page = opened(
        open_html, widgets.SystolicPlayer(product(), task="Find the cycle in which cell (1,1) begins.")
    )
    assert page.inner_text(".pw-rule + .pw-task") == "Do this: Find the cycle in which cell (1,1) begins."


# ------------------------------------------------------------------------------------ own numbers


def own(**settings: Any) -> widgets.SystolicPlayer:
    return lesson.own_product([[1, 2], [3, 4]], [[5, 6], [7, 8]], rows=2, cols=2, **settings)


def run(page: Page, **values: str) -> None:
    for label, text in values.items():
        page.get_by_label({"rows": "Array rows", "cols": "Array columns"}.get(label, label), exact=True).fill(
            text
        )
    page.get_by_role("button", name="Run", exact=True).click()


def said(page: Page, words: str) -> None:
    page.wait_for_function(
        "(words) => document.querySelector('.pw-form').innerText.includes(words)", arg=words
    )


def test_what_is_typed_is_simulated_and_shown(open_html: Open) -> None:
    player = own()
    page = live(open_html, player)
    page.get_by_label("Dataflow").select_option("os")
    run(page, A="[[1, 0, 2],\n [0, 3, 1]]", B="2\t1\n-1\t4\n5\t0", rows="3", cols="2")
    said(page, "Now shown: 2 x 3 by 3 x 2")
    page.wait_for_function(
        "document.querySelector('h3').textContent.startsWith('Output-stationary array, 3')"
    )
    assert repr(player).startswith("SystolicPlayer(os, 3x2 cells")
    page.get_by_role("button", name="Last cycle").click()
    shown = page.locator(".sy-matrices text.sy-c:not(.sy-letter)").all_text_contents()
    assert shown == ["12", "1", "2", "12"]
    assert page.get_by_label("A", exact=True).input_value() == "[[1, 0, 2],\n [0, 3, 1]]"


def test_an_error_stands_at_its_field_and_nothing_typed_is_lost(open_html: Open) -> None:
    page = live(open_html, own())
    before = page.inner_text("h3")
    run(page, A="1 2\n3 x", B="5 6")
    said(page, "A has 'x' in row 2")
    field = page.get_by_label("A", exact=True)
    assert field.get_attribute("aria-invalid") == "true"
    beside = page.locator(f"#{field.get_attribute('aria-describedby')}")
    assert beside.inner_text() == "\u2717 A has 'x' in row 2, which is not a finite number; write digits."
    assert field.input_value() == "1 2\n3 x" and page.get_by_label("B", exact=True).input_value() == "5 6"
    assert page.inner_text("h3") == before
    run(page, A="1 2\n3 4")
    said(page, "B has 1 row, but A has 2 columns")
    assert field.get_attribute("aria-invalid") is None
    run(page, B="1 0\n0 1")
    said(page, "Now shown")
    assert not page.locator(".pw-problem").first.is_visible()


def test_the_fields_work_by_keyboard_and_keep_the_focus(open_html: Open) -> None:
    page = live(open_html, own())
    at = cycle(page)
    page.get_by_label("A", exact=True).focus()
    page.keyboard.press("Control+a")
    page.keyboard.type("2 0 1")
    page.keyboard.press("Enter")
    page.keyboard.type("1 1 1")
    assert cycle(page) == at, "keys in a field are not the player's"
    page.keyboard.press("Tab")
    page.keyboard.press("Control+a")
    page.keyboard.type("1; 2; 3")
    page.keyboard.press("Control+Enter")
    said(page, "Now shown: 2 x 3 by 3 x 1")
    page.wait_for_function(
        "document.querySelector('.sy-matrices text.sy-letter')?.textContent === 'A 2 \u00d7 3'"
    )
    assert page.evaluate("document.activeElement.tagName") == "TEXTAREA"


def test_on_a_page_without_a_kernel_the_fields_are_off_and_say_so(open_html: Open) -> None:
    page = opened(open_html, own())
    assert "No kernel runs behind this page, so these controls are switched off" in page.inner_text(
        ".pw-form"
    )
    for control in page.locator(".pw-form :is(textarea, input, select, button)").all():
        assert control.is_disabled()


def test_own_numbers_with_a_kernel_that_is_gone(open_html: Open) -> None:
    page = live(open_html, own(), silent=True, change=IMPATIENT)
    run(page, A="1 2\n3 4")
    said(page, "No kernel has answered yet")
    assert page.get_by_label("A", exact=True).input_value() == "1 2\n3 4"


def test_no_serious_accessibility_finding_in_report_and_fields(
    open_html: Open, serious: Callable[..., list[Any]]
) -> None:
    player = own(task="Multiply by the identity.")
    page = live(open_html, player)
    verify(page)
    run(page, A="1 x")
    said(page, "A has 'x'")
    assert serious(page, dark_too=True) == []
    assert serious(opened(open_html, player), dark_too=True) == []


def test_report_and_fields_fit_a_phone(open_html: Open) -> None:
    page = live(open_html, own(task="Multiply by the identity, then by a permutation of its rows."))
    verify(page)
    run(page, A=" ".join(["12345678"] * 9))
    said(page, "A is 1 x 9, but at most 8 x 8")
    for wide in (1280, 640, 390):
        resize(page, wide)
        outside = page.evaluate(
            """() => [...document.querySelectorAll(".pw-form *, .pw-verify *, .pw-task")]
              .filter((x) => x.getClientRects().length
                && x.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5)
              .map((x) => x.outerHTML.slice(0, 80))"""
        )
        assert outside == [], wide


def test_a_view_closed_while_it_waits_leaves_nothing(open_html: Open) -> None:
    page = live(open_html, own(), silent=True)
    page.get_by_role("button", name="Verify this frame").click()
    page.get_by_role("button", name="Run", exact=True).click()
    page.evaluate("end.abort()")
    settle(page)
    assert page.evaluate("[left.frames.size, left.observers.size, left.outside.length, heard()]") == [0] * 4
    assert page.locator(".pw").count() == 0


# ------------------------------------------------------------------------------------ a text of many lines


def with_code(text: str = "def f(x):\n    x[0] = 1\n") -> widgets.AccessPlayer:
    """A scene with a field for code, answered by the text that came, or by what is wrong in it."""
    player = widgets.AccessPlayer(simt.sectors([0] * 32, 4))

    def answer(values: Any) -> dict[str, Any]:
        if "wrong" in values["text"]:
            line = values["text"].split("\n").index("wrong") + 1
            return {"error": f"Line {line} is wrong.", "field": "text", "line": line}
        if "risky" in values["text"]:
            return {"done": "Shown all the same.", "problem": "A race.", "field": "text"}
        return {"done": repr(values["text"])}

    code = {"name": "text", "label": "Kernel", "kind": "code", "value": text, "note": "Tab leaves the field."}
    player.offer("Code", "Type.", [code, {"name": "n", "label": "N", "kind": "text", "value": "1"}], answer)
    return player


def test_code_is_typed_as_in_an_editor_and_tab_leaves_it(open_html: Open) -> None:
    page = live(open_html, with_code())
    field = page.get_by_label("Kernel")
    field.focus()
    page.keyboard.press("Control+a")
    for line in ("def g(x):  # note", "if x:", "x[0] = 2"):
        page.keyboard.type(line)
        page.keyboard.press("Enter")
    assert field.input_value() == "def g(x):  # note\n    if x:\n        x[0] = 2\n        "
    page.keyboard.press("Control+z")
    assert len(field.input_value()) < len("def g(x):  # note\n    if x:\n        x[0] = 2\n        ")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "INPUT"
    page.keyboard.press("Shift+Tab")
    page.keyboard.type("!")
    page.keyboard.press("Control+Enter")
    said(page, repr(field.input_value()))
    assert "!" in field.input_value() and "!\n" not in field.input_value(), "the field was left, or ran on"


def test_the_line_that_is_wrong_is_marked_in_the_code(open_html: Open) -> None:
    page = live(open_html, with_code())
    page.get_by_label("Kernel").fill("\n".join(["a = 1"] * 60 + ["wrong"] + ["b = 2"] * 9))
    page.get_by_role("button", name="Run", exact=True).click()
    said(page, "Line 61 is wrong.")
    chosen = "(x) => x.value.slice(x.selectionStart, x.selectionEnd)"
    assert page.get_by_label("Kernel").evaluate(chosen) == "wrong"
    assert page.get_by_label("Kernel").evaluate("(x) => x.scrollTop > 0"), "a line out of sight marks nothing"
    names = page.get_by_label("Kernel").get_attribute("aria-describedby").split()
    assert [page.inner_text(f"#{name}") for name in names] == ["✗ Line 61 is wrong.", "Tab leaves the field."]
    page.get_by_label("Kernel").fill("fine")
    page.get_by_role("button", name="Run", exact=True).click()
    said(page, "'fine'")
    names = page.get_by_label("Kernel").get_attribute("aria-describedby").split()
    assert [page.inner_text(f"#{name}") for name in names] == ["Tab leaves the field."]


def test_a_run_that_is_shown_may_have_a_problem_all_the_same(open_html: Open) -> None:
    page = live(open_html, with_code())
    page.get_by_label("Kernel").fill("risky")
    page.get_by_role("button", name="Run", exact=True).click()
    said(page, "Shown all the same.")
    said(page, "✗ A race.")


def test_code_fits_a_phone_and_has_no_serious_accessibility_finding(
    open_html: Open, serious: Callable[..., list[Any]]
) -> None:
    page = live(open_html, with_code("x = 1  # " + "long " * 60))
    resize(page, 390)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.get_by_label("Kernel").evaluate("(x) => x.getBoundingClientRect().width") > 280
    assert serious(page, dark_too=True) == []


# ------------------------------------------------------------------------------------ copy as python


@pytest.mark.parametrize("dtype", ["as typed", "int8", "bfloat16", "float16"])
def test_copy_as_python_recreates_own_numbers(dtype: str, open_html: Open) -> None:
    player = own(dtype=dtype)
    page = live(open_html, player)
    page.get_by_label("Dataflow").select_option("is")
    page.get_by_label("folds overlap").check()
    run(page, A="1 -2\n3 4", B="5 6 7\n-7 8 9", rows="1", cols="2")
    said(page, "Now shown")
    page.wait_for_function("document.querySelector('h3').textContent.startsWith('Input-stationary array, 1')")
    page.get_by_role("button", name="Copy as Python").click()
    page.wait_for_selector(".pw-python", state="visible")
    line = page.inner_text(".pw-python")
    assert "\n" not in line
    scope: dict[str, Any] = {}
    exec(line.replace("widgets.SystolicPlayer", "player = widgets.SystolicPlayer"), scope)
    trace, again = player._shown, scope["player"]._shown
    assert again.a.dtype == trace.a.dtype and again.overlap
    assert scope["player"].trace == player.trace  # the same run, bit for bit
