"""The cases of a test that are in CI's list."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def for_ci(cases: Iterable[Any], is_chosen: Callable[[Any], bool]) -> list[Any]:
    """Return the cases of a test as parameters: CI runs the chosen ones, and the whole suite runs all."""
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=[pytest.mark.ci] if is_chosen(case) else [])
        for case in cases
    ]
