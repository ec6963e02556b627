"""The pods of `helm test`: what they ask of the cluster, what they may do, and what they run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import ACCELERATORS, ROOT, Object, Render, by_kind

ORDER = ["gpus", "huggingface", "storage", "nccl"]
ELSEWHERE: dict[str, Any] = {
    "platform": {"kind": "kubernetes"},
    "accelerator": {"refuses": {"kubernetes": None}, "gpuNodeLabel": "nvidia.com/gpu.present"},
    "network": {"mode": "none"},
    "storage": {"data": {"gcsfuse": None, "existingClaim": {"name": "nfs"}}},
}


def hooks(objects: list[Object]) -> dict[str, Object]:
    """Return the pods of the tests by the test's name."""
    pods = [item for item in objects if item["kind"] == "Pod"]
    tests = [pod for pod in pods if pod["metadata"]["annotations"]["helm.sh/hook"] == "test"]
    return {pod["spec"]["containers"][0]["name"]: pod for pod in tests}


def plans(objects: list[Object]) -> dict[str, Any]:
    """Return what each pod gives to its probe."""
    return {name: json.loads(pod["spec"]["containers"][0]["args"][0])["probe"] for name, pod in hooks(objects).items()}


@pytest.mark.parametrize("accelerator", ACCELERATORS)
def test_each_check_is_a_hook_in_a_fixed_order(accelerator: str, render: Render) -> None:
    """One after the other: each refuses to run beside a job, the job of another test too."""
    pods = hooks(render("raycluster", accelerator=accelerator))
    annotations = {name: pod["metadata"]["annotations"] for name, pod in pods.items()}
    assert sorted(pods, key=lambda name: int(annotations[name]["helm.sh/hook-weight"])) == ORDER
    for name, pod in pods.items():
        assert pod["metadata"]["name"] == f"gemma-ray-test-{name}"
        assert annotations[name]["helm.sh/hook"] == "test"
        assert annotations[name]["helm.sh/hook-delete-policy"] == "before-hook-creation"
        assert pod["spec"]["restartPolicy"] == "Never"
        assert pod["spec"]["activeDeadlineSeconds"] == 480


def test_a_hook_requests_no_gpu_and_has_no_privileges(render: Render) -> None:
    """Ray's workers own the GPUs; the pod talks to the head and to nobody else."""
    for pod in hooks(render("raycluster")).values():
        (container,) = pod["spec"]["containers"]
        resources = container["resources"]
        assert resources["limits"] == resources["requests"]
        assert set(resources["limits"]) == {"cpu", "memory", "ephemeral-storage"}
        assert [entry["name"] for entry in container["env"]] == ["RAY_AUTH_TOKEN"]
        assert pod["spec"]["automountServiceAccountToken"] is False
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert [volume["name"] for volume in pod["spec"]["volumes"]] == ["programs"]


def test_a_hook_authenticates_with_the_token_of_its_cluster(render: Render) -> None:
    """By reference to the Secret that KubeRay makes."""
    secret = {"secretKeyRef": {"name": "gemma-ray", "key": "auth_token"}}
    for pod in hooks(render("raycluster")).values():
        (container,) = pod["spec"]["containers"]
        assert container["env"] == [{"name": "RAY_AUTH_TOKEN", "valueFrom": secret}]
    without = {"tokenAuth": {"enabled": False}, "networkPolicy": {"enabled": False}}
    for pod in hooks(render("raycluster", {"ray": without})).values():
        assert "env" not in pod["spec"]["containers"][0]


def test_a_cluster_without_gpus_gets_only_the_storage_and_secret_checks(render: Render) -> None:
    """What is there to look at: storage and the Hugging Face secret."""
    assert {name.rpartition("-")[2] for name in hooks(render("raycluster", accelerator="cpu"))} == {
        "huggingface",
        "storage",
    }


