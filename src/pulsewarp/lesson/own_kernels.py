"""The reader's own kernel: written in a scene, traced, timed, and checked against a task."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pulsewarp import _checks, simt
from pulsewarp._checks import names_keywords
from pulsewarp._text import counted
from pulsewarp.lesson._kernel_text import (
    NotReadError,
    read_arguments,
    read_kernel,
    read_sizes,
    write_kernel,
    written_sizes,
)
from pulsewarp.lesson._values import plain, short
from pulsewarp.lesson.exercises import NOT_ANSWERED, Verdict
from pulsewarp.simt.tracing.result import same_numbers
from pulsewarp.widgets.kernel import KernelPlayer

#: What a kernel may be charged for, in the words of a sentence; each is counted over all warps of a launch.
COSTS: Mapping[str, str] = {
    "instructions": "warp instructions",
    "sectors": "sectors of global memory",
    "wavefronts": "passes through shared memory",
}
#: What the first kernel adds up: two vectors of 100 elements, so that the last warp is not full.
FIRST_ARGUMENTS = "np.arange(100, dtype=np.float32), np.ones(100, np.float32), np.zeros(100, np.float32)"
FEW_CYCLES = 40  # a load of global memory, so that a reader can watch one arrive


class KernelExercise:
    """A task whose answer is a kernel: its results must be right, and it must not cost more than ours.

    Made by :func:`kernel_exercise`. As the last line of a cell it shows the task, with hint and solution
    folded.

    Examples
    --------
    >>> from pulsewarp import lesson, simt
    >>> kernels = simt.lesson_kernels
    >>> task = lesson.kernel_exercise(
    ...     "Multiply with each element loaded once per block.",
    ...     cases=[kernels.product(m=16, k=16, n=16), kernels.product(m=16, k=32, n=16)],
    ...     limits={"sectors": 1.0},
    ... )
    >>> task.check(kernels.tiled_product)
    Right: the results of 2 launches agree, and nothing costs more than it must.
    >>> task.check(kernels.naive_product)  # doctest: +ELLIPSIS
    Not yet: the results are right, but it takes 544 sectors of global memory, and 96 do; most are ...
    """

    def __init__(
        self,
        task: str,
        *,
        cases: Sequence[simt.lesson_kernels.Lesson],
        limits: Mapping[str, float],
        hint: str = "",
        start: Callable[..., Any] | None = None,
    ) -> None:
        self.task = task
        self.cases = tuple(cases)
        self.limits = dict(limits)
        self.hint = hint
        self.start = start or self.cases[0].kernel

    def check(self, kernel: object) -> Verdict:
        """Run a kernel on every launch of the task, and say the first thing that is wrong.

        Parameters
        ----------
        kernel
            A function written with ``def`` in the syntax of Numba CUDA. ``...`` and None mean "not answered
            yet", so that an untouched notebook runs to its end.

        Returns
        -------
        Verdict
            True in a condition when every launch gives the right result without a race or another problem,
            within the limits. Never raises for a wrong answer.
        """
        if kernel is None or kernel is ...:
            return NOT_ANSWERED
        if not callable(kernel):
            return Verdict(False, f"Not yet: a kernel is asked for, but you gave {short(kernel)}.")
        runs: list[simt.KernelTrace] = []
        wrong = next(filter(None, (self._wrong_in(case, kernel, runs) for case in self.cases)), "")
        costs = (self._costs_too_much(case, run) for case, run in zip(self.cases, runs, strict=False))
        wrong = wrong or next(filter(None, costs), "")
        if wrong:
            return Verdict(False, f"Not yet: {wrong}{f' Hint: {self.hint}' if self.hint else ''}")
        kept = ", and nothing costs more than it must" if self.limits else ""
        return Verdict(True, f"Right: the results of {counted(len(self.cases), 'launch', 'es')} agree{kept}.")

    def solved(self) -> Verdict:
        """Check the shown solution itself, so that it cannot rot: notebooks keep this cell's output.

        Returns
        -------
        Verdict
            What `check` says of it.
        """
        return self.check(self.cases[0].kernel)

    def _wrong_in(
        self, case: simt.lesson_kernels.Lesson, kernel: Callable[..., Any], runs: list[simt.KernelTrace]
    ) -> str:
        """Return what is wrong with a kernel's result in one launch, or nothing; keep the run."""
        try:
            run = simt.trace_kernel(kernel, grid=case.grid, block=case.block, args=case.args)
        except (ValueError, TypeError) as error:
            return str(error)
        if run.problems:
            return str(run.problems[0])
        name = _parameters(kernel)[_output_place(case)]  # the reader's name for it
        found, right = run.results[name], case.expected
        differs = np.argwhere(~same_numbers(run, name, right))
        if differs.size:
            at = tuple(int(i) for i in differs[0])
            index = ", ".join(map(str, at))
            return (
                f"with grid {case.grid} and block {case.block}, {case.output}[{index}] is "
                f"{_written(found[at])}, but must be {_written(right[at])}."
            )
        runs.append(run)
        return ""

    def _costs_too_much(self, case: simt.lesson_kernels.Lesson, run: simt.KernelTrace) -> str:
        if not self.limits:
            return ""
        ours = _costs(case.trace())
        for name, most in self.limits.items():
            taken = _costs(run)[name]
            if taken > most * ours[name]:
                dearest = max(run.lines(), key=lambda line: getattr(line, name)).source.strip()
                return (
                    f"the results are right, but it takes {taken} {COSTS[name]}, and "
                    f"{math.floor(most * ours[name])} do; most are for {dearest}."
                )
        return ""

    def __repr__(self) -> str:
        return f"KernelExercise({self.task!r}, {counted(len(self.cases), 'launch', 'es')})"

    def _repr_html_(self) -> str:
        parts = [f"<p>{html.escape(self.task)}</p>"]
        if self.hint:
            parts.append(f"<details><summary>Hint</summary><p>{html.escape(self.hint)}</p></details>")
        solution = html.escape(write_kernel(self.cases[0].kernel))
        parts.append(f"<details><summary>Solution</summary><pre><code>{solution}</code></pre></details>")
        return f"<section>{''.join(parts)}</section>"


