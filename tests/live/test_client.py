"""The API server as a kubeconfig names it: what cannot be used is said in words."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from postrender.errors import ClusterError
from postrender.live import client

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
