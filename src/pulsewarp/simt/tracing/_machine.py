"""One warp running a kernel in lock step: every statement under a mask of the lanes that take part.

A statement runs as a generator that yields at each block barrier; the block's warps are driven from there.
An expression is worked out for all 32 lanes at once, and each operation is recorded as an instruction.
"""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp._text import counted
from pulsewarp.simt._instruction import LANES
from pulsewarp.simt.tracing import _values, _warp
from pulsewarp.simt.tracing._launch import MOST_STEPS, Launch, Storage, WarpRecord
from pulsewarp.simt.tracing._source import Source, beneath, counts, refuse, refuse_loop
from pulsewarp.simt.tracing._values import ALL, Lanes, Value, constant, lanes_of, mask_of
from pulsewarp.simt.tracing.stream import Problem, TracedInstruction

MOST_UNROLLED = 64  # iterations of a loop with constant bounds that count as written out
DEEPEST = 16  # calls within calls

Barrier = tuple[int, int]  # line, mask
Steps = Generator[Barrier, None, int]
Thing = Any  # a Value, a Storage, or a tuple of Values

_NUMBERS = (bool, int, float, np.integer, np.floating, np.bool_)
_AXES = {"x": 0, "y": 1, "z": 2}
_INT_NAMES = {
    ast.Add: "ADD", ast.Sub: "ADD", ast.Mult: "MUL", ast.FloorDiv: "DIV", ast.Mod: "MOD", ast.Pow: "MUL",
    ast.Div: "DIV",
}  # fmt: skip
_PLUS, _TIMES = ast.Add(), ast.Mult()
_LOADS = {"global": "LDG", "shared": "LDS", "local": "LDL"}
_STORES = {"global": "STG", "shared": "STS", "local": "STL"}
_LETTERS = {("f", 2): "H", ("f", 4): "F", ("f", 8): "D"}
_OVER_MANY = (sum, any, all, sorted, reversed, map, filter, range, list, tuple)
_MAKERS = ("array", "empty", "zeros", "ones", "full", "arange", "empty_like", "zeros_like", "ones_like")
_CASTS = ("bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
          "float32", "float64")  # fmt: skip


@dataclass(slots=True)
class Loop:
    """Lanes that left a loop or its present iteration early."""

    broke: int = 0
    continued: int = 0


@dataclass(slots=True)
class Frame:
    """The variables of one function call."""

    source: Source
    mask: int
    prefix: str = ""
    names: dict[str, Thing] = field(default_factory=dict)
    defined: dict[str, int] = field(default_factory=dict)
    loops: list[Loop] = field(default_factory=list)
    returned: int = 0
    result: Thing = None
    depth: int = 0


