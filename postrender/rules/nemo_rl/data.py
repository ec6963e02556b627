"""Data: names of data sets, processors, environments and prompts."""

from __future__ import annotations

from postrender.rules.nemo_rl import SETUP, WORKER, book, data_sections
from postrender.rules.values import Said, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.effective import Effective

_book = book()
RULES = _book.rules
_ANY_PATH = "*.*"
_LISTS = {"data set": "datasets", "processor": "processors", "environment": "environments"}


def _unknown(kind: str, name: str, run: Effective, keys: list[str]) -> Said:
    """Say that a name is not known, and which one may be meant."""
    import difflib

    known = [each for each in run.catalogue.names[_LISTS[kind]] if each != _ANY_PATH]
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    fix = f"did you mean {close[0]}?" if close else f"one of {', '.join(known)}"
    return Said(f"no {kind} is called {shown(name)} in {run.version}", keys=keys, fix=fix)


@_book.rule(
    "no-train-data",
    "D1",
    "data.train data.dataset_name data",
    title="the data section names the data to train on",
    why=SETUP,
    fix="write data.train.dataset_name (data.dataset_name before v0.6.0)",
    source="data/utils.py:143 at v0.7.0",
)
def _train(run: Effective) -> str | None:
    if run.since("v0.6.0"):
        return None if any(path == "data.train" for path, _ in data_sections(run)) else "data.train is not given"
    return None if run.has("data.dataset_name") else "data.dataset_name is not given"


@_book.rule(
    "dataset",
    "D2",
    "data.train.dataset_name data.dataset_name",
    title="the data set is one that this version can load",
    why=SETUP,
    fix="write one of its names, or ResponseDataset with the path of a file",
    source="data/datasets/response_datasets/__init__.py:106 at v0.7.0",
)
def _dataset(run: Effective) -> Iterator[Said]:
    for path, section in data_sections(run):
        name = section.get("dataset_name")
        if isinstance(name, str) and "${" not in name and not run.catalogue.accepts("datasets", name):
            yield _unknown("data set", name, run, [f"{path}.dataset_name", path])


@_book.rule(
    "processor",
    "D4",
    "data.default.processor data.train.processor data.processor",
    title="the processor of the data is one that this version has",
    why=SETUP,
    fix="write math_hf_data_processor, or another one of the list",
    source="data/datasets/raw_dataset.py:57 at v0.7.0",
    since="v0.5.0",
)
def _processor(run: Effective) -> Iterator[Said]:
    for path, section in data_sections(run):
        name = section.get("processor")
        if isinstance(name, str) and "${" not in name and not run.catalogue.accepts("processors", name):
            yield _unknown("processor", name, run, [f"{path}.processor", "data.default.processor", path])


@_book.rule(
    "environment",
    "D3",
    "data.default.env_name data.train.env_name data.env_name",
    title="the environment is one that this version has, with a section of its own under env",
    why=SETUP,
    fix="write math, or another environment of the list, and its section under env",
    source="environments/utils.py:107 at v0.7.0",
    since="v0.5.0",
)
def _environment(run: Effective) -> Iterator[Said]:
    for path, section in data_sections(run):
        name = section.get("env_name")
        if not isinstance(name, str) or "${" in name:
            continue
        keys = [f"{path}.env_name", "data.default.env_name", path]
        if name != "rewards" and not run.catalogue.accepts("environments", name):
            yield _unknown("environment", name, run, keys)
        elif not run.has(f"env.{name}"):
            yield Said(f"{path} asks for the environment {name}, and env.{name} is not there", keys=keys)


@_book.rule(
    "no-generation",
    "D5",
    "policy.generation.vllm_cfg policy.generation",
    title="GRPO generates answers",
    why=SETUP,
    fix="remove the null, or describe policy.generation",
    source="examples/run_grpo.py:101 at v0.7.0",
)
def _generation(run: Effective) -> str | None:
    if run.at("policy.generation") is None:
        return "policy.generation is null"
    empty = run.at("policy.generation.backend") == "vllm" and run.at("policy.generation.vllm_cfg") is None
    return "policy.generation.vllm_cfg is null" if empty else None


@_book.rule(
    "system-prompt-as-prompt",
    "P4",
    "data.default.prompt_file data.train.prompt_file data.prompt_file",
    title="a prompt file has a place for the question",
    why="silent: the model never sees the question, and the reward stays near 0",
    fix="write examples/prompts/cot.txt, and give gsm8k.txt as system_prompt_file",
    source="examples/prompts/gsm8k.txt at v0.7.0",
)
def _prompt(run: Effective) -> Iterator[Said]:
    for path, section in data_sections(run):
        if str(section.get("prompt_file")).endswith("examples/prompts/gsm8k.txt"):
            keys = [f"{path}.prompt_file", "data.default.prompt_file", path]
            yield Said("gsm8k.txt is a system prompt without a place for the question", keys=keys)


@_book.rule(
    "required-key",
    "V8",
    "policy.generation policy",
    title="sections that replace the base file's have all that the framework reads",
    why=WORKER,
    fix="add the key, or remove _override_",
    source="models/generation/vllm/vllm_generation.py:157 at v0.7.0",
)
def _required(run: Effective) -> Iterator[Said]:
    for path in run.catalogue.required:
        section, _, name = path.rpartition(".")
        # A section that is not there has its own entry.
        if (not section or isinstance(run.at(section), dict)) and not run.has(path):
            yield Said(f"{path} is missing, and {run.version} needs it", keys=[section or path], fix=f"add {name}")
