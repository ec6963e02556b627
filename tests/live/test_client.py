"""The API server as kubectl reaches it by a kubeconfig: what cannot be used is said in words, and nothing stays."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from grpo.cli import main as cli
from grpo.helm import proxy
from grpo.helm.proxy import Proxy
from grpo.live import client
from grpo.live.client import Cluster, RefusedError
from postrender.errors import ClusterError
from tests import kubectl as stand_in
from tests.conftest import ROOT, require_tool

PLUGIN = {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never"}
LONG = 120.0


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the real kubectl on PATH; return the path of a kubeconfig to write."""
    monkeypatch.setenv("PATH", str(require_tool("kubectl").parent), prepend=":")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", "")
    return tmp_path / "config"


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Put the stand-in on PATH, with an API server; return its folder."""
    stand_in.put(tmp_path, monkeypatch)
    monkeypatch.setattr(client, "_TIMEOUT_SECONDS", LONG)
    with stand_in.serving(tmp_path, lambda _: (200, '{"major": "1"}')):
        yield tmp_path


def kubeconfig(path: Path, user: dict[str, Any], *, server: str = "https://127.0.0.1:1", current: str = "c") -> str:
    path.write_text(stand_in.kubeconfig(server, user, current=current))
    return str(path)


def fails(**options: str | None) -> ClusterError:
    """Return the error of a connection that cannot be made."""
    with pytest.raises(ClusterError) as caught, client.connect(**options):
        pass
    return caught.value


def plugin(script: str) -> dict[str, Any]:
    return {"exec": {**PLUGIN, "command": "sh", "args": ["-c", script]}}


@pytest.mark.parametrize(
    "text",
    [
        "a: [b",
        "# Title\n\nSome text: with a colon: here.\n",
        "\t- x",
        "just words",
        "- a\n- b\n",
        "3",
        "{}",
        "",
        "{contexts: []}",
        "contexts: 3\ncurrent-context: x\n",
        "contexts: [3]\ncurrent-context: x\n",
        "contexts: [{context: {}}]\ncurrent-context: x\n",
        "contexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n",
        "contexts: [{name: x}]\ncurrent-context: x\n",
        b"\xff\xfea\0:\0",
        b"a\0",
    ],
)
def test_a_malformed_kubeconfig_is_reported_in_one_line(text: str | bytes, kubectl: Path) -> None:
    kubectl.write_bytes(text if isinstance(text, bytes) else text.encode())
    said = fails(kubeconfig=str(kubectl)).message.removeprefix(f"the kubeconfig {kubectl} ")
    assert re.fullmatch(r"cannot be used: [^\n]+|has no current context|has no context 'x'", said)


@pytest.mark.parametrize("named", [True, False])
def test_a_missing_kubeconfig_is_reported(named: bool, kubectl: Path) -> None:
    error = fails(kubeconfig=str(kubectl) if named else None)
    assert error.message == f"there is no kubeconfig: {kubectl if named else '~/.kube/config'} does not exist"
    assert "gcloud container clusters get-credentials" in error.fix


def test_the_named_context_is_used_or_else_the_current_one(kubectl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", kubeconfig(kubectl, {"token": "t"}, current=""))
    assert "has no current context" in fails().message
    error = fails(context="y")
    assert "has no context 'y'" in error.message
    assert error.fix == "its contexts are c"
    with client.connect(context="c") as named:
        assert (named.context, named.namespace) == ("c", "rl")
    kubeconfig(kubectl, {"token": "t"})
    with client.connect(namespace="other") as named:
        assert named.namespace == "other"


def test_a_context_needs_no_user(played: Path) -> None:
    """Kubectl asks without credentials then, as an API server behind a proxy that has them wants it."""
    config = json.loads((played / "kubeconfig").read_text())
    del config["contexts"][0]["context"]["user"]
    (played / "kubeconfig").write_text(json.dumps(config))
    with client.connect() as cluster:
        assert cluster.get("/version") == {"major": "1"}


def test_a_message_shows_nothing_from_a_malformed_kubeconfig(kubectl: Path) -> None:
    kubectl.write_text("users:\n- token: very-secret: 1\n")
    error = fails(kubeconfig=str(kubectl))
    assert "line 2" in error.message
    assert "very-secret" not in str(error)
    kubectl.write_text(stand_in.kubeconfig("https://127.0.0.1:1", {"token": "very-secret"}).replace('"u"', '"v"', 1))
    error = fails(kubeconfig=str(kubectl))
    assert error.message.endswith("cannot be used: its context 'c' names the user 'v', which is not there")
    assert "very-secret" not in str(error)


GCLOUD = (
    "ERROR: (gcloud.config.config-helper) You do not have an active account.\\nPlease run:\\n\\n  $ gcloud auth login"
)
BAD_TOKEN = json.dumps({**PLUGIN, "kind": "ExecCredential", "status": {}})


@pytest.mark.parametrize(
    ("user", "said"),
    [
        (
            plugin(f"printf '{GCLOUD}' >&2; exit 1"),
            "exec: executable sh failed with exit code 1: ERROR: (gcloud.config.config-helper) You do not have an "
            "active account. Please run: $ gcloud auth login",
        ),
        ({"exec": {**PLUGIN, "command": "no-plugin"}}, "exec: executable no-plugin not found It looks like "),
        (plugin("echo words"), "decoding stdout: couldn't get version/kind; json parse error: "),
        (plugin(f"echo '{BAD_TOKEN}'"), "exec plugin didn't return a token or cert/key pair"),
    ],
)
def test_a_credential_programs_error_is_reported(
    user: dict[str, Any], said: str, kubectl: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    error = fails(kubeconfig=kubeconfig(kubectl, user))
    assert error.message.startswith(f"the credential program of the context 'c' has failed: {said}")
    assert "log in again" in error.fix
    assert capfd.readouterr() == ("", "")


def test_a_credential_program_runs_once_for_all_questions(kubectl: Path) -> None:
    """And what it says beside the token is nobody's concern; here no server takes the token."""
    token = json.dumps({"apiVersion": PLUGIN["apiVersion"], "kind": "ExecCredential", "status": {"token": "t"}})
    script = f"echo warned >&2; echo once >> {kubectl.parent}/runs; echo '{token}'"
    with client.connect(kubeconfig=kubeconfig(kubectl, plugin(script))) as cluster:
        for _ in range(3):
            with pytest.raises(RefusedError, match="connection refused"):
                cluster.get("/version")
    assert (kubectl.parent / "runs").read_text() == "once\n"


