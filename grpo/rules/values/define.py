"""Define rules over values: a decorator turns a check into a rule and adds what all rules of a topic share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from grpo.values.config import OF_VALUES, Effective
from postrender.finding import ERROR
from postrender.rules.rule import VALUES, Rule, Verdict

Check = Callable[[Effective], Verdict]

_CONFIG: Final = "job.config."


def whole(key: str) -> str:
    """Return the path of a rule's key from the root of the values."""
    return key[1:] if key[:1] == OF_VALUES else f"{_CONFIG}{key}"


@dataclass(frozen=True)
class Topic:
    """What the rules of a topic have in common.

    `domain` is the first part of their ids, `framework` is empty if the rules apply to all frameworks, and `source` is
    the folder of their sources.
    """

    domain: str
    framework: str
    source: str

    def rule(
        self,
        slug: str,
        fact: str,
        keys: str,
        *,
        title: str,
        why: str,
        fix: str,
        source: str,
        severity: str = ERROR,
        since: str = "",
        before: str = "",
    ) -> Callable[[Check], Rule]:
        """Return a decorator that turns a check into a rule; `fact` and `keys` are words separated by blanks.

        A fact without a list belongs to the list of the framework.
        """

        def made(check: Check) -> Rule:
            return Rule(
                f"{self.domain}/{slug}",
                target=VALUES,
                severity=severity,
                title=title,
                why=why,
                fix=fix,
                source=f"{self.source}{source}",
                check=check,
                keys=tuple(keys.split()),
                framework=self.framework,
                since=since,
                before=before,
                fact=" ".join(each if "/" in each else f"{self.framework}/{each}" for each in fact.split()),
            )

        return made
