"""Small changes to valid stacks, some harmless and some not: what the real programs and lint are both asked about.

A mutation is a recipe's stack with one or two values more. It says which fact of the framework it aims at and what
should follow by that fact. The list of a framework and version is the same each time it is made.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.recall import nemo_rl_cases, nemo_rl_cases_more, verl_cases
from tests.recall.cases import ACCEPTED, REFUSED, SILENT, UNKNOWN, Case, Keys

VERSIONS = {
    "nemo-rl": ("v0.4.0", "v0.5.0", "v0.6.0", "v0.7.0"),
    "verl": ("0.6.1", "0.7.1", "0.8.0", "0.9.1"),
}
TABLES = {
    "nemo-rl": (*nemo_rl_cases.TABLES, *nemo_rl_cases_more.TABLES),
    "verl": verl_cases.TABLES,
}
PAIRS, SEED = 80, 20


@dataclasses.dataclass(frozen=True)
class Mutation:
    """One changed stack. `expected` is what the facts say; `seen` says whether a judge without GPUs can notice."""

    id: str
    base: str
    fact: str
    expected: str
    seen: bool
    overlay: Mapping[str, Any]
    arguments: tuple[str, ...] = ()


def mutations(framework: str, version: str) -> list[Mutation]:
    """Return the mutations of a version: those of the tables, then pairs of them, chosen by a seed."""
    # A table may say the same twice, in two connections: the first counts.
    cases = list({case.name: case for case in reversed(list(_cases(framework, version)))}.values())[::-1]
    return [of_case(case, framework, version) for case in (*cases, *_pairs(cases))]


def _cases(framework: str, version: str) -> Iterator[Case]:
    number = VERSIONS[framework].index(version)
    for table in TABLES[framework]:
        for row in table():
            yield from row.at(number)


def _pairs(cases: Sequence[Case]) -> Iterator[Case]:
    """Yield two changes at once; what they come to is for the judge to say, even of two harmless ones."""
    chance, chosen = random.Random(SEED), set()  # noqa: S311 - a choice, no secret
    single = [case for case in cases if case.base in ("two-nodes", "verl")]
    while len(chosen) < PAIRS:
        one, two = chance.sample(single, 2)
        name = (one.name, two.name)
        if one.keys.keys() & two.keys.keys() or _nested(one.keys, two.keys) or name in chosen or one.base != two.base:
            continue
        chosen.add(name)
        harmful = [case for case in (one, two) if case.expected != ACCEPTED]
        fact = "+".join(sorted({case.fact for case in harmful})) or "none"
        seen = all(case.seen and case.expected != SILENT for case in harmful)
        yield Case(fact, one.base, {**one.keys, **two.keys}, UNKNOWN, seen, (*one.arguments, *two.arguments))


def _nested(one: Keys, two: Keys) -> bool:
    """Say whether a key of one is above a key of the other."""
    pairs = itertools.product(one, two)
    return any(f"{a}.".startswith(f"{b}.") or f"{b}.".startswith(f"{a}.") for a, b in pairs)


def of_case(case: Case, framework: str, version: str) -> Mutation:
    """Return the change of the values that makes a case."""
    overlay: dict[str, Any] = {}
    for path, value in case.keys.items():
        _put(overlay, _place(path, framework, version), value)
    return Mutation(case.name, case.base, case.fact, case.expected, case.seen, overlay, case.arguments)


def _place(path: str, framework: str, version: str) -> list[str]:
    """Return where a key stands in the values; the recipes replace some sections for older versions, as a whole."""
    if path.startswith("values:"):
        return path.removeprefix("values:").split(".")
    replaced = {"v0.4.0": ("data", "loss_fn"), "v0.5.0": ("data",)}.get(version, ())
    keys = path.split(".")
    if framework == "nemo-rl" and keys[0] in replaced:
        return ["job", "configFor", version, *keys]
    return ["job", "config", *keys]


def _put(tree: dict[str, Any], path: Sequence[str], value: Any) -> None:
    inner = functools.reduce(lambda node, key: node.setdefault(key, {}), path[:-1], tree)
    inner[path[-1]] = json.loads(json.dumps(value))


__all__ = ["ACCEPTED", "REFUSED", "SILENT", "UNKNOWN", "VERSIONS", "Mutation", "mutations", "of_case"]
