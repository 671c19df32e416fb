"""What the tiling player sends is what the cost counts, fold by fold and cycle by cycle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsewarp import systolic
from pulsewarp.widgets import TilingPlayer, _wire, tiling
from pulsewarp.widgets.tiling import pack_cost, telling_cycle

SIZE = st.integers(1, 12)


@st.composite
def costs(draw: st.DrawFn) -> systolic.GemmCost:
    m, k, n = (draw(SIZE) for _ in range(3))
    rows, cols = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    dataflow = draw(st.sampled_from(["ws", "os", "is"]))
    return systolic.gemm(m=m, k=k, n=n, rows=rows, cols=cols, dataflow=dataflow, overlap=draw(st.booleans()))


def added_up(header: dict[str, Any], columns: dict[str, np.ndarray], *, full: bool = False) -> np.ndarray:
    """Add the folds' profiles where they begin, as the browser does."""
    busy = np.zeros(header["cycles"] + len(columns["profile"]), np.int64)
    for _, begin, _, _, kind in columns["folds"].tolist():
        busy[begin : begin + len(columns["profile"])] += columns["profile"][:, 0 if full else kind]
    return busy[: header["cycles"]]


def differences(cost: systolic.GemmCost) -> list[str]:
    """Name what crossed and is not the cost's own."""
    header, columns = _wire.unpack(pack_cost(cost))
    cycles = np.arange(cost.cycles)
    folds = [
        (fold.start, fold.start + cost.load, fold.row0, fold.col0, fold.rows, fold.cols)
        for fold in cost.plan()
    ]
    sent = [
        (*line[:4], header["kinds"][line[4]]["rows"], header["kinds"][line[4]]["cols"])
        for line in columns["folds"].tolist()
    ]
    checks = {
        "folds": sent == folds,
        "profile": np.array_equal(added_up(header, columns), cost.busy(cycles)),
        "full": np.array_equal(added_up(header, columns, full=True), cost.padded.busy(cycles)),
        "curve": header["bin"] == 1 and np.array_equal(columns["curve"], cost.busy(cycles)),
        "useful": header["useful_cells"] / header["padded_cells"] == pytest.approx(cost.mapping_efficiency),
    }
    return [name for name, holds in checks.items() if not holds]


@given(costs())
def test_what_crosses_is_the_cost(cost: systolic.GemmCost) -> None:
    assert differences(cost) == []


