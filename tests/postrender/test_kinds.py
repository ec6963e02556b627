"""Objects are judged strictly and offline, as Kubernetes and the operators' own definitions would judge them."""

from __future__ import annotations

import copy
import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from postrender import facts
from postrender.manifests import schemas, violations
from postrender.manifests.violations import Violation
from postrender.yaml import reader
from tests.catalogues.sources import tree
from tests.conftest import thin

ROOT = Path(__file__).resolve().parents[2]
# The distribution has no type hints.
jsonschema: Any = importlib.import_module("jsonschema")
KINDS = schemas.Kinds()


def generated(part: str, version: int = schemas.DEFAULT) -> dict[str, Any]:
    """Return the kinds or the definitions that are known for a version of Kubernetes."""
    of_kubernetes = schemas.of_version(facts.load("kinds/kubernetes.json")[part], version)
    return {**of_kubernetes, **facts.load("kinds/custom.json")[part]}


DEFINITIONS = generated("$defs")
SENSITIVE = "a value that may be a secret"
Object = dict[str, Any]
Json = Any  # what a manifest may hold anywhere


def pod_template() -> Object:
    return {
        "metadata": {"labels": {"app": "x"}, "annotations": {"a": "b"}},
        "spec": {
            "restartPolicy": "Never",
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "containers": [
                {
                    "name": "main",
                    "image": "busybox:1.37",
                    "env": [{"name": "A", "value": "1"}],
                    "resources": {"limits": {"cpu": 2, "memory": "900Gi", "nvidia.com/gpu": "8"}},
                    "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
                    "ports": [{"containerPort": 8265, "name": "dashboard"}],
                }
            ],
            "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "250Gi"}}],
        },
    }


def obj(kind: str, spec: Object | None = None, **more: Json) -> Object:
    version, _, name = kind.rpartition("/")
    out: Object = {"apiVersion": version, "kind": name, "metadata": {"name": "a-name", "labels": {"x": "y"}}}
    return {**out, **({"spec": spec} if spec is not None else {}), **more}


def workload(**more: Json) -> Object:
    template = pod_template()
    template["spec"]["restartPolicy"] = "Always"
    return {"selector": {"matchLabels": {"app": "x"}}, "template": template, **more}


def cluster() -> Object:
    group = {
        "groupName": "gpu",
        "replicas": 2,
        "minReplicas": 2,
        "maxReplicas": 2,
        "numOfHosts": 1,
        "scaleStrategy": {},
    }
    return {
        "rayVersion": "2.55.1",
        "upgradeStrategy": {"type": "Recreate"},
        "headGroupSpec": {"rayStartParams": {"num-gpus": "0"}, "template": pod_template()},
        "workerGroupSpecs": [{**group, "rayStartParams": {}, "template": pod_template()}],
    }


def alerts() -> Object:
    """Return the spec of a good object with one alert."""
    rule = {"alert": "Down", "expr": "up == 0", "for": "10m", "labels": {"severity": "warning"}}
    return {"groups": [{"name": "a", "interval": "1m", "rules": [rule]}]}


