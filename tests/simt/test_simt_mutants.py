"""Faults planted in the rules: each one must turn the checks of this suite red."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable

import pytest
from hypothesis import Phase, given, settings
from simt_programs import check_against_naive, check_laws, runs
from test_simt_reference import SCHEDULING, check_row

from pulsewarp import simt
from pulsewarp.simt import _engine, _policy, _states


def fuzz() -> None:
    # No shrinking and no replay: one counterexample is all that is asked for.
    @settings(max_examples=100, phases=[Phase.generate], database=None)
    @given(runs())
    def check(arguments: dict[str, object]) -> None:
        check_against_naive(arguments)

    check()


def laws() -> None:
    """Laws alone, without the stepper: three programs that lean on every rule."""
    load = simt.Instruction("mem", 9, 2, "r4", (), "LDG")
    add = simt.Instruction("alu", 4, 1, "r5", ("r4", "r5"), "FFMA")
    program = (load, add, simt.bar(), add, load, simt.bar(), add)
    for policy in simt.POLICIES:
        for schedulers in (1, 2, 4):
            late = (*program[:1], *[add] * 9, *program[1:])
            check_laws(simt.simulate([program] * 5 + [late] * 3, schedulers=schedulers, policy=policy))


def reference() -> None:
    for row in SCHEDULING:
        check_row(row)


def plant(monkeypatch: pytest.MonkeyPatch, module: types.ModuleType, right: str, wrong: str) -> None:
    """Edit one line of a module's source, as a careless hand would, and run the module so."""
    source = inspect.getsource(module)
    assert source.count(right) == 1, f"{right!r} must stand exactly once in {module.__name__}"
    faulty = types.ModuleType(module.__name__)
    faulty.__file__ = module.__file__
    exec(compile(source.replace(right, wrong), str(module.__file__), "exec"), faulty.__dict__)
    name = module.__name__.rpartition(".")[2]
    monkeypatch.setattr(simt.scheduler, name, faulty)


Checks = tuple[Callable[[], None], ...]
Fault = tuple[str, str, str, Checks]  # its name, what stands there, what is put there, who must see it

ENGINE: list[Fault] = [
    (
        "two issues in a cycle",
        "for s, masks in numbered:",
        "for s, masks in numbered * 2:",
        (laws, fuzz),
    ),
    (
        "a barrier released one warp early",
        "if len(arrivals) < in_block[blocks[w]]:",
        "if len(arrivals) < in_block[blocks[w]] - 1:",
        (laws, fuzz),
    ),
    (
        "a result one cycle early",
        "scoreboard[dst] = t + latency",
        "scoreboard[dst] = t + latency - 1",
        (laws, fuzz, reference),
    ),
    (
        "an operand not waited for",
        "if scoreboard[b] > wake:",
        "if False:",
        (laws, fuzz, reference),
    ),
    (
        "a fourth operand not waited for",
        "for register in more:",
        "for register in ():",
        (fuzz,),
    ),
    (
        "a memory unit per scheduler",
        "memory_free = t + interval",
        "memory_free = t + interval if s == schedulers - 1 else t",
        (laws, fuzz, reference),
    ),
    (
        "a unit never busy",
        "free[s][q] = t + interval",
        "free[s][q] = t",
        (fuzz, reference),
    ),
    (
        "one load too many in flight",
        "if len(landing) < max_outstanding:",
        "if len(landing) <= max_outstanding:",
        (fuzz, reference),
    ),
]


@pytest.mark.parametrize(("right", "wrong", "checks"), [f[1:] for f in ENGINE], ids=[f[0] for f in ENGINE])
def test_a_fault_in_the_loop_is_seen(
    monkeypatch: pytest.MonkeyPatch, right: str, wrong: str, checks: Checks
) -> None:
    plant(monkeypatch, _engine, right, wrong)
    for check in checks:
        # A fault may show as a wrong number or as a run that breaks down.
        with pytest.raises((AssertionError, ValueError, IndexError, KeyError, ExceptionGroup)):
            check()


def from_the_lowest(eligible: int, last: int) -> int:
    return _policy.oldest(eligible, last)


POLICIES = [
    ("lrr starts from the lowest always", "lrr", from_the_lowest, (fuzz, reference)),
    ("gto and gty swapped", "gto", _policy.greedy_then_youngest, (fuzz, reference)),
    ("gty and gto swapped", "gty", _policy.greedy_then_oldest, (fuzz, reference)),
    ("gto is not greedy", "gto", _policy.oldest, (fuzz, reference)),
    ("oldest takes the youngest", "oldest", _policy.youngest, (fuzz, reference)),
]


@pytest.mark.parametrize(("name", "wrong", "checks"), [f[1:] for f in POLICIES], ids=[f[0] for f in POLICIES])
def test_a_fault_in_a_policy_is_seen(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    wrong: _policy.Policy,
    checks: Checks,
) -> None:
    monkeypatch.setitem(_policy.POLICIES, name, wrong)
    for check in checks:
        with pytest.raises(AssertionError):
            check()


STATES: list[Fault] = [
    (
        "a barrier shown open one cycle early",
        "block: [max(column) + 1 for",
        "block: [max(column) for",
        (fuzz,),
    ),
    (
        "memory called a result",
        "np.where(needed & 1, MEMORY, RESULT)",
        "np.where(needed & 0, MEMORY, RESULT)",
        (fuzz,),
    ),
    (
        "a unit taken in this very cycle is not seen",
        "now * S + s, side",
        "now * S, side",
        (fuzz,),
    ),
    (
        "the limit hides behind the unit",
        "later = full & (place > end)",
        "later = full & (end < 0)",
        (fuzz,),
    ),
]


@pytest.mark.parametrize(("right", "wrong", "checks"), [f[1:] for f in STATES], ids=[f[0] for f in STATES])
def test_a_fault_in_the_states_is_seen(
    monkeypatch: pytest.MonkeyPatch, right: str, wrong: str, checks: Checks
) -> None:
    plant(monkeypatch, _states, right, wrong)
    for check in checks:
        with pytest.raises(AssertionError):
            check()


def test_planting_alone_turns_nothing_red(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, _engine, ENGINE[0][1], ENGINE[0][1])
    plant(monkeypatch, _states, STATES[0][1], STATES[0][1])
    for check in (fuzz, laws, reference):
        check()
