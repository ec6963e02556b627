"""The raycluster chart: what a GPU pod needs to reach its GPUs, its network and its secrets."""

from __future__ import annotations

import ipaddress
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from grpo.helm.engines import Rendered
from postrender.errors import RenderError
from tests.charts.shapes import merge
from tests.conftest import ACCELERATORS, Object, Render, by_kind

TUNERS = {"b200": "tuner_config_a4.txtpb", "h200": "tuner_config_a3u.txtpb"}
LABELS = {"b200": "nvidia-b200", "h200": "nvidia-h200-141gb"}


def parts(objects: list[Object]) -> tuple[Object, Object]:
    """Return the pod templates of head and workers."""
    spec = by_kind(objects, "RayCluster")["spec"]
    return spec["headGroupSpec"]["template"], spec["workerGroupSpecs"][0]["template"]


def environment(template: Object) -> dict[str, Any]:
    return {
        entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in template["spec"]["containers"][0]["env"]
    }


@pytest.mark.parametrize("accelerator", ACCELERATORS)
def test_a_worker_lists_eight_rdma_interfaces_in_strict_json(accelerator: str, render: Render) -> None:
    """eth0 is the default network; the second gVNIC and rdma-0 … rdma-7 follow as eth1 … eth9."""
    _, worker = parts(render("raycluster", accelerator=accelerator))
    annotations = worker["metadata"]["annotations"]
    assert annotations["networking.gke.io/default-interface"] == "eth0"
    interfaces = json.loads(annotations["networking.gke.io/interfaces"])
    networks = ["default", "gvnic-1", *(f"rdma-{i}" for i in range(8))]
    assert interfaces == [{"interfaceName": f"eth{i}", "network": name} for i, name in enumerate(networks)]


@pytest.mark.parametrize("accelerator", ACCELERATORS)
def test_the_nccl_tuner_and_the_node_selector_match_the_machine(accelerator: str, render: Render) -> None:
    """A tuner table of another family, or nodes of one, would run slowly or not at all."""
    _, worker = parts(render("raycluster", accelerator=accelerator))
    assert environment(worker)["NCCL_TUNER_CONFIG_PATH"] == f"/usr/local/gib/configs/{TUNERS[accelerator]}"
    assert worker["spec"]["nodeSelector"] == {"cloud.google.com/gke-accelerator": LABELS[accelerator]}


def test_interfaces_are_ordered_by_number(render: Render) -> None:
    """eth10 comes after eth9."""
    _, worker = parts(
        render("raycluster", {"accelerator": {"interfaces": {"eth10": {"network": "rdma-8", "deviceMode": "RDMA"}}}})
    )
    names = [
        entry["interfaceName"]
        for entry in json.loads(worker["metadata"]["annotations"]["networking.gke.io/interfaces"])
    ]
    assert names == [f"eth{i}" for i in range(11)]


def test_the_gpu_container_is_first_and_requests_the_whole_node(render: Render) -> None:
    """RDMA device files reach the first container only. Requests equal limits."""
    _, worker = parts(render("raycluster"))
    container = worker["spec"]["containers"][0]
    assert container["resources"]["limits"] == container["resources"]["requests"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "8"
    assert "IPC_LOCK" in container["securityContext"]["capabilities"]["add"]
    assert "command" not in container


def test_host_folders_must_exist_and_are_read_only(render: Render) -> None:
    """Without a type, a missing folder is made empty and hides the driver."""
    _, worker = parts(render("raycluster"))
    host = {volume["name"]: volume["hostPath"] for volume in worker["spec"]["volumes"] if "hostPath" in volume}
    assert set(host) == {"host-gib", "host-nvidia"}
    assert all(path["type"] == "Directory" for path in host.values())
    mounts = [mount for mount in worker["spec"]["containers"][0]["volumeMounts"] if mount["name"] in host]
    assert len(mounts) == 2
    assert all(mount["readOnly"] for mount in mounts)


def test_shared_memory_is_a_bounded_memory_volume(render: Render) -> None:
    """The default of 64 MiB ends NCCL with «no space left on device»."""
    _, worker = parts(render("raycluster"))
    assert {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "250Gi"}} in worker["spec"][
        "volumes"
    ]
    assert {"name": "shared-memory", "mountPath": "/dev/shm"} in worker["spec"]["containers"][0]["volumeMounts"]


def test_nccl_requires_its_plugin_and_loads_the_nodes_script(render: Render) -> None:
    """NCCL_NET names the plugin; BASH_ENV gives its settings to the bash that starts Ray."""
    _, worker = parts(render("raycluster"))
    env = environment(worker)
    assert env["NCCL_NET"] == "gIB"
    assert env["BASH_ENV"] == "/usr/local/gib/scripts/set_nccl_env.sh"
    assert env["NCCL_SOCKET_IFNAME"] == env["GLOO_SOCKET_IFNAME"] == "eth0"
    check = worker["spec"]["initContainers"][0]
    assert env["BASH_ENV"] in check["args"][0]
    assert "nvidia.com/gpu" not in check["resources"]["limits"]


