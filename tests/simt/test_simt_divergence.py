"""Divergence: each lane as Python runs it, a walk over the source, laws of masks and stack, faults."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import divergence_naive as naive
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pulsewarp import simt
from pulsewarp.simt import _lane_machines as machines
from pulsewarp.simt import _lane_program as language
from pulsewarp.simt import cuda
from pulsewarp.simt import divergence as module
from pulsewarp.simt.divergence import MEETS, OFF, DivergenceTrace

pytestmark = pytest.mark.exhaustive

REFERENCE = Path(__file__).resolve().parent.parent / "reference"
HOWS: tuple[dict[str, Any], ...] = (
    {"reconvergence": "stack"},
    {"reconvergence": "stack", "first": "else"},
    {"reconvergence": "independent"},
    {"reconvergence": "independent", "first": "else"},
    {"reconvergence": "independent", "schedule": "alternate"},
)
NAMES = ("x", "y")
TERMS = st.sampled_from(["x", "y", "lane", "1", "2", "3", "lane % 4", "lane // 8", "x % 7"])
TESTS = st.sampled_from([
    "lane < 16", "lane % 2 == 0", "lane % 3", "x > y", "x % 3 == 1", "lane == 5", "x < 99", "y & 1",
    "lane > 40", "(lane ^ x) % 2",
])  # fmt: skip


def indent(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


@st.composite
def statements(draw: st.DrawFn, depth: int, jumps: bool, loops: int = 0) -> list[str]:
    """Lines of a block; every loop counts in a name of its own, so that it ends."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["set", "set", "if", "else", "elif", "while", "for", "jump"]))
        if kind == "set" or depth == 0:
            name, left, right = draw(st.sampled_from(NAMES)), draw(TERMS), draw(TERMS)
            sign = draw(st.sampled_from(["+", "-", "*", "^"]))
            lines.append(f"{name} = ({left} {sign} {right}) % 97")
        elif kind in ("if", "else", "elif"):
            lines += [f"if {draw(TESTS)}:", *indent(draw(statements(depth - 1, jumps, loops)))]
            if kind == "elif":
                lines += [f"elif {draw(TESTS)}:", *indent(draw(statements(depth - 1, jumps, loops)))]
            if kind != "if":
                lines += ["else:", *indent(draw(statements(depth - 1, jumps, loops)))]
        elif kind == "while":
            k = f"k{loops}"
            body = [f"{k} = {k} + 1", *draw(statements(depth - 1, jumps, loops + 1))]
            lines += [f"{k} = 0", f"while {k} < lane % {draw(st.integers(1, 4))}:", *indent(body)]
        elif kind == "for":
            limits = draw(st.sampled_from(["lane % 3", "1, lane % 4", "2", "x % 3"]))
            body = draw(statements(depth - 1, jumps, loops + 1))
            lines += [f"for i{loops} in range({limits}):", *indent(body)]
        elif jumps:
            word = draw(st.sampled_from(["break", "continue", "return"])) if loops else "return"
            lines += [f"if {draw(TESTS)}:", f"    {word}"]
    return lines or ["x = lane"]


def whole(jumps: bool) -> st.SearchStrategy[str]:
    return statements(3, jumps).map(lambda lines: "\n".join(["x = lane", "y = 3", *lines, "x = x + y"]))


def run(program: str, **how: Any) -> DivergenceTrace:
    assume(len(program.split("\n")) <= language.MOST_LINES)
    return simt.run_warp(program, **{"latency": 1, **how})


def wrong_values(program: str, trace: DivergenceTrace) -> list[int]:
    """Return the lanes that end with other values than Python gives them."""
    wrong = []
    for lane in range(32):
        wanted = naive.run_lane(program, lane)
        held = {name: values[lane] for name, values in trace.results.items()}
        if {name: value for name, value in held.items() if value is not None} != wanted:
            wrong.append(lane)
    return wrong


def issues(trace: DivergenceTrace) -> list[tuple[int, frozenset[int]]]:
    return [
        (trace.steps[step].line, frozenset(np.flatnonzero(trace.mask[t]).tolist()))
        for t, step in enumerate(trace.issued.tolist())
        if step >= 0
    ]


