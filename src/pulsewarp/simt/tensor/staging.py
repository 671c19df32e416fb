"""A tile in shared memory: where each element lies, and the wavefronts in which fragments are loaded from it.

A tile of A lies row by row, one of B column by column, so that 16 neighbouring bytes belong to one row of A
or column of B: what a copy brings at once and what one row of an 8 x 8 matrix is to ``ldmatrix``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pulsewarp import _checks
from pulsewarp.simt._instruction import LANES
from pulsewarp.simt.access import WAVEFRONT_BYTES, BankAccess, wavefronts
from pulsewarp.simt.tensor.shapes import MmaShape, find_shape, fragment

LAYOUTS = ("swizzled", "padded", "plain")
CHUNK_BYTES = 16  # what a lane copies at once, and one row of a matrix that ldmatrix loads
MOST_ROW_BYTES = 1024


def pitch(row_bytes: int, layout: str) -> int:
    """Return the bytes from one row of a tile to the next."""
    even = row_bytes // CHUNK_BYTES % 2 == 0
    return row_bytes + CHUNK_BYTES if layout == "padded" and even else row_bytes


def offsets(
    rows: NDArray[np.int64], first_byte: NDArray[np.int64] | int, row_bytes: int, layout: str
) -> NDArray[np.int64]:
    """Return where bytes lie, from the start of the tile: row, and byte within the row."""
    chunk, byte = np.divmod(first_byte, CHUNK_BYTES)
    if layout == "swizzled":
        rows_of_a_line = max(1, WAVEFRONT_BYTES // row_bytes)
        chunk = chunk ^ (rows // rows_of_a_line % min(8, row_bytes // CHUNK_BYTES))
    return np.asarray(rows * pitch(row_bytes, layout) + chunk * CHUNK_BYTES + byte)


def check_layout(row_bytes: int, layout: str) -> None:
    """Raise when rows of so many bytes cannot lie in shared memory that way."""
    _checks.choice("layout", layout, LAYOUTS)
    if row_bytes % CHUNK_BYTES:
        raise ValueError(
            f"A row of a tile has {row_bytes} bytes, but must be a multiple of {CHUNK_BYTES}, which is what "
            "a lane copies at once; take a deeper tile."
        )
    if layout == "swizzled" and row_bytes & (row_bytes - 1):
        raise ValueError(
            f"A row of a tile has {row_bytes} bytes, but 'swizzled' needs a power of two; "
            "take layout='padded' or another depth."
        )


def has_ldmatrix(shape: MmaShape) -> bool:
    """Tell whether ``ldmatrix`` loads such fragments: not on Volta, and not elements of 64 bits."""
    return shape.computations == 1 and shape.bits <= 32


def fragment_lanes(
    shape: MmaShape, operand: str, row: int, first_byte: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], int, int]:
    """Return row and first byte by lane, the bytes a lane asks for, and the mask, of one fragment's load.

    Of A rows are rows, of B they are columns; `row` and `first_byte` are where the fragment begins.
    """
    lanes = np.arange(LANES)
    if not has_ldmatrix(shape):
        held = fragment(shape, operand)
        outer, along = (held.rows, held.columns) if operand == "a" else (held.columns, held.rows)
        # Volta's four products share: those of one half of the rows have the same A, and so on.
        half = held.computation % 2 if operand == "a" else held.computation // 2
        size = held.elements * shape.bits // 8
        return row + outer[:, 0] + 8 * half, first_byte + along[:, 0] * shape.bits // 8, size, 0xFFFFFFFF
    # Lanes 0 to 7 give the addresses of the rows of the first 8 x 8 matrix, the next eight of the second.
    matrix, own = lanes // 8, lanes % 8
    blocks = shape.m // 8 if operand == "a" else 1
    matrices = blocks * shape.k * shape.bits // (8 * CHUNK_BYTES)
    rows = row + own + 8 * (matrix % blocks)
    return rows, first_byte + CHUNK_BYTES * (matrix // blocks), CHUNK_BYTES, (1 << 8 * matrices) - 1


@_checks.names_keywords
def matrix_load(
    shape: str | MmaShape,
    operand: str,
    *,
    row_bytes: int,
    layout: str = "swizzled",
    dtype: str = "fp16",
) -> BankAccess:
    """Return the wavefronts in which a warp loads one fragment from a tile in shared memory.

    ``ldmatrix`` (from Turing on) loads one, two or four matrices of 8 rows of 16 bytes; the eight lanes that
    give a matrix's addresses are served together, like a phase of a 16-byte load. That it takes one wavefront
    a matrix without conflicts follows from 8 x 16 bytes filling all banks once; NVIDIA documents no more. On
    Volta, which has no ``ldmatrix``, and for fp64 the fragment is loaded with a plain load.

    Parameters
    ----------
    shape : str or MmaShape
    operand : str
        ``"a"`` or ``"b"``.
    row_bytes : int
        Bytes of one row of the tile of A, or of one column of the tile of B: its depth k times the bytes of
        an element. A multiple of 16.
    layout : str
        ``"plain"``: row after row. ``"padded"``: 16 bytes left free after each row. ``"swizzled"``: the
        16-byte chunks of a row change places by an exclusive or with the row's number, which costs no bytes.
    dtype : str
        Of the operand, unless `shape` is a MmaShape.

    Returns
    -------
    BankAccess
        Its `ways` is the degree of the conflict.

    Raises
    ------
    ValueError
        For a shape, operand, layout or row that there is none of.

    Examples
    --------
    >>> from pulsewarp import simt
    >>> [simt.matrix_load("m16n8k16", "a", row_bytes=128, layout=layout).wavefronts
    ...  for layout in ("plain", "padded", "swizzled")]
    [32, 4, 4]
    """
    kind = find_shape(shape, dtype)
    _checks.choice("operand", operand, ("a", "b"))
    row_bytes = _checks.whole_number("row_bytes", row_bytes, most=MOST_ROW_BYTES)
    if row_bytes * 8 < kind.k * kind.bits:
        raise ValueError(
            f"row_bytes is {row_bytes}, but one {kind.name} of {kind.dtype} takes {kind.k * kind.bits // 8} "
            "bytes of a row; take a deeper tile."
        )
    check_layout(row_bytes, layout)
    return load_access(kind, operand, row_bytes, layout)


def load_access(
    shape: MmaShape, operand: str, row_bytes: int, layout: str, row: int = 0, first_byte: int = 0
) -> BankAccess:
    """Return the wavefronts of one fragment's load; row and byte are where it begins in its tile."""
    rows, byte, size, mask = fragment_lanes(shape, operand, row, first_byte)
    return bank_access(offsets(rows, byte, row_bytes, layout), size, mask)


def bank_access(byte_offsets: Sequence[int] | NDArray[np.int64], size: int, mask: int) -> BankAccess:
    """Return the wavefronts of a request given by offsets, bytes a lane and mask."""
    return wavefronts(np.asarray(byte_offsets), size, mask)
