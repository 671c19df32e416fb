"""Divergence: the lanes of one warp part at a branch, and meet again, before Volta and since.

Before Volta a warp had one program counter and a mask of active lanes, so lanes of one warp could wait for
each other for ever. Since Volta every thread has a program counter of its own and is sure to get on; which
path goes first, and whether lanes meet again without ``__syncwarp()``, is not documented (NVIDIA, "CUDA C++
Programming Guide", SIMT architecture and independent thread scheduling; read in translation).

The stack modelled here is that of the literature: each entry has a program counter, where it ends and a
mask; paths meet at the immediate post-dominator of the branch (W. W. L. Fung et al., "Dynamic Warp Formation
and Scheduling for Efficient GPU Control Flow", MICRO 2007; as GPGPU-Sim builds it, recalled). NVIDIA
documents no stack. A barrier counts warps before Volta: it opens though some lanes of a warp have not come
(NVIDIA, "PTX ISA", bar, recalled). Since Volta it counts threads that have not exited (NVIDIA, "Volta Tuning
Guide", 1.4.1.2 Independent Thread Scheduling, docs.nvidia.com/cuda/volta-tuning-guide).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp import _checks
from pulsewarp._arrays import freeze
from pulsewarp._report import Check, Report
from pulsewarp._text import counted
from pulsewarp.simt._instruction import LANES, Instruction
from pulsewarp.simt._lane_machines import LANE_STATES as LANE_STATES
from pulsewarp.simt._lane_machines import MACHINES, Moment, Run, run_machine
from pulsewarp.simt._lane_program import LaneProgram, Step, read_program
from pulsewarp.simt.patterns import MOST_ADDRESS
from pulsewarp.simt.scheduler import simulate
from pulsewarp.simt.tracing import KernelTrace, TracedWarp

RECONVERGENCE = ("stack", "independent")
SCHEDULES = ("converge", "alternate")
FIRST = ("then", "else")
MOST_CYCLES, MOST_LATENCY = 20_000, 1000

OFF, RUNS, STALLED, MEETS, SYNCWARP, SYNCTHREADS, ENDED = range(len(LANE_STATES))


@dataclass(frozen=True, eq=False, repr=False)
class DivergenceTrace:
    """One warp through a program with branches: who runs which line when, and who waits for whom.

    Entry `t` of an array with `cycles` rows tells of cycle `t`; values are those after its clock edge.

    Parameters
    ----------
    lines : tuple of str
        The program.
    steps : tuple of Step
        What a warp issues: a line is one step.
    reconvergence, schedule, first : str
        As given to `run_warp`; `schedule` is ``"converge"`` for the stack, which knows no other.
    latency : int
        Cycles from issue until a result can be read.
    branches : bool
        Whether a branch is an instruction that is issued.
    lanes : int
        Lanes that take part, the lowest ones.
    issued : ndarray of int32, (cycles,)
        Step issued, -1 for none.
    mask : ndarray of bool, (cycles, 32)
        Lanes that run it.
    state : ndarray of int8, (cycles, 32)
        What each lane does, an index into `LANE_STATES`. Lanes that go round for ever run in the last cycle.
    pc : ndarray of int32, (cycles, 32)
        Each lane's next step after the edge; -1 for one that has ended.
    values : ndarray of int64, (cycles, registers, 32)
        What each lane's registers hold after the edge; a result counts as there when it is issued.
    known : ndarray of bool, (cycles, registers, 32)
        Whether a line has set them.
    shared : ndarray of int64, (cycles, shared variables)
        What the shared variables hold.
    registers, shared_names : tuple of str
        Names of the axes.
    shared_start : tuple of int
        What the shared variables held at first.
    stack : tuple of tuple of (int, int, int)
        After the edge, for the stack: each entry's next step, the step at which it ends, and its mask, bit
        ``l`` for lane ``l``; the last one is the top.
    hang : str or None
        Why lanes never end; see `deadlock`.
    cut : bool
        Whether the run was only cut off because it is long, so that its lanes may end after all.
    first_line : int
        The number of the first line.
    kernel : tuple of str and int, or None
        For a warp of a traced kernel: the call that traced it, and which warp.

    Examples
    --------
    >>> from pulsewarp import simt
    >>> trace = simt.run_warp('''
    ... if lane % 2 == 0:
    ...     x = 3 * lane
    ... else:
    ...     x = lane + 100
    ... x = x + 1
    ... ''')
    >>> trace.issue_count, trace.lanes_off
    (4, 32)
    >>> trace.results["x"][:4]
    (1, 102, 7, 104)
    """

    lines: tuple[str, ...]
    steps: tuple[Step, ...]
    reconvergence: str
    schedule: str
    first: str
    latency: int
    branches: bool
    lanes: int
    issued: NDArray[np.int32]
    mask: NDArray[np.bool_]
    state: NDArray[np.int8]
    pc: NDArray[np.int32]
    values: NDArray[np.int64]
    known: NDArray[np.bool_]
    shared: NDArray[np.int64]
    registers: tuple[str, ...]
    shared_names: tuple[str, ...]
    shared_start: tuple[int, ...]
    stack: tuple[tuple[tuple[int, int, int], ...], ...]
    hang: str | None
    cut: bool = False
    first_line: int = 1
    kernel: tuple[str, int] | None = None

    @property
    def cycles(self) -> int:
        """Cycles until the last result is there; of a run that hangs, until nothing new happens."""
        return self.issued.size

    @property
    def issue_count(self) -> int:
        """Instructions issued: the sum over the paths."""
        return int((self.issued >= 0).sum())

    @property
    def work(self) -> int:
        """Instructions that lanes ran, summed over lanes."""
        return int(self.mask.sum())

    @property
    def lanes_off(self) -> int:
        """Lane slots of issued instructions in which nothing was done: 32 an instruction, less `work`."""
        return int(_lanes_off(self.issue_count, self.work))

    @property
    def efficiency(self) -> float:
        """Share of lane slots used, in (0, 1]; 0 where no instruction was issued."""
        return float(_efficiency(self.issue_count, self.work))

    @property
    def so_far(self) -> dict[str, NDArray[Any]]:
        """What `issue_count`, `work`, `lanes_off` and `efficiency` are after each cycle, by name."""
        issued, work = np.cumsum(self.issued >= 0), np.cumsum(self.mask.sum(axis=1))
        return {
            "issue_count": issued,
            "work": work,
            "lanes_off": _lanes_off(issued, work),
            "efficiency": _efficiency(issued, work),
        }

    @property
    def deadlock(self) -> str | None:
        """Who waits for whom for ever, in a sentence; None when every lane ended.

        Of a run that was cut off it says so, and which lanes were still going.

        Examples
        --------
        >>> from pulsewarp import simt
        >>> spin = '''
        ... busy = 1
        ... while busy == 1:
        ...     busy = exch(lock, 1)
        ... exch(lock, 0)
        ... '''
        >>> simt.run_warp(spin, shared={"lock": 0}, lanes=2).deadlock
        'Never ends: lane 1 goes round lines 2 to 3 and nothing changes; lane 0 waits for it before line 4.'
        >>> simt.run_warp(spin, shared={"lock": 0}, lanes=2, reconvergence="independent").deadlock
        """
        return self.hang

    @property
    def ending(self) -> str:
        """How the run ends: ``"done"``, ``"never ends"`` or ``"cut off"``."""
        return "cut off" if self.cut else "never ends" if self.hang else "done"

    @property
    def results(self) -> dict[str, tuple[int | None, ...]]:
        """Each register's last value for every lane; None where no line has set it."""
        return {
            name: tuple(
                value if known else None
                for value, known in zip(self.values[-1, r].tolist(), self.known[-1, r].tolist(), strict=True)
            )[: self.lanes]
            for r, name in enumerate(self.registers)
        }

    @_checks.names_keywords
    def why(self, t: int) -> str:
        r"""Return one sentence: which lanes run which line in cycle `t`, and what the others wait for.

        Parameters
        ----------
        t : int
            Cycle.

        Raises
        ------
        ValueError
            When the trace has no such cycle.

        Examples
        --------
        >>> from pulsewarp import simt
        >>> trace = simt.run_warp("if lane < 4:\n    x = 1\nx = 2", latency=1)
        >>> trace.why(1)
        'Lanes 0 to 3 run line 2, x = 1; lanes 4 to 31 wait where the branch ends, before line 3.'
        """
        t = _checks.whole_number("t", t, least=0, most=self.cycles - 1)
        state = self.state[t]
        step = int(self.issued[t])
        if step >= 0:
            lanes = np.flatnonzero(self.mask[t]).tolist()
            verb = "runs" if len(lanes) == 1 else "run"
            said = f"{_capital(name_lanes(lanes))} {verb} line {self.steps[step].line}, {self._told(step)}"
            said += self._early(t)
        elif (state == STALLED).any():
            said = self._stall(t)
        else:
            said = "Nothing is issued: the last results are on their way"
            if self.hang and t == self.cycles - 1:
                return self.hang
        waits = self._waits(t)
        return f"{said}{'; ' if waits else ''}{waits}."

    def events(self) -> list[tuple[int, str]]:
        """Return the notable cycles in order, each with a label of two or three words."""
        found: dict[int, str] = {0: "begins"}
        alive = self.lanes
        together = True
        for t in np.flatnonzero(self.issued >= 0).tolist():
            alive = int(((self.state[t] != ENDED)[: self.lanes]).sum())
            all_on = int(self.mask[t].sum()) == alive
            if together != all_on:
                found.setdefault(t, "lanes meet" if all_on else "lanes part")
            together = all_on
        if self.hang:
            found[self.cycles - 1] = self.ending
        return sorted(found.items())

    @_checks.names_keywords
    def standing(self, t: int) -> list[tuple[str, int, int, int]]:
        r"""Return how the lanes stand in cycle `t`: a stack's entries, the top first, or lanes alike.

        Parameters
        ----------
        t : int
            Cycle.

        Returns
        -------
        list of (str, int, int, int)
            What they do, one of `LANE_STATES`; the line they stand at; the line at which the entry ends, -1
            where there is no stack; their mask, bit ``l`` for lane ``l``. Line 0 is the end of the program.

        Examples
        --------
        >>> from pulsewarp import simt
        >>> trace = simt.run_warp("if lane < 4:\n    x = 1\nelse:\n    x = 2\nx = 3", latency=1)
        >>> trace.standing(1)
        [('runs', 2, 5, 15), ('off', 4, 5, 4294967280), ('meets', 5, 0, 4294967295)]
        """
        t = _checks.whole_number("t", t, least=0, most=self.cycles - 1)
        lines = [*(step.line for step in self.steps), 0]
        before = self._before(t).tolist()
        own = self.state[t].tolist()
        if self.reconvergence == "stack":
            whole = (0, len(self.steps), (1 << self.lanes) - 1)
            entries = self.stack[t - 1] if t else (whole,)
            found = []
            for i, (pc, end, mask) in enumerate(reversed(entries)):
                lanes = [lane for lane in range(LANES) if mask >> lane & 1 and before[lane] == pc]
                state = RUNS if i == 0 else MEETS
                if lanes:
                    state = own[lanes[0]]
                found.append((LANE_STATES[state], lines[pc], lines[end], mask))
            return found
        groups: dict[tuple[int, int], int] = {}
        for lane in range(self.lanes):
            if own[lane] != ENDED:
                alike = (own[lane], before[lane])
                groups[alike] = groups.get(alike, 0) | 1 << lane
        order = sorted(groups.items(), key=lambda one: (one[0][0] not in (RUNS, STALLED), one[0]))
        return [(LANE_STATES[state], lines[pc], -1, mask) for (state, pc), mask in order]

    @_checks.names_keywords
    def lines_at(self, t: int) -> list[int]:
        """Return the line at which each lane stands in cycle `t`, 0 for one that has ended.

        Parameters
        ----------
        t : int
            Cycle.

        Raises
        ------
        ValueError
            When the trace has no such cycle.
        """
        t = _checks.whole_number("t", t, least=0, most=self.cycles - 1)
        lines = [*(step.line for step in self.steps), 0]
        return [lines[pc] for pc in self._before(t).tolist()]

    def _before(self, t: int) -> NDArray[np.int32]:
        """Return the step at which each lane stands before the edge of cycle `t`; -1 where it has ended."""
        first: NDArray[np.int32] = np.where(np.arange(LANES) < self.lanes, 0, -1).astype(np.int32)
        return self.pc[t - 1] if t else first

    def _told(self, step: int) -> str:
        return self.steps[step].text.removesuffix(":")

    def _early(self, t: int) -> str:
        """Return what there is to say of a barrier that opens before all lanes have come."""
        step = self.steps[int(self.issued[t])]
        missing = np.flatnonzero(~self.mask[t] & (self._before(t) >= 0)).tolist()
        if self.reconvergence != "stack" or not step.syncs or not missing:
            return ""
        have = "has" if len(missing) == 1 else "have"
        return (
            f" and go on, though {name_lanes(missing)} {have} not come: before Volta a barrier counts warps, "
            f"not threads"
        )

    def _stall(self, t: int) -> str:
        """Return which line is next in cycle `t`, and what it waits for."""
        until = t + int(np.flatnonzero(self.issued[t:] >= 0)[0])
        step = self.steps[int(self.issued[until])]
        if self.kernel:
            return f"Nothing is issued: line {step.line} waits for a result or its unit until cycle {until}"
        writer = self.issued[until - self.latency]
        late = self.steps[int(writer)].dst if until >= self.latency and writer >= 0 else None
        if late in step.srcs:
            return f"Nothing is issued: line {step.line} needs {late}, there from cycle {until}"
        return (
            f"Nothing is issued: line {step.line} writes {step.dst}, whose value before is there from cycle "
            f"{until}"
        )

    def _waits(self, t: int) -> str:
        """Return who does not run in cycle `t`, by what they wait for."""
        before = self._before(t)
        groups: dict[tuple[int, int], list[int]] = {}
        for lane in range(self.lanes):
            state = int(self.state[t, lane])
            if state not in (RUNS, STALLED):
                groups.setdefault((state, int(before[lane])), []).append(lane)
        return "; ".join(self._wait(state, pc, lanes) for (state, pc), lanes in sorted(groups.items()))

    def _wait(self, state: int, pc: int, lanes: list[int]) -> str:
        who, one = name_lanes(lanes), len(lanes) == 1
        if state == ENDED:
            return f"{who} {'has' if one else 'have'} ended"
        verb = "waits" if one else "wait"
        where = f"line {self.steps[pc].line}" if pc < len(self.steps) else "the end"
        if state == OFF:
            place = "on the stack with" if self.reconvergence == "stack" else "with"
            return f"{who} {verb} {place} {where}"
        if state == MEETS:
            return f"{who} {verb} where the branch ends, before {where}"
        return f"{who} {verb} at {LANE_STATES[state]}() in {where}"

    @_checks.names_keywords
    def verify(self, cycle: int | None = None) -> Report:
        r"""Check this run: values of each lane as alone, masks, stack, times; with `cycle`, that cycle too.

        Parameters
        ----------
        cycle : int, optional
            Cycle whose edge is checked by itself.

        Returns
        -------
        Report
            One `Check` each, with its numbers in a sentence; `passed` when all hold.

        Examples
        --------
        >>> from pulsewarp import simt
        >>> simt.run_warp("if lane < 4:\n    x = 1\nx = 2").verify(cycle=0).passed
        True
        """
        checks = [self._masks(), self._as_alone(), self._nested(), self._timed()]
        if cycle is not None:
            checks.append(self.verify_frame(cycle))
        return Report(tuple(check for check in checks if check is not None))

    def _masks(self) -> Check:
        wrong = 0
        for t in np.flatnonzero(self.issued >= 0).tolist():
            before = self._before(t)
            there = before == self.issued[t] if self.branches else before >= 0
            wrong += bool((self.mask[t] & ~there).any()) or not self.mask[t].any()
        return Check(
            "one line at a time",
            not wrong,
            f"In {self.issue_count - wrong} of {counted(self.issue_count, 'instruction')} every lane that "
            f"ran stood at that line.",
        )

    def _as_alone(self) -> Check | None:
        """Compare with every lane run by itself; a lane that shares variables has no such run."""
        if self.shared_names or self.hang or self.kernel:
            return None
        program = LaneProgram(self.lines, self.steps, self.registers, self.shared_names)
        right, work = 0, 0
        for lane in range(self.lanes):
            values, run = _alone(program, lane, self.branches)
            mine = {name: self.results[name][lane] for name in self.registers}
            right += mine == {name: values.get(name) for name in self.registers}
            work += run
        return Check(
            "each lane as alone",
            right == self.lanes and work == self.work,
            f"{right} of {counted(self.lanes, 'lane')} ended with the values each has when it runs alone, "
            f"after {self.work:,} lane instructions; alone they are {work:,}.",
        )

    def _nested(self) -> Check | None:
        if self.reconvergence != "stack":
            return None
        wrong = 0
        for entries in self.stack:
            for (_, end, mask), (_, inner, above) in itertools.pairwise(entries):
                wrong += bool(above & mask) if end == inner else bool(above & ~mask)
        return Check(
            "paths apart",
            not wrong,
            f"Paths on the stack with a lane of the other path, or one that their branch had not: {wrong}.",
        )

    def _timed(self) -> Check | None:
        if self.kernel:  # its instructions have times of their own
            return None
        latest: dict[str, int] = {}
        late = 0
        for t in np.flatnonzero(self.issued >= 0).tolist():
            step = self.steps[int(self.issued[t])]
            late += any(latest.get(name, 0) > t for name in step.srcs)
            if step.dst:
                latest[step.dst] = t + self.latency
        return Check(
            "results in time",
            not late,
            f"{late} of {counted(self.issue_count, 'instruction')} read a result less than "
            f"{counted(self.latency, 'cycle')} after its issue.",
        )

    @_checks.names_keywords
    def verify_frame(self, cycle: int) -> Check:
        r"""Check that in a cycle only registers change that are written, and only of the lanes that run.

        Parameters
        ----------
        cycle : int
            Cycle from 0.

        Returns
        -------
        Check
            The one that `verify` adds for a cycle.

        Raises
        ------
        ValueError
            When the trace has no such cycle.

        Examples
        --------
        >>> from pulsewarp import simt
        >>> simt.run_warp("if lane < 4:\n    x = 1\nx = 2").verify_frame(0).passed
        True
        """
        t = _checks.whole_number("cycle", cycle, least=0, most=self.cycles - 1)
        step = int(self.issued[t])
        earlier = self.values[t - 1] if t else np.zeros_like(self.values[0])
        changed = self.values[t] != earlier
        allowed = np.zeros_like(changed)
        if step >= 0 and self.steps[step].dst in self.registers:
            allowed[self.registers.index(str(self.steps[step].dst))] = self.mask[t]
        wrong = int((changed & ~allowed).any(axis=0).sum())
        ran = (
            f"line {self.steps[step].line} on {counted(int(self.mask[t].sum()), 'lane')}"
            if step >= 0
            else "no line"
        )
        return Check(
            f"cycle {t}", not wrong, f"{ran} ran; registers of {counted(wrong, 'other lane')} changed."
        )

    def __repr__(self) -> str:
        how = self.reconvergence + (f", {self.schedule}" if self.schedule != "converge" else "")
        ends = self.ending if self.hang else counted(self.cycles, "cycle")
        return (
            f"DivergenceTrace({how}: {counted(len(self.lines), 'line')}, "
            f"{counted(self.issue_count, 'instruction')}, {100 * self.efficiency:.1f} % of lane slots, "
            f"{ends})"
        )


