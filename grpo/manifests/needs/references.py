"""Find the objects that objects refer to by name and without which they cannot start or be created."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple

from postrender import json_text
from postrender.manifests import pods
from postrender.manifests.pods import Path, mapping, sequence
from postrender.values.profiles import INTERFACES

# Where a pod's volumes and variables name an object: the key of the reference, the key of the name, the kind.
_SOURCES: Final = {
    "configMap": ("name", "ConfigMap"),
    "secret": ("secretName", "Secret"),
    "persistentVolumeClaim": ("claimName", "PersistentVolumeClaim"),
    "configMapRef": ("name", "ConfigMap"),
    "secretRef": ("name", "Secret"),
    "configMapKeyRef": ("name", "ConfigMap"),
    "secretKeyRef": ("name", "Secret"),
}
_LISTS: Final = ("initContainers", "containers", "ephemeralContainers")
# The key of a Secret that pulls images.
PULL_KEY: Final = ".dockerconfigjson"
_NAMED_IN_SPEC: Final = {
    "serviceAccountName": "ServiceAccount",
    "priorityClassName": "PriorityClass",
    "runtimeClassName": "RuntimeClass",
}
_CLAIMS: Final = {"resourceClaimName": "ResourceClaim", "resourceClaimTemplateName": "ResourceClaimTemplate"}
_LABELS: Final = {"kueue.x-k8s.io/queue-name": "LocalQueue", "kueue.x-k8s.io/priority-class": "WorkloadPriorityClass"}
# Provisioners of this prefix are part of Kubernetes, or of nothing: no driver brings them.
_IN_TREE: Final = "kubernetes.io/"


class Reference(NamedTuple):
    """One reference to an object: its kind and name, the path below the referring object, and the keys that it reads.

    `taken_by` is the variable or the volume that uses it, empty for anything else. Without keys, the entire object is
    read.
    """

    kind: str
    name: str
    path: Path
    keys: tuple[str, ...] = ()
    taken_by: str = ""

    @property
    def is_variable(self) -> bool:
        """Return whether a container's variables use the reference."""
        return bool({"env", "envFrom"}.intersection(self.path))


def of_object(item: Mapping[str, Any]) -> Iterator[Reference]:
    """Yield the objects that an object of any kind needs by name."""
    for pod in pods.pods(item):
        yield from of_pod(pod)
    kind, spec = str(item.get("kind")), mapping(item.get("spec"))
    labels = mapping(mapping(item.get("metadata")).get("labels"))
    for label, named in _LABELS.items():
        yield from _named(named, labels.get(label), ("metadata", "labels", label))
    if kind == "PersistentVolumeClaim":
        yield from _of_claim(spec, ("spec",))
    elif kind == "StatefulSet":
        for number, each in enumerate(map(mapping, sequence(spec.get("volumeClaimTemplates")))):
            yield from _of_claim(mapping(each.get("spec")), ("spec", "volumeClaimTemplates", number, "spec"))
    elif kind == "PersistentVolume":
        yield from _named("CSIDriver", mapping(spec.get("csi")).get("driver"), ("spec", "csi", "driver"))
    elif kind == "StorageClass" and not str(item.get("provisioner")).startswith(_IN_TREE):
        yield from _named("CSIDriver", item.get("provisioner"), ("provisioner",))
    elif kind in ("ResourceClaim", "ResourceClaimTemplate"):
        yield from _of_devices(spec, kind)
    elif kind == "Network":
        parameters = mapping(spec.get("parametersRef"))
        yield from _named(str(parameters.get("kind")), parameters.get("name"), ("spec", "parametersRef", "name"))


def of_pod(pod: pods.Pod) -> Iterator[Reference]:
    """Yield the objects that a pod needs by name."""
    spec, path = pod.spec, (*pod.path, "spec")
    yield from of_volumes_and_variables(spec, path)
    for key, kind in _NAMED_IN_SPEC.items():
        yield from _named(kind, spec.get(key), (*path, key))
    for number, each in enumerate(map(mapping, sequence(spec.get("imagePullSecrets")))):
        for found in _named("Secret", each.get("name"), (*path, "imagePullSecrets", number, "name")):
            yield found._replace(keys=(PULL_KEY,))
    for number, each in enumerate(map(mapping, sequence(spec.get("resourceClaims")))):
        for key, kind in _CLAIMS.items():
            yield from _named(kind, each.get(key), (*path, "resourceClaims", number, key))
    for number, volume in enumerate(map(mapping, sequence(spec.get("volumes")))):
        for found in _of_driver(volume, (*path, "volumes", number)):
            yield found._replace(taken_by=str(volume.get("name", "")))
    note = (*pod.path, "metadata", "annotations", INTERFACES)
    for name in networks(pod):
        yield Reference("Network", name, note)


def networks(pod: pods.Pod) -> list[str]:
    """Return the GKE networks that a pod's annotation names, without the pod network."""
    text = mapping(mapping(pod.template.get("metadata")).get("annotations")).get(INTERFACES)
    try:
        listed = sequence(json_text.loads(str(text)) if text else [])
    except ValueError:
        listed = []
    names = [str(mapping(each).get("network")) for each in listed]
    return [name for name in names if name != "default"]


