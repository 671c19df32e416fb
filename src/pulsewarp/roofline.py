"""What a chip can do with a product at best, and what its shape costs on top.

The roofline is Williams, Waterman and Patterson, "Roofline: an insightful visual performance model
for multicore architectures", Communications of the ACM 52(4), 2009, doi 10.1145/1498765.1498785.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from pulsewarp._checks import instance, names_keywords, positive_number, whole_number
from pulsewarp.chips import Chip
from pulsewarp.matmul import Matmul


@dataclass(frozen=True)
class Bound:
    """The least time a product takes on a chip: its arithmetic or its traffic, whichever is longer.

    Parameters
    ----------
    matmul
        The product.
    chip
        The chip whose peak and bandwidth are used.
    dtype
        The peak's name.
    peak_flops_per_second, bandwidth_bytes_per_second
        The two ceilings.
    """

    matmul: Matmul
    chip: Chip = field(repr=False)
    dtype: str
    peak_flops_per_second: float
    bandwidth_bytes_per_second: float

    @property
    def compute_seconds(self) -> float:
        """FLOPs over peak."""
        return self.matmul.flops / self.peak_flops_per_second

    @property
    def memory_seconds(self) -> float:
        """Bytes moved over bandwidth."""
        return self.matmul.bytes_moved / self.bandwidth_bytes_per_second

    @property
    def seconds(self) -> float:
        """The longer of the two: no run that reads from main memory can be faster."""
        return max(self.compute_seconds, self.memory_seconds)

    @property
    def limit(self) -> Literal["compute", "memory"]:
        """Which of the two decides; exactly on the ridge it is "compute"."""
        return "compute" if self.compute_seconds >= self.memory_seconds else "memory"

    @property
    def flops_per_second(self) -> float:
        """The best rate, FLOPs over `seconds`."""
        return self.matmul.flops / self.seconds

    @property
    def fraction_of_peak(self) -> float:
        """`flops_per_second` over the peak, in (0, 1]."""
        return self.compute_seconds / self.seconds

    @property
    def ridge_point(self) -> float:
        """Arithmetic intensity where both ceilings meet, FLOP/B."""
        return self.peak_flops_per_second / self.bandwidth_bytes_per_second


@names_keywords
def bound(matmul: Matmul, chip: Chip, dtype: str | None = None) -> Bound:
    """Return the roofline bound of a product on a chip.

    Modelled are the chip's dense peak and its main-memory bandwidth, perfectly overlapped. Not
    modelled: launch, caches that hold operands from before, padding (`tile_padding`), the last
    wave (`wave_quantisation`), power limits.

    Parameters
    ----------
    matmul
        The product; its dtype decides the bytes.
    chip
        A whole chip, or one device's share of it (`Chip.per_jax_device`).
    dtype
        Name of the peak to hold it against, when it is not that of the product's dtype: for
        example "tf32" for an fp32 product that may be rounded, or "fp64_tensor".

    Returns
    -------
    Bound

    Raises
    ------
    ValueError
        When the peak or the bandwidth of this chip is unknown, or its figures are projections.

    Notes
    -----
    seconds = max(FLOPs / peak, bytes / bandwidth), Williams et al. 2009 (see the module).

    Examples
    --------
    >>> from pulsewarp import chips, roofline
    >>> from pulsewarp.matmul import Matmul
    >>> b = roofline.bound(Matmul(8, 4096, 4096), chips.get("tpu_v5e"))
    >>> b.limit, round(b.seconds * 1e6, 1), round(b.ridge_point)
    ('memory', 41.1, 241)
    """
    name = _product(matmul).dtype if dtype is None else dtype
    peak, bandwidth = _ceilings(chip, name)
    return Bound(matmul, chip, name, peak, bandwidth)


@names_keywords
def ridge_point(chip: Chip, dtype: str = "bf16") -> float:
    """Return the arithmetic intensity from which this chip's peak, not its memory, limits.

    Parameters
    ----------
    chip, dtype
        As for `bound`.

    Returns
    -------
    float
        FLOP/B.

    Raises
    ------
    ValueError
        As `bound`.

    Notes
    -----
    peak / bandwidth, Williams et al. 2009 (see the module).

    Examples
    --------
    >>> from pulsewarp import chips, roofline
    >>> round(roofline.ridge_point(chips.get("h100_sxm"), "bf16"))
    295
    """
    peak, bandwidth = _ceilings(chip, dtype)
    return peak / bandwidth


# int stands beside float because run-time type checks tell the two apart.
Number = int | float
Numbers = Sequence[Number] | NDArray[Any]


@overload
def attainable(chip: Chip, dtype: str, intensity: Number) -> float: ...
@overload
def attainable(chip: Chip, dtype: str, intensity: Numbers) -> float | NDArray[np.float64]: ...
@names_keywords
def attainable(chip: Chip, dtype: str, intensity: Number | Numbers) -> float | NDArray[np.float64]:
    """Return the roof above each arithmetic intensity: the curve that a roofline figure draws.

    Parameters
    ----------
    chip, dtype
        As for `bound`.
    intensity
        One number or an array of them, FLOP/B, each finite and above 0.

    Returns
    -------
    float or array
        FLOP/s, of the same shape as `intensity`.

    Raises
    ------
    ValueError
        As `bound`, or for an intensity that is not finite and above 0.

    Notes
    -----
    min(peak, intensity x bandwidth), Williams et al. 2009 (see the module).

    Examples
    --------
    >>> from pulsewarp import chips, roofline
    >>> roofline.attainable(chips.get("tpu_v5e"), "bf16", [1.0, 1000.0])
    array([8.19e+11, 1.97e+14])
    """
    peak, bandwidth = _ceilings(chip, dtype)
    values = np.asarray(intensity)
    if values.dtype.kind not in "iuf":
        raise ValueError(f"intensity holds {values.dtype} values, but must hold numbers in FLOP/B.")
    values = values.astype(np.float64)
    bad = values[~(np.isfinite(values) & (values > 0))]
    if bad.size:
        raise ValueError(f"intensity holds {bad.flat[0]}, but must be finite and above 0 FLOP/B.")
    roof = np.minimum(peak, values * bandwidth)
    return float(roof) if roof.ndim == 0 else roof


@dataclass(frozen=True)
class TilePadding:
    """How much of a systolic array's work on padded weights is useful.

    Parameters
    ----------
    k, n
        The two sides of the weight matrix.
    rows, cols
        Shape of the matrix unit: k runs over its rows, n over its columns.
    """

    k: int
    n: int
    rows: int
    cols: int

    @property
    def padded_k(self) -> int:
        """`k` rounded up to whole units."""
        return -(-self.k // self.rows) * self.rows

    @property
    def padded_n(self) -> int:
        """`n` rounded up to whole units."""
        return -(-self.n // self.cols) * self.cols

    @property
    def efficiency_k(self) -> float:
        """Useful share along k, in (0, 1]."""
        return self.k / self.padded_k

    @property
    def efficiency_n(self) -> float:
        """Useful share along n, in (0, 1]."""
        return self.n / self.padded_n

    @property
    def efficiency(self) -> float:
        """Useful share of all multiply-accumulates, the product of both sides', in (0, 1]."""
        return self.efficiency_k * self.efficiency_n


