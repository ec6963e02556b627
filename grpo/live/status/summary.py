"""Summarize what is running: releases, pods by role, GPUs, the run, and what it is waiting for."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from grpo.cluster.evidence import Evidence
from grpo.cluster.objects import is_ready, labels_of, name_of
from grpo.live import by_hand, submission
from grpo.live.status import waiting
from grpo.live.status.leftovers import Leftover, leftovers
from grpo.live.status.waiting import Wait
from postrender.manifests.apiserver import plural
from postrender.manifests.pods import mapping

_RUNNING: Final = "RUNNING"
_GOOD_JOB: Final = (_RUNNING, "SUCCEEDED", "PENDING", "")
_FAILED_JOB: Final = "Failed"
_FAILED_IN_RAY: Final = ("FAILED", "STOPPED")
_NOT_THERE: Final = "not there"


@dataclass(frozen=True)
class Role:
    """The pods of the head or of a worker group."""

    name: str
    wanted: int | None
    there: int
    ready: int
    gpus: int


@dataclass(frozen=True)
class Status:
    """A stack's state.

    `releases` has each layer's release with its state, "not installed", or "unknown". `cluster` and `job` are the
    states given by KubeRay; `reason` is why the run has failed; `record` is what the guard has written
    (docs/howto/guard.md). `gpus` are the numbers of GPUs requested, on nodes, and in ready pods while the job runs.
    """

    stack: str
    namespace: str
    context: str
    releases: dict[str, str]
    cluster: str
    roles: tuple[Role, ...]
    gpus_wanted: int
    gpus_there: int
    gpus_used: int
    run: str
    job: str
    reason: str
    record: dict[str, Any]
    waits: tuple[Wait, ...]
    leftovers: tuple[Leftover, ...]
    unread: dict[str, str]
    commands: dict[str, str]

    @property
    def is_healthy(self) -> bool:
        """Return whether everything is present and ready, nothing waits or is left over, and the run has not failed."""
        complete = all(role.ready == role.wanted for role in self.roles if role.wanted is not None)
        installed = all(state == "unknown" or " deployed," in state for state in self.releases.values())
        bad = self.waits or self.leftovers or self.reason
        return complete and installed and self.job != _NOT_THERE and not bad

    def as_json(self) -> dict[str, Any]:
        """Return the status as data for programs."""
        return {**asdict(self), "healthy": self.is_healthy}


def sum_up(evidence: Evidence) -> Status:
    """Return a stack's status from the evidence."""
    expected = evidence.expected
    job = evidence.find("rayjobs", expected.job)
    state = mapping((job or {}).get("status"))
    pods = evidence.pods_of_cluster()
    runs = state.get("jobStatus") == _RUNNING and not submission.ended_in_ray(evidence)
    scheduled = [pod for pod in pods if mapping(pod.get("spec")).get("nodeName")]
    return Status(
        expected.name,
        expected.namespace,
        evidence.context,
        {layer: _release(evidence, layer) for layer in expected.releases},
        _cluster_state(evidence, evidence.cluster),
        _roles(evidence, pods),
        expected.gpus,
        waiting.gpus_of(scheduled),
        waiting.gpus_of([pod for pod in scheduled if is_ready(pod)]) if runs else 0,
        expected.job,
        _job_state(evidence, job),
        _reason(state) or _said_by_ray(evidence),
        evidence.record,
        tuple(waiting.waits(evidence)),
        tuple(leftovers(evidence)),
        evidence.unread,
        by_hand.commands(expected),
    )


def _release(evidence: Evidence, layer: str) -> str:
    """Return Helm's status for the newest revision of a layer's release."""
    if "releases" not in evidence.objects:
        return "unknown"
    name = _release_name(evidence, layer)
    revisions = [labels for each in evidence.of("releases") if (labels := labels_of(each)).get("name") == name]
    newest = max(revisions, key=lambda labels: str(labels.get("version")).zfill(9), default=None)
    if newest is None:
        # The network layer is installed once for the cluster, often from another namespace.
        return "unknown" if layer == "network" else "not installed"
    return f"{name} {newest.get('status')}, revision {newest.get('version')}"


def _release_name(evidence: Evidence, layer: str) -> str:
    """Return the name of the release that has installed a layer, which Helm records in each object."""
    for item in evidence.expected.objects[layer]:
        found = evidence.find(plural(str(item.get("kind", ""))), name_of(item))
        if note := mapping(mapping((found or {}).get("metadata")).get("annotations")).get("meta.helm.sh/release-name"):
            return str(note)
    return evidence.expected.releases[layer]


def _cluster_state(evidence: Evidence, name: str) -> str:
    if "rayclusters" not in evidence.objects:
        return "unknown" if "rayclusters" in evidence.unread else "the cluster has no KubeRay"
    item = evidence.find("rayclusters", name) if name else None
    if item is None:
        return _NOT_THERE
    return str(mapping(item.get("status")).get("state") or "not ready")


def _job_state(evidence: Evidence, job: dict[str, Any] | None) -> str:
    if "rayjobs" not in evidence.objects:
        return "unknown"
    if job is None:
        return _NOT_THERE
    state = mapping(job.get("status"))
    words = [str(state[key]) for key in ("jobDeploymentStatus", "jobStatus") if state.get(key)]
    said = submission.ended_in_ray(evidence)
    differs = [f"but Ray says {said}"] if said else []
    return ", ".join(dict.fromkeys([*words, *differs])) or "not started"


def _reason(state: dict[str, Any]) -> str:
    if state.get("jobDeploymentStatus") != _FAILED_JOB and state.get("jobStatus", "") in _GOOD_JOB:
        return ""
    said = [str(state[key]).strip() for key in ("reason", "message") if state.get(key)]
    return ": ".join(said) or "KubeRay gives no reason"


def _said_by_ray(evidence: Evidence) -> str:
    """Return why the job has failed, if Ray reports it before KubeRay does."""
    end = submission.ended_in_ray(evidence)
    if end not in _FAILED_IN_RAY:
        return ""
    said = str(evidence.ray.get("message") or "").strip()
    return f"Ray says {end}: {said}" if said else f"Ray says {end}"


def _roles(evidence: Evidence, pods: list[dict[str, Any]]) -> tuple[Role, ...]:
    """Return the head and the worker groups that the values require, with the pods that exist."""
    roles = []
    for name, pod in evidence.expected.roles():
        mine = [each for each in pods if waiting.role_of(each) == name]
        roles.append(Role(name, pod.count, len(mine), sum(map(is_ready, mine)), pod.gpu_container()[1]))
    return tuple(roles)
