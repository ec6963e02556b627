"""The KubeRay operator and the kinds of objects that the stack installs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from postrender.live.doctor.check import Result, check, failed, passed, skipped
from postrender.live.evidence import Evidence, name_of
from postrender.manifests.pods import mapping, sequence

# What brings the kinds of a group.
_BRINGS: Final = {
    "ray.io": "install the KubeRay operator with its CRDs",
    "networking.gke.io": "make the GKE cluster with --enable-multi-networking; on another platform set network.mode",
    "resource.k8s.io": "use Kubernetes 1.34 or newer, or another network.mode",
    "resource.nvidia.com": "install NVIDIA's DRA driver",
    "monitoring.coreos.com": "install the Prometheus operator, or switch the PodMonitor off",
    "monitoring.googleapis.com": "enable GKE's managed Prometheus, or switch the PodMonitoring off",
}
_OPERATOR: Final = "kubectl get deployments -A -l app.kubernetes.io/name=kuberay-operator"
_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)\.\d+")
# charts/raycluster: what the charts render for older operators is refused or dropped.
_OLDEST: Final = (1, 5)


@check("kinds", "the API server knows every kind that the charts install", "apis")
def kinds(evidence: Evidence) -> Iterator[Result]:
    """Judge the groups and versions of the rendered objects."""
    served = {
        str(mapping(version).get("groupVersion"))
        for answer in evidence.of("apis")
        for group in sequence(answer.get("groups"))
        for version in sequence(mapping(group).get("versions"))
    }
    wanted: dict[str, set[str]] = {}
    for objects in evidence.expected.objects.values():
        for item in objects:
            if "/" in str(item.get("apiVersion")):
                wanted.setdefault(str(item["apiVersion"]), set()).add(str(item.get("kind")))
    if not served:
        yield skipped("the API server lists no groups", command="kubectl api-versions")
        return
    for version, names in sorted(wanted.items()):
        text = f"{version} ({', '.join(sorted(names))})"
        if version in served:
            yield passed(f"{text} is served", command="kubectl api-versions")
        else:
            yield failed(
                f"{text} is not served",
                fix=_BRINGS.get(version.partition("/")[0], "install what brings it, or use a newer Kubernetes"),
                command="kubectl api-versions",
            )


@check("operator", "one KubeRay operator runs", "deployments")
def operator(evidence: Evidence) -> Iterator[Result]:
    """Judge the Deployments with the operator's label: exactly one, available, and not too old."""
    found = evidence.of("deployments")
    if not found:
        yield failed(
            "no Deployment has the label app.kubernetes.io/name=kuberay-operator",
            fix="install KubeRay's chart kuberay-operator; GKE's Ray add-on runs it where kubectl does not see it",
            command=_OPERATOR,
        )
        return
    places = [f"{mapping(each.get('metadata')).get('namespace')}/{name_of(each)}" for each in found]
    if len(found) > 1:
        yield failed(
            f"{len(found)} operators run ({', '.join(places)}): both may manage the same cluster",
            fix="uninstall one, or give each the namespaces that it watches (watchNamespace)",
            command=_OPERATOR,
        )
    for each, place in zip(found, places, strict=True):
        yield from _one(each, place)


def _one(deployment: dict[str, object], place: str) -> Iterator[Result]:
    template = mapping(mapping(mapping(deployment.get("spec")).get("template")).get("spec"))
    image = next((str(mapping(each).get("image")) for each in sequence(template.get("containers"))), "")
    version = _VERSION.search(image.rpartition(":")[2])
    if not mapping(deployment.get("status")).get("availableReplicas"):
        yield failed(
            f"{place} has no available pod",
            fix="look at its pods and their log",
            command=f"kubectl describe deployment -n {place.replace('/', ' ')}",
        )
    elif version and (int(version[1]), int(version[2])) < _OLDEST:
        yield failed(
            f"{place} is version {version[0]}, older than {'.'.join(map(str, _OLDEST))}",
            fix="upgrade the operator and its CRDs",
            command=_OPERATOR,
        )
    else:
        yield passed(f"{place} is available, version {version[0] if version else 'unknown'}", command=_OPERATOR)
