"""One question with choices or a number; what is computed for it stands beside what the reader said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import traitlets

from pulsewarp._checks import instance, names_keywords, positive_number, several
from pulsewarp.widgets._player import Scene


class Question(Scene):
    """Ask one question and show the answer that it is given; it knows none itself.

    :func:`pulsewarp.lesson.predict` makes these and computes the answer when `asked` becomes true. Nothing
    is timed or sent but these traits, so it works where messages do not.

    Synced traits: ``question``, ``choices``, ``unit``, ``within`` -> browser (what is asked, and the largest
    error factor that counts as right); ``given`` <-> (the reader's answer as text, empty before it);
    ``asked`` <-> (the reader wants the answer, with or without giving one); ``outcome`` -> browser
    (``answer`` as text, ``number`` or None, ``explanation``, ``problem``; empty until computed).

    Parameters
    ----------
    question : str
        The sentence shown; text between backquotes is set as code.
    choices : sequence of str
        What to choose from; empty when a number is asked for.
    unit : str
        Unit of the number, in words.
    within : float
        Largest error factor of a number that counts as right, at least 1.

    Examples
    --------
    >>> from pulsewarp import widgets
    >>> question = widgets.Question("How many lanes has a warp?", unit="lanes")
    >>> question
    Question('How many lanes has a warp?', unit='lanes')
    >>> question.given, question.asked
    ('', False)
    """

    _scene = "question.js"

    question = traitlets.Unicode().tag(sync=True)
    choices = traitlets.List(traitlets.Unicode()).tag(sync=True)
    unit = traitlets.Unicode().tag(sync=True)
    within = traitlets.Float(1.0).tag(sync=True)
    given = traitlets.Unicode().tag(sync=True)
    asked = traitlets.Bool(False).tag(sync=True)
    outcome = traitlets.Dict().tag(sync=True)

    @names_keywords
    def __init__(
        self, question: str, *, choices: Sequence[str] = (), unit: str = "", within: float = 1.0
    ) -> None:
        super().__init__(
            question=instance("question", question, str, "write a sentence"),
            choices=list(several("choices", choices, "leave it out to ask for a number")),
            unit=instance("unit", unit, str, "write it in words, such as 'cycles'"),
            within=positive_number("within", within),
        )

    def __repr__(self) -> str:
        parts = [repr(self.question)]
        if self.choices:
            parts.append(f"choices={list(self.choices)!r}")
        if self.unit:
            parts.append(f"unit={self.unit!r}")
        return f"{type(self).__name__}({', '.join(parts)})"

    def _page_state(self) -> dict[str, Any]:
        names = ("question", "choices", "unit", "within", "given", "asked", "outcome")
        return {**{name: getattr(self, name) for name in names}, "live": False}
