"""Write YAML that YAML 1.1, YAML 1.2 and Go's library read the same way.

Strings are always in double quotes with the escapes of JSON, booleans and integers as Kubernetes writes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from postrender.types import Json

_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_IN_KEYS = _LETTERS | frozenset("0123456789./_-")
# Keys that YAML 1.1 reads as booleans or null.
_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))


def text(value: str) -> str:
    """Return a string in double quotes; raise UnicodeEncodeError for a lone surrogate, which UTF-8 cannot encode."""
    if value.isascii() and value.isprintable() and '"' not in value and "\\" not in value:
        return f'"{value}"'
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    if not (escaped.isascii() and escaped.isprintable()):
        escaped.encode("utf-8")
        escaped = "".join(map(_visible, escaped))
    return f'"{escaped}"'


def _visible(each: str) -> str:
    # Escape control characters, and characters that some readers treat as a line end or a byte order mark.
    return each if each.isprintable() or ord(each) > 0xFFFF else f"\\u{ord(each):04x}"


def scalar(value: Json) -> str:
    """Return a string, boolean, integer or null as YAML; raise TypeError for anything else."""
    if isinstance(value, str):
        return text(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    raise TypeError(f"expected text, a boolean, an integer or null, found {type(value).__name__}")


@cache
def key(name: str) -> str:
    """Return a key, quoted if a reader could treat it as something other than a string."""
    is_plain = name and name[0] in _LETTERS and _IN_KEYS.issuperset(name) and name.lower() not in _WORDS
    return name if is_plain else text(name)


def flow(value: Json) -> str:
    """Return any value on one line, as JSON."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{text(name)}: {flow(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    return scalar(value)


def block(entries: Mapping[str, Any]) -> list[str]:
    """Return the lines of a map in block style, from column 0."""
    lines: list[str] = []
    _write_map(entries, "", "", lines)
    return lines


def items(values: list[Json]) -> list[str]:
    """Return the lines of list items in block style, the dashes at column 0."""
    lines: list[str] = []
    _write_list(values, "", "", lines)
    return lines


def _write_map(entries: Mapping[str, Any], first: str, indent: str, lines: list[str]) -> None:
    """Append the entries to `lines`: the first after the prefix `first`, the others indented."""
    for name, value in entries.items():
        if isinstance(value, (dict, list)) and value:
            lines.append(f"{first}{key(name)}:")
            _write(value, f"{indent}  ", f"{indent}  ", lines)
        else:
            lines.append(f"{first}{key(name)}: {flow(value)}")
        first = indent


def _write_list(values: Sequence[Json], first: str, indent: str, lines: list[str]) -> None:
    for value in values:
        if isinstance(value, (dict, list)) and value:
            _write(value, f"{first}- ", f"{indent}  ", lines)
        else:
            lines.append(f"{first}- {flow(value)}")
        first = indent


def _write(value: Json, first: str, indent: str, lines: list[str]) -> None:
    if isinstance(value, dict):
        _write_map(value, first, indent, lines)
    else:
        _write_list(value, first, indent, lines)
