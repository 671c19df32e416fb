"""The SM's ledger: slots are used or lost, and every loss has one reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from simt_programs import runs

from pulsewarp import ledger, simt
from pulsewarp.ledger import by_cycle


def check_identities(trace: simt.WarpTrace, book: ledger.WarpLedger) -> None:
    cycles = np.arange(1, trace.cycles + 1)
    assert (book.slots == trace.schedulers * cycles).all()
    assert (book.issued + sum(book.lost.values()) == book.slots).all()
    assert book.issued[-1] == trace.issue_count
    ends = (trace.pc[-1] + (trace.state[-1] == simt.STATES.index("issues"))).tolist()
    begun = [i for program, end in zip(trace.programs, ends, strict=True) for i in program[:end]]
    assert book.lanes[-1] == sum(i.lanes for i in begun)
    assert book.requests[-1] == sum(i.unit == "mem" for i in begun)
    assert (book.masked + book.lanes == 32 * book.issued).all()
    for count in (book.slots, book.issued, book.lanes, book.requests, book.masked, *book.lost.values()):
        assert (np.diff(count) >= 0).all()
        assert not count.flags.writeable


def read_reason(trace: simt.WarpTrace, t: int, s: int) -> str:
    """The rule in words, one scheduler and cycle at a time."""
    waits = []
    for w in range(s, trace.warps, trace.schedulers):
        word = simt.STATES[trace.state[t, w]]
        if word != "finished":
            until = int(trace.until[t, w])
            has_more = trace.pc[t, w] < len(trace.programs[w])
            waits.append((not has_more, until < 0, until, trace.state[t, w], word))
    return min(waits)[-1] if waits else "finished"


def check_reasons(trace: simt.WarpTrace, book: ledger.WarpLedger) -> None:
    for t in range(trace.cycles):
        told = [read_reason(trace, t, s) for s in range(trace.schedulers) if trace.issued[t, s] < 0]
        for reason, count in book.lost.items():
            assert count[t] - (count[t - 1] if t else 0) == told.count(reason)


@pytest.mark.exhaustive
@settings(max_examples=50)
@given(runs())
def test_every_slot_is_used_or_lost_for_one_reason(arguments: dict[str, Any]) -> None:
    trace = simt.simulate(**arguments)
    book = ledger.warp(trace)
    check_identities(trace, book)
    check_reasons(trace, book)


@pytest.mark.parametrize("kernel", ["naive_product", "tiled_product"])
def test_traffic_is_the_traced_kernels(kernel: str) -> None:
    run = simt.lesson_kernels.product(getattr(simt.lesson_kernels, kernel), m=20, k=16, n=16).trace()
    book = ledger.warp(run.simulate(), kernel=run)
    own = [i for w in run.resident_warps() for i in run.warps[w].instructions]
    asked = [i for i in own if i.sectors is not None and i.memory is not None and i.elements is not None]
    assert book.sectors is not None and book.bytes is not None and book.wavefronts is not None
    assert book.sectors[-1] == sum(i.sectors or 0 for i in own) > 0
    assert book.wavefronts[-1] == sum(i.wavefronts or 0 for i in own)
    assert book.bytes[-1] == sum(i.memory.element_bytes * int((i.elements >= 0).sum()) for i in asked)
    assert book.masked[-1] == sum(32 - i.lanes for i in own)
    assert (np.diff(book.sectors) >= 0).all()
    assert {"sectors", "bytes", "wavefronts"} <= set(book.at(-1))
    with pytest.raises(ValueError, match=r"is not one of .*pass the kernel whose simulate returned"):
        ledger.warp(simt.simulate([simt.chain(1)]), kernel=run)


def test_reasons_of_a_small_run() -> None:
    # One warp: a load of 18 cycles, a sum of 4 that uses it, and a scheduler next door without warps.
    trace = simt.simulate([simt.load_compute(1, 1)], schedulers=2)
    assert ledger.warp(trace).at(-1) == {
        "slots": 44,
        "issued": 2,
        "lost_unit": 0,
        "lost_memory": 17,
        "lost_result": 3,
        "lost_barrier": 0,
        "lost_limit": 0,
        "lost_finished": 22,
        "lanes": 64,
        "requests": 1,
        "masked": 0,
    }


def test_the_wireframe_of_the_first_24_cycles() -> None:
    # The numbers drawn in the design's picture: 16 of 96 used, 64 lost to memory, 12 to the load unit, 4
    # to results. It draws a warp that was passed over for a load as waiting, which changes no count.
    load = simt.Instruction("mem", 18, 1, "r4", (), "LDG r4, [a]")
    late = simt.Instruction("mem", 36, 1, "r4", (), "LDG r4, [a]")
    first = simt.Instruction("alu", 4, 1, "r5", ("r4", "r5"), "FFMA r5, r4, r5")
    second = simt.Instruction("alu", 4, 1, "r5", ("r5",), "FFMA r5, r5, r5")
    programs = [(late if w == 3 else load, first, second) * 2 for w in range(8)]
    after = ledger.warp(simt.simulate(programs)).at(23)
    assert (after["issued"], after["slots"]) == (16, 96)
    assert (after["lost_memory"], after["lost_unit"], after["lost_result"]) == (64, 12, 4)


def test_half_a_warp_uses_half_its_lanes() -> None:
    trace = simt.matmul_kernel(np.ones((4, 4)), np.ones((4, 4))).simulate()
    book = ledger.warp(trace)
    assert book.lanes[-1] == 16 * book.issued[-1]


def test_repr_is_short_and_stable() -> None:
    trace = simt.simulate([simt.load_compute(1, 1)], schedulers=1)
    assert repr(ledger.warp(trace)) == (
        "WarpLedger(22 cycles: slots 22, issued 2, lost_unit 0, lost_memory 17, lost_result 3, "
        "lost_barrier 0, lost_limit 0, lost_finished 0, lanes 64, requests 1, masked 0)"
    )


def blame_memory(trace: simt.WarpTrace) -> Any:
    return np.where(trace.issued < 0, simt.STATES.index("memory"), 0)


def test_a_ledger_that_blames_memory_for_everything_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_cycle, "_blamed", blame_memory)
    trace = simt.simulate([simt.chain_and_barrier(2, 2), simt.chain_and_barrier(2, 5)])
    book = ledger.warp(trace)
    check_identities(trace, book)
    with pytest.raises(AssertionError):
        check_reasons(trace, book)
