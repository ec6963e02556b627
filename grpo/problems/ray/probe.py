"""The KubeRay operator and the kinds of object that the stack installs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from grpo.cluster import definitions
from grpo.cluster.evidence import Evidence
from grpo.cluster.objects import labels_of, name_of
from grpo.manifests.needs.commands import BRINGS
from grpo.problems.probe import Result, failed, passed, skipped
from grpo.problems.problem import probe
from postrender.manifests.pods import mapping, sequence

# The value by which a chart renders a kind of a group.
_VALUES: Final = {
    "networking.gke.io": "network.mode",
    "resource.k8s.io": "network.mode",
    "resource.nvidia.com": "network.mode",
    "monitoring.coreos.com": "ray.metrics.scrape",
    "monitoring.googleapis.com": "ray.metrics.scrape",
}
_OPERATOR: Final = "kubectl get deployments -A -l app.kubernetes.io/name=kuberay-operator"
_NAME: Final = "app.kubernetes.io/name"
_VERSION: Final = re.compile(r"(?<!\d)v?(\d+)\.(\d+)\.\d+")
_WATCH: Final = re.compile(r"--?watch-namespace[= ](\S*)")
_FIELDS: Final = {"upgradeStrategy": "ray.upgrade", "authOptions": "ray.tokenAuth"}
_UPDATE: Final = "apply the CRDs of the operator's version with kubectl apply --server-side: Helm never updates them"
# charts/raycluster: what the charts render for older operators is refused or dropped.
_OLDEST: Final = (1, 5)


@probe("kinds", "the API server does not know a kind that the charts install", "apis")
def kinds(evidence: Evidence) -> Iterator[Result]:
    """Judge whether the API server serves the rendered objects' groups and versions."""
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
                _VALUES.get(version.partition("/")[0], ""),
                BRINGS.get(version.partition("/")[0], "install what brings it, or use a newer Kubernetes"),
                "kubectl api-versions",
            )


@probe("operator", "no KubeRay operator runs, or several do", "deployments")
def operator(evidence: Evidence) -> Iterator[Result]:
    """Judge the Deployments with the operator's label: exactly one, available, and not too old."""
    found = [each for each in evidence.of("deployments") if labels_of(each).get(_NAME) == "kuberay-operator"]
    if not found:
        yield failed(
            "no Deployment has the label app.kubernetes.io/name=kuberay-operator",
            "",
            "install KubeRay's chart kuberay-operator; GKE's Ray add-on runs it where kubectl does not see it, and "
            "needs ray.networkPolicy.clients: everyone",
            _OPERATOR,
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
        yield _one(each, place, evidence.expected.namespace)


def _one(deployment: dict[str, object], place: str, namespace: str) -> Result:
    template = mapping(mapping(mapping(deployment.get("spec")).get("template")).get("spec"))
    container = mapping(next(iter(sequence(template.get("containers"))), {}))
    version = _VERSION.search(str(container.get("image")).rpartition(":")[2])
    watched = _watched(container)
    if not mapping(deployment.get("status")).get("availableReplicas"):
        return failed(
            f"{place} has no available pod",
            fix="look at its pods and their log",
            command=f"kubectl describe deployment -n {place.replace('/', ' ')}",
        )
    if version and (int(version[1]), int(version[2])) < _OLDEST:
        return failed(
            f"{place} is version {version[0]}, older than {'.'.join(map(str, _OLDEST))}",
            fix="upgrade the operator and its CRDs",
            command=_OPERATOR,
        )
    if watched and namespace not in watched:
        return failed(
            f"{place} watches only {', '.join(watched)}, not {namespace}",
            fix="add the namespace to its value watchNamespace, or use one of these",
            command=_OPERATOR,
        )
    return passed(f"{place} is available, version {version[0] if version else 'unknown'}", command=_OPERATOR)


def _watched(container: dict[str, object]) -> list[str]:
    """Return the namespaces to which an operator's arguments limit it; an empty list means all."""
    words = [str(each) for key in ("command", "args") for each in sequence(container.get(key))]
    found = _WATCH.search(" ".join(words))
    return [each for each in found[1].split(",") if each] if found else []


@probe("definitions", "a definition of Ray's kinds lacks fields that the charts use", "definitions")
def fields(evidence: Evidence) -> Iterator[Result]:
    """Judge whether the API server would drop fields, because Helm does not upgrade an operator's CRDs."""
    for item in evidence.of("definitions"):
        kind, name = str(item.get("kind")), name_of(item)
        by_hand = f"kubectl explain {kind.lower()}.spec"
        for rendered in evidence.expected.of_kind(kind):
            version = str(rendered.get("apiVersion")).rpartition("/")[2]
            known = mapping(mapping(mapping(item.get("versions")).get(version)).get("spec"))
            unknown = definitions.unknown(rendered.get("spec"), known)
            if unknown:
                text = f"the definition {name} is too old: it does not know {', '.join(unknown)}"
                yield failed(text, _value(unknown), _UPDATE, by_hand)
            else:
                yield passed(f"the definition {name} has the fields of {kind} {name_of(rendered)}", command=by_hand)


def _value(unknown: list[str]) -> str:
    """Return the value from which the charts render the first of these fields; an empty text if none is known."""
    return next((_FIELDS[last] for path in unknown if (last := path.rpartition(".")[2]) in _FIELDS), "")
