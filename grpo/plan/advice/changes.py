"""Find changes that make a run fit: apply each one to the run, and compute the plan again."""

from __future__ import annotations

from math import log2
from typing import TYPE_CHECKING, Final, NamedTuple

from grpo.plan import host, planner
from grpo.plan.phase import DOES_NOT_FIT, FITS, TIGHT, VERDICTS
from grpo.plan.planner import Plan
from grpo.plan.units import Bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from grpo.plan.advice.offers import Offer
    from grpo.values.config import RunConfig
    from postrender.types import Json

NODE: Final = "node memory"
# A change that lowers a peak by less is no help.
_USEFUL: Final = 0.95
# How many changes are put together where none suffices alone.
_TOGETHER: Final = 8


class Load(NamedTuple):
    """What a phase keeps in a GPU's or a node's memory, whether it fits, and the available memory."""

    verdict: str
    peak: Bytes
    room: Bytes


class Change(NamedTuple):
    """A change to a run: its values by key, what it costs, and the loads that it improves, before and after."""

    edits: Mapping[str, Json]
    costs: Sequence[str]
    changes_training: bool
    verdict: str
    improved: Mapping[str, tuple[Load, Load]]


class Saving(NamedTuple):
    """A change that lets a fitting run fit on fewer GPUs: its values by key, what it costs, and the number of GPUs."""

    edits: Mapping[str, Json]
    costs: str
    now: int
    after: int


def loads(plan: Plan) -> dict[str, Load]:
    """Return a plan's loads by name; empty if the plan's run is not modelled."""
    if plan.setup is None:
        return {}
    found = {phase.name: Load(verdict, phase.peak, phase.usable * phase.share) for phase, verdict in plan.phases}
    node = plan.setup.machine.host or host.peak(plan.setup)
    return {**found, NODE: Load(host.verdict(plan.setup), host.peak(plan.setup), node)}


def worst(plan: Plan) -> str:
    """Return the worst verdict among the loads, which a larger volume cannot improve."""
    found = [each.verdict for each in loads(plan).values() if each.verdict in (FITS, TIGHT, DOES_NOT_FIT)]
    return max(found, key=VERDICTS.index, default="")


def useful(run: RunConfig, offers: Sequence[Offer], is_sound: Callable[[RunConfig], bool]) -> list[Change]:
    """Return the changes that help, best first; empty if the run fits or is not modelled.

    These are the changes that make the run fit. If no single one does, the first entry combines several, and the
    others only help. `is_sound` says whether a changed run has no error of its own.
    """
    before = planner.plan(run)
    if worst(before) in ("", FITS):
        return []
    single: list[Change] = []
    for offer in offers:
        change = _rung(run, before, offer, is_sound)
        # Two offers may come to the same values.
        if change and all(change.edits != other.edits for other in single):
            single.append(change)
    single.sort(key=_rank)
    if fitting := [change for change in single if change.verdict == FITS]:
        return fitting
    together = _together(run, before, offers, is_sound)
    return [together, *single] if together else single


def savings(run: RunConfig, found: Sequence[Offer], is_sound: Callable[[RunConfig], bool]) -> list[Saving]:
    """Return the offers that need fewer nodes, each with its first rung that fits; empty if the run does not fit."""
    if worst(planner.plan(run)) != FITS:
        return []
    savings = []
    for offer in found:
        for edits in offer.rungs:
            changed = run.changed(edits)
            if changed.nodes < run.nodes and worst(planner.plan(changed)) == FITS and is_sound(changed):
                savings.append(Saving(edits, offer.costs, run.nodes * run.gpus, changed.nodes * run.gpus))
                break
    return savings


def _rank(change: Change) -> tuple[int, bool]:
    """Order changes: those that fit first, then those that keep the training unchanged; ties keep the offers' order."""
    return VERDICTS.index(change.verdict), change.changes_training


