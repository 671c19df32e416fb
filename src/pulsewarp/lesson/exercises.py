"""Tasks for the reader: checked against what is computed, with a hint and a folded solution."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pulsewarp._checks import instance, names_keywords, positive_number, several
from pulsewarp.lesson._values import plain, short


@dataclass(frozen=True)
class Verdict:
    """Whether a reader's answer agrees with what was computed, and the sentence that says so.

    True in a condition when it agrees, so that ``assert exercise.check(answer)`` grades.
    """

    accepted: bool
    sentence: str

    def __bool__(self) -> bool:
        return self.accepted

    def __repr__(self) -> str:
        return self.sentence


#: What a check says of ``...`` and None.
NOT_ANSWERED = Verdict(False, "Not answered yet: put your answer in, then run this cell again.")


class Exercise:
    """A task for the reader, the function that knows the answer, a hint, and a folded solution.

    Made by :func:`exercise`. As the last line of a cell it shows the task, with hint and solution folded.

    Examples
    --------
    >>> from pulsewarp import lesson
    >>> lesson.exercise("How many lanes has a warp?", answer=32).check(31)
    Not yet: you gave 31, which is not what was computed.
    """

    def __init__(
        self,
        task: str,
        *,
        answer: object,
        cases: Iterable[tuple[Any, ...]] = (),
        hint: str | Callable[[Any, Any], str] = "",
        solution: str = "",
        tolerance: float = 1e-9,
    ) -> None:
        self.task = task
        self.cases = tuple(case if isinstance(case, tuple) else (case,) for case in cases)
        self.solution = solution
        self._answer = answer
        self._hint = hint
        self._tolerance = tolerance

    def check(self, given: object) -> Verdict:
        """Compare `given` with what is computed, and say the first disagreement with a hint.

        Parameters
        ----------
        given
            The reader's answer; with cases, the reader's function, called once for each. ``...`` and None
            mean "not answered yet", so an untouched notebook runs to its end.

        Returns
        -------
        Verdict
            True in a condition when everything agrees; its repr is the sentence. Never raises for a wrong
            answer, so that the cells below still run.
        """
        if given is None or given is ...:
            return NOT_ANSWERED
        if self.cases:
            return self._check_function(given)
        expected = plain(self._answer() if callable(self._answer) else self._answer)
        if self._agrees(given, expected):
            return Verdict(True, f"Right: {short(expected)}.")
        return self._rejection(f"you gave {short(given)}, which is not what was computed", given, expected)

    def solved(self) -> Verdict:
        """Check the shown solution itself, so that it cannot rot: notebooks keep this cell's output.

        The solution text is run as Python with numpy as ``np``; its last line must be an expression.

        Returns
        -------
        Verdict
            What `check` says of it.

        Raises
        ------
        ValueError
            When the exercise has no solution.
        """
        if not self.solution:
            raise ValueError(f"The exercise {self.task!r} has no solution; give exercise(..., solution=...).")
        *before, last = self.solution.strip().split("\n")
        names: dict[str, Any] = {"np": np}
        exec("\n".join(before), names)  # written by the lesson's author beside the task, not by the reader
        return self.check(eval(last, names))

    def __repr__(self) -> str:
        return f"Exercise({self.task!r}{f', {len(self.cases)} cases' if self.cases else ''})"

    def _repr_html_(self) -> str:
        parts = [f"<p>{html.escape(self.task)}</p>"]
        if isinstance(self._hint, str) and self._hint:
            parts.append(f"<details><summary>Hint</summary><p>{html.escape(self._hint)}</p></details>")
        if self.solution:
            parts.append(
                f"<details><summary>Solution</summary><pre><code>{html.escape(self.solution)}</code></pre></details>"
            )
        return f"<section>{''.join(parts)}</section>"

    def _check_function(self, given: object) -> Verdict:
        if not callable(given):
            return Verdict(False, f"Not yet: a function is asked for, but you gave {short(given)}.")
        if not callable(self._answer):
            raise ValueError("An exercise with cases needs answer=a function of one case.")
        expected = [plain(self._answer(*case)) for case in self.cases]
        if len(expected) < 2 or all(self._agrees(value, expected[0]) for value in expected[1:]):
            raise ValueError(
                f"Every case of {self.task!r} has the same answer, so a constant would pass; "
                f"add one that differs."
            )
        for case, right in zip(self.cases, expected, strict=True):
            call = f"for ({', '.join(map(short, case))})"
            try:
                value = given(*case)
            except Exception as error:
                raised = f"{type(error).__name__}: {error}"
                return Verdict(False, f"Not yet: {call} your function raised {raised}.")
            if not self._agrees(value, right):
                what = f"{call} you gave {short(value)}, but {short(right)} was computed"
                return self._rejection(what, value, right)
        return Verdict(True, f"Right: all {len(self.cases)} cases agree.")

    def _agrees(self, given: object, expected: object) -> bool:
        given = plain(given)
        if isinstance(expected, (bool, str)) or expected is None or isinstance(given, (bool, str)):
            return type(given) is type(expected) and given == expected
        try:
            mine, right = np.asarray(given), np.asarray(expected)
            if mine.shape != right.shape:
                return False
            if right.dtype.kind not in "iuf":
                return bool(np.array_equal(mine, right))
            return bool(np.allclose(mine.astype(float), right.astype(float), rtol=self._tolerance, atol=0.0))
        except (TypeError, ValueError):
            return False

    def _rejection(self, what: str, given: object, expected: object) -> Verdict:
        hint = self._hint(given, expected) if callable(self._hint) else self._hint
        return Verdict(False, f"Not yet: {what}." + (f" Hint: {hint}" if hint else ""))


@names_keywords
def exercise(
    task: str,
    *,
    answer: object,
    cases: Iterable[tuple[Any, ...]] = (),
    hint: str | Callable[[Any, Any], str] = "",
    solution: str = "",
    tolerance: float = 1e-9,
) -> Exercise:
    """Set a task whose answers are checked against computed ones.

    Parameters
    ----------
    task
        What to do, in words.
    answer
        The function that computes the right answer (with cases: of one case), or the answer itself.
    cases
        Arguments to try the reader's function on; at least two with different answers, so that a constant
        cannot pass. Empty when a value is asked for.
    hint
        Said when an answer is rejected: a string, or a function of (given, computed) that returns one.
    solution
        Python text whose last line is an expression: the answer, or the function. Shown folded, and checked
        by :meth:`Exercise.solved`.
    tolerance
        Largest relative difference for numbers and arrays.

    Returns
    -------
    Exercise
        `.check(given)` and `.solved()` return a :class:`Verdict`.

    Raises
    ------
    ValueError
        When the task is empty; when checked, cases that a constant would satisfy.

    Examples
    --------
    >>> from pulsewarp import lesson
    >>> task = lesson.exercise("Write the FLOPs of an m x k by k x n product.", cases=[(4, 4, 4), (1, 8, 2)],
    ...                        answer=lambda m, k, n: 2 * m * k * n, solution="lambda m, k, n: 2 * m * k * n",
    ...                        hint="A multiply-add counts twice.")
    >>> task.check(lambda m, k, n: m * k * n)
    Not yet: for (4, 4, 4) you gave 64, but 128 was computed. Hint: A multiply-add counts twice.
    >>> task.solved()
    Right: all 2 cases agree.
    """
    if not isinstance(task, str) or not task.strip():
        raise ValueError(f"task is {task!r}, but must say in words what the reader should do.")
    instance("solution", solution, str, "write Python whose last line is the answer")
    return Exercise(
        task,
        answer=answer,
        cases=several("cases", cases, "write [(1, 2), (3, 4)], one tuple of arguments a case"),
        hint=hint,
        solution=solution,
        tolerance=positive_number("tolerance", tolerance, zero=True),
    )
