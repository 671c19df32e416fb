"""Clocks and repeats, with a clock and devices that are data: what is not here and what goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pulsewarp import bench
from pulsewarp.bench import card, host
from pulsewarp.bench.live import _clock, _observe, _proof, timing
from pulsewarp.bench.live._clock import Interrupted
from pulsewarp.bench.live.timing import Work
from pulsewarp.bench.measurement import Measurement

jax: Any = pytest.importorskip("jax", reason="JAX is optional; without it nothing can be timed")

GIB = 2**30
ASKED = 6  # calls of the question to the device, the first time a type is timed

# What XLA prints of a chain on devices that are not here, cut to what is read of it. Forms as in XLA's own
# tests and dumps: a TPU's product is a convolution and layouts name tiles; a GPU's is a call into a library.
TPU_PROGRAM = """HloModule jit_run

%body (p: (s32[], f32[M,K], f32[M,N], f32[K,N])) -> (s32[], f32[M,K], f32[M,N], f32[K,N]) {
  %p = (s32[], TYPE[M,K]{1,0:T(8,128)}, f32[M,N]{1,0:T(8,128)}, TYPE[K,N]{1,0:T(8,128)PLACE}) parameter(0)
  %a = MULTIPLIED[M,K]{1,0:T(8,128)} get-tuple-element(%p), index=1
  %b = MULTIPLIED[K,N]{1,0:T(8,128)} get-tuple-element(%p), index=3
  ROOT %convolution.1 = f32[MADE,N]{1,0:T(8,128)} convolution(%a, %b), dim_labels=bf_io->bf
}

%condition (p: (s32[], f32[M,K], f32[M,N], f32[K,N])) -> pred[] {
  %p = (s32[], TYPE[M,K]{1,0:T(8,128)}, f32[M,N]{1,0:T(8,128)}, TYPE[K,N]{1,0:T(8,128)PLACE}) parameter(0)
  ROOT %less = pred[] constant(true)
}

ENTRY %main (a: TYPE[M,K], b: TYPE[K,N]) -> f32[M,N] {
  %a.1 = TYPE[M,K]{1,0:T(8,128)} parameter(0)
  %b.1 = TYPE[K,N]{1,0:T(8,128)} parameter(1)
  %while.1 = (s32[], TYPE[M,K]{1,0:T(8,128)}, f32[M,N]{1,0:T(8,128)}, TYPE[K,N]{1,0:T(8,128)PLACE}) \
while(%tuple.1), condition=%condition, body=%body, backend_config={"known_trip_count":{"n":"LENGTH"}}
  ROOT %out = f32[M,N]{1,0:T(8,128)} get-tuple-element(%while.1), index=2
}
"""
GPU_PROGRAM = """HloModule jit_run

%body (p: (s32[], f32[M,K], f32[M,N], f32[K,N])) -> (s32[], f32[M,K], f32[M,N], f32[K,N]) {
  %p = (s32[], TYPE[M,K]{1,0}, f32[M,N]{1,0}, TYPE[K,N]{1,0}) parameter(0)
  %a = MULTIPLIED[M,K]{1,0} get-tuple-element(%p), index=1
  %b = MULTIPLIED[K,N]{1,0} get-tuple-element(%p), index=3
  ROOT %gemm.1 = (f32[MADE,N]{1,0}, s8[4194304]{0}) custom-call(%a, %b), custom_call_target="__cublas$gemm"
}

%condition (p: (s32[], f32[M,K], f32[M,N], f32[K,N])) -> pred[] {
  %p = (s32[], TYPE[M,K]{1,0}, f32[M,N]{1,0}, TYPE[K,N]{1,0}) parameter(0)
  ROOT %less = pred[] constant(true)
}

