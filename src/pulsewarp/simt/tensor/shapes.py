"""The shapes of mma that there are, and which of the 32 lanes holds which element of its operands.

Documented: NVIDIA, PTX ISA, "Matrix fragments for mma" of each shape (version 9.2 as kept by ptx.poole.ai,
read on 2026-11-30). Not documented: what a tensor core does with the fragments inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from pulsewarp import _checks
from pulsewarp._arrays import freeze
from pulsewarp._text import counted
from pulsewarp.matmul import DTYPES
from pulsewarp.simt._instruction import LANES
from pulsewarp.simt.presets import Architecture
from pulsewarp.simt.presets import architecture as find_architecture

OPERANDS = ("a", "b", "c")
REGISTER_BITS = 32
ACCUMULATORS: Mapping[str, int] = MappingProxyType({"fp16": 16, "fp32": 32, "int32": 32, "fp64": 64})
_LANES = np.arange(LANES)
_GROUP, _THREAD = _LANES // 4, _LANES % 4  # PTX: groupID and threadID_in_group


@dataclass(frozen=True, repr=False)
class MmaShape:
    """One shape and operand type of the warp instruction ``mma.sync``: C (m x n) += A (m x k) @ B (k x n).

    Attributes
    ----------
    name : str
        As PTX writes it, such as ``"m16n8k16"``.
    m, n, k : int
    dtype : str
        Of A and B, a key of `pulsewarp.matmul.DTYPES`.
    operation : str
        The machine instruction, a key of `Architecture.operations` where its times are sourced.
    since : str
        The first compute capability that has it.
    computations : int
        Products a warp makes at once: 1, but 4 for Volta's m8n8k4 of fp16, one in each group of 8 lanes.

    Examples
    --------
    >>> from pulsewarp import simt
    >>> shape = simt.mma_shapes("ampere")[0]
    >>> shape, shape.multiply_adds
    (MmaShape(m16n8k16 fp16 into fp32, HMMA.16816, since 8.0), 2048)
    """

    name: str
    m: int
    n: int
    k: int
    dtype: str
    operation: str
    since: str
    computations: int = 1

    @property
    def accumulator(self) -> str:
        """Type of C: fp32 for the narrow floats (fp16 is possible too), int32, or fp64."""
        return DTYPES[self.dtype].accumulator

    @property
    def bits(self) -> int:
        """Bits of an element of A or B."""
        return DTYPES[self.dtype].bits

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of one instruction of a warp."""
        return self.computations * self.m * self.n * self.k

    @property
    def warp_m(self) -> int:
        """Rows of C that one instruction of a warp adds to: m, but 16 where it makes four products."""
        return self.m * (2 if self.computations == 4 else 1)

    @property
    def warp_n(self) -> int:
        """Columns of C that one instruction of a warp adds to."""
        return self.n * (2 if self.computations == 4 else 1)

    def __repr__(self) -> str:
        return (
            f"MmaShape({self.name} {self.dtype} into {self.accumulator}, {self.operation}, "
            f"since {self.since})"
        )


def _shape(name: str, dtype: str, operation: str, since: str, computations: int = 1) -> MmaShape:
    m, rest = name[1:].split("n")
    n, k = rest.split("k")
    return MmaShape(name, int(m), int(n), int(k), dtype, operation, since, computations)


# The largest of a type first: the one that a kernel takes unless asked for another.
_SHAPES = (
    _shape("m16n8k16", "fp16", "HMMA.16816", "8.0"),
    _shape("m16n8k8", "fp16", "HMMA.1688", "7.5"),
    _shape("m8n8k4", "fp16", "HMMA.884", "7.0", computations=4),
    _shape("m16n8k16", "bf16", "HMMA.16816", "8.0"),
    _shape("m16n8k8", "bf16", "HMMA.1688", "8.0"),
    _shape("m16n8k8", "tf32", "HMMA.1688.TF32", "8.0"),
    _shape("m16n8k4", "tf32", "HMMA.1684.TF32", "8.0"),
    _shape("m16n8k32", "fp8", "QMMA.16832", "8.9"),
    _shape("m16n8k32", "int8", "IMMA.16832", "8.0"),
    _shape("m16n8k16", "int8", "IMMA.16816", "8.0"),
    _shape("m8n8k16", "int8", "IMMA.8816", "7.5"),
    _shape("m16n8k64", "int4", "IMMA.16864", "8.0"),
    _shape("m16n8k32", "int4", "IMMA.16832.S4", "8.0"),
    _shape("m8n8k32", "int4", "IMMA.8832", "7.5"),
    _shape("m8n8k4", "fp64", "DMMA.884", "8.0"),
)