@_checks.names_keywords
def run_warp(
    program: str,
    *,
    reconvergence: str = "stack",
    schedule: str = "converge",
    first: str = "then",
    shared: Mapping[str, int] | None = None,
    lanes: int = LANES,
    latency: int = 4,
    branches: bool = True,
) -> DivergenceTrace:
    """Run one warp through a program whose branches depend on the lane, and keep every cycle.

    The program is read, never run as Python. It may hold assignments, ``if``, ``elif``, ``else``, ``while``,
    ``for i in range(...)``, ``break``, ``continue``, ``return``, ``pass``; the expressions of `pattern` with
    names of its own; ``syncwarp()``, ``syncthreads()``; and on a variable that all lanes share
    ``x = exch(name, value)`` and ``x = add(name, value)``, which give the value from before.

    A line is one instruction (a line of several statements one for each); one is issued in a cycle at most,
    when what it reads is there: registers are tracked for the warp as a whole, so the second path waits for
    the first one's result in the same register (PW-0, as `simulate`; Accel-Sim counts divergent paths the
    same way). A shared variable changes at once; of lanes that write it together the highest wins, and
    atomics go by lane: this order is not documented. The block is this one warp.

    Parameters
    ----------
    program : str
        Lines of Python.
    reconvergence : str
        ``"stack"``: one program counter and a stack of masks, as before Volta. ``"independent"``: a program
        counter for each lane, as since.
    schedule : str
        For independent lanes, since the order of paths is not documented. ``"converge"``: one path after the
        other; lanes wait where the branch ends, unless the others only repeat themselves. ``"alternate"``:
        paths take turns after every instruction, and meet at ``syncwarp()`` or by chance.
    first : str
        The path run first at a branch, ``"then"`` or ``"else"``; not documented either.
    shared : mapping of str to int, optional
        Variables that the lanes share, with their first values.
    lanes : int
        Lanes that take part, 1 to 32; the rest of the warp stays off.
    latency : int
        Cycles from issue until a result can be read; 4 is that of an FFMA from Volta to Hopper, as in
        `chain`. A branch and a barrier act in the next cycle.
    branches : bool
        Whether a branch is an instruction of its own; False: it takes no cycle, as in `diverge`.

    Returns
    -------
    DivergenceTrace
        Ends too where lanes would wait for ever: `deadlock` then says who waits for whom.

    Raises
    ------
    ValueError
        When the program cannot be read, holds something else (which is named, with its line), or divides by
        zero; when a setting is none of those above.

    Examples
    --------
    >>> from pulsewarp import simt
    >>> program = '''
    ... x = 0
    ... for i in range(lane % 4):
    ...     x = x + i
    ... '''
    >>> trace = simt.run_warp(program, latency=1)
    >>> trace
    DivergenceTrace(stack: 3 lines, 9 instructions, 66.7 % of lane slots, 9 cycles)
    >>> trace.results["x"][:4]
    (0, 0, 1, 3)
    """
    program = _checks.instance("program", program, str, "write its lines as one text")
    _checks.choice("reconvergence", reconvergence, RECONVERGENCE)
    _checks.choice("schedule", schedule, SCHEDULES)
    _checks.choice("first", first, FIRST)
    if reconvergence == "stack" and schedule != "converge":
        raise ValueError(
            f"schedule is {schedule!r}, but a stack runs one path after the other; leave it out, or take "
            f"reconvergence='independent'."
        )
    latency = _checks.whole_number("latency", latency, most=MOST_LATENCY)
    lanes = _checks.whole_number("lanes", lanes, most=LANES)
    _checks.instance("branches", branches, bool, "write True to count a branch as an instruction, or False")
    start = {
        name: _checks.whole_number(f"shared[{name!r}]", value, least=-MOST_ADDRESS, most=MOST_ADDRESS)
        for name, value in _checks.instance(
            "shared", shared or {}, dict, "write for instance {'lock': 0}"
        ).items()
    }
    read = read_program(program, start)
    machine = MACHINES[reconvergence if reconvergence == "stack" else schedule]
    run = run_machine(machine(read, start, lanes, first == "then"), branches)
    if not run.moments and run.hang is None:
        raise ValueError(
            "The program issues nothing, since its branches take no cycle; write a line that does something, "
            "or leave branches=False out."
        )
    return _trace(
        read, run, _times(read, run, latency), reconvergence=reconvergence, schedule=schedule, first=first,
        latency=latency, branches=branches, lanes=lanes, shared_start=tuple(start.values()),
        hang=_hang(read, run, lanes), cut=run.hang == "cut",
    )  # fmt: skip


