"""Run one check in a Ray cluster: submit probe.py as a Ray job, print its output, report a failure in one sentence.

The only argument is the plan, as JSON. Exit code 0: the check passed; 1: it failed, could not run, or stopped
because another job started. This program stops its job before it exits. After SIGKILL it cannot, so the job ends at
its own time limit. If the head requires a token, RAY_AUTH_TOKEN has it; the token is never printed.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import sys
import time
import uuid
from pathlib import Path
from types import FrameType
from typing import Any

Record = dict[str, Any]

CALL, POLL = 15.0, 1.0
# How long the head may not answer before the check fails: its agent starts some seconds after its dashboard.
PATIENCE_SECONDS = 30.0
# The job's time limit is earlier than this program's, so that the probe itself can report what it waited for.
MARGIN_SECONDS = 15.0
ALIVE = {"PENDING", "RUNNING"}
now = time.monotonic


class CheckError(Exception):
    """The check failed or cannot run; the message says why and what to do."""


class NoAnswerError(CheckError):
    """The head sent no usable answer; a later call may succeed."""


class CheckStoppedError(Exception):
    """A signal asked this program to stop."""


def say(text: str) -> None:
    print("grpo: " + text.encode("ascii", "backslashreplace").decode(), flush=True)


def read_token() -> str:
    token = os.environ.get("RAY_AUTH_TOKEN", "").strip()
    # The HTTP library's error message would show the token.
    if not re.fullmatch("[!-~]*", token):
        raise CheckError(
            "RAY_AUTH_TOKEN has characters that HTTP headers cannot have: write the Secret again from a one-line file"
        )
    return token


class Head:
    """A Ray head's Jobs API, at host:port. Source: Ray's Jobs REST API, unchanged since 2.46."""

    def __init__(self, address: str, token: str) -> None:
        self.address = address
        self.headers = {"Content-Type": "application/json"}
        if token:
            self.headers["Authorization"] = f"Bearer {token}"

    def call(self, method: str, path: str, body: Record | None = None) -> Any:
        """Send a request and return the response's JSON.

        Raises NoAnswerError if there is no usable answer, and CheckError if the head rejects the token.
        """
        # Not urllib: it would use the proxy that the image's environment names.
        connection = http.client.HTTPConnection(self.address, timeout=CALL)
        try:
            connection.request(method, path, json.dumps(body) if body else None, self.headers)
            answer = connection.getresponse()
            text = answer.read().decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise NoAnswerError(f"no answer from the Ray head at {self.address}: {reason}") from None
        finally:
            connection.close()
        if answer.status in (401, 403):
            raise CheckError(f"the Ray head at {self.address} requires a token: RAY_AUTH_TOKEN is missing or wrong")
        try:
            if answer.status < 400:
                return json.loads(text)
        except ValueError:
            pass
        last = (text.strip().splitlines() or ["nothing"])[-1][:300]
        raise NoAnswerError(f"the Ray head at {self.address} answered {method} {path} with {answer.status}: {last}")

    def call_with_retries(self, method: str, path: str, body: Record | None = None) -> Any:
        """Send a request, again if necessary, until the head answers.

        Raises CheckError after PATIENCE_SECONDS seconds without an answer.
        """
        deadline = now() + PATIENCE_SECONDS
        while True:
            try:
                return self.call(method, path, body)
            except NoAnswerError as error:
                if now() > deadline:
                    raise CheckError(f"{error}. Is the cluster ready (kubectl get raycluster)?") from None
                time.sleep(POLL)

    def jobs(self) -> list[Record]:
        """Return all jobs of the cluster, including other drivers' jobs."""
        found: list[Record] = self.call_with_retries("GET", "/api/jobs/")
        return found


def without_echo(text: str, ended: bool) -> str:
    """Return a job's output without the entrypoint, which Ray prints first and which contains the entire program."""
    _, echoed, output = text.partition("\nGRPO_PROGRAM\n")
    return output.lstrip("\n") if echoed else text if ended else ""


def other_jobs(jobs: list[Record], own: str) -> str:
    """Describe the unfinished jobs other than our own; return an empty text if there are none."""
    others = [job for job in jobs if job.get("status") in ALIVE and job.get("submission_id") != own]
    return ", ".join(f"{job.get('submission_id') or job.get('job_id')} ({job['status']})" for job in others)


def entrypoint(plan: Record, program: str) -> str:
    """Return the job's shell command, with program and plan, because nothing can be mounted into a running pod."""
    start, text = "exec python3 -I -W ignore - 3<<'GRPO_PLAN' <<'GRPO_PROGRAM'", json.dumps(plan, indent=2)
    return f"{start}\n{text}\nGRPO_PLAN\n{program.rstrip()}\nGRPO_PROGRAM\n"


