"""The kernels that are timed beside matrix products: input, compulsory bytes, exact result, what bounds them.

Nothing here needs JAX; `pulsewarp.bench.live.kernels` writes the same kernels for a device and times them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp._checks import choice, whole_number
from pulsewarp.bench.measurement import CLOCKS

SCALE, SHIFT = 0.75, 0.125  # exact in every type
COLUMNS = 1024  # of a softmax
STATE = 256  # width of the sequential scan
BINS = 16  # values that meet in one place of a scatter-add, on average
CHANNELS, WIDTH, TAPS = 8, 64, 3  # of the convolution
TINY_OPERATIONS = 200  # in a row; with start values below 32 every sum is exact in bfloat16 too

DTYPES = MappingProxyType({"fp32": 2.0**-24, "fp16": 2.0**-11, "bf16": 2.0**-8})
"""Types that kernels are timed in, with their unit roundoff."""

_SINGLE = DTYPES["fp32"]
# exp and tanh are approximated, by each device in its own way; a value rounded to bfloat16 anywhere inside
# would be off by a hundred times this.
_TRANSCENDENTAL = 2.0**-16

Arrays = tuple[NDArray[Any], ...]


@dataclass(frozen=True)
class Kernel:
    """What one kernel does and what it must move.

    Parameters
    ----------
    name : str
        As `time_kernel` takes it.
    description : str
        What is computed, on what.
    bound_by : str
        What holds it back where it does not reach the memory roof: a few words, as a figure shows them.
    size_on_cpu, size : int
        Elements when no size is given, on a CPU and elsewhere.
    multiple : int
        Sizes are multiples of it.
    clocks : tuple of str
        Clocks it can be timed by, the usual one first.
    result_elements : callable
        Size to elements of the result.
    sums : bool
        Whether the result holds long sums, which are given in float32: a half type would overflow.
    other_bytes : callable
        Size and bytes of an element to the compulsory bytes beside input and result.
    operations : callable or None
        Size to arithmetic operations; None where no count is agreed upon.
    bound : callable
        Size and unit roundoff to what rounding explains of the relative error; the accumulation itself is
        in float32.
    inputs : callable
        Size and a random generator to the input arrays, floats in float64; the first has `size` elements.
    exact : callable
        Input arrays, floats in float64, to the result in float64.

    Examples
    --------
    >>> KERNELS["sort"]
    Kernel('sort', ascending order of random numbers; bound by comparisons, in about log2(size) passes)
    """

    name: str
    description: str = field(repr=False)
    bound_by: str = field(repr=False)
    inputs: Callable[[int, np.random.Generator], Arrays] = field(repr=False)
    exact: Callable[..., NDArray[Any]] = field(repr=False)
    bound: Callable[[int, float], float] = field(repr=False)
    size_on_cpu: int = 2**23
    size: int = 2**25
    multiple: int = 1
    clocks: tuple[str, ...] = CLOCKS
    sums: bool = False
    result_elements: Callable[[int], int] = field(default=lambda size: size, repr=False)
    other_bytes: Callable[[int, int], int] = field(default=lambda size, element: 0, repr=False)
    operations: Callable[[int], int] | None = field(default=None, repr=False)

    def bytes_moved(self, size: int, element: int) -> int:
        """Return the compulsory bytes, see `KernelMeasurement`.

        Parameters
        ----------
        size : int
            Elements.
        element : int
            Bytes of one.

        Returns
        -------
        int

        Examples
        --------
        >>> KERNELS["gather"].bytes_moved(100, 4)
        1200
        """
        result = self.result_elements(size) * (4 if self.sums else element)
        return size * element + result + self.other_bytes(size, element)

    def check_size(self, size: int) -> int:
        """Return `size` when the kernel can work on so many elements; otherwise raise a ValueError."""
        whole_number("size", size, most=2**31 - 1, remedy="Indices are int32.")
        if size % self.multiple:
            near = max(self.multiple, round(size / self.multiple) * self.multiple)
            raise ValueError(
                f"size is {size}, but {self.name} takes a multiple of {self.multiple}; take {near}."
            )
        return size

    def __repr__(self) -> str:
        return f"Kernel({self.name!r}, {self.description}; bound by {self.bound_by})"


def find(name: str) -> Kernel:
    """Return the kernel of that name; otherwise raise a ValueError that names them all."""
    return KERNELS[choice("kernel", name, KERNELS)]


def _normal(size: int, random: np.random.Generator) -> NDArray[Any]:
    return random.standard_normal(size, dtype=np.float32)


def _accumulated(size: int, unit: float) -> float:
    # Rounding errors of a long sum in float32 add up like a random walk where they are independent; eight
    # times that, since they are not quite.
    return 8 * math.sqrt(size) * _SINGLE


def _softmax(x: NDArray[Any]) -> NDArray[Any]:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    result: NDArray[Any] = powers / powers.sum(axis=-1, keepdims=True)
    return result


def _scatter_add(x: NDArray[Any], places: NDArray[Any]) -> NDArray[Any]:
    return np.bincount(places, weights=x, minlength=_bins(x.size))


def _bins(size: int) -> int:
    return max(1, size // BINS)


def _sequential(x: NDArray[Any]) -> NDArray[Any]:
    result, state = np.empty_like(x), np.zeros(x.shape[1])
    for t, row in enumerate(x):
        state = np.tanh(row + 0.5 * state)
        result[t] = state
    return result


def _convolve(image: NDArray[Any], weights: NDArray[Any]) -> NDArray[Any]:
    _, rows, columns, _ = image.shape
    rows, columns = rows - TAPS + 1, columns - TAPS + 1
    result = np.zeros((1, rows, columns, CHANNELS))
    for i in range(TAPS):
        for j in range(TAPS):
            result += image[:, i : i + rows, j : j + columns] @ weights[i, j]
    return result


def _image(size: int, random: np.random.Generator) -> Arrays:
    shape = (1, size // (WIDTH * CHANNELS), WIDTH, CHANNELS)
    return _normal(size, random).reshape(shape), _normal(TAPS**2 * CHANNELS**2, random).reshape(
        TAPS, TAPS, CHANNELS, CHANNELS
    )


def _places_of_output(size: int) -> int:
    return (size // (WIDTH * CHANNELS) - TAPS + 1) * (WIDTH - TAPS + 1)


def _softmax_of_a_row(name: str, description: str, bound_by: str) -> Kernel:
    return Kernel(
        name=name,
        description=description,
        bound_by=bound_by,
        inputs=lambda size, random: (_normal(size, random),),
        exact=_softmax,
        bound=lambda size, unit: unit + _TRANSCENDENTAL,
        size_on_cpu=2**16,
        size=2**16,
        clocks=("call",),
    )


KERNELS = MappingProxyType(
    {
        kernel.name: kernel
        for kernel in (
            Kernel(
                name="elementwise",
                description=f"max(0, {SCALE} x + {SHIFT}) of each element",
                bound_by="memory: it is read once and written once",
                inputs=lambda size, random: (_normal(size, random),),
                exact=lambda x: np.maximum(x * SCALE + SHIFT, 0),
                bound=lambda size, unit: unit + 4 * _SINGLE,
                operations=lambda size: 3 * size,
            ),
            Kernel(
                name="reduction",
                description="sum of all elements",
                bound_by="memory, then the last few partial sums",
                inputs=lambda size, random: (random.random(size, dtype=np.float32),),
                exact=lambda x: np.asarray(x.sum()),
                bound=_accumulated,
                sums=True,
                result_elements=lambda size: 1,
                operations=lambda size: max(1, size - 1),
            ),
            Kernel(
                name="softmax",
                description=f"softmax of each row of {COLUMNS}",
                bound_by="exp, and passes for the maximum and the sum",
                inputs=lambda size, random: (_normal(size, random).reshape(-1, COLUMNS),),
                exact=_softmax,
                bound=lambda size, unit: unit + _TRANSCENDENTAL,
                multiple=COLUMNS,
            ),
            Kernel(
                name="gather",
                description="elements fetched in a random order, each once",
                bound_by="random reads: a cache line for each element",
                inputs=lambda size, random: (
                    _normal(size, random),
                    random.permutation(size).astype(np.int32),
                ),
                exact=lambda x, places: x[places],
                bound=lambda size, unit: 0.0,
                size_on_cpu=2**22,
                other_bytes=lambda size, element: 4 * size,
            ),
            Kernel(
                name="scatter_add",
                description=f"elements added up in random places, {BINS} in each on average",
                bound_by="random writes, several into one place",
                inputs=lambda size, random: (
                    _normal(size, random),
                    random.integers(0, _bins(size), size, dtype=np.int32),
                ),
                exact=_scatter_add,
                bound=lambda size, unit: 16 * unit,
                size_on_cpu=2**21,
                size=2**24,
                result_elements=_bins,
                other_bytes=lambda size, element: 4 * size,
                operations=lambda size: size,
            ),
            Kernel(
                name="sort",
                description="ascending order of random numbers",
                bound_by="comparisons, in about log2(size) passes",
                inputs=lambda size, random: (_normal(size, random),),
                exact=np.sort,
                bound=lambda size, unit: 0.0,
                size_on_cpu=2**18,
                size=2**24,
            ),
            Kernel(
                name="prefix_scan",
                description="running sums, as an associative scan may reorder them",
                bound_by="several passes: by levels, or by blocks",
                inputs=lambda size, random: (random.random(size, dtype=np.float32),),
                exact=np.cumsum,
                bound=_accumulated,
                sums=True,
                size_on_cpu=2**21,
                operations=lambda size: max(1, size - 1),
            ),
            Kernel(
                name="sequential_scan",
                description=f"s = tanh(x[t] + s / 2) row after row, {STATE} wide",
                bound_by="latency: each step waits for the one before",
                inputs=lambda size, random: (_normal(size, random).reshape(-1, STATE),),
                exact=_sequential,
                bound=lambda size, unit: unit + _TRANSCENDENTAL,
                size_on_cpu=2**19,
                size=2**20,
                multiple=STATE,
            ),
            Kernel(
                name="convolution",
                description=f"{TAPS} x {TAPS} taps, {CHANNELS} channels to {CHANNELS}, on an image "
                f"{WIDTH} wide",
                bound_by="arithmetic: too few channels for a matrix unit",
                inputs=_image,
                exact=_convolve,
                bound=lambda size, unit: unit + 8 * math.sqrt(TAPS**2 * CHANNELS) * _SINGLE,
                size_on_cpu=2**20,
                size=2**24,
                multiple=4 * WIDTH * CHANNELS,
                result_elements=lambda size: _places_of_output(size) * CHANNELS,
                other_bytes=lambda size, element: TAPS**2 * CHANNELS**2 * element,
                operations=lambda size: 2 * TAPS**2 * CHANNELS**2 * _places_of_output(size),
            ),
            _softmax_of_a_row(
                "dynamic_shape",
                "softmax of one row whose length is new at every call",
                "the compiler: each new length is a new program",
            ),
            _softmax_of_a_row(
                "padded_shape",
                "the same new lengths, padded to one length and masked",
                "dispatch, and work on the padding",
            ),
            Kernel(
                name="tiny_operations",
                description=f"x + 1, {TINY_OPERATIONS} calls in a row",
                bound_by="dispatch: a call costs more than its work",
                inputs=lambda size, random: (random.integers(0, 32, size).astype(np.float32),),
                exact=lambda x: x + 1,
                bound=lambda size, unit: unit,
                size_on_cpu=2**10,
                size=2**10,
                clocks=("call", "device"),
                operations=lambda size: size,
            ),
        )
    }
)
"""Every kernel by its name, in the order in which they are timed."""


def kernels() -> tuple[Kernel, ...]:
    """Return the kernels that `time_kernel` can time: what each does and what holds it back.

    Returns
    -------
    tuple of Kernel
        In the order in which `time_kernels` takes them.

    Examples
    --------
    >>> kernels()[1]
    Kernel('reduction', sum of all elements; bound by memory, then the last few partial sums)
    """
    return tuple(KERNELS.values())
