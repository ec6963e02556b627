"""NeMo RL before v0.7.0 needs a CPU on the head."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo.problems.placement.target import Target, each_target
from grpo.problems.ray.rayspec import version
from postrender.finding import ERROR
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from grpo.problems.ray.rayspec import Found

_SINCE = (0, 7, 0)


def _none(target: Target) -> Found:
    head, wanted = target.found.head, target.expected.version
    older = wanted.startswith("v") and (version(wanted) or _SINCE) < _SINCE
    if older and str(head.params.get("num-cpus")) == "0":
        what = f"num-cpus of the head is 0, and NeMo RL {wanted} (job.version) reserves a CPU on every node"
        yield (*head.path, "rayStartParams", "num-cpus"), what


RULE = Problem(
    "cluster/head-without-cpu",
    target=OBJECTS,
    severity=ERROR,
    fails=Fails.PENDING,
    title="the head offers Ray no CPU, but NeMo RL before v0.7.0 reserves one on every node",
    why="the job waits forever for a CPU on the head",
    fix='write num-cpus: "1" in the rayStartParams of the head',
    source="nemo_rl/utils/venvs.py at v0.6.0",
    check=each_target(_none),
)
