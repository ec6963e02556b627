"""A pod must not select nodes that the values' cloud does not have."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from postrender.finding import ERROR, Finding
from postrender.gate.another_accelerator import others_of
from postrender.gate.manifests import Manifests
from postrender.manifests import clouds
from postrender.manifests.pods import mapping, sequence
from postrender.problem import OBJECTS, Fails, Problem
from postrender.values import profiles

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from postrender.manifests.pods import Path
    from postrender.types import Json
    from postrender.wiring.plan import Wiring

    # Where a pod asks for a label, the label, and its values; none where any value will do.
    Asked = tuple[Path, str, list[str]]

# These operators of an affinity compare no values, or other ones than names.
_ANY_VALUE: Final = ("Exists", "Gt", "Lt")
_WORDS: Final = re.compile(r"[a-z0-9]+")


def check(manifests: Manifests) -> Iterator[Finding]:
    """Judge every label that a pod requires in its node selector, or in every term of its required affinity."""
    wiring = manifests.wiring
    own = clouds.of_wiring(wiring) if wiring else frozenset()
    if wiring is None or not own:
        return
    whole = {id(pod) for _, pod, _ in manifests.whole_pods()}
    for item, pod in manifests.pods():
        # Read only what most pods lack.
        if not (pod.spec.get("nodeSelector") or pod.spec.get("affinity")) or others_of(manifests, pod):
            continue
        for path, reason in _faults(pod.spec, wiring, own, takes_node=id(pod) in whole):
            what = f"the pod selects {reason}, but the values are for {wiring.profile} of {clouds.listed(own)}"
            yield item.finding((*pod.path, "spec", *path), what)


def _faults(
    spec: Mapping[str, Json], wiring: Wiring, own: frozenset[str], *, takes_node: bool
) -> Iterator[tuple[Path, str]]:
    def wrong(asked: Iterable[Asked]) -> list[tuple[Path, str]]:
        found = [(path, _fault(label, values, wiring, own, takes_node=takes_node)) for path, label, values in asked]
        return [(path, reason) for path, reason in found if reason]

    selector = mapping(spec.get("nodeSelector"))
    yield from wrong((("nodeSelector", label), str(label), [str(value)]) for label, value in selector.items())
    # The terms are alternatives: one that a node can meet is enough.
    terms = [wrong(term) for term in _terms(spec)]
    if terms and all(terms):
        yield terms[0][0]


def _terms(spec: Mapping[str, Json]) -> Iterator[list[Asked]]:
    node = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    name = "requiredDuringSchedulingIgnoredDuringExecution"
    for at, term in enumerate(sequence(mapping(node.get(name)).get("nodeSelectorTerms"))):
        found: list[Asked] = []
        for number, each in enumerate(map(mapping, sequence(mapping(term).get("matchExpressions")))):
            values = [str(value) for value in sequence(each.get("values"))]
            if each.get("operator") in _ANY_VALUE or (each.get("operator") == "In" and values):
                path = ("affinity", "nodeAffinity", name, "nodeSelectorTerms", at, "matchExpressions", number)
                found.append((path, str(each.get("key")), values if each.get("operator") == "In" else []))
        yield found


def _fault(label: str, values: list[str], wiring: Wiring, own: frozenset[str], *, takes_node: bool) -> str:
    """Return what a pod selects that the cluster cannot have; empty if the cluster may have it."""
    others = clouds.of_label(label)
    if others and not others & own:
        return f"a label of {clouds.listed(others)} ({label})"
    if not values:
        return ""
    named = ", ".join(values)
    if label in clouds.TYPES and wiring.machine_type not in values:
        known = {machine.type: machine for machine in profiles.machines() if machine.type}
        chosen = [known[value] for value in values if value in known]
        known_clouds = [clouds.of_machine(machine.labels, machine.type) for machine in chosen]
        elsewhere = all(each and not each & own for each in known_clouds)
        return named if len(chosen) == len(values) and (takes_node or elsewhere) else ""
    if takes_node and label in wiring.labels:
        return "" if wiring.labels[label] in values else named
    if takes_node and label == wiring.gpu_label:
        return named if all(_names_another_gpu(value, wiring.profile) for value in values) else ""
    return ""


def _names_another_gpu(value: str, profile: str) -> bool:
    """Return whether a label's value names a GPU, such as H100_NVLINK_80GB, that is not the profile's."""
    words = set(_WORDS.findall(value.lower()))
    return bool(words & profiles.names()) and not words & {*_WORDS.findall(profile.lower())}


RULE = Problem(
    "nodes/selector-of-another-cloud",
    target=OBJECTS,
    severity=ERROR,
    fails=Fails.PENDING,
    title="a pod selects nodes that are not those of the values: of another machine, or of another cloud",
    why="no node has this label together with those of the machine, and the pod stays pending",
    fix="remove it: the post-renderer writes the selector of the machine; or give the profile of the other machine",
    source="https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/",
    check=check,
)
