"""Start one attempt of a training run: compare facts, own the run directory, write the configuration, run the trainer.

The plan is JSON on file descriptor 3. The exit code is the trainer's (128 + n for signal n), or 1 when a check failed.
One attempt at a time owns a run: it claims the next term (owners/<term>.json, created exclusively), then beats in
owner.json. A successor waits until that record is released, or unchanged for LAPSE seconds of the successor's clock.
An owner that cannot beat stops its trainer before that: SIGTERM FENCE seconds after its last beat, SIGKILL after GRACE.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import queue
import re
import shlex
import shutil
import signal
import socket
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def seconds(name: str, default: str) -> float:
    try:
        return float(os.environ.get(f"GRPO_OWNER_{name}_SECONDS", default))
    except ValueError:
        raise SystemExit(f"grpo: GRPO_OWNER_{name}_SECONDS must be a number of seconds, such as {default}") from None


BEAT, LAPSE, WAIT = seconds("BEAT", "5"), seconds("LAPSE", "30"), seconds("WAIT", "600")
FENCE, GRACE = LAPSE * 2 / 3, LAPSE / 6
STOPS = {signal.SIGTERM, signal.SIGINT}
WATCHED = {*STOPS, signal.SIGCHLD}
# The first member of the trainer's process group: it kills the group when this program has died without a word.
GUARD = ["sh", "-c", "trap '' TERM INT HUP; read line; kill -9 0"]
AGREE = "set images.training and job.version to a pair that belongs together"
NEVER, now = float("inf"), time.monotonic


class Refused(Exception):
    """The run cannot start or go on; the message says why and what to do."""


class Stopped(Exception):
    """SIGTERM or SIGINT arrived while no trainer was running."""


def say(text: str) -> None:
    print("grpo: " + text.encode("ascii", "backslashreplace").decode(), flush=True)


def pause(duration: float) -> None:
    """Wait, unless a signal that asks to stop has arrived or arrives."""
    if info := signal.sigtimedwait(STOPS, duration):
        raise Stopped(info.si_signo)


def create_once(path: Path, text: str) -> bool:
    """Create a file that must not exist; return False when somebody else was first."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        # Object-store mounts notice the second writer when the file is flushed or closed, as ESTALE.
        if error.errno in (errno.EEXIST, errno.ESTALE):
            return False
        # A full disk leaves an empty file, which would be taken for somebody else's.
        with contextlib.suppress(OSError):
            path.unlink()
        raise
    return True


def replace(path: Path, text: str, suffix: str) -> None:
    """Write a file so that a reader sees the old content or the new content, never a part."""
    draft = path.with_name(f".{path.name}.{suffix}")
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def read_record(path: Path) -> Record:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError:
        record = None
    # Somebody may have edited it: then it counts as a sign of life that nobody renews.
    sound = isinstance(record, dict) and type(record.get("term")) is int and type(record.get("lapse")) in (int, float)
    return record if sound else {"state": "unreadable", "term": 0, "lapse": LAPSE}


def highest(directory: Path) -> int:
    """Return the highest number that names an entry, 0 when there is none."""
    stems = (name.split(".")[0] for name in os.listdir(directory))
    return max((int(stem) for stem in stems if re.fullmatch("[0-9]{1,9}", stem)), default=0)


def flat(facts: Record) -> Record:
    """Return facts with the entries of their maps side by side: mounts./data, environment.HF_HOME."""
    parts = {key: value if isinstance(value, dict) else {"": value} for key, value in facts.items()}
    return {f"{key}.{name}" if name else key: value for key, part in parts.items() for name, value in part.items()}


