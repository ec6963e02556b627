"""Read a job's output in a Ray cluster's head pod, through kubectl."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from grpo.deadline import PATIENCE, Deadline
from grpo.helm import kubectl
from grpo.runlog import pieces
from postrender import json_text
from postrender.errors import ClusterError

# A program in a pod goes on when its kubectl has died, so it gets a time to end. Then the next one goes on.
READ_SECONDS: Final = 30.0
_TIMED_OUT: Final = 124
_NO_FILE: Final = "none of the files can be read"
# The first byte says that the pod answers: an output may have none for long.
_ANY: Final = 'for file; do [ -r "$file" ] && {{ printf .; {}; exit; }}; done; echo "' + _NO_FILE + '" >&2; exit 1'
_NO_ANSWER: Final = "kubectl exec in this pod must work first"
_LINES: Final = 'echo $(($(wc -c <"$file") - $(tail -n {} "$file" | wc -c)))'


def ask(path: str, deadline: Deadline) -> Mapping[str, Any]:
    """Return the API server's object at a path; raise ClusterError if kubectl fails."""
    found = json_text.loads(kubectl.read(path, deadline))
    return found if isinstance(found, dict) else {}


def find(namespace: str, labels: str, deadline: Deadline) -> Mapping[str, Any]:
    """Return the running pod with these labels, or an empty map."""
    found = ask(f"/api/v1/namespaces/{namespace}/pods?labelSelector={quote(labels, safe='')}", deadline)
    return next((pod for pod in found.get("items") or [] if pod["status"].get("phase") == "Running"), {})


def answered(descriptor: int, pod: str, deadline: Deadline) -> Iterator[bytes]:
    """Yield what a program in a pod prints, and b"" whenever it is silent.

    Raises ClusterError if the program does not start in time.
    """
    has_begun = False
    for piece in pieces.of_pipe(descriptor):
        if not (has_begun or piece or deadline.left):
            raise ClusterError(f"the pod {pod} does not answer", fix=_NO_ANSWER)
        if has_begun or piece:
            yield piece
            has_begun = True
            deadline.renew()


def heard(found: Iterable[bytes], who: str) -> Iterator[bytes]:
    """Yield what a program in a pod prints; raise ClusterError if it is silent for longer than the program may run."""
    last = time.monotonic()
    for piece in found:
        last = time.monotonic() if piece else last
        if time.monotonic() - last > READ_SECONDS + PATIENCE:
            raise ClusterError(f"{who} does not answer", fix=_NO_ANSWER)
        yield piece


@dataclass(frozen=True)
class Output:
    """Where a job's output is: the pod and its container, and the candidate files, the best one first."""

    namespace: str = ""
    pod: str = ""
    container: str = ""
    files: tuple[str, ...] = ()

    @classmethod
    def of(cls, namespace: str, pod: Mapping[str, Any], *files: str) -> Output:
        """Return the output location in a pod's first container."""
        return cls(namespace, pod["metadata"]["name"], pod["spec"]["containers"][0]["name"], files)

    def read(self, start: int, deadline: Deadline, *, wait: bool) -> Iterator[bytes]:
        """Yield the output from a given byte on; with `wait`, for half a minute.

        Raises ClusterError if kubectl fails or the pod does not start to answer in time.
        """
        tail = f'tail -c +{start + 1} {"-f " if wait else ""}"$file"'
        limit = f"timeout {READ_SECONDS:.0f} " if wait else ""
        with self._running(f"exec {limit}{tail}", deadline) as found:
            yield from heard(found, f"the pod {self.pod}")

    def before(self, lines: int, deadline: Deadline) -> int:
        """Return the number of bytes before the last lines; raise ClusterError if kubectl fails."""
        with self._running(_LINES.format(lines), deadline) as found:
            said = b"".join(heard(found, f"the pod {self.pod}")).strip()
        return int(said) if said.isdigit() else 0

    def _begun(self, descriptor: int, deadline: Deadline) -> Iterator[bytes]:
        """Yield what the program prints after its start byte, which must arrive in time."""
        is_first = True
        for piece in answered(descriptor, self.pod, deadline):
            yield piece[1:] if is_first else piece
            is_first = False

    @contextlib.contextmanager
    def _running(self, program: str, deadline: Deadline) -> Iterator[Iterator[bytes]]:
        """Run a shell line on the first file that can be read, and yield its output."""
        where = [self.pod, "--namespace", self.namespace, "--container", self.container]
        words = ["kubectl", "exec", *where, "--", "sh", "-c", _ANY.format(program), "sh", *self.files]
        try:
            with kubectl.piped(words, {_TIMED_OUT}) as descriptor:
                yield self._begun(descriptor, deadline)
        except ClusterError as error:
            if _NO_FILE not in error.message:
                raise
            fix = "grpo status shows the run; grpo logs --attempt N reads another attempt"
            raise ClusterError(f"the pod {self.pod} cannot read {' or '.join(self.files)}", fix=fix) from error
