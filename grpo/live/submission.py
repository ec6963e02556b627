"""Say whether the operator hands the job to Ray, and ask Ray itself.

In HTTPMode KubeRay calls a RayJob Running before it has asked the head for the job, and as long as no answer comes: the
cluster is there, Ray lists no job, and nothing fails (NVIDIA-NeMo/RL pull request 2749, docs/howto/operator.md).
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
    """Return with what the job has ended in Ray, if KubeRay does not know it; else an empty text."""
    state = mapping((evidence.find("rayjobs", evidence.expected.job) or {}).get("status"))
    said = str(evidence.ray.get("status") or "")
    known = state.get("jobDeploymentStatus") in _OVER or state.get("jobStatus") == said
    return said if said in _ENDED and not known else ""


def question(job: str) -> list[str]:
    """Return the command that asks the head of its pod for a job: JSON, or a sentence why there is none."""
    return ["sh", "-c", _SHELL, "sh", *kubectl.packed("ray_jobs", ["state", job])]


def delay(evidence: Evidence) -> float | None:
    """Return for how many seconds the job could have been submitted and was not; None if it was, or cannot be yet."""
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
