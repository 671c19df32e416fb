"""What operations, accesses and chips take in energy and power, as published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources.abc import Traversable
from typing import Literal

from pulsewarp._checks import choice, instance, names_keywords
from pulsewarp.chips.chip import PEAK_DTYPES, Chip, Source
from pulsewarp.chips.files import (
    DATA,
    Place,
    Table,
    check_fields,
    cited,
    number,
    read_sources,
    read_toml,
    text,
)
from pulsewarp.chips.loader import load

_UNITS = {
    "pJ/op": (12, "J/op"),
    "pJ/access": (12, "J/access"),
    "pJ/bit": (12, "J/bit"),
    "W": (0, "W"),
    "x": (0, "x"),
}
"""Unit as written -> decimal places to shift, and the SI unit it becomes; "x" is a ratio."""

_FIELDS = (
    "item",
    "chip",
    "process_node",
    "value",
    "low",
    "high",
    "unit",
    "access_bits",
    "basis",
    "source",
    "confidence",
    "note",
)


@dataclass(frozen=True)
class EnergyFact:
    """One published figure of energy, power or efficiency.

    Parameters
    ----------
    id, item
        Name in the catalogue, such as ``"fp32_multiply_45nm"``, and in words.
    low, high
        The range, equal for a single value; `low` is None where only "up to" is claimed.
    unit
        "J/op", "J/access", "J/bit", "W", or "x" for a ratio.
    access_bits
        How many bits one access moves where the unit is "J/access", else None.
    basis
        What the figure counts: an operation, an access of so many bits, a measured chip, a claim.
    process_node, chip_id
        Where the figure holds, or None.
    source, confidence, note
        Where it was seen, how well it is confirmed, and what else to know.
    """

    id: str
    item: str
    low: float | None
    high: float
    unit: str
    access_bits: int | None
    basis: str
    process_node: str | None
    chip_id: str | None
    source: Source
    confidence: str
    note: str | None

    @property
    def value(self) -> float:
        """The single value; a ValueError for a range."""
        if self.low != self.high:
            raise ValueError(
                f"{self.item} is a range from {self.low} to {self.high} {self.unit}; use low and high."
            )
        return self.high

    @property
    def joules_per_byte(self) -> tuple[float, float]:
        """Low and high of the energy of a byte moved, in J/B, every bit of an access used.

        A ValueError for a figure that counts no bits.
        """
        bits = 1 if self.unit == "J/bit" else self.access_bits
        if bits is None or self.low is None:
            raise ValueError(
                f"{self.item} is given in {self.unit}, which counts no bits; use low and high as they are."
            )
        return self.low * 8 / bits, self.high * 8 / bits


@cache
def _load() -> tuple[EnergyFact, ...]:
    return read_energy(DATA, load())


def read_energy(folder: Traversable, chips: Mapping[str, object]) -> tuple[EnergyFact, ...]:
    """Return the energy facts of a catalogue folder, in the order written.

    Raises
    ------
    ValueError
        For a value without a source, an unknown field, unit or chip: one sentence with file, entry,
        value and remedy.
    """
    file, sources = "energy.toml", read_sources(folder)
    found = []
    for key, table in read_toml(folder / file).items():
        place = Place(file, key)
        check_fields(place, table, _FIELDS)
        if "chip" in table:
            place.at("chip").one_of(table["chip"], tuple(chips))
        found.append(_fact(place, key, table, cited(place, table, sources)[0]))
    return tuple(found)


def _fact(place: Place, key: str, table: Table, source: Source) -> EnergyFact:
    shift, unit = _UNITS[place.at("unit").one_of(table.get("unit"), tuple(_UNITS))]
    given = [name for name in ("value", "low", "high") if name in table]
    if given not in (["value"], ["low", "high"], ["high"]):
        place.refuse(
            {name: float(table[name]) for name in given}, "must state value, or low and high, or high alone."
        )
    bits = table.get("access_bits")
    if (bits is None) == (unit == "J/access") or (bits is not None and (type(bits) is not int or bits < 1)):
        place.at("access_bits").refuse(bits, 'must be a whole number where the unit is "pJ/access" only.')
    bounds = {name: float(number(place.at(name), table[name]).scaleb(-shift)) for name in given}
    required = {name: text(place.at(name), table.get(name)) for name in ("item", "basis", "confidence")}
    optional = {
        name: text(place.at(name), table[name]) for name in ("process_node", "chip", "note") if name in table
    }
    return EnergyFact(
        id=key,
        low=bounds.get("value", bounds.get("low")),
        high=bounds.get("value", bounds.get("high", 0.0)),
        unit=unit,
        access_bits=bits,
        source=source,
        process_node=optional.get("process_node"),
        chip_id=optional.get("chip"),
        note=optional.get("note"),
        **required,
    )


@names_keywords
def energy(chip_id: str | None = None) -> tuple[EnergyFact, ...]:
    """Return the energy facts, all or those of one chip.

    Parameters
    ----------
    chip_id
        A catalogue id; left out, the facts that belong to no chip are there too.

    Returns
    -------
    tuple of EnergyFact

    Raises
    ------
    ValueError
        When the chip is unknown.

    Examples
    --------
    >>> from pulsewarp import chips
    >>> [fact.id for fact in chips.energy("tpu_v3")]
    ['tpu_v3_measured_power_min']
    """
    if chip_id is not None:
        choice("chip", chip_id, load())
    return tuple(fact for fact in _load() if chip_id is None or fact.chip_id == chip_id)


@names_keywords
def energy_fact(fact_id: str) -> EnergyFact:
    """Return the energy fact with this id.

    Parameters
    ----------
    fact_id
        Its name in the catalogue, such as ``"fp32_multiply_45nm"``.

    Returns
    -------
    EnergyFact

    Raises
    ------
    ValueError
        When there is none; the nearest id is named.

    Examples
    --------
    >>> from pulsewarp import chips
    >>> fact = chips.energy_fact("int8_multiply_45nm")
    >>> fact.value, fact.unit, fact.source.date
    (2e-13, 'J/op', '2014')
    """
    facts = {fact.id: fact for fact in _load()}
    return facts[choice("energy fact", fact_id, facts)]


@names_keywords
def joules_per_peak_flop(
    chip: Chip, dtype: str, power: Literal["tdp", "measured_power_mean"] = "tdp"
) -> float | None:
    """Return power over dense peak in J/FLOP, or None when that power was not published.

    A floor for comparing designs: the power of the whole board over a peak that no program
    reaches. It is not the energy of a FLOP at load, and the two kinds of power must not be mixed.

    Parameters
    ----------
    chip
        The chip.
    dtype
        Name of the peak, one of `PEAK_DTYPES`.
    power
        The vendor's design power, or the mean that was measured.

    Returns
    -------
    float or None
        J/FLOP.

    Raises
    ------
    ValueError
        When the peak is unknown, or `power` is neither "tdp" nor "measured_power_mean".

    Examples
    --------
    >>> from pulsewarp import chips
    >>> round(chips.joules_per_peak_flop(chips.get("h100_sxm"), "bf16") * 1e12, 3)
    0.707
    >>> chips.joules_per_peak_flop(chips.get("tpu_v6e"), "bf16") is None
    True
    """
    instance("chip", chip, Chip, 'write chips.get("tpu_v5e")')
    choice("dtype", dtype, PEAK_DTYPES)
    choice("power", power, ("tdp", "measured_power_mean"))
    watts: float | None = getattr(chip, f"{power}_watts")
    return None if watts is None else watts / chip.peak(dtype)
