"""Decisions that people really took or experts advised: to be predicted, then held against the guide."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from pulsewarp import guide
from pulsewarp._checks import choice, names_keywords
from pulsewarp.lesson.prediction import Prediction, predict


@dataclass(frozen=True)
class Decision:
    """A decision with its workload, what came of it, and where one can read about it.

    Attributes
    ----------
    name : str
        What it is called here; nobody else's name is kept.
    told : str
        The case in a sentence.
    workload : guide.Workload
        The case in the guide's words.
    outcome : str
        What people decided or experts advised: one of `guide.VERDICTS`.
    how : str
        How the outcome is known, such as "actual-choice" or "maintainer-advice".
    why, contested, flips_if : str
        Their reason, what speaks against it, and what would have changed it, as noted down when it was read.
    date, address : str
        When, and where it was read.

    Examples
    --------
    >>> from pulsewarp import lesson
    >>> room = lesson.decision("own_room")
    >>> room.outcome, room.advice.verdict
    ('gpu', 'gpu')
    """

    name: str
    told: str
    workload: guide.Workload = field(repr=False)
    outcome: str = field(repr=False)
    how: str = field(repr=False)
    why: str = field(repr=False)
    contested: str = field(repr=False)
    flips_if: str = field(repr=False)
    date: str = field(repr=False)
    address: str = field(repr=False)

    @functools.cached_property
    def advice(self) -> guide.Advice:
        """What the guide says of the same workload."""
        return guide.advise(self.workload)

    def ask(self) -> Prediction:
        """Ask for the outcome before it is shown; the guide's own verdict stands beside it afterwards."""
        return predict(
            f"{self.told} Which chip?",
            choices=list(guide.VERDICTS),
            answer=lambda: self.outcome,
            explain=lambda _: self.explain(),
        )

    def explain(self) -> str:
        """Return what people decided and why, what the guide says, and where it can be read."""
        agrees = "the same" if self.advice.verdict == self.outcome else "something else: one of its misses"
        return "\n\n".join(
            (
                f"How it is known: {self.how.replace('-', ' ')}, {self.date}. Why: {self.why}. "
                f"Contested: {self.contested}. It would have turned if: {self.flips_if}.",
                f"The guide says {agrees}. {self.advice.summary}",
                f"Read at {self.address}",
            )
        )


@functools.cache
def _decisions() -> Mapping[str, Decision]:
    text = resources.files("pulsewarp.lesson").joinpath("data/decisions.json").read_text("utf-8")
    return {row["name"]: _decision(row) for row in json.loads(text)["decisions"]}


def _decision(row: Mapping[str, Any]) -> Decision:
    texts = {name: value for name, value in row.items() if name not in ("id", "workload")}
    return Decision(workload=guide.Workload(**row["workload"]), **texts)


def decisions() -> tuple[Decision, ...]:
    """Return the decisions, in the order in which the lesson asks for them.

    Examples
    --------
    >>> from pulsewarp import lesson
    >>> [each.name for each in lesson.decisions()][:2]
    ['own_room', 'ads_ranking']
    """
    return tuple(_decisions().values())


@names_keywords
def decision(name: str) -> Decision:
    """Return one decision by its name.

    Parameters
    ----------
    name : str
        One of the names of :func:`decisions`.

    Returns
    -------
    Decision
        With `.ask()` for the question and `.advice` for the guide's view.

    Raises
    ------
    ValueError
        For an unknown name; tells the nearest.

    Examples
    --------
    >>> from pulsewarp import lesson
    >>> lesson.decision("physics_engine").outcome
    'neither'
    """
    return _decisions()[choice("name", name, list(_decisions()))]
