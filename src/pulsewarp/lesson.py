"""What notebooks call: ask before showing, reveal what was computed, check or run what a reader wrote.

An answer is never typed in beside its question: it is a function that runs the simulator (or the
measurement) when the reader asks, so a quiz cannot go stale while the model changes.
"""

from __future__ import annotations

import html
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import traitlets
from numpy.typing import NDArray

from pulsewarp import _checks, chips, simt, systolic
from pulsewarp._checks import instance, names_keywords, positive_number, several
from pulsewarp._paste import read_matrix
from pulsewarp._text import counted
from pulsewarp.widgets.access import AccessPlayer
from pulsewarp.widgets.occupancy import OccupancyPlayer
from pulsewarp.widgets.question import Question
from pulsewarp.widgets.systolic import VALUES_UP_TO, SystolicPlayer
from pulsewarp.widgets.tiling import TilingPlayer

__all__ = [
    "Exercise",
    "Prediction",
    "Verdict",
    "exercise",
    "own_access",
    "own_occupancy",
    "own_product",
    "own_sizes",
    "predict",
    "reveal",
    "skip_predictions",
]

_skip_all = False
_given: dict[str, str] = {}  # by question: what the reader gave, so that running a cell again keeps it


class Prediction(Question):
    """One question, what the reader guessed, and the answer, which is computed when it is asked for.

    Made by :func:`predict`. Beside the traits of :class:`pulsewarp.widgets.Question`:

    Attributes
    ----------
    guess
        What the reader chose or typed: one of the choices, or a float; None before that. Setting it
        from Python counts as answering.
    answer
        The computed answer (cached): one of the choices, or an int or float.
    correct
        Whether the guess is right (for a number: its error factor is at most `within`); None without a guess.
    error_factor
        How many times too high or too low a guessed number is, at least 1; None where no factor exists
        (no guess, a choice, or a zero or opposite sign on one side only).

    Examples
    --------
    >>> from pulsewarp import lesson
    >>> cycles = lesson.predict("How many cycles?", unit="cycles", answer=lambda: 4 + 4 + 4 - 2)
    >>> cycles.guess = 20
    >>> cycles.answer, cycles.correct, cycles.error_factor
    (10, False, 2.0)
    """

    def __init__(
        self,
        question: str,
        *,
        choices: Sequence[object] = (),
        unit: str = "",
        answer: object = None,
        explain: str | Callable[[Any], str] = "",
        within: float = 1.0,
        skip: bool = False,
        hides: Any = None,
    ) -> None:
        self._choices = tuple(_plain(choice) for choice in choices)
        self._compute = answer
        self._explain = explain
        self._hides = hides
        self._known: object = None
        labels = [_label(choice) for choice in self._choices]
        super().__init__(question, choices=labels, unit=unit, within=within)
        self.observe(self._on_given, names="given")
        self.observe(self._on_asked, names="asked")
        if hides is not None and not skip:
            hides.future = "hidden"
        kept = _given.get(question, "")
        if kept and self._reads(kept):
            self.given = kept
        if skip:
            self.asked = True

    @property
    def guess(self) -> Any:
        """What the reader chose or typed, or None."""
        if not self.given:
            return None
        if self._choices:
            return self._choices[self.choices.index(self.given)]
        return float(self.given)

    @guess.setter
    def guess(self, value: object) -> None:
        if value is None:
            self.given, self.asked = "", False
        elif self._choices:
            self.given = _label(_plain(value))
        else:
            self.given = repr(_number(_plain(value), "guess"))

    @property
    def answer(self) -> Any:
        """The answer, computed on first use and kept."""
        if self._known is None:
            try:
                value = self._compute() if callable(self._compute) else self._compute
            except Exception as error:
                raise RuntimeError(
                    f"The answer to {self.question!r} could not be computed "
                    f"({type(error).__name__}: {error}); run the cells above first."
                ) from error
            self._known = self._checked(_plain(value))
        return self._known

    @property
    def correct(self) -> bool | None:
        """Whether the guess is right; None without a guess."""
        if self.guess is None:
            return None
        if self._choices:
            return bool(self.guess == self.answer)  # an answer is one of the choices
        factor = self.error_factor
        return bool(self.guess == self.answer) if factor is None else factor <= self.within

    @property
    def error_factor(self) -> float | None:
        """How many times too high or too low the guessed number is; None where no factor exists."""
        if self.guess is None or self._choices or self.guess * self.answer <= 0:
            return None
        return float(max(self.guess / self.answer, self.answer / self.guess))

    def to_html(self) -> str:
        """Return one self-contained page; its answer is computed now, because a page has no kernel."""
        return self._page({**self._page_state(), "outcome": self.outcome or self._settled()})

    def _fallback(self) -> str:
        # Displaying a question computes nothing: the answer may take long, or need a cell below. Who exports
        # notebooks sets PULSEWARP_EXPORT=1, so that their pages can answer without a kernel.
        return self.to_html() if _switch("PULSEWARP_EXPORT") else super()._fallback()

    @traitlets.validate("given")
    def _valid_given(self, proposal: Any) -> str:
        value: str = proposal["value"]
        if value and not self._reads(value):
            number = "a finite number, such as 12 or 1.5e9"
            wanted = f"one of {', '.join(self.choices)}" if self._choices else number
            raise traitlets.TraitError(f"The guess is {value!r}, but must be {wanted}.")
        return value

    def _reads(self, text: str) -> bool:
        if self._choices:
            return text in self.choices
        try:
            return math.isfinite(float(text))
        except ValueError:
            return False

    def _on_given(self, change: Any) -> None:
        _given[self.question] = change["new"]
        if change["new"]:
            self.asked = True

    def _on_asked(self, change: Any) -> None:
        if change["new"]:
            self.outcome = self._settled()
            if self._hides is not None:
                self._hides.future = "dimmed"

    def _settled(self) -> dict[str, Any]:
        """Return what the browser shows; a failure is a sentence there, since no reader sees a log."""
        try:
            answer = self.answer
            explanation = self._explain(answer) if callable(self._explain) else self._explain
        except Exception as error:
            self._known = None
            return {"problem": str(error)}
        number = None if self._choices else float(answer)
        return {"answer": _label(answer), "number": number, "explanation": str(explanation), "problem": ""}

    def _checked(self, value: Any) -> Any:
        if self._choices:
            for choice in self._choices:
                if _same(choice, value):
                    return choice
            raise ValueError(
                f"The computed answer {value!r} is not among the choices "
                f"{', '.join(map(repr, self._choices))}: the question no longer fits its answer; add it."
            )
        return _number(value, "answer")


