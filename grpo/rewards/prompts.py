"""A run's prompt: the text that the framework builds from a question, before the model's chat template."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from grpo.values.config import RunConfig
from postrender import paths
from postrender.errors import InputError
from postrender.types import Json
from postrender.values.merge import Values

_OURS: Final = re.compile(r"\$\{oc\.env:GRPO_PROMPTS\}/(.+)\.txt")
_PREPARED: Final = re.compile(r"\$\{oc\.env:GRPO_DATASETS\}/([^/]+)/")

# As grpo.problems.keys.values_asked has it, with a word after the mark.
_ASKING: Final = {"promptsForBox": r"\boxed", "promptsForAnswer": "Answer: …", "promptsForTags": "<think> <answer>"}


class Prompt(NamedTuple):
    """How the run builds a prompt: `source` names the prompt, `template` is None if it is not in the values."""

    source: str
    template: str | None = None
    # With braces, as NeMo RL reads it; else the question comes first.
    has_place: bool = True
    # What a prompt of the image asks for: a text that names its marks.
    asks: str = ""


def of(values: Values, run: RunConfig) -> Prompt:
    """Return a run's prompt; raise InputError if the run names a prompt that the values do not have."""
    return _of_verl(run) if run.framework == "verl" else _of_nemo_rl(values, run)


def rendered(prompt: Prompt, question: str, values: Values) -> str | None:
    """Return the prompt for a question, None if the template is unknown; raise InputError if the template is faulty."""
    if prompt.template is None:
        return None
    if not prompt.has_place:
        return f"{question}\n\n{prompt.template}"
    at = values.at(tuple(prompt.source.split(".")))
    try:
        text = prompt.template.format(question)
    except (ValueError, IndexError, KeyError, AttributeError) as error:
        what = f"{prompt.source} is not a prompt that NeMo RL can fill in: {type(error).__name__}: {error}"
        fix = r"write {} once, for the question, and double all other braces: \boxed{{…}}"
        raise InputError(what, at=at, fix=fix) from error
    if question not in text:
        fix = "write {} where the question belongs"
        raise InputError(f"{prompt.source} has no {{}}, so no prompt contains its question", at=at, fix=fix)
    return text


def asking(prompt: Prompt, question: str, values: Values) -> str:
    """Return a text that asks for what the prompt of a question asks for; raise InputError for a faulty prompt."""
    text = rendered(prompt, question, values)
    return f"{prompt.asks}\n{question}" if text is None else text


def _of_nemo_rl(values: Values, run: RunConfig) -> Prompt:
    file = next((each for section in _sections(run) if (each := section.get("prompt_file"))), None)
    if file is None:
        return Prompt("the question alone, because no prompt_file is set", "{}")
    found = _OURS.fullmatch(str(file))
    if found is None:
        names, name = run.catalogue.names, os.path.normpath(str(file))
        asks = " ".join(text for key, text in _ASKING.items() if name in names[key])
        return Prompt(f"{file}, a file of the image, which is not here", asks=asks)
    text = values.get(f"job.prompts.{found[1]}")
    if not isinstance(text, str):
        what = f"the configuration names the prompt {found[1]}.txt, and job.prompts has no {found[1]}"
        raise InputError(what, at=values.at(("job", "prompts")), fix=f"write it under job.prompts.{found[1]}")
    return Prompt(f"job.prompts.{found[1]}", text)


def _sections(run: RunConfig) -> Iterator[Mapping[str, Any]]:
    """Yield the sections that may name a prompt, in order of precedence."""
    data = run.config.get("data")
    if isinstance(data, dict):
        train = data.get("train")
        for section in (train[0] if isinstance(train, list) and train else train, data.get("default"), data):
            if isinstance(section, dict):
                yield section


def _of_verl(run: RunConfig) -> Prompt:
    entries = {name: each for name, each in _map(run.value("job.prepareData")).items() if isinstance(each, dict)}
    data = run.config.get("data")
    files = str(_map(data).get("train_files"))
    name = next((found for found in _PREPARED.findall(files) if found in entries), None)
    if name is None:
        return Prompt(f"the column prompt of {files}, which is not here")
    instruction = entries[name].get("instruction")
    source = f"job.prepareData.{name}.instruction" if instruction else "the instruction of task prepare-data"
    return Prompt(source, str(instruction or _standard()), has_place=False)


def _standard() -> str:
    """Return the instruction used by prepare_data.py."""
    with open(os.path.join(paths.data_root(), "jobs", "tasks", "prepare_data.py"), encoding="utf-8") as file:
        tree = ast.parse(file.read())
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "INSTRUCTION":
            return str(ast.literal_eval(node.value))
    raise AssertionError("prepare_data.py has an INSTRUCTION")


def _map(value: Json) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
