"""Before a training takes its GPUs: let it resume from a complete step, or refuse.

NeMo RL loads the highest step, complete or not, and verl the step in its tracker file. If that step is broken, every
attempt and every retry would take the GPUs and fail there.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from checkpoints import TRACKER, VERL, Checkpoint, list_checkpoints, place, unknown
from files import write_atomically
from runtime import JobError, Record, say

ASIDE = "incomplete_"


def resumes_by_itself(plan: Record) -> bool:
    """Return whether the trainer looks for a step: verl does not where trainer.resume_mode says otherwise."""
    trainer = (plan.get("config") or {}).get("trainer") or {}
    return plan["identity"]["framework"] != VERL or bool(trainer.get("resume_mode", "auto") == "auto")


def aside(path: str) -> Path:
    return Path(path).with_name(ASIDE + Path(path).name)


def newest_complete(found: list[Checkpoint], broken: Checkpoint) -> Checkpoint:
    """Return the newest complete step, or raise JobError with the command that starts the run from step 0."""
    complete = [one for one in found if one.complete]
    if not complete:
        raise JobError(
            f"{broken.path} is not complete ({broken.reason}): the trainer would resume from it and fail, and there is "
            f"no complete step to go back to. Restore its files, or start at step 0: mv {broken.path} "
            f"{aside(broken.path)}; then raise job.attempt"
        )
    return complete[-1]


def ensure_complete(plan: Record, directory: Path) -> None:
    """Make the trainer resume from the newest complete step; raise JobError if every step is broken."""
    framework = plan["identity"]["framework"]
    while resumes_by_itself(plan):
        found = list_checkpoints(directory, framework)
        broken = next((one for one in found if one.resume and not one.complete), None)
        if broken is None:
            return
        if unknown(broken):
            say(f"warning: {broken.path} has weights of an unknown format: not checked whether it is complete")
            return
        whole = newest_complete(found, broken)
        if framework == VERL:
            write_atomically(place(directory) / TRACKER, str(whole.step), "draft")
            change = f"{TRACKER} names step {whole.step} now"
        else:
            # Only what an earlier start has set aside can be there.
            shutil.rmtree(aside(broken.path), ignore_errors=True)
            Path(broken.path).rename(aside(broken.path))
            change = f"its folder is {aside(broken.path)} now, delete it to free the disk"
        say(
            f"warning: step {broken.step} is not complete ({broken.reason}), and the trainer would fail on it: {change}"
        )
        say(f"warning: this run goes back to step {whole.step}")
