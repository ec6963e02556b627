"""A finding: one problem and its location."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from postrender.errors import Location

Path = tuple[str | int, ...]

# Worst first.
SEVERITIES = ("error", "warning", "info")
ERROR, WARNING, INFO = SEVERITIES
NOWHERE = Location("")


class Place(NamedTuple):
    """A place in a stream of documents: a document's number, and a value's path below the document's root.

    `of_key` means the last key of the path, not its value. If no path leads to the place, `line` and `col` give its
    position in the document's text, both counted from 1.
    """

    document: int = 0
    path: Path = ()
    line: int = 0
    col: int = 0
    of_key: bool = False


class NewName(NamedTuple):
    """A proposal to rename a key, used in place of a proposed value."""

    name: str


class Finding(NamedTuple):
    """One problem: what is wrong (with the numbers), where, why it matters and what to do.

    The rule's check sets `what` and the place. The place depends on the rule's target: `keys` for values, with the
    key to edit first; `place` for objects; `at` for a chart. postrender/rules/judge.py and the command, which knows the
    files, fill in the rest.
    """

    what: str
    # The place that a user edits.
    at: Location = NOWHERE
    # Keys as rules over values write them; if empty, the keys of the rule.
    keys: Sequence[str] = ()
    place: Place = Place()
    rule: str = ""
    severity: str = ERROR
    why: str = ""
    fix: str = ""
    # Related places, each with a short note.
    also: Sequence[tuple[Location, str]] = ()
    # Values and names that fix the problem: by keys as a rule writes them, and by paths in the values files.
    proposed: Mapping[str, Any] = MappingProxyType({})
    edits: Mapping[Path, Any] = MappingProxyType({})
    # True if the source line may contain a secret: no report shows it.
    secret: bool = False
    # The rules that say more about the same place: where one of them is reported, this finding is not.
    covered_by: frozenset[str] = frozenset()

    def key(self) -> tuple[Location, str, str]:
        """Return the sort key; two findings with the same key are the same finding."""
        return (self.at, self.rule, self.what)


def reported(findings: Iterable[Finding], selected: Collection[str] | None = None) -> list[Finding]:
    """Return the findings of the selected rules (default: all), without those covered by another selected rule."""
    return [
        finding
        for finding in findings
        if (selected is None or finding.rule in selected)
        and not (finding.covered_by if selected is None else finding.covered_by & frozenset(selected))
    ]


def is_at_least(findings: Sequence[Finding], severity: str) -> bool:
    """Return whether a finding has at least this severity."""
    worst = SEVERITIES[: SEVERITIES.index(severity) + 1]
    return any(finding.severity in worst for finding in findings)
