"""A small program that every lane of a warp runs: a part of Python, read into steps and what follows them.

Read, never run as Python: assignments, ``if``, ``elif``, ``else``, ``while``, ``for ... in range``,
``break``, ``continue``, ``return``, ``pass``; the expressions of `pattern`, with the program's own names;
``syncwarp()`` and ``syncthreads()``; ``exch(name, value)`` and ``add(name, value)`` on a variable that the
lanes share. A statement is one step, mostly a line.
"""

from __future__ import annotations

import ast
import textwrap
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from pulsewarp.simt.patterns import evaluate, read_expression

MOST_LETTERS, MOST_LINES, MOST_NAMES = 4000, 80, 16

_SYNCS = ("syncwarp", "syncthreads")
_ATOMICS = ("exch", "add")
_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%", ast.BitAnd: "&",
    ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip
_STATEMENTS = (
    "assignments, if, elif, else, while, for ... in range(...), break, continue, return, pass, syncwarp(), "
    "syncthreads(), exch(name, value) and add(name, value)"
)


@dataclass(frozen=True)
class Expression:
    """An expression as it was typed, and as it was read."""

    text: str
    root: ast.expr = field(repr=False, compare=False)

    def number(self, lane: int, values: Mapping[str, int]) -> int:
        """Return its value for a lane, a yes or no as 1 or 0."""
        value = evaluate(self.text, self.root, lane, values)
        if value is None:
            raise ValueError(f"{self.text!r} gives lane {lane} None, but a value is a whole number.")
        return int(value)


@dataclass(frozen=True)
class Step:
    """One step of a program.

    Parameters
    ----------
    line : int
        Its line in the program, from 1.
    text : str
        That line, or its own part of one that holds several.
    kind : str
        ``"set"``, ``"store"`` (to a shared variable), ``"exch"``, ``"add"``, ``"range"`` (a loop's limits are
        taken), ``"branch"``, ``"for"`` (a branch that counts), ``"jump"``, ``"return"``, ``"syncwarp"`` or
        ``"syncthreads"``.
    dst : str or None
        The register written.
    srcs : tuple of str
        Registers and shared variables read.
    shared : str or None
        The shared variable written.
    counter : str or None
        Of a loop over a range, which counter it sets or moves on; no line can read it.
    next, other : int
        The step after it, and that of a branch that is not taken; the number of steps is the end.
    meet : int
        Where the paths of a branch meet: the first step that all of them come to.
    """

    line: int
    text: str
    kind: str
    dst: str | None
    srcs: tuple[str, ...]
    shared: str | None
    counter: str | None
    next: int
    other: int
    meet: int
    expressions: tuple[Expression, ...] = field(default=(), repr=False, compare=False)

    @property
    def branches(self) -> bool:
        """Whether lanes may part here."""
        return self.kind in ("branch", "for")

    @property
    def syncs(self) -> bool:
        """Whether lanes wait for others here."""
        return self.kind in _SYNCS


@dataclass(frozen=True)
class LaneProgram:
    """A program of lanes.

    Parameters
    ----------
    lines : tuple of str
        As typed.
    steps : tuple of Step
        In the order of the lines.
    registers : tuple of str
        Names that each lane has of its own, in order of appearance.
    shared : tuple of str
        Names that all lanes share.
    """

    lines: tuple[str, ...]
    steps: tuple[Step, ...]
    registers: tuple[str, ...]
    shared: tuple[str, ...]

    @property
    def end(self) -> int:
        """The step after the last one."""
        return len(self.steps)


def read_program(text: str, shared: Collection[str]) -> LaneProgram:
    """Return a program's steps; whatever is not taken is named with its line."""
    if len(text) > MOST_LETTERS:
        raise ValueError(
            f"The program has {len(text)} characters, but at most {MOST_LETTERS} are read; shorten it."
        )
    lines = textwrap.dedent(text).strip("\n").rstrip().split("\n")
    if len(lines) > MOST_LINES:
        raise ValueError(
            f"The program has {len(lines)} lines, but at most {MOST_LINES} are read; shorten it."
        )
    try:
        tree = ast.parse("\n".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # what Python's own reader raises
        where = f" in line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise ValueError(
            f"The program cannot be read{where}; write lines of Python, such as 'x = lane' and 'if x < 4:'."
        ) from None
    return _Builder(lines, tuple(shared)).program(tree.body)


