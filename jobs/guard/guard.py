"""Watch training from inside its job: report what goes wrong, and stop a trainer that makes no progress.

A trainer that holds its GPUs but prints no step is stopped after a deadline, and restarted from its last
checkpoint. Evidence is collected before that, and after a trainer has failed by itself. Until the guard has
recognized a step, any new output counts as progress.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final

import log_readers
from heartbeat import Heartbeat
from last_error import last_error
from news import News
from owner import Owner
from runtime import JobError, Record, now, pause, say
from signs import SIGNS, Judge, Limits
from status import Status, timestamp
from steps import CHECKPOINT, ENDED, VALIDATION, Event, Step, Validation
from trainer import Watch

KEPT: Final = 64 << 10
# How often status.json shows the hours of a run that prints nothing.
REFRESH_SECONDS: Final = 60.0
# The last output of a trainer arrives within this time.
DRAIN_SECONDS: Final = 2.0
# Phases that some versions of verl do not announce.
UNSEEN: Final = {"verl": {CHECKPOINT, VALIDATION}}
STOPPED: Final = "stopped.txt"


class Guard(Watch):
    """The guard of one training attempt."""

    def __init__(self, plan: Record, owner: Owner) -> None:
        directory = Path(plan["runDirectory"])
        self.plan, self.settings, self.framework = plan, plan["guard"], plan["identity"]["framework"]
        self.owner = owner
        self.folder = directory / "attempts" / str(plan["attempt"])
        self.stop_on: dict[str, Record] = self.settings["stopOn"]
        self.refuse()
        workers = plan.get("workers") or {"nodes": 0, "gpus": 0}
        about = {"run": plan["run"], "attempt": plan["attempt"], "gpus": workers["nodes"] * workers["gpus"]}
        self.status = Status(directory, about, lambda: not owner.lost)
        self.grace = float(self.settings["saveSeconds"])
        seconds, factor = self.settings["deadlines"], self.settings["factor"]
        self.heartbeat = Heartbeat(seconds, factor, set(UNSEEN.get(self.framework, ())))
        self.heartbeat.stepped = self.status.stepped
        self.judge, self.shown = Judge(Limits.of(self.settings["limits"])), dict[str, set[int]]()
        self.chunks = queue.Queue[bytes](4096)
        self.evidence: subprocess.Popen[bytes] | None = None
        self.evidence_until, self.evidence_folder, self.limit = 0.0, "", float(self.settings["evidenceSeconds"])
        self.blind, self.told, self.repeats = False, False, 0
        self.begin(0, 0)

    def refuse(self) -> None:
        """Raise JobError if the values name an unknown sign, or if a sign has already ended this attempt."""
        if unknown := sorted(self.stop_on.keys() - SIGNS.keys()):
            raise JobError(f"job.guard.stopOn: there is no sign {unknown[0]}; there are {', '.join(sorted(SIGNS))}")
        with contextlib.suppress(FileNotFoundError):
            # The disk may have been full.
            why = (self.folder / STOPPED).read_text(
                encoding="utf-8", errors="replace"
            ).strip() or "by a sign of the run"
            raise JobError(f"the guard has ended this attempt: {why}. Change the values, then raise job.attempt")

    def begin(self, pid: int, group: int) -> None:
        """Start watching a trainer."""
        self.group, self.started, self.looked, self.refreshed = group, now(), now(), now()
        self.reader, self.decoder = log_readers.reader(self.framework), codecs.getincrementaldecoder("utf-8")("replace")
        self.tail, self.reason, self.stopping, self.saved, self.news = b"", "", False, False, News()
        with contextlib.suppress(queue.Empty):
            while True:
                self.chunks.get_nowait()
        self.heartbeat.begin()
        self.failure, self.sign, self.is_over = "", False, False
        if pid:
            self.status.set(state="running", phase=self.heartbeat.phase, reason="")

    def hear(self, chunk: bytes) -> None:
        """Receive output in the thread that copies it; if nobody reads it, it is dropped, so that nothing blocks."""
        with contextlib.suppress(queue.Full):
            self.chunks.put_nowait(chunk)

    def look(self, paused: bool) -> str:
        """Return why the trainer must be stopped, once evidence has been collected; otherwise an empty text."""
        passed, self.looked = now() - self.looked, now()
        self.status.spend(passed)
        # A volume that does not answer holds the trainer up, and the owner of the run stops it in time.
        self.heartbeat.tick(0.0 if paused else passed)
        if now() - self.refreshed > REFRESH_SECONDS:
            self.refreshed = now()
            self.status.set()
        try:
            beats = self.follow()
        except Exception as error:  # A reader that fails must not end a run.
            self.blind = True
            self.cannot_judge(f"the output cannot be read ({type(error).__name__}: {error})")
        self.owner.save(self.heartbeat.phase == CHECKPOINT and not self.blind)
        if self.blind:
            return ""
        if not self.reason:
            self.check_silence()
        elif beats and not self.sign:
            self.cancel_stop()
        elif self.evidence_is_done():
            self.stopping = True
            return self.reason
        return ""

    def follow(self) -> int:
        """Read the output received so far; return the number of events."""
        beats = 0
        for _ in range(256):
            try:
                chunk = self.chunks.get_nowait()
            except queue.Empty:
                break
            self.tail, text = (self.tail + chunk)[-KEPT:], self.decoder.decode(chunk)
            if not self.heartbeat.stepped and self.news.feed(text):
                self.heartbeat.hear()
            for event in self.reader.feed(text):
                beats += 1
                self.take(event)
        return beats

    def take(self, event: Event) -> None:
        """Record an event in the heartbeat, the signs and the status."""
        self.heartbeat.beat(event)
        shown: Record = {"phase": self.heartbeat.phase, "heartbeat": timestamp()}
        if isinstance(event, Step):
            shown |= {"step": event.number, "reward": event.reward}
            if CHECKPOINT in event.phases:
                # The checkpoint holds what was there when its save began.
                self.saved = True
                self.status.save(event.phases[CHECKPOINT])
                shown["checkpoint"] = {"step": event.number, "time": timestamp()}
            self.find_signs(event)
        elif isinstance(event, Validation) and event.reward is not None:
            shown["validation"] = event.reward
        self.status.set(**shown)

    def find_signs(self, step: Step) -> None:
        """Report new signs, and stop if the values say so."""
        for sign in self.judge.add(step):
            self.warn(sign.id, f"step {sign.step}: {sign.what} (sign {sign.id})")
        # By number: a step that is printed twice, or repeated after a restart, counts once.
        self.shown = {name: self.shown.get(name, set()) | {step.number} for name in self.judge.active}
        for name, stop in self.stop_on.items():
            if len(self.shown.get(name, ())) >= stop.get("steps", 1) and not self.reason and not self.is_over:
                self.sign = True
                reason = f"step {step.number} shows the sign {name} (job.guard.stopOn)"
                self.warn("stopped", reason)
                self.start_collecting(reason)

    def warn(self, sign: str, text: str) -> None:
        say(f"guard: {text}")
        self.status.find(sign, text)

    def cannot_judge(self, why: str, until: str = "") -> None:
        """Report once that the guard cannot judge this run, and why."""
        if not self.told:
            verdict = f"the guard cannot judge this run and will not stop it{until} (docs/howto/guard.md)"
            self.warn("not-understood", f"{why}; {verdict}")
        self.told = True

    def check_silence(self) -> None:
        """Begin to stop a trainer that has been silent for too long."""
        if not self.heartbeat.overdue():
            return
        phase, silence, deadline = self.heartbeat.phase, self.heartbeat.silence(), self.heartbeat.deadline()
        if silence <= deadline:
            # Output that has ended may be a stall, which is told when its time has come.
            if silence < deadline / 2:
                why = f"new output, but no line that the guard recognizes for {self.heartbeat.since_event:.0f} s"
                self.cannot_judge(why, " while this continues")
            return
        shown = "nothing" if self.heartbeat.stepped else "nothing new"
        limit = f"{silence:.0f} s, and its deadline is {deadline:.0f} s"
        reason = f"the trainer has stalled: phase {phase}{self.place()} has shown {shown} for {limit}"
        self.warn("stalled", reason)
        self.start_collecting(reason)

    def place(self) -> str:
        step = self.status.fields.get("step")
        return f" after step {step}" if step else ""

    def start_collecting(self, reason: str) -> None:
        """Start collecting evidence."""
        self.reason = reason
        folder = self.folder / "evidence" / timestamp().replace(":", "").replace("-", "")
        self.evidence_folder, self.evidence_until = str(folder), now() + self.limit
        self.status.set(state="stopping")
        say(f"guard: collecting evidence for at most {self.limit:.0f} s: {folder}")
        request = {
            "folder": str(folder),
            "reason": reason,
            "output": self.tail.decode(errors="replace"),
            "group": self.group,
            "prefix": os.environ.get("TORCH_FR_DUMP_TEMP_FILE", ""),
            "pipes": os.environ.get("TORCH_NCCL_DEBUG_INFO_PIPE_FILE", ""),
            "started": self.started,
            "seconds": self.limit,
        }
        try:
            self.evidence = start_evidence(json.dumps(request))
        except OSError as error:
            say(f"guard: cannot start collecting evidence: {error.strerror}; the guard continues without it")

    def evidence_is_done(self) -> bool:
        """Return whether the evidence is complete or its time is up."""
        if self.evidence is None:
            return True
        if (code := self.evidence.poll()) is not None:
            if code:
                how = f"the program that collects it ended with exit code {code}"
                say(f"guard: the evidence in {self.evidence_folder} is incomplete: {how}")
            self.evidence = None
            return True
        if now() < self.evidence_until:
            return False
        say(f"guard: the evidence is incomplete after {self.limit:.0f} s (job.guard.evidenceSeconds)")
        self.end_evidence()
        return True

    def wait_for_evidence(self) -> None:
        while not self.evidence_is_done():
            pause(0.1)

    def end_evidence(self) -> None:
        # It is not waited for: on a volume that hangs it cannot end.
        if self.evidence and self.evidence.poll() is None:
            os.killpg(self.evidence.pid, signal.SIGKILL)
        self.evidence = None

    def cancel_stop(self) -> None:
        self.end_evidence()
        made = "the trainer made progress again and is not stopped"
        self.warn("slow", f"{made}; the reason to stop it was: {self.reason}")
        self.reason = ""
        self.status.set(state="running")

    def ended(self, code: int, stopped: bool, how: str) -> None:
        """Record the end of a trainer; if it failed without being stopped, collect evidence and report the reason."""
        self.owner.save(False)
        by_itself = not stopped and not self.stopping
        # Nothing is left to stop where it went well or was stopped; a failure shows why.
        self.is_over = not (by_itself and code)
        self.read_rest(how)
        if by_itself and code == 0:
            self.status.save(0.0)
            if self.reason:
                self.warn("slow", f"the trainer ended before it was stopped; the reason to stop it was: {self.reason}")
        else:
            self.status.lose()
        self.status.set(state="waiting", exitCode=code)
        if by_itself and code and self.reason:
            # It would have been stopped: what it waited for had a time limit too.
            self.wait_for_evidence()
            self.stopping = True
        elif by_itself and code:
            self.report_failure(code, how)
        self.end_evidence()

    def read_rest(self, last: str) -> None:
        """Read the remaining output, up to the line `last`."""
        deadline = now() + DRAIN_SECONDS
        while last.encode() not in self.tail and now() < deadline:
            with contextlib.suppress(Exception):
                self.follow()
            pause(0.05)

    def report_failure(self, code: int, how: str) -> None:
        """Collect evidence about a failed trainer, and end the log with the reason."""
        error = last_error(self.tail.decode(errors="replace")) if code == 1 else ""
        self.failure = f"{how}: {error}" if error else how
        self.status.find("failed", self.failure)
        self.start_collecting(self.failure)
        self.wait_for_evidence()
        self.status.set(state="waiting", reason=self.failure)
        say(f"guard: {self.failure}; evidence: {self.evidence_folder}")

    def should_restart(self) -> bool:
        if not self.stopping:
            return False
        if self.sign:
            with contextlib.suppress(OSError):
                (self.folder / STOPPED).write_text(f"{self.reason}\n", encoding="utf-8")
            raise JobError(f"{self.reason}; evidence: {self.evidence_folder}")
        self.repeats = 0 if self.saved else self.repeats
        restarts, where = self.settings["restarts"], f"evidence: {self.evidence_folder}"
        if self.heartbeat.phase == ENDED:
            raise JobError(f"the training has ended, but its processes have not: {self.reason}; {where}")
        if self.repeats >= restarts:
            tries = f"{self.repeats} of {restarts} restarts (job.guard.restarts) without a new checkpoint"
            raise JobError(f"{self.reason}; gave up after {tries}; {where}")
        self.repeats += 1
        self.status.set(state="waiting", restarts=self.repeats)
        say(f"guard: starting the trainer again on the same cluster: restart {self.repeats} of {restarts}")
        return True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end_evidence()
        self.status.set(state="ended", reason=str(error) if isinstance(error, JobError) else self.failure)
        self.status.close()


def start_evidence(request: str) -> subprocess.Popen[bytes]:
    """Start the program that collects evidence, in its own process group."""
    program = Path(__file__).with_name("evidence.py")
    with tempfile.TemporaryFile() as file:
        file.write(request.encode())
        file.seek(0)
        null = subprocess.DEVNULL
        return subprocess.Popen([sys.executable, program], stdin=file, stdout=null, stderr=null, start_new_session=True)
