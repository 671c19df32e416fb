from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsewarp import guide
from pulsewarp.guide import Workload


def workloads() -> st.SearchStrategy[Workload]:
    words = {name: st.sampled_from(words) for name, words in guide.VOCABULARY.items()}
    numbers = {
        "params_b": st.floats(1e-4, 2000),
        "chips": st.integers(0, 10_000),
        "seq_len": st.integers(1, 200_000),
        "model_type": st.text(max_size=8),
    }
    return st.fixed_dictionaries({}, optional={**words, **numbers}).map(lambda fields: _possible(fields))


def _possible(fields: dict[str, Any]) -> Workload:
    if fields.get("framework") == "cuda" and fields.get("custom_kernels") == "pallas":
        fields = {**fields, "custom_kernels": "cuda"}  # the one pair of words that contradict each other
    return Workload(**fields)


@given(workloads())
def test_a_workload_survives_json_and_its_own_repr(workload: Workload) -> None:
    assert Workload.from_dict(json.loads(json.dumps(workload.to_dict()))) == workload
    assert eval(repr(workload), {"Workload": Workload}) == workload


def test_every_public_scenario_is_said_in_the_vocabulary(scenarios: list[dict[str, Any]]) -> None:
    for scenario in scenarios:
        known = Workload.from_dict(scenario["workload"]).known()
        for name, value in scenario["workload"].items():
            assert value in (None, "any") or known[name] == value, (scenario["id"], name)


