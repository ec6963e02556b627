"""The story of a run: data, a training that is killed and resumes, conversion, evaluation, samples, and a verdict."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import curve
from cluster import CODE, DATA, IMAGE, VENV, Cluster, ClusterError
from harness.sandbox import mount

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TOOLS = ROOT / ".tools/learn"
sys.path.insert(0, str(ROOT / "jobs/inspection"))
RUN = DATA / "runs/sums"
# Between two checkpoints: steps 21 to 23 are lost and trained again.
KILL_AFTER, SAVE_PERIOD = 23, 10
JUDGED_STEPS = 60
# Nats a token between generation and training, which compute with the same weights: 0.0000 in float32.
MISMATCH = 0.02


class StoryError(Exception):
    """The story did not go as it should; the message says what happened instead."""


def say(text: str) -> None:
    """Print a line with the seconds since the start."""
    print(f"learn: {time.monotonic() - STARTED:4.0f} s  {text}", flush=True)


STARTED = time.monotonic()


def show_image(work: Path) -> None:
    """Put the paths of the training image and of the volume into the private root."""
    (work / "data").mkdir()
    shown = {
        VENV: (TOOLS / "venv").resolve(),
        CODE: (TOOLS / "source").resolve(),
        IMAGE: HERE / "image",
        DATA: work / "data",
    }
    for path, folder in shown.items():
        path.mkdir(exist_ok=True)
        mount("--bind", folder, path)


def make(program: str, folder: str, seed: int, *names: str) -> str:
    """Run a program of the image and return what it prints."""
    words = list(map(str, [VENV / "bin/python", "-W", "ignore", IMAGE / program, DATA / folder, seed, *names]))
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run(words, check=False, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise StoryError(f"{program} ended with exit code {done.returncode}:\n{done.stderr}")
    return done.stdout.strip()


def step_files() -> dict[int, Path]:
    """Return the file with the samples of each step; of a step that was trained twice, the newer one."""
    import samples

    try:
        return samples.steps_of(RUN)
    except samples.SampleError:
        return {}


def mean_rewards() -> list[float]:
    """Return the mean reward of each step, as `grpo samples` counts it."""
    import samples

    found = []
    for _, path in sorted(step_files().items()):
        rewards = samples.Rewards()
        for _ in samples.samples(path, rewards):
            pass
        found.append(rewards.mean)
    return found


def output(attempt: int) -> str:
    """Return what the launcher and the trainer of an attempt have printed."""
    file = RUN / f"attempts/{attempt}/output.log"
    return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""


def train_and_kill(cluster: Cluster, settings: list[str]) -> int:
    """Start a training and kill its trainer in the middle, without warning; return the last step it had finished."""
    name = cluster.submit(*settings)

    def late_enough() -> bool:
        if "the trainer ended" in output(1):
            raise StoryError("the trainer of attempt 1 ended by itself:\n" + output(1)[-3000:])
        return KILL_AFTER in step_files()

    cluster.wait(late_enough, f"step {KILL_AFTER} of attempt 1", 900)
    (pid,) = re.findall(r"the trainer runs as process (\d+)", output(1))
    os.kill(int(pid), signal.SIGKILL)
    finished = max(step_files())
    if (status := cluster.end_of(name, 120)) != "FAILED":
        raise StoryError(f"after SIGKILL of the trainer the job is {status}, expected FAILED")
    say(f"attempt 1: SIGKILL of the trainer after step {finished}; the job is FAILED")
    return finished


def resume(cluster: Cluster, settings: list[str], steps: int, finished: int) -> int:
    """Train to the end in a second attempt; return the step from which it went on."""
    before = set(RUN.glob("logs/exp_*"))
    cluster.run(*settings, "job.attempt=2", seconds=1200)
    (folder,) = set(RUN.glob("logs/exp_*")) - before
    first = min(int(re.findall(r"\d+", path.stem)[-1]) for path in folder.glob("train_data_step*.jsonl"))
    expected = finished // SAVE_PERIOD * SAVE_PERIOD + 1
    if first != expected:
        raise StoryError(f"attempt 2 began with step {first}, expected {expected}, the one after the last checkpoint")
    if sorted(step_files()) != list(range(1, steps + 1)):
        raise StoryError(f"the run has the steps {sorted(step_files())}, expected 1 to {steps}")
    say(f"attempt 2: resumed from step {first - 1}, trained to step {steps}")
    return first - 1


def scores() -> dict[str, float]:
    """Return the share of right answers of the base model and of the checkpoint."""
    results = {path.stem: json.loads(path.read_text()) for path in (RUN / "evaluations").glob("gsm8k-*.json")}
    return {name.removeprefix("gsm8k-"): float(one["score"]) for name, one in results.items()}


def show_samples(steps: int) -> None:
    """Print what `grpo samples` prints of the last step."""
    grpo = str(Path(sys.executable).with_name("grpo"))
    words = [grpo, "samples", str(RUN), "--step", str(steps), "--count", "1"]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode:
        raise StoryError(f"grpo samples ended with exit code {done.returncode}: {done.stderr}")
    print(done.stdout, end="", flush=True)


def keep(result: dict[str, Any], work: Path) -> Path:
    """Write the result, the picture and the outputs of both attempts below build/learn."""
    folder = ROOT / f"build/learn/{'' if result['device'] == 'cpu' else result['device'] + '-'}seed-{result['seed']}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    sessions = sorted((work / "ray").glob("ray/session_2*/logs"))
    for name, logs in (("programs", work / "logs"), *(("ray", logs) for logs in sessions[-1:])):
        if logs.is_dir():
            shutil.copytree(logs, folder / name, ignore_dangling_symlinks=True)
    for attempt in (1, 2):
        (folder / f"output-{attempt}.log").write_text(output(attempt), encoding="utf-8")
    (folder / "result.json").write_text(json.dumps(result) + "\n", encoding="utf-8")
    if result["rewards"]:
        (folder / "reward.svg").write_text(curve.picture([result]), encoding="utf-8")
    return folder


def judge(result: dict[str, Any]) -> None:
    """Refuse a run that has not learned."""
    if result["mismatch"] > MISMATCH:
        raise StoryError(f"the generation KL error reached {result['mismatch']}, expected at most {MISMATCH}")
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


def act(work: Path, result: dict[str, Any]) -> None:
    """Go through all parts of the story on the CPU and write what they show into `result`."""
    show_image(work)
    make("make_questions.py", "raw", result["seed"])
    say(make("make_model.py", "model", result["seed"]))
    with Cluster(work) as cluster:
        learn(cluster, result)


def learn(cluster: Cluster, result: dict[str, Any]) -> None:
    """Run the jobs of the story on a cluster and write what they show into `result`."""
    seed, steps = result["seed"], result["steps"]
    settings = [f"job.config.grpo.seed={seed}", f"job.config.grpo.max_num_steps={steps}"]
    say("a Ray head and a worker run")
    cluster.run("job.task=prepare-data")
    say("task prepare-data: done")
    result["killedAfter"] = train_and_kill(cluster, settings)
    result["resumedFrom"] = resume(cluster, settings, steps, result["killedAfter"])
    result["rewards"] = mean_rewards()
    result["mismatch"] = max(map(float, re.findall(r"Generation KL Error: ([\d.]+)", output(2))))
    for task in ("convert", "evaluate"):
        cluster.run(f"job.task={task}", "job.step=latest")
        say(f"task {task}: done")
    result["scores"] = dict(sorted(scores().items()))
    say("evaluated: " + ", ".join(f"{name} {100 * score:.1f}" for name, score in result["scores"].items()))
    show_samples(steps)


def run(work: Path, result: dict[str, Any], act: Callable[[Path, dict[str, Any]], None] = act) -> None:
    """Run the story with the seed, steps and device of `result`; raise StoryError if it does not end as it should."""
    result |= {"rewards": [], "scores": {}, "killedAfter": KILL_AFTER}
    load = os.getloadavg()[0]
    try:
        act(work, result)
    except ClusterError as error:
        raise StoryError(str(error)) from None
    finally:
        result["seconds"] = round(time.monotonic() - STARTED)
        result["load"] = [round(load, 1), round(os.getloadavg()[0], 1)]
        folder = keep(result, work)
        print(f"learn: result, logs and picture are in {folder.relative_to(ROOT)}", flush=True)
    judge(result)
    say(f"learned; {result['seconds']} s in all, load of the machine {result['load'][0]} to {result['load'][1]}")
