"""What `grpo check` says of single fields and of those beside them, as a real API server says it, valid ones too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from harness.changes import ABSENT, LIMITS, NAMESPACE, OF_POD, OF_TEMPLATE, REQUESTS, C, changed, found, said
from harness.kube import Kube
from harness.listed import for_ci

EXEC: dict[str, Any] = {"exec": {"command": ["a"]}}
EXIT_CODES = {"operator": "In", "values": [1, 137]}
CONDITION = {"type": "DisruptionTarget", "status": "True"}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
TLS = {"tls.crt": "", "tls.key": ""}
SIZE = f"{OF_POD}.volumes.0.emptyDir.sizeLimit"
STORAGE = "spec.resources.requests.storage"
PORT = {"name": "b", "port": 80}
NODES = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
PODS = "affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution"
FIRST = {"name": "first", "image": "registry.example.com/image:1.0"}


def nodes(operator: str, *values: str) -> dict[str, Any]:
    """Return what nodes are wanted."""
    chosen = {"key": "a", "operator": operator, **({"values": [*values]} if values else {})}
    return {"nodeSelectorTerms": [{"matchExpressions": [chosen]}]}


# Kind, place, what is written there: for the server to take.
TAKEN: list[tuple[str, str, Any]] = [
    *(("Pod", SIZE, each) for each in ("-0", "-0Gi", " 1Gi ", "\u00a01Gi", "1e+9", "-.0", None)),
    *(("Pod", f"{LIMITS}.ephemeral-storage", each) for each in ("-0", " 1Gi", "+1Gi")),
    ("Pod", f"{LIMITS}.memory", "8Gi "),
    ("Pod", f"{C}.livenessProbe", None),
    ("Pod", f"{C}.livenessProbe", {**EXEC, "tcpSocket": None}),
    *(("Pod", f"{C}.livenessProbe", {**EXEC, "successThreshold": each}) for each in (0, 1, None)),
    ("Pod", f"{C}.livenessProbe", {**EXEC, "terminationGracePeriodSeconds": 1}),
    ("Pod", f"{C}.readinessProbe", {**EXEC, "successThreshold": 2, "terminationGracePeriodSeconds": None}),
    *(("Pod", f"{C}.startupProbe", {"tcpSocket": {"port": each}}) for each in (1, 65535, "http", "8080-tcp")),
    ("Pod", f"{C}.readinessProbe", {"httpGet": {"port": 1, "path": "", "scheme": ""}}),
    ("Pod", f"{C}.lifecycle", {"preStop": {"sleep": {"seconds": 5}}, "postStart": None}),
    ("Pod", f"{C}.resources.limits", {"hugepages-2Mi": "4Mi", "memory": "8Gi", "cpu": 4, "nvidia.com/gpu": 8}),
    ("Pod", "metadata.finalizers", ["kubernetes", "example.com/a"]),
    *(("Pod", f"{OF_POD}.{NODES}", each) for each in (nodes("In", "a"), nodes("Exists"), nodes("Gt", "1"))),
    ("Pod", f"{OF_POD}.{PODS}", [{"weight": 100, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname"}}]),
    ("Pod", f"{OF_POD}.initContainers", [{**FIRST, "restartPolicy": "Always", "livenessProbe": EXEC}]),
    ("Pod", f"{OF_POD}.initContainers", [{**FIRST, "livenessProbe": None}]),
    ("Deployment", f"{OF_TEMPLATE}.containers.0.image", " "),
    *(("Deployment", f"{OF_TEMPLATE}.serviceAccountName", each) for each in ("", "a.b", None)),
    ("Deployment", f"{OF_TEMPLATE}.runtimeClassName", None),
    ("Deployment", "spec.strategy", {"type": "Recreate", "rollingUpdate": None}),
    ("Deployment", "spec.strategy", {"rollingUpdate": {"maxSurge": 0}}),
    ("Deployment", "spec.strategy", {"rollingUpdate": {"maxSurge": "150%", "maxUnavailable": "0%"}}),
    ("DaemonSet", "spec.updateStrategy", {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}),
    ("DaemonSet", "spec.updateStrategy", {"type": "OnDelete", "rollingUpdate": {"maxUnavailable": "none"}}),
    ("StatefulSet", "spec.volumeClaimTemplates", [{"metadata": {"name": "c"}, "spec": CLAIM}]),
    ("StatefulSet", "spec.updateStrategy", {"type": "OnDelete"}),
    ("Job", "spec.podFailurePolicy", {}),
    ("Job", "spec.podFailurePolicy", {"rules": [{"action": "FailJob", "onExitCodes": EXIT_CODES}]}),
    ("Job", "spec.podFailurePolicy", {"rules": [{"action": "Count", "onPodConditions": [CONDITION]}]}),
    *(
        ("CronJob", "spec.schedule", each)
        for each in (
            *("*/15 * * * *", "0,,30 * ? * MON-fri/2", " 05 0 1-31/2 jan,12 0-6 ", "+5 *-5 * * *", "5/100 * * * *"),
            *("@midnight", "@every 1h30m", "@every 1.5h"),
        )
    ),
    *(("CronJob", "spec.timeZone", each) for each in ("America/Argentina/Buenos_Aires", "Etc/GMT+1", None)),
    ("Service", "spec.ports.1", {"name": "b", "port": 80, "protocol": "UDP"}),
    ("Service", "spec", {"clusterIP": "None"}),
    ("Service", "spec", {"type": "ExternalName", "externalName": "a.b"}),
    ("Service", "spec", {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]}),
    ("Secret", "type", "example.com/mine"),
    ("PersistentVolumeClaim", "spec.accessModes", ["ReadWriteOncePod"]),
    *(("PersistentVolumeClaim", STORAGE, each) for each in ("1m", ".5", " 1Gi", 1)),
    ("PersistentVolumeClaim", "spec.resources.requests.example/com/a", "-1"),
]
# For it to refuse.
REFUSED: list[tuple[str, str, Any]] = [
    *(("Pod", SIZE, each) for each in ("-1", "-0.0001", "1 Gi", "\t1Gi", "")),
    ("Pod", f"{C}.image", "a "),
    ("Pod", f"{C}.image", None),
    ("Pod", f"{LIMITS}.memory", None),
    ("Pod", f"{LIMITS}.memory", " 4Gi"),
    ("Pod", f"{LIMITS}.example/com/a b", 1),
    ("Pod", f"{REQUESTS}.hugepages-2Mi", "4Mi"),
    ("Pod", f"{REQUESTS}.nvidia/com/gpu", None),
    ("Pod", f"{C}.resources", {"limits": {"hugepages-2Mi": "4Mi"}}),
    ("Pod", f"{C}.resources", {"limits": {"hugepages-2Mi": "4Mi", "cpu": 1}, "requests": {"hugepages-2Mi": "2Mi"}}),
    *(("Pod", f"{OF_POD}.{each}", "A B") for each in ("serviceAccountName", "priorityClassName", "runtimeClassName")),
    *(
        ("Pod", f"{C}.livenessProbe", each)
        for each in (
            {},
            {"exec": {}},
            {**EXEC, "httpGet": {"port": 1}},
            {**EXEC, "successThreshold": 2},
            {**EXEC, "terminationGracePeriodSeconds": 0},
            *({"tcpSocket": {"port": each}} for each in (0, 65536, None, "", "80", "HTTP", "a--b")),
            {"httpGet": {"port": 1, "scheme": "http"}},
            {"httpGet": {"port": 1, "httpHeaders": [{"name": "A_b", "value": "c"}]}},
            {"grpc": {"port": 0}},
        )
    ),
    ("Pod", f"{C}.readinessProbe", {**EXEC, "terminationGracePeriodSeconds": 5}),
    ("Pod", f"{C}.lifecycle", {"preStop": {}}),
    ("Pod", f"{C}.lifecycle", {"preStop": {**EXEC, "sleep": {"seconds": 1}}}),
    ("Pod", "metadata.finalizers", ["a b/c"]),
    *(
        ("Pod", f"{OF_POD}.{NODES}", terms)
        for terms in (nodes("In"), nodes("Exists", "a"), nodes("Gt", "1", "2"), nodes("in", "a"))
    ),
    ("Pod", f"{OF_POD}.{NODES}", {"nodeSelectorTerms": []}),
    *(
        ("Pod", f"{OF_POD}.{PODS}", [{"weight": weight, "podAffinityTerm": {"topologyKey": key}}])
        for weight, key in ((0, "a"), (101, "a"), (1, ""), (1, "a b"))
    ),
    *(("Pod", f"{OF_POD}.initContainers", [{**FIRST, each: EXEC}]) for each in ("livenessProbe", "readinessProbe")),
    ("Deployment", f"{OF_TEMPLATE}.containers.0.image", None),
    ("Deployment", f"{OF_TEMPLATE}.activeDeadlineSeconds", 5),
    ("Deployment", "spec.strategy", {"type": "Recreate", "rollingUpdate": {}}),
    *(
        ("Deployment", "spec.strategy", {"rollingUpdate": each})
        for each in (
            {"maxSurge": 0, "maxUnavailable": "0%"},
            {"maxSurge": "1"},
            {"maxSurge": -1},
            {"maxUnavailable": "101%"},
        )
    ),
    ("DaemonSet", "spec.updateStrategy", {"type": "Recreate"}),
    *(
        ("DaemonSet", "spec.updateStrategy", {"rollingUpdate": each})
        for each in ({"maxSurge": 1}, {"maxSurge": 1, "maxUnavailable": 1}, {"maxUnavailable": 0})
    ),
    ("StatefulSet", "spec.updateStrategy", {"type": "OnDelete", "rollingUpdate": {}}),
    ("StatefulSet", "metadata.name", "a.b"),
    *(
        ("StatefulSet", "spec.volumeClaimTemplates", [each])
        for each in ({"metadata": {"name": "c"}}, {"spec": CLAIM}, {"metadata": {"name": "a.b"}, "spec": CLAIM})
    ),
    *(
        ("Job", "spec.podFailurePolicy", {"rules": [each]})
        for each in (
            {"action": "FailJob"},
            {"action": "Fail", "onExitCodes": EXIT_CODES},
            {"action": "FailJob", "onExitCodes": {**EXIT_CODES, "values": [0]}},
            {"action": "FailJob", "onExitCodes": {**EXIT_CODES, "values": []}},
            {"action": "FailJob", "onExitCodes": {**EXIT_CODES, "values": [1, 1]}},
            {"action": "FailJob", "onExitCodes": EXIT_CODES, "onPodConditions": [CONDITION]},
            {"action": "Ignore", "onPodConditions": [{**CONDITION, "status": "true"}]},
        )
    ),
    *(
        ("CronJob", "spec.schedule", each)
        for each in (
            *("61 0 * * *", "0 24 * * *", "0 0 0 * *", "0 0 32 * *", "0 0 * 13 *", "0 0 * * 7", "0 0  * *"),
            *("*/0 * * * *", "1-5-6 * * * *", "0 0 L * *", "TZ=UTC 0 0 * * *", "@reboot", " @daily", "@every 1d"),
        )
    ),
    *(("CronJob", "spec.timeZone", each) for each in ("", "Europe Paris", "/UTC")),
    *(
        ("Service", "spec.ports.1", each)
        for each in ({"port": 81}, {"name": "a", "port": 81}, PORT, {**PORT, "protocol": "TCP"})
    ),
    ("Service", "spec.ports", []),
    ("Service", "spec.ports", ABSENT),
    ("Service", "spec.ports.0.nodePort", 30080),
    ("Service", "spec", {"type": "NodePort", "clusterIP": "None", "ports": [PORT]}),
    ("Service", "spec.clusterIP", "none"),
    ("Service", "spec.clusterIP", "10.96.1"),
    ("Service", "spec.selector.app", "b c"),
    *(
        ("Secret", "type", f"kubernetes.io/{each}")
        for each in ("tls", "basic-auth", "ssh-auth", "dockercfg", "dockerconfigjson", "service-account-token")
    ),
    ("PersistentVolumeClaim", "spec.accessModes", ["ReadWriteMany", "ReadWriteOncePod"]),
    *(("PersistentVolumeClaim", STORAGE, each) for each in (0, "0", "0.0Gi", "-1", None)),
]
# Refused by the server alone: what other objects there are, and values that no pattern tells from good ones.
NOT_JUDGED: list[tuple[str, str, Any]] = [
    ("Pod", "metadata.finalizers", ["a"]),
    ("Pod", f"{OF_POD}.serviceAccountName", "absent"),
    ("Pod", f"{C}.resources", {"limits": {"hugepages-2Mi": "3Mi", "cpu": 1}}),
    ("Job", "spec.podFailurePolicy.rules", [{"action": "FailIndex", "onExitCodes": EXIT_CODES}]),
    ("CronJob", "spec.schedule", "5-1 0 * * *"),
    ("CronJob", "spec.timeZone", "Mars"),
]
# Refused by the check alone: of a template the server makes pods that it refuses, and takes no number for 0.
REFUSED_HERE: list[tuple[str, str, Any]] = [
    ("Deployment", f"{OF_TEMPLATE}.containers.0.image", " a"),
    ("Job", f"{OF_TEMPLATE}.containers.0.image", "a\n"),
    ("Pod", SIZE, "Gi"),
]


@pytest.fixture(scope="module", autouse=True)
def namespace(kube: Kube) -> Iterator[None]:
    kube.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}])
    yield
    kube.delete("namespace", NAMESPACE)


def judged(kind: str, place: str, value: Any, kube: Kube) -> tuple[list[str], str]:
    """Return what the check finds, and what the server says."""
    made = changed(kind, place, value)
    return found([made]), said(made, kube)


@pytest.mark.parametrize(("kind", "place", "value"), for_ci(TAKEN, TAKEN[::10].__contains__), ids=str)
def test_a_value_the_server_accepts_gives_no_error(kind: str, place: str, value: Any, kube: Kube) -> None:
    assert judged(kind, place, value, kube) == ([], "")


@pytest.mark.parametrize(("kind", "place", "value"), for_ci(REFUSED, REFUSED[::10].__contains__), ids=str)
def test_a_value_the_server_refuses_gives_an_error(kind: str, place: str, value: Any, kube: Kube) -> None:
    errors, refused = judged(kind, place, value, kube)
    assert errors
    assert refused


@pytest.mark.parametrize(("kind", "place", "value"), NOT_JUDGED, ids=str)
def test_known_unchecked_values_are_refused_by_the_server_only(kind: str, place: str, value: Any, kube: Kube) -> None:
    errors, refused = judged(kind, place, value, kube)
    assert not errors
    assert refused


@pytest.mark.parametrize(("kind", "place", "value"), REFUSED_HERE, ids=str)
def test_known_stricter_checks_refuse_what_the_server_accepts(kind: str, place: str, value: Any, kube: Kube) -> None:
    errors, refused = judged(kind, place, value, kube)
    assert errors
    assert not refused


@pytest.mark.parametrize("place", ["data", "stringData"])
def test_the_keys_of_a_typed_secret_may_be_in_either_map(place: str, kube: Kube) -> None:
    made = changed("Secret", "type", "kubernetes.io/tls")
    assert found([{**made, place: TLS}]) == []
    assert said({**made, place: TLS}, kube) == ""
