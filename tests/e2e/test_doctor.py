"""`grpo doctor` on a cluster that has all that a stack needs, and with one thing missing at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import yaml

from conftest import NewStack
from harness.commands import ask
from harness.kube import Kube, Manifest, dump
from harness.stack import Stack
from harness.waiting import until

OPERATOR = "kuberay-system"
SINCE = "2026-01-01T00:00:00Z"
NETWORKS = "networks.networking.gke.io"
READY = {
    "conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": SINCE}]
}


def examine(stack: Stack, *options: str) -> list[dict[str, Any]]:
    """Return the results of `grpo doctor` with the values of a stack."""
    done = ask("doctor", stack, "--format", "json", *options)
    assert done.returncode in (0, 1), done.stderr
    results = list(json.loads(done.stdout))
    assert done.returncode == int(any(each["state"] == "fail" for each in results))
    return results


def failures(stack: Stack, *options: str) -> dict[str, str]:
    """Return the failed checks with their texts."""
    found: dict[str, str] = {}
    for each in examine(stack, *options):
        if each["state"] == "fail":
            found[each["check"]] = f"{found.get(each['check'], '')}{each['text']}\n"
    return found


def deployment(name: str, namespace: str = OPERATOR, version: str = "v1.6.2") -> Manifest:
    """Describe an operator's Deployment; its pod is kwok's."""
    labels = {"app.kubernetes.io/name": "kuberay-operator", "app": name}
    container = {"name": "operator", "image": f"quay.io/kuberay/operator:{version}"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template}
    about = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": about, "spec": spec}


def set_status(kube: Kube, kind: str, name: str, status: Manifest, namespace: str = "") -> None:
    """Write the status of an object, as its controller would."""
    where = ["-n", namespace] if namespace else []
    patch = json.dumps({"status": status})
    kube.run("patch", kind, name, *where, "--subresource=status", "--type=merge", "--patch", patch)


def is_available(kube: Kube, name: str) -> bool:
    """Tell whether a Deployment has its pod."""
    return bool(kube.get("deployment", name, OPERATOR).get("status", {}).get("availableReplicas"))


def is_bound(claim: Manifest) -> bool:
    """Tell whether a claim has its volume."""
    return bool(claim["status"].get("phase") == "Bound")


@pytest.fixture(scope="module")
def stack(new_stack: NewStack, kube: Kube) -> Iterator[Stack]:
    """A stack of which network and storage are installed, on a cluster with an operator's Deployment."""
    stack = new_stack("b200", "helm4")
    kube.create([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OPERATOR}}])
    kube.create([deployment("kuberay-operator")])
    stack.install("network", "storage")
    for each in kube.list(NETWORKS):
        set_status(kube, NETWORKS, each["metadata"]["name"], READY)
    until(lambda: is_available(kube, "kuberay-operator"), "the operator's pod")
    until(lambda: all(map(is_bound, kube.list("persistentvolumeclaims", stack.namespace))), "claims bound")
    yield stack
    stack.uninstall_all()
    kube.delete("namespace", OPERATOR)


@pytest.mark.usefixtures("stack")
def test_networks_that_the_stack_will_make_are_no_fault(new_stack: NewStack) -> None:
    """Before the first install nothing is there but what others make."""
    other = new_stack("h200", "helm4", network={"names": {"prefix": "other"}})
    assert failures(other) == {}
    texts = [each["text"] for each in examine(other) if each["check"] == "networks"]
    assert len(texts) == 9
    assert all(text.endswith("is not there yet; the network layer makes it") for text in texts), texts


def test_a_good_cluster(stack: Stack) -> None:
    results = examine(stack)
    assert [each for each in results if each["state"] != "pass"] == []
    assert {each["check"] for each in results} >= {
        "kinds",
        "operator",
        "nodes",
        "room",
        "secrets",
        "claims",
        "networks",
        "rights",
    }


@dataclass(frozen=True)
class Plant:
    """A fault: kubectl's words that plant it and those that undo it, and what the doctor must say."""

    name: str
    plant: tuple[str, ...]
    undo: tuple[str, ...]
    check: str
    text: str
    values: dict[str, Any] = field(default_factory=dict)
    manifest: Callable[[str], Manifest] | None = None


NAMES = [f"b200-{number}" for number in range(4)]
GPU_NODES = [f"node/{name}" for name in NAMES]
LABEL = "cloud.google.com/gke-accelerator"


def quota(namespace: str) -> Manifest:
    """Describe a quota of half the GPUs of the stack."""
    about, spec = {"name": "team", "namespace": namespace}, {"hard": {"requests.nvidia.com/gpu": 8}}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": about, "spec": spec}


def condition(network: str, status: str, message: str) -> tuple[str, ...]:
    """Give kubectl's words that write whether a network is ready, as GKE does."""
    ready = {**READY["conditions"][0], "status": status, "message": message}
    patch = json.dumps({"status": {"conditions": [ready]}})
    return ("patch", NETWORKS, network, "--subresource=status", "--type=merge", "--patch", patch)


