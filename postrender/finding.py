"""A finding: one thing that is wrong, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from postrender.errors import Location

Path = tuple[str | int, ...]

# Worst first.
SEVERITIES = ("error", "warning", "info")
ERROR, WARNING, INFO = SEVERITIES
NOWHERE = Location("")


class Place(NamedTuple):
    """A place in a stream of documents: the number of a document, and the path of a value below its root.

    `of_key` means the last key of the path, not its value. Where no path leads to the place, `line` and `col` say where
    it is in the document's text, both counted from 1.
    """

    document: int = 0
    path: Path = ()
    line: int = 0
    col: int = 0
    of_key: bool = False


class Finding(NamedTuple):
    """Say what is wrong (with the numbers), where, why it matters and what to do.

    The check of a rule gives `what` and the place in the terms of its target: `keys` for values, the one to edit first;
    `place` for objects; `at` for a chart. Whoever runs the rule fills in the rest (postrender/rules/judge.py, and the
    command that knows the files).
    """

    what: str
    # The place that a user edits.
    at: Location = NOWHERE
    # Keys as rules over values write them; without any, those of the rule.
    keys: Sequence[str] = ()
    place: Place = Place()
    rule: str = ""
    severity: str = ERROR
    why: str = ""
    fix: str = ""
    # Other places that take part, each with a word about it.
    also: Sequence[tuple[Location, str]] = ()
    # Values that repair it: by keys as a rule writes them, and by their paths in the values files.
    proposed: Mapping[str, Any] = MappingProxyType({})
    edits: Mapping[Path, Any] = MappingProxyType({})
    # Keeps the source line out of every report.
    secret: bool = False

    def key(self) -> tuple[Location, str, str]:
        """Return what makes two findings the same, in the order of reports."""
        return (self.at, self.rule, self.what)


def is_at_least(findings: Sequence[Finding], severity: str) -> bool:
    """Say whether one of the findings is of this severity or a worse one."""
    worst = SEVERITIES[: SEVERITIES.index(severity) + 1]
    return any(finding.severity in worst for finding in findings)
