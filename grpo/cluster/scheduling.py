"""Explain why no node can take a pod, by comparing its selector, tolerations and resources with every node.

The rules are the scheduler's: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/ and
.../taint-and-toleration/.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from grpo.cluster.evidence import Evidence
from grpo.cluster.objects import is_ready, labels_of, name_of
from postrender.manifests.pods import GPU, mapping, sequence
from postrender.values.quantity import quantity

_REFUSE: Final = ("NoSchedule", "NoExecute")
# Resources that every pod asks for; the others are what a user rents the machine for.
_ORDINARY: Final = ("cpu", "memory", "ephemeral-storage")

# How the reasons begin for which a node does not take a pod. They follow a number of nodes, which may be one.
NO_LABEL: Final = "without the label"
NO_MATCH: Final = "not matching the affinity"
NOT_READY: Final = "not ready"
TAINT: Final = "with the taint"
TOO_SMALL: Final = "offering only"
IN_USE: Final = "with only"

Amounts = dict[str, float]


def requests(spec: Mapping[str, Any]) -> Amounts:
    """Return a pod's requests: the sum over its containers and over the init containers that keep running."""
    total: Amounts = {"pods": 1.0}
    kept = [each for each in sequence(spec.get("initContainers")) if mapping(each).get("restartPolicy") == "Always"]
    for container in map(mapping, (*sequence(spec.get("containers")), *kept)):
        resources = mapping(container.get("resources"))
        # A limit without a request is also the request.
        for name, amount in (mapping(resources.get("limits")) | mapping(resources.get("requests"))).items():
            total[name] = total.get(name, 0.0) + (quantity(amount) or 0.0)
    return {name: amount for name, amount in total.items() if amount}


def needs(spec: Mapping[str, Any]) -> str:
    """Return a description of what a pod needs from its node."""
    asked = {name: amount for name, amount in requests(spec).items() if name != "pods"}
    special = [f"{amount:g} {name}" for name, amount in sorted(asked.items()) if name not in _ORDINARY]
    plain = [_amount(name, asked[name]) for name in _ORDINARY if name in asked]
    labels = [f"{key}={value}" for key, value in sorted(mapping(spec.get("nodeSelector")).items())]
    where = f", on a node with {' and '.join(labels)}" if labels else ""
    return ", ".join((*special, *plain)) + where


def _amount(name: str, amount: float) -> str:
    return f"{amount:g} {name}" if name == "cpu" else f"{amount / 2**30:.0f}Gi {name}"


@dataclass(frozen=True)
class Node:
    """A node, and the total requests of its pods."""

    item: dict[str, Any]
    used: Amounts


def nodes(evidence: Evidence, pods: Iterable[dict[str, Any]] | None = None) -> list[Node]:
    """Return the nodes with what these pods use; by default, the pods of all namespaces.

    If the pods could not be read, every node is treated as empty.
    """
    used: dict[str, Amounts] = {}
    for pod in evidence.of("allPods") if pods is None else pods:
        spec = mapping(pod.get("spec"))
        if isinstance(node := spec.get("nodeName"), str) and node:
            on_node = used.setdefault(node, {})
            for name, amount in requests(spec).items():
                on_node[name] = on_node.get(name, 0.0) + amount
    return [Node(item, used.get(name_of(item), {})) for item in evidence.of("nodes")]


def obstacles(spec: Mapping[str, Any], among: Iterable[Node]) -> list[tuple[str, list[str]]]:
    """Return what keeps the nodes from taking a pod, most frequent obstacle first, each with its nodes' names.

    Each node is counted once, for its first obstacle.
    """
    found: dict[str, list[str]] = {}
    asked = requests(spec)
    for node in among:
        if reason := _obstacle(spec, asked, node.item, node.used):
            found.setdefault(reason, []).append(name_of(node.item))
    return sorted(found.items(), key=lambda each: -len(each[1]))


