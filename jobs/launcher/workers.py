"""Wait until the Ray cluster has the GPU nodes that a run needs, and their GPUs are free."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from runtime import JobError, Record, now, pause, say

PROGRESS_SECONDS = 15.0


@contextlib.contextmanager
def ray_nodes() -> Iterator[subprocess.Popen[bytes]]:
    """Run ray_nodes.py for the duration of the block."""
    program = Path(__file__).with_name("ray_nodes.py")
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, program], stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe) as process:
        for stream in filter(None, (process.stdout, process.stderr)):
            os.set_blocking(stream.fileno(), False)
        try:
            yield process
        finally:
            process.kill()


def read(stream: IO[bytes] | None) -> bytes:
    """Return the bytes that have arrived on a pipe."""
    with contextlib.suppress(BlockingIOError):
        return os.read(stream.fileno(), 1 << 16) if stream else b""
    return b""


def latest(text: bytes) -> Record:
    """Return the last complete line that is a report; libraries may print other lines."""
    for line in reversed(text.split(b"\n")[:-1]):
        with contextlib.suppress(ValueError, RecursionError):
            report = json.loads(line)
            if isinstance(report, dict) and {"gpus", "free"} <= report.keys():
                return report
    return {}


def describe(report: Record, gpus: int) -> str:
    nodes = sum(1 for count in report["gpus"] if count >= gpus)
    return f"{nodes} nodes with {gpus} GPUs, {report['free']:.0f} of {sum(report['gpus']):.0f} GPUs free"


def reason(report: Record, nodes: int, gpus: int) -> str:
    """Return why the run cannot start on this cluster, or an empty text."""
    if sum(1 for count in report["gpus"] if count >= gpus) < nodes:
        return (
            "pods of the GPU workers are missing: look at `kubectl get pods -l ray.io/node-type=worker` and its events,"
            " and compare job.nodes (else ray.workers.replicas) with the replicas of the RayCluster"
        )
    if report["free"] < nodes * gpus:
        return "something else uses the GPUs: look at `kubectl get rayjob` and stop what should not run"
    return ""


class Watch:
    """Watch the Ray cluster's resources; after an error query them again, because the head may be restarting."""

    def __init__(self) -> None:
        self.failures, self.why = 0, "Ray has not answered"

    def reports(self, deadline: float) -> Iterator[Record]:
        """Yield the latest report several times a second, {} before the first one.

        Raises JobError after two failures if Ray has never answered.
        """
        answered = False
        while now() < deadline:
            text, errors = b"", b""
            with ray_nodes() as process:
                while process.poll() is None and now() < deadline:
                    text, errors = text[-4096:] + read(process.stdout), errors[-4096:] + read(process.stderr)
                    report = latest(text)
                    answered = answered or bool(report)
                    yield report
                    pause(0.2)
                lines = (errors + read(process.stderr)).decode(errors="replace").strip().splitlines()
            self.why = f"cannot ask Ray for its nodes: {lines[-1] if lines else 'its client ended'}"
            self.failures += 1
            if self.failures > 1 and not answered:
                raise JobError(self.why)
            pause(min(5, max(0, deadline - now())))


def wait_for_workers(nodes: int, gpus: int, timeout: float) -> None:
    """Wait until `nodes` nodes with `gpus` GPUs each have joined the cluster and that many GPUs are free.

    Raises JobError after `timeout` seconds, or if Ray does not answer.
    """
    started, watch = now(), Watch()
    reported, reported_at, report, why = "", started, Record(), watch.why
    for report in watch.reports(started + timeout):
        why = reason(report, nodes, gpus) if report else watch.why
        if not why:
            say(f"the GPU workers are ready: {describe(report, gpus)}")
            return
        there = describe(report, gpus) if report else ""
        if there != reported or now() - reported_at >= PROGRESS_SECONDS:
            waited = f"{now() - started:.0f} of {timeout:.0f} s"
            say(f"waiting for {nodes} nodes with {gpus} free GPUs each: {there or why} ({waited})")
            reported, reported_at = there, now()
    there = describe(report, gpus) if report else "nothing"
    advice = "Then raise job.attempt; if nodes need longer to start, raise job.workersTimeoutSeconds too"
    raise JobError(
        f"after {timeout:.0f} s the Ray cluster has {there}, "
        f"and this run needs {nodes} nodes with {gpus} GPUs each: {why}. {advice}"
    )
