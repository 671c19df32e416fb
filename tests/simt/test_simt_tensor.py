"""Tensor cores: fragments against PTX and CuTe, values against exact sums, laws of a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from simt_naive import step_through

from pulsewarp import chips, ledger, simt
from pulsewarp.simt.tensor import _programs, _values, shapes, staging

pytestmark = pytest.mark.exhaustive

SHAPES = simt.mma_shapes()
OPERANDS = ("a", "b", "c")
RANDOM = np.random.default_rng(0)
ARCHITECTURES = ("volta", "turing", "ampere", "hopper")


def normal(m: int, k: int, n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rng = np.random.default_rng(m * 10_000 + k * 100 + n)
    return rng.normal(size=(m, k)), rng.normal(size=(k, n))


# --- rates and shapes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "chip"),
    [("volta", "v100_sxm2_16"), ("turing", "t4"), ("ampere", "a100_sxm_40"), ("hopper", "h100_sxm")],
)
def test_rates_are_those_of_the_chips_catalogue(name: str, chip: str) -> None:
    gpu = chips.get(chip)
    assert gpu.fma_per_clock_per_matrix_unit and gpu.matrix_units and gpu.cores
    fp16 = gpu.fma_per_clock_per_matrix_unit * gpu.matrix_units / gpu.cores  # multiply-adds a cycle and SM
    peaks = gpu.peak_flops_per_second
    for shape in simt.mma_shapes(name):
        known = simt.architecture(name).operations[shape.operation]
        assert known.unit == "tensor" and known.multiply_adds == shape.multiply_adds
        dtype = {"fp64": "fp64_tensor", "bf16": "fp16"}.get(shape.dtype, shape.dtype)
        rate = fp16 * peaks[dtype] / peaks["fp16"]
        assert known.interval == pytest.approx(shape.multiply_adds * 4 / rate, rel=0.01)


def test_a_group_of_warps_takes_the_time_its_multiply_adds_need() -> None:
    operations = simt.architecture("hopper").operations
    for n in (64, 128, 256):
        known = operations[f"WGMMA.64x{n}x16"]
        assert known.multiply_adds == 64 * n * 16 // 4
        assert known.latency == known.interval == n // 2


def test_which_shapes_an_architecture_has() -> None:
    told = {name: {(s.name, s.dtype) for s in simt.mma_shapes(name)} for name in ARCHITECTURES}
    assert told["volta"] == {("m8n8k4", "fp16")}
    assert ("m16n8k8", "fp16") in told["turing"] and ("m16n8k16", "fp16") not in told["turing"]
    assert ("m16n8k16", "bf16") in told["ampere"] and ("m8n8k4", "fp16") not in told["ampere"]
    assert ("m16n8k16", "fp16") in told["hopper"]
    assert simt.mma_shapes("qv100_accelsim") == ()


# --- fragments ---------------------------------------------------------------------------------------------

Place = Callable[[int, int, int, int], tuple[int, int]]  # lane, group, thread, element -> row, column

# PTX ISA, "Matrix fragments for mma", shape by shape as written there, and not by one rule for all.
PTX: dict[tuple[str, str, str], Place] = {
    ("m16n8k8", "fp16", "a"): lambda _, g, t, i: (g if i in (0, 1) else g + 8, t * 2 + (i & 1)),
    ("m16n8k8", "fp16", "b"): lambda _, g, t, i: (t * 2 + i, g),
    ("m16n8k16", "fp16", "a"): lambda _, g, t, i: (
        g if 0 <= i < 2 or 4 <= i < 6 else g + 8,
        t * 2 + (i & 1) + (0 if i < 4 else 8),
    ),
    ("m16n8k16", "fp16", "b"): lambda _, g, t, i: (t * 2 + (i & 1) + (0 if i < 2 else 8), g),
    ("m16n8k4", "tf32", "a"): lambda _, g, t, i: (g if i == 0 else g + 8, t),
    ("m16n8k4", "tf32", "b"): lambda _, g, t, i: (t, g),
    ("m16n8k8", "tf32", "a"): lambda _, g, t, i: (g if i in (0, 2) else g + 8, t if i < 2 else t + 4),
    ("m16n8k8", "tf32", "b"): lambda _, g, t, i: (t if i == 0 else t + 4, g),
    ("m8n8k16", "int8", "a"): lambda _, g, t, i: (g, t * 4 + i),
    ("m8n8k16", "int8", "b"): lambda _, g, t, i: (t * 4 + i, g),
    ("m16n8k16", "int8", "a"): lambda _, g, t, i: (g if i < 4 else g + 8, t * 4 + (i & 3)),
    ("m16n8k16", "int8", "b"): lambda _, g, t, i: (t * 4 + i, g),
    ("m16n8k32", "int8", "a"): lambda _, g, t, i: (
        g if 0 <= i < 4 or 8 <= i < 12 else g + 8,
        t * 4 + (i & 3) + (0 if i < 8 else 16),
    ),
    ("m16n8k32", "int8", "b"): lambda _, g, t, i: (t * 4 + (i & 3) + (0 if i < 4 else 16), g),
    ("m8n8k32", "int4", "a"): lambda _, g, t, i: (g, t * 8 + i),
    ("m8n8k32", "int4", "b"): lambda _, g, t, i: (t * 8 + i, g),
    ("m16n8k32", "int4", "a"): lambda _, g, t, i: (g if i < 8 else g + 8, t * 8 + (i & 7)),
    ("m16n8k32", "int4", "b"): lambda _, g, t, i: (t * 8 + i, g),
    ("m16n8k64", "int4", "a"): lambda _, g, t, i: (
        g if 0 <= i < 8 or 16 <= i < 24 else g + 8,
        t * 8 + (i & 7) + (0 if i < 16 else 32),
    ),
    ("m16n8k64", "int4", "b"): lambda _, g, t, i: (t * 8 + (i & 7) + (0 if i < 8 else 32), g),
    ("m8n8k4", "fp64", "a"): lambda _, g, t, i: (g, t),
    ("m8n8k4", "fp64", "b"): lambda _, g, t, i: (t, g),
    ("m8n8k4", "fp16", "a"): lambda lane, g, t, i: (lane % 4 + (0 if lane < 16 else 4), i),
    ("m8n8k4", "fp16", "b"): lambda lane, g, t, i: (i, lane % 4 + (0 if lane < 16 else 4)),
    ("m8n8k4", "fp16", "c"): lambda lane, g, t, i: (
        (lane & 1) + (i & 2) + (0 if lane < 16 else 4),
        (i & 4) + (lane & 2) + (i & 1),
    ),
}
for _wide, _narrow in (("bf16", "fp16"), ("fp8", "int8")):
    for (_name, _dtype, _operand), _place in list(PTX.items()):
        if _dtype == _narrow:
            PTX[_name, _wide, _operand] = _place


def ptx(shape: simt.MmaShape, operand: str) -> Place:
    if (shape.name, shape.dtype, operand) in PTX:
        return PTX[shape.name, shape.dtype, operand]
    assert operand == "c"  # alike for all others
    return lambda _, g, t, i: (g if i < 2 else g + 8, t * 2 + (i & 1))


def check_fragment(held: simt.Fragment) -> None:
    place = ptx(held.shape, held.operand)
    for lane, element in np.ndindex(held.rows.shape):
        told = int(held.rows[lane, element]), int(held.columns[lane, element])
        assert told == place(lane, lane >> 2, lane % 4, element)


@pytest.mark.parametrize("operand", OPERANDS)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s.name}-{s.dtype}")
def test_fragments_are_those_of_ptx(shape: simt.MmaShape, operand: str) -> None:
    check_fragment(simt.fragment(shape, operand))


@pytest.mark.parametrize("operand", OPERANDS)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s.name}-{s.dtype}")
def test_every_element_is_held_exactly_once(shape: simt.MmaShape, operand: str) -> None:
    held = simt.fragment(shape, operand)
    count = np.zeros((shape.computations, held.height, held.width), np.int64)
    np.add.at(count, (held.computation[:, None], held.rows, held.columns), 1)
    assert (count == 1).all()
    assert held.elements * 32 == shape.computations * held.height * held.width
    for computation, row, column in np.ndindex(count.shape):
        lane, element = held.lane_of(row, column, computation)
        assert (held.rows[lane, element], held.columns[lane, element]) == (row, column)
        assert held.computation[lane] == computation
    # A register is filled before the next one begins, low elements first.
    assert held.register.tolist() == [i * held.bits // 32 for i in range(held.elements)]
    assert held.registers == held.elements * held.bits // 32


def cute(shape: Any, stride: Any, index: int) -> int:
    """The value of a CuTe layout at an index: coordinates with the first one fastest, times their strides."""
    flat_shape, flat_stride = flatten(shape), flatten(stride)
    total = 0
    for size, step in zip(flat_shape, flat_stride, strict=True):
        index, coordinate = divmod(index, size)
        total += coordinate * step
    assert index == 0
    return total


def flatten(nested: Any) -> list[int]:
    return [nested] if isinstance(nested, int) else [i for one in nested for i in flatten(one)]


# NVIDIA/cutlass, include/cute/atom/mma_traits_sm80.hpp and mma_traits_sm70.hpp, read on 2026-11-30: (threads,
# values) to the place in the operand, counted down its columns; B as n x k there.
ROW_16x8 = (((4, 8), (2, 2)), ((32, 1), (16, 8)))
ROW_8x8 = (((4, 8), 2), ((16, 1), 8))
ROW_8x16 = (((4, 8), 4), ((32, 1), 8))
ONE_8x4 = (((4, 8), 1), ((8, 1), 0))
CUTE: dict[tuple[str, str], tuple[Any, Any, Any]] = {
    ("m16n8k8", "fp16"): (ROW_16x8, ROW_8x8, ROW_16x8),
    ("m16n8k16", "fp16"): (
        (((4, 8), (2, 2, 2)), ((32, 1), (16, 8, 128))),
        (((4, 8), (2, 2)), ((16, 1), (8, 64))),
        ROW_16x8,
    ),
    ("m16n8k4", "tf32"): ((((4, 8), 2), ((16, 1), 8)), ONE_8x4, ROW_16x8),
    ("m16n8k8", "tf32"): (
        (((4, 8), (2, 2)), ((16, 1), (8, 64))),
        (((4, 8), 2), ((8, 1), 32)),
        ROW_16x8,
    ),
    ("m8n8k4", "fp64"): (ONE_8x4, ONE_8x4, ROW_8x8),
    ("m8n8k16", "int8"): (ROW_8x16, ROW_8x16, ROW_8x8),
    ("m16n8k16", "int8"): ((((4, 8), (4, 2)), ((64, 1), (16, 8))), ROW_8x16, ROW_16x8),
    ("m16n8k32", "int8"): (
        (((4, 8), (4, 2, 2)), ((64, 1), (16, 8, 256))),
        (((4, 8), (4, 2)), ((32, 1), (8, 128))),
        ROW_16x8,
    ),
}


@pytest.mark.parametrize(("name", "dtype"), CUTE)
@pytest.mark.parametrize("operand", OPERANDS)
def test_fragments_are_cutlass_layouts(name: str, dtype: str, operand: str) -> None:
    held = simt.fragment(name, operand, dtype=dtype)
    layout = CUTE[name, dtype][OPERANDS.index(operand)]
    rows, columns = (held.columns, held.rows) if operand == "b" else (held.rows, held.columns)
    height = held.width if operand == "b" else held.height
    for lane, element in np.ndindex(held.rows.shape):
        index = cute(layout[0], layout[1], lane + 32 * element)
        assert [rows[lane, element], columns[lane, element]] == [index % height, index // height]


def test_voltas_fragments_are_cutlass_layouts() -> None:
    quad_pair = ((4, 2), (1, 16))  # logical thread of a product to lane
    sums = (((2, 2, 2), (2, 2, 2)), ((1, 16, 4), (8, 2, 32)))
    a, c = simt.fragment("m8n8k4", "a"), simt.fragment("m8n8k4", "c")
    half = simt.fragment("m8n8k4", "c", accumulator="fp16")
    for thread in range(8):
        lane = cute(quad_pair[0], quad_pair[1], thread)
        assert c.computation[lane] == 0 and (a.rows[lane] == thread).all()
        for value in range(8):
            index = cute(sums[0], sums[1], thread + 8 * value)
            assert [c.rows[lane, value], c.columns[lane, value]] == [index % 8, index // 8]
            assert [half.rows[lane, value], half.columns[lane, value]] == [thread, value]
    assert half.registers == 4 and c.registers == 8


@pytest.mark.parametrize(
    "fault",
    ["group and thread", "upper rows first", "k of the second half", "Volta's quad pairs"],
)
def test_the_checks_see_a_wrong_fragment(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, operand = "m16n8k16", "a"
    if fault == "group and thread":
        monkeypatch.setattr(shapes, "_GROUP", np.arange(32) % 8)
        monkeypatch.setattr(shapes, "_THREAD", np.arange(32) // 8)
    elif fault == "Volta's quad pairs":
        name = "m8n8k4"
        monkeypatch.setattr(shapes, "_THREAD", np.arange(32) // 4 % 4)
    else:
        right = shapes._turing

        def wrong(shape: simt.MmaShape, of: str, bits: int) -> Any:
            rows, columns, computation = right(shape, of, bits)
            if fault == "upper rows first":
                return (rows + 8) % 16, columns, computation
            return rows, np.where(np.arange(8) >= 4, columns - 4, columns), computation

        monkeypatch.setattr(shapes, "_turing", wrong)
    with pytest.raises(AssertionError):
        check_fragment(simt.fragment(name, operand))


# --- loads from shared memory ------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["plain", "padded", "swizzled"])
@pytest.mark.parametrize("operand", ["a", "b"])
@pytest.mark.parametrize(
    "shape",
    [s for s in SHAPES if staging.has_ldmatrix(s) and s.bits >= 8],
    ids=lambda s: f"{s.name}-{s.dtype}",
)
def test_ldmatrix_brings_the_fragment(shape: simt.MmaShape, operand: str, layout: str) -> None:
    """A tile of numbered elements, stored by the layout, loaded as PTX says ldmatrix loads."""
    size = shape.bits // 8
    row_bytes, row, first_byte = 128, 8, 32
    elements = row_bytes // size
    shared: dict[int, int] = {}
    outer = np.arange(32)[:, None]
    along = np.arange(elements)[None]
    where = staging.offsets(outer + 0 * along, along * size + 0 * outer, row_bytes, layout)
    for r, c in np.ndindex(where.shape):
        assert int(where[r, c]) not in shared  # no two elements in one place
        shared[int(where[r, c])] = 1000 * r + c
    rows, byte, wide, mask = staging.fragment_lanes(shape, operand, row, first_byte)
    assert wide == 16
    addresses = staging.offsets(rows, byte, row_bytes, layout)
    held = simt.fragment(shape, operand)
    matrices = mask.bit_count() // 8
    assert held.registers == matrices
    for lane in range(32):
        got = []
        for matrix in range(matrices):  # a lane gets four bytes of row lane // 4 of each matrix
            start = int(addresses[8 * matrix + lane // 4]) + 4 * (lane % 4)
            got += [shared[start + i * size] for i in range(4 // size)]
        rows_held, along_held = (held.rows, held.columns) if operand == "a" else (held.columns, held.rows)
        wanted = 1000 * (row + rows_held[lane]) + first_byte // size + along_held[lane]
        assert got == wanted.tolist()


@pytest.mark.parametrize("operand", ["a", "b"])
@pytest.mark.parametrize("row_bytes", [32, 64, 128, 256])
def test_conflicts_of_plain_tiles_and_none_of_swizzled_or_padded(row_bytes: int, operand: str) -> None:
    loads = {
        layout: simt.matrix_load("m16n8k16", operand, row_bytes=row_bytes, layout=layout)
        for layout in staging.LAYOUTS
    }
    matrices = 4 if operand == "a" else 2
    # Eight rows of 16 bytes fill the banks once; plain rows come back to the same banks every 128 bytes.
    assert loads["plain"].ways == min(8, 8 * row_bytes // 128)
    for layout in ("padded", "swizzled"):
        assert (loads[layout].ways, loads[layout].wavefronts) == (1, matrices)


def test_volta_loads_its_fragments_without_ldmatrix() -> None:
    load = simt.matrix_load("m8n8k4", "a", row_bytes=64)
    assert load.element_bytes == 8 and load.active_lanes == 32


# --- values ------------------------------------------------------------------------------------------------


def float32_of(exact: Fraction) -> np.float32:
    """The float32 nearest to a fraction, ties to even, found among neighbours."""
    guess = np.float32(float(exact))
    near = [np.nextafter(guess, np.float32(-np.inf)), guess, np.nextafter(guess, np.float32(np.inf))]
    best = min(near, key=lambda x: (abs(Fraction(float(x)) - exact), int(x.view(np.uint32)) & 1))
    return np.float32(best)


@pytest.mark.parametrize(("dtype", "spread"), [("fp16", 10), ("bf16", 25), ("tf32", 25), ("fp32", 20)])
@pytest.mark.parametrize("depth", [1, 4, 16])
def test_each_step_rounds_once(dtype: str, spread: int, depth: int) -> None:
    rng = np.random.default_rng(depth)
    a, b = (
        _values.rounded("a", np.ldexp(rng.normal(size=shape), rng.integers(-spread, 4, shape)), dtype)
        for shape in ((6, 32), (32, 6))
    )
    a[:, 1::2], b[1::2] = -a[:, ::2], b[::2] * (1 + 2.0**-7)  # sums that all but cancel
    b = _values.rounded("b", b, dtype)
    sums = _values.sums_of(a, b, dtype, depth)
    assert sums.dtype == np.float32
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    for i, j in np.ndindex(6, 6):
        total = np.float32(0)
        for step in range(32 // depth):
            part = range(step * depth, (step + 1) * depth)
            exact = Fraction(float(total)) + sum(
                Fraction(wide_a[i, k]) * Fraction(wide_b[k, j]) for k in part
            )
            total = float32_of(exact)
            assert sums[step, i, j] == total


def test_rounding_twice_would_be_seen() -> None:
    # 1 + 2**-24 lies halfway between two float32 values; what follows it decides, and float64 drops that.
    a, b = np.array([[1.0, 2.0**-24, 2.0**-60]]), np.ones((3, 1))
    a16, b16 = (_values.rounded("x", x, "bf16") for x in (a, b))
    assert _values.sums_of(a16, b16, "bf16", 3)[-1, 0, 0] == np.float32(1 + 2.0**-23)
    assert np.float32(float(a.sum())) == 1


def test_fp64_is_a_chain_of_fused_multiply_adds() -> None:
    a, b = normal(4, 30, 5)
    b[1::2] = -b[::2]
    sums = _values.sums_of(a, b, "fp64", 1)
    for i, j in np.ndindex(4, 5):
        total = 0.0
        for k in range(30):
            total = float(Fraction(a[i, k]) * Fraction(b[k, j]) + Fraction(total))
            assert sums[k, i, j] == total


def alternatives(a: NDArray[Any], b: NDArray[Any], depth: int) -> dict[str, NDArray[np.float32]]:
    """The same product in other orders and roundings that "at least single precision" allows."""
    left, right = a.astype(np.float32), b.astype(np.float32)
    one = np.zeros((a.shape[0], b.shape[1]), np.float32)
    pairs, back = one.copy(), one.copy()
    for start in range(0, a.shape[1], depth):
        products = left[:, start : start + depth, None] * right[None, start : start + depth]
        for k in range(products.shape[1]):
            one = one + products[:, k]
        back = back + products[:, ::-1].sum(axis=1, dtype=np.float32)
        tree = products
        while tree.shape[1] > 1:
            tree = tree[:, ::2] + tree[:, 1::2]
        pairs = pairs + tree[:, 0]
    return {"one after the other": one, "in pairs": pairs, "backwards": back}


def test_other_orders_of_summation_stay_near() -> None:
    a, b = (_values.rounded("x", x, "fp16") for x in normal(16, 64, 16))
    kernel = simt.tensor_kernel(a, b, tile=(16, 16, 32), warps=(1, 1))
    reach = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
    allowed = (64 + 64 // 16) * 2.0**-24 * 1.01 * reach  # a rounding for each product there, each step here
    for name, other in alternatives(a, b, 16).items():
        assert (np.abs(kernel.result - other) <= allowed).all(), name
        assert (np.abs(kernel.result - kernel.exact) <= kernel.bound).all()
    assert any((kernel.result != other).any() for other in alternatives(a, b, 16).values())


def test_integers_are_exact_and_wrap_around() -> None:
    a = RANDOM.integers(-128, 128, (20, 70)).astype(np.int8)
    b = RANDOM.integers(-128, 128, (70, 30)).astype(np.int8)
    kernel = simt.tensor_kernel(a, b)
    assert kernel.dtype == "int8" and kernel.result.dtype == np.int32
    assert (kernel.result == a.astype(np.int64) @ b.astype(np.int64)).all()
    total = _values._add_integers(np.array([[2**31 - 1]], np.int32), np.array([[1]]), np.array([[1]]))
    assert total.tolist() == [[-(2**31)]]


def test_operands_are_rounded_to_their_type() -> None:
    third = np.full((1, 1), 1 / 3)
    assert simt.tensor_kernel(third, third).a[0, 0] == np.float16(1 / 3)
    narrow = third.astype(ml_dtypes.bfloat16)
    assert simt.tensor_kernel(narrow, third).dtype == "bf16"
    tf32 = simt.tensor_kernel(third, third, dtype="tf32").a
    assert tf32[0, 0] == np.float32(round(1 / 3 * 2**12) / 2**12)  # 11 bits, the first worth a quarter
    assert _values.rounded("a", np.array([[1 + 2.0**-11]]), "tf32")[0, 0] == 1 + 2.0**-10  # halves go up


# --- kernels -----------------------------------------------------------------------------------------------


@st.composite
def kernels(draw: st.DrawFn) -> simt.TiledKernel:
    """A product of any architecture, type, tile, staging and padding that fits."""
    machine = draw(st.sampled_from(ARCHITECTURES))
    warps = draw(st.tuples(st.integers(1, 2), st.integers(1, 3)))
    units = draw(st.tuples(st.integers(1, 2), st.integers(1, 2)))
    has_async = machine in ("ampere", "hopper")
    copies = draw(st.sampled_from(["async", "through registers"] if has_async else ["through registers"]))
    stages = draw(st.integers(1, 4 if copies == "async" else 2))
    given: dict[str, Any] = {"architecture": machine, "copies": copies, "stages": stages, "warps": warps}
    given |= {
        "layout": draw(st.sampled_from(staging.LAYOUTS)),
        "load": draw(st.sampled_from(["LDG", "LDG.L1"])),
    }
    if draw(st.booleans()):
        shape = draw(st.sampled_from([s for s in simt.mma_shapes(machine) if s.dtype in _values.TYPES]))
        unit = shape.warp_m, shape.warp_n
        given |= {"dtype": shape.dtype, "shape": shape.name}
        make: Any = simt.tensor_kernel
    else:
        unit = 4, 8
        given["dtype"] = draw(st.sampled_from(["fp16", "bf16", "fp32"]))
        make = simt.ffma_kernel
    tile = (warps[0] * units[0] * unit[0], warps[1] * units[1] * unit[1], draw(st.sampled_from([32, 64])))
    m, n = draw(st.integers(1, 2 * tile[0])), draw(st.integers(1, tile[1]))
    k = draw(st.integers(1, 128))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    a, b = rng.integers(-9, 10, (m, k)), rng.integers(-9, 10, (k, n))
    kernel: simt.TiledKernel = make(a, b, tile=tile, **given)
    return kernel


@settings(max_examples=30, deadline=None)
@given(kernels(), st.sampled_from(["lrr", "gto", "gty", "oldest", "two_level"]), st.integers(1, 4))
def test_every_run_keeps_the_laws(kernel: simt.TiledKernel, policy: str, schedulers: int) -> None:
    trace = kernel.simulate(policy=policy, schedulers=schedulers)
    report = trace.verify()
    assert report.passed, report
    assert (kernel.result == kernel.a.astype(np.int64) @ kernel.b.astype(np.int64)).all()
    check_views(trace)


def check_views(trace: simt.TiledTrace) -> None:
    """What a scene shows is what the warps did, read from the states cycle by cycle."""
    kernel, warp = trace.kernel, trace.warp
    rows, columns, depth = kernel.unit_shape
    found = []
    for t in range(trace.cycles):
        for s, w in enumerate(warp.issued[t].tolist()):
            if w < 0:
                continue
            pc = int(warp.pc[t, w])
            kind, _, _, row, column, step = kernel.roles[w][pc].tolist()
            assert (simt.ROLES[kind] == "multiply") == (
                warp.programs[w][pc].text.split()[0] == kernel.operation
            )
            if simt.ROLES[kind] == "multiply":
                i = warp.programs[w][pc]
                found.append([t, s, w, pc, row, column, step, t + i.interval, t + i.latency])
    assert trace.work.tolist() == found
    held = np.full(trace.unit.shape, -1)
    for number, (cycle, s, *_, free, _done) in enumerate(found):
        assert (held[cycle:free, s] == -1).all()  # no unit takes two at once
        held[cycle:free, s] = number
    assert (trace.unit == held).all()
    for block, stage, tile, *times in trace.fills.tolist():
        assert times == sorted(times)
        copy, landed, ready, read, release, end = times
        spans = (
            (copy, landed, 1),
            (landed, ready, 2),
            (ready, read, 3),
            (read, release, 4),
            (release, end, 0),
        )
        for start, stop, state in spans:
            assert (trace.stages[start:stop, block, stage] == state).all()
        assert (trace.stage_tile[copy:release, block, stage] == tile).all()
        assert (trace.stage_tile[release:end, block, stage] == -1).all()
    m, n = kernel.result.shape
    assert (trace.sums_at(trace.cycles)[:m, :n] == trace.result).all()
    assert not trace.sums_at(0).any() and not trace.progress_at(0).any()
    middle = trace.cycles // 2
    progress, sums = trace.progress_at(middle), trace.sums_at(middle)
    made = np.zeros_like(progress)
    for _, _, _, _, row, column, _, _, done in found:
        made[row // rows, column // columns] += done <= middle
    assert (progress == made).all()
    for i, j in np.ndindex(progress.shape):
        k, top, left = (
            progress[i, j] * depth,
            slice(i * rows, (i + 1) * rows),
            slice(j * columns, (j + 1) * columns),
        )
        exact = kernel.a[top, :k].astype(np.int64) @ kernel.b[:k, left].astype(np.int64)
        assert (sums[top, left][: exact.shape[0], : exact.shape[1]] == exact).all()


@pytest.mark.parametrize("make", [simt.tensor_kernel, simt.ffma_kernel])
@pytest.mark.parametrize(("copies", "stages"), [("async", 3), ("through registers", 2), ("async", 1)])
def test_the_naive_stepper_issues_the_same(make: Any, copies: str, stages: int) -> None:
    kernel = make(*normal(16, 48, 20), copies=copies, stages=stages, tile=(16, 16, 16), warps=(1, 2))
    trace = kernel.simulate(policy="gto")
    naive = step_through(kernel.programs, 4, "gto", blocks=kernel.blocks)
    assert naive.cycles == trace.cycles
    assert naive.issued == trace.warp.issued.tolist()


def test_one_mma_is_2048_multiply_adds_in_one_issue_and_an_ffma_32() -> None:
    a, b = normal(64, 128, 64)
    tensor, lanes = (
        make(a, b, tile=(64, 64, 32)).simulate() for make in (simt.tensor_kernel, simt.ffma_kernel)
    )
    for trace, each in ((tensor, 2048), (lanes, 32)):
        counts = trace.counts
        assert counts.multiply_adds_per_multiply == each
        assert counts.multiplies == 64 * 128 * 64 // each == len(trace.work)
        assert counts.instructions == trace.warp.issue_count == int((trace.warp.issued >= 0).sum())
        assert counts.multiply_adds_per_instruction == 64 * 128 * 64 / counts.instructions
        assert counts.utilization == (trace.unit >= 0).mean()
        assert counts.peak == pytest.approx(counts.utilization)  # nothing is padded here
        books = ledger.warp(trace.warp).at(-1)
        assert books["issued"] == counts.instructions
        assert books["slots"] == 4 * trace.cycles
    assert tensor.counts.cycles * 3 < lanes.counts.cycles
    assert tensor.counts.instructions * 20 < lanes.counts.instructions


def test_counts_of_a_small_product_by_hand() -> None:
    # One block, one warp, two tiles of depth 16: 16 x 8 of C by one mma a tile.
    kernel = simt.tensor_kernel(*normal(16, 32, 8), tile=(16, 8, 16), warps=(1, 1), stages=2)
    words = [i.mnemonic for i in kernel.programs[0]]
    copy = ["LDGSTS.128"] * 2 + [
        "LDGDEPBAR"
    ]  # 16 rows of 32 bytes are one instruction, 8 columns half of one
    tile = ["LDSM.16.M88.4", "LDSM.16.M88.2", "HMMA.16816"]
    assert words == [*copy, "DEPBAR.LE", "BAR", *copy, *tile, "DEPBAR.LE", "BAR", *tile, "STG.64", "STG.64"]
    assert [i.lanes for i in kernel.programs[0][:2]] == [32, 16]
    counts = kernel.simulate().counts
    assert (counts.instructions, counts.multiplies, counts.copies, counts.loads) == (18, 2, 4, 4)
    assert counts.barriers == 2
    assert counts.shared_wavefronts == 2 * (4 + 2)
    assert counts.copied_bytes == 2 * (16 + 8) * 16 * 2
    assert kernel.stage_bytes == (16 + 8) * 32
    # An accumulator of four registers, twice (for the round ahead) a fragment of four and one of two.
    assert kernel.registers == 4 + 2 * (4 + 2)


def test_padding_is_told() -> None:
    kernel = simt.tensor_kernel(*normal(33, 40, 32))
    assert kernel.padded == (64, 64, 32)
    assert kernel.wasted == 1 - 33 * 40 * 32 / (64 * 64 * 32)
    trace = kernel.simulate()
    assert trace.counts.multiply_adds == 33 * 40 * 32
    assert trace.counts.peak < trace.counts.utilization


def test_more_stages_hide_more_of_the_copies() -> None:
    for sides, tile, warps in (((64, 256, 64), (64, 64, 32), (2, 2)), ((32, 128, 32), (32, 32, 32), (2, 2))):
        runs = [
            simt.tensor_kernel(*normal(*sides), tile=tile, warps=warps, stages=stages, load=load).simulate()
            for load in ("LDG", "LDG.L2")
            for stages in (1, 2, 3, 4)
        ]
        cycles = [run.cycles for run in runs]
        assert cycles[:4] == sorted(cycles[:4], reverse=True) and len(set(cycles[:4])) == 4
        assert cycles[4:] == sorted(cycles[4:], reverse=True)


def test_more_stages_are_not_always_faster() -> None:
    # No law: with four blocks, an early copy can take the memory unit from a load that is waited for.
    a, b = normal(40, 100, 50)
    cycles = [
        simt.tensor_kernel(a, b, tile=(32, 32, 16), warps=(1, 2), stages=stages).simulate().cycles
        for stages in (4, 5)
    ]
    assert cycles[1] > cycles[0]


@pytest.mark.parametrize(
    ("name", "operation"),
    [("volta", "HMMA.884"), ("turing", "HMMA.1688"), ("ampere", "HMMA.16816"), ("hopper", "HMMA.16816")],
)
def test_littles_law_tells_how_many_sums_keep_a_tensor_core_busy(name: str, operation: str) -> None:
    known = simt.architecture(name).operations[operation]
    program = simt.chain(30, architecture=name, operation=operation)
    enough = simt.littles_law_warps(known.latency, 1, known.interval)

    def between_issues(warps: int) -> float:
        trace = simt.simulate([program] * warps, schedulers=1)
        return (trace.cycles - known.latency) / (trace.issue_count - 1)

    assert between_issues(enough) == known.interval < between_issues(enough - 1)


def test_conflicts_cost_cycles() -> None:
    cycles = {
        layout: simt.tensor_kernel(*normal(64, 128, 64), tile=(64, 64, 64), layout=layout).simulate().cycles
        for layout in staging.LAYOUTS
    }
    assert cycles["plain"] > 1.5 * cycles["swizzled"]
    assert cycles["padded"] < cycles["plain"]


# --- planted faults ----------------------------------------------------------------------------------------


def edited(kernel: simt.TiledKernel, keep: Callable[[int, NDArray[np.int64]], list[int]]) -> simt.TiledKernel:
    """The kernel with its instructions in another order, some left out or twice, as `keep` lists them."""
    programs, roles = [], []
    for w, (program, role) in enumerate(zip(kernel.programs, kernel.roles, strict=True)):
        order = keep(w, role)
        programs.append(tuple(program[pc] for pc in order))
        roles.append(role[order])
    return dataclasses.replace(kernel, programs=tuple(programs), roles=tuple(roles))


def without(kind: str, number: int = 0) -> Callable[[int, NDArray[np.int64]], list[int]]:
    def keep(w: int, role: NDArray[np.int64]) -> list[int]:
        gone = int(np.flatnonzero(role[:, 0] == simt.ROLES.index(kind))[number])
        return [pc for pc in range(len(role)) if pc != gone]

    return keep


def twice(w: int, role: NDArray[np.int64]) -> list[int]:
    pc = int(np.flatnonzero(role[:, 0] == simt.ROLES.index("multiply"))[3])
    return [*range(pc + 1), *range(pc, len(role))]


def early_loads(w: int, role: NDArray[np.int64]) -> list[int]:
    """Loads of the second tile before its barrier."""
    order = list(range(len(role)))
    bar = int(np.flatnonzero(role[:, 0] == simt.ROLES.index("barrier"))[1])
    order.insert(bar + len(role) - bar - 1, order.pop(bar))
    return order


FAULTS: dict[str, tuple[Callable[[int, NDArray[np.int64]], list[int]], str]] = {
    "a wait dropped": (without("wait"), "reads"),
    "a barrier dropped": (without("barrier", 1), "reads"),
    "a barrier late": (early_loads, "reads"),
    "an mma twice": (twice, "multiply-adds"),
    "an mma dropped": (without("multiply", 2), "multiply-adds"),
    "a load of A dropped": (without("load a", 2), "fragments"),
    "a load of B dropped": (without("load b", 3), "fragments"),
}


def faulty_kernel(**changes: Any) -> simt.TiledKernel:
    return simt.tensor_kernel(*normal(32, 160, 32), **{"stages": 3, "load": "LDG.L2", **changes})


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str) -> None:
    keep, check = FAULTS[fault]
    kernel = faulty_kernel()
    assert kernel.simulate().verify().passed
    report = edited(kernel, keep).simulate().verify()
    assert check in {one.name for one in report.checks if not one.passed}, report


def test_a_stage_reused_one_step_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = _programs._Writer._async

    def early(self: Any, tiles: int) -> None:
        stages = self.plan.stages
        for tile in range(min(stages, tiles)):
            self._copy_async(tile)
        for tile in range(tiles):
            self._wait(tile, newer=0)
            self._barrier(_programs.BARRIER, tile)
            if tile + stages < tiles:  # into the stage that is about to be read
                self._copy_async(tile + stages)
            self._multiply(tile)

    monkeypatch.setattr(_programs._Writer, "_async", early)
    report = faulty_kernel(load="LDG.L1").simulate().verify()
    monkeypatch.setattr(_programs._Writer, "_async", right)
    found = {one.name for one in report.checks if not one.passed}
    assert {"reads", "overwrites"} & found, report


def moved(trace: simt.TiledTrace, role: str, by: int) -> simt.TiledTrace:
    """The trace with one instruction of warp 0 issued earlier, as a faulty scheduler might."""
    kernel, warp = trace.kernel, trace.warp
    pc = int(np.flatnonzero(kernel.roles[0][:, 0] == simt.ROLES.index(role))[1])
    cycle = int(np.flatnonzero(warp.state[:, 0] == simt.STATES.index("issues"))[pc])
    state = warp.state.copy()
    assert state[cycle - by, 0] != simt.STATES.index("issues")
    state[[cycle, cycle - by], 0] = state[[cycle - by, cycle], 0]
    return dataclasses.replace(trace, warp=dataclasses.replace(warp, state=state))


def test_a_unit_taken_before_its_interval_is_found() -> None:
    trace = faulty_kernel().simulate()
    report = moved(trace, "multiply", 1).verify()
    assert "units" in {one.name for one in report.checks if not one.passed}


def test_an_operand_read_early_is_found() -> None:
    trace = faulty_kernel().simulate()
    assert trace.verify().passed
    first = int(np.flatnonzero(trace.kernel.roles[0][:, 0] == simt.ROLES.index("multiply"))[0])
    issues = np.flatnonzero(trace.warp.state[:, 0] == simt.STATES.index("issues"))
    assert issues[first] - issues[first - 1] > 1
    state = trace.warp.state.copy()
    state[issues[first], 0] = simt.STATES.index("memory")
    state[issues[first] - 1, 0] = simt.STATES.index("issues")
    wrong = dataclasses.replace(trace, warp=dataclasses.replace(trace.warp, state=state))
    assert "registers" in {one.name for one in wrong.verify().checks if not one.passed}


def test_a_wrong_result_is_found() -> None:
    trace = faulty_kernel().simulate()
    result = trace.result.copy()
    result[3, 5] += 1e-3
    wrong = dataclasses.replace(trace, kernel=dataclasses.replace(trace.kernel, result=result))
    assert [one.name for one in wrong.verify().checks if not one.passed] == ["result"]


def test_the_views_see_a_shifted_row_of_work() -> None:
    trace = faulty_kernel().simulate()
    work = trace.work.copy()
    work[7, [0, 7]] += 1
    with pytest.raises(AssertionError):
        check_views(dataclasses.replace(trace, work=work))
    fills = trace.fills.copy()
    fills[1, 5] -= 1
    shifted = dataclasses.replace(trace, fills=fills)
    assert (shifted.stages != trace.stages).any()


# --- the rest ----------------------------------------------------------------------------------------------


def test_arrays_are_read_only_and_own() -> None:
    a, b = (x.astype(np.float16) for x in normal(16, 32, 8))
    kernel = simt.tensor_kernel(a, b, tile=(16, 8, 16), warps=(1, 1))
    before = kernel.a.copy()
    a[0, 0] = 99
    assert (kernel.a == before).all()
    trace = kernel.simulate()
    for array in (
        kernel.a,
        kernel.sums,
        kernel.result,
        kernel.origins,
        *kernel.roles,
        trace.work,
        trace.fills,
    ):
        assert not array.flags.writeable
    assert not trace.unit.flags.writeable and not trace.stages.flags.writeable
    assert simt.tensor_kernel(a[:, :16], b[:16], tile=(16, 8, 16), warps=(1, 1)).tiles == 1


def test_reprs() -> None:
    kernel = simt.ffma_kernel(np.ones((4, 4)), np.ones((4, 4)), architecture="volta")
    assert repr(kernel) == (
        "TiledKernel(FFMA of fp16, 4x4 @ 4x4 on Volta: 1 block, 4 warps, 2 stages, copies through registers)"
    )
    trace = kernel.simulate()
    assert repr(trace).startswith("TiledTrace(FFMA, 4x4 @ 4x4: 1024 multiplications in ")
    assert repr(trace.counts).startswith("TiledCounts(")
    assert trace.counts.as_dict()["multiplies"] == 1024


ONES = np.ones((32, 32))


def zeros(m: int, k: int, n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return np.zeros((m, k)), np.zeros((k, n))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: simt.fragment("m16n8k7", "a"), "Unknown shape of fp16 'm16n8k7'.*m16n8k16"),
        (lambda: simt.fragment("m16n8k16", "d"), "Unknown operand 'd'"),
        (lambda: simt.fragment("m16n8k16", "a", dtype="fp12"), "Unknown dtype 'fp12'"),
        (lambda: simt.fragment("m16n8k16", "c", accumulator="fp64"), "Unknown accumulator 'fp64'"),
        (lambda: simt.fragment("m16n8k16", "a", accumulator="int32"), "Unknown accumulator 'int32'"),
        (lambda: simt.fragment("m16n8k16", "a").lane_of(16, 0), "row is 16.*at most 15"),
        (lambda: simt.fragment("m16n8k16", "a").lane_of(0, 0, 1), "computation is 1.*at most 0"),
        (lambda: simt.mma_shapes("amper"), "Did you mean 'ampere'"),
        (lambda: simt.matrix_load("m16n8k16", "c", row_bytes=64), "Unknown operand 'c'"),
        (lambda: simt.matrix_load("m16n8k16", "a", row_bytes=24), "takes 32 bytes of a row"),
        (lambda: simt.matrix_load("m16n8k16", "a", row_bytes=40), "has 40 bytes.*multiple of 16"),
        (lambda: simt.matrix_load("m16n8k16", "a", row_bytes=48), "needs a power of two.*padded"),
        (lambda: simt.matrix_load("m16n8k16", "a", row_bytes=64, layout="swizle"), "mean 'swizzled'"),
        (lambda: simt.tensor_kernel(ONES, ONES[:3]), "a has shape"),
        (lambda: simt.tensor_kernel(1e9 * ONES, ONES), r"a\[0, 0\] is 1000000000.0, but fp16.*infinity"),
        (lambda: simt.tensor_kernel(1.5 * ONES, ONES, dtype="int8"), "is 1.5, but int8.*-128 to 127"),
        (lambda: simt.tensor_kernel(ONES, ONES, dtype="fp32"), "Unknown dtype 'fp32'"),
        (lambda: simt.tensor_kernel(ONES, ONES, architecture="volta", dtype="bf16"), "Unknown dtype 'bf16'"),
        (lambda: simt.tensor_kernel(ONES, ONES, architecture="qv100_accelsim"), "no sourced times"),
        (lambda: simt.tensor_kernel(ONES, ONES, shape="m16n8k32"), "shape of fp16 on Ampere 'm16n8k32'"),
        (lambda: simt.tensor_kernel(ONES, ONES, tile=(24, 32, 32)), r"tile\[0\] is 24.*multiple of 32"),
        (lambda: simt.tensor_kernel(ONES, ONES, tile=(32, 20, 32)), r"tile\[1\] is 20.*multiple of 16"),
        (lambda: simt.tensor_kernel(ONES, ONES, tile=(32, 32, 24)), r"tile\[2\] is 24.*multiple of 16"),
        (lambda: simt.tensor_kernel(ONES, ONES, tile=(32, 32)), "three numbers"),
        (lambda: simt.tensor_kernel(ONES, ONES, tile=(32, 32, 48)), "96 bytes, but 'swizzled'"),
        (lambda: simt.tensor_kernel(ONES, ONES, stages=0), "stages is 0"),
        (lambda: simt.tensor_kernel(ONES, ONES, stages=3, copies="through registers"), "at most 2"),
        (lambda: simt.tensor_kernel(ONES, ONES, copies="sync"), "Unknown copies 'sync'"),
        (lambda: simt.tensor_kernel(ONES, ONES, architecture="turing", copies="async"), "8.0.*through"),
        (lambda: simt.tensor_kernel(ONES, ONES, load="LDS"), "Unknown load 'LDS'"),
        (lambda: simt.tensor_kernel(*normal(1024, 8, 1024)), "1024 blocks.*one SM holds"),
        (lambda: simt.tensor_kernel(ONES, ONES, tile=(256, 256, 32), warps=(1, 1)), "registers a thread"),
        (lambda: simt.tensor_kernel(*zeros(64, 16400, 64), tile=(64, 64, 16), dtype="fp64"),
         "sums after each of 4100 steps"),
        (lambda: simt.ffma_kernel(*zeros(128, 4096, 128), tile=(128, 128, 32), warps=(4, 2)),
         "2097152 instructions FFMA"),
        (lambda: simt.ffma_kernel(ONES, ONES, architecture="hopper", dtype="int8"), "no sourced"),
        (lambda: simt.ffma_kernel(3e38 * ONES, ONES, dtype="fp32"), "beyond float32's"),
        (lambda: faulty_kernel().simulate().sums_at(-1), "t is -1"),
        (lambda: faulty_kernel().simulate().accumulator(10**6), "i is 1000000"),
    ],
)  # fmt: skip
def test_bad_input_gets_a_sentence(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        call()