ENTRY %main (a: TYPE[M,K], b: TYPE[K,N]) -> f32[M,N] {
  %a.1 = TYPE[M,K]{1,0} parameter(0)
  %b.1 = TYPE[K,N]{1,0} parameter(1)
  %while.1 = (s32[], TYPE[M,K]{1,0}, f32[M,N]{1,0}, TYPE[K,N]{1,0}) \
while(%tuple.1), condition=%condition, body=%body, backend_config={"known_trip_count":{"n":"LENGTH"}}
  ROOT %out = f32[M,N]{1,0} get-tuple-element(%while.1), index=2
}
"""


@dataclass
class Device:
    """A device as data: how fast, how exact, what it prints, and when it fails."""

    platform: str = "tpu"
    kind: str = "TPU v5 lite"
    bits: int | None = 24  # significant bits that it keeps of float32 factors
    per_product: float = 1e-4
    dispatch: float = 5e-5
    waits: bool = True  # whether block_until_ready waits
    slower: Callable[[int], float] = lambda call: 1.0  # by the number of the call
    fails: Callable[[int], BaseException | None] = lambda call: None
    multiplied: str = ""  # HLO type that the program multiplies; the stored one where empty
    place: str = ""  # where the loop keeps the right factor
    rows: int | None = None  # that the program makes of the result; all where None
    working_space: int = 0
    time: float = 0.0
    calls: int = 0
    lengths: list[int] = field(default_factory=list)

    def program(self, of: Work, length: int, writes: str) -> Program:
        return Program(self, of, length, writes)

    def text(self, of: Work, length: int) -> str:
        stored = _proof.HLO_NAMES[of.stored]
        text = TPU_PROGRAM if self.platform == "tpu" else GPU_PROGRAM
        for name, value in (
            ("MULTIPLIED", self.multiplied or stored),
            ("LENGTH", length),
            ("PLACE", self.place if length > 1 else ""),
            ("TYPE", stored),
            ("MADE", self.rows or of.matmul.m),
            ("M,", f"{of.matmul.m},"),
            ("K,", f"{of.matmul.k},"),
            ("K]", f"{of.matmul.k}]"),
            ("N]", f"{of.matmul.n}]"),
        ):
            text = text.replace(name, str(value))
        return text


@dataclass
class Program:
    """A program of such a device; a call moves the device's clock, not time."""

    device: Device
    of: Work
    length: int
    writes: str

    def memory_analysis(self) -> Any:
        return SimpleNamespace(temp_size_in_bytes=self.device.working_space)

    def __call__(self, a: Any, b: Any, last: Any = None) -> Any:
        device = self.device
        device.calls += 1
        failure = device.fails(device.calls)
        if failure is not None:
            raise failure
        device.lengths.append(self.length)
        work = self.length * device.per_product * device.slower(device.calls)
        device.time += device.dispatch + (work if device.waits else 0.0)
        left, right = np.array(a), np.array(b)
        product = rounded(left, device.bits) @ rounded(right, device.bits)
        stored = product.astype(np.float32 if self.of.matmul.dtype == "fp32" else left.dtype)
        written = [factor for which, factor in (("a", left), ("b", right)) if which in self.writes]
        return jax.device_put((*written, stored)) if self.writes else stored


def rounded(x: Any, bits: int | None) -> Any:
    significand, exponent = np.frexp(x.astype(np.float64))
    return np.ldexp(np.round(significand * 2**bits) / 2**bits, exponent) if bits else x.astype(np.float64)


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Callable[[Device], Device]:
    """Put a device that is data where JAX's would be: its card, its programs, its clock."""

    def put(device: Device) -> Device:
        seen = card.SeenDevice(device.platform, device.kind, (0, 0, 0), 16 * GIB, 0)
        here = host.Host(python="3.13.15", cpu_model="Example CPU", cores=8)
        described = card.describe(here, card.SeenJax("0.7.2", (seen,)))

        def compile_for(_: Any, program: Program, __: Any, **___: Any) -> tuple[Program, float, str]:
            return program, 0.25, device.text(program.of, program.length)

        timing._ask.cache_clear()
        monkeypatch.setattr(_observe, "devices", lambda: described)
        monkeypatch.setattr(timing, "compile_for", compile_for)
        monkeypatch.setattr(_clock, "compile_for", compile_for)
        monkeypatch.setattr(timing, "single_of", lambda jax, of: device.program(of, 1, ""))
        chain_of = lambda jax, of, writes, length: device.program(of, length, writes)  # noqa: E731  # short
        monkeypatch.setattr(timing, "chain_of", chain_of)
        monkeypatch.setattr(_clock, "now", lambda: device.time)
        return device

    yield put
    timing._ask.cache_clear()


def timed(**changes: Any) -> Measurement:
    return bench.time_matmul(*changes.pop("sizes", (48, 40, 32)), **{"precision": "highest"} | changes)


def test_the_device_clock_spreads_the_dispatch_and_the_call_clock_does_not(on: Any) -> None:
    on(Device(dispatch=5e-6, per_product=1e-4))
    run = timed()
    links = run.products_per_repeat
    assert links * 1e-4 >= 0.9 * _clock.CHAIN_SECONDS
    assert run.seconds == pytest.approx([1e-4 + 5e-6 / links] * len(run.seconds))
    assert (run.compile_seconds, run.notes) == (0.25, ())
    on(Device(dispatch=5e-5))
    assert timed(clock="call").seconds == pytest.approx([1.5e-4] * _clock.ENOUGH_TO_JUDGE)


