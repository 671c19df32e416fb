"""What was typed into a scene's fields, read or refused in one sentence."""

from __future__ import annotations

from pulsewarp import _checks


def typed_whole(name: str, text: object, most: int, *, least: int = 1) -> int:
    """Return the whole number that was typed into a field."""
    label = {"rows": "Array rows", "cols": "Array columns"}.get(
        name, name.upper() if len(name) == 1 else name
    )
    digits = str(text).strip()
    number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else digits
    return _checks.whole_number(label, number, least=least, most=most)
