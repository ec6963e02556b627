"""Say what a RayJob of the cluster asks for, where no values files do."""

from __future__ import annotations

from typing import Any, Final

from grpo.cluster.expected import Expected
from grpo.cluster.objects import cluster_of, labels_of
from grpo.helm import kubectl
from grpo.live.client import Cluster, RefusedError
from grpo.manifests import entrypoint
from postrender import masking
from postrender.errors import ClusterError
from postrender.manifests.pods import mapping

_RELEASE: Final = "meta.helm.sh/release-name"


def expected(cluster: Cluster, name: str) -> Expected:
    """Return a RayJob and its RayCluster as they stand in the cluster, in place of what charts would render.

    Raises InputError if there is no such RayJob, and ClusterError if it cannot be read.
    """
    where = f"/apis/ray.io/v1/namespaces/{cluster.namespace}"
    try:
        job = mapping(cluster.get(f"{where}/rayjobs/{name}"))
    except RefusedError as error:
        if error.is_unknown:
            raise kubectl.no_rayjob(name, cluster.namespace) from error
        said = masking.text(str(error))
        raise ClusterError(f"the RayJob {name} cannot be read: {said}", fix="kubectl get rayjobs must work") from error
    objects = {"raycluster": _cluster_of(cluster, where, job), "grpo-job": [job]}
    # A job that brings its own cluster has all of it in itself.
    objects = {layer: items for layer, items in objects.items() if items}
    releases = {layer: _release(items[0]) or layer for layer, items in objects.items()}
    stack = str(labels_of(job).get("app.kubernetes.io/part-of", ""))
    directory = str(entrypoint.plan(job).get("runDirectory", ""))
    kept = {layer: [mapping(masking.clean(each)) for each in items] for layer, items in objects.items()}
    return Expected(stack, cluster.namespace, releases, kept, directory)


def _cluster_of(cluster: Cluster, where: str, job: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the RayCluster on which a job runs, unless it is its own; nothing if it is not there."""
    own = cluster_of(job)
    if not own or mapping(mapping(job.get("spec")).get("rayClusterSpec")):
        return []
    try:
        return [mapping(cluster.get(f"{where}/rayclusters/{own}"))]
    except RefusedError:
        return []


def _release(item: dict[str, Any]) -> str:
    return str(mapping(mapping(item.get("metadata")).get("annotations")).get(_RELEASE, ""))