@names_keywords
def predict(
    question: str,
    *,
    choices: Sequence[object] = (),
    unit: str = "",
    answer: object,
    explain: str | Callable[[Any], str] = "",
    within: float = 1.0,
    skip: bool = False,
    hides: Any = None,
) -> Prediction:
    """Ask the reader for a guess before anything is shown; the answer is computed when they give it.

    The question is one widget: radio buttons for choices, a field for a number. It shows the reader's answer,
    the computed one, the error factor of a number, and the explanation. Nothing waits for the reader: cells
    below run whether or not the question was answered, and the text repr is the same either way.

    Parameters
    ----------
    question
        One sentence, shown as it is; text between backquotes is set as code.
    choices
        Two or more different answers to choose from. Without them the reader types a number.
    unit
        Unit of the number, in words ("cycles", "FLOP per byte"); empty for a bare number.
    answer
        A function without arguments that computes the answer when asked, or the answer itself.
        With choices it must give one of them.
    explain
        Shown with the answer: a string, or a function of the answer that returns one.
    within
        Largest error factor that counts as right for a number, at least 1 (1: exactly right).
    skip
        Do not ask; show the answer at once. :func:`skip_predictions` and the environment variable
        ``PULSEWARP_SKIP=1`` do so for every question.
    hides
        A player whose future stays hidden until this question is answered or skipped.

    Returns
    -------
    Prediction
        Shows itself as the last line of a cell; `.guess`, `.answer`, `.correct`, `.error_factor`.

    Raises
    ------
    ValueError
        When the question is empty, there is one choice, two choices read alike, or `within` is below 1;
        when read, an answer that is not among the choices or not a finite number.

    Examples
    --------
    >>> from pulsewarp import lesson
    >>> flops = lesson.predict("How many FLOPs does a 4x4 by 4x4 product take?", choices=[64, 128, 256],
    ...                        answer=lambda: 2 * 4 * 4 * 4, explain="Two for each of m*n*k multiply-adds.")
    >>> flops
    Prediction('How many FLOPs does a 4x4 by 4x4 product take?', choices=['64', '128', '256'])
    >>> lesson.reveal(flops)
    128
    """
    choices = several("choices", choices, "leave it out to ask for a number")
    unit = instance("unit", unit, str, "write it in words, such as 'cycles'")
    within = positive_number("within", within)
    labels = [_label(_plain(choice)) for choice in choices]
    if not isinstance(question, str) or not question.strip():
        raise ValueError(
            f"question is {question!r}, but must be a sentence; write what the reader should predict."
        )
    if len(labels) == 1 or len(set(labels)) != len(labels):
        raise ValueError(
            f"choices is {list(choices)!r}, but needs two or more that read differently; "
            f"leave it out to ask for a number."
        )
    if within < 1:
        raise ValueError(
            f"within is {within!r}, but must be at least 1: the largest error factor that counts as right."
        )
    if hides is not None and not hasattr(type(hides), "future"):
        raise ValueError(
            f"hides is {type(hides).__name__}, but a {type(hides).__name__} cannot hide its future; "
            f"give a player that can, such as a WarpPlayer."
        )
    return Prediction(
        question,
        choices=choices,
        unit=unit,
        answer=answer,
        explain=explain,
        within=within,
        skip=skip or _skips(),
        hides=hides,
    )


