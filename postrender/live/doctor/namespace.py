"""What the namespace allows: quotas, Pod Security, queues, and the rights of the user."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from postrender.live import scheduling
from postrender.live.doctor.check import Result, check, failed, passed, skipped
from postrender.live.evidence import Evidence, conditions, labels_of, name_of
from postrender.manifests.pods import mapping, sequence
from postrender.values.quantity import quantity

_ENFORCE: Final = "pod-security.kubernetes.io/enforce"
_QUEUE: Final = "kueue.x-k8s.io/queue-name"


@check("namespace", "the namespace is there", "namespaces")
def namespace(evidence: Evidence) -> Iterator[Result]:
    """Judge that it exists and stays."""
    name = evidence.expected.namespace
    item = evidence.find("namespaces", name)
    if item is None:
        yield failed(f"there is no namespace {name}", fix=f"kubectl create namespace {name}")
    elif mapping(item.get("status")).get("phase") == "Terminating":
        yield failed(f"namespace {name} is being deleted", fix="wait until it is gone, and make it again")
    else:
        yield passed(f"namespace {name} is there")


@check("pod-security", "Pod Security lets the pods in", "namespaces")
def pod_security(evidence: Evidence) -> Iterator[Result]:
    """Judge the level that the namespace enforces against folders of the host, which levels below privileged refuse."""
    item = evidence.find("namespaces", evidence.expected.namespace)
    level = str(labels_of(item or {}).get(_ENFORCE, "privileged"))
    paths = {
        str(mapping(mapping(volume).get("hostPath")).get("path"))
        for _, pod in evidence.expected.roles()
        for volume in sequence(pod.spec.get("volumes"))
        if "hostPath" in mapping(volume)
    }
    if item is None:
        return
    if level != "privileged" and paths:
        yield failed(
            f"the namespace enforces {level}, which refuses the host's folders {', '.join(sorted(paths))}",
            "network.mode",
            f"kubectl label namespace {evidence.expected.namespace} {_ENFORCE}=privileged --overwrite",
            f"kubectl get namespace {evidence.expected.namespace} --show-labels",
        )
    elif level == "restricted":
        yield failed(
            "the namespace enforces restricted, which refuses Ray's containers, which may run as root",
            fix=f"kubectl label namespace {evidence.expected.namespace} {_ENFORCE}=baseline --overwrite",
        )
    else:
        yield passed(f"the namespace enforces {level}")


@check("quota", "the quota has room for the stack", "resourcequotas", "pods")
def quota(evidence: Evidence) -> Iterator[Result]:
    """Judge what each ResourceQuota has left; pods of this stack that run are part of what is used."""
    wanted: dict[str, float] = {}
    for _, pod in evidence.expected.roles():
        for name, amount in scheduling.requests(pod.spec).items():
            wanted[name] = wanted.get(name, 0.0) + amount * (pod.count or 0)
    mine: dict[str, float] = {}
    for each in evidence.of("pods"):
        for name, amount in scheduling.requests(mapping(each.get("spec"))).items():
            mine[name] = mine.get(name, 0.0) + amount
    for item in evidence.of("resourcequotas"):
        yield from _quota(item, wanted, mine, evidence.expected.namespace)


def _quota(item: dict[str, object], wanted: dict[str, float], mine: dict[str, float], where: str) -> Iterator[Result]:
    status = mapping(item.get("status"))
    hard, used = mapping(status.get("hard")), mapping(status.get("used"))
    short = []
    for key, limit in hard.items():
        name = key.removeprefix("requests.")
        left = (quantity(limit) or 0.0) - (quantity(used.get(key)) or 0.0) + mine.get(name, 0.0)
        if wanted.get(name, 0.0) > left:
            short.append(f"{key}: {scheduling.offer(name, wanted[name])} wanted, {scheduling.offer(name, left)} left")
    command = f"kubectl describe resourcequota {name_of(item)} -n {where}"
    if short:
        yield failed(
            f"quota {name_of(item)} is too small: {'; '.join(short)}", "accelerator.worker", "raise it", command
        )
    else:
        yield passed(f"quota {name_of(item)} has room", command=command)


@check("queue", "Kueue's queue is there and open", "localqueues", "clusterqueues")
def queue(evidence: Evidence) -> Iterator[Result]:
    """Judge the LocalQueue that the rendered objects name, and its ClusterQueue."""
    names = {str(labels_of(each)[_QUEUE]) for each in _ray(evidence) if _QUEUE in labels_of(each)}
    for name in sorted(names):
        local = evidence.find("localqueues", name)
        by_hand = f"kubectl describe localqueue {name} -n {evidence.expected.namespace}"
        if local is None:
            yield failed(f"there is no LocalQueue {name}", "ray.kueue.queue", "make it, or name another one", by_hand)
            continue
        above = str(mapping(local.get("spec")).get("clusterQueue"))
        cluster = evidence.find("clusterqueues", above)
        active = conditions(cluster or {}).get("Active", {})
        if cluster is None:
            yield failed(
                f"LocalQueue {name} leads to the ClusterQueue {above}, which does not exist", "ray.kueue.queue"
            )
        elif active.get("status") == "False":
            yield failed(f"ClusterQueue {above} is not active: {active.get('message')}", "ray.kueue.queue", "", by_hand)
        else:
            yield passed(f"LocalQueue {name} leads to ClusterQueue {above}", "ray.kueue.queue", by_hand)


def _ray(evidence: Evidence) -> list[dict[str, object]]:
    return [*evidence.expected.of_kind("RayCluster"), *evidence.expected.of_kind("RayJob")]


@check("rights", "you may install what the charts make", "reviews")
def rights(evidence: Evidence) -> Iterator[Result]:
    """Judge the API server's answers to what Helm will do: create each kind, and keep its records as Secrets."""
    if "reviews" not in evidence.objects:
        yield skipped("the bundle was not saved by grpo doctor, and has no answers about your rights")
    for review in evidence.of("reviews"):
        what = mapping(mapping(review.get("spec")).get("resourceAttributes"))
        group = f".{what['group']}" if what.get("group") else ""
        place = f" in {what['namespace']}" if what.get("namespace") else ""
        scope = f" -n {what['namespace']}" if what.get("namespace") else ""
        text = f"{what.get('verb')} {what.get('resource')}{group}{place}"
        command = f"kubectl auth can-i {what.get('verb')} {what.get('resource')}{group}{scope}"
        if mapping(review.get("status")).get("allowed"):
            yield passed(f"you may {text}", command=command)
        else:
            fix = "ask an administrator to install this layer or to grant it (examples/team/rbac.yaml)"
            yield failed(f"you may not {text}", "", fix, command)
