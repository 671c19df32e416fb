"""Faults planted in the rules: each one must turn the checks of this suite red."""

from __future__ import annotations

import functools
import inspect
import random
import types
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from simt_programs import check_against_naive, check_laws, loops, runs, stretches
from test_simt_reference import SCHEDULING, check_row

from pulsewarp import simt
from pulsewarp.simt import _compiled, _engine, _policy, _repeats, _states

pytestmark = pytest.mark.exhaustive


def fuzz() -> None:
    # No shrinking and no replay: one counterexample is all that is asked for.
    @settings(max_examples=100, phases=[Phase.generate], database=None)
    @given(runs())
    def check(arguments: dict[str, object]) -> None:
        check_against_naive(arguments)

    check()


def laws() -> None:
    """Laws alone, without the stepper: programs that lean on every rule."""
    load = simt.Instruction("mem", 9, 2, "r4", (), "LDG")
    add = simt.Instruction("alu", 4, 1, "r5", ("r4", "r5"), "FFMA")
    program = (load, add, simt.bar(), add, load, simt.bar(), add)
    for policy in simt.POLICIES:
        for schedulers in (1, 2, 4):
            late = (*program[:1], *[add] * 9, *program[1:])
            check_laws(simt.simulate([program] * 5 + [late] * 3, schedulers=schedulers, policy=policy))
            short = (load, add, simt.bar(), add)
            check_laws(simt.simulate([program] * 5 + [short] * 3, schedulers=schedulers, policy=policy))


def at_once() -> None:
    """Programs with stretches that are issued at once, however short."""
    for seed in range(120):
        check_against_naive(stretches(seed))


def at_once_in_a_pool() -> None:
    """Stretches of warps that do not all fit in the pool."""
    for seed in range(60):
        arguments = stretches(seed)
        nine = {"programs": arguments["programs"][:1] * 9, "blocks": None}
        check_against_naive({**arguments, **nine, "policy": "two_level", "schedulers": 1})


def at_once_behind_older_warps() -> None:
    """Four warps of stretches, of which the oldest that can issue always does."""
    for seed in range(60):
        arguments = stretches(seed)
        four = {"programs": (arguments["programs"] * 4)[:4], "blocks": [0, 0, 1, 0]}
        check_against_naive({**arguments, **four, "policy": "oldest", "schedulers": 1})


def let_go_by_another_scheduler() -> None:
    """Plain instructions and now and then a load between barriers that the warps of two schedulers share."""
    load = simt.Instruction("mem", 9, 1, "r1", (), "LDG")
    for seed in range(60):
        draw = random.Random(seed)
        programs = []
        for _ in range(draw.randint(3, 6)):
            program = []
            for _ in range(draw.randint(1, 3)):
                program += [simt.Instruction()] * draw.randint(0, 6) + [load] * (draw.random() < 0.3)
                program.append(simt.bar())
            programs.append(program + [simt.Instruction()] * draw.randint(1, 8))
        blocks = [draw.randint(0, 1) for _ in programs]
        check_against_naive({"programs": programs, "blocks": blocks, "policy": "oldest", "schedulers": 2})


def ten_warps_that_wait_for_loads_and_more() -> None:
    """More warps than the pool has places; each instruction waits for up to two results of any unit."""
    names = ("r1", "r2", "r3")
    for seed in range(60):
        draw = random.Random(seed)
        program = [
            simt.Instruction(
                unit=draw.choice(("alu", "mem", "sfu", "alu")),
                latency=draw.choice((1, 4, 20, 60)),
                dst=draw.choice(names),
                srcs=tuple(draw.sample(names, draw.randint(0, 2))),
            )
            for _ in range(draw.randint(2, 12))
        ]
        check_against_naive({"programs": [program] * 10, "policy": "two_level", "schedulers": 1})


def reference() -> None:
    for row in SCHEDULING:
        check_row(row)


def planted(module: types.ModuleType, right: str, wrong: str) -> types.ModuleType:
    """Edit one line of a module's source, as a careless hand would, and return the module so."""
    source = inspect.getsource(module)
    assert source.count(right) == 1, f"{right!r} must stand exactly once in {module.__name__}"
    faulty = types.ModuleType(module.__name__)
    faulty.__file__ = module.__file__
    exec(compile(source.replace(right, wrong), str(module.__file__), "exec"), faulty.__dict__)
    return faulty


def plant(monkeypatch: pytest.MonkeyPatch, module: types.ModuleType, right: str, wrong: str) -> None:
    """Let simulations run with the module so edited."""
    faulty = planted(module, right, wrong)
    name = module.__name__.rpartition(".")[2]
    monkeypatch.setattr(simt.scheduler, name, faulty)


