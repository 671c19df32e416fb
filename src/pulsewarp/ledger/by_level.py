"""What a product on an array reads and writes at each level of its memory, as stepped or in closed form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from pulsewarp._checks import choice, instance, names_keywords
from pulsewarp._text import counted
from pulsewarp.ledger import by_cycle
from pulsewarp.matmul import DTYPES, Matmul, stored_bytes
from pulsewarp.systolic import REGISTERS, GemmCost, PipelineTrace, SystolicTrace
from pulsewarp.systolic.pipeline_trace import KINDS, tile_sizes

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
        >>> from pulsewarp import ledger, systolic
        >>> books = ledger.levels(systolic.gemm(m=10, k=4, n=4, rows=4, cols=4), "int8")
        >>> [(row.way, row.elements, row.bytes) for row in books.select("registers", operand="c")]
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
        >>> from pulsewarp import ledger, systolic
        >>> books = ledger.levels(systolic.gemm(m=10, k=4, n=4, rows=4, cols=4), "int8")
        >>> books.elements("vmem", way="enter", operand="a"), books.elements("registers", way="shift")
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
        >>> from pulsewarp import ledger, systolic
        >>> books = ledger.levels(systolic.gemm(m=10, k=4, n=4, rows=4, cols=4), "int8")
        >>> books.bytes("hbm", kind="read"), books.bytes("hbm", kind="write")
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

    >>> from pulsewarp import ledger, systolic
    >>> ledger.levels(systolic.gemm(m=10, k=4, n=4, rows=4, cols=4), "int8")
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
            size = sum(stored_bytes(piece, dtype) * times for piece, times in Counter(pieces).items())
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
    lengths = np.stack(tile_sizes(pipeline, np.arange(pipeline.kind.size)), axis=1)
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
    end = by_cycle.systolic(trace).at(-1)
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
    flow, sizes = cost.flow, cost.sizes
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
