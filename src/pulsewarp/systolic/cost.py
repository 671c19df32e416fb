"""What a whole product costs on an array, in closed form: folds, cycles, use of the cells, memory traffic."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pulsewarp import _checks
from pulsewarp._text import counted
from pulsewarp.systolic.dataflow import AXES, DATAFLOWS, Axis, Dataflow, Letter

CONVENTIONS = ("register", "scalesim", "stonne")
"""Who counts how. "register": what `simulate` counts. "scalesim": what SCALE-Sim 3.0.0 prints.
"stonne": what STONNE's output-stationary mesh takes."""


@dataclass(frozen=True, repr=False)
class GemmCost:
    """The cost of one product on one array.

    Parameters
    ----------
    m, k, n : int
        Sizes of the product.
    rows, cols : int
        Size of the array in cells.
    dataflow, convention : str
        How it runs and how it is counted.
    folds : int
        Fillings of the array.
    cycles_per_fold : int
        Cycles of one fold; under "stonne", where a smaller tile takes fewer, those of the largest.
    cycles : int
        Cycles in all.
    utilization : float
        m * n * k / (cycles * rows * cols), a fraction; nan for a case that SCALE-Sim counts as 0 cycles.
    mapping_efficiency : float
        Cells in use over cells, averaged over the folds, a fraction.
    sram_reads_a, sram_reads_b : int
        Elements of each operand that enter the array.
    sram_reads_partial : int
        Partial sums that enter again ("register" only: the other two never read one back).
    sram_writes_out : int
        Sums that leave the array, partial ones included.
    """

    m: int
    k: int
    n: int
    rows: int
    cols: int
    dataflow: str
    convention: str
    folds: int
    cycles_per_fold: int
    cycles: int
    utilization: float
    mapping_efficiency: float
    sram_reads_a: int
    sram_reads_b: int
    sram_reads_partial: int
    sram_writes_out: int

    def __repr__(self) -> str:
        return (
            f"GemmCost({self.dataflow}, {self.rows}x{self.cols} cells, {self.m}x{self.k} by "
            f"{self.k}x{self.n}: {counted(self.folds, 'fold')}, {self.cycles} cycles, "
            f"{100 * self.utilization:.1f} % used, convention {self.convention})"
        )


@_checks.names_keywords
def gemm(
    *, m: int, k: int, n: int, rows: int, cols: int, dataflow: str = "ws", convention: str = "register"
) -> GemmCost:
    """Count what an m x k by k x n product costs on rows x cols cells, without stepping.

    With Sr, Sc and T the sizes along array rows, array columns and time, there are
    ceil(Sr / rows) * ceil(Sc / cols) folds of 2 * rows + cols + T - 2 cycles under "register", which is what
    `simulate` counts. "scalesim" prints one cycle less in all, leaves the draining of "os" out and counts
    rows + cols more writes per "os" fold. "stonne" ("os" only) sizes a tile by the r rows and c columns in
    use: k + r + c + 3 cycles, one less where r or c is 1. Not modelled: memory, and loading a tile while
    another works.

    Parameters
    ----------
    m, k, n : int
        Sizes of the product.
    rows, cols : int
        Size of the array in cells.
    dataflow : {"ws", "os", "is"}
        Weight-, output- or input-stationary; b is the weight, a the input.
    convention : {"register", "scalesim", "stonne"}
        Who counts.

    Returns
    -------
    GemmCost

    Raises
    ------
    ValueError
        For a size below 1, an unknown dataflow or convention, "stonne" with a dataflow other than "os".

    Notes
    -----
    The dataflows and folds follow A. Samajdar et al., "SCALE-Sim: Systolic CNN Accelerator Simulator",
    arXiv:1811.02883. The conventions "scalesim" and "stonne" reproduce what SCALE-Sim 3.0.0 prints and the
    cycles of STONNE's output-stationary mesh; they were found from such numbers and are tested against them.

    Examples
    --------
    Four cycles to load, then ten rows through four rows and columns of cells:

    >>> cost = gemm(m=10, k=4, n=4, rows=4, cols=4)
    >>> cost.cycles, cost.utilization
    (20, 0.5)
    """
    flow = DATAFLOWS[_checks.choice("dataflow", dataflow, DATAFLOWS)]
    _checks.choice("convention", convention, CONVENTIONS)
    whole = _checks.whole_number
    sizes: dict[Axis, int] = {"m": whole("m", m), "k": whole("k", k), "n": whole("n", n)}
    return _count(flow, sizes, whole("rows", rows), whole("cols", cols), convention)


