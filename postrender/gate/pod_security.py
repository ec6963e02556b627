"""A pod must not have what its namespace in the same stream forbids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from postrender.finding import ERROR, Finding
from postrender.gate.manifests import Manifests
from postrender.manifests import pod_security
from postrender.manifests.pods import mapping
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator


def check(manifests: Manifests) -> Iterator[Finding]:
    """Judge the pods of each namespace in the stream, by the level that the namespace's label enforces."""
    levels = {}
    for item in manifests.of_kinds(["Namespace"]):
        metadata = mapping(item.object.get("metadata"))
        levels[str(metadata.get("name"))] = str(mapping(metadata.get("labels")).get(pod_security.ENFORCE, ""))
    for item, pod in manifests.pods() if levels else ():
        name = str(mapping(item.object.get("metadata")).get("namespace"))
        level = levels.get(name, "")
        # A second container with the same fault says nothing new.
        told = set()
        for path, what in pod_security.refused(pod.spec, level):
            if what not in told:
                told.add(what)
                text = f"namespace {name} has {pod_security.ENFORCE}: {level}, which refuses {what}"
                yield item.finding((*pod.path, "spec", *path), text)


RULE = Problem(
    "pods/pod-security",
    target=OBJECTS,
    severity=ERROR,
    fails=Fails.PENDING,
    title="the Pod Security of its namespace refuses a pod",
    why="the API server takes the object and refuses its pods: none starts, and only an event says why",
    fix="set the label to privileged and limit the pods by network.podPolicy (docs/howto/isolation.md), or remove it",
    source="https://kubernetes.io/docs/concepts/security/pod-security-standards/",
    check=check,
)
