"""What machines of other clouds ask of the image and of NCCL's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from postrender.finding import WARNING, Finding
from postrender.rules.values.define import Topic
from postrender.values.derived import mapping
from postrender.values.frameworks.nemo_rl import COLOCATED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.values.config import Effective

TOPIC: Final = Topic("clouds", framework="", source="")
_IMAGE: Final = "images.training.repository"
# Public images whose Dockerfile does not install the plugin for EFA.
_WITHOUT_EFA: Final = ("nvcr.io/nvidia/nemo-rl", "verlai/verl")
_MEMORY: Final = "NCCL_CUMEM_ENABLE"
_SECTIONS: Final = ("ray.env", "ray.workers.env", "job.env")


@TOPIC.rule(
    "image-without-efa",
    "clouds/T13",
    f"={_IMAGE}",
    title="on EFA the image of several nodes holds the plugin aws-ofi-nccl",
    why="NCCL finds no network of the name Libfabric and fails at the first step; without that name it would use TCP",
    fix="build an image with libfabric and aws-ofi-nccl 1.15 or newer, and name it here; or use one node",
    source="NVIDIA-NeMo/RL docker/Dockerfile at v0.7.0",
    severity=WARNING,
)
def _efa(run: Effective) -> str | None:
    devices = {
        *mapping(run.value("accelerator.resources")),
        *(str(mapping(each).get("deviceClass")) for each in mapping(run.value("accelerator.claims")).values()),
    }
    uses_efa = run.value("network.mode") in ("devices", "dranet") and any("efa" in name for name in devices)
    image = str(run.value(_IMAGE))
    is_public = any(f"/{image}".endswith(f"/{name}") for name in _WITHOUT_EFA)
    if not uses_efa or run.value("job.task") != "train" or run.nodes < 2 or not is_public:
        return None
    return f"{_IMAGE} is {image}, which is not known to hold aws-ofi-nccl"


@TOPIC.rule(
    "memory-api-disabled",
    "clouds/T10",
    "=ray.env",
    title="CUDA's memory API is on where generation has GPUs of its own",
    why="NCCL 2.26 cannot send the weights to the generation without it; newer NeMo RL overrides the variable",
    fix="remove it; clouds recommend 0 for their tests of bandwidth, not for this",
    source="NVIDIA-NeMo/RL nemo_rl/models/policy/workers at v0.7.0",
    severity=WARNING,
)
def _memory(run: Effective) -> Iterator[Finding]:
    if run.framework != "nemo-rl" or run.value("job.task") != "train" or run.on(COLOCATED):
        return
    found = {f"accelerator.nccl.env.{_MEMORY}": mapping(run.value("accelerator.nccl.env")).get(_MEMORY)}
    for section in _SECTIONS:
        entry = mapping(mapping(run.value(section)).get(_MEMORY))
        found[f"{section}.{_MEMORY}"] = entry.get("value")
    for key, value in found.items():
        if str(value) == "0":
            yield Finding(f"{key} is 0, and generation is not colocated", keys=[f"={key}"])
