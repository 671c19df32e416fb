"""Programs for lessons and tests, each the simplest that shows one thing."""

from __future__ import annotations

from pulsewarp import _checks
from pulsewarp.simt import presets
from pulsewarp.simt._instruction import LANES, Instruction, bar
from pulsewarp.simt.presets import Architecture

Program = tuple[Instruction, ...]
MOST_REPEATS = 1_000_000


def _count(name: str, value: int, least: int = 1) -> int:
    return _checks.whole_number(name, value, least=least, most=MOST_REPEATS)


def _cost(
    architecture: str | Architecture | None,
    operation: str,
    latency: int | None,
    interval: int | None,
    illustrative: int,
) -> tuple[str, int, int]:
    """Return unit, latency and interval: as given, else the architecture's, else illustrative ones."""
    unit, cycles, taken = "mem" if operation.startswith("LD") else "alu", illustrative, 1
    if architecture is not None:
        known = presets.architecture(architecture).instruction(operation)
        unit, cycles, taken = known.unit, known.latency, known.interval
    return unit, cycles if latency is None else latency, taken if interval is None else interval


@_checks.names_keywords
def chain(
    n: int,
    *,
    ilp: int = 1,
    latency: int | None = None,
    interval: int | None = None,
    architecture: str | Architecture | None = None,
    operation: str = "FFMA",
) -> Program:
    """Return `n` sums in `ilp` independent chains: what one warp can overlap with itself.

    Sum ``i`` reads and writes register ``i mod ilp``. One warp alone needs about
    ``n / ilp * max(latency, ilp * interval)`` cycles.

    Parameters
    ----------
    n : int
        Instructions.
    ilp : int
        Independent chains, the instruction-level parallelism.
    latency, interval : int, optional
        Cycles; left out, those of `architecture`, and without one 4 and 1. An FFMA can use another's result
        after 4 cycles from Volta to Hopper (Jia et al., arXiv:1804.06826, and later measurements); the
        interval of 1 is illustrative.
    architecture : str or Architecture, optional
        As for `architecture`: whose latency and unit width the instructions have.
    operation : str
        What they are called, and what is looked up there.

    Returns
    -------
    tuple of Instruction
        One warp's program.

    Raises
    ------
    ValueError
        When a number is below 1.

    Examples
    --------
    >>> from pulsewarp import simt
    >>> simt.simulate([simt.chain(24)], schedulers=1).cycles
    96
    >>> simt.simulate([simt.chain(24, ilp=4)], schedulers=1).cycles
    27
    >>> simt.simulate([simt.chain(24, ilp=4, architecture="volta")], schedulers=1).cycles
    50
    """
    ilp = _count("ilp", ilp)
    unit, latency, interval = _cost(architecture, operation, latency, interval, 4)
    step = [
        Instruction(unit, latency, interval, f"r{j}", (f"r{j}",), f"{operation} r{j}, r{j}, r{j}, r{j}")
        for j in range(min(ilp, _count("n", n)))
    ]
    return tuple(step[i % ilp] for i in range(n))


@_checks.names_keywords
def load_compute(
    repeats: int,
    sums: int,
    *,
    load_latency: int | None = None,
    load_interval: int | None = None,
    sum_latency: int | None = None,
    sum_interval: int | None = None,
    architecture: str | Architecture | None = None,
    load: str = "LDG",
) -> Program:
    """Return `repeats` times one load and `sums` dependent sums that use it: latency to be hidden.

    Parameters
    ----------
    repeats, sums : int
        How often, and sums after each load.
    load_latency, load_interval, sum_latency, sum_interval : int, optional
        Cycles; left out, those of `architecture`. Without one they are illustrative, as in `matmul_kernel`:
        18, 1, 4 and 1; 18 is shorter than any real load, so that it can be watched.
    architecture : str or Architecture, optional
        As for `architecture`: whose load and FFMA these are.
    load : str
        The load looked up there: ``"LDG"`` from DRAM, ``"LDG.L2"``, ``"LDG.L1"`` or ``"LDS"``.

    Returns
    -------
    tuple of Instruction
        One warp's program.

    Raises
    ------
    ValueError
        When `repeats` or a number of cycles is below 1, or `sums` below 0.

    Examples
    --------
    >>> [i.text for i in load_compute(1, 2)]
    ['LDG r4, [A]', 'FFMA r5, r4, r4, r5', 'FFMA r5, r4, r4, r5']
    >>> load_compute(1, 2, architecture="ampere", load="LDG.L2")[0].latency
    262
    """
    _, cycles, taken = _cost(architecture, load, load_latency, load_interval, 18)
    first = Instruction("mem", cycles, taken, "r4", (), f"{load} r4, [A]")
    unit, cycles, taken = _cost(architecture, "FFMA", sum_latency, sum_interval, 4)
    add = Instruction(unit, cycles, taken, "r5", ("r4", "r5"), "FFMA r5, r4, r4, r5")
    return (first, *[add] * _count("sums", sums, least=0)) * _count("repeats", repeats)


