"""A warp's addresses, typed as an expression of `lane`."""

from __future__ import annotations

import ast
import operator
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from pulsewarp import _checks
from pulsewarp.simt._instruction import LANES

#: Addresses are counted with 64-bit integers; the last byte of an access must still fit.
MOST_ADDRESS = 2**62
MOST_LETTERS = 300
MOST_SHIFT = 63
MOST_NESTED = 40  # far from where Python's own recursion ends

#: One address a lane; None for a lane that is off.
Addresses = tuple[int | None, ...]

_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
_SIGNS: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Invert: operator.invert,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_KNOWN = "whole numbers, + - * // % & | ^ ~ << >>, comparisons, and, or, not, and 'x if ... else y'"


@_checks.names_keywords
def pattern(expression: str | Sequence[int | None]) -> Addresses:
    """Return the address each of a warp's 32 lanes asks for, from an expression of `lane` or from a list.

    The expression is read, never run as Python: whole numbers, `lane` (0 to 31), the operators
    ``+ - * // % & | ^ ~ << >>``, comparisons, ``and``, ``or``, ``not`` and ``x if condition else y``, with
    Python's meaning and precedence. A lane whose value is ``None`` is off.

    Parameters
    ----------
    expression : str or sequence of 32 int or None
        For instance ``"4 * lane"``; a list, such as painted lanes, is checked and returned as it is.

    Returns
    -------
    tuple of 32 int or None
        Bytes, at least 0; None for a lane that is off. `sectors` and `wavefronts` take it.

    Raises
    ------
    TypeError
        When the pattern is neither a text nor a list.
    ValueError
        When the text cannot be read, uses something else (which is named), divides by zero, or gives a lane
        no whole number of at least 0; when a list has not 32 entries.

    Examples
    --------
    >>> pattern("128 * lane")[:4]
    (0, 128, 256, 384)
    >>> pattern("4 * (lane ^ 1) if lane < 4 else None")[:6]
    (4, 0, 12, 8, None, None)
    """
    if not isinstance(expression, str):
        return lane_values("pattern", expression)
    if len(expression) > MOST_LETTERS:
        raise ValueError(
            f"The pattern has {len(expression)} characters, but at most {MOST_LETTERS} are read; shorten it."
        )
    root = read_expression(expression)
    values: list[int | None] = []
    for lane in range(LANES):
        value = evaluate(expression, root, lane)
        if isinstance(value, bool):
            raise ValueError(
                f"{_cut(expression)} gives lane {lane} a yes or no ({value}), but an address is a whole "
                f"number; write for instance '4 * lane if lane < 8 else None'."
            )
        if value is not None and not 0 <= value <= MOST_ADDRESS:
            limit = "at least 0" if value < 0 else f"at most {MOST_ADDRESS}"
            raise ValueError(
                f"{_cut(expression)} gives lane {lane} the address {value}, but it must be {limit}; "
                f"add or take an offset."
            )
        values.append(value)
    return tuple(values)


def lane_values(name: str, given: Any) -> Addresses:
    """Return one address a lane, each checked; None stays None."""
    values = _checks.several(name, given, "give 32 addresses, one a lane, such as simt.pattern('4 * lane')")
    if len(values) != LANES:
        raise ValueError(
            f"{name} has {len(values)} addresses, but a warp has {LANES} lanes; give one a lane, and None "
            f"for a lane that is off."
        )
    checked = []
    for lane, value in enumerate(values):
        if value is not None and not (type(value) is int and 0 <= value <= MOST_ADDRESS):
            value = _checks.whole_number(f"{name}[{lane}]", value, least=0, most=MOST_ADDRESS)
        checked.append(value)
    return tuple(checked)


def read_expression(expression: str, names: Collection[str] = ("lane",), what: str = "a pattern") -> ast.expr:
    """Return the parsed expression; whatever is not taken is named, also where no lane would come to it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's own advice on odd spacing is none for a reader here
            root = ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # what Python's own reader raises
        raise ValueError(
            f"{_cut(expression)} cannot be read as an expression; write one of lane, such as '4 * lane'."
        ) from None
    for node in ast.walk(root):
        if type(node) not in _KNOWN_NODES or (isinstance(node, ast.Name) and node.id not in names):
            used, remedy = _called(node)
        elif isinstance(node, ast.Constant) and not (node.value is None or type(node.value) is int):
            used, remedy = f"{node.value!r}, which is no whole number", ""
        else:
            continue
        known = ", ".join((*names, _KNOWN))
        raise ValueError(f"{_cut(expression)} uses {used}; {remedy or f'{what} may hold {known}'}.")
    level: list[ast.AST] = [root]
    for _ in range(MOST_NESTED):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    if level:
        raise ValueError(
            f"{_cut(expression)} is nested more than {MOST_NESTED} deep; write a shorter expression."
        )
    return root


def evaluate(expression: str, root: ast.expr, lane: int, values: Mapping[str, int] | None = None) -> Any:
    """Return the value, for one lane, of what `read_expression` returned; `values` holds the other names'."""
    return _Reader(expression, lane, values).value(root)


