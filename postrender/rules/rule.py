"""A rule: what is checked, why, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from postrender.finding import Finding

# What a rule checks. Its check gets an Effective (a run as its values describe it), a Manifests or a Chart.
VALUES: Final = "values"
OBJECTS: Final = "objects"
CHART: Final = "chart"
# Why a rule exists that a chart enforces too: such a finding cannot be ignored.
REFUSED: Final = "the chart refuses to render it: an install fails, and a review pipeline too"

# A text is a finding at the keys of the rule.
Verdict = str | Iterable[Finding] | None
Check = Callable[[Any], Verdict]


def _nothing(_: Any) -> None:  # noqa: ANN401 (a check gets what its target is)
    """Find nothing."""


class Rule(NamedTuple):
    """Say what is checked, why, and what to do; `source` is the evidence.

    A rule without a source stands for a check that is part of reading the values: its why and fix depend on what was
    found.
    """

    id: str
    target: str
    severity: str
    title: str
    why: str = ""
    fix: str = ""
    source: str = ""
    check: Check = _nothing
    # The keys that it looks at, the one to edit first: below job.config, or with `=` in front from the root.
    keys: tuple[str, ...] = ()
    # Empty for a rule that no framework matters to.
    framework: str = ""
    # The versions of the framework that it holds for: from `since` on, and before `before`.
    since: str = ""
    before: str = ""
    # The facts that it checks, separated by blanks: LIST/NAME. rules/status.yaml has the facts that no rule checks.
    fact: str = ""

    @property
    def domain(self) -> str:
        """Return the first part of the id."""
        return self.id.partition("/")[0]

    @property
    def command(self) -> str:
        """Return the command that asks the rule."""
        return "grpo lint" if self.target == VALUES else "grpo check"

    @property
    def versions(self) -> str:
        """Return framework and versions in words; an empty text for a rule that no framework matters to."""
        start = f" {self.since}" if self.since else ""
        and_later = " and later" if self.since and not self.before else ""
        return f"{self.framework}{start}{and_later}" + (f" before {self.before}" if self.before else "")
