"""Read what all Kubernetes objects have, such as labels and conditions, and the RayCluster of a RayJob."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from postrender.manifests.pods import mapping, sequence


def name_of(item: Mapping[str, Any]) -> str:
    """Return an object's name."""
    return str(mapping(item.get("metadata")).get("name", ""))


def labels_of(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object's labels."""
    return mapping(mapping(item.get("metadata")).get("labels"))


def cluster_of(rayjob: Mapping[str, Any]) -> str:
    """Return the name of the RayCluster on which a RayJob runs; empty if KubeRay has not chosen one yet."""
    chosen = mapping(rayjob.get("status")).get("rayClusterName")
    selector = mapping(mapping(rayjob.get("spec")).get("clusterSelector"))
    return str(chosen or selector.get("ray.io/cluster") or "")


def conditions(item: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return an object's conditions by type."""
    found = map(mapping, sequence(mapping(item.get("status")).get("conditions")))
    return {str(each.get("type")): each for each in found}


def is_ready(item: Mapping[str, Any]) -> bool:
    """Return whether a pod or a node is ready and not being deleted."""
    stays = "deletionTimestamp" not in mapping(item.get("metadata"))
    return stays and conditions(item).get("Ready", {}).get("status") == "True"