def test_the_hook_programs_are_the_files_in_jobs(render: Render) -> None:
    """They stand in a ConfigMap that is no hook, because helm test --filter would leave it out."""
    objects = render("raycluster")
    maps = {item["metadata"]["name"]: item for item in objects if item["kind"] == "ConfigMap"}
    programs = maps["gemma-ray-test"]
    assert "annotations" not in programs["metadata"]
    assert set(programs["data"]) == {"check_cluster.py", "probe.py"}
    for name, text in programs["data"].items():
        assert text == (ROOT / "jobs/checks" / name).read_text(encoding="utf-8")
    for pod in hooks(objects).values():
        assert pod["spec"]["volumes"][0]["configMap"] == {"name": programs["metadata"]["name"]}
        assert pod["spec"]["containers"][0]["command"] == ["python3", "-I", "/programs/check_cluster.py"]
        assert pod["spec"]["containers"][0]["volumeMounts"][0]["mountPath"] == "/programs"
        # A kubelet replaces $(NAME) in arguments.
        assert "$" not in pod["spec"]["containers"][0]["args"][0]


@pytest.mark.parametrize(
    ("elsewhere", "key"), [({}, "cloud.google.com/gke-accelerator"), (ELSEWHERE, "nvidia.com/gpu.present")]
)
def test_a_hook_can_be_scheduled_wherever_the_head_can(elsewhere: dict[str, Any], key: str, render: Render) -> None:
    """Off the GPU nodes, best to the head's own node, which has the image; with the head's tolerations."""
    taint = {"key": "team", "operator": "Exists"}
    own = {"tolerations": [taint], "imagePullSecrets": [{"name": "registry"}], "terminationGracePeriodSeconds": 900}
    objects = render("raycluster", {**elsewhere, "ray": {"head": {"podSpec": own}}})
    head = by_kind(objects, "RayCluster")["spec"]["headGroupSpec"]["template"]
    for pod in hooks(objects).values():
        spec = pod["spec"]
        assert spec["affinity"]["nodeAffinity"] == head["spec"]["affinity"]["nodeAffinity"]
        assert spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
            "nodeSelectorTerms"
        ] == [{"matchExpressions": [{"key": key, "operator": "DoesNotExist"}]}]
        (near,) = spec["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        selector = near["podAffinityTerm"]["labelSelector"]["matchLabels"]
        assert selector.items() <= head["metadata"]["labels"].items()
        assert (spec["tolerations"], spec["imagePullSecrets"]) == ([taint], [{"name": "registry"}])
        assert "terminationGracePeriodSeconds" not in spec


def test_a_hook_does_not_inherit_tolerations_from_a_head_with_gpus(render: Render) -> None:
    """They would let the test's pod onto a GPU node."""
    own = {"tolerations": [{"operator": "Exists"}], "imagePullSecrets": [{"name": "registry"}]}
    head = {"gpus": {"enabled": True}, "podSpec": own}
    for pod in hooks(render("raycluster", {"ray": {"head": head}})).values():
        assert "tolerations" not in pod["spec"]
        assert set(pod["spec"]["affinity"]) == {"nodeAffinity"}
        assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]


def test_no_hook_is_selected_as_a_cluster_pod(render: Render) -> None:
    """The disruption budget selects by grpo-charts/owner; the policy lets the tests' own label through to 8265."""
    objects = render("raycluster", {"ray": {"networkPolicy": {"operatorNamespace": "kuberay"}}})
    (_, _, submitters) = by_kind(objects, "NetworkPolicy")["spec"]["ingress"]
    (label,) = [peer["podSelector"]["matchLabels"] for peer in submitters["from"] if "podSelector" in peer]
    assert submitters["ports"] == [{"port": 8265, "protocol": "TCP"}]
    for pod in hooks(objects).values():
        assert "grpo-charts/owner" not in pod["metadata"]["labels"]
        assert label.items() <= pod["metadata"]["labels"].items()


def test_no_hook_mounts_or_reads_a_secret(render: Render) -> None:
    """The probe looks at the Ray pods' own environment; a Secret is named in a message and nowhere else."""
    objects = render("raycluster")
    for name, pod in hooks(objects).items():
        assert ("hf-secret" in json.dumps(pod)) == (name == "huggingface")
        assert json.dumps(pod).count("secretKeyRef") == 1  # the cluster's own token
    assert plans(objects)["huggingface"]["secret"] == "key hf_api_token of Secret hf-secret"


