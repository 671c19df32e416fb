"""The files of a pilot that a reader can take: a shell script for gcloud, and a Terraform file."""

from __future__ import annotations

from collections.abc import Iterable

from pulsewarp import chips
from pulsewarp.chips import Source
from pulsewarp.guide import machines
from pulsewarp.guide.machines import IMAGE_PROJECT, Machine

MOST_HOURS = 8
"""After this many hours a rented machine is deleted, whatever became of the pilot."""

_ALARMS = (0.5, 0.9, 1.0)
_PROVIDERS = """terraform {
  required_providers {
    google = {
      source = "hashicorp/google"
    }
  }
}"""


def as_gcloud(rented: tuple[Machine, ...], budget_usd: int | None) -> str:
    """Return the script.

    Parameters
    ----------
    rented : tuple of Machine
        One for each side.
    budget_usd : int or None
        The budget's default; None where the reader has to give it.

    Returns
    -------
    str
        Bash, which ``bash -n`` accepts.
    """
    steps = {"budget": _budget_step()}
    for machine in rented:
        side = chips.get(machine.chip_id).family
        if machine.route == "gke":
            steps |= _gke_steps(machine, side)
        else:
            steps |= {
                f"{side}-chip": _instance(machine, side, machine.smallest),
                f"{side}-host": _instance(machine, side, machine.host),
                f"{side}-preempt": [
                    f'gcloud compute instances simulate-maintenance-event "pilot-{side}" {_where(side)}'
                ],
                f"{side}-down": [
                    f'gcloud compute instances delete "pilot-{side}" {_where(side)} --quiet',
                ],
            }
    zones = [chips.get(machine.chip_id).family for machine in rented]
    amount = "${BUDGET_USD:?set it to what the pilot may cost}"
    if budget_usd is not None:
        amount = f"${{BUDGET_USD:-{budget_usd}}}"
    body = [f"  {name})\n{_indented(lines)}\n    ;;" for name, lines in steps.items()]
    return "\n".join(
        [
            "#!/usr/bin/env bash",
            "# A pilot: a budget alert, one chip, one host, a drill, and the end, for each kind of chip.",
            "# Read before it is run: it rents hardware. Nothing here was run; the words were read here:",
            *(f"#   {source.title}, {source.date}\n#     {source.address}" for source in _sources(rented)),
            *_remarks(rented),
            f"# For {_many_hosts(rented)}",
            "set -euo pipefail",
            'PROJECT="${PROJECT:?set it to the id of your project}"',
            *(f'{s.upper()}_ZONE="${{{s.upper()}_ZONE:?set it to a zone that has the chip}}"' for s in zones),
            'case "${1:-}" in',
            *body,
            "  *)",
            f'    echo "usage: bash pilot.sh {" | ".join(steps)}" >&2',
            "    exit 2",
            "    ;;",
            "esac",
            "",
        ]
    ).replace("@BUDGET@", amount)


def as_terraform(rented: tuple[Machine, ...], budget_usd: int | None) -> str:
    """Return the Terraform file.

    Parameters
    ----------
    rented : tuple of Machine
        One for each side.
    budget_usd : int or None
        The budget's default; None where the reader has to give it.

    Returns
    -------
    str
        HCL, formatted as ``terraform fmt`` does.
    """
    sides = {chips.get(machine.chip_id).family: machine for machine in rented}
    default = "" if budget_usd is None else f'  default     = "{budget_usd}"\n'
    parts = [
        "# One host of each chip of the pilot, and a budget alert. Nothing here was applied; read here:\n"
        f"#   {machines.TERRAFORM_FLEX_START.title}, {machines.TERRAFORM_FLEX_START.date}\n"
        f"#     {machines.TERRAFORM_FLEX_START.address}\n"
        "# A provider released before that makes a standard instance and says nothing.\n"
        + "\n".join(_remarks(rented)),
        _PROVIDERS,
        _variable("project", "Id of the project."),
        _variable("project_number", "Number of the project, which the budget's filter takes."),
        _variable("billing_account", "Id of the billing account."),
        f'variable "budget_usd" {{\n  description = "What the pilot may cost, in US dollars."\n'
        f"  type        = string\n{default}}}",
        *(_variable(f"{side}_zone", "A zone that has the chip and your quota.") for side in sides),
        'provider "google" {\n  project               = var.project\n'
        "  billing_project       = var.project\n  user_project_override = true\n}",
        *(_node_pool(m, s) if m.route == "gke" else _resource(m, s) for s, m in sides.items()),
        _budget_resource(),
    ]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


