"""The cluster's evidence about a run, as lines."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Final

from grpo.cluster.evidence import Evidence
from grpo.cluster.objects import conditions, is_ready, name_of
from grpo.live import submission, times
from grpo.live.status import waiting
from grpo.live.status.waiting import Wait
from grpo.live.why import log_reader
from grpo.problems.line import EVENT, GPU_HEAD, HEAD, JOB, NODE, OPERATOR, POD, WAIT, Line
from postrender.manifests.pods import mapping, sequence

_OPERATOR_LOG: Final = "operator"
# A warning stays for an hour. A pod has survived the first when it has a node, and the others when a container of it
# started later.
_SCHEDULING: Final = ("FailedScheduling", "FailedScaleUp", "NotTriggerScaleUp")
# These say it of an image, and else that a container ends again and again, which no start is the end of.
_PULLING: Final = ("Failed", "BackOff")
_PREEMPTED: Final = "Preempted"
_UNHEALTHY: Final = "Unhealthy"


def lines(evidence: Evidence) -> Iterator[Line]:
    """Yield what objects report about this run, leaving out what they reported before it began."""
    began = _began(evidence)
    waits = waiting.waits(evidence)
    found = (_pods(evidence), _events(evidence, waits), _nodes(evidence), _job(evidence), _waits(evidence, waits))
    for line in itertools.chain.from_iterable(found):
        if not line.time or line.time >= began:
            yield line


def logs(evidence: Evidence) -> Iterator[tuple[str, Iterator[Line | None]]]:
    """Yield each log's name with its lines, the most informative log first: the driver, then the pods."""
    status = mapping(_rayjob(evidence).get("status"))
    texts = {**evidence.logs}
    # KubeRay keeps the last lines of a failed job there, also when the head is gone.
    if status.get("message"):
        texts.setdefault("RayJob's message", str(status["message"]))
    # An operator that has stopped leaves the message of a job that runs.
    if submission.ended_in_ray(evidence) and evidence.ray.get("message"):
        texts.setdefault("Ray's message", str(evidence.ray["message"]))
    if reason := evidence.record.get("reason"):
        texts["status.json"] = f"grpo: guard: {reason}"
    for name, text in texts.items():
        found = log_reader.read(iter([text.encode()]), name)
        yield name, (_as_operator(found) if name == _OPERATOR_LOG else found)


def _as_operator(found: Iterator[Line | None]) -> Iterator[Line | None]:
    for line in found:
        if line is not None:
            yield Line(line.text, line.source, OPERATOR, line.order)


def has_ended(evidence: Evidence) -> bool:
    """Return whether the run has started and failed, in which case what is waiting now is not the cause."""
    ends = (submission.ended_in_ray(evidence), mapping(_rayjob(evidence).get("status")).get("jobStatus"))
    return any(end in ("FAILED", "STOPPED") for end in ends)


def _rayjob(evidence: Evidence) -> dict[str, Any]:
    return evidence.find("rayjobs", evidence.expected.job) or {}


def _began(evidence: Evidence) -> str:
    return str(mapping(_rayjob(evidence).get("status")).get("startTime") or "")


def _pods(evidence: Evidence) -> Iterator[Line]:
    for pod in evidence.of("pods"):
        source, role = f"pod {name_of(pod)}", _role(pod)
        status = mapping(pod.get("status"))
        where = f" on node {node}" if (node := mapping(pod.get("spec")).get("nodeName")) else ""
        for key in ("initContainerStatuses", "containerStatuses"):
            for each in map(mapping, sequence(status.get(key))):
                yield from _container(each, "init container" if key[0] == "i" else "container", source, role, where)
        if status.get("reason") or status.get("phase") in ("Failed", "Unknown"):
            text = f"{status.get('phase')}: {status.get('reason', '')}: {status.get('message', '')}{where}"
            yield Line(text, source, POD, role=role)
        found = conditions(pod).get("DisruptionTarget", {})
        if found.get("status") == "True":
            text = f"DisruptionTarget: {found.get('reason')}: {found.get('message', '')}{where}"
            yield Line(text, source, POD, time=str(found.get("lastTransitionTime") or ""), role=role)


def _role(pod: dict[str, Any]) -> str:
    role = waiting.role_of(pod)
    return GPU_HEAD if role == HEAD and waiting.gpus_of([pod]) else role


def _container(each: dict[str, Any], what: str, source: str, role: str, where: str) -> Iterator[Line]:
    """Yield how a container ended, both its previous and its current instance."""
    for state in ("lastState", "state"):
        ended = mapping(mapping(each.get(state)).get("terminated"))
        if ended.get("exitCode"):
            text = f"{what} {each.get('name')} has ended{waiting.how_ended(ended)}{where}"
            yield Line(text, source, POD, time=str(ended.get("finishedAt") or ""), role=role)


