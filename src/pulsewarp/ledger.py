"""What each machine is charged for its work, cycle by cycle: counted from what happened in a trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from pulsewarp import chips
from pulsewarp._arrays import freeze
from pulsewarp._checks import choice, instance, names_keywords
from pulsewarp._text import counted
from pulsewarp.bench.measurement import with_prefix
from pulsewarp.chips import EnergyFact
from pulsewarp.matmul import BYTES, DTYPES, Matmul, stored_bytes
from pulsewarp.simt import STATES, WarpTrace
from pulsewarp.systolic import DATAFLOWS, REGISTERS, GemmCost, PipelineTrace, SystolicTrace
from pulsewarp.systolic.pipeline_trace import KINDS


@dataclass(frozen=True, eq=False, repr=False)
class SystolicLedger:
    """Charges of a systolic array, each an int64 array of shape (T,): entry t counts cycles 0 to t.

    Parameters
    ----------
    macs : ndarray
        Multiply-adds.
    reads_a, reads_b : ndarray
        Elements of each operand that entered the array from outside.
    reads_partial : ndarray
        Partial sums of earlier folds that entered again.
    writes_out : ndarray
        Sums that left the array, partial ones included.
    hops : ndarray
        Values handed to the cell on the right or below: moving operands and moving sums.
    shifts : ndarray
        Values shifted down while a tile was loaded or results were drained.
    decisions : ndarray
        Decisions about what runs next: one a fold, none a cell.
    idle_cell_cycles : ndarray
        Cells times cycles in which a cell did not multiply.
    busy : ndarray
        Cells that multiply in cycle t (not summed up).
    """

    macs: NDArray[np.int64]
    reads_a: NDArray[np.int64]
    reads_b: NDArray[np.int64]
    reads_partial: NDArray[np.int64]
    writes_out: NDArray[np.int64]
    hops: NDArray[np.int64]
    shifts: NDArray[np.int64]
    decisions: NDArray[np.int64]
    idle_cell_cycles: NDArray[np.int64]
    busy: NDArray[np.int64]

    def at(self, t: int) -> dict[str, int]:
        """Return every charge after clock edge `t`, by name.

        Parameters
        ----------
        t : int
            Cycle; -1 is the last one, as in any array.

        Returns
        -------
        dict of str to int
        """
        return {field.name: int(getattr(self, field.name)[t]) for field in fields(self)}

    def __repr__(self) -> str:
        charges = ", ".join(f"{name} {value}" for name, value in self.at(-1).items() if name != "busy")
        return f"SystolicLedger({self.macs.size} cycles: {charges})"


@names_keywords
def systolic(trace: SystolicTrace) -> SystolicLedger:
    """Count what a systolic array is charged, by cycle.

    Counted: what crossed the array's edge, hopped or was multiplied while the array was stepped. Not counted:
    memory behind the edge, and the clock and control of cells that do nothing.

    Parameters
    ----------
    trace : SystolicTrace
        Of any size, unless made with trace=False.

    Returns
    -------
    SystolicLedger

    Raises
    ------
    ValueError
        For a trace made with trace=False.

    Examples
    --------
    Four weights are read once, and each of the eight products is formed once:

    >>> from pulsewarp import systolic as array
    >>> ledger = systolic(array.simulate([[1, 2], [3, 4]], [[5, 6], [7, 8]], rows=2, cols=2))
    >>> [ledger.at(-1)[charge] for charge in ("macs", "reads_a", "reads_b", "writes_out")]
    [8, 4, 4, 4]
    """
    schedule = instance("trace", trace, SystolicTrace, "pass what systolic.simulate returned").schedule
    entered, moved = schedule.entered.astype(np.int64), schedule.moved.astype(np.int64)
    reads = {trace.roles[register]: entered[:, column] for column, register in enumerate(REGISTERS)}
    starts = np.zeros(trace.cycles, np.int64)
    starts[[fold.start for fold in trace.folds]] = 1
    held = REGISTERS.index("held")
    busy = schedule.busy.astype(np.int64)
    return SystolicLedger(
        macs=_total(busy),
        reads_a=_total(reads["a"]),
        reads_b=_total(reads["b"]),
        reads_partial=_total(schedule.reentered),
        writes_out=_total(schedule.exited),
        hops=_total(moved.sum(axis=1) - moved[:, held]),
        shifts=_total(moved[:, held]),
        decisions=_total(starts),
        idle_cell_cycles=_total(trace.rows * trace.cols - busy),
        busy=freeze(busy),
    )


def _total(by_cycle: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the running total of a count by cycle, read-only."""
    return freeze(np.cumsum(by_cycle, dtype=np.int64))


