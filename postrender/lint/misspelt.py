"""Leave out what follows from a misspelt key: its own finding already says what to write."""

from __future__ import annotations

from collections.abc import Sequence

from postrender.finding import Finding, NewName
from postrender.types import Path

# What each of these findings misses; missing-key names its own keys.
_MISSES = {
    "values/no-accelerator": (("accelerator", "name"),),
    "values/no-recipe": (("images", "training"),),
    "values/version-of-another-framework": (("job", "framework"), ("job", "version")),
}


def has_section(found: Sequence[Finding]) -> bool:
    """Return whether a section is misspelt: the rest of the values then looks like another run."""
    return any(each.rule == "values/unknown-key" and each.keys for each in found)


def without_consequences(found: Sequence[Finding]) -> list[Finding]:
    """Return the findings without those that miss what a misspelt or mistyped key was meant to set."""
    meant = {
        (*path[:-1], new.name) for each in found for path, new in each.edits.items() if isinstance(new, NewName)
    } | {tuple(key.split(".")) for each in found if each.rule == "values/wrong-type" for key in each.keys}
    return [each for each in found if not any(_is_set_by(path, meant) for path in _missed(each))]


def _missed(finding: Finding) -> list[Path]:
    if finding.rule == "values/missing-key":
        return [tuple(key.split(".")) for key in finding.keys]
    return [*_MISSES.get(finding.rule, ())]


def _is_set_by(path: Path, meant: set[Path]) -> bool:
    return any(path[:end] in meant for end in range(1, len(path) + 1))
