"""Start one attempt of a run: compare facts, own the run directory, write the configuration, run the trainer.

The plan is JSON on file descriptor 3, and the argument is the version of the programs. "Trainer" means the program
that the plan names: the framework's script, or another task's program. The exit code is the trainer's (128 + n for
signal n), or 1 if a check fails.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shlex
import shutil
import signal
import sys
import threading
from pathlib import Path

from cluster_facts import compare_facts
from configuration import to_yaml
from files import create_exclusively, write_atomically
from owner import BEAT_SECONDS, LAPSE_SECONDS, Owner, highest, read_record
from runtime import JobError, Record, StopRequestError, now, pause, run_program, say
from trainer import WATCHED, Watch, copied, supervise
from watchdog import Watchdog
from workers import wait_for_workers

AGREE = "set images.training and job.version to matching versions"
HERE = Path(__file__).parent
VERSION = sys.argv[1] if len(sys.argv) > 1 else "unknown"
CHECK_SECONDS = 300.0
# Of jobs/rewards: workers on other nodes import them together with the user's rewards.
REWARD_PROGRAMS = (
    "rewards.py",
    "reward_answers.py",
    "reward_builtins.py",
    "reward_limits.py",
    "reward_numbers.py",
    "nemo_rl_environment.py",
    "nemo_rl_rewards.py",
    "verl_reward.py",
)


def prepare_command(plan: Record) -> list[str]:
    """Enter the working directory and return the trainer's command, with an absolute path to its program."""
    image, folder = plan["facts"].get("image", "of this pod"), plan["workingDirectory"]
    if folder.startswith("{programs}"):
        folder = folder.replace("{programs}", str(HERE))
        os.makedirs(folder, exist_ok=True)
    try:
        os.chdir(folder)
    except OSError as error:
        raise JobError(f"{folder}: {error.strerror}: image {image} does not contain this framework; {AGREE}") from None
    for file in plan.get("requiredFiles") or []:
        if not Path(file).exists():
            raise JobError(f"{file} is not in image {image}, which has another version of the framework; {AGREE}")
    words = [word.replace("{programs}", str(HERE)) for word in plan["command"]]
    program = shutil.which(words[0])
    if program is None:
        raise JobError(f"{words[0]} is not an executable on PATH in image {image}; {AGREE}")
    return [os.path.abspath(program), *words[1:]]


def check_files(plan: Record) -> None:
    """Refuse a run whose data or code is not on its volume, naming the task that writes it there."""
    for file, task in (plan.get("neededFiles") or {}).items():
        if not Path(file).exists():
            advice = f"run job.task {task} of the same values files first" if task else "the configuration names it"
            raise JobError(f"{file} does not exist: {advice}")


def prepare_directory(plan: Record, directory: Path) -> None:
    """Create the run directory on its volume, which must be mounted already."""
    claims = plan["facts"].get("mounts") or {}
    mount = max((path for path in claims if Path(path) in directory.parents), key=len, default=str(directory.parent))
    claim = claims.get(mount, "of job.volume")
    if not os.path.isdir(mount):
        raise JobError(f"{mount} does not exist: this pod does not mount claim {claim}; upgrade the raycluster release")
    try:
        for part in ("owners", f"attempts/{plan['attempt']}", *plan.get("folders", [])):
            (directory / part).mkdir(parents=True, exist_ok=True)
        if not os.access(directory, os.W_OK):
            raise PermissionError(errno.EACCES, "not writable")
    except OSError as error:
        advice = "mount it read-write, free some space, and give this pod's user or service account write access"
        raise JobError(f"cannot write to {directory} on claim {claim}: {error.strerror}; {advice}") from None


def recorded(path: Path, text: str) -> str:
    """Write a record unless it exists; return the content of the record."""
    patience, found = now() + BEAT_SECONDS, text if create_exclusively(path, text + "\n") else ""
    while not found and now() < patience:
        found = path.read_text(encoding="utf-8").strip()
        pause(0 if found else 0.1)
    return found


