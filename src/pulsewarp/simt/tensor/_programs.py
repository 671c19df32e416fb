"""The programs of a tiled product: copies, barriers, loads of fragments, multiplications, stores."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from pulsewarp.simt._instruction import LANES, Instruction
from pulsewarp.simt._occupancy import occupancy
from pulsewarp.simt.access import BankAccess, count_sectors, count_wavefronts
from pulsewarp.simt.presets import SECTORS_PER_CYCLE, Architecture
from pulsewarp.simt.tensor.shapes import MmaShape, fragment
from pulsewarp.simt.tensor.staging import (
    CHUNK_BYTES,
    bank_access,
    check_layout,
    fragment_lanes,
    has_ldmatrix,
    offsets,
    pitch,
)

Ints = NDArray[np.int64]

COPIES = ("async", "through registers")
ROLES = (
    "copy",
    "commit",
    "wait",
    "barrier",
    "store",
    "load a",
    "load b",
    "multiply",
    "release",
    "write",
)
"""What an instruction of a `TiledKernel` is there for, the ``kind`` of `ROLE_COLUMNS`.

``copy``: a piece of a tile from global memory, into its stage or (through registers, without a stage) a
register. ``commit``, ``wait``: close a group of copies; wait until the tile's group is there. ``store``: a
piece from a register into its stage. ``barrier``: all of the block have the tile. ``load a``, ``load b``: a
fragment from the stage. ``multiply``: an mma or FFMA. ``release``: all have read the only stage. ``write``:
sums to global memory.
"""
ROLE_COLUMNS = ("kind", "tile", "stage", "row", "column", "step")
(COPY, COMMIT, WAIT, BARRIER, STORE, LOAD_A, LOAD_B, MULTIPLY, RELEASE, WRITE) = range(len(ROLES))

MOST_INSTRUCTIONS = 2**19
MOST_REGISTERS = 255


@dataclass(frozen=True, eq=False)
class Plan:
    """The geometry of a kernel, before operands."""

    machine: Architecture
    shape: MmaShape | None
    unit: tuple[int, int, int]
    operation: str
    element_bytes: int
    tile: tuple[int, int, int]
    warps: tuple[int, int]
    stages: int
    copies: str
    layout: str
    load: str

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of a tile of A, or a column of one of B."""
        return self.tile[2] * self.element_bytes

    @property
    def stage_bytes(self) -> int:
        """Shared memory of one stage."""
        return (self.tile[0] + self.tile[1]) * pitch(self.row_bytes, self.layout)

    @property
    def load_depth(self) -> int:
        """How many k one round of loads brings: a step of an mma, 16 bytes for FFMA."""
        return self.unit[2] if self.shape else CHUNK_BYTES // self.element_bytes

    @property
    def warp_units(self) -> tuple[int, int]:
        """Units along rows and columns of a warp's part of C."""
        return (
            self.tile[0] // self.warps[0] // self.unit[0],
            self.tile[1] // self.warps[1] // self.unit[1],
        )

    @property
    def pieces(self) -> list[tuple[int, int]]:
        """The copies of a tile, one instruction each: operand (0: A, 1: B) and its first 16-byte chunk."""
        chunks = self.row_bytes // CHUNK_BYTES
        return [
            (operand, first) for operand in (0, 1) for first in range(0, self.tile[operand] * chunks, LANES)
        ]

    def registers(self, sum_bytes: int) -> int:
        """Return the registers a thread needs for values alone."""
        units_m, units_n = self.warp_units
        sums = units_m * units_n * self.unit[0] * self.unit[1] * sum_bytes // (4 * LANES)
        if self.shape:
            held = [fragment(self.shape, operand).registers for operand in "ab"]
        else:
            held = [CHUNK_BYTES // 4] * 2
        fragments = 2 * (units_m * held[0] + units_n * held[1])
        copied = 0
        if self.copies != "async":
            copied = 4 * math.ceil(len(self.pieces) / (self.warps[0] * self.warps[1]))
        return sums + fragments + copied

    def refuse_too_large(
        self, sides: tuple[int, int, int], padded: tuple[int, int, int], sum_bytes: int
    ) -> None:
        """Raise when the blocks do not fit on one SM together, or would issue too much."""
        check_layout(self.row_bytes, self.layout)
        registers = self.registers(sum_bytes)
        if registers > MOST_REGISTERS:
            raise ValueError(
                f"A warp's part of a tile needs {registers} registers a thread, but there are at most "
                f"{MOST_REGISTERS}; take a smaller tile or more warps."
            )
        blocks = (padded[0] // self.tile[0]) * (padded[2] // self.tile[1])
        threads = LANES * self.warps[0] * self.warps[1]
        held = occupancy(
            self.machine.compute_capability,
            threads,
            registers,
            dynamic_shared=self.stages * self.stage_bytes,
            shared_opt_in=True,
        )
        if blocks > held.blocks_per_sm:
            raise ValueError(
                f"The {sides[0]}x{sides[2]} result takes {blocks} blocks of {threads} threads with "
                f"{self.stages * self.stage_bytes} bytes of shared memory, but one SM holds "
                f"{held.blocks_per_sm} at once (limit: {', '.join(held.limiting)}); take another tile, fewer "
                "stages or a smaller product."
            )
        made = padded[0] * padded[1] * padded[2] // math.prod(self.unit)
        if made > MOST_INSTRUCTIONS:
            raise ValueError(
                f"The product takes {made} instructions {self.operation}, above the limit of "
                f"{MOST_INSTRUCTIONS}; take a smaller one."
            )


@dataclass(frozen=True, eq=False)
class Written:
    """Programs of all warps, with what each instruction is there for."""

    programs: tuple[tuple[Instruction, ...], ...]
    blocks: tuple[int, ...]
    origins: Ints
    roles: tuple[Ints, ...]
    access: Mapping[str, BankAccess]


def write_programs(
    plan: Plan,
    sides: tuple[int, int, int],
    grid: tuple[int, int],
    padded: tuple[int, int, int],
    sum_bytes: int,
) -> Written:
    """Return the programs of every warp of every block."""
    shared = _Shared(plan, sum_bytes)
    programs, blocks, origins, roles = [], [], [], []
    for block, (row, column) in enumerate(np.ndindex(*grid)):
        sectors = _copy_sectors(plan, sides, (row * plan.tile[0], column * plan.tile[1]), padded[1])
        for w in range(plan.warps[0] * plan.warps[1]):
            writer = _Writer(plan, shared, sides, block=(row, column), warp=w, sectors=sectors)
            writer.write(padded[1] // plan.tile[2])
            programs.append(tuple(writer.program))
            roles.append(np.array(writer.roles, np.int64))
            blocks.append(block)
            origins.append((writer.row, writer.column))
    return Written(tuple(programs), tuple(blocks), np.array(origins, np.int64), tuple(roles), shared.shown())


def _copy_sectors(plan: Plan, sides: tuple[int, int, int], origin: tuple[int, int], padded_k: int) -> Ints:
    """Return the sectors of each piece of each tile along k of one block, (tiles, pieces)."""
    chunks = plan.row_bytes // CHUNK_BYTES
    used = -(-sides[1] * plan.element_bytes // CHUNK_BYTES)  # chunks of a row of the operand
    tiles = np.arange(padded_k // plan.tile[2])[:, None, None]
    operand, first = (np.array(column)[None, :, None] for column in zip(*plan.pieces, strict=True))
    index = first + np.arange(LANES)
    row = index // chunks
    ends = np.where(operand == 0, sides[0] - origin[0], sides[2] - origin[1])
    rows_of_tile = np.where(operand == 0, plan.tile[0], plan.tile[1])
    chunk = tiles * chunks + index % chunks
    on = (row < np.minimum(ends, rows_of_tile)) & (chunk < used)
    outer = row + np.where(operand == 0, origin[0], origin[1])
    addresses = np.where(on, (outer * used + chunk) * CHUNK_BYTES, 0)
    masks = (on.astype(np.int64) << np.arange(LANES)).sum(axis=2)
    counted = count_sectors(addresses.reshape(-1, LANES), CHUNK_BYTES, masks.reshape(-1))
    sectors: Ints = counted.sectors.reshape(masks.shape)
    return sectors


class _Shared:
    """What all warps of a kernel have alike, each instruction made once."""

    def __init__(self, plan: Plan, sum_bytes: int) -> None:
        self.plan, self.sum_bytes = plan, sum_bytes
        self.made: dict[tuple[object, ...], Instruction] = {}
        chunks = plan.row_bytes // CHUNK_BYTES
        index = np.array([first for _, first in plan.pieces])[:, None] + np.arange(LANES)
        rows = np.array([plan.tile[operand] for operand, _ in plan.pieces])[:, None]
        on = index < rows * chunks
        self.lanes = on.sum(axis=1).tolist()
        self.offsets = offsets(index // chunks, index % chunks * CHUNK_BYTES, plan.row_bytes, plan.layout)
        self.masks = (on.astype(np.int64) << np.arange(LANES)).sum(axis=1)
        wide = np.where(on, self.offsets, 0)
        self.stored = count_wavefronts(wide, CHUNK_BYTES, self.masks).wavefronts.tolist()
        self._loads: dict[tuple[str, int, int], BankAccess] = {}

    def load(self, operand: str, row: int, first_byte: int) -> BankAccess:
        """Return the wavefronts of the load of a fragment that begins at this row and byte of its tile."""
        key = (operand, row, first_byte)
        if key not in self._loads:
            plan = self.plan
            if plan.shape:
                rows, byte, size, mask = fragment_lanes(plan.shape, operand, row, first_byte)
            else:
                lanes = np.arange(LANES)
                own = lanes // plan.unit[1] if operand == "a" else lanes % plan.unit[1]
                rows, byte, size, mask = row + own, np.full(LANES, first_byte), CHUNK_BYTES, 0xFFFFFFFF
            where = offsets(rows, byte, plan.row_bytes, plan.layout)
            self._loads[key] = bank_access(where, size, mask)
        return self._loads[key]

    def shown(self) -> Mapping[str, BankAccess]:
        """Return the first load of each operand and the first write of a piece."""
        lanes = self.offsets[0]
        return MappingProxyType(
            {
                "load a": self.load("a", 0, 0),
                "load b": self.load("b", 0, 0),
                "store": bank_access(np.where(lanes < 0, 0, lanes), CHUNK_BYTES, int(self.masks[0])),
            }
        )


@dataclass(eq=False)
class _Writer:
    """The program of one warp while it is written."""

    plan: Plan
    shared: _Shared
    sides: tuple[int, int, int]
    block: tuple[int, int]
    warp: int
    sectors: Ints
    program: list[Instruction] = field(default_factory=list)
    roles: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        plan = self.plan
        down, across = divmod(self.warp, plan.warps[1])
        self.local = (down * plan.tile[0] // plan.warps[0], across * plan.tile[1] // plan.warps[1])
        self.origin = (self.block[0] * plan.tile[0], self.block[1] * plan.tile[1])
        self.row, self.column = (o + own for o, own in zip(self.origin, self.local, strict=True))
        count = plan.warps[0] * plan.warps[1]
        self.pieces = list(range(self.warp, len(plan.pieces), count))

    def write(self, tiles: int) -> None:
        """Write the whole program."""
        if self.plan.copies == "async":
            self._async(tiles)
        else:
            self._through_registers(tiles)
        self._write_sums()

    def _async(self, tiles: int) -> None:
        ahead = self.plan.stages - 1
        for tile in range(min(ahead, tiles)):
            self._copy_async(tile)
        for tile in range(tiles):
            if not ahead:
                self._copy_async(tile)
            self._wait(tile, newer=min(ahead, tiles - tile) - 1 if ahead else 0)
            self._barrier(BARRIER, tile)
            if ahead and tile + ahead < tiles:  # its stage was read last for the tile before this one
                self._copy_async(tile + ahead)
            self._multiply(tile)
            if not ahead and tile + 1 < tiles:
                self._barrier(RELEASE, tile)

    def _through_registers(self, tiles: int) -> None:
        self._copy_to_registers(0)
        self._store(0)
        self._barrier(BARRIER, 0)
        for tile in range(tiles):
            if tile + 1 < tiles:
                self._copy_to_registers(tile + 1)
            self._multiply(tile)
            if tile + 1 < tiles:
                if self.plan.stages == 1:
                    self._barrier(RELEASE, tile)
                self._store(tile + 1)
                self._barrier(BARRIER, tile + 1)

    def _stage(self, tile: int) -> int:
        return tile % self.plan.stages

    def _add(
        self,
        i: Instruction,
        kind: int,
        tile: int = -1,
        stage: int = -1,
        row: int = -1,
        column: int = -1,
        step: int = -1,
    ) -> None:
        self.program.append(i)
        self.roles.append((kind, tile, stage, row, column, step))

    def _made(
        self,
        unit: str,
        latency: int,
        interval: int,
        dst: str | None,
        srcs: tuple[str, ...],
        text: str,
        lanes: int = LANES,
    ) -> Instruction:
        key = (unit, latency, interval, dst, srcs, text, lanes)
        made = self.shared.made
        if key not in made:
            made[key] = Instruction(unit, latency, interval, dst, srcs, text, lanes)
        return made[key]

    def _places(self, piece: int) -> tuple[str, int, int]:
        """Return the operand of a piece, and the first row or column of C that it is for."""
        operand, first = self.plan.pieces[piece]
        outer = first * CHUNK_BYTES // self.plan.row_bytes + self.origin[operand]
        return "AB"[operand], (-1 if operand else outer), (outer if operand else -1)

    def _copy_async(self, tile: int) -> None:
        known = self.plan.machine.operations[self.plan.load]
        stage = self._stage(tile)
        for piece in self.pieces:
            operand, row, column = self._places(piece)
            passes = max(-(-int(self.sectors[tile, piece]) // SECTORS_PER_CYCLE), self.shared.stored[piece])
            i = self._made(
                "mem",
                known.latency + passes - 1,
                max(known.interval, passes),
                f"s{stage}.{piece}",
                (),
                f"LDGSTS.128 s{stage}.{piece}, [{operand}]",
                self.shared.lanes[piece],
            )
            self._add(i, COPY, tile, stage, row, column, tile * self.plan.tile[2] // self.plan.unit[2])
        self._add(self._made("alu", 1, 1, None, (), "LDGDEPBAR"), COMMIT, tile, stage)

    def _wait(self, tile: int, newer: int) -> None:
        stage = self._stage(tile)
        landed = tuple(f"s{stage}.{piece}" for piece in self.pieces)
        i = self._made("alu", 1, 1, None, landed, f"DEPBAR.LE SB0, {newer}")
        self._add(i, WAIT, tile, stage)

    def _copy_to_registers(self, tile: int) -> None:
        known = self.plan.machine.operations[self.plan.load]
        for piece in self.pieces:
            operand, row, column = self._places(piece)
            passes = max(1, -(-int(self.sectors[tile, piece]) // SECTORS_PER_CYCLE))
            i = self._made(
                "mem",
                known.latency + passes - 1,
                max(known.interval, passes),
                f"g{piece}",
                (),
                f"LDG.128 g{piece}, [{operand}]",
                self.shared.lanes[piece],
            )
            self._add(i, COPY, tile, -1, row, column, tile * self.plan.tile[2] // self.plan.unit[2])

    def _store(self, tile: int) -> None:
        stage = self._stage(tile)
        for piece in self.pieces:
            _, row, column = self._places(piece)
            passes = self.shared.stored[piece]
            # Shared memory serves one request after the other: written once its unit is free again.
            i = self._made(
                "mem",
                passes,
                passes,
                None,
                (f"g{piece}",),
                f"STS.128 [s{stage}.{piece}], g{piece}",
                self.shared.lanes[piece],
            )
            self._add(i, STORE, tile, stage, row, column)

    def _barrier(self, kind: int, tile: int) -> None:
        self._add(self._made("bar", 1, 1, None, (), "BAR"), kind, tile, self._stage(tile))

    def _multiply(self, tile: int) -> None:
        """Write loads and multiplications of one tile, loads a round ahead."""
        rounds = self.plan.tile[2] // self.plan.load_depth
        self._load(tile, 0)
        for number in range(rounds):
            if number + 1 < rounds:
                self._load(tile, number + 1)
            self._round(tile, number)

    def _load(self, tile: int, number: int) -> None:
        plan, stage = self.plan, self._stage(tile)
        first_byte = number * plan.load_depth * plan.element_bytes
        step = (tile * plan.tile[2] + number * plan.load_depth) // plan.unit[2]
        name = self._load_name()
        for operand, kind, which in (("a", LOAD_A, 0), ("b", LOAD_B, 1)):
            for unit in range(plan.warp_units[which]):
                row = self.local[which] + unit * plan.unit[which]
                access = self.shared.load(operand, row, first_byte)
                register = f"{operand}{unit}.{number % 2}"
                key = ("load", register, stage, access.wavefronts)
                if key not in self.shared.made:
                    self.shared.made[key] = plan.machine.instruction(
                        "LDS",
                        dst=register,
                        text=f"{name(access)} {register}, [s{stage}.{operand.upper()}]",
                        wavefronts=access.wavefronts,
                    )
                where = self.origin[which] + row
                self._add(
                    self.shared.made[key],
                    kind,
                    tile,
                    stage,
                    -1 if which else where,
                    where if which else -1,
                    step,
                )

    def _load_name(self) -> Callable[[BankAccess], str]:
        if self.plan.shape and has_ldmatrix(self.plan.shape):
            return lambda access: f"LDSM.16.M88.{access.active_lanes // 8}"
        return lambda access: f"LDS.{8 * access.element_bytes}"

    def _round(self, tile: int, number: int) -> None:
        plan = self.plan
        units_m, units_n = plan.warp_units
        deep = plan.load_depth // plan.unit[2]
        first = (tile * plan.tile[2] + number * plan.load_depth) // plan.unit[2]
        for step in range(first, first + deep):
            for i, j in np.ndindex(units_m, units_n):
                a, b, c = f"a{i}.{number % 2}", f"b{j}.{number % 2}", f"c{i}.{j}"
                key = ("multiply", a, b, c)
                if key not in self.shared.made:
                    self.shared.made[key] = plan.machine.instruction(plan.operation, dst=c, srcs=(a, b, c))
                row, column = self.row + i * plan.unit[0], self.column + j * plan.unit[1]
                self._add(self.shared.made[key], MULTIPLY, tile, self._stage(tile), row, column, step)

    def _write_sums(self) -> None:
        """Write the stores of the accumulators, lanes outside the result off."""
        plan = self.plan
        rows, columns, size = self._held_sums()
        for i, j in np.ndindex(*plan.warp_units):
            row, column = self.row + i * plan.unit[0], self.column + j * plan.unit[1]
            for held in range(rows.shape[1]):
                r, c = row + rows[:, held], column + columns[:, held]
                on = (r < self.sides[0]) & (c < self.sides[2])
                if not on.any():
                    continue
                mask = int((on.astype(np.int64) << np.arange(LANES)).sum())
                addresses = np.where(on, (r * self.sides[2] + c) * self.shared.sum_bytes, 0)
                sectors = int(count_sectors(addresses[None], size, mask).sectors[0])
                passes = -(-sectors // SECTORS_PER_CYCLE)
                text = f"STG.{8 * size} [C], c{i}.{j}"
                made = self._made("mem", passes, passes, None, (f"c{i}.{j}",), text, int(on.sum()))
                self._add(made, WRITE, row=row, column=column)

    def _held_sums(self) -> tuple[Ints, Ints, int]:
        """Return rows and columns of what each lane stores, (32, stores), and the bytes it stores at once."""
        if not self.plan.shape:
            lanes = np.arange(LANES)[:, None]
            return lanes // self.plan.unit[1], lanes % self.plan.unit[1], self.shared.sum_bytes
        held = fragment(self.plan.shape, "c")
        quadrant = held.computation[:, None] if self.plan.shape.computations == 4 else 0
        rows = held.rows[:, ::2] + 8 * (quadrant % 2)
        columns = held.columns[:, ::2] + 8 * (quadrant // 2)  # neighbours in pairs
        return rows, columns, 2 * self.shared.sum_bytes
