"""Reports have four parts and a caret for people, and a stable form for programs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from urllib.parse import quote

import pytest

from grpo.report import formats, text
from postrender.errors import Location
from postrender.finding import Finding
from tests.postrender.test_secrets import EXAMPLES


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Write a values file with a tab and a line that is too long for a terminal."""
    path = tmp_path / "site.yaml"
    path.write_text("a: 1\n  b:\tx\n" + "c: " + "y" * 500 + "\n")
    return str(path)


def test_text_output_has_place_problem_source_reason_and_fix(file: str) -> None:
    one = Finding("a is 1", Location(file, 1, 4), rule="values/rule", why="It hurts.", fix="write 2")
    assert formats.write([one], "text") == (
        f"{file}:1:4: a is 1  [values/rule]\n  1 | a: 1\n    |    ^\n  why: It hurts.\n  fix: write 2\n\n1 error\n"
    )
    assert formats.write([one, one], "text").endswith("\n2 errors\n")
    assert formats.write([], "text") == ""


def test_text_output_names_lower_severities_related_places_and_the_rule_page(file: str) -> None:
    also = [(Location(file, 2, 3), "job.config.b")]
    one = Finding("a is 1", Location(file, 1, 4), rule="nemo-rl/rule", why="w", fix="f", severity="warning", also=also)
    assert formats.write([one], "text") == (
        f"{file}:1:4: warning: a is 1  [nemo-rl/rule]\n  1 | a: 1\n    |    ^\n  also: {file}:2:3 job.config.b\n"
        "  why: w\n  fix: f\n  see: grpo explain nemo-rl/rule\n\n"
        "1 warning; the exit code is 0, and 1 with --fail-on warning\n"
    )


def test_the_caret_is_aligned_below_its_character_despite_tabs(file: str) -> None:
    assert text.excerpt(Location(file, 2, 6)) == "  2 |   b:\tx\n    |     \t^\n"
    assert len(text.excerpt(Location(file, 3, 1)).splitlines()[0]) < 220


@pytest.mark.parametrize("at", [Location("none.yaml", 1, 1), Location("none.yaml"), Location(__file__, 99999, 1)])
def test_a_place_without_a_line_shows_no_source(at: Location) -> None:
    assert text.excerpt(at) == ""


def test_a_secret_is_never_shown(tmp_path: Path) -> None:
    secret = EXAMPLES["gitlab"]
    path = tmp_path / "f.yaml"
    path.write_text(f"a: {secret}\n")
    for hidden in (True, False):
        one = Finding(
            f"a is {secret}", Location(str(path), 1, 4), rule="values/x", why="w", fix=f"drop {secret}", secret=hidden
        )
        for form in formats.FORMATS:
            assert secret not in formats.write([one], form)
            assert "gitlab token" in formats.write([one], form)


def test_json_output_has_every_field(file: str) -> None:
    one = Finding("what ü", Location(file, 1, 4), rule="values/rule", why="why", fix="fix")
    assert json.loads(formats.write([one], "json")) == {
        "findings": [
            {
                "rule": "values/rule",
                "severity": "error",
                "file": file,
                "line": 1,
                "col": 4,
                "what": "what ü",
                "why": "why",
                "fix": "fix",
                "also": [],
            }
        ]
    }
    assert json.loads(formats.write([], "json")) == {"findings": []}


@pytest.mark.parametrize(
    ("named", "workspace", "shown"),
    [
        ("{repo}/values/site.yaml", "{repo}", "values/site.yaml"),
        ("../values/site.yaml", "{repo}", "values/site.yaml"),
        ("site.yaml", "{repo}", "deploy/site.yaml"),
        ("./a/../site.yaml", "{repo}", "deploy/site.yaml"),
        ("site.yaml", None, "site.yaml"),
        ("{repo}/deploy/site.yaml", None, "site.yaml"),
        ("{repo}/deploy/site.yaml", "", "site.yaml"),
        ("../values/site.yaml", None, "../values/site.yaml"),
        ("{repo}2/site.yaml", "{repo}", "{repo}2/site.yaml"),
        ("<stdin>", "{repo}", "<stdin>"),
        ("<raycluster>", "{repo}", "<raycluster>"),
    ],
)
def test_code_hosts_get_repository_relative_paths(
    named: str, workspace: str | None, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GitHub shows an annotation beside a line only where the file is named from the root of the repository."""
    repo = tmp_path / "repo"
    (repo / "deploy").mkdir(parents=True)
    monkeypatch.chdir(repo / "deploy")
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    if workspace is not None:
        monkeypatch.setenv("GITHUB_WORKSPACE", workspace.format(repo=repo))
    name, expected = named.format(repo=repo), shown.format(repo=repo)
    found = [Finding("x", Location(name, 2, 1), rule="values/rule", why="w", fix="f", also=[(Location(name, 3), "a")])]
    assert f"::error file={expected}," in formats.write(found, "github")
    (result,) = json.loads(formats.write(found, "sarif"))["runs"][0]["results"]
    uri = quote(expected if not os.path.isabs(expected) else f"file://{expected}", safe="/:")
    for place in (result["locations"][0], result["relatedLocations"][0]):
        assert place["physicalLocation"]["artifactLocation"]["uri"] == uri


def test_github_annotations_have_no_control_characters() -> None:
    one = Finding("red \x1b[31m\x07\x9b", Location("a\x1b[2J.yaml", 2, 3), rule="values/rule", why="w", fix="f\r\x00")
    line = formats.write([one], "github")
    assert line[:-1].isprintable()
    assert "::red \\u0007\\u009b%0A" in line


def test_github_annotations_are_escaped() -> None:
    one = Finding("50% of\nit", Location("a,b:c%.yaml", 2, 3), rule="values/rule", why="w", fix="f")
    whole = Finding("x", Location("f.yaml"), rule="values/rule", why="w", fix="f")
    assert formats.write([one, whole], "github") == (
        "::error file=a%2Cb%3Ac%25.yaml,line=2,col=3,title=values/rule::50%25 of%0Ait%0Awhy: w%0Afix: f\n"
        "::error file=f.yaml,title=values/rule::x%0Awhy: w%0Afix: f\n"
    )
