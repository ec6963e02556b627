"""Markers that replace a section of the configuration although there is nothing to replace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.topic import Topic
from grpo.values.config import OVERRIDE, overlaid, overlay_names
from grpo.values.derived import mapping
from postrender.finding import WARNING, Finding
from postrender.problem import Fails
from postrender.values.merge import value_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from grpo.values.config import RunConfig
    from postrender.types import Json

TOPIC = Topic("job", framework="", source="charts/grpo-job/templates/")
_READS: Final = "v0.6.0"

Keys = tuple[str, ...]


@TOPIC.problem("", fails=Fails.SILENT, source="_config.tpl at 0.1.0", severity=WARNING)
def override_without_effect(run: RunConfig) -> Iterator[Finding]:
    """a section with _override_: true replaces nothing

    Why: the section is merged as if it had no marker, so the keys that it was meant to remove are kept
    Fix: remove the marker, or move it to the section whose keys should be removed
    """
    reads = run.framework == "nemo-rl" and run.since(_READS)
    base = run.catalogue.base if reads else {}
    below, overlays = mapping(run.value("job.config")), mapping(run.value("job.configFor"))
    layers = [(name, mapping(overlays.get(name))) for name in overlay_names(run.values)]
    for (section,) in _marked(below, depth=1):
        # An overlay that replaces the section replaces its marker too.
        replaced = any(_is_replaced(layer, section) for _, layer in layers)
        if not replaced and not _has(base, (section,)):
            why = "the base file has no such section" if reads else f"{run.framework} {run.version} reads no marker"
            yield _finding(("job", "config"), (section,), why)
    for name, layer in layers:
        for path in _marked(layer):
            if not _has(below, path) and not (len(path) == 1 and _has(base, path)):
                yield _finding(("job", "configFor", name), path, "job.config has no such section")
        below = overlaid(below, layer)


def _marked(tree: Mapping[str, Json], path: Keys = (), depth: int = 0) -> Iterator[Keys]:
    """Yield the paths of sections whose marker is true, down to a given depth, or at any depth for 0."""
    for key, value in tree.items():
        here = (*path, key)
        if isinstance(value, dict):
            if value.get(OVERRIDE) is True:
                yield here
            if len(here) != depth:
                yield from _marked(value, here, depth)


def _is_replaced(layer: Mapping[str, Json], section: str) -> bool:
    return mapping(layer.get(section)).get(OVERRIDE) is True


def _has(tree: Mapping[str, Json], path: Keys) -> bool:
    """Return whether a tree has a section with keys."""
    try:
        return bool({*mapping(value_at(tree, path))} - {OVERRIDE})
    except KeyError:
        return False


def _finding(root: Keys, path: Keys, why: str) -> Finding:
    key = ".".join(part.replace(".", "\\.") for part in (*root, *path, OVERRIDE))
    return Finding(f"{'.'.join((*root, *path))}.{OVERRIDE} has no effect: {why}", keys=[f"={key}"])
