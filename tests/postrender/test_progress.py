"""A bar is for a person who waits: not for a log, not for what is done at once, and it goes."""

from __future__ import annotations

import io
import sys

import pytest

from postrender import progress
from postrender.progress import Progress


class Terminal(io.StringIO):
    """Stand for a terminal."""

    def isatty(self) -> bool:
        return True


def watched(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Return what a person sees while each step takes a second."""
    terminal, seconds = Terminal(), iter(range(100))
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(seconds)))
    monkeypatch.delenv("CI", raising=False)
    return terminal


def test_a_bar_comes_after_two_seconds_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = watched(monkeypatch)
    bar = Progress("rules")
    bar.step(1, 4)
    assert seen.getvalue() == ""
    bar.step(2, 4)
    assert seen.getvalue() == f"\r[{'#' * 15:<30}]  50 % of 4 rules"
    bar.step(4, 4)
    bar.end()
    assert seen.getvalue().count("\r\033[K") == 1


def test_what_is_done_at_once_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = watched(monkeypatch)
    bar = Progress("rules")
    bar.step(1, 1)
    bar.end()
    assert seen.getvalue() == ""


def test_a_log_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = watched(monkeypatch)
    monkeypatch.setenv("CI", "true")
    in_ci = Progress("rules")
    monkeypatch.delenv("CI")
    file = io.StringIO()
    monkeypatch.setattr(sys, "stderr", file)
    for bar in (in_ci, Progress("rules")):
        for at in range(5):
            bar.step(at, 5)
        bar.end()
    assert seen.getvalue() + file.getvalue() == ""
