"""The cluster runs the image that the values are written for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo.problems.placement.target import SOURCE, Target, each_target
from postrender.finding import ERROR, WARNING
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from grpo.problems.ray.rayspec import Found


def _image(target: Target) -> Found:
    wanted = target.expected.facts["image"]
    for group in target.groups():
        found = group.ray.get("image")
        if wanted and found and found != wanted:
            what = f"{group.title} runs {found}, and the values are for {wanted} (images.training)"
            yield (*group.ray_path, "image"), what


def _ray_version(target: Target) -> Found:
    wanted, found = target.expected.facts["rayVersion"], target.found.spec.get("rayVersion")
    if wanted and found and str(found) != str(wanted):
        what = f"rayVersion is {found}, and the image has Ray {wanted} (images.training.rayVersion)"
        yield ("spec", "rayVersion"), what


RULES = (
    Problem(
        "cluster/image-differs",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_START,
        title="the RayCluster runs another image than the one that the values name",
        why="the job runs the framework of the cluster's image: without it, or with another version, it fails",
        fix="run that image in the cluster, or set images.training and job.version to what the cluster's image has",
        source=SOURCE,
        check=each_target(_image),
    ),
    Problem(
        "cluster/ray-version-differs",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.AT_START,
        title="rayVersion of the RayCluster is not the version of Ray in the image",
        why="KubeRay chooses by rayVersion how it submits jobs and what it accepts; the image may not know that",
        fix="set spec.rayVersion to images.training.rayVersion, or correct that value",
        source="kuberay/ray-operator/apis/ray/v1/raycluster_types.go at v1.6.2",
        check=each_target(_ray_version),
    ),
)
