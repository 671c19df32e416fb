"""Run by test_sharding.py in a fresh process: split products over 8 parts of a CPU, save what is measured."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pulsewarp import bench
from pulsewarp.bench.live import mesh, sharding

SIZES = (64, 128, 96)


def main(folder: Path) -> None:
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
        runs = bench.scaling(*SIZES, split="contraction", kind=kind, gather=True, counts=[1, 2, 8], **given)
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


if __name__ == "__main__":
    main(Path(sys.argv[1]))
