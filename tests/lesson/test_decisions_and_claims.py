"""Decisions are asked before they are told; claims compute what they say."""

from __future__ import annotations

import pytest

from pulsewarp import chips, guide, lesson, roofline
from pulsewarp.lesson import claims, prediction

NAMES = ("power", "large_batches", "flexible", "pilot")


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "_given", {})
    monkeypatch.delenv("PULSEWARP_SKIP", raising=False)


@pytest.mark.parametrize("each", lesson.decisions(), ids=lambda each: each.name)
def test_a_decision_is_asked_before_it_is_told(each: lesson.Decision) -> None:
    question = each.ask()
    assert not question.asked and question.outcome == {}
    assert each.address not in str(question.get_state())
    assert lesson.reveal(question) == each.outcome
    told = question.outcome["explanation"]
    assert each.address in told and each.why in told and each.contested in told
    assert (each.advice.summary in told) and ("one of its misses" in told) == (
        each.outcome != each.advice.verdict
    )


def test_the_decisions_lead_to_every_verdict_and_hold_a_miss_of_the_guide() -> None:
    assert {each.outcome for each in lesson.decisions()} == set(guide.VERDICTS)
    assert [each.name for each in lesson.decisions() if each.outcome != each.advice.verdict] == [
        "usb_accelerator"
    ]
    assert all(each.address.startswith("https://") and each.date for each in lesson.decisions())


@pytest.mark.parametrize("name", NAMES)
def test_a_claim_has_a_table_a_finding_and_dated_sources(name: str) -> None:
    claim = lesson.claim(name)
    assert claim.rows and all(len(row) == len(claim.head) for row in claim.rows)
    assert claim.sources and all(source.date and source.title for source in claim.sources)
    assert claim.finding in str(claim) and lesson.reveal(claim.ask()) == claim.answer
    page = claim._repr_html_()
    assert all(source.title.split(",")[0].split("'")[0] in page for source in claim.sources)


def test_the_power_claim_ends_where_published_power_ends() -> None:
    known = [
        c for c in chips.catalogue() if c.family == "tpu" and (c.tdp_watts or c.measured_power_mean_watts)
    ]
    claim = lesson.claim("power")
    assert claim.answer == max(chip.year or 0 for chip in known)
    assert not any(row[0] > str(claim.answer) and row[1].startswith("TPU") for row in claim.rows)
    assert {row[2] for row in claim.rows if row[1] == "TPU v4"} == {"measured mean"}, "no design power seen"


def test_the_batch_claim_is_the_ridge_of_each_chip(monkeypatch: pytest.MonkeyPatch) -> None:
    claim = lesson.claim("large_batches")
    rows = {row[1]: int(row[2]) for row in claim.rows}
    assert rows["H100 SXM5 80GB"] == round(roofline.ridge_point(chips.get("h100_sxm"), "bf16"))
    assert max(claim.choices, key=rows.__getitem__) == claim.answer
    monkeypatch.setattr(claims.roofline, "ridge_point", lambda chip, _: 1e3 if chip.id == "b200" else 1.0)
    assert lesson.claim("large_batches").answer == chips.get("b200").name, "computed, not written down"


def test_the_flexibility_claim_counts_the_guides_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    claim = lesson.claim("flexible")
    assert len(claim.rows) == sum(gate.blocks == ("tpu",) for gate in guide.GATES)
    assert claim.answer == sum(gate.blocks == ("gpu",) for gate in guide.GATES)
    monkeypatch.setattr(claims.guide, "GATES", guide.GATES[:6])
    assert len(lesson.claim("flexible").rows) == 1


def test_the_pilot_claim_is_the_table_of_errors() -> None:
    assert lesson.claim("pilot").answer == guide.errors_table("training").errors.typical
