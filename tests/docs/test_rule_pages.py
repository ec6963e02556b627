"""A page for each rule says what the rule says, with its fixtures; rules that are gone leave no page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from postrender.docs import rulepages
from postrender.docs.__main__ import main
from postrender.rules import known
from tests.conftest import ROOT
from tests.docs.test_generated import copy_sources

PAGES = rulepages.render(ROOT)
RULES = {rule.id: rule for rule in known.rules()}


@pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))
def test_a_rule_has_a_page_that_says_what_it_says(rule: known.Known) -> None:
    page = PAGES[f"docs/rules/{rule.id}.md"].replace("\\", "")
    for text in (rule.title, rule.severity, rule.why, rule.fix, rule.source, rule.command, rule.versions):
        assert text in page
    for name in ("bad", "good"):
        fixture = ROOT / f"tests/rules/{rule.id}/{name}.yaml"
        assert (f"## {name.capitalize()}\n" in page) == fixture.is_file()
    assert page.count("```") % 2 == 0


def test_the_index_leads_to_every_page() -> None:
    listed = re.findall(r"\]\((\S+\.md)\)", PAGES[rulepages.INDEX])
    assert sorted(f"docs/rules/{name}" for name in listed) == sorted({*PAGES} - {rulepages.INDEX})
    for each in known.READING:
        assert f"| {each.id} |" in PAGES[rulepages.INDEX]
    for page in {*PAGES} - {rulepages.INDEX}:
        (up,) = re.findall(r"^\[All rules\]\((\S+)\)$", PAGES[page], re.MULTILINE)
        assert (Path("/") / page).parent.joinpath(up).resolve() == Path("/") / rulepages.INDEX


def test_an_example_keeps_its_marks_and_names_the_files_below_it() -> None:
    page = PAGES["docs/rules/nodes/another-accelerator.md"]
    assert "With the values `values/accelerators/b200.yaml`:\n\n```yaml\n---\n" in page
    assert "# <- finding: the pod selects nvidia-h200-141gb" in page
    assert "# values: " not in page


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (
            "# lint: b200 smoke",
            "`values/accelerators/b200.yaml`, `values/recipes/smoke.yaml`, `values/examples/site.yaml`",
        ),
        ("# lint: b200 smoke nemo-rl-v0.6.0", "`values/recipes/smoke.yaml`, `values/frameworks/nemo-rl-v0.6.0.yaml`, "),
        ("# values: h200 {stack: {name: a}}", "`values/accelerators/h200.yaml` and `{stack: {name: a}}`:"),
        ("# A comment of the example.", ""),
    ],
)
def test_the_first_line_of_a_fixture_is_told_in_words(tmp_path: Path, first: str, said: str) -> None:
    rule = next(iter(RULES))
    folder = tmp_path / "tests/rules" / rule
    folder.mkdir(parents=True)
    (folder / "bad.yaml").write_text(f"{first}\na: 1\n", "utf-8")
    page = rulepages.render(tmp_path)[f"docs/rules/{rule}.md"]
    assert said in page
    assert ("```yaml\na: 1\n```" if said else f"```yaml\n{first}\na: 1\n```") in page
    assert "## Good" not in page


@pytest.mark.parametrize(
    ("text", "shown"),
    [("num_rows <= *", r"num_rows \<= \*"), ("_override_: a|b", r"\_override\_: a\|b"), ("${a.b}", "${a.b}")],
)
def test_markdown_finds_nothing_to_format(text: str, shown: str) -> None:
    assert rulepages._prose(text) == shown


def test_a_page_whose_rule_is_gone_is_stale_and_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy_sources(tmp_path)
    assert main([], root=tmp_path) == 0
    old = tmp_path / "docs/rules/nemo-rl/gone.md"
    old.write_text("# gone\n", "utf-8")
    assert main(["--check"], root=tmp_path) == 1
    assert "stale: docs/rules/nemo-rl/gone.md\n" in capsys.readouterr().err
    assert main([], root=tmp_path) == 0
    assert not old.exists()
    assert main(["--check"], root=tmp_path) == 0
