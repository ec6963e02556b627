"""The vLLM engine's arguments."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

from grpo.problems.checks import quoted
from grpo.problems.frameworks.nemo_rl import TOPIC
from grpo.problems.generation.values_nemo_rl import RESERVED
from grpo.values import catalogue
from grpo.values.frameworks.nemo_rl import GENERATION, VLLM, is_vllm
from postrender.finding import WARNING, Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from grpo.values.config import RunConfig
    from postrender.types import Json

_KWARGS: Final = f"{GENERATION}.vllm_kwargs"
_AT_LEAST_ONE: Final = ("max_num_seqs", "max_num_batched_tokens")
_PRECISION: Final = f"{VLLM}.precision"
_TRANSPORT: Final = f"{GENERATION}.refit_transport"
_TRANSPORTS: Final = ("nccl_reshard", "vllm_s3_sparse", "vllm_zmq_sparse", "nixl")
_MEDIA: Final = "grpo.deduplicate_multimodal_data"
_PLANE: Final = "data_plane.enabled"


def _given(run: RunConfig) -> Mapping[str, Json]:
    """Return the arguments in vllm_kwargs, without those that another rule rejects."""
    given = run.at(_KWARGS) if is_vllm(run) else None
    return {name: value for name, value in given.items() if name not in RESERVED} if isinstance(given, dict) else {}


@TOPIC.problem(_KWARGS, fails=Fails.AT_LOADING, source="nemo_rl/models/generation/vllm/vllm_worker.py:456 at v0.7.0")
def vllm_argument(run: RunConfig) -> Iterator[Finding]:
    """vllm_kwargs has an argument that this version's vLLM does not accept

    Fix: use a vLLM engine argument, with underscores; NeMo RL settings belong in vllm_cfg
    """
    engine = catalogue.engine(run.catalogue.vllm)
    known = {*engine.keys, *(engine.served if run.on(f"{VLLM}.async_engine") else engine.offline)}
    for name in _given(run):
        if name not in known:
            close = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.6)
            fix = f"did you mean {close[0]}?" if close else ""
            what = f"{name} is not an argument of vLLM {run.catalogue.vllm}"
            yield Finding(what, keys=[f"{_KWARGS}.{name}", _KWARGS], fix=fix)


def _wrong(name: str, value: Json, wanted: str | list[str | None] | None) -> str:
    """Return what is wrong with an argument's value; empty if vLLM may accept the value."""
    if name in _AT_LEAST_ONE and isinstance(value, (int, float)) and value < 1:
        return f"{name} is {quoted(value)}, expected 1 or more"
    if not isinstance(value, str):
        return ""
    if isinstance(wanted, list):
        # vLLM itself takes capitals and hyphens in some of them.
        known = value.lower().replace("-", "_") in wanted
        return "" if known else f"{name} is {quoted(value)}, expected one of {', '.join(map(quoted, wanted))}"
    # Any text is true.
    return f"{name} is {quoted(value)}, expected true or false" if wanted in ("boolean", "boolean|null") else ""


@TOPIC.problem(_KWARGS, fails=Fails.AT_LOADING, source="vllm/config/scheduler.py:49 at v0.20.0")
def vllm_argument_value(run: RunConfig) -> Iterator[Finding]:
    """an argument in vllm_kwargs has a value that vLLM does not accept

    Why: vLLM rejects it at startup, minutes into the job; a string in place of a boolean counts as true
    Fix: use one of the allowed words, a boolean without quotes, or a number of 1 or more
    """
    engine = catalogue.engine(run.catalogue.vllm)
    for name, value in _given(run).items():
        what = _wrong(name, value, engine.keys.get(name))
        if what:
            yield Finding(what, keys=[f"{_KWARGS}.{name}", _KWARGS])


