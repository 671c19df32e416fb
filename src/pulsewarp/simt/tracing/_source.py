"""A kernel's source: found, parsed, and refused in a sentence where it holds what is not traced."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import CellType, FunctionType
from typing import Any, NoReturn

from pulsewarp import _checks


@dataclass(frozen=True)
class Source:
    """A function as its syntax tree, with the names it finds outside itself."""

    name: str
    parameters: tuple[str, ...]
    body: tuple[ast.stmt, ...]
    outside: Mapping[str, Any]
    lines: tuple[str, ...]
    first_line: int
    locals: frozenset[str]

    @property
    def uses(self) -> dict[str, Any]:
        """What its statements name from outside, by name; Python's own functions are left out."""
        nodes = (n for statement in self.body for n in ast.walk(statement))
        names = dict.fromkeys(n.id for n in nodes if isinstance(n, ast.Name) and n.id not in self.locals)
        return {name: self.outside[name] for name in names if name in self.outside}


def refuse(name: str, node: ast.AST, what: str, instead: str) -> NoReturn:
    """Raise the sentence for something that is not traced."""
    line = getattr(node, "lineno", 0)
    raise ValueError(f"Line {line} of {name} uses {what}, which is not traced; {instead}.")


# What is not traced, in words, and what to write instead.
_REFUSED: dict[type[ast.AST], tuple[str, str]] = {
    ast.ListComp: ("a list comprehension", "write a for loop over range(...)"),
    ast.SetComp: ("a set comprehension", "write a for loop over range(...)"),
    ast.DictComp: ("a dict comprehension", "write a for loop over range(...)"),
    ast.GeneratorExp: ("a generator expression", "write a for loop over range(...)"),
    ast.Lambda: ("a lambda", "write a function with def outside the kernel and call it"),
    ast.FunctionDef: ("a function inside the kernel", "define it outside the kernel and call it"),
    ast.AsyncFunctionDef: ("an async function", "write plain statements"),
    ast.ClassDef: ("a class", "keep numbers in variables and arrays"),
    ast.List: ("a list", "write cuda.local.array(shape, dtype)"),
    ast.Dict: ("a dict", "write cuda.local.array(shape, dtype)"),
    ast.Set: ("a set", "write cuda.local.array(shape, dtype)"),
    ast.Try: ("try", "test with if before the operation"),
    ast.Raise: ("raise", "write the error as a number into an array"),
    ast.Assert: ("assert", "write if and store a number that says what happened"),
    ast.With: ("with", "write plain statements"),
    ast.Global: ("global", "pass an array and store into it"),
    ast.Nonlocal: ("nonlocal", "pass an array and store into it"),
    ast.Import: ("import", "import outside the kernel"),
    ast.ImportFrom: ("import", "import outside the kernel"),
    ast.Delete: ("del", "leave the variable as it is"),
    ast.JoinedStr: ("an f-string", "store numbers into an array and format them outside"),
    ast.Yield: ("yield", "store into an array"),
    ast.YieldFrom: ("yield", "store into an array"),
    ast.Await: ("await", "write plain statements"),
    ast.NamedExpr: (":=", "assign on a line of its own"),
    ast.Starred: ("*unpacking", "name every variable"),
    ast.Slice: ("a slice", "write a for loop over the indices"),
    ast.Match: ("match", "write if and elif"),
}


def read(kernel: Callable[..., Any], role: str = "kernel") -> Source:
    """Return the source of a kernel or of a function it calls.

    A kernel that Numba has decorated is read by the function beneath.
    """
    function = _checks.instance(
        role,
        beneath(kernel),
        FunctionType,
        "pass the function written with def, not its result or its name",
    )
    name = function.__name__
    try:
        lines, first_line = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
        # Python 3.13 keeps the text of `python -c` under the name that exec gives to its own: not this one.
        if name != "<lambda>" and getattr(tree.body[0], "name", None) != function.__code__.co_name:
            raise OSError
    except (OSError, TypeError):
        raise ValueError(
            f"The source of {name} cannot be read, because Python keeps none for what was typed at its plain "
            f"prompt or given to exec; write the kernel in a file, a notebook cell or IPython."
        ) from None
    except SyntaxError:
        raise ValueError(
            f"{name} cannot be read out of its line of source; write it with def on lines of its own."
        ) from None
    ast.increment_lineno(tree, first_line - 1)
    definition = tree.body[0]
    if not isinstance(definition, ast.FunctionDef):
        raise ValueError(f"{role} is a lambda, but must be a function; write it with def.")
    closure = {
        word: cell.cell_contents
        for word, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        if not _empty(cell)
    }
    outside = {**function.__globals__, **closure}
    _refuse_syntax(name, definition)
    given = definition.args
    if given.vararg or given.kwarg or given.kwonlyargs or given.posonlyargs:
        refuse(name, definition, "parameters other than plain ones", "name each parameter")
    parameters = tuple(argument.arg for argument in given.args)
    return Source(
        name=name,
        parameters=parameters,
        body=tuple(definition.body),
        outside=outside,
        lines=tuple(textwrap.dedent("".join(lines)).splitlines()),
        first_line=first_line,
        locals=frozenset(
            {n.id for n in ast.walk(definition) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            | set(parameters)
        ),
    )


def _empty(cell: CellType) -> bool:
    """Tell whether a name from around the function has no value yet, as in a function that names itself."""
    try:
        _ = cell.cell_contents
    except ValueError:
        return True
    return False


def beneath(function: Any) -> Any:
    """Return the function that a decorator of Numba has wrapped, or what was given."""
    return getattr(function, "py_func", function)


def _refuse_syntax(name: str, definition: ast.FunctionDef) -> None:
    """Raise for the first thing in a kernel that is not traced, even where it would never be reached."""
    listed: set[ast.AST] = set()  # lists that a loop goes through
    for node in (n for statement in definition.body for n in ast.walk(statement)):
        if isinstance(node, ast.For) and isinstance(node.iter, ast.List):
            listed.add(node.iter)
        if isinstance(node, ast.AnnAssign) and not (node.value and isinstance(node.target, ast.Name)):
            refuse(name, node, "an annotated assignment",
                   "leave the annotation out; np.float32(x) sets a type")  # fmt: skip
        if type(node) in _REFUSED and node not in listed:
            place = node if hasattr(node, "lineno") else definition
            refuse(name, place, *_REFUSED[type(node)])
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult):
            refuse(name, node, "@", "write the loop over k; a thread computes one element")
        if isinstance(node, ast.For | ast.While) and node.orelse:
            refuse(name, node, "else after a loop", "set a variable where the loop breaks")
        if isinstance(node, ast.Compare) and any(
            isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn) for op in node.ops
        ):
            refuse(name, node, "is or in", "compare numbers with ==")
        if isinstance(node, ast.For) and not counts(node) and isinstance(node.iter, ast.Call):
            refuse_loop(name, node)
        if isinstance(node, ast.Call) and node.keywords and not _makes_array(node):
            refuse(name, node, f"a keyword in {ast.unparse(node.func)}(...)", "pass it by position")


def counts(node: ast.For) -> bool:
    """Tell whether a loop goes over a range."""
    called = node.iter.func if isinstance(node.iter, ast.Call) else None
    return isinstance(called, ast.Name) and called.id == "range"


def refuse_loop(name: str, node: ast.For) -> NoReturn:
    """Raise the sentence for a loop over what is neither a range nor numbers written out."""
    refuse(name, node, f"a loop over {ast.unparse(node.iter)}", "loop over range(...) and index")


def _makes_array(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr == "array"
