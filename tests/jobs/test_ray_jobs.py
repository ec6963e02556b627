"""The program that submits a job in the head pod, against a stand-in for Ray; tests/e2e has Ray itself."""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from unittest import mock

import pytest

from tests.played import Clock
from tests.programs import PROGRAMS

from .harness import load_program

TOKEN = "not-a-real-one"
REQUEST = {"submission_id": "mine", "entrypoint": "true", "runtime_env": {"working_dir": "gcs://_ray_pkg_1.zip"}}


class Head(ThreadingHTTPServer):
    """What the head was told, and what it answers."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.told: list[tuple[str, str, bytes]] = []
        self.status, self.refusal = "RUNNING", ""


class Handler(BaseHTTPRequestHandler):
    server: Head

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.told.append((self.command, self.path, body))
        code, text = 200, json.dumps({"status": self.server.status, "message": "m", "driver_exit_code": 3, "more": 1})
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            code, text = 401, "Unauthorized"
        elif self.server.refusal and self.command != "PUT":
            code, text = 500, f"Traceback\n{self.server.refusal}"
        self.send_response(code)
        self.end_headers()
        self.wfile.write(text.encode())

    def do_PUT(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        self.do_GET()


@pytest.fixture
def head() -> Iterator[Head]:
    with Head() as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.shutdown()


@dataclass
class Pod:
    """The head pod: its port, its folder for temporary files, and a clock that moves when the program waits."""

    port: int
    folder: Path
    clock: Clock = field(default_factory=Clock)

    @property
    def log(self) -> Path:
        return self.folder / "ray/session_latest/logs/job-driver-mine.log"

    @property
    def printed(self) -> bytes:
        """Return what has left the program: a reader of its pipe sees nothing else."""
        return (self.folder / "printed").read_bytes()

    def run(self, *words: str, stdin: bytes = b"", token: str = TOKEN) -> tuple[int, str]:
        """Run the program in this process; return its exit code and its stderr."""
        program, errors = load_program("ray_jobs"), io.StringIO()
        program.ADDRESS, program.time = f"127.0.0.1:{self.port}", self.clock
        with (
            mock.patch.dict(os.environ, {"RAY_AUTH_TOKEN": token, "RAY_TMPDIR": str(self.folder)}),
            (self.folder / "printed").open("w") as printed,
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(errors),
            mock.patch("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin))),
        ):
            return program.main(list(words)), errors.getvalue()


@pytest.fixture
def pod(head: Head, tmp_path: Path) -> Pod:
    return Pod(head.server_port, tmp_path)


def test_the_package_is_uploaded_before_the_job_is_submitted(head: Head) -> None:
    """The program starts as `grpo` starts it: from its text."""
    text = PROGRAMS["ray_jobs"].read_text(encoding="utf-8").replace("127.0.0.1:8265", f"127.0.0.1:{head.server_port}")
    command = [sys.executable, "-I", "-c", text, "submit", json.dumps(REQUEST)]
    environment = {"RAY_AUTH_TOKEN": TOKEN}
    done = subprocess.run(command, input=b"PK\x00\xff\n", env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    upload, job = head.told
    assert upload == ("PUT", "/api/packages/gcs/_ray_pkg_1.zip", b"PK\x00\xff\n")
    assert (job[:2], json.loads(job[2])) == (("POST", "/api/jobs/"), REQUEST)


def test_the_state_command_prints_the_jobs_state(pod: Pod) -> None:
    assert pod.run("state", "mine") == (0, "")
    assert json.loads(pod.printed) == {"status": "RUNNING", "message": "m", "driver_exit_code": 3}


def test_a_rejection_and_a_missing_answer_have_different_exit_codes(head: Head, pod: Pod) -> None:
    head.refusal = "Job mine already exists"
    code, said = pod.run("submit", json.dumps(REQUEST))
    assert (code, "with 500: Job mine already exists" in said) == (1, True)
    code, said = pod.run("state", "mine", token="wrong")
    assert (code, "401" in said, "wrong" in said) == (1, True, False)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        pod.port = free.getsockname()[1]
        code, said = pod.run("state", "mine")
    assert (code, said.startswith("no answer from the Ray head at 127.0.0.1:")) == (3, True)


def test_a_usage_error_exits_with_2(pod: Pod) -> None:
    assert pod.run("stop", "mine")[0] == 2


def test_the_output_is_followed_until_the_job_ends(head: Head, pod: Pod) -> None:
    seen: list[bytes] = []

    def go_on() -> None:
        seen.append(pod.printed)
        if len(seen) == 2:
            # There is no file before the job starts.
            pod.log.parent.mkdir(parents=True)
            pod.log.write_bytes(b"a\nbegan\n")
        elif len(seen) == 4:
            with pod.log.open("ab") as file:
                file.write(b"\xff last")
            head.status = "SUCCEEDED"

    pod.clock.meanwhile = go_on
    assert pod.run("follow", "mine", "2", "60") == (0, "")
    assert seen[:5] == [b"", b"", b"began\n", b"began\n", b"began\n\xff last"]
    assert pod.printed == b"began\n\xff last"
    assert pod.clock.moment < 60


def test_following_also_ends_at_the_time_limit(pod: Pod) -> None:
    pod.log.parent.mkdir(parents=True)
    pod.log.write_bytes(b"x" * 3_000_000)
    assert pod.run("follow", "mine", "1", "30") == (0, "")
    assert len(pod.printed) == 2_999_999
    assert 30 < pod.clock.moment < 31
