"""Text that several parts write alike."""

from __future__ import annotations


def counted(number: int, noun: str, ending: str = "s") -> str:
    """Return a number with its noun: ``"1 fold"``, ``"2 folds"``, and with ``"es"`` ``"2 passes"``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}{ending}"


def script_safe(text: str) -> str:
    """Keep text from ending the script element it stands in; JavaScript and JSON read it the same."""
    return text.replace("</", "<\\/").replace("<!--", "<\\!--")
