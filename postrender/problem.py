"""A problem: one thing that can go wrong, why it matters, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any, Final, NamedTuple

from postrender.finding import Finding

# The target of a problem. Its check gets a RunConfig (the run that the values describe), a Manifests, a Chart, the
# signs that the steps of a training show, or the Evidence of a cluster.
VALUES: Final = "values"
OBJECTS: Final = "objects"
CHART: Final = "chart"
# The steps of a training, as its log has them.
LOG: Final = "log"
# A cluster before an install, and a run that ended or does not go on.
CLUSTER: Final = "cluster"
FAILURE: Final = "failure"
# The stream that the post-renderer wires; no check is about it, but findings are.
STREAM: Final = "stream"
_COMMANDS: Final = {
    VALUES: "grpo lint",
    OBJECTS: "grpo check",
    CHART: "grpo check",
    LOG: "grpo watch and grpo report",
    CLUSTER: "grpo doctor",
    FAILURE: "grpo why",
    STREAM: "grpo-post-render",
}

# A text means one finding at the keys of the problem. The check of a cluster gives results instead of findings.
Verdict = str | Iterable[Finding] | None
Check = Callable[[Any], Any]


class Fails(StrEnum):
    """When a problem stops a run if nobody finds it earlier, or what harm it does if it stops no run."""

    # A chart refuses it, so its findings cannot be accepted.
    AT_RENDER = "when the chart renders"
    AT_ADMISSION = "when the API server takes the object"
    PENDING = "never: its pods wait"
    AT_START = "when a container starts"
    AT_SETUP = "when the framework reads its configuration"
    AT_LOADING = "when the workers load the model"
    AT_FIRST_STEP = "at the first training step"
    AT_CHECKPOINT = "when a checkpoint is saved or loaded"
    LATER = "later in the training"
    # These stop no run.
    SILENT = "never: it does something else than was asked"
    COSTS = "never: it costs time or money"
    EXPOSES = "never: others can read or change what is not theirs"


# What each of these costs, for a problem that gives no reason of its own.
REASONS: Final = {
    Fails.AT_RENDER: "the chart refuses to render it: an install fails, and a review pipeline too",
    Fails.AT_LOADING: "the workers refuse it while they load the model, minutes into the job",
    Fails.LATER: "the run fails in the middle of the training",
    Fails.AT_CHECKPOINT: "the run fails when it saves its first checkpoint, and all steps before are lost",
}


def _nothing(_: Any) -> None:  # noqa: ANN401 (a check gets what its target is)
    """Return no findings."""


class Problem(NamedTuple):
    """One thing that can go wrong, with the check that finds it; `source` is the evidence.

    A problem without a source has no check of its own (grpo/problems/reading.py): each finding has its own why and fix.
    """

    id: str
    target: str
    severity: str
    title: str
    why: str = ""
    fix: str = ""
    source: str = ""
    check: Check = _nothing
    # The keys that it reads, with the one to edit first: below job.config, or from the root with a leading `=`.
    keys: tuple[str, ...] = ()
    # Empty for a problem that does not depend on the framework.
    framework: str = ""
    # The versions of the framework that it applies to: from `since` on, and before `before`.
    since: str = ""
    before: str = ""
    # When it stops a run; None if its reason says it.
    fails: Fails | None = None
    # What shows it later (grpo/problems): the lines that a failed run has, who is to blame, what another start would
    # do, how near to the root it is, the value to look at (for a line about the head pod, `on_head`; without them the
    # first of the keys), and what all lines say together.
    logs: tuple[Any, ...] = ()
    blame: str = "configuration"
    retry: str = "fails the same way"
    place: int = 0
    value: str = ""
    on_head: str = ""
    remark: Callable[..., str] | None = None
    # The ids of the problems that say it earlier.
    earlier: tuple[str, ...] = ()
    # The kinds of evidence without which the check of a cluster is not done.
    reads: tuple[str, ...] = ()

    @property
    def domain(self) -> str:
        """Return the first part of the id."""
        return self.id.partition("/")[0]

    @property
    def command(self) -> str:
        """Return the command that runs the check."""
        return _COMMANDS[self.target]

    @property
    def versions(self) -> str:
        """Return framework and versions as text; empty if the problem does not depend on the framework."""
        start = f" {self.since}" if self.since else ""
        and_later = " and later" if self.since and not self.before else ""
        return f"{self.framework}{start}{and_later}" + (f" before {self.before}" if self.before else "")
