"""The trace of a run: what every warp and scheduler did in every cycle, and why, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pulsewarp import _checks
from pulsewarp.simt import _engine, _policy, _states
from pulsewarp.simt._instruction import Instruction
from pulsewarp.simt._words import Words

if TYPE_CHECKING:
    from pulsewarp.simt.kernel import Kernel

MOST_CELLS = 2**24  # cycles x warps; ten bytes each are kept, 168 MB

Program = Sequence[Instruction]


@dataclass(frozen=True, eq=False, repr=False)
class WarpTrace:
    """What every warp and every scheduler did in every cycle of a run of `simulate`.

    Entry ``t`` of an array tells of cycle ``t``. Letters: `T` cycles, `W` warps, `S` schedulers.

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
        Instructions issued, the sum of the programs' lengths.
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
    kernel: Kernel | None = field(default=None)

    @property
    def warps(self) -> int:
        """Number of warps."""
        return len(self.programs)

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
        return Words(self).scheduler(s, *self._rows(t), self._last(t, s))

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
        return Words(self).warp(t, w, *self._rows(t), self._last(t, w % self.schedulers))

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
        words = Words(self)
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
        return Words(self).events()

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
            f"WarpTrace({self.warps} warp{'s' * (self.warps > 1)}, "
            f"{self.schedulers} scheduler{'s' * (self.schedulers > 1)}, {self.policy}: "
            f"{self.issue_count} instruction{'s' * (self.issue_count > 1)} in {self.cycles} cycles)"
        )


def simulate(
    programs: Sequence[Program],
    *,
    schedulers: int = 4,
    policy: str = "lrr",
    max_outstanding: int | None = None,
    blocks: Sequence[int] | None = None,
    **unknown: object,
) -> WarpTrace:
    """Issue the warps' instructions cycle by cycle and return what happened.

    The model is PW-0: in each cycle each scheduler issues at most one instruction, of one eligible warp.
    A warp is eligible when it is not at a barrier, issued nothing in this cycle, the sources and the
    destination of its next instruction are ready, and the unit is free. Issued at ``t``, the result is
    there at ``t + latency`` and the unit is free at ``t + interval``. Memory is one unit for all schedulers,
    which decide in index order within a cycle; other units exist once per scheduler. A barrier takes an
    issue slot; all warps of the block may go on in the cycle after the last of them issued it.

    Not modelled: caches (a load takes the latency written in it), instruction fetch, register banks, dual
    issue, write-after-read hazards, what placing blocks costs. NVIDIA documents no scheduling policy: Huerta
    et al. (MICRO 2025) find greedy-then-youngest on Ampere, Olmedo et al. (RTAS 2020) report loose round
    robin.

    Parameters
    ----------
    programs : sequence of sequences of Instruction
        One program per warp. Warp ``w`` sits on scheduler ``w mod schedulers``; a lower id is older.
    schedulers : int
        4 on every SM since Volta.
    policy : str
        ``"lrr"``: the first eligible warp after the last issued one, going round, at first from the lowest
        id. ``"gto"``: the last issued one if it can, else the oldest. ``"gty"``: else the youngest.
        ``"oldest"``: always the oldest.
    max_outstanding : int or None
        A ``mem`` instruction cannot issue while this many, of all warps, are in flight.
    blocks : sequence of int, or None
        The block index of each warp; None puts all in one block.
    **unknown
        Any other keyword is refused, and the nearest valid one named.

    Returns
    -------
    WarpTrace
        States, waits and issues of every cycle.

    Raises
    ------
    ValueError
        For a value out of its range, for warps of one block with different numbers of barriers (one would
        never open), and for a run of more than 2**24 cycles x warps.
    TypeError
        For an unknown keyword.

    Examples
    --------
    >>> from pulsewarp import simt
    >>> trace = simt.simulate([simt.load_compute(2, 2)] * 8, schedulers=4, policy="lrr")
    >>> trace
    WarpTrace(8 warps, 4 schedulers, lrr: 48 instructions in 57 cycles)
    >>> trace.why(22, 1)
    'Scheduler 1 issues nothing: w1 waits for a result until 24, w5 until 25.'
    """
    _checks.known_keywords(
        "simulate", unknown, ("programs", "schedulers", "policy", "max_outstanding", "blocks")
    )
    schedulers = _checks.whole_number("schedulers", schedulers, most=1024)
    _checks.choice("policy", policy, _policy.POLICIES)
    if max_outstanding is not None:
        max_outstanding = _checks.whole_number(
            "max_outstanding", max_outstanding, remedy="None sets no limit."
        )
    kept = _kept(programs)
    in_block = _blocks(blocks, kept)
    last_cycle = MOST_CELLS // len(kept)
    try:
        issues = _engine.run(kept, in_block, schedulers, policy, max_outstanding, last_cycle)
        events = _states.log(kept, schedulers, issues)
        if events.cycles > last_cycle:
            raise OverflowError
    except OverflowError:
        raise ValueError(
            f"The run passes {last_cycle} cycles, the most kept for {len(kept)} warps "
            f"(cycles x warps up to {MOST_CELLS}); shorten the programs or their latencies."
        ) from None
    state, pc, until = _states.unroll(kept, in_block, issues, events, schedulers, max_outstanding)
    issued = np.full((events.cycles, schedulers), -1, np.int32)
    issued[events.cycle, events.scheduler] = events.warp
    lanes = np.zeros(state.shape, np.uint8)
    lanes[events.cycle, events.warp] = events.lanes
    loads = events.unit == (events.units.index("mem") if "mem" in events.units else -1)
    requests = np.stack([events.cycle, events.warp, events.pc, events.done], axis=1)[loads]
    for array in (issued, state, pc, until, lanes, requests):
        array.setflags(write=False)
    return WarpTrace(
        programs=kept,
        blocks=in_block,
        schedulers=schedulers,
        policy=policy,
        max_outstanding=max_outstanding,
        cycles=events.cycles,
        issue_count=len(events.cycle),
        issued=issued,
        state=state,
        pc=pc,
        until=until,
        lanes=lanes,
        requests=requests,
    )


