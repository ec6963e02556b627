"""What Kueue requires of KubeRay objects in a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.ray.rayspec import Cluster, Group, Job, each_cluster, each_group, each_job, labels_of
from postrender.finding import ERROR, WARNING
from postrender.manifests.pods import mapping
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from grpo.problems.ray.rayspec import Found
    from postrender.gate.manifests import Item

QUEUE: Final = "kueue.x-k8s.io/queue-name"
_ELASTIC: Final = "kueue.x-k8s.io/elastic-job"
# Head, groups and submitter of a workload.
_MOST: Final = 18
# Older versions take fewer, and no manifest says which version runs.
_MOST_BEFORE: Final = {"0.18": 10, "0.17": 8}
_RAYJOB: Final = "kueue/pkg/controller/jobs/rayjob/rayjob_webhook.go at v0.19.2"
_RAYCLUSTER: Final = "kueue/pkg/controller/jobs/raycluster/raycluster_webhook.go at v0.19.2"
_REFUSED: Final = "the webhook of Kueue refuses the object, after others of the same release are installed"


def _queued(item: Item) -> bool:
    return bool(labels_of(item).get(QUEUE))


def _cluster(job: Job) -> Found:
    if _queued(job.item) and (job.cluster is None or job.selector):
        reason = "clusterSelector" if job.selector else "no rayClusterSpec"
        yield ("spec", "clusterSelector") if job.selector else ("spec",), f"the job has a queue and {reason}"


def _kept(job: Job) -> Found:
    if _queued(job.item) and not job.shuts_down:
        yield ("spec", "shutdownAfterJobFinishes"), "the job has a queue, and shutdownAfterJobFinishes is not true"


def _scales(cluster: Cluster) -> Found:
    elastic = str(cluster.annotations.get(_ELASTIC, "")).lower() == "true"
    if cluster.scales and _queued(cluster.item) and not elastic:
        path = (*cluster.path, "enableInTreeAutoscaling")
        yield path, f"the {cluster.owner} has a queue, and enableInTreeAutoscaling is true"


def _head(group: Group) -> Found:
    if _queued(group.cluster.item) and not group.head and group.spec.get("groupName") == "head":
        yield (*group.path, "groupName"), "a worker group of an object with a queue is called head"


def _kinds(cluster: Cluster) -> int:
    """Return how many kinds of pods a cluster or a job adds to its queue; 0 without a queue."""
    job = Job(cluster.item) if cluster.owner == "RayJob" else None
    return 1 + len(cluster.workers) + bool(job and job.mode == "K8sJobMode") if _queued(cluster.item) else 0


def _many(cluster: Cluster) -> Found:
    count = _kinds(cluster)
    if count > _MOST:
        yield (*cluster.path, "workerGroupSpecs"), f"{count} kinds of pods are in the queue, expected at most {_MOST}"


def _many_before(cluster: Cluster) -> Found:
    count = _kinds(cluster)
    older = [f"{version} takes {most}" for version, most in _MOST_BEFORE.items() if count > most]
    if older and count <= _MOST:
        what = f"{count} kinds of pods are in the queue: Kueue 0.19 takes {_MOST}, {', '.join(older)}"
        yield (*cluster.path, "workerGroupSpecs"), what


def _misplaced(group: Group) -> Found:
    if _queued(group.cluster.item):
        return
    metadata = mapping(group.template.get("metadata"))
    for part in ("labels", "annotations"):
        if QUEUE in mapping(metadata.get(part)):
            path = (*group.path, "template", "metadata", part, QUEUE)
            yield path, f"{group.title} names a queue in {part} of its pods, and the {group.cluster.owner} has none"


RULES = (
    Problem(
        "kueue/job-brings-no-cluster",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_ADMISSION,
        title="a RayJob in a Kueue queue does not bring its own cluster",
        why=_REFUSED,
        fix="define the cluster in rayClusterSpec, or put the queue's label on the RayCluster instead",
        source=_RAYJOB,
        check=each_job(_cluster),
    ),
    Problem(
        "kueue/cluster-outlives-job",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_ADMISSION,
        title="a RayJob in a Kueue queue does not shut down its cluster at the end",
        why=_REFUSED,
        fix="set shutdownAfterJobFinishes: true; deletionRules cannot be used with a queue",
        source=_RAYJOB,
        check=each_job(_kept),
    ),
    Problem(
        "kueue/autoscaler-on",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_ADMISSION,
        title="a cluster in a Kueue queue uses Ray's autoscaler",
        why=_REFUSED,
        fix="set enableInTreeAutoscaling: false",
        source=_RAYCLUSTER,
        check=each_cluster(_scales),
    ),
    Problem(
        "kueue/group-called-head",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_ADMISSION,
        title="a worker group of a cluster in a Kueue queue is called head",
        why=_REFUSED,
        fix="give the worker group another name",
        source=_RAYCLUSTER,
        check=each_group(_head),
    ),
    Problem(
        "kueue/too-many-groups",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_ADMISSION,
        title="a cluster in a Kueue queue has more kinds of pods than Kueue takes",
        why=_REFUSED,
        fix="put workers of the same kind into one group; the submitter of K8sJobMode counts as one",
        source=_RAYCLUSTER,
        check=each_cluster(_many),
    ),
    Problem(
        "kueue/groups-for-new-version",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.AT_ADMISSION,
        title="a cluster in a Kueue queue has more kinds of pods than older versions of Kueue take",
        why="the webhook of Kueue 0.17 refuses more than 8 kinds of pods, that of 0.18 more than 10",
        fix="put workers of the same kind into one group, or make sure that the cluster runs Kueue 0.19",
        source="kueue/site/content/en/docs/tasks/run/rayjobs.md at v0.17.0",
        check=each_cluster(_many_before),
    ),
    Problem(
        "kueue/queue-of-pods",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.SILENT,
        title="pods of Ray name a queue, but their object does not",
        why="Kueue reads only the labels of the RayJob or RayCluster, so the pods bypass every quota",
        fix="move it to metadata.labels of the object",
        source="https://kueue.sigs.k8s.io/docs/tasks/run/rayclusters/",
        check=each_group(_misplaced),
    ),
)
