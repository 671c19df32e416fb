"""Sentences, notable cycles, reprs: what a reader is told, and that it is true."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from simt_programs import runs

from pulsewarp import simt


def picture() -> simt.WarpTrace:
    """The run that the design's picture shows: eight warps, w3 with slow loads, a barrier."""
    load = simt.Instruction("mem", 18, 1, "r4", (), "LDG r4, [a]")
    slow = simt.Instruction("mem", 36, 1, "r4", (), "LDG r4, [a]")
    first = simt.Instruction("alu", 4, 1, "r5", ("r4", "r5"), "FFMA r5, r4, r5")
    second = simt.Instruction("alu", 4, 1, "r5", ("r5",), "FFMA r5, r5, r5")
    last = simt.Instruction("alu", 4, 1, "r6", ("r5",), "FFMA r6, r5, r5")
    return simt.simulate(
        [[slow if w == 3 else load, first, second] * 2 + [simt.bar(), last] for w in range(8)]
    )


def test_sentences_of_the_picture() -> None:
    trace = picture()
    assert [trace.why(23, s) for s in range(4)] == [
        "Scheduler 0 issues w4, next after w0 in round robin: FFMA; w0 is ready too and waits its turn.",
        "Scheduler 1 issues nothing: w1 waits for a result until 24, w5 until 25.",
        "Scheduler 2 issues w6: FFMA; w2 waits for a result until 26.",
        "Scheduler 3 issues nothing: w3 waits for memory until 42, w7 until 25.",
    ]
    assert trace.why(0, 0) == (
        "Scheduler 0 issues w0, the first in round robin: LDG; w4 is ready too and waits its turn."
    )
    assert trace.why(0, 1) == "Scheduler 1 issues nothing: w1 and w5 wait for the memory unit until 1."
    assert trace.why(60, 3) == (
        "Scheduler 3 issues nothing: w3 waits for memory until 83; w7 waits at the barrier for w3."
    )
    assert trace.why(88, 3) == (
        "Scheduler 3 issues w3: BAR, the last to arrive; w7 waits at the barrier until 89."
    )
    assert trace.why(94, 0) == "Scheduler 0 issues nothing: all its warps have finished."


def test_sentences_of_single_warps() -> None:
    trace = picture()
    assert trace.why_warp(0, 0) == "w0 issues LDG r4, [a] on 32 lanes."
    assert trace.why_warp(22, 3) == (
        "w3 waits for memory until 42: FFMA r5, r4, r5 needs r4 (LDG issued at 6)."
    )
    assert trace.why_warp(23, 0) == (
        "w0 is ready to issue LDG r4, [a]; scheduler 0 issues w4, next after w0 in round robin."
    )
    assert trace.why_warp(0, 5) == "w5 waits for the memory unit until 1, to issue LDG r4, [a]."
    assert trace.why_warp(60, 7) == "w7 waits at the barrier for w3."
    assert trace.why_warp(94, 0) == "w0 has finished."


@pytest.mark.parametrize(
    ("policy", "cycle", "reason"),
    [
        ("lrr", 1, "w1, next after w0 in round robin: FFMA; w2 is ready too and waits its turn."),
        ("gto", 0, "w0, the oldest ready: FFMA; w1 and w2 are ready too and wait their turn."),
        ("gto", 1, "w0, which issued last (greedy): FFMA; w1 and w2 are ready too and wait their turn."),
        ("gty", 0, "w2, the youngest ready: FFMA; w0 and w1 are ready too and wait their turn."),
        ("gty", 1, "w2, which issued last (greedy): FFMA; w0 and w1 are ready too and wait their turn."),
        ("oldest", 1, "w0, the oldest ready: FFMA; w1 and w2 are ready too and wait their turn."),
    ],
)
def test_the_policy_is_the_reason(policy: str, cycle: int, reason: str) -> None:
    trace = simt.simulate([simt.chain(2, ilp=2)] * 3, schedulers=1, policy=policy)
    expected = (
        reason
        if policy != "lrr"
        else reason.replace("w2 is ready", "w0 and w2 are ready").replace("waits its turn", "wait their turn")
    )
    assert trace.why(cycle, 0) == f"Scheduler 0 issues {expected}"


