"""Every scheduling row of sched_analytic.csv, and its arithmetic rows on Little's law."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from pulsewarp import simt

ROWS = list(csv.DictReader((Path(__file__).parent.parent / "reference" / "sched_analytic.csv").open()))
# Waves are arithmetic on whole blocks and belong to roofline.wave_quantisation and its test.
SCHEDULING = [row for row in ROWS if row["family"] not in ("wave_quantisation", "little_law_warps")]


def programs(family: str, warps: int, p: dict[str, Any]) -> list[tuple[simt.Instruction, ...]]:
    if family in ("chain", "ilp"):
        return [simt.chain(p["n"], ilp=p["ilp"], latency=p["lat"], interval=p["ii"])] * warps
    if family == "load_compute":
        return [
            simt.load_compute(
                p["rep"],
                p["m"],
                load_latency=p["lat_mem"],
                load_interval=p["ii_mem"],
                sum_latency=p["lat_alu"],
                sum_interval=p["ii_alu"],
            )
        ] * warps
    if family in ("mem_stream", "mem_limit"):
        return [simt.load_stream(p["n"], latency=p["lat_mem"], interval=p["ii_mem"])] * warps
    if family == "barrier":
        late = simt.chain_and_barrier(p["rep"], p["m"] + p["skew_warp0"] * p["m"], latency=p["lat_alu"])
        return [late] + [simt.chain_and_barrier(p["rep"], p["m"], latency=p["lat_alu"])] * (warps - 1)
    assert family == "diverge"
    return [simt.diverge(p["ways"], p["m"], p["tail"], latency=p["lat_alu"])] * warps


def check_row(row: dict[str, str]) -> None:
    parameters = json.loads(row["params"])
    trace = simt.simulate(
        programs(row["family"], int(row["warps"]), parameters),
        schedulers=int(row["schedulers"]),
        policy=row["policy"],
        max_outstanding=parameters.get("max_outstanding"),
    )
    assert (trace.cycles, trace.issue_count) == (int(row["cycles"]), int(row["issued"]))


@pytest.mark.parametrize("row", SCHEDULING, ids=[row["case_id"] for row in SCHEDULING])
def test_cycles_and_issues_are_exact(row: dict[str, str]) -> None:
    check_row(row)


def test_no_row_is_left_out() -> None:
    assert len(ROWS) == 175
    families = {"chain", "ilp", "load_compute", "mem_stream", "mem_limit", "barrier", "diverge"}
    assert {row["family"] for row in SCHEDULING} == families
    assert len(SCHEDULING) == 150


@pytest.mark.parametrize("row", [row for row in ROWS if row["family"] == "little_law_warps"])
def test_littles_law(row: dict[str, str]) -> None:
    p = json.loads(row["params"])
    assert simt.littles_law_warps(p["lat"], p["ilp"], p["ii"]) == int(row["warps"])


@pytest.mark.parametrize(("latency", "ilp", "interval"), [(4, 1, 1), (20, 2, 1), (28, 1, 2), (30, 4, 3)])
def test_littles_law_is_where_the_simulated_unit_becomes_busy(latency: int, ilp: int, interval: int) -> None:
    n = 20 * ilp

    def cycles_between_issues(warps: int) -> float:
        program = simt.chain(n, ilp=ilp, latency=latency, interval=interval)
        trace = simt.simulate([program] * warps, schedulers=1)
        return (trace.cycles - latency) / (trace.issue_count - 1)

    enough = simt.littles_law_warps(latency, ilp, interval)
    assert cycles_between_issues(enough) == interval
    assert cycles_between_issues(enough - 1) > interval
