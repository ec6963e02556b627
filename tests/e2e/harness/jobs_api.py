"""The Jobs API of the Ray head that runs here; a head asks for its token by default."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from harness.kube import Manifest
from harness.waiting import until


def ask(path: str, token: str = "", body: Manifest | None = None) -> Any:
    """Call the Jobs API; a body makes it a POST."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(f"http://127.0.0.1:8265/api/jobs/{path}", data, headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


@contextmanager
def running(name: str, token: str = "") -> Iterator[str]:
    """Keep a job of this name running, as a training does."""
    ask("", token, {"submission_id": name, "entrypoint": "exec sleep 120"})
    until(lambda: ask(name, token)["status"] == "RUNNING", "a running job", seen=lambda: ask(name, token))
    try:
        yield name
    finally:
        ask(f"{name}/stop", token, {})
    until(lambda: ask(name, token)["status"] == "STOPPED", "the end of the job", seen=lambda: ask(name, token))