PLANTS = [
    Plant(
        "nodes-of-another-machine",
        ("label", *GPU_NODES, f"{LABEL}=nvidia-l4", "--overwrite"),
        ("label", *GPU_NODES, f"{LABEL}=nvidia-b200", "--overwrite"),
        "nodes",
        "4 have no label cloud.google.com/gke-accelerator=nvidia-b200 but nvidia-l4",
    ),
    Plant(
        "nodes-without-the-label",
        ("label", *GPU_NODES, f"{LABEL}-"),
        ("label", *GPU_NODES, f"{LABEL}=nvidia-b200"),
        "nodes",
        "have no label cloud.google.com/gke-accelerator=nvidia-b200",
    ),
    Plant(
        "nodes-cordoned",
        ("cordon", *NAMES),
        ("uncordon", *NAMES),
        "nodes",
        "4 have the taint node.kubernetes.io/unschedulable:NoSchedule",
    ),
    Plant(
        "one-node-left",
        ("taint", "nodes", *NAMES[1:], "team=other:NoSchedule"),
        ("taint", "nodes", *NAMES[1:], "team-"),
        "nodes",
        "gpu: 1 of 2 wanted nodes",
    ),
    Plant(
        "pod-security-baseline",
        ("label", "namespace/{namespace}", "pod-security.kubernetes.io/enforce=baseline"),
        ("label", "namespace/{namespace}", "pod-security.kubernetes.io/enforce-"),
        "pod-security",
        "enforces baseline, which refuses the host's folders",
    ),
    Plant(
        "quota",
        (),
        ("delete", "resourcequota/team", "-n", "{namespace}"),
        "quota",
        "16 nvidia.com/gpu wanted, 8",
        {},
        quota,
    ),
    Plant("secret-name", (), (), "secrets", "there is no Secret other", {"huggingface": {"secret": {"name": "other"}}}),
    Plant(
        "secret-key",
        (),
        (),
        "secrets",
        "Secret hf-secret has no key token, only hf_api_token",
        {"huggingface": {"secret": {"key": "token"}}},
    ),
    Plant("queue", (), (), "queue", "there is no LocalQueue gpus", {"ray": {"kueue": {"queue": "gpus"}}}),
    Plant(
        "claim",
        (),
        (),
        "claims",
        "there is no claim mine",
        {"storage": {"data": {"gcsfuse": None, "existingClaim": {"name": "mine"}}}},
    ),
    Plant(
        "another-operator",
        (),
        ("delete", "deployment/second", "-n", OPERATOR),
        "operator",
        "2 operators run",
        {},
        lambda _: deployment("second"),
    ),
    Plant(
        "operator-down",
        ("scale", "deployment/kuberay-operator", "-n", OPERATOR, "--replicas=0"),
        ("scale", "deployment/kuberay-operator", "-n", OPERATOR, "--replicas=1"),
        "operator",
        "has no available pod",
    ),
    Plant(
        "network-not-ready",
        condition("rdma-3", "False", "the subnet rdma-3 does not exist"),
        condition("rdma-3", "True", ""),
        "networks",
        "Network rdma-3 is not ready: the subnet rdma-3 does not exist",
    ),
]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_a_fault_is_found_alone_and_by_name(stack: Stack, kube: Kube, plant: Plant) -> None:
    fill = {"{namespace}": stack.namespace}

    def run(words: tuple[str, ...]) -> None:
        if words:
            kube.run(*(next((word.replace(key, to) for key, to in fill.items()), word) for word in words))

    if plant.manifest:
        kube.create([plant.manifest(stack.namespace)])
    if plant.check == "quota":
        until(
            lambda: kube.get("resourcequota", "team", stack.namespace).get("status", {}).get("hard"),
            "the quota counted",
        )
    run(plant.plant)
    try:
        found = failures(stack.with_values(**plant.values))
    finally:
        run(plant.undo)
        until(lambda: is_available(kube, "kuberay-operator"), "the operator's pod")
    assert plant.text in found.get(plant.check, ""), found
    # What follows from the fault may be named too, nothing else.
    assert set(found) <= {plant.check, "room"}, found


def test_another_teams_stack_leaves_no_room(stack: Stack, new_stack: NewStack) -> None:
    other = new_stack("b200", "helm4", ray={"workers": {"replicas": 3}})
    other.install("storage", "raycluster")
    other.until_ready()
    try:
        found = failures(stack)
        assert "gpu: 1 of 2 wanted nodes are free: 3 have 0 nvidia.com/gpu of 8 nvidia.com/gpu left" in found["room"]
    finally:
        other.uninstall_all()


def test_the_values_line_and_the_command_are_named(stack: Stack) -> None:
    (found,) = [
        each for each in examine(stack.with_values(ray={"workers": {"replicas": 9}})) if each["check"] == "nodes"
    ][1:]
    assert (found["state"], found["value"]) == ("fail", "ray.workers.replicas")
    assert found["at"].endswith(":4:5") or ":" in found["at"]
    assert found["command"]


def test_a_member_of_a_team_reads_what_was_not_checked(stack: Stack, kube: Kube) -> None:
    namespace = stack.namespace
    kube.run("create", "serviceaccount", "viewer", "-n", namespace)
    kube.run(
        "create", "rolebinding", "viewer", "-n", namespace, "--clusterrole=view", f"--serviceaccount={namespace}:viewer"
    )
    settings = yaml.safe_load(kube.kubeconfig.read_text())
    settings["users"][0]["user"] = {"token": kube.run("create", "token", "viewer", "-n", namespace).strip()}
    path = stack.work / "viewer.kubeconfig"
    path.write_text(yaml.safe_dump(settings))
    results = examine(stack, "--kubeconfig", str(path))
    skipped = {each["check"] for each in results if each["state"] == "not checked"}
    assert {"nodes", "room", "secrets", "operator"} <= skipped
    refused = {each["text"] for each in results if each["check"] == "rights" and each["state"] == "fail"}
    assert f"you may not create rayjobs.ray.io in {namespace}" in refused


def test_the_manifest_of_a_fault_is_one() -> None:
    """A typo in a plant would look like a fault that is not found."""
    assert all(yaml.safe_load(dump([plant.manifest("x")])) for plant in PLANTS if plant.manifest)
    assert len({plant.name for plant in PLANTS}) == len(PLANTS)
