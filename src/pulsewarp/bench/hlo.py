"""What XLA made of a program, read from its text: computations, operations, fusions, products.

XLA prints an optimised program as HLO text. This module reads that text and nothing else: it needs no
JAX, so a program printed on a machine with a GPU or a TPU can be read anywhere. The form is that of
"Shapes and layout" and "Operation semantics" (openxla.org/xla, read 2026-12-01) and of the programs
that JAX 0.4.30, 0.7.2 and 0.12.0 print on a CPU (run on 2026-12-01).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pulsewarp._checks import instance, names_keywords

# Move or name values without computing any: not a step of the program.
BOOKKEEPING = frozenset(
    {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "opt-barrier"}
)

# One value out for each value in. XLA's cost analysis counts these apart from the products.
ELEMENTWISE = frozenset(
    {
        *("abs", "add", "and", "ceil", "clamp", "compare", "convert", "divide"),
        *("floor", "maximum", "minimum", "multiply", "negate", "not", "or", "power"),
        *("remainder", "round-nearest-even", "select", "sign", "subtract", "xor"),
    }
)

# What a custom call's target, or the "kind" that a fusion carries, names. On an AMD GPU XLA keeps the
# names of NVIDIA's libraries (comment in XLA's rocblas.h, read 2026-12-01). First match wins.
_LIBRARIES = (
    ("__onednn", "oneDNN"),
    ("__ynn", "YNNPACK"),
    ("__xnn", "XNNPACK"),
    ("__cublas$lt", "cuBLASLt, or hipBLASLt on an AMD GPU"),
    ("__cublas", "cuBLAS, or rocBLAS on an AMD GPU"),
    ("__cudnn", "cuDNN, or MIOpen on an AMD GPU"),
    ("__triton", "Triton"),
    ("triton_kernel_call", "Triton"),
    ("__gpu$xla.gpu.triton", "Triton"),
    ("__cutlass", "CUTLASS"),
    ("__custom_fusion", "a kernel written for XLA"),
    ("tpu_custom_call", "a kernel written for the TPU (Pallas)"),
    ("mosaic_gpu", "a kernel written for the GPU (Pallas)"),
)
_KINDS = {"kLoop": "loop", "kInput": "input", "kOutput": "output", "kCustom": "custom"}
_CALLS = (
    *("calls", "condition", "body", "to_apply"),
    *("branch_computations", "true_computation", "false_computation"),
)

_COMMENT = re.compile(r"/\*.*?\*/")
_LAYOUT = re.compile(r"\{[^{}]*\}")
_MODULE = re.compile(r"^HloModule ([^\s,]+)", re.M)
_HEADER = re.compile(r"^(ENTRY )?%?([^\s(={]+)(?: \(.*\) -> .*| )?\s*\{$")
_DEFINITION = re.compile(r"^(ROOT )?%?([^\s=]+) = (.*)$")
_SIZES = re.compile(r"^[a-z]\w*\[([\d,]*)\]$")


@dataclass(frozen=True)
class Operation:
    """One operation of a computation.

    Parameters
    ----------
    name : str
        As XLA named it; a profile names it the same.
    opcode : str
        What it does, such as ``"dot"``, ``"fusion"`` or ``"custom-call"``.
    shape : str
        Type and sizes of the result, without layout.
    operands : tuple of str
        Names of the operations it reads.
    calls : tuple of str
        Computations that it runs: what is fused, a loop's body, the branches of a conditional.
    kind : str or None
        For a fusion, its kind: loop, input, output or custom.
    target : str or None
        What the program says will run it, where it says so: a custom call's target or a fusion's kind.
    precision : str or None
        For a product, the precision or the algorithm that it carries, in lower case; None where a call
        into a library does not say.
    trips : int or None
        For a loop, how often its body runs, where the program says so.
    source : str
        What of the reader's program it came from, as JAX named it.
    is_root : bool
        Whether its result is the computation's.
    """

    name: str
    opcode: str
    shape: str
    operands: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    kind: str | None = None
    target: str | None = None
    precision: str | None = None
    trips: int | None = None
    source: str = ""
    is_root: bool = False

    @property
    def elements(self) -> int | None:
        """Values in the result; None for a tuple."""
        sizes = _SIZES.match(self.shape)
        return math.prod(int(size) for size in sizes[1].split(",") if size) if sizes else None

    @property
    def library(self) -> str | None:
        """Who wrote the code that runs it, where the program names that."""
        if self.target is None:
            return None
        named = (library for start, library in _LIBRARIES if self.target.startswith(start))
        return next(named, self.target)

    @property
    def is_product(self) -> bool:
        """Whether it multiplies matrices: a dot, a convolution, or a library's call for one."""
        called = self.opcode == "custom-call" and re.search("matmul|gemm|dot|conv", self.target or "")
        return self.opcode in ("dot", "convolution", "scaled-dot", "ragged-dot") or bool(called)


