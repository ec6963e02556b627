"""Write the module of what every start needs, as what Python has compiled already is quicker to load than any file."""

from __future__ import annotations

import json

from postrender.docs import beginnings, shape
from postrender.docs.sources import Sources

PATH = "postrender/precomputed.py"
_HEAD = '''"""What is worked out of schemas/ before any start; `make generate` writes this file."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
'''
_SCHEMA = """
# Schema and defaults of the sections that wiring follows from.
SCHEMA: dict[str, Any] = """
_TOKENS = """
# Patterns of secrets.
TOKENS: dict[str, str] = """
_BEGINNINGS = """
# What all matches begin with; texts of one length of which each match begins with one; whether a word must begin there;
# at least how many characters follow, and of which.
BEGINNINGS: dict[str, tuple[str, tuple[str, ...], bool, int, str | None]] = """
_GROUPS = """
# Names of patterns by a text that all their matches begin with.
GROUPS: dict[str, tuple[str, ...]] = """
_WIDTH = 120
_BRACKETS = {dict: ("{", "}"), list: ("[", "]"), tuple: ("(", ")")}


def render(sources: Sources) -> str:
    """Return the text of the module."""
    known = beginnings.beginnings(sources.tokens)
    constants = {
        _SCHEMA: shape.schema(sources),
        _TOKENS: dict(sources.tokens),
        _BEGINNINGS: known,
        _GROUPS: beginnings.groups(known),
    }
    return _HEAD + "".join(
        f"{head}{_literal(each, 0, len(head.splitlines()[-1]))}\n" for head, each in constants.items()
    )


def _literal(value: object, indent: int, before: int) -> str:
    """Return a literal as the formatter writes it: on one line behind `before` columns, if it fits with a comma."""
    flat = _flat(value)
    if not value or not isinstance(value, (dict, list, tuple)) or before + len(flat) < _WIDTH:
        return flat
    inner = indent + 4
    keys = [f"{_flat(key)}: " for key in value] if isinstance(value, dict) else [""] * len(value)
    values = value.values() if isinstance(value, dict) else value
    entries = [f"{key}{_literal(each, inner, inner + len(key))}" for key, each in zip(keys, values, strict=True)]
    body = "".join(f"{' ' * inner}{entry},\n" for entry in entries)
    first, last = _BRACKETS[type(value)]
    return f"{first}\n{body}{' ' * indent}{last}"


def _flat(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_flat(key)}: {_flat(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flat, value)) + "]"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_flat, value)) + ("," if len(value) == 1 else "") + ")"
    return _text(value) if isinstance(value, str) else repr(value)


def _text(value: str) -> str:
    """Return a text in double quotes, or in single ones where fewer of them stand in it."""
    body = json.dumps(value, ensure_ascii=False)[1:-1]
    if value.count('"') <= value.count("'"):
        return f'"{body}"'
    single = body.replace('\\"', '"').replace("'", "\\'")
    return f"'{single}'"
