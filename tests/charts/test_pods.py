"""What a user adds to the pods, and the options that add containers: order, clashes, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from grpo.helm.engines import Rendered
from postrender.errors import RenderError
from postrender.manifests import pods as manifests
from tests.conftest import Object, Render, by_kind, thin

RenderText = Callable[..., Rendered]
ONCE = "ReadWriteOnce"
LUSTRE = {"perUnitStorageThroughput": "125", "network": "projects/p/global/networks/v", "zone": "us-central1-a"}


def pod(render: Render, part: str, values: dict[str, Any]) -> Object:
    """Return the spec of the head's or the workers' pods."""
    spec = by_kind(render("raycluster", values), "RayCluster")["spec"]
    group = spec["headGroupSpec"] if part == "head" else spec["workerGroupSpecs"][0]
    result: Object = group["template"]["spec"]
    return result


@pytest.mark.parametrize("part", ["head", "workers"])
def test_extra_volumes_mounts_and_containers_come_after_rays(part: str, render: Render) -> None:
    """The RDMA device files reach the first container only."""
    own = {
        "volumes": {"model": {"nfs": {"server": "10.0.0.9", "path": "/m"}}, "gone": None},
        "mounts": {"model": {"mountPath": "/model", "readOnly": True}, "sub": {"name": "data", "mountPath": "/sub"}},
        "initContainers": {"zz-warm": {"image": "busybox:1.37"}},
        "sidecars": {"aa-exporter": {"image": "exporter:1"}, "gone": None},
    }
    spec = pod(render, part, {"ray": {part: own}})
    ray, exporter = spec["containers"]
    assert ray["name"] == ("ray-head" if part == "head" else "ray-worker")
    assert exporter == {"name": "aa-exporter", "image": "exporter:1"}
    assert {"name": "model", "nfs": {"server": "10.0.0.9", "path": "/m"}} in spec["volumes"]
    assert {"name": "model", "mountPath": "/model", "readOnly": True} in ray["volumeMounts"]
    assert {"name": "data", "mountPath": "/sub"} in ray["volumeMounts"]
    names = [container["name"] for container in spec["initContainers"]]
    assert names == (["zz-warm"] if part == "head" else ["check-node", "zz-warm"])


def test_the_security_context_is_as_strict_as_rdma_allows(render: Render) -> None:
    """Root's rights over files stay, because the images run as root and volumes are shared; IPC_LOCK only with RDMA."""
    files = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID"]
    for mode, kept in (("multiNetwork", [*files, "IPC_LOCK"]), ("none", files)):
        context = pod(render, "workers", {"network": {"mode": mode}})["containers"][0]["securityContext"]
        assert context == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"], "add": [*kept, "KILL", "SETGID", "SETUID"]},
        }
    head = pod(render, "head", {})["containers"][0]["securityContext"]
    assert head["seccompProfile"] == {"type": "RuntimeDefault"}


def test_the_users_security_context_is_merged_but_privileged_replaces_ours(render: Render) -> None:
    """The API server refuses privileged beside a forbidden escalation."""
    for own, expected in (
        ({"runAsUser": 0, "capabilities": {"add": ["SYS_NICE"]}}, ["SYS_NICE"]),
        ({"privileged": True}, None),
    ):
        context = pod(render, "workers", {"ray": {"workers": {"securityContext": own}}})["containers"][0][
            "securityContext"
        ]
        if expected is None:
            assert context == own
        else:
            assert context["capabilities"]["drop"] == ["ALL"]
            assert context["capabilities"]["add"][-1:] == expected
            assert "DAC_OVERRIDE" in context["capabilities"]["add"]
            assert context["runAsUser"] == 0
            assert context["allowPrivilegeEscalation"] is False


