"""What the placement player sends is what the placements say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsewarp import chips, simt, widgets
from pulsewarp.simt import Placement
from pulsewarp.widgets import _wire
from pulsewarp.widgets import placement as module
from pulsewarp.widgets.placement import FEW, PlacementPlayer

H100 = chips.get("h100_sxm")


def pair() -> list[Placement]:
    return [simt.place_blocks(count, H100, block_cycles=1000) for count in (132, 133)]


def uneven(order: str = "round_robin", seed: int = 1) -> Placement:
    lengths = np.random.default_rng(seed).integers(1, 60, 40).tolist()
    return simt.place_blocks(40, 4, 2, lengths, order)


def differences(player: PlacementPlayer, runs: list[Placement]) -> list[str]:
    """Name what the player sends that is not the placements' own; empty when all agrees."""
    header, columns = _wire.unpack(player.trace)
    times = columns["time"].tolist()
    wrong = ["frames"] * (header["frames"] != len(times) or times != sorted(set(times)))
    wrong += ["time"] * (not {int(t) for run in runs for t in (*run.start, *run.end)} <= set(times))
    for r, run in enumerate(runs):
        for name in ("sm", "slot", "start", "end", "wave"):
            wrong += [name] * (not np.array_equal(columns[f"{name}{r}"], getattr(run, name)))
        for f, t in enumerate(times):
            told = [header["sentences"][i] for i in columns[f"sentence{r}"][f]]
            wanted = list(run.why(min(t, run.cycles)))
            if t > run.cycles:
                wanted[0] = f"The grid has been done since cycle {run.cycles:,}."
            wrong += ["sentence"] * (told != wanted)
            resident = int(((run.start <= t) & (t < run.end)).sum())
            waits, ended = int((run.start > t).sum()), int((run.end <= t).sum())
            begun, over = np.minimum(run.start, t).sum(), np.minimum(run.end, t).sum()
            idle = run.slots * min(t, run.cycles) - int(over - begun)
            wrong += ["tally"] * (columns[f"tally{r}"][f].tolist() != [resident, waits, ended, idle])
    return wrong


@pytest.mark.exhaustive
@given(st.lists(st.integers(1, 9), min_size=1, max_size=20), st.integers(1, 4), st.integers(1, 3))
@settings(max_examples=25)
def test_every_column_is_the_placements_own(lengths: list[int], sms: int, each: int) -> None:
    runs = [simt.place_blocks(len(lengths), sms, each, cycles, "most_room") for cycles in (lengths, 5)]
    assert not differences(PlacementPlayer(runs), runs)
    assert not differences(PlacementPlayer(runs[0]), runs[:1])


@pytest.mark.parametrize(
    "column, spoil, seen_as",
    [
        ("time", lambda time: time + 1, "time"),
        ("sm0", lambda sm: np.roll(sm, 1), "sm"),
        ("start1", lambda start: start + 1, "start"),
        ("wave1", lambda wave: wave + 1, "wave"),
        ("sentence1", lambda ids: ids[::-1], "sentence"),
        ("tally0", lambda tally: np.roll(tally, 1, axis=0), "tally"),
    ],
)
def test_mutant_a_spoilt_column_is_found(
    monkeypatch: pytest.MonkeyPatch, column: str, spoil: Callable[[Any], Any], seen_as: str
) -> None:
    real = module.pack
    monkeypatch.setattr(
        module, "pack", lambda k, h, c, d: real(k, h, {**c, column: spoil(np.array(c[column]))}, d)
    )
    assert seen_as in differences(PlacementPlayer(pair()), pair())


def test_equal_blocks_have_frames_between_their_few_events() -> None:
    header, columns = _wire.unpack(PlacementPlayer(pair()).trace)
    assert header["frames"] == FEW + 1 and {0, 1000, 2000} <= set(columns["time"].tolist())
    assert _wire.unpack(PlacementPlayer(uneven()).trace)[0]["frames"] == uneven().events().size


def test_the_first_frame_lies_in_the_longer_tail() -> None:
    player = PlacementPlayer(pair())
    _, columns = _wire.unpack(player.trace)
    assert 1000 <= columns["time"][player.cursor] < 2000
    assert player.options["poster"] == player.cursor
    full = PlacementPlayer(pair()[0])  # no tail: its last wave
    assert full.cursor > 0 and "one more block" in full.options["task"]


