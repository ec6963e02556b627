"""A worker that hangs in the middle of the training, and the guard that ends it: python learn.py --stall."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from cluster import Cluster
from records import Run
from story import StoryError, resumed_after, say, wait_for_step

# The process of Ray that has the model has this title while it trains, and the driver waits for it. Between two calls
# NeMo RL asks Ray for its memory use instead, which fails after a minute by itself.
WORKER = "ray::DTensorPolicyWorker.train"
# The least that the schema allows. A step takes some seconds on the CPU.
STEP_SECONDS, EVIDENCE_SECONDS = 60, 120
# Of the machine's processes, those in this network: another run may have workers with the same title.
STOP = """
import os, pathlib, signal, sys, time
here, end = os.readlink("/proc/self/ns/net"), time.monotonic() + 60
while time.monotonic() < end:
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            title = (folder / "cmdline").read_text(errors="replace")
            if title.startswith(sys.argv[1]) and os.readlink(folder / "ns/net") == here:
                os.kill(int(folder.name), signal.SIGSTOP)
                sys.exit(print(folder.name))
        except OSError:
            continue
    time.sleep(0.01)
"""


def stand_still(cluster: Cluster, run: Run, settings: list[str], result: dict[str, Any]) -> None:
    """Stop the policy's worker in the middle; the guard must start the training again, and that must end well."""
    words = [f"job.guard.deadlines.stepSeconds={STEP_SECONDS}", f"job.guard.evidenceSeconds={EVIDENCE_SECONDS}"]
    name = cluster.submit(*settings, *words)
    wait_for_step(cluster, run, name)
    stopped = cluster.on_worker("python3", "-c", STOP, WORKER).strip()
    if not stopped:
        raise StoryError(f"no process had the title {WORKER} within a minute")
    finished, since = max(run.steps()), time.monotonic()
    say(f"SIGSTOP of the policy's worker, process {stopped}, after step {finished}")

    def restarted() -> object:
        if (status := cluster.status(name)) == "FAILED":
            raise StoryError(
                f"the job is {status}, expected that the guard starts the training again:\n{run.output(1)[-3000:]}"
            )
        return run.status().get("restarts")

    cluster.wait(restarted, "a restart by the guard", 2 * (STEP_SECONDS + EVIDENCE_SECONDS))
    say(f"the guard stopped the trainer and restarts it, {time.monotonic() - since:.0f} s after that")
    (folder,) = run.folder.glob("attempts/1/evidence/*")
    check(folder)
    if (status := cluster.end_of(name, 1200)) != "SUCCEEDED":
        raise StoryError(f"the job ended as {status}, expected SUCCEEDED:\n{cluster.log(name)[-3000:]}")
    result["killedAfter"], result["signal"] = finished, "SIGSTOP of a worker"
    printed = [step.number for step in run.printed(1)]
    again = printed[printed.index(finished) + 1 :]
    result["resumedFrom"] = resumed_after(run, again, result["steps"], finished)
    restarts, state = run.status().get("restarts"), run.status().get("state")
    if (restarts, state) != (1, "ended"):
        raise StoryError(f"status.json has {restarts} restarts and the state {state}, expected 1 and ended")


def check(folder: Path) -> None:
    """Refuse evidence that does not show where the driver waits and where the worker stands."""
    texts = {str(path.relative_to(folder)): path.read_text("utf-8", "replace") for path in folder.rglob("*.txt")}
    reason = texts["reason.txt"].strip()
    say(f"evidence in {folder.name}: {reason}")
    stacks = {name: text for name, text in texts.items() if "/stacks-" in name}
    waits = [name for name, text in stacks.items() if "grpo_train" in text and "ray/_private/worker.py" in text]
    stands = [name for name, text in stacks.items() if WORKER in text.partition("\n")[0] and "train" in text]
    for found, what in ((waits, "of the driver in ray.get"), (stands, f"of {WORKER}")):
        if len(found) != 1:
            raise StoryError(f"{folder} has {len(found)} stacks {what}, expected 1")
    if "complete.txt" not in texts:
        raise StoryError(f"{folder} is not complete: {sorted(texts)}")
