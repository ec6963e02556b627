"""The client of `helm test`, against a server that answers as the Jobs API of a Ray head does."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.played import Clock
from tests.programs import PROGRAMS

from .harness import load_program, until

Job = dict[str, Any]
TOKEN = "not-a-real-one"


@dataclass
class FakeHead:
    """What the head knows and how its next job goes: its outputs, one a look, and then how it ends."""

    jobs: list[Job] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    ends: str | None = "SUCCEEDED"
    message: str = ""
    token: str = ""
    failures: int = 0
    joins: Job | None = None
    calls: list[str] = field(default_factory=list)
    submitted: Job = field(default_factory=dict)
    port: int = 0

    def answer(self, method: str, path: str, body: Job) -> tuple[int, Any]:
        self.calls.append(f"{method} {path}")
        if self.failures:
            self.failures -= 1
            return 500, "Traceback\nNo available agent to submit job, please try again later."
        if method == "POST" and path == "/api/jobs/":
            self.submitted = body
            self.jobs.append({"submission_id": body["submission_id"], "status": "PENDING", "type": "SUBMISSION"})
            return 200, {"submission_id": body["submission_id"]}
        own = next((job for job in self.jobs if job["submission_id"] == self.submitted.get("submission_id", "")), None)
        if path.endswith("/stop") and own:
            own["status"] = "STOPPED"
            return 200, {"stopped": True}
        if path.endswith("/logs"):
            return 200, {"logs": self.echo() + (self.outputs[0] if self.outputs else "")}
        if own and own["status"] in ("PENDING", "RUNNING"):
            self.go_on(own)
        return 200, self.jobs

    def echo(self) -> str:
        return f"INFO -- Runtime env\nINFO -- Running entrypoint: {self.submitted['entrypoint']}\n"

    def go_on(self, own: Job) -> None:
        if len(self.outputs) > 1:
            self.outputs.pop(0)
            own["status"] = "RUNNING"
        elif self.joins:
            self.jobs.append(self.joins)
        elif self.ends:
            own |= {"status": self.ends, "message": self.message}


@pytest.fixture
def head() -> Iterator[FakeHead]:
    made = FakeHead()

    class Handler(BaseHTTPRequestHandler):
        def respond(self) -> None:
            text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if made.token and self.headers.get("Authorization") != f"Bearer {made.token}":
                status, answer = 401, "Unauthorized"
            else:
                status, answer = made.answer(self.command, self.path, json.loads(text or "{}"))
            payload = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        do_GET = do_POST = respond  # noqa: N815 (the library's names)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


@dataclass
class Client:
    """The program as a module with a clock of its own, and what it printed."""

    module: Any
    head: FakeHead
    capture: pytest.CaptureFixture[str]
    output: str = ""

    def run(self, seconds: float = 60, port: int = 0) -> int:
        probe = {"check": "gpus", "nodes": 2}
        plan = {"address": f"127.0.0.1:{port or self.head.port}", "timeoutSeconds": seconds, "probe": probe}
        code = int(self.module.main([json.dumps(plan)]))
        self.output = self.capture.readouterr().out
        assert "Traceback" not in self.output
        return code

    @property
    def last(self) -> str:
        return self.output.splitlines()[-1]


@pytest.fixture
def client(
    head: FakeHead, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Client]:
    module = load_program("check_cluster")
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(module, "now", clock.monotonic)
    monkeypatch.setattr(module, "__file__", str(tmp_path / "check_cluster.py"))
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    (tmp_path / "probe.py").write_text("import json\nprint(json.load(open(3))['check'], 'ran')\n")
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield Client(module, head, capsys)
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_output_is_printed_once_and_without_the_program(client: Client) -> None:
    client.head.outputs = ["", "grpo: a\n", "grpo: a\ngrpo: b\n"]
    assert client.run() == 0
    assert re.fullmatch(r"grpo: a\ngrpo: b\ngrpo: gpus: passed in \d+ s\n", client.output)
    assert not [call for call in client.head.calls if "stop" in call]


def test_the_entrypoint_passes_the_plan_to_the_program(client: Client) -> None:
    assert client.run(seconds=100) == 0
    done = subprocess.run(["sh", "-c", client.head.submitted["entrypoint"]], capture_output=True, text=True, check=True)
    assert done.stdout == "gpus ran\n"
    # The probe's own deadline comes first, so that it can say what it waited for.
    assert '"seconds": 85.0' in client.head.submitted["entrypoint"]


@pytest.mark.parametrize("status", ["PENDING", "RUNNING"])
def test_the_check_refuses_to_run_beside_another_job(status: str, client: Client) -> None:
    client.head.jobs = [
        {"submission_id": "old", "status": "SUCCEEDED"},
        {"submission_id": "gemma3-1", "status": status},
        {"submission_id": None, "job_id": "03000000", "status": "RUNNING"},
    ]
    assert client.run() == 1
    assert f"gpus failed: another job is running: gemma3-1 ({status}), 03000000 (RUNNING)" in client.last
    assert client.head.calls == ["GET /api/jobs/"]


def test_the_check_stops_when_another_job_starts(client: Client) -> None:
    client.head.joins = {"submission_id": "gemma3-1", "status": "PENDING"}
    assert client.run() == 1
    assert "stopped because another job started: gemma3-1 (PENDING)" in client.last
    assert client.head.jobs[0]["status"] == "STOPPED"


def test_the_last_line_is_the_probes_own_reason(client: Client) -> None:
    client.head.outputs = ["", "grpo: w-1: 8 x B200\ngrpo: failed: w-2: Ray has 7 GPUs, expected 8\n"]
    client.head.ends = "FAILED"
    assert client.run() == 1
    assert client.last == "grpo: gpus failed: w-2: Ray has 7 GPUs, expected 8"


@pytest.mark.parametrize(
    ("ends", "message", "said"),
    [
        ("FAILED", "line\nJob supervisor actor died", "its job ended with status FAILED"),
        ("FAILED", "line\nJob supervisor actor died", "Ray's message: Job supervisor actor died"),
        ("STOPPED", "", "somebody stopped its job"),
    ],
)
def test_without_a_probe_reason_the_last_line_is_rays_message(
    ends: str, message: str, said: str, client: Client
) -> None:
    client.head.ends, client.head.message = ends, message
    assert client.run() == 1
    assert said in client.last


def test_a_job_that_does_not_finish_is_stopped(client: Client) -> None:
    client.head.ends, client.head.outputs = None, ["grpo: waiting for node 2\n"]
    assert client.run(seconds=20) == 1
    assert client.last.endswith("stopped because it did not finish within 20 s; last output: grpo: waiting for node 2")
    assert client.head.jobs[0]["status"] == "STOPPED"


def test_a_head_that_does_not_answer_is_named(client: Client) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        assert client.run(port=port) == 1
    assert f"no answer from the Ray head at 127.0.0.1:{port}: Connection refused. Is the cluster ready" in client.last


def test_a_head_that_just_started_is_given_time(client: Client) -> None:
    client.head.failures = 2
    assert client.run() == 0
    assert client.output.endswith("grpo: gpus: passed in 2 s\n")


def test_a_head_that_keeps_refusing_is_quoted(client: Client) -> None:
    client.head.failures = 10_000
    assert client.run() == 1
    assert "answered GET /api/jobs/ with 500: No available agent" in client.last


def test_a_restarted_head_does_not_know_the_job(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client.head.outputs = ["", "", ""]
    monkeypatch.setattr(client.head, "go_on", client.head.jobs.remove)
    assert client.run() == 1
    assert "no longer knows the job" in client.last


def test_the_token_is_sent_and_never_printed(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client.head.token = TOKEN
    assert client.run() == 1
    assert "requires a token: RAY_AUTH_TOKEN is missing or wrong" in client.last
    monkeypatch.setenv("RAY_AUTH_TOKEN", f"{TOKEN}\n")
    assert client.run() == 0
    assert TOKEN not in client.output
    monkeypatch.setenv("RAY_AUTH_TOKEN", f"{TOKEN}\n{TOKEN}")
    assert client.run() == 1
    assert "RAY_AUTH_TOKEN has characters that HTTP headers cannot have" in client.last
    assert TOKEN not in client.output


def test_sigterm_stops_the_job_before_the_program_exits(head: FakeHead, tmp_path: Path) -> None:
    head.ends, head.outputs = None, [""]
    for name in ("check_cluster", "probe"):
        shutil.copy(PROGRAMS[name], tmp_path)
    plan = {"address": f"127.0.0.1:{head.port}", "timeoutSeconds": 60, "probe": {"check": "nccl"}}
    command = [sys.executable, "-I", str(tmp_path / "check_cluster.py"), json.dumps(plan)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        until(lambda: any(call.endswith("/logs") for call in head.calls), "a look at the job")
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    assert head.jobs[0]["status"] == "STOPPED"
    assert output.splitlines()[-1] == "grpo: nccl failed: SIGTERM stopped it"
