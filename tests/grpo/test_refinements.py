"""What the API server checks beyond its OpenAPI document, in every version: tests/e2e/test_check_fields.py asks it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from postrender.manifests import schemas

NEWEST, OLDEST = (schemas.Kinds(each) for each in (schemas.VERSIONS[-1], schemas.VERSIONS[0]))
EXEC: dict[str, Any] = {"exec": {"command": ["a"]}}
POD: dict[str, Any] = {"containers": [{"name": "a", "image": "b"}], "restartPolicy": "Never"}
SERVED: dict[str, Any] = {
    "selector": {"matchLabels": {"a": "b"}},
    "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": POD["containers"]}},
}
SPECS: dict[str, dict[str, Any]] = {
    "v1/Pod": POD,
    "v1/Service": {"ports": [{"port": 80}]},
    "v1/PersistentVolumeClaim": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    "apps/v1/Deployment": SERVED,
    "apps/v1/DaemonSet": SERVED,
    "apps/v1/StatefulSet": {**SERVED, "serviceName": "a"},
    "batch/v1/Job": {"template": {"spec": POD}},
    "batch/v1/CronJob": {"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": {"spec": POD}}}},
    "policy/v1/PodDisruptionBudget": {"selector": {}},
}
_DAYS = "minute, hour, day, month and weekday, 0 to 6, as in '0 6 * * 1-5', or @hourly, @daily, @every 6h"
_PROBE = "containers.0.livenessProbe"
_LABEL = "a label value: letters, digits, '-', '_' and '.', starting and ending with a letter or digit"
_SIZE = "a quantity such as 900Gi, 500m or 2"


def judged(kind: str, place: str = "", value: Any = None, **more: Any) -> list[str]:
    """Return what is said of a good object with one change in its spec, the same in the oldest version and the last."""
    version, _, name = kind.rpartition("/")
    made: Any = {"apiVersion": version, "kind": name, "metadata": {"name": "a"}, "spec": SPECS[kind], **more}
    made = copy.deepcopy(made)
    node = made["spec"]
    *way, last = place.split(".")
    for step in way:
        node = node[int(step)] if isinstance(node, list) else node.setdefault(step, {})
    if place:
        node[last] = value
    newest, oldest = ([str(each) for each in known.judge([made])[0]] for known in (NEWEST, OLDEST))
    assert newest == oldest
    return newest


@pytest.mark.parametrize(
    ("kind", "place", "value"),
    [
        *(("v1/Pod", "overhead", {"cpu": each}) for each in (" 1", "1 ", "-0", "1e+3", "\u00a01", 1.5, None)),
        *(("v1/Pod", "volumes", [{"name": "a", "emptyDir": {"sizeLimit": each}}]) for each in ("-0", "-.0Gi", " 1Gi")),
        *(("v1/Pod", _PROBE, each) for each in (None, {**EXEC, "tcpSocket": None}, {"tcpSocket": {"port": "a"}})),
        ("v1/Pod", "containers.0.readinessProbe", {**EXEC, "successThreshold": 3}),
        ("v1/Pod", "initContainers", [{**POD["containers"][0], "restartPolicy": "Always", "startupProbe": EXEC}]),
        ("policy/v1/PodDisruptionBudget", "selector", {"matchExpressions": [{"key": "a", "operator": "Exists"}]}),
        ("apps/v1/Deployment", "strategy", {"rollingUpdate": {"maxSurge": "150%", "maxUnavailable": 0}}),
        ("apps/v1/Deployment", "strategy", {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": None}}),
        ("apps/v1/DaemonSet", "updateStrategy", {"rollingUpdate": {"maxSurge": "1%", "maxUnavailable": "00%"}}),
        ("apps/v1/DaemonSet", "updateStrategy", {"type": "OnDelete", "rollingUpdate": {"maxSurge": "x"}}),
        ("policy/v1/PodDisruptionBudget", "maxUnavailable", "100%"),
        *(("batch/v1/CronJob", "schedule", each) for each in ("@every 1.5h", " */5 0,12 ? jan MON-fri ", "0 0 31 2 0")),
        *(("v1/Service", "clusterIP", each) for each in ("", None, "None", "10.0.0.1", "fd00::1")),
    ],
    ids=str,
)
def test_values_that_the_server_accepts_pass(kind: str, place: str, value: Any) -> None:
    assert judged(kind, place, value) == []


@pytest.mark.parametrize(
    ("kind", "place", "value", "said"),
    [
        ("v1/Pod", "overhead", {"cpu": "1 Gi"}, f"overhead.cpu: expected {_SIZE}; did you mean 1Gi?"),
        (
            "v1/Pod",
            "volumes",
            [{"name": "a", "emptyDir": {"sizeLimit": "-1"}}],
            f"volumes[0].emptyDir.sizeLimit: expected {_SIZE}, not below 0",
        ),
        (
            "v1/Pod",
            _PROBE,
            {},
            "containers[0].livenessProbe: fits none of the allowed forms: 'exec' is missing; or 'grpc' is missing; or"
            " 'httpGet' is missing; or 'tcpSocket' is missing",
        ),
        (
            "v1/Pod",
            _PROBE,
            {**EXEC, "tcpSocket": {"port": 1}},
            "containers[0].livenessProbe: fits 2 of the 4 allowed forms, expected one",
        ),
        (
            "v1/Pod",
            "initContainers",
            [{**POD["containers"][0], "startupProbe": EXEC}],
            "initContainers[0].startupProbe: expected nothing",
        ),
        (
            "policy/v1/PodDisruptionBudget",
            "selector",
            {"matchExpressions": [{"key": "a", "operator": "In"}]},
            "selector.matchExpressions[0]: 'values' is missing",
        ),
        ("v1/Pod", _PROBE, {"exec": {}}, "containers[0].livenessProbe.exec: 'command' is missing"),
        (
            "v1/Pod",
            _PROBE,
            {**EXEC, "successThreshold": 2},
            "containers[0].livenessProbe.successThreshold: expected 1 or less",
        ),
        (
            "apps/v1/Deployment",
            "strategy",
            {"rollingUpdate": {"maxSurge": "1"}},
            "strategy.rollingUpdate.maxSurge: expected a number, or a share such as 25%",
        ),
        (
            "apps/v1/Deployment",
            "strategy",
            {"type": "Recreate", "rollingUpdate": {}},
            "strategy.rollingUpdate: expected nothing",
        ),
        (
            "apps/v1/Deployment",
            "strategy",
            {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}},
            "strategy.rollingUpdate.maxUnavailable: expected 1 or more",
        ),
        (
            "apps/v1/StatefulSet",
            "volumeClaimTemplates",
            [{"metadata": {"name": "a"}}],
            "volumeClaimTemplates[0]: 'spec' is missing",
        ),
        (
            "policy/v1/PodDisruptionBudget",
            "minAvailable",
            "1",
            "minAvailable: expected a number, or a share from 0% to 100%",
        ),
        (
            "batch/v1/Job",
            "podFailurePolicy",
            {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 1]}}]},
            "podFailurePolicy.rules[0].onExitCodes.values: expected entries of which no two are alike",
        ),
        *(
            ("batch/v1/CronJob", "schedule", each, f"schedule: expected {_DAYS}")
            for each in ("60 * * * *", "0 0 * * 7", "0 0 * *", "0 0  * *", "@every 1d")
        ),
        ("batch/v1/CronJob", "timeZone", "", "timeZone: expected a name such as Europe/Paris or Etc/UTC"),
        (
            "v1/Service",
            "selector",
            {"a": "b c"},
            f"selector.a: expected {_LABEL}",
        ),
        (
            "v1/PersistentVolumeClaim",
            "resources.requests.storage",
            "0Gi",
            f"resources.requests.storage: expected {_SIZE}, above 0",
        ),
        (
            "v1/PersistentVolumeClaim",
            "resources.requests.storage",
            0,
            "resources.requests.storage: expected more than 0",
        ),
    ],
    ids=str,
)
def test_values_that_the_server_rejects_are_reported(kind: str, place: str, value: Any, said: str) -> None:
    assert judged(kind, place, value) == [f"spec.{said}"]


@pytest.mark.parametrize(
    ("kind", "name", "good"),
    [
        ("policy/v1/PodDisruptionBudget", "A_b" * 100, True),
        ("policy/v1/PodDisruptionBudget", "a/b", False),
        ("apps/v1/StatefulSet", "a.b", False),
        ("apps/v1/Deployment", "a.b", True),
    ],
)
def test_names_are_validated_by_the_rules_of_their_kind(kind: str, name: str, good: bool) -> None:
    assert bool(judged(kind, metadata={"name": name})) is not good


@pytest.mark.parametrize(
    ("name", "good"), [("example.com:a:b", True), ("a.b", True), ("a:b", False), ("example.com:a:B", False)]
)
def test_a_trust_bundle_name_must_start_with_its_signer(name: str, good: bool) -> None:
    kind = {"apiVersion": "certificates.k8s.io/v1beta1", "kind": "ClusterTrustBundle"}
    item = {**kind, "metadata": {"name": name}, "spec": {"trustBundle": "a"}}
    assert bool(schemas.Kinds(36).judge([item])[0]) is not good


@pytest.mark.parametrize(
    ("kind", "keys", "said"),
    [
        ("tls", ["tls.crt", "tls.key"], []),
        ("tls", ["tls.crt"], ["fits none of the allowed forms: 'tls.key' is missing; or 'stringData' is missing"]),
        ("basic-auth", ["password"], []),
        ("ssh-auth", ["ssh-privatekey"], []),
    ],
)
def test_a_typed_secret_must_have_its_required_keys(kind: str, keys: list[str], said: list[str]) -> None:
    item = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "type": f"kubernetes.io/{kind}"}
    found = NEWEST.judge([{**item, "data": dict.fromkeys(keys, "YQ==")}])[0]
    assert [str(each) for each in found] == said
