"""A program worked through once: its fields as columns, and what each instruction may have to wait for.

Warps that run the same program share one of these. Most waiting is settled here, before any cycle is run:
an operand written at least its latency in instructions earlier is always there, because a warp issues at
most one instruction a cycle, and so is one that an instruction in between already had to wait for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pulsewarp.simt._instruction import Instruction

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Compiled:
    """What the loop and the states need to know of a program."""

    program: Sequence[Instruction]
    latency: Ints
    interval: Ints
    unit: Ints
    lanes: Ints
    is_bar: NDArray[np.bool_]
    is_memory: NDArray[np.bool_]
    waits: tuple[tuple[int, ...], ...]  # by pc: the earlier instructions whose results may still be missing
    misses_threads: NDArray[np.bool_]  # a barrier on fewer lanes than some later instruction has

    @property
    def producers(self) -> Ints:
        """`waits` as a table (n, widest), -1 for none."""
        wide = max([1, *map(len, self.waits)])
        table = np.full((len(self.waits), wide), -1, np.int64)
        for pc, earlier in enumerate(self.waits):
            if earlier:
                table[pc, : len(earlier)] = earlier
        return table


def compile_program(program: Sequence[Instruction], units: Sequence[str]) -> Compiled:
    """Return the program's columns and waits; a unit's number is its place in `units`."""
    # A program repeats few instructions: fields are looked up once for each and spread over the columns.
    distinct = list({id(i): i for i in program}.values())
    place = {id(i): k for k, i in enumerate(distinct)}
    kinds = np.array([place[id(i)] for i in program], np.int64)
    number = {unit: k for k, unit in enumerate(units)}

    def column(values: list[int]) -> Ints:
        return np.array(values, np.int64)[kinds] if distinct else np.zeros(0, np.int64)

    latency = column([i.latency for i in distinct])
    unit = column([number[i.unit] for i in distinct])
    lanes = column([i.lanes for i in distinct])
    is_bar = unit == number.get("bar", -1)
    return Compiled(
        program=program,
        latency=latency,
        interval=column([i.interval for i in distinct]),
        unit=unit,
        lanes=lanes,
        is_bar=is_bar,
        is_memory=unit == number.get("mem", -1),
        waits=_waits(program, latency.tolist(), distinct),
        # Threads that come back later had not exited; those that never do may have.
        misses_threads=is_bar & (lanes < np.maximum.accumulate(lanes[::-1])[::-1]),
    )


def _waits(
    program: Sequence[Instruction], latency: list[int], distinct: list[Instruction]
) -> tuple[tuple[int, ...], ...]:
    touched = {id(i): tuple(dict.fromkeys((*i.srcs, *([] if i.dst is None else [i.dst])))) for i in distinct}
    writer: dict[
        str, int
    ] = {}  # the last one is enough: it could only issue when the earlier value was there
    pending: set[int] = set()  # writers that nothing has waited for yet
    none: tuple[int, ...] = ()
    waits = []
    for pc, i in enumerate(program):
        found = none
        for register in touched[id(i)]:
            p = writer.get(register, -1)
            if p in pending:
                pending.discard(p)
                if latency[p] > pc - p:
                    found += (p,)
        waits.append(found)
        if i.dst is not None:
            writer[i.dst] = pc
            pending.add(pc)
    return tuple(waits)
