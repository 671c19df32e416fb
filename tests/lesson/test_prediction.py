"""Questions whose answers are computed when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import traitlets
from hypothesis import given
from hypothesis import strategies as st

from pulsewarp import lesson, simt, systolic, widgets
from pulsewarp.lesson import prediction


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test begins as a new session: nothing answered, nothing skipped."""
    monkeypatch.setattr(prediction, "_given", {})
    monkeypatch.delenv("PULSEWARP_SKIP", raising=False)
    monkeypatch.delenv("PULSEWARP_EXPORT", raising=False)
    yield
    lesson.skip_predictions(False)


def asked_calls() -> tuple[list[int], lesson.Prediction]:
    calls: list[int] = []
    question = lesson.predict("How many cycles?", unit="cycles", answer=lambda: calls.append(1) or 20)
    return calls, question


# --- when the answer is computed ---------------------------------------------------------------------------


def test_nothing_is_computed_before_it_is_asked_for() -> None:
    calls, question = asked_calls()
    question._repr_mimebundle_()
    assert (calls, question.outcome) == ([], {})


def test_answering_computes_once_and_shows_it() -> None:
    calls, question = asked_calls()
    question.given = "10"  # what the browser sends
    assert question.asked
    assert question.outcome == {"answer": "20", "number": 20.0, "explanation": "", "problem": ""}
    assert (question.answer, len(calls)) == (20, 1)


def test_asking_without_a_guess_shows_the_answer() -> None:
    _, question = asked_calls()
    question.asked = True
    assert question.outcome["answer"] == "20"
    assert (question.guess, question.correct, question.error_factor) == (None, None, None)


def test_the_answer_is_the_simulators() -> None:
    a, b = [[1, 2], [3, 4]], [[5, 6], [7, 8]]
    question = lesson.predict(
        "How many cycles?",
        unit="cycles",
        answer=lambda: systolic.simulate(a, b, rows=2, cols=2).cycles,
    )
    assert lesson.reveal(question) == systolic.simulate(a, b, rows=2, cols=2).cycles


def test_a_planted_fault_in_the_simulator_changes_the_revealed_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ask() -> object:
        chains = [simt.chain(8)] * 2
        return lesson.reveal(lesson.predict("Cycles?", answer=lambda: simt.simulate(chains).issue_count))

    honest = ask()
    real = simt.simulate
    monkeypatch.setattr(simt, "simulate", lambda programs, **settings: real(programs[1:], **settings))
    assert ask() != honest


def test_an_answer_that_cannot_be_computed_yet_is_a_sentence() -> None:
    def answer() -> int:
        raise NameError("name 'trace' is not defined")

    question = lesson.predict("How many?", answer=answer)
    question.asked = True
    assert question.outcome == {
        "problem": "The answer to 'How many?' could not be computed (NameError: name 'trace' is not "
        "defined); run the cells above first."
    }
    with pytest.raises(RuntimeError, match="run the cells above first"):
        lesson.reveal(question)


def test_a_failed_answer_is_tried_again() -> None:
    known: dict[str, int] = {}
    question = lesson.predict("How many?", answer=lambda: known["cycles"])
    question.asked = True
    assert question.outcome["problem"]
    known["cycles"] = 7
    question.asked = False
    question.guess = 7
    assert (question.outcome["answer"], question.correct) == ("7", True)


def test_an_explanation_may_depend_on_the_answer() -> None:
    question = lesson.predict("How many?", answer=lambda: 6, explain=lambda cycles: f"{cycles} = 2 * 3")
    lesson.reveal(question)
    assert question.outcome["explanation"] == "6 = 2 * 3"


# --- guesses -----------------------------------------------------------------------------------------------


@given(st.floats(1e-3, 1e12), st.floats(1e-3, 1e12))
def test_the_error_factor_is_symmetric_and_at_least_one(guess: float, answer: float) -> None:
    question, mirror = lesson.predict("?", answer=answer), lesson.predict("?", answer=guess)
    question.guess, mirror.guess = guess, answer
    assert question.error_factor == mirror.error_factor >= 1
    assert question.correct == (guess == answer or question.error_factor <= 1)


@pytest.mark.parametrize("guess, correct", [(5, True), (19.9, True), (20.1, False), (4.9, False)])
def test_within_is_the_largest_factor_that_counts_as_right(guess: float, correct: bool) -> None:
    question = lesson.predict("How long?", unit="ms", answer=10, within=2)
    question.guess = guess
    assert question.correct is correct


@pytest.mark.parametrize("guess, answer", [(0, 5), (5, 0), (-2, 3)])
def test_no_factor_without_a_ratio(guess: float, answer: float) -> None:
    question = lesson.predict("How many?", answer=answer)
    question.guess = guess
    assert (question.error_factor, question.correct) == (None, False)


def test_zero_guessed_for_zero_is_right() -> None:
    question = lesson.predict("How many?", answer=0)
    question.guess = 0
    assert question.correct


def test_choices_come_back_as_they_were_given() -> None:
    question = lesson.predict("By what factor?", choices=[1, 2, 4], answer=lambda: np.float64(2.0))
    question.given = "4"
    assert (question.guess, question.correct) == (4, False)
    assert repr(lesson.reveal(question)) == "2"


def test_true_is_not_the_choice_one() -> None:
    with pytest.raises(ValueError, match=r"True is not among the choices 1, 2"):
        _ = lesson.predict("?", choices=[1, 2], answer=True).answer