def test_head_and_workers_share_the_environment_passed_on_by_the_driver(render: Render) -> None:
    """The driver's environment overwrites the workers', so both have the same, and the token only by reference."""
    head, worker = map(environment, parts(render("raycluster")))
    for name in ("LD_LIBRARY_PATH", "HF_TOKEN", "HF_HOME"):
        assert head[name] == worker[name]
    assert head["HF_TOKEN"] == {"secretKeyRef": {"name": "hf-secret", "key": "hf_api_token"}}
    assert "PATH" not in head
    assert "PATH" not in worker


def test_the_head_has_no_gpu_and_keeps_off_gpu_nodes(render: Render) -> None:
    """A GPU count of zero would still earn the toleration, so the key is absent."""
    head, _ = parts(render("raycluster"))
    assert "nvidia.com/gpu" not in head["spec"]["containers"][0]["resources"]["limits"]
    terms = head["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert terms == [{"matchExpressions": [{"key": "cloud.google.com/gke-accelerator", "operator": "DoesNotExist"}]}]
    assert "tolerations" not in head["spec"]


def test_ray_schedules_nothing_on_the_head_by_default(render: Render) -> None:
    """The monitor has removed workers with autoscaling off, so it does not run."""
    for values, cpus in (({}, "0"), ({"ray": {"head": {"numCpus": 1}}}, "1")):
        parameters = by_kind(render("raycluster", values), "RayCluster")["spec"]["headGroupSpec"]["rayStartParams"]
        assert parameters == {"dashboard-host": ANY, "num-cpus": cpus, "num-gpus": "0", "no-monitor": "true"}


def test_the_images_libraries_come_first_in_the_library_path(render: Render) -> None:
    """The variable replaces the image's, which puts its own cuDNN before the system's."""
    for part in parts(render("raycluster", {"images": {"training": {"libraryPath": "/opt/cudnn/lib:/opt/more"}}})):
        assert environment(part)["LD_LIBRARY_PATH"] == (
            "/opt/cudnn/lib:/opt/more:/usr/local/nvidia/lib64:/usr/local/gib/lib64"
        )
    for part in parts(render("raycluster", {"images": {"training": {"libraryPath": ""}}})):
        assert environment(part)["LD_LIBRARY_PATH"] == "/usr/local/nvidia/lib64:/usr/local/gib/lib64"


@pytest.mark.parametrize(
    ("version", "code", "words"),
    [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023",
            1,
            "driver 535.129",
        ),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build", 0, "in place"),
        ("", 0, "cannot be read here"),
    ],
)
def test_the_node_check_refuses_an_old_driver(
    version: str, code: int, words: str, render: Render, tmp_path: Path
) -> None:
    """The image's CUDA would fail on it after minutes."""
    _, worker = parts(render("raycluster"))
    script = worker["spec"]["initContainers"][0]["args"][0]
    (tmp_path / "version").write_text(f"{version}\nGCC version:  12.2.0\n")
    (tmp_path / "file").touch()
    for path, instead in (
        ("/proc/driver/nvidia/version", "version"),
        ("/usr/local/gib/scripts/set_nccl_env.sh", "file"),
        ("/usr/local/gib/configs/tuner_config_a4.txtpb", "file"),
    ):
        assert path in script
        script = script.replace(path, str(tmp_path / instead))
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert words in done.stdout + done.stderr


@pytest.mark.parametrize("label", ["ray.io/cluster", "grpo-charts/part"])
def test_labels_owned_by_kuberay_cannot_be_set(label: str, render_text: Callable[..., Rendered]) -> None:
    """KubeRay finds its pods by them."""
    with pytest.raises(RenderError, match=f"{label}: the label belongs to"):
        render_text("raycluster", {"ray": {"workers": {"labels": {label: "x"}}}})


def test_the_number_of_workers_is_fixed(render: Render) -> None:
    """KubeRay clamps replicas silently and its autoscaler kills idle workers; equal numbers prevent both."""
    spec = by_kind(render("raycluster", {"ray": {"workers": {"replicas": 4}}}), "RayCluster")["spec"]
    group = spec["workerGroupSpecs"][0]
    assert [group[key] for key in ("replicas", "minReplicas", "maxReplicas")] == [4, 4, 4]
    assert spec["enableInTreeAutoscaling"] is False


def test_all_pods_share_one_ray_version_and_image(render: Render) -> None:
    """The digest wins over the tag."""
    digest = "sha256:" + "0" * 64
    objects = render("raycluster", {"images": {"training": {"digest": digest, "rayVersion": "2.54.0"}}})
    assert by_kind(objects, "RayCluster")["spec"]["rayVersion"] == "2.54.0"
    assert {part["spec"]["containers"][0]["image"] for part in parts(objects)} == {f"nvcr.io/nvidia/nemo-rl@{digest}"}


