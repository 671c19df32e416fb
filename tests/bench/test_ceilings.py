"""Bandwidth and ceilings of the device that is here, and of devices that are not, by fakes."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from pulsewarp import bench  # noqa: E402  # JAX is optional
from pulsewarp.bench.card import describe  # noqa: E402
from pulsewarp.bench.host import Host  # noqa: E402
from pulsewarp.bench.live import _observe, ceilings  # noqa: E402
from pulsewarp.bench.live.ceilings import OPERATIONS, copies_in_loop, loop  # noqa: E402
from pulsewarp.bench.seen import SeenDevice, SeenJax  # noqa: E402

MIB = 2**20
ONE = np.float32(1)


@pytest.mark.parametrize(("operation", "arrays"), [("copy", 2), ("triad", 3), ("update", 2)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_pass_counts_each_element_read_and_written_once(operation: str, arrays: int, dtype: str) -> None:
    run = bench.bandwidth(operation, dtype=dtype, array_bytes=MIB, repeats=2)
    width = {"float32": 4, "bfloat16": 2}[dtype]
    assert run.size * width >= MIB
    assert run.bytes_moved == arrays * width * run.size
    assert (run.name, run.clock, len(run.seconds)) == (operation, "device", 2)
    assert run.relative_error == 0.0 and run.is_exact_enough
    assert run.products_per_repeat >= 2
    assert run.bytes_per_second == pytest.approx(run.bytes_moved / run.median)


def compiled(operation: str, size: int) -> str:
    kind = OPERATIONS[operation]
    arrays = tuple(np.zeros(size, np.float32) for _ in range(kind.arrays))
    numbers = tuple(range(3, 3 + kind.arrays))
    program = jax.jit(loop(jax, kind), donate_argnums=numbers)
    return str(program.lower(np.int32(1), ONE, ONE, *arrays).compile().as_text())


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_compiled_loop_makes_each_pass_and_copies_no_array(operation: str) -> None:
    text = compiled(operation, 4096)
    assert text.count(" while(") == 1  # neither unrolled nor dropped: the number of passes is an argument
    assert not copies_in_loop(text, 4096)
    body = text.split("ENTRY", 1)[0]
    assert body.count("multiply(") >= 1


def test_a_planted_copy_in_the_loop_is_seen() -> None:
    text = compiled("update", 4096)
    planted = text.replace("ENTRY", "%body () {\n  %c = f32[4096]{0} copy(%a)\n}\nENTRY", 1)
    assert copies_in_loop(planted, 4096)
    assert "copies an array besides" in " ".join(ceilings._notes(MIB, None, planted, 4096))
    assert not copies_in_loop("ENTRY %main () {\n  %c = f32[4096]{0} copy(%a)\n}", 4096)


def test_every_pass_needs_the_one_before() -> None:
    c = np.float32([1.5, 0.5])
    (doubled,) = loop(jax, OPERATIONS["update"])(3, np.float32(2), np.float32(2), c)
    assert doubled.tolist() == [12.0, 4.0]
    a, _, _ = loop(jax, OPERATIONS["triad"])(2, np.float32(0), np.float32(9), 0 * c, c, c)
    assert a.tolist() == [
        1.5 + 1.5 * 1.5,
        0.5 + 1.5 * 0.5,
    ]  # the second factor is the first pass's first element
    a, _ = loop(jax, OPERATIONS["copy"])(3, np.float32(2), np.float32(9), 0 * c, c)
    assert a.tolist() == [1.5 * 4.5, 0.5 * 4.5]


def test_a_planted_fault_that_skips_the_writing_shows_as_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Skips(type(OPERATIONS["triad"])):  # type: ignore[misc]
        def step(self, scale: Any, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
            return (arrays[0] * scale, *arrays[1:])

    monkeypatch.setitem(OPERATIONS, "triad", Skips(arrays=3, passes=3, reads_twice=True))
    run = bench.bandwidth("triad", array_bytes=MIB, repeats=1)
    assert run.relative_error == 1.0 and not run.is_exact_enough


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"operation": "tried"}, "Did you mean 'triad'"),
        ({"dtype": "int8"}, "float32, bfloat16 or float16 alone"),
        ({"array_bytes": 1000}, "array_bytes is 1000"),
        ({"repeats": 0}, "repeats is 0"),
        ({"budget_seconds": 0}, "budget_seconds is 0"),
    ],
)
def test_bad_input_is_refused(words: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        bench.bandwidth(**words)


def card(platform: str = "cpu", kind: str = "cpu", free: int | None = None) -> Any:
    here = Host(python="3.13.15", cpu_model="Example CPU", cores=2, memory_bytes=free, memory_free_bytes=free)
    return describe(here, SeenJax("0.7.2", (SeenDevice(platform, kind, None, free, 0),)))


@pytest.mark.parametrize(
    ("seen", "cache", "expected"),
    [
        (card(free=64 * 2**30), 36 * MIB, 144 * MIB),
        (card(free=64 * 2**30), 8 * MIB, 64 * MIB),
        (card(free=64 * 2**30), 256 * MIB, 160 * MIB),  # a lesson has 1 GB
        (card(free=64 * 2**30), None, 128 * MIB),
        (card(free=1600 * MIB), 36 * MIB, 100 * MIB),
        (card(), 36 * MIB, 144 * MIB),
        (card("gpu", "NVIDIA H100 80GB HBM3", 60 * 2**30), 50 * MIB, 256 * MIB),
        (card("tpu", "TPU v4", 32 * 2**30), 128 * MIB, 512 * MIB),
    ],
)
def test_arrays_are_far_above_the_caches_where_memory_allows(
    seen: Any, cache: int | None, expected: int
) -> None:
    assert ceilings._array_bytes(seen, cache) == expected


def test_a_chip_of_the_catalogue_tells_its_own_cache() -> None:
    assert ceilings._cache_bytes(card("gpu", "NVIDIA H100 80GB HBM3")) == 50 * MIB
    assert ceilings._cache_bytes(card("gpu", "NVIDIA Imaginary 9000")) is None


def test_arrays_that_may_fit_the_cache_are_remarked() -> None:
    assert "may have stayed in the cache" in next(iter(ceilings._notes(100 * MIB, 36 * MIB, "", 1)))
    assert list(ceilings._notes(144 * MIB, 36 * MIB, "", 1)) == []
    assert list(ceilings._notes(MIB, None, "", 1)) == []


def test_what_does_not_fit_is_refused_before_anything_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_observe, "devices", lambda: card(free=2**30))
    monkeypatch.setattr(ceilings, "_time", lambda *_: pytest.fail("allocated"))
    with pytest.raises(MemoryError, match=r"need 3\.0 GiB, but 1\.0 GiB are free"):
        bench.bandwidth("triad", array_bytes=2**30)


def test_a_device_that_runs_out_of_memory_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 4294967296 bytes.")

    monkeypatch.setattr(ceilings, "_time", full)
    with pytest.raises(MemoryError, match="ran out of memory at 2 arrays of 1 MiB"):
        bench.bandwidth("copy", array_bytes=MIB)


# --- ceilings ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def product() -> Any:
    return bench.time_matmul(16, 16, 16, repeats=1)


@pytest.fixture(scope="module")
def passes() -> Any:
    return bench.bandwidth("copy", array_bytes=MIB, repeats=1)


class Bench:
    """A device with a rate of its own for each side, and a clock that only its products move."""

    def __init__(self, product: Any, rates: dict[int, float], memory: int = 10**9) -> None:
        self._product, self._rates, self._memory = product, rates, memory
        self.now, self.sides = 0.0, []

    def time_matmul(self, m: int, k: int, n: int, **given: Any) -> Any:
        if m > self._memory:
            raise MemoryError("too large")
        self.sides.append(m)
        seconds = 2 * m**3 / self._rates[m]
        self.now += 10 * seconds
        matmul = dataclasses.replace(self._product.matmul, m=m, k=m, n=m)
        return dataclasses.replace(
            self._product, matmul=matmul, seconds=(seconds,), compile_seconds=0.0, notes=()
        )


RATES = {256: 1e9, 512: 4e9, 1024: 3e9, 2048: 5e9}


@pytest.mark.parametrize(
    ("share", "memory", "sides", "best"),
    [
        (1e3, 10**9, [256, 2048], 2048),  # straight to the largest
        (60.0, 10**9, [256, 1024], 1024),  # by the first one's rate a 2048 takes 412 s, by the second's 137 s
        (60.0, 600, [256], 256),  # no memory for it
        (1e-3, 10**9, [256], 256),  # one is always timed
        (1.0, 10**9, [256], 256),
    ],
)
def test_products_grow_while_time_and_memory_last_and_the_fastest_is_kept(
    share: float,
    memory: int,
    sides: list[int],
    best: int,
    product: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = Bench(product, RATES, memory)
    monkeypatch.setattr(ceilings, "time_matmul", fake.time_matmul)
    monkeypatch.setattr(ceilings.time, "perf_counter", lambda: fake.now)
    assert ceilings._fastest_product("fp32", RATES, share).matmul.m == best
    assert fake.sides == sides


def test_ceilings_are_on_the_card_from_then_on_even_after_an_interrupt(
    product: Any, passes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_observe, "_measured", [])
    monkeypatch.setattr(ceilings, "bandwidth", lambda name, **_: dataclasses.replace(passes, name=name))
    monkeypatch.setattr(ceilings, "_fastest_product", lambda *_: product)
    assert bench.devices().ceilings is None
    found = bench.ceilings(["float32"])
    assert bench.devices().ceilings == found
    assert [run.name for run in found.copies] == ["triad", "update"]

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ceilings, "_fastest_product", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bench.ceilings(["float32"])
    kept = bench.devices().ceilings
    assert kept is not None and kept.products == () and len(kept.copies) == 2


@pytest.mark.parametrize(
    ("dtypes", "error", "sentence"),
    [([], ValueError, "dtypes is empty"), ("float32", TypeError, "several"), (["fp64"], ValueError, "fp64")],
)
def test_dtypes_that_cannot_be_timed_are_refused_before_anything_is_measured(
    dtypes: Any, error: type[Exception], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ceilings, "bandwidth", lambda *_, **__: pytest.fail("measured"))
    with pytest.raises(error, match=sentence):
        bench.ceilings(dtypes)