@names_keywords
def reveal(prediction: Prediction) -> Any:
    """Return the computed answer of a prediction, and show it in the question if that is on screen.

    Parameters
    ----------
    prediction
        What :func:`predict` returned.

    Returns
    -------
    int, float or one of the choices
        A plain Python value, so that the cell's output can be kept and compared.

    Raises
    ------
    TypeError
        When `prediction` is something else.
    RuntimeError
        When the answer cannot be computed yet, with the reason.

    Examples
    --------
    >>> from pulsewarp import lesson
    >>> lesson.reveal(lesson.predict("Which bounds a 1x4096 by 4096x4096 product?",
    ...                              choices=["compute", "memory"], answer=lambda: "memory"))
    'memory'
    """
    if not isinstance(prediction, Prediction):
        raise TypeError(f"reveal needs what lesson.predict returned, but got {type(prediction).__name__}.")
    answer = prediction.answer
    prediction.asked = True
    return answer


@names_keywords
def skip_predictions(skip: bool = True) -> None:
    """Show the answers of all predictions made from now on at once, or ask again with ``skip=False``.

    Parameters
    ----------
    skip
        True: do not ask. False: ask again (``PULSEWARP_SKIP=1`` in the environment still skips).

    Examples
    --------
    >>> from pulsewarp import lesson
    >>> lesson.skip_predictions()
    >>> lesson.predict("How many lanes has a warp?", unit="lanes", answer=32).asked
    True
    >>> lesson.skip_predictions(False)
    """
    global _skip_all
    _skip_all = bool(skip)


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
            return Verdict(False, "Not answered yet: put your answer in, then run this cell again.")
        if self.cases:
            return self._check_function(given)
        expected = _plain(self._answer() if callable(self._answer) else self._answer)
        if self._agrees(given, expected):
            return Verdict(True, f"Right: {_short(expected)}.")
        return self._rejection(f"you gave {_short(given)}, which is not what was computed", given, expected)

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
            return Verdict(False, f"Not yet: a function is asked for, but you gave {_short(given)}.")
        if not callable(self._answer):
            raise ValueError("An exercise with cases needs answer=a function of one case.")
        expected = [_plain(self._answer(*case)) for case in self.cases]
        if len(expected) < 2 or all(self._agrees(value, expected[0]) for value in expected[1:]):
            raise ValueError(
                f"Every case of {self.task!r} has the same answer, so a constant would pass; "
                f"add one that differs."
            )
        for case, right in zip(self.cases, expected, strict=True):
            call = f"for ({', '.join(map(_short, case))})"
            try:
                value = given(*case)
            except Exception as error:
                raised = f"{type(error).__name__}: {error}"
                return Verdict(False, f"Not yet: {call} your function raised {raised}.")
            if not self._agrees(value, right):
                what = f"{call} you gave {_short(value)}, but {_short(right)} was computed"
                return self._rejection(what, value, right)
        return Verdict(True, f"Right: all {len(self.cases)} cases agree.")

    def _agrees(self, given: object, expected: object) -> bool:
        given = _plain(given)
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


