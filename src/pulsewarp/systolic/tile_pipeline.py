"""The machine around the array: tiles from HBM into VMEM, through the matrix unit and back, event by event.

The rules stand here one small function each; `run` applies them in the order in which the scalar unit starts
things. Tests plant a fault into one of them at a time and require the checks to see it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pulsewarp import _checks, chips
from pulsewarp._arrays import add_up, freeze
from pulsewarp.matmul import DTYPES, accumulator_type, stored_bytes
from pulsewarp.systolic.cost import gemm
from pulsewarp.systolic.dataflow import DATAFLOWS, Axis
from pulsewarp.systolic.matrix_units import matrix_units
from pulsewarp.systolic.pipeline_trace import MULTIPLY, WRITE, PipelineTrace
from pulsewarp.systolic.verification import multiply_integers

MOST_STEPS = 2**16
"""The most steps of one run; a step is one tile of A times one of B."""
MOST_PRODUCTS = 2**27
"""The most multiplications whose values are formed; larger products give their sizes alone."""

_NUMPY_NAMES = {
    "float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "int8": "int8",
}  # fmt: skip


class Moment(NamedTuple):
    """A cycle, and the event that ends then; -1 for the beginning of the run."""

    cycle: int
    event: int


@dataclass(frozen=True)
class Step:
    """One tile of A times one of B: the indices of its tiles and their sizes."""

    i: int
    p: int
    j: int
    m: int
    k: int
    n: int


BEGINNING = Moment(0, -1)
Act = Literal["fetch", "multiply", "write"]


# ------------------------------------------------------------------------------------------------ the rules


def issue_order(steps: int, buffers: int) -> Iterator[tuple[Act, int]]:
    """Yield what the scalar unit starts, in order; with two buffers the next step is fetched ahead."""
    ahead = buffers - 1
    for step in range(-ahead, steps):
        if step + ahead < steps:
            yield "fetch", step + ahead
        if step >= 0:
            yield "multiply", step
            yield "write", step


def is_fetched(tile: tuple[int, int], before: tuple[int, int] | None) -> bool:
    """Tell whether a step fetches its tile: not when the step before used the same one."""
    return tile != before


def is_complete(step: Step, k_tiles: int) -> bool:
    """Tell whether a step adds the last products of its tile of C."""
    return step.p == k_tiles - 1


def slot_of(load: int, buffers: int) -> int:
    """Return the buffer for tile number `load` of a stream: the buffers take turns."""
    return load % buffers


def transfer_cycles(size: int, bytes_per_cycle: Fraction) -> int:
    """Return the whole cycles in which so many bytes cross between HBM and VMEM."""
    return -(-size * bytes_per_cycle.denominator // bytes_per_cycle.numerator)


def fetch_start(issued: Moment, channel: Moment) -> Moment:
    """Return when a fetch starts: it is issued and the channel is free.

    Its buffer is free by then: fetches are issued when a step has ended, and the tile before in that buffer
    was needed up to that step at most. For C the same holds, because the writes come before in the channel.
    """
    return latest(issued, channel)


def multiply_start(ready: Moment, a: Moment, b: Moment) -> Moment:
    """Return when a step starts: the one before has ended and both tiles are there."""
    return latest(ready, a, b)


def write_start(complete: Moment, channel: Moment) -> Moment:
    """Return when a tile of C leaves: it is complete and the channel is free."""
    return latest(complete, channel)


def latest(*moments: Moment) -> Moment:
    """Return the moment that comes last; of equal ones the first named."""
    return max(moments, key=lambda moment: moment.cycle)


# -------------------------------------------------------------------------------------------------- a run


@dataclass(frozen=True)
class Plan:
    """What is to be done: the steps in order, and how long each of their parts takes."""

    steps: tuple[Step, ...]
    k_tiles: int
    buffers: int
    bytes_per_cycle: Fraction
    dtype: str
    multiply_cycles: tuple[int, ...]


class Event(NamedTuple):
    """One row of a trace; `slot` are the buffers of A, B and C that it uses, -1 for none."""

    kind: int
    step: int
    tile: tuple[int, int, int]
    start: int
    end: int
    slot: tuple[int, int, int]
    size: int
    after: int


def run(plan: Plan) -> list[Event]:
    """Return every event of a plan in the order in which the scalar unit starts them."""
    events: list[Event] = []
    loads = {"a": -1, "b": -1}
    arrived: dict[tuple[str, int], tuple[Moment, int]] = {}  # (stream, step) -> its tile's arrival and buffer
    now = channel = BEGINNING  # the scalar unit, which waits for each step; the one DMA channel
    outputs = -1

    def note(kind: int, step: int, tile: tuple[int, int, int], start: Moment, cycles: int, size: int,
             slot: tuple[int, int, int]) -> Moment:  # fmt: skip
        events.append(Event(kind, step, tile, start.cycle, start.cycle + cycles, slot, size, start.event))
        return Moment(start.cycle + cycles, len(events) - 1)

    for act, s in issue_order(len(plan.steps), plan.buffers):
        step = plan.steps[s]
        last = plan.steps[s - 1] if s else None
        if act == "fetch":
            for kind, letter in enumerate("ab"):
                if not is_fetched(tile_of(step, letter), tile_of(last, letter) if last else None):
                    arrived[letter, s] = arrived[letter, s - 1]
                    continue
                loads[letter] += 1
                slot = slot_of(loads[letter], plan.buffers)
                start = fetch_start(now, channel)
                indices = (step.i, step.p, -1) if letter == "a" else (-1, step.p, step.j)
                slots = (slot, -1, -1) if letter == "a" else (-1, slot, -1)
                size = stored_bytes(step.k * (step.m if letter == "a" else step.n), plan.dtype)
                cycles = transfer_cycles(size, plan.bytes_per_cycle)
                channel = note(kind, s, indices, start, cycles, size, slots)
                arrived[letter, s] = (channel, slot)
        elif act == "multiply":
            outputs += step.p == 0
            slot = slot_of(outputs, plan.buffers)
            (a, a_slot), (b, b_slot) = arrived["a", s], arrived["b", s]
            start = multiply_start(now, a, b)
            cycles = plan.multiply_cycles[s]
            now = note(MULTIPLY, s, (step.i, step.p, step.j), start, cycles, 0, (a_slot, b_slot, slot))
        elif is_complete(step, plan.k_tiles):
            slot = slot_of(outputs, plan.buffers)
            size = stored_bytes(step.m * step.n, DTYPES[plan.dtype].result)
            start = write_start(now, channel)
            cycles = transfer_cycles(size, plan.bytes_per_cycle)
            channel = note(WRITE, s, (step.i, -1, step.j), start, cycles, size, (-1, -1, slot))
    return events


def tile_of(step: Step, letter: str) -> tuple[int, int]:
    """Return which tile of A or B a step multiplies."""
    return (step.i, step.p) if letter == "a" else (step.p, step.j)


def unit_share(step: Step, dataflow: str, units: int) -> tuple[int, int, int]:
    """Return the sizes that one matrix unit gets: the array's columns are dealt out, as in `matrix_units`."""
    sizes: dict[Axis, int] = {"m": step.m, "k": step.k, "n": step.n}
    axis = DATAFLOWS[dataflow].col_axis
    sizes[axis] = -(-sizes[axis] // units)
    return sizes["m"], sizes["k"], sizes["n"]


def plan_steps(sizes: tuple[int, int, int], tile: tuple[int, int, int]) -> tuple[Step, ...]:
    """Return the steps: tiles of C row by row, and for each the tiles along k, so that it is written once."""
    (m, k, n), (tm, tk, tn) = sizes, tile
    return tuple(
        Step(i, p, j, min(tm, m - i * tm), min(tk, k - p * tk), min(tn, n - j * tn))
        for i in range(-(-m // tm))
        for j in range(-(-n // tn))
        for p in range(-(-k // tk))
    )


def allocated_bytes(tile: tuple[int, int, int], dtype: str, buffers: int) -> int:
    """Return the VMEM of all buffers: tiles of A and B as stored, those of C in the accumulator's type."""
    tm, tk, tn = tile
    operands = stored_bytes(tm * tk, dtype) + stored_bytes(tk * tn, dtype)
    return buffers * (operands + stored_bytes(tm * tn, DTYPES[dtype].accumulator))


def choose_tile(
    sizes: tuple[int, int, int], side: int, vmem_bytes: int, dtype: str, buffers: int
) -> tuple[int, int, int]:
    """Return the tile of a simple rule: a square one, doubled from the array's side while all buffers fit."""

    def cut(length: int) -> tuple[int, int, int]:
        return min(length, sizes[0]), min(length, sizes[1]), min(length, sizes[2])

    while cut(2 * side) != cut(side) and allocated_bytes(cut(2 * side), dtype, buffers) <= vmem_bytes:
        side *= 2
    return cut(side)


# ---------------------------------------------------------------------------------------- what readers call


@_checks.names_keywords
def pipeline(
    a: Any = None,
    b: Any = None,
    *,
    m: int | None = None,
    k: int | None = None,
    n: int | None = None,
    tile: tuple[int, int, int] | None = None,
    chip: str | chips.Chip | None = None,
    rows: int | None = None,
    cols: int | None = None,
    units: int | None = None,
    clock_hz: float | None = None,
    bandwidth_bytes_per_second: float | None = None,
    vmem_bytes: int | None = None,
    dtype: str | None = None,
    buffers: int = 2,
    dataflow: str = "ws",
    overlap: bool = False,
) -> PipelineTrace:
    """Run one product through HBM, VMEM and the matrix units of one core, tile by tile.

    C's tiles are formed row by row, each from all its tiles along k. A tile of A or B is fetched before the
    step that needs it, unless the step before used the same tile; C is summed in VMEM and written once. One
    channel carries fetches and writes one after another at HBM's bandwidth, because both directions share
    it. With two buffers a stream, the fetches for the next step are started before the present one
    multiplies; with one, a tile is fetched when the step that used its buffer has ended.

    The units: the MXU multiplies. The vector unit adds its sums to C's tile, converts it for its way back,
    and would apply scale, bias and activation. The scalar unit runs the loop, computes addresses, starts the
    DMA transfers and waits for them. Not modelled: their time, HBM's latency, conflicts, refresh, the step's
    first fill while the last one drains, and other cores on the same HBM (a core gets its share).

    Parameters
    ----------
    a, b : array_like, optional
        The factors; then the tiles' values are multiplied and added as well, and `result` holds the product.
    m, k, n : int, optional
        Sizes of the product, instead of factors.
    tile : (int, int, int), optional
        Rows of A's tile, the shared side, columns of B's tile. Left out: a square one, doubled from the
        array's longer side for as long as all buffers fit into VMEM.
    chip : str or Chip, optional
        A catalogue entry or its id. One of its cores is taken: its matrix units, its share of bandwidth and
        VMEM. Every number below overrides the catalogue's.
    rows, cols : int, optional
        Cells of one matrix unit.
    units : int, optional
        Matrix units that share a step: tiles of what is stationary are dealt to them in turn, by columns of
        the array, as in `matrix_units`. 1 without a chip.
    clock_hz, bandwidth_bytes_per_second : float, optional
        The array's clock in Hz, and HBM's bandwidth in B/s.
    vmem_bytes : int, optional
        Capacity of VMEM in bytes.
    dtype : str, optional
        How elements are stored, a key of `pulsewarp.matmul.DTYPES`; left out, that of the factors where it
        has one of those names, else "bf16". It decides bytes, not values, which are used as given.
    buffers : {1, 2}
        Buffers for each of A, B and C.
    dataflow : {"ws", "os", "is"}
        How a tile runs on the array.
    overlap : bool
        Whether the array loads a stationary tile while the one before works, as in `gemm`.

    Returns
    -------
    PipelineTrace

    Raises
    ------
    ValueError
        For a missing or impossible number, a number the catalogue does not know, tiles that do not fit into
        VMEM, or more than 65,536 steps.

    Notes
    -----
    The order of issue and two buffers a stream follow the pipelines of JAX's Pallas ("Software Pipelining"),
    and so does what is fetched again, and k as the innermost index ("Writing TPU kernels with Pallas"; both
    docs.jax.dev, read 2026-11). Its option `use_lookahead`, which fetches further ahead, is not modelled.
    Units and memories: "System architecture", Cloud TPU documentation; "How to Think About TPUs",
    jax-ml.github.io/scaling-book. In whole cycles,

    one buffer: the sum over steps of fetch + multiply + write;
    two buffers: the first fetch, then for each step max(multiply, next fetch + last write), the last write.

    Examples
    --------
    Tiles of 2 x 2 on a 2 x 2 array take 6 cycles; a tile of int8 is 4 bytes, one of int32 is 16:

    >>> import numpy as np
    >>> a, b = np.arange(8).reshape(2, 4), np.arange(8).reshape(4, 2)
    >>> trace = pipeline(a, b, tile=(2, 2, 2), rows=2, cols=2, clock_hz=1e9,
    ...                  bandwidth_bytes_per_second=4e9, vmem_bytes=64, dtype="int8")
    >>> trace.cycles, trace.bound  # fetch 1 + 1, multiply 6 and 6, write 4
    (18, 'compute')
    >>> trace.result.tolist()
    [[28, 34], [76, 98]]
    """
    buffers = _checks.whole_number("buffers", buffers, most=2, remedy="2 is double buffering.")
    _checks.choice("dataflow", dataflow, DATAFLOWS)
    _checks.instance("overlap", overlap, bool, "write True or False")
    factors = _factors(a, b, {"m": m, "k": k, "n": n})
    sizes = (
        (factors[0].shape[0], factors[0].shape[1], factors[1].shape[1])
        if factors
        else (_checks.whole_number("m", m), _checks.whole_number("k", k), _checks.whole_number("n", n))
    )
    known = _core(chip)
    machine = _machine(
        known,
        {
            "rows": rows,
            "cols": cols,
            "units": units,
            "clock_hz": clock_hz,
            "bandwidth_bytes_per_second": bandwidth_bytes_per_second,
            "vmem_bytes": vmem_bytes,
        },
    )
    if dtype is None:
        dtype = _NUMPY_NAMES.get(factors[0].dtype.name, "bf16") if factors else "bf16"
    _checks.choice("dtype", dtype, DTYPES)
    vmem, side = machine["vmem_bytes"], max(machine["rows"], machine["cols"])
    chosen = _tile(tile, sizes) or choose_tile(sizes, side, vmem, dtype, buffers)
    _refuse_overflow(chosen, dtype, buffers, vmem)
    count = -(-sizes[0] // chosen[0]) * -(-sizes[1] // chosen[1]) * -(-sizes[2] // chosen[2])
    if count > MOST_STEPS:
        raise ValueError(f"{count} steps are above the limit of {MOST_STEPS}; take larger tiles.")

    steps = plan_steps(sizes, chosen)
    array: dict[str, Any] = {"rows": machine["rows"], "cols": machine["cols"]}
    array |= {"dataflow": dataflow, "overlap": overlap}
    events = run(
        Plan(
            steps=steps,
            k_tiles=-(-sizes[1] // chosen[1]),
            buffers=buffers,
            bytes_per_cycle=Fraction(machine["bandwidth_bytes_per_second"]) / Fraction(machine["clock_hz"]),
            dtype=dtype,
            multiply_cycles=_multiply_cycles(steps, machine["units"], array),
        )
    )
    return PipelineTrace(
        m=sizes[0],
        k=sizes[1],
        n=sizes[2],
        dtype=dtype,
        tile=chosen,
        buffers=buffers,
        dataflow=dataflow,
        overlap=overlap,
        chip=known.get("id"),
        **machine,
        **_columns(events),
        a=None if factors is None else freeze(factors[0]),
        b=None if factors is None else freeze(factors[1]),
        result=None if factors is None else freeze(multiply_tiles(*factors, steps, chosen)),
    )


def _machine(known: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return the checked numbers of the machine: what is given, else what the catalogue knows of the chip."""
    number = {name: known.get(name) if value is None else value for name, value in given.items()}
    for name, value in number.items():
        if value is None:
            whose = f"is not known for {known['name']}" if "name" in known else "is missing"
            raise ValueError(f"{name} {whose}; give {name}=..., or a chip whose catalogue entry has it.")
    rates = ("clock_hz", "bandwidth_bytes_per_second")
    return {
        name: (_checks.positive_number if name in rates else _checks.whole_number)(name, value)
        for name, value in number.items()
    }


def _multiply_cycles(steps: tuple[Step, ...], units: int, array: dict[str, Any]) -> tuple[int, ...]:
    """Return the cycles of every step on its unit's share; tiles of one size are counted once."""
    took: dict[tuple[int, int, int], int] = {}
    for step in steps:
        shape = (step.m, step.k, step.n)
        if shape not in took:
            m, k, n = unit_share(step, array["dataflow"], units)
            took[shape] = gemm(m=m, k=k, n=n, **array).cycles
    return tuple(took[step.m, step.k, step.n] for step in steps)


def _columns(events: list[Event]) -> dict[str, Any]:
    """Return the events as a trace keeps them: in the order in which they start, one column a field."""
    order = sorted(range(len(events)), key=lambda e: events[e].start)
    place = {old: new for new, old in enumerate(order)} | {-1: -1}
    rows = [events[e] for e in order]
    return {
        "kind": freeze(np.array([event.kind for event in rows], np.int8)),
        "step": freeze(np.array([event.step for event in rows], np.int32)),
        "tiles": freeze(np.array([event.tile for event in rows], np.int32)),
        "start": freeze(np.array([event.start for event in rows], np.int64)),
        "end": freeze(np.array([event.end for event in rows], np.int64)),
        "slot": freeze(np.array([event.slot for event in rows], np.int8)),
        "size": freeze(np.array([event.size for event in rows], np.int64)),
        "after": freeze(np.array([place[event.after] for event in rows], np.int32)),
    }


def multiply_tiles(
    a: NDArray[Any], b: NDArray[Any], steps: tuple[Step, ...], tile: tuple[int, int, int]
) -> NDArray[Any]:
    """Return the product as the pipeline forms it: each step's products summed along k, then added to C."""
    accumulator = accumulator_type(a.dtype, b.dtype)
    tm, tk, tn = tile
    result = np.zeros((a.shape[0], b.shape[1]), accumulator)
    for step in steps:
        at_m, at_k, at_n = (
            slice(index * side, index * side + length)
            for index, side, length in (
                (step.i, tm, step.m), (step.p, tk, step.k), (step.j, tn, step.n),
            )
        )  # fmt: skip
        left, right = a[at_m, at_k], b[at_k, at_n]
        result[at_m, at_n] += (
            multiply_integers(left, right).astype(accumulator)
            if accumulator.kind == "i" and left.dtype.kind in "iu" and right.dtype.kind in "iu"
            else add_up(left, right, accumulator)
        )
    return result


def _factors(a: Any, b: Any, sizes: dict[str, int | None]) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Return the factors as checked matrices, or None where only sizes are given."""
    given = [name for name, size in sizes.items() if size is not None]
    if a is None and b is None:
        missing = [name for name in sizes if name not in given]
        if missing:
            raise ValueError(f"{missing[0]} is missing; give m, k and n, or the factors a and b.")
        return None
    if a is None or b is None:
        raise ValueError(f"{'a' if a is None else 'b'} is missing; give both factors, or sizes alone.")
    if given:
        raise ValueError(f"{given[0]} is given beside the factors, which have sizes already; leave it out.")
    a, b = _checks.factors(a, b)
    products = a.shape[0] * a.shape[1] * b.shape[1]
    if products > MOST_PRODUCTS:
        raise ValueError(
            f"The factors take {products} multiplications, above the limit of {MOST_PRODUCTS}; "
            f"give m, k and n alone for the timing."
        )
    return a.copy(), b.copy()


def _core(chip: str | chips.Chip | None) -> dict[str, Any]:
    """Return what the catalogue knows of one core, None for what it does not know; empty without a chip."""
    if chip is None:
        return {"units": 1}
    array = matrix_units(chip)
    entry, cores = array.chip, array.cores or 1
    share = entry.bandwidth_bytes_per_second
    return {
        "id": entry.id,
        "name": entry.name,
        "rows": array.rows,
        "cols": array.cols,
        "units": array.units_per_core,
        "clock_hz": array.clock_hz,
        "bandwidth_bytes_per_second": None if share is None else share / cores,
        "vmem_bytes": None if entry.vmem_bytes is None else entry.vmem_bytes // cores,
    }


def _tile(tile: Any, sizes: tuple[int, int, int]) -> tuple[int, int, int] | None:
    """Return a checked tile, cut to the product."""
    if tile is None:
        return None
    sides = _checks.several("tile", tile, "give (rows, shared side, columns)")
    if len(sides) != 3:
        raise ValueError(f"tile is {tile!r}, but must hold three sides: rows, shared side, columns.")
    checked = [_checks.whole_number(f"tile's {name}", side) for name, side in zip("mkn", sides, strict=True)]
    return min(checked[0], sizes[0]), min(checked[1], sizes[1]), min(checked[2], sizes[2])


def _refuse_overflow(tile: tuple[int, int, int], dtype: str, buffers: int, vmem_bytes: int) -> None:
    needed = allocated_bytes(tile, dtype, buffers)
    if needed > vmem_bytes:
        fewer = ", or buffers=1" if buffers == 2 else ""
        times = "\N{MULTIPLICATION SIGN}"
        raise ValueError(
            f"{buffers} buffer{'s' if buffers > 1 else ''} each for tiles of {tile[0]} {times} {tile[1]} by "
            f"{tile[1]} {times} {tile[2]} need {needed} bytes of VMEM, but it has {vmem_bytes}; take smaller "
            f"tiles{fewer}."
        )