#: An edge whose end is not known yet: the step it leaves, and whether it is the one of a branch not taken.
_Edge = tuple[int, bool]


@dataclass
class _Loop:
    start: int
    breaks: list[_Edge]


class _Builder:
    """Steps one after another; `ends` are the edges that lead to the next one."""

    def __init__(self, lines: list[str], shared: tuple[str, ...]) -> None:
        self.lines, self.shared = lines, shared
        self.steps: list[dict[str, Any]] = []
        self.ends: list[_Edge] = []
        self.loops: list[_Loop] = []
        self.returns: list[_Edge] = []
        self.names: dict[str, None] = {}
        self.on_line: Counter[int] = Counter()  # how many statements begin on each line

    def program(self, body: list[ast.stmt]) -> LaneProgram:
        for node in ast.walk(ast.Module(body, [])):
            if isinstance(node, ast.stmt):
                self.on_line[node.lineno] += 1
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.names.setdefault(node.id)
        self.check_names()
        self.block(body)
        if not self.steps:
            raise ValueError("The program has no step; write at least one line, such as 'x = lane'.")
        self.link(self.ends + self.returns, len(self.steps))
        meets = _meeting_points([(step["next"], step["other"]) for step in self.steps])
        steps = tuple(Step(**step, meet=meet) for step, meet in zip(self.steps, meets, strict=True))
        own = {step.dst for step in steps}
        return LaneProgram(
            tuple(self.lines), steps, tuple(name for name in self.names if name in own), self.shared
        )

    def check_names(self) -> None:
        for name in (*self.names, *self.shared):
            if name in ("lane", *_SYNCS, *_ATOMICS, "range") or not name.isidentifier():
                raise ValueError(f"{name!r} cannot be a name of the program's own; choose another.")
        if len(self.names) + len(self.shared) > MOST_NAMES:
            raise ValueError(
                f"The program has {len(self.names) + len(self.shared)} names, but at most {MOST_NAMES} are "
                f"kept; use fewer."
            )

    def block(self, body: list[ast.stmt]) -> None:
        for statement in body:
            if self.steps and not self.ends:
                raise ValueError(f"No lane ever comes to line {statement.lineno}; take it out.")
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self.assign(node, name, value)
            case ast.AugAssign(target=ast.Name(id=name), op=op) if type(op) in _OPERATORS:
                text = f"{name} {_OPERATORS[type(op)]} ({self.source(node.value)})"
                self.write(node, name, self.expression(node, text))
            case ast.Expr(value=ast.Call() as call):
                self.call(node, call, None)
            case ast.If():
                self.branch(node)
            case ast.While() if not node.orelse:
                self.loop(self.emit(node, "branch", expressions=(self.condition(node),)), node.body)
            case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"))) if (
                not node.orelse
            ):
                self.count(node, name)
            case ast.Break() | ast.Continue() if self.loops:
                self.emit(node, "jump")
                if isinstance(node, ast.Break):
                    self.loops[-1].breaks += self.ends
                else:
                    self.link(self.ends, self.loops[-1].start)
                self.ends = []
            case ast.Return(value=None):
                self.leave(node)
            case ast.Pass():
                pass
            case _:
                raise self.refused(node)

    def refused(self, node: ast.stmt) -> ValueError:
        return ValueError(
            f"Line {node.lineno}, {self.lines[node.lineno - 1].strip()!r}, is no statement of a warp's "
            f"program; it may hold {_STATEMENTS}."
        )

    def source(self, node: ast.AST) -> str:
        return ast.unparse(node)

    def told(self, node: ast.stmt) -> str:
        """Return a statement's line, or its own part of a line that holds several."""
        if self.on_line[node.lineno] == 1:
            return self.lines[node.lineno - 1].strip()
        return self.source(node).partition("\n")[0]

    def expression(self, node: ast.stmt, text: str) -> Expression:
        names = ("lane", *self.names, *(name for name in self.shared if name not in self.names))
        try:
            return Expression(text, read_expression(text, names, "a program"))
        except ValueError as error:
            raise ValueError(f"Line {node.lineno}: {error}") from None

    def condition(self, node: ast.If | ast.While) -> Expression:
        return self.expression(node, self.source(node.test))

    def emit(self, node: ast.stmt, kind: str, dst: str | None = None, shared: str | None = None,
             counter: str | None = None, expressions: tuple[Expression, ...] = (),
             srcs: tuple[str, ...] = ()) -> int:  # fmt: skip
        read = dict.fromkeys(srcs)
        for expression in expressions:
            for part in ast.walk(expression.root):
                if isinstance(part, ast.Name) and part.id != "lane":
                    read.setdefault(part.id)
        here = len(self.steps)
        self.link(self.ends, here)
        self.steps.append({
            "line": node.lineno, "text": self.told(node), "kind": kind, "dst": dst,
            "srcs": tuple(read), "shared": shared, "counter": counter, "next": -1, "other": -1,
            "expressions": expressions,
        })  # fmt: skip
        self.ends = [(here, False)]
        return here

    def link(self, edges: list[_Edge], to: int) -> None:
        for step, other in edges:
            self.steps[step]["other" if other else "next"] = to

    def write(self, node: ast.stmt, name: str, value: Expression) -> None:
        if name in self.shared:
            self.emit(node, "store", shared=name, expressions=(value,))
        else:
            self.emit(node, "set", dst=name, expressions=(value,))

    def assign(self, node: ast.stmt, name: str, value: ast.expr) -> None:
        if isinstance(value, ast.Call):
            self.call(node, value, name)
        else:
            self.write(node, name, self.expression(node, self.source(value)))

    def call(self, node: ast.stmt, call: ast.Call, dst: str | None) -> None:
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        if call.keywords or name not in (*_SYNCS, *_ATOMICS) or (dst in self.shared):
            raise self.refused(node)
        if name in _SYNCS:
            if call.args or dst:
                raise self.refused(node)
            self.emit(node, name)
            return
        if len(call.args) != 2 or not isinstance(call.args[0], ast.Name):
            raise self.refused(node)
        target = call.args[0].id
        if target not in self.shared:
            raise ValueError(
                f"Line {node.lineno}: {name} needs a variable that the lanes share, but {target!r} is none; "
                f"name it in shared, such as shared={{{target!r}: 0}}."
            )
        value = self.expression(node, self.source(call.args[1]))
        self.emit(node, name, dst, target, expressions=(value,), srcs=(target,))

    def branch(self, node: ast.If) -> None:
        here = self.emit(node, "branch", expressions=(self.condition(node),))
        self.block(node.body)
        ends, self.ends = self.ends, [(here, True)]
        self.block(node.orelse)
        self.ends = ends + self.ends

    def loop(self, start: int, body: list[ast.stmt]) -> None:
        self.loops.append(_Loop(start, []))
        self.block(body)
        self.link(self.ends, start)
        self.ends = [(start, True), *self.loops.pop().breaks]

    def count(self, node: ast.For, name: str) -> None:
        call = node.iter
        if (
            not isinstance(call, ast.Call)
            or call.keywords
            or not 1 <= len(call.args) <= 2
            or name in self.shared
        ):
            raise self.refused(node)
        limits = tuple(self.expression(node, self.source(value)) for value in call.args)
        counter = f"{name} in line {node.lineno}"
        self.emit(node, "range", counter=counter, expressions=limits)
        self.loop(self.emit(node, "for", dst=name, counter=counter), node.body)

    def leave(self, node: ast.stmt) -> None:
        self.emit(node, "return")
        self.returns += self.ends
        self.ends = []


def _meeting_points(edges: list[tuple[int, int]]) -> list[int]:
    """Return each step's immediate post-dominator: the first other step that every way to the end passes."""
    end = len(edges)
    every = (1 << (end + 1)) - 1
    after = [every] * end + [1 << end]  # bit j of entry i: every way from i to the end passes j
    changed = True
    while changed:
        changed = False
        for i in range(end - 1, -1, -1):
            common = every
            for to in edges[i]:
                if to >= 0:
                    common &= after[to]
            common |= 1 << i
            changed |= common != after[i]
            after[i] = common
    return [_nearest(after, i, end) for i in range(end)]


def _nearest(after: list[int], i: int, end: int) -> int:
    """Return of all steps that post-dominate `i` the one that the others post-dominate too."""
    own = [j for j in range(end + 1) if j != i and after[i] >> j & 1]
    return max(own, key=lambda j: after[j].bit_count())  # it is passed first, so all others come after it
