"""Numbers out of range: parallel sizes, lengths, counts and periods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from grpo.problems.checks import Test, within
from grpo.problems.frameworks.nemo_rl import TOPIC
from grpo.values.frameworks.nemo_rl import (
    DTENSOR,
    DYNAMIC,
    GENERATION,
    MEGATRON,
    VLLM,
    is_megatron,
    is_v2,
    is_vllm,
    validates,
)
from grpo.values.reference_errors import UnknownError
from postrender.finding import WARNING, Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from grpo.values.config import RunConfig

_SHAPING: Final = "grpo.reward_shaping"
_THRESHOLD: Final = "grpo.seq_logprob_error_threshold"
_PORTS: Final = 65536
_SAVE: Final = "checkpointing.save_period"


def _always(_: RunConfig) -> bool:
    return True


@dataclass(frozen=True)
class _Range:
    """A number's range, what happens outside of it, and the runs that read the number."""

    path: str
    test: Test
    effect: str = ""
    reads: Callable[[RunConfig], bool] = _always
    fix: str = ""

    def findings(self, run: RunConfig) -> Iterator[Finding]:
        try:
            what = self.test(run) if self.reads(run) else None
        except UnknownError:
            return
        if what:
            yield Finding(f"{what}: {self.effect}" if self.effect else what, keys=[self.path], fix=self.fix)


def _one_or_more(path: str, effect: str = "", reads: Callable[[RunConfig], bool] = _always) -> _Range:
    return _Range(path, within(path, least=1), effect, reads)


def _findings(ranges: Iterable[_Range], run: RunConfig) -> Iterator[Finding]:
    for each in ranges:
        yield from each.findings(run)


def _is_dtensor(run: RunConfig) -> bool:
    return not is_megatron(run)


_SIZES: Final = (
    _one_or_more(f"{DTENSOR}.tensor_parallel_size", reads=_is_dtensor),
    _one_or_more(f"{DTENSOR}.context_parallel_size", reads=_is_dtensor),
    _one_or_more(f"{DTENSOR}.expert_parallel_size", reads=is_v2),
    _one_or_more(f"{DTENSOR}.dp_replicate_size", reads=is_v2),
    _one_or_more(f"{MEGATRON}.tensor_model_parallel_size", reads=is_megatron),
    _one_or_more(f"{MEGATRON}.pipeline_model_parallel_size", reads=is_megatron),
    _one_or_more(f"{MEGATRON}.context_parallel_size", reads=is_megatron),
    _one_or_more(f"{MEGATRON}.expert_model_parallel_size", reads=is_megatron),
    _one_or_more(f"{MEGATRON}.expert_tensor_parallel_size", reads=is_megatron),
    _one_or_more(f"{VLLM}.tensor_parallel_size", reads=is_vllm),
    _one_or_more(f"{VLLM}.pipeline_parallel_size", reads=is_vllm),
)


@TOPIC.problem(
    " ".join(each.path for each in _SIZES),
    fails=Fails.AT_SETUP,
    source="nemo_rl/models/policy/lm_policy.py:207 at v0.7.0",
    logs="The data parallel size (DP = world_size / (PP * CP * TP)) must be a positive int",
)
def parallel_size(run: RunConfig) -> Iterator[Finding]:
    """a parallel size is below 1

    Why: NeMo RL divides the GPUs by it, at setup or while the workers start, when GPUs are already billed
    Fix: set it to 1, or to a size that divides the number of GPUs
    """
    yield from _findings(_SIZES, run)


_LENGTHS: Final = (
    _one_or_more("policy.max_total_sequence_length", "no sequence fits"),
    _one_or_more(f"{VLLM}.max_model_len", "vLLM refuses it when it starts", is_vllm),
    _one_or_more(f"{GENERATION}.max_new_tokens", "vLLM refuses the first request", is_vllm),
    _one_or_more("data.max_input_seq_length", "every prompt is too long, so no answer counts"),
    _one_or_more("policy.make_sequence_length_divisible_by", "padding divides by it"),
    _one_or_more("policy.logprob_chunk_size", "the sequence is cut into chunks of it", _is_dtensor),
    _one_or_more("policy.dynamic_batching.sequence_length_round", "padding divides by it", lambda run: run.on(DYNAMIC)),
)


@TOPIC.problem(
    " ".join(each.path for each in _LENGTHS),
    fails=Fails.AT_FIRST_STEP,
    source="nemo_rl/data/llm_message_utils.py:335 at v0.7.0",
)
def length_not_positive(run: RunConfig) -> Iterator[Finding]:
    """a sequence length, or a number that divides one, is below 1

    Fix: set it to a whole number of 1 or more
    """
    yield from _findings(_LENGTHS, run)


