"""The pilot: generated from workload and verdict, with commands that parse and files that can be taken."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess

import pytest

from pulsewarp import chips, guide
from pulsewarp.cli import _build_parser
from pulsewarp.guide import Workload
from pulsewarp.guide.machines import MACHINES, Machine
from pulsewarp.guide.pilot import REPEATS, TIMED_STEPS, WARM_UP_STEPS, pilot_chip_hours, plan_pilot
from pulsewarp.guide.pilot_files import as_gcloud, as_terraform

TRAINING = Workload(domain="llm", phase="train", params_b=70, framework="jax", chips=512, tokens_b=2000)
PAIRS = [(MACHINES["tpu_v5e"],), (MACHINES["tpu_v6e"], MACHINES["h100_sxm"]), (MACHINES["tpu_v7"],)]
both = pytest.mark.parametrize("rented", PAIRS, ids=lambda rented: "-".join(m.chip_id for m in rented))


def pilot(**fields: object) -> guide.Pilot:
    return guide.advise(TRAINING.change(**fields)).pilot


def braces_match(text: str) -> bool:
    """Whether every brace, bracket and quote outside comments closes."""
    bare = re.sub(r"(?m)^\s*#.*$", "", text)
    bare = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', bare)
    depth: list[str] = []
    for mark in re.findall(r"[{}\[\]()\"]", bare.replace('""', "")):
        if mark in "{[(":
            depth.append(mark)
        elif mark == '"' or not depth or depth.pop() + mark not in ("{}", "[]", "()"):
            return False
    return not depth


def test_the_days_are_those_of_the_procedure() -> None:
    days = {day.name: day for day in pilot().days}
    assert list(days) == ["Paper day", "One chip", "One host", "Real input", "Scale", "Feed back"]
    for number in (WARM_UP_STEPS, TIMED_STEPS, REPEATS):
        assert str(number) in days["One host"].does
    assert all(day.stop_if for day in days.values())
    assert pilot().steps[0].startswith("Paper day: ")


def test_each_open_side_is_rented_and_a_ruled_out_one_is_not() -> None:
    assert [chips.get(m.chip_id).family for m in pilot().machines] == ["tpu", "gpu"]
    only_gpu = pilot(custom_kernels="triton", framework="any")
    assert [chips.get(m.chip_id).family for m in only_gpu.machines] == ["gpu"]
    assert "tpu" not in only_gpu.gcloud() and "tpu" not in only_gpu.terraform().replace("http", "")
    assert not re.search(r"\btpu", " ".join(command.text for command in only_gpu.commands))


def test_a_verdict_for_a_side_is_held_to_what_is_expected_of_that_side() -> None:
    """Where the verdict is a side, the pilot asks whether it keeps its promise, not which side is cheaper."""
    for verdict, family in (("gpu", "gpu"), ("tpu", "tpu")):
        planned = plan_pilot(TRAINING, verdict, guide.compare(TRAINING))
        assert [chips.get(m.chip_id).family for m in planned.machines] == [family]
        assert f"run on a {family.upper()} as well as published numbers promise" in planned.question
        assert "band's upper edge" in planned.stop_ratio and "TPU or a GPU" not in planned.question
    unknown = plan_pilot(Workload(domain="vision", phase="train"), "gpu", guide.compare(Workload()))
    assert "as well as you need it to" in unknown.question and "budget" in unknown.stop_ratio


@pytest.mark.parametrize("location", ["colab", "kaggle", "own_machine", "on_prem", "donated_tpu"])
def test_where_nothing_is_rented_nothing_speaks_of_rent(location: str) -> None:
    planned = pilot(location=location)
    names = [day.name for day in planned.days]
    assert "Scale" not in names and ("All of it" in names) == (location not in ("colab", "kaggle"))
    said = " ".join((planned.question, planned.metric, planned.stop_ratio, *planned.steps, *planned.watch))
    for word in ("US dollars", "quotes", "Budget", "Preemption", "preemption"):
        assert word not in said, word


def test_a_device_in_the_field_has_a_pilot_of_its_own() -> None:
    camera = Workload(
        domain="vision", phase="inference", precision="int8", location="edge_device", batch="one"
    )
    planned = guide.advise(camera.change(non_matrix_kind="none", params_b=0.003)).pilot
    said = " ".join(planned.steps)
    assert "Quantise" in said and "prefill" not in said and "bench" not in said and not planned.machines


def test_a_model_that_one_host_does_not_hold_is_told_apart() -> None:
    large, small = (pilot(params_b=billions).remarks for billions in (70, 1))
    assert any("layers as fit" in text for text in large)
    assert not any("layers as fit" in text for text in small)
    served = guide.advise(Workload(domain="vision", phase="inference", framework="jax")).pilot
    assert "prefill" not in " ".join(served.steps)


def test_the_chip_is_the_one_that_the_workload_names() -> None:
    for chip_id in ("tpu_v5e", "tpu_v5p", "tpu_v7", "h200_sxm", "a100_sxm_80"):
        asked = TRAINING.change(**{f"{chips.get(chip_id).family}_chip": chip_id})
        rented = plan_pilot(asked, "either", guide.compare(asked)).machines
        assert chip_id in [machine.chip_id for machine in rented] and len(rented) == 2


def test_a_chip_without_a_machine_type_is_replaced_and_told() -> None:
    planned = pilot(gpu_chip="mi300x")
    assert planned.machines[1].chip_id == "h100_sxm"
    assert any("No machine type was read for" in remark for remark in planned.remarks)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"location": "own_machine"}, "location 'own_machine'"),
        ({"params_b": 0.0001, "batch": "one"}, "neither"),
    ],
)
def test_where_nothing_is_rented_the_files_say_why(fields: dict[str, object], sentence: str) -> None:
    planned = pilot(**fields)
    assert planned.machines == () and planned.cost_usd is None
    for write in (planned.gcloud, planned.terraform):
        with pytest.raises(ValueError, match=sentence):
            write()


def test_the_cost_is_hours_times_price() -> None:
    advice = guide.advise(TRAINING)
    prices = {e.chip_id: e.usd_per_chip_hour for e in advice.estimates}
    assert advice.pilot.cost_usd is not None
    for edge in ("low", "value", "high"):
        parts = [getattr(prices[m.chip_id], edge) * pilot_chip_hours(m) for m in advice.pilot.machines]
        assert getattr(advice.pilot.cost_usd, edge) == pytest.approx(sum(parts))
    assert str(100 * -(-round(advice.pilot.cost_usd.high) // 100)) in advice.pilot.gcloud()


def test_where_nothing_was_compared_the_cost_comes_from_the_price_list_and_no_token_rate_is_asked_for() -> (
    None
):
    painted = guide.advise(Workload(domain="diffusion", phase="train", framework="pytorch", chips=64)).pilot
    usd = sorted(row.usd_per_chip_hour for row in chips.prices("h100_sxm") if row.kind == "on-demand")
    assert [m.chip_id for m in painted.machines] == ["h100_sxm"] and painted.cost_usd is not None
    hour = painted.cost_usd.value / pilot_chip_hours(MACHINES["h100_sxm"])
    assert usd[0] < hour < usd[-1]
    assert not any("--own-run" in command.text for command in painted.commands)
    assert "port" not in painted.metric and "port" in pilot().metric
    assert "results an hour" in painted.steps[-1] and "results an hour" not in pilot().steps[-1]


def test_our_own_commands_are_ones_that_the_command_line_knows() -> None:
    """A typo in an option of a pilot's command turns this red; so does an option that goes away."""
    own = [c.text for c in pilot().commands if c.text.startswith("pulsewarp ")]
    assert any("bench" in text for text in own) and any("--measured" in text for text in own)
    for text in own:
        _build_parser().parse_all(shlex.split(text)[1:])


