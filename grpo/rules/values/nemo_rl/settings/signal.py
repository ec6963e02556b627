"""Settings that leave no signal to learn from, or that have no effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.rules.values.checks import quoted, within
from grpo.rules.values.nemo_rl.run import STEP, TOPIC
from grpo.values.frameworks.nemo_rl import GENERATION, GENERATIONS, is_vllm
from postrender.finding import WARNING, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import Effective

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


@TOPIC.rule(
    "greedy-generation",
    "S43",
    f"{_TEMPERATURE} {_TOP_K}",
    title="generation samples: its temperature is above 0, and top_k is not 1",
    why="all answers of a prompt are equal, so every advantage is 0; training divides its logits by a temperature of 0",
    fix="write temperature 1.0; validation of accuracy needs no greedy generation",
    source="nemo_rl/models/automodel/train.py:187 at v0.7.0",
)
def _greedy(run: Effective) -> Iterator[Finding]:
    what = within(_TEMPERATURE, above=0)(run)
    if what:
        yield Finding(what, keys=[_TEMPERATURE])
    elif is_vllm(run) and run.at(_TOP_K) == 1:
        yield Finding(f"{_TOP_K} is 1: the likeliest token is always chosen", keys=[_TOP_K])


def _has_baseline(run: Effective) -> bool:
    """Say whether the advantage of an answer is its distance from the other answers of its prompt."""
    name = run.at(f"{_ESTIMATOR}.name", "grpo") if run.since("v0.6.0") else "grpo"
    return name in ("grpo", "gdpo") or (name == "reinforce_plus_plus" and run.on(f"{_ESTIMATOR}.minus_baseline"))


@TOPIC.rule(
    "one-generation",
    "S44",
    f"{GENERATIONS} {_ESTIMATOR}.name",
    title="each prompt has several answers to compare",
    why="silent: a single answer is its own baseline, so every advantage is 0 and the reward has no effect",
    fix="write 8 or more, or use reinforce_plus_plus with minus_baseline: false",
    source="nemo_rl/algorithms/utils.py:155 at v0.7.0",
)
def _single(run: Effective) -> str | None:
    return f"{GENERATIONS} is 1" if run.integer(GENERATIONS) == 1 and _has_baseline(run) else None


@TOPIC.rule(
    "clip-as-bound",
    "S45",
    " ".join(_CLIPS),
    title="the clips of the ratio are distances from 1, not bounds",
    why="silent: the policy moves without the limit that you meant",
    fix="write the distances: 0.2 and 0.2 keep the ratio between 0.8 and 1.2",
    source="nemo_rl/algorithms/loss/loss_functions.py:478 at v0.7.0",
    severity=WARNING,
)
def _bounds(run: Effective) -> Iterator[Finding]:
    if any(run.on(f"loss_fn.{name}") for name in ("use_cispo", "disable_ppo_ratio", "force_on_policy_ratio")):
        return
    low, high = (run.number(path) for path in _CLIPS)
    for path, clip in zip(_CLIPS, (low, high), strict=True):
        if clip >= _FAR:
            what = f"{path} is {clip:g}: the ratio may move from {round(1 - low, 6):g} to {round(1 + high, 6):g}"
            yield Finding(what, keys=[path])


@TOPIC.rule(
    "clips-of-another-ratio",
    "S74",
    f"{' '.join(_CLIPS)} {_SEQUENCE}",
    title="clips as small as 3e-4 are for the ratio of a whole answer",
    why="silent: the ratio of a token leaves so narrow a range at once, and then the token teaches nothing",
    fix="write 0.2, or set sequence_level_importance_ratios to true and token_level_loss to false",
    source="examples/nemo_gym/grpo_qwen3_30ba3b_instruct.yaml:18 at 7ea279ab",
    severity=WARNING,
)
def _narrow(run: Effective) -> Iterator[Finding]:
    # The opposite, GSPO with 0.2, is what NeMo RL's own recipe of it has (grpo-gspo-deepscaler-1.5b-8K.yaml).
    others = ("use_cispo", "disable_ppo_ratio", "force_on_policy_ratio", "sequence_level_importance_ratios")
    low, high = (run.number(path) for path in _CLIPS)
    if 0 < max(low, high) < _NARROW and not any(run.on(f"loss_fn.{name}") for name in others):
        yield Finding(f"the ratio of a token may move only from {1 - low:g} to {1 + high:g}", keys=list(_CLIPS))


# Metrics of which more is better, by words in their names.
_MORE: Final = ("accuracy", "reward", "pass@")


@TOPIC.rule(
    "worst-checkpoints",
    "S46",
    f"{_HIGHER} {_METRIC}",
    title="checkpoints that are ranked by accuracy or reward keep the highest",
    why="silent: NeMo RL keeps the worst checkpoints and deletes the best ones",
    fix="set checkpointing.higher_is_better to true",
    source="nemo_rl/utils/checkpoint.py:294 at v0.7.0",
)
def _ranking(run: Effective) -> Iterator[Finding]:
    metric = run.at(_METRIC)
    saves = run.on("checkpointing.enabled") and run.at(_HIGHER) is False
    if saves and isinstance(metric, str) and any(word in metric for word in _MORE):
        yield Finding(f"higher_is_better is false, and the metric is {metric}", proposed={_HIGHER: True})


@TOPIC.rule(
    "kl-in-reward",
    "S47",
    f"loss_fn.use_kl_in_reward {_ESTIMATOR}.name",
    title="only reinforce_plus_plus takes the KL penalty into the reward",
    why="silent: no other estimator reads it, and from v0.7.0 on the loss leaves the penalty out: there is none",
    fix="set loss_fn.use_kl_in_reward to false, or grpo.adv_estimator.name to reinforce_plus_plus",
    source="nemo_rl/algorithms/loss/loss_functions.py:225 at v0.7.0",
    severity=WARNING,
    since="v0.6.0",
)
def _kl_in_reward(run: Effective) -> Iterator[Finding]:
    name = run.at(f"{_ESTIMATOR}.name", "grpo")
    penalty = run.number(_KL_PENALTY)
    if run.on("loss_fn.use_kl_in_reward") and name in ("grpo", "gdpo") and penalty != 0:
        left = "the loss leaves its penalty out too: this run has no KL" if run.since("v0.7.0") else "it has no effect"
        why = f"silent: only reinforce_plus_plus reads it, and {left}"
        yield Finding(f"use_kl_in_reward is on, and the advantage estimator is {name}", why=why)


@TOPIC.rule(
    "kl-coefficient-large",
    "S72",
    _KL_PENALTY,
    title="the coefficient of the KL penalty is 1 or less",
    why="silent: the KL term outweighs the reward, so the policy stays where the reference is and learns little",
    fix="write 0.01, the default, or up to 0.1",
    source="nemo_rl/algorithms/loss/loss_functions.py:432 at v0.7.0",
    severity=WARNING,
)
def _large(run: Effective) -> str | None:
    penalty = run.number(_KL_PENALTY)
    return f"{_KL_PENALTY} is {penalty:g}" if penalty > 1 else None


@TOPIC.rule(
    "kl-without-gradient",
    "S68",
    f"{_KL_TYPE} {_KL_PENALTY}",
    title="before v0.7.0 the KL penalty of the loss is not k1",
    why="silent: the gradient of k1, log p - log p_ref, is 0 on average, so the penalty adds only noise",
    fix="write k3, the default, or k2; from v0.7.0 on k1 works too",
    source="nemo_rl/algorithms/loss/loss_functions.py:352 at v0.6.0",
    severity=WARNING,
    since="v0.5.0",
    before="v0.7.0",
)
def _first_kl(run: Effective) -> str | None:
    penalty = run.number(_KL_PENALTY) if run.at(_KL_TYPE) == "k1" else 0
    # In the reward k1 is right.
    in_reward = run.since("v0.6.0") and run.on("loss_fn.use_kl_in_reward")
    return None if penalty <= 0 or in_reward else f"reference_policy_kl_type is k1, and the KL penalty is {penalty:g}"


@TOPIC.rule(
    "reference-for-nothing",
    "S58",
    f"{_KL_PENALTY} grpo.skip_reference_policy_logprobs_calculation",
    title="without a KL penalty the reference policy is skipped",
    why="silent: each step computes log probabilities of a second model that nothing reads; v0.7.0 skips them itself",
    fix="set grpo.skip_reference_policy_logprobs_calculation to true",
    source="nemo_rl/algorithms/grpo.py:1752 at v0.6.0",
    severity=WARNING,
    since="v0.6.0",
    before="v0.7.0",
)
def _reference(run: Effective) -> Iterator[Finding]:
    skip = "grpo.skip_reference_policy_logprobs_calculation"
    # Asynchronous training does not read the switch.
    could = not run.on(skip) and not run.on("grpo.async_grpo.enabled")
    if could and run.number(_KL_PENALTY) == 0:
        yield Finding("the KL penalty is 0, and the reference policy is not skipped", proposed={skip: True})


@TOPIC.rule(
    "truncation-without-type",
    "S48",
    f"{_TRUNCATED}_ratio {_TRUNCATED}_type",
    title="a ratio that truncates importance sampling has a type",
    why=STEP,
    fix="set loss_fn.truncated_importance_sampling_type to tis, or the ratio to null",
    source="nemo_rl/algorithms/loss/loss_functions.py:604 at v0.7.0",
    since="v0.7.0",
)
def _untyped(run: Effective) -> str | None:
    ratio = run.at(f"{_TRUNCATED}_ratio")
    wrong = ratio is not None and run.at(f"{_TRUNCATED}_type") is None
    return f"truncated_importance_sampling_ratio is {quoted(ratio)}, and its type is null" if wrong else None


@TOPIC.rule(
    "section-off",
    "S49",
    "",
    title="a section with settings is on",
    why="silent: NeMo RL does not read the settings of a section that is off",
    fix="add enabled: true, or remove the settings; enabled: false in your files says that you mean it",
    source="nemo_rl/algorithms/grpo.py:1401 at v0.7.0",
    severity=WARNING,
)
def _off(run: Effective) -> Iterator[Finding]:
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
