"""A matrix product split over several devices, as a value: times, the collective, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: F401  # inherited fields' annotations are resolved in this module,
from dataclasses import dataclass

import numpy as np

from pulsewarp._checks import choice, positive_number, whole_number
from pulsewarp._text import counted
from pulsewarp.bench.collectives import Collective
from pulsewarp.bench.measurement import (
    MeasuredDevice,  # noqa: F401  # so is this one's
    TimedProduct,
    in_words,
    with_prefix,
)
from pulsewarp.matmul import Matmul

SPLITS = ("rows", "columns", "contraction")


@dataclass(frozen=True, kw_only=True, repr=False)
class ShardedMeasurement(TimedProduct, kind="sharded"):
    """One matrix product split over several devices; see `Timed` and `TimedProduct` for the other fields.

    Each device holds a share of the factors and makes a share of the work. ``rows`` splits A and the result
    by rows, ``columns`` splits B and the result by columns: neither needs an exchange. ``contraction`` splits
    both factors along k, so that each device has a sum of its own for every element, and these must be added.
    `relative_error` is the worst of all shares that this process could see, `error_rows` are of all together.

    Parameters
    ----------
    split : {"rows", "columns", "contraction"}
        What of the whole product, `matmul`, is cut into as many shares as there are devices.
    gather : bool
        Whether every device has the whole result in the end; otherwise each keeps a share of it.
    devices, processes : int
        Devices it was split over, and processes that drove them.
    collectives : tuple of Collective, or None
        Those in the optimised program, in its order; None where its text could not be read.
    local_seconds : tuple of float
        The same local products on the same devices without any exchange, one after each of `seconds`;
        empty where that was not measured.

    Raises
    ------
    ValueError
        When a field cannot be true.

    Examples
    --------
    >>> run = ShardedMeasurement(
    ...     matmul=Matmul(512, 512, 512, "fp32"), split="contraction", gather=True, devices=4, processes=1,
    ...     device=MeasuredDevice("gpu", "Example GPU", None, 1, "Example CPU", 16), clock="call",
    ...     precision="highest", precision_in_program="highest", seconds=(2e-4, 2e-4, 2e-4),
    ...     local_seconds=(1e-4, 1.5e-4, 1e-4), collectives=(Collective("all-reduce", 2**20, 4),),
    ...     products_per_repeat=1, compile_seconds=0.1, warmup_calls=3, relative_error=1e-7, error_rows=64,
    ...     seed=0, versions={"jax": "0.7.2"}, when="2026-12-01T12:00:00+00:00")
    >>> run.collective, run.bytes_sent, run.communication_share
    ('all-reduce', 1572864, 0.5)
    >>> run.local.k
    128
    """

    split: str
    gather: bool
    devices: int
    processes: int
    collectives: tuple[Collective, ...] | None
    local_seconds: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("split", self.split, SPLITS)
        whole_number("devices", self.devices)
        whole_number("processes", self.processes, most=self.devices)
        local_product(self.matmul, self.split, self.devices)
        if self.collectives is not None:
            object.__setattr__(self, "collectives", tuple(self.collectives))
        local = tuple(
            positive_number(f"local_seconds[{i}]", value) for i, value in enumerate(self.local_seconds)
        )
        object.__setattr__(self, "local_seconds", local)
        if local and len(local) != len(self.seconds):
            raise ValueError(
                f"local_seconds has {len(local)} entries and seconds has {len(self.seconds)}, "
                "but each is measured beside one of the other."
            )

    @property
    def local(self) -> Matmul:
        """The product that each device makes."""
        return local_product(self.matmul, self.split, self.devices)

    @property
    def collective(self) -> str:
        """The names of the collectives, ``"none"`` or ``"unknown"``."""
        if self.collectives is None:
            return "unknown"
        return " + ".join(dict.fromkeys(each.name for each in self.collectives)) or "none"

    @property
    def needed(self) -> str:
        """The collective that this split needs; the compiler may have chosen another way."""
        return needed_collective(self.split, self.gather, self.devices)

    @property
    def bytes_sent(self) -> int | None:
        """Bytes that each device sends for one product, by the ring's cost; None where unknown."""
        sent = [each.bytes_sent for each in self.collectives or ()]
        if self.collectives is None or None in sent:
            return None
        return sum(each for each in sent if each is not None)

    @property
    def communication_seconds(self) -> float | None:
        """What the exchange adds to one product: median difference to the local products beside it.

        Zero where there is no collective. None where it was not measured, or where a quarter of the
        differences or more are not above zero: then it is not to be told from the spread. What overlaps
        with computing adds nothing and is not seen.
        """
        if self.collectives == ():
            return 0.0
        if not self.local_seconds:
            return None
        added = np.subtract(self.seconds, self.local_seconds)
        return float(np.median(added)) if np.quantile(added, 0.25) > 0 else None

    @property
    def communication_share(self) -> float | None:
        """`communication_seconds` as a fraction of the median time; None where that is None."""
        added = self.communication_seconds
        return None if added is None else added / self.median

    @property
    def is_one_cpu(self) -> bool:
        """Whether a process had several devices that are parts of one CPU, which share its cores."""
        return self.device.platform == "cpu" and self.devices > self.processes

    @property
    def title(self) -> str:
        """The product, and how it is split."""
        over = f"{self.split} over {counted(self.devices, 'device')}"
        over += f" of {self.processes} processes" if self.processes > 1 else ""
        return f"{in_words(self.matmul, stored=self.stored)}, {over}{', gathered' if self.gather else ''}"

    @property
    def facts(self) -> tuple[str, ...]:
        """Rate of all devices together, precision, error and what was exchanged."""
        return (*super().facts, f"each device: {in_words(self.local)}; {self._exchange()}")

    def _exchange(self) -> str:
        if not self.collectives:
            return "no collective" if self.collectives == () else "collective unknown"
        arrays = with_prefix(max(each.array_bytes for each in self.collectives), "B")
        text = f"{self.collective} of {arrays}"
        if self.bytes_sent is not None:
            text += f", {with_prefix(self.bytes_sent, 'B')} sent by each in a ring"
        if self.communication_share is None:
            why = "not to be told from the spread" if self.local_seconds else "not measured"
            return f"{text}; its share of the time is {why}"
        return f"{text}; {self.communication_share:.0%} of the time"