@pytest.mark.parametrize(("upgrade", "expected"), [("recreate", {"type": "Recreate"}), ("manual", None)])
def test_the_upgrade_strategy_is_rendered_only_if_kuberay_supports_it(
    upgrade: str, expected: Any, render: Render
) -> None:
    """KubeRay 1.5 has no such field."""
    cluster = by_kind(render("raycluster", {"ray": {"upgrade": upgrade}}), "RayCluster")
    assert cluster["spec"].get("upgradeStrategy") == expected


@pytest.mark.parametrize("asks", [True, False])
def test_the_head_itself_enforces_token_authentication(asks: bool, render: Render) -> None:
    """An operator that drops authOptions would otherwise start an open cluster. Workers cannot join without a head."""
    values = {"ray": {"tokenAuth": {"enabled": asks}, "networkPolicy": {"operatorNamespace": "ray-system"}}}
    head, worker = parts(render("raycluster", values))
    assert environment(head).get("RAY_AUTH_MODE") == ("token" if asks else None)
    assert "RAY_AUTH_MODE" not in environment(worker)


def test_the_head_carries_the_facts_of_the_cluster(render: Render) -> None:
    """A job compares these facts with its own before it starts."""
    head, _ = parts(render("raycluster"))
    assert json.loads(environment(head)["GRPO_CLUSTER_FACTS"]) == {
        "accelerator": "b200",
        "gpusPerNode": 8,
        "image": "nvcr.io/nvidia/nemo-rl:v0.7.0",
        "rayVersion": "2.55.1",
        "headCpus": 0,
        "environment": {
            "HF_HOME": "/data/huggingface",
            "HF_TOKEN": "key hf_api_token of Secret hf-secret",
            "LD_LIBRARY_PATH": environment(head)["LD_LIBRARY_PATH"],
        },
        "mounts": {"/data": "gemma-data"},
    }


def test_a_bucket_adds_its_annotation_to_head_and_workers(render: Render) -> None:
    """Without it no sidecar is injected and the pod hangs at the mount."""
    for part in parts(render("raycluster")):
        assert part["metadata"]["annotations"]["gke-gcsfuse/volumes"] == "true"
    for part in parts(render("raycluster", {"storage": {"data": {"gcsfuse": None, "existingClaim": {"name": "x"}}}})):
        assert "gke-gcsfuse/volumes" not in part["metadata"].get("annotations", {})


def test_a_pod_spec_overlay_is_merged_over_ours(render: Render) -> None:
    """Maps are merged, tolerations are added, a null takes a field away."""
    overlay = {
        "nodeSelector": {"pool": "gpu"},
        "tolerations": [{"key": "team", "operator": "Exists"}],
        "terminationGracePeriodSeconds": 1000000,
    }
    _, worker = parts(render("raycluster", {"ray": {"workers": {"podSpec": overlay}}}))
    assert worker["spec"]["nodeSelector"] == {"cloud.google.com/gke-accelerator": "nvidia-b200", "pool": "gpu"}
    assert [entry["key"] for entry in worker["spec"]["tolerations"]] == ["nvidia.com/gpu", "team"]
    assert worker["spec"]["terminationGracePeriodSeconds"] == 1000000


@pytest.mark.parametrize("part", ["head", "workers"])
def test_the_time_to_save_can_be_raised_and_not_lowered(part: str, render: Render) -> None:
    """Exactly what the charts compute is enough; one second less would kill a job that saves."""

    def asked(seconds: int) -> dict[str, Any]:
        overlay = {"podSpec": {"terminationGracePeriodSeconds": seconds}}
        return {"ray": merge({"head": {"jobStopSeconds": 45}}, {part: overlay})}

    assert [pod["spec"]["terminationGracePeriodSeconds"] for pod in parts(render("raycluster", asked(75)))] == [75, 75]
    with pytest.raises(RenderError, match=rf"ray\.{part}\.podSpec\.terminationGracePeriodSeconds is 74, .*Write 75 or"):
        render("raycluster", asked(74))


@pytest.mark.parametrize("field", ["containers", "initContainers", "volumes", "restartPolcy"])
def test_a_pod_spec_overlay_refuses_unknown_fields_and_containers(
    field: str, render_text: Callable[..., Rendered]
) -> None:
    """What would replace our containers, or is no field of a pod, is refused by name."""
    with pytest.raises(RenderError, match=field):
        render_text("raycluster", {"ray": {"workers": {"podSpec": {field: []}}}})


@pytest.mark.parametrize("layer", ["raycluster", "grpo-job"])
def test_a_missing_volume_that_two_keys_name_is_named_once_for_both(
    layer: str, render_text: Callable[..., Rendered]
) -> None:
    """Whoever mends the first alone would meet the second."""
    values = {"storage": {"data": None, "work": {"mountPath": "/work", "existingClaim": {"name": "x"}}}}
    with pytest.raises(
        RenderError, match=r'volume is "data" \((job\.volume|huggingface\.cache\.volume) names it too\)'
    ):
        render_text(layer, values)


def test_a_cache_on_a_missing_volume_is_named(render_text: Callable[..., Rendered]) -> None:
    """The message says which key names which volume, and what there is."""
    with pytest.raises(
        RenderError,
        match=r'huggingface\.cache\.volume is "lustre", and storage has no volume of that name \(it has: data\)',
    ):
        render_text("raycluster", {"huggingface": {"cache": {"volume": "lustre"}}})


