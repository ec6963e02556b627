"""Each cause is ranked first where the cluster shows it; a run that goes on has none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grpo.cli import main as cli
from grpo.cluster.evidence import Evidence
from grpo.live import bundle, submission
from grpo.live.why import diagnosis, registry
from grpo.problems.problem import HARDWARE, UNKNOWN
from tests.live import bundles

HEAD, WORKER = 0, 1
Change = Callable[[Evidence], object]


def pod(evidence: Evidence, number: int) -> dict[str, Any]:
    found: dict[str, Any] = evidence.objects["pods"][number]
    return found


def job(evidence: Evidence, **status: Any) -> None:
    evidence.objects["rayjobs"][0]["status"] = status


def failed(evidence: Evidence, message: str = "Job entrypoint command failed with exit code 1") -> None:
    job(evidence, jobDeploymentStatus="Failed", jobStatus="FAILED", reason="AppFailed", message=message)


def ended(number: int, code: int, reason: str, name: str = "ray-worker", key: str = "containerStatuses") -> Change:
    terminated = {"exitCode": code, "reason": reason, "message": "its last words", "finishedAt": "2026-11-25T12:00:00Z"}

    def change(evidence: Evidence) -> None:
        pod(evidence, number)["status"][key] = [{"name": name, "lastState": {"terminated": terminated}}]
        failed(evidence)

    return change


def waits(number: int, reason: str, message: str = "", container: str = "ray-worker", key: str = "") -> Change:
    def change(evidence: Evidence) -> None:
        state = {"waiting": {"reason": reason, "message": message}}
        conditions = [{"type": "PodScheduled", "status": "True"}]
        status = {
            "phase": "Pending",
            "conditions": conditions,
            key or "containerStatuses": [{"name": container, "state": state}],
        }
        pod(evidence, number)["status"] = status

    return change


def phase(number: int, reason: str, message: str) -> Change:
    def change(evidence: Evidence) -> None:
        pod(evidence, number)["status"] = {"phase": "Failed", "reason": reason, "message": message}
        failed(evidence)

    return change


def event(kind: str, name: str, reason: str, message: str) -> Change:
    about = {"involvedObject": {"kind": kind, "name": name}, "reason": reason, "message": message}

    def change(evidence: Evidence) -> None:
        evidence.objects["events"] = [about]
        evidence.objects["pods"].pop()

    return change


def disrupted(reason: str, message: str) -> Change:
    def change(evidence: Evidence) -> None:
        target = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
        pod(evidence, WORKER)["status"] = {"phase": "Failed", "conditions": [target]}
        failed(evidence)

    return change


def node(kind: str, status: str, reason: str, message: str = "") -> Change:
    def change(evidence: Evidence) -> None:
        condition = {"type": kind, "status": status, "reason": reason, "message": message}
        evidence.objects["nodes"] = [{"metadata": {"name": "n"}, "status": {"conditions": [condition]}}]
        failed(evidence)

    return change


def unscheduled(evidence: Evidence) -> None:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "message": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
    }
    pod(evidence, WORKER)["status"] = {"phase": "Pending", "conditions": [condition]}


def gated(evidence: Evidence) -> None:
    pod(evidence, WORKER)["status"] = {"phase": "Pending"}
    pod(evidence, WORKER)["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]


def queued(evidence: Evidence) -> None:
    condition = {
        "type": "QuotaReserved",
        "status": "False",
        "message": "couldn't assign flavors to pod set gpu: insufficient quota for nvidia.com/gpu",
    }
    owner = {"ownerReferences": [{"name": "run-1"}]}
    evidence.objects["workloads"] = [
        {"metadata": owner, "spec": {"queueName": "q"}, "status": {"conditions": [condition]}}
    ]
    job(evidence, jobDeploymentStatus="Suspended")


def claim(state: str, message: str) -> Change:
    def change(evidence: Evidence) -> None:
        item = {"kind": "PersistentVolumeClaim", "metadata": {"name": "data"}}
        evidence.expected.objects["network"].append(item)
        evidence.objects["persistentvolumeclaims"] = [{**item, "status": {"phase": state}}]
        about = {"kind": "PersistentVolumeClaim", "name": "data"}
        evidence.objects["events"] = [{"involvedObject": about, "reason": "ProvisioningFailed", "message": message}]

    return change


def unmounted(reason: str, message: str) -> Change:
    def change(evidence: Evidence) -> None:
        waits(WORKER, "ContainerCreating")(evidence)
        about = {"kind": "Pod", "name": "s-ray-gpu"}
        evidence.objects["events"] = [{"involvedObject": about, "reason": reason, "message": message}]

    return change


def not_submitted(evidence: Evidence) -> None:
    job(evidence, jobDeploymentStatus="Initializing")


def of_operator(text: str) -> Change:
    def change(evidence: Evidence) -> None:
        job(evidence, jobDeploymentStatus="Initializing")
        evidence.logs["operator"] = text

    return change


def of_driver(text: str) -> Change:
    def change(evidence: Evidence) -> None:
        failed(evidence)
        evidence.logs["attempts/1/output.log"] = text

    return change


def recorded(reason: str) -> Change:
    def change(evidence: Evidence) -> None:
        failed(evidence)
        evidence.record["reason"] = reason

    return change


def unseen(evidence: Evidence) -> None:
    evidence.objects["rayjobs"][0].pop("status")


def of_job(reason: str, message: str = "", state: str = "FAILED") -> Change:
    return lambda evidence: job(evidence, jobDeploymentStatus="Failed", jobStatus=state, reason=reason, message=message)


PLANTS: list[tuple[str, Change]] = [
    ("host-oom", ended(WORKER, 137, "OOMKilled")),
    ("host-oom", ended(HEAD, 137, "OOMKilled")),
    (
        "host-oom",
        recorded(
            "the trainer ended with exit code 137 (SIGKILL): out of memory: the kernel killed 1 process of this pod"
        ),
    ),
    (
        "evicted-disk",
        phase(WORKER, "Evicted", "The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi"),
    ),
    (
        "evicted-disk",
        phase(HEAD, "Evicted", "Pod ephemeral local storage usage exceeds the total limit of containers 20Gi."),
    ),
    ("evicted-memory", phase(WORKER, "Evicted", "The node was low on resource: memory. Threshold quantity: 100Mi")),
    ("evicted-memory", phase(HEAD, "Evicted", "The node had condition: [MemoryPressure].")),
    ("node-taken-away", phase(WORKER, "Terminated", "Pod was terminated in response to imminent node shutdown.")),
    ("node-taken-away", disrupted("DeletionByPodGC", "PodGC: node no longer exists")),
    ("node-taken-away", disrupted("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")),
    (
        "preempted-by-priority",
        disrupted("PreemptionByScheduler", "default-scheduler: preempting to accommodate a higher priority pod"),
    ),
    ("preempted-by-priority", event("Pod", "s-ray-gpu-2", "Preempted", "Preempted by pod 11-22 on node n")),
    ("node-not-ready", node("Ready", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")),
    ("node-not-ready", node("Ready", "False", "KubeletNotReady", "container runtime is down")),
    (
        "gpu-fault",
        node("GpuXidError", "True", "XidError", "NVRM: Xid (PCI:0000:0a:00): 79, GPU has fallen off the bus"),
    ),
    ("gpu-fault", node("NVLinkFault", "True", "NvlinkDown", "link 3 is down")),
    ("image-pull", waits(WORKER, "ImagePullBackOff", 'Back-off pulling image "x:1"')),
    ("image-pull", waits(HEAD, "ErrImagePull", "manifest unknown")),
    ("image-pull", waits(HEAD, "ErrImagePull", "failed to authorize: 403 Forbidden")),
    ("secret-missing", waits(WORKER, "CreateContainerConfigError", 'secret "hf" not found')),
    ("secret-missing", waits(WORKER, "CreateContainerConfigError", "couldn't find key token in Secret rl/hf")),
    (
        "container-not-created",
        waits(WORKER, "RunContainerError", "failed to create containerd task: nvidia hook failed"),
    ),
    ("container-not-created", waits(WORKER, "CreateContainerError", "failed to reserve container name")),
    ("node-check", waits(WORKER, "CrashLoopBackOff", "back-off 5m0s", "check-node", "initContainerStatuses")),
    ("node-check", ended(WORKER, 1, "Error", "check-node", "initContainerStatuses")),
    ("container-crashes", waits(HEAD, "CrashLoopBackOff", "back-off 5m0s restarting failed container")),
    ("container-crashes", waits(WORKER, "CrashLoopBackOff", "back-off 40s")),
    ("cannot-be-scheduled", unscheduled),
    (
        "cannot-be-scheduled",
        event("Pod", "s-ray-gpu-2", "FailedScheduling", "0/9 nodes are available: 9 Insufficient cpu."),
    ),
    ("kueue-waits", gated),
    ("kueue-waits", queued),
    ("claim-not-bound", claim("Pending", 'storageclass.storage.k8s.io "zork" not found')),
    ("claim-not-bound", claim("Lost", "volume is gone")),
    (
        "claim-not-bound",
        event(
            "Pod",
            "s-ray-gpu-2",
            "FailedScheduling",
            '0/9 nodes are available: persistentvolumeclaim "s-data" bound to non-existent persistentvolume "p". not',
        ),
    ),
    ("mount-fails", unmounted("FailedMount", "MountVolume.SetUp failed for volume data: status 403")),
    ("mount-fails", unmounted("FailedAttachVolume", "Multi-Attach error for volume pvc-1")),
    ("network-missing", unmounted("FailedCreatePodSandBox", "networks.networking.gke.io rdma-0 not found")),
    ("network-missing", event("Pod", "s-ray-gpu-2", "FailedScheduling", "network rdma-1 is not ready")),
    (
        "quota-exceeded",
        event(
            "RayCluster",
            "s-ray",
            "FailedToCreateWorkerPod",
            'pods "a" is forbidden: exceeded quota: team, requested: pods=1',
        ),
    ),
    (
        "quota-exceeded",
        event(
            "RayCluster",
            "s-ray",
            "FailedToCreateHeadPod",
            'pods "a" is forbidden: failed quota: team: must specify limits.cpu',
        ),
    ),
    (
        "quota-exceeded",
        event(
            "ReplicaSet",
            "s-ray-webhook",
            "FailedCreate",
            "Error creating: insufficient quota to match these scopes: [{PriorityClass In [system-node-critical]}]",
        ),
    ),
    (
        "volume-elsewhere",
        event(
            "Pod",
            "s-ray-gpu-2",
            "FailedScheduling",
            "0/9 nodes are available: 9 node(s) didn't match PersistentVolume's node affinity.",
        ),
    ),
    (
        "pod-refused",
        event(
            "RayCluster",
            "s-ray",
            "FailedToCreateWorkerPod",
            'pods "a" is forbidden: violates PodSecurity "baseline:latest": hostPath volumes',
        ),
    ),
    (
        "pod-refused",
        event(
            "RayCluster",
            "s-ray",
            "FailedToCreateHeadPod",
            'pods "a" is forbidden: maximum memory usage per Container is 8Gi, but limit is 64Gi',
        ),
    ),
    ("pods-not-created", event("RayCluster", "s-ray", "FailedToCreateHeadPod", "etcdserver: request timed out")),
    ("pods-not-created", event("RayCluster", "s-ray", "FailedToCreateWorkerPod", "unknown reason")),
    (
        "object-refused",
        event("RayCluster", "s-ray", "InvalidRayClusterSpec", "headGroupSpec should have at least one container"),
    ),
    ("object-refused", event("RayJob", "run-1", "InvalidRayJobSpec", "backoffLimit must be a positive integer")),
    ("cluster-gone", event("RayJob", "run-1", "RayClusterNotFound", "RayCluster s-ray not found")),
    ("cluster-gone", of_job("RayClusterNotFound", "there is no RayCluster s-ray")),
    ("job-not-submitted", not_submitted),
    (
        "job-not-submitted",
        of_operator(
            'error "Failed to get job info" run-1: Get "http://s-ray-head.rl:8265/api/jobs/run-1": dial: i/o timeout'
        ),
    ),
    ("operator-not-working", unseen),
    ("operator-not-working", lambda evidence: evidence.objects["rayclusters"][0].pop("status")),
    ("deadline", of_job("DeadlineExceeded", "The RayJob has passed the activeDeadlineSeconds.")),
    ("deadline", of_job("DeadlineExceeded", "", "RUNNING")),
    (
        "cluster-not-ready",
        of_job("PreRunningDeadlineExceeded", "The RayJob has passed the preRunningDeadlineSeconds.", ""),
    ),
    ("cluster-not-ready", of_job("PreRunningDeadlineExceeded", "", "")),
    ("job-status-timeout", of_job("JobStatusCheckTimeoutExceeded", "could not be asked for 300 s")),
    ("job-status-timeout", of_job("JobStatusCheckTimeoutExceeded", "", "RUNNING")),
    ("submission-failed", of_job("SubmissionFailed", "the submitter has ended")),
    ("submission-failed", of_job("ValidationFailed", "entrypoint must be set", "")),
    ("retries-used-up", of_job("BackoffLimitExceeded", "")),
    (
        "retries-used-up",
        event("RayJob", "run-1", "BackoffLimitExceeded", "Job has reached the specified backoff limit"),
    ),
    ("stopped", of_job("", "Job was intentionally stopped.", "STOPPED")),
    ("stopped", of_driver("grpo: stopped by SIGTERM")),
    ("cuda-oom", of_driver("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB")),
    (
        "cuda-oom",
        lambda evidence: failed(
            evidence,
            "Job failed due to an application error, last available logs:\ntorch.OutOfMemoryError: CUDA out of memory.",
        ),
    ),
    ("head-lost", event("RayJob", "run-1", "Unhealthy", "head pod s-ray-headgroup was deleted")),
    ("head-lost", of_driver("Failed to connect to GCS within 60 seconds")),
]


@pytest.mark.parametrize(("cause", "change"), PLANTS, ids=[f"{number}-{each[0]}" for number, each in enumerate(PLANTS)])
def test_the_planted_cause_is_ranked_first(cause: str, change: Change) -> None:
    evidence = bundles.evidence()
    evidence.objects["pods"][WORKER]["status"]["conditions"][0]["lastTransitionTime"] = "2025-01-01T00:00:00Z"
    evidence.objects["pods"][HEAD]["status"]["conditions"][0]["lastTransitionTime"] = "2025-01-01T00:00:00Z"
    change(evidence)
    found = diagnosis.of_evidence(evidence)
    assert not found.is_healthy
    assert [each.cause.id for each in found.found[:1]] == [cause], [
        (each.cause.id, each.lines[0]) for each in found.found
    ]


_SICK = "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu"
_HOOK = "failed to create containerd task: OCI runtime create failed: nvidia-container-cli: "


@pytest.mark.parametrize(
    "change",
    [
        node("Ready", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status."),
        node("GpuXidError", "True", "XidError", "NVRM: Xid (PCI:0000:0a:00): 79, GPU has fallen off the bus"),
        node("NVLinkFault", "True", "NvlinkDown", "link 3 is down"),
        phase(WORKER, "UnexpectedAdmissionError", _SICK),
        event("Pod", "s-ray-gpu-2", "UnexpectedAdmissionError", _SICK),
        waits(WORKER, "RunContainerError", f"{_HOOK}device error: GPU-0a1b: unknown device: unknown"),
        waits(WORKER, "RunContainerError", f"{_HOOK}initialization error: nvml error: driver not loaded: unknown"),
        waits(WORKER, "CreateContainerError", "error running hook #0: nvml error: GPU is lost"),
        waits(WORKER, "RunContainerError", "failed to inject CDI devices: unresolvable CDI devices nvidia.com/gpu=3"),
    ],
    ids=range(9),
)
def test_a_failed_machine_is_never_blamed_on_configuration(change: Change) -> None:
    """These texts are chosen here, whatever the causes say of themselves."""
    evidence = bundles.evidence()
    change(evidence)
    assert diagnosis.of_evidence(evidence).found[0].cause.blame in (HARDWARE, UNKNOWN)


FULL = "Job failed, last available logs:\nOSError: [Errno 28] No space left on device: '/data/x'"


def test_a_stopped_operator_does_not_hide_rays_message() -> None:
    """The message of the RayJob is that of a job that runs."""
    evidence = bundles.evidence()
    job(evidence, jobDeploymentStatus="Running", jobStatus="RUNNING", message="Job is currently running.")
    evidence.ray = {"status": "FAILED", "message": FULL}
    unscheduled(evidence)
    assert [each.cause.id for each in diagnosis.of_evidence(evidence).found] == ["disk-full", "cannot-be-scheduled"]
    evidence = bundles.evidence()
    job(evidence, jobDeploymentStatus="Running", jobStatus="RUNNING", message="Job is currently running.")
    evidence.ray = {"status": "STOPPED", "message": "Job was intentionally stopped."}
    assert [each.cause.id for each in diagnosis.of_evidence(evidence).found] == ["stopped"]


@pytest.mark.parametrize("state", ["Suspending", "Retrying", "Complete"])
def test_a_job_ended_by_kuberay_is_not_attributed_to_ray(state: str) -> None:
    evidence = bundles.evidence()
    job(evidence, jobDeploymentStatus=state, jobStatus="SUCCEEDED" if state == "Complete" else "")
    evidence.ray = {"status": "STOPPED", "message": "Job was intentionally stopped."}
    assert submission.ended_in_ray(evidence) == ""


@pytest.mark.parametrize(("started", "first"), [("12:05", "disk-full"), ("11:00", "preempted-by-priority")])
def test_a_preemption_followed_by_a_replacement_pod_was_survived(started: str, first: str) -> None:
    evidence = bundles.evidence()
    about = {"kind": "Pod", "name": "s-ray-9"}
    message = "Preempted by pod 11-22 on node n"
    evidence.objects["preemptions"] = [
        {"involvedObject": about, "reason": "Preempted", "message": message, "lastTimestamp": "2026-11-25T12:00:00Z"}
    ]
    running = {"name": "ray-worker", "state": {"running": {"startedAt": f"2026-11-25T{started}:00Z"}}}
    evidence.objects["pods"][WORKER]["status"]["containerStatuses"] = [running]
    failed(evidence, FULL)
    assert diagnosis.of_evidence(evidence).found[0].cause.id == first


def test_an_event_of_a_stack_with_a_similar_name_is_ignored() -> None:
    evidence = bundles.evidence()
    about = {"kind": "Pod", "name": "s-ray2-gpu-1"}
    evidence.objects["preemptions"] = [
        {"involvedObject": about, "reason": "Preempted", "message": "Preempted by pod x"}
    ]
    failed(evidence, FULL)
    assert [each.cause.id for each in diagnosis.of_evidence(evidence).found] == ["disk-full"]


def test_every_cause_has_at_least_two_plants() -> None:
    from tests.live.why.test_logs import PLANTS as LOGS

    counts = {cause.id: len(LOGS.get(cause.id, ())) for cause in registry.causes()}
    for cause, _ in PLANTS:
        counts[cause] += 1
    assert {cause: count for cause, count in counts.items() if count < 2} == {}


def test_a_run_that_continues_has_no_cause_whatever_its_log_says() -> None:
    evidence = bundles.evidence()
    evidence.logs["attempts/1/output.log"] = "OSError: [Errno 28] No space left on device"
    found = diagnosis.of_evidence(evidence)
    assert (found.is_healthy, found.found) == (True, ())
    assert "nothing is wrong" in list(found.lines())


def test_evidence_from_before_the_run_is_ignored() -> None:
    evidence = bundles.evidence()
    ended(WORKER, 137, "OOMKilled")(evidence)
    evidence.objects["rayjobs"][0]["status"]["startTime"] = "2026-11-25T13:00:00Z"
    assert "host-oom" not in [each.cause.id for each in diagnosis.of_evidence(evidence).found]


WARNINGS = [
    ("FailedScheduling", "0/3 nodes: pod has unbound immediate PersistentVolumeClaims.", "claim-not-bound"),
    ("FailedScaleUp", "Node scale up in zones failed: GCE out of resources.", "no-capacity"),
    ("FailedMount", "MountVolume.SetUp failed for volume data", "mount-fails"),
    ("Failed", 'Failed to pull image "nemo": 429 Too Many Requests', "image-pull"),
]


@pytest.mark.parametrize(("reason", "message", "cause"), WARNINGS)
@pytest.mark.parametrize("state", ["Running", "Failed", "replaced"])
def test_a_warning_that_a_pod_survived_is_not_a_cause(reason: str, message: str, cause: str, state: str) -> None:
    """It has started since, or the pod in its place has; the warning stays for an hour."""
    evidence = bundles.evidence()
    failed(evidence)
    worker = pod(evidence, WORKER)
    worker["metadata"]["name"] = "s-ray-gpu-worker-abcde"
    worker["status"]["phase"] = "Running" if state == "replaced" else state
    worker["status"]["containerStatuses"] = [{"state": {"running": {"startedAt": "2026-11-25T12:00:00Z"}}}]
    gone = "s-ray-gpu-worker-" + ("fghij" if state == "replaced" else "abcde")
    warning = {"involvedObject": {"kind": "Pod", "name": gone}, "reason": reason, "message": message}
    evidence.objects["events"] = [{**warning, "eventTime": "2026-11-25T11:59:59.123456Z"}]
    assert cause not in [each.cause.id for each in diagnosis.of_evidence(evidence).found]
    evidence.objects["events"] = [{**warning, "eventTime": "2026-11-25T12:00:30.123456Z"}]
    worker["spec"].pop("nodeName")
    assert cause in [each.cause.id for each in diagnosis.of_evidence(evidence).found]


@pytest.mark.parametrize(
    ("reason", "message", "cause", "seen", "is_ready", "is_cause"),
    [
        ("BackOff", "Back-off restarting failed container ray", "container-crashes", 0, True, True),
        ("Unhealthy", "Readiness probe failed: command timed out", "probe-failed", 30, True, False),
        ("Unhealthy", "Readiness probe failed: command timed out", "probe-failed", 30, False, True),
        ("Unhealthy", "Liveness probe failed: command timed out", "probe-failed", 0, True, True),
    ],
)
def test_a_running_containers_warning_is_over_only_if_the_container_never_ended(
    reason: str, message: str, cause: str, seen: int, is_ready: bool, is_cause: bool
) -> None:
    """A restart ends no crash loop, and may follow from a probe; a pod that is ready again has answered."""
    evidence = bundles.evidence()
    failed(evidence)
    status = pod(evidence, WORKER)["status"]
    status["containerStatuses"] = [{"state": {"running": {"startedAt": "2026-11-25T12:00:10Z"}}}]
    status["conditions"] = [{"type": "Ready", "status": str(is_ready)}]
    warning = {"involvedObject": {"kind": "Pod", "name": "s-ray-gpu"}, "reason": reason, "message": message}
    evidence.objects["events"] = [{**warning, "lastTimestamp": f"2026-11-25T12:00:{seen:02}Z"}]
    assert (cause in [each.cause.id for each in diagnosis.of_evidence(evidence).found]) == is_cause


def test_a_head_that_the_operator_reached_late_is_not_the_cause_of_a_failure() -> None:
    """While the dashboard starts, the operator's log has refusals of each run."""
    evidence = bundles.evidence()
    failed(evidence, "grpo: the trainer ended with exit code 137 (SIGKILL)")
    evidence.logs["operator"] = 'Get "http://s-ray-head-svc:8265/api/jobs/run-1": dial tcp: connect: connection refused'
    assert [each.cause.id for each in diagnosis.of_evidence(evidence).found] == ["killed", "job-not-submitted"]


