"""Timing for real on the CPU, and with fakes for what is not here."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pulsewarp import bench
from pulsewarp.bench import card, host
from pulsewarp.bench.live import _clock, _dtypes, _observe, errors, sweeps, timing
from pulsewarp.bench.measurement import Measurement
from pulsewarp.matmul import Matmul

jax: Any = pytest.importorskip("jax", reason="JAX is optional; without it nothing can be timed")

PRODUCT = Matmul(24, 40, 16, "fp32")


def compiled(function: Callable[..., Any], matmul: Matmul) -> str:
    a, b = timing._factors(jax, matmul, seed=0)
    return str(jax.jit(function).lower(a, b).compile().as_text())


def dots_executed(hlo: str) -> int:
    """Count the products that optimised HLO executes: dots (and calls into matrix libraries) times trips.

    Knows straight code and loops that count up from zero, which is all that a chain is made of.
    """
    bodies = dict(re.findall(r"^(?:ENTRY )?%?([\w.\-]+) \(.*?\) -> .*? \{\n(.*?)^\}", hlo, flags=re.S | re.M))
    entry = re.search(r"^ENTRY %?([\w.\-]+)", hlo, flags=re.M)
    assert entry is not None

    def count(name: str) -> int:
        total = 0
        for line in bodies[name].splitlines():
            if " while(" in line:
                # From zero up to the constant that the condition compares with.
                condition = re.search(r"condition=%?([\w.\-]+)", line)
                assert condition is not None
                trips = re.search(r"constant\((\d+)\)", bodies[condition.group(1)])
                body = re.search(r"body=%?([\w.\-]+)", line)
                assert trips is not None, f"a loop without a known number of trips: {line}"
                assert body is not None
                total += int(trips.group(1)) * count(body.group(1))
            elif re.search(r" dot\(|custom_call_target=\"[^\"]*(?:matmul|gemm|dot)", line):
                total += 1
            else:
                total += sum(count(called) for called in re.findall(r"(?:calls|to_apply)=%?([\w.\-]+)", line))
        return total

    return count(entry.group(1))


@pytest.mark.parametrize("length", [2, 3, 17, 1000])
@pytest.mark.parametrize(
    "matmul",
    [PRODUCT, Matmul(1, 64, 64, "fp32"), Matmul(64, 64, 1, "bf16"), Matmul(256, 256, 256, "int8")],
    ids=str,
)
def test_every_product_of_a_chain_stays_in_the_optimised_program(matmul: Matmul, length: int) -> None:
    assert dots_executed(compiled(timing.chain(jax, matmul, "highest", length), matmul)) == length


def faulty_chain(
    jax: ModuleType, matmul: Matmul, precision: str, length: int
) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Repeat the product without making the next one need it: what a naive loop does."""

    def run(a: Any, b: Any) -> tuple[Any, Any]:
        results = [timing.single(jax, matmul, precision)(a, b) for _ in range(length)]
        return a, results[-1]

    return run


def test_the_check_sees_a_chain_whose_products_do_not_need_each_other() -> None:
    assert dots_executed(compiled(faulty_chain(jax, PRODUCT, "highest", 5), PRODUCT)) < 5


def numpy_chain(a: Any, b: Any, length: int) -> tuple[Any, Any]:
    a, b = np.array(a, np.float64), np.array(b, np.float64)
    result = np.zeros((a.shape[0], b.shape[1]))
    for _ in range(length):
        a[0, 0] = np.clip(result[0, 0], -1, 1)
        result = a @ b
    return a, result


def test_a_chain_computes_what_the_same_steps_in_numpy_compute() -> None:
    matmul = Matmul(5, 3, 4, "fp32")
    a, b = timing._factors(jax, matmul, seed=3)
    a, b = a * np.float32(0.2), b * np.float32(0.2)  # small, so that the cut to [-1, 1] does not hide a step
    results = []
    for length in range(1, 7):
        left, result = timing.chain(jax, matmul, "highest", length)(a, b)
        expected_left, expected = numpy_chain(a, b, length)
        np.testing.assert_allclose(left, expected_left, rtol=1e-5)
        np.testing.assert_allclose(result, expected, rtol=1e-5)
        results.append(expected)
    assert all(np.abs(x - y).max() > 1e-9 for x, y in itertools.pairwise(results))


@pytest.mark.parametrize("precision", ["default", "high", "highest"])
@pytest.mark.parametrize("clock", ["device", "call"])
def test_the_precision_asked_for_is_the_one_in_the_program(precision: str, clock: str) -> None:
    with jax.default_matmul_precision("float32" if precision == "default" else "bfloat16"):
        run = bench.time_matmul(48, 48, 48, precision=precision, clock=clock, repeats=1)
    assert run.precision == precision
    assert run.precision_in_program == precision


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


