"""Timing for real on the CPU: what the chain's compiled program holds, what it computes, what is refused."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pulsewarp import bench
from pulsewarp.bench import card, host
from pulsewarp.bench.live import _clock, _dtypes, _observe, _proof, timing
from pulsewarp.bench.live._dtypes import TIMED_DTYPES, catalogue_dtype
from pulsewarp.bench.live.timing import Work
from pulsewarp.matmul import Matmul

jax: Any = pytest.importorskip("jax", reason="JAX is optional; without it nothing can be timed")

LENGTH = 7
FORMS = [(batch, transposed) for batch in (1, 3) for transposed in ("", "a", "b", "ab")]
OTHER_FORMS = [(1, "b"), (3, "a")]


def work(
    dtype: str = "float32", batch: int = 1, transposed: str = "", sizes: tuple[int, int, int] = (24, 40, 16)
) -> Work:
    return Work(Matmul(*sizes, catalogue_dtype(dtype)), dtype, batch, transposed, "highest")


def nothing(of: Work) -> Any:
    """What the first link of a chain takes for the product before."""
    return np.zeros(of.result_shape, of.result_dtype(jax))


def compiled(function: Callable[..., Any], of: Work, donated: tuple[int, ...] = ()) -> str:
    """The optimised program of a chain, of which `time_matmul` donates what it changes."""
    arguments = (*timing._factors(jax, of, seed=0), nothing(of))
    return str(jax.jit(function, donate_argnums=donated).lower(*arguments).compile().as_text())


DONATED = {"a": (0, 2), "b": (1, 2), "ab": (0, 1, 2)}


def computations(hlo: str) -> dict[str, str]:
    return dict(re.findall(r"^(?:ENTRY )?%?([\w.\-]+) \(.*?\) -> .*? \{\n(.*?)^\}", hlo, flags=re.S | re.M))


PRODUCT = re.compile(
    r"= \w+\[([\d,]*)\]\S* (?:dot|convolution)\(|custom_call_target=\"[^\"]*(?:matmul|gemm|dot)"
)


def fault(hlo: str, of: Work, length: int) -> str | None:
    """Say what is wrong with a chain's optimised program, by a reader of its own; None when nothing is.

    Right is one product in the whole text, of the whole result, reached from the body of a loop that counts
    to `length`, and factors that this loop carries in the form in which they were given.
    """
    bodies = computations(hlo)
    loops = re.findall(r" while\(.*?condition=%?([\w.\-]+), body=%?([\w.\-]+)", hlo)
    if len(loops) != 1:
        return f"{len(loops)} loops"
    if not re.search(rf"constant\({length}\)", bodies[loops[0][0]]):
        return "another number of trips"
    reached, new = set[str](), {loops[0][1]}
    while new:
        reached |= new
        called = "\n".join(bodies[name] for name in new)
        new = set(re.findall(r"(?:calls|to_apply)=%?([\w.\-]+)", called)) - reached
    inside = [match for name in reached for match in PRODUCT.finditer(bodies[name])]
    everywhere = list(PRODUCT.finditer(hlo))
    if len(inside) != 1 or len(everywhere) != 1:
        return f"{len(inside)} of {len(everywhere)} products in the loop"
    made = np.prod([int(size) for size in (inside[0].group(1) or "0").split(",")])
    if made != of.batch * of.matmul.m * of.matmul.n:
        return f"a product of {made} elements"
    state = re.search(r" = \((.*)\) while\(", hlo)
    given = re.findall(r"= (\w+\[[\d,]*\]\{[^}]*\}) parameter\([01]\)", hlo.partition("ENTRY")[2])
    assert state is not None and len(given) == 2
    lost = [form for form in given if form not in state.group(1)]
    return f"prepared: {lost[0]}" if lost else None


def chosen(of: Work) -> str:
    """The chain that `time_matmul` takes: it writes into the smaller factor, or into both where it must."""
    text = compiled(timing.chain_of(jax, of, of.smaller, LENGTH), of, DONATED[of.smaller])
    if _proof.examine(text).changed:
        text = compiled(timing.chain_of(jax, of, "ab", LENGTH), of, DONATED["ab"])
    return text


def copied(text: str, of: Work) -> list[str]:
    """Whole factors and results that the program copies, before, in or after its loop."""
    sizes = [math.prod(shape) for shape in (*of.shapes, of.result_shape)]
    copies = re.findall(r"= \w+\[([\d,]+)\]\S* (?:copy|copy-start|broadcast)\(.*", text)
    return [each for each in copies if math.prod(map(int, each.split(","))) in sizes]


@pytest.mark.parametrize(
    ("dtype", "batch", "transposed"),
    [("float32", *form) for form in FORMS]
    + [(dtype, *form) for dtype in TIMED_DTYPES[1:5] for form in OTHER_FORMS]
    + [("float8_e5m2", 1, "")],
)
def test_one_whole_product_stands_in_the_loop_and_nothing_is_done_before_it(
    dtype: str, batch: int, transposed: str
) -> None:
    of = work(dtype, batch, transposed)
    text = chosen(of)
    assert fault(text, of, LENGTH) is None
    if dtype == "float32":  # a CPU may widen the others
        assert copied(text, of) == []  # a call takes over the arrays of the last one
    found = _proof.examine(text)  # what every measurement is checked with comes to the same
    assert (found.products, found.elements, found.changed) == (told(text, LENGTH), batch * 24 * 16, ())


def told(text: str, length: int) -> int | None:
    """Return what a program can tell of how often it loops: JAX 0.4.30 prints no such number."""
    return length if "known_trip_count" in text else None


@pytest.mark.parametrize("length", [2, 1000])
@pytest.mark.parametrize("sizes", [(1, 64, 64), (64, 64, 1), (256, 256, 256)], ids=str)
def test_thin_and_long_chains_keep_every_product(sizes: tuple[int, int, int], length: int) -> None:
    of = work(sizes=sizes)
    text = compiled(timing.chain_of(jax, of, of.smaller, length), of)
    found = _proof.examine(text)
    assert (found.products, found.elements) == (told(text, length), sizes[0] * sizes[2])


def loop(step: Callable[[Any, Any, Any], tuple[Any, Any, Any]], of: Work, length: int) -> Callable[..., Any]:
    def run(a: Any, b: Any, last: Any) -> Any:
        return jax.lax.fori_loop(0, length, lambda _, state: step(*state), (a, b, last))[2]

    return run


def without_dependence(of: Work, length: int) -> Callable[..., Any]:
    """Each product the same: the compiler makes it once."""
    multiply = timing.single_of(jax, of)
    return loop(lambda a, b, last: (a, b, multiply(a, b)), of, length)


def unrolled(of: Work, length: int) -> Callable[..., Any]:
    """What a naive loop of Python does."""
    multiply = timing.single_of(jax, of)
    return lambda a, b, _: [multiply(a, b) for _ in range(length)][-1]


def shrunk(of: Work, length: int) -> Callable[..., Any]:
    """What a compiler may make of products of which only one element is used."""
    multiply = timing.single_of(jax, of)

    def run(a: Any, b: Any, last: Any) -> Any:
        def step(_: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
            a, element = state
            a = jax.lax.dynamic_update_slice(a, jax.lax.clamp(-1.0, element, 1.0), (0, 0))
            return a, multiply(a[:1], b[:, :1])

        return jax.lax.fori_loop(0, length, step, (a, last[:1, :1]))

    return run


def result_dropped(of: Work, length: int) -> Callable[..., Any]:
    """Each step writes something, but nothing that the product gave."""
    multiply = timing.single_of(jax, of)

    def step(a: Any, b: Any, last: Any) -> tuple[Any, Any, Any]:
        multiply(a, b)
        a = jax.lax.dynamic_update_slice(a, jax.lax.slice(a, (1, 1), (2, 2)), (0, 0))
        return a, b, last + a[0, 0]

    return loop(step, of, length)


def one_too_many(of: Work, length: int) -> Callable[..., Any]:
    return timing.chain_of(jax, of, "a", length + 1)


@pytest.mark.parametrize("mutant", [without_dependence, unrolled, shrunk, result_dropped, one_too_many])
def test_the_check_sees_a_chain_that_lies(mutant: Callable[[Work, int], Callable[..., Any]]) -> None:
    of = work()
    text = compiled(mutant(of, LENGTH), of)
    assert fault(text, of, LENGTH) is not None
    found = _proof.examine(text)
    assert (found.products, found.elements, found.changed) != (LENGTH, 24 * 16, ())


def test_the_check_sees_a_factor_that_is_widened_once_before_the_loop() -> None:
    of = work("float16")
    text = compiled(timing.chain_of(jax, of, "a", LENGTH), of)
    if _proof.examine(text).multiplied == "f16":
        pytest.skip("this CPU multiplies float16 as it is, so nothing is widened")
    assert (fault(text, of, LENGTH) or "").startswith("prepared: f16[40,16]")
    assert _proof.examine(text).changed == ("f16[40,16]{1,0}",)


def test_the_check_sees_arrays_that_a_call_does_not_take_over() -> None:
    of = work()
    assert copied(compiled(timing.chain_of(jax, of, "b", LENGTH), of), of) == ["40,16", "24,16"]


def numpy_chain(of: Work, a: Any, b: Any, length: int, writes: str) -> tuple[Any, Any]:
    a, b = np.array(a, np.float64), np.array(b, np.float64)
    corner = np.zeros((*a.shape[:-2], 1, 1))
    result = corner
    for _ in range(length):
        corner = np.clip(result[..., :1, :1], -1, 1)
        for which, factor in (("a", a), ("b", b)):
            if which in writes:
                factor[..., :1, :1] = corner
        left = np.swapaxes(a, -1, -2) if "a" in of.transposed else a
        right = np.swapaxes(b, -1, -2) if "b" in of.transposed else b
        result = left @ right
    return corner, result


@pytest.mark.parametrize("writes", ["a", "b", "ab"])
@pytest.mark.parametrize(("batch", "transposed"), [(1, ""), (2, "a"), (1, "b"), (2, "ab")])
def test_a_chain_computes_what_the_same_steps_in_numpy_compute(
    batch: int, transposed: str, writes: str
) -> None:
    of = work("float32", batch, transposed, (5, 3, 4))
    # Small, so that the cut to [-1, 1] does not hide a step.
    a, b = (factor * np.float32(0.2) for factor in timing._factors(jax, of, seed=3))
    results = []
    for length in (1, 3):
        *written, result = jax.jit(timing.chain_of(jax, of, writes, length))(a, b, nothing(of))
        expected_corner, expected = numpy_chain(of, a, b, length, writes)
        given = {"a": a, "b": b}
        for which, factor in zip(writes, written, strict=True):
            given[which][..., :1, :1] = expected_corner
            np.testing.assert_allclose(factor, given[which], rtol=1e-5)  # and nothing else is written
        np.testing.assert_allclose(result, expected, rtol=1e-5)
        results.append(expected)
    assert all(np.abs(x - y).max() > 1e-9 for x, y in itertools.pairwise(results))


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains of a tenth of a millisecond: enough where no time is looked at."""
    monkeypatch.setattr(_clock, "CHAIN_SECONDS", 1e-4)
    monkeypatch.setattr(_clock, "DISPATCHES", 0)


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize(
    ("dtype", "batch", "transposed"),
    [("fp32", 1, ""), ("bfloat16", 1, "a"), ("float16", 3, "b"), ("int8", 1, "ab"), ("float32", 5, "ab")],
)
@pytest.mark.parametrize("clock", ["device", "call"])
def test_a_product_is_right_and_its_error_told(dtype: str, batch: int, transposed: str, clock: str) -> None:
    run = bench.time_matmul(
        40,
        24,
        32,
        dtype=dtype,
        batch=batch,
        transposed=transposed,
        clock=clock,
        precision="highest",
        repeats=2,
    )
    assert run.matmul == Matmul(40, 24, 32, catalogue_dtype(dtype))
    assert (run.stored, run.batch, run.transposed) == (_dtypes.stored_dtype(dtype), batch, transposed)
    assert run.error_bound is not None and 0 <= run.relative_error <= run.error_bound < 5e-3
    assert (run.relative_error > 0) == (dtype != "int8")
    assert (run.error_rows, len(run.seconds), run.origin, run.clock) == (
        min(64, 40 * batch),
        2,
        "live",
        clock,
    )
    assert run.compile_seconds > 0 and run.warmup_calls >= 1
    assert (run.products_per_repeat == 1) == (clock == "call")
    assert run.versions["jax"] == jax.__version__
    unread = clock == "device" and told(chosen(work()), LENGTH) is None
    assert any("could not be read" in note for note in run.notes) == unread
    assert not any(word in note for note in run.notes for word in ("program makes", "prepared"))


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("clock", ["device", "call"])
@pytest.mark.parametrize(("batch", "transposed"), [(1, ""), (3, "ab")])
def test_a_wrong_result_shows_in_the_error(
    monkeypatch: pytest.MonkeyPatch, clock: str, batch: int, transposed: str
) -> None:
    right = timing.single

    def off_by_a_little(*arguments: Any, **forms: Any) -> Callable[[Any, Any], Any]:
        return lambda a, b: right(*arguments, **forms)(a, b) * 1.01

    monkeypatch.setattr(timing, "single", off_by_a_little)
    run = bench.time_matmul(32, 16, 24, clock=clock, batch=batch, transposed=transposed, repeats=1)
    assert run.relative_error == pytest.approx(0.01, rel=1e-3)
    assert any("exceeds" in note for note in run.notes)


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("precision", ["default", "high", "highest"])
@pytest.mark.parametrize("clock", ["device", "call"])
def test_the_precision_asked_for_is_the_one_in_the_program(precision: str, clock: str) -> None:
    with jax.default_matmul_precision("float32" if precision == "default" else "bfloat16"):
        run = bench.time_matmul(48, 48, 48, precision=precision, clock=clock, repeats=1)
    assert run.precision == precision
    assert run.precision_in_program == precision


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize(
    ("setting", "taken"), [("float32", "highest"), ("tensorfloat32", "high"), ("bfloat16", "default")]
)
def test_without_a_precision_the_setting_is_read_and_pinned(setting: str, taken: str) -> None:
    with jax.default_matmul_precision(setting):
        assert bench.time_matmul(8, 8, 8, repeats=1).precision == taken


