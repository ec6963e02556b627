"""What is deleted after a RayJob has ended."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

from grpo.problems.ray.rayspec import EVENT_ONLY, VALIDATION, Job, each_job, number
from postrender.finding import ERROR
from postrender.manifests.pods import mapping, sequence
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.problems.ray.rayspec import Found
    from postrender.manifests.pods import Path

_AT: Final = ("spec", "deletionStrategy")
_OLD: Final = ("onSuccess", "onFailure")
# In the order in which they may happen.
_ORDER: Final = ("DeleteWorkers", "DeleteCluster", "DeleteSelf")


def _strategy(job: Job) -> dict[str, Any] | None:
    strategy = job.spec.get("deletionStrategy")
    return strategy if isinstance(strategy, dict) else None


def _rules(job: Job) -> Iterator[tuple[Path, dict[str, Any], dict[str, Any]]]:
    """Yield each deletion rule's path, the rule and its condition."""
    for number_, rule in enumerate(map(mapping, sequence((_strategy(job) or {}).get("deletionRules")))):
        yield (*_AT, "deletionRules", number_), rule, mapping(rule.get("condition"))


def _policies(job: Job) -> Iterator[tuple[Path, str]]:
    """Yield the deletion policies, from the old fields and from the rules, with their paths."""
    strategy = _strategy(job) or {}
    for name in _OLD:
        if isinstance(strategy.get(name), dict):
            yield (*_AT, name, "policy"), str(strategy[name].get("policy"))
    for path, rule, _ in _rules(job):
        yield (*path, "policy"), str(rule.get("policy"))


def _shape(job: Job) -> Found:
    strategy = _strategy(job)
    if strategy is None:
        return
    old = [name for name in _OLD if strategy.get(name) is not None]
    if old and strategy.get("deletionRules") is not None:
        yield _AT, f"deletionRules are set beside {' and '.join(old)}"
    elif not old and not sequence(strategy.get("deletionRules")):
        yield _AT, "deletionStrategy has no deletionRules"
    elif len(old) == 1:
        yield _AT, f"{old[0]} is set without {_OLD[1 - _OLD.index(old[0])]}"
    for name in old:
        if mapping(strategy[name]).get("policy") is None:
            yield (*_AT, name), f"{name} has no policy"


def _shutdown(job: Job) -> Found:
    if job.shuts_down and sequence((_strategy(job) or {}).get("deletionRules")):
        yield (*_AT, "deletionRules"), "there are deletionRules, and shutdownAfterJobFinishes is true"
    elif job.shuts_down:
        for path, policy in _policies(job):
            if policy == "DeleteNone":
                yield path, "nothing is to be deleted, and shutdownAfterJobFinishes is true"


def _conditions(job: Job) -> Found:
    for path, rule, condition in _rules(job):
        given = [name for name in ("jobStatus", "jobDeploymentStatus") if condition.get(name) is not None]
        if len(given) != 1:
            reason = "two conditions, jobStatus and jobDeploymentStatus" if given else "no condition"
            yield (*path, "condition"), f"the rule for {rule.get('policy')} has {reason}"
        seconds = number(condition.get("ttlSeconds"))
        if seconds is not None and seconds < 0:
            yield (*path, "condition", "ttlSeconds"), f"ttlSeconds is {seconds}"


def _allowed(job: Job) -> Iterator[tuple[Path, str, str, int]]:
    """Yield path, policy, condition and seconds of each rule that has exactly one condition."""
    for path, rule, condition in _rules(job):
        given = [f"{name} {condition[name]}" for name in condition if name != "ttlSeconds"]
        seconds = condition.get("ttlSeconds")
        after = 0 if seconds is None else number(seconds)
        if len(given) == 1 and after is not None and after >= 0:
            yield path, str(rule.get("policy")), given[0], after


def _twice(job: Job) -> Found:
    seen = set()
    for path, policy, condition, _ in _allowed(job):
        if (policy, condition) in seen:
            yield path, f"two rules have {policy} for {condition}"
        seen.add((policy, condition))


def _order(job: Job) -> Found:
    first: dict[tuple[str, str], tuple[Path, int]] = {}
    for path, policy, condition, after in _allowed(job):
        first.setdefault((condition, policy), (path, after))
    for condition in sorted({each for each, _ in first}):
        steps = [(policy, *first[condition, policy]) for policy in _ORDER if (condition, policy) in first]
        for (before, _, least), (policy, path, after) in itertools.pairwise(steps):
            if after < least:
                what = f"{policy} comes after {after} seconds and {before} after {least}, for {condition}"
                yield (*path, "condition", "ttlSeconds"), what


def _not_ours(job: Job) -> Found:
    for path, policy in _policies(job):
        if job.selector and policy in ("DeleteCluster", "DeleteWorkers"):
            yield path, f"the policy is {policy}, and the cluster is one that clusterSelector names"


def _workers(job: Job) -> Found:
    for path, policy in _policies(job):
        if job.cluster and job.cluster.scales and policy == "DeleteWorkers":
            yield path, "the policy is DeleteWorkers, and enableInTreeAutoscaling is true"


RULES = (
    Problem(
        "ray/deletion-shape",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_ADMISSION,
        title="a deletionStrategy is incomplete, or mixes deletionRules with onSuccess or onFailure",
        why="the API server or the operator refuses the job, and none of its pods is created",
        fix="write only deletionRules; onSuccess and onFailure are the older form",
        source=VALIDATION,
        check=each_job(_shape),
    ),
    Problem(
        "ray/deletion-and-shutdown",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="a deletionStrategy conflicts with shutdownAfterJobFinishes",
        why=EVENT_ONLY,
        fix="remove shutdownAfterJobFinishes and ttlSecondsAfterFinished, or the strategy",
        source=VALIDATION,
        check=each_job(_shutdown),
    ),
    Problem(
        "ray/deletion-condition",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_ADMISSION,
        title="a deletion rule has no condition, two conditions, or a negative time",
        why="the API server refuses the job, after others of the same release are installed",
        fix="write jobStatus or jobDeploymentStatus, and ttlSeconds of 0 or more",
        source=VALIDATION,
        check=each_job(_conditions),
    ),
    Problem(
        "ray/deletion-rule-twice",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="two deletion rules have the same policy and condition",
        why=EVENT_ONLY,
        fix="remove one of the two",
        source=VALIDATION,
        check=each_job(_twice),
    ),
    Problem(
        "ray/deletion-order",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="the times of deletion rules are in the wrong order",
        why=EVENT_ONLY,
        fix="order the times: workers first, then the cluster, then the job itself",
        source=VALIDATION,
        check=each_job(_order),
    ),
    Problem(
        "ray/deletion-of-another-cluster",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="a RayJob deletes a cluster or workers that are not its own",
        why=EVENT_ONLY,
        fix="write DeleteSelf or DeleteNone",
        source=VALIDATION,
        check=each_job(_not_ours),
    ),
    Problem(
        "ray/deletion-of-scaled-workers",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="a RayJob deletes its workers, but the autoscaler runs",
        why=EVENT_ONLY,
        fix="set enableInTreeAutoscaling: false, or delete the cluster instead",
        source=VALIDATION,
        check=each_job(_workers),
    ),
)
