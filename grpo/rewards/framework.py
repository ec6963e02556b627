"""The reward that the framework itself uses if job.rewards is empty."""

from __future__ import annotations

from grpo.values.config import RunConfig
from grpo.values.derived import mapping
from grpo.values.frameworks.nemo_rl import data_sections
from grpo.values.reference_errors import UnknownError
from postrender.types import Json


def described(run: RunConfig) -> str:
    """Return a sentence about the framework's own reward in a run."""
    return _verl(run) if run.framework == "verl" else _nemo_rl(run)


def data_source(run: RunConfig) -> str:
    """Return the data_source passed to verl's functions if a row has none: the data set's name, or an empty text."""
    if run.framework == "verl":
        # That of the files of task prepare-data; others have their own.
        return (
            "openai/gsm8k"
            if "${oc.env:GRPO_DATASETS}" in str(mapping(run.config.get("data")).get("train_files"))
            else ""
        )
    named = [section.get("dataset_name") for _, section in data_sections(run)]
    return str(named[0] or "") if named else ""


def _nemo_rl(run: RunConfig) -> str:
    name = "math"
    for key in ("data.env_name", "data.default.env_name", "data.train.env_name"):
        name = _at(run, key) or name
    text = f"NeMo RL {run.version} scores with its environment {name}"
    if name == "math":
        implementation = _at(run, "env.math.math_verify_impl")
        text += ", which compares the final answer of a response with the ground truth: 1.0 if they are equal, else 0.0"
        text += f" (env.math.math_verify_impl: {implementation})" if implementation else ""
    return text


def _verl(run: RunConfig) -> str:
    for key in ("reward.custom_reward_function", "custom_reward_function"):
        if path := _at(run, f"{key}.path"):
            return f"verl {run.version} scores with {_at(run, f'{key}.name')} of {path} ({key} of job.config)"
    manager = _at(run, "reward.reward_manager.name") or _at(run, "reward_model.reward_manager")
    by = f" (reward manager {manager})" if manager else ""
    return f"verl {run.version} scores with its own function for the data_source of each row{by}"


def _at(run: RunConfig, key: str) -> Json:
    try:
        return run.at(key)
    except UnknownError:
        return None
