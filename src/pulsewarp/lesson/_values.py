"""Values as sentences of a lesson show them."""

from __future__ import annotations

from typing import Any

import numpy as np


def plain(value: object) -> Any:
    """Return a numpy scalar as the Python value it holds; its repr differs between numpy 1 and 2."""
    return value.item() if isinstance(value, np.generic) else value


def short(value: object) -> str:
    text = " ".join(repr(plain(value)).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