CLAIM = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Ti"}}}
GOOD: dict[str, Object] = {
    "v1/ConfigMap": obj("v1/ConfigMap", data={"a": "b"}, immutable=True),
    "v1/Namespace": obj("v1/Namespace"),
    "v1/PersistentVolume": obj(
        "v1/PersistentVolume",
        {
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": "1Ti"},
            "persistentVolumeReclaimPolicy": "Retain",
            "csi": {"driver": "gcsfuse.csi.storage.gke.io", "volumeHandle": "b"},
        },
    ),
    "v1/PersistentVolumeClaim": obj("v1/PersistentVolumeClaim", CLAIM),
    "v1/Pod": obj("v1/Pod", pod_template()["spec"]),
    "v1/PodTemplate": obj("v1/PodTemplate", template=pod_template()),
    "v1/Secret": obj("v1/Secret", data={"a": "aGVsbG8="}, stringData={"b": "text"}, type="Opaque"),
    "v1/Service": obj("v1/Service", {"ports": [{"port": 80, "targetPort": "http"}], "type": "ClusterIP"}),
    "v1/ServiceAccount": obj("v1/ServiceAccount", automountServiceAccountToken=False),
    "apps/v1/DaemonSet": obj("apps/v1/DaemonSet", workload()),
    "apps/v1/Deployment": obj("apps/v1/Deployment", workload(replicas=1)),
    "apps/v1/StatefulSet": obj("apps/v1/StatefulSet", workload(serviceName="x", replicas=1)),
    "batch/v1/CronJob": obj(
        "batch/v1/CronJob",
        {"schedule": "0 * * * *", "jobTemplate": {"spec": {"template": pod_template()}}, "concurrencyPolicy": "Forbid"},
    ),
    "batch/v1/Job": obj("batch/v1/Job", {"template": pod_template(), "backoffLimit": 0}),
    "networking.k8s.io/v1/NetworkPolicy": obj(
        "networking.k8s.io/v1/NetworkPolicy",
        {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"ports": [{"port": 8265, "protocol": "TCP"}]}]},
    ),
    "policy/v1/PodDisruptionBudget": obj("policy/v1/PodDisruptionBudget", {"minAvailable": "50%", "selector": {}}),
    "rbac.authorization.k8s.io/v1/Role": obj(
        "rbac.authorization.k8s.io/v1/Role", rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    ),
    "rbac.authorization.k8s.io/v1/RoleBinding": obj(
        "rbac.authorization.k8s.io/v1/RoleBinding",
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a"},
        subjects=[{"kind": "ServiceAccount", "name": "a", "namespace": "b"}],
    ),
    "resource.k8s.io/v1/ResourceClaimTemplate": obj(
        "resource.k8s.io/v1/ResourceClaimTemplate",
        {
            "spec": {
                "devices": {
                    "requests": [
                        {"name": "r", "exactly": {"deviceClassName": "mrdma.google.com", "allocationMode": "All"}}
                    ]
                }
            }
        },
    ),
    "storage.k8s.io/v1/StorageClass": obj(
        "storage.k8s.io/v1/StorageClass", provisioner="a.b", volumeBindingMode="WaitForFirstConsumer"
    ),
    "ray.io/v1/RayCluster": obj("ray.io/v1/RayCluster", cluster()),
    "ray.io/v1/RayJob": obj(
        "ray.io/v1/RayJob",
        {"entrypoint": "true", "submissionMode": "HTTPMode", "rayClusterSpec": cluster(), "backoffLimit": 0},
    ),
    "ray.io/v1/RayCronJob": obj(
        "ray.io/v1/RayCronJob",
        {"schedule": "0 6 * * *", "suspend": True, "jobTemplate": {"entrypoint": "true", "rayClusterSpec": cluster()}},
    ),
    "ray.io/v1/RayService": obj("ray.io/v1/RayService", {"rayClusterConfig": cluster(), "serveConfigV2": "a: b"}),
    "networking.gke.io/v1/Network": obj(
        "networking.gke.io/v1/Network",
        {
            "type": "Device",
            "parametersRef": {"group": "networking.gke.io", "kind": "GKENetworkParamSet", "name": "rdma-0"},
        },
    ),
    "resource.nvidia.com/v1beta1/ComputeDomain": obj(
        "resource.nvidia.com/v1beta1/ComputeDomain",
        {"numNodes": 2, "channel": {"resourceClaimTemplate": {"name": "nvlink"}}},
    ),
    "networking.gke.io/v1/GKENetworkParamSet": obj(
        "networking.gke.io/v1/GKENetworkParamSet", {"vpc": "a", "vpcSubnet": "b", "deviceMode": "RDMA"}
    ),
    "monitoring.googleapis.com/v1/PodMonitoring": obj(
        "monitoring.googleapis.com/v1/PodMonitoring",
        {
            "selector": {"matchLabels": {"app": "a"}},
            "targetLabels": {"metadata": ["pod"], "fromPod": [{"from": "ray.io/cluster", "to": "cluster_name"}]},
            "endpoints": [{"port": 8080, "interval": "30s", "tls": {"insecureSkipVerify": True}}],
        },
    ),
    "monitoring.googleapis.com/v1/Rules": obj("monitoring.googleapis.com/v1/Rules", alerts()),
    "monitoring.coreos.com/v1/PodMonitor": obj(
        "monitoring.coreos.com/v1/PodMonitor",
        {
            "selector": {"matchLabels": {"app": "a"}},
            "podMetricsEndpoints": [{"port": "metrics", "relabelings": [{"action": "drop", "sourceLabels": ["a"]}]}],
        },
    ),
    "monitoring.coreos.com/v1/PrometheusRule": obj("monitoring.coreos.com/v1/PrometheusRule", alerts()),
}
WORKER = "spec.workerGroupSpecs.0"
MAIN = "spec.template.spec.containers.0"
# Kind, where, what is put there (... removes the key), the path and the message of the one violation.
MEANT = "expected a quantity such as 900Gi, 500m or 2, not below 0; did you mean 64Gi?"
BAD: list[tuple[str, str, Any, str, str]] = [
    ("v1/ConfigMap", "data.a", 1, "data.a", "expected a string; write it in quotes"),
    ("v1/ConfigMap", "metadata.name", "Upper", "metadata.name", "expected lower-case letters, digits, '-' and '.'"),
    ("v1/ConfigMap", "metadata.name", ..., "metadata", "'name' is missing"),
    ("v1/ConfigMap", "metadata.labels.x", "a b", "metadata.labels.x", "expected a label value"),
    ("v1/Namespace", "metadata.name", "a.b", "metadata.name", "expected lower-case letters, digits and '-'"),
    ("v1/PersistentVolume", "spec.capacity.storage", "abc!", "spec.capacity.storage", "expected a quantity"),
    ("v1/PersistentVolume", "spec.persistentVolumeReclaimPolicy", "Keep", "", "expected one of 'Retain', 'Delete'"),
    ("v1/PersistentVolume", "spec.csi.driver", ..., "spec.csi", "'driver' is missing"),
    ("v1/PersistentVolumeClaim", "spec.accessModes.0", "ReadWriteAll", "", "expected one of 'ReadWriteOnce'"),
    ("v1/PersistentVolumeClaim", "spec", ..., "[]", "'spec' is missing"),
    ("v1/Pod", "spec.contaners", [], "", "unknown field"),
    ("v1/Pod", "spec.containers", [], "", "expected 1 entry or more"),
    ("v1/Pod", "spec.restartPolicy", "Sometimes", "", "expected one of 'Always', 'OnFailure', 'Never'"),
    ("v1/PodTemplate", "template.spec.volumes.0.emptyDir.sizelimit", "1Gi", "", "unknown field"),
    ("v1/Secret", "data.a", SENSITIVE, "", "expected base64 text"),
    ("v1/Secret", "stringData.b", {SENSITIVE: SENSITIVE}, "", "expected a string"),
    ("v1/Service", "metadata.name", "1a", "", "expected lower-case letters, digits and '-', starting with a letter"),
    ("v1/Service", "spec.ports.0.port", 0, "", "expected 1 or more"),
    ("v1/ServiceAccount", "automountServiceAccountToken", "no", "", "expected true or false"),
    ("apps/v1/DaemonSet", "spec.selector", ..., "spec", "'selector' is missing"),
    ("apps/v1/Deployment", MAIN + ".imagePullPolicy", "never", "", "expected one of 'Always'"),
    ("apps/v1/Deployment", MAIN + ".image", ..., MAIN, "'image' is missing"),
    ("apps/v1/StatefulSet", "spec.replicas", "1", "", "expected an integer; remove the quotes"),
    (
        "batch/v1/CronJob",
        "spec.jobTemplate.spec.template.spec.containers.0.env.0.valeu",
        SENSITIVE,
        "",
        "unknown field",
    ),
    ("batch/v1/Job", MAIN + ".resources.limits.memory", "900 Gi", "", "expected a quantity such as 900Gi"),
    ("batch/v1/Job", MAIN + ".resources.limits.memory", "64GB", "", MEANT),
    ("batch/v1/Job", MAIN + ".resources.limits.cpu", True, "", "expected a number or a string"),
    ("batch/v1/Job", MAIN + ".ports.0.containerPort", 70000, "", "expected 65535 or less"),
    ("networking.k8s.io/v1/NetworkPolicy", "spec.ingress.0.ports.0.protocol", "HTTP", "", "expected one of 'TCP'"),
    ("policy/v1/PodDisruptionBudget", "spec.minAvailable", 1.5, "", "expected an integer or a string"),
    ("rbac.authorization.k8s.io/v1/Role", "rules.0.verbs", ..., "rules.0", "'verbs' is missing"),
    ("rbac.authorization.k8s.io/v1/RoleBinding", "roleRef.name", ..., "roleRef", "'name' is missing"),
    (
        "resource.k8s.io/v1/ResourceClaimTemplate",
        "spec.spec.devices.requests.0.exactly.count",
        "8",
        "",
        "expected an integer",
    ),
    ("storage.k8s.io/v1/StorageClass", "provisioner", ..., "[]", "'provisioner' is missing"),
    ("ray.io/v1/RayCluster", "metadata.name", "a" * 54, "metadata.name", "expected 53 characters or fewer"),
    ("ray.io/v1/RayCluster", "spec.headGroupSpec", ..., "spec", "'headGroupSpec' is missing"),
    (
        "ray.io/v1/RayCluster",
        "spec.headGroupSpec.rayStartParams.num-gpus",
        0,
        "",
        "expected a string; write it in quotes",
    ),
    ("ray.io/v1/RayCluster", "spec.rayVersion", 2.5, "", "expected a string; write it in quotes"),
    ("ray.io/v1/RayCluster", WORKER + ".replica", 3, "", "unknown field"),
    ("ray.io/v1/RayCluster", WORKER + ".template.spec.hostNetwrok", True, "", "unknown field"),
    ("ray.io/v1/RayJob", "metadata.name", "a" * 48, "metadata.name", "expected 47 characters or fewer"),
    ("ray.io/v1/RayJob", "spec.submissionMode", "HttpMode", "", "expected one of 'K8sJobMode', 'HTTPMode'"),
    ("ray.io/v1/RayJob", "spec.preRunningDeadlineSeconds", 0, "", "expected 1 or more"),
    ("ray.io/v1/RayJob", "spec.rayClusterSpec." + WORKER[5:] + ".template", ..., "", "'template' is missing"),
    ("ray.io/v1/RayCronJob", "spec.schedule", ..., "spec", "'schedule' is missing"),
    ("ray.io/v1/RayCronJob", "spec.jobTemplate.spec", {}, "", "unknown field"),
    ("ray.io/v1/RayService", "spec.serveConfigV2", {"a": SENSITIVE}, "", "expected a string"),
    ("networking.gke.io/v1/Network", "spec.type", "Devices", "", "expected one of 'L2', 'L3', 'Device'"),
    ("networking.gke.io/v1/Network", "spec.parametersRef.name", "Rdma_0", "", "expected lower-case letters"),
    ("resource.nvidia.com/v1beta1/ComputeDomain", "spec.numNodes", "2", "", "expected an integer; remove the quotes"),
    ("networking.gke.io/v1/GKENetworkParamSet", "spec.deviceMode", "Rdma", "", "expected one of 'DPDK-VFIO'"),
    ("networking.gke.io/v1/GKENetworkParamSet", "spec.vpcSubnet", ..., "spec", "fits none of the allowed forms"),
    ("monitoring.googleapis.com/v1/PodMonitoring", "spec.endpoints.0.interval", ..., "", "'interval' is missing"),
    ("monitoring.googleapis.com/v1/PodMonitoring", "spec.endpoints.0.interval", "30", "", "expected a duration"),
    ("monitoring.googleapis.com/v1/PodMonitoring", "spec.endpoints.0.targetPort", 80, "", "unknown field"),
    ("monitoring.googleapis.com/v1/Rules", "spec.groups.0.rules.0.expr", ..., "", "'expr' is missing"),
    (
        "monitoring.coreos.com/v1/PodMonitor",
        "spec.podMetricsEndpoints.0.port",
        80,
        "",
        "expected a string; write it in quotes",
    ),
    ("monitoring.coreos.com/v1/PodMonitor", "spec.selector", ..., "spec", "'selector' is missing"),
    ("monitoring.coreos.com/v1/PrometheusRule", "spec.groups.0.rules.0.for", "10 min", "", "expected a duration"),
]