@pytest.fixture
def port() -> Iterator[int]:
    """Play an API server without TLS that forbids all; return its port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            self.send_response(403)
            self.end_headers()
            self.wfile.write(b'{"kind": "Status", "message": "not you", "code": 403}')

        def do_POST(self) -> None:
            self.do_GET()

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("scheme", "get", "execute"),
    [
        # As with a wrong certificate.
        ("https", r"tls: .+", r"exec in p: kubectl failed: .+"),
        ("http", "not you", r"exec in p: kubectl failed: .*not you.*"),
    ],
)
def test_a_refused_requests_reason_is_reported(scheme: str, get: str, execute: str, port: int, kubectl: Path) -> None:
    path = kubeconfig(kubectl, {"token": "t"}, server=f"{scheme}://127.0.0.1:{port}")
    with client.connect(kubeconfig=path) as cluster:
        with pytest.raises(RefusedError) as caught:
            cluster.get("/api")
        assert re.fullmatch(get, str(caught.value))
        with pytest.raises(RefusedError) as caught:
            cluster.review({"verb": "get"})
        assert re.fullmatch(get, str(caught.value))
        with pytest.raises(RefusedError) as caught:
            cluster.execute("p", "c", ["true"])
        assert re.fullmatch(execute, str(caught.value))


def test_a_token_that_no_header_can_carry_is_rejected_without_a_traceback(kubectl: Path) -> None:
    path = kubeconfig(kubectl, {"token": "abc\n"}, server="https://127.0.0.1:1")
    with client.connect(kubeconfig=path) as cluster, pytest.raises(RefusedError, match="invalid header field value"):
        cluster.get("/version")


def test_without_kubectl_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    words = ["-f", "values/recipes/gemma3-27b-gsm8k.yaml", "-f", "values/examples/site.yaml", "--accelerator", "b200"]
    assert cli.main(["doctor", *words]) == 3
    said = capsys.readouterr().err
    assert "cannot run kubectl: No such file or directory" in said
    assert "fix: install kubectl" in said


def is_alive(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def running(folder: Path, name: str) -> list[int]:
    """Return the processes that the stand-in has noted in a file."""
    return [*map(int, (folder / name).read_text().split())] if (folder / name).exists() else []


def proxies(folder: Path) -> list[int]:
    return running(folder, "proxies")


def test_the_socket_is_nobody_elses_and_nothing_stays(
    played: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "short").mkdir()
    folders = Path(tempfile.mkdtemp())
    monkeypatch.setattr(tempfile, "tempdir", str(folders))
    with client.connect() as cluster:
        assert cluster.get("/version") == {"major": "1"}
        (pid,) = proxies(played)
        (folder,) = folders.iterdir()
        assert is_alive(pid)
        assert folder.stat().st_mode & 0o777 == 0o700
        assert [each.name for each in folder.iterdir()] == ["kubectl"]
    assert not is_alive(pid)
    assert not list(folders.iterdir())
    with pytest.raises(RefusedError, match="No such file or directory"):
        cluster.get("/version")
    with pytest.raises(RefusedError, match="exec in p: it is too late"):
        cluster.execute("p", "c", ["true"])
    folders.rmdir()


def test_a_folder_with_a_long_name_holds_no_socket(
    played: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ("x" * 100)).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("x" * 100)))
    with client.connect() as cluster:
        assert cluster.get("/version") == {"major": "1"}


@pytest.mark.parametrize("error", [KeyboardInterrupt, ClusterError("no"), MemoryError])
def test_an_error_ends_the_proxy_and_the_programs_in_pods(
    played: Path, error: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HANGS", "exec")
    refused, threads = list[str](), list[threading.Thread]()

    def hang(cluster: Cluster) -> None:
        try:
            cluster.execute("p", "c", ["true"])
        except RefusedError as refusal:
            refused.append(str(refusal))

    def fail() -> None:
        with client.connect() as cluster:
            threads.append(threading.Thread(target=hang, args=(cluster,)))
            threads[0].start()
            until(lambda: running(played, "logins"))
            raise error

    with pytest.raises((KeyboardInterrupt, ClusterError, MemoryError)):
        fail()
    threads[0].join(LONG)
    assert len(refused) == 1
    until(lambda: not any(map(is_alive, [*running(played, "proxies"), *running(played, "logins")])))


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_proxy(played: Path, number: signal.Signals) -> None:
    """The API server does not answer, and nobody else than the command can end it."""
    over = threading.Event()
    words = [sys.executable, "-m", "grpo.cli", "status", "--accelerator", "b200", "--watch", "1"]
    files = ["-f", "values/recipes/gemma3-27b-gsm8k.yaml", "-f", "values/examples/site.yaml"]

    def answer(_: str) -> tuple[int, str]:
        over.wait(LONG)
        return 404, "{}"

    with (
        stand_in.serving(played, answer),
        subprocess.Popen(
            [*words, *files],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Whoever started the tests may ignore it.
            preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # noqa: PLW1509
        ) as running,
    ):
        try:
            until((played / "proxies").exists)
            (pid,) = proxies(played)
            running.send_signal(number)
            _, said = running.communicate(timeout=LONG)
        finally:
            running.kill()
            over.set()
    assert (running.returncode, said) == (130 if number == signal.SIGINT else 128 + number, b"")
    assert not is_alive(pid)


def test_two_commands_at_once_do_not_meet(played: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with client.connect() as first:
        stand_in.put(other, monkeypatch)
        with stand_in.serving(other, lambda _: (200, '{"major": "2"}')), client.connect() as second:
            assert (first.get("/version"), second.get("/version")) == ({"major": "1"}, {"major": "2"})
        assert first.get("/version") == {"major": "1"}
        assert not any(map(is_alive, proxies(other)))


@pytest.mark.parametrize("asks", [True, False])
def test_a_login_is_waited_for_and_a_silent_server_is_not(
    played: Path, asks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    over, asked = threading.Event(), list[float]()

    def answer(_: str) -> tuple[int, str]:
        asked.append(time.monotonic())
        if not asks or len(asked) < 5:
            over.wait(LONG)
        return 200, "{}"

    monkeypatch.setattr(client, "_TIMEOUT_SECONDS", 0.1)
    monkeypatch.setattr(Proxy, "logs_in", lambda _: asks)
    with stand_in.serving(played, answer, {"exec": PLUGIN}):
        try:
            if asks:
                with client.connect():
                    assert len(asked) == 5
            else:
                said = "nothing can be read from the API server of the context 'c': no answer within 0 s"
                assert fails().message == said
                assert len(asked) == 2
        finally:
            over.set()


def test_a_login_is_a_process_that_kubectl_has_started(kubectl: Path) -> None:
    """The proxy of a kubectl that is asked for nothing has started none."""
    kubeconfig(kubectl, plugin(f"touch {kubectl.parent}/started; exec sleep 3600"))
    with proxy.running(["--context", "c", "--kubeconfig", str(kubectl)]) as server:
        assert not server.logs_in()
        with pytest.raises(TimeoutError):
            server.ask("GET", "/version", {}, 2.0)
        until((kubectl.parent / "started").exists)
        assert server.logs_in()
        login = int(subprocess.check_output(["pgrep", "-P", str(server.process)]))
    until(lambda: not is_alive(login))


def test_a_login_is_seen_without_pgrep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slim images have none: a question that nobody can answer would be asked for ever."""
    with subprocess.Popen(["sh", "-c", "sleep 3600 & echo $!; wait"], stdout=subprocess.PIPE, text=True) as kubectl:
        assert kubectl.stdout
        login = int(kubectl.stdout.readline())
        monkeypatch.setenv("PATH", str(tmp_path))
        try:
            assert [proxy.has_child(each) for each in (kubectl.pid, login)] == [True, False]
        finally:
            kubectl.kill()
            os.kill(login, signal.SIGKILL)


