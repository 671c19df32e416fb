"""Occupancy: how many blocks of a launch one SM holds at once, what runs out first, what one more would take.

The rules are those of NVIDIA's occupancy header (CUDA 13.0); the limits of each compute capability stand in
`data/compute_capabilities.toml`, each with its source.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from pulsewarp import _checks
from pulsewarp._report import Report
from pulsewarp._text import counted
from pulsewarp.simt.compute_capability import ComputeCapability, known

RESOURCES = ("warps", "registers", "shared_memory", "blocks", "barriers")
"""What a block takes a part of, and an SM has only so much of."""


@dataclass(frozen=True)
class Occupancy:
    """How many blocks of one launch an SM holds at once, and which limits say so.

    Modelled: warp slots, registers by sub-partition, shared memory with what the system reserves, block slots
    and barriers, all in the steps in which they are given. Not modelled: clusters of blocks, and whether the
    grid has blocks enough. More occupancy is not more speed: it gives the schedulers more warps to choose
    from, which helps only while they have too few.

    Attributes
    ----------
    compute_capability, threads_per_block, registers_per_thread
        The launch, as :func:`occupancy` was given it.
    static_shared, dynamic_shared, shared_opt_in, carveout
        What of it concerns shared memory.
    limits : mapping of str to int or math.inf
        Blocks an SM would hold if each resource alone counted: "warps", "registers", "shared_memory",
        "blocks", "barriers".
    blocks_per_sm : int
        The least of them; 0 where the launch cannot start.
    warps_per_block : int
        Warps of a block, its last one perhaps not full.
    registers_per_block, shared_memory_per_block : int
        Registers and bytes that a block is given, rounded up to the steps in which they are.
    shared_memory_capacity : int
        Bytes of shared memory of the SM, as its carve-out sets it.
    """

    compute_capability: str
    threads_per_block: int
    registers_per_thread: int
    static_shared: int
    dynamic_shared: int
    shared_opt_in: bool
    carveout: int | None
    limits: Mapping[str, int | float] = field(hash=False)
    blocks_per_sm: int
    warps_per_block: int
    registers_per_block: int
    shared_memory_per_block: int
    shared_memory_capacity: int

    @property
    def device(self) -> ComputeCapability:
        """The limits of the compute capability."""
        return known(self.compute_capability)

    @property
    def warps_per_sm(self) -> int:
        """Warps that are resident at once."""
        return self.blocks_per_sm * self.warps_per_block

    @property
    def threads_per_sm(self) -> int:
        """Threads that are resident at once."""
        return self.blocks_per_sm * self.threads_per_block

    @property
    def occupancy(self) -> float:
        """Resident warps as a fraction of the most an SM holds."""
        return self.warps_per_sm / self.device.max_warps

    @property
    def limiting(self) -> tuple[str, ...]:
        """The resources that run out first, in alphabetical order: every one whose limit is the least."""
        return tuple(sorted(name for name, limit in self.limits.items() if limit == self.blocks_per_sm))

    @property
    def registers_per_warp(self) -> int:
        """Registers that a warp is given."""
        return self.registers_per_block // self.warps_per_block

    @property
    def warps_by_registers(self) -> int | float:
        """Warps for which registers suffice, sub-partition by sub-partition; math.inf where none are used."""
        device = self.device
        if not self.registers_per_warp:
            return math.inf
        return device.partitions * (device.registers // device.partitions // self.registers_per_warp)

    @property
    def shared_memory_text(self) -> str:
        """The bytes of shared memory that a block asks for, as a reader takes them in."""
        return size_text(self.static_shared + self.dynamic_shared)

    @property
    def launch(self) -> dict[str, Any]:
        """The launch by the keywords of :func:`occupancy`."""
        return {name: getattr(self, name) for name in _LAUNCH}

    def why(self) -> tuple[str, ...]:
        """Say what keeps the next block out: one sentence for each resource that runs out first.

        Returns
        -------
        tuple of str
            In the order of `limits`. Where the launch cannot start, what forbids its first block.

        Examples
        --------
        >>> from pulsewarp import simt
        >>> simt.occupancy("8.0", threads_per_block=32, registers_per_thread=16).why()
        ('Block slots run out: all 32 are taken.',)
        """
        return tuple(_why(self, name) for name in self.limits if name in self.limiting)

    def one_more(self) -> tuple[LaunchChange, ...]:
        """Find what to change, one thing at a time and by as little as possible, for one more block.

        Each change has been tried: its `result` is what :func:`occupancy` says of it. Where no single change
        suffices, one of several things together is looked for. Threads are changed in whole warps, and
        dynamic shared memory before static.

        Returns
        -------
        tuple of LaunchChange
            Empty where no change helps: block slots and barriers are the SM's own.

        Examples
        --------
        >>> from pulsewarp import simt
        >>> for change in simt.occupancy("8.0", threads_per_block=256, registers_per_thread=64).one_more():
        ...     print(change.says)
        48 registers a thread instead of 64 (16 fewer): 5 blocks, 40 of 64 warps.
        192 threads a block instead of 256 (64 fewer): 5 blocks, 30 of 64 warps.
        """
        wanted = self.blocks_per_sm + 1
        if any(self.limits[name] < wanted for name in ("blocks", "barriers")):
            return ()
        alone = [settings for search in _SEARCHES if (settings := search(self, wanted))]
        if not alone:
            alone = [settings for settings in _together(self, wanted) if settings]
        changes = [LaunchChange(self, MappingProxyType(settings)) for settings in alone]
        return tuple(change for change in changes if change.result.blocks_per_sm >= wanted)

    def advice(self) -> tuple[str, ...]:
        """Say in sentences what one more block would take, or why no change of the launch gives one.

        Returns
        -------
        tuple of str
            A sentence for each of :meth:`one_more`; where block slots or barriers are the limit, which block
            size would hold more warps in as many blocks.
        """
        if changes := self.one_more():
            return tuple(change.says for change in changes)
        own = [word for name, word in _SLOTS.items() if name in self.limiting]
        if not own:
            return ("No change of the launch gives one more block.",)
        held = (
            f"No launch has more than {self.blocks_per_sm} blocks on this SM: its {' and '.join(own)} are "
            f"all taken."
        )
        fuller = _fuller(self)
        if fuller is None:
            return (held,)
        warps = f"{fuller.warps_per_sm} of {self.device.max_warps} warps"
        return (
            held,
            f"Larger blocks would fill more of it: {fuller.threads_per_block} threads a block instead of "
            f"{self.threads_per_block} hold {warps} in {counted(fuller.blocks_per_sm, 'block')}.",
        )

    def verify(self) -> Report:
        """Fill an SM with blocks warp by warp, and compare with what was counted.

        Returns
        -------
        Report
            One `Check` each, with its numbers in a sentence; `passed` when all hold.

        Examples
        --------
        >>> from pulsewarp import simt
        >>> simt.occupancy("12.0", threads_per_block=32, registers_per_thread=16).verify().checks[1].says
        'block 25 is refused by barriers and blocks; said to run out: barriers and blocks.'
        """
        from pulsewarp.simt._filling import check_filling  # it fills SMs for what is defined here

        return check_filling(self)

    def __repr__(self) -> str:
        what = f"{self.threads_per_block} threads, {self.registers_per_thread} registers"
        shared = self.static_shared + self.dynamic_shared
        what += f", {shared} B shared" if shared else ""
        return (
            f"Occupancy({self.compute_capability}, {what}: {counted(self.blocks_per_sm, 'block')}, "
            f"{self.warps_per_sm} of {self.device.max_warps} warps; limit: {', '.join(self.limiting)})"
        )


_SLOTS = {"blocks": "block slots", "barriers": "barriers"}
_LAUNCH = (
    "compute_capability",
    "threads_per_block",
    "registers_per_thread",
    "static_shared",
    "dynamic_shared",
    "shared_opt_in",
    "carveout",
)


@dataclass(frozen=True)
class LaunchChange:
    """A change of a launch, and what it gives.

    Attributes
    ----------
    before : Occupancy
        The launch that is changed.
    settings : mapping
        What changes, by the keywords of :func:`occupancy`.
    """

    before: Occupancy
    settings: Mapping[str, Any] = field(hash=False)

    @property
    def result(self) -> Occupancy:
        """The launch with the change."""
        return occupancy(**{**self.before.launch, **self.settings})

    @property
    def says(self) -> str:
        """The change and its result in one sentence."""
        parts = " and ".join(_settings_words(self.before, self.settings))
        after = self.result
        return (
            f"{parts[0].upper()}{parts[1:]}: {counted(after.blocks_per_sm, 'block')}, "
            f"{after.warps_per_sm} of {after.device.max_warps} warps."
        )

    def __repr__(self) -> str:
        return f"LaunchChange({self.says})"


@_checks.names_keywords
def occupancy(
    compute_capability: str = "8.0",
    threads_per_block: int = 256,
    registers_per_thread: int = 64,
    static_shared: int = 0,
    dynamic_shared: int = 0,
    shared_opt_in: bool = False,
    carveout: int | None = None,
) -> Occupancy:
    """Count the blocks of a launch that one SM holds at once.

    Exact against NVIDIA's own occupancy header (CUDA 13.0). Not modelled: clusters of blocks, and kernels
    whose code sets a maximum block size of its own.

    Parameters
    ----------
    compute_capability : str
        From ``"7.0"`` (Volta) to ``"12.0"`` (Blackwell); see :func:`compute_capabilities`.
    threads_per_block : int
        Threads of a block, at least 1. More than 1,024 cannot start.
    registers_per_thread : int
        Registers of a thread, as the compiler reports them; 0 sets no limit. A thread can have 255; 256
        passes the header's own check.
    static_shared, dynamic_shared : int
        Bytes of shared memory a block asks for when compiled and when launched.
    shared_opt_in : bool
        Whether the kernel has opted in to more than 48 KiB a block.
    carveout : int, optional
        The percentage of an SM's unified memory wanted as shared memory, 0 to 100; the next supported size
        is taken, and a larger one where a block would not fit. Left out, or -1 as in CUDA: the largest.

    Returns
    -------
    Occupancy
        `.blocks_per_sm`, `.warps_per_sm`, `.occupancy`, `.limits`, `.limiting`; a launch that cannot start
        has 0 blocks.

    Raises
    ------
    ValueError
        For an unknown compute capability, fewer than 1 thread, a negative number, a carve-out beyond 100.

    Notes
    -----
    Registers are given to a warp in steps of 256 and lie in four sub-partitions of 16,384, so that a warp's
    must fit into one of them: the limit is ``4 * (16384 // a) // warps``, not ``65536 // (a * warps)``.

    Examples
    --------
    >>> from pulsewarp import simt
    >>> held = simt.occupancy("8.6", threads_per_block=128, registers_per_thread=80, static_shared=8000)
    >>> held.blocks_per_sm, held.warps_per_sm, held.occupancy, held.limiting
    (6, 24, 0.5, ('registers',))
    """
    device = known(compute_capability)
    threads = _checks.whole_number("threads_per_block", threads_per_block)
    registers = _checks.whole_number("registers_per_thread", registers_per_thread, least=0)
    static = _checks.whole_number("static_shared", static_shared, least=0)
    dynamic = _checks.whole_number("dynamic_shared", dynamic_shared, least=0)
    if shared_opt_in not in (False, True):
        raise ValueError(f"shared_opt_in is {shared_opt_in!r}, but must be True or False.")
    if carveout is not None and (carveout := _carveout(carveout)) == -1:
        carveout = None

    warps = -(-threads // device.warp_size)
    registers_per_warp = round_up(device.warp_size * registers, device.register_step)
    asked = static + dynamic
    shared = round_up(asked + device.shared_memory_reserved, device.shared_memory_step)
    most = device.shared_memory_per_block
    if shared_opt_in and asked > most:
        most = device.shared_memory_opt_in
    starts = shared <= most + device.shared_memory_reserved
    capacity = device.shared_memory
    if carveout is not None and starts:
        capacity = _capacity(device, carveout, shared)
    limits: dict[str, int | float] = {
        "warps": device.max_warps // warps if threads <= device.max_threads_per_block else 0,
        "registers": _blocks_by_registers(device, registers, registers_per_warp, warps),
        "shared_memory": (capacity // shared if shared else math.inf) if starts else 0,
        "blocks": device.max_blocks,
        "barriers": math.inf if device.max_barriers is None else device.max_barriers,
    }
    return Occupancy(
        compute_capability,
        threads,
        registers,
        static,
        dynamic,
        bool(shared_opt_in),
        carveout,
        MappingProxyType(limits),
        int(min(limits.values())),
        warps,
        registers_per_warp * warps,
        shared,
        capacity,
    )


@_checks.names_keywords
def best_block_size(
    compute_capability: str, registers_per_thread: int, static_shared: int = 0, dynamic_shared: int = 0
) -> tuple[int, int]:
    """Return the block size that keeps most threads resident, and its blocks an SM.

    Exact against the suggestion of NVIDIA's occupancy header. The kernel counts as opted in to large shared
    memory, and its shared memory as the same at every block size. The most threads are not the most speed.

    Parameters
    ----------
    compute_capability : str
        As for :func:`occupancy`.
    registers_per_thread : int
        Registers of a thread.
    static_shared, dynamic_shared : int
        Bytes of shared memory a block.

    Returns
    -------
    tuple of int
        Threads a block, a multiple of 32 up to 1,024 and the larger where two hold as many threads, and
        blocks an SM; (0, 0) where no block of any size can start.

    Raises
    ------
    ValueError
        As :func:`occupancy` does.

    Examples
    --------
    >>> from pulsewarp import simt
    >>> simt.best_block_size("8.0", 40)
    (768, 2)
    """
    device = known(compute_capability)
    best, blocks = 0, 0
    for threads in range(device.warp_size, device.max_threads_per_block + 1, device.warp_size):
        held = occupancy(
            compute_capability, threads, registers_per_thread, static_shared, dynamic_shared, True
        )
        if held.blocks_per_sm and held.threads_per_sm >= best * blocks:
            best, blocks = threads, held.blocks_per_sm
    return best, blocks


def round_up(number: int, step: int) -> int:
    """Return the least multiple of `step` that is at least `number`."""
    return -(-number // step) * step


def _carveout(carveout: object) -> int:
    return _checks.whole_number(
        "carveout", carveout, least=-1, most=100, remedy="It is a percentage; None or -1 is the default."
    )


def _capacity(device: ComputeCapability, carveout: int, shared: int) -> int:
    """Return the shared memory of an SM under a carve-out, raised until one block fits."""
    wanted = max(carveout * device.shared_memory // 100, shared)
    return next(size for size in device.carveouts if size >= wanted)


def _blocks_by_registers(device: ComputeCapability, registers: int, per_warp: int, warps: int) -> int | float:
    launched = per_warp * round_up(warps, device.partitions)  # as the header checks it
    if registers > device.registers_per_thread_checked or launched > device.registers_per_block:
        return 0
    if not registers:
        return math.inf
    return device.partitions * (device.registers // device.partitions // per_warp) // warps


# -------------------------------------------------------------------------------------- one more block


def _holds(launch: Occupancy, wanted: int, **settings: Any) -> bool:
    return occupancy(**{**launch.launch, **settings}).blocks_per_sm >= wanted


def _fewer_registers(launch: Occupancy, wanted: int) -> dict[str, Any]:
    device = launch.device
    step = device.register_step // device.warp_size  # fewer by less than this give a warp as many as before
    most = min(launch.registers_per_thread - 1, device.registers_per_thread)
    beyond = [most] if most == device.registers_per_thread else []
    for count in (*beyond, *range(most // step * step, 0, -step)):
        if _holds(launch, wanted, registers_per_thread=count):
            return {"registers_per_thread": count}
    return {}


def _fewer_threads(launch: Occupancy, wanted: int) -> dict[str, Any]:
    device = launch.device
    most = min(launch.warps_per_block - 1, device.max_threads_per_block // device.warp_size)
    for warps in range(most, 0, -1):
        if _holds(launch, wanted, threads_per_block=warps * device.warp_size):
            return {"threads_per_block": warps * device.warp_size}
    return {}


def _less_shared(launch: Occupancy, wanted: int) -> dict[str, Any]:
    """Return the most shared memory below the launch's of which so many blocks fit.

    Of every size that an SM can be set to, so many blocks may each take an equal part; the largest part
    that holds up is the most there is, because more shared memory a block never sets the SM to less.
    """
    device, asked = launch.device, launch.static_shared + launch.dynamic_shared
    per_block = device.shared_memory_opt_in if launch.shared_opt_in else device.shared_memory_per_block
    parts = {
        size // wanted // device.shared_memory_step * device.shared_memory_step
        - device.shared_memory_reserved
        for size in (*device.carveouts, device.shared_memory)
    }
    for part in sorted({min(part, per_block) for part in parts}, reverse=True):
        if 0 <= part < asked:
            static = min(launch.static_shared, part)
            settings = {"static_shared": static, "dynamic_shared": part - static}
            if _holds(launch, wanted, **settings):
                return {name: value for name, value in settings.items() if value != getattr(launch, name)}
    return {}


def _opted_in(launch: Occupancy, wanted: int) -> dict[str, Any]:
    if not launch.shared_opt_in and _holds(launch, wanted, shared_opt_in=True):
        return {"shared_opt_in": True}
    return {}


def _larger_carveout(launch: Occupancy, wanted: int) -> dict[str, Any]:
    if launch.carveout is None:
        return {}
    for percentage in range(launch.carveout + 1, 101):
        if _holds(launch, wanted, carveout=percentage):
            return {"carveout": percentage}
    return {}


_SEARCHES = (_fewer_registers, _less_shared, _opted_in, _larger_carveout, _fewer_threads)


def _together(launch: Occupancy, wanted: int) -> Iterator[dict[str, Any]]:
    """Yield a change of several things at once, each by as little as its own limit asks for.

    First with as many threads, so that registers and shared memory give way; then with fewer; then with as
    few as warps alone ask for, and registers give way as well.
    """
    yield _each_alone(launch, wanted, {})
    if launch.limits["registers"] < wanted or launch.limits["warps"] < wanted:
        device = launch.device
        for warps in range(launch.warps_per_block - 1, 0, -1):
            fewer = occupancy(**{**launch.launch, "threads_per_block": warps * device.warp_size})
            if min(fewer.limits["registers"], fewer.limits["warps"]) >= wanted:
                yield _each_alone(fewer, wanted, {"threads_per_block": fewer.threads_per_block})
                return
    if launch.limits["warps"] < wanted:
        for warps in range(launch.warps_per_block - 1, 0, -1):
            fewer = occupancy(**{**launch.launch, "threads_per_block": warps * launch.device.warp_size})
            if fewer.limits["warps"] >= wanted:
                yield _each_alone(fewer, wanted, {"threads_per_block": fewer.threads_per_block})
                return


def _each_alone(launch: Occupancy, wanted: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Return `settings` and the least change of every other resource that falls short, or nothing."""
    free: dict[str, dict[str, Any]] = {
        "registers": {"static_shared": 0, "dynamic_shared": 0, "carveout": None},
        "shared_memory": {"registers_per_thread": 0, "threads_per_block": 1},
    }
    if launch.limits["warps"] < wanted:
        return {}
    for name, searches in (
        ("registers", (_fewer_registers,)),
        ("shared_memory", (_larger_carveout, _opted_in, _less_shared)),
    ):
        if launch.limits[name] < wanted:
            eased = occupancy(**{**launch.launch, **free[name]})  # as if nothing else fell short
            found = next((one for search in searches if (one := search(eased, wanted))), None)
            if found is None:
                return {}
            settings = {**settings, **found}
    return settings


def _fuller(launch: Occupancy) -> Occupancy | None:
    """Return the launch whose larger blocks hold most warps in all, the smallest such; None if none do."""
    device, best = launch.device, launch
    for threads in range(device.warp_size, device.max_threads_per_block + 1, device.warp_size):
        other = occupancy(**{**launch.launch, "threads_per_block": threads})
        if other.threads_per_block > launch.threads_per_block and other.warps_per_sm > best.warps_per_sm:
            best = other
    return None if best is launch else best


# -------------------------------------------------------------------------------------- in words


def _settings_words(before: Occupancy, settings: Mapping[str, Any]) -> Iterator[str]:
    for name, value in settings.items():
        old = getattr(before, name)
        if name == "shared_opt_in":
            usual = size_text(before.device.shared_memory_per_block)
            yield f"opting in to more than {usual} of shared memory a block"
        elif name == "carveout":
            after = occupancy(**{**before.launch, **settings})
            yield (
                f"a carve-out of {value} % instead of {old} % ({size_text(after.shared_memory_capacity)} of "
                f"shared memory an SM instead of {size_text(before.shared_memory_capacity)})"
            )
        elif name in ("static_shared", "dynamic_shared"):
            kind = name.partition("_")[0]
            yield f"{value:,} B of {kind} shared memory a block instead of {old:,} ({old - value:,} fewer)"
        else:
            what = "registers a thread" if name == "registers_per_thread" else "threads a block"
            yield f"{value:,} {what} instead of {old:,} ({old - value:,} fewer)"


def size_text(size: int) -> str:
    """Return bytes as a reader takes them in: in KiB where they are whole quarters of one, else in bytes."""
    if size % 256 == 0 and size:
        return f"{size / 1024:,.2f}".rstrip("0").rstrip(".") + " KiB"
    return f"{size:,} B"


def _why(held: Occupancy, name: str) -> str:
    if not held.blocks_per_sm:
        return _why_not_one(held, name)
    device, blocks = held.device, held.blocks_per_sm
    taken = held.warps_per_sm
    if name == "warps":
        return (
            f"Warp slots run out: {taken} of {device.max_warps} are taken, and a block needs "
            f"{held.warps_per_block}."
        )
    if name == "registers":
        part = device.registers // device.partitions
        return (
            f"Registers run out: each sub-partition of {part:,} holds "
            f"{counted(part // held.registers_per_warp, 'warp')} of {held.registers_per_warp:,}, the SM "
            f"{held.warps_by_registers}; {taken} are there, and a block needs {held.warps_per_block}."
        )
    if name == "shared_memory":
        return (
            f"Shared memory runs out: {size_text(blocks * held.shared_memory_per_block)} of "
            f"{size_text(held.shared_memory_capacity)} are taken, and a block needs "
            f"{size_text(held.shared_memory_per_block)}{_reserved_words(held)}."
        )
    return f"{_SLOTS[name].capitalize()} run out: all {blocks} are taken."


def _why_not_one(held: Occupancy, name: str) -> str:
    """Say why not even one block starts."""
    device = held.device
    if name == "warps":
        return (
            f"The launch cannot start: {held.threads_per_block:,} threads are more than the "
            f"{device.max_threads_per_block:,} a block may have."
        )
    if name == "registers" and held.registers_per_thread > device.registers_per_thread_checked:
        return (
            f"The launch cannot start: {held.registers_per_thread:,} registers are more than the "
            f"{device.registers_per_thread} a thread can have."
        )
    if name == "registers":
        warps = round_up(held.warps_per_block, device.partitions)
        needs = held.registers_per_warp * warps
        rounded = "" if warps == held.warps_per_block else f", counted in fours as {warps},"
        return (
            f"The launch cannot start: {counted(held.warps_per_block, 'warp')} of "
            f"{held.registers_per_warp:,} registers{rounded} take {needs:,}, and a block may have "
            f"{device.registers_per_block:,}."
        )
    most = device.shared_memory_opt_in if held.shared_opt_in else device.shared_memory_per_block
    more = "" if held.shared_opt_in else " unless its kernel opts in to more"
    return (
        f"The launch cannot start: {held.static_shared + held.dynamic_shared:,} B of shared memory are more "
        f"than the {size_text(most)} a block may have{more}."
    )


def _reserved_words(held: Occupancy) -> str:
    reserved = held.device.shared_memory_reserved
    return f", {size_text(reserved)} of it reserved" if reserved else ""