@pytest.mark.parametrize(
    ("size", "written"), [("1024Gi", "1Ti"), ("921600Mi", "900Gi"), ("1000Gi", "1000Gi"), ("1048576Mi", "1Ti")]
)
def test_quantities_are_in_canonical_kubernetes_form(size: str, written: str, render: Render) -> None:
    """The operator rewrites other forms, and the next upgrade conflicts with it."""
    head, _ = parts(render("raycluster", {"ray": {"head": {"memory": size}}}))
    assert head["spec"]["containers"][0]["resources"]["limits"]["memory"] == written


def test_environment_variables_reach_only_the_parts_they_are_set_for(render: Render) -> None:
    """The part's own value wins over the common one, and each name stands once."""
    secret = {"secret": {"name": "keys", "key": "one"}}
    values = {
        "env": {"DEBUG": {"value": "INFO"}, "KEY": secret},
        "head": {"env": {"DEBUG": {"value": "WARN"}}},
        "workers": {"env": {"ONLY": {"value": "1"}}},
    }
    head, worker = parts(render("raycluster", {"ray": values}))
    assert environment(head)["DEBUG"] == "WARN"
    assert (environment(worker)["DEBUG"], environment(worker)["ONLY"]) == ("INFO", "1")
    assert "ONLY" not in environment(head)
    for part in (head, worker):
        assert environment(part)["KEY"] == {"secretKeyRef": {"name": "keys", "key": "one"}}
        names = [entry["name"] for entry in part["spec"]["containers"][0]["env"]]
        assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"env": {"NCCL_NET": {"value": "Socket"}}}, r"ray\.env\.NCCL_NET: the charts set NCCL_NET themselves"),
        ({"head": {"env": {"BASH_ENV": {"value": "x"}}}}, r"ray\.head\.env\.BASH_ENV: the charts set"),
        ({"workers": {"env": {"HF_TOKEN": {"value": "x"}}}}, r"ray\.workers\.env\.HF_TOKEN: the charts set"),
        ({"env": {"X": {}}}, r"ray\.env\.X has both .*: give exactly one of value and secret"),
        (
            {"env": {"X": {"value": "1", "secret": {"name": "a", "key": "b"}}}},
            r"ray\.env\.X has both .*: give exactly one of value and secret",
        ),
        ({"env": {"not-a-name": {"value": "1"}}}, "not-a-name"),
        ({"env": {"X": {"value": 1}}}, "got number, want"),
    ],
)
def test_environment_variables_owned_by_the_charts_are_refused(
    values: dict[str, Any], message: str, render_text: Callable[..., Rendered]
) -> None:
    """What the charts derive is not settable a second time."""
    with pytest.raises(RenderError, match=message):
        render_text("raycluster", {"ray": values})


def test_a_later_file_can_replace_a_plain_value_with_a_secret(render: Render) -> None:
    """By setting the other to null."""
    entry = {"value": None, "secret": {"name": "keys", "key": "one"}}
    head, _ = parts(render("raycluster", {"ray": {"env": {"X": entry}}}))
    assert environment(head)["X"] == {"secretKeyRef": {"name": "keys", "key": "one"}}


def test_an_offline_cluster_needs_no_hugging_face_token(render: Render, render_text: Callable[..., Rendered]) -> None:
    """Nothing is downloaded, so the Secret is not needed; the cache is."""
    for part in parts(render("raycluster", {"huggingface": {"offline": {"enabled": True}}})):
        assert environment(part)["HF_HUB_OFFLINE"] == "1"
        assert "HF_TOKEN" not in environment(part)
    with pytest.raises(RenderError, match=r"set huggingface\.cache\.volume"):
        render_text("raycluster", {"huggingface": {"offline": {"enabled": True}, "cache": {"volume": ""}}})


def test_the_wandb_key_is_passed_by_secret_reference(render: Render) -> None:
    """On head and workers, and only where W&B is used."""
    for part in parts(render("raycluster", {"tracking": {"wandb": {"enabled": True}}})):
        assert environment(part)["WANDB_API_KEY"] == {"secretKeyRef": {"name": "wandb-secret", "key": "api_key"}}
    for part in parts(render("raycluster")):
        assert "WANDB_API_KEY" not in environment(part)


@pytest.mark.parametrize("chart", ["raycluster", "grpo-job"])
def test_dranet_claims_every_rdma_device_of_the_node(chart: str, render: Render) -> None:
    """Both halves of the claim, the template beside the pods, and no annotation of the other mode."""
    values = {"network": {"mode": "dranet"}, "job": {"cluster": {"mode": "ephemeral"}}}
    objects = render(chart, values)
    template = by_kind(objects, "ResourceClaimTemplate")
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"] == {"deviceClassName": "mrdma.google.com", "allocationMode": "ExactCount", "count": 8}
    owner = by_kind(objects, "RayCluster" if chart == "raycluster" else "RayJob")["spec"]
    worker = owner.get("rayClusterSpec", owner)["workerGroupSpecs"][0]["template"]
    (claim,) = worker["spec"]["resourceClaims"]
    assert claim["resourceClaimTemplateName"] == template["metadata"]["name"]
    assert worker["spec"]["containers"][0]["resources"]["claims"] == [{"name": claim["name"]}]
    assert not [name for name in worker["metadata"]["annotations"] if name.startswith("networking.gke.io/")]
    assert environment(worker)["NCCL_NET"] == "gIB"