@pytest.mark.parametrize("column", ["folds", "profile", "curve"])
def test_a_shifted_column_is_seen(column: str, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = _wire.pack
    monkeypatch.setattr(
        tiling,
        "pack",
        lambda kind, header, columns, codings: honest(
            kind, header, columns | {column: np.roll(columns[column], 1, axis=0)}, codings
        ),
    )
    assert differences(systolic.gemm(m=3, k=7, n=5, rows=4, cols=3))


@given(costs())
def test_phases_are_those_of_a_run(cost: systolic.GemmCost) -> None:
    header, columns = _wire.unpack(pack_cost(cost))
    a, b = np.ones((cost.m, cost.k), np.int8), np.ones((cost.k, cost.n), np.int8)
    trace = systolic.simulate(
        a, b, rows=cost.rows, cols=cost.cols, dataflow=cost.dataflow, overlap=cost.overlap
    )
    if cost.overlap:
        phase = np.searchsorted(header["phases"], np.arange(cost.cycles), side="right")
    else:
        kinds = [header["kinds"][kind] for kind in columns["folds"][:, 4]]
        phase = np.concatenate([np.repeat(np.arange(4), kind["phases"]) for kind in kinds])
    assert np.array_equal(phase, trace.phase)


@given(costs())
def test_the_first_frame_is_one_of_the_run(cost: systolic.GemmCost) -> None:
    assert 0 <= telling_cycle(cost) < cost.cycles


def test_the_first_frame_shows_the_front_in_the_array() -> None:
    for overlap in (False, True):
        cost = systolic.gemm(m=300, k=256, n=256, rows=128, cols=128, overlap=overlap)
        begin = cost.load + (cost.interval if overlap else 0)
        assert begin < telling_cycle(cost) < begin + 254


def test_a_long_run_sends_means_and_little_text() -> None:
    cost = systolic.gemm(m=4096, k=4096, n=4096, rows=128, cols=128, overlap=True)
    text = pack_cost(cost)
    header, columns = _wire.unpack(text)
    assert header["bin"] == 512 and len(columns["curve"]) == -(-cost.cycles // 512)
    total = (columns["curve"].astype(float) * 512)[:-1].sum() + columns["curve"][-1] * (
        cost.cycles % 512 or 512
    )
    assert total == pytest.approx(4096**3, rel=1e-6)
    assert len(text) < 10_000


def test_a_whole_product_on_256_by_256_is_small() -> None:
    assert len(pack_cost(systolic.gemm(m=1024, k=1024, n=1024, rows=256, cols=256))) < 20_000


def test_options_and_task_reach_the_browser() -> None:
    cost = systolic.gemm(m=2, k=9, n=9, rows=4, cols=4)
    player = TilingPlayer(cost, start=3, rate=4, title="Mine", task="count.")
    assert player.cursor == 3
    assert {name: player.options[name] for name in ("rate", "title", "task")} == {
        "rate": 4.0,
        "title": "Mine",
        "task": "count.",
    }
    assert "last fold" in TilingPlayer(cost).options["task"]


def test_show_replaces_the_run() -> None:
    player = TilingPlayer(systolic.gemm(m=2, k=2, n=2, rows=2, cols=2))
    larger = systolic.gemm(m=20, k=20, n=20, rows=4, cols=4, overlap=True)
    player.show(larger)
    assert player.trace == pack_cost(larger) and player.cursor == telling_cycle(larger)
    assert repr(player) == "TilingPlayer(ws, 4x4 cells, 20x20 by 20x20, 25 folds that overlap, 510 cycles)"


def test_python_line_makes_the_run_again() -> None:
    cost = systolic.gemm(m=5, k=6, n=7, rows=2, cols=3, dataflow="is", overlap=True)
    header, _ = _wire.unpack(pack_cost(cost))
    scope: dict[str, Any] = {}
    exec(header["python"].replace("widgets.TilingPlayer(", "again = ("), scope)
    assert scope["again"] == cost


SMALL = {"m": 2, "k": 2, "n": 2, "rows": 2, "cols": 2}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"convention": "scalesim"}, "'scalesim', which knows no schedule to play.*convention='register'"),
        ({"rows": 513}, "513 rows or columns of cells, but at most 512 can be shown; show a smaller array"),
        ({"k": 1000, "n": 1000}, "250000 folds, but at most 4096 can be shown"),
        ({"m": 2**21}, "2097152 steps in its stream, but at most 1048576"),
    ],
)
def test_what_cannot_be_shown_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        TilingPlayer(systolic.gemm(**(SMALL | changes)))


def test_more_cycles_than_a_slider_has_are_refused() -> None:
    cost = systolic.gemm(m=2**20, k=512 * 4096, n=512, rows=512, cols=512)
    with pytest.raises(ValueError, match="4301250560 cycles, but at most 2147483647 can be shown"):
        TilingPlayer(cost)


@pytest.mark.parametrize("start", [-1, 6])
def test_a_start_outside_the_run_is_refused(start: int) -> None:
    with pytest.raises(ValueError, match=rf"start is {start}.*at most 5"):
        TilingPlayer(systolic.gemm(**SMALL), start=start)


@pytest.mark.wrong_type
def test_wrong_types_and_keywords_get_one_sentence() -> None:
    with pytest.raises(TypeError, match=r"cost is 5, but must be a GemmCost; make one with systolic\.gemm"):
        TilingPlayer(5)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(TypeError, match=r"'strat'\. Did you mean 'start'"):
        TilingPlayer(systolic.gemm(**SMALL), strat=1)  # type: ignore[call-arg]  # on purpose
