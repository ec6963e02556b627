"""Explain why a stack's pods are not running: not created, not scheduled, or not started."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from grpo.cluster import scheduling
from grpo.cluster.evidence import Evidence
from grpo.cluster.objects import conditions, labels_of, name_of
from grpo.live import submission, times
from postrender.manifests.pods import GPU, mapping, sequence
from postrender.values.quantity import quantity

_SHOWN: Final = 3
# What a container waits for while all is well; kubelet gives every other reason to a fault.
_NORMAL: Final = ("ContainerCreating", "PodInitializing")
# Warnings about a pod that is on its node and whose containers cannot be created yet.
START_FAILURES: Final = ("FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox", "FailedMapVolume")


@dataclass(frozen=True)
class Wait:
    """Something that a stack is waiting for: the pods or the object, and why."""

    names: tuple[str, ...]
    why: str

    def __str__(self) -> str:
        more = len(self.names) - _SHOWN
        named = ", ".join(self.names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
        return f"{named}: {self.why}"


class _Room:
    """The nodes, and why they cannot take pods; answers are kept, because a job's workers have equal requests."""

    def __init__(self, evidence: Evidence) -> None:
        self.nodes = scheduling.nodes(evidence)
        self.is_known = "nodes" in evidence.objects
        self._answers: dict[str, str] = {}

    def refusal(self, spec: dict[str, Any]) -> str:
        """Return what keeps the nodes from taking a pod; empty if nothing does, or if the nodes are unknown."""
        if not self.is_known:
            return ""
        key = json.dumps([spec.get(each) for each in ("nodeSelector", "affinity", "tolerations")])
        key += json.dumps(scheduling.requests(spec))
        if key not in self._answers:
            self._answers[key] = self._refusal(spec)
        return self._answers[key]

    def _refusal(self, spec: dict[str, Any]) -> str:
        against = scheduling.counted(scheduling.obstacles(spec, self.nodes), len(self.nodes))
        return f" {against}." if against else ""


def waits(evidence: Evidence) -> list[Wait]:
    """Return what the stack is waiting for, with pods that share a reason grouped together."""
    found: dict[str, list[str]] = {}
    for name, why in (
        *_pods(evidence),
        *_objects(evidence),
        *_submission(evidence),
        *_claims(evidence),
        *_queue(evidence),
    ):
        found.setdefault(why, []).append(name)
    return [Wait(tuple(names), why) for why, names in found.items()]


def _pods(evidence: Evidence) -> Iterator[tuple[str, str]]:
    room = _Room(evidence)
    for pod in evidence.of("pods"):
        if why := _pod(pod, evidence, room):
            yield name_of(pod), why


def _pod(pod: dict[str, Any], evidence: Evidence, room: _Room) -> str:
    phase = mapping(pod.get("status")).get("phase")
    if "deletionTimestamp" in mapping(pod.get("metadata")):
        return "is being deleted"
    if phase == "Failed":
        return _ended(pod)
    scheduled = conditions(pod).get("PodScheduled", {})
    if phase == "Pending" and scheduled.get("status") != "True":
        return _unscheduled(pod, scheduled, room)
    return _container(pod) or (_mount(pod, evidence) if phase == "Pending" else "")


def _ended(pod: dict[str, Any]) -> str:
    status = mapping(pod.get("status"))
    said = ": ".join(str(status[key]) for key in ("reason", "message") if status.get(key))
    return f"has failed: {said or _container(pod) or 'its status has no reason'}"


def _unscheduled(pod: dict[str, Any], scheduled: dict[str, Any], room: _Room) -> str:
    spec = mapping(pod.get("spec"))
    if gates := [str(mapping(each).get("name")) for each in sequence(spec.get("schedulingGates"))]:
        return f"is held back by the scheduling gate {', '.join(gates)}"
    message = scheduled.get("message")
    said = f"The scheduler says: {message}" if message else "The scheduler has not processed it yet"
    return f"is Pending, it needs {scheduling.needs(spec)}.{room.refusal(spec)} {said}"


def _container(pod: dict[str, Any]) -> str:
    """Return why a container is not running, taking the first such container in start order."""
    status = mapping(pod.get("status"))
    for kind, what in (("initContainerStatuses", "init container"), ("containerStatuses", "container")):
        for each in map(mapping, sequence(status.get(kind))):
            state, last = mapping(each.get("state")), mapping(mapping(each.get("lastState")).get("terminated"))
            waiting = mapping(state.get("waiting"))
            ended = mapping(state.get("terminated"))
            if waiting.get("reason") and waiting["reason"] not in _NORMAL:
                message = f": {waiting['message']}" if waiting.get("message") else ""
                return f"{what} {each.get('name')} waits, {waiting['reason']}{message}{how_ended(last)}"
            if ended and ended.get("exitCode"):
                return f"{what} {each.get('name')} has ended{how_ended(ended)}"
    return ""


