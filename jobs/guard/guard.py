"""Watch a training from inside its job: say what goes wrong, and stop a trainer that stands still.

A trainer that holds its GPUs and prints no step is stopped after a deadline, and started again from its last
checkpoint. Before that, evidence is collected, and after a trainer has failed by itself. New output that is not
understood never leads to a stop.
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
from signs import SIGNS, Judge
from status import Status, timestamp
from steps import CHECKPOINT, ENDED, VALIDATION, Event, Step, Validation
from trainer import Watch

KEPT: Final = 64 << 10
# How often status.json shows the hours of a run that prints nothing.
REFRESH: Final = 60.0
# The last output of a trainer arrives within this time.
LAST_WORDS: Final = 2.0
# What a version of verl may not say: that it validates, or saves.
UNSEEN: Final = {"verl": {CHECKPOINT, VALIDATION}}
STOPPED: Final = "stopped.txt"


class Guard(Watch):
    """The guard of one attempt of a training."""

    def __init__(self, plan: Record, owner: Owner) -> None:
        directory = Path(plan["runDirectory"])
        self.plan, self.settings, self.framework = plan, plan["guard"], plan["identity"]["framework"]
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
        self.judge, self.shown = Judge(), dict[str, set[int]]()
        self.chunks = queue.Queue[bytes](4096)
        self.evidence: subprocess.Popen[bytes] | None = None
        self.evidence_until, self.evidence_folder, self.limit = 0.0, "", float(self.settings["evidenceSeconds"])
        self.blind, self.told, self.repeats = False, False, 0
        self.begin(0, 0)

    def refuse(self) -> None:
        """Raise JobError if the values name no sign, or if a sign has ended this attempt before."""
        if unknown := sorted(self.stop_on.keys() - SIGNS.keys()):
            raise JobError(f"job.guard.stopOn: there is no sign {unknown[0]}; there are {', '.join(sorted(SIGNS))}")
        with contextlib.suppress(FileNotFoundError):
            why = (self.folder / STOPPED).read_text(encoding="utf-8").strip()
            raise JobError(f"the guard has ended this attempt: {why}. Change the values, then raise job.attempt")

    def begin(self, pid: int, group: int) -> None:
        """Start to watch a trainer."""
        self.group, self.started, self.looked, self.refreshed = group, now(), now(), now()
        self.reader, self.decoder = log_readers.reader(self.framework), codecs.getincrementaldecoder("utf-8")("replace")
        self.tail, self.reason, self.stopping, self.saved, self.news = b"", "", False, False, News()
        with contextlib.suppress(queue.Empty):
            while True:
                self.chunks.get_nowait()
        self.heartbeat.begin()
        self.failure, self.sign = "", False
        if pid:
            self.status.set(state="running", phase=self.heartbeat.phase, reason="")

    def hear(self, chunk: bytes) -> None:
        """Take output, in the thread that copies it: if nobody reads, lines are lost and nothing waits."""
        with contextlib.suppress(queue.Full):
            self.chunks.put_nowait(chunk)

    def look(self, paused: bool) -> str:
        """Return why the trainer must be stopped, once evidence was collected, or an empty text."""
        passed, self.looked = now() - self.looked, now()
        self.status.spend(passed)
        # A volume that does not answer holds the trainer up, and the owner of the run stops it in time.
        self.heartbeat.tick(0.0 if paused else passed)
        if now() - self.refreshed > REFRESH:
            self.refreshed = now()
            self.status.set()
        try:
            beats = self.follow()
        except Exception as error:  # A reader that fails must not end a run.
            self.blind = True
            self.cannot_judge(f"it cannot read the output ({type(error).__name__}: {error})")
        if self.blind:
            return ""
        if not self.reason:
            self.stalled()
        elif beats and not self.sign:
            self.go_on()
        elif self.collected():
            self.stopping = True
            return self.reason
        return ""

    def follow(self) -> int:
        """Read the output that has come; return the number of events."""
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
        """Note an event in the heartbeat, the signs and the status."""
        self.heartbeat.beat(event)
        shown: Record = {"phase": self.heartbeat.phase, "heartbeat": timestamp()}
        if isinstance(event, Step):
            shown |= {"step": event.number, "reward": event.reward}
            if CHECKPOINT in event.phases:
                # The checkpoint holds what was there when its save began.
                self.saved = True
                self.status.save(event.phases[CHECKPOINT])
            self.find_signs(event)
        elif isinstance(event, Validation) and event.reward is not None:
            shown["validation"] = event.reward
        self.status.set(**shown)

    def find_signs(self, step: Step) -> None:
        """Say which signs are new, and stop where the values say so."""
        for sign in self.judge.add(step):
            self.warn(sign.id, f"step {sign.step}: {sign.what} (sign {sign.id})")
        # By number: a step that is printed twice, or repeated after a restart, counts once.
        self.shown = {name: self.shown.get(name, set()) | {step.number} for name in self.judge.active}
        for name, stop in self.stop_on.items():
            if len(self.shown.get(name, ())) >= stop.get("steps", 1) and not self.reason:
                self.sign = True
                reason = f"step {step.number} shows the sign {name} (job.guard.stopOn)"
                self.warn("stopped", reason)
                self.prove(reason)

    def warn(self, sign: str, text: str) -> None:
        say(f"guard: {text}")
        self.status.find(sign, text)

    def cannot_judge(self, why: str) -> None:
        """Say once that this guard does not stop what it does not understand."""
        if not self.told:
            self.warn("not-understood", f"{why}: it cannot judge this run and will not stop it")
        self.told = True

    def stalled(self) -> None:
        """Begin to stop a trainer whose silence is too long."""
        if not self.heartbeat.overdue():
            return
        phase, silence, deadline = self.heartbeat.phase, self.heartbeat.silence(), self.heartbeat.deadline()
        if silence <= deadline:
            self.cannot_judge(f"output that is new, and no line that it understands for {self.heartbeat.silent:.0f} s")
            return
        shown = "nothing" if self.heartbeat.stepped else "nothing new"
        limit = f"{silence:.0f} s, and its deadline is {deadline:.0f} s"
        reason = f"the trainer has stalled: phase {phase}{self.place()} has shown {shown} for {limit}"
        self.warn("stalled", reason)
        self.prove(reason)

    def place(self) -> str:
        step = self.status.fields.get("step")
        return f" after step {step}" if step else ""

    def prove(self, reason: str) -> None:
        """Start to collect evidence."""
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
            "started": self.started,
            "seconds": self.limit,
        }
        try:
            self.evidence = start_evidence(json.dumps(request))
        except OSError as error:
            say(f"guard: no evidence: {error.strerror}")

    def collected(self) -> bool:
        """Return whether the evidence is there, or its time is over."""
        if self.evidence is None:
            return True
        if (code := self.evidence.poll()) is not None:
            if code:
                say("guard: the evidence is not complete: it cannot be written")
            self.evidence = None
            return True
        if now() < self.evidence_until:
            return False
        say("guard: the evidence is not complete: its time is over")
        self.end_evidence()
        return True

    def wait_for_evidence(self) -> None:
        while not self.collected():
            pause(0.1)

    def end_evidence(self) -> None:
        # It is not waited for: on a volume that hangs it cannot end.
        if self.evidence and self.evidence.poll() is None:
            os.killpg(self.evidence.pid, signal.SIGKILL)
        self.evidence = None

    def go_on(self) -> None:
        """Stop nothing after all: the trainer was only slow."""
        self.end_evidence()
        self.warn("slow", f"the trainer goes on and is not stopped: {self.reason}")
        self.reason = ""
        self.status.set(state="running")

    def ended(self, code: int, stopped: bool, how: str) -> None:
        """Note the end of a trainer; if nobody has stopped it and it failed, collect evidence and say why."""
        by_itself = not stopped and not self.stopping
        if by_itself and code:
            self.hear_out(how)
        if by_itself and code == 0:
            self.status.save(0.0)
        else:
            self.status.lose()
        self.status.set(state="waiting", exitCode=code)
        if by_itself and code and self.reason:
            # It would have been stopped: what it waited for had a time limit too.
            self.wait_for_evidence()
            self.stopping = True
        elif by_itself and code:
            self.failed(code, how)
        self.end_evidence()

    def hear_out(self, last: str) -> None:
        """Take the output that is still on its way, up to a line."""
        deadline = now() + LAST_WORDS
        while last.encode() not in self.tail and now() < deadline:
            with contextlib.suppress(Exception):
                self.follow()
            pause(0.05)

    def failed(self, code: int, how: str) -> None:
        """Collect evidence of a trainer that has ended by itself, and say at the end of the log why it did."""
        error = last_error(self.tail.decode(errors="replace")) if code == 1 else ""
        self.failure = f"{how}: {error}" if error else how
        self.status.find("failed", self.failure)
        self.prove(self.failure)
        self.wait_for_evidence()
        self.status.set(state="waiting", reason=self.failure)
        say(f"guard: {self.failure}; evidence: {self.evidence_folder}")

    def again(self) -> bool:
        """Return whether to start a trainer that this guard has stopped again; raise JobError to give up."""
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
    """Start the program that collects evidence, in a process group of its own."""
    program = Path(__file__).with_name("evidence.py")
    with tempfile.TemporaryFile() as file:
        file.write(request.encode())
        file.seek(0)
        null = subprocess.DEVNULL
        return subprocess.Popen([sys.executable, program], stdin=file, stdout=null, stderr=null, start_new_session=True)
