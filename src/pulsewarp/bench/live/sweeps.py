"""Many products, one after the other; what is measured stays."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pulsewarp import chips
from pulsewarp._checks import choice, names_keywords, positive_number, several, whole_number
from pulsewarp.bench import card, shapes
from pulsewarp.bench.live import timing
from pulsewarp.bench.live._dtypes import TIMED_DTYPES, catalogue_dtype
from pulsewarp.bench.live._observe import devices
from pulsewarp.bench.live._runs import Planned, Runs, file_to_write, told_by
from pulsewarp.bench.live.timing import time_matmul
from pulsewarp.bench.measurement import PRECISIONS, Measurement
from pulsewarp.bench.shapes import Shape, ShapeList
from pulsewarp.matmul import Matmul

Sizes = str | ShapeList | Iterable[int | Sequence[int] | Shape]

KINDS = ("square", "thin", "staircase", "dtypes")
"""Sweeps by name; the models of `pulsewarp.bench.shapes` are others."""


@names_keywords
def default_sizes(platform: str) -> tuple[int, ...]:
    """Return the square sizes that `sweep` takes when none are given.

    Parameters
    ----------
    platform : str
        JAX's platform name.

    Returns
    -------
    tuple of int
        Up to 2048 on a CPU, where larger products take minutes on a small machine; up to 8192
        elsewhere, where smaller ones would measure the launch alone.

    Examples
    --------
    >>> default_sizes("cpu")
    (64, 128, 256, 512, 1024, 2048)
    """
    return tuple(2**power for power in (range(6, 12) if platform == "cpu" else range(8, 14)))


@names_keywords
def sweep(
    sizes: Sizes | None = None,
    *,
    dtype: str | Iterable[str] | None = None,
    precision: str | Iterable[str] | None = None,
    repeats: int | None = None,
    clock: str = "device",
    seed: int = 0,
    budget_seconds: float = 60.0,
    memory_bytes: int | None = None,
    progress: Callable[[Measurement], object] | None = None,
    bar: bool | None = None,
    out: str | os.PathLike[str] | None = None,
) -> list[Measurement]:
    """Time one product after the other, and keep what is measured whatever happens.

    An interrupt at any moment, a spent budget, a full disk or a device that fails ends in a warning, and what
    was measured is returned. A product that does not fit into memory, and a dtype or precision that the
    device refuses, is named in a warning and left out. With `out` even a killed process loses nothing.

    Parameters
    ----------
    sizes : str, ShapeList or iterable, optional
        What to time. Numbers mean square products, (m, k, n) any; a list of `pulsewarp.bench.shapes` is
        taken as it is, equal shapes once. By name: ``"square"``, the same as None, `default_sizes` of the
        device; ``"thin"``, batches of 1 to 4096 through one matrix; ``"staircase"``, multiples of a matrix
        unit and one above, on a GPU also whole waves and one tile more; ``"dtypes"``, one size in every
        dtype and precision; or one of ``shapes.MODELS``, with fewer tokens on a CPU.
    dtype, precision : str or iterable of str, optional
        As for `time_matmul`; of several, each product is timed in each. Left out: float32 at JAX's setting.
    repeats, clock, seed
        As for `time_matmul`.
    budget_seconds : float
        After so many seconds no further product is begun; the first one always is.
    memory_bytes : int, optional
        A product that would take more, operands and results on device and host, is left out. The free memory
        is a limit in any case.
    progress : callable, optional
        Called with each Measurement as soon as it is there.
    bar : bool, optional
        Whether to show a bar. Left out: in a notebook and on a terminal, not in a pipe; ``TQDM_DISABLE=1`` in
        the environment hides it too.
    out : path, optional
        A file of the form that `pulsewarp.bench.load` reads, written anew after each measurement.

    Returns
    -------
    list of Measurement
        In the order of `sizes`, for each of them in the order of dtypes, then precisions.

    Raises
    ------
    ValueError
        A size that is neither a whole number nor three of them, before anything is measured; and a dtype or
        precision that cannot be timed, when nothing else could be.
    FileNotFoundError, IsADirectoryError
        `out` is in no folder that exists, or is a folder.

    Warns
    -----
    RuntimeWarning
        Of what was left out or could not be written, and of what ended it early: an `InterruptedWarning`,
        where that was an interrupt.

    Examples
    --------
    >>> [run.matmul.m for run in sweep([16, (32, 8, 8)], repeats=2)]
    [16, 32]
    """
    budget_seconds = positive_number("budget_seconds", budget_seconds)
    if memory_bytes is not None:
        memory_bytes = whole_number("memory_bytes", memory_bytes)
    told_by(progress, "Measurement")
    target = None if out is None else file_to_write(out)
    products = _products(sizes, dtype, precision)
    options = {"repeats": repeats, "clock": clock, "seed": seed}
    planned = [
        Planned(str(each), str(each.shape), functools.partial(_time, each, memory_bytes, options))
        for each in products
    ]
    return Runs("product", planned, budget_seconds, progress, target).make(bar)


@dataclass(frozen=True)
class _Product:
    shape: Shape
    dtype: str
    precision: str | None

    def __str__(self) -> str:
        at = "" if self.precision is None else f" at {self.precision}"
        return f"{self.shape} {self.dtype}{at}"


def _time(product: _Product, memory_bytes: int | None, options: Mapping[str, Any]) -> Measurement:
    _fits(product, memory_bytes)
    (batch, m, k, n), dtype, precision = product.shape.sizes, product.dtype, product.precision
    return time_matmul(m, k, n, dtype=dtype, precision=precision, batch=batch, **options)


def _fits(product: _Product, memory_bytes: int | None) -> None:
    if memory_bytes is None:
        return
    shape = product.shape
    matmul = Matmul(shape.m, shape.k, shape.n, catalogue_dtype(product.dtype))
    needed = sum(timing._needs(matmul, shape.batch))
    if needed > memory_bytes:
        raise MemoryError(
            f"Timing {product} needs about {needed / 2**20:.0f} MiB, but memory_bytes is "
            f"{memory_bytes / 2**20:.0f} MiB; raise it, or take a smaller product."
        )


# --- what to time -----------------------------------------------------------------------------------------


def _products(
    sizes: Sizes | None,
    dtype: str | Iterable[str] | None,
    precision: str | Iterable[str] | None,
) -> tuple[_Product, ...]:
    """Return the products to time: each shape in each dtype, in each precision."""
    listed = _shapes(sizes)
    every = isinstance(sizes, str) and sizes == "dtypes"
    dtypes = _words("dtype", dtype) or (TIMED_DTYPES if every else ("float32",))
    asked: tuple[str | None, ...] = _words("precision", precision)
    pairs = [(each, level) for each in dtypes for level in asked or (_precisions(each) if every else (None,))]
    products = [_Product(shape, *pair) for shape in listed for pair in pairs]
    if isinstance(listed, ShapeList):  # a model's layers repeat their shapes
        products = list(
            {
                (product.shape.sizes, product.dtype, product.precision): product for product in products
            }.values()
        )
    return tuple(products)


def _precisions(dtype: str) -> tuple[str, ...]:
    """Precisions that differ: of the factors' types only float32 has several."""
    return PRECISIONS if dtype == "float32" else ("default",)


