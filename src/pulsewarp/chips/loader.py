"""From the catalogue's chip files to `Chip`, refusing what cannot be trusted.

A chip file (`data/chips/*.toml`) holds ``as_of`` and one table a chip. `FIELDS` lists what a chip
may state, the attribute it becomes and the units it may be written in. A value is a small table::

    bandwidth = { value = 819, unit = "GB/s", source = ["gcp_v5e", "mlsysim"] }
    peak.bf16 = { value = 197, unit = "TFLOP/s", sparsity = "dense", source = "gcp_v5e" }

`others` keeps what further sources print instead, `basis` how a value follows from its source. A
peak may add ``units = "matrix"|"core"``, ``clock = "matrix"|"boost"`` and ``fma_per_clock`` (found
by this catalogue's own arithmetic) so that it is held to units x FMA x 2 x clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import Any

from pulsewarp._checks import choice, names_keywords, nearest
from pulsewarp.chips.chip import FAMILIES, PEAK_DTYPES, Chip, OtherValue, Source
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

PEAK_TOLERANCE = Decimal("1.10")
"""A printed peak may exceed units x FMA x 2 x clock by this factor (rounded clocks), not by more."""

_RATE = {"GB/s": 10**9, "TB/s": 10**12}
_CACHE = {"KiB": 2**10, "MiB": 2**20}
_FLOPS = {"TFLOP/s": 10**12, "PFLOP/s": 10**15}
_OPS = {"TOP/s": 10**12, "POP/s": 10**15}


@dataclass(frozen=True)
class Field:
    """A sourced field of a chip file: the attribute it becomes, its type, its units."""

    attribute: str
    kind: type
    units: Mapping[str, int] | None = None


FIELDS: Mapping[str, Field] = {
    "year": Field("year", int),
    "process_node": Field("process_node", str),
    "bandwidth": Field("bandwidth_bytes_per_second", float, _RATE),
    "memory_type": Field("memory_type", str),
    "memory_label": Field("memory_label_gb", float, {"GB": 1}),
    "memory": Field("memory_bytes", int, {"B": 1, "MiB": 2**20, "GiB": 2**30}),
    "cores": Field("cores", int),
    "core_kind": Field("core_kind", str),
    "matrix_units_per_core": Field("matrix_units_per_core", int),
    "matrix_unit_shape": Field("matrix_unit_shape", tuple),
    "fma_per_clock_per_matrix_unit": Field("fma_per_clock_per_matrix_unit", int),
    "boost_clock": Field("boost_clock_hz", float, {"MHz": 10**6, "GHz": 10**9}),
    "matrix_clock": Field("matrix_clock_hz", float, {"MHz": 10**6, "GHz": 10**9}),
    "tdp": Field("tdp_watts", float, {"W": 1}),
    "tdp_term": Field("tdp_term", str),
    "measured_power_mean": Field("measured_power_mean_watts", float, {"W": 1}),
    "measured_power_max": Field("measured_power_max_watts", float, {"W": 1}),
    "l2_cache": Field("l2_cache_bytes", int, _CACHE),
    "last_level_cache": Field("last_level_cache_bytes", int, _CACHE),
    "vmem": Field("vmem_bytes", int, _CACHE),
    "cmem": Field("cmem_bytes", int, _CACHE),
    "unified_buffer": Field("unified_buffer_bytes", int, _CACHE),
    "shared_memory_per_core": Field("shared_memory_per_core_bytes", int, _CACHE),
    "register_file_per_core": Field("register_file_per_core_bytes", int, _CACHE),
    "warp_size": Field("warp_size", int),
    "max_threads_per_core": Field("max_threads_per_core", int),
    "interconnect": Field("interconnect", str),
    "interconnect_bidirectional": Field("interconnect_bidirectional_bytes_per_second", float, _RATE),
    "interconnect_unidirectional": Field("interconnect_unidirectional_bytes_per_second", float, _RATE),
    "topology": Field("topology", str),
    "max_domain_chips": Field("max_domain_chips", int),
    "clouds": Field("clouds", list),
    "jax_devices_per_chip": Field("jax_devices_per_chip", int),
}
"""What a chip may state with a source. Peaks stand under ``peak.<dtype>``."""

_REQUIRED = ("name", "vendor", "family", "status")
_OPTIONAL = ("caveat", "note", "unit_arithmetic_caveat")
_LABELS = (*_REQUIRED, *_OPTIONAL, "device_kinds", "projection", "unit_check", "peak")
_VALUE = ("value", "unit", "source", "others", "basis")
_PEAK = (*_VALUE, "sparsity", "units", "clock", "fma_per_clock")


@cache
def load() -> Mapping[str, Chip]:
    """Return the shipped catalogue by id, read once."""
    return MappingProxyType(read_chips(DATA))


def read_chips(folder: Traversable) -> dict[str, Chip]:
    """Return the chips of a catalogue folder by id: TPUs, GPUs, others, each in its file's order.

    Parameters
    ----------
    folder
        A folder with `sources.toml` and `chips/*.toml`.

    Raises
    ------
    ValueError
        For a number without a source, an unknown field or unit, a peak without its sparsity or
        not dense, a peak more than 10 % above units x FMA x 2 x clock where all are known, or a
        chip stated twice: one sentence with file, chip, field, value and remedy.
    """
    sources = read_sources(folder)
    chips: dict[str, Chip] = {}
    for file in sorted((folder / "chips").iterdir(), key=lambda file: file.name):
        if not file.name.endswith(".toml"):
            continue
        tables = read_toml(file)
        as_of = text(Place(file.name, "as_of"), tables.pop("as_of", None))
        for chip_id, table in tables.items():
            place = Place(file.name, chip_id)
            if chip_id in chips:
                place.refuse(chip_id, "stands in another file too; keep one of them.")
            check_fields(place, table, (*_LABELS, *FIELDS))
            chips[chip_id] = _Reading(place, table, sources).chip(as_of)
    return dict(sorted(chips.items(), key=lambda item: FAMILIES.index(item[1].family)))


class _Reading:
    """One chip's table on its way to a `Chip`: values by attribute, sources, other values."""

    def __init__(self, place: Place, table: Table, sources: Mapping[str, Source]) -> None:
        self.place = place
        self.table = table
        self.known_sources = sources
        self.values: dict[str, Any] = {}
        self.sources: dict[str, Source] = {}
        self.further: dict[str, tuple[Source, ...]] = {}
        self.others: dict[str, tuple[OtherValue, ...]] = {}

    def chip(self, as_of: str) -> Chip:
        """Return the chip, every field checked."""
        for name in (*_REQUIRED, *(name for name in _OPTIONAL if name in self.table)):
            self.values[name] = text(self.place.at(name), self.table.get(name))
        self.place.at("family").one_of(self.values["family"], FAMILIES)
        self.values["projection"] = self._flag("projection", default=False)
        self.values["device_kinds"] = self._texts("device_kinds", self.table.get("device_kinds", []))
        for name, field in FIELDS.items():
            if name in self.table:
                self._read_field(name, field)
        held = self._flag("unit_check", default=True)
        if not held and "unit_arithmetic_caveat" not in self.values:
            self.place.at("unit_check").refuse(False, "needs its reason; add unit_arithmetic_caveat.")
        self._derive()
        peaks, arithmetic = self._read_peaks(held=held)
        printable = {} if "unit_arithmetic_caveat" in self.values else arithmetic
        return Chip(
            id=self.place.path[0],
            as_of=as_of,
            peak_flops_per_second=MappingProxyType(peaks),
            peak_arithmetic=MappingProxyType({dtype: float(value) for dtype, value in printable.items()}),
            sources=MappingProxyType(self.sources),
            further_sources=MappingProxyType(self.further),
            other_values=MappingProxyType(self.others),
            **self.values,
        )

    def _flag(self, name: str, *, default: bool) -> bool:
        value = self.table.get(name, default)
        if not isinstance(value, bool):
            self.place.at(name).refuse(value, "must be true or false.")
        return value

    def _texts(self, name: str, values: object) -> tuple[str, ...]:
        if not isinstance(values, list):
            self.place.at(name).refuse(values, "must be a list of texts.")
        return tuple(text(self.place.at(name), value) for value in values)

    def _read_field(self, name: str, field: Field) -> None:
        place, table = self.place.at(name), self.table[name]
        check_fields(place, table, _VALUE)
        self._cite(place, table, field.attribute, field.units)
        value: object = table.get("value")
        if field.kind is str:
            self.values[field.attribute] = text(place, value)
        elif field.kind is list:
            self.values[field.attribute] = self._texts(name, value)
        elif field.kind is tuple:
            self.values[field.attribute] = _shape(place, value)
        else:
            self.values[field.attribute] = _quantity(place, table, field)

    def _cite(self, place: Place, table: Table, attribute: str, units: Mapping[str, int] | None) -> None:
        first, *rest = cited(place, table, self.known_sources)
        self.sources[attribute] = first
        if rest:
            self.further[attribute] = tuple(rest)
        if "basis" in table:
            text(place.at("basis"), table["basis"])
        if "others" in table:
            factor = _factor(place, table, units)
            self.others[attribute] = tuple(self._read_others(place.at("others"), table["others"], factor))

    def _read_others(self, place: Place, rows: object, factor: int) -> Iterator[OtherValue]:
        if not isinstance(rows, list):
            place.refuse(rows, "must be a list of { value, source } tables.")
        for row in rows:
            check_fields(place, row, ("value", "source"))
            source, *_ = cited(place, row, self.known_sources)
            yield OtherValue(float(number(place, row.get("value")) * factor), source)

    def _derive(self) -> None:
        """Fill what follows from sourced fields alone, with their sources."""
        values = self.values
        if values.get("cores") is not None and values.get("matrix_units_per_core") is not None:
            values["matrix_units"] = values["cores"] * values["matrix_units_per_core"]
            self.sources["matrix_units"] = self.sources["matrix_units_per_core"]
        if "memory_bytes" not in values and "memory_label_gb" in values:
            values["memory_bytes"] = int(Decimal(str(values["memory_label_gb"])) * 10**9)
            values["memory_caveat"] = (
                "The vendor's label read as decimal gigabytes; the exact capacity was not seen."
            )
            self.sources["memory_bytes"] = self.sources["memory_label_gb"]

    def _read_peaks(self, *, held: bool) -> tuple[dict[str, float], dict[str, Decimal]]:
        place, tables = self.place.at("peak"), self.table.get("peak", {})
        check_fields(place, tables, PEAK_DTYPES)
        peaks: dict[str, float] = {}
        arithmetic: dict[str, Decimal] = {}
        for dtype, table in tables.items():
            here = place.at(dtype)
            check_fields(here, table, _PEAK)
            if "sparsity" not in table:
                here.refuse(
                    table.get("value"),
                    'does not state its sparsity; add sparsity = "dense" once that is known.',
                )
            if table["sparsity"] != "dense":
                here.at("sparsity").refuse(
                    table["sparsity"],
                    "is not dense, and the catalogue holds dense peaks only; write the dense one.",
                )
            units = _OPS if dtype.startswith("int") else _FLOPS
            value = _positive(here, table) * _factor(here, table, units)
            self._cite(here, table, f"peak_flops_per_second.{dtype}", units)
            product = self._arithmetic(here, dtype, table)
            if product is not None:
                arithmetic[dtype] = product
                if held:
                    _hold(here, table, value, product)
            peaks[dtype] = float(value)
        return peaks, arithmetic

    def _arithmetic(self, place: Place, dtype: str, table: Table) -> Decimal | None:
        """Return units x FMA x 2 x clock in FLOP/s, or None where a factor is unknown."""
        stated = [name for name in ("units", "clock", "fma_per_clock") if name in table]
        if stated:
            units, clock = table.get("units"), table.get("clock")
            if units not in ("matrix", "core") or clock not in ("matrix", "boost") or len(stated) < 3:
                place.refuse(
                    {name: table[name] for name in stated},
                    'is half a check; state units = "matrix" or "core", clock = "matrix" or "boost", '
                    "and fma_per_clock.",
                )
            count = self.values.get("matrix_units" if units == "matrix" else "cores")
            hertz = self.values.get(f"{clock}_clock_hz")
            if count is None or hertz is None:
                place.refuse(
                    table.get("value"),
                    f"asks for a check with {units} units at the {clock} clock, not both known.",
                )
            rate = number(place.at("fma_per_clock"), table["fma_per_clock"])
        elif dtype in ("bf16", "fp16"):
            # The matrix clock only: tensor cores of H100, H200 and Blackwell run below the boost clock.
            count = self.values.get("matrix_units")
            hertz = self.values.get("matrix_clock_hz")
            rate = Decimal(self.values.get("fma_per_clock_per_matrix_unit") or 0)
        else:
            return None
        return Decimal(count) * rate * 2 * Decimal(str(hertz)) if count and rate and hertz else None


