"""Block placement cycle by cycle over a table of slots, said plainly; the tests' second model."""

from __future__ import annotations


def place(lengths: list[int], sms: int, each: int, order: str) -> list[tuple[int, int, int, int]]:
    """Return (SM, slot, start, end) of each block, stepping through every single cycle."""
    table: list[list[int]] = [[0] * each for _ in range(sms)]  # cycles left of what each slot holds
    placed: list[tuple[int, int, int, int]] = []
    turn, t = 0, 0
    while len(placed) < len(lengths):
        while len(placed) < len(lengths):
            room = [row.count(0) for row in table]
            open_sms = [s for s in range(sms) if room[s]]
            if not open_sms:
                break
            if order == "round_robin":
                s = min(open_sms, key=lambda one: (one - turn) % sms)
                turn = (s + 1) % sms
            elif order == "most_room":
                s = max(open_sms, key=lambda one: (room[one], -one))
            else:
                s = open_sms[0]
            length = lengths[len(placed)]
            slot = table[s].index(0)
            table[s][slot] = length
            placed.append((s, slot, t, t + length))
        t += 1
        table = [[max(0, left - 1) for left in row] for row in table]
    return placed


def best(lengths: list[int], slots: int) -> int:
    """Return the least cycles in which any assignment of blocks to slots can end, by trying all of them."""
    loads = {(0,) * slots}
    for length in lengths:
        loads = {
            tuple(sorted((*load[:i], load[i] + length, *load[i + 1 :])))
            for load in loads
            for i in range(slots)
        }
    return min(max(load) for load in loads)
