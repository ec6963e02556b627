"""The algorithm: loss, advantages, validation, reward shaping, asynchronous training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo.problems.checks import excludes, one_of, quoted, requires, within
from grpo.problems.data.values_nemo_rl_datasets import splits_off_validation
from grpo.problems.frameworks.nemo_rl import TOPIC
from grpo.values.frameworks.nemo_rl import COLOCATED, GENERATION, VLLM, data_sections, validates
from postrender.finding import WARNING, Finding
from postrender.problem import Fails, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

_CORRECTION = "loss_fn.use_importance_sampling_correction"
_SEQUENCE = "loss_fn.sequence_level_importance_ratios"
_TOKEN = "loss_fn.token_level_loss"  # noqa: S105 (no password)
_TRUNCATED = "loss_fn.truncated_importance_sampling"
_SHAPING = "grpo.reward_shaping"
_ASYNC = "grpo.async_grpo.enabled"
# From v0.8.0 on, these backends have no other engine than the asynchronous one.
_ALWAYS_ASYNC = ("dynamo", "megatron")


@TOPIC.problem(
    "data.validation data grpo.val_period",
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/grpo.py:408 at v0.7.0",
    since="v0.6.0",
    logs="Validation dataset is required if validation is enabled",
)
def no_validation_data(run: RunConfig) -> str | None:
    """the run validates, but has no validation data

    Fix: set data.validation, or split_validation_size if the data set reads it, or set grpo.val_period to 0
    """
    names = [path for path, _ in data_sections(run)]
    if not validates(run) or "data.validation" in names or "data.train" not in names:
        return None
    without = "the run validates, data.validation is not given, and no data set leaves a share of its rows for it"
    return None if splits_off_validation(run) else without


@TOPIC.problem(
    "data.val_data_path grpo.val_period",
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/grpo.py:278 at v0.5.0",
    before="v0.6.0",
    logs="Validation dataset is required if validation is enabled",
)
def no_validation_file(run: RunConfig) -> str | None:
    """the run validates, but data.val_data_path is not set

    Fix: set data.val_data_path, or set grpo.val_period to 0 and val_at_start to false
    """
    own = run.at("data.dataset_name") == "ResponseDataset" and not run.at("data.val_data_path")
    return "the run validates, and data.val_data_path is not given" if own and validates(run) else None


@TOPIC.problem(
    "grpo.val_batch_size grpo.max_val_samples", fails=Fails.SILENT, source="nemo_rl/algorithms/grpo.py:3166 at v0.7.0"
)
def validation_batch_too_large(run: RunConfig) -> Iterator[Finding]:
    """val_batch_size is above max_val_samples, so validation has no complete batch

    Why: no batch is evaluated, so accuracy is 0.0 for the entire run
    Fix: set grpo.val_batch_size to grpo.max_val_samples or less
    """
    if not validates(run):
        return
    batch, samples = run.integer("grpo.val_batch_size"), run.integer("grpo.max_val_samples")
    if batch > samples:
        yield Finding(
            f"val_batch_size {batch} is more than max_val_samples {samples}", proposed={"grpo.val_batch_size": samples}
        )


@TOPIC.problem(
    "grpo.skip_reference_policy_logprobs_calculation loss_fn.reference_policy_kl_penalty",
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/grpo.py:442 at v0.7.0",
    since="v0.6.0",
    logs="grpo.skip_reference_policy_logprobs_calculation=True requires loss_fn.reference_",
)
def reference_penalty_skipped(run: RunConfig) -> str | None:
    """the reference policy is skipped, but its KL penalty is not 0

    Fix: set loss_fn.reference_policy_kl_penalty to 0, or do not skip the reference policy
    """
    # The asynchronous training of v0.6.0 does not read the key.
    reads = run.since("v0.7.0") or not run.on(_ASYNC)
    skip = reads and run.on("grpo.skip_reference_policy_logprobs_calculation")
    penalty = run.number("loss_fn.reference_policy_kl_penalty") if skip else 0
    return f"the reference policy is skipped, and its KL penalty is {penalty}" if penalty else None


@TOPIC.problem(
    "grpo.invalid_tool_call_advantage grpo.malformed_thinking_advantage",
    fails=Fails.LATER,
    source="nemo_rl/algorithms/grpo.py:1510 at v0.7.0",
    since="v0.7.0",
    logs="grpo.invalid_tool_call_advantage / grpo.malformed_thinking_advantage require the",
)
def gym_penalties(run: RunConfig) -> Iterator[Finding]:
    """penalties for tool calls or thinking are set, but NeMo Gym is off

    Fix: set both to null, or env.should_use_nemo_gym to true
    """
    for path in ("grpo.invalid_tool_call_advantage", "grpo.malformed_thinking_advantage"):
        if run.at(path) is not None and not run.on("env.should_use_nemo_gym"):
            yield Finding(f"{path} is {quoted(run.at(path))} without NeMo Gym", keys=[path])


@TOPIC.problem(
    "grpo.adv_estimator.name",
    fails=Fails.LATER,
    source="nemo_rl/algorithms/grpo.py:1834 at v0.7.0",
    since="v0.6.0",
    logs="Invalid adv_estimator name",
)
def advantage_estimator(run: RunConfig) -> str | None:
    """this version of NeMo RL does not have the advantage estimator

    Fix: use grpo, the default, or another estimator that grpo lint lists
    """
    return one_of("grpo.adv_estimator.name", run.catalogue.names["advantageEstimators"])(run)


@TOPIC.problem(
    "loss_fn.ratio_clip_c",
    fails=Fails.AT_FIRST_STEP,
    source="nemo_rl/algorithms/loss/loss_functions.py:491 at v0.7.0",
    logs="ratio_clip_c must exceed 1 representing a lower bound of the ratios, got",
)
def dual_clip(run: RunConfig) -> str | None:
    """NeMo RL's dual clipping (ratio_clip_c) is not above 1

    Fix: set it to null, or to a number above 1 such as 3
    """
    return within("loss_fn.ratio_clip_c", above=1)(run)


@TOPIC.problem(
    f"{_TOKEN} {_SEQUENCE}",
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/loss/loss_functions.py:250 at v0.7.0",
    logs="sequence-level importance sampling (e.g",
)
def sequence_ratios_with_token_loss(run: RunConfig) -> Verdict:
    """sequence-level importance ratios and a token-level loss are both on

    Fix: set loss_fn.token_level_loss to false, or sequence_level_importance_ratios to false
    """
    return excludes(_SEQUENCE, _TOKEN)(run)


def _truncates(run: RunConfig) -> bool:
    """Return whether importance sampling is truncated: by its type from v0.7.0 on, by its ratio before."""
    return run.at(f"{_TRUNCATED}_type" if run.since("v0.7.0") else f"{_TRUNCATED}_ratio") is not None


@TOPIC.problem(
    f"{_CORRECTION} {_TRUNCATED}_type {_TRUNCATED}_ratio",
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/loss/loss_functions.py:277 at v0.7.0",
    logs="truncated importance sampling is only supported when use_importance_sampling_cor",
)
def truncation_without_correction(run: RunConfig) -> str | None:
    """importance sampling is truncated, but its correction is off

    Fix: set loss_fn.use_importance_sampling_correction to true
    """
    wrong = _truncates(run) and not run.on(_CORRECTION)
    return "importance sampling is truncated, and use_importance_sampling_correction is off" if wrong else None


@TOPIC.problem(
    f"{_TRUNCATED}_ratio {_TRUNCATED}_ratio_min {_TRUNCATED}_type",
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/loss/loss_functions.py:288 at v0.7.0",
    logs="truncated_importance_sampling_ratio should be positive",
)
def truncation_ratio(run: RunConfig) -> Iterator[Finding]:
    """the ratio, minimum or type of truncated importance sampling is missing or invalid

    Fix: set a positive ratio that is not below its minimum, and the type tis, icepop or seq-mask-tis
    """
    if not _truncates(run):
        return
    kind, ratio, least = (run.at(f"{_TRUNCATED}_{name}") for name in ("type", "ratio", "ratio_min"))
    if not isinstance(ratio, (int, float)) or ratio <= 0:
        yield Finding(f"truncated_importance_sampling_ratio is {quoted(ratio)}, expected more than 0")
        return
    if not run.since("v0.6.0"):
        return
    if kind not in ("tis", "icepop", "seq-mask-tis"):
        what = f"truncated_importance_sampling_type is {quoted(kind)}, expected tis, icepop or seq-mask-tis"
        yield Finding(what, keys=[f"{_TRUNCATED}_type"])
    if kind == "seq-mask-tis" and run.on(_SEQUENCE):
        what = "truncated_importance_sampling_type is seq-mask-tis, and sequence_level_importance_ratios is on"
        yield Finding(what, keys=[f"{_TRUNCATED}_type"])
    if not run.since("v0.7.0"):
        return
    keys = [f"{_TRUNCATED}_ratio_min", f"{_TRUNCATED}_type"]
    if kind in ("icepop", "seq-mask-tis") and not isinstance(least, (int, float)):
        yield Finding(f"truncated_importance_sampling_ratio_min is {quoted(least)}, and {kind} needs it", keys=keys)
    elif isinstance(least, (int, float)) and least > ratio:
        yield Finding(f"truncated_importance_sampling_ratio_min {least} is more than the ratio {ratio}", keys=keys)


@TOPIC.problem(
    "loss_fn.use_cispo",
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/loss/loss_functions.py:256 at v0.7.0",
    since="v0.7.0",
    logs="use_cispo is incompatible with disable_ppo_ratio",
)
def cispo(run: RunConfig) -> str | None:
    """CISPO is on without a token-level loss, or with another option that changes the ratio

    Fix: turn the other option off, or loss_fn.use_cispo
    """
    if not run.on("loss_fn.use_cispo"):
        return None
    others = [name for name in ("disable_ppo_ratio", "force_on_policy_ratio") if run.on(f"loss_fn.{name}")]
    others += ["sequence_level_importance_ratios"] if run.on(_SEQUENCE) else []
    others += ["ratio_clip_c"] if run.at("loss_fn.ratio_clip_c") is not None else []
    if others:
        return f"use_cispo is on together with {', '.join(others)}"
    return None if run.on(_TOKEN) else "use_cispo is on, and token_level_loss is off"


@TOPIC.problem(
    _SHAPING,
    fails=Fails.LATER,
    source="nemo_rl/algorithms/reward_functions.py:126 at v0.7.0",
    logs="Reward function is enabled but only DAPO reward shaping is currently supported",
)
def reward_shaping(run: RunConfig) -> str | None:
    """a setting of reward_shaping is missing or out of range

    Fix: set overlong_buffer_length, overlong_buffer_penalty (0 or more) and max_response_length
    """
    if not run.on(f"{_SHAPING}.enabled"):
        return None
    stop = run.at(f"{_SHAPING}.stop_properly_penalty_coef") if run.since("v0.6.0") else None
    if stop is not None:
        return within(f"{_SHAPING}.stop_properly_penalty_coef", least=0, most=1)(run)
    names = ("overlong_buffer_length", "overlong_buffer_penalty", "max_response_length")
    missing = [name for name in names if run.at(f"{_SHAPING}.{name}") is None]
    if missing:
        return f"reward_shaping is enabled without {', '.join(missing)}"
    return within(f"{_SHAPING}.overlong_buffer_penalty", least=0)(run)


@TOPIC.problem(
    f"{VLLM}.async_engine {_ASYNC}",
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/grpo.py:3364 at v0.7.0",
    logs="Async GRPO requires an async vLLM or Megatron generation engine",
)
def async_engine_for_async_training(run: RunConfig) -> Iterator[Finding]:
    """asynchronous training is on, but generation has no asynchronous engine

    Fix: set policy.generation.vllm_cfg.async_engine to true
    """
    backend = run.at(f"{GENERATION}.backend")
    if not run.on(_ASYNC) or not isinstance(backend, str):
        return
    engine = {"vllm": f"{VLLM}.async_engine"}
    if run.since("v0.8.0"):
        engine["trtllm"] = f"{GENERATION}.trtllm_cfg.async_engine"
    elif run.since("v0.7.0"):
        engine["megatron"] = f"{GENERATION}.mcore_generation_config.async_engine"
    if run.since("v0.8.0") and backend in _ALWAYS_ASYNC:
        return
    if backend not in engine:
        yield Finding(
            f"async_grpo is enabled, which {backend} does not support", keys=[f"{GENERATION}.backend", _ASYNC]
        )
    elif not run.on(engine[backend]):
        what = f"async_grpo is enabled, and {engine[backend].removeprefix(GENERATION + '.')} is off"
        yield Finding(what, keys=[engine[backend], _ASYNC], proposed={engine[backend]: True})


@TOPIC.problem(
    f"{_CORRECTION} {_ASYNC}",
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/grpo.py:3371 at v0.7.0",
    logs="Importance sampling correction must be enabled for async GRPO for good convergen",
)
def async_correction(run: RunConfig) -> Iterator[Finding]:
    """asynchronous training is on, but importance sampling correction is off

    Fix: set loss_fn.use_importance_sampling_correction to true
    """
    what = requires(_ASYNC, _CORRECTION)(run)
    if what:
        yield Finding(what, proposed={_CORRECTION: True})


@TOPIC.problem(
    f"{COLOCATED} {_ASYNC}",
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/grpo.py:3421 at v0.7.0",
    logs="Colocated inference is not supported for async GRPO",
)
def async_colocated(run: RunConfig) -> str | None:
    """asynchronous training is on, but generation is colocated

    Fix: set policy.generation.colocated.enabled to false, and give generation its own resources
    """
    if run.since("v0.8.0") and run.at(f"{GENERATION}.backend") == "megatron":
        return None
    return excludes(_ASYNC, COLOCATED)(run)


@TOPIC.problem(
    f"grpo.use_dynamic_sampling {_ASYNC}",
    fails=Fails.AT_SETUP,
    source="examples/run_grpo.py:173 at v0.7.0",
    logs="is not supported with async GRPO",
)
def async_with_shaping(run: RunConfig) -> Iterator[Finding]:
    """asynchronous training is on with an option that it does not support, such as dynamic sampling

    Fix: turn the option off, or grpo.async_grpo
    """
    options = ["grpo.use_dynamic_sampling", "grpo.reward_scaling.enabled", f"{_SHAPING}.enabled"]
    options += ["data.use_multiple_dataloader"] if run.since("v0.6.0") else []
    for path in options if run.on(_ASYNC) else ():
        if run.on(path):
            yield Finding(f"async_grpo and {path} are both on", keys=[path])


@TOPIC.problem(
    "grpo.async_grpo.in_flight_weight_updates grpo.async_grpo.max_trajectory_age_steps",
    fails=Fails.SILENT,
    source="nemo_rl/algorithms/grpo.py:3382 at v0.7.0",
    severity=WARNING,
)
def trajectory_age(run: RunConfig) -> str | None:
    """trajectories may be more than one step old, but in-flight weight updates are off

    Why: the run uses older samples but is not faster, and only a log line says so
    Fix: set grpo.async_grpo.in_flight_weight_updates to true, or max_trajectory_age_steps to 1
    """
    if not run.on(_ASYNC) or run.on("grpo.async_grpo.in_flight_weight_updates"):
        return None
    age = run.integer("grpo.async_grpo.max_trajectory_age_steps")
    return f"max_trajectory_age_steps is {age}, and in_flight_weight_updates is off" if age > 1 else None
