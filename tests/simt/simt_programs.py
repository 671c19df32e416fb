"""The house's vocabulary of random programs, and the checks that every trace must pass."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import simt_naive as naive
from hypothesis import strategies as st

from pulsewarp import simt
from pulsewarp.simt import Instruction, WarpTrace

REGISTERS = ("r0", "r1", "r2", "r3", "r4")


def instructions() -> st.SearchStrategy[Instruction]:
    registers = st.sampled_from(REGISTERS)
    return st.builds(
        Instruction,
        unit=st.sampled_from(("mem", "mem", "alu", "alu", "sfu", "tensor")),
        latency=st.integers(1, 12) | st.just(40),
        interval=st.sampled_from((1, 1, 1, 2, 5)),
        dst=st.none() | registers,
        srcs=st.lists(registers, max_size=2).map(tuple) | st.permutations(REGISTERS).map(tuple),
        lanes=st.integers(1, 32),
    )


@st.composite
def runs(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of `simulate`: a few distinct programs spread over warps and blocks, barriers as they fall.

    Programs of one block mostly have the same number of barriers, sometimes not; now and then a barrier is
    one that only some of a warp's threads reach.
    """
    n_blocks = draw(st.integers(1, 3))
    uneven = draw(st.sampled_from((False, False, True)))
    lanes = st.sampled_from((32, 32, 32, 32, 16)) if draw(st.sampled_from((False, True))) else st.just(32)
    barrier = st.builds(Instruction, unit=st.just("bar"), lanes=lanes)
    programs: list[Sequence[Instruction]] = []
    blocks: list[int] = []
    for block in range(n_blocks):
        bars = draw(st.integers(0, 3))
        piece = st.lists(instructions(), max_size=7)
        distinct = []
        for _ in range(draw(st.integers(1, 3))):
            own = draw(st.integers(0, 3)) if uneven else bars
            distinct.append(
                [
                    i
                    for part in range(own + 1)
                    for i in [*draw(piece), *([draw(barrier)] if part < own else [])]
                ]
            )
        warps = draw(st.lists(st.sampled_from(distinct), min_size=1, max_size=draw(st.sampled_from((5, 12)))))
        programs += warps
        blocks += [block] * len(warps)
    if not any(programs):
        programs = [[Instruction()] for _ in programs]
    order = draw(st.permutations(range(len(programs))))
    return {
        "programs": [programs[w] for w in order],
        "blocks": [blocks[w] for w in order],
        "schedulers": draw(st.integers(1, 4)),
        "policy": draw(st.sampled_from(sorted(simt.POLICIES))),
        "max_outstanding": draw(st.none() | st.integers(1, 4)),
    }


def stretches(seed: int) -> dict[str, Any]:
    """Arguments of `simulate` in which long stretches wait for nothing, with anything else now and then."""
    draw = random.Random(seed)
    registers = REGISTERS[: draw.randint(1, 3)]

    def instruction() -> Instruction:
        if draw.random() < 0.85:
            return Instruction(dst=None if draw.random() < 0.7 else draw.choice(registers))
        return Instruction(
            unit=draw.choice(("mem", "mem", "alu", "sfu", "tensor", "bar")),
            latency=draw.choice((1, 2, 9, 20, 60)),
            interval=draw.choice((1, 1, 2, 3)),
            dst=draw.choice([None, *registers]),
            srcs=tuple(draw.sample(registers, draw.randint(0, len(registers)))),
        )

    distinct = [[instruction() for _ in range(draw.randint(1, 40))] for _ in range(draw.randint(1, 3))]
    warps = draw.randint(1, draw.choice((4, 20)))
    return {
        "programs": [draw.choice(distinct) for _ in range(warps)],
        "blocks": [draw.randint(0, 2) for _ in range(warps)],
        "schedulers": draw.randint(1, 3),
        "policy": draw.choice(sorted(simt.POLICIES)),
        "max_outstanding": draw.choice((None, 1, 3)),
    }


def loops(seed: int) -> dict[str, Any]:
    """Arguments of `simulate` in which every warp goes round in a loop many times, now and then in two."""
    draw = random.Random(seed)
    registers = REGISTERS[: draw.randint(1, 3)]

    def instruction() -> Instruction:
        return Instruction(
            unit=draw.choice(("mem", "alu", "alu", "sfu", "bar")),
            latency=draw.choice((1, 2, 4, 9, 20)),
            interval=draw.choice((1, 1, 2, 3)),
            dst=draw.choice([None, *registers]),
            srcs=tuple(draw.sample(registers, draw.randint(0, len(registers)))),
        )

    def program() -> list[Instruction]:
        body = [instruction() for _ in range(draw.randint(1, 5))]
        whole = []
        for _ in range(draw.randint(1, 4)):
            whole += body * draw.randint(1, 12)
            # The next loop is nearly the same.
            k = draw.randrange(len(body))
            field = draw.choice(("latency", "interval", "srcs", "unit"))
            body = [*body[:k], replace(body[k], **{field: getattr(instruction(), field)}), *body[k + 1 :]]
        return whole

    distinct = [program() for _ in range(draw.choice((1, 1, 2)))]
    warps = draw.randint(1, draw.choice((4, 8, 16)))
    return {
        "programs": [draw.choice(distinct) for _ in range(warps)],
        "blocks": [draw.randint(0, 1) for _ in range(warps)],
        "schedulers": draw.randint(1, 2),
        "policy": draw.choice(sorted(simt.POLICIES)),
        "max_outstanding": draw.choice((None, None, 1, 3)),
    }


