"""What a step learns from: clipping, KL, rollout correction; settings that train nothing, or not what they claim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.checks import one_of, quoted, within
from grpo.problems.data.values_verl_prepared import reward_fields
from grpo.problems.frameworks.verl import TOPIC, failing
from grpo.values.frameworks.verl import ACTOR, KL_COEFFICIENTS, ROLLOUT, has_new_trainer, is_on_policy
from postrender.finding import WARNING, Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

_LOSS: Final = f"{ACTOR}.policy_loss.loss_mode"
_CORRECTION: Final = "algorithm.rollout_correction"
_LOG_PROBS: Final = f"{ROLLOUT}.calculate_log_probs"
_CLIPS: Final = (f"{ACTOR}.clip_ratio_low", f"{ACTOR}.clip_ratio_high")
# A group is compared with itself, so that equal answers teach nothing.
_BY_GROUP: Final = ("grpo", "grpo_vectorized", "grpo_passk", "rloo", "rloo_vectorized", "opo", "gdpo")
_REJECTIONS: Final = (
    *(f"{level}_{kind}" for level in ("token", "seq_sum", "seq_mean") for kind in ("k1", "k2", "k3")),
    *("seq_max_k2", "seq_max_k3"),
)
_OLD_REJECTIONS: Final = ("token", "sequence", "geometric")
# From here on a bound of the ratio is meant as a factor: 0.8 and 1.2 for 0.2.
_FACTOR: Final = 0.8
# The default of PPO's bounds; below the other one they are meant for the ratio of a whole answer.
_OF_TOKENS, _OF_ANSWERS = 0.2, 0.01
_FITS: Final = "too wide a range clips nothing, and with too narrow a one most tokens teach nothing"


@TOPIC.problem(
    f"{ROLLOUT}.temperature {ROLLOUT}.top_k",
    fails=Fails.SILENT,
    source="workers/actor/dp_actor.py:259 at 0.7.1",
    severity=WARNING,
)
def temperature_zero(run: RunConfig) -> Iterator[Finding]:
    """all answers to a prompt are the same: the temperature is 0, or top_k is 1

    Why: equal answers have no advantage over each other; older workers divide by the temperature 0: the loss is NaN
    Fix: set rollout.temperature to 1.0 and top_k to -1; those of val_kwargs are for validation
    """
    # 1 leaves only the likeliest token.
    for key, greedy in {"temperature": 0, "top_k": 1}.items() if run.at("algorithm.adv_estimator") in _BY_GROUP else ():
        if run.number(f"{ROLLOUT}.{key}") == greedy:
            what = f"rollout.{key} is {greedy}: all answers to a prompt are the same"
            yield Finding(what, keys=[f"{ROLLOUT}.{key}"])
            return


@TOPIC.problem(" ".join(_CLIPS), fails=Fails.SILENT, source="trainer/ppo/core_algos.py:1348 at 0.9.1", severity=WARNING)
def clip_ratio_as_factor(run: RunConfig) -> Iterator[Finding]:
    """a clip ratio is negative, or looks like a factor instead of a distance from 1

    Why: 0.8 and 1.2 let the ratio of probabilities move from 0.2 to 2.2, so almost nothing is clipped
    Fix: for 0.8 to 1.2, set clip_ratio_low to 0.2 and clip_ratio_high to 0.2
    """
    # Other losses read the keys as something else.
    for path in _CLIPS if run.at(_LOSS) in ("vanilla", "gspo") else ():
        value = run.number(path) if run.at(path) is not None else 0.0
        if value < 0 or value >= _FACTOR:
            name = path.rpartition(".")[2]
            yield Finding(f"{name} is {quoted(value)}, so the ratio ends at {_bound(name, value):g}", keys=[path])


def _bound(name: str, value: float) -> float:
    return 1 - value if name == "clip_ratio_low" else 1 + value


@TOPIC.problem(
    f"{_LOSS} {' '.join(_CLIPS)}",
    why=_FITS,
    fails=Fails.SILENT,
    source="trainer/ppo/core_algos.py:1575 at 0.9.1",
    severity=WARNING,
)
def clip_ratio_of_another_loss(run: RunConfig) -> Iterator[Finding]:
    """the clip ratios are meant for a different policy loss

    Fix: for gspo set clip_ratio_low to 3e-4 and clip_ratio_high to 4e-4, for vanilla to 0.2 and 0.2 to 0.28
    """
    # Compare the bounds with those of GSPO (arXiv:2507.18071, 5.1; examples/gspo_trainer of verl): 3e-4 and 4e-4.
    loss, used = run.at(_LOSS), [run.at(path) for path in _CLIPS]
    bounds = [value for value in used if isinstance(value, (int, float)) and not isinstance(value, bool)]
    if len(bounds) < len(_CLIPS) or is_on_policy(run):
        return
    low, high = map(quoted, bounds)
    given = [path for path in _CLIPS if run.given_has(path)]
    # A public script has gspo with 0.2 and 0.28: a choice of its own. Both at 0.2 are the default of the other loss.
    if loss == "gspo" and bounds == [_OF_TOKENS] * len(_CLIPS):
        what = f"loss_mode is gspo, and its ratio of whole answers is clipped at {low} and {high}: never, in practice"
        yield Finding(what, keys=[*given, _LOSS], fix="write clip_ratio_low 3e-4 and clip_ratio_high 4e-4")
    if loss == "vanilla" and 0 < max(bounds) < _OF_ANSWERS:
        what = f"loss_mode is vanilla, and its ratios of tokens are clipped at {low} and {high}"
        fix = "write clip_ratio_low 0.2 and clip_ratio_high 0.2 to 0.28, or policy_loss.loss_mode gspo"
        yield Finding(what, keys=given, fix=fix)


@TOPIC.problem(
    f"{ACTOR}.clip_ratio", fails=Fails.SILENT, source="trainer/ppo/core_algos.py:1321 at 0.9.1", severity=WARNING
)
def clip_ratio_without_effect(run: RunConfig) -> str | None:
    """clip_ratio is set, but clip_ratio_low and clip_ratio_high replace it

    Why: clip_ratio_low and clip_ratio_high have a default of 0.2, which replaces clip_ratio
    Fix: set clip_ratio_low and clip_ratio_high, or set both to null
    """
    path = f"{ACTOR}.clip_ratio"
    given, used = run.at(path), [run.at(each) for each in _CLIPS]
    if not run.given_has(path) or None in used or given in used or any(map(run.given_has, _CLIPS)):
        return None
    low, high = map(quoted, used)
    return f"actor.clip_ratio is {quoted(given)}, and clip_ratio_low {low} and clip_ratio_high {high} are used"


@TOPIC.problem(
    f"{_CORRECTION}.rollout_is {_CORRECTION}.rollout_rs {_LOG_PROBS}",
    fails=Fails.SILENT,
    source="trainer/ppo/v1/trainer_base.py:1768 at 0.9.1",
    severity=WARNING,
)
def correction_without_log_probs(run: RunConfig) -> Iterator[Finding]:
    """rollout correction is on, but the engine's log probabilities are off

    Why: the trainer corrects only what has them, so the mismatch between engine and actor remains
    Fix: set actor_rollout_ref.rollout.calculate_log_probs to true
    """
    if run.on(_LOG_PROBS) or run.on(f"{_CORRECTION}.bypass_mode"):
        return
    for key in ("rollout_is", "rollout_rs"):
        path = f"{_CORRECTION}.{key}"
        if run.at(path) is not None:
            what = f"{path} is {quoted(run.at(path))}, and rollout.calculate_log_probs is off"
            yield Finding(what, keys=[path], proposed={_LOG_PROBS: True})


@TOPIC.problem(
    f"{_CORRECTION}.bypass_mode {_LOG_PROBS}",
    fails=Fails.AT_FIRST_STEP,
    source="trainer/ppo/rollout_corr_helper.py:1131 at 0.9.1",
    logs="bypass_mode=True requires rollout_log_probs in batch",
)
def bypass_without_log_probs(run: RunConfig) -> Iterator[Finding]:
    """bypass mode is on, but the engine's log probabilities are off

    Fix: set actor_rollout_ref.rollout.calculate_log_probs to true
    """
    if run.on(f"{_CORRECTION}.bypass_mode") and not run.on(_LOG_PROBS):
        what = "rollout_correction.bypass_mode is on, and rollout.calculate_log_probs is off"
        yield Finding(what, proposed={_LOG_PROBS: True})


@TOPIC.problem(
    f"{_CORRECTION}.rollout_is {_CORRECTION}.rollout_rs {_CORRECTION}.loss_type",
    fails=Fails.AT_FIRST_STEP,
    source="trainer/ppo/rollout_corr_helper.py:566 at 0.9.1",
    logs="Invalid rollout_is",
)
def correction_options(run: RunConfig) -> Iterator[Finding]:
    """an option or threshold of rollout correction is missing or invalid

    Fix: set rollout_is to token or sequence; rejection also needs rollout_rs_threshold
    """
    bypass = run.on(f"{_CORRECTION}.bypass_mode")
    if not (run.on(_LOG_PROBS) or bypass):
        return
    weights, threshold = f"{_CORRECTION}.rollout_is", f"{_CORRECTION}.rollout_is_threshold"
    tests = {weights: one_of(weights, (None, "token", "sequence"))}
    if run.at(weights) is not None:
        tests[threshold] = within(threshold, above=0)
    if bypass and run.since("0.7.1"):
        tests[f"{_CORRECTION}.loss_type"] = one_of(f"{_CORRECTION}.loss_type", ("ppo_clip", "reinforce"))
    yield from failing(run, tests)
    yield from _rejection(run)


def _rejection(run: RunConfig) -> Iterator[Finding]:
    path, threshold = f"{_CORRECTION}.rollout_rs", f"{_CORRECTION}.rollout_rs_threshold"
    given, known = run.at(path), _REJECTIONS if run.since("0.7.1") else _OLD_REJECTIONS
    if given is None:
        return
    parts = [each.strip() for each in str(given).split(",")] if run.since("0.7.1") else [str(given)]
    wrong = [each for each in parts if each not in known]
    if wrong:
        what = f"{path} is {quoted(given)}, expected {', '.join(known)}"
        yield Finding(what, keys=[path])
    elif run.at(threshold) is None:
        yield Finding(f"{path} is {quoted(given)}, and rollout_rs_threshold is null", keys=[threshold, path])


@TOPIC.problem(
    f"{ACTOR}.kl_loss_coef algorithm.kl_ctrl.kl_coef",
    fails=Fails.SILENT,
    source="workers/utils/losses.py:140 at 0.9.1",
    severity=WARNING,
)
def kl_coefficient_zero(run: RunConfig) -> Iterator[Finding]:
    """a KL term is on, but its coefficient is 0 or less

    Why: each step computes the reference's log probabilities, only to multiply the KL by 0 or less
    Fix: set it to 0.001, the default, or switch use_kl_loss off, which saves memory and time
    """
    for path, switch in KL_COEFFICIENTS:
        if run.on(switch) and run.number(path) <= 0:
            yield Finding(f"{switch} is on, and {path} is {quoted(run.at(path))}", keys=[path, switch])


@TOPIC.problem(
    f"{ACTOR}.kl_loss_coef algorithm.kl_ctrl.kl_coef",
    fails=Fails.SILENT,
    source="workers/utils/losses.py:140 at 0.9.1",
    severity=WARNING,
)
def kl_coefficient_large(run: RunConfig) -> Iterator[Finding]:
    """a KL coefficient is above 1

    Why: the KL term outweighs the reward, so the policy stays close to the reference and learns little
    Fix: set it to 0.001, the default, or up to 0.1
    """
    for path, switch in KL_COEFFICIENTS:
        if run.on(switch) and run.number(path) > 1:
            yield Finding(f"{path} is {quoted(run.at(path))}", keys=[path])


@TOPIC.problem(
    "trainer.critic_warmup", fails=Fails.SILENT, source="trainer/ppo/v1/trainer_base.py:608 at 0.9.1", severity=WARNING
)
def actor_waits_for_critic(run: RunConfig) -> str | None:
    """trainer.critic_warmup delays the actor, but there is no critic

    Why: the actor is not updated before that step, although there is no critic to warm up
    Fix: remove trainer.critic_warmup, or set it to 0
    """
    steps = run.number("trainer.critic_warmup")
    alone = run.at("algorithm.adv_estimator") in _BY_GROUP and run.at("critic.enable") is not True
    if not alone or steps <= 1:
        return None
    return f"trainer.critic_warmup is {quoted(steps)} with adv_estimator {run.at('algorithm.adv_estimator')}"


@TOPIC.problem(
    "algorithm.filter_groups.enable",
    fails=Fails.SILENT,
    source="trainer/config/algorithm.py:583 at 0.7.1",
    severity=WARNING,
)
def filter_groups_unread(run: RunConfig) -> str | None:
    """filter_groups is on, but this trainer does not read it

    Why: this trainer does not read the section, so groups of equal rewards remain in the batch
    Fix: remove algorithm.filter_groups, or run verl 0.9.1 with trainer.use_v1 true, its default
    """
    unread = run.on("algorithm.filter_groups.enable") and not has_new_trainer(run)
    return (
        f"algorithm.filter_groups.enable is on, and this trainer of verl {run.version} ignores it" if unread else None
    )


@TOPIC.problem(
    "algorithm.filter_groups.metric",
    fails=Fails.AT_SETUP,
    source="trainer/ppo/v1/replay_buffer.py:304 at 0.9.1",
    since="0.9.1",
    logs="Finished groups are missing DAPO metric",
)
def filter_groups_metric(run: RunConfig) -> str | None:
    """the metric of filter_groups is missing, or the reward does not return it

    Why: without a metric the run ends at startup; with an unknown one, when the first group of answers is finished
    Fix: use reward, or a field that your reward function returns
    """
    section = "algorithm.filter_groups"
    own = run.on("trainer.v1.sampler.custom_sampler.path") and run.on("trainer.v1.sampler.custom_sampler.name")
    if own or not (has_new_trainer(run) and run.on(f"{section}.enable")):
        return None
    metric = run.at(f"{section}.metric")
    if not metric:
        return f"{section}.enable is on, and its metric is {quoted(metric)}"
    known = reward_fields(run)
    if not known or metric in known:
        return None
    return f"{section}.metric is {quoted(metric)}, and the reward returns {', '.join(known)}"


@TOPIC.problem(
    f"{ACTOR}.policy_loss",
    fails=Fails.AT_FIRST_STEP,
    source="trainer/ppo/core_algos.py:1795 at 0.9.1",
    logs="clip_ratio should be larger than 0",
)
def loss_parameters(run: RunConfig) -> Iterator[Finding]:
    """a parameter of the chosen policy loss is missing or not above 0

    Fix: remove the parameter: its default is above 0; only dro_beta has no default
    """
    read = {"clip_cov": "clip_cov_ratio", "kl_cov": "kl_cov_ratio", "dro": "dro_beta"}.get(str(run.at(_LOSS)))
    path = f"{ACTOR}.policy_loss.{read}"
    if read == "dro_beta" and run.at(path) is None:
        yield Finding(f"{path} is null, expected more than 0", keys=[path, _LOSS])
    elif read:
        yield from failing(run, {path: within(path, above=0)})


@TOPIC.problem(f"{ACTOR}.ppo_epochs", fails=Fails.AT_FIRST_STEP, source="utils/tensordict_utils.py:608 at 0.9.1")
def no_updates(run: RunConfig) -> str | None:
    """actor.ppo_epochs is below 1, so no step updates the actor

    Why: answers are sampled and scored, but no update follows; the run continues, or fails after a full step
    Fix: set ppo_epochs to 1, the default
    """
    return within(f"{ACTOR}.ppo_epochs", least=1)(run)