@dataclass(frozen=True)
class Computation:
    """A list of operations, in the order in which they run where the program is scheduled.

    Parameters
    ----------
    name : str
        As XLA named it.
    operations : tuple of Operation
        All of them, parameters and constants included.
    is_entry : bool
        Whether the program begins here.
    """

    name: str
    operations: tuple[Operation, ...]
    is_entry: bool = False

    @property
    def steps(self) -> tuple[Operation, ...]:
        """The operations that compute or move values, without parameters, constants and tuples."""
        return tuple(each for each in self.operations if each.opcode not in BOOKKEEPING)


@dataclass(frozen=True)
class Product:
    """A matrix product of a program, and where it stands.

    Parameters
    ----------
    operation : Operation
        The dot, convolution or custom call.
    inside : tuple of Operation
        The fusions, loops and calls around it, outermost first.
    """

    operation: Operation
    inside: tuple[Operation, ...] = ()

    @property
    def run_by(self) -> str:
        """Whose code runs it, as far as the program says."""
        named = [each.library for each in (self.operation, *reversed(self.inside)) if each.library]
        return named[0] if named else "code of XLA's own choice: the program names no library"


@dataclass(frozen=True, repr=False)
class Program:
    """An optimised program, as XLA printed it.

    Parameters
    ----------
    name : str
        Of the module.
    computations : tuple of Computation
        In the order of the text.
    text : str
        The whole text, as it was.
    unread : int
        Lines inside a computation that were not understood.
    """

    name: str
    computations: tuple[Computation, ...]
    text: str
    unread: int = 0

    @property
    def entry(self) -> Computation:
        """Where the program begins."""
        return next(each for each in self.computations if each.is_entry)

    @property
    def steps(self) -> tuple[Operation, ...]:
        """What the program runs, one after the other: each is one kernel, call or loop."""
        return self.entry.steps

    @property
    def fusions(self) -> tuple[tuple[Operation, tuple[Operation, ...]], ...]:
        """Each fusion that runs, and the operations that were fused into it."""
        return tuple(
            (each, self.inner(each)) for each, _ in self.walk() if each.opcode == "fusion" and each.calls
        )

    @property
    def products(self) -> tuple[Product, ...]:
        """Every matrix product that the program can reach, with what is around it."""
        return tuple(Product(each, inside) for each, inside in self.walk() if each.is_product)

    def inner(self, operation: Operation) -> tuple[Operation, ...]:
        """Return the steps of what an operation runs: fused operations, a loop's body, branches.

        Parameters
        ----------
        operation : Operation
            Of this program.

        Returns
        -------
        tuple of Operation
            Empty where it runs nothing of its own, or only a rule for two numbers, as a reduction does.
        """
        if operation.opcode not in ("fusion", "while", "call", "conditional", "async-start"):
            return ()
        named = {each.name: each for each in self.computations}
        return tuple(step for name in operation.calls if name in named for step in named[name].steps)

    def walk(self) -> Iterator[tuple[Operation, tuple[Operation, ...]]]:
        """Go through every step that is reached from the entry, with the steps around it, outermost first.

        Yields
        ------
        (Operation, tuple of Operation)
        """
        yield from self._walk(self.steps, ())

    def _walk(
        self, steps: tuple[Operation, ...], inside: tuple[Operation, ...]
    ) -> Iterator[tuple[Operation, tuple[Operation, ...]]]:
        for step in steps:
            yield step, inside
            if step not in inside:  # a text that calls itself is no program, but must end here all the same
                yield from self._walk(self.inner(step), (*inside, step))

    def __repr__(self) -> str:
        return f"Program({self.name!r}, {len(self.computations)} computations, {len(self.steps)} steps)"


@names_keywords
def read_program(text: str) -> Program:
    """Read the text of an optimised program.

    Parameters
    ----------
    text : str
        What ``compiled.as_text()`` gives in JAX, on any device.

    Returns
    -------
    Program

    Raises
    ------
    TypeError
        When it is no text.
    ValueError
        When the text has no computation to begin with.

    Examples
    --------
    >>> program = read_program('''HloModule tiny
    ...
    ... %fused (p: f32[4,8], q: f32[8,2]) -> f32[4,2] {
    ...   %p = f32[4,8]{1,0} parameter(0)
    ...   %q = f32[8,2]{1,0} parameter(1)
    ...   %dot.1 = f32[4,2]{1,0} dot(%p, %q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ...   ROOT %negate.1 = f32[4,2]{1,0} negate(%dot.1)
    ... }
    ...
    ... ENTRY %main (a: f32[4,8], b: f32[8,2]) -> f32[4,2] {
    ...   %a = f32[4,8]{1,0} parameter(0)
    ...   %b = f32[8,2]{1,0} parameter(1)
    ...   ROOT %fusion.1 = f32[4,2]{1,0} fusion(%a, %b), kind=kOutput, calls=%fused
    ... }
    ... ''')
    >>> [(fusion.name, [each.opcode for each in fused]) for fusion, fused in program.fusions]
    [('fusion.1', ['dot', 'negate'])]
    >>> program.products[0].operation.precision
    'default'
    """
    instance("text", text, str, "pass what compiled.as_text() returns")
    computations: list[Computation] = []
    current: list[Operation] = []
    header: re.Match[str] | None = None
    unread = 0
    for line in text.splitlines():
        stripped = _COMMENT.sub("", line).strip()
        if header is None:
            header = _HEADER.match(stripped)
            continue
        if stripped.startswith("}"):
            computations.append(Computation(header[2], tuple(current), bool(header[1])))
            header, current = None, []
            continue
        operation = _read_operation(stripped)
        unread += operation is None and bool(stripped)
        current += [operation] if operation else []
    if not any(each.is_entry for each in computations):
        raise ValueError(
            "The text has no ENTRY computation, so it is no HLO program; "
            "pass what jax.jit(f).lower(...).compile().as_text() returns."
        )
    module = _MODULE.search(text)
    return Program(module[1] if module else "unnamed", tuple(computations), text, unread)


