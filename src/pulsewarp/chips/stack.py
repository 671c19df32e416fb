"""Which programming stack reaches which kind of chip, at which date."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources.abc import Traversable
from types import MappingProxyType

from pulsewarp._checks import choice, names_keywords
from pulsewarp.chips.chip import Source
from pulsewarp.chips.files import DATA, Place, check_fields, cited, read_sources, read_toml, text

PLATFORMS = ("nvidia_gpu", "amd_gpu", "intel_gpu", "apple_gpu", "cpu", "google_tpu", "other")

SUPPORTS = ("yes", "experimental", "plugin", "developing", "interpreted", "disputed", "no")
"""Plugin: by a package of its own. Interpreted: runs, slowly, to be debugged. Disputed: pages disagree."""


@dataclass(frozen=True)
class Support:
    """How far a stack supports a platform, and under which condition."""

    level: str
    detail: str | None = None


@dataclass(frozen=True)
class Stack:
    """A programming stack and what it reaches; a platform missing from `support` is unknown.

    Parameters
    ----------
    id, name, version, date
        Catalogue id, printed name, version (None when it has none), and when this held.
    support
        Platform (one of `PLATFORMS`) to `Support`.
    source, note
        Where it was seen, and what else to know.
    """

    id: str
    name: str
    version: str | None
    date: str
    support: Mapping[str, Support]
    source: Source
    note: str | None


@cache
def _load() -> tuple[Stack, ...]:
    return read_stacks(DATA)


def read_stacks(folder: Traversable) -> tuple[Stack, ...]:
    """Return the stacks of a catalogue folder, in the order written.

    Raises
    ------
    ValueError
        For a stack without a source, an unknown field or level of support: one sentence with
        file, entry, value and remedy.
    """
    file, sources = "stacks.toml", read_sources(folder)
    found = []
    for key, table in read_toml(folder / file).items():
        place = Place(file, key)
        check_fields(place, table, ("name", "version", "date", "source", "note", *PLATFORMS))
        support = {}
        for platform in PLATFORMS:
            if platform in table:
                support[platform] = _support(place.at(platform), table[platform])
        optional = {name: text(place.at(name), table[name]) for name in ("version", "note") if name in table}
        found.append(
            Stack(
                id=key,
                name=text(place.at("name"), table.get("name")),
                version=optional.get("version"),
                date=text(place.at("date"), table.get("date")),
                support=MappingProxyType(support),
                source=cited(place, table, sources)[0],
                note=optional.get("note"),
            )
        )
    return tuple(found)


def _support(place: Place, table: object) -> Support:
    fields = check_fields(place, table, ("support", "detail"))
    level = place.at("support").one_of(fields.get("support"), SUPPORTS)
    return Support(level, text(place.at("detail"), fields["detail"]) if "detail" in fields else None)


@names_keywords
def stacks(platform: str | None = None) -> tuple[Stack, ...]:
    """Return the stacks, all or those seen to reach a platform in some way.

    Parameters
    ----------
    platform
        One of "nvidia_gpu", "amd_gpu", "intel_gpu", "apple_gpu", "cpu", "google_tpu", "other".

    Returns
    -------
    tuple of Stack

    Raises
    ------
    ValueError
        When the platform is unknown.

    Examples
    --------
    >>> from pulsewarp import chips
    >>> "cuda" in [stack.id for stack in chips.stacks("google_tpu")]
    False
    """
    if platform is not None:
        choice("platform", platform, PLATFORMS)
    return tuple(
        stack
        for stack in _load()
        if platform is None or (platform in stack.support and stack.support[platform].level != "no")
    )
