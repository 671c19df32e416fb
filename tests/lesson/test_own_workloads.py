"""The form for one's own workload: every field is asked, what is typed is read, a refusal names its field."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest

from pulsewarp import guide, lesson
from pulsewarp.lesson import own_workloads

RESEARCH = guide.Workload(phase="research", framework="pytorch", custom_kernels="triton", chips=8)


def asked(form: lesson.OwnWorkload) -> dict[str, str]:
    return {field["name"]: field["value"] for group in form.groups for field in group["fields"]}


def ask(form: lesson.OwnWorkload, **values: str) -> dict[str, object]:
    form.request = {"id": "1", "kind": "advise", "values": values}
    return dict(form.reply)


def test_every_field_of_a_workload_that_a_rule_reads_is_asked_once() -> None:
    names = [field["name"] for group in lesson.own_workload().groups for field in group["fields"]]
    assert sorted(names) == sorted({f.name for f in fields(guide.Workload)} - {*own_workloads.LEFT_OUT})
    assert [group["open"] for group in lesson.own_workload().groups].count(True) == 1


def test_a_field_that_is_new_is_asked_without_a_label_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_workloads, "_GROUPS", {"First": {"domain": "Domain"}})
    assert "port_weeks" in asked(lesson.own_workload())


@pytest.mark.parametrize("workload", [RESEARCH, *own_workloads.EXAMPLES.values()], ids=repr)
def test_a_workload_goes_through_the_fields_and_back(workload: guide.Workload) -> None:
    texts = own_workloads._texts(workload)
    assert own_workloads.read(texts) == workload
    groups = own_workloads._groups(texts)
    values = {field["name"]: field["value"] for group in groups for field in group["fields"]}
    assert own_workloads.read(values) == workload
    for group in groups:  # what is shown can be chosen
        for field in group["fields"]:
            if field["kind"] == "choice":
                assert field["value"] in [value for value, _ in field["choices"]]


def test_what_is_asked_is_what_the_guide_says() -> None:
    form = lesson.own_workload()
    assert form.report == {} and form.advice is None
    reply = ask(
        form, phase="research", framework="pytorch", custom_kernels="triton", chips=" 8 ", params_b=""
    )
    advice = guide.advise(RESEARCH)
    assert form.workload == RESEARCH and form.advice is not None
    report = reply["report"]
    assert isinstance(report, dict)
    assert (report["verdict"], f"{report['headline']} {report['because']}") == (
        advice.verdict,
        advice.summary,
    )
    assert [reason["text"] for reason in report["reasons"]] == [reason.text for reason in advice.reasons]
    assert report["yaml"].splitlines()[1:] == [
        f"{name}: {json.dumps(value)}" for name, value in RESEARCH.known().items()
    ]
    namespace: dict[str, object] = {}
    exec(report["python"].replace("guide.advise(", "again = ("), namespace)  # what is copied runs
    assert namespace["again"] == RESEARCH


@pytest.mark.parametrize(
    ("values", "field", "words"),
    [
        ({"params_b": "seven"}, "params_b", "'seven'"),
        ({"params_b": "7e9"}, "params_b", "billions"),
        ({"chips": "-1"}, "chips", "-1"),
        ({"chips": "1.5"}, "chips", "1.5"),
        ({"framework": "jaxx"}, "framework", "Did you mean 'jax'"),
        ({"params_b": "7", "active_params_b": "8"}, "active_params_b", "swap the two"),
        ({"usd_per_gpu_hour": "3"}, "usd_per_gpu_hour", "gpu_chip"),
        ({"phase": "inference", "tokens_b": "3"}, "tokens_b", "phase"),
        ({"model": "llama-3.1-70b", "params_b": "8"}, "model", "params_b"),
        ({"params": "7"}, "params", "params_b"),
    ],
)
def test_what_is_refused_is_said_at_its_field(values: dict[str, str], field: str, words: str) -> None:
    form = lesson.own_workload(RESEARCH)
    reply = ask(form, **values)
    assert reply["field"] == field and words in str(reply["error"]) and "report" not in reply
    assert form.workload == RESEARCH, "what was asked before stays"


def test_what_is_typed_is_in_no_page_and_no_repr() -> None:
    form = lesson.own_workload()
    ask(form, params_b="1234.5")
    assert "1234.5" not in form.to_html() and "1234.5" not in repr(form)


def test_a_page_has_every_example_worked_out() -> None:
    examples = lesson.own_workload()._page_state()["examples"]
    assert [each["report"]["verdict"] for each in examples] == [
        guide.advise(workload).verdict for workload in own_workloads.EXAMPLES.values()
    ]
    assert {each["report"]["verdict"] for each in examples} >= {"gpu", "tpu", "neither"}
    assert all("report" not in each for each in lesson.own_workload().examples), "none before it is needed"
