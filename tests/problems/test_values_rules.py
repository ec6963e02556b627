"""Each problem of values is found at exactly the marked lines of its bad cases, and nowhere in its good ones.

A case is a values file that is given last; its first line says after which ones:
`# lint: PROFILE [RECIPE [FRAMEWORK]]`, the names of files below values/. A case without a recipe is one itself.
A line `# says: TEXT` after it has words of the reason or of the fix.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grpo.lint import values_editor
from grpo.lint.linter import lint
from grpo.problems import registry
from grpo.problems.cases import Case
from postrender.finding import SEVERITIES, Finding, NewName
from tests.conftest import ROOT, SITE, thin
from tests.problems import tables

RULES = registry.rules("values")
BY_ID = {rule.id: rule for rule in RULES}
TABLES = tables.of_target("values")
# Problems of which every case has one certain value.
CERTAIN = ("nemo-rl/lora-triton", "nemo-rl/async-correction")
HEAD = re.compile(r"# lint: (\S+)(?: (\S+))?(?: (\S+))?$")
SAYS = re.compile(r"^# says: (.*)$", re.MULTILINE)


def files(case: Case, folder: Path) -> list[Path]:
    """Return a case's stack: the files that it names, the site file, itself."""
    line = case.text.splitlines()[0]
    head = HEAD.match(line)
    assert head, f"{case}: expected `# lint: PROFILE [RECIPE [FRAMEWORK]]`, found {line!r}"
    profile, recipe, framework = head.groups()
    before = [ROOT / f"values/accelerators/{profile}.yaml"]
    before += [ROOT / f"values/recipes/{recipe}.yaml"] if recipe else []
    before += [ROOT / f"values/frameworks/{framework}.yaml"] if framework else []
    file = folder / f"{case.name}.yaml"
    file.write_text(case.text, encoding="utf-8")
    return [*before, SITE, file]


def findings(case: Case, folder: Path) -> list[Finding]:
    """Judge a case; only findings of its own problem count."""
    return [each for each in lint([*map(str, files(case, folder))]) if each.rule == case.id]


def assert_found(case: Case, folder: Path) -> None:
    """Assert that the marked lines of a bad case are found, and that what is proposed mends them."""
    marked = tables.marks(case.text)
    found = findings(case, folder)
    assert [(Path(each.at.file).stem, each.at.line) for each in found] == [(case.name, number) for number, _ in marked]
    assert marked
    for each, (number, words) in zip(found, marked, strict=True):
        assert words in each.what, number
        assert each.at.col > 0
        assert each.severity == BY_ID[each.rule].severity
        assert "crashed" not in each.what
        assert each.proposed or each.rule not in CERTAIN
    for words in SAYS.findall(case.text):
        (one,) = found
        assert words in f"{one.why} {one.fix}"
    if any(each.proposed for each in found):
        assert_mended(case, found, folder)


def assert_mended(case: Case, found: list[Finding], folder: Path) -> None:
    """Assert that what is proposed mends what it is for, written as `--fix` does."""
    text, mended = case.text, folder / "mended.yaml"
    for path, value in {path: value for each in found for path, value in each.edits.items()}.items():
        edited = values_editor.with_name if isinstance(value, NewName) else values_editor.with_value
        text = edited(text, mended.name, path, value.name if isinstance(value, NewName) else value)
    mended.write_text(text, encoding="utf-8")
    left = {each.what for each in lint([*map(str, files(case, folder)[:-1]), str(mended)])}
    assert not left & {each.what for each in found if each.proposed}


def assert_clean(case: Case, folder: Path) -> None:
    assert [f"{each.at}: {each.what}" for each in findings(case, folder)] == []


@pytest.mark.parametrize("table", TABLES)
def test_a_problem_is_found_at_the_marked_lines_of_its_first_case(table: str, tmp_path: Path) -> None:
    tables.judge_each(tables.first(TABLES[table]), lambda case: assert_found(case, tmp_path))


@pytest.mark.full
@pytest.mark.parametrize("table", TABLES)
def test_a_problem_is_found_at_the_marked_lines_of_all_cases(table: str, tmp_path: Path) -> None:
    further = [case for case in TABLES[table] if case.bad and case.name != "bad"]
    tables.judge_each(further, lambda case: assert_found(case, tmp_path))


@pytest.mark.parametrize("table", thin([*TABLES], 8))
def test_nothing_is_found_in_good_examples(table: str, tmp_path: Path) -> None:
    tables.judge_each([case for case in TABLES[table] if not case.bad], lambda case: assert_clean(case, tmp_path))


def test_a_problem_has_cases_a_title_a_reason_and_a_fix() -> None:
    for rule in RULES:
        names = {case.name for found in TABLES.values() for case in found if case.id == rule.id}
        assert {"good", "bad"} <= names, rule.id
        assert all(re.fullmatch(r"(good|bad)(-[A-Za-z0-9.-]+)?", name) for name in names), rule.id
        for text in (rule.title, rule.why, rule.fix):
            assert 15 < len(text) <= 120, rule.id
            assert text[-1] not in ".!", rule.id
        assert rule.severity in SEVERITIES, rule.id
        assert re.search(r"^https://[a-z0-9.-]+/\S+$|\S+ at (v?\d+\.\d+\.\d+|[0-9a-f]{8})$", rule.source), rule.id
