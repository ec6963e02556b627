"""Wait until the Ray cluster has the GPU nodes that a run asks for, and nobody else uses their GPUs."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from base import Record, Refused, now, pause, say

PROGRESS = 15.0


@contextlib.contextmanager
def ray_nodes() -> Iterator[subprocess.Popen[bytes]]:
    """Run ray_nodes.py while the block lasts."""
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
    """Return what has arrived on a pipe."""
    with contextlib.suppress(BlockingIOError):
        return os.read(stream.fileno(), 1 << 16) if stream else b""
    return b""


def latest(text: bytes) -> Record:
    """Return the last whole line that is a report."""
    for line in reversed(text.split(b"\n")[:-1]):
        with contextlib.suppress(ValueError):
            report: Record = json.loads(line)
            return report
    return {}


def describe(report: Record, gpus: int) -> str:
    nodes = sum(1 for count in report["gpus"] if count >= gpus)
    return f"{nodes} nodes with {gpus} GPUs, {report['free']:.0f} of {sum(report['gpus']):.0f} GPUs free"


def reason(report: Record, nodes: int, gpus: int) -> str:
    """Return why the run cannot start on what the cluster offers, or an empty text."""
    if sum(1 for count in report["gpus"] if count >= gpus) < nodes:
        return (
            "pods of the GPU workers are missing: look at `kubectl get pods -l ray.io/node-type=worker` and its events"
        )
    if report["free"] < nodes * gpus:
        return "something else uses the GPUs: look at `kubectl get rayjob` and stop what should not run"
    return ""


def wait_for_workers(nodes: int, gpus: int, timeout: float) -> None:
    """Return when `nodes` nodes with `gpus` GPUs each are in the cluster and that many GPUs are free.

    Raises Refused after `timeout` seconds, or when Ray cannot be asked.
    """
    started, text, errors, why = now(), b"", b"", "Ray has not answered"
    said, spoken = "", started
    with ray_nodes() as process:
        while now() - started < timeout:
            text, errors = text[-4096:] + read(process.stdout), errors[-4096:] + read(process.stderr)
            report = latest(text)
            if report and not (why := reason(report, nodes, gpus)):
                say(f"the GPU workers are there: {describe(report, gpus)}")
                return
            if process.poll() is not None:
                lines = (errors + read(process.stderr)).decode(errors="replace").strip().splitlines()
                raise Refused(f"cannot ask Ray for its nodes: {lines[-1] if lines else 'its client ended'}")
            there = describe(report, gpus) if report else ""
            if there != said or now() - spoken >= PROGRESS:
                waited = f"{now() - started:.0f} of {timeout:.0f} s"
                say(f"waiting for {nodes} nodes with {gpus} free GPUs each: {there or why} ({waited})")
                said, spoken = there, now()
            pause(0.2)
    there = describe(report, gpus) if report else "nothing"
    advice = "Then raise job.attempt, or job.workersTimeoutSeconds where nodes come later"
    raise Refused(
        f"after {timeout:.0f} s the Ray cluster has {there}, and this run needs {nodes} x {gpus}: {why}. {advice}"
    )
