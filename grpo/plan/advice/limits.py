"""Find the limits that still fit: the longest sequence, the largest micro batch and the smallest number of nodes."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Final, NamedTuple

from grpo.plan import planner
from grpo.plan.advice import offers
from grpo.plan.advice.changes import worst
from grpo.plan.phase import FITS
from grpo.values.frameworks import nemo_rl, verl
from grpo.values.reference_errors import UnknownError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from grpo.values.config import RunConfig
    from postrender.types import Json

    Sound = Callable[[RunConfig], bool]

_MOST_TOKENS: Final = 2**20
_MOST_SEQUENCES: Final = 512
_MOST_NODES: Final = 64
# A length is a multiple of this.
_STEP: Final = 64


class Limit(NamedTuple):
    """The limit of one value: what it limits, the key, its current value, and the last value that fits, or None.

    `is_whole` is false if the search stopped before it reached the limit.
    """

    what: str
    key: str
    now: int
    fits: int | None
    is_whole: bool = True


def fitting(found: Sequence[Limit]) -> dict[str, int]:
    """Return the last values that fit, by key."""
    return {each.key: each.fits for each in found if each.fits is not None}


def limits(run: RunConfig, is_sound: Sound) -> list[Limit]:
    """Return a run's limits, each with everything else unchanged; empty if the run is not modelled."""
    if not worst(planner.plan(run)):
        return []
    found = [longest(run), _micro_batch(run, is_sound), _nodes(run, is_sound)]
    return [each for each in found if each]


def _fits(run: RunConfig, edits: Mapping[str, Json]) -> bool:
    return worst(planner.plan(run.changed(edits))) == FITS


def _has_room(plan: planner.Plan) -> bool:
    """Return whether a micro batch that is filled up to a number of tokens has room for the longest sequence."""
    micros = (plan.setup.trainer.train, plan.setup.trainer.logprob) if plan.setup else ()
    return all(micro.budget >= micro.length for micro in micros if micro.budget)


def longest(run: RunConfig) -> Limit:
    """Return the longest prompt and answer that fit, up to the model's limit; very short ones do not count."""
    if run.framework == "verl":
        key, prompt = "data.max_response_length", run.integer("data.max_prompt_length")
        model = verl.model_of(run)
    else:
        key, prompt = offers.LONGEST, 0
        model = nemo_rl.model_of(run)
    try:
        most = min(model.positions() - prompt, _MOST_TOKENS)
    except UnknownError:
        most = _MOST_TOKENS

    def fits(steps: int) -> bool:
        plan = planner.plan(run.changed(offers.length(run, key, steps * _STEP)))
        return worst(plan) == FITS and _has_room(plan)

    low, high = 0, max(most // _STEP, 1)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return Limit(
        "longest sequence",
        key,
        run.integer(key) + prompt,
        low * _STEP + prompt if low * _STEP >= offers.SHORTEST else None,
    )


def _micro_batch(run: RunConfig, is_sound: Sound) -> Limit | None:
    """Return the largest micro batch that divides an update's sequences, or None if tokens fill micro batches."""
    if run.framework == "verl":
        key, filled = verl.MICRO, run.on(verl.DYNAMIC)
    else:
        key, filled = nemo_rl.MICRO_BATCH, run.on(nemo_rl.DYNAMIC) or run.on(nemo_rl.PACKING)
    if filled or run.at(key) is None:
        return None
    most = planner.read(run).trainer.train.most
    sizes = [size for size in range(1, min(most, _MOST_SEQUENCES) + 1) if most % size == 0]
    edits = {size: offers.micro_batch(run, key, size) for size in sizes}
    fitting = list(takewhile(lambda size: _fits(run, edits[size]), sizes))
    found = next((size for size in reversed(fitting) if is_sound(run.changed(edits[size]))), None)
    is_whole = fitting != sizes or most <= _MOST_SEQUENCES
    return Limit("largest micro batch", key, run.integer(key), found, is_whole=is_whole)


def _nodes(run: RunConfig, is_sound: Sound) -> Limit | None:
    """Return the smallest number of nodes on which the run fits and has no error."""
    for count in range(1, _MOST_NODES + 1):
        edits = offers.nodes(run, count)
        if _fits(run, edits) and is_sound(run.changed(edits)):
            return Limit("fewest nodes", offers.NODES, run.nodes, count)
    return Limit("fewest nodes", offers.NODES, run.nodes, None)
