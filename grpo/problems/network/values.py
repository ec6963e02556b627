"""What other clouds' machines require of the image and of NCCL's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.topic import Topic
from grpo.values.derived import mapping
from grpo.values.frameworks.nemo_rl import COLOCATED
from postrender.finding import WARNING, Finding
from postrender.problem import Fails
from postrender.values import profiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

TOPIC: Final = Topic("clouds", framework="", source="")
_IMAGE: Final = "images.training.repository"
# Public images, whose Dockerfiles install the network plugin of no cloud.
_PUBLIC: Final = ("nvcr.io/nvidia/nemo-rl", "verlai/verl")
_MEMORY: Final = "NCCL_CUMEM_ENABLE"
_NVLINK: Final = "NCCL_MNNVL_ENABLE"
_DOMAIN: Final = "accelerator.nvlinkDomainNodes"
# Their NVLink spans the nodes of a rack.
_RACKS: Final = ("gb200", "gb300")
# The strongest first. NeMo RL gives the environment of its driver, which runs on the head, to all workers; verl gives
# them job.env, and their pod has the rest.
_SECTIONS: Final = {
    "nemo-rl": ("job.env", "ray.head.env", "ray.env", "ray.workers.env"),
    "verl": ("job.env", "ray.workers.env", "ray.env"),
}


@TOPIC.problem(
    f"={_IMAGE}",
    fails=Fails.AT_FIRST_STEP,
    source="NVIDIA/nccl src/init.cc at v2.28.9-1; NVIDIA-NeMo/RL docker/Dockerfile at v0.7.0",
    severity=WARNING,
)
def image_without_efa(run: RunConfig) -> str | None:
    """the machine uses EFA, but the image is not known to contain aws-ofi-nccl

    Why: NCCL_NET is Libfabric: NCCL finds no such transport and fails at the first step, even on one node
    Fix: use an image with aws-ofi-nccl 1.15 or newer (examples/eks-image), or network.mode: none on one node
    """
    devices = {
        *mapping(run.value("accelerator.resources")),
        *(str(mapping(each).get("deviceClass")) for each in mapping(run.value("accelerator.claims")).values()),
    }
    uses_efa = run.value("network.mode") in ("devices", "dranet") and any("efa" in name for name in devices)
    image = str(run.value(_IMAGE))
    parts = run.value("job.evaluate.tensorParallelSize")
    evaluates = run.value("job.task") == "evaluate" and isinstance(parts, int) and parts > 1
    if not uses_efa or not (run.trains or evaluates) or not _is_public(image):
        return None
    return f"{_IMAGE} is {image}, which is not known to hold aws-ofi-nccl"


@TOPIC.problem(
    f"={_IMAGE}",
    fails=Fails.AT_START,
    source="GoogleCloudPlatform/container-engine-accelerators gpudirect-rdma/nccl-test-a4x-max.yaml at 013b7ea9",
    severity=WARNING,
)
def image_without_gib(run: RunConfig) -> str | None:
    """the node has no gIB, and the image is not known to contain it

    Why: the init container check-node finds no set_nccl_env.sh, so no worker starts
    Fix: build an image with Google's gIB and DOCA-OFED's user space, and name it here
    """
    script, image = str(run.value("accelerator.nccl.environmentScript") or ""), str(run.value(_IMAGE))
    folders = [str(mapping(each).get("mountPath")) for each in mapping(run.value("accelerator.hostPaths")).values()]
    is_there = not script or any(script.startswith(f"{folder}/") for folder in folders)
    makes_workers = run.value("job.task") in ("train", "evaluate") and not run.value("stack.names.cluster")
    if is_there or not makes_workers or run.value("network.mode") == "none" or not _is_public(image):
        return None
    return f"{_IMAGE} is {image}, which is not known to hold {script.removesuffix('/scripts/set_nccl_env.sh')}"


@TOPIC.problem(
    "=ray.env",
    fails=Fails.AT_FIRST_STEP,
    source="NVIDIA-NeMo/RL nemo_rl/models/policy/workers at v0.7.0",
    severity=WARNING,
)
def memory_api_disabled(run: RunConfig) -> Iterator[Finding]:
    """NCCL's cuMem API is off, but generation has separate GPUs

    Why: NCCL 2.26 cannot send the weights to generation without it; newer NeMo RL versions override the variable
    Fix: remove NCCL_CUMEM_ENABLE=0; clouds recommend it for bandwidth tests only
    """
    if run.framework != "nemo-rl" or run.value("job.task") != "train" or run.on(COLOCATED):
        return
    key, value = _variable(run, _MEMORY)
    if str(value) == "0":
        yield Finding(f"{key} is 0, and generation is not colocated", keys=[f"={key}"])


@TOPIC.problem(f"={_DOMAIN}", fails=Fails.AT_LOADING, source="NVIDIA/nccl src/mnnvl.cc at 192610c9", severity=WARNING)
def nvlink_without_channel(run: RunConfig) -> Iterator[Finding]:
    """NCCL uses NVLink between nodes, but the rack's pods have no channel for it

    Why: NCCL sees that the nodes' GPUs are linked, cannot map their memory without a channel, and fails
    Fix: set accelerator.nccl.env.NCCL_MNNVL_ENABLE to '0', or accelerator.nvlinkDomainNodes with NVIDIA's DRA driver
    """
    is_rack = run.value("accelerator.name") in _RACKS and run.nodes > 1
    if not is_rack or run.value("job.task") != "train" or run.value(_DOMAIN):
        return
    key, value = _variable(run, _NVLINK)
    if value in (None, "1", "2"):
        message = f"{_DOMAIN} is null, and {_NVLINK} is not 0"
        yield Finding(message, keys=[f"={_DOMAIN}" if value is None else f"={key}"])


@TOPIC.problem(f"={_DOMAIN}", fails=Fails.COSTS, source="NVIDIA/nccl src/mnnvl.cc at 192610c9", severity=WARNING)
def nvlink_off(run: RunConfig) -> Iterator[Finding]:
    """the pods have a channel for NVLink between nodes, but NCCL does not use it

    Why: weights and gradients go over the network instead, which is several times slower
    Fix: remove NCCL_MNNVL_ENABLE (set null if a profile has it), or set accelerator.nvlinkDomainNodes to null
    """
    most = run.value(_DOMAIN)
    key, value = _variable(run, _NVLINK)
    if most and run.nodes > 1 and run.value("job.task") == "train" and value == "0":
        # A profile says 0 for clusters without channels: the line that asks for them is the user's.
        line = f"={_DOMAIN}" if key.startswith("accelerator.") else f"={key}"
        yield Finding(f"{_DOMAIN} is {most}, and {_NVLINK} is 0", keys=[line])


@TOPIC.problem(
    f"={_DOMAIN}", fix=f"remove {_DOMAIN}", fails=Fails.PENDING, source="charts/common/templates/_nvlink.tpl at 0.1.0"
)
def nvlink_ends_at_node(run: RunConfig) -> str | None:
    """accelerator.nvlinkDomainNodes is set, but this machine's NVLink does not extend beyond the node

    Why: the pods request a ComputeDomain channel, which gives them nothing, and stay pending if the cluster has none
    """
    most = run.value(_DOMAIN)
    ends = run.accelerator in profiles.names() - {*_RACKS}
    return f"{_DOMAIN} is {most}, and NVLink of {run.accelerator} ends at the node" if most and ends else None


def _is_public(image: str) -> bool:
    return any(f"/{image}".endswith(f"/{name}") for name in _PUBLIC)


def _variable(run: RunConfig, name: str) -> tuple[str, object]:
    """Return the place that sets a variable for the workers, and its value there, or {} if a Secret has it."""
    for section in _SECTIONS[run.framework]:
        entry = mapping(mapping(run.value(section)).get(name))
        if entry:
            return f"{section}.{name}", entry.get("value", {})
    return f"accelerator.nccl.env.{name}", mapping(run.value("accelerator.nccl.env")).get(name)
