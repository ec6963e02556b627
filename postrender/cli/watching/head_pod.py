"""Read the output of a job in the head pod of a Ray cluster, through kubectl."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from postrender.errors import ClusterError
from postrender.helm import kubectl
from postrender.runlog import pieces

TIMEOUT_SECONDS: Final = 8.0
# A program in a pod goes on when its kubectl has died, so it gets a time to end. Then the next one goes on.
READ_SECONDS: Final = 30.0
_TIMED_OUT: Final = 124
_NO_FILE: Final = "none of the files can be read"
_ANY: Final = 'for file; do [ -r "$file" ] && {{ {}; exit; }}; done; echo "' + _NO_FILE + '" >&2; exit 1'
_LINES: Final = 'echo $(($(wc -c <"$file") - $(tail -n {} "$file" | wc -c)))'


def ask(path: str) -> Mapping[str, Any]:
    """Return what the API server has at a path; raise ClusterError."""
    found = json.loads(kubectl.read(path, TIMEOUT_SECONDS))
    return found if isinstance(found, dict) else {}


def find(namespace: str, labels: str) -> Mapping[str, Any]:
    """Return the running pod with these labels, or nothing."""
    pods = ask(f"/api/v1/namespaces/{namespace}/pods?labelSelector={quote(labels, safe='')}").get("items") or []
    return next((pod for pod in pods if pod["status"].get("phase") == "Running"), {})


@dataclass(frozen=True)
class Output:
    """Where the output of a job is: the pod and its container, and the files that may have it, the best one first."""

    namespace: str = ""
    pod: str = ""
    container: str = ""
    files: tuple[str, ...] = ()

    @classmethod
    def of(cls, namespace: str, pod: Mapping[str, Any], *files: str) -> Output:
        """Return the output in the first container of a pod."""
        return cls(namespace, pod["metadata"]["name"], pod["spec"]["containers"][0]["name"], files)

    def read(self, start: int, *, wait: bool) -> Iterator[bytes]:
        """Yield the output from a byte on; with `wait`, for half a minute. Raises ClusterError."""
        tail = f'tail -c +{start + 1} {"-f " if wait else ""}"$file"'
        heard = time.monotonic()
        limit = f"timeout {READ_SECONDS:.0f} " if wait else ""
        with self._running(f"exec {limit}{tail}") as descriptor:
            for piece in pieces.of_pipe(descriptor):
                heard = time.monotonic() if piece else heard
                if time.monotonic() - heard > READ_SECONDS + TIMEOUT_SECONDS:
                    raise ClusterError(f"the pod {self.pod} does not answer")
                yield piece

    def before(self, lines: int) -> int:
        """Return how many bytes are before the last lines; raise ClusterError."""
        with self._running(_LINES.format(lines)) as descriptor:
            said = b"".join(pieces.of_pipe(descriptor)).strip()
        return int(said) if said.isdigit() else 0

    @contextlib.contextmanager
    def _running(self, program: str) -> Iterator[int]:
        """Run a line of shell on the first of the files that can be read, and give the descriptor of its output."""
        where = [self.pod, "--namespace", self.namespace, "--container", self.container]
        words = ["kubectl", "exec", *where, "--", "sh", "-c", _ANY.format(program), "sh", *self.files]
        try:
            with kubectl.piped(words, {_TIMED_OUT}) as descriptor:
                yield descriptor
        except ClusterError as error:
            if _NO_FILE not in error.message:
                raise
            fix = "grpo status shows the run; grpo logs --attempt N reads another attempt"
            raise ClusterError(f"the pod {self.pod} cannot read {' or '.join(self.files)}", fix=fix) from error
