"""The Hugging Face hub: nodes do not each download the same model, its name is not misspelt, and its code is known."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from grpo.problems.storage import values_paths as inputs
from grpo.problems.topic import Topic
from grpo.values import models
from grpo.values.config import MODEL
from grpo.values.derived import mapping
from postrender import spelling
from postrender.finding import INFO, WARNING, Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

TOPIC: Final = Topic("job", framework="", source="charts/common/templates/")
_VOLUME: Final = "huggingface.cache.volume"
_OFFLINE: Final = "huggingface.offline.enabled"
_REPOSITORY: Final = re.compile(r"[\w.-]+/[\w.-]+")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
# Both are about the model of the policy: verl reads it twice.
_TRUST: Final = ("actor_rollout_ref.model.trust_remote_code", "data.trust_remote_code")
_PIN: Final = f"read its code, write its commit as job.fetch.models.NAME.revision, run task fetch, set {_OFFLINE}"


@TOPIC.problem(
    f"={_VOLUME} =huggingface.offline.enabled", fails=Fails.COSTS, source="_environment.tpl at 0.1.0", severity=WARNING
)
def each_node_downloads(run: RunConfig) -> Iterator[Finding]:
    """several nodes do not share a Hugging Face hub cache

    Why: every node downloads the model after every start; the hub answers 429 to an address that queries it too often
    Fix: set huggingface.cache.volume to a shared volume, run the fetch task once, then set huggingface.offline.enabled
    """
    model = run.at(MODEL[run.framework])
    if run.nodes < 2 or not run.trains or run.value("huggingface.offline.enabled"):
        return
    if not isinstance(model, str) or model.startswith(("/", "~", "$", "hdfs:")):
        return
    name = run.value(_VOLUME)
    volume = mapping(mapping(run.value("storage")).get(str(name)))
    if not name or "ephemeral" in volume:
        where = f"{_VOLUME} is {name}, which every node has for itself" if name else f"{_VOLUME} is empty"
        yield Finding(f"{run.nodes} nodes download {model}, and {where}")


@TOPIC.problem(MODEL["nemo-rl"], fails=Fails.AT_LOADING, source="nemo_rl/models at v0.7.0")
def model_not_named(run: RunConfig) -> Iterator[Finding]:
    """the name of the model is empty

    Why: the run ends when it loads the model, after every pod has started and while GPUs are billed
    Fix: set OWNER/NAME of a model on the hub, or a folder on a volume
    """
    # The chart refuses such a run of verl.
    key = MODEL["nemo-rl"]
    loads = run.framework == "nemo-rl" and run.trains
    if loads and isinstance(name := run.at(key), str) and not name.strip():
        yield Finding(f"{key} is empty", keys=[key])


@TOPIC.problem(" ".join(MODEL.values()), fails=Fails.AT_LOADING, source="_environment.tpl at 0.1.0", severity=WARNING)
def model_misspelt(run: RunConfig) -> Iterator[Finding]:
    """the model's name differs from a known one only by a letter or a separator

    Why: if the hub has no such model, the run ends when it loads it, after every pod has started, with GPUs billed
    Fix: correct the name; if the model is really called that, name it under job.fetch.models
    """
    key = MODEL[run.framework]
    name = run.at(key)
    fetched = [model for model, entry in mapping(run.value("job.fetch.models")).items() if entry is not None]
    if not isinstance(name, str) or "/" not in name or name in fetched or models.load(name):
        return
    meant = next((each for each in [*fetched, *models.names()] if spelling.is_slip(name, each)), "")
    if meant:
        what = f"{key} is {name}, a model that is not known, and {meant} is"
        yield Finding(what, keys=[key], fix=f"did you mean {meant}?", proposed={key: meant})


def _revision(run: RunConfig, repository: str, section: str = "models") -> str:
    """Return the revision at which the fetch task downloads a repository."""
    return str(mapping(mapping(run.value(f"job.fetch.{section}")).get(repository)).get("revision") or "main")


def _own_code(run: RunConfig) -> tuple[str, bool]:
    """Return the model's repository, empty for a folder, and whether it may have code that is not pinned.

    A config.json with code names it under auto_map. The catalogue only has models whose class is in transformers.
    """
    name = run.at(MODEL[run.framework])
    if not isinstance(name, str) or not _REPOSITORY.fullmatch(name):
        return "", False
    known = models.load(name)
    may_have_code = known is None or "auto_map" in known
    return name, may_have_code and not _COMMIT.fullmatch(_revision(run, name))


def _trusting(run: RunConfig) -> list[str]:
    """Return the verl switches that are on."""
    return [key for key in _TRUST if run.at(key) is True] if run.framework == "verl" else []


@TOPIC.problem(
    " ".join(_TRUST),
    fix=_PIN,
    fails=Fails.EXPOSES,
    source="verl/workers/config/model.py:179 at 0.9.1",
    severity=WARNING,
)
def remote_code(run: RunConfig) -> Iterator[Finding]:
    """the run trusts a model's code that it does not need, or that is not pinned to a commit

    Why: any Python files that the model's owner puts there run in each pod, with its tokens, data and checkpoints
    """
    name, moves = _own_code(run)
    for key in _trusting(run) if name else ():
        known = models.load(name)
        if known is not None and "auto_map" not in known:
            what = f"{key} is true, and {name} needs no code of its own: transformers has {known['architectures'][0]}"
            yield Finding(what, keys=[key], fix="remove the line: the default is false", proposed={key: False})
        elif moves:
            what = f"{key} is true, and {name} is taken at {_revision(run, name)}, which can move"
            yield Finding(what, keys=[key])


@TOPIC.problem(
    " ".join(MODEL.values()),
    fix=_PIN,
    fails=Fails.EXPOSES,
    source="nemo_rl/algorithms/utils.py:362 at v0.7.0; verl/experimental/reward_loop/reward_loop.py:125 at 0.9.1",
    severity=INFO,
)
def model_not_pinned(run: RunConfig) -> Iterator[Finding]:
    """a model that may bring its own code is not pinned to a commit

    Why: no switch turns it off: its owner, or anyone using their account, runs code in each pod, with its tokens and
    data
    """
    name, moves = _own_code(run)
    if moves and not _trusting(run):
        runs = "verl runs that of the tokenizer" if run.framework == "verl" else f"{run.framework} runs it"
        what = f"{name} is taken at {_revision(run, name)}; if its repository has code, {runs}"
        yield Finding(what, keys=[MODEL[run.framework]])


@TOPIC.problem(
    f"=job.fetch.models =job.fetch.datasets ={_OFFLINE}",
    fix=f"set {_OFFLINE} to true once task fetch has run, or remove the revision",
    fails=Fails.SILENT,
    source="tests/jobs/test_fetch.py at 0.1.0",
    severity=WARNING,
)
def revision_not_used(run: RunConfig) -> Iterator[Finding]:
    """a training run does not load the revision that the fetch task downloaded

    Why: the trainers load whatever main is at that moment, and download it again if it has moved
    """
    if not run.trains or run.value(_OFFLINE):
        return
    # The copies of job.stage are of what was fetched.
    name = "" if run.value("job.stage") is True else str(run.at(MODEL[run.framework]))
    loaded = {("models", name), *(("datasets", repository) for _, repository in inputs.repositories(run))}
    for section, repository in sorted(loaded):
        revision = _revision(run, repository, section)
        if revision != "main":
            short = revision[:12] if _COMMIT.fullmatch(revision) else revision
            what = f"task fetch takes {repository} at {short}, and the trainers, which ask the hub, at main"
            key = repository.replace(".", "\\.")
            yield Finding(what, keys=[f"=job.fetch.{section}.{key}.revision"])
