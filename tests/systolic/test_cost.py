"""The closed forms: exact on every row of two published simulators, and on every small run of our own."""

from __future__ import annotations

import csv
import inspect
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsewarp import systolic
from pulsewarp.systolic import busy, cost

pytestmark = pytest.mark.exhaustive

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


# Faults in the counting, each a change of one expression, and the files of rows that must notice.
ROWS = {
    "systolic_gemm.csv": lambda row: agrees_with_scalesim(row, gemm_of(row, "scalesim", row["dataflow"])),
    "systolic_conv.csv": lambda row: agrees_with_scalesim(row, conv_of(row)),
    "stonne_os_gemm.csv": lambda row: gemm_of(row, "stonne", "os").cycles == int(row["stonne_cycles"]),
}
COUNTING_FAULTS = {
    "a row of folds dropped": ("-(-row_extent // rows)", "max(1, row_extent // rows)"),
    "a column of folds dropped": ("-(-col_extent // cols)", "max(1, col_extent // cols)"),
    "a fold too many": ("folds = row_tiles * col_tiles", "folds = row_tiles * col_tiles + 1"),
    "loading forgotten": ("per_fold = 2 * rows + cols", "per_fold = rows + cols"),
    "skew forgotten": ("2 * rows + cols + stream - 2", "2 * rows + stream"),
    "a cycle late": ("cycles = folds * per_fold - 1", "cycles = folds * per_fold"),
    "drain counted": ("if not flow.loads:", "if False:"),
    "held read again": ("crossings[flow.right]", "crossings[flow.held]"),
    "moving read once": ("crossings[flow.right] *= col_tiles", "pass"),
    "sums written once": ("crossings[flow.down] *= row_tiles", "pass"),
}
STONNE_FAULTS = {
    "a cut tile dropped": ("(row_extent % rows, 1)", "(0, 1)"),
    "a cut tile as large as any": ("(row_extent % rows, 1)", "(rows, row_extent % rows > 0)"),
    "the lone row forgotten": (" - (r == 1 or c == 1)", ""),
}


