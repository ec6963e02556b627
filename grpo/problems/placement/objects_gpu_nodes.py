"""The cluster has the GPU nodes that the job waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo.problems.placement.target import Target, each_target
from grpo.problems.ray.rayspec import number
from postrender.finding import ERROR
from postrender.manifests.pods import GPU, gpus
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from grpo.problems.ray.rayspec import Found, Group


def _pods(group: Group) -> int:
    """Return a group's maximum number of pods; the operator clamps replicas that are outside the group's bounds."""
    if group.head:
        return 1
    count, hosts = number(group.spec.get("replicas")), number(group.spec.get("numOfHosts"))
    least, most = number(group.spec.get("minReplicas")), number(group.spec.get("maxReplicas"))
    if group.cluster.scales and most is not None:
        count = most
    makes = max(1 if count is None else count, least or 0)
    return (makes if most is None else min(makes, most)) * (1 if hosts is None else hosts)


def _too_few(target: Target) -> Found:
    needed, size = target.expected.nodes, target.expected.facts["gpusPerNode"]
    groups = target.gpu_groups()
    whole = [group for group in groups if gpus(group.ray) >= size]
    have = sum(map(_pods, whole))
    if not size or have >= needed:
        return
    smaller = "".join(f", {group.title} has {gpus(group.ray)}" for group in groups if group not in whole)
    if whole:
        place = whole[-1].path if whole[-1].head else (*whole[-1].path, "replicas")
    else:
        place = (*groups[0].ray_path, "resources", "limits", GPU) if groups else ("spec", "workerGroupSpecs")
    what = f"{have} of the {needed} GPU nodes that the job waits for (job.nodes, else ray.workers.replicas)"
    yield place, f"{what}: pods with {size} GPUs (accelerator.gpusPerNode){smaller}"


RULE = Problem(
    "cluster/too-few-gpu-nodes",
    target=OBJECTS,
    severity=ERROR,
    fails=Fails.AT_START,
    title="the RayCluster has fewer GPU nodes than its job waits for",
    why="the job waits until job.workersTimeoutSeconds has passed, and fails; the GPU nodes cost money meanwhile",
    fix="set job.nodes or ray.workers.replicas to the nodes of the cluster, and give the profile of its machine",
    source="jobs/launcher/workers.py at 0.1.0",
    check=each_target(_too_few),
)
