"""The harness itself: what the other tests take for granted."""

from __future__ import annotations

from pathlib import Path

import pytest
from postrender.values.quantity import quantity

from conftest import MACHINES
from harness.kube import Kube, KubectlError
from harness.nodes import Profile
from harness.waiting import until

pytestmark = pytest.mark.ci

PORTS = {"ports": [{"port": 8265}]}
SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x-head-svc"}, "spec": PORTS}


def test_the_test_network_has_no_interface_but_loopback() -> None:
    interfaces = [line.split(":")[0].strip() for line in Path("/proc/net/dev").read_text().splitlines()[2:]]
    assert interfaces == ["lo"]


def test_a_simulated_gpu_node_matches_its_profile(kube: Kube, profiles: dict[str, Profile]) -> None:
    for profile in (profiles[name] for name in MACHINES):
        offered = kube.get("node", f"{profile.name}-0")["status"]["allocatable"]
        assert offered["nvidia.com/gpu"] == str(profile.values["gpusPerNode"])
        assert {f"networking.gke.io.networks/{network}" for network in profile.networks} <= set(offered)


def test_every_worker_fits_the_allocatable_resources_of_its_machine(profiles: dict[str, Profile]) -> None:
    """And what a profile says that a node leaves is no more than the vendor says."""
    for name, profile in profiles.items():
        for resource, amount in {**profile.wanted, **profile.values.get("node", {})}.items():
            if wanted := quantity(amount):
                assert wanted <= (quantity(profile.offered[resource]) or 0), (name, resource)
    print("without a source:", {name: profile.unsourced for name, profile in profiles.items() if profile.unsourced})


def test_unknown_fields_are_refused(kube: Kube) -> None:
    service = {**SERVICE, "spec": {**PORTS, "prots": []}}
    with pytest.raises(KubectlError, match="unknown field"):
        kube.create([service], "default", dry_run=True)


def test_gke_tolerations_are_added_even_for_zero_gpus(kube: Kube) -> None:
    """A request of zero GPUs earns the toleration: the admission plugin that GKE switches on."""
    container = {"name": "a", "image": "a", "resources": {"limits": {"nvidia.com/gpu": 0}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [container]}}
    kube.create([pod], "default")
    tolerations = kube.get("pod", "a", "default")["spec"]["tolerations"]
    kube.delete("pod", "a", "default")
    assert "nvidia.com/gpu" in [entry.get("key") for entry in tolerations]


def test_a_hook_pod_succeeds(kube: Kube) -> None:
    """Nothing runs in it: what its program says is tested in tests/jobs, and on real nodes."""
    metadata = {"name": "hook", "annotations": {"helm.sh/hook": "pre-upgrade"}}
    spec = {"containers": [{"name": "a", "image": "a"}], "restartPolicy": "Never"}
    kube.create([{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}], "default")
    until(lambda: kube.get("pod", "hook", "default")["status"]["phase"] == "Succeeded", "the end of the hook")
    kube.delete("pod", "hook", "default")
