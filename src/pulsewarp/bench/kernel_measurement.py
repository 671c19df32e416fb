"""A timed kernel that is no matrix product, as a value.

On disk a row of the kind ``"kernel"`` of the form that `pulsewarp.bench.measurement` describes, with these
fields beside those of every kind:

==================== ============================================================================
``name``             what was timed, such as ``"softmax"`` or ``"copy"``
``size``             elements it works on, see the kernel's description
``dtype``            catalogue name of their type, such as ``"fp32"``
``operations``       arithmetic operations, or null where no count is agreed upon (exp, tanh, sort)
``bytes_moved``      compulsory bytes, see `KernelMeasurement`
``relative_error``   of the whole result against NumPy in float64
``error_bound``      what rounding explains of it, or null
``compilations``     programs compiled during the timed repeats, or null where JAX did not tell
``seed``             of the random input
==================== ============================================================================
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: F401  # inherited fields' annotations are resolved in this module,
from dataclasses import dataclass

from pulsewarp._checks import choice, positive_number, whole_number
from pulsewarp.bench.measurement import MeasuredDevice, Timed, with_prefix  # noqa: F401  # so is this one's
from pulsewarp.matmul import BYTES


@dataclass(frozen=True, kw_only=True, repr=False)
class KernelMeasurement(Timed, kind="kernel"):
    """One kernel that is no matrix product, timed many times on one device.

    The bytes are the compulsory ones: each input element that the result needs is read once, each element
    of the result is written once, an index counts with its own bytes, and nothing else is charged: no
    intermediate array, no second pass, no unused part of a cache line, no reading of what is about to be
    overwritten. A share of the memory roof by these bytes is therefore what a user gets for the work they
    asked for, and a kernel that needs several passes shows it as a lower share.

    Parameters
    ----------
    name : str
        What was timed.
    size : int
        Elements it works on.
    dtype : str
        Catalogue name of their type.
    operations : int or None
        Arithmetic operations; None where no count is agreed upon.
    bytes_moved : int
        Compulsory bytes.
    relative_error : float
        ``norm(result - exact) / norm(exact)`` over the whole result, exact by NumPy in float64.
    error_bound : float or None
        What rounding explains of it; 0 where the result must be exact.
    compilations : int or None
        Programs compiled during the timed repeats: 0 unless compiling is what is timed. None where JAX
        did not tell.
    seed : int
        Of the random input.

    Raises
    ------
    ValueError
        When a field cannot be true.

    Examples
    --------
    >>> from pulsewarp.bench.measurement import MeasuredDevice
    >>> cpu = MeasuredDevice("cpu", "cpu", None, 1, "Example CPU", 2)
    >>> run = KernelMeasurement(
    ...     name="sort", size=1_000_000, dtype="fp32", operations=None, bytes_moved=8_000_000,
    ...     device=cpu, clock="device", seconds=(4e-2, 4e-2, 5e-2), products_per_repeat=2,
    ...     compile_seconds=0.1, warmup_calls=3, relative_error=0.0, error_bound=0.0, compilations=0, seed=0,
    ...     versions={"jax": "0.7.2"}, when="2026-11-30T12:00:00+00:00")
    >>> run.bytes_per_second, run.share_of(10e9)
    (200000000.0, 0.02)
    """

    name: str
    size: int
    dtype: str
    operations: int | None = None
    bytes_moved: int
    relative_error: float
    error_bound: float | None = None
    compilations: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.name, str) or not self.name.strip():
            raise ValueError(f"name is {self.name!r}, but must be a text that is not empty.")
        choice("dtype", self.dtype, BYTES)
        whole_number("size", self.size)
        whole_number("bytes_moved", self.bytes_moved)
        if self.operations is not None:
            whole_number("operations", self.operations)
        positive_number("relative_error", self.relative_error, zero=True)
        if self.error_bound is not None:
            positive_number("error_bound", self.error_bound, zero=True)
        if self.compilations is not None:
            whole_number("compilations", self.compilations, least=0)
        whole_number("seed", self.seed, least=0)

    @property
    def bytes_per_second(self) -> float:
        """Compulsory bytes divided by the median time, in B/s."""
        return self.bytes_moved / self.median

    @property
    def operations_per_second(self) -> float | None:
        """Operations divided by the median time; None where no count is agreed upon."""
        return None if self.operations is None else self.operations / self.median

    @property
    def is_exact_enough(self) -> bool:
        """Whether rounding explains the error; True where no bound is known."""
        return self.error_bound is None or self.relative_error <= self.error_bound

    def share_of(self, roof: float) -> float:
        """Return the share of a memory roof that the compulsory bytes reach.

        Parameters
        ----------
        roof : float
            Bytes a second, such as a measured copy's `bytes_per_second`.

        Returns
        -------
        float
            1 is the whole roof; more where the data stayed in a cache that the roof's did not fit.

        Raises
        ------
        ValueError
            When `roof` is not a finite number above 0.
        """
        return self.bytes_per_second / positive_number("roof", roof)

    @property
    def title(self) -> str:
        """Name, elements and type."""
        return f"{self.name.replace('_', ' ')}, {self.size} elements of {self.dtype}"

    @property
    def facts(self) -> tuple[str, ...]:
        """Rates, error and compilations."""
        rate = self.operations_per_second
        unit = "OP/s" if self.dtype.startswith("int") else "FLOP/s"
        operations = "" if rate is None else f", {with_prefix(rate, unit)}"
        explained = "" if self.error_bound is None else f", rounding explains {self.error_bound:.1e}"
        compiled = "unknown" if self.compilations is None else str(self.compilations)
        return (
            f"{with_prefix(self.bytes_moved, 'B')} compulsory: {with_prefix(self.bytes_per_second, 'B/s')}"
            f"{operations}",
            f"relative error {self.relative_error:.1e}{explained}; compilations while timed: {compiled}",
        )
