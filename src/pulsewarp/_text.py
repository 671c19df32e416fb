"""Words that several sentences share."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``"1 fold"``, ``"2 folds"``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
