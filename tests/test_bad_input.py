"""Bad input, one row a call: every public function answers in a sentence of its own.

A row is a label, the call, and what its sentence must hold: mostly the value that was refused, and a word of
the limit or of the remedy. That the sentence is ours and no library's is checked for every row alike.
"""

from __future__ import annotations

import builtins
import errno
import json
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pulsewarp
from pulsewarp import (
    bench,
    chips,
    figures,
    guide,
    ledger,
    lesson,
    numerics,
    roofline,
    simt,
    systolic,
    widgets,
)
from pulsewarp._files import write_text_atomically
from pulsewarp.cli import main
from pulsewarp.matmul import Matmul, stored_bytes

HOME = Path(pulsewarp.__file__).parent
A = [[1, 2], [3, 4]]
V5E, H100 = chips.get("tpu_v5e"), chips.get("h100_sxm")
PRODUCT = Matmul(2, 2, 2)
ARRAY = systolic.simulate(A, A, rows=2, cols=2)
BROKEN = systolic.simulate(A, A, rows=2, cols=2, fault=systolic.Fault("no_skew"))
UNTRACED = systolic.simulate(A, A, rows=2, cols=2, trace=False)
PIPELINE = systolic.pipeline(
    A, A, rows=2, cols=2, clock_hz=1e9, bandwidth_bytes_per_second=1e9, vmem_bytes=256, dtype="int8"
)
BOOKS = ledger.levels(ARRAY, "int8")
PIPE = systolic.pipeline(m=2, k=2, n=2, chip="tpu_v5e")
WARPS = simt.simulate([simt.chain(2)], schedulers=1)
SIZES = {"m": 2, "k": 2, "n": 2, "rows": 2, "cols": 2}
IMAGE = {
    "in_h": 5, "in_w": 5, "filter_h": 3, "filter_w": 3, "channels": 1, "filters": 2, "rows": 9, "cols": 2,
}  # fmt: skip
COST, STONNE = systolic.gemm(**SIZES), systolic.gemm(**SIZES, dataflow="os", convention="stonne")
UNITS, PIXELS = systolic.matrix_units("tpu_v5e"), np.ones((3, 3, 2))
PATCHES = systolic.im2col(PIXELS, np.ones((1, 1, 2, 1)))
TILED = simt.tensor_kernel(A, A).simulate()
GPU_RUN = simt.GpuRun("add", "", {}, "Nothing is here.")
LAUNCHES = [simt.lesson_kernels.product(m=2, k=k, n=2) for k in (1, 2)]
TRACED = simt.lesson_kernels.product(m=2, k=2, n=2).trace()
NAN, INF = float("nan"), float("inf")

Row = tuple[str, Callable[[], object], tuple[str, ...]]


def simulate(a: Any = A, b: Any = A, **changes: Any) -> object:
    return systolic.simulate(a, b, **{"rows": 2, "cols": 2, **changes})


def scalesim(**changes: Any) -> object:
    return systolic.gemm(**SIZES, convention="scalesim", **changes)


def warps(**changes: Any) -> object:
    return simt.simulate([simt.chain(2)], **changes)


def traced(*args: Any, **changes: Any) -> object:
    given = {"grid": 1, "block": 32, "args": args or (np.ones(2), np.zeros(2), 1), **changes}
    return simt.trace_kernel(simt.lesson_kernels.strided_copy, **given)


def pipe(**changes: Any) -> object:
    return systolic.pipeline(**{"m": 2, "k": 2, "n": 2, "chip": "tpu_v5e", **changes})


def timed(*sizes: Any, **changes: Any) -> object:
    return bench.time_matmul(*(sizes or (8, 8, 8)), **changes)


def split_run(**changes: Any) -> object:
    return bench.time_sharded(8, 8, 8, **changes)


def training(**changes: Any) -> object:
    return guide.estimate_training(**{"params_b": 7, "chip": "tpu_v5p", **changes})


