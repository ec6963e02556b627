"""The site has every page of the repository, and pages for rules and values that Git does not have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grpo.generate import reference, site, sources
from tests.conftest import PROFILES, RECIPES, ROOT
from tests.docs import pages


@pytest.fixture(scope="module")
def site_pages() -> dict[str, str]:
    return site.pages(ROOT)


@pytest.fixture(scope="module")
def generated() -> set[str]:
    """Return the pages that Git does not have."""
    return {*site.rule_pages(), *reference.pages(sources.load(ROOT))}


def test_the_site_has_all_pages(site_pages: dict[str, str], generated: set[str]) -> None:
    committed = {path.relative_to(ROOT).as_posix() for path in pages.PAGES}
    assert {*site_pages} >= committed | generated | {"index.md", "CONTRIBUTING.md"}
    assert site_pages["index.md"].startswith((ROOT / "README.md").read_text("utf-8"))


def test_generated_pages_are_not_in_git(generated: set[str]) -> None:
    assert not [path for path in generated if (ROOT / path).exists()]


def test_an_index_page_keeps_its_text_and_gets_a_list_of_pages(site_pages: dict[str, str]) -> None:
    for name in ("docs/values.md", "docs/rules.md"):
        assert site_pages[name].startswith((ROOT / name).read_text("utf-8"))
    assert "\nvalues/stack\nvalues/platform\n" in site_pages["docs/values.md"]
    assert "### nemo-rl\n" in site_pages["docs/rules.md"]


def test_every_profile_and_recipe_has_its_row(site_pages: dict[str, str]) -> None:
    """A new one is listed nowhere else."""
    page = site_pages["docs/recipes.md"]
    rows = re.findall(r"^\| \[(\S+)\]\((\.\./values/\S+)\) \| (.+) \|$", page, re.MULTILINE)
    assert sorted(name for name, _, _ in rows) == sorted([*PROFILES, *RECIPES])
    for name, link, text in rows:
        assert (ROOT / "docs" / link).is_file(), name
        assert 20 < len(text) < 160, (name, text)


def test_the_how_tos_are_in_the_order_of_the_index(site_pages: dict[str, str]) -> None:
    menu = site_pages["index.md"].split(":caption: How to\n")[1].split("```")[0].split()[1:]
    listed = re.findall(r"\]\((howto/[\w-]+|gitops)\.md\)", (ROOT / "docs/README.md").read_text("utf-8"))
    assert menu == [f"docs/{name}" for name in dict.fromkeys(listed)]
    assert {each for each in menu if "howto" in each} == {
        f"docs/howto/{path.stem}" for path in (ROOT / "docs/howto").glob("*.md")
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the site, in which an older one lay."""
    found = tmp_path_factory.mktemp("build") / "site"
    (found / "docs").mkdir(parents=True)
    (found / "docs/old.md").touch()
    site.write(ROOT, found)
    return found


def test_the_site_folder_has_every_linked_file(folder: Path, site_pages: dict[str, str]) -> None:
    assert not (folder / "docs/old.md").exists()
    assert (folder / "docs/options.md").read_text("utf-8") == site_pages["docs/options.md"]
    assert (folder / "examples/helmfile.yaml").is_file()


def test_the_site_folder_has_every_picture_on_the_pages(folder: Path, site_pages: dict[str, str]) -> None:
    shown = [(path, name) for path, text in site_pages.items() for name in re.findall(r"!\[[^]]*\]\(([^):]+)\)", text)]
    assert ("docs/howto/report.md", "report.png") in shown
    for path, name in shown:
        picture = (folder / path).parent / name
        assert picture.is_file(), (path, name)
        assert picture.stat().st_size < 150_000, "a picture loads at once"


def test_the_command_requires_a_folder_argument(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["site"])
    assert site.main() == 2
    assert "FOLDER" in capsys.readouterr().err


def test_every_recipe_has_a_verdict_on_both_machines(site_pages: dict[str, str]) -> None:
    table = site_pages["docs/recipes.md"].partition("\n## Do they fit?\n")[2]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == len(list((ROOT / "values/recipes").glob("*.yaml")))
    for row in rows:
        assert re.fullmatch(r"\| \S+ \|( (fits|tight), \d+% of a GPU; node memory fits \|){2}", row), row