class Machine:
    """A warp of a launch: its lanes' places, its variables, and the instructions it has issued."""

    def __init__(
        self, launch: Launch, record: WarpRecord, shared: dict[int, Storage], arguments: dict[str, Any]
    ) -> None:
        self.launch = launch
        self.record = record
        self.shared = shared
        self.local: dict[int, Storage] = {}
        self.frame = Frame(launch.source, record.mask)
        for name, given in arguments.items():
            thing = given if isinstance(given, Storage) else Value(constant(given).data, f"c[{name}]")
            self.frame.names[name] = thing
            self.frame.defined[name] = ALL
        thread = record.first_thread + np.arange(LANES)
        x, y, _ = launch.block
        self.thread = (thread % x, thread // x % y, thread // (x * y))
        self.block = launch.block_at(record.block)
        self.special: dict[str, Value] = {}
        self.line = launch.source.first_line

    @property
    def live(self) -> int:
        """The lanes whose thread has not ended."""
        return self.record.mask & ~self.frame.returned

    def run(self) -> Generator[Barrier, None, None]:
        """Run the kernel; yields line and mask at each block barrier."""
        yield from self.statements(self.frame.source.body, self.record.mask, self.frame)

    # --- recording -----------------------------------------------------------------------------------------

    def issue(
        self,
        what: str,
        text: str,
        mask: int,
        dst: str | None = None,
        srcs: Sequence[Value] = (),
        values: Lanes | None = None,
        storage: Storage | None = None,
        elements: NDArray[np.int64] | None = None,
        left: Lanes | None = None,
    ) -> None:
        """Record an instruction; without a lane there is none (see `untaken`)."""
        if not mask:
            return
        self.launch.count(self.line)
        self.step()
        if values is not None:
            values = np.where(lanes_of(mask), values, values.dtype.type(0)) if mask != ALL else values
            values.setflags(write=False)
        if elements is not None:
            elements.setflags(write=False)
        read = [v.register for v in srcs if v.register is not None]
        memory = None if storage is None else storage.memory
        self.record.instructions.append(
            TracedInstruction(
                self.line, what, text, mask, dst, tuple(dict.fromkeys(read)), values, memory, elements, left
            )
        )

    def step(self) -> None:
        """Count a step of this warp, so that a loop without end is stopped."""
        self.record.steps += 1
        if self.record.steps > MOST_STEPS:
            raise self.launch.fail(
                self.line,
                f"is reached after {MOST_STEPS} steps of warp {self.record.warp} of block "
                f"{self.record.block}; a loop may never end, or wait for a lane of its own warp, which runs "
                f"in step here: see that its condition becomes false, or take fewer iterations",
            )

    def error(self, text: str) -> ValueError:
        """Return the error for what cannot be run."""
        return self.launch.fail(self.line, text)

    def computed(
        self,
        node: ast.AST,
        name: str,
        mask: int,
        operands: Sequence[Value],
        data: Lanes,
        dst: str | None,
        what: str = "alu",
    ) -> Value:
        """Record an operation and return its result; one on numbers of the source alone costs nothing."""
        for operand in operands:
            if operand.register is not None:
                break
        else:
            return Value(data)
        register = dst or self.launch.register(node)
        text = f"{name} {register}, {', '.join([shown(operand) for operand in operands])}"
        self.issue(what, text, mask, register, operands, data)
        return Value(data, register)

    # --- statements ----------------------------------------------------------------------------------------

    def statements(self, body: Sequence[ast.stmt], mask: int, frame: Frame) -> Steps:
        """Run statements under a mask; returns the lanes that go on behind them."""
        for statement in body:
            if not mask:
                break
            self.line = statement.lineno
            kind = type(statement)
            if kind is ast.Assign or kind is ast.AnnAssign:
                self.assign(statement, mask, frame)
            elif kind is ast.AugAssign:
                self.augment(statement, mask, frame)
            elif kind is ast.Expr:
                yield from self.expression(statement, mask, frame)
            elif kind is ast.If:
                mask = yield from self.branch(statement, mask, frame)
            elif kind is ast.For:
                mask = yield from self.for_loop(statement, mask, frame)
            elif kind is ast.While:
                mask = yield from self.while_loop(statement, mask, frame)
            elif kind is ast.Return:
                self.leave(statement, mask, frame)
                mask = 0
            elif kind is ast.Break:
                frame.loops[-1].broke |= mask
                mask = 0
            elif kind is ast.Continue:
                frame.loops[-1].continued |= mask
                mask = 0
            elif kind is not ast.Pass:
                refuse(
                    frame.source.name, statement, type(statement).__name__.lower(), "write plain statements"
                )
        return mask

    def assign(self, statement: Any, mask: int, frame: Frame) -> None:
        """Run ``x = ...``, ``x, y = ...`` or ``a[i] = ...``."""
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        first = targets[0]
        hint = frame.prefix + first.id if isinstance(first, ast.Name) else None
        if isinstance(first, ast.Tuple) and all(isinstance(e, ast.Name) for e in first.elts):
            hint = ",".join(
                frame.prefix + ast.unparse(e) for e in first.elts
            )  # cuda.grid fills several at once
        if isinstance(first, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            thing: Thing = tuple(self.copy(self.value(e, mask, frame), e, mask) for e in statement.value.elts)
        else:
            thing = self.evaluate(statement.value, mask, frame, hint)
        if thing is None or not all(isinstance(target, ast.Name | ast.Tuple) for target in targets):
            thing = self.as_value(thing, statement.value)
        for target in targets:
            self.put(target, thing, mask, frame)

    def copy(self, value: Value, node: ast.AST, mask: int) -> Value:
        """Return a value in a register of its own, so that ``x, y = y, x`` reads before it writes."""
        if value.register is None or not isinstance(node, ast.Name):
            return value
        return self.computed(node, "MOV", mask, [value], value.data, None)

    def put(self, target: ast.expr, thing: Thing, mask: int, frame: Frame) -> None:
        """Give a target its value in the lanes of `mask`."""
        if isinstance(target, ast.Name):
            self.put_name(target.id, thing, mask, frame)
        elif isinstance(target, ast.Subscript):
            self.store(target, self.as_value(thing, target), mask, frame)
        elif isinstance(target, ast.Tuple):
            if not isinstance(thing, tuple) or len(thing) != len(target.elts):
                have = f"{len(thing)} values" if isinstance(thing, tuple) else "one value"
                raise self.error(f"gives {have} to {len(target.elts)} names; write as many on both sides")
            for part, value in zip(target.elts, thing, strict=True):
                self.put(part, value, mask, frame)
        else:
            refuse(
                frame.source.name, target, f"an assignment to {ast.unparse(target)}", "assign to a variable"
            )

    def put_name(self, name: str, thing: Thing, mask: int, frame: Frame) -> None:
        """Give a variable its value; lanes that are off keep theirs."""
        if not isinstance(thing, Value):
            self.put_thing(name, thing, mask, frame)
            return
        register = frame.prefix + name
        data = thing.data
        old = frame.names.get(name)
        defined = frame.defined.get(name, 0)
        if isinstance(old, Value):
            dtype = _values.unified(old.data.dtype, data.dtype)
            if defined & ~mask:
                data = np.where(lanes_of(mask), data.astype(dtype), old.data.astype(dtype))
        if thing.register != register and not (
            thing.register is None and mask == frame.mask & ~frame.returned
        ):
            special = thing.register is not None and thing.register[:4] in ("%tid", "%cta", "%lan")
            source = shown(thing)
            self.issue(
                "alu", f"{'S2R' if special else 'MOV'} {register}, {source}", mask, register, [thing], data
            )
            thing = Value(data, register)
        frame.names[name] = thing if thing.data is data else Value(data, thing.register)
        frame.defined[name] = defined | mask

    def put_thing(self, name: str, thing: Thing, mask: int, frame: Frame) -> None:
        """Give a variable an array or several numbers; lanes that are off keep what they have."""
        old, defined = frame.names.get(name), frame.defined.get(name, 0)
        if isinstance(thing, tuple):
            if defined & ~mask and isinstance(old, tuple) and len(old) == len(thing):
                thing = tuple(self.merged(new, kept, mask) for new, kept in zip(thing, old, strict=True))
            frame.defined[name] = defined | mask
        else:
            if isinstance(old, Storage) and old is not thing and defined & ~mask:
                raise self.error(f"gives {name} another array in some threads only; name each array itself")
            frame.defined[name] = ALL
        frame.names[name] = thing

    def merged(self, new: Value, kept: Value, mask: int) -> Value:
        """Return a number that is new in the lanes of `mask` and kept in the others."""
        dtype = _values.unified(new.data.dtype, kept.data.dtype)
        data = np.where(lanes_of(mask), new.data.astype(dtype), kept.data.astype(dtype))
        return Value(data, new.register or kept.register or "%merged")

    def augment(self, statement: Any, mask: int, frame: Frame) -> None:
        """Run ``x += ...`` or ``a[i] += ...``."""
        target = statement.target
        if isinstance(target, ast.Name):
            old = self.value(target, mask, frame, load=True)
            register = frame.prefix + target.id
            new = self.binary(statement, statement.op, old, statement.value, mask, frame, register)
            self.put_name(target.id, new, mask, frame)
            return
        storage, elements, ok, operands = self.place(target, mask, frame)
        old = self.fetch(target, storage, elements, ok, operands, mask, None)
        new = self.binary(statement, statement.op, old, statement.value, mask, frame, None)
        self.write(target, storage, elements, ok, operands, new, mask)

    def expression(self, statement: Any, mask: int, frame: Frame) -> Steps:
        """Run a call that stands alone; a block barrier is one."""
        node = statement.value
        if isinstance(node, ast.Constant):
            return mask  # a docstring
        if not isinstance(node, ast.Call):
            called = self.callee(node, frame)
            if isinstance(called, str) and called.count("."):
                refuse(frame.source.name, statement, f"{called} without a call", f"write {called}()")
            refuse(frame.source.name, statement, "a value that is not used", "assign it or remove it")
        if self.callee(node.func, frame) == "cuda.syncthreads":
            self.issue("barrier", "BAR.SYNC", mask)
            yield self.line, mask
        else:
            self.call(node, mask, frame, None)
        return mask

    def branch(self, statement: Any, mask: int, frame: Frame) -> Steps:
        """Run both sides of an ``if``, each under its lanes."""
        taken = self.test(statement.test, mask, frame)
        on = yield from self.statements(statement.body, taken, frame)
        off = mask & ~taken
        if statement.orelse:
            off = yield from self.statements(statement.orelse, off, frame)
        return on | off

    def test(self, node: ast.expr, mask: int, frame: Frame) -> int:
        """Return the lanes in which a condition holds, and record the branch on it."""
        value = self.value(node, mask, frame)
        truth = value.data != 0 if value.data.dtype.kind != "b" else value.data
        if value.register is not None:
            self.issue("branch", f"BRA {shown(value)}", mask, None, [value], truth)
        return mask_of(truth) & mask

    def while_loop(self, statement: Any, mask: int, frame: Frame) -> Steps:
        """Run a ``while`` until every lane has left it."""
        loop = Loop()
        frame.loops.append(loop)
        done = 0
        while mask:
            self.line = statement.lineno
            self.step()
            taken = self.test(statement.test, mask, frame)
            done |= mask & ~taken
            loop.continued = 0
            rest = yield from self.statements(statement.body, taken, frame)
            mask = rest | loop.continued
        frame.loops.pop()
        return done | loop.broke

    def for_loop(self, statement: Any, mask: int, frame: Frame) -> Steps:
        """Run a ``for`` over a range, or over numbers that stand in the source."""
        loop = self.count_loop if counts(statement) else self.written_loop
        return (yield from loop(statement, mask, frame))

    def count_loop(self, statement: Any, mask: int, frame: Frame) -> Steps:
        """Run a ``for`` over a range; each lane has bounds of its own."""
        bounds = [self.value(e, mask, frame) for e in statement.iter.args]
        if not 1 <= len(bounds) <= 3:
            raise self.error("calls range with other than 1 to 3 numbers")
        for bound in bounds:
            self.whole(bound, "range", statement.iter)
        start = constant(0) if len(bounds) == 1 else bounds[0]
        stop = bounds[0] if len(bounds) == 1 else bounds[1]
        step = bounds[2] if len(bounds) == 3 else constant(1)
        if (step.data[lanes_of(mask)] == 0).any():
            raise self.error("calls range with a step of 0; a loop must go somewhere")
        if not isinstance(statement.target, ast.Name):
            refuse(frame.source.name, statement, "several loop variables", "name one")
        name = statement.target.id
        fixed = all(v.register is None for v in (start, stop, step))
        trips = len(range(int(start.data[0]), int(stop.data[0]), int(step.data[0]))) if fixed else 0
        unrolled = fixed and trips <= MOST_UNROLLED
        register = frame.prefix + name
        loop = Loop()
        frame.loops.append(loop)
        done = 0
        first = True
        for now, goes_on in _values.trips(start.data, stop.data, step.data):
            if not mask:
                break
            self.line = statement.lineno
            self.step()
            if not unrolled:
                value = Value(now, register)
                if first:
                    self.issue("alu", f"MOV {register}, {shown(start)}", mask, register, [start], now)
                else:
                    self.issue("alu", f"IADD {register}, {register}, {shown(step)}", mask, register,
                               [value, step], now)  # fmt: skip
            else:
                value = Value(now)
            if not unrolled:
                self.issue("branch", f"BRA {register} < {shown(stop)}", mask, None, [value, stop], goes_on)
            taken = mask_of(goes_on) & mask
            done |= mask & ~taken
            if not taken:
                break
            self.keep(name, value, taken, frame)
            loop.continued = 0
            rest = yield from self.statements(statement.body, taken, frame)
            mask = rest | loop.continued
            first = False
        frame.loops.pop()
        return done | loop.broke

    def written_loop(self, statement: Any, mask: int, frame: Frame) -> Steps:
        """Run a ``for`` over numbers that stand in the source, ``for s in (16, 8, 4):``, written out."""
        numbers = statement.iter
        if isinstance(numbers, ast.List):
            several: Thing = tuple(self.value(e, mask, frame) for e in numbers.elts)
        else:
            several = self.evaluate(numbers, mask, frame)
        if not isinstance(several, tuple):
            refuse_loop(frame.source.name, statement)
        loop = Loop()
        frame.loops.append(loop)
        for number in several:
            if not mask:
                break
            self.line = statement.lineno
            self.step()
            if number.register is None and isinstance(statement.target, ast.Name):
                self.keep(statement.target.id, number, mask, frame)
            else:
                self.put(statement.target, number, mask, frame)
            loop.continued = 0
            rest = yield from self.statements(statement.body, mask, frame)
            mask = rest | loop.continued
        frame.loops.pop()
        return mask | loop.broke

    def keep(self, name: str, number: Value, mask: int, frame: Frame) -> None:
        """Give the variable of a loop that is written out its number, which costs nothing."""
        old = frame.names.get(name)
        kept = frame.defined.get(name, 0)
        data = number.data
        if isinstance(old, Value) and kept & ~mask:
            data = np.where(lanes_of(mask), data, old.data)
        frame.names[name] = number if number.data is data else Value(data, number.register)
        frame.defined[name] = kept | mask

    def leave(self, statement: Any, mask: int, frame: Frame) -> None:
        """Run ``return``."""
        if statement.value is not None and not (
            isinstance(statement.value, ast.Constant) and statement.value.value is None
        ):
            if frame.depth == 0:
                refuse(frame.source.name, statement, "return with a value", "store the value into an array")
            thing = self.evaluate(statement.value, mask, frame)
            if not isinstance(thing, tuple):
                thing = self.as_value(thing, statement.value)
            if frame.result is None or not frame.returned:
                frame.result = thing
            else:
                frame.result = self.joined(statement, frame.result, thing, mask)
        frame.returned |= mask

    def joined(self, statement: Any, before: Thing, now: Thing, mask: int) -> Thing:
        """Return what is `now` in the lanes of `mask` and `before` in the others, number by number."""
        if isinstance(before, Value) and isinstance(now, Value):
            dtype = _values.unified(before.data.dtype, now.data.dtype)
            data = np.where(lanes_of(mask), now.data.astype(dtype), before.data.astype(dtype))
            return self.computed(statement, "SEL", mask, [now, before], data, None)
        if not (isinstance(before, tuple) and isinstance(now, tuple) and len(before) == len(now)):
            raise self.error("gives several numbers in some threads and another count in others; give as "
                             "many always")  # fmt: skip
        return tuple(self.joined(statement, b, n, mask) for b, n in zip(before, now, strict=True))

    # --- expressions ---------------------------------------------------------------------------------------

    def value(
        self, node: ast.expr, mask: int, frame: Frame, dst: str | None = None, load: bool = False
    ) -> Value:
        """Return an expression's number in every lane."""
        if load and isinstance(node, ast.Name):
            return self.as_value(self.named(node, mask, frame), node)
        return self.as_value(self.evaluate(node, mask, frame, dst), node)

    def as_value(self, thing: Thing, node: ast.AST) -> Value:
        """Return a thing that must be one number."""
        if isinstance(thing, Value):
            return thing
        if isinstance(thing, Storage):
            raise self.error(f"uses the array {thing.memory.name} as a number; name its element, such as "
                             f"{thing.memory.name}[0]")  # fmt: skip
        if isinstance(thing, tuple):
            raise self.error(
                f"uses {ast.unparse(node)}, which is {len(thing)} numbers, as one; unpack it first"
            )
        raise self.error(f"uses {ast.unparse(node)}, which is no number")

    def evaluate(self, node: ast.expr, mask: int, frame: Frame, dst: str | None = None) -> Thing:
        """Return what an expression is: a number in every lane, an array, or several numbers."""
        kind = type(node)
        if kind is ast.Name:
            return self.named(node, mask, frame)
        if kind is ast.Constant:
            return self.literal(node)
        if kind is ast.Subscript:
            return self.subscript(node, mask, frame, dst)
        if kind is ast.BinOp:
            left: Any = node
            return self.binary(left, left.op, left.left, left.right, mask, frame, dst)
        if kind is ast.Compare:
            return self.comparison(node, mask, frame, dst)
        if kind is ast.Call:
            return self.call(node, mask, frame, dst)
        if kind is ast.Attribute:
            return self.attribute(node, mask, frame)
        if kind is ast.UnaryOp:
            return self.unary(node, mask, frame, dst)
        if kind is ast.BoolOp:
            return self.boolean(node, mask, frame, dst)
        if kind is ast.IfExp:
            return self.choice(node, mask, frame, dst)
        if kind is ast.Tuple:
            several: Any = node
            return tuple(self.value(e, mask, frame) for e in several.elts)
        return refuse(frame.source.name, node, ast.unparse(node), "write it with numbers and arrays")

    def literal(self, node: Any) -> Value:
        """Return a number that stands in the source."""
        known = self.launch.callees.get(id(node))
        if known is None:
            if not isinstance(node.value, bool | int | float):
                what = "a text" if isinstance(node.value, str) else ast.unparse(node)
                refuse(self.frame.source.name, node, what, "use numbers")
            known = self.launch.callees[id(node)] = constant(node.value)
        value: Value = known
        return value

    def named(self, node: Any, mask: int, frame: Frame) -> Thing:
        """Return what a name stands for."""
        name = node.id
        if name in frame.source.locals:
            missing = mask & ~frame.defined.get(name, 0)
            if missing:
                lane = (missing & -missing).bit_length() - 1
                who = self.launch.named(self.record.block, self.record.first_thread + lane)
                raise self.error(
                    f"reads {name}, which {who} has not set; give it a value on every path before"
                )
            return frame.names[name]
        thing = self.outside(name, frame)
        if isinstance(thing, _NUMBERS):
            return constant(thing)
        if isinstance(thing, np.ndarray):
            raise self.error(f"reads the array {name} from outside the kernel; pass it as an argument")
        if isinstance(thing, tuple) and all(isinstance(part, int | float) for part in thing):
            return tuple(constant(part) for part in thing)
        raise self.error(f"uses {name}, which is no number, as one; pass it as an argument or convert it")

    def outside(self, name: str, frame: Frame) -> Any:
        """Return what a name means outside the kernel."""
        if name in frame.source.outside:
            return frame.source.outside[name]
        if hasattr(builtins, name):
            return getattr(builtins, name)
        raise self.error(f"uses {name}, which is defined nowhere; give it a value or mend its spelling")

    def binary(
        self, node: ast.AST, op: ast.operator, left: Any, right: Any, mask: int, frame: Frame, dst: str | None
    ) -> Value:
        """Return ``left (op) right``; a product that goes into a sum is one fused instruction."""
        fused = self.fused(node, op, left, right, mask, frame, dst)
        if fused is not None:
            return fused
        a = left if isinstance(left, Value) else self.value(left, mask, frame)
        b = self.value(right, mask, frame)
        data = self.operated(op, a, b, mask)
        kind = type(op)
        letter = prefix(data.dtype)
        if kind in _INT_NAMES:
            name = letter + _INT_NAMES[kind]
        else:
            name = "SHF" if kind in (ast.LShift, ast.RShift) else "LOP3"
        slow = letter != "I" and kind in (ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
        if slow and kind is ast.Pow and isinstance(right, ast.Constant) and right.value == 2:
            slow = False  # a square is a product
        return self.computed(node, name, mask, [a, b], data, dst, "sfu" if slow else "alu")

    def operated(self, op: ast.operator, a: Value, b: Value, mask: int) -> Lanes:
        """Return an operation's result in every lane; a zero divisor is reported."""
        if type(op) in (ast.FloorDiv, ast.Mod) and "f" not in (a.data.dtype.kind, b.data.dtype.kind):
            zero = mask_of(b.data == 0) & mask
            if zero:
                self.problem("zero_division", zero, f"divides {shown(a)} by 0")
        try:
            return _values.operate(op, a.data, b.data)
        except (TypeError, ValueError) as unfit:
            why = str(unfit)
        raise self.error(f"cannot compute {why}")

    def fused(
        self, node: ast.AST, op: ast.operator, left: Any, right: Any, mask: int, frame: Frame, dst: str | None
    ) -> Value | None:
        """Return a sum with a product in it as one multiply-add, None where there is none."""
        if type(op) is not ast.Add and type(op) is not ast.Sub:
            return None
        if multiplies(right):
            place, product = 1, right
        elif multiplies(left):
            place, product = 0, left
        else:
            return None
        other: Value | None = None
        if place == 1:
            other = left if isinstance(left, Value) else self.value(left, mask, frame)
        x, y = self.value(product.left, mask, frame), self.value(product.right, mask, frame)
        if other is None:
            other = self.value(right, mask, frame)
        times = _values.operate(_TIMES, x.data, y.data)
        pair = (times, other.data) if place == 0 else (other.data, times)
        data = _values.operate(op, *pair)
        letter = prefix(data.dtype)
        if letter != prefix(times.dtype) or x.register is y.register is None:  # no one unit does both
            term = self.computed(product, prefix(times.dtype) + "MUL", mask, [x, y], times, None)
            return self.computed(node, letter + "ADD", mask, [term, other], data, dst)
        name = "IMAD" if letter == "I" else f"{letter}FMA"
        return self.computed(node, name, mask, [x, y, other], data, dst)

    def unary(self, node: Any, mask: int, frame: Frame, dst: str | None) -> Value:
        """Return ``-x``, ``not x`` or ``~x``."""
        a = self.value(node.operand, mask, frame)
        try:
            data = _values.negate(node.op, a.data)
        except TypeError as unfit:
            why = str(unfit)
            raise self.error(f"cannot compute: {why}") from None
        name = "LOP3" if isinstance(node.op, ast.Not | ast.Invert) else prefix(data.dtype) + "ADD"
        return self.computed(node, name, mask, [a], data, dst)

    def comparison(self, node: Any, mask: int, frame: Frame, dst: str | None) -> Value:
        """Return ``a < b`` or ``a < b < c``: a lane that has failed once does not look at the rest."""
        a = self.value(node.left, mask, frame)
        found: Value | None = None
        for op, right in zip(node.ops, node.comparators, strict=True):
            b = self.value(right, mask, frame)
            data = _values.compare(op, a.data, b.data)
            name = prefix(_values.unified(a.data.dtype, b.data.dtype)) + "SETP"
            operands = [a, b]
            if found is not None:
                data = data & found.data
                operands.append(found)
            place = right if found is None and len(node.ops) > 1 else node
            found = self.computed(place, name, mask, operands, data, dst)
            a = b
            mask &= mask_of(data)
            if not mask:
                break
        assert found is not None  # a comparison has at least one operator
        return found

    def boolean(self, node: Any, mask: int, frame: Frame, dst: str | None) -> Value:
        """Return ``a and b`` or ``a or b``: a lane that knows the answer does not look at the rest."""
        found = self.value(node.values[0], mask, frame)
        for part in node.values[1:]:
            truth = mask_of(found.data != 0) & mask
            rest = truth if isinstance(node.op, ast.And) else mask & ~truth
            if not rest:
                break
            b = self.value(part, rest, frame)
            dtype = found.data.dtype
            if dtype != b.data.dtype:
                dtype = _values.unified(dtype, b.data.dtype)
            data = np.where(lanes_of(rest), b.data.astype(dtype), found.data.astype(dtype))
            found = self.computed(node, "LOP3", mask, [found, b], data, dst)
        return found

    def choice(self, node: Any, mask: int, frame: Frame, dst: str | None) -> Thing:
        """Return ``a if test else b``: each lane works out its own side."""
        test = self.value(node.test, mask, frame)
        taken = mask_of(test.data != 0) & mask
        off = mask & ~taken
        if isinstance(node.body, ast.Tuple) and isinstance(node.orelse, ast.Tuple):
            a, b = (self.evaluate(side, lanes, frame) if lanes else None
                    for side, lanes in ((node.body, taken), (node.orelse, off)))  # fmt: skip
            return (a or b) if a is None or b is None else self.joined(node, b, a, taken)
        a = self.value(node.body, taken, frame) if taken else self.untaken(node.body, frame)
        b = self.value(node.orelse, off, frame) if off else self.untaken(node.orelse, frame)
        if a is None or b is None:
            return self.value(node.body if a else node.orelse, mask, frame)
        dtype = _values.unified(a.data.dtype, b.data.dtype)
        data = np.where(lanes_of(taken), a.data.astype(dtype), b.data.astype(dtype))
        return self.computed(node, "SEL", mask, [test, a, b], data, dst)

    def untaken(self, node: ast.expr, frame: Frame) -> Value | None:
        """Return a side that no lane takes, for its type, or None where nothing can be said of it yet."""
        try:
            return self.value(node, 0, frame)
        except (ValueError, KeyError):
            return None

    # --- arrays --------------------------------------------------------------------------------------------

    def subscript(self, node: Any, mask: int, frame: Frame, dst: str | None) -> Thing:
        """Return an element of an array, or one number of several."""
        if not isinstance(node.value, ast.Subscript):
            base = self.evaluate(node.value, mask, frame)
            if isinstance(base, tuple):
                at = self.value(node.slice, mask, frame)
                if at.register is not None or at.data.dtype.kind not in "iu":
                    raise self.error(f"picks {ast.unparse(node)} by a number that is not constant; keep the "
                                     "numbers in an array")  # fmt: skip
                place = int(at.data[0])
                if not -len(base) <= place < len(base):
                    raise self.error(
                        f"picks {ast.unparse(node)}, but there are {len(base)} numbers; count from 0"
                    )
                return base[place]
        storage, elements, ok, operands = self.place(node, mask, frame)
        return self.fetch(node, storage, elements, ok, operands, mask, dst)

    def place(
        self, node: Any, mask: int, frame: Frame
    ) -> tuple[Storage, NDArray[np.int64], int, list[Value]]:
        """Return array, element of each lane (-1 for none), lanes that have one, and the index's values."""
        base, chain = self.launch.chain(node)
        storage = self.evaluate(base, mask, frame)
        if not isinstance(storage, Storage):
            raise self.error(f"indexes {ast.unparse(base)}, which is no array; index an argument, a "
                             "shared or a "
                             f"local array")  # fmt: skip
        operands: list[Value] = []
        for part in chain:
            thing = self.evaluate(part, mask, frame)
            if isinstance(thing, tuple):
                operands += thing
            else:
                operands.append(self.as_value(thing, part))
        return (storage, *self.locate(node, storage, operands, mask), operands)

    def locate(
        self, node: Any, storage: Storage, operands: list[Value], mask: int
    ) -> tuple[NDArray[np.int64], int]:
        """Return each lane's element and the lanes that have one; reports those out of bounds."""
        memory = storage.memory
        if len(operands) != len(memory.shape):
            raise self.error(
                f"gives {counted(len(operands), 'index', 'es')} to {memory.name}, which has "
                f"{counted(len(memory.shape), 'dimension')}; give one for each"
            )
        key = (id(memory), mask, *[(v.data.dtype, v.data.tobytes()) for v in operands])
        known = self.launch.places.get(key)
        if known is not None:
            return known, mask
        lanes = lanes_of(mask)
        element: Any = 0
        bad = 0
        right = True
        for operand, size, stride in zip(operands, memory.shape, memory.strides, strict=True):
            self.whole(operand, "an index", node)
            index = operand.data.astype(np.int64, copy=False)
            wrong = (index.view(np.uint64) >= size) & lanes  # a negative one is far beyond
            if _values.some(wrong):
                right = False
                behind = wrong & (index < 0) & (index >= -size)
                if behind.any():
                    self.index_problem("negative_index", mask_of(behind), storage, operands)
                    index = np.where(behind, index + size, index)
                    wrong = wrong & ~behind
                bad |= mask_of(wrong)
            element = element + index * stride
        ok = mask & ~bad
        if bad:
            self.index_problem("out_of_bounds", bad, storage, operands)
        elements: NDArray[np.int64] = np.where(lanes_of(ok), element, -1) if ok != ALL else element
        if right:
            self.launch.keep_place(key, elements)
        return elements, ok

    def index_problem(self, kind: str, lanes: int, storage: Storage, operands: list[Value]) -> None:
        """Report an index that is not in its array."""
        memory = storage.memory
        lane = (lanes & -lanes).bit_length() - 1
        index = tuple(int(v.data[lane]) for v in operands)
        element = f"{memory.name}[{', '.join(map(str, index))}]"
        shape = str(memory.shape[0]) if len(memory.shape) == 1 else str(memory.shape)
        if kind == "out_of_bounds":
            text = f"touches {element}, but {memory.name} has shape {shape}; test the index with if first"
        else:
            text = f"touches {element}, which counts from the end of {memory.name}; was that meant?"
        self.problem(kind, lanes, text, memory.name, index)

    def problem(
        self, kind: str, lanes: int, text: str, array: str | None = None, index: tuple[int, ...] | None = None
    ) -> None:
        """Report what the first of some lanes does; the same on the same line is counted."""
        lane = (lanes & -lanes).bit_length() - 1
        thread = self.record.first_thread + lane
        line = self.line

        def make() -> Problem:
            who = self.launch.named(self.record.block, thread)
            return Problem(
                kind, line, f"Line {line}: {who} {text}{'' if text[-1] in '.?' else '.'}",
                self.launch.block_at(self.record.block), self.launch.thread(thread), array, index,
                count=lanes.bit_count(),
            )  # fmt: skip

        self.launch.report((kind, line, array), make, lanes.bit_count())

    def fetch(
        self,
        node: Any,
        storage: Storage,
        elements: NDArray[np.int64],
        ok: int,
        operands: list[Value],
        mask: int,
        dst: str | None,
    ) -> Value:
        """Load each lane's element."""
        if ok:
            at = places(storage, elements, ok)
            data = storage.flat[at]
            if ok != ALL:
                data, found = np.zeros(LANES, data.dtype), data
                data[lanes_of(ok)] = found
            if storage.written is not None:
                written = storage.written[at]
                if not _values.every(written):
                    which = np.flatnonzero(lanes_of(ok))[~written]
                    first = storage.memory.element(int(elements[which[0]]))
                    self.problem(
                        "uninitialised", mask_of(np.isin(np.arange(LANES), which)),
                        f"reads {first} before it is written", storage.memory.name,
                        storage.memory.index(int(elements[which[0]])),
                    )  # fmt: skip
        else:
            data = np.zeros(LANES, storage.flat.dtype)
        register = dst or self.launch.register(node)
        text = f"{_LOADS[storage.memory.space]} {register}, {self.launch.text(node)}"
        self.issue("load", text, mask, register, operands, data, storage, elements)
        return Value(data, register)

    def store(self, node: Any, value: Value, mask: int, frame: Frame) -> None:
        """Store each lane's value into its element."""
        storage, elements, ok, operands = self.place(node, mask, frame)
        self.write(node, storage, elements, ok, operands, value, mask)

    def write(
        self,
        node: Any,
        storage: Storage,
        elements: NDArray[np.int64],
        ok: int,
        operands: list[Value],
        value: Value,
        mask: int,
    ) -> None:
        """Store each lane's value into the element found for it."""
        data = value.data.astype(storage.flat.dtype)
        if ok:
            at = places(storage, elements, ok)
            storage.flat[at] = data if ok == ALL else data[lanes_of(ok)]
            if storage.written is not None:
                storage.written[at] = True
        text = f"{_STORES[storage.memory.space]} {self.launch.text(node)}, {shown(value)}"
        self.issue("store", text, mask, None, [*operands, value], data, storage, elements)

    # --- names with dots, and calls ------------------------------------------------------------------------

    def attribute(self, node: Any, mask: int, frame: Frame) -> Thing:
        """Return ``cuda.threadIdx.x``, ``a.shape``, ``math.pi`` and their like."""
        found = self.callee(node, frame)
        if isinstance(found, str) and found.startswith("cuda."):
            return self.place_of_thread(found, node)
        if isinstance(found, _NUMBERS):
            return constant(found)
        if found is not None:
            raise self.error(f"uses {ast.unparse(node)}, which is no number")
        base = self.evaluate(node.value, mask, frame)
        if isinstance(base, Storage):
            name = base.memory.name
            if node.attr == "shape":
                fixed = base.memory.space != "global"
                return tuple(
                    Value(constant(size).data, None if fixed else f"c[{name}.shape[{axis}]]")
                    for axis, size in enumerate(base.memory.shape)
                )
            if node.attr == "size":
                return Value(constant(int(np.prod(base.memory.shape))).data, f"c[{name}.size]")
            if node.attr == "ndim":
                return constant(len(base.memory.shape))
        return refuse(frame.source.name, node, ast.unparse(node), "use shape, size or ndim of an array")

    def place_of_thread(self, path: str, node: ast.AST) -> Value:
        """Return a thread's or block's place, or the launch's size, along an axis."""
        if path not in self.special:
            if path == "cuda.laneid":
                self.special[path] = Value(np.arange(LANES, dtype=np.int32), "%laneid")
            elif path == "cuda.warpsize":
                self.special[path] = constant(np.int32(LANES))
            else:
                _, *rest = path.split(".")
                if len(rest) != 2 or rest[1] not in _AXES:
                    raise self.error(f"uses {path}, which is not traced; use threadIdx, blockIdx, "
                                     "blockDim or "
                                     f"gridDim with .x, .y or .z, cuda.laneid or cuda.warpsize")  # fmt: skip
                axis = _AXES[rest[1]]
                sizes = {"blockDim": ("ntid", self.launch.block), "gridDim": ("nctaid", self.launch.grid)}
                if rest[0] == "threadIdx":
                    found = Value(self.thread[axis].astype(np.int32), f"%tid.{rest[1]}")
                elif rest[0] == "blockIdx":
                    found = Value(constant(np.int32(self.block[axis])).data, f"%ctaid.{rest[1]}")
                elif rest[0] in sizes:
                    short, size = sizes[rest[0]]
                    found = Value(constant(np.int32(size[axis])).data, f"c[{short}.{rest[1]}]")
                else:
                    raise self.error(f"uses {path}, which is not traced; cuda has threadIdx, blockIdx, "
                                     "blockDim and "
                                     f"gridDim")  # fmt: skip
                self.special[path] = found
        return self.special[path]

    def callee(self, node: Any, frame: Frame) -> Any:
        """Return what a dotted name from outside is: a path in ``cuda``, an object, or None."""
        key = id(node)
        if key in self.launch.callees:
            return self.launch.callees[key]
        found: Any = None
        if isinstance(node, ast.Name):
            if node.id not in frame.source.locals:
                found = self.outside(node.id, frame)
                found = None if isinstance(found, str) else _warp.cuda_name(found) or found
        elif isinstance(node, ast.Attribute):
            base = self.callee(node.value, frame)
            if isinstance(base, str):
                found = f"{base}.{node.attr}"
            elif isinstance(base, ModuleType | type):
                found = getattr(base, node.attr, None)
                if found is None:
                    raise self.error(f"uses {ast.unparse(node)}, which {base.__name__} does not have")
                found = None if isinstance(found, str) else _warp.cuda_name(found) or found
        self.launch.callees[key] = found
        return found

    def call(self, node: Any, mask: int, frame: Frame, dst: str | None) -> Thing:
        """Return what a call gives."""
        function = self.callee(node.func, frame)
        if isinstance(function, str):
            return self.call_cuda(function, node, mask, frame, dst)
        word = ast.unparse(node.func)
        if isinstance(beneath(function), FunctionType):
            things = [self.evaluate(e, mask, frame) for e in node.args]
            return self.inline(beneath(function), word, things, mask, frame)
        if function is builtins.len:
            storage = self.evaluate(node.args[0], mask, frame) if node.args else None
            if not isinstance(storage, Storage):
                raise self.error("calls len of what is no array")
            name = storage.memory.name
            return Value(constant(storage.memory.shape[0]).data, f"c[{name}.shape[0]]")
        cast_to = self.cast_name(function)
        plain = {builtins.abs: "abs", builtins.min: "min", builtins.max: "max", builtins.pow: "pow",
                 builtins.round: "round"}  # fmt: skip
        in_math = isinstance(node.func, ast.Attribute) or getattr(function, "__module__", "") == "math"
        name = getattr(function, "__name__", "")
        try_math = in_math and name in _values.MATH and getattr(math, name, None) is function
        if cast_to is None and not try_math and not any(function is f for f in plain):
            refuse(frame.source.name, node, f"{word}(...)", instead_of(function, name))
        args = [self.value(e, mask, frame) for e in node.args]
        try:
            if cast_to is not None:
                if len(args) != 1:
                    raise TypeError(f"{word} takes one number")
                data = _values.cast(args[0].data, cast_to)
                if data.dtype == args[0].data.dtype:
                    return args[0]
                return self.computed(node, conversion(args[0].data.dtype, data.dtype), mask, args, data, dst)
            if try_math:
                data = _values.math_function(name, *(a.data for a in args))
                what = "alu" if name in _values.PLAIN_MATH else "sfu"
                letters = "MUFU." + name.upper() if what == "sfu" else prefix(data.dtype) + name.upper()
                return self.computed(node, letters, mask, args, data, dst, what)
            return self.plain(plain[function], node, args, mask, dst)
        except TypeError as unfit:
            why = str(unfit)
        raise self.error(f"calls {word} with what it does not take: {why}")

    def plain(self, name: str, node: ast.AST, args: list[Value], mask: int, dst: str | None) -> Value:
        """Return ``abs``, ``min``, ``max``, ``round`` or ``pow`` of numbers."""
        if name == "abs":
            if len(args) != 1:
                raise TypeError("abs takes one number")
            data = np.abs(args[0].data)
            return self.computed(node, prefix(data.dtype) + "ABS", mask, args, data, dst)
        if name == "round":
            if len(args) != 1:
                raise TypeError("round takes one number here, and gives a whole one")
            data = np.rint(args[0].data).astype(np.int64)
            return self.computed(node, conversion(args[0].data.dtype, data.dtype), mask, args, data, dst)
        if name == "pow":
            if len(args) != 2:
                raise TypeError("pow takes two numbers")
            data = self.operated(ast.Pow(), args[0], args[1], mask)
            return self.computed(node, "MUFU.POW", mask, args, data, dst, "sfu")
        if len(args) < 2:
            raise TypeError(f"{name} takes two or more numbers")
        found = args[0]
        for other in args[1:]:
            data = _values.extreme(name, found.data, other.data)
            found = self.computed(node, prefix(data.dtype) + "MNMX", mask, [found, other], data, dst)
        return found

    def cast_name(self, function: Any) -> str | None:
        """Return the type that a call casts to: Python's, NumPy's or Numba's."""
        for kind in (builtins.int, builtins.float, builtins.bool):
            if function is kind:
                return str(kind.__name__)
        name = getattr(function, "__name__", None) if isinstance(function, type) else str(function)
        is_type = isinstance(function, type) and issubclass(function, np.generic)
        of_numba = type(function).__module__.startswith("numba")
        if name in _CASTS and (is_type or of_numba):
            return name
        return "bool" if of_numba and name in ("bool", "boolean") else None

    def inline(
        self, function: FunctionType, word: str, things: list[Thing], mask: int, frame: Frame
    ) -> Thing:
        """Run a function that the kernel calls, as a compiler inlines it."""
        source = self.launch.helper(function)
        if frame.depth >= DEEPEST:
            raise self.error(f"calls {word} {DEEPEST} calls deep; write a loop instead of a function that "
                             "calls "
                             f"itself")  # fmt: skip
        if len(things) != len(source.parameters):
            defaults = "; Numba fills in no defaults, so give them all" if function.__defaults__ else ""
            raise self.error(
                f"calls {word} with {len(things)} arguments, but it has {len(source.parameters)}{defaults}"
            )
        inner = Frame(source, mask, f"{source.name}.", depth=frame.depth + 1)
        for name, thing in zip(source.parameters, things, strict=True):
            inner.names[name], inner.defined[name] = thing, ALL
        line = self.line
        for _ in self.statements(source.body, mask, inner):
            raise self.error("waits for the block inside a function; move cuda.syncthreads() into the kernel")
        self.line = line
        if inner.result is not None and mask & ~inner.returned:
            raise self.error(
                f"calls {word}, which ends without return in some threads; return a number always"
            )
        return inner.result

    def call_cuda(self, path: str, node: Any, mask: int, frame: Frame, dst: str | None) -> Thing:
        """Return what a function of ``cuda`` gives."""
        name = path.removeprefix("cuda.")
        if name in ("grid", "gridsize"):
            return self.grid(name, node, mask, frame, dst)
        if name in ("shared.array", "local.array"):
            return self.declare(name.partition(".")[0], node, mask, frame, dst)
        if name.startswith("atomic."):
            return self.atomic(name.removeprefix("atomic."), node, mask, frame, dst)
        if name == "syncwarp":
            missing = self.live & ~mask
            if missing and not node.args:
                who = self.launch.named(self.record.block, self.record.first_thread + low(missing))
                self.problem("divergent_syncwarp", mask, f"is at cuda.syncwarp() without {who}; give the "
                             "mask of "
                             f"those that come, or move it out of the branch")  # fmt: skip
            self.issue("warp barrier", "WARPSYNC", mask)
            return None
        if name in ("threadfence", "threadfence_block", "threadfence_system"):
            self.issue("alu", "MEMBAR", mask)
            self.launch.fenced = True
            return None
        if name == "syncthreads":
            raise self.error("uses cuda.syncthreads() within an expression; write it on a line of its own")
        if name in _warp.FUNCTIONS:
            return self.warp_function(name, node, mask, frame, dst)
        if name == "fma" and len(node.args) == 3:
            args = [self.value(e, mask, frame) for e in node.args]
            data = _values.operate(_PLUS, _values.operate(_TIMES, args[0].data, args[1].data), args[2].data)
            return self.computed(node, prefix(data.dtype) + "FMA", mask, args, data, dst)
        return refuse(frame.source.name, node, f"{path}(...)", _warp.instead(name))

    def warp_function(self, name: str, node: Any, mask: int, frame: Frame, dst: str | None) -> Value:
        """Return what a shuffle, a vote, a question about bits or ``cuda.selp`` gives."""
        args = [self.value(e, mask, frame) for e in node.args]
        if len(args) != (wanted := _warp.arguments_of(name)):
            raise self.error(f"calls cuda.{name} with {len(args)} arguments, but it takes {wanted}")
        if name == "activemask":
            return self.exchanged(node, "VOTE.ALL", mask, [], np.full(LANES, mask, np.uint32), dst)
        if name == "selp":
            chosen = self.merged(args[1], args[2], mask_of(args[0].data != 0)).data
            return self.computed(node, "SEL", mask, args, chosen, dst)
        self.whole(args[0], "bits", node)
        if name in _warp.BITS:
            return self.computed(node, name.upper(), mask, args, _warp.bits_of(name, args[0].data), dst)
        self.check_members(name, args[0], mask)
        letters = name.removesuffix("_sync").upper()
        if name in _warp.VOTES:
            data = _warp.voted(name, mask_of(args[1].data != 0) & mask, mask)
            return self.exchanged(node, f"VOTE.{letters}", mask, args[1:], data, dst)
        self.whole(args[2], "a number of lanes", node)
        data, source, off = _warp.shuffled(name, args[1].data, args[2].data, mask)
        if off:
            text = (
                f"takes its value from lane {int(source[low(off)])} of its warp, which takes no part in "
                f"cuda.{name}; let all lanes come to it, or use the value only where there is one"
            )
            self.problem("inactive_lane", off, text)
        return self.exchanged(node, letters.replace("_", "."), mask, args[1:], data, dst)

    def exchanged(
        self, node: Any, name: str, mask: int, operands: Sequence[Value], data: Lanes, dst: str | None
    ) -> Value:
        """Record an operation that asks other lanes: it is issued also where its operands are constants."""
        register = dst or self.launch.register(node)
        text = ", ".join([f"{name} {register}", *(v.register for v in operands if v.register)])
        self.issue("alu", text, mask, register, operands, data)
        return Value(data, register)

    def check_members(self, name: str, members: Value, mask: int) -> None:
        """Report lanes that a shuffle or a vote counts on and that are elsewhere."""
        named = int(members.data[low(mask)]) & ALL if mask else 0
        missing = self.live & named & ~mask
        if missing:
            who = self.launch.named(self.record.block, self.record.first_thread + low(missing))
            self.problem("divergent_syncwarp", mask, f"is at cuda.{name} without {who}; give the mask of "
                         "those that come, or move it out of the branch")  # fmt: skip

    def grid(self, name: str, node: Any, mask: int, frame: Frame, dst: str | None) -> Thing:
        """Return ``cuda.grid(n)`` or ``cuda.gridsize(n)``."""
        axes = self.fixed(node.args[0], mask, frame) if len(node.args) == 1 else None
        if axes not in (1, 2, 3):
            raise self.error(f"calls cuda.{name} with other than 1, 2 or 3")
        registers = dst.split(",") if dst else [self.launch.register(node)]
        if len(registers) != axes:
            registers = [f"{self.launch.register(node)}.{axis}" for axis in "xyz"[:axes]]
        found = []
        for axis, register in zip("xyz", registers, strict=False):
            size = self.place_of_thread(f"cuda.blockDim.{axis}", node)
            if name == "gridsize":
                blocks = self.place_of_thread(f"cuda.gridDim.{axis}", node)
                found.append(Value(size.data.astype(np.int64) * blocks.data, f"c[gridsize.{axis}]"))
                continue
            thread = self.place_of_thread(f"cuda.threadIdx.{axis}", node)
            block = self.place_of_thread(f"cuda.blockIdx.{axis}", node)
            data = thread.data + block.data.astype(np.int64) * size.data
            self.issue("alu", f"IMAD {register}, {block.register}, {size.register}, {thread.register}", mask,
                       register, [block, size, thread], data)  # fmt: skip
            found.append(Value(data, register))
        return found[0] if axes == 1 else tuple(found)

    def declare(self, space: str, node: Any, mask: int, frame: Frame, dst: str | None) -> Storage:
        """Return the array of ``cuda.shared.array(shape, dtype)`` or ``cuda.local.array``."""
        given = {k.arg: k.value for k in node.keywords}
        given.update(zip(("shape", "dtype"), node.args, strict=False))
        if set(given) != {"shape", "dtype"} or len(node.args) + len(node.keywords) != 2:
            raise self.error(f"calls cuda.{space}.array without its two arguments; write "
                             f"cuda.{space}.array(shape, dtype)")  # fmt: skip
        written = given["shape"]
        for part in written.elts if isinstance(written, ast.Tuple) else [written]:
            if any(isinstance(n, ast.Name) for n in ast.walk(part)) and isinstance(part, ast.BinOp):
                raise self.error(
                    f"computes {ast.unparse(part)} in a shape, which Numba cannot; give the number a name "
                    f"outside the kernel"
                )
        thing = self.evaluate(written, mask, frame)
        parts = thing if isinstance(thing, tuple) else (self.as_value(thing, node),)
        if any(v.register is not None for v in parts):
            raise self.error(f"gives cuda.{space}.array a shape that is not constant; use numbers or "
                             "names set "
                             f"outside the kernel")  # fmt: skip
        for part in parts:
            self.whole(part, "a shape", node)
        shape = tuple(int(v.data[0]) for v in parts)
        if not 1 <= len(shape) <= 3 or min(shape) < 1:
            raise self.error(f"declares an array of shape {shape}; give 1 to 3 numbers of at least 1")
        dtype = self.dtype(given["dtype"], frame)
        name = (dst or f"{space} array").rpartition(".")[2]
        memory = self.launch.declare(node, space, name, shape, dtype)
        held = self.shared if space == "shared" else self.local
        if id(node) not in held:
            count = int(np.prod(shape))
            size: Any = count if space == "shared" else (LANES, count)
            held[id(node)] = Storage(memory, np.zeros(size, dtype), np.zeros(size, np.bool_))
        return held[id(node)]

    def dtype(self, node: Any, frame: Frame) -> str:
        """Return the name of an element type: NumPy's, Numba's or Python's."""
        found = self.callee(node, frame)
        if found is None and isinstance(node, ast.Attribute) and node.attr == "dtype":
            base = self.evaluate(node.value, 0, frame)
            found = base.flat.dtype if isinstance(base, Storage) else None
        kind = self.cast_name(found)
        if kind is None and isinstance(found, np.dtype):
            kind = found.name
        names = {"int": "int64", "float": "float64", "bool": "bool", "bool_": "bool"}
        kind = names.get(kind or "", kind)
        if kind is None or np.dtype(kind).kind not in "biuf":
            raise self.error(f"gives {ast.unparse(node)} as the type of an array; write np.float32, "
                             "np.int32 or "
                             f"another type of numbers")  # fmt: skip
        return np.dtype(kind).name

    def atomic(self, op: str, node: Any, mask: int, frame: Frame, dst: str | None) -> Value:
        """Run an atomic in every lane, one after another from lane 0; returns the old values."""
        if op not in _warp.ATOMICS:
            refuse(frame.source.name, node, f"cuda.atomic.{op}", f"{', '.join(_warp.ATOMICS)} are")
        wanted = _warp.atomic_arguments(op)
        if len(node.args) != len(wanted):
            raise self.error(f"calls cuda.atomic.{op} without its {len(wanted)} arguments: "
                             f"{', '.join(wanted)}")  # fmt: skip
        target = self.launch.atomic_target(node)
        storage, elements, ok, operands = self.place(target, mask, frame)
        if storage.memory.space == "local":
            raise self.error(f"uses an atomic on {storage.memory.name}, which each thread has for itself; "
                             f"write {storage.memory.name}[...] += ...")  # fmt: skip
        value = self.value(node.args[-1], mask, frame)
        expected = [self.value(node.args[-2], mask, frame)] if "old" in wanted else []
        if op in _warp.BITWISE_ATOMICS and storage.flat.dtype.kind == "f":
            raise self.error(f"calls cuda.atomic.{op} on {storage.memory.name}, which holds floats; it takes "
                             f"whole numbers")  # fmt: skip
        data = value.data.astype(storage.flat.dtype)
        compared = [e.data.astype(storage.flat.dtype) for e in expected]
        old, left = np.zeros(LANES, storage.flat.dtype), np.zeros(LANES, storage.flat.dtype)
        change = _warp.ATOMICS[op]
        fresh = 0
        for lane in np.flatnonzero(lanes_of(ok)).tolist():
            at = elements[lane]
            if storage.written is not None and not storage.written[at]:
                fresh |= 1 << lane
                storage.written[at] = True
            old[lane] = storage.flat[at]
            storage.flat[at] = change(storage.flat[at], data[lane], *(e[lane] for e in compared))
            left[lane] = storage.flat[at]
        if fresh and op != "exch":
            first = storage.memory.element(int(elements[low(fresh)]))
            self.problem("uninitialised", fresh, f"changes {first} before it is written", storage.memory.name,
                         storage.memory.index(int(elements[low(fresh)])))  # fmt: skip
        register = dst or self.launch.register(node)
        name = "ATOMS" if storage.memory.space == "shared" else "ATOMG"
        shows = [register, self.launch.text(target), *map(shown, expected), shown(value)]
        text = f"{name}.{op.upper().rstrip('_')} {', '.join(shows)}"
        self.issue(
            "atomic", text, mask, register, [*operands, *expected, value], data, storage, elements, left
        )
        return Value(old, register)

    # --- small questions -----------------------------------------------------------------------------------

    def whole(self, value: Value, what: str, node: ast.AST) -> None:
        """Refuse a number with a fraction where a whole one is asked for."""
        if value.data.dtype.kind == "f":
            raise self.error(
                f"uses a float as {what} in {ast.unparse(node)}; write int(...) or // instead of /"
            )

    def fixed(self, node: ast.expr, mask: int, frame: Frame) -> int | None:
        """Return a whole number that is known from the source, else None."""
        value = self.value(node, mask, frame)
        known = value.register is None and value.data.dtype.kind in "iu"
        return int(value.data[0]) if known else None


def low(mask: int) -> int:
    """Return the first lane of a mask."""
    return (mask & -mask).bit_length() - 1


def places(storage: Storage, elements: NDArray[np.int64], ok: int) -> Any:
    """Return where in a storage the lanes of `ok` find their elements; each has a local array of its own."""
    lanes = lanes_of(ok)
    at = elements if ok == ALL else elements[lanes]
    return (np.flatnonzero(lanes), at) if storage.memory.space == "local" else at


def instead_of(function: Any, name: str) -> str:
    """Return what to write instead of a function that is not traced."""
    if function is builtins.print:
        return "store what you would look at into an array, and print that outside"
    if getattr(function, "__self__", None).__class__.__module__.startswith("numpy.random"):
        return "draw the numbers outside and pass them in an array"
    if function is builtins.complex:
        return "keep the real and the imaginary part in a variable each"
    if name in _MAKERS:
        return "write cuda.local.array(shape, dtype) or cuda.shared.array(shape, dtype)"
    of_numpy = getattr(function, "__module__", None) == "numpy" and not isinstance(function, np.ufunc)
    if function is None or any(function is f for f in _OVER_MANY) or (of_numpy and function is not np.round):
        return "write a for loop over range(...): a thread works on one number after another"
    known = {"abs": "abs", "absolute": "abs", "minimum": "min", "maximum": "max", "round": "round",
             "power": "**"}  # fmt: skip
    if isinstance(function, np.ufunc) or function is np.round:
        in_math = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2"}.get(name, name)
        if name in known or in_math in _values.MATH:
            return f"write {known.get(name) or f'math.{in_math}'} of a single number"
    return f"use one of math.{', math.'.join(_values.MATH[:6])}, ..., abs, min, max, int, float"


def prefix(dtype: np.dtype[Any]) -> str:
    """Return the letter that names a type in an instruction."""
    return _LETTERS.get((dtype.kind, dtype.itemsize), "I")


def multiplies(side: Any) -> bool:
    """Tell whether one side of a sum is a product."""
    return type(side) is ast.BinOp and type(side.op) is ast.Mult


def conversion(before: np.dtype[Any], after: np.dtype[Any]) -> str:
    """Return the mnemonic of a conversion."""
    return f"{'F' if before.kind == 'f' else 'I'}2{'F' if after.kind == 'f' else 'I'}"


def shown(value: Value) -> str:
    """Return an operand as a listing shows it."""
    if value.register is not None:
        return value.register
    return repr(value.data[0].item()) if _values.even(value.data) else "a constant per lane"