def steps(path: str) -> list[str | int]:
    return [int(p) if p.isdigit() else p for p in path.split(".")]


def changed(kind: str, where: str, value: Json) -> Object:
    """Return the good object of a kind with one field set; `...` removes it."""
    out = copy.deepcopy(GOOD[kind])
    *parents, last = steps(where)
    node: Any = out
    for step in parents:
        node = node[step]
    if value is ...:
        del node[last]
    else:
        node[last] = value
    return out


def validate(item: Object) -> list[Violation]:
    return KINDS.judge([item])[0]


def oracle(item: Object) -> bool:
    return bool(jsonschema.Draft7Validator(KINDS.schema(schemas.kind_of(item))).is_valid(item))


def test_every_kind_has_a_valid_and_an_invalid_example() -> None:
    assert {kind for kind in generated("kinds") if not KINDS.is_of_kubernetes(kind.rpartition("/")[0])} < set(GOOD)
    assert {case[0] for case in BAD} == set(GOOD)


@pytest.mark.parametrize("kind", GOOD)
def test_a_valid_object_passes(kind: str) -> None:
    assert validate(GOOD[kind]) == []
    assert oracle(GOOD[kind])


@pytest.mark.parametrize(
    ("kind", "where", "value", "path", "message"), BAD, ids=lambda v: v if isinstance(v, str) else ""
)
def test_an_invalid_object_is_rejected_at_its_place(
    kind: str, where: str, value: Json, path: str, message: str
) -> None:
    item = changed(kind, where, value)
    expected = path or (where.rpartition(".")[0] if value is ... else where)
    violations = validate(item)
    assert [v.path for v in violations] == [() if expected == "[]" else tuple(steps(expected))]
    assert violations[0].message.startswith(message)
    assert SENSITIVE not in str(violations)
    assert not oracle(item)


