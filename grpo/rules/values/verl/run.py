"""The topic of the rules over verl's configuration, and when a run would fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.rules.values.define import Topic
from grpo.values.reference_errors import UnknownError
from postrender.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from grpo.rules.values.checks import Test
    from grpo.values.config import Effective

TOPIC: Final = Topic("verl", framework="verl", source="verl/")

# When the run would fail.
CHECKED: Final = "verl refuses it when it validates its configuration: the cluster is up, and its GPUs are paid for"
WORKER: Final = "the workers refuse it while they load the model, minutes into the job"
STEP: Final = "the run fails after the first generation: the model is loaded, and a whole batch has been sampled"


def failing(run: Effective, tests: Mapping[str, Test]) -> Iterator[Finding]:
    """Yield a finding for each key whose test fails; a key whose value is not known fails none."""
    for path, test in tests.items():
        try:
            what = test(run)
        except UnknownError:
            continue
        if what:
            yield Finding(what, keys=[path])