def compare_facts(expected: Record) -> None:
    """Refuse a cluster that was made from other values than this job."""
    text = os.environ.get("GRPO_CLUSTER_FACTS")
    if text is None:
        say("warning: no GRPO_CLUSTER_FACTS here: the raycluster chart did not make this cluster, nothing to compare")
        return
    try:
        cluster = flat(json.loads(text))
    except (ValueError, AttributeError):
        raise Refused("GRPO_CLUSTER_FACTS is not a JSON object: upgrade the raycluster release") from None
    # Variables by name only: what is in them may be nobody else's business.
    wrong = [
        f"{key} is another on the cluster"
        if key.startswith("environment.")
        else f"{key}: the cluster has {cluster.get(key, 'nothing')}, this job was rendered for {value}"
        for key, value in flat(expected).items()
        if key not in cluster or cluster[key] != value
    ]
    if wrong:
        advice = "give the raycluster and the grpo-job release the same values files and upgrade the one that is behind"
        raise Refused(f"{'; '.join(wrong)}. What to do: {advice}")
    say("the cluster agrees with this job")


def prepare_command(plan: Record, config: Path) -> list[str]:
    """Enter the working directory and return the trainer's command, its program as an absolute path."""
    image, folder = plan["facts"].get("image", "of this pod"), plan["workingDirectory"]
    try:
        os.chdir(folder)
    except OSError as error:
        raise Refused(f"{folder}: {error.strerror}: image {image} is not a NeMo RL image; {AGREE}") from None
    for file in plan.get("requiredFiles") or []:
        if not Path(file).exists():
            raise Refused(f"{file} is not in image {image}, which holds another version of NeMo RL; {AGREE}")
    words = [word.replace("{config}", str(config)) for word in plan["command"]]
    program = shutil.which(words[0])
    if program is None:
        raise Refused(f"{words[0]} is not an executable on PATH in image {image}; {AGREE}")
    return [os.path.abspath(program), *words[1:]]


def prepare_directory(plan: Record, directory: Path) -> None:
    """Make the run directory on its volume, which must be mounted already."""
    claims = plan["facts"].get("mounts") or {}
    mount = max((path for path in claims if Path(path) in directory.parents), key=len, default=str(directory.parent))
    claim = claims.get(mount, "of job.volume")
    if not os.path.isdir(mount):
        raise Refused(f"{mount} does not exist: this pod does not mount claim {claim}; upgrade the raycluster release")
    try:
        for part in ("owners", f"attempts/{plan['attempt']}", "checkpoints", "logs"):
            (directory / part).mkdir(parents=True, exist_ok=True)
        if not os.access(directory, os.W_OK):
            raise PermissionError(errno.EACCES, "not writable")
    except OSError as error:
        advice = "it must be mounted read-write, have space left, and let this pod's user or service account write"
        raise Refused(f"cannot write to {directory} on claim {claim}: {error.strerror}; {advice}") from None


def check_attempt(plan: Record, directory: Path) -> None:
    """Refuse an attempt that is behind, or whose number was used with another specification."""
    run, attempt, digest = plan["run"], plan["attempt"], plan["digest"]
    if (last := highest(directory / "attempts")) > attempt:
        raise Refused(f"attempt {last} of {run} exists and this is attempt {attempt}; raise job.attempt above {last}")
    path = directory / "attempts" / str(attempt) / "spec.sha256"
    patience, recorded = now() + BEAT, digest if create_once(path, digest + "\n") else ""
    while not recorded and now() < patience:
        recorded = path.read_text(encoding="utf-8").strip()
        pause(0 if recorded else 0.1)
    if recorded != digest:
        change = f"{recorded[:12] or 'an empty one'}, this one is {digest[:12]}"
        raise Refused(f"attempt {attempt} of {run} was made with another specification ({change}); raise job.attempt")


def term_of(record: Record) -> int:
    return int(record.get("term", 0))