@_checks.names_keywords
def conv(
    *,
    in_h: int,
    in_w: int,
    filter_h: int,
    filter_w: int,
    channels: int,
    filters: int,
    rows: int,
    cols: int,
    stride: int = 1,
    dataflow: str = "ws",
    convention: str = "register",
) -> GemmCost:
    """Count what a convolution of one image costs, by the matrix product it becomes.

    Each output pixel is a row of the left operand (the patch under the filter, im2col), each filter a column
    of the right one: m = out_h * out_w, k = filter_h * filter_w * channels, n = filters. Not modelled: reuse
    of pixels that neighbouring patches share; each is read as often as patches hold it.

    Parameters
    ----------
    in_h, in_w : int
        Height and width of the image in pixels, padding included.
    filter_h, filter_w : int
        Height and width of the filters.
    channels, filters : int
        Channels of the image, and filters (channels of the output).
    rows, cols : int
        Size of the array in cells.
    stride : int
        Pixels from one patch to the next.
    dataflow, convention : str
        As in `gemm`. "scalesim" rounds (in - filter) / stride up, as that tool does, and so counts a slightly
        larger output where the stride does not divide it; the others round down.

    Returns
    -------
    GemmCost
        With the m, k, n of the product.

    Raises
    ------
    ValueError
        As in `gemm`, and for a filter larger than the image.

    Examples
    --------
    A 5 x 5 image under a 3 x 3 filter has 3 x 3 patches of 9 pixels:

    >>> cost = conv(in_h=5, in_w=5, filter_h=3, filter_w=3, channels=1, filters=2, rows=9, cols=2)
    >>> cost.m, cost.k, cost.n, cost.cycles
    (9, 9, 2, 27)
    """
    _checks.choice("convention", convention, CONVENTIONS)
    stride = _checks.whole_number("stride", stride)
    out = []
    for side, image, window in (("h", in_h, filter_h), ("w", in_w, filter_w)):
        image = _checks.whole_number(f"in_{side}", image)
        window = _checks.whole_number(
            f"filter_{side}", window, most=image, remedy="A filter fits into its image; pad the image first."
        )
        steps = image - window
        out.append((-(-steps // stride) if convention == "scalesim" else steps // stride) + 1)
    return gemm(
        m=out[0] * out[1],
        k=filter_h * filter_w * _checks.whole_number("channels", channels),
        n=_checks.whole_number("filters", filters),
        rows=rows,
        cols=cols,
        dataflow=dataflow,
        convention=convention,
    )


def _count(flow: Dataflow, sizes: dict[Axis, int], rows: int, cols: int, convention: str) -> GemmCost:
    """Return the cost of a product whose arguments have been checked."""
    row_extent, col_extent = sizes[flow.row_axis], sizes[flow.col_axis]
    stream = sizes[flow.stream_axis]
    row_tiles, col_tiles = -(-row_extent // rows), -(-col_extent // cols)
    folds = row_tiles * col_tiles
    products = sizes["m"] * sizes["k"] * sizes["n"]
    # What stays crosses the edge once, what moves right once a column tile, what moves down once a row tile.
    passes: dict[Letter, int] = {flow.held: 1, flow.right: col_tiles, flow.down: row_tiles}
    crossings = {
        letter: sizes[AXES[letter][0]] * sizes[AXES[letter][1]] * passes[letter] for letter in passes
    }
    again = crossings["c"] - sizes["m"] * sizes["n"] if convention == "register" else 0
    per_fold = 2 * rows + cols + stream - 2  # load or drain takes rows cycles, the skewed streams the rest
    cycles = folds * per_fold
    if convention == "scalesim":
        if not flow.loads:
            per_fold -= rows
            crossings["c"] += folds * (rows + cols)
        cycles = folds * per_fold - 1
    elif convention == "stonne":
        if flow.loads:
            raise ValueError(
                f"Convention 'stonne' knows the dataflow os only, not {flow.name!r}; use dataflow='os'."
            )
        per_fold, cycles = _stonne_cycles(row_extent, col_extent, rows, cols, stream)
    return GemmCost(
        m=sizes["m"],
        k=sizes["k"],
        n=sizes["n"],
        rows=rows,
        cols=cols,
        dataflow=flow.name,
        convention=convention,
        folds=folds,
        cycles_per_fold=per_fold,
        cycles=cycles,
        utilization=products / (cycles * rows * cols) if cycles else math.nan,
        mapping_efficiency=row_extent * col_extent / (folds * rows * cols),
        sram_reads_a=crossings["a"],
        sram_reads_b=crossings["b"],
        sram_reads_partial=again,
        sram_writes_out=crossings["c"],
    )


def _stonne_cycles(row_extent: int, col_extent: int, rows: int, cols: int, k: int) -> tuple[int, int]:
    """Return the cycles of the largest tile and of all tiles: full ones, and the cut ones at both edges."""
    total = largest = 0
    for r, r_count in ((rows, row_extent // rows), (row_extent % rows, 1)):
        for c, c_count in ((cols, col_extent // cols), (col_extent % cols, 1)):
            if r and c and r_count and c_count:
                cycles = k + r + c + 3 - (r == 1 or c == 1)
                total += r_count * c_count * cycles
                largest = max(largest, cycles)
    return largest, total
