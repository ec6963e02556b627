"""What the storage layer leaves on the cluster when it goes: whatever a running cluster uses, and all data."""

from __future__ import annotations

import pytest

from conftest import NewStack
from harness.helm import Helm, HelmError
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


def in_use(kube: Kube, stack: Stack) -> list[Manifest]:
    """Return what the pods of a cluster need of the storage layer."""
    return [
        kube.get("persistentvolumeclaim", f"{stack.name}-data", stack.namespace),
        kube.get("persistentvolume", f"{stack.namespace}-{stack.name}-data"),
        kube.get("serviceaccount", stack.name, stack.namespace),
    ]


@pytest.mark.ci
def test_uninstalling_storage_keeps_what_a_running_cluster_uses(new_stack: NewStack, helm: Helm, kube: Kube) -> None:
    """A claim or volume that is being deleted cannot be saved, and without its account no pod reaches the bucket."""
    stack = new_stack("b200", helm.program.name)
    stack.install("storage")
    bound(kube, stack)
    stack.install("raycluster")
    stack.until_ready()
    before = in_use(kube, stack)
    pods = [pod["metadata"]["uid"] for pod in stack.pods()]
    stack.uninstall("storage")
    assert stack.release("storage") not in stack.helm.run("list", "--namespace", stack.namespace)
    after = in_use(kube, stack)
    assert [each["metadata"]["uid"] for each in after] == [each["metadata"]["uid"] for each in before]
    assert not [each for each in after if "deletionTimestamp" in each["metadata"]]
    stack.install("storage")
    stack.upgrade("storage")
    assert [each["metadata"]["uid"] for each in in_use(kube, stack)] == [each["metadata"]["uid"] for each in before]
    assert [pod["metadata"]["uid"] for pod in stack.pods()] == pods
    assert bound(kube, stack)["metadata"]["uid"] == before[1]["metadata"]["uid"]
    stack.uninstall("raycluster", "storage")


def test_a_release_with_another_name_cannot_take_over_kept_objects(new_stack: NewStack, helm: Helm) -> None:
    """Helm says whose the objects are."""
    stack = new_stack("b200", helm.program.name)
    stack.install("storage")
    stack.uninstall("storage")
    with pytest.raises(HelmError, match=f'must equal "other": current value is "{stack.release("storage")}"'):
        helm.install("other", stack.chart("storage"), stack.namespace, stack.options())


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
