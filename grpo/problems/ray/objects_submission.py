"""RayJob mistakes that no component rejects: the job then never starts or never ends."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from grpo.problems.ray.rayspec import Cluster, Group, Job, each_job
from postrender import json_text
from postrender.finding import ERROR, WARNING
from postrender.manifests.pods import mapping, sequence
from postrender.problem import OBJECTS, Fails, Problem
from postrender.values.quantity import quantity

if TYPE_CHECKING:
    from grpo.problems.ray.rayspec import Found

_JOB: Final = "kuberay/ray-operator/controllers/ray/common/job.go at v1.6.2"
_CONTROLLER: Final = "kuberay/ray-operator/controllers/ray/rayjob_controller.go at v1.6.2"
# The first Ray that has metadata on its command line; nightly and release candidate versions are not compared.
_METADATA: Final = (2, 6)
_RELEASE: Final = re.compile(r"v?(\d{1,18})(?:\.(\d{1,18}))?(?:\.\d+)?(?:\+[-0-9A-Za-z.]+)?\Z")


def _nothing(job: Job) -> Found:
    own = job.mode == "K8sJobMode" and sequence(job.submitter.get("command"))
    if not str(job.spec.get("entrypoint") or "").strip() and job.mode != "InteractiveMode" and not own:
        yield ("spec", "entrypoint"), "there is no entrypoint"


def _unused(job: Job) -> Found:
    for key in ("submitterPodTemplate", "submitterConfig"):
        if job.spec.get(key) is not None and job.mode in ("HTTPMode", "InteractiveMode"):
            yield ("spec", key), f"{key} is set, and submissionMode is {job.mode}"


def _metadata(job: Job) -> Found:
    if job.cluster and mapping(job.spec.get("metadata")) and job.mode in ("K8sJobMode", "SidecarMode"):
        reason = job.cluster.spec.get("rayVersion") or "not set"
        found = _RELEASE.match(str(reason))
        if found is None or (int(found[1]), int(found[2] or 0)) < _METADATA:
            yield (*job.cluster.path, "rayVersion"), f"the job has metadata, and rayVersion is {reason}"


def _resources(job: Job) -> Found:
    text = job.spec.get("entrypointResources")
    if not isinstance(text, str) or not text:
        return
    try:
        value = json_text.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict) or not all(_is_number(each) for each in value.values()):
        yield ("spec", "entrypointResources"), "entrypointResources is no map of numbers in JSON"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _too_many(job: Job) -> Found:
    asked = job.spec.get("entrypointNumGpus")
    if not job.cluster or not isinstance(asked, int | float) or isinstance(asked, bool):
        return
    most = max(map(_gpus, _groups(job.cluster)), default=0.0)
    if asked > most:
        yield ("spec", "entrypointNumGpus"), f"entrypointNumGpus is {asked}, and the largest node has {most:g} GPUs"


def _groups(cluster: Cluster) -> list[Group]:
    return [cluster.head, *cluster.workers]


def _gpus(group: Group) -> float:
    """Return the GPUs that Ray sees on a node of the group."""
    given = group.params.get("num-gpus") or mapping(group.spec.get("resources")).get("GPU")
    return quantity(given if given is not None else group.limit("nvidia.com/gpu") or 0) or 0


RULES = (
    Problem(
        "ray/entrypoint-missing",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_START,
        title="a RayJob has no entrypoint",
        why="nothing refuses it: the cluster with its GPUs starts, and then the submission fails",
        fix="write the command of the job into entrypoint",
        source=_JOB,
        check=each_job(_nothing),
    ),
    Problem(
        "ray/submitter-unused",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.SILENT,
        title="a RayJob configures a submitter, but its mode has none",
        why="in this mode the operator submits the job itself and ignores these settings",
        fix="remove it, or write submissionMode: K8sJobMode",
        source=_CONTROLLER,
        check=each_job(_unused),
    ),
    Problem(
        "ray/metadata-needs-version",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="a RayJob has metadata, but rayVersion is too old or not a release",
        why="the operator cannot write the command that submits the job, after the cluster has started",
        fix="set rayVersion to the image's version of Ray, or remove metadata",
        source=_JOB,
        check=each_job(_metadata),
    ),
    Problem(
        "ray/entrypoint-resources",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_START,
        title="the custom resources of the entrypoint cannot be parsed",
        why="the submission fails after the cluster with its GPUs has started",
        fix="write a map in JSON, such as '{\"driver\": 1}'",
        source=_JOB,
        check=each_job(_resources),
    ),
    Problem(
        "ray/entrypoint-gpus",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.PENDING,
        title="the entrypoint requests more GPUs than any node has",
        why="the job stays pending forever, and keeps the GPUs of its cluster",
        fix="remove entrypointNumGpus: a driver such as NeMo RL's needs no GPU, its workers request theirs",
        source="https://docs.ray.io/en/latest/cluster/running-applications/job-submission/sdk.html",
        check=each_job(_too_many),
    ),
)