@pytest.mark.parametrize(
    ("dtype", "stored", "worst"),
    [
        ("float32", "fp32", 2e-6),
        ("fp32", "fp32", 2e-6),
        ("bfloat16", "bf16", 6e-3),
        ("float16", "fp16", 1e-3),
        ("int8", "int8", 0.0),
    ],
)
@pytest.mark.parametrize("clock", ["device", "call"])
def test_a_product_is_right_and_its_error_told(dtype: str, stored: str, worst: float, clock: str) -> None:
    run = bench.time_matmul(96, 80, 72, dtype=dtype, clock=clock, precision="highest", repeats=2)
    assert run.matmul == Matmul(96, 80, 72, stored)
    assert 0 <= run.relative_error <= worst
    assert (run.error_rows, len(run.seconds), run.origin, run.clock) == (64, 2, "live", clock)
    assert run.compile_seconds > 0
    assert run.warmup_calls >= 1
    assert (run.products_per_repeat == 1) == (clock == "call")
    assert run.versions["jax"] == jax.__version__


def test_int8_on_a_cpu_is_marked() -> None:
    assert "not representative" in bench.time_matmul(8, 8, 8, dtype="int8", repeats=1).notes[0]


def test_the_smallest_product_is_measured() -> None:
    run = bench.time_matmul(1, 1, 1, repeats=1)
    assert run.products_per_repeat > 100
    assert run.relative_error < 1e-6


def test_repeats_left_out_end_with_the_budget() -> None:
    run = bench.time_matmul(32, 32, 32, budget_seconds=1e-9)
    assert len(run.seconds) == _clock.FEWEST_REPEATS


def test_a_long_budget_ends_with_the_most_repeats() -> None:
    run = bench.time_matmul(8, 8, 8, clock="call", budget_seconds=1e9)
    assert len(run.seconds) == _clock.MOST_REPEATS_BY_TIME


def test_a_wrong_result_shows_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    right = timing.single

    def off_by_a_little(*arguments: Any) -> Callable[[Any, Any], Any]:
        return lambda a, b: right(*arguments)(a, b) * 1.01

    monkeypatch.setattr(timing, "single", off_by_a_little)
    for clock in ("device", "call"):
        assert bench.time_matmul(32, 32, 32, clock=clock, repeats=1).relative_error == pytest.approx(
            0.01, rel=1e-3
        )


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
        ({"dtype": "float8_e4m3fn"}, "dtype='bfloat16'"),
        ({"dtype": "fp8"}, "dtype='bfloat16'"),
        ({"dtype": "int4"}, "dtype='int8'"),
        ({"precision": "hi"}, "Unknown precision 'hi'"),
        ({"clock": "wall"}, "Unknown clock 'wall'"),
        ({"repeats": 0}, "repeats is 0"),
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


def test_a_product_beyond_memory_names_need_limit_and_a_size_that_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen, here = bench.devices(), host.look()
    monkeypatch.setattr(timing, "devices", lambda: seen)  # what other programs hold changes between two looks
    monkeypatch.setattr(host, "look", lambda: here)
    with pytest.raises(
        MemoryError, match=r"needs about \d+\.\d GiB on this machine, but .* sides of about (\d+)"
    ) as e:
        bench.time_matmul(10**7, 10**7, 10**7)
    side = int(str(e.value).split()[-1].rstrip("."))
    timing._fits(Matmul(side, side, side, "fp32"), seen)


ACCELERATOR = card.describe(
    host.Host(python="3.13.15", cpu_model="Example CPU", cores=8),
    card.SeenJax("0.7.2", (card.SeenDevice("tpu", "TPU v5 lite", (0, 0, 0), 16 * 2**30, 15 * 2**30),)),
)


def test_an_accelerators_own_memory_is_the_limit() -> None:
    with pytest.raises(MemoryError, match=r"on the TPU v5 lite, but 1\.0 GiB are free"):
        timing._fits(Matmul(16384, 16384, 16384, "fp32"), ACCELERATOR)


class Exhausted:
    """A device that accepts a program and then has no memory for it."""

    def __call__(self, *_: object) -> None:
        raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 17179869184 bytes.")


def test_a_device_that_runs_out_of_memory_names_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "compile_for", lambda *_: (Exhausted(), 0.1, ""))
    with pytest.raises(MemoryError, match="ran out of memory at 8 x 9 x 10 in fp32; take smaller sizes"):
        bench.time_matmul(8, 9, 10)


def test_another_error_of_the_device_stays_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("INTERNAL: the device is on fire")

    monkeypatch.setattr(timing, "compile_for", broken)
    with pytest.raises(RuntimeError, match="on fire"):
        bench.time_matmul(8, 8, 8)


def test_a_backend_that_does_not_start_gives_a_card_and_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise RuntimeError("Unable to initialize backend 'tpu': ABORTED: in use")

    monkeypatch.setattr(jax, "local_devices", fails)
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    seen = bench.devices()
    assert seen.platform is None
    assert "could not start any device: Unable to initialize backend 'tpu': ABORTED: in use." in repr(seen)
    with pytest.raises(RuntimeError, match="could not start any device"):
        bench.time_matmul(8, 8, 8)


class FakeDevice:
    platform = "cuda"
    device_kind = "NVIDIA H100 80GB HBM3"

    def memory_stats(self) -> dict[str, int]:
        raise NotImplementedError("this backend does not tell")


