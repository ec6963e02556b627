"""What the storage layer leaves on the cluster when it goes: data outlives every release."""

from __future__ import annotations

from conftest import NewStack
from harness.helm import Helm
from harness.kube import Kube, Manifest
from harness.stack import Stack
from harness.waiting import until

DYNAMIC = {"data": {"gcsfuse": None, "pvc": {"storageClassName": "lustre", "size": "18Ti"}}}


def bound(kube: Kube, stack: Stack) -> Manifest:
    """Wait until the claim of the data volume is bound and return its volume."""

    def volume() -> Manifest | None:
        claim = kube.get("persistentvolumeclaim", f"{stack.name}-data", stack.namespace)
        is_bound = claim.get("status", {}).get("phase") == "Bound"
        return kube.get("persistentvolume", claim["spec"]["volumeName"]) if is_bound else None

    return until(volume, "a bound claim")


def test_a_bucket_binds_again_after_a_new_installation(new_stack: NewStack, helm: Helm, kube: Kube) -> None:
    stack = new_stack("b200", helm.program.name)
    stack.install("storage")
    first = bound(kube, stack)
    assert first["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    stack.uninstall("storage")
    kube.until_gone("persistentvolume", first["metadata"]["name"])
    stack.install("storage")
    second = bound(kube, stack)
    assert second["spec"]["csi"]["volumeHandle"] == first["spec"]["csi"]["volumeHandle"]
    stack.uninstall("storage")


def test_a_dynamic_claim_outlives_its_release(new_stack: NewStack, helm: Helm, kube: Kube) -> None:
    stack = new_stack("b200", helm.program.name, storage=DYNAMIC)
    stack.install("storage")
    uid = kube.get("persistentvolumeclaim", f"{stack.name}-data", stack.namespace)["metadata"]["uid"]
    stack.uninstall("storage")
    kept = kube.get("persistentvolumeclaim", f"{stack.name}-data", stack.namespace)
    assert kept["metadata"]["uid"] == uid
    assert "deletionTimestamp" not in kept["metadata"]
    stack.install("storage")
    assert kube.get("persistentvolumeclaim", f"{stack.name}-data", stack.namespace)["metadata"]["uid"] == uid
