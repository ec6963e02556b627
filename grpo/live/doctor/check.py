"""What a check is, and what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from grpo.live.evidence import Evidence

PASSED: Final = "pass"
FAILED: Final = "fail"
WARNED: Final = "warn"
NOT_CHECKED: Final = "not checked"


@dataclass(frozen=True)
class Result:
    """One thing that the stack needs: its state, the evidence, the value behind it, and how to look by hand.

    `value` is a path such as `ray.workers.replicas`; `fix` says what to do about a failure or a warning.
    """

    state: str
    text: str
    value: str = ""
    fix: str = ""
    command: str = ""


Run = Callable[[Evidence], Iterator[Result]]


@dataclass(frozen=True)
class Check:
    """One check: `reads` are the kinds of evidence without which it is not done."""

    id: str
    title: str
    reads: tuple[str, ...]
    run: Run


def check(check_id: str, title: str, *reads: str) -> Callable[[Run], Check]:
    """Turn a function into a check."""
    return lambda run: Check(check_id, title, reads, run)


def passed(text: str, value: str = "", command: str = "") -> Result:
    """Return the result of something that is there."""
    return Result(PASSED, text, value, "", command)


def failed(text: str, value: str = "", fix: str = "", command: str = "") -> Result:
    """Return the result of something that is missing."""
    return Result(FAILED, text, value, fix, command)


def warned(text: str, value: str = "", fix: str = "", command: str = "") -> Result:
    """Return the result of something that works and is not safe."""
    return Result(WARNED, text, value, fix, command)


def skipped(text: str, value: str = "", command: str = "") -> Result:
    """Return the result of something that could not be judged."""
    return Result(NOT_CHECKED, text, value, "", command)