@pytest.mark.wrong_type  # a namespace in place of the module
def test_a_setting_that_is_no_plain_precision_is_refused() -> None:
    config = SimpleNamespace(jax_default_matmul_precision="BF16_BF16_F32")
    with pytest.raises(ValueError, match="'BF16_BF16_F32', which is none of default, high, highest"):
        _dtypes.precision_setting(SimpleNamespace(config=config))  # type: ignore[arg-type]  # as said


@pytest.mark.usefixtures("brief")
def test_int8_on_a_cpu_is_marked() -> None:
    assert "not representative" in bench.time_matmul(8, 8, 8, dtype="int8", repeats=1).notes[0]


def test_the_smallest_product_is_measured() -> None:
    run = bench.time_matmul(1, 1, 1, repeats=1)
    assert run.products_per_repeat > 100
    assert run.relative_error < 1e-6


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "fp8"])
def test_a_cpu_that_widens_8_bit_floats_first_is_told_to_have_none(dtype: str) -> None:
    with pytest.raises(
        ValueError, match=r"The cpu has no products of float8_e\w+: its compiler turns .* into b?f\d"
    ):
        bench.time_matmul(8, 8, 8, dtype=dtype)


@pytest.mark.wrong_type
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"m": 0}, "m is 0"),
        ({"k": -3}, "k is -3"),
        ({"n": 2.5}, "n is 2.5"),
        ({"m": True}, "m is True"),
        ({"dtype": "floot32"}, "Unknown dtype 'floot32'; use one of float32"),
        ({"dtype": "tf32"}, "not a type to store them in"),
        ({"dtype": "fp64"}, "float64"),
        ({"dtype": "float8_e4m3fnuz"}, "dtype='float8_e4m3fn'"),
        ({"dtype": "int4"}, "dtype='int8'"),
        ({"precision": "hi"}, "Unknown precision 'hi'"),
        ({"clock": "wall"}, "Unknown clock 'wall'"),
        ({"repeats": 0}, "repeats is 0"),
        ({"batch": 0}, "batch is 0"),
        ({"transposed": "c"}, "Unknown transposed 'c'; use one of '', a, b, ab"),
        ({"seed": -1}, "seed is -1"),
        ({"budget_seconds": float("nan")}, "budget_seconds is nan"),
        ({"budget_seconds": 0}, "budget_seconds is 0"),
        ({"dtype": "int8", "k": 200_000}, "may overflow beyond 133144"),
    ],
)
def test_what_cannot_be_timed_gets_one_sentence(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError) as caught:
        bench.time_matmul(**{"m": 8, "k": 8, "n": 8} | changes)
    assert words in str(caught.value)