def test_an_event_in_the_second_when_the_run_began_is_kept() -> None:
    """Times of events may have microseconds, and those of objects have none."""
    evidence = bundles.evidence()
    reason, message, cause = WARNINGS[2]
    event("Pod", "s-ray-gpu", reason, message)(evidence)
    job(evidence, jobDeploymentStatus="Initializing", startTime="2026-11-25T12:00:00Z")
    for fraction in ("", ".000001", ".5"):
        evidence.objects["events"][0]["eventTime"] = f"2026-11-25T12:00:00{fraction}Z"
        assert cause in [each.cause.id for each in diagnosis.of_evidence(evidence).found]


@pytest.mark.parametrize(
    ("log", "first"),
    [
        ("OSError: [Errno 28] No space left on device", "disk-full"),
        ("RuntimeError: x", "python-error"),
    ],
)
def test_a_pod_waiting_now_is_not_the_cause_of_an_earlier_failure(log: str, first: str) -> None:
    evidence = bundles.evidence()
    unscheduled(evidence)
    of_driver(log)(evidence)
    assert [each.cause.id for each in diagnosis.of_evidence(evidence).found] == [first, "cannot-be-scheduled"]


def test_events_of_a_pod_waiting_now_are_not_the_cause_of_an_earlier_failure() -> None:
    evidence = bundles.evidence()
    unscheduled(evidence)
    of_driver("RuntimeError: x")(evidence)
    worker = pod(evidence, WORKER)
    worker["spec"].pop("nodeName")
    event("Pod", worker["metadata"]["name"], "FailedScheduling", "0/3 nodes are available.")(evidence)
    evidence.objects["pods"].append(worker)
    found = diagnosis.of_evidence(evidence).found
    assert [each.cause.id for each in found] == ["python-error", "cannot-be-scheduled"]
    assert found[1].count == 2


