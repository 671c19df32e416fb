"""Reading the catalogue's TOML files: tables, sources, and one clear sentence for every fault.

A fault names the file, the entry, the field and the value, and says what to write instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, NoReturn

from pulsewarp._checks import nearest
from pulsewarp.chips.chip import Source

DATA: Traversable = files("pulsewarp.chips") / "data"
"""The folder that ships with the package."""

Table = Mapping[str, Any]


class Place:
    """Where in the files a value stands: said first in every complaint about it."""

    def __init__(self, file: str, *path: str) -> None:
        self.file = file
        self.path = path

    def at(self, *names: str) -> Place:
        """Return the place `names` below this one."""
        return Place(self.file, *self.path, *names)

    def refuse(self, value: object, why: str) -> NoReturn:
        """Raise a ValueError that names the file, the path, the value and the remedy."""
        raise ValueError(f"{self.file}: {'.'.join(self.path)} = {_shown(value)} {why}")

    def one_of(self, value: object, valid: Sequence[str]) -> str:
        """Return `value` when it is one of `valid`; refuse anything else."""
        if not isinstance(value, str) or value not in valid:
            self.refuse(value, f"must be one of {', '.join(valid)}.{nearest(value, valid)}")
        return value


def read_toml(file: Traversable) -> dict[str, Any]:
    """Return a TOML file's tables; numbers with a point stay decimal, so units convert exactly."""
    import tomllib  # 5 ms that `import pulsewarp` need not pay

    try:
        return tomllib.loads(file.read_text(encoding="utf-8"), parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{file.name} is not valid TOML: {error}.") from error


def read_sources(folder: Traversable) -> dict[str, Source]:
    """Return every source of `folder` by key; title, address and date are required."""
    found = {}
    for key, table in read_toml(folder / "sources.toml").items():
        place = Place("sources.toml", key)
        check_fields(place, table, ("title", "address", "date"))
        found[key] = Source(
            key, *(text(place.at(name), table.get(name)) for name in ("title", "address", "date"))
        )
    return found


def check_fields(place: Place, table: object, valid: Iterable[str]) -> Table:
    """Return `table` when it is one, with fields out of `valid` only."""
    if not isinstance(table, Mapping):
        place.refuse(table, 'must be a table such as { value = 1, source = "key" }.')
    words = list(valid)
    for name, value in table.items():
        if name not in words:
            place.at(name).refuse(
                value, f"is an unknown field.{nearest(name, words)} Known: {', '.join(words)}."
            )
    return table


def text(place: Place, value: object) -> str:
    """Return `value` when it is a text that says something."""
    if not isinstance(value, str) or not value.strip():
        place.refuse(value, "must be a text that is not empty.")
    return value


def number(place: Place, value: object) -> Decimal:
    """Return `value` as an exact number when it is finite and not negative."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | Decimal)
        or not Decimal(value).is_finite()
        or value < 0
    ):
        place.refuse(value, "must be a finite number of at least 0; leave the field out where it is unknown.")
    return Decimal(value)


def cited(place: Place, table: Table, sources: Mapping[str, Source]) -> tuple[Source, ...]:
    """Return the sources that `table` names, the strongest first; refuse a value without any."""
    keys = table.get("source")
    keys = [keys] if isinstance(keys, str) else keys
    if not isinstance(keys, list) or not keys:
        place.refuse(
            table.get("value", dict(table)),
            'has no source; add source = "a key of sources.toml", or leave it out.',
        )
    for key in keys:
        if key not in sources:
            place.at("source").refuse(key, f"is no key of sources.toml.{nearest(key, sources)}")
    return tuple(sources[key] for key in keys)


def _shown(value: object) -> str:
    """Return a value as a sentence shows it: a table by its own value, or by the names it holds."""
    if isinstance(value, Mapping):
        return _shown(value["value"]) if "value" in value else f"{{{', '.join(value)}}}"
    return repr(float(value) if isinstance(value, Decimal) else value)