@pytest.mark.parametrize("tpu_chip", ["tpu_v5e", "tpu_v6e", "tpu_v7"])
def test_the_days_name_every_step_of_the_script_and_no_other_in_an_order_that_works(tpu_chip: str) -> None:
    asked = TRAINING.change(tpu_chip=tpu_chip)
    planned = plan_pilot(asked, "either", guide.compare(asked))
    typed = " ; ".join(command.text for command in planned.commands)
    steps = re.findall(r"bash pilot\.sh ([a-z-]+)", typed)
    known = set(re.findall(r"^  ([a-z-]+)\)$", planned.gcloud(), re.MULTILINE))
    assert set(steps) | {"gpu-preempt"} == known | {"gpu-preempt"}  # one preemption is enough
    up: set[str] = set()
    for step in steps:
        side, _, what = step.partition("-")
        if what == "down":
            up -= {name for name in up if name.startswith(side)}
        elif what == "cluster":
            up.add(step)
        elif what in ("chip", "host"):
            through_gke = f"{side}-cluster" in known
            assert (f"{side}-cluster" in up) == through_gke, f"{step} has no cluster"
            assert through_gke or side not in up, f"{step} asks for a name that is taken"
            up.add(f"{side}-{what}" if through_gke else side)
    assert not up, f"{up} are paid for when the pilot is over"