def test_a_device_that_does_not_tell_its_memory_is_listed_all_the_same() -> None:
    assert _observe.see_device(FakeDevice()) == card.SeenDevice("gpu", "NVIDIA H100 80GB HBM3")


def test_the_real_card_is_this_cpu() -> None:
    seen = bench.devices()
    assert (seen.platform, seen.chip) == ("cpu", None)
    assert seen.versions["jax"] == jax.__version__
    assert seen.memory_free_bytes is None or seen.memory_free_bytes > 0


@pytest.fixture
def example() -> Measurement:
    return bench.time_matmul(8, 8, 8, repeats=1)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        ((1e-3,) * 5 + (2e-3,) * 5, "last third was 100% slower"),
        ((2e-3,) * 5 + (1e-3,) * 5, "last third was 50% faster"),
    ],
)
def test_a_run_that_drifts_says_so(seconds: tuple[float, ...], words: str) -> None:
    assert words in errors.remarks("fp32", "gpu", "x", 1e-7, seconds)[0]


def test_a_steady_run_needs_no_remark() -> None:
    assert errors.remarks("fp32", "gpu", "x", 1e-7, (1e-3, 1.01e-3) * 5) == ()


@pytest.mark.parametrize(
    ("bits", "like"), [(8, "bfloat16"), (11, "TF32"), (24, None)], ids=["bfloat16", "TF32", "float32"]
)
@pytest.mark.parametrize("size", [64, 1024])
def test_the_error_betrays_rounded_factors(bits: int, like: str | None, size: int) -> None:
    a, b = timing._factors(jax, Matmul(64, size, size, "fp32"), seed=1)

    def rounded(x: Any) -> Any:
        significand, exponent = np.frexp(x.astype(np.float64))
        return np.ldexp(np.round(significand * 2**bits) / 2**bits, exponent)

    result = (rounded(a) @ rounded(b)).astype(np.float32)
    error, _ = errors.relative_error(a, b, result, seed=0)
    found = errors.remarks("fp32", "tpu", "x", error, (1e-3,) * 3)
    assert (found == ()) if like is None else (f"rounded to {like} give" in found[0])


def test_the_error_of_zeros_is_not_nan() -> None:
    zero = np.zeros((3, 3))
    assert errors.relative_error(zero, zero, zero, seed=0) == (0.0, 3)


def test_error_rows_are_sampled_and_columns_all_compared() -> None:
    a, b = np.ones((100, 2)), np.ones((2, 600))
    result = a @ b
    result[:, 599] = 0  # in the last slice of columns
    error, rows = errors.relative_error(a, b, result, seed=0)
    assert rows == 64
    assert error == pytest.approx(np.sqrt(1 / 600))


def test_a_sweep_keeps_the_order_of_its_sizes() -> None:
    seen: list[Measurement] = []
    runs = bench.sweep([16, (4, 8, 2), [2, 2, 2]], repeats=1, progress=seen.append)
    assert [(run.matmul.m, run.matmul.k, run.matmul.n) for run in runs] == [
        (16, 16, 16),
        (4, 8, 2),
        (2, 2, 2),
    ]
    assert seen == runs


def test_an_interrupt_keeps_what_is_measured() -> None:
    def interrupt(run: Measurement) -> None:
        if run.matmul.m == 4:
            raise KeyboardInterrupt

    with pytest.warns(RuntimeWarning, match="Interrupted: 2 of 3 products were measured and are kept"):
        runs = bench.sweep([2, 4, 8], repeats=1, progress=interrupt)
    assert [run.matmul.m for run in runs] == [2, 4]


def test_a_spent_budget_keeps_what_is_measured() -> None:
    with pytest.warns(RuntimeWarning, match="with 1 of 3 products measured; raise budget_seconds"):
        runs = bench.sweep([2, 4, 8], repeats=1, budget_seconds=1e-9)
    assert [run.matmul.m for run in runs] == [2]


def test_a_size_beyond_memory_is_named_and_left_out() -> None:
    with pytest.warns(RuntimeWarning, match="Left out: Timing 10000000 x 8 x 10000000"):
        runs = bench.sweep([2, (10**7, 8, 10**7), 4], repeats=1)
    assert [run.matmul.m for run in runs] == [2, 4]


@pytest.mark.wrong_type
@pytest.mark.parametrize("size", [0, (1, 2), (1, 2, 3, 4), "8", (2, -1, 2)])
def test_a_bad_size_stops_a_sweep_before_anything_is_measured(size: Any) -> None:
    with pytest.raises(ValueError, match=r"[Aa] size is"):
        bench.sweep([4, size], progress=lambda run: pytest.fail("measured before the sizes were checked"))


def test_the_default_sizes_of_a_cpu_end_at_2048(
    monkeypatch: pytest.MonkeyPatch, example: Measurement
) -> None:
    monkeypatch.setattr(
        sweeps,
        "time_matmul",
        lambda m, k, n, **_: dataclasses.replace(example, matmul=Matmul(m, k, n, "fp32")),
    )
    assert [run.matmul.m for run in bench.sweep()] == [64, 128, 256, 512, 1024, 2048]
    assert max(bench.default_sizes("tpu")) == 8192
