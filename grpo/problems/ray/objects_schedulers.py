"""Batch schedulers for the operator's pods: KAI and Volcano."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.ray.rayspec import Job, each_job, labels_of
from postrender.finding import ERROR
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from grpo.problems.ray.rayspec import Found

_KAI: Final = "kai.scheduler/queue"
_VOLCANO: Final = "volcano.sh/queue-name"


def _kai(job: Job) -> Found:
    if _KAI in labels_of(job.item) and job.mode == "K8sJobMode":
        yield ("spec", "submissionMode"), f"the job has the label {_KAI}, and submissionMode is K8sJobMode"


def _volcano(job: Job) -> Found:
    if _VOLCANO in labels_of(job.item) and job.selector:
        yield ("spec", "clusterSelector"), f"the job has the label {_VOLCANO} and clusterSelector"


_FOLDER: Final = "kuberay/ray-operator/controllers/ray/batchscheduler"

RULES = (
    Problem(
        "ray/kai-with-submitter",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="a RayJob in a KAI queue has a submitter pod",
        why="the job never starts: the operator refuses it, because the submitter pod starts after the gang",
        fix="write submissionMode: HTTPMode",
        source=f"{_FOLDER}/kai-scheduler/kai_scheduler.go at v1.6.2",
        check=each_job(_kai),
    ),
    Problem(
        "ray/volcano-with-selector",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="a RayJob in a Volcano queue runs on an existing cluster",
        why="a gang needs the job's own cluster (rayClusterSpec); the operator refuses any other",
        fix="put the label on the RayCluster, and remove it from the job",
        source=f"{_FOLDER}/volcano/volcano_scheduler.go at v1.6.2",
        check=each_job(_volcano),
    ),
)
