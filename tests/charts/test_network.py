"""The network chart: one Network and one parameter set for each interface of the machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from grpo.helm.engines import Rendered
from postrender.errors import RenderError
from tests.conftest import ACCELERATORS, Object, Render

NETWORKS = ["gvnic-1", *(f"rdma-{i}" for i in range(8))]


def by_kind(objects: list[Object], kind: str) -> dict[str, Object]:
    return {item["metadata"]["name"]: item["spec"] for item in objects if item["kind"] == kind}


@pytest.mark.parametrize("accelerator", ACCELERATORS)
def test_each_interface_has_its_network_and_parameters(accelerator: str, render: Render) -> None:
    """Nine networks point at nine parameter sets of the same names."""
    objects = render("network", accelerator=accelerator)
    assert sorted(by_kind(objects, "Network")) == NETWORKS
    for name, spec in by_kind(objects, "Network").items():
        assert spec == {
            "type": "Device",
            "parametersRef": {"group": "networking.gke.io", "kind": "GKENetworkParamSet", "name": name},
        }


def test_vpc_and_subnet_names_are_derived_from_the_two_prefixes(render: Render) -> None:
    """rl-rdma gives rl-rdma-net and rl-rdma-sub-N."""
    sets = by_kind(render("network"), "GKENetworkParamSet")
    assert sets["gvnic-1"] == {"vpc": "rl-gvnic-net", "vpcSubnet": "rl-gvnic-sub", "deviceMode": "NetDevice"}
    assert sets["rdma-7"] == {"vpc": "rl-rdma-net", "vpcSubnet": "rl-rdma-sub-7", "deviceMode": "RDMA"}


def test_each_derived_name_can_be_overridden(render: Render) -> None:
    """A VPC and a single subnet that follow no prefix."""
    sets = by_kind(
        render(
            "network",
            {"network": {"rdma": {"vpc": "shared", "subnets": {"rdma-3": "odd"}}, "gvnic": {"subnet": "other"}}},
        ),
        "GKENetworkParamSet",
    )
    assert sets["rdma-3"] == {"vpc": "shared", "vpcSubnet": "odd", "deviceMode": "RDMA"}
    assert sets["rdma-4"]["vpcSubnet"] == "rl-rdma-sub-4"
    assert sets["gvnic-1"]["vpcSubnet"] == "other"


def test_a_missing_prefix_is_named(render_text: Callable[..., Rendered]) -> None:
    """The message says which key to set."""
    with pytest.raises(RenderError, match=r"network rdma-0 needs a VPC and a subnet: set network\.rdma\.prefix"):
        render_text("network", {"network": {"rdma": {"prefix": ""}}})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"network": {"rdma": {"subnets": {"rmda-3": "odd"}}}}, "rmda-3"),
        ({"network": {"rdma": {"subnets": {"rdma-9": "odd"}}}}, r"network\.rdma\.subnets\.rdma-9: the machine has no"),
        (
            {"accelerator": {"interfaces": {"eth3": {"network": "rdma-0", "deviceMode": "RDMA"}}}},
            r"accelerator\.interfaces\.eth3 joins network rdma-0, as eth2 does",
        ),
        (
            {"accelerator": {"interfaces": {"eth3": {"network": "fast", "deviceMode": "RDMA"}}}},
            r"eth3 joins network fast, which does not end with a number",
        ),
    ],
)
def test_impossible_networks_are_refused(
    values: dict[str, Any], message: str, render_text: Callable[..., Rendered]
) -> None:
    """The message names the key."""
    with pytest.raises(RenderError, match=message):
        render_text("network", values)


def test_the_notes_create_the_node_pool_with_an_explicit_node_count(render_text: Callable[..., Rendered]) -> None:
    """Without a number gcloud makes three nodes, in each zone of a regional cluster."""
    notes = render_text("network").notes or ""
    assert "--num-nodes=NODES" in notes
    assert "--node-locations=ZONE" in notes


def test_the_notes_list_the_subnets_in_the_order_of_the_interfaces(render_text: Callable[..., Rendered]) -> None:
    """The node pool command attaches what the pods name, in the same order."""
    notes = render_text("network").notes or ""
    attached = [line for line in notes.splitlines() if "--additional-node-network" in line]
    assert len(attached) == 9
    assert "rl-gvnic-sub" in attached[0]
    assert "rl-rdma-sub-7" in attached[-1]


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        (
            "dranet",
            [
                "--accelerator-network-profile=auto",
                "gke-networking-dra-driver=true",
                "kubectl get deviceclasses,resourceslices",
            ],
        ),
        ("none", ["NCCL uses TCP"]),
    ],
)
def test_other_modes_have_no_network_objects(
    mode: str, words: list[str], render: Render, render_text: Callable[..., Rendered]
) -> None:
    """GKE makes the networks, or there are none; the notes say what the node pool needs instead."""
    assert render("network", {"network": {"mode": mode}}) == []
    notes = render_text("network", {"network": {"mode": mode}}).notes or ""
    assert all(word in notes for word in words)
    assert "--additional-node-network" not in notes


def test_networks_of_two_machine_families_coexist(render: Render) -> None:
    """The objects and the pods' interfaces carry the prefix; subnets are found by the profile's names as before."""
    values = {"network": {"names": {"prefix": "h200-"}, "rdma": {"subnets": {"rdma-3": "odd"}}}}
    sets = by_kind(render("network", values), "GKENetworkParamSet")
    assert sorted(sets) == [f"h200-{name}" for name in NETWORKS]
    assert (sets["h200-rdma-3"]["vpcSubnet"], sets["h200-rdma-4"]["vpcSubnet"]) == ("odd", "rl-rdma-sub-4")
    spec = next(item for item in render("raycluster", values) if item["kind"] == "RayCluster")["spec"][
        "workerGroupSpecs"
    ][0]["template"]
    interfaces = json.loads(spec["metadata"]["annotations"]["networking.gke.io/interfaces"])
    assert [entry["network"] for entry in interfaces[1:]] == [f"h200-{name}" for name in NETWORKS]


def test_the_pod_policy_follows_the_profile(render: Render) -> None:
    """tests/e2e/test_pod_policy.py asks a real API server what it refuses."""
    assert not by_kind(render("network"), "ValidatingAdmissionPolicy")
    on = {"network": {"podPolicy": {"enabled": True}}}
    policies = by_kind(render("network", on), "ValidatingAdmissionPolicy")
    text = json.dumps(policies["grpo-pods-b200"])
    assert "IPC_LOCK" in text
    assert "/home/kubernetes/bin/gib" in text
    more = {"network": {"mode": "none", **on["network"]}, "accelerator": {"hostPaths": {"gib": None}}}
    text = json.dumps(by_kind(render("network", more), "ValidatingAdmissionPolicy"))
    assert "IPC_LOCK" not in text
    assert "/home/kubernetes/bin/gib" not in text
    assert "hostNetwork" in text
    bindings = by_kind(render("network", on), "ValidatingAdmissionPolicyBinding")
    assert bindings["grpo-pods-b200"] == {
        "policyName": "grpo-pods-b200",
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": {"matchLabels": {"grpo-charts/pods": "b200"}}},
    }
