"""Merge plain values as Helm merges `-f` files; `values` does the same with the places in the files."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from postrender.plain import Plain

# Below these a null is a value of the framework and is kept; everywhere else it deletes the entry.
_VERBATIM = (("job", "config"), ("job", "configFor"))


def overlay(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two values trees as Helm merges `-f` files: maps go deep, everything else replaces, null is kept."""
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = overlay(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def without_nulls(value: Plain, path: tuple[str, ...] = ()) -> Plain:
    """Return values without the entries that a null deletes; below job.config a null is a value."""
    if path in _VERBATIM or not isinstance(value, dict):
        return value
    return {key: without_nulls(item, (*path, key)) for key, item in value.items() if item is not None}


def profile_name(tree: Mapping[str, Any]) -> str:
    """Return accelerator.name of a tree, or an empty text."""
    accelerator = tree.get("accelerator")
    return str(accelerator.get("name") or "") if isinstance(accelerator, dict) else ""
