"""What Kubernetes takes as text must be text to a reader of YAML."""

from __future__ import annotations

from postrender.pods import mapping, sequence
from postrender.rules import ERROR, Hit, Manifests, Rule, at
from postrender.rules.podspec import Judged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from postrender.plain import Plain
    from postrender.pods import Path

_WORDS = {bool: "a boolean", int: "a number", float: "a number"}


def check(manifests: Manifests) -> Iterator[Hit]:
    """Look at labels, annotations, data, selectors of nodes, and variables of containers."""
    for item in manifests.items:
        found = [*_metadata(item.object, ())]
        if str(item.object.get("kind")) in ("ConfigMap", "Secret"):
            found += [(("data", key), each) for key, each in mapping(item.object.get("data")).items()]
            found += [(("stringData", key), each) for key, each in mapping(item.object.get("stringData")).items()]
        for pod in item.pods:
            found += _metadata(pod.template, pod.path) if pod.path else ()
            chosen = mapping(pod.spec.get("nodeSelector"))
            found += [((*pod.path, "spec", "nodeSelector", key), each) for key, each in chosen.items()]
            for container in Judged(manifests, item, pod, wired=False).containers():
                found += _variables(container.path, container.spec)
        for path, value in found:
            if type(value) in _WORDS:
                name = _name(item.object, path)
                yield at(item, path, f"{name} is {_WORDS[type(value)]} to Kubernetes, expected text")


def _metadata(value: dict[str, Any], path: Path) -> Iterator[tuple[Path, Any]]:
    metadata = mapping(value.get("metadata"))
    for part in ("labels", "annotations"):
        for key, each in mapping(metadata.get(part)).items():
            yield (*path, "metadata", part, key), each


def _variables(path: Path, container: dict[str, Any]) -> Iterator[tuple[Path, Any]]:
    for number, each in enumerate(map(mapping, sequence(container.get("env")))):
        yield (*path, "env", number, "value"), each.get("value")
    for part in ("command", "args"):
        for number, word in enumerate(sequence(container.get(part))):
            yield (*path, part, number), word


def _name(value: Plain, path: Path) -> str:
    """Return the key of a path; of a variable its name."""
    if path[-1] != "value":
        return str(path[-1]) if isinstance(path[-1], str) else f"{path[-2]} {path[-1]}"
    for part in path[:-1]:
        value = value[part]
    return str(value.get("name"))


RULE = Rule(
    "stream/value-retyped",
    severity=ERROR,
    title="a text is a number or a boolean to Kubernetes",
    why="on, yes, 1e3 and 08 without quotes are no text: the API server refuses the object",
    fix="put the value in quotes; in a template write it with quote",
    source="https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/object-meta/",
    check=check,
)
