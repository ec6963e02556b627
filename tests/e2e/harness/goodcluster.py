"""What a stack needs and its charts do not bring: operator, installer and driver, and what GKE's controllers write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from harness.kube import Kube, Manifest
from harness.planting import change
from harness.stack import Stack
from harness.waiting import until

OPERATOR: Final = "kuberay-system"
NETWORKS: Final = "networks.networking.gke.io"
INSTALLER: Final = "nccl-rdma-installer"
SINCE: Final = "2026-01-01T00:00:00Z"
READY: Final = {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": SINCE}


def operator() -> Manifest:
    """Describe the Deployment of an operator; its pod is kwok's."""
    labels = {"app.kubernetes.io/name": "kuberay-operator"}
    container = {"name": "operator", "image": "quay.io/kuberay/operator:v1.6.2"}
    about = {"name": "kuberay-operator", "namespace": OPERATOR, "labels": labels}
    selector = {"app": "kuberay-operator"}
    template = {"metadata": {"labels": selector}, "spec": {"containers": [container]}}
    # The old pod goes first: a fault must not leave two.
    spec = {"selector": {"matchLabels": selector}, "strategy": {"type": "Recreate"}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": about, "spec": spec}


def installer(image: str = "installer") -> Manifest:
    """Describe a DaemonSet that stands for the one of Google's manifest; its program must not end."""
    labels = {"name": INSTALLER}
    spec = {
        "nodeSelector": {"cloud.google.com/gke-accelerator": "nvidia-b200"},
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "installer", "image": image}],
    }
    template = {"metadata": {"labels": labels}, "spec": spec}
    about = {"name": INSTALLER, "namespace": "kube-system"}
    fields = {"selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": about, "spec": fields}


def driver() -> Manifest:
    """Describe GKE's driver for buckets."""
    about = {"name": "gcsfuse.csi.storage.gke.io"}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": about, "spec": {}}


def make_networks_ready(kube: Kube) -> None:
    """Say of every network that it is ready, as GKE's controller does."""
    for each in kube.list(NETWORKS):
        change(kube, NETWORKS, each["metadata"]["name"], {"status": {"conditions": [READY]}}, status=True)


def ready_installers(kube: Kube) -> int:
    """Return on how many nodes the installer is ready."""
    return int(kube.get("daemonset", INSTALLER, "kube-system").get("status", {}).get("numberReady", 0))


def is_good(kube: Kube, stack: Stack) -> bool:
    """Tell whether the controllers have done their part."""
    claims = kube.list("persistentvolumeclaims", stack.namespace)
    available = kube.get("deployment", "kuberay-operator", OPERATOR).get("status", {}).get("availableReplicas")
    bound = [claim["status"].get("phase") == "Bound" for claim in claims]
    return bool(available and ready_installers(kube) and bound and all(bound))


@contextmanager
def prepared(kube: Kube, stack: Stack, queue: Iterable[Manifest]) -> Iterator[None]:
    """Make all that the stack needs, install its network and storage, and take all of it away again."""
    made = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OPERATOR}},
        *(operator(), installer(), driver()),
    ]
    kube.create(made)
    queued = [
        {**each, "metadata": {**each["metadata"], "namespace": stack.namespace}}
        if each["kind"] == "LocalQueue"
        else each
        for each in queue
    ]
    # A queue may be there from another test, whose Kueue has ended.
    kube.apply(queued)
    # Faults are planted by another field manager, with which the next test's apply would be in conflict.
    made += queued
    stack.install("network", "storage")
    make_networks_ready(kube)
    until(lambda: is_good(kube, stack), "operator, installer and claims")
    try:
        yield
    finally:
        stack.uninstall_all()
        for each in reversed(made):
            kube.delete(each["kind"].lower(), each["metadata"]["name"], each["metadata"].get("namespace", ""))