def check_identity(plan: Record, directory: Path) -> None:
    """Reject another run's directory, because the trainer would resume from its checkpoints.

    A training run writes its identity to run.json. For another task, plan["of"] names the run's directory, and run.json
    must exist there.
    """
    mine = plan.get("identity") or {}
    if "of" in plan:
        directory = Path(plan["of"])
        if not (directory / "run.json").exists():
            raise JobError(
                f"there is no run in {directory}: it has no run.json. Is job.name right, and has the run trained?"
            )
    try:
        text = (directory / "run.json").read_text(encoding="utf-8") if "of" in plan else None
        theirs = json.loads(text or recorded(directory / "run.json", json.dumps(mine)))
        other = [f"{key} {theirs.get(key)} (here {value})" for key, value in mine.items() if theirs.get(key) != value]
    except (ValueError, AttributeError, RecursionError):
        raise JobError(f"{directory / 'run.json'} does not identify a run; choose another job.name") from None
    if other:
        raise JobError(f"{directory} belongs to another run: {', '.join(other)}. Choose another job.name")


def check_attempt(plan: Record, directory: Path) -> None:
    """Refuse an attempt if a later one exists, or if its number was used with another specification.

    An attempt exists once it has recorded its specification; an attempt refused before that has changed nothing.
    """
    run, attempt, digest = plan["run"], plan["attempt"], plan["digest"]
    # A glob passes over a folder that the volume does not list.
    folder = directory / "attempts"
    recorded_by = (name for name in os.listdir(folder) if (folder / name / "spec.sha256").exists())
    if (last := highest(recorded_by)) > attempt:
        raise JobError(f"attempt {last} of {run} exists and this is attempt {attempt}; raise job.attempt above {last}")
    first = recorded(directory / "attempts" / str(attempt) / "spec.sha256", digest)
    if first != digest:
        change = f"{first[:12] or 'an empty one'}, this one is {digest[:12]}"
        raise JobError(f"attempt {attempt} of {run} was made with another specification ({change}); raise job.attempt")


def own(owner: Owner, plan: Record, directory: Path) -> None:
    """Take ownership of the run; an attempt that gives up before that leaves no record that could block another."""
    try:
        owner.acquire()
    except (JobError, StopRequestError):
        # Unless a second start of this attempt is the owner.
        if read_record(directory / "owner.json").get("attempt") != plan["attempt"]:
            (directory / "attempts" / str(plan["attempt"]) / "spec.sha256").unlink(missing_ok=True)
        raise


def write_files(plan: Record, folder: Path) -> None:
    """Write the trainer's configuration, and the code that workers on other nodes import."""
    if "config" in plan:
        write_atomically(folder / "config.yaml", to_yaml(plan["config"]), "draft")
    if "task" in plan:
        write_atomically(folder / "task.json", json.dumps(plan["task"], indent=2) + "\n", "draft")
    shared = plan.get("shared") or []
    for name in (*shared, *(REWARD_PROGRAMS if "rewards.json" in shared else ())):
        (folder / "code" / name).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / "code" / name, (HERE / name).read_text(encoding="utf-8"), "draft")


def run_checks(plan: Record) -> None:
    """Run the plan's checks before the job waits for GPUs.

    Fetched code must be unchanged; rewards must load.
    """
    if code := plan.get("code"):
        from code_digest import verify_code

        say(f"{code} is unchanged since it was fetched, digest {verify_code(code)[:12]}")
    for given in plan.get("checks") or []:
        words = [word.replace("{programs}", str(HERE)) for word in given]
        ended = run_program(words, CHECK_SECONDS)
        if ended != 0:
            late = f"did not end within {CHECK_SECONDS:.0f} s" if ended is None else "found a mistake, see above"
            raise JobError(f"{shlex.join(words)} {late}")


def set_environment(plan: Record) -> None:
    """Set the run's variables; its PYTHONPATH entries come before those of the image and the pod."""
    variables = dict(plan.get("environment") or {})
    if "PYTHONPATH" in variables and (before := os.environ.get("PYTHONPATH")):
        variables["PYTHONPATH"] += os.pathsep + before
    os.environ.update(variables)


def check_resume(plan: Record, owner: Owner) -> None:
    """Check the step from which training resumes, as the owner of the run and before waiting for GPUs."""
    if "of" not in plan and (plan.get("identity") or {}).get("framework"):
        from resume import ensure_complete

        owner.confirm()
        ensure_complete(plan, Path(plan["runDirectory"]), owner.check)


def watch_of(plan: Record, owner: Owner) -> Watch:
    """Return the trainer's watch: for training it is the guard, unless the values switch the guard off."""
    if "guard" not in plan:
        return Watch()
    from guard import Guard

    return Guard(plan, owner)


