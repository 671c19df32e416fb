"""What the occupancy player sends is what was counted: what each block takes, and what runs out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsewarp import lesson, simt
from pulsewarp.widgets import OccupancyPlayer, _wire, occupancy
from pulsewarp.widgets.occupancy import _packed

THREE = [simt.occupancy(registers_per_thread=count) for count in (32, 64, 128)]


@st.composite
def launches(draw: st.DrawFn) -> simt.Occupancy:
    return simt.occupancy(
        draw(st.sampled_from(list(simt.compute_capabilities()))),
        draw(st.integers(1, 1100)),
        draw(st.integers(0, 260)),
        dynamic_shared=draw(st.integers(0, 100_000)),
        shared_opt_in=draw(st.booleans()),
        carveout=draw(st.one_of(st.none(), st.integers(0, 100))),
    )


def differences(held: tuple[simt.Occupancy, ...]) -> list[str]:
    """Name what crossed and is not what was counted."""
    header, columns = _wire.unpack(_packed(held))
    wrong = []
    for i, one in enumerate(held):
        lane, taken = header["lanes"][i], columns[f"{i}.taken"]
        resources = {resource["name"]: resource for resource in lane["resources"]}
        for row, name in enumerate(resources):
            most = taken[-1, row]
            if most > resources[name]["has"] or taken[0, row] != 0:
                wrong.append(f"{i}: {name} holds {most}")
            sent = resources[name]["limit"]
            if (float("inf") if sent is None else sent) != one.limits[name]:
                wrong.append(f"{i}: limit of {name}")
            if len(taken) > 1 and set(np.diff(taken[:, row])) != {resources[name]["part"]}:
                wrong.append(f"{i}: a block's {name}")
        if tuple(sorted(name for name in resources if resources[name]["limiting"])) != one.limiting:
            wrong.append(f"{i}: what runs out")
        if len(taken) != lane["blocks"] + 1 or lane["blocks"] != one.blocks_per_sm:
            wrong.append(f"{i}: blocks")
        if taken[-1, 0] != one.warps_per_sm:
            wrong.append(f"{i}: warps")
        if lane["why"] != list(one.why()) or lane["advice"] != list(one.advice()):
            wrong.append(f"{i}: sentences")
    frames = max(one.blocks_per_sm for one in held) + 2
    return wrong if header["frames"] == frames else [*wrong, "frames"]


@given(st.lists(launches(), min_size=1, max_size=3))
def test_what_crosses_is_what_was_counted(held: list[simt.Occupancy]) -> None:
    assert differences(tuple(held)) == []


def test_a_shifted_column_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = occupancy._taken
    monkeypatch.setattr(occupancy, "_taken", lambda one: np.roll(honest(one), 1, axis=0))
    assert differences(tuple(THREE))


@given(launches())
def test_a_sub_partition_holds_what_the_register_limit_says(held: simt.Occupancy) -> None:
    header, _ = _wire.unpack(_packed((held,)))
    (lane,) = header["lanes"]
    if held.registers_per_thread and held.limits["registers"]:
        warps = lane["partitions"] * lane["partition_warps"]
        assert warps // lane["warps"] == held.limits["registers"]
        assert lane["partition_warps"] * lane["registers_per_warp"] <= lane["partition_registers"]


@given(st.lists(launches(), min_size=1, max_size=3))
def test_python_line_makes_the_launches_again(held: list[simt.Occupancy]) -> None:
    header, _ = _wire.unpack(_packed(tuple(held)))
    scope: dict[str, Any] = {}
    exec(header["python"].replace("widgets.OccupancyPlayer(", "again = ("), scope)
    again = scope["again"] if len(held) > 1 else [scope["again"]]
    assert again == held


def test_launches_are_named_by_what_sets_them_apart() -> None:
    player = OccupancyPlayer(THREE)
    header, _ = _wire.unpack(player.trace)
    assert [lane["name"] for lane in header["lanes"]] == [f"{n} registers a thread" for n in (32, 64, 128)]
    assert header["given"] == (
        "All launches: compute capability 8.0 (Ampere, such as A100 SXM4 40GB); 256 threads a block; no "
        "shared memory."
    )
    assert header["chapters"] == [
        {"cycle": 0, "label": "empty SM"},
        {"cycle": 3, "label": "128 registers a thread: full"},
        {"cycle": 5, "label": "64 registers a thread: full"},
        {"cycle": 9, "label": "32 registers a thread: full"},
    ]
    twice, _ = _wire.unpack(OccupancyPlayer([THREE[0], THREE[0]]).trace)
    assert [lane["name"] for lane in twice["lanes"]] == ["launch 1", "launch 2"]
    again, _ = _wire.unpack(OccupancyPlayer([*THREE[:2], THREE[0]]).trace)
    assert [lane["name"] for lane in again["lanes"]] == ["launch 1", "launch 2", "launch 3"]
    both, _ = _wire.unpack(OccupancyPlayer([simt.occupancy(), simt.occupancy("9.0", 128)]).trace)
    assert [lane["name"] for lane in both["lanes"]] == ["launch 1", "launch 2"]
    assert both["lanes"][1]["detail"] == "compute capability 9.0, 128 threads a block"
    cards = OccupancyPlayer([simt.occupancy("8.0"), simt.occupancy("12.0", carveout=50)])
    assert repr(cards).startswith("OccupancyPlayer(compute capability 8.0, carve-out as usual: 4 blocks;")


def test_the_first_frame_shows_a_block_that_does_not_fit() -> None:
    assert OccupancyPlayer(THREE).cursor == 3 == THREE[2].blocks_per_sm + 1
    assert OccupancyPlayer(THREE).options["poster"] == 3
    assert OccupancyPlayer(simt.occupancy("8.0", 1025)).cursor == 1


def test_options_and_task_reach_the_browser() -> None:
    player = OccupancyPlayer(THREE[0], start=2, rate=4, title="Mine", task="count.")
    assert player.cursor == 2 and "poster" not in player.options
    assert [player.options[name] for name in ("rate", "title", "task")] == [4.0, "Mine", "count."]
    assert "bars alone" in OccupancyPlayer(THREE[0]).options["task"]
    assert "each launch" in OccupancyPlayer(THREE).options["task"]


def test_show_replaces_the_launches() -> None:
    player = OccupancyPlayer(THREE[0])
    player.show(THREE)
    assert player.trace == OccupancyPlayer(THREE).trace and player.cursor == 3
    assert repr(player) == repr(OccupancyPlayer(THREE))


# ---------------------------------------------------------------------------------- the reader's own launch

VALUES = {
    "compute_capability": "8.6",
    "threads_per_block": "128",
    "registers_per_thread": "80",
    "shared": "8000",
    "shared_opt_in": True,
}


def asked(player: OccupancyPlayer, **changes: Any) -> dict[str, Any]:
    player.request = {"id": player.reply.get("id", 0) + 1, "kind": "own", "values": {**VALUES, **changes}}
    return dict(player.reply)


def test_an_own_launch_is_counted_and_stands_beside_the_one_before() -> None:
    player = lesson.own_occupancy()
    done = asked(player)["done"]
    held = simt.occupancy("8.6", 128, 80, dynamic_shared=8000, shared_opt_in=True)
    assert done == "Now shown: 6 blocks, 24 of 48 warps, beside the launch before."
    first = simt.occupancy("8.0", 256, 64, shared_opt_in=True)
    assert player.trace == OccupancyPlayer([first, held]).trace
    asked(player, registers_per_thread="40")
    assert (
        player.trace
        == OccupancyPlayer(
            [held, simt.occupancy("8.6", 128, 40, dynamic_shared=8000, shared_opt_in=True)]
        ).trace
    )
    assert asked(player, registers_per_thread="40")["done"].endswith("warps.")  # the same again stands alone


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"threads_per_block": "0"}, "threads_per_block", "Threads a block is 0, but must be"),
        ({"threads_per_block": "many"}, "threads_per_block", "'many'"),
        ({"registers_per_thread": "-1"}, "registers_per_thread", "Registers a thread"),
        ({"shared": "1e3"}, "shared", "Shared memory a block, bytes is '1e3'"),
        ({"compute_capability": "6.1"}, None, "7.0, 7.5"),
    ],
)
def test_an_own_launch_that_is_none_comes_back_as_a_sentence(
    changes: dict[str, Any], field: str | None, words: str
) -> None:
    player = lesson.own_occupancy()
    before = player.trace
    reply = asked(player, **changes)
    assert words in reply["error"] and reply.get("field") == field
    assert player.trace == before


def test_an_own_launch_may_be_one_that_cannot_start() -> None:
    player = lesson.own_occupancy()
    assert asked(player, threads_per_block="1025")["done"].startswith("Now shown: 0 blocks, 0 of 48 warps")


def test_the_form_offers_every_compute_capability() -> None:
    fields = {field["name"]: field for field in lesson.own_occupancy("9.0").options["form"]["fields"]}
    assert [value for value, _ in fields["compute_capability"]["choices"]] == list(
        simt.compute_capabilities()
    )
    assert fields["compute_capability"]["value"] == "9.0"


def test_verify_checks_each_launch_that_is_shown() -> None:
    player = OccupancyPlayer(THREE)
    player.request = {"id": 1, "kind": "verify", "cycle": 2}
    report = player.reply["report"]
    assert all(holds for _, holds, _ in report)
    assert {name.partition(": ")[0] for name, _, _ in report} == {
        f"{n} registers a thread" for n in (32, 64, 128)
    }
