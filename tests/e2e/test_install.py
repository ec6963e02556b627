"""Both stacks, each by one of the Helms: install, run, apply again, uninstall."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import yaml

from conftest import NewStack
from harness.image import CODE, Image
from harness.kube import Kube, Manifest
from harness.nodes import Profile
from harness.rayhead import RayHeads
from harness.stack import LAYERS, Stack
from harness.trainer import Call
from harness.waiting import until

SECRET = {"secret": {"name": "hf-secret", "key": "hf_api_token"}}
RAY = {
    "env": {"E2E_ALL": {"value": "all"}, "E2E_SECRET": SECRET},
    "head": {"env": {"E2E_ALL": {"value": "head"}}},
    "workers": {"env": {"E2E_WORKERS": {"value": "1"}}},
}
# Both Helms render the same for both machines: the suite compares all four.
COMBINATIONS = ["helm3-h200", "helm4-b200"]


@dataclass(frozen=True)
class Installed:
    """A stack whose four layers are installed and whose first run has ended."""

    stack: Stack
    profile: Profile
    calls: list[Call]
    status: Manifest


@pytest.fixture(scope="module", params=COMBINATIONS)
def installed(
    request: pytest.FixtureRequest,
    new_stack: NewStack,
    profiles: dict[str, Profile],
    ray_heads: RayHeads,
    image: Image,
) -> Iterator[Installed]:
    """Install the four layers and wait for the job."""
    helm, accelerator = request.param.split("-")
    stack = new_stack(accelerator, helm, ray=RAY, job={"env": {"E2E_JOB": {"value": "it's $HOME"}}})
    ray_heads.namespaces.add(stack.namespace)
    image.behave(seconds=0.5)
    try:
        stack.install("network", "storage", "raycluster")
        stack.until_ready()
        ray_heads.until_up(stack.namespace)
        stack.install("grpo-job")
        status = stack.until_job("SUCCEEDED")
        yield Installed(stack, profiles[accelerator], image.calls(), status)
    finally:
        ray_heads.namespaces.discard(stack.namespace)
        # Networks belong to the whole cluster: what a failed test leaves would fail every later install.
        for release in json.loads(stack.helm.run("list", "--namespace", stack.namespace, "-o", "json")):
            stack.helm.uninstall(release["name"], stack.namespace)


def container(pod: Manifest) -> Manifest:
    """Return the Ray container of a pod, which is the first."""
    return dict(pod["spec"]["containers"][0])


def test_pods_are_on_the_right_nodes(installed: Installed, kube: Kube) -> None:
    head, *workers = installed.stack.pods()
    assert head["spec"]["nodeName"].startswith("cpu-")
    assert "nvidia.com/gpu" not in container(head)["resources"]["limits"]
    assert len(workers) == 2
    assert len({worker["spec"]["nodeName"] for worker in workers}) == 2
    for worker in workers:
        node = kube.get("node", worker["spec"]["nodeName"])
        assert node["metadata"]["labels"]["cloud.google.com/gke-accelerator"] == installed.profile.label


def test_workers_ask_for_a_whole_machine(installed: Installed) -> None:
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


def test_the_job_ran_once_to_its_end(installed: Installed) -> None:
    assert installed.status["jobDeploymentStatus"] == "Complete"
    assert len(installed.calls) == 1


def test_the_trainer_is_called_as_the_image_expects(installed: Installed) -> None:
    (call,) = installed.calls
    assert call.cwd == str(CODE)
    assert call.argv[0] == "examples/run_grpo.py"
    assert call.argv[1] == "--config"


def test_the_driver_has_the_environment_of_the_head(installed: Installed) -> None:
    (call,) = installed.calls
    assert call.environ["HF_TOKEN"] == "not-a-real-one"
    assert call.environ["HF_HOME"] == "/weights/huggingface"
    for worker in installed.stack.pods()[1:]:
        literal = {entry["name"]: entry.get("value") for entry in container(worker)["env"]}
        # NeMo RL hands the driver's environment to every worker: what differs would overwrite the worker's own.
        assert call.environ["LD_LIBRARY_PATH"] == literal["LD_LIBRARY_PATH"]
        assert "PATH" not in literal or call.environ["PATH"] == literal["PATH"]
        own = {name for name in literal if name.startswith("NCCL_")}
        assert not own & set(call.environ)


def test_variables_of_the_values_reach_the_driver(installed: Installed) -> None:
    (call,) = installed.calls
    found = {name: value for name, value in call.environ.items() if name.startswith("E2E_")}
    assert found == {"E2E_ALL": "head", "E2E_SECRET": "not-a-real-one", "E2E_JOB": "it's $HOME"}


def test_the_configuration_reaches_the_trainer(installed: Installed) -> None:
    (call,) = installed.calls
    config = yaml.safe_load(call.config)
    recipe = yaml.safe_load((installed.stack.repository / "values/recipes/gemma3-27b-gsm8k.yaml").read_text())
    assert config["cluster"] == {"num_nodes": 2, "gpus_per_node": installed.profile.values["gpusPerNode"]}
    assert config["grpo"] == recipe["job"]["config"]["grpo"]
    assert config["policy"]["optimizer"]["kwargs"]["lr"] == pytest.approx(3e-7)
    assert f"/data/runs/{installed.stack.job}/" in config["checkpointing"]["checkpoint_dir"]


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


def test_uninstall_leaves_the_storage_and_its_notes_delete_it(installed: Installed, kube: Kube) -> None:
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
