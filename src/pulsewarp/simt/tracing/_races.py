"""Races: two threads touch one element, at least one writes, and nothing orders the two accesses.

Ordered are: two accesses of one thread; two of one block with a block barrier between them; two of one warp
with a warp barrier between them; two atomics. An order that a kernel makes for itself, by a fence and an
atomic that others look at, is not followed. Lanes of one warp that run in lock step are not ordered by it:
since Volta each thread goes its own way (CUDA C++ Programming Guide, independent thread scheduling).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp.simt._instruction import LANES
from pulsewarp.simt.tracing._launch import Launch, WarpRecord
from pulsewarp.simt.tracing.stream import Memory, Problem, Touch, TracedInstruction

LOAD, STORE, ATOMIC = range(3)
_KIND = {"load": LOAD, "store": STORE, "atomic": ATOMIC}
_VERB = ("reads", "writes", "changes by an atomic")
MOST_EXAMINED = 4096  # elements looked at one by one between two barriers

Ints = NDArray[np.signedinteger[Any]]  # 32 bits where that is enough: a column has millions


@dataclass(frozen=True, eq=False)
class _Accesses:
    """Accesses to one array, one entry each."""

    element: Ints
    block: Ints
    thread: Ints
    phase: Ints  # warp barriers passed by the warp
    kind: Ints
    source: Ints  # which of `instructions`
    instructions: Sequence[TracedInstruction]
    memory: Memory


def _gather(pieces: Sequence[tuple[WarpRecord, int]]) -> Iterable[_Accesses]:
    """Yield the accesses of some warps from an instruction on, to each array that one of them writes."""
    found: dict[tuple[str, int], list[tuple[TracedInstruction, int, int, int]]] = {}
    writes: set[tuple[str, int]] = set()
    for record, start in pieces:
        phase = 0
        for i in record.instructions[start:]:
            if i.what == "warp barrier":
                phase += 1
            if i.memory is None or i.memory.space == "local":
                continue
            key = (i.memory.space, i.memory.base)  # two names may stand for one array
            found.setdefault(key, []).append((i, record.block, record.first_thread, phase))
            if i.what != "load":
                writes.add(key)
    for key in sorted(writes):
        rows = found[key]
        count = len(rows)
        elements = np.concatenate([i.elements for i, *_ in rows if i.elements is not None]).reshape(-1, LANES)
        on = elements >= 0

        def column(values: list[int], on: NDArray[np.bool_] = on) -> Ints:
            spread: Ints = np.broadcast_to(np.array(values, np.int32)[:, None], on.shape)[on]
            return spread

        lane = np.broadcast_to(np.arange(LANES, dtype=np.int32), on.shape)[on]
        yield _Accesses(
            element=elements[on],
            block=column([block for _, block, _, _ in rows]),
            thread=column([first for _, _, first, _ in rows]) + lane,
            phase=column([phase for *_, phase in rows]),
            kind=column([_KIND[i.what] for i, *_ in rows]),
            source=column(list(range(count))),
            instructions=[i for i, *_ in rows],
            memory=rows[0][0].memory,  # type: ignore[arg-type]  # rows without an array were left out above
        )


def within_block(launch: Launch, pieces: Sequence[tuple[WarpRecord, int]]) -> None:
    """Report races between threads of a block since its last barrier."""
    for accesses in _gather(pieces):
        for group in _suspects(accesses, accesses.thread):
            pair = _within(accesses, group)
            if pair is not None:
                _report(launch, accesses, *pair)


def between_blocks(launch: Launch, records: Sequence[WarpRecord]) -> None:
    """Report races on arguments between blocks, which nothing orders before the kernel ends."""
    for accesses in _gather([(record, 0) for record in records]):
        if accesses.memory.space != "global":
            continue
        for group in _suspects(accesses, accesses.block):
            pair = _pair(accesses, group, accesses.block)
            if pair is not None:
                _report(launch, accesses, *pair)


def _suspects(accesses: _Accesses, who: Ints) -> Iterable[Ints]:
    """Yield the accesses to each element that several of `who` touch, not by loads or atomics alone."""
    if not len(who):
        return
    order = np.argsort(accesses.element, kind="stable")
    element, who, kind = accesses.element[order], who[order], accesses.kind[order]
    starts = np.concatenate([[0], np.flatnonzero(np.diff(element)) + 1])
    several = np.minimum.reduceat(who, starts) != np.maximum.reduceat(who, starts)
    written = np.maximum.reduceat(kind, starts) > LOAD
    atomics_only = np.minimum.reduceat(kind, starts) == ATOMIC
    ends = np.append(starts[1:], len(element))
    for g in np.flatnonzero(several & written & ~atomics_only)[:MOST_EXAMINED]:
        yield order[starts[g] : ends[g]]


def _within(accesses: _Accesses, group: Ints) -> tuple[int, int] | None:
    """Return two unordered accesses of a block's threads: of different warps, or of one without a barrier."""
    warp = accesses.thread // LANES
    if len(np.unique(warp[group])) > 1:
        pair = _pair(accesses, group, warp)
        if pair is not None:
            return pair
    for w in np.unique(warp[group]):
        own = group[warp[group] == w]
        for phase in np.unique(accesses.phase[own]):
            pair = _pair(accesses, own[accesses.phase[own] == phase], accesses.thread)
            if pair is not None:
                return pair
    return None


