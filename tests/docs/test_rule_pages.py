"""The site has a page for each rule with its text and its cases, and tables that link to all of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grpo.generate import site
from grpo.generate.markdown import prose
from grpo.problems import cases, index, reading

RULES = {rule.id: rule for rule in index.everything()}


@pytest.fixture(scope="module")
def rule_pages() -> dict[str, str]:
    return site.rule_pages()


def test_each_rule_has_a_page_with_its_texts(rule_pages: dict[str, str]) -> None:
    for rule in RULES.values():
        page = rule_pages[f"docs/rules/{rule.id}.md"].replace("\\", "")
        for text in (rule.title, rule.severity, rule.why, rule.fix, rule.source, rule.command, rule.versions):
            assert text in re.sub("<(https:[^>]*)>", r"\1", page), rule.id
        for name in ("bad", "good"):
            assert (f"## {name.capitalize()}\n" in page) == bool(cases.case(rule.id, name)), rule.id
        assert page.count("```") % 2 == 0, rule.id


def test_the_tables_link_to_every_page_and_every_page_links_back(rule_pages: dict[str, str]) -> None:
    tables = site.rule_tables()
    listed = re.findall(r"\]\((\S+\.md)\)", tables)
    assert sorted(f"docs/{name}" for name in listed) == sorted(rule_pages)
    for each in reading.READING:
        assert f"| [{each.id}](" in tables
    for page, text in rule_pages.items():
        (up,) = re.findall(r"^\[All rules\]\((\S+)\)$", text, re.MULTILINE)
        assert (Path("/") / page).parent.joinpath(up).resolve() == Path("/docs/rules.md")


def test_an_example_keeps_its_finding_marks_and_names_its_base_files(rule_pages: dict[str, str]) -> None:
    page = rule_pages["docs/rules/nodes/another-accelerator.md"]
    assert "`values/accelerators/b200.yaml`:\n\n```yaml\n---\n" in page
    assert " # <- finding: " in page
    assert "# values: " not in page


@pytest.mark.parametrize(
    ("first", "files"),
    [
        (
            "# lint: b200 smoke",
            ("values/accelerators/b200.yaml", "values/recipes/smoke.yaml", "values/examples/site.yaml"),
        ),
        (
            "# lint: b200 smoke nemo-rl-v0.6.0",
            tuple(
                f"values/{name}.yaml"
                for name in ("accelerators/b200", "recipes/smoke", "frameworks/nemo-rl-v0.6.0", "examples/site")
            ),
        ),
        ("# lint: b200", ("values/accelerators/b200.yaml", "values/examples/site.yaml")),
        ("# values: h200 {stack: {name: a}}", ("values/accelerators/h200.yaml", "{stack: {name: a}}")),
        ("# A comment of the example.", ()),
    ],
)
def test_the_files_named_by_a_case_are_listed(
    monkeypatch: pytest.MonkeyPatch, first: str, files: tuple[str, ...]
) -> None:
    rule = next(iter(RULES))
    monkeypatch.setattr(cases, "cases", lambda: {rule: (cases.Case(rule, "bad", f"{first}\na: 1\n", ""),)})
    page = site.rule_pages()[f"docs/rules/{rule}.md"]
    above, _, example = page.partition("## Bad\n")[2].partition("```yaml\n")
    assert tuple(re.findall("`([^`]+)`", above)) == files
    assert example.startswith("a: 1\n```" if files else f"{first}\na: 1\n```")
    assert "## Good" not in page


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("num_rows <= *", r"num_rows \<= \*"),
        ("_override_: a|b", r"\_override\_: a\|b"),
        ("${a.b}", "${a.b}"),
        ("see https://a.io/b_c (d), https://e.io/f.", "see <https://a.io/b_c> (d), <https://e.io/f>."),
    ],
)
def test_text_is_escaped_so_that_markdown_does_not_format_it(text: str, shown: str) -> None:
    assert prose(text) == shown
