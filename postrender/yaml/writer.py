"""Write YAML that YAML 1.1, YAML 1.2 and Go's library read the same way.

Strings are always double-quoted with JSON escapes; booleans and integers are written as in Kubernetes.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from postrender.types import Json, Path

# The first words of a values file, by which editors find its schema.
SCHEMA: Final = "# yaml-language-server: $schema="
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_IN_KEYS = _LETTERS | frozenset("0123456789./_-")
# Keys that YAML 1.1 reads as booleans or null.
_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))
# Strings that Go's YAML, YAML 1.1 and YAML 1.2 readers all keep as strings without quotes.
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_/.-]*|/[A-Za-z0-9_/.-]+|[0-9]+[KMGT]i")
_RETYPED = _WORDS | {"nan", "inf"}
_WIDTH = 120


def text(value: str) -> str:
    """Return a double-quoted string; raise UnicodeEncodeError if it has a lone surrogate, which UTF-8 cannot encode."""
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
    """Return a map's lines in block style, starting at column 0."""
    lines: list[str] = []
    _write_map(entries, "", "", lines)
    return lines


def items(values: list[Json]) -> list[str]:
    """Return the lines of list items in block style, with the dashes at column 0."""
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


def readable(value: Json) -> str:
    """Return a value on one line for human readers: a string that every reader parses as a string has no quotes."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _RETYPED:
        return value
    # YAML accepts JSON's escapes, except surrogate pairs; it also requires escapes for unprintable characters.
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in json.dumps(value, ensure_ascii=False))


def commented(entries: Mapping[str, Any], comment: Callable[[Path], str], path: Path = ()) -> list[str]:
    """Return a map's lines for human readers: a comment above each key, an empty line before each section."""
    lines: list[str] = []
    indent = "  " * len(path)
    for name, value in entries.items():
        here = (*path, name)
        lines += ["", *comments(comment(here), indent)] if not path else comments(comment(here), indent)
        if isinstance(value, dict) and value:
            lines += [f"{indent}{key(name)}:", *commented(value, comment, here)]
        else:
            lines.append(f"{indent}{key(name)}: {readable(value)}")
    return lines


def schema(path: str) -> list[str]:
    """Return the first line of a file, by which editors find its schema; nothing without a path."""
    return [f"{SCHEMA}{path}"] if path else []


def comments(words: str, indent: str = "") -> list[str]:
    """Return a text as comment lines."""
    wrapped = textwrap.wrap(words, _WIDTH - len(indent) - 2, break_long_words=False, break_on_hyphens=False)
    return [f"{indent}# {line}" for line in wrapped]
