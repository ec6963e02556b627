"""What the targets of the Makefile run."""

from __future__ import annotations

import subprocess

from tests.conftest import ROOT


def test_all_kinds_of_failures_are_planted_where_none_is_named() -> None:
    """An empty word of its own is a file for pytest, which then does not know the options of the suite."""
    done = subprocess.run(["make", "--dry-run", "planted"], cwd=ROOT, capture_output=True, text=True, check=True)
    lines = [line for line in done.stdout.splitlines() if "planted/run.py" in line]
    assert len(lines) == 1
    assert '--kinds="" ' in lines[0]
