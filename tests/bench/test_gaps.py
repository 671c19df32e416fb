"""A measured time is split into parts that add up to it, and nothing that is not known is named.

The runs of TPUs and GPUs here are made up for these tests: no such product was timed. What is really timed
is the product on this machine's CPU, at the end.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsewarp import bench, chips, numerics, roofline, systolic
from pulsewarp.bench import gaps
from pulsewarp.bench.measured_ceilings import Ceilings
from pulsewarp.bench.measurement import MeasuredDevice, Measurement
from pulsewarp.matmul import Matmul

HOST = "Made-up CPU"
DEVICES = {
    "cpu": MeasuredDevice("cpu", "cpu", None, 1, HOST, 2),
    "v5e": MeasuredDevice("tpu", "TPU v5 lite", "tpu_v5e", 1, HOST, 8),
    "v6e": MeasuredDevice("tpu", "TPU v6 lite", "tpu_v6e", 1, HOST, 8),
    "v7": MeasuredDevice("tpu", "TPU7x", "tpu_v7", 2, HOST, 8),
    "t4": MeasuredDevice("gpu", "Tesla T4", "t4", 1, HOST, 8),
    "a100": MeasuredDevice("gpu", "NVIDIA A100-SXM4-80GB", "a100_sxm_80", 1, HOST, 8),
    "h100": MeasuredDevice("gpu", "NVIDIA H100 80GB HBM3", "h100_sxm", 1, HOST, 8),
    "mi300x": MeasuredDevice("gpu", "AMD Instinct MI300X", "mi300x", 1, HOST, 8),
    "unheard of": MeasuredDevice("gpu", "NVIDIA GeForce 9999", None, 1, HOST, 8),
}
LARGE = (4096, 4096, 4096)


def made_up(
    device: str = "v5e",
    sizes: tuple[int, int, int] = LARGE,
    dtype: str = "bf16",
    seconds: float = 1e-3,
    precision: str = "default",
    clock: str = "device",
    **changes: Any,
) -> Measurement:
    float32 = precision == "highest" or (precision == "high" and device.startswith("v")) or device == "t4"
    plain = Measurement(
        matmul=Matmul(*sizes, dtype),
        device=DEVICES[device],
        clock=clock,
        precision=precision,
        precision_in_program=precision,
        seconds=(seconds,),
        products_per_repeat=10 if clock == "device" else 1,
        compile_seconds=0.1,
        warmup_calls=3,
        relative_error=1e-6 if float32 else 2e-3 if device.startswith("v") else 3e-4,
        error_rows=64,
        seed=0,
        versions={"jax": "0.7.2"},
        when="2026-11-30T12:00:00+00:00",
    )
    return dataclasses.replace(plain, **changes)


sides = st.integers(1, 20_000)
runs = st.builds(
    made_up,
    device=st.sampled_from(sorted(DEVICES)),
    sizes=st.tuples(sides, sides, sides),
    dtype=st.sampled_from(["fp32", "bf16", "fp16", "int8", "fp8"]),
    seconds=st.floats(1e-9, 1e3),
    precision=st.sampled_from(["default", "high", "highest"]),
    clock=st.sampled_from(["device", "call"]),
    batch=st.sampled_from([1, 1, 7]),
)


def check_whole(gap: bench.Gap) -> None:
    known = [part.seconds for part in gap.parts if part.seconds is not None]
    assert [part.name for part in gap.parts] == list(gaps.PARTS)
    assert all(map(math.isfinite, known))
    assert all(part.seconds is None or part.seconds >= 0 for part in gap.parts[:-1])
    assert math.isclose(math.fsum(known), gap.measured, rel_tol=1e-12, abs_tol=1e-15 * max(map(abs, known)))
    for part in gap.parts:
        assert part.reason.endswith(".") and "nan" not in part.reason
        assert part.seconds is not None or not part.source


@given(runs, st.floats(1e-9, 1e3))
def test_the_parts_add_up_to_the_measured_time(run: Measurement, call: float) -> None:
    gap = bench.explain(run)
    check_whole(gap)
    assert gap.measured == run.median and gap.clock == run.clock
    if run.clock == "device":
        both = bench.explain(run, call_run=dataclasses.replace(run, clock="call", seconds=(call,)))
        check_whole(both)
        assert both.measured == call and both.launch == max(0.0, call - run.median)
        assert both.parts[:4] == gap.parts[:4]


@given(runs, st.floats(1.0, 100.0))
def test_a_slower_run_of_the_same_product_leaves_more_unexplained_and_nothing_else(
    run: Measurement, factor: float
) -> None:
    slower = dataclasses.replace(run, seconds=(run.median * factor,))
    first, second = bench.explain(run), bench.explain(slower)
    assert [part.seconds for part in second.parts[:-1]] == [part.seconds for part in first.parts[:-1]]
    assert second.unexplained >= first.unexplained


@given(runs, st.sampled_from(["m", "k", "n"]), st.integers(1, 300))
def test_a_larger_product_is_never_predicted_to_be_faster(run: Measurement, side: str, more: int) -> None:
    larger = dataclasses.replace(run.matmul, **{side: getattr(run.matmul, side) + more})
    small, large = bench.explain(run), bench.explain(dataclasses.replace(run, matmul=larger))
    assert (small.predicted is None) == (large.predicted is None)
    if small.predicted is not None and large.predicted is not None:
        assert large.predicted >= small.predicted * (1 - 1e-12)


@given(runs)
def test_the_bound_is_the_roofline_of_the_catalogue_and_no_prediction_is_below_it(
    run: Measurement,
) -> None:
    gap = bench.explain(run)
    if gap.bound is None or gap.predicted is None:
        return
    chip = chips.get(run.device.chip or "")
    share = chip.per_jax_device() if run.device.devices_per_chip > 1 else chip
    fastest = {"tpu": "bf16", "gpu": "tf32" if "tf32" in chip.peak_flops_per_second else "fp32"}
    dtype = run.matmul.dtype if run.matmul.dtype != "fp32" else fastest[run.device.platform]
    assert gap.bound == pytest.approx(run.batch * roofline.bound(run.matmul, share, dtype).seconds)
    assert gap.predicted >= gap.bound * (1 - 1e-12)


# ------------------------------------------------------------------------------------- counted by hand


def check_array() -> None:
    """The cycles of an array at its clock are another way to the same time; the peak is rounded by 0.2 %."""
    for sizes in ((4096, 4096, 4096), (129, 129, 129), (512, 640, 1000), (2048, 300, 8192)):
        gap = bench.explain(made_up("v5e", sizes))
        cost = min(
            systolic.matrix_units("tpu_v5e").gemm(m=sizes[0], k=sizes[1], n=sizes[2], dataflow=flow).seconds
            for flow in ("ws", "is")
        )
        traffic = Matmul(*sizes).bytes_moved / 819e9
        assert gap.predicted == pytest.approx(max(cost, traffic), rel=3e-3)


def check_passes() -> None:
    """One pass, three and six: the arithmetic is far above the traffic at this size."""
    one = 2 * 4096**3 / 197e12
    for word, passes in (("default", 1), ("high", 3), ("highest", 6)):
        gap = bench.explain(made_up("v5e", dtype="fp32", precision=word))
        assert gap.ideal == pytest.approx(one)
        assert gap.precision == pytest.approx((passes - 1) * one)


def check_memory() -> None:
    """A batch of 8 reads 4096 x 4096 weights: 33.7 MB at 819 GB/s."""
    gap = bench.explain(made_up("v5e", (8, 4096, 4096)))
    moved = 2 * (8 * 4096 + 4096 * 4096 + 8 * 4096)
    assert gap.bound == pytest.approx(moved / 819e9)
    assert gap.memory == pytest.approx(moved / 819e9 - 2 * 8 * 4096**2 / 197e12)


def check_waves() -> None:
    """The guide's own example: 108 tiles fill 108 SMs, one row more takes a second wave for 12 tiles."""
    for rows, waves in ((2304, 1), (2305, 2)):
        gap = bench.explain(made_up("a100", (rows, 4096, 1536)), tile=(256, 128))
        seconds = waves * 108 * (256 * 128) * 2 * 4096 / 312e12
        assert gap.predicted == pytest.approx(seconds)


