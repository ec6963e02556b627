"""API servers that answer badly, or not at all."""

from __future__ import annotations

import contextlib
import functools
import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from grpo import deadline
from grpo.cli import live
from grpo.cli import main as cli
from grpo.cluster.evidence import Evidence
from grpo.cluster.expected import Expected
from grpo.deadline import Deadline
from grpo.live import client, collection, submission
from grpo.live.client import Cluster
from grpo.live.queries import Queries
from grpo.live.status.summary import sum_up
from postrender.errors import ClusterError
from tests import kubectl as stand_in
from tests.conftest import require_tool
from tests.kubectl import Answer

TOKEN = "hf_" + "aB3" * 8
Play = Callable[[Answer], Cluster]


# Seconds for what may not run out: only what hangs takes so long.
LONG = 600.0


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no answer be late because the machine is busy."""
    monkeypatch.setattr(deadline, "PATIENCE", LONG)
    monkeypatch.setattr(client, "_TIMEOUT_SECONDS", LONG)


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Play]:
    """Start an API server that answers each path as a function says."""
    stand_in.put(tmp_path, monkeypatch)
    with contextlib.ExitStack() as running:

        def start(answer: Answer) -> Cluster:
            running.enter_context(stand_in.serving(tmp_path, answer))
            return running.enter_context(client.connect())

        yield start


@pytest.fixture
def real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Put kubectl on PATH; the result writes a kubeconfig and returns its path."""
    monkeypatch.setenv("PATH", str(require_tool("kubectl").parent), prepend=":")

    def write(user: dict[str, Any] | None = None) -> str:
        (tmp_path / "config").write_text(stand_in.kubeconfig("https://127.0.0.1:1", user))
        return str(tmp_path / "config")

    return write


EXPECTED = Expected("s", "rl", {"raycluster": "s-ray"}, {"raycluster": []})


def gather(cluster: Cluster, expected: Expected, *, with_logs: bool = False) -> Evidence:
    """Collect the evidence about a stack that is rendered at once."""
    return collection.collect(cluster, expected.name, lambda: expected, with_logs=with_logs)


@pytest.mark.parametrize(
    ("status", "text", "said"),
    [
        (401, json.dumps({"message": "Unauthorized"}), "Unauthorized"),
        (500, f"broken {TOKEN}", "the API server answers with status 500"),
        (200, "<html>log in</html>", "the answer is not JSON: is this the API server?"),
        (404, "{}", "it answered 404 to every request; is this a Kubernetes API server?"),
    ],
)
def test_a_server_that_lets_nothing_be_read_is_an_error(play: Play, status: int, text: str, said: str) -> None:
    """Otherwise every check would be "not checked", and the exit code 0."""
    with pytest.raises(ClusterError, match="nothing can be read") as error:
        gather(play(lambda _: (status, text)), EXPECTED)
    assert said in str(error.value)
    assert TOKEN not in str(error.value)