# Values of the right type that cannot be true.
VALUES: list[Row] = [
    # operands
    ("shapes", lambda: simulate([[1, 2, 3]], A), ("(1, 3)", "(2, 2)", "transpose")),
    ("a vector", lambda: simulate([1, 2]), ("(2,)", "two dimensions")),
    ("no rows", lambda: simulate(np.zeros((0, 2))), ("(0, 2)", "neither of them empty")),
    ("ragged", lambda: simulate([[1], [2, 3]]), ("rows of different lengths",)),
    ("NaN", lambda: simulate([[1.0, NAN], [1.0, 1.0]]), ("a[0, 1] is nan", "finite")),
    ("infinity", lambda: simulate(A, [[1.0, 2.0], [-INF, 1.0]]), ("b[1, 0] is -inf", "finite")),
    ("booleans", lambda: simulate([[True, False], [False, True]]), ("bool", "integers or real floats")),
    ("text", lambda: simulate([["a", "b"], ["c", "d"]]), ("<U1", "integers or real floats")),
    ("complex", lambda: simulate([[1j, 2], [3, 4]]), ("complex128", "integers or real floats")),
    ("masked", lambda: simulate(np.ma.masked_equal(np.array(A), 2)), ("masked", "fill")),
    ("kernel shapes", lambda: simt.matmul_kernel([[1, 2, 3]], A), ("3", "2", "transpose")),
    ("kernel NaN", lambda: simt.matmul_kernel([[NAN]], [[1.0]]), ("a[0, 0] is nan", "finite")),
    ("beyond int8", lambda: numerics.multiply([[200]], [[1]], "int8"), ("a[0, 0] is 200", "-128 to 127")),
    ("beyond bf16", lambda: numerics.split([[3.4e38]]), ("3.39", "bf16", "infinity", "scale")),
    ("beyond float32", lambda: numerics.multiply([[1e30]], [[1e30]]), ("1e+60", "float32", "scale")),
    ("product's precision", lambda: numerics.multiply(A, A, "hihg"), ("'hihg'", "Did you mean 'high'?")),
    ("a term", lambda: numerics.multiply(A, A).terms(2, 0), ("row is 2", "at most 1")),
    ("parts", lambda: numerics.split(A, parts=4), ("parts is 4", "at most 3")),
    # sizes
    ("no rows of cells", lambda: simulate(rows=0), ("rows is 0", "at least 1")),
    ("negative columns", lambda: simulate(cols=-3), ("cols is -3", "at least 1")),
    ("no k", lambda: systolic.gemm(**{**SIZES, "k": 0}), ("k is 0", "at least 1")),
    ("no stride", lambda: systolic.conv(**IMAGE, stride=0), ("stride is 0", "at least 1")),
    ("units", lambda: UNITS.gemm(m=2, k=2, n=2, units=5), ("units is 5", "at most 4", "has 4")),
    ("unsettled units", lambda: systolic.matrix_units("tpu_v6e").gemm(m=2, k=2, n=2), ("3.5 GHz", "units=1")),
    ("a GPU's units", lambda: systolic.matrix_units("h100_sxm"), ("H100", "not documented as systolic")),
    ("units of none", lambda: systolic.matrix_units("tpu_v5"), ("'tpu_v5'", "Did you mean 'tpu_v5")),
    ("grey image", lambda: systolic.im2col(A, PIXELS), ("(2, 2)", "one channel")),
    ("channels", lambda: systolic.im2col(PIXELS, np.ones((1, 1, 3, 1))), ("2 channels", "have 3")),
    ("im2col's filter", lambda: systolic.im2col(PIXELS, np.ones((9, 1, 2, 1))), ("filter_h is 9", "pad")),
    ("no image", lambda: PATCHES.image(A), ("(2, 2)", "(9, 1)")),
    ("large filter", lambda: systolic.conv(**{**IMAGE, "filter_h": 6}), ("filter_h is 6", "pad the image")),
    ("no m", lambda: Matmul(0, 2, 2), ("m is 0", "at least 1")),
    ("stored", lambda: stored_bytes(-1, "bf16"), ("elements is -1", "at least 0")),
    ("no schedulers", lambda: warps(schedulers=0), ("schedulers is 0", "at least 1")),
    ("none outstanding", lambda: warps(max_outstanding=0), ("max_outstanding is 0", "None sets no limit")),
    ("no latency", lambda: simt.Instruction(latency=0), ("latency is 0", "at least 1")),
    ("33 lanes", lambda: simt.Instruction(lanes=33), ("lanes is 33", "at most 32")),
    ("no chain", lambda: simt.chain(0), ("n is 0", "at least 1")),
    ("31 lanes", lambda: simt.sectors(range(31), 4), ("31 addresses", "32 lanes", "None")),
    ("an address", lambda: simt.wavefronts([-4] * 32, 4), ("byte_offsets[0] is -4", "at least 0")),
    ("bytes a lane", lambda: simt.sectors([0] * 32, 12), ("element_bytes is 12", "1, 2, 4, 8 or 16")),
    ("a mask", lambda: simt.sectors([0] * 32, 4, 2**32), ("active_mask is 4294967296", "at most 4294967295")),
    ("a sector", lambda: simt.sectors([0] * 32, 4).lanes_in(1), ("sector is 1", "at most 0")),
    ("addresses' shape", lambda: simt.count_sectors([[0] * 31], 4), ("(1, 31)", "(requests, 32)")),
    ("ragged requests", lambda: simt.count_sectors([[0], [0, 1]], 4), ("(requests, 32)",)),
    ("masks", lambda: simt.count_wavefronts([[0] * 32], 4, [1, 2]), ("(2,)", "1 of them")),
    ("a wide mask", lambda: simt.count_wavefronts([[0] * 32], 4, 2**32), ("4294967296", "32 bits")),
    ("an offset", lambda: simt.count_wavefronts([[-1] * 32], 4), ("byte_offsets[0, 0] is -1", "mask")),
    ("a pattern", lambda: simt.pattern("4 * tid"), ("the name 'tid'", "lane")),
    ("a division", lambda: simt.pattern("lane / 2"), ("'/'", "write '//'")),
    ("own kernel's launch", lambda: lesson.own_kernel(block=0), ("'0'", "whole numbers of at least 1")),
    ("own kernel's text", lambda: lesson.own_kernel("x = 1"), ("no function", "write the kernel with def")),
    (
        "own kernel's arguments",
        lambda: lesson.own_kernel(simt.lesson_kernels.vector_add, args=(A,)),
        ("3 parameters (x, y, out)", "args holds 1", "one for each"),
    ),
    ("empty kernel task", lambda: lesson.kernel_exercise("", cases=[]), ("task is ''", "in words")),
    ("no launches", lambda: lesson.kernel_exercise("t", cases=[]), ("one result between them", "differs")),
    (
        "a limit",
        lambda: lesson.kernel_exercise("t", cases=LAUNCHES, limits={"sectrs": 1}),
        ("'sectrs'", "Did you mean 'sectors'"),
    ),
    (
        "no limit",
        lambda: lesson.kernel_exercise("t", cases=LAUNCHES, limits={"sectors": 0}),
        ("limits['sectors'] is 0", "above 0"),
    ),
    ("a transpose", lambda: simt.lesson_kernels.transpose(rows=0), ("rows is 0", "at least 1")),
    ("own memory", lambda: lesson.own_access(memory="local"), ("'local'", "global, shared")),
    ("own pattern", lambda: lesson.own_access("2 * lane"), ("Lane 1", "at 2", "multiple of 4")),
    ("requests of a scene", lambda: widgets.AccessPlayer({}), ("0 requests", "from 1 to 8")),
    ("compute capability", lambda: simt.occupancy("8.1"), ("'8.1'", "7.0, 7.5", "Did you mean '8.")),
    ("no threads", lambda: simt.occupancy(threads_per_block=0), ("threads_per_block is 0", "at least 1")),
    ("registers", lambda: simt.occupancy(registers_per_thread=-1), ("is -1", "at least 0")),
    ("carve-out", lambda: simt.occupancy(carveout=101), ("carveout is 101", "at most 100", "percentage")),
    ("best size", lambda: simt.best_block_size("9.9", 32), ("'9.9'", "12.0")),
    ("no grid", lambda: simt.place_blocks(0, 2), ("blocks is 0", "at least 1")),
    ("cycles a block", lambda: simt.place_blocks(3, 2, 1, [1, 2]), ("2 numbers", "3 blocks", "give one")),
    ("order of SMs", lambda: simt.place_blocks(3, 2, order="fil"), ("'fil'", "Did you mean 'fill'")),
    ("no statement", lambda: simt.run_warp("import os"), ("Line 1", "'import os'", "assignments")),
    ("machine", lambda: simt.run_warp("x = 1", reconvergence="stak"), ("'stak'", "Did you mean 'stack'")),
    ("turns of a stack", lambda: simt.run_warp("x = 1", schedule="alternate"), ("alternate", "leave it")),
    ("shared variable", lambda: simt.run_warp("x = add(n, 1)"), ("'n'", "shared={'n': 0}")),
    (
        "a sum of lanes",
        lambda: simt.run_warp("add(n, 1 << 61)", shared={"n": 0}),
        ("Line 1", "lane 2", "'n'", "add less"),
    ),
    ("a huge matrix", lambda: simt.lesson_kernels.transpose(rows=10**9), ("rows is 1000000000", "4096")),
    ("a huge product", lambda: simt.lesson_kernels.product(k=10**9), ("k is 1000000000", "4096")),
    (
        "a block on a GPU",
        lambda: simt.run_on_gpu(simt.lesson_kernels.saxpy, grid=1, block=0),
        ("block.x is 0", "at least 1"),
    ),
    ("lines at a cycle", lambda: simt.run_warp("x = 1").lines_at(9), ("t is 9", "at most 3")),
    ("placed on a TPU", lambda: simt.place_blocks(3, V5E), ("TPU v5e is no GPU", "number of SMs")),
    ("half a warp", lambda: simt.matmul_kernel(A, A, threads_per_block=48), ("48", "use 32 or 64")),
    ("Little's law", lambda: simt.littles_law_warps(0), ("latency is 0", "at least 1")),
    ("no blocks", lambda: roofline.waves(0, 4), ("blocks is 0", "at least 1")),
    ("no tile", lambda: roofline.wave_quantisation(PRODUCT, H100, tile=(0, 1)), ("tile rows is 0",)),
    ("no unit", lambda: roofline.tile_padding(PRODUCT, (0, 1)), ("unit rows is 0", "at least 1")),
    ("intensity", lambda: roofline.attainable(V5E, "bf16", [1.0, -2.0]), ("-2.0", "above 0")),
    ("cycle", lambda: ARRAY.registers(6), ("t is 6", "at most 5")),
    ("probe", lambda: simulate(probes=[(99, 0, 0)]), ("(99, 0, 0)", "leave it out")),
    ("why", lambda: WARPS.why(99, 0), ("t is 99", "at most")),
    ("why_warp", lambda: WARPS.why_warp(0, 7), ("w is 7", "at most 0")),
    ("timed size", lambda: timed(0, 2, 2), ("m is 0", "at least 1")),
    ("no repeats", lambda: timed(repeats=0), ("repeats is 0", "at least 1")),
    ("repeats without end", lambda: timed(repeats=10**30), ("repeats is 1000", "at most 10000")),
    ("no batch", lambda: timed(batch=0), ("batch is 0", "at least 1")),
    ("no budget", lambda: timed(budget_seconds=0.0), ("budget_seconds is 0.0", "above 0")),
    ("endless budget", lambda: timed(budget_seconds=INF), ("budget_seconds is inf", "finite")),
    ("passes", lambda: bench.bandwidth("tried"), ("'tried'", "Did you mean 'triad'?")),
    ("array", lambda: bench.bandwidth(array_bytes=5), ("array_bytes is 5", "at least 1048576")),
    ("no dtypes", lambda: bench.ceilings([]), ("empty", '["float32"]')),
    ("no ceilings", lambda: bench.Ceilings((), ()), ("No product", "no ceiling")),
    ("energy's time", lambda: bench.measure_energy(len, seconds=0.5), ("seconds is 0.5", "at least 1")),
    ("kernel", lambda: bench.time_kernel("sorts"), ("'sorts'", "Did you mean 'sort'?")),
    ("kernel's size", lambda: bench.time_kernel("softmax", size=5), ("size is 5", "take 1024")),
    ("kernel's clock", lambda: bench.time_kernel("padded_shape", clock="device"), ("clock='call'",)),
    ("kernels", lambda: bench.time_kernels(["sort", "copy"]), ("'copy'", "use one of")),
    ("kernels in a text", lambda: bench.time_kernels("sort"), ("names is 'sort'", "several")),
    ("no kernels", lambda: figures.kernel_shares([], 1e9), ("empty", "bench.time_kernels()")),
    ("swept size", lambda: bench.sweep([-4]), ("-4", "at least 1")),
    ("sweep's name", lambda: bench.sweep("thinn"), ("'thinn'", "use one of")),
    ("swept dtypes", lambda: bench.sweep([8], dtype=()), ("dtype is empty", "leave it out")),
    ("memory budget", lambda: bench.sweep([8], memory_bytes=-1), ("-1", "at least 1")),
    ("thin side", lambda: bench.shapes.thin(0), ("side is 0", "at least 1")),
    ("staircase unit", lambda: bench.shapes.staircase(-128), ("unit is -128", "at least 1")),
    ("wave cores", lambda: bench.shapes.waves(0), ("sms is 0", "at least 1")),
    ("llama", lambda: bench.shapes.llama_block("llama-3-8b"), ("'llama-3-8b'", "Did you mean")),
    ("context", lambda: bench.shapes.llama_block(tokens=8, context=4), ("context is 4", "tokens = 8")),
    ("bert", lambda: bench.shapes.bert_layer("bert"), ("'bert'", "use one of")),
    ("images", lambda: bench.shapes.resnet(images=0), ("images is 0", "at least 1")),
    ("shape side", lambda: bench.shapes.Shape(1, 2, 0), ("n is 0", "at least 1")),
    ("compared", lambda: bench.compare([], bench.recorded()), ("first is empty", "at least one")),
    ("swept pair", lambda: bench.sweep([(8, 8)]), ("(8, 8)", "three")),
    ("start", lambda: widgets.SystolicPlayer(ARRAY, start=6), ("start is 6", "at most 5")),
    ("rate", lambda: widgets.SystolicPlayer(ARRAY, rate=-1.0), ("rate is -1.0", "above 0")),
    ("cell", lambda: widgets.CellPlayer(ARRAY, cell=(0, 2)), ("column of the cell is 2", "at most 1")),
    ("cell's array", lambda: widgets.CellPlayer(simulate(rows=9)), ("9 x 2 cells", "at most 8 x 8")),
    ("cell untraced", lambda: widgets.CellPlayer(UNTRACED), ("no registers", "trace=True")),
    ("zoom", lambda: widgets.CellPlayer(ARRAY, zoom="cells"), ("'cells'", "Did you mean 'cell'?")),
    ("tiling's start", lambda: widgets.TilingPlayer(COST, start=6), ("start is 6", "at most 5")),
    ("tiling's count", lambda: widgets.TilingPlayer(STONNE), ("'stonne'", "convention='register'")),
    ("tiling's folds", lambda: widgets.TilingPlayer(systolic.gemm(**{**SIZES, "k": 9999})), ("5000", "4096")),
    ("order of machines", lambda: widgets.FaultPlayer(BROKEN, ARRAY), ("'no_skew'", "broken one second")),
    ("two sound machines", lambda: widgets.FaultPlayer(ARRAY, ARRAY), ("no fault", "fault=")),
    ("no faulty cell", lambda: widgets.FaultPlayer(ARRAY, BROKEN, hide_fault=True), ("no_skew", "one cell")),
    ("another array", lambda: systolic.suspects(ARRAY, simulate(rows=1)), ("2 x 2 and 1 x 2", "the same")),
    ("suspect", lambda: systolic.suspects(ARRAY, BROKEN, among=[(2, 0)]), ("row is 2", "at most 1")),
    ("verdict", lambda: systolic.suspects(ARRAY, BROKEN).verdict(0, 2), ("col is 2", "at most 1")),
    ("seek", lambda: widgets.SystolicPlayer(ARRAY).seek(99), ("99", "at most 5")),
    ("dataflows", lambda: widgets.DataflowsPlayer([ARRAY] * 3), ("ws, ws, ws", "ws, os and is")),
    ("lanes", lambda: widgets.BatchesPlayer([ARRAY] * 4), ("lanes is 4", "at most 3")),
    ("batches", lambda: widgets.BatchesPlayer(ARRAY, batches=(1, 2)), ("3 rows", "A has 2")),
    ("no VMEM", lambda: pipe(vmem_bytes=8), ("need 64 bytes of VMEM", "it has 8", "buffers=1")),
    ("triple buffering", lambda: pipe(buffers=3), ("buffers is 3", "2 is double buffering")),
    ("no clock", lambda: pipe(chip="tpu_v4"), ("clock_hz is not known for TPU v4", "clock_hz=")),
    ("a rate of none", lambda: pipe(clock_hz=0.0), ("clock_hz is 0.0", "above 0")),
    ("no factor", lambda: systolic.pipeline(A, chip="tpu_v5e"), ("b is missing", "both factors")),
    ("factors and m", lambda: systolic.pipeline(A, A, m=2, chip="tpu_v5e"), ("m is given", "leave it out")),
    ("steps", lambda: pipe(m=10**6, n=10**6, tile=(1, 1, 1)), ("limit of 65536", "larger tiles")),
    ("why then", lambda: PIPE.why(10**9), ("cycle is 1000000000", "at most")),
    ("tally then", lambda: PIPE.tally([-1]), ("a cycle is -1", "at least 0")),
    ("the same pipeline twice", lambda: widgets.PipelinePlayer([PIPE, PIPE]), ("2 buffers", "buffers=1")),
    ("pipeline's start", lambda: widgets.PipelinePlayer(PIPE, start=99), ("start is 99", "at most")),
    ("warp rate", lambda: widgets.WarpPlayer(WARPS, rate=0.0), ("rate is 0.0", "above 0")),
    ("tensor scene's start", lambda: widgets.TensorPlayer(TILED, start=9999), ("start is 9999", "at most")),
    ("a cycle of a tiled run", lambda: TILED.verify(cycle=-1), ("cycle is -1", "at least 0")),
    ("a tally's cycle", lambda: TILED.tally([-1]), ("a cycle is -1", "at least 0")),
    ("within", lambda: lesson.predict("q?", answer=1, within=0.5), ("within is 0.5", "at least 1")),
    ("empty question", lambda: lesson.predict(" ", answer=1), ("question is ' '", "write")),
    ("own a", lambda: lesson.own_product([range(9)], [[1]] * 9), ("a is 1 x 9", "8 x 8", "SystolicPlayer")),
    ("own fit", lambda: lesson.own_product([[1, 2]], [[3]]), ("(1, 2)", "(1, 1)", "transpose")),
    ("own rows", lambda: lesson.own_product(rows=9), ("rows is 9", "at most 8")),
    ("own int8", lambda: lesson.own_product([[300]], [[1]], dtype="int8"), ("300", "-128 to 127", "change")),
    ("own m", lambda: lesson.own_sizes(0), ("m is 0", "at least 1")),
    ("own threads", lambda: lesson.own_occupancy("8.0", 0), ("threads_per_block is 0", "at most 2048")),
    ("own capability", lambda: lesson.own_occupancy("8.1"), ("'8.1'", "7.0, 7.5")),
    ("launches", lambda: widgets.OccupancyPlayer([]), ("number of launches is 0", "at least 1", "at most 3")),
    ("placed blocks", lambda: widgets.OccupancyPlayer(simt.occupancy(), start=6), ("start is 6", "most 5")),
    ("a decision", lambda: lesson.decision("own_rom"), ("'own_rom'", "Did you mean 'own_room'")),
    ("a claim", lambda: lesson.claim("powr"), ("'powr'", "Did you mean 'power'")),
    ("own array", lambda: lesson.own_sizes(array="tpu_v44"), ("tpu_v44", "Did you mean 'tpu_v4'")),
    ("folds", lambda: widgets.SystolicPlayer(ARRAY, folds=(0, 2)), ("2", "at most 0")),
    ("future", lambda: widgets.SystolicPlayer(ARRAY, future="gone"), ("'gone'", "hidden")),
    ("one choice", lambda: lesson.predict("q?", choices=[1], answer=1), ("[1]", "two or more")),
    ("empty task", lambda: lesson.exercise("", answer=1), ("task is ''", "in words")),
    ("tolerance", lambda: lesson.exercise("t", answer=1, tolerance=-1.0), ("is -1.0", "at least 0")),
    ("staircase", lambda: figures.padding_staircase("tpu_v5e", largest=1), ("largest is 1", "at least 2")),
    ("too many devices", lambda: split_run(devices=10**6), ("devices is 1000000", "at most")),
    ("devices that do not exist", lambda: bench.scaling(8, 8, 8, counts=[10**6]), ("counts[0] is 1000000",)),
    ("parts of a CPU", lambda: bench.several_devices(65), ("count is 65", "at most 64")),
    ("a share", lambda: bench.split_bound(9, 8, 8, devices=8), ("m is 9", "take 8 or 16")),
    ("no link", lambda: bench.split_bound(8, 8, 8, gather=True, chip="l4"), ("L4", "no bound")),
    ("no scaling", lambda: figures.scaling([]), ("empty", "bench.scaling")),
    ("no gap", lambda: figures.gap_bars([]), ("empty", "bench.explain(run)")),
    ("no measurement", lambda: figures.measured_against_predicted([]), ("empty", "bench.recorded()")),
    ("parameters", lambda: training(params_b=-7.0), ("params_b is -7.0", "above 0")),
    ("no chips", lambda: training(n_chips=0), ("n_chips is 0", "at least 1")),
    ("workload", lambda: guide.Workload(params_b=NAN), ("params_b is nan", "finite")),
    ("price factor", lambda: guide.compare(guide.Workload(), gpu_price_factor=0.0), ("0.0", "above 0")),
    ("band", lambda: guide.Band(3.0, 2.0, 1.0), ("3.0", "in that order")),
    ("no grid", lambda: traced(grid=0), ("grid.x is 0", "at least 1")),
    ("four axes", lambda: traced(block=(1, 1, 1, 1)), ("(1, 1, 1, 1)", "one to three")),
    ("a large block", lambda: traced(block=(64, 32)), ("2048 threads", "at most 1024", "smaller block")),
    ("many threads", lambda: traced(grid=4096), ("131072 threads", "at most 65536", "smaller grid")),
    ("parameters", lambda: traced(1), ("3 parameters (x, out, stride)", "holds 1")),
    ("a deep array", lambda: traced(np.ones((1, 1, 1, 1)), A, 1), ("x has 4 dimensions", "1 to 3")),
    ("a resident block", lambda: TRACED.simulate(blocks=[1]), ("A block is 1", "at most 0")),
    ("a timed warp", lambda: TRACED.timed_programs(warps=[8]), ("A warp is 8", "at most 7")),
    ("a load's latency", lambda: TRACED.simulate(load_latency=0), ("load_latency is 0", "at least 1")),
    ("a fragment's shape", lambda: simt.fragment("m16n8k7", "a"), ("'m16n8k7'", "Did you mean 'm16n8k")),
    ("a row of a tile", lambda: simt.matrix_load("m16n8k16", "a", row_bytes=40), ("40 bytes", "of 16")),
    ("beyond fp16", lambda: simt.tensor_kernel([[1e9]], [[1.0]]), ("a[0, 0] is 1000000000.0", "fp16")),
    ("a tile", lambda: simt.tensor_kernel(A, A, tile=(24, 32, 32)), ("tile[0] is 24", "multiple of 32")),
    ("FFMA's tile", lambda: simt.ffma_kernel(A, A, tile=(32, 20, 32)), ("tile[1] is 20", "multiple of 16")),
    ("Turing's copies", lambda: simt.tensor_kernel(A, A, architecture="turing", copies="async"),
     ("Turing", "8.0", "through registers")),
    ("a cycle of sums", lambda: TILED.sums_at(10**6), ("t is 1000000", "at most")),
    ("a row of work", lambda: TILED.accumulator(-1), ("i is -1", "at least 0")),
    ("a traced product", lambda: simt.lesson_kernels.product(m=0), ("m is 0", "at least 1")),
    # words
    ("dataflow", lambda: simulate(dataflow="wss"), ("'wss'", "ws, os, is", "Did you mean 'ws'?")),
    ("fault", lambda: systolic.Fault("no_skwe"), ("'no_skwe'", "Did you mean 'no_skew'?")),
    ("stuck where", lambda: systolic.Fault("stuck_cell", 1), ("lacks its col", "col=")),
    ("stuck beyond", lambda: simulate(fault=systolic.Fault("stuck_cell", 2, 0)), ("2 x 2", "(2, 0)")),
    ("harmless", lambda: simulate(fault=systolic.Fault("fold_dropped")), ("nothing", "smaller array")),
    ("frame", lambda: ARRAY.verify(cycle=6), ("cycle is 6", "at most 5", "from 0")),
    ("untraced frame", lambda: UNTRACED.verify(cycle=0), ("trace=False", "trace=True")),
    ("no shadow", lambda: ARRAY.shadow, ("without shadow registers", "overlap=True")),
    ("convention", lambda: systolic.gemm(**SIZES, convention="scale"), ("'scale'", "'scalesim'")),
    ("no overlap", lambda: scalesim(overlap=True), ("'scalesim'", "overlap=False")),
    ("no schedule", lambda: STONNE.busy(0), ("'stonne'", "convention='register'")),
    ("verified cycle", lambda: COST.verify(cycle=6), ("cycle is 6", "at most 5")),
    ("no bins", lambda: COST.utilization_over_time(0), ("bins is 0", "at least 1")),
    ("stonne", lambda: systolic.gemm(**SIZES, convention="stonne"), ("'ws'", "use dataflow='os'")),
    ("policy", lambda: warps(policy="lr"), ("'lr'", "Did you mean 'lrr'?")),
    ("dtype", lambda: Matmul(2, 2, 2, "bf61"), ("'bf61'", "Did you mean 'bf16'?")),
    ("stored dtype", lambda: stored_bytes(1, "bf61"), ("'bf61'", "Did you mean 'bf16'?")),
    ("levels' dtype", lambda: ledger.levels(ARRAY, "bf61"), ("'bf61'", "Did you mean 'bf16'?")),
    ("level", lambda: BOOKS.bytes("vmen"), ("'vmen'", "Did you mean 'vmem'?")),
    ("way", lambda: BOOKS.elements(way="hops"), ("'hops'", "Did you mean 'hop'?")),
    ("node", lambda: ledger.energy(BOOKS, process_node="45nm"), ("'45nm'", "Did you mean '45 nm'?")),
    ("memory", lambda: ledger.energy(BOOKS, memory="hbm"), ("'hbm'", "Did you mean 'hbm2'?")),
    ("part", lambda: ledger.energy(BOOKS).part("mac"), ("'mac'", "Did you mean 'macs'?")),
    ("served by", lambda: TRACED.simulate(served_by="drma"), ("'drma'", "Did you mean 'dram'?")),
    ("peak", lambda: roofline.bound(PRODUCT, V5E, "fp4"), ("fp4", "TPU v5e", "known peaks")),
    ("peak's name", lambda: roofline.ridge_point(V5E, "bf61"), ("'bf61'", "Did you mean 'bf16'?")),
    ("chip", lambda: chips.get("tpu_v5"), ("'tpu_v5'", "Did you mean 'tpu_v5")),
    ("family", lambda: chips.ids("tpus"), ("'tpus'", "Did you mean 'tpu'?")),
    ("price's chip", lambda: chips.price_range("h100"), ("'h100'", "Did you mean 'h100")),
    ("price's kind", lambda: chips.prices("h100_sxm", "spott"), ("'spott'", "Did you mean 'spot'?")),
    ("energy's chip", lambda: chips.energy("tpu"), ("'tpu'", "use one of")),
    ("energy fact", lambda: chips.energy_fact("int8_multiply"), ("'int8_multiply'", "Did you mean")),
    ("stack", lambda: chips.stacks("gpu"), ("'gpu'", "use one of")),
    ("field", lambda: V5E.source("tdp_wats"), ("'tdp_wats'", "Sourced")),
    ("timed dtype", lambda: timed(dtype="float23"), ("'float23'", "Did you mean 'float32'?")),
    ("timed precision", lambda: timed(precision="hi"), ("'hi'", "default, high, highest")),
    ("turned", lambda: timed(transposed="right"), ("'right'", "a, b, ab")),
    ("fp8 on a CPU", lambda: timed(dtype="fp8"), ("cpu has no products of float8_e4m3fn", "bfloat16")),
    ("split", lambda: split_run(split="row"), ("'row'", "Did you mean 'rows'?")),
    ("kind of scaling", lambda: bench.scaling(8, 8, 8, kind="stong"), ("'stong'", "Did you mean 'strong'?")),
    ("clock", lambda: timed(clock="wall"), ("'wall'", "device", "call")),
    ("part of a gap", lambda: bench.explain(bench.recorded()[0]).part("idael"), ("'idael'", "'ideal'")),
    ("recording", lambda: bench.recorded("cpu"), ("'cpu'", "use one of")),
    ("future", lambda: widgets.WarpPlayer(WARPS, future="dim"), ("'dim'", "Did you mean 'dimmed'?")),
    ("figure's chip", lambda: figures.roofline("tpu_v5"), ("'tpu_v5'", "Did you mean 'tpu_v5")),
    ("figure's dtype", lambda: figures.roofline("tpu_v5e", dtype="bf61"), ("'bf61'", "'bf16'")),
    ("domain", lambda: guide.Workload(domain="lm"), ("'lm'", "Did you mean 'llm'?")),
    ("precision", lambda: training(precision="bf61"), ("'bf61'", "bf16")),
    ("training's chip", lambda: training(chip="tpu_v5"), ("'tpu_v5'", "Did you mean 'tpu_v5")),
    ("memory's chip", lambda: guide.fit_memory(guide.Workload(), "h100"), ("'h100'", "Did you mean 'h100")),
    # things that do not go together, or were not kept
    ("architecture", lambda: simt.architecture("voltas"), ("'voltas'", "Did you mean 'volta'")),
    ("operation", lambda: simt.chain(1, architecture="hopper", operation="MUFU"), ("Hopper", "'MUFU'")),
    ("nothing to run", lambda: simt.simulate([]), ("0 warps", "at least one")),
    ("no schedule", lambda: ledger.systolic(UNTRACED), ("trace=False", "trace=True")),
    ("another pipeline", lambda: ledger.levels(ARRAY, "bf16", pipeline=PIPELINE),
     ("2 x 2 by 2 x 2 in int8", "in bf16", "pass the same one")),
    ("no levels", lambda: ledger.levels(UNTRACED, "int8"), ("trace=False", "trace=True")),
    ("no macs", lambda: UNTRACED.macs(), ("trace=False", "trace=True")),
    ("no picture", lambda: widgets.SystolicPlayer(UNTRACED), ("trace=False", "trace=True")),
    ("no roof", lambda: roofline.wave_quantisation(PRODUCT, V5E), ("TPU v5e is no GPU", "number of SMs")),
    # too large
    ("a long run", lambda: simulate(np.ones((3000, 3000)), np.ones((3000, 3000)), rows=1), ("limit", "gemm")),
    ("a large array", lambda: simulate(rows=10**6, cols=10**6), ("MiB", "limit", "systolic.gemm")),
    ("a large kernel", lambda: simt.matmul_kernel(np.ones((64, 2)), np.ones((2, 64))), ("128 warps", "64")),
    ("long programs", lambda: simt.simulate([simt.chain(600, latency=1000)] * 32), ("cycles", "shorten")),
    ("past memory", lambda: timed(10**6, 10**6, 10**6), ("GiB", "free", "largest square")),
    ("past int32", lambda: timed(2, 10**6, 2, dtype="int8"), ("k is 1000000", "overflow")),
]  # fmt: skip

