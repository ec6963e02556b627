"""Batch schedulers that the operator hands its pods to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from postrender.finding import ERROR
from postrender.rules.objects.ray.rayspec import Job, each_job, labels_of
from postrender.rules.rule import OBJECTS, Rule

if TYPE_CHECKING:
    from postrender.rules.objects.ray.rayspec import Found

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
    Rule(
        "ray/kai-with-submitter",
        target=OBJECTS,
        severity=ERROR,
        title="a RayJob in a queue of KAI has a submitter pod",
        why="the operator refuses it again and again, because the submitter comes after the gang; the job never starts",
        fix="write submissionMode: HTTPMode",
        source=f"{_FOLDER}/kai-scheduler/kai_scheduler.go at v1.6.2",
        fact="kuberay/schedulers",
        check=each_job(_kai),
    ),
    Rule(
        "ray/volcano-with-selector",
        target=OBJECTS,
        severity=ERROR,
        title="a RayJob in a queue of Volcano runs on an existing cluster",
        why="a gang is made of a cluster that the job brings; the operator refuses any other",
        fix="put the label on the RayCluster, and remove it from the job",
        source=f"{_FOLDER}/volcano/volcano_scheduler.go at v1.6.2",
        fact="kuberay/schedulers",
        check=each_job(_volcano),
    ),
)
