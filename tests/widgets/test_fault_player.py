"""What the fault player sends is how the two traces differ, and a hidden fault stays hidden."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsewarp import systolic
from pulsewarp.systolic import REGISTERS
from pulsewarp.widgets import _wire, fault
from pulsewarp.widgets.fault import FaultPlayer, compare_runs

Trace = systolic.SystolicTrace
RNG = np.random.default_rng(7)
A, B = RNG.integers(-9, 10, (4, 4)), RNG.integers(-9, 10, (4, 4))


def runs(
    kind: str, *, dataflow: str = "ws", rows: int = 4, cols: int = 4, **cell: int
) -> tuple[Trace, Trace]:
    broken = systolic.Fault(kind, **cell)
    return (
        systolic.simulate(A, B, rows=rows, cols=cols, dataflow=dataflow),
        systolic.simulate(A, B, rows=rows, cols=cols, dataflow=dataflow, fault=broken),
    )


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Trace, Trace]:
    """A product on a sound machine and on one with any fault that can matter there."""
    m, k, n, rows, cols = (draw(st.integers(1, 5)) for _ in range(5))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    a, b = rng.integers(-9, 9, (m, k)), rng.integers(-9, 9, (k, n))
    flow = draw(st.sampled_from(["ws", "os", "is"]))
    kind = draw(st.sampled_from(sorted(systolic.FAULTS)))
    cell = {"row": 0, "col": 0} if kind == "stuck_cell" else {}
    try:
        broken = systolic.simulate(
            a, b, rows=rows, cols=cols, dataflow=flow, fault=systolic.Fault(kind, **cell)
        )
    except ValueError:  # it would change nothing here
        broken = systolic.simulate(
            a, b, rows=rows, cols=cols, dataflow=flow, fault=systolic.Fault("late_by_one")
        )
    return systolic.simulate(a, b, rows=rows, cols=cols, dataflow=flow), broken


def held(trace: Trace, t: int, register: str, r: int, c: int) -> tuple[int, float]:
    """What a register holds: its element (-1: none) and value; nothing once the run has ended."""
    if t >= trace.cycles:
        return -1, 0
    frame = trace.registers(t)
    return int(getattr(frame, f"{register}_index")[r, c]), getattr(frame, register)[r, c].item()


def wrong_columns(text: str, sound: Trace, broken: Trace) -> list[str]:
    """Name what a packed pair says that the two traces do not; computed register by register."""
    header, columns = _wire.unpack(text)
    wrong = []
    for name, trace in (("sound", sound), ("broken", broken)):
        for column in (
            "held",
            "right",
            "down",
            "held_index",
            "right_index",
            "down_index",
            "active",
            "result",
        ):
            if not np.array_equal(columns[f"{name}.{column}"], getattr(trace, column)):
                wrong.append(f"{name}.{column}")
    cycles = max(sound.cycles, broken.cycles)
    counts = np.zeros(cycles, int)
    first = -1
    for t, r, c in np.ndindex(cycles, sound.rows, sound.cols):
        bits = sum(
            1 << i
            for i, register in enumerate(REGISTERS)
            if held(sound, t, register, r, c) != held(broken, t, register, r, c)
        )
        counts[t] += bits.bit_count()
        works = [bool(run.active[t, r, c]) if t < run.cycles else False for run in (sound, broken)]
        bits |= 8 * (works[0] != works[1])
        if bits and first < 0:
            first = t
        if columns["differ"][t, r, c] != bits:
            wrong.append(f"differ[{t}, {r}, {c}]")
    if header["first"] != first:
        wrong.append("first")
    if not np.array_equal(columns["differing"], counts):
        wrong.append("differing")
    bad = sound.result != broken.result
    if not np.array_equal(columns["wrong"], bad):
        wrong.append("wrong")
    told = np.full(bad.shape, -1)
    for trace in (sound, broken):  # the broken machine's own last exit counts, where there is one
        for t, _, m, n, final in trace.exits().tolist():
            if final:
                told[m, n] = t
    if not np.array_equal(columns["told"], told):
        wrong.append("told")
    if header["first_wrong"] != (int(told[bad].min()) if bad.any() else -1):
        wrong.append("first_wrong")
    so_far = [int((bad & (told <= t)).sum()) for t in range(cycles)]
    if columns["wrong_so_far"].tolist() != so_far:
        wrong.append("wrong_so_far")
    return wrong


@pytest.mark.exhaustive
@settings(max_examples=40)
@given(pairs())
def test_what_is_sent_is_how_the_traces_differ(pair: tuple[Trace, Trace]) -> None:
    player = FaultPlayer(*pair)
    assert wrong_columns(player.trace, *pair) == []
    header, _ = _wire.unpack(player.trace)
    if header["first"] >= 0 or header["first_wrong"] >= 0:
        assert player.cursor == min(t for t in (header["first"], header["first_wrong"]) if t >= 0)
    assert len(player.trace) < 60_000


@pytest.mark.exhaustive
@settings(max_examples=20)
@given(pairs())
def test_the_machines_own_check_of_a_frame_counts_the_same(pair: tuple[Trace, Trace]) -> None:
    """Two ways to one number: against the sound trace, and against what the schedule demands."""
    _, columns = _wire.unpack(FaultPlayer(*pair).trace)
    for t in range(min(run.cycles for run in pair)):
        says = next(check.says for check in pair[1].verify(cycle=t).checks if check.name == "frame")
        holds, every = map(int, re.findall(r"(\d+) of (\d+) registers hold", says)[0])
        assert every - holds == columns["differing"][t], says


def swap(kind: str, header: Any, machines: Any, shared: Any) -> str:
    machines = {"sound": machines["broken"], "broken": machines["sound"]}
    return HONEST_PACK(kind, header, machines, shared)


def mark_nothing(sound: Trace, broken: Trace) -> np.ndarray:
    return np.zeros_like(HONEST_COMPARISON(sound, broken))


def one_cycle_late(sound: Trace, broken: Trace) -> np.ndarray:
    return np.roll(HONEST_COMPARISON(sound, broken), 1, axis=0)


HONEST_PACK, HONEST_COMPARISON = fault.pack_runs, fault.compare_registers


@pytest.mark.parametrize(
    ("name", "faulty"),
    [
        ("pack_runs", swap),
        ("compare_registers", mark_nothing),
        ("compare_registers", one_cycle_late),
    ],
    ids=["machines swapped", "nothing marked", "marks a cycle late"],
)
def test_a_fault_in_the_player_itself_is_seen(
    name: str, faulty: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = runs("no_skew")
    monkeypatch.setattr(fault, name, faulty)
    assert wrong_columns(FaultPlayer(*pair).trace, *pair) != []


def test_the_machines_cannot_be_given_in_the_wrong_order() -> None:
    sound, broken = runs("no_skew")
    with pytest.raises(ValueError, match="sound has the fault 'no_skew'"):
        FaultPlayer(broken, sound)


@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
def test_the_puzzle_travels_whole(dataflow: str) -> None:
    sound, broken = runs("stuck_cell", dataflow=dataflow, rows=3, cols=4, row=1, col=2)
    player = FaultPlayer(sound, broken, hide_fault=True)
    header, _ = _wire.unpack(player.trace)
    found = systolic.suspects(sound, broken)
    puzzle = header["puzzle"]
    assert [tuple(cell) for cell in puzzle["fits"]] == list(found.cells) == [(1, 2)]
    assert [tuple(cell) for cell in puzzle["near"]] == list(found.clues[0].cells)
    assert puzzle["verdicts"] == [found.verdict(r, c) for r, c in np.ndindex(3, 4)]
    assert (header["fault"]["row"], header["fault"]["col"]) == (1, 2)


def test_a_hidden_fault_is_named_nowhere_a_reader_looks() -> None:
    sound, broken = runs("stuck_cell", row=1, col=2)
    player = FaultPlayer(sound, broken, hide_fault=True)
    header, columns = _wire.unpack(player.trace)
    seen = [repr(player), str(player.options), header["python"]]
    assert not any(re.search(r"1, 2\)|row=1|col=2|\(1,2\)", text) for text in seen)
    assert repr(player) == "FaultPlayer(hidden fault, ws, 4x4 cells, 14 cycles)"
    # The first frame shows every wrong result; no check of the broken machine is offered.
    assert player.cursor == columns["told"][columns["wrong"] == 1].max()
    assert all(not name.startswith("broken") for name, *_ in player._report())


def test_a_hidden_faults_line_of_python_tries_a_guess() -> None:
    sound, broken = runs("stuck_cell", row=1, col=2)
    line = _wire.unpack(FaultPlayer(sound, broken, hide_fault=True).trace)[0]["python"]
    scope: dict[str, Any] = {}
    exec(line.replace("row=0, col=0", "row=1, col=2"), scope)
    assert scope["broken"].result.tolist() == broken.result.tolist()
    exec(line, scope)
    assert scope["broken"].result.tolist() != broken.result.tolist()


@pytest.mark.parametrize(("kind", "cell"), [("no_skew", {}), ("stuck_cell", {"row": 3, "col": 0})])
def test_python_line_makes_both_runs_again(kind: str, cell: dict[str, int]) -> None:
    sound, broken = runs(kind, **cell)
    line = _wire.unpack(FaultPlayer(sound, broken).trace)[0]["python"]
    assert "\n" not in line
    scope: dict[str, Any] = {}
    exec(line.replace("widgets.FaultPlayer(", "again = ("), scope)
    assert [run.result.tolist() for run in scope["again"]] == [sound.result.tolist(), broken.result.tolist()]
    assert scope["broken"].fault == broken.fault


def test_python_hears_what_was_picked() -> None:
    player = FaultPlayer(*runs("stuck_cell", row=1, col=2), hide_fault=True)
    assert player.picked is None
    for selected, picked in [([0, 1], None), ([0, 1, 1], (0, 1)), ([1, 2, 2], None), ([1, 2, 1], (1, 2))]:
        player.selected = selected
        assert player.picked == picked


def test_start_rate_title_and_task_reach_the_browser() -> None:
    player = FaultPlayer(*runs("no_skew"), start=2, rate=4, title="Mine", task="Look.")
    options = {key: player.options[key] for key in ("rate", "title", "task")}
    assert player.cursor == 2 and options == {"rate": 4.0, "title": "Mine", "task": "Look."}
    assert FaultPlayer(*runs("no_skew")).options["task"].startswith("step on and say")


LARGE = np.ones((9, 9), int)
TALL = np.ones((17, 2), int)


def large(a: np.ndarray, b: np.ndarray, side: int, trace: bool = True) -> FaultPlayer:
    sound = systolic.simulate(a, b, rows=side, cols=side, trace=trace)
    return FaultPlayer(
        sound,
        systolic.simulate(a, b, rows=side, cols=side, trace=trace, fault=systolic.Fault("late_by_one")),
    )


def overlapping() -> FaultPlayer:
    late = systolic.Fault("late_by_one")
    machines = [systolic.simulate(A, B, rows=2, cols=2, overlap=True, fault=fault) for fault in (None, late)]
    return FaultPlayer(*machines)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: FaultPlayer(*[runs("no_skew")[0]] * 2), "broken has no fault; simulate it with fault="),
        (lambda: FaultPlayer(*runs("no_skew"), hide_fault=True), "hide_fault needs a fault in one cell"),
        (lambda: FaultPlayer(*runs("no_skew"), start=99), "start is 99.*at most 13"),
        (lambda: FaultPlayer(*runs("no_skew"), rate=0.0), "rate is 0.0"),
        (lambda: overlapping(), "overlapping folds.*overlap=False"),
        (lambda: large(LARGE, LARGE, 9), "9 x 9 cells, but values are shown for at most 8 x 8"),
        (
            lambda: large(TALL, TALL[:2], 2),
            "result is 17 x 2, but results are shown one by one for at most 16",
        ),
        (lambda: large(TALL[:2], TALL[:2], 2, trace=False), "does not keep its registers.*trace=True"),
    ],
)
def test_what_cannot_be_shown_is_refused(call: Callable[[], object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call()


@pytest.mark.wrong_type
def test_hide_fault_is_a_truth_value() -> None:
    with pytest.raises(TypeError, match="hide_fault is 'yes'"):
        FaultPlayer(*runs("stuck_cell", row=0, col=0), hide_fault="yes")


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")  # the point of the test
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_two_nan_are_alike() -> None:
    big = np.full((2, 2), 3e38, np.float32)
    sound = systolic.simulate(big, np.array([[2, 2], [-2, -2]], np.float32), rows=2, cols=2)
    assert np.isnan(sound.result).all()
    header, shared = compare_runs(sound, replace(sound, fault=systolic.Fault("no_skew")), hide_fault=False)
    assert header["first"] == -1 and not shared["wrong"].any()
