"""Second models of a warp's program: Python itself for each lane, and a walk over the source with masks."""

from __future__ import annotations

import ast
import textwrap
from typing import Any

LANES = range(32)


def run_lane(program: str, lane: int) -> dict[str, int]:
    """Return what one lane's names hold at the end, by running the program as Python."""
    body = textwrap.indent(program, "    ")
    source = f"def run(lane):\n{body}\n    return locals()\n"
    source = source.replace("return\n", "return locals()\n") if "return\n" in program else source
    names: dict[str, Any] = {"syncwarp": lambda: None, "syncthreads": lambda: None}
    exec(source, names)
    return {name: int(value) for name, value in names["run"](lane).items() if name != "lane"}


def walk(program: str) -> list[tuple[int, frozenset[int]]]:
    """Return the lines a warp issues, each with its lanes: the whole of one path, then the other, then both.

    Only for programs without jumps: there the stack and this walk do the same.
    """
    issued: list[tuple[int, frozenset[int]]] = []
    values: list[dict[str, int]] = [{"lane": lane} for lane in LANES]

    def ask(node: ast.expr, lane: int) -> Any:
        return eval(compile(ast.Expression(node), "", "eval"), {}, values[lane])

    def block(body: list[ast.stmt], lanes: frozenset[int]) -> None:
        for node in body:
            if lanes:
                statement(node, lanes)

    def statement(node: ast.stmt, lanes: frozenset[int]) -> None:
        if isinstance(node, ast.Pass):
            return
        if isinstance(node, ast.If):
            issued.append((node.lineno, lanes))
            taken = frozenset(lane for lane in lanes if ask(node.test, lane))
            block(node.body, taken)
            block(node.orelse, lanes - taken)
        elif isinstance(node, ast.While):
            while lanes:
                issued.append((node.lineno, lanes))
                lanes = frozenset(lane for lane in lanes if ask(node.test, lane))
                block(node.body, lanes)
        elif isinstance(node, ast.For):
            issued.append((node.lineno, lanes))
            call, name = node.iter, node.target
            assert isinstance(call, ast.Call) and isinstance(name, ast.Name)
            left = {lane: list(range(*(ask(one, lane) for one in call.args))) for lane in lanes}
            while lanes:
                issued.append((node.lineno, lanes))
                lanes = frozenset(lane for lane in lanes if left[lane])
                for lane in lanes:
                    values[lane][name.id] = left[lane].pop(0)
                block(node.body, lanes)
        else:
            issued.append((node.lineno, lanes))
            for lane in lanes:
                exec(compile(ast.Module([node], []), "", "exec"), {}, values[lane])

    block(ast.parse(program).body, frozenset(LANES))
    return issued