@_checks.names_keywords
def follow_lanes(kernel: KernelTrace, *, warp: int = 0, load_latency: int = 18) -> DivergenceTrace:
    """Return how the lanes of one warp of a traced kernel part and meet, line by line of its source.

    Modelled: the order and the masks are those in which the kernel was traced, one path after the other; each
    instruction takes the time that `KernelTrace.timed_programs` gives it, with this warp alone on its
    scheduler. Not modelled: other orders of the paths, what a compiler makes of short branches (it may run
    both sides under a predicate), and waiting for other warps at a barrier. Registers are left out.

    Parameters
    ----------
    kernel : KernelTrace
        What `trace_kernel` returned.
    warp : int
        Which of its warps.
    load_latency : int
        Cycles of a load of global memory; 18 is illustrative, as in `load_compute`: shorter than any real
        one, so that it can be watched.

    Returns
    -------
    DivergenceTrace
        `reconvergence` is ``"traced"``.

    Raises
    ------
    ValueError
        When the kernel has no such warp, when it stops at a barrier that never opens, when it takes too many
        cycles, or runs lines of another function.

    Examples
    --------
    >>> import numpy as np
    >>> from pulsewarp import simt
    >>> x = np.ones(100, np.float32)
    >>> run = simt.trace_kernel(simt.lesson_kernels.vector_add, grid=1, block=128, args=(x, x, x))
    >>> trace = simt.follow_lanes(run, warp=3)  # 100 threads of 128 have an element
    >>> trace.mask.sum(axis=1)[trace.issued >= 0].tolist()
    [32, 32, 32, 4, 4, 4, 4]
    """
    kernel = _checks.instance("kernel", kernel, KernelTrace, "make one with simt.trace_kernel")
    warp = _checks.whole_number("warp", warp, least=0, most=len(kernel.warps) - 1)
    own = kernel.warps[warp]
    if own.stopped:
        raise ValueError(
            f"Warp {warp} stops at a barrier that never opens, so its lanes cannot be followed to the end; "
            f"see the trace's problems, or write the branch as a program for simt.run_warp."
        )
    last = kernel.first_line + len(kernel.source) - 1
    for i in own.instructions:
        if not kernel.first_line <= i.line <= last:
            raise ValueError(
                f"Warp {warp} runs line {i.line}, which is none of {kernel.name}'s own ({kernel.first_line} "
                f"to {last}); write what it calls into the kernel."
            )
    program, run = _traced(kernel, own)
    stream = list(kernel.timed_programs(load_latency=load_latency, warps=[warp])[0])
    timed = simulate(
        [[bar if bar.unit != "bar" else replace(bar, lanes=LANES) for bar in stream]], schedulers=1
    )
    call = f"simt.trace_kernel({kernel.name}, grid={kernel.grid}, block={kernel.block}, args=args)"
    return _trace(
        program, run, (np.flatnonzero(timed.issued[:, 0] >= 0).tolist(), timed.cycles),
        reconvergence="traced", schedule="converge", first="then", latency=load_latency, branches=True,
        lanes=own.mask.bit_length(), shared_start=(), hang=None, first_line=kernel.first_line,
        kernel=(call, warp),
    )  # fmt: skip


