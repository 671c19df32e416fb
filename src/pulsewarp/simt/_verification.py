"""Checks of a warp trace against a recount from its issues alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp._arrays import add_up, equal_values
from pulsewarp._report import Check, Report
from pulsewarp._text import counted
from pulsewarp.simt._instruction import LANES
from pulsewarp.simt._policy import POLICY_NAMES
from pulsewarp.simt._recount import Flags, Recount
from pulsewarp.simt._states import ISSUES, STATES
from pulsewarp.simt.trace import Kernel, WarpTrace


def verify(trace: WarpTrace, told: Recount) -> Report:
    """Return the report of every check of a run, against its recount."""
    checks = [
        _one_issue(trace),
        _program_order(trace, told),
        _operands(told),
        _units(told),
        _in_flight(told),
        _barriers(told),
        _states(trace, told),
        _waits(trace, told),
        _policy(trace, told),
        _no_slot_lost(trace, told),
        _counts(trace, told),
    ]
    if trace.kernel is not None:
        checks += [_lanes(trace.kernel), _product(trace.kernel)]
    return Report(tuple(check for check in checks if check is not None))


def _first(wrong: Flags, of: str = "w") -> str:
    """Return a sentence's part that names the first cycle and warp of those that are wrong, if any is."""
    if not wrong.any():
        return ""
    t, i = np.argwhere(wrong)[0].tolist()
    return f", the first {of}{i} in cycle {t}"


def _one_issue(trace: WarpTrace) -> Check:
    """Require that a scheduler issues its own warps, one in a cycle, and that states and lanes agree."""
    S = trace.schedulers
    issues = np.zeros(trace.state.shape, np.bool_)
    foreign = np.zeros(trace.issued.shape, np.bool_)
    for s in range(S):
        row = trace.issued[:, s]
        own = (row >= 0) & (row < trace.warps) & (row % S == s)
        foreign[:, s] = (row >= 0) & ~own
        issues[np.flatnonzero(own), row[own]] = True
    wrong = issues != (trace.state == ISSUES)
    says = (
        f"{int(issues.sum())} issues, each of one of the scheduler's own warps, whose states say so; "
        f"{int(wrong.sum() + foreign.sum())} do not"
    )
    says += _first(wrong) or _first(foreign, "on scheduler ")
    return Check("one issue a cycle", not wrong.any() and not foreign.any(), f"{says}.")


def _program_order(trace: WarpTrace, told: Recount) -> Check:
    """Require that program counters count issues, and that every warp ends, or stands at a shut barrier."""
    wrong = trace.pc != told.pc
    lengths = np.array([len(program) for program in trace.programs])
    begun = np.bincount(
        trace.issued[(trace.issued >= 0) & (trace.issued < trace.warps)], minlength=trace.warps
    )
    ended = begun == lengths
    stuck = [w for w in told.stuck if begun[w] <= lengths[w]]
    ended[stuck] = True
    says = f"{int(ended.sum())} of {counted(trace.warps, 'warp')} issued every instruction once, in order"
    if stuck:
        says += f", {len(stuck)} of them up to a barrier that never opens"
    if not ended.all():
        w = int(np.argmin(ended))
        says += f"; w{w} issued {begun[w]} of its {lengths[w]}"
    says += f"; {int(wrong.sum())} program counters differ{_first(wrong)}."
    return Check("program order", bool(ended.all()) and not wrong.any(), says)


def _operands(told: Recount) -> Check:
    cycle, _, warp, pc = told.issues.T
    need = np.array(
        [told.needed[w][p] >> 1 for w, p in zip(warp.tolist(), pc.tolist(), strict=True)], np.int64
    )
    early = cycle < need
    says = f"{int(early.sum())} of {counted(len(cycle), 'instruction')} issued before the operands were there"
    if early.any():
        i = int(np.argmax(early))
        says += f", the first by w{warp[i]} in cycle {cycle[i]}, {need[i] - cycle[i]} too early"
    return Check("operands", not early.any(), f"{says}.")


