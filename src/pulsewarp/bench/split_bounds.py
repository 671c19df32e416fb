"""What a product over several chips takes at best: its local work, and its exchange over published links."""

from __future__ import annotations

from dataclasses import dataclass

from pulsewarp import chips, roofline
from pulsewarp._checks import choice, instance, names_keywords, whole_number
from pulsewarp.bench.collectives import Collective
from pulsewarp.bench.sharded_measurement import SPLITS, local_product, needed_collective
from pulsewarp.chips import Chip
from pulsewarp.matmul import BYTES, Matmul

_REMEDY = "give a catalogue id such as 'tpu_v5e'"


@dataclass(frozen=True)
class SplitBound:
    """Least times of a split product on chips of one kind.

    Parameters
    ----------
    matmul : Matmul
        The whole product.
    split : {"rows", "columns", "contraction"}
        What is split.
    devices : int
        Over how many chips.
    chip : Chip
        Which.
    exchange : Collective or None
        What must be exchanged; None where nothing must.
    compute_seconds : float
        The roofline bound of each chip's own product.
    exchange_seconds : float
        What a chip sends in a ring, over the published rate of all its links one way.
    """

    matmul: Matmul
    split: str
    devices: int
    chip: Chip
    exchange: Collective | None
    compute_seconds: float
    exchange_seconds: float

    @property
    def limit(self) -> str:
        """``"exchange"`` where that takes longer than the work, else ``"work"``."""
        return "exchange" if self.exchange_seconds > self.compute_seconds else "work"

    def __repr__(self) -> str:
        name = "no exchange" if self.exchange is None else self.exchange.name
        return (
            f"SplitBound({self.split} over {self.devices} x {self.chip.name}: work "
            f"{self.compute_seconds * 1e6:.1f} us, {name} {self.exchange_seconds * 1e6:.1f} us)"
        )


@names_keywords
def split_bound(
    m: int,
    k: int,
    n: int,
    *,
    split: str = "rows",
    gather: bool = False,
    devices: int = 8,
    chip: str | Chip = "tpu_v5e",
    dtype: str = "bf16",
) -> SplitBound:
    """Return what a split product takes at best on chips of the catalogue.

    Modelled: the roofline of each chip's own product, and the bytes that a ring sends over all links of a
    chip at their published rate. Not modelled: latency of the links, a topology in which a ring uses some of
    the links only, links that are shared; each makes the exchange longer. Both may overlap.

    Parameters
    ----------
    m, k, n : int
        Sizes of the whole product.
    split, gather
        As for `time_sharded`.
    devices : int
        Chips.
    chip : str or Chip
        Catalogue id, or a chip.
    dtype : str
        Catalogue name of the factors' type.

    Returns
    -------
    SplitBound

    Raises
    ------
    ValueError
        A size that cannot be shared, or a chip whose peak, bandwidth or link is not published.

    Notes
    -----
    The work is `roofline.bound` of the local product, the bytes are `Collective.bytes_sent`.

    Examples
    --------
    >>> split_bound(4096, 4096, 4096, split="contraction", gather=True, devices=8, chip="tpu_v5e")
    SplitBound(contraction over 8 x TPU v5e: work 87.2 us, all-reduce 293.6 us)
    """
    matmul = Matmul(m, k, n, dtype)
    choice("split", split, SPLITS)
    devices = whole_number("devices", devices)
    kind = chips.get(chip) if isinstance(chip, str) else instance("chip", chip, Chip, _REMEDY)
    local = local_product(matmul, split, devices)
    work = roofline.bound(local, kind)
    name = needed_collective(split, gather, devices)
    if name == "none":
        return SplitBound(matmul, split, devices, kind, None, work.seconds, 0.0)
    link = kind.interconnect_unidirectional_bytes_per_second
    if link is None:
        raise ValueError(
            f"No rate of links between chips is published for {kind.name}, so its exchange has no bound; "
            "take a chip such as 'tpu_v5e' or 'h100_sxm'."
        )
    exchange = Collective(name, round(m * n * BYTES[matmul.result_dtype]), devices)
    return SplitBound(matmul, split, devices, kind, exchange, work.seconds, (exchange.bytes_sent or 0) / link)