# -------------------------------------------------------------------------------------- two other models


@given(whole(jumps=True), st.sampled_from(HOWS))
@settings(max_examples=40)
def test_every_lane_ends_with_what_python_gives_it(program: str, how: dict[str, Any]) -> None:
    trace = run(program, **how)
    assert trace.deadlock is None
    assert wrong_values(program, trace) == []
    report = trace.verify()
    assert report.passed, report


@given(whole(jumps=False))
@settings(max_examples=40)
def test_the_stack_issues_what_a_walk_over_the_source_does(program: str) -> None:
    wanted = naive.walk(program)
    assert issues(run(program)) == wanted
    assert issues(run(program, reconvergence="independent")) == wanted  # converging, where nobody spins


@given(whole(jumps=True))
@settings(max_examples=25)
def test_work_is_the_same_on_every_machine_and_alternating_never_issues_less_than_the_longest_lane(
    program: str,
) -> None:
    traces = [run(program, **how) for how in HOWS]
    assert len({trace.work for trace in traces}) == 1
    longest = max(int(np.max(trace.mask.sum(axis=0))) for trace in traces)
    assert all(trace.issue_count >= longest for trace in traces)
    assert all(trace.lanes_off == 32 * trace.issue_count - trace.work for trace in traces)


@given(whole(jumps=True), st.sampled_from(HOWS[:4]))
@settings(max_examples=40)
def test_paths_share_the_lanes_of_their_branch_and_meet_again_where_both_must_pass(
    program: str, how: dict[str, Any]
) -> None:
    trace = run(program, **how)
    branch_and_paths_agree(trace)


def branch_and_paths_agree(trace: DivergenceTrace) -> None:
    """Hold masks to the branch: two paths share its lanes, and nobody passes the meeting point before all."""
    for t, step in enumerate(trace.issued.tolist()):
        if step < 0 or not trace.steps[step].branches:
            continue
        one = trace.steps[step]
        lanes = np.flatnonzero(trace.mask[t])
        goes = trace.pc[t, lanes]
        assert set(goes.tolist()) <= {one.next, one.other, -1}
        if len(set(goes.tolist())) < 2 or one.meet == len(trace.steps):
            continue
        ahead: set[int] = set()  # lanes that have passed the meeting point
        there = {int(lane) for lane in lanes if trace.pc[t, lane] == one.meet}
        for u in range(t + 1, trace.cycles):
            now = set(np.flatnonzero(trace.mask[u]).tolist()) & set(lanes.tolist())
            gone = {lane for lane in lanes.tolist() if trace.pc[u - 1, lane] == -1}
            if trace.issued[u] == one.meet and now & there:
                ahead = now
                assert now | gone >= set(lanes.tolist()), "some run on alone"
                break
            there |= {lane for lane in lanes.tolist() if trace.pc[u, lane] == one.meet}
        assert ahead or all(lane in gone or trace.pc[-1, lane] == -1 for lane in lanes.tolist())


@given(whole(jumps=True))
@settings(max_examples=20)
def test_the_top_of_the_stack_is_what_runs_next(program: str) -> None:
    trace = run(program)
    for t in range(trace.cycles - 1):
        pc, _, mask = trace.stack[t][-1]
        assert trace.issued[t + 1] == pc
        assert sum(1 << lane for lane in np.flatnonzero(trace.mask[t + 1]).tolist()) == mask
    assert trace.stack[-1] == ()


@given(whole(jumps=False), st.integers(1, 31))
@settings(max_examples=20)
def test_fewer_lanes_do_the_same(program: str, lanes: int) -> None:
    few, all_lanes = run(program, lanes=lanes), run(program)
    for name, values in few.results.items():
        assert values == all_lanes.results[name][:lanes]
    assert not few.mask[:, lanes:].any()


# -------------------------------------------------------------------------------------- the oracles' rows


