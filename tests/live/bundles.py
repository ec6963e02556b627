"""A bundle of a small stack that runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grpo.cluster.evidence import Evidence
from grpo.cluster.expected import Expected
from grpo.live import bundle

GPU = "nvidia.com/gpu"


def pod(role: str, group: str, gpus: int) -> dict[str, Any]:
    """A pod of the cluster that is ready on a node."""
    labels = {"ray.io/cluster": "s-ray", "ray.io/node-type": role, "ray.io/group": group, "ray.io/is-ray-node": "yes"}
    return {
        "metadata": {"name": f"s-ray-{group}", "labels": labels},
        "spec": {
            "nodeName": "n",
            "containers": [{"name": "ray", "resources": {"limits": {GPU: gpus} if gpus else {}}}],
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def evidence() -> Evidence:
    """A head, a worker with 8 GPUs, and a run at step 7."""
    template = {"spec": {"containers": [{"resources": {"limits": {GPU: 8}}}]}}
    cluster = {
        "kind": "RayCluster",
        "metadata": {"name": "s-ray"},
        "spec": {
            "headGroupSpec": {"template": {"spec": {"serviceAccountName": "default", "containers": [{}]}}},
            "workerGroupSpecs": [{"groupName": "gpu", "replicas": 1, "template": template}],
        },
    }
    job = {"kind": "RayJob", "metadata": {"name": "run-1"}, "spec": {}}
    expected = Expected(
        "s",
        "rl",
        {"network": "s-network", "raycluster": "s-ray", "grpo-job": "run"},
        {"network": [], "raycluster": [cluster], "grpo-job": [job]},
        "/data/runs/run",
    )
    releases = [
        {"metadata": {"name": f"{name}.v1", "labels": {"name": name, "status": "deployed", "version": "1"}}}
        for name in ("s-ray", "run")
    ]
    operator = {
        "metadata": {
            "name": "kuberay-operator",
            "namespace": "kuberay-system",
            "labels": {"app.kubernetes.io/name": "kuberay-operator"},
        },
        "spec": {"template": {"spec": {"containers": [{"image": "quay.io/kuberay/operator:v1.6.2"}]}}},
        "status": {"availableReplicas": 1},
    }
    namespace = {"metadata": {"name": "rl"}, "status": {"phase": "Active"}}
    account = {"metadata": {"name": "default", "namespace": "rl"}}
    objects = {
        "deployments": [operator],
        "namespaces": [namespace],
        "serviceaccounts": [account],
        "rayclusters": [{**cluster, "status": {"state": "ready"}}],
        "rayjobs": [{**job, "status": {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}}],
        "pods": [pod("head", "headgroup", 0), pod("worker", "gpu", 8)],
        "releases": releases,
    }
    record = {
        "attempt": 1,
        "state": "running",
        "phase": "step",
        "step": 7,
        "reward": 0.5,
        "checkpoint": {"step": 6, "time": "2026-11-25T11:50:00Z"},
        "heartbeat": "2026-11-25T12:00:00Z",
        "updated": "2026-11-25T12:00:00Z",
        "gpuHours": {"spent": 4.0, "lost": 0.5, "unsaved": 0.1},
        "findings": [{"time": "2026-11-25T11:00:00Z", "sign": "kl-blow-up", "text": "KL is 12"}],
    }
    return Evidence(expected, "gke", 1_764_000_000.0, objects, {"nodes": "forbidden"}, record)


def write(path: Path) -> list[str]:
    """Write the bundle."""
    return bundle.write(str(path), evidence())
