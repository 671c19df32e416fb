"""Exercises that reject wrong answers, and say where they go wrong."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsewarp import lesson, systolic


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