@TOPIC.problem(_PRECISION, fails=Fails.AT_LOADING, source="nemo_rl/models/generation/vllm/vllm_worker.py:446 at v0.7.0")
def vllm_precision(run: RunConfig) -> str | None:
    """vllm_cfg.precision is unknown to vLLM

    Fix: use bfloat16 or fp8
    """
    value, types = run.at(_PRECISION), catalogue.engine(run.catalogue.vllm).keys["dtype"]
    known = (*types, "fp8")
    if not is_vllm(run) or not isinstance(value, str) or value.lower() in known:
        return None
    return f"vllm_cfg.precision is {quoted(value)}, expected one of {', '.join(map(quoted, known))}"


@TOPIC.problem(_KWARGS, fails=Fails.SILENT, source="nemo_rl/algorithms/grpo.py:1024 at v0.7.0", severity=WARNING)
def vllm_argument_overwritten(run: RunConfig) -> Iterator[Finding]:
    """vllm_kwargs has an argument that NeMo RL overwrites

    Why: NeMo RL replaces it with its own value before vLLM starts
    Fix: remove it; settings for hf_overrides belong in policy.hf_config_overrides
    """
    names = ("distributed_executor_backend", *(("hf_overrides",) if run.since("v0.6.0") else ()))
    given = _given(run)
    for name in names:
        if given.get(name):
            yield Finding(f"NeMo RL overwrites {name} of vllm_kwargs", keys=[f"{_KWARGS}.{name}", _KWARGS])


# What shipped configurations write into vllm_cfg although nothing reads it there, and where it belongs.
_MISPLACED: Final = {
    "enable_expert_parallel": "set expert_parallel_size of vllm_cfg instead",
    "limit_mm_per_prompt": "write it under vllm_kwargs",
    "max_num_seqs": "write it under vllm_kwargs",
}


@TOPIC.problem(
    VLLM, fails=Fails.SILENT, source="nemo_rl/models/generation/vllm/vllm_worker.py:436 at v0.7.0", severity=WARNING
)
def vllm_argument_misplaced(run: RunConfig) -> Iterator[Finding]:
    """vllm_cfg has an argument that NeMo RL does not read there

    Why: NeMo RL ignores it, and vLLM uses its default instead
    Fix: move it to policy.generation.vllm_kwargs
    """
    for name, fix in _MISPLACED.items() if is_vllm(run) else ():
        path = f"{VLLM}.{name}"
        if run.catalogue.knows(path) and run.given_has(path) and run.at(path):
            yield Finding(f"NeMo RL does not read {name} of vllm_cfg", keys=[path], fix=fix)


@TOPIC.problem(
    f"{_TRANSPORT} {GENERATION}.backend",
    fails=Fails.AT_SETUP,
    source="nemo_rl/models/generation/vllm/config.py:273 at 7ea279ab",
    since="v0.8.0",
)
def refit_transport(run: RunConfig) -> str | None:
    """refit_transport is unknown to the generation backend

    Fix: use null, nccl_reshard, vllm_s3_sparse, vllm_zmq_sparse, nixl or module:Class; for other backends, only null
    """
    way = run.at(_TRANSPORT)
    if way is None:
        return None
    if not is_vllm(run):
        return f"refit_transport is {quoted(way)}, and the backend is {quoted(run.at(f'{GENERATION}.backend'))}"
    known = way in _TRANSPORTS or (isinstance(way, str) and ":" in way)
    return (
        None if known else f"refit_transport is {quoted(way)}, expected one of {', '.join(_TRANSPORTS)}, module:Class"
    )


@TOPIC.problem(
    f"{_MEDIA} {GENERATION}.backend {_PLANE}",
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/grpo.py:384 at 7ea279ab",
    since="v0.8.0",
)
def media_deduplication(run: RunConfig) -> Iterator[Finding]:
    """media deduplication is on, but vLLM does not generate or the data plane is on

    Fix: set grpo.deduplicate_multimodal_data to false
    """
    if not run.on(_MEDIA):
        return
    if not is_vllm(run):
        yield Finding(
            f"it is on, and the backend is {quoted(run.at(f'{GENERATION}.backend'))}", proposed={_MEDIA: False}
        )
    elif run.on(_PLANE):
        yield Finding("it is on, and data_plane.enabled is on", proposed={_MEDIA: False})
