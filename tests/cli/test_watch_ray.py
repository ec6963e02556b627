"""grpo watch of Ray's dashboard: a server of a few lines stands in for it."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from grpo.cli import main as cli
from grpo.runlog import job_output, ray_jobs
from tests.cli.clusters import LONG, until
from tests.runlog import logs

TEXT = logs.nemo_rl(steps=3, reward=[0.25, 0.5, 0.75]).removesuffix(logs.ENDED).encode()
MIDDLE = TEXT.index(b"Step 2/3")
TOKEN = "not-a-real-token"
Run = Callable[..., tuple[int, str, str]]


class Dashboard(ThreadingHTTPServer):
    """Jobs by their id, the log of the driver, and what the next answers are."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.jobs: dict[str, dict[str, Any]] = {}
        self.log, self.token, self.prefix, self.asked = b"", "", "", list[str]()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        # A stream is cut after so many bytes.
        self.cuts: list[int] = []
        self.redirect, self.is_stopped = "", False

    def job(self, name: str, status: str, **more: object) -> None:
        found = {"submission_id": name, "status": status, "driver_node_id": "n", "start_time": len(self.jobs)}
        self.jobs[name] = {**found, **more}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Dashboard

    def do_GET(self) -> None:
        at = urlsplit(self.path)
        self.server.asked.append(self.path)
        path = at.path.removeprefix(self.server.prefix)
        if self.server.redirect:
            self.send_response(302)
            self.send_header("Location", self.server.redirect)
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif self.server.token and self.headers["Authorization"] != f"Bearer {self.server.token}":
            self.send_error(401)
        elif path == "/api/jobs/":
            self.answer(list(self.server.jobs.values()))
        elif path.startswith("/api/jobs/") and (name := path.rpartition("/")[2]) in self.server.jobs:
            self.answer(self.server.jobs[name])
        elif path.startswith("/api/v0/logs/"):
            asked = parse_qs(at.query)
            # Ray refuses a question without the node, and one for a file with an interval.
            if (
                asked["lines"] == ["-1"]
                and asked.get("node_id") == ["n"]
                and ("interval" in asked) == ("stream" in path)
            ):
                self.stream("stream" in path)
            else:
                self.send_error(500)
        else:
            self.send_error(404)

    def answer(self, content: object) -> None:
        text = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def stream(self, goes_on: bool) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        sent, cut = 0, self.server.cuts.pop(0) if self.server.cuts else 1 << 40
        while not self.server.is_stopped:
            piece = self.server.log[sent : min(cut, sent + 1000)]
            if piece:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                sent += len(piece)
            elif sent >= cut:
                self.close_connection = True
                return
            elif goes_on:
                time.sleep(0.05)
            else:
                break
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[Dashboard]:
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.setattr(ray_jobs, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(ray_jobs, "_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(ray_jobs, "PATIENCE", LONG)
    monkeypatch.setattr(job_output, "PAUSE_SECONDS", 0.05)
    with Dashboard() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        server.job("old", "SUCCEEDED")
        server.job("new", "RUNNING")
        server.job("newest", "FAILED")
        yield server
        server.is_stopped = True
        server.shutdown()
        thread.join()


@pytest.fixture
def grpo(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: str) -> tuple[int, str, str]:
        code = cli.main(["watch", *words])
        return code, *capsys.readouterr()

    return run


def numbers(out: str) -> list[str]:
    return re.findall(r"^step (\d+) ", out, re.MULTILINE)


@pytest.mark.parametrize(
    ("url", "job"),
    [("", "new"), ("/", "new"), ("/#/jobs/old", "old"), ("/api/jobs/old", "old"), ("/api/jobs/old/", "old")],
)
def test_the_job_comes_from_the_url_or_is_the_newest_running_one(grpo: Run, ray: Dashboard, url: str, job: str) -> None:
    ray.log = TEXT
    code, out, err = grpo(ray.url + url)
    assert (code, numbers(out), err) == (0, ["1", "2", "3"], "3 steps, 0 findings\n")
    assert f"node_id=n&submission_id={job}&" in ray.asked[-1]


def test_a_dashboard_served_below_a_path_is_supported(grpo: Run, ray: Dashboard) -> None:
    ray.log, ray.prefix = TEXT, "/teams/rl"
    for page in ("", "/", "/#/jobs/old", "/api/jobs/old"):
        assert numbers(grpo(f"{ray.url}/teams/rl{page}")[1]) == ["1", "2", "3"]


def test_a_job_is_followed_to_its_end_through_lost_connections(grpo: Run, ray: Dashboard) -> None:
    ray.log, ray.cuts = TEXT[:MIDDLE], [MIDDLE - 700, MIDDLE - 100]

    def run() -> None:
        # Both connections that are cut are lost, and the third one has all there is.
        until(lambda: sum("/logs/stream?" in path for path in ray.asked) > 2)
        ray.log = TEXT
        ray.job("new", "SUCCEEDED")

    thread = threading.Thread(target=run)
    thread.start()
    code, out, err = grpo(ray.url, "--follow")
    thread.join()
    assert (code, numbers(out)) == (0, ["1", "2", "3"])
    lost = f"grpo: {ray.url} does not answer any more: "
    # A connection ends in more than one way.
    *told, ended, summary = err.splitlines()
    assert [line for line in told if not (line.startswith(lost) and line.endswith("; trying again"))] == []
    assert told
    assert (ended, summary) == (f"grpo: {ray.url} has ended: job new is SUCCEEDED", "3 steps, 0 findings")
    assert "/logs/file?" in ray.asked[-1]


def test_a_log_cut_off_by_the_connection_is_an_error(grpo: Run, ray: Dashboard) -> None:
    ray.log, ray.cuts = TEXT, [MIDDLE + 10]
    code, out, err = grpo(ray.url)
    assert (code, numbers(out)) == (3, ["1"])
    assert err.startswith(f"{ray.url} does not answer any more: ")


def test_the_token_is_read_from_the_environment_or_a_file(
    grpo: Run, ray: Dashboard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray.log, ray.token = TEXT, TOKEN
    code, _, err = grpo(ray.url)
    assert (code, err.splitlines()[0]) == (3, f"{ray.url} requires a token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "another")
    assert grpo(ray.url)[2].startswith(f"{ray.url} refuses this token\n")
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    assert grpo(ray.url, "--token-file", str(tmp_path / "token"))[0] == 0
    monkeypatch.setenv("RAY_AUTH_TOKEN", TOKEN)
    code, out, err = grpo(ray.url)
    assert (code, TOKEN in out + err) == (0, False)
    monkeypatch.setenv("RAY_AUTH_TOKEN", f"{TOKEN}\r\nX: y")
    code, out, err = grpo(ray.url)
    assert (code, TOKEN in out + err) == (2, False)
    assert err == (
        "the token has characters that no HTTP header can have\n"
        "  fix: remove blanks and line breaks from RAY_AUTH_TOKEN or the token file\n"
    )
    code, _, err = grpo(ray.url, "--token-file", str(tmp_path / "none"))
    assert (code, err) == (3, f"--token-file {tmp_path / 'none'} cannot be read: No such file or directory\n")


def test_the_token_is_not_sent_to_a_redirect_target(grpo: Run, ray: Dashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", TOKEN)
    ray.redirect = f"{ray.url.replace('127.0.0.1', 'localhost')}/elsewhere"
    code, _, err = grpo(ray.url)
    assert (code, err.splitlines()[0]) == (3, f"{ray.url} answers with HTTP 302")
    assert ray.asked == ["/api/jobs/"]


def test_a_missing_job_or_output_is_reported_clearly(grpo: Run, ray: Dashboard) -> None:
    assert grpo(f"{ray.url}/#/jobs/none")[2].startswith(f"{ray.url} has no job none\n  fix: ")
    ray.job("new", "PENDING", driver_node_id=None)
    code, _, err = grpo(ray.url)
    assert (code, err.splitlines()[0]) == (2, f"{ray.url} has no output yet: job new is PENDING")
    ray.job("new", "FAILED", driver_node_id=None, message="no module x")
    assert "its output is not there: job new is FAILED: no module x\n" in grpo(f"{ray.url}/#/jobs/new")[2]
    ray.jobs = {}
    code, _, err = grpo(ray.url)
    assert (code, err.splitlines()[0]) == (3, f"{ray.url} has no submitted job")


def test_a_server_that_is_not_a_dashboard_is_refused(grpo: Run, ray: Dashboard) -> None:
    ray.jobs["new"] = []  # type: ignore[assignment]
    code, _, err = grpo(f"{ray.url}/#/jobs/new")
    assert (code, err.splitlines()[0]) == (3, f"{ray.url} does not answer as Ray's dashboard does")


def test_a_url_with_a_password_is_refused_without_showing_it(grpo: Run) -> None:
    code, out, err = grpo(f"http://me:{TOKEN}@127.0.0.1:1")
    assert (code, out, TOKEN in err) == (2, "", False)
    assert "fix: give the token in RAY_AUTH_TOKEN or --token-file" in err


def test_an_unreachable_dashboard_is_reported_in_time(grpo: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_jobs, "PATIENCE", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        code, _, err = grpo(url, "--follow")
        assert (code, err.splitlines()[0]) == (3, f"{url} cannot be reached: no answer within 0 s")
    assert grpo(url)[2].startswith(f"{url} cannot be reached: Connection refused\n")
