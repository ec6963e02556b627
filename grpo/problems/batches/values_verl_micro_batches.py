"""Micro batches: how many sequences a GPU processes at once, set by one of two keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo.problems.frameworks.verl import TOPIC
from grpo.values.frameworks.verl import (
    ACTOR,
    CRITIC,
    DYNAMIC,
    MICRO,
    MINI,
    NODES,
    REF,
    ROLLOUT,
    SAMPLES,
    SEQUENCE,
    data_parallel,
    gpus,
    has_critic,
    has_engine_workers,
    has_new_trainer,
    recomputes_log_probs,
    sequence_parallel,
    sequences,
    uses_reference,
)
from postrender.finding import Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

_WHOLE = f"{ACTOR}.ppo_micro_batch_size"
_LOG_PROB = "log_prob_micro_batch_size"
_LIMIT = f"{ACTOR}.ppo_max_token_len_per_gpu"


@TOPIC.problem(
    f"{MICRO} {_WHOLE}",
    fails=Fails.AT_SETUP,
    source="workers/config/actor.py:200 at 0.9.1",
    logs="actor] You have set both 'actor.ppo_micro_batch_size' AND 'actor.ppo_micro_batch",
)
def micro_batch_once(run: RunConfig) -> Iterator[Finding]:
    """the actor's micro batch size is set twice, not at all, or not per GPU

    Fix: set ppo_micro_batch_size_per_gpu, and leave ppo_micro_batch_size null
    """
    for section in (ACTOR, CRITIC) if has_critic(run) else (ACTOR,):
        what = None if run.on(f"{section}.use_dynamic_bsz") else _once(run, section, "ppo_micro_batch_size")
        if what:
            yield Finding(what, keys=[f"{section}.ppo_micro_batch_size_per_gpu", f"{section}.ppo_micro_batch_size"])


@TOPIC.problem(
    f"{ROLLOUT}.{_LOG_PROB}_per_gpu {REF}.{_LOG_PROB}_per_gpu",
    fails=Fails.AT_SETUP,
    source="utils/config.py:155 at 0.9.1",
)
def log_prob_micro_batch_once(run: RunConfig) -> Iterator[Finding]:
    """the micro batch size of log probabilities is set twice, not at all, or not per GPU

    Fix: set log_prob_micro_batch_size_per_gpu, and leave log_prob_micro_batch_size null
    """
    # With dynamic batches of the actor, verl checks none of these when it starts.
    if run.on(DYNAMIC):
        yield from _later(run)
        return
    for section in _sections(run):
        what = _once(run, section, _LOG_PROB)
        if what:
            yield Finding(what, keys=[f"{section}.{_LOG_PROB}_per_gpu", f"{section}.{_LOG_PROB}"])


def _later(run: RunConfig) -> Iterator[Finding]:
    """Report what is missing for a worker without dynamic batches, although the actor uses them."""
    newer = has_engine_workers(run)
    # The newer workers refuse a rollout that differs from the actor (rule dynamic-batch-once).
    sections = [ROLLOUT] if not newer and recomputes_log_probs(run) else []
    sections += [REF] if uses_reference(run) else []
    for section in sections:
        whole, each = run.at(f"{section}.{_LOG_PROB}"), run.at(f"{section}.{_LOG_PROB}_per_gpu")
        what = None if _is_dynamic(run, section) else _once(run, section, _LOG_PROB)
        # The older ones let one replace the other.
        if what and (newer or (whole is None and each is None)):
            switch = f"{section}.log_prob_use_dynamic_bsz"
            yield Finding(
                f"{switch} is off, and {what}",
                keys=[f"{section}.{_LOG_PROB}_per_gpu", switch, DYNAMIC],
                why=TOPIC.reason(Fails.AT_LOADING if newer else Fails.AT_FIRST_STEP),
                fix=f"remove {switch}, which follows the actor, or set {_LOG_PROB}_per_gpu, and not {_LOG_PROB}",
            )


def _is_dynamic(run: RunConfig, section: str) -> bool:
    """Return whether log probabilities are computed in dynamic batches; newer rollout workers must match the actor."""
    as_actor = section == ROLLOUT and has_engine_workers(run)
    return run.on(DYNAMIC if as_actor else f"{section}.log_prob_use_dynamic_bsz")


def _sections(run: RunConfig) -> tuple[str, ...]:
    return (ROLLOUT, REF) if uses_reference(run) else (ROLLOUT,)


def _once(run: RunConfig, section: str, name: str) -> str | None:
    whole, each = run.at(f"{section}.{name}"), run.at(f"{section}.{name}_per_gpu")
    if (whole is None) == (each is None):
        return f"{section}.{name} and {name}_per_gpu are {'both given' if whole is not None else 'both null'}"
    # The newer workers never look at the deprecated key.
    ignored = each is None and has_engine_workers(run)
    return f"{section}.{name}_per_gpu is null, and {run.version} does not read {name}" if ignored else None


@TOPIC.problem(
    f"{_WHOLE} {MINI}",
    fails=Fails.AT_SETUP,
    source="workers/config/actor.py:233 at 0.9.1",
    logs="must be divisible by ppo_micro_batch_size",
)
def deprecated_micro_batch(run: RunConfig) -> str | None:
    """the deprecated micro batch size does not divide the mini batch, or does not cover all GPUs

    Fix: set ppo_micro_batch_size_per_gpu instead
    """
    if run.on(DYNAMIC) or run.at(_WHOLE) is None:
        return None
    whole, mini, size = run.integer(_WHOLE), run.integer(MINI), run.integer(SEQUENCE)
    if whole < 1 or mini % whole:
        return f"ppo_mini_batch_size {mini} is not a multiple of ppo_micro_batch_size {whole}"
    few = whole * size < gpus(run)
    return f"ppo_micro_batch_size {whole} × {size} is less than the {gpus(run)} GPUs" if few else None


@TOPIC.problem(
    f"{MICRO} {MINI} {SAMPLES} {NODES}",
    fails=Fails.AT_FIRST_STEP,
    source="workers/engine/utils.py:125 at 0.9.1",
    logs="should be divisible by ppo_micro_batch_size_per_gpu",
)
def update_not_whole_micro_batches(run: RunConfig) -> Iterator[Finding]:
    """a rank's sequences of an update do not divide into complete micro batches

    Fix: choose a ppo_micro_batch_size_per_gpu that divides ppo_mini_batch_size × rollout.n / ranks
    """
    # The older workers look at it whether batches are dynamic or not.
    if has_engine_workers(run) and run.on(DYNAMIC):
        return
    ranks = data_parallel(run)
    share, is_older = run.integer(MINI) * run.integer(SAMPLES) // ranks, run.at(_WHOLE) is not None
    micro = run.integer(_WHOLE) // ranks if is_older else run.integer(MICRO)
    if share < 1 or (micro > 0 and share % micro == 0):
        return
    if micro < 1 and is_older:
        what = f"ppo_micro_batch_size {run.integer(_WHOLE)} is less than the {ranks} ranks that share it"
        yield Finding(what, keys=[_WHOLE])
    else:
        yield Finding(f"a rank has {share} sequences per update, not a multiple of its micro batch of {micro}")


@TOPIC.problem(
    f"{ROLLOUT}.{_LOG_PROB}_per_gpu {REF}.{_LOG_PROB}_per_gpu",
    fails=Fails.AT_FIRST_STEP,
    source="workers/engine/utils.py:91 at 0.8.0",
    since="0.7.1",
)
def step_not_whole_micro_batches(run: RunConfig) -> Iterator[Finding]:
    """a rank's sequences of a step do not divide into complete micro batches for log probabilities

    Fix: choose a log_prob_micro_batch_size_per_gpu that divides the sequences of a rank
    """
    if not has_engine_workers(run):
        return
    ranks, made = data_parallel(run), _padded(run)
    if made % ranks:
        return
    share, taken_over = made // ranks, not recomputes_log_probs(run)
    for section in _sections(run)[taken_over:]:
        if _is_dynamic(run, section):
            continue
        path = f"{section}.{_LOG_PROB}_per_gpu"
        micro = run.integer(path) if run.at(path) is not None else share
        if micro < 1 or share % micro:
            yield Finding(f"a rank has {share} sequences per step, not a multiple of {path} {micro}", keys=[path])


def _padded(run: RunConfig) -> int:
    """Return a step's number of sequences, including those that the newer trainer adds to complete its updates."""
    made, update = sequences(run), run.integer(MINI) * run.integer(SAMPLES)
    return -(-made // update) * update if has_new_trainer(run) and update > 0 else made


@TOPIC.problem(
    "",
    fails=Fails.AT_FIRST_STEP,
    source="utils/seqlen_balancing.py:384 at 0.9.1",
    logs="max_token_len must be greater than the sequence length",
)
def tokens_below_sequence(run: RunConfig) -> Iterator[Finding]:
    """the longest sequence exceeds the token limit of a dynamic micro batch

    Why: the run fails: older workers reject the first batch, newer ones the first sequence over the limit
    Fix: raise max_token_len_per_gpu to (prompt_length + response_length) / sequence parallel size or more
    """
    prompt, response = run.integer(f"{ROLLOUT}.prompt_length"), run.integer(f"{ROLLOUT}.response_length")
    for path, size in _token_limits(run):
        limit = run.integer(path)
        if limit * size < prompt + response:
            name = path.removeprefix("actor_rollout_ref.")
            what = f"{name} {limit} × {size} is less than {prompt} + {response} = {prompt + response} tokens"
            yield Finding(what, keys=[path, _LIMIT], fix=f"raise it to {-(-(prompt + response) // size)} or more")


def _token_limits(run: RunConfig) -> Iterator[tuple[str, int]]:
    """Yield the limits that are read, each with the number of GPUs per sequence; others follow the actor's limit."""
    size, shared = sequence_parallel(run), run.integer(f"{REF}.ulysses_sequence_parallel_size")
    if run.on(DYNAMIC):
        yield _LIMIT, size
    read = ((ROLLOUT, recomputes_log_probs(run), size), (REF, uses_reference(run), max(size, shared)))
    for section, is_read, gpus_each in read:
        path = f"{section}.log_prob_max_token_len_per_gpu"
        follows = run.on(DYNAMIC) and not run.given_has(path)
        if is_read and run.on(f"{section}.log_prob_use_dynamic_bsz") and not follows:
            yield path, gpus_each
