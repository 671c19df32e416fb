"""Random kernels: the tracer against Python running each thread by itself, access by access."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tracing_naive import kernel_of, run

from pulsewarp import simt
from pulsewarp.simt import cuda
from pulsewarp.simt.tracing import _launch, _machine, _values

pytestmark = pytest.mark.exhaustive

N = 40  # elements of every array
PARAMETERS = "a, x, out, n"

INTEGERS = st.sampled_from(["i", "t", "u", "v", "n", "cuda.laneid", "cuda.blockIdx.x"]) | st.integers(
    0, 9
).map(str)


def index(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return inner.map(lambda e: f"({e}) % {N}")


def integers(depth: int) -> st.SearchStrategy[str]:
    if depth == 0:
        return INTEGERS
    inner = integers(depth - 1)
    return st.one_of(
        INTEGERS,
        st.tuples(inner, st.sampled_from(["+", "-", "*", "&", "|", "^"]), inner).map(
            lambda p: f"({' '.join(p)})"
        ),
        st.tuples(inner, st.sampled_from(["//", "%"]), st.integers(1, 7)).map(
            lambda p: f"({p[0]} {p[1]} {p[2]})"
        ),
        index(inner).map(lambda e: f"a[{e}]"),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda p: f"{p[0]}({p[1]}, {p[2]})"),
        inner.map(lambda e: f"abs({e})"),
        inner.map(lambda e: f"-({e})"),
        st.tuples(inner, conditions(depth - 1), inner).map(lambda p: f"({p[0]} if {p[1]} else {p[2]})"),
    )


def conditions(depth: int) -> st.SearchStrategy[str]:
    inner = integers(max(depth - 1, 0))
    plain = st.tuples(inner, st.sampled_from(["<", "<=", "==", "!=", ">", ">="]), inner).map(" ".join)
    chained = st.tuples(inner, inner, inner.map(lambda e: f"a[({e}) % {N}]")).map(
        lambda p: f"{p[0]} < {p[1]} <= {p[2]}"
    )
    if depth == 0:
        return plain
    deeper = conditions(depth - 1)
    joined = st.tuples(deeper, st.sampled_from(["and", "or"]), deeper).map(lambda p: f"({' '.join(p)})")
    return st.one_of(plain, chained, joined, deeper.map(lambda e: f"not ({e})"))


def floats() -> st.SearchStrategy[str]:
    atom = st.sampled_from(["f", "0.5", "2.0"]) | index(integers(1)).map(lambda e: f"x[{e}]")
    return st.tuples(atom, st.sampled_from(["+", "-", "*"]), atom, st.sampled_from(["+", "-"]), atom).map(
        lambda p: f"{p[0]} {p[1]} {p[2]} {p[3]} {p[4]}"
    )


@st.composite
def statements(draw: st.DrawFn, depth: int, in_loop: bool) -> list[str]:
    """Return a few statements; a thread writes its own element only, so no two disturb each other."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        kinds = ["u", "v", "f", "own", "augment", "swap"]
        if depth:
            kinds += ["if", "for", "while"]
        if in_loop:
            kinds += ["break", "continue"]
        kind = draw(st.sampled_from([*kinds, "return"]))
        if kind in ("u", "v"):
            lines.append(f"{kind} = ({draw(integers(2))}) % 97")
        elif kind == "f":
            lines.append(f"f = ({draw(floats())}) % 8.0")
        elif kind == "own":
            lines.append(f"out[i] = {draw(floats())}")
        elif kind == "augment":
            lines.append(
                draw(st.sampled_from(["u += v % 5", "v -= t", "out[i] += f", "f *= 0.5", "f += f * 0.25"]))
            )
        elif kind == "swap":
            lines.append("u, v = v, u")
        elif kind == "if":
            lines.append(f"if {draw(conditions(1))}:")
            lines += ["    " + line for line in draw(statements(depth - 1, in_loop))]
            if draw(st.booleans()):
                lines.append(f"elif {draw(conditions(1))}:")
                lines += ["    " + line for line in draw(statements(depth - 1, in_loop))]
            if draw(st.booleans()):
                lines.append("else:")
                lines += ["    " + line for line in draw(statements(depth - 1, in_loop))]
        elif kind == "for":
            name = f"k{depth}"
            stop = draw(st.sampled_from(["3", "t % 4", "u % 3", "n % 5"]))
            step = draw(st.sampled_from([f"0, {stop}", f"1, {stop}, 2", f"{stop}, 0, -1"]))
            lines.append(f"for {name} in range({step}):")
            lines.append(f"    u = (u + {name}) % 97")
            lines += ["    " + line for line in draw(statements(depth - 1, True))]
        elif kind == "while":
            name = f"w{depth}"
            lines.append(f"{name} = 0")
            lines.append(f"while {name} < {draw(st.sampled_from(['t % 3', '2', 'v % 4']))}:")
            lines.append(f"    {name} += 1")
            lines += ["    " + line for line in draw(statements(depth - 1, True))]
        else:  # break, continue and return, in some lanes only
            lines.append(f"if {draw(conditions(1))}:")
            lines.append(f"    {kind}")
    return lines


