"""Kueue: the queue that the values name, its flavors, its quota and its topology."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from grpo.cluster import scheduling
from grpo.cluster.evidence import Evidence
from grpo.cluster.objects import conditions, labels_of, name_of
from grpo.cluster.scheduling import Amounts
from grpo.problems.kubernetes import probe_references as references
from grpo.problems.probe import Result, failed, passed
from grpo.problems.problem import probe
from postrender.manifests.pods import mapping, sequence
from postrender.values.quantity import quantity

_TOPOLOGY: Final = ("kueue.x-k8s.io/podset-required-topology", "kueue.x-k8s.io/podset-preferred-topology")
_VALUE: Final = "ray.kueue.queue"

Group = dict[str, Any]


@probe(
    "queue",
    "Kueue's queue is missing, closed, or too small",
    *("localqueues", "clusterqueues", "namespaces", "deployments"),
)
def queue(evidence: Evidence) -> Iterator[Result]:
    """Judge the LocalQueue that the rendered objects name, and its ClusterQueue."""
    for name in _names(evidence):
        by_hand = f"kubectl describe localqueue {name} -n {evidence.expected.namespace}"
        local = evidence.find("localqueues", name)
        if local is None:
            yield failed(f"there is no LocalQueue {name}", _VALUE, "create it, or name another one", by_hand)
            continue
        above = _above(local)
        cluster = evidence.find("clusterqueues", above)
        if cluster is None:
            text = f"LocalQueue {name} leads to the ClusterQueue {above}, which does not exist"
            yield failed(text, _VALUE, "create it, or name another LocalQueue", by_hand)
            continue
        wrong = [*_controller(evidence), *_closed(local, cluster, evidence), *_too_small(cluster, evidence)]
        yield from (failed(text, _VALUE, fix, by_hand) for text, fix in wrong)
        if not wrong:
            yield passed(f"LocalQueue {name} leads to ClusterQueue {above}", _VALUE, by_hand)


def _names(evidence: Evidence) -> list[str]:
    return [each.name for each in evidence.expected.needs("LocalQueue")]


def _above(local: dict[str, Any]) -> str:
    return str(mapping(local.get("spec")).get("clusterQueue"))


def _controller(evidence: Evidence) -> Iterator[tuple[str, str]]:
    for each in evidence.of("deployments"):
        is_kueue = labels_of(each).get("app.kubernetes.io/name") == "kueue"
        if is_kueue and not mapping(each.get("status")).get("availableReplicas"):
            yield f"Kueue's {name_of(each)} has no available pod", "look at its pods and their log"


def _closed(local: dict[str, Any], cluster: dict[str, Any], evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Yield why a queue admits nothing: it is stopped, not active, or not open to this namespace."""
    for kind, item in (("LocalQueue", local), ("ClusterQueue", cluster)):
        spec, name = mapping(item.get("spec")), name_of(item)
        active = conditions(item).get("Active", {})
        if str(spec.get("stopPolicy", "None")) != "None":
            yield f"{kind} {name} is stopped ({spec['stopPolicy']})", "its administrator sets stopPolicy to None"
        elif active.get("status") == "False" and kind == "ClusterQueue":
            yield f"ClusterQueue {name} is not active: {active.get('message')}", "correct what the message names"
    namespace = evidence.find("namespaces", evidence.expected.namespace)
    selector = mapping(cluster.get("spec")).get("namespaceSelector")
    if namespace is not None and not _selects(selector, labels_of(namespace)):
        text = f"the namespaceSelector of ClusterQueue {name_of(cluster)} leaves out {evidence.expected.namespace}"
        yield text, "give the namespace the labels that it asks for, or change it"


def _selects(selector: object, labels: dict[str, Any]) -> bool:
    """Return whether a selector matches these labels; a missing selector matches nothing, an empty one everything."""
    if not isinstance(selector, dict):
        return False
    equal = mapping(selector.get("matchLabels")).items() <= labels.items()
    return equal and not scheduling.unmet(sequence(selector.get("matchExpressions")), labels)


