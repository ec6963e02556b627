"""Own a run directory: only one attempt at a time writes there.

An attempt claims the next term (owners/<term>.json, created exclusively), then writes heartbeats to owner.json. A
successor waits until that record is released, or unchanged for LAPSE seconds of the successor's clock. An owner that
cannot write its heartbeat stops its trainer earlier: SIGTERM FENCE seconds after the last one, SIGKILL after GRACE.
"""

from __future__ import annotations

import errno
import json
import os
import re
import socket
import threading
import uuid
from collections.abc import Iterable
from pathlib import Path

from files import create_exclusively, write_atomically, write_in_place
from runtime import JobError, Record, now, pause, say


def seconds(name: str, default: str) -> float:
    try:
        return float(os.environ.get(f"GRPO_OWNER_{name}_SECONDS", default))
    except ValueError:
        raise SystemExit(f"grpo: GRPO_OWNER_{name}_SECONDS must be a number of seconds, such as {default}") from None


# A checkpoint of hundreds of GiB may hold up a heartbeat for minutes: its own load must not look like a dead owner.
BEAT, LAPSE = seconds("BEAT", "5"), seconds("LAPSE", "240")
FENCE, GRACE = LAPSE * 2 / 3, LAPSE / 6
# A silence of the volume that is worth a line of the log.
STALL = 6 * BEAT


def read_record(path: Path) -> Record:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError:
        record = None
    # Somebody may have edited it: treat it as an owner whose heartbeat has stopped.
    sound = isinstance(record, dict) and type(record.get("term")) is int and type(record.get("lapse")) in (int, float)
    return record if sound else {"state": "unreadable", "term": 0, "lapse": LAPSE}


def highest(names: Iterable[str]) -> int:
    """Return the highest number among names of files, 0 if there is none."""
    stems = (name.split(".")[0] for name in names)
    return max((int(stem) for stem in stems if re.fullmatch("[0-9]{1,9}", stem)), default=0)


def term_of(record: Record) -> int:
    return int(record.get("term", 0))


