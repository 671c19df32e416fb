"""Our cycles beside Accel-Sim's, family by family: rank correlation, and how many rows are the same."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "simt"))
import accelsim_rows as accelsim  # the rows and what they mean are the tests'


def bench_accelsim() -> list[dict[str, Any]]:
    """Return a row for each family and configuration with enough distinct cycles, and one for the exact ones.

    A rank correlation below its limit is a miss and shows as a broken promise.
    """
    known = [row for row in accelsim.ROWS if accelsim.exact(row)]
    same = sum(accelsim.cycles(row) == int(row["cycles"]) for row in known)
    rows: list[dict[str, Any]] = [
        {"name": "mechanisms known exactly, share of rows that are", "value": same / len(known),
         "unit": "", "limit": 1, "better": "higher"}
    ]  # fmt: skip
    for (family, config), group in accelsim.by_group().items():
        theirs = [int(row["cycles"]) for row, _ in group]
        ours = [cycles for _, cycles in group]
        if len(set(theirs)) < accelsim.LEAST_VALUES:
            continue
        ratios = [our / their for our, their in zip(ours, theirs, strict=True)]
        row = {"name": f"{family} on {config}, {len(group)} rows", "value": 0.0}
        row["value"] = accelsim.rank_correlation(theirs, ours)
        row |= {"unit": f"rank, x{min(ratios):.2f}-{max(ratios):.2f}", "limit": 0.9, "better": "higher"}
        rows.append(row)
    return rows
