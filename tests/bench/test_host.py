"""Reading a machine from files: each machine here is a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from pulsewarp.bench import host


def plant(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def test_an_empty_machine_is_unknown_not_an_error(tmp_path: Path) -> None:
    seen = host.look(tmp_path)
    assert (seen.memory_bytes, seen.memory_free_bytes, seen.tpu_chips, seen.nvidia_driver) == (
        None,
        None,
        0,
        None,
    )
    assert not (seen.has_nvidia or seen.has_amd)
    assert seen.cpu_model
    assert seen.cores >= 1


def test_the_processor_is_named_as_the_system_names_it(tmp_path: Path) -> None:
    plant(tmp_path, {"proc/cpuinfo": "processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD EPYC\nflags: fpu\n"})
    assert host.look(tmp_path).cpu_model == "AMD EPYC"


MEMINFO = "MemTotal:       24000000 kB\nMemFree:  1 kB\nMemAvailable:   20000000 kB\n"


def test_memory_of_the_whole_machine(tmp_path: Path) -> None:
    seen = host.look(plant(tmp_path, {"proc/meminfo": MEMINFO, "sys/fs/cgroup/memory.max": "max\n"}))
    assert (seen.memory_bytes, seen.memory_free_bytes) == (24_000_000 * 1024, 20_000_000 * 1024)


@pytest.mark.parametrize(
    "files",
    [
        {
            "sys/fs/cgroup/memory.max": "2147483648\n",
            "sys/fs/cgroup/memory.current": "700000000\n",
            "sys/fs/cgroup/memory.stat": "anon 500000000\ninactive_file 200000000\n",
        },
        {
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "2147483648\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "700000000\n",
            "sys/fs/cgroup/memory/memory.stat": "total_inactive_file 200000000\n",
        },
    ],
    ids=["version 2", "version 1"],
)
def test_a_container_has_only_its_own_memory(tmp_path: Path, files: dict[str, str]) -> None:
    seen = host.look(plant(tmp_path, {"proc/meminfo": MEMINFO, **files}))
    assert (seen.memory_bytes, seen.memory_free_bytes) == (2_147_483_648, 2_147_483_648 - 500_000_000)


def test_a_limit_above_the_machine_is_no_limit(tmp_path: Path) -> None:
    files = {"proc/meminfo": MEMINFO, "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}
    assert host.look(plant(tmp_path, files)).memory_bytes == 24_000_000 * 1024


def test_tpus_are_counted_by_vendor_and_device(tmp_path: Path) -> None:
    google, tpu_v5e, network_card = "0x1ae0\n", "0x0063\n", "0x0042\n"
    plant(
        tmp_path,
        {
            "sys/bus/pci/devices/0000:00:04.0/vendor": google,
            "sys/bus/pci/devices/0000:00:04.0/device": tpu_v5e,
            "sys/bus/pci/devices/0000:00:05.0/vendor": google,
            "sys/bus/pci/devices/0000:00:05.0/device": network_card,
            "sys/bus/pci/devices/0000:00:06.0/vendor": "0x10de\n",
            "sys/bus/pci/devices/0000:00:06.0/device": tpu_v5e,
        },
    )
    assert host.look(tmp_path).tpu_chips == 1


def test_device_files_and_driver(tmp_path: Path) -> None:
    version = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n"
    files = dict.fromkeys(("dev/nvidia0", "dev/nvidiactl", "dev/nvram", "dev/kfd", "dev/accel1"), "")
    seen = host.look(plant(tmp_path, {**files, "proc/driver/nvidia/version": version}))
    assert seen.device_files == ("/dev/accel1", "/dev/kfd", "/dev/nvidia0", "/dev/nvidiactl")
    assert seen.nvidia_driver == "550.54.15"
    assert seen.has_nvidia
    assert seen.has_amd
    assert seen.has_tpu


def test_variables_are_kept_even_when_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in host.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("UNRELATED", "1")
    assert host.look(tmp_path).variables == {"CUDA_VISIBLE_DEVICES": ""}
    assert not host.look(tmp_path).on_colab
    monkeypatch.setenv("COLAB_RELEASE_TAG", "x")
    assert host.look(tmp_path).on_colab


def test_numpy_and_this_package_have_versions() -> None:
    assert {"numpy", "pulsewarp"} <= set(host.look().distributions)