#: What own matrices may be held in. "as typed": int64 where all numbers are whole, else float64.
OWN_DTYPES = ("as typed", "int8", "int32", "bfloat16", "float16", "float32")


@names_keywords
def own_product(
    a: Any = ((1, 2, 3), (4, 5, 6)),
    b: Any = ((1, 0, 2), (0, 1, 2), (3, 1, 0)),
    *,
    rows: int = 3,
    cols: int = 3,
    dataflow: str = "ws",
    overlap: bool = False,
    dtype: str = "as typed",
    task: str | None = None,
) -> SystolicPlayer:
    """Let the reader run a product of their own: fields for two matrices, the dataflow and the array.

    The scene opens with the operands given here. When the reader presses Run, the kernel reads what was
    typed or pasted, simulates every register and replaces the run shown; what cannot be read is said in one
    sentence at its field, and nothing typed is lost. On a page without a kernel the fields are switched off
    and say so.

    Parameters
    ----------
    a, b : array-like of numbers, shape (m, k) and (k, n)
        The operands at first, at most 8 x 8 each.
    rows, cols : int
        Rows and columns of cells at first, each from 1 to 8.
    dataflow : str
        ``"ws"``, ``"os"`` or ``"is"`` at first.
    overlap : bool
        Whether folds overlap at first: the next stationary tile is loaded while the present one works.
    dtype : str
        What operands are held in: ``"as typed"`` (int64 where all are whole, else float64), ``"int8"``,
        ``"int32"``, ``"bfloat16"``, ``"float16"`` or ``"float32"``. Floats are rounded to it, whole numbers
        must fit.
    task : str, optional
        What the reader is asked to do, one sentence.

    Returns
    -------
    SystolicPlayer
        Shows itself as the last line of a cell.

    Raises
    ------
    ValueError
        When an operand is larger than 8 x 8, does not fit the other or the dtype, or a setting is unknown.

    Examples
    --------
    >>> from pulsewarp import lesson
    >>> lesson.own_product([[1, 2], [3, 4]], [[5, 6], [7, 8]], rows=2, cols=2)
    SystolicPlayer(ws, 2x2 cells, 6 cycles)
    """
    a, b = _checks.factors(a, b)
    dtype = _checks.choice("dtype", dtype, OWN_DTYPES)
    for name, operand in (("a", a), ("b", b)):
        if max(operand.shape) > VALUES_UP_TO:
            raise ValueError(
                f"{name} is {operand.shape[0]} x {operand.shape[1]}, but at most {VALUES_UP_TO} x "
                f"{VALUES_UP_TO} fit the fields; show larger ones with widgets.SystolicPlayer."
            )

    def simulate(
        a: NDArray[Any], b: NDArray[Any], rows: int, cols: int, dataflow: str, overlap: bool
    ) -> systolic.SystolicTrace:
        a, b = _held_in(dtype, "A", a), _held_in(dtype, "B", b)
        return systolic.simulate(a, b, rows=rows, cols=cols, dataflow=dataflow, overlap=overlap)

    def run(values: Mapping[str, Any]) -> Mapping[str, Any]:
        given: dict[str, Any] = {}
        for name in ("a", "b", "rows", "cols"):
            try:
                given[name] = (
                    read_matrix(name.upper(), str(values.get(name)), most=VALUES_UP_TO)
                    if name in ("a", "b")
                    else _typed_whole(name, values.get(name), VALUES_UP_TO)
                )
                if name in ("a", "b"):
                    _held_in(dtype, name.upper(), given[name])
            except ValueError as error:
                return {"error": str(error), "field": name}
        (_, k), (inner, _) = given["a"].shape, given["b"].shape
        if k != inner:
            return {
                "error": f"B has {counted(inner, 'row')}, but A has {counted(k, 'column')}; give B as many "
                f"rows as A has columns.",
                "field": "b",
            }
        trace = simulate(**given, dataflow=str(values.get("dataflow")), overlap=bool(values.get("overlap")))
        player.show(trace)
        shape = f"{trace.m} x {trace.k} by {trace.k} x {trace.n}"
        return {"done": f"Now shown: {shape}, {trace.cycles} cycles in {counted(len(trace.folds), 'fold')}."}

    rows = _checks.whole_number("rows", rows, most=VALUES_UP_TO)
    cols = _checks.whole_number("cols", cols, most=VALUES_UP_TO)
    player = SystolicPlayer(simulate(a, b, rows, cols, dataflow, overlap), task=task)
    player.offer(
        "Your own numbers",
        f"Type or paste matrices up to {VALUES_UP_TO} x {VALUES_UP_TO}: a row on each line, numbers apart by "
        "spaces, commas or tabs, or as Python writes them."
        + ("" if dtype == "as typed" else f" They are held in {dtype}."),
        [
            {"name": "a", "label": "A", "kind": "matrix", "value": _typed(a)},
            {"name": "b", "label": "B", "kind": "matrix", "value": _typed(b)},
            _dataflow_field(dataflow),
            {
                "name": "rows",
                "label": "Array rows",
                "kind": "whole",
                "value": rows,
                "least": 1,
                "most": VALUES_UP_TO,
            },
            {
                "name": "cols",
                "label": "Array columns",
                "kind": "whole",
                "value": cols,
                "least": 1,
                "most": VALUES_UP_TO,
            },
            {"name": "overlap", "label": "folds overlap", "kind": "switch", "value": bool(overlap)},
        ],
        run,
    )
    return player


