"""Each problem of a training is found at exactly the marked step of its bad cases, and nowhere in its good ones.

A case is a list of steps. Silence is no step, so `run/stalled` has none; tests/runlog/test_signs.py judges it.
"""

from __future__ import annotations

import re

import pytest
import yaml

from grpo.problems import registry
from grpo.problems.cases import Case
from grpo.problems.training.steps import judged
from grpo.runlog.shared import STALLED, Step
from postrender.finding import SEVERITIES, Finding
from postrender.judge import judge
from tests.problems import tables

RULES = registry.rules("log")
CASES = [case for found in tables.of_target("log").values() for case in found]


def findings(case: Case) -> list[Finding]:
    """Judge the steps of a case with all rules; a step is in the line below the one of its number."""
    rows = yaml.safe_load(case.text)
    steps = [Step(**row, line=at) for at, row in enumerate(rows, 2)]
    return judge(judged(steps, case.name), RULES)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_problem_is_found_only_at_the_marked_step(case: Case) -> None:
    marked = tables.marks(case.text)
    assert len(marked) == case.bad
    found = findings(case)
    assert [(each.rule, each.at.line) for each in found] == [(case.id, number) for number, _ in marked]
    for each, (_, words) in zip(found, marked, strict=True):
        assert words in each.what


def test_a_problem_has_cases_a_title_a_reason_and_a_fix() -> None:
    for rule in RULES:
        expected = set() if rule.id == f"run/{STALLED}" else {"good", "bad"}
        assert {case.name for case in CASES if case.id == rule.id} == expected
        for text in (rule.title, rule.why, rule.fix):
            assert 15 < len(text) <= 120, rule.id
            assert text[-1] not in ".!", rule.id
        assert rule.title[0].islower(), rule.id
        assert rule.fix[0].islower(), rule.id
        assert rule.severity in SEVERITIES, rule.id
        assert re.match(r"https://[a-z0-9.-]+/\S+$|\S+ at (verl )?\S+$", rule.source), rule.id


def test_no_report_shows_a_line_from_the_log() -> None:
    """It may hold what a model wrote."""
    assert all(
        each.secret for each in findings(next(case for case in CASES if case.id == "run/dead-reward" and case.bad))
    )
