"""The API server as a kubeconfig names it: what cannot be used is said in words."""

from __future__ import annotations

import http.server
import json
import logging
import os
import re
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3

from grpo.live import client
from grpo.live.client import RefusedError
from postrender.errors import ClusterError

pytest.importorskip("kubernetes")
PLUGIN = {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never"}


def kubeconfig(folder: Path, user: dict[str, Any], *, server: str = "https://127.0.0.1:1", current: str = "x") -> str:
    """Write the kubeconfig of a context x in the namespace rl; JSON is YAML."""
    path = folder / "config"
    content = {
        "current-context": current,
        "clusters": [{"name": "x", "cluster": {"server": server}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "u", "namespace": "rl"}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(json.dumps(content))
    return str(path)


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
def test_what_is_no_kubeconfig(text: str | bytes, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ClusterError) as caught:
        client.connect(kubeconfig=str(path))
    said = caught.value.message.removeprefix(f"the kubeconfig {path} ")
    assert re.fullmatch(r"cannot be used: [^\n{]+|has no current context", said)


@pytest.mark.parametrize("named", [True, False])
def test_no_kubeconfig(named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", "")
    path = str(tmp_path / "none")
    with pytest.raises(ClusterError) as caught:
        client.connect(kubeconfig=path if named else None)
    shown = path if named else "~/.kube/config"
    assert caught.value.message == f"there is no kubeconfig: {shown} does not exist"
    assert "gcloud container clusters get-credentials" in caught.value.fix


def test_the_context_that_is_named_or_current(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", kubeconfig(tmp_path, {"token": "t"}, current=""))
    with pytest.raises(ClusterError, match="has no current context"):
        client.connect()
    with pytest.raises(ClusterError, match="has no context 'y'") as caught:
        client.connect(context="y")
    assert caught.value.fix == "its contexts are x"
    named = client.connect(context="x")
    assert (named.context, named.namespace) == ("x", "rl")
    kubeconfig(tmp_path, {"token": "t"})
    assert client.connect(namespace="other").namespace == "other"


def test_a_message_shows_nothing_of_a_broken_kubeconfig(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("users:\n- token: very-secret: 1\n")
    with pytest.raises(ClusterError, match="line 2") as caught:
        client.connect(kubeconfig=str(path))
    assert "very-secret" not in str(caught.value)
    path = Path(kubeconfig(tmp_path, {"token": "very-secret"}))
    path.write_text(path.read_text().replace('"user": {', '"usr": {'))
    with pytest.raises(ClusterError, match="Expected key user in ") as caught:
        client.connect(kubeconfig=str(path))
    assert "very-secret" not in str(caught.value)


GCLOUD = (
    "ERROR: (gcloud.config.config-helper) You do not have an active account.\\nPlease run:\\n\\n  $ gcloud auth login"
)
BAD_TOKEN = json.dumps({"apiVersion": PLUGIN["apiVersion"], "kind": "ExecCredential", "status": {}})


@pytest.mark.parametrize(
    ("user", "said"),
    [
        (
            plugin(f"printf '{GCLOUD}' >&2; exit 1"),
            "exec: process returned 1. ERROR: (gcloud.config.config-helper) You do not have an active account. "
            "Please run: $ gcloud auth login",
        ),
        ({"exec": {**PLUGIN, "command": "no-plugin"}}, "[Errno 2] No such file or directory: 'no-plugin'"),
        (plugin("echo words"), "exec: failed to decode process output: "),
        (plugin(f"echo '{BAD_TOKEN}'"), "exec: missing token or clientCertificateData field in plugin output"),
    ],
)
def test_the_reason_of_a_credential_program(
    user: dict[str, Any],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    # pytest's own handlers would hide what Python prints without any.
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    for _ in range(2):
        with pytest.raises(ClusterError) as caught:
            client.connect(kubeconfig=kubeconfig(tmp_path, user))
        assert caught.value.message.startswith(f"the credential program of the context 'x' has failed: {said}")
        assert "log in again" in caught.value.fix
    assert capfd.readouterr() == ("", "")
    client.connect(kubeconfig=kubeconfig(tmp_path, {"token": "t"}))


def test_a_credential_program_that_has_spoken_to_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There it gets the terminal, so the client has no words of it, and fails on that."""
    with open(os.devnull) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        with pytest.raises(ClusterError) as caught:
            client.connect(kubeconfig=kubeconfig(tmp_path, plugin("exit 1")))
    assert caught.value.message == "the credential program of the context 'x' has failed: its own message is above"


@pytest.fixture
def port() -> Iterator[int]:
    """Play an API server without TLS that forbids all; return its port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            self.send_response(403)
            self.end_headers()
            self.wfile.write(b'{"kind": "Status", "message": "not you"}')

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("scheme", "get", "execute"),
    [
        # As with a wrong certificate.
        ("https", r"SSLError \[SSL: \w+\] \w+.*", r"exec in p: \[SSL: \w+\] \w+.*"),
        ("http", "not you", "exec in p: Handshake status 403 Forbidden"),
    ],
)
def test_the_reason_of_a_refusal(scheme: str, get: str, execute: str, port: int, tmp_path: Path) -> None:
    cluster = client.connect(kubeconfig=kubeconfig(tmp_path, {"token": "t"}, server=f"{scheme}://127.0.0.1:{port}"))
    with pytest.raises(RefusedError) as caught:
        cluster.get("/api")
    assert re.fullmatch(get, str(caught.value))
    with pytest.raises(RefusedError) as caught:
        cluster.execute("p", "c", ["true"])
    assert re.fullmatch(execute, str(caught.value))


def test_a_token_that_no_header_can_have_is_refused_not_a_traceback(tmp_path: Path) -> None:
    cluster = client.connect(kubeconfig=kubeconfig(tmp_path, {"token": "abc…"}, server="http://127.0.0.1:1"))
    with pytest.raises(RefusedError, match="can't encode character"):
        cluster.get("/version")


def test_a_kubeconfig_that_wants_no_verification_is_no_warning_for_each_question(tmp_path: Path) -> None:
    path = Path(kubeconfig(tmp_path, {"token": "t"}))
    content = json.loads(path.read_text())
    content["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = True
    path.write_text(json.dumps(content))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        client.connect(kubeconfig=str(path))
        warnings.warn("unverified", urllib3.exceptions.InsecureRequestWarning, stacklevel=1)
    assert not seen