CHECKS = {"array": check_array, "passes": check_passes, "memory": check_memory, "waves": check_waves}


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_parts_are_what_is_counted_by_hand(check: Callable[[], None]) -> None:
    check()


def _faulty(name: str, of: Any, change: Callable[..., Any]) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(of, name, change)


real_units, real_bound = gaps.matrix_units, roofline.bound
FAULTS: dict[str, tuple[str, Callable[[pytest.MonkeyPatch], None]]] = {
    "array twice as wide": (
        "array",
        _faulty("matrix_units", gaps, lambda chip: dataclasses.replace(real_units(chip), cols=256)),
    ),
    "one unit of four": (
        "array",
        _faulty("matrix_units", gaps, lambda chip: dataclasses.replace(real_units(chip), units_per_core=1)),
    ),
    "five passes": (
        "passes",
        _faulty(
            "PRECISIONS",
            numerics,
            {
                name: dataclasses.replace(each, passes=each.passes[:5])
                for name, each in numerics.PRECISIONS.items()
            },
        ),
    ),
    "half the bandwidth": (
        "memory",
        _faulty(
            "bound",
            roofline,
            lambda *given: dataclasses.replace(real_bound(*given), bandwidth_bytes_per_second=819e9 / 2),
        ),
    ),
    "tiles but no waves": (
        "waves",
        _faulty("_useful_in_waves", gaps, lambda cut, batch: cut.tile_efficiency),
    ),
    "waves but no tiles": (
        "waves",
        _faulty("_useful_in_waves", gaps, lambda cut, batch: cut.wave_efficiency),
    ),
}


