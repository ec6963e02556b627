"""The stream must be for the machine that the values specify."""

from __future__ import annotations

from typing import TYPE_CHECKING

from postrender.finding import ERROR, Finding
from postrender.gate.manifests import Manifests
from postrender.manifests import clouds
from postrender.manifests.pods import mapping
from postrender.problem import OBJECTS, Fails, Problem
from postrender.values import profiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from postrender.manifests.pods import Path, Pod


def check(manifests: Manifests) -> Iterator[Finding]:
    """Find pods that use a complete node of another machine, if no pod selects the values' machine."""
    wiring = manifests.wiring
    for item, pod in manifests.pods():
        others = others_of(manifests, pod)
        if wiring and others:
            named = ", ".join(sorted(set().union(*others.values())))
            chosen = clouds.of_machine([(label, value) for label, values in others.items() for value in values], "")
            selects = f"the pod selects {named}{_of(chosen)}"
            reason = (
                f"{selects}, but the values are for {wiring.profile}{_of(clouds.of_wiring(wiring))} ({wiring.label})"
            )
            yield item.finding((*pod.path, "spec", *_chosen_by(pod, others)), reason)


def _of(names: frozenset[str]) -> str:
    return f" of {clouds.listed(names)}" if names else ""


def others_of(manifests: Manifests, pod: Pod) -> dict[str, set[str]]:
    """Return the labels by which a full-node pod selects other machines; empty if any pod selects the values'."""
    wiring = manifests.wiring
    if wiring is None or manifests.whole_pods():
        return {}
    others = wiring.foreign_labels(pod.spec)
    return others if others and pod.gpu_container()[1] in _sizes(set().union(*others.values()), wiring.gpus) else {}


def _chosen_by(pod: Pod, others: Mapping[str, set[str]]) -> Path:
    selector = mapping(pod.spec.get("nodeSelector"))
    return next((("nodeSelector", label) for label in others if label in selector), ("affinity",))


def _sizes(labels: set[str], gpus: int) -> set[int]:
    """Return the possible numbers of GPUs per node: the values' machine's, and the selected machines' if known."""
    chosen = (each for each in profiles.machines() if any(value in labels for _, value in each.labels))
    return {gpus, *(machine.gpus for machine in chosen)} - {0}


RULE = Problem(
    "nodes/another-accelerator",
    target=OBJECTS,
    severity=ERROR,
    fails=Fails.AT_START,
    title="the pods select another machine than that of the values",
    why="on that machine the pods have the network and the libraries of another one, or none",
    fix="give the profile of the selected machine (values/accelerators) as a values file, or remove the selector",
    source="https://cloud.google.com/kubernetes-engine/docs/how-to/gpus",
    check=check,
)
