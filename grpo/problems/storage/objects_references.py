"""A pod's volumes and the objects that it references."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from grpo.manifests.needs import references
from grpo.problems.pods.podspec import PodView, each_pod, name_of, objects
from postrender.finding import ERROR, WARNING, Finding
from postrender.gate.manifests import Manifests
from postrender.manifests.pods import mapping, sequence
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.problems.pods.podspec import Found
    from postrender.gate.manifests import Item
    from postrender.manifests.pods import Path
    from postrender.types import Json

# Volumes for a sidecar that is added when the pod is created.
_INJECTED: Final = ("gke-gcsfuse-", "istio", "linkerd", "workload-", "credential-socket", "vault-")
_MOUNTS: Final = ("volumeMounts", "volumeDevices")
_LISTS: Final = ("initContainers", "containers", "ephemeralContainers")
_KINDS: Final = {"ConfigMap": "ConfigMap", "Secret": "Secret", "PersistentVolumeClaim": "claim"}
# Long texts that name no objects.
_SCHEMAS: Final = "CustomResourceDefinition"
_FEW: Final = 20
_OF_CLUSTER: Final = ("kube-root-ca.crt",)


def _mounted(pod: PodView) -> Iterator[tuple[Path, str]]:
    for key in _LISTS:
        for number, container in enumerate(map(mapping, sequence(pod.spec.get(key)))):
            for kind in _MOUNTS:
                for place, each in enumerate(map(mapping, sequence(container.get(kind)))):
                    yield pod.path(key, number, kind, place), str(each.get("name", ""))


def _claimed(pod: PodView) -> set[str]:
    """Return the volumes that a StatefulSet creates for each pod."""
    spec = mapping(pod.item.object.get("spec"))
    templates = map(mapping, sequence(spec.get("volumeClaimTemplates")))
    return {str(mapping(each.get("metadata")).get("name")) for each in templates}


def _no_volume(pod: PodView) -> Found:
    known = {name for _, name, _ in pod.volumes()} | _claimed(pod)
    for path, name in _mounted(pod):
        if name not in known:
            yield path, f"{name} is mounted, and the pod has no volume of this name"


def _no_mount(pod: PodView) -> Found:
    used = {name for _, name in _mounted(pod)}
    for path, name, _ in pod.volumes():
        if name and name not in used and not name.startswith(_INJECTED):
            yield path, f"no container mounts the volume {name}"


def _absent(manifests: Manifests) -> Iterator[Finding]:
    """Find a name that no object of a kind has, if there is exactly one such name and one unused object of this kind.

    Secrets and claims are often created elsewhere, so a missing object alone is no evidence of a mistake.
    """
    made = {(each.object["kind"], name_of(each)) for each, _ in objects(manifests, *_KINDS)}
    named: dict[tuple[str, str], list[tuple[Item, Path]]] = {}
    for item, pod in manifests.pods():
        for each in references.of_volumes_and_variables(pod.spec, (*pod.path, "spec")):
            named.setdefault((each.kind, each.name), []).append((item, each.path))
    for kind, called in _KINDS.items():
        gone = [
            name for known, name in named if known == kind and (known, name) not in made and name not in _OF_CLUSTER
        ]
        if len(gone) == 1:
            unnamed = {name for known, name in made - named.keys() if known == kind}
            idle = unnamed - _named_elsewhere(manifests, unnamed)
            what = f"there is no {kind} {gone[0]} here, and nothing uses the {called} {min(idle, default='')}"
            for item, path in named[kind, gone[0]] if len(idle) == 1 else ():
                yield item.finding(path, what)


def _named_elsewhere(manifests: Manifests, names: set[str]) -> set[str]:
    """Return the names that occur in other objects: an Ingress or an operator's object may name a Secret."""
    found: set[str] = set()
    for each in manifests.items:
        if str(each.object.get("kind")) in (*_KINDS, _SCHEMAS):
            continue
        text = manifests.texts[each.document]
        # Most texts contain none of the names; a text with escapes may write one differently.
        if len(names) > _FEW or "\\" in text or any(name in text for name in names):
            below = [value for key, value in each.object.items() if key not in ("metadata", "data", "kind")]
            found |= names.intersection(_strings(below))
    return found


def _strings(value: list[Json]) -> Iterator[str]:
    pending: list[Any] = [value]
    while pending:
        value = pending.pop()
        for each in value.values() if isinstance(value, dict) else value:
            if isinstance(each, str):
                yield each
            elif isinstance(each, dict | list):
                pending.append(each)


RULES = (
    Problem(
        "storage/mount-without-volume",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_ADMISSION,
        title="a container mounts a volume that the pod does not have",
        why="Kubernetes refuses the pod; for a custom resource such as a RayCluster, only its operator notices",
        fix="add the volume, or correct the name of the mount",
        source="https://kubernetes.io/docs/concepts/storage/volumes/",
        check=each_pod(_no_volume),
    ),
    Problem(
        "storage/volume-not-mounted",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.SILENT,
        title="a pod has a volume that no container mounts",
        why="the container does not see the volume: data is written elsewhere and lost, or a folder stays in use",
        fix="mount it, or remove the volume",
        source="https://kubernetes.io/docs/concepts/storage/volumes/",
        check=each_pod(_no_mount),
    ),
    Problem(
        "storage/reference-absent",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.PENDING,
        title="a pod names an object that does not exist, but another object of this kind is unused",
        why="the names differ: the pod stays in ContainerCreating",
        fix="write the same name in both places",
        source="https://kubernetes.io/docs/concepts/configuration/configmap/",
        check=_absent,
    ),
)
