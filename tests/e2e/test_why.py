"""`grpo why` on a cluster with the real scheduler, controllers and operators: each fault is its first cause.

tests/e2e/node/test_why.py has those for which a container must run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import pytest

from conftest import NewStack
from harness.commands import ask
from harness.kube import Kube, Manifest
from harness.listed import for_ci
from harness.planting import change
from harness.stack import Stack
from harness.waiting import until

Change = Callable[[Stack, Kube], AbstractContextManager[None]]


@dataclass(frozen=True)
class Fault:
    """What is changed before the Ray cluster is installed or after its pods are ready, and what must be said first."""

    cause: str
    text: str
    before: Change = lambda *_: nullcontext()
    after: Change | None = None


def causes(stack: Stack) -> list[dict[str, Any]]:
    """Return the causes that are named, the first one first."""
    done = ask("why", stack, "--format", "json")
    assert done.returncode in (0, 1), done.stderr
    return list(json.loads(done.stdout)["causes"])


def gpu_nodes(kube: Kube) -> list[str]:
    return [name for each in kube.list("nodes") if (name := each["metadata"]["name"]).startswith("b200-")]


def on_nodes(do: list[str], undo: list[str]) -> Change:
    """Run kubectl on all nodes with B200 GPUs, and take it back; NODES stands for their names."""

    @contextmanager
    def changed(_: Stack, kube: Kube) -> Iterator[None]:
        names = gpu_nodes(kube)
        kube.run(do[0], *do[1:2], *names, *do[2:])
        try:
            yield
        finally:
            kube.run(undo[0], *undo[1:2], *names, *undo[2:])

    return changed


def made(*items: Manifest) -> Change:
    """Make objects in the namespace of the stack, or of the cluster, and delete them."""

    @contextmanager
    def changed(stack: Stack, kube: Kube) -> Iterator[None]:
        kube.create(list(items), stack.namespace)
        try:
            yield
        finally:
            for item in items:
                kube.delete(item["kind"].lower(), item["metadata"]["name"], stack.namespace)

    return changed


def labelled(key: str, value: str) -> Change:
    """Give the namespace a label."""

    @contextmanager
    def changed(stack: Stack, kube: Kube) -> Iterator[None]:
        kube.run("label", "namespace", stack.namespace, f"{key}={value}", "--overwrite")
        try:
            yield
        finally:
            kube.run("label", "namespace", stack.namespace, f"{key}-")

    return changed


@contextmanager
def claim_of_no_class(stack: Stack, kube: Kube) -> Iterator[None]:
    """Replace the claim of the stack by one whose storage class nobody serves."""
    name = f"{stack.name}-data"
    claim = kube.get("persistentvolumeclaim", name, stack.namespace)
    kube.delete("persistentvolumeclaim", name, stack.namespace)
    spec = {"accessModes": claim["spec"]["accessModes"], "resources": claim["spec"]["resources"]}
    about = {key: claim["metadata"][key] for key in ("name", "labels")}
    # Helm's, not those of the controller that has bound it.
    about["annotations"] = {
        key: text for key, text in claim["metadata"]["annotations"].items() if key.startswith("meta.helm.sh/")
    }
    item = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": about}
    kube.create([{**item, "spec": {**spec, "storageClassName": "zork"}}], stack.namespace)
    yield


def job_failed(reason: str, message: str, state: str = "Failed", job: str = "FAILED") -> Change:
    """Install the run, and let it end as KubeRay says it."""

    @contextmanager
    def changed(stack: Stack, kube: Kube) -> Iterator[None]:
        stack.install("grpo-job")
        until(lambda: (kube.find("rayjob", stack.run, stack.namespace) or {}).get("status"), "a status of the job")
        status = {"jobDeploymentStatus": state, "jobStatus": job, "reason": reason, "message": message}
        change(kube, "rayjob", stack.run, {"status": status}, stack.namespace, status=True)
        yield

    return changed


@contextmanager
def node_with_fault(stack: Stack, kube: Kube) -> Iterator[None]:
    """Let a detector report a GPU of a node of the run, which has failed."""
    name = str(stack.pods()[1]["spec"]["nodeName"])
    condition = {"type": "GpuXidError", "status": "True", "reason": "Xid", "message": "NVRM: Xid (PCI:0000:0a:00): 79"}
    patch = ["patch", "node", name, "--subresource=status"]
    kube.run(*patch, "--type=strategic", "-p", json.dumps({"status": {"conditions": [condition]}}))
    with job_failed("AppFailed", "Job entrypoint command failed with exit code 1")(stack, kube):
        yield
    condition = {"type": "GpuXidError", "status": "False", "reason": "None", "message": ""}
    kube.run(*patch, "--type=strategic", "-p", json.dumps({"status": {"conditions": [condition]}}))


@contextmanager
def more_important(stack: Stack, kube: Kube) -> Iterator[None]:
    """Let pods of a higher priority take the nodes of the run, and keep them."""
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}}
    limits = {"limits": {"nvidia.com/gpu": "8"}}
    pod = {"apiVersion": "v1", "kind": "Pod"}
    container = {"name": "c", "image": "i", "resources": limits}
    where = {"nodeSelector": {GKE: "nvidia-b200"}, "tolerations": [{"operator": "Exists"}]}
    spec = {"priorityClassName": "urgent", **where, "containers": [container]}
    pods = [{**pod, "metadata": {"name": f"urgent-{name}"}, "spec": spec} for name in gpu_nodes(kube)]
    kube.create([{**priority, "value": 100000}])
    try:
        with made(*pods)(stack, kube):
            yield
    finally:
        kube.delete("priorityclass", "urgent")


GKE = "cloud.google.com/gke-accelerator"
QUOTA = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}
LIMITS = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "l"},
    "spec": {"limits": [{"type": "Container", "max": {"memory": "64Gi"}}]},
}
WEBHOOK = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "zork"},
    "webhooks": [
        {
            "name": "zork.example.org",
            "clientConfig": {"service": {"name": "zork", "namespace": "default", "path": "/"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
        }
    ],
}
FAULTS = {
    "cordoned": Fault("cannot-be-scheduled", "unschedulable", on_nodes(["cordon"], ["uncordon"])),
    "another-machine": Fault(
        "cannot-be-scheduled",
        f"without the label {GKE}=nvidia-b200",
        on_nodes(
            ["label", "node", f"{GKE}=nvidia-l4", "--overwrite"], ["label", "node", f"{GKE}=nvidia-b200", "--overwrite"]
        ),
    ),
    "taint": Fault(
        "cannot-be-scheduled",
        "team=other:NoSchedule",
        on_nodes(["taint", "node", "team=other:NoSchedule"], ["taint", "node", "team-"]),
    ),
    "quota": Fault("quota-exceeded", "exceeded quota", made(QUOTA)),
    "limit-range": Fault("pod-refused", "maximum memory usage per Container is 64Gi", made(LIMITS)),
    "pod-security": Fault(
        "pod-refused", "violates PodSecurity", labelled("pod-security.kubernetes.io/enforce", "restricted")
    ),
    "webhook": Fault("webhook-unreachable", "failed calling webhook", made(WEBHOOK)),
    "claim": Fault("claim-not-bound", "unbound immediate PersistentVolumeClaims", claim_of_no_class),
    "priority": Fault("preempted-by-priority", "Preempted", after=more_important),
    "gpu": Fault("gpu-fault", "Xid", after=node_with_fault),
    "gpu-memory": Fault(
        "cuda-oom", "CUDA out of memory", after=job_failed("AppFailed", "torch.OutOfMemoryError: CUDA out of memory.")
    ),
    "token": Fault(
        "hf-unauthorized",
        "401",
        after=job_failed(
            "AppFailed", "401 Client Error: Unauthorized for url: https://huggingface.co/a/b/resolve/main/c"
        ),
    ),
    "deadline": Fault(
        "deadline",
        "DeadlineExceeded",
        after=job_failed("DeadlineExceeded", "has passed the activeDeadlineSeconds", job="RUNNING"),
    ),
    "asked-in-vain": Fault(
        "job-status-timeout",
        "JobStatusCheckTimeoutExceeded",
        after=job_failed("JobStatusCheckTimeoutExceeded", "could not be asked for 300 s"),
    ),
    "not-submitted": Fault(
        "submission-failed", "SubmissionFailed", after=job_failed("SubmissionFailed", "the submitter has ended", job="")
    ),
    "retries": Fault("retries-used-up", "BackoffLimitExceeded", after=job_failed("BackoffLimitExceeded", "")),
    "stopped": Fault(
        "stopped", "STOPPED", after=job_failed("", "Job was intentionally stopped.", "Complete", "STOPPED")
    ),
}


@pytest.fixture
def stack(new_stack: NewStack) -> Iterator[Stack]:
    """A stack whose storage is installed."""
    stack = new_stack("b200", "helm4")
    stack.install("storage")
    yield stack
    stack.uninstall_all()


@pytest.mark.parametrize("name", for_ci(FAULTS, {"cordoned", "token"}.__contains__))
def test_each_planted_fault_is_the_first_cause_named(name: str, stack: Stack, kube: Kube) -> None:
    fault = FAULTS[name]
    seen: list[dict[str, Any]] = []

    def is_first() -> bool:
        seen[:] = causes(stack)
        first = seen[0] if seen else {"id": ""}
        return first["id"] == fault.cause and fault.text in json.dumps(first)

    with fault.before(stack, kube):
        stack.install("raycluster")
        if fault.after:
            stack.until_ready()
        with fault.after(stack, kube) if fault.after else nullcontext():
            until(is_first, f"{fault.cause}: {fault.text}", 40, seen=lambda: json.dumps(seen, indent=1))


@pytest.mark.ci
def test_no_cause_is_reported_for_a_running_cluster(stack: Stack) -> None:
    stack.install("raycluster")
    stack.until_ready()
    assert causes(stack) == []
