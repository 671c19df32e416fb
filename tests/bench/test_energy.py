"""Energy by a card that is not here, with a clock of its own."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from pulsewarp.bench import energy
from pulsewarp.bench.energy import Energy, Meter, NotMeasurable, measure_energy
from pulsewarp.bench.nvml import Gpu, Library, UnreadableError

from .test_nvml import FakeNvml


class Card:
    """A card that draws 20 W idle and 70 W at work, and the only clock there is."""

    def __init__(self, *, counts: bool = True, lag: float = 0.0, stuck: bool = False) -> None:
        self.now, self._joules, self._busy_since, self._lag = 100.0, 5000.0, None, lag
        self.stuck = stuck
        self.card: dict[str, Any] = {
            "name": "NVIDIA L4",
            "uuid": "GPU-a",
            "milliwatts": lambda: 1e3 * self.watts(),
            "millijoules": (lambda: 1e3 * (5000.0 if self.stuck else self._joules)) if counts else None,
        }
        self.library = Library(FakeNvml(self.card))
        self.meter = Meter(self.library, Gpu("NVIDIA L4", "GPU-a"), lambda: self.now, self.rest)

    def watts(self) -> float:
        settled = self._busy_since is not None and self.now - self._busy_since >= self._lag
        return 70.0 if settled else 20.0

    def rest(self, seconds: float) -> None:
        self._busy_since = None
        self._pass(seconds, 20.0)

    def work(self) -> None:
        self._busy_since = self.now if self._busy_since is None else self._busy_since
        self._pass(0.2, 70.0)

    def _pass(self, seconds: float, watts: float) -> None:
        self.now += seconds
        self._joules += watts * seconds


def test_a_counter_gives_joules_seconds_and_calls() -> None:
    card = Card()
    assert card.meter.method == "counter"
    assert card.meter.idle(1.0) == pytest.approx(20.0)
    joules, seconds, calls = card.meter.during(card.work, 4.0)
    assert calls == 20 and seconds == pytest.approx(4.0)
    assert joules == pytest.approx(70.0 * seconds)


def test_a_card_without_a_counter_is_sampled() -> None:
    card = Card(counts=False)
    assert card.meter.method == "sampled power"
    assert card.meter.idle(1.0) == pytest.approx(20.0)


def test_a_counter_that_stands_still_is_no_zero() -> None:
    card = Card(stuck=True)
    with pytest.raises(UnreadableError, match=r"stood still for 4\.0 s"):
        card.meter.during(card.work, 4.0)


def test_a_card_that_reports_nothing_is_refused() -> None:
    library = Library(FakeNvml({"name": "NVIDIA GeForce GT 710", "uuid": "GPU-a"}))
    with pytest.raises(UnreadableError, match="asked for power: Not Supported"):
        Meter(library, Gpu("NVIDIA GeForce GT 710", "GPU-a"))


def test_sampling_leaves_out_the_second_in_which_the_reading_lags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(energy, "_SAMPLE_SECONDS", 0.001)
    monkeypatch.setattr(energy, "_SETTLE_SECONDS", 0.1)
    import time

    card = Card(counts=False)
    begin: list[float] = []
    card.card["milliwatts"] = lambda: 20e3 if not begin or time.perf_counter() - begin[0] < 0.09 else 70e3
    meter = Meter(card.library, Gpu("NVIDIA L4", "GPU-a"))

    def work() -> None:
        begin.append(time.perf_counter())
        time.sleep(0.002)

    joules, seconds, calls = meter.during(work, 0.2)
    assert joules == pytest.approx(70.0 * seconds)
    assert calls >= 2


def measured(
    monkeypatch: pytest.MonkeyPatch, name: str = "NVIDIA L4", **given: Any
) -> Energy | NotMeasurable:
    card = Card()
    card.card["name"] = name
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(card.card))
    monkeypatch.setattr(energy.time, "perf_counter", lambda: card.now)
    monkeypatch.setattr(
        energy, "Meter", lambda library, gpu: Meter(library, gpu, lambda: card.now, card.rest)
    )
    return measure_energy(card.work, variables={}, **given)


def test_the_figure_has_unit_method_and_idle_share(monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured(
        monkeypatch, products_per_call=1000, flops_per_product=2 * 10**9, title="1000 x 1000 x 1000 bf16"
    )
    assert isinstance(found, Energy)
    assert found.products == 20_000
    assert found.joules_per_product == pytest.approx(70.0 * 4.0 / 20_000)
    assert found.joules_per_flop == pytest.approx(7e-12)
    assert found.idle_share == pytest.approx(20 / 70)
    assert found.notes == ()
    for words in ("14.0 mJ a product", "7.00 pJ an operation", "70 W", "29%", "counter", "without the host"):
        assert words in repr(found)


def test_a_sensor_that_watches_a_quarter_of_the_time_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured(monkeypatch, name="NVIDIA H100 80GB HBM3")
    assert isinstance(found, Energy)
    assert "a quarter of the time (arXiv 2312.02741)" in repr(found)


@pytest.mark.parametrize(
    ("module", "variables", "reason"),
    [
        (None, {}, "the optional package nvidia-ml-py is not installed"),
        (FakeNvml(library=False), {}, "NVML Shared Library Not Found"),
        (FakeNvml(), {}, "lists no GPU"),
        (FakeNvml({"name": "a", "uuid": "GPU-a"}, {"name": "b", "uuid": "GPU-b"}), {}, "PCI_BUS_ID"),
        (FakeNvml({"name": "a", "uuid": "GPU-a"}), {}, "Not Supported"),
        (None, {"CUDA_VISIBLE_DEVICES": ""}, "hides every NVIDIA GPU"),
    ],
)
def test_what_cannot_be_measured_is_one_sentence(
    module: object, variables: dict[str, str], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", module)
    found = measure_energy(lambda: None, variables=variables)
    assert isinstance(found, NotMeasurable)
    said = repr(found)
    assert said.startswith("Energy is not measurable here: ") and reason in said
    assert "\n" not in said and not said.endswith("..")


@pytest.mark.parametrize("wrong", [{"seconds": 0.5}, {"products_per_call": 0}, {"idle_seconds": -1}])
def test_numbers_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        measure_energy(lambda: None, **wrong)