def _traced(kernel: KernelTrace, warp: TracedWarp) -> tuple[LaneProgram, Run]:
    """Return a traced warp's instructions as steps and moments; a lane stands at the next one it runs."""
    kinds = {"branch": "branch", "barrier": "syncthreads", "warp barrier": "syncwarp"}
    keys = [(i.line, i.text, kinds.get(i.what, "set")) for i in warp.instructions]
    order = {key: n for n, key in enumerate(sorted(set(keys), key=lambda key: (key[0], keys.index(key))))}
    reads = dict(zip(keys, warp.instructions, strict=True))
    steps = tuple(
        Step(
            line,
            text,
            kind,
            reads[line, text, kind].dst,
            reads[line, text, kind].srcs,
            None,
            None,
            -1,
            -1,
            -1,
        )
        for line, text, kind in order
    )
    masks = [i.mask for i in warp.instructions]
    ahead: list[int | None] = [None] * LANES  # the next instruction of each lane, from the back
    found: list[Moment] = []
    for k in range(len(masks) - 1, -2, -1):
        following = masks[k + 1] if k + 1 < len(masks) else 0
        for lane in range(LANES):
            if following >> lane & 1:
                ahead[lane] = k + 1
        pcs = tuple(-1 if j is None else order[keys[j]] for j in ahead)
        states = tuple(ENDED if j is None else MEETS if masks[j] & following else OFF for j in ahead)
        lanes = tuple(lane for lane in range(LANES) if k >= 0 and masks[k] >> lane & 1)
        found.append(Moment(order[keys[k]] if k >= 0 else -1, lanes, pcs, states, ({},) * LANES, {}, ()))
    start, *moments = reversed(found)
    return LaneProgram(kernel.source, steps, (), ()), Run(start, moments, None)


