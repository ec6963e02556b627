"""Define problems of values: a decorator turns a documented check into a problem."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from grpo.problems.problem import ROOT
from grpo.problems.sign import Sign, printed
from grpo.values.config import OF_VALUES, RunConfig
from postrender.finding import ERROR
from postrender.problem import REASONS, VALUES, Fails, Problem, Verdict

Check = Callable[[RunConfig], Verdict]

_CONFIG: Final = "job.config."
# The parts of a docstring: the title, and paragraphs that begin with one of these words.
_PART: Final = re.compile(r"^(Why|Fix): ", re.MULTILINE)


class DefinitionError(Exception):
    """A check lacks a part of its docstring, or its reason."""


def whole(key: str) -> str:
    """Return a problem key's path from the root of the values."""
    return key[1:] if key[:1] == OF_VALUES else f"{_CONFIG}{key}"


@dataclass(frozen=True)
class Topic:
    """What the problems of a topic have in common.

    `domain` is the first part of their ids, `framework` is empty if they apply to all frameworks, `source` is the
    folder of their sources, and `reasons` gives the cost of each kind of failure.
    """

    domain: str
    framework: str
    source: str
    reasons: Mapping[Fails, str] = field(default_factory=dict)

    def reason(self, fails: Fails) -> str:
        """Return the cost of this kind of failure; empty if each problem gives its own reason."""
        return {**REASONS, **self.reasons}.get(fails, "")

    def problem(
        self,
        keys: str,
        *,
        source: str,
        fails: Fails | None = None,
        why: str = "",
        fix: str = "",
        severity: str = ERROR,
        since: str = "",
        before: str = "",
        logs: str | tuple[Sign, ...] = (),
        place: int = ROOT,
    ) -> Callable[[Check], Problem]:
        """Return a decorator that turns a check into the problem that the check's name and docstring describe.

        The name is the id: `rows_not_divisible` in the domain nemo-rl is nemo-rl/rows-not-divisible; a trailing
        underscore is dropped. The docstring is the title, then paragraphs `Why: …` and `Fix: …`; if the first is
        missing, `fails` or `why` supplies it, and if the second is missing, `fix` does. `keys` are words separated by
        spaces, `logs` are words from the error with which the framework ends the run (a sign if words are not enough),
        `place` is how near to the root of a failure that error is.

        Raises DefinitionError if the docstring lacks one of these parts.
        """

        def made(check: Check) -> Problem:
            title, parts = _parts(check)
            return self.make(
                check.__name__.strip("_").replace("_", "-"),
                keys,
                check,
                title=title,
                why=why or parts.get("Why", ""),
                fix=fix or parts.get("Fix", ""),
                source=source,
                fails=fails,
                severity=severity,
                since=since,
                before=before,
                logs=logs,
                place=place,
            )

        return made

    def make(
        self,
        slug: str,
        keys: str,
        check: Check,
        *,
        title: str,
        fix: str,
        source: str,
        why: str = "",
        fails: Fails | None = None,
        severity: str = ERROR,
        since: str = "",
        before: str = "",
        logs: str | tuple[Sign, ...] = (),
        place: int = ROOT,
    ) -> Problem:
        """Return a problem whose texts are computed; see `problem`.

        Raises DefinitionError if the fix or the reason is missing.
        """
        reason = why or (self.reason(fails) if fails else "")
        of_fails = f"; {fails.name} gives none" if fails else ", or fails="
        parts = {"a title": title, f"a reason (Why:{of_fails})": reason, "a Fix:": fix}
        if missing := [name for name, text in parts.items() if not text]:
            raise DefinitionError(f"{self.domain}/{slug} needs {' and '.join(missing)}")
        return Problem(
            f"{self.domain}/{slug}",
            target=VALUES,
            severity=severity,
            title=title,
            why=reason,
            fix=fix,
            source=f"{self.source}{source}",
            check=check,
            keys=tuple(keys.split()),
            framework=self.framework,
            since=since,
            before=before,
            fails=fails,
            logs=printed(logs.lower()) if isinstance(logs, str) else logs,
            place=place,
        )


def _parts(check: Check) -> tuple[str, dict[str, str]]:
    """Return a check's title, and the paragraphs of its docstring by their first word."""
    title, *rest = _PART.split(inspect.getdoc(check) or "")
    texts = [" ".join(each.split()) for each in rest[1::2]]
    return " ".join(title.split()), dict(zip(rest[::2], texts, strict=True))
