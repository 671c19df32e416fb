"""Questions whose answers are computed when asked, and exercises that reject wrong answers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import traitlets
from hypothesis import given
from hypothesis import strategies as st

from pulsewarp import chips, lesson, simt, systolic, widgets


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test begins as a new session: nothing answered, nothing skipped."""
    monkeypatch.setattr(lesson, "_given", {})
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


# --- exercises ---------------------------------------------------------------------------------------------


def cycles_task() -> lesson.Exercise:
    return lesson.exercise(
        "Write the cycles of one fold: rows R, columns C, T rows of A.",
        cases=[(2, 2, 3), (4, 3, 1), (1, 1, 1)],
        answer=lambda r, c, t: (
            systolic.simulate(np.ones((t, r), int), np.ones((r, c), int), rows=r, cols=c).cycles
        ),
        hint=lambda given, computed: f"{computed - given} cycles are missing.",
        solution="lambda r, c, t: 2 * r + c + t - 2",
    )


def test_the_solution_agrees_with_the_simulator() -> None:
    assert repr(cycles_task().solved()) == "Right: all 3 cases agree."


def test_a_wrong_function_is_rejected_with_the_case_and_a_hint() -> None:
    verdict = cycles_task().check(lambda r, c, t: r + c + t - 2)
    assert not verdict
    assert (
        repr(verdict) == "Not yet: for (2, 2, 3) you gave 5, but 7 was computed. Hint: 2 cycles are missing."
    )


@given(st.integers(-50, 50))
def test_no_constant_passes(constant: int) -> None:
    assert not cycles_task().check(lambda r, c, t: constant)


def test_cases_that_a_constant_would_satisfy_are_refused() -> None:
    task = lesson.exercise("Double it.", cases=[(1,), (-1,)], answer=abs)
    with pytest.raises(ValueError, match="a constant would pass"):
        task.check(abs)


@pytest.mark.parametrize("untouched", [..., None])
def test_an_untouched_exercise_lets_the_notebook_go_on(untouched: object) -> None:
    verdict = cycles_task().check(untouched)
    assert (bool(verdict), repr(verdict)) == (
        False,
        "Not answered yet: put your answer in, then run this cell again.",
    )


def test_a_function_that_raises_is_named_not_raised() -> None:
    verdict = cycles_task().check(lambda r, c, t: 1 / 0)
    assert repr(verdict) == "Not yet: for (2, 2, 3) your function raised ZeroDivisionError: division by zero."


def test_a_value_where_a_function_is_asked_for() -> None:
    assert repr(cycles_task().check(7)) == "Not yet: a function is asked for, but you gave 7."


@pytest.mark.parametrize(
    "computed, right, wrong",
    [
        (20, [20, 20.0, np.int32(20)], [21, "20", True, [20], 1e400, {}]),
        (1, [1], [True]),
        ("memory", ["memory"], ["Memory", 1, b"memory"]),
        (True, [True, np.True_], [1, "True"]),
        (1 / 3, [1 / 3, 1 / 3 + 1e-12], [0.333]),
        (
            [[1, 2], [3, 4]],
            [np.array([[1, 2], [3, 4]]), ((1, 2), (3, 4))],
            [[[1, 2], [3, 5]], [1, 2], [[1], [2, 3]]],
        ),
    ],
)
def test_what_counts_as_the_same_answer(computed: object, right: list[object], wrong: list[object]) -> None:
    task = lesson.exercise("?", answer=lambda: computed)
    assert all(task.check(answer) for answer in right)
    assert not any(task.check(answer) for answer in wrong)


def test_a_rejected_value_does_not_give_the_answer_away() -> None:
    assert "20" not in repr(lesson.exercise("How many?", answer=20, hint="Count again.").check(3))


def test_solution_and_hint_are_folded_and_escaped() -> None:
    shown = lesson.exercise("Is a < b?", answer=1, hint="a & b", solution="a < b")._repr_html_()
    assert "<details><summary>Hint</summary><p>a &amp; b</p></details>" in shown
    assert "<details><summary>Solution</summary><pre><code>a &lt; b</code></pre></details>" in shown


def test_a_solution_of_several_lines() -> None:
    task = lesson.exercise("?", answer=6, solution="a = np.array([1, 2, 3])\nint(a.sum())")
    assert task.solved()


def test_a_rotten_solution_is_found() -> None:
    assert not lesson.exercise("?", answer=6, solution="7").solved()


def test_no_solution_to_check() -> None:
    with pytest.raises(ValueError, match="has no solution"):
        lesson.exercise("?", answer=6).solved()


def test_an_exercise_needs_a_task() -> None:
    with pytest.raises(ValueError, match="must say in words"):
        lesson.exercise("", answer=6)


def test_mutant_a_check_that_accepts_everything_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lesson.Exercise, "_agrees", lambda self, given, expected: True)
    with pytest.raises(ValueError, match="a constant would pass"):
        cycles_task().check(lambda r, c, t: 0)


# --- own numbers --------------------------------------------------------------------------------------------

TYPED = {"a": "1 2\n3 4", "b": "5 6\n7 8", "rows": "2", "cols": "2", "dataflow": "ws", "overlap": False}


def run_own(player, **values):
    """What comes back to the browser for these fields."""
    asked = str(len(player.reply.get("id", "")) + 1)
    player.request = {"id": asked + str(values), "kind": "own", "values": {**TYPED, **values}}
    assert player.reply["id"] == player.request["id"]
    return {key: value for key, value in player.reply.items() if key != "id"}


