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

if TYPE_CHECKING:
    from pulsewarp.simt.kernel import Kernel

MOST_CELLS = 2**24  # cycles x warps; ten bytes each are kept, 168 MB

Program = Sequence[Instruction]


@dataclass(frozen=True, eq=False, repr=False)
class WarpTrace:
    """What every warp and every scheduler did in every cycle of a run. See `simulate` for the model."""

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

    def __repr__(self) -> str:
        return (
            f"WarpTrace({self.warps} warps, {self.schedulers} schedulers, {self.policy}: "
            f"{self.issue_count} instructions in {self.cycles} cycles)"
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
    """Issue the warps' instructions cycle by cycle and return what happened."""
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
