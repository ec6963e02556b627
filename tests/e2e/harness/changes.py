"""Good objects of the kinds that charts have, each with one change, as `grpo check` and the API server judge them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any
from unittest.mock import sentinel

from grpo.check.objects import check
from grpo.manifests.loader import read
from postrender.finding import ERROR
from postrender.manifests.schemas import Kinds

from harness.kube import Kube, KubectlError, Manifest, dump

NAMESPACE = "check"
ABSENT = sentinel.ABSENT
LABELS = {"app": "a"}
POD: dict[str, Any] = {
    "restartPolicy": "Never",
    "containers": [
        {
            "name": "main",
            "image": "registry.example.com/image:1.0",
            "env": [{"name": "A", "value": "b"}],
            "ports": [{"containerPort": 8080, "name": "http"}],
            "resources": {
                "limits": {"nvidia.com/gpu": 8, "memory": "8Gi", "cpu": "4"},
                "requests": {"nvidia.com/gpu": 8, "memory": "8Gi", "cpu": "4"},
            },
            "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
        }
    ],
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "4Gi"}}],
}
SERVED = {"selector": {"matchLabels": LABELS}, "template": {"metadata": {"labels": LABELS}, "spec": {**POD}}}
SERVED["template"]["spec"]["restartPolicy"] = "Always"


def manifest(kind: str, spec: dict[str, Any] | None, version: str = "v1", **more: Any) -> Manifest:
    body = {"apiVersion": version, "kind": kind, "metadata": {"name": "a", "namespace": NAMESPACE, "labels": LABELS}}
    return copy.deepcopy({**body, **({} if spec is None else {"spec": spec}), **more})


GOOD: dict[str, Manifest] = {
    "Pod": manifest("Pod", POD),
    "Job": manifest("Job", {"template": {"metadata": {"labels": LABELS}, "spec": POD}}, "batch/v1"),
    "CronJob": manifest(
        "CronJob", {"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": {"spec": POD}}}}, "batch/v1"
    ),
    "Deployment": manifest("Deployment", {**SERVED, "replicas": 1}, "apps/v1"),
    "StatefulSet": manifest("StatefulSet", {**SERVED, "serviceName": "a"}, "apps/v1"),
    "DaemonSet": manifest("DaemonSet", SERVED, "apps/v1"),
    "Service": manifest("Service", {"selector": LABELS, "ports": [{"name": "a", "port": 80, "targetPort": "http"}]}),
    "ConfigMap": manifest("ConfigMap", None, data={"a.yaml": "b"}),
    "Secret": manifest("Secret", None, stringData={"a": "b"}),
    "PersistentVolumeClaim": manifest(
        "PersistentVolumeClaim",
        {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Ti"}}, "storageClassName": "a"},
    ),
}
OF_POD = "spec"
OF_TEMPLATE = "spec.template.spec"
C = f"{OF_POD}.containers.0"
LIMITS = f"{C}.resources.limits"
REQUESTS = f"{C}.resources.requests"


def changed(kind: str, place: str, value: Any) -> Manifest:
    """Return a good object with one change; in a place `/com` stands for `.com`."""
    made = copy.deepcopy(GOOD[kind])
    *way, last = [part.replace("/com", ".com") for part in place.split(".")]
    node: Any = made
    for part in way:
        node = node[int(part)] if isinstance(node, list) else node.setdefault(part, {})
    if isinstance(node, list):
        node[int(last) : int(last) + 1] = [value]
    elif value is ABSENT:
        node.pop(last)
    else:
        node[last] = value
    return made


def found(manifests: Sequence[Manifest]) -> list[str]:
    """Return the rules of which `grpo check` has an error."""
    documents = read({"f": dump(manifests).encode()})
    return sorted({each.rule for each in check(documents, None, Kinds(36)) if each.severity == ERROR})


def said(made: Manifest, kube: Kube) -> str:
    """Return why the server refuses an object; empty where it takes it."""
    try:
        kube.create([made], NAMESPACE, dry_run=True)
    except KubectlError as error:
        return str(error)
    return ""
