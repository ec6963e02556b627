"""A bar is for a person who waits: not for a log, not for what is done at once, and it goes."""

from __future__ import annotations

import io
import sys

import pytest

from grpo.terminal import progress
from grpo.terminal.progress import Progress

HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


class Terminal(io.StringIO):
    """Stand for a terminal."""

    def isatty(self) -> bool:
        return True


def watched(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Return what a person sees while each step takes a second."""
    terminal, seconds = Terminal(), iter(range(100))
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(seconds)))
    monkeypatch.setenv("TERM", "xterm")
    for name in ("CI", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return terminal


def test_a_progress_bar_appears_after_two_seconds_and_then_disappears(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    with Progress("rules") as bar:
        bar.step(1, 4)
        assert terminal.getvalue() == ""
        bar.step(2, 4)
        assert " 50 % of 4 rules" in terminal.getvalue()
        bar.step(3, 4)
        assert " 75 % of 4 rules" in terminal.getvalue()
        shown = len(terminal.getvalue())
        bar.step(4, 4)
        assert "\x1b[2K" in terminal.getvalue()[shown:]


def test_a_progress_bar_is_cleared_when_the_work_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the cursor of the person's shell would stay hidden."""
    terminal = watched(monkeypatch)

    def work() -> None:
        with Progress("rules") as bar:
            bar.step(1, 4)
            bar.step(2, 4)
            assert HIDE_CURSOR in terminal.getvalue()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert terminal.getvalue().rindex(SHOW_CURSOR) > terminal.getvalue().rindex(HIDE_CURSOR)


def test_instant_work_shows_no_progress_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    with Progress("rules") as bar:
        bar.step(1, 1)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize(("name", "value"), [("CI", "true"), ("TERM", "dumb")])
def test_a_terminal_that_cannot_draw_shows_no_progress_bar(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some CI systems give their jobs a terminal."""
    terminal = watched(monkeypatch)
    monkeypatch.setenv(name, value)
    with Progress("rules") as bar:
        for at in range(5):
            bar.step(at, 5)
    assert terminal.getvalue() == ""


def test_a_log_file_gets_no_progress_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    watched(monkeypatch)
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    with Progress("rules") as bar:
        for at in range(5):
            bar.step(at, 5)
    assert log.getvalue() == ""


def test_a_progress_bar_is_drawn_without_colour_too(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    with Progress("rules") as bar:
        bar.step(1, 4)
        bar.step(2, 4)
    assert " 50 % of 4 rules" in terminal.getvalue()
    assert "m" not in {each[-1:] for each in terminal.getvalue().split("\x1b[") if each[:1].isdigit()}
