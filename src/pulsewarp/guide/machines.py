"""How a chip is rented today: the machine type that holds it, the image, and how capacity is asked for.

Google Cloud only, since it is the one cloud that rents both kinds of chip, so that one account, one budget
and one script serve a whole pilot. What another cloud calls its machines is not modelled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pulsewarp.chips import Source


@dataclass(frozen=True)
class Machine:
    """What a chip is called where it is rented.

    Attributes
    ----------
    chip_id : str
        Catalogue id.
    route : str
        "compute" for a Compute Engine instance, "gke" for a node pool.
    smallest, smallest_chips : str, int
        The smallest machine type with this chip, and how many of them it holds.
    host, host_chips : str, int
        The machine type of a whole host, and its chips.
    image_family : str
        In the project ``ubuntu-os-accelerator-images``; empty where GKE brings its own.
    capacity : str
        "flex-start" (queued, at most a week) or "spot" (may be taken away).
    source : chips.Source
        Where the machine types were read.
    remark : str
        What the sources do not settle; empty where they agree.
    boot_disk : str
        The disk type that the machine boots from; empty where any does.
    """

    chip_id: str
    route: str
    smallest: str
    smallest_chips: int
    host: str
    host_chips: int
    image_family: str
    capacity: str
    source: Source
    remark: str = ""
    boot_disk: str = ""


IMAGE_PROJECT = "ubuntu-os-accelerator-images"

TPU_MACHINES = Source(
    "tpu_machines",
    "Google Cloud documentation, TPU machines in the accelerator-optimized family",
    "https://docs.cloud.google.com/compute/docs/tpus/tpu-machines.md.txt",
    "2026, stored copy read 2026-12-01",
)
GPU_MACHINES = Source(
    "gpu_machines",
    "Google Cloud documentation, GPU machine types",
    "https://docs.cloud.google.com/compute/docs/gpus",
    "2026-08-26",
)
TPU_CREATE = Source(
    "tpu_create",
    "Google Cloud documentation, Consume a reservation (TPU instances in Compute Engine)",
    "https://docs.cloud.google.com/tpu/docs/consume-reservation-compute",
    "2026, stored copy read 2026-12-01",
)
TPU_LEGACY = Source(
    "tpu_legacy",
    "Google Cloud documentation, Cloud TPU resources in Compute Engine (the Cloud TPU API is legacy)",
    "https://docs.cloud.google.com/tpu/docs/tpus-in-compute-engine",
    "2026, stored copy read 2026-12-01",
)
TPU_SLICES = Source(
    "tpu_slices",
    "Google Cloud documentation, Create a MIG with multi-host TPU slice",
    "https://docs.cloud.google.com/compute/docs/tpus/create-tpu-mig-multi-host-slice",
    "2026, stored copy read 2026-12-01",
)
FLEX_START = Source(
    "flex_start",
    "Google Cloud blog, Introducing Flex-start VMs",
    "https://cloud.google.com/blog/products/compute/introducing-flex-start-vms-for-the-compute-engine-instance-api",
    "2025-09-25",
)
FLEX_START_ON_TPU = Source(
    "flex_start_on_tpu",
    "What porting a v6e from the Cloud TPU API to Compute Engine changes: rented with FLEX_START, and what "
    "Google's page on provisioning models lists (gemma4-dev, one user's notes)",
    "https://github.com/xbill9/gemma4-dev/blob/895a47a1490b31a1ed2ca6eddbcffc0ed3548e74/gce-vllm-v6e1-2b/"
    "devto-tpu-api-vs-gce-provisioning.md",
    "2026-08, read 2026-12-01",
)
FLEX_START_VMS = Source(
    "flex_start_vms",
    "Google Cloud documentation, About Flex-start VMs (a wait of two hours at most, a run of seven days)",
    "https://docs.cloud.google.com/compute/docs/instances/about-flex-start-vms",
    "2026, stored copy read 2026-12-01",
)
TPU_DISKS = Source(
    "tpu_disks",
    "Google Cloud documentation, Attach durable block storage to a TPU VM (v6e takes Hyperdisk only)",
    "https://docs.cloud.google.com/tpu/docs/attach-durable-block-storage.md.txt",
    "2026, stored copy read 2026-12-01",
)
GPU_CREATE = Source(
    "gpu_create",
    "Google Cloud documentation, Create an AI-optimized instance with A4 or A3 Ultra",
    "https://docs.cloud.google.com/ai-hypercomputer/docs/create/create-vm",
    "2026-04, as quoted in a public repository, read 2026-12-01",
)
GKE_FLEX_START = Source(
    "gke_flex_start",
    "Google Cloud documentation, Flex-start provisioning mode in GKE",
    "https://docs.cloud.google.com/kubernetes-engine/docs/concepts/dws",
    "2026, stored copy read 2026-12-01",
)
GCLOUD_HELP = Source(
    "gcloud_help",
    "gcloud 528.0.0, its own help, run offline",
    "https://docs.cloud.google.com/sdk/gcloud/reference/container/node-pools/create",
    "2025-06-20",
)
BUDGETS = Source(
    "budgets",
    "gcloud reference, billing budgets create",
    "https://docs.cloud.google.com/sdk/gcloud/reference/billing/budgets/create",
    "2025-06-20",
)
TERRAFORM_FLEX_START = Source(
    "terraform_flex_start",
    "Terraform provider for Google Cloud: FLEX_START for instances (magic-modules, pull request 17417)",
    "https://github.com/GoogleCloudPlatform/magic-modules/pull/17417",
    "2026-05-05",
)

_TPU_IMAGE = "ubuntu-accel-2204-amd64-tpu-v5e-v5p-v6e"
_TPU7X_IMAGE = "ubuntu-accel-2404-amd64-tpu-tpu7x"
_GPU_IMAGE = "ubuntu-accelerator-2404-amd64-with-nvidia-580"
_FLEX_ON_TPU = (
    "flex-start by Compute Engine is listed for v5p and v6e and was used for v6e in 2026-08, while one page "
    "of the legacy Cloud TPU API still names its own queue as the only way"
)
_HYPERDISK = "hyperdisk-balanced"


def _tpu(chip_id: str, smallest: tuple[str, int], host: tuple[str, int], boot_disk: str = "") -> Machine:
    names = (*smallest, *host, _TPU_IMAGE, "flex-start", TPU_MACHINES, _FLEX_ON_TPU)
    return Machine(chip_id, "compute", *names, boot_disk)


def _gpu(chip_id: str, smallest: tuple[str, int], host: tuple[str, int], boot_disk: str = "") -> Machine:
    names = (*smallest, *host, _GPU_IMAGE, "flex-start", GPU_MACHINES)
    return Machine(chip_id, "compute", *names, boot_disk=boot_disk)


MACHINES: Mapping[str, Machine] = MappingProxyType(
    {
        machine.chip_id: machine
        for machine in (
            Machine(
                "tpu_v5e",
                "gke",
                *("ct5lp-hightpu-1t", 1),
                *("ct5lp-hightpu-4t", 4),
                "",
                "flex-start",
                GKE_FLEX_START,
                "Compute Engine's list of TPU machines leaves v5e out, so it is rented through GKE",
            ),
            _tpu("tpu_v5p", ("ct5p-hightpu-4t", 4), ("ct5p-hightpu-4t", 4)),
            _tpu("tpu_v6e", ("ct6e-standard-1t", 1), ("ct6e-standard-8t", 8), _HYPERDISK),
            Machine(
                "tpu_v7",
                "compute",
                *("tpu7x-standard-4t", 4),
                *("tpu7x-standard-4t", 4),
                _TPU7X_IMAGE,
                "spot",
                TPU_MACHINES,
                "flex-start for TPU7x is said to need an entry on a list of Google's, so spot is asked for; "
                "that an instance of it is sold as spot was not read",
                _HYPERDISK,
            ),
            _gpu("a100_sxm_40", ("a2-highgpu-1g", 1), ("a2-highgpu-8g", 8)),
            _gpu("a100_sxm_80", ("a2-ultragpu-1g", 1), ("a2-ultragpu-8g", 8)),
            _gpu("h100_sxm", ("a3-highgpu-1g", 1), ("a3-highgpu-8g", 8)),
            _gpu("h200_sxm", ("a3-ultragpu-8g", 8), ("a3-ultragpu-8g", 8), _HYPERDISK),
            _gpu("b200", ("a4-highgpu-8g", 8), ("a4-highgpu-8g", 8), _HYPERDISK),
        )
    }
)
"""By catalogue id. A chip that is missing here has no machine type that was read for it."""
