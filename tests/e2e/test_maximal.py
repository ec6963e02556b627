"""Everything that goes together, installed at once: for each kind of cluster the largest set of options."""

from __future__ import annotations

import pytest
from tests import options

from conftest import MACHINES, Machines, NewStack
from harness.kube import Kube, Manifest
from harness.stack import ONE_VOLUME, merge
from harness.waiting import until


def claim(name: str) -> list[Manifest]:
    """Describe a volume that somebody else made, and its claim."""
    size = {"storage": "1Ti"}
    both = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    nfs = {"server": "10.0.0.9", "path": "/d"}
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}}
    bound = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}}
    return [
        {**volume, "spec": {**both, "capacity": size, "nfs": nfs}},
        {**bound, "spec": {**both, "volumeName": name, "resources": {"requests": size}}},
    ]


@pytest.mark.ci
@pytest.mark.parametrize("row", options.MAXIMAL, ids=lambda row: row["platform"])
def test_the_largest_set_of_options_becomes_ready(
    row: options.Row, new_stack: NewStack, kube: Kube, machines: Machines
) -> None:
    """A cluster of real objects, and beside it what the options add; nothing is left behind."""
    assert options.possible(row)
    if row["accelerator"] not in MACHINES:
        machines(row["accelerator"])
    is_google = row["platform"] != "kubernetes"
    stack = new_stack(row["accelerator"], **merge({} if is_google else ONE_VOLUME, options.values(row)))
    if row["data"] == "claim":
        kube.create(claim("nfs"), stack.namespace)
    keys = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": {"one": "1"}}
    kube.create([keys], stack.namespace)
    stack.install("network", "storage", "raycluster")
    stack.until_ready()
    names = {item["metadata"]["name"] for item in kube.list("secrets", stack.namespace)}
    assert stack.cluster in names, "KubeRay makes the token's Secret"
    until(
        lambda: kube.get("deployment", f"{stack.name}-tensorboard", stack.namespace)["status"].get("readyReplicas"),
        "TensorBoard ready",
    )
    installers = [
        item for item in kube.list("daemonsets", "kube-system") if "rdma-installer" in item["metadata"]["name"]
    ]
    assert len(installers) == (1 if row["installer"] == "on" else 0)
    stack.uninstall("raycluster", "storage", "network")
    kube.until_gone("raycluster", stack.cluster, stack.namespace)