def test_a_kubectl_that_does_not_listen(played: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANGS", "proxy")
    monkeypatch.setattr(proxy, "_START_SECONDS", 0.1)
    assert fails().message == "kubectl proxy does not listen within 0 s"


def test_a_kubectl_that_ends_says_why(played: Path) -> None:
    (played / "refuses-proxy").write_text('error: unknown command "proxy"')
    assert fails().message == 'kubectl failed: error: unknown command "proxy"'


LOGIN = (
    "WARNING: the token is old\nE1130 17:36:12.117094     780 proxy_server.go:147] Error\nEnter the code in a browser: "
)


def test_a_warning_of_kubectl_is_no_line_in_a_pipe(played: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (played / "login").write_text(LOGIN)
    with client.connect() as cluster:
        assert cluster.get("/version") == {"major": "1"}
    assert capfd.readouterr() == ("", "")


def test_a_login_can_ask_a_person_on_the_terminal(played: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubectl's own notes are left out; a prompt has no end of a line."""
    (played / "login").write_text(LOGIN)
    ours, theirs = pty.openpty()
    with open(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with client.connect():
            seen = b""
            while b"browser: " not in seen:
                seen += os.read(ours, 4096)
    os.close(ours)
    assert seen.replace(b"\r", b"") == b"WARNING: the token is old\nEnter the code in a browser: "
