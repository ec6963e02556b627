"""Evaluate the base model and a converted checkpoint with the same settings: python3 evaluate.py TASK_FILE.

Each result is a file in evaluations/ of the run directory, and is reused as long as its settings are unchanged. The
table at the end shows the difference with its standard error: a few hundred questions cannot resolve a point or
two.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from typing import Any

import child_process
import model_staging
from files import read_json, write_json
from runtime import JobError, Record, say
from task import run_task

ENGINES = {"nemo-rl": "nemo_rl_evaluation", "verl": "verl_evaluation"}
PACKAGES = ("ray", "torch", "transformers", "vllm", "verl", "math-verify")


def engine_of(task: Record) -> Any:
    """Import the module for the task's framework; the entrypoint contains no other framework's module."""
    return importlib.import_module(ENGINES[task["framework"]])


def chosen_step(task: Record) -> str:
    """Return the task's step number as text."""
    step = str(task["step"])
    if step.isdecimal():
        return step
    import checkpoints

    try:
        found = checkpoints.list_checkpoints(task["runDirectory"], task["framework"])
        return str(checkpoints.choose(found, step).step)
    except checkpoints.CheckpointError as error:
        raise JobError(f"{error}; or set job.step to the number of a converted checkpoint") from None


def converted(task: Record) -> tuple[str, str]:
    """Return the name and folder of the task's converted checkpoint."""
    step, parent = chosen_step(task), os.path.join(task["runDirectory"], "hf")
    folder = os.path.join(parent, f"{'global_step' if task['framework'] == 'verl' else 'step'}_{step}")
    if not os.path.isfile(os.path.join(folder, "config.json")):
        names = ", ".join(sorted(os.listdir(parent))) if os.path.isdir(parent) else ""
        raise JobError(f"{folder} is missing: run task convert first; converted so far: {names or 'nothing'}")
    return f"step_{step}", folder


def subjects(task: Record) -> dict[str, str]:
    """Return the models by result name; base comes first, because the others are compared with it."""
    asked = task["models"]
    if not asked or (unknown := set(asked) - {"base", "checkpoint"}):
        what = f"has {', '.join(sorted(unknown))}" if asked else "is empty"
        raise JobError(f"job.evaluate.models {what}; it takes base and checkpoint")
    found = {} if asked == ["checkpoint"] else {"base": task["model"]}
    return {**found, **dict([converted(task)])} if "checkpoint" in asked else found


def staged(task: Record, model: str) -> str:
    """Return the path from which the engines read a model: a copy on their disks, or the model itself."""
    root = task.get("stageDirectory") or ""
    cache = os.environ.get("HF_HOME", os.path.expanduser("~/.cache/huggingface"))
    if not root and not model_staging.needed(model if os.path.isdir(model) else cache):
        return model
    source = model_staging.local_folder(model)
    if not source:
        say(f"each node downloads {model}")
        return model
    # The path contains the run, so that task clean finds the copies.
    folder = os.path.join(root or tempfile.gettempdir(), "grpo-staged", task["run"])
    target = model_staging.target_of(source, folder, model.strip("/").split("/")[-1])
    room = json.dumps({"directory": folder, "advice": "set job.evaluate.stageDirectory"})
    # A separate process, because Ray installs its own signal handlers where it is imported.
    if subprocess.run([sys.executable, model_staging.__file__, source, target, room], check=False).returncode:
        raise JobError(f"could not copy {model} to {target} on every node; the lines above say why")
    return target


def versions(task: Record) -> Record:
    found = {task["framework"]: task["version"], "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def identity(task: Record, benchmark: str, model: str) -> Record:
    """Return everything that a result depends on; results are comparable only if they differ just in the model."""
    keys = ("framework", "version", "tensorParallelSize")
    return {
        "benchmark": benchmark,
        "model": model,
        **{key: task[key] for key in keys},
        "vllmKwargs": task.get("vllmKwargs") or {},
        **engine_of(task).judge(task),
        **task["benchmarks"][benchmark],
    }


def read_result(path: str) -> Record:
    """Return the result in a file, or {}."""
    found = read_json(path)
    if os.path.exists(path) and not ("score" in found and isinstance(found.get("settings"), dict)):
        say(f"{path} does not contain a result and is replaced")
        return {}
    return found


def standard_error(score: float, total: int) -> float:
    """Return the standard error of a proportion of correct answers, an upper bound for several samples per prompt."""
    return math.sqrt(max(0.0, score * (1 - score)) / total)


def measure(task: Record, benchmark: str, name: str, model: str) -> Record:
    """Return one model's result on one benchmark, from its file if the file has the same settings."""
    path = os.path.join(task["runDirectory"], "evaluations", f"{benchmark}-{name}.json")
    settings, before = identity(task, benchmark, model), read_result(path)
    if before.get("settings") == settings:
        say(f"{benchmark}, {name}: {path} has the same settings and is reused")
        return before
    if before:
        changed = [key for key in settings if before["settings"].get(key) != settings[key]]
        say(f"{path} has other settings ({', '.join(changed)}) and is replaced")
    say(f"{benchmark}, {name}: evaluating {model}")
    started = time.monotonic()
    found = engine_of(task).evaluate(task, benchmark, task["benchmarks"][benchmark], staged(task, model))
    score = found["correct"] / found["total"]
    result = {
        "settings": settings,
        "score": score,
        "standardError": standard_error(score, found["total"]),
        **found,
        "versions": versions(task),
        "seconds": round(time.monotonic() - started, 1),
    }
    write_json(path, result)
    say(f"{benchmark}, {name}: {100 * score:.2f} ({found['correct']:g} of {found['total']}), written to {path}")
    return result


def line(benchmark: str, results: dict[str, Record]) -> str:
    """Return a table row: scores in points, each with its standard error, and the change from base."""
    cells = [f"{name} {100 * one['score']:.2f} +- {100 * one['standardError']:.2f}" for name, one in results.items()]
    if len(results) == 2:
        before, after = results.values()
        change, error = after["score"] - before["score"], math.hypot(before["standardError"], after["standardError"])
        ratio = f", {abs(change) / error:.1f} standard errors" if error else ""
        cells.append(f"change {100 * change:+.2f} +- {100 * error:.2f}{ratio}")
    return f"{benchmark:<10} {' | '.join(cells)}"


def check(task: Record) -> tuple[dict[str, str], Record]:
    """Return the models and the benchmarks; raise JobError for mistakes that show before the job waits for GPUs."""
    models, benchmarks = subjects(task), task["benchmarks"]
    if not benchmarks:
        raise JobError("job.evaluate.benchmarks is empty; name one, such as gsm8k")
    for benchmark, settings in benchmarks.items():
        engine_of(task).check(task, benchmark, settings)
    return models, benchmarks


def evaluate(task: Record) -> None:
    models, benchmarks = check(task)
    rows = [
        line(benchmark, {name: measure(task, benchmark, name, model) for name, model in models.items()})
        for benchmark in benchmarks
    ]
    say("scores in points of 100, +- one standard error")
    for row in rows:
        say(row)


if __name__ == "__main__":
    child_process.on_stop()
    sys.exit(run_task(check if sys.argv[2:] == ["--check"] else evaluate))
