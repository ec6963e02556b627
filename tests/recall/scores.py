"""Compare lint with the judges: what both refuse, what lint misses, and where it is wrong."""

from __future__ import annotations

import collections
import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import yaml

from grpo.lint.linter import lint
from tests.conftest import SITE
from tests.recall import verdicts
from tests.recall.mutations import REFUSED, SILENT, Mutation, mutations
from tests.recall.reasons import CHART, UNJUDGED
from tests.recall.stacks import files_of

# The problems that tell each reason for which a program refuses a mutation; a refusal is caught only by one of them.
TELLING: Mapping[str, Mapping[str, Sequence[str]]] = yaml.safe_load(
    Path(__file__).with_name("rules.yaml").read_text("utf-8")
)


CAUGHT, MISSED, FALSE, CLEAN, BEYOND, BEFORE = "caught", "missed", "false alarm", "clean", "beyond", "chart"
COLUMNS = (CAUGHT, MISSED, FALSE, CLEAN, BEYOND, BEFORE, UNJUDGED)


@dataclasses.dataclass(frozen=True)
class Score:
    """What lint made of one mutation; `key` is the judge's reason where it missed, its rules where it was wrong."""

    name: str
    outcome: str
    key: str


def errors(change: Mutation, framework: str, version: str, folder: Path, *, lesser: bool = False) -> list[str]:
    """Return the rules of the errors that lint finds in a changed stack; with `lesser` also of its warnings."""
    over = folder / "change.yaml"
    over.write_text(json.dumps(change.overlay), "utf-8")
    files = [*files_of(framework, version, change.base), SITE, over]
    found = lint([str(file) for file in files])
    return sorted({one.rule for one in found if lesser or one.severity == "error"})


def score(
    change: Mutation, verdict: verdicts.Verdict, rules: Sequence[str], known: Mapping[str, Sequence[str]]
) -> Score:
    """Compare one verdict with the errors of lint."""
    code, reason = verdict
    if reason in (CHART, UNJUDGED):
        return Score(change.id, BEFORE if reason == CHART else UNJUDGED, reason)
    if code:
        return Score(change.id, CAUGHT if _says(reason, rules, known) else MISSED, reason)
    if not rules:
        return Score(change.id, CLEAN, "")
    # Where the judge is blind, its silence is no evidence against lint.
    blind = change.expected == SILENT or not change.seen
    return Score(change.id, BEYOND if blind else FALSE, ", ".join(rules))


def _says(reason: str, rules: Iterable[str], known: Mapping[str, Sequence[str]]) -> bool:
    """Say whether lint refuses for the same reason, as far as it is known which rule says it."""
    wanted = {rule for fact in reason.split("+") for rule in known.get(fact, ())}
    return bool(wanted.intersection(rules) if wanted else list(rules))


def scores(framework: str, version: str, folder: Path, only: Iterable[str] | None = None) -> list[Score]:
    """Return the score of each mutation of a version, or of those that are named."""
    found, chosen = verdicts.read(framework, version), None if only is None else set(only)
    known = TELLING[framework]
    return [
        score(change, found[change.id], errors(change, framework, version, folder), known)
        for change in mutations(framework, version)
        if chosen is None or change.id in chosen
    ]


def table(found: Mapping[str, Sequence[Score]]) -> str:
    """Return how many of each outcome there are, one line a version, with the share that was caught."""
    lines = [f"{'':16} {' '.join(f'{name:>11}' for name in COLUMNS)}      recall"]
    for version, rows in found.items():
        counts = collections.Counter(row.outcome for row in rows)
        refused = counts[CAUGHT] + counts[MISSED]
        recall = f"{counts[CAUGHT] / refused:11.1%}" if refused else f"{'':11}"
        lines.append(f"{version:16} {' '.join(f'{counts[name]:11}' for name in COLUMNS)} {recall}")
    return "\n".join(lines)


__all__ = ["REFUSED", "Score", "errors", "score", "scores", "table"]
