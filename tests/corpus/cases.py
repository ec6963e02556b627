"""The corpus of the project's own: streams, small documents with one odd thing each, and scalars."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

_HERE = Path(__file__).resolve().parent
STREAMS = {path.name: path.read_bytes() for path in sorted((_HERE / "streams").glob("*.yaml"))}
# Where in the Pod a fragment stands.
_INDENT = {"metadata": 2, "container": 4, "end": 0}


def _load(name: str) -> Any:
    return yaml.safe_load((_HERE / name).read_bytes())


_EDGES = _load("edges.yaml")
EDGES: dict[str, dict[str, Any]] = _EDGES["cases"]
_SCALARS = _load("scalars.yaml")
SCALARS: list[str] = _SCALARS["plain"]
TEXTS: list[str] = _SCALARS["texts"]
MARKS: list[str] = _SCALARS["marks"]


def edge(name: str) -> str:
    """Return the text of one small document."""
    case = EDGES[name]
    text: str = case.get("text") or _EDGES["base"]
    for old, new in case.get("swap", {}).items():
        if old not in text:
            raise ValueError(f"{name}: {old!r} is not there")
        text = text.replace(old, new, 1)
    for place, columns in _INDENT.items():
        lines = case.get(place, "").splitlines(keepends=True)
        text = text.replace(f"@{place}\n", "".join(" " * columns + line if line.strip() else line for line in lines))
    return text
