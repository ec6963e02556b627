"""The program before an upgrade of a cluster: what it compares, what it asks the head, and when it refuses."""

from __future__ import annotations

import contextlib
import io
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.played import Clock
from tests.programs import PROGRAMS

from .harness import load_program
from .tasks import Done

PROGRAM = PROGRAMS["check_idle"]
PODS = {"image of the head": "a1", "environment of the workers": "b2", "pod of the workers": "c3"}
RUNS = [{"submission_id": "gemma-1-abc", "status": "RUNNING"}, {"submission_id": "old", "status": "SUCCEEDED"}]
CHANGED = {**PODS, "pod of the workers": "d4", "image of the head": "e5"}


class Head(ThreadingHTTPServer):
    """A head that answers /api/jobs/ with a status and a text, and remembers the token."""

    status, text, token = 200, "[]", ""
    # Those of the next answers.
    statuses: tuple[int, ...] = ()


@pytest.fixture
def head() -> Iterator[Head]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.token = self.headers.get("Authorization", "")
            status, *rest = (*server.statuses, server.status)
            server.statuses = tuple(rest[:-1])
            self.send_response(status)
            self.end_headers()
            self.wfile.write(server.text.encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = Head(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def lay(folder: Path, pods: Any, workers: int, now: Any) -> None:
    """Write what the release has, and what the upgrade brings."""
    for name, tree, number in (("now", now, 2), ("next", pods, workers)):
        (folder / name).mkdir(exist_ok=True)
        if tree is not None:
            (folder / name / "pods.json").write_text(json.dumps(tree))
            (folder / name / "workers").write_text(str(number))


def check(
    folder: Path,
    port: int,
    pods: Any,
    workers: int = 2,
    now: Any = PODS,
    token: str = "",
    answer: Callable[..., Any] | None = None,
    **said: object,
) -> Done:
    """Run the program with folders of its own, and with a clock of its own; `answer` takes the place of the head."""
    lay(folder, pods, workers, now)
    plan = {"address": f"127.0.0.1:{port}", "cluster": "demo-ray", "queue": "", "replaces": True, **said}
    program, out = load_program("check_idle"), io.StringIO()
    program.NOW, program.NEXT, program.time = folder / "now", folder / "next", Clock()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
        patch.setenv("RAY_AUTH_TOKEN", token)
        if answer:
            patch.setattr(program.socket, "create_connection", answer)
        try:
            program.main(json.dumps(plan))
        except program.RefusedError as error:
            return Done(1, out.getvalue(), f"grpo: {error}")
    return Done(0, out.getvalue())


def test_the_hook_program_prints_one_sentence_and_exits_with_1(head: Head, tmp_path: Path) -> None:
    """As the hook starts it: text, a plan, and nothing of these tests."""
    lay(tmp_path, CHANGED, 2, PODS)
    head.text = json.dumps(RUNS)
    text = PROGRAM.read_text(encoding="utf-8")
    text = text.replace('"/release"', repr(str(tmp_path / "now"))).replace('"/upgrade"', repr(str(tmp_path / "next")))
    plan = {"address": f"127.0.0.1:{head.server_port}", "cluster": "demo-ray", "queue": "", "replaces": True}
    command = [sys.executable, "-I", "-c", text, json.dumps(plan)]
    done = subprocess.run(command, env={"RAY_AUTH_TOKEN": ""}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("grpo: gemma-1-abc (RUNNING) runs on RayCluster demo-ray, and this upgrade would")


def test_unchanged_pods_need_no_query(tmp_path: Path) -> None:
    done = check(tmp_path, 1, PODS, workers=3)
    assert (done.code, done.output) == (0, "grpo: the pods of the cluster stay as they are\n")


def test_one_more_worker_stops_a_queued_cluster(head: Head, tmp_path: Path) -> None:
    head.text = json.dumps(RUNS)
    done = check(tmp_path, head.server_port, PODS, workers=3, queue="gpus")
    assert done.code == 1
    assert (
        "It changes: 2 workers become 3. Kueue stops the cluster for it, and then the cluster waits in" in done.errors
    )


def test_the_message_for_an_idle_queued_cluster_explains_what_kueue_does(head: Head, tmp_path: Path) -> None:
    done = check(tmp_path, head.server_port, CHANGED, queue="gpus")
    assert done.code == 0
    assert done.output == (
        "grpo: no job runs on the cluster, so its pods may be replaced. Kueue stops the cluster for it, and then the "
        "cluster waits in LocalQueue gpus again: a stack that waits there already may get its GPUs first.\n"
    )


@pytest.mark.parametrize(
    ("pods", "workers", "now", "what"),
    [
        (
            CHANGED,
            2,
            PODS,
            "image of the head, pod of the workers",
        ),
        (PODS, 1, PODS, "2 workers become 1"),
        ({**PODS, "a new part": "f6"}, 2, PODS, "a new part"),
        (PODS, 2, None, "everything, because the release is older than this check"),
    ],
)
def test_a_running_job_blocks_the_upgrade(
    pods: Any, workers: int, now: Any, what: str, head: Head, tmp_path: Path
) -> None:
    head.text = json.dumps(RUNS)
    done = check(tmp_path, head.server_port, pods, workers, now, token="let-me-in")
    assert (done.code, done.output) == (1, "")
    assert done.errors.startswith(
        f"grpo: gemma-1-abc (RUNNING) runs on RayCluster demo-ray, and this upgrade would end it. It changes: {what}. "
    )
    assert head.token == "Bearer let-me-in"


def test_an_idle_cluster_may_be_changed(head: Head, tmp_path: Path) -> None:
    head.text = json.dumps(RUNS[1:])
    done = check(tmp_path, head.server_port, CHANGED)
    assert (done.code, done.output) == (0, "grpo: no job runs on the cluster, so its pods may be replaced.\n")


def test_a_cluster_without_a_head_may_be_changed(tmp_path: Path) -> None:
    done = check(tmp_path, 1, CHANGED)
    assert (done.code, done.output) == (
        0,
        "grpo: the Ray head at 127.0.0.1:1 lists no jobs yet, so it is asked for 30 s\n"
        "grpo: no job runs on the cluster, so its pods may be replaced.\n",
    )


@pytest.mark.parametrize(
    ("status", "said"),
    [(401, "requires a token: RAY_AUTH_TOKEN is missing or wrong"), (500, "does not say whether a job runs")],
)
def test_a_head_without_a_usable_answer_blocks_the_upgrade(status: int, said: str, head: Head, tmp_path: Path) -> None:
    head.status = status
    done = check(tmp_path, head.server_port, CHANGED, token="let-me-in")
    assert done.code == 1
    assert said in done.errors
    assert "let-me-in" not in done.errors


def test_a_busy_resolver_is_not_taken_for_a_missing_head(tmp_path: Path) -> None:
    """The name of a cluster that is gone is unknown to it; any other answer says nothing."""

    def refuse(number: int) -> Callable[..., None]:
        def resolve(*_: object, **__: object) -> None:
            raise socket.gaierror(number, "busy")

        return resolve

    done = check(tmp_path, 1, CHANGED, answer=refuse(socket.EAI_AGAIN))
    assert (done.code, "does not say whether a job runs: [Errno -3] busy" in done.errors) == (1, True)
    assert check(tmp_path, 1, CHANGED, answer=refuse(socket.EAI_NONAME)).code == 0


@pytest.mark.parametrize("absent", [socket.gaierror(socket.EAI_NONAME, "unknown"), ConnectionRefusedError()])
def test_a_head_that_is_absent_for_some_seconds_is_queried_again(absent: OSError, head: Head, tmp_path: Path) -> None:
    """A head whose pod is not ready for a moment has no name, but its job runs."""
    head.text = json.dumps(RUNS)
    connect, refused = socket.create_connection, iter([absent] * 20)

    def answer(*words: Any, **more: Any) -> socket.socket:
        if error := next(refused, None):
            raise error
        return connect(*words, **more)

    assert check(tmp_path, head.server_port, CHANGED, answer=answer).code == 1


def test_a_head_that_just_started_is_queried_again(head: Head, tmp_path: Path) -> None:
    head.statuses = (500, 500)
    assert check(tmp_path, head.server_port, CHANGED).code == 0
    assert head.statuses == ()


def test_a_job_is_found_on_a_cluster_about_to_be_renamed(head: Head, tmp_path: Path) -> None:
    """The upgrade would delete it and make a new one."""
    head.text = json.dumps(RUNS)
    (tmp_path / "now").mkdir()
    (tmp_path / "now" / "cluster").write_text("127.0.0.1")
    done = check(tmp_path, head.server_port, PODS, address=f"other-ray:{head.server_port}", cluster="other-ray")
    assert done.code == 1
    assert "runs on RayCluster 127.0.0.1" in done.errors
    assert "It changes: the name of the cluster, which becomes other-ray. " in done.errors


@pytest.mark.parametrize(("workers", "code"), [(2, 0), (1, 1)])
def test_with_manual_replacement_pods_may_change_but_not_be_removed(
    workers: int, code: int, head: Head, tmp_path: Path
) -> None:
    head.text = json.dumps(RUNS)
    assert check(tmp_path, head.server_port, CHANGED, workers, replaces=False).code == code
