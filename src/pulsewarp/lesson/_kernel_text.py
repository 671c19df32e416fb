"""A kernel as text: written out of a function, and made a function again, its source kept for the tracer."""

from __future__ import annotations

import ast
import inspect
import itertools
import linecache
import math
import textwrap
import traceback
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from pulsewarp import _checks
from pulsewarp.lesson._values import short
from pulsewarp.simt import cuda

#: Longer texts are no kernel to read in a scene.
MOST_LETTERS = 20_000

_numbers = itertools.count(1)


class NotReadError(ValueError):
    """A text that is no kernel, or no arguments; `line` is the one meant, 0 where it is none."""

    def __init__(self, sentence: str, line: int = 0) -> None:
        super().__init__(sentence)
        self.line = line


def write_kernel(kernel: Callable[..., Any]) -> str:
    """Return a kernel's source, the constants and functions of its module that it uses before it.

    Raises
    ------
    ValueError
        When Python keeps no source of it.
    """
    function = _checks.instance(
        "kernel",
        getattr(kernel, "py_func", kernel),
        FunctionType,
        "pass a function written with def, or text",
    )
    numbers: dict[str, int | float] = {}
    texts: dict[FunctionType, str] = {}
    _write(function, numbers, texts)
    first = ["\n".join(f"{name} = {value!r}" for name, value in numbers.items())] if numbers else []
    return "\n\n".join([*first, *texts.values()]).strip() + "\n"


def _write(function: FunctionType, numbers: dict[str, int | float], texts: dict[FunctionType, str]) -> None:
    """Add a function's text behind those of the functions that it uses, each once, and its constants."""
    try:
        text = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        raise ValueError(
            f"The source of {function.__name__} cannot be read; write it in a cell, or pass its text."
        ) from None
    texts[function] = ""  # so that functions that use each other come to an end
    used = {name: function.__globals__.get(name) for name in function.__code__.co_names}
    numbers |= {name: value for name, value in used.items() if type(value) is int or type(value) is float}
    for value in used.values():
        if isinstance(value, FunctionType) and value.__module__ == function.__module__ and value not in texts:
            _write(value, numbers, texts)
    del texts[function]
    texts[function] = "\n".join(line.split("  # type: ignore")[0].rstrip() for line in text.splitlines())


def read_kernel(text: str) -> FunctionType:
    """Run a text as a cell is run, and return the function that it defines last.

    ``cuda``, ``np`` and ``math`` are there already.

    Raises
    ------
    NotReadError
        For a text that does not run, or defines no function.
    """
    text = text.replace("\t", "    ").replace("\N{NO-BREAK SPACE}", " ")
    if len(text) > MOST_LETTERS:
        raise NotReadError(
            f"The kernel has {len(text)} characters, but at most {MOST_LETTERS} are read; shorten it."
        )
    name = f"<your kernel {next(_numbers)}>"
    try:
        tree = ast.parse(text, name)
    except SyntaxError as error:
        raise NotReadError(
            f"Line {error.lineno} is no Python: {_bare(error.msg)}; compare it with the lines around it.",
            error.lineno or 0,
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:  # what else Python's own reader raises
        raise NotReadError(f"The text cannot be read: {_bare(str(error))}; write a shorter kernel.") from None
    defined = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    if not defined:
        raise NotReadError(
            "The text defines no function; write the kernel with def, such as def add(x, y, out)."
        )
    # The tracer reads the source again; Python finds it here, as it finds a notebook's cells.
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names: dict[str, Any] = {"cuda": cuda, "np": np, "numpy": np, "math": math, "__name__": "__kernel__"}
    try:
        exec(
            compile(tree, name, "exec"), names
        )  # the reader's own text in the reader's own kernel, like a cell
    except ModuleNotFoundError as error:
        raise NotReadError(
            f"{error.name} is not installed here; leave the import out: cuda, np and math are there already.",
            _line_of(error, name),
        ) from None
    except (Exception, SystemExit) as error:
        line = _line_of(error, name)
        raise NotReadError(
            f"Line {line} does not run: {type(error).__name__}: {_bare(str(error))}.", line
        ) from None
    kernel = getattr(names[defined[-1]], "py_func", names[defined[-1]])
    if not isinstance(kernel, FunctionType):
        raise NotReadError(f"{defined[-1]} is {short(kernel)} after its decorator; leave the decorator out.")
    return kernel


def read_arguments(text: str, names: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the arguments that a text names: Python expressions with commas, `np` and `names` in them.

    Raises
    ------
    NotReadError
        For a text that is no expression, or that raises.
    """
    try:
        tree = ast.parse(f"({text}\n)", mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        said = error.msg if isinstance(error, SyntaxError) else str(error)
        raise NotReadError(
            f"The arguments are no Python: {_bare(said)}; write expressions with commas between them, "
            f"such as np.arange(64, dtype=np.float32), np.zeros(64, np.float32)."
        ) from None
    try:
        given = eval(compile(tree, "<arguments>", "eval"), {"np": np, "numpy": np, "math": math, **names})
    except (Exception, SystemExit) as error:
        known = ", ".join(["np", "math", *names])
        said = f"{type(error).__name__}: {_bare(str(error))}"
        raise NotReadError(f"The arguments do not run: {said}; these names are there: {known}.") from None
    return given if isinstance(tree.body, ast.Tuple) else (given,)


def read_sizes(label: str, text: str) -> tuple[int, ...]:
    """Return one to three whole numbers that were typed with commas.

    Raises
    ------
    NotReadError
        For anything else.
    """
    parts = [part.strip() for part in text.strip().strip("()[]").rstrip(", ").split(",")]
    whole = all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts)
    if whole and len(parts) <= 3 and all(map(int, parts)):
        return tuple(map(int, parts))
    raise NotReadError(
        f"{label} is {short(text.strip())}, but must be one to three whole numbers of at least 1 with commas "
        f"between them, such as 2, 3: along x, y and z."
    )


def written_sizes(sizes: int | Sequence[int]) -> str:
    """Return the sizes of a grid or a block as a reader would type them."""
    return str(sizes) if isinstance(sizes, int) else ", ".join(map(str, sizes))


def _line_of(error: BaseException, name: str) -> int:
    """Return the text's line in which something was raised."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == name]
    return (lines[-1] or 0) if lines else 0


def _bare(sentence: str | None) -> str:
    return " ".join((sentence or "nothing is said").split()).rstrip(".")
