"""What a compiled program says about itself: which products it makes, of what, and what it prepares."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, replace

from pulsewarp.bench.hlo import Product, Program, read_program

# HLO's names of the types that factors are stored in, by JAX's.
HLO_NAMES = {
    "float32": "f32",
    "bfloat16": "bf16",
    "float16": "f16",
    "int8": "s8",
    "float8_e4m3fn": "f8e4m3fn",
    "float8_e5m2": "f8e5m2",
}
_WIDTHS = re.compile(r"[a-z]+(\d+)")


@dataclass(frozen=True)
class Proof:
    """What was found; None for what the text does not tell.

    Parameters
    ----------
    products : int or None
        Matrix products that one call executes, those of a batch counted once; 0 where the compiler made
        something else of them, as it does where k is 1.
    elements : int or None
        Elements of the smallest of their results.
    multiplied : str or None
        HLO's name of the type of the factors that they multiply.
    changed : tuple of str or None
        For a loop: the forms, type and layout included, in which the call's first two arguments, the factors,
        went in but that the loop does not carry; what was done to them was done once, before the loop.
    """

    products: int | None
    elements: int | None
    multiplied: str | None
    changed: tuple[str, ...] | None


def examine(text: str) -> Proof:
    """Read a program's text as `compile_for` returns it.

    Parameters
    ----------
    text : str
        The optimised HLO; what follows it from ``module`` on is left out.

    Returns
    -------
    Proof

    Examples
    --------
    >>> examine("no program")
    Proof(products=None, elements=None, multiplied=None, changed=None)
    """
    compiled = text.split("\nmodule @", 1)[0]
    try:
        program = read_program(compiled)
    except ValueError:
        return Proof(None, None, None, None)
    sizes = [_elements(each) for each in program.products]
    smallest = min((size for size in sizes if size is not None), default=None)
    return Proof(_executed(program), smallest, _multiplied(program), _changed(compiled))


def widened(stored: str, multiplied: str | None) -> bool:
    """Tell whether the program multiplies a wider type than the stored one."""
    own, taken = (_WIDTHS.match(name) for name in (HLO_NAMES[stored], multiplied or ""))
    return own is not None and taken is not None and int(taken[1]) > int(own[1])


def _elements(product: Product) -> int | None:
    """Elements of a product; a call into a library lists the room it works in as well, after the result."""
    result = re.match(r"\((\w+\[[\d,]*\])", product.operation.shape)
    return (replace(product.operation, shape=result[1]) if result else product.operation).elements


def _executed(program: Program) -> int | None:
    times = [_times(each) for each in program.products]
    return None if None in times else sum(each or 0 for each in times)


def _times(product: Product) -> int | None:
    trips = [each.trips for each in product.inside if each.opcode == "while"]
    return None if None in trips else math.prod(each or 0 for each in trips)


def _multiplied(program: Program) -> str | None:
    if not program.products:
        return None
    product = program.products[0].operation
    for computation in program.computations:
        if product in computation.operations:
            shapes = {each.name: each.shape for each in computation.operations}
            left = shapes.get(product.operands[0], "") if product.operands else ""
            return left.partition("[")[0] or None
    return None


def _changed(text: str) -> tuple[str, ...] | None:
    entry = text.partition("\nENTRY ")[2]
    given = re.findall(r"^ *(?:ROOT )?%?[\w.\-]+ = (\S+) parameter\([01]\)", entry, flags=re.M)
    loop = re.search(r" = \((.*)\) while\(", text)
    if not given or loop is None:
        return None
    state = re.sub(r"/\*.*?\*/", "", loop[1])
    carried = re.findall(r"\w+\[[\d,]*\](?:\{[^}]*\})?", state)
    found = []
    for form, count in Counter(given).items():
        # The result may have the type and sizes of a factor; then it is one more of them.
        alike = [each for each in carried if each.partition("{")[0] == form.partition("{")[0]]
        if alike.count(form) < max(count, len(alike)):
            found.append(form)
    return tuple(found)
