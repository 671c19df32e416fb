"""Random programs, cycle by cycle against the naive stepper, and the laws of any trace."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from simt_programs import check_against_naive, check_laws, loops, runs, stretches

from pulsewarp import simt
from pulsewarp.simt import _engine, _repeats

pytestmark = pytest.mark.exhaustive


@settings(max_examples=200)
@given(runs())
def test_every_cycle_equals_the_naive_stepper(arguments: dict[str, Any]) -> None:
    check_against_naive(arguments)


@settings(max_examples=50)
@given(runs())
def test_laws_hold(arguments: dict[str, Any]) -> None:
    check_laws(check_against_naive(arguments))


def drawn(seed: int) -> dict[str, Any]:
    """A small run drawn from a seed: quick, so that there can be thousands."""
    draw = random.Random(seed)
    registers = [f"r{k}" for k in range(draw.randint(1, 3))]

    def instruction() -> simt.Instruction:
        return simt.Instruction(
            unit=draw.choice(("mem", "alu", "alu", "sfu", "tensor", "bar")),
            latency=draw.choice((1, 2, 4, 9, 20)),
            interval=draw.choice((1, 1, 2, 3)),
            dst=draw.choice([None, *registers]),
            srcs=tuple(draw.sample(registers, draw.randint(0, len(registers)))),
            lanes=draw.choice((32, 32, 32, 32, 32, 8)),
        )

    distinct = [[instruction() for _ in range(draw.randint(1, 6))] for _ in range(draw.randint(1, 3))]
    warps = draw.randint(1, draw.choice((4, 16)))
    return {
        "programs": [draw.choice(distinct) for _ in range(warps)],
        "blocks": [draw.randint(0, 2) for _ in range(warps)],
        "schedulers": draw.randint(1, 3),
        "policy": draw.choice(sorted(simt.POLICIES)),
        "max_outstanding": draw.choice((None, None, 1, 2, 3)),
    }


@pytest.mark.parametrize("start", range(0, 3000, 500))
def test_thousands_of_small_runs_equal_the_naive_stepper(start: int) -> None:
    for seed in range(start, start + 500):
        check_against_naive(drawn(seed))


@pytest.mark.parametrize("worth", [1, 2, _engine.WORTH])
def test_stretches_issued_at_once_equal_the_naive_stepper(
    monkeypatch: pytest.MonkeyPatch, worth: int
) -> None:
    monkeypatch.setattr(_engine, "WORTH", worth)
    monkeypatch.setattr(_engine, "PAUSE", worth)
    for seed in range(120):
        check_against_naive(stretches(seed))


@pytest.mark.parametrize("worth", [1, _repeats.WORTH])
def test_repetitions_taken_at_once_equal_the_naive_stepper(
    monkeypatch: pytest.MonkeyPatch, worth: int
) -> None:
    monkeypatch.setattr(_repeats, "WORTH", worth)
    taken = 0
    noted = _repeats.Repeats.skip

    def skip(self: _repeats.Repeats, *where: int) -> int:
        nonlocal taken
        cycles = noted(self, *where)
        taken += cycles > 0
        return cycles

    monkeypatch.setattr(_repeats.Repeats, "skip", skip)
    for seed in range(60):
        check_against_naive(loops(seed))
    assert taken > 20
