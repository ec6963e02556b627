"""Send a file into a pod that mounts the volume, through kubectl."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from grpo.cli.uploading.data_file import DataFile
from grpo.cli.uploading.volume import Volume
from grpo.cli.watching import head_pod
from grpo.cli.watching.printing import tell
from grpo.deadline import Deadline
from grpo.helm import kubectl
from grpo.runlog import pieces
from postrender.errors import ClusterError, InputError, Location
from postrender.manifests.pods import mapping

PROGRAM: Final = "receive_file"
_HEAD: Final = ("ray.io/node-type", "head")
# Seconds between two lines about how far a file is.
_OFTEN: Final = 10.0
_AT: Final = re.compile(r"at (\d{1,18})")
# Exit codes of a container in which a program cannot start, and what runtimes say of it.
_CANNOT_START: Final = (126, 127)
_NO_PYTHON: Final = re.compile(
    r"python3.{0,200}(not found|no such file)|(not found|finding) .{0,200}python3", re.IGNORECASE
)


class SilentError(ClusterError):
    """A pod returned no output: it has no Python, for instance."""


@dataclass(frozen=True)
class Pod:
    """A pod, its container that mounts the volume, and the mount path."""

    namespace: str
    name: str
    container: str
    mount: str

    def send(self, file: DataFile, target: str, *, replace: bool) -> bool:
        """Send a file to its place on the volume; return whether it already existed there.

        Raises InputError if the pod rejects it, ClusterError if it did not arrive, and SilentError if no program
        started.
        """
        arguments = [self.mount, target, str(file.size), file.sha256, "replace" if replace else "keep"]
        # Where nobody reads what is sent, the connection may not bring the answer back. So the pod is asked before.
        said, why = self._answer(file, [*arguments, "ask"])
        if said == "absent":
            os.lseek(file.descriptor, 0, os.SEEK_SET)
            said, why = self._answer(file, [*arguments, "take"], "--stdin")
        if said == "refused":
            raise InputError(why, at=Location(file.path), fix="--replace, --to FOLDER or another name of the file")
        if said not in ("there", "received"):
            why = why if said == "failed" else "the connection ended before the pod had said that the file is there"
            kind = ClusterError if said else SilentError
            raise kind(why, at=Location(file.path), fix="run it again: nothing under the name of the file has changed")
        return said == "there"

    def _answer(self, file: DataFile, arguments: Sequence[str], *flags: str) -> tuple[str, str]:
        """Return the first word of the pod program's final output, and the rest; raise as `send` does."""
        where = [self.name, "--namespace", self.namespace, "--container", self.container]
        words = ["kubectl", "exec", *flags, *where, "--", *kubectl.packed(PROGRAM, arguments)]
        try:
            with kubectl.piped(words, _CANNOT_START, *([file.descriptor] if flags else [])) as descriptor:
                said, _, why = self._last_line(descriptor, file).partition(" ")
        except ClusterError as error:
            if _NO_PYTHON.search(error.message):
                raise SilentError(error.message, at=error.at, fix=error.fix) from error
            raise
        return said, why

    def _last_line(self, descriptor: int, file: DataFile) -> str:
        """Return the last line that the pod's program prints, and report progress meanwhile."""
        told, last = time.monotonic(), ""
        for line in self._lines(descriptor):
            last = line
            count = _AT.fullmatch(line)
            if count and time.monotonic() - told > _OFTEN:
                told = time.monotonic()
                tell(f"{file.name}: {int(count[1]) / 1e6:.0f} of {file.size / 1e6:.0f} MB")
        return last

    def _lines(self, descriptor: int) -> Iterator[str]:
        answered = head_pod.answered(descriptor, self.name, Deadline())
        rest = ""
        for text in pieces.text(head_pod.heard(answered, f"the pod {self.name}")):
            *lines, rest = (rest + text).split("\n")
            yield from lines


def find(volume: Volume, namespace: str, deadline: Deadline) -> list[Pod]:
    """Return the running pods that mount a volume's claim, Ray heads first; raise ClusterError if kubectl fails."""
    path = f"/api/v1/namespaces/{namespace}/pods?fieldSelector=status.phase%3DRunning"
    found = (
        (pod["metadata"].get("labels", {}).get(_HEAD[0]) != _HEAD[1], each)
        for pod in head_pod.ask(path, deadline).get("items") or []
        if not pod["metadata"].get("deletionTimestamp")
        for each in _of_pod(pod, volume.claim, namespace)
    )
    return [each for _, each in sorted(found, key=lambda each: (each[0], each[1].name))]


def _of_pod(pod: Mapping[str, Any], claim: str, namespace: str) -> Iterator[Pod]:
    """Yield each container of a pod that may write to the entire claim."""
    names = {
        str(each.get("name"))
        for each in pod["spec"].get("volumes") or []
        if (source := mapping(each.get("persistentVolumeClaim"))).get("claimName") == claim
        and not source.get("readOnly")
    }
    for container in pod["spec"]["containers"]:
        for mount in container.get("volumeMounts") or []:
            is_part = mount.get("readOnly") or mount.get("subPath") or mount.get("subPathExpr")
            if mount.get("name") in names and not is_part:
                yield Pod(namespace, pod["metadata"]["name"], container["name"], mount["mountPath"])
