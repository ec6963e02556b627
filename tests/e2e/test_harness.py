"""The harness itself: what the other tests take for granted."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from harness.kube import Kube, KubectlError
from harness.nodes import Profile
from harness.waiting import until

PORTS = {"ports": [{"port": 8265}]}
SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x-head-svc"}, "spec": PORTS}


def resolves(name: str) -> bool:
    """Tell whether a name has an address."""
    try:
        return socket.gethostbyname(name) == "127.0.0.1"
    except OSError:
        return False


def test_only_head_services_that_exist_resolve(kube: Kube) -> None:
    name = "x-head-svc.default.svc.cluster.local"
    assert not resolves(name)
    kube.create([SERVICE], "default")
    until(lambda: resolves(name), "the name of a head service")
    kube.delete("service", "x-head-svc", "default")
    until(lambda: not resolves(name), "no name without a service")


def test_there_is_no_way_out() -> None:
    interfaces = [line.split(":")[0].strip() for line in Path("/proc/net/dev").read_text().splitlines()[2:]]
    assert interfaces == ["lo"]


def test_a_gpu_node_has_what_its_profile_says(kube: Kube, profiles: dict[str, Profile]) -> None:
    for profile in profiles.values():
        offered = kube.get("node", f"{profile.name}-0")["status"]["allocatable"]
        assert offered["nvidia.com/gpu"] == str(profile.values["gpusPerNode"])
        assert {f"networking.gke.io.networks/{network}" for network in profile.networks} <= set(offered)


def test_unknown_fields_are_refused(kube: Kube) -> None:
    service = {**SERVICE, "spec": {**PORTS, "prots": []}}
    with pytest.raises(KubectlError, match="unknown field"):
        kube.create([service], "default", dry_run=True)


def test_the_tolerations_of_gke_are_there(kube: Kube) -> None:
    """A request of zero GPUs earns the toleration: the admission plugin that GKE switches on."""
    container = {"name": "a", "image": "a", "resources": {"limits": {"nvidia.com/gpu": 0}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [container]}}
    kube.create([pod], "default")
    tolerations = kube.get("pod", "a", "default")["spec"]["tolerations"]
    kube.delete("pod", "a", "default")
    assert "nvidia.com/gpu" in [entry.get("key") for entry in tolerations]
