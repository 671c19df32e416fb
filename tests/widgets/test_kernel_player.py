"""What the kernel player sends is what the trace, the ledger and the kernel's own results say."""

from __future__ import annotations

import sys
from importlib import util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pulsewarp import ledger, simt, widgets
from pulsewarp.widgets import _wire
from pulsewarp.widgets import kernel as kernel_module
from pulsewarp.widgets.kernel import SCORE, KernelPlayer

LESSONS = simt.lesson_kernels.LESSONS
OWN = """import numpy as np
from pulsewarp import simt
from pulsewarp.simt import cuda
SHIFT = 3
def add(a, b):
    return a + b
def shifted(x, out, n):
    i = cuda.grid(1)
    if i < n:
        out[i, 0] = add(x[i], SHIFT)
given = np.linspace(0, 1, 20).astype(np.float32)
run = simt.trace_kernel(shifted, grid=1, block=32, args=(given, np.zeros((20, 2), order="F"), np.int32(20)))
"""


def pair(**changes: Any) -> dict[str, simt.KernelTrace]:
    lessons = simt.lesson_kernels
    sizes = {"m": 8, "k": 8, "n": 8} | changes
    kernels = {"naive": lessons.naive_product, "tiled": lessons.tiled_product}
    return {name: lessons.product(kernel, **sizes).trace() for name, kernel in kernels.items()}


def differences(player: KernelPlayer, kernels: dict[str, simt.KernelTrace], **timing: Any) -> list[str]:
    """Name what the player sends that is not the traces' own; empty when all agrees."""
    header, columns = _wire.unpack(player.trace)
    wrong = [] if [each["name"] for each in header["kernels"]] == list(kernels) else ["names"]
    times = columns["time"]
    for n, kernel in enumerate(kernels.values()):
        trace = kernel.simulate(**timing, until_stop=True)
        at = np.minimum(times, trace.cycles - 1)
        for name in ("state", "pc", "until"):
            wrong += [name] * (not np.array_equal(columns[f"{name}{n}"], getattr(trace, name)[at]))
        issued = [(t, w) for t, row in enumerate(trace.issued.tolist()) for w in row if w >= 0]
        frames = times[columns[f"issue_frame{n}"]]
        sent = list(zip(frames.tolist(), columns[f"i_warp{n}"].tolist(), strict=True))
        wrong += ["issues"] * (sent != issued)
        bill = ledger.warp(trace, kernel=kernel)
        score = dict(zip(SCORE, columns[f"score{n}"].T, strict=True))
        for name in ("issued", "masked", "sectors", "bytes", "wavefronts", "slots"):
            wrong += [name] * (not np.array_equal(score[name], getattr(bill, name)[at]))
        lines = [(s.line, s.instructions, s.lanes_off, s.sectors, s.least_sectors, s.wavefronts,
                  s.least_wavefronts) for s in kernel.lines()]  # fmt: skip
        ends = columns[f"line_score{n}"][-1].tolist()
        told = [(line, *row) for line, row in zip(header["kernels"][n]["lines"], ends, strict=True)]
        wrong += ["lines"] * (told != lines)
        for a, array in enumerate(header["kernels"][n]["arrays"]):
            if array["space"] != "global":
                continue
            held = np.array(columns[f"before{a}_{n}"], np.float64)
            mine = columns[f"change_array{n}"] == a
            held[columns[f"change_place{n}"][mine]] = columns[f"change_value{n}"][mine]
            left = kernel.results[array["first"]].reshape(-1).astype(np.float64)
            wrong += [f"memory of {array['first']}"] * (not np.array_equal(held, left, equal_nan=True))
    return wrong


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [n for n in LESSONS if "transpose" not in n])
def test_every_lesson_is_sent_as_it_ran(name: str) -> None:
    kernels = {name: LESSONS[name].trace()}
    assert differences(KernelPlayer(kernels, load_latency=40), kernels, load_latency=40) == []


def test_two_kernels_share_a_clock() -> None:
    player = KernelPlayer(pair())
    assert differences(player, pair()) == []
    header, columns = _wire.unpack(player.trace)
    assert header["cycles"] == max(each["cycles"] for each in header["kernels"])
    assert columns["time"][header["ends"][1]] == header["kernels"][1]["cycles"]
    scores = [columns[f"score{n}"][-1] for n in (0, 1)]
    at = SCORE.index("sectors")
    assert columns["ratio"][-1][at] == pytest.approx(scores[0][at] / scores[1][at])


@pytest.mark.parametrize(
    ("column", "seen_as"),
    [("state1", "state"), ("score0", "issued"), ("line_score0", "lines"), ("change_value0", "memory of c"),
     ("i_warp0", "issues"), ("pc0", "pc")],
)  # fmt: skip
def test_mutant_a_spoilt_column_is_found(monkeypatch: pytest.MonkeyPatch, column: str, seen_as: str) -> None:
    real = kernel_module.pack
    monkeypatch.setattr(
        kernel_module,
        "pack",
        lambda k, h, c, d: real(k, h, {**c, column: np.roll(np.array(c[column]), 50, axis=0)}, d),
    )
    assert seen_as in differences(KernelPlayer(pair()), pair())


