"""The data of compute capabilities: the oracle's table field by field, sources, and faults refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from occupancy_naive import DEVICES

from pulsewarp import simt
from pulsewarp.simt.compute_capability import FILE, known, read_compute_capabilities

COLUMNS = {
    "warp_size": "warp_size",
    "max_threads_per_block": "max_threads_per_block",
    "max_warps": "max_warps_per_sm",
    "max_blocks": "max_blocks_per_sm",
    "partitions": "subpartitions_per_sm",
    "registers": "regs_per_sm",
    "registers_per_block": "regs_per_block",
    "registers_per_thread": "max_regs_per_thread",
    "register_step": "reg_alloc_unit_per_warp",
    "shared_memory": "smem_per_sm",
    "shared_memory_per_block": "smem_per_block_default",
    "shared_memory_opt_in": "smem_per_block_optin",
    "shared_memory_reserved": "smem_reserved_per_block",
    "shared_memory_step": "smem_alloc_granularity",
}


@pytest.mark.parametrize("name", DEVICES)
def test_every_field_is_the_oracles(name: str) -> None:
    device, row = simt.compute_capabilities()[name], DEVICES[name]
    assert (device.name, device.architecture, device.example) == (name, row["arch"], row["example_gpu"])
    for field, column in COLUMNS.items():
        assert getattr(device, field) == int(row[column]), field
    assert device.carveouts == tuple(1024 * int(size) for size in row["smem_carveouts_kib"].split())
    barriers = row["block_barriers_per_sm_header"]
    assert device.max_barriers == (int(barriers) if barriers else None)
    assert device.registers_per_thread_checked == 256


def test_there_are_no_others() -> None:
    assert list(simt.compute_capabilities()) == list(DEVICES)


@pytest.mark.parametrize("device", simt.compute_capabilities().values(), ids=lambda device: device.name)
def test_every_value_has_a_source_and_fits_the_others(device: simt.ComputeCapability) -> None:
    fields = {"architecture", "example", "carveouts", "registers_per_thread_checked", *COLUMNS}
    fields |= {"max_barriers"} if device.max_barriers else set()
    assert set(device.sources) == fields
    assert all(source.title and source.address for found in device.sources.values() for source in found)
    assert device.carveouts[-1] == device.shared_memory
    assert device.shared_memory_opt_in + device.shared_memory_reserved == device.shared_memory
    assert device.registers % device.partitions == 0 == device.max_warps % device.partitions


def test_an_unknown_one_names_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"'7.1'; use one of 7.0, 7.5, .*, 12.0\. Did you mean '7\.[05]'"):
        known("7.1")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ((', source = "occupancy_header" }', " }"), r"7\.0.*has no source"),
        (("max_warps", "max_wraps"), "max_wraps.*unknown field.*Did you mean max_warps|max_wraps"),
        (('source = "cuda_gpus"', 'source = "cuda_gpu"'), "no key of sources.toml.*cuda_gpus"),
        (('unit = "KiB"', 'unit = "KB"'), "must be one of B, KiB"),
        (("max_blocks = { value = 32", "max_blocks = { value = -32"), "at least 0"),
        (("max_blocks = { value = 32", "max_blocks = { value = 3.5"), "whole number"),
        (("value = [0, 8, 16", "value = [8, 0, 16"), "smallest first"),
        (("warp_size = { value = 32", "# warp_size = { value = 32"), "warp_size.*is missing"),
        (('as_of = "2026-11-30"', 'as_of = ""'), "as_of.*not empty"),
    ],
)
def test_what_cannot_be_trusted_is_refused(tmp_path: Path, change: tuple[str, str], says: str) -> None:
    text = FILE.read_text(encoding="utf-8")
    assert change[0] in text
    file = tmp_path / "compute_capabilities.toml"
    file.write_text(text.replace(*change, 1), encoding="utf-8")
    with pytest.raises(ValueError, match=says) as caught:
        read_compute_capabilities(file)
    assert "compute_capabilities.toml" in str(caught.value)