def chain(ways: int, m: int, tail: int) -> str:
    """Return a program whose lanes share `ways` paths of m sums each, then run `tail` sums together."""
    lines = ["x = 0"]
    for path in range(ways):
        word = "else:" if path == ways - 1 else f"{'el' if path else ''}if lane < {(path + 1) * 32 // ways}:"
        lines += [word, *["    x = x + 1"] * m]
    return "\n".join(lines + ["x = x + 1"] * tail)


@pytest.fixture
def long_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language, "MOST_LINES", 2000)
    monkeypatch.setattr(language, "MOST_LETTERS", 40_000)


@pytest.mark.parametrize("how", HOWS[:4])
def test_divergence_of_both_oracles(how: dict[str, Any], long_programs: None) -> None:
    seen = 0
    with (REFERENCE / "sched_analytic.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["family"] == "diverge"]
    for row in rows:
        p = json.loads(row["params"])
        trace = simt.run_warp(
            chain(p["ways"], p["m"], p["tail"]), latency=p["lat_alu"], branches=False, **how
        )
        assert trace.issue_count - 1 == int(row["issued"])  # without the first line, which sets x
        assert trace.cycles - p["lat_alu"] == int(row["cycles"])
        seen += 1
    with (REFERENCE / "accelsim_micro.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["family"] == "diverge"]
    for p, row in {row["params"]: (json.loads(row["params"]), row) for row in rows}.values():
        trace = simt.run_warp(chain(p["ways"], p["m"], p["tail"]), latency=7, branches=False, **how)
        warps = int(row["warps_per_block"])
        assert trace.issue_count - 1 == int(row["warp_instructions"]) // warps - 1  # less its exit
        if warps == 1:
            assert trace.cycles - 7 == int(row["cycles"]) - 3
        seen += 1
    assert seen >= 5


# -------------------------------------------------------------------------------------- waiting for ever

SPIN = """busy = 1
while busy == 1:
    busy = exch(lock, 1)
total = total + lane
exch(lock, 0)
"""
HALF = "if lane < 16:\n    syncthreads()\nx = 1\nsyncwarp()"


def test_a_lock_within_a_warp_hangs_a_stack_and_no_independent_lanes() -> None:
    stuck = simt.run_warp(SPIN, shared={"lock": 0, "total": 0}, latency=1)
    assert stuck.deadlock == (
        "Never ends: lanes 1 to 31 go round lines 2 to 3 and nothing changes; lane 0 waits for them before "
        "line 4."
    )
    assert stuck.cycles < 20 and stuck.why(stuck.cycles - 1) == stuck.deadlock
    for schedule in ("converge", "alternate"):
        goes = simt.run_warp(
            SPIN, shared={"lock": 0, "total": 0}, reconvergence="independent", schedule=schedule
        )
        assert goes.deadlock is None and goes.shared[-1].tolist() == [0, sum(range(32))]


def test_a_lock_whose_spinners_count_is_cut_off_or_goes_on() -> None:
    program = SPIN.replace("    busy", "    n = n + 1\n    busy").replace(
        "busy = 1\n", "busy = 1\nn = 0\n", 1
    )
    stuck = simt.run_warp(program, shared={"lock": 0, "total": 0}, latency=1, lanes=4)
    assert str(stuck.deadlock).startswith(
        "Cut off after 2,000 instructions: lanes 1 to 3 go round lines 3 to 5"
    )
    goes = simt.run_warp(
        program, shared={"lock": 0, "total": 0}, latency=1, lanes=4, reconvergence="independent"
    )
    assert goes.deadlock is None and goes.shared[-1].tolist() == [0, 6]


def test_a_divergent_barrier_opens_early_before_volta_and_hangs_since() -> None:
    before = simt.run_warp(HALF, latency=1)
    assert before.deadlock is None
    assert "though lanes 16 to 31 have not come: before Volta a barrier counts warps" in before.why(1)
    since = simt.run_warp(HALF, latency=1, reconvergence="independent")
    assert since.deadlock == (
        "Nothing can move: lanes 16 to 31 wait for the others before line 3, lanes 0 to 15 wait at "
        "syncthreads() in line 2; a barrier opens when every lane has come."
    )
    turns = simt.run_warp(HALF, latency=1, reconvergence="independent", schedule="alternate")
    assert "lanes 16 to 31 wait at syncwarp() in line 4" in str(turns.deadlock)


def test_who_has_ended_holds_up_no_barrier() -> None:
    program = "if lane < 16:\n    return\nsyncthreads()\nx = 1"
    for how in HOWS:
        assert simt.run_warp(program, **how).deadlock is None


def test_both_halves_at_a_barrier_of_their_own_line_pass() -> None:
    program = "if lane < 16:\n    syncthreads()\nelse:\n    syncthreads()\nx = 1"
    for how in HOWS:
        trace = simt.run_warp(program, **how)
        assert trace.deadlock is None and set(trace.results["x"]) == {1}


def test_lanes_that_alternate_meet_at_syncwarp_and_not_without() -> None:
    branch = "x = 0\nif lane < 16:\n    x = 1\n    x = 2\n    x = 3\n"
    how: dict[str, Any] = {"reconvergence": "independent", "schedule": "alternate", "latency": 1}
    apart, together = (simt.run_warp(f"{branch}{sync}x = x + 1\nx = x + 2\nx = x + 3", **how)
                       for sync in ("", "syncwarp()\n"))  # fmt: skip
    lines = [len({frozenset(lanes) for line, lanes in issues(t) if line == last})
             for t, last in ((apart, 6), (together, 7))]  # fmt: skip
    assert lines == [2, 1]
    assert apart.issue_count > simt.run_warp(branch + "x = x + 1\nx = x + 2\nx = x + 3").issue_count


def test_a_loop_that_never_ends_is_cut_off() -> None:
    trace = simt.run_warp("x = 0\nwhile 1:\n    x = x + 1", latency=1)
    assert trace.deadlock == "Cut off after 2,000 instructions: all 32 lanes go round lines 2 to 3."
    assert simt.run_warp("while 1:\n    pass").deadlock == (
        "Never ends: all 32 lanes go round line 1 and nothing changes."
    )
    free = simt.run_warp("x = 1\nwhile 1:\n    pass", branches=False)
    assert free.deadlock and free.issue_count == 1


# -------------------------------------------------------------------------------------- times and sentences


def test_the_second_path_waits_for_the_first_ones_result() -> None:
    program = "x = 0\nif lane < 16:\n    x = x + 1\nelse:\n    x = x + 2"
    trace = simt.run_warp(program)
    assert np.flatnonzero(trace.issued >= 0).tolist() == [0, 1, 4, 8] and trace.cycles == 12
    assert trace.why(5) == (
        "Nothing is issued: line 5 needs x, there from cycle 8; lanes 0 to 15 have ended."
    )


def test_a_line_waits_too_for_the_value_it_writes_over() -> None:
    trace = simt.run_warp("x = 1\nx = 2\ny = x + lane\nz = x + y")
    assert trace.why(2) == "Nothing is issued: line 2 writes x, whose value before is there from cycle 4."
    assert trace.why(5) == "Nothing is issued: line 3 needs x, there from cycle 8."
    assert trace.why(9) == "Nothing is issued: line 4 needs y, there from cycle 12."  # x has been there


def test_every_cycle_has_a_sentence_that_names_every_lane() -> None:
    program = "x = lane % 3\nwhile x > 0:\n    x = x - 1\n    if x == 1:\n        y = 2\nz = 1"
    for how in HOWS:
        trace = simt.run_warp(program, **how)
        for t in range(trace.cycles):
            assert trace.why(t).endswith(".")
            told = int((trace.state[t] == module.RUNS).sum()) or int((trace.state[t] == module.STALLED).sum())
            others = int(np.isin(trace.state[t], [OFF, MEETS, *range(4, 7)]).sum())
            assert told + others == 32


@pytest.mark.parametrize(
    "lanes, words",
    [
        (list(range(32)), "all 32 lanes"),
        ([7], "lane 7"),
        ([3, 4], "lanes 3 and 4"),
        (list(range(4, 9)), "lanes 4 to 8"),
        ([1, 5, 9], "lanes 1, 5 and 9"),
        (list(range(0, 32, 2)), "16 lanes (0, 2, ... 30)"),
        ([0, 1, 5, 9, 20], "5 lanes (0, 1, 5, ...)"),
    ],
)
def test_lanes_in_words(lanes: list[int], words: str) -> None:
    assert module.name_lanes(lanes) == words


# -------------------------------------------------------------------------------------- planted faults

PROBE = """x = lane
if lane % 2 == 0:
    x = 3 * x
    if lane < 8:
        x = x + 1
else:
    x = x + 100
x = x + 1
y = x
"""


def faults(trace: DivergenceTrace) -> set[str]:
    """Name what is wrong with a run of `PROBE`."""
    found = set()
    if trace.deadlock or wrong_values(PROBE, trace):
        found.add("values")
    if issues(trace) != naive.walk(PROBE):
        found.add("issues")
    return found


@pytest.mark.parametrize("how", [HOWS[0], HOWS[2]], ids=["stack", "independent"])
def test_nothing_is_wrong_without_a_fault(how: dict[str, Any]) -> None:
    assert faults(simt.run_warp(PROBE, latency=1, **how)) == set()


@pytest.mark.parametrize("shift", [-1, 1])
@pytest.mark.parametrize("how", [HOWS[0], HOWS[2]], ids=["stack", "independent"])
def test_mutant_meeting_a_step_early_or_late(
    monkeypatch: pytest.MonkeyPatch, shift: int, how: dict[str, Any]
) -> None:
    real = language._meeting_points

    def shifted(edges: list[tuple[int, int]]) -> list[int]:
        return [min(max(0, meet + shift), len(edges)) for meet in real(edges)]

    monkeypatch.setattr(language, "_meeting_points", shifted)
    assert faults(simt.run_warp(PROBE, latency=1, **how))


@pytest.mark.parametrize("how", [HOWS[0], HOWS[2]], ids=["stack", "independent"])
def test_mutant_the_mask_is_not_complemented(monkeypatch: pytest.MonkeyPatch, how: dict[str, Any]) -> None:
    real = machines.Machine.parts

    def overlapping(self: Any, at: int, lanes: tuple[int, ...]) -> Any:
        parts = real(self, at, lanes)
        return [parts[0], (parts[1][0], lanes)] if len(parts) > 1 else parts

    def forced(self: Any, at: int, lanes: tuple[int, ...]) -> None:
        for lane in lanes:
            self.pcs[lane] = at
        execute(self, at, lanes)

    execute = machines.Machine.execute
    monkeypatch.setattr(machines.Machine, "parts", overlapping)
    monkeypatch.setattr(machines.Machine, "execute", forced)
    if how["reconvergence"] == "independent":
        monkeypatch.setattr(
            machines.ConvergingMachine,
            "next",
            lambda self: (self.pcs[0], tuple(range(32))) if self.alive() else None,
        )
    assert faults(simt.run_warp(PROBE, latency=1, **how))


def test_mutant_the_other_path_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    real = machines.StackMachine.moved

    def forgetful(self: Any, step: int, lanes: tuple[int, ...]) -> None:
        height = len(self.stack)
        real(self, step, lanes)
        if len(self.stack) > height + 1:
            del self.stack[-2]

    monkeypatch.setattr(machines.StackMachine, "moved", forgetful)
    assert faults(simt.run_warp(PROBE, latency=1))


def test_mutant_the_stack_is_not_popped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines.StackMachine, "_clear", lambda self: None)
    with pytest.raises(IndexError):  # the first entry runs beyond the end
        simt.run_warp(PROBE, latency=1)


def test_mutant_a_barrier_opens_for_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        machines.IndependentMachine, "alive", lambda self: [*self.at_barrier] or machines.Machine.alive(self)
    )
    assert simt.run_warp(HALF, latency=1, reconvergence="independent").deadlock is None