def _units(told: Recount) -> Check:
    """Require that whatever takes a unit begins when the use before it is over: per SM for memory."""
    cycle, scheduler, warp, _ = told.issues.T
    interval, unit = told.column("interval"), told.column("unit")
    _, kind = np.unique(unit.astype(str), return_inverse=True)
    of = np.where(unit == "mem", -1, scheduler)
    order = np.lexsort((np.arange(len(cycle)), of, kind))
    same = (kind[order][1:] == kind[order][:-1]) & (of[order][1:] == of[order][:-1])
    early = same & (cycle[order][1:] < (cycle + interval)[order][:-1]) & (unit[order][1:] != "bar")
    says = f"{counted(int(early.sum()), 'instruction')} of {len(cycle)} found the unit taken"
    if early.any():
        i = order[1:][early].min()
        says += f", the first {unit[i]} of w{warp[i]} in cycle {cycle[i]}"
    return Check("units", not early.any(), f"{says}.")


def _in_flight(told: Recount) -> Check | None:
    """Count the loads in flight after each issue of one."""
    if told.max_outstanding is None:
        return None
    cycle = told.issues[:, 0]
    uses = told.column("unit") == "mem"
    done = np.sort((cycle + told.column("latency"))[uses])
    flying = np.arange(1, len(done) + 1) - np.searchsorted(done, cycle[uses], side="right")
    most = int(flying.max(initial=0))
    says = f"At most {counted(most, 'load')} in flight at once; the limit is {told.max_outstanding}."
    return Check("loads in flight", most <= told.max_outstanding, says)


def _barriers(told: Recount) -> Check | None:
    """Require that nobody goes on before all threads of its block have come, or have exited."""
    if not any(plan.is_bar.any() for plan in told.plans):
        return None
    passed, early = 0, []
    for w, (opening, times) in enumerate(zip(told.opening, told.times, strict=True)):
        n = len(times)
        passed += int((opening[:n] > 0).sum())
        early += [(int(times[pc]), w) for pc in np.flatnonzero(times < opening[:n])]
    says = f"{passed - len(early)} of {passed} times a warp went on when all of its block had come"
    if early:
        t, w = min(early)
        says += f"; w{w} went on in cycle {t}, before that"
    return Check("barriers", not early, f"{says}.")


def _states(trace: WarpTrace, told: Recount) -> Check:
    wrong = trace.state != told.state
    says = f"{int((~wrong).sum())} of {wrong.size} words of warps in cycles are what their issues make them"
    if wrong.any():
        t, w = np.argwhere(wrong)[0].tolist()
        words = [_word(int(state[t, w])) for state in (trace.state, told.state)]
        says += f"; w{w} in cycle {t} is {words[0]}, and should be {words[1]}"
    return Check("states", not wrong.any(), f"{says}.")


def _word(code: int) -> str:
    return repr(STATES[code]) if 0 <= code < len(STATES) else str(code)


def _waits(trace: WarpTrace, told: Recount) -> Check:
    wrong = trace.until != told.until
    says = f"{int((told.until >= 0).sum())} waits with an end, {int(wrong.sum())} ends differ"
    if wrong.any():
        t, w = np.argwhere(wrong)[0].tolist()
        says += f"; that of w{w} in cycle {t} is {trace.until[t, w]}, and should be {told.until[t, w]}"
    return Check("ends of waits", not wrong.any(), f"{says}.")


def _policy(trace: WarpTrace, told: Recount) -> Check:
    issues = trace.issued >= 0
    wrong = issues & (trace.issued != told.picks)
    says = (
        f"{int((issues & ~wrong).sum())} of {int(issues.sum())} issues are of the warp that "
        f"{POLICY_NAMES[trace.policy]} names"
    )
    if wrong.any():
        t, s = np.argwhere(wrong)[0].tolist()
        says += f"; in cycle {t} scheduler {s} issued w{trace.issued[t, s]} instead of {_pick(told, t, s)}"
    return Check("policy", not wrong.any(), f"{says}.")


def _pick(told: Recount, t: int, s: int) -> str:
    return f"w{told.picks[t, s]}" if told.picks[t, s] >= 0 else "none"


def _no_slot_lost(trace: WarpTrace, told: Recount) -> Check:
    idle = trace.issued < 0
    wrong = idle & (told.picks >= 0)
    says = (
        f"In {int((idle & ~wrong).sum())} of {int(idle.sum())} slots that issue nothing no warp could issue"
    )
    if wrong.any():
        t, s = np.argwhere(wrong)[0].tolist()
        says += f"; in cycle {t} w{told.picks[t, s]} could on scheduler {s}"
    return Check("no slot lost", not wrong.any(), f"{says}.")


