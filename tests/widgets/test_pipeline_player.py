"""What the pipeline player sends is what the trace says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsewarp import chips, systolic, widgets
from pulsewarp.systolic import PipelineTrace
from pulsewarp.widgets import _wire
from pulsewarp.widgets import pipeline as pipeline_module
from pulsewarp.widgets.pipeline import STATES, TALLY, PipelinePlayer

MACHINE: dict[str, Any] = {
    "rows": 2, "cols": 2, "clock_hz": 1, "bandwidth_bytes_per_second": 2, "vmem_bytes": 400, "dtype": "int8",
}  # fmt: skip


def make(buffers: int = 2, **changes: Any) -> PipelineTrace:
    sizes = {"m": 4, "k": 4, "n": 6, "tile": (2, 2, 2)}
    return systolic.pipeline(**{**sizes, **MACHINE, "buffers": buffers, **changes})


def pair(**changes: Any) -> list[PipelineTrace]:
    return [make(count, **changes) for count in (1, 2)]


def slot_at(trace: PipelineTrace, t: int, letter: int, slot: int) -> tuple[int, str, float]:
    """Return event, state and share of one buffer at a cycle, found by looking through the events."""
    ends = trace.end[trace.kind == 2]
    working = np.flatnonzero((trace.kind == 2) & (trace.start <= t) & (t < trace.end)).tolist()
    if letter < 2:
        fetches = np.flatnonzero(trace.kind == letter).tolist()
        mine = [e for e in fetches if trace.slot[e, letter] == slot and trace.start[e] <= t]
        if not mine:
            return -1, "free", 0
        e = mine[-1]
        last = min([int(trace.step[f]) for f in fetches if f > e], default=trace.steps) - 1
        if t >= ends[last]:
            return -1, "free", 0
        if t < trace.end[e]:
            return e, "filling", float((t - trace.start[e]) / (trace.end[e] - trace.start[e]))
        used = any(trace.slot[w, letter] == slot for w in working)
        return e, "in use" if used else "ready", 1
    for e in np.flatnonzero(trace.kind == 3):
        same = (trace.tiles[:, [0, 2]] == trace.tiles[e, [0, 2]]).all(axis=1) & (trace.kind == 2)
        steps = np.flatnonzero(same).tolist()
        if trace.slot[e, 2] != slot or not trace.start[steps[0]] <= t < trace.end[e]:
            continue
        done = sum(int(trace.end[s] <= t) for s in steps)
        if t >= trace.start[e]:
            return int(e), "leaving", 1 - float((t - trace.start[e]) / (trace.end[e] - trace.start[e]))
        if set(working) & set(steps):
            return int(e), "summing", done / len(steps)
        return int(e), "complete" if done == len(steps) else "partial", done / len(steps)
    return -1, "free", 0


def differences(player: PipelinePlayer, traces: list[PipelineTrace]) -> list[str]:
    """Name what the player sends that is not the traces' own; empty when all agrees."""
    header, columns = _wire.unpack(player.trace)
    wrong: list[str] = []
    runs = sorted(traces, key=lambda run: -run.buffers)
    times = sorted({0, *(int(t) for run in runs for t in (*run.start, *run.end))})
    wrong += ["time"] * (columns["time"].tolist() != times)
    for r, run in enumerate(runs):
        for name in ("kind", "step", "tiles", "start", "end", "slot", "size", "after"):
            wrong += [name] * (not np.array_equal(columns[f"{name}{r}"], getattr(run, name)))
        inside = [min(t, run.cycles) for t in times]
        told = [tuple(header["sentences"][i] for i in row) for row in columns[f"sentence{r}"]]
        wrong += ["sentences"] * (told != [run.why(t) for t in inside])
        done = run.tally(inside)
        wanted = np.stack([getattr(done, name) for name in TALLY], axis=1)
        wrong += ["tally"] * (not np.array_equal(columns[f"tally{r}"], wanted))
        for name, which in (("mxu", run.kind == 2), ("dma", run.kind != 2)):
            busy = [np.flatnonzero(which & (run.start <= t) & (t < run.end)).tolist() for t in times]
            now = [events[0] if events else -1 for events in busy]
            wrong += [name] * (columns[f"{name}{r}"].tolist() != now)
        for f, t in enumerate(inside):
            for i in range(3 * run.buffers):
                event, state, share = slot_at(run, t, i // run.buffers, i % run.buffers)
                wrong += ["held"] * bool(columns[f"held{r}"][f, i] != event)
                wrong += ["state"] * (STATES[columns[f"state{r}"][f, i]] != state)
                wrong += ["share"] * bool(abs(columns[f"share{r}"][f, i] - share) > 1e-6)
    return wrong


SIDE = st.integers(1, 4)  # up to two tiles each way, so that looking through all events stays quick


@given(SIDE, SIDE, SIDE, st.integers(2, 3), st.integers(1, 40), st.booleans())
@settings(max_examples=12)
def test_every_column_is_the_traces_own(m: int, k: int, n: int, side: int, rate: int, both: bool) -> None:
    traces = pair(m=m, k=k, n=n, tile=(side, side, side), bandwidth_bytes_per_second=rate)
    traces = traces if both else traces[:1]
    assert not differences(PipelinePlayer(traces), traces)


@pytest.mark.parametrize(
    "column, spoil, seen_as",
    [
        ("start0", lambda start: start + 1, "start"),
        ("sentence1", lambda ids: ids[::-1], "sentences"),
        ("mxu0", lambda now: np.roll(now, 1), "mxu"),
        ("tally0", lambda tally: tally * 2, "tally"),
        ("held1", lambda held: np.roll(held, 1, axis=0), "held"),
        ("state0", lambda state: np.roll(state, 1, axis=1), "state"),
        ("share0", lambda share: 1 - share, "share"),
    ],
)
def test_mutant_a_spoilt_column_is_found(
    monkeypatch: pytest.MonkeyPatch, column: str, spoil: Callable[[Any], Any], seen_as: str
) -> None:
    real = pipeline_module.pack
    monkeypatch.setattr(
        pipeline_module, "pack", lambda k, h, c, d: real(k, h, {**c, column: spoil(np.array(c[column]))}, d)
    )
    assert seen_as in differences(PipelinePlayer(pair()), pair())


def test_two_buffers_stand_above_one() -> None:
    header, _ = _wire.unpack(PipelinePlayer(pair()).trace)
    assert [run["name"] for run in header["runs"]] == ["two buffers", "one buffer"]


def test_the_first_frame_shows_one_run_at_work_on_both_ends_and_the_other_waiting() -> None:
    player = PipelinePlayer(pair())
    header, columns = _wire.unpack(player.trace)
    f = player.cursor
    assert columns["mxu0"][f] >= 0 and columns["dma0"][f] >= 0 and columns["mxu1"][f] < 0
    assert "waits" in header["sentences"][columns["sentence1"][f, 0]]
    assert player.options["poster"] == f > 0


def test_the_task_fits_the_run() -> None:
    assert "first waits again" in PipelinePlayer(pair()).options["task"]
    fast = pair(bandwidth_bytes_per_second=1000)
    assert "never waits" in PipelinePlayer(fast).options["task"]
    assert PipelinePlayer(fast, task="Look.").options["task"] == "Look."


def test_the_machine_is_named_in_one_line() -> None:
    chip = systolic.pipeline(m=512, k=512, n=512, tile=(256, 256, 256), chip="tpu_v5e")
    header, _ = _wire.unpack(PipelinePlayer(chip).trace)
    assert header["given"] == (
        "One core of TPU v5e: 4 MXUs of 128 × 128 cells at 1.50 GHz; HBM 819 GB/s, 546 B a cycle. "  # noqa: RUF001
        "Tiles of 256 × 256 by 256 × 256 in bf16, sums in fp32."  # noqa: RUF001  # as it stands in the scene
    )


def test_a_run_of_many_events_stays_small_on_the_wire() -> None:
    run = systolic.pipeline(m=2048, k=2048, n=1024, tile=(256, 256, 256), chip="tpu_v5e")
    assert run.kind.size > 500
    assert len(PipelinePlayer(run).trace) < 200_000


@pytest.mark.parametrize("made_from", ["int8", "bfloat16", "sizes", "a chip"])
def test_the_copied_python_recreates_the_runs(made_from: str) -> None:
    if made_from == "a chip":
        sizes = {"m": 256, "k": 512, "n": 256, "tile": (128, 128, 128)}
        runs = [systolic.pipeline(**sizes, chip="tpu_v5e", buffers=count) for count in (2, 1)]
    elif made_from != "sizes":
        kind = np.dtype(ml_dtypes.bfloat16 if made_from == "bfloat16" else made_from)
        a, b = np.arange(16).reshape(4, 4).astype(kind), np.arange(24).reshape(4, 6).astype(kind)
        runs = [systolic.pipeline(a, b, tile=(2, 2, 2), **MACHINE, buffers=count) for count in (1, 2)]
    else:
        runs = pair()
    player = PipelinePlayer(runs)
    header, _ = _wire.unpack(player.trace)
    assert "\n" not in header["python"]
    names: dict[str, Any] = {}
    exec(header["python"].replace("widgets.PipelinePlayer(", "again = ("), names)
    assert PipelinePlayer(names["again"]).trace == player.trace


def test_a_chip_outside_the_catalogue_is_shown_by_its_id_and_copied_by_its_numbers() -> None:
    chip = replace(chips.get("tpu_v5e"), id="my_chip")
    player = PipelinePlayer(systolic.pipeline(m=256, k=256, n=256, tile=(128, 128, 128), chip=chip))
    header, _ = _wire.unpack(player.trace)
    assert header["given"].startswith("One core of my_chip: 4 MXUs")
    assert "chip" not in header["python"]


def test_show_replaces_the_runs_and_verify_asks_the_new_ones() -> None:
    player = PipelinePlayer(pair())
    player.show(make())
    assert repr(player) == "PipelinePlayer(4x4 by 4x6, 2x2 by 2x3 tiles: 114 cycles with 2 buffers)"
    assert not differences(player, [make()])
    player.request = {"id": 1, "kind": "verify", "cycle": 0}
    assert player.reply["report"][0][0] == "two buffers: closed form"
    assert all(row[1] for row in player.reply["report"])


def test_a_prediction_can_hide_what_comes() -> None:
    player = PipelinePlayer(pair())
    assert player.future == "dimmed"
    player.future = "hidden"
    assert player.options["future"] == "hidden"


def test_repr_and_bundle_are_the_same_everywhere() -> None:
    player = PipelinePlayer(pair())
    data, _ = player._repr_mimebundle_()
    assert data["text/plain"] == repr(player)
    assert data["text/html"].startswith("<iframe")


# --- bad input ---------------------------------------------------------------------------------------------


def test_runs_that_cannot_be_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"differ in tile, \(2, 2, 2\) and \(2, 4, 2\)"):
        PipelinePlayer([make(2), make(1, tile=(2, 4, 2))])
    with pytest.raises(ValueError, match=r"Both traces have 2 buffers; make one with buffers=2 and one"):
        PipelinePlayer([make(), make()])
    with pytest.raises(ValueError, match=r"There are 0 traces, but one or two are shown"):
        PipelinePlayer([])
    monkeypatch.setattr(pipeline_module, "MOST_EVENTS", 10)
    with pytest.raises(ValueError, match=r"\d+ events is above the limit of 10.*take larger tiles"):
        PipelinePlayer(make())


@pytest.mark.parametrize(
    "settings, sentence",
    [
        ({"start": 999}, r"start is 999.*at most"),
        ({"rate": 0}, r"rate is 0, but must be a finite number above 0"),
        ({"future": "dim"}, r"Unknown future 'dim'.*Did you mean 'dimmed'"),
    ],
)
def test_a_setting_out_of_range(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        PipelinePlayer(make(), **settings)


def test_an_unknown_keyword_is_a_typo() -> None:
    with pytest.raises(TypeError, match=r"'tasks'. Did you mean 'task'"):
        widgets.PipelinePlayer(make(), tasks="x")


@pytest.mark.wrong_type
def test_players_take_a_trace_never_operands() -> None:
    with pytest.raises(TypeError, match=r"a trace is .* must be a PipelineTrace; make one with"):
        PipelinePlayer([[1, 2]])  # type: ignore[list-item]  # on purpose
