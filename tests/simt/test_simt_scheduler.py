"""What `simulate` accepts, and small runs whose numbers can be followed by hand."""

from __future__ import annotations

import dataclasses
import pickle
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


def test_a_warp_that_has_exited_holds_up_no_barrier() -> None:
    # w1 has one barrier less: the second opens the cycle after its last issue, not after its sum has landed.
    trace = simt.simulate([[simt.bar(), simt.bar(), ADD], [simt.bar(), ADD, ADD]], schedulers=2)
    assert words(trace, 1)[:6] == ["issues", "issues", "result", "result", "result", "issues"]
    assert words(trace, 0)[:7] == ["issues", "issues"] + ["barrier"] * 4 + ["issues"]
    assert trace.until[2:6, 0].tolist() == [-1, -1, -1, 6]
    assert trace.why(3, 0) == "Scheduler 0 issues nothing: w0 waits at the barrier for w1."
    assert trace.deadlock is None


def test_a_barrier_that_some_threads_miss_is_reported_not_hung() -> None:
    half = simt.Instruction("bar", lanes=16)
    trace = simt.simulate(
        [[ADD, half, ADD], [ADD, simt.bar(), ADD], [LOAD, ADD]], blocks=[0, 0, 1], schedulers=3
    )
    assert trace.issue_count == 6
    assert trace.cycles == 15  # the other block runs to its end, and one cycle shows the deadlock
    assert trace.deadlock == (
        "Block 0 never ends: w0 and w1 wait at a barrier; only 16 of the 32 threads of w0 reached it."
    )
    assert words(trace, 1)[-1] == "barrier"
    assert trace.until[-1].tolist() == [-1, -1, -1]
    assert trace.why_warp(9, 1) == (
        "w1 waits at a barrier that never opens: 16 of the 32 threads of w0 reached it."
    )
    assert "deadlock" in [label for _, label in trace.events()]


def test_the_last_warp_of_a_block_has_as_many_threads_as_it_has() -> None:
    tail = [simt.Instruction(dst="r0", lanes=20), simt.Instruction("bar", lanes=20)]
    assert simt.simulate([[ADD, simt.bar()], tail]).deadlock is None
    # Twelve threads return before the barrier: they have exited, and it does not wait for them.
    early = [ADD, simt.Instruction("bar", lanes=20), simt.Instruction(dst="r0", lanes=20)]
    assert simt.simulate([[ADD, simt.bar()], early]).deadlock is None


def test_two_levels_are_round_robin_while_six_warps_suffice() -> None:
    program = simt.load_compute(4, 3, load_latency=40)
    for schedulers in (1, 4):
        runs = [
            simt.simulate([program] * 6 * schedulers, schedulers=schedulers, policy=policy)
            for policy in ("lrr", "two_level")
        ]
        assert (runs[0].issued == runs[1].issued).all()


def test_the_seventh_warp_waits_until_one_leaves_for_its_load() -> None:
    trace = simt.simulate([[ADD, LOAD, ADD]] * 8, schedulers=1, policy="two_level")
    assert words(trace, 6)[:7] == ["pending"] * 7
    assert trace.why_warp(3, 6) == "w6 waits for a place in the active pool, to issue FFMA r2."
    left = next(t for t in range(trace.cycles) if words(trace, 0)[t] == "memory")
    assert words(trace, 6)[left] in ("ready", "issues")
    assert words(trace, 7)[left] == "pending"


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
        (
            {"policy": "gtoo"},
            "Unknown policy 'gtoo'; use one of lrr, gto, gty, oldest, two_level. Did you mean",
        ),
        ({"schedulers": 0}, "schedulers is 0, but must be a whole number of at least 1"),
        ({"schedulers": -4}, "schedulers is -4"),
        ({"max_outstanding": 0}, "max_outstanding is 0.*None"),
        ({"blocks": [0]}, "blocks has length 1, but there are 2 warps; give the block index of every warp"),
        ({"blocks": [0, -1]}, r"blocks\[1\] is -1"),
        ({"programs": []}, "programs has 0 warps and no instruction"),
        ({"programs": [[], []]}, "programs has 2 warps and no instruction"),
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


def test_arrays_of_cycles_are_made_when_first_read_and_copies_have_them() -> None:
    programs = [simt.load_compute(2, 2)] * 3
    trace = simt.simulate(programs)
    assert "state" not in vars(trace)
    assert not hasattr(trace, "states")
    other = pickle.loads(pickle.dumps(trace))
    moved = dataclasses.replace(simt.simulate(programs), state=np.zeros_like(trace.state))
    for name in ("state", "pc", "until", "lanes"):
        assert not getattr(trace, name).flags.writeable
        assert np.array_equal(getattr(trace, name), getattr(other, name))
        assert np.array_equal(getattr(trace, name), getattr(moved, name)) == (name != "state")
