"""Read the problems' cases: each is an example that a test judges, and that `grpo explain` and the site show.

The cases for the problems in `loss.py` are in `loss.cases.yaml` beside it. Each begins with `# case: ID NAME`; a
name begins with `bad` or `good`. A second line may name the values files for the case:
`# lint: PROFILE [RECIPE [FRAMEWORK]]` for a case of values, `# values: PROFILE {MORE}` for one of objects.
`# <- finding: TEXT` marks a line with a finding.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT: Final = Path(__file__).parents[2]
# Problems over values, objects, charts and logs; those of the post-renderer's gate.
_FOLDERS: Final = ("grpo/problems", "postrender/gate")
_HEAD: Final = re.compile(r"^---\n# case: (\S+) (\S+)\n", re.MULTILINE)


class Case(NamedTuple):
    """An example of a problem, or of correct input; `table` is its file, relative to the root."""

    id: str
    name: str
    text: str
    table: str

    @property
    def bad(self) -> bool:
        """Return whether the case contains the problem."""
        return self.name.startswith("bad")

    def __str__(self) -> str:
        return f"{self.id} {self.name}"


def read(text: str, table: str) -> Iterator[Case]:
    """Yield the cases in a table's text."""
    parts = _HEAD.split(text)[1:]
    for problem, name, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        yield Case(problem, name, body, table)


@cache
def cases() -> dict[str, tuple[Case, ...]]:
    """Return every problem's cases by its id, in the order of their tables."""
    found: dict[str, tuple[Case, ...]] = {}
    for folder in _FOLDERS:
        for file in sorted((_ROOT / folder).rglob("*.cases.yaml")):
            for each in read(file.read_text("utf-8"), file.relative_to(_ROOT).as_posix()):
                found[each.id] = (*found.get(each.id, ()), each)
    return found


def case(problem: str, name: str) -> Case | None:
    """Return a problem's case by name, or None if there is none."""
    return next((each for each in cases().get(problem, ()) if each.name == name), None)
