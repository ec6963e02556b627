"""A run as a report shows it: its steps, its validations, and the findings of the log rules."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from grpo.problems import registry
from grpo.problems.training.steps import Shown
from grpo.runlog import events, trajectories
from grpo.runlog.events import Found
from grpo.runlog.shared import Judge, Limits, Sign, Step, Validation
from postrender import masking, visible
from postrender.errors import Location
from postrender.finding import SEVERITIES, Finding
from postrender.judge import judge
from postrender.problem import LOG

Reader = Callable[[str], Iterator[list[Found]]]


@dataclass
class Run:
    """A run; `word` is its name on the command line, `name` its name in the report.

    In texts that a log or a model wrote, secrets are masked and control characters removed, but nothing is escaped.
    """

    word: str
    name: str = ""
    steps: list[Step] = field(default_factory=list)
    validations: list[Validation] = field(default_factory=list)
    signs: list[tuple[Sign, Location]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    # The samples of its last step, as jobs/inspection/samples.py describes them; empty if the run has none.
    samples: dict[str, Any] = field(default_factory=dict)
    # From when on a measure was a sign.
    limits: Limits = field(default_factory=Limits)

    def values(self, measure: str) -> list[float]:
        """Return a measure's known values, NaN included, in step order."""
        return [value for step in self.steps if (value := getattr(step, measure)) is not None]


def _from_here(word: str) -> Iterator[list[Found]]:
    return events.read(word, follow=False)


def read_all(words: Sequence[str], limits: Limits | None = None, read: Reader = _from_here) -> list[Run]:
    """Read runs and name each of them; `limits` says what is a sign, `read` reads a log, a directory or stdin.

    Raises what `read` raises: UnreadableError, and InputError for something without steps.
    """
    runs = [_read(word, limits or Limits(), read) for word in words]
    for run, name in zip(runs, _names(words), strict=True):
        run.name = shown(name)
    return runs


def shown(written: str) -> str:
    """Return untrusted text without secrets and control characters."""
    return visible.text(masking.text(written))


def _read(word: str, limits: Limits, read: Reader) -> Run:
    run, judging = Run(word, limits=limits), Judge(limits)
    for batch in read(word):
        for event, at in batch:
            if isinstance(event, Step):
                _add(run, event)
                run.signs += [(sign, at) for sign in judging.add(event)]
            elif isinstance(event, Validation):
                _validate(run, event)
    found = judge(Shown(run.signs), registry.rules(LOG)) if run.signs else []
    run.findings = sorted(found, key=lambda each: (SEVERITIES.index(each.severity), each.at.line or 0))
    run.samples = trajectories.last_step(word) if os.path.isdir(word) else {}
    return run


def _add(run: Run, step: Step) -> None:
    """Append a step. A resumed run repeats some steps and validations; the later ones replace the earlier."""
    while run.steps and run.steps[-1].number >= step.number:
        run.steps.pop()
    run.validations = [each for each in run.validations if (each.number or 0) <= step.number]
    step.phases = {shown(name): seconds for name, seconds in step.phases.items()}
    run.steps.append(step)


def _validate(run: Run, validation: Validation) -> None:
    again = [each for each in run.validations if each.number is None or each.number != validation.number]
    run.validations = [*again, validation]


def _names(words: Sequence[str]) -> list[str]:
    """Return a name for each run: the last part of its path if these parts are unique, else the word as given."""
    whole = [os.path.abspath(word) if os.path.isdir(word) else word for word in words]
    short = ["stdin" if word == events.STDIN else os.path.basename(word) or "run" for word in whole]
    names = short if len({*short}) == len(short) else list(words)
    count: Counter[str] = Counter()
    for index, name in enumerate(names):
        count[name] += 1
        names[index] = name if count[name] == 1 else f"{name} ({count[name]})"
    return names