def _counts(trace: WarpTrace, told: Recount) -> Check:
    """Require the totals that the trace gives, its active lanes, and its rows of requests."""
    cycle, _, warp, pc = told.issues.T
    done = cycle + told.column("latency")
    shut = [w for w in told.stuck if w not in told.held]
    # Each kind of deadlock shows for a cycle in which all else is over.
    cycles = int(done.max(initial=0)) + bool(shut) + bool(told.held)
    loads = told.column("unit") == "mem"
    rows = np.stack([cycle, warp, pc, done], axis=1)[loads]
    lanes = np.zeros(trace.lanes.shape, np.int64)
    lanes[cycle, warp] = told.column("lanes")
    same = [
        trace.cycles == cycles == len(trace.issued),
        trace.issue_count == len(cycle),
        np.array_equal(trace.requests, rows),
        np.array_equal(trace.lanes, lanes),
    ]
    says = (
        f"{trace.issue_count} instructions in {counted(trace.cycles, 'cycle')}, counted again {len(cycle)} "
        f"in {cycles}; {counted(len(rows), 'request')} and {int(lanes.sum())} active lanes "
        f"{'as shown' if same[2] and same[3] else 'differ from what is shown'}."
    )
    return Check("counts", all(same), says)


def _lanes(kernel: Kernel) -> Check:
    """Require of every lane that it loads its row of A and its column of B, and adds their products up."""
    (m, k), n = kernel.a.shape, kernel.b.shape[1]
    values = np.concatenate(kernel.lane_values, axis=1)
    accumulator = kernel.result.dtype
    row, column = (np.repeat(np.arange(m), n), np.tile(np.arange(n), m))
    a, b = kernel.a[row].T.astype(accumulator), kernel.b[:, column].astype(accumulator)
    sums = np.zeros_like(values[0, : m * n])
    wrong = int(values.shape[1] != -(-m * n // LANES) * LANES)
    for step in range(k):
        sums = sums + a[step] * b[step]
        for i, wanted in enumerate((a[step], b[step], sums)):
            wrong += int((~equal_values(values[3 * step + i, : m * n], wanted)).sum())
    says = f"{counted(wrong, 'value')} of {counted(m * n, 'lane')} not those of its loads and sums."
    return Check("lanes", wrong == 0, says)


def _product(kernel: Kernel) -> Check:
    """Compare the result with NumPy: exactly for integers, for floats bit for bit in the order of k."""
    result = kernel.result
    right = equal_values(result, add_up(kernel.a, kernel.b, result.dtype))
    stored = np.concatenate([values[-1] for values in kernel.lane_values])[: result.size]
    right &= equal_values(stored.reshape(result.shape), result)
    says = f"{int(right.sum())} of {result.size} results stored equal NumPy's sum over k in {result.dtype}"
    if not right.all():
        m, n = np.argwhere(~right)[0].tolist()
        says += f", the first that does not is result[{m}, {n}]"
    return Check("product", bool(right.all()), f"{says}.")


def verify_frame(trace: WarpTrace, told: Recount, t: int) -> Check:
    """Check what one cycle shows: states, ends of waits, program counters, lanes and issues."""
    W, S = trace.warps, trace.schedulers
    shown: list[NDArray[Any]] = [trace.state[t], trace.until[t], trace.pc[t]]
    wanted: list[NDArray[Any]] = [told.state[t], told.until[t], told.pc[t]]
    lanes = np.zeros(W, np.int64)
    mine = told.issues[:, 0] == t
    lanes[told.issues[mine, 2]] = told.column("lanes")[mine]
    warps = np.any(
        [one != other for one, other in zip([*shown, trace.lanes[t]], [*wanted, lanes], strict=True)], 0
    )
    picks = trace.issued[t] != told.picks[t]
    says = f"{counted(W, 'warp')} and {counted(S, 'scheduler')} told again from the issues: "
    says += f"{int(warps.sum())} and {int(picks.sum())} differ"
    if warps.any():
        w = int(np.argmax(warps))
        says += f"; w{w} is {_word(int(trace.state[t, w]))}, and should be {_word(int(told.state[t, w]))}"
    elif picks.any():
        s = int(np.argmax(picks))
        says += f"; scheduler {s} should have issued {_pick(told, t, s)}"
    return Check(f"cycle {t}", not warps.any() and not picks.any(), f"{says}.")