def test_a_job_on_an_existing_cluster_renders_no_claim(render: Render) -> None:
    """The pods are the cluster's."""
    kinds = {item["kind"] for item in render("grpo-job", {"network": {"mode": "dranet"}})}
    assert "ResourceClaimTemplate" not in kinds


def test_the_users_claims_are_added_to_those_of_the_chart(render: Render) -> None:
    """A list that replaced it would take the RDMA devices away."""
    own = [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]
    values = {"network": {"mode": "dranet"}, "ray": {"workers": {"podSpec": {"resourceClaims": own}}}}
    _, worker = parts([by_kind(render("raycluster", values), "RayCluster")])
    assert [claim["name"] for claim in worker["spec"]["resourceClaims"]] == ["rdma", "gpu"]


def test_without_rdma_the_plugin_is_not_required(render: Render) -> None:
    """NCCL uses TCP; the driver's folder stays."""
    _, worker = parts(render("raycluster", {"network": {"mode": "none"}}))
    assert not {"BASH_ENV", "NCCL_NET", "NCCL_TUNER_CONFIG_PATH"} & set(environment(worker))
    assert environment(worker)["NCCL_SOCKET_IFNAME"] == "eth0"
    assert {volume["name"] for volume in worker["spec"]["volumes"]} == {"host-nvidia", "shared-memory", "data"}
    assert "gib" not in worker["spec"]["initContainers"][0]["args"][0]
    assert not [name for name in worker["metadata"]["annotations"] if name.startswith("networking.gke.io/")]


GPU_HEAD: dict[str, Any] = {"ray": {"head": {"gpus": {"enabled": True}}, "workers": {"replicas": 1}}}


def test_the_number_of_workers_does_not_change_a_pod_template(render: Render) -> None:
    """KubeRay replaces all pods of a cluster for one changed byte in a template."""
    many = render("raycluster", {"ray": {"workers": {"replicas": 5}}})
    assert parts(many) == parts(render("raycluster"))


