"""What JAX says of the devices that are here, and of one that tells little."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from typing import Any

import pytest

from pulsewarp import bench
from pulsewarp.bench import card
from pulsewarp.bench.live import _observe
from pulsewarp.cli import main

jax: Any = pytest.importorskip("jax", reason="JAX is optional; without it there is nothing to ask")


class FakeDevice:
    platform = "cuda"
    device_kind = "NVIDIA H100 80GB HBM3"

    def memory_stats(self) -> dict[str, int]:
        raise NotImplementedError("this backend does not tell")


def test_a_device_that_does_not_tell_its_memory_is_listed_all_the_same() -> None:
    assert _observe.see_device(FakeDevice()) == card.SeenDevice("gpu", "NVIDIA H100 80GB HBM3")


def test_a_silent_fall_back_to_the_cpu_is_told_beside_every_number(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = card.Problem("/dev/nvidia0 shows an NVIDIA GPU, but JAX uses the CPU.", "Use it.")
    here = dataclasses.replace(bench.devices(), problems=(problem,))
    monkeypatch.setattr(_observe, "devices", lambda: here)
    for run in (
        bench.time_matmul(8, 8, 8, repeats=1, clock="call"),
        bench.time_kernel("elementwise", size=1000, repeats=1),
        bench.bandwidth("copy", array_bytes=2**20, repeats=1),
        bench.time_sharded(8, 8, 8, split="rows", devices=1, repeats=1),
    ):
        assert problem.cause in run.notes, run
    working = dataclasses.replace(
        here, platform="gpu"
    )  # what an accelerator in use lacks is on its card alone
    assert working.fallback == ()


def test_the_real_card_is_this_cpu() -> None:
    seen = bench.devices()
    assert (seen.platform, seen.chip) == ("cpu", None)
    assert seen.versions["jax"] == jax.__version__
    assert seen.memory_free_bytes is None or seen.memory_free_bytes > 0


def test_no_second_process_is_started_that_would_find_the_tpu_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a second process")

    for module, name in ((subprocess, "Popen"), (os, "fork"), (os, "posix_spawn"), (os, "system")):
        monkeypatch.setattr(module, name, refuse)
    bench.devices()
    bench.time_matmul(8, 8, 8, repeats=1)
    assert main(["doctor"]) == 0
    with pytest.raises(AssertionError, match="a second process"):  # the guard hears one where there is one
        subprocess.run(["true"], check=True)
