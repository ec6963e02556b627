"""What the API server refuses, `grpo check` has refused before: on objects that are changed in one place each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from postrender.manifests.apiserver import NO_NAMESPACE

from harness.changes import (
    ABSENT,
    GOOD,
    LABELS,
    LIMITS,
    NAMESPACE,
    OF_POD,
    OF_TEMPLATE,
    REQUESTS,
    C,
    changed,
    found,
    said,
)
from harness.kube import Kube
from harness.listed import for_ci

IGNORED = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}
# Kind, place, what is written there.
CHANGES: list[tuple[str, str, Any]] = [
    ("Pod", f"{LIMITS}.nvidia/com/gpu", "0.5"),
    ("Pod", f"{LIMITS}.nvidia/com/gpu", "500m"),
    ("Pod", f"{LIMITS}.nvidia/com/gpu", "8000m"),
    ("Pod", f"{LIMITS}.nvidia/com/gpu", "8.0"),
    ("Pod", f"{LIMITS}.nvidia/com/gpu", -1),
    ("Pod", f"{LIMITS}.nvidia/com/gpu", 4),
    ("Pod", f"{LIMITS}.nvidia/com/gpu", ABSENT),
    ("Pod", f"{REQUESTS}.nvidia/com/gpu", ABSENT),
    ("Pod", f"{REQUESTS}.memory", "9Gi"),
    ("Pod", f"{REQUESTS}.memory", ABSENT),
    ("Pod", f"{REQUESTS}.cpu", "5"),
    ("Pod", f"{REQUESTS}.cpu", "-1"),
    ("Pod", f"{LIMITS}.memory", "8GiB"),
    ("Pod", f"{LIMITS}.memory", "8Gb"),
    ("Pod", f"{LIMITS}.memory", ""),
    ("Pod", f"{LIMITS}.gpu", 1),
    ("Pod", "metadata.labels.a b", "c"),
    ("Pod", "metadata.labels.-a", "c"),
    ("Pod", "metadata.labels.a/b/c", "c"),
    ("Pod", "metadata.labels.Example/com/b", "c"),
    ("Pod", "metadata.labels.example_com~b", "c"),
    ("Pod", "metadata.labels./b", "c"),
    ("Pod", "metadata.labels." + "a" * 64, "c"),
    ("Pod", "metadata.annotations.a b", "c"),
    ("Pod", "metadata.annotations.a", "any text at all: ~"),
    ("Pod", f"{OF_POD}.nodeSelector.a b", "c"),
    ("Pod", f"{OF_POD}.nodeSelector.a", "b c"),
    ("Pod", f"{OF_POD}.nodeSelector.example/com/a", "b"),
    ("Pod", f"{C}.env.0.name", "A B"),
    ("Pod", f"{C}.env.0.name", "a.b-c"),
    ("Pod", f"{C}.env.0.valueFrom", {"secretKeyRef": {"name": "a", "key": "b"}}),
    ("Pod", f"{C}.name", "Main"),
    ("Pod", f"{C}.name", "a.b"),
    ("Pod", f"{C}.ports.0.name", "a-port-with-a-long-name"),
    ("Pod", f"{C}.ports.0.name", "http_a"),
    ("Pod", f"{C}.ports.0.name", "8080"),
    ("Pod", f"{C}.ports.0.containerPort", 0),
    ("Pod", f"{C}.volumeMounts.0.name", "other"),
    ("Pod", f"{C}.volumeMounts.1", {"name": "shm", "mountPath": "/dev/shm"}),
    ("Pod", f"{C}.volumeMounts.1", {"name": "shm", "mountPath": "C:\\a"}),
    ("Pod", f"{LIMITS}.cpu", "3999.5m"),
    ("Pod", f"{C}.image", " "),
    ("Pod", f"{C}.image", "a b"),
    ("Pod", f"{C}.image", ABSENT),
    ("Pod", f"{C}.imagePullPolicy", "IfMissing"),
    ("Pod", f"{OF_POD}.containers.1", {"name": "main", "image": "b"}),
    ("Pod", f"{OF_POD}.volumes.1", {"name": "shm", "emptyDir": {}}),
    ("Pod", f"{OF_POD}.volumes.0.hostPath", {"path": "/a"}),
    ("Pod", f"{OF_POD}.volumes.0.emptyDir", ABSENT),
    ("Pod", f"{OF_POD}.volumes.0.emptyDir.sizeLimit", "-1"),
    ("Pod", f"{OF_POD}.restartPolicy", "Sometimes"),
    ("Pod", f"{OF_POD}.tolerations.0.operator", "Equal"),
    ("Pod", f"{OF_POD}.tolerations.0.value", "a"),
    ("Pod", f"{OF_POD}.tolerations.0.effect", "NoEntry"),
    ("Pod", f"{OF_POD}.tolerations.0.tolerationSeconds", 5),
    ("Pod", f"{OF_POD}.tolerations.0.key", ABSENT),
    ("Pod", f"{OF_POD}.terminationGracePeriodSeconds", -1),
    ("Pod", f"{OF_POD}.activeDeadlineSeconds", 0),
    ("Pod", f"{OF_POD}.hostNetwork", "yes"),
    ("Pod", f"{OF_POD}.subdomain", "a.b"),
    ("Pod", f"{OF_POD}.hostname", "a.b"),
    ("Pod", f"{OF_POD}.imagePullSecrets", [{"name": "a"}]),
    (
        "Pod",
        f"{OF_POD}.topologySpreadConstraints",
        [{"maxSkew": 0, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}],
    ),
    ("Pod", f"{C}.livenessProbe", {"periodSeconds": 5}),
    ("Pod", f"{C}.livenessProbe", {"exec": {"command": ["a"]}, "periodSeconds": -1}),
    ("Pod", f"{C}.securityContext", {"privileged": True, "allowPrivilegeEscalation": False}),
    ("Pod", f"{C}.workingDir", "a"),
    ("Pod", "metadata.name", "A"),
    ("Pod", "metadata.name", "a_b"),
    ("Pod", "metadata.name", "a" * 254),
    ("Pod", "metadata.ownerReferences", [{"apiVersion": "v1", "kind": "Pod", "name": "b"}]),
    ("Job", f"{OF_TEMPLATE}.restartPolicy", ABSENT),
    ("Job", f"{OF_TEMPLATE}.restartPolicy", "Always"),
    ("Job", f"{OF_TEMPLATE}.restartPolicy", "OnFailure"),
    ("Job", "spec.backoffLimit", -1),
    ("Job", "spec.parallelism", -1),
    ("Job", "spec.completions", -1),
    ("Job", "spec.ttlSecondsAfterFinished", -1),
    ("Job", "spec.activeDeadlineSeconds", -1),
    ("Job", "spec.completionMode", "Indexed"),
    ("Job", "spec.selector", {"matchLabels": LABELS}),
    ("Job", "spec.selector", {}),
    ("Job", "spec.selector", None),
    ("Job", "spec.backoffLimitPerIndex", None),
    ("Job", "spec.podFailurePolicy", IGNORED),
    ("Job", "spec.backoffLimitPerIndex", 1),
    ("Job", "metadata.name", "a" * 64),
    ("CronJob", "spec.jobTemplate.spec.template.spec.restartPolicy", ABSENT),
    ("CronJob", "spec.jobTemplate.spec.template.spec.restartPolicy", "Always"),
    ("CronJob", "spec.schedule", "every day"),
    ("CronJob", "spec.schedule", "0 0 * *"),
    ("CronJob", "spec.schedule", "@daily"),
    ("CronJob", "metadata.name", "a" * 53),
    ("Deployment", "spec.selector.matchLabels", {"app": "b"}),
    ("Deployment", "spec.selector.matchLabels", {"app": "a", "none": None}),
    ("Deployment", "spec.selector.matchLabels", {}),
    ("Deployment", "spec.selector", ABSENT),
    ("Deployment", "spec.selector.matchExpressions", [{"key": "app", "operator": "In", "values": ["b"]}]),
    ("Deployment", "spec.selector.matchExpressions", [{"key": "app", "operator": "Exists"}]),
    ("Deployment", "spec.selector.matchExpressions", [{"key": "app", "operator": "DoesNotExist"}]),
    ("Deployment", "spec.template.metadata.labels", ABSENT),
    ("Deployment", "spec.template.metadata.labels.more", "b"),
    ("Deployment", f"{OF_TEMPLATE}.restartPolicy", "Never"),
    ("Deployment", f"{OF_TEMPLATE}.restartPolicy", "OnFailure"),
    ("Deployment", "spec.replicas", -1),
    ("Deployment", "spec.strategy.type", "Rolling"),
    ("StatefulSet", "spec.selector.matchLabels", {"app": "b"}),
    ("StatefulSet", f"{OF_TEMPLATE}.restartPolicy", "Never"),
    ("StatefulSet", "spec.podManagementPolicy", "Quick"),
    ("StatefulSet", "spec.serviceName", ABSENT),
    ("DaemonSet", "spec.selector.matchLabels", {"app": "b"}),
    ("DaemonSet", f"{OF_TEMPLATE}.restartPolicy", "OnFailure"),
    ("Service", "spec.ports.0.targetPort", 0),
    ("Service", "spec.ports.0.targetPort", "8080"),
    ("Service", "spec.ports.0.targetPort", "a_b"),
    ("Service", "spec.ports.0.name", "A"),
    ("Service", "spec.clusterIP", "None"),
    ("Service", "spec.type", "Clusterip"),
    ("Service", "spec.type", "ExternalName"),
    ("Service", "spec.sessionAffinity", "Yes"),
    ("Service", "spec.selector.a b", "c"),
    ("Service", "metadata.name", "1a"),
    ("Service", "metadata.name", "a.b"),
    ("ConfigMap", "data.a b", "c"),
    ("ConfigMap", "data.a", 1),
    ("ConfigMap", "binaryData", {"b": "not base64!"}),
    ("ConfigMap", "binaryData", {"a~yaml": "YQ=="}),
    ("Secret", "data", {"b": "not base64!"}),
    ("Secret", "data", {"b": "YW\nJj"}),
    ("Secret", "data", {"b": "YQ\n=="}),
    ("Secret", "data", {"b": "YQ="}),
    ("Secret", "stringData.a b", "c"),
    ("PersistentVolumeClaim", "spec.accessModes", []),
    ("PersistentVolumeClaim", "spec.resources.requests", {}),
    ("PersistentVolumeClaim", "spec.resources.requests.storage", "1TB"),
    ("PersistentVolumeClaim", "spec.storageClassName", "A_b"),
    ("PersistentVolumeClaim", "spec.volumeMode", "Disk"),
]


@pytest.fixture(scope="module", autouse=True)
def namespace(kube: Kube) -> Iterator[None]:
    kube.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}])
    yield
    kube.delete("namespace", NAMESPACE)


@pytest.mark.ci
@pytest.mark.parametrize("kind", GOOD)
def test_the_server_accepts_the_valid_sample_objects(kind: str, kube: Kube) -> None:
    kube.create([GOOD[kind]], NAMESPACE, dry_run=True)


@pytest.mark.parametrize(("kind", "place", "value"), for_ci(CHANGES, CHANGES[::10].__contains__), ids=str)
def test_each_check_agrees_with_the_server(kind: str, place: str, value: Any, kube: Kube) -> None:
    made = changed(kind, place, value)
    refused = said(made, kube)
    assert bool(found([made])) == bool(refused), refused


@pytest.mark.parametrize("items", [[None], ["text"], [[]], [{}], None, {}], ids=str)
def test_a_list_with_items_that_are_not_objects_is_refused(items: Any, kube: Kube) -> None:
    made = {"apiVersion": "v1", "kind": "List", "items": items}
    assert said(made, kube)
    assert found([made]) == ["kubernetes/value-refused"]


def test_the_cluster_scoped_kinds_are_those_of_the_server(kube: Kube) -> None:
    rows = [line.split() for line in kube.run("api-resources", "--namespaced=false", "--no-headers").splitlines()]
    there = {(row[-3].rpartition("/")[0], row[-1]) for row in rows}
    # Questions are asked and not kept, and of the components nobody makes objects.
    kept = {(group, kind) for group, kind in there if not kind.endswith("Review") and kind != "ComponentStatus"}
    groups = {group for group, _ in there}
    assert {(group, kind) for group, kind in NO_NAMESPACE if group in groups} == kept