@pytest.mark.parametrize("kind", GOOD)
def test_a_name_is_required_unless_it_is_generated(kind: str) -> None:
    item = changed(kind, "metadata.name", ...)
    assert [str(v) for v in validate(item)] == ["metadata: 'name' is missing"]
    item["metadata"]["generateName"] = "a-"
    assert validate(item) == []


def fields(node: Json, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from fields(inner, (*path, key))


@pytest.mark.full
@pytest.mark.parametrize("kind", GOOD)
def test_both_validators_agree_on_every_mutation(kind: str) -> None:
    """jsonschema is the oracle: each field of the good object is replaced by other types and by an unknown key."""
    for path in fields(GOOD[kind]):
        if path[0] in ("apiVersion", "kind"):
            continue
        where = ".".join(map(str, path))
        if "/" in where or "nvidia.com" in where:
            continue
        for value in (None, 7, "7", True, [], {}, {"unknownKey": 1}, [{"unknownKey": 1}], -1.5):
            item = changed(kind, where, value)
            assert (validate(item) == []) is oracle(item), (where, value)


@pytest.mark.parametrize(
    "item",
    [{"apiVersion": "v1", "kind": "Pdo"}, {"apiVersion": "ray.io/v1alpha1", "kind": "RayJob"}, {"kind": "Pod"}, {}],
)
def test_an_unknown_kind_never_passes_silently(item: Object) -> None:
    assert KINDS.entry(schemas.kind_of(item)) is None
    with pytest.raises(KeyError):
        validate(item)


def test_each_version_has_its_own_kinds_and_fields() -> None:
    claim = "resource.k8s.io/v1/ResourceClaimTemplate"
    assert [version for version in schemas.VERSIONS if schemas.Kinds(version).entry(claim)] == [34, 35, 36, 37]
    assert schemas.Kinds(33).elsewhere("ResourceClaimTemplate")
    assert "resource.k8s.io/v1" not in schemas.Kinds(33).elsewhere("ResourceClaimTemplate")
    pod = {**GOOD["v1/Pod"], "spec": {**GOOD["v1/Pod"]["spec"], "hostnameOverride": "a"}}
    said = {version: [str(v) for v in schemas.Kinds(version).judge([pod])[0]] for version in (33, 34)}
    assert said == {33: ["spec.hostnameOverride: unknown field; did you mean hostname?"], 34: []}


@pytest.mark.parametrize("version", schemas.VERSIONS)
def test_every_kind_of_a_version_compiles(version: int) -> None:
    judge = schemas.Kinds(version)
    own = [kind for kind in generated("kinds", version) if judge.is_of_kubernetes(kind.rpartition("/")[0])]
    assert len(own) > 60
    assert judge.judge([{"apiVersion": kind.rpartition("/")[0], "kind": kind.rpartition("/")[2]} for kind in own])


def test_an_entry_has_the_value_of_its_latest_change() -> None:
    entries = {"a": {"30": 1, "33": None, "35": 2}, "b": {"36": 3}}
    assert [schemas.of_version(entries, version) for version in (32, 33, 34, 36)] == [
        {"a": 1},
        {},
        {},
        {"a": 2, "b": 3},
    ]


@pytest.mark.parametrize(
    ("text", "good"),
    [
        *[
            ("1", True),
            ("900Gi", True),
            ("1.5", True),
            (".5", True),
            ("5e3", True),
            ("-1", True),
            ("100m", True),
            (7, True),
        ],
        *[
            ("abc!", False),
            ("", False),
            ("1 Gi", False),
            ("1GB", False),
            ("Gi", False),
            ("1gi", False),
            ("1..5", False),
        ],
    ],
)
def test_only_valid_quantities_pass(text: Json, good: bool) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "a"}, "spec": {"hard": {"cpu": text}}}
    assert (validate(quota) == []) is good


