"""What NeMo RL's Single Controller requires: a second kind of asynchronous training, from v0.8.0 on.

The chart starts it if job.config has a section async_rl.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.checks import quoted
from grpo.problems.frameworks.nemo_rl import TOPIC
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
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

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


def _sampler(run: RunConfig) -> str:
    return str(run.at(_SAMPLER, "in_order"))


def _window(run: RunConfig) -> tuple[str, int]:
    """Return how many versions the answers may lag behind the trainer, with the key that sets this limit."""
    key = _AHEAD if _sampler(run) == "in_order" else _STALE
    return key, run.integer(key) if run.has(key) else 1


@TOPIC.problem(
    f"{_ASYNC} {CONTROLLER}",
    fails=Fails.AT_SETUP,
    source="examples/run_grpo_single_controller.py:97 at 7ea279ab",
    since=_FIRST,
)
def controller_with_async(run: RunConfig) -> str | None:
    """the Single Controller is on, but grpo.async_grpo is not null

    Fix: set grpo.async_grpo to null: the base file has this section, but async_rl replaces it
    """
    has_both = is_controlled(run) and run.at(_ASYNC) is not None
    return "job.config has async_rl, and grpo.async_grpo is not null" if has_both else None


@TOPIC.problem(
    f"{_PLANE} {CONTROLLER}",
    fails=Fails.AT_SETUP,
    source="examples/run_grpo_single_controller.py:104 at 7ea279ab",
    since=_FIRST,
)
def controller_without_data_plane(run: RunConfig) -> Iterator[Finding]:
    """the Single Controller is on, but the data plane is off

    Fix: set data_plane.enabled to true
    """
    if is_controlled(run) and not run.on(_PLANE):
        yield Finding("job.config has async_rl, and data_plane.enabled is off", proposed={_PLANE: True})


@TOPIC.problem(
    f"{GLOBAL_BATCH} {PROMPTS} {GENERATIONS}",
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/single_controller_utils/config.py:696 at 7ea279ab",
    since=_FIRST,
)
def controller_batch(run: RunConfig) -> Iterator[Finding]:
    """the Single Controller is on, but the global batch size is not prompts × generations

    Fix: set policy.train_global_batch_size to prompts × generations
    """
    if is_controlled(run) and rows(run) != run.integer(GLOBAL_BATCH):
        made = f"{run.integer(PROMPTS)} prompts × {run.integer(GENERATIONS)} generations = {rows(run)} answers per step"
        what = f"{made}, and train_global_batch_size is {run.integer(GLOBAL_BATCH)}"
        yield Finding(what, proposed={GLOBAL_BATCH: rows(run)})


@TOPIC.problem(
    f"{_ENGINE} {GENERATION}.backend",
    fails=Fails.AT_FIRST_STEP,
    source="docs/guides/single-controller.md at 7ea279ab",
    since=_FIRST,
)
def controller_engine(run: RunConfig) -> Iterator[Finding]:
    """the Single Controller is on, but vLLM's asynchronous engine does not generate

    Fix: set policy.generation.backend to vllm, and vllm_cfg.async_engine to true
    """
    if not is_controlled(run):
        return
    if is_vllm(run) and not run.on(_ENGINE):
        yield Finding("job.config has async_rl, and vllm_cfg.async_engine is off", proposed={_ENGINE: True})
    elif not is_vllm(run):
        backend, key = run.at(f"{GENERATION}.backend"), f"{GENERATION}.backend"
        yield Finding(
            f"the backend is {quoted(backend)}, and NeMo RL supports the Single Controller with vLLM", keys=[key]
        )


@TOPIC.problem(
    f"{MEGATRON}.enabled {CONTROLLER}",
    fails=Fails.SILENT,
    source="docs/guides/single-controller.md at 7ea279ab",
    severity=WARNING,
    since=_FIRST,
)
def controller_trainer(run: RunConfig) -> str | None:
    """the Single Controller is on, but DTensor trains

    Why: NeMo RL's guide says that the Single Controller was not tested with DTensor, but setup accepts it
    Fix: set policy.megatron_cfg.enabled to true, and policy.dtensor_cfg.enabled to false
    """
    untried = is_controlled(run) and not is_megatron(run)
    return "job.config has async_rl, and DTensor trains" if untried else None


@TOPIC.problem(
    f"{COLOCATED} {CONTROLLER}",
    fails=Fails.SILENT,
    source="docs/guides/single-controller.md at 7ea279ab",
    severity=WARNING,
    since=_FIRST,
)
def controller_colocated(run: RunConfig) -> str | None:
    """the Single Controller is on, but generation is colocated

    Why: NeMo RL's guide requires separate GPUs, because generation and training overlap; setup does not check it
    Fix: set policy.generation.colocated.enabled to false, and give generation its own resources
    """
    both = is_controlled(run) and run.on(COLOCATED)
    return "job.config has async_rl, and generation is colocated" if both else None


@TOPIC.problem(
    f"{_CORRECTION} {_AHEAD} {_STALE} {_SAMPLER}",
    fails=Fails.AT_SETUP,
    source="docs/guides/single-controller.md at 7ea279ab",
    since=_FIRST,
)
def controller_correction(run: RunConfig) -> Iterator[Finding]:
    """answers may come from an older policy, but importance sampling correction is off

    Why: the gradient is silently that of a different policy; with the sampler ready_first, setup rejects it
    Fix: set loss_fn.use_importance_sampling_correction to true
    """
    if not is_controlled(run) or run.on(_CORRECTION):
        return
    key, versions = _window(run)
    if versions > 0 or _sampler(run) == "ready_first":
        what = f"{key} is {versions}, and use_importance_sampling_correction is off"
        yield Finding(what, proposed={_CORRECTION: True})


@TOPIC.problem(
    f"{_RATIO} {_SAMPLER}",
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/single_controller_utils/config.py:720 at 7ea279ab",
    since=_FIRST,
)
def controller_ready_first(run: RunConfig) -> str | None:
    """the sampler is ready_first, but force_on_policy_ratio is on

    Fix: set loss_fn.force_on_policy_ratio to false, or choose another sampler
    """
    both = is_controlled(run) and _sampler(run) == "ready_first" and run.on(_RATIO)
    return "the sampler is ready_first, and loss_fn.force_on_policy_ratio is on" if both else None


@TOPIC.problem(
    f"{_BUFFER} {PROMPTS} {_AHEAD} {_STALE}",
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/single_controller_utils/config.py:549 at 7ea279ab",
    since=_FIRST,
)
def controller_buffer(run: RunConfig) -> Iterator[Finding]:
    """max_buffered_rollouts is too small for the answers of all steps that may be pending

    Fix: raise async_rl.max_buffered_rollouts, or generate fewer steps ahead
    """
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


@TOPIC.problem(
    f"{_STREAMED} {PROMPTS}",
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/single_controller_utils/config.py:685 at 7ea279ab",
    since=_FIRST,
)
def controller_streaming(run: RunConfig) -> Iterator[Finding]:
    """training waits for more prompts than a step has

    Fix: set async_rl.min_groups_for_streaming_train to grpo.num_prompts_per_step or less
    """
    if not is_controlled(run):
        return
    prompts, groups = run.integer(PROMPTS), run.integer(_STREAMED) if run.has(_STREAMED) else _GROUPS
    if prompts < groups:
        default = "" if run.has(_STREAMED) else ", its default,"
        what = f"min_groups_for_streaming_train is {groups}{default} and a step has {prompts} prompts"
        yield Finding(what, proposed={_STREAMED: prompts})


@TOPIC.problem(
    "grpo.val_period grpo.val_at_start grpo.val_at_end",
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/single_controller_utils/setup.py:535 at 7ea279ab",
    since=_FIRST,
)
def controller_validation(run: RunConfig) -> str | None:
    """the Single Controller is on, but the run validates

    Fix: set grpo.val_period to 0, val_at_start and val_at_end to false; evaluate checkpoints with job.task evaluate
    """
    return "job.config has async_rl, and the run validates" if is_controlled(run) and validates(run) else None


@TOPIC.problem(
    f"{_METRIC} {CONTROLLER}",
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/single_controller_utils/config.py:734 at 7ea279ab",
    since=_FIRST,
)
def controller_metric(run: RunConfig) -> str | None:
    """the Single Controller is on, but the checkpoint metric is not a training metric

    Fix: use a training metric, such as train:loss, or null
    """
    name = run.at(_METRIC)
    if not is_controlled(run) or not run.on("checkpointing.enabled") or not isinstance(name, str):
        return None
    return None if name.startswith("train:") else f"metric_name is {quoted(name)}, expected train:NAME or null"


@TOPIC.problem(
    f"{_LOADERS} {CONTROLLER}",
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/single_controller_utils/setup.py:552 at 7ea279ab",
    since=_FIRST,
)
def controller_loaders(run: RunConfig) -> Iterator[Finding]:
    """the Single Controller is on, but the run has several data loaders

    Fix: set data.use_multiple_dataloader to false
    """
    if is_controlled(run) and run.on(_LOADERS):
        yield Finding("job.config has async_rl, and use_multiple_dataloader is on", proposed={_LOADERS: False})
