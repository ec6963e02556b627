"""Each problem of charts is found at exactly the marked lines of its bad cases, and nowhere in its good ones.

A case is a map of a chart's files; the marks stand in these, and are taken out before Helm reads them.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from grpo.check import helm_chart
from grpo.check.helm_chart import Checked, Given
from grpo.helm.engines import Embedded
from grpo.problems import registry
from grpo.problems.cases import Case
from postrender.finding import SEVERITIES
from tests.problems import tables

RULES = registry.rules("chart")
BY_ID = {rule.id: rule for rule in RULES}
CASES = [case for found in tables.of_target("chart").values() for case in found]
BAD = [case for case in CASES if case.bad]
GOOD = [case for case in CASES if not case.bad]
CHART = "apiVersion: v2\nname: app\nversion: 1.0.0\n"
# What these find, Helm itself refuses, or cannot fetch here.
REFUSED = {
    "chart/pattern-not-re2",
    "chart/reference-not-found",
    "chart/reference-fetched",
    "chart/schema-refuses-subchart",
}


def write(case: str, folder: Path) -> list[tuple[str, int, str]]:
    """Write the files of a case; return the marks: file, line, words."""
    marks = []
    for name, text in {"Chart.yaml": CHART, **yaml.safe_load(case)}.items():
        lines = text.splitlines()
        file = folder / name
        marks += [
            (str(file), number, found[1] or "")
            for number, line in enumerate(lines, 1)
            if (found := tables.MARK.search(line))
        ]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(tables.MARK.sub("", line) for line in lines) + "\n", encoding="utf-8")
    return sorted(marks)


def judged(case: Case, folder: Path, helm: Embedded) -> tuple[Checked, list[tuple[str, int, str]]]:
    marks = write(case.text, folder)
    checked = helm_chart.check(helm, str(folder), Given())
    checked.findings = [each for each in checked.findings if each.rule == case.id]
    return checked, marks


@pytest.mark.parametrize("case", BAD, ids=str)
def test_a_problem_is_found_at_the_marked_lines(case: Case, tmp_path: Path, helm: Embedded) -> None:
    checked, marks = judged(case, tmp_path, helm)
    assert marks
    assert [(each.at.file, each.at.line) for each in checked.findings] == [mark[:2] for mark in marks]
    for each, (*_, words) in zip(checked.findings, marks, strict=True):
        assert words in each.what
        assert each.at.col > 0
        assert each.severity == BY_ID[each.rule].severity
    assert bool(checked.error) == (case.id in REFUSED)


@pytest.mark.parametrize("case", GOOD, ids=str)
def test_nothing_is_found_in_good_examples(case: Case, tmp_path: Path, helm: Embedded) -> None:
    checked, marks = judged(case, tmp_path, helm)
    assert not marks
    assert [f"{each.at}: {each.what}" for each in checked.findings] == []
    assert checked.error is None


def test_a_problem_has_cases_a_title_a_reason_and_a_fix() -> None:
    assert all(re.fullmatch(r"(good|bad)(-[2-9])?", case.name) for case in CASES)
    for rule in RULES:
        assert {"good", "bad"} <= {case.name for case in CASES if case.id == rule.id}, rule.id
        for text in (rule.title, rule.why, rule.fix):
            assert 15 < len(text) <= 120, rule.id
            assert text[-1] not in ".!", rule.id
            assert text[0].islower() or text.startswith(("Helm ", "YAML ")), rule.id
        assert rule.severity in SEVERITIES, rule.id
        assert re.match(r"https://[a-z0-9.-]+/\S+$", rule.source), rule.id