def crd_fields(node: Json, stop: set[str]) -> dict[str, Any]:
    """Return the field names of an OpenAPI schema, nested, without what lies below a key of `stop`."""
    out: dict[str, Any] = {}
    for name, inner in node.get("properties", {}).items():
        target = inner["items"] if inner.get("type") == "array" else inner
        out[name] = {} if name in stop else crd_fields(target, stop)
    return out


def our_fields(node: Json, stop: set[str]) -> dict[str, Any]:
    while "$ref" in node:
        node = DEFINITIONS[node["$ref"].rpartition("/")[2]]
    out: dict[str, Any] = {}
    for name, inner in node.get("properties", {}).items():
        out[name] = {} if name in stop else our_fields(inner, stop)
    return our_fields(node["items"], stop) if "items" in node else out


# What is Kubernetes' own, and what a newer operator than the one at hand knows (KubeRay 1.7).
KUBERNETES_PARTS = {
    "template",
    "submitterPodTemplate",
    "env",
    "envFrom",
    "volumeMounts",
    "resources",
    "securityContext",
} | {*("headService", "serveService", "valueFrom", "metadata", "status")}
NEWER = {
    *("historyServerOptions", "networkPolicy", "tlsOptions", "ingressOptions", "backend", "storage", "priority"),
    *("command", "args"),
}


