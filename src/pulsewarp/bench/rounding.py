"""What a product's relative error should be, and what an error says about the arithmetic that made it.

Documented, and taken over here: in which arithmetic a device multiplies float32 at each of JAX's precisions
(the docstring of ``jax.lax.Precision`` in jax 0.7.2 and 0.12.0.1, read 2026-12-01). On a CPU it is always
float32. A GPU takes TF32 where it has it at ``"default"`` and ``"high"``, float32 at ``"highest"``. A TPU
takes one, three or six passes of bfloat16.
"""

from __future__ import annotations

import math

from pulsewarp._checks import choice, names_keywords, positive_number, whole_number
from pulsewarp.bench.measurement import PRECISIONS
from pulsewarp.numerics import BF16_UNIT, FLOAT32_UNIT

TF32_UNIT = 2.0**-11
"""Rounding to TF32 or to float16 changes a value by at most this fraction of it: 11 significant bits."""

_RESULT_UNITS = {"fp32": 0.0, "bf16": BF16_UNIT, "fp16": TF32_UNIT, "fp8": BF16_UNIT}
_TPU_PASSES = {
    "default": 2 * BF16_UNIT + BF16_UNIT**2,
    "high": 3 * BF16_UNIT**2 + BF16_UNIT**4,
    "highest": 2 * BF16_UNIT**3 + BF16_UNIT**4,
}


@names_keywords
def expected_error(
    dtype: str, precision: str, platform: str, k: int, cancellation: float = 1.0
) -> float | None:
    """Return what the relative error of a product of random factors should not exceed.

    Modelled: rounding of the factors by the precision, of k float32 additions one after the other, and of
    the result on its way out. Not modelled: sums in fewer bits than float32 has, as the fp8 units of one
    GPU generation are reported to make them; such an error exceeds what is expected, and is told.

    Parameters
    ----------
    dtype : str
        Catalogue name of the factors' type.
    precision : {"default", "high", "highest"}
        JAX's; it matters for float32 only.
    platform : str
        JAX's name, such as ``"gpu"``.
    k : int
        Length of the sums.
    cancellation : float
        Root of the sum of squares of all products a[i, k] b[k, j] over the norm of the exact result: about 1
        for random factors, more where the products cancel each other.

    Returns
    -------
    float or None
        For ``norm(result - exact) / norm(exact)``; None for a dtype or platform that nothing documents.

    Notes
    -----
    ``r + (d + 2 u (1 + sqrt(k / 2))) c`` with u = 2**-24 the rounding of float32, r that of the result
    (2**-8 for bfloat16, 2**-11 for float16), c the cancellation, and d what the precision leaves out: nothing
    in float32, 2 v + v**2 in TF32 (v = 2**-11) and in one pass of bfloat16 (v = 2**-8), 3 v**2 + v**4 in
    three passes, 2 v**3 + v**4 in six, as `pulsewarp.numerics.multiply` has them. r and d hold for any
    rounding. The sum's part grows with the root of k, as it does when roundings are independent with mean
    zero (I. C. F. Ipsen, H. Zhou, "Probabilistic error analysis for inner products", arXiv:1906.10465,
    abstract read 2026-12-01): the j-th addition changes a sum of j products, whose root mean square is
    sqrt(j) of theirs, by at most u of it; the squares of k such changes add up to u**2 k**2 / 2, and the
    sum's own square is k.
    The factor 2 covers results of few elements. Worst-case bounds grow with k itself and would hide a
    product that is not float32 at all.

    Examples
    --------
    >>> [f"{expected_error('fp32', 'highest', platform, 1024):.1e}" for platform in ("cpu", "gpu", "tpu")]
    ['2.8e-06', '2.8e-06', '2.9e-06']
    >>> [f"{expected_error('fp32', 'default', platform, 1024):.1e}" for platform in ("cpu", "gpu", "tpu")]
    ['2.8e-06', '9.8e-04', '7.8e-03']
    >>> expected_error("int8", "default", "gpu", 1024)
    0.0
    """
    choice("precision", precision, PRECISIONS)
    k = whole_number("k", k)
    cancellation = positive_number("cancellation", cancellation)
    if dtype == "int8":
        return 0.0
    if dtype not in _RESULT_UNITS or platform not in ("cpu", "gpu", "tpu"):
        return None
    left_out = 0.0
    if dtype == "fp32" and platform == "tpu":
        left_out = _TPU_PASSES[precision]
    elif dtype == "fp32" and platform == "gpu" and precision != "highest":
        left_out = 2 * TF32_UNIT + TF32_UNIT**2
    sums = 2 * FLOAT32_UNIT * (1 + math.sqrt(k / 2))
    return _RESULT_UNITS[dtype] + (left_out + sums) * cancellation


@names_keywords
def rounded_like(error: float) -> str:
    """Return to which type factors of float32 were rounded, judged by the relative error of their product.

    Parameters
    ----------
    error : float
        Against float64, of a product of random float32 factors stored as float32.

    Returns
    -------
    {"fp32", "tf32", "bf16"}
        Rounding to 8 significant bits gives about 2e-3, to 11 bits about 3e-4 (both tried in the tests);
        float32 stays below 1e-5 at any size that fits, and three passes of bfloat16 below 5e-5.

    Examples
    --------
    >>> [rounded_like(error) for error in (4e-7, 3e-4, 2e-3)]
    ['fp32', 'tf32', 'bf16']
    """
    error = positive_number("error", error, zero=True)
    return "fp32" if error <= 5e-5 else "tf32" if error <= 1e-3 else "bf16"
