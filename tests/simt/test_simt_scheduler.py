"""What `simulate` accepts, and small runs whose numbers can be followed by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pulsewarp import simt

LOAD = simt.Instruction("mem", 10, 1, "r1", (), "LDG r1")
ADD = simt.Instruction("alu", 4, 1, "r2", ("r1", "r2"), "FFMA r2")


def words(trace: simt.WarpTrace, w: int) -> list[str]:
    return [simt.STATES[code] for code in trace.state[:, w]]


def test_a_load_and_its_use() -> None:
    trace = simt.simulate([[LOAD, ADD]], schedulers=1)
    assert words(trace, 0) == ["issues"] + ["memory"] * 9 + ["issues"] + ["result"] * 3
    assert trace.until[:, 0].tolist() == [-1] + [10] * 9 + [-1] + [14] * 3
    assert trace.pc[:, 0].tolist() == [0] + [1] * 10 + [2] * 3
    assert trace.requests.tolist() == [[0, 0, 0, 10]]
    assert trace.cycles == 14


def test_schedulers_share_the_memory_unit_in_index_order() -> None:
    trace = simt.simulate([[LOAD]] * 3, schedulers=3)
    assert trace.issued.tolist()[:3] == [[0, -1, -1], [-1, 1, -1], [-1, -1, 2]]
    assert words(trace, 2)[:3] == ["unit", "unit", "issues"]
    assert trace.until[:3, 2].tolist() == [1, 2, -1]


def test_a_barrier_opens_the_cycle_after_the_last_arrival() -> None:
    trace = simt.simulate([[simt.bar(), ADD], [ADD, ADD, simt.bar(), ADD]], schedulers=2)
    assert words(trace, 0)[:7] == ["issues"] + ["barrier"] * 5 + ["issues"]
    assert trace.until[:7, 0].tolist() == [-1, -1, -1, -1, -1, 6, -1]
    assert words(trace, 1)[:9] == ["issues"] + ["result"] * 3 + [
        "issues",
        "issues",
        "result",
        "result",
        "issues",
    ]


def test_blocks_have_barriers_of_their_own() -> None:
    slow = [ADD] * 5 + [simt.bar()]
    apart = simt.simulate([[simt.bar(), ADD], slow, [simt.bar(), ADD]], schedulers=3, blocks=[0, 1, 0])
    assert words(apart, 0)[:3] == ["issues", "issues", "result"]
    together = simt.simulate([[simt.bar(), ADD], slow, [simt.bar(), ADD]], schedulers=3)
    assert words(together, 0)[1:17] == ["barrier"] * 16


def test_a_store_in_flight_keeps_its_warp() -> None:
    store = simt.Instruction("mem", 5, 1, None, ("r1",), "STG")
    trace = simt.simulate([[store], [ADD] * 3], schedulers=2)
    assert words(trace, 0) == ["issues"] + ["memory"] * 4 + ["finished"] * 7


def test_a_warp_without_instructions_has_finished() -> None:
    trace = simt.simulate([[], [ADD]], schedulers=1)
    assert words(trace, 0) == ["finished"] * 4
    assert trace.pc[:, 0].tolist() == [0] * 4


def test_equal_programs_are_kept_once() -> None:
    trace = simt.simulate([[LOAD, ADD], [LOAD, ADD], (LOAD, ADD)])
    assert len({id(program) for program in trace.programs}) == 1


def test_a_barrier_ignores_its_other_fields() -> None:
    odd = simt.Instruction("bar", latency=0, interval=0, dst="r1", srcs=("r1",))
    assert odd == simt.bar()


def test_more_resources_never_hurt_a_stream() -> None:
    cycles = [simt.simulate([simt.load_stream(8)] * 8, max_outstanding=n).cycles for n in (1, 2, 4, 8, None)]
    assert cycles == sorted(cycles, reverse=True)


def test_greedy_can_lose() -> None:
    # Six warps on a unit taken for one cycle, latency 4: leftover warps run exposed at the end.
    programs = [simt.chain(24)] * 6
    cycles = {policy: simt.simulate(programs, schedulers=1, policy=policy).cycles for policy in simt.POLICIES}
    assert cycles["lrr"] < cycles["gto"]


def test_long_idle_times_are_skipped() -> None:
    slow = simt.Instruction("mem", 900_000, 1, "r1", ("r1",), "LDG")
    trace = simt.simulate([[slow] * 3], schedulers=1)
    assert trace.cycles == 2_700_000
    assert np.count_nonzero(trace.issued >= 0) == 3


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"policy": "gtoo"}, "Unknown policy 'gtoo'; use one of lrr, gto, gty, oldest. Did you mean 'gto'"),
        ({"policy": "two_level"}, "Unknown policy 'two_level'; use one of lrr, gto, gty, oldest"),
        ({"schedulers": 0}, "schedulers is 0, but must be a whole number of at least 1"),
        ({"schedulers": -4}, "schedulers is -4"),
        ({"max_outstanding": 0}, "max_outstanding is 0.*None"),
        ({"blocks": [0]}, "blocks has length 1, but there are 2 warps; give the block index of every warp"),
        ({"blocks": [0, -1]}, r"blocks\[1\] is -1"),
        ({"programs": []}, "programs has 0 warps and no instruction"),
        ({"programs": [[], []]}, "programs has 2 warps and no instruction"),
        (
            {"programs": [[simt.bar(), ADD], [ADD]]},
            r"In block 0 the number of barriers differs \(w0: 1, w1: 0\), so one would never open",
        ),
        (
            {"programs": [[simt.Instruction("mem", 1_000_000, 1, "r", ("r",))] * 99]},
            r"passes 16777216 cycles, but cycles x warps may be at most 16777216 \(here 1 warp\)",
        ),
        (
            {"programs": [[simt.Instruction("mem", 1_000_000, 1, "r")]] * 99},
            r"passes 169466 cycles.*\(here 99 warps\)",
        ),
        ({"programs": [[simt.Instruction(f"unit{u}") for u in range(70)]]}, "name 70 units.*at most 64"),
    ],
)
def test_bad_input_gets_a_sentence(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        simt.simulate(**({"programs": [[ADD], [LOAD]]} | arguments))


def test_an_unknown_keyword_names_the_nearest() -> None:
    with pytest.raises(TypeError, match=r"does not know the keyword 'scheduler'\. Did you mean 'schedulers'"):
        simt.simulate([[ADD]], scheduler=2)


@pytest.mark.wrong_type
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"schedulers": 2.5}, "schedulers is 2.5"),
        ({"schedulers": True}, "schedulers is True"),
        ({"policy": None}, "Unknown policy None"),
        ({"programs": [ADD, LOAD]}, "one program per warp"),
        ({"programs": [["FFMA"]]}, "Instruction 0 of w0 is 'FFMA', but must be a simt.Instruction"),
        ({"blocks": [0, "a"]}, r"blocks\[1\] is 'a'"),
    ],
)
def test_a_wrong_type_gets_a_sentence(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        simt.simulate(**({"programs": [[ADD], [LOAD]]} | arguments))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"latency": 0}, "latency is 0, but must be a whole number of at least 1"),
        ({"latency": -3}, "latency is -3"),
        ({"latency": 10**7}, "at most 1000000"),
        ({"interval": 0}, "interval is 0"),
        ({"lanes": 0}, "lanes is 0"),
        ({"lanes": 33}, "lanes is 33.*at most 32"),
        ({"unit": ""}, "unit is ''"),
    ],
)
def test_a_bad_instruction_gets_a_sentence(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        simt.Instruction(**fields)


@pytest.mark.wrong_type
@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"srcs": "r0"}, r"srcs is 'r0', but must be several names; write \('r0',\)"),
        ({"unit": 3}, "unit is 3"),
        ({"latency": "4"}, "latency is '4'"),
    ],
)
def test_an_instruction_of_wrong_types_gets_a_sentence(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        simt.Instruction(**fields)


@pytest.mark.parametrize(
    "call",
    [
        lambda: simt.chain(0),
        lambda: simt.chain(4, ilp=0),
        lambda: simt.load_compute(0, 1),
        lambda: simt.load_compute(1, -1),
        lambda: simt.load_stream(0),
        lambda: simt.chain_and_barrier(0, 1),
        lambda: simt.diverge(33, 1, 1),
        lambda: simt.diverge(1, 0, 1),
        lambda: simt.littles_law_warps(0),
        lambda: simt.littles_law_warps(4, ilp=-1),
        lambda: simt.littles_law_warps(4, interval=0),
    ],
)
def test_families_refuse_bad_numbers(call: Any) -> None:
    with pytest.raises(ValueError, match="must be a whole number"):
        call()