class Check:
    """One job, from submission to completion."""

    def __init__(self, head: Head, plan: Record) -> None:
        self.head = head
        self.what: str = plan["probe"]["check"]
        self.limit = float(plan["timeoutSeconds"])
        self.probe: Record = plan["probe"]
        self.id = f"helm-test-{self.what}-{uuid.uuid4().hex[:8]}"
        self.started = now()
        self.output = ""

    def submit(self, program: str) -> None:
        seconds = max(MARGIN_SECONDS, self.limit - (now() - self.started) - MARGIN_SECONDS)
        command = entrypoint({**self.probe, "seconds": seconds}, program)
        body = {"submission_id": self.id, "entrypoint": command, "metadata": {"grpo-charts": "helm test"}}
        try:
            self.head.call_with_retries("POST", "/api/jobs/", body)
        except CheckError:
            # The head may have accepted the job although its answer was lost.
            if all(job.get("submission_id") != self.id for job in self.head.jobs()):
                raise

    def print_output(self, ended: bool) -> None:
        """Print what the job has written since the last call; if the request fails, the next call prints it."""
        with contextlib.suppress(NoAnswerError):
            text = self.head.call("GET", f"/api/jobs/{self.id}/logs").get("logs") or ""
            text = without_echo(text, ended)
            sys.stdout.write(text[len(self.output) :])
            sys.stdout.flush()
            self.output = text

    def watch(self) -> Record:
        """Wait until the job has ended and return its record.

        Raises CheckError if the job does not end in time, or if another job starts.
        """
        while True:
            jobs = self.head.jobs()
            own = next((job for job in jobs if job.get("submission_id") == self.id), None)
            if own is None:
                raise CheckError("the Ray head no longer knows the job: the head was restarted")
            ended = own["status"] not in ALIVE
            self.print_output(ended)
            if ended:
                return own
            if others := other_jobs(jobs, self.id):
                raise CheckError(
                    f"stopped because another job started: {others}. Run the test again when that job has ended"
                )
            if now() - self.started > self.limit:
                last = (self.output.strip().splitlines() or ["none"])[-1]
                raise CheckError(f"stopped because it did not finish within {self.limit:.0f} s; last output: {last}")
            time.sleep(POLL)

    def stop(self) -> None:
        """Ask Ray to stop the job. Ignore further signals, which would interrupt the request."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        try:
            self.head.call("POST", f"/api/jobs/{self.id}/stop")
            say(f"job {self.id} was asked to stop")
        except CheckError as error:
            say(f"cannot stop job {self.id} ({error}); it ends by itself within {self.limit:.0f} s")

    def reason(self, own: Record) -> str:
        """Return why the job did not succeed: the probe's own message if it printed one."""
        if failures := re.findall("^grpo: failed: (.+)$", self.output, re.MULTILINE):
            return str(failures[-1])
        if own["status"] == "STOPPED":
            return "somebody stopped its job"
        message = (own.get("message") or "Ray gives no reason").strip().splitlines()[-1]
        return f"its job ended with status {own['status']}; see the output above, and Ray's message: {message}"

    def run(self, program: str) -> None:
        """Submit the job, watch it and check its result.

        Raises CheckError if the check fails, and CheckStoppedError after a signal; by then the job has ended or was
        asked to stop.
        """
        if others := other_jobs(self.head.jobs(), self.id):
            raise CheckError(
                f"another job is running: {others}. The check would take GPUs that this job needs:"
                " run it when the cluster is idle"
            )
        try:
            self.submit(program)
            own = self.watch()
        except BaseException:
            self.stop()
            raise
        if own["status"] != "SUCCEEDED":
            raise CheckError(self.reason(own))
        say(f"{self.what}: passed in {now() - self.started:.0f} s")


def on_signal(number: int, _frame: FrameType | None) -> None:
    raise CheckStoppedError(signal.Signals(number).name)


def main(arguments: list[str]) -> int:
    """Run the check named in the plan; after a failure, the last line of the output gives the reason."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    plan = json.loads(arguments[0])
    what = plan["probe"]["check"]
    try:
        Check(Head(plan["address"], read_token()), plan).run(
            Path(__file__).with_name("probe.py").read_text(encoding="utf-8")
        )
    except CheckError as error:
        say(f"{what} failed: {error}")
    except CheckStoppedError as error:
        say(f"{what} failed: {error} stopped it")
    else:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
