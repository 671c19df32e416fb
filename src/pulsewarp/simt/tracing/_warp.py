"""What a kernel takes from ``cuda`` beyond places and arrays: exchange between lanes, bits, atomics."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp.simt import cuda as stand_in
from pulsewarp.simt._instruction import LANES
from pulsewarp.simt.tracing._values import Lanes, lanes_of, mask_of

# --- names -------------------------------------------------------------------------------------------------

_BY_NAME = (
    "threadIdx", "blockIdx", "blockDim", "gridDim", "grid", "gridsize", "shared", "local", "atomic",
    "syncthreads", "syncwarp", "threadfence", "fma", "laneid",
)  # fmt: skip


def cuda_name(thing: Any) -> str | None:
    """Return ``cuda``, or ``cuda.grid`` for what was imported from it by name; None for anything else."""
    if is_cuda(thing):
        return "cuda"
    modules = [stand_in, *(m for name, m in sys.modules.items() if name.endswith("numba.cuda"))]
    for module in modules:
        for name in (*_BY_NAME, *FUNCTIONS):
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
SHUFFLES: Mapping[str, Callable[[Lanes, Lanes], Lanes]] = {
    "shfl_sync": lambda lane, by: by % LANES,
    "shfl_up_sync": lambda lane, by: lane - by,
    "shfl_down_sync": lambda lane, by: lane + by,
    "shfl_xor_sync": lambda lane, by: lane ^ by,
}
VOTES: Mapping[str, Callable[[int, int], bool | int]] = {  # of the lanes that say yes, and all that vote
    "any_sync": lambda yes, all_: yes != 0,
    "all_sync": lambda yes, all_: yes == all_,
    "eq_sync": lambda yes, all_: yes in (0, all_),
    "ballot_sync": lambda yes, all_: yes,
}


def _leading_zeros(bits: str) -> int:
    return len(bits) - len(bits.lstrip("0"))


BITS: Mapping[str, Callable[[str], int]] = {  # of a number written out in its bits, the highest first
    "popc": lambda bits: bits.count("1"),
    "clz": _leading_zeros,
    "ffs": lambda bits: (_leading_zeros(bits[::-1]) + 1) % (len(bits) + 1),
    "brev": lambda bits: int(bits[::-1], 2),
}
FUNCTIONS = (*SHUFFLES, *VOTES, *BITS, "activemask", "selp")
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


def arguments_of(name: str) -> int:
    """Return how many arguments one of `FUNCTIONS` takes."""
    return 3 if name in (*SHUFFLES, "selp") else 2 if name in VOTES else 1 if name in BITS else 0


def shuffled(name: str, data: Lanes, by: Lanes, mask: int) -> tuple[Lanes, NDArray[np.int64], int]:
    """Return each lane's new value, the lane it is from, and the lanes that ask one which takes no part."""
    held = [t for t in _SHUFFLED if np.can_cast(data.dtype, t)]
    dtype = np.dtype(held[0] if held[0] != "float64" or data.dtype.kind == "f" else "int64")
    lane = np.arange(LANES)
    source = SHUFFLES[name](lane, by.astype(np.int64))
    source = np.where((source >= 0) & (source < LANES), source, lane)
    off = mask_of(~lanes_of(mask)[source]) & mask
    return np.where(lanes_of(mask), data, 0).astype(dtype)[source], source, off


def voted(name: str, yes: int, mask: int) -> Lanes:
    """Return what all lanes of a vote learn: yes or no, or 32 bits, which Numba has as a signed number."""
    found = VOTES[name](yes, mask)
    if name == "ballot_sync":
        return np.full(LANES, found, np.uint32).view(np.int32)
    return np.full(LANES, found, np.bool_)


def bits_of(name: str, data: Lanes) -> Lanes:
    """Return a question about the bits of each number, in the type that Numba gives the answer."""
    if data.dtype.itemsize < 4:
        data = data.astype(np.int32)
    size = 8 * data.dtype.itemsize
    answers = [BITS[name](format(int(v) & (2**size - 1), f"0{size}b")) for v in data]
    if name == "ffs":
        return np.array(answers, np.uint32)
    return np.array(answers, np.dtype(f"uint{size}")).view(data.dtype)
