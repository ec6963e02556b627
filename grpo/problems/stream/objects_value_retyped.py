"""What Kubernetes expects as a string must be a string in YAML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grpo.problems.pods.podspec import PodView
from postrender.finding import ERROR, Finding
from postrender.gate.manifests import Manifests
from postrender.manifests.pods import mapping, sequence
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.gate.manifests import Item
    from postrender.manifests.pods import Path
    from postrender.types import Json

    Found = tuple[Path, Any]

_WORDS = {bool: "a boolean", int: "a number", float: "a number"}


def check(manifests: Manifests) -> Iterator[Finding]:
    """Check labels, annotations, data, node selectors and container variables."""
    for item in manifests.items:
        for path, value in _retyped(manifests, item):
            name = _name(item.object, path)
            yield item.finding(path, f"{name} is {_WORDS[type(value)]} to Kubernetes, expected a string")


def _retyped(manifests: Manifests, item: Item) -> Iterator[Found]:
    yield from _metadata(item.object, ())
    if str(item.object.get("kind")) in ("ConfigMap", "Secret"):
        for key in ("data", "stringData"):
            yield from _entries(item.object.get(key), key)
    for pod in item.pods:
        if pod.path:
            yield from _metadata(pod.template, pod.path)
        yield from _entries(pod.spec.get("nodeSelector"), *pod.path, "spec", "nodeSelector")
        for container in PodView(manifests, item, pod, wired=False).containers():
            for number, each in enumerate(map(mapping, sequence(container.spec.get("env")))):
                if type(each.get("value")) in _WORDS:
                    yield (*container.path, "env", number, "value"), each["value"]
            for part in ("command", "args"):
                yield from _entries(container.spec.get(part), *container.path, part)


def _metadata(value: dict[str, Any], path: Path) -> Iterator[Found]:
    metadata = mapping(value.get("metadata"))
    for part in ("labels", "annotations"):
        yield from _entries(metadata.get(part), *path, "metadata", part)


def _entries(value: Json, *path: str | int) -> Iterator[Found]:
    """Yield the entries of a map or list that are not strings, with their paths."""
    entries = value.items() if isinstance(value, dict) else enumerate(sequence(value))
    return (((*path, key), each) for key, each in entries if type(each) in _WORDS)


def _name(value: Json, path: Path) -> str:
    """Return the last key of a path; for a variable, its name."""
    if path[-1] != "value":
        return str(path[-1]) if isinstance(path[-1], str) else f"{path[-2]} {path[-1]}"
    for part in path[:-1]:
        value = value[part]
    return str(value.get("name"))


RULE = Problem(
    "stream/value-retyped",
    target=OBJECTS,
    severity=ERROR,
    fails=Fails.AT_ADMISSION,
    title="a value is a number or a boolean to Kubernetes, but must be a string",
    why="on, yes, 1e3 and 08 without quotes are not strings: the API server refuses the object",
    fix="put the value in quotes; in a template use the function quote",
    source="https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/object-meta/",
    check=check,
)
