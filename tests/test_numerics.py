"""Numbers as a matrix unit has them: parts that restore, passes that add up, errors within their bounds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from pulsewarp import _arrays, numerics, systolic
from pulsewarp.numerics import JAX_PRECISIONS, PRECISIONS, multiply, multiply_add, split

RANDOM = np.random.default_rng(0)
A = RANDOM.standard_normal((6, 40)).astype(np.float32)
B = RANDOM.standard_normal((40, 5)).astype(np.float32)

# Where three parts hold everything, and where bf16 does not yet round to infinity.
LEAST, MOST = 2.0**-110, float(ml_dtypes.finfo(ml_dtypes.bfloat16).max)
inside = st.floats(-MOST, MOST, width=32, allow_subnormal=False).filter(lambda x: x == 0 or abs(x) >= LEAST)
moderate = st.floats(-(2.0**40), 2.0**40, width=32)
names = st.sampled_from(list(JAX_PRECISIONS))


@st.composite
def operands(draw: st.DrawFn, elements: st.SearchStrategy[Any] = moderate) -> tuple[Any, Any]:
    m, k, n = draw(st.integers(1, 4)), draw(st.integers(1, 9)), draw(st.integers(1, 4))
    return tuple(draw(arrays.arrays(np.float32, side, elements=elements)) for side in ((m, k), (k, n)))


def exactly(x: Any) -> Fraction:
    return Fraction(float(x))


# --- splitting ---------------------------------------------------------------------------------------------


@given(inside)
def test_three_parts_restore_a_float32(x: float) -> None:
    parts = [exactly(part[0, 0]) for part in split([[x]])]
    assert sum(parts) == exactly(np.float32(x))


@given(moderate, st.integers(1, 3))
def test_each_part_is_a_bf16_value_and_leaves_less(x: float, parts: int) -> None:
    left = exactly(np.float32(x))
    for part in split([[x]], parts):
        assert part.dtype == np.float32 and part[0, 0] == part.astype(ml_dtypes.bfloat16)[0, 0]
        rest = left - exactly(part[0, 0])
        assert abs(rest) <= max(abs(left) * Fraction(1, 256), Fraction(1, 2**134))
        left = rest


def test_a_tie_goes_to_the_even_neighbour() -> None:
    """8 significant bits: 257 lies between 256 and 258, 259 between 258 and 260."""
    assert split([[257.0, 259.0, 256.0, 258.0]], 1)[0].tolist() == [[256.0, 260.0, 256.0, 258.0]]


def test_below_its_range_lo_is_lost_and_that_is_said() -> None:
    x = np.float32(2.0**-126 * (1 + 2.0**-23))
    assert sum(exactly(part[0, 0]) for part in split([[x]])) != exactly(x)
    assert "2**-110" in str(split.__doc__)


# --- products ----------------------------------------------------------------------------------------------


@given(operands(), st.sampled_from(list(PRECISIONS)))
def test_no_error_exceeds_its_bound(pair: tuple[Any, Any], name: str) -> None:
    a, b = pair
    if name == "int8":
        a, b = (np.clip(np.rint(x), -128, 127) for x in pair)
    assert multiply(a, b, name).within_bound


tiny = st.floats(-(2.0**-100), 2.0**-100, width=32)


@given(operands(tiny), names)
def test_bounds_hold_where_products_vanish(pair: tuple[Any, Any], name: str) -> None:
    assert multiply(*pair, name).within_bound


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("k", [1, 7, 300])
def test_more_passes_leave_less_error(seed: int, k: int) -> None:
    random = np.random.default_rng(seed)
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((8, k), (k, 8)))
    errors = [multiply(a, b, name).max_error for name in JAX_PRECISIONS]
    assert errors[0] > 30 * errors[1] > 30 * errors[2]
    plain = multiply(a, b, "float32").max_error
    assert errors[2] <= 2 * plain  # six passes: as good as float32 itself


def test_one_pass_takes_whole_numbers_up_to_256_as_they_are() -> None:
    whole = RANDOM.integers(-256, 257, (6, 6)).astype(np.float64)
    product = multiply(whole, whole, "default")
    assert product.max_error == 0 and product.result.tolist() == (whole @ whole).tolist()
    assert multiply([[257.0]], [[1.0]]).max_error == 1


def test_bf16_operands_lose_nothing_on_the_way_in() -> None:
    a, b = A.astype(ml_dtypes.bfloat16), B.astype(ml_dtypes.bfloat16)
    one, six = multiply(a, b, "default"), multiply(a, b, "highest")
    assert (one.a_parts[0] == a.astype(np.float32)).all()
    assert (one.result == six.result).all()  # mid and lo are zero


@given(operands(), names)
def test_passes_add_up_to_the_result(pair: tuple[Any, Any], name: str) -> None:
    product = multiply(*pair, name)
    total = product.passes[0].result
    for each in product.passes[1:]:
        total = total + each.result
    assert (total == product.result).all()
    assert len(product.passes) == {"default": 1, "high": 3, "highest": 6}[name]
    assert len({each.name for each in product.passes}) == len(product.passes)


@given(operands(), st.sampled_from(["ws", "os", "is"]))
def test_a_pass_is_what_the_array_makes_of_its_parts(pair: tuple[Any, Any], dataflow: str) -> None:
    """The same numbers as the simulator's, bit for bit: one pass is one product on the array."""
    a, b = (x.astype(ml_dtypes.bfloat16) for x in pair)
    run = systolic.simulate(a, b, rows=3, cols=2, dataflow=dataflow)
    assert (run.result == multiply(a, b, "default").result).all()


