"""The known misses and false alarms of lint, in tests/recall/floor.yaml: what is not there is a regression."""

from __future__ import annotations

import concurrent.futures
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import yaml

from tests.recall import verdicts
from tests.recall.mutations import VERSIONS
from tests.recall.scores import FALSE, MISSED, Score, scores, table

FILE = Path(__file__).with_name("floor.yaml")
HEAD = """\
# What lint does not do yet, mutation by mutation: refusals of the real programs that it misses, by the reason of the
# refusal, and errors where they accept, by lint's rules. `python -m tests.recall.measure --floor` writes it, keeping
# `why`.
# A refusal that lint catches must leave this file, and one that it used to catch must not come back.
"""
PLAIN = {MISSED: "no rule of lint says it yet", FALSE: "not looked at yet"}
Groups = Mapping[str, Sequence[str]]


def versions() -> list[tuple[str, str]]:
    """Return the frameworks and versions that a judge was asked about."""
    pairs = [(framework, version) for framework, known in VERSIONS.items() for version in known]
    return [pair for pair in pairs if verdicts.path(*pair).exists()]


def read() -> dict[str, dict[str, Groups]]:
    """Return the known misses and false alarms: version -> outcome -> reason or rules -> mutations."""
    found: dict[str, dict[str, Groups]] = yaml.safe_load(FILE.read_text("utf-8"))["known"]
    return found


def why() -> dict[str, dict[str, str]]:
    """Return why each group is accepted: outcome -> reason or rules -> sentence."""
    found: dict[str, dict[str, str]] = yaml.safe_load(FILE.read_text("utf-8"))["why"] if FILE.exists() else {}
    return {outcome: found.get(outcome) or {} for outcome in PLAIN}


def known(framework: str, version: str, outcome: str) -> set[str]:
    """Return the mutations that the floor lists."""
    groups = read().get(f"{framework} {version}", {}).get(outcome) or {}
    return {name for names in groups.values() for name in names}


def everything() -> dict[str, list[Score]]:
    """Ask lint about all of it."""
    known = versions()
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        return {" ".join(pair): rows for pair, rows in zip(known, pool.map(_score, known), strict=True)}


def _score(pair: tuple[str, str]) -> list[Score]:
    with tempfile.TemporaryDirectory() as folder:
        return scores(*pair, Path(folder))


def report() -> str:
    """Return the table of all versions."""
    return table(everything())


def write() -> None:
    """Write what lint does not do today, and print the table."""
    found, before = everything(), why()
    text = "".join(_lines(found, before))
    FILE.write_text(HEAD + text, "utf-8")
    print(table(found))


def _lines(found: Mapping[str, Sequence[Score]], before: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    yield "why:\n"
    for outcome, plain in PLAIN.items():
        keys = sorted({row.key for rows in found.values() for row in rows if row.outcome == outcome})
        yield f"  {outcome}:\n" if keys else f"  {outcome}: {{}}\n"
        yield from (f"    {json.dumps(key)}: {json.dumps(before[outcome].get(key, plain))}\n" for key in keys)
    yield "known:\n"
    for version, rows in found.items():
        yield f"  {version}:\n"
        for outcome in PLAIN:
            yield from _groups(outcome, [row for row in rows if row.outcome == outcome])


def _groups(outcome: str, rows: Iterable[Score]) -> Iterator[str]:
    groups: dict[str, list[str]] = {}
    for row in rows:
        groups.setdefault(row.key, []).append(row.name)
    yield f"    {outcome}:\n" if groups else f"    {outcome}: {{}}\n"
    for key, names in sorted(groups.items()):
        yield f"      {json.dumps(key)}:\n"
        yield from (f"        - {json.dumps(name)}\n" for name in names)