LEVELS = ("hbm", "vmem", "registers")
"""Where the values of a product are kept, the farthest from the cells first. "hbm": the memory beside the
chip. "vmem": the SRAM at the array's edge. "registers": those of the cells."""

WAYS = ("transfer", "enter", "leave", "hop", "shift", "take over", "accumulate")
"""How a value comes to be read or written. "transfer": between "hbm" and "vmem", seen from either end.
"enter", "leave": over the array's edge. "hop": from the cell on the left or above. "shift": down, while a
tile is loaded or sums are drained. "take over": between a register and its shadow register, where folds
overlap. "accumulate": a sum that stays in its cell takes one product more."""


@dataclass(frozen=True)
class Traffic:
    """Elements of one operand that are read from or written to one level in one way.

    Parameters
    ----------
    level : str
        One of `LEVELS`.
    kind : {"read", "write"}
        Seen from the level.
    way : str
        One of `WAYS`.
    operand : {"a", "b", "c"}
        Left operand, right operand, or the sums.
    dtype : str
        As which the elements are stored there.
    elements, bytes : int
        How many.
    """

    level: str
    kind: str
    way: str
    operand: str
    dtype: str
    elements: int
    bytes: int


@dataclass(frozen=True, repr=False)
class LevelLedger:
    """What a product on an array is charged at each level of its memory, from start to end.

    Parameters
    ----------
    m, k, n : int
        Sizes of the product.
    rows, cols : int
        Size of the array in cells.
    dataflow : str
        "ws", "os" or "is".
    dtype, accumulator : str
        Of the operands, and of the sums.
    macs : int
        Multiply-adds, m * k * n.
    decisions : int
        Decisions about what runs next: one a fold, none a cell.
    idle_cell_cycles : int
        Cells times cycles in which a cell did not multiply.
    hbm_by : str
        What the traffic of "hbm" is: "each operand once", or by the tiles of a pipeline.
    traffic : tuple of Traffic
        Level by level as in `LEVELS`; what is 0 is left out.
    """

    m: int
    k: int
    n: int
    rows: int
    cols: int
    dataflow: str
    dtype: str
    accumulator: str
    macs: int
    decisions: int
    idle_cell_cycles: int
    hbm_by: str
    traffic: tuple[Traffic, ...]

    @names_keywords
    def select(
        self,
        level: str | None = None,
        *,
        kind: str | None = None,
        way: str | None = None,
        operand: str | None = None,
    ) -> tuple[Traffic, ...]:
        """Return the traffic of a level, a kind, a way and an operand; what is left out does not matter.

        Parameters
        ----------
        level : str
            One of `LEVELS`.
        kind : {"read", "write"}
            Seen from the level.
        way : str
            One of `WAYS`.
        operand : {"a", "b", "c"}
            "c" are the sums.

        Returns
        -------
        tuple of Traffic

        Raises
        ------
        ValueError
            For a word that is none of these.

        Examples
        --------
        >>> from pulsewarp import systolic as array
        >>> ledger = levels(array.gemm(m=10, k=4, n=4, rows=4, cols=4), "int8")
        >>> [(row.way, row.elements, row.bytes) for row in ledger.select("registers", operand="c")]
        [('enter', 40, 160), ('hop', 120, 480)]
        """
        given = {"level": level, "kind": kind, "way": way, "operand": operand}
        valid = {"level": LEVELS, "kind": ("read", "write"), "way": WAYS, "operand": ("a", "b", "c")}
        wanted = {name: choice(name, word, valid[name]) for name, word in given.items() if word is not None}
        return tuple(
            row for row in self.traffic if all(getattr(row, name) == word for name, word in wanted.items())
        )

    @names_keywords
    def elements(
        self,
        level: str | None = None,
        *,
        kind: str | None = None,
        way: str | None = None,
        operand: str | None = None,
    ) -> int:
        """Return the elements of what `select` returns for the same words.

        Examples
        --------
        >>> from pulsewarp import systolic as array
        >>> ledger = levels(array.gemm(m=10, k=4, n=4, rows=4, cols=4), "int8")
        >>> ledger.elements("vmem", way="enter", operand="a"), ledger.elements("registers", way="shift")
        (40, 24)
        """
        return sum(row.elements for row in self.select(level, kind=kind, way=way, operand=operand))

    @names_keywords
    def bytes(
        self,
        level: str | None = None,
        *,
        kind: str | None = None,
        way: str | None = None,
        operand: str | None = None,
    ) -> int:
        """Return the bytes of what `select` returns for the same words.

        Examples
        --------
        >>> from pulsewarp import systolic as array
        >>> ledger = levels(array.gemm(m=10, k=4, n=4, rows=4, cols=4), "int8")
        >>> ledger.bytes("hbm", kind="read"), ledger.bytes("hbm", kind="write")
        (56, 160)
        """
        return sum(row.bytes for row in self.select(level, kind=kind, way=way, operand=operand))

    @property
    def bytes_per_mac(self) -> Mapping[str, float]:
        """Bytes read and written at each level, over the multiply-adds."""
        return MappingProxyType({level: self.bytes(level) / self.macs for level in LEVELS})

    def __repr__(self) -> str:
        lines = [
            f"LevelLedger({self.dataflow}, {self.rows}x{self.cols} cells, {self.m}x{self.k} by "
            f"{self.k}x{self.n} in {self.dtype}: {counted(self.macs, 'MAC')}, "
            f"{counted(self.decisions, 'decision')}, {self.idle_cell_cycles} idle cell-cycles"
        ]
        for level in LEVELS:
            if level == "registers":
                by_way = [(self.elements(level, way=way), way) for way in WAYS]
                moved = ", ".join(f"{elements} {way}" for elements, way in by_way if elements)
            else:
                reads, writes = (self.elements(level, kind=kind) for kind in ("read", "write"))
                moved = f"{reads} read, {writes} written"
            by = f" ({self.hbm_by})" if level == "hbm" else ""
            rate = f"{self.bytes_per_mac[level]:.3g} B/MAC"
            lines.append(f"  {level}: {moved}, {self.bytes(level)} B, {rate}{by}")
        return "\n".join(lines) + ")"


