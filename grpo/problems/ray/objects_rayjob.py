"""RayJob fields that must be consistent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.ray.rayspec import EVENT_ONLY, VALIDATION, Job, each_job, number
from postrender.errors import InputError
from postrender.finding import ERROR, WARNING
from postrender.manifests.pods import mapping
from postrender.problem import OBJECTS, Fails, Problem
from postrender.yaml import reader

if TYPE_CHECKING:
    from grpo.problems.ray.rayspec import Found

_CLUSTER: Final = "ray.io/cluster"


def _suspended(job: Job) -> Found:
    if job.spec.get("suspend") is True and not job.shuts_down:
        yield ("spec", "suspend"), "suspend is true, and shutdownAfterJobFinishes is not"


def _ttl(job: Job) -> Found:
    seconds = number(job.spec.get("ttlSecondsAfterFinished")) or 0
    if seconds > 0 and not job.shuts_down:
        what = f"ttlSecondsAfterFinished is {seconds}, and shutdownAfterJobFinishes is not true"
        yield ("spec", "ttlSecondsAfterFinished"), what


def _nowhere(job: Job) -> Found:
    if job.cluster is None and not job.selector:
        yield ("spec",), "there is neither rayClusterSpec nor clusterSelector"
    elif job.selector and not job.selector.get(_CLUSTER):
        yield ("spec", "clusterSelector"), f"clusterSelector has no {_CLUSTER}"


def _both(job: Job) -> Found:
    if job.cluster is not None and job.selector:
        yield ("spec", "clusterSelector"), "there are rayClusterSpec and clusterSelector"


def _selected(job: Job) -> Found:
    if not job.selector:
        return
    if job.spec.get("suspend") is True:
        yield ("spec", "suspend"), "suspend is true"
    if job.mode == "SidecarMode":
        yield ("spec", "submissionMode"), "submissionMode is SidecarMode"


def _retried(job: Job) -> Found:
    limit = number(job.spec.get("backoffLimit")) or 0
    if limit > 0 and (job.selector or job.mode == "InteractiveMode"):
        beside = "clusterSelector" if job.selector else "InteractiveMode"
        yield ("spec", "backoffLimit"), f"backoffLimit is {limit} beside {beside}"


def _sidecar(job: Job) -> Found:
    if job.mode != "SidecarMode":
        return
    for key in ("submitterPodTemplate", "submitterConfig"):
        if job.spec.get(key) is not None:
            yield ("spec", key), f"{key} is set, and submissionMode is SidecarMode"
    head = job.cluster.head if job.cluster else None
    policy = head.pod.get("restartPolicy") if head else None
    if head and policy and policy != "Never":
        path = (*head.path, "template", "spec", "restartPolicy")
        yield path, f"the head has restartPolicy {policy}, and submissionMode is SidecarMode"


def _environment(job: Job) -> Found:
    text = job.spec.get("runtimeEnvYAML")
    if not isinstance(text, str) or not text.strip():
        return

    try:
        roots = reader.parse(text.encode("utf-8"), "runtimeEnvYAML")
    except InputError:
        yield ("spec", "runtimeEnvYAML"), "runtimeEnvYAML is no YAML"
        return
    if roots and not isinstance(roots[0].plain(), dict | None):
        yield ("spec", "runtimeEnvYAML"), "runtimeEnvYAML is no map"


def _kept(job: Job) -> Found:
    cluster = job.cluster
    keeps = not job.shuts_down and not mapping(job.spec.get("deletionStrategy")) and not job.selector
    if cluster and keeps and any(group.limit("nvidia.com/gpu") for group in cluster.workers):
        yield ("spec",), "the cluster has GPUs, and neither shutdownAfterJobFinishes nor deletionStrategy ends it"


RULES = (
    Problem(
        "ray/suspend-without-shutdown",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="a RayJob is suspended, but does not shut down its cluster at the end",
        why=EVENT_ONLY,
        fix="set shutdownAfterJobFinishes: true",
        source=VALIDATION,
        check=each_job(_suspended),
    ),
    Problem(
        "ray/ttl-without-shutdown",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="a RayJob has ttlSecondsAfterFinished, but keeps its cluster",
        why=EVENT_ONLY,
        fix="set shutdownAfterJobFinishes: true",
        source=VALIDATION,
        check=each_job(_ttl),
    ),
    Problem(
        "ray/job-without-cluster",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="a RayJob neither defines a cluster nor names one",
        why=EVENT_ONLY,
        fix="write rayClusterSpec, or the cluster's name at clusterSelector under ray.io/cluster",
        source=VALIDATION,
        check=each_job(_nowhere),
    ),
    Problem(
        "ray/job-with-two-clusters",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.SILENT,
        title="a RayJob has both clusterSelector and rayClusterSpec",
        why="the operator ignores rayClusterSpec, so the job runs on whatever the selected cluster has",
        fix="remove rayClusterSpec or clusterSelector",
        source="kuberay/ray-operator/controllers/ray/rayjob_controller.go at v1.6.2",
        check=each_job(_both),
    ),
    Problem(
        "ray/selector-excludes",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="a RayJob on an existing cluster has a setting that needs the job's own cluster",
        why=EVENT_ONLY,
        fix="remove it, or define the cluster in rayClusterSpec",
        source=VALIDATION,
        check=each_job(_selected),
    ),
    Problem(
        "ray/job-cannot-retry",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="a RayJob has retries, but its cluster or its mode does not support them",
        why=EVENT_ONLY,
        fix="remove backoffLimit: a retry creates a new cluster, which needs rayClusterSpec",
        source=VALIDATION,
        check=each_job(_retried),
    ),
    Problem(
        "ray/sidecar-excludes",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="a RayJob in SidecarMode has settings that this mode excludes",
        why=EVENT_ONLY,
        fix="remove them, or write submissionMode: HTTPMode",
        source=VALIDATION,
        check=each_job(_sidecar),
    ),
    Problem(
        "ray/runtime-env-not-a-map",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="the runtime environment of a RayJob is not a map in YAML",
        why=EVENT_ONLY,
        fix="write a map in YAML, such as env_vars: {NAME: value}",
        source=VALIDATION,
        check=each_job(_environment),
    ),
    Problem(
        "ray/cluster-outlives-job",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.COSTS,
        title="a RayJob keeps its cluster with GPUs after the job has ended",
        why="by default the operator leaves the cluster running forever after the job has ended or failed",
        fix="set shutdownAfterJobFinishes: true with ttlSecondsAfterFinished, or write deletionStrategy",
        source="kuberay/ray-operator/apis/ray/v1/rayjob_types.go at v1.6.2",
        check=each_job(_kept),
    ),
)
