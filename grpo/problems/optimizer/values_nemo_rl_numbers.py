"""Learning rates and Adam's moments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.checks import quoted
from grpo.problems.frameworks.nemo_rl import TOPIC
from grpo.values.frameworks.nemo_rl import MEGATRON, is_megatron
from grpo.values.reference_errors import UnknownError
from postrender.finding import WARNING, Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from grpo.values.config import RunConfig
    from postrender.types import Json

_KWARGS: Final = "policy.optimizer.kwargs"
_OPTIMIZER: Final = f"{MEGATRON}.optimizer"
_SCHEDULER: Final = f"{MEGATRON}.scheduler"
_RATES: Final = f"{_KWARGS}.lr {_OPTIMIZER}.lr"
_SMALL, _LARGE = 1e-9, 1e-2


def _rate(run: RunConfig) -> tuple[str, float]:
    """Return the training backend's learning rate, with its key."""
    path = f"{_OPTIMIZER if is_megatron(run) else _KWARGS}.lr"
    return path, run.number(path)


@TOPIC.problem(_RATES, fails=Fails.SILENT, source="examples/configs/grpo_math_1B.yaml:290 at v0.7.0", severity=WARNING)
def learning_rate(run: RunConfig) -> Iterator[Finding]:
    """NeMo RL's learning rate is unusually low or high

    Why: below the usual range, a bfloat16 step changes no weights; above it, the model diverges within a few steps
    Fix: use a rate such as 1.0e-6 for all weights, or 1.0e-4 for LoRA
    """
    path, rate = _rate(run)
    if rate >= 0 and not _SMALL <= rate <= _LARGE:
        yield Finding(f"{path} is {rate:g}, expected {_SMALL:g} to {_LARGE:g}", keys=[path])


@TOPIC.problem(
    f"{_RATES} {_KWARGS}.weight_decay {_KWARGS}.eps {_SCHEDULER}.start_weight_decay",
    fails=Fails.AT_LOADING,
    source="torch/optim/adam.py:59 at v2.11.0",
)
def optimizer_negative(run: RunConfig) -> Iterator[Finding]:
    """a learning rate, weight decay or epsilon is negative

    Fix: set it to a number of 0 or more
    """
    if is_megatron(run):
        paths = [f"{_OPTIMIZER}.lr", f"{_OPTIMIZER}.min_lr", f"{_SCHEDULER}.start_weight_decay"]
    else:
        paths = [f"{_KWARGS}.{name}" for name in ("lr", "weight_decay", "eps")]
    for path, number in _numbers(run, paths):
        if number < 0:
            yield Finding(f"{path} is {number:g}", keys=[path])


def _numbers(run: RunConfig, paths: Iterable[str]) -> Iterator[tuple[str, float]]:
    """Yield each key that has a number, with the number."""
    for path in paths:
        try:
            yield path, run.number(path)
        except UnknownError:
            continue


def _are_two_numbers(given: list[Json]) -> bool:
    return len(given) == 2 and all(isinstance(each, int | float) and not isinstance(each, bool) for each in given)


@TOPIC.problem(
    f"{_KWARGS}.betas {_OPTIMIZER}.adam_beta1 {_OPTIMIZER}.adam_beta2",
    fails=Fails.AT_LOADING,
    source="torch/optim/adam.py:63 at v2.11.0",
)
def betas_(run: RunConfig) -> Iterator[Finding]:
    """Adam's betas are not two numbers of at least 0 and below 1

    Why: PyTorch rejects them when the workers start; Megatron divides by 1 - beta, and every weight becomes NaN
    Fix: set them to [0.9, 0.999]
    """
    megatron, betas = is_megatron(run), f"{_KWARGS}.betas"
    given = run.at(betas)
    if not megatron and isinstance(given, list) and not _are_two_numbers(given):
        yield Finding(f"{betas} is {quoted(given)}, expected two numbers", keys=[betas])
        return
    paths = [f"{_OPTIMIZER}.adam_beta1", f"{_OPTIMIZER}.adam_beta2"] if megatron else [f"{betas}.0", f"{betas}.1"]
    for path, beta in _numbers(run, paths):
        if not 0 <= beta < 1:
            what = f"{path} is {beta:g}, expected 0 or more, and less than 1"
            yield Finding(what, keys=[path if megatron else betas])
