"""Presets say what the catalogue documents and no more; a product dealt to units is the sum of its shares."""

from __future__ import annotations

import inspect
import sys
import textwrap
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsewarp import chips
from pulsewarp.systolic import gemm
from pulsewarp.systolic.matrix_units import DEALING, MatrixUnits, MatrixUnitsCost, matrix_units

TPUS = chips.ids("tpu")
# What is documented, and what is not: shape, units a core, cores, clock in MHz.
DOCUMENTED = {
    "tpu_v1": ((256, 256), 1, 1, 700),
    "tpu_v2": ((128, 128), 1, 2, 700),
    "tpu_v3": ((128, 128), 2, 2, 940),
    "tpu_v4i": ((128, 128), 4, 1, None),
    "tpu_v4": ((128, 128), 4, 2, None),
    "tpu_v5e": ((128, 128), 4, 1, 1500),
    "tpu_v5p": ((128, 128), 4, 2, None),
    "tpu_v6e": ((256, 256), None, 1, None),
    "tpu_v7": ((256, 256), None, 2, None),
    "tpu_8t": ((256, 256), None, 1, None),
    "tpu_8i": ((256, 256), 2, 2, None),
}


def test_every_tpu_of_the_catalogue_has_its_row() -> None:
    assert set(DOCUMENTED) == set(TPUS)


@pytest.mark.parametrize("chip", DOCUMENTED)
def test_what_is_documented_is_there_and_the_rest_is_none(chip: str) -> None:
    shape, units_per_core, cores, megahertz = DOCUMENTED[chip]
    found = matrix_units(chip)
    assert ((found.rows, found.cols), found.units_per_core, found.cores) == (shape, units_per_core, cores)
    assert found.clock_hz == (None if megahertz is None else megahertz * 1e6)
    assert found.dtype == ("int8" if chip == "tpu_v1" else "bf16")
    assert matrix_units(found.chip) == found
    for name, source in found.sources.items():
        assert source == found.chip.source(name)
    if units_per_core is None:
        assert found.units is None and found.caveat


@pytest.mark.parametrize("chip", [chip for chip, row in DOCUMENTED.items() if row[3] is not None])
def test_where_all_is_published_units_and_clock_make_the_peak(chip: str) -> None:
    """What `peak_share` rests on; vendors round to two or three digits."""
    found = matrix_units(chip)
    assert found.units is not None and found.clock_hz is not None
    made = found.units * found.rows * found.cols * 2 * found.clock_hz
    assert made == pytest.approx(found.chip.peak(found.dtype), rel=0.01)


SIZE = st.integers(1, 2000)
FLOWS = st.sampled_from(["ws", "os", "is"])


AXIS = {"ws": "n", "os": "n", "is": "m"}  # the index along the array's columns


def misdealt(found: MatrixUnitsCost) -> list[int]:
    """Name the units whose share is not the tiles that come to them in turn, dealt one by one."""
    axis, wide = AXIS[found.dataflow], found.matrix_units.cols
    hands = [0] * len(found.dealt)
    for tile, begin in enumerate(range(0, getattr(found, axis), wide)):
        hands[tile % len(hands)] += min(wide, getattr(found, axis) - begin)
    wrong = []
    for unit, (hand, share) in enumerate(zip(hands, found.dealt, strict=True)):
        wanted = {name: getattr(found, name) for name in ("m", "k", "n")} | {axis: hand}
        got = None if share is None else {name: getattr(share, name) for name in ("m", "k", "n")}
        if got != (wanted if hand else None):
            wrong.append(unit)
    return wrong


@given(SIZE, SIZE, SIZE, st.integers(1, 8), FLOWS, st.booleans())
def test_the_shares_are_the_product(m: int, k: int, n: int, units: int, dataflow: str, overlap: bool) -> None:
    found = matrix_units("tpu_v5p").gemm(m=m, k=k, n=n, units=units, dataflow=dataflow, overlap=overlap)
    shares = [share for share in found.dealt if share is not None]
    assert len(found.dealt) == units and misdealt(found) == []
    assert sum(share.m * share.k * share.n for share in shares) == m * k * n
    whole = gemm(m=m, k=k, n=n, rows=128, cols=128, dataflow=dataflow, overlap=overlap)
    assert sum(share.folds for share in shares) == whole.folds
    tiles = [share.col_tiles for share in shares]
    assert max(tiles) - min(tiles) <= 1 and tiles == sorted(tiles, reverse=True)
    assert len(shares) == min(units, whole.col_tiles)
    assert found.cycles == max(share.cycles for share in shares) <= whole.cycles
    assert found.utilization == pytest.approx(m * k * n / (found.cycles * units * 128**2))


