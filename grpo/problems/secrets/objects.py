"""Secrets that a shell prints, and secrets that a manifest contains as a variable's value."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from grpo.problems.pods.podspec import Container, PodView, each_container, judged
from postrender import secrets
from postrender.finding import ERROR, Finding, Place
from postrender.gate.manifests import Manifests
from postrender.manifests.pods import mapping
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.problems.pods.podspec import Found

_TRACE: Final = re.compile(r"(?m)(?:^|[\s;&|])set[ \t]+-\w*x|(?:^|[\s;&|])set[ \t]+-o[ \t]+xtrace")
_LISTING: Final = re.compile(r"(?m)(?:^|[;&|]|\bthen|\bdo)[ \t]*(set|env|printenv|export -p)[ \t]*(?:$|[;&|>])")


def _secrets(container: Container) -> list[str]:
    found = []
    for _, name, entry in container.env():
        if "secretKeyRef" in mapping(entry.get("valueFrom")):
            found.append(name)
    return found


def _expands(script: str, name: str) -> bool:
    return re.search(rf"\$\{{?{re.escape(name)}\b", script) is not None


def _printed(names: list[str], script: str) -> str:
    listing = _LISTING.search(script)
    if listing:
        return f"the command {listing[1]} prints {', '.join(names)}"
    begin = _TRACE.search(script)
    used = [name for name in names if begin and _expands(script[begin.start() :], name)]
    return f"with set -x the shell prints {', '.join(used)}" if used else ""


def _printing(pod: PodView, container: Container) -> Found:
    names = _secrets(container)
    for path, script in container.scripts() if names else ():
        reason = _printed(names, script)
        if reason:
            yield path, f"container {container.name}: {reason}"


def _literal(manifests: Manifests) -> Iterator[Finding]:
    for pod in manifests.once(judged):
        for container in pod.containers():
            for path, name, entry in container.env():
                if secrets.is_literal(name, str(entry.get("value") or "")):
                    what = f"{pod.item.title}: {name} of container {container.name} has its value in the manifest"
                    yield Finding(what, place=Place(pod.item.document, (*pod.item.path, *path)), secret=True)
            for path, script in container.scripts():
                if secrets.in_address(script):
                    what = f"{pod.item.title}: an address in a command of container {container.name} has a secret"
                    yield Finding(what, place=Place(pod.item.document, (*pod.item.path, *path)), secret=True)


RULES = (
    Problem(
        "secrets/printed-by-shell",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.EXPOSES,
        title="a shell prints the secrets of its container",
        why="everybody who may read the pod's log can then read the secrets",
        fix="remove set -x and commands that list the environment",
        source="https://kubernetes.io/docs/concepts/security/secrets-good-practices/",
        check=each_container(_printing),
    ),
    Problem(
        "secrets/literal-variable",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.EXPOSES,
        title="a variable for a secret has its value in the manifest",
        why="Helm stores manifests in the release, helm get manifest prints them, and reviews and logs keep them",
        fix="put it into a Kubernetes Secret, and write valueFrom with a secretKeyRef",
        source="https://kubernetes.io/docs/concepts/security/secrets-good-practices/",
        check=_literal,
    ),
)
