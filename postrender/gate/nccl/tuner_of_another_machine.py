"""NCCL's tuner table must be the machine's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from postrender.finding import ERROR, Finding
from postrender.gate import environment
from postrender.gate.manifests import Manifests
from postrender.problem import OBJECTS, Fails, Problem
from postrender.values import profiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from postrender.gate.manifests import Item
    from postrender.manifests.pods import Path, Pod

_NAME = "NCCL_TUNER_CONFIG_PATH"
# The names of the plugin's tables, with the machine family at the end.
_OF_PLUGIN = "tuner_config_"


def check(manifests: Manifests) -> Iterator[Finding]:
    """Compare the variable with the values' table, or with the table of the machine that the pod selects."""
    for item, pod, wiring in manifests.whole_pods():
        wanted = next((str(each["value"]) for each in wiring.nccl if each["name"] == _NAME), "")
        for path, file in _tables(manifests, item, pod):
            if file != wanted and _is_of_another(file, _own(wanted, wiring.labels)):
                yield item.finding(path, f"{_NAME} is {file}, and {wiring.profile} needs {wanted or 'none'}")
    for item, pod, asked in manifests.other_pods(lambda item, pod: any(_tables(manifests, item, pod))):
        own = {machine.tuner for machine in asked} - {""}
        for path, file in _tables(manifests, item, pod):
            if _is_of_another(file, own):
                names = " or ".join(machine.name for machine in asked)
                has = f"the table of {names} is {' or '.join(sorted(own))}" if own else f"none is known for {names}"
                yield item.finding(path, f"{_NAME} is {file}, and {has}")


def _own(wanted: str, labels: Mapping[str, str]) -> set[str]:
    """Return a machine's tables; even if the values disable the GPU networks, the machine's own table is allowed."""
    chosen = profiles.chosen({label: {value} for label, value in labels.items()})
    return {wanted, *(machine.tuner for machine in chosen)} - {""}


def _tables(manifests: Manifests, item: Item, pod: Pod) -> Iterator[tuple[Path, str]]:
    for position, container in enumerate(pod.containers()):
        found = environment.effective(manifests, item, container, _NAME).get(_NAME)
        if found and found.value:
            yield (*pod.path, "spec", "containers", position, *found.path), found.value


def _is_of_another(file: str, own: set[str]) -> bool:
    """Return whether a table is another machine's, by file name; a custom table or a copy of its own never is."""
    name = _base(file)
    if name in map(_base, own):
        return False
    known = {_base(machine.tuner) for machine in profiles.machines()}
    return name in known or (bool(own) and name.startswith(_OF_PLUGIN))


def _base(file: str) -> str:
    return file.rpartition("/")[2]


RULE = Problem(
    "nccl/tuner-of-another-machine",
    target=OBJECTS,
    severity=ERROR,
    fails=Fails.COSTS,
    title="NCCL's tuner table is for another machine family",
    why="NCCL selects algorithms with this table; with another family's table, collectives are slow",
    fix="remove the variable and let the post-renderer write it, or give the values of the machine",
    source="https://docs.cloud.google.com/ai-hypercomputer/docs/create/gke-ai-hypercompute-custom",
    check=check,
)
