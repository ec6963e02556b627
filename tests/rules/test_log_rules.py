"""Each rule over logs finds exactly the marked step of its bad logs, and nothing in its good ones.

A fixture is a list of steps. Silence is no step, so `run/stalled` has none; tests/runlog/test_signs.py judges it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from grpo.rules import registry
from grpo.rules.log.define import judged
from grpo.runlog.shared import STALLED, Step
from postrender.finding import SEVERITIES, Finding
from postrender.judge import judge
from postrender.problem import Problem

HERE = Path(__file__).parent
RULES = registry.rules("log")
FILES = sorted(path.relative_to(HERE) for path in (HERE / "run").glob("*/*.yaml"))
MARK = re.compile(r"# <- finding: (.*)$")


def findings(file: Path) -> list[Finding]:
    """Judge the steps of a fixture with all rules; a step stands in the line below the one of its number."""
    rows = yaml.safe_load((HERE / file).read_text("utf-8"))
    steps = [Step(**row, line=at) for at, row in enumerate(rows, 2)]
    return judge(judged(steps, str(file)), RULES)


@pytest.mark.parametrize("file", FILES, ids=str)
def test_a_rule_finds_the_marked_step_and_no_other_rule_finds_anything(file: Path) -> None:
    lines = enumerate((HERE / file).read_text("utf-8").splitlines(), 1)
    marked = [(number, match[1]) for number, line in lines if (match := MARK.search(line))]
    assert len(marked) == file.name.startswith("bad")
    found = findings(file)
    assert [(each.rule, each.at.line) for each in found] == [(file.parent.as_posix(), number) for number, _ in marked]
    for each, (_, words) in zip(found, marked, strict=True):
        assert words in each.what


@pytest.mark.parametrize("rule", RULES, ids=[rule.id for rule in RULES])
def test_a_rule_has_fixtures_and_says_what_why_and_what_to_do(rule: Problem) -> None:
    expected = set() if rule.id == f"run/{STALLED}" else {"good.yaml", "bad.yaml"}
    assert {file.name for file in FILES if file.parent.as_posix() == rule.id} == expected
    for text in (rule.title, rule.why, rule.fix):
        assert 15 < len(text) <= 120
        assert text[-1] not in ".!"
    assert rule.title[0].islower()
    assert rule.fix[0].islower()
    assert rule.severity in SEVERITIES
    assert re.match(r"https://[a-z0-9.-]+/\S+$|\S+ at (verl )?\S+$", rule.source)


def test_no_report_shows_the_line_of_a_log() -> None:
    """It may hold what a model wrote."""
    assert all(each.secret for each in findings(Path("run/dead-reward/bad.yaml")))
