"""The same kernel on a real NVIDIA GPU, where there is one, and a sentence where there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp import _checks
from pulsewarp._arrays import freeze
from pulsewarp.simt.tracing._source import read
from pulsewarp.simt.tracing.result import KernelTrace, same_numbers
from pulsewarp.simt.tracing.tracer import compile_kernel, three_sizes


@dataclass(frozen=True, eq=False, repr=False)
class GpuRun:
    """What a real GPU made of a kernel, or why none ran it.

    Parameters
    ----------
    name : str
        The kernel's name.
    device : str
        The GPU's name; empty where the kernel did not run.
    results : mapping of str to ndarray
        The array arguments as the GPU left them; empty where it did not run.
    reason : str
        Why it did not run, and what to do; empty where it did.

    Examples
    --------
    >>> GpuRun("add", "", {}, "Numba finds no NVIDIA GPU here.")
    GpuRun(add did not run: Numba finds no NVIDIA GPU here.)
    """

    name: str
    device: str
    results: Mapping[str, NDArray[Any]]
    reason: str

    def compare(self, run: KernelTrace) -> str:
        """Say in a sentence whether the GPU left the same numbers as a trace.

        Parameters
        ----------
        run : KernelTrace
            The same launch, traced.

        Returns
        -------
        str
            The first element that differs, if one does.

        Raises
        ------
        TypeError
            When `run` is no trace.
        ValueError
            When it is the trace of another launch.

        Examples
        --------
        >>> import numpy as np
        >>> from pulsewarp import simt
        >>> x = np.ones(4, np.float32)
        >>> run = simt.trace_kernel(simt.lesson_kernels.vector_add, grid=1, block=32, args=(x, x, x.copy()))
        >>> GpuRun("vector_add", "a GPU", {"out": np.float32([2, 2, 3, 2])}, "").compare(run)
        'a GPU left 3.0 in out[2], the trace 2.0.'
        """
        run = _checks.instance("run", run, KernelTrace, "pass what simt.trace_kernel returned")
        if not self.device:
            return "There is nothing to compare: it did not run on a GPU."
        if not self.results:
            return "There is nothing to compare: the kernel takes no array."
        for name, left in self.results.items():
            traced = run.results.get(name)
            if traced is None or traced.shape != left.shape:
                raise ValueError(
                    f"run is a trace of {run.name} without an array {name} of shape {left.shape}, which "
                    f"{self.device} left; trace the same launch."
                )
            same = same_numbers(run, name, left)
            if not np.all(same):
                at = tuple(int(i) for i in np.argwhere(~same)[0])
                where = ", ".join(map(str, at))
                there = f"{left[at].item()} in {name}[{where}]"
                return f"{self.device} left {there}, the trace {traced[at].item()}."
        return f"{self.device} left the same numbers as the trace in {', '.join(self.results)}."

    def __repr__(self) -> str:
        return f"GpuRun({self.name} {f'on {self.device}' if self.device else f'did not run: {self.reason}'})"


@_checks.names_keywords
def run_on_gpu(
    kernel: Callable[..., Any],
    *,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[Any] = (),
) -> GpuRun:
    """Run a kernel on the NVIDIA GPU of this machine through Numba; where there is none, say so.

    The function object is the one that `trace_kernel` takes; nothing is timed, and no result stands in for
    a GPU that is missing.

    Parameters
    ----------
    kernel, grid, block, args
        As for `trace_kernel`; arrays are copied, so what was passed is untouched.

    Returns
    -------
    GpuRun
        `.device`, `.results`, `.compare(trace)`; `.reason` where it did not run.

    Raises
    ------
    ValueError
        For a function that is no kernel, and for sizes that are none.

    Examples
    --------
    >>> import numpy as np
    >>> from pulsewarp import simt
    >>> x = np.ones(4, np.float32)
    >>> run = run_on_gpu(simt.lesson_kernels.vector_add, grid=1, block=32, args=(x, x, x))
    >>> bool(run.device) != bool(run.reason)  # one of the two is said
    True
    """
    source = read(kernel)
    sizes = three_sizes("grid", grid), three_sizes("block", block)
    given = _checks.several("args", args, "write args=(x,) for a single argument")
    device, reason = _find_device()
    if not device:
        return GpuRun(source.name, "", MappingProxyType({}), reason)
    copies = {id(value): np.array(value) for value in given if isinstance(value, np.ndarray)}
    held = [copies.get(id(value), value) for value in given]  # what is passed twice is one array there too
    try:
        compile_kernel(kernel)[sizes](*held)
    except Exception as error:  # Numba's own, and those of the driver beneath: many kinds, none of them ours
        said = " ".join(str(error).split())[:200].rstrip(".")
        reason = f"{device} is there, but Numba could not run it ({type(error).__name__}: {said})."
        return GpuRun(source.name, "", MappingProxyType({}), reason)
    pairs = zip(source.parameters, held, strict=False)
    left = {name: freeze(value) for name, value in pairs if isinstance(value, np.ndarray)}
    return GpuRun(source.name, device, MappingProxyType(left), "")


def _find_device() -> tuple[str, str]:
    """Return the GPU's name, or an empty one and why there is none."""
    try:
        from numba import config, cuda
    except ImportError:
        return "", "Numba is not installed; on a machine with an NVIDIA GPU, pip install numba-cuda."
    if config.ENABLE_CUDASIM:
        return "Numba's own simulator, no GPU", ""
    if not cuda.is_available():
        return "", "Numba finds no NVIDIA GPU here; on Colab, take one under Runtime, Change runtime type."
    name = cuda.get_current_device().name
    return (name.decode() if isinstance(name, bytes) else str(name)), ""