@pytest.mark.parametrize(
    ("own", "message"),
    thin(
        [
            (
                {"volumes": {"data": {"emptyDir": {}}}},
                r"ray\.head\.volumes\.data: the pod already has a volume with that name",
            ),
            (
                {"mounts": {"nowhere": {"mountPath": "/x"}}},
                r"ray\.head\.mounts\.nowhere: the pod has no volume nowhere",
            ),
            ({"mounts": {"data": {"mountPath": "/data"}}}, r"volume data is already mounted at /data"),
            (
                {"sidecars": {"ray-head": {"image": "a:1"}}},
                r"ray\.head\.sidecars\.ray-head: the pod already has a container",
            ),
            (
                {"initContainers": {"a": {"image": "a:1"}}, "sidecars": {"a": {"image": "a:1"}}},
                r"already has a container with that",
            ),
            (
                {"sidecars": {"a": {"image": "a:1", "volumeMounts": [{"name": "nothing", "mountPath": "/n"}]}}},
                r"ray\.head\.sidecars\.a mounts volume nothing, which the pod does not have",
            ),
            (
                {"volumes": {"a": {"emptyDir": {}, "nfs": {"server": "s", "path": "/"}}}},
                r"has 2 sources \(emptyDir, nfs\)",
            ),
            ({"volumes": {"a": {"emptyDir": None}}}, r"ray\.head\.volumes\.a has 0 sources"),
            ({"volumes": {"ray-logs": {"emptyDir": {}}}}, r"ray\.head\.volumes\.ray-logs"),
            ({"sidecars": {"a": {"imagee": "a:1"}}}, "imagee"),
            ({"sidecars": {"a": {}}}, "image"),
            ({"volumes": {"a": {"emptydir": {}}}}, "emptydir"),
            ({"mounts": {"data": {}}}, "mountPath"),
            ({"securityContext": {"privilegd": True}}, "privilegd"),
        ],
        3,
    ),
)
def test_a_pod_spec_the_api_server_would_reject_is_refused(
    own: dict[str, Any], message: str, render_text: RenderText
) -> None:
    """By name, and by Kubernetes' own schema."""
    with pytest.raises(RenderError, match=message):
        render_text("raycluster", {"ray": {"head": own}})


def test_the_log_sidecar_mounts_rays_log_volume_read_only(render: Render) -> None:
    """Both mount the same volume at Ray's folder, the sidecar read-only; it comes after Ray."""
    for part in ("head", "workers"):
        spec = pod(render, part, {"ray": {"logs": {"fluentBit": {"enabled": True}}}})
        ray, sidecar = spec["containers"]
        assert {"name": "ray-logs", "mountPath": "/tmp/ray"} in ray["volumeMounts"]
        assert sidecar["volumeMounts"] == [{"name": "ray-logs", "mountPath": "/tmp/ray", "readOnly": True}]
        assert sidecar["image"].count(":") == 1
        assert sidecar["resources"]["limits"] == sidecar["resources"]["requests"]
        assert {"name": "ray-logs", "emptyDir": {}} in spec["volumes"]


def test_the_log_sidecar_uses_the_users_volume_mounted_at_rays_folder(render: Render) -> None:
    """Two mounts of one folder would be refused when KubeRay makes the pod."""
    own = {"volumes": {"session": {"emptyDir": {}}}, "mounts": {"session": {"mountPath": "/tmp/ray"}}}
    ray, sidecar = pod(render, "head", {"ray": {"logs": {"fluentBit": {"enabled": True}}, "head": own}})["containers"]
    assert [mount["name"] for mount in ray["volumeMounts"] if mount["mountPath"] == "/tmp/ray"] == ["session"]
    assert sidecar["volumeMounts"] == [{"name": "session", "mountPath": "/tmp/ray", "readOnly": True}]


def test_helper_pods_can_be_scheduled_wherever_the_head_can(render: Render) -> None:
    """TensorBoard, the tests and the check before an upgrade pull the same image, also where every node has GPUs."""
    values: dict[str, Any] = {
        "tracking": {"tensorboard": {"server": {"enabled": True}}},
        "ray": {"head": {"podSpec": {"imagePullSecrets": [{"name": "registry"}], "nodeSelector": {"pool": "cpu"}}}},
    }
    for gpus in (False, True):
        values["ray"]["head"]["gpus"] = {"enabled": gpus}
        objects = render("raycluster", values)
        specs = [item["spec"] for item in objects if item["kind"] == "Pod"]
        specs.append(by_kind(objects, "Deployment")["spec"]["template"]["spec"])
        assert len(specs) == 6
        for spec in specs:
            assert spec["imagePullSecrets"] == [{"name": "registry"}]
            assert spec["serviceAccountName"] == "gemma"
            assert ("requiredDuringSchedulingIgnoredDuringExecution" in spec["affinity"]["nodeAffinity"]) is not gpus
            assert spec.get("nodeSelector") == (None if gpus else {"pool": "cpu"})


def test_service_environment_variables_are_not_injected_into_the_pods(render: Render) -> None:
    """One that is named vllm would set VLLM_PORT=tcp://…, with which vLLM does not start."""
    spec = by_kind(render("raycluster"), "RayCluster")["spec"]
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        assert group["template"]["spec"]["enableServiceLinks"] is False


