"""A rule: what is checked, why, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from postrender.finding import Finding

# The target of a rule. The check gets an Effective (the run that the values describe), a Manifests, a Chart, or
# the signs that a log shows.
VALUES: Final = "values"
OBJECTS: Final = "objects"
CHART: Final = "chart"
# The steps of a training, as its log has them.
LOG: Final = "log"
# The stream that the post-renderer wires; no rule is about it, but findings are.
STREAM: Final = "stream"
_COMMANDS: Final = {
    VALUES: "grpo lint",
    OBJECTS: "grpo check",
    CHART: "grpo check",
    LOG: "grpo watch and grpo report",
    STREAM: "grpo-post-render",
}
# The reason of a rule that a chart also enforces: its findings cannot be ignored.
REFUSED: Final = "the chart refuses to render it: an install fails, and a review pipeline too"

# A text means one finding at the keys of the rule.
Verdict = str | Iterable[Finding] | None
Check = Callable[[Any], Verdict]


def _nothing(_: Any) -> None:  # noqa: ANN401 (a check gets what its target is)
    """Return no findings."""


class Rule(NamedTuple):
    """A check with its reason and its fix; `source` is the evidence.

    A rule without a source describes a check that is no rule (rules/reading.py): each finding has its own why and fix.
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
    # Empty for a rule that does not depend on the framework.
    framework: str = ""
    # The versions of the framework that it applies to: from `since` on, and before `before`.
    since: str = ""
    before: str = ""
    # What is wrong and what is right, for a check without fixtures.
    bad: str = ""
    good: str = ""
    # The facts that it checks, separated by blanks: LIST/NAME. rules/status.yaml has the facts that no rule checks.
    fact: str = ""

    @property
    def domain(self) -> str:
        """Return the first part of the id."""
        return self.id.partition("/")[0]

    @property
    def command(self) -> str:
        """Return the command that runs the rule."""
        return _COMMANDS[self.target]

    @property
    def versions(self) -> str:
        """Return framework and versions as text; empty for a rule that does not depend on the framework."""
        start = f" {self.since}" if self.since else ""
        and_later = " and later" if self.since and not self.before else ""
        return f"{self.framework}{start}{and_later}" + (f" before {self.before}" if self.before else "")
