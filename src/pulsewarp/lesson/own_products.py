"""The reader's own products on a systolic array: matrices in a scene's fields, and true sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp import _checks, chips, systolic
from pulsewarp._checks import names_keywords
from pulsewarp._paste import read_matrix
from pulsewarp._text import counted
from pulsewarp.lesson._fields import typed_whole
from pulsewarp.matmul import accumulator_type
from pulsewarp.widgets.systolic import VALUES_UP_TO, SystolicPlayer
from pulsewarp.widgets.tiling import TilingPlayer

#: What own matrices may be held in. "as typed": int64 where all numbers are whole, else float64.
OWN_DTYPES = ("as typed", "int8", "int32", "bfloat16", "float16", "float32")


@names_keywords
def own_product(
    a: Any = ((1, 2, 3), (4, 5, 6)),
    b: Any = ((1, 0, 2), (0, 1, 2), (3, 1, 0)),
    *,
    rows: int = 3,
    cols: int = 3,
    dataflow: str = "ws",
    overlap: bool = False,
    dtype: str = "as typed",
    task: str | None = None,
) -> SystolicPlayer:
    """Let the reader run a product of their own: fields for two matrices, the dataflow and the array.

    The scene opens with the operands given here. When the reader presses Run, the kernel reads what was
    typed or pasted, simulates every register and replaces the run shown; what cannot be read is said in one
    sentence at its field, and nothing typed is lost. On a page without a kernel the fields are switched off
    and say so.

    Parameters
    ----------
    a, b : array-like of numbers, shape (m, k) and (k, n)
        The operands at first, at most 8 x 8 each.
    rows, cols : int
        Rows and columns of cells at first, each from 1 to 8.
    dataflow : str
        ``"ws"``, ``"os"`` or ``"is"`` at first.
    overlap : bool
        Whether folds overlap at first: the next stationary tile is loaded while the present one works.
    dtype : str
        What operands are held in: ``"as typed"`` (int64 where all are whole, else float64), ``"int8"``,
        ``"int32"``, ``"bfloat16"``, ``"float16"`` or ``"float32"``. Floats are rounded to it, whole numbers
        must fit.
    task : str, optional
        What the reader is asked to do, one sentence.

    Returns
    -------
    SystolicPlayer
        Shows itself as the last line of a cell.

    Raises
    ------
    ValueError
        When an operand is larger than 8 x 8, does not fit the other or the dtype, when a sum may leave the
        accumulator's range, or a setting is unknown.

    Examples
    --------
    >>> from pulsewarp import lesson
    >>> lesson.own_product([[1, 2], [3, 4]], [[5, 6], [7, 8]], rows=2, cols=2)
    SystolicPlayer(ws, 2x2 cells, 6 cycles)
    """
    a, b = _checks.factors(a, b)
    dtype = _checks.choice("dtype", dtype, OWN_DTYPES)
    for name, operand in (("a", a), ("b", b)):
        if max(operand.shape) > VALUES_UP_TO:
            raise ValueError(
                f"{name} is {operand.shape[0]} x {operand.shape[1]}, but at most {VALUES_UP_TO} x "
                f"{VALUES_UP_TO} fit the fields; show larger ones with widgets.SystolicPlayer."
            )

    def simulate(
        a: NDArray[Any], b: NDArray[Any], rows: int, cols: int, dataflow: str, overlap: bool
    ) -> systolic.SystolicTrace:
        a, b = _held_in(dtype, "A", a), _held_in(dtype, "B", b)
        _refuse_overflow(a, b)
        return systolic.simulate(a, b, rows=rows, cols=cols, dataflow=dataflow, overlap=overlap)

    def run(values: Mapping[str, Any]) -> Mapping[str, Any]:
        given: dict[str, Any] = {}
        for name in ("a", "b", "rows", "cols"):
            try:
                given[name] = (
                    read_matrix(name.upper(), str(values.get(name)), most=VALUES_UP_TO)
                    if name in ("a", "b")
                    else typed_whole(name, values.get(name), VALUES_UP_TO)
                )
                if name in ("a", "b"):
                    _held_in(dtype, name.upper(), given[name])
            except ValueError as error:
                return {"error": str(error), "field": name}
        (_, k), (inner, _) = given["a"].shape, given["b"].shape
        if k != inner:
            return {
                "error": f"B has {counted(inner, 'row')}, but A has {counted(k, 'column')}; give B as many "
                f"rows as A has columns.",
                "field": "b",
            }
        trace = simulate(**given, dataflow=str(values.get("dataflow")), overlap=bool(values.get("overlap")))
        player.show(trace)
        shape = f"{trace.m} x {trace.k} by {trace.k} x {trace.n}"
        return {"done": f"Now shown: {shape}, {trace.cycles} cycles in {counted(len(trace.folds), 'fold')}."}

    rows = _checks.whole_number("rows", rows, most=VALUES_UP_TO)
    cols = _checks.whole_number("cols", cols, most=VALUES_UP_TO)
    player = SystolicPlayer(simulate(a, b, rows, cols, dataflow, overlap), task=task)
    player.offer(
        "Your own numbers",
        f"Type or paste matrices up to {VALUES_UP_TO} x {VALUES_UP_TO}: a row on each line, numbers apart by "
        "spaces, commas or tabs, or as Python writes them."
        + ("" if dtype == "as typed" else f" They are held in {dtype}."),
        [
            {"name": "a", "label": "A", "kind": "matrix", "value": _typed(a)},
            {"name": "b", "label": "B", "kind": "matrix", "value": _typed(b)},
            _dataflow_field(dataflow),
            {
                "name": "rows",
                "label": "Array rows",
                "kind": "whole",
                "value": rows,
                "least": 1,
                "most": VALUES_UP_TO,
            },
            {
                "name": "cols",
                "label": "Array columns",
                "kind": "whole",
                "value": cols,
                "least": 1,
                "most": VALUES_UP_TO,
            },
            {"name": "overlap", "label": "folds overlap", "kind": "switch", "value": bool(overlap)},
        ],
        run,
    )
    return player


#: Sizes that the fields take; what the scene itself cannot show it refuses with its own limits.
MOST_OWN_SIZE = 10**6


@names_keywords
def own_sizes(
    m: int = 512,
    k: int = 129,
    n: int = 129,
    *,
    array: str = "tpu_v4",
    dataflow: str = "ws",
    overlap: bool = True,
    task: str | None = None,
) -> TilingPlayer:
    """Let the reader run a product of their own sizes on one matrix unit of a real TPU.

    The scene opens with the sizes given here. When the reader presses Run, the kernel counts the product in
    closed form (`systolic.gemm`, convention "register") and replaces the run shown; a size that cannot be
    counted is said at its field. On a page without a kernel the fields are switched off and say so. Not
    modelled: memory, and how a chip with several matrix units shares a product.

    Parameters
    ----------
    m, k, n : int
        Sizes of the product at first, each from 1 to 1,000,000.
    array : str
        The array at first: that of a TPU by its id in the catalogue, such as ``"tpu_v6e"``.
    dataflow : str
        ``"ws"``, ``"os"`` or ``"is"`` at first.
    overlap : bool
        Whether folds overlap at first: the next stationary tile is loaded while the present one works.
    task : str, optional
        What the reader is asked to do; left out, the scene's own task.

    Returns
    -------
    TilingPlayer
        Shows itself as the last line of a cell.

    Raises
    ------
    ValueError
        For a size, an array or a dataflow that is none, or a run too long to be shown.

    Examples
    --------
    One row and one column more than the array has, and four folds are needed instead of one:

    >>> from pulsewarp import lesson
    >>> lesson.own_sizes(512, 129, 129)
    TilingPlayer(ws, 128x128 cells, 512x129 by 129x129, 4 folds that overlap, 2430 cycles)
    """
    arrays = {chip.id: chip for chip in chips.catalogue() if chip.family == "tpu" and chip.matrix_unit_shape}
    array = _checks.choice("array", array, arrays)

    def count(m: int, k: int, n: int, array: str, dataflow: str, overlap: bool) -> systolic.GemmCost:
        unit = systolic.matrix_units(array)
        return systolic.gemm(
            m=m, k=k, n=n, rows=unit.rows, cols=unit.cols, dataflow=dataflow, overlap=overlap
        )

    def run(values: Mapping[str, Any]) -> Mapping[str, Any]:
        sizes: dict[str, int] = {}
        for name in ("m", "k", "n"):
            try:
                sizes[name] = typed_whole(name, values.get(name), MOST_OWN_SIZE)
            except ValueError as error:
                return {"error": str(error), "field": name}
        chip = _checks.choice("array", str(values.get("array")), arrays)
        cost = count(
            **sizes, array=chip, dataflow=str(values.get("dataflow")), overlap=bool(values.get("overlap"))
        )
        player.show(cost)
        used = f"{100 * cost.utilization:.1f} % of cell-cycles form a product"
        return {"done": f"Now shown: {counted(cost.folds, 'fold')}, {cost.cycles:,} cycles, {used}."}

    for name, size in (("m", m), ("k", k), ("n", n)):
        _checks.whole_number(name, size, most=MOST_OWN_SIZE)
    player = TilingPlayer(count(m, k, n, array, dataflow, overlap), task=task)
    choices = [
        [chip.id, f"{chip.name}: {' x '.join(map(str, chip.matrix_unit_shape or ()))}"]
        for chip in arrays.values()
    ]
    player.offer(
        "Your own sizes",
        "An M x K by K x N product on one matrix unit; chips that have several share larger products.",
        [
            *(
                {"name": name, "label": name.upper(), "kind": "whole", "value": size, "least": 1}
                for name, size in (("m", m), ("k", k), ("n", n))
            ),
            {"name": "array", "label": "Array of", "kind": "choice", "value": array, "choices": choices},
            _dataflow_field(dataflow),
            {"name": "overlap", "label": "folds overlap", "kind": "switch", "value": overlap},
        ],
        run,
    )
    return player


def _dataflow_field(dataflow: str) -> dict[str, Any]:
    choices = [[key, flow.title] for key, flow in systolic.DATAFLOWS.items()]
    return {"name": "dataflow", "label": "Dataflow", "kind": "choice", "value": dataflow, "choices": choices}


def _typed(matrix: NDArray[Any]) -> str:
    """Return a matrix as a reader would type it."""
    return "\n".join(" ".join(map(str, row)) for row in matrix.tolist())


def _held_in(dtype: str, name: str, matrix: NDArray[Any]) -> NDArray[Any]:
    """Return the matrix in a dtype: floats rounded to it, whole numbers only where they fit."""
    if dtype == "as typed":
        return matrix
    if dtype == "bfloat16":
        from ml_dtypes import bfloat16  # imported here: a notebook without own numbers does without it

        held: NDArray[Any] = matrix.astype(bfloat16)
    elif not dtype.startswith("int"):
        with np.errstate(over="ignore"):
            held = matrix.astype(dtype)
    else:
        limits = np.iinfo(dtype)
        off = np.argwhere((matrix != np.trunc(matrix)) | (matrix < limits.min) | (matrix > limits.max))
        if off.size:
            row, col = (int(i) for i in off[0])
            raise ValueError(
                f"{name}[{row},{col}] is {matrix[row, col]}, but {dtype} holds whole numbers from "
                f"{limits.min} to {limits.max}; change it."
            )
        return matrix.astype(dtype)
    far = np.argwhere(~np.isfinite(held.astype(np.float64)))
    if far.size:
        row, col = (int(i) for i in far[0])
        raise ValueError(
            f"{name}[{row},{col}] is {matrix[row, col]}, beyond what {dtype} holds; write a smaller one."
        )
    return held


def _refuse_overflow(a: NDArray[Any], b: NDArray[Any]) -> None:
    """Raise where a sum of products may leave the range of its accumulator, and so become infinite or NaN.

    Sums of whole numbers are the simulator's to refuse: it knows up to where a browser is exact.
    """
    kind = accumulator_type(a.dtype, b.dtype)
    if kind.kind != "f":
        return
    with np.errstate(over="ignore"):
        reach = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
    far = np.argwhere(~(reach <= float(np.finfo(kind).max)))
    if far.size:
        row, col = (int(i) for i in far[0])
        raise ValueError(
            f"C[{row},{col}] adds up products that can leave the range of {kind}, which ends at "
            f"{float(np.finfo(kind).max):.3g}; write smaller numbers."
        )
