"""Architectures: every value has a source, programs take them, and Little's law holds with them."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from pulsewarp import simt
from pulsewarp.simt import presets

HARDWARE = [name for name, one in simt.architectures().items() if not one.simulator]
DEVICES = {
    row["cc"]: row
    for row in csv.DictReader((Path(__file__).parent.parent / "reference" / "cuda_devices.csv").open())
}
PAIRS = [(name, key) for name, one in simt.architectures().items() for key in one.operations]


@pytest.mark.parametrize(("name", "operation"), PAIRS)
def test_every_value_says_where_it_comes_from(name: str, operation: str) -> None:
    known = simt.architecture(name).operations[operation]
    assert known.sources
    assert known.interval_sources
    assert {known.confidence, known.interval_confidence} <= set(presets.CONFIDENCE)
    assert known.sources[0].title in simt.architecture(name).given([operation])
    made = simt.architecture(name).instruction(operation, dst="r0")
    assert (made.unit, made.latency) == (known.unit, known.latency)


@pytest.mark.parametrize("name", HARDWARE)
def test_widths_are_those_of_the_device_table(name: str) -> None:
    machine = simt.architecture(name)
    device = DEVICES[machine.compute_capability]
    assert machine.schedulers == int(device["schedulers_per_sm"])
    assert machine.operations["FFMA"].interval == 128 // int(device["fp32_lanes_per_sm"])
    assert machine.title == device["arch"]


@pytest.mark.parametrize("name", HARDWARE)
@pytest.mark.parametrize("ilp", [1, 2, 3])
@pytest.mark.parametrize("operation", ["FFMA", "HFMA2", "IADD3"])
def test_littles_law_is_where_the_simulated_unit_is_busy(name: str, ilp: int, operation: str) -> None:
    known = simt.architecture(name).operations[operation]
    program = simt.chain(30 * ilp, ilp=ilp, architecture=name, operation=operation)

    def between_issues(warps: int) -> float:
        trace = simt.simulate([program] * warps, schedulers=1)
        return (trace.cycles - known.latency) / (trace.issue_count - 1)

    enough = simt.littles_law_warps(known.latency, ilp, known.interval)
    assert between_issues(enough) == known.interval
    assert enough == 1 or between_issues(enough - 1) > known.interval


def test_loads_need_as_many_warps_as_little_says() -> None:
    # One load in flight a warp, one memory unit for four schedulers: latency / interval warps an SM.
    machine = simt.architecture("volta")
    load = machine.instruction("LDG.L1", dst="r0", srcs=("r0",))
    enough = simt.littles_law_warps(load.latency, 1, load.interval)

    def issues_a_cycle(warps: int) -> float:
        trace = simt.simulate([[load] * 20] * warps)
        return trace.issue_count / (trace.cycles - load.latency + 1)

    assert issues_a_cycle(enough) == 1
    assert issues_a_cycle(enough - 4) < 1


def test_programs_take_what_is_given_before_the_architecture() -> None:
    assert simt.chain(1, architecture="volta")[0].latency == 4
    assert simt.chain(1, architecture="volta", latency=9)[0].latency == 9
    assert simt.chain(1, architecture="volta", operation="MUFU")[0].interval == 8
    assert simt.load_stream(1, architecture="turing")[0].latency == 1100
    assert simt.load_compute(1, 1, architecture="hopper", load="LDS")[0].latency == 29
    assert simt.diverge(2, 1, 1, architecture="ampere")[0].interval == 2
    assert simt.chain_and_barrier(1, 1, architecture=simt.architecture("hopper"))[0].interval == 1


def test_wavefronts_and_sectors_hold_the_unit() -> None:
    machine = simt.architecture("qv100_accelsim")
    conflict = machine.instruction("LDS", dst="r0", wavefronts=8)
    assert (conflict.latency, conflict.interval) == (32, 8)
    assert machine.instruction("LDG", dst="r0", sectors=32).interval == 32
    assert simt.architecture("volta").instruction("LDG", dst="r0", sectors=32).interval == 1


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: simt.architecture("amper"), "Unknown architecture 'amper'.*Did you mean 'ampere'"),
        (
            lambda: simt.chain(4, architecture="hopper", operation="MUFU"),
            r"Hopper has no sourced latency for 'MUFU', but for FFMA, .*give simt\.Instruction",
        ),
        (
            lambda: simt.architecture("volta").instruction("LDS", wavefronts=33),
            "wavefronts is 33.*at most 32",
        ),
        (lambda: simt.architecture("volta").instruction("LDG", sectors=0), "sectors is 0"),
        (lambda: simt.architecture("volta").given(["FMA"]), "Unknown operation 'FMA'"),
    ],
)
def test_bad_input_gets_a_sentence(call: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        call()  # type: ignore[operator]  # one of the calls above


@pytest.mark.parametrize(
    ("right", "wrong", "sentence"),
    [
        ('source = "jia_volta", confidence = "quoted"', 'confidence = "quoted"', "has no source"),
        ('confidence = "quoted", rate = 64', 'confidence = "sure", rate = 64', "confidence.*'sure'"),
        ("latency = 4,", "latency = 4.5,", "must be a whole number"),
        ("rate = 64,", "rates = 64,", "rates.*unknown field"),
        ("rate = 64,", "rate = 64, interval = 2,", "either a rate or an interval"),
    ],
)
def test_a_fault_in_the_data_is_refused(right: str, wrong: str, sentence: str, tmp_path: Path) -> None:
    source = presets.FILE.read_text(encoding="utf-8")
    assert right in source
    faulty = tmp_path / "architectures.toml"
    faulty.write_text(source.replace(right, wrong, 1), encoding="utf-8")
    with pytest.raises(ValueError, match=sentence) as told:
        presets.read_architectures(faulty)
    assert re.match(r"architectures\.toml", str(told.value))
