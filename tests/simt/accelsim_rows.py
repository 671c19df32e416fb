"""Accel-Sim's micro-benchmarks as programs of ours, on presets that carry its latencies.

What is taken from the rows' description: the instructions, their dependences, sectors and wavefronts. What is
ours: a load that misses the L1 once and then hits, and blocks that go to the SMs in whole waves.
"""

from __future__ import annotations

import csv
import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from pulsewarp import simt

ROWS = list(csv.DictReader((Path(__file__).parent.parent / "reference" / "accelsim_micro.csv").open()))
PRESETS = {"SM7_QV100": "qv100_accelsim", "SM86_RTX3070": "rtx3070_accelsim"}
SMS = {"SM7_QV100": 80, "SM86_RTX3070": 46}
# Lines of 128 bytes that stay in the L1 beside 96 KiB of shared memory: 32 KiB of 128, and 28 of 128.
L1_LINES = {"SM7_QV100": 256, "SM86_RTX3070": 224}
SHARED_BYTES = 98304
LEAST_VALUES = 6  # distinct cycles from which a family is ranked

Program = tuple[simt.Instruction, ...]


def programs(row: dict[str, str]) -> list[Program]:
    """Return the warps of one block, or of all blocks an SM holds in the fullest wave."""
    family, warps, p = row["family"], int(row["warps_per_block"]), json.loads(row["params"])
    machine = simt.architecture(PRESETS[row["config"]])
    if family == "wave":
        warps *= blocks_at_once(row)[0]
    shared = warps > machine.schedulers  # several warps of a scheduler take turns on its units

    def op(name: str, k: int = 0, reads: tuple[str, ...] = (), **more: Any) -> simt.Instruction:
        return machine.instruction(name, dst=f"r{k}", srcs=(f"r{k}", *reads), shared=shared, **more)

    def load(name: str, k: int, sectors: int) -> simt.Instruction:
        return machine.instruction(name, dst=f"ld{k}", srcs=(), sectors=sectors)

    if family == "empty":
        return [(op("IADD3"),)] * warps
    if family == "alu_chain":
        return [tuple(op(p["op"], i % p["ilp"]) for i in range(p["n"]))] * warps
    if family == "mix_fp_int":
        return [tuple(op("IADD3" if i % 2 else "FFMA", i % 2) for i in range(p["n"]))] * warps
    if family == "uneven":
        lengths = [p["n"] * (1 + (w // 4) % 4) for w in range(warps)]
        return [tuple(op("FFMA", i % p["ilp"]) for i in range(n)) for n in lengths]
    if family in ("lds_chain", "lds_stream"):
        ways = simt.wavefronts([4 * p["stride_words"] * lane for lane in range(32)], 4).wavefronts
        if family == "lds_chain":
            return [(op("LDS", wavefronts=ways),) * p["n"]] * warps
        step = [machine.instruction("LDS", dst=f"r{i}", wavefronts=ways) for i in range(p["n"])]
        return [tuple(step)] * warps
    if family == "ldg_chase":
        first, later = {"l1": ("LDG", "LDG.L1"), "l2": ("LDG", "LDG.L2"), "dram": ("LDG", "LDG")}[p["mode"]]
        return [(op(first, sectors=1), *[op(later, sectors=1)] * (p["n"] - 1))] * warps
    if family == "ldg_stream":
        sectors = simt.sectors([4 * p["stride_words"] * lane for lane in range(32)], 4).sectors
        return [tuple(load("LDG", k, sectors) for k in range(p["n"]))] * warps
    if family in ("ldg_compute", "phase"):
        chains = 1 if family == "ldg_compute" else 8
        step = [load("LDG", 0, 4), *[op("FFMA", i % chains, ("ld0",)) for i in range(p["m"])]]
        if family == "phase":
            step.append(op("IADD3", 8))
        return [tuple(step) * p["rep"]] * warps
    if family == "locality":
        fits = warps * p["lines"] <= L1_LINES[row["config"]]
        use = op("FFMA", 0, ("ld0",))
        cold = (load("LDG", 0, 4), use) * p["lines"]
        warm = (load("LDG.L1" if fits else "LDG.L2", 0, 1 if fits else 4), use) * p["lines"]
        return [cold + warm * (p["passes"] - 1)] * warps
    if family == "barrier":
        late, other = ((op("FFMA"),) * m + (simt.bar(),) for m in (p["m"] * (1 + p["skew"]), p["m"]))
        return [late * p["rep"]] + [other * p["rep"]] * (warps - 1)
    if family == "diverge":
        path = (op("FFMA", lanes=max(1, 32 // p["ways"])),) * p["m"]
        return [path * p["ways"] + (op("FFMA"),) * p["tail"]] * warps
    assert family == "wave"
    return [(op("FFMA"),) * p["n"]] * warps


def blocks_at_once(row: dict[str, str]) -> tuple[int, int]:
    """Return how many blocks the fullest SM holds, and how many waves of whole SMs there are."""
    blocks, sms = int(row["blocks"]), SMS[row["config"]]
    places = SHARED_BYTES // json.loads(row["params"])["shmem"]
    return min(places, math.ceil(blocks / sms)), math.ceil(blocks / (sms * places))


def cycles(row: dict[str, str]) -> int:
    """Return the cycles our model gives for a row, with what Accel-Sim counts for a block and a kernel."""
    machine = simt.architecture(PRESETS[row["config"]])
    warps = programs(row)
    per_block = int(row["warps_per_block"])
    blocks = [w // per_block for w in range(len(warps))]
    trace = simt.simulate(warps, policy=row["policy"], blocks=blocks)
    name = json.loads(row["params"]).get("op", "")
    retire = machine.operations[name].retire if name else 0
    block = trace.cycles + retire + machine.block_cycles
    waves = blocks_at_once(row)[1] if row["family"] == "wave" else 1
    return waves * block + machine.kernel_cycles


def exact(row: dict[str, str]) -> bool:
    """Tell whether a row is one of those whose mechanism is known, and so must come out the same."""
    p, one_warp = json.loads(row["params"]), (row["blocks"], row["warps_per_block"]) == ("1", "1")
    if row["config"] != "SM7_QV100":
        return False
    if row["family"] in ("lds_chain", "diverge"):
        return one_warp
    if row["family"] == "alu_chain":
        return one_warp and p["ilp"] == 1
    if row["family"] == "barrier":
        return row["warps_per_block"] == "2"
    return row["family"] == "wave" and p["shmem"] == SHARED_BYTES


@cache
def by_group() -> dict[tuple[str, str], list[tuple[dict[str, str], int]]]:
    """Return every row with our cycles, by family and configuration."""
    groups: dict[tuple[str, str], list[tuple[dict[str, str], int]]] = {}
    for row in ROWS:
        groups.setdefault((row["family"], row["config"]), []).append((row, cycles(row)))
    return groups


def rank_correlation(theirs: list[int], ours: list[int]) -> float:
    """Return Spearman's rank correlation, ties sharing the mean of their ranks."""

    def ranks(values: list[int]) -> np.ndarray[Any, np.dtype[np.float64]]:
        _, place, count = np.unique(values, return_inverse=True, return_counts=True)
        return (np.cumsum(count) - (count - 1) / 2)[place]

    return float(np.corrcoef(ranks(theirs), ranks(ours))[0, 1])
