"""What the targets of the Makefile run."""

from __future__ import annotations

import subprocess

import pytest

from tests.conftest import ROOT


def lines(word: str, *options: str) -> list[str]:
    """Return the lines of what make would run that have a word."""
    done = subprocess.run(["make", "--dry-run", *options], cwd=ROOT, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if word in line]


def test_all_kinds_of_failures_are_planted_by_default() -> None:
    """An empty word of its own is a file for pytest, which then does not know the options of the suite."""
    (line,) = lines("planted/run.py", "planted")
    assert '--kinds="" ' in line


@pytest.mark.parametrize(("target", "folder"), [("e2e", ""), ("e2e-node", "node/"), ("planted", "planted/")])
def test_a_suite_runs_completely_or_only_tests_with_a_given_mark(target: str, folder: str) -> None:
    program = f"tests/e2e/{folder}run.py"
    (whole,), (marked,) = lines(program, target), lines(program, target, "ONLY=ci")
    assert " -m " not in whole.partition(program)[2]
    assert marked.partition(program)[2].startswith(" -m ci")


def test_the_table_of_planted_failures_is_written_only_for_all_kinds() -> None:
    assert len(lines("planted/table.py", "planted")) == 1
    for option in ("ONLY=ci", "KINDS=outcomes"):
        assert lines("planted/table.py", "planted", option) == []