def missing(theirs: dict[str, Any], ours: dict[str, Any], path: str = "") -> Iterator[str]:
    for name, inner in theirs.items():
        if name not in ours:
            yield f"{path}{name}"
        else:
            yield from missing(inner, ours[name], f"{path}{name}.")


def both(path: Path, kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of a kind as its definition and as our schema have them."""
    crd = reader.load_values(path).plain()
    version = next(v for v in crd["spec"]["versions"] if v["name"] == "v1")
    entry = KINDS.entry(kind)
    assert entry
    ours = our_fields({"$ref": "#/$defs/" + entry["definition"]}, KUBERNETES_PARTS)
    return crd_fields(version["schema"]["openAPIV3Schema"], KUBERNETES_PARTS), ours


@pytest.mark.parametrize(
    ("folder", "file", "kind"),
    thin(
        [
            ("kuberay-crds", "ray.io_rayclusters.yaml", "ray.io/v1/RayCluster"),
            ("kuberay-crds", "ray.io_rayjobs.yaml", "ray.io/v1/RayJob"),
            ("kuberay-crds", "ray.io_raycronjobs.yaml", "ray.io/v1/RayCronJob"),
            ("kuberay-crds", "ray.io_rayservices.yaml", "ray.io/v1/RayService"),
            ("gke-crds", "networking.gke.io_networks.yaml", "networking.gke.io/v1/Network"),
            ("gke-crds", "networking.gke.io_gkenetworkparamsets.yaml", "networking.gke.io/v1/GKENetworkParamSet"),
        ],
        3,
    ),
)
def test_field_names_match_the_real_definition(folder: str, file: str, kind: str) -> None:
    path = ROOT / ".tools/share" / folder / file
    if not path.is_file():
        message = f"NOT CHECKED: {kind} against its real definition; run tools/build.sh kuberay gke-crds"
        pytest.fail(message) if os.environ.get("GRPO_REQUIRE_TOOLS") else pytest.skip(message)
    theirs, ours = both(path, kind)
    assert list(missing(theirs, ours)) == []
    newer = {"spec.suspend", "spec.timeZone"}
    unknown = [name for name in missing(ours, theirs) if not NEWER & set(name.split(".")) and name not in newer]
    assert unknown == []


@pytest.mark.full
@pytest.mark.parametrize("kind", ["RayCluster", "RayJob", "RayCronJob", "RayService"])
def test_field_names_match_the_next_kuberay(kind: str) -> None:
    """They are exactly its own, but for what is Kubernetes' own and for what it keeps open."""
    path = tree("kuberay", "1.7.0") / f"ray-operator/config/crd/bases/ray.io_{kind.lower()}s.yaml"
    theirs, ours = both(path, f"ray.io/v1/{kind}")
    assert list(missing(theirs, ours)) == []
    assert list(missing(ours, theirs)) == []


@pytest.mark.parametrize("version", schemas.VERSIONS)
def test_each_pattern_has_only_one_description(version: int) -> None:
    """Messages find the words for a pattern by the pattern."""
    said: dict[str, set[str]] = {}
    for pattern, words in violations.patterns(generated("$defs", version)):
        said.setdefault(pattern, set()).add(words)
    assert {pattern: words for pattern, words in said.items() if len(words) > 1} == {}
