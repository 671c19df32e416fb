"""Products split over several devices: on 8 parts of this CPU, in two processes, from recorded programs."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pulsewarp import bench, figures
from pulsewarp.bench.collectives import Collective, read_collectives
from pulsewarp.bench.hlo import read_program
from pulsewarp.bench.live import mesh, sharding
from pulsewarp.bench.measurement import MeasuredDevice
from pulsewarp.bench.sharded_measurement import SPLITS, ShardedMeasurement, needed_collective
from pulsewarp.matmul import Matmul

HERE = Path(__file__).parent
M, K, N = 64, 128, 96  # as in split_for_real.py
WHOLE_RESULT = M * N * 4

RUN = ShardedMeasurement(
    matmul=Matmul(64, 64, 64, "fp32"),
    split="contraction",
    gather=True,
    devices=4,
    processes=1,
    device=MeasuredDevice("gpu", "Example GPU", None, 1, "Example CPU", 16),
    clock="call",
    precision="highest",
    precision_in_program="highest",
    seconds=(4e-4, 3e-4, 5e-4, 4e-4),
    local_seconds=(3e-4, 2e-4, 3e-4, 3e-4),
    collectives=(Collective("all-reduce", 16384, 4),),
    products_per_repeat=1,
    compile_seconds=0.1,
    warmup_calls=3,
    relative_error=1e-7,
    error_rows=64,
    seed=0,
    versions={"jax": "0.7.2"},
    when="2026-12-01T12:00:00+00:00",
)


# --- the value ----------------------------------------------------------------------------------------------


def ring(devices: int, gathers: bool, scatters: bool) -> tuple[np.ndarray, list[int]]:
    """Pass shares of one array round a ring, and count what each device sends.

    A device adds what it receives to its own share (scatters), then passes finished shares on (gathers).
    """
    arrays = np.arange(devices * devices, dtype=float).reshape(devices, devices)  # device, share
    sent = [0] * devices
    for step in range(devices - 1) if scatters else ():
        moved = [(device, (device - step) % devices) for device in range(devices)]
        values = [arrays[device, part] for device, part in moved]
        for (device, part), value in zip(moved, values, strict=True):
            arrays[(device + 1) % devices, part] += value
            sent[device] += 1
    for step in range(devices - 1) if gathers else ():
        moved = [(device, (device + 1 - step) % devices) for device in range(devices)]
        values = [arrays[device, part] for device, part in moved]
        for (device, part), value in zip(moved, values, strict=True):
            arrays[(device + 1) % devices, part] = value
            sent[device] += 1
    return arrays, sent


@pytest.mark.parametrize("devices", [1, 2, 3, 4, 8])
def test_a_ring_sends_what_the_cost_says(devices: int) -> None:
    summed, sent = ring(devices, gathers=True, scatters=True)
    first = np.arange(devices * devices, dtype=float).reshape(devices, devices)
    assert (summed == first.sum(axis=0)).all()  # the ring does add up, on every device
    assert sent == [Collective("all-reduce", devices, devices).bytes_sent] * devices
    for name in ("all-gather", "reduce-scatter"):
        _, sent = ring(devices, gathers=name == "all-gather", scatters=name == "reduce-scatter")
        assert sent == [Collective(name, devices, devices).bytes_sent] * devices


def test_a_neighbour_gets_the_array_itself_and_loops_count() -> None:
    assert Collective("collective-permute", 100, 4).bytes_sent == 100
    assert Collective("all-gather", 100, 4, times=3).bytes_sent == 225
    assert Collective("all-gather", 100, 4, times=None).bytes_sent is None
    assert Collective("ragged-all-to-all", 100, 4).bytes_sent is None


def test_what_the_exchange_adds_is_the_difference_of_neighbours() -> None:
    assert RUN.communication_seconds == pytest.approx(1e-4)
    assert RUN.communication_share == pytest.approx(0.25)
    assert dataclasses.replace(RUN, collectives=(), local_seconds=()).communication_share == 0
    assert dataclasses.replace(RUN, local_seconds=()).communication_share is None
    alike = dataclasses.replace(RUN, local_seconds=(4e-4, 3e-4, 4e-4, 3e-4))  # half of them add nothing
    assert alike.communication_share is None
    assert "not to be told from the spread" in repr(alike)
    assert "not measured" in repr(dataclasses.replace(RUN, local_seconds=()))


def test_a_split_run_survives_a_file_bit_for_bit(tmp_path: Path) -> None:
    runs = [RUN, dataclasses.replace(RUN, collectives=None), dataclasses.replace(RUN, collectives=())]
    assert list(bench.load(bench.save(tmp_path / "runs.json", runs))) == runs


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"devices": 3}, "k is 64, but contraction over 3 devices need a multiple of 3; take 63 or 66"),
        ({"split": "row"}, "Did you mean 'rows'"),
        ({"processes": 8}, "processes is 8"),
        ({"local_seconds": (1e-4,)}, "local_seconds has 1 entries and seconds has 4"),
        ({"local_seconds": (1e-4, 1e-4, 0, 1e-4)}, "local_seconds[2] is 0"),
        ({"relative_error": float("nan")}, "relative_error is nan"),
    ],
)
def test_a_split_run_that_cannot_be_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError) as raised:
        dataclasses.replace(RUN, **changes)
    assert words in str(raised.value)


# --- reading programs ---------------------------------------------------------------------------------------

# The lines of an exchange as programs print it, and what it is. The first three are in the forms of JAX
# 0.4.30, 0.7.2 and 0.12.0.1 on a CPU; begun and ended apart, and in loops, as tests of XLA write them for
# GPUs; the fusion as XLA's "Shapes and layout" shows it for a TPU.
LINES = {
    "groups listed": (
        "%r = f32[256,64]{1,0} all-reduce(f32[256,64]{1,0} %p), channel_id=1, replica_groups={{0,1,2,3}}, "
        "use_global_device_ids=true, to_apply=%add",
        Collective("all-reduce", 65536, 4),
    ),
    "groups counted": (
        "%r = f32[256,64]{0,1} all-gather(%p), channel_id=1, replica_groups=[2,4]<=[8], dimensions={1}",
        Collective("all-gather", 65536, 4),
    ),
    "groups named": (
        "%r = bf16[64,8]{1,0} reduce-scatter(%p), replica_groups=mesh['a'=2,'b'=8] {'b'}, dimensions={1}",
        Collective("reduce-scatter", 8192, 8),
    ),
    "begun": (
        "%r = (f32[2,64]{1,0}, f32[16,64]{1,0}) all-gather-start(%p), replica_groups={}, dimensions={0}",
        Collective("all-gather", 4096, 5),
    ),
    "a begun sum": (
        "%r = f32[16,64]{1,0} all-reduce-start(%p), replica_groups={{0,1}}, to_apply=%add",
        Collective("all-reduce", 4096, 2),
    ),
    "two at once, begun": (
        "%r = ((f32[4,8]{1,0}, f32[4]{0}), (f32[2,8]{1,0}, f32[2]{0})) reduce-scatter-start(%p, %q), "
        "replica_groups={{0,1}}, dimensions={0}, to_apply=%add",
        Collective("reduce-scatter", 144, 2),
    ),
    "passed on": (
        "%r = s8[4,64]{1,0} collective-permute(%p), source_target_pairs={{0,1},{1,0}}",
        Collective("collective-permute", 256, 5),
    ),
}


@pytest.mark.parametrize("line", LINES)
def test_an_exchange_is_read_as_programs_print_it(line: str) -> None:
    text, expected = LINES[line]
    program = f"ENTRY %main (p: f32[2]) -> f32[2] {{\n  %p = f32[2]{{0}} parameter(0)\n  {text}\n}}"
    assert read_collectives(read_program(program), 5) == (expected,)


def test_the_end_of_an_exchange_is_no_second_one() -> None:
    text = LINES["begun"][0] + "\n  ROOT %d = f32[16,64]{1,0} all-gather-done(%r)"
    program = read_program(f"ENTRY %main (p: f32[2]) -> f32[2] {{\n  {text}\n}}")
    assert len(read_collectives(program, 8)) == 1


def test_a_scattered_sum_of_a_tpu_is_not_a_sum_for_all() -> None:
    program = read_program(
        "%all-reduce-scatter.3 (x: f32[64,8]) -> f32[16,8] {\n"
        "  %all-reduce.1 = f32[64,8]{1,0} all-reduce(%x), replica_groups={{0,1,2,3}}, to_apply=%add\n"
        "  ROOT %slice.1 = f32[16,8]{1,0} dynamic-slice(%all-reduce.1, %i), dynamic_slice_sizes={16,8}\n}\n"
        "ENTRY %main (p: f32[64,8]) -> f32[16,8] {\n"
        "  ROOT %fusion = f32[16,8]{1,0} fusion(%p), kind=kCustom, calls=%all-reduce-scatter.3\n}\n"
    )
    assert read_collectives(program, 4) == (Collective("reduce-scatter", 2048, 4),)


@pytest.mark.parametrize(("written", "times"), [('{"known_trip_count":{"n":"3"}}', 3), ("{}", None)])
def test_an_exchange_in_a_loop_counts_as_often_as_the_loop_runs(written: str, times: int | None) -> None:
    program = read_program(
        "%body (x: f32[8]) -> f32[8] {\n"
        "  ROOT %cp = f32[8]{0} collective-permute(%x), source_target_pairs={{0,1},{1,0}}\n}\n"
        "ENTRY %main (p: f32[8]) -> f32[8] {\n"
        f"  ROOT %w = f32[8]{{0}} while(%p), condition=%cond, body=%body, backend_config={written}\n}}\n"
    )
    assert read_collectives(program, 2) == (Collective("collective-permute", 32, 2, times),)


# --- checking, alternating, choosing: with fakes ------------------------------------------------------------


def shards(result: np.ndarray, parts: int, copies: int = 1) -> list[Any]:
    rows = result.shape[0] // parts
    return [
        SimpleNamespace(
            index=(slice(i * rows, (i + 1) * rows), slice(None)),
            data=result[i * rows : (i + 1) * rows].copy(),
        )
        for i in range(parts)
        for _ in range(copies)
    ]


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("broken", range(4))
def test_one_wrong_share_or_copy_of_it_shows_in_the_error(broken: int, copies: int) -> None:
    random = np.random.default_rng(0)
    a, b = random.standard_normal((32, 8)), random.standard_normal((8, 16))
    result = SimpleNamespace(addressable_shards=shards(a @ b, 4, copies))
    assert sharding._check_shares(a, b, result, 0).error < 1e-15
    result.addressable_shards[broken * copies + copies - 1].data[:, 3] += 1
    assert sharding._check_shares(a, b, result, 0).error > 1e-2


@pytest.mark.wrong_type  # a namespace in place of a layout
def test_programs_are_called_in_turn() -> None:
    called: list[str] = []
    fake = SimpleNamespace(block_until_ready=lambda result: result)
    layout: Any = SimpleNamespace(jax=fake, processes=1)
    programs = [lambda *_: called.append("whole") or "result", lambda *_: called.append("alone")]
    taken, result = sharding._alternate(layout, programs, (0, 0), repeats=3, budget=1.0)
    assert called == ["whole", "alone"] * 3
    assert [len(each) for each in taken] == [3, 3] and result == "result"


@pytest.mark.wrong_type  # a namespace in place of a layout
def test_processes_call_equally_often_whatever_the_time() -> None:
    called: list[int] = []
    layout: Any = SimpleNamespace(jax=SimpleNamespace(block_until_ready=lambda x: x), processes=2)
    for budget in (1e-9, 1e9):
        sharding._alternate(layout, [lambda *_: called.append(1)], (0, 0), repeats=None, budget=budget)
    assert len(called) == 2 * sharding._AGREED_REPEATS
    assert sharding._warm_up(layout, [lambda *_: called.append(1)], (0, 0)) == sharding._AGREED_WARM_UP


class FakeJax(ModuleType):
    """JAX with so many devices of each platform; the first platform is the one it prefers."""

    def __init__(self, started: bool = True, old: bool = False, **counts: int) -> None:
        super().__init__("jax")
        self.counts, self.started = counts, started
        self.config = SimpleNamespace(update=self.update)
        if not old:
            self.config.jax_num_cpu_devices = -1

    def update(self, name: str, value: int) -> None:
        if self.started:
            raise RuntimeError("jax_num_cpu_devices config should be updated before backends are initialized")
        self.counts["cpu"] = value

    def devices(self, platform: str | None = None) -> list[Any]:
        self.started = True
        platform = platform or next(iter(self.counts))
        if platform not in self.counts:
            raise RuntimeError(f"Unknown backend {platform}")
        return [SimpleNamespace(platform=platform, id=i) for i in range(self.counts[platform])]


@pytest.mark.parametrize(
    ("jax", "platform", "number"),
    [
        (FakeJax(started=False, cpu=1), "cpu", 8),
        (FakeJax(cpu=8), "cpu", 8),
        (FakeJax(cpu=16), "cpu", 8),
        (FakeJax(started=False, tpu=4, cpu=1), "tpu", 4),
        (FakeJax(gpu=3, cpu=1), "gpu", 2),
        (FakeJax(started=False, gpu=1, cpu=1), "cpu", 8),
    ],
)
def test_accelerators_where_there_are_several_else_parts_of_the_cpu(
    monkeypatch: pytest.MonkeyPatch, jax: Any, platform: str, number: int
) -> None:
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.setattr(mesh, "import_jax", lambda: jax)
    found = mesh.several_devices()
    assert [(each.platform, each.id) for each in found] == [(platform, i) for i in range(number)]


@pytest.mark.parametrize(
    ("jax", "words"),
    [
        (FakeJax(cpu=1), "shows the CPU as 1 device, not 8; restart Python"),
        (FakeJax(gpu=1, cpu=2), "shows the CPU as 2 devices, not 8"),
        (FakeJax(gpu=1), "JAX_PLATFORMS keeps JAX from the CPU"),
    ],
)
def test_too_few_devices_are_answered_with_how_to_begin_anew(
    monkeypatch: pytest.MonkeyPatch, jax: Any, words: str
) -> None:
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.setattr(mesh, "import_jax", lambda: jax)
    with pytest.raises(RuntimeError, match=words):
        mesh.several_devices()


def test_an_older_jax_is_told_by_the_variable_and_what_is_there_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mesh, "import_jax", lambda: FakeJax(old=True, cpu=8))
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=false")
    mesh.several_devices(8)
    told = "--xla_cpu_enable_fast_math=false --xla_force_host_platform_device_count=8"
    assert os.environ["XLA_FLAGS"] == told
    mesh.several_devices(4)
    assert os.environ["XLA_FLAGS"] == told  # whoever has set it knows why


# --- for real, in processes of their own --------------------------------------------------------------------


def surroundings() -> dict[str, str]:
    """The environment of a fresh process that keeps off any accelerator: a TPU belongs to one process."""
    kept = {
        name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "PULSEWARP_BEARTYPE")
    }
    return {**kept, "JAX_PLATFORMS": "cpu"}


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[ShardedMeasurement, ...]]:
    """Read what one run of processes measured; of several workers of pytest the first one runs them."""
    pytest.importorskip("jax", reason="JAX is optional; without it nothing can be timed")
    folder = tmp_path_factory.getbasetemp()
    folder = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "split_for_real"
    said, partly = folder / "said.json", folder / "said.part"
    try:
        folder.mkdir()
    except FileExistsError:
        deadline = time.monotonic() + 600
        while not said.exists() and time.monotonic() < deadline:
            time.sleep(0.2)
    else:
        command = [sys.executable, str(HERE / "split_for_real.py"), str(folder)]
        done = subprocess.run(command, env=surroundings(), capture_output=True, text=True, check=False)
        partly.write_text(json.dumps([done.returncode, done.stderr]), encoding="utf-8")
        partly.replace(said)
    failed, words = json.loads(said.read_text(encoding="utf-8"))
    assert failed == 0, words
    return lambda name: bench.load(folder / f"{name}.json", ShardedMeasurement)


def test_each_split_is_right_and_says_what_it_exchanged(measured: Any) -> None:
    runs = measured("every")
    assert [(run.split, run.gather) for run in runs] == list(itertools.product(SPLITS, (False, True)))
    for run in runs:
        assert (run.devices, run.processes, run.clock, len(run.seconds)) == (8, 1, "call", 2)
        assert run.relative_error <= run.error_bound < 1e-5
        assert run.precision_in_program == "highest"
        assert any(
            "they show what sharding does" in note and "not what it gains" in note for note in run.notes
        )
        assert len(run.local_seconds) == (0 if run.collectives == () else 2)
    found = {(run.split, run.gather): run.collectives for run in runs}
    assert found["rows", False] == found["columns", False] == ()
    gathered = (Collective("all-gather", WHOLE_RESULT, 8),)
    assert found["rows", True] == found["columns", True] == gathered
    assert found["contraction", True] == (Collective("all-reduce", WHOLE_RESULT, 8),)
    # XLA's compiler for CPUs makes no reduce-scatter: each device gets the whole sum and keeps its share.
    (scattered,) = found["contraction", False]
    assert scattered.name in ("all-reduce", "reduce-scatter") and scattered.array_bytes == WHOLE_RESULT


def test_what_a_split_needs_in_principle() -> None:
    needed = {
        (split, gather): needed_collective(split, gather, 8) for split in SPLITS for gather in (False, True)
    }
    assert list(needed.values()) == ["none", "all-gather"] * 2 + ["reduce-scatter", "all-reduce"]
    assert {needed_collective(split, gather, 1) for split, gather in needed} == {"none"}


def test_narrow_types_stay_within_what_their_sums_lose(measured: Any) -> None:
    bf16, int8 = measured("narrow")
    assert 1e-4 < bf16.relative_error <= bf16.error_bound < 0.05
    assert int8.relative_error == int8.error_bound == 0


def test_strong_scaling_keeps_the_product_and_weak_scaling_the_share(measured: Any) -> None:
    strong, weak = measured("strong"), measured("weak")
    assert [run.devices for run in strong] == [run.devices for run in weak] == [1, 8]
    assert {run.matmul for run in strong} == {Matmul(M, K, N, "fp32")}
    assert [run.local.k for run in strong] == [128, 16]
    assert {run.local for run in weak} == {Matmul(M, K, N, "fp32")}
    assert [run.matmul.k for run in weak] == [128, 1024]
    assert [run.collective for run in strong] == ["none", "all-reduce"]


def test_a_planted_fault_shows_in_the_error_of_every_split(measured: Any) -> None:
    for run in measured("faulty"):
        assert run.relative_error == pytest.approx(0.01, rel=1e-3)
        assert run.relative_error > 100 * run.error_bound


def test_a_program_that_computes_more_than_its_share_gives_no_share_of_exchange(measured: Any) -> None:
    (run,) = measured("whole")
    assert {each.name for each in run.collectives} == {"all-gather"}
    if run.local_seconds:  # XLA did not count what its own library calls compute
        pytest.skip("this JAX does not count the operations of the program")
    assert run.communication_share is None
    assert any("more to compute than its share" in note for note in run.notes)


def test_two_processes_split_a_product_over_loopback(measured: Any) -> None:
    for index in range(2):
        runs = measured(f"process_{index}")
        assert [run.collective for run in runs] == ["none", "all-gather", "all-reduce"]
        for run in runs:
            assert (run.devices, run.processes, run.collectives is not None) == (2, 2, True)
            assert run.relative_error <= run.error_bound
            assert len(run.seconds) == sharding._AGREED_REPEATS
            assert any("one process of several" in note for note in run.notes)
            assert run.error_rows == (32 if run.gather else 16)  # of its own shares


def test_one_device_needs_no_exchange() -> None:
    pytest.importorskip("jax", reason="JAX is optional; without it nothing can be timed")
    run = bench.time_sharded(16, 16, 16, split="contraction", gather=True, devices=1, repeats=1)
    assert (run.collectives, run.communication_share, run.local) == ((), 0.0, run.matmul)
    assert not any("sharing" in note for note in run.notes)


# --- bounds and the figure ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("split", "passes"), [("rows", 1), ("columns", 1), ("contraction", 2)])
def test_a_bound_is_the_local_roofline_and_the_ring_over_the_links(split: str, passes: int) -> None:
    bound = bench.split_bound(4096, 2048, 4096, split=split, gather=True, devices=4, chip="tpu_v5e")
    # Both come from published numbers of a TPU v5e: 197 TFLOP/s in bf16, 200 GB/s one way over all its links.
    assert bound.compute_seconds == pytest.approx(2 * 4096 * 2048 * 4096 / 4 / 197e12)
    assert bound.exchange_seconds == pytest.approx(passes * 3 / 4 * 4096 * 4096 * 2 / 200e9)
    assert bound.limit == "exchange"
    assert bench.split_bound(1024, 2048, 4096, split="rows", devices=4).exchange is None


def test_the_figure_sets_work_against_one_device() -> None:
    one = dataclasses.replace(RUN, devices=1, seconds=(8e-4,) * 4, local_seconds=(), collectives=())
    figure = figures.scaling([RUN, one])
    ideal, measured, without = figure.data
    assert (list(ideal.x), list(ideal.y)) == ([1, 4], [1, 4])
    assert (list(measured.x), list(measured.y)) == ([1, 4], pytest.approx([1.0, 2.0]))
    (share,) = figure.layout.annotations
    assert (share.text, 10**share.x, 10**share.y) == ("25%", pytest.approx(4), pytest.approx(2.0))
    assert (list(without.x), list(without.y)) == ([4], pytest.approx([8 / 3]))
    # Weak scaling: four times the work in twice the time is twice the work in a second.
    weak = dataclasses.replace(RUN, matmul=Matmul(64, 256, 64, "fp32"), seconds=(16e-4,) * 4)
    assert list(figures.scaling([one, weak]).data[1].y) == pytest.approx([1.0, 2.0])


def test_the_figure_says_when_the_devices_are_one_cpu_and_what_is_recorded() -> None:
    cpu = dataclasses.replace(RUN.device, platform="cpu")
    one = dataclasses.replace(RUN, devices=1, local_seconds=(), collectives=(), origin="recorded", device=cpu)
    four = dataclasses.replace(RUN, origin="recorded", device=cpu)
    title = figures.scaling([one, four]).layout.title.text.replace("<br>", " ")
    assert "no gain is to be expected" in title and "recorded" in title
    assert figures.scaling([one, four]).data[1].marker.symbol.endswith("-open")
    assert "no gain" not in figures.scaling([dataclasses.replace(one, device=RUN.device)]).layout.title.text
    with pytest.raises(ValueError, match="begin at 4 devices"):
        figures.scaling([four])