@given(operands(st.integers(-128, 127)))
def test_int8_is_exact(pair: tuple[Any, Any]) -> None:
    product = multiply(*pair, "int8")
    assert product.result.dtype == np.int32 and product.a.dtype == np.int8
    assert product.max_error == 0 and not product.bound.any()


@pytest.mark.exhaustive
def test_int32_sums_wrap_around() -> None:
    """2**17 products of 2**14 are 2**31, one more than int32 holds."""
    side = np.full((1, 2**17), -128)
    product = multiply(side, side.T, "int8")
    assert product.result.tolist() == [[-(2**31)]]
    assert product.max_error == 2**32 == product.bound[0, 0] and product.within_bound


@given(operands(), st.sampled_from(list(PRECISIONS)), st.data())
def test_terms_retell_the_result(pair: tuple[Any, Any], name: str, data: st.DataObject) -> None:
    a, b = (np.clip(np.rint(x), -128, 127) for x in pair) if name == "int8" else pair
    product = multiply(a, b, name)
    m, n = (data.draw(st.integers(0, side - 1)) for side in product.result.shape)
    terms = product.terms(m, n)
    assert [(term.number, term.k) for term in terms] == [
        (number, k) for number in range(1, len(product.passes) + 1) for k in range(product.a.shape[1])
    ]
    for each, number in zip(product.passes, range(1, 7), strict=False):
        last = [term for term in terms if term.number == number][-1]
        assert last.total == each.result[m, n]


def test_every_array_is_frozen() -> None:
    product = multiply(A, B, "highest")
    parts = [*product.a_parts, *product.b_parts, *(each.result for each in product.passes)]
    for array in (product.a, product.b, product.result, product.exact, product.bound, product.error, *parts):
        assert not array.flags.writeable and array.flags.c_contiguous


def test_reprs_are_short_and_the_same_everywhere() -> None:
    product = multiply([[1 / 3]], [[1 / 3]], "high")
    assert repr(product) == "Product(high, 1x1 by 1x1, 3 passes, largest error 1.3e-06, bound 5.1e-06)"
    assert repr(product.passes[0]) == "Pass(mid x hi, 1x1 by 1x1, float32)"
    assert "1 pass," in repr(multiply([[1]], [[1]]))


# --- one cell ----------------------------------------------------------------------------------------------

single = st.floats(-(2.0**60), 2.0**60, width=32).filter(lambda x: x == 0 or abs(x) > 2.0**-60)


@given(single, single, single)
def test_what_each_rounding_took_is_exact(x: float, y: float, earlier: float) -> None:
    step = multiply_add(*(np.float32(value) for value in (x, y, earlier)))
    product, total = np.float32(x) * np.float32(y), np.float32(earlier) + np.float32(x) * np.float32(y)
    assert step.product == product and step.total == total
    assert exactly(step.exact_product) == exactly(np.float32(x)) * exactly(np.float32(y))
    assert exactly(step.product_lost) == exactly(step.exact_product) - exactly(product)
    before = exactly(np.float32(earlier)) + exactly(product)
    assert exactly(step.total_lost) == before - exactly(total)
    assert float(step.exact_total) == float(before)  # the nearest that float64 holds


