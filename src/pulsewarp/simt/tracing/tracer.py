"""Running a kernel: its launch checked, its blocks driven from barrier to barrier, its trace made."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Generator, Sequence
from types import FunctionType, MappingProxyType
from typing import Any

import numpy as np

from pulsewarp import _checks
from pulsewarp._arrays import freeze
from pulsewarp.simt._instruction import LANES
from pulsewarp.simt.tracing import _races
from pulsewarp.simt.tracing._launch import Launch, Storage, WarpRecord, copied, ranges, short
from pulsewarp.simt.tracing._machine import Barrier, Machine
from pulsewarp.simt.tracing._source import beneath, read
from pulsewarp.simt.tracing._values import lanes_of
from pulsewarp.simt.tracing._warp import cuda_name, is_cuda
from pulsewarp.simt.tracing.result import KernelTrace
from pulsewarp.simt.tracing.stream import KINDS, Listing, Memory, Problem, TracedWarp, Triple

MOST_THREADS = 2**16  # of a launch
MOST_IN_BLOCK = 1024  # on every compute capability


@_checks.names_keywords
def trace_kernel(
    kernel: Callable[..., Any],
    *,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[Any] = (),
) -> KernelTrace:
    """Run a kernel written in the syntax of Numba CUDA and return what every warp did.

    Modelled: every thread's values; warps in lock step with a mask, both sides of a branch one after the
    other, joined behind it; shared memory per block; barriers; atomics lane by lane. One operation of the
    source is one instruction, a sum with a product in it a fused one, a loop whose bounds are constants of
    the source (up to 64 iterations) is written out. Types as Numba has them: integers compute in 64 bits,
    float32 with float32 stays so, float32 with an integer or a plain ``0.5`` becomes float64.

    Not modelled: what a compiler removes, moves or joins; the single rounding of a fused multiply-add (here
    product and sum round one after the other); a variable's type over the whole kernel (here it follows
    the assignments made so far); another interleaving of warps than this one: between two barriers the warps
    run one after the other, blocks too. So a kernel with a race gives one of its possible results, and the
    race is reported; an order made by ``threadfence`` and atomics is not followed, and reported as one.
    What an element out of bounds or not yet written holds is undefined on a GPU and 0 here.

    Parameters
    ----------
    kernel : function
        Written with ``def`` in a file, a notebook cell or IPython; one decorated by Numba is read beneath.
    grid, block : int or up to three ints
        Blocks, and threads of a block, along x, y, z: at most 1024 threads a block and 65536 in all.
    args : sequence
        One for each parameter: arrays of 1 to 3 dimensions, which are copied, and numbers. An array that is
        passed twice is one array in the kernel too; views that overlap are not seen as such.

    Returns
    -------
    KernelTrace

    Raises
    ------
    ValueError
        For a launch out of range, for syntax that is not traced, for a variable read before it is set, and
        for a loop that does not end; the sentence names the line.
    TypeError
        For arguments that are neither arrays nor numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from pulsewarp import simt
    >>> x = np.arange(6, dtype=np.float32)
    >>> run = simt.trace_kernel(
    ...     simt.lesson_kernels.saxpy, grid=1, block=32, args=(np.float32(2), x, np.ones_like(x))
    ... )
    >>> run.results["y"].tolist()
    [1.0, 3.0, 5.0, 7.0, 9.0, 11.0]
    >>> [(i.text, i.lanes) for i in run.warps[0].instructions][-2:]
    [('FFMA %r3, c[a], %r1, %r2', 6), ('STG y[i], %r3', 6)]
    """
    source = read(kernel)
    grid_size, block_size = three_sizes("grid", grid), three_sizes("block", block)
    in_block = _product(block_size)
    if in_block > MOST_IN_BLOCK:
        raise ValueError(
            f"block is {block!r}, {in_block} threads, but a block holds at most {MOST_IN_BLOCK}; take a "
            "smaller block and a larger grid."
        )
    blocks = _product(grid_size)
    if blocks * in_block > MOST_THREADS:
        raise ValueError(
            f"The launch has {blocks * in_block} threads, but at most {MOST_THREADS} are traced; take a "
            "smaller grid."
        )
    args = _checks.several("args", args, "write args=(x,) for a single argument")
    if len(args) != len(source.parameters):
        raise TypeError(
            f"{source.name} has {len(source.parameters)} parameters ({', '.join(source.parameters)}), but "
            f"args holds {len(args)}; give one for each."
        )
    launch = Launch(source, grid_size, block_size)
    arguments = copied(source.parameters, args, launch)
    before = {n: freeze(_array(g)) if isinstance(g, Storage) else g for n, g in arguments.items()}
    records: list[WarpRecord] = []
    with np.errstate(all="ignore"):  # lanes that are off compute too, with whatever they hold
        for b in range(blocks):
            records += _run_block(launch, b, in_block, dict(arguments))
        _races.between_blocks(launch, records)
    return KernelTrace(
        name=source.name,
        source=source.lines,
        first_line=source.first_line,
        grid=grid_size,
        block=block_size,
        results=MappingProxyType({n: freeze(_array(s)) for n, s in launch.arguments.items()}),
        memory=(*(s.memory for s in launch.arguments.values()), *launch.declared.values()),
        warps=tuple(TracedWarp(r.block, r.warp, r.mask, tuple(r.instructions), r.stopped) for r in records),
        problems=tuple(sorted(launch.problems.values(), key=lambda p: KINDS.index(p.kind))),
        arguments=MappingProxyType(before),
        helpers=tuple(Listing(s.name, s.lines, s.first_line) for s in launch.helpers.values()),
        outside=MappingProxyType(
            {n: thing for s in (source, *launch.helpers.values()) for n, thing in s.uses.items()}
        ),
    )


@_checks.names_keywords
def compile_kernel(kernel: Callable[..., Any]) -> Any:
    """Return a kernel ready to be launched through Numba: on an NVIDIA GPU, or on Numba's own simulator.

    The function object is the same one; where its ``cuda`` is the stand-in, that name now means Numba's, and
    plain functions that it calls by name are compiled as well.

    Parameters
    ----------
    kernel : function
        As for `trace_kernel`.

    Returns
    -------
    object
        What ``numba.cuda.jit(kernel)`` returns: launch it with ``compiled[grid, block](*args)``.

    Raises
    ------
    RuntimeError
        When Numba is not installed.

    Examples
    --------
    >>> from pulsewarp import simt
    >>> compiled = simt.compile_kernel(simt.lesson_kernels.saxpy)  # doctest: +SKIP
    """
    function = beneath(kernel)
    _checks.instance("kernel", function, FunctionType, "pass the function written with def")
    try:
        import numba
        from numba import cuda as real
    except ImportError:
        raise RuntimeError(
            "Numba is not installed, so nothing can be compiled for a GPU; pip install numba-cuda, or "
            "trace the "
            "kernel with simt.trace_kernel."
        ) from None
    _bind(function, numba)
    return real.jit(function)


def _bind(function: FunctionType, numba: Any) -> None:
    """Let the names that a function has from `cuda` mean Numba's, and compile the functions it calls."""
    for name in function.__code__.co_names:
        found = function.__globals__.get(name)
        if path := cuda_name(found):
            function.__globals__[name] = operator.attrgetter(path)(numba)
        elif isinstance(found, FunctionType):  # of the reader's own: one of Numba's is no plain function
            function.__globals__[name] = numba.cuda.jit(device=True)(found)
            _bind(found, numba)
    for cell in function.__closure__ or ():
        if is_cuda(cell.cell_contents):
            cell.cell_contents = numba.cuda


