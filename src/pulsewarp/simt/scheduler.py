"""The run itself: checked input, the exact model, and the trace made from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp import _checks
from pulsewarp._arrays import freeze
from pulsewarp._text import counted
from pulsewarp.simt import _compiled, _engine, _policy, _states
from pulsewarp.simt._instruction import Instruction
from pulsewarp.simt.trace import WarpTrace

MOST_CELLS = 2**24  # cycles x warps; ten bytes each are kept, 168 MB
MOST_UNITS = 64  # a state is kept in eight bits, and the unit wanted with it while states are made

Program = Sequence[Instruction]


@_checks.names_keywords
def simulate(
    programs: Sequence[Program],
    *,
    schedulers: int = 4,
    policy: str = "lrr",
    max_outstanding: int | None = None,
    blocks: Sequence[int] | None = None,
) -> WarpTrace:
    """Issue the warps' instructions cycle by cycle and return what happened.

    The model is PW-0: in each cycle each scheduler issues at most one instruction, of one eligible warp.
    A warp is eligible when it is not at a barrier, issued nothing in this cycle, the sources and the
    destination of its next instruction are ready, and the unit is free. Issued at ``t``, the result is
    there at ``t + latency`` and the unit is free at ``t + interval``. Memory is one unit for all schedulers,
    which decide in index order within a cycle; other units exist once per scheduler. A barrier takes an
    issue slot; all warps of the block may go on in the cycle after the last of them issued it. A warp that
    has issued everything has exited, and no barrier waits for it. A barrier on fewer lanes than a later
    instruction of its warp misses threads and never opens; the trace then ends in a `WarpTrace.deadlock`.
    Both are as the CUDA C++ Programming Guide has it since Volta: a barrier needs all threads of the block
    that have not exited.

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
        ``"oldest"``: always the oldest. ``"two_level"``: round robin among the six warps of an active pool;
        a warp that waits for a load or a barrier, or has finished, leaves it, and of those outside that need
        not wait so the one that left first (at the start: the lowest id) takes the place. The policy is that
        of Gebhart et al. (ISCA 2011), six as in Accel-Sim's ``two_level_active:6:0:1``; unlike Accel-Sim's,
        it lets nobody in who would have to leave again at once, and goes round by warp id. The two-level
        scheduler of Narasiman et al. (MICRO 2011), with fixed fetch groups, is another one.
    max_outstanding : int or None
        A ``mem`` instruction cannot issue while this many, of all warps, are in flight.
    blocks : sequence of int, or None
        The block index of each warp; None puts all in one block.

    Returns
    -------
    WarpTrace
        States, waits and issues of every cycle.

    Raises
    ------
    ValueError
        For a value out of its range, and for a run of more than 2**24 cycles x warps.
    TypeError
        For an unknown keyword; the nearest valid one is named.

    Examples
    --------
    >>> from pulsewarp import simt
    >>> trace = simt.simulate([simt.load_compute(2, 2)] * 8, schedulers=4, policy="lrr")
    >>> trace
    WarpTrace(8 warps, 4 schedulers, lrr: 48 instructions in 57 cycles)
    >>> trace.why(22, 1)
    'Scheduler 1 issues nothing: w1 waits for a result until 24, w5 until 25.'
    """
    schedulers = _checks.whole_number("schedulers", schedulers, most=1024)
    _checks.choice("policy", policy, _policy.POLICIES)
    if max_outstanding is not None:
        max_outstanding = _checks.whole_number(
            "max_outstanding", max_outstanding, remedy="None sets no limit."
        )
    kept = _kept(programs)
    in_block = _blocks(blocks, kept)
    last_cycle = MOST_CELLS // len(kept)
    distinct = {id(program): program for program in kept}
    units = tuple(sorted({i.unit for program in distinct.values() for i in program}))
    worked = {key: _compiled.compile_program(program, units) for key, program in distinct.items()}
    compiled = [worked[id(program)] for program in kept]
    try:
        issues, pools = _engine.run(
            compiled, units, in_block, schedulers, _policy.POLICIES[policy], max_outstanding, last_cycle
        )
        events = _states.log(compiled, units, schedulers, issues)
        if events.cycles > last_cycle:
            raise OverflowError
    except OverflowError:
        raise ValueError(
            f"The run passes {last_cycle} cycles, but cycles x warps may be at most {MOST_CELLS} "
            f"(here {counted(len(kept), 'warp')}); shorten the programs or their latencies."
        ) from None

    def per_cycle() -> dict[str, NDArray[Any]]:
        state, pc, until = _states.unroll(
            compiled, in_block, issues, events, schedulers, max_outstanding, pools
        )
        lanes = np.zeros(state.shape, np.uint8)
        lanes[events.cycle, events.warp] = events.lanes
        return {"state": freeze(state), "pc": freeze(pc), "until": freeze(until), "lanes": freeze(lanes)}

    issued = np.full((events.cycles, schedulers), -1, np.int32)
    issued[events.cycle, events.scheduler] = events.warp
    loads = events.unit == (events.units.index("mem") if "mem" in events.units else -1)
    requests = np.stack([events.cycle, events.warp, events.pc, events.done], axis=1)[loads]
    return WarpTrace._of_run(
        per_cycle,
        programs=kept,
        blocks=in_block,
        schedulers=schedulers,
        policy=policy,
        max_outstanding=max_outstanding,
        cycles=events.cycles,
        issue_count=len(events.cycle),
        issued=freeze(issued),
        requests=freeze(requests),
    )


def _kept(programs: Sequence[Program]) -> tuple[tuple[Instruction, ...], ...]:
    """Return the programs as tuples, equal ones as one object, so that each is compiled once."""
    held: list[object] = []  # as long as these live, no other object gets their identity
    by_identity: dict[int, tuple[Instruction, ...]] = {}
    by_content: dict[tuple[int, ...], tuple[Instruction, ...]] = {}
    numbers: dict[Instruction, int] = {}
    number_of: dict[int, int] = {}  # by identity, because hashing every instruction would take half the run
    kept = []
    for w, program in enumerate(_checks.several("programs", programs, "give one program per warp")):
        if isinstance(program, Instruction):
            raise ValueError(
                "programs holds instructions, but must hold one program per warp; "
                "write [program] * 8 to run one program on 8 warps."
            )
        if id(program) not in by_identity:
            own = _checks.several(f"The program of w{w}", program, "give a list of simt.Instruction")
            held += [program, own]
            for pc, i in enumerate(own):
                if id(i) not in number_of:
                    if not isinstance(i, Instruction):
                        raise ValueError(
                            f"Instruction {pc} of w{w} is {i!r}, but must be a simt.Instruction."
                        )
                    number_of[id(i)] = numbers.setdefault(i, len(numbers))
            content = tuple([number_of[id(i)] for i in own])
            by_identity[id(program)] = by_content.setdefault(content, own)
        kept.append(by_identity[id(program)])
    if not any(kept):
        raise ValueError(
            f"programs has {len(kept)} warps and no instruction; give at least one warp an instruction."
        )
    units = {i.unit for i in numbers}
    if len(units) > MOST_UNITS:
        raise ValueError(
            f"The programs name {len(units)} units, but may name at most {MOST_UNITS}; merge some."
        )
    return tuple(kept)


def _blocks(blocks: Sequence[int] | None, programs: Sequence[Program]) -> tuple[int, ...]:
    """Return the block of each warp."""
    if blocks is None:
        blocks = [0] * len(programs)
    blocks = _checks.several("blocks", blocks, "give the block index of every warp")
    if len(blocks) != len(programs):
        raise ValueError(
            f"blocks has length {len(blocks)}, but there are {len(programs)} warps; "
            f"give the block index of every warp."
        )
    return tuple(_checks.whole_number(f"blocks[{w}]", block, least=0) for w, block in enumerate(blocks))