def _pair(accesses: _Accesses, group: Ints, who: Ints) -> tuple[int, int] | None:
    """Return a write and another's access that is not ordered with it, if there are two."""
    kind = accesses.kind[group]
    for write in (*group[kind == STORE], *group[kind == ATOMIC]):
        others = group[who[group] != who[write]]
        if accesses.kind[write] == ATOMIC:
            others = others[accesses.kind[others] != ATOMIC]
        if len(others):
            reads = others[accesses.kind[others] == LOAD]
            return int(write), int(reads[0] if len(reads) else others[0])
    return None


def _report(launch: Launch, accesses: _Accesses, a: int, b: int) -> None:
    """Report two accesses as a race; the same two lines are counted."""
    first, second = sorted(
        (a, b), key=lambda n: (_row(accesses, n).line, _row(accesses, n).what != "store", n)
    )
    memory = accesses.memory
    rows = [_row(accesses, n) for n in (first, second)]
    key = ("race", memory.name, rows[0].line, rows[1].line, rows[0].what, rows[1].what)

    fences = " (an order made by threadfence and atomics is not followed here)" if launch.fenced else ""

    def make() -> Problem:
        block, thread = accesses.block, accesses.thread
        touches = tuple(
            Touch(launch.block_at(int(block[n])), launch.thread(int(thread[n])), row.line, row.what)
            for n, row in zip((first, second), rows, strict=True)
        )
        who = [launch.named(int(block[n]), int(thread[n])) for n in (first, second)]
        what = [_VERB[int(accesses.kind[n])] for n in (first, second)]
        element = int(accesses.element[first])
        name = memory.element(element)
        text = (
            f"Race on {name}: {who[0]} {what[0]} it in line {rows[0].line}, {who[1]} {what[1]} it in line "
            f"{rows[1].line}, and nothing orders the two; {_remedy(accesses, first, second, rows)}{fences}."
        )
        return Problem(
            "race", rows[0].line, text, touches[0].block, touches[0].thread, memory.name,
            memory.index(element), touches,
        )  # fmt: skip

    launch.report(key, make)


def _row(accesses: _Accesses, n: int) -> TracedInstruction:
    return accesses.instructions[int(accesses.source[n])]


def _remedy(accesses: _Accesses, a: int, b: int, rows: Sequence[TracedInstruction]) -> str:
    if accesses.block[a] != accesses.block[b]:
        return "use an atomic, or give each element to one block"
    if rows[0].line == rows[1].line and rows[0].what != rows[1].what:
        return "between one's reading and writing the other's sum is lost; use an atomic"
    if rows[0] is rows[1]:
        same = _same(rows[0], int(accesses.thread[a] % LANES), int(accesses.thread[b] % LANES))
        if same:
            return "both write the same value, so it may do no harm, but let one thread write it"
        return "use an atomic, or let one thread write"
    if accesses.thread[a] // LANES == accesses.thread[b] // LANES:
        return (
            "both are in one warp, which need not run in step; put cuda.syncwarp() or "
            "cuda.syncthreads() between"
        )
    return "put cuda.syncthreads() between them, or use an atomic"


def _same(row: TracedInstruction, lane: int, other: int) -> bool:
    values: Any = row.values
    return bool(values is not None and values[lane] == values[other])
