"""Write new YAML text: strings in double quotes always, booleans and integers as Kubernetes writes them.

Every reader reads these the same: YAML 1.1 and 1.2, Go's library, and JSON, whose escapes alone are used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from postrender.plain import Plain

_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_IN_KEYS = _LETTERS | frozenset("0123456789./_-")
# Keys that YAML 1.1 reads as booleans or null.
_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))


def text(value: str) -> str:
    """Return a string in double quotes; raise UnicodeEncodeError for half a surrogate pair, which UTF-8 cannot hold."""
    if value.isascii() and value.isprintable() and '"' not in value and "\\" not in value:
        return f'"{value}"'
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    if not (escaped.isascii() and escaped.isprintable()):
        escaped.encode("utf-8")
        escaped = "".join(map(_visible, escaped))
    return f'"{escaped}"'


def _visible(each: str) -> str:
    # Control characters, and what other readers take for a line end or a byte order mark.
    return each if each.isprintable() or ord(each) > 0xFFFF else f"\\u{ord(each):04x}"


def scalar(value: Plain) -> str:
    """Return a string, boolean, integer or null; floats have no canonical form, and nothing here is one."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return text(value)
    raise TypeError(f"expected text, a boolean, an integer or null, found {type(value).__name__}")


def key(name: str) -> str:
    """Return a key, quoted where a reader could take it for something else than text."""
    plain = name and name[0] in _LETTERS and _IN_KEYS.issuperset(name) and name.lower() not in _WORDS
    return name if plain else text(name)


def flow(value: Plain) -> str:
    """Return any value on one line, as JSON."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{text(name)}: {flow(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    return scalar(value)


def block(entries: Mapping[str, Any]) -> list[str]:
    """Return the lines of a map in block style, from column 0."""
    lines = []
    for name, value in entries.items():
        below = _below(value)
        lines.append(f"{key(name)}: {flow(value)}" if below is None else f"{key(name)}:")
        lines += [f"  {line}" for line in below or ()]
    return lines


def items(values: list[Plain]) -> list[str]:
    """Return the lines of list items in block style, the dashes at column 0."""
    lines = []
    for value in values:
        below = _below(value)
        first, *rest = below if below is not None else [flow(value)]
        lines += [f"- {first}", *(f"  {line}" for line in rest)]
    return lines


def _below(value: Plain) -> list[str] | None:
    if isinstance(value, dict) and value:
        return block(value)
    return items(value) if isinstance(value, list) and value else None
