"""The matmul kernel: values lane by lane, and the same bits as the other machine."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from pulsewarp import simt, systolic


def check_lanes(kernel: simt.Kernel) -> None:
    """Every lane by hand, in program order, from nothing but the operands and the listing."""
    (m, k), n = kernel.a.shape, kernel.b.shape[1]
    accumulate = kernel.result.dtype.type
    for w, program in enumerate(kernel.programs):
        assert kernel.lane_values[w].shape == (len(program), 32) == (3 * k + 1, 32)
        assert {i.lanes for i in program} == {kernel.active_lanes[w]}
        for lane in range(32):
            told = kernel.lane_values[w][:, lane]
            thread = 32 * w + lane
            if thread >= m * n:
                assert lane >= kernel.active_lanes[w]
                assert not told.any()
                continue
            row, column = divmod(thread, n)
            registers = {"r4": accumulate(0), "r5": accumulate(0), "r6": accumulate(0)}
            for pc, i in enumerate(program):
                if i.text == "LDG r4, [A]":
                    registers["r4"] = accumulate(kernel.a[row, pc // 3])
                    assert told[pc] == registers["r4"]
                elif i.text == "LDG r5, [B]":
                    registers["r5"] = accumulate(kernel.b[pc // 3, column])
                    assert told[pc] == registers["r5"]
                elif i.text == "FFMA r6, r4, r5, r6":
                    registers["r6"] = accumulate(registers["r4"] * registers["r5"] + registers["r6"])
                    assert told[pc] == registers["r6"]
                else:
                    assert i.text == "STG [C], r6"
                    assert pc == len(program) - 1
                    assert told[pc] == registers["r6"] == kernel.result[row, column]


sides = st.integers(1, 7)


@st.composite
def operands(draw: st.DrawFn, dtype: type) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    m, k, n = draw(sides), draw(sides), draw(sides)
    values = st.floats(-100, 100, width=16) if np.dtype(dtype).kind == "f" else st.integers(-9, 9)
    return draw(hnp.arrays(dtype, (m, k), elements=values)), draw(hnp.arrays(dtype, (k, n), elements=values))


@settings(max_examples=25)
@given(st.sampled_from([np.int8, np.int16, np.int64, np.float16, np.float32, np.float64]).flatmap(operands))
def test_lanes_hold_what_a_reader_computes(pair: tuple[NDArray[np.generic], NDArray[np.generic]]) -> None:
    check_lanes(simt.matmul_kernel(*pair))


@settings(max_examples=60)
@given(st.sampled_from([np.int8, np.int16, np.int64, np.float16, np.float32, np.float64]).flatmap(operands))
def test_both_machines_give_the_same_bits(pair: tuple[NDArray[np.generic], NDArray[np.generic]]) -> None:
    a, b = pair
    result = simt.matmul_kernel(a, b).result
    pulsed = systolic.simulate(a, b, rows=a.shape[1], cols=b.shape[1]).result
    assert result.dtype == pulsed.dtype
    assert result.tobytes() == pulsed.tobytes()


@settings(max_examples=60)
@given(operands(np.int64))
def test_integers_are_exact(pair: tuple[NDArray[np.generic], NDArray[np.generic]]) -> None:
    a, b = pair
    assert (simt.matmul_kernel(a, b).result == a @ b).all()


def test_floats_are_close() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(9, 40)).astype(np.float32), rng.normal(size=(40, 11)).astype(np.float32)
    np.testing.assert_allclose(
        simt.matmul_kernel(a, b).result, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-5
    )


def test_int8_does_not_overflow() -> None:
    a = np.full((2, 100), -128, np.int8)
    kernel = simt.matmul_kernel(a, a.T.copy())
    assert kernel.result.dtype == np.int32
    assert kernel.result[0, 0] == 100 * 128 * 128


def test_four_by_four_is_half_a_warp() -> None:
    kernel = simt.matmul_kernel(np.ones((4, 4)), np.ones((4, 4)))
    assert kernel.active_lanes == (16,)
    assert set(np.unique(kernel.simulate().lanes)) == {0, 16}


def test_sixteen_by_sixteen_is_eight_full_warps() -> None:
    kernel = simt.matmul_kernel(np.ones((16, 2)), np.ones((2, 16)))
    assert kernel.active_lanes == (32,) * 8
    assert kernel.blocks == (0,) * 8
    assert simt.matmul_kernel(np.ones((16, 2)), np.ones((2, 16)), threads_per_block=64).blocks == (
        0, 0, 1, 1, 2, 2, 3, 3,
    )  # fmt: skip


def test_the_trace_carries_its_kernel() -> None:
    kernel = simt.matmul_kernel([[1, 2], [3, 4]], [[5, 6], [7, 8]])
    trace = kernel.simulate(schedulers=2, policy="gto", max_outstanding=1)
    assert trace.kernel is kernel
    assert (trace.schedulers, trace.policy, trace.max_outstanding) == (2, "gto", 1)
    assert trace.programs == kernel.programs


def test_latencies_are_those_given() -> None:
    kernel = simt.matmul_kernel(
        [[1]], [[1]], load_latency=30, load_interval=3, sum_latency=5, store_latency=2
    )
    told = [(i.unit, i.latency, i.interval) for i in kernel.programs[0]]
    assert told == [("mem", 30, 3), ("mem", 30, 3), ("alu", 5, 1), ("mem", 2, 3)]


def test_arrays_are_read_only_and_own() -> None:
    a = np.ones((2, 2))
    kernel = simt.matmul_kernel(a, a)
    a[0, 0] = 7
    assert kernel.a[0, 0] == 1
    for array in (kernel.a, kernel.b, kernel.result, *kernel.lane_values):
        assert not array.flags.writeable


def test_repr() -> None:
    assert repr(simt.matmul_kernel([[1]], [[2]])) == (
        "Kernel(1x1 @ 1x1: 1 thread, 1 warp, 4 instructions each)"
    )


@pytest.mark.parametrize(
    ("arguments", "keywords", "sentence"),
    [
        ((np.ones((2, 3)), np.ones((2, 3))), {}, r"a has shape \(2, 3\) and b has shape .*as many"),
        ((np.ones(3), np.ones((3, 1))), {}, "a has shape"),
        ((np.zeros((0, 3)), np.ones((3, 1))), {}, "a has shape"),
        (([[float("nan")]], [[1.0]]), {}, r"a\[0, 0\] is nan"),
        ((np.ones((64, 1)), np.ones((1, 64))), {}, "needs 128 warps, but one SM holds at most 64"),
        ((np.ones((45, 9000)), np.ones((9000, 45))), {}, "lane values, but at most 4194304"),
        (([[1]], [[1]]), {"threads_per_block": 48}, "use 32 or 64"),
        (([[1]], [[1]]), {"threads_per_block": 2048}, "at most 1024"),
        (([[1]], [[1]]), {"load_latency": 0}, "latency is 0"),
        (([[1]], [[1]]), {"sum_latency": -4}, "latency is -4"),
    ],
)
def test_bad_input_gets_a_sentence(
    arguments: tuple[object, object], keywords: dict[str, int], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        simt.matmul_kernel(*arguments, **keywords)  # type: ignore[arg-type]


def test_the_check_sees_a_swapped_operand() -> None:
    kernel = simt.matmul_kernel([[1, 2], [3, 4]], [[5, 6], [7, 8]])
    wrong = np.array(kernel.lane_values[0])
    wrong[[0, 1]] = wrong[[1, 0]]
    object.__setattr__(kernel, "lane_values", (wrong,))
    with pytest.raises(AssertionError):
        check_lanes(kernel)
