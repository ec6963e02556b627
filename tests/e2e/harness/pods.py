"""What the status of a pod says."""

from __future__ import annotations

from harness.kube import Manifest


def is_ready(pod: Manifest) -> bool:
    """Tell whether a pod (or a node) is ready and is not being deleted."""
    conditions = {entry["type"]: entry["status"] for entry in pod.get("status", {}).get("conditions", [])}
    return conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]
