"""What the access player sends is what `simt` counted, lane by lane and part by part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsewarp import lesson, simt
from pulsewarp.widgets import AccessPlayer, _wire


def sectors(pattern: str, size: int = 4) -> simt.Access:
    return simt.sectors(simt.pattern(pattern), size)


def banks(pattern: str, size: int = 4) -> simt.BankAccess:
    return simt.wavefronts(simt.pattern(pattern), size)


@st.composite
def requests(draw: st.DrawFn) -> tuple[list[int | None], int]:
    size = draw(st.sampled_from([1, 2, 4, 8, 16]))
    lane = st.one_of(st.none(), st.integers(0, 99), st.integers(0, 2**45 // 16))
    indices = draw(st.lists(lane, min_size=32, max_size=32))
    return [None if index is None else size * index for index in indices], size


def wrong_sectors(packed: str, shown: list[simt.Access]) -> list[Any]:
    """Name what crossed otherwise than it was counted."""
    header, columns = _wire.unpack(packed)
    wrong: list[Any] = []
    part = frame = 0
    for q, (told, one) in enumerate(zip(header["requests"], shown, strict=True)):
        counts = (told["parts"], told["lines"], told["unique"], told["moved"], told["efficiency"])
        if counts != (one.sectors, one.lines, one.unique_bytes, one.moved_bytes, one.efficiency):
            wrong.append(counts)
        if told["first"] != frame:
            wrong.append(("first", told["first"]))
        for k, (address, used) in enumerate(zip(one.sector_addresses, one.used, strict=True)):
            row = (columns["address"][part + k], columns["used"][part + k], columns["useful"][part + k])
            if row != (address, used, used.bit_count()):
                wrong.append((q, k, row))
        for lane, own in enumerate(one.lane_sectors):
            if columns["sector"][q, lane] != (own[0] if own else -1):
                wrong.append((q, "lane", lane))
            address_of = one.addresses[lane]
            if columns["asked"][q, lane] != (-1 if address_of is None else address_of):
                wrong.append((q, "asked", lane))
        part, frame = part + one.sectors, frame + 1 + one.sectors
    if header["steps"] != frame:
        wrong.append(("steps", header["steps"]))
    return wrong


def wrong_banks(packed: str, shown: list[simt.BankAccess]) -> list[Any]:
    header, columns = _wire.unpack(packed)
    wrong: list[Any] = []
    wave = word = 0
    for q, (told, one) in enumerate(zip(header["requests"], shown, strict=True)):
        counts = (told["parts"], told["phases"], told["ways"], told["conflicts"], told["paired"])
        if counts != (one.wavefronts, one.phases, one.ways, one.conflicts, one.paired_wavefronts):
            wrong.append(counts)
        for served in one.served:
            phase, _, ways, busiest, start = columns["wave"][wave].tolist()
            in_phase = [w for mate in one.served if mate.phase == served.phase for w in mate.words]
            most = sum(w.bank == busiest for w in in_phase)
            if (phase, ways, start, most) != (served.phase, one.ways_by_phase[served.phase], word, ways):
                wrong.append((q, "wave", wave))
            for given_word in served.words:
                mask = sum(1 << lane for lane in given_word.lanes)
                row = (columns["bank"][word], columns["word"][word], columns["wanted"][word])
                if row != (given_word.bank, given_word.word, mask):
                    wrong.append((q, "word", word))
                word += 1
            wave += 1
    return wrong


@given(st.lists(requests(), min_size=1, max_size=4))
def test_what_crosses_is_what_was_counted(many: list[Any]) -> None:
    first = [simt.sectors(*one) for one in many]
    assert wrong_sectors(AccessPlayer({f"{i}": one for i, one in enumerate(first)}).trace, first) == []
    second = [simt.wavefronts(*one) for one in many]
    assert wrong_banks(AccessPlayer({f"{i}": one for i, one in enumerate(second)}).trace, second) == []


def test_another_request_is_seen() -> None:
    """A mutant: the scene of one pattern, compared with the counts of its neighbour."""
    assert wrong_sectors(AccessPlayer(sectors("8 * lane")).trace, [sectors("8 * lane + 4")])
    assert wrong_banks(AccessPlayer(banks("8 * lane")).trace, [banks("8 * lane + 4")])


def test_it_opens_where_there_is_something_to_see() -> None:
    wasted = AccessPlayer({"a": sectors("4 * lane"), "b": sectors("8 * lane")})
    assert wasted.cursor == 5 + 8 and wasted.options["poster"] == 13
    conflict = AccessPlayer({"a": banks("4 * lane"), "b": banks("128 * lane")})
    assert conflict.cursor == 2 + 16  # half-way through 32 wavefronts
    perfect = AccessPlayer({"a": sectors("4 * lane"), "b": sectors("4 * lane + 64")})
    assert perfect.cursor == 5 + 4  # nothing is wasted: the last frame
    assert AccessPlayer(sectors("4 * lane"), start=0).cursor == 0
    nobody = AccessPlayer(simt.sectors([None] * 32, 4))
    assert (nobody.cursor, repr(nobody)) == (0, "AccessPlayer(sectors, 1 request of 0 sectors, 1 steps)")


def test_the_python_makes_the_scene_again() -> None:
    shown = {"a": banks("4 * (lane ^ 5) if lane % 3 else None", 4), "b": banks("16 * lane", 16)}
    header, _ = _wire.unpack(AccessPlayer(shown).trace)
    scope: dict[str, Any] = {}
    exec(header["python"].replace("widgets.AccessPlayer(", "again = ("), scope)
    assert scope["again"] == shown


def test_options_reach_the_browser() -> None:
    player = AccessPlayer(sectors("8 * lane"), start=2, rate=4, title="Mine", future="hidden", task="look.")
    assert player.options == {
        "rate": 4.0,
        "title": "Mine",
        "future": "hidden",
        "task": "look.",
        "verify": True,
    }
    assert "share a sector" in AccessPlayer(sectors("8 * lane")).options["task"]


def test_show_replaces_the_requests_and_the_task_of_the_mode() -> None:
    player = AccessPlayer(sectors("8 * lane"))
    player.show({"x": banks("128 * lane")})
    assert repr(player) == "AccessPlayer(banks, 1 request of 32 wavefronts, 33 steps)"
    assert "same bank" in player.options["task"] and player.options["poster"] == player.cursor == 16
    kept = AccessPlayer(sectors("8 * lane"), task="look.")
    kept.show(banks("0"))
    assert kept.options["task"] == "look."


MANY = {str(i): sectors("4 * lane") for i in range(9)}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: AccessPlayer({}), "0 requests.*from 1 to 8"),
        (lambda: AccessPlayer(MANY), "9 requests.*from 1 to 8"),
        (lambda: AccessPlayer({"": sectors("lane")}), "from 1 to 40 characters"),
        (lambda: AccessPlayer({"x" * 41: sectors("lane", 1)}), "from 1 to 40 characters"),
        (
            lambda: AccessPlayer({"a": sectors("4 * lane + 2")}),
            "Lane 0 of 'a' asks for 4 bytes at 2.*multiple",
        ),
        (lambda: AccessPlayer({"a": sectors("lane << 53", 1)}), "browser counts exactly.*offset"),
        (lambda: AccessPlayer(sectors("4 * lane"), start=5), "start is 5.*at most 4"),
        (lambda: AccessPlayer(sectors("4 * lane"), rate=0), "rate is 0.*above 0"),
        (lambda: AccessPlayer(sectors("4 * lane"), future="gone"), "'gone'.*dimmed, hidden"),
    ],
)
def test_what_cannot_be_shown_is_refused(call: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call()


@pytest.mark.wrong_type
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"a": 5}, "Request 'a' is int.*simt.sectors"),
        ({"a": sectors("lane", 1), "b": banks("lane", 1)}, "mixed.*two players"),
    ],
)
def test_a_wrong_kind_is_refused(given: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        AccessPlayer(given)


# ------------------------------------------------------------------------------------ the reader's own


def ask(player: AccessPlayer, **values: str) -> dict[str, Any]:
    default = {"pattern": "8 * lane", "element_bytes": "4", "memory": "global"}
    player.request = {"id": "1", "kind": "own", "values": {**default, **values}}
    return player.reply


def test_an_own_pattern_is_counted_beside_lanes_side_by_side() -> None:
    player = lesson.own_access()
    assert repr(player) == "AccessPlayer(sectors, 2 requests of 4, 8, 14 steps)"
    assert (
        ask(player, pattern="128 * lane")["done"] == "Now shown: 32 sectors, 12.5 % of their bytes asked for."
    )
    header, _ = _wire.unpack(player.trace)
    assert [one["name"] for one in header["requests"]] == ["lanes side by side", "128 * lane"]
    done = ask(player, pattern="16*lane", element_bytes="16", memory="shared")["done"]
    assert done == "Now shown: 4 wavefronts in 4 phases."
    assert player.cursor == 5 + 4  # the own pattern is the one on show


def test_a_painted_pattern_is_a_list() -> None:
    player = lesson.own_access()
    painted = ", ".join("-" if lane == 3 else str(4 * (lane // 2)) for lane in range(32))
    assert ask(player, pattern=painted)["done"] == "Now shown: 2 sectors, 100 % of their bytes asked for."
    _, columns = _wire.unpack(player.trace)
    assert columns["asked"][1].tolist() == [-1 if lane == 3 else 4 * (lane // 2) for lane in range(32)]
    assert np.array(columns["sector"])[1, 3] == -1


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("4 * tid", "the name 'tid'"),
        ("4, 8", "2 addresses, but a warp has 32 lanes"),
        ("4, 8, x", "'x'"),
        ("2 * lane", "asks for 4 bytes at 2"),
        ("lane << 53", "browser counts exactly"),
        ("", "cannot be read"),
    ],
)
def test_a_pattern_that_cannot_be_shown_is_said_at_its_field(pattern: str, said: str) -> None:
    player = lesson.own_access()
    before = player.trace
    reply = ask(player, pattern=pattern)
    assert said in reply["error"] and reply["field"] == "pattern"
    assert player.trace == before
