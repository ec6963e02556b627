"""A kubectl of a few lines that stands in for the real one, for the API server and for the head pod."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grpo import deadline
from grpo.cli.watching import head_pod
from grpo.helm import kubectl
from grpo.runlog import job_output, pieces
from tests import kubectl as kubectl_stand_in
from tests.conftest import Object, Render, by_kind
from tests.played import Clock

NAME = "gemma3-gsm8k-1"
# Seconds for what may not run out: only what hangs takes so long.
LONG = 600.0


class Cluster:
    """The folder of the stand-in: objects as JSON, and the files of the pod.

    A script `on-the-way` changes what comes to a program in the pod.
    """

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
        self._replace(name, json.dumps(content))

    def refuse(self, verb: str, message: str) -> None:
        self._replace(f"refuses-{verb}", message)

    def _replace(self, name: str, text: str) -> None:
        """Replace a file at once: the stand-in may be reading it."""
        draft = self.folder / "draft"
        draft.write_text(text)
        draft.rename(self.folder / name)

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
    """Put the stand-in on PATH; no answer of it is late, and a program in the pod is waited for only shortly."""
    rendered = by_kind(render("grpo-job"), "RayJob")
    assert rendered["metadata"]["name"] == NAME
    kubectl_stand_in.put(folder, monkeypatch)
    for module, name in (
        *((deadline, name) for name in ("PATIENCE", "_IN_ALL", "_LEAST")),
        *((head_pod, "PATIENCE"), (kubectl, "_END_SECONDS")),
    ):
        monkeypatch.setattr(module, name, LONG)
    monkeypatch.setattr(head_pod, "READ_SECONDS", 1.0)
    monkeypatch.setattr(job_output, "PAUSE_SECONDS", 0.05)
    return Cluster(folder, rendered)


class Waits:
    """A command's waits for the stand-in: no time passes but the command's own, on a clock of its own.

    `hang` names what kubectl never answers; `late` is how many seconds each other answer takes. A look at the output
    of a program that sees nothing takes half a second, from its first byte on, or from the start if it hangs.
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, hang: str = "", late: float = 0.0, patience: float = 6.0
    ) -> None:
        self.clock, self.hang, self.late, self.is_over = Clock(), hang, late, False
        self._of_pipe = pieces.of_pipe
        monkeypatch.setenv("HANGS", hang)
        for name, value in {"PATIENCE": patience, "_IN_ALL": patience + 1, "_LEAST": patience / 2}.items():
            monkeypatch.setattr(deadline, name, value)
        monkeypatch.setattr(head_pod, "PATIENCE", patience)
        for module in (deadline, head_pod):
            monkeypatch.setattr(module, "time", self.clock)
        waits = self

        class Popen(subprocess.Popen[bytes]):
            def communicate(
                self,
                input: bytes | None = None,  # noqa: A002 (as Popen)
                timeout: float | None = None,
            ) -> tuple[bytes, bytes]:
                waits.answer(self.args, timeout)
                return super().communicate(input)

        monkeypatch.setattr(kubectl, "subprocess", SimpleNamespace(**{**vars(subprocess), "Popen": Popen}))
        monkeypatch.setattr(pieces, "PAUSE_SECONDS", 0.02)
        monkeypatch.setattr(pieces, "of_pipe", self.of_pipe)

    def answer(self, words: Any, timeout: float | None) -> None:
        """Wait for a kubectl; raise TimeoutExpired if its answer is late."""
        assert timeout is not None
        needs = LONG if words[1] == self.hang else self.late
        self.clock.sleep(min(needs, timeout))
        if timeout < needs:
            raise subprocess.TimeoutExpired(words, timeout)

    def of_pipe(self, descriptor: int) -> Iterator[bytes]:
        """Take the place of pieces.of_pipe; when `is_over` is set, silence takes no time any more."""
        has_begun = self.hang == "exec"
        for piece in self._of_pipe(descriptor):
            has_begun = has_begun or bool(piece)
            if has_begun and not piece and not self.is_over:
                self.clock.sleep(0.5)
            yield piece


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
