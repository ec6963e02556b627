"""What NeMo RL from v0.8.0 on rejects about sampling for validation, and about ending a run by a validation result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.checks import quoted
from grpo.problems.frameworks.nemo_rl import TOPIC
from grpo.values.frameworks.nemo_rl import GENERATION, is_controlled, is_vllm
from postrender.finding import Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

_FIRST: Final = "v0.8.0"
_GYM: Final = "env.should_use_nemo_gym"
_SAMPLED: Final = ("temperature", "top_p", "top_k")
_METRIC: Final = "grpo.stop_at_validation_metric"
_THRESHOLD: Final = "grpo.stop_at_validation_threshold"
_ANSWERS: Final = "grpo.val_num_generations_per_prompt"


@TOPIC.problem(
    " ".join(f"{GENERATION}.val_{name}" for name in _SAMPLED),
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/grpo.py:506 at 7ea279ab",
    since=_FIRST,
)
def validation_sampling(run: RunConfig) -> Iterator[Finding]:
    """this run does not support separate sampling settings for validation

    Fix: remove it, so that validation samples as training does; with NeMo-Gym, leave val_top_k null
    """
    keys = {f"{GENERATION}.val_{name}": f"{GENERATION}.{name}" for name in _SAMPLED}
    changed = [key for key, trained in keys.items() if run.at(key) != run.at(trained)]
    if is_controlled(run) or not changed:
        return
    if not is_vllm(run) or not run.on(_GYM):
        for key in changed:
            name = key.rpartition(".")[2]
            what = f"{name} is {quoted(run.at(key))}, and the training's is {quoted(run.at(keys[key]))}"
            yield Finding(what, keys=[key])
    elif run.on(f"{GENERATION}.val_top_k"):
        what = f"val_top_k is {quoted(run.at(f'{GENERATION}.val_top_k'))}, and NeMo-Gym does not read it"
        yield Finding(what, keys=[f"{GENERATION}.val_top_k"])


@TOPIC.problem(
    f"{_METRIC} {_THRESHOLD} {_ANSWERS}",
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/grpo.py:578 at 7ea279ab",
    since=_FIRST,
)
def stop_by_validation(run: RunConfig) -> Iterator[Finding]:
    """validation samples too few answers, or lacks the threshold to stop at

    Fix: set grpo.stop_at_validation_threshold; for pass_k also set val_num_generations_per_prompt above 1
    """
    metric, answers = run.at(_METRIC), run.integer(_ANSWERS)
    if is_controlled(run):
        return
    if answers < 1:
        yield Finding(f"val_num_generations_per_prompt is {answers}, expected 1 or more", keys=[_ANSWERS])
    elif metric == "pass_k" and answers == 1:
        what = 'stop_at_validation_metric is "pass_k", and val_num_generations_per_prompt is 1'
        yield Finding(what, keys=[_ANSWERS, _METRIC])
    if metric is not None and run.at(_THRESHOLD) is None:
        yield Finding(f"stop_at_validation_metric is {quoted(metric)}, without a threshold", keys=[_METRIC])