def three_sizes(name: str, given: int | Sequence[int]) -> Triple:
    """Return one to three sizes as three."""
    try:
        sizes: tuple[Any, ...] = (operator.index(given),)  # type: ignore[arg-type]  # a sequence raises
    except TypeError:
        sizes = _checks.several(name, given, "give one to three whole numbers")  # type: ignore[arg-type]
    if not 1 <= len(sizes) <= 3:
        raise ValueError(f"{name} is {given!r}, but must be one to three whole numbers, along x, y and z.")
    whole = [_checks.whole_number(f"{name}.{axis}", n) for axis, n in zip("xyz", sizes, strict=False)]
    x, y, z = (*whole, 1, 1)[:3]
    return (x, y, z)


def _product(sizes: Sequence[int]) -> int:
    return math.prod(sizes)


def _array(storage: Storage) -> Any:
    """Return an argument's elements in its own shape."""
    memory: Memory = storage.memory
    return storage.flat.reshape(memory.shape, order="C" if memory.row_major else "F").copy()


def _run_block(launch: Launch, index: int, threads: int, arguments: dict[str, Any]) -> list[WarpRecord]:
    """Run a block's warps from barrier to barrier, one after the other in between."""
    shared: dict[int, Storage] = {}
    machines: list[Machine] = []
    for first in range(0, threads, LANES):
        mask = (1 << min(LANES, threads - first)) - 1
        machines.append(Machine(launch, WarpRecord(index, first // LANES, mask), shared, arguments))
    runs: list[Generator[Barrier, None, None]] = [machine.run() for machine in machines]
    starts = [0] * len(machines)
    going = list(range(len(machines)))
    while going:
        waiting: dict[int, Barrier] = {}
        for w in going:
            barrier = next(runs[w], None)
            if barrier is not None:
                waiting[w] = barrier
        _races.within_block(launch, [(m.record, starts[w]) for w, m in enumerate(machines)])
        starts = [len(m.record.instructions) for m in machines]
        if waiting and _blocked(launch, machines, waiting):
            for w, run in enumerate(runs):
                run.close()
                machines[w].record.stopped = w in waiting
            break
        going = list(waiting)
    return [machine.record for machine in machines]


def _threads(machine: Machine, mask: int) -> list[int]:
    """Return the numbers of a warp's lanes in their block."""
    return (machine.record.first_thread + np.flatnonzero(lanes_of(mask))).tolist()


def _blocked(launch: Launch, machines: list[Machine], waiting: dict[int, Barrier]) -> bool:
    """Report a barrier that not all threads of the block are at; tell whether it never opens."""
    arrived: list[int] = []
    missing: list[int] = []
    ended: list[int] = []
    first = next(iter(waiting.values()))[0]
    elsewhere = 0
    for w, machine in enumerate(machines):
        line, mask = waiting.get(w, (first, 0))
        here = mask if line == first else 0
        elsewhere = elsewhere or (line if line != first else 0)
        arrived += _threads(machine, here)
        missing += _threads(machine, machine.live & ~here if w in waiting else 0)
        ended += _threads(machine, machine.record.mask & ~(machine.live if w in waiting else 0))
    # Where it never opens, those that had ended are missing as well: they never came.
    absent, kind = ([*missing, *ended], "divergent_barrier") if missing else (ended, "early_exit")
    if not absent:
        return False
    block = machines[0].record.block
    place = launch.block_at(block)

    def make() -> Problem:
        if missing:
            other = f" (some wait in line {elsewhere})" if elsewhere else ""
            text = (
                f"Line {first}: threads {ranges(arrived)} of block {short(place, launch.grid)} wait at the "
                f"barrier, but threads {ranges(absent)} do not arrive{other}; take cuda.syncthreads() out of "
                f"the branch or loop that not all of them run. The block stops here."
            )
        else:
            text = (
                f"Line {first}: threads {ranges(ended)} of block {short(place, launch.grid)} end before "
                f"this barrier; since Volta it opens without them, but CUDA asks for all threads of a block, "
                f"so put the work under if instead of returning."
            )
        return Problem(
            kind, first, text, place, launch.thread(arrived[0]), missing=tuple(map(launch.thread, absent))
        )

    launch.report((kind, first), make)
    return bool(missing)
