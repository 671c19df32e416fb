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
    from pulsewarp.bench.collectives import Collective
    from pulsewarp.bench.comparison import ComparedRow, Comparison, compare
    from pulsewarp.bench.energy import Energy, NotMeasurable, measure_energy
    from pulsewarp.bench.gaps import Gap, GapPart, Gaps, explain, explain_all
    from pulsewarp.bench.hlo import Program, read_program
    from pulsewarp.bench.kernel_list import Kernel, kernels
    from pulsewarp.bench.kernel_measurement import KernelMeasurement
    from pulsewarp.bench.live import (
        compiled,
        default_sizes,
        devices,
        inspect_matmul,
        profile,
        scaling,
        several_devices,
        sweep,
        time_kernel,
        time_kernels,
        time_matmul,
        time_sharded,
    )
    from pulsewarp.bench.live._interrupts import InterruptedWarning
    from pulsewarp.bench.live.ceilings import bandwidth, ceilings
    from pulsewarp.bench.live.energy import energy_of_matmul
    from pulsewarp.bench.measured_ceilings import Ceilings
    from pulsewarp.bench.measurement import (
        MeasuredDevice,
        Measurement,
        Timed,
        load,
        recorded,
        recordings,
        save,
    )
    from pulsewarp.bench.program import CompiledProgram
    from pulsewarp.bench.sharded_measurement import ShardedMeasurement
    from pulsewarp.bench.split_bounds import SplitBound, split_bound
    from pulsewarp.bench.timeline import Timeline, read_timeline

__all__ = [
    "Ceilings",
    "Collective",
    "ComparedRow",
    "Comparison",
    "CompiledProgram",
    "DeviceCard",
    "Energy",
    "Gap",
    "GapPart",
    "Gaps",
    "InterruptedWarning",
    "Kernel",
    "KernelMeasurement",
    "MeasuredDevice",
    "Measurement",
    "NotMeasurable",
    "Problem",
    "Program",
    "ShardedMeasurement",
    "SplitBound",
    "Timed",
    "Timeline",
    "bandwidth",
    "ceilings",
    "compare",
    "compiled",
    "default_sizes",
    "devices",
    "energy_of_matmul",
    "explain",
    "explain_all",
    "inspect_matmul",
    "kernels",
    "load",
    "measure_energy",
    "profile",
    "read_program",
    "read_timeline",
    "recorded",
    "recordings",
    "save",
    "scaling",
    "several_devices",
    "shapes",
    "split_bound",
    "sweep",
    "time_kernel",
    "time_kernels",
    "time_matmul",
    "time_sharded",
]

_HOMES = {
    "collectives": ("Collective",),
    "card": ("DeviceCard", "Problem"),
    "energy": ("Energy", "NotMeasurable", "measure_energy"),
    "comparison": ("ComparedRow", "Comparison", "compare"),
    "gaps": ("Gap", "GapPart", "Gaps", "explain", "explain_all"),
    "kernel_list": ("Kernel", "kernels"),
    "kernel_measurement": ("KernelMeasurement",),
    "hlo": ("Program", "read_program"),
    "live": (
        "compiled",
        "default_sizes",
        "devices",
        "inspect_matmul",
        "profile",
        "scaling",
        "several_devices",
        "sweep",
        "time_kernel",
        "time_kernels",
        "time_matmul",
        "time_sharded",
    ),
    "live._interrupts": ("InterruptedWarning",),
    "live.ceilings": ("bandwidth", "ceilings"),
    "live.energy": ("energy_of_matmul",),
    "measured_ceilings": ("Ceilings",),
    "measurement": ("MeasuredDevice", "Measurement", "Timed", "load", "recorded", "recordings", "save"),
    "program": ("CompiledProgram",),
    "sharded_measurement": ("ShardedMeasurement",),
    "split_bounds": ("SplitBound", "split_bound"),
    "timeline": ("Timeline", "read_timeline"),
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