def ray_job() -> str | None:
    """Return the ID of the Ray job that runs this program, None outside Ray."""
    try:
        metadata = json.loads(os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR") or "{}")["metadata"]
        return str(metadata["job_submission_id"])
    except (ValueError, TypeError, KeyError):
        return os.environ.get("RAY_JOB_ID")


def describe(record: Record) -> str:
    return f"attempt {record.get('attempt', '?')} (host {record.get('host', '?')}, job {record.get('job') or '?'})"


class Owner:
    """The claim of this attempt on the run directory; `term` is 0 while it does not own it."""

    def __init__(self, plan: Record, directory: Path, patience: float) -> None:
        self.patience = patience  # seconds to wait for another owner to stop, or for the storage
        self.path, self.claims = directory / "owner.json", directory / "owners"
        self.term, self.beats, self.written, self.lost, self.stalled = 0, 0, now(), "", False
        self.about = {"run": plan["run"], "attempt": plan["attempt"], "host": socket.gethostname(), "pid": os.getpid()}
        self.about |= {"job": ray_job(), "token": str(uuid.uuid4()), "lapse": LAPSE}
        self.done = threading.Event()
        # A thread, because a write hangs when the storage hangs, and the trainer must be stopped even then.
        self.heart = threading.Thread(target=self.keep, daemon=True)

    def look(self) -> tuple[Record, int]:
        """Return the owner record and the highest claimed term."""
        # List first: object-store mounts then ask the store, and a later lookup does not read an old cache.
        os.listdir(self.path.parent)
        top = highest(os.listdir(self.claims))
        return read_record(self.path), top

    def text(self, state: str, term: int) -> str:
        return json.dumps({"state": state, "term": term, "beat": self.beats, **self.about}, indent=2) + "\n"

    def write(self, state: str) -> None:
        started, text = now(), self.text(state, self.term)
        try:
            write_atomically(self.path, text, self.about["token"])
        except OSError as error:
            # A full volume takes no new file. A reader of a part of this one sees an owner that is there.
            if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not self.path.exists():
                raise
            write_in_place(self.path, text)
        self.written = started

    def acquire(self) -> None:
        """Become the only owner of the run, or raise JobError after `patience` seconds."""
        deadline = now() + self.patience
        while not self.claim(*self.wait(deadline)):
            say("another attempt was faster")
        say(f"this attempt owns the run (term {self.term})")

    def wait(self, deadline: float) -> tuple[int, bool]:
        """Wait until nobody owns the run; return the next term and whether the last owner's heartbeat stopped."""
        seen: tuple[Record, int] = {}, -1
        since = reported_at = 0.0
        while now() < deadline:
            try:
                record, top = self.look()
            except OSError as error:
                say(f"warning: cannot read the owner record: {error.strerror}")
                pause(BEAT)
                continue
            if record.get("state", "released") == "released" and top <= term_of(record):
                return term_of(record) + 1, False
            if (record, top) != seen:
                seen, since = (record, top), now()
            lapse, silent = max(LAPSE, record.get("lapse", 0)), now() - since
            if silent >= lapse or now() - reported_at > 10:
                say(f"{describe(record)} owns the run, silent for {silent:.0f} s; taking over after {lapse:.0f} s")
                reported_at = now()
            if silent >= lapse:
                return max(top, term_of(record)) + 1, True
            pause(min(1, BEAT / 2))
        raise JobError(
            f"{describe(seen[0])} owns the run after {self.patience:.0f} s; delete its RayJob, then raise job.attempt"
        )

    def claim(self, term: int, lapsed: bool) -> bool:
        path, won = self.claims / f"{term}.json", False
        try:
            if create_exclusively(path, self.text("running", term)):
                self.term = term
                self.write("running")
                # Give an owner that was only paused time to see the claim and stop its trainer.
                pause(BEAT * (2 if lapsed else 0.4))
                self.check()
                won = read_record(path).get("token") == self.about["token"]
        except JobError:
            pass
        self.term = term if won else 0
        return won

    def check(self) -> None:
        """Raise JobError when another attempt owns the run; ignore a late write of an earlier term."""
        record, top = self.look()
        if not record:
            raise JobError(f"{self.path} is gone")
        if top > self.term or (term_of(record) >= self.term and record.get("token") != self.about["token"]):
            raise JobError(f"the run was taken over by {describe(record)}")

    def keep(self) -> None:
        """Write heartbeats until the run is released or lost."""
        while not self.done.wait(BEAT):
            try:
                self.check()
                self.beats += 1
                self.write("running")
            except JobError as error:
                self.lost = str(error)
                return
            except OSError as error:
                say(f"warning: cannot write the owner record: {error.strerror}")

    def stall(self) -> bool:
        """Say when the volume has stopped answering, and when it answers again; return whether it is silent."""
        silent = now() - self.written
        if (silent > STALL) != self.stalled:
            self.stalled = not self.stalled
            limit = f"the trainer goes on, and is stopped after {FENCE:.0f} s (two thirds of job.lapseSeconds)"
            end = f"has not answered for {silent:.0f} s; {limit}" if self.stalled else "answers again"
            say(f"warning: the volume {end}")
        return self.stalled

    def trouble(self) -> str:
        """Return why the trainer must stop, or an empty text."""
        silent = now() - self.written
        return self.lost or (f"the owner record could not be written for {silent:.0f} s" if silent > FENCE else "")

    def confirm(self) -> None:
        """Wait until the trainer may start: the storage answers, and no other attempt has taken the run.

        Raises JobError when the run is lost, or when the storage does not answer for `patience` seconds.
        """
        deadline, silent = now() + self.patience, False
        while reason := self.trouble():
            if self.lost or now() > deadline:
                raise JobError(reason)
            silent = True
            pause(BEAT)
        # A waiting successor may have noticed the missing heartbeat: give its claim time to appear.
        pause(BEAT * 2 if silent else 0)
        self.check()

    def release(self) -> None:
        """Stop the heartbeat; if the run is still ours and no write hangs, release it for a successor."""
        self.done.set()
        if self.heart.is_alive():
            self.heart.join(FENCE)
        if self.term and not self.heart.is_alive():
            try:
                self.check()
                self.write("released")
            except (JobError, OSError) as error:
                say(f"the owner record was not released: {error}")