def local_product(matmul: Matmul, split: str, devices: int) -> Matmul:
    """Return the product that each of several devices makes.

    Parameters
    ----------
    matmul : Matmul
        The whole product.
    split : {"rows", "columns", "contraction"}
        What is cut.
    devices : int
        Into how many shares.

    Returns
    -------
    Matmul

    Raises
    ------
    ValueError
        When the size that is cut is no multiple of `devices`.

    Examples
    --------
    >>> local_product(Matmul(100, 30, 30), "rows", 8)
    Traceback (most recent call last):
    ...
    ValueError: m is 100, but rows over 8 devices need a multiple of 8; take 96 or 104.
    """
    name = {"rows": "m", "columns": "n", "contraction": "k"}[choice("split", split, SPLITS)]
    sizes = {"m": matmul.m, "k": matmul.k, "n": matmul.n}
    sizes[name] = share(name, sizes[name], split, devices)
    return Matmul(**sizes, dtype=matmul.dtype)


def share(name: str, size: int, what: str, devices: int) -> int:
    """Return one device's share of a size.

    Parameters
    ----------
    name : str
        Of the size.
    size : int
        The whole.
    what : str
        What is shared, for the sentence of an error.
    devices : int
        Among how many.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        When the size is no multiple of `devices`.

    Examples
    --------
    >>> share("m", 96, "rows", 8)
    12
    """
    below, above = size - size % devices, size + -size % devices
    if below != above:
        near = f"{below} or {above}" if below else f"{above}"
        raise ValueError(
            f"{name} is {size}, but {what} over {devices} devices need a multiple of {devices}; take {near}."
        )
    return size // devices


def needed_collective(split: str, gather: bool, devices: int) -> str:
    """Return the collective that a split needs in principle.

    Parameters
    ----------
    split : {"rows", "columns", "contraction"}
        What is cut.
    gather : bool
        Whether every device is to have the whole result.
    devices : int
        Into how many shares.

    Returns
    -------
    str
        ``"none"``, ``"all-gather"``, ``"all-reduce"`` or ``"reduce-scatter"``.

    Examples
    --------
    >>> [needed_collective(split, False, 8) for split in SPLITS]
    ['none', 'none', 'reduce-scatter']
    >>> [needed_collective(split, True, 8) for split in SPLITS]
    ['all-gather', 'all-gather', 'all-reduce']
    """
    choice("split", split, SPLITS)
    if devices == 1:
        return "none"
    if split == "contraction":
        return "all-reduce" if gather else "reduce-scatter"
    return "all-gather" if gather else "none"
