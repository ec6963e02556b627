"""Fault tolerance of Ray's control store (GCS): gcsFaultToleranceOptions rules out the older ways to configure it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.ray.rayspec import EVENT_ONLY, VALIDATION, Cluster, each_cluster
from postrender.finding import ERROR
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from grpo.problems.ray.rayspec import Found

_ENABLED: Final = "ray.io/ft-enabled"
_NAMESPACE: Final = "ray.io/external-storage-namespace"


def _has_options(cluster: Cluster) -> bool:
    return isinstance(cluster.spec.get("gcsFaultToleranceOptions"), dict)


def _twice(cluster: Cluster) -> Found:
    if _has_options(cluster) and cluster.annotations.get(_ENABLED):
        yield ("metadata", "annotations", _ENABLED), f"{_ENABLED} is set beside gcsFaultToleranceOptions"


def _implied(cluster: Cluster) -> Found:
    enabled = str(cluster.annotations.get(_ENABLED, "")).lower() == "true"
    if not enabled and not _has_options(cluster):
        for path, name, _ in cluster.head.env("RAY_REDIS_ADDRESS"):
            yield path, f"the head has {name}, and there are no gcsFaultToleranceOptions"


def _beside(cluster: Cluster) -> Found:
    if not _has_options(cluster):
        return
    head = cluster.head
    if head.params.get("redis-password"):
        yield (*head.path, "rayStartParams", "redis-password"), "redis-password stands in rayStartParams"
    for path, name, _ in head.env("REDIS_PASSWORD", "RAY_REDIS_ADDRESS"):
        yield path, f"the head has {name} beside gcsFaultToleranceOptions"
    if cluster.annotations.get(_NAMESPACE):
        yield ("metadata", "annotations", _NAMESPACE), f"{_NAMESPACE} is set beside gcsFaultToleranceOptions"


def _username(cluster: Cluster) -> Found:
    head = cluster.head
    if head.params.get("redis-username"):
        yield (*head.path, "rayStartParams", "redis-username"), "redis-username stands in rayStartParams"
    for path, name, _ in head.env("REDIS_USERNAME"):
        yield path, f"the head has {name}"


RULES = (
    Problem(
        "ray/fault-tolerance-twice",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="the fault tolerance of Ray is configured in two ways",
        why=EVENT_ONLY,
        fix="remove the annotation and keep gcsFaultToleranceOptions",
        source=VALIDATION,
        check=each_cluster(_twice),
    ),
    Problem(
        "ray/redis-address-alone",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="the head has a Redis address, but there are no gcsFaultToleranceOptions",
        why=EVENT_ONLY,
        fix="remove the variable, or write gcsFaultToleranceOptions.redisAddress instead",
        source=VALIDATION,
        check=each_cluster(_implied),
    ),
    Problem(
        "ray/redis-beside-options",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="Redis is configured both in gcsFaultToleranceOptions and outside",
        why=EVENT_ONLY,
        fix="move it into gcsFaultToleranceOptions",
        source=VALIDATION,
        check=each_cluster(_beside),
    ),
    Problem(
        "ray/redis-username",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="the user name of Redis is outside gcsFaultToleranceOptions",
        why=EVENT_ONLY,
        fix="write gcsFaultToleranceOptions.redisUsername",
        source=VALIDATION,
        check=each_cluster(_username),
    ),
)
