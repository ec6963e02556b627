"""A RayCluster from the chart raycluster has the facts that its job compares at startup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo.problems.placement.target import Target, each_target
from grpo.values.job_cluster import VARIABLE, flat
from postrender import json_text
from postrender.finding import ERROR
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from grpo.problems.ray.rayspec import Found


def _differ(target: Target) -> Found:
    path, _, text = next(target.found.head.env(VARIABLE))
    try:
        there = flat(json_text.loads(text))
    except (ValueError, AttributeError):
        yield (*path, "value"), f"{VARIABLE} is not a JSON object"
        return
    for (fact, name), value in flat(target.expected.facts).items():
        if there.get((fact, name)) == value and (fact, name) in there:
            continue
        label, key = f"{fact}.{name}" if name else fact, target.expected.key(fact, name)
        # Variables by name only: their values may be confidential.
        has = "another value" if fact == "environment" else there.get((fact, name), "nothing")
        wants = "" if fact == "environment" else f", and the job expects {value}"
        yield (*path, "value"), f"{label} ({key}): the cluster has {has}{wants}"


RULE = Problem(
    "cluster/facts-differ",
    target=OBJECTS,
    severity=ERROR,
    fails=Fails.AT_START,
    title="the RayCluster was rendered from other values than its job",
    why="the entrypoint of the job compares them at the start, and exits with 1",
    fix="give the raycluster and the grpo-job release the same values files, and upgrade the outdated one",
    source="jobs/launcher/cluster_facts.py at 0.1.0",
    check=each_target(_differ, ours=True),
)