@names_keywords
def tile_padding(matmul: Matmul, unit: Chip | tuple[int, int]) -> TilePadding:
    """Return what is left of a systolic array's peak once both weight dimensions are padded.

    Modelled is a weight-stationary array that holds whole unit-sized tiles of the (k, n) weights.
    Not modelled: the third dimension m, which streams through and is padded to vector registers
    only, and compilers that transpose the product to swap which operand stays.

    Parameters
    ----------
    matmul
        The product; its k and n are the weight dimensions.
    unit
        A chip whose matrix unit has a known shape, or (rows, columns).

    Returns
    -------
    TilePadding

    Raises
    ------
    ValueError
        When the chip's matrix unit has no known shape, or a side is no whole number above 0.

    Notes
    -----
    d / (u ceil(d / u)) for each side d on a unit of u; that both weight dimensions are padded, to 128
    and to fill a v6e to 256, is in "How to Scale Your Model", chapter on TPUs (Austin et al. 2025,
    github.com/jax-ml/scaling-book, tpus.md).

    Examples
    --------
    >>> from pulsewarp import roofline
    >>> from pulsewarp.matmul import Matmul
    >>> round(roofline.tile_padding(Matmul(512, 129, 129), (128, 128)).efficiency, 3)
    0.254
    """
    _product(matmul)
    rows, cols = _unit_shape(unit)
    return TilePadding(matmul.k, matmul.n, rows, cols)


