"""What the systolic player sends is what the simulator recorded."""

import dataclasses

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsewarp import ledger, systolic
from pulsewarp.systolic import PHASES
from pulsewarp.widgets import _wire
from pulsewarp.widgets.systolic import LEDGER, SystolicPlayer, chosen, pack_runs, pack_trace, telling_cycle

sizes = st.integers(1, 6)


@st.composite
def traces(draw):
    m, k, n, rows, cols = (draw(sizes) for _ in range(5))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    a, b = rng.integers(-9, 9, (m, k)), rng.integers(-9, 9, (k, n))
    return systolic.simulate(a, b, rows=rows, cols=cols, dataflow=draw(st.sampled_from(["ws", "os", "is"])))


def differences(text, trace):
    """Name the columns of a packed trace that are not the trace's own."""
    _, columns = _wire.unpack(text)
    bill = ledger.systolic(trace)
    wanted = {
        "a": trace.a,
        "b": trace.b,
        "result": trace.result,
        "phase": trace.phase,
        "exits": trace.exits(),
    }
    wanted |= {name: getattr(trace, name) for name in ("held", "right", "down", "held_index", "right_index")}
    wanted |= {"down_index": trace.down_index, "active": trace.active, "busy": bill.busy}
    wanted |= {"start": trace.start.reshape(-1, trace.cols), "length": trace.length.reshape(-1, trace.cols)}
    wanted |= {name: getattr(bill, name) for name in LEDGER}
    return [name for name, values in wanted.items() if not np.array_equal(columns[name], values)]


@given(traces())
def test_every_column_is_the_traces_own(trace):
    assert differences(pack_trace(trace), trace) == []


def test_a_shifted_column_is_seen(monkeypatch):
    """A mutant: registers one cycle late."""
    trace = systolic.simulate([[1, 2], [3, 4]], [[5, 6], [7, 8]], rows=2, cols=2)
    honest = _wire.pack
    monkeypatch.setattr(
        "pulsewarp.widgets.systolic.pack",
        lambda kind, header, columns, codings: honest(
            kind, header, {**columns, "right": np.roll(columns["right"], 1, axis=0)}, codings
        ),
    )
    assert differences(pack_trace(trace), trace) == ["right"]


def test_several_runs_cross_in_one_text():
    runs = {
        flow: systolic.simulate([[1, 2], [3, 4]], [[5, 6], [7, 8]], rows=2, cols=2, dataflow=flow)
        for flow in ("ws", "os")
    }
    header, columns = _wire.unpack(pack_runs("several", {"title": "two"}, runs))
    assert header["title"] == "two" and list(header["runs"]) == ["ws", "os"]
    for flow, trace in runs.items():
        alone, own = _wire.unpack(pack_trace(trace))
        assert header["runs"][flow].items() <= alone.items()
        assert all(np.array_equal(columns[f"{flow}.{name}"], values) for name, values in own.items())


@given(traces())
def test_each_result_has_its_last_exit(trace):
    _, columns = _wire.unpack(pack_trace(trace))
    exits = trace.exits()
    final = {(m, n): cycle for cycle, _, m, n, is_final in exits.tolist() if is_final}
    assert {(m, n): int(columns["final"][m, n]) for m in range(trace.m) for n in range(trace.n)} == final


@given(traces())
def test_first_frame_is_a_cycle_in_which_cells_work(trace):
    t = telling_cycle(trace)
    assert 0 <= t < trace.cycles
    assert ledger.systolic(trace).busy[t] > 0 or PHASES.index("fill") not in trace.phase


def test_large_runs_send_operands_and_schedule_only():
    trace = systolic.simulate(np.ones((4, 16), np.int8), np.ones((16, 16), np.int8), rows=16, cols=16)
    _, columns = _wire.unpack(pack_trace(trace))
    assert "held" not in columns and columns["start"].shape == (16, 16)


def in_bfloat16(trace):
    """The same run of operands in bfloat16: what crosses of time does not depend on them."""
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(x.shape).astype(ml_dtypes.bfloat16) for x in (trace.a, trace.b))
    return dataclasses.replace(trace, a=a, b=b, result=trace.result.astype(np.float32))


@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
def test_one_fold_of_256_by_256_with_1024_rows_is_at_most_1500_kilobytes(dataflow):
    rng = np.random.default_rng(0)
    m, k, n = {"ws": (1024, 256, 256), "os": (256, 1024, 256), "is": (256, 256, 1024)}[dataflow]
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((m, k), (k, n)))
    trace = systolic.simulate(a, b, rows=256, cols=256, dataflow=dataflow)
    assert len(trace.folds) == 1
    for each in (trace, in_bfloat16(trace)):
        assert len(pack_trace(each)) <= 1_500_000


@pytest.mark.exhaustive
def test_a_product_of_1024_by_1024_by_1024_is_at_most_5_megabytes():
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-128, 128, (1024, 1024)).astype(np.int8) for _ in "ab")
    trace = systolic.simulate(a, b, rows=256, cols=256)
    for each in (trace, in_bfloat16(trace)):
        assert len(pack_trace(each)) <= 5_000_000