@names_keywords
def kernel_exercise(
    task: str,
    *,
    cases: Iterable[simt.lesson_kernels.Lesson],
    limits: Mapping[str, float] | None = None,
    hint: str = "",
    start: Callable[..., Any] | None = None,
) -> KernelExercise:
    """Set a task whose answer is a kernel, checked by its results and by what it costs.

    Parameters
    ----------
    task
        What to do, in words.
    cases
        Launches that the kernel must get right, at least two with different results; their own kernel, the
        same in all of them, is the solution.
    limits
        How many times what the solution costs is still accepted, by what is counted: ``"instructions"``,
        ``"sectors"``, ``"wavefronts"``. Empty: results alone count.
    hint
        Said when a kernel is rejected.
    start
        The kernel that :func:`own_kernel` puts into the reader's field; None for the solution.

    Returns
    -------
    KernelExercise
        `.check(kernel)` and `.solved()` return a :class:`Verdict`.

    Raises
    ------
    ValueError
        When the task is empty, there are fewer than two launches with results of their own, one of them is
        solved by a kernel that does nothing, or a limit is none.

    Examples
    --------
    >>> from pulsewarp import lesson, simt
    >>> task = lesson.kernel_exercise(
    ...     "Multiply two matrices.",
    ...     cases=[simt.lesson_kernels.product(m=4, k=k, n=4) for k in (2, 3)],
    ...     start=simt.lesson_kernels.naive_product,
    ... )
    >>> task
    KernelExercise('Multiply two matrices.', 2 launches)
    >>> task.check(lambda a, b, c: None)
    Not yet: kernel is a lambda, but must be a function; write it with def.
    """
    if not isinstance(task, str) or not task.strip():
        raise ValueError(f"task is {task!r}, but must say in words what the reader should do.")
    launches = _checks.several("cases", cases, "write [lesson_kernels.product(m=4), ...], one a launch")
    for case in launches:
        _checks.instance("A case", case, simt.lesson_kernels.Lesson, "take one of simt.lesson_kernels")
        if np.array_equal(case.args[_output_place(case)], case.expected):
            raise ValueError(f"A kernel that does nothing would solve {case.name}; change what it must hold.")
    if len(launches) < 2 or all(np.array_equal(c.expected, launches[0].expected) for c in launches[1:]):
        raise ValueError(
            f"The launches of {task!r} have one result between them, so a kernel that writes constants would "
            f"pass; add one that differs."
        )
    accepted = {
        _checks.choice("limit", name, COSTS): _checks.positive_number(f"limits[{name!r}]", most)
        for name, most in (limits or {}).items()
    }
    return KernelExercise(task, cases=launches, limits=accepted, hint=hint, start=start)


