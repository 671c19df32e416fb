"""What counted operations would take in energy, from published figures for single ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from pulsewarp import chips
from pulsewarp._checks import choice, instance, names_keywords
from pulsewarp.bench.measurement import with_prefix
from pulsewarp.chips import EnergyFact
from pulsewarp.ledger.by_level import LevelLedger
from pulsewarp.matmul import BYTES

PARTS = ("macs", "registers", "vmem", "hbm")
"""What an `EnergyLedger` has a figure for, or none: the multiply-adds and the traffic of each level."""

MEMORIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "hbm2": ("hbm2_64_bit_access_low_end_7nm", "hbm2_64_bit_access_high_end_7nm", "hbm2_stack_access"),
        "ddr": ("dram_read_32_bit_word_45nm", "ddr3_4_dram_64_bit_access_45nm_and_7nm"),
    }
)
"""Kinds of memory beside the chip, each with the ids of its figures (`chips.energy_fact`)."""


@dataclass(frozen=True)
class EnergyPart:
    """The energy of one part of the work, or that the catalogue has no published figure for it.

    Parameters
    ----------
    part : str
        One of `PARTS`.
    low, high : float or None
        In joules; None where a figure is missing.
    nodes : tuple of str
        The process nodes at which the figures hold; a figure whose source names none adds "node not stated".
    facts : tuple of EnergyFact
        The published figures from which the range comes, each with its source.
    missing : str or None
        Which figure is missing.
    """

    part: str
    low: float | None
    high: float | None
    nodes: tuple[str, ...]
    facts: tuple[EnergyFact, ...]
    missing: str | None

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.part}: unknown, no published figure in the catalogue for {self.missing}"
        return f"{self.part}: {_range(self.low, self.high)} ({', '.join(self.nodes)})"


@dataclass(frozen=True, repr=False)
class Reuse:
    """What reuse in the array saves: operands fetched from SRAM for each multiply-add, against once an entry.

    Parameters
    ----------
    fetches_without, fetches_with : int
        Operands fetched if every multiply-add fetched both, and as the array fetches them.
    joules_without, joules_with : (float, float) or None
        The least and the most that these fetches take, in joules; None where a figure is missing.
    total_ratio : (float, float) or None
        Multiply-adds and fetches without reuse over the same with it; both at the cheapest SRAM, both at the
        dearest. None where a figure is missing.
    """

    fetches_without: int
    fetches_with: int
    joules_without: tuple[float, float] | None
    joules_with: tuple[float, float] | None
    total_ratio: tuple[float, float] | None

    @property
    def ratio(self) -> float:
        """How often a fetched operand is used: fetches without reuse over fetches with it."""
        return self.fetches_without / self.fetches_with

    def __repr__(self) -> str:
        joules = [
            "" if bounds is None else f" ({_range(*bounds)})"
            for bounds in (self.joules_without, self.joules_with)
        ]
        return (
            f"Reuse({self.fetches_without} operand fetches from SRAM without it{joules[0]}, "
            f"{self.fetches_with} with it{joules[1]}: {self.ratio:.3g} times fewer)"
        )


@dataclass(frozen=True, repr=False)
class EnergyLedger:
    """What the counted operations of a product would take, from published figures; not a chip's power.

    Parameters
    ----------
    work : LevelLedger
        What was counted.
    process_node : str
        At which the figures of arithmetic and SRAM hold.
    memory : str
        One of `MEMORIES`.
    parts : tuple of EnergyPart
        In the order of `PARTS`.
    reuse : Reuse
        The same fetches without reuse.
    """

    work: LevelLedger
    process_node: str
    memory: str
    parts: tuple[EnergyPart, ...]
    reuse: Reuse

    @names_keywords
    def part(self, part: str) -> EnergyPart:
        """Return one of the parts.

        Parameters
        ----------
        part : str
            One of `PARTS`.

        Returns
        -------
        EnergyPart

        Raises
        ------
        ValueError
            For another word.

        Examples
        --------
        160 multiply-adds at 0.2 + 0.1 pJ:

        >>> from pulsewarp import ledger, systolic
        >>> books = ledger.energy(ledger.levels(systolic.gemm(m=10, k=4, n=4, rows=4, cols=4), "int8"))
        >>> print(books.part("macs"))
        macs: 48.0 pJ (45 nm)
        """
        return self.parts[PARTS.index(choice("part", part, PARTS))]

    @property
    def low(self) -> float:
        """The least that all parts with a figure take together, in joules."""
        return sum(part.low for part in self.parts if part.low is not None)

    @property
    def high(self) -> float:
        """The most that all parts with a figure take together, in joules."""
        return sum(part.high for part in self.parts if part.high is not None)

    @property
    def unknown(self) -> tuple[str, ...]:
        """The parts without a figure; they are in no sum and no share."""
        return tuple(part.part for part in self.parts if part.low is None)

    @names_keywords
    def share(self, part: str) -> tuple[float, float] | None:
        """Return which fraction of "macs", "vmem" and "hbm" together one of them takes, least and most.

        The registers, for which there is no figure, are in no share. Least is the part's low end over itself
        and the others' high ends, most the reverse: all others' figures off the other way.

        Parameters
        ----------
        part : str
            One of `PARTS`.

        Returns
        -------
        (float, float) or None
            None where a figure for one of the three is missing, and for the registers.

        Raises
        ------
        ValueError
            For another word.

        Examples
        --------
        In a small product the memory beside the chip takes nearly everything:

        >>> from pulsewarp import ledger, systolic
        >>> books = ledger.energy(ledger.levels(systolic.gemm(m=10, k=4, n=4, rows=4, cols=4), "int8"))
        >>> [round(end, 2) for end in books.share("hbm")]
        [0.55, 0.95]
        """
        own = self.part(part)
        if own.low is None or own.high is None or self.unknown != ("registers",):
            return None
        others = [other for other in self.parts if other is not own]
        lows = sum(other.low for other in others if other.low is not None)
        highs = sum(other.high for other in others if other.high is not None)
        return own.low / (own.low + highs), own.high / (own.high + lows)

    def __repr__(self) -> str:
        work = self.work
        lines = [
            f"EnergyLedger({work.dataflow}, {work.rows}x{work.cols} cells, {work.m}x{work.k} by "
            f"{work.k}x{work.n} in {work.dtype}, {self.process_node} beside {self.memory}",
            *(f"  {part}" for part in self.parts),
            f"  together, without {' and '.join(self.unknown)}: {_range(self.low, self.high)}",
            "  from figures for single operations, not a chip's power)",
        ]
        return "\n".join(lines)


@names_keywords
def energy(work: LevelLedger, *, process_node: str = "45 nm", memory: str = "hbm2") -> EnergyLedger:
    """Work out what the counted operations would take, as ranges, from published figures for single ones.

    Modelled: a multiply-add is one multiplication of operands and one addition in the accumulator's type
    ("fp32" is one such multiplication, not passes of a narrower unit); a byte of "vmem" takes the part of a
    32-bit access that it fills, from the smallest SRAM with a figure to the largest; a byte of "hbm" takes
    what its sources say, from the lowest to the highest. Writing is charged as reading: there are figures
    for reads only. Not modelled, and so in no number: registers and hops, for which the catalogue has no
    figure; clock, control and leakage; SRAM larger than 1 MB; words that are not full. It is therefore never
    a chip's power or energy, and says nothing about the chips of the catalogue, which are made at other
    process nodes; what it shows is how the parts compare.

    Parameters
    ----------
    work : LevelLedger
        What `levels` returned.
    process_node : str
        At which arithmetic and SRAM are taken, "45 nm" or "7 nm"; at 7 nm hardly a figure is known here.
    memory : {"hbm2", "ddr"}
        Which memory is beside the chip; its figures keep their own process node.

    Returns
    -------
    EnergyLedger
        Parts without a figure stay unknown: they are named, and are in no sum.

    Raises
    ------
    ValueError
        For a process node without figures, or an unknown memory.

    Notes
    -----
    Figures: M. Horowitz, "Computing's energy problem (and what we can do about it)", ISSCC 2014, for 45 nm;
    N. P. Jouppi et al., "Ten lessons from three generations shaped Google's TPUv4i", ISCA 2021, table 2, and
    M. O'Connor et al., "Fine-grained DRAM", MICRO 2017, for memory; each as carried, with its address, by the
    `facts` of a part.

    Examples
    --------
    >>> from pulsewarp import ledger, systolic
    >>> books = ledger.energy(ledger.levels(systolic.gemm(m=256, k=256, n=256, rows=128, cols=128), "int8"))
    >>> books.unknown, books.reuse.ratio
    (('registers',), 170.66666666666666)
    """
    instance("work", work, LevelLedger, "pass what ledger.levels returned")
    facts = chips.energy()
    nodes = dict.fromkeys(fact.process_node for fact in facts if fact.unit == "J/op" and fact.process_node)
    choice("process_node", process_node, nodes)
    choice("memory", memory, MEMORIES)
    at_node = {fact.item: fact for fact in facts if fact.process_node == process_node}
    sram = [fact for item, fact in at_node.items() if item.startswith("SRAM read")]
    beside = [fact for fact in facts if fact.id in MEMORIES[memory]]

    macs = _of_macs(work, at_node, process_node)
    return EnergyLedger(
        work=work,
        process_node=process_node,
        memory=memory,
        parts=(
            macs,
            _of_bytes("registers", work.bytes("registers"), [], "a register of a cell"),
            _of_bytes("vmem", work.bytes("vmem"), sram, f"SRAM at {process_node}"),
            _of_bytes("hbm", work.bytes("hbm"), beside, memory),
        ),
        reuse=_reuse(work, macs, sram),
    )


def _of_macs(work: LevelLedger, at_node: Mapping[str, EnergyFact], process_node: str) -> EnergyPart:
    """Return the energy of the multiply-adds: one multiplication and one addition each."""
    needed = (f"{work.dtype} multiply", f"{work.accumulator} add")
    missing = [item for item in needed if item not in at_node]
    if missing:
        return EnergyPart("macs", None, None, (), (), f"{' and '.join(missing)} at {process_node}")
    facts = tuple(at_node[item] for item in needed)
    joules = work.macs * sum(fact.value for fact in facts)
    return EnergyPart("macs", joules, joules, (process_node,), facts, None)


def _of_bytes(part: str, moved: int, facts: Sequence[EnergyFact], missing: str) -> EnergyPart:
    """Return the energy of so many bytes, from the lowest figure to the highest."""
    if not facts:
        return EnergyPart(part, None, None, (), (), missing)
    low, high = _joules_per_byte(facts)
    nodes = tuple(dict.fromkeys(fact.process_node or "node not stated" for fact in facts))
    return EnergyPart(part, moved * low, moved * high, nodes, tuple(facts), None)


def _joules_per_byte(facts: Sequence[EnergyFact]) -> tuple[float, float]:
    """Return the lowest and the highest of some figures."""
    lows, highs = zip(*(fact.joules_per_byte for fact in facts), strict=True)
    return min(lows), max(highs)


def _reuse(work: LevelLedger, macs: EnergyPart, sram: Sequence[EnergyFact]) -> Reuse:
    """Compare operands fetched for every multiply-add with those that enter the array."""
    without = 2 * work.macs
    entered = sum(work.elements("vmem", way="enter", operand=operand) for operand in ("a", "b"))
    if not sram:
        return Reuse(without, entered, None, None, None)
    per_element = [joules * BYTES[work.dtype] for joules in _joules_per_byte(sram)]
    each = macs.low  # one value: arithmetic is published without a range
    ratios = [] if each is None else [(each + without * e) / (each + entered * e) for e in per_element]
    return Reuse(
        fetches_without=without,
        fetches_with=entered,
        joules_without=(without * per_element[0], without * per_element[1]),
        joules_with=(entered * per_element[0], entered * per_element[1]),
        total_ratio=(ratios[0], ratios[1]) if ratios else None,
    )


def _range(low: float, high: float) -> str:
    """Write a range of energy, or the one value that it is."""
    return with_prefix(low, "J") + ("" if low == high else f" to {with_prefix(high, 'J')}")