#: Sizes that the fields take; what the scene itself cannot show it refuses with its own limits.
MOST_OWN_SIZE = 10**6


@names_keywords
def own_sizes(
    m: int = 512,
    k: int = 129,
    n: int = 129,
    *,
    array: str = "tpu_v4",
    dataflow: str = "ws",
    overlap: bool = True,
    task: str | None = None,
) -> TilingPlayer:
    """Let the reader run a product of their own sizes on one matrix unit of a real TPU.

    The scene opens with the sizes given here. When the reader presses Run, the kernel counts the product in
    closed form (`systolic.gemm`, convention "register") and replaces the run shown; a size that cannot be
    counted is said at its field. On a page without a kernel the fields are switched off and say so. Not
    modelled: memory, and how a chip with several matrix units shares a product.

    Parameters
    ----------
    m, k, n : int
        Sizes of the product at first, each from 1 to 1,000,000.
    array : str
        The array at first: that of a TPU by its id in the catalogue, such as ``"tpu_v6e"``.
    dataflow : str
        ``"ws"``, ``"os"`` or ``"is"`` at first.
    overlap : bool
        Whether folds overlap at first: the next stationary tile is loaded while the present one works.
    task : str, optional
        What the reader is asked to do; left out, the scene's own task.

    Returns
    -------
    TilingPlayer
        Shows itself as the last line of a cell.

    Raises
    ------
    ValueError
        For a size, an array or a dataflow that is none, or a run too long to be shown.

    Examples
    --------
    One row and one column more than the array has, and four folds are needed instead of one:

    >>> from pulsewarp import lesson
    >>> lesson.own_sizes(512, 129, 129)
    TilingPlayer(ws, 128x128 cells, 512x129 by 129x129, 4 folds that overlap, 2430 cycles)
    """
    arrays = {chip.id: chip for chip in chips.catalogue() if chip.family == "tpu" and chip.matrix_unit_shape}
    array = _checks.choice("array", array, arrays)

    def count(m: int, k: int, n: int, array: str, dataflow: str, overlap: bool) -> systolic.GemmCost:
        unit = systolic.matrix_units(array)
        return systolic.gemm(
            m=m, k=k, n=n, rows=unit.rows, cols=unit.cols, dataflow=dataflow, overlap=overlap
        )

    def run(values: Mapping[str, Any]) -> Mapping[str, Any]:
        sizes: dict[str, int] = {}
        for name in ("m", "k", "n"):
            try:
                sizes[name] = _typed_whole(name, values.get(name), MOST_OWN_SIZE)
            except ValueError as error:
                return {"error": str(error), "field": name}
        chip = _checks.choice("array", str(values.get("array")), arrays)
        cost = count(
            **sizes, array=chip, dataflow=str(values.get("dataflow")), overlap=bool(values.get("overlap"))
        )
        player.show(cost)
        used = f"{100 * cost.utilization:.1f} % of cell-cycles form a product"
        return {"done": f"Now shown: {counted(cost.folds, 'fold')}, {cost.cycles:,} cycles, {used}."}

    for name, size in (("m", m), ("k", k), ("n", n)):
        _checks.whole_number(name, size, most=MOST_OWN_SIZE)
    player = TilingPlayer(count(m, k, n, array, dataflow, overlap), task=task)
    choices = [
        [chip.id, f"{chip.name}: {' x '.join(map(str, chip.matrix_unit_shape or ()))}"]
        for chip in arrays.values()
    ]
    player.offer(
        "Your own sizes",
        "An M x K by K x N product on one matrix unit; chips that have several share larger products.",
        [
            *(
                {"name": name, "label": name.upper(), "kind": "whole", "value": size, "least": 1}
                for name, size in (("m", m), ("k", k), ("n", n))
            ),
            {"name": "array", "label": "Array of", "kind": "choice", "value": array, "choices": choices},
            _dataflow_field(dataflow),
            {"name": "overlap", "label": "folds overlap", "kind": "switch", "value": overlap},
        ],
        run,
    )
    return player


