"""The cases of the problems of a target, table by table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from grpo.problems import registry
from grpo.problems.cases import Case, cases

# The finding that a line of a case has, and words of it.
MARK = re.compile(r" *# <- finding(?:: (.*))?$")


def of_target(target: str) -> dict[str, list[Case]]:
    """Return the cases of the problems over a target by their tables."""
    found: dict[str, list[Case]] = {}
    for rule in registry.rules(target):
        for case in cases().get(rule.id, ()):
            found.setdefault(case.table, []).append(case)
    return dict(sorted(found.items()))


def marks(text: str) -> list[tuple[int, str]]:
    """Return the marked lines of a case: their numbers, and the words that their findings have."""
    lines = enumerate(text.splitlines(), 1)
    return [(number, match[1] or "") for number, line in lines if (match := MARK.search(line))]


def first(found: Iterable[Case]) -> list[Case]:
    """Return the first bad case of each problem: it shows that the check speaks, the others are its further cases."""
    return [case for case in found if case.name == "bad"]


def judge_each(found: Iterable[Case], judge: Callable[[Case], None]) -> None:
    """Judge all cases, and fail with what is wrong in any of them."""
    wrong = []
    for case in found:
        try:
            judge(case)
        except AssertionError as error:
            wrong.append(f"{case.table}: {case}: {error}")
    assert not wrong, "\n".join(wrong)