def _too_small(cluster: dict[str, Any], evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Yield the resources that a queue does not cover or has too little of."""
    groups = [mapping(each) for each in sequence(mapping(cluster.get("spec")).get("resourceGroups"))]
    covered = {str(name) for group in groups for name in sequence(group.get("coveredResources"))}
    nominal = _nominal(groups)
    spec = mapping(cluster.get("spec"))
    borrows = bool(spec.get("cohortName") or spec.get("cohort"))
    for name, amount in sorted(_wanted(evidence).items()):
        if name not in covered and name != "pods":
            yield (
                f"ClusterQueue {name_of(cluster)} does not cover {name}, which the pods ask for",
                "add it to the queue",
            )
        elif name in covered and nominal.get(name, 0.0) < amount and not borrows:
            text = f"{scheduling.offer(name, amount)} wanted, {scheduling.offer(name, nominal.get(name, 0.0))} at most"
            yield f"ClusterQueue {name_of(cluster)} is too small: {text}", "raise its nominalQuota, or ask for less"


def _wanted(evidence: Evidence) -> Amounts:
    total: Amounts = {}
    for _, pod in evidence.expected.roles():
        for name, amount in scheduling.requests(pod.spec).items():
            total[name] = total.get(name, 0.0) + amount * (pod.count or 0)
    return total


def _nominal(groups: list[Group]) -> Amounts:
    total: Amounts = {}
    for group in groups:
        for flavor in map(mapping, sequence(group.get("flavors"))):
            for each in map(mapping, sequence(flavor.get("resources"))):
                name = str(each.get("name"))
                total[name] = total.get(name, 0.0) + (quantity(each.get("nominalQuota")) or 0.0)
    return total


@probe(
    "flavors",
    "a flavor of Kueue's queue is missing, or has no nodes",
    *("localqueues", "clusterqueues", "resourceflavors", "topologies", "nodes"),
)
def flavors(evidence: Evidence) -> Iterator[Result]:
    """Judge the flavors of the values' queue, and the topology level that the values request."""
    for queue_name in _names(evidence):
        local = evidence.find("localqueues", queue_name)
        cluster = evidence.find("clusterqueues", _above(local)) if local else None
        groups = map(mapping, sequence(mapping((cluster or {}).get("spec")).get("resourceGroups")))
        names = {str(mapping(each).get("name")) for group in groups for each in sequence(group.get("flavors"))}
        for name in sorted(names):
            by_hand = f"kubectl describe resourceflavor {name}"
            if said := _flavor(name, evidence):
                yield failed(
                    f"ResourceFlavor {name} {said}", _VALUE, "correct the flavor, or create the nodes", by_hand
                )
            else:
                yield passed(f"ResourceFlavor {name} has nodes", _VALUE, by_hand)
        yield from _levels(names, evidence) if names else ()


def _flavor(name: str, evidence: Evidence) -> str:
    item = evidence.find("resourceflavors", name)
    if item is None:
        return "does not exist"
    spec = mapping(item.get("spec"))
    labels = mapping(spec.get("nodeLabels"))
    if not any(labels.items() <= labels_of(node).items() for node in evidence.of("nodes")):
        return f"has no node with {', '.join(f'{key}={value}' for key, value in labels.items()) or 'any label'}"
    topology = spec.get("topologyName")
    if topology and evidence.find("topologies", str(topology)) is None:
        return f"names the Topology {topology}, which does not exist"
    return ""


def _levels(flavor_names: set[str], evidence: Evidence) -> Iterator[Result]:
    """Judge the levels that the pods request: a topology of one of the flavors must have them."""
    found = [evidence.find("resourceflavors", name) or {} for name in flavor_names]
    topologies = [str(mapping(each.get("spec")).get("topologyName")) for each in found]
    known = {
        str(mapping(level).get("nodeLabel"))
        for name in topologies
        for level in sequence(mapping((evidence.find("topologies", name) or {}).get("spec")).get("levels"))
    }
    for _, pod in evidence.expected.roles():
        notes = mapping(mapping(pod.template.get("metadata")).get("annotations"))
        for key in _TOPOLOGY:
            if (level := notes.get(key)) and level not in known:
                value = f"ray.kueue.topology.{'required' if 'required' in key else 'preferred'}"
                text, fix = _unknown_level(str(level), known)
                yield failed(text, value, fix, "kubectl get topologies -o yaml")


def _unknown_level(level: str, known: set[str]) -> tuple[str, str]:
    """Return what is wrong with a level that no topology has, and how to fix it."""
    if not known:
        text = f"no flavor of the queue has a Topology, and the pods ask for its level {level}"
        return text, "use a queue whose flavor has a Topology, or leave the level out"
    text = f"no Topology of the queue's flavors has the level {level}, only {', '.join(sorted(known))}"
    return text, "name one of these levels"


@probe("queue-priority", "Kueue's priority class is missing", "workloadpriorityclasses")
def queue_priority(evidence: Evidence) -> Iterator[Result]:
    """Judge the WorkloadPriorityClass that the values name."""
    needs = evidence.expected.needs("WorkloadPriorityClass")
    yield from references.there(evidence, needs, "WorkloadPriorityClass", "ray.kueue.priorityClass")