@st.composite
def kernels(draw: st.DrawFn) -> str:
    head = ["i = cuda.grid(1)", "t = cuda.threadIdx.x", "u = a[i % 40]", "v = t", "f = x[i % 40]"]
    body = [*head, *draw(statements(2, False)), "out[i] += f + u"]
    return f"def k({PARAMETERS}):\n" + "".join(f"    {line}\n" for line in body)


A = (np.arange(N) * 7 % 23).astype(np.int64)
X = (np.arange(N) * 3 % 16 - 5) / 4.0


def agree(kernel: Callable[..., Any], grid: int, block: int) -> simt.KernelTrace:
    """Hold the tracer to the threads: results, and each thread's accesses in order."""
    args = (A, X, np.zeros(grid * block), 7)
    arrays, log = run(kernel, grid, block, args)
    traced = simt.trace_kernel(kernel, grid=grid, block=block, args=args)
    for name, array in arrays.items():
        np.testing.assert_array_equal(traced.results[name], array, err_msg=name)
    seen: dict[tuple[int, int], list[tuple[str, int, str]]] = {key: [] for key in log}
    for warp in traced.warps:
        for i in warp.instructions:
            assert 0 < i.lanes <= 32 and i.mask & ~warp.mask == 0
            if i.memory is None:
                continue
            assert i.elements is not None and i.addresses is not None
            for lane in np.flatnonzero(i.elements >= 0).tolist():
                assert i.mask >> lane & 1
                assert i.addresses[lane] == i.memory.base + 8 * i.elements[lane]  # all arrays hold 8 bytes
                seen[warp.block, warp.warp * 32 + lane].append((i.memory.name, int(i.elements[lane]), i.what))
    assert seen == log
    assert not traced.problems
    return traced


@given(kernels(), st.sampled_from([(1, 20), (1, 32), (2, 40)]))
@settings(max_examples=100, suppress_health_check=list(HealthCheck))
def test_a_random_kernel_does_what_its_threads_do(source: str, launch: tuple[int, int]) -> None:
    agree(kernel_of(source, cuda=cuda), *launch)


EXCHANGE = """
def k(a, x, out, n):
    s = cuda.shared.array(64, np.float64)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    u = a[i % 40]
    for r in range(3):
        s[t] = x[(i + r) % 40] * u
        cuda.syncthreads()
        u = u + int(s[(t * {step} + r) % cuda.blockDim.x])
        if u % 2 == 0:
            out[i] += s[cuda.blockDim.x - 1 - t]
        cuda.syncthreads()
"""


def agree_through_shared_memory(step: int, block: int) -> None:
    args = (A, X, np.zeros(2 * block), 7)
    kernel = kernel_of(EXCHANGE.format(step=step), cuda=cuda)
    arrays, _ = run(kernel, 2, block, args)
    traced = simt.trace_kernel(kernel, grid=2, block=block, args=args)
    np.testing.assert_array_equal(traced.results["out"], arrays["out"])
    assert not traced.problems


