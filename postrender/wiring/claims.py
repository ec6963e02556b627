"""Build the objects that a pod's claims refer to, without labels and namespace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def template(name: str, claim: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ResourceClaimTemplate for a claim; `asked` is its entry in the profile's `claims`."""
    exactly = {"deviceClassName": asked["deviceClass"], "allocationMode": "ExactCount", "count": asked["count"]}
    if "selector" in asked:
        exactly["selectors"] = [{"cel": {"expression": asked["selector"]}}]
    devices: dict[str, Any] = {"requests": [{"name": claim, "exactly": exactly}]}
    if "matchAttribute" in asked:
        devices["constraints"] = [{"requests": [claim], "matchAttribute": asked["matchAttribute"]}]
    return _object("resource.k8s.io/v1", "ResourceClaimTemplate", name, {"spec": {"devices": devices}})


def domain(name: str, nodes: int | None) -> dict[str, Any]:
    """Return the ComputeDomain that connects `nodes` nodes by NVLink."""
    spec = {"numNodes": nodes, "channel": {"resourceClaimTemplate": {"name": name}}}
    return _object("resource.nvidia.com/v1beta1", "ComputeDomain", name, spec)


def _object(version: str, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
