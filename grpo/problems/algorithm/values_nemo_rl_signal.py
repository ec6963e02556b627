"""Settings that leave no signal to learn from, or that have no effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.checks import quoted, within
from grpo.problems.frameworks.nemo_rl import TOPIC
from grpo.values.frameworks.nemo_rl import GENERATION, GENERATIONS, is_vllm
from postrender.finding import WARNING, Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

_TEMPERATURE: Final = f"{GENERATION}.temperature"
_TOP_K: Final = f"{GENERATION}.top_k"
_ESTIMATOR: Final = "grpo.adv_estimator"
_CLIPS: Final = ("loss_fn.ratio_clip_min", "loss_fn.ratio_clip_max")
# No shipped configuration clips further away from 1, but for CISPO.
_FAR: Final = 0.5
# No shipped configuration clips the ratios of tokens so near to 1.
_NARROW: Final = 0.01
_SEQUENCE: Final = "loss_fn.sequence_level_importance_ratios"
_METRIC: Final = "checkpointing.metric_name"
_HIGHER: Final = "checkpointing.higher_is_better"
_KL_PENALTY: Final = "loss_fn.reference_policy_kl_penalty"
_KL_TYPE: Final = "loss_fn.reference_policy_kl_type"
_TRUNCATED: Final = "loss_fn.truncated_importance_sampling"


@TOPIC.problem(f"{_TEMPERATURE} {_TOP_K}", fails=Fails.SILENT, source="nemo_rl/models/automodel/train.py:187 at v0.7.0")
def greedy_generation(run: RunConfig) -> Iterator[Finding]:
    """generation is greedy: its temperature is not above 0, or top_k is 1

    Why: all answers to a prompt are equal, so every advantage is 0; training divides its logits by a temperature of 0
    Fix: set the temperature to 1.0; validating accuracy does not require greedy generation
    """
    what = within(_TEMPERATURE, above=0)(run)
    if what:
        yield Finding(what, keys=[_TEMPERATURE])
    elif is_vllm(run) and run.at(_TOP_K) == 1:
        yield Finding(f"{_TOP_K} is 1: the likeliest token is always chosen", keys=[_TOP_K])


def _has_baseline(run: RunConfig) -> bool:
    """Return whether an answer's advantage is its distance from the other answers to the same prompt."""
    name = run.at(f"{_ESTIMATOR}.name", "grpo") if run.since("v0.6.0") else "grpo"
    return name in ("grpo", "gdpo") or (name == "reinforce_plus_plus" and run.on(f"{_ESTIMATOR}.minus_baseline"))


@TOPIC.problem(
    f"{GENERATIONS} {_ESTIMATOR}.name", fails=Fails.SILENT, source="nemo_rl/algorithms/utils.py:155 at v0.7.0"
)
def one_generation(run: RunConfig) -> str | None:
    """each prompt gets one answer, but the advantage compares several

    Why: a single answer is its own baseline, so every advantage is 0 and the reward has no effect
    Fix: set it to 8 or more, or use reinforce_plus_plus with minus_baseline: false
    """
    return f"{GENERATIONS} is 1" if run.integer(GENERATIONS) == 1 and _has_baseline(run) else None


@TOPIC.problem(
    " ".join(_CLIPS),
    fails=Fails.SILENT,
    source="nemo_rl/algorithms/loss/loss_functions.py:478 at v0.7.0",
    severity=WARNING,
)
def clip_as_bound(run: RunConfig) -> Iterator[Finding]:
    """a clip of the ratio is given as a bound instead of a distance from 1

    Why: the policy moves without the limit that you intended
    Fix: set the distances instead: 0.2 and 0.2 keep the ratio between 0.8 and 1.2
    """
    if any(run.on(f"loss_fn.{name}") for name in ("use_cispo", "disable_ppo_ratio", "force_on_policy_ratio")):
        return
    low, high = (run.number(path) for path in _CLIPS)
    for path, clip in zip(_CLIPS, (low, high), strict=True):
        if clip >= _FAR:
            what = f"{path} is {clip:g}: the ratio may move from {round(1 - low, 6):g} to {round(1 + high, 6):g}"
            yield Finding(what, keys=[path])


