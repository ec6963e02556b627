"""Models: the run names its own model, and the fetch task downloads the one that the run loads."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from grpo.problems.topic import Topic
from grpo.values.config import MODEL
from grpo.values.derived import mapping
from grpo.values.frameworks.nemo_rl import environments
from postrender.finding import WARNING, Finding
from postrender.problem import REASONS, Fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

TOPIC: Final = Topic("job", framework="", source="")
_OFFLINE: Final = "huggingface.offline.enabled"
_REPOSITORY: Final = re.compile(r"[\w.-]+/[\w.-]+")
_TOKENIZERS: Final = {"nemo-rl": "policy.tokenizer.name", "verl": "actor_rollout_ref.model.tokenizer_path"}


@TOPIC.problem(
    " ".join(MODEL.values()),
    fails=Fails.SILENT,
    source="examples/configs/grpo_math_1B.yaml:102 at v0.7.0; verl/trainer/config/model/hf_model.yaml:10 at 0.9.1",
)
def model_not_chosen(run: RunConfig) -> Iterator[Finding]:
    """the values do not name the model to train

    Why: the framework trains the model in its own base configuration for the entire run
    Fix: name the model: OWNER/NAME on the hub, or a folder on a volume
    """
    key = MODEL[run.framework]
    default = run.at(key)
    # Another rule reports a section that replaces the one of the base file and leaves the key out.
    if run.trains and default is not None and not run.given_has(key):
        what = f"{key} is not set, and the base configuration of {run.framework} {run.version} has {default}"
        fix = f"write job.config.{key}: OWNER/NAME of a model on the hub, or its folder on a volume"
        yield Finding(
            what,
            keys=[key, key.partition(".")[0], "=job.config"],
            why=REASONS[Fails.AT_RENDER] if run.framework == "verl" else "",
            fix=fix,
        )


def _reward_model(run: RunConfig) -> str:
    """Return the key of the model that scores the answers; empty if there is none."""
    if run.framework == "verl":
        return "reward.reward_model.model_path" if run.on("reward.reward_model.enable") else ""
    return "env.reward_model.model_name" if "reward_model" in environments(run) else ""


def _not_fetched(run: RunConfig, keys: list[str]) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the keys whose repository the fetch task skips, with the repository and what it downloads instead."""
    fetched = [name for name, entry in mapping(run.value("job.fetch.models")).items() if entry is not None]
    # Without an entry it takes the model of the run.
    for key in keys if fetched and run.trains else ():
        name = run.at(key)
        if isinstance(name, str) and _REPOSITORY.fullmatch(name) and name not in fetched:
            yield key, name, fetched


def _reads_cache(run: RunConfig) -> bool:
    """Return whether the model can come only from the cache: the hub is off, or job.stage makes copies."""
    return run.value(_OFFLINE) is True or run.value("job.stage") is True


@TOPIC.problem(
    "=job.fetch.models", fails=Fails.COSTS, source="charts/grpo-job/templates/_tasks.tpl at 0.1.0", severity=WARNING
)
def model_not_fetched(run: RunConfig) -> Iterator[Finding]:
    """the fetch task downloads a different model than the run loads

    Why: the trainers download the run's model only after every pod has started, while GPUs are billed
    Fix: name it under job.fetch.models, and set the other model to null
    """
    for key, name, fetched in () if _reads_cache(run) else _not_fetched(run, [MODEL[run.framework]]):
        others = ", ".join(f"{each}: null" for each in fetched)
        fix = f"write job.fetch.models: {{{name}: {{revision: main}}, {others}}}, and run task fetch"
        yield _finding(key, name, fetched)._replace(fix=fix)


@TOPIC.problem(
    f"=job.fetch.models ={_OFFLINE} =job.stage", fails=Fails.AT_LOADING, source="jobs/staging/model_staging.py at 0.1.0"
)
def cache_without_model(run: RunConfig) -> Iterator[Finding]:
    """the run loads a model or tokenizer from the hub's cache, but the fetch task does not download it

    Why: the run ends when it loads the model, after every pod has started and while GPUs are billed
    Fix: name it under job.fetch.models and run the fetch task again
    """
    keys = [MODEL[run.framework], _TOKENIZERS[run.framework], _reward_model(run)]
    if not run.value(_OFFLINE):
        # The copies of job.stage are of the model alone.
        keys = keys[:1]
    found = _not_fetched(run, [key for key in keys if key]) if _reads_cache(run) else ()
    named: set[str] = set()
    for key, name, fetched in found:
        fix = f"write job.fetch.models: {{{name}: {{revision: main}}}}, and run task fetch again"
        # The tokenizer is that of the model if the files do not say otherwise.
        if name not in named:
            yield _finding(key, name, fetched)._replace(fix=fix)
        named.add(name)


def _finding(key: str, name: str, fetched: list[str]) -> Finding:
    return Finding(f"{key} is {name}, and job.fetch.models has {', '.join(fetched)}", keys=[key, "=job.fetch.models"])