#: Shared memory that the field takes; what a compute capability cannot give, the scene itself says.
MOST_OWN_BYTES = 10**6


@names_keywords
def own_occupancy(
    compute_capability: str = "8.0",
    threads_per_block: int = 256,
    registers_per_thread: int = 64,
    shared: int = 0,
    *,
    shared_opt_in: bool = True,
    task: str | None = None,
) -> OccupancyPlayer:
    """Let the reader fill an SM with blocks of a launch of their own.

    The scene opens with the launch given here. When the reader presses Run, the kernel counts the blocks
    (`simt.occupancy`) and shows them beside the launch before, so that one sees what the change did. On a
    page without a kernel the fields are switched off and say so. Not modelled: what the compiler does when
    it is given fewer registers, and speed: more occupancy is not more speed.

    Parameters
    ----------
    compute_capability : str
        At first, such as ``"8.0"``.
    threads_per_block, registers_per_thread : int
        Of the launch at first; from 1 to 2,048 and from 0 to 512, so that one can see what cannot start.
    shared : int
        Dynamic shared memory of a block at first, in bytes.
    shared_opt_in : bool
        Whether the kernel has opted in to more than 48 KiB a block.
    task : str, optional
        What the reader is asked to do; left out, the scene's own task.

    Returns
    -------
    OccupancyPlayer
        Shows itself as the last line of a cell.

    Raises
    ------
    ValueError
        For a compute capability or a number that is none.

    Examples
    --------
    >>> from pulsewarp import lesson
    >>> lesson.own_occupancy("8.6", threads_per_block=128, registers_per_thread=80)
    OccupancyPlayer(128 threads a block, 80 registers a thread: 6 blocks)
    """
    limits = {"threads_per_block": (1, 2048), "registers_per_thread": (0, 512), "shared": (0, MOST_OWN_BYTES)}
    labels = {
        "threads_per_block": "Threads a block",
        "registers_per_thread": "Registers a thread",
        "shared": "Shared memory a block, bytes",
    }
    first = {
        "threads_per_block": threads_per_block,
        "registers_per_thread": registers_per_thread,
        "shared": shared,
    }
    for name, (least, most) in limits.items():
        _checks.whole_number(name, first[name], least=least, most=most)

    def count(compute_capability: str, shared_opt_in: bool, **numbers: int) -> simt.Occupancy:
        numbers["dynamic_shared"] = numbers.pop("shared")
        return simt.occupancy(compute_capability, shared_opt_in=shared_opt_in, **numbers)

    shown = [count(compute_capability, shared_opt_in, **first)]

    def run(values: Mapping[str, Any]) -> Mapping[str, Any]:
        numbers: dict[str, int] = {}
        for name, (least, most) in limits.items():
            try:
                numbers[name] = _typed_whole(labels[name], values.get(name), most, least=least)
            except ValueError as error:
                return {"error": str(error), "field": name}
        held = count(str(values.get("compute_capability")), bool(values.get("shared_opt_in")), **numbers)
        before = [one for one in shown if one != held]
        shown[:] = [held]
        player.show([*before, held])
        beside = ", beside the launch before" if before else ""
        fits = f"{counted(held.blocks_per_sm, 'block')}, {held.warps_per_sm} of {held.device.max_warps} warps"
        return {"done": f"Now shown: {fits}{beside}."}

    player = OccupancyPlayer(shown[0], task=task)
    capabilities = [
        [name, f"{name}: {device.architecture}, such as {device.example}"]
        for name, device in simt.compute_capabilities().items()
    ]
    player.offer(
        "Your own launch",
        "The compiler reports registers and static shared memory (nvcc -Xptxas -v); add the dynamic.",
        [
            {
                "name": "compute_capability",
                "label": "Compute capability",
                "kind": "choice",
                "value": compute_capability,
                "choices": capabilities,
            },
            *(
                {
                    "name": name,
                    "label": labels[name],
                    "kind": "whole",
                    "value": first[name],
                    "least": least,
                    "most": most,
                }
                for name, (least, most) in limits.items()
            ),
            {
                "name": "shared_opt_in",
                "label": "opted in to more than 48 KiB",
                "kind": "switch",
                "value": bool(shared_opt_in),
            },
        ],
        run,
    )
    return player