def _trace(
    program: LaneProgram, run: Run, timed: tuple[list[int], int], *, lanes: int, hang: str | None,
    shared_start: tuple[int, ...], **how: Any,
) -> DivergenceTrace:  # fmt: skip
    """Return a run's moments laid out over cycles."""
    times, cycles = timed
    if cycles > MOST_CYCLES:
        raise ValueError(
            f"The run takes {cycles} cycles, but at most {MOST_CYCLES} are kept; shorten its loops, or take "
            f"a smaller latency than {how['latency']}."
        )
    cycles += hang is not None  # one cycle more, in which nothing happens
    which = np.searchsorted(times, np.arange(cycles), side="right") - 1  # the moment each cycle comes after
    moments = [run.start, *run.moments]
    issued = np.full(cycles, -1, np.int32)
    mask = np.zeros((cycles, LANES), bool)
    state = np.zeros((cycles, LANES), np.int8)
    for i, moment in enumerate(run.moments):
        issued[times[i]] = moment.step
        mask[times[i], list(moment.lanes)] = True
    for t in range(cycles):
        done = int(which[t]) if issued[t] < 0 else int(which[t]) - 1  # how the lanes stood before this cycle
        after = run.moments[done + 1].lanes if done + 1 < len(run.moments) else ()
        state[t] = moments[done + 1].states
        if hang is not None and t == cycles - 1:
            state[t, list(run.round)] = RUNS
        else:
            state[t, list(after)] = RUNS if issued[t] >= 0 else STALLED
    told = [moments[int(i) + 1] for i in which]
    registers = program.registers
    values = np.zeros((cycles, len(registers), LANES), np.int64)
    known = np.zeros(values.shape, bool)
    for t, moment in enumerate(told):
        if t and moment is told[t - 1]:
            values[t], known[t] = values[t - 1], known[t - 1]
            continue
        for lane, own in enumerate(moment.values):
            for r, name in enumerate(registers):
                if name in own:
                    values[t, r, lane], known[t, r, lane] = own[name], True
    return DivergenceTrace(
        lines=program.lines, steps=program.steps, lanes=lanes, issued=freeze(issued), mask=freeze(mask),
        state=freeze(state), pc=freeze(np.array([moment.pcs for moment in told], np.int32)),
        values=freeze(values), known=freeze(known),
        shared=freeze(np.array([[*moment.shared.values()] for moment in told], np.int64).reshape(cycles, -1)),
        registers=registers, shared_names=program.shared, shared_start=shared_start,
        stack=tuple(moment.stack for moment in told), hang=hang, **how,
    )  # fmt: skip