@names_keywords
def levels(
    work: SystolicTrace | GemmCost, dtype: str, *, pipeline: PipelineTrace | None = None
) -> LevelLedger:
    """Count what a product on an array reads and writes at each level, in elements and bytes.

    Counted: what enters and leaves the array, in the array and in the SRAM at its edge ("vmem"); what that
    SRAM exchanges with the memory beside the chip ("hbm"); and every value written into a cell's register
    because it entered, hopped or was shifted, or because it is a sum that stays and took a product. A sum
    that moves is added to on its way: its hop and its accumulation are one write. Without a pipeline, "hbm"
    is the least that any machine needs: each operand read once, the result written once. With one, it is what
    the pipeline fetched and wrote; the array is counted all the same as if it ran the product in one piece.
    Not counted: reading a register (its output is a wire; each multiply-add uses three), empty registers,
    unused parts of words, and the vector unit that adds up tiles and turns sums into the result's dtype.

    Parameters
    ----------
    work : SystolicTrace or GemmCost
        A trace is counted as it was stepped, a cost in closed form; the two agree.
    dtype : str
        As which the operands are stored, a key of `matmul.DTYPES`; sums are stored in its accumulator, the
        result goes to "hbm" in its result dtype.
    pipeline : PipelineTrace, optional
        The same product in the same dtype as `systolic.pipeline` ran it.

    Returns
    -------
    LevelLedger

    Raises
    ------
    ValueError
        For an unknown dtype, a trace made with trace=False, a cost under a convention other than "register",
        a pipeline of another product or dtype.

    Examples
    --------
    Each weight is read once and used ten times, each input is read once and used four times:

    >>> from pulsewarp import systolic as array
    >>> levels(array.gemm(m=10, k=4, n=4, rows=4, cols=4), "int8")
    LevelLedger(ws, 4x4 cells, 10x4 by 4x4 in int8: 160 MACs, 1 decision, 160 idle cell-cycles
      hbm: 56 read, 40 written, 216 B, 1.35 B/MAC (each operand once)
      vmem: 96 read, 96 written, 432 B, 2.7 B/MAC
      registers: 96 enter, 240 hop, 24 shift, 840 B, 5.25 B/MAC)
    """
    choice("dtype", dtype, DTYPES)
    if isinstance(work, GemmCost):
        counts = _closed_form(work)
    else:
        remedy = "pass what systolic.simulate or systolic.gemm returned"
        counts = _as_stepped(instance("work", work, SystolicTrace, remedy))
    stored = {"a": dtype, "b": dtype, "c": DTYPES[dtype].accumulator}
    product = Matmul(work.m, work.k, work.n, dtype)
    in_hbm = {"a": dtype, "b": dtype, "c": product.result_dtype}
    transferred = {"a": [work.m * work.k], "b": [work.k * work.n], "c": [work.m * work.n]}
    hbm_by = "each operand once"
    if pipeline is not None:
        transferred = _by_tile(pipeline, product)
        hbm_by = f"by tiles of {'x'.join(map(str, pipeline.tile))}"

    rows: list[Traffic] = []

    def charge(level: str, kind: str, way: str, operand: str, dtype: str, *pieces: int) -> None:
        if any(pieces):  # each piece is stored in whole bytes
            size = sum(stored_bytes(piece, dtype) for piece in pieces)
            rows.append(Traffic(level, kind, way, operand, dtype, sum(pieces), size))

    for level, far in (("hbm", "read"), ("vmem", "write")):
        back = {"read": "write", "write": "read"}[far]
        for operand, pieces in transferred.items():
            kind = back if operand == "c" else far
            charge(level, kind, "transfer", operand, in_hbm[operand], *pieces)
    for operand, elements in counts.read.items():
        charge("vmem", "read", "enter", operand, stored[operand], elements)
    charge("vmem", "write", "leave", "c", stored["c"], counts.left)
    for way, by_operand in counts.written.items():
        for operand, elements in by_operand.items():
            charge("registers", "write", way, operand, stored[operand], elements)
    return LevelLedger(
        m=work.m,
        k=work.k,
        n=work.n,
        rows=work.rows,
        cols=work.cols,
        dataflow=work.dataflow,
        dtype=dtype,
        accumulator=stored["c"],
        macs=counts.macs,
        decisions=counts.decisions,
        idle_cell_cycles=counts.idle_cell_cycles,
        hbm_by=hbm_by,
        traffic=tuple(rows),
    )


