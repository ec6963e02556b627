"""Own a run directory: only one attempt at a time writes there.

An attempt claims the next term (owners/<term>.json, created exclusively), then writes heartbeats to owner.json. A
successor waits until that record is released, or unchanged for the seconds of its `lapse` on the successor's clock. An
owner that cannot write its heartbeat stops its trainer earlier: SIGTERM after two thirds of them, SIGKILL after
GRACE_SECONDS.
If the owner itself is held up, its fence kills the trainer LAST seconds after that SIGTERM was due.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import socket
import threading
import uuid
from collections.abc import Iterable
from pathlib import Path

from fence import Fence
from files import create_exclusively, write_atomically, write_in_place
from runtime import JobError, Record, now, pause, say


def seconds(name: str, default: str) -> float:
    try:
        return float(os.environ.get(f"GRPO_OWNER_{name}_SECONDS", default))
    except ValueError:
        raise SystemExit(f"grpo: GRPO_OWNER_{name}_SECONDS must be a number of seconds, such as {default}") from None


BEAT_SECONDS, LAPSE_SECONDS = seconds("BEAT", "5"), seconds("LAPSE", "240")
# The part of a lapse after which an owner that cannot write stops its trainer.
PART = 2 / 3
FENCE_SECONDS, GRACE_SECONDS, LAST = LAPSE_SECONDS * PART, LAPSE_SECONDS / 6, LAPSE_SECONDS / 4
# A checkpoint of hundreds of GiB may hold up a heartbeat for minutes: its own load must not look like a dead owner, and
# a successor that waits for `patience` seconds must not give up before it may take over. A dead volume holds GPUs.
SAVING, LONGEST = 3 / 4, 1800.0
# A silence of the volume that is worth a line of the log.
STALL_SECONDS = 6 * BEAT_SECONDS


def read_record(path: Path) -> Record:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError):
        record = None
    # Somebody may have edited it: treat it as an owner whose heartbeat has stopped.
    sound = isinstance(record, dict) and type(record.get("term")) is int and type(record.get("lapse")) in (int, float)
    return record if sound else {"state": "unreadable", "term": 0, "lapse": LAPSE_SECONDS}


def highest(names: Iterable[str]) -> int:
    """Return the highest number among file names; 0 if there is none."""
    stems = (name.split(".")[0] for name in names)
    return max((int(stem) for stem in stems if re.fullmatch("[0-9]{1,9}", stem)), default=0)


def term_of(record: Record) -> int:
    return int(record.get("term", 0))


def ray_job() -> str | None:
    """Return the ID of the Ray job that runs this program; None outside Ray."""
    try:
        metadata = json.loads(os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR") or "{}")["metadata"]
        return str(metadata["job_submission_id"])
    except (ValueError, TypeError, KeyError):
        return os.environ.get("RAY_JOB_ID")


def describe(record: Record) -> str:
    return f"attempt {record.get('attempt', '?')} (host {record.get('host', '?')}, job {record.get('job') or '?'})"


class Owner:
    """The attempt's claim on the run directory; `term` is 0 until the attempt owns it."""

    def __init__(self, plan: Record, directory: Path, patience: float) -> None:
        self.patience = patience  # seconds to wait for another owner to stop, or for the storage
        self.path, self.claims = directory / "owner.json", directory / "owners"
        self.term, self.beats, self.written, self.lost, self.stalled = 0, 0, now(), "", False
        # Whether a checkpoint is being saved, and whether each write so far has done what it said.
        self.saving, self.sound, self.stop_at = False, True, now() + FENCE_SECONDS
        self.fence: Fence | None = None
        self.about = {"run": plan["run"], "attempt": plan["attempt"], "host": socket.gethostname(), "pid": os.getpid()}
        self.about |= {"job": ray_job(), "token": str(uuid.uuid4())}
        self.done, self.soon = threading.Event(), threading.Event()
        # A thread, because a write hangs when the storage hangs, and the trainer must be stopped even then.
        self.heart = threading.Thread(target=self.keep, daemon=True)

    def look(self) -> tuple[Record, int]:
        """Return the owner record and the highest claimed term."""
        # List first: object-store mounts then ask the store, and a later lookup does not read an old cache.
        os.listdir(self.path.parent)
        top = highest(os.listdir(self.claims))
        return read_record(self.path), top

    def text(self, state: str, term: int, lapse: float) -> str:
        record = {"state": state, "term": term, "beat": self.beats, **self.about, "lapse": lapse}
        return json.dumps(record, indent=2) + "\n"

    def write(self, state: str) -> None:
        """Write the record; while a checkpoint is being saved, the record asks successors for more time."""
        lapse = (
            max(LAPSE_SECONDS, min(self.patience * SAVING, LONGEST)) if self.saving and self.sound else LAPSE_SECONDS
        )
        started, text = now(), self.text(state, self.term, lapse)
        until = started + lapse * PART
        # A successor may read this record before the call returns, or only the one before it.
        self.limit(min(self.stop_at, until))
        try:
            write_atomically(self.path, text, self.about["token"])
        except OSError as error:
            # What has failed may be carried out later, over a record that asks for more time.
            if self.sound:
                least = f"{FENCE_SECONDS:.0f} s"
                say(f"warning: a write of the owner record failed; now a save may delay it by at most {least}")
            self.sound = False
            # A full volume takes no new file. A reader of a part of this one sees an owner that is there.
            if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not self.path.exists():
                raise
            # A part of the record, and a record that nobody can read, do not ask for more time.
            until = min(until, started + FENCE_SECONDS)
            self.limit(min(self.stop_at, until))
            write_in_place(self.path, text)
        # A call that returns too late may have landed over the record of a successor.
        self.written = started
        self.limit(until if now() <= self.stop_at else min(until, started + FENCE_SECONDS))

    def limit(self, moment: float) -> None:
        """Set the time by which the trainer must stop; its fence kills it somewhat later."""
        self.stop_at = moment
        if self.fence:
            # A trainer that its fence has killed is the supervisor's business.
            with contextlib.suppress(BrokenPipeError):
                self.fence.move(moment + LAST)

    def set_fence(self, fence: Fence) -> None:
        """Make a trainer's fence follow the heartbeat."""
        self.fence = fence
        self.limit(self.stop_at)

    def acquire(self) -> None:
        """Become the run's only owner, or raise JobError after `patience` seconds."""
        deadline = now() + self.patience
        while not self.claim(*self.wait(deadline)):
            say("another attempt claimed the run first")
        say(f"this attempt owns the run (term {self.term})")

    def wait(self, deadline: float) -> tuple[int, bool]:
        """Wait until nobody owns the run; return the next term and whether the last owner's heartbeat stopped."""
        seen: tuple[Record, int] = {}, -1
        since = reported_at = 0.0
        while (asked := now()) < deadline:
            try:
                record, top = self.look()
            except OSError as error:
                say(f"warning: cannot read the owner record: {error.strerror}")
                pause(BEAT_SECONDS)
                continue
            if record.get("state", "released") == "released" and top <= term_of(record):
                return term_of(record) + 1, False
            if (record, top) != seen:
                seen, since = (record, top), now()
            # Up to the moment of asking: when a look takes long, the owner may have written since it was read.
            lapse, silent = max(LAPSE_SECONDS, record.get("lapse", 0)), max(0.0, asked - since)
            if silent >= lapse or now() - reported_at > 10:
                say(f"{describe(record)} owns the run, silent for {silent:.0f} s; taking over after {lapse:.0f} s")
                reported_at = now()
            if silent >= lapse:
                return max(top, term_of(record)) + 1, True
            pause(min(1, BEAT_SECONDS / 2))
        raise JobError(
            f"{describe(seen[0])} still owns the run after {self.patience:.0f} s; "
            "delete its RayJob, then raise job.attempt"
        )

    def claim(self, term: int, lapsed: bool) -> bool:
        path, won = self.claims / f"{term}.json", False
        try:
            if create_exclusively(path, self.text("running", term, LAPSE_SECONDS)):
                self.term = term
                self.write("running")
                # Give an owner that was only paused time to see the claim and stop its trainer.
                pause(BEAT_SECONDS * (2 if lapsed else 0.4))
                self.check()
                won = read_record(path).get("token") == self.about["token"]
        except JobError:
            pass
        self.term = term if won else 0
        return won

    def check(self) -> None:
        """Raise JobError if another attempt owns the run; ignore a late write from an earlier term."""
        record, top = self.look()
        if not record:
            raise JobError(f"{self.path} is gone")
        if top > self.term or (term_of(record) >= self.term and record.get("token") != self.about["token"]):
            raise JobError(f"the run was taken over by {describe(record)}")

    def keep(self) -> None:
        """Write heartbeats until the run is released or lost."""
        while not self.done.is_set():
            self.soon.wait(BEAT_SECONDS)
            self.soon.clear()
            if self.done.is_set():
                return
            try:
                self.check()
                self.beats += 1
                self.write("running")
            except JobError as error:
                self.lost = str(error)
                return
            except OSError as error:
                say(f"warning: cannot write the owner record: {error.strerror}")

    def save(self, saving: bool) -> None:
        """Record whether a checkpoint is being saved; the heartbeat that asks for more time is written at once."""
        begins, self.saving = saving and not self.saving, saving
        if begins:
            self.soon.set()

    def stall(self) -> bool:
        """Report when the volume has stopped answering, and when it answers again; return whether it is silent."""
        silent = now() - self.written
        if (silent > STALL_SECONDS) != self.stalled:
            self.stalled = not self.stalled
            of = "two thirds of job.lapseSeconds, in a save half of job.takeoverSeconds"
            limit = f"the trainer continues, but is stopped after {self.stop_at - self.written:.0f} s ({of})"
            end = f"has not answered for {silent:.0f} s; {limit}" if self.stalled else "answers again"
            say(f"warning: the volume {end}")
        return self.stalled

    def trouble(self) -> str:
        """Return why the trainer must stop, or an empty text."""
        if self.lost or now() <= self.stop_at:
            return self.lost
        return f"the owner record could not be written for {now() - self.written:.0f} s"

    def confirm(self) -> None:
        """Wait until the trainer may start: the storage answers, and no other attempt has taken over the run.

        Raises JobError if the run is lost, or if the storage does not answer for `patience` seconds.
        """
        deadline, silent = now() + self.patience, False
        while reason := self.trouble():
            if self.lost or now() > deadline:
                raise JobError(reason)
            silent = True
            pause(BEAT_SECONDS)
        # A waiting successor may have noticed the missing heartbeat: give its claim time to appear.
        pause(BEAT_SECONDS * 2 if silent else 0)
        self.check()

    def release(self) -> None:
        """Stop the heartbeat; if the run is still ours and no write is hanging, release it for a successor."""
        self.done.set()
        self.soon.set()
        if self.heart.is_alive():
            self.heart.join(FENCE_SECONDS)
        if self.term and not self.heart.is_alive():
            try:
                self.check()
                self.write("released")
            except (JobError, OSError) as error:
                say(f"the owner record was not released: {error}")