Checks = tuple[Callable[[], None], ...]
Fault = tuple[str, str, str, Checks]  # its name, what stands there, what is put there, who must see it

ENGINE: list[Fault] = [
    (
        "a jump past a unit that frees",
        "min([end, *freeing, *unparking])",
        "min([end, *unparking])",
        (fuzz,),
    ),
    ("a jump past memory that frees", "if t <= memory_free < end:", "if t <= memory_free < 0:", (fuzz,)),
    ("a jump past a load that lands", "if landing and t <= landing[0] < end:", "if 0:", (fuzz,)),
    (
        "two issues in a cycle",
        "for s, crew in visits[due]:",
        "for s, crew in visits[due] * 2:",
        (laws, fuzz),
    ),
    (
        "a barrier released one warp early",
        "if not arrivals or len(arrivals) < in_block[block]:",
        "if not arrivals or len(arrivals) < in_block[block] - 1:",
        (laws, fuzz),
    ),
    (
        "a barrier opened in the cycle of its last arrival",
        "wake = max([t + 1, *[times",
        "wake = max([t, *[times",
        (laws, fuzz),
    ),
    (
        "a barrier that waits for warps that have exited",
        "                            in_block[block] -= 1\n                            if not",
        "                            if not",
        (laws, fuzz),
    ),
    (
        "a barrier that some threads miss counts as reached",
        "interval = -1 if shut[pc] else 0",
        "interval = 0",
        (fuzz,),
    ),
    (
        "a result one cycle early",
        "delay = latency[pc]",
        "delay = max(1, latency[pc] - 1)",
        (laws, fuzz, reference),
    ),
    (
        "an older operand not waited for",
        "if times[pc] + latency > wake:",
        "if False:",
        (fuzz,),
    ),
    (
        "seven warps in the pool",
        "ACTIVE_WARPS - len(active)",
        "1 + ACTIVE_WARPS - len(active)",
        (fuzz,),
    ),
    (
        "who waits for a load stays in the pool",
        "if pooled and loads:",
        "if 0:",
        (fuzz,),
    ),
    (
        "a memory unit per scheduler",
        "memory_free = t + interval\n                            usable = no_memory\n",
        "memory_free = t + interval\n",
        (laws, fuzz, reference),
    ),
    (
        "a unit never busy",
        "free[s] ^= all_plain << q",
        "free[s] ^= 0",
        (fuzz, reference),
    ),
    (
        "one load too many in flight",
        "if len(landing) >= max_outstanding:",
        "if len(landing) > max_outstanding:",
        (fuzz, reference),
    ),
    (
        "a stretch that goes one instruction too far",
        "len(order) * own_plain",
        "len(order) * (1 + own_plain)",
        (at_once,),
    ),
    (
        "a stretch that sleeps through an alarm",
        "end = _before(end, s, rivals, calendar, unparking)",
        "pass",
        (at_once,),
    ),
    (
        "a stretch that passes over who waits for a unit",
        "others = ready[s] & inside[s] & rivals",
        "others = ready[s] & inside[s] & rivals & all_plain",
        (at_once,),
    ),
    (
        "a stretch that lets in warps from outside the pool",
        "others = ready[s] & inside[s] & rivals",
        "others = ready[s] & rivals",
        (at_once_in_a_pool,),
    ),
    (
        "after a stretch the turn passes to the wrong warp",
        "order[(end - t - 1) % len(order)]",
        "order[(end - t) % len(order)]",
        (at_once,),
    ),
    (
        "a stretch begun while a rival stands at a barrier",
        "if standing[s] & rivals or others",
        "if others",
        (at_once,),
    ),
    (
        "who wakes during a stretch is issued",
        "if busiest > t and busy[s] > t:",
        "if 0:",
        (at_once,),
    ),
    (
        "who goes on is left alone for a cycle too few",
        "end = now + 1\n",
        "end = now\n",
        (fuzz,),
    ),
    (
        "who goes on takes memory before its time",
        "if turns or after[2] or",
        "if turns or",
        (fuzz,),
    ),
    (
        "who goes on is not held up by an older warp that wakes",
        "now + 1 in calendar or ",
        "",
        (at_once_behind_older_warps,),
    ),
    (
        "nor by one that is ready",
        "(ready[s] | standing[s]) & rivals",
        "standing[s] & rivals",
        (at_once_behind_older_warps,),
    ),
    (
        "nor by one that a barrier lets go",
        "(ready[s] | standing[s]) & rivals",
        "ready[s] & rivals",
        (let_go_by_another_scheduler,),
    ),
    (
        "what is plain is gone through although an older warp wakes",
        "while end < stop and not (rivals and end in calendar):",
        "while end < stop:",
        (at_once_behind_older_warps,),
    ),
    (
        "or is ready",
        "if not (standing[s] | ready[s]) & rivals:",
        "if not standing[s] & rivals:",
        (at_once_behind_older_warps,),
    ),
    (
        "or is let go by a barrier",
        "if not (standing[s] | ready[s]) & rivals:",
        "if not ready[s] & rivals:",
        (let_go_by_another_scheduler,),
    ),
    (
        "who waits to get into the pool is forgotten when another leaves",
        "if not pool.room:",
        "if 0:",
        (at_once_in_a_pool,),
    ),
    (
        "a warp is out of the pool in the cycle in which it issues",
        "pool.moves.append((t + 1, own))",
        "pool.moves.append((t - 1, own))",
        (fuzz,),
    ),
    (
        "a warp that waits for more than loads is parked until all is there",
        "if not only_loads:",
        "if 0:",
        (ten_warps_that_wait_for_loads_and_more,),
    ),
]


