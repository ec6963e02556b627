"""Run one check in a Ray cluster: submit probe.py as a Ray job, print its output, say in one sentence what failed.

The plan is JSON, the only argument. Exit code 0: the check passed; 1: it failed, could not run, or made way for another
job. Whatever happens to this program short of SIGKILL, its job is stopped first; without it the job ends by itself.
Where the head asks for a token, RAY_AUTH_TOKEN holds it; it is never printed.
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
# How long a head may keep silent before the check fails: its agent starts some seconds after its dashboard.
PATIENCE = 30.0
# The job ends before this program gives up, so that the probe itself can say what it waited for.
MARGIN = 15.0
ALIVE = {"PENDING", "RUNNING"}
now = time.monotonic


class CheckError(Exception):
    """The check failed or cannot run; the message says why and what to do."""


class NoAnswerError(CheckError):
    """The head did not answer, or not with what was asked for; a later call may succeed."""


class CheckStoppedError(Exception):
    """A signal asked to stop."""


def say(text: str) -> None:
    print("grpo: " + text.encode("ascii", "backslashreplace").decode(), flush=True)


def read_token() -> str:
    token = os.environ.get("RAY_AUTH_TOKEN", "").strip()
    # The HTTP library's own complaint would show the token.
    if not re.fullmatch("[!-~]*", token):
        raise CheckError(
            "RAY_AUTH_TOKEN holds what no HTTP header can hold: write the Secret again, from a file of one line"
        )
    return token


class Head:
    """The Jobs API of a Ray head, at host:port. Source: Ray's Jobs REST API, the same since 2.46."""

    def __init__(self, address: str, token: str) -> None:
        self.address = address
        self.headers = {"Content-Type": "application/json"}
        if token:
            self.headers["Authorization"] = f"Bearer {token}"

    def call(self, method: str, path: str, body: Record | None = None) -> Any:
        """Return the answer's JSON.

        Raises NoAnswerError, and CheckError where the head refuses to talk to us.
        """
        # Not urllib: it would ask a proxy that the image's environment names.
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
            raise CheckError(f"the Ray head at {self.address} asks for a token: RAY_AUTH_TOKEN is missing or another")
        try:
            if answer.status < 400:
                return json.loads(text)
        except ValueError:
            pass
        last = (text.strip().splitlines() or ["nothing"])[-1][:300]
        raise NoAnswerError(f"the Ray head at {self.address} answered {method} {path} with {answer.status}: {last}")

    def patiently(self, method: str, path: str, body: Record | None = None) -> Any:
        """Call until there is an answer.

        Raises CheckError when there is none for PATIENCE seconds.
        """
        deadline = now() + PATIENCE
        while True:
            try:
                return self.call(method, path, body)
            except NoAnswerError as error:
                if now() > deadline:
                    raise CheckError(f"{error}. Is the cluster ready (kubectl get raycluster)?") from None
                time.sleep(POLL)

    def jobs(self) -> list[Record]:
        """Return all jobs that the head knows, those of other drivers too."""
        found: list[Record] = self.patiently("GET", "/api/jobs/")
        return found


def without_echo(text: str, ended: bool) -> str:
    """Return a job's output without what Ray writes before it: the entrypoint, and so the whole program."""
    _, echoed, output = text.partition("\nGRPO_PROGRAM\n")
    return output.lstrip("\n") if echoed else text if ended else ""


def names(jobs: list[Record], own: str) -> str:
    """Name the jobs that have not ended, ours aside; empty when there is none."""
    others = [job for job in jobs if job.get("status") in ALIVE and job.get("submission_id") != own]
    return ", ".join(f"{job.get('submission_id') or job.get('job_id')} ({job['status']})" for job in others)


def entrypoint(plan: Record, program: str) -> str:
    """Return the job's shell command. Program and plan travel in it: nothing can be mounted in a pod that runs."""
    start, text = "exec python3 -I -W ignore - 3<<'GRPO_PLAN' <<'GRPO_PROGRAM'", json.dumps(plan, indent=2)
    return f"{start}\n{text}\nGRPO_PLAN\n{program.rstrip()}\nGRPO_PROGRAM\n"


class Check:
    """One job, from its submission to its end."""

    def __init__(self, head: Head, plan: Record) -> None:
        self.head = head
        self.what: str = plan["probe"]["check"]
        self.limit = float(plan["timeoutSeconds"])
        self.probe: Record = plan["probe"]
        self.id = f"helm-test-{self.what}-{uuid.uuid4().hex[:8]}"
        self.started = now()
        self.output = ""

    def submit(self, program: str) -> None:
        seconds = max(MARGIN, self.limit - (now() - self.started) - MARGIN)
        command = entrypoint({**self.probe, "seconds": seconds}, program)
        body = {"submission_id": self.id, "entrypoint": command, "metadata": {"grpo-charts": "helm test"}}
        try:
            self.head.patiently("POST", "/api/jobs/", body)
        except CheckError:
            # An answer that was lost on its way is no refusal.
            if all(job.get("submission_id") != self.id for job in self.head.jobs()):
                raise

    def print_output(self, ended: bool) -> None:
        """Print what the job has written since the last call; a gap in the answers is made up for by the next."""
        with contextlib.suppress(NoAnswerError):
            text = self.head.call("GET", f"/api/jobs/{self.id}/logs").get("logs") or ""
            text = without_echo(text, ended)
            sys.stdout.write(text[len(self.output) :])
            sys.stdout.flush()
            self.output = text

    def watch(self) -> Record:
        """Return the job's record when it has ended.

        Raises CheckError when it does not end in time, or when somebody else needs the cluster.
        """
        while True:
            jobs = self.head.jobs()
            own = next((job for job in jobs if job.get("submission_id") == self.id), None)
            if own is None:
                raise CheckError("the Ray head does not know the job any more: it was restarted meanwhile")
            ended = own["status"] not in ALIVE
            self.print_output(ended)
            if ended:
                return own
            if others := names(jobs, self.id):
                raise CheckError(
                    f"made way for a job that started meanwhile: {others}. Run the test again when it has ended"
                )
            if now() - self.started > self.limit:
                last = (self.output.strip().splitlines() or ["none"])[-1]
                raise CheckError(f"not finished within {self.limit:.0f} s and stopped; its last output: {last}")
            time.sleep(POLL)

    def stop(self) -> None:
        """Ask Ray to stop the job; what a second signal would break off is done by then."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        try:
            self.head.call("POST", f"/api/jobs/{self.id}/stop")
            say(f"job {self.id} was asked to stop")
        except CheckError as error:
            say(f"job {self.id} could not be stopped ({error}); it ends by itself within {self.limit:.0f} s")

    def reason(self, own: Record) -> str:
        """Say why the job did not succeed: in the probe's own words where it had the time to say any."""
        if said := re.findall("^grpo: failed: (.+)$", self.output, re.MULTILINE):
            return str(said[-1])
        if own["status"] == "STOPPED":
            return "somebody stopped its job"
        message = (own.get("message") or "Ray gives no reason").strip().splitlines()[-1]
        return f"its job ended as {own['status']}; the output above says why, or Ray: {message}"

    def run(self, program: str) -> None:
        """Submit, watch and judge.

        Raises CheckError, and CheckStoppedError after a signal; the job has then ended or was asked to.
        """
        if others := names(self.head.jobs(), self.id):
            raise CheckError(
                f"refused to run beside another job: {others}. A check takes GPUs that a training needs:"
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
    """Run the check that the plan names; the last line of the output is the sentence that matters."""
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
        say(f"{what} failed: {error} ended it before its time")
    else:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
