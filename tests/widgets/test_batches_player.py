"""The batches player counts the cells at work on each batch as the multiply-adds say, run after run."""

from __future__ import annotations

import dataclasses
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pulsewarp
from pulsewarp import ledger, systolic
from pulsewarp.systolic import SystolicTrace
from pulsewarp.widgets import _wire
from pulsewarp.widgets.batches import BatchesPlayer, Lane, busy_by_batch

WIDGETS = Path(pulsewarp.__file__).parent / "widgets"


def run(m: int, k: int = 4, n: int = 4, rows: int = 4, cols: int = 4, **options: Any) -> SystolicTrace:
    return systolic.simulate(np.ones((m, k)), np.ones((k, n)), rows=rows, cols=cols, **options)


@st.composite
def lanes(draw: st.DrawFn) -> Lane:
    """A lane of one to three runs on one array, its rows cut into batches anywhere."""
    rows, cols = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    shapes = draw(st.lists(st.tuples(*[st.integers(1, 6)] * 3), min_size=1, max_size=3))
    runs = tuple(run(m, k, n, rows, cols, overlap=draw(st.booleans())) for m, k, n in shapes)
    total = sum(each.m for each in runs)
    cuts = sorted(draw(st.sets(st.integers(1, max(1, total - 1)), max_size=4)) - {total})
    bounds = [0, *cuts, total]
    return Lane(runs, tuple(b - a for a, b in pairwise(bounds)))


def counted_from_macs(lane: Lane) -> np.ndarray[Any, Any]:
    """Count the multiply-adds of each cycle by the batch of their row of A: an exact oracle."""
    batch_of = np.repeat(np.arange(len(lane.batches)), lane.batches)
    wanted = np.zeros((lane.cycles, len(lane.batches)), int)
    origin = row0 = 0
    for each in lane.runs:
        for cycle, _, _, m, _, _ in each.macs().tolist():
            wanted[origin + cycle, batch_of[row0 + m]] += 1
        origin, row0 = origin + each.cycles, row0 + each.m
    return wanted


@given(lanes())
def test_cells_at_work_by_batch_are_the_multiply_adds_by_batch(lane: Lane) -> None:
    assert np.array_equal(busy_by_batch(lane), counted_from_macs(lane))


@given(lanes())
def test_batches_together_are_what_the_ledger_calls_busy(lane: Lane) -> None:
    busy = np.concatenate([ledger.systolic(each).busy for each in lane.runs])
    assert np.array_equal(busy_by_batch(lane).sum(axis=1), busy)


def test_a_cell_that_begins_a_cycle_late_is_seen() -> None:
    """A mutant of the schedule."""
    honest = run(6)
    start = honest.start.copy()
    start[0, 2, 1] += 1
    schedule = dataclasses.replace(honest.schedule, start=start)
    lane = Lane((dataclasses.replace(honest, kept_schedule=schedule),), (3, 3))
    assert not np.array_equal(busy_by_batch(lane), counted_from_macs(lane))


@given(lanes())
def test_what_crosses_is_the_runs_one_after_the_other(lane: Lane) -> None:
    header, columns = _wire.unpack(BatchesPlayer([list(lane.runs)], batches=[lane.batches]).trace)
    (own,) = header["lanes"]
    assert own["batches"] == list(lane.batches) and own["cycles"] == header["cycles"] == lane.cycles
    assert columns["0.macs"][-1] == sum(each.m * each.k * each.n for each in lane.runs)
    assert np.array_equal(np.diff(columns["0.macs"], prepend=0), columns["0.busy"].sum(axis=1))
    origins = np.cumsum([0, *(each.cycles for each in lane.runs)])
    for number, row0, _, _, rows, cols in own["folds"]:
        assert row0 == sum(each.m for each in lane.runs[:number])
        assert rows <= lane.runs[0].rows and cols <= lane.runs[0].cols
    start = columns["0.start"].reshape(len(own["folds"]), -1)
    for fold, (number, *_) in zip(start, own["folds"], strict=True):
        assert origins[number] <= fold[fold >= 0].min() and fold.max() < origins[number + 1]


def test_the_first_frame_has_two_batches_in_the_array() -> None:
    player = BatchesPlayer(run(12), batches=(4, 4, 4))
    _, columns = _wire.unpack(player.trace)
    assert (columns["0.busy"][player.cursor] > 0).sum() >= 2


def test_the_first_frame_of_one_batch_is_in_the_middle_of_its_fill() -> None:
    player = BatchesPlayer(run(8))
    _, columns = _wire.unpack(player.trace)
    assert 0 < columns["0.busy"][player.cursor].sum() < 16


def test_batch_1_against_batch_256_fits_the_wire_and_shows_the_cost() -> None:
    weights = np.ones((128, 128), np.int8)
    one, many = (systolic.simulate(np.ones((m, 128), np.int8), weights, rows=128, cols=128) for m in (1, 256))
    player = BatchesPlayer([one, many])
    assert len(player.trace) < 100_000
    assert repr(player) == (
        "BatchesPlayer(one batch of 1 row: 383 cycles; one batch of 256 rows: 638 cycles)"
    )


def test_back_to_back_takes_fewer_cycles_than_one_at_a_time() -> None:
    """What the scene is there to show: fill, drain and load are paid once."""
    together, apart = Lane((run(12),), (4, 4, 4)), Lane((run(4),) * 3, (4, 4, 4))
    assert (together.cycles, apart.cycles) == (22, 42)


