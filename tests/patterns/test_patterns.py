"""No text makes a pattern of ours slow: each needs linear time on its own worst texts of 100,000 characters."""

from __future__ import annotations

from functools import cache

import pytest

from tests.patterns import run
from tests.patterns.found import Found
from tests.patterns.timed import LIMIT


@cache
def found() -> tuple[list[Found], list[str]]:
    return run.find()


@pytest.mark.full
def test_every_pattern_is_known() -> None:
    patterns, unknown = found()
    assert len(patterns) > 1000
    # `# pattern of the user` beside it says that it comes with the data; else write it where it can be read.
    assert not unknown


@pytest.mark.full
def test_every_pattern_is_linear() -> None:
    slow = [each for each in run.measure(found()[0]) if each.seconds > LIMIT]
    assert not slow, "\n".join(map(str, slow))


@pytest.mark.full
@pytest.mark.parametrize(
    ("pattern", "mode"),
    [("(?:a|aa)*c", "match"), (r"x.*y", "finditer"), (r'"(?:\\.|[^"\\])*"', "finditer")],
)
def test_a_slow_pattern_is_detected(pattern: str, mode: str) -> None:
    slow = run.measure([Found(pattern, 0, False, "here", ((mode, 0),))])
    assert slow[0].seconds > LIMIT


@pytest.mark.parametrize("pattern", [r"(?<!a)a+b", r"x[^xy]*y", "a{1,9}b", r'"(?:\\.|[^"\\])*(?:"|\Z)'])
def test_a_linear_pattern_passes(pattern: str) -> None:
    assert not [
        each for each in run.measure([Found(pattern, 0, False, "here", (("finditer", 0),))]) if each.seconds > LIMIT
    ]
