"""Refuse an upgrade that replaces pods of a Ray cluster while a job runs there; Helm runs this program first.

The only argument is the plan, as JSON: the head's address, the cluster's name, its Kueue queue, which may be empty,
and whether a change replaces pods. Two folders contain pods.json, with digests of what the pods are made from, and
workers, with their number: NOW for the release, with the name of its cluster, and NEXT for the upgrade.
Exit code 0: nothing runs, or the pods remain; 1: the upgrade would end a job, or the head does not report whether
one runs. If the head requires a token, RAY_AUTH_TOKEN has it. The token is never printed.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import sys
import time
from pathlib import Path
from typing import Any

NOW, NEXT = Path("/release"), Path("/upgrade")
ALIVE = ("PENDING", "RUNNING")
CALL, POLL = 10.0, 1.0
# How long the head may not answer: after a start its dashboard answers some seconds later than its port opens. And its
# name is unknown while its pod is not ready, as on a busy node, although a job runs.
PATIENCE_SECONDS = 30.0
QUEUED = (
    "Kueue stops the cluster for it, and then the cluster waits in LocalQueue {queue} again: a stack that waits there "
    "already may get its GPUs first. "
)


class RefusedError(Exception):
    """The upgrade must not proceed; the message says why and what to do."""


def get_jobs(address: str) -> list[dict[str, Any]] | None:
    """Return the head's jobs; None if it has no name or no open port: it is gone, or not ready yet.

    Raises OSError and http.client.HTTPException if the head does not answer, and RefusedError if it rejects the token.
    """
    token = os.environ.get("RAY_AUTH_TOKEN", "").strip()
    if not re.fullmatch("[!-~]*", token):
        raise RefusedError("RAY_AUTH_TOKEN has characters that HTTP headers cannot have")
    # Not urllib: it would use the proxy that the image's environment names.
    connection = http.client.HTTPConnection(address, timeout=CALL)
    try:
        connection.request("GET", "/api/jobs/", headers={"Authorization": f"Bearer {token}"} if token else {})
        answer = connection.getresponse()
        text = answer.read()
    except ConnectionRefusedError:
        return None
    except socket.gaierror as error:
        # Any other answer of the resolver says nothing about the head.
        if error.errno not in (socket.EAI_NONAME, socket.EAI_NODATA):
            raise
        return None
    finally:
        connection.close()
    if answer.status in (401, 403):
        raise RefusedError(f"the Ray head at {address} requires a token: RAY_AUTH_TOKEN is missing or wrong")
    if answer.status != 200:
        raise http.client.HTTPException(f"it answered with {answer.status}")
    found: list[dict[str, Any]] = json.loads(text)
    return found


def running(address: str) -> list[str]:
    """Return the names of the unfinished jobs; raise RefusedError if the head does not report them."""
    deadline, is_told = time.monotonic() + PATIENCE_SECONDS, False
    while True:
        jobs: list[dict[str, Any]] | None = None
        failed: Exception | None = None
        try:
            jobs = get_jobs(address)
        except (OSError, ValueError, http.client.HTTPException) as error:
            failed = error
        if jobs is not None or time.monotonic() > deadline:
            break
        if not is_told:
            print(f"grpo: the Ray head at {address} lists no jobs yet, so it is asked for {PATIENCE_SECONDS:.0f} s")
            sys.stdout.flush()
            is_told = True
        time.sleep(POLL)
    if failed:
        raise RefusedError(f"the Ray head at {address} does not say whether a job runs: {failed}")
    return [
        f"{job.get('submission_id') or job.get('job_id')} ({job['status']})"
        for job in jobs or []
        if job.get("status") in ALIVE
    ]


def read(folder: Path) -> tuple[dict[str, str], int]:
    """Return a release's digests and number of workers; raise OSError or ValueError if a file is missing or invalid."""
    return json.loads((folder / "pods.json").read_text("utf-8")), int((folder / "workers").read_text("utf-8"))


def what_changes(plan: dict[str, Any], name: str) -> str:
    """Describe which pods the upgrade replaces or removes; return an empty text if it leaves all of them alone.

    `name` is the running cluster. Kueue stops a cluster for each change, even for one more worker.
    """
    if name != plan["cluster"]:
        return f"the name of the cluster, which becomes {plan['cluster']}"
    pods, workers = read(NEXT)
    try:
        old, had = read(NOW)
    except (OSError, ValueError):
        return "everything, because the release is older than this check"
    changed = [part for part in sorted({*pods, *old}) if plan["replaces"] and pods.get(part) != old.get(part)]
    if workers < had or (plan["queue"] and workers != had):
        changed.append(f"{had} workers become {workers}")
    return ", ".join(changed)


def main(text: str) -> None:
    """Check a plan's upgrade; raise RefusedError if it would end a job."""
    plan = json.loads(text)
    queue = plan["queue"]
    file = NOW / "cluster"
    name = file.read_text("utf-8") if file.exists() else plan["cluster"]
    changes = what_changes(plan, name)
    if not changes:
        print("grpo: the pods of the cluster stay as they are")
        return
    evicts = QUEUED.format(queue=queue) if queue else ""
    jobs = running(plan["address"].replace(plan["cluster"], name, 1))
    if not jobs:
        print(f"grpo: no job runs on the cluster, so its pods may be replaced. {evicts}".rstrip())
        return
    raise RefusedError(
        f"{', '.join(jobs)} runs on RayCluster {name}, and this upgrade would end it. It changes: "
        f"{changes}. {evicts}"
        "Wait for its end, or uninstall its release, or replace the pods now: --set ray.upgrade=recreate. "
        "After helm rollback, first roll back to the revision that was deployed: Helm leaves the release pending. "
        "To go back all the same: helm rollback --no-hooks"
    )


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except RefusedError as error:
        sys.exit("grpo: " + str(error).encode("ascii", "backslashreplace").decode())
