"""Read a RayJob's output in its cluster's head pod, through kubectl.

The pod's log does not contain this output: Ray starts the driver, and writes its output to a file in the head pod,
for every submissionMode. The launcher of the chart grpo-job also writes it to the run's volume, where it outlives
the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from grpo.cli.watching import head_pod
from grpo.cli.watching.head_pod import Output
from grpo.cluster.objects import cluster_of
from grpo.deadline import Deadline
from grpo.helm import kubectl
from grpo.manifests import entrypoint
from grpo.runlog.job_output import State

_ENDED: Final = ("Complete", "Failed")
_RAN: Final = ("RUNNING", "STOPPED", "SUCCEEDED", "FAILED")
_DRIVER: Final = "/tmp/ray/session_latest/logs/job-driver-{}.log"  # noqa: S108 (of the pod: Ray's own folder)


@dataclass(frozen=True)
class Kept:
    """Where an attempt's output is once its RayJob is gone: a folder, and the labels of a pod that mounts it."""

    directory: str
    labels: str


class RayJob:
    """A RayJob in a namespace; `cluster` is another RayCluster that mounts its run's volume."""

    def __init__(
        self,
        name: str,
        namespace: str,
        cluster: str | None,
        kept: Kept | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        """Remember the arguments; nothing is queried yet. `deadline` covers the first `look` and the reads after it."""
        self.name = f"RayJob {name}"
        self._path = f"/apis/ray.io/v1/namespaces/{namespace}/rayjobs/{name}"
        self._namespace, self._cluster, self._kept, self._output = namespace, cluster, kept, Output()
        self._first, self._deadline = deadline, Deadline()

    def look(self) -> State:
        """Return the RayJob's state, and find its head pod; raise ClusterError if kubectl fails."""
        self._deadline, self._first = self._first or Deadline(), None
        try:
            found = head_pod.ask(self._path, self._deadline)
        except kubectl.FailedError as error:
            if self._kept is None or not error.is_of_missing:
                raise
            return self._without_job(self._kept)
        status = found.get("status") or {}
        deployed, job = status.get("jobDeploymentStatus") or "not seen by the operator", status.get("jobStatus") or ""
        said = ": ".join(filter(None, (deployed, job, status.get("message", "").partition("\n")[0])))
        ended, volume = deployed in _ENDED, entrypoint.attempt_directory(entrypoint.plan(found))
        pod = self._head(self._cluster or cluster_of(found)) if self._cluster or job in _RAN else {}
        if not pod:
            elsewhere = f"{volume} on the volume of the run" if volume else "what its pods have left"
            lost = f"read {elsewhere}, where it is mounted; --cluster NAME names a cluster that mounts it"
            return State("", ended, said, lost)
        driver = [] if self._cluster else [_DRIVER.format(status.get("jobId"))]
        return self._state(pod, [*driver, *([f"{volume}/output.log"] if volume else [])], ended, said, status)

    def _without_job(self, kept: Kept) -> State:
        """Return the state of an attempt that was replaced or uninstalled, from what its launcher has written."""
        pod = head_pod.find(self._namespace, kept.labels, self._deadline)
        if not pod:
            lost = f"read {kept.directory} where its volume is mounted; --cluster NAME names a cluster that mounts it"
            return State("", True, f"there is no such RayJob, and no running pod has the labels {kept.labels}", lost)
        return self._state(pod, [f"{kept.directory}/output.log"], True, "its RayJob is gone", {})

    def _state(
        self, pod: Mapping[str, Any], files: list[str], ended: bool, said: str, status: Mapping[str, Any]
    ) -> State:
        self._output = Output.of(self._namespace, pod, *files)
        starts = [each["restartCount"] for each in pod["status"].get("containerStatuses", ())]
        return State(f"{pod['metadata']['uid']} {starts} {status.get('jobId')}", ended, said)

    def read(self, state: State, start: int, *, wait: bool) -> Iterator[bytes]:
        """Yield the output from a given byte on; with `wait`, for half a minute."""
        del state
        return self._output.read(start, self._deadline, wait=wait)

    def before(self, lines: int) -> int:
        """Return the number of bytes of output before its last lines; `look` must have found the output."""
        return self._output.before(lines, self._deadline)

    def _head(self, cluster: str) -> Mapping[str, Any]:
        labels = f"ray.io/cluster={cluster},ray.io/node-type=head"
        return head_pod.find(self._namespace, labels, self._deadline)
