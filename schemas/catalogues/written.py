"""Write a catalogue as YAML that every reader takes for the same: block style, no anchors, no disputed words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

# YAML 1.1 or 1.2 reads something other than this text in them.
_DISPUTED = {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "~", "none", ""}
_INDICATORS = tuple("&*!%|>?@`'\"{}[],#-:=<")


def document(tree: Mapping[str, Any]) -> str:
    """Return a map as a YAML document; lists of plain words stand on one line."""
    return "\n".join(_map(tree, "")) + "\n"


def _map(tree: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, value in tree.items():
        yield from _entry(f"{indent}{_text(key)}:", value, indent)


def _entry(head: str, value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict) and value:
        yield head
        yield from _map(value, indent + "  ")
    elif isinstance(value, list) and (any(isinstance(item, dict) for item in value) or len(value) > 12):
        yield head
        for item in value:
            lines = list(_map(item, indent + "  ")) if isinstance(item, dict) else [f"{indent}  {scalar(item)}"]
            yield f"{indent}- {lines[0].strip()}"
            yield from lines[1:]
    else:
        yield f"{head} {scalar(value)}"


def scalar(value: Any) -> str:
    """Return a value on one line."""
    if isinstance(value, list):
        return f"[{', '.join(scalar(item) for item in value)}]"
    if isinstance(value, dict):
        return "{}"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        # YAML 1.1 takes 3e-07 for a text: the mantissa needs its point.
        mantissa, sign, exponent = repr(value).partition("e")
        return (mantissa if "." in mantissa else f"{mantissa}.0") + sign + exponent
    return _text(value) if isinstance(value, str) else str(value)


def _text(text: str) -> str:
    numeric = text[:1] in "+-.0123456789" and not text[:1].isalpha()
    special = text.startswith(_INDICATORS) or ": " in text or " #" in text or text != text.strip()
    if text.lower() in _DISPUTED or numeric or special or text.endswith(":"):
        doubled = text.replace("'", "''")
        return f"'{doubled}'"
    return text
