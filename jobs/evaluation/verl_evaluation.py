"""Evaluate with verl: run the run's own validation on another model, without training.

verl has no benchmark with scores: its server only generates, and its scorer needs a function and changes its
configuration in each version. Every version has trainer.val_only, which generates and scores with the run's data
format, chat template and reward. So GSM8K is available, but a benchmark without prepared data is not.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import sys

from child_process import run
from files import fail
from runtime import JobError, Record

MAIN = ["-m", "verl.trainer.main_ppo"]
# numpy 2 and later print numbers as np.float64(0.5). The name of the data source may contain slashes.
VALUE = re.compile(r"(?:^| - )val-core/(\S+)/([^/\s]+)/mean@(\d+):(?:np\.float\d+\()?([-+.\de]+|nan)")


def data_file() -> str:
    return os.environ.get("GRPO_DATASETS", "/data/datasets") + "/gsm8k/test.parquet"


def check(task: Record, benchmark: str, settings: Record) -> None:
    """Reject what verl cannot do, and settings that verl would ignore."""
    if benchmark != "gsm8k":
        raise JobError(
            f"{benchmark} cannot be evaluated with verl {task['version']}, which has no evaluation of its own: "
            "use gsm8k, or evaluate the converted model in a stack with job.framework nemo-rl"
        )
    if task["tensorParallelSize"] != 1 or task.get("vllmKwargs"):
        raise JobError(
            "with verl the engines use the run's own actor_rollout_ref.rollout: remove "
            "job.evaluate.tensorParallelSize and vllmKwargs"
        )
    if settings["samples"] > 1 and settings["temperature"] <= 0:
        raise JobError(f"{benchmark}: at temperature 0 all samples of a prompt are equal; raise temperature")
    if not os.path.isfile(data_file()):
        raise JobError(f"{data_file()} is missing: run task prepare-data first")


def run_config(directory: str) -> str:
    """Return the configuration file of the newest attempt that has one."""
    attempts = os.path.join(directory, "attempts")
    names = os.listdir(attempts) if os.path.isdir(attempts) else []
    for name in sorted((name for name in names if name.isdecimal()), key=int, reverse=True):
        # Listed, because os.path.isfile says no when the volume does not answer.
        if "config.yaml" in os.listdir(os.path.join(attempts, name)):
            return os.path.join(attempts, name, "config.yaml")
    raise JobError(
        f"{attempts} has no configuration of this run; the evaluation needs its data and reward: train first"
    )


def prompt_length(path: str) -> int:
    """Return the run's maximum prompt length, because the engine's context must hold prompt and answer."""
    try:
        from omegaconf import OmegaConf
    except ImportError:
        raise JobError("omegaconf cannot be imported: this image is no verl image") from None
    try:
        found = OmegaConf.select(OmegaConf.load(path), "data.max_prompt_length")
        return 512 if found is None else int(found)
    except Exception as error:
        raise JobError(f"{path}: data.max_prompt_length cannot be read: {error}") from None


def command(task: Record, settings: Record, model: str, dump: str) -> list[str]:
    config = run_config(task["runDirectory"])
    length = settings["maxNewTokens"]
    rollout = "actor_rollout_ref.rollout"
    keys = {
        "actor_rollout_ref.model.path": model,
        "data.val_files": [data_file()],
        "data.max_response_length": length,
        f"{rollout}.max_model_len": prompt_length(config) + length,
        f"{rollout}.val_kwargs.temperature": settings["temperature"],
        f"{rollout}.val_kwargs.top_p": settings["topP"],
        f"{rollout}.val_kwargs.do_sample": settings["temperature"] > 0,
        f"{rollout}.val_kwargs.n": settings["samples"],
        "trainer.nnodes": task["nodes"],
        "trainer.n_gpus_per_node": task["gpusPerNode"],
        "trainer.val_only": True,
        "trainer.val_before_train": True,
        # Use the model's own weights, and leave the run's checkpoints unchanged.
        "trainer.resume_mode": "disable",
        "trainer.logger": ["console"],
        "trainer.log_val_generations": 0,
        "trainer.validation_data_dir": dump,
        "hydra.run.dir": ".",
        "hydra.output_subdir": None,
    }
    words = [f"{key}={json.dumps(value)}" for key, value in keys.items()]
    return [sys.executable, *MAIN, "--config-dir", os.path.dirname(config), "--config-name", "config", *words]


class Reader:
    """Read the validation's scores; the last line with scores applies."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], tuple[int, float]] = {}

    def __call__(self, line: str) -> None:
        if " - val-core/" in line:
            matches = VALUE.finditer(line)
            self.found = {(m[1], m[2]): (int(m[3]), float(m[4])) for m in matches}

    def result(self) -> tuple[str, int, float]:
        """Return the score's name, the number of samples per prompt, and the mean score."""
        if len(self.found) != 1:
            names = ", ".join("/".join(key) for key in self.found) or "no val-core line"
            raise JobError(f"cannot read the validation's scores: expected one val-core/…/mean@n, found {names}")
        ((_source, name), (samples, mean)) = next(iter(self.found.items()))
        return name, samples, mean


def dumped(folder: str, name: str) -> list[float]:
    """Return the score of each sample written by the validation; booleans count as 1 and 0."""
    path = os.path.join(folder, "0.jsonl")
    try:
        with open(path, encoding="utf-8") as file:
            return [float(json.loads(line)["score" if name == "reward" else name]) for line in file]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise JobError(f"cannot read {path}, the samples of the validation: {error}") from None


def judge(task: Record) -> Record:
    """Return what identifies the judge of the answers: the run's rewards and their programs, or verl's own."""
    attempt = os.path.dirname(run_config(task["runDirectory"]))
    folder = os.path.join(attempt, "code")
    if "code" not in os.listdir(attempt):
        return {"rewards": ""}
    digest = hashlib.sha256()
    for place, folders, names in os.walk(folder, onerror=fail):
        folders[:] = sorted(set(folders) - {"__pycache__"})
        for path in (os.path.join(place, name) for name in sorted(names)):
            with open(path, "rb") as file:
                data = file.read()
            digest.update(f"{os.path.relpath(path, folder)} {len(data)} ".encode() + data)
    return {"rewards": digest.hexdigest()}


def evaluate(task: Record, benchmark: str, settings: Record, model: str) -> Record:
    """Run one validation; return the metric, the sum and number of scores, and the standard error of their mean."""
    dump = os.path.join(task["runDirectory"], "evaluations", f".{benchmark}-samples")
    shutil.rmtree(dump, ignore_errors=True)
    reader = Reader()
    code = run(command(task, settings, model, dump), task["workingDirectory"], reader)
    if code:
        raise JobError(f"verl.trainer.main_ppo ended with exit code {code}; the lines above say why")
    name, samples, mean = reader.result()
    values = dumped(dump, name)
    if samples != settings["samples"] or not values or not abs(sum(values) / len(values) - mean) < 1e-4:
        raise JobError(f"the validation printed {mean} at {samples} samples per prompt, and {dump} does not agree")
    shutil.rmtree(dump, ignore_errors=True)
    total = len(values) // samples
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values) / total)
    return {"metric": f"{name}/mean@{samples}", "correct": mean * total, "total": total, "standardError": spread}
