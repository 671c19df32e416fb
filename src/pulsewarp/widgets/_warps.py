"""What scenes of warps say alike: what instructions cost, where that comes from, which frames are stills."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pulsewarp import simt
from pulsewarp._text import counted

MOST_KINDS = 8  # of instructions in the line of costs
MOST_STILLS = 6


def given(
    traces: Sequence[simt.WarpTrace], latencies: str, architecture: str | simt.Architecture | None
) -> str:
    """Return the line that says what the instructions of these runs cost and where that comes from.

    Raises
    ------
    ValueError
        When an architecture is named whose instruction of that name has other latencies, or none of them.
    """
    programs = list({id(program): program for trace in traces for program in trace.programs}.values())
    most_loads = traces[0].max_outstanding
    if architecture is None:
        return _costs(programs, latencies, most_loads)
    machine = simt.architecture(architecture)
    used: dict[str, simt.Instruction] = {}
    for i in (i for program in programs for i in program):
        known = machine.operations.get(i.mnemonic)
        if known is None:
            continue
        if (i.latency, i.interval) != (known.latency, known.interval):
            raise ValueError(
                f"{i.mnemonic} takes {i.latency} cycles and its unit {i.interval} in this trace, but "
                f"{known.latency} and {known.interval} on {machine.title}; make the programs with "
                f"architecture={machine.name!r}, or leave the player's out."
            )
        used.setdefault(i.mnemonic, i)
    if not used:
        raise ValueError(
            f"No instruction of this trace is one of {machine.title}'s ({', '.join(machine.operations)}); "
            "leave the player's architecture out."
        )
    line = _costs(programs, machine.title, most_loads)
    return f"{line} {machine.given(list(used))} {_little(traces[0], used)}"


def settings(latencies: str, architecture: str | simt.Architecture | None) -> str:
    """Return the keywords of a player that say where latencies come from, as code after its trace."""
    told = "" if latencies == "illustrative" else f', latencies="{latencies}"'
    return told if architecture is None else f'{told}, architecture="{simt.architecture(architecture).name}"'


def stills(cycles: int, chapters: Sequence[tuple[int, str]]) -> list[int]:
    """Return at most six frames for the film strip: beginning, chapters and end."""
    ordered = sorted({0, *(cycle for cycle, _ in chapters), cycles - 1})
    if len(ordered) <= MOST_STILLS:
        return ordered
    return [ordered[i * (len(ordered) - 1) // (MOST_STILLS - 1)] for i in range(MOST_STILLS)]


def _little(trace: simt.WarpTrace, used: Mapping[str, simt.Instruction]) -> str:
    """Return what Little's law asks for, for the instruction that waits longest, and what there is."""
    name, slowest = max(used.items(), key=lambda item: item[1].latency / item[1].interval)
    need = simt.littles_law_warps(slowest.latency, 1, slowest.interval)
    shared = slowest.unit == "mem"
    there = trace.warps if shared else -(-trace.warps // trace.schedulers)
    where = "the SM" if shared else "a scheduler"
    return (
        f"Little's law: to keep its unit busy with one {name} in flight a warp, {where} needs "
        f"{counted(need, 'warp')} ({slowest.latency} / {slowest.interval}, rounded up); here it has {there}."
    )


def _costs(programs: Sequence[Sequence[simt.Instruction]], latencies: str, most_loads: int | None) -> str:
    """Return the latency of each kind of instruction, and where it comes from, in one line."""
    found: dict[str, dict[str, None]] = {}
    for program in programs:
        for i in program:
            if i.unit != "bar":
                busy = f" (unit busy {i.interval})" if i.interval > 1 else ""
                found.setdefault(i.mnemonic, {})[f"{i.latency}{busy}"] = None
    parts = [f"{name} {' or '.join(list(costs)[:3])}" for name, costs in list(found.items())[:MOST_KINDS]]
    if len(found) > MOST_KINDS:
        parts.append(f"and {len(found) - MOST_KINDS} more kinds")
    limit = f"; at most {counted(most_loads, 'load')} in flight" if most_loads is not None else ""
    return f"Cycles until the result ({latencies}): {', '.join(parts)}{limit}."
