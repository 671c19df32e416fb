"""What all warps of a launch share: arrays, counts, registers' numbers and the problems seen."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp._text import counted
from pulsewarp.simt._instruction import LANES
from pulsewarp.simt.tracing._source import Source, read
from pulsewarp.simt.tracing.stream import Memory, Problem, TracedInstruction, Triple

MOST_INSTRUCTIONS = 2**18  # kept in all, about 700 bytes each
MOST_STEPS = 2**16  # instructions and loop tests of one warp
MOST_PLACES = 2**13  # kept at a time, under 1 KiB each
STATIC_SHARED = 48 * 1024  # bytes a block can declare without opting in, on every compute capability
ALIGNMENT = 256  # bytes; cudaMalloc aligns to at least this


@dataclass(slots=True, eq=False)
class Storage:
    """An array that a kernel reads and writes: where it lies, and its elements in the order of memory."""

    memory: Memory
    flat: NDArray[Any]  # (elements,), of a local array (32, elements)
    written: NDArray[np.bool_] | None = None  # None where the content is defined from the start


@dataclass(slots=True, eq=False)
class Launch:
    """One launch of a kernel while it runs."""

    source: Source
    grid: Triple
    block: Triple
    arguments: dict[str, Storage] = field(default_factory=dict)
    declared: dict[int, Memory] = field(default_factory=dict)  # shared and local arrays by their call
    problems: dict[tuple[object, ...], Problem] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)  # registers of expressions by their node
    callees: dict[int, Any] = field(default_factory=dict)
    helpers: dict[int, Source] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)
    targets: dict[int, ast.Subscript] = field(default_factory=dict)
    chains: dict[int, tuple[ast.expr, list[ast.expr]]] = field(default_factory=dict)
    places: dict[tuple[object, ...], NDArray[np.int64]] = field(default_factory=dict)
    instructions: int = 0
    shared_end: int = 0
    held: list[object] = field(default_factory=list)
    fenced: bool = False  # whether a fence was issued

    def register(self, node: ast.AST) -> str:
        """Return the register of an expression: the same in every warp and every iteration."""
        return f"%r{self.numbers.setdefault(id(node), len(self.numbers))}"

    def fail(self, line: int, text: str) -> ValueError:
        """Return the error for a kernel that cannot go on."""
        return ValueError(f"Line {line} of {self.source.name} {text}.")

    def count(self, line: int) -> None:
        """Count an instruction, up to what a trace keeps."""
        self.instructions += 1
        if self.instructions > MOST_INSTRUCTIONS:
            raise self.fail(
                line,
                f"issues warp instruction {self.instructions}, but a trace keeps at most "
                f"{MOST_INSTRUCTIONS}; "
                f"take a smaller grid or smaller arrays",
            )

    def text(self, node: ast.expr) -> str:
        """Return an expression as the source has it."""
        if id(node) not in self.texts:
            self.texts[id(node)] = ast.unparse(node)
        return self.texts[id(node)]

    def chain(self, node: ast.expr) -> tuple[ast.expr, list[ast.expr]]:
        """Return what an element is of, and its indices: ``a[i, j]`` and ``a[i][j]`` have two."""
        known = self.chains.get(id(node))
        if known is None:
            indices: list[ast.expr] = []
            base = node
            while isinstance(base, ast.Subscript):
                indices[:0] = base.slice.elts if isinstance(base.slice, ast.Tuple) else [base.slice]
                base = base.value
            known = self.chains[id(node)] = (base, indices)
        return known

    def keep_place(self, key: tuple[object, ...], elements: NDArray[np.int64]) -> None:
        """Remember which elements an array's indices stand for: most are asked for again, and read-only."""
        if len(self.places) >= MOST_PLACES:
            self.places.clear()
        elements.setflags(write=False)
        self.places[key] = elements

    def atomic_target(self, node: ast.Call) -> ast.Subscript:
        """Return the element that an atomic changes, as if it were written with brackets."""
        if id(node) not in self.targets:
            first = len(node.args) == 3 and ast.unparse(node.func).endswith("compare_and_swap")
            at = ast.Constant(0) if first else node.args[1]  # that one is on the first element
            target = ast.Subscript(node.args[0], ast.copy_location(at, node), ast.Load())
            self.targets[id(node)] = ast.copy_location(target, node)
        return self.targets[id(node)]

    def report(self, key: tuple[object, ...], make: Callable[[], Problem], count: int = 1) -> None:
        """Keep a problem the first time, and count it after that."""
        before = self.problems.get(key)
        self.problems[key] = make() if before is None else replace(before, count=before.count + count)

    def thread(self, linear: int) -> Triple:
        """Return a thread's place in its block."""
        return split(linear, self.block)

    def block_at(self, linear: int) -> Triple:
        """Return a block's place in the grid."""
        return split(linear, self.grid)

    def named(self, block: int, thread: int) -> str:
        """Return a thread in words, with as many numbers as the launch has axes."""
        return (
            f"thread {short(self.thread(thread), self.block)} of block "
            f"{short(self.block_at(block), self.grid)}"
        )

    def helper(self, function: Any) -> Source:
        """Return the source of a function that the kernel calls."""
        if id(function) not in self.helpers:
            self.held.append(function)
            self.helpers[id(function)] = read(function, "A function that the kernel calls")
        return self.helpers[id(function)]

    def declare(self, node: ast.Call, space: str, name: str, shape: tuple[int, ...], dtype: str) -> Memory:
        """Return the array that a call of ``cuda.shared.array`` or ``cuda.local.array`` declares."""
        if id(node) not in self.declared:
            size = np.dtype(dtype).itemsize
            count = int(np.prod(shape))
            base = 0
            if space == "shared":
                base = -(-self.shared_end // size) * size
                self.shared_end = base + count * size
                if self.shared_end > STATIC_SHARED:
                    raise self.fail(
                        node.lineno,
                        f"brings a block's shared memory to {self.shared_end} bytes, but a kernel can "
                        "declare at "
                        f"most {STATIC_SHARED}; take a smaller tile",
                    )
            strides = tuple(int(np.prod(shape[axis + 1 :])) for axis in range(len(shape)))
            self.declared[id(node)] = Memory(name, space, shape, dtype, base, strides)
        return self.declared[id(node)]


def split(linear: int, shape: Triple) -> Triple:
    """Return (x, y, z) of a number counted x first."""
    x, y, _ = shape
    return (linear % x, linear // x % y, linear // (x * y))


def short(place: Triple, shape: Triple) -> str:
    """Return a place with as many numbers as its space has axes: ``5`` or ``(5, 0)``."""
    axes = max([1, *(axis + 1 for axis in range(3) if shape[axis] > 1)])
    return str(place[0]) if axes == 1 else f"({', '.join(map(str, place[:axes]))})"


def ranges(threads: Sequence[int]) -> str:
    """Return thread numbers in words, neighbours together: ``0 to 15 and 40``."""
    runs: list[list[int]] = []
    for t in sorted(threads):
        if runs and t == runs[-1][1] + 1:
            runs[-1][1] = t
        else:
            runs.append([t, t])
    words = [str(a) if a == b else f"{a} to {b}" for a, b in runs]
    if len(words) > 4:
        words = [*words[:3], counted(sum(b - a + 1 for a, b in runs[3:]), "other")]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def copied(parameters: Sequence[str], args: Sequence[Any], launch: Launch) -> Mapping[str, Any]:
    """Return copies of the arguments by name; an array passed twice is one array in the kernel too."""
    found: dict[str, Any] = {}
    same: dict[int, tuple[NDArray[Any], int]] = {}
    end = 0
    for name, given in zip(parameters, args, strict=True):
        if isinstance(given, bool | int | float | np.bool_ | np.integer | np.floating):
            found[name] = given
            continue
        if isinstance(given, list | tuple):
            raise TypeError(f"Argument {name} is a {type(given).__name__}; pass np.array({name}) instead.")
        array = np.asarray(given)
        if array.dtype.kind not in "biuf":
            raise TypeError(
                f"Argument {name} holds {array.dtype} values, but a kernel here computes with integers, "
                "floats "
                f"and booleans; convert it first."
            )
        if not 1 <= array.ndim <= 3:
            raise ValueError(
                f"Argument {name} has {array.ndim} dimensions, but must be a number or an array of 1 to 3; "
                f"reshape it."
            )
        if id(given) not in same:
            copy = np.array(array, order="F" if array.flags.f_contiguous and array.ndim > 1 else "C")
            same[id(given)] = copy, end
            end += -(-max(copy.nbytes, 1) // ALIGNMENT) * ALIGNMENT
        copy, base = same[id(given)]
        strides = tuple(stride // copy.itemsize for stride in copy.strides)
        memory = Memory(name, "global", copy.shape, copy.dtype.name, base, strides)
        flat = copy.reshape(-1, order="A")
        found[name] = launch.arguments[name] = Storage(memory, flat)
    return found


@dataclass(slots=True, eq=False)
class WarpRecord:
    """A warp while it runs."""

    block: int
    warp: int
    mask: int
    instructions: list[TracedInstruction] = field(default_factory=list)
    steps: int = 0
    stopped: bool = False  # its last instruction is a barrier that never opens

    @property
    def first_thread(self) -> int:
        """Its lane 0's number in the block."""
        return self.warp * LANES