def test_chapters_name_waves_tail_and_ends() -> None:
    header, columns = _wire.unpack(PlacementPlayer(pair()).trace)
    told = [(int(columns["time"][one["cycle"]]), one["label"]) for one in header["chapters"]]
    assert told == [(0, "first wave"), (1000, "second wave, tail"), (2000, "grid of 133 done")]


@pytest.mark.parametrize(
    "runs, names",
    [
        (pair(), ["grid of 132", "grid of 133"]),
        ([simt.place_blocks(5, 2), simt.place_blocks(5, 3)], ["grid of 5, 2 SMs", "grid of 5, 3 SMs"]),
        (
            [simt.place_blocks(5, 2, 1), simt.place_blocks(5, 2, 2)],
            ["grid of 5, 1 an SM", "grid of 5, 2 an SM"],
        ),
        ([uneven(), uneven("fill")], ["grid of 40, round robin", "grid of 40, fill"]),
        (
            [simt.place_blocks(3, 2, 1, 4), simt.place_blocks(3, 2, 1, [4, 1, 4])],
            ["grid of 3, equal", "grid of 3, uneven"],
        ),
        ([uneven(), uneven(seed=2)], ["grid of 40, above", "grid of 40, below"]),
    ],
)
def test_grids_are_named_by_what_differs(runs: list[Placement], names: list[str]) -> None:
    header, _ = _wire.unpack(PlacementPlayer(runs).trace)
    assert [run["name"] for run in header["runs"]] == names


@pytest.mark.parametrize("runs", [pair(), [uneven("fill")]], ids=["pair", "uneven"])
def test_the_copied_python_recreates_the_placements(runs: list[Placement]) -> None:
    player = PlacementPlayer(runs)
    header, _ = _wire.unpack(player.trace)
    assert header["python"].count("\n    simt.place_blocks(") == len(runs)  # each on a line of its own
    names: dict[str, Any] = {}
    exec(header["python"].replace("widgets.PlacementPlayer(", "again = ("), names)
    assert PlacementPlayer(names["again"]).trace == player.trace


def test_show_replaces_and_verify_asks_the_new_ones() -> None:
    player = PlacementPlayer(pair())
    player.show(uneven())
    assert repr(player) == f"PlacementPlayer(4 SMs: grid of 40 in {uneven().cycles} cycles)"
    assert not differences(player, [uneven()])
    player.request = {"id": 1, "kind": "verify", "cycle": 0}
    assert player.reply["report"][0][0] == "grid of 40: every block once"
    assert all(row[1] for row in player.reply["report"])


def test_a_prediction_can_hide_what_comes() -> None:
    player = PlacementPlayer(pair())
    player.future = "hidden"
    assert player.options["future"] == "hidden"


# --- bad input ---------------------------------------------------------------------------------------------


def test_placements_that_cannot_be_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"There are 3 placements, but one or two are shown"):
        PlacementPlayer([uneven()] * 3)
    with pytest.raises(ValueError, match=r"A placement of 20001 blocks is above the limit of 20000"):
        PlacementPlayer(simt.place_blocks(20_001, 2))
    with pytest.raises(ValueError, match=r"A placement of 5000 slots is above the limit of 4224"):
        PlacementPlayer(simt.place_blocks(1, 5000))
    monkeypatch.setattr(module, "MOST_FRAMES", 10)
    with pytest.raises(ValueError, match=r"in \d+ different cycles, above the limit of 10.*fewer blocks"):
        PlacementPlayer(uneven())


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
        PlacementPlayer(uneven(), **settings)


def test_an_unknown_keyword_is_a_typo() -> None:
    with pytest.raises(TypeError, match=r"'tasks'. Did you mean 'task'"):
        widgets.PlacementPlayer(uneven(), tasks="x")


@pytest.mark.wrong_type
def test_players_take_a_placement() -> None:
    with pytest.raises(TypeError, match=r"a placement is 5.*must be a Placement; make one with"):
        PlacementPlayer([5])  # type: ignore[list-item]  # on purpose
