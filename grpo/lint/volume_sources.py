"""Find a volume with two sources: an earlier file's source remains when a later file sets a different one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from grpo.values.derived import mapping
from postrender.finding import Finding
from postrender.types import Path
from postrender.values.merge import Values

# As the template common.volumes has them.
_SOURCES: Final = ("existingClaim", "gcsfuse", "lustre", "pvc", "ephemeral")


def findings(merged: Values) -> Iterator[Finding]:
    """Yield a finding for each volume with several sources, at the source that was set last."""
    order = {file: position for position, file in enumerate(merged.files)}
    for name, sources in _several(merged):
        places = {each: merged.at(("storage", name, each)) for each in sources}
        last = max(sources, key=lambda each: (order.get(places[each].file, 0), places[each].line))
        others = [each for each in sources if each != last]
        yield Finding(
            f"storage.{name} has {len(sources)} sources ({', '.join(sources)}), and a volume has one",
            places[last],
            rule="values/several-sources",
            why="Values files are merged, so the source of an earlier file stays; the charts refuse such a volume.",
            fix=f"keep one; to keep {last}, set {' and '.join(f'storage.{name}.{each}' for each in others)} to null",
            also=[(places[each], f"another source: {each}") for each in others],
        )


def is_of_several(path: Path, merged: Values) -> bool:
    """Return whether a path is in a source of a volume that has several sources."""
    return path[:1] == ("storage",) and any(
        path[1:3] == (name, each) for name, sources in _several(merged) for each in sources
    )


def _several(merged: Values) -> Iterator[tuple[str, list[str]]]:
    for name, volume in mapping(merged.get("storage")).items():
        sources = [each for each in _SOURCES if mapping(volume).get(each) is not None]
        if len(sources) > 1:
            yield name, sources
