"""The arguments of vLLM's engine."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

from postrender.finding import WARNING, Finding
from postrender.rules.values.checks import quoted
from postrender.rules.values.nemo_rl.generation import RESERVED
from postrender.rules.values.nemo_rl.run import GENERATION, TOPIC, VLLM, WORKER, is_vllm
from postrender.values import catalogue

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from postrender.types import Json
    from postrender.values.config import Effective

_KWARGS: Final = f"{GENERATION}.vllm_kwargs"
_PRECISION: Final = f"{VLLM}.precision"


def _given(run: Effective) -> Mapping[str, Json]:
    """Return the arguments of vllm_kwargs, without those that another rule refuses."""
    given = run.at(_KWARGS) if is_vllm(run) else None
    return {name: value for name, value in given.items() if name not in RESERVED} if isinstance(given, dict) else {}


@TOPIC.rule(
    "vllm-argument",
    "S52",
    _KWARGS,
    title="vllm_kwargs has only arguments that this version's vLLM takes",
    why=WORKER,
    fix="write an argument of vLLM's engine, with underscores; settings of NeMo RL belong to vllm_cfg",
    source="nemo_rl/models/generation/vllm/vllm_worker.py:456 at v0.7.0",
)
def _arguments(run: Effective) -> Iterator[Finding]:
    engine = catalogue.engine(run.catalogue.vllm)
    known = {*engine.keys, *(engine.served if run.on(f"{VLLM}.async_engine") else engine.offline)}
    for name in _given(run):
        if name not in known:
            close = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.6)
            fix = f"did you mean {close[0]}?" if close else ""
            what = f"{name} is not an argument of vLLM {run.catalogue.vllm}"
            yield Finding(what, keys=[f"{_KWARGS}.{name}", _KWARGS], fix=fix)


@TOPIC.rule(
    "vllm-argument-word",
    "S53",
    _KWARGS,
    title="the words in vllm_kwargs are those that vLLM knows",
    why=WORKER,
    fix="write one of the words",
    source="vllm/config/cache.py:74 at v0.20.0",
)
def _words(run: Effective) -> Iterator[Finding]:
    engine = catalogue.engine(run.catalogue.vllm)
    for name, value in _given(run).items():
        allowed = engine.keys.get(name)
        if not isinstance(allowed, list) or not isinstance(value, str):
            continue
        # vLLM itself takes capitals and hyphens in some of them.
        if value.lower().replace("-", "_") not in allowed:
            words = ", ".join(map(quoted, allowed))
            yield Finding(f"{name} is {quoted(value)}, expected one of {words}", keys=[f"{_KWARGS}.{name}"])


@TOPIC.rule(
    "vllm-precision",
    "S54",
    _PRECISION,
    title="the precision of generation is one that vLLM knows",
    why=WORKER,
    fix="write bfloat16, or fp8",
    source="nemo_rl/models/generation/vllm/vllm_worker.py:446 at v0.7.0",
)
def _precision(run: Effective) -> str | None:
    value, types = run.at(_PRECISION), catalogue.engine(run.catalogue.vllm).keys["dtype"]
    known = (*types, "fp8")
    if not is_vllm(run) or not isinstance(value, str) or value.lower() in known:
        return None
    return f"vllm_cfg.precision is {quoted(value)}, expected one of {', '.join(map(quoted, known))}"


@TOPIC.rule(
    "vllm-argument-overwritten",
    "S55",
    _KWARGS,
    title="vllm_kwargs has no argument that NeMo RL overwrites",
    why="silent: NeMo RL writes its own value over it before vLLM starts",
    fix="remove it; what hf_overrides should change belongs to policy.hf_config_overrides",
    source="nemo_rl/algorithms/grpo.py:1024 at v0.7.0",
    severity=WARNING,
)
def _overwritten(run: Effective) -> Iterator[Finding]:
    names = ("distributed_executor_backend", *(("hf_overrides",) if run.since("v0.6.0") else ()))
    given = _given(run)
    for name in names:
        if given.get(name):
            yield Finding(f"NeMo RL overwrites {name} of vllm_kwargs", keys=[f"{_KWARGS}.{name}", _KWARGS])