def ray_job() -> str | None:
    """Return the name under which Ray runs this program, if it does."""
    try:
        metadata = json.loads(os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR") or "{}")["metadata"]
        return str(metadata["job_submission_id"])
    except (ValueError, TypeError, KeyError):
        return os.environ.get("RAY_JOB_ID")


def describe(record: Record) -> str:
    return f"attempt {record.get('attempt', '?')} (host {record.get('host', '?')}, job {record.get('job') or '?'})"


class Owner:
    """The claim of this attempt on the run directory; `term` is 0 while it has none."""

    def __init__(self, plan: Record, directory: Path) -> None:
        self.path, self.claims = directory / "owner.json", directory / "owners"
        self.term, self.beats, self.written, self.lost = 0, 0, now(), ""
        self.about = {"run": plan["run"], "attempt": plan["attempt"], "host": socket.gethostname(), "pid": os.getpid()}
        self.about |= {"job": ray_job(), "token": str(uuid.uuid4()), "lapse": LAPSE}
        self.done = threading.Event()
        # A thread, because a write may hang with the storage and the trainer must be stopped nevertheless.
        self.heart = threading.Thread(target=self.keep, daemon=True)

    def look(self) -> tuple[Record, int]:
        """Return the owner record and the highest claimed term."""
        # Listing first: object-store mounts ask the store for it, and so renew what a lookup would take from a cache.
        os.listdir(self.path.parent)
        top = highest(self.claims)
        return read_record(self.path), top

    def text(self, state: str, term: int) -> str:
        return json.dumps({"state": state, "term": term, "beat": self.beats, **self.about}, indent=2) + "\n"

    def write(self, state: str) -> None:
        started = now()
        replace(self.path, self.text(state, self.term), self.about["token"])
        self.written = started

    def acquire(self) -> None:
        """Become the only owner of the run, or raise Refused after WAIT seconds."""
        deadline = now() + WAIT
        while not self.claim(*self.wait(deadline)):
            say("another attempt was faster")
        say(f"this attempt owns the run (term {self.term})")

    def wait(self, deadline: float) -> tuple[int, bool]:
        """Wait until nobody owns the run; return the next term and whether the last owner fell silent."""
        seen: tuple[Record, int] = {}, -1
        since = spoken = 0.0
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
            if silent >= lapse or now() - spoken > 10:
                say(f"{describe(record)} owns the run, silent for {silent:.0f} s; taken over after {lapse:.0f} s")
                spoken = now()
            if silent >= lapse:
                return max(top, term_of(record)) + 1, True
            pause(min(1, BEAT / 2))
        raise Refused(f"{describe(seen[0])} owns the run after {WAIT:.0f} s; delete its RayJob, then raise job.attempt")

    def claim(self, term: int, lapsed: bool) -> bool:
        path, won = self.claims / f"{term}.json", False
        try:
            if create_once(path, self.text("running", term)):
                self.term = term
                self.write("running")
                # Time for an owner that was only paused to see the claim and stop its trainer.
                pause(BEAT * (2 if lapsed else 0.4))
                self.check()
                won = read_record(path).get("token") == self.about["token"]
        except Refused:
            pass
        self.term = term if won else 0
        return won

    def check(self) -> None:
        """Raise Refused when the run belongs to somebody else; a late write of an earlier term does not count."""
        record, top = self.look()
        if not record:
            raise Refused(f"{self.path} is gone")
        if top > self.term or (term_of(record) >= self.term and record.get("token") != self.about["token"]):
            raise Refused(f"the run was taken over by {describe(record)}")

    def keep(self) -> None:
        """Beat until done or lost."""
        while not self.done.wait(BEAT):
            try:
                self.check()
                self.beats += 1
                self.write("running")
            except Refused as error:
                self.lost = str(error)
                return
            except OSError as error:
                say(f"warning: cannot write the owner record: {error.strerror}")

    def trouble(self) -> str:
        """Return why the trainer must not run any longer, or an empty text."""
        silent = now() - self.written
        return self.lost or (f"the owner record could not be written for {silent:.0f} s" if silent > FENCE else "")

    def confirm(self) -> None:
        """Return when the trainer may start: at once, or when the storage is back and nobody else took the run.

        Raises Refused when the run is lost, or the storage stays away for WAIT seconds.
        """
        deadline, silent = now() + WAIT, False
        while reason := self.trouble():
            if self.lost or now() > deadline:
                raise Refused(reason)
            silent = True
            pause(BEAT)
        # A successor that waited may have seen the silence: time for its claim to appear.
        pause(BEAT * 2 if silent else 0)
        self.check()

    def release(self) -> None:
        """Stop beating and let a successor go on at once, if the run is still ours and no write hangs."""
        self.done.set()
        if self.heart.is_alive():
            self.heart.join(FENCE)
        if self.term and not self.heart.is_alive():
            try:
                self.check()
                self.write("released")
            except (Refused, OSError) as error:
                say(f"the owner record was not released: {error}")


def forward_output(reader: int, output: int, chunks: queue.Queue[bytes]) -> None:
    """Copy a pipe to this program's own output and to a queue, until every process has closed the pipe."""
    while chunk := os.read(reader, 1 << 16):
        with contextlib.suppress(OSError):
            os.write(output, chunk)
        # A volume that hangs costs lines of its copy, and never makes the trainer or this program stand still.
        with contextlib.suppress(queue.Full):
            chunks.put_nowait(chunk)


def keep_output(path: Path, chunks: queue.Queue[bytes]) -> None:
    try:
        with path.open("ab", buffering=0) as file:
            while chunk := chunks.get():
                file.write(chunk)
    except OSError as error:
        say(f"warning: {path} is not written: {error.strerror}")


@contextlib.contextmanager
def copied(path: Path) -> Iterator[None]:
    """Send the output of this program and of its trainer to a file on the volume too, where it outlives the cluster."""
    reader, writer = os.pipe()
    kept, chunks = [os.dup(1), os.dup(2)], queue.Queue[bytes](256)
    forwarder = threading.Thread(target=forward_output, args=[reader, kept[0], chunks], daemon=True)
    keeper = threading.Thread(target=keep_output, args=[path, chunks], daemon=True)
    forwarder.start()
    keeper.start()
    for number in (1, 2):
        os.dup2(writer, number)
    os.close(writer)
    try:
        yield
    finally:
        for number, old in zip((1, 2), kept, strict=True):
            os.dup2(old, number)
        # A process that has left the trainer's group may hold the pipe open. The file is uploaded when it is closed.
        forwarder.join(GRACE)
        with contextlib.suppress(queue.Full):
            chunks.put(b"", timeout=GRACE)
        keeper.join(FENCE)


class Trainer:
    """The trainer, in a process group of its own, which ends with it or with this program."""

    def __init__(self, words: list[str], mask: set[int]) -> None:
        reader, self.pipe = os.pipe()
        end, null = (os.POSIX_SPAWN_DUP2, reader, 0), (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
        self.group = os.posix_spawn("/bin/sh", GUARD, {}, file_actions=[end], setpgroup=0, setsigmask=[])
        os.close(reader)
        self.pid = os.posix_spawn(
            words[0],
            words,
            os.environ,
            file_actions=[null],
            setpgroup=self.group,
            setsigmask=mask,
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
        )

    def poll(self) -> int | None:
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        code = os.waitstatus_to_exitcode(status)
        return None if pid == 0 else code if code >= 0 else 128 - code

    def forward(self, info: signal.struct_siginfo) -> None:
        # Ray signals every process of a job itself, and a second SIGTERM could break off a trainer that is saving.
        if info.si_pid != os.getppid() or "RAY_JOB_CONFIG_JSON_ENV_VAR" not in os.environ:
            os.kill(self.pid, info.si_signo)

    def end(self, patience: float) -> None:
        """Kill what the trainer left behind, after a time in which it may end by itself."""
        os.kill(self.group, signal.SIGKILL)
        os.waitpid(self.group, 0)
        os.close(self.pipe)
        deadline = now() + patience
        try:
            while now() < deadline:
                os.killpg(self.group, 0)
                time.sleep(0.05)
            os.killpg(self.group, signal.SIGKILL)
        except ProcessLookupError:
            pass


def supervise(words: list[str], owner: Owner, mask: set[int]) -> tuple[int, bool, bool]:
    """Run the trainer to its end; return its exit code, whether it was asked to stop, and whether the run was lost."""
    trainer, told, kill_at = Trainer(words, mask), set[int](), NEVER
    say(f"the trainer runs as process {trainer.pid}: {shlex.join(words)}")
    while (code := trainer.poll()) is None:
        info = signal.sigtimedwait(WATCHED, BEAT / 5)
        if info and info.si_signo in STOPS and info.si_signo not in told:
            told.add(info.si_signo)
            trainer.forward(info)
            say(f"{signal.Signals(info.si_signo).name}: waiting until the trainer has ended")
        if now() > kill_at:
            os.killpg(trainer.group, signal.SIGKILL)
            os.kill(trainer.pid, signal.SIGKILL)
        elif kill_at == NEVER and (reason := owner.trouble()):
            os.kill(trainer.pid, signal.SIGTERM)
            kill_at = now() + GRACE
            say(f"{reason}; stopping the trainer")
    trainer.end(GRACE if kill_at == NEVER else 0)
    say(f"the trainer ended with exit code {code}")
    return code, bool(told), kill_at != NEVER


def train(words: list[str], retries: int, owner: Owner, mask: set[int]) -> int:
    """Run the trainer, and again after a failure up to `retries` times; return its last exit code."""
    for retry in range(retries + 1):
        pause(BEAT if retry else 0)
        owner.confirm()
        code, stopped, lost = supervise(words, owner, mask)
        if stopped or retry == retries or (code == 0 and not lost):
            break
        say(f"starting the trainer again: retry {retry + 1} of {retries}")
    if lost:
        raise Refused("the trainer was stopped because this attempt could not prove that it owns the run")
    # A trainer that saves and ends well after a signal has not reached its last step.
    return 128 + signal.SIGTERM if stopped and code == 0 else code


def to_yaml(config: Record) -> str:
    """Return JSON that YAML 1.1 readers take for the same types and values."""
    text = json.dumps(config, indent=2, ensure_ascii=False, allow_nan=False)
    # YAML 1.1 takes 3e-07 for a text: the mantissa needs its point. Quoted texts are matched first and kept.
    text = re.sub(r'("(?:[^"\\]|\\.)*")|(?<![\d.])(\d)(e[-+])', lambda m: m[1] or f"{m[2]}.0{m[3]}", text)
    return re.sub("[^\n -~\u00a1-\u1fff\u3001-\ud7ff]", lambda m: f"\\U{ord(m[0]):08x}", text) + "\n"


def read_plan() -> Record:
    try:
        with open(3, encoding="utf-8") as file:
            plan: Record = json.load(file)
    except (OSError, ValueError):
        raise Refused("no plan on file descriptor 3: start this program as the chart's entrypoint does") from None
    return plan


def launch(plan: Record, mask: set[int], outputs: contextlib.ExitStack) -> int:
    directory = Path(plan["runDirectory"])
    config = directory / "attempts" / str(plan["attempt"]) / "config.yaml"
    if not 0 < 4 * BEAT <= LAPSE < WAIT:
        raise Refused("GRPO_OWNER_LAPSE_SECONDS must be at least four times GRPO_OWNER_BEAT_SECONDS and less than WAIT")
    say(f"run {plan['run']}, attempt {plan['attempt']}")
    compare_facts(plan["facts"])
    words = prepare_command(plan, config)
    prepare_directory(plan, directory)
    check_attempt(plan, directory)
    owner = Owner(plan, directory)
    try:
        owner.acquire()
        # A newer attempt may have come while this one waited.
        check_attempt(plan, directory)
        owner.heart.start()
        outputs.enter_context(copied(config.with_name("output.log")))
        replace(config, to_yaml(plan["config"]), "draft")
        os.environ.update(plan.get("environment") or {})
        return train(words, plan.get("retries", 0), owner, mask)
    finally:
        owner.release()


def main() -> int:
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    with contextlib.ExitStack() as outputs:
        try:
            return launch(read_plan(), {int(number) for number in mask}, outputs)
        except Refused as error:
            say(str(error))
        except Stopped as stop:
            say(f"stopped by {signal.Signals(stop.args[0]).name}")
            return 128 + int(stop.args[0])
        except OSError as error:
            say(f"cannot go on: {error.filename or 'input or output'}: {error.strerror}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
