"""Query a Ray cluster's dashboard for a job and its output.

Sources: python/ray/dashboard/modules/job/job_head.py and modules/state/state_head.py of Ray 2.46.0 and 2.55.1. The
state API returns the driver's raw log and can stream it; the jobs API returns the complete log at once.
"""

from __future__ import annotations

import contextlib
import http.client
import queue
import re
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from grpo.deadline import PATIENCE
from grpo.runlog.job_output import State
from postrender import json_text
from postrender.errors import ClusterError, UsageError

T = TypeVar("T", dict[str, Any], list[dict[str, Any]])

PIECE_BYTES: Final = 1 << 20
# How often a job that prints nothing is asked whether it still runs.
LOOK_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.5
_ENDED: Final = ("SUCCEEDED", "FAILED", "STOPPED")
# The dashboard's page of a job, and the address of the job itself.
_JOB: Final = re.compile(r"(?:/api)?/jobs/([^/?#]+)/?$")
_NO_DASHBOARD: Final = "name Ray's dashboard, port 8265 of the head: kubectl port-forward service/NAME-head-svc 8265"


class RayJobs:
    """A Ray cluster's job: the newest one if the URL is the dashboard's, or the job whose dashboard page it is."""

    def __init__(self, url: str, token: str) -> None:
        """Parse the URL; raise UsageError if it contains a password, or if the token cannot be an HTTP header."""
        parts = urlsplit(url)
        if not parts.hostname:
            raise UsageError("the URL has no host", fix=_NO_DASHBOARD)
        if parts.username or parts.password:
            fix = "give the token in RAY_AUTH_TOKEN or --token-file"
            raise UsageError("the URL has a user or a password", fix=fix)
        if not re.fullmatch("[!-~]*", token):
            fix = "remove blanks and line breaks from RAY_AUTH_TOKEN or the token file"
            raise UsageError("the token has characters that no HTTP header can have", fix=fix)
        path = parts.fragment or parts.path
        match = _JOB.search(path)
        self._job = match[1] if match else ""
        prefix = parts.path[: match.start()] if match and not parts.fragment else parts.path
        self._prefix, self._token = prefix.rstrip("/"), token
        self._host, self._port, self._https = parts.hostname, parts.port, parts.scheme == "https"
        self.name = f"{parts.scheme}://{parts.netloc}{self._prefix}"

    def look(self) -> State:
        """Return the job's state; raise ClusterError if there is no job or the dashboard does not report the state."""
        if not self._job:
            self._job = self._newest()
        found = self._ask(f"/api/jobs/{quote(self._job, safe='')}", dict)
        status, node = found.get("status"), found.get("driver_node_id")
        why = f": {found.get('message')}" if status == "FAILED" and not node else ""
        output = f"{node} {self._job}" if node and status != "PENDING" else ""
        return State(output, status in _ENDED, f"job {self._job} is {status}{why}", "ray job list shows the other jobs")

    def read(self, state: State, start: int, *, wait: bool) -> Iterator[bytes]:
        """Yield the driver's log from a byte offset on; with `wait`, until the job has ended."""
        node = state.output.partition(" ")[0]
        asked = {"node_id": node, "submission_id": self._job, "lines": -1, "timeout": 600}
        asked |= {"interval": 1} if wait else {}
        path = f"/api/v0/logs/{'stream' if wait else 'file'}?{urlencode(asked)}"
        skipped, looked = 0, time.monotonic()
        with self._get(path, lasts=wait) as response:
            for piece in self._pieces(response):
                new = piece[max(0, start - skipped) :]
                skipped += len(piece)
                yield new
                if wait and not piece and time.monotonic() - looked > LOOK_SECONDS:
                    looked = time.monotonic()
                    if self.look().ended:
                        return

    def _newest(self) -> str:
        jobs = [job for job in self._ask("/api/jobs/", list) if job.get("submission_id")]
        if not jobs:
            raise ClusterError(f"{self.name} has no submitted job", fix="the state of the RayJob says why")
        newest = max(jobs, key=lambda job: (job.get("status") not in _ENDED, job.get("start_time") or 0))
        return str(newest["submission_id"])

    def _ask(self, path: str, kind: type[T]) -> T:
        refused = (OSError, ValueError, http.client.HTTPException)
        with self._get(path) as response, contextlib.suppress(*refused):
            found = json_text.loads(response.read())
            if isinstance(found, kind):
                return found
        raise ClusterError(f"{self.name} does not answer as Ray's dashboard does", fix=_NO_DASHBOARD)

    @contextlib.contextmanager
    def _get(self, path: str, *, lasts: bool = False) -> Iterator[http.client.HTTPResponse]:
        """Yield the response to a GET, which may last; reject redirects, because the token is for this host only.

        Leaving the block closes the connection without taking a lock, which a reading thread may hold.
        """
        kind = http.client.HTTPSConnection if self._https else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=PATIENCE)
        header = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        try:
            connection.request("GET", self._prefix + path, headers=header)
            transport, response = connection.sock, connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise ClusterError(f"{self.name} cannot be reached: {_words(error)}", fix=_NO_DASHBOARD) from error
        try:
            if response.status != http.client.OK:
                raise self._refused(response.status)
            if lasts:
                _keep_alive(transport)
            yield response
        finally:
            with contextlib.suppress(OSError):
                transport.shutdown(socket.SHUT_RDWR)
            transport.close()

    def _refused(self, status: int) -> ClusterError:
        if status in (http.client.UNAUTHORIZED, http.client.FORBIDDEN):
            what = "refuses this token" if self._token else "requires a token"
            fix = (
                "the notes of the release say how to read it: helm get notes; give it in RAY_AUTH_TOKEN or --token-file"
            )
            return ClusterError(f"{self.name} {what}", fix=fix)
        if status == http.client.NOT_FOUND and self._job:
            return ClusterError(f"{self.name} has no job {self._job}", fix="leave it out to watch the newest one")
        return ClusterError(f"{self.name} answers with HTTP {status}", fix=_NO_DASHBOARD)

    def _pieces(self, response: http.client.HTTPResponse) -> Iterator[bytes]:
        """Yield a response as it arrives, and b"" while nothing does; raise ClusterError if the connection is lost."""
        found: queue.Queue[bytes | Exception] = queue.Queue(8)

        def read() -> None:
            try:
                while piece := response.read1(PIECE_BYTES):
                    found.put(piece)
                found.put(b"")
            except Exception as error:  # A connection that another thread closes fails in many ways.
                found.put(error)

        threading.Thread(target=read, daemon=True).start()
        while True:
            try:
                piece = found.get(timeout=_PAUSE_SECONDS)
            except queue.Empty:
                yield b""
                continue
            if isinstance(piece, Exception):
                raise ClusterError(f"{self.name} does not answer any more: {_words(piece)}", fix=_NO_DASHBOARD)
            if not piece:
                return
            yield piece


def _words(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {PATIENCE:.0f} s"
    return str(getattr(error, "strerror", None) or error or type(error).__name__)


def _keep_alive(transport: socket.socket) -> None:
    """Let the system detect within a minute that the peer is gone, because a driver may print nothing for hours."""
    transport.settimeout(None)
    transport.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            transport.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
