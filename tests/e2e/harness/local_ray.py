"""A Ray cluster of processes on this machine, and what KubeRay does with a RayJob, by Ray's Jobs API."""

from __future__ import annotations

import contextlib
import json
import socket
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from harness.processes import Program, Programs
from harness.waiting import until

Record = dict[str, Any]
HEAD = "http://127.0.0.1:8265/api"
# How many heads are started, and the seconds after the first answer in which one of its servers may still give up.
TRIES = 3
SETTLED = 5.0
CLIENT_PORT = 10001
# What a job is at its end.
ENDED = {"SUCCEEDED", "FAILED", "STOPPED"}


def ask(path: str, body: Mapping[str, object] | None = None) -> Any:
    """Call the API of the head; a body makes it a POST.

    Raises OSError when the head does not answer or refuses.
    """
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{HEAD}/{path}", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


class LocalRay:
    """A head without processors and GPUs, as our chart renders it, and workers; `programs` ends them.

    `environment` is for all processes.
    """

    def __init__(self, programs: Programs, ray: Path, environment: Mapping[str, str]) -> None:
        self.programs, self.environment = programs, dict(environment)
        self.words = [str(ray), "start", "--block", "--disable-usage-stats", "--object-store-memory=200000000"]

    def start(self) -> None:
        """Start a head that answers; raise RuntimeError with the end of its log.

        A head ends with any of its servers, and that for Ray's client gives up on a busy machine before it listens.
        """
        for _ in range(TRIES):
            head = self._start_head()
            until(lambda: head.process.poll() is not None or self.answers(), "a Ray head", 180, every=1)  # noqa: B023
            time.sleep(SETTLED)
            if head.process.poll() is None:
                return
            self.programs.end(head)
        raise RuntimeError(f"{TRIES} heads of Ray have ended; the last one:\n{head.tail()}")

    def _start_head(self) -> Program:
        head = ["--head", "--num-cpus=0", "--num-gpus=0", "--node-ip-address=127.0.0.1"]
        return self.programs.start("head", [*self.words, *head], **self.environment)

    def answers(self) -> bool:
        """Return whether the head answers, and its server for Ray's client listens."""
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", CLIENT_PORT), timeout=5).close()
            return ask("jobs/") is not None
        return False

    def start_worker(self, cpus: int, gpus: int) -> Program:
        """Start a node whose GPUs are only numbers."""
        worker = ["--address=127.0.0.1:6379", "--node-ip-address=127.0.0.1", f"--num-cpus={cpus}", f"--num-gpus={gpus}"]
        # The head's log monitor sees the worker's logs too, and a driver would print each line twice.
        return self.programs.start("worker", [*self.words, *worker, "--include-log-monitor=false"], **self.environment)

    def submit(self, job: Record, name: str, variables: Mapping[str, str] | None = None) -> None:
        """Submit the entrypoint of a RayJob as the operator does; `variables` are for this job only.

        Raises OSError when the head does not take it.
        """
        runtime = yaml.safe_load(job["spec"].get("runtimeEnvYAML") or "{}")
        if variables:
            runtime["env_vars"] = {**runtime.get("env_vars", {}), **variables}
        ask("jobs/", {"submission_id": name, "entrypoint": job["spec"]["entrypoint"], "runtime_env": runtime})

    def job(self, name: str) -> Record:
        """Return what the head says of a job: `status`, `message`, `driver_exit_code` …"""
        return dict(ask(f"jobs/{name}"))

    def log(self, name: str) -> str:
        """Return what the entrypoint of a job has printed."""
        return str(ask(f"jobs/{name}/logs")["logs"])

    def actors(self) -> list[Record]:
        """Return the actors that are not dead."""
        found = ask("v0/actors?limit=1000&filter_keys=state&filter_predicates=!%3D&filter_values=DEAD")
        return list(found["data"]["result"]["result"])
