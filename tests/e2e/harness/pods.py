"""What a kubelet makes of a pod before it starts a container: its environment and its mounts."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

from harness.kube import Kube, Manifest

# `$(NAME)` in a value refers to a variable that stands before it; `$$(NAME)` is literal.
REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")


def environment(kube: Kube, pod: Manifest, container: Manifest, image: dict[str, str]) -> dict[str, str]:
    """Return a container's variables: those of the image, then those of the pod with references resolved.

    Raises AssertionError where a kubelet would refuse to start the container.
    """
    resolved = dict(image)
    for entry in container.get("env", []):
        if "valueFrom" in entry:
            value = from_source(kube, pod, container, entry["valueFrom"], entry["name"])
        else:
            value = expand(entry.get("value", ""), resolved)
        if value is not None:
            resolved[entry["name"]] = value
    return resolved


def expand(text: str, variables: dict[str, str]) -> str:
    """Replace `$(NAME)` as a kubelet does: an unknown name stays as it is written."""

    def replacement(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return variables.get(match[1], match[0])

    return REFERENCE.sub(replacement, text)


def from_source(kube: Kube, pod: Manifest, container: Manifest, source: dict[str, Any], name: str) -> str | None:
    """Resolve one `valueFrom`; None for an optional key that does not exist."""
    kind, reference = next(iter(source.items()))
    if kind == "fieldRef":
        return field(pod, reference["fieldPath"])
    if kind == "resourceFieldRef":
        request, _, resource = reference["resource"].partition(".")
        return str(container["resources"][request][resource])
    found = kube.find(kind.removesuffix("KeyRef").lower(), reference["name"], pod["metadata"]["namespace"])
    data = (found or {}).get("data", {})
    if reference["key"] not in data:
        assert reference.get("optional"), f"{name}: no key {reference['key']} in {kind} {reference['name']}"
        return None
    return base64.b64decode(data[reference["key"]]).decode() if kind == "secretKeyRef" else str(data[reference["key"]])


def field(pod: Manifest, path: str) -> str:
    """Read a downward-API field path such as `metadata.name` or `metadata.labels['ray.io/cluster']`."""
    if match := re.fullmatch(r"metadata\.(labels|annotations)\['([^']+)'\]", path):
        return str(pod["metadata"].get(match[1], {}).get(match[2], ""))
    value: Any = pod
    for part in path.split("."):
        value = value[part]
    return str(value)


def mounts(pod: Manifest, container: Manifest, host: Path, volumes: Path) -> dict[str, Path]:
    """Map each mount path of a container to the folder that stands for its volume.

    hostPath volumes come from below `host`, a made-up machine; claims have a folder each below `volumes`, which
    outlives pods; emptyDir volumes are left out.
    Raises AssertionError where a kubelet would refuse the mount.
    """
    named: dict[str, Path] = {}
    for volume in pod["spec"].get("volumes", []):
        if "hostPath" in volume:
            named[volume["name"]] = host_path(volume["hostPath"], host)
        elif "persistentVolumeClaim" in volume:
            claim = volume["persistentVolumeClaim"]["claimName"]
            named[volume["name"]] = volumes / pod["metadata"]["namespace"] / claim
            named[volume["name"]].mkdir(parents=True, exist_ok=True)
    asked = container.get("volumeMounts", [])
    return {mount["mountPath"]: named[mount["name"]] for mount in asked if mount["name"] in named}


def host_path(volume: Manifest, host: Path) -> Path:
    """Find a hostPath volume on the made-up machine; its type says whether it may be missing."""
    folder = host / str(volume["path"]).lstrip("/")
    if volume.get("type") == "Directory":
        assert folder.is_dir(), f"hostPath type check failed: {volume['path']} is not a directory"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def is_ready(pod: Manifest) -> bool:
    """Tell whether a pod (or a node) is ready and is not being deleted."""
    conditions = {entry["type"]: entry["status"] for entry in pod.get("status", {}).get("conditions", [])}
    return conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]