@pytest.mark.parametrize(
    "name, spoil, cycle, check",
    [
        ("mask", lambda trace: np.roll(trace.mask, 1, axis=0), None, "one line at a time"),
        ("values", lambda trace: trace.values + 1, None, "each lane as alone"),
        ("values", lambda trace: np.roll(trace.values, 1, axis=0), 3, "cycle 3"),
        (
            "stack",
            lambda trace: tuple(entries + entries[-1:] for entries in trace.stack),
            None,
            "paths apart",
        ),
        ("latency", lambda trace: 2, None, "results in time"),
    ],
)
def test_a_spoilt_trace_fails_its_own_check(name: str, spoil: Any, cycle: int | None, check: str) -> None:
    trace = simt.run_warp(PROBE, latency=1)
    assert trace.verify(cycle=cycle).passed
    report = replace(trace, **{name: spoil(trace)}).verify(cycle=cycle)
    assert check in [one.name for one in report.checks if not one.passed], report


# -------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "program, sentence",
    [
        ("x = y", r"Line 1: 'y' uses the name 'y'; a program may hold lane, x, whole numbers"),
        ("x = 1\nx = foo(3)", r"Line 2, 'x = foo\(3\)', is no statement of a warp's program"),
        ("x = 1 / 2", r"Line 1: '1 / 2' uses '/'.*write '//'"),
        ("while 1:\n  break\n  x = 1", r"No lane ever comes to line 3; take it out"),
        ("import os", r"Line 1, 'import os', is no statement"),
        ("x = exch(q, 1)", r"'q' is none; name it in shared, such as shared=\{'q': 0\}"),
        ("x = lane // lane", r"Line 1: 'lane // lane', for lane 0, divides by 0"),
        ("if lane > 3:\n    y = 1\nx = y", r"Line 3: 'y', for lane 0, reads 'y' before any line has set it"),
        ("lane = 3", r"'lane' cannot be a name of the program's own"),
        ("", r"The program has no step"),
        ("x = (", r"The program cannot be read in line 1"),
        ("\n".join(["x = 1"] * 81), r"The program has 81 lines, but at most 80"),
        ("x = 1" + " " * 4000 + "\n", r"characters, but at most 4000"),
        ("for i in range(1, 2, 3):\n    x = 1", r"Line 1, 'for i in range\(1, 2, 3\):', is no statement"),
        ("\n".join(f"v{i} = 1" for i in range(17)), r"The program has 17 names, but at most 16"),
        ("x = None", r"Line 1: 'None' gives lane 0 None, but a value is a whole number"),
    ],
)
def test_a_program_that_cannot_be_read(program: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        simt.run_warp(program)


@pytest.mark.parametrize(
    "settings, sentence",
    [
        ({"reconvergence": "stacks"}, r"Unknown reconvergence 'stacks'.*Did you mean 'stack'"),
        ({"schedule": "alternate"}, r"a stack runs one path after the other"),
        ({"first": "both"}, r"Unknown first 'both'"),
        ({"lanes": 33}, r"lanes is 33.*at most 32"),
        ({"latency": 0}, r"latency is 0"),
        ({"shared": {"x": 2**63}}, r"shared\['x'\] is 9223372036854775808"),
    ],
)
def test_a_setting_out_of_range(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        simt.run_warp("x = 1", **settings)


@pytest.mark.wrong_type
@pytest.mark.parametrize("given", [1, 0, "no", None])
def test_branches_is_true_or_false(given: Any) -> None:
    with pytest.raises(TypeError, match=rf"branches is {given!r}, but must be a bool"):
        simt.run_warp("x = 1", branches=given)


@pytest.mark.parametrize(
    ("method", "given", "meant"),
    [
        ("why", "cycle", "t"),
        ("standing", "cycle", "t"),
        ("lines_at", "cycle", "t"),
        ("verify", "cycles", "cycle"),
        ("verify_frame", "cycles", "cycle"),
    ],
)
def test_an_unknown_keyword_is_answered_with_the_valid_ones(method: str, given: str, meant: str) -> None:
    trace = simt.run_warp("x = 1")
    with pytest.raises(TypeError, match=rf"DivergenceTrace.{method} does not know .*Valid: {meant}\."):
        getattr(trace, method)(**{given: 0})
    getattr(trace, method)(**{meant: 0})


def test_a_run_too_long_to_keep() -> None:
    with pytest.raises(ValueError, match=r"The run takes \d+ cycles, but at most 20000 are kept"):
        simt.run_warp("x = 0\nwhile x < 100:\n    x = x + 1", latency=1000)


def test_a_long_run_is_cut_off_and_not_said_to_go_on_for_ever() -> None:
    trace = simt.run_warp("for i in range(1500):\n    x = i", lanes=1, latency=1)
    assert trace.cut and trace.ending == "cut off" and "never" not in repr(trace) + str(trace.deadlock)
    assert trace.events()[-1] == (trace.cycles - 1, "cut off")
    stuck = simt.run_warp("while 1:\n    pass")
    assert not stuck.cut and stuck.ending == stuck.events()[-1][1] == "never ends"
    assert simt.run_warp("x = 1").ending == "done"


def test_branches_that_take_no_cycle_may_leave_nothing_to_issue() -> None:
    with pytest.raises(ValueError, match=r"issues nothing.*branches=False"):
        simt.run_warp("if lane < 3:\n    pass", branches=False)
    trace = simt.run_warp("while 1:\n    pass", branches=False)
    assert (trace.issue_count, trace.efficiency, trace.ending) == (0, 0, "never ends")
    assert "0 instructions" in repr(trace)


def test_statements_on_one_line_are_told_apart() -> None:
    trace = simt.run_warp("x = 1; y = 2\nif lane < 4: x = 3")
    assert [step.text for step in trace.steps] == ["x = 1", "y = 2", "if lane < 4:", "x = 3"]
    assert [step.line for step in trace.steps] == [1, 1, 2, 2]


# -------------------------------------------------------------------------------------- a traced kernel


def parting(x, out):  # type: ignore[no-untyped-def]  # a kernel, as a reader writes it
    i = cuda.grid(1)
    if i < 40:
        if i % 4 == 0:
            out[i] = x[i] * 2.0
        else:
            out[i] = x[i] + 1.0
        out[i] += 1.0


def followed(warp: int) -> tuple[simt.KernelTrace, DivergenceTrace]:
    x = np.arange(50, dtype=np.float32)
    run = simt.trace_kernel(parting, grid=1, block=50, args=(x, np.zeros_like(x)))
    return run, simt.follow_lanes(run, warp=warp)


@pytest.mark.parametrize("warp, lanes", [(0, 32), (1, 18)])
def test_a_warp_of_a_traced_kernel_is_followed_line_by_line(warp: int, lanes: int) -> None:
    run, trace = followed(warp)
    own = run.warps[warp].instructions
    assert issues(trace) == [
        (i.line, frozenset(lane for lane in range(32) if i.mask >> lane & 1)) for i in own
    ]
    assert trace.lanes == lanes and trace.verify(cycle=5).passed
    assert trace.lines == run.source and trace.first_line == run.first_line
    for t in range(trace.cycles):
        assert trace.why(t).endswith(".")
        assert trace.lines_at(t) == [
            next((i.line for i in own[int((trace.issued[:t] >= 0).sum()) :] if i.mask >> lane & 1), 0)
            for lane in range(32)
        ]


def test_lanes_of_a_traced_kernel_wait_where_the_branch_ends() -> None:
    _, trace = followed(0)
    says = " ".join(trace.why(t) for t in range(trace.cycles))
    first = trace.first_line
    assert f"24 lanes (1, 2, 3, ...) wait with line {first + 6}" in says
    assert f"8 lanes (0, 4, ... 28) wait where the branch ends, before line {first + 7}" in says


def test_what_of_a_kernel_cannot_be_followed() -> None:
    run, _ = followed(0)
    with pytest.raises(ValueError, match=r"warp is 2.*at most 1"):
        simt.follow_lanes(run, warp=2)
    x = np.zeros(32, np.float32)
    stuck = simt.trace_kernel(half_a_barrier, grid=1, block=32, args=(x,))
    with pytest.raises(ValueError, match=r"Warp 0 stops at a barrier that never opens"):
        simt.follow_lanes(stuck)


def half_a_barrier(x):  # type: ignore[no-untyped-def]  # a kernel, as a reader writes it
    i = cuda.grid(1)
    if i < 16:
        cuda.syncthreads()
    x[i] = 1.0
