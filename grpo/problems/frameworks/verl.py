"""The topic of the rules over verl's configuration, and when a run fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.topic import Topic
from grpo.values.reference_errors import UnknownError
from postrender.finding import Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from grpo.problems.checks import Test
    from grpo.values.config import RunConfig

TOPIC: Final = Topic(
    "verl",
    framework="verl",
    source="verl/",
    reasons={
        Fails.AT_SETUP: "verl rejects it when it validates its configuration, with the "
        "cluster already running and billing",
        Fails.AT_FIRST_STEP: "the run fails after the first generation: the model "
        "is loaded, and a whole batch has been sampled",
    },
)


def failing(run: RunConfig, tests: Mapping[str, Test]) -> Iterator[Finding]:
    """Yield a finding for each key whose test fails; a key whose value is unknown fails no test."""
    for path, test in tests.items():
        try:
            what = test(run)
        except UnknownError:
            continue
        if what:
            yield Finding(what, keys=[path])