def test_an_unknown_keyword_raises() -> None:
    with pytest.raises(TypeError, match="repeat"):
        bench.time_matmul(8, 8, 8, repeat=3)  # type: ignore[call-arg]  # wrong on purpose


@pytest.mark.parametrize("batch", [1, 8])
def test_a_product_beyond_memory_names_need_limit_and_a_size_that_fits(
    monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    seen, here = bench.devices(), host.look()
    monkeypatch.setattr(
        _observe, "devices", lambda: seen
    )  # what other programs hold changes between two looks
    monkeypatch.setattr(host, "look", lambda: here)
    with pytest.raises(
        MemoryError, match=r"needs about \d+\.\d GiB on this machine, but .* sides of about (\d+)"
    ) as e:
        bench.time_matmul(10**7, 10**7, 10**7, batch=batch)
    side = int(str(e.value).split()[-1].rstrip("."))
    timing._fits(Matmul(side, side, side, "fp32"), seen, batch)
    with pytest.raises(MemoryError):
        timing._fits(Matmul(2 * side, 2 * side, 2 * side, "fp32"), seen, batch)


ACCELERATOR = card.describe(
    host.Host(python="3.13.15", cpu_model="Example CPU", cores=8),
    card.SeenJax("0.7.2", (card.SeenDevice("tpu", "TPU v5 lite", (0, 0, 0), 16 * 2**30, 15 * 2**30),)),
)


def test_an_accelerators_own_memory_is_the_limit() -> None:
    with pytest.raises(MemoryError, match=r"on the TPU v5 lite, but 1\.0 GiB are free"):
        timing._fits(Matmul(16384, 16384, 16384, "fp32"), ACCELERATOR)


def test_a_backend_that_does_not_start_gives_a_card_and_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise RuntimeError("Unable to initialize backend 'tpu': ABORTED: in use")

    monkeypatch.setattr(jax, "local_devices", fails)
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    with pytest.raises(RuntimeError, match="could not start any device: Unable to initialize backend 'tpu'"):
        bench.time_matmul(8, 8, 8)


def test_a_compiled_program_cannot_be_compiled_again_while_it_is_timed() -> None:
    program, _, _ = _clock.compile_for(jax, lambda a, b: a + b, (np.ones(2), np.ones(2)))
    with pytest.raises((TypeError, ValueError)):
        program(np.ones(3), np.ones(3))