@given(st.integers(-128, 127), st.integers(-128, 127), st.integers(-(2**31), 2**31 - 1))
def test_an_integer_cell_loses_by_wrapping_only(x: int, y: int, earlier: int) -> None:
    step = multiply_add(np.int32(x), np.int32(y), np.int32(earlier))
    before = earlier + x * y
    assert int(step.exact_total) == before and step.product_lost == 0
    assert int(step.total) == (before + 2**31) % 2**32 - 2**31
    assert int(step.total_lost) == before - int(step.total)


def test_a_cell_may_be_many() -> None:
    step = multiply_add(A[:, 0], A[:, 1], np.float32(0))
    assert step.total.shape == (6,) and not step.total_lost.any()
    assert repr(step) == "MultiplyAdd(shape=(6,), accumulator=float32)"


# --- planted faults ----------------------------------------------------------------------------------------


def drop_a_cross_term(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three passes without mid x hi."""
    high = dataclasses.replace(PRECISIONS["high"], passes=((0, 1), (0, 0)))
    monkeypatch.setattr(numerics, "PRECISIONS", {**PRECISIONS, "high": high})


def cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bits cut off instead of rounded."""
    monkeypatch.setattr(
        numerics, "_round_to_bf16", lambda x: (x.view(np.uint32) & 0xFFFF0000).view(np.float32)
    )


def sum_in_bf16(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums kept in bf16 as well."""
    monkeypatch.setattr(numerics, "add_up", rounded_sums(_arrays.add_up))


def rounded_sums(honest: Callable[..., NDArray[Any]]) -> Callable[..., NDArray[Any]]:
    def rounded(a: NDArray[Any], b: NDArray[Any], accumulator: np.dtype[Any]) -> NDArray[Any]:
        total = honest(a, b, accumulator)
        return numerics._round_to_bf16(total) if total.dtype == np.float32 else total

    return rounded


@pytest.mark.parametrize("plant", [drop_a_cross_term, sum_in_bf16], ids=["cross term", "bf16 sums"])
def test_a_wrong_machine_breaks_its_bound(
    monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    assert multiply(A, B, "high").within_bound
    plant(monkeypatch)
    assert not multiply(A, B, "high").within_bound


def test_cutting_off_is_not_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest change doubles, and 259 no longer goes to 260: the laws above see both."""
    x = RANDOM.uniform(1, 2, (1, 999)).astype(np.float32)
    assert np.abs(split(x, 1)[0] - x).max() <= 2.0**-8
    cut_off(monkeypatch)
    assert np.abs(split(x, 1)[0] - x).max() > 2.0**-8
    assert split([[259.0]], 1)[0].tolist() == [[258.0]]
    assert not all(multiply([[v]], [[v]]).within_bound for v in (1.99218, 1.0078, 1.00779))


def test_a_bound_is_no_looser_than_ten_times_what_can_happen() -> None:
    """A bound that nothing reaches would catch nothing: values half way between two of bf16 come near."""
    tie, both = 1 + 2.0**-8, 1 + 2.0**-8 - 2.0**-17
    for name, worst in (("default", tie), ("high", tie), ("highest", both)):
        product = multiply([[worst]], [[worst]], name)
        assert product.max_error > product.bound[0, 0] / 10


# --- JAX ---------------------------------------------------------------------------------------------------


def jax_or_skip() -> Any:
    return pytest.importorskip("jax", reason="jax is optional; what it documents is checked where it is")


def test_jax_documents_the_passes() -> None:
    text = " ".join(str(jax_or_skip().lax.Precision.__doc__).split())
    if "On TPU" not in text:
        pytest.skip("this version of JAX documents its levels elsewhere")
    default, high, highest = (text.partition(f"{name}:")[2] for name in ("DEFAULT", "HIGH", "HIGHEST"))
    assert "performs float32 computations in bfloat16" in default.partition("HIGH:")[0]
    assert f"{len(PRECISIONS['high'].passes)} bfloat16 passes" in high.partition("HIGHEST:")[0]
    assert f"{len(PRECISIONS['highest'].passes)} bfloat16" in highest


def test_on_a_cpu_the_levels_change_nothing() -> None:
    jax = jax_or_skip()
    if jax.default_backend() != "cpu":
        pytest.skip("this JAX has another device")
    products = [np.asarray(jax.numpy.matmul(A, B, precision=name)) for name in JAX_PRECISIONS]
    assert all((product == products[0]).all() for product in products)
    assert np.abs(products[0] - multiply(A, B).exact).max() < multiply(A, B).max_error / 100


def program(jax: Any) -> str:
    return str(jax.make_jaxpr(lambda a, b: a @ b)(A, B))


def test_the_switch_changes_what_jax_asks_for() -> None:
    jax = jax_or_skip()
    assert "HIGHEST" not in program(jax)
    try:
        context = eval(numerics.JAX_SWITCH, {"jax": jax})
        context.__enter__()
    except ValueError:
        pytest.skip("this version of JAX knows the level in a context only by its older name, float32")
    try:
        assert "HIGHEST" in program(jax)
    finally:
        context.__exit__(None, None, None)
    assert "HIGHEST" not in program(jax)
    assert "HIGHEST" in str(jax.make_jaxpr(lambda a, b: jax.numpy.matmul(a, b, precision="highest"))(A, B))


@pytest.mark.parametrize("name", JAX_PRECISIONS)
def test_each_line_for_jax_is_one_it_takes(name: str) -> None:
    jax = jax_or_skip()
    before = jax.config.jax_default_matmul_precision
    try:
        exec(str(PRECISIONS[name].switch), {"jax": jax})
        assert name.upper() in program(jax)
    finally:
        jax.config.update("jax_default_matmul_precision", before)
    assert PRECISIONS["int8"].switch is None


@pytest.mark.parametrize("name", [name for name, each in PRECISIONS.items() if each.algorithm])
def test_xla_keeps_the_bound_of_the_algorithm_it_is_asked_for(name: str) -> None:
    """A CPU takes the name and may be more exact than it asks; never less."""
    jax = jax_or_skip()
    algorithm, lax = PRECISIONS[name].algorithm, jax.lax
    if not hasattr(lax, "DotAlgorithmPreset"):
        pytest.skip("this version of JAX has no names for algorithms yet")
    asked = lax.DotAlgorithmPreset[str(algorithm)]
    try:
        result = np.asarray(lax.dot(A, B, precision=asked, preferred_element_type=np.float32))
    except Exception as refusal:  # which class depends on the version of JAX
        pytest.skip(f"XLA refuses {algorithm} on this device: {refusal}")
    product = multiply(A, B, name)
    assert (np.abs(result - product.exact) <= product.bound).all()


# --- bad input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: multiply([[1.0]], [[1.0]], "hihg"), r"'hihg'.*Did you mean 'high'\?"),
        (lambda: multiply([[200]], [[1]], "int8"), r"a\[0, 0\] is 200.*-128 to 127.*scale"),
        (lambda: multiply([[1]], [[0.5]], "int8"), r"b\[0, 0\] is 0.5.*whole numbers"),
        (lambda: multiply([[1e39]], [[1.0]]), r"a\[0, 0\] is 1e\+39.*float32.*infinity.*scale"),
        (lambda: multiply([[3.4e38]], [[1e-9]]), r"a\[0, 0\] is 3.39+.*bf16.*infinity"),
        (lambda: multiply([[1e30]], [[1e30]]), r"can reach 1e\+60.*scale"),
        (lambda: multiply(np.ones((600, 600)), np.ones((600, 600))), r"216000000 multiply-adds.*134217728"),
        (lambda: split([[1.0]], 4), r"parts is 4.*at most 3"),
        (lambda: multiply(A, B).terms(6, 0), r"row is 6.*at most 5"),
        (lambda: multiply_add(np.float32(1), np.float64(1), np.float32(1)), r"float32, float64.*convert"),
    ],
)
def test_bad_input_gets_a_sentence(call: Callable[[], object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call()


def test_the_bound_is_a_number_for_every_precision() -> None:
    for name in PRECISIONS:
        product = multiply([[3, 0]], [[5], [0]], name)
        assert math.isfinite(product.bound[0, 0]) and product.relative_error == 0
    assert multiply([[0.0]], [[0.0]]).relative_error == 0
