"""Many products, one after the other; what is measured stays."""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Callable, Iterable, Sequence

from pulsewarp._checks import names_keywords, positive_number, several, whole_number
from pulsewarp.bench.live._observe import devices
from pulsewarp.bench.live.timing import time_matmul
from pulsewarp.bench.measurement import Measurement


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
    sizes: Iterable[int | Sequence[int]] | None = None,
    *,
    dtype: str = "float32",
    precision: str | None = None,
    repeats: int | None = None,
    clock: str = "device",
    seed: int = 0,
    budget_seconds: float = 60.0,
    progress: Callable[[Measurement], object] | None = None,
) -> list[Measurement]:
    """Time one product after the other, and keep what is measured whatever happens.

    An interrupt, a spent budget or a device that fails ends the sweep with a warning and returns what is
    there; a size that does not fit into memory is named in a warning and left out.

    Parameters
    ----------
    sizes : iterable of int or (m, k, n), optional
        A number means a square product. Left out: `default_sizes` of the device.
    dtype, precision, repeats, clock, seed
        As for `time_matmul`.
    budget_seconds : float
        After so many seconds no further product is begun; the first one always is.
    progress : callable, optional
        Called with each Measurement as soon as it is there.

    Returns
    -------
    list of Measurement
        In the order of `sizes`.

    Raises
    ------
    ValueError
        A size that is neither a whole number nor three of them, before anything is measured.

    Examples
    --------
    >>> [run.matmul.m for run in sweep([16, (32, 8, 8)], repeats=2)]
    [16, 32]
    """
    positive_number("budget_seconds", budget_seconds)
    if sizes is None:
        sizes = default_sizes(devices().platform or "cpu")
    if progress is not None and not callable(progress):
        raise TypeError(
            f"progress is {progress!r}, but must be a function of one Measurement, such as print."
        )
    shapes = [_triple(size) for size in several("sizes", sizes, "write [256, 512] or [(m, k, n)]")]
    measure = functools.partial(
        time_matmul, dtype=dtype, precision=precision, repeats=repeats, clock=clock, seed=seed
    )
    found: list[Measurement] = []
    start = time.perf_counter()
    try:
        for shape in shapes:
            if found and time.perf_counter() - start > budget_seconds:
                _warn(
                    f"Stopped after {budget_seconds:g} s with {len(found)} of {len(shapes)} products "
                    "measured; raise budget_seconds for more."
                )
                break
            try:
                run = measure(*shape)
            except MemoryError as error:
                _warn(f"Left out: {error}")
                continue
            except Exception as error:
                if not found:
                    raise
                _warn(f"Stopped at {shape}: {error} {len(found)} of {len(shapes)} products are kept.")
                break
            found.append(run)
            if progress is not None:
                progress(run)
    except KeyboardInterrupt:
        _warn(f"Interrupted: {len(found)} of {len(shapes)} products were measured and are kept.")
    return found


def _triple(size: int | Sequence[int]) -> tuple[int, int, int]:
    parts = tuple(size) if isinstance(size, tuple | list) else (size, size, size)
    if len(parts) != 3:
        raise ValueError(f"A size is {size!r}, but must be one whole number or three (m, k, n).")
    m, k, n = (whole_number("a size", part) for part in parts)
    return m, k, n


def _warn(sentence: str) -> None:
    warnings.warn(sentence, RuntimeWarning, stacklevel=3)