# The planted copy of a module has classes of its own, which a run-time type check tells from the right ones.
@pytest.mark.wrong_type
@pytest.mark.parametrize(("right", "wrong", "checks"), [f[1:] for f in ENGINE], ids=[f[0] for f in ENGINE])
def test_a_fault_in_the_loop_is_seen(
    monkeypatch: pytest.MonkeyPatch, right: str, wrong: str, checks: Checks
) -> None:
    plant(monkeypatch, _engine, right, wrong)
    monkeypatch.setattr(simt.scheduler._engine, "WORTH", 1)
    monkeypatch.setattr(simt.scheduler._engine, "PAUSE", 1)
    for check in checks:
        # A fault may show as a wrong number or as a run that breaks down.
        with pytest.raises((AssertionError, ValueError, IndexError, KeyError, ExceptionGroup)):
            check()


RIGHT = dict(_policy.POLICIES)
YOUNGEST = _policy.Policy(follow=0, youngest_first=True)
POLICIES = [
    ("lrr starts from the lowest always", "lrr", RIGHT["oldest"], (fuzz, reference)),
    ("lrr may issue the same warp again", "lrr", _policy.Policy(follow=-1), (fuzz, reference)),
    ("gto and gty swapped", "gto", RIGHT["gty"], (fuzz, reference)),
    ("gty and gto swapped", "gty", RIGHT["gto"], (fuzz, reference)),
    ("gto is not greedy", "gto", RIGHT["oldest"], (fuzz, reference)),
    ("oldest takes the youngest", "oldest", YOUNGEST, (fuzz, reference)),
    ("two_level without a pool", "two_level", RIGHT["lrr"], (fuzz,)),
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
        "for w in mates) + 1\n",
        "for w in mates)\n",
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
        "                before += per_cycle(cycle)\n",
        "                before += 0\n",
        (fuzz,),
    ),
    (
        "the limit hides behind the unit",
        "& (place > ends)",
        "& (ends < 0)",
        (fuzz,),
    ),
]


@pytest.mark.parametrize(("right", "wrong", "checks"), [f[1:] for f in STATES], ids=[f[0] for f in STATES])
def test_a_fault_in_the_states_is_seen(
    monkeypatch: pytest.MonkeyPatch, right: str, wrong: str, checks: Checks
) -> None:
    plant(monkeypatch, _states, right, wrong)
    for check in checks:
        with pytest.raises((AssertionError, ValueError)):  # a wrong state, or stages that do not fit together
            check()


COMPILED: list[Fault] = [
    (
        "an operand counts as there one instruction too early",
        "if latency[p] > pc - p:",
        "if latency[p] > pc - p + 1:",
        (fuzz,),
    ),
    (
        "an operand waited for once is forgotten before it is there",
        "pending.discard(p)",
        "pending.clear()",
        (fuzz,),
    ),
]


# The planted copy of a module has classes of its own, which a run-time type check tells from the right ones.
@pytest.mark.wrong_type
@pytest.mark.parametrize(
    ("right", "wrong", "checks"), [f[1:] for f in COMPILED], ids=[f[0] for f in COMPILED]
)
def test_a_fault_in_what_is_settled_beforehand_is_seen(
    monkeypatch: pytest.MonkeyPatch, right: str, wrong: str, checks: Checks
) -> None:
    plant(monkeypatch, _compiled, right, wrong)
    for check in checks:
        with pytest.raises(AssertionError):
            check()