def test_a_head_with_gpus_is_placed_near_its_workers(render: Render) -> None:
    """Both pod sets form one group, or the head's node could lie in another block."""
    topology = {"queue": "gpus", "topology": {"required": "a/b"}}
    values = {"ray": {"head": {"gpus": {"enabled": True}}, "workers": {"replicas": 1}, "kueue": topology}}
    spec = by_kind(render("raycluster", values), "RayCluster")["spec"]
    for template in (spec["headGroupSpec"]["template"], spec["workerGroupSpecs"][0]["template"]):
        annotations = template["metadata"]["annotations"]
        assert annotations["kueue.x-k8s.io/podset-required-topology"] == "a/b"
        assert annotations["kueue.x-k8s.io/podset-group-name"] == "gpu"


def test_the_network_policy_also_protects_tensorboard(render: Render) -> None:
    """It asks for no password."""
    values = {"tracking": {"tensorboard": {"server": {"enabled": True}}}}
    policies = {
        item["metadata"]["name"]: item for item in render("raycluster", values) if item["kind"] == "NetworkPolicy"
    }
    assert policies["gemma-tensorboard"]["spec"] == {
        "podSelector": {"matchLabels": {"grpo-charts/tensorboard": "gemma"}},
        "policyTypes": ["Ingress"],
    }


def test_the_gcsfuse_sidecar_has_its_limits_and_its_cache(render: Render) -> None:
    """The driver's default of 256Mi is killed under a checkpoint's streams; the cache counts against the disk."""
    claim = {"mountPath": "/weights", "existingClaim": {"name": "w", "gcsfuse": {"enabled": True, "fileCache": "19Gi"}}}
    values = {
        "storage": {"data": {"gcsfuse": {"fileCache": "1000Gi"}}, "theirs": claim},
        "ray": {"gcsfuse": {"memory": "14Gi"}},
    }
    spec = by_kind(render("raycluster", values), "RayCluster")["spec"]
    for group in (spec["headGroupSpec"], spec["workerGroupSpecs"][0]):
        annotations = group["template"]["metadata"]["annotations"]
        assert annotations["gke-gcsfuse/volumes"] == "true"
        assert annotations["gke-gcsfuse/memory-limit"] == "14Gi"
        assert annotations["gke-gcsfuse/ephemeral-storage-limit"] == "1Ti"
        cache = {"name": "gke-gcsfuse-cache", "emptyDir": {"sizeLimit": "1019Gi"}}
        assert cache in group["template"]["spec"]["volumes"]


def test_an_existing_claim_on_a_bucket_gets_the_sidecar(render: Render) -> None:
    """Without the annotation the pods hang at the mount, and nothing says why. Switched off, it takes no disk."""
    for enabled in (True, False):
        claim = {"name": "theirs", "gcsfuse": {"enabled": enabled, "fileCache": "19Gi"}}
        values = {"storage": {"data": {"gcsfuse": None, "existingClaim": claim}}}
        template = by_kind(render("raycluster", values), "RayCluster")["spec"]["headGroupSpec"]["template"]
        assert ("gke-gcsfuse/volumes" in template["metadata"].get("annotations", {})) is enabled
        assert ("gke-gcsfuse-cache" in [volume["name"] for volume in template["spec"]["volumes"]]) is enabled


@pytest.mark.parametrize(
    ("kind", "selector", "toleration"),
    [
        ("on-demand", None, None),
        ("spot", "cloud.google.com/gke-spot", "cloud.google.com/gke-spot"),
        ("flex-start", "cloud.google.com/gke-flex-start", None),
        ("queued", None, "cloud.google.com/gke-queued"),
    ],
)
def test_gpu_pods_select_the_provisioning_model_of_the_nodes(
    kind: str, selector: str | None, toleration: str | None, render: Render, render_text: RenderText
) -> None:
    """GPU pods only: the head stays on ordinary machines. NOTES of network have the flags of the pool."""
    values = {"platform": {"capacity": {"kind": kind}}, "ray": {"kueue": {"queue": "gpus"}}}
    worker, head = pod(render, "workers", values), pod(render, "head", values)
    chosen = {key for key in worker["nodeSelector"] if "accelerator" not in key}
    assert chosen == ({selector} if selector else set())
    tolerated = {entry["key"] for entry in worker["tolerations"]}
    assert tolerated == {"nvidia.com/gpu"} | ({toleration} if toleration else set())
    assert "tolerations" not in head
    notes = render_text("network", values).notes or ""
    flag = {"on-demand": "--num-nodes=NODES", "spot": "--spot", "queued": "--enable-queued-provisioning"}
    assert flag.get(kind, "--flex-start") in notes


