"""What the barrier player sends is what the barriers of the trace and the ledger say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pulsewarp import ledger, simt
from pulsewarp.widgets import _wire
from pulsewarp.widgets import barrier as module
from pulsewarp.widgets.barrier import BarrierPlayer

LATE, OTHER = simt.chain_and_barrier(3, 9), simt.chain_and_barrier(3, 2)
HALF, ADD = simt.Instruction("bar", lanes=16), simt.Instruction(dst="r0", srcs=("r0",))


def two() -> dict[str, simt.WarpTrace]:
    return {
        "one late": simt.simulate([LATE] + [OTHER] * 7, blocks=[0] * 4 + [1] * 4),
        "none late": simt.simulate([OTHER] * 8, max_outstanding=3),
    }


def stuck() -> simt.WarpTrace:
    return simt.simulate([[ADD, HALF, ADD], [ADD] * 6 + [simt.bar(), ADD]])


def many() -> simt.WarpTrace:
    return simt.simulate(
        [simt.chain_and_barrier(2, w % 3) for w in range(10)], blocks=[w // 2 for w in range(10)]
    )


def differences(player: BarrierPlayer, runs: dict[str, simt.WarpTrace]) -> list[str]:
    """Name what is sent that is not the trace's, its barriers' or its ledger's own; empty when all agrees."""
    header, columns = _wire.unpack(player.trace)
    wrong = []
    for r, trace in enumerate(runs.values()):
        found, bill = simt.barriers(trace), ledger.warp(trace)
        wanted = {name: getattr(found, name) for name in ("arrived", "expected", "current", "late", "waited")}
        wanted |= {"state": trace.state, "lost": bill.lost["barrier"], "slots": bill.slots}
        wanted["share"] = np.array([a / b for a, b in zip(bill.lost["barrier"], bill.slots, strict=True)])
        opens = [one.opens for one in found.rounds]
        wanted["opened"] = np.array(
            [sum(o is not None and o <= t for o in opens) for t in range(trace.cycles)]
        )
        wanted["standing"] = np.array([list(row).count(simt.STATES.index("barrier")) for row in trace.state])
        wrong += [
            name for name, values in wanted.items() if not np.array_equal(columns[f"{name}{r}"], values)
        ]
        told = [[header["sentences"][i] for i in row] for row in columns[f"sentence{r}"]]
        wrong += ["sentence"] * (told != found.sentences())
        rows = columns[f"arrivals{r}"].tolist()
        wanted_rows = [(i, t, w) for i, one in enumerate(found.rounds) for t, w in one.arrivals]
        wrong += ["arrivals"] * ([tuple(row[:3]) for row in rows] != wanted_rows)
        sent = [one["opens"] for one in header["runs"][r]["rounds"]]
        wrong += ["opens"] * (sent != opens)
        for w in range(trace.warps):
            own = [header["sentences"][i] for i in columns[f"told{r}"][:, w]]
            wanted_told = [[s for c, s in found.of_warp(w) if c <= t][-1] for t in range(trace.cycles)]
            wrong += ["told"] * (own != wanted_told)
    return wrong


@pytest.mark.parametrize("runs", [two(), {"": stuck()}, {"": many()}], ids=["two", "deadlock", "blocks"])
def test_every_column_is_the_traces_own(runs: dict[str, simt.WarpTrace]) -> None:
    player = BarrierPlayer(runs.get("", runs))
    assert differences(player, runs) == []


@pytest.mark.parametrize(
    "column",
    ["sentence", "told", "state", "arrived", "waited", "lost", "share", "opened", "arrivals", "late"],
)
def test_mutant_a_column_a_frame_late_is_found(monkeypatch: pytest.MonkeyPatch, column: str) -> None:
    real = module.pack

    def late(kind: str, header: Any, columns: Any, codings: Any) -> str:
        return real(
            kind, header, {**columns, f"{column}0": np.roll(columns[f"{column}0"], 1, axis=0)}, codings
        )

    monkeypatch.setattr(module, "pack", late)
    runs = two()
    assert column in differences(BarrierPlayer(runs), runs)


def test_the_last_is_marked_only_where_somebody_waited_for_it() -> None:
    rows = _wire.unpack(BarrierPlayer(simt.simulate([LATE] + [OTHER] * 3)).trace)[1]["arrivals0"].tolist()
    assert {w for _, _, w, last in rows if last} == {0}
    even = _wire.unpack(BarrierPlayer(simt.simulate([OTHER] * 4)).trace)[1]["arrivals0"].tolist()
    assert not any(last for *_, last in even), "all arrive in one cycle, nobody waits"


