"""What config.json says of a model, by its name on Hugging Face, as far as schemas/models.yaml knows it.

Of the file only the lines of one model are parsed: a command judges one, and the reading is felt at every start.
"""

from __future__ import annotations

from postrender import paths, textio, yamlfast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_loaded: dict[str, Mapping[str, Any] | None] = {}


def load(name: str) -> Mapping[str, Any] | None:
    """Return what is known of a model, keys as config.json names them; None of a model that the file does not have."""
    if name not in _loaded:
        _loaded[name] = _read(name)
    return _loaded[name]


def _read(name: str) -> dict[str, Any] | None:
    text = _text()
    # With a blank it would be another line of the file than a model's first one.
    start = text.find(f"\n{name}:\n") + 1 if name.split() == [name] else 0
    if not start:
        return None
    first, *lines = text[start:].split("\n")
    inside = next(at for at, line in enumerate(lines) if line[:1] != " ")
    said: dict[str, Any] = yamlfast.parse("\n".join([first, *lines[:inside], ""]))[name]
    same = said.pop("like", None)
    return {**(load(same) or {}), **said} if same else said


def _text() -> str:
    return textio.read_bytes(paths.models()).decode("utf-8")