# Values of another type than asked for.
TYPES: list[Row] = [
    ("rows", lambda: simulate(rows=2.5), ("rows is 2.5", "whole number")),
    ("text for rows", lambda: simulate(rows="2"), ("rows is '2'", "whole number")),
    ("True for rows", lambda: simulate(rows=True), ("rows is True", "whole number")),
    ("no matrix", lambda: simulate(None), ("two dimensions",)),
    ("trace", lambda: simulate(trace="no"), ("trace is 'no'", "bool")),
    ("probes", lambda: simulate(probes=5), ("probes is 5", "(cycle, row, col)")),
    ("a probe", lambda: simulate(probes=[(1, 2)]), ("(1, 2)", "three")),
    ("window", lambda: ARRAY.registers(0, rows=1), ("rows is 1", "slice")),
    ("dataflow", lambda: simulate(dataflow=None), ("None", "ws, os, is")),
    ("m", lambda: Matmul("8", 8, 8), ("m is '8'", "whole number")),
    ("dtype", lambda: Matmul(8, 8, 8, np.float32), ("float32", "use one of")),
    ("programs", lambda: simt.simulate(5), ("programs is 5", "one program per warp")),
    ("a program", lambda: simt.simulate([5]), ("w0 is 5", "Instruction")),
    ("an instruction", lambda: simt.simulate([["FADD"]]), ("'FADD'", "simt.Instruction")),
    ("blocks", lambda: warps(blocks=5), ("blocks is 5", "every warp")),
    ("opting in", lambda: simt.occupancy(shared_opt_in="yes"), ("shared_opt_in is 'yes'", "True or False")),
    ("shared bytes", lambda: simt.occupancy(static_shared=1.5), ("static_shared is 1.5", "whole number")),
    ("a mma's tile", lambda: simt.tensor_kernel(A, A, tile=32), ("tile is 32", "rows, columns and depth")),
    ("a mma's type", lambda: simt.tensor_kernel(A, A, dtype=np.float16), ("float16", "use one of fp16")),
    ("a version", lambda: simt.occupancy(8.0), ("compute_capability 8.0", "7.0, 7.5")),
    ("a source", lambda: simt.Instruction(srcs=(1,)), ("1", "a name")),
    ("sources", lambda: simt.Instruction(srcs="r0"), ("'r0'", "('r0',)")),
    ("kernel", lambda: simt.trace_kernel(5, grid=1, block=1), ("kernel is 5", "def")),
    ("kernel to compile", lambda: simt.compile_kernel("k"), ("kernel is 'k'", "def")),
    ("grid", lambda: traced(grid="4"), ("grid is '4'", "whole numbers")),
    ("block", lambda: traced(block=(1.5, 2)), ("block.x is 1.5", "whole number")),
    ("arguments", lambda: traced(args=5), ("args is 5", "args=(x,)")),
    ("a list", lambda: traced([1], np.zeros(1), 1), ("x is a list", "np.array(x)")),
    ("a complex array", lambda: traced(np.ones(1) * 1j, np.zeros(1), 1), ("complex128", "convert it")),
    ("resident blocks", lambda: TRACED.simulate(blocks=0), ("blocks is 0", "list the blocks")),
    ("an id for a chip", lambda: roofline.bound(PRODUCT, "tpu_v5e"), ("'tpu_v5e'", "chips.get")),
    ("a shape for a product", lambda: roofline.bound((2, 2, 2), V5E), ("(2, 2, 2)", "Matmul")),
    ("ridge", lambda: roofline.ridge_point("tpu_v5e"), ("'tpu_v5e'", "chips.get")),
    ("padding", lambda: roofline.tile_padding(None, V5E), ("None", "Matmul")),
    ("waves", lambda: roofline.wave_quantisation(None, H100), ("None", "Matmul")),
    ("text for intensity", lambda: roofline.attainable(V5E, "bf16", "2"), ("FLOP/B",)),
    ("energy", lambda: chips.joules_per_peak_flop("tpu_v5e", "bf16"), ("'tpu_v5e'", "chips.get")),
    ("power", lambda: chips.joules_per_peak_flop(V5E, "bf16", "tpd"), ("'tpd'", "'tdp'")),
    ("kind", lambda: chips.identify(None, "tpu"), ("None", "device_kind")),
    ("id", lambda: chips.get(5), ("5", "use one of")),
    ("overlap", lambda: simulate(overlap="yes"), ("overlap is 'yes'", "True", "False")),
    ("fault's name", lambda: simulate(fault="no_skew"), ("'no_skew'", "systolic.Fault")),
    ("systolic ledger", lambda: ledger.systolic(WARPS), ("WarpTrace", "systolic.simulate")),
    ("energy", lambda: ledger.energy(ARRAY), ("SystolicTrace", "ledger.levels")),
    ("levels", lambda: ledger.levels(WARPS, "int8"), ("WarpTrace", "systolic.simulate", "systolic.gemm")),
    ("levels' pipeline", lambda: ledger.levels(ARRAY, "int8", pipeline=ARRAY), ("systolic.pipeline",)),
    ("warp ledger", lambda: ledger.warp(ARRAY), ("SystolicTrace", "simt.simulate")),
    ("systolic player", lambda: widgets.SystolicPlayer(WARPS), ("WarpTrace", "systolic.simulate")),
    ("tiling player", lambda: widgets.TilingPlayer(ARRAY), ("SystolicTrace", "systolic.gemm")),
    ("overlap", lambda: systolic.gemm(**SIZES, overlap=1), ("overlap is 1", "bool")),
    ("cost's cycle", lambda: COST.busy(0.5), ("t is 0.5", "whole numbers")),
    ("cost's cycles", lambda: COST.macs(["0"]), ("['0']", "whole numbers")),
    ("units' chip", lambda: systolic.matrix_units(5), ("chip is 5", "Chip")),
    ("fault player", lambda: widgets.FaultPlayer(ARRAY, WARPS), ("WarpTrace", "systolic.simulate")),
    ("hidden fault", lambda: widgets.FaultPlayer(ARRAY, BROKEN, hide_fault=1), ("hide_fault is 1", "True")),
    ("broken trace", lambda: systolic.suspects(ARRAY, None), ("broken is None", "systolic.simulate")),
    ("cells", lambda: systolic.suspects(ARRAY, BROKEN, among=5), ("among is 5", "(row, col)")),
    ("a cell", lambda: systolic.suspects(ARRAY, BROKEN, among=[0]), ("Cell 0", "(row, col)")),
    ("dataflows player", lambda: widgets.DataflowsPlayer([WARPS] * 3), ("WarpTrace", "SystolicTrace")),
    ("batches player", lambda: widgets.BatchesPlayer([WARPS]), ("a lane", "several things")),
    ("tile", lambda: pipe(tile=5), ("tile is 5", "shared side")),
    ("two sides", lambda: pipe(tile=(2, 2)), ("(2, 2)", "three sides")),
    ("pipeline's overlap", lambda: pipe(overlap=1), ("overlap is 1", "bool")),
    ("pipeline's chip", lambda: pipe(chip=5), ("chip is 5", "Chip")),
    ("pipeline's VMEM", lambda: pipe(vmem_bytes=2.5), ("vmem_bytes is 2.5", "whole number")),
    ("one cycle", lambda: PIPE.tally(5), ("cycles is 5", "list of cycles")),
    ("pipeline player", lambda: widgets.PipelinePlayer([WARPS]), ("WarpTrace", "systolic.pipeline")),
    ("occupancy player", lambda: widgets.OccupancyPlayer([WARPS]), ("WarpTrace", "simt.occupancy")),
    ("one number", lambda: widgets.OccupancyPlayer(5), ("launches is 5", "simt.occupancy")),
    ("addresses", lambda: simt.sectors(5, 4), ("byte_addresses is 5", "simt.pattern")),
    ("half an address", lambda: simt.sectors([0.5] * 32, 4), ("byte_addresses[0] is 0.5", "whole number")),
    ("text for bytes", lambda: simt.sectors([0] * 32, "4"), ("element_bytes is '4'", "1, 2, 4, 8 or 16")),
    ("text for a mask", lambda: simt.sectors([0] * 32, 4, "all"), ("active_mask is 'all'", "whole number")),
    ("texts for addresses", lambda: simt.count_sectors([["0"] * 32], 4), ("<U1", "whole numbers")),
    ("texts for masks", lambda: simt.count_sectors([[0] * 32], 4, "all"), ("<U3", "whole number")),
    ("no pattern", lambda: simt.pattern(5), ("pattern is 5", "one a lane")),
    ("own exercise", lambda: lesson.own_kernel(exercise=5), ("exercise is 5", "kernel_exercise")),
    ("own kernel's kind", lambda: lesson.own_kernel(5), ("kernel is 5", "written with def")),
    ("a case", lambda: lesson.kernel_exercise("t", cases=[5]), ("A case is 5", "simt.lesson_kernels")),
    ("compare", lambda: GPU_RUN.compare(5), ("run is 5", "trace_kernel")),
    ("own pattern's kind", lambda: lesson.own_access(5), ("pattern is 5", "'8 * lane'")),
    ("access player", lambda: widgets.AccessPlayer(ARRAY), ("SystolicTrace", "simt.sectors")),
    ("lanes of no kernel", lambda: simt.follow_lanes(5), ("kernel is 5", "simt.trace_kernel")),
    ("program of a warp", lambda: simt.run_warp(5), ("program is 5", "as one text")),
    ("half a cycle", lambda: simt.run_warp("x = 1").lines_at(0.5), ("t is 0.5", "whole number")),
    ("a name", lambda: simt.lesson_kernels.transpose("tiled_transpose"), ("'tiled_transpose'", "def")),
    ("half a block", lambda: simt.run_on_gpu(simt.lesson_kernels.saxpy, grid=1, block=0.5), ("is 0.5",)),
    ("divergence player", lambda: widgets.DivergencePlayer(5), ("traces is 5", "simt.run_warp")),
    ("placement player", lambda: widgets.PlacementPlayer(5), ("placements is 5", "simt.place_blocks")),
    ("warp player", lambda: widgets.WarpPlayer(ARRAY), ("SystolicTrace", "simt.simulate")),
    ("tensor player", lambda: widgets.TensorPlayer([WARPS]), ("WarpTrace", "simt.tensor_kernel")),
    ("barrier player", lambda: widgets.BarrierPlayer(ARRAY), ("SystolicTrace", "simt.simulate")),
    ("barriers", lambda: simt.barriers(ARRAY), ("SystolicTrace", "simt.simulate")),
    ("rate", lambda: widgets.SystolicPlayer(ARRAY, rate="2"), ("rate is '2'", "number")),
    ("question", lambda: widgets.Question(None), ("None", "sentence")),
    ("task", lambda: widgets.SystolicPlayer(ARRAY, task=5), ("task is 5", "sentence")),
    ("folds", lambda: widgets.SystolicPlayer(ARRAY, folds=1), ("folds is 1", "(0, 1)")),
    ("own dtype", lambda: lesson.own_product(dtype=8), ("8", "int8")),
    ("own size", lambda: lesson.own_sizes("12"), ("m is '12'", "whole number")),
    ("choices", lambda: lesson.predict("q?", choices=5, answer=1), ("choices is 5", "leave it out")),
    ("unit", lambda: lesson.predict("q?", unit=None, answer=1), ("unit is None", "in words")),
    ("hides", lambda: lesson.predict("q?", answer=1, hides=5), ("int", "WarpPlayer")),
    ("reveal", lambda: lesson.reveal(5), ("int", "lesson.predict")),
    ("cases", lambda: lesson.exercise("t", answer=len, cases=5), ("cases is 5", "tuple")),
    ("gathered", lambda: split_run(gather=1), ("gather is 1", "True or False")),
    ("devices in words", lambda: split_run(devices="two"), ("devices is 'two'", "bench.several_devices")),
    ("device", lambda: split_run(devices=[5]), ("devices holds 5", "jax.devices()")),
    ("chip of links", lambda: bench.split_bound(8, 8, 8, chip=5), ("chip is 5", "'tpu_v5e'")),
    ("scaling of products", lambda: figures.scaling(bench.recorded()), ("Measurement", "bench.scaling")),
    ("program", lambda: bench.read_program(5), ("text is 5", "as_text")),
    ("compiled", lambda: bench.compiled(5), ("int 5", "function of arrays")),
    ("product", lambda: bench.compiled(abs, 1.0, matmul=(2, 2, 2)), ("(2, 2, 2)", "Matmul(m, k, n")),
    ("profiled", lambda: bench.profile("f"), ("'f'", "function of arrays")),
    ("timeline", lambda: figures.timeline([5]), ("[5]", "bench.profile")),
    ("trace", lambda: bench.read_timeline(5), ("path is 5", "'my_trace'")),
    ("compared run", lambda: bench.compare([5], [5]), ("5", "bench.load")),
    ("compared one", lambda: bench.compare(bench.recorded()[0], []), ("first is", "bench.load")),
    ("ratios", lambda: figures.ratios([]), ("[]", "bench.compare")),
    ("sides", lambda: bench.shapes.squares(64), ("sides is 64", "[256, 512]")),
    ("sizes", lambda: bench.sweep(64), ("sizes is 64", "[256, 512]")),
    ("progress", lambda: bench.sweep([8], progress="print"), ("'print'", "function")),
    ("work", lambda: bench.measure_energy(5), ("work is 5", "lambda: f(x)")),
    ("dtypes", lambda: bench.ceilings("float32"), ("'float32'", '["float32"]')),
    ("saved", lambda: bench.save("x.json", [5]), ("int 5", "Measurement")),
    ("path", lambda: bench.load(None), ("None", "path")),
    ("explained", lambda: bench.explain(5), ("run is 5", "bench.time_matmul")),
    ("call run", lambda: bench.explain(bench.recorded()[0], call_run=5), ("call_run is 5", "Measurement")),
    ("ceilings", lambda: bench.explain(bench.recorded()[0], ceilings=5), ("ceilings is 5", "bench.ceilings")),
    ("all explained", lambda: bench.explain_all(5), ("runs is 5", "bench.sweep")),
    ("gap bars", lambda: figures.gap_bars([1.0]), ("1.0", "bench.explain")),
    ("figure", lambda: figures.roofline(5), ("5", "tpu_v5e")),
    ("points", lambda: figures.roofline("tpu_v5e", [1.0]), ("1.0", "bench.recorded")),
    ("workload", lambda: guide.advise({"phase": "train"}), ("'train'", "from_dict")),
    ("compared", lambda: guide.compare(None), ("None", "Workload")),
    ("fitted", lambda: guide.fit_memory(None, "h100_sxm"), ("None", "Workload")),
    ("prices", lambda: guide.advise(guide.Workload(), prices=[2.5]), ("2.5", "chips.prices()")),
    ("text for a number", lambda: training(params_b="7"), ("params_b is '7'", "number")),
    ("own workload", lambda: lesson.own_workload("train"), ("workload is 'train'", "Workload.from_dict")),
    ("own task", lambda: lesson.own_workload(task=5), ("task is 5", "one sentence")),
]  # fmt: skip

