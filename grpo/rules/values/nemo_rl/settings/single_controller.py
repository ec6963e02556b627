"""What the Single Controller of NeMo RL requires: a second way of asynchronous training, from v0.8.0 on.

The chart starts it where job.config has a section async_rl.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.rules.values.checks import quoted
from grpo.rules.values.nemo_rl.run import SETUP, STEP, TOPIC
from grpo.values.frameworks.nemo_rl import (
    COLOCATED,
    CONTROLLER,
    GENERATION,
    GENERATIONS,
    GLOBAL_BATCH,
    MEGATRON,
    PROMPTS,
    VLLM,
    is_controlled,
    is_megatron,
    is_vllm,
    rows,
    validates,
)
from postrender.finding import WARNING, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import Effective

_FIRST: Final = "v0.8.0"
_ASYNC: Final = "grpo.async_grpo"
_PLANE: Final = "data_plane.enabled"
_ENGINE: Final = f"{VLLM}.async_engine"
_SAMPLER: Final = f"{CONTROLLER}.sampler.name"
_AHEAD: Final = f"{CONTROLLER}.sampler.max_lookahead_versions"
_STALE: Final = f"{CONTROLLER}.sampler.max_staleness_versions"
_BUFFER: Final = f"{CONTROLLER}.max_buffered_rollouts"
_STREAMED: Final = f"{CONTROLLER}.min_groups_for_streaming_train"
_CORRECTION: Final = "loss_fn.use_importance_sampling_correction"
_RATIO: Final = "loss_fn.force_on_policy_ratio"
_METRIC: Final = "checkpointing.metric_name"
_LOADERS: Final = "data.use_multiple_dataloader"
# The defaults of nemo_rl/algorithms/single_controller_utils/config.py.
_BUFFERED, _GROUPS = 64, 32


def _sampler(run: Effective) -> str:
    return str(run.at(_SAMPLER, "in_order"))


def _window(run: Effective) -> tuple[str, int]:
    """Return how many versions the answers may be behind the trainer, with the key that says so."""
    key = _AHEAD if _sampler(run) == "in_order" else _STALE
    return key, run.integer(key) if run.has(key) else 1


@TOPIC.rule(
    "controller-with-async",
    "SC1",
    f"{_ASYNC} {CONTROLLER}",
    title="the Single Controller has no grpo.async_grpo",
    why=SETUP,
    fix="set grpo.async_grpo to null: the base file has the section, and async_rl replaces it",
    source="examples/run_grpo_single_controller.py:97 at 7ea279ab",
    since=_FIRST,
)
def _legacy(run: Effective) -> str | None:
    has_both = is_controlled(run) and run.at(_ASYNC) is not None
    return "job.config has async_rl, and grpo.async_grpo is not null" if has_both else None


@TOPIC.rule(
    "controller-without-data-plane",
    "SC2",
    f"{_PLANE} {CONTROLLER}",
    title="the Single Controller needs the data plane",
    why=SETUP,
    fix="set data_plane.enabled to true",
    source="examples/run_grpo_single_controller.py:104 at 7ea279ab",
    since=_FIRST,
)
def _plane(run: Effective) -> Iterator[Finding]:
    if is_controlled(run) and not run.on(_PLANE):
        yield Finding("job.config has async_rl, and data_plane.enabled is off", proposed={_PLANE: True})


@TOPIC.rule(
    "controller-batch",
    "SC3",
    f"{GLOBAL_BATCH} {PROMPTS} {GENERATIONS}",
    title="with the Single Controller, a step is one update: its answers are the global batch",
    why=SETUP,
    fix="set policy.train_global_batch_size to prompts × generations",
    source="nemo_rl/algorithms/single_controller_utils/config.py:696 at 7ea279ab",
    since=_FIRST,
)
def _batch(run: Effective) -> Iterator[Finding]:
    if is_controlled(run) and rows(run) != run.integer(GLOBAL_BATCH):
        made = f"{run.integer(PROMPTS)} prompts × {run.integer(GENERATIONS)} generations = {rows(run)} answers per step"
        what = f"{made}, and train_global_batch_size is {run.integer(GLOBAL_BATCH)}"
        yield Finding(what, proposed={GLOBAL_BATCH: rows(run)})


@TOPIC.rule(
    "controller-engine",
    "SC4",
    f"{_ENGINE} {GENERATION}.backend",
    title="the Single Controller generates with vLLM's asynchronous engine",
    why=STEP,
    fix="set policy.generation.backend to vllm, and vllm_cfg.async_engine to true",
    source="docs/guides/single-controller.md at 7ea279ab",
    since=_FIRST,
)
def _engine(run: Effective) -> Iterator[Finding]:
    if not is_controlled(run):
        return
    if is_vllm(run) and not run.on(_ENGINE):
        yield Finding("job.config has async_rl, and vllm_cfg.async_engine is off", proposed={_ENGINE: True})
    elif not is_vllm(run):
        backend, key = run.at(f"{GENERATION}.backend"), f"{GENERATION}.backend"
        yield Finding(
            f"the backend is {quoted(backend)}, and NeMo RL supports the Single Controller with vLLM", keys=[key]
        )


@TOPIC.rule(
    "controller-trainer",
    "SC19",
    f"{MEGATRON}.enabled {CONTROLLER}",
    title="the Single Controller trains with Megatron",
    why="NeMo RL's guide: the other way of training was not tried with it; set-up does not refuse it",
    fix="set policy.megatron_cfg.enabled to true, and policy.dtensor_cfg.enabled to false",
    source="docs/guides/single-controller.md at 7ea279ab",
    severity=WARNING,
    since=_FIRST,
)
def _trainer(run: Effective) -> str | None:
    untried = is_controlled(run) and not is_megatron(run)
    return "job.config has async_rl, and DTensor trains" if untried else None


@TOPIC.rule(
    "controller-colocated",
    "SC5",
    f"{COLOCATED} {CONTROLLER}",
    title="the Single Controller generates on separate GPUs",
    why="NeMo RL's guide demands it: answers are generated while the policy trains; set-up does not refuse the other",
    fix="set policy.generation.colocated.enabled to false, and give it resources",
    source="docs/guides/single-controller.md at 7ea279ab",
    severity=WARNING,
    since=_FIRST,
)
def _colocated(run: Effective) -> str | None:
    both = is_controlled(run) and run.on(COLOCATED)
    return "job.config has async_rl, and generation is colocated" if both else None


@TOPIC.rule(
    "controller-correction",
    "SC6",
    f"{_CORRECTION} {_AHEAD} {_STALE} {_SAMPLER}",
    title="answers of an older policy need importance sampling correction",
    why="silent, but for the sampler ready_first, where set-up refuses it: the gradient is that of another policy",
    fix="set loss_fn.use_importance_sampling_correction to true",
    source="docs/guides/single-controller.md at 7ea279ab",
    since=_FIRST,
)
def _correction(run: Effective) -> Iterator[Finding]:
    if not is_controlled(run) or run.on(_CORRECTION):
        return
    key, versions = _window(run)
    if versions > 0 or _sampler(run) == "ready_first":
        what = f"{key} is {versions}, and use_importance_sampling_correction is off"
        yield Finding(what, proposed={_CORRECTION: True})


@TOPIC.rule(
    "controller-ready-first",
    "SC7",
    f"{_RATIO} {_SAMPLER}",
    title="the sampler ready_first trains off policy",
    why=SETUP,
    fix="set loss_fn.force_on_policy_ratio to false, or choose another sampler",
    source="nemo_rl/algorithms/single_controller_utils/config.py:720 at 7ea279ab",
    since=_FIRST,
)
def _ready_first(run: Effective) -> str | None:
    both = is_controlled(run) and _sampler(run) == "ready_first" and run.on(_RATIO)
    return "the sampler is ready_first, and loss_fn.force_on_policy_ratio is on" if both else None


@TOPIC.rule(
    "controller-buffer",
    "SC8",
    f"{_BUFFER} {PROMPTS} {_AHEAD} {_STALE}",
    title="the buffer holds the answers of all steps that may wait",
    why=SETUP,
    fix="raise async_rl.max_buffered_rollouts, or generate fewer steps ahead",
    source="nemo_rl/algorithms/single_controller_utils/config.py:549 at 7ea279ab",
    since=_FIRST,
)
def _buffer(run: Effective) -> Iterator[Finding]:
    if not is_controlled(run) or _sampler(run) not in ("in_order", "ready_first", "weight_fifo"):
        return
    key, versions = _window(run)
    needed = run.integer(PROMPTS) * (versions + 1)
    room = run.integer(_BUFFER) if run.has(_BUFFER) else _BUFFERED
    if room < needed:
        name = key.rpartition(".")[2]
        what = (
            f"max_buffered_rollouts is {room}, and {run.integer(PROMPTS)} prompts × ({name} {versions} + 1) = {needed}"
        )
        yield Finding(what, proposed={_BUFFER: needed})


@TOPIC.rule(
    "controller-streaming",
    "SC9",
    f"{_STREAMED} {PROMPTS}",
    title="training does not wait for more prompts than a step has",
    why=SETUP,
    fix="set async_rl.min_groups_for_streaming_train to grpo.num_prompts_per_step or less",
    source="nemo_rl/algorithms/single_controller_utils/config.py:685 at 7ea279ab",
    since=_FIRST,
)
def _streaming(run: Effective) -> Iterator[Finding]:
    if not is_controlled(run):
        return
    prompts, groups = run.integer(PROMPTS), run.integer(_STREAMED) if run.has(_STREAMED) else _GROUPS
    if prompts < groups:
        default = "" if run.has(_STREAMED) else ", its default,"
        what = f"min_groups_for_streaming_train is {groups}{default} and a step has {prompts} prompts"
        yield Finding(what, proposed={_STREAMED: prompts})


@TOPIC.rule(
    "controller-validation",
    "SC10",
    "grpo.val_period grpo.val_at_start grpo.val_at_end",
    title="the Single Controller does not validate",
    why=SETUP,
    fix="set grpo.val_period to 0, val_at_start and val_at_end to false; evaluate checkpoints with job.task evaluate",
    source="nemo_rl/algorithms/single_controller_utils/setup.py:535 at 7ea279ab",
    since=_FIRST,
)
def _validation(run: Effective) -> str | None:
    return "job.config has async_rl, and the run validates" if is_controlled(run) and validates(run) else None


@TOPIC.rule(
    "controller-metric",
    "SC11",
    f"{_METRIC} {CONTROLLER}",
    title="the Single Controller chooses checkpoints by a measure of the training",
    why=SETUP,
    fix="write a measure of the training, such as train:loss, or null",
    source="nemo_rl/algorithms/single_controller_utils/config.py:734 at 7ea279ab",
    since=_FIRST,
)
def _metric(run: Effective) -> str | None:
    name = run.at(_METRIC)
    if not is_controlled(run) or not run.on("checkpointing.enabled") or not isinstance(name, str):
        return None
    return None if name.startswith("train:") else f"metric_name is {quoted(name)}, expected train:NAME or null"


@TOPIC.rule(
    "controller-loaders",
    "SC12",
    f"{_LOADERS} {CONTROLLER}",
    title="the Single Controller reads one data loader",
    why=SETUP,
    fix="set data.use_multiple_dataloader to false",
    source="nemo_rl/algorithms/single_controller_utils/setup.py:552 at 7ea279ab",
    since=_FIRST,
)
def _loaders(run: Effective) -> Iterator[Finding]:
    if is_controlled(run) and run.on(_LOADERS):
        yield Finding("job.config has async_rl, and use_multiple_dataloader is on", proposed={_LOADERS: False})