def test_other_waits_have_their_words() -> None:
    limited = simt.simulate([simt.load_stream(2)] * 8, schedulers=2, max_outstanding=2)
    assert limited.why(2, 0) == (
        "Scheduler 0 issues nothing: 4 warps wait for one of the 2 loads in flight until 18."
    )
    one = simt.simulate([simt.load_stream(2)], schedulers=1, max_outstanding=1)
    assert one.why(1, 0) == "Scheduler 0 issues nothing: w0 waits for the 1 load in flight until 18."
    assert one.why(30, 0) == "Scheduler 0 issues nothing: w0 waits for its last memory access until 36."
    assert one.why_warp(30, 0) == "w0 waits for its last memory access until 36."
    root = simt.Instruction("sfu", 20, 8, "r1", ("r0",), "MUFU r1, r0")
    busy = simt.simulate([[root], [root]], schedulers=1)
    assert busy.why(1, 0) == (
        "Scheduler 0 issues nothing: w0 waits for its last result until 20; "
        "w1 waits for the sfu unit until 8."
    )
    assert simt.simulate([simt.chain(1)], schedulers=2).why(0, 1) == (
        "Scheduler 1 issues nothing: it has no warps."
    )
    many = simt.simulate([simt.load_compute(1, 1)] * 6, schedulers=1)
    assert many.why(10, 0) == (
        "Scheduler 0 issues nothing: 6 warps wait for memory (w0 until 18, the last until 23)."
    )
    bars = simt.simulate([[simt.bar()]] * 8, schedulers=1)
    assert bars.why(1, 0) == (
        "Scheduler 0 issues w1, next after w0 in round robin: BAR; "
        "6 more warps are ready and wait their turn."
    )


@pytest.mark.exhaustive
@settings(max_examples=30)
@given(runs())
def test_every_sentence_is_true(arguments: dict[str, Any]) -> None:
    trace = simt.simulate(**arguments)
    told = trace.sentences()
    assert [len(row) for row in told] == [trace.schedulers] * trace.cycles
    for t in range(0, trace.cycles, 5):
        for s in range(trace.schedulers):
            sentence = trace.why(t, s)
            assert told[t][s] == sentence
            assert sentence.startswith(f"Scheduler {s} issues ")
            assert sentence.endswith(".")
            assert "  " not in sentence
            issuing = re.match(r"Scheduler \d+ issues w(\d+)", sentence)
            assert int(trace.issued[t, s]) == (int(issuing[1]) if issuing else -1)
            mine = set(range(s, trace.warps, trace.schedulers))
            for end in re.findall(r"until (\d+)", sentence):
                assert int(end) in {int(trace.until[t, w]) for w in mine}
            nobody_left = all(simt.STATES[trace.state[t, w]] == "finished" for w in mine)
            assert nobody_left == (("have finished" in sentence) or not mine)
        for w in range(trace.warps):
            word = simt.STATES[trace.state[t, w]]
            sentence = trace.why_warp(t, w)
            assert sentence.startswith(f"w{w} ")
            assert ("waits" in sentence) == (word not in ("issues", "ready", "finished"))
            if word in ("memory", "result") and trace.pc[t, w] < len(trace.programs[w]):
                assert " needs r" in sentence


def test_events_of_the_picture() -> None:
    assert picture().events() == [
        (0, "first loads"),
        (18, "first data back"),
        (48, "first at a barrier"),
        (89, "barrier opens"),
        (91, "last issue"),
    ]


def test_events_of_other_programs() -> None:
    assert simt.simulate([simt.chain(3)], schedulers=1).events() == [
        (0, "first arithmetic"),
        (8, "last issue"),
    ]
    store = simt.Instruction("mem", 1, 1, None, ("r0",), "STG")
    assert simt.simulate([[store]]).events() == [(0, "last issue")]
    labels = [label for _, label in simt.simulate([simt.chain_and_barrier(9, 2)] * 2).events()]
    opens = ["first barrier opens", "last barrier opens"]
    # The last instruction is a barrier, which opens while the last sums are still in flight.
    assert labels == ["first arithmetic", "first at a barrier", opens[0], "last issue", opens[1]]


@settings(max_examples=30)
@given(runs())
def test_events_are_in_order_and_inside(arguments: dict[str, Any]) -> None:
    trace = simt.simulate(**arguments)
    cycles = [t for t, _ in trace.events()]
    assert cycles == sorted(set(cycles))
    assert all(0 <= t < trace.cycles for t in cycles)
    assert len(cycles) <= 8


def test_arrays_are_read_only_and_contiguous() -> None:
    trace = picture()
    for name, dtype in {
        "issued": np.int32, "state": np.int8, "pc": np.int32, "until": np.int32,
        "lanes": np.uint8, "requests": np.int64,
    }.items():  # fmt: skip
        array = getattr(trace, name)
        assert array.dtype == dtype
        assert array.flags.c_contiguous
        assert not array.flags.writeable


def test_reprs_are_short_and_stable() -> None:
    assert repr(picture()) == "WarpTrace(8 warps, 4 schedulers, lrr: 64 instructions in 95 cycles)"
    assert repr(simt.simulate([simt.chain(1)], schedulers=1)) == (
        "WarpTrace(1 warp, 1 scheduler, lrr: 1 instruction in 4 cycles)"
    )


@pytest.mark.parametrize(("t", "s"), [(-1, 0), (95, 0), (0, 4), (0, -1)])
def test_a_cycle_or_scheduler_that_is_not_there(t: int, s: int) -> None:
    with pytest.raises(ValueError, match=r"at least 0 and at most (94|3)\."):
        picture().why(t, s)


def test_a_warp_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="w is 8, but must be a whole number of at least 0 and at most 7"):
        picture().why_warp(0, 8)
