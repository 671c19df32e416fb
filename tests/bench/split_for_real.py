"""Run by test_sharding.py: products split over 8 parts of a CPU and between two processes, saved for it.

Importing JAX takes longer than all of the rest, so it is imported once, before any of the processes that use
it begins; nobody uses it in this one.
"""

from __future__ import annotations

import itertools
import multiprocessing
import socket
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from pulsewarp import bench
from pulsewarp.bench.live import mesh, sharding

SIZES = (64, 128, 96)


def on_eight_devices(folder: Path) -> None:
    devices = bench.several_devices(8)
    given: dict[str, Any] = {"precision": "highest", "repeats": 2, "budget_seconds": 1e-9}
    every = [
        bench.time_sharded(*SIZES, split=split, gather=gather, devices=devices, **given)
        for split, gather in itertools.product(sharding.SPLITS, (False, True))
    ]
    bench.save(folder / "every.json", every)
    half = [bench.time_sharded(*SIZES, split="contraction", gather=True, dtype="bf16", devices=4, repeats=2)]
    half += [bench.time_sharded(*SIZES, split="contraction", dtype="int8", devices=4, repeats=2)]
    bench.save(folder / "narrow.json", half)
    for kind in ("strong", "weak"):
        runs = bench.scaling(*SIZES, split="contraction", kind=kind, gather=True, counts=[1, 8], **given)
        bench.save(folder / f"{kind}.json", runs)

    right = mesh.single

    def one_percent_more(*arguments: Any) -> Callable[[Any, Any], Any]:
        return lambda a, b: right(*arguments)(a, b) * 1.01

    mesh.single = one_percent_more  # a fault, planted
    faulty = [bench.time_sharded(*SIZES, split=split, gather=True, **given) for split in sharding.SPLITS]
    bench.save(folder / "faulty.json", faulty)
    mesh.single = right

    # A compiler that fetches both factors and multiplies them whole on every device, in place of adding sums.
    place = sharding.Layout.sharded

    def multiplies_whole(layout: Any, arguments: Any) -> Any:
        whole = layout._sharding(layout.jax.sharding.PartitionSpec(None, None))

        def fetch_first(a: Any, b: Any) -> Any:
            fetched = layout.jax.lax.with_sharding_constraint((a, b), (whole, whole))
            return right(layout.jax, layout.matmul, layout.precision)(*fetched)

        return mesh.compile_for(layout.jax, fetch_first, arguments, out_shardings=whole)

    sharding.Layout.sharded = multiplies_whole  # type: ignore[method-assign]  # as said
    bench.save(folder / "whole.json", [bench.time_sharded(*SIZES, split="contraction", gather=True, **given)])
    sharding.Layout.sharded = place  # type: ignore[method-assign]


def in_two_processes(folder: Path, port: int, index: int) -> None:
    # The default since JAX 0.5; before, CPUs of several processes exchange nothing unless told how.
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=index)
    runs = [
        bench.time_sharded(32, 64, 48, split=split, gather=gather, precision="highest")
        for split, gather in (("rows", False), ("columns", True), ("contraction", True))
    ]
    bench.save(folder / f"process_{index}.json", runs)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main(folder: Path) -> int:
    """Return how many of the processes failed."""
    how = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
    context, port = multiprocessing.get_context(how), free_port()
    started = [context.Process(target=on_eight_devices, args=(folder,))]
    started += [context.Process(target=in_two_processes, args=(folder, port, index)) for index in range(2)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of forking beside threads: none of JAX's has begun
        for process in started:
            process.start()
    for process in started:
        process.join(300)
        process.kill()
    return sum(process.exitcode != 0 for process in started)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