@pytest.mark.parametrize("name", [*COUNTING_FAULTS, *STONNE_FAULTS])
def test_the_rows_notice_a_fault_in_the_counting(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stonne = name in STONNE_FAULTS
    before, after = (COUNTING_FAULTS | STONNE_FAULTS)[name]
    function = cost._stonne_cycles if stonne else cost._count
    source = inspect.getsource(function)
    assert source.count(before) == 1
    faulty: dict[str, Any] = {}
    exec(source.replace(before, after), {**vars(cost)}, faulty)
    monkeypatch.setattr(cost, function.__name__, faulty[function.__name__])
    for file, agrees in ROWS.items():
        if file.startswith("stonne") == stonne:
            assert not all(agrees(row) for row in rows_of(file)), file


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
    assert repr(systolic.gemm(m=10, k=8, n=4, rows=4, cols=4, overlap=True)) == (
        "GemmCost(ws, 4x4 cells, 10x8 by 8x4: 2 overlapping folds, 30 cycles, 66.7 % used, "
        "convention register)"
    )


# --- which cells work when, and folds that overlap --------------------------------------------------------

FLOWS = st.sampled_from(["ws", "os", "is"])
ROLES = {"ws": ("k", "n", "m"), "os": ("m", "n", "k"), "is": ("k", "m", "n")}  # rows, columns, time


def stepped(found: systolic.GemmCost) -> np.ndarray:
    """Count the working cells of each cycle one fold and one cell at a time, from the rule in words."""
    row_axis, col_axis, time_axis = ROLES[found.dataflow]
    row_extent, col_extent, stream = (getattr(found, axis) for axis in (row_axis, col_axis, time_axis))
    load = 0 if found.dataflow == "os" else found.rows
    begin, cells = load, np.zeros(found.cycles, np.int64)
    for col0 in range(0, col_extent, found.cols):
        for row0 in range(0, row_extent, found.rows):
            for r in range(min(found.rows, row_extent - row0)):
                for c in range(min(found.cols, col_extent - col0)):
                    cells[begin + r + c : begin + r + c + stream] += 1
            # The next stream: when the next tile is there and the present stream has gone in, or, without
            # a shadow register, when everything of this fold has ended.
            serial = 2 * found.rows + found.cols + stream - 2
            begin += max(found.rows, stream) if found.overlap else serial
    return cells


def disagrees(found: systolic.GemmCost) -> list[str]:
    """Name what the closed forms of a cost do not share with the stepped count."""
    cycles, cells = np.arange(found.cycles), stepped(found)
    checks = {
        "busy": np.array_equal(found.busy(cycles), cells),
        "macs": np.array_equal(found.macs(cycles), np.cumsum(cells)),
        "end": np.all(found.busy(np.array([-1, -50, found.cycles, found.cycles + 50])) == 0),
        "one": found.busy(found.cycles // 2) == cells[found.cycles // 2],
        "total": found.macs(10 * found.cycles) == found.m * found.n * found.k,
        "over": cells.max() <= found.rows * found.cols,
    }
    return [name for name, holds in checks.items() if not holds]


@given(SIZE, SIZE, SIZE, st.integers(1, 5), st.integers(1, 5), FLOWS, st.booleans())
def test_the_closed_form_of_busy_cells_is_the_stepped_count(
    m: int, k: int, n: int, rows: int, cols: int, dataflow: str, overlap: bool
) -> None:
    found = systolic.gemm(m=m, k=k, n=n, rows=rows, cols=cols, dataflow=dataflow, overlap=overlap)
    assert disagrees(found) == []


@given(SIZE, SIZE, SIZE, st.integers(1, 5), st.integers(1, 5), FLOWS, st.booleans())
def test_busy_cells_folds_and_phases_are_those_of_the_run(
    m: int, k: int, n: int, rows: int, cols: int, dataflow: str, overlap: bool
) -> None:
    array: dict[str, Any] = {"rows": rows, "cols": cols, "dataflow": dataflow, "overlap": overlap}
    found = systolic.gemm(m=m, k=k, n=n, **array)
    trace = systolic.simulate(np.ones((m, k), np.int8), np.ones((k, n), np.int8), **array)
    assert found.cycles == trace.cycles
    assert np.array_equal(found.busy(np.arange(found.cycles)), trace.schedule.busy)
    assert found.plan() == trace.folds
    assert (found.row_tiles * found.col_tiles, found.stream) == (found.folds, trace.sizes[ROLES[dataflow][2]])
    if not overlap or found.folds == 1:
        lengths = np.bincount(trace.phase[: found.cycles_per_fold], minlength=len(systolic.PHASES))
        assert lengths.tolist() == [found.load, found.fill, found.steady, found.drain]


MUTANTS = {
    "a fold dropped": ("working", lambda series: (series[0]._replace(folds=series[0].folds - 1),)),
    "a cycle late": ("working", lambda series: tuple(s._replace(first=s.first + 1) for s in series)),
    "no cut tiles": ("working", lambda series: series[:1]),
    "a step too wide": ("working", lambda series: tuple(s._replace(apart=s.apart + 1) for s in series)),
    "a fold twice": ("formed", lambda series: (*series, series[-1]._replace(folds=1))),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_fault_in_the_closed_form_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    which, change = MUTANTS[name]
    honest = getattr(busy, which)
    for overlap in (False, True):
        found = systolic.gemm(m=5, k=7, n=5, rows=4, cols=3, overlap=overlap)
        monkeypatch.undo()
        assert disagrees(found) == []
        monkeypatch.setattr(busy, which, lambda t, series, stream: honest(t, change(series), stream))
        assert disagrees(found)


@given(SIZE, SIZE, SIZE, SIZE, SIZE, FLOWS)
def test_overlap_hides_what_lies_between_folds(
    m: int, k: int, n: int, rows: int, cols: int, dataflow: str
) -> None:
    sizes = {"m": m, "k": k, "n": n, "rows": rows, "cols": cols, "dataflow": dataflow}
    serial, early = systolic.gemm(**sizes), systolic.gemm(**sizes, overlap=True)
    assert early.cycles_per_fold == serial.cycles_per_fold
    assert early.cycles == serial.cycles_per_fold + (serial.folds - 1) * max(rows, early.stream)
    assert early.cycles <= serial.cycles and (early.folds > 1 or early.cycles == serial.cycles)
    for count in ("sram_reads_a", "sram_reads_b", "sram_reads_partial", "sram_writes_out"):
        assert getattr(early, count) == getattr(serial, count)


def test_with_a_long_stream_overlap_leaves_one_fill_and_one_drain() -> None:
    found = systolic.gemm(m=4096, k=1024, n=1024, rows=128, cols=128, overlap=True)
    assert found.cycles == 64 * 4096 + 2 * 128 + 128 - 2
    assert found.busy(np.array([128 + 254, 128 + 64 * 4096 - 1])).tolist() == [128**2, 128**2]
    assert found.utilization > 0.998


@given(SIZE, SIZE, SIZE, SIZE, FLOWS, st.booleans())
def test_what_full_tiles_would_do_bounds_what_is_done(
    m: int, k: int, n: int, side: int, dataflow: str, overlap: bool
) -> None:
    found = systolic.gemm(m=m, k=k, n=n, rows=side, cols=side, dataflow=dataflow, overlap=overlap)
    cycles = np.arange(found.cycles)
    assert found.padded.cycles == found.cycles and found.padded.mapping_efficiency == 1
    assert np.all(found.busy(cycles) <= found.padded.busy(cycles))
    assert found.macs(found.cycles) == pytest.approx(
        found.mapping_efficiency * found.padded.macs(found.cycles)
    )


def test_sizes_far_beyond_int64_are_counted_exactly() -> None:
    found = systolic.gemm(m=10**9, k=10**9, n=10**9, rows=10**6, cols=10**3, overlap=True)
    assert found.macs(found.cycles - 1) == 10**27
    assert found.busy(found.cycles // 2) == 10**9


@given(SIZE, SIZE, SIZE, st.integers(1, 60))
def test_utilization_over_time_averages_to_utilization(m: int, k: int, n: int, bins: int) -> None:
    found = systolic.gemm(m=m, k=k, n=n, rows=3, cols=4, overlap=True)
    over_time = found.utilization_over_time(bins)
    assert over_time.size == min(bins, found.cycles)
    edges = -(-np.arange(over_time.size + 1) * found.cycles // over_time.size)
    assert float((over_time * np.diff(edges)).sum()) == pytest.approx(found.utilization * found.cycles)


def test_each_convention_stands_beside_the_others_with_its_reason() -> None:
    for dataflow in ("ws", "os", "is"):
        found = systolic.gemm(m=9, k=8, n=7, rows=4, cols=4, dataflow=dataflow)
        rows = {row.convention: row for row in found.conventions()}
        assert tuple(rows) == cost.CONVENTIONS
        for convention, row in rows.items():
            if convention == "stonne" and dataflow != "os":
                assert row.cycles is None and "output-stationary only" in row.reason
                continue
            sizes = {"m": 9, "k": 8, "n": 7, "rows": 4, "cols": 4, "dataflow": dataflow}
            other = systolic.gemm(**sizes, convention=convention)
            assert row.cycles == other.cycles and row.reason.endswith(".")
            assert other.conventions() == found.conventions()
    early = systolic.gemm(m=9, k=8, n=7, rows=4, cols=4, overlap=True).conventions()
    assert early[0].cycles < early[1].cycles and "no tile while another works" in early[1].reason


@given(SIZE, SIZE, SIZE, st.integers(1, 5), st.integers(1, 5), FLOWS, st.booleans(), st.integers(0, 99))
def test_a_cost_verifies_itself_in_every_frame(
    m: int, k: int, n: int, rows: int, cols: int, dataflow: str, overlap: bool, t: int
) -> None:
    found = systolic.gemm(m=m, k=k, n=n, rows=rows, cols=cols, dataflow=dataflow, overlap=overlap)
    report = found.verify(cycle=min(t, found.cycles - 1))
    assert report.passed and len(report.checks) == 6, report
    assert found.verify().checks == report.checks[:-1]


@pytest.mark.parametrize(
    ("field", "seen_by"),
    [
        ("cycles", "closed form"),
        ("folds", "closed form"),
        ("utilization", "shares"),
        ("mapping_efficiency", "shares"),
        ("sram_reads_a", "traffic"),
        ("sram_reads_b", "traffic"),
        ("sram_reads_partial", "traffic"),
        ("sram_writes_out", "traffic"),
    ],
)
@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
def test_verify_sees_a_wrong_count(field: str, seen_by: str, dataflow: str) -> None:
    found = systolic.gemm(m=5, k=7, n=6, rows=4, cols=3, dataflow=dataflow)
    wrong = replace(found, **{field: getattr(found, field) + 1})
    assert {check.name for check in wrong.verify().checks if not check.passed} >= {seen_by}


@pytest.mark.parametrize("name", MUTANTS)
def test_verify_sees_a_fault_in_the_closed_form(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    which, change = MUTANTS[name]
    honest = getattr(busy, which)
    found = systolic.gemm(m=5, k=7, n=5, rows=4, cols=3, overlap=True)
    monkeypatch.setattr(busy, which, lambda t, series, stream: honest(t, change(series), stream))
    assert not all(found.verify(cycle=t).passed for t in range(found.cycles))


def test_verify_says_what_it_counted() -> None:
    found = systolic.gemm(m=64, k=129, n=129, rows=128, cols=128)
    assert [check.says for check in found.verify(cycle=256).checks] == [
        "4 folds hold 16641 elements, each meets 64 of the stream: 1065024 products of 64 x 129 x 129; "
        "in closed form 1065024",
        "4 folds of 446 cycles, one by one, end after 1784 cycles; by formula 1784",
        "16641 of 65536 cells hold an element, 25.4 %; 3.6 % of 29229056 cell-cycles form a product",
        "fold by fold 16512 elements of A, 16641 of B and 8256 partial sums enter, 16512 sums leave",
        "streams of 64 steps begin at least 446 cycles apart",
        "6238 cells counted one by one in cycle 256; in closed form 6238",
    ]


def test_verify_refuses_a_cycle_outside_the_run() -> None:
    with pytest.raises(ValueError, match=r"cycle is 14, but must be.*at most 13"):
        systolic.gemm(m=4, k=4, n=4, rows=4, cols=4).verify(cycle=14)


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
        (systolic.gemm, GEMM | {"convention": "scalesim", "overlap": True}, "'scalesim' knows no overlap"),
        (
            systolic.conv,
            CONV | {"convention": "stonne", "dataflow": "os", "overlap": True},
            "'stonne' knows no overlap.*overlap=False",
        ),
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


@pytest.mark.parametrize("convention", ["scalesim", "stonne"])
@pytest.mark.parametrize(
    "ask", [lambda c: c.busy(0), lambda c: c.macs(0), lambda c: c.fill, lambda c: c.padded]
)
def test_other_conventions_have_no_schedule(convention: str, ask: Any) -> None:
    with pytest.raises(ValueError, match=f"'{convention}' counts cycles in all.*convention='register'"):
        ask(systolic.gemm(**GEMM, dataflow="os", convention=convention))


@pytest.mark.wrong_type
@pytest.mark.parametrize("t", [1.5, "3", None, np.array([0.5])])
def test_a_cycle_that_is_no_whole_number_gets_a_sentence(t: Any) -> None:
    with pytest.raises(ValueError, match="must be a cycle or an array of cycles"):
        systolic.gemm(**GEMM).busy(t)
