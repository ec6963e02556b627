"""A version whose own source was not read says so wherever it is judged, and one file decides which ones these are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from grpo.cli.main import main
from grpo.helm.engines import Rendered
from grpo.values import catalogue
from postrender import facts
from tests.conftest import ROOT, stack_files

ENTRIES = yaml.safe_load((ROOT / "schemas/catalogues/nemo-rl/provisional.yaml").read_text("utf-8"))
OTHERS = [version for version in catalogue.versions("nemo-rl") if version not in ENTRIES]


def framework_file(version: str) -> Path:
    return ROOT / f"values/frameworks/nemo-rl-{version}.yaml"


def words(version: str) -> list[str]:
    """Return the options that give a stack of a version."""
    profile, recipe, site = stack_files()
    moved = [framework_file(version)] if version != "v0.7.0" else []
    return [word for file in (profile, recipe, *moved, site) for word in ("-f", str(file))]


@pytest.mark.parametrize("version", ENTRIES)
def test_the_provisional_notice_names_its_source(version: str) -> None:
    said, entry = catalogue.provisional("nemo-rl", version), ENTRIES[version]
    assert version in catalogue.versions("nemo-rl")
    assert said.startswith(f"nemo-rl {version} is provisional: its own source was not read")
    assert len(entry["commit"]) == 40
    assert f"{entry['branch']} at {entry['commit'][:8]} ({entry['date']})" in said
    assert entry["vllm"] == catalogue.load("nemo-rl", version).vllm


def test_no_version_without_an_entry_is_provisional() -> None:
    assert [version for version in OTHERS if catalogue.provisional("nemo-rl", version)] == []
    assert [version for version in catalogue.versions("verl") if catalogue.provisional("verl", version)] == []
    assert catalogue.newest("nemo-rl") == OTHERS[-1]
    assert catalogue.newest("verl") == catalogue.versions("verl")[-1]


def test_only_the_file_makes_a_version_provisional(monkeypatch: pytest.MonkeyPatch) -> None:
    """A version without an entry is like any other, and the newest one."""
    read = facts.load
    monkeypatch.setattr(facts, "load", lambda name: {} if name.endswith("/provisional.json") else read(name))
    assert catalogue.provisional("nemo-rl", "v0.8.0") == ""
    assert catalogue.newest("nemo-rl") == catalogue.versions("nemo-rl")[-1]


@pytest.mark.parametrize("version", [*ENTRIES, "v0.7.0"])
@pytest.mark.parametrize("command", [("lint", "--no-render"), ("plan",), ("plan", "--compare", "b200,h200")])
def test_each_command_prints_the_provisional_notice_once(
    command: tuple[str, ...], version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = words(version)[2:] if "--compare" in command else words(version)
    main([*command, *given])
    said, err = catalogue.provisional("nemo-rl", version), capsys.readouterr().err
    assert err.count("is provisional") == (1 if said else 0)
    assert said in err


@pytest.mark.parametrize("version", [*ENTRIES, "v0.7.0"])
@pytest.mark.parametrize("task", ["train", "evaluate"])
def test_the_chart_notes_print_the_provisional_notice_once(
    task: str, version: str, render_text: Callable[..., Rendered]
) -> None:
    image = {"images": {"training": {"tag": version}}}
    notes = render_text("grpo-job", {**image, "job": {"version": version, "task": task}}).notes or ""
    said = catalogue.provisional("nemo-rl", version)
    assert notes.count("is provisional") == (1 if said else 0)
    assert f"{said}.\n" in notes if said else True


@pytest.mark.parametrize("version", ENTRIES)
def test_the_values_file_names_the_stand_in_as_its_source(version: str) -> None:
    """So that nobody takes a fact for one of the release that is none."""
    text = framework_file(version).read_text("utf-8")
    assert ENTRIES[version]["commit"][:8] in text
    assert f"releases/tag/{version}" in text


@pytest.mark.parametrize("version", ENTRIES)
def test_the_page_has_the_notice_and_links_to_the_release(version: str) -> None:
    page = (ROOT / "docs/howto/older-versions.md").read_text("utf-8")
    assert f"<!-- provisional: {version} -->" in page
    assert f"releases/tag/{version})" in page


@pytest.mark.parametrize("version", ENTRIES)
def test_the_values_file_has_the_versions_of_the_entry(version: str) -> None:
    """What is inside of the image, and the Python of its library path."""
    python, torch, vllm = (ENTRIES[version][name] for name in ("python", "torch", "vllm"))
    text = framework_file(version).read_text("utf-8")
    (inside,) = (line for line in text.splitlines() if line.startswith("# Inside: "))
    assert inside.startswith(f"# Inside: Python {python}, torch {torch} ")
    assert f", vLLM {vllm}, " in inside
    path = yaml.safe_load(text)["images"]["training"]["libraryPath"]
    assert f"/python{python.rpartition('.')[0]}/" in path