def test_a_pod_waiting_now_ranks_before_a_symptom_of_the_lost_one() -> None:
    evidence = bundles.evidence()
    waits(WORKER, "RunContainerError", "failed to create containerd task: nvidia hook failed")(evidence)
    of_driver("RuntimeError: Engine core initialization failed. See root cause above.")(evidence)
    found = [each.cause.id for each in diagnosis.of_evidence(evidence).found]
    assert found == ["container-not-created", "engine-died"]


def test_a_run_preempted_by_kueue_failed_for_that_reason() -> None:
    """It waits for another place now, and its log shows only how its processes ended."""
    evidence = bundles.evidence()
    queued(evidence)
    (condition,) = evidence.objects["workloads"][0]["status"]["conditions"]
    condition["message"] = "Preempted to accommodate a workload (UID: 11-22) due to prioritization in the ClusterQueue"
    of_driver("RuntimeError: x")(evidence)
    found = [each.cause.id for each in diagnosis.of_evidence(evidence).found]
    assert found == ["preempted-by-priority", "python-error"]


def test_the_blamed_value_depends_on_the_pod() -> None:
    values = []
    # A head with GPUs has the size of a worker.
    for number, gpus in ((HEAD, 0), (HEAD, 8), (WORKER, 8)):
        evidence = bundles.evidence()
        pod(evidence, number)["spec"]["containers"][0]["resources"]["limits"] = {bundles.GPU: gpus}
        ended(number, 137, "OOMKilled")(evidence)
        values.append(diagnosis.of_evidence(evidence).found[0].value)
    assert values == ["ray.head.memory", "accelerator.worker.memory", "accelerator.worker.memory"]


