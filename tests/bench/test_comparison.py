"""What is compared is the same work by the same clock; the ratio says how sure it is, the rest is named."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from pulsewarp import bench, figures
from pulsewarp.bench import comparison
from pulsewarp.bench.measurement import Measurement
from pulsewarp.matmul import Matmul

EXAMPLE = dataclasses.replace(
    bench.recorded()[0], matmul=Matmul(8, 8, 8, "fp32"), precision="highest", clock="device"
)


def run(seconds: Sequence[float] = (1.0, 1.1, 0.9, 1.0, 1.05, 0.95), **changes: Any) -> Measurement:
    return dataclasses.replace(EXAMPLE, seconds=tuple(seconds), **changes)


def shaped(m: int, **changes: Any) -> Measurement:
    return run(matmul=Matmul(m, 8, 8, "fp32"), **changes)


def test_a_ratio_is_that_of_the_medians_and_its_interval_holds_it() -> None:
    (row,) = bench.compare([run()], [run([2 * second for second in run().seconds])]).rows
    assert row.ratio == pytest.approx(2.0)
    assert row.low is not None and row.high is not None and row.low <= row.ratio <= row.high
    assert row.verdict == "slower"
    (back,) = bench.compare([row.second], [row.first]).rows
    assert back.ratio == pytest.approx(0.5) and back.verdict == "faster"


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    random = np.random.default_rng(1)
    covered = 0
    for _ in range(60):
        first, second = (random.lognormal(0, 0.2, 25) for _ in range(2))
        low, high = comparison._interval(first.tolist(), (1.5 * second).tolist())
        assert low is not None and high is not None
        covered += low <= 1.5 <= high
    assert 52 <= covered < 60  # 95 % of 60 is 57; always would mean that it is too wide


def test_the_same_runs_give_the_same_interval_whatever_stands_beside_them() -> None:
    first, second = shaped(2), shaped(2, seconds=[1.2, 1.1, 1.0, 1.3, 1.15])
    alone = bench.compare([first], [second]).rows[0]
    among = bench.compare([shaped(4), first], [second, shaped(4)]).rows[1]
    assert (alone.low, alone.high) == (among.low, among.high)


def test_ten_thousand_repeats_are_compared_in_little_memory() -> None:
    random = np.random.default_rng(2)
    many = random.lognormal(0, 0.1, 10_000).tolist()
    low, high = comparison._interval(many, many)
    assert low is not None and high is not None and 0.99 < low < 1 < high < 1.01


def test_few_repeats_make_no_interval() -> None:
    (row,) = bench.compare([run()], [run([9.0, 9.0, 9.0, 9.0])]).rows
    assert (row.low, row.high, row.verdict) == (None, None, "too few repeats")


def test_clocks_are_never_mixed() -> None:
    compared = bench.compare([run(clock="device")], [run(clock="call")], names=("a", "b"))
    assert compared.rows == ()
    assert compared.only_first == (run(clock="device"),) and compared.only_second == (run(clock="call"),)
    assert compared.differences == (
        "8 x 8 x 8 fp32 was timed by the device clock in a and by the call clock in b: not compared.",
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"matmul": Matmul(8, 8, 9, "fp32")},
        {"matmul": Matmul(8, 8, 8, "bf16"), "stored": "bfloat16"},
        {"batch": 2},
        {"transposed": "b"},
    ],
)
def test_other_work_is_not_the_same_row(changes: dict[str, Any]) -> None:
    compared = bench.compare([run()], [run(**changes)])
    assert compared.rows == () and len(compared.only_first) == len(compared.only_second) == 1


def test_another_precision_is_compared_only_where_nothing_else_could_be_meant() -> None:
    (row,) = bench.compare([run(precision="highest")], [run(precision="default")]).rows
    assert row.differences == ("precision highest against default",)
    several = [run(precision="default"), run(precision="high")]
    assert bench.compare([run(precision="highest")], several).rows == ()
    exact = bench.compare([run(precision="highest")], [run(precision="default"), run(precision="highest")])
    assert [each.differences for each in exact.rows] == [()] and len(exact.only_second) == 1


def test_rows_of_one_product_in_several_precisions_are_told_apart() -> None:
    runs = [run(precision=word) for word in ("default", "high", "highest")] + [shaped(2)]
    compared = bench.compare(runs, runs)
    assert [row.title for row in compared.rows] == [
        *(f"8 x 8 x 8 fp32 at {word}, device clock" for word in ("default", "high", "highest")),
        "2 x 8 x 8 fp32, device clock",
    ]
    assert [row["precisions"] for row in compared.to_dict()["rows"]][:2] == [["default"] * 2, ["high"] * 2]


def test_what_the_program_made_of_the_precision_is_named() -> None:
    (row,) = bench.compare([run()], [run(precision_in_program="default")]).rows
    assert row.differences == ("precision in the program highest against default",)


def test_devices_and_versions_that_differ_are_named_once() -> None:
    device = dataclasses.replace(EXAMPLE.device, platform="gpu", kind="NVIDIA H200", chip="h200", cores=9)
    other = {"device": device, "versions": {**EXAMPLE.versions, "jax": "9.9", "new": "1"}}
    compared = bench.compare(
        [shaped(2), shaped(4)], [shaped(2, **other), shaped(4, **other)], names=("a", "b")
    )
    assert len(compared.rows) == 2
    assert set(compared.differences) == {
        "Platform: cpu in a, gpu in b.",
        f"Device: {EXAMPLE.device.kind} in a, NVIDIA H200 in b.",
        "Chip of the catalogue: None in a, h200 in b.",
        f"Cores of the host: {EXAMPLE.device.cores} in a, 9 in b.",
        f"jax: {EXAMPLE.versions['jax']} in a, 9.9 in b.",
        "new: none in a, 1 in b.",
    }


def test_every_device_field_is_told() -> None:
    assert set(comparison._DEVICE_WORDS) == {field.name for field in dataclasses.fields(EXAMPLE.device)}


def test_of_several_measurements_of_one_thing_the_last_is_taken_and_said() -> None:
    compared = bench.compare([run([9.0] * 5), run([2.0] * 5)], [run([1.0] * 5)], names=("a", "b"))
    assert [row.ratio for row in compared.rows] == [0.5]
    assert compared.differences == ("a has 1 row measured again later; the last one counts.",)


def test_rows_keep_the_order_of_the_first_and_the_unmatched_are_listed() -> None:
    first = [shaped(4, precision="highest"), shaped(2), shaped(3)]
    second = [shaped(3), shaped(4, precision="default"), shaped(5)]
    compared = bench.compare(first, second, names=("a", "b"))
    assert [row.first.matmul.m for row in compared.rows if isinstance(row.first, Measurement)] == [4, 3]
    assert "Only in a: 2 x 8 x 8 fp32, device clock, precision highest." in repr(compared)
    assert "Only in b: 5 x 8 x 8 fp32, device clock, precision highest." in repr(compared)


def test_json_holds_all_that_the_table_shows() -> None:
    compared = bench.compare([shaped(2), shaped(3)], [shaped(2), shaped(4)], names=("a", "b"))
    data = json.loads(json.dumps(compared.to_dict(), allow_nan=False))
    (row,) = data["rows"]
    assert row["ratio"] == 1.0 and row["verdict"] == "no difference seen" and row["clock"] == "device"
    assert len(data["only_first"]) == len(data["only_second"]) == 1
    assert data["interval"] == {"coverage": 0.95, "resamples": 2000, "seed": 0, "fewest_repeats": 5}


def test_the_figure_shows_each_ratio_with_its_interval_and_fills_what_is_settled() -> None:
    slower, same, few = shaped(2, seconds=[2.0] * 6), shaped(3), shaped(4, seconds=[3.0] * 2)
    compared = bench.compare([shaped(2), shaped(3), shaped(4)], [slower, same, few])
    (trace,) = figures.ratios(compared).data
    assert list(trace.x) == [row.ratio for row in compared.rows]
    assert trace.marker.symbol == ("circle", "circle-open", "circle-open")
    ends = [row.high - row.ratio if row.high else 0.0 for row in compared.rows]
    assert list(trace.error_x.array) == pytest.approx(ends)
    with pytest.raises(ValueError, match="no row in common"):
        figures.ratios(bench.compare([shaped(2)], [shaped(3)]))


@pytest.mark.wrong_type
def test_what_cannot_be_compared_gets_one_sentence() -> None:
    with pytest.raises(ValueError, match="second is empty"):
        bench.compare([run()], [])
    with pytest.raises(TypeError, match=r"bench\.load"):
        bench.compare([run()], [3])  # type: ignore[list-item]  # wrong on purpose
    with pytest.raises(TypeError, match=r"bench\.load"):
        bench.compare(run(), [run()])  # type: ignore[arg-type]  # wrong on purpose