def _events(evidence: Evidence, waits: Sequence[Wait]) -> Iterator[Line]:
    """Yield the warnings about this stack's objects."""
    pods = {name_of(pod): pod for pod in evidence.of("pods")}
    pending = {name for wait in waits for name in wait.names}
    names = [evidence.expected.cluster, evidence.expected.job]
    claims = [name_of(each) for each in evidence.expected.of_kind("PersistentVolumeClaim")]
    for event in (*evidence.of("events"), *evidence.of("preemptions")):
        about = mapping(event.get("involvedObject"))
        name = str(about.get("name", ""))
        # A pod that is gone has only its events; it bears the name of its cluster.
        ours = name in pods or name in claims or any(each and f"{name}-".startswith(f"{each}-") for each in names)
        pod = pods.get(name, {})
        if ours and about.get("kind") != "PersistentVolumeClaim" and not _survived(event, name, pods):
            text = f"{event.get('reason')}: {event.get('message')}"
            source = f"event of {about.get('kind')} {name}"
            role = _role(pod) if pod else ""
            yield Line(text, source, EVENT, time=times.last_seen(event), role=role, waits=name in pending)


def _survived(event: dict[str, Any], name: str, pods: dict[str, dict[str, Any]]) -> bool:
    """Return whether a pod's start-up warning no longer applies: the pod or its replacement has started since."""
    reason, pod = event.get("reason"), pods.get(name)
    if reason in _SCHEDULING and pod:
        return bool(mapping(pod.get("spec")).get("nodeName"))
    group = name.rpartition("-")[0]
    others = [pod] if pod else [other for each, other in pods.items() if group and each.rpartition("-")[0] == group]
    start, seen = max(map(_last_start, others), default=""), times.last_seen(event)
    if reason == _UNHEALTHY:
        # A container that was restarted since may have been killed for it.
        return pod is not None and is_ready(pod) and start <= seen
    is_about_start = reason in (*_SCHEDULING, *waiting.START_FAILURES, _PREEMPTED)
    is_about_image = reason in _PULLING and "image" in str(event.get("message")).lower()
    return (is_about_start or is_about_image) and bool(start) and seen <= start


def _last_start(pod: dict[str, Any]) -> str:
    """Return when one of a pod's containers last started; empty if none has."""
    status = mapping(pod.get("status"))
    found = [
        str(mapping(mapping(each.get(when)).get(state)).get("startedAt") or "")
        for key in ("initContainerStatuses", "containerStatuses")
        for each in map(mapping, sequence(status.get(key)))
        for when, state in (("state", "running"), ("state", "terminated"), ("lastState", "terminated"))
    ]
    return max(found, default="")


def _nodes(evidence: Evidence) -> Iterator[Line]:
    """Yield problems with the run's nodes."""
    ours = {str(mapping(pod.get("spec")).get("nodeName")) for pod in evidence.of("pods")}
    for node in evidence.of("nodes"):
        if name_of(node) not in ours:
            continue
        for kind, found in conditions(node).items():
            bad = found.get("status") in ("False", "Unknown") if kind == "Ready" else found.get("status") == "True"
            if bad:
                state = "NotReady" if kind == "Ready" else f"{kind}=True"
                text = f"{state}: {found.get('reason')}: {found.get('message', '')}"
                yield Line(text, f"node {name_of(node)}", NODE)
    for event in evidence.of("nodeEvents"):
        about = mapping(event.get("involvedObject"))
        if about.get("name") in ours:
            text = f"{event.get('reason')}: {event.get('message')}"
            yield Line(text, f"event of node {about.get('name')}", NODE, time=times.last_seen(event))


def _job(evidence: Evidence) -> Iterator[Line]:
    status = mapping(_rayjob(evidence).get("status"))
    state = f"{status.get('jobDeploymentStatus', '')} {status.get('jobStatus', '')}".strip()
    if status.get("reason") or status.get("jobStatus") in ("FAILED", "STOPPED"):
        message = str(status.get("message") or "").split("\n")[0]
        text = f"{status.get('reason') or state}: {message}"
        yield Line(text, f"RayJob {evidence.expected.job}", JOB)
    if (end := submission.ended_in_ray(evidence)) in ("FAILED", "STOPPED"):
        yield Line(f"{end}: {str(evidence.ray.get('message') or '').split(chr(10))[0]}", "Ray", JOB)


def _waits(evidence: Evidence, waits: Sequence[Wait]) -> Iterator[Line]:
    roles = {name_of(pod): _role(pod) for pod in evidence.of("pods")}
    for wait in waits:
        names = str(Wait(wait.names, "")).rstrip(": ")
        yield Line(wait.why, names, WAIT, role=roles.get(wait.names[0], ""), waits=True)
