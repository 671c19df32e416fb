"""Real measurement: which device is here, how long a product takes on it, and runs kept as data.

``devices``, ``time_matmul`` and ``sweep`` need JAX and load it when called. Everything else, the
recorded runs included, works without it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pulsewarp.bench import shapes
    from pulsewarp.bench.card import DeviceCard, Problem
    from pulsewarp.bench.gaps import Gap, GapPart, Gaps, explain, explain_all
    from pulsewarp.bench.kernel_measurement import KernelMeasurement
    from pulsewarp.bench.live import default_sizes, devices, sweep, time_matmul
    from pulsewarp.bench.measurement import (
        MeasuredDevice,
        Measurement,
        Timed,
        load,
        recorded,
        recordings,
        save,
    )

__all__ = [
    "DeviceCard",
    "Gap",
    "GapPart",
    "Gaps",
    "KernelMeasurement",
    "MeasuredDevice",
    "Measurement",
    "Problem",
    "Timed",
    "default_sizes",
    "devices",
    "explain",
    "explain_all",
    "load",
    "recorded",
    "recordings",
    "save",
    "shapes",
    "sweep",
    "time_matmul",
]

_HOMES = {
    "card": ("DeviceCard", "Problem"),
    "gaps": ("Gap", "GapPart", "Gaps", "explain", "explain_all"),
    "kernel_measurement": ("KernelMeasurement",),
    "live": ("default_sizes", "devices", "sweep", "time_matmul"),
    "measurement": ("MeasuredDevice", "Measurement", "Timed", "load", "recorded", "recordings", "save"),
}


_MODULES = ("shapes",)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
