"""Define rules over logs: jobs/runlog/signs.py, which jobs use too, finds the signs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from grpo.runlog.shared import SEVERITIES, Judge, Sign, Step
from postrender.errors import Location
from postrender.finding import Finding
from postrender.problem import LOG, Problem

# The folder of NeMo RL's guide, and of verl's documentation; what has neither as a source is a default of ours.
NEMO_RL_GUIDE = "docs/guides/grpo.md"
OUR_DEFAULT = "jobs/runlog/signs.py at v0.1.0"


class Shown(NamedTuple):
    """Signs that a log's steps show, each with the place of its step."""

    signs: Sequence[tuple[Sign, Location]]


def judged(steps: Sequence[Step], file: str) -> Shown:
    """Return the signs that a file's steps show, each at the step where it begins."""
    judge = Judge()
    return Shown([(sign, Location(file, step.line)) for step in steps for sign in judge.add(step)])


def rule(sign: str, *, title: str, why: str, fix: str, source: str) -> Problem:
    """Return the rule for the sign with this id."""

    def check(shown: Shown) -> Iterator[Finding]:
        # A log may hold prompts and answers, so no report shows its line.
        found = ((each, at) for each, at in shown.signs if each.id == sign)
        return (Finding(f"step {each.step}: {each.what}", at, secret=True) for each, at in found)

    return Problem(
        f"run/{sign}",
        target=LOG,
        severity=SEVERITIES[sign],
        title=title,
        why=why,
        fix=fix,
        source=source,
        check=check,
    )
