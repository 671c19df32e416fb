"""Latencies and unit widths of GPU architectures, each value with its source and how it was come by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import Any

from pulsewarp import _checks
from pulsewarp.chips.chip import Source
from pulsewarp.chips.files import Place, Table, check_fields, cited, number, read_toml, text
from pulsewarp.simt._instruction import LANES, Instruction

FILE: Traversable = files("pulsewarp.simt") / "data" / "architectures.toml"
CONFIDENCE = {
    "read": "read in the source",
    "quoted": "quoted by another text",
    "recalled": "recalled, not looked up again",
    "measured": "measured on the simulator named",
}
MOST_WAYS = 32  # a warp's lanes cannot need more sectors or wavefronts than that at 4 bytes each
SECTORS_PER_CYCLE = 4  # 128 bytes a cycle leave L1 and shared memory (NVIDIA developer forum, 77228)
_SCHEDULERS = 4


@dataclass(frozen=True)
class Operation:
    """What an architecture needs for one kind of instruction.

    Attributes
    ----------
    name, unit : str
        Such as ``"FFMA"``, and the unit it takes; ``"mem"`` is one unit per SM, others one per scheduler.
    latency : int
        Cycles from issue until a dependent instruction can issue.
    interval : int
        Cycles the unit is taken by one warp instruction. An arithmetic unit that gives `r` results a cycle
        and SM takes ``ceil(32 x 4 / r)``: 16 lanes a scheduler take a warp in 2 cycles. A tensor core that
        makes `r` multiply-adds takes ``ceil(multiply_adds x 4 / r)``.
    confidence, interval_confidence : str
        A key of `CONFIDENCE`: how the latency, and the width behind the interval, was come by.
    note : str
        What else is printed for it, empty where nothing is.
    sources, interval_sources : tuple of Source
    shared_latency : int or None
        A simulator's latency where several warps of a scheduler share the unit, None where it is the same.
    sector_interval : int
        Cycles the memory unit is taken by every 32-byte sector of a request, 0 where that is not modelled.
    retire : int
        Cycles from the last result of this kind until the warp has left, beyond those of other kinds.
    multiply_adds : int or None
        Multiply-adds of one instruction of a warp on a tensor core, None for other units.
    """

    name: str
    unit: str
    latency: int
    interval: int
    confidence: str
    interval_confidence: str
    note: str
    sources: tuple[Source, ...]
    interval_sources: tuple[Source, ...]
    shared_latency: int | None = None
    sector_interval: int = 0
    retire: int = 0
    multiply_adds: int | None = None


@dataclass(frozen=True, repr=False)
class Architecture:
    """An architecture as programs take it: the latency and the unit width of each operation.

    Modelled: fixed latencies and how long a unit is taken. Not modelled: bandwidth of L2 and DRAM shared by
    all SMs, the extra cycle from one pipe to another, register banks, variable latency. No value is guessed:
    an operation nobody was seen to measure is not there.

    Attributes
    ----------
    name, title, gpu, compute_capability : str
    schedulers : int
    simulator : bool
        The values are those of another simulator, not of hardware.
    operations : mapping of str to Operation
    block_cycles, kernel_cycles : int
        What that simulator counts beyond the last result: for a block, and once for the kernel. 0 for
        hardware.

    Examples
    --------
    >>> from pulsewarp import simt
    >>> volta = simt.architecture("volta")
    >>> volta
    Architecture(Volta, Tesla V100: FFMA 4/2, IADD3 4/2, IMAD 5/2, HFMA2 6/2, ...)
    >>> volta.instruction("FFMA", dst="r0", srcs=("r0",)).interval
    2
    """

    name: str
    title: str
    gpu: str
    compute_capability: str
    schedulers: int
    simulator: bool
    operations: Mapping[str, Operation]
    block_cycles: int = 0
    kernel_cycles: int = 0

    @_checks.names_keywords
    def instruction(
        self,
        operation: str,
        *,
        dst: str | None = None,
        srcs: Sequence[str] = (),
        text: str = "",
        lanes: int = LANES,
        wavefronts: int = 1,
        sectors: int = 4,
        shared: bool = False,
    ) -> Instruction:
        """Return an instruction with this architecture's latency and interval.

        Parameters
        ----------
        operation : str
            A key of `operations`; ``"LDG"`` is a load from DRAM, ``"LDG.L1"`` and ``"LDG.L2"`` are hits.
        dst, srcs, text, lanes
            As for `Instruction`.
        wavefronts : int
            Passes a shared-memory access takes (`wavefronts`): each beyond the first holds the unit and the
            result up for a cycle.
        sectors : int
            32-byte sectors of a load (`sectors`); they count where `Operation.sector_interval` is given.
        shared : bool
            Several warps of the scheduler use the unit: take `Operation.shared_latency` where there is one.

        Returns
        -------
        Instruction

        Raises
        ------
        ValueError
            When the architecture has no such operation, or a number is out of its range.
        """
        known = self.operations.get(operation) if isinstance(operation, str) else None
        if known is None:
            raise ValueError(
                f"{self.title} has no sourced latency for {operation!r}, but for "
                f"{', '.join(self.operations)}; give simt.Instruction a latency of your own."
            )
        passes = _checks.whole_number("wavefronts", wavefronts, most=MOST_WAYS) - 1
        parts = _checks.whole_number("sectors", sectors, most=MOST_WAYS)
        latency = known.shared_latency if shared and known.shared_latency else known.latency
        registers = [name for name in (dst, *srcs) if name is not None]
        return Instruction(
            known.unit,
            latency + passes,
            max(known.interval, known.sector_interval * parts) + passes,
            dst,
            tuple(srcs),
            text or f"{operation} {', '.join(registers)}".rstrip(),
            lanes,
        )

    def given(self, operations: Sequence[str] | None = None) -> str:
        """Return where these operations' values come from, in one line; None takes all of them.

        Examples
        --------
        >>> from pulsewarp import simt
        >>> print(simt.architecture("hopper").given(["FFMA"]))
        Hopper (H800 PCIe): FFMA from PMC10448217, table 3 (quoted by another text).
        """
        grouped: dict[str, list[str]] = {}
        for name in self.operations if operations is None else operations:
            known = self.operations[_checks.choice("operation", name, self.operations)]
            source = f"{known.sources[0].title} ({CONFIDENCE[known.confidence]})"
            grouped.setdefault(source, []).append(known.name)
        told = "; ".join(f"{', '.join(names)} from {source}" for source, names in grouped.items())
        return f"{self.title} ({self.gpu}): {told}."

    def __repr__(self) -> str:
        shown = [f"{o.name} {o.latency}/{o.interval}" for o in self.operations.values()]
        more = ", ..." if len(shown) > 4 else ""
        return f"Architecture({self.title}, {self.gpu}: {', '.join(shown[:4])}{more})"


@cache
def architectures() -> Mapping[str, Architecture]:
    """Return every architecture of the data by name, oldest first, and simulators' last.

    Returns
    -------
    mapping of str to Architecture
        Read once; cannot be changed.

    Examples
    --------
    >>> from pulsewarp import simt
    >>> list(simt.architectures())
    ['volta', 'turing', 'ampere', 'hopper', 'qv100_accelsim', 'rtx3070_accelsim']
    """
    return MappingProxyType(read_architectures(FILE))


@_checks.names_keywords
def architecture(name: str | Architecture) -> Architecture:
    """Return the architecture of this name.

    Parameters
    ----------
    name : str or Architecture
        ``"volta"``, ``"turing"``, ``"ampere"``, ``"hopper"``; with ``"_accelsim"``, what that simulator
        takes for the configuration named. An Architecture is returned as it is.

    Returns
    -------
    Architecture

    Raises
    ------
    ValueError
        When there is none of this name; the nearest is named.

    Examples
    --------
    >>> from pulsewarp import simt
    >>> ampere = simt.architecture("ampere").operations["LDG"]
    >>> ampere.latency, ampere.confidence, ampere.sources[0].key
    (466, 'quoted', 'luo_2024')
    """
    if isinstance(name, Architecture):
        return name
    every = architectures()
    return every[_checks.choice("architecture", name, every)]


def read_architectures(file: Traversable) -> dict[str, Architecture]:
    """Return the architectures of a file by name, in its order.

    Raises
    ------
    ValueError
        For a value without a source or a confidence, and for an unknown field: one sentence with file,
        architecture, field, value and remedy.
    """
    tables = read_toml(file)
    text(Place(file.name, "as_of"), tables.pop("as_of", None))
    sources = {}
    for key, table in tables.pop("sources", {}).items():
        place = Place(file.name, "sources", key)
        check_fields(place, table, ("title", "address", "date"))
        sources[key] = Source(
            key, *(text(place.at(field), table.get(field)) for field in ("title", "address", "date"))
        )
    return {name: _read(Place(file.name, name), name, table, sources) for name, table in tables.items()}


_FIELDS = (
    "title",
    "gpu",
    "compute_capability",
    "schedulers",
    "simulator",
    "block_cycles",
    "kernel_cycles",
    "operations",
)
_OPERATION_FIELDS = (
    "unit",
    "latency",
    "source",
    "confidence",
    "rate",
    "interval",
    "rate_source",
    "rate_confidence",
    "note",
    "shared_latency",
    "sector_interval",
    "retire",
    "multiply_adds",
)


def _read(place: Place, name: str, table: Table, sources: Mapping[str, Source]) -> Architecture:
    check_fields(place, table, _FIELDS)
    schedulers = check_fields(place.at("schedulers"), table.get("schedulers"), ("value", "source"))
    cited(place.at("schedulers"), schedulers, sources)
    operations = {
        key: _operation(place.at("operations", key), key, entry, sources)
        for key, entry in table.get("operations", {}).items()
    }
    return Architecture(
        name=name,
        title=text(place.at("title"), table.get("title")),
        gpu=text(place.at("gpu"), table.get("gpu")),
        compute_capability=text(place.at("compute_capability"), table.get("compute_capability")),
        schedulers=_whole(place.at("schedulers"), schedulers.get("value")),
        simulator=table.get("simulator", False) is True,
        operations=MappingProxyType(operations),
        block_cycles=_whole(place.at("block_cycles"), table.get("block_cycles", 0)),
        kernel_cycles=_whole(place.at("kernel_cycles"), table.get("kernel_cycles", 0)),
    )


def _operation(place: Place, name: str, table: Table, sources: Mapping[str, Source]) -> Operation:
    check_fields(place, table, _OPERATION_FIELDS)
    if ("rate" in table) == ("interval" in table):
        place.refuse(table.get("rate"), "must have either a rate or an interval.")
    of_a_warp = LANES
    if "multiply_adds" in table:
        of_a_warp = _whole(place.at("multiply_adds"), table["multiply_adds"])
    if "rate" in table:
        per_cycle = _whole(place.at("rate"), table["rate"])
        interval = -(-of_a_warp * _SCHEDULERS // per_cycle)
    else:
        interval = _whole(place.at("interval"), table["interval"])
    width: dict[str, Any] = {"value": interval, "source": table.get("rate_source")}
    shared = table.get("shared_latency")
    words = tuple(CONFIDENCE)
    return Operation(
        name=name,
        unit=text(place.at("unit"), table.get("unit")),
        latency=_whole(place.at("latency"), table.get("latency")),
        interval=interval,
        confidence=place.at("confidence").one_of(table.get("confidence"), words),
        interval_confidence=place.at("rate_confidence").one_of(table.get("rate_confidence"), words),
        note=table.get("note", ""),
        sources=cited(place, table, sources),
        interval_sources=cited(place.at("rate_source"), width, sources),
        shared_latency=None if shared is None else _whole(place.at("shared_latency"), shared),
        sector_interval=_whole(place.at("sector_interval"), table.get("sector_interval", 0)),
        retire=_whole(place.at("retire"), table.get("retire", 0)),
        multiply_adds=of_a_warp if "multiply_adds" in table else None,
    )


def _whole(place: Place, value: object) -> int:
    exact = number(place, value)
    if exact != int(exact):
        place.refuse(value, "must be a whole number.")
    return int(exact)
