"""What the prompt asks for, what the data set contains, and what the answer verifier understands."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any, Final

from grpo.problems.frameworks.nemo_rl import TOPIC
from grpo.values.derived import mapping
from grpo.values.frameworks.nemo_rl import GENERATION, data_sections
from postrender.finding import WARNING, Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from grpo.values.config import RunConfig

_ZERO: Final = "no answer is ever right, so the reward is 0 for the whole run"
_MATH: Final = ("math", "math_default")
_OWN_PROMPT: Final = re.compile(r"\$\{oc\.env:GRPO_PROMPTS\}/(.*?)(?:\.txt)?$")
_ANSWER: Final = re.compile(r"answer\s*:", re.IGNORECASE)
# Their questions ask for Answer: themselves.
_ASKING: Final = ("DAPOMath17K", "DAPOMathAIME2024")
# Data sets whose answers are numbers or formulas.
_NUMBERS: Final = (
    *("AIME2024", "AIME2025", "AIME2026", "DAPOMath17K", "DAPOMathAIME2024", "DeepScaler"),
    *("GSM8K", "OpenMathInstruct-2", "gsm8k", "openmathinstruct2"),
)
# Their classes keep no column but messages; ResponseDataset does so for rows that it builds from two columns.
_MESSAGES: Final = (*_NUMBERS, "ResponseDataset")
_FIELDS: Final = {
    "math_data_processor": "problem",
    "multichoice_qa_processor": "question",
    "helpsteer3_data_processor": "context",
}
_STOPS: Final = f"{GENERATION}.stop_strings"


def _of_math(run: RunConfig) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the environment, path and settings of each data set that a math environment checks."""
    for path, section in data_sections(run):
        # v0.4.0 always starts this one.
        name = section.get("env_name") if run.since("v0.5.0") else "math"
        if name in _MATH:
            yield str(name), path, section


def _asks_for(run: RunConfig, file: object) -> str | None:
    """Return what a prompt file asks for: "box", "answer" or an empty text; None if its text is unknown."""
    if not file:
        return ""
    found = _OWN_PROMPT.fullmatch(str(file))
    if found:
        text = mapping(run.value("job.prompts")).get(found[1])
        if not isinstance(text, str):
            return None
        return "answer" if _ANSWER.search(text) else "box" if "boxed" in text else ""
    names, name = run.catalogue.names, os.path.normpath(str(file))
    if name not in names["prompts"]:
        return None
    return "box" if name in names["promptsForBox"] else "answer" if name in names["promptsForAnswer"] else ""


@TOPIC.problem(
    "env.math.math_verify_impl data.default.prompt_file data.prompt_file",
    why=_ZERO,
    fails=Fails.SILENT,
    source="nemo_rl/environments/dapo_math_verifier.py:170 at v0.7.0",
)
def answer_format(run: RunConfig) -> Iterator[Finding]:
    """the prompt asks for a different answer format than the verifier reads

    Why: no answer is ever right, so the reward is 0 for the entire run
    Fix: use hf_math_verify, or a prompt that asks for a last line Answer: NUMBER
    """
    for name, path, section in _of_math(run):
        key, prompt = f"env.{name}.math_verify_impl", section.get("prompt_file")
        is_dapo = run.at(key) == "dapo_math_verify" and run.at(f"env.{name}.verifier_type", "math") == "math"
        if not is_dapo or section.get("dataset_name") in _ASKING:
            continue
        asked = {_asks_for(run, prompt), _asks_for(run, section.get("system_prompt_file"))}
        if "box" in asked and asked <= {"box", ""}:
            which = "prompt_file" if _asks_for(run, prompt) == "box" else "system_prompt_file"
            what = rf"dapo_math_verify reads only Answer: …, and {section[which]} asks for \boxed{{}}"
            yield Finding(what, keys=[key, f"{path}.{which}", f"data.default.{which}", path])
            return


@TOPIC.problem(
    "env.math.verifier_type data.train.dataset_name data.dataset_name",
    why=_ZERO,
    fails=Fails.SILENT,
    source="nemo_rl/environments/math_environment.py:212 at v0.7.0",
)
def multiple_choice_of_numbers(run: RunConfig) -> Iterator[Finding]:
    """the verifier compares letters, but the data set's answers are numbers or formulas

    Why: no answer is ever right, so the reward is 0 for the entire run
    Fix: remove verifier_type: its default, math, compares numbers and formulas
    """
    for name, path, section in _of_math(run):
        key, data = f"env.{name}.verifier_type", section.get("dataset_name")
        verifier = str(run.at(key, "math"))
        if verifier.endswith("_multichoice") and data in _NUMBERS:
            what = f"{verifier} compares letters, and the answers of {data} are numbers or formulas"
            yield Finding(what, keys=[key, f"{path}.dataset_name", path])
            return


@TOPIC.problem(
    "data.default.processor data.train.processor data.processor",
    fails=Fails.AT_FIRST_STEP,
    source="nemo_rl/data/processors.py:320 at v0.7.0",
    since="v0.6.0",
)
def processor_field(run: RunConfig) -> Iterator[Finding]:
    """the processor reads a field that the data set's rows do not have

    Why: the run fails with a KeyError when it reads the first row, after the model is loaded
    Fix: use math_hf_data_processor, which reads messages
    """
    for path, section in data_sections(run):
        processor, data = str(section.get("processor")), section.get("dataset_name")
        # Rows of a file that have messages already keep their other columns.
        keeps_columns = data == "ResponseDataset" and "input_key" not in section
        if processor in _FIELDS and data in _MESSAGES and not keeps_columns:
            what = f"{processor} reads the field {_FIELDS[processor]}, and rows of {data} have only messages"
            yield Finding(what, keys=[f"{path}.processor", "data.default.processor", path])


@TOPIC.problem(
    _STOPS, fails=Fails.SILENT, source="nemo_rl/models/generation/vllm/vllm_worker.py:481 at v0.7.0", severity=WARNING
)
def stop_in_reasoning(run: RunConfig) -> Iterator[Finding]:
    """a stop string ends an answer before it reaches its result

    Why: generation ends there, so no answer reaches its result and the reward stays near 0
    Fix: set it to null: the model's own end-of-text token ends the answer
    """
    given = run.at(_STOPS)
    for text in given if isinstance(given, list) else ():
        if isinstance(text, str) and text and (not text.strip() or text.strip() == "</think>"):
            where = "after the reasoning" if text.strip() else "at the end of a line or paragraph"
            yield Finding(f"{_STOPS} has {json.dumps(text)}, which stands {where}", keys=[_STOPS])
