"""One product as a tiled kernel: tiles staged through shared memory, multiplied by mma or by FFMA."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pulsewarp import _checks
from pulsewarp._arrays import freeze
from pulsewarp._text import counted
from pulsewarp.simt.presets import Architecture
from pulsewarp.simt.presets import architecture as find_architecture
from pulsewarp.simt.tensor import _values
from pulsewarp.simt.tensor._programs import COPIES, Plan, write_programs
from pulsewarp.simt.tensor.shapes import MmaShape, mma_shapes
from pulsewarp.simt.tensor.staging import LAYOUTS
from pulsewarp.simt.tensor.trace import TiledKernel

LOADS = ("LDG", "LDG.L2", "LDG.L1")
MOST_SUMS = 2**24  # accumulators kept, those after every step
FFMA_SHAPE = (4, 8, 1)
FFMA_OPERATIONS: Mapping[str, str] = {"int8": "IMAD", "fp64": "DFMA"}
# Without tensor cores a narrow operand is widened when it is staged; 4 bytes, but 8 for fp64.
_FFMA_BYTES: Mapping[str, int] = {"fp64": 8}


@_checks.names_keywords
def tensor_kernel(
    a: ArrayLike,
    b: ArrayLike,
    *,
    architecture: str | Architecture = "ampere",
    dtype: str | None = None,
    shape: str | MmaShape | None = None,
    tile: Sequence[int] = (32, 32, 32),
    warps: Sequence[int] = (2, 2),
    stages: int = 2,
    copies: str | None = None,
    layout: str = "swizzled",
    load: str = "LDG",
) -> TiledKernel:
    """Return ``a @ b`` as warps of mma on tensor cores, tiles of A and B staged through shared memory.

    Every block computes one tile of C. For each tile along k its warps copy A and B into a stage; behind a
    barrier they load fragments (``ldmatrix``) and issue one mma for each unit of their part of C. With
    several stages the next tiles are on their way meanwhile. Asynchronous copies (``cp.async``) go past the
    registers, and a warp waits for the oldest group of them; through registers a warp loads the next tile
    before it multiplies and stores it after.

    Modelled: every warp instruction of that, each with its values; wavefronts of shared memory and sectors of
    global memory by their rules; fragments of the next step loaded before the present ones are multiplied.
    Not modelled: address arithmetic and loop control, L2 and DRAM bandwidth shared with other SMs, the TMA
    and ``wgmma`` of Hopper (``mma.sync``, which this is, is reported to reach about 62 % of what ``wgmma``
    does on an H800: Luo et al., arXiv:2402.13499), register banks, more blocks than fit on one SM. Not
    documented by NVIDIA, so not claimed: how a tensor core is built inside, and in which order one mma adds
    its products: here all of one mma and its accumulator are added exactly and rounded once.

    Parameters
    ----------
    a, b : array_like, shapes (m, k) and (k, n)
        Operands. They lie in memory by rows (A) and by columns (B), each row or column starting at a multiple
        of 16 bytes, as ``mma.sync`` wants them; sizes that are no multiples of the tile are padded with
        zeros.
    architecture : str or Architecture
        ``"volta"``, ``"turing"``, ``"ampere"`` or ``"hopper"``.
    dtype : str, optional
        ``"fp16"``, ``"bf16"``, ``"tf32"``, ``"int8"`` or ``"fp64"``, as the architecture has them; None takes
        int8 for int8 arrays, bf16 where one holds bfloat16, else fp16. Values are rounded to it first.
    shape : str or MmaShape, optional
        Of the mma, such as ``"m16n8k16"``; None takes the largest of the type.
    tile : sequence of 3 int
        Rows and columns of C that a block computes, and the depth k of a stage.
    warps : sequence of 2 int
        Warps along rows and columns of the tile.
    stages : int
        Buffers in shared memory; through registers at most 2. More of them mostly save cycles, not always:
        a copy issued earlier can take the memory unit from a load that is waited for.
    copies : str, optional
        ``"async"`` (from 8.0 on) or ``"through registers"``; None takes async where there is such a copy.
    layout : str
        How a tile lies in shared memory: ``"swizzled"``, ``"padded"`` or ``"plain"``; see `matrix_load`.
    load : str
        Where global memory answers from: ``"LDG"`` (DRAM), ``"LDG.L2"`` or ``"LDG.L1"``.

    Returns
    -------
    TiledKernel

    Raises
    ------
    ValueError
        For operands that do not fit each other or the type, a tile that does not divide into warps and mma's,
        and what does not fit on one SM.

    Examples
    --------
    >>> import numpy as np
    >>> from pulsewarp import simt
    >>> a, b = np.ones((32, 64)), np.ones((64, 32))
    >>> for kernel in (simt.tensor_kernel(a, b), simt.ffma_kernel(a, b)):
    ...     counts = kernel.simulate().counts
    ...     print(kernel.operation, counts.multiplies, counts.multiply_adds_per_multiply)
    HMMA.16816 32 2048.0
    FFMA 2048 32.0
    """
    machine = find_architecture(architecture)
    shapes = mma_shapes(machine)
    if not shapes:
        raise ValueError(
            f"{machine.title} has no sourced times for an mma; take 'volta', 'turing', 'ampere' or 'hopper'."
        )
    valid = list(dict.fromkeys(one.dtype for one in shapes if one.dtype in _values.TYPES))
    if isinstance(shape, MmaShape):
        dtype, shape = dtype or shape.dtype, shape.name
    left, right, kind = _values.operands(a, b, dtype, valid)
    of_type = {one.name: one for one in shapes if one.dtype == kind}
    name = next(iter(of_type)) if shape is None else shape
    mma = of_type[_checks.choice(f"shape of {kind} on {machine.title}", name, of_type)]
    unit = (mma.warp_m, mma.warp_n, mma.k)
    plan = _plan(machine, mma, unit, mma.operation, mma.bits // 8, tile, warps, stages, copies, layout, load)
    return _build(plan, left, right, kind)


@_checks.names_keywords
def ffma_kernel(
    a: ArrayLike,
    b: ArrayLike,
    *,
    architecture: str | Architecture = "ampere",
    dtype: str | None = None,
    tile: Sequence[int] = (32, 32, 32),
    warps: Sequence[int] = (2, 2),
    stages: int = 2,
    copies: str | None = None,
    layout: str = "swizzled",
    load: str = "LDG",
) -> TiledKernel:
    """Return the same product as `tensor_kernel`, tiled the same way, multiplied by FFMA: one a lane.

    A warp computes its part of C in blocks of 4 x 8 elements, one for each lane. A lane loads 16 bytes of a
    row of A or a column of B at once and adds one product to each of its elements for every k. Modelled and
    not modelled as there; an FFMA rounds once.

    Parameters
    ----------
    a, b, architecture, tile, warps, stages, copies, layout, load
        As for `tensor_kernel`.
    dtype : str, optional
        To which values are rounded first, so that both multiply the same numbers; also ``"fp32"``. They are
        staged as float32 (4 bytes), as 32-bit integers for int8 (IMAD) and as float64 for fp64 (DFMA).

    Returns
    -------
    TiledKernel

    Raises
    ------
    ValueError
        As `tensor_kernel`.

    Examples
    --------
    >>> import numpy as np
    >>> from pulsewarp import simt
    >>> kernel = simt.ffma_kernel(np.ones((32, 64)), np.ones((64, 32)), architecture="volta")
    >>> kernel.unit_shape, kernel.copies
    ((4, 8, 1), 'through registers')
    """
    machine = find_architecture(architecture)
    left, right, kind = _values.operands(a, b, dtype, list(_values.TYPES))
    operation = FFMA_OPERATIONS.get(kind, "FFMA")
    if operation not in machine.operations:
        raise ValueError(
            f"{machine.title} has no sourced times for {operation}, which {kind} takes; give another dtype."
        )
    element = _FFMA_BYTES.get(kind, 4)
    plan = _plan(machine, None, FFMA_SHAPE, operation, element, tile, warps, stages, copies, layout, load)
    return _build(plan, left, right, kind)


def _plan(
    machine: Architecture,
    shape: MmaShape | None,
    unit: tuple[int, int, int],
    operation: str,
    element_bytes: int,
    tile: Sequence[int],
    warps: Sequence[int],
    stages: int,
    copies: str | None,
    layout: str,
    load: str,
) -> Plan:
    """Return the checked geometry of a kernel."""
    has_async = float(machine.compute_capability) >= 8.0
    how = ("async" if has_async else COPIES[1]) if copies is None else copies
    _checks.choice("copies", how, COPIES)
    if how == "async" and not has_async:
        raise ValueError(
            f"{machine.title} has no asynchronous copies, which came with compute capability 8.0; "
            "take copies='through registers'."
        )
    stages = _checks.whole_number("stages", stages, most=16)
    if how != "async" and stages > 2:
        raise ValueError(
            f"stages is {stages}, but copies through registers have one tile on its way and use at most 2; "
            "take copies='async' for more."
        )
    sides = _checks.several("tile", tile, "give rows, columns and depth, such as (64, 64, 32)")
    counts = _checks.several("warps", warps, "give warps along rows and columns, such as (2, 2)")
    if len(sides) != 3 or len(counts) != 2:
        raise ValueError(
            f"tile is {tile!r} and warps is {warps!r}, but a tile has rows, columns and depth, and warps lie "
            "along rows and columns; give three numbers and two."
        )
    rows, columns, depth = (
        _checks.whole_number(f"tile[{i}]", side, most=512) for i, side in enumerate(sides)
    )
    down, across = (_checks.whole_number(f"warps[{i}]", count, most=32) for i, count in enumerate(counts))
    step = unit[2] if shape else max(1, 16 // element_bytes)
    for name, side, least in (("tile[0]", rows, down * unit[0]), ("tile[1]", columns, across * unit[1])):
        if side % least:
            raise ValueError(
                f"{name} is {side}, but {counted(down if name == 'tile[0]' else across, 'warp')} of units of "
                f"{unit[0]}x{unit[1]} need a multiple of {least}."
            )
    if depth % step:
        raise ValueError(f"tile[2] is {depth}, but {operation} needs a multiple of {step}.")
    return Plan(
        machine=machine,
        shape=shape,
        unit=unit,
        operation=operation,
        element_bytes=element_bytes,
        tile=(rows, columns, depth),
        warps=(down, across),
        stages=stages,
        copies=how,
        layout=_checks.choice("layout", layout, LAYOUTS),
        load=_checks.choice("load", load, LOADS),
    )


def _build(plan: Plan, a: NDArray[Any], b: NDArray[Any], dtype: str) -> TiledKernel:
    """Return the kernel: its values, and the programs of its warps."""
    (m, k), n = a.shape, b.shape[1]
    rows, columns, depth = plan.tile
    grid = -(-m // rows), -(-n // columns)
    padded = grid[0] * rows, -(-k // depth) * depth, grid[1] * columns
    plan.refuse_too_large((m, k, n), padded, _values.SUMS[dtype].itemsize)
    steps = padded[1] // plan.unit[2]
    if padded[0] * padded[2] * steps > MOST_SUMS:
        raise ValueError(
            f"The product keeps {padded[0]}x{padded[2]} sums after each of {steps} steps, "
            f"above the limit of {MOST_SUMS}; take a smaller product."
        )
    bound = _values.error_bound(a, b, dtype, steps)
    wide_a = np.zeros((padded[0], padded[1]), a.dtype)
    wide_b = np.zeros((padded[1], padded[2]), b.dtype)
    wide_a[:m, :k], wide_b[:k, :n] = a, b
    sums = _values.sums_of(wide_a, wide_b, dtype, plan.unit[2])
    written = write_programs(plan, (m, k, n), grid, padded, _values.SUMS[dtype].itemsize)
    return TiledKernel(
        a=freeze(a.copy()),
        b=freeze(b.copy()),
        dtype=dtype,
        architecture=plan.machine,
        kind="mma" if plan.shape else "ffma",
        operation=plan.operation,
        shape=plan.shape,
        unit_shape=plan.unit,
        tile=plan.tile,
        warps=plan.warps,
        stages=plan.stages,
        copies=plan.copies,
        layout=plan.layout,
        load=plan.load,
        grid=grid,
        padded=padded,
        programs=written.programs,
        blocks=written.blocks,
        origins=freeze(written.origins),
        roles=tuple(freeze(role) for role in written.roles),
        sums=freeze(sums),
        result=freeze(sums[-1, :m, :n].copy()),
        exact=freeze(_values.exact_product(a, b)),
        bound=freeze(bound),
        access=written.access,
        element_bytes=plan.element_bytes,
        stage_bytes=plan.stage_bytes,
        registers=plan.registers(_values.SUMS[dtype].itemsize),
    )
