"""Memory: a run fits into its GPUs and its nodes, according to `grpo plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.plan import host, planner
from grpo.plan.advice import limits, offers
from grpo.plan.generation import GENERATION
from grpo.plan.phase import DOES_NOT_FIT
from grpo.problems.topic import Topic
from grpo.values.config import MODEL
from grpo.values.frameworks import nemo_rl, verl
from postrender.finding import Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.plan.phase import Phase
    from grpo.values.config import RunConfig

TOPIC: Final = Topic("memory", framework="", source="")
_MICRO: Final = {
    "nemo-rl": "policy.train_micro_batch_size",
    "verl": "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu",
}
_SHARE: Final = {
    "nemo-rl": "policy.generation.vllm_cfg.gpu_memory_utilization",
    "verl": "actor_rollout_ref.rollout.gpu_memory_utilization",
}
_KEYS: Final = " ".join(key for keys in (MODEL, _MICRO, _SHARE) for key in keys.values())
_FIXES: Final = {
    "model": "take more GPUs or a smaller model; grpo plan lists what lies in the memory",
    "micro": "lower the micro batch or the lengths, or keep fewer activations; grpo plan shows how many tokens fit",
    "share": "choose a share that holds a sequence and leaves room for what lies beside vLLM; grpo plan lists both",
}


@TOPIC.problem(f"{_KEYS} =job.nodes", fails=Fails.AT_FIRST_STEP, source="grpo/plan/training.py at 0.1.0")
def does_not_fit(run: RunConfig) -> Iterator[Finding]:
    """the run does not fit into the memory of its GPUs

    Why: the run fails with CUDA out of memory, by its first step at the latest, when GPUs are already billed
    Fix: see grpo plan for what is in the memory in each phase
    """
    for each in planner.plan(run).phases:
        if each.verdict == DOES_NOT_FIT:
            phase = each.phase
            kind = _kind(phase)
            key, fix = {"model": MODEL, "micro": _MICRO, "share": _SHARE}[kind][run.framework], _FIXES[kind]
            if kind == "micro" and _is_smallest(run, key):
                limit = limits.longest(run)
                key = limit.key
                fits = f"sequences of up to {limit.fits} tokens fit" if limit.fits else "no shorter sequence fits alone"
                fix = f"{fits}, prompt included; grpo plan lists what else helps, and grpo plan --fix writes it"
            needs = f"{phase.name} needs {phase.peak} of a GPU"
            yield Finding(f"{needs}, and {phase.usable} can be used", keys=[key], fix=fix)
            return


def _is_smallest(run: RunConfig, key: str) -> bool:
    """Return whether no smaller micro batch helps: it is filled by tokens, or a single sequence is too much."""
    filled = verl.DYNAMIC if run.framework == "verl" else nemo_rl.DYNAMIC
    if run.on(filled) or (run.framework == "nemo-rl" and run.on(nemo_rl.PACKING)) or run.integer(key) <= 1:
        return True
    return planner.plan(run.changed(offers.micro_batch(run, key, 1))).verdict == DOES_NOT_FIT


def _kind(phase: Phase) -> str:
    """Return what to change first. A smaller micro batch does not help a phase that is too big even with no tokens."""
    if phase.name == GENERATION:
        return "share"
    return "micro" if phase.at(0) < phase.usable * phase.share else "model"


@TOPIC.problem("=accelerator.worker.memory", fails=Fails.AT_FIRST_STEP, source="grpo/plan/host.py at 0.1.0")
def host_(run: RunConfig) -> Iterator[Finding]:
    """a node's memory is too small for what the run keeps there

    Why: the kernel (exit code 137) or Ray kills a worker when the first weights move out of the GPUs
    Fix: give the worker more memory, or move less there: fewer offloads, more nodes
    """
    setup = planner.plan(run).setup
    if setup and host.verdict(setup) == DOES_NOT_FIT:
        has = f"accelerator.worker.memory is {run.value('accelerator.worker.memory')}"
        yield Finding(f"a node needs {host.peak(setup)} of memory, and {has}")
