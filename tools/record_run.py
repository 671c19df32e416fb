"""Record this machine's products as a run that ships with the package.

    python tools/record_run.py NAME

writes src/pulsewarp/bench/recorded/NAME.json. While other programs (or the host below a virtual machine) take
more than 3 % of the processors' time, a product is measured again, at most twelve times in all; the least
disturbed attempt is kept whole, and where it was disturbed a note says by how much. A dtype that the device
refuses is named and left out. After each product the file NAME.json.part beside it is written anew; the same
command goes on from there after an interrupt. Nothing that names the machine is written but what its
processor and its accelerator call themselves. Linux only.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from pathlib import Path
from typing import NamedTuple

from pulsewarp import bench
from pulsewarp.bench.shapes import Shape, squares, thin

FOLDER = Path(__file__).resolve().parent.parent / "src" / "pulsewarp" / "bench" / "recorded"
MOST_ATTEMPTS, UNDISTURBED = 12, 0.03


class Product(NamedTuple):
    shape: Shape
    dtype: str
    precision: str
    clock: str


def plan() -> list[Product]:
    sides = bench.default_sizes(bench.devices().platform or "cpu")
    batches = [shape for shape in thin(1024) if shape.m in (1, 4, 16, 64, 256)]
    large = [side for side in sides if side % 512 == 0]
    rows = [
        *((shape, "float32", "highest", clock) for clock in ("device", "call") for shape in squares(sides)),
        *((shape, "float32", "highest", "device") for shape in batches),
        *((shape, "bfloat16", "default", "device") for shape in squares(large)),
        *((shape, "int8", "default", "device") for shape in squares(sides) if shape.m in (256, 1024)),
    ]
    return [Product(*row) for row in rows]


def processor_seconds() -> tuple[float, float]:
    """Seconds since boot in which processors were busy or stolen, over all of them; this process's own."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    idle, waiting = ticks[3], ticks[4]
    own = os.times()
    return (sum(ticks) - idle - waiting) / os.sysconf("SC_CLK_TCK"), own.user + own.system


def attempt(product: Product) -> tuple[float, bench.Measurement]:
    """Measure once; also the share of the processors' time that others took meanwhile."""
    busy, own = processor_seconds()
    start = time.perf_counter()
    shape = product.shape
    run = bench.time_matmul(
        shape.m,
        shape.k,
        shape.n,
        dtype=product.dtype,
        precision=product.precision,
        clock=product.clock,
        repeats=15,
    )
    elapsed = time.perf_counter() - start
    busy_now, own_now = processor_seconds()
    others = (busy_now - busy) - (own_now - own)
    return max(0.0, others / (elapsed * (os.cpu_count() or 1))), run


def least_disturbed(product: Product) -> bench.Measurement:
    attempts: list[tuple[float, bench.Measurement]] = []
    while len(attempts) < MOST_ATTEMPTS:
        attempts.append(attempt(product))
        if attempts[-1][0] <= UNDISTURBED:
            break
        time.sleep(1)
    others, run = min(attempts, key=lambda each: each[0])
    notes = run.notes
    if others > UNDISTURBED:
        notes += (f"Other programs took {others:.0%} of the processors' time meanwhile.",)
    print(run, f"  others {others:.1%} in {len(attempts)} attempts", flush=True)
    return dataclasses.replace(run, origin="recorded", notes=notes)


def product_of(run: bench.Measurement) -> tuple[object, ...]:
    return run.matmul.m, run.matmul.k, run.matmul.n, run.stored, run.precision, run.clock


def main() -> int:
    target = FOLDER / f"{sys.argv[1]}.json"
    part = target.with_suffix(".json.part")
    runs = list(bench.load(part, only=bench.Measurement)) if part.exists() else []
    there = {product_of(run) for run in runs}
    for product in plan():
        shape, *how = product
        if (shape.m, shape.k, shape.n, *how) in there:
            continue
        try:
            runs.append(least_disturbed(product))
        except (ValueError, MemoryError) as error:
            print(f"Left out: {error}", file=sys.stderr)
        else:
            bench.save(part, runs)
    print(bench.save(target, runs))
    part.unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
