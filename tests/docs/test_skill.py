"""SKILL.md: every command in it runs, in its order, or asks a cluster with options that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from grpo.cli import main as cli
from tests.conftest import ROOT
from tests.docs import pages
from tests.docs.test_pages import is_of_a_cluster, offline

TEXT = (ROOT / "SKILL.md").read_text(encoding="utf-8")
# What an assistant must know; grpo init and grpo rules are beside them.
TAUGHT = (
    "lint",
    "plan",
    "doctor",
    "render",
    "status",
    "why",
    "logs",
    "submit",
    "upload",
    "watch",
    "report",
    "checkpoints",
    "samples",
)


def test_the_skill_is_short_and_names_itself() -> None:
    assert len(TEXT.splitlines()) <= 100
    head = re.match(r"---\nname: grpo\ndescription: .{50,1024}\n---\n", TEXT)
    assert head


@pytest.mark.full
def test_every_command_in_the_skill_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The site file that the others read is the one that the first one writes."""
    for name in ("values", "charts", "jobs"):
        (folder / name).symlink_to(ROOT / name)
    ran = set()
    for command in pages.commands(TEXT):
        words = offline(command)
        if words is None or is_of_a_cluster(words):
            words = shlex.split(command, comments=True)[1:]
            pages.read_options(words)
        else:
            assert cli.main(words) == 0, (command, capsys.readouterr())
        ran.add(words[0])
    assert set(TAUGHT) <= ran
    assert (folder / "report.html").exists()


def test_every_docs_file_named_in_the_skill_exists() -> None:
    for path in re.findall(r"`(docs/[\w./-]+)`", TEXT):
        assert (ROOT / path).exists()
