"""Energy of a product: what runs while the card is read, on a card that is not here."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")

from pulsewarp import bench  # JAX is optional
from pulsewarp.bench.live import energy
from pulsewarp.bench.live._dtypes import catalogue_dtype


def on(platform: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make products say that they ran on another device, at 1 ms each."""
    real = bench.time_matmul

    def time_matmul(*sizes: int, **given: Any) -> Any:
        wanted = given.pop("dtype", "float32")
        narrow = wanted.startswith("float8")  # a CPU refuses them, the card that is played here has them
        run = real(*sizes, **given, dtype="bfloat16" if narrow else wanted)
        device = dataclasses.replace(run.device, platform=platform, kind=kind)
        matmul = dataclasses.replace(run.matmul, dtype=catalogue_dtype(wanted))
        return dataclasses.replace(run, device=device, seconds=(1e-3,), matmul=matmul, stored=wanted)

    monkeypatch.setattr(energy, "time_matmul", time_matmul)


@pytest.mark.parametrize(
    ("platform", "kind", "reason"),
    [
        ("cpu", "cpu", "JAX computes on the CPU"),
        ("tpu", "TPU v5 lite", "from NVIDIA GPUs alone, and this is TPU v5 lite"),
        ("gpu", "AMD Instinct MI300X", "from NVIDIA GPUs alone, and this is AMD Instinct MI300X"),
        ("gpu", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "is a slice"),
    ],
)
def test_where_power_is_not_read_there_is_one_sentence(
    platform: str, kind: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(platform, kind, monkeypatch)
    monkeypatch.setattr(energy, "measure_energy", lambda *_, **__: pytest.fail("read"))
    found = bench.energy_of_matmul(16, 16, 16)
    assert isinstance(found, bench.NotMeasurable) and reason in repr(found)


@pytest.mark.parametrize("dtype", ["float32", "int8", "float8_e4m3fn", "float8_e5m2"])
def test_the_chain_of_the_products_that_were_asked_for_runs_while_the_card_is_read(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    on("gpu", "NVIDIA L4", monkeypatch)
    told: dict[str, Any] = {}

    def measure(work: Any, **given: Any) -> bench.NotMeasurable:
        told.update(given, result=work())
        return bench.NotMeasurable("this is a test.")

    def links_of(module: Any, work: Any, factors: Any, writes: str) -> Any:
        told["dtypes"] = {str(factor.dtype) for factor in factors}
        return real(module, work, factors, writes)

    real = energy.links_of
    monkeypatch.setattr(energy, "links_of", links_of)
    monkeypatch.setattr(energy, "measure_energy", measure)
    bench.energy_of_matmul(8, 16, 4, dtype=dtype, seconds=2)
    assert told["dtypes"] == {dtype}
    assert told["products_per_call"] == 200  # a fifth of a second of products of 1 ms
    assert (told["flops_per_product"], told["seconds"]) == (2 * 8 * 16 * 4, 2)
    assert np.asarray(told["result"][1]).shape == (8, 4)
