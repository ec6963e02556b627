"""Before training takes its GPUs, make it resume from a complete step, or refuse to start.

NeMo RL loads the highest step, complete or not, and verl the step in its tracker file. If that step is broken,
every attempt and every retry would take the GPUs and fail there.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from checkpoints import TRACKER, VERL, Checkpoint, list_checkpoints, place, read_json, unknown
from files import write_atomically
from runtime import JobError, Record, say

ASIDE = "incomplete_"


def resumes_by_itself(plan: Record) -> bool:
    """Return whether the trainer looks for a step to resume from; verl does not if trainer.resume_mode is not auto."""
    trainer = (plan.get("config") or {}).get("trainer") or {}
    return plan["identity"]["framework"] != VERL or bool(trainer.get("resume_mode", "auto") == "auto")


def aside(path: str | Path) -> Path:
    return Path(path).with_name(ASIDE + Path(path).name)


def newest_complete(found: list[Checkpoint], broken: Checkpoint) -> Checkpoint:
    """Return the newest complete step; without one, raise JobError with the command to restart from step 0."""
    complete = [one for one in found if one.complete]
    if not complete:
        raise JobError(
            f"{broken.path} is not complete ({broken.reason}): the trainer would resume from it and fail, and there is "
            f"no complete step to go back to. Restore its files, or start at step 0: mv {broken.path} "
            f"{aside(broken.path)}; then raise job.attempt"
        )
    return complete[-1]


def rename(path: Path, target: Path, prove: Callable[[], None]) -> None:
    """Rename a folder of the run, and undo it if another attempt owns the run by then.

    A launcher that is held up, or whose volume hangs, may rename what that attempt has written in the meantime.
    """
    path.rename(target)
    try:
        prove()
    except BaseException:
        target.rename(path)
        raise


def set_aside(path: Path, prove: Callable[[], None]) -> None:
    """Rename an incomplete step, and delete what an earlier start set aside for the same step."""
    target = aside(path)
    old = target.with_name(f".{target.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        rename(target, old, prove)
    rename(path, target, prove)
    shutil.rmtree(old, ignore_errors=True)


def go_back(directory: Path, whole: Checkpoint, prove: Callable[[], None]) -> None:
    """Make verl resume from a step, or from the other attempt's newest step if another attempt owns the run by then."""
    tracker = place(directory) / TRACKER
    write_atomically(tracker, str(whole.step))
    try:
        prove()
    except BaseException:
        steps = [one.step for one in list_checkpoints(directory, VERL) if one.complete]
        write_atomically(tracker, str(steps[-1]))
        raise


def check_ranks(plan: Record, found: list[Checkpoint]) -> None:
    """Reject a verl step that was saved by a different number of GPUs, because each FSDP rank loads its own file.

    The file's name contains the number of ranks (verl/utils/checkpoint/fsdp_checkpoint_manager.py at 0.9.1).
    """
    trainer = (plan.get("config") or {}).get("trainer") or {}
    nodes, gpus = trainer.get("nnodes"), trainer.get("n_gpus_per_node")
    step = next((one for one in found if one.resume and one.format == "fsdp"), None)
    saved = read_json(Path(step.path) / "actor/fsdp_config.json").get("world_size") if step else None
    if step and isinstance(nodes, int) and isinstance(gpus, int) and isinstance(saved, int) and saved != nodes * gpus:
        raise JobError(
            f"{step.path} was saved by {saved} GPUs, and this attempt has {nodes * gpus}: verl resumes with the same "
            f"number only. Give it {saved} GPUs, or convert the step (job.task convert) and train the result under "
            f"another job.name"
        )


def look(directory: Path, framework: str) -> tuple[list[Checkpoint], Checkpoint | None]:
    """Return a run's steps, and the step from which its trainer would resume if that step is incomplete."""
    found = list_checkpoints(directory, framework)
    return found, next((one for one in found if one.resume and not one.complete), None)


def ensure_complete(plan: Record, directory: Path, prove: Callable[[], None]) -> None:
    """Make the trainer resume from the newest complete step; raise JobError if every step is broken.

    `prove` raises an error if another attempt owns the run.
    """
    framework = plan["identity"]["framework"]
    while resumes_by_itself(plan):
        found, broken = look(directory, framework)
        if broken:
            # A volume may fail once.
            found, broken = look(directory, framework)
        if broken is None:
            check_ranks(plan, found)
            return
        if unknown(broken):
            say(f"warning: {broken.path} has weights of an unknown format: not checked whether it is complete")
            return
        whole = newest_complete(found, broken)
        if framework == VERL:
            go_back(directory, whole, prove)
            change = f"{TRACKER} names step {whole.step} now"
        else:
            set_aside(Path(broken.path), prove)
            change = f"its folder is {aside(broken.path)} now, delete it to free the disk"
        say(
            f"warning: step {broken.step} is not complete ({broken.reason}), and the trainer would fail on it: {change}"
        )
        say(f"warning: this run goes back to step {whole.step}")