def test_why_reads_a_bundle_and_hides_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    token = "hf_" + "aB3" * 8
    evidence = bundles.evidence()
    waits(WORKER, "CreateContainerConfigError", 'secret "hf" not found')(evidence)
    evidence.expected.places["huggingface.secret.name"] = ("hf", "site.yaml:3:5")
    evidence.record["reason"] = f"a program printed {token}"
    path = str(tmp_path / "b.tar.gz")
    bundle.write(path, evidence)
    assert cli.main(["why", "--from", path]) == 1
    shown = capsys.readouterr().out
    assert "the guard last saw attempt 1, phase step, step 7\n1. secret-missing (configuration)" in shown
    assert "     value: site.yaml:3:5 huggingface.secret.name\n" in shown
    assert "not read:\n  nodes: forbidden" in shown
    assert token not in shown
    assert cli.main(["why", "--from", path, "--format", "json"]) == 1
    read = json.loads(capsys.readouterr().out)
    assert (read["causes"][0]["at"], read["causes"][0]["retry"]) == ("site.yaml:3:5", "fails the same way")
    bundles.write(Path(path))
    assert cli.main(["why", "--from", path]) == 0


def test_logs_are_kept_in_a_bundle(tmp_path: Path) -> None:
    evidence = bundles.evidence()
    of_driver("OSError: [Errno 28] No space left on device")(evidence)
    bundle.write(str(tmp_path / "b"), evidence)
    assert bundle.read(str(tmp_path / "b")).logs == evidence.logs


