"""Let a Ray cluster's jobs save before a pod ends. Kubernetes runs this program before it sends SIGTERM.

At that signal the head's Ray kills its drivers within a second, and a worker's Ray kills their actors. So the head
stops its jobs first, and workers keep running until the jobs have ended. The argument is "head" or "worker"; the
pod's grace period limits the time. If the head requires a token, RAY_AUTH_TOKEN has it. Changing this file replaces
the pods.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

GCS, DASHBOARD = 6379, 8265
TRIES = 5
ERRORS = (OSError, ValueError, http.client.HTTPException)


def ask(head: str, method: str, path: str) -> Any:
    """Call the Jobs API. Raises one of ERRORS on failure."""
    token = os.environ.get("RAY_AUTH_TOKEN", "").strip()
    # Not urllib: it would use the proxy that the environment names.
    connection = http.client.HTTPConnection(head, DASHBOARD, timeout=10)
    try:
        connection.request(method, f"/api/jobs/{path}", headers={"Authorization": f"Bearer {token}"} if token else {})
        answer = connection.getresponse()
        text = answer.read()
    finally:
        connection.close()
    if answer.status != 200:
        raise http.client.HTTPException(f"the head answered with {answer.status}")
    return json.loads(text)


def running(head: str) -> list[str]:
    """Return the unfinished submitted jobs. Raises one of ERRORS on failure."""
    jobs = [job for job in ask(head, "GET", "") if job["status"] in ("PENDING", "RUNNING")]
    return [str(job["submission_id"]) for job in jobs if job.get("submission_id")]


def drivers_of(psutil: Any, jobs: list[str]) -> list[Any]:
    """Return the processes that Ray has started as jobs' entrypoints; each leads its own session."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            about = process.environ().get("RAY_JOB_CONFIG_JSON_ENV_VAR", "")
            if any(f'"{name}"' in about for name in jobs) and os.getsid(process.pid) == process.pid:
                found.append(process)
    return found


def patiently(call: Callable[[], Any]) -> Any:
    """Return a call's result; if the head does not answer, retry for a while, then return None."""
    for _ in range(TRIES):
        with contextlib.suppress(*ERRORS):
            return call()
        time.sleep(1)
    return None


def stop_jobs(psutil: Any) -> None:
    """Stop this head's jobs as `ray job stop` does, and return once their drivers have ended."""
    head = "127.0.0.1"
    jobs = patiently(lambda: running(head)) or []
    drivers = drivers_of(psutil, jobs)
    links = psutil.net_connections("tcp") if jobs else []
    for name in jobs:
        patiently(functools.partial(ask, head, "POST", f"{name}/stop"))
    # KubeRay must not see a stopped job, which it would count as complete: it submits the job to the next head again.
    for link in links:
        if link.pid and link.status == psutil.CONN_LISTEN and link.laddr.port == DASHBOARD:
            psutil.Process(link.pid).suspend()
    psutil.wait_procs(drivers)


def wait_for_jobs(psutil: Any) -> None:
    """Return once no job runs on the head to which this worker is connected, or once the connection has ended.

    The head's name may no longer resolve, because a cluster's Service is deleted at the same time as the cluster.
    """
    while True:
        links = [link for link in psutil.net_connections("tcp") if link.raddr and link.raddr.port == GCS]
        heads = [link.raddr.ip for link in links if link.status == psutil.CONN_ESTABLISHED]
        try:
            if not heads or not running(heads[0]):
                return
        except ERRORS:
            pass
        time.sleep(1)


if __name__ == "__main__":
    importlib.import_module("ray")  # It brings psutil.
    psutil = importlib.import_module("psutil")
    (stop_jobs if sys.argv[1] == "head" else wait_for_jobs)(psutil)