def test_a_numpy_answer_reads_the_same_under_every_numpy() -> None:
    assert repr(lesson.reveal(lesson.predict("?", answer=np.int64(12)))) == "12"


def test_a_guess_survives_running_the_cell_again() -> None:
    _, question = asked_calls()
    question.guess = 12
    _, again = asked_calls()
    assert (again.guess, again.outcome["answer"]) == (12.0, "20")
    again.guess = None
    _, third = asked_calls()
    assert (third.guess, third.asked) == (None, False)


# --- skipping, and silence under test ----------------------------------------------------------------------


def test_three_ways_to_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lesson.predict("?", answer=1, skip=True).outcome["answer"] == "1"
    lesson.skip_predictions()
    assert lesson.predict("?", answer=1).asked
    lesson.skip_predictions(False)
    assert not lesson.predict("?", answer=1).asked
    monkeypatch.setenv("PULSEWARP_SKIP", "1")
    assert lesson.predict("?", answer=1).asked
    monkeypatch.setenv("PULSEWARP_SKIP", "0")
    assert not lesson.predict("?", answer=1).asked


def test_the_repr_tells_nothing_that_changes(capsys: pytest.CaptureFixture[str]) -> None:
    _, question = asked_calls()
    before = repr(question)
    question.guess = 3
    assert repr(question) == before == "Prediction('How many cycles?', unit='cycles')"
    assert question._repr_mimebundle_()[0]["text/plain"] == before
    assert capsys.readouterr() == ("", "")


# --- pages -------------------------------------------------------------------------------------------------


def test_a_page_is_made_with_the_answer_computed_then() -> None:
    calls, question = asked_calls()
    page = question.to_html()
    assert '"answer": "20"' in page
    assert (len(calls), question.asked, question.outcome) == (1, False, {})


def test_only_an_export_puts_the_answer_into_what_is_displayed(monkeypatch: pytest.MonkeyPatch) -> None:
    _, question = asked_calls()
    assert "&quot;answer&quot;: &quot;20&quot;" not in question._repr_mimebundle_()[0]["text/html"]
    monkeypatch.setenv("PULSEWARP_EXPORT", "1")
    assert "&quot;answer&quot;: &quot;20&quot;" in question._repr_mimebundle_()[0]["text/html"]


# --- a scene that waits for the answer ---------------------------------------------------------------------


class Screen:
    future = "dimmed"


def test_a_scene_hides_its_future_until_the_question_is_answered() -> None:
    scene = Screen()
    question = lesson.predict("What comes?", choices=["a", "b"], answer="a", hides=scene)
    assert scene.future == "hidden"
    question.guess = "b"
    assert scene.future == "dimmed"


def test_a_skipped_question_hides_nothing() -> None:
    scene = Screen()
    lesson.predict("What comes?", choices=["a", "b"], answer="a", hides=scene, skip=True)
    assert scene.future == "dimmed"


def test_a_scene_without_a_future_to_hide_is_refused() -> None:
    with pytest.raises(ValueError, match="object cannot hide its future"):
        lesson.predict("What comes?", answer=1, hides=object())


# --- bad input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings, sentence",
    [
        ({"question": "  "}, r"question is '  ', but must be a sentence"),
        ({"choices": ["only"]}, r"needs two or more that read differently"),
        ({"choices": ["a", "a"]}, r"needs two or more that read differently"),
        ({"choices": [2, "2"]}, r"needs two or more that read differently"),
        ({"within": 0.5}, r"within is 0.5, but must be at least 1"),
        ({"within": float("nan")}, r"within is nan, but must be a finite number"),
    ],
)
def test_a_bad_question_gets_one_sentence(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        lesson.predict(**{"question": "How many?", "answer": 1, **settings})  # type: ignore[arg-type]  # on purpose


@pytest.mark.parametrize("answer", ["twelve", None, float("inf"), True, [1]])
def test_an_answer_that_is_no_number_needs_choices(answer: object) -> None:
    with pytest.raises(ValueError, match="must be a finite number; give choices"):
        lesson.reveal(lesson.predict("How many?", answer=answer))


def test_an_answer_outside_the_choices_says_that_the_question_is_stale() -> None:
    question = lesson.predict("How many?", choices=[8, 14], answer=lambda: 15)
    with pytest.raises(ValueError, match="15 is not among the choices 8, 14"):
        lesson.reveal(question)
    question.asked = True
    assert "15 is not among the choices" in question.outcome["problem"]


@pytest.mark.parametrize("text", ["twelve", "nan", "inf", "1,000"])
def test_the_browser_cannot_send_what_is_no_number(text: str) -> None:
    question = lesson.predict("How many?", answer=1)
    with pytest.raises(traitlets.TraitError, match="must be a finite number"):
        question.given = text


def test_the_browser_cannot_send_what_is_no_choice() -> None:
    with pytest.raises(traitlets.TraitError, match="must be one of a, b"):
        lesson.predict("?", choices=["a", "b"], answer="a").given = "c"


@pytest.mark.wrong_type
def test_reveal_takes_a_prediction_only() -> None:
    with pytest.raises(TypeError, match=r"what lesson.predict returned, but got int"):
        lesson.reveal(3)  # type: ignore[arg-type]  # on purpose


def test_a_systolic_player_keeps_its_future_until_the_prediction_is_made():
    player = widgets.SystolicPlayer(systolic.simulate([[1]], [[2]], rows=1, cols=1))
    question = lesson.predict("How many cycles?", unit="cycles", answer=2, hides=player)
    assert player.future == "hidden"
    question.guess = 3
    assert player.future == "dimmed"
