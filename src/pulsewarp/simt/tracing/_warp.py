"""What a kernel takes from ``cuda`` beyond places and arrays: exchange between lanes, bits, atomics."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp.simt import cuda as stand_in
from pulsewarp.simt._instruction import LANES
from pulsewarp.simt.tracing._values import ALL, Lanes, Value, lanes_of, mask_of, unified

if TYPE_CHECKING:
    from pulsewarp.simt.tracing._machine import Frame, Machine

# --- names -------------------------------------------------------------------------------------------------

_BY_NAME = (
    "threadIdx", "blockIdx", "blockDim", "gridDim", "grid", "gridsize", "shared", "local", "atomic",
    "syncthreads", "syncwarp", "threadfence", "fma", "laneid", "popc", "brev", "clz", "ffs", "selp",
)  # fmt: skip


def cuda_name(thing: Any) -> str | None:
    """Return ``cuda``, or ``cuda.grid`` for what was imported from it by name; None for anything else."""
    if is_cuda(thing):
        return "cuda"
    modules = [stand_in, *(m for name, m in sys.modules.items() if name.endswith("numba.cuda"))]
    for module in modules:
        for name in _BY_NAME:
            if thing is module.__dict__.get(name, modules):
                return f"cuda.{name}"
    return None


def is_cuda(thing: Any) -> bool:
    """Tell whether a thing is ``numba.cuda`` or what stands in for it."""
    return thing is stand_in or (isinstance(thing, ModuleType) and thing.__name__.endswith("numba.cuda"))


# --- atomics -----------------------------------------------------------------------------------------------

# What becomes of an element, from its old value, the atomic's last argument and what a swap compares with.
ATOMICS: Mapping[str, Callable[..., Any]] = {
    "add": lambda old, v: old + v,
    "sub": lambda old, v: old - v,
    "max": max,
    "min": min,
    "and_": lambda old, v: old & v,
    "or_": lambda old, v: old | v,
    "xor": lambda old, v: old ^ v,
    "exch": lambda old, v: v,
    "cas": lambda old, v, expected: v if old == expected else old,
    "compare_and_swap": lambda old, v, expected: v if old == expected else old,
}
BITWISE_ATOMICS = ("and_", "or_", "xor")


def atomic_arguments(op: str) -> tuple[str, ...]:
    """Return the arguments of an atomic by their names."""
    if op == "cas":
        return ("array", "index", "old", "value")
    return ("array", "old", "value") if op == "compare_and_swap" else ("array", "index", "value")


# --- functions ---------------------------------------------------------------------------------------------

# Where each lane's value comes from: lane and the shuffle's own number, both of 32 lanes.
_SHUFFLES: Mapping[str, Callable[[Lanes, Lanes], Lanes]] = {
    "shfl_sync": lambda lane, by: by % LANES,
    "shfl_up_sync": lambda lane, by: lane - by,
    "shfl_down_sync": lambda lane, by: lane + by,
    "shfl_xor_sync": lambda lane, by: lane ^ by,
}
_VOTES: Mapping[str, Callable[[int, int], bool | int]] = {  # of the lanes that say yes, and all that vote
    "any_sync": lambda yes, all_: yes != 0,
    "all_sync": lambda yes, all_: yes == all_,
    "eq_sync": lambda yes, all_: yes in (0, all_),
    "ballot_sync": lambda yes, all_: yes,
}


def _leading_zeros(bits: str) -> int:
    return len(bits) - len(bits.lstrip("0"))


_BITS: Mapping[str, Callable[[str], int]] = {  # of a number written out in its bits, the highest first
    "popc": lambda bits: bits.count("1"),
    "clz": _leading_zeros,
    "ffs": lambda bits: (_leading_zeros(bits[::-1]) + 1) % (len(bits) + 1),
    "brev": lambda bits: int(bits[::-1], 2),
}
FUNCTIONS = (*_SHUFFLES, *_VOTES, *_BITS, "activemask", "selp")
FOLLOWED = (
    "cuda.grid, gridsize, syncthreads, syncwarp, threadfence, shared.array, local.array, fma, atomic.add and "
    f"its like, {', '.join(FUNCTIONS)} are"
)
"""What is followed instead of what is not."""

_BARRIER_VOTE = "write cuda.atomic.add into an element of shared memory, and cuda.syncthreads() behind it"
INSTEAD: Mapping[str, str] = {
    "syncthreads_count": _BARRIER_VOTE,
    "syncthreads_and": _BARRIER_VOTE,
    "syncthreads_or": _BARRIER_VOTE,
    "const.array_like": "pass the array as an argument",
    "to_device": "call it outside the kernel",
}
_SHUFFLED = ("int32", "int64", "float32", "float64")  # the first that a value fits is what Numba shuffles


def instead(name: str) -> str:
    """Return what to write instead of a name that ``cuda`` has not, or that is not followed."""
    if name in INSTEAD:
        return INSTEAD[name]
    near = difflib.get_close_matches(name, [*_BY_NAME, *FUNCTIONS], 1)
    return f"write cuda.{near[0]} if that was meant" if near else FOLLOWED


def call(machine: Machine, name: str, node: Any, mask: int, frame: Frame, dst: str | None) -> Value:
    """Return what one of `FUNCTIONS` gives."""
    args = [machine.value(e, mask, frame) for e in node.args]
    wanted = 3 if name in (*_SHUFFLES, "selp") else 2 if name in _VOTES else 1 if name in _BITS else 0
    if len(args) != wanted:
        raise machine.error(f"calls cuda.{name} with {len(args)} arguments, but it takes {wanted}")
    if name in _SHUFFLES or name in _VOTES:
        _check_members(machine, name, node, args[0], mask)
    if name in _SHUFFLES:
        return _shuffle(machine, name, node, args, mask, dst)
    if name in _VOTES or name == "activemask":
        return _vote(machine, name, node, args, mask, dst)
    if name == "selp":
        dtype = unified(args[1].data.dtype, args[2].data.dtype)
        chosen = np.where(args[0].data != 0, args[1].data.astype(dtype), args[2].data.astype(dtype))
        return machine.computed(node, "SEL", mask, args, chosen, dst)
    machine.whole(args[0], "bits", node)
    return machine.computed(node, name.upper(), mask, args, _bits(name, args[0].data), dst)


def _check_members(machine: Machine, name: str, node: Any, members: Value, mask: int) -> None:
    """Report lanes that a shuffle or a vote counts on and that are elsewhere."""
    machine.whole(members, "a mask of lanes", node)
    if not mask:
        return
    named = int(members.data[lanes_of(mask)][0]) & ALL
    missing = machine.live & named & ~mask
    if missing:
        lane = (missing & -missing).bit_length() - 1
        who = machine.launch.named(machine.record.block, machine.record.first_thread + lane)
        machine.problem(
            "divergent_syncwarp", mask, f"is at cuda.{name} without {who}; give the mask of those that "
            f"come, or move it out of the branch"
        )  # fmt: skip


def _shuffle(
    machine: Machine, name: str, node: Any, args: Sequence[Value], mask: int, dst: str | None
) -> Value:
    _, given, by = args
    machine.whole(by, "a number of lanes", node)
    held = [t for t in _SHUFFLED if np.can_cast(given.data.dtype, t)]
    dtype = np.dtype(held[0] if held[0] != "float64" or given.data.dtype.kind == "f" else "int64")
    lane = np.arange(LANES)
    source = _SHUFFLES[name](lane, by.data.astype(np.int64))
    source = np.where((source >= 0) & (source < LANES), source, lane)
    off = mask_of(~lanes_of(mask)[source]) & mask
    if off:
        first = (off & -off).bit_length() - 1
        machine.problem(
            "inactive_lane", off, f"takes its value from lane {int(source[first])} of its warp, which takes "
            f"no part in cuda.{name}; let all lanes come to it, or use the value only where there is one"
        )  # fmt: skip
    data = np.where(lanes_of(mask), given.data, 0).astype(dtype)[source]
    return _recorded(machine, node, f"SHFL.{name.split('_')[1].upper()}", mask, [given, by], data, dst)


def _vote(machine: Machine, name: str, node: Any, args: Sequence[Value], mask: int, dst: str | None) -> Value:
    if name == "activemask":
        data: NDArray[Any] = np.full(LANES, mask, np.uint32)
        return _recorded(machine, node, "VOTE.ALL", mask, [], data, dst)
    yes = mask_of(args[1].data != 0) & mask
    found = _VOTES[name](yes, mask)
    data = np.full(LANES, found, np.uint32 if name == "ballot_sync" else np.bool_)
    if name == "ballot_sync":
        data = data.view(np.int32)  # a signed number in Numba
    letters = f"VOTE.{name.removesuffix('_sync').upper()}"
    return _recorded(machine, node, letters, mask, [args[1]], data, dst)


def _recorded(
    machine: Machine, node: Any, name: str, mask: int, operands: Sequence[Value], data: Lanes, dst: str | None
) -> Value:
    """Record an operation that asks other lanes: it is issued also where all its operands are constants."""
    register = dst or machine.launch.register(node)
    text = ", ".join([f"{name} {register}", *(v.register for v in operands if v.register)])
    machine.issue("alu", text, mask, register, operands, data)
    return Value(data, register)


def _bits(name: str, data: Lanes) -> Lanes:
    """Return a question about the bits of each number, in the type that Numba gives the answer."""
    if data.dtype.itemsize < 4:
        data = data.astype(np.int32)
    size = 8 * data.dtype.itemsize
    answers = [_BITS[name](format(int(v) & (2**size - 1), f"0{size}b")) for v in data]
    if name == "ffs":
        return np.array(answers, np.uint32)
    return np.array(answers, np.dtype(f"uint{size}")).view(data.dtype)