@pytest.mark.parametrize(
    "make", [lambda: {"": simt.simulate([LATE] + [OTHER] * 7)}, two, lambda: {"": many()}]
)
def test_the_first_frame_shows_who_waits_and_who_is_late(make: Any) -> None:
    runs = make()
    player = BarrierPlayer(runs.get("", runs))
    found = [simt.barriers(run) for run in runs.values()]
    t = player.cursor
    assert any(t < one.trace.cycles and one.late[t].any() and one.arrived[t].any() for one in found)
    assert player.options["poster"] == t


def test_many_blocks_share_a_sentence() -> None:
    header, columns = _wire.unpack(BarrierPlayer(many()).trace)
    found = simt.barriers(many())
    for t in range(found.trace.cycles):
        waits = int(((found.current[t] > 0) & (found.arrived[t] > 0)).sum())
        said = header["sentences"][columns["all0"][t]]
        assert said.startswith("Of 5 blocks ")
        assert (f"{waits} wait" in said) == bool(waits), said


@pytest.mark.parametrize(
    "make",
    [
        two,
        lambda: {"": stuck()},
        lambda: {"": many()},
        lambda: {"alone": simt.simulate([LATE, OTHER], policy="gto")},
    ],
    ids=["two", "deadlock", "blocks", "named"],
)
def test_the_copied_python_recreates_the_runs_in_lines_one_can_read(make: Any) -> None:
    runs = make()
    player = BarrierPlayer(runs.get("", runs))
    python = _wire.unpack(player.trace)[0]["python"]
    *before, last = python.split("\n")
    names: dict[str, Any] = {}
    exec("\n".join(before), names)
    assert eval(last, names).trace == player.trace
    assert len(before) >= 4 and max(map(len, before)) <= 110


def test_an_architecture_is_copied_too() -> None:
    program = simt.chain_and_barrier(2, 3, architecture="ampere")
    player = BarrierPlayer(simt.simulate([program] * 4), architecture="ampere")
    header = _wire.unpack(player.trace)[0]
    *before, last = header["python"].split("\n")
    names: dict[str, Any] = {}
    exec("\n".join(before), names)
    assert last == 'widgets.BarrierPlayer(trace, architecture="ampere")'
    assert eval(last, names).trace == player.trace
    assert "FFMA from" in header["given"] or "Ampere" in header["given"]


def test_tasks_fit_what_is_shown() -> None:
    assert "which run ends first" in BarrierPlayer(two()).options["task"]
    assert "find the threads" in BarrierPlayer(stuck()).options["task"]
    assert "for whom the others wait" in BarrierPlayer(many()).options["task"]
    assert BarrierPlayer(many(), task="Look.").options["task"] == "Look."


def test_a_page_brings_its_checks() -> None:
    player = BarrierPlayer(two(), start=5)
    written = player._written_report()
    assert all(holds for _, holds, _ in written["run"]) and written["run"][0][0].startswith("one late: ")
    assert len(written["frames"]) == max(run.cycles for run in two().values())


def test_repr() -> None:
    assert repr(BarrierPlayer(stuck())) == "BarrierPlayer(2 warps, 1 barrier, 25 cycles)"


# --- bad input ---------------------------------------------------------------------------------------------


def test_what_cannot_be_shown_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        ValueError, match=r"No program of the trace reaches a barrier; put simt.bar\(\) into one"
    ):
        BarrierPlayer(simt.simulate([simt.chain(2)]))
    with pytest.raises(ValueError, match=r"There are 3 runs, but one or two are shown"):
        BarrierPlayer(dict.fromkeys("abc", many()))
    with pytest.raises(ValueError, match=r"There are 0 runs"):
        BarrierPlayer({})
    with pytest.raises(ValueError, match=r"number of warps is 65.*at most 64"):
        BarrierPlayer(simt.simulate([OTHER] * 65))
    monkeypatch.setattr(module, "MOST_CELLS", 50)
    with pytest.raises(ValueError, match=r"The runs have \d+ cells .* at most 50 can be shown"):
        BarrierPlayer(many())


@pytest.mark.wrong_type
def test_players_take_traces_never_operands() -> None:
    with pytest.raises(TypeError, match=r"make one with simt.simulate"):
        BarrierPlayer([OTHER])  # type: ignore[arg-type]  # on purpose
    with pytest.raises(TypeError, match=r"The trace 'a' is 5"):
        BarrierPlayer({"a": 5})  # type: ignore[dict-item]  # on purpose
