"""What the divergence player sends is what the traces say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pulsewarp import simt, widgets
from pulsewarp.simt import DivergenceTrace
from pulsewarp.simt.divergence import LANE_STATES, OFF
from pulsewarp.widgets import _wire
from pulsewarp.widgets import divergence as module
from pulsewarp.widgets.divergence import DivergencePlayer

PROGRAM = """x = lane
if lane % 2 == 0:
    x = 3 * x
else:
    x = x + 100
    x = x - lane
syncwarp()
x = x + 1"""
SPIN = "busy = 1\nwhile busy == 1:\n    busy = exch(lock, 1)\ntotal = total + lane\nexch(lock, 0)"


def pair() -> list[DivergenceTrace]:
    how: dict[str, Any] = {"reconvergence": "independent", "schedule": "alternate"}
    return [simt.run_warp(PROGRAM, latency=1), simt.run_warp(PROGRAM, latency=2, **how)]


def spins() -> list[DivergenceTrace]:
    shared = {"lock": 0, "total": 5}
    return [
        simt.run_warp(SPIN, reconvergence=kind, shared=shared, lanes=3, latency=1, first="else")
        for kind in ("stack", "independent")
    ]


def differences(player: DivergencePlayer, runs: list[DivergenceTrace]) -> set[str]:
    """Name what the player sends that is not the traces' own; empty when all agrees."""
    header, columns = _wire.unpack(player.trace)
    wrong: set[str] = set()
    for r, (run, head) in enumerate(zip(runs, header["runs"], strict=True)):
        for name, mine in (("state", run.state), ("value", run.values), ("known", run.known)):
            wrong |= {name} if not np.array_equal(columns[f"{name}{r}"], mine) else set()
        for t in range(run.cycles):
            wrong |= {"sentence"} if head["sentences"][columns[f"sentence{r}"][t]] != run.why(t) else set()
            wrong |= {"line"} if columns[f"line{r}"][t].tolist() != run.lines_at(t) else set()
            rows = [tuple(row[:4]) for row in head["standings"][columns[f"standing{r}"][t]]]
            wrong |= {"standing"} if rows != run.standing(t) else set()
            issued, work = int((run.issued[: t + 1] >= 0).sum()), int(run.mask[: t + 1].sum())
            counts = [issued, work, 32 * issued - work]
            wrong |= {"tally"} if columns[f"tally{r}"][t].tolist() != counts else set()
            share = work / (32 * issued) if issued else 0
            wrong |= {"efficiency"} if columns[f"efficiency{r}"][t] != share else set()
            if run.shared_names:
                wrong |= {"shared"} if columns[f"shared{r}"][t].tolist() != run.shared[t].tolist() else set()
        last = head["sentences"][columns[f"sentence{r}"][-1]]
        if run.cycles < header["cycles"] and last != (
            run.deadlock or f"All lanes have ended, after {run.cycles} cycles."
        ):
            wrong.add("end")
    return wrong


@pytest.mark.parametrize("make", [pair, spins])
def test_every_column_is_the_traces_own(make: Callable[[], list[DivergenceTrace]]) -> None:
    assert differences(DivergencePlayer(make()), make()) == set()
    assert differences(DivergencePlayer(make()[0]), make()[:1]) == set()


@pytest.mark.parametrize(
    "column", ["state0", "line1", "value0", "standing0", "sentence1", "tally0", "efficiency0"]
)
def test_mutant_a_column_a_cycle_late_is_found(monkeypatch: pytest.MonkeyPatch, column: str) -> None:
    real = module.pack
    monkeypatch.setattr(
        module, "pack", lambda k, h, c: real(k, h, {**c, column: np.roll(np.asarray(c[column]), 1, axis=0)})
    )
    assert column[:-1] in differences(DivergencePlayer(pair()), pair())


def test_the_first_frame_has_both_paths() -> None:
    player = DivergencePlayer(pair())
    run = pair()[0]
    step = run.steps[int(run.issued[player.cursor])]
    assert not step.branches and (run.state[player.cursor] == OFF).any()
    assert player.options["poster"] == player.cursor == 2
    plain = DivergencePlayer(simt.run_warp("x = 1"))
    assert plain.cursor == 0 and "poster" not in plain.options


def test_chapters_name_where_lanes_part_and_meet_and_who_never_ends() -> None:
    header, _ = _wire.unpack(DivergencePlayer(pair()).trace)
    told = [(one["cycle"], one["label"]) for one in header["chapters"]]
    assert told[:3] == [(0, "begins"), (2, "lanes part"), (5, "lanes meet")]
    assert told[-1][1] == "alternating done"
    header, _ = _wire.unpack(DivergencePlayer(spins()).trace)
    assert "stack never ends" in [one["label"] for one in header["chapters"]]
    assert header["states"] == list(LANE_STATES)