@names_keywords
def own_kernel(
    kernel: Callable[..., Any] | str = simt.lesson_kernels.vector_add,
    *,
    grid: int | Sequence[int] = 2,
    block: int | Sequence[int] = 64,
    args: str | Sequence[Any] = FIRST_ARGUMENTS,
    exercise: KernelExercise | None = None,
    load_latency: int | None = FEW_CYCLES,
    task: str | None = None,
) -> KernelPlayer:
    """Let the reader write a kernel in the scene and see what its warps do.

    The scene opens with the kernel and the launch given here. When the reader presses Run, the text runs in
    the reader's own kernel process as a cell would, the function it defines last is traced
    (`simt.trace_kernel`) and shown; syntax that is not traced, a launch that is none, and whatever Python
    says come back as one sentence at the field, with the line marked. A race, an element out of bounds or a
    barrier that not all threads reach is shown and said. On a page without a kernel the fields are switched
    off and say so.

    Parameters
    ----------
    kernel : function or str
        At first: a function written in the syntax of Numba CUDA, or its text. In the text ``cuda``, ``np``
        and ``math`` are there already.
    grid, block : int or up to three ints
        Blocks, and threads of a block, at first.
    args : str or sequence
        The arguments at first: Python expressions with commas in one text, or the arrays and numbers
        themselves, which the reader's text then calls by the names of the kernel's parameters.
    exercise : KernelExercise, optional
        A task that every run is checked against; kernel, launch and task are then the exercise's.
    load_latency : int or None
        Cycles of a load of global memory, few enough to watch; None for the architecture's.
    task : str, optional
        What the reader is asked to do; left out, the exercise's or the scene's own task.

    Returns
    -------
    KernelPlayer
        Shows itself as the last line of a cell.

    Raises
    ------
    ValueError
        For a kernel, a launch or arguments that cannot be traced, with the sentence.

    Examples
    --------
    >>> from pulsewarp import lesson
    >>> player = lesson.own_kernel('''
    ... def double(x, out):
    ...     i = cuda.grid(1)
    ...     out[i] = 2 * x[i]
    ... ''', grid=1, block=32, args="np.ones(32, np.float32), np.zeros(32, np.float32)")
    """
    if exercise is not None:
        exercise = _checks.instance(
            "exercise", exercise, KernelExercise, "make one with lesson.kernel_exercise"
        )
        first = exercise.cases[0]
        kernel, grid, block, args = exercise.start, first.grid, first.block, first.args
        task = task if task is not None else exercise.task
    text = kernel if isinstance(kernel, str) else write_kernel(kernel)
    text = text.strip("\n") + "\n"
    given, names = _arguments_as_text(args, text)

    def traced(values: Mapping[str, Any]) -> tuple[Callable[..., Any], simt.KernelTrace]:
        function = _at("kernel", read_kernel, str(values.get("kernel")))
        sizes = {name: _at(name, read_sizes, SIZES[name], str(values.get(name))) for name in SIZES}
        arguments = _at("args", read_arguments, str(values.get("args")), names)
        try:
            run = simt.trace_kernel(function, **sizes, args=arguments)
        except (ValueError, TypeError) as error:
            raise _FieldError(_field_of(str(error)), str(error), _line_in(str(error))) from None
        return function, run

    def run(values: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            function, run = traced(values)
        except _FieldError as error:
            return error.reply
        try:
            player.show(run)
            shown = len(run.resident_warps())
        except ValueError:  # more than the scene shows at once
            player.show(run, blocks=[0])
            shown = len(run.resident_warps([0]))
        part = "" if shown == len(run.warps) else f" The scene plays the first {counted(shown, 'warp')}."
        said = f"Now shown: {_counts(run)}.{part}"
        if run.problems:
            wrong = run.problems[0]
            return {"done": said, "field": "kernel", "problem": str(wrong), "line": wrong.line}
        if exercise is not None:
            verdict = exercise.check(function)
            if not verdict:
                return {"done": said, "field": "kernel", "problem": verdict.sentence, "line": 0}
            said = f"{said} ✓ {verdict.sentence}"
        return {"done": said}

    typed = {"kernel": text, "grid": written_sizes(grid), "block": written_sizes(block), "args": given}
    try:
        opened = traced(typed)[1]
    except _FieldError as error:
        raise ValueError(error.reply["error"]) from None
    player = KernelPlayer(opened, load_latency=load_latency, task=task)
    player.offer(
        "Your own kernel",
        "Python in the syntax of Numba CUDA; the function defined last is the kernel. The text runs in your "
        f"notebook's own process, as a cell does. {_arguments_note(names)}",
        [
            {
                "name": "kernel",
                "label": "Kernel",
                "kind": "code",
                "value": text,
                "note": "cuda, np and math are there already. Ctrl + Enter runs it; Tab leaves the field.",
            },
            *({"name": n, "label": label, "kind": "text", "value": typed[n]} for n, label in SIZES.items()),
            {"name": "args", "label": "Arguments", "kind": "text", "value": given, "wide": True},
        ],
        run,
    )
    return player


#: The fields of a launch and what they are called.
SIZES = {"grid": "Grid: blocks", "block": "Block: threads"}


class _FieldError(Exception):
    """A refusal on its way to the field that it is about."""

    def __init__(self, field: str, sentence: str, line: int = 0) -> None:
        super().__init__(sentence)
        self.reply = {"error": sentence, "field": field, "line": line}


def _at(field: str, read: Callable[..., Any], *texts: Any) -> Any:
    """Read what stands in a field."""
    try:
        return read(*texts)
    except NotReadError as error:
        raise _FieldError(field, str(error), error.line) from None


def _field_of(sentence: str) -> str:
    """Return the field that a sentence of the tracer is about."""
    starts = {"grid": "grid", "The launch": "grid", "block": "block"}
    for start, field in starts.items():
        if sentence.startswith(start):
            return field
    return "args" if re.search(r"\bargs\b|^Argument|^The argument", sentence) else "kernel"


def _line_in(sentence: str) -> int:
    found = re.search(r"\b[Ll]ine (\d+)", sentence)
    return int(found[1]) if found else 0


def _arguments_as_text(args: str | Sequence[Any], text: str) -> tuple[str, dict[str, Any]]:
    """Return the arguments as a reader types them, and what the names in that text stand for."""
    if isinstance(args, str):
        return args, {}
    given = _checks.several("args", args, "write args=(x,) for a single argument")
    parameters = _parameters(read_kernel(text))
    if len(parameters) != len(given):
        raise ValueError(
            f"The kernel has {counted(len(parameters), 'parameter')} ({', '.join(parameters)}), but args "
            f"holds {len(given)}; give one for each."
        )
    pairs = dict(zip(parameters, given, strict=True))
    names = {name: value for name, value in pairs.items() if isinstance(value, np.ndarray)}
    return ", ".join(name if name in names else repr(plain(value)) for name, value in pairs.items()), names


def _arguments_note(names: Mapping[str, Any]) -> str:
    said = "Arguments are Python expressions with commas between them"
    if not names:
        return f"{said}."
    shapes = {name: " x ".join(map(str, array.shape)) for name, array in names.items()}
    arrays = ", ".join(f"{name} ({shape} {names[name].dtype})" for name, shape in shapes.items())
    return f"{said}; already there: {arrays}, as they were given, for every run."


def _counts(run: simt.KernelTrace) -> str:
    """Say in short what a run did and cost."""
    costs = _costs(run)
    parts = [counted(len(run.warps), "warp"), counted(costs["instructions"], "instruction")]
    parts += [counted(costs["sectors"], "sector"), counted(costs["wavefronts"], "wavefront")]
    return ", ".join(part for part in parts if not part.startswith("0 "))


def _costs(run: simt.KernelTrace) -> dict[str, int]:
    lines = run.lines()
    return {name: sum(getattr(line, name) for line in lines) for name in COSTS}


def _parameters(kernel: Callable[..., Any]) -> tuple[str, ...]:
    code = getattr(kernel, "py_func", kernel).__code__
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount]
    return names


def _output_place(case: simt.lesson_kernels.Lesson) -> int:
    """Return the place of a launch's result among its arguments: a reader may call it otherwise."""
    return _parameters(case.kernel).index(case.output)


def _written(number: Any) -> str:
    return repr(plain(number))