@_checks.names_keywords
def mma_shapes(architecture: str | Architecture | None = None) -> tuple[MmaShape, ...]:
    """Return the shapes of mma known here, of one type the largest first.

    Left out: sparse operands, single bits, the fp64 shapes that Hopper adds, and ``wgmma``, by which four
    warps of Hopper multiply together with B in shared memory.

    Parameters
    ----------
    architecture : str or Architecture, optional
        Only those that it has and for which it has sourced times; None returns all.

    Returns
    -------
    tuple of MmaShape

    Raises
    ------
    ValueError
        When there is no such architecture.

    Examples
    --------
    >>> from pulsewarp import simt
    >>> [(shape.name, shape.dtype) for shape in simt.mma_shapes("volta")]
    [('m8n8k4', 'fp16')]
    """
    if architecture is None:
        return _SHAPES
    machine = find_architecture(architecture)
    return tuple(
        shape
        for shape in _SHAPES
        if shape.operation in machine.operations and float(shape.since) <= float(machine.compute_capability)
    )


@dataclass(frozen=True, eq=False, repr=False)
class Fragment:
    """How one operand of an mma is spread over the lanes of a warp: lane ``l`` holds a few elements of it.

    Made by `fragment`. "a" is m x k, "b" is k x n and "c" (and the result) m x n.

    Parameters
    ----------
    shape : MmaShape
    operand : str
        ``"a"``, ``"b"`` or ``"c"``.
    bits : int
        Bits of one element.
    rows, columns : ndarray of int64, (32, elements)
        Row and column, within the operand, of each element that a lane holds, in the order in which PTX
        counts them.
    register : ndarray of int64, (elements,)
        The lane's 32-bit register, counted within the fragment, in which the element begins: two fp16, four
        int8 or eight int4 share one, an fp64 takes two.
    computation : ndarray of int64, (32,)
        Which of the shape's `computations` the lane takes part in.

    Examples
    --------
    >>> from pulsewarp import simt
    >>> a = simt.fragment("m16n8k16", "a")
    >>> a
    Fragment(a of m16n8k16 fp16: 16x16, 8 elements in 4 registers a lane)
    >>> a.rows[5, :4].tolist(), a.columns[5, :4].tolist()  # lane 5: its first two registers
    ([1, 1, 9, 9], [2, 3, 2, 3])
    >>> a.lane_of(9, 3)
    (5, 3)
    """

    shape: MmaShape
    operand: str
    bits: int
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    register: NDArray[np.int64]
    computation: NDArray[np.int64]

    @property
    def height(self) -> int:
        """Rows of the operand."""
        return self.shape.k if self.operand == "b" else self.shape.m

    @property
    def width(self) -> int:
        """Columns of the operand."""
        return self.shape.k if self.operand == "a" else self.shape.n

    @property
    def elements(self) -> int:
        """Elements a lane holds."""
        return int(self.rows.shape[1])

    @property
    def registers(self) -> int:
        """32-bit registers a lane holds them in."""
        return self.elements * self.bits // REGISTER_BITS

    @_checks.names_keywords
    def lane_of(self, row: int, column: int, computation: int = 0) -> tuple[int, int]:
        """Return which lane holds an element, and as which of its elements.

        Parameters
        ----------
        row, column : int
            Within the operand.
        computation : int
            Which of the shape's products.

        Returns
        -------
        (int, int)

        Raises
        ------
        ValueError
            For an element that is not there.
        """
        row = _checks.whole_number("row", row, least=0, most=self.height - 1)
        column = _checks.whole_number("column", column, least=0, most=self.width - 1)
        wanted = _checks.whole_number("computation", computation, least=0, most=self.shape.computations - 1)
        holds = (self.rows == row) & (self.columns == column) & (self.computation[:, None] == wanted)
        lane, element = np.argwhere(holds)[0].tolist()
        return lane, element

    def __repr__(self) -> str:
        return (
            f"Fragment({self.operand} of {self.shape.name} {self.shape.dtype}: {self.height}x{self.width}, "
            f"{counted(self.elements, 'element')} in {counted(self.registers, 'register')} a lane)"
        )


