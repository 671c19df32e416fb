"""What comes out: a kernel executed lane by lane, and the trace of its warps with reasons in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp import _checks
from pulsewarp._report import Check, Report
from pulsewarp._text import counted
from pulsewarp.simt._instruction import Instruction
from pulsewarp.simt._recount import Recount
from pulsewarp.simt._states import BARRIER, ISSUES, open_barriers
from pulsewarp.simt._words import MOST_NAMED, Words


@dataclass(frozen=True, eq=False, repr=False)
class Kernel:
    """A kernel executed lane by lane: its programs, and the value each lane holds after each instruction.

    Parameters
    ----------
    a, b : ndarray, shapes (m, k) and (k, n)
        The operands.
    programs : tuple of tuples of Instruction
        One program per warp, as `simulate` takes them.
    blocks : tuple of int
        The block of each warp.
    lane_values : tuple of ndarray, each (instructions, 32)
        Per warp, what each lane writes at each instruction: the loaded element, the new sum, or the
        stored result. Lanes that are off hold 0.
    active_lanes : tuple of int
        Per warp, how many lanes have a thread; they are the first ones.
    result : ndarray, shape (m, n)
        What the threads stored.

    Examples
    --------
    >>> from pulsewarp import simt
    >>> kernel = simt.matmul_kernel([[1, 2], [3, 4]], [[5, 6], [7, 8]])
    >>> kernel
    Kernel(2x2 @ 2x2: 4 threads, 1 warp, 7 instructions each)
    >>> kernel.simulate(schedulers=1, policy="gto")
    WarpTrace(1 warp, 1 scheduler, gto: 7 instructions in 44 cycles)
    """

    a: NDArray[Any]
    b: NDArray[Any]
    programs: tuple[tuple[Instruction, ...], ...]
    blocks: tuple[int, ...]
    lane_values: tuple[NDArray[Any], ...]
    active_lanes: tuple[int, ...]
    result: NDArray[Any]

    @_checks.names_keywords
    def simulate(
        self, *, schedulers: int = 4, policy: str = "lrr", max_outstanding: int | None = None
    ) -> WarpTrace:
        """Return the trace of this kernel's warps on one SM; its `kernel` is this one.

        Parameters
        ----------
        schedulers, policy, max_outstanding
            As for `simulate`.

        Returns
        -------
        WarpTrace

        Raises
        ------
        ValueError
            As `simulate`.
        """
        from pulsewarp.simt.scheduler import simulate  # it makes traces, so it stands above this module

        trace = simulate(
            self.programs,
            schedulers=schedulers,
            policy=policy,
            max_outstanding=max_outstanding,
            blocks=self.blocks,
        )
        object.__setattr__(trace, "kernel", self)  # nobody else has this trace yet
        return trace

    def __repr__(self) -> str:
        (m, k), n = self.a.shape, self.b.shape[1]
        return (
            f"Kernel({m}x{k} @ {k}x{n}: {counted(m * n, 'thread')}, "
            f"{counted(len(self.programs), 'warp')}, {len(self.programs[0])} instructions each)"
        )


# What `WarpTrace` works out when one of them is first read: most of the time that a run takes.
PER_CYCLE = ("state", "pc", "until", "lanes")


@dataclass(frozen=True, eq=False, repr=False)
class WarpTrace:
    """What every warp and every scheduler did in every cycle of a run of `simulate`.

    Entry ``t`` of an array tells of cycle ``t``. Letters: `T` cycles, `W` warps, `S` schedulers. The issues
    settle `state`, `pc`, `until` and `lanes`, which are worked out when one of them is first read.

    Parameters
    ----------
    programs : tuple of tuples of Instruction
        One per warp; warp ``w`` sits on scheduler ``w mod S``.
    blocks : tuple of int
        The block of each warp.
    schedulers, policy, max_outstanding
        As simulated.
    cycles : int
        `T`: the largest issue cycle plus latency (plus 1 for a barrier). It ends with the cycle before the
        last result can be read, so the very last state of the warp that lands last is a wait.
    issue_count : int
        Instructions issued: the sum of the programs' lengths, less what a `deadlock` kept back.
    issued : ndarray of int32, (T, S)
        The warp each scheduler issued, -1 for none.
    state : ndarray of int8, (T, W)
        Index into `STATES`, as each warp stood when its scheduler decided (schedulers decide in index
        order, so one may find the memory unit taken in the same cycle):

        - ``issues``: it issues the instruction at `pc`.
        - ``ready``: it could have issued, but its scheduler issued another warp.
        - ``memory``, ``result``: a source or the destination of its next instruction is not there; of
          several, the one that comes last decides whether it waits for a ``mem`` instruction or for
          another (on a tie: memory). A warp that has issued everything waits likewise for the last thing
          it has in flight, stores included.
        - ``unit``: its operands are there, but the unit is taken.
        - ``limit``: it would load, but `max_outstanding` loads are in flight. Where the unit is taken too,
          the wait that ends later is shown.
        - ``barrier``: it has issued a barrier and may not go on.
        - ``finished``: it has issued everything, and everything has landed.
        - ``pending``: its operands are there, but it is not in its scheduler's active pool (``two_level``).
    pc : ndarray of int32, (T, W)
        Index of the instruction the warp issues in this cycle or will issue next; ``len(program)`` when
        none is left. At a barrier it already points behind it.
    until : ndarray of int32, (T, W)
        First cycle in which the present wait is over, as known at the end of this cycle. Operands: exact.
        A unit or a load's place: when it comes free, though another warp may take it then. A barrier: -1
        as long as a warp is missing, then the cycle after the last arrival. -1 where there is no wait.
    lanes : ndarray of uint8, (T, W)
        Active lanes of the instruction the warp issues, else 0.
    requests : ndarray of int64, (requests, 4)
        Rows (issue cycle, warp, pc, cycle in which it lands) of the ``mem`` instructions.
    kernel : Kernel or None
        The kernel that was run, with the values of its lanes.
    held : tuple of int
        Warps that a traced kernel leaves at a barrier that never opens, the last instruction they have here.

    Examples
    --------
    >>> from pulsewarp import simt
    >>> trace = simt.simulate([simt.load_compute(1, 1)] * 2, schedulers=1)
    >>> [simt.STATES[code] for code in trace.state[[0, 1, 18, 19], 1]]
    ['ready', 'issues', 'memory', 'issues']
    >>> trace.until[2].tolist()
    [18, 19]
    """

    programs: tuple[tuple[Instruction, ...], ...]
    blocks: tuple[int, ...]
    schedulers: int
    policy: str
    max_outstanding: int | None
    cycles: int
    issue_count: int
    issued: NDArray[np.int32]
    state: NDArray[np.int8]
    pc: NDArray[np.int32]
    until: NDArray[np.int32]
    lanes: NDArray[np.uint8]
    requests: NDArray[np.int64]
    kernel: Kernel | None = None
    held: tuple[int, ...] = ()

    @classmethod
    def _of_run(cls, per_cycle: Callable[[], Mapping[str, NDArray[Any]]], **known: Any) -> WarpTrace:
        """Return a trace that asks `per_cycle` for the arrays in `PER_CYCLE` when one of them is read."""
        trace = object.__new__(cls)
        trace.__dict__.update(known, _per_cycle=per_cycle)
        return trace

    if not TYPE_CHECKING:  # a type checker shall go on finding names that are not there

        def __getattr__(self, name: str) -> Any:
            """Work out the arrays that nobody has read so far."""
            per_cycle = self.__dict__.get("_per_cycle")
            if per_cycle is None or name not in PER_CYCLE:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            self.__dict__.update(per_cycle())
            self.__dict__.pop("_per_cycle", None)
            return self.__dict__[name]

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields, for a copy or a file, with the arrays in them."""
        for name in PER_CYCLE:
            getattr(self, name)
        return dict(self.__dict__)

    @property
    def warps(self) -> int:
        """Number of warps."""
        return len(self.programs)

    @property
    def deadlock(self) -> str | None:
        """Who waits at a barrier that never opens, and who is missing; None when every warp finished.

        Since Volta a barrier is over when all threads of the block that have not exited have reached it, so
        warps with different numbers of barriers alone do not hang. A barrier that only some threads of a
        warp reach does, where the others have not exited (a later instruction has more lanes than the
        barrier): these wait for the others where the branch ends. The trace then ends one cycle after
        everything else has landed.

        Examples
        --------
        >>> from pulsewarp import simt
        >>> half, add = simt.Instruction("bar", lanes=16), simt.Instruction(dst="r0")
        >>> simt.simulate([[add, half, add], [add, simt.bar(), add]]).deadlock
        'Block 0 never ends: w0 and w1 wait at a barrier; only 16 of the 32 threads of w0 reached it.'
        """
        states, _, pcs = self._rows(self.cycles - 1)
        return self._words().deadlock(states, pcs)

    def why(self, t: int, s: int) -> str:
        """Return one sentence: which warp scheduler `s` issues in cycle `t` and why, or why none.

        Parameters
        ----------
        t, s : int
            Cycle and scheduler.

        Returns
        -------
        str
            Numbers in it are cycles, taken from `until`.

        Raises
        ------
        ValueError
            When the trace has no such cycle or scheduler.

        Examples
        --------
        >>> from pulsewarp import simt
        >>> trace = simt.simulate([simt.chain(2)] * 2, schedulers=1)
        >>> trace.why(0, 0)
        'Scheduler 0 issues w0, the first in round robin: FFMA; w1 is ready too and waits its turn.'
        >>> trace.why(2, 0)
        'Scheduler 0 issues nothing: w0 waits for a result until 4, w1 until 5.'
        """
        t = self._cycle(t)
        s = _checks.whole_number("s", s, least=0, most=self.schedulers - 1)
        return self._words().scheduler(s, *self._rows(t), self._last(t, s))

    def why_warp(self, t: int, w: int) -> str:
        """Return one sentence: what warp `w` does in cycle `t`, or what it waits for.

        Parameters
        ----------
        t, w : int
            Cycle and warp.

        Returns
        -------
        str
            Names the instruction at `pc` and the registers it lacks.

        Raises
        ------
        ValueError
            When the trace has no such cycle or warp.

        Examples
        --------
        >>> from pulsewarp import simt
        >>> trace = simt.simulate([simt.chain(2)] * 2, schedulers=1)
        >>> trace.why_warp(2, 1)
        'w1 waits for a result until 5: FFMA r0, r0, r0, r0 needs r0 (FFMA issued at 1).'
        """
        t = self._cycle(t)
        w = _checks.whole_number("w", w, least=0, most=self.warps - 1)
        s = w % self.schedulers
        cycles = np.flatnonzero(self.state[:t, w] == ISSUES).tolist()
        return self._words().warp(t, w, *self._rows(t), self._last(t, s), int(self.issued[t, s]), cycles)

    def sentences(self) -> list[list[str]]:
        """Return ``why(t, s)`` of every cycle and scheduler, as ``sentences[t][s]``, made in one pass.

        Returns
        -------
        list of list of str
            `cycles` lists of `schedulers` sentences; cycles that differ in nothing share one string.

        Examples
        --------
        >>> from pulsewarp import simt
        >>> trace = simt.simulate([simt.chain(2)], schedulers=1)
        >>> trace.sentences()[1][0] == trace.why(1, 0)
        True
        """
        words = self._words()
        last = [-1] * self.schedulers
        told: list[list[str]] = []
        before: tuple[bytes, bytes, bytes] | None = None
        for t in range(self.cycles):
            now = (self.state[t].tobytes(), self.until[t].tobytes(), self.pc[t].tobytes())
            if now == before:  # nobody issues in such a cycle, or its program counter would differ
                told.append(told[-1])
                continue
            before = now
            rows = self._rows(t)
            told.append([words.scheduler(s, *rows, last[s]) for s in range(self.schedulers)])
            for s, w in enumerate(self.issued[t].tolist()):
                last[s] = w if w >= 0 else last[s]
        return told

    def events(self) -> list[tuple[int, str]]:
        """Return the notable cycles in order, each with a label of two or three words.

        Returns
        -------
        list of (int, str)
            First loads, first data back, first arithmetic, barriers opening, last issue: those that occur.

        Examples
        --------
        >>> from pulsewarp import simt
        >>> trace = simt.simulate([simt.load_compute(1, 2)] * 2, schedulers=1)
        >>> trace.events()
        [(0, 'first loads'), (18, 'first data back'), (23, 'last issue')]
        """
        issues = [np.flatnonzero(self.state[:, w] == ISSUES).tolist() for w in range(self.warps)]
        loads = [row for row in self.requests.tolist() if self.programs[row[1]][row[2]].dst is not None]
        compute: list[int] = []
        arrivals: list[list[int]] = []
        for w, program in enumerate(self.programs):
            begun = list(zip(issues[w], program, strict=False))  # a deadlock keeps back the program's end
            compute += [t for t, i in begun if i.unit not in ("mem", "bar")][:1]
            arrivals.append([t for t, i in begun if i.unit == "bar"])
        opened = open_barriers(self.blocks, issues, arrivals)
        for block in {self.blocks[w] for w in np.flatnonzero(self.state[-1] == BARRIER).tolist()}:
            opened[block].pop()
        openings = sorted({t for cycles in opened.values() for t in cycles})
        found = [
            (min((row[0] for row in loads), default=self.cycles), "first loads"),
            (min((row[3] for row in loads), default=self.cycles), "first data back"),
            (min(compute, default=self.cycles), "first arithmetic"),
            (min((times[0] for times in arrivals if times), default=self.cycles), "first at a barrier"),
        ]
        if len(openings) > MOST_NAMED:
            found += [(openings[0], "first barrier opens"), (openings[-1], "last barrier opens")]
        else:
            found += [(t, "barrier opens") for t in openings]
        last = max(times[-1] for times in issues if times)
        # First where it shares its cycle, since that is kept.
        found.insert(0, (last + 1, "deadlock") if self.deadlock else (self.cycles, ""))
        found.append((self.cycles if self.deadlock else last, "last issue"))
        by_cycle: dict[int, str] = {}
        for t, label in sorted(found, key=lambda event: event[0]):
            if t < self.cycles:  # what comes with the very end of the run has no cycle in it
                by_cycle.setdefault(t, label)
        return list(by_cycle.items())

    def verify(self, cycle: int | None = None) -> Report:
        """Tell the run again from its issues alone and compare; with `cycle`, that cycle by itself too.

        Checked: a scheduler issues its own warps, at most one in a cycle; programs in order and to their end;
        no operand read and no unit taken before its time; loads in flight; barriers passed by nobody before
        all have come; every state, program counter and end of a wait; that the warp issued is the one the
        policy names, and a slot empty only where nobody could issue; the totals. Of a `Kernel` also the
        values of its lanes and its product.

        Parameters
        ----------
        cycle : int, optional
            Cycle from 0.

        Returns
        -------
        Report
            One `Check` each, with its numbers in a sentence; `passed` when all hold.

        Raises
        ------
        ValueError
            When the trace has no such cycle.

        Examples
        --------
        >>> from pulsewarp import simt
        >>> trace = simt.simulate([simt.load_compute(2, 2)] * 8)
        >>> trace.verify().passed
        True
        >>> print(trace.verify(cycle=22).checks[-1].says)
        8 warps and 4 schedulers told again from the issues: 0 and 0 differ.
        """
        from pulsewarp.simt import _verification  # it needs this class

        checks = _verification.verify(self, self._recount).checks
        return Report(checks if cycle is None else (*checks, self.verify_frame(cycle)))

    def verify_frame(self, cycle: int) -> Check:
        """Check one cycle and nothing of the whole run: the check that `verify` adds for a cycle.

        Parameters
        ----------
        cycle : int
            Cycle from 0.

        Returns
        -------
        Check
            Whether it holds, with its numbers in a sentence.

        Raises
        ------
        ValueError
            As `verify`.

        Examples
        --------
        >>> from pulsewarp import simt
        >>> simt.simulate([simt.chain(2)]).verify_frame(4).passed
        True
        """
        from pulsewarp.simt import _verification  # it needs this class

        t = _checks.whole_number("cycle", cycle, least=0, most=self.cycles - 1)
        return _verification.verify_frame(self, self._recount, t)

    @cached_property
    def _recount(self) -> Recount:
        return Recount(self.programs, self.blocks, self.policy, self.max_outstanding, self.issued, self.held)

    def _words(self) -> Words:
        return Words(self.programs, self.blocks, self.schedulers, self.policy, self.max_outstanding)

    def _cycle(self, t: int) -> int:
        return _checks.whole_number("t", t, least=0, most=self.cycles - 1)

    def _rows(self, t: int) -> tuple[list[int], list[int], list[int]]:
        return self.state[t].tolist(), self.until[t].tolist(), self.pc[t].tolist()

    def _last(self, t: int, s: int) -> int:
        """Return the warp that scheduler `s` issued last before cycle `t`, -1 when there is none."""
        earlier = self.issued[:t, s]
        earlier = earlier[earlier >= 0]
        return int(earlier[-1]) if len(earlier) else -1

    def __repr__(self) -> str:
        return (
            f"WarpTrace({counted(self.warps, 'warp')}, {counted(self.schedulers, 'scheduler')}, "
            f"{self.policy}: {counted(self.issue_count, 'instruction')} in {self.cycles} cycles)"
        )