def _rung(run: RunConfig, before: Plan, offer: Offer, is_sound: Callable[[RunConfig], bool]) -> Change | None:
    """Return an offer's smallest rung that fits, or else the rung that helps most, or None if none helps."""
    best: Change | None = None
    for edits in offer.rungs:
        changed = run.changed(edits)
        change = _change(before, planner.plan(changed), edits, [offer.costs], changes_training=offer.changes_training)
        if change is None or not is_sound(changed):
            continue
        if best is None or VERDICTS.index(change.verdict) <= VERDICTS.index(best.verdict):
            best = change
        if change.verdict == FITS:
            break
    return best


def _change(
    before: Plan, after: Plan, edits: Mapping[str, Json], costs: Sequence[str], *, changes_training: bool
) -> Change | None:
    """Return a change, or None if it lowers no load that does not fit or makes another load worse."""
    old, new = loads(before), loads(after)
    if not new:
        return None
    improved = {}
    for name, load in old.items():
        now = new[name]
        if VERDICTS.index(now.verdict) > VERDICTS.index(load.verdict):
            return None
        better = now.peak <= load.peak * _USEFUL or VERDICTS.index(now.verdict) < VERDICTS.index(load.verdict)
        if load.verdict in (TIGHT, DOES_NOT_FIT) and better:
            improved[name] = (load, now)
    return Change(edits, costs, changes_training, worst(after), improved) if improved else None


class _Step(NamedTuple):
    """A rung of an offer, the run after this and all earlier steps, and how much that run still exceeds its memory."""

    offer: Offer
    edits: Mapping[str, Json]
    run: RunConfig
    excess: float


def _together(
    run: RunConfig, before: Plan, offers: Sequence[Offer], is_sound: Callable[[RunConfig], bool]
) -> Change | None:
    """Return several changes that together make the run fit; those that change the training are the last resort."""
    for pool in ([offer for offer in offers if not offer.changes_training], offers):
        steps = _steps(run, before, pool, is_sound)
        if steps:
            edits = {key: value for step in steps for key, value in step.edits.items()}
            costs = list(dict.fromkeys(step.offer.costs for step in steps))
            otherwise = any(step.offer.changes_training for step in steps)
            return _change(before, planner.plan(run.changed(edits)), edits, costs, changes_training=otherwise)
    return None


def _steps(
    run: RunConfig, before: Plan, pool: Sequence[Offer], is_sound: Callable[[RunConfig], bool]
) -> list[_Step] | None:
    """Return the steps to a run that fits, each the most helpful one, or None if they do not reach such a run."""
    taken: list[_Step] = []
    now, excess = run, _excess(before)
    while excess and len(taken) < _TOGETHER:
        rest = [offer for offer in pool if offer not in [step.offer for step in taken]]
        steps = sorted((_best(now, offer) for offer in rest), key=lambda step: step.excess)
        step = next((each for each in steps if each.excess < excess and is_sound(each.run)), None)
        if step is None:
            return None
        taken.append(step)
        now, excess = step.run, step.excess
    if excess:
        return None
    for step in list(taken):
        # A later step may have made an earlier one needless.
        others = [each for each in taken if each is not step]
        if _fits_with(run, others, is_sound):
            taken = others
    return taken


def _best(run: RunConfig, offer: Offer) -> _Step:
    """Return the rung with the smallest excess; in a tie, the smallest rung."""
    runs = [(edits, run.changed(edits)) for edits in offer.rungs]
    found = [_Step(offer, edits, changed, _excess(planner.plan(changed))) for edits, changed in runs]
    return min(found, key=lambda step: step.excess)


def _fits_with(run: RunConfig, steps: Sequence[_Step], is_sound: Callable[[RunConfig], bool]) -> bool:
    """Return whether the run fits after some steps."""
    changed = run.changed({key: value for each in steps for key, value in each.edits.items()})
    return not _excess(planner.plan(changed)) and is_sound(changed)


def _excess(plan: Plan) -> float:
    """Return how far a plan is from fitting, 0 if it fits: how often each load must be halved, plus 1 per load."""
    found = loads(plan)
    if not found:
        return float("inf")
    bad = [load for load in found.values() if load.verdict in (TIGHT, DOES_NOT_FIT)]
    return sum(1 + max(log2(load.peak.share(load.room)), 0) for load in bad)
