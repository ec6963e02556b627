"""List changes to a run that may lower its memory: what to change, step by step, and what that costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from grpo.values.frameworks import nemo_rl, verl
from grpo.values.reference_errors import UnknownError
from postrender.values.merge import value_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from grpo.values.config import RunConfig
    from postrender.types import Json

_MORE_STEPS: Final = "more and smaller passes"
_AGAIN: Final = "forward is computed once more"
_TALK: Final = "GPUs exchange more"
_COPY: Final = "is copied to and from the node's memory"
_SHORTER: Final = "longer sequences are cut"
_MORE_GPUS: Final = "more GPUs"
_TURNS: Final = "training and generation take turns, so measure a step"
_APART: Final = "more GPUs: generation has its own"
_SHARE: Final = "another share for vLLM"
# Shares of a GPU that vLLM may get instead.
_SHARES: Final = (0.85, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
# What NeMo RL's own recipes give vLLM where the policy trains on the same GPUs.
_COLOCATED_SHARE: Final = 0.6
SHORTEST: Final = 256
_MOST_NODES: Final = 64
# NeMo RL's length of a sequence, and the keys that must not be longer.
LONGEST: Final = "policy.max_total_sequence_length"
NODES: Final = "job.nodes"
_LENGTHS: Final = (
    "policy.generation.max_new_tokens",
    f"{nemo_rl.VLLM}.max_model_len",
    "data.max_input_seq_length",
)
_MICRO_BATCHES: Final = (nemo_rl.MICRO_BATCH, nemo_rl.LOGPROB_BATCH)


class Offer(NamedTuple):
    """A change in one direction: its rungs are values by key, the smallest change first."""

    rungs: Sequence[Mapping[str, Json]]
    costs: str
    changes_training: bool = False


def offers(run: RunConfig, fits: Mapping[str, int] | None = None) -> list[Offer]:
    """Return the offers for a run, the cheapest first; for a key in `fits`, an offer has the last value that fits."""
    fits = fits or {}
    found = [*(_verl(run, fits) if run.framework == "verl" else _nemo_rl(run, fits)), more_nodes(run, fits)]
    return [offer for offer in found if offer.rungs]


def _nemo_rl(run: RunConfig, fits: Mapping[str, int]) -> Iterator[Offer]:
    is_megatron = nemo_rl.is_megatron(run)
    engine = nemo_rl.MEGATRON if is_megatron else nemo_rl.DTENSOR
    filled = next((path for path in (nemo_rl.DYNAMIC, nemo_rl.PACKING) if run.on(path)), "").removesuffix(".enabled")
    for size, tokens in ((nemo_rl.MICRO_BATCH, "train_mb_tokens"), (nemo_rl.LOGPROB_BATCH, "logprob_mb_tokens")):
        if filled:
            yield Offer(_halves(run, f"{filled}.{tokens}", _number(run, LONGEST)), _MORE_STEPS)
        else:
            yield Offer(_smaller(run, size, fits, 1, micro_batch), _MORE_STEPS)
    yield _switch(run, f"{engine}.activation_checkpointing", _AGAIN)
    tensor = f"{engine}.tensor_model_parallel_size" if is_megatron else f"{engine}.tensor_parallel_size"
    if _number(run, tensor) > 1:
        yield _switch(run, f"{engine}.sequence_parallel", _TALK)
    yield Offer(_doubles(run, tensor, run.gpus), _TALK)
    yield Offer(_doubles(run, f"{nemo_rl.VLLM}.tensor_parallel_size", run.gpus), _TALK)
    yield Offer(_shares(run, f"{nemo_rl.VLLM}.gpu_memory_utilization"), _SHARE)
    yield Offer(_doubles(run, f"{engine}.context_parallel_size", run.gpus), _TALK)
    if is_megatron:
        optimizer = f"{engine}.optimizer"
        offload = {f"{optimizer}.optimizer_cpu_offload": True, f"{optimizer}.optimizer_offload_fraction": 1.0}
        yield Offer([] if run.on(f"{optimizer}.optimizer_cpu_offload") else [offload], f"the optimizer {_COPY}")
    else:
        yield _switch(run, f"{engine}.cpu_offload", f"everything {_COPY}")
    yield Offer(_smaller(run, LONGEST, fits, SHORTEST, length), _SHORTER, changes_training=True)
    yield colocated(run)
    yield _apart(run)


def _verl(run: RunConfig, fits: Mapping[str, int]) -> Iterator[Offer]:
    actor, rollout, model = verl.ACTOR, verl.ROLLOUT, verl.MODEL
    answers = "data.max_response_length"
    prompt = _number(run, "data.max_prompt_length")
    longest = prompt + _number(run, answers)
    if run.on(verl.DYNAMIC):
        yield Offer(_halves(run, f"{actor}.ppo_max_token_len_per_gpu", longest), _MORE_STEPS)
    else:
        yield Offer(_smaller(run, verl.MICRO, fits, 1, micro_batch), _MORE_STEPS)
    if run.on(f"{rollout}.log_prob_use_dynamic_bsz"):
        yield Offer(_halves(run, f"{rollout}.log_prob_max_token_len_per_gpu", longest), _MORE_STEPS)
    else:
        yield Offer(_halves(run, f"{rollout}.log_prob_micro_batch_size_per_gpu", 1), _MORE_STEPS)
    yield _switch(run, f"{model}.use_remove_padding", "nothing")
    yield _switch(run, f"{model}.enable_gradient_checkpointing", _AGAIN)
    yield _switch(run, f"{actor}.entropy_from_logits_with_chunking", _MORE_STEPS)
    yield Offer(_doubles(run, verl.SEQUENCE, run.gpus), _TALK)
    yield Offer(_doubles(run, f"{rollout}.tensor_model_parallel_size", run.gpus), _TALK)
    yield Offer(_shares(run, f"{rollout}.gpu_memory_utilization"), _SHARE)
    offload = {f"{actor}.fsdp_config.{name}_offload": True for name in ("param", "optimizer")}
    yield Offer([] if all(map(run.on, offload)) else [offload], f"weights and optimizer: each {_COPY}")
    if run.at(f"{actor}.strategy") == "fsdp2":
        yield _switch(run, f"{actor}.fsdp_config.offload_policy", f"everything {_COPY}")
    # A limit counts the prompt too.
    ours = {key: size - prompt if key == answers else size for key, size in fits.items()}
    yield Offer(_smaller(run, answers, ours, SHORTEST, length), _SHORTER, changes_training=True)


def more_nodes(run: RunConfig, fits: Mapping[str, int]) -> Offer:
    """Return the offer of the fewest nodes that fit or, if no number does, of multiples of the current number."""
    counts = [run.nodes * times for times in (2, 4, 8, 16) if 0 < run.nodes * times <= _MOST_NODES]
    if fits.get(NODES, 0) > run.nodes:
        counts = [fits[NODES]]
    return Offer([nodes(run, count) for count in counts], _MORE_GPUS)


def colocated(run: RunConfig) -> Offer:
    """Return the offer to generate on the training GPUs, fewest nodes first; no rungs if the run already does so."""
    if run.framework == "verl" or run.on(nemo_rl.COLOCATED):
        return Offer([], _TURNS)
    less: dict[str, Json] = {}
    try:
        if run.number(path := f"{nemo_rl.VLLM}.gpu_memory_utilization") > _COLOCATED_SHARE:
            less = {path: _COLOCATED_SHARE}
    except UnknownError:
        return Offer([], _TURNS)
    rungs: list[dict[str, Json]] = []
    for count in range(1, min(run.nodes, _MOST_NODES) + 1):
        edits = {nemo_rl.COLOCATED: True, **(nodes(run, count) if count < run.nodes else {})}
        rungs += [edits | less, edits] if less else [edits]
    return Offer(rungs, _TURNS)


def _apart(run: RunConfig) -> Offer:
    """Return the offer to generate on separate nodes, one or as many as train; no rungs if the run already does so."""
    if not run.on(nemo_rl.COLOCATED):
        return Offer([], _APART)
    rungs = []
    for count in sorted({1, run.nodes}):
        resources = {f"{nemo_rl.RESOURCES}.num_nodes": count, f"{nemo_rl.RESOURCES}.gpus_per_node": run.gpus}
        rungs.append({nemo_rl.COLOCATED: False, **resources, **nodes(run, run.nodes + count)})
    return Offer(rungs, _APART)


def nodes(run: RunConfig, count: int) -> dict[str, Json]:
    """Return the values for a given number of nodes; a head with GPUs counts as one of them."""
    head = run.value("ray.head.gpus.enabled") is True
    edits: dict[str, Json] = {"=ray.workers.replicas": count - head}
    return {"=job.nodes": count, **edits} if run.value("job.nodes") else edits


def micro_batch(run: RunConfig, key: str, size: int) -> dict[str, Json]:
    """Return the values for a micro batch; NeMo RL's other micro batch is set too if both must be equal."""
    edits: dict[str, Json] = {key: size}
    try:
        is_equal = key in _MICRO_BATCHES and nemo_rl.needs_equal_micro_batches(run)
    except UnknownError:
        return edits
    changed = run.changed(edits)
    return edits | {other: size for other in _MICRO_BATCHES if is_equal and _number(changed, other) != size}