@TOPIC.problem(
    f"{' '.join(_CLIPS)} {_SEQUENCE}",
    fails=Fails.SILENT,
    source="examples/nemo_gym/grpo_qwen3_30ba3b_instruct.yaml:18 at 7ea279ab",
    severity=WARNING,
)
def clips_of_another_ratio(run: RunConfig) -> Iterator[Finding]:
    """clip ratios as small as 3e-4 are set, but the loss uses token-level ratios

    Why: a token's ratio leaves such a narrow range at once, and then the token contributes no gradient
    Fix: set them to 0.2, or set sequence_level_importance_ratios to true and token_level_loss to false
    """
    # The opposite, GSPO with 0.2, is what NeMo RL's own recipe of it has (grpo-gspo-deepscaler-1.5b-8K.yaml).
    others = ("use_cispo", "disable_ppo_ratio", "force_on_policy_ratio", "sequence_level_importance_ratios")
    low, high = (run.number(path) for path in _CLIPS)
    if 0 < max(low, high) < _NARROW and not any(run.on(f"loss_fn.{name}") for name in others):
        yield Finding(f"the ratio of a token may move only from {1 - low:g} to {1 + high:g}", keys=list(_CLIPS))


# Metrics of which more is better, by words in their names.
_MORE: Final = ("accuracy", "reward", "pass@")


@TOPIC.problem(f"{_HIGHER} {_METRIC}", fails=Fails.SILENT, source="nemo_rl/utils/checkpoint.py:294 at v0.7.0")
def worst_checkpoints(run: RunConfig) -> Iterator[Finding]:
    """checkpoints are ranked by accuracy or reward, but the lowest ones are kept

    Why: NeMo RL keeps the worst checkpoints and deletes the best ones
    Fix: set checkpointing.higher_is_better to true
    """
    metric = run.at(_METRIC)
    saves = run.on("checkpointing.enabled") and run.at(_HIGHER) is False
    if saves and isinstance(metric, str) and any(word in metric for word in _MORE):
        yield Finding(f"higher_is_better is false, and the metric is {metric}", proposed={_HIGHER: True})


@TOPIC.problem(
    f"loss_fn.use_kl_in_reward {_ESTIMATOR}.name",
    fails=Fails.SILENT,
    source="nemo_rl/algorithms/loss/loss_functions.py:225 at v0.7.0",
    severity=WARNING,
    since="v0.6.0",
)
def kl_in_reward(run: RunConfig) -> Iterator[Finding]:
    """use_kl_in_reward is on, but the advantage estimator does not read it

    Why: only reinforce_plus_plus reads it, and from v0.7.0 on the loss omits the penalty, so there is no KL penalty
    Fix: set loss_fn.use_kl_in_reward to false, or grpo.adv_estimator.name to reinforce_plus_plus
    """
    name = run.at(f"{_ESTIMATOR}.name", "grpo")
    penalty = run.number(_KL_PENALTY)
    if run.on("loss_fn.use_kl_in_reward") and name in ("grpo", "gdpo") and penalty != 0:
        left = "the loss leaves its penalty out too: this run has no KL" if run.since("v0.7.0") else "it has no effect"
        why = f"only reinforce_plus_plus reads it, and {left}"
        yield Finding(f"use_kl_in_reward is on, and the advantage estimator is {name}", why=why)


@TOPIC.problem(
    _KL_PENALTY, fails=Fails.SILENT, source="nemo_rl/algorithms/loss/loss_functions.py:432 at v0.7.0", severity=WARNING
)
def kl_coefficient_large(run: RunConfig) -> str | None:
    """the coefficient of NeMo RL's KL penalty is above 1

    Why: the KL term outweighs the reward, so the policy stays close to the reference and learns little
    Fix: set it to 0.01, the default, or up to 0.1
    """
    penalty = run.number(_KL_PENALTY)
    return f"{_KL_PENALTY} is {penalty:g}" if penalty > 1 else None