PLAN = {
    "verdict": "fits",
    "peak": "370.6 GiB",
    "limit": "400.0 GiB",
    "during": {"generation": {}, "logprobs": {"weights while the reference computes": "102.2 GiB"}},
}
TOTAL = "370.6 GiB of 400.0 GiB for a node at most (fits)"
STARTS = "========================= Step 7/9 =========================\n▶ Generating responses for batch of size 8...\n"
DRIVER = "attempts/1/output.log"


@pytest.mark.parametrize(
    ("log", "phase", "plan", "said"),
    [
        (
            f"{STARTS}▶ Computing logprobs...\n",
            "step",
            PLAN,
            f"phase logprobs ({DRIVER}:3); grpo plan counts {TOTAL}; this phase adds weights while",
        ),
        (STARTS, "step", PLAN, f"phase generation ({DRIVER}:2); grpo plan counts {TOTAL}; this phase adds nothing"),
        (
            f"{STARTS}Saving checkpoint for step 7...\n",
            "",
            PLAN,
            f"phase checkpoint ({DRIVER}:3); grpo plan does not judge this phase; for the others it counts {TOTAL}",
        ),
        (
            "(TaskRunner pid=7) local_global_step_folder: /c/global_step_7\n",
            "",
            PLAN,
            f"phase checkpoint ({DRIVER}:1); ",
        ),
        ("", "checkpoint", PLAN, "phase checkpoint (status.json); grpo plan does not judge this phase; "),
        ("", "step", PLAN, f"phase step (status.json); grpo plan counts {TOTAL}"),
        ("", "", PLAN, f"the phase of the run is not known; grpo plan counts {TOTAL}"),
        ("", "step", {}, "phase step (status.json); the bundle has no plan"),
        (
            "",
            "step",
            {"reason": "the task evaluate"},
            "grpo plan does not judge the memory of this run: the task evaluate",
        ),
    ],
)
def test_an_out_of_memory_cause_names_the_phase(log: str, phase: str, plan: dict[str, Any], said: str) -> None:
    evidence = bundles.evidence()
    ended(WORKER, 137, "OOMKilled")(evidence)
    evidence.record["phase"] = phase
    evidence.logs = {DRIVER: log} if log else {}
    evidence.expected.host.update(plan)
    (found, *_) = diagnosis.of_evidence(evidence).as_json()["causes"]
    assert said in found["remark"]


