"""What `WarpTrace.verify` finds: nothing in true runs, and every fault planted in a trace by its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from simt_programs import runs, stretches

from pulsewarp import simt
from pulsewarp.simt import Instruction, WarpTrace

pytestmark = pytest.mark.exhaustive

CODE = {word: k for k, word in enumerate(simt.STATES)}
LOAD = Instruction("mem", 9, 2, "r4", (), "LDG")
ADD = Instruction("alu", 4, 1, "r5", ("r4", "r5"), "FFMA")
SLOW = Instruction("sfu", 5, 3, "r6", ("r6",), "MUFU")


def run(policy: str = "lrr", warps: int = 8, limit: int | None = None) -> WarpTrace:
    """A run that leans on every rule: loads, a slow unit, late warps at a barrier, what comes after."""
    program = (LOAD, SLOW, ADD, simt.bar(), ADD, LOAD, ADD)
    late = (LOAD, *[ADD] * 3, *program[1:])
    programs = [late if w % 3 == 0 else program for w in range(warps)]
    return simt.simulate(programs, schedulers=2, policy=policy, max_outstanding=limit)


def failed(trace: WarpTrace, cycle: int | None = None) -> set[str]:
    return {check.name for check in trace.verify(cycle).checks if not check.passed}


def changed(trace: WarpTrace, **arrays: Any) -> WarpTrace:
    """Return the trace with some entries changed: by name, (where, what)."""
    copies = {}
    for name, (where, what) in arrays.items():
        copies[name] = getattr(trace, name).copy()
        copies[name][where] = what
    return replace(trace, **copies)


def moved(trace: WarpTrace, w: int, pc: int, to: int) -> WarpTrace:
    """Return the trace with one issue of a warp in another cycle, its own arrays made to match."""
    t, s = int(np.flatnonzero(trace.state[:, w] == CODE["issues"])[pc]), w % trace.schedulers
    issued, state, lanes, counter = (a.copy() for a in (trace.issued, trace.state, trace.lanes, trace.pc))
    assert issued[to, s] < 0, "into an empty slot"
    issued[t, s], issued[to, s] = -1, w
    state[t, w], state[to, w] = CODE["ready"], CODE["issues"]
    lanes[to, w], lanes[t, w] = lanes[t, w], 0
    if to < t:
        counter[to + 1 : t + 1, w] += 1
    else:
        counter[t + 1 : to + 1, w] -= 1
    requests = trace.requests.copy()
    row = (requests[:, 1] == w) & (requests[:, 2] == pc)
    requests[row, 0], requests[row, 3] = to, requests[row, 3] + to - t
    order = np.lexsort((requests[:, 1] % trace.schedulers, requests[:, 0]))
    return replace(trace, issued=issued, state=state, lanes=lanes, pc=counter, requests=requests[order])


# ------------------------------------------------------------------------------------------ true runs


@settings(max_examples=150)
@given(runs())
def test_every_run_is_told_again_by_its_issues(arguments: dict[str, Any]) -> None:
    trace = simt.simulate(**arguments)
    report = trace.verify(trace.cycles - 1)
    assert report.passed, report


@pytest.mark.parametrize("seed", range(60))
def test_stretches_issued_at_once_are_told_again(seed: int) -> None:
    report = simt.simulate(**stretches(seed)).verify()
    assert report.passed, report


@pytest.mark.parametrize("policy", simt.POLICIES)
def test_many_warps_of_a_policy_are_told_again_in_every_cycle(policy: str) -> None:
    trace = run(policy, warps=24, limit=3)
    report = trace.verify()
    assert report.passed, report
    assert {check.name for check in report.checks} == {
        "one issue a cycle",
        "program order",
        "operands",
        "units",
        "loads in flight",
        "barriers",
        "states",
        "ends of waits",
        "policy",
        "no slot lost",
        "counts",
    }
    assert all(trace.verify_frame(t).passed for t in range(trace.cycles))
    assert trace.verify(5).checks[-1] == trace.verify_frame(5)


def test_a_deadlock_is_told_again() -> None:
    half = Instruction("bar", lanes=16)
    trace = simt.simulate([[ADD, half, ADD], [LOAD, simt.bar(), ADD]], schedulers=1)
    report = trace.verify(trace.cycles - 1)
    assert trace.deadlock and report.passed, report
    assert "2 of them up to a barrier that never opens" in report.checks[1].says
    later = changed(trace, state=(np.s_[-1, 0], CODE["finished"]))
    assert failed(later, trace.cycles - 1) == {"states", f"cycle {trace.cycles - 1}"}


def test_a_traced_kernel_that_hangs_is_told_again() -> None:
    trace = simt.lesson_kernels.LESSONS["divergent_barrier"].trace().simulate(until_stop=True)
    assert trace.held, "the lesson whose barrier never opens"
    report = trace.verify(trace.cycles - 1)
    assert report.passed, report
    assert {"states", "counts"} <= failed(replace(trace, held=()))


def test_a_cycle_that_is_not_there_is_refused() -> None:
    trace = run()
    with pytest.raises(ValueError, match=f"cycle is {trace.cycles}, but"):
        trace.verify(trace.cycles)
    with pytest.raises(ValueError, match="cycle is -1, but"):
        trace.verify_frame(-1)


# ------------------------------------------------------------------------------------------ planted faults


def two_in_a_cycle(trace: WarpTrace) -> WarpTrace:
    t, w = np.argwhere(trace.state == CODE["ready"])[0].tolist()
    return changed(trace, state=(np.s_[t, w], CODE["issues"]))


def foreign(trace: WarpTrace) -> WarpTrace:
    t = int(np.flatnonzero(trace.issued[:, 1] >= 0)[0])
    return changed(trace, issued=(np.s_[t, 1], 0))


def out_of_order(trace: WarpTrace) -> WarpTrace:
    t = int(np.flatnonzero(trace.state[:, 2] == CODE["issues"])[1])
    return changed(trace, pc=(np.s_[t, 2], 0))


def one_left_out(trace: WarpTrace) -> WarpTrace:
    t, s = np.argwhere(trace.issued >= 0)[-1].tolist()
    w = int(trace.issued[t, s])
    whole = changed(trace, issued=(np.s_[t, s], -1), state=(np.s_[t, w], CODE["ready"]))
    return replace(whole, issue_count=trace.issue_count - 1)


def an_operand_early(trace: WarpTrace) -> WarpTrace:
    w = 1
    t = int(np.flatnonzero(trace.state[:, w] == CODE["issues"])[-1])
    assert trace.issued[t - 1, w % 2] < 0
    return moved(trace, w, len(trace.programs[w]) - 1, t - 1)


def a_unit_taken(trace: WarpTrace) -> WarpTrace:
    t, w = np.argwhere(trace.state == CODE["unit"])[-1].tolist()
    while trace.issued[t, w % 2] >= 0:
        t -= 1
    assert trace.state[t, w] == CODE["unit"]
    return moved(trace, w, int(trace.pc[t, w]), t)


def a_barrier_early(trace: WarpTrace) -> WarpTrace:
    t, w = np.argwhere(trace.state == CODE["barrier"])[-1].tolist()
    while trace.issued[t, w % 2] >= 0:
        t -= 1
    assert trace.state[t, w] == CODE["barrier"]
    return moved(trace, w, int(trace.pc[t, w]), t)


def a_cycle_late(trace: WarpTrace) -> WarpTrace:
    w = 1
    t = int(np.flatnonzero(trace.state[:, w] == CODE["issues"])[-1])
    assert trace.issued[t + 1, w % 2] < 0
    return moved(trace, w, len(trace.programs[w]) - 1, t + 1)


def another_picked(trace: WarpTrace) -> WarpTrace:
    """Two warps of one program that change places in two cycles: each could issue in both."""
    for t, w in np.argwhere(trace.state == CODE["ready"]).tolist():
        v = int(trace.issued[t, w % 2])
        own = np.flatnonzero(trace.issued[t:, w % 2] == w)
        if trace.programs[v] == trace.programs[w] and trace.pc[t, v] == trace.pc[t, w] and own.size:
            other = t + int(own[0])
            return changed(trace, issued=(np.s_[[t, other], w % 2], [w, v]))
    raise AssertionError("no two warps that could change places")


def a_wrong_word(trace: WarpTrace) -> WarpTrace:
    t, w = np.argwhere(trace.state == CODE["memory"])[3].tolist()
    return changed(trace, state=(np.s_[t, w], CODE["result"]))


def ready_too_long(trace: WarpTrace) -> WarpTrace:
    t, w = np.argwhere(trace.state == CODE["memory"])[-1].tolist()
    return changed(trace, state=(np.s_[t, w], CODE["ready"]))


def a_wait_with_a_wrong_end(trace: WarpTrace) -> WarpTrace:
    t, w = np.argwhere(trace.state == CODE["memory"])[0].tolist()
    return changed(trace, until=(np.s_[t, w], trace.until[t, w] + 1))


def a_count_too_many(trace: WarpTrace) -> WarpTrace:
    return replace(trace, issue_count=trace.issue_count + 1)


def a_landing_late(trace: WarpTrace) -> WarpTrace:
    return changed(trace, requests=(np.s_[0, 3], trace.requests[0, 3] + 1))


def a_lane_less(trace: WarpTrace) -> WarpTrace:
    t, w = np.argwhere(trace.lanes > 0)[0].tolist()
    return changed(trace, lanes=(np.s_[t, w], 31))


@pytest.mark.parametrize(
    ("plant", "names"),
    [
        (two_in_a_cycle, {"one issue a cycle", "states"}),
        (foreign, {"one issue a cycle", "program order"}),
        (out_of_order, {"program order"}),
        (one_left_out, {"program order"}),
        (an_operand_early, {"operands", "policy", "states"}),
        (a_unit_taken, {"units", "policy"}),
        (a_barrier_early, {"barriers", "policy"}),
        (a_cycle_late, {"no slot lost"}),
        (another_picked, {"policy"}),
        (a_wrong_word, {"states"}),
        (ready_too_long, {"states"}),
        (a_wait_with_a_wrong_end, {"ends of waits"}),
        (a_count_too_many, {"counts"}),
        (a_landing_late, {"counts"}),
        (a_lane_less, {"counts"}),
    ],
)
def test_a_planted_fault_is_found_by_name(plant: Callable[[WarpTrace], WarpTrace], names: set[str]) -> None:
    trace = run()
    assert trace.verify().passed
    assert names <= failed(plant(trace))


@pytest.mark.parametrize("plant", [a_wrong_word, ready_too_long, a_wait_with_a_wrong_end, a_lane_less])
def test_a_fault_in_what_is_shown_fails_its_own_check_and_its_own_frame_alone(
    plant: Callable[[WarpTrace], WarpTrace],
) -> None:
    trace = run()
    faulty = plant(trace)
    assert len(failed(faulty)) == 1
    fields = ("state", "until", "lanes")
    at = {int(t) for name in fields for t in np.argwhere(getattr(trace, name) != getattr(faulty, name))[:, 0]}
    assert {t for t in range(trace.cycles) if not faulty.verify_frame(t).passed} == at


def test_one_load_too_many_in_flight_is_found() -> None:
    trace = run(limit=3)
    assert failed(replace(trace, max_outstanding=2)) >= {"loads in flight", "policy"}


@pytest.mark.parametrize("policy", simt.POLICIES)
def test_the_issues_of_one_policy_are_not_those_of_another(policy: str) -> None:
    trace = run(policy, warps=20)
    for other in set(simt.POLICIES) - {policy}:
        assert "policy" in failed(replace(trace, policy=other)), other


def test_what_is_wrong_is_said_with_its_place() -> None:
    trace = simt.simulate([simt.chain(2)] * 2, schedulers=1)
    says = {
        check.name: check.says for check in changed(trace, issued=(np.s_[[0, 1], 0], [1, 0])).verify().checks
    }
    assert says["policy"].endswith("; in cycle 0 scheduler 0 issued w1 instead of w0.")
    assert says["states"].endswith("; w0 in cycle 0 is 'issues', and should be 'ready'.")


# ------------------------------------------------------------------------------------------ kernels


@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.int64])
def test_a_kernels_product_is_recounted_from_its_lanes(dtype: type) -> None:
    rng = np.random.default_rng(5)
    a, b = ((10 * rng.standard_normal(shape)).astype(dtype) for shape in ((7, 5), (5, 9)))
    kernel = simt.matmul_kernel(a, b, threads_per_block=32)
    trace = kernel.simulate()
    assert trace.verify().passed, trace.verify()
    values = [each.copy() for each in kernel.lane_values]
    values[1][4, 3] += 1  # a B that was loaded
    lanes = replace(kernel, lane_values=tuple(values))
    assert failed(replace(trace, kernel=lanes)) == {"lanes"}
    result = kernel.result.copy()
    result[2, 3] += 1
    assert failed(replace(trace, kernel=replace(kernel, result=result))) == {"product"}