def test_the_task_asks_for_what_is_to_be_seen() -> None:
    assert "which machine never ends" in DivergencePlayer(spins()).options["task"]
    assert "fewer instructions" in DivergencePlayer(pair()).options["task"]
    assert "which lanes wait" in DivergencePlayer(spins()[0]).options["task"]
    assert "which lane slots are lost" in DivergencePlayer(pair()[0]).options["task"]
    assert DivergencePlayer(pair(), task="look").options["task"] == "look"


@pytest.mark.parametrize(
    "runs, names",
    [
        (pair(), ["stack", "alternating"]),
        (spins(), ["stack", "independent"]),
        ([pair()[0], simt.run_warp("x = 1")], ["stack, above", "stack, below"]),
    ],
)
def test_machines_are_named_by_what_differs(runs: list[DivergenceTrace], names: list[str]) -> None:
    header, _ = _wire.unpack(DivergencePlayer(runs).trace)
    assert [run["name"] for run in header["runs"]] == names


@pytest.mark.parametrize(
    "runs",
    [pair(), spins(), [simt.run_warp(PROGRAM, branches=False)], [simt.run_warp("x = 1\n# '''\ny = 2")] * 2],
    ids=["pair", "spins", "free branches", "quotes"],
)
def test_the_copied_python_recreates_the_runs(runs: list[DivergenceTrace]) -> None:
    player = DivergencePlayer(runs)
    header, _ = _wire.unpack(player.trace)
    assert header["python"].count("\n") >= 3
    names: dict[str, Any] = {}
    exec(header["python"].replace("widgets.DivergencePlayer(", "again = ("), names)
    assert DivergencePlayer(names["again"]).trace == player.trace


def test_show_replaces_and_verify_asks_the_new_ones() -> None:
    player = DivergencePlayer(spins())
    player.show(pair())
    assert repr(player).startswith("DivergencePlayer(stack: 7 instructions in 7 cycles; alternating: ")
    assert differences(player, pair()) == set()
    player.request = {"id": 1, "kind": "verify", "cycle": 3}
    report = player.reply["report"]
    assert report[0][0] == "stack: one line at a time" and all(row[1] for row in report)
    assert "stack: cycle 3" in [row[0] for row in report]
    assert "stack: 6 instructions and never ends" in repr(DivergencePlayer(spins()))


def test_a_prediction_can_hide_what_comes() -> None:
    player = DivergencePlayer(pair())
    player.future = "hidden"
    assert player.options["future"] == "hidden"


# --- bad input ---------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_traces_that_cannot_be_shown() -> None:
    with pytest.raises(ValueError, match=r"There are 3 traces, but one or two are shown"):
        DivergencePlayer([pair()[0]] * 3)
    with pytest.raises(ValueError, match=r"A trace of 41 lines is above the limit of 40"):
        DivergencePlayer(simt.run_warp("\n".join(["x = 1"] * 41)))
    with pytest.raises(ValueError, match=r"A trace of \d+ cycles is above the limit of 2000"):
        DivergencePlayer(simt.run_warp("x = 0\nwhile x < 500:\n    x = x + 1"))


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
        DivergencePlayer(pair(), **settings)


def test_an_unknown_keyword_is_a_typo() -> None:
    with pytest.raises(TypeError, match=r"'tasks'. Did you mean 'task'"):
        widgets.DivergencePlayer(pair(), tasks="x")


@pytest.mark.wrong_type
def test_players_take_a_trace() -> None:
    with pytest.raises(TypeError, match=r"a trace is 5.*must be a DivergenceTrace; make one with"):
        DivergencePlayer([5])  # type: ignore[list-item]  # on purpose


def test_a_warp_of_a_traced_kernel_is_shown_by_its_own_lines() -> None:
    x = np.ones(100, np.float32)
    run = simt.trace_kernel(simt.lesson_kernels.vector_add, grid=1, block=128, args=(x, x, x))
    trace = simt.follow_lanes(run, warp=3)
    player = DivergencePlayer(trace)
    assert differences(player, [trace]) == set()
    header, _ = _wire.unpack(player.trace)
    assert header["runs"][0]["first"] == run.first_line and header["runs"][0]["lines"] == list(run.source)
    call = "simt.trace_kernel(vector_add, grid=(1, 1, 1), block=(128, 1, 1), args=args)"
    assert f"simt.follow_lanes({call}, warp=3, load_latency=18)," in header["python"]
    assert "as the kernel was traced" in header["simplified"] and "a load's result" in header["given"]
