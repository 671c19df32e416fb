"""What one streaming multiprocessor (SM) of each NVIDIA compute capability holds, each value with source."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import Any

from pulsewarp import _checks
from pulsewarp.chips.chip import Source
from pulsewarp.chips.files import Place, Table, check_fields, cited, number, read_toml, text

FILE: Traversable = files("pulsewarp.simt") / "data" / "compute_capabilities.toml"

_UNITS = {"B": 1, "KiB": 2**10}


@dataclass(frozen=True)
class ComputeCapability:
    """The limits of one SM of an NVIDIA GPU, by compute capability.

    Modelled: what a block takes a part of, and the steps in which it is given. Not modelled: caches, and
    what a certain product switches off.

    Attributes
    ----------
    name : str
        The compute capability, such as ``"8.0"``.
    architecture, example : str
        NVIDIA's name of the architecture, and one of several products that have it.
    warp_size : int
        Threads of a warp.
    max_threads_per_block, max_warps, max_blocks : int
        Threads a block may have; warps and blocks an SM holds at once.
    max_barriers : int or None
        Block barriers an SM has, one a block; None where NVIDIA's occupancy header counts none.
    partitions : int
        Sub-partitions of the SM; each has its own scheduler and its own part of the registers.
    registers : int
        32-bit registers of the SM.
    registers_per_block, registers_per_thread : int
        Registers a block and a thread may have.
    registers_per_thread_checked : int
        Registers a thread at which the occupancy header still lets a launch start: 256, one more than a
        thread can have.
    register_step : int
        Registers are given to a warp in multiples of this.
    shared_memory, shared_memory_per_block, shared_memory_opt_in : int
        Bytes of the SM, of a block, and of a block whose kernel has opted in to more.
    shared_memory_reserved, shared_memory_step : int
        Bytes the system keeps for itself in every block, and the multiple in which a block is given bytes.
    carveouts : tuple of int
        The bytes of shared memory that an SM can be set to, the rest being L1 cache; smallest first.
    sources : mapping of str to tuple of Source
        Where each attribute comes from, the strongest source first.
    """

    name: str
    architecture: str
    example: str
    warp_size: int
    max_threads_per_block: int
    max_warps: int
    max_blocks: int
    partitions: int
    registers: int
    registers_per_block: int
    registers_per_thread: int
    registers_per_thread_checked: int
    register_step: int
    shared_memory: int
    shared_memory_per_block: int
    shared_memory_opt_in: int
    shared_memory_reserved: int
    shared_memory_step: int
    carveouts: tuple[int, ...]
    max_barriers: int | None = None
    sources: Mapping[str, tuple[Source, ...]] = field(
        default_factory=lambda: MappingProxyType({}), repr=False, hash=False
    )


_TEXTS = ("architecture", "example")
_FIELDS = tuple(
    one.name for one in dataclasses.fields(ComputeCapability) if one.name not in ("name", "sources")
)


@cache
def compute_capabilities() -> Mapping[str, ComputeCapability]:
    """Return every compute capability of the data, by name and oldest first.

    Returns
    -------
    mapping of str to ComputeCapability
        Read once; cannot be changed.

    Examples
    --------
    >>> from pulsewarp import simt
    >>> " ".join(simt.compute_capabilities())
    '7.0 7.5 8.0 8.6 8.7 8.9 9.0 10.0 12.0'
    >>> simt.compute_capabilities()["8.0"].shared_memory
    167936
    """
    return MappingProxyType(read_compute_capabilities(FILE))


def known(compute_capability: object) -> ComputeCapability:
    """Return the compute capability of a name; otherwise raise a ValueError that names them all."""
    every = compute_capabilities()
    found = every.get(compute_capability) if isinstance(compute_capability, str) else None
    return found or every[_checks.choice("compute_capability", compute_capability, every)]


def read_compute_capabilities(file: Traversable) -> dict[str, ComputeCapability]:
    """Return the compute capabilities of a file by name, in its order.

    Raises
    ------
    ValueError
        For a value without a source, an unknown or a missing field or unit: one sentence with file,
        compute capability, field, value and remedy.
    """
    tables = read_toml(file)
    text(Place(file.name, "as_of"), tables.pop("as_of", None))
    sources = {}
    for key, table in tables.pop("sources", {}).items():
        place = Place(file.name, "sources", key)
        check_fields(place, table, ("title", "address", "date"))
        sources[key] = Source(
            key, *(text(place.at(name), table.get(name)) for name in ("title", "address", "date"))
        )
    return {name: _read(Place(file.name, name), table, sources) for name, table in tables.items()}


def _read(place: Place, table: Table, known_sources: Mapping[str, Source]) -> ComputeCapability:
    check_fields(place, table, _FIELDS)
    values: dict[str, Any] = {}
    sources: dict[str, tuple[Source, ...]] = {}
    for name in _FIELDS:
        at = place.at(name)
        if name not in table:
            if name != "max_barriers":
                at.refuse(None, "is missing; add it with its source.")
            continue
        entry = check_fields(at, table[name], ("value", "unit", "source"))
        sources[name] = cited(at, entry, known_sources)
        values[name] = _value(at, name, entry)
    return ComputeCapability(name=place.path[0], sources=MappingProxyType(sources), **values)


def _value(place: Place, name: str, entry: Table) -> Any:
    value = entry.get("value")
    if name in _TEXTS:
        return text(place, value)
    unit = place.at("unit").one_of(entry.get("unit"), tuple(_UNITS)) if _in_bytes(name) else None
    scale = _UNITS[unit] if unit else 1
    if name != "carveouts":
        return _whole(place, value) * scale
    if not isinstance(value, list) or value != sorted(value):
        place.refuse(value, "must be a list of sizes, the smallest first.")
    return tuple(_whole(place, size) * scale for size in value)


def _in_bytes(name: str) -> bool:
    return name == "carveouts" or name.startswith("shared_memory")


def _whole(place: Place, value: object) -> int:
    exact = number(place, value)
    if exact != int(exact):
        place.refuse(value, "must be a whole number.")
    return int(exact)