REPEATS: list[tuple[str, str, str]] = [
    (
        "the other moment taken for the one found",
        " or moment.favoured != self.favoured or moment.ready != self.ready",
        "",
    ),
    ("one instruction too few the same", " - 1 - (n - start)) // steps[w]", " - (n - start)) // steps[w]"),
    ("what is noted beforehand not the same", " - 1 - (n - start)) // steps[w]", " - 1) // steps[w]"),
    (
        "results on their way not compared",
        "return [cycle - moment.t for cycle in then] == [cycle - t for cycle in now]",
        "return True",
    ),
    ("instructions not compared", "[bisect_left(unlike, pc)] - pc", "[-1] - pc"),
    ("whom an instruction waits for not compared", "*back.T, *needed.T", ""),
    (
        "loads on their way not compared",
        "for cycle in self.landing if cycle > t",
        "for cycle in self.landing if 0",
    ),
    ("busy memory not compared", "yield max(memory_free - t, 0)", "yield 0"),
    ("alarms not compared", "yield {cycle - t: tuple(who) for cycle, who in awaited.items()}", "yield 0"),
    ("once too often", "period * np.arange(1, often + 1)", "period * np.arange(1, often + 2)"),
    ("one repetition a cycle late", "later = period * np", "later = 1 + period * np"),
    ("alarms left behind", "(cycle + skipped, who)", "(cycle + skipped + 1, who)"),
]


def looping(seed: int) -> dict[str, Any]:
    """Loops; now and then with warps that queue for a pool, or are delayed by one that then ends."""
    arguments = loops(seed)
    if seed % 4 == 0:
        programs = (arguments["programs"] * 14)[: 9 + seed % 6]
        arguments |= {"programs": programs, "blocks": [w % 2 for w in range(len(programs))]}
        arguments |= {"policy": "two_level", "schedulers": 1}
    elif seed % 4 == 1:
        draw = random.Random(seed)
        load = simt.Instruction("mem", draw.choice((9, 20)), 1, "r0")
        body = [load, *[simt.Instruction()] * draw.randint(1, 4), simt.Instruction(srcs=("r0",))]
        short = [simt.Instruction()] * draw.randint(1, 12)
        arguments = {"programs": [body * 12, short], "schedulers": 1, "policy": draw.choice(("lrr", "gty"))}
    return arguments


@functools.cache
def issued_right(seed: int) -> list[list[int]]:
    issued: list[list[int]] = simt.simulate(**looping(seed)).issued.tolist()
    return issued


def differing(seeds: range) -> bool:
    """Tell whether loops are simulated otherwise than with no repetition taken at once."""
    for seed in seeds:
        right = issued_right(seed)
        try:
            if simt.simulate(**looping(seed)).issued.tolist() != right:
                return True
        except (ValueError, IndexError, KeyError, TypeError):
            return True
    return False


@pytest.mark.wrong_type
@pytest.mark.parametrize(("right", "wrong"), [f[1:] for f in REPEATS], ids=[f[0] for f in REPEATS])
def test_a_fault_in_taking_repetitions_at_once_is_seen(
    monkeypatch: pytest.MonkeyPatch, right: str, wrong: str
) -> None:
    seeds = range(300)
    with monkeypatch.context() as without:
        without.setattr(_repeats.Repeats, "skip", lambda self, *where: 0)
        for seed in seeds:
            issued_right(seed)
    faulty = planted(_repeats, right, wrong)
    # Moments are held often, so that small programs will do.
    eager = faulty.__dict__
    eager["WORTH"], eager["FIRST"], eager["SHORTEST"], eager["LONG"], eager["LONGEST"] = 1, 1, 6, 12, 50
    monkeypatch.setattr(_engine, "Repeats", faulty.__dict__["Repeats"])
    assert differing(seeds)


def taken_after_a_change_of_queue(module: types.ModuleType, queue: list[int]) -> int:
    """Return the cycles taken at once when two warps go on as before and the pool's queue is then another."""
    compiled = _compiled.compile_program([simt.Instruction()] * 500, ("alu",))
    issues = [[0], [1]]
    pool = _engine.Pool(3, 20, dict.fromkeys([4, 16]), 0, 1)
    still: list[Any] = [[3], [0], [0], [7], {}, {}, {}, [], {0: []}, [0]]
    repeats = module.Repeats([compiled] * 2, issues, *still, [pool])
    repeats.hold(2, 0)
    issues[0].append(2)
    issues[1].append(3)
    pool.queue = dict.fromkeys(queue)
    taken: int = repeats.skip(4, 0, 10_000)
    return taken


@pytest.mark.wrong_type
def test_the_queue_of_a_pool_is_compared() -> None:
    assert taken_after_a_change_of_queue(_repeats, [4, 16]) > 0
    assert taken_after_a_change_of_queue(_repeats, [16, 4]) == 0
    faulty = planted(_repeats, "(pool.active, list(pool.queue))", "pool.active")
    assert taken_after_a_change_of_queue(faulty, [16, 4]) > 0


def test_planting_alone_turns_nothing_red(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, _engine, ENGINE[0][1], ENGINE[0][1])
    plant(monkeypatch, _states, STATES[0][1], STATES[0][1])
    for check in (fuzz, laws, reference, at_once):
        check()
