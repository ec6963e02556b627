"""No variable for a secret has its value in a manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from postrender import secrets
from postrender.finding import ERROR, Finding, Place
from postrender.gate.manifests import Manifests
from postrender.manifests.pods import mapping, sequence
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator


def check(manifests: Manifests) -> Iterator[Finding]:
    """Judge all containers of the stream, also of pods that are not wired."""
    for item, path, container in manifests.containers():
        for number, entry in enumerate(map(mapping, sequence(container.get("env")))):
            name, value = str(entry.get("name", "")), str(entry.get("value") or "")
            # Where a secret has a shape, secrets/literal-token reports it.
            if secrets.is_literal(name, value) and not secrets.has_shape(value, manifests.texts[item.document]):
                what = f"{item.title}: {name} of container {container.get('name', '')} has its value in the manifest"
                place = Place(item.document, (*item.path, *path, "env", number))
                yield Finding(what, place=place, secret=True)


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
