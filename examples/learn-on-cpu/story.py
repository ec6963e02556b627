"""The story of a run: data, a training that is killed and resumes, conversion, evaluation, samples, and a verdict."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import curve
from cluster import Cluster, ClusterError
from frameworks import ROOT
from records import Run

RUN = "runs/sums"
# Between two checkpoints: steps 21 to 23 are lost and trained again.
KILL_AFTER, SAVE_PERIOD = 23, 10
JUDGED_STEPS = 60
# Trains to the end though something happens in the middle; the settings are the job's.
Training = Callable[[Cluster, Run, list[str], dict[str, Any]], None]
# Nats a token between generation and training, which compute with the same weights: 0.0000 in float32.
MISMATCH = 0.02


class StoryError(Exception):
    """The story did not go as it should; the message says what happened instead."""


def say(text: str) -> None:
    """Print a line with the seconds since the start."""
    print(f"learn: {time.monotonic() - STARTED:4.0f} s  {text}", flush=True)


STARTED = time.monotonic()


def wait_for_step(cluster: Cluster, run: Run, name: str) -> None:
    """Wait until the first attempt of a training, a job with this name, is in the middle."""

    def late_enough() -> bool:
        if "the trainer ended" in run.output(1) or cluster.status(name) == "FAILED":
            raise StoryError("attempt 1 ended by itself:\n" + (run.output(1) or cluster.log(name))[-3000:])
        return any(step.number >= KILL_AFTER for step in run.printed(1))

    cluster.wait(late_enough, f"step {KILL_AFTER} of attempt 1", 900)


def train_and_kill(cluster: Cluster, run: Run, settings: list[str]) -> int:
    """Start a training and kill its trainer in the middle, without warning; return the last step it had finished."""
    name = cluster.submit(*settings)
    wait_for_step(cluster, run, name)
    (process,) = re.findall(r"the trainer runs as process (\d+)", run.output(1))
    cluster.kill(int(process))
    finished = max(step.number for step in run.printed(1))
    if (status := cluster.end_of(name, 120)) != "FAILED":
        raise StoryError(f"after SIGKILL of the trainer the job is {status}, expected FAILED")
    say(f"attempt 1: SIGKILL of the trainer after step {finished}; the job is FAILED")
    return finished


def resume(cluster: Cluster, run: Run, settings: list[str], steps: int, finished: int) -> int:
    """Train to the end in a second attempt; return the step from which it went on."""
    cluster.run(*settings, "job.attempt=2", seconds=1200)
    return resumed_after(run, [step.number for step in run.printed(2)], steps, finished)


def resumed_after(run: Run, printed: list[int], steps: int, finished: int) -> int:
    """Return the step from which a second start went on, which has printed these steps; the first had `finished`."""
    first, expected = printed[0], finished // SAVE_PERIOD * SAVE_PERIOD + 1
    if first != expected:
        raise StoryError(f"it went on with step {first}, expected {expected}, the one after the last checkpoint")
    if printed != list(range(first, steps + 1)):
        raise StoryError(f"it printed the steps {printed}, expected {first} to {steps}")
    if sorted(run.steps()) != list(range(1, steps + 1)):
        raise StoryError(f"the run has the samples of the steps {sorted(run.steps())}, expected 1 to {steps}")
    say(f"resumed from step {first - 1}, trained to step {steps}")
    return first - 1


def kill_and_resume(cluster: Cluster, run: Run, settings: list[str], result: dict[str, Any]) -> None:
    """Train in two attempts, of which the first is killed."""
    result["killedAfter"] = train_and_kill(cluster, run, settings)
    result["resumedFrom"] = resume(cluster, run, settings, result["steps"], result["killedAfter"])


def mismatch(run: Run) -> float:
    """Return the largest KL divergence of generation and training of a step of the last attempt, in nats a token."""
    found = [step.generation_kl for step in run.printed(2) or run.printed(1)]
    return max(math.inf if one is None or math.isnan(one) else abs(one) for one in found)


def show_samples(run: Run, steps: int) -> None:
    """Print what `grpo samples` prints of the last step."""
    grpo = str(Path(sys.executable).with_name("grpo"))
    words = [grpo, "samples", str(run.folder), "--step", str(steps), "--count", "1"]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode:
        raise StoryError(f"grpo samples ended with exit code {done.returncode}: {done.stderr}")
    print(done.stdout, end="", flush=True)


def keep(result: dict[str, Any], cluster: Cluster, run: Run) -> Path:
    """Write the result, the picture and the outputs of both attempts below build/learn."""
    folder = ROOT / f"build/learn/{cluster.framework.name}-{cluster.name}-seed-{result['seed']}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, logs in cluster.logs().items():
        if logs.is_dir():
            shutil.copytree(logs, folder / name, ignore_dangling_symlinks=True)
    for attempt in (1, 2):
        (folder / f"output-{attempt}.log").write_text(run.output(attempt), encoding="utf-8")
    for evidence in run.folder.glob("attempts/*/evidence"):
        shutil.copytree(evidence, folder / f"evidence-{evidence.parent.name}")
    (folder / "result.json").write_text(json.dumps(result) + "\n", encoding="utf-8")
    if result["rewards"]:
        (folder / "reward.svg").write_text(curve.picture([result]), encoding="utf-8")
    return folder


def judge(result: dict[str, Any]) -> None:
    """Refuse a run that has not learned."""
    if result["mismatch"] > MISMATCH:
        raise StoryError(
            f"generation and training differ by {result['mismatch']} nats a token, expected at most {MISMATCH}"
        )
    early, late = curve.means(result["rewards"])
    say(f"mean reward of the first {curve.WINDOW} steps {early:.3f}, of the last {curve.WINDOW} {late:.3f}")
    if len(result["rewards"]) < JUDGED_STEPS:
        say(f"not judged: less than {JUDGED_STEPS} steps")
        return
    if late < early + curve.MARGIN:
        raise StoryError(f"the mean reward rose by {late - early:.3f}, expected at least {curve.MARGIN}")
    # The scores are not compared: 40 questions have a standard error of 7 points.
    if len(result["scores"]) < 2:
        raise StoryError(f"the base model and the checkpoint were not both evaluated: {result['scores']}")


def learn(cluster: Cluster, run: Run, result: dict[str, Any], train: Training = kill_and_resume) -> None:
    """Go through all parts of the story and write what they show into `result`."""
    seed, steps = result["seed"], result["steps"]
    framework = cluster.framework
    settings = [f"job.config.{framework.seed}={seed}", f"job.config.{framework.steps}={steps}"]
    say(f"a Ray head and a worker run as {cluster.name}")
    cluster.make("make_questions.py", "raw", seed)
    say(cluster.make("make_model.py", "model", seed, framework.model))
    for task in framework.preparations:
        cluster.run(f"job.task={task}")
        say(f"task {task}: done")
    train(cluster, run, settings, result)
    result["rewards"] = run.mean_rewards()
    result["mismatch"] = mismatch(run)
    for task in ("convert", "evaluate"):
        cluster.run(f"job.task={task}", "job.step=latest")
        say(f"task {task}: done")
    result["scores"] = run.scores()
    say("evaluated: " + ", ".join(f"{name} {100 * score:.1f}" for name, score in result["scores"].items()))
    show_samples(run, steps)


def tell(
    cluster: Cluster, seed: int, steps: int, learn: Callable[[Cluster, Run, dict[str, Any]], None] = learn
) -> None:
    """Run the story on a cluster with a seed; raise StoryError if it does not end as it should."""
    result: dict[str, Any] = {"seed": seed, "steps": steps, "rewards": [], "scores": {}, "killedAfter": KILL_AFTER}
    result.update(cluster=cluster.name, framework=cluster.framework.name)
    load, run = os.getloadavg()[0], Run(cluster.data / RUN)
    try:
        with cluster:
            learn(cluster, run, result)
    except ClusterError as error:
        raise StoryError(str(error)) from None
    finally:
        result["seconds"] = round(time.monotonic() - STARTED)
        result["load"] = [round(load, 1), round(os.getloadavg()[0], 1)]
        folder = keep(result, cluster, run)
        print(f"learn: result, logs and picture are in {folder.relative_to(ROOT)}", flush=True)
    judge(result)
    say(f"learned; {result['seconds']} s in all, load of the machine {result['load'][0]} to {result['load'][1]}")
