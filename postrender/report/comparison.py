"""Write the plans of one run on several machines side by side."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from postrender.plan import host
from postrender.plan.generation import GENERATION
from postrender.plan.phase import FITS, VERDICTS
from postrender.report import plan as report

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from postrender.report.plan import Answer

_HEAD: Final = ("machine", "GPUs", "verdict", "fullest phase", "worst case", "of a GPU", "node memory", "sequences")


def write(answers: Mapping[str, Answer], form: str) -> str:
    """Return the answers by accelerator in a format."""
    if form == "json":
        return json.dumps({name: report.tree(answer) for name, answer in answers.items()}, indent=2) + "\n"
    rows = [_row(name, answer) for name, answer in answers.items()]
    table = report.markdown_table(_HEAD, rows) if form == "markdown" else report.text_table(_HEAD, rows)
    notes = ["sequences: how many of the longest ones an engine generates at a time"]
    notes += [f"{name}: {each.verdict}, {each.reason}" for name, each in answers.items() if each.reason]
    return "\n".join([*table, "", *notes]) + "\n"


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
