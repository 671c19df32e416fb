from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
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
    ],
)
def test_bad_fields_get_one_sentence(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as raised:
        Workload(**fields)
    assert "\n" not in str(raised.value)


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
