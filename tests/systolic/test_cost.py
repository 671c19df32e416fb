"""The closed forms: exact on every row of two published simulators, and on every small run of our own."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsewarp import systolic
from pulsewarp.systolic import cost

REFERENCE = Path(__file__).parents[1] / "reference"


def rows_of(name: str) -> list[dict[str, str]]:
    with (REFERENCE / name).open(newline="") as file:
        return list(csv.DictReader(file))


def gemm_of(row: dict[str, str], convention: str, dataflow: str) -> systolic.GemmCost:
    sizes = {"m": int(row["M"]), "k": int(row["K"]), "n": int(row["N"])}
    array = {"rows": int(row["rows"]), "cols": int(row["cols"])}
    return systolic.gemm(**sizes, **array, dataflow=dataflow, convention=convention)


def conv_of(row: dict[str, str], **changes: Any) -> systolic.GemmCost:
    names = {
        "in_h": "in_h",
        "in_w": "in_w",
        "filter_h": "filt_h",
        "filter_w": "filt_w",
        "channels": "in_ch",
        "filters": "out_ch",
        "stride": "stride",
        "rows": "rows",
        "cols": "cols",
    }
    arguments: dict[str, Any] = {name: int(row[column]) for name, column in names.items()}
    return systolic.conv(**(arguments | {"dataflow": row["dataflow"], "convention": "scalesim"} | changes))


def agrees_with_scalesim(row: dict[str, str], found: systolic.GemmCost) -> bool:
    counts = (found.cycles, found.sram_reads_a, found.sram_reads_b, found.sram_writes_out)
    columns = ("total_cycles", "sram_ifmap_reads", "sram_filter_reads", "sram_ofmap_writes")
    return (
        counts == tuple(int(row[column]) for column in columns)
        and math.isclose(100 * found.utilization, float(row["overall_util_pct"]), rel_tol=1e-13)
        and math.isclose(100 * found.mapping_efficiency, float(row["mapping_eff_pct"]), rel_tol=1e-13)
        and found.cycles_per_fold * found.folds - 1 == found.cycles
    )


def test_every_scalesim_gemm_row_is_exact() -> None:
    rows = rows_of("systolic_gemm.csv")
    wrong = [
        row["case"]
        for row in rows
        if not agrees_with_scalesim(row, gemm_of(row, "scalesim", row["dataflow"]))
    ]
    assert (len(rows), wrong) == (481, [])


def test_every_scalesim_convolution_row_is_exact() -> None:
    rows = rows_of("systolic_conv.csv")
    wrong = [row["case"] for row in rows if not agrees_with_scalesim(row, conv_of(row))]
    assert (len(rows), wrong) == (191, [])
    for row in rows:
        found = conv_of(row)
        assert (found.m, found.n, found.k) == tuple(int(row[f"gemm_{letter}"]) for letter in "MNK")


def test_other_conventions_count_the_true_size_of_a_convolution() -> None:
    rows = rows_of("systolic_conv.csv")
    assert any(row["tool_out_h"] != row["floor_out_h"] for row in rows)
    for row in rows:
        assert conv_of(row, convention="register").m == int(row["floor_out_h"]) * int(row["floor_out_w"])


def test_every_stonne_row_is_exact() -> None:
    rows = rows_of("stonne_os_gemm.csv")
    wrong = [row["case"] for row in rows if gemm_of(row, "stonne", "os").cycles != int(row["stonne_cycles"])]
    assert (len(rows), wrong) == (150, [])


@pytest.mark.parametrize("name", ["systolic_gemm.csv", "stonne_os_gemm.csv"])
def test_the_rows_would_notice_a_fold_too_few(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = cost._count

    def one_row_tile_less(flow: Any, sizes: dict[Any, int], *rest: Any) -> systolic.GemmCost:
        short = dict(sizes)
        short[flow.row_axis] = max(1, sizes[flow.row_axis] - rest[0])
        return honest(flow, short, *rest)

    monkeypatch.setattr(cost, "_count", one_row_tile_less)
    row = next(row for row in rows_of(name) if int(row["M"]) > int(row["rows"]) < int(row["K"]))
    if name == "systolic_gemm.csv":
        assert not agrees_with_scalesim(row, gemm_of(row, "scalesim", row["dataflow"]))
    else:
        assert gemm_of(row, "stonne", "os").cycles != int(row["stonne_cycles"])


SIZE = st.integers(1, 9)


@given(SIZE, SIZE, SIZE, SIZE, SIZE, st.sampled_from(["ws", "os", "is"]))
def test_the_register_convention_counts_what_the_array_does(
    m: int, k: int, n: int, rows: int, cols: int, dataflow: str
) -> None:
    found = systolic.gemm(m=m, k=k, n=n, rows=rows, cols=cols, dataflow=dataflow)
    trace = systolic.simulate(
        np.ones((m, k), np.int8), np.ones((k, n), np.int8), rows=rows, cols=cols, dataflow=dataflow
    )
    assert found.cycles == trace.cycles
    assert found.folds == len(trace.folds)
    assert found.cycles_per_fold == trace.folds[0].cycles
    assert found.utilization == trace.active.mean()
    assert found.sram_writes_out == len(trace.exits())
    assert found.mapping_efficiency == pytest.approx((trace.start >= 0).mean())


@given(SIZE, SIZE, SIZE, SIZE, st.sampled_from(["ws", "os", "is"]), st.sampled_from(cost.CONVENTIONS))
def test_a_larger_product_never_costs_less(
    m: int, k: int, n: int, side: int, dataflow: str, convention: str
) -> None:
    if convention == "stonne":
        dataflow = "os"
    options = {"rows": side, "cols": side, "dataflow": dataflow, "convention": convention}
    base = systolic.gemm(m=m, k=k, n=n, **options)
    for larger in ({"m": m + 1}, {"k": k + 1}, {"n": n + 1}):
        assert systolic.gemm(**({"m": m, "k": k, "n": n} | larger), **options).cycles >= base.cycles


def test_the_contract_of_issue_sizes() -> None:
    found = systolic.gemm(m=512, k=512, n=512, rows=128, cols=128)
    assert (found.folds, found.cycles_per_fold, found.cycles) == (16, 894, 14_304)
    assert found.utilization == 512**3 / (14_304 * 128**2)


def test_one_index_above_the_array_leaves_three_quarters_of_the_cells_idle() -> None:
    assert systolic.gemm(m=64, k=129, n=129, rows=128, cols=128).mapping_efficiency == pytest.approx(
        0.254, abs=1e-3
    )


def test_sizes_of_any_length_are_counted_without_a_loop() -> None:
    found = systolic.gemm(m=10**9, k=10**9, n=10**9, rows=1, cols=1, dataflow="os", convention="stonne")
    assert found.cycles == 10**18 * (10**9 + 4)


def test_no_cycles_give_no_utilization() -> None:
    found = systolic.gemm(m=1, k=1, n=1, rows=1, cols=1, dataflow="os", convention="scalesim")
    assert found.cycles == 0
    assert math.isnan(found.utilization)


def test_repr_is_short_and_stable() -> None:
    assert repr(systolic.gemm(m=10, k=4, n=4, rows=4, cols=4)) == (
        "GemmCost(ws, 4x4 cells, 10x4 by 4x4: 1 fold, 20 cycles, 50.0 % used, convention register)"
    )


GEMM = {"m": 1, "k": 1, "n": 1, "rows": 1, "cols": 1}
CONV = {"in_h": 5, "in_w": 5, "filter_h": 3, "filter_w": 3, "channels": 1, "filters": 1, "rows": 2, "cols": 2}


@pytest.mark.parametrize(
    ("count", "arguments", "says"),
    [
        (systolic.gemm, GEMM | {"m": 0}, "m is 0, but must be a whole number of at least 1"),
        (systolic.gemm, GEMM | {"cols": -1}, "cols is -1, but must be a whole number of at least 1"),
        (systolic.gemm, GEMM | {"dataflow": "osx"}, "Unknown dataflow 'osx'.*Did you mean 'os'"),
        (systolic.gemm, GEMM | {"convention": "scale-sim"}, "Unknown convention.*Did you mean 'scalesim'"),
        (
            systolic.gemm,
            GEMM | {"convention": "stonne"},
            "knows the dataflow os only, not 'ws'; use dataflow='os'",
        ),
        (
            systolic.conv,
            CONV | {"filter_w": 6},
            "filter_w is 6, but must be.*at most 5. A filter fits into its image",
        ),
        (systolic.conv, CONV | {"stride": 0}, "stride is 0, but must be a whole number of at least 1"),
        (systolic.conv, CONV | {"channels": 0}, "channels is 0, but must be"),
        (systolic.conv, CONV | {"convention": "tool"}, "Unknown convention 'tool'"),
    ],
)
def test_bad_input_gets_one_sentence(count: Any, arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        count(**arguments)


def test_unknown_keywords_name_the_nearest() -> None:
    with pytest.raises(
        TypeError, match=r"gemm does not know the keyword 'dataflw'\. Did you mean 'dataflow'"
    ):
        systolic.gemm(**GEMM, dataflw="ws")
    with pytest.raises(
        TypeError, match=r"conv does not know the keyword 'filterh'\. Did you mean 'filter_h'"
    ):
        systolic.conv(**CONV, filterh=3)
