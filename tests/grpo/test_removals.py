"""Rewards and prompts that are null."""

from __future__ import annotations

from pathlib import Path

from grpo.lint import removals
from postrender import paths
from postrender.values import merge
from tests.conftest import ROOT

EXAMPLE = str(ROOT / "values/examples/rewards.yaml")


def removed(folder: Path, text: str, *before: str) -> list[str]:
    """Return what is found in a file behind others."""
    file = folder / "mine.yaml"
    file.write_text(text, "utf-8")
    profile = paths.accelerator("b200")
    return [f"{each.at.line}: {each.what}" for each in removals.findings(merge.load([profile, *before, str(file)]))]


def test_a_null_entry_removes_one_from_an_earlier_file(tmp_path: Path) -> None:
    assert removed(tmp_path, "job:\n  rewards: {length: null}\n  prompts: {tags: null}\n", EXAMPLE) == []
    assert removed(tmp_path, "job:\n  rewards: null\n") == []


def test_a_null_entry_that_removes_nothing_is_found(tmp_path: Path) -> None:
    text = "job:\n  rewards:\n    polite:\n  prompts:\n    cot:\n"
    assert removed(tmp_path, text, EXAMPLE) == [
        "3: job.rewards.polite is null, which removes it, and no file before has it",
        "5: job.prompts.cot is null, which removes it, and no file before has it",
    ]