def _times(program: LaneProgram, run: Run, latency: int) -> tuple[list[int], int]:
    """Return the cycle in which each moment is issued, and the cycles until all has landed: PW-0."""
    if not run.moments:
        return [], 0
    stream = []
    for moment in run.moments:
        step = program.steps[moment.step]
        own = [name for name in step.srcs if name in program.registers]
        stream.append(
            Instruction(
                "alu", latency if step.dst else 1, 1, step.dst, tuple(own), step.text, len(moment.lanes)
            )
        )
    timed = simulate([stream], schedulers=1)
    return np.flatnonzero(timed.issued[:, 0] >= 0).tolist(), timed.cycles


def _lanes_off(issued: Any, work: Any) -> Any:
    return LANES * issued - work


def _efficiency(issued: Any, work: Any) -> Any:
    return work / (LANES * np.maximum(1, issued))


def _alone(program: LaneProgram, lane: int, branches: bool) -> tuple[dict[str, int], int]:
    """Return what one lane's registers hold at the end when it runs by itself, and how many steps it ran."""
    values: dict[str, int] = {}
    counters: dict[str, tuple[int, int]] = {}
    pc, count = 0, 0
    while pc < program.end:
        step = program.steps[pc]
        numbers = [expression.number(lane, values) for expression in step.expressions]
        count += branches or not step.branches
        taken = True
        if step.kind == "set":
            values[str(step.dst)] = numbers[0]
        elif step.kind == "branch":
            taken = bool(numbers[0])
        elif step.kind == "range":
            low, high = (0, *numbers)[-2:]
            counters[str(step.counter)] = (low, high)
        elif step.kind == "for":
            low, high = counters[str(step.counter)]
            taken = low < high
            if taken:
                values[str(step.dst)], counters[str(step.counter)] = low, (low + 1, high)
        pc = step.next if taken else step.other
    return values, count


