"""Managed Lustre volumes that the driver rejects or silently misinterprets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from grpo.problems.pods.podspec import name_of, objects
from postrender.finding import ERROR, Finding
from postrender.gate.manifests import Manifests
from postrender.manifests.pods import mapping
from postrender.problem import OBJECTS, Fails, Problem
from postrender.values.quantity import quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.gate.manifests import Item

DRIVER: Final = "lustre.csi.storage.gke.io"
_TOKENS: Final = 3
_FILESYSTEM: Final = re.compile(r"[A-Za-z0-9]{1,8}\Z")
# Throughput in MB/s per TiB, with the minimum size and the step, which are equal, in GiB.
_STEPS: Final = {"1000": 9000, "500": 18000, "250": 36000, "125": 72000}
_PARAMETERS: Final = ("network", "filesystem", "labels", "description", "perUnitStorageThroughput")
_OF_KUBERNETES: Final = "csi.storage.k8s.io/"
_NETWORK: Final = re.compile(r"(?:projects/[^/\s]+/global/networks/)?[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?\Z")
_OF_GKE: Final = re.compile(r"lustre-rwx-(\d+)mbps-per-tib\Z")
_GIBIBYTE: Final = 1024**3
_CONTROLLER: Final = "lustre-csi-driver/pkg/csi_driver/controller.go at 89f1eb73"


def _volumes(manifests: Manifests) -> Iterator[tuple[Item, dict[str, Any]]]:
    for item, spec in objects(manifests, "PersistentVolume"):
        csi = mapping(spec.get("csi"))
        if csi.get("driver") == DRIVER:
            yield item, csi


def _handle(manifests: Manifests) -> Iterator[Finding]:
    for item, csi in _volumes(manifests):
        handle = str(csi.get("volumeHandle", ""))
        tokens = handle.partition(":")[0].split("/")
        if len(tokens) != _TOKENS or not all(tokens):
            what = f"volumeHandle has {len(tokens)} parts, expected PROJECT/LOCATION/INSTANCE"
            yield item.finding(("spec", "csi", "volumeHandle"), what)
        filesystem = mapping(csi.get("volumeAttributes")).get("filesystem")
        if filesystem is not None and not _FILESYSTEM.match(str(filesystem)):
            path = ("spec", "csi", "volumeAttributes", "filesystem")
            yield item.finding(path, "filesystem is not 1 to 8 letters and digits")


def _classes(manifests: Manifests) -> Iterator[tuple[Item, dict[str, Any]]]:
    for item, _ in objects(manifests, "StorageClass"):
        if item.object.get("provisioner") == DRIVER:
            yield item, mapping(item.object.get("parameters"))


def _parameters(manifests: Manifests) -> Iterator[Finding]:
    for item, given in _classes(manifests):
        rate = given.get("perUnitStorageThroughput")
        if rate is None:
            yield item.finding(("parameters",), "there is no perUnitStorageThroughput")
        elif str(rate) not in _STEPS:
            what = f"perUnitStorageThroughput is {rate}, expected {', '.join(_STEPS)}"
            yield item.finding(("parameters", "perUnitStorageThroughput"), what)
        for name in given:
            if name not in _PARAMETERS and not name.startswith(_OF_KUBERNETES):
                yield item.finding(("parameters", name), f"there is no parameter {name}")


def _network(manifests: Manifests) -> Iterator[Finding]:
    for item, given in _classes(manifests):
        network = given.get("network")
        if network is not None and not _NETWORK.match(str(network)):
            what = "network is neither a name nor projects/PROJECT/global/networks/NAME"
            yield item.finding(("parameters", "network"), what)


def _size(manifests: Manifests) -> Iterator[Finding]:
    rates = {name_of(item): str(given.get("perUnitStorageThroughput")) for item, given in _classes(manifests)}
    static = {str(mapping(spec.get("claimRef")).get("name")) for _, spec in objects(manifests, "PersistentVolume")}
    for item, spec in objects(manifests, "PersistentVolumeClaim"):
        named = str(spec.get("storageClassName"))
        known = _OF_GKE.match(named)
        step = _STEPS.get(rates.get(named, known[1] if known else ""))
        asked = mapping(mapping(spec.get("resources")).get("requests")).get("storage")
        size = quantity(asked) if asked is not None else None
        # A claim of an existing volume may request less than the volume has.
        if step is None or size is None or spec.get("volumeName") or name_of(item) in static:
            continue
        if size < step * _GIBIBYTE or size % (step * _GIBIBYTE):
            what = f"the claim requests {asked}, and sizes of this class are multiples of {step}Gi"
            yield item.finding(("spec", "resources", "requests", "storage"), what)


RULES = (
    Problem(
        "storage/lustre-handle",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.PENDING,
        title="a Lustre volume has a handle or a file system name that the driver refuses",
        why="the driver refuses the mount: it expects three parts, and a file system name of up to 8 characters",
        fix="write volumeHandle: PROJECT/LOCATION/INSTANCE, and filesystem as the instance has it",
        source=_CONTROLLER,
        check=_handle,
    ),
    Problem(
        "storage/lustre-parameters",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.PENDING,
        title="a Lustre storage class has parameters that the driver refuses, or lacks a required one",
        why="the class is accepted, and the claim stays pending with an event",
        fix="write perUnitStorageThroughput as 125, 250, 500 or 1000, and remove unknown parameters",
        source=_CONTROLLER,
        check=_parameters,
    ),
    Problem(
        "storage/lustre-network",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.PENDING,
        title="a Lustre storage class has a network name that the driver cannot parse",
        why="the driver uses the VPC called default instead, and the nodes cannot reach the instance",
        fix="write the network's name, or projects/PROJECT/global/networks/NAME",
        source=_CONTROLLER,
        check=_network,
    ),
    Problem(
        "storage/lustre-size",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.PENDING,
        title="a Lustre claim requests a size that does not exist for its class",
        why="Managed Lustre has a minimum size and a step for each throughput, and refuses the instance",
        fix="write a multiple of 9000Gi (1000 MB/s per TiB), 18000Gi (500), 36000Gi (250) or 72000Gi (125)",
        source="https://docs.cloud.google.com/managed-lustre/docs/increase-capacity",
        check=_size,
    ),
)