def test_weights_loaded_meanwhile_leave_no_cell_idle_between_folds() -> None:
    """What overlapped loading is for: from the first fill to the last drain every cell works."""
    together, apart = (Lane((run(8, 8, 8, overlap=overlap),), (8,)) for overlap in (True, False))
    busy = busy_by_batch(together).sum(axis=1)
    full = np.flatnonzero(busy == 16)
    assert (together.cycles, apart.cycles) == (42, 72)
    assert np.array_equal(full, np.arange(full[0], full[-1] + 1)) and full.size == 26
    assert "loading overlapped" in together.name


def test_the_python_makes_the_runs_again() -> None:
    one, two = run(2), run(3)
    header, _ = _wire.unpack(BatchesPlayer([one, [one, two]], batches=[(1, 1), (2, 3)]).trace)
    scope: dict[str, Any] = {"BatchesPlayer": lambda *given, **named: (given, named)}
    exec(header["python"].replace("widgets.BatchesPlayer(", "again = BatchesPlayer("), scope)
    ((lanes_again,), named) = scope["again"]
    assert named == {"batches": [(1, 1), (2, 3)]}
    assert lanes_again[0] is lanes_again[1][0] and lanes_again[1][1].m == 3
    assert lanes_again[0].cycles == one.cycles
    header, _ = _wire.unpack(BatchesPlayer(two, batches=(1, 2)).trace)
    exec(header["python"].replace("widgets.BatchesPlayer(", "again = BatchesPlayer("), scope)
    ((again,), named) = scope["again"]
    assert again.m == 3 and named == {"batches": (1, 2)}


def test_the_python_tells_operands_too_large_to_write_apart() -> None:
    header, _ = _wire.unpack(BatchesPlayer([run(1, 16, 16), run(99, 16, 16)]).trace)
    assert header["python"].count("\n") == 0
    assert "run1 = systolic.simulate(a1, b1, rows=4, cols=4); widgets" in header["python"]
    assert "# a1: (99, 16) float64, b1: (16, 16) float64" in header["python"]


@pytest.mark.parametrize(
    ("given_runs", "batches", "says"),
    [
        (run(4, dataflow="os"), None, r"'os'.*dataflow='ws'"),
        (run(4), (1, 2), r"3 rows in all, but A has 4"),
        (run(4), (4, 0), r"a batch is 0.*at least 1"),
        ([run(4)], [(2, 2), (4,)], r"for 2 lanes, but there are 1"),
        ([run(1)] * 4, None, r"number of lanes is 4.*at most 3"),
        ([], None, r"number of lanes is 0"),
        ([[]], None, r"0 runs, but must hold at least 1"),
        ([[run(1), run(1, rows=2)]], None, r"4 x 4 and 2 x 4 cells.*lanes of their own"),
        (run(65), (1,) * 65, r"number of batches is 65.*at most 64.*more rows"),
        (run(2, trace=False), None, r"trace=True"),
        (run(2, fault=systolic.Fault("no_skew")), None, r"fault 'no_skew'.*FaultPlayer"),
    ],
)
def test_what_cannot_be_shown_is_refused(given_runs: Any, batches: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        BatchesPlayer(given_runs, batches=batches)


@pytest.mark.wrong_type
@pytest.mark.parametrize(
    ("given_runs", "batches", "says"),
    [
        (7, None, "runs is 7.*several things"),
        ([7], None, "a lane is 7.*several things"),
        ([[7]], None, "a run is 7.*SystolicTrace"),
        (run(4), 4, "batches is 4.*several things"),
    ],
)
def test_what_is_no_run_is_refused(given_runs: Any, batches: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        BatchesPlayer(given_runs, batches=batches)


# ------------------------------------------------------------------------------------------------ colours


def lab(colour: str) -> np.ndarray[Any, Any]:
    """Return a colour of six hexadecimal digits in CIELAB (white D65)."""
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    light = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(to_xyz @ light / np.array([0.9505, 1, 1.089]))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def colours(text: str, names: str) -> list[str]:
    return re.findall(rf"(?:{names}):? ?\"?(#[0-9a-f]{{6}})", text)


def too_near(batches: list[str], taken: list[str]) -> list[tuple[str, str]]:
    pairs = [(one, other) for one in batches for other in taken]
    pairs += [(one, other) for one in batches for other in batches if one < other]
    return [(one, other) for one, other in pairs if np.linalg.norm(lab(one) - lab(other)) < 20]


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_no_batch_has_the_colour_of_an_operand_or_of_a_wait(theme: int) -> None:
    own = (WIDGETS / "batches.css").read_text().splitlines()
    batches = colours([line for line in own if "--batch-0" in line][theme], "--batch-[0-3]")
    operands = colours((WIDGETS / "kit" / "kit.css").read_text(), "--blue|--violet|--orange|--green")
    waits = colours((WIDGETS / "kit" / "states.js").read_text(), "memory|unit|result|barrier")
    assert len(batches) == 4 and len(operands) >= 8 and len(waits) == 8
    taken = operands[4 * theme : 4 * theme + 4] + waits[4 * theme : 4 * theme + 4]
    assert too_near(batches, taken) == []
    assert too_near([*batches[:3], taken[0]], taken) != [], "the check can fail"


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_canvas_and_page_paint_a_batch_alike(theme: int) -> None:
    own = (WIDGETS / "batches.css").read_text().splitlines()
    page = colours([line for line in own if "--batch-0" in line][theme], "--batch-[0-3]")
    (tones,) = re.findall(
        rf"{('light', 'dark')[theme]}: {{ batches: \[(.*?)\]\]", (WIDGETS / "batches.js").read_text()
    )
    canvas = [tuple(map(int, tone.split(","))) for tone in tones.strip("[").split("], [")]
    assert canvas == [tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5)) for colour in page]