def _loads_validation(run: RunConfig) -> bool:
    return validates(run) and run.at("grpo.val_batch_size") is not None


def _within_gpu(run: RunConfig) -> str | None:
    memory = run.value("accelerator.gpuMemoryGigabytes")
    return within(_REFIT, below=memory)(run) if isinstance(memory, int | float) else None


_REFIT: Final = "policy.refit_buffer_size_gb"
_AGE: Final = "grpo.async_grpo.max_trajectory_age_steps"
_COUNTS: Final = (
    _one_or_more("grpo.val_batch_size", "the data loader refuses it", _loads_validation),
    _Range("data.num_workers", within("data.num_workers", least=0), "the data loader refuses it"),
    _Range("grpo.seed", within("grpo.seed", least=0, below=2.0**32), "NumPy refuses it as a seed"),
    _one_or_more(_AGE, "the replay buffer refuses its size", lambda run: run.on("grpo.async_grpo.enabled")),
    _Range(
        "grpo.batch_multiplier",
        within("grpo.batch_multiplier", above=0),
        "a batch has no prompts",
        lambda run: run.on("grpo.use_dynamic_sampling"),
    ),
    _Range(_REFIT, within(_REFIT, above=0), "no weight fits into the buffer that brings it to generation"),
    _Range(_REFIT, _within_gpu, "the buffer is in the memory of one GPU"),
)


@TOPIC.problem(
    " ".join(each.path for each in _COUNTS),
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/grpo.py:362 at v0.7.0",
)
def count_out_of_range(run: RunConfig) -> Iterator[Finding]:
    """a number that setup reads is out of its range

    Fix: use a number in the range
    """
    yield from _findings(_COUNTS, run)


def _penalizes(run: RunConfig) -> bool:
    return run.number("loss_fn.reference_policy_kl_penalty") > 0


_NOTHING_LEFT: Final = (
    _one_or_more("grpo.max_rollout_turns", "no answer is generated"),
    _one_or_more(_THRESHOLD, "the error is never below 1, so every sequence is masked"),
    _Range(
        "policy.max_grad_norm",
        within("policy.max_grad_norm", above=0),
        "every gradient is multiplied by it",
        _is_dtensor,
        "write 1.0, or null to switch clipping off",
    ),
    *(
        _Range(path, within(path, above=0), "the KL penalty is the same for every token", _penalizes)
        for path in ("loss_fn.kl_input_clamp_value", "loss_fn.kl_output_clamp_value")
    ),
    *(
        _Range(path, within(path, least=0), "the clipped ratio never changes")
        for path in ("loss_fn.ratio_clip_min", "loss_fn.ratio_clip_max")
    ),
    _Range(
        "loss_fn.reference_policy_kl_penalty",
        within("loss_fn.reference_policy_kl_penalty", least=0),
        "the loss rewards distance from the reference model",
    ),
)


@TOPIC.problem(
    " ".join(each.path for each in _NOTHING_LEFT),
    fails=Fails.SILENT,
    source="nemo_rl/models/dtensor/parallelize.py:802 at v0.7.0",
)
def nothing_to_learn(run: RunConfig) -> Iterator[Finding]:
    """a training limit is too low, so the model learns nothing, or the opposite

    Why: the run uses its GPUs to the end, but the model learns nothing, or the opposite of what it should
    Fix: use a number in the range
    """
    yield from _findings(_NOTHING_LEFT, run)


@TOPIC.problem(_SAVE, fails=Fails.AT_FIRST_STEP, source="nemo_rl/algorithms/grpo.py:2875 at v0.7.0")
def save_period_zero(run: RunConfig) -> str | None:
    """checkpointing.save_period is 0

    Why: the first step ends with a division by zero, even if checkpointing is off
    Fix: set the number of steps between checkpoints; to save none, set checkpointing.enabled to false
    """
    # The last step saves without looking at the period.
    return f"{_SAVE} is 0" if run.number(_SAVE) == 0 and run.number("grpo.max_num_steps") != 1 else None


@TOPIC.problem(_SAVE, fails=Fails.SILENT, source="nemo_rl/algorithms/grpo.py:2875 at v0.7.0", severity=WARNING)
def save_period_negative(run: RunConfig) -> str | None:
    """checkpointing.save_period is negative

    Why: NeMo RL saves whenever the period divides the step, so -1 saves at every step
    Fix: set the number of steps between checkpoints; to save none, set checkpointing.enabled to false
    """
    period = run.number(_SAVE) if run.on("checkpointing.enabled") else 0
    return f"{_SAVE} is {period:g}, which saves every {-period:g} steps" if period < 0 else None


