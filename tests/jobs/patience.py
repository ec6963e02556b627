"""Rewards without limits that a busy machine reaches: neither ours nor those of math-verify."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.programs import PROGRAMS

limits = importlib.import_module("reward_limits")
# Seconds that only a test that hangs takes.
LIMIT = 120.0


def write_limits(folder: Path) -> Path:
    """Write reward_limits.py with a long limit; math-verify has none, because the alarm never rings."""
    text, seconds = PROGRAMS["reward_limits"].read_text(encoding="utf-8"), "\nSECONDS = 4.0\n"
    assert seconds in text
    path = folder / "reward_limits.py"
    path.write_text(text.replace(seconds, f"\nSECONDS = {LIMIT}\nsignal.alarm = lambda seconds: 0\n"), encoding="utf-8")
    return path


@pytest.fixture(scope="module", autouse=True)
def patience(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let no answer be late, and keep the processes that answer: a library of theirs takes long to load."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "SECONDS", LIMIT)
        patch.setattr(limits, "START_SECONDS", LIMIT)
        # They run this file.
        patch.setattr(limits, "__file__", str(write_limits(tmp_path_factory.mktemp("limits"))))
        yield
        limits.are_equal.stop()
        limits.is_found.stop()
