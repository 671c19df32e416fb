"""The tile pipeline: its events against a naive machine stepped cycle by cycle, its laws, its checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsewarp import chips, roofline, systolic
from pulsewarp._arrays import freeze
from pulsewarp.matmul import Matmul
from pulsewarp.systolic import tile_pipeline

pytestmark = pytest.mark.exhaustive

Trace = systolic.PipelineTrace
WIDTHS = {"int8": (1, 4, 4), "bf16": (2, 2, 4), "fp32": (4, 4, 4)}  # bytes: operand, result, accumulator


# ----------------------------------------------------------------------------------- a naive machine, stepped


def tile_cycles(m: int, k: int, n: int, rows: int, cols: int, dataflow: str, overlap: bool) -> int:
    """Return the cycles of one tile: folds of 2R + C + T - 2, or one load or drain hidden in the next."""
    down, across, stream = {"ws": (k, n, m), "os": (m, n, k), "is": (k, m, n)}[dataflow]
    folds = -(-down // rows) * -(-across // cols)
    if overlap:
        return 2 * rows + cols + stream - 2 + (folds - 1) * max(rows, stream)
    return folds * (2 * rows + cols + stream - 2)


def share(sizes: tuple[int, ...], units: int, dataflow: str) -> tuple[int, int, int]:
    """Return what one unit gets: those columns of the array's tiles that are dealt to it."""
    m, k, n = sizes
    return (-(-m // units), k, n) if dataflow == "is" else (m, k, -(-n // units))


class Naive:
    """A scalar unit with a program, a queue of transfers, a matrix unit, buffers; one cycle at a time."""

    def __init__(self, m: int, k: int, n: int, *, tile: tuple[int, int, int], buffers: int, rows: int,
                 cols: int, units: int, clock_hz: int, bandwidth_bytes_per_second: int, dtype: str,
                 dataflow: str, overlap: bool, vmem_bytes: int) -> None:  # fmt: skip
        tm, tk, tn = tile
        self.operand, self.result, self.accumulator = WIDTHS[dtype]
        self.steps = [
            (i, p, j, min(tm, m - i * tm), min(tk, k - p * tk), min(tn, n - j * tn))
            for i in range(-(-m // tm)) for j in range(-(-n // tn)) for p in range(-(-k // tk))
        ]  # fmt: skip
        self.last_k = -(-k // tk) - 1
        self.rate = Fraction(bandwidth_bytes_per_second, clock_hz)
        self.busy_for = [
            tile_cycles(*share(step[3:], units, dataflow), rows, cols, dataflow, overlap)
            for step in self.steps
        ]
        # The program: one line for each thing the scalar unit does, in its order.
        self.program: list[tuple[str, int]] = []
        if buffers == 2:
            self.program.append(("fetch", 0))
        for s in range(len(self.steps)):
            ahead = s + 1 if buffers == 2 else s
            if ahead < len(self.steps):
                self.program.append(("fetch", ahead))
            self.program += [("wait for tiles", s), ("multiply", s), ("wait for mxu", s), ("write", s)]
        self.queue: list[tuple[int, int, int]] = []  # (kind, step, bytes), waiting for the channel
        self.moving: list[Any] = []
        self.mxu: list[Any] = []
        self.slots: dict[tuple[str, int], list[Any]] = {}  # buffer -> [tile, whole?, last step that needs it]
        self.turn = {"a": -1, "b": -1, "c": -1}
        self.where: dict[tuple[str, int], int] = {}
        self.buffers = buffers
        self.events: list[tuple[Any, ...]] = []
        self.vmem: list[int] = []
        self.stalled = self.idle = 0

    def tile(self, letter: str, s: int) -> tuple[int, int]:
        i, p, j = self.steps[s][:3]
        return {"a": (i, p), "b": (p, j), "c": (i, j)}[letter]

    def size(self, letter: str, s: int) -> int:
        m, k, n = self.steps[s][3:]
        return {"a": m * k, "b": k * n, "c": m * n}[letter]

    def take(self, letter: str, s: int) -> int:
        """Take the next buffer; whatever is in it must not be needed any more."""
        self.turn[letter] += 1
        slot = self.turn[letter] % self.buffers
        assert (letter, slot) not in self.slots, f"{letter} {slot} is overwritten"
        return slot

    def needed_until(self, letter: str, s: int) -> int:
        last = s
        while last + 1 < len(self.steps) and self.tile(letter, last + 1) == self.tile(letter, s):
            last += 1
        return last

    def run(self) -> None:
        t, pc = 0, 0
        while pc < len(self.program) or self.queue or self.moving or self.mxu:
            if self.moving and self.moving[0] == t:  # a transfer ends
                _, kind, s, slot = self.moving
                letter = "abxc"[kind]
                if kind == 3:
                    del self.slots[letter, slot]
                else:
                    self.slots[letter, slot][1] = True
                self.moving = []
            if self.mxu and self.mxu[0] == t:  # a step ends
                s = self.mxu[1]
                for letter in "ab":
                    slot = self.where[letter, s]
                    if self.slots[letter, slot][2] == s:
                        del self.slots[letter, slot]
                self.mxu = []
            while pc < len(self.program):
                act, s = self.program[pc]
                if act == "fetch":
                    for kind, letter in enumerate("ab"):
                        if s == 0 or self.tile(letter, s) != self.tile(letter, s - 1):
                            self.queue.append((kind, s, self.size(letter, s) * self.operand))
                elif act == "wait for tiles":
                    held = [slot for slot in self.slots.items() if slot[0][0] in "ab" and slot[1][1]]
                    here = {(letter, content[0]) for (letter, _), content in held}
                    if not all((letter, self.tile(letter, s)) in here for letter in "ab"):
                        break
                elif act == "multiply":
                    for letter in "ab":
                        self.where[letter, s] = next(
                            slot for (name, slot), content in self.slots.items()
                            if name == letter and content[0] == self.tile(letter, s) and content[1]
                        )  # fmt: skip
                    if self.steps[s][1] == 0:
                        slot = self.take("c", s)
                        self.slots["c", slot] = [self.tile("c", s), True, self.needed_until("c", s)]
                    slot = self.turn["c"] % self.buffers
                    self.mxu = [t + self.busy_for[s], s]
                    slots = (self.where["a", s], self.where["b", s], slot)
                    self.events.append((2, self.steps[s][:3], t, t + self.busy_for[s], slots))
                elif act == "wait for mxu":
                    if self.mxu:
                        break
                elif self.steps[s][1] == self.last_k:
                    self.queue.append((3, s, self.size("c", s) * self.result))
                pc += 1
            if not self.moving and self.queue:
                kind, s, size = self.queue.pop(0)
                took = -(-size * self.rate.denominator // self.rate.numerator)
                i, p, j = self.steps[s][:3]
                if kind == 3:
                    slot, tiles = self.turn["c"] % self.buffers, (i, -1, j)
                    slot = next(
                        at for (name, at), held in self.slots.items() if name == "c" and held[0] == (i, j)
                    )
                else:
                    letter = "ab"[kind]
                    slot, tiles = self.take(letter, s), ((i, p, -1) if kind == 0 else (-1, p, j))
                    self.slots[letter, slot] = [self.tile(letter, s), False, self.needed_until(letter, s)]
                self.moving = [t + took, kind, s, slot]
                slots = tuple(slot if kind == at else -1 for at in (0, 1, 3))
                self.events.append((kind, tiles, t, t + took, slots))
            if pc < len(self.program) or self.queue or self.moving or self.mxu:
                self.stalled += not self.mxu and any(act == "multiply" for act, _ in self.program[pc:])
                self.idle += not self.moving
                self.vmem.append(self.in_use())
                t += 1

    def in_use(self) -> int:
        total = 0
        for (letter, _), (tile, _, last) in self.slots.items():
            width = self.accumulator if letter == "c" else self.operand
            assert self.tile(letter, last) == tile
            total += self.size(letter, last) * width
        return total


@st.composite
def runs(draw: st.DrawFn) -> dict[str, Any]:
    """Return the arguments of a small pipeline."""
    sizes = {name: draw(st.integers(1, 9)) for name in "mkn"}
    tile = tuple(draw(st.integers(-(-size // 3), size)) for size in sizes.values())
    return {
        **sizes,
        "tile": tile,
        "rows": draw(st.integers(1, 3)),
        "cols": draw(st.integers(1, 3)),
        "units": draw(st.integers(1, 2)),
        "clock_hz": draw(st.integers(1, 5)),
        "bandwidth_bytes_per_second": draw(st.integers(1, 60)),
        "vmem_bytes": 10_000,
        "dtype": draw(st.sampled_from(sorted(WIDTHS))),
        "buffers": draw(st.sampled_from([1, 2])),
        "dataflow": draw(st.sampled_from(sorted(systolic.DATAFLOWS))),
        "overlap": draw(st.booleans()),
    }


def rows(trace: Trace) -> list[tuple[Any, ...]]:
    columns = (
        trace.kind.tolist(),
        map(tuple, trace.tiles.tolist()),
        trace.start.tolist(),
        trace.end.tolist(),
    )
    return sorted(zip(*columns, map(tuple, trace.slot.tolist()), strict=True))


def differences(trace: Trace, arguments: dict[str, Any]) -> list[str]:
    """Name what the trace has that the naive machine has not, and the other way round."""
    machine = Naive(**arguments)
    machine.run()
    wrong = ["events"] * (rows(trace) != sorted(machine.events))
    every = trace.tally(range(trace.cycles))
    wrong += ["VMEM"] * (every.vmem.tolist() != machine.vmem)
    wrong += ["stalls"] * (trace.stall_cycles != machine.stalled)
    wrong += ["bubbles"] * (trace.bubble_cycles != machine.idle)
    return wrong


@given(runs())
@settings(max_examples=400)
def test_every_event_is_the_naive_machines(arguments: dict[str, Any]) -> None:
    trace = systolic.pipeline(**arguments)
    assert not differences(trace, arguments)
    assert trace.verify().passed
    assert trace.closed_form() == trace.cycles


# ------------------------------------------------------------------------------------------------------- laws


@given(runs())
@settings(max_examples=60)
def test_laws(arguments: dict[str, Any]) -> None:
    both = {count: systolic.pipeline(**{**arguments, "buffers": count}) for count in (1, 2)}
    assert both[2].cycles <= both[1].cycles  # double buffering is never slower
    assert both[1].bytes_in == both[2].bytes_in  # and fetches nothing more or less
    for trace in both.values():
        end = trace.tally([trace.cycles])
        assert end.multiplied.item() == trace.multiply_cycles
        assert end.stalled.item() == trace.stall_cycles
        assert end.moved.item() + end.bubbles.item() == trace.cycles
        assert (end.bytes_in.item(), end.bytes_out.item()) == (trace.bytes_in, trace.bytes_out)
        assert end.vmem.item() == 0
        assert trace.high_water_bytes == trace.occupancy()[1].max()
        # What lets an event start ends when it starts; one that waits for nothing starts with the run.
        for e, source in enumerate(trace.after.tolist()):
            assert trace.start[e] == (trace.end[source] if source >= 0 else 0)
    assert both[1].cycles == both[1].multiply_cycles + both[1].transfer_cycles
    longer = max(both[2].multiply_cycles, both[2].transfer_cycles)
    assert both[2].cycles >= longer
    faster = systolic.pipeline(
        **{**arguments, "bandwidth_bytes_per_second": 2 * arguments["bandwidth_bytes_per_second"]}
    )
    assert faster.cycles <= systolic.pipeline(**arguments).cycles


@given(runs(), st.sampled_from(["int8", "float32", "int64"]), st.integers(0, 2**32 - 1))
@settings(max_examples=40)
def test_the_tiles_products_add_up_to_the_product(arguments: dict[str, Any], kind: str, seed: int) -> None:
    m, k, n = (arguments.pop(name) for name in "mkn")
    random = np.random.default_rng(seed)
    a = random.integers(-9, 10, (m, k)).astype(kind)
    b = random.integers(-9, 10, (k, n)).astype(kind)
    trace = systolic.pipeline(a, b, **arguments)
    assert trace.result is not None
    assert (trace.result == a.astype(int) @ b.astype(int)).all()
    alone = systolic.pipeline(m=m, k=k, n=n, **arguments)
    assert rows(alone) == rows(trace) and alone.result is None
    assert trace.verify().passed


def test_a_step_takes_as_long_as_the_array_itself() -> None:
    a, b = np.ones((5, 6)), np.ones((6, 7))
    for overlap in (False, True):
        run = systolic.simulate(a, b, rows=2, cols=3, overlap=overlap)
        trace = systolic.pipeline(
            a, b, rows=2, cols=3, tile=(5, 6, 7), clock_hz=1, bandwidth_bytes_per_second=1, vmem_bytes=2000,
            overlap=overlap,
        )  # fmt: skip
        assert trace.multiply_cycles == run.cycles
        assert trace.dtype == "fp64"


# ---------------------------------------------------------------------------- the two regimes, and a roofline

CORE = {"rows": 128, "cols": 128, "clock_hz": 10**9, "vmem_bytes": 2**27, "dtype": "bf16", "overlap": True}


def test_both_regimes_come_from_the_same_code() -> None:
    sizes = {"m": 1024, "k": 1024, "n": 1024, "tile": (256, 256, 256), **CORE}
    fast = systolic.pipeline(**sizes, bandwidth_bytes_per_second=10**12)
    slow = systolic.pipeline(**sizes, bandwidth_bytes_per_second=10**10)
    assert (fast.bound, slow.bound) == ("compute", "memory")
    assert (
        fast.cycles == fast.multiply_cycles + 2 * 132 + 132
    )  # the first fetches and the last write stick out
    moved = -(-256 * 256 * 2 // 10)  # cycles of a tile
    inside = np.diff(slow.start[slow.kind == 2])[8:12]
    # A tile of A and one of B come in while a step runs; after each fourth step one of C goes out as well.
    assert inside.tolist() == [3 * moved, *[2 * moved] * 3]


@pytest.mark.parametrize(
    "chip, shape, within",
    [
        ("tpu_v2", (16_384, 16_384, 16_384), 1.02),
        ("tpu_v3", (16_384, 16_384, 16_384), 1.02),
        ("tpu_v5e", (16_384, 16_384, 16_384), 1.02),
        ("tpu_v5e", (128, 32_768, 32_768), 1.05),
        # At batch 8 the roofline asks for the weights once; the array still takes 128 cycles to load each
        # tile of them for 8 rows of work, and on v2 that is longer than HBM takes.
        ("tpu_v5e", (8, 32_768, 32_768), 1.05),
        ("tpu_v2", (8, 16_384, 16_384), 2.05),
    ],
)
def test_large_products_approach_the_roofline(chip: str, shape: tuple[int, int, int], within: float) -> None:
    m, k, n = shape
    trace = systolic.pipeline(m=m, k=k, n=n, chip=chip, overlap=True)
    core = chips.get(chip)
    whole = roofline.bound(Matmul(m, k, n), core)
    least = whole.seconds * (core.cores or 1)  # one core has that share of the chip
    assert 0.995 < trace.seconds / least < within  # printed peaks are rounded by up to 0.3 %
    assert trace.bound == whole.limit or within > 2


@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
def test_units_share_a_step_as_they_share_a_product(dataflow: str) -> None:
    sizes = {"m": 700, "k": 500, "n": 900}
    trace = systolic.pipeline(
        **sizes, tile=(700, 500, 900), chip="tpu_v5e", dataflow=dataflow, overlap=True, buffers=1
    )
    whole = systolic.matrix_units("tpu_v5e").gemm(**sizes, dataflow=dataflow, overlap=True)
    assert trace.multiply_cycles == whole.cycles


def test_a_core_is_its_share_of_the_chip() -> None:
    trace = systolic.pipeline(m=8, k=8, n=8, chip="tpu_v3")
    entry = chips.get("tpu_v3")
    assert trace.vmem_bytes == entry.vmem_bytes // 2
    assert trace.bandwidth_bytes_per_second == entry.bandwidth_bytes_per_second / 2
    assert (trace.rows, trace.cols, trace.units, trace.chip) == (128, 128, 2, "tpu_v3")
    assert systolic.pipeline(m=8, k=8, n=8, chip=entry, units=1).units == 1


def test_the_tile_that_is_chosen_fits_and_the_next_would_not() -> None:
    for buffers in (1, 2):
        trace = systolic.pipeline(m=10**4, k=10**4, n=10**4, chip="tpu_v5e", buffers=buffers)
        side = trace.tile[0]
        assert trace.tile == (side,) * 3
        used = tile_pipeline.allocated_bytes(trace.tile, "bf16", buffers)
        assert used <= trace.vmem_bytes < tile_pipeline.allocated_bytes((2 * side,) * 3, "bf16", buffers)


# ------------------------------------------------------------------------------ planted faults: rules, traces

EXAMPLE: dict[str, Any] = {
    "m": 7, "k": 6, "n": 5, "tile": (3, 2, 2), "rows": 2, "cols": 2, "units": 1, "clock_hz": 3,
    "bandwidth_bytes_per_second": 8, "vmem_bytes": 400, "dtype": "int8", "buffers": 2, "dataflow": "ws",
    "overlap": False,
}  # fmt: skip


def late(steps: int, buffers: int) -> Any:
    return REAL["issue_order"](steps, 1)


def early(steps: int, buffers: int) -> Any:
    return REAL["issue_order"](steps, 3)


REAL = {
    name: getattr(tile_pipeline, name)
    for name in ("issue_order", "is_fetched", "is_complete", "slot_of", "transfer_cycles", "fetch_start",
                 "multiply_start", "write_start")
}  # fmt: skip

FAULTS: list[tuple[str, Callable[..., Any], str]] = [
    ("issue_order", late, "closed form"),
    ("issue_order", early, "buffers"),
    ("is_fetched", lambda tile, before: True, "bytes"),
    ("is_fetched", lambda tile, before: before is None, "tiles in place"),
    ("is_complete", lambda step, k_tiles: step.p == 0, "each product once"),
    ("is_complete", lambda step, k_tiles: True, "each product once"),
    ("slot_of", lambda load, buffers: 0, "buffers"),
    ("transfer_cycles", lambda size, rate: max(1, int(size // rate)), "closed form"),
    ("fetch_start", lambda issued, channel: issued, "one at a time"),
    ("fetch_start", lambda issued, channel: channel, "buffers"),
    ("multiply_start", lambda ready, a, b: ready, "tiles in place"),
    ("multiply_start", lambda ready, a, b: tile_pipeline.latest(ready, a), "tiles in place"),
    ("multiply_start", lambda ready, a, b: tile_pipeline.latest(a, b), "one at a time"),
    ("write_start", lambda complete, channel: complete, "one at a time"),
    ("write_start", lambda complete, channel: channel, "each product once"),
]


@pytest.mark.parametrize("name, fault, seen_by", FAULTS)
def test_mutant_a_broken_rule_is_seen(
    monkeypatch: pytest.MonkeyPatch, name: str, fault: Callable[..., Any], seen_by: str
) -> None:
    # Slow transfers make the MXU wait, fast ones the channel: a fault may show in one of the two only.
    # Where the whole of k is one tile, tiles of A stay for several steps.
    traces = [
        EXAMPLE | {"bandwidth_bytes_per_second": rate, "tile": tile}
        for rate in (1, 8, 40)
        for tile in ((3, 2, 2), (3, 6, 2))
    ]
    assert not any(differences(systolic.pipeline(**arguments), arguments) for arguments in traces)
    monkeypatch.setattr(tile_pipeline, name, fault)
    found = [systolic.pipeline(**arguments) for arguments in traces]
    red = {check.name for trace in found for check in trace.verify().checks if not check.passed}
    assert seen_by in red
    assert any("events" in differences(*pair) for pair in zip(found, traces, strict=True))


def test_mutant_a_tile_added_twice_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = np.ones((4, 4), np.int8), np.ones((4, 4), np.int8)
    real = tile_pipeline.multiply_integers
    monkeypatch.setattr(tile_pipeline, "multiply_integers", lambda left, right: 2 * real(left, right))
    trace = systolic.pipeline(
        a, b, tile=(2, 2, 2), rows=2, cols=2, clock_hz=1, bandwidth_bytes_per_second=1, vmem_bytes=99
    )
    assert {check.name for check in trace.verify().checks if not check.passed} == {"product"}


def spoilt(name: str, change: Callable[[Any, Trace], None]) -> set[str]:
    trace = systolic.pipeline(**EXAMPLE)
    column = getattr(trace, name).copy()
    change(column, trace)
    report = replace(trace, **{name: freeze(column)}).verify()
    return {check.name for check in report.checks if not check.passed}


def test_a_spoilt_trace_is_red() -> None:
    def move(column: Any, trace: Trace) -> None:
        column[np.flatnonzero(trace.kind == 2)[4]] -= 1

    def other(column: Any, trace: Trace) -> None:
        column[np.flatnonzero(trace.kind == 2)[4], 1] += 1

    def heavier(column: Any, trace: Trace) -> None:
        column[np.flatnonzero(trace.kind == 0)[2]] += 400

    def early(column: Any, trace: Trace) -> None:
        column[np.flatnonzero(trace.kind == 0)[2]] += 1

    assert "closed form" in spoilt("start", move)
    assert spoilt("start", early) == {"lengths"}  # a fetch that seems shorter than its bytes
    assert {"tiles in place", "each product once"} <= spoilt("tiles", other)
    assert {"bytes", "VMEM"} <= spoilt("size", heavier)


def test_the_report_reads_well() -> None:
    report = systolic.pipeline(**EXAMPLE).verify()
    assert repr(report) == REPORT


REPORT = (
    "8 of 8 checks hold\n"
    "holds  closed form: 211 cycles counted, 211 by formula; 26 of 26 periods are max(multiply, transfer)\n"
    "holds  lengths: 63 of 63 transfers take the cycles of their bytes, 27 of 27 steps those of their tile\n"
    "holds  one at a time: 0 steps and 0 transfers begin before the one before has ended\n"
    "holds  tiles in place: 54 of 54 are whole when a step reads them\n"
    "holds  buffers: 0 of 57 buffers are filled again too early\n"
    "holds  each product once: 210 of 210 products formed, 9 of 9 tiles of C written, "
    "0 before they were complete\n"
    "holds  bytes: 216 B in, by reuse 216; 140 B out, C once is 140\n"
    "holds  VMEM: at most 58 of 400 B in use, 0 B at the end"
)


# -------------------------------------------------------------------------------------------- words and input


def test_why_names_what_each_unit_waits_for() -> None:
    trace = systolic.pipeline(
        m=4, k=4, n=4, tile=(2, 2, 2), rows=2, cols=2, clock_hz=1, bandwidth_bytes_per_second=4,
        vmem_bytes=200, dtype="int8",
    )  # fmt: skip
    assert trace.why(0) == (
        "The MXU waits for A[0,0] and B[0,0] until cycle 2.",
        "The DMA brings A[0,0] into VMEM until cycle 1.",
    )
    assert trace.why(5) == (
        "The MXU multiplies A[0,0] by B[0,0], and the vector unit adds the sums to C[0,0], until cycle 8.",
        "The DMA waits until cycle 8: both buffers of A hold tiles that the MXU still needs, "
        "so A[0,0] has no room.",
    )
    assert trace.why(trace.cycles - 5)[1] == (
        f"The DMA waits until cycle {trace.cycles - 4}, when C[1,1] is complete."
    )
    assert trace.why(trace.cycles) == (
        "The MXU has finished all 8 steps.", "The DMA has finished: all of C is in HBM.",
    )  # fmt: skip


@given(runs())
@settings(max_examples=40)
def test_why_is_true_in_every_cycle(arguments: dict[str, Any]) -> None:
    trace = systolic.pipeline(**arguments)
    for t in range(trace.cycles + 1):
        for said, which in zip(trace.why(t), (trace.kind == 2, trace.kind != 2), strict=True):
            at_work = which & (trace.start <= t) & (t < trace.end)
            assert at_work.any() == (" waits " not in said and " has finished" not in said)
            if " has finished" in said:
                assert not (which & (trace.end > t)).any()
            else:
                until = trace.end[at_work] if at_work.any() else trace.start[which & (trace.start > t)][:1]
                assert f"until cycle {until.item():,}" in said


def test_repr_is_short_and_stable() -> None:
    trace = systolic.pipeline(**EXAMPLE)
    assert (
        repr(trace)
        == "PipelineTrace(7x6 by 6x5 in int8, 3x3 by 3x3 tiles, 2 buffers: 211 cycles, compute bound)"
    )
    assert repr(trace.tally([0, 1])) == "PipelineTally(2 cycles)"


SIZES = {"m": 4, "k": 4, "n": 4}


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"vmem_bytes": 20, "tile": (4, 4, 4)}, r"2 buffers each for tiles of 4 . 4 by 4 . 4 need "
         r"256 bytes of VMEM, but it has 20; take smaller tiles, or buffers=1\."),
        ({"buffers": 3}, "buffers is 3.*at most 2. 2 is double buffering"),
        pytest.param(
            {"tile": (2, 2)}, r"tile is \(2, 2\), but must hold three sides", marks=pytest.mark.wrong_type
        ),
        ({"tile": (2, 0, 2)}, "tile's k is 0"),
        ({"m": None}, "m is missing; give m, k and n, or the factors"),
        ({"clock_hz": None}, r"clock_hz is missing; give clock_hz=\.\.\., or a chip"),
        ({"clock_hz": 0}, "clock_hz is 0, but must be a finite number above 0"),
        ({"bandwidth_bytes_per_second": float("inf")}, "bandwidth_bytes_per_second is inf"),
        ({"units": 0}, "units is 0"),
        ({"dtype": "bf61"}, "Unknown dtype 'bf61'.*Did you mean 'bf16'"),
        ({"dataflow": "wss"}, "Unknown dataflow 'wss'"),
        ({"m": 10**6, "k": 10**6, "tile": (1, 1, 1)}, "4000000000000 steps are above the limit of 65536"),
    ],
)  # fmt: skip
def test_bad_input_gets_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    arguments = {
        **SIZES, "rows": 2, "cols": 2, "clock_hz": 1, "bandwidth_bytes_per_second": 1, "vmem_bytes": 200,
        **changes,
    }  # fmt: skip
    with pytest.raises(ValueError, match=sentence):
        systolic.pipeline(**arguments)


def test_what_the_catalogue_does_not_know_is_asked_for() -> None:
    with pytest.raises(ValueError, match=r"units is not known for TPU v6e.*; give units="):
        systolic.pipeline(**SIZES, chip="tpu_v6e")
    with pytest.raises(ValueError, match=r"clock_hz is not known for TPU v4.*; give clock_hz="):
        systolic.pipeline(**SIZES, chip="tpu_v4")
    with pytest.raises(ValueError, match=r"vmem_bytes is not known for TPU v1"):
        systolic.pipeline(**SIZES, chip="tpu_v1")
    with pytest.raises(ValueError, match="not documented as systolic"):
        systolic.pipeline(**SIZES, chip="h100_sxm")
    with pytest.raises(ValueError, match="Did you mean 'tpu_v5"):
        systolic.pipeline(**SIZES, chip="tpu_v5")
    assert systolic.pipeline(**SIZES, chip="tpu_v6e", clock_hz=10**9, units=2).rows == 256


def test_factors_or_sizes() -> None:
    a = np.ones((2, 2))
    with pytest.raises(ValueError, match="m is given beside the factors"):
        systolic.pipeline(a, a, m=2, chip="tpu_v5e")
    with pytest.raises(ValueError, match="b is missing; give both factors"):
        systolic.pipeline(a, chip="tpu_v5e")
    large = np.ones((1024, 1024), np.int8)
    with pytest.raises(ValueError, match="1073741824 multiplications, above the limit"):
        systolic.pipeline(large, large, chip="tpu_v5e")


def test_why_and_tally_refuse_cycles_outside_the_run() -> None:
    trace = systolic.pipeline(**EXAMPLE)
    with pytest.raises(ValueError, match="cycle is 999999, but must be"):
        trace.why(999_999)
    with pytest.raises(ValueError, match="a cycle is -1"):
        trace.tally([-1])
    with pytest.raises(TypeError, match=r"'cycel'.*Did you mean 'cycle'"):
        trace.why(cycel=1)  # type: ignore[call-arg]  # on purpose
