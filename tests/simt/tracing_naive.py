"""A kernel run thread by thread by Python itself: what the tracer is held against.

Every thread runs the very same function with `cuda` bound to its own place; threads of a block are Python's
threads, which wait for each other at a real barrier. Arrays write down who touches what.
"""

from __future__ import annotations

import linecache
import threading
from collections.abc import Callable, Sequence
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np

# block, thread -> (array, flat index, "load" or "store") in the order of that thread's accesses
Log = dict[tuple[int, int], list[tuple[str, int, str]]]


class Watched:
    """An array as one thread sees it."""

    def __init__(self, name: str, array: Any, note: Callable[[str, int, str], None]) -> None:
        self.name, self.array, self.note = name, array, note
        self.shape, self.size, self.ndim = array.shape, array.size, array.ndim

    def _flat(self, index: Any) -> int:
        return int(np.ravel_multi_index(np.atleast_1d(index), self.shape))

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, index: Any) -> Any:
        self.note(self.name, self._flat(index), "load")
        return self.array[index].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        self.note(self.name, self._flat(index), "store")
        self.array[index] = value


def run(kernel: Callable[..., Any], grid: int, block: int, args: Sequence[Any]) -> tuple[dict[str, Any], Log]:
    """Return what the kernel leaves in its arrays, and every thread's accesses in order."""
    names = kernel.__code__.co_varnames[: len(args)]
    arrays = {n: a.copy() for n, a in zip(names, args, strict=True) if isinstance(a, np.ndarray)}
    log: Log = {}
    for b in range(grid):
        shared: dict[int, Any] = {}
        lock = threading.Lock()
        barrier = threading.Barrier(block)
        failures: list[BaseException] = []

        def one(
            t: int, b: int = b, shared: Any = shared, lock: Any = lock, barrier: Any = barrier,
            failures: list[BaseException] = failures,
        ) -> None:  # fmt: skip
            accesses: list[tuple[str, int, str]] = []
            log[b, t] = accesses

            def note(name: str, index: int, what: str) -> None:
                accesses.append((name, index, what))

            made = [0]

            def array(shape: Any, dtype: Any) -> Watched:
                made[0] += 1
                with lock:
                    kept = shared.setdefault(made[0], np.zeros(shape, dtype))
                return Watched(f"shared{made[0]}", kept, note)

            def add(target: Watched, index: Any, value: Any) -> Any:
                with lock:
                    old = target.array[index].item()
                    target.array[index] += value
                note(target.name, target._flat(index), "atomic")
                return old

            cuda = SimpleNamespace(
                threadIdx=SimpleNamespace(x=t, y=0, z=0),
                blockIdx=SimpleNamespace(x=b, y=0, z=0),
                blockDim=SimpleNamespace(x=block, y=1, z=1),
                gridDim=SimpleNamespace(x=grid, y=1, z=1),
                laneid=t % 32,
                warpsize=32,
                grid=lambda axes: b * block + t,
                gridsize=lambda axes: grid * block,
                syncthreads=barrier.wait,
                shared=SimpleNamespace(array=array),
                atomic=SimpleNamespace(add=add),
            )
            bound = FunctionType(kernel.__code__, {**kernel.__globals__, "cuda": cuda})
            given = [
                Watched(n, arrays[n], note) if n in arrays else a for n, a in zip(names, args, strict=True)
            ]
            try:
                bound(*given)
            except BaseException as failure:  # a thread's failure must reach the test
                failures.append(failure)
                barrier.abort()

        if "syncthreads" in kernel.__code__.co_names:
            threads = [threading.Thread(target=one, args=(t,)) for t in range(block)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        else:
            for t in range(block):
                one(t)
        if failures:
            raise failures[0]
    return arrays, log


_count = [0]


def kernel_of(source: str, **outside: Any) -> Callable[..., Any]:
    """Return the function `k` of a source text; its source can be read as that of a file."""
    _count[0] += 1
    name = f"<kernel {_count[0]}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    space: dict[str, Any] = {"np": np, **outside}
    exec(compile(source, name, "exec"), space)
    kernel: Callable[..., Any] = space["k"]
    return kernel