def test_a_head_with_gpus_is_wired_like_a_worker(render: Render) -> None:
    """It takes a whole node: what differs is its name, what it does before it ends, and the facts that it states."""
    objects = render("raycluster", GPU_HEAD)
    head, worker = parts(objects)
    facts = json.loads(environment(head)["GRPO_CLUSTER_FACTS"])
    assert facts["headCpus"] == 216
    own = [entry["name"] for entry in head["spec"]["containers"][0]["env"][-3:]]
    assert own == ["GRPO_CLUSTER_FACTS", "RAY_JOB_STOP_WAIT_TIME_S", "RAY_AUTH_MODE"]
    del head["spec"]["containers"][0]["env"][-3:]
    head["spec"]["containers"][0]["name"] = "ray-worker"
    assert head["spec"]["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][-1:] == ["head"]
    head["spec"]["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][-1] = "worker"
    head["metadata"]["labels"]["grpo-charts/part"] = "worker"
    assert head == worker
    parameters = by_kind(objects, "RayCluster")["spec"]["headGroupSpec"]["rayStartParams"]
    assert (parameters["num-gpus"], parameters["num-cpus"]) == ("8", "216")


def test_a_head_with_gpus_needs_no_workers(render: Render, render_text: Callable[..., Rendered]) -> None:
    """One node of 8 GPUs; without GPUs anywhere there is no cluster."""
    alone = {"ray": {"head": {"gpus": {"enabled": True}}, "workers": {"replicas": 0}}}
    assert by_kind(render("raycluster", alone), "RayCluster")["spec"]["workerGroupSpecs"] == []
    with pytest.raises(RenderError, match=r"the cluster has no GPU: set ray\.workers\.replicas"):
        render_text("raycluster", {"ray": {"workers": {"replicas": 0}}})


KUEUE = {"queue": "gpus", "priorityClass": "high", "topology": {"required": "cloud.google.com/gce-topology-block"}}


def test_kueue_admits_the_object_that_owns_the_pods(render: Render) -> None:
    """The cluster, or the job with a cluster of its own; never a job on a cluster that exists."""
    labels = {"kueue.x-k8s.io/queue-name": "gpus", "kueue.x-k8s.io/priority-class": "high"}
    values = {"ray": {"kueue": KUEUE}}
    cluster = by_kind(render("raycluster", values), "RayCluster")
    assert labels.items() <= cluster["metadata"]["labels"].items()
    _, worker = parts([cluster])
    assert worker["metadata"]["annotations"]["kueue.x-k8s.io/podset-required-topology"] == KUEUE["topology"]["required"]
    ephemeral = by_kind(render("grpo-job", {**values, "job": {"cluster": {"mode": "ephemeral"}}}), "RayJob")
    assert labels.items() <= ephemeral["metadata"]["labels"].items()
    existing = by_kind(render("grpo-job", values), "RayJob")
    assert not [name for name in existing["metadata"]["labels"] if "kueue" in name]


def queued(render: Render, **ray: Any) -> Object:
    """Return the spec of a cluster in a queue."""
    return dict(by_kind(render("raycluster", {"ray": {"kueue": KUEUE, **ray}}), "RayCluster")["spec"])


def mark(spec: Object) -> str:
    """Return the digest that the head of a cluster in a queue carries for Kueue."""
    (container,) = spec["headGroupSpec"]["template"]["spec"]["containers"]
    return str(next(entry["value"] for entry in container["env"] if entry["name"] == "GRPO_PODS"))


def test_in_a_queue_kuberay_does_not_recreate_pods(render: Render) -> None:
    """KubeRay would do it as well when another program takes Kueue's labels out of the pod templates."""
    plain = by_kind(render("raycluster", {}), "RayCluster")["spec"]
    assert plain.pop("upgradeStrategy") == {"type": "Recreate"}
    spec = queued(render)
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        metadata = group["template"]["metadata"]
        metadata["annotations"] = {key: text for key, text in metadata["annotations"].items() if "kueue" not in key}
    environment = spec["headGroupSpec"]["template"]["spec"]["containers"][0]["env"]
    assert environment.pop()["name"] == "GRPO_PODS"
    assert spec == plain


def test_kueue_notices_every_change_to_the_pods(render: Render) -> None:
    """It compares containers and numbers only."""
    before = queued(render)
    assert mark(queued(render, workers={"labels": {"a": "b"}})) != mark(before)
    assert mark(queued(render, head={"podSpec": {"priorityClassName": "system-cluster-critical"}})) != mark(before)
    assert mark(queued(render, workers={"replicas": 3})) == mark(before)


@pytest.mark.parametrize(
    ("kueue", "message"),
    [
        ({"priorityClass": "high"}, r"have no effect without a queue\. Set ray\.kueue\.queue"),
        (
            {"queue": "a", "topology": {"required": "a/b", "preferred": "a/b"}},
            "has both required and preferred: give one of them",
        ),
    ],
)
def test_kueue_settings_without_effect_are_refused(
    kueue: dict[str, Any], message: str, render_text: Callable[..., Rendered]
) -> None:
    """Kueue would ignore them, or refuse the pods later."""
    with pytest.raises(RenderError, match=message):
        render_text("raycluster", {"ray": {"kueue": kueue}})


OPERATOR: dict[str, Any] = {"ray": {"networkPolicy": {"operatorNamespace": "kuberay"}}}
UNPROTECTED: dict[str, Any] = {
    "ray": {part: {"enabled": False} for part in ("networkPolicy", "disruptionBudget", "tokenAuth")}
}
# The pods of the Kubernetes cluster, and no other machine of the VPC.
CLUSTER: list[Any] = [{"namespaceSelector": {}}]
EPHEMERAL: dict[str, Any] = {"job": {"cluster": {"mode": "ephemeral"}}}
STAYS = "cluster-autoscaler.kubernetes.io/safe-to-evict"


def pods_of(objects: list[Object]) -> list[str]:
    """Return a word for each pod of the cluster that a RayJob brings."""
    cluster = by_kind(objects, "RayJob")["spec"]["rayClusterSpec"]
    workers = [group["groupName"] for group in cluster["workerGroupSpecs"] for _ in range(group["replicas"])]
    return ["head", *workers]


def groups(objects: list[Object]) -> list[Any]:
    """Return the pod templates of head and workers, of a RayCluster or of the one in a RayJob."""
    spec = next(item for item in objects if item["kind"] in ("RayCluster", "RayJob"))["spec"]
    cluster = spec.get("rayClusterSpec", spec)
    return [group["template"] for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])]


@pytest.mark.parametrize(("chart", "owner"), [("raycluster", "gemma-ray"), ("grpo-job", "gemma3-gsm8k")])
def test_the_network_policy_selects_pods_by_their_owner_label(chart: str, owner: str, render: Render) -> None:
    """Two clusters of one stack have their own. Metrics stay readable, and the token guards the job API."""
    objects = render(chart, EPHEMERAL)
    policy, budget = by_kind(objects, "NetworkPolicy")["spec"], by_kind(objects, "PodDisruptionBudget")["spec"]
    label = {"matchLabels": {"grpo-charts/owner": owner}}
    assert policy["podSelector"] == budget["selector"] == label
    assert policy["policyTypes"] == ["Ingress"]
    assert policy["ingress"] == [
        {"from": [{"podSelector": label}]},
        {"ports": [{"port": 8080, "protocol": "TCP"}], "from": CLUSTER},
        {"ports": [{"port": 8265, "protocol": "TCP"}], "from": CLUSTER},
    ]
    assert budget["minAvailable"] == 3
    for template in groups(objects):
        assert template["metadata"]["labels"]["grpo-charts/owner"] == owner
        assert template["metadata"]["annotations"][STAYS] == "false"


