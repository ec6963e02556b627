"""What the readers of training output report: steps, validations and phases, with one name per measure.

A job reads its own output with these modules, and so does `grpo watch`: they import only the standard library.

    reader = log_readers.reader("nemo-rl")
    for event in reader.feed(text):  # any piece of the output, cut anywhere
        ...
    reader.end()                     # what was not yet complete
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Protocol

# The phases of a step by one name in both frameworks. A timer that is none of them keeps the name that it has.
GENERATION: Final = "generation"
LOGPROBS: Final = "logprobs"
TRAINING: Final = "training"
REFIT: Final = "refit"
REWARDS: Final = "rewards"
CHECKPOINT: Final = "checkpoint"
VALIDATION: Final = "validation"
# What a run does outside these: it starts, it works on a step, it ends by itself.
LOADING: Final = "loading"
STEP: Final = "step"
ENDED: Final = "ended"


@dataclass
class Step:
    """A complete step; a measure that is missing from the output is None.

    `number` counts the run's steps from 1. Times are in seconds, memory is in GiB, and lengths are in tokens.
    """

    number: int
    # The line of the output, counted from 1, at which the step is complete.
    line: int = 0
    # Mean over the samples of the step, and the lowest and highest of one sample.
    reward: float | None = None
    reward_min: float | None = None
    reward_max: float | None = None
    # Mean number of generated tokens, and the share of generations that reached the limit.
    length: float | None = None
    truncated: float | None = None
    loss: float | None = None
    grad_norm: float | None = None
    entropy: float | None = None
    # KL divergence from the reference model; between the policy and the engine that generates.
    kl: float | None = None
    generation_kl: float | None = None
    # Mean ratio of the probabilities of the policy and of the engine that generates: 1 where they agree.
    importance_ratio: float | None = None
    seconds: float | None = None
    phases: dict[str, float] = field(default_factory=dict)
    tokens_per_second_per_gpu: float | None = None
    memory_gib: float | None = None


@dataclass(frozen=True)
class Validation:
    """A complete validation after step `number` (0: before training); reward is the accuracy if that is printed."""

    number: int | None = None
    reward: float | None = None
    length: float | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Phase:
    """The run enters a phase: LOADING, STEP, VALIDATION, CHECKPOINT or ENDED; `step` is its number if known."""

    name: str
    step: int | None = None


Event = Step | Validation | Phase


class Reader(Protocol):
    """Read training output piece by piece; the events do not depend on where the pieces are cut."""

    def feed(self, text: str) -> list[Event]:
        """Return the events completed by this piece."""

    def end(self) -> list[Event]:
        """Return the events completed by the end of the output; an incomplete step is not one of them."""