@both
def test_the_script_is_bash(rented: tuple[Machine, ...]) -> None:
    script = as_gcloud(rented, 5000)
    for text, status in ((script, 0), (script.replace("esac", ""), 2)):
        assert subprocess.run(["bash", "-n"], input=text, text=True, check=False).returncode == status
    for machine in rented:
        assert f"--machine-type={machine.host}" in script
    # Every way of renting ends by itself, and none goes through the legacy interface.
    assert script.count("create") and "compute tpus" not in script
    for block in re.findall(
        r"gcloud (?:compute instances|container node-pools) create.*?;;", script, re.DOTALL
    ):
        assert "--max-run-duration=" in block


@both
def test_the_script_without_its_settings_says_which_one_is_missing(rented: tuple[Machine, ...]) -> None:
    done = subprocess.run(
        ["bash", "-s", "budget"],
        input=as_gcloud(rented, None),
        text=True,
        capture_output=True,
        check=False,
        env={},
    )
    assert done.returncode != 0 and "PROJECT: set it to" in done.stderr


@both
def test_the_terraform_file_has_the_shape_of_one(rented: tuple[Machine, ...]) -> None:
    text = as_terraform(rented, 5000)
    assert braces_match(text) and not braces_match(text.rstrip().removesuffix("}"))
    used, declared = (set(re.findall(p, text)) for p in (r"var\.(\w+)", r'variable "(\w+)"'))
    assert used == declared
    assert 'resource "google_billing_budget"' in text
    for machine in rented:
        assert f'"{machine.host}"' in text
    assert text.count("max_run_duration") == len(rented)
    if shutil.which("terraform"):  # the real formatter parses it; where it is missing the shape above stands
        done = subprocess.run(
            ["terraform", "fmt", "-"], input=text, text=True, capture_output=True, check=False
        )
        assert done.returncode == 0 and done.stdout.strip() == text.strip()


@pytest.mark.parametrize("machine", MACHINES.values(), ids=lambda machine: machine.chip_id)
def test_each_machine_is_of_a_chip_that_can_be_had_and_says_where_it_was_read(machine: Machine) -> None:
    chip = chips.get(machine.chip_id)
    assert chip.status.startswith("available") and chip.caveat is None
    assert machine.source.address.startswith("https://") and machine.source.date
    # The count of chips stands in the name itself: ...-4t, ...-8g.
    for name, count in ((machine.smallest, machine.smallest_chips), (machine.host, machine.host_chips)):
        assert int(re.search(r"(\d+)[tg]$", name)[1]) == count  # type: ignore[index]
    assert (machine.route == "gke") == (machine.chip_id == "tpu_v5e")