# A keyword with a letter out of place, and the one that is named in return.
KEYWORDS: list[tuple[str, Callable[..., object], str]] = [
    ("dataflw", simulate, "dataflow"),
    ("convntion", lambda **given: systolic.gemm(**SIZES, **given), "convention"),
    ("strid", lambda **given: systolic.conv(**IMAGE, **given), "stride"),
    ("overlp", lambda **given: systolic.gemm(**SIZES, **given), "overlap"),
    ("strid", systolic.im2col, "stride"),
    ("prodct", PATCHES.image, "product"),
    ("chp", systolic.matrix_units, "chip"),
    ("unit", UNITS.gemm, "units"),
    ("cycl", COST.verify, "cycle"),
    ("bin", COST.utilization_over_time, "bins"),
    ("strat", lambda **given: widgets.TilingPlayer(COST, **given), "start"),
    ("overlapp", simulate, "overlap"),
    ("rwo", systolic.Fault, "row"),
    ("colz", ARRAY.registers, "cols"),
    ("cylce", ARRAY.verify, "cycle"),
    ("polcy", warps, "policy"),
    ("latncy", simt.Instruction, "latency"),
    ("latncy", simt.chain, "latency"),
    ("sum_latncy", simt.load_compute, "sum_latency"),
    ("latncy", simt.load_stream, "latency"),
    ("latncy", simt.chain_and_barrier, "latency"),
    ("tial", simt.diverge, "tail"),
    ("intervall", simt.littles_law_warps, "interval"),
    ("thread_per_block", simt.matmul_kernel, "threads_per_block"),
    ("polcy", simt.matmul_kernel(A, A).simulate, "policy"),
    ("stage", lambda **given: simt.tensor_kernel(A, A, **given), "stages"),
    ("architectur", lambda **given: simt.ffma_kernel(A, A, **given), "architecture"),
    ("polcy", TILED.kernel.simulate, "policy"),
    ("dtpye", lambda **given: simt.fragment("m16n8k16", "a", **given), "dtype"),
    ("architectur", simt.mma_shapes, "architecture"),
    ("layot", lambda **given: simt.matrix_load("m16n8k16", "a", row_bytes=64, **given), "layout"),
    ("colum", lambda **given: simt.fragment("m16n8k16", "a").lane_of(0, **given), "column"),
    ("registers", simt.occupancy, "registers_per_thread"),
    ("dynamic_shard", lambda **given: simt.best_block_size("8.0", 32, **given), "dynamic_shared"),
    ("gird", simt.trace_kernel, "grid"),
    ("block_cycle", simt.place_blocks, "block_cycles"),
    ("wrap", lambda **given: simt.follow_lanes(TRACED, **given), "warp"),
    ("latncy", lambda **given: simt.run_warp("x = 1", **given), "latency"),
    ("kernal", simt.compile_kernel, "kernel"),
    ("polcy", TRACED.simulate, "policy"),
    ("served", TRACED.timed_programs, "served_by"),
    ("block", TRACED.resident_warps, "blocks"),
    ("kernal", simt.lesson_kernels.product, "kernel"),
    ("dtpye", Matmul, "dtype"),
    ("dtpye", roofline.bound, "dtype"),
    ("dtpye", roofline.ridge_point, "dtype"),
    ("intensty", roofline.attainable, "intensity"),
    ("matmull", roofline.tile_padding, "matmul"),
    ("block_per_sm", roofline.waves, "blocks_per_sm"),
    ("tiles", roofline.wave_quantisation, "tile"),
    ("chipid", chips.get, "chip_id"),
    ("famly", chips.ids, "family"),
    ("kinds", chips.prices, "kind"),
    ("kinds", chips.price_range, "kind"),
    ("chipid", chips.energy, "chip_id"),
    ("factid", chips.energy_fact, "fact_id"),
    ("powr", chips.joules_per_peak_flop, "power"),
    ("platfrm", chips.stacks, "platform"),
    ("platfrm", chips.identify, "platform"),
    ("clok", bench.time_matmul, "clock"),
    ("splt", bench.time_sharded, "split"),
    ("knd", bench.scaling, "kind"),
    ("cont", bench.several_devices, "count"),
    ("gathr", bench.split_bound, "gather"),
    ("run", figures.scaling, "runs"),
    ("budget_second", bench.sweep, "budget_seconds"),
    ("memory_byte", bench.sweep, "memory_bytes"),
    ("name", bench.compare, "names"),
    ("token", bench.shapes.llama_block, "tokens"),
    ("image", bench.shapes.resnet, "images"),
    ("operaton", bench.bandwidth, "operation"),
    ("dtype", bench.ceilings, "dtypes"),
    ("second", bench.measure_energy, "seconds"),
    ("precison", bench.energy_of_matmul, "precision"),
    ("pth", bench.load, "path"),
    ("matmull", bench.compiled, "matmul"),
    ("precison", bench.inspect_matmul, "precision"),
    ("foldr", bench.profile, "folder"),
    ("most_event", bench.read_timeline, "most_events"),
    ("txt", bench.read_program, "text"),
    ("take", figures.timeline, "taken"),
    ("ceiling", bench.explain, "ceilings"),
    ("chp", bench.explain_all, "chip"),
    ("explain", figures.gap_bars, "explained"),
    ("measurement", bench.save, "measurements"),
    ("precison", numerics.multiply, "precision"),
    ("prts", numerics.split, "parts"),
    ("earlir", numerics.multiply_add, "earlier"),
    ("nam", bench.recorded, "name"),
    ("price", guide.advise, "prices"),
    ("price", guide.compare, "prices"),
    ("n_chip", guide.estimate_training, "n_chips"),
    ("chipid", guide.fit_memory, "chip_id"),
    ("contxt", guide.serve, "context"),
    ("domian", guide.Workload, "domain"),
    ("domian", guide.Workload().change, "domain"),
    ("trce", ledger.systolic, "trace"),
    ("trce", ledger.warp, "trace"),
    ("dtpye", lambda **given: ledger.levels(ARRAY, **given), "dtype"),
    ("memry", lambda **given: ledger.energy(BOOKS, **given), "memory"),
    ("parts", ledger.energy(BOOKS).part, "part"),
    ("parts", ledger.energy(BOOKS).share, "part"),
    ("kinds", BOOKS.select, "kind"),
    ("operands", BOOKS.elements, "operand"),
    ("wya", BOOKS.bytes, "way"),
    ("elemnts", stored_bytes, "elements"),
    ("strat", lambda **given: widgets.SystolicPlayer(ARRAY, **given), "start"),
    ("zom", lambda **given: widgets.CellPlayer(ARRAY, **given), "zoom"),
    ("hide_falt", lambda **given: widgets.FaultPlayer(ARRAY, BROKEN, **given), "hide_fault"),
    ("amon", lambda **given: systolic.suspects(ARRAY, BROKEN, **given), "among"),
    ("rwo", systolic.suspects(ARRAY, BROKEN).verdict, "row"),
    ("tsak", lambda **given: widgets.DataflowsPlayer([], **given), "task"),
    ("batch", lambda **given: widgets.BatchesPlayer(ARRAY, **given), "batches"),
    ("elements_bytes", simt.sectors, "element_bytes"),
    ("activ_mask", simt.wavefronts, "active_mask"),
    ("activ_masks", simt.count_sectors, "active_masks"),
    ("byte_offset", simt.count_wavefronts, "byte_offsets"),
    ("expresion", simt.pattern, "expression"),
    ("memry", lesson.own_access, "memory"),
    ("excercise", lesson.own_kernel, "exercise"),
    ("limit", lesson.kernel_exercise, "limits"),
    ("gird", simt.run_on_gpu, "grid"),
    ("row", simt.lesson_kernels.transpose, "rows"),
    ("strat", lambda **given: widgets.AccessPlayer(simt.sectors([0] * 32, 4), **given), "start"),
    ("strat", lambda **given: widgets.WarpPlayer(WARPS, **given), "start"),
    ("strat", lambda **given: widgets.BarrierPlayer(WARPS, **given), "start"),
    ("chioces", lambda **given: widgets.Question("q?", **given), "choices"),
    ("chioces", lesson.predict, "choices"),
    ("dtyp", lesson.own_product, "dtype"),
    ("aray", lesson.own_sizes, "array"),
    ("registers", lesson.own_occupancy, "registers_per_thread"),
    ("strat", lambda **given: widgets.OccupancyPlayer(simt.occupancy(), **given), "start"),
    ("strat", lambda **given: widgets.DivergencePlayer(simt.run_warp("x = 1"), **given), "start"),
    ("strat", lambda **given: widgets.PlacementPlayer(simt.place_blocks(3, 2), **given), "start"),
    ("hnt", lesson.exercise, "hint"),
    ("skp", lesson.skip_predictions, "skip"),
    ("dtpye", figures.roofline, "dtype"),
    ("chp", figures.measured_against_predicted, "chip"),
    ("larges", figures.padding_staircase, "largest"),
]


