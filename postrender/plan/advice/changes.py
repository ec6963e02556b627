"""Find the changes that make a run fit: each is tried on the run, and the plan is computed again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from postrender.plan import host, planner
from postrender.plan.phase import DOES_NOT_FIT, FITS, TIGHT, VERDICTS
from postrender.plan.planner import Plan
from postrender.plan.units import Bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from postrender.plan.advice.offers import Offer
    from postrender.types import Json
    from postrender.values.config import Effective

NODE: Final = "node memory"
# A change that lowers a peak by less is no help.
_USEFUL: Final = 0.95
# How many changes are put together where none suffices alone.
_TOGETHER: Final = 4


class Load(NamedTuple):
    """What lies in a GPU's memory in a phase, or in a node's memory, and whether it fits."""

    verdict: str
    peak: Bytes


class Change(NamedTuple):
    """A change of a run: its values by key, what it costs, and the loads that it improves, before and after."""

    edits: Mapping[str, Json]
    costs: Sequence[str]
    changes_training: bool
    verdict: str
    improved: Mapping[str, tuple[Load, Load]]


def loads(plan: Plan) -> dict[str, Load]:
    """Return the loads of a plan by name; empty for a plan of a run that is not modelled."""
    if plan.setup is None:
        return {}
    found = {each.phase.name: Load(each.verdict, each.phase.peak) for each in plan.phases}
    return {**found, NODE: Load(host.verdict(plan.setup), host.peak(plan.setup))}


def worst(plan: Plan) -> str:
    """Return the worst verdict of the loads, which no larger volume changes."""
    found = [each.verdict for each in loads(plan).values() if each.verdict in (FITS, TIGHT, DOES_NOT_FIT)]
    return max(found, key=VERDICTS.index, default="")


def useful(run: Effective, offers: Sequence[Offer], is_sound: Callable[[Effective], bool]) -> list[Change]:
    """Return the changes that help, the best first; empty if the run fits or is not modelled.

    If no single one makes the run fit, the first one puts several together. `is_sound` says whether a changed run has
    no error of its own.
    """
    before = planner.plan(run)
    if worst(before) in ("", FITS):
        return []
    single = [change for offer in offers if (change := _rung(run, before, offer, is_sound))]
    single.sort(key=_rank)
    if not single or single[0].verdict == FITS:
        return single
    together = _together(run, before, offers, is_sound)
    return [together, *single] if together else single


def _rank(change: Change) -> tuple[int, bool]:
    """Order changes: those that fit first, and of these the ones that train the same; then as they were offered."""
    return VERDICTS.index(change.verdict), change.changes_training


def _rung(run: Effective, before: Plan, offer: Offer, is_sound: Callable[[Effective], bool]) -> Change | None:
    """Return the smallest rung of an offer that fits, or else the one that helps most; None if none helps."""
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
    """Return a change; None if it lowers no load that does not fit, or makes another one worse."""
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


def _together(
    run: Effective, before: Plan, offers: Sequence[Offer], is_sound: Callable[[Effective], bool]
) -> Change | None:
    """Return several changes that make the run fit together, those that train the same before the others."""
    edits: dict[str, Json] = {}
    costs: list[str] = []
    trains_otherwise = False
    changed, plan = run, before
    for offer in _in_order(offers):
        step = _rung(changed, plan, offer, is_sound)
        if step is None or len(costs) == _TOGETHER:
            continue
        edits |= step.edits
        costs.append(offer.costs)
        trains_otherwise = trains_otherwise or offer.changes_training
        changed = run.changed(edits)
        plan = planner.plan(changed)
        if worst(plan) == FITS:
            return _change(before, plan, edits, costs, changes_training=trains_otherwise)
    return None


def _in_order(offers: Sequence[Offer]) -> Iterator[Offer]:
    yield from (offer for offer in offers if not offer.changes_training)
    yield from (offer for offer in offers if offer.changes_training)