@pytest.mark.parametrize("mode", ["existing", "ephemeral"])
def test_queued_provisioning_is_requested_on_the_object_kueue_admits(mode: str, render: Render) -> None:
    """On the RayCluster, or on the RayJob that brings its own; never on a RayJob with a cluster that exists."""
    values = {
        "platform": {"capacity": {"kind": "queued", "maxRunDurationSeconds": 86400}},
        "ray": {"kueue": {"queue": "gpus"}},
        "job": {"cluster": {"mode": mode}},
    }
    expected = {"provreq.kueue.x-k8s.io/maxRunDurationSeconds": "86400"}
    job = by_kind(render("grpo-job", values), "RayJob")
    assert job["metadata"].get("annotations") == (expected if mode == "ephemeral" else None)
    assert by_kind(render("raycluster", values), "RayCluster")["metadata"]["annotations"] == expected


@pytest.mark.parametrize(
    ("layer", "values", "message"),
    thin(
        [
            (
                "raycluster",
                {"platform": {"capacity": {"kind": "reservation"}}},
                r"platform\.capacity\.reservation is empty: write",
            ),
            ("network", {"platform": {"capacity": {"reservation": "ours"}}}, r"set the kind to reservation"),
            ("raycluster", {"platform": {"capacity": {"kind": "queued"}}}, r"set ray\.kueue\.queue"),
            (
                "raycluster",
                {
                    "platform": {"kind": "kubernetes", "capacity": {"kind": "spot"}},
                    "accelerator": {"refuses": {"kubernetes": None}},
                    "network": {"mode": "none"},
                },
                r"platform\.capacity says how GKE nodes are bought",
            ),
            (
                "raycluster",
                {"images": {"training": {"rayVersion": "2.49.2"}}},
                r"ray\.tokenAuth\.enabled needs Ray 2\.52\.0 or newer, but images\.training has 2\.49\.2",
            ),
            (
                "raycluster",
                {"tracking": {"tensorboard": {"server": {"enabled": True, "volume": "other"}}}},
                r"tracking\.tensorboard\.server\.volume is \"other\"",
            ),
            (
                "raycluster",
                {
                    "tracking": {"tensorboard": {"server": {"enabled": True, "volume": "local"}}},
                    "storage": {"local": {"mountPath": "/local", "ephemeral": {"size": "1Gi"}}},
                },
                r"which is local disk of each pod",
            ),
            (
                "raycluster",
                {
                    "network": {"mode": "dranet"},
                    "ray": {"workers": {"annotations": {"networking.gke.io/interfaces": "[]"}}},
                },
                r"ray\.workers\.annotations\.networking\.gke\.io/interfaces attaches networks, but network\.mode is",
            ),
            (
                "raycluster",
                {"ray": {"workers": {"annotations": {"networking.gke.io/interfaces": "[]"}}}},
                r"ray\.workers\.annotations\.networking\.gke\.io/interfaces: the charts set it themselves",
            ),
            (
                "raycluster",
                {"ray": {"head": {"labels": {"kueue.x-k8s.io/queue-name": "gpus"}}}},
                r"Kueue would admit each pod separately.*set ray\.kueue\.queue",
            ),
            (
                "grpo-job",
                {"stack": {"labels": {"kueue.x-k8s.io/queue-name": "gpus"}}},
                r"a RayJob on an existing cluster, which Kueue refuses",
            ),
            (
                "raycluster",
                {"ray": {"env": {"RAY_AUTH_MODE": {"value": "disabled"}}}},
                r"ray\.env\.RAY_AUTH_MODE: KubeRay sets or refuses RAY_AUTH_MODE itself",
            ),
            (
                "raycluster",
                {"storage": {"big": {"mountPath": "/big", "ephemeral": {"size": "5Ti"}}}},
                r"storage\.big\.ephemeral\.size is 5Ti, but a worker has 1000Gi",
            ),
            (
                "raycluster",
                {
                    "storage": {
                        "one": {"mountPath": "/o", "pvc": {"storageClassName": "a", "size": "1Gi", "accessMode": ONCE}}
                    }
                },
                r"storage\.one\.pvc\.accessMode is ReadWriteOnce",
            ),
            (
                "raycluster",
                {"storage": {"data": {"mountPath": "/tmp/ray"}}},
                r"storage\.data\.mountPath is /tmp/ray, where each pod's own Ray session",
            ),
            (
                "raycluster",
                {
                    "huggingface": {"offline": {"enabled": True}, "cache": {"volume": "local"}},
                    "storage": {"local": {"mountPath": "/local", "ephemeral": {"size": "1Gi"}}},
                },
                r"huggingface\.cache\.volume is \"local\", local disk .* needs a filled cache",
            ),
            (
                "raycluster",
                {
                    "network": {"mode": "dranet"},
                    "ray": {"workers": {"podSpec": {"resourceClaims": [{"name": "rdma"}]}}},
                },
                r"the charts claim devices under the name rdma themselves",
            ),
            (
                "grpo-job",
                {"storage": {"data": {"gcsfuse": {"purpose": "data"}}}},
                r"set storage\.data\.gcsfuse\.purpose to checkpoints",
            ),
            (
                "grpo-job",
                {"job": {"name": "gemma-ray", "cluster": {"mode": "ephemeral"}}},
                r"job\.name is gemma-ray, which is also the name of the stack's RayCluster",
            ),
            (
                "storage",
                {
                    "storage": {
                        name: {
                            "mountPath": f"/{name}",
                            "pvc": {"storageClassName": "l", "size": "72000Gi", "lustre": LUSTRE},
                        }
                        for name in ("a", "b")
                    }
                },
                r"storage\.a\.pvc and storage\.b\.pvc both make the storage class l",
            ),
            (
                "network",
                {"network": {"mode": "none", "rdmaInstaller": {"enabled": True}}},
                r"nothing would use the plugin",
            ),
        ],
        3,
    ),
)
def test_combinations_that_cannot_work_are_refused(
    layer: str, values: dict[str, Any], message: str, render_text: RenderText
) -> None:
    """Each with what to change."""
    with pytest.raises(RenderError, match=message):
        render_text(layer, values)


