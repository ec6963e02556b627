"""Both stacks, each by one of the Helms: install, apply again, uninstall."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from conftest import NewStack
from harness.kube import Kube, Manifest
from harness.nodes import Profile
from harness.stack import LAYERS, Stack
from harness.waiting import until

pytestmark = pytest.mark.ci

# Both Helms render the same for both machines: the suite compares all four.
COMBINATIONS = ["helm3-h200", "helm4-b200"]


@dataclass(frozen=True)
class Installed:
    """A stack whose four layers are installed and whose cluster is ready."""

    stack: Stack
    profile: Profile


@pytest.fixture(scope="module", params=COMBINATIONS)
def installed(request: pytest.FixtureRequest, new_stack: NewStack, profiles: dict[str, Profile]) -> Iterator[Installed]:
    """Install the four layers and wait for the cluster."""
    helm, accelerator = request.param.split("-")
    stack = new_stack(accelerator, helm)
    try:
        stack.install(*LAYERS)
        stack.until_ready()
        yield Installed(stack, profiles[accelerator])
    finally:
        # Networks belong to the whole cluster: what a failed test leaves would fail every later install.
        stack.uninstall_all()


def container(pod: Manifest) -> Manifest:
    """Return the Ray container of a pod, which is the first."""
    return dict(pod["spec"]["containers"][0])


def test_pods_are_scheduled_on_the_right_nodes(installed: Installed, kube: Kube) -> None:
    head, *workers = installed.stack.pods()
    assert head["spec"]["nodeName"].startswith("cpu-")
    assert "nvidia.com/gpu" not in container(head)["resources"]["limits"]
    assert len(workers) == 2
    assert len({worker["spec"]["nodeName"] for worker in workers}) == 2
    for worker in workers:
        node = kube.get("node", worker["spec"]["nodeName"])
        assert installed.profile.values["nodeSelector"].items() <= node["metadata"]["labels"].items()


def test_workers_request_a_whole_machine(installed: Installed) -> None:
    wanted = installed.profile.values["worker"]
    for worker in installed.stack.pods()[1:]:
        resources = container(worker)["resources"]
        assert resources["requests"] == resources["limits"]
        assert resources["limits"]["nvidia.com/gpu"] == str(installed.profile.values["gpusPerNode"])
        assert resources["limits"]["cpu"] == wanted["cpu"]


def test_every_interface_of_a_worker_has_a_network(installed: Installed, kube: Kube) -> None:
    existing = {network["metadata"]["name"]: network["spec"] for network in kube.list("networks.networking.gke.io")}
    parameters = {item["metadata"]["name"] for item in kube.list("gkenetworkparamsets.networking.gke.io")}
    for worker in installed.stack.pods()[1:]:
        interfaces = json.loads(worker["metadata"]["annotations"]["networking.gke.io/interfaces"])
        networks = [entry["network"] for entry in interfaces if entry["network"] != "default"]
        assert networks == installed.profile.networks
        assert {existing[network]["parametersRef"]["name"] for network in networks} <= parameters
        offered = kube.get("node", worker["spec"]["nodeName"])["status"]["allocatable"]
        assert all(offered[f"networking.gke.io.networks/{network}"] == "1" for network in networks)


def test_metrics_are_collected_from_every_pod(installed: Installed, kube: Kube) -> None:
    """KubeRay declares the port that the PodMonitor names, and labels the pods with the cluster's name."""
    stack = installed.stack
    rendered = stack.with_values(ray={"metrics": {"scrape": "podMonitor"}}).render("raycluster")
    (spec,) = [item["spec"] for item in rendered if item["kind"] == "PodMonitor"]
    ((label, owner),) = spec["selector"]["matchLabels"].items()
    found = kube.list("pods", stack.namespace, selector=f"{label}={owner}")
    assert {pod["metadata"]["name"] for pod in found} == {pod["metadata"]["name"] for pod in stack.pods()}
    for pod in found:
        ports = {port["name"]: port["containerPort"] for port in container(pod)["ports"]}
        assert ports[spec["podMetricsEndpoints"][0]["port"]] == 8080
        assert [pod["metadata"]["labels"][name] for name in spec["podTargetLabels"]] == [stack.cluster]


@pytest.mark.parametrize("layer", LAYERS)
def test_the_server_accepts_every_object_strictly(installed: Installed, kube: Kube, layer: str) -> None:
    """Helm 3 applies on the client, where an unknown field of a custom resource passes."""
    manifests = installed.stack.render(layer)
    assert manifests
    kube.create(renamed(manifests), installed.stack.namespace, dry_run=True)


def renamed(manifests: list[Manifest]) -> list[Manifest]:
    """Give objects other names, because a dry run of a create refuses names that exist."""
    for manifest in manifests:
        manifest["metadata"]["name"] = "x" + manifest["metadata"]["name"][1:]
    return manifests


@pytest.mark.parametrize("layer", LAYERS)
def test_a_second_apply_changes_nothing(installed: Installed, kube: Kube, layer: str) -> None:
    manifests = installed.stack.helm.manifest(installed.stack.release(layer), installed.stack.namespace)
    assert kube.diff(manifests, installed.stack.namespace) == ""


def test_an_unchanged_upgrade_recreates_nothing(installed: Installed, kube: Kube) -> None:
    stack = installed.stack
    before = [pod["metadata"]["uid"] for pod in stack.pods()]
    job = kube.get("rayjob", stack.run, stack.namespace)["metadata"]["uid"]
    for layer in LAYERS:
        stack.upgrade(layer)
        assert stack.helm.status(stack.release(layer), stack.namespace) == "deployed"
    assert [pod["metadata"]["uid"] for pod in stack.pods()] == before
    assert kube.get("rayjob", stack.run, stack.namespace)["metadata"]["uid"] == job


def test_uninstall_keeps_the_storage_and_the_commands_in_its_notes_delete_it(installed: Installed, kube: Kube) -> None:
    """Keep this test last: it ends the stack that the module shares."""
    stack = installed.stack
    storage = stack.release("storage")
    notes = stack.helm.run("get", "notes", storage, "--namespace", stack.namespace)
    stack.uninstall(*reversed(LAYERS))
    kinds = kube.run("api-resources", "--namespaced", "--verbs=list", "-o", "name").split()
    listed = ",".join(kind for kind in kinds if not kind.startswith("events"))

    def left() -> set[str]:
        return set(kube.run("get", listed, "-n", stack.namespace, "--ignore-not-found", "-o", "name").split())

    allowed = {"configmap/kube-root-ca.crt", "secret/hf-secret", "serviceaccount/default"}
    kept = {f"persistentvolumeclaim/{stack.name}-{name}" for name in ("data", "weights")}
    kept.add(f"serviceaccount/{stack.name}")
    until(lambda: left() == allowed | kept, "a namespace with its storage", seen=lambda: left() - allowed)
    (line,) = [line.split() for line in notes.splitlines() if line.startswith("  kubectl delete ")]
    kube.run(*line[1:])
    until(lambda: left() == allowed, "an empty namespace", seen=lambda: left() - allowed)
    owned = "app.kubernetes.io/instance"
    for kind in ("networks.networking.gke.io", "gkenetworkparamsets.networking.gke.io"):
        assert kube.list(kind, selector=owned) == []
    # Volumes of other stacks stay, too.
    volumes = [volume["spec"]["claimRef"]["namespace"] for volume in kube.list("persistentvolumes", selector=owned)]
    assert stack.namespace not in volumes