def _words(name: str, asked: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return what was asked for as several words, none where it was left out."""
    if asked is None or isinstance(asked, str):
        return () if asked is None else (asked,)
    words = several(name, asked, f'write {name}="..." or several of them')
    if not words:
        raise ValueError(f"{name} is empty, but needs at least one word; leave it out for the usual one.")
    return words


def _shapes(sizes: Sizes | None) -> Sequence[Shape] | ShapeList:
    if isinstance(sizes, ShapeList):
        return sizes
    if sizes is None or isinstance(sizes, str):
        return _by_name("square" if sizes is None else sizes)
    listed = several("sizes", sizes, "write [256, 512] or [(m, k, n)]")
    return [size if isinstance(size, Shape) else _shape(size) for size in listed]


def _shape(size: int | Sequence[int]) -> Shape:
    parts = tuple(size) if isinstance(size, tuple | list) else (size, size, size)
    if len(parts) != 3:
        raise ValueError(f"A size is {size!r}, but must be one whole number or three (m, k, n).")
    m, k, n = (whole_number("a size", part) for part in parts)
    return Shape(m, k, n)


# Rows of a model on a CPU, where those of `shapes.of_model` would take minutes.
_ROWS_ON_CPU = {**dict.fromkeys(shapes.LLAMA, 16), **dict.fromkeys(shapes.BERT, 128)}


def _by_name(kind: str) -> ShapeList:
    choice("sweep", kind, (*KINDS, *shapes.MODELS))
    seen = devices()
    on_cpu = seen.platform in (None, "cpu")
    if kind in shapes.MODELS:
        return shapes.of_model(kind, _ROWS_ON_CPU.get(kind) if on_cpu else None)
    if kind == "thin":
        return shapes.thin(1024 if on_cpu else 4096)
    if kind == "staircase":
        return _staircase(seen, (1, 2, 4, 8) if on_cpu else (1, 2, 4, 8, 16, 32))
    if kind == "dtypes":
        return shapes.squares([512 if on_cpu else 4096])  # int8 is slow on a CPU, see `errors.remarks`
    return shapes.squares(default_sizes(seen.platform or "cpu"))


def _staircase(seen: card.DeviceCard, multiples: tuple[int, ...]) -> ShapeList:
    """Multiples of the chip's matrix unit and one above; on a GPU also whole waves, and a tile more."""
    chip = None if seen.chip is None else chips.get(seen.chip)
    gpu = seen.platform == "gpu"
    unit = 128 if chip is None or gpu or chip.matrix_unit_shape is None else max(chip.matrix_unit_shape)
    steps = shapes.staircase(unit, multiples)
    if not gpu or chip is None or chip.cores is None or seen.devices_per_chip != 1:
        return steps
    waves = shapes.waves(chip.cores, k=1024, rounds=(1, 2, 3))
    return ShapeList(f"{steps.title}; {waves.title}", (*steps.shapes, *waves.shapes))