@_checks.names_keywords
def fragment(
    shape: str | MmaShape, operand: str, *, dtype: str = "fp16", accumulator: str | None = None
) -> Fragment:
    """Return which elements of an operand each lane of a warp holds.

    Modelled: PTX's ``mma.sync`` with A by rows and B by columns. Not modelled: the older ``wmma``, whose
    fragments are documented to be unspecified, and A by columns or B by rows on Volta.

    Parameters
    ----------
    shape : str or MmaShape
        Such as ``"m16n8k16"``; see `mma_shapes`.
    operand : str
        ``"a"``, ``"b"``, or ``"c"`` for the accumulator, which the result shares.
    dtype : str
        Of A and B; ignored where `shape` is a MmaShape.
    accumulator : str, optional
        ``"fp16"`` for an accumulator of 16 bits, which fp16 operands may have; None takes the shape's own.

    Returns
    -------
    Fragment

    Raises
    ------
    ValueError
        For a shape, operand or accumulator that there is none of.

    Notes
    -----
    From Turing on all shapes follow one rule. Lane l is thread ``l % 4`` of group ``l // 4``. A 32-bit
    register holds e elements that follow each other along k. A: row = group, plus 8 in every second register
    where m is 16; column = e thread + its place in the register, plus 4 e in the second half of the
    registers. B: the same with the group as column. C: row = group, plus 8 from the third element on;
    column = 2 thread + 0 or 1.

    Examples
    --------
    >>> from pulsewarp import simt
    >>> c = simt.fragment("m16n8k16", "c")
    >>> c.rows[5].tolist(), c.columns[5].tolist()
    ([1, 1, 9, 9], [2, 3, 2, 3])
    >>> simt.fragment("m16n8k32", "b", dtype="int8").rows[1].tolist()
    [4, 5, 6, 7, 20, 21, 22, 23]
    """
    kind = find_shape(shape, dtype)
    _checks.choice("operand", operand, OPERANDS)
    bits = kind.bits
    if operand == "c":
        bits = ACCUMULATORS[_accumulator(kind, accumulator)]
    elif accumulator is not None:
        _accumulator(kind, accumulator)
    rule = _volta if kind.computations == 4 else _turing
    rows, columns, computation = rule(kind, operand, bits)
    starts = np.arange(rows.shape[1]) * bits // REGISTER_BITS
    return Fragment(kind, operand, bits, freeze(rows), freeze(columns), freeze(starts), freeze(computation))


def find_shape(name: str | MmaShape, dtype: str) -> MmaShape:
    """Return the shape of this name and type."""
    if isinstance(name, MmaShape):
        return name
    _checks.choice("dtype", dtype, dict.fromkeys(shape.dtype for shape in _SHAPES))
    of_type = {shape.name: shape for shape in _SHAPES if shape.dtype == dtype}
    return of_type[_checks.choice(f"shape of {dtype}", name, of_type)]


def _accumulator(shape: MmaShape, wanted: str | None) -> str:
    may_be = [shape.accumulator, *(["fp16"] if shape.dtype == "fp16" else [])]
    return shape.accumulator if wanted is None else _checks.choice("accumulator", wanted, may_be)


def _turing(
    shape: MmaShape, operand: str, bits: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return rows, columns and computations by the rule of every shape from Turing on."""
    group, thread = _GROUP[:, None], _THREAD[:, None]
    halves = shape.m // 8  # A and C hold 8 rows, or 8 and 8 more
    if operand == "c":
        element = np.arange(2 * halves)
        rows, columns = group + 8 * (element // 2), 2 * thread + element % 2
    else:
        together = max(1, REGISTER_BITS // bits)  # elements along k that a register holds
        element = np.arange(shape.k * (shape.m if operand == "a" else shape.n) // LANES)
        part = element // together  # the register, or the pair of them
        upper = part % halves if operand == "a" else 0
        along = part // halves if operand == "a" else part
        outer = group + 8 * upper + 0 * element
        k = together * thread + element % together + 4 * together * along
        rows, columns = (outer, k) if operand == "a" else (k, outer)
    return rows, columns, np.zeros(LANES, np.int64)


def _volta(
    shape: MmaShape, operand: str, bits: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return rows, columns and computations of m8n8k4 of fp16: four products, each in 8 lanes.

    A product has lanes 4 q to 4 q + 3 and the same plus 16; the latter hold the second four rows or columns.
    """
    computation = _GROUP % 4
    own = (_THREAD + 4 * (_LANES // 16))[:, None]
    if operand != "c":
        along = np.arange(shape.k)
        outer, k = own + 0 * along, along + 0 * own
        return (*((outer, k) if operand == "a" else (k, outer)), computation)
    element = np.arange(8)
    if bits == 16:
        return own + 0 * element, element + 0 * own, computation
    rows = (own & 1) + (element & 2) + (own & 4)
    columns = (element & 4) + (own & 2) + (element & 1)
    return rows, columns, computation
