"""Each rule over charts finds exactly the marked lines of its bad charts, and nothing in its good ones.

A fixture is a map of a chart's files; the marks stand in these, and are taken out before Helm reads them.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from grpo.check import helm_chart
from grpo.check.helm_chart import Checked, Given
from grpo.helm.engines import Embedded
from grpo.rules import registry
from postrender.finding import SEVERITIES
from postrender.problem import Problem

HERE = Path(__file__).parent
RULES = registry.rules("chart")
BY_ID = {rule.id: rule for rule in RULES}
FILES = sorted(path.relative_to(HERE) for path in (HERE / "chart").glob("*/*.yaml"))
BAD = [file for file in FILES if file.name.startswith("bad")]
GOOD = [file for file in FILES if file.name.startswith("good")]
MARK = re.compile(r" *# <- finding: (.*)$")
CHART = "apiVersion: v2\nname: app\nversion: 1.0.0\n"
# What these find, Helm itself refuses, or cannot fetch here.
REFUSED = {
    "chart/pattern-not-re2",
    "chart/reference-not-found",
    "chart/reference-fetched",
    "chart/schema-refuses-subchart",
}


def write(fixture: str, folder: Path) -> list[tuple[str, int, str]]:
    """Write the files of a fixture; return the marks: file, line, words."""
    marks = []
    for name, text in {"Chart.yaml": CHART, **yaml.safe_load(fixture)}.items():
        lines = text.splitlines()
        file = folder / name
        marks += [(str(file), number, found[1]) for number, line in enumerate(lines, 1) if (found := MARK.search(line))]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(MARK.sub("", line) for line in lines) + "\n", encoding="utf-8")
    return sorted(marks)


def judged(file: Path, folder: Path, helm: Embedded) -> tuple[Checked, list[tuple[str, int, str]]]:
    marks = write((HERE / file).read_text(encoding="utf-8"), folder)
    checked = helm_chart.check(helm, str(folder), Given())
    checked.findings = [each for each in checked.findings if each.rule == file.parent.as_posix()]
    return checked, marks


@pytest.mark.parametrize("file", BAD, ids=str)
def test_a_rule_finds_the_marked_lines(file: Path, tmp_path: Path, helm: Embedded) -> None:
    checked, marks = judged(file, tmp_path, helm)
    assert marks
    assert [(each.at.file, each.at.line) for each in checked.findings] == [mark[:2] for mark in marks]
    for each, (*_, words) in zip(checked.findings, marks, strict=True):
        assert words in each.what
        assert each.at.col > 0
        assert each.severity == BY_ID[each.rule].severity
    assert bool(checked.error) == (file.parent.as_posix() in REFUSED)


@pytest.mark.parametrize("file", GOOD, ids=str)
def test_a_rule_finds_nothing_in_what_is_good(file: Path, tmp_path: Path, helm: Embedded) -> None:
    checked, marks = judged(file, tmp_path, helm)
    assert not marks
    assert [f"{each.at}: {each.what}" for each in checked.findings] == []
    assert checked.error is None


@pytest.mark.parametrize("rule", RULES, ids=list(BY_ID))
def test_a_rule_has_fixtures_and_says_what_why_and_what_to_do(rule: Problem) -> None:
    assert {"good.yaml", "bad.yaml"} <= {path.name for path in (HERE / rule.id).iterdir()}
    for text in (rule.title, rule.why, rule.fix):
        assert 15 < len(text) <= 120
        assert text[-1] not in ".!"
        assert text[0].islower() or text.startswith(("Helm ", "YAML "))
    assert rule.severity in SEVERITIES
    assert re.match(r"https://[a-z0-9.-]+/\S+$", rule.source)


def test_fixtures_are_of_rules() -> None:
    assert {file.parent.as_posix() for file in FILES} == {*BY_ID}
    assert all(re.fullmatch(r"(good|bad)(-[2-9])?\.yaml", file.name) for file in FILES)