# --- parts of the script ------------------------------------------------------------------------------------


def _where(side: str) -> str:
    return f'--project="$PROJECT" --zone="${side.upper()}_ZONE"'


def _capacity(machine: Machine) -> list[str]:
    if machine.capacity == "spot":
        model = ["--provisioning-model=SPOT"]
    else:
        model = [
            "--provisioning-model=FLEX_START",
            "--request-valid-for-duration=2h",
            "--reservation-affinity=none",
        ]
    return [*model, f"--max-run-duration={MOST_HOURS}h", "--instance-termination-action=DELETE"]


def _instance(machine: Machine, side: str, kind: str) -> list[str]:
    return _wrapped(
        f'gcloud compute instances create "pilot-{side}" {_where(side)}',
        f"--machine-type={kind}",
        f"--image-project={IMAGE_PROJECT}",
        f"--image-family={machine.image_family}",
        "--boot-disk-size=200GB" + (f" --boot-disk-type={machine.boot_disk}" if machine.boot_disk else ""),
        "--maintenance-policy=TERMINATE",
        *_capacity(machine),
    )


def _gke_steps(machine: Machine, side: str) -> dict[str, list[str]]:
    def pool(name: str, kind: str) -> list[str]:
        return _wrapped(
            f'gcloud container node-pools create "{name}" --cluster=pilot --project="$PROJECT"',
            f'--location="${{{side.upper()}_ZONE}}"',
            f"--machine-type={kind}",
            "--flex-start",
            f"--max-run-duration={MOST_HOURS * 3600}s",
            "--reservation-affinity=none",
            "--num-nodes=0 --enable-autoscaling --min-nodes=0 --max-nodes=1",
        )

    cluster = f'gcloud container clusters create pilot --project="$PROJECT" --location="${side.upper()}_ZONE"'
    gone = f'gcloud container clusters delete pilot --project="$PROJECT" --location="${side.upper()}_ZONE"'
    return {
        f"{side}-cluster": [f"{cluster} --num-nodes=1"],
        f"{side}-chip": pool("one-chip", machine.smallest),
        f"{side}-host": pool("one-host", machine.host),
        f"{side}-down": [f"{gone} --quiet"],
    }


def _budget_step() -> list[str]:
    return [
        'BILLING_ACCOUNT="${BILLING_ACCOUNT:?set it to the id of your billing account}"',
        *_wrapped(
            'gcloud billing budgets create --billing-account="$BILLING_ACCOUNT"',
            '--display-name="pilot" --budget-amount="@BUDGET@USD"',
            '--filter-projects="projects/$PROJECT"',
            *(f"--threshold-rule=percent={share:.2f}" for share in _ALARMS),
        ),
    ]


def _wrapped(first: str, *rest: str) -> list[str]:
    lines = [first, *(f"  {line}" for line in rest)]
    return [f"{line} \\" for line in lines[:-1]] + [lines[-1]]


def _indented(lines: Iterable[str]) -> str:
    return "\n".join(f"    {line}" for line in lines)


