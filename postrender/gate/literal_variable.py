"""No variable for a secret has its value in a manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from postrender import secrets
from postrender.finding import ERROR, Finding, Place
from postrender.gate.manifests import Manifests
from postrender.manifests import pods
from postrender.manifests.pods import mapping, sequence
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.manifests.pods import Path, Pod


def check(manifests: Manifests) -> Iterator[Finding]:
    """Judge all containers of the stream, also of pods that are not wired."""
    for item in manifests.items:
        for pod in item.pods or pods.pods(item.object):
            for path, name, container in _literals(pod):
                what = f"{item.title}: {name} of container {container} has its value in the manifest"
                yield Finding(what, place=Place(item.document, (*item.path, *path)), secret=True)


def _literals(pod: Pod) -> Iterator[tuple[Path, str, str]]:
    for kind in ("initContainers", "containers"):
        for position, container in enumerate(map(mapping, sequence(pod.spec.get(kind)))):
            for number, entry in enumerate(map(mapping, sequence(container.get("env")))):
                name = str(entry.get("name", ""))
                if secrets.is_literal(name, str(entry.get("value") or "")):
                    path = (*pod.path, "spec", kind, position, "env", number)
                    yield path, name, str(container.get("name", ""))


RULE = Problem(
    "secrets/literal-variable",
    target=OBJECTS,
    severity=ERROR,
    fails=Fails.EXPOSES,
    title="a variable for a secret has its value in the manifest",
    why="Helm stores manifests in the release, helm get manifest prints them, and reviews and logs keep them",
    fix="put it into a Kubernetes Secret, and write valueFrom with a secretKeyRef",
    source="https://kubernetes.io/docs/concepts/security/secrets-good-practices/",
    check=check,
)
