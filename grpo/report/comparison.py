"""Write the plans of one run on several machines side by side."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from grpo.plan import host
from grpo.plan.generation import GENERATION
from grpo.plan.phase import FITS, VERDICTS
from grpo.report import plan as report

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from grpo.plan.cost import Cost
    from grpo.report.plan import Answer

_HEAD: Final = ("machine", "GPUs", "verdict", "fullest phase", "worst case", "of a GPU", "node memory", "sequences")
_COSTS: Final = ("$ an hour", "$ a step")
_SEVERAL: Final = 2


def write(answers: Mapping[str, Answer], form: str) -> str:
    """Return the answers by accelerator in the given format."""
    if form == "json":
        return json.dumps({name: report.tree(answer) for name, answer in answers.items()}, indent=2) + "\n"
    rows: list[Sequence[str]] = [_row(name, answer) for name, answer in answers.items()]
    costs = any(answer.cost for answer in answers.values())
    head = (*_HEAD, *_COSTS) if costs else _HEAD
    if costs:
        rows = [(*row, *_money(answer.cost)) for row, answer in zip(rows, answers.values(), strict=True)]
    table = report.markdown_table(head, rows) if form == "markdown" else report.text_table(head, rows)
    notes = ["sequences: how many of the longest ones an engine generates at a time"]
    notes += [f"{name}: {each.verdict}, {each.reason}" for name, each in answers.items() if each.reason]
    notes += [f"{name}: {report.error_line(error)}" for name, each in answers.items() for error in each.errors]
    return "\n".join([*table, "", *notes, *(_cheapest(answers) if costs else ())]) + "\n"


def _money(cost: Cost | None) -> tuple[str, str]:
    """Return the dollars per hour and per step for all GPUs; an empty text for an unknown amount."""
    if cost is None:
        return "", ""
    return f"{cost.hour:,.2f}", "" if cost.step is None else f"{cost.step:,.2f}"


def _cheapest(answers: Mapping[str, Answer]) -> Iterator[str]:
    """Yield why a machine has no cost, and the cheapest machine among those on which the run fits."""
    for name, answer in answers.items():
        if answer.plan.setup and not answer.cost:
            yield f"{name}: no price of a GPU hour is given (--price {name}=DOLLARS)"
        elif answer.plan.setup and answer.cost and answer.cost.step is None:
            machine = answer.plan.setup.machine
            yield f"{name}: job.stepTimes has no time of a step on {machine.nodes} × {machine.name}"
    fitting = {name: each.cost for name, each in answers.items() if each.cost and each.verdict == FITS}
    if len(fitting) < _SEVERAL:
        return
    least = min(fitting, key=lambda name: fitting[name].hour)
    steps = {name: each.step for name, each in fitting.items() if each.step is not None}
    a_step = min(steps, key=lambda name: steps[name]) if len(steps) == len(fitting) else "not known"
    yield f"cheapest of those that fit: an hour {least}, a step {a_step}"


def _row(name: str, answer: Answer) -> Sequence[str]:
    plan = answer.plan
    if plan.setup is None:
        return (name, "", answer.verdict, *[""] * 5)
    machine = plan.setup.machine
    # vLLM always takes its whole share, so its phase says something only where it does not fit.
    told = [each for each in plan.phases if each.phase.name != GENERATION or each.verdict != FITS]
    fullest = max(told, key=lambda each: (VERDICTS.index(each.verdict), each.phase.peak.share(each.phase.usable))).phase
    return (
        name,
        f"{machine.nodes} × {machine.gpus}",
        answer.verdict,
        fullest.name,
        str(fullest.peak),
        f"{fullest.peak.share(fullest.usable):.0%}",
        host.verdict(plan.setup),
        str(plan.cache.concurrent) if plan.cache else "",
    )