def _by_tile(pipeline: PipelineTrace, product: Matmul) -> dict[str, list[int]]:
    """Return the elements of every tile that a pipeline fetched or wrote, by operand."""
    instance("pipeline", pipeline, PipelineTrace, "pass what systolic.pipeline returned, or leave it out")
    ran = Matmul(pipeline.m, pipeline.k, pipeline.n, pipeline.dtype)
    if ran != product:
        raise ValueError(
            f"The pipeline ran {ran.m} x {ran.k} by {ran.k} x {ran.n} in {ran.dtype}, but the product is "
            f"{product.m} x {product.k} by {product.k} x {product.n} in {product.dtype}; pass the same one."
        )
    whole, side = np.array([ran.m, ran.k, ran.n]), np.array(pipeline.tile)
    lengths = np.minimum(side, whole - pipeline.tiles * side)  # the last tile of a row may be cut
    lengths[pipeline.tiles < 0] = 1  # an index that the operand does not have
    elements = lengths.prod(axis=1)
    moves = {"a": "fetch a", "b": "fetch b", "c": "write c"}
    return {operand: elements[pipeline.kind == KINDS.index(kind)].tolist() for operand, kind in moves.items()}


@dataclass(frozen=True)
class _Counts:
    """What crossed the array's edge and was written into registers, in elements by operand."""

    macs: int
    decisions: int
    idle_cell_cycles: int
    read: Mapping[str, int]
    left: int
    written: Mapping[str, Mapping[str, int]]