def _hang(program: LaneProgram, run: Run, lanes: int) -> str | None:
    """Return why a run never ends: who goes round, or who waits for whom."""
    if run.hang is None:
        return None
    last = run.moments[-1] if run.moments else run.start

    def place(pc: int) -> str:
        return f"line {program.steps[pc].line}" if pc < program.end else "the end"

    groups: dict[tuple[int, int], list[int]] = {}
    for lane in range(lanes):
        if lane not in run.round and last.states[lane] != ENDED:
            groups.setdefault((last.states[lane], last.pcs[lane]), []).append(lane)
    waits = []
    them = "it" if len(run.round) == 1 else "them"
    for (state, pc), members in sorted(groups.items()):
        verb = "waits" if len(members) == 1 else "wait"
        if state in (SYNCWARP, SYNCTHREADS):
            waits.append(f"{name_lanes(members)} {verb} at {LANE_STATES[state]}() in {place(pc)}")
        else:
            whom = them if run.round else "the others"
            waits.append(f"{name_lanes(members)} {verb} for {whom} before {place(pc)}")
    if not run.round:
        return f"Nothing can move: {', '.join(waits)}; a barrier opens when every lane has come."
    lines = sorted({program.steps[step].line for step in run.round_steps})
    where = f"line {lines[0]}" if len(lines) == 1 else f"lines {lines[0]} to {lines[-1]}"
    verb = "goes" if len(run.round) == 1 else "go"
    who = name_lanes(sorted(run.round))
    if run.hang == "cut":
        said = f"Cut off after {len(run.moments):,} instructions: {who} {verb} round {where}"
    else:
        said = f"Never ends: {who} {verb} round {where} and nothing changes"
    return "; ".join([said, *waits]) + "."


def name_lanes(lanes: list[int]) -> str:
    """Return lanes in words: ``"lanes 0 to 15"``, ``"16 lanes (0, 2, ... 30)"``, ``"all 32 lanes"``."""
    if len(lanes) == LANES:
        return f"all {LANES} lanes"
    if len(lanes) == 1:
        return f"lane {lanes[0]}"
    if lanes[-1] - lanes[0] == len(lanes) - 1:
        return f"lanes {lanes[0]} {'and' if len(lanes) == 2 else 'to'} {lanes[-1]}"
    if len(lanes) <= 4:
        return f"lanes {', '.join(map(str, lanes[:-1]))} and {lanes[-1]}"
    gaps = set(np.diff(lanes).tolist())
    few = (
        f"{lanes[0]}, {lanes[1]}, ... {lanes[-1]}"
        if len(gaps) == 1
        else f"{', '.join(map(str, lanes[:3]))}, ..."
    )
    return f"{len(lanes)} lanes ({few})"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
