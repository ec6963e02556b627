"""Find values that still have the example site file's placeholders."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from postrender import paths
from postrender.finding import Finding
from postrender.values import mutations
from postrender.values.merge import Values
from postrender.yaml import reader

# The example's names that every user must change begin like this; a project number has twelve digits.
_OF_EXAMPLE = re.compile(r"my-[a-z-]+|\d{12}")


def findings(merged: Values) -> Iterator[Finding]:
    """Yield a finding for each value that is still a placeholder from the example site file."""
    for path, leaf in mutations.leaves(merged.root):
        if isinstance(leaf.value, str | int) and is_placeholder(str(leaf.value)):
            yield Finding(
                f"{mutations.dotted(path)} is {leaf.value}, the placeholder of the example site file",
                leaf.at,
                rule="values/placeholder",
                why="Nothing of this name exists: pods wait for it, or a mount and a download fail when they start.",
                fix="write the name in your project",
            )


def is_placeholder(text: str) -> bool:
    """Return whether a text is one of the example site file's placeholders."""
    return text in _words()


@cache
def _words() -> frozenset[str]:
    """Return the example site file's placeholders."""
    values = (leaf.value for _, leaf in mutations.leaves(reader.load_values(paths.example_site())))
    return frozenset(value for value in values if isinstance(value, str) and _OF_EXAMPLE.fullmatch(value))