def _kept(programs: Sequence[Program]) -> tuple[tuple[Instruction, ...], ...]:
    """Return the programs as tuples, equal ones as one object, so that each is compiled once."""
    same: dict[tuple[Instruction, ...], tuple[Instruction, ...]] = {}
    seen: dict[int, tuple[Instruction, ...]] = {}
    kept = []
    for w, program in enumerate(programs):
        if isinstance(program, Instruction):
            raise ValueError(
                "programs holds instructions, but must hold one program per warp; "
                "write [program] * 8 to run one program on 8 warps."
            )
        if id(program) not in seen:
            for pc, i in enumerate(program):
                if not isinstance(i, Instruction):
                    raise ValueError(f"Instruction {pc} of w{w} is {i!r}, but must be a simt.Instruction.")
            own = tuple(program)
            seen[id(program)] = same.setdefault(own, own)
        kept.append(seen[id(program)])
    if not any(kept):
        raise ValueError(
            f"programs has {len(kept)} warps and no instruction; give at least one warp an instruction."
        )
    return tuple(kept)


def _blocks(blocks: Sequence[int] | None, programs: Sequence[Program]) -> tuple[int, ...]:
    """Return the block of each warp; refuse a barrier that could never open."""
    if blocks is None:
        blocks = [0] * len(programs)
    if len(blocks) != len(programs):
        raise ValueError(
            f"blocks has {len(blocks)} entries for {len(programs)} warps; give the block index of every warp."
        )
    kept = tuple(_checks.whole_number(f"blocks[{w}]", block, least=0) for w, block in enumerate(blocks))
    count = {id(p): sum(i.unit == "bar" for i in p) for p in programs}
    first: dict[int, int] = {}
    for w, program in enumerate(programs):
        v = first.setdefault(kept[w], w)
        if count[id(program)] != count[id(programs[v])]:
            raise ValueError(
                f"In block {kept[w]}, w{v} has {count[id(programs[v])]} barriers and w{w} has "
                f"{count[id(program)]}, so a barrier would never open; give every warp of a block the same "
                f"number, or put them in different blocks."
            )
    return kept