def test_own_product_runs_what_was_typed():
    player = lesson.own_product()
    before = player.trace
    said = run_own(player, dataflow="os", overlap=True, a="1 2\n3 4\n5 6")
    assert said == {"done": "Now shown: 3 x 2 by 2 x 2, 8 cycles in 2 folds."}
    trace = player._shown
    assert player.trace != before and trace.overlap and trace.dataflow == "os"
    assert trace.result.tolist() == [[19, 22], [43, 50], [67, 78]]


@pytest.mark.parametrize(
    ("values", "field", "words"),
    [
        ({"a": "1 x"}, "a", "A has 'x' in row 1"),
        ({"b": "1 2 3"}, "b", "B has 1 row, but A has 2 columns; give B as many rows as A has columns."),
        ({"rows": "9"}, "rows", "Array rows is 9, but must be a whole number of at least 1 and at most 8."),
        ({"cols": "two"}, "cols", "Array columns is 'two'"),
        ({"cols": ""}, "cols", "Array columns is ''"),
        ({"dataflow": "diagonal"}, None, "Unknown dataflow 'diagonal'"),
    ],
)
def test_own_numbers_that_do_not_run_come_back_as_a_sentence_with_their_field(values, field, words):
    player = lesson.own_product()
    before = player.trace
    said = run_own(player, **values)
    assert said["error"].startswith(words) and said.get("field") == field
    assert player.trace == before


@pytest.mark.parametrize(
    ("dtype", "text", "words"),
    [
        ("int8", "1 200", "A[0,1] is 200, but int8 holds whole numbers from -128 to 127; change it."),
        ("int8", "1.5 2", "A[0,0] is 1.5, but int8 holds whole numbers"),
        ("int32", "1 3000000000", "A[0,1] is 3000000000, but int32 holds"),
        ("float16", "1 65520", "A[0,1] is 65520, beyond what float16 holds; write a smaller one."),
    ],
)
def test_own_numbers_must_fit_their_dtype(dtype, text, words):
    player = lesson.own_product([[1, 2]], [[3], [4]], dtype=dtype)
    said = run_own(player, a=text)
    assert said["error"].startswith(words) and said["field"] == "a"


def test_own_numbers_are_held_in_their_dtype():
    player = lesson.own_product([[1, 2]], [[3], [4]], dtype="bfloat16")
    run_own(player, a="1.001 257", b="1\n1")
    assert player._shown.a.astype(float).tolist() == [[1.0, 256.0]]
    assert str(player._shown.a.dtype) == "bfloat16"


def test_own_product_refuses_what_does_not_fit_the_fields():
    with pytest.raises(ValueError, match=r"a is 1 x 9, but at most 8 x 8 fit"):
        lesson.own_product([range(9)], [[1]] * 9)
    with pytest.raises(ValueError, match=r"Unknown dtype 'int7'.*Did you mean"):
        lesson.own_product(dtype="int7")


SIZES = {"m": "64", "k": "256", "n": "256", "array": "tpu_v6e", "dataflow": "os", "overlap": False}


def test_own_sizes_counts_what_was_typed_on_the_array_chosen():
    player = lesson.own_sizes()
    player.request = {"id": "1", "kind": "own", "values": SIZES}
    cost = systolic.gemm(m=64, k=256, n=256, rows=256, cols=256, dataflow="os")
    used = f"{100 * cost.utilization:.1f} % of cell-cycles form a product"
    assert player.reply["done"] == f"Now shown: 1 fold, {cost.cycles:,} cycles, {used}."
    assert player._shown == cost


def test_own_sizes_offers_every_tpu_array_of_the_catalogue_by_its_name():
    fields = {field["name"]: field for field in lesson.own_sizes().options["form"]["fields"]}
    units = {chip.id: chip.matrix_unit_shape for chip in chips.catalogue() if chip.family == "tpu"}
    assert {key: label.split(": ")[1] for key, label in fields["array"]["choices"]} == {
        key: f"{shape[0]} x {shape[1]}" for key, shape in units.items() if shape
    }


@pytest.mark.parametrize(
    ("values", "field", "words"),
    [
        ({"m": "0"}, "m", "M is 0, but must be a whole number of at least 1 and at most 1000000."),
        ({"k": "many"}, "k", "K is 'many'"),
        ({"n": ""}, "n", "N is ''"),
        ({"array": "abacus"}, None, "Unknown array 'abacus'"),
        ({"k": "999999", "n": "999999"}, None, "This run has"),
    ],
)
def test_own_sizes_that_do_not_run_come_back_as_a_sentence(values, field, words):
    player = lesson.own_sizes()
    before = player.trace
    player.request = {"id": "1", "kind": "own", "values": {**SIZES, **values}}
    assert player.reply["error"].startswith(words) and player.reply.get("field") == field
    assert player.trace == before


def test_a_systolic_player_keeps_its_future_until_the_prediction_is_made():
    player = widgets.SystolicPlayer(systolic.simulate([[1]], [[2]], rows=1, cols=1))
    question = lesson.predict("How many cycles?", unit="cycles", answer=2, hides=player)
    assert player.future == "hidden"
    question.guess = 3
    assert player.future == "dimmed"
