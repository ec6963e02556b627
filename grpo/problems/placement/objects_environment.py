"""The head and GPU workers have the values' variables: the Hugging Face token, its cache, and others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo.problems.placement.target import SOURCE, Target, each_target
from grpo.values.job_cluster import described
from postrender.finding import WARNING
from postrender.manifests.pods import mapping, sequence
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from grpo.problems.ray.rayspec import Found, Group


def _differ(target: Target) -> Found:
    groups = {group.path: group for group in (target.found.head, *target.gpu_groups())}
    for group in groups.values():
        # The names in a ConfigMap or a Secret are unknown here.
        if not sequence(group.ray.get("envFrom")):
            yield from _of_group(group, target)


def _of_group(group: Group, target: Target) -> Found:
    entries = list(map(mapping, sequence(group.ray.get("env"))))
    there = {str(each.get("name")): (at, each) for at, each in enumerate(entries)}
    missing = []
    for name, wanted in target.expected.facts["environment"].items():
        if name in target.expected.only_head and not group.head:
            continue
        key = target.expected.key("environment", name)
        if name not in there:
            missing.append(f"{name} ({key})")
            continue
        at, entry = there[name]
        if described(entry) != wanted:
            # Values may be confidential; the name of a Secret is not.
            both = "valueFrom" in entry and wanted.startswith("key ")
            differs = f"from {described(entry)}, and the values from {wanted}" if both else "with another value"
            yield (*group.ray_path, "env", at), f"{group.title} gets {name} {differs} ({key})"
    if missing:
        place = (*group.ray_path, "env") if entries else group.ray_path
        yield place, f"{group.title} lacks what the values set: {', '.join(missing)}"


RULE = Problem(
    "cluster/environment-differs",
    target=OBJECTS,
    severity=WARNING,
    fails=Fails.AT_LOADING,
    title="the RayCluster's pods lack a variable of the values, or set it differently",
    why="without HF_TOKEN a gated model is refused (401), without HF_HOME every pod downloads the weights again",
    fix="write the variable in the pod; grpo-post-render adds HF_TOKEN and WANDB_API_KEY, but no other of these",
    source=SOURCE,
    check=each_target(_differ),
)
