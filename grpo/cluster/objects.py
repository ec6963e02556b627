"""Read what all Kubernetes objects have: kind, name, labels and conditions."""

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


def conditions(item: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return an object's conditions by type."""
    found = map(mapping, sequence(mapping(item.get("status")).get("conditions")))
    return {str(each.get("type")): each for each in found}


def is_ready(item: Mapping[str, Any]) -> bool:
    """Return whether a pod or a node is ready and not being deleted."""
    stays = "deletionTimestamp" not in mapping(item.get("metadata"))
    return stays and conditions(item).get("Ready", {}).get("status") == "True"
