"""Barriers read from a trace: held against counts made another way, warp by warp and cycle by cycle."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsewarp import simt

Instruction = simt.Instruction
BARRIER = simt.STATES.index("barrier")
ISSUES = simt.STATES.index("issues")


@st.composite
def traces(draw: st.DrawFn) -> simt.WarpTrace:
    """Return a run of up to 8 warps in up to 3 blocks; warps exit early, and threads of a warp may."""
    warps = draw(st.integers(1, 8))
    work = st.builds(
        Instruction,
        unit=st.sampled_from(["alu", "mem"]),
        latency=st.integers(1, 9),
        dst=st.sampled_from(["r0", "r1"]),
        srcs=st.just(("r0",)),
    )
    one = st.lists(st.one_of(work, work, st.just(simt.bar())), max_size=8)
    programs = []
    for _ in range(warps):
        program = draw(one)
        keep = draw(
            st.integers(0, len(program))
        )  # from here on only some lanes are left, so nobody is missed
        programs.append(program[:keep] + [dataclasses.replace(i, lanes=20) for i in program[keep:]])
    if not any(programs):
        programs[0] = [simt.bar()]
    return simt.simulate(
        programs,
        schedulers=draw(st.integers(1, 4)),
        policy=draw(st.sampled_from(sorted(simt.POLICIES))),
        blocks=[draw(st.integers(0, 2)) for _ in range(warps)],
    )


def counted(trace: simt.WarpTrace, t: int, block: int) -> tuple[int, int, int, int]:
    """Return warps and threads at the block's present barrier at the end of cycle t, and those expected.

    Counted from the warps' states and programs alone: what stands or arrives, and what has not exited.
    """
    there = threads = warps = expected = 0
    for w, program in enumerate(trace.programs):
        pc, state = int(trace.pc[t, w]), trace.state[t, w]
        arrives = state == ISSUES and program[pc].unit == "bar"
        done = pc + (state == ISSUES)
        if trace.blocks[w] != block or (done == len(program) and state != BARRIER and not arrives):
            continue
        warps += 1
        if state == BARRIER or arrives:
            at = pc if arrives else pc - 1
            there, threads = there + 1, threads + program[at].lanes
            expected += max(i.lanes for i in program[at:])
        else:
            expected += max(i.lanes for i in program[done:])
    return there, warps, threads, expected


def wrong(trace: simt.WarpTrace, found: simt.Barriers) -> list[str]:
    """Name what barriers say and the trace does not; empty when all agrees."""
    bad = [check.name for check in found.verify().checks if not check.passed]
    told = found.sentences()
    for t in range(trace.cycles):
        for i, block in enumerate(found.blocks):
            there, warps, threads, expected = counted(trace, t, block)
            if found.current[t, i] and (found.arrived[t, i], found.expected[t, i]) != (threads, expected):
                bad.append(f"threads at {t}")
            if told[t][i] != found.why(t, block):
                bad.append(f"sentence at {t}")
            said = re.search(r"(\d+) of (\d+) warps? (?:is|are) there, (\d+) of (\d+) threads", told[t][i])
            if said and tuple(map(int, said.groups())) != (there, warps, threads, expected):
                bad.append(f"numbers at {t}")
            waits = "waits at barrier" in told[t][i]
            full = "is full" in told[t][i] or "never ends" in told[t][i]
            if bool(there) != (waits or full):
                bad.append(f"who is there at {t}: {told[t][i]}")
            if waits and there == warps:
                bad.append(f"nobody is late at {t}: {told[t][i]}")
    return bad


@given(traces())
def test_counts_and_sentences_are_the_traces_own(trace: simt.WarpTrace) -> None:
    assert wrong(trace, simt.barriers(trace)) == []


@given(traces())
def test_late_is_who_is_awaited(trace: simt.WarpTrace) -> None:
    found = simt.barriers(trace)
    for t in range(trace.cycles):
        for w in range(trace.warps):
            block = trace.blocks[w]
            done = int(trace.pc[t, w]) + int(trace.state[t, w] == ISSUES)
            program = trace.programs[w]
            at = trace.state[t, w] == BARRIER or (
                trace.state[t, w] == ISSUES and program[done - 1].unit == "bar"
            )
            wanted = bool(counted(trace, t, block)[0]) and not at and done < len(program)
            assert found.late[t, w] == wanted, (t, w)


@given(traces())
def test_a_warps_own_sentence_says_where_it_stands(trace: simt.WarpTrace) -> None:
    found = simt.barriers(trace)
    for w in range(trace.warps):
        told = found.of_warp(w)
        for t in range(trace.cycles):
            text = [text for cycle, text in told if cycle <= t][-1]
            assert ("has stood" in text) == (trace.state[t, w] == BARRIER), (t, w, text)


@pytest.fixture
def late() -> simt.WarpTrace:
    slow, other = simt.chain_and_barrier(2, 9), simt.chain_and_barrier(2, 3)
    return simt.simulate([slow] + [other] * 3)


@pytest.mark.parametrize("shift", [-1, 1])
def test_mutant_waits_that_begin_or_end_a_cycle_off_are_found(late: simt.WarpTrace, shift: int) -> None:
    stands = late.state == BARRIER
    cut = stands & ~np.roll(stands, shift, 0)
    moved = dataclasses.replace(late, state=np.where(cut, simt.STATES.index("result"), late.state))
    found = dataclasses.replace(simt.barriers(late), trace=moved)
    assert [check.name for check in found.verify().checks if not check.passed] == ["waits in between"]
    assert wrong(moved, found)


@pytest.mark.parametrize("shift", [-1, 1])
def test_mutant_a_barrier_that_opens_a_cycle_off_is_found(late: simt.WarpTrace, shift: int) -> None:
    found = simt.barriers(late)
    off = [dataclasses.replace(one, opens=(one.opens or 0) + shift) for one in found.rounds]
    moved = simt.Barriers(late, tuple(off))
    assert not moved.verify().passed
    assert wrong(late, moved)


def test_mutant_an_arrival_that_is_not_there_is_found(late: simt.WarpTrace) -> None:
    found = simt.barriers(late)
    first, *rest = found.rounds
    fewer = dataclasses.replace(first, arrivals=first.arrivals[1:])
    names = {c.name for c in simt.Barriers(late, (fewer, *rest)).verify(12).checks if not c.passed}
    assert names == {"every barrier is reached", "waits in between", "threads at barriers"}


def test_one_late_warp(late: simt.WarpTrace) -> None:
    found = simt.barriers(late)
    first = found.rounds[0]
    assert (first.arrivals, first.last, first.opens) == (((9, 1), (9, 2), (9, 3), (33, 0)), (0,), 34)
    assert first.waited(9) == 0 and first.waited(10) == 3 and first.waited(1000) == 3 * 24
    assert found.why(33, 0) == (
        "Barrier 1 of block 0 is full: w0 arrives last, the block has waited 72 warp-cycles for it, and all "
        "may go on in cycle 34."
    )
    assert found.why(34, 0).startswith(
        "Barrier 1 has opened. Block 0 is on its way to barrier 2: nobody is there"
    )
    assert found.why(70, 0) == (
        "Barrier 2 has opened. Block 0 has passed its 2 barriers; it waited 150 warp-cycles at them."
    )


def test_a_barrier_holds_its_own_block_only() -> None:
    slow, fast = simt.chain_and_barrier(1, 12), simt.chain_and_barrier(1, 2)
    found = simt.barriers(simt.simulate([slow, fast, fast, fast], blocks=[0, 0, 1, 1]))
    assert [(one.block, one.opens) for one in found.rounds] == [(0, 46), (1, 6)]


def test_whoever_exits_is_not_waited_for() -> None:
    add = Instruction(dst="r0", srcs=("r0",), text="FFMA r0, r0")
    found = simt.barriers(simt.simulate([[add] * 4, [add, simt.bar(), add]]))
    (one,) = found.rounds
    assert (one.arrivals, one.exits, one.opens) == (((1, 1),), ((12, 0),), 13)
    assert found.why(5, 0) == (
        "Block 0 waits at barrier 1: 1 of 2 warps is there, 32 of 64 threads; w0 is late: it waits for a "
        "result until 8, and has 2 FFMA to go, then it exits."
    )
    assert found.why(12, 0).startswith("Barrier 1 of block 0 is full: w0 exits last")


def test_a_barrier_some_threads_never_reach_is_a_deadlock_in_words() -> None:
    half, add = Instruction("bar", lanes=16), Instruction(dst="r0", srcs=("r0",))
    trace = simt.simulate([[add, half, add], [add] * 6 + [simt.bar(), add]])
    found = simt.barriers(trace)
    assert trace.deadlock and found.rounds[0].opens is None
    assert "at barrier 1, which never opens (16 of the 32 threads of w0 reached it)" in found.why(5, 0)
    assert found.why(trace.cycles - 1, 0) == (
        "Block 0 never ends: w0 and w1 wait at barrier 1, but only 16 of the 32 threads of w0 reached it."
    )
    assert found.verify(5).passed


def test_a_block_without_a_barrier_says_so() -> None:
    found = simt.barriers(simt.simulate([simt.chain(2), simt.chain_and_barrier(1, 1)], blocks=[3, 7]))
    assert found.blocks == (3, 7)
    assert found.why(0, 3) == "Block 3 has no barrier."


def test_bad_input(late: simt.WarpTrace) -> None:
    with pytest.raises(ValueError, match=r"block is 5, but the trace has 0; name one"):
        simt.barriers(late).why(0, 5)
    with pytest.raises(ValueError, match=r"t is 99, but must be a whole number .* at most 71"):
        simt.barriers(late).why(99, 0)
    with pytest.raises(ValueError, match=r"w is 4, .* at most 3"):
        simt.barriers(late).of_warp(4)


def test_an_unknown_keyword_is_answered_with_the_valid_ones(late: simt.WarpTrace) -> None:
    found = simt.barriers(late)
    calls: list[tuple[Callable[..., object], dict[str, int], str]] = [
        (found.why, {"t": 0, "blok": 0}, "t, block"),
        (found.of_warp, {"warp": 0}, "w"),
        (found.verify, {"t": 0}, "cycle"),
        (found.verify_frame, {"t": 0}, "cycle"),
        (found.rounds[0].waited, {"cycle": 0}, "t"),
        (simt.barriers, {"trase": 0}, "trace"),
    ]
    for call, given_keywords, valid in calls:
        with pytest.raises(TypeError, match=rf"does not know the keyword .*Valid: {valid}\."):
            call(**given_keywords)


@pytest.mark.wrong_type
def test_another_thing_than_a_trace() -> None:
    with pytest.raises(TypeError, match=r"pass what simt.simulate returned"):
        simt.barriers([simt.bar()])  # type: ignore[arg-type]  # on purpose
