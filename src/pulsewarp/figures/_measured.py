"""Chips and measured products, as every figure that draws them takes, groups, marks and tells them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pulsewarp import chips
from pulsewarp._checks import instance, several
from pulsewarp.bench.measurement import Measurement, with_prefix
from pulsewarp.chips import Chip
from pulsewarp.figures._style import INK, wrapped


def several_chips(given: str | Chip | Iterable[str | Chip]) -> tuple[Chip, ...]:
    remedy = "give a catalogue id such as 'tpu_v5e', or several"
    listed = (given,) if isinstance(given, str | Chip) else several("chip_ids", given, remedy)
    return tuple(
        chips.get(each) if isinstance(each, str) else instance("A chip", each, Chip, remedy)
        for each in listed
    )


def several_runs(given: Iterable[Measurement]) -> tuple[Measurement, ...]:
    remedy = "pass a list of what bench.time_matmul, bench.sweep or bench.recorded returned"
    listed = several("measurements", given, remedy)
    return tuple(instance("A measurement", each, Measurement, remedy) for each in listed)


def rate_unit(dtype: str) -> str:
    return "OP/s" if dtype.startswith("int") else "FLOP/s"


def groups_of(runs: Sequence[Measurement]) -> list[list[Measurement]]:
    """Collect measurements that share a mark, in order of appearance: only their products differ."""
    groups: dict[tuple[str, ...], list[Measurement]] = {}
    for run in runs:
        key = (run.device.label, run.origin, run.clock, run.matmul.dtype, run.precision)
        groups.setdefault(key, []).append(run)
    return list(groups.values())


def group_name(runs: Sequence[Measurement]) -> str:
    first = runs[0]
    days = sorted({run.when[:10] for run in runs})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return (
        f"{first.device.label}<br>{first.origin} {when}, {first.clock} clock<br>"
        f"{first.matmul.dtype} at precision {first.precision}"
    )


def mark_of(run: Measurement, mark: str) -> dict[str, object]:
    symbol = mark if run.origin == "live" else f"{mark}-open"
    return {"symbol": symbol, "size": 9, "color": INK, "line": {"width": 1.5, "color": INK}}


def run_in_words(run: Measurement) -> str:
    low, high = run.quartiles
    return wrapped(
        [
            f"{shape_of(run)} in {run.matmul.dtype} on {run.device.label}",
            f"{with_prefix(run.flops_per_second, rate_unit(run.matmul.dtype))}, {run.clock} clock",
            f"median {with_prefix(run.median, 's')}",
            f"quartiles {with_prefix(low, 's')} to {with_prefix(high, 's')}",
            f"precision {run.precision}, relative error {run.relative_error:.1e}",
            f"{run.origin} {run.when[:10]}",
            *run.notes,
        ]
    )


def shape_of(run: Measurement) -> str:
    return f"{run.matmul.m} x {run.matmul.k} x {run.matmul.n}"