def _hold(place: Place, table: Table, value: Decimal, product: Decimal) -> None:
    if value > product * PEAK_TOLERANCE:
        place.refuse(
            table["value"],
            f"{table['unit']} is {float(value / product - 1):.0%} above units x FMA x 2 x clock "
            f"({float(product):.4g} a second), and 10 % is the limit; is it a sparse figure?",
        )


def _quantity(place: Place, table: Table, field: Field) -> int | float:
    amount = number(place, table.get("value")) * _factor(place, table, field.units)
    if field.kind is float:
        return float(amount)
    if amount != int(amount):
        place.refuse(table.get("value"), "must come to a whole number.")
    return int(amount)


def _positive(place: Place, table: Table) -> Decimal:
    amount = number(place, table.get("value"))
    if not amount:
        place.refuse(0, "must be above 0; leave the peak out where it is unknown.")
    return amount


def _factor(place: Place, table: Table, units: Mapping[str, int] | None) -> int:
    unit: Any = table.get("unit")
    if units is None:
        if unit is not None:
            place.at("unit").refuse(unit, "is out of place, for this field has no unit; remove it.")
        return 1
    if unit not in units:
        place.at("unit").refuse(
            unit, f"is no unit of this field; write one of {', '.join(units)}.{nearest(unit, units)}"
        )
    return units[unit]