#: Where a pattern of the reader's own may point, and what each is counted in.
OWN_MEMORIES = {"global": "global memory: sectors of 32 bytes", "shared": "shared memory: 32 banks"}


@names_keywords
def own_access(
    pattern: str = "8 * lane",
    element_bytes: int = 4,
    *,
    memory: str = "global",
    task: str | None = None,
) -> AccessPlayer:
    """Let the reader type or paint the addresses of a warp's 32 lanes, and see what the request costs.

    The scene opens with the pattern given here, after the same access of lanes side by side. When the reader
    presses Run, the kernel reads the pattern (`simt.pattern`), counts it (`simt.sectors`, `simt.wavefronts`)
    and replaces the requests shown; what cannot be read is said in one sentence at its field. On a page
    without a kernel the fields are switched off and say so.

    Parameters
    ----------
    pattern : str
        Byte addresses at first: an expression of `lane`, or 32 numbers with commas, ``-`` for a lane that is
        off.
    element_bytes : int
        Bytes each lane asks for at first: 1, 2, 4, 8 or 16.
    memory : str
        ``"global"`` or ``"shared"`` at first.
    task : str, optional
        What the reader is asked to do; left out, the scene's own task.

    Returns
    -------
    AccessPlayer
        Shows itself as the last line of a cell.

    Raises
    ------
    ValueError
        For a pattern that cannot be read or is not aligned, another size or another memory.

    Examples
    --------
    >>> from pulsewarp import lesson
    >>> lesson.own_access("128 * lane", memory="shared")
    AccessPlayer(banks, 2 requests of 1, 32, 35 steps)
    """
    memory = _checks.choice("memory", memory, OWN_MEMORIES)
    pattern = instance("pattern", pattern, str, "write an expression such as '8 * lane'")

    def requests(text: str, size: int, where: str) -> dict[str, Any]:
        count = simt.sectors if where == "global" else simt.wavefronts
        addresses = _typed_addresses(text)
        short = " ".join(text.split())
        name = short if "lane" in short and len(short) <= 30 else "your pattern"
        beside = [size * lane for lane in range(simt.LANES)]
        return {"lanes side by side": count(beside, size), name: count(addresses, size)}

    def run(values: Mapping[str, Any]) -> Mapping[str, Any]:
        size = _typed_whole("element_bytes", values.get("element_bytes"), 16)
        try:
            given = requests(str(values.get("pattern")), size, str(values.get("memory")))
            player.show(given)
        except ValueError as error:
            return {"error": str(error), "field": "pattern"}
        own = list(given.values())[-1]
        if isinstance(own, simt.Access):
            share = (
                "" if own.efficiency is None else f", {100 * own.efficiency:.4g} % of their bytes asked for"
            )
            return {"done": f"Now shown: {counted(own.sectors, 'sector')}{share}."}
        return {
            "done": f"Now shown: {counted(own.wavefronts, 'wavefront')} in {counted(own.phases, 'phase')}."
        }

    player = AccessPlayer(requests(pattern, element_bytes, memory), task=task)
    sizes = [[str(size), counted(size, "byte")] for size in (1, 2, 4, 8, 16)]
    player.offer(
        "Your own pattern",
        "The byte address of each lane, as an expression of lane (0 to 31), such as 4 * (lane ^ 1) or "
        "128 * lane if lane < 8 else None (None: the lane is off); or 32 numbers with commas, - for off.",
        [
            {
                "name": "pattern",
                "label": "Byte address",
                "kind": "lanes",
                "value": pattern,
                "scale": "element_bytes",
            },
            {
                "name": "element_bytes",
                "label": "Each lane asks for",
                "kind": "choice",
                "value": str(element_bytes),
                "choices": sizes,
            },
            {
                "name": "memory",
                "label": "In",
                "kind": "choice",
                "value": memory,
                "choices": [list(pair) for pair in OWN_MEMORIES.items()],
            },
        ],
        run,
    )
    return player


