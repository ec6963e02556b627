"""Ray's token authentication, which needs a recent version of Ray."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.ray.rayspec import EVENT_ONLY, VALIDATION, Cluster, each_cluster, version
from postrender.finding import ERROR
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from grpo.problems.ray.rayspec import Found

_TOKENS: Final = (2, 52, 0)
_KUBERNETES: Final = (2, 55, 0)


def _by_kubernetes(cluster: Cluster) -> bool:
    return cluster.option("authOptions").get("enableK8sTokenAuth") is True


def _older(cluster: Cluster, needed: tuple[int, ...]) -> str:
    """Return why the Ray version is too old; an empty text if it is not."""
    text = cluster.spec.get("rayVersion")
    found = version(text)
    least = ".".join(map(str, needed))
    if found is None:
        return f"rayVersion is {text or 'not set'}, and {least} or newer is needed"
    padded = (*found, 0, 0)[: max(len(found), len(needed))]
    return f"rayVersion is {text}, and {least} or newer is needed" if padded < needed else ""


def _version(cluster: Cluster) -> Found:
    if cluster.option("authOptions").get("mode") == "token":
        lacks = _older(cluster, _KUBERNETES if _by_kubernetes(cluster) else _TOKENS)
        if lacks:
            yield (*cluster.path, "rayVersion"), f"tokens are on: {lacks}"


def _kubernetes(cluster: Cluster) -> Found:
    options = cluster.option("authOptions")
    path = (*cluster.path, "authOptions", "enableK8sTokenAuth")
    if _by_kubernetes(cluster) and cluster.owner == "RayCluster":
        if options.get("mode") != "token":
            yield path, f"enableK8sTokenAuth is true, and mode is {options.get('mode') or 'not set'}"
        elif options.get("secretName"):
            yield path, f"enableK8sTokenAuth is true, and secretName is {options['secretName']}"


def _owned(cluster: Cluster) -> Found:
    if _by_kubernetes(cluster) and cluster.owner != "RayCluster":
        yield (*cluster.path, "authOptions", "enableK8sTokenAuth"), "enableK8sTokenAuth is true"


RULES = (
    Problem(
        "ray/token-needs-version",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="token authentication is on, but rayVersion is too old or not known",
        why=EVENT_ONLY,
        fix="write the image's version of Ray into rayVersion, or set authOptions.mode: disabled",
        source=VALIDATION,
        check=each_cluster(_version),
    ),
    Problem(
        "ray/kubernetes-tokens",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="enableK8sTokenAuth is on, but the other authOptions exclude it",
        why=EVENT_ONLY,
        fix="set authOptions.mode: token and remove secretName, or remove enableK8sTokenAuth",
        source=VALIDATION,
        check=each_cluster(_kubernetes),
    ),
    Problem(
        "ray/kubernetes-tokens-owned",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="enableK8sTokenAuth is on in the cluster of a job or a service",
        why=EVENT_ONLY,
        fix="remove enableK8sTokenAuth, or run the job on a separate RayCluster",
        source=VALIDATION,
        check=each_cluster(_owned),
    ),
)
