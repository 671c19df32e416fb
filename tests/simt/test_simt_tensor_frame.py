"""A cycle of a tiled run counted again: cycles of sound runs hold, what is moved or spoiled is found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pulsewarp import simt
from pulsewarp._arrays import freeze

pytestmark = pytest.mark.exhaustive

A = np.arange(32 * 48).reshape(32, 48) % 9 - 4
B = np.arange(48 * 16).reshape(48, 16) % 7 - 3


def run(make: Any = simt.tensor_kernel, **settings: Any) -> simt.TiledTrace:
    given: dict[str, Any] = {"tile": (32, 16, 16), "load": "LDG.L2", **settings}
    trace: simt.TiledTrace = make(A, B, **given).simulate()
    return trace


def wrong_cycles(trace: simt.TiledTrace, step: int = 1) -> list[int]:
    return [t for t in range(0, trace.cycles, step) if not trace.verify(cycle=t).checks[-1].passed]


@pytest.mark.parametrize(
    "settings",
    [
        {"stages": 1},
        {"stages": 3, "dtype": "bf16"},
        {"stages": 2, "copies": "through registers"},
        {"stages": 2, "dtype": "int8", "tile": (32, 16, 32)},
        {"stages": 2, "make": simt.ffma_kernel},
        {"stages": 2, "tile": (32, 8, 16), "warps": (2, 1)},
    ],
    ids=["one stage", "three", "through registers", "int8", "FFMA", "two blocks"],
)
def test_every_cycle_of_a_run_is_what_its_issues_make_of_it(settings: dict[str, Any]) -> None:
    assert wrong_cycles(run(**settings), step=3) == []


@pytest.mark.parametrize(
    ("columns", "word"),
    [(("cycle", "free"), "units"), (("done",), "sums")],
    ids=["a unit held a cycle late", "sums a cycle late"],
)
def test_work_moved_by_a_cycle_is_found(columns: tuple[str, ...], word: str) -> None:
    trace = run()
    work = trace.work.copy()
    for name in columns:
        work[:, simt.WORK_COLUMNS.index(name)] += 1
    moved = replace(trace, work=freeze(work))
    found = wrong_cycles(moved)
    assert found
    for t in found:
        said = moved.verify(cycle=t).checks[-1].says.split(", ")
        assert next(part.split()[3] for part in said if not part.startswith("0 of")) == word


@pytest.mark.parametrize("name", ["copy", "landed", "ready", "read", "release"])
def test_a_stage_that_changes_a_cycle_late_is_found(name: str) -> None:
    trace = run(stages=3)
    fills = trace.fills.copy()
    column = simt.FILL_COLUMNS.index(name)
    room = np.flatnonzero(fills[:, column] + 1 < fills[:, column + 1])
    fills[room, column] += 1
    assert room.size
    assert wrong_cycles(replace(trace, fills=freeze(fills))) == sorted({*(fills[room, column] - 1).tolist()})


def test_a_spoiled_sum_is_found_from_when_it_can_be_read() -> None:
    trace = run()
    sums = trace.kernel.sums.copy()
    sums[1, 3, 5] += 1
    spoiled = replace(trace, kernel=replace(trace.kernel, sums=freeze(sums)))
    shown = [t for t in range(trace.cycles) if trace.progress_at(t)[0, 0] == 2]
    assert shown and wrong_cycles(spoiled) == shown


def test_the_tally_grows_to_the_counts_and_follows_the_issues() -> None:
    for trace in (run(stages=3), run(simt.ffma_kernel)):
        tally, counts = trace.tally(range(trace.cycles)), trace.counts
        issued = (trace.warp.issued >= 0).sum(axis=1)
        assert (np.diff(tally.instructions) == issued[1:]).all() and tally.cycles[0] == 1
        assert (np.diff(tally.held) == (trace.unit >= 0).sum(axis=1)[1:]).all()
        for t in trace.work[:, 0].tolist():
            assert tally.multiplies[t] == (trace.work[:, 0] <= t).sum()
        last = [tally.instructions[-1], tally.multiplies[-1], tally.multiply_adds[-1], tally.copied_bytes[-1]]
        assert last == [
            counts.instructions,
            counts.multiplies,
            counts.padded_multiply_adds,
            counts.copied_bytes,
        ]
        assert tally.utilization[-1] == pytest.approx(counts.utilization)
        beyond = trace.tally([trace.cycles + 5])
        assert beyond.cycles.tolist() == [trace.cycles] and repr(beyond) == repr(tally)
