"""What the judges said, kept in files: mutation -> exit code and reason, for each framework and version."""

from __future__ import annotations

import collections
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.recall.mutations import ACCEPTED, REFUSED, Mutation, mutations
from tests.recall.reasons import CHART, UNJUDGED

FOLDER = Path(__file__).with_name("verdicts")
HEAD = """\
# What {framework} {version} makes of each mutation: exit code of the judge, and the fact that it stands for, or its
# line. `chart` is what our chart refuses before. Written by tests/recall/measure.py; not edited by hand.
"""
Verdict = tuple[int, str]
# What may become of a run: it ends with an error; it runs and is useless; it runs; nobody knows.
FAILS, USELESS, RUNS, UNKNOWN = GPU = ("fails", "silent", "runs", "unknown")


def path(framework: str, version: str) -> Path:
    """Return the file of a version."""
    return FOLDER / f"{framework}-{version}.yaml"


def read(framework: str, version: str) -> dict[str, Verdict]:
    """Return the verdicts of a version by mutation."""
    tree = yaml.safe_load(path(framework, version).read_text("utf-8"))
    return {name: (code, reason) for name, (code, reason) in tree.items()}


def quoted(framework: str, version: str) -> dict[str, tuple[str, str]]:
    """Return what becomes on GPUs of generated changes that set-up accepts: a word of GPU, and its line of source."""
    tree = yaml.safe_load(path(f"{framework}-quoted", version).read_text("utf-8"))
    return {name: (word, line) for name, (word, line) in tree.items()}


def write(framework: str, version: str, found: Mapping[str, Sequence[Any]]) -> None:
    """Write the verdicts of a version, one mutation a line, in the order of the tables."""
    lines = [f"{json.dumps(name)}: {json.dumps(list(verdict))}\n" for name, verdict in found.items()]
    head = HEAD.format(framework=framework, version=version)
    path(framework, version).write_text(head + "".join(lines), "utf-8")


def is_surprise(change: Mutation, verdict: Verdict) -> bool:
    """Say whether a judge that could have seen it decided otherwise than the facts do."""
    code, reason = verdict
    if reason == UNJUDGED:
        return False
    if reason == CHART or change.expected not in (ACCEPTED, REFUSED):
        return change.expected == ACCEPTED and reason == CHART
    return change.seen and (code == 0) != (change.expected == ACCEPTED)


def table(framework: str, version: str) -> str:
    """Return counts by fact: what was expected, what the judge said, and each surprise."""
    changes, found = mutations(framework, version), read(framework, version)
    said = collections.Counter(
        r if r in (CHART, UNJUDGED) else "refused" if c else "accepted" for c, r in found.values()
    )
    rows = [f"{framework} {version}: {len(changes)} mutations, {dict(sorted(said.items()))}"]
    by_reason = collections.Counter(reason for code, reason in found.values() if code)
    rows.append("refused by fact: " + ", ".join(f"{reason} {count}" for reason, count in sorted(by_reason.items())))
    blind = sorted({change.fact for change in changes if change.expected == REFUSED and not change.seen})
    rows.append(f"not seen by the judge: {' '.join(blind)}")
    for change in changes:
        if is_surprise(change, found[change.id]):
            rows.append(f"surprise [{change.fact}] {change.id}: expected {change.expected}, got {found[change.id]}")
    return "\n".join(rows)
