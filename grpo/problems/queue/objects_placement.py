"""Unused queues, nodes from queued provisioning, and topologies that Kueue does not read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.pods.podspec import PodView, each_pod, objects
from grpo.problems.queue.objects import QUEUE
from grpo.problems.ray.rayspec import annotations_of, labels_of
from postrender.finding import ERROR, WARNING, Finding
from postrender.gate.manifests import Manifests
from postrender.manifests.pods import mapping, sequence
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.problems.pods.podspec import Found

_QUEUED: Final = "cloud.google.com/gke-queued"
_PROVISION: Final = "provreq.kueue.x-k8s.io/"
_TOPOLOGY: Final = ("kueue.x-k8s.io/podset-required-topology", "kueue.x-k8s.io/podset-preferred-topology")
# Kinds with their own queue; for other kinds, the labels of the pods may name a queue.
_QUEUES: Final = ("RayCluster", "RayJob", "Job", "JobSet", "LeaderWorkerSet", "StatefulSet", "Deployment", "Pod")
_WORKLOADS: Final = ("RayCluster", "RayJob", "JobSet", "Job")


def _named(pod: PodView) -> bool:
    of_pod = mapping(mapping(pod.pod.template.get("metadata")).get("labels"))
    # The objects that a service or a job creates inherit its label.
    return QUEUE in labels_of(pod.item) or QUEUE in of_pod


def _waits(pod: PodView) -> Found:
    exact = [each for each in map(mapping, sequence(pod.spec.get("tolerations"))) if each.get("key") == _QUEUED]
    gpus = pod.pod.gpu_container()[1]
    if gpus and exact and pod.item.object.get("kind") in _QUEUES and not _named(pod):
        number = sequence(pod.spec.get("tolerations")).index(exact[0])
        what = f"the pod is for nodes of queued provisioning, and the {pod.item.object['kind']} has no queue"
        yield pod.path("tolerations", number), what


def _refused(pod: PodView) -> Found:
    if not any(name.startswith(_PROVISION) for name in annotations_of(pod.item)):
        return
    flavors = [spec for _, spec in objects(pod.manifests, "ResourceFlavor")]
    given = any(
        mapping(each).get("key") == _QUEUED for flavor in flavors for each in sequence(flavor.get("tolerations"))
    )
    if pod.pod.gpu_container()[1] and not given and not pod.tolerates(_QUEUED):
        what = f"the {pod.item.object['kind']} requests queued provisioning, and the pod does not tolerate {_QUEUED}"
        yield pod.path(), what


def _unused(manifests: Manifests) -> Iterator[Finding]:
    queues = [item for item, _ in objects(manifests, "LocalQueue")]
    for item, _ in objects(manifests, *_WORKLOADS) if queues else ():
        takes = any(pod.gpu_container()[1] for pod in item.pods)
        if takes and QUEUE not in labels_of(item):
            yield item.finding(("metadata",), f"it has no label {QUEUE}, and {queues[0].title} exists")


def _misplaced(manifests: Manifests) -> Iterator[Finding]:
    for item, _ in objects(manifests, *_WORKLOADS):
        for name in _TOPOLOGY:
            if name in annotations_of(item):
                yield item.finding(("metadata", "annotations", name), f"{name} is an annotation of the object")


RULES = (
    Problem(
        "kueue/nodes-without-queue",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.PENDING,
        title="a pod is for nodes of queued provisioning, but its object has no queue",
        why="nothing requests the nodes: the pool stays empty and the pods pending",
        fix="put the label kueue.x-k8s.io/queue-name on the object",
        source="https://cloud.google.com/kubernetes-engine/docs/how-to/provisioningrequest",
        check=each_pod(_waits),
    ),
    Problem(
        "kueue/queued-nodes-not-tolerated",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.PENDING,
        title="an object requests queued provisioning, but its pods do not tolerate such nodes",
        why="GKE taints such nodes with cloud.google.com/gke-queued: they are created, paid for, and stay empty",
        fix="tolerate cloud.google.com/gke-queued=true:NoSchedule",
        source="https://cloud.google.com/kubernetes-engine/docs/how-to/provisioningrequest",
        check=each_pod(_refused),
    ),
    Problem(
        "kueue/queue-without-users",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.SILENT,
        title="a queue exists, but a workload with GPUs does not use it",
        why="the pods bypass every quota, and a pool of queued provisioning stays empty",
        fix="put the label kueue.x-k8s.io/queue-name on the object",
        source="https://kueue.sigs.k8s.io/docs/tasks/run/rayclusters/",
        check=_unused,
    ),
    Problem(
        "kueue/topology-of-object",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.SILENT,
        title="a topology request is on the object, but Kueue reads only those of the pod templates",
        why="Kueue reads it from the pod templates: the pods run in any rack, and NCCL communicates across racks",
        fix="move it to the annotations of each pod template",
        source="https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/",
        check=_misplaced,
    ),
)