def test_nothing_given_is_a_workload_and_none_means_unknown() -> None:
    assert Workload().known() == {}
    assert Workload(params_b=None, phase=None) == Workload()


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"framework": "JAX"}, "Unknown framework 'JAX'.*Did you mean 'jax'"),
        ({"phase": "training"}, "Unknown phase 'training'.*Did you mean 'train'"),
        ({"params_b": -7}, "params_b is -7, but must be a finite number above 0"),
        ({"params_b": float("nan")}, "params_b is nan, but must be a finite"),
        ({"params_b": 7e9}, "params_b is 7000000000.0, more than 100000. It is in billions: write 7"),
        ({"chips": -1}, "chips is -1, but must be a whole number of at least 0"),
        ({"chips": 2.5}, "chips is 2.5, but must be a whole number"),
        ({"seq_len": 0}, "seq_len is 0, but must be a whole number of at least 1"),
        ({"params_b": 7, "active_params_b": 70}, "active_params_b is 70 but params_b is 7"),
        ({"usd_per_gpu_hour": 3}, "usd_per_gpu_hour is given without gpu_chip.*add gpu_chip='h100_sxm'"),
        ({"gpu_chip": "tpu_v5p"}, "Unknown gpu_chip 'tpu_v5p'"),
        ({"tpu_chip": "tpu_v5q"}, "Unknown tpu_chip 'tpu_v5q'.*Did you mean 'tpu_v5"),
        ({"phase": "inference", "tokens_b": 10}, "tokens_b counts training tokens"),
        ({"framework": "cuda", "custom_kernels": "pallas"}, "framework is 'cuda' but custom_kernels"),
        ({"model": "llama-3.1-71b"}, "Unknown model 'llama-3.1-71b'.*Did you mean 'llama-3.1-70b'"),
        (
            {"model": "llama-3.1-70b", "params_b": 8},
            "which has params_b 70.55, but params_b is 8; leave it out",
        ),
        ({"model": "mixtral-8x7b", "active_params_b": 40}, "which has active_params_b 12.88, but"),
        (
            {"model": "llama-3.1-8b", "layers": 80},
            "model is 'llama-3.1-8b', which has layers 32, but layers is 80",
        ),
        ({"model": "llama-3.1-8b", "experts": 8}, "which has no experts, but experts is 8"),
        ({"model": "vit-l-16", "domain": "llm"}, "whose domain is 'vision', but domain is 'llm'"),
        ({"heads": 10, "kv_heads": 4}, "heads is 10 but kv_heads is 4.*must be a multiple of kv_heads"),
        ({"experts": 4, "experts_per_token": 8}, "experts_per_token is 8 but experts is 4"),
        ({"layers": 80, "width": 8192, "params_b": 0.07}, "already has 5.37 billion parameters"),
        ({"seq_len": 100, "output_len": 200}, "output_len is 200 but seq_len is 100"),
        ({"layers": 0}, "layers is 0, but must be a whole number of at least 1"),
        ({"batch_size": 2.5}, "batch_size is 2.5, but must be a whole number"),
        ({"goodput": 90}, "goodput is 90, more than 1.*write 0.9 for 90 %"),
        ({"gpu_discount": 30}, "gpu_discount is 30, more than 0.99.*write 0.3"),
        ({"pue": 0.5}, "pue is 0.5, less than 1. It is the power of the whole building"),
        ({"token_ms": 0}, "token_ms is 0, but must be a finite number above 0"),
        ({"commitment_years": 2}, "commitment_years is 2, but commitments of 1 or 3 years"),
        ({"phase": "train", "served_tokens_b": 1}, "served_tokens_b counts output tokens"),
        ({"params_b": "70B"}, "params_b is '70B', but must be a finite number.*in billions: write 7 for"),
        ({"gpu_discount": "30%"}, "gpu_discount is '30%'.*write 0.3 for 30 %"),
        (
            {"phase": "train", "token_ms": 20},
            "token_ms is the time between two tokens of an answer, but phase",
        ),
        ({"phase": "finetune", "output_len": 9}, "output_len is the length of an answer, but phase is 'fine"),
        (
            {"batch": "one", "batch_size": 64},
            "batch is 'one', which is at most 1 at once, but batch_size is 64",
        ),
        (
            {"phase": "inference", "batch": "small", "batch_size": 33},
            "batch is 'small', which is at most 32 at once, but batch_size is 33",
        ),
        ({"batch_size": 64, "global_batch": 4}, "batch_size is 64 but global_batch is 4.*swap the two"),
        ({"latency": "none", "token_ms": 20}, "latency is 'none' but token_ms is 20: either somebody waits"),
    ],
)
def test_bad_fields_get_one_sentence(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as raised:
        Workload(**fields)
    assert "\n" not in str(raised.value)


def test_a_name_that_rounds_is_no_contradiction() -> None:
    Workload(model="llama-3.1-70b", params_b=70, layers=80, domain="llm")
    Workload(model="gpt-oss-120b", params_b=117, active_params_b=5.1)
    Workload(model="qwen3-30b-a3b", params_b=30, active_params_b=3)
    Workload(port_weeks=0, egress_tb=0, gpu_lead_weeks=0, commitment_years=0, tpu_discount=0)
    Workload(phase="inference", batch="small", batch_size=32, latency="relaxed", token_ms=20)
    Workload(phase="train", batch="small", batch_size=33, global_batch=33)  # held at one time, not served
    Workload(phase="train_and_inference", output_len=100, token_ms=50)


@given(workloads())
def test_a_changed_copy_is_what_the_fields_together_make(workload: Workload) -> None:
    change = {"params_b": 3, "seq_len": None, "latency": "none"}
    assert workload.change(**change) == Workload(**{**workload.known(), **change})
    assert list(workload.change(chips=8).known()) == list(
        Workload(**{**workload.known(), "chips": 8}).known()
    )


def test_a_changed_copy_is_checked() -> None:
    with pytest.raises(ValueError, match="heads is 10 but kv_heads is 4"):
        Workload(kv_heads=4).change(heads=10)
    with pytest.raises(ValueError, match="params_b is -1"):
        Workload().change(params_b=-1)


def test_an_unknown_keyword_names_the_nearest() -> None:
    with pytest.raises(TypeError, match=r"does not know the keyword 'param_b'\. Did you mean 'params_b'"):
        Workload(param_b=7)
    with pytest.raises(TypeError, match="'batchsize'"):
        Workload().change(batchsize="one")


def test_a_workload_of_another_form_is_refused() -> None:
    with pytest.raises(ValueError, match="'pulsewarp-measurements/1', not 'pulsewarp-workload/1'"):
        Workload.from_dict({"form": "pulsewarp-measurements/1"})


@pytest.mark.wrong_type
def test_values_of_the_wrong_type_get_a_sentence() -> None:
    with pytest.raises(ValueError, match="A workload is a mapping of fields to values, not a list"):
        Workload.from_dict([])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="chips is True"):
        Workload(chips=True)
    with pytest.raises(ValueError, match="model_type is 7, but must be text"):
        Workload(model_type=7)


def test_files_may_leave_the_form_out_but_must_be_json(tmp_path: Path) -> None:
    path = tmp_path / "workload.json"
    path.write_text('{"phase": "train"}', encoding="utf-8")
    assert Workload.load(path) == Workload(phase="train")
    path.write_text('{"phase": "tra', encoding="utf-8")
    with pytest.raises(ValueError, match="not valid JSON"):
        Workload.load(path)
    path.write_text("[1]", encoding="utf-8")
    with pytest.raises(ValueError, match="holds 'list', not 'pulsewarp-workload/1'"):
        Workload.load(path)


# --- YAML ------------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(workloads())
def test_yaml_says_what_json_says(tmp_path_factory: pytest.TempPathFactory, workload: Workload) -> None:
    folder = tmp_path_factory.mktemp("said")
    workload = workload.change(
        model_type=None
    )  # JSON writes rare characters as pairs that YAML does not join
    for name in ("workload.json", "workload.yaml"):  # JSON is YAML
        (folder / name).write_text(json.dumps(workload.to_dict()), encoding="utf-8")
        assert Workload.load(folder / name) == workload


