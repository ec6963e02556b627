"""The actor: its training engine, its loss, its KL terms, its advantages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo.problems.checks import nearest, one_of, quoted, within
from grpo.problems.frameworks.verl import TOPIC
from grpo.problems.keys import judged as keys
from grpo.values.frameworks.verl import (
    ACTOR,
    KL_COEFFICIENTS,
    MODEL,
    REF,
    ROLLOUT,
    has_engine_workers,
    sequence_parallel,
    uses_reference,
)
from postrender.finding import WARNING, Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

_OWN = f"{ACTOR}.fsdp_config.strategy"
_LOSS = f"{ACTOR}.policy_loss.loss_mode"
_KL_TYPES = ("kl", "k1", "abs", "mse", "k2", "low_var_kl", "k3")
_STRICT = "refused by the workers when they start, after the cluster is up and its GPUs are paid for"
_LENIENT = "silent in most sections: verl ignores it, and the run goes on with the default of the key that was meant"


def _why_unknown(run: RunConfig, key: str) -> str:
    strict = (f"{ACTOR}.", f"{ROLLOUT}.", f"{MODEL}.")
    # The newer workers make the same class of the reference's section, where they load one (engine_workers.py:553 at
    # 0.9.1); with LoRA it is the actor without adapters.
    loads = has_engine_workers(run) and uses_reference(run) and not run.at(f"{MODEL}.lora_rank")
    return _STRICT if key.startswith((*strict, f"{REF}.") if loads else strict) else _LENIENT


RULES = keys.rules(
    TOPIC,
    "trainer/config/ppo_trainer.yaml:8 at 0.9.1",
    why="silent in most sections; below actor, rollout, model and a reference that is loaded, the workers refuse it",
    why_of=_why_unknown,
)


@TOPIC.problem(f"{ACTOR}.strategy {REF}.strategy", fails=Fails.AT_SETUP, source="workers/engine/base.py:401 at 0.9.1")
def strategy(run: RunConfig) -> Iterator[Finding]:
    """the actor or reference uses an engine that a configuration file cannot select

    Why: verl rejects it when it validates its configuration, or when the workers start
    Fix: use fsdp2 or fsdp; other engines need a base configuration other than the charts' ppo_trainer
    """
    known = ("fsdp", "fsdp2", *(["fsdp_turbo"] if run.since("0.9.1") else []))
    # The newer workers of 0.7.1 look at fsdp_config.strategy only; older ones give the reference the actor's.
    own = [f"{REF}.strategy"] if run.since("0.8.0") and uses_reference(run) and run.given_has(f"{REF}.strategy") else []
    for path in [] if _is_by_second(run) else [f"{ACTOR}.strategy", *own]:
        if what := one_of(path, known)(run):
            yield Finding(what, keys=[path])


def _is_by_second(run: RunConfig) -> bool:
    return has_engine_workers(run) and not run.since("0.8.0")


@TOPIC.problem("model_engine", fails=Fails.SILENT, source="trainer/config/ppo_trainer.yaml:10 at 0.8.0", since="0.7.1")
def model_engine(run: RunConfig) -> str | None:
    """model_engine is set as a value, which chooses no engine

    Why: in a file Hydra takes the engine from its list of defaults, not from this value, so FSDP trains
    Fix: remove model_engine: the charts run verl with FSDP, and with no other engine
    """
    wrong = run.given_has("model_engine") and run.at("model_engine") != "dp"
    return f"model_engine is {quoted(run.at('model_engine'))}, and the charts run the engine dp" if wrong else None


@TOPIC.problem(
    f"{_OWN} {ACTOR}.strategy", fails=Fails.SILENT, source="workers/config/actor.py:317 at 0.8.0", severity=WARNING
)
def strategy_without_effect(run: RunConfig) -> Iterator[Finding]:
    """the FSDP version is set at a key that the workers do not read

    Why: the workers read the other key, so a different version of FSDP runs
    Fix: set actor.strategy and actor.fsdp_config.strategy to the same value, or only the one that is read
    """
    dead, counts = (f"{ACTOR}.strategy", _OWN) if _is_by_second(run) else (_OWN, f"{ACTOR}.strategy")
    given = run.at(dead)
    if run.given_has(dead) and given in ("fsdp", "fsdp2", "fsdp_turbo") and given != run.at(counts):
        what = f"{dead} is {quoted(given)} and is not read; {counts} is {quoted(run.at(counts))}"
        yield Finding(what, keys=[dead], proposed={counts: given})


@TOPIC.problem(
    f"{MODEL}.use_remove_padding {ACTOR}.ulysses_sequence_parallel_size",
    fails=Fails.AT_SETUP,
    source="workers/config/actor.py:337 at 0.9.1",
    logs="When using sequence parallelism for actor/ref policy, you must enable `use_remov",
)
def sequence_parallel_padding(run: RunConfig) -> Iterator[Finding]:
    """sequence parallelism is on, but padding is not removed

    Fix: set actor_rollout_ref.model.use_remove_padding to true
    """
    own = run.integer(f"{ACTOR}.ulysses_sequence_parallel_size")
    size = sequence_parallel(run) if run.since("0.8.0") else own
    if size > 1 and not run.on(f"{MODEL}.use_remove_padding"):
        what = f"ulysses_sequence_parallel_size is {size}, and use_remove_padding is off"
        yield Finding(what, proposed={f"{MODEL}.use_remove_padding": True})


@TOPIC.problem(
    f"{ACTOR}.optim.lr_scheduler_type",
    fails=Fails.AT_SETUP,
    source="workers/config/optimizer.py:123 at 0.9.1",
)
def scheduler(run: RunConfig) -> str | None:
    """the learning rate schedule is neither constant nor cosine

    Fix: use constant or cosine
    """
    # The older key replaces the newer one.
    older = run.at(f"{ACTOR}.optim.warmup_style") is not None
    return None if older else one_of(f"{ACTOR}.optim.lr_scheduler_type", ("constant", "cosine"))(run)


@TOPIC.problem(
    "algorithm.adv_estimator",
    fails=Fails.AT_FIRST_STEP,
    source="trainer/ppo/core_algos.py:149 at 0.9.1",
    logs="Unknown advantage estimator simply",
)
def advantage_estimator(run: RunConfig) -> Iterator[Finding]:
    """the advantage estimator is unknown to this version

    Fix: use grpo, or another estimator that grpo lint lists
    """
    path, known = "algorithm.adv_estimator", run.catalogue.names["advantageEstimators"]
    if what := one_of(path, known)(run):
        yield Finding(what, fix=nearest(run, path, known))


@TOPIC.problem(
    _LOSS, fails=Fails.AT_FIRST_STEP, source="trainer/ppo/core_algos.py:82 at 0.9.1", logs="Unsupported loss mode"
)
def policy_loss(run: RunConfig) -> Iterator[Finding]:
    """the policy loss is unknown to this version

    Fix: use vanilla, the default, or another loss that grpo lint lists
    """
    # Custom code registers others.
    known = run.catalogue.names["policyLosses"]
    if not run.on(f"{MODEL}.external_lib") and (what := one_of(_LOSS, known)(run)):
        yield Finding(what, fix=nearest(run, _LOSS, known))


@TOPIC.problem(
    f"{ACTOR}.kl_loss_type algorithm.kl_penalty",
    fails=Fails.AT_FIRST_STEP,
    source="trainer/ppo/core_algos.py:2251 at 0.9.1",
)
def kl_type(run: RunConfig) -> Iterator[Finding]:
    """the type of the KL term is unknown to this version

    Fix: use low_var_kl; a trailing + is valid from 0.8.0 on
    """
    kinds = (*_KL_TYPES, *(f"{kind}+" for kind in _KL_TYPES if run.since("0.8.0")))
    for switch, path in (
        (f"{ACTOR}.use_kl_loss", f"{ACTOR}.kl_loss_type"),
        ("algorithm.use_kl_in_reward", "algorithm.kl_penalty"),
    ):
        what = one_of(path, kinds)(run) if run.on(switch) else None
        if what:
            yield Finding(what, keys=[path], fix=nearest(run, path, kinds))


@TOPIC.problem(
    f"{ACTOR}.kl_loss_type", fails=Fails.SILENT, source="trainer/ppo/core_algos.py:2207 at 0.9.1", severity=WARNING
)
def kl_without_gradient(run: RunConfig) -> str | None:
    """the KL loss has a type whose gradient is 0 on average

    Why: the KL is logged as usual, but nothing pulls the actor back to the reference model
    Fix: use low_var_kl, the default
    """
    path = f"{ACTOR}.kl_loss_type"
    if not run.on(f"{ACTOR}.use_kl_loss") or run.at(path) not in ("kl", "k1"):
        return None
    what, coefficient = f"{path} is {quoted(run.at(path))}", run.number(f"{ACTOR}.kl_loss_coef")
    if coefficient <= 0:
        return None
    return f"{what}, whose gradient is 0 on average: kl_loss_coef {coefficient:g} adds only noise"


@TOPIC.problem(
    f"{ACTOR}.clip_ratio_c",
    fails=Fails.AT_FIRST_STEP,
    source="trainer/ppo/core_algos.py:1331 at 0.9.1",
    logs="The lower bound of the clip_ratio_c for dual-clip PPO should be greater than 1.0",
)
def dual_clip(run: RunConfig) -> str | None:
    """clip_ratio_c, the bound of dual clipping, is not above 1

    Fix: set it to 3.0, the default
    """
    # Other losses read the key as something else, or not at all.
    return within(f"{ACTOR}.clip_ratio_c", above=1)(run) if run.at(_LOSS) == "vanilla" else None


@TOPIC.problem(
    "algorithm.kl_ctrl.type algorithm.kl_ctrl.horizon",
    fails=Fails.AT_SETUP,
    source="trainer/ppo/core_algos.py:209 at 0.9.1",
    logs="horizon must be larger than 0",
)
def kl_control(run: RunConfig) -> Iterator[Finding]:
    """the KL controller's type is unknown, or it is adaptive with no positive horizon

    Why: the trainer rejects it only at startup, when the cluster is already running and billing
    Fix: use fixed, or adaptive with a positive horizon
    """
    if not run.on("algorithm.use_kl_in_reward"):
        return
    kind = one_of("algorithm.kl_ctrl.type", ("fixed", "adaptive"))(run)
    if kind:
        yield Finding(kind, keys=["algorithm.kl_ctrl.type"])
    horizon = within("algorithm.kl_ctrl.horizon", above=0)(run)
    if horizon and run.at("algorithm.kl_ctrl.type") == "adaptive":
        yield Finding(horizon, keys=["algorithm.kl_ctrl.horizon"])


@TOPIC.problem(
    f"{ACTOR}.kl_loss_coef algorithm.kl_ctrl.kl_coef",
    fails=Fails.SILENT,
    source="trainer/ppo/v1/trainer_base.py:1788 at 0.9.1",
    severity=WARNING,
)
def kl_coefficient_without_switch(run: RunConfig) -> Iterator[Finding]:
    """a KL coefficient is set, but its switch is off

    Why: the coefficient has no effect; with both switches off there is no KL term and no reference model
    Fix: set actor.use_kl_loss or algorithm.use_kl_in_reward to true, or remove the coefficient
    """
    for path, switch in KL_COEFFICIENTS:
        # Who switches off what another file has set does not repeat its coefficient.
        if run.given_has(path) and run.at(path) and not run.on(switch) and not _is_switched_off(run, path, switch):
            yield _unread(run, path, switch)


def _is_switched_off(run: RunConfig, path: str, switch: str) -> bool:
    return run.given_has(switch) and run.at(switch) is False and run.is_later(switch, path)


def _unread(run: RunConfig, path: str, switch: str) -> Finding:
    """Report a coefficient whose switch is off; if the other switch is on, name the coefficient that is read."""
    what = f"{path} is {quoted(run.at(path))}, and {switch} is off"
    read = KL_COEFFICIENTS[not KL_COEFFICIENTS.index((path, switch))]
    if not run.on(read[1]):
        return Finding(what, keys=[path, switch])
    return Finding(
        f"{what}; the KL term has {read[0]}, {quoted(run.at(read[0]))}",
        keys=[path, switch],
        why=f"this coefficient is not read; {read[1]} is on, and its KL term has {read[0]}",
        fix=f"write the coefficient as {read[0]}, and remove {path}",
    )


@TOPIC.problem(
    "algorithm.use_kl_in_reward", fails=Fails.SILENT, source="utils/config.py:184 at 0.9.1", severity=WARNING
)
def kl_twice(run: RunConfig) -> str | None:
    """the KL term is both in the reward and in the loss

    Why: KL lowers the reward and is also added to the loss; GRPO uses it only in the loss
    Fix: set algorithm.use_kl_in_reward to false
    """
    twice = run.on("algorithm.use_kl_in_reward") and run.on(f"{ACTOR}.use_kl_loss")
    return "algorithm.use_kl_in_reward and actor.use_kl_loss are both on" if twice else None
