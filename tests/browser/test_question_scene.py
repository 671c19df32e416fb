"""The question scene: answered by keyboard, touch or not at all; the verdict is the one Python gives."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pulsewarp import lesson
from pulsewarp.lesson import prediction

pytestmark = pytest.mark.browser


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "_given", {})
    monkeypatch.delenv("PULSEWARP_SKIP", raising=False)


def choices(**settings: Any) -> lesson.Prediction:
    return lesson.predict(
        "What bounds one row times a `8192 x 8192` matrix?",
        choices=["compute", "memory"],
        answer=lambda: "memory",
        explain="Every weight is fetched once.\n\nBatch 256 turns it round.",
        **settings,
    )


def number(answer: float = 20, **settings: Any) -> lesson.Prediction:
    return lesson.predict("How many cycles in all?", unit="cycles", answer=lambda: answer, **settings)


def result(page: Any) -> dict[str, str]:
    """Return what the answer area says, by its terms."""
    page.locator(".pw-result dl").wait_for()
    terms, told = (
        page.locator(".pw-result dt").all_inner_texts(),
        page.locator(".pw-result dd").all_inner_texts(),
    )
    return dict(zip(terms, told, strict=True))


# --- a page without a kernel -------------------------------------------------------------------------------


def test_nothing_is_given_away_before_an_answer(open_html: Any) -> None:
    page = open_html(choices().to_html())
    assert page.locator("legend").inner_text() == "What bounds one row times a 8192 x 8192 matrix?"
    assert page.locator("legend code").inner_text() == "8192 x 8192"
    assert page.locator(".pw-result").inner_text() == ""


def test_choosing_by_keyboard_alone(open_html: Any) -> None:
    page = open_html(choices().to_html())
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert result(page) == {"You said": "memory", "Computed": "memory", "So": "✓ Right."}
    assert page.locator(".pw-result p").all_inner_texts() == [
        "Every weight is fetched once.",
        "Batch 256 turns it round.",
    ]
    assert page.evaluate("document.activeElement.textContent") == "Answer again"


def test_typing_a_number_and_enter(open_html: Any) -> None:
    page = open_html(number(explain="`2R + C + T - 2`").to_html())
    page.get_by_label("Your prediction").fill("12")
    page.keyboard.press("Enter")
    assert result(page) == {
        "You said": "12 cycles",
        "Computed": "20 cycles",
        "So": "✗ Yours is 1.67 times too low.",
    }


def test_a_wrong_choice_is_said_in_words_not_only_in_colour(open_html: Any) -> None:
    page = open_html(choices().to_html(), viewport=(390, 700), touch=True)
    page.get_by_text("compute").tap()
    page.get_by_role("button", name="Check my answer").tap()
    assert result(page)["So"] == "✗ Not what was computed."


@pytest.mark.parametrize("typed", ["", "twelve", "1,000", "0x10", "nan", "1e999"])
def test_what_is_no_number_is_refused_with_a_remedy(open_html: Any, typed: str) -> None:
    page = open_html(number().to_html())
    page.get_by_label("Your prediction").fill(typed)
    page.keyboard.press("Enter")
    told = page.get_by_role("alert").inner_text()
    assert ("write it like 12, 0.5 or 1.5e9" in told) if typed else ("Type a number first" in told)
    assert page.locator(".pw-result").inner_text() == ""


def test_checking_without_a_choice_asks_for_one(open_html: Any) -> None:
    page = open_html(choices().to_html())
    page.get_by_role("button", name="Check my answer").click()
    assert "Choose one first" in page.get_by_role("alert").inner_text()


def test_the_answer_may_be_shown_without_a_guess(open_html: Any) -> None:
    page = open_html(number().to_html())
    page.get_by_role("button", name="Show the answer").click()
    assert result(page) == {"Computed": "20 cycles"}


def test_answering_again_forgets_the_guess(open_html: Any) -> None:
    page = open_html(number().to_html())
    page.get_by_label("Your prediction").fill("20")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Answer again").click()
    assert page.locator(".pw-result").inner_text() == ""
    assert page.get_by_label("Your prediction").input_value() == ""
    page.keyboard.type("19")
    page.keyboard.press("Enter")
    assert result(page)["So"] == "✗ Yours is 1.05 times too low."


def test_a_skipped_question_shows_its_answer_at_once(open_html: Any) -> None:
    page = open_html(number(skip=True).to_html())
    assert result(page) == {"Computed": "20 cycles"}
    assert page.get_by_role("button", name="Check my answer").is_hidden()


def test_a_page_saved_without_the_answer_says_so(open_html: Any) -> None:
    question = number()
    page = open_html(question._page(question._page_state()))
    page.get_by_role("button", name="Show the answer").click()
    assert page.locator(".pw-result").inner_text().startswith("This page was saved without the answer")


def test_a_failed_answer_is_a_sentence(open_html: Any) -> None:
    question = lesson.predict("How many?", answer=lambda: {}["trace"])
    page = open_html(question.to_html())
    page.get_by_role("button", name="Show the answer").click()
    assert (
        "could not be computed (KeyError: 'trace'); run the cells above"
        in page.locator(".pw-result").inner_text()
    )


# --- the verdict is computed in two places and must be one -------------------------------------------------

CASES = [
    (20, 20, 1), (20, 10, 1), (20, 40, 2), (20, 41, 2), (20, 1e-9, 1), (20, 3e12, 1), (0, 0, 1), (0, 3, 1),
    (-4, 2, 1), (-4, -8, 2), (0.1, 0.10001, 1), (1e15, 1e15 + 2, 1), (20, 20.01, 1),
]  # fmt: skip


def test_page_and_python_agree_on_what_is_right(open_html: Any) -> None:
    disagree = []
    for answer, guess, within in CASES:
        prediction._given.clear()  # each a question nobody has answered yet
        question = number(answer, within=within)
        page = open_html(question.to_html())
        page.get_by_label("Your prediction").fill(repr(guess))
        page.keyboard.press("Enter")
        so = result(page)["So"]
        question.guess = guess
        right = page.locator(".pw-question").get_attribute("data-right") == "true"
        factor = question.error_factor
        shown = f"{factor:.3g} times" if factor not in (None, 1.0) and factor < 1000 else ""
        if (
            right != question.correct
            or so.startswith("✓") != right
            or (shown not in so and "a little too" not in so)
        ):
            disagree.append((answer, guess, within, so, question.correct, factor))
        assert " 1 times" not in so
    assert not disagree


def test_mutant_a_page_that_calls_everything_right_is_found(open_html: Any) -> None:
    page = open_html(number().to_html().replace("const right = factor <= within;", "const right = true;"))
    page.get_by_label("Your prediction").fill("7")
    page.keyboard.press("Enter")
    assert result(page)["So"].startswith("✓")  # the planted fault shows
    question = number()
    question.guess = 7
    assert question.correct is False  # and is what the test above compares with


# --- with a kernel, two views, and what is left when they close --------------------------------------------

LIVE = """<!doctype html><html lang="en"><meta charset="utf-8"><link rel="icon" href="data:,">
<title>live</title>
<style>%(style)s</style><body><div id="one"></div><div id="two"></div><script type="module">
const text = %(module)s, state = %(state)s;
const { default: scene } = await import(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
const heard = {};
const put = (name, value) => { state[name] = value; heard[`change:${name}`]?.forEach((each) => each()); };
const model = {
  get: (name) => state[name],
  set: put,
  save_changes() { saves.push({ given: state.given, asked: state.asked }); },
  on: (event, each) => (heard[event] ??= new Set()).add(each),
  off: (event, each) => heard[event]?.delete(each),
};
Object.assign(window, { saves: [], heard, put, outer: 0 });
document.body.addEventListener("keydown", () => { window.outer += 1; });
window.ends = ["one", "two"].map((id) => {
  const end = new AbortController();
  scene.render({ model, el: document.getElementById(id), signal: end.signal });
  return end;
});
window.left.outside.length = 0; // this page's own
</script></body></html>"""


@pytest.fixture
def live(open_html: Callable[..., Any]) -> Iterator[Any]:
    question = number()
    state = {**question._page_state()}
    del state["live"]
    page = open_html(
        LIVE
        % {
            "style": question._css,
            "module": json.dumps(str(question._esm)).replace("</", "<\\/"),
            "state": json.dumps(state),
        }
    )
    page.wait_for_function("document.querySelectorAll('.pw-question').length === 2")
    return page


def test_the_kernel_is_asked_by_traits_and_answers_by_one(live: Any) -> None:
    live.locator("#one input").fill("12")
    live.keyboard.press("Enter")
    assert live.evaluate("saves.at(-1)") == {"given": "12", "asked": True}
    assert live.locator("#one .pw-result").inner_text() == "Computing the answer …"
    live.evaluate("put('outcome', { answer: '20', number: 20, explanation: '', problem: '' })")
    assert "Computed\n20 cycles" in live.locator("#one .pw-result").inner_text()


def test_reveal_in_python_shows_in_every_view(live: Any) -> None:
    live.evaluate(
        "put('outcome', { answer: '20', number: 20, explanation: '', problem: '' }); put('asked', true)"
    )
    assert [view.inner_text() for view in live.locator(".pw-result").all()] == ["Computed\n20 cycles"] * 2


def test_the_notebook_around_it_hears_no_key(live: Any) -> None:
    live.locator("#one input").focus()
    live.keyboard.type("1x dd")
    assert live.evaluate("outer") == 0
    assert live.locator("#one .pw-question").get_attribute("data-lm-suppress-shortcuts") == "true"


def test_a_closed_view_leaves_nothing(live: Any) -> None:
    ids = live.eval_on_selector_all("[id]", "all => all.map((one) => one.id)")
    assert len(ids) == len(set(ids))
    live.evaluate("ends.forEach((end) => end.abort())")
    assert live.evaluate("[left.frames.size, left.observers.size, left.outside.length]") == [0, 0, 0]
    assert live.evaluate("Object.values(heard).every((set) => set.size === 0)")
    assert live.locator(".pw-question").count() == 0


# --- looks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [choices, number])
def test_no_serious_accessibility_finding(
    open_html: Any, serious: Any, make: Callable[[], lesson.Prediction]
) -> None:
    page = open_html(make().to_html())
    assert serious(page, dark_too=True) == []
    page.emulate_media(color_scheme="light")
    page.get_by_role("button", name="Show the answer").click()
    assert serious(page, dark_too=True) == []


def test_a_phone_needs_no_sideways_scrolling(open_html: Any) -> None:
    question = lesson.predict(
        "Which of these is it?",
        choices=["a" * 60, "a rather long answer that needs two lines on a phone"],
        answer="a" * 60,
    )
    page = open_html(question.to_html(), viewport=(390, 700), touch=True)
    page.get_by_role("button", name="Show the answer").tap()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    heights = page.eval_on_selector_all(
        "button, label", "all => all.filter((b) => b.offsetParent).map((b) => b.offsetHeight)"
    )
    assert min(heights) >= 44