def how_ended(terminated: dict[str, Any]) -> str:
    """Return how a container ended, phrased to close a sentence; empty if it has not ended."""
    if not terminated:
        return ""
    message = f", {str(terminated['message']).strip()}" if terminated.get("message") else ""
    return f"; exit code {terminated.get('exitCode')} ({terminated.get('reason', 'no reason')}){message}"


def _mount(pod: dict[str, Any], evidence: Evidence) -> str:
    """Return the kubelet's last warning about a pod that is on its node but has no container yet."""
    for event in reversed(_events(evidence, "Pod", name_of(pod), START_FAILURES)):
        return f"is on its node and cannot start, {event.get('reason')}: {event.get('message')}"
    return ""


def _events(evidence: Evidence, kind: str, name: str, reasons: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return the warnings about an object, newest last."""
    found = [
        each
        for each in evidence.of("events")
        if (about := mapping(each.get("involvedObject"))).get("kind") == kind
        and about.get("name") == name
        and (not reasons or each.get("reason") in reasons)
    ]
    return sorted(found, key=times.last_seen)


def _objects(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Yield the Ray objects that are missing or suspended, or whose pods cannot be created."""
    expected = evidence.expected
    for kind, plural, name in (
        ("RayCluster", "rayclusters", expected.cluster),
        ("RayJob", "rayjobs", expected.job),
    ):
        item = evidence.find(plural, name)
        if not name or plural not in evidence.objects or not item:
            continue
        if mapping(item.get("spec")).get("suspend"):
            yield f"{kind} {name}", "is suspended"
        elif not mapping(item.get("status")) and not mapping(item.get("metadata")).get("deletionTimestamp"):
            yield (
                f"{kind} {name}",
                "the KubeRay operator has not processed it yet; check that it runs and watches this namespace",
            )
        # A warning stays for an hour, also when all is well again.
        for event in _events(evidence, kind, name)[-1:] if _lacks_pods(evidence) else ():
            yield f"{kind} {name}", f"{event.get('reason')}: {event.get('message')}"


def _submission(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Yield a job that should have been submitted long ago."""
    if (delay := submission.delay(evidence)) is not None:
        why = f"its job has not been submitted, although all pods have been ready for {times.span(delay)}"
        yield f"RayJob {evidence.expected.job}", f"{why}: the operator has not reached port 8265 of the head"


def _lacks_pods(evidence: Evidence) -> bool:
    """Return whether some of the Ray cluster's pods are not created yet."""
    wanted = sum(pod.count or 0 for _, pod in evidence.expected.roles())
    there = [pod for pod in evidence.of("pods") if labels_of(pod).get("ray.io/is-ray-node") == "yes"]
    return len(there) < wanted


def _claims(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Yield the stack's claims that pods cannot mount; before the storage layer is installed, none exists."""
    there = {name_of(each): each for each in evidence.of("persistentvolumeclaims")}
    wanted = [name_of(each) for each in evidence.expected.of_kind("PersistentVolumeClaim")]
    for name in wanted:
        claim = there.get(name)
        phase = mapping((claim or {}).get("status")).get("phase")
        if claim is None:
            if any(other in there for other in wanted):
                yield f"PersistentVolumeClaim {name}", "is not there"
        elif "deletionTimestamp" in mapping(claim.get("metadata")):
            yield f"PersistentVolumeClaim {name}", "is being deleted"
        elif phase != "Bound":
            said = "".join(f", {each.get('message')}" for each in _events(evidence, "PersistentVolumeClaim", name)[-1:])
            yield f"PersistentVolumeClaim {name}", f"is {phase or 'without a status'}{said}"


def _queue(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Yield what Kueue reports about this stack's waiting workloads."""
    names = {evidence.expected.cluster, evidence.expected.job}
    for workload in evidence.of("workloads"):
        owners = {
            str(mapping(each).get("name"))
            for each in sequence(mapping(workload.get("metadata")).get("ownerReferences"))
        }
        found = conditions(workload)
        if not owners & names or "True" in (found.get(each, {}).get("status") for each in ("Admitted", "Finished")):
            continue
        said = found.get("QuotaReserved") or found.get("Evicted") or {}
        queue = mapping(workload.get("spec")).get("queueName", "?")
        yield (
            f"{', '.join(sorted(owners & names))}",
            f"waits in Kueue's queue {queue}: {said.get('message', 'no reason')}",
        )


def gpus_of(pods: Sequence[dict[str, Any]]) -> int:
    """Return the total number of GPUs that pods request."""
    return sum(int(quantity(scheduling.requests(mapping(pod.get("spec"))).get(GPU, 0)) or 0) for pod in pods)


def role_of(pod: dict[str, Any]) -> str:
    """Return a Ray pod's role: head, or its worker group's name."""
    labels = labels_of(pod)
    return str(
        labels.get("ray.io/group" if labels.get("ray.io/node-type") == "worker" else "ray.io/node-type") or "other"
    )
