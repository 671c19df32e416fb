"""Run every benchmark and print one table; exit with 1 when a promise is broken.

A benchmark is a function `bench_*` in a module `bench_*.py` beside this file. It returns a row or a list of
rows: `name`, `value`, `unit` and, where something is promised, `limit` with `better` ("lower" or "higher").
A row that could not be measured has the value None and says `why`: it breaks no promise, but is counted.
Two things are compared within one run and reported as a ratio: machines differ, ratios less.

    python benchmarks/run.py [part ...]
"""

from __future__ import annotations

import importlib
import json
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
Row = dict[str, Any]


def find_benchmarks(parts: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield (part, function) for each benchmark of the parts named, or of all."""
    sys.path.insert(0, str(HERE))
    for path in sorted(HERE.glob("bench_*.py")):
        part = path.stem.removeprefix("bench_")
        if parts and part not in parts:
            continue
        module = importlib.import_module(path.stem)
        functions = [f for name, f in vars(module).items() if name.startswith("bench_") and callable(f)]
        if not functions:  # it would be run by nobody, and nobody would notice
            raise ValueError(f"{path.name} has no function bench_*; name one so, or remove the file.")
        yield from ((part, function) for function in functions)


def holds(row: Row) -> bool | None:
    """Tell whether a row keeps its promise; None where nothing is promised."""
    if row.get("limit") is None or row["value"] is None:
        return None
    return bool(
        row["value"] >= row["limit"] if row.get("better") == "higher" else row["value"] <= row["limit"]
    )


def main() -> int:
    """Print the table, keep it as JSON, and tell whether every promise holds."""
    print(f"Python {platform.python_version()} on {platform.machine()}, {platform.system()}\n")
    rows: list[Row] = []
    for part, function in find_benchmarks(sys.argv[1:]):
        result = function()
        for row in result if isinstance(result, list) else [result]:
            rows.append({"part": part, **row})
            sign = ">=" if row.get("better") == "higher" else "<="
            promise = f"{sign} {row['limit']:g}" if row.get("limit") is not None else ""
            verdict = {True: "holds", False: "BROKEN", None: ""}[holds(row)]
            name = f"{part}: {row['name']}"
            if row["value"] is None:
                print(f"{name:<72} {'NOT MEASURED':>12} {row['why']}", flush=True)
                continue
            print(f"{name:<72} {row['value']:>12.4g} {row['unit']:<14} {promise:<12} {verdict}", flush=True)
    Path(HERE.parent / ".cache").mkdir(exist_ok=True)
    Path(HERE.parent / ".cache" / "bench.json").write_text(json.dumps(rows, indent=1))
    broken = [row for row in rows if holds(row) is False]
    absent = sum(row["value"] is None for row in rows)
    print(f"\n{len(rows)} figures, {absent} of them not measured, {len(broken)} promises broken")
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
