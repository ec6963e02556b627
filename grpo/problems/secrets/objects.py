"""Secrets that a shell prints, and secrets in the address of a command."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from grpo.problems.pods.podspec import Container, PodView, each_container
from postrender import secrets
from postrender.finding import ERROR, Finding
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


def _in_commands(_: PodView, container: Container) -> Found:
    for path, script in container.scripts():
        if secrets.in_address(script):
            yield path, f"container {container.name}: an address in its command has a secret"


def _hidden(manifests: Manifests) -> Iterator[Finding]:
    return (each._replace(secret=True) for each in each_container(_in_commands)(manifests))


RULES = (
    Problem(
        "secrets/in-address",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.EXPOSES,
        title="an address in a command has a secret",
        why="reviews, logs and the release keep the manifest, and servers log the query of an address",
        fix="put it into a Kubernetes Secret, read it into a variable, and write $VARIABLE into the address",
        source="https://kubernetes.io/docs/concepts/security/secrets-good-practices/",
        check=_hidden,
    ),
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
)