def _as_stepped(trace: SystolicTrace) -> _Counts:
    """Add up what was seen while a trace was stepped."""
    end = systolic(trace).at(-1)
    entered = dict(zip(REGISTERS, trace.schedule.entered.sum(axis=0, dtype=np.int64).tolist(), strict=True))
    moved = dict(zip(REGISTERS, trace.schedule.moved.sum(axis=0, dtype=np.int64).tolist(), strict=True))
    roles = trace.roles
    # Each cell that worked for a fold took its value over, or handed its sum over; but in the bottom row a
    # sum leaves in the cycle in which it would be in the shadow register.
    worked = trace.schedule.start >= 0
    handed_over = int(np.count_nonzero(worked[:, :-1] if roles["held"] == "c" else worked))
    return _Counts(
        macs=end["macs"],
        decisions=end["decisions"],
        idle_cell_cycles=end["idle_cell_cycles"],
        read={"a": end["reads_a"], "b": end["reads_b"], "c": end["reads_partial"]},
        left=end["writes_out"],
        written={
            "enter": {roles[register]: entered[register] for register in REGISTERS},
            "hop": {roles[register]: moved[register] for register in ("right", "down")},
            "shift": {roles["held"]: moved["held"]},
            "take over": {roles["held"]: handed_over} if trace.overlap else {},
            "accumulate": {"c": end["macs"]} if roles["held"] == "c" else {},
        },
    )


def _closed_form(cost: GemmCost) -> _Counts:
    """Work out the same from sizes: what enters on the left crosses every column, on top every row."""
    if cost.convention != "register":
        raise ValueError(
            f"Convention {cost.convention!r} counts no hops and reads no partial sum back; "
            f"count with convention='register'."
        )
    flow = DATAFLOWS[cost.dataflow]
    sizes: dict[str, int] = {"m": cost.m, "k": cost.k, "n": cost.n}
    crossed = {"a": cost.sram_reads_a, "b": cost.sram_reads_b, "c": cost.sram_writes_out}
    # Of a tile with r rows, row i of 0 to r - 1 is shifted i cells down from the top edge, or, in a
    # drain, the rows - 1 - i cells that lie between it and the bottom edge.
    full, cut = divmod(sizes[flow.row_axis], cost.rows)
    shifted = full * _below(cost.rows) + (_below(cut) if flow.loads else cut * (cost.rows - 1) - _below(cut))
    handed_over = (sizes[flow.row_axis] - (0 if flow.loads else full)) * sizes[flow.col_axis]
    macs = cost.m * cost.k * cost.n
    enters = crossed if flow.loads else {**crossed, "c": 0}  # a sum that stays begins in its cell
    return _Counts(
        macs=macs,
        decisions=cost.folds,
        idle_cell_cycles=cost.cycles * cost.rows * cost.cols - macs,
        read={"a": cost.sram_reads_a, "b": cost.sram_reads_b, "c": cost.sram_reads_partial},
        left=cost.sram_writes_out,
        written={
            "enter": {letter: enters[letter] for letter in flow.roles.values()},
            "hop": {
                flow.right: crossed[flow.right] * (cost.cols - 1),
                flow.down: crossed[flow.down] * (cost.rows - 1),
            },
            "shift": {flow.held: shifted * sizes[flow.col_axis]},
            "take over": {flow.held: handed_over} if cost.overlap else {},
            "accumulate": {} if flow.loads else {"c": macs},
        },
    )


def _below(number: int) -> int:
    """Return 0 + 1 + ... + (number - 1)."""
    return number * (number - 1) // 2


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

        >>> from pulsewarp import systolic as array
        >>> books = energy(levels(array.gemm(m=10, k=4, n=4, rows=4, cols=4), "int8"))
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

        >>> from pulsewarp import systolic as array
        >>> books = energy(levels(array.gemm(m=10, k=4, n=4, rows=4, cols=4), "int8"))
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
    >>> from pulsewarp import systolic as array
    >>> books = energy(levels(array.gemm(m=256, k=256, n=256, rows=128, cols=128), "int8"))
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