def test_an_unreachable_server_is_reported(real: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--accelerator", "b200", "-f", recipe(), "-f", site(), "--kubeconfig", real()]) == 3
    assert "connection refused" in capsys.readouterr().err


class Timer:
    """A timer whose time is over as soon as it starts; the login ends after that."""

    def __init__(self, seconds: float, function: Callable[[], object], over: Path) -> None:
        self.seconds, self.function, self.over = seconds, function, over

    def start(self) -> None:
        assert self.seconds == deadline.PATIENCE
        self.function()
        self.over.touch()

    def cancel(self) -> None:
        """Do nothing: it is over."""


def test_a_slow_login_is_reported(
    real: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may wait for a person in a browser, so it is not stopped."""
    # Where nobody says it, it ends all the same.
    script = 'n=0; until [ -e "$0" ] || [ $n = 6000 ]; do sleep 0.02; n=$((n + 1)); done; exit 1'
    program = {"command": "sh", "args": ["-c", script, str(tmp_path / "over")], "interactiveMode": "Never"}
    path = real({"exec": {"apiVersion": "client.authentication.k8s.io/v1", **program}})
    monkeypatch.setattr(live.threading, "Timer", functools.partial(Timer, over=tmp_path / "over"))
    words = ["doctor", "--accelerator", "b200", "-f", recipe(), "-f", site(), "--kubeconfig", path]
    assert cli.main(words) == 3
    said = capsys.readouterr().err
    assert said.startswith("grpo: still waiting for the credential program that the kubeconfig starts")
    assert "the credential program of the context 'c' has failed: exec: executable sh failed with exit code 1" in said


def recipe() -> str:
    return "values/recipes/gemma3-27b-gsm8k.yaml"


def site() -> str:
    return "values/examples/site.yaml"


@pytest.mark.parametrize("answer", [{"items": None}, {"items": [None, {"metadata": None, "spec": None}]}, []])
def test_malformed_answers_are_tolerated(play: Play, answer: object) -> None:
    found = gather(play(lambda _: (200, json.dumps(answer))), EXPECTED)
    assert sum_up(found).cluster == "not there"


def test_a_forbidden_kind_is_named_and_the_rest_is_read(play: Play) -> None:
    def answer(path: str) -> tuple[int, str]:
        if path.startswith("/api/v1/nodes"):
            return 403, json.dumps({"message": f"nodes is forbidden: User {TOKEN}"})
        if "kueue" in path:
            return 404, "{}"
        return 200, json.dumps({"items": [{"metadata": {"name": "a"}}]})

    found = gather(play(answer), EXPECTED)
    assert list(found.unread) == ["nodes"]
    assert TOKEN not in found.unread["nodes"]
    assert "workloads" not in found.objects
    assert len(found.of("pods")) == 1


def test_a_long_list_is_read_page_by_page(play: Play) -> None:
    def answer(path: str) -> tuple[int, str]:
        last = "continue=next" in path
        page = {
            "items": [{"metadata": {"name": "b" if last else "a"}}],
            "metadata": {} if last else {"continue": "next"},
        }
        return 200, json.dumps(page)

    assert [each["metadata"]["name"] for each in gather(play(answer), EXPECTED).of("nodes")] == ["a", "b"]


@pytest.mark.parametrize(
    ("served", "found"),
    [(("v1beta2", "v1beta1"), ["v1beta2"]), (("v1beta2",), ["v1beta2"]), (("v1beta1",), ["v1beta1"]), ((), [])],
)
def test_kueue_is_read_at_its_newest_served_version(play: Play, served: tuple[str, ...], found: list[str]) -> None:
    def answer(path: str) -> tuple[int, str]:
        version = path.split("/")[3] if "kueue" in path else ""
        if version and version not in served:
            return 404, "{}"
        return 200, json.dumps({"items": [{"metadata": {"name": version}}]})

    evidence = gather(play(answer), EXPECTED)
    for kind in ("workloads", "localqueues", "clusterqueues", "resourceflavors", "topologies"):
        assert [each["metadata"]["name"] for each in evidence.of(kind)] == found
    assert not evidence.unread


def test_a_forbidden_list_is_not_requested_again_at_an_older_version(play: Play) -> None:
    asked = []

    def answer(path: str) -> tuple[int, str]:
        if "clusterqueues" in path:
            asked.append(path)
            return 403, json.dumps({"message": "no"})
        return 200, "{}"

    assert gather(play(answer), EXPECTED).unread == {"clusterqueues": "no"}
    assert len(asked) == 1


def test_logs_of_ended_containers_and_of_the_operator_are_read_without_secrets(play: Play) -> None:
    ended = {"name": "ray", "state": {}, "lastState": {"terminated": {"exitCode": 1}}}
    pod = {"metadata": {"name": "s-ray-0", "namespace": "rl"}, "status": {"containerStatuses": [ended]}}
    operator = {"metadata": {"name": "op", "namespace": "sys"}, "spec": {"containers": [{"name": "manager"}]}}

    def answer(path: str) -> tuple[int, str]:
        if path.startswith("/api/v1/namespaces/rl/pods/s-ray-0/log"):
            assert "previous=true" in path
            return 200, f"OSError: [Errno 28] No space left on device {TOKEN}"
        if path.startswith("/api/v1/namespaces/sys/pods/op/log"):
            return 200, "about run-1 and its head\nabout another one\n"
        if path.startswith("/api/v1/pods?") and "labelSelector" in path:
            return 200, json.dumps({"items": [operator]})
        return 200, json.dumps({"items": [pod] if path.startswith("/api/v1/namespaces/rl/pods") else []})

    job = {"kind": "RayJob", "metadata": {"name": "run-1"}}
    expected = Expected("s", "rl", {"grpo-job": "run"}, {"grpo-job": [job]}, "/data/runs/run")
    found = gather(play(answer), expected, with_logs=True)
    assert found.logs["operator"] == "about run-1 and its head"
    assert found.logs["pod s-ray-0, container ray"].startswith("OSError: [Errno 28]")
    assert TOKEN not in json.dumps(found.logs)
    assert found.unread == {"output.log": "there is no head pod that is ready"}


def test_a_forbidden_log_is_named(play: Play) -> None:
    def answer(path: str) -> tuple[int, str]:
        if path.startswith("/api/v1/pods?") and "labelSelector" in path:
            return 403, json.dumps({"message": "pods is forbidden"})
        return 200, json.dumps({"items": []})

    assert gather(play(answer), EXPECTED, with_logs=True).unread == {"operator": "pods is forbidden"}


HEAD = {
    "metadata": {"name": "s-head", "namespace": "rl", "labels": {"ray.io/node-type": "head"}},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}


def of_pods(path: str) -> bool:
    """Whether the pods of the stack are asked for."""
    return path.startswith("/api/v1/namespaces/rl/pods?")


@pytest.fixture
def silent() -> Iterator[Callable[..., Answer]]:
    """Return what answers at once, but not to a path that has one of some texts in it."""
    over = threading.Event()

    def to(*texts: str) -> Answer:
        def answer(path: str) -> tuple[int, str]:
            if any(text in path for text in texts):
                over.wait(LONG)
            return 200, json.dumps({"items": [HEAD] if of_pods(path) else []})

        return answer

    yield to
    over.set()


class Until(Deadline):
    """A deadline that is over when all have answered but those that never will."""

    def __init__(self, never: set[str]) -> None:
        super().__init__(4.0)
        self.never, self.open = never, list[str]()

    @property
    def left(self) -> float:
        return 0.0 if {*self.open} <= self.never else LONG

    def renew(self) -> None:
        raise AssertionError("no question gets time of its own")


@pytest.fixture
def until(monkeypatch: pytest.MonkeyPatch) -> Callable[[set[str]], Callable[[], Deadline]]:
    """Return what makes the one deadline, which may be asked for once."""
    made: list[Until] = []

    class Watched(Queries):
        def answers(self, deadline: Deadline) -> Iterator[str]:
            made[0].open = self.open
            return super().answers(deadline)

    def make(never: set[str]) -> Callable[[], Deadline]:
        def begin() -> Deadline:
            assert not made
            made.append(Until(never))
            return made[0]

        return begin

    monkeypatch.setattr(collection, "Queries", Watched)
    return make


RUN = Expected("s", "rl", {"grpo-job": "run"}, {"grpo-job": [{"kind": "RayJob", "metadata": {"name": "r"}}]}, "/runs/r")


@pytest.mark.parametrize(
    ("silence", "never", "unread"),
    [
        (["/exec"], {"status.json", "output.log"}, {"status.json", "output.log"}),
        (["/namespaces/rl/pods"], {"pods"}, {"pods", "status.json", "logs of pods"}),
        (["/api/v1/nodes", "/exec"], {"nodes", "status.json", "output.log"}, {"nodes", "status.json", "output.log"}),
    ],
    ids=["programs", "pods", "nodes"],
)
def test_all_requests_share_one_deadline(
    play: Play,
    silent: Any,
    until: Any,
    silence: list[str],
    never: set[str],
    unread: set[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HANGS", "exec" if "/exec" in silence else "")
    found = collection.collect(play(silent(*silence)), "s", lambda: RUN, with_logs=True, deadline=until(never))
    late = {name for name, why in found.unread.items() if "no answer within 4 s" in why or "not asked for" in why}
    assert late == unread


def test_a_slow_list_does_not_prevent_reading_the_record(
    play: Play, silent: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cluster, "execute", lambda *_: '{"step": 7}')
    found = collection.collect(play(silent("/api/v1/nodes")), "s", lambda: RUN, deadline=until({"nodes"}))
    assert (found.record, list(found.unread)) == ({"step": 7}, ["nodes"])


def test_the_cluster_is_queried_while_the_charts_render(play: Play) -> None:
    asked = threading.Event()

    def answer(_: str) -> tuple[int, str]:
        asked.set()
        return 200, json.dumps({"items": [{"metadata": {"name": "a"}}]})

    def render() -> Expected:
        assert asked.wait(LONG)
        return EXPECTED

    assert collection.collect(play(answer), EXPECTED.name, render).of("nodes")


def test_slow_rendering_leaves_less_time_for_the_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer comes within ten seconds."""
    clock, later, limits = time.monotonic, [0.0], []

    def render(*_: object) -> Expected:
        later[0] = 4.5
        return RUN

    def collect(_: Cluster, name: str, render: Callable[[], Expected], **more: Any) -> Evidence:
        render()
        limits.append(more["deadline"]().seconds)
        raise ClusterError(f"stop here: {name}")

    monkeypatch.setattr(time, "monotonic", lambda: clock() + later[0])
    monkeypatch.setattr(deadline, "PATIENCE", 6.0)
    monkeypatch.setattr("grpo.live.rendering.render", render)
    monkeypatch.setattr(collection, "collect", collect)
    stand_in.put(tmp_path, monkeypatch)
    with stand_in.serving(tmp_path, lambda _: (404, "{}")):
        assert cli.main(["why", "-f", recipe(), "-f", site(), "--accelerator", "b200"]) == 3
    assert limits == [3.0]


@pytest.mark.parametrize(
    ("said", "ray", "unread"),
    [
        ('{"status": "FAILED", "message": "exit code 1", "driver_exit_code": 1}', "FAILED", None),
        ("Ray answers GET /api/jobs/run-1-x with 404: no such job\n", None, "Ray answers GET"),
        ("", None, "no answer"),
        ('ERROR: ld.so: object x ignored.\n{"status": "FAILED"}\n', "FAILED", None),
        ("null\n", None, "null"),
    ],
    ids=["known", "unknown", "silent", "with a warning", "no object"],
)
def test_ray_is_queried_for_the_runs_job(
    play: Play, monkeypatch: pytest.MonkeyPatch, said: str, ray: str | None, unread: str | None
) -> None:
    job = {"metadata": {"name": "run-1"}, "status": {"jobId": "run-1-x", "jobStatus": "RUNNING"}}
    asked: list[list[str]] = []

    def answer(path: str) -> tuple[int, str]:
        return 200, json.dumps({"items": [HEAD] if of_pods(path) else [job] if "/rayjobs" in path else []})

    def execute(_: Cluster, pod: str, container: str, words: list[str]) -> str:
        asked.append([pod, container, *words])
        return said if words[-2:] == ["state", "run-1-x"] else ""

    monkeypatch.setattr(Cluster, "execute", execute)
    rendered = {"kind": "RayJob", "metadata": job["metadata"]}
    found = gather(play(answer), Expected("s", "rl", {"grpo-job": "run"}, {"grpo-job": [rendered]}))
    assert [each[:2] for each in asked if each[-1] == "run-1-x"] == [["s-head", "ray-head"]]
    assert (found.ray.get("status"), found.unread.get("job in Ray", "")[:15] or None) == (ray, unread)


def test_the_ray_query_program_says_why_it_has_no_answer() -> None:
    """No head listens here."""
    done = subprocess.run(submission.question("run-1-x"), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.startswith("no answer from the Ray head at 127.0.0.1:8265: ")
