"""What an hour of a chip cost, where and when it was seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources.abc import Traversable

from pulsewarp._checks import choice, names_keywords
from pulsewarp.chips.chip import Source
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

PRICE_KINDS = ("on-demand", "spot", "preemptible", "capacity block", "serverless")
"""On-demand can be had at once, spot and preemptible may be taken back, a capacity block is booked ahead."""

CONFIDENCES = ("good", "medium", "low", "old")

_OFFERS = ("provider", "date", "source", "rows")
_ROW = ("chip", "usd_per_chip_hour", "kind", "region", "confidence", "note")


@dataclass(frozen=True)
class Price:
    """One price of one chip-hour as seen; a price ages, so it has a date, and a reader may set their own.

    Parameters
    ----------
    chip_id, provider, region
        What, from whom, where (None when not stated).
    usd_per_chip_hour
        US dollars for one chip for one hour; with the share of its host where `note` says so.
    kind
        One of `PRICE_KINDS`.
    date
        When the price held, as exactly as its source tells, or "undated".
    source, confidence, note
        Where it was seen, how far it is to be trusted, and what it holds.
    """

    chip_id: str
    provider: str
    region: str | None
    usd_per_chip_hour: float
    kind: str
    date: str
    source: Source
    confidence: str
    note: str | None


@cache
def _load() -> tuple[Price, ...]:
    return read_prices(DATA, load())


def read_prices(folder: Traversable, chips: Mapping[str, object]) -> tuple[Price, ...]:
    """Return the prices of a catalogue folder, in the order written.

    Raises
    ------
    ValueError
        For a price without a source, an unknown field, chip or kind: one sentence with file,
        place, value and remedy.
    """
    file, sources = "prices.toml", read_sources(folder)
    tables = read_toml(folder / file)
    check_fields(Place(file), tables, ("offers",))
    found: list[Price] = []
    for index, offers in enumerate(tables.get("offers", [])):
        place = Place(file, f"offers[{index}]")
        check_fields(place, offers, _OFFERS)
        source, *_ = cited(place, offers, sources)
        provider = text(place.at("provider"), offers.get("provider"))
        date = text(place.at("date"), offers.get("date"))
        for line, row in enumerate(offers.get("rows", [])):
            here = place.at(f"rows[{line}]")
            check_fields(here, row, _ROW)
            found.append(_price(here, row, provider, date, source, chips))
    return tuple(found)


def _price(
    place: Place, row: Table, provider: str, date: str, source: Source, chips: Mapping[str, object]
) -> Price:
    usd = number(place.at("usd_per_chip_hour"), row.get("usd_per_chip_hour"))
    for name, valid in (("chip", tuple(chips)), ("kind", PRICE_KINDS), ("confidence", CONFIDENCES)):
        place.at(name).one_of(row.get(name), valid)
    optional = {name: text(place.at(name), row[name]) for name in ("region", "note") if name in row}
    return Price(
        chip_id=row["chip"],
        provider=provider,
        region=optional.get("region"),
        usd_per_chip_hour=float(usd),
        kind=row["kind"],
        date=date,
        source=source,
        confidence=row["confidence"],
        note=optional.get("note"),
    )


@names_keywords
def prices(chip_id: str | None = None, kind: str | None = None) -> tuple[Price, ...]:
    """Return the prices seen, of all chips or one, of all kinds or one.

    Parameters
    ----------
    chip_id
        A catalogue id; a chip without any price seen gives an empty tuple.
    kind
        One of "on-demand", "spot", "preemptible", "capacity block", "serverless".

    Returns
    -------
    tuple of Price

    Raises
    ------
    ValueError
        When the chip or the kind is unknown.

    Examples
    --------
    >>> from pulsewarp import chips
    >>> chips.prices("tpu_v7")  # no list price was seen
    ()
    >>> chips.prices("gb200")[0].provider, chips.prices("gb200")[0].usd_per_chip_hour
    ('CoreWeave', 10.5)
    """
    if chip_id is not None:
        choice("chip", chip_id, load())
    if kind is not None:
        choice("kind", kind, PRICE_KINDS)
    return tuple(
        price
        for price in _load()
        if (chip_id is None or price.chip_id == chip_id) and (kind is None or price.kind == kind)
    )


@names_keywords
def price_range(chip_id: str, kind: str = "on-demand") -> tuple[float, float] | None:
    """Return the lowest and highest price seen, or None when none was.

    Parameters
    ----------
    chip_id, kind
        As for `prices`.

    Returns
    -------
    (float, float) or None
        US dollars for a chip-hour.

    Raises
    ------
    ValueError
        When the chip or the kind is unknown.

    Examples
    --------
    >>> from pulsewarp import chips
    >>> chips.price_range("h100_sxm")
    (2.69, 12.29)
    """
    seen = [price.usd_per_chip_hour for price in prices(chip_id, kind)]
    return (min(seen), max(seen)) if seen else None
