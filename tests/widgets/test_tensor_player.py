"""What the tensor player sends is what the trace holds: fragments, units, stages, sums, words, score."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pulsewarp import simt
from pulsewarp.widgets import TensorPlayer, _wire

RNG = np.random.default_rng(8)
A = RNG.integers(-4, 5, (32, 48)).astype(np.int8)
B = RNG.integers(-4, 5, (48, 16)).astype(np.int8)
REALS = A / 7, B / 11


def run(
    a: Any = A, b: Any = B, *, stages: int = 2, make: Any = simt.tensor_kernel, **settings: Any
) -> simt.TiledTrace:
    given: dict[str, Any] = {"dtype": "fp16", "tile": (32, 16, 16), "load": "LDG.L2", **settings}
    trace: simt.TiledTrace = make(a, b, stages=stages, **given).simulate()
    return trace


MMA, FFMA = run(), run(make=simt.ffma_kernel)


def wrong_frames(packed: str, runs: list[simt.TiledTrace]) -> list[Any]:
    """Name what crossed otherwise than the traces say of the cycle of each frame."""
    header, columns = _wire.unpack(packed)
    wrong: list[Any] = []
    for f, t in enumerate(columns["time"].tolist()):
        for r, trace in enumerate(runs):
            own = min(t, trace.cycles - 1)
            held = trace.unit[t] if t < trace.cycles else np.full(trace.unit.shape[1], -1)
            if not np.array_equal(columns[f"now{r}"][f], held):
                wrong.append((f, r, "units"))
            span = columns[f"span{r}"]
            here = span[(span[:, 2] <= t) & (t < span[:, 3])]
            states = np.zeros(trace.stages[0].size, int)
            first = np.full(trace.stages[0].size, -1)
            states[here[:, 0]], first[here[:, 0]] = here[:, 1], here[:, 4]
            tiles = trace.stage_tile[own].ravel()
            if t < trace.cycles and not np.array_equal(states, trace.stages[t].ravel()):
                wrong.append((f, r, "stages"))
            if t < trace.cycles and not np.array_equal(
                first, np.where(tiles < 0, -1, tiles * header["runs"][r]["deep"])
            ):
                wrong.append((f, r, "tiles"))
            if not np.array_equal(sums(columns, header, r, f), trace.sums_at(own)):
                wrong.append((f, r, "sums"))
    return wrong


def sums(columns: Any, header: Any, r: int, f: int) -> Any:
    """Return C as the browser looks it up in a frame."""
    m, _, n = header["shape"]
    high, wide, _ = header["piece"]
    c = np.zeros((m, n))
    for p, e in enumerate(columns[f"sums{r}"][f].tolist()):
        row, col = p // (n // wide) * high, p % (n // wide) * wide
        if e >= 0:
            c[row : row + high, col : col + wide] = columns[f"after{r}"][e]
    return c


@pytest.mark.parametrize(
    "runs",
    [
        [MMA],
        [run(stages=1), run(stages=3)],
        [run(*REALS, dtype="bf16")],
        [run(dtype="int8", tile=(32, 16, 32))],
        [run(architecture="turing", shape="m16n8k8")],
        [run(A[:20], B[:, :9])],
        [run(np.tile(A, (2, 1)), B)],
    ],
    ids=["mma", "one and three stages", "bf16", "int8", "Turing", "padded", "two blocks"],
)
def test_every_frame_is_what_the_trace_says_of_its_cycle(runs: list[simt.TiledTrace]) -> None:
    assert wrong_frames(TensorPlayer(runs).trace, runs) == []


def test_a_frame_shifted_by_one_is_seen() -> None:
    """A mutant: every frame tells of the cycle after its own."""
    header, columns = _wire.unpack(TensorPlayer(MMA).trace)
    for name in ("now0", "sums0"):
        columns[name] = np.roll(columns[name], -1, axis=0)
    columns["span0"] = columns["span0"] + [0, 0, 1, 1, 0]
    found = {what for _, _, what in wrong_frames(_wire.pack("tensor", header, columns), [MMA])}
    assert found == {"units", "stages", "tiles", "sums"}


def test_each_element_has_one_lane_and_each_lane_its_registers() -> None:
    for trace in (MMA, run(dtype="int8", tile=(32, 16, 32)), run(dtype="fp64", tile=(16, 16, 16))):
        shape = trace.kernel.shape
        assert shape is not None
        _, columns = _wire.unpack(TensorPlayer(trace).trace)
        for letter in "abc":
            held = simt.fragment(shape, letter)
            lanes = columns[f"lane_{letter}"]
            assert lanes.shape == (held.height, held.width) and lanes.min() == 0
            for lane in range(32):
                for element in range(held.elements):
                    at = held.rows[lane, element], held.columns[lane, element]
                    told = [columns[f"{name}_{letter}"][at] for name in ("lane", "register", "place")]
                    assert told == [lane, held.register[element], element]


def test_the_score_ends_with_the_counts_and_each_run_with_its_length() -> None:
    header, columns = _wire.unpack(TensorPlayer([FFMA, MMA]).trace)
    assert header["score"] == ["mma", "FFMA"] and header["lengths"] == [MMA.cycles, FFMA.cycles]
    for v, trace in enumerate((MMA, FFMA)):
        counts = trace.counts
        assert columns[f"tally{v}"][-1].tolist() == [
            counts.cycles,
            counts.instructions,
            counts.multiplies,
            counts.padded_multiply_adds,
            pytest.approx(counts.padded_multiply_adds / counts.instructions),
            round(100 * counts.utilization),
            counts.copied_bytes,
        ]
        assert (np.diff(columns[f"tally{v}"][:, :4], axis=0) >= 0).all()


def test_sentences_name_the_units_and_stages_of_their_cycle() -> None:
    header, columns = _wire.unpack(TensorPlayer(MMA).trace)
    states = {
        "filling": "on its way until",
        "landed": "landed,",
        "ready": "ready, not",
        "in use": "being read",
    }
    for f, t in enumerate(columns["time"].tolist()):
        units, stages, why = (header["sentences"][i] for i in columns["told0"][f])
        if t >= MMA.cycles:
            continue
        busy = MMA.unit[t] >= 0
        warps = [f"w{MMA.work[e, 2]}" for e in MMA.unit[t][busy]]
        assert all(f" {warp}" in units for warp in warps) and ("No tensor unit" in units) == (not busy.any())
        told = stages.split(";")
        for said, state, tile in zip(told, MMA.stages[t, 0], MMA.stage_tile[t, 0], strict=True):
            word = simt.STAGE_STATES[state]
            assert (states[word] if word != "free" else "is free") in said
            assert word == "free" or f"k {16 * tile}\N{EN DASH}{16 * tile + 15}" in said
        assert why == ("" if busy.all() else MMA.warp.why(t, int(np.flatnonzero(~busy)[0])))


def test_the_lines_of_python_make_the_runs_again() -> None:
    player = TensorPlayer([run(stages=1), run(stages=3, layout="padded"), FFMA])
    header, _ = _wire.unpack(player.trace)
    scope: dict[str, Any] = {}
    exec(header["python"].replace("widgets.TensorPlayer(", "again = ("), scope)
    assert TensorPlayer(scope["again"]).trace == player.trace
    big = run(np.ones((64, 128)), np.ones((128, 16)), tile=(64, 16, 32))
    assert "# a: (64, 128)" in _wire.unpack(TensorPlayer(big).trace)[0]["python"]


def test_the_frame_that_is_verified_is_the_one_on_show() -> None:
    player = TensorPlayer([MMA, FFMA])
    _, columns = _wire.unpack(player.trace)
    last = len(columns["time"]) - 1
    for f in (0, 5, last):
        player.request = {"id": f, "kind": "verify", "cycle": f}
        rows = player.reply["report"]
        assert all(passed for _, passed, _ in rows)
        t = int(columns["time"][f])
        names = [name for name, *_ in rows if "cycle" in name]
        assert names == [f"mma: cycle {min(t, MMA.cycles - 1)}", f"FFMA: cycle {t}"]


def test_it_opens_where_units_work_and_a_copy_is_on_its_way() -> None:
    three = run(stages=3, warps=(1, 2))
    player = TensorPlayer(three)
    t = int(_wire.unpack(player.trace)[1]["time"][player.cursor])
    assert (three.unit[t] >= 0).any() and player.options["poster"] == player.cursor
    assert TensorPlayer(MMA, start=0).cursor == 0 and "poster" not in TensorPlayer(MMA, start=0).options
    assert "C[8,3]" in player.options["task"]
    assert TensorPlayer(MMA, task="look.", title="Mine", future="hidden").options == {
        "rate": 2.0, "title": "Mine", "future": "hidden", "task": "look.", "verify": True,
        "poster": TensorPlayer(MMA).cursor,
    }  # fmt: skip


def test_other_runs_take_their_place() -> None:
    player = TensorPlayer(run(dtype="fp64", tile=(16, 16, 16)))
    assert "C[7,3]" in player.options["task"]
    player.show([MMA, FFMA])
    assert player.trace == TensorPlayer([MMA, FFMA]).trace and "C[8,3]" in player.options["task"]
    assert repr(player) == f"TensorPlayer(32x48 by 48x16: mma {MMA.cycles}, FFMA {FFMA.cycles} cycles)"


def test_what_tells_two_runs_apart_is_their_name() -> None:
    def named(*runs: simt.TiledTrace) -> list[str]:
        return [one["name"] for one in _wire.unpack(TensorPlayer(runs).trace)[0]["runs"]]

    assert named(run(stages=1), run(stages=3)) == ["1 stage", "3 stages"]
    assert named(MMA, run(copies="through registers")) == ["async", "through registers"]
    assert named(MMA, run(layout="plain")) == ["swizzled", "plain"]
    assert named(MMA, run(warps=(1, 1))) == ["4 warps", "1 warp"]
    assert named(MMA, run(architecture="hopper")) == ["Ampere", "Hopper"]
    assert named(MMA, MMA) == ["first run", "second run"]


@pytest.mark.parametrize(
    ("traces", "says"),
    [
        (list, ("0 traces of mma", "one or two")),
        (lambda: [FFMA], ("0 traces of mma", "tensor_kernel")),
        (lambda: [MMA, MMA, MMA], ("3 traces of mma", "one or two")),
        (lambda: [MMA, FFMA, FFMA], ("2 of FFMA", "at most one")),
        (lambda: [MMA, run(B.T, A.T, tile=(32, 32, 16))], ("is not the product", "same a, b and tile")),
        (lambda: [MMA, run(shape="m16n8k8")], ("m16n8k8", "same shape")),
        (lambda: run(architecture="volta", warps=(1, 1)), ("4 products at once", "Turing")),
        (lambda: run(np.tile(A, (5, 1)), B), ("10 stages", "at most 8")),
    ],
)
def test_what_cannot_be_shown_together_is_refused(traces: Any, says: tuple[str, ...]) -> None:
    with pytest.raises(ValueError) as caught:
        TensorPlayer(traces())
    assert all(part in str(caught.value) for part in says), caught.value


@pytest.mark.wrong_type
def test_players_take_tiled_traces() -> None:
    with pytest.raises(TypeError, match=r"WarpTrace.*tensor_kernel"):
        TensorPlayer(MMA.warp)


def test_too_many_events_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsewarp.widgets.tensor.MOST_EVENTS", 5)
    with pytest.raises(ValueError, match="at most 5 are shown"):
        TensorPlayer(MMA)