def test_yaml_as_a_person_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.YML"
    path.write_text(
        """\ufeff# which chip?
phase: train
model: "llama-3.1-70b"   # a card
params_b: 70
tokens_b: 1.5e4
chips: 1_024
precision: ~
date: 2026-12-01
model_type: no
""",
        encoding="utf-8",
    )
    assert Workload.load(path) == Workload(
        phase="train",
        model="llama-3.1-70b",
        params_b=70,
        tokens_b=15_000,
        chips=1024,
        date="2026-12-01",
        model_type="no",
    )


@pytest.mark.parametrize(
    ("text", "error", "sentence"),
    [
        (
            "phase: train\nmodle: x\n",
            TypeError,
            "line 2: Workload does not know .*'modle'. Did you mean 'model'",
        ),
        ("\n\nphase: training", ValueError, "line 3: Unknown phase 'training'.*Did you mean 'train'"),
        ("phase: no", ValueError, "line 1: Unknown phase 'no'"),
        ("chips: yes", ValueError, "line 1: chips is 'yes', but must be a whole number"),
        ("layers: 80\nheads: 10\nkv_heads: 3", ValueError, "w.yaml: heads is 10 but kv_heads is 3"),
        ("phase: train\nphase: other", ValueError, "line 2: 'phase' is given twice, first on line 1"),
        ("phase: [train]", ValueError, "line 1: the value of a field is a list, but must be one word"),
        ("? [a]\n: 3", ValueError, "line 1: a name is a list"),
        ("phase: *x", ValueError, "line 1, column 8 is not valid YAML: found undefined alias"),
        ("phase: train\n\tlayers: 3", ValueError, "line 2, column 1 is not valid YAML"),
        ("a: 1\n---\nb: 2", ValueError, "line 2, column 1 is not valid YAML: found another document"),
        (
            "- train",
            ValueError,
            "w.yaml holds a list, but must hold fields, one a line, such as 'phase: train'",
        ),
        ("just words", ValueError, "w.yaml holds a single word"),
        ("", ValueError, "w.yaml holds nothing"),
        ("[" * 1000, ValueError, "nested too deeply"),
        ("a\x01: 3", ValueError, "is not valid YAML: special characters are not allowed"),
        (
            "form: pulsewarp-measurements/2",
            ValueError,
            "'pulsewarp-measurements/2', not 'pulsewarp-workload/1'",
        ),
        ('phase: !!python/object/apply:os.system ["true"]', ValueError, "is a list"),
    ],
)
def test_nonsense_in_yaml_is_one_sentence_with_file_and_line(
    tmp_path: Path, text: str, error: type[Exception], sentence: str
) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(error, match=sentence) as raised:
        Workload.load(path)
    assert str(path) in str(raised.value) and "\n" not in str(raised.value)


def test_what_json_holds_wrongly_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    path.write_text('{"phase": "training"}', encoding="utf-8")
    with pytest.raises(ValueError, match=r"w\.json: Unknown phase 'training'"):
        Workload.load(path)
    path.write_text('{"chips": 8, "chips": 9}', encoding="utf-8")
    with pytest.raises(ValueError, match=r"w\.json: 'chips' is given twice; keep one"):
        Workload.load(path)
    path.write_text('{"usd_per_gpu_hour": 3}', encoding="utf-8")
    with pytest.raises(ValueError, match=r"w\.json: usd_per_gpu_hour is given without gpu_chip"):
        Workload.load(path)


def test_without_pyyaml_the_remedy_is_said_and_json_still_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    for name in ("w.yaml", "w.json"):
        (tmp_path / name).write_text('{"phase": "train"}', encoding="utf-8")
    with pytest.raises(
        ImportError, match=r"needs the package PyYAML; run 'pip install pyyaml', or write .* JSON"
    ):
        Workload.load(tmp_path / "w.yaml")
    assert Workload.load(tmp_path / "w.json") == Workload(phase="train")


def test_binary_and_missing_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="not a text file; expected YAML"):
        Workload.load(tmp_path / "w.yaml")
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(IsADirectoryError, match="is a folder; name a file in it"):
        Workload.load(tmp_path / "folder.yaml")
    with pytest.raises(FileNotFoundError):
        Workload.load(tmp_path / "none.yaml")


def test_nothing_but_the_fields_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "someone" / "w.yaml"
    path.parent.mkdir()
    path.write_text("# by someone\nphase: train\n", encoding="utf-8")
    workload = Workload.load(path)
    assert set(vars(workload)) == {field.name for field in dataclasses.fields(Workload)}
    assert "someone" not in repr(vars(workload))