def ready(plan: Record, words: list[str], owner: Owner) -> list[str]:
    """Return the trainer's command once it can start: the step to resume from, GPUs, model and ownership are ready."""
    check_resume(plan, owner)
    if workers := plan.get("workers"):
        wait_for_workers(workers["nodes"], workers["gpus"], workers["timeoutSeconds"])
    if stage := plan.get("stage"):
        from local_model import with_local_model

        # At each start: a node may be a new one.
        words = with_local_model(words, stage)
    owner.confirm()
    return words


def train(plan: Record, words: list[str], owner: Owner, mask: set[int], watch: Watch) -> int:
    """Run the trainer, retrying up to plan["retries"] times after a failure, and return the last exit code."""
    retry, retries = 0, plan.get("retries", 0)
    while True:
        code, stopped, lost = supervise(ready(plan, words, owner), owner, mask, watch)
        if stopped:
            break
        # A stall is no failure of the trainer: it has restarts of its own.
        if lost or not watch.should_restart():
            if retry == retries or (code == 0 and not lost):
                break
            retry += 1
            say(f"starting the trainer again: retry {retry} of {retries}")
        pause(BEAT_SECONDS)
    if lost:
        raise JobError("stopped the trainer because this attempt could not prove that it owns the run")
    # A trainer that saves and exits with 0 after a signal has not reached its last step.
    return 128 + signal.SIGTERM if stopped and code == 0 else code


def read_plan() -> Record:
    try:
        with open(3, encoding="utf-8") as file:
            plan: Record = json.load(file)
    except (OSError, ValueError):
        raise JobError("no plan on file descriptor 3: start this program with the chart's entrypoint") from None
    return plan


def limit_time(signals: Record) -> None:
    """Send each signal to this program after its delay in seconds; the signal also ends a trainer."""
    for name, delay in signals.items():
        say(f"job.deadlineSeconds: {name} in {delay} s")
        timer = threading.Timer(delay, os.kill, [os.getpid(), signal.Signals[name]])
        timer.daemon = True
        timer.start()


def launch(plan: Record, mask: set[int], outputs: contextlib.ExitStack) -> int:
    directory, wait = Path(plan["runDirectory"]), plan["takeoverSeconds"]
    folder = directory / "attempts" / str(plan["attempt"])
    if not 0 < 4 * BEAT_SECONDS <= LAPSE_SECONDS < wait:
        lapse = "GRPO_OWNER_LAPSE_SECONDS must be at least four times GRPO_OWNER_BEAT_SECONDS"
        raise JobError(f"{lapse} and less than job.takeoverSeconds")
    say(f"run {plan['run']}, attempt {plan['attempt']}, programs {VERSION}")
    limit_time(plan.get("deadline") or {})
    Watchdog(directory, wait)
    compare_facts(plan["facts"])
    words = prepare_command(plan)
    if "of" in plan:
        check_identity(plan, directory)
    prepare_directory(plan, directory)
    check_files(plan)
    if "of" not in plan and plan.get("identity"):
        check_identity(plan, directory)
    check_attempt(plan, directory)
    owner = Owner(plan, directory, wait)
    owner.about["programs"] = VERSION
    try:
        own(owner, plan, directory)
        # A newer attempt may have started while this one waited.
        check_attempt(plan, directory)
        owner.heart.start()
        with watch_of(plan, owner) as watch:
            outputs.enter_context(copied(folder / "output.log", watch.hear))
            write_files(plan, folder)
            set_environment(plan)
            run_checks(plan)
            return train(plan, words, owner, mask, watch)
    finally:
        owner.release()


def main() -> int:
    """Launch the plan; report every expected failure in one line, with exit code 1."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    with contextlib.ExitStack() as outputs:
        # The chart's entrypoint renames this file, and creates a temporary folder for it.
        if Path(__file__).name == "__main__.py":
            outputs.callback(shutil.rmtree, HERE, ignore_errors=True)
        try:
            return launch(read_plan(), {int(number) for number in mask}, outputs)
        except JobError as error:
            say(str(error))
        except StopRequestError as stop:
            say(f"stopped by {signal.Signals(stop.args[0]).name}")
            return 128 + int(stop.args[0])
        except OSError as error:
            say(f"cannot continue: {error.filename or 'input or output'}: {error.strerror}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
