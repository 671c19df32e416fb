"""Run twice by test_sharding.py: a process of two, which split a product between them over loopback."""

from __future__ import annotations

import sys
from pathlib import Path

import jax

from pulsewarp import bench


def main(folder: Path, port: str, index: int) -> None:
    # The default since JAX 0.5; before, CPUs of several processes exchange nothing unless told how.
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=index)
    runs = [
        bench.time_sharded(32, 64, 48, split=split, gather=gather, precision="highest")
        for split, gather in (("rows", False), ("columns", True), ("contraction", True))
    ]
    bench.save(folder / f"process_{index}.json", runs)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
