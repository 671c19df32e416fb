"""The steps in which devices exchange data: read from an optimised program, and what they cost in a ring."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from pulsewarp._checks import whole_number
from pulsewarp.bench.hlo import Operation, Program

_COLLECTIVES = (
    *("all-gather", "all-reduce", "all-to-all", "collective-broadcast", "collective-permute"),
    *("ragged-all-to-all", "reduce-scatter"),
)
_BYTES = {
    "pred": 1, "s8": 1, "u8": 1, "s16": 2, "u16": 2, "f16": 2, "bf16": 2, "s32": 4, "u32": 4, "f32": 4,
    "s64": 8, "u64": 8, "f64": 8,
}  # fmt: skip

# What one device sends in a ring of g devices, as a multiple of the whole array's bytes: g - 1 steps, each
# of one g-th of the array; a sum that all devices get takes them twice. "Performance reported by NCCL tests"
# (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md, read 2026-12-01) derives the same factors as the least
# that any algorithm of point-to-point sends needs, and gives that of all-to-all.
_RING_PASSES = {"all-gather": 1, "reduce-scatter": 1, "all-to-all": 1, "all-reduce": 2}


@dataclass(frozen=True)
class Collective:
    """One step in which devices exchange data, as the compiled program has it.

    Parameters
    ----------
    name : str
        As XLA names it, such as ``"all-reduce"``.
    array_bytes : int
        Bytes of the array that is gathered, summed or passed on: the whole one, all shares together.
    devices : int
        Devices that take part in one exchange.
    times : int or None
        How often one product does it; None where the program has it in a loop of unknown length.

    Examples
    --------
    >>> Collective("all-reduce", 1000, 4).bytes_sent, Collective("all-gather", 1000, 4).bytes_sent
    (1500, 750)
    """

    name: str
    array_bytes: int
    devices: int
    times: int | None = 1

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise ValueError(f"name is {self.name!r}, but must be a text that is not empty.")
        whole_number("array_bytes", self.array_bytes, least=0)
        whole_number("devices", self.devices)
        if self.times is not None:
            whole_number("times", self.times, least=0)

    @property
    def bytes_sent(self) -> int | None:
        """Bytes that one device sends for one product in a ring, the least it can do; None where unknown.

        (g - 1) / g of the array for gathering it or scattering a sum, twice that for a sum on every device,
        the array itself for passing it on to a neighbour.
        """
        if self.times is None:
            return None
        if self.name == "collective-permute":
            return self.times * self.array_bytes
        if self.name not in _RING_PASSES:
            return None
        steps = _RING_PASSES[self.name] * (self.devices - 1)
        return self.times * -(-steps * self.array_bytes // self.devices)


def read_collectives(program: Program, devices: int) -> tuple[Collective, ...]:
    """Find the exchanges in an optimised program.

    Parameters
    ----------
    program : Program
        From `pulsewarp.bench.hlo.read_program`.
    devices : int
        How many take part in an exchange whose groups the program does not write down.

    Returns
    -------
    tuple of Collective
        In the order of the program.

    Examples
    --------
    >>> from pulsewarp.bench.hlo import read_program
    >>> text = '''ENTRY %main (p: f32[2,8]) -> f32[8,8] {
    ...   %p = f32[2,8]{1,0} parameter(0)
    ...   ROOT %ag = f32[8,8]{1,0} all-gather(%p), replica_groups=[1,4]<=[4], dimensions={0}
    ... }'''
    >>> read_collectives(read_program(text), 4)
    (Collective(name='all-gather', array_bytes=256, devices=4, times=1),)
    """
    found = []
    for operation, inside in program.walk():
        name = operation.opcode.removesuffix("-start")
        if name not in _COLLECTIVES:
            continue
        group = _group(program.text, operation.name, devices)
        size = _array_bytes(operation, group)
        # On a TPU a scattered sum stands as a fusion of this name, with a sum for all inside (a comment in
        # XLA's "Shapes and layout" shows one; openxla.org/xla/shapes, read 2026-12-01).
        scatters = any(called.startswith("all-reduce-scatter") for each in inside for called in each.calls)
        if name == "all-reduce" and scatters:
            name = "reduce-scatter"
        loops = [each.trips for each in inside if each.opcode == "while"]
        times = None if None in loops else math.prod(each for each in loops if each is not None)
        found.append(Collective(name, size, group, times))
    return tuple(found)


def _array_bytes(operation: Operation, group: int) -> int:
    """Bytes of the whole array of a collective, from the shape of its result."""
    sizes = [
        math.prod(int(size) for size in dims.split(",") if size)
        * _BYTES.get(kind, 1)  # 8-bit floats: one byte
        for kind, dims in re.findall(r"\b([a-z]\w*)\[([\d,]*)\]", operation.shape)
    ]
    name = operation.opcode.removesuffix("-start")
    if name != operation.opcode and name != "all-reduce":
        # An exchange that is only begun shows what goes in and what comes out, side by side; the whole
        # array of a gathering is what comes out, that of a scattered sum what goes in.
        sizes = sizes[: 2 * (len(sizes) // 2)]
        halves = sizes[: len(sizes) // 2], sizes[len(sizes) // 2 :]
        return max(sum(half) for half in halves)
    return sum(sizes) * (group if name == "reduce-scatter" else 1)


def _group(text: str, name: str, devices: int) -> int:
    """How many devices exchange with each other in the operation of that name."""
    line = re.search(rf"^\s*(?:ROOT )?%?{re.escape(name)} = .*$", text, re.MULTILINE)
    written = line[0] if line else ""
    if listed := re.search(r"replica_groups=\{\{([\d,]+)\}", written):
        return listed[1].count(",") + 1
    if counted_groups := re.search(r"replica_groups=\[\d+,(\d+)\]<=", written):
        return int(counted_groups[1])
    if named := re.search(r"replica_groups=mesh\[([^\]]*)\] \{([^}]*)\}", written):
        axes = dict(re.findall(r"'(\w+)'=(\d+)", named[1]))
        return math.prod(int(axes[axis]) for axis in re.findall(r"'(\w+)'", named[2]) if axis in axes)
    return devices