def _sources(rented: tuple[Machine, ...]) -> list[Source]:
    found: list[Source] = []
    for machine in rented:
        if chips.get(machine.chip_id).family == "tpu":
            found += [machines.TPU_LEGACY, machines.TPU_MACHINES]
        if machine.route == "gke":
            found += [machines.GKE_FLEX_START]
        else:
            found += [machines.TPU_CREATE] if machine.source is machines.TPU_MACHINES else [machine.source]
            found += (
                [machines.FLEX_START, machines.FLEX_START_VMS] if machine.capacity == "flex-start" else []
            )
            found += (
                [machines.FLEX_START_ON_TPU] if machine.remark and machine.capacity == "flex-start" else []
            )
            if machine.boot_disk:
                found += [
                    machines.TPU_DISKS if machine.source is machines.TPU_MACHINES else machines.GPU_CREATE
                ]
    return list(dict.fromkeys([*found, machines.GCLOUD_HELP, machines.BUDGETS]))


def _remarks(rented: tuple[Machine, ...]) -> list[str]:
    return [f"# {chips.get(m.chip_id).name}: {m.remark}." for m in rented if m.remark]


def _many_hosts(rented: tuple[Machine, ...]) -> str:
    if any(chips.get(machine.chip_id).family == "tpu" for machine in rented):
        source = machines.TPU_SLICES
        return f"slices of several hosts see: {source.title}\n#     {source.address}"
    return "several hosts take as many instances in one zone, with the provider's fast network between them."


# --- parts of the Terraform file ----------------------------------------------------------------------------


def _variable(name: str, description: str) -> str:
    return f'variable "{name}" {{\n  description = "{description}"\n  type        = string\n}}'


def _resource(machine: Machine, side: str) -> str:
    spot = machine.capacity == "spot"
    model = "SPOT" if spot else "FLEX_START"
    preemptible = "    preemptible                 = true\n" if spot else ""
    disk = f'\n      type  = "{machine.boot_disk}"' if machine.boot_disk else ""
    affinity = "" if spot else '\n  reservation_affinity {\n    type = "NO_RESERVATION"\n  }\n'
    return f"""resource "google_compute_instance" "{side}" {{
  name         = "pilot-{side}"
  zone         = var.{side}_zone
  machine_type = "{machine.host}"

  boot_disk {{
    initialize_params {{
      image = "{IMAGE_PROJECT}/{machine.image_family}"
      size  = 200{disk}
    }}
  }}

  network_interface {{
    network = "default"
    access_config {{}}
  }}

  scheduling {{
    provisioning_model          = "{model}"
{preemptible}    on_host_maintenance         = "TERMINATE"
    automatic_restart           = false
    instance_termination_action = "DELETE"
    max_run_duration {{
      seconds = {MOST_HOURS * 3600}
    }}
  }}
{affinity}}}"""


def _node_pool(machine: Machine, side: str) -> str:
    return f"""resource "google_container_cluster" "{side}" {{
  name                = "pilot-{side}"
  location            = var.{side}_zone
  initial_node_count  = 1
  deletion_protection = false
}}

resource "google_container_node_pool" "{side}" {{
  name               = "pilot-{side}"
  cluster            = google_container_cluster.{side}.name
  location           = var.{side}_zone
  initial_node_count = 0

  autoscaling {{
    min_node_count = 0
    max_node_count = 1
  }}

  node_config {{
    machine_type     = "{machine.host}"
    flex_start       = true
    max_run_duration = "{MOST_HOURS * 3600}s"

    reservation_affinity {{
      consume_reservation_type = "NO_RESERVATION"
    }}
  }}
}}"""


def _budget_resource() -> str:
    rules = "\n".join(f"  threshold_rules {{\n    threshold_percent = {share:g}\n  }}" for share in _ALARMS)
    return f"""resource "google_billing_budget" "pilot" {{
  billing_account = var.billing_account
  display_name    = "pilot"

  budget_filter {{
    projects = ["projects/${{var.project_number}}"]
  }}

  amount {{
    specified_amount {{
      currency_code = "USD"
      units         = var.budget_usd
    }}
  }}

{rules}
}}"""
