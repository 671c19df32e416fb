"""The call forms of the house's contracts, called as they are promised; a checker outside relies on them."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pulsewarp
from pulsewarp import bench, chips, guide, ledger, lesson, numerics, roofline, simt, systolic, widgets
from pulsewarp.bench.timeline import build_timeline
from pulsewarp.matmul import Matmul

DATAFLOWS = ("ws", "os", "is")
POLICIES = ("lrr", "gto", "gty", "oldest", "two_level")
M, K, N, R, C = 5, 7, 6, 3, 4
RANDOM = np.random.default_rng(0)
A, B = RANDOM.integers(-9, 10, (M, K)), RANDOM.integers(-9, 10, (K, N))


@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize("trace", [True, False])
def test_systolic_simulate(dataflow: str, trace: bool) -> None:
    run = systolic.simulate(A, B, rows=R, cols=C, dataflow=dataflow, trace=trace)
    assert type(run) is systolic.SystolicTrace
    assert type(run.cycles) is int
    assert (run.result == A @ B).all()


@pytest.mark.parametrize("dataflow", DATAFLOWS)
def test_macs_and_exits(dataflow: str) -> None:
    run = systolic.simulate(A, B, rows=R, cols=C, dataflow=dataflow)
    macs = np.asarray(run.macs())
    assert macs.shape == (M * N * K, 6)
    cycle, row, col, m, n, k = macs.T
    assert sorted(zip(m, n, k, strict=True)) == sorted(np.ndindex(M, N, K))
    for column, end in ((cycle, run.cycles), (row, R), (col, C)):
        assert column.min() >= 0 and column.max() < end
    exits = np.asarray(run.exits())
    assert exits.shape[1] == 5
    assert set(exits[:, 4]) <= {0, 1}
    final = exits[exits[:, 4] == 1]
    assert sorted(map(tuple, final[:, 2:4])) == sorted(np.ndindex(M, N))  # each result leaves once


@pytest.mark.parametrize("dataflow", DATAFLOWS)
def test_registers_follow_the_first_axis_and_say_nothing_as_minus_one(dataflow: str) -> None:
    run = systolic.simulate(A, B, rows=R, cols=C, dataflow=dataflow)
    for name in ("held", "right", "down", "held_index", "right_index", "down_index", "active"):
        assert getattr(run, name).shape == (run.cycles, R, C)
    assert run.stationary is run.held and run.moving is run.right
    assert run.held_index.min() == run.right_index.min() == run.down_index.min() == -1
    assert run.phase.shape == (run.cycles,)


@pytest.mark.parametrize("dataflow", DATAFLOWS)
def test_gemm_counts_what_simulate_counts(dataflow: str) -> None:
    cost = systolic.gemm(m=M, k=K, n=N, rows=R, cols=C, dataflow=dataflow)
    assert cost == systolic.gemm(m=M, k=K, n=N, rows=R, cols=C, dataflow=dataflow, convention="register")
    stream = {"ws": M, "os": K, "is": N}[dataflow]
    assert cost.cycles_per_fold == 2 * R + C + stream - 2
    assert cost.cycles == cost.folds * cost.cycles_per_fold
    assert cost.cycles == systolic.simulate(A, B, rows=R, cols=C, dataflow=dataflow).cycles
    assert cost.utilization == pytest.approx(M * N * K / (cost.cycles * R * C))
    for count in (cost.sram_reads_a, cost.sram_reads_b, cost.sram_writes_out):
        assert type(count) is int and count > 0


def test_gemm_conventions_and_conv() -> None:
    assert systolic.gemm(m=M, k=K, n=N, rows=R, cols=C, dataflow="ws", convention="scalesim").cycles
    assert systolic.gemm(m=M, k=K, n=N, rows=R, cols=C, dataflow="os", convention="stonne").cycles
    cost = systolic.conv(in_h=5, in_w=5, filter_h=3, filter_w=3, channels=2, filters=4, rows=R, cols=C)
    assert type(cost) is systolic.GemmCost
    assert (cost.m, cost.k, cost.n) == (9, 18, 4)


def test_instruction_and_its_defaults() -> None:
    promised = simt.Instruction(unit="alu", latency=4, interval=1, dst="r0", srcs=("r0",))
    assert simt.Instruction(dst="r0", srcs=("r0",)) == promised
    ignores = simt.Instruction(unit="bar", latency=9, interval=9, dst="r1", srcs=("r2",))
    assert ignores == simt.bar()


@pytest.mark.parametrize("policy", POLICIES)
def test_simt_simulate(policy: str) -> None:
    programs = [
        [simt.Instruction("mem", 18, 1, "r1"), simt.Instruction(dst="r0", srcs=("r1",)), simt.bar()]
    ] * 6
    run = simt.simulate(
        programs, schedulers=2, policy=policy, max_outstanding=None, blocks=[0, 0, 0, 1, 1, 1]
    )
    assert type(run) is simt.WarpTrace
    assert type(run.cycles) is int and type(run.issue_count) is int
    assert run.issued.shape == (run.cycles, 2) and run.state.shape == (run.cycles, 6)
    assert run.issued.min() == -1 and (run.issued >= 0).sum() == run.issue_count == 18
    for t, s in np.ndindex(run.cycles, 2):
        said = run.why(t, s)
        assert said.startswith(f"Scheduler {s} ") and said.endswith(".")
        if run.issued[t, s] >= 0:
            assert f"w{run.issued[t, s]}" in said


def test_occupancy_and_its_defaults() -> None:
    held = simt.occupancy(
        compute_capability="8.0",
        threads_per_block=256,
        registers_per_thread=64,
        static_shared=0,
        dynamic_shared=0,
        shared_opt_in=False,
        carveout=None,
    )
    assert type(held) is simt.Occupancy and held == simt.occupancy()
    assert (held.blocks_per_sm, held.warps_per_sm, held.occupancy) == (4, 32, 0.5)
    assert list(held.limits) == ["warps", "registers", "shared_memory", "blocks", "barriers"]
    assert held.limits["barriers"] == math.inf and held.limiting == ("registers",)
    assert simt.best_block_size("8.0", 64, static_shared=0, dynamic_shared=0) == (1024, 1)


def test_memory_access() -> None:
    addresses = [4 * lane for lane in range(32)]
    access = simt.sectors(addresses, 4, active_mask=0xFFFFFFFF)
    assert type(access) is simt.Access and access == simt.sectors(addresses, 4)
    assert (access.sectors, access.lines, access.efficiency) == (4, 1, 1.0)
    assert simt.sectors(addresses, 4, active_mask=0).efficiency is None
    banks = simt.wavefronts(byte_offsets=addresses, element_bytes=4, active_mask=0xFFFFFFFF)
    assert type(banks) is simt.BankAccess
    assert (banks.wavefronts, banks.phases, banks.ways) == (1, 1, 1)
    for count in (access.sectors, access.lines, banks.wavefronts, banks.phases, banks.ways):
        assert type(count) is int


def test_guide() -> None:
    advice = guide.advise(guide.Workload(domain="llm", phase="train", params_b=7))
    assert advice.verdict in ("gpu", "tpu", "either", "neither")
    estimate = guide.estimate_training(
        model="a dense model",
        params_b=7,
        active_params_b=7,
        seq_len=None,
        global_batch=None,
        precision="bf16",
        chip="tpu_v5p",
        n_chips=512,
    )
    for band in (estimate.tokens_per_second_per_chip, estimate.model_flops_per_second_per_chip):
        assert 0 < band.low < band.value < band.high < math.inf


@pytest.mark.parametrize("clock", ["device", "call"])
def test_time_matmul(clock: str) -> None:
    pytest.importorskip("jax", reason="jax is optional; measuring needs it")
    run = bench.time_matmul(16, 8, 4, dtype="float32", precision="highest", repeats=3, clock=clock)
    assert type(run) is bench.Measurement
    assert (run.matmul, run.clock, run.origin) == (Matmul(16, 8, 4, "fp32"), clock, "live")
    assert len(run.seconds) == 3 and run.compile_seconds > 0 and run.relative_error < 1e-6


# --- what every result promises ----------------------------------------------------------------------------


HLO = """ENTRY %main (a: f32[8,16], b: f32[16,4]) -> f32[8,4] {
  %a = f32[8,16]{1,0} parameter(0)
  %b = f32[16,4]{1,0} parameter(1)
  ROOT %dot.1 = f32[8,4]{1,0} dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
SPANS = [
    {"ph": "X", "pid": 1, "tid": 2, "ts": 10 * i, "dur": 6, "name": "f", "args": {"hlo_op": "f"}}
    for i in range(2000)
]


DAY = "2026-12-01T12:00:00+00:00"


SPLIT = bench.ShardedMeasurement(
    matmul=Matmul(8, 8, 8, "fp32"),
    split="rows",
    gather=True,
    devices=2,
    processes=1,
    device=bench.recorded()[0].device,
    clock="call",
    precision="highest",
    precision_in_program="highest",
    collectives=(bench.Collective("all-gather", 256, 2),),
    seconds=(1e-3,) * 100,
    local_seconds=(5e-4,) * 100,
    products_per_repeat=1,
    compile_seconds=0.1,
    warmup_calls=3,
    relative_error=1e-7,
    error_rows=8,
    seed=0,
    versions={},
    when=DAY,
)


def results() -> dict[str, object]:
    """Return one result of every public type, large enough that a careless repr would be long."""
    big = np.ones((64, 64), np.int8)
    array = systolic.simulate(A, B, rows=R, cols=C)
    broken = systolic.simulate(A, B, rows=R, cols=C, fault=systolic.Fault("stuck_cell", row=1, col=2))
    kernel = simt.matmul_kernel(np.ones((32, 8)), np.ones((8, 32)))
    warps = kernel.simulate()
    traced = simt.lesson_kernels.LESSONS["vector_add"].trace()
    tiled = simt.tensor_kernel(np.ones((64, 64)), np.ones((64, 64))).simulate()
    race = simt.lesson_kernels.LESSONS["missing_barrier"].trace().problems[0]
    pipe = systolic.pipeline(A, B, tile=(2, 3, 4), chip="tpu_v5e", dtype="int8")
    workload = guide.Workload(domain="llm", phase="train", params_b=70, chips=512, seq_len=4096)
    advice = guide.advise(workload)
    question = lesson.predict("How many?", choices=[1, 2], answer=1)
    exercise = lesson.exercise("Count.", answer=1)
    chip = chips.get("h100_sxm")
    at_barrier = simt.barriers(simt.simulate([simt.chain_and_barrier(2, 1)] * 2))
    return {
        "trace": array,
        "large trace": systolic.simulate(big, big, rows=32, cols=32),
        "untraced": systolic.simulate(A, B, rows=R, cols=C, trace=False),
        "registers": array.registers(3),
        "schedule": array.schedule,
        "fold": array.folds[0],
        "overlapping": systolic.simulate(A, B, rows=R, cols=C, overlap=True),
        "fault": systolic.Fault("stuck_cell", 1, 0),
        "faulty": systolic.simulate(A, B, rows=R, cols=C, fault=systolic.Fault("no_skew")),
        "report": array.verify(),
        "gemm": systolic.gemm(m=M, k=K, n=N, rows=R, cols=C),
        "overlapping gemm": systolic.gemm(m=M, k=K, n=N, rows=R, cols=C, overlap=True),
        "conventions": systolic.gemm(m=M, k=K, n=N, rows=R, cols=C).conventions()[1],
        "recount": systolic.gemm(m=M, k=K, n=N, rows=R, cols=C).verify(cycle=3),
        "matrix units": systolic.matrix_units("tpu_v5e"),
        "matrix units' cost": systolic.matrix_units("tpu_v5e").gemm(m=M, k=K, n=N),
        "patches": systolic.im2col(np.ones((5, 5, 1)), np.ones((3, 3, 1, 2))),
        "dataflow": systolic.DATAFLOWS["ws"],
        "instruction": simt.bar(),
        "kernel": kernel,
        "warps": warps,
        "kernel trace": traced,
        "traced warp": traced.warps[0],
        "traced instruction": traced.warps[0].instructions[2],
        "traced memory": traced.memory[0],
        "line score": traced.lines()[0],
        "problem": race,
        "touch": race.touches[0],
        "lesson kernel": simt.lesson_kernels.product(),
        "occupancy": simt.occupancy(),
        "divergence": simt.run_warp("if lane < 4:\n    x = 1"),
        "mma shape": simt.mma_shapes()[0],
        "fragment": simt.fragment("m16n8k16", "a"),
        "tiled kernel": tiled.kernel,
        "tiled trace": tiled,
        "tiled counts": tiled.counts,
        "placement": simt.place_blocks(3, 2),
        "placement tally": simt.place_blocks(3, 2).tally([0, 1]),
        "launch change": simt.occupancy().one_more()[0],
        "compute capability": simt.compute_capabilities()["8.0"],
        "matmul": Matmul(2, 3, 4),
        "numerics product": numerics.multiply(A, B, "high"),
        "numerics pass": numerics.multiply(A, B, "high").passes[0],
        "precision": numerics.PRECISIONS["highest"],
        "multiply-add": numerics.multiply_add(A, np.int64(3), np.int64(0)),
        "bound": roofline.bound(Matmul(2, 3, 4), chip),
        "padding": roofline.tile_padding(Matmul(2, 3, 4), (128, 128)),
        "waves": roofline.waves(3, 2),
        "quantisation": roofline.wave_quantisation(Matmul(2, 3, 4), chip),
        "chip": chip,
        "price": chips.prices()[0],
        "energy": chips.energy()[0],
        "stack": chips.stacks()[0],
        "source": chip.source("tdp_watts"),
        "systolic ledger": ledger.systolic(array),
        "level ledger": ledger.levels(array, "int8"),
        "energy ledger": ledger.energy(ledger.levels(array, "int8")),
        "energy part": ledger.energy(ledger.levels(array, "int8")).parts[0],
        "reuse": ledger.energy(ledger.levels(array, "int8")).reuse,
        "traffic": ledger.levels(array, "int8").traffic[0],
        "warp ledger": ledger.warp(warps),
        "program": bench.read_program(HLO),
        "operation": bench.read_program(HLO).steps[0],
        "computation": bench.read_program(HLO).entry,
        "product of a program": bench.read_program(HLO).products[0],
        "compiled program": bench.CompiledProgram(bench.read_program(HLO), "cpu", 1024.0, None),
        "timeline": build_timeline(SPANS),
        "lane": build_timeline(SPANS).lanes[0],
        "event": build_timeline(SPANS).events[0],
        "total": build_timeline(SPANS).totals[0],
        "idle": build_timeline(SPANS).lanes[0].idle[0],
        "measurement": bench.recorded()[0],
        "compared runs": bench.compare(bench.recorded(), bench.recorded()[:2]),
        "compared row": bench.compare(bench.recorded(), bench.recorded()[:2]).rows[0],
        "shape": bench.shapes.Shape(2, 3, 4, "scores", batch=8),
        "shapes of a model": bench.shapes.resnet("resnet-18"),
        "split run": SPLIT,
        "collective": SPLIT.collectives,
        "bound of a split": bench.split_bound(8, 8, 8, gather=True),
        "gap": bench.explain(bench.recorded()[0]),
        "gaps": bench.explain_all(bench.recorded()),
        "device": bench.recorded()[0].device,
        "ceilings": bench.Ceilings((bench.recorded()[0],), ()),
        "measured chip": bench.Ceilings((bench.recorded()[0],), ()).as_chip(),
        "energy of work": bench.Energy("a product", "NVIDIA L4", 210.0, 3.0, 100, 2000, 14.0, "counter", DAY),
        "no energy": bench.NotMeasurable("this is a test."),
        "workload": workload,
        "advice": advice,
        "comparison": guide.compare(workload),
        "estimate": advice.estimates,
        "reason": advice.reasons[0],
        "flips": advice.flips,
        "pilot": advice.pilot,
        "gate": guide.GATES[0],
        "memory": guide.fit_memory(workload, "h100_sxm"),
        "training": guide.estimate_training(params_b=7, chip="h100_sxm"),
        "serving": guide.serve(guide.models.card("llama-3.1-8b"), "h100_sxm"),
        "question": question,
        "exercise": exercise,
        "kernel exercise": lesson.kernel_exercise(
            "Multiply.", cases=[simt.lesson_kernels.product(m=2, k=k, n=2) for k in (1, 2)]
        ),
        "gpu run": simt.GpuRun("add", "", {}, "Nothing is here."),
        "verdict": exercise.check(1),
        "systolic player": widgets.SystolicPlayer(array),
        "cell player": widgets.CellPlayer(array),
        "tiling player": widgets.TilingPlayer(systolic.gemm(m=M, k=K, n=N, rows=R, cols=C)),
        "fault player": widgets.FaultPlayer(array, broken),
        "suspects": systolic.suspects(array, broken),
        "clue": systolic.suspects(array, broken).clues[0],
        "dataflows player": widgets.DataflowsPlayer(
            systolic.simulate(A, B, rows=2, cols=2, dataflow=flow) for flow in DATAFLOWS
        ),
        "batches player": widgets.BatchesPlayer(array),
        "pipeline": pipe,
        "pipeline tally": pipe.tally([0, 5]),
        "pipeline player": widgets.PipelinePlayer(pipe),
        "occupancy player": widgets.OccupancyPlayer([simt.occupancy(), simt.occupancy("9.0")]),
        "access": simt.sectors(simt.pattern("8 * lane"), 4),
        "bank access": simt.wavefronts(simt.pattern("128 * lane"), 4),
        "wavefront": simt.wavefronts(simt.pattern("128 * lane"), 4).served[0],
        "sector counts": simt.count_sectors(np.zeros((3, 32), np.int64), 4),
        "wavefront counts": simt.count_wavefronts(np.zeros((3, 32), np.int64), 4),
        "access player": widgets.AccessPlayer(simt.sectors(simt.pattern("8 * lane"), 4)),
        "divergence player": widgets.DivergencePlayer(simt.run_warp("if lane < 4:\n    x = 1")),
        "placement player": widgets.PlacementPlayer(simt.place_blocks(3, 2)),
        "warp player": widgets.WarpPlayer(warps),
        "tensor player": widgets.TensorPlayer(tiled),
        "tiled tally": tiled.tally([0, 5]),
        "barriers": at_barrier,
        "barrier": at_barrier.rounds[0],
        "barrier player": widgets.BarrierPlayer(at_barrier.trace),
    }


RESULTS = results()


@pytest.fixture(scope="module")
def again() -> dict[str, Any]:
    """The same results, made a second time."""
    return results()


@pytest.mark.parametrize("name", RESULTS)
def test_a_repr_is_the_same_everywhere(name: str, again: dict[str, Any]) -> None:
    shown = repr(RESULTS[name])
    assert shown == repr(again[name])
    assert not re.search(r" at 0x|object at|<function|<class", shown)
    assert "{" not in shown or not re.search(r"frozenset|\bset\(|\{[^:{}]*\}", shown)  # a set has no order
    assert "array(" not in shown and "np." not in shown and shown.count(",") < 1000


def arrays_of(thing: object, path: str, seen: set[int]) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Yield every array that a result holds, however deep, with where it stands."""
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        yield path, thing
    elif dataclasses.is_dataclass(thing):
        for field in dataclasses.fields(thing):
            yield from arrays_of(getattr(thing, field.name), f"{path}.{field.name}", seen)
    elif isinstance(thing, tuple | list):
        for i, item in enumerate(thing):
            yield from arrays_of(item, f"{path}[{i}]", seen)
    elif hasattr(thing, "items"):
        for key, item in thing.items():
            yield from arrays_of(item, f"{path}[{key!r}]", seen)


FROZEN = [name for name, thing in RESULTS.items() if dataclasses.is_dataclass(thing)]


@pytest.mark.parametrize("name", FROZEN)
def test_a_result_cannot_be_changed(name: str) -> None:
    thing: Any = RESULTS[name]
    field = dataclasses.fields(thing)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(thing, field, None)
    for where, array in arrays_of(thing, name, set()):
        assert not array.flags.writeable, where
        assert array.flags.c_contiguous, where


def test_the_simulators_results_hold_arrays() -> None:
    simulators = ("trace", "large trace", "kernel", "warps", "kernel trace", "registers")
    for name in (*simulators, "systolic ledger", "warp ledger"):
        assert list(arrays_of(RESULTS[name], name, set())), name


@pytest.mark.parametrize("dataflow", DATAFLOWS)
def test_lists_made_on_demand_are_contiguous(dataflow: str) -> None:
    for size in (R, 40):  # with every register kept, and with the schedule alone
        big = np.ones((size * 2, size * 3), np.int64)
        run = systolic.simulate(big, big.T, rows=size, cols=size, dataflow=dataflow)
        for rows in (run.macs(), run.exits()):
            assert rows.flags.c_contiguous


def test_every_submodule_that_is_listed_can_be_named() -> None:
    for name in pulsewarp._SUBMODULES:
        assert getattr(pulsewarp, name).__name__ == f"pulsewarp.{name}"