def test_token_authentication_is_enabled_when_ray_supports_it(render: Render) -> None:
    """KubeRay makes the Secret and gives it to the pods."""
    values: dict[str, Any] = {"job": {"cluster": {"mode": "ephemeral"}}}
    assert by_kind(render("raycluster"), "RayCluster")["spec"]["authOptions"] == {"mode": "token"}
    job = by_kind(render("grpo-job", values), "RayJob")
    assert job["spec"]["rayClusterSpec"]["authOptions"] == {"mode": "token"}


def test_tensorboard_can_only_read_the_runs(render: Render, render_text: RenderText) -> None:
    """One volume, read-only; no right, no GPU, no label that would make it part of the cluster."""
    values = {"tracking": {"tensorboard": {"server": {"enabled": True}}}}
    objects = {item["kind"]: item for item in render("raycluster", values)}
    template = objects["Deployment"]["spec"]["template"]
    (container,) = template["spec"]["containers"]
    assert container["args"][0] == "--logdir=/data/runs"
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    assert set(mounts) == {"/data", "/tmp"}
    assert mounts["/data"]["readOnly"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert template["metadata"]["annotations"]["gke-gcsfuse/volumes"] == "true"
    assert "grpo-charts/owner" not in template["metadata"]["labels"]
    labels = objects["Service"]["spec"]["selector"].items()
    assert labels <= template["metadata"]["labels"].items()
    assert "service/gemma-tensorboard 6006" in (render_text("raycluster", values).notes or "")


def test_the_installer_is_pinned_and_targets_one_machine_family(render: Render, render_text: RenderText) -> None:
    """Two machine families in one cluster have one each; without it NOTES print Google's manifest at a commit."""
    objects = render("network", {"network": {"rdmaInstaller": {"enabled": True}}})
    (daemon,) = [item for item in objects if item["kind"] == "DaemonSet"]
    assert daemon["metadata"]["namespace"] == "kube-system"
    assert daemon["metadata"]["name"] == "grpo-rdma-installer-b200"
    spec = daemon["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == {"cloud.google.com/gke-accelerator": "nvidia-b200"}
    assert spec["initContainers"][0]["image"].endswith("nccl-plugin-gib:v1.1.1")
    notes = render_text("network").notes or ""
    assert "kubectl apply -f https://raw.githubusercontent.com" in notes
    assert "992db81257553607f1477945f1b3219632991829/gpudirect-rdma/nccl-rdma-installer.yaml" in notes


def test_no_pod_mounts_a_kubernetes_api_token(render: Render) -> None:
    """Nothing in them calls the Kubernetes API. The user's own code may."""
    server = {"tracking": {"tensorboard": {"server": {"enabled": True}}}}
    installer = {"network": {"rdmaInstaller": {"enabled": True}}}
    objects = [
        *render("raycluster", server),
        *render("grpo-job", {"job": {"cluster": {"mode": "ephemeral"}}}),
        *render("network", installer),
    ]
    specs = [found.spec for item in objects for found in manifests.pods(item)]
    assert len(specs) == 11
    assert [spec.get("automountServiceAccountToken") for spec in specs] == [False] * len(specs)
    own = {"ray": {"workers": {"podSpec": {"automountServiceAccountToken": True}}}}
    assert pod(render, "workers", own)["automountServiceAccountToken"] is True