def length(run: RunConfig, key: str, size: int) -> dict[str, Json]:
    """Return the values for a sequence length; NeMo RL's other lengths are set too, unless they refer to it."""
    now, edits = _number(run, key), {key: size}
    for other in _LENGTHS if key == LONGEST else ():
        value = value_at(run.config, other.split(".")) if run.has(other) else None
        if isinstance(value, int) and (value > size or value == now):
            edits[other] = size
    return edits


def _smaller(
    run: RunConfig,
    key: str,
    fits: Mapping[str, int],
    least: int,
    edits: Callable[[RunConfig, str, int], dict[str, Json]],
) -> list[dict[str, Json]]:
    """Return the values for the largest number that fits or, if none is known, for half of it, a quarter and so on."""
    if least <= fits.get(key, 0) < _number(run, key):
        return [edits(run, key, fits[key])]
    return [edits(run, key, size) for each in _halves(run, key, least) for size in each.values()]


def _switch(run: RunConfig, path: str, costs: str) -> Offer:
    """Return the offer to switch on an option, if the version has it."""
    return Offer([{path: True}] if not run.on(path) and run.catalogue.knows(path) else [], costs)


def _halves(run: RunConfig, path: str, least: int) -> list[dict[str, Json]]:
    """Return half of a number, a quarter and so on, down to the minimum; empty if the number is unknown."""
    found, size = [], _number(run, path)
    while size > least > 0:
        size = max(size // 2, least)
        found.append({path: size})
    return found


def _doubles(run: RunConfig, path: str, most: int) -> list[dict[str, Json]]:
    """Return twice a number, four times and so on, up to the maximum."""
    found, size = [], _number(run, path)
    while 0 < size * 2 <= most:
        size *= 2
        found.append({path: size})
    return found


def _shares(run: RunConfig, path: str) -> list[dict[str, Json]]:
    """Return the shares for vLLM, the closest to the current one first."""
    try:
        now = run.number(path)
    except UnknownError:
        return []
    return [{path: share} for share in sorted(_SHARES, key=lambda share: abs(share - now)) if share != now]


def _number(run: RunConfig, path: str) -> int:
    """Return a number, or 0 if it is unknown."""
    try:
        return run.integer(path)
    except UnknownError:
        return 0
