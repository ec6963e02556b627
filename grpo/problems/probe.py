"""What a probe of a cluster reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PASSED: Final = "pass"
FAILED: Final = "fail"
WARNED: Final = "warn"
NOT_CHECKED: Final = "not checked"


@dataclass(frozen=True)
class Result:
    """One thing that the stack needs: its state, the evidence, the value behind it, and a command to check it by hand.

    `value` is a path such as `ray.workers.replicas`; `fix` says what to do about a failure or a warning.
    """

    state: str
    text: str
    value: str = ""
    fix: str = ""
    command: str = ""


def passed(text: str, value: str = "", command: str = "") -> Result:
    """Return the result for something that is present."""
    return Result(PASSED, text, value, "", command)


def failed(text: str, value: str = "", fix: str = "", command: str = "") -> Result:
    """Return the result for something that is missing."""
    return Result(FAILED, text, value, fix, command)


def warned(text: str, value: str = "", fix: str = "", command: str = "") -> Result:
    """Return the result for something that works but is not safe."""
    return Result(WARNED, text, value, fix, command)


def skipped(text: str, value: str = "", command: str = "") -> Result:
    """Return the result for something that could not be judged."""
    return Result(NOT_CHECKED, text, value, "", command)