def assert_ours(error: BaseException, parts: tuple[str, ...]) -> None:
    """Hold an error to the house's form: raised on purpose, here, in one sentence with these parts."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    assert HOME in Path(last.filename).parents, f"raised in {last.filename}: {error}"
    assert "raise" in (last.line or ""), f"not raised on purpose, but by {last.line!r}: {error}"
    sentence = str(error)
    assert "\n" not in sentence and " at 0x" not in sentence and sentence.endswith((".", "?"))
    for part in parts:
        assert part in sentence


def refused(call: Callable[[], object], *parts: str) -> None:
    with pytest.raises((ValueError, TypeError, MemoryError)) as caught:
        call()
    assert_ours(caught.value, parts)


@pytest.mark.parametrize(("call", "parts"), [row[1:] for row in VALUES], ids=[row[0] for row in VALUES])
def test_an_impossible_value_gets_a_sentence(call: Callable[[], object], parts: tuple[str, ...]) -> None:
    refused(call, *parts)


@pytest.mark.wrong_type
@pytest.mark.parametrize(("call", "parts"), [row[1:] for row in TYPES], ids=[row[0] for row in TYPES])
def test_a_wrong_type_gets_a_sentence(call: Callable[[], object], parts: tuple[str, ...]) -> None:
    refused(call, *parts)


@pytest.mark.wrong_type
@pytest.mark.parametrize(("wrong", "call", "right"), KEYWORDS)
def test_an_unknown_keyword_names_the_nearest(wrong: str, call: Callable[..., object], right: str) -> None:
    refused(lambda: call(**{wrong: 1}), repr(wrong), f"Did you mean {right!r}?", "Valid: ")


def test_the_table_would_see_an_error_that_is_not_ours() -> None:
    for foreign in (lambda: np.zeros(2).reshape(3), lambda: chips.get("tpu_v5e").peak_flops_per_second["x"]):
        with pytest.raises(Exception) as caught:  # any: that is what the check is for
            foreign()
        with pytest.raises(AssertionError):
            assert_ours(caught.value, ())


# --- files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "not valid JSON"),
        ("{", "cut short"),
        ("[1, 2]", "list"),
        ('{"form": "other/1"}', "'other/1'"),
        ('{"form": "pulsewarp-measurements/1"}', "no list 'measurements'"),
        ('{"form": "pulsewarp-measurements/1", "measurements": [5]}', "measurement 0 is int"),
        ('{"form": "pulsewarp-measurements/1", "measurements": [{"m": 1}]}', "no field"),
        ("\x00\x01", "not valid JSON"),
    ],
)
def test_a_foreign_file_gets_a_sentence(tmp_path: Path, text: str, part: str) -> None:
    file = tmp_path / "run.json"
    file.write_text(text, encoding="utf-8")
    refused(lambda: bench.load(file), str(file), part)
    assert file.read_text(encoding="utf-8") == text


def test_every_cut_of_a_saved_file_is_refused(tmp_path: Path) -> None:
    whole = bench.save(tmp_path / "whole.json", bench.recorded()[:2]).read_bytes()
    file = tmp_path / "cut.json"
    for length in range(0, len(whole) - 2, 37):  # the last two bytes are a brace and the line's end
        file.write_bytes(whole[:length])
        refused(lambda: bench.load(file), str(file))


def test_a_workload_of_another_form_gets_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "workload.json"
    file.write_text(json.dumps({"form": "pulsewarp-measurements/1"}), encoding="utf-8")
    refused(lambda: guide.Workload.load(file), "pulsewarp-measurements/1", "pulsewarp-workload/1")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    for call in (
        lambda: bench.load(tmp_path),
        lambda: bench.save(tmp_path, []),
        lambda: guide.Workload.load(tmp_path),
    ):
        with pytest.raises(IsADirectoryError) as caught:
            call()
        assert_ours(caught.value, (str(tmp_path), "name a file in it"))


@pytest.mark.parametrize("fault", ["fsync", "write", "replace", "interrupt"])
def test_a_write_that_fails_leaves_the_earlier_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    file = tmp_path / "run.json"
    bench.save(file, bench.recorded()[:1])
    before = file.read_bytes()

    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt if fault == "interrupt" else OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if fault == "replace":
        monkeypatch.setattr(Path, "replace", fail)
    elif fault == "write":
        monkeypatch.setattr(os, "fdopen", fail)
    else:
        monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises((OSError, KeyboardInterrupt)):
        bench.save(file, bench.recorded())
    monkeypatch.undo()
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_a_full_disk_is_reported_by_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "scene.html"
    file.write_text("earlier", encoding="utf-8")
    true_fdopen = os.fdopen

    def full(handle: int, *arguments: Any, **options: Any) -> Any:
        os.close(handle)
        return builtins.open("/dev/full", *arguments, **options)  # noqa: PTH123  # a device, closed by its user

    monkeypatch.setattr(os, "fdopen", full)
    assert main(["export", "systolic", "-o", str(file)]) == 2
    monkeypatch.setattr(os, "fdopen", true_fdopen)
    said = capsys.readouterr()
    assert said.out == "" and "No space left" in said.err
    assert file.read_text(encoding="utf-8") == "earlier"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("found", [0, 1])
def test_an_interrupted_bench_keeps_what_was_measured_and_what_was_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: int
) -> None:
    file = tmp_path / "run.json"
    bench.save(file, bench.recorded()[:2])
    before = file.read_bytes()
    rows = iter(bench.recorded()[:found])

    def measure(*_: object, **__: object) -> object:
        for row in rows:
            return row
        raise KeyboardInterrupt

    monkeypatch.setattr("pulsewarp.bench.live.sweeps.time_matmul", measure)
    with pytest.warns(RuntimeWarning, match="Interrupted"):
        status = main(["bench", "--size", "8", "16", "32", "--out", str(file)])
    assert status == 130
    if found:
        assert bench.load(file) == bench.recorded()[:found]
    else:
        assert file.read_bytes() == before


def test_a_device_that_fails_takes_nothing_measured_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = iter(bench.recorded()[:1])

    def measure(*_: object, **__: object) -> object:
        for row in rows:
            return row
        raise RuntimeError("INTERNAL: the device went away.")

    monkeypatch.setattr("pulsewarp.bench.live.sweeps.time_matmul", measure)
    with pytest.warns(RuntimeWarning, match="the device went away. 1 of 3 products are kept"):
        assert bench.sweep([8, 16, 32]) == list(bench.recorded()[:1])
    with pytest.raises(RuntimeError, match="went away"):  # with nothing to keep, the error itself
        bench.sweep([8, 16, 32])


def test_a_file_may_be_written_where_there_was_none(tmp_path: Path) -> None:
    assert write_text_atomically(tmp_path / "new.txt", "text").read_text(encoding="utf-8") == "text"


# --- the command -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ([], "required"),
        (["doctr"], "'doctr'"),
        (["advise", "--framewrk", "jax"], "'--framework'"),
        (["advise", "--framework", "jaxx"], "'jaxx'"),
        (["advise", "--params-b", "-7"], "params_b is -7"),
        (["advise", "--params-b", "many"], "params_b is 'many'"),
        (["advise", "no_such_file.json"], "no_such_file.json"),
        (["bench", "--size", "0"], "0"),
        (["bench", "--dtype", "float23"], "'float23'"),
        (["bench", "--clock", "wall"], "'wall'"),
        (["bench", "--size", "8", "--out", "no_such_folder/run.json"], "no_such_folder"),
        (["export", "sistolic"], "'systolic'"),
        (["export", "no_such_notebook.ipynb"], "no_such_notebook.ipynb"),
        (["export", "systolic", "--rows", "0"], "rows is 0"),
        (["export", "systolic", "--policy", "lrr"], "--policy belongs to the warp scene"),
        (["export", "warp", "--policy", "lr"], "'lrr'"),
    ],
)
def test_the_command_answers_on_stderr_with_status_2(
    words: list[str], part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = main(words)
    except SystemExit as end:
        status = int(str(end.code))
    said = capsys.readouterr()
    assert status == 2
    assert said.out == ""
    assert part in said.err and said.err.count("\n") == 1 and "Traceback" not in said.err
