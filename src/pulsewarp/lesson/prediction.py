"""Ask before showing: a question whose answer is computed when the reader asks for it.

An answer is never typed in beside its question: it is a function that runs the simulator (or the
measurement) when the reader asks, so a quiz cannot go stale while the model changes.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import traitlets

from pulsewarp._checks import instance, names_keywords, positive_number, several
from pulsewarp.lesson._values import plain
from pulsewarp.widgets.question import Question

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
        self._choices = tuple(plain(choice) for choice in choices)
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
            self.given = _label(plain(value))
        else:
            self.given = repr(_number(plain(value), "guess"))

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
            self._known = self._checked(plain(value))
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
    labels = [_label(plain(choice)) for choice in choices]
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


def _skips() -> bool:
    return _skip_all or _switch("PULSEWARP_SKIP")


def _switch(name: str) -> bool:
    return os.environ.get(name, "0") not in ("", "0")


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
