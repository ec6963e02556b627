"""The program before SIGTERM: the head stops its jobs, workers wait for them. Stand-ins for Ray's head and psutil."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from tests.played import Clock

from .harness import load_program

JOBS: list[dict[str, Any]] = [
    {"submission_id": "gemma-1-abc", "status": "RUNNING"},
    {"submission_id": "queued", "status": "PENDING"},
    {"submission_id": "old", "status": "SUCCEEDED"},
    {"submission_id": None, "job_id": "0100", "status": "RUNNING"},
]


class Head(ThreadingHTTPServer):
    """A head whose answers are given one after the other, the last one for ever."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[list[dict[str, Any]] | int] = [[]]
        self.seen: list[str] = []
        self.broken: set[str] = set()
        self.token = ""


class Handler(BaseHTTPRequestHandler):
    server: Head

    def do_GET(self) -> None:
        self.server.token = self.headers.get("Authorization", "")
        answer = self.server.answers.pop(0) if len(self.server.answers) > 1 else self.server.answers[0]
        self.reply(answer if isinstance(answer, int) else 200, answer)

    def do_POST(self) -> None:
        self.server.seen.append(self.path)
        self.reply(500 if self.path in self.server.broken else 200, {"stopped": True})

    def reply(self, status: int, body: object) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Processes:
    """What the program uses of psutil; `connected` says for how many looks the worker's connection lives."""

    Error, CONN_LISTEN, CONN_ESTABLISHED = OSError, "LISTEN", "ESTABLISHED"

    def __init__(self, port: int, connected: int = 100) -> None:
        self.port, self.connected, self.done = port, connected, list[str]()
        self.drivers = [
            SimpleNamespace(pid=os.getsid(0), environ=lambda: {"RAY_JOB_CONFIG_JSON_ENV_VAR": '{"x": "gemma-1-abc"}'}),
            SimpleNamespace(pid=os.getsid(0), environ=lambda: {"RAY_JOB_CONFIG_JSON_ENV_VAR": '{"x": "another"}'}),
            SimpleNamespace(pid=os.getsid(0), environ=dict),
        ]

    def net_connections(self, _kind: str) -> list[SimpleNamespace]:
        self.connected -= 1
        far = SimpleNamespace(port=6379, ip="127.0.0.1") if self.connected >= 0 else ()
        listens = SimpleNamespace(status="LISTEN", laddr=SimpleNamespace(port=self.port), raddr=(), pid=77)
        return [listens, SimpleNamespace(status="ESTABLISHED", laddr=SimpleNamespace(port=1), raddr=far, pid=78)]

    def process_iter(self) -> list[SimpleNamespace]:
        return self.drivers

    def Process(self, pid: int) -> SimpleNamespace:  # noqa: N802  (psutil's name)
        return SimpleNamespace(suspend=lambda: self.done.append(f"suspend {pid}"))

    def wait_procs(self, processes: list[SimpleNamespace]) -> None:
        self.done += [f"wait for {self.drivers.index(each)}" for each in processes]


@pytest.fixture
def head() -> Iterator[Head]:
    server = Head()
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def program(head: Head, monkeypatch: pytest.MonkeyPatch) -> Any:
    module = load_program("pre_stop")
    monkeypatch.setattr(module, "DASHBOARD", head.server_port)
    monkeypatch.setattr(module, "time", Clock())
    return module


def test_the_head_stops_its_jobs_and_waits_for_their_drivers(
    head: Head, program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "let-me-in")
    head.answers = [JOBS]
    processes = Processes(head.server_port)
    program.stop_jobs(processes)
    assert head.seen == ["/api/jobs/gemma-1-abc/stop", "/api/jobs/queued/stop"]
    assert processes.done == ["suspend 77", "wait for 0"]
    assert head.token == "Bearer let-me-in"


def test_a_slow_answer_or_a_failed_stop_does_not_prevent_stopping_the_other_jobs(head: Head, program: Any) -> None:
    head.answers = [500, 500, JOBS]
    head.broken = {"/api/jobs/gemma-1-abc/stop"}
    processes = Processes(head.server_port)
    program.stop_jobs(processes)
    assert head.seen == ["/api/jobs/gemma-1-abc/stop"] * program.TRIES + ["/api/jobs/queued/stop"]
    assert processes.done == ["suspend 77", "wait for 0"]


def test_an_idle_head_leaves_its_dashboard_running(head: Head, program: Any) -> None:
    head.answers = [JOBS[2:]]
    processes = Processes(head.server_port)
    program.stop_jobs(processes)
    assert (head.seen, processes.done) == ([], [])


def test_a_worker_waits_until_no_job_runs(head: Head, program: Any) -> None:
    head.answers = [JOBS, 500, JOBS, JOBS[2:]]
    processes = Processes(head.server_port)
    program.wait_for_jobs(processes)
    assert processes.connected == 96
    assert head.seen == []


def test_a_worker_does_not_wait_for_a_missing_head(head: Head, program: Any) -> None:
    head.answers = [JOBS]
    processes = Processes(head.server_port, connected=2)
    program.wait_for_jobs(processes)
    assert processes.connected == -1
