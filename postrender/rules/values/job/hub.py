"""The Hugging Face hub: several nodes do not fetch the same model, and its name is not misspelt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from postrender import spelling
from postrender.finding import WARNING, Finding
from postrender.rules.values.define import Topic
from postrender.values import models
from postrender.values.derived import mapping

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.values.config import Effective

TOPIC: Final = Topic("job", framework="", source="charts/common/templates/")
_VOLUME: Final = "huggingface.cache.volume"
_MODEL: Final = {"nemo-rl": "policy.model_name", "verl": "actor_rollout_ref.model.path"}


@TOPIC.rule(
    "each-node-downloads",
    "nemo-rl/N1",
    f"={_VOLUME} =huggingface.offline.enabled",
    title="several nodes share a cache of the Hugging Face hub",
    why="every node downloads the model after every start; the hub answers 429 to an address that asks too often",
    fix="set huggingface.cache.volume to a shared volume, run task fetch once, then set huggingface.offline.enabled",
    source="_environment.tpl at 0.1.0",
    severity=WARNING,
)
def _downloads(run: Effective) -> Iterator[Finding]:
    model = run.at(_MODEL[run.framework])
    if run.nodes < 2 or run.value("job.task") not in (None, "train") or run.value("huggingface.offline.enabled"):
        return
    if not isinstance(model, str) or model.startswith(("/", "~", "$", "hdfs:")):
        return
    name = run.value(_VOLUME)
    volume = mapping(mapping(run.value("storage")).get(str(name)))
    if not name or "ephemeral" in volume:
        where = f"{_VOLUME} is {name}, which every node has for itself" if name else f"{_VOLUME} is empty"
        yield Finding(f"{run.nodes} nodes download {model}, and {where}")


@TOPIC.rule(
    "model-not-named",
    "nemo-rl/N1",
    _MODEL["nemo-rl"],
    title="a run names its model",
    why="the run ends when it loads the model: every pod has started, and the GPUs are paid for",
    fix="write OWNER/NAME of a model on the hub, or a folder on a volume",
    source="nemo_rl/models at v0.7.0",
)
def _unnamed(run: Effective) -> Iterator[Finding]:
    # The chart refuses such a run of verl.
    key = _MODEL["nemo-rl"]
    loads = run.framework == "nemo-rl" and run.value("job.task") in (None, "train")
    if loads and isinstance(name := run.at(key), str) and not name.strip():
        yield Finding(f"{key} is empty", keys=[key])


@TOPIC.rule(
    "model-misspelt",
    "nemo-rl/N1",
    " ".join(_MODEL.values()),
    title="the model is none that differs from a known one by a letter or a separator",
    why="if the hub has no such model, the run ends when it loads it: every pod has started, and the GPUs are paid for",
    fix="correct the name; a model that is really called so is named under job.fetch.models",
    source="_environment.tpl at 0.1.0",
    severity=WARNING,
)
def _misspelt(run: Effective) -> Iterator[Finding]:
    key = _MODEL[run.framework]
    name = run.at(key)
    fetched = [model for model, entry in mapping(run.value("job.fetch.models")).items() if entry is not None]
    if not isinstance(name, str) or "/" not in name or name in fetched or models.load(name):
        return
    meant = next((each for each in [*fetched, *models.names()] if spelling.is_slip(name, each)), "")
    if meant:
        what = f"{key} is {name}, a model that is not known, and {meant} is"
        yield Finding(what, keys=[key], fix=f"did you mean {meant}?", proposed={key: meant})
