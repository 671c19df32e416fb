"""Accel-Sim's cycles: the mechanisms that are known exactly, and the order of the rest."""

from __future__ import annotations

import json

import accelsim_rows as accelsim
import pytest

from pulsewarp import simt

EXACT = [row for row in accelsim.ROWS if accelsim.exact(row)]

# Rank correlation reached, rounded down; a change of the model may better them, not worsen them.
REACHED = {
    ("alu_chain", "SM7_QV100"): 0.99,
    ("lds_chain", "SM7_QV100"): 0.99,
    ("lds_stream", "SM7_QV100"): 0.93,
    ("ldg_chase", "SM7_QV100"): 0.98,
    ("ldg_stream", "SM7_QV100"): 0.98,
    ("ldg_compute", "SM7_QV100"): 0.99,
    ("barrier", "SM7_QV100"): 0.97,
    ("diverge", "SM7_QV100"): 1.0,
    ("wave", "SM7_QV100"): 0.93,
    ("phase", "SM7_QV100"): 0.96,
    ("locality", "SM7_QV100"): 0.98,
    ("alu_chain", "SM86_RTX3070"): 0.99,
    ("lds_chain", "SM86_RTX3070"): 1.0,
    ("lds_stream", "SM86_RTX3070"): 0.94,
    ("ldg_chase", "SM86_RTX3070"): 0.99,
    ("ldg_stream", "SM86_RTX3070"): 0.99,
    ("ldg_compute", "SM86_RTX3070"): 0.99,
    ("barrier", "SM86_RTX3070"): 0.96,
    ("diverge", "SM86_RTX3070"): 0.99,
    ("uneven", "SM86_RTX3070"): 0.97,
    ("phase", "SM86_RTX3070"): 0.99,
    ("locality", "SM86_RTX3070"): 0.99,
}


def formula(row: dict[str, str]) -> int:
    """What is known of the row's mechanism, as arithmetic."""
    p, family = json.loads(row["params"]), row["family"]
    if family == "alu_chain":
        slope, rest = {
            "FFMA": (7, 3), "HMMA": (7, 3), "IADD3": (7, 4), "IMAD": (7, 4), "DFMA": (13, 3), "MUFU": (25, 3),
        }[p["op"]]  # fmt: skip
        return slope * int(p["n"]) + rest
    if family == "lds_chain":
        degree = simt.wavefronts([4 * p["stride_words"] * lane for lane in range(32)], 4).ways
        return int(p["n"]) * (24 + degree) + 3
    if family == "diverge":
        return 7 * int(p["ways"] * p["m"] + p["tail"]) + 3
    if family == "barrier":
        return 7 * int(p["rep"]) * int(p["m"]) * (1 + int(p["skew"])) + 3
    return 516 * -(-int(row["blocks"]) // 80) + 1


@pytest.mark.parametrize("row", EXACT, ids=[row["case_id"] for row in EXACT])
def test_known_mechanisms_are_exact(row: dict[str, str]) -> None:
    assert accelsim.cycles(row) == formula(row) == int(row["cycles"])


@pytest.mark.exhaustive
def test_no_row_is_left_out() -> None:
    assert len(accelsim.ROWS) == 642
    assert {row["family"] for row in EXACT} == {"alu_chain", "lds_chain", "diverge", "barrier", "wave"}
    assert len(EXACT) == 72
    ranked = {
        group
        for group, rows in accelsim.by_group().items()
        if len({row["cycles"] for row, _ in rows}) >= accelsim.LEAST_VALUES
    }
    assert ranked == set(REACHED)


@pytest.mark.exhaustive
@pytest.mark.parametrize("group", REACHED, ids=["-".join(group) for group in REACHED])
def test_the_order_of_cycles_is_theirs(group: tuple[str, str]) -> None:
    rows = accelsim.by_group()[group]
    rank = accelsim.rank_correlation([int(row["cycles"]) for row, _ in rows], [ours for _, ours in rows])
    assert round(rank, 12) >= REACHED[group] >= 0.9


@pytest.mark.parametrize("row", EXACT[::5], ids=[row["case_id"] for row in EXACT[::5]])
def test_a_wrong_latency_is_seen(row: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    right = simt.Architecture.instruction

    def late(self: simt.Architecture, operation: str, **more: object) -> simt.Instruction:
        found = right(self, operation, **more)  # type: ignore[arg-type]  # handed on as they came
        return simt.Instruction(found.unit, found.latency + 1, found.interval, found.dst, found.srcs)

    monkeypatch.setattr(simt.Architecture, "instruction", late)
    assert accelsim.cycles(row) != int(row["cycles"])