def of_volumes_and_variables(spec: Mapping[str, Any], path: Path) -> Iterator[Reference]:
    """Yield the Secrets, ConfigMaps and claims that a pod's volumes and variables need by name."""
    mounted = _mounted_keys(spec)
    for number, volume in enumerate(map(mapping, sequence(spec.get("volumes")))):
        name = str(volume.get("name", ""))
        for found in _sources(volume, (*path, "volumes", number), name):
            is_claim = found.kind == "PersistentVolumeClaim"
            yield found if found.keys or is_claim else found._replace(keys=mounted.get(name, ()))
        for place, each in enumerate(map(mapping, sequence(mapping(volume.get("projected")).get("sources")))):
            at = (*path, "volumes", number, "projected", "sources", place)
            yield from _sources(each, at, name, projected=True)
    for key in _LISTS:
        for number, container in enumerate(map(mapping, sequence(spec.get(key)))):
            for place, each in enumerate(map(mapping, sequence(container.get("env")))):
                if "valueFrom" in each:
                    at = (*path, key, number, "env", place, "valueFrom")
                    yield from _sources(mapping(each["valueFrom"]), at, str(each.get("name", "")))
            for place, each in enumerate(map(mapping, sequence(container.get("envFrom")))):
                yield from _sources(each, (*path, key, number, "envFrom", place))


def _mounted_keys(spec: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return, by volume, the files that containers mount one by one; none for a volume that is mounted as a whole."""
    found: dict[str, tuple[str, ...]] = {}
    whole = set()
    for container in map(mapping, chain.from_iterable(sequence(spec.get(key)) for key in _LISTS)):
        for each in map(mapping, sequence(container.get("volumeMounts"))):
            name, file = str(each.get("name", "")), str(each.get("subPath") or "").partition("/")[0]
            if file:
                found[name] = tuple(dict.fromkeys((*found.get(name, ()), file)))
            else:
                whole.add(name)
    return {name: files for name, files in found.items() if name not in whole}


def _sources(
    holder: Mapping[str, Any], path: Path, taken_by: str = "", *, projected: bool = False
) -> Iterator[Reference]:
    for key, source in holder.items():
        name, kind = _SOURCES.get(key, ("", ""))
        if name and isinstance(source, dict):
            name = "name" if projected else name
            if isinstance(source.get(name), str) and source.get("optional") is not True:
                keys = [source.get("key"), *(mapping(each).get("key") for each in sequence(source.get("items")))]
                read = tuple(dict.fromkeys(str(each) for each in keys if each))
                yield Reference(kind, source[name], (*path, key, name), read, taken_by)


def _of_driver(volume: Mapping[str, Any], path: Path) -> Iterator[Reference]:
    """Yield what a volume without a claim needs: its driver, the driver's Secret, or a storage class."""
    driver = mapping(volume.get("csi"))
    yield from _named("CSIDriver", driver.get("driver"), (*path, "csi", "driver"))
    secret = mapping(driver.get("nodePublishSecretRef"))
    yield from _named("Secret", secret.get("name"), (*path, "csi", "nodePublishSecretRef", "name"))
    below = ("ephemeral", "volumeClaimTemplate", "spec")
    template = mapping(mapping(mapping(volume.get("ephemeral")).get("volumeClaimTemplate")).get("spec"))
    yield from _of_claim(template, (*path, *below))


def _of_claim(spec: Mapping[str, Any], path: Path) -> Iterator[Reference]:
    """Yield a claim's volume, or the class that creates one: a claim that names its volume needs no class."""
    volume = spec.get("volumeName")
    yield from _named("PersistentVolume", volume, (*path, "volumeName"))
    if not volume:
        yield from _named("StorageClass", spec.get("storageClassName"), (*path, "storageClassName"))


def _of_devices(spec: Mapping[str, Any], kind: str) -> Iterator[Reference]:
    path: Path = ("spec", "spec") if kind == "ResourceClaimTemplate" else ("spec",)
    inner = mapping(spec.get("spec")) if kind == "ResourceClaimTemplate" else spec
    requests = map(mapping, sequence(mapping(inner.get("devices")).get("requests")))
    for number, request in enumerate(requests):
        at = (*path, "devices", "requests", number)
        for more, holder in (((), request), (("exactly",), mapping(request.get("exactly")))):
            yield from _named("DeviceClass", holder.get("deviceClassName"), (*at, *more, "deviceClassName"))
        for place, each in enumerate(map(mapping, sequence(request.get("firstAvailable")))):
            yield from _named(
                "DeviceClass", each.get("deviceClassName"), (*at, "firstAvailable", place, "deviceClassName")
            )


def _named(kind: str, name: object, path: Path) -> Iterator[Reference]:
    if isinstance(name, str) and name:
        yield Reference(kind, name, path)


def of_objects(objects: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], Reference]]:
    """Yield what each of several objects needs by name, together with the object."""
    for item in objects:
        for found in of_object(item):
            yield item, found