@dataclass(frozen=True, eq=False, repr=False)
class WarpLedger:
    """Charges of one SM, each an int64 array of shape (T,): entry t counts cycles 0 to t.

    Parameters
    ----------
    slots : ndarray
        Issue slots offered, one per scheduler and cycle; always `issued` plus everything in `lost`.
    issued : ndarray
        Slots used, which is also the number of issue decisions: one for each instruction of a warp.
    lost : mapping of str to ndarray
        Slots not used, by reason: ``memory``, ``result``, ``unit``, ``limit``, ``barrier`` (as in
        `simt.STATES`) and ``finished`` (every warp of the scheduler has, or it has none).
    lanes : ndarray
        Lanes that were on, summed over issued instructions; 32 x `issued` when none was masked off.
    requests : ndarray
        Instructions issued to the memory unit.
    """

    slots: NDArray[np.int64]
    issued: NDArray[np.int64]
    lost: Mapping[str, NDArray[np.int64]]
    lanes: NDArray[np.int64]
    requests: NDArray[np.int64]

    def at(self, t: int) -> dict[str, int]:
        """Return every charge after cycle `t`, by name; lost slots as ``lost_memory`` and so on.

        Parameters
        ----------
        t : int
            Cycle; -1 is the last one, as in any array.

        Returns
        -------
        dict of str to int
        """
        counts = {"slots": self.slots, "issued": self.issued}
        counts |= {f"lost_{reason}": count for reason, count in self.lost.items()}
        counts |= {"lanes": self.lanes, "requests": self.requests}
        return {name: int(count[t]) for name, count in counts.items()}

    def __repr__(self) -> str:
        charges = ", ".join(f"{name} {value}" for name, value in self.at(-1).items())
        return f"WarpLedger({self.slots.size} cycles: {charges})"


@names_keywords
def warp(trace: WarpTrace) -> WarpLedger:
    """Count what an SM is charged, by cycle: issue slots used, and slots lost with the reason.

    A scheduler whose warps wait for different things loses its slot to the wait that, as known in that
    cycle, ends first: had it been shorter, the slot would have been used. On a tie the reason that comes
    first in `simt.STATES` counts; a barrier that still lacks a warp counts last; and a warp that has issued
    everything counts only when no other has anything left. Not counted: bytes, sectors, energy.

    Parameters
    ----------
    trace : WarpTrace
        Any.

    Returns
    -------
    WarpLedger

    Examples
    --------
    >>> from pulsewarp import simt
    >>> ledger = warp(simt.simulate([simt.load_compute(1, 2)] * 8))
    >>> {reason: int(count[-1]) for reason, count in ledger.lost.items() if count[-1]}
    {'unit': 12, 'memory': 64, 'result': 20, 'finished': 12}
    >>> int(ledger.slots[-1]), int(ledger.issued[-1])
    (132, 24)
    """
    T, S = instance("trace", trace, WarpTrace, "pass what simt.simulate returned").issued.shape
    idle = trace.issued < 0
    blamed = _blamed(trace)
    by_reason = {
        word: (idle & (blamed == code)).sum(axis=1)
        for code, word in enumerate(STATES)
        if word not in ("issues", "ready")  # with a warp ready, no slot is lost
    }
    return WarpLedger(
        slots=_total(np.full(T, S)),
        issued=_total((~idle).sum(axis=1)),
        lost=MappingProxyType({word: _total(count) for word, count in by_reason.items()}),
        lanes=_total(trace.lanes.sum(axis=1, dtype=np.int64)),
        requests=_total(np.bincount(trace.requests[:, 0], minlength=T)),
    )


def _blamed(trace: WarpTrace) -> NDArray[np.int64]:
    """Return, for every cycle and scheduler, the state that costs the slot if nothing is issued."""
    finished = STATES.index("finished")
    never = int(np.max(trace.until)) + 1  # after any known end of a wait
    lengths = np.array([len(program) for program in trace.programs])
    end = np.where(trace.until < 0, never, trace.until).astype(np.int64)
    end[trace.pc == lengths] += never + 1  # after everyone who has something left to issue
    end[trace.state == finished] = 3 * (never + 1)
    # One number per warp and cycle, whose minimum over warps carries both the end and the state.
    keys = end * len(STATES) + trace.state
    blamed = np.full(trace.issued.shape, finished, np.int64)
    for s in range(min(trace.schedulers, trace.warps)):  # a scheduler without warps has nothing to do
        blamed[:, s] = keys[:, s :: trace.schedulers].min(axis=1) % len(STATES)
    return blamed