def test_a_dispatch_that_hides_the_product_is_seen_through(on: Any) -> None:
    on(Device(platform="gpu", kind="Tesla T4", per_product=1e-6, dispatch=1e-3))  # as over a network
    assert timed().median == pytest.approx(1e-6, rel=0.02)


def test_a_call_lasts_long_beside_first_touching_its_working_space(
    on: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_clock, "DISPATCHES", 0)
    on(Device(per_product=1e-2, working_space=2**25))  # an allocator keeps as much
    assert timed(repeats=1).products_per_repeat == 2
    on(Device(per_product=1e-2, working_space=2**25 + 1))
    run = timed(repeats=1)
    assert (run.products_per_repeat, run.notes) == (100, ())
    on(Device(per_product=1e-2, working_space=2**26))
    (note,) = timed(repeats=1).notes
    assert "64 MiB of working space anew; first touching it may be up to 7% of this time" in note


def test_steady_repeats_end_early_and_restless_ones_with_the_most_or_the_budget(on: Any) -> None:
    on(Device())
    assert len(timed().seconds) == _clock.ENOUGH_TO_JUDGE
    restless = lambda call: 1.0 + 0.5 * (call % 2)  # noqa: E731  # short
    on(Device(slower=restless))
    assert len(timed(budget_seconds=1e9).seconds) == _clock.MOST_REPEATS_BY_TIME
    run = timed(budget_seconds=0.5)
    assert _clock.FEWEST_REPEATS < len(run.seconds) < _clock.MOST_REPEATS_BY_TIME / 2
    assert any(note.startswith("The repeats scatter: their quartiles lie") for note in run.notes)
    assert len(timed(budget_seconds=1e-9).seconds) == _clock.FEWEST_REPEATS
    assert len(timed(repeats=3).seconds) == 3


def test_warm_up_goes_on_until_three_calls_agree(on: Any) -> None:
    device = on(Device())
    timed(clock="call")
    on(device).slower = lambda call: max(1.0, 6.0 - (call - ASKED))  # each faster than the one before
    device.calls = 0
    run = timed(clock="call")
    assert run.warmup_calls == 7  # the 5th, the 6th and the 7th agree
    assert run.notes == ()


@pytest.mark.parametrize(
    ("slower", "words"),
    [
        (lambda call: 1 + 0.04 * call, "slower"),
        (lambda call: 3 - 0.04 * call, "faster"),
        (lambda call: 1.0 if call < 18 else 2.0, "slower"),
    ],
    ids=["throttled little by little", "not yet warm", "throttled at once"],
)
def test_a_run_that_drifts_says_so(on: Any, slower: Callable[[int], float], words: str) -> None:
    on(Device(slower=slower))
    run = timed(repeats=24)
    assert any(f"% {words} than its first" in note for note in run.notes)
    assert len(run.seconds) == 24  # all of them are kept


def test_a_device_that_does_not_wait_is_found_out_by_its_rate(on: Any) -> None:
    on(Device(waits=False, dispatch=1e-5))
    run = timed(dtype="bfloat16")
    assert any("is more than the 197 TFLOP/s that the catalogue gives" in note for note in run.notes)


FLOAT32 = "this was not a float32 product"


@pytest.mark.parametrize(
    ("platform", "kind", "bits", "precision", "words"),
    [
        ("tpu", "TPU v5 lite", 24, "highest", []),
        ("tpu", "TPU v5 lite", 8, "default", ["rounded to bfloat16 give: " + FLOAT32]),
        ("tpu", "TPU v5 lite", 8, "highest", ["rounded to bfloat16 give: " + FLOAT32, "should stay within"]),
        ("tpu", "TPU v5 lite", 16, "high", []),
        ("gpu", "NVIDIA H100 80GB HBM3", 11, "default", ["rounded to TF32 give: " + FLOAT32]),
        ("gpu", "NVIDIA H100 80GB HBM3", 11, "highest", ["rounded to TF32 give: " + FLOAT32, "should stay"]),
        ("gpu", "NVIDIA H100 80GB HBM3", 24, "highest", []),
        ("gpu", "Tesla T4", 24, "default", []),
    ],
)
def test_silently_rounded_factors_are_told(
    on: Any, platform: str, kind: str, bits: int, precision: str, words: list[str]
) -> None:
    on(Device(platform=platform, kind=kind, bits=bits))
    run = timed(precision=precision)
    assert len(run.notes) == len(words), run.notes
    assert all(word in note for word, note in zip(words, run.notes, strict=True))


