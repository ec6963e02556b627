"""RDMA devices as the drivers of GKE and EKS publish them, on fake nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from harness.kube import Kube, Manifest

API = "resource.k8s.io/v1"
DRIVER = "dra.net"
CLASS = "mrdma.google.com"
# GKE labels nodes whose networks it has made.
PROFILE = "gke.networks.io/accelerator-network-profile"


def device_class(name: str = CLASS) -> Manifest:
    """Describe the class of RDMA devices as GKE's driver does: by an expression on the driver's name."""
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    return {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": name}, "spec": {"selectors": [selector]}}


def resource_slice(node: str, count: int = 8) -> Manifest:
    """Describe the RDMA devices of one node."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"gpu{number}rdma0"} for number in range(count)]
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    return {"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": f"{node}-rdma"}, "spec": spec}


@contextmanager
def published(kube: Kube, nodes: Sequence[str], labelled: Sequence[str]) -> Iterator[None]:
    """Let `nodes` publish their devices, and let GKE have made the networks of those that are `labelled`."""
    kube.create([device_class(), *map(resource_slice, nodes)])
    kube.run("label", "node", *labelled, f"{PROFILE}=auto")
    try:
        yield
    finally:
        kube.run("label", "node", *labelled, f"{PROFILE}-")
        for node in nodes:
            kube.delete("resourceslice", f"{node}-rdma")
        kube.delete("deviceclass", CLASS)


def allocated(kube: Kube, namespace: str) -> list[Manifest]:
    """Return the claims of a namespace that have devices."""
    found = kube.list("resourceclaims", namespace)
    return [claim for claim in found if claim.get("status", {}).get("allocation")]
