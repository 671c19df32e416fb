"""What stands beside a time: the error against float64, the precision found, the remarks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pulsewarp import chips
from pulsewarp.bench.live._clock import unsteady
from pulsewarp.bench.measurement import with_prefix
from pulsewarp.bench.rounding import rounded_like

_ERROR_ROWS = 64


class Accuracy(NamedTuple):
    """A result beside the product of the same factors in float64."""

    error: float
    """``norm(result - exact) / norm(exact)`` in the Frobenius norm, over the rows compared."""
    rows: int
    """How many they are."""
    cancellation: float
    """Root of the sum of squares of all products a[i, k] b[k, j] over the norm of the exact result."""


def compare(left: NDArray[Any], right: NDArray[Any], result: NDArray[Any], seed: int) -> Accuracy:
    """Compare sampled rows of a result with the product of the same factors in float64.

    Parameters
    ----------
    left, right, result : ndarray
        Factors as the device had them, (m, k) and (k, n), and its result (m, n); of a batch, one more axis
        in front.
    seed : int
        Of the sample.

    Returns
    -------
    Accuracy
        Of all rows up to 64, of a batch together. Where the exact rows are all zero, its error is the norm of
        the difference and its cancellation is 1.

    Examples
    --------
    >>> one = np.ones((2, 2))
    >>> compare(one, one, np.full((2, 2), 2.5), seed=0)
    Accuracy(error=0.25, rows=2, cancellation=0.7071067811865476)
    """
    left, right, result = (each if each.ndim == 3 else each[None] for each in (left, right, result))
    batch, m, _ = result.shape
    count = min(batch * m, _ERROR_ROWS)
    chosen = np.sort(np.random.default_rng(seed).choice(batch * m, count, replace=False))
    squares = np.zeros(3)
    for which in np.unique(chosen // m):
        rows = chosen[chosen // m == which] % m
        squares += _squares(left[which][rows], right[which], result[which][rows])
    difference, exact, products = np.sqrt(squares)
    cancellation = products / exact if exact and products else 1.0
    return Accuracy(float(difference / (exact or 1.0)), count, float(cancellation))


def _squares(left: NDArray[Any], right: NDArray[Any], result: NDArray[Any]) -> NDArray[np.float64]:
    """Sum the squares of the result less the exact product, of the exact product, of all single products."""
    left = left.astype(np.float64)
    left_squares = np.sum(left**2, axis=0)
    squares = np.zeros(3)
    # In slices: the right factor in float64 could be the largest array of all.
    for start in range(0, result.shape[1], 256):
        columns = slice(start, start + 256)
        wide = right[:, columns].astype(np.float64)
        exact = left @ wide
        difference = result[:, columns].astype(np.float64) - exact
        products = left_squares @ np.sum(wide**2, axis=1)
        squares += np.sum(difference**2), np.sum(exact**2), products
    return squares


def relative_error(
    left: NDArray[Any], right: NDArray[Any], result: NDArray[Any], seed: int
) -> tuple[float, int]:
    """Return the error and the rows of `compare`.

    Parameters
    ----------
    left, right, result, seed
        As there.

    Returns
    -------
    (float, int)

    Examples
    --------
    >>> one = np.ones((2, 2))
    >>> relative_error(one, one, np.full((2, 2), 2.5), seed=0)
    (0.25, 2)
    """
    found = compare(left, right, result, seed)
    return found.error, found.rows


def precision_of(program_text: str) -> str:
    """Read the precision that a compiled program carries.

    Parameters
    ----------
    program_text : str
        Optimised HLO, followed by the StableHLO that it was made from: where the compiler put a
        call into a library in place of a product, only the latter still names the precision.

    Returns
    -------
    str
        In lower case; ``"default"`` when the program names none, as HLO leaves that one out.

    Examples
    --------
    >>> precision_of("dot(%a, %b), operand_precision={highest,highest}")
    'highest'
    """
    found = re.search(r'operand_precision"?\s*[=:]\s*[\[{]"?(\w+)', program_text) or re.search(
        r"\bprecision = \[(\w+)", program_text
    )
    return found.group(1).lower() if found else "default"


def remarks(dtype: str, platform: str, kind: str, error: float, seconds: Sequence[float]) -> tuple[str, ...]:
    """Return the sentences that must stand beside a measured number.

    Parameters
    ----------
    dtype, platform, kind : str
        What was multiplied, and on what.
    error : float
        Relative error against float64.
    seconds : sequence of float
        The repeats, in order.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> remarks("fp32", "gpu", "NVIDIA H100 80GB HBM3", 3e-4, (1e-3,) * 6)
    ('An error of 3.0e-04 is what factors rounded to TF32 give: this was not a float32 product.',)
    """
    found = []
    if dtype == "int8" and platform == "cpu":
        found.append("int8 on a CPU depends on XLA's version and is not representative of an accelerator.")
    like = rounded_like(error) if dtype == "fp32" else "fp32"
    if like != "fp32":
        name = {"tf32": "TF32", "bf16": "bfloat16"}[like]
        found.append(
            f"An error of {error:.1e} is what factors rounded to {name} give: this was not a float32 product."
        )
    return (*found, *unsteady(seconds))


def beyond(error: float, bound: float | None, dtype: str, precision: str) -> tuple[str, ...]:
    """Say when an error is larger than what is expected.

    Parameters
    ----------
    error, bound : float
        Relative error, and what it should not exceed or None.
    dtype, precision : str
        What was multiplied, and how.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> beyond(2e-5, 3e-6, "fp32", "highest")
    ('The error of 2.0e-05 exceeds the 3.0e-06 that fp32 at precision highest should stay within here.',)
    """
    if bound is None or error <= bound:
        return ()
    return (
        f"The error of {error:.1e} exceeds the {bound:.1e} that {dtype} at precision {precision} "
        "should stay within here.",
    )


def beyond_peak(rate: float, dtype: str, chip: str | None, devices_per_chip: int) -> tuple[str, ...]:
    """Say when a rate is above what the chip can do, so that the time cannot be right.

    Parameters
    ----------
    rate : float
        Operations in a second.
    dtype : str
        Of the factors. A chip may multiply them as a narrower float, so the fastest of these is its peak.
    chip : str or None
        Catalogue id.
    devices_per_chip : int
        A device has so small a part of the chip's peak.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> beyond_peak(1e15, "bf16", "tpu_v5e", 1)[0].split(",")[0]
    '1.00 PFLOP/s is more than the 197 TFLOP/s that the catalogue gives as the peak of this device'
    """
    if chip is None:
        return ()
    peaks = chips.get(chip).peak_flops_per_second
    alike = {"fp32": ("fp32", "tf32", "bf16", "fp16"), "bf16": ("bf16", "fp16"), "fp16": ("fp16", "bf16")}
    known = [peaks[name] / devices_per_chip for name in alike.get(dtype, (dtype,)) if name in peaks]
    if not known or rate <= 1.05 * max(known):
        return ()
    unit = "OP/s" if dtype.startswith("int") else "FLOP/s"
    return (
        f"{with_prefix(rate, unit)} is more than the {with_prefix(max(known), unit)} that the catalogue "
        "gives as the peak of this device, so this time is not to be trusted: perhaps the call did not wait "
        "for its result.",
    )
