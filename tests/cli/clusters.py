"""A kubectl of a few lines that stands in for the real one, for the API server and for the head pod."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from postrender.cli.watching import head_pod
from postrender.runlog import job_output
from tests.conftest import Object, Render, by_kind

NAME = "gemma3-gsm8k-1"
# What kubectl would ask the API server for, and what it would start in the pod.
KUBECTL = """\
#!/bin/sh
echo "$*" >> "$CLUSTER/calls"
[ -z "$SECONDS_AWAY" ] || exec sleep "$SECONDS_AWAY"
[ -z "$SECONDS_LATE" ] || sleep "$SECONDS_LATE"
if said=$(cat "$CLUSTER/refuses-$1" 2>/dev/null); then echo "$said" >&2; exit 1; fi
case $1 in
  config) cat "$CLUSTER/namespace" ;;
  get) case $3 in
         *rayjobs/*) [ -e "$CLUSTER/rayjob.json" ] && exec cat "$CLUSTER/rayjob.json"
                     echo "Error from server (NotFound): rayjobs.ray.io not found" >&2; exit 1 ;;
         *pods*) cat "$CLUSTER/pods.json" ;;
         *) cat "$CLUSTER/pod-names" ;;
       esac ;;
  exec) [ -z "$EXEC_AWAY" ] || exec sleep "$EXEC_AWAY"
        while [ "$1" != -- ]; do shift; done; shift
        for word; do shift; case $word in /*) word="$CLUSTER$word" ;; esac; set -- "$@" "$word"; done
        "$@"; code=$?
        [ $code = 0 ] || { echo "command terminated with exit code $code" >&2; exit $code; } ;;
esac
"""


class Cluster:
    """The folder of the stand-in: objects as JSON, and the files of the pod."""

    def __init__(self, folder: Path, rendered: Object) -> None:
        self.folder, self.rayjob = folder, rendered
        self.state("RUNNING")
        self.head()

    def state(self, job: str, deployed: str = "Running", job_id: str = "job-1", **status: str) -> None:
        found = {"jobStatus": job, "jobDeploymentStatus": deployed, "jobId": job_id, "rayClusterName": "ray", **status}
        self.put("rayjob.json", {**self.rayjob, "status": found})

    def head(self, *, uid: str = "a", phase: str = "Running") -> None:
        pod = {
            "metadata": {"name": "ray-head", "uid": uid},
            "spec": {"containers": [{"name": "ray-head"}]},
            "status": {"phase": phase, "containerStatuses": [{"restartCount": 0}]},
        }
        self.put("pods.json", {"items": [pod]})

    def no_job(self) -> None:
        (self.folder / "rayjob.json").unlink()

    def no_head(self) -> None:
        self.put("pods.json", {"items": []})

    def put(self, name: str, content: Any) -> None:
        """Replace a file at once: the stand-in may be reading it."""
        draft = self.folder / "draft"
        draft.write_text(json.dumps(content))
        draft.rename(self.folder / name)

    def refuse(self, verb: str, message: str) -> None:
        (self.folder / f"refuses-{verb}").write_text(message)

    def allow(self, verb: str) -> None:
        (self.folder / f"refuses-{verb}").unlink()

    def write(self, text: str, job_id: str = "job-1") -> None:
        self._append(f"tmp/ray/session_latest/logs/job-driver-{job_id}.log", text)

    def write_on_volume(self, text: str, attempt: int = 1) -> None:
        self._append(f"data/runs/gemma3-gsm8k/attempts/{attempt}/output.log", text)

    def _append(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(text)

    def calls(self, verb: str) -> list[str]:
        path = self.folder / "calls"
        return [line for line in path.read_text().splitlines() if line.startswith(verb)] if path.exists() else []


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, render: Render) -> Cluster:
    """Put the stand-in on PATH, and make what waits short."""
    rendered = by_kind(render("grpo-job"), "RayJob")
    assert rendered["metadata"]["name"] == NAME
    (folder / "bin").mkdir()
    (folder / "bin/kubectl").write_text(KUBECTL)
    (folder / "bin/kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("CLUSTER", str(folder))
    for name in ("SECONDS_AWAY", "SECONDS_LATE", "EXEC_AWAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(head_pod, "READ_SECONDS", 1.0)
    monkeypatch.setattr(job_output, "PAUSE_SECONDS", 0.2)
    return Cluster(folder, rendered)


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
