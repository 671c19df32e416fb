"""The energy of a product: from published figures only, as ranges, unknown where there is none."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsewarp import chips, ledger, systolic
from pulsewarp.chips import EnergyFact
from pulsewarp.ledger import by_level, energies

SIZE = st.integers(1, 300)
SIDE = st.integers(1, 128)
PICO = 1e-12


def books(
    m: int = 16, k: int = 8, n: int = 8, side: int = 8, dtype: str = "int8", **options: Any
) -> ledger.EnergyLedger:
    cost = systolic.gemm(m=m, k=k, n=n, rows=side, cols=side, dataflow=options.pop("dataflow", "ws"))
    return ledger.energy(ledger.levels(cost, dtype), **options)


def check_by_hand() -> None:
    """Hold one product to figures taken from the tables by hand.

    16 x 8 by 8 x 8 in int8 on 8 x 8 cells: 1,024 multiply-adds of 0.2 + 0.1 pJ. SRAM: 128 + 64 bytes come
    from HBM and go into the array, 128 sums of 4 bytes leave the array and the SRAM: 2 * (192 + 512) bytes,
    each a quarter of 5 pJ (8 KB) to a quarter of 50 pJ (1 MB). HBM: 192 + 512 bytes, from an eighth of 250
    pJ to an eighth of 450 pJ; DDR from a quarter of 640 pJ to an eighth of 1,300 pJ.
    """
    found = books()
    expected = {
        "macs": (1024 * 0.3, 1024 * 0.3),
        "vmem": (1408 * 5 / 4, 1408 * 50 / 4),
        "hbm": (704 * 250 / 8, 704 * 450 / 8),
    }
    for part, (low, high) in expected.items():
        assert found.part(part).low == pytest.approx(low * PICO)
        assert found.part(part).high == pytest.approx(high * PICO)
    assert (found.low, found.high) == (
        pytest.approx(sum(low for low, _ in expected.values()) * PICO),
        pytest.approx(sum(high for _, high in expected.values()) * PICO),
    )
    # The least share: its own low end beside the high ends of the others; the most, the reverse.
    assert found.share("hbm") == pytest.approx(
        (22000 / (22000 + 307.2 + 17600), 39600 / (39600 + 307.2 + 1760))
    )
    ddr = books(memory="ddr").part("hbm")
    assert (ddr.low, ddr.high) == (pytest.approx(704 * 160 * PICO), pytest.approx(704 * 162.5 * PICO))
    # Without reuse each of the 1,024 multiply-adds fetches two bytes; the array fetches 128 + 64 in all.
    reuse = found.reuse
    assert (reuse.fetches_without, reuse.fetches_with) == (2048, 192)
    assert reuse.joules_without == pytest.approx((2048 * 1.25 * PICO, 2048 * 12.5 * PICO))
    assert reuse.joules_with == pytest.approx((192 * 1.25 * PICO, 192 * 12.5 * PICO))
    assert reuse.total_ratio == pytest.approx(
        ((307.2 + 2560) / (307.2 + 240), (307.2 + 25600) / (307.2 + 2400))
    )


def test_a_product_priced_by_hand() -> None:
    check_by_hand()


def word_for_byte(fact: EnergyFact) -> tuple[float, float]:
    assert fact.low is not None
    return fact.low, fact.high  # an access of a word, taken for one of a byte


def bit_for_byte(fact: EnergyFact) -> tuple[float, float]:
    low, high = EnergyFact.joules_per_byte.fget(fact)  # type: ignore[attr-defined]  # a property has one
    return low / 8, high / 8


@pytest.mark.parametrize("fault", [word_for_byte, bit_for_byte])
def test_a_byte_taken_for_a_word_or_a_bit_is_seen(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        energies,
        "_joules_per_byte",
        lambda facts: (min(fault(fact)[0] for fact in facts), max(fault(fact)[1] for fact in facts)),
    )
    with pytest.raises(AssertionError):
        check_by_hand()


@pytest.mark.parametrize("part", ["entered twice", "addition left out", "the dearest only"])
def test_other_planted_faults_are_seen(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if part == "entered twice":
        counts = by_level._closed_form
        monkeypatch.setattr(
            by_level,
            "_closed_form",
            lambda cost: dataclasses.replace(
                counts(cost), read={letter: 2 * read for letter, read in counts(cost).read.items()}
            ),
        )
    elif part == "addition left out":
        priced = energies._of_macs
        monkeypatch.setattr(
            energies,
            "_of_macs",
            lambda work, facts, node: dataclasses.replace(
                priced(work, facts, node), low=work.macs * 0.2e-12, high=work.macs * 0.2e-12
            ),
        )
    else:
        rate = energies._joules_per_byte
        monkeypatch.setattr(energies, "_joules_per_byte", lambda facts: (rate(facts)[1], rate(facts)[1]))
    with pytest.raises(AssertionError):
        check_by_hand()


@given(SIZE, SIZE, SIZE, SIDE, st.sampled_from(["ws", "os", "is"]), st.sampled_from(["int8", "fp16", "fp32"]))
def test_shares_and_sums_are_those_of_the_parts(
    m: int, k: int, n: int, side: int, dataflow: str, dtype: str
) -> None:
    found = books(m, k, n, side, dtype, dataflow=dataflow)
    assert found.unknown == ("registers",)
    known = [part for part in found.parts if part.low is not None]
    for part in known:
        assert part.low is not None and part.high is not None
        assert 0 < part.low <= part.high
        share = found.share(part.part)
        assert share is not None
        least, most = share
        assert 0 < least <= most < 1
        for share_alike in (part.low / found.low, part.high / found.high):
            assert least * (1 - 1e-9) <= share_alike <= most * (1 + 1e-9)
    assert found.low == pytest.approx(sum(part.low for part in known if part.low is not None))
    reuse = found.reuse
    # Each operand that enters is used in at least one multiply-add, two of them to each.
    assert reuse.ratio >= 1
    assert reuse.joules_without is not None and reuse.joules_with is not None
    for without, with_it in zip(reuse.joules_without, reuse.joules_with, strict=True):
        assert without / with_it == pytest.approx(reuse.ratio)
    assert reuse.total_ratio is not None
    low, high = reuse.total_ratio
    assert 1 <= low <= high + 1e-9 and high <= reuse.ratio + 1e-9


@given(SIZE, SIZE, SIZE)
def test_a_full_array_uses_an_operand_as_often_as_it_has_cells_on_a_side(m: int, k: int, n: int) -> None:
    """What stays is used once a step of the stream; what moves right once in each column in use."""
    found = books(m, k, n, 16).reuse
    reads = m * k * -(-n // 16) + k * n
    assert found.ratio == pytest.approx(2 * m * k * n / reads)


def test_a_part_without_a_figure_stays_unknown() -> None:
    bf16 = books(dtype="bf16")
    assert bf16.unknown == ("macs", "registers")
    assert bf16.part("macs").missing == "bf16 multiply at 45 nm"
    assert bf16.part("macs").low is None and bf16.share("macs") is None
    assert bf16.share("vmem") is None  # a share of what is not known is not known
    assert bf16.reuse.total_ratio is None and bf16.reuse.joules_with is not None
    seven = books(dtype="fp32", process_node="7 nm")
    assert seven.unknown == ("macs", "registers", "vmem")
    assert seven.part("macs").missing == "fp32 add at 7 nm"  # the multiplication alone is known there
    assert seven.reuse.joules_with is None and seven.reuse.ratio == books().reuse.ratio
    for part in (bf16.part("macs"), *seven.parts[:3]):
        assert "unknown, no published figure in the catalogue for" in str(part)
        assert (part.low, part.high, part.facts) == (None, None, ())


def test_every_number_has_its_source_and_its_process_node() -> None:
    found = books()
    assert [fact.item for fact in found.part("macs").facts] == ["int8 multiply", "int32 add"]
    assert len(found.part("vmem").facts) == 3 and len(found.part("hbm").facts) == 3
    for part in found.parts:
        for fact in part.facts:
            assert fact.source.address and fact.source.date
    assert found.part("macs").nodes == found.part("vmem").nodes == ("45 nm",)
    assert found.part("hbm").nodes == ("7 nm", "node not stated")
    assert books(memory="ddr").part("hbm").nodes == ("45 nm", "45 nm and 7 nm")


def test_a_process_node_is_one_at_which_arithmetic_was_published() -> None:
    with pytest.raises(ValueError, match=r"Unknown process_node '28 nm'; use one of 45 nm, 7 nm\. "):
        books(process_node="28 nm")


def test_it_is_never_a_chips_power() -> None:
    """Nothing measured on a chip goes in, nothing in watts comes out, and it says so."""
    found = books()
    for part in found.parts:
        for fact in part.facts:
            assert fact.chip_id is None and fact.unit in ("J/op", "J/access", "J/bit")
    names = {field.name for field in dataclasses.fields(found)} | set(dir(found))
    assert not [name for name in names if "watt" in name or "power" in name]
    assert repr(found).endswith("from figures for single operations, not a chip's power)")
    assert "never a chip's power" in " ".join((ledger.energy.__doc__ or "").split())
    assert "not a chip's power" in (ledger.EnergyLedger.__doc__ or "")


def test_energy_knows_no_time() -> None:
    """An array that waits longer takes nothing more here: leakage and clock are in no figure."""
    sizes = {"m": 64, "k": 64, "n": 64, "rows": 16, "cols": 16}
    slow, fast = (ledger.levels(systolic.gemm(**sizes, overlap=overlap), "int8") for overlap in (False, True))
    assert slow.idle_cell_cycles > fast.idle_cell_cycles
    assert ledger.energy(slow).parts == ledger.energy(fast).parts


def test_the_ledger_says_what_it_holds() -> None:
    assert repr(books()) == (
        "EnergyLedger(ws, 8x8 cells, 16x8 by 8x8 in int8, 45 nm beside hbm2\n"
        "  macs: 307 pJ (45 nm)\n"
        "  registers: unknown, no published figure in the catalogue for a register of a cell\n"
        "  vmem: 1.76 nJ to 17.6 nJ (45 nm)\n"
        "  hbm: 22.0 nJ to 39.6 nJ (7 nm, node not stated)\n"
        "  together, without registers: 24.1 nJ to 57.5 nJ\n"
        "  from figures for single operations, not a chip's power)"
    )
    assert repr(books().reuse) == (
        "Reuse(2048 operand fetches from SRAM without it (2.56 nJ to 25.6 nJ), 192 with it (240 pJ to "
        "2.40 nJ): 10.7 times fewer)"
    )
    assert repr(books(process_node="7 nm").reuse) == (
        "Reuse(2048 operand fetches from SRAM without it, 192 with it: 10.7 times fewer)"
    )


def test_every_figure_of_a_memory_is_in_the_catalogue() -> None:
    for ids in ledger.MEMORIES.values():
        for fact_id in ids:
            low, high = chips.energy_fact(fact_id).joules_per_byte
            assert 1e-11 < low <= high < 1e-9
