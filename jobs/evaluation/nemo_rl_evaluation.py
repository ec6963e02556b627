"""Run NeMo RL's own evaluation, examples/run_eval.py, and read its configuration and its result from the output.

run_eval.py merges overrides without checking their names, so an unknown key has no effect. Therefore the
configuration that it prints at startup is compared with the requested one. Sources: NeMo RL v0.4.0, v0.5.0, v0.6.0,
v0.7.0, and for v0.8.0 main at 7ea279ab.
"""

from __future__ import annotations

import ast
import json
import os
import re
import sys
from typing import Any

from child_process import run
from runtime import JobError, Record

HUB = {"math500": "math500", "aime2024": "aime2024", "aime2025": "aime2025"}
# What a version changes for itself and for those after it: v0.8.0 reads AIME with the data set classes of trainings.
CHANGES = {
    (0, 7, 0): {"aime2026": "aime2026"},
    (0, 8, 0): {"aime2024": "AIME2024", "aime2025": "AIME2025", "aime2026": "AIME2026"},
}
PROMPT = "examples/prompts/cot.txt"
SECTIONS = re.compile(r"(?:\(|, )(eval|generation|tokenizer|data|env|cluster)=(?=\{)")
# What counts for the end of a dictionary: braces, and texts, in which braces do not count.
BRACES = re.compile(r"""[{}]|'(?:[^'\\]|\\.)*(?:'|\Z)|"(?:[^"\\]|\\.)*(?:"|\Z)""", re.DOTALL)
# Far more than any version prints.
CONFIG_LINES = 1000
NAMES = re.compile(r"model_name='(?P<model>[^']*)' dataset_name='(?P<dataset>[^']*)'")
METRIC = re.compile(r"metric=(?P<metric>[^\s=]+) num_tests_per_prompt=(?P<samples>\d+)")
SCORE = re.compile(r"score=[\d.]+ \((?P<correct>\d+(?:\.\d+)?(?:e[-+]?\d+)?)/(?P<total>\d+)\)")


def data_file() -> str:
    return os.environ.get("GRPO_DATASETS", "/data/datasets") + "/gsm8k/test.jsonl"


def data_of(benchmark: str, version: str) -> tuple[str, Record]:
    """Return the evaluation's configuration file and the keys that select the data set."""
    release = tuple(int(part) for part in version.strip("v").split("."))
    hub = dict(HUB)
    for first, names in CHANGES.items():
        hub.update(names if release >= first else {})
    if benchmark in hub:
        return "math_eval", {"data.dataset_name": hub[benchmark]}
    if benchmark != "gsm8k":
        raise JobError(f"NeMo RL {version} has no benchmark {benchmark}; it has {', '.join([*hub, 'gsm8k'])}")
    keys = {"problem_key": "question", "solution_key": "answer", "file_format": "json", "split": "train"}
    return "local_eval", {"data.dataset_name": data_file(), **{f"data.{key}": value for key, value in keys.items()}}


def check_data(path: str) -> None:
    """Reject a GSM8K file that is missing, or whose answers are full solutions, which no response would equal."""
    try:
        with open(path, encoding="utf-8") as file:
            row = json.loads(file.readline())
            question, answer = row["question"], row["answer"]
    except FileNotFoundError:
        raise JobError(f"{path} is missing: run task prepare-data first") from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise JobError(f'{path} must have {{"question": …, "answer": …}} on each line: prepare it again') from None
    if not question or "####" in str(answer):
        raise JobError(f"{path} has whole solutions as answers instead of numbers: run task prepare-data again")


def check(task: Record, benchmark: str, settings: Record) -> None:
    """Reject what NeMo RL would reject only after loading the model."""
    data_of(benchmark, task["version"])
    samples, parallel = settings["samples"], task["tensorParallelSize"]
    if samples > 1 and settings["temperature"] <= 0:
        raise JobError(f"{benchmark}: at temperature 0 the {samples} samples of a prompt are equal; raise temperature")
    if (gpus := task["nodes"] * task["gpusPerNode"]) % parallel:
        raise JobError(f"{gpus} GPUs are not a multiple of job.evaluate.tensorParallelSize {parallel}; change it")
    if benchmark == "gsm8k":
        check_data(data_file())


def overrides(task: Record, benchmark: str, settings: Record, model: str) -> Record:
    """Return the overrides for NeMo RL's configuration."""
    asked = {
        "generation.model_name": model,
        # The length of prompt and answer together; max_new_tokens is derived from it.
        "generation.vllm_cfg.max_model_len": settings["maxNewTokens"],
        "generation.vllm_cfg.tensor_parallel_size": task["tensorParallelSize"],
        "generation.temperature": settings["temperature"],
        "generation.top_p": settings["topP"],
        "eval.num_tests_per_prompt": settings["samples"],
        "eval.seed": settings["seed"],
        "cluster.num_nodes": task["nodes"],
        "cluster.gpus_per_node": task["gpusPerNode"],
        **data_of(benchmark, task["version"])[1],
    }
    if task.get("vllmKwargs"):
        asked["generation.vllm_kwargs"] = task["vllmKwargs"]
    return asked


