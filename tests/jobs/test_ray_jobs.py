"""The program that submits a job in the head pod, against a stand-in for Ray; tests/e2e has Ray itself."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.programs import PROGRAMS

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
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def words(port: int, *arguments: str) -> list[str]:
    """Start the program as `grpo` does, in the pod whose head has this port."""
    text = PROGRAMS["ray_jobs"].read_text(encoding="utf-8").replace("127.0.0.1:8265", f"127.0.0.1:{port}")
    return [sys.executable, "-I", "-c", text, *arguments]


def run(
    port: int, folder: Path, *arguments: str, stdin: bytes = b"", token: str = TOKEN
) -> subprocess.CompletedProcess[bytes]:
    environment = {"RAY_AUTH_TOKEN": token, "RAY_TMPDIR": str(folder)}
    return subprocess.run(
        words(port, *arguments), input=stdin, env=environment, capture_output=True, check=False, timeout=60
    )


def test_the_package_comes_before_the_job(head: Head, tmp_path: Path) -> None:
    done = run(head.server_port, tmp_path, "submit", json.dumps(REQUEST), stdin=b"PK\x00\xff\n")
    assert (done.returncode, done.stderr) == (0, b"")
    upload, job = head.told
    assert upload == ("PUT", "/api/packages/gcs/_ray_pkg_1.zip", b"PK\x00\xff\n")
    assert (job[:2], json.loads(job[2])) == (("POST", "/api/jobs/"), REQUEST)


def test_the_state(head: Head, tmp_path: Path) -> None:
    done = run(head.server_port, tmp_path, "state", "mine")
    assert json.loads(done.stdout) == {"status": "RUNNING", "message": "m", "driver_exit_code": 3}


def test_a_refusal_and_no_answer_differ(head: Head, tmp_path: Path) -> None:
    head.refusal = "Job mine already exists"
    done = run(head.server_port, tmp_path, "submit", json.dumps(REQUEST))
    assert (done.returncode, b"with 500: Job mine already exists" in done.stderr) == (1, True)
    refused = run(head.server_port, tmp_path, "state", "mine", token="wrong")
    assert (refused.returncode, b"401" in refused.stderr, b"wrong" in refused.stderr) == (1, True, False)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    away = run(port, tmp_path, "state", "mine")
    assert (away.returncode, away.stderr.startswith(b"no answer from the Ray head at 127.0.0.1:")) == (3, True)


def test_wrong_usage(head: Head, tmp_path: Path) -> None:
    assert run(head.server_port, tmp_path, "stop", "mine").returncode == 2


def log(folder: Path) -> Path:
    path = folder / "ray/session_latest/logs/job-driver-mine.log"
    path.parent.mkdir(parents=True)
    return path


def test_the_output_is_followed_to_the_end_of_the_job(head: Head, tmp_path: Path) -> None:
    path: Any = log(tmp_path)
    environment = {"RAY_AUTH_TOKEN": TOKEN, "RAY_TMPDIR": str(tmp_path)}
    command = words(head.server_port, "follow", "mine", "2", "60")
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout
        # There is no file before the job starts.
        time.sleep(0.5)
        path.write_bytes(b"a\nbegan\n")
        assert process.stdout.readline() == b"began\n"
        with path.open("ab") as file:
            file.write(b"\xff last")
        head.status = "SUCCEEDED"
        assert process.stdout.read() == b"\xff last"
        assert process.wait(30) == 0


def test_the_time_ends_it_too(head: Head, tmp_path: Path) -> None:
    log(tmp_path).write_bytes(b"x" * 3_000_000)
    done = run(head.server_port, tmp_path, "follow", "mine", "1", "0")
    assert (done.returncode, len(done.stdout)) == (0, 2_999_999)