def _read_operation(line: str) -> Operation | None:
    definition = _DEFINITION.match(line)
    if definition is None:
        return None
    shape, rest = _split_shape(definition[3])
    opcode, opening, _ = rest.partition("(")
    if not opening or not re.fullmatch(r"[a-z][\w\-]*", opcode):
        return None
    end = _closing(rest, len(opcode))
    inside = rest[len(opcode) + 1 : end]
    attributes = _attributes(rest[end + 1 :])
    literal = opcode in ("parameter", "constant", "iota")
    config = _plain(attributes.get("backend_config", ""))
    target = attributes.get("custom_call_target", "").strip('"') or _fusion_target(config)
    operation = Operation(
        name=definition[2],
        opcode=opcode,
        shape=_LAYOUT.sub("", shape),
        operands=() if literal else tuple(_name(part) for part in _parts(inside)),
        calls=tuple(
            name.strip(" %")
            for key in _CALLS
            for name in attributes.get(key, "").strip("{}").split(",")
            if name
        ),
        kind=_KINDS.get(attributes.get("kind", ""), attributes.get("kind")),
        target=target,
        trips=_trips(config),
        source=_quoted("op_name", attributes.get("metadata", "")),
        is_root=bool(definition[1]),
    )
    if not operation.is_product:
        return operation
    return replace(operation, precision=_precision(opcode, attributes, config))


def _split_shape(text: str) -> tuple[str, str]:
    """Split ``f32[2]{0} add(...)`` after the shape; a tuple's shape stands in brackets and has spaces."""
    end = _closing(text, 0) + 1 if text.startswith("(") else len(text.split(" ", 1)[0])
    return text[:end], text[end:].lstrip()


def _closing(text: str, opening: int) -> int:
    """Return where the bracket that opens at `opening` closes; the end of the text if it never does."""
    depth = 0
    for at, character in _outside_quotes(text, opening):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0:
            return at
    return len(text)


def _parts(text: str) -> list[str]:
    """Split at the commas that no bracket or quote holds."""
    cuts, depth = [-1], 0
    for at, character in _outside_quotes(text, 0):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            cuts.append(at)
    parts = (text[start + 1 : end].strip() for start, end in zip(cuts, [*cuts[1:], len(text)], strict=True))
    return [part for part in parts if part]


def _outside_quotes(text: str, start: int) -> Iterator[tuple[int, str]]:
    quoted = escaped = False
    for at in range(start, len(text)):
        character = text[at]
        if character == '"' and not escaped:
            quoted = not quoted
        elif not quoted:
            yield at, character
        escaped = character == "\\" and not escaped


def _name(operand: str) -> str:
    return operand.rsplit(" ", 1)[-1].lstrip("%")


def _attributes(text: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in _parts(text))
    return {key: value for key, equals, value in pairs if equals}


def _plain(config: str) -> str:
    """Return a backend's configuration as JSON text: older programs hold it in quotes."""
    if config.startswith('"'):
        try:
            return str(json.loads(config))
        except ValueError:
            return config
    return config


def _quoted(key: str, text: str) -> str:
    found = re.search(rf'{key}="((?:[^"\\]|\\.)*)"', text)
    return found[1] if found else ""


def _fusion_target(config: str) -> str | None:
    found = re.search(r'"kind":\s*"(__\w+)"', config)
    return found[1] if found else None


def _trips(config: str) -> int | None:
    found = re.search(r'"known_trip_count":\s*\{\s*"n":\s*"?(\d+)', config)
    return int(found[1]) if found else None


def _precision(opcode: str, attributes: dict[str, str], config: str) -> str | None:
    """Return the algorithm that a product names, else its precision.

    HLO leaves the default out; a call into a library may not say at all: unknown.
    """
    algorithm = re.search(r'"algorithm":\s*"ALG_(?!UNSET)(\w+)"', config)
    if "algorithm" in attributes or algorithm:
        return attributes["algorithm"] if algorithm is None else algorithm[1].lower()
    found = re.search(r'"operand_precision":\s*\["(\w+)"', config)
    silent = None if opcode == "custom-call" else "default"
    named = attributes.get("operand_precision", found[1] if found else silent)
    return named and named.strip("{}").split(",")[0].lower()