def _shape(place: Place, value: object) -> tuple[int, int]:
    if (
        not isinstance(value, list)
        or len(value) != 2
        or not all(type(side) is int and side > 0 for side in value)
    ):
        place.refuse(value, "must be [rows, columns], two whole numbers above 0.")
    return value[0], value[1]


@names_keywords
def get(chip_id: str) -> Chip:
    """Return the chip with this catalogue id.

    Parameters
    ----------
    chip_id
        One of `ids`.

    Returns
    -------
    Chip

    Raises
    ------
    ValueError
        When the catalogue has no such chip; the nearest id is named.

    Examples
    --------
    >>> from pulsewarp import chips
    >>> chips.get("h100_sxm")
    Chip(id='h100_sxm', name='H100 SXM5 80GB', vendor='NVIDIA', family='gpu')
    """
    return load()[choice("chip", chip_id, load())]


@names_keywords
def ids(family: str | None = None) -> tuple[str, ...]:
    """Return the ids of all chips, or of one family.

    Parameters
    ----------
    family
        "tpu", "gpu" or "other".

    Returns
    -------
    tuple of str
        TPUs first, then GPUs, then others.

    Raises
    ------
    ValueError
        When the family is none of these.

    Examples
    --------
    >>> from pulsewarp import chips
    >>> chips.ids("other")
    ('trainium2', 'gaudi3')
    """
    return tuple(
        chip.id for chip in catalogue() if family is None or chip.family == choice("family", family, FAMILIES)
    )


def catalogue() -> tuple[Chip, ...]:
    """Return every chip of the catalogue, the same objects at each call.

    Returns
    -------
    tuple of Chip
        In the order of `ids`.

    Examples
    --------
    >>> from pulsewarp import chips
    >>> len(chips.catalogue())
    40
    """
    return tuple(load().values())