@dataclass(frozen=True)
class Waves:
    """How a grid of equal blocks fills a GPU, wave by wave.

    Parameters
    ----------
    blocks
        Blocks of the grid.
    sms
        Cores that run blocks (SMs, CUs).
    blocks_per_sm
        Blocks that one core holds at once.
    """

    blocks: int
    sms: int
    blocks_per_sm: int

    @property
    def slots(self) -> int:
        """Blocks that run at once."""
        return self.sms * self.blocks_per_sm

    @property
    def waves(self) -> int:
        """Rounds until every block has run."""
        return -(-self.blocks // self.slots)

    @property
    def last_wave_blocks(self) -> int:
        """Blocks of the last round, from 1 to `slots`."""
        return self.blocks - (self.waves - 1) * self.slots

    @property
    def efficiency(self) -> float:
        """Share of slots that hold a block over all waves, in (0, 1]."""
        return self.blocks / (self.waves * self.slots)

    def cycles(self, block_cycles: int) -> int:
        """Return the cycles of the whole grid.

        Parameters
        ----------
        block_cycles
            Cycles of one block, at least 1.

        Returns
        -------
        int
        """
        return self.waves * whole_number("block_cycles", block_cycles)


@names_keywords
def waves(blocks: int, sms: int, blocks_per_sm: int = 1) -> Waves:
    """Return how many rounds a grid of equal blocks takes, and how full they are.

    Modelled are blocks that all take the same time and start in whole rounds. Not modelled:
    blocks of unequal length, which a GPU replaces one by one, and more than one kernel at a time.

    Parameters
    ----------
    blocks, sms, blocks_per_sm
        As in `Waves`; whole numbers of at least 1.

    Returns
    -------
    Waves

    Raises
    ------
    ValueError
        When one of them is not.

    Notes
    -----
    ceil(blocks / (sms x blocks_per_sm)) rounds; NVIDIA, "Matrix Multiplication Background User's
    Guide", DU-09799-001 (2023), section 3.2.

    Examples
    --------
    >>> from pulsewarp import roofline
    >>> grid = roofline.waves(81, sms=80)
    >>> grid.waves, grid.last_wave_blocks, grid.cycles(1000), round(grid.efficiency, 3)
    (2, 1, 2000, 0.506)
    """
    return Waves(
        whole_number("blocks", blocks), whole_number("sms", sms), whole_number("blocks_per_sm", blocks_per_sm)
    )


@dataclass(frozen=True)
class WaveQuantisation:
    """A product cut into result tiles, a block each, and the waves these take.

    Parameters
    ----------
    matmul
        The product.
    tile
        (rows, columns) of the result that one block makes.
    launch
        The waves of its grid.
    """

    matmul: Matmul
    tile: tuple[int, int]
    launch: Waves

    @property
    def tiles(self) -> int:
        """Result tiles, the blocks of the grid."""
        return self.launch.blocks

    @property
    def waves(self) -> int:
        """Rounds until every tile is done."""
        return self.launch.waves

    @property
    def tile_efficiency(self) -> float:
        """Share of the tiles' area that lies inside the result, in (0, 1]."""
        return self.matmul.m * self.matmul.n / (self.tiles * self.tile[0] * self.tile[1])

    @property
    def wave_efficiency(self) -> float:
        """Share of block slots in use over all waves, in (0, 1]."""
        return self.launch.efficiency

    @property
    def efficiency(self) -> float:
        """Useful share of what the GPU could do in those waves, the product of both, in (0, 1]."""
        return self.tile_efficiency * self.wave_efficiency


@names_keywords
def wave_quantisation(
    matmul: Matmul, sms: Chip | int, tile: tuple[int, int] = (256, 128), blocks_per_sm: int = 1
) -> WaveQuantisation:
    """Return how many waves a product's tiles take on a GPU, and how much of them is useful.

    Modelled is one block a result tile and equal blocks in whole rounds. Not modelled: splitting
    along k, persistent kernels that take fractions of a tile, and libraries choosing other tiles.

    Parameters
    ----------
    matmul
        The product; its m and n are cut into tiles.
    sms
        A GPU whose number of cores is known, or that number.
    tile
        (rows, columns) of the result that one block makes.
    blocks_per_sm
        Blocks that one core holds at once.

    Returns
    -------
    WaveQuantisation

    Raises
    ------
    ValueError
        When the chip is no GPU or its cores are unknown, or a number is no whole one above 0.

    Notes
    -----
    ceil(m / 256) ceil(n / 128) tiles by default, then as `waves`; NVIDIA, "Matrix Multiplication
    Background User's Guide", DU-09799-001 (2023), sections 3.1 and 3.2.

    Examples
    --------
    >>> from pulsewarp import chips, roofline
    >>> from pulsewarp.matmul import Matmul
    >>> q = roofline.wave_quantisation(Matmul(2304, 4096, 1536), chips.get("a100_sxm_80"))
    >>> q.tiles, q.waves, q.efficiency
    (108, 1, 1.0)
    >>> q = roofline.wave_quantisation(Matmul(2305, 4096, 1536), chips.get("a100_sxm_80"))
    >>> q.tiles, q.waves, round(q.efficiency, 2)
    (120, 2, 0.5)
    """
    _product(matmul)
    rows, cols = _sides("tile", tile)
    grid = -(-matmul.m // rows) * -(-matmul.n // cols)
    return WaveQuantisation(matmul, (rows, cols), waves(grid, _cores(sms), blocks_per_sm))


def _product(matmul: Matmul) -> Matmul:
    return instance("matmul", matmul, Matmul, "write Matmul(m, k, n, dtype)")


def _ceilings(chip: Chip, dtype: str) -> tuple[float, float]:
    instance("chip", chip, Chip, 'write chips.get("tpu_v5e")')
    peak = chip.peak(dtype)
    if chip.projection:
        raise ValueError(
            f"The figures of {chip.name} are projections, so no bound is computed; "
            f"choose a chip that can be bought."
        )
    if chip.bandwidth_bytes_per_second is None:
        raise ValueError(f"The memory bandwidth of {chip.name} is unknown, so it has no roofline.")
    return peak, positive_number("bandwidth", chip.bandwidth_bytes_per_second)


def _unit_shape(unit: Chip | tuple[int, int]) -> tuple[int, int]:
    if isinstance(unit, Chip):
        if unit.matrix_unit_shape is None:
            raise ValueError(
                f"{unit.name} has no systolic matrix unit of known shape; "
                f"give (rows, columns), such as (128, 128), or use wave_quantisation for a GPU."
            )
        return unit.matrix_unit_shape
    return _sides("unit", unit)


def _sides(name: str, sides: tuple[int, int]) -> tuple[int, int]:
    if not isinstance(sides, tuple | list) or len(sides) != 2:
        raise ValueError(f"{name} is {sides!r}, but must be (rows, columns), such as (128, 128).")
    return whole_number(f"{name} rows", sides[0]), whole_number(f"{name} columns", sides[1])


def _cores(sms: Chip | int) -> int:
    if not isinstance(sms, Chip):
        return whole_number("sms", sms)
    if sms.family != "gpu" or sms.cores is None:
        reason = "is no GPU" if sms.family != "gpu" else "has an unknown number of cores"
        raise ValueError(
            f"{sms.name} {reason}, so its waves cannot be counted; give the number of SMs instead."
        )
    return sms.cores
