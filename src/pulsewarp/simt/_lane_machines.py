"""Which lanes of a warp run which step next: with a stack of masks, or with a program counter for each lane.

A machine has no clock: it says what is issued one after another. What an instruction does to registers and
shared variables is the same for all; they differ in who goes next and who waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pulsewarp.simt._instruction import LANES
from pulsewarp.simt._lane_program import LaneProgram, Step
from pulsewarp.simt.patterns import MOST_ADDRESS

#: What a lane does in a cycle. "off": its path waits its turn; "stalled": its operands are not there yet;
#: "meets": it waits where a branch ends for lanes of the other path.
LANE_STATES = ("off", "runs", "stalled", "meets", "syncwarp", "syncthreads", "ended")
OFF, RUNS, STALLED, MEETS, SYNCWARP, SYNCTHREADS, ENDED = range(len(LANE_STATES))

MOST_ISSUES = 2000
#: Lanes that wait where a loop ends get a turn when the others have gone round so often.
PATIENCE = 64

Stack = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Moment:
    """One instruction, and how everything stands after it."""

    step: int
    lanes: tuple[int, ...]
    pcs: tuple[int, ...]
    states: tuple[int, ...]
    values: tuple[Mapping[str, int], ...]
    shared: Mapping[str, int]
    stack: Stack


@dataclass(frozen=True)
class Run:
    """All instructions of a warp in order; `hang` is None, "still" (nobody can move), "round" or "cut"."""

    start: Moment
    moments: list[Moment]
    hang: str | None
    round: frozenset[int] = frozenset()
    round_steps: frozenset[int] = frozenset()


class Machine:
    """What both kinds share: lanes, registers, shared variables, and what a step does to them."""

    def __init__(self, program: LaneProgram, shared: Mapping[str, int], lanes: int, then_first: bool) -> None:
        self.program, self.shared, self.then_first = program, dict(shared), then_first
        self.values: list[dict[str, int]] = [{} for _ in range(LANES)]
        self.counters: list[dict[str, tuple[int, int]]] = [{} for _ in range(LANES)]
        self.pcs = [0 if lane < lanes else program.end for lane in range(LANES)]

    def next(self) -> tuple[int, tuple[int, ...]] | None:
        """Return the step that goes next and its lanes; None when nobody can move."""
        raise NotImplementedError

    def moved(self, step: int, lanes: tuple[int, ...]) -> None:
        """Take note that these lanes have run a step; `pcs` holds where each goes from there."""
        raise NotImplementedError

    def states(self) -> list[int]:
        """Return what each lane does while another one runs."""
        raise NotImplementedError

    def stack_entries(self) -> Stack:
        """Return the stack; empty where there is none."""
        return ()

    def key(self) -> object:
        """Return all that decides what comes next: where it comes again, everything comes again."""
        own = tuple(tuple(sorted(values.items())) for values in self.values)
        counts = tuple(tuple(sorted(counters.items())) for counters in self.counters)
        return tuple(self.pcs), own, counts, tuple(self.shared.items()), self.stack_entries()

    def repeats(self) -> bool:
        """Whether nothing can be done about a state that came again."""
        return True

    def alive(self) -> list[int]:
        """Return the lanes that have not ended."""
        return [lane for lane in range(LANES) if self.pcs[lane] < self.program.end]

    def execute(self, at: int, lanes: tuple[int, ...]) -> None:
        """Run a step on lanes, and set where each goes from there."""
        step = self.program.steps[at]
        numbers = [self._numbers(step, lane) for lane in lanes]  # all lanes read before any writes
        for lane, read in zip(lanes, numbers, strict=True):
            self.pcs[lane] = step.next if self._act(step, lane, read) else step.other
        self.moved(at, lanes)

    def _numbers(self, step: Step, lane: int) -> list[int]:
        names = {**self.shared, **self.values[lane]}
        try:
            return [expression.number(lane, names) for expression in step.expressions]
        except ValueError as error:
            raise ValueError(f"Line {step.line}: {error}") from None

    def _act(self, step: Step, lane: int, read: Sequence[int]) -> bool:
        """Do for one lane what a step does; return whether it goes on with the next step, or the other."""
        own = self.values[lane]
        match step.kind:
            case "set":
                own[str(step.dst)] = read[0]
            case "store":
                self.shared[str(step.shared)] = read[0]
            case "exch" | "add":
                old = self.shared[str(step.shared)]
                new = read[0] + (old if step.kind == "add" else 0)
                if abs(new) > MOST_ADDRESS:
                    raise ValueError(
                        f"Line {step.line}: lane {lane} puts {step.shared!r} beyond {MOST_ADDRESS}; add less."
                    )
                self.shared[str(step.shared)] = new
                if step.dst:
                    own[step.dst] = old
            case "branch":
                return bool(read[0])
            case "range":
                self.counters[lane][str(step.counter)] = (read[0], read[1]) if len(read) > 1 else (0, read[0])
            case "for":
                low, high = self.counters[lane][str(step.counter)]
                if low >= high:
                    return False
                own[str(step.dst)], self.counters[lane][str(step.counter)] = low, (low + 1, high)
        return True

    def parts(self, at: int, lanes: tuple[int, ...]) -> list[tuple[int, tuple[int, ...]]]:
        """Return where lanes that ran a step go, each place with its lanes, in the order they get a turn."""
        step = self.program.steps[at]
        places = [step.next, step.other] if step.branches else [step.next]
        if not self.then_first:
            places.reverse()
        found = [(pc, tuple(lane for lane in lanes if self.pcs[lane] == pc)) for pc in dict.fromkeys(places)]
        return [(pc, members) for pc, members in found if members]

    def moment(self, step: int, lanes: tuple[int, ...]) -> Moment:
        """Return how everything stands."""
        end = self.program.end
        return Moment(
            step, lanes, tuple(pc if pc < end else -1 for pc in self.pcs), tuple(self.states()),
            tuple(dict(own) for own in self.values), dict(self.shared), self.stack_entries(),
        )  # fmt: skip


@dataclass
class _Entry:
    pc: int
    end: int
    lanes: tuple[int, ...]
    parted: bool = False  # its lanes have parted, and it waits for them at `pc`


class StackMachine(Machine):
    """One program counter: the top of a stack; a branch puts its paths on it, each ends where they meet."""

    def __init__(self, program: LaneProgram, shared: Mapping[str, int], lanes: int, then_first: bool) -> None:
        super().__init__(program, shared, lanes, then_first)
        self.stack = [_Entry(0, program.end, tuple(range(lanes)))]

    def next(self) -> tuple[int, tuple[int, ...]] | None:
        return (self.stack[-1].pc, self.stack[-1].lanes) if self.stack else None

    def moved(self, step: int, lanes: tuple[int, ...]) -> None:
        top = self.stack[-1]
        parts = self.parts(step, lanes)
        if len(parts) == 1:
            top.pc = parts[0][0]
        else:
            meet = self.program.steps[step].meet
            if meet == top.end:  # the entry below waits there already
                self.stack.pop()
            else:
                top.pc, top.parted = meet, True
            paths = [_Entry(pc, meet, members) for pc, members in parts if pc != meet]
            self.stack += reversed(paths)
        self._clear()

    def _clear(self) -> None:
        """Take lanes off that have ended, and entries that are done."""
        alive = set(self.alive())
        for entry in self.stack:
            entry.lanes = tuple(lane for lane in entry.lanes if lane in alive)
        while self.stack and (self.stack[-1].pc == self.stack[-1].end or not self.stack[-1].lanes):
            self.stack.pop()
        if self.stack:
            self.stack[-1].parted = False

    def states(self) -> list[int]:
        found = [ENDED] * LANES
        for i, entry in enumerate(self.stack):
            top = i == len(self.stack) - 1
            for lane in entry.lanes:
                found[lane] = OFF if top or not entry.parted else MEETS
        return found

    def stack_entries(self) -> Stack:
        return tuple((one.pc, one.end, sum(1 << lane for lane in one.lanes)) for one in self.stack)


@dataclass
class _Meeting:
    at: int
    lanes: set[int]


class IndependentMachine(Machine):
    """A program counter for each lane; a barrier waits for every lane that has not ended."""

    def __init__(self, program: LaneProgram, shared: Mapping[str, int], lanes: int, then_first: bool) -> None:
        super().__init__(program, shared, lanes, then_first)
        self.at_barrier: dict[int, int] = {}  # lanes, and at which kind they wait; their pc stays there

    def free(self) -> list[int]:
        """Return the lanes that can move."""
        return [lane for lane in self.alive() if lane not in self.at_barrier]

    def moved(self, step: int, lanes: tuple[int, ...]) -> None:
        if self.program.steps[step].syncs:
            kind = SYNCWARP if self.program.steps[step].kind == "syncwarp" else SYNCTHREADS
            for lane in lanes:
                self.at_barrier[lane], self.pcs[lane] = kind, step
        alive = self.alive()
        for kind in (SYNCWARP, SYNCTHREADS):
            waiting = [lane for lane in alive if self.at_barrier.get(lane) == kind]
            if waiting and len(waiting) == len(alive):
                for lane in waiting:
                    del self.at_barrier[lane]
                    self.pcs[lane] = self.program.steps[self.pcs[lane]].next
                self.opened()

    def opened(self) -> None:
        """Take note that a barrier opened."""

    def states(self) -> list[int]:
        return [
            ENDED if pc >= self.program.end else self.at_barrier.get(lane, OFF)
            for lane, pc in enumerate(self.pcs)
        ]

    def key(self) -> object:
        return super().key(), tuple(sorted(self.at_barrier.items()))


class AlternatingMachine(IndependentMachine):
    """Lanes that stand at one step go together; the step whose lanes have waited longest goes next."""

    def __init__(self, program: LaneProgram, shared: Mapping[str, int], lanes: int, then_first: bool) -> None:
        super().__init__(program, shared, lanes, then_first)
        self.turn = [0] * LANES  # when each lane ran last
        self.count = 0

    def next(self) -> tuple[int, tuple[int, ...]] | None:
        free = self.free()
        if not free:
            return None
        at = self.pcs[min(free, key=lambda lane: (self.turn[lane], lane))]
        return at, tuple(lane for lane in free if self.pcs[lane] == at)

    def moved(self, step: int, lanes: tuple[int, ...]) -> None:
        parts = self.parts(step, lanes)
        for _, members in parts:  # of two paths the first one has waited longer
            self.count += 1
            for lane in members:
                self.turn[lane] = self.count
        super().moved(step, lanes)

    def key(self) -> object:
        ranks = {turn: rank for rank, turn in enumerate(sorted(set(self.turn)))}
        return super().key(), tuple(ranks[turn] for turn in self.turn)


class ConvergingMachine(IndependentMachine):
    """One path after the other; who comes to where a branch ends waits there for the other lanes of it."""

    def __init__(self, program: LaneProgram, shared: Mapping[str, int], lanes: int, then_first: bool) -> None:
        super().__init__(program, shared, lanes, then_first)
        self.meetings: list[_Meeting] = []
        self.paths: list[set[int]] = [set(range(lanes))]  # the last one goes first
        self.rounds = 0

    def held(self) -> set[int]:
        """Return the lanes that wait where a branch ends."""
        alive = set(self.alive())
        found: set[int] = set()
        for meeting in self.meetings:
            there = {lane for lane in meeting.lanes & alive if self.pcs[lane] == meeting.at}
            if there != meeting.lanes & alive:
                found |= there
        return found - set(self.at_barrier)

    def next(self) -> tuple[int, tuple[int, ...]] | None:
        held = self.held()
        free = [lane for lane in self.free() if lane not in held]
        if not free:
            return None
        lead = next((lane for path in reversed(self.paths) for lane in free if lane in path), free[0])
        return self.pcs[lead], tuple(lane for lane in free if self.pcs[lane] == self.pcs[lead])

    def moved(self, step: int, lanes: tuple[int, ...]) -> None:
        parts = self.parts(step, lanes)
        meet = self.program.steps[step].meet
        if len(parts) > 1:
            self.paths += [set(members) for _, members in reversed(parts)]
            known = any(one.at == meet and one.lanes >= set(lanes) for one in self.meetings)
            if not known and meet < self.program.end:
                self.meetings.append(_Meeting(meet, set(lanes)))
        self.rounds += any(pc <= step for pc, _ in parts)
        super().moved(step, lanes)
        self._settle()

    def opened(self) -> None:
        self.rounds = 0

    def _settle(self) -> None:
        """End meetings to which all have come, and forget paths whose lanes have ended."""
        alive = set(self.alive())
        kept = [one for one in self.meetings if any(self.pcs[lane] != one.at for lane in one.lanes & alive)]
        if len(kept) < len(self.meetings):
            self.rounds = 0
            met = [one.lanes for one in self.meetings if one not in kept]
            self.paths = [path for path in self.paths if not any(path < lanes for lanes in met)]
        self.meetings = kept
        self.paths = [path for path in self.paths if path & alive]

    def repeats(self) -> bool:
        """Let lanes go that wait for others which only go round; False when some could be let go."""
        held = self.held()
        if not held:
            return True
        where = {self.pcs[lane] for lane in held}
        for meeting in self.meetings:
            if meeting.at in where:
                meeting.lanes -= held
        self.paths.append(set(held))
        self.rounds = 0
        return False

    def states(self) -> list[int]:
        held = self.held()
        return [MEETS if lane in held else state for lane, state in enumerate(super().states())]

    def key(self) -> object:
        meetings = tuple((one.at, tuple(sorted(one.lanes))) for one in self.meetings)
        return super().key(), meetings


MACHINES: dict[str, type[Machine]] = {
    "stack": StackMachine,
    "converge": ConvergingMachine,
    "alternate": AlternatingMachine,
}


def run_machine(machine: Machine, branches: bool) -> Run:
    """Run a machine to its end, or until nobody moves, all repeats itself, or there are too many steps."""
    start = machine.moment(-1, ())
    moments: list[Moment] = []
    seen: dict[object, int] = {}
    trail: list[tuple[int, tuple[int, ...]]] = []
    hang: str | None = None
    while True:
        if not machine.alive():
            break
        going = machine.next()
        if going is None:
            hang = "still"
            break
        step, lanes = going
        machine.execute(step, lanes)
        trail.append(going)
        if branches or not machine.program.steps[step].branches:
            moments.append(machine.moment(step, lanes))
        elif moments:  # a branch that takes no cycle comes with the instruction before it
            moments[-1] = machine.moment(moments[-1].step, moments[-1].lanes)
        else:
            start = machine.moment(-1, ())
        key = machine.key()
        tired = isinstance(machine, ConvergingMachine) and machine.rounds >= PATIENCE
        if key in seen or (tired and not machine.repeats()):
            if key in seen and machine.repeats():
                hang = "round"
                break
            seen, trail = {}, []
            if moments:  # lanes that waited are let go
                moments[-1] = replace(moments[-1], states=tuple(machine.states()))
            continue
        seen[key] = len(trail)
        if len(trail) >= 3 * MOST_ISSUES or len(moments) >= MOST_ISSUES:
            hang = "cut"
            break
    if hang in (None, "still"):
        return Run(start, moments, hang)
    tour = trail[seen.get(machine.key(), 0) if hang == "round" else -PATIENCE :]
    return Run(
        start, moments, hang, frozenset(lane for _, lanes in tour for lane in lanes),
        frozenset(step for step, _ in tour),
    )  # fmt: skip
