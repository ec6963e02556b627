"""Determine whether the operator has submitted the job to Ray, by querying Ray itself.

In HTTPMode KubeRay reports a RayJob as Running before it has queried the head for the job, and for as long as it
gets no answer: the cluster exists, Ray lists no job, and nothing fails (NVIDIA-NeMo/RL pull request 2749,
docs/howto/operator.md).
"""

from __future__ import annotations

from typing import Final

from grpo.cluster.evidence import Evidence
from grpo.cluster.objects import conditions, is_ready
from grpo.helm import kubectl
from grpo.live import times
from postrender.manifests.pods import mapping

# Seconds that an operator needs to submit a job.
_GRACE: Final = 120.0
_BEFORE: Final = ("Initializing", "Running")
# What a job in Ray ends with.
_ENDED: Final = ("SUCCEEDED", "FAILED", "STOPPED")
# States in which KubeRay itself has ended the job, or does so now.
_OVER: Final = ("Complete", "Failed", "Suspending", "Suspended", "Retrying", "Waiting")
# What a program says on stderr is an answer too.
_SHELL: Final = 'exec "$@" 2>&1'


def ended_in_ray(evidence: Evidence) -> str:
    """Return how the job has ended in Ray, if KubeRay does not know it yet; otherwise an empty text."""
    state = mapping((evidence.find("rayjobs", evidence.expected.job) or {}).get("status"))
    said = str(evidence.ray.get("status") or "")
    known = state.get("jobDeploymentStatus") in _OVER or state.get("jobStatus") == said
    return said if said in _ENDED and not known else ""


def question(job: str) -> list[str]:
    """Return the command that queries a job in its head pod: it prints JSON, or a sentence why there is none."""
    return ["sh", "-c", _SHELL, "sh", *kubectl.packed("ray_jobs", ["state", job])]


def delay(evidence: Evidence) -> float | None:
    """Return for how many seconds the job has been ready but not submitted; None if it was, or is not ready."""
    job = evidence.find("rayjobs", evidence.expected.job) or {}
    state = mapping(job.get("status"))
    if state.get("jobDeploymentStatus") not in _BEFORE or state.get("jobStatus"):
        return None
    ready = [pod for pod in evidence.pods_of_cluster() if is_ready(pod)]
    if not 0 < sum(pod.count or 0 for _, pod in evidence.expected.roles()) <= len(ready):
        return None
    began = [times.seconds(conditions(pod)["Ready"].get("lastTransitionTime")) for pod in ready]
    if made := mapping(job.get("metadata")).get("creationTimestamp"):
        began.append(times.seconds(made))
    known = [each for each in began if each is not None]
    waited = evidence.time - max(known) if len(known) == len(began) else 0.0
    return waited if waited > _GRACE else None
