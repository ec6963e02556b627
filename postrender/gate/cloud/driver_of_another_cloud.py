"""A volume must not need another cloud's storage driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from postrender.finding import ERROR, Finding
from postrender.gate.manifests import Manifests
from postrender.manifests.pods import mapping, sequence
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.gate.manifests import Item
    from postrender.manifests.pods import Path

_GKE: Final = "GKE"
# How the names of the drivers end that a cloud's managed Kubernetes has.
_CLOUDS: Final = {".gke.io": _GKE, ".aws.com": "EKS", ".azure.com": "AKS"}


def check(manifests: Manifests) -> Iterator[Finding]:
    """Compare the volumes' drivers with the values' platform."""
    if not manifests.wiring:
        return
    for item, path, driver in _drivers(manifests):
        cloud = next((name for end, name in _CLOUDS.items() if driver.endswith(end)), "")
        if cloud and (cloud == _GKE) != manifests.wiring.is_google:
            platform = "for GKE" if manifests.wiring.is_google else "not for GKE (platform.kind)"
            yield item.finding(
                path, f"the volume needs {driver}, which only {cloud} has, and the values are {platform}"
            )


def _drivers(manifests: Manifests) -> Iterator[tuple[Item, Path, str]]:
    """Yield the object, path and name of each driver that a pod or a PersistentVolume names."""
    for item, pod in manifests.pods():
        for position, volume in enumerate(map(mapping, sequence(pod.spec.get("volumes")))):
            if driver := mapping(volume.get("csi")).get("driver"):
                yield item, (*pod.path, "spec", "volumes", position, "csi", "driver"), str(driver)
    for item in manifests.of_kinds(["PersistentVolume"]):
        if driver := mapping(mapping(item.object.get("spec")).get("csi")).get("driver"):
            yield item, ("spec", "csi", "driver"), str(driver)


RULE = Problem(
    "storage/driver-of-another-cloud",
    target=OBJECTS,
    severity=ERROR,
    fails=Fails.PENDING,
    title="a volume needs a storage driver that the cluster does not have",
    why="no node has the driver, and the pod waits for its volume in ContainerCreating",
    fix="mount a claim of the cluster (storage.data.existingClaim in our charts), or correct platform.kind",
    source="https://kubernetes.io/docs/concepts/storage/volumes/#csi",
    check=check,
)
