"""Fields and values that the operator's version does not know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from grpo.problems.ray.rayspec import (
    OPERATOR,
    VALIDATION,
    Cluster,
    Group,
    Job,
    each_cluster,
    each_group,
    each_job,
    each_of,
)
from postrender.finding import ERROR, INFO, WARNING
from postrender.gate.manifests import joined
from postrender.manifests.pods import mapping, sequence
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.problems.ray.rayspec import Found
    from postrender.gate.manifests import Item
    from postrender.manifests.pods import Path

_TYPES: Final = "kuberay/ray-operator/apis/ray/v1 at v1.6.2"
# The fields of the operator's version, grouped by their object; a test compares them with its CRDs.
FIELDS: Final = {
    "a cluster": "authOptions autoscalerOptions enableInTreeAutoscaling gcsFaultToleranceOptions headGroupSpec"
    " headServiceAnnotations managedBy rayVersion suspend upgradeStrategy workerGroupSpecs",
    "the head": "enableIngress headService labels rayStartParams resources serviceType template",
    "a worker group": "groupName idleTimeoutSeconds labels maxReplicas minReplicas numOfHosts rayStartParams replicas"
    " resources scaleStrategy suspend template",
    "scaleStrategy": "workersToDelete",
    "autoscalerOptions": "env envFrom idleTimeoutSeconds image imagePullPolicy resources securityContext upscalingMode"
    " version volumeMounts",
    "authOptions": "enableK8sTokenAuth mode secretName",
    "upgradeStrategy": "type",
    "gcsFaultToleranceOptions": "externalStorageNamespace redisAddress redisPassword redisUsername",
    "a RayJob": "activeDeadlineSeconds backoffLimit clusterSelector deletionStrategy entrypoint entrypointNumCpus"
    " entrypointNumGpus entrypointResources jobId managedBy metadata preRunningDeadlineSeconds rayClusterSpec"
    " runtimeEnvYAML shutdownAfterJobFinishes submissionMode submitterConfig submitterPodTemplate suspend"
    " ttlSecondsAfterFinished",
    "submitterConfig": "backoffLimit",
    "deletionStrategy": "deletionRules onFailure onSuccess",
    "a deletion rule": "condition policy",
    "a condition": "jobDeploymentStatus jobStatus ttlSeconds",
    "a RayService": "deploymentUnhealthySecondThreshold excludeHeadPodFromServeSvc managedBy rayClusterConfig"
    " rayClusterDeletionDelaySeconds serveConfigV2 serveService serviceUnhealthySecondThreshold upgradeStrategy",
    "a service's upgradeStrategy": "clusterUpgradeOptions type",
    "clusterUpgradeOptions": "gatewayClassName intervalSeconds maxSurgePercent stepSizePercent",
    "a RayCronJob": "jobTemplate schedule suspend",
}
# Fields of the next version, most of them behind a feature gate; where its source is at hand, a test compares them too.
LATER: Final = {
    "a cluster": "historyServerOptions networkPolicy tlsOptions",
    "the head": "ingressOptions",
    "a worker group": "priority",
    "autoscalerOptions": "args command",
    "gcsFaultToleranceOptions": "backend storage",
    "a RayService": "suspend",
    "a RayCronJob": "timeZone",
}
# Required fields; the API server has defaults for minReplicas and maxReplicas.
_REQUIRED: Final = {
    "a cluster": "headGroupSpec",
    "the head": "template",
    "a worker group": "groupName template",
    "gcsFaultToleranceOptions": "redisAddress",
    "a deletion rule": "condition policy",
    "a RayService": "rayClusterConfig",
    "clusterUpgradeOptions": "gatewayClassName intervalSeconds stepSizePercent",
    "a RayCronJob": "jobTemplate schedule",
}
_POLICIES: Final = ("DeleteCluster", "DeleteWorkers", "DeleteSelf", "DeleteNone")
_MANAGERS: Final = ("ray.io/kuberay-operator", "kueue.x-k8s.io/multikueue")
_GRADUAL: Final = "NewClusterWithIncrementalUpgrade"
_EACH_OTHER: Final = each_of("RayService", "RayCronJob")


def _parts(cluster: Cluster) -> Iterator[tuple[str, Path, dict[str, Any]]]:
    yield "a cluster", cluster.path, cluster.spec
    if "headGroupSpec" in cluster.spec:
        yield "the head", cluster.head.path, cluster.head.spec
    for group in cluster.workers:
        yield "a worker group", group.path, group.spec
        yield "scaleStrategy", (*group.path, "scaleStrategy"), mapping(group.spec.get("scaleStrategy"))
    for name in ("autoscalerOptions", "authOptions", "upgradeStrategy", "gcsFaultToleranceOptions"):
        if isinstance(cluster.spec.get(name), dict):
            yield name, (*cluster.path, name), cluster.option(name)


def _job_parts(job: Job) -> Iterator[tuple[str, Path, dict[str, Any]]]:
    strategy = mapping(job.spec.get("deletionStrategy"))
    yield "a RayJob", ("spec",), job.spec
    yield "submitterConfig", ("spec", "submitterConfig"), mapping(job.spec.get("submitterConfig"))
    yield "deletionStrategy", ("spec", "deletionStrategy"), strategy
    for at, rule in enumerate(map(mapping, sequence(strategy.get("deletionRules")))):
        path = ("spec", "deletionStrategy", "deletionRules", at)
        yield "a deletion rule", path, rule
        yield "a condition", (*path, "condition"), mapping(rule.get("condition"))


def _other_parts(item: Item) -> Iterator[tuple[str, Path, dict[str, Any]]]:
    """Yield the parts of a RayService or a RayCronJob outside its cluster and its job."""
    spec, kind = mapping(item.object.get("spec")), item.object["kind"]
    yield f"a {kind}", ("spec",), spec
    strategy = mapping(spec.get("upgradeStrategy"))
    if kind == "RayService":
        yield "a service's upgradeStrategy", ("spec", "upgradeStrategy"), strategy
        if isinstance(strategy.get("clusterUpgradeOptions"), dict):
            path = ("spec", "upgradeStrategy", "clusterUpgradeOptions")
            yield path[-1], path, strategy["clusterUpgradeOptions"]


def _unknown(parts: Iterator[tuple[str, Path, dict[str, Any]]]) -> Found:
    for of, path, spec in parts:
        for key in sorted(set(spec) - set(FIELDS[of].split()) - set(LATER.get(of, "").split())):
            yield (*path, key), f"the field {key} of {of} is none that KubeRay knows"


def _newer(parts: Iterator[tuple[str, Path, dict[str, Any]]]) -> Found:
    for of, path, spec in parts:
        for key in sorted(set(spec) & set(LATER.get(of, "").split())):
            yield (*path, key), f"the field {key} of {of} is for KubeRay 1.7 or newer"


def _missing(parts: Iterator[tuple[str, Path, dict[str, Any]]]) -> Found:
    for of, path, spec in parts:
        # KubeRay 1.7 needs no address of Redis for another backend.
        needless = {"redisAddress"} if spec.get("backend") not in (None, "redis") else set()
        for key in _REQUIRED.get(of, "").split():
            if spec.get(key) is None and key not in needless:
                yield path, f"{of} has no {key}"


def _cluster_values(cluster: Cluster) -> Found:
    strategy = cluster.option("upgradeStrategy")
    yield from _among((*cluster.path, "autoscalerOptions"), cluster.autoscaler, "version", ("v1", "v2"))
    modes = ("Default", "Aggressive", "Conservative")
    yield from _among((*cluster.path, "autoscalerOptions"), cluster.autoscaler, "upscalingMode", modes)
    yield from _among((*cluster.path, "authOptions"), cluster.option("authOptions"), "mode", ("disabled", "token"))
    yield from _among((*cluster.path, "upgradeStrategy"), strategy, "type", ("Recreate", "None"))
    yield from _among(cluster.path, cluster.spec, "managedBy", _MANAGERS)


def _job_values(job: Job) -> Found:
    strategy = mapping(job.spec.get("deletionStrategy"))
    path: Path = ("spec", "deletionStrategy")
    yield from _among(("spec",), job.spec, "managedBy", _MANAGERS)
    for name in ("onSuccess", "onFailure"):
        yield from _among((*path, name), mapping(strategy.get(name)), "policy", _POLICIES)
    for at, rule in enumerate(map(mapping, sequence(strategy.get("deletionRules")))):
        place, condition = (*path, "deletionRules", at), mapping(rule.get("condition"))
        yield from _among(place, rule, "policy", _POLICIES)
        yield from _among((*place, "condition"), condition, "jobStatus", ("SUCCEEDED", "FAILED"))
        yield from _among((*place, "condition"), condition, "jobDeploymentStatus", ("Failed",))


def _service_values(item: Item) -> Found:
    spec = mapping(item.object.get("spec"))
    kinds = ("NewCluster", _GRADUAL, "None")
    yield from _among(("spec",), spec, "managedBy", _MANAGERS)
    yield from _among(("spec", "upgradeStrategy"), mapping(spec.get("upgradeStrategy")), "type", kinds)


def _gated(item: Item) -> Found:
    strategy = mapping(mapping(item.object.get("spec")).get("upgradeStrategy"))
    if item.object["kind"] == "RayCronJob":
        yield ("kind",), "nothing happens unless the operator runs with the feature gate RayCronJob"
    elif strategy.get("type") == _GRADUAL:
        what = "no upgrade happens unless the operator runs with the feature gate RayServiceIncrementalUpgrade"
        yield ("spec", "upgradeStrategy", "type"), what


def _among(path: Path, spec: dict[str, Any], key: str, known: tuple[str, ...]) -> Found:
    value = spec.get(key)
    if value is not None and value not in known:
        yield (*path, key), f"{key} is not one of {', '.join(known)}"


def _params(group: Group) -> Found:
    for name in ("rayStartParams", "resources", "labels"):
        for key, value in mapping(group.spec.get(name)).items():
            if value is not None and not isinstance(value, str):
                yield (*group.path, name, key), f"{key} in {name} of {group.title} is not a string"


def _owned(cluster: Cluster) -> Found:
    strategy = cluster.option("upgradeStrategy")
    if strategy.get("type") is not None and cluster.owner != "RayCluster":
        path = (*cluster.path, "upgradeStrategy", "type")
        yield path, f"the cluster of a {cluster.owner} has upgradeStrategy {strategy['type']}"


_DROPPED: Final = f"KubeRay {OPERATOR} drops the field, so the setting has no effect"
_REFUSED: Final = "the API server refuses the object, after others of the same release are installed"

RULES = (
    Problem(
        "ray/unknown-field",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.SILENT,
        title="a KubeRay object has a field that no version of the operator knows",
        why=_DROPPED,
        fix="correct the spelling, or remove the field",
        source=_TYPES,
        check=joined(
            each_cluster(lambda cluster: _unknown(_parts(cluster))),
            each_job(lambda job: _unknown(_job_parts(job))),
            _EACH_OTHER(lambda item: _unknown(_other_parts(item))),
        ),
    ),
    Problem(
        "ray/newer-field",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.SILENT,
        title="a field is newer than the version of the operator that the charts are tested with",
        why=f"{_DROPPED}; 1.7 may need a feature gate for it",
        fix="install KubeRay 1.7 or newer with the feature gate of the field, or remove the field",
        source="kuberay/ray-operator/apis/ray/v1 at v1.7.0",
        check=joined(
            each_cluster(lambda cluster: _newer(_parts(cluster))),
            _EACH_OTHER(lambda item: _newer(_other_parts(item))),
        ),
    ),
    Problem(
        "ray/unknown-value",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_ADMISSION,
        title="a setting of a KubeRay object has a value that does not exist",
        why=_REFUSED,
        fix="write one of the values that exist",
        source=_TYPES,
        check=joined(each_cluster(_cluster_values), each_job(_job_values), each_of("RayService")(_service_values)),
    ),
    Problem(
        "ray/field-missing",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_ADMISSION,
        title="an object of KubeRay lacks a field that the API server requires",
        why=_REFUSED,
        fix="write the field, with its value",
        source=_TYPES,
        check=joined(
            each_cluster(lambda cluster: _missing(_parts(cluster))),
            each_job(lambda job: _missing(_job_parts(job))),
            _EACH_OTHER(lambda item: _missing(_other_parts(item))),
        ),
    ),
    Problem(
        "ray/number-for-text",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_ADMISSION,
        title="a setting of Ray is not a string, but KubeRay expects one",
        why=_REFUSED,
        fix='write the value in quotes, for instance "0" or "true"',
        source=_TYPES,
        check=each_group(_params),
    ),
    Problem(
        "ray/upgrade-strategy-owned",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="the cluster of a job or a service has an upgradeStrategy",
        why="the operator refuses the cluster that it creates, and the job waits for it until its deadline",
        fix="remove upgradeStrategy: the operator never changes such a cluster in place",
        source=VALIDATION,
        check=each_cluster(_owned),
    ),
    Problem(
        "ray/feature-gate",
        target=OBJECTS,
        severity=INFO,
        fails=Fails.SILENT,
        title="an object needs a feature gate of the operator that is off by default",
        why="without the feature gate the operator ignores the object: no job is created, no upgrade happens",
        fix="start the operator with the feature gate (featureGates in the values of its chart)",
        source="kuberay/ray-operator/pkg/features/features.go at v1.6.2",
        check=_EACH_OTHER(_gated),
    ),
)
