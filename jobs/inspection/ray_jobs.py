"""Submit a job to this pod's Ray head, report its state, and print its output.

usage: ray_jobs.py submit REQUEST < ARCHIVE     REQUEST: JSON with submission_id, entrypoint and runtime_env
       ray_jobs.py state ID                     prints JSON with status, message and driver_exit_code
       ray_jobs.py follow ID START SECONDS      prints the output from byte START on, until the job or the time ends

The archive is a zip file; runtime_env.working_dir is the name under which Ray stores it, gcs://NAME.zip. The token
is the pod's own. Sources: python/ray/dashboard/modules/job/job_head.py of Ray 2.46.0 to 2.55.1.
Exit codes: 0 done, 1 Ray rejects the request or does not know the job, 2 wrong usage, 3 no answer.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

Record = dict[str, Any]
ADDRESS = "127.0.0.1:8265"
CALL_SECONDS = 60.0  # seconds for an answer
POLL, LOOK = 0.3, 2.0  # seconds between looks at the file, and at the job
ENDED = {"SUCCEEDED", "FAILED", "STOPPED"}


class RefusedError(Exception):
    """Ray rejected the request; the message gives Ray's reason."""


def call(method: str, path: str, body: bytes | None = None) -> bytes:
    """Send a request to the head, return the answer; raise RefusedError if rejected, OSError without an answer."""
    token = os.environ.get("RAY_AUTH_TOKEN", "").strip()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    # Not urllib: it would use the proxy that the image's environment names.
    connection = http.client.HTTPConnection(ADDRESS, timeout=CALL_SECONDS)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
    except http.client.HTTPException as error:
        raise OSError(f"{type(error).__name__} {error}") from error
    finally:
        connection.close()
    if answer.status >= 400:
        lines = content.decode("utf-8", "replace").strip().splitlines() or ["nothing"]
        raise RefusedError(f"Ray answers {method} {path} with {answer.status}: {lines[-1][:500]}")
    return content


def submit(request: Record, archive: bytes) -> None:
    """Upload the archive to Ray, and start the job in it."""
    name = request["runtime_env"]["working_dir"].removeprefix("gcs://")
    call("PUT", f"/api/packages/gcs/{name}", archive)
    call("POST", "/api/jobs/", json.dumps(request).encode())


def state(job: str) -> Record:
    """Return Ray's information on a job."""
    found: Record = json.loads(call("GET", f"/api/jobs/{job}"))
    return {key: found.get(key) for key in ("status", "message", "driver_exit_code")}


def new_output(path: Path, position: int) -> bytes:
    """Return a file's content from a position on; nothing if there is no file yet."""
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        file.seek(position)
        return file.read(1 << 20)
    return b""


def follow(job: str, position: int, seconds: float) -> None:
    """Print the output of a job's driver from a position on, until the job has ended or the time is up."""
    folder = Path(os.environ.get("RAY_TMPDIR") or "/tmp") / "ray/session_latest/logs"  # noqa: S108 (Ray's own)
    path, began, looked, ended = folder / f"job-driver-{job}.log", time.monotonic(), 0.0, False
    while True:
        while piece := new_output(path, position):
            position += len(piece)
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        if ended or time.monotonic() - began > seconds:
            return
        time.sleep(POLL)
        if time.monotonic() - looked > LOOK:
            looked, ended = time.monotonic(), state(job)["status"] in ENDED


def main(words: list[str]) -> int:
    """Run the command described in the usage."""
    try:
        match words:
            case ["submit", request]:
                submit(json.loads(request), sys.stdin.buffer.read())
            case ["state", job]:
                print(json.dumps(state(job)))
            case ["follow", job, start, seconds]:
                follow(job, int(start), float(seconds))
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    except RefusedError as error:
        print(error, file=sys.stderr)
        return 1
    except (OSError, ValueError) as error:
        print(f"no answer from the Ray head at {ADDRESS}: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