@pytest.mark.parametrize("block", [8, 33, 64])
@pytest.mark.parametrize("step", [1, 3])
def test_threads_exchange_through_shared_memory(step: int, block: int) -> None:
    agree_through_shared_memory(step, block)


# --- planted faults: each must be seen ----------------------------------------------------------------------

SIDES = """
def k(a, x, out, n):
    i = cuda.grid(1)
    if i % 3 == 0:
        out[i] = 1.0
    else:
        out[i] = 2.0
    out[i] += x[i % 40]
"""
LOOP = """
def k(a, x, out, n):
    i = cuda.grid(1)
    for r in range(i % 5):
        if r == 2:
            continue
        out[i] += r
    out[i] += 1
"""


def test_a_mask_that_stays_after_a_branch_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    agree(kernel_of(SIDES, cuda=cuda), 1, 32)

    def one_side(self: Any, statement: Any, mask: int, frame: Any) -> Any:
        taken = self.test(statement.test, mask, frame)
        return (yield from self.statements(statement.body, taken, frame))

    monkeypatch.setattr(_machine.Machine, "branch", one_side)
    with pytest.raises(AssertionError):
        agree(kernel_of(SIDES, cuda=cuda), 1, 32)


def test_a_mask_that_a_branch_does_not_narrow_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = _machine.Machine.test
    monkeypatch.setattr(_machine.Machine, "test", lambda *args: right(*args) and args[2])
    with pytest.raises(AssertionError):
        agree(kernel_of(SIDES, cuda=cuda), 1, 32)


def test_an_element_remembered_for_other_lanes_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    agree(kernel_of(SIDES, cuda=cuda), 1, 32)

    def for_all(self: Any, key: tuple[Any, ...], elements: Any) -> None:
        self.places[(key[0], _values.ALL, *key[2:])] = elements

    monkeypatch.setattr(_launch.Launch, "keep_place", for_all)
    with pytest.raises(AssertionError):
        agree(kernel_of(SIDES, cuda=cuda), 1, 32)


def test_a_full_memory_of_elements_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_launch, "MOST_PLACES", 2)
    agree_through_shared_memory(3, 33)


@pytest.mark.parametrize("step", [1, 3, -1, -4])
@pytest.mark.parametrize("bounds", [(0, 7), (7, 0), (-5, 6), (3, 3), (9, -9)])
def test_lanes_that_count_alike_count_as_any_lanes_do(
    bounds: tuple[int, int], step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def counted() -> list[tuple[int, bool]]:
        found: list[tuple[int, bool]] = []
        for now, goes_on in _values.trips(*(np.full(32, n) for n in (*bounds, step))):
            assert (now == now[0]).all() and (goes_on == goes_on[0]).all()
            found.append((int(now[0]), bool(goes_on[0])))
            if not goes_on[0]:
                break
        return found

    alike = counted()
    monkeypatch.setattr(_values, "_FAR", 0)  # each lane by itself
    assert alike == counted() == [*((n, True) for n in range(*bounds, step)), (alike[-1][0], False)]


def test_a_lane_lost_at_continue_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    agree(kernel_of(LOOP, cuda=cuda), 1, 32)

    class Forgetful(_machine.Loop):
        __slots__ = ()

        def __setattr__(self, name: str, value: int) -> None:
            super().__setattr__(name, 0 if name == "continued" else value)

    monkeypatch.setattr(_machine, "Loop", Forgetful)
    with pytest.raises(AssertionError):
        agree(kernel_of(LOOP, cuda=cuda), 1, 32)


def test_a_barrier_that_nobody_waits_at_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = _machine.Machine.expression

    def hurried(self: Any, statement: Any, mask: int, frame: Any) -> Any:
        for _ in right(self, statement, mask, frame):
            pass  # issued, but the warp goes on
        return mask
        yield

    monkeypatch.setattr(_machine.Machine, "expression", hurried)
    with pytest.raises(AssertionError):
        agree_through_shared_memory(3, 64)


def test_an_address_scaled_wrongly_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simt.tracing.TracedInstruction, "addresses", property(lambda i: i.elements))
    with pytest.raises(AssertionError):
        agree(kernel_of(SIDES, cuda=cuda), 1, 32)