@pytest.mark.parametrize(("check", "plant"), FAULTS.values(), ids=FAULTS)
def test_a_planted_fault_is_seen(
    check: str, plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        CHECKS[check]()


@settings(max_examples=30)
@given(sides, sides, st.sampled_from(gaps.TILES))
def test_no_tile_that_one_names_loses_less_than_the_one_that_is_taken(
    m: int, n: int, tile: tuple[int, int]
) -> None:
    run = made_up("h100", (m, 4096, n))
    free, named = bench.explain(run), bench.explain(run, tile=tile)
    assert free.predicted is not None and named.predicted is not None
    assert free.predicted <= named.predicted * (1 + 1e-12)


def test_what_hides_behind_the_traffic_counts_nothing_and_is_told() -> None:
    gap = bench.explain(made_up("v5e", (8, 4096, 4096)))
    assert gap.padding == 0
    assert "hide behind the traffic" in gap.part("padding").reason
    assert "hide" not in bench.explain(made_up("v5e")).part("padding").reason


def test_a_gpu_multiplies_float32_in_tf32_unless_asked_for_more() -> None:
    flops = 2 * 4096**3
    fast, exact = (bench.explain(made_up("a100", dtype="fp32", precision=p)) for p in ("high", "highest"))
    assert fast.ideal == exact.ideal == pytest.approx(flops / 156e12)
    assert fast.precision == 0
    assert exact.precision == pytest.approx(flops / 19.5e12 - flops / 156e12)
    without_tf32 = bench.explain(made_up("t4", dtype="fp32"))
    assert without_tf32.ideal == pytest.approx(flops / 8.1e12)
    assert without_tf32.precision == 0


def test_what_the_error_shows_counts_where_it_differs_from_what_is_asked() -> None:
    flops = 2 * 4096**3
    quiet = bench.explain(made_up("a100", dtype="fp32", precision="highest", relative_error=3e-4))
    assert quiet.precision == 0 and "multiplied in tf32" in quiet.part("precision").reason
    exact = bench.explain(made_up("mi300x", dtype="fp32", relative_error=1e-6))
    assert exact.precision == pytest.approx(flops / 163.4e12 - flops / 653.7e12)
    for word, error in (("highest", 2e-3), ("default", 1e-6)):
        strange = bench.explain(made_up("v5e", dtype="fp32", precision=word, relative_error=error))
        assert strange.precision is None and "not known" in strange.part("precision").reason
        check_whole(strange)


def test_a_batch_takes_its_tiles_into_common_waves() -> None:
    alone = bench.explain(made_up("a100", (2048, 4096, 1024)), tile=(256, 128))
    assert alone.padding == pytest.approx(alone.ideal * (108 / 64 - 1))  # 64 tiles in a wave of 108
    together = bench.explain(made_up("a100", (2048, 4096, 1024), batch=27), tile=(256, 128))
    assert together.ideal == pytest.approx(27 * alone.ideal)
    assert together.padding == pytest.approx(0, abs=1e-12)  # 16 full waves


def test_one_device_of_two_has_half_the_peak() -> None:
    assert bench.explain(made_up("v7")).ideal == pytest.approx(2 * 2 * 4096**3 / 2307e12)


# ------------------------------------------------------------------------------------- unknown, and beaten


@pytest.mark.parametrize(
    ("run", "part", "words"),
    [
        (made_up("cpu"), "ideal", "No published ceiling of Made-up CPU"),
        (made_up("unheard of"), "ideal", "GeForce 9999"),
        (made_up("v5e", dtype="fp16"), "ideal", "No fp16 peak of TPU v5e"),
        (made_up("v5e", dtype="int8"), "padding", "int8 is not documented"),
        (made_up("mi300x"), "padding", "tile=(rows, columns)"),
        (made_up("v5e", dtype="fp32", precision_in_program="bf16_bf16_f32"), "precision", "none of default"),
        (made_up("v5e"), "launch", "Only the device clock"),
        (made_up("v5e", clock="call"), "launch", "Only the call clock"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_not_known_stays_unknown_and_says_why(run: Measurement, part: str, words: str) -> None:
    gap = bench.explain(run)
    assert gap.part(part).seconds is None
    assert words in gap.part(part).reason
    assert gap.shares()[gaps.PARTS.index(part)] == "unknown"


def test_without_ceilings_all_of_it_is_unexplained() -> None:
    gap = bench.explain(made_up("cpu"))
    assert gap.bound is None and gap.predicted is None
    assert gap.unexplained == gap.measured == 1e-3
    assert gap.sentence.startswith("Nothing is modelled: No published ceiling")


def test_a_run_that_beats_the_model_says_so() -> None:
    stays = bench.explain(made_up("v5e", (8, 4096, 4096), seconds=2e-5))
    assert stays.unexplained < 0
    assert "33.7 MB fit into 134 MB on the chip" in stays.part("unexplained").reason
    assert stays.sentence == "The run beats the model by 106% of its time."
    cut = bench.explain(made_up("h100", (1024, 4096, 1024), seconds=1.2e-5), tile=(256, 128))
    assert "tiles may be cut or spread otherwise" in cut.part("unexplained").reason
    impossible = bench.explain(made_up("v5e", seconds=1e-4))
    assert "faster than the peak allows" in impossible.part("unexplained").reason


def test_the_launch_is_what_the_call_clock_shows_above_the_device_clock() -> None:
    device, call = made_up("h100", seconds=2e-4), made_up("h100", seconds=2.5e-4, clock="call")
    gap = bench.explain(device, call_run=call)
    assert gap.launch == pytest.approx(5e-5) and gap.measured == 2.5e-4
    hidden = bench.explain(device, call_run=dataclasses.replace(call, seconds=(1.9e-4,)))
    assert hidden.launch == 0 and "below the noise" in hidden.part("launch").reason
    assert "noise" not in gap.part("launch").reason
    scattered = dataclasses.replace(call, seconds=(1.8e-4, 1.9e-4, 2.5e-4, 2.6e-4, 2.7e-4))
    assert "may be noise" in bench.explain(device, call_run=scattered).part("launch").reason


@pytest.mark.parametrize(
    ("call_run", "words"),
    [
        (made_up("h100"), "by the device clock"),
        (made_up("h100", (8, 8, 8), clock="call"), "differ in matmul"),
        (made_up("a100", clock="call"), "differ in device"),
        (made_up("h100", clock="call", precision="high"), "differ in precision"),
        (made_up("h100", clock="call", origin="recorded"), "differ in origin"),
    ],
    ids=["clock", "matmul", "device", "precision", "origin"],
)
def test_two_runs_must_be_of_one_product(call_run: Measurement, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        bench.explain(made_up("h100"), call_run=call_run)


def test_a_chip_of_another_family_is_refused() -> None:
    with pytest.raises(ValueError, match=r"chip is TPU v5e, but the run is of Made-up CPU, 2 cores \(cpu\)"):
        bench.explain(made_up("cpu"), "tpu_v5e")
    unheard = bench.explain(made_up("unheard of"), "h100_sxm")
    assert unheard.parts[:3] == bench.explain(made_up("h100")).parts[:3]
    assert unheard.padding == bench.explain(made_up("h100")).padding


# ------------------------------------------------------------------------------------- ceilings of one's own


def found_here(device: str = "cpu", dtype: str = "fp32", bandwidth: float = 1e10) -> Ceilings:
    """Ceilings of 100 GFLOP/s, made up as the runs are."""
    product = made_up(device, (1000, 1000, 1000), dtype, seconds=0.02)
    copy = bench.KernelMeasurement(
        name="copy",
        size=1000,
        dtype="fp32",
        bytes_moved=8000,
        relative_error=0.0,
        device=DEVICES[device],
        clock="device",
        seconds=(8000 / bandwidth,),
        products_per_repeat=1,
        compile_seconds=0.0,
        warmup_calls=0,
        versions={"jax": "0.7.2"},
        when="2026-11-30T12:00:00+00:00",
    )
    return Ceilings((product,), (copy,))


def test_a_cpu_is_held_against_what_was_measured_on_it() -> None:
    run = made_up("cpu", (64, 1000, 1000), dtype="fp32", seconds=5e-3, precision="highest")
    gap = bench.explain(run, ceilings=found_here())
    check_whole(gap)
    assert gap.ideal == pytest.approx(2 * 64e6 / 1e11)
    assert gap.bound == pytest.approx(max(2 * 64e6 / 1e11, (2 * 64e3 + 1e6) * 4 / 1e10))
    assert gap.precision == 0 and gap.padding is None
    assert "measured here" in gap.part("ideal").reason
    assert "Measured here on 2026-11-30, not published" in gap.part("memory").source
    bf16 = bench.explain(made_up("cpu"), ceilings=found_here())
    assert bf16.ideal is None and "No bf16 peak" in bf16.part("ideal").reason


def test_measured_ceilings_of_an_accelerator_keep_its_tiles() -> None:
    measured = bench.explain(made_up("v5e", (129, 129, 129)), ceilings=found_here("v5e", "bf16", 1e12))
    published = bench.explain(made_up("v5e", (129, 129, 129)))
    assert measured.ideal == pytest.approx(2 * 129**3 / 1e11)
    assert published.part("padding").reason.split(" 1")[0] in measured.part("padding").reason


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"ceilings": found_here("v5e", "bf16")}, "measured on TPU v5 lite, but the run is of Made-up CPU"),
        ({"ceilings": found_here(), "chip": "tpu_v5e"}, "both given"),
    ],
    ids=["another device", "two roofs"],
)
def test_one_roof_counts_and_it_is_the_run_s_own(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        bench.explain(made_up("cpu", dtype="fp32"), **wrong)


# --------------------------------------------------------------------------------------------- many of them


def test_both_clocks_of_a_product_become_one() -> None:
    small, large = made_up("h100", (64, 64, 64), seconds=2e-6), made_up("h100")
    call = dataclasses.replace(small, clock="call", seconds=(3e-5,))
    alone = dataclasses.replace(call, matmul=Matmul(8, 8, 8))
    found = bench.explain_all([call, small, alone, large])
    assert [(gap.run, gap.call_run) for gap in found] == [(small, call), (alone, None), (large, None)]
    assert found[0].launch == pytest.approx(2.8e-5)
    assert isinstance(found[1:], bench.Gaps) and len(found[1:]) == 2


def test_tables_are_complete_and_safe() -> None:
    strange = dataclasses.replace(DEVICES["unheard of"], kind="<b>GPU</b>")
    found = bench.explain_all([made_up("v5e"), made_up("mi300x")])
    page = found._repr_html_()
    assert all(f">{name.capitalize()}<" in page for name in gaps.PARTS)
    own = bench.explain(dataclasses.replace(made_up("h100"), device=strange))
    assert "<b>" not in own._repr_html_() and "&lt;b&gt;GPU" in own._repr_html_()
    assert repr(bench.explain_all([])).startswith("product")
    drifted = bench.explain(made_up("v5e", notes=("The run drifted.",)))
    assert "The run drifted." in repr(drifted) and "The run drifted." in drifted._repr_html_()


def test_a_real_product_on_this_cpu_by_both_clocks() -> None:
    timed = [bench.time_matmul(96, 64, 32, repeats=3, clock=clock) for clock in ("call", "device")]
    (gap,) = bench.explain_all(timed)
    check_whole(gap)
    assert gap.launch is not None and gap.measured == timed[0].median
    assert gap.predicted is None  # no ceiling of this CPU was given
