"""What a whole product costs on an array, in closed form: folds, cycles, use of the cells, memory traffic."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from pulsewarp import _checks
from pulsewarp._arrays import freeze
from pulsewarp._text import counted
from pulsewarp.systolic import busy, rules
from pulsewarp.systolic.dataflow import DATAFLOWS, Axis, Dataflow, Letter
from pulsewarp.systolic.registers import Check, Report
from pulsewarp.systolic.trace import SystolicTrace

CONVENTIONS = ("register", "scalesim", "stonne")
"""Who counts how. "register": what `simulate` counts. "scalesim": what SCALE-Sim 3.0.0 prints.
"stonne": what STONNE's output-stationary mesh takes."""


class ConventionCount(NamedTuple):
    """What one convention counts for a product, and why that differs from "register"."""

    convention: str
    cycles: int | None
    reason: str


@dataclass(frozen=True, repr=False)
class GemmCost:
    """The cost of one product on one array, in closed form, and when in it how many cells work.

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
    overlap : bool
        Whether a fold's tile is shifted in, or its results out, while another fold works.
    cycles_per_fold : int
        Cycles of one fold from its first to its last; under "stonne", where a smaller tile takes fewer, those
        of the largest.
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
    overlap: bool
    folds: int
    cycles_per_fold: int
    cycles: int
    utilization: float
    mapping_efficiency: float
    sram_reads_a: int
    sram_reads_b: int
    sram_reads_partial: int
    sram_writes_out: int

    @property
    def flow(self) -> Dataflow:
        """The dataflow with its roles and axes."""
        return DATAFLOWS[self.dataflow]

    @property
    def sizes(self) -> dict[Axis, int]:
        """The product's sizes by the name of their index."""
        return {"m": self.m, "n": self.n, "k": self.k}

    @property
    def row_tiles(self) -> int:
        """Tiles of the stationary matrix along the array's rows."""
        return -(-self.sizes[self.flow.row_axis] // self.rows)

    @property
    def col_tiles(self) -> int:
        """Tiles of the stationary matrix along the array's columns."""
        return -(-self.sizes[self.flow.col_axis] // self.cols)

    @property
    def stream(self) -> int:
        """Steps of a fold's stream: the cycles in which each cell in use works."""
        return self.sizes[self.flow.stream_axis]

    @property
    def interval(self) -> int:
        """Cycles from the first product of a fold to the first product of the next."""
        self._refuse_other_conventions()
        return rules.beat(self.rows, self.stream) if self.overlap else self.cycles_per_fold

    @property
    def load(self) -> int:
        """Cycles in which a tile is shifted in before its fold's first product; 0 for "os"."""
        self._refuse_other_conventions()
        return rules.load_cycles(self.flow, self.rows)

    @property
    def fill(self) -> int:
        """Cycles of the first fold, the fullest, in which more and more cells work."""
        return min(self._diagonals, self.stream)

    @property
    def steady(self) -> int:
        """Cycles of the first fold in which all cells in use work."""
        return max(0, self.stream - self._diagonals)

    @property
    def drain(self) -> int:
        """Cycles of the first fold after its first cell has finished, the shifting out of "os" included."""
        return self.cycles_per_fold - self.load - self.fill - self.steady

    @property
    def padded(self) -> GemmCost:
        """The cost of the product whose every tile fills the array: what is left idle then is no padding."""
        self._refuse_other_conventions()
        sizes = self.sizes
        sizes[self.flow.row_axis] = self.row_tiles * self.rows
        sizes[self.flow.col_axis] = self.col_tiles * self.cols
        return _count(self.flow, sizes, self.rows, self.cols, self.convention, self.overlap)

    def plan(self) -> tuple[rules.Fold, ...]:
        """Return the folds in order, each with its cycles and its tile, as a simulated run has them.

        Returns
        -------
        tuple of Fold
            One object each: the only count here that takes longer for more folds.

        Raises
        ------
        ValueError
            For a convention other than "register".

        Examples
        --------
        Column tiles lie outside, row tiles inside:

        >>> [(fold.start, fold.row0, fold.col0) for fold in gemm(m=3, k=4, n=4, rows=2, cols=2).plan()]
        [(0, 0, 0), (7, 2, 0), (14, 0, 2), (21, 2, 2)]
        """
        self._refuse_other_conventions()
        return rules.RULES.plan_folds(self.flow, self.sizes, self.rows, self.cols, overlap=self.overlap)

    @overload
    def busy(self, t: int) -> int: ...
    @overload
    def busy(self, t: NDArray[Any]) -> NDArray[np.int64]: ...
    def busy(self, t: int | NDArray[Any]) -> NDArray[np.int64] | int:
        """Return how many cells multiply in a cycle, without stepping to it.

        Cell (r, c) of a fold works from the fold's first product on, r + c cycles later, for as many cycles
        as the stream has steps. Counted in closed form over cells and folds alike, and equal to the
        `Schedule.busy` of a simulated run.

        Parameters
        ----------
        t : int or ndarray of int
            Cycles, from 0; outside the run no cell works.

        Returns
        -------
        int or ndarray of int64, the shape of `t`

        Raises
        ------
        ValueError
            For a convention other than "register", or cycles that are no whole numbers.

        Examples
        --------
        The diagonal front enters a full 2 x 2 array in cycle 2 and leaves it in cycle 6:

        >>> import numpy as np
        >>> gemm(m=3, k=2, n=2, rows=2, cols=2).busy(np.arange(7)).tolist()
        [0, 0, 1, 3, 4, 3, 1]
        """
        return self._over_time(busy.working, t)

    @overload
    def macs(self, t: int) -> int: ...
    @overload
    def macs(self, t: NDArray[Any]) -> NDArray[np.int64]: ...
    def macs(self, t: int | NDArray[Any]) -> NDArray[np.int64] | int:
        """Return how many multiply-adds are done by the end of a cycle: the running total of `busy`.

        Parameters
        ----------
        t : int or ndarray of int
            Cycles, from 0; -1 is before the first.

        Returns
        -------
        int or ndarray of int64, the shape of `t`

        Raises
        ------
        ValueError
            As for `busy`.

        Examples
        --------
        >>> cost = gemm(m=3, k=2, n=2, rows=2, cols=2)
        >>> cost.macs(3), cost.macs(cost.cycles - 1)
        (4, 12)
        """
        return self._over_time(busy.formed, t)

    @_checks.names_keywords
    def utilization_over_time(self, bins: int) -> NDArray[np.float64]:
        """Return which fraction of all cells works, averaged over each of some equal spans of the run.

        Parameters
        ----------
        bins : int
            Spans of cycles; where the run does not divide evenly, some are one cycle longer than others.

        Returns
        -------
        ndarray of float64, shape (min(bins, cycles),)

        Raises
        ------
        ValueError
            For no bins, or a convention other than "register".

        Examples
        --------
        A fold of 6 cycles, two by two: loading, then 1 and 3 cells, then the last ones.

        >>> gemm(m=2, k=2, n=2, rows=2, cols=2).utilization_over_time(3).tolist()
        [0.0, 0.5, 0.5]
        """
        bins = min(_checks.whole_number("bins", bins), self.cycles)
        edges = -(-np.arange(bins + 1) * self.cycles // bins)
        return freeze(np.diff(self.macs(edges - 1)) / (np.diff(edges) * self.rows * self.cols))

    @_checks.names_keywords
    def verify(self, cycle: int | None = None) -> Report:
        """Count again without the closed forms: products and cycles fold by fold, one frame cell by cell.

        Parameters
        ----------
        cycle : int, optional
            Also count the cells that work in this cycle.

        Returns
        -------
        Report
            One `Check` each, with its numbers in a sentence; `passed` when all hold.

        Raises
        ------
        ValueError
            For a cycle outside the run, or a convention other than "register".

        Examples
        --------
        >>> gemm(m=10, k=4, n=4, rows=4, cols=4).verify(cycle=7).passed
        True
        """
        from pulsewarp.systolic import recount  # it needs this class

        return recount.recount(self, cycle)

    def verify_frame(self, cycle: int) -> Check:
        """Check one frame and nothing of the whole run: the check that `verify` adds for a cycle.

        Parameters
        ----------
        cycle : int
            Cycle whose working cells are counted, from 0.

        Returns
        -------
        Check
            Whether it holds, with its numbers in a sentence.

        Raises
        ------
        ValueError
            As `verify`.

        Examples
        --------
        >>> gemm(m=10, k=4, n=4, rows=4, cols=4).verify_frame(7).passed
        True
        """
        from pulsewarp.systolic import recount  # it needs this class

        return recount.recount_frame(self, cycle)

    def conventions(self) -> tuple[ConventionCount, ...]:
        """Return what each convention counts for this product, with the reason for the difference.

        Returns
        -------
        tuple of ConventionCount
            One for each of `CONVENTIONS`; its cycles are None where that program does not run the dataflow.

        Examples
        --------
        >>> for row in gemm(m=4, k=4, n=4, rows=4, cols=4).conventions():
        ...     print(row.convention, row.cycles)
        register 14
        scalesim 13
        stonne None
        """
        own = self._by("register", self.overlap)
        os = not self.flow.loads
        seldom = " It loads no tile while another works." if self.overlap else ""
        return (
            ConventionCount("register", own.cycles, _REGISTER_OVERLAP if own.overlap else _REGISTER),
            ConventionCount(
                "scalesim",
                self._by("scalesim", False).cycles,
                (_SCALESIM_OS if os else _SCALESIM) + seldom,
            ),
            ConventionCount(
                "stonne",
                self._by("stonne", False).cycles if os else None,
                (_STONNE if os else _STONNE_NOT) + (seldom if os else ""),
            ),
        )

    def _by(self, convention: str, overlap: bool) -> GemmCost:
        return _count(self.flow, self.sizes, self.rows, self.cols, convention, overlap)

    @property
    def _diagonals(self) -> int:
        """Cycles from the first cell's first product to the last one's, in the first fold."""
        self._refuse_other_conventions()
        sizes, flow = self.sizes, self.flow
        return min(self.rows, sizes[flow.row_axis]) + min(self.cols, sizes[flow.col_axis]) - 2

    def _over_time(self, count: Any, t: int | NDArray[Any]) -> NDArray[np.int64] | int:
        self._refuse_other_conventions()
        cycles = np.asarray(t)
        beyond = isinstance(t, int) and not isinstance(t, bool)  # NumPy holds one above int64 as an object
        if cycles.dtype.kind not in "iu" and not beyond:
            raise ValueError(f"t is {t!r}, but must be a cycle or an array of cycles, whole numbers from 0.")
        sizes, flow = self.sizes, self.flow
        extents = sizes[flow.row_axis], sizes[flow.col_axis]
        series = busy.series_of(*extents, self.rows, self.cols, self.load, self.interval)
        found = count(np.atleast_1d(cycles), series, self.stream)
        return int(found[0]) if cycles.ndim == 0 else freeze(found.astype(np.int64))

    def _refuse_other_conventions(self) -> None:
        if self.convention != "register":
            raise ValueError(
                f"Convention {self.convention!r} counts cycles in all and knows no schedule by cycle; count "
                f"with convention='register' to see when cells work."
            )

    def __repr__(self) -> str:
        folds = "overlapping fold" if self.overlap else "fold"
        return (
            f"GemmCost({self.dataflow}, {self.rows}x{self.cols} cells, {self.m}x{self.k} by "
            f"{self.k}x{self.n}: {counted(self.folds, folds)}, {self.cycles} cycles, "
            f"{100 * self.utilization:.1f} % used, convention {self.convention})"
        )


_REGISTER = (
    "It counts every cycle in which a register changes: loading, the skewed stream and draining, fold after "
    "fold."
)
_REGISTER_OVERLAP = (
    "It counts every cycle in which a register changes; a tile moves in while the one before it works, so "
    "only the first load and the last drain stand alone."
)
_SCALESIM = "SCALE-Sim 3.0.0 prints the number of the last cycle, counted from 0, which is one less."
_SCALESIM_OS = (
    "SCALE-Sim 3.0.0 prints the number of the last cycle, counted from 0, and leaves out the cycles that "
    "shift finished sums out of the array."
)
_STONNE = (
    "STONNE's mesh takes k + r + c + 3 cycles for a tile, with r and c the rows and columns in use, where "
    "this array takes 2 * rows + cols + k - 2 for every one."
)
_STONNE_NOT = "STONNE's mesh is output-stationary only."


@_checks.names_keywords
def gemm(
    *,
    m: int,
    k: int,
    n: int,
    rows: int,
    cols: int,
    dataflow: str = "ws",
    convention: str = "register",
    overlap: bool = False,
) -> GemmCost:
    """Count what an m x k by k x n product costs on rows x cols cells, without stepping.

    With Sr, Sc and T the sizes along array rows, array columns and time, there are
    ceil(Sr / rows) * ceil(Sc / cols) folds of 2 * rows + cols + T - 2 cycles under "register", which is what
    `simulate` counts. "scalesim" prints one cycle less in all, leaves the draining of "os" out and counts
    rows + cols more writes per "os" fold. "stonne" ("os" only) sizes a tile by the r rows and c columns in
    use: k + r + c + 3 cycles, one less where r or c is 1. Not modelled: memory; operands are there in time.

    With `overlap`, a second, shadow register in each cell takes the next tile while the present one works
    ("os": takes the finished sum, which moves out while the next fold works). The stream of a fold then
    starts max(rows, T) cycles after the stream of the one before: 2 * rows + cols + T - 2 cycles for the
    first fold and max(rows, T) for each one more.

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
    overlap : bool
        Whether the next tile is shifted in while the present one works; "register" only.

    Returns
    -------
    GemmCost

    Raises
    ------
    ValueError
        For a size below 1, an unknown dataflow or convention, "stonne" with a dataflow other than "os", or
        `overlap` under a convention whose program has none.

    Notes
    -----
    The dataflows and folds follow A. Samajdar et al., "SCALE-Sim: Systolic CNN Accelerator Simulator",
    arXiv:1811.02883. The conventions "scalesim" and "stonne" reproduce what SCALE-Sim 3.0.0 prints and the
    cycles of STONNE's output-stationary mesh; they were found from such numbers and are tested against them.
    Loading weights behind the ones at work ("double-buffered weights") is described by N. P. Jouppi et al.,
    "In-datacenter performance analysis of a tensor processing unit", ISCA 2017, section 2.

    Examples
    --------
    Four cycles to load, then ten rows through four rows and columns of cells:

    >>> cost = gemm(m=10, k=4, n=4, rows=4, cols=4)
    >>> cost.cycles, cost.utilization
    (20, 0.5)

    Four tiles, one after another and with the next one loaded early:

    >>> [gemm(m=10, k=8, n=8, rows=4, cols=4, overlap=early).cycles for early in (False, True)]
    [80, 50]
    """
    flow = DATAFLOWS[_checks.choice("dataflow", dataflow, DATAFLOWS)]
    _checks.choice("convention", convention, CONVENTIONS)
    _checks.instance("overlap", overlap, bool, "write True to load a tile while another works, or False")
    if overlap and convention != "register":
        raise ValueError(
            f"Convention {convention!r} knows no overlap, its program runs fold after fold; "
            f"use convention='register', or overlap=False."
        )
    whole = _checks.whole_number
    sizes: dict[Axis, int] = {"m": whole("m", m), "k": whole("k", k), "n": whole("n", n)}
    return _count(flow, sizes, whole("rows", rows), whole("cols", cols), convention, overlap)


def cost_of(run: SystolicTrace) -> GemmCost:
    """Return the closed-form cost of what a trace ran: its product, array, dataflow and overlap."""
    return gemm(
        m=run.m,
        k=run.k,
        n=run.n,
        rows=run.rows,
        cols=run.cols,
        dataflow=run.dataflow,
        overlap=run.overlap,
    )


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
    overlap: bool = False,
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
    dataflow, convention, overlap : str, str, bool
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
        overlap=overlap,
    )


def _count(
    flow: Dataflow, sizes: dict[Axis, int], rows: int, cols: int, convention: str, overlap: bool
) -> GemmCost:
    """Return the cost of a product whose arguments have been checked."""
    row_extent, col_extent = sizes[flow.row_axis], sizes[flow.col_axis]
    stream = sizes[flow.stream_axis]
    row_tiles, col_tiles = -(-row_extent // rows), -(-col_extent // cols)
    folds = row_tiles * col_tiles
    m, k, n = sizes["m"], sizes["k"], sizes["n"]
    # What stays crosses the edge once, what moves right once a column tile, what moves down once a row tile.
    crossings: dict[Letter, int] = {"a": m * k, "b": k * n, "c": m * n}
    crossings[flow.right] *= col_tiles
    crossings[flow.down] *= row_tiles
    again = crossings["c"] - m * n if convention == "register" else 0
    per_fold = 2 * rows + cols + stream - 2  # load or drain takes rows cycles, the skewed streams the rest
    # Without overlap a fold waits for the one before to end, with it for the stream and the tile before.
    cycles = per_fold + (folds - 1) * (rules.beat(rows, stream) if overlap else per_fold)
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
        m=m,
        k=k,
        n=n,
        rows=rows,
        cols=cols,
        dataflow=flow.name,
        convention=convention,
        overlap=overlap,
        folds=folds,
        cycles_per_fold=per_fold,
        cycles=cycles,
        utilization=m * k * n / (cycles * rows * cols) if cycles else math.nan,
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
