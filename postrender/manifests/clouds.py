"""The clouds that a node label or a machine name belongs to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from re import Pattern

    from postrender.wiring.plan import Wiring

# The domains of the labels that each cloud's Kubernetes writes onto its nodes, with those below them, and how the names
# of its machines begin. docs.cloud.google.com (kubernetes-engine, node-pools and spot-vms), docs.aws.amazon.com (eks,
# managed-node-groups and auto-mode), karpenter.sh (concepts/scheduling), learn.microsoft.com (aks, use-labels),
# docs.oracle.com (ContEng, contengsupportedlabelsusecases), docs.coreweave.com (cks, workload-scheduling;
# infiniband-roce-labels).
_CLOUDS: Final[Mapping[str, tuple[str, ...]]] = {
    "GKE": ("cloud.google.com", "gke.io", "gke.networks.io"),
    "EKS": ("amazonaws.com", "k8s.aws", "eksctl.io"),
    "AKS": ("azure.com",),
    "OKE": ("oraclecloud.com",),
    "CoreWeave": ("coreweave.cloud", "coreweave.com"),
}
# Karpenter makes nodes of EKS and AKS, of OKE (docs.oracle.com, conteng-kpo) and of GKE (karpenter-provider-gcp).
_KARPENTER: Final = ("karpenter.sh", frozenset({"EKS", "AKS", "OKE", "GKE"}))
_MACHINES: Final[Mapping[str, Pattern[str]]] = {
    "EKS": re.compile(r"[a-z][a-z0-9-]{0,40}\.(metal|[0-9a-z]{0,20}large)"),
    "AKS": re.compile(r"Standard_"),
    "OKE": re.compile(r"(BM|VM)\."),
}
TYPES: Final = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")


def of_wiring(wiring: Wiring) -> frozenset[str]:
    """Return the clouds that the values can be for, by their machine's labels; empty if the labels do not tell."""
    if wiring.is_google:
        return frozenset({"GKE"})
    return of_machine([*wiring.labels.items(), (wiring.gpu_label, "")], wiring.machine_type)


def of_machine(labels: Iterable[tuple[str, str]], machine: str) -> frozenset[str]:
    """Return a machine's clouds by its nodes' labels, else by its name."""
    found = [known for label, _ in labels if (known := of_label(label))]
    types = [machine, *(value for label, value in labels if label in TYPES)]
    found += [frozenset({name}) for name, known in _MACHINES.items() if any(known.match(each) for each in types)]
    return frozenset.intersection(*found) if found else frozenset()


def of_label(label: str) -> frozenset[str]:
    """Return the clouds whose nodes have a label, by the label's domain; empty if it may be any cloud's."""
    domain = label.partition("/")[0]
    if domain == _KARPENTER[0]:
        return _KARPENTER[1]
    return frozenset(
        name
        for name, domains in _CLOUDS.items()
        if any(domain == each or domain.endswith(f".{each}") for each in domains)
    )


def listed(names: Iterable[str]) -> str:
    """Return cloud names as a list, for messages."""
    return " or ".join(sorted(names))
