"""Two entries in a list must not have the same merge key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from postrender.finding import ERROR, Finding
from postrender.gate.manifests import Manifests
from postrender.manifests.pods import mapping, sequence
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.manifests.pods import Path
    from postrender.types import Json

# Lists that the API server merges by key (`+listType=map` in k8s.io/api v0.35.0, core/v1, and in KubeRay's CRDs), with
# its defaults for missing keys. Other lists may repeat an entry: envFrom, tolerations.
_OF_POD = {
    "volumes": ("name",),
    "initContainers": ("name",),
    "containers": ("name",),
    "imagePullSecrets": ("name",),
    "hostAliases": ("ip",),
    "resourceClaims": ("name",),
    "schedulingGates": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
}
_OF_CONTAINER = {
    "env": ("name",),
    "ports": ("containerPort", "protocol"),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
}
_OF_RESOURCES: dict[str, tuple[str, ...]] = {"claims": ("name",)}
_DEFAULTS = {"protocol": "TCP"}
_TWO = 2


def check(manifests: Manifests) -> Iterator[Finding]:
    """Check the lists of each pod and its containers."""
    for item, pod in manifests.pods():
        yield from (item.finding((*pod.path, "spec", *path), what) for path, what in _twice(pod.spec, _OF_POD))
        for kind in ("initContainers", "containers"):
            for position, container in enumerate(map(mapping, sequence(pod.spec.get(kind)))):
                for path, what in _in_container(container):
                    yield item.finding((*pod.path, "spec", kind, position, *path), f"{container.get('name')}: {what}")


def _in_container(container: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    yield from _twice(container, _OF_CONTAINER)
    resources = mapping(container.get("resources"))
    yield from ((("resources", *path), what) for path, what in _twice(resources, _OF_RESOURCES))


def _twice(holder: dict[str, Any], lists: dict[str, tuple[str, ...]]) -> Iterator[tuple[Path, str]]:
    for name, keys in lists.items():
        entries = sequence(holder.get(name))
        if len(entries) < _TWO or len({_first(each, keys) for each in entries}) == len(entries):
            continue
        seen: set[tuple[str, ...]] = set()
        for number, entry in enumerate(map(mapping, entries)):
            if not any(key in entry for key in keys):
                continue
            # null counts as missing.
            identity = tuple(str(entry.get(key) or _DEFAULTS.get(key)) for key in keys)
            if identity in seen:
                yield (name, number), f"{name} has two entries with {'/'.join(keys)} {'/'.join(identity)}"
            seen.add(identity)


def _first(entry: Json, keys: tuple[str, ...]) -> str:
    """Return the value of the first merge key; if these values all differ, no entry is duplicated."""
    return str(entry.get(keys[0])) if type(entry) is dict else ""


RULE = Problem(
    "pods/duplicate-merge-key",
    target=OBJECTS,
    severity=ERROR,
    fails=Fails.AT_ADMISSION,
    title="a list has two entries with the same merge key",
    why="server-side apply, Helm 4's default, refuses it; a client-side apply silently keeps one of the two",
    fix="remove one of the two entries",
    source="https://kubernetes.io/docs/reference/using-api/server-side-apply/#merge-strategy",
    check=check,
)
