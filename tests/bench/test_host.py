"""Reading a machine from files: each machine here is a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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


ARM = "processor\t: 0\nBogoMIPS\t: 243.75\nCPU implementer\t: 0x41\nCPU part\t: {part}\n"


@pytest.mark.parametrize(
    ("cpuinfo", "name"),
    [
        ("model name\t: AMD EPYC 7B12\n", "AMD EPYC 7B12"),
        ("model name\t: Intel(R) Xeon(R) CPU @ 2.20GHz\n", "Intel(R) Xeon(R) CPU @ 2.20GHz"),
        (ARM.format(part="0xd0c"), "Arm Neoverse-N1"),
        (ARM.format(part="0xd4f"), "Arm Neoverse-V2"),
        (ARM.format(part="0xD40"), "Arm Neoverse-V1"),
        (
            ARM.format(part="0xd0b") + "Model\t\t: Raspberry Pi 5 Model B Rev 1.0\n",
            "Raspberry Pi 5 Model B Rev 1.0",
        ),
    ],
)
def test_processors_of_all_makers_are_named(tmp_path: Path, cpuinfo: str, name: str) -> None:
    assert host.look(plant(tmp_path, {"proc/cpuinfo": cpuinfo})).cpu_model == name


def test_macos_is_asked_inside_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class System:
        def sysctlbyname(self, name: bytes, text: Any, size: Any, *_: Any) -> int:
            text.value = b"Apple M3 Pro" if name == b"machdep.cpu.brand_string" else b"?"
            return 0

    monkeypatch.setattr(host.platform, "system", lambda: "Darwin")
    monkeypatch.setattr(host.ctypes, "CDLL", lambda _: System())
    seen = host.look(tmp_path)
    assert (seen.cpu_model, seen.system) == ("Apple M3 Pro", "Darwin")
    monkeypatch.setattr(System, "sysctlbyname", lambda *_: -1)
    assert host.look(tmp_path).cpu_model != "Apple M3 Pro"


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({"sys/fs/cgroup/cpu.max": "50000 100000\n"}, 0.5),
        ({"sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
        ({"sys/fs/cgroup/cpu.max": "100000000 100000\n"}, None),
        (
            {
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "25000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            0.25,
        ),
        (
            {"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"},
            None,
        ),
        ({}, None),
    ],
    ids=["half a core", "no limit", "more than there are", "version 1", "version 1 without", "nothing told"],
)
def test_a_container_grants_its_share_of_the_cores(
    tmp_path: Path, files: dict[str, str], limit: float | None
) -> None:
    assert host.look(plant(tmp_path, files)).core_limit == limit


def caches(core: int, shared: str, size: str) -> dict[str, str]:
    folder = f"sys/devices/system/cpu/cpu{core}/cache"
    return {
        f"{folder}/index0/level": "1\n",
        f"{folder}/index0/type": "Data\n",
        f"{folder}/index0/size": "32K\n",
        f"{folder}/index3/level": "3\n",
        f"{folder}/index3/type": "Unified\n",
        f"{folder}/index3/size": f"{size}\n",
        f"{folder}/index3/shared_cpu_list": f"{shared}\n",
    }


def test_last_level_caches_are_summed_and_a_shared_one_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "_core_numbers", lambda _: (0, 1, 4))
    files = caches(0, "0-3", "16384K") | caches(1, "0-3", "16384K") | caches(4, "4-7", "16M")
    files |= caches(9, "8-11", "16M")  # not ours to use
    assert host.look(plant(tmp_path, files)).last_level_cache_bytes == 32 * 2**20


def test_a_cache_that_is_not_told_is_unknown(tmp_path: Path) -> None:
    assert host.look(tmp_path).last_level_cache_bytes is None


def test_gpus_are_named_by_the_driver_and_amd_tells_its_limits(tmp_path: Path) -> None:
    nvidia = "Model: \t\t Tesla T4\nIRQ:   \t\t 33\nGPU UUID: \t GPU-1\n"
    files = {
        "proc/driver/nvidia/gpus/0000:00:04.0/information": nvidia,
        "sys/class/drm/card0/device/vendor": "0x1002\n",
        "sys/class/drm/card0/device/hwmon/hwmon3/power1_cap": "750000000\n",
        "sys/class/drm/card1/device/vendor": "0x10de\n",
        "sys/class/drm/card1/device/hwmon/hwmon4/power1_cap": "70000000\n",
    }
    seen = host.look(plant(tmp_path, files))
    assert (seen.nvidia_models, seen.amd_power_limits_watts) == (("Tesla T4",), (750.0,))


def test_the_tpu_generation_follows_from_its_number(tmp_path: Path) -> None:
    folder = "sys/bus/pci/devices/0000:00:04.0"
    plant(tmp_path, {f"{folder}/vendor": "0x1ae0\n", f"{folder}/device": "0x006f\n"})
    assert (host.look(tmp_path).tpu_chips, host.look(tmp_path).tpu_generation) == (1, "v6e")


def test_a_device_file_that_is_not_ours_to_open_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(tmp_path, {"dev/kfd": "", "dev/nvidia0": ""})
    monkeypatch.setattr(host.os, "access", lambda path, _: Path(path).name != "kfd")
    assert host.look(tmp_path).locked_files == ("/dev/kfd",)


def test_windows_shows_its_driver_by_a_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host.platform, "system", lambda: "Windows")
    monkeypatch.setattr(host, "_name_by_system", lambda: "AMD Ryzen 7 7700X")
    seen = host.look(plant(tmp_path, {"Windows/System32/nvcuda.dll": ""}))
    assert seen.has_nvidia and seen.locked_files == () and seen.cpu_model == "AMD Ryzen 7 7700X"