class _Reader:
    """The value of a checked expression for one lane; other names than `lane` have the values given."""

    def __init__(self, expression: str, lane: int, values: Mapping[str, int] | None = None) -> None:
        self.expression, self.lane = expression, lane
        self.values = {**(values or {}), "lane": lane}

    def value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant():
                return node.value
            case ast.BinOp():
                return self.arithmetic(node.op, self.number(node.left), self.number(node.right))
            case ast.UnaryOp(op=ast.Not()):
                return not self.value(node.operand)
            case ast.UnaryOp():
                return _SIGNS[type(node.op)](self.number(node.operand))
            case ast.Compare():
                return self.comparison(node)
            case ast.BoolOp():
                wanted = isinstance(node.op, ast.Or)
                return wanted if any(bool(self.value(v)) is wanted for v in node.values) else not wanted
            case ast.IfExp():
                return self.value(node.body if self.value(node.test) else node.orelse)
            case ast.Name() if node.id in self.values:
                return self.values[node.id]
            case ast.Name():
                raise self.wrong(f"reads {node.id!r} before any line has set it")
        raise AssertionError(node)  # `read_expression` lets no other node pass

    def arithmetic(self, sign: ast.operator, left: int, right: int) -> int:
        if isinstance(sign, ast.LShift | ast.RShift) and not 0 <= right <= MOST_SHIFT:
            raise self.wrong(f"shifts by {right}, but from 0 to {MOST_SHIFT} can be shifted")
        try:
            result = _ARITHMETIC[type(sign)](left, right)
        except ZeroDivisionError:
            raise self.wrong("divides by 0; choose another divisor") from None
        if abs(result) > MOST_ADDRESS:
            raise self.wrong(f"reaches a number beyond {MOST_ADDRESS}; use smaller factors")
        return result

    def comparison(self, node: ast.Compare) -> bool:
        left = self.number(node.left)
        for sign, other in zip(node.ops, node.comparators, strict=True):
            right = self.number(other)
            if not _COMPARISONS[type(sign)](left, right):
                return False
            left = right
        return True

    def number(self, node: ast.expr) -> int:
        value = self.value(node)
        if value is None:
            raise self.wrong("calculates with None, but None only switches a lane off; give it a number")
        return int(value)

    def wrong(self, what: str) -> ValueError:
        return ValueError(f"{_cut(self.expression)}, for lane {self.lane}, {what}.")


_KNOWN_NODES = {
    *_ARITHMETIC, *_SIGNS, *_COMPARISONS, ast.And, ast.Or, ast.Not, ast.BinOp, ast.UnaryOp, ast.BoolOp,
    ast.Compare, ast.IfExp, ast.Constant, ast.Name, ast.Load,
}  # fmt: skip


def _called(node: ast.AST) -> tuple[str, str]:
    """Return what a reader would call a part that is not taken, and a remedy if there is one."""
    if isinstance(node, ast.Div):
        return "'/', which gives fractions", "write '//', which gives whole numbers"
    if isinstance(node, ast.Name):
        return f"the name {node.id!r}", ""
    if isinstance(node, ast.Call):
        return f"a call of {ast.unparse(node.func)!r}", ""
    signs = {
        ast.Pow: "'**'",
        ast.MatMult: "'@'",
        ast.Is: "'is'",
        ast.IsNot: "'is not'",
        ast.In: "'in'",
        ast.NotIn: "'not in'",
        ast.Attribute: "a dot",
        ast.Subscript: "square brackets",
        ast.List: "square brackets",
        ast.Tuple: "a comma",
        ast.Lambda: "'lambda'",
        ast.NamedExpr: "':='",
        ast.JoinedStr: "a text",
        ast.Dict: "braces",
        ast.Set: "braces",
    }
    return signs.get(type(node), f"a {type(node).__name__}"), ""


def _cut(expression: str) -> str:
    return repr(expression if len(expression) <= 60 else f"{expression[:57]}...")
