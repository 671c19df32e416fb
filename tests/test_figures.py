"""Figures hold the numbers of roofline and of measurements, and tell them in words, not by colour alone."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsewarp import bench, chips, figures, roofline, simt
from pulsewarp.bench import gaps
from pulsewarp.bench.kernel_measurement import KernelMeasurement
from pulsewarp.bench.measured_ceilings import Ceilings
from pulsewarp.bench.measurement import MeasuredDevice, Measurement
from pulsewarp.bench.timeline import CATEGORIES, Timeline, build_timeline
from pulsewarp.figures import _style, comparisons, events
from pulsewarp.figures import gaps as gap_figure
from pulsewarp.matmul import Matmul

CPU = MeasuredDevice("cpu", "cpu", None, 1, "Example CPU", 2)
V5E = MeasuredDevice("tpu", "TPU v5 lite", "tpu_v5e", 1, "Example CPU", 8)
ROOFED = ["tpu_v5e", "tpu_v7", "h100_sxm", "mi300x"]


def run(size: int = 1024, device: MeasuredDevice = CPU, **changes: Any) -> Measurement:
    plain = Measurement(
        matmul=Matmul(size, size, size, "bf16"),
        device=device,
        clock="device",
        precision="default",
        precision_in_program="default",
        seconds=(1e-3, 2e-3, 3e-3, 4e-3, 5e-3),
        products_per_repeat=10,
        compile_seconds=0.1,
        warmup_calls=3,
        relative_error=1e-3,
        error_rows=64,
        seed=0,
        versions={"jax": "0.7.2"},
        when="2026-11-30T12:00:00+00:00",
    )
    return dataclasses.replace(plain, **changes)


RECORDED = run(2048, origin="recorded")


def span(name: str, start: float, lasts: float, thread: int, **arguments: str) -> dict[str, Any]:
    return {"ph": "X", "pid": 1, "tid": thread, "ts": start, "dur": lasts, "name": name, "args": arguments}


PROFILED = build_timeline(
    [
        span("call 1 of 2", 0, 100, 1),
        span("call 2 of 2", 100, 90, 1),
        *(span(f"runtime {depth}", 2 + depth, 40 - 2 * depth, 1) for depth in range(6)),
        span("dot.1", 10, 60, 2, hlo_op="dot.1"),
        span("add.1", 75, 20, 2, hlo_op="add.1"),
        span("dot.1", 110, 70, 2, hlo_op="dot.1"),
        span("Await", 60, 40, 3),
    ]
)


def words(figure: go.Figure) -> str:
    return " ".join(str(figure.layout.title.text).replace("<br>", " ").split())


def lines(figure: go.Figure) -> list[Any]:
    return [trace for trace in figure.data if trace.mode == "lines"]


def check_roofs(ids: list[str], dtype: str) -> None:
    figure = figures.roofline(ids, dtype=dtype)
    marks = [trace for trace in figure.data if trace.mode == "markers"]
    for chip_id, line, mark in zip(ids, lines(figure), marks, strict=True):
        chip = chips.get(chip_id)
        peak, slope = chip.peak(dtype), chip.bandwidth_bytes_per_second
        assert slope is not None
        x, y = np.asarray(line.x), np.asarray(line.y)
        np.testing.assert_allclose(y, np.minimum(peak, slope * x))
        assert (mark.x[0], mark.y[0]) == pytest.approx((peak / slope, peak))
        assert x[0] <= peak / slope <= x[-1]
        assert peak / slope in x


@pytest.mark.parametrize(("ids", "dtype"), [(ROOFED, "bf16"), (["tpu_v5e", "h100_sxm"], "int8")])
def test_the_roofs_are_peak_and_bandwidth_of_the_catalogue(ids: list[str], dtype: str) -> None:
    check_roofs(ids, dtype)


@pytest.mark.parametrize(
    ("name", "faulty"),
    [
        (
            "attainable",
            lambda chip, dtype, intensity: np.asarray(intensity) * chip.bandwidth_bytes_per_second,
        ),
        ("attainable", lambda chip, dtype, intensity: np.full(np.shape(intensity), chip.peak(dtype))),
        ("ridge_point", lambda chip, dtype: 2 * chip.peak(dtype) / chip.bandwidth_bytes_per_second),
    ],
    ids=["no peak", "no slope", "ridge at twice its place"],
)
def test_the_check_sees_a_wrong_roof(
    name: str, faulty: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roofline, name, faulty)
    with pytest.raises(AssertionError):
        check_roofs(ROOFED, "bf16")


def test_a_measured_point_stands_at_its_intensity_and_median_rate_with_quartiles() -> None:
    point = figures.roofline("tpu_v5e", [run()]).data[-1]
    flops = 2 * 1024**3
    assert point.x[0] == pytest.approx(flops / (3 * 2 * 1024**2))
    assert point.y[0] == pytest.approx(flops / 3e-3)
    assert point.y[0] + point.error_y.array[0] == pytest.approx(flops / 2e-3)
    assert point.y[0] - point.error_y.arrayminus[0] == pytest.approx(flops / 4e-3)


def test_live_and_recorded_differ_by_mark_and_by_word() -> None:
    live, recorded = figures.roofline([], [run(), RECORDED]).data
    assert not live.marker.symbol.endswith("-open")
    assert recorded.marker.symbol.endswith("-open")
    assert "live 2026-11-30" in live.name
    assert "recorded 2026-11-30" in recorded.name
    assert "filled = live, open = recorded" in words(figures.roofline([], [RECORDED]))


def test_clocks_dtypes_precisions_and_devices_are_told_apart() -> None:
    runs = [
        run(),
        run(clock="call"),
        run(precision="highest"),
        run(matmul=Matmul(8, 8, 8, "int8")),
        run(device=V5E),
        RECORDED,
    ]
    traces = figures.roofline([], runs).data
    assert len(traces) == len(runs)
    assert len({trace.name for trace in traces}) == len(runs)
    assert len({trace.marker.symbol for trace in traces}) == len(runs)


def test_days_of_a_group_are_named_from_first_to_last() -> None:
    later = run(512, when="2026-12-02T12:00:00+00:00")
    assert "live 2026-11-30 to 2026-12-02" in figures.roofline([], [later, run()]).data[0].name


@pytest.mark.parametrize(
    "figure",
    [
        figures.roofline(ROOFED, [run(), RECORDED]),
        figures.roofline("tpu_v5e"),
        figures.roofline([]),
        figures.roofline([], [run()]),
        figures.measured_against_predicted([run(device=V5E)]),
        figures.measured_against_predicted([run(), RECORDED]),
        figures.padding_staircase("tpu_v5e"),
        figures.littles_law("volta"),
        figures.timeline(PROFILED),
        figures.timeline(Timeline(notes=("The profiler gave nothing.",))),
        figures.gap_bars(bench.explain_all([run(device=V5E), run(), RECORDED])),
    ],
    ids=[
        "roofline",
        "roofs alone",
        "nothing",
        "points alone",
        "predicted",
        "measured alone",
        "padding",
        "little",
        "timeline",
        "empty timeline",
        "gaps",
    ],
)
def test_every_figure_is_a_value_whose_axes_and_title_say_what_they_are(figure: go.Figure) -> None:
    assert type(figure) is go.Figure
    for axis in (figure.layout.xaxis, figure.layout.yaxis):
        assert (axis.type == "log") == ("log scale" in (axis.title.text or ""))
    assert figure.layout.title.text
    assert max(map(len, str(figure.layout.title.text).split("<br>"))) < 90  # tags included: fits a phone
    assert figure.layout.legend.orientation == "h"
    assert figure.layout.legend.y < 0
    for trace in figure.data:
        assert trace.hovertext is not None
        assert len(trace.hovertext) == len(trace.x)


def seen(colour: str, style: str) -> Any:
    """Return a colour's red, green and blue behind the filter of a page's style, as browsers define it."""
    plain = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    found = re.search(r"filter: invert\((.*?)\) hue-rotate\(180deg\)", style)
    if found is None:
        return plain
    share = float(found[1])
    grey = np.array([0.213, 0.715, 0.072])  # a hue turned half round: what it is off grey is turned over
    turned = 2 * grey - np.eye(3)
    dark = np.clip(turned @ (share + plain * (1 - 2 * share)), 0, 1)
    return np.maximum(dark, np.array([0x14, 0x19, 0x1F]) / 255)  # lighter than the page's ground, or that


def contrast(one: Any, other: Any) -> float:
    linear = [
        np.where(each <= 0.04045, each / 12.92, ((each + 0.055) / 1.055) ** 2.4) for each in (one, other)
    ]
    low, high = sorted(float(each @ (0.2126, 0.7152, 0.0722)) for each in linear)
    return (high + 0.05) / (low + 0.05)


def faint(style: str) -> list[tuple[str, str]]:
    """Name the pairs of ground and ink that have less than 4.5 to 1."""
    grounds = [value for name, value in vars(_style).items() if name.startswith("PALE_")]
    pairs = [(_style.PAPER, colour) for colour, _, _ in _style.STYLES] + [
        (pale, _style.INK) for pale in grounds
    ]
    return [pair for pair in pairs if contrast(*(seen(colour, style) for colour in pair)) < 4.5]


def test_what_is_read_has_contrast_on_paper_and_on_a_dark_page() -> None:
    assert faint("") == [] and faint(_style.PAGE_STYLE) == []
    assert contrast(seen(_style.PAPER, _style.PAGE_STYLE), np.ones(3)) > 15, "a dark page's figure is dark"
    assert len(faint(_style.PAGE_STYLE.replace("0.92", "0.7"))) == 11, "fault: a filter that greys"


def test_lines_differ_in_colour_dash_and_mark() -> None:
    figure = figures.roofline(["tpu_v5e", "tpu_v6e", "h100_sxm", "a100_sxm_80", "mi300x", "b200"])
    assert len({line.line.color for line in lines(figure)}) == 6
    assert len({line.line.dash for line in lines(figure)}) == 6
    assert len({trace.marker.symbol for trace in figure.data if trace.mode == "markers"}) == 6


def test_every_point_and_line_lies_inside_the_axes() -> None:
    figure = figures.roofline(ROOFED, [run(1), run(4096), RECORDED])
    for trace in figure.data:
        for values, axis in ((trace.x, figure.layout.xaxis), (trace.y, figure.layout.yaxis)):
            low, high = axis.range
            assert np.all(np.log10(np.asarray(values, float)) >= low - 1e-9)
            assert np.all(np.log10(np.asarray(values, float)) <= high + 1e-9)


def test_ticks_carry_the_prefix_and_only_they() -> None:
    axis = figures.roofline("tpu_v5e").layout.yaxis
    assert dict(zip(axis.tickvals, axis.ticktext, strict=True))[1e13] == "10 T"
    assert max(lines(figures.roofline("tpu_v5e"))[0].y) == 1.97e14


@given(st.floats(-12, 14), st.floats(0.603, 20))  # of powers of ten, from a factor of four on
def test_a_log_axis_has_three_ticks_at_least_and_none_is_told_twice(low: float, wide: float) -> None:
    axis, span = go.Figure().layout.xaxis, (10**low, 10 ** (low + wide))
    _style.log_axis(axis, "x", span)
    assert len(axis.tickvals) >= 3 and len(set(axis.ticktext)) == len(axis.tickvals)
    assert span[0] <= min(axis.tickvals) and max(axis.tickvals) <= span[1]


@given(st.floats(1e-4, 1), st.floats(1, 1e4))
def test_ticks_of_ratios_do_not_touch_on_a_phone(low: float, high: float) -> None:
    span = low / 1.2, high * 1.2
    ticks = comparisons._apart([tick for tick in comparisons._TICKS if span[0] <= tick <= span[1]], span)
    gaps = np.diff(np.log10(ticks)) / np.log10(span[1] / span[0])
    assert 1 in ticks and all(gap > 0.1 for gap in gaps)


def test_integers_are_operations_not_flops() -> None:
    figure = figures.roofline("tpu_v5e", dtype="int8")
    assert "OP/s" in figure.layout.yaxis.title.text
    assert "FLOP" not in figure.to_json()


def test_the_hover_text_names_limit_and_sources() -> None:
    line, ridge = figures.roofline("tpu_v5e").data
    assert "limited by memory" in line.hovertext[0]
    assert "limited by compute" in line.hovertext[-1]
    source = chips.get("tpu_v5e").source("bandwidth_bytes_per_second")
    told = ridge.hovertext[0].replace("<br>", " ")
    assert source.title in told
    assert source.date in told


def test_a_weak_entry_shows_its_caveat() -> None:
    weak = next(chip for chip in chips.catalogue() if chip.caveat and chip.has_roofline)
    ridge = figures.roofline(weak, dtype=next(iter(weak.peak_flops_per_second))).data[1]
    assert str(weak.caveat).split()[0] in ridge.hovertext[0]


def test_a_share_of_a_chip_has_its_own_roof() -> None:
    share = chips.get("tpu_v7").per_jax_device()
    whole, half = (max(lines(figures.roofline(chip))[0].y) for chip in ("tpu_v7", share))
    assert half == whole / 2


@pytest.mark.parametrize(
    ("ids", "dtype", "sentence"),
    [
        ("tpu_v9", "bf16", "tpu_v9"),
        ("tpu_v1", "bf16", "bf16 peak"),
        ("tpu_v5e", "bf17", "bf17"),
        ("rubin", "bf16", "projection|peak"),
    ],
)
def test_a_roof_that_nobody_published_is_refused(ids: str, dtype: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        figures.roofline(ids, dtype=dtype)


def test_the_ratio_is_median_over_bound_and_is_named() -> None:
    measurement = run(4096, V5E)
    figure = figures.measured_against_predicted([measurement])
    bound, measured = figure.data
    expected = roofline.bound(measurement.matmul, chips.get("tpu_v5e"))
    assert bound.x[0] == expected.seconds
    assert measured.x[0] == 3e-3
    ratio = f"{3e-3 / expected.seconds:.3g} x bound"
    assert ratio in measured.text[0]
    assert ratio in measured.hovertext[0]
    assert "published ceilings of TPU v5e" in words(figure)
    assert [note.text for note in figure.layout.annotations] == ["4096 x 4096 x 4096"]


def test_one_device_of_two_is_held_against_half_a_chip() -> None:
    half = MeasuredDevice("tpu", "TPU7x", "tpu_v7", 2, "Example CPU", 8)
    bound = figures.measured_against_predicted([run(8192, half)]).data[0]
    assert bound.x[0] == pytest.approx(
        2 * roofline.bound(Matmul(8192, 8192, 8192), chips.get("tpu_v7")).seconds
    )
    assert "one of 2 devices" in bound.name


def test_without_a_published_ceiling_only_what_was_measured_is_shown() -> None:
    figure = figures.measured_against_predicted([run(), RECORDED])
    assert "No published ceiling is known for Example CPU, 2 cores, so nothing is predicted." in words(figure)
    assert not any("bound" in trace.name for trace in figure.data)


def test_a_dtype_without_a_published_peak_predicts_nothing() -> None:
    fp32 = run(device=V5E, matmul=Matmul(64, 64, 64, "fp32"))
    assert "fp32" not in chips.get("tpu_v5e").peak_flops_per_second
    assert len(figures.measured_against_predicted([fp32]).data) == 1


def test_a_chip_that_is_named_must_have_the_ceiling() -> None:
    fp32 = run(device=V5E, matmul=Matmul(64, 64, 64, "fp32"))
    with pytest.raises(ValueError, match="No fp32 peak"):
        figures.measured_against_predicted([fp32], chip="tpu_v5e")
    assert figures.measured_against_predicted([fp32], chip="tpu_v5e", dtype="bf16").data[0].x[0] > 0


def test_no_measurement_is_refused_with_a_remedy() -> None:
    with pytest.raises(ValueError, match=r"measurements is empty; .* bench\.recorded"):
        figures.measured_against_predicted([])


def check_padding(sides: int) -> None:
    line = figures.padding_staircase("tpu_v6e", largest=sides).data[0]
    assert list(line.x) == list(range(1, sides + 1))
    for side, share in zip(line.x, line.y, strict=True):
        assert share == pytest.approx((side / (256 * -(-side // 256))) ** 2)


def test_padding_is_the_area_of_whole_units() -> None:
    check_padding(600)


def test_the_check_sees_padding_to_the_wrong_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    right = roofline.tile_padding
    monkeypatch.setattr(roofline, "tile_padding", lambda matmul, chip: right(matmul, (128, 128)))
    with pytest.raises(AssertionError):
        check_padding(600)


def test_a_gpu_has_no_systolic_padding() -> None:
    with pytest.raises(ValueError, match="no systolic matrix unit"):
        figures.padding_staircase("h100_sxm")


@pytest.mark.parametrize("largest", [1, 70000])
def test_a_staircase_has_a_sensible_length(largest: int) -> None:
    with pytest.raises(ValueError, match=f"largest is {largest}"):
        figures.padding_staircase("tpu_v5e", largest=largest)


LAWS = [("volta", "FFMA"), ("hopper", "HFMA2"), ("ampere", "LDG.L1"), ("turing", "FFMA"), ("ampere", "DFMA")]


def off_the_law(name: str, operation: str) -> list[tuple[int, int]]:
    """Return (in flight, warps) at which the simulation is not on the line, or the line is not the law."""
    known = simt.architecture(name).operations[operation]
    figure, wrong = figures.littles_law(name, operation, ilp=[1, 2, 3]), []
    for per_warp, line, marks in zip((1, 2, 3), figure.data[::2], figure.data[1::2], strict=True):
        for warps, share in zip(marks.x, marks.y, strict=True):
            law = min(1.0, warps * per_warp * known.interval / known.latency)
            drawn = np.interp(warps, line.x, line.y)
            if abs(share - law) > 1e-9 or abs(drawn - law) > 1e-9:
                wrong.append((per_warp, warps))
        need = simt.littles_law_warps(known.latency, per_warp, known.interval)
        if f"{per_warp} in flight: {need} warp" not in line.name:
            wrong.append((per_warp, need))
    return wrong


@pytest.mark.parametrize(("name", "operation"), LAWS)
def test_the_simulation_lies_on_littles_law(name: str, operation: str) -> None:
    assert off_the_law(name, operation) == []


def test_mutant_a_warp_fewer_leaves_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    real = simt.simulate
    monkeypatch.setattr(
        simt, "simulate", lambda programs, **how: real([*programs[1:], programs[0]][:-1] or programs, **how)
    )
    assert off_the_law("ampere", "LDG.L1")


def test_mutant_a_greedy_latency_leaves_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    real = simt.simulate

    def sooner(programs: Any, **how: Any) -> Any:
        program = tuple(dataclasses.replace(i, latency=i.latency - 1) for i in programs[0])
        return real([program] * len(programs), **how)

    monkeypatch.setattr(simt, "simulate", sooner)
    assert off_the_law("ampere", "LDG.L1")


def test_mutant_a_law_that_needs_one_more_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    real = simt.littles_law_warps
    monkeypatch.setattr(simt, "littles_law_warps", lambda *given: real(*given) + (given[1] == 2))
    figure = figures.littles_law("ampere", "LDG.L1", ilp=[1, 2])
    monkeypatch.undo()
    assert [("38" in figure.data[0].name), ("19 warps" in figure.data[2].name)] == [True, False]


GAPS = bench.explain_all(
    [run(4096, V5E), run(4096, V5E, seconds=(5e-4,)), run(8, V5E, matmul=Matmul(8, 4096, 4096)), RECORDED]
)


def check_gap_bars(explained: bench.Gaps) -> None:
    """Each bar's parts are the gap's shares, in its row, and are told in words above it."""
    figure = figures.gap_bars(explained)
    assert [trace.name.split(":")[0] for trace in figure.data] == list(gaps.PARTS)
    for row, gap in enumerate(explained):
        assert all(trace.y[row] == -row for trace in figure.data)
        shares = [trace.x[row] for trace in figure.data]
        assert sum(shares) == pytest.approx(1)
        assert shares == [(part.seconds or 0) / gap.measured for part in gap.parts]
        note = figure.layout.annotations[row]
        told = note.text.replace("<br>", " ")
        assert note.y == -row
        for part, share in zip(gap.parts, gap.shares(), strict=True):
            assert part.seconds == 0 or share == "unknown" or f"{part.name} {share}" in told
            assert part.seconds is not None or part.name in told.split("unknown: ")[1]
    low, high = figure.layout.xaxis.range
    assert low <= min(min(trace.x) for trace in figure.data)
    assert high >= max(sum(max(0, trace.x[row]) for trace in figure.data) for row in range(len(explained)))


def test_bars_of_a_gap_are_its_parts_and_are_told_in_words() -> None:
    check_gap_bars(GAPS)
    assert GAPS[1].unexplained < 0  # it beats the model: left of zero


def test_the_check_sees_parts_in_each_other_s_place(monkeypatch: pytest.MonkeyPatch) -> None:
    names = list(gap_figure._PARTS.items())
    monkeypatch.setattr(gap_figure, "_PARTS", dict([names[1], names[0], *names[2:]]))
    with pytest.raises(AssertionError):
        check_gap_bars(GAPS)


def test_the_check_sees_rows_of_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    real = gap_figure._add_part
    monkeypatch.setattr(
        gap_figure,
        "_add_part",
        lambda figure, name, meaning, rows, parts, width: real(
            figure, name, meaning, rows[::-1], parts[::-1], width
        ),
    )
    with pytest.raises(AssertionError):
        check_gap_bars(GAPS)


def test_parts_of_a_gap_differ_by_pattern_and_edge_and_say_why_on_hover() -> None:
    figure = figures.gap_bars(GAPS)
    assert len({trace.marker.line.color for trace in figure.data}) == len(figure.data)
    patterns = [(trace.marker.pattern.shape, trace.marker.color) for trace in figure.data]
    assert len(set(patterns)) == len(patterns)
    told = figure.data[1].hovertext[2].replace("<br>", " ")
    assert GAPS[2].part("memory").reason in told
    assert "recorded 2026-11-30" in figure.layout.annotations[3].text.replace("</b><br><b>", " ")


def test_no_gap_is_refused_with_a_remedy() -> None:
    with pytest.raises(ValueError, match=r"explained is empty; .* bench\.explain"):
        figures.gap_bars([])


def test_a_page_with_a_figure_needs_no_network() -> None:
    page = figures.roofline("tpu_v5e").to_html(include_plotlyjs=False, full_html=False)
    assert "<script src=" not in page


def test_every_event_of_a_timeline_is_one_bar_in_its_lane_at_its_time() -> None:
    figure = figures.timeline(PROFILED)
    bars = [
        bar for trace in figure.data for bar in zip(trace.text, trace.base, trace.x, trace.y, strict=True)
    ]
    assert sorted(bar[:3] for bar in bars) == sorted(
        (event.name, event.start, event.seconds) for event in PROFILED.events
    )
    labels = {label.text.split("</b> ")[1]: label.y for label in figure.layout.annotations}
    assert list(labels) == [lane.name for lane in PROFILED.lanes]
    ends = [*list(labels.values())[1:], figure.layout.yaxis.range[0]]
    for lane, (top, bottom) in enumerate(zip(labels.values(), ends, strict=True)):
        own = {(event.name, event.start) for event in PROFILED.events if event.lane == lane}
        assert {bar[:2] for bar in bars if bottom < bar[3] < top} == own
    low, high = figure.layout.xaxis.range
    assert all(low <= start and start + lasts <= high for _, start, lasts, _ in bars)


def test_bars_of_a_timeline_lie_on_each_other_only_below_the_third_row() -> None:
    rows: dict[float, list[tuple[float, float]]] = {}
    for trace in figures.timeline(PROFILED).data:
        for start, lasts, row in zip(trace.base, trace.x, trace.y, strict=True):
            rows.setdefault(row, []).append((start, start + lasts))
    over = [
        row
        for row, stretches in rows.items()
        if any(b < a - 1e-12 for (_, a), (b, _) in itertools.pairwise(sorted(stretches)))
    ]
    assert len(over) == 1, "six events in each other need seven rows and have four"


def test_kinds_of_events_differ_by_pattern_or_word_beside_their_colour() -> None:
    styles = events._STYLES
    assert set(styles) == set(CATEGORIES)
    assert len({(fill, pattern) for fill, _, pattern in styles.values()}) == len(styles)
    figure = figures.timeline(PROFILED)
    assert [trace.name.split(":")[0] for trace in figure.data] == ["call", "operation", "wait", "runtime"]
    assert "operation on host" in figure.data[1].hovertext[0]


def test_a_timeline_tells_what_it_leaves_out_and_why_it_is_empty() -> None:
    cut = figures.timeline(dataclasses.replace(PROFILED, left_out=17))
    assert "17 shorter ones are left out" in words(cut)
    assert "The profiler gave nothing." in words(
        figures.timeline(Timeline(notes=("The profiler gave nothing.",)))
    )


def kernel(name: str, seconds: float, bytes_moved: int = 10**9, **changes: Any) -> KernelMeasurement:
    plain = KernelMeasurement(
        name=name,
        size=10**6,
        dtype="fp32",
        bytes_moved=bytes_moved,
        device=CPU,
        clock="device",
        seconds=(seconds,) * 3,
        products_per_repeat=10,
        compile_seconds=0.1,
        warmup_calls=3,
        relative_error=0.0,
        versions={"jax": "0.7.2"},
        when="2026-11-30T12:00:00+00:00",
    )
    return dataclasses.replace(plain, **changes)


KERNELS_TIMED = [kernel("sort", 50.0), kernel("reduction", 0.5), kernel("copy", 1.0), kernel("gather", 1e5)]
MEASURED = Ceilings((run(2048), run(matmul=Matmul(512, 512, 512, "fp32"))), (kernel("copy", 1e-3),))


def wrong_shares(figure: go.Figure, timed: Sequence[KernelMeasurement], roof: float) -> list[str]:
    """Name the kernels whose bar does not reach from the roof to their share, or that stand out of order."""
    expected = sorted(((each.bytes_moved / each.median / roof, each.name) for each in timed), reverse=True)
    (bars,) = (trace for trace in figure.data if trace.name.startswith("kernel"))
    labels = [note.text for note in figure.layout.annotations if "<b>" in note.text]
    found = []
    for row, (share, name) in enumerate(expected):
        ends = bars.base[row], bars.base[row] + bars.x[row]
        if ends != pytest.approx((min(1, share), max(1, share))) or bars.y[row] != row:
            found.append(name)
        if f"<b>{name.replace('_', ' ')}</b>" not in labels[row]:
            found.append(f"label of {name}")
    return found


def test_a_bar_reaches_from_the_roof_to_the_share_and_the_largest_stands_on_top() -> None:
    figure = figures.kernel_shares(KERNELS_TIMED, roof=1e9)
    assert wrong_shares(figure, KERNELS_TIMED, 1e9) == []
    assert list(figure.data[0].text) == [
        "200% of the roof",
        "100% of the roof",
        "2% of the roof",
        "1/100,000 of the roof",
    ]
    assert "Example CPU, 2 cores. Roof of memory: 1.00 GB/s, by compulsory bytes." in words(figure)
    assert figure.layout.yaxis.range[0] > figure.layout.yaxis.range[1]


def test_mutant_shares_of_another_roof_or_by_another_time_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert wrong_shares(figures.kernel_shares(KERNELS_TIMED, roof=2e9), KERNELS_TIMED, 1e9)
    monkeypatch.setattr(KernelMeasurement, "share_of", lambda self, roof: self.bytes_moved / 2 / roof)
    assert wrong_shares(figures.kernel_shares(KERNELS_TIMED, roof=1e9), KERNELS_TIMED, 1e9)


def test_what_holds_a_kernel_back_stands_beside_its_bar() -> None:
    notes = " ".join(note.text for note in figures.kernel_shares(KERNELS_TIMED, roof=1e9).layout.annotations)
    assert "comparisons, in about log2(size) passes" in notes
    assert "random reads: a cache line for each element" in notes


def test_a_product_stands_beside_the_kernels_with_its_share_of_its_own_roof() -> None:
    half = run(2048, seconds=(6e-3,) * 3)
    own = MEASURED.as_chip()
    for beside, expected in (((), [1.0, 1.0]), ([half], [0.5])):
        products = figures.kernel_shares(KERNELS_TIMED, MEASURED, beside).data[1]
        rates = [each.flops_per_second for each in (beside or MEASURED.products)]
        roofs = [
            float(roofline.attainable(own, each.matmul.dtype, each.matmul.intensity))
            for each in (beside or MEASURED.products)
        ]
        shares = sorted((rate / most for rate, most in zip(rates, roofs, strict=True)), reverse=True)
        assert [float(text.split("%")[0]) / 100 for text in products.text] == pytest.approx(shares, rel=0.06)
        assert shares == pytest.approx(expected, rel=1e-6)


def test_notes_of_a_kernel_are_told_where_its_bar_is_touched() -> None:
    noted = kernel("sort", 1.0, notes=("It may stay in caches.",))
    assert "It may stay in caches." in figures.kernel_shares([noted], roof=1e9).data[0].hovertext[0]


def test_kernels_without_a_roof_or_of_several_devices_are_refused() -> None:
    with pytest.raises(ValueError, match=r"runs is empty; .* bench.time_kernels"):
        figures.kernel_shares([], roof=1e9)
    with pytest.raises(ValueError, match="roof is 0"):
        figures.kernel_shares(KERNELS_TIMED, roof=0)
    with pytest.raises(ValueError, match=r"pass roof=bench.ceilings\(\)"):
        figures.kernel_shares(KERNELS_TIMED, roof=1e9, products=[run()])
    with pytest.raises(ValueError, match="hold no bandwidth"):
        figures.kernel_shares(KERNELS_TIMED, Ceilings((run(),), ()))
    with pytest.raises(ValueError, match="Example CPU, 2 cores and TPU v5 lite, but one roof"):
        figures.kernel_shares([*KERNELS_TIMED, kernel("sort", 1.0, device=V5E)], roof=1e9)
