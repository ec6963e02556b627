"""Every pod template as a Pod: what a RayCluster's own validation lets through, the API server's does not."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from conftest import NewStack
from harness.kube import Kube, KubectlError, Manifest
from harness.stack import merge

STORAGES: dict[str, dict[str, Any]] = {
    "gcsfuse": {},
    "claim": {"storage": {"data": {"gcsfuse": None, "existingClaim": {"name": "lustre-pvc"}}}},
    "pvc": {"storage": {"data": {"gcsfuse": None, "pvc": {"storageClassName": "lustre", "size": "18Ti"}}}},
    "lustre": {
        "storage": {
            "data": {
                "gcsfuse": None,
                "lustre": {
                    "location": "us-central1-a",
                    "instance": "fast",
                    "ip": "10.1.2.3",
                    "filesystem": "lfs",
                    "size": "18000Gi",
                },
            }
        }
    },
    "local": {"storage": {"local": {"mountPath": "/local", "ephemeral": {"size": "100Gi"}}}},
    "two": {"storage": {"scratch": {"mountPath": "/scratch", "gcsfuse": {"bucket": "scratch-bucket"}}}},
}
OVERLAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "dranet": {"network": {"mode": "dranet"}},
    "none": {"network": {"mode": "none"}, "huggingface": {"offline": {"enabled": True}}},
    "head": {
        "ray": {
            "head": {"gpus": {"enabled": True}},
            "workers": {"replicas": 1},
            "kueue": {"queue": "gpus", "topology": {"preferred": "cloud.google.com/gce-topology-block"}},
        }
    },
    "variables": {
        "tracking": {"wandb": {"enabled": True}},
        "ray": {"env": {"A": {"value": "1"}}, "workers": {"env": {"B": {"secret": {"name": "s", "key": "k"}}}}},
    },
    "overlay": {
        "ray": {
            "head": {"podSpec": {"priorityClassName": "system-cluster-critical"}},
            "workers": {
                "annotations": {"team": "a"},
                "podSpec": {
                    "tolerations": [{"key": "reserved", "operator": "Exists"}],
                    "schedulerName": "kai-scheduler",
                },
            },
        }
    },
}
MODES = ("existing", "ephemeral")
COMBINATIONS = list(itertools.product(("b200", "h200"), STORAGES, MODES))


def templates(manifest: Manifest) -> dict[str, Manifest]:
    """Find the pod templates of a RayCluster or a RayJob by group name."""
    spec = manifest["spec"].get("rayClusterSpec", manifest["spec"])
    found = {"head": spec["headGroupSpec"]["template"]}
    return found | {group["groupName"]: group["template"] for group in spec["workerGroupSpecs"]}


def as_pods(manifests: list[Manifest], prefix: str = "") -> list[Manifest]:
    """Make a Pod of each template; the prefix of its name says in a refusal where it comes from."""
    pods = []
    for manifest in manifests:
        if manifest["kind"] in ("RayCluster", "RayJob") and "clusterSelector" not in manifest["spec"]:
            for name, template in templates(manifest).items():
                metadata = {**template["metadata"], "generateName": f"{prefix}{name}-"}
                pods.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
    return pods


@pytest.fixture(scope="module")
def namespace(new_stack: NewStack) -> str:
    """A namespace in which Pod Security refuses nothing, with the stack's service account."""
    stack = new_stack()
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": stack.name}}
    stack.kube.create([account], stack.namespace)
    return stack.namespace


@pytest.mark.parametrize(("accelerator", "storage", "mode"), COMBINATIONS)
def test_templates_are_pods(
    kube: Kube, new_stack: NewStack, namespace: str, accelerator: str, storage: str, mode: str
) -> None:
    """All overlays in one request: each takes a render, and a process more for each would take minutes."""
    pods = []
    for overlay, values in OVERLAYS.items():
        both = merge({**STORAGES[storage], "job": {"cluster": {"mode": mode}}}, values)
        stack = new_stack(accelerator, namespace=namespace, **both)
        pods += as_pods(stack.render("raycluster" if mode == "existing" else "grpo-job"), f"{overlay}-")
    assert len(pods) == 2 * len(OVERLAYS)
    kube.create(pods, namespace, dry_run=True)


def test_a_bad_template_is_refused(kube: Kube, new_stack: NewStack, namespace: str) -> None:
    """The check above can fail: a mount without a volume passes as a RayCluster and not as a Pod."""
    rendered = new_stack(namespace=namespace).render("raycluster")
    manifests = [manifest for manifest in rendered if manifest["kind"] == "RayCluster"]
    for manifest in manifests:
        templates(manifest)["gpu"]["spec"]["volumes"].pop()
    kube.create(manifests, namespace, dry_run=True)
    with pytest.raises(KubectlError, match="volumeMounts"):
        kube.create(as_pods(manifests), namespace, dry_run=True)
