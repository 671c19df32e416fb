"""What stands beside a time: the error against float64, the precision found, the remarks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ERROR_ROWS = 64


def relative_error(
    left: NDArray[Any], right: NDArray[Any], result: NDArray[Any], seed: int
) -> tuple[float, int]:
    """Compare sampled rows of a result with the product of the same factors in float64.

    Parameters
    ----------
    left, right, result : ndarray
        Factors as the device had them, (m, k) and (k, n), and its result (m, n).
    seed : int
        Of the sample.

    Returns
    -------
    (float, int)
        ``norm(result - exact) / norm(exact)`` in the Frobenius norm, and the rows compared: all
        of them up to 64. Where the exact rows are all zero, the norm of the difference.

    Examples
    --------
    >>> one = np.ones((2, 2))
    >>> relative_error(one, one, np.full((2, 2), 2.5), seed=0)
    (0.25, 2)
    """
    m, n = result.shape
    count = min(m, _ERROR_ROWS)
    rows = np.sort(np.random.default_rng(seed).choice(m, count, replace=False))
    exact_rows = left[rows].astype(np.float64)
    squares = np.zeros(2)
    for start in range(0, n, 256):  # in slices: the right factor in float64 could be the largest array of all
        columns = slice(start, start + 256)
        exact = exact_rows @ right[:, columns].astype(np.float64)
        difference = result[rows, columns].astype(np.float64) - exact
        squares += np.sum(difference**2), np.sum(exact**2)
    difference_norm, exact_norm = np.sqrt(squares)
    return float(difference_norm / (exact_norm or 1.0)), count


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
    # Rounding factors to 8 bits of significand gives about 2e-3, to 11 bits about 3e-4, and a float32
    # product stays below 1e-5 at any size that fits; three passes of bfloat16 also stay below 5e-5.
    if dtype == "fp32" and error > 5e-5:
        like = "bfloat16" if error > 1e-3 else "TF32"
        found.append(
            f"An error of {error:.1e} is what factors rounded to {like} give: this was not a float32 product."
        )
    third = len(seconds) // 3
    if third >= 2:
        ratio = float(np.median(seconds[-third:]) / np.median(seconds[:third]))
        if not 0.9 < ratio < 1.1:
            word = "slower" if ratio > 1 else "faster"
            found.append(
                f"The run drifted: its last third was {abs(ratio - 1):.0%} {word} than its first; "
                "the device was throttled, shared or not yet warm."
            )
    return tuple(found)