def test_the_probes_get_their_settings_from_the_values(render: Render) -> None:
    """Nodes, GPUs, volumes and the network come from the values, so that a cluster that is smaller fails."""
    storage = {"local": {"mountPath": "/local", "ephemeral": {"size": "10Gi"}}}
    test = {"timeoutSeconds": 600, "nccl": {"minimumShare": 0.5}}
    values = {"storage": storage, "ray": {"workers": {"replicas": 4}, "test": test}}
    objects = render("raycluster", values)
    found = plans(objects)
    assert found["gpus"] == {"check": "gpus", "nodes": 4, "gpusPerNode": 8}
    assert found["nccl"] == {
        "check": "nccl",
        "nodes": 4,
        "gpusPerNode": 8,
        "backend": "nccl",
        "net": "gIB",
        "bytes": 2**30,
        "minimumBusBandwidth": 182,
    }
    assert found["storage"]["nodes"] == found["huggingface"]["nodes"] == 5
    assert found["storage"]["volumes"] == [
        {"name": "data", "path": "/data", "shared": True},
        {"name": "local", "path": "/local", "shared": False},
    ]
    plan = json.loads(hooks(objects)["gpus"]["spec"]["containers"][0]["args"][0])
    assert (plan["address"], plan["timeoutSeconds"]) == ("gemma-ray-head-svc:8265", 600)


def test_a_single_node_cluster_runs_nccl_within_the_node(render: Render) -> None:
    """A head with GPUs alone: one Ray node, which is a GPU node."""
    alone = {"ray": {"head": {"gpus": {"enabled": True}}, "workers": {"replicas": 0}}}
    found = plans(render("raycluster", alone))
    assert (found["nccl"]["nodes"], found["gpus"]["nodes"], found["storage"]["nodes"]) == (1, 1, 1)
    assert found["nccl"]["minimumBusBandwidth"] == 0
    assert "nccl" not in plans(render("raycluster", {**alone, "accelerator": {"gpusPerNode": 1}}))


@pytest.mark.parametrize(
    ("values", "least"),
    [
        ({}, 291.2),
        ({"ray": {"test": {"nccl": {"minimumShare": 0}}}}, 0),
        ({"accelerator": {"nccl": {"busBandwidth": 333}}}, 266.4),
        ({"accelerator": {"nccl": {"busBandwidth": None}}}, 0),
        ({"network": {"mode": "none"}}, 0),
    ],
)
def test_the_bandwidth_floor_is_a_share_of_the_published_figure(
    values: dict[str, Any], least: float, render: Render
) -> None:
    """It is of the machine's own network, so it says nothing of TCP."""
    assert plans(render("raycluster", values))["nccl"]["minimumBusBandwidth"] == least


def test_a_check_with_nothing_to_test_is_left_out(render: Render) -> None:
    """No token where nothing is downloaded, no plugin where there is no RDMA."""
    found = plans(render("raycluster", {"huggingface": {"offline": {"enabled": True}}}))
    assert set(found) == {"gpus", "storage", "nccl"}
    no_volume = {"storage": {"data": None}, "huggingface": {"cache": {"volume": ""}}}
    assert "storage" not in plans(render("raycluster", no_volume))
    assert plans(render("raycluster", {"network": {"mode": "none"}}))["nccl"]["net"] == ""


def test_the_notes_name_the_helm_test_command(render_text: Any) -> None:
    """With a timeout that is longer than the tests' own."""
    notes = render_text("raycluster", {"ray": {"test": {"timeoutSeconds": 600}}}).notes or ""
    assert "helm test raycluster --namespace team-a --logs --timeout 1200s" in notes


def test_a_job_renders_no_test_hooks(render: Render) -> None:
    """They are the cluster's; a job's own cluster is never idle."""
    assert not hooks(render("grpo-job", {"job": {"cluster": {"mode": "ephemeral"}}}))