def test_verify_holds_and_names_the_kernel() -> None:
    lesson = simt.lesson_kernels.product(m=8, k=8, n=8)
    player = KernelPlayer(pair(), expected={"c": lesson.expected})
    rows = player._report()
    assert all(row[1] for row in rows)
    assert {"naive: c against NumPy", "tiled: barriers"} <= {row[0] for row in rows}
    wrong = KernelPlayer(pair()["naive"], expected={"c": lesson.expected + 1})
    assert [row[0] for row in wrong._report() if not row[1]] == ["c against NumPy"]


def load(path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    path.write_text(text)
    spec = util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("made_from", ["lessons", "a lesson", "own"])
def test_the_copied_python_recreates_the_scene(
    made_from: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if made_from == "own":
        kernels = {"mine": load(tmp_path / "own_kernel.py", OWN, monkeypatch).run}
    else:
        kernels = pair() if made_from == "lessons" else {"add": LESSONS["vector_add"].trace()}
    player = KernelPlayer(kernels, policy="gto", load_latency=40)
    python = _wire.unpack(player.trace)[0]["python"]
    assert python.count("\n") >= 3 and python.endswith("policy='gto', load_latency=40)")
    text = python.replace("widgets.KernelPlayer(", "again = widgets.KernelPlayer(")
    module = load(tmp_path / "copied.py", text, monkeypatch)
    again = _wire.unpack(module.again.trace)[1]
    ours = _wire.unpack(player.trace)[1]
    assert set(again) == set(ours)
    for name in set(ours) - {f"{c}{n}" for c in ("i_line",) for n in (0, 1)}:  # lines of another file
        assert np.array_equal(again[name], ours[name], equal_nan=ours[name].dtype.kind == "f"), name


def test_a_kernel_that_stops_is_shown_up_to_there() -> None:
    player = KernelPlayer(LESSONS["divergent_barrier"].trace())
    header, columns = _wire.unpack(player.trace)
    assert header["kernels"][0]["stops"] and header["chapters"][-1]["label"] == "stopped"
    assert columns["follow0"][-1] == 0
    assert header["kernels"][0]["problems"][0]["kind"] == "divergent barrier"


def test_what_is_large_is_cut_down_with_a_sentence_and_stays_small() -> None:
    lessons = simt.lesson_kernels
    kernel = lessons.product(lessons.naive_product, m=32, k=32, n=32).trace()
    player = KernelPlayer(kernel, blocks=[1, 2])
    header, _ = _wire.unpack(player.trace)
    assert "Of the 4 blocks of naive_product, blocks 1 to 2 are shown." in header["simplified"]
    assert len(player.trace) < 500_000
    long = np.zeros(20_000, np.float32)
    big = simt.trace_kernel(lessons.vector_add, grid=1, block=64, args=(long, long.copy(), long.copy()))
    assert (
        "Of out, 20,000 elements, 16,384 are drawn." in _wire.unpack(KernelPlayer(big).trace)[0]["simplified"]
    )


def test_show_replaces_the_kernels() -> None:
    player = KernelPlayer(pair(), load_latency=40)
    player.show(LESSONS["saxpy"].trace(), expected={"y": LESSONS["saxpy"].expected})
    assert repr(player).startswith("KernelPlayer(saxpy: 12 warps, ")
    assert "lanes will be masked off" in player.options["task"]
    assert differences(player, {"saxpy": LESSONS["saxpy"].trace()}, load_latency=40) == []


# --- bad input ---------------------------------------------------------------------------------------------


def test_bad_input_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    one = LESSONS["vector_add"].trace()
    with pytest.raises(ValueError, match="There are 3 kernels, but one or two are shown"):
        KernelPlayer([one] * 3)
    with pytest.raises(ValueError, match=r"nknown array .z."):
        KernelPlayer(one, expected={"z": np.zeros(3)})
    with pytest.raises(ValueError, match="block"):
        KernelPlayer(one, blocks=[7])
    with pytest.raises(TypeError, match=r"'polcy'\. Did you mean 'policy'"):
        KernelPlayer(one, polcy="lrr")  # type: ignore[call-arg]
    monkeypatch.setattr(kernel_module, "MOST_CELLS", 10)
    with pytest.raises(ValueError, match=r"steps of 12 warps, .* name fewer blocks, such as blocks=\[0\]"):
        KernelPlayer(one)


@pytest.mark.wrong_type
def test_players_take_a_trace_never_operands() -> None:
    with pytest.raises(TypeError, match="must be a KernelTrace"):
        widgets.KernelPlayer([[1, 2]])  # type: ignore[list-item]  # on purpose
