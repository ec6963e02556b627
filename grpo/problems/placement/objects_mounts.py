"""The head and the workers mount the volumes in the values."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from grpo.problems.placement.target import Target, each_target, mounts
from grpo.values.job_cluster import LOCAL
from postrender.finding import ERROR
from postrender.manifests.pods import mapping
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from grpo.problems.ray.rayspec import Found, Group


def _differ(target: Target) -> Found:
    for group in target.groups():
        for path, claim in target.expected.facts["mounts"].items():
            yield from _of_group(group, path, claim, target.expected.key("mounts", path))


def _of_group(group: Group, path: str, claim: str, key: str) -> Found:
    there = mounts(group)
    if path not in there:
        # A folder of a mounted volume is as good.
        if claim != LOCAL and not any(str(parent) in there for parent in PurePosixPath(path).parents):
            what = f"{group.title} mounts nothing at {path}, where the job expects claim {claim}"
            yield group.ray_path, f"{what} ({key}.mountPath)"
        return
    at, volume = there[path]
    place = (*group.ray_path, "volumeMounts", at)
    found = mapping(volume.get("persistentVolumeClaim")).get("claimName")
    if claim == LOCAL:
        return
    if found is not None and found != claim:
        what = f"{group.title} mounts claim {found} at {path}, and the job expects claim {claim}"
        yield place, f"{what} ({key}.existingClaim.name)"
    elif "emptyDir" in volume:
        what = f"{group.title} mounts a disk of its own (emptyDir) at {path}, and the job expects claim {claim}"
        yield place, f"{what} ({key})"


RULE = Problem(
    "cluster/mounts-differ",
    target=OBJECTS,
    severity=ERROR,
    fails=Fails.AT_START,
    title="the RayCluster does not mount the volume of its job at the path that the job expects",
    why="the job exits at the start (a folder does not exist), or writes where no other pod reads",
    fix="mount the claim in the head and in all worker groups, or write its name and path under storage",
    source="jobs/launcher/launch.py at 0.1.0",
    check=each_target(_differ),
)