def test_one_unit_is_the_array_itself() -> None:
    found = matrix_units("tpu_v6e").gemm(m=512, k=512, n=512, units=1, overlap=False)
    assert found.dealt == (gemm(m=512, k=512, n=512, rows=256, cols=256),)
    assert found.seconds is None and found.peak_share is None  # the clock is not published


def test_time_and_share_of_peak_where_the_clock_is_published() -> None:
    found = matrix_units("tpu_v5e").gemm(m=8192, k=4096, n=4096)
    assert found.seconds == found.cycles / 1.5e9
    assert found.peak_share == pytest.approx(2 * 8192 * 4096**2 / found.seconds / 197e12)
    assert found.peak_share == pytest.approx(found.utilization, rel=0.005)


def test_a_narrow_product_leaves_units_without_work() -> None:
    found = matrix_units("tpu_v5e").gemm(m=1024, k=1024, n=128)
    assert [share is None for share in found.dealt] == [False, True, True, True]
    assert found.utilization < 0.25


def test_reprs_are_stable_and_say_what_is_unknown() -> None:
    assert repr(matrix_units("tpu_v5e").gemm(m=512, k=512, n=512)) == (
        "MatrixUnitsCost(tpu_v5e, 4 units of 128x128, 512x512 by 512x512: 2430 cycles, 1.62 us, 84.3 % used)"
    )
    assert "clock not published" in repr(matrix_units("tpu_v4").gemm(m=8, k=8, n=8))
    assert repr(matrix_units("tpu_v1")).startswith(
        "MatrixUnits(rows=256, cols=256, units_per_core=1, cores=1, "
    )
    assert DEALING.endswith("not documented.")


@pytest.mark.parametrize("chip", ["tpu_v6e", "tpu_v7", "tpu_8t"])
def test_an_unsettled_number_of_units_is_said_and_not_guessed(chip: str) -> None:
    with pytest.raises(ValueError, match=r"is not settled\. .*would need .* GHz.*units=1\.$"):
        matrix_units(chip).gemm(m=8, k=8, n=8)


def units(**changes: Any) -> object:
    return matrix_units("tpu_v5e").gemm(**({"m": 8, "k": 8, "n": 8} | changes))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: matrix_units("h100_sxm"),
            "H100.* is a GPU: its tensor cores are not documented as systolic",
        ),
        (lambda: matrix_units("mi300x"), "is a GPU"),
        (lambda: matrix_units("gaudi3"), "Gaudi 3 has no systolic array on record"),
        (lambda: matrix_units("trainium2"), "Trainium2 has no systolic array on record"),
        (lambda: matrix_units("tpu_v5"), "'tpu_v5'.*Did you mean 'tpu_v5"),
        (lambda: units(k=0), "k is 0, but must be a whole number of at least 1"),
        (lambda: units(units=5), "units is 5, but must be.*at most 4. TPU v5e has 4."),
        (lambda: units(dataflow="sw"), "Unknown dataflow 'sw'.*'ws'"),
    ],
)
def test_bad_input_gets_one_sentence(call: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call()


@pytest.mark.wrong_type
def test_wrong_types_and_keywords_get_one_sentence() -> None:
    with pytest.raises(TypeError, match="chip is 5, but must be a Chip"):
        matrix_units(5)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(TypeError, match=r"'unit'\. Did you mean 'units'"):
        units(unit=1)
    with pytest.raises(TypeError, match=r"'chp'\. Did you mean 'chip'"):
        matrix_units(chp="tpu_v4")  # type: ignore[call-arg]  # on purpose


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("own = -(-(tiles - unit) // shared)", "own = (tiles - unit) // shared"),
        ("own = -(-(tiles - unit) // shared)", "own = -(-tiles // shared)"),
        ("if (tiles - 1) % shared == unit else 0", "if unit == 0 else 0"),
        ("own * self.cols - cut", "own * self.cols"),
    ],
    ids=["a tile lost", "a tile twice", "the wrong unit's tile cut", "no tile cut"],
)
def test_a_fault_in_the_dealing_is_seen(before: str, after: str) -> None:
    source = textwrap.dedent(inspect.getsource(MatrixUnits.gemm))
    assert source.count(before) == 1
    faulty: dict[str, Any] = {}
    exec(source.replace(before, after), {**vars(sys.modules[MatrixUnits.__module__])}, faulty)
    found = faulty["gemm"](matrix_units("tpu_v5p"), m=8, k=8, n=1000, units=3)
    assert misdealt(found)