def test_what_the_program_says_stands_beside_the_number(on: Any) -> None:
    on(Device(multiplied="bf16"))
    assert timed().notes == ("The program multiplies bf16, though float32 was asked for.",)
    on(Device(multiplied="f32"))
    widened = timed(dtype="bfloat16").notes
    assert widened == (
        "The device multiplies bfloat16 by turning the factors into f32 first; the time includes that.",
    )
    on(Device(place="S(1)"))
    (note,) = timed(sizes=(128, 128, 128)).notes  # the result is of the factors' form too
    assert note.startswith("The compiler prepared f32[128,128]{1,0:T(8,128)} once, before the chain")


@pytest.mark.parametrize(
    ("platform", "kind"), [("tpu", "TPU v5 lite"), ("gpu", "NVIDIA H100 80GB HBM3"), ("gpu", "Tesla T4")]
)
def test_a_program_that_makes_a_part_of_the_result_is_told(on: Any, platform: str, kind: str) -> None:
    on(Device(platform=platform, kind=kind, rows=3))
    assert any("makes only 96 of the 1536 elements" in note for note in timed().notes)
    on(Device(platform=platform, kind=kind))
    assert timed().notes == ()


def test_a_short_product_on_a_gpu_is_said_to_be_launches(on: Any) -> None:
    on(Device(platform="gpu", kind="NVIDIA H100 80GB HBM3", per_product=5e-6))
    assert any("starts kernels of its own" in note for note in timed().notes)


def test_8_bit_floats_are_timed_where_the_device_multiplies_them(on: Any) -> None:
    gpu = {"platform": "gpu", "kind": "NVIDIA H100 80GB HBM3", "bits": None}
    on(Device(**gpu))
    run = timed(dtype="float8_e4m3fn")
    assert (run.matmul.dtype, run.stored) == ("fp8", "float8_e4m3fn")
    assert "fp8 on NVIDIA" in repr(run)
    on(Device(**gpu, multiplied="f16"))
    with pytest.raises(
        ValueError, match=r"has no products of float8_e5m2: its compiler turns factors into f16"
    ):
        timed(dtype="float8_e5m2")
    on(Device(**gpu, fails=lambda call: RuntimeError("UNIMPLEMENTED: f8e4m3fn\nat line 3")))
    with pytest.raises(
        ValueError, match=r"cannot multiply float8_e4m3fn: UNIMPLEMENTED: f8e4m3fn at line 3; use"
    ):
        timed(dtype="float8_e4m3fn")


def test_a_device_that_multiplies_wrongly_is_refused(on: Any) -> None:
    on(Device(bits=1))
    with pytest.raises(ValueError, match="multiplies float32 wrongly: a small product is off by"):
        timed()


@pytest.mark.parametrize("call", [1, 2, 6, 12])
def test_a_device_that_runs_out_of_memory_names_the_size(on: Any, call: int) -> None:
    full = RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 17179869184 bytes.")
    on(Device(fails=lambda now: full if now == call else None))
    with pytest.raises(MemoryError, match="ran out of memory at 8 x 9 x 10 fp32; take smaller sizes"):
        timed(sizes=(8, 9, 10))


def test_another_error_of_the_device_stays_itself(on: Any) -> None:
    on(Device(fails=lambda call: RuntimeError("INTERNAL: the device is on fire") if call == 9 else None))
    with pytest.raises(RuntimeError, match="on fire"):
        timed()


@pytest.mark.parametrize("clock", ["device", "call"])
def test_an_interrupt_during_the_repeats_keeps_those_that_were_made(on: Any, clock: str) -> None:
    device = on(Device())
    timed(repeats=4, clock=clock)
    device.fails = lambda call: KeyboardInterrupt() if call == last else None
    last, device.calls = device.calls - ASKED, 0  # the device is not asked again
    with pytest.raises(KeyboardInterrupt) as caught:
        timed(repeats=4, clock=clock)
    kept = caught.value
    assert isinstance(kept, Interrupted) and isinstance(kept.measurement, Measurement)
    assert len(kept.measurement.seconds) == 3
    assert kept.measurement.notes == ("Interrupted after 3 repeats.",)
    assert "this error's .measurement has them" in str(kept)


def test_an_interrupt_before_the_first_repeat_is_a_plain_one(on: Any) -> None:
    on(Device(fails=lambda call: KeyboardInterrupt() if call == 3 else None))
    with pytest.raises(KeyboardInterrupt) as caught:
        timed()
    assert not isinstance(caught.value, Interrupted)


def test_a_call_is_timed_until_its_result_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    class Late(ModuleType):
        """JAX of a device whose calls return at once and whose results come a second later."""

        time = 0.0

        def block_until_ready(self, result: str) -> str:
            self.time += 1.0
            return result

    late = Late("jax")
    monkeypatch.setattr(_clock, "now", lambda: late.time)
    assert _clock.call_once(late, lambda: "result", ()) == (1.0, "result")