def test_the_phase_is_taken_from_the_line_that_shows_it() -> None:
    """The trainer that was started again had come further."""
    evidence = bundles.evidence()
    of_driver(f"{STARTS}torch: DefaultCPUAllocator: can't allocate memory\n▶ Training policy...\n")(evidence)
    (found, *_) = diagnosis.of_evidence(evidence).as_json()["causes"]
    assert f"phase generation ({DRIVER}:2)" in found["remark"]


def test_the_plan_does_not_cover_the_heads_memory() -> None:
    evidence = bundles.evidence()
    ended(HEAD, 137, "OOMKilled")(evidence)
    evidence.expected.host.update(PLAN)
    (found, *_) = diagnosis.of_evidence(evidence).as_json()["causes"]
    assert found["remark"].endswith("grpo plan does not count the memory of the head")


@pytest.mark.parametrize(
    ("cause", "line"),
    [
        ("nccl-timeout", "[rank0]:[E] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=42)"),
        ("stalled", "grpo: guard: the trainer has stalled: phase step has shown nothing for 1800 s"),
    ],
)
def test_the_flight_recorder_names_the_rank_that_stopped_first(cause: str, line: str) -> None:
    evidence = bundles.evidence()
    of_driver(line)(evidence)
    first = (
        "flight recorder: group 0 default_pg: rank 2 stopped first, after all_reduce 41; rank 0 waited in barrier 42"
    )
    evidence.logs["attempts/1/evidence/20261125T120000Z/nccl.txt"] = f"{first}\n"
    (found, *_) = diagnosis.of_evidence(evidence).as_json()["causes"]
    assert (found["id"], found["remark"]) == (cause, first)
