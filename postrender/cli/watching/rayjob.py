"""Read the output of a RayJob in the head pod of its cluster, through kubectl.

The log of a pod has none of it: Ray starts the driver, and writes its output into a file of the head. This is so for
every submissionMode. The launcher of the chart grpo-job also writes it to the volume of the run, where it outlives the
cluster.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from postrender.errors import ClusterError
from postrender.helm import kubectl
from postrender.runlog import pieces
from postrender.runlog.following import State

TIMEOUT_SECONDS: Final = 8.0
# A program in a pod goes on when its kubectl has died, so it gets a time to end. Then the next one goes on.
READ_SECONDS: Final = 30.0
_TIMED_OUT: Final = 124
_ENDED: Final = ("Complete", "Failed")
_RAN: Final = ("RUNNING", "STOPPED", "SUCCEEDED", "FAILED")
_DRIVER: Final = "/tmp/ray/session_latest/logs/job-driver-{}.log"  # noqa: S108 (of the pod: Ray's own folder)
_PLAN: Final = re.compile(r"<<'GRPO_PLAN'\n(.*?)\nGRPO_PLAN\n", re.DOTALL)
_READ: Final = 'for file; do [ -r "$file" ] && exec {} "$file"; done; echo "no file $*" >&2; exit 1'


@dataclass(frozen=True)
class _Output:
    """Where the output of a job is: the pod and its container, and the files that may have it, the best one first."""

    pod: str
    container: str
    files: tuple[str, ...]


class RayJob:
    """A RayJob of a namespace; `cluster` is another RayCluster that mounts the volume of its run."""

    def __init__(self, name: str, namespace: str, cluster: str | None) -> None:
        """Ask nothing yet."""
        self.name = f"RayJob {name}"
        self._path = f"/apis/ray.io/v1/namespaces/{namespace}/rayjobs/{name}"
        self._namespace, self._cluster, self._output = namespace, cluster, _Output("", "", ())

    def look(self) -> State:
        """Return the state of the RayJob, and find its head pod; raise ClusterError if kubectl fails."""
        found = _ask(self._path)
        status = found.get("status") or {}
        deployed, job = status.get("jobDeploymentStatus") or "not seen by the operator", status.get("jobStatus") or ""
        said = ": ".join(filter(None, (deployed, job, status.get("message", "").partition("\n")[0])))
        ended, volume = deployed in _ENDED, _volume(found)
        pod = self._head(self._cluster or status.get("rayClusterName", "")) if self._cluster or job in _RAN else {}
        if not pod:
            elsewhere = f"{volume} on the volume of the run" if volume else "what its pods have left"
            lost = f"read {elsewhere}, where it is mounted; --cluster NAME names a cluster that mounts it"
            return State("", ended, said, lost)
        driver = [] if self._cluster else [_DRIVER.format(status.get("jobId"))]
        files = (*driver, *([f"{volume}/output.log"] if volume else []))
        container = pod["spec"]["containers"][0]["name"]
        self._output = _Output(pod["metadata"]["name"], container, files)
        starts = [each["restartCount"] for each in pod["status"].get("containerStatuses", ())]
        return State(f"{pod['metadata']['uid']} {starts} {status.get('jobId')}", ended, said)

    def read(self, state: State, start: int, *, wait: bool) -> Iterator[bytes]:
        """Yield the output from a byte on; with `wait`, for half a minute."""
        del state
        tail = f"tail -c +{start + 1}"
        program = f"timeout {READ_SECONDS:.0f} {tail} -f" if wait else tail
        where = [self._output.pod, "--namespace", self._namespace, "--container", self._output.container]
        words = ["kubectl", "exec", *where, "--", "sh", "-c", _READ.format(program), "sh", *self._output.files]
        heard = time.monotonic()
        with kubectl.piped(words, {_TIMED_OUT}) as descriptor:
            for piece in pieces.of_pipe(descriptor):
                heard = time.monotonic() if piece else heard
                if time.monotonic() - heard > READ_SECONDS + TIMEOUT_SECONDS:
                    raise ClusterError(f"the head pod of {self.name} does not answer")
                yield piece

    def _head(self, cluster: str) -> Mapping[str, Any]:
        """Return the running head pod of a cluster, or nothing."""
        selector = quote(f"ray.io/cluster={cluster},ray.io/node-type=head", safe="")
        pods = _ask(f"/api/v1/namespaces/{self._namespace}/pods?labelSelector={selector}").get("items") or []
        return next((pod for pod in pods if pod["status"].get("phase") == "Running"), {})


def _ask(path: str) -> Mapping[str, Any]:
    found = json.loads(kubectl.read(path, TIMEOUT_SECONDS))
    return found if isinstance(found, dict) else {}


def _volume(found: Mapping[str, Any]) -> str:
    """Return the folder of an attempt on the volume of its run; "" for a RayJob that no chart of ours has made."""
    match = _PLAN.search((found.get("spec") or {}).get("entrypoint", ""))
    try:
        plan = json.loads(match[1]) if match else {}
        return f"{plan['runDirectory']}/attempts/{plan['attempt']}"
    except (ValueError, KeyError):
        return ""
