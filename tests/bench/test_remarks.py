"""Machines that are not here, from their descriptions as data: which chip, how many, what to know."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from pulsewarp.bench import remarks
from pulsewarp.bench.card import describe
from pulsewarp.bench.host import Host
from pulsewarp.bench.live._observe import see_device
from pulsewarp.bench.nvml import Gpu
from pulsewarp.bench.seen import SeenDevice, SeenJax

MACHINES: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("machines.toml").read_text(encoding="utf-8")
)


class Device:
    """A device as JAX gives it, made from a description."""

    def __init__(self, machine: dict[str, Any], number: int) -> None:
        self.platform = machine["platform"]
        self.device_kind = machine["kind"]
        self._memory = machine.get("memory_gib")
        if self.platform == "tpu":
            self.coords = [number // machine.get("per_chip", 1), 0, 0]

    def memory_stats(self) -> dict[str, int] | None:
        return None if self._memory is None else {"bytes_limit": int(self._memory * 2**30), "bytes_in_use": 0}


def card_of(machine: dict[str, Any]) -> Any:
    limit = machine.get("limit")
    amd = "AMD" in machine["kind"]
    gpu = machine["platform"] != "tpu"
    here = Host(
        python="3.13.15",
        cpu_model="Example CPU",
        cores=26,
        device_files=() if not gpu else ("/dev/kfd",) if amd else ("/dev/nvidia0",),
        amd_power_limits_watts=(float(limit),) * machine["devices"] if amd and limit else (),
    )
    gpus = tuple(
        Gpu(machine["kind"], f"GPU-{i}", limit) for i in range(machine["devices"] if gpu and not amd else 0)
    )
    devices = tuple(see_device(Device(machine, i)) for i in range(machine["devices"]))
    return describe(here, SeenJax("0.7.2", devices), gpus)


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_is_named_counted_and_flagged(name: str) -> None:
    machine = MACHINES[name]
    card = card_of(machine)
    per_chip = machine.get("devices_per_chip", machine.get("per_chip", 1))
    assert card.accelerated and card.problems == ()
    assert (card.chip, card.devices_per_chip) == (machine.get("chip"), per_chip)
    assert card.chip_count == machine["devices"] // per_chip
    assert card.power_limit_watts == machine.get("limit")
    said = [remark for remark in card.remarks if "JAX takes a pool" not in remark]
    if "says" in machine:
        assert any(machine["says"] in remark for remark in said), said
        assert f"Remark:    {said[0]}" in repr(card)
    else:
        assert said == []
    assert all(remark.endswith(".") and "\n" not in remark for remark in card.remarks)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("_SPECIAL_PARTS", ()),
        ("_power_remarks", lambda *_: ()),
        ("_memory_remarks", lambda *_: ()),
        ("_power_remarks", lambda kind, chip, limit: ["Power-capped."] if limit else []),
    ],
    ids=["no special parts", "no power", "no memory", "every limit is a cap"],
)
def test_a_planted_fault_misses_or_invents_a_remark(
    name: str, fault: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remarks, name, fault)
    wrong = []
    for machine in MACHINES.values():
        said = [remark for remark in card_of(machine).remarks if "JAX takes a pool" not in remark]
        expected = machine.get("says")
        wrong += [machine] * (not any(expected in each for each in said) if expected else bool(said))
    assert wrong


def gpu(**variables: str) -> tuple[str, ...]:
    here = Host(python="3.13.15", cpu_model="Example CPU", cores=2, variables=variables)
    return remarks.find_remarks(here, SeenJax("0.7.2", (SeenDevice("gpu", "Tesla T4", None, 11 * 2**30, 0),)))


def test_the_memory_pool_is_told_with_its_share() -> None:
    assert "0.75 of the GPU" in gpu()[0]
    assert ".5 of the GPU" in gpu(XLA_PYTHON_CLIENT_MEM_FRACTION=".5")[0]
    assert gpu(XLA_PYTHON_CLIENT_PREALLOCATE="false") == ()
    assert gpu(XLA_PYTHON_CLIENT_ALLOCATOR="platform") == ()


def test_an_override_of_tf32_is_told() -> None:
    assert "never use TF32" in gpu(NVIDIA_TF32_OVERRIDE="0", XLA_PYTHON_CLIENT_PREALLOCATE="false")[0]
    assert "always use TF32" in gpu(NVIDIA_TF32_OVERRIDE="1", XLA_PYTHON_CLIENT_PREALLOCATE="false")[0]


def test_one_cpu_shown_as_eight_devices_is_told() -> None:
    here = Host(python="3.13.15", cpu_model="Example CPU", cores=2)
    card = describe(here, SeenJax("0.7.2", (SeenDevice("cpu", "cpu"),) * 8))
    assert "shown as 8 devices" in repr(card)
    assert "share its cores" in card.remarks[0]