def _dataflow_field(dataflow: str) -> dict[str, Any]:
    choices = [[key, flow.title] for key, flow in systolic.DATAFLOWS.items()]
    return {"name": "dataflow", "label": "Dataflow", "kind": "choice", "value": dataflow, "choices": choices}


def _typed(matrix: NDArray[Any]) -> str:
    """Return a matrix as a reader would type it."""
    return "\n".join(" ".join(map(str, row)) for row in matrix.tolist())


def _typed_whole(name: str, text: object, most: int, *, least: int = 1) -> int:
    """Return the whole number that was typed into a field."""
    label = {"rows": "Array rows", "cols": "Array columns"}.get(
        name, name.upper() if len(name) == 1 else name
    )
    digits = str(text).strip()
    number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else digits
    return _checks.whole_number(label, number, least=least, most=most)


def _typed_addresses(text: str) -> tuple[int | None, ...]:
    """Return the addresses that were typed or painted: an expression of lane, or a list of 32."""
    parts = [part.strip() for part in text.strip().strip("[]()").split(",")]
    if len(parts) == 1:
        return simt.pattern(text)
    wrong = [part for part in parts if not (part in ("-", "None") or (part.isascii() and part.isdigit()))]
    if wrong:
        raise ValueError(
            f"The list holds {_short(wrong[0])}, but its parts must be whole numbers, or - for a lane that "
            f"is off; write an expression of lane without commas, or 32 numbers."
        )
    return simt.pattern([None if part in ("-", "None") else int(part[:20]) for part in parts])


def _held_in(dtype: str, name: str, matrix: NDArray[Any]) -> NDArray[Any]:
    """Return the matrix in a dtype: floats rounded to it, whole numbers only where they fit."""
    if dtype == "as typed":
        return matrix
    if dtype == "bfloat16":
        from ml_dtypes import bfloat16  # imported here: a notebook without own numbers does without it

        held: NDArray[Any] = matrix.astype(bfloat16)
    elif not dtype.startswith("int"):
        with np.errstate(over="ignore"):
            held = matrix.astype(dtype)
    else:
        limits = np.iinfo(dtype)
        off = np.argwhere((matrix != np.trunc(matrix)) | (matrix < limits.min) | (matrix > limits.max))
        if off.size:
            row, col = (int(i) for i in off[0])
            raise ValueError(
                f"{name}[{row},{col}] is {matrix[row, col]}, but {dtype} holds whole numbers from "
                f"{limits.min} to {limits.max}; change it."
            )
        return matrix.astype(dtype)
    far = np.argwhere(~np.isfinite(held.astype(np.float64)))
    if far.size:
        row, col = (int(i) for i in far[0])
        raise ValueError(
            f"{name}[{row},{col}] is {matrix[row, col]}, beyond what {dtype} holds; write a smaller one."
        )
    return held


def _skips() -> bool:
    return _skip_all or _switch("PULSEWARP_SKIP")


def _switch(name: str) -> bool:
    return os.environ.get(name, "0") not in ("", "0")


def _plain(value: object) -> Any:
    """Return a numpy scalar as the Python value it holds; its repr differs between numpy 1 and 2."""
    return value.item() if isinstance(value, np.generic) else value


def _same(choice: object, value: object) -> bool:
    """Tell whether a computed value is this choice; 2.0 is the choice 2, but True is not the choice 1."""
    if isinstance(choice, (int, float)) and isinstance(value, (int, float)):
        kinds_agree = isinstance(choice, bool) == isinstance(value, bool)
        return kinds_agree and math.isclose(choice, value, rel_tol=1e-9)
    return type(choice) is type(value) and bool(choice == value)


def _label(value: object) -> str:
    return value if isinstance(value, str) else repr(value)


def _number(value: object, name: str) -> int | float:
    """Return `value` as a finite int or float; otherwise raise a ValueError."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return value
    raise ValueError(
        f"The {name} is {value!r}, but must be a finite number; give choices=... for other answers."
    )


def _short(value: object) -> str:
    text = " ".join(repr(_plain(value)).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
