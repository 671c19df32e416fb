"""The matrix units (MXUs) of real TPUs, as far as they are documented, and a product spread over them."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType

from pulsewarp import _checks, chips
from pulsewarp._text import counted
from pulsewarp.chips import Chip, Source
from pulsewarp.systolic.cost import GemmCost, gemm
from pulsewarp.systolic.dataflow import DATAFLOWS, Axis

DEALING = (
    "Assumed: columns of tiles are dealt to the matrix units in turn, and all units start together; how the "
    "compiler (XLA) spreads a product over them is not documented."
)
"""How `MatrixUnits.gemm` spreads a product, in a sentence for the reader."""

_SOURCED = ("matrix_unit_shape", "matrix_units_per_core", "cores", "matrix_clock_hz")


@dataclass(frozen=True)
class MatrixUnits:
    """The matrix units of one TPU chip, from the catalogue; what is not documented is None.

    Parameters
    ----------
    chip : Chip
        The chip whose units they are.
    rows, cols : int
        Cells of one unit; each forms one product a cycle.
    units_per_core : int or None
        None where it is unknown or sources disagree; `caveat` then says why.
    cores : int or None
        Cores of the chip.
    clock_hz : float or None
        Clock of the units in Hz, where published.
    dtype : str
        The operand type whose published peak is one product a cell and cycle: "bf16", on v1 "int8". Narrower
        types run faster on some chips, in ways that are not documented and not modelled.
    caveat : str or None
        What is disputed or unknown about them.
    sources : mapping of str to Source
        By the name of the catalogue's attribute.
    """

    chip: Chip = field(repr=False)
    rows: int
    cols: int
    units_per_core: int | None
    cores: int | None
    clock_hz: float | None
    dtype: str
    caveat: str | None
    sources: MappingProxyType[str, Source] = field(repr=False, hash=False)

    @property
    def units(self) -> int | None:
        """Matrix units of the whole chip, or None where that is not settled."""
        return None if None in (self.units_per_core, self.cores) else self.units_per_core * self.cores  # type: ignore[operator]  # neither is None here

    @_checks.names_keywords
    def gemm(
        self, *, m: int, k: int, n: int, dataflow: str = "ws", overlap: bool = True, units: int | None = None
    ) -> MatrixUnitsCost:
        """Count what an m x k by k x n product costs on these units, in closed form.

        Columns of tiles of the stationary matrix ("ws": of b) are dealt to the units in turn; each unit then
        runs its own product as `systolic.gemm` counts it. How the compiler really spreads a product is not
        documented (`DEALING`). Not modelled: memory, the vector unit, and operands narrower than `dtype`.

        Parameters
        ----------
        m, k, n : int
            Sizes of the product.
        dataflow : {"ws", "os", "is"}
            As in `systolic.gemm`. TPU v1 is documented as weight-stationary; of later ones no dataflow is.
        overlap : bool
            Whether the next tile is loaded while the present one works.
        units : int, optional
            How many units share the product; left out: all of the chip.

        Returns
        -------
        MatrixUnitsCost

        Raises
        ------
        ValueError
            For a size below 1, an unknown dataflow, more units than there are, and, with `units` left out,
            for a chip whose number of units is not settled.

        Examples
        --------
        Four units of 128 x 128 share 16 columns of tiles:

        >>> cost = matrix_units("tpu_v5e").gemm(m=4096, k=2048, n=2048)
        >>> cost.cycles, round(1e6 * cost.seconds), round(cost.utilization, 3)
        (262526, 175, 0.999)
        """
        flow = DATAFLOWS[_checks.choice("dataflow", dataflow, DATAFLOWS)]
        if units is None and self.units is None:
            raise ValueError(
                f"How many matrix units {self.chip.name} has is not settled. {self.caveat or ''} "
                f"Say how many to count on, such as units=1.".replace("  ", " ")
            )
        remedy = "" if self.units is None else f"{self.chip.name} has {self.units}."
        shared = self.units if units is None else units
        shared = _checks.whole_number("units", shared, most=self.units, remedy=remedy)
        sizes: dict[Axis, int] = {
            "m": _checks.whole_number("m", m),
            "k": _checks.whole_number("k", k),
            "n": _checks.whole_number("n", n),
        }
        extent = sizes[flow.col_axis]
        tiles = -(-extent // self.cols)
        dealt: list[GemmCost | None] = []
        for unit in range(shared):
            own = -(-(tiles - unit) // shared)
            if own < 1:
                dealt.append(None)
                continue
            # Only the very last tile may be cut, and it is the last of the unit that gets it.
            cut = tiles * self.cols - extent if (tiles - 1) % shared == unit else 0
            share = sizes | {flow.col_axis: own * self.cols - cut}
            dealt.append(
                gemm(
                    m=share["m"],
                    k=share["k"],
                    n=share["n"],
                    rows=self.rows,
                    cols=self.cols,
                    dataflow=dataflow,
                    overlap=overlap,
                )
            )
        return MatrixUnitsCost(self, sizes["m"], sizes["k"], sizes["n"], dataflow, overlap, tuple(dealt))


@dataclass(frozen=True, repr=False)
class MatrixUnitsCost:
    """The cost of one product on the matrix units of a chip, dealt as `DEALING` says.

    Parameters
    ----------
    matrix_units : MatrixUnits
        The units.
    m, k, n : int
        Sizes of the product.
    dataflow, overlap : str, bool
        How each unit runs.
    dealt : tuple of GemmCost or None
        The share of each unit; None for a unit that gets no tile.
    """

    matrix_units: MatrixUnits
    m: int
    k: int
    n: int
    dataflow: str
    overlap: bool
    dealt: tuple[GemmCost | None, ...]

    @property
    def cycles(self) -> int:
        """Cycles until the last unit has finished."""
        return max(share.cycles for share in self.dealt if share is not None)

    @property
    def seconds(self) -> float | None:
        """`cycles` over the clock, or None where the clock is not published."""
        clock = self.matrix_units.clock_hz
        return None if clock is None else self.cycles / clock

    @property
    def utilization(self) -> float:
        """Products over what all cells of all units could form in `cycles`, a fraction."""
        cells = len(self.dealt) * self.matrix_units.rows * self.matrix_units.cols
        return self.m * self.k * self.n / (self.cycles * cells)

    @property
    def peak_share(self) -> float | None:
        """FLOPs a second over the chip's published peak, or None where the clock is not published.

        It may differ from `utilization` in the last digit: vendors round their peaks.
        """
        seconds = self.seconds
        if seconds is None:
            return None
        return 2 * self.m * self.k * self.n / seconds / self.matrix_units.chip.peak(self.matrix_units.dtype)

    def __repr__(self) -> str:
        where = self.matrix_units
        time = "clock not published" if self.seconds is None else f"{1e6 * self.seconds:.4g} us"
        return (
            f"MatrixUnitsCost({where.chip.id}, {counted(len(self.dealt), 'unit')} of "
            f"{where.rows}x{where.cols}, {self.m}x{self.k} by {self.k}x{self.n}: {self.cycles} cycles, "
            f"{time}, {100 * self.utilization:.1f} % used)"
        )


@_checks.names_keywords
def matrix_units(chip: Chip | str) -> MatrixUnits:
    """Return the matrix units of a TPU as the catalogue documents them.

    Where sources disagree on the number of units, or the number printed cannot be true (it would need a clock
    of 3.5 GHz and more), it is None and `caveat` says why; nothing is guessed. Clocks are there where they
    are published.

    Parameters
    ----------
    chip : Chip or str
        A chip, or its id in the catalogue, such as "tpu_v5e".

    Returns
    -------
    MatrixUnits

    Raises
    ------
    ValueError
        For an unknown id, and for a chip that is no TPU.

    Examples
    --------
    >>> matrix_units("tpu_v4")
    MatrixUnits(rows=128, cols=128, units_per_core=4, cores=2, clock_hz=None, dtype='bf16', caveat=None)
    >>> matrix_units("tpu_v6e").units is None
    True
    """
    found = chips.get(chip) if isinstance(chip, str) else _checks.instance("chip", chip, Chip, "give its id")
    if found.family == "gpu":
        raise ValueError(
            f"{found.name} is a GPU: its tensor cores are not documented as systolic arrays, so no array of "
            f"cells is counted for it; use a TPU, or pulsewarp.simt for what a GPU does."
        )
    if found.family != "tpu" or found.matrix_unit_shape is None:
        raise ValueError(
            f"{found.name} has no systolic array on record in the catalogue; use a TPU, such as 'tpu_v5e'."
        )
    rows, cols = found.matrix_unit_shape
    settled = found.unit_arithmetic_caveat is None
    return MatrixUnits(
        chip=found,
        rows=rows,
        cols=cols,
        units_per_core=found.matrix_units_per_core if settled else None,
        cores=found.cores,
        clock_hz=found.matrix_clock_hz,
        dtype="bf16" if "bf16" in found.peak_flops_per_second else "int8",
        caveat=found.unit_arithmetic_caveat or found.caveat,
        sources=MappingProxyType({name: found.sources[name] for name in _SOURCED if name in found.sources}),
    )
