"""What the namespace allows its pods: Pod Security, quotas and LimitRanges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from grpo.cluster import scheduling
from grpo.cluster.evidence import Evidence
from grpo.cluster.objects import labels_of, name_of
from grpo.cluster.scheduling import Amounts
from grpo.problems.nodes.probe import sizes_of, value_for_resource
from grpo.problems.probe import Result, failed, passed, skipped, warned
from grpo.problems.problem import probe
from postrender.manifests.apiserver import plural
from postrender.manifests.pod_security import BASELINE, ENFORCE, refused
from postrender.manifests.pods import mapping, sequence
from postrender.values.quantity import quantity

_BINDINGS: Final = "validatingadmissionpolicybindings"


@probe("pod-security", "Pod Security keeps the pods out", "namespaces")
def pod_security(evidence: Evidence) -> Iterator[Result]:
    """Judge the level that the namespace enforces against what levels below privileged forbid."""
    item = evidence.find("namespaces", evidence.expected.namespace)
    if item is None:
        return
    level = str(labels_of(item).get(ENFORCE, "privileged"))
    name = evidence.expected.namespace
    by_hand = f"kubectl get namespace {name} --show-labels"
    found = [] if level == "privileged" else list(dict.fromkeys(_refused(evidence)))
    if found:
        text = f"the namespace enforces {level}, which refuses {', '.join(found)}"
        fix = f"kubectl label namespace {name} {ENFORCE}=privileged --overwrite"
        yield failed(text, "network.mode", fix, by_hand)
    elif level == "restricted":
        text = "the namespace enforces restricted, which refuses Ray's containers, which may run as root"
        yield failed(text, "", f"kubectl label namespace {name} {ENFORCE}=baseline --overwrite", by_hand)
    else:
        yield passed(f"the namespace enforces {level}", command=by_hand)


@probe("pod-policy", "no policy limits the pods of a namespace without Pod Security", "namespaces", _BINDINGS, "nodes")
def pod_policy(evidence: Evidence) -> Iterator[Result]:
    """Judge whether the network layer's policy exists; Autopilot nodes have their own policy."""
    item = evidence.find("namespaces", evidence.expected.namespace)
    is_autopilot = any(name_of(each).startswith("gk3-") for each in evidence.of("nodes"))
    if item is None or is_autopilot or labels_of(item).get(ENFORCE, "privileged") != "privileged":
        return
    bound = [name_of(each) for each in evidence.of(_BINDINGS) if _binds(each, labels_of(item))]
    name = evidence.expected.namespace
    command = f"kubectl get {_BINDINGS} -o wide"
    if bound:
        yield passed(f"policy {bound[0]} limits the pods of the namespace", command=command)
        return
    text = f"whoever may create pods in {name} can be root on its nodes: nothing refuses privileged pods there"
    if any(_refused(evidence)):
        fix = "where others may, set network.podPolicy.enabled, and label the namespace as the notes of network say"
    else:
        fix = f"kubectl label namespace {name} {ENFORCE}=baseline --overwrite"
    yield warned(text, "network.podPolicy.enabled", fix, command)