@TOPIC.problem(
    f"{_KL_TYPE} {_KL_PENALTY}",
    fails=Fails.SILENT,
    source="nemo_rl/algorithms/loss/loss_functions.py:352 at v0.6.0",
    severity=WARNING,
    since="v0.5.0",
    before="v0.7.0",
)
def kl_without_gradient(run: RunConfig) -> str | None:
    """the KL penalty of the loss is k1, whose gradient is 0 on average before v0.7.0

    Why: the gradient of k1, log p - log p_ref, is 0 on average, so the penalty adds only noise
    Fix: use k3, the default, or k2; from v0.7.0 on k1 works too
    """
    penalty = run.number(_KL_PENALTY) if run.at(_KL_TYPE) == "k1" else 0
    # In the reward k1 is right.
    in_reward = run.since("v0.6.0") and run.on("loss_fn.use_kl_in_reward")
    return None if penalty <= 0 or in_reward else f"reference_policy_kl_type is k1, and the KL penalty is {penalty:g}"


@TOPIC.problem(
    f"{_KL_PENALTY} grpo.skip_reference_policy_logprobs_calculation",
    fails=Fails.COSTS,
    source="nemo_rl/algorithms/grpo.py:1752 at v0.6.0",
    severity=WARNING,
    since="v0.6.0",
    before="v0.7.0",
)
def reference_for_nothing(run: RunConfig) -> Iterator[Finding]:
    """the KL penalty is 0, but the reference policy is not skipped

    Why: each step computes a second model's log probabilities, which nothing reads; v0.7.0 skips them itself
    Fix: set grpo.skip_reference_policy_logprobs_calculation to true
    """
    skip = "grpo.skip_reference_policy_logprobs_calculation"
    # Asynchronous training does not read the switch.
    could = not run.on(skip) and not run.on("grpo.async_grpo.enabled")
    if could and run.number(_KL_PENALTY) == 0:
        yield Finding("the KL penalty is 0, and the reference policy is not skipped", proposed={skip: True})


@TOPIC.problem(
    f"{_TRUNCATED}_ratio {_TRUNCATED}_type",
    fails=Fails.AT_FIRST_STEP,
    source="nemo_rl/algorithms/loss/loss_functions.py:604 at v0.7.0",
    since="v0.7.0",
    logs="Invalid truncated importance sampling type",
)
def truncation_without_type(run: RunConfig) -> str | None:
    """a ratio truncates importance sampling, but the truncation type is null

    Fix: set loss_fn.truncated_importance_sampling_type to tis, or the ratio to null
    """
    ratio = run.at(f"{_TRUNCATED}_ratio")
    wrong = ratio is not None and run.at(f"{_TRUNCATED}_type") is None
    return f"truncated_importance_sampling_ratio is {quoted(ratio)}, and its type is null" if wrong else None


@TOPIC.problem("", fails=Fails.SILENT, source="nemo_rl/algorithms/grpo.py:1401 at v0.7.0", severity=WARNING)
def section_off(run: RunConfig) -> Iterator[Finding]:
    """a section has settings, but is off

    Why: NeMo RL does not read the settings of a section that is off
    Fix: add enabled: true, or remove the settings; enabled: false in your files marks them as intended
    """
    for switch in sorted(run.catalogue.keys):
        section, _, name = switch.rpartition(".")
        if name != "enabled" or not run.given_has(section) or run.given_has(switch) or run.at(switch) is not False:
            continue
        given = run.given
        for part in section.split("."):
            given = given[part]
        if isinstance(given, dict) and given:
            names = ", ".join(sorted(given))
            yield Finding(f"{section} has {names}, and its enabled is false", keys=[f"{section}.{sorted(given)[0]}"])