@pytest.mark.parametrize("chart", ["raycluster", "grpo-job"])
def test_clients_everyone_opens_the_metrics_and_job_ports_to_all(chart: str, render: Render) -> None:
    """GKE hosts the operator of its add-on where no pod of the cluster is."""
    objects = render(chart, {**EPHEMERAL, "ray": {"networkPolicy": {"clients": "everyone"}}})
    _, *others = by_kind(objects, "NetworkPolicy")["spec"]["ingress"]
    assert others == [{"ports": [{"port": port, "protocol": "TCP"}]} for port in (8080, 8265)]


@pytest.mark.parametrize(("chart", "owner"), [("raycluster", "gemma-ray"), ("grpo-job", "gemma3-gsm8k")])
def test_egress_is_limited_to_the_cluster_dns_metadata_https_and_extras(chart: str, owner: str, render: Render) -> None:
    """Their own cluster, DNS, the metadata servers, public addresses at 443, and what the user adds."""
    allow = {"proxy": {"cidr": "10.0.0.5/32", "port": 3128}, "mlflow": {"namespace": "tracking"}, "gone": None}
    objects = render(chart, {**EPHEMERAL, "ray": {"networkPolicy": {"egress": {"enabled": True, "allow": allow}}}})
    spec = by_kind(objects, "NetworkPolicy")["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    own, names, metadata, public, mlflow, proxy = spec["egress"]
    assert own == {"to": [{"podSelector": {"matchLabels": {"grpo-charts/owner": owner}}}]}
    assert names == {"ports": [{"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]}
    assert metadata["to"] == [{"ipBlock": {"cidr": "169.254.0.0/16"}}]
    assert [each["port"] for each in metadata["ports"]] == [80, 988]
    assert public["ports"] == [{"port": 443, "protocol": "TCP"}]
    open_to = ipaddress.ip_network(public["to"][0]["ipBlock"]["cidr"])
    closed = list(map(ipaddress.ip_network, public["to"][0]["ipBlock"]["except"]))
    for address in ("13.33.1.2", "10.1.2.3", "172.31.0.1", "169.254.169.254"):
        found = ipaddress.ip_address(address)
        assert (found in open_to and not any(found in each for each in closed)) is found.is_global, address
    assert mlflow == {"to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "tracking"}}}]}
    assert proxy == {"to": [{"ipBlock": {"cidr": "10.0.0.5/32"}}], "ports": [{"port": 3128, "protocol": "TCP"}]}


@pytest.mark.parametrize("target", [{}, {"port": 1}, {"cidr": "10.0.0.0/8", "namespace": "a"}])
def test_an_egress_target_must_name_exactly_one_place(
    target: dict[str, Any], render_text: Callable[..., Rendered]
) -> None:
    values = {"ray": {"networkPolicy": {"egress": {"enabled": True, "allow": {"x": target}}}}}
    with pytest.raises(RenderError, match=r"egress\.allow\.x names no place or two"):
        render_text("raycluster", values)


@pytest.mark.parametrize("token", [True, False])
@pytest.mark.parametrize(("chart", "owner"), [("raycluster", "gemma-ray"), ("grpo-job", "gemma3-gsm8k")])
def test_a_known_operator_namespace_restricts_the_job_api_to_it(
    chart: str, owner: str, token: bool, render: Render
) -> None:
    """And of the chart's own hooks, which ask the head too."""
    ray = {"ray": {**OPERATOR["ray"], "tokenAuth": {"enabled": token}}}
    _, _, jobs = by_kind(render(chart, {**ray, **EPHEMERAL}), "NetworkPolicy")["spec"]["ingress"]
    namespace = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kuberay"}}}
    hooks = [{"podSelector": {"matchLabels": {"grpo-charts/test": owner}}}] if chart == "raycluster" else []
    assert jobs == {"ports": [{"port": 8265, "protocol": "TCP"}], "from": [namespace, *hooks]}


def test_only_the_cluster_renders_protection_and_it_can_be_disabled(render: Render) -> None:
    """A job on a cluster that exists brings none."""
    protection = {"NetworkPolicy", "PodDisruptionBudget"}
    bare = {"ConfigMap", "Pod", "RayCluster"}
    assert {item["kind"] for item in render("raycluster")} == bare | protection
    assert {item["kind"] for item in render("raycluster", UNPROTECTED)} == bare
    assert {item["kind"] for item in render("grpo-job")} == {"ConfigMap", "RayJob"}
    assert {item["kind"] for item in render("grpo-job", EPHEMERAL)} == {"ConfigMap", "RayJob"} | protection
    for template in groups(render("raycluster", UNPROTECTED)):
        assert STAYS not in template["metadata"]["annotations"]


MONITORS = {"PodMonitor": "monitoring.coreos.com/v1", "PodMonitoring": "monitoring.googleapis.com/v1"}


def scraped(scrape: str) -> dict[str, Any]:
    """Choose who collects the metrics."""
    return {"ray": {"metrics": {"scrape": scrape}}}


@pytest.mark.parametrize("kind", MONITORS)
@pytest.mark.parametrize(("chart", "owner"), [("raycluster", "gemma-ray"), ("grpo-job", "gemma3-gsm8k")])
def test_metrics_are_collected_from_the_pods_of_the_cluster(chart: str, owner: str, kind: str, render: Render) -> None:
    """One object, of the kind that is asked for; Ray's dashboards find the cluster by the label ray_io_cluster."""
    objects = render(chart, {**scraped(kind[0].lower() + kind[1:]), **EPHEMERAL})
    (monitor,) = [item for item in objects if item["kind"] in MONITORS]
    assert (monitor["kind"], monitor["apiVersion"], monitor["metadata"]["name"]) == (kind, MONITORS[kind], owner)
    spec = monitor["spec"]
    assert spec["selector"] == {"matchLabels": {"grpo-charts/owner": owner}}
    for template in groups(objects):
        assert spec["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    endpoints = spec["endpoints" if kind == "PodMonitoring" else "podMetricsEndpoints"]
    assert endpoints == [{"port": "metrics", "interval": "30s"}]
    if kind == "PodMonitoring":
        assert spec["targetLabels"] == {"fromPod": [{"from": "ray.io/cluster", "to": "ray_io_cluster"}]}
    else:
        assert spec["podTargetLabels"] == ["ray.io/cluster"]


@pytest.mark.parametrize("kind", MONITORS)
def test_a_job_on_an_existing_cluster_renders_no_metrics_object(kind: str, render: Render) -> None:
    """The raycluster release does, and by default nobody: a kind that the cluster does not know fails the install."""
    assert not MONITORS.keys() & {item["kind"] for item in render("grpo-job", scraped(kind[0].lower() + kind[1:]))}
    for chart in ("raycluster", "grpo-job"):
        assert not MONITORS.keys() & {item["kind"] for item in render(chart, EPHEMERAL)}


def test_enabling_metrics_recreates_no_pod(render: Render) -> None:
    """Only an object beside the cluster comes."""
    before, after = render("raycluster"), render("raycluster", scraped("podMonitor"))
    assert [item for item in after if item["kind"] not in MONITORS] == before


def test_the_disruption_budget_counts_the_pods_of_the_job(render: Render) -> None:
    """A task on the CPUs of the head has no workers; more than there are would alarm whoever watches budgets."""
    for task, pods in (("train", 3), ("evaluate", 2), ("fetch", 1)):
        objects = render("grpo-job", {"job": {"task": task, "cluster": {"mode": "ephemeral"}}})
        assert by_kind(objects, "PodDisruptionBudget")["spec"]["minAvailable"] == pods == len(pods_of(objects))


def test_the_eviction_annotation_is_not_set_on_autopilot(render: Render) -> None:
    """There it asks for an extended run time, which has limits."""
    objects = render(
        "raycluster", {"platform": {"kind": "gke-autopilot"}, "ray": {"head": {"ephemeralStorage": "4Gi"}}}
    )
    assert by_kind(objects, "PodDisruptionBudget")["spec"]["minAvailable"] == 3
    for template in groups(objects):
        assert STAYS not in template["metadata"]["annotations"]


@pytest.mark.parametrize("chart", ["raycluster", "grpo-job"])
def test_the_notes_say_who_can_run_code_without_a_token(chart: str, render_text: Callable[..., Rendered]) -> None:
    """Once, and only of the cluster that the release has."""
    open_api = "whoever reaches port 8265 runs code on this cluster"
    assert open_api not in (render_text(chart, EPHEMERAL).notes or "")
    notes = render_text(chart, {**UNPROTECTED, **EPHEMERAL}).notes or ""
    assert notes.count(open_api) == 1
    assert "No NetworkPolicy limits who does" in notes
    without = {"ray": {**OPERATOR["ray"], "tokenAuth": {"enabled": False}}}
    assert "lets only namespace kuberay in. If the" in (render_text(chart, {**without, **EPHEMERAL}).notes or "")
    if chart == "grpo-job":
        assert open_api not in (render_text(chart, UNPROTECTED).notes or "")


def test_the_notes_name_only_the_required_secrets(render_text: Callable[..., Rendered]) -> None:
    """Not the one of a hub from which nothing is downloaded; also in the job that brings its own cluster."""
    for chart, values in (("raycluster", {}), ("grpo-job", {"job": {"cluster": {"mode": "ephemeral"}}})):
        notes = render_text(chart, values).notes or ""
        assert "secret generic hf-secret --namespace team-a --from-file=hf_api_token=HF_TOKEN_FILE" in notes
        assert "wandb" not in notes
    both = {"huggingface": {"offline": {"enabled": True}}, "tracking": {"wandb": {"enabled": True}}}
    notes = render_text("raycluster", both).notes or ""
    assert "secret generic wandb-secret --namespace team-a --from-file=api_key=WANDB_API_KEY_FILE" in notes
    assert "hf-secret" not in notes
