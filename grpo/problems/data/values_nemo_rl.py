"""Data: the names of data sets, processors, environments and prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo.problems.checks import quoted
from grpo.problems.frameworks.nemo_rl import TOPIC
from grpo.values.frameworks.nemo_rl import data_sections, environments
from postrender import spelling
from postrender.counting import counted
from postrender.finding import WARNING, Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

_ANY_PATH = "*.*"
# The chart writes these into whatever the files say.
_DERIVED = (
    *("checkpointing.checkpoint_dir", "logger.log_dir", "logger.wandb"),
    *("logger.tensorboard_enabled", "logger.wandb_enabled", "logger.mlflow_enabled"),
)
# Rows of the training split, where the data set does not change. Source: the data set's page.
_ROWS = {"gsm8k": 7473}
# A question of GSM8K with its prompt and the tokens of a chat has about as many tokens.
_SHORT = 128
# Where the data set lies, by its old name too.
_WITH_SOLUTIONS = ("openai/gsm8k", "gsm8k")
_LISTS = {"data set": "datasets", "processor": "processors", "environment": "environments"}


def _unknown(kind: str, name: str, run: RunConfig, keys: list[str]) -> Finding:
    """Report an unknown name, and suggest a known one."""
    known = [each for each in run.catalogue.names[_LISTS[kind]] if each != _ANY_PATH]
    # The name of a class is often that of the data set on the hub, and all processors end with the same word.
    short = {each.removesuffix("_processor").removesuffix("_data"): each for each in known}
    close = spelling.near(name.rpartition("/")[2].removesuffix("_processor").removesuffix("_data"), short)
    fix = f"did you mean {short[close[0]]}?" if close else f"one of {', '.join(known)}"
    if kind == "data set" and "/" in name and not close:
        path = "data_path" if run.since("v0.6.0") else "train_data_path"
        fix = f"for a data set of the hub, write dataset_name: ResponseDataset and {path}: {name}"
    return Finding(f"no {kind} is called {quoted(name)} in {run.version}", keys=keys, fix=fix)


@TOPIC.problem("data.train data.dataset_name data", fails=Fails.AT_SETUP, source="nemo_rl/data/utils.py:143 at v0.7.0")
def no_train_data(run: RunConfig) -> str | None:
    """the data section names no training data

    Fix: set data.train.dataset_name (data.dataset_name before v0.6.0)
    """
    if run.since("v0.6.0"):
        return None if any(path == "data.train" for path, _ in data_sections(run)) else "data.train is not given"
    return "data.dataset_name is not given" if run.at("data.dataset_name") is None else None


@TOPIC.problem(
    "data.train.dataset_name data.dataset_name",
    fails=Fails.AT_SETUP,
    source="nemo_rl/data/datasets/response_datasets/__init__.py:106 at v0.7.0",
    logs="Please set dataset_name to one of: (1) a built-in dataset name, (2) 'ResponseDat",
)
def dataset(run: RunConfig) -> Iterator[Finding]:
    """this version of NeMo RL cannot load the data set

    Fix: use a name that grpo lint lists, or ResponseDataset with a file's path
    """
    for path, section in data_sections(run):
        name = section.get("dataset_name")
        if isinstance(name, str) and "${" not in name and not run.catalogue.accepts("datasets", name):
            yield _unknown("data set", name, run, [f"{path}.dataset_name", path])


@TOPIC.problem(
    "data.train.output_key data.output_key",
    fails=Fails.SILENT,
    source="nemo_rl/data/datasets/response_datasets/response_dataset.py at v0.7.0",
)
def raw_answers(run: RunConfig) -> Iterator[Finding]:
    """the expected answers are full GSM8K solutions, not bare numbers

    Why: the reward compares the answer with the entire solution text, so every reward is 0
    Fix: set dataset_name: gsm8k; before v0.6.0, use a file written by job.task prepare-data, which has only the numbers
    """
    for path, section in data_sections(run):
        for key in ("data_path", "train_data_path"):
            if section.get(key) in _WITH_SOLUTIONS and section.get("output_key") == "answer":
                what = f"{path}.{key} is {section[key]}, whose column answer has whole solutions"
                yield Finding(what, keys=[f"{path}.output_key", f"{path}.{key}", path])


@TOPIC.problem(
    "data.default.processor data.train.processor data.processor",
    fails=Fails.AT_SETUP,
    source="nemo_rl/data/datasets/raw_dataset.py:57 at v0.7.0",
    since="v0.5.0",
    logs="not found in PROCESSOR_REGISTRY",
)
def processor(run: RunConfig) -> Iterator[Finding]:
    """the data processor does not exist in this version

    Fix: use math_hf_data_processor, or another processor that grpo lint lists
    """
    for path, section in data_sections(run):
        name = section.get("processor")
        if isinstance(name, str) and "${" not in name and not run.catalogue.accepts("processors", name):
            yield _unknown("processor", name, run, [f"{path}.processor", "data.default.processor", path])


@TOPIC.problem(
    "data.default.env_name data.train.env_name data.env_name",
    fails=Fails.AT_SETUP,
    source="nemo_rl/environments/utils.py:107 at v0.7.0",
    since="v0.5.0",
    logs="is not registered in ENV_REGISTRY",
)
def environment(run: RunConfig) -> Iterator[Finding]:
    """the environment is unknown, has no section under env, or is not started

    Fix: use math, or another environment that grpo lint lists, and add its section under env
    """
    started = environments(run)
    for name, key in started.items():
        if name != "rewards" and not run.catalogue.accepts("environments", name):
            yield _unknown("environment", name, run, [key])
        elif not run.has(f"env.{name}"):
            yield Finding(f"{key} names the environment {name}, and env.{name} does not exist", keys=[key])
    for path, section in data_sections(run):
        asked = section.get("env_name")
        if isinstance(asked, str) and "${" not in asked and asked not in started:
            # NeMo RL looks for names beside the list, not in it.
            yield Finding(f"{path} is a list, and only data.default.env_name starts an environment", keys=[path])


@TOPIC.problem(
    "policy.generation.vllm_cfg policy.generation",
    fails=Fails.AT_SETUP,
    source="examples/run_grpo.py:101 at v0.7.0",
    logs="A generation config is required for GRPO",
)
def no_generation(run: RunConfig) -> Iterator[Finding]:
    """policy.generation or its engine's section is missing

    Fix: remove the null, or add the section policy.generation
    """
    if run.at("policy.generation") is None:
        yield Finding("policy.generation is null", keys=["policy.generation"])
        return
    section = {"vllm": "vllm_cfg", "sglang": "sglang_cfg"}.get(str(run.at("policy.generation.backend")))
    if section is not None and not isinstance(run.at(f"policy.generation.{section}"), dict):
        what = f"policy.generation.backend is {run.at('policy.generation.backend')}, and {section} is not given"
        yield Finding(what, keys=[f"policy.generation.{section}", "policy.generation.backend"])


@TOPIC.problem(
    "data.default.prompt_file data.train.prompt_file data.prompt_file",
    fails=Fails.SILENT,
    source="examples/prompts/gsm8k.txt at v0.7.0",
)
def system_prompt_as_prompt(run: RunConfig) -> Iterator[Finding]:
    """the prompt file is a system prompt without a placeholder for the question

    Why: the model never sees the question, and the reward stays near 0
    Fix: use examples/prompts/cot.txt, and set gsm8k.txt as system_prompt_file
    """
    names = run.catalogue.names
    for path, section in data_sections(run):
        for name in set(names["prompts"]).difference(names["promptsWithQuestion"]):
            # This processor appends the question and its options instead.
            appends = section.get("processor") == "multichoice_qa_processor"
            if str(section.get("prompt_file")).endswith(name) and not appends:
                keys = [f"{path}.prompt_file", "data.default.prompt_file", path]
                what = f"{name.rpartition('/')[2]} is a system prompt without a place for the question"
                yield Finding(what, keys=keys)


@TOPIC.problem(
    "grpo.max_num_steps grpo.max_num_epochs",
    fails=Fails.SILENT,
    source="nemo_rl/algorithms/grpo.py:2228 at v0.7.0",
    severity=WARNING,
)
def no_steps(run: RunConfig) -> Iterator[Finding]:
    """grpo.max_num_steps or grpo.max_num_epochs is below 1

    Why: the nodes start, the model is loaded, and the run ends with exit code 0 without a training step
    Fix: set a whole number of 1 or more; to only validate, use the evaluate task
    """
    for path in ("grpo.max_num_steps", "grpo.max_num_epochs"):
        if run.at("grpo.val_at_start") is not True and run.at(path, 1) is not None and run.integer(path) < 1:
            yield Finding(f"{path} is {run.integer(path)}: there is no step", keys=[path])


@TOPIC.problem(
    "grpo.num_prompts_per_step grpo.max_num_steps",
    fails=Fails.SILENT,
    source="nemo_rl/algorithms/grpo.py:366 at v0.7.0",
    severity=WARNING,
)
def more_prompts_than_data(run: RunConfig) -> Iterator[Finding]:
    """the data set has fewer rows than the training steps need

    Why: NeMo RL skips an incomplete step, so the run ends early, or immediately, with exit code 0
    Fix: lower num_prompts_per_step or max_num_steps, or raise max_num_epochs
    """
    for path, section in data_sections(run):
        rows = _ROWS.get(str(section.get("dataset_name")).lower())
        if rows is None or path == "data.validation" or isinstance(run.at("data.train"), list):
            continue
        yield from too_few(run, rows)


def too_few(run: RunConfig, rows: int) -> Iterator[Finding]:
    """Yield a finding if the training rows give no step, or fewer steps than the run requires."""
    prompts, epochs = run.integer("grpo.num_prompts_per_step"), run.integer("grpo.max_num_epochs")
    steps = epochs * (rows // prompts) if prompts > 0 else 0
    if prompts > rows:
        what = f"a step takes {prompts} prompts, and the data set has {counted(rows, 'row')}"
        yield Finding(what, keys=["grpo.num_prompts_per_step"])
    elif run.given_has("grpo.max_num_steps") and run.integer("grpo.max_num_steps") > steps:
        what = f"max_num_steps is {run.integer('grpo.max_num_steps')}, and {rows} rows give {counted(steps, 'step')}"
        yield Finding(f"{what} of {prompts} prompts in {counted(epochs, 'epoch')}", keys=["grpo.max_num_steps"])


@TOPIC.problem(
    "data.max_input_seq_length", fails=Fails.SILENT, source="nemo_rl/data/processors.py:427 at v0.7.0", severity=WARNING
)
def prompts_masked(run: RunConfig) -> str | None:
    """data.max_input_seq_length is too short for most prompts

    Why: prompts that are too long are cut to a few tokens, and their answers are left out of the loss
    Fix: set it to 512 or more, or to ${policy.max_total_sequence_length}
    """
    longest = run.integer("data.max_input_seq_length")
    return f"max_input_seq_length is {longest} tokens, chat format included" if 0 < longest < _SHORT else None


@TOPIC.problem(
    "policy.generation policy",
    fails=Fails.AT_LOADING,
    source="nemo_rl/models/generation/vllm/vllm_generation.py:157 at v0.7.0",
    logs="VLLM Configuration Error: Missing required keys in VllmConfig",
)
def required_key(run: RunConfig) -> Iterator[Finding]:
    """a section of job.config lacks a key that the framework reads

    Fix: add the key, or remove _override_
    """
    for path in sorted(run.catalogue.required.difference(_DERIVED)):
        section, _, name = path.rpartition(".")
        above = run.at(section) if section else run.config
        # A section that is not there has its own entry, and one that is off is not read.
        if isinstance(above, dict) and above.get("enabled") is not False and not run.has(path):
            yield Finding(f"{path} is missing, and {run.version} needs it", keys=[section or path], fix=f"add {name}")