def _binds(binding: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    """Return whether a binding of one of our policies rejects pods in a namespace with these labels."""
    spec = mapping(binding.get("spec"))
    selector = mapping(mapping(spec.get("matchResources")).get("namespaceSelector"))
    wanted = mapping(selector.get("matchLabels"))
    is_ours = str(spec.get("policyName", "")).startswith("grpo-pods-") and "Deny" in sequence(
        spec.get("validationActions")
    )
    return is_ours and bool(wanted) and all(labels.get(key) == value for key, value in wanted.items())


def _refused(evidence: Evidence) -> Iterator[str]:
    """Yield what the baseline level forbids in the pods."""
    for _, pod in evidence.expected.roles():
        yield from (what for _, what in refused(pod.spec, BASELINE))


def _containers(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [mapping(each) for each in (*sequence(spec.get("containers")), *sequence(spec.get("initContainers")))]


@probe("quota", "the quota has no room for the stack", "resourcequotas", "pods")
def quota(evidence: Evidence) -> Iterator[Result]:
    """Judge what each ResourceQuota has left; this stack's existing objects are part of what is used."""
    wanted: Amounts = {}
    for _, pod in evidence.expected.roles():
        _add(wanted, pod.spec, pod.count or 0)
    mine: Amounts = {}
    for each in evidence.of("pods"):
        _add(mine, mapping(each.get("spec")), 1)
    _count(wanted, mine, evidence)
    for item in evidence.of("resourcequotas"):
        yield _quota(item, wanted, mine, evidence.expected.namespace)


def _add(total: Amounts, spec: Mapping[str, Any], count: int) -> None:
    """Add the pods' requests and limits, under the names that a quota uses for them."""
    for name, amount in scheduling.requests(spec).items():
        for key in (name, f"requests.{name}") if name != "pods" else (name, "count/pods"):
            total[key] = total.get(key, 0.0) + amount * count
    for container in map(mapping, sequence(spec.get("containers"))):
        for name, text in mapping(mapping(container.get("resources")).get("limits")).items():
            total[f"limits.{name}"] = total.get(f"limits.{name}", 0.0) + (quantity(text) or 0.0) * count


def _count(wanted: Amounts, mine: Amounts, evidence: Evidence) -> None:
    """Count the objects of those kinds for which the evidence says whether they exist."""
    for objects in evidence.expected.objects.values():
        for item in objects:
            kinds, group = plural(str(item.get("kind", ""))), str(item.get("apiVersion")).rpartition("/")[0]
            notes = mapping(mapping(item.get("metadata")).get("annotations"))
            # The pods of hooks come and go.
            if kinds not in evidence.objects or "helm.sh/hook" in notes:
                continue
            for key in (f"count/{kinds}.{group}",) if group else (kinds, f"count/{kinds}"):
                wanted[key] = wanted.get(key, 0.0) + 1
                mine[key] = mine.get(key, 0.0) + (evidence.find(kinds, name_of(item)) is not None)


def _quota(item: dict[str, Any], wanted: Amounts, mine: Amounts, where: str) -> Result:
    status, spec = mapping(item.get("status")), mapping(item.get("spec"))
    name = name_of(item)
    command = f"kubectl describe resourcequota {name} -n {where}"
    if spec.get("scopes") or spec.get("scopeSelector"):
        return skipped(f"quota {name} counts only some pods, by its scopes", command=command)
    hard, used = mapping(status.get("hard")), mapping(status.get("used"))
    short = []
    for key, limit in hard.items():
        left = (quantity(limit) or 0.0) - (quantity(used.get(key)) or 0.0) + mine.get(key, 0.0)
        if wanted.get(key, 0.0) > left:
            unit = key.removeprefix("requests.").removeprefix("limits.")
            short.append(f"{key}: {scheduling.offer(unit, wanted[key])} wanted, {scheduling.offer(unit, left)} left")
    if short:
        text, value = f"quota {name} is too small: {'; '.join(short)}", "ray.workers.replicas"
        return failed(text, value, f"ask its administrator to raise it, or lower {value}", command)
    return passed(f"quota {name} has room", command=command)


@probe("limit-range", "the limits of the namespace keep the pods out", "limitranges")
def limit_range(evidence: Evidence) -> Iterator[Result]:
    """Judge the sizes of the pods and their containers against each LimitRange."""
    for item in evidence.of("limitranges"):
        name = name_of(item)
        command = f"kubectl describe limitrange {name} -n {evidence.expected.namespace}"
        wrong = [
            each
            for limit in map(mapping, sequence(mapping(item.get("spec")).get("limits")))
            for each in dict.fromkeys(_outside(limit, evidence))
        ]
        for text, value in wrong:
            yield failed(
                f"LimitRange {name}: {text}", value, "change the LimitRange, or request an amount within it", command
            )
        if not wrong:
            yield passed(f"LimitRange {name} lets the pods in", command=command)


def _outside(limit: dict[str, Any], evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Yield what is above or below one limit, with the value behind it."""
    for what, sizes, requests, limits in _sizes(str(limit.get("type")), evidence):
        for name, bound in mapping(limit.get("max")).items():
            if (asked := limits.get(name, requests.get(name, 0.0))) > (quantity(bound) or 0.0):
                text = f"{what} has {scheduling.offer(name, asked)}, at most {bound} is allowed"
                yield text, value_for_resource(sizes, name)
        for name, bound in mapping(limit.get("min")).items():
            if (asked := requests.get(name, 0.0)) < (quantity(bound) or 0.0):
                text = f"{what} asks for {scheduling.offer(name, asked)}, at least {bound}"
                yield text, value_for_resource(sizes, name)


def _sizes(kind: str, evidence: Evidence) -> Iterator[tuple[str, str, Amounts, Amounts]]:
    """Yield each thing that one type of limit applies to: what it is, the section with its sizes, requests, limits."""
    for role, pod in evidence.expected.roles():
        sizes = sizes_of(role, pod)
        if kind == "Pod":
            yield f"the pod {role}", sizes, _sum(pod.spec, "requests"), _sum(pod.spec, "limits")
        for container in _containers(pod.spec) if kind == "Container" else ():
            what = f"container {container.get('name')} of {role}"
            yield what, sizes, _amounts(container, "requests"), _amounts(container, "limits")


def _sum(spec: Mapping[str, Any], which: str) -> Amounts:
    total: Amounts = {}
    for container in map(mapping, sequence(spec.get("containers"))):
        for name, amount in _amounts(container, which).items():
            total[name] = total.get(name, 0.0) + amount
    return total


def _amounts(item: dict[str, Any], which: str) -> Amounts:
    return {name: quantity(text) or 0.0 for name, text in mapping(mapping(item.get("resources")).get(which)).items()}
