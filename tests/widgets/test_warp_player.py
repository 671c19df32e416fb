"""What the warp player sends is what the simulator and the ledger say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsewarp import ledger, simt
from pulsewarp.widgets import _wire
from pulsewarp.widgets import warp as warp_module
from pulsewarp.widgets.warp import WarpPlayer

Instruction = simt.Instruction


@st.composite
def traces(draw: st.DrawFn) -> simt.WarpTrace:
    """Return a run of up to 6 warps over few registers, with barriers that always open."""
    registers = st.sampled_from(["r0", "r1", "r2"])
    instruction = st.builds(
        Instruction,
        unit=st.sampled_from(["alu", "mem", "sfu"]),
        latency=st.integers(1, 12),
        interval=st.integers(1, 3),
        dst=registers,
        srcs=st.lists(registers, max_size=2).map(tuple),
        lanes=st.integers(1, 32),
    )
    program = draw(st.lists(instruction, min_size=1, max_size=5))
    programs = [program + [simt.bar()] * draw(st.integers(0, 1))] * draw(st.integers(1, 6))
    return simt.simulate(
        programs,
        schedulers=draw(st.integers(1, 4)),
        policy=draw(st.sampled_from(sorted(simt.POLICIES))),
        max_outstanding=draw(st.sampled_from([None, 1, 2])),
    )


def differences(player: WarpPlayer, trace: simt.WarpTrace) -> list[str]:
    """Name what the player sends that is not the trace's or the ledger's own; empty when all agrees."""
    header, columns = _wire.unpack(player.trace)
    bill = ledger.warp(trace)
    wanted = {name: getattr(trace, name) for name in ("issued", "state", "pc", "until", "lanes")}
    wanted |= {"used": bill.issued, "slots": bill.slots}
    wanted |= {f"lost {word}": bill.lost[word] for word in header["lost"]}
    sent = {name: columns[name] for name in wanted if name in columns}
    sent |= {f"lost {word}": columns["lost"][:, i] for i, word in enumerate(header["lost"])}
    wrong = [name for name, array in wanted.items() if not np.array_equal(sent[name], array)]
    told = [[header["sentences"][i] for i in row] for row in columns["sentence"]]
    wrong += ["sentences"] * (told != trace.sentences())
    listings = [[line["text"] for line in header["programs"][i]] for i in header["program_of"]]
    wrong += ["programs"] * (listings != [[i.text for i in program] for program in trace.programs])
    total = columns["used"] + columns["lost"].sum(axis=1)
    return wrong + ["ledger does not add up"] * (not np.array_equal(total, columns["slots"]))


@given(traces())
def test_every_column_is_the_traces_own(trace: simt.WarpTrace) -> None:
    assert not differences(WarpPlayer(trace), trace)


@pytest.mark.parametrize(
    "column, spoil",
    [
        ("issued", lambda issued: np.where(issued == 1, -1, issued)),
        ("state", lambda state: np.roll(state, 1, axis=0)),
        ("sentence", lambda ids: ids[::-1]),
        ("used", lambda used: used + 1),
        ("lost", lambda lost: lost * 0),
    ],
)
def test_mutant_a_spoilt_column_is_found(
    monkeypatch: pytest.MonkeyPatch, column: str, spoil: Callable[[Any], Any]
) -> None:
    trace = simt.simulate([simt.load_compute(2, 2)] * 4, schedulers=2)
    real = warp_module.pack
    monkeypatch.setattr(
        warp_module, "pack", lambda k, h, c, d: real(k, h, {**c, column: spoil(np.array(c[column]))}, d)
    )
    assert differences(WarpPlayer(trace), trace)


def test_a_kernels_lane_values_travel_whole() -> None:
    a, b = np.arange(-12, 12).reshape(6, 4), np.arange(28).reshape(4, 7) * 1000
    trace = simt.matmul_kernel(a, b).simulate()
    header, columns = _wire.unpack(WarpPlayer(trace).trace)
    kernel = trace.kernel
    assert kernel is not None
    for w, values in enumerate(kernel.lane_values):
        start = header["kernel"]["offsets"][w]
        assert np.array_equal(columns["values"][start : start + values.size].reshape(values.shape), values)
    assert header["active_lanes"] == [32, 10]
    assert [line["role"] for line in header["programs"][0]] == ["a", "b", "c"] * 4 + ["stored"]


def test_float_values_travel_exactly() -> None:
    a = np.array([[0.1, 1e-30], [1e30, -0.0]], np.float32)
    trace = simt.matmul_kernel(a, a).simulate()
    assert trace.kernel is not None
    _, columns = _wire.unpack(WarpPlayer(trace).trace)
    assert np.array_equal(columns["values"], trace.kernel.lane_values[0].ravel())


def test_more_values_than_travel_are_left_out_and_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warp_module, "MOST_VALUES", 100)
    trace = simt.matmul_kernel(np.eye(4), np.eye(4)).simulate()
    header, columns = _wire.unpack(WarpPlayer(trace).trace)
    assert "values" not in columns
    assert "kernel" not in header
    assert "416 lane values are too many to show; at most 100 are." in header["simplified"]


def test_a_large_run_stays_small_on_the_wire() -> None:
    program = simt.load_compute(12, 6, load_latency=200, load_interval=2)
    trace = simt.simulate([program] * 64, policy="gty", max_outstanding=24)
    assert trace.cycles > 5000
    assert len(WarpPlayer(trace).trace) < 1_000_000


def test_the_first_frame_shows_one_warp_computing_and_another_waiting() -> None:
    trace = simt.simulate([simt.load_compute(2, 2)] * 8)
    player = WarpPlayer(trace)
    states = {simt.STATES[code] for code in trace.state[player.cursor]}
    assert {"issues", "memory"} <= states
    assert player.options["poster"] == player.cursor


def test_a_given_start_is_kept() -> None:
    player = WarpPlayer(simt.simulate([simt.chain(4)]), start=2)
    assert (player.cursor, "poster" in player.options) == (2, False)


def test_loads_alone_start_at_the_beginning() -> None:
    assert WarpPlayer(simt.simulate([simt.load_stream(3)])).cursor == 0


def test_latencies_carry_their_origin() -> None:
    trace = simt.simulate([simt.load_compute(1, 1, load_latency=33)], max_outstanding=1)
    header, _ = _wire.unpack(WarpPlayer(trace, latencies="Huerta et al. 2025, table 2").trace)
    told = "Cycles until the result (Huerta et al. 2025, table 2): LDG 33, FFMA 4; at most 1 load in flight."
    assert header["costs"] == told


@pytest.mark.parametrize("policy", sorted(simt.POLICIES))
def test_help_says_how_the_policy_picks(policy: str) -> None:
    header, _ = _wire.unpack(WarpPlayer(simt.simulate([simt.chain(2)], policy=policy)).trace)
    assert header["help"][0].lower().startswith(simt.POLICY_NAMES[policy])


@given(traces())
def test_the_copied_python_recreates_the_run(trace: simt.WarpTrace) -> None:
    player = WarpPlayer(trace)
    header, _ = _wire.unpack(player.trace)
    *before, last = header["python"].split("\n")
    names: dict[str, Any] = {}
    exec("\n".join(before), names)
    assert eval(last, names).trace == player.trace


@pytest.mark.exhaustive
def test_the_copied_python_is_lines_one_can_read_and_names_the_architecture() -> None:
    slow, fast = (simt.chain_and_barrier(9, n, architecture="ampere") for n in (40, 5))
    trace = simt.simulate([slow] + [fast] * 31, policy="gto", blocks=[0] * 16 + [1] * 16)
    player = WarpPlayer(trace, architecture="ampere")
    python = _wire.unpack(player.trace)[0]["python"]
    *before, last = python.split("\n")
    assert last == 'widgets.WarpPlayer(trace, architecture="ampere")'
    assert before[3:6] == [
        "p0 = [*[ffma] * 40, bar] * 9",
        "p1 = [*[ffma] * 5, bar] * 9",
        'trace = simt.simulate([p0] + [p1] * 31, schedulers=4, policy="gto", blocks=[0] * 16 + [1] * 16)',
    ]
    names: dict[str, Any] = {}
    exec("\n".join(before), names)
    assert eval(last, names).trace == player.trace


def test_a_kernel_of_other_types_is_recreated() -> None:
    a = np.array([[0.1, 3], [2, 0.7]], np.float32)
    player = WarpPlayer(simt.matmul_kernel(a, a).simulate())
    *before, last = _wire.unpack(player.trace)[0]["python"].split("\n")
    names: dict[str, Any] = {}
    exec("\n".join(before), names)
    assert eval(last, names).trace == player.trace


def test_every_kind_of_instruction_has_its_cost_said() -> None:
    kinds = ("LDG", "FFMA", "MUFU", "HMMA.16816.F32", "DFMA", "IMAD", "SHFL")
    program = [
        Instruction(f"u{i}", 4 + i, 1 + i % 2, "r0", ("r0",), f"{name} r0") for i, name in enumerate(kinds)
    ]
    costs = _wire.unpack(WarpPlayer(simt.simulate([program])).trace)[0]["costs"]
    assert costs == (
        "Cycles until the result (illustrative): LDG 4, FFMA 5 (unit busy 2), MUFU 6, "
        "HMMA.16816.F32 7 (unit busy 2), DFMA 8, IMAD 9 (unit busy 2), SHFL 10."
    )
    many = [Instruction("alu", 4, 1, "r0", (), f"OP{i} r0") for i in range(11)]
    assert "and 3 more kinds" in _wire.unpack(WarpPlayer(simt.simulate([many])).trace)[0]["costs"]


def test_a_task_of_its_own_fits_what_is_shown() -> None:
    half = Instruction("bar", lanes=16)
    stuck = simt.simulate([[Instruction(dst="r0"), half, Instruction(dst="r0")]])
    full = simt.simulate([[Instruction(latency=1, dst=f"r{i}") for i in range(4)]], schedulers=1)
    assert "never comes" in WarpPlayer(stuck).options["task"]
    assert "no issue slot is lost" in WarpPlayer(full).options["task"]
    assert "find a cycle" in WarpPlayer(simt.simulate([simt.chain(3)])).options["task"]
    assert WarpPlayer(full, task="Look.").options["task"] == "Look."


def test_a_kernel_in_several_blocks_is_recreated() -> None:
    trace = simt.matmul_kernel(np.eye(9, dtype=int), np.eye(9, dtype=int), threads_per_block=32).simulate()
    player = WarpPlayer(trace)
    *before, last = _wire.unpack(player.trace)[0]["python"].split("\n")
    names: dict[str, Any] = {}
    exec("\n".join(before), names)
    assert eval(last, names).trace == player.trace


def test_the_future_may_be_hidden_and_shown() -> None:
    player = WarpPlayer(simt.simulate([simt.chain(2)]), future="hidden")
    player.future = "dimmed"
    assert (player.future, player.options["future"]) == ("dimmed", "dimmed")
    with pytest.raises(ValueError, match=r"Unknown future 'dim'.*Did you mean 'dimmed'"):
        player.future = "dim"


def test_repr_and_bundle_are_the_same_everywhere() -> None:
    player = WarpPlayer(simt.simulate([simt.chain(4)] * 2))
    assert repr(player) == "WarpPlayer(2 warps, 4 schedulers, lrr: 8 instructions in 16 cycles)"
    data, _ = player._repr_mimebundle_()
    assert data["text/plain"] == repr(player)
    assert data["text/html"].startswith("<iframe")


# --- bad input ---------------------------------------------------------------------------------------------


def test_too_many_warps_schedulers_or_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"number of warps is 65.*at most 64. One SM holds no more"):
        WarpPlayer(simt.simulate([simt.chain(1)] * 65))
    with pytest.raises(ValueError, match=r"number of schedulers is 9.*at most 8. An SM has 4"):
        WarpPlayer(simt.simulate([simt.chain(1)], schedulers=9))
    monkeypatch.setattr(warp_module, "MOST_CELLS", 50)
    with pytest.raises(ValueError, match=r"16 cycles of 4 warps, 64 cells, but at most 50 can be shown"):
        WarpPlayer(simt.simulate([simt.chain(4)] * 4))


@pytest.mark.parametrize(
    "settings, sentence",
    [
        ({"start": 99}, r"start is 99.*at most 7"),
        ({"rate": 0}, r"rate is 0, but must be a finite number above 0"),
        ({"future": "dim"}, r"Unknown future 'dim'"),
    ],
)
def test_a_setting_out_of_range(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        WarpPlayer(simt.simulate([simt.chain(2)]), **settings)


def test_an_unknown_keyword_is_a_typo() -> None:
    with pytest.raises(TypeError, match=r"'futur'. Did you mean 'future'"):
        WarpPlayer(simt.simulate([simt.chain(2)]), futur="hidden")


@pytest.mark.wrong_type
def test_players_take_a_trace_never_operands() -> None:
    with pytest.raises(TypeError, match="plays a WarpTrace, but got list; make one"):
        WarpPlayer([simt.chain(2)])  # type: ignore[arg-type]  # on purpose


def test_an_architecture_gives_its_sources_and_littles_law() -> None:
    program = simt.load_compute(2, 2, architecture="ampere", load="LDG.L1")
    player = WarpPlayer(simt.simulate([program] * 8), architecture="ampere")
    header = _wire.unpack(player.trace)[0]
    assert "LDG.L1 from Luo et al." in header["costs"]
    assert "the SM needs 38 warps (38 / 1, rounded up); here it has 8." in header["costs"]


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        (simt.chain(2), "FFMA takes 4 cycles and its unit 1 in this trace, but 4 and 2 on Volta"),
        ((simt.Instruction(dst="r0"),), r"No instruction of this trace is one of Volta's \(FFMA, "),
    ],
)
def test_an_architecture_the_programs_do_not_have_is_refused(program: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        WarpPlayer(simt.simulate([program]), architecture="volta")
