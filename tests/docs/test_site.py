"""The site has every page of the repository, and pages for rules and values that Git does not have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from postrender.generate import reference, site, sources
from tests.conftest import PROFILES, RECIPES, ROOT
from tests.docs import pages

PAGES = site.pages(ROOT)
GENERATED = {*site.rule_pages(ROOT), *reference.pages(sources.load(ROOT))}


def test_the_site_has_all_pages() -> None:
    committed = {path.relative_to(ROOT).as_posix() for path in pages.PAGES}
    assert {*PAGES} >= committed | GENERATED | {"index.md", "CONTRIBUTING.md"}
    assert PAGES["index.md"].startswith((ROOT / "README.md").read_text("utf-8"))


def test_generated_pages_are_not_in_git() -> None:
    assert not [path for path in GENERATED if (ROOT / path).exists()]


def test_a_page_keeps_its_text_and_gets_its_list() -> None:
    for name in ("docs/values.md", "docs/rules.md"):
        assert PAGES[name].startswith((ROOT / name).read_text("utf-8"))
    assert "\nvalues/stack\nvalues/platform\n" in PAGES["docs/values.md"]
    assert "### nemo-rl\n" in PAGES["docs/rules.md"]


def test_every_profile_and_recipe_has_its_row() -> None:
    """A new one is listed nowhere else."""
    page = PAGES["docs/recipes.md"]
    rows = re.findall(r"^\| \[(\S+)\]\((\S+)\) \| (.+) \|$", page, re.MULTILINE)
    assert sorted(name for name, _, _ in rows) == sorted([*PROFILES, *RECIPES])
    for name, link, text in rows:
        assert (ROOT / "docs" / link).is_file(), name
        assert 20 < len(text) < 160, (name, text)
    assert "| GB200: GKE A4X, 4 GPUs a node, arm64, RDMA over RoCE, NVLink across up to 18 nodes |" in page


def test_the_folder_holds_what_the_pages_link_to(tmp_path: Path) -> None:
    (tmp_path / "site/docs").mkdir(parents=True)
    (tmp_path / "site/docs/old.md").touch()
    site.write(ROOT, tmp_path / "site")
    assert not (tmp_path / "site/docs/old.md").exists()
    assert (tmp_path / "site/docs/options.md").read_text("utf-8") == PAGES["docs/options.md"]
    assert (tmp_path / "site/examples/helmfile.yaml").is_file()


def test_the_folder_holds_the_pictures_of_the_pages(tmp_path: Path) -> None:
    site.write(ROOT, tmp_path / "site")
    shown = [(path, name) for path, text in PAGES.items() for name in re.findall(r"!\[[^]]*\]\(([^):]+)\)", text)]
    assert ("docs/howto/report.md", "report.png") in shown
    for path, name in shown:
        picture = (tmp_path / "site" / path).parent / name
        assert picture.is_file(), (path, name)
        assert picture.stat().st_size < 150_000, "a picture loads at once"


def test_the_command_wants_one_folder(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["site"])
    assert site.main() == 2
    assert "FOLDER" in capsys.readouterr().err


def test_every_recipe_has_a_verdict_on_both_machines() -> None:
    rows = [line for line in site.verdicts(ROOT).splitlines() if line.startswith("| ")][1:]
    assert len(rows) == len(list((ROOT / "values/recipes").glob("*.yaml")))
    for row in rows:
        assert re.fullmatch(r"\| \S+ \|( (fits|tight), \d+% of a GPU; node memory fits \|){2}", row), row