@pytest.mark.exhaustive
def test_a_product_beyond_5_megabytes_is_refused_and_a_few_of_its_folds_are_shown():
    rng = np.random.default_rng(0)
    wide = systolic.simulate(rng.random((1024, 512)), rng.random((512, 512)), rows=256, cols=256)
    with pytest.raises(ValueError, match=r"needs [67]\.\d MB.*at most 5 MB.*folds=\(0, 1\)"):
        SystolicPlayer(wide)
    assert len(pack_trace(wide, chosen(wide, (0,)))) <= 5_000_000


@given(traces(), st.data())
def test_chosen_folds_are_cut_from_the_run(trace, data):
    first = data.draw(st.integers(0, len(trace.folds) - 1))
    numbers = range(first, data.draw(st.integers(first, len(trace.folds) - 1)) + 1)
    part = chosen(trace, list(numbers))
    assert part.cycles == sum(trace.folds[i].cycles for i in numbers)
    header, columns = _wire.unpack(pack_trace(trace, part))
    assert header["whole"] == {
        "fold": first, "folds": len(trace.folds), "cycle": part.first, "cycles": trace.cycles,
    }  # fmt: skip
    cycles = slice(part.first, part.first + part.cycles)
    for name in ("held", "right_index", "active", "phase"):
        assert np.array_equal(columns[name], getattr(trace, name)[cycles])
    assert np.array_equal(columns["macs"], ledger.systolic(trace).macs[cycles])
    start = columns["start"].reshape(-1, trace.rows, trace.cols)
    assert np.array_equal(np.where(start < 0, -1, start + part.first), trace.start[first : numbers[-1] + 1])


@pytest.mark.parametrize(
    ("folds", "words"),
    [
        ((9,), "A fold is 9, but must be a whole number of at least 0 and at most 3"),
        ((0, 2), r"folds is \[0, 2\], but must name one fold or several that follow each other"),
        ((), r"folds is \[\], but must name"),
    ],
)
def test_folds_that_cannot_be_cut_out_are_refused(folds, words):
    trace = systolic.simulate(np.ones((2, 4), int), np.ones((4, 4), int), rows=2, cols=2)
    with pytest.raises(ValueError, match=words):
        SystolicPlayer(trace, folds=folds)
    overlapping = systolic.simulate(trace.a, trace.b, rows=2, cols=2, overlap=True)
    with pytest.raises(ValueError, match="overlap, so that 1 fold of 4 cannot be shown alone"):
        SystolicPlayer(overlapping, folds=(0,))


@pytest.mark.parametrize("kind", ["int8", "float32"])
@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
def test_one_fold_of_256_by_256_is_small(kind, dataflow):
    rng = np.random.default_rng(0)
    if kind == "int8":
        a, b = (rng.integers(-128, 128, (256, 256)).astype(np.int8) for _ in "ab")
    else:
        a, b = (rng.standard_normal((256, 256)).astype(np.float32) for _ in "ab")
    text = pack_trace(systolic.simulate(a, b, rows=256, cols=256, dataflow=dataflow))
    assert len(text) < (300_000 if kind == "int8" else 1_000_000)


def test_sums_beyond_the_browser_are_refused():
    trace = systolic.simulate([[2**40]], [[2**20]], rows=1, cols=1)
    with pytest.raises(ValueError, match=r"1152921504606846976.*2\*\*53.*float64"):
        SystolicPlayer(trace)


def test_a_trace_without_schedule_is_refused():
    with pytest.raises(ValueError, match="trace=True"):
        SystolicPlayer(systolic.simulate([[1]], [[1]], rows=1, cols=1, trace=False))


def test_the_trace_of_a_broken_machine_is_refused():
    fault = systolic.Fault("late_by_one")
    broken = systolic.simulate([[1, 2], [3, 4]], [[5, 6], [7, 8]], rows=2, cols=2, fault=fault)
    with pytest.raises(ValueError, match=r"broken machine \(late_by_one\).*FaultPlayer"):
        SystolicPlayer(broken)


@pytest.mark.parametrize("start", [-1, 6])
def test_a_start_outside_the_run_is_refused(start):
    trace = systolic.simulate([[1, 2], [3, 4]], [[5, 6], [7, 8]], rows=2, cols=2)
    with pytest.raises(ValueError, match=rf"start is {start}.*at most 5"):
        SystolicPlayer(trace, start=start)


def test_start_rate_and_title_reach_the_browser():
    trace = systolic.simulate([[1, 2], [3, 4]], [[5, 6], [7, 8]], rows=2, cols=2)
    player = SystolicPlayer(trace, start=0, rate=4, title="Mine", task="Look.")
    assert player.cursor == 0 and player.options == {
        "rate": 4.0,
        "title": "Mine",
        "task": "Look.",
        "future": "dimmed",
        "verify": True,
    }


def test_python_line_makes_the_run_again():
    trace = systolic.simulate(np.array([[1.5, 2]], np.float16), [[5], [7]], rows=2, cols=1, dataflow="os")
    header, _ = _wire.unpack(pack_trace(trace))
    scope = {}
    assert "\n" not in header["python"]
    exec(header["python"].replace("widgets.SystolicPlayer(", "again = ("), scope)
    assert scope["again"].result.tolist() == trace.result.tolist()
    assert scope["again"].a.dtype == trace.a.dtype and scope["again"].dataflow == "os"