@_checks.names_keywords
def load_stream(
    n: int,
    *,
    latency: int | None = None,
    interval: int | None = None,
    architecture: str | Architecture | None = None,
    load: str = "LDG",
) -> Program:
    """Return `n` independent loads: what the memory unit and the limit on loads in flight allow.

    Parameters
    ----------
    n : int
        Loads, each to its own register.
    latency, interval : int, optional
        Cycles; left out, those of `architecture`, and without one 18 and 1, as in `load_compute`.
    architecture, load
        As for `load_compute`.

    Returns
    -------
    tuple of Instruction
        One warp's program.

    Raises
    ------
    ValueError
        When a number is below 1.

    Examples
    --------
    >>> from pulsewarp import simt
    >>> simt.simulate([simt.load_stream(8, latency=100)] * 4).cycles
    131
    """
    _, latency, interval = _cost(architecture, load, latency, interval, 18)
    return tuple(
        Instruction("mem", latency, interval, f"r{i}", (), f"{load} r{i}, [A+{i}]")
        for i in range(_count("n", n))
    )


@_checks.names_keywords
def chain_and_barrier(
    repeats: int,
    sums: int,
    *,
    latency: int | None = None,
    interval: int | None = None,
    architecture: str | Architecture | None = None,
) -> Program:
    """Return `repeats` times `sums` dependent sums and a barrier: one late warp holds up its block.

    Parameters
    ----------
    repeats, sums : int
        How often, and sums before each barrier; give one warp more of them to make it late.
    latency, interval, architecture
        As for `chain`.

    Returns
    -------
    tuple of Instruction
        One warp's program.

    Raises
    ------
    ValueError
        When `repeats` or a number of cycles is below 1, or `sums` below 0.

    Examples
    --------
    >>> from pulsewarp import simt
    >>> late, other = simt.chain_and_barrier(4, 18), simt.chain_and_barrier(4, 6)
    >>> simt.simulate([late] + [other] * 7).cycles
    288
    """
    unit, latency, interval = _cost(architecture, "FFMA", latency, interval, 4)
    add = Instruction(unit, latency, interval, "r0", ("r0",), "FFMA r0, r0, r0, r0")
    return (*[add] * _count("sums", sums, least=0), bar()) * _count("repeats", repeats)


@_checks.names_keywords
def diverge(
    ways: int,
    sums: int,
    tail: int,
    *,
    latency: int | None = None,
    interval: int | None = None,
    architecture: str | Architecture | None = None,
) -> Program:
    """Return `ways` paths of `sums` dependent sums one after the other, then `tail` sums together.

    The paths of a divergent branch are serialised: each issues for itself, on its own lanes only. Not
    modelled: the branch instructions, and other orders of the paths than one after the other.

    Parameters
    ----------
    ways : int
        Paths, 1 to 32, which share the 32 lanes as evenly as they can.
    sums, tail : int
        Sums on each path, and after the paths have met again.
    latency, interval, architecture
        As for `chain`.

    Returns
    -------
    tuple of Instruction
        One warp's program.

    Raises
    ------
    ValueError
        When a number is out of its range.

    Examples
    --------
    >>> from pulsewarp import simt
    >>> simt.simulate([simt.diverge(4, 8, 8)], schedulers=1).cycles
    160
    >>> simt.diverge(4, 8, 8)[0].lanes
    8
    """
    ways = _checks.whole_number("ways", ways, most=LANES)

    unit, cycles, taken = _cost(architecture, "FFMA", latency, interval, 4)

    def add(lanes: int) -> Instruction:
        return Instruction(unit, cycles, taken, "r0", ("r0",), "FFMA r0, r0, r0, r0", lanes)

    shares = [LANES // ways + (path < LANES % ways) for path in range(ways)]
    paths = [add(lanes) for lanes in shares for _ in range(_count("sums", sums))]
    return (*paths, *[add(LANES)] * _count("tail", tail, least=0))


@_checks.names_keywords
def littles_law_warps(latency: int, ilp: int = 1, interval: int = 1) -> int:
    """Return how many warps a scheduler needs to keep a unit busy: ``ceil(latency / (ilp * interval))``.

    Little's law: what is in flight equals throughput times latency. A unit that takes an instruction every
    `interval` cycles holds ``latency / interval`` of them; each warp brings `ilp`.

    Parameters
    ----------
    latency, interval : int
        Cycles from issue to result, and from issue to the unit's next issue.
    ilp : int
        Independent instructions a warp has to offer.

    Returns
    -------
    int
        Warps per scheduler.

    Raises
    ------
    ValueError
        When a number is below 1.

    Examples
    --------
    >>> littles_law_warps(latency=28, ilp=1, interval=2)
    14
    """
    latency, ilp, interval = _count("latency", latency), _count("ilp", ilp), _count("interval", interval)
    return -(-latency // (ilp * interval))