@TOPIC.problem(
    "checkpointing.keep_top_k", fails=Fails.SILENT, source="nemo_rl/utils/checkpoint.py:307 at v0.7.0", severity=WARNING
)
def keeps_no_best(run: RunConfig) -> str | None:
    """the number of best checkpoints to keep is below 1

    Why: 0 keeps only the newest checkpoint; a negative number keeps all but the worst ones
    Fix: set the number to keep, for instance 3; a large number keeps all
    """
    return within("checkpointing.keep_top_k", least=1)(run) if run.on("checkpointing.enabled") else None


@TOPIC.problem(
    "cluster.master_port_range_low cluster.master_port_range_high",
    fails=Fails.AT_SETUP,
    source="nemo_rl/distributed/virtual_cluster.py:165 at v0.7.0",
    since="v0.7.0",
)
def port_range(run: RunConfig) -> Iterator[Finding]:
    """a port range is empty, reversed, or outside the valid ports

    Fix: set two ports, the lower one first, or remove both
    """
    sections = ["cluster.master_port_range"]
    sections += [f"{GENERATION}.port_range"] if is_vllm(run) and run.on(f"{VLLM}.expose_http_server") else []
    for path in sections:
        low, high = run.number(f"{path}_low"), run.number(f"{path}_high")
        if not 0 < low < high <= _PORTS:
            what = f"{path}_low is {low:g} and {path.rpartition('.')[2]}_high {high:g}"
            yield Finding(what, keys=[f"{path}_low", f"{path}_high"])


_share = within(f"{VLLM}.gpu_memory_utilization", above=0, below=1)


@TOPIC.problem(
    f"{VLLM}.gpu_memory_utilization",
    fails=Fails.AT_LOADING,
    source="nemo_rl/models/generation/vllm/vllm_worker.py:444 at v0.7.0",
)
def gpu_memory_share(run: RunConfig) -> str | None:
    """vLLM's share of GPU memory is not between 0 and 1

    Why: vLLM rejects it at startup: the value is a fraction of total memory, some of which is always in use
    Fix: set a fraction such as 0.6 (colocated) or 0.9 (generation on its own GPUs)
    """
    return _share(run) if is_vllm(run) else None


@TOPIC.problem(
    f"{_SHAPING}.overlong_buffer_length {_SHAPING}.max_response_length",
    fails=Fails.AT_FIRST_STEP,
    source="nemo_rl/algorithms/reward_functions.py:169 at v0.7.0",
)
def overlong_buffer(run: RunConfig) -> str | None:
    """overlong_buffer_length is 0 or less, or not below max_response_length

    Why: 0 divides by zero at the first reward; a buffer as long as the response penalizes every answer
    Fix: set the number of final tokens in which the penalty grows, for instance a fifth of max_response_length
    """
    stops = run.since("v0.6.0") and run.at(f"{_SHAPING}.stop_properly_penalty_coef") is not None
    if not run.on(f"{_SHAPING}.enabled") or stops:
        return None
    buffer, longest = run.number(f"{_SHAPING}.overlong_buffer_length"), run.number(f"{_SHAPING}.max_response_length")
    if buffer <= 0:
        return within(f"{_SHAPING}.overlong_buffer_length", above=0)(run)
    wrong = f"overlong_buffer_length {buffer:g} is not less than max_response_length {longest:g}"
    return wrong if buffer >= longest else None


@TOPIC.problem(
    "grpo.reward_scaling.source_min grpo.reward_scaling.source_max grpo.reward_scaling.enabled",
    fails=Fails.SILENT,
    source="nemo_rl/algorithms/grpo.py:1420 at v0.7.0",
)
def reward_scaling(run: RunConfig) -> str | None:
    """source_min of reward_scaling is not below source_max

    Why: an empty range makes every reward NaN, and a reversed one makes all rewards equal
    Fix: set a source_min below source_max, for instance 0 and 1
    """
    if not run.on("grpo.reward_scaling.enabled"):
        return None
    least, most = run.number("grpo.reward_scaling.source_min"), run.number("grpo.reward_scaling.source_max")
    return f"reward_scaling.source_min {least:g} is not below source_max {most:g}" if least >= most else None


@TOPIC.problem(
    "grpo.advantage_clip_low grpo.advantage_clip_high",
    fails=Fails.SILENT,
    source="nemo_rl/algorithms/grpo.py:1844 at v0.7.0",
    since="v0.7.0",
)
def advantage_clip(run: RunConfig) -> str | None:
    """the lower bound of advantages is not below the upper one

    Why: every advantage becomes the upper bound, so the reward no longer matters
    Fix: set a negative advantage_clip_low and a positive advantage_clip_high, or null
    """
    low, high = run.number("grpo.advantage_clip_low"), run.number("grpo.advantage_clip_high")
    return f"advantage_clip_low {low:g} is not below advantage_clip_high {high:g}" if low >= high else None
