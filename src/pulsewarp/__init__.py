"""Pulse & Warp: how a TPU and a GPU really differ, shown by simulators that carry real values.

Importing this package loads nothing but itself: submodules load when they are first named.
"""

from __future__ import annotations

import importlib
from types import ModuleType

__version__ = "0.1.0"

_SUBMODULES = [
    "bench",
    "chips",
    "figures",
    "guide",
    "ledger",
    "lesson",
    "matmul",
    "numerics",
    "roofline",
    "simt",
    "systolic",
    "widgets",
]


def __getattr__(name: str) -> ModuleType:
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_SUBMODULES])
