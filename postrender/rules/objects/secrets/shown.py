"""Secrets that are referred to, and shown all the same; and secrets that are written down."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from postrender.finding import ERROR, Finding, Place
from postrender.manifests.pods import mapping
from postrender.rules.objects.manifests import Manifests
from postrender.rules.objects.pods.podspec import Container, Judged, each_container, judged
from postrender.rules.rule import OBJECTS, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.rules.objects.pods.podspec import Found

_TRACE: Final = re.compile(r"(?m)(?:^|[\s;&|])set[ \t]+-\w*x|(?:^|[\s;&|])set[ \t]+-o[ \t]+xtrace")
_LISTING: Final = re.compile(r"(?m)(?:^|[;&|]|\bthen|\bdo)[ \t]*(set|env|printenv|export -p)[ \t]*(?:$|[;&|>])")
_NAMES: Final = frozenset(
    (
        "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
        "HUGGINGFACE_TOKEN",
        "HF_API_TOKEN",
        "WANDB_API_KEY",
        "NGC_API_KEY",
        "NVIDIA_API_KEY",
        "OPENAI_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
    )
)


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


def _shown(pod: Judged, container: Container) -> Found:
    names = _secrets(container)
    for path, script in container.scripts() if names else ():
        said = _printed(names, script)
        if said:
            yield path, f"container {container.name}: {said}"


def _literal(manifests: Manifests) -> Iterator[Finding]:
    for pod in manifests.once(judged):
        for container in pod.containers():
            for path, name, entry in container.env():
                value = entry.get("value")
                if name in _NAMES and value and not str(value).startswith("$("):
                    what = f"{pod.item.title}: {name} of container {container.name} is written down"
                    yield Finding(what, place=Place(pod.item.document, (*pod.item.path, *path)), secret=True)


RULES = (
    Rule(
        "secrets/printed-by-shell",
        target=OBJECTS,
        severity=ERROR,
        title="a shell prints the secrets that its container was given",
        why="the log of the pod holds them then, where everybody who may read logs finds them",
        fix="remove set -x and commands that list the environment",
        source="https://kubernetes.io/docs/concepts/security/secrets-good-practices/",
        fact="gke/R11",
        check=each_container(_shown),
    ),
    Rule(
        "secrets/literal-variable",
        target=OBJECTS,
        severity=ERROR,
        title="a variable for a secret has its value in the manifest",
        why="Helm stores manifests in the release, where helm get manifest shows them, and reviews and logs keep them",
        fix="put it into a Kubernetes Secret, and write valueFrom with a secretKeyRef",
        source="https://kubernetes.io/docs/concepts/security/secrets-good-practices/",
        fact="gke/R11",
        check=_literal,
    ),
)
