"""Python that makes a run of warps again, in lines a reader would write: what "Copy as Python" copies."""

from __future__ import annotations

import itertools
import keyword
import re
from collections.abc import Hashable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pulsewarp import simt

LONGEST = 100  # letters of a line, where it can be broken
PERIODS = 64  # longer stretches that repeat are written out
_DEFAULTS = simt.Instruction()
_Item = TypeVar("_Item", bound=Hashable)


def run(trace: simt.WarpTrace, name: str = "trace") -> list[str]:
    r"""Return the lines that assign this trace to a name; they need `simt` and, for a kernel, `np`.

    Parameters
    ----------
    trace : WarpTrace
        What is to be made again.
    name : str
        Its variable; programs get names that begin with it, unless it is "trace".

    Examples
    --------
    >>> from pulsewarp import simt
    >>> late, other = simt.chain_and_barrier(2, 3), simt.chain_and_barrier(2, 1)
    >>> print("\n".join(run(simt.simulate([late] + [other] * 7))))
    ffma = simt.Instruction("alu", 4, 1, "r0", ("r0",), "FFMA r0, r0, r0, r0")
    bar = simt.bar()
    p0 = [ffma, ffma, ffma, bar] * 2
    p1 = [ffma, bar] * 2
    trace = simt.simulate([p0] + [p1] * 7, schedulers=4, policy="lrr")
    """
    settings = f"schedulers={trace.schedulers}, policy={_quoted(trace.policy)}"
    if trace.max_outstanding is not None:
        settings += f", max_outstanding={trace.max_outstanding}"
    if trace.kernel is not None:
        return [*_kernel(trace.kernel, trace), f"{name} = kernel.simulate({settings})"]
    lead = "" if name == "trace" else f"{name}_"
    instructions = _instructions(trace, lead)
    lines = [f"{word} = {_instruction(i)}" for i, word in instructions.items()]
    programs: dict[int, str] = {}
    for program in trace.programs:
        if id(program) not in programs:
            word = programs[id(program)] = f"{lead}p{len(programs)}"
            lines += broken(f"{word} = {_sequence([instructions[i] for i in program])}")
    if any(trace.blocks):
        settings += f", blocks={total(list(map(str, trace.blocks)))}"
    every = total([programs[id(program)] for program in trace.programs])
    return [*lines, *broken(f"{name} = simt.simulate({every}, {settings})")]


def _instructions(trace: simt.WarpTrace, lead: str) -> dict[simt.Instruction, str]:
    """Return a variable for each distinct instruction, after its mnemonic."""
    found: dict[simt.Instruction, str] = {}
    taken = {"simt", "widgets", "np", "trace"}
    for program in {id(p): p for p in trace.programs}.values():
        for i in dict.fromkeys(program):
            if i in found:
                continue
            word = re.sub(r"\W", "_", i.mnemonic.lower())
            if not word.isidentifier() or keyword.iskeyword(word) or re.fullmatch(r"p\d+", word):
                word = f"i_{word}"
            names = itertools.chain([word], (f"{word}_{n}" for n in itertools.count(2)))
            found[i] = f"{lead}{next(name for name in names if name not in taken)}"
            taken.add(found[i].removeprefix(lead))
    return found


def _instruction(i: simt.Instruction) -> str:
    """Return a call that makes this instruction, without what is left to its defaults."""
    if i == simt.bar():
        return "simt.bar()"
    if i.unit == "bar":
        return f"simt.Instruction({_quoted('bar')}, text={_quoted(i.text)}, lanes={i.lanes})"
    srcs = f"({', '.join(map(_quoted, i.srcs))}{',' * (len(i.srcs) == 1)})"
    dst = "None" if i.dst is None else _quoted(i.dst)
    lanes = "" if i.lanes == _DEFAULTS.lanes else f", lanes={i.lanes}"
    return (
        f"simt.Instruction({_quoted(i.unit)}, {i.latency}, {i.interval}, {dst}, {srcs}, "
        f"{_quoted(i.text)}{lanes})"
    )


def _quoted(text: str) -> str:
    """Return a Python string in double quotes, as the code around it has them."""
    return repr(text) if '"' in text or "\\" in text or not text.isprintable() else f'"{text}"'


def _sequence(names: Sequence[str]) -> str:
    """Return a list of names, its repeated stretches written once."""
    groups = _groups(names)
    if len(groups) == 1 and groups[0][1] > 1:
        return f"{_sequence(groups[0][0])} * {groups[0][1]}"
    parts = []
    for stretch, times in groups:
        if times == 1:
            parts += stretch
        elif times * len(stretch) <= 3:
            parts += [*stretch] * times
        else:
            parts.append(f"*{_sequence(stretch)} * {times}")
    return f"[{', '.join(parts)}]"


def total(names: Sequence[str]) -> str:
    """Return a list of names as a sum in which repeats are written once: ``[p0] + [p1] * 7``."""
    parts = []
    for stretch, times in _groups(names):
        one = f"[{', '.join(stretch)}]"
        parts.append(one if times == 1 else f"{one} * {times}")
    return " + ".join(parts)


def _groups(items: Sequence[_Item]) -> list[tuple[list[_Item], int]]:
    """Return the items as stretches and how often each repeats; of several the one that covers most."""
    found: list[tuple[list[_Item], int]] = []
    i = 0
    while i < len(items):
        best = (1, 1)
        for period in range(1, min(PERIODS, (len(items) - i) // 2) + 1):
            times = 1
            while items[i : i + period] == items[i + times * period : i + (times + 1) * period]:
                times += 1
            if times > 1 and times * period > best[0] * best[1]:
                best = (period, times)
        period, times = best
        if times == 1 and found and found[-1][1] == 1:
            found[-1][0].append(items[i])
        else:
            found.append((list(items[i : i + period]), times))
        i += period * times
    return found


def broken(line: str) -> list[str]:
    """Return a long line in several, broken after commas that stand inside a bracket."""
    lines, indent = [], " " * (len(line) - len(line.lstrip()) + 4)
    while len(line) > LONGEST:
        end = line.rfind(", ", 12, LONGEST)
        if end < 0:
            break
        lines.append(line[: end + 1])
        line = f"{indent}{line[end + 2 :]}"
    return [*lines, line]


def _kernel(kernel: simt.Kernel, trace: simt.WarpTrace) -> list[str]:
    """Return the lines that make a matrix product's kernel again."""
    load, total, store = trace.programs[0][0], trace.programs[0][2], trace.programs[0][-1]
    costs = f"load_latency={load.latency}, load_interval={load.interval}, "
    costs += f"sum_latency={total.latency}, store_latency={store.latency}"
    widths = {block: trace.blocks.count(block) * simt.LANES for block in trace.blocks}
    threads = f", threads_per_block={widths[0]}" if len(widths) > 1 else ""
    return [
        *broken(f"a = {_matrix(kernel.a)}"),
        *broken(f"b = {_matrix(kernel.b)}"),
        *broken(f"kernel = simt.matmul_kernel(a, b, {costs}{threads})"),
    ]


def _matrix(matrix: NDArray[Any]) -> str:
    """Return a matrix as lists, with its type where lists would make another one."""
    rows = matrix.tolist()
    return f"{rows}" if np.asarray(rows).dtype == matrix.dtype else f"np.array({rows}, '{matrix.dtype}')"
