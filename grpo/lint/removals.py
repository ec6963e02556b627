"""Find rewards and prompts that are null but remove nothing, so their content was probably forgotten."""

from __future__ import annotations

from collections.abc import Iterator

from postrender.finding import WARNING, Finding
from postrender.values.merge import Values

# Elsewhere a file may remove what only some of the files before it have.
_SECTIONS = (("job", "rewards"), ("job", "prompts"))
_CONTENT = {
    "rewards": "write weight: 1 below it and give --set-file {0}.file=FILE in each command of the run",
    "prompts": "give --set-file {0}=FILE in each command of the run",
}


def findings(merged: Values) -> Iterator[Finding]:
    """Yield a finding for each null entry that no earlier file sets."""
    for section in _SECTIONS:
        node = merged.node(section)
        for name, entry in node.value.items() if node and isinstance(node.value, dict) else ():
            path = (*section, name)
            if entry.value is None and not _has(merged, path):
                key = ".".join(path)
                yield Finding(
                    f"{key} is null, which removes it, and no file before has it",
                    entry.key_at,
                    severity=WARNING,
                    rule="values/removes-nothing",
                    why="Null deletes an entry, so the run goes on without it, in silence.",
                    fix=f"{_CONTENT[section[1]].format(key)}, write it here, or delete the line",
                )


def _has(merged: Values, path: tuple[str, ...]) -> bool:
    """Return whether a file gives an entry a value other than null."""
    found = (Values(each, ()).node(path) for each in merged.documents)
    return any(node.value is not None for node in found if node)