def counted(found: Sequence[tuple[str, list[str]]], total: int) -> str:
    """Return how many of the nodes each obstacle keeps from taking a pod; empty if there is no obstacle."""
    if not total:
        return "The cluster has no node"
    reasons = "; ".join(f"{len(names)} {reason}" for reason, names in found)
    return f"Of {total} {'node' if total == 1 else 'nodes'}: {reasons}" if reasons else ""


def _obstacle(spec: Mapping[str, Any], asked: Amounts, node: dict[str, Any], used: Amounts) -> str:
    """Return the first reason why a node cannot take the pod, or an empty text."""
    if missing := _missing_label(spec, labels_of(node)):
        return missing
    if not is_ready(node):
        return NOT_READY
    for taint in map(mapping, sequence(mapping(node.get("spec")).get("taints"))):
        if taint.get("effect") in _REFUSE and not _tolerated(taint, sequence(spec.get("tolerations"))):
            value = f"={taint['value']}" if taint.get("value") else ""
            return f"{TAINT} {taint.get('key')}{value}:{taint.get('effect')}, which the pod does not tolerate"
    return _too_small(asked, mapping(mapping(node.get("status")).get("allocatable")), used)


def _missing_label(spec: Mapping[str, Any], labels: Mapping[str, Any]) -> str:
    for key, value in mapping(spec.get("nodeSelector")).items():
        if labels.get(key) != value:
            return f"{NO_LABEL} {key}={value}" + (f" (it is {labels[key]})" if key in labels else "")
    node = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    required = mapping(node.get("requiredDuringSchedulingIgnoredDuringExecution"))
    terms = [mapping(each) for each in sequence(required.get("nodeSelectorTerms"))]
    missing = [unmet(sequence(term.get("matchExpressions")), labels) for term in terms]
    return missing[0] if missing and all(missing) else ""


def unmet(expressions: Iterable[Any], labels: Mapping[str, Any]) -> str:
    """Return the first expression of a term or a selector that the labels do not satisfy."""
    for each in map(mapping, expressions):
        key, operator, values = str(each.get("key")), each.get("operator"), sequence(each.get("values"))
        value = labels.get(key)
        met = {
            "In": value in values,
            "NotIn": value not in values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
            "Gt": _number(value) > _number(next(iter(values), None)),
            "Lt": _number(value) < _number(next(iter(values), None)),
        }
        if not met.get(str(operator), True):
            listed = f" {', '.join(map(str, values))}" if values else ""
            return f"{NO_MATCH} {key} {operator}{listed}"
    return ""


def _number(value: object) -> float:
    """Return a label as a number, or NaN, which compares false with everything, if it is not a number."""
    try:
        return float(str(value))
    except ValueError:
        return float("nan")


def _tolerated(taint: Mapping[str, Any], tolerations: Iterable[Any]) -> bool:
    for each in map(mapping, tolerations):
        same_key = not each.get("key") or each.get("key") == taint.get("key")
        same_value = each.get("operator") == "Exists" or (each.get("value") or "") == (taint.get("value") or "")
        if same_key and same_value and each.get("effect") in (None, "", taint.get("effect")):
            return True
    return False


def _too_small(asked: Amounts, allocatable: Mapping[str, Any], used: Amounts) -> str:
    """Return the resource that is short; devices that are rented are checked before memory and CPUs."""
    for name in sorted(asked, key=lambda each: (each in (*_ORDINARY, "pods"), each != GPU, each)):
        offered = quantity(allocatable.get(name)) or 0.0
        if offered < asked[name]:
            return f"{TOO_SMALL} {offer(name, offered)}"
        left = offered - used.get(name, 0.0)
        if left < asked[name]:
            return f"{IN_USE} {offer(name, left).partition(' ')[0]} of {offer(name, offered)} left"
    return ""


def offer(name: str, amount: float) -> str:
    """Format an amount of a resource."""
    return _amount(name, amount) if name in _ORDINARY else f"{amount:g} {name}"
