"""NCCL's tuner table must be that of the machine."""

from __future__ import annotations

from postrender.pods import mapping, sequence
from postrender.rules import ERROR, Hit, Manifests, Rule, at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME = "NCCL_TUNER_CONFIG_PATH"


def check(manifests: Manifests) -> Iterator[Hit]:
    """Compare the variable with the one of the values."""
    for item, pod, wiring in manifests.whole_pods():
        wanted = next((each["value"] for each in wiring.nccl if each["name"] == _NAME), None)
        for position, container in enumerate(pod.containers()):
            for number, entry in enumerate(map(mapping, sequence(container.get("env")))):
                if entry.get("name") == _NAME and entry.get("value") not in (None, wanted):
                    path = (*pod.path, "spec", "containers", position, "env", number)
                    needs = wanted or "none"
                    yield at(item, path, f"{_NAME} is {entry['value']}, and {wiring.profile} needs {needs}")


RULE = Rule(
    "nccl/tuner-of-another-machine",
    severity=ERROR,
    title="NCCL's tuner table is of another machine family",
    why="NCCL chooses algorithms by this table; with another family's collectives are slow, and nothing says so",
    fix="remove the variable and let the post-renderer write it, or give the values of the machine",
    source="https://docs.cloud.google.com/ai-hypercomputer/docs/create/gke-ai-hypercompute-custom",
    check=check,
)