def override(key: str, value: Any) -> str:
    """Return one override as an argument; the value is read as YAML, so a text is quoted unless it is a plain path."""
    plain = isinstance(value, str) and re.fullmatch(r"[\w.-]*/[\w./-]*", value)
    return f"{key}={value if plain else json.dumps(value)}"


def command(task: Record, benchmark: str, asked: Record) -> list[str]:
    # One argument: run_eval.py reads the command line again as overrides, where a separate path would become a key.
    config = f"--config=examples/configs/evals/{data_of(benchmark, task['version'])[0]}.yaml"
    return [sys.executable, "examples/run_eval.py", config, *(override(key, value) for key, value in asked.items())]


def parse_config(text: str) -> Record | None:
    """Return the printed configuration, or None while it is incomplete.

    Before v0.7.0 it is a pretty-printed dictionary. From v0.7.0 on, it is an object's repr on one line: some of its
    arguments are the sections, others are not valid Python.
    """
    try:
        if text.startswith("{"):
            whole: Record = ast.literal_eval(text)
            return whole
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):  # nested too deeply
        return None
    found = {match[1]: leading_dictionary(text[match.end() :]) for match in SECTIONS.finditer(text)}
    return found if found and None not in found.values() else None


def leading_dictionary(text: str) -> Record | None:
    """Return a text's leading dictionary; only one end is tried, because each try parses everything before it."""
    depth = 0
    for match in BRACES.finditer(text):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if match[0] == "}" and not depth:
            try:
                value: Record = ast.literal_eval(text[: match.end()])
            except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                return None
            return value
    return None


def at(config: Record, key: str) -> Any:
    value: Any = config
    for part in key.split("."):
        value = value.get(part, "nothing") if isinstance(value, dict) else "nothing"
    return value


class Reader:
    """Read the output of run_eval.py: its configuration at the start, its result at the end."""

    def __init__(self, asked: Record) -> None:
        model, length = asked["generation.model_name"], asked["generation.vllm_cfg.max_model_len"]
        follows = {"generation.max_new_tokens": length, "tokenizer.name": model, "data.prompt_file": PROMPT}
        self.asked = {**asked, **follows}
        self.lines: list[str] | None = None
        self.agreed = False
        self.block: Record = {}
        self.result: Record = {}

    def __call__(self, line: str) -> None:
        if not self.agreed:
            self.read_config(line)
        self.read_result(line)

    def read_config(self, line: str) -> None:
        if self.lines is None:
            self.lines = [] if line.strip() == "Final config:" else None
        elif len(self.lines) < CONFIG_LINES:
            self.lines.append(line)
            config = parse_config("\n".join(self.lines)) if line.rstrip().endswith(("}", ")")) else None
            if config is not None:
                self.compare(config)

    def compare(self, config: Record) -> None:
        """Reject a configuration that differs from the requested one, which run_eval.py does not check."""
        wrong = [
            f"{key} is {at(config, key)!r}, expected {value!r}"
            for key, value in self.asked.items()
            if at(config, key) != value
        ]
        if wrong:
            raise JobError(
                f"run_eval.py uses another configuration: {'; '.join(wrong)}; does job.version match the image?"
            )
        self.agreed = True

    def read_result(self, line: str) -> None:
        # A worker may print into the same line, so each part may be anywhere in a line; the order is fixed.
        if match := NAMES.search(line):
            self.block = match.groupdict()
        if self.block and (match := METRIC.search(line)):
            self.block |= match.groupdict()
        if "metric" in self.block and (match := SCORE.search(line)):
            self.block |= {"correct": float(match["correct"]), "total": int(match["total"])}
            self.result, self.block = self.block, {}


def judge(task: Record) -> Record:
    """Return what identifies the judge of the answers: nothing more, because the NeMo RL version does."""
    return {}


def evaluate(task: Record, benchmark: str, settings: Record, model: str) -> Record:
    """Run one evaluation; return the metric, the number of correct answers (possibly fractional) and the total."""
    asked = overrides(task, benchmark, settings, model)
    reader = Reader(asked)
    code = run(command(task, benchmark, asked), task["workingDirectory"], reader)
    if code:
        raise JobError(f"run_eval.py ended with exit code {code} on {benchmark}; the lines above say why")
    if not reader.agreed:
        raise JobError("run_eval.py printed no readable configuration, so its result is not used")
    result = reader.result
    if not result or not result["total"]:
        raise JobError(f"run_eval.py succeeded but printed no result on {benchmark}; does job.version match the image?")
    if result["samples"] != str(settings["samples"]):
        raise JobError(f"the result has {result['samples']} samples per prompt, expected {settings['samples']}")
    return {key: result[key] for key in ("metric", "correct", "total")}