def check_against_naive(arguments: dict[str, Any]) -> WarpTrace:
    """Compare every cycle of `simulate` with the naive stepper."""
    trace = simt.simulate(**arguments)
    run = naive.step_through(**arguments)
    assert trace.cycles == run.cycles
    assert trace.issued.tolist() == run.issued
    assert [[simt.STATES[code] for code in row] for row in trace.state] == run.state
    assert trace.pc.tolist() == run.pc
    assert trace.until.tolist() == run.until
    assert [tuple(row) for row in trace.requests.tolist()] == run.requests
    return trace


def check_laws(trace: WarpTrace) -> None:
    """What must hold in any trace, read from the trace alone."""
    T, W, S = trace.cycles, trace.warps, trace.schedulers
    assert trace.issued.shape == (T, S)
    assert trace.state.shape == trace.pc.shape == trace.until.shape == trace.lanes.shape == (T, W)
    code = {word: k for k, word in enumerate(simt.STATES)}
    issues = trace.state == code["issues"]

    # Every instruction issues once, in order, unless a barrier never opens; a scheduler issues one of its own
    # warps at a time.
    assert trace.issue_count == int((trace.issued >= 0).sum())
    stuck = trace.state[-1] == code["barrier"]
    assert bool(stuck.any()) == (trace.deadlock is not None)
    for w, program in enumerate(trace.programs):
        cycles = np.flatnonzero(issues[:, w])
        assert trace.pc[cycles, w].tolist() == list(range(len(cycles)))
        assert (trace.issued[cycles, w % S] == w).all()
        assert trace.lanes[cycles, w].tolist() == [i.lanes for i in program[: len(cycles)]]
        assert len(cycles) == len(program) or stuck[w]
        if stuck[w]:
            assert program[len(cycles) - 1].unit == "bar"
            assert f"Block {trace.blocks[w]} never ends" in str(trace.deadlock)
        assert not trace.lanes[~issues[:, w], w].any()

    # A slot goes empty only when none of the scheduler's warps could use it.
    for s in range(S):
        ready = (trace.state[:, s::S] == code["ready"]).any(axis=1)
        assert not (ready & (trace.issued[:, s] < 0)).any()

    # Results: nothing issues before its operands are there. Memory: one unit for all schedulers.
    at = {(w, int(trace.pc[t, w])): int(t) for t, w in np.argwhere(issues)}
    for (w, pc), t in at.items():
        i = trace.programs[w][pc]
        for register in (*i.srcs, i.dst) if i.unit != "bar" else ():
            for p in range(pc):
                if register is not None and trace.programs[w][p].dst == register:
                    assert t >= at[w, p] + trace.programs[w][p].latency
    requests = trace.requests.tolist()
    for (t0, w0, pc0, _), (t1, _, _, _) in itertools.pairwise(requests):
        assert t1 >= t0 + trace.programs[w0][pc0].interval
    for t, w, pc, landed in requests:
        assert landed == t + trace.programs[w][pc].latency
        if trace.max_outstanding is not None:
            assert sum(r[0] < t < r[3] for r in requests) < trace.max_outstanding

    # Barriers: nobody of a block goes on before all that have not exited have arrived, with all threads.
    bars = [[pc for pc, i in enumerate(p) if i.unit == "bar"] for p in trace.programs]
    for w in range(W):
        mates = [v for v in range(W) if trace.blocks[v] == trace.blocks[w] and trace.programs[v]]
        for k, pc in enumerate(bars[w]):
            after = at.get((w, pc + 1))
            if after is None:
                continue
            for v in mates:
                reached = bars[v][k] if k < len(bars[v]) else len(trace.programs[v]) - 1
                assert at[v, reached] < after
                if k < len(bars[v]):
                    lanes = [i.lanes for i in trace.programs[v][reached:]]
                    assert lanes[0] == max(lanes)

    # Waits end when they say: an operand's exactly then, any other not before.
    for t, w in np.argwhere(trace.until >= 0).tolist():
        word, end = simt.STATES[trace.state[t, w]], int(trace.until[t, w])
        assert end > t
        assert word in ("memory", "result", "unit", "limit", "barrier")
        if end < T:
            stays = simt.STATES[trace.state[end, w]] == word and trace.until[end, w] == end
            assert not stays
        assert (trace.state[t:end, w] == trace.state[t, w]).all() or word in ("unit", "limit")
    assert ((trace.until >= 0) | ~np.isin(trace.state, [code["memory"], code["result"]])).all()
    assert (trace.state == code["finished"])[:, [not p for p in trace.programs]].all()

    # Outside the pool: only under two_level, and only while six of its scheduler's warps are inside.
    pending = trace.state == code["pending"]
    assert not pending.any() or trace.policy == "two_level"
    for s in range(S):
        inside = np.isin(
            trace.state[:, s::S], [code[c] for c in ("issues", "ready", "unit", "limit", "result")]
        )
        assert (inside.sum(axis=1)[pending[:, s::S].any(axis=1)] >= 6).all()
