"""Read which object a plain document is, without reading the document: most of a stream is nothing to wire.

What is read here is what Helm's templates print: apiVersion, kind and metadata at the left margin, in block style.
Whatever else there is, the answer is None, and the caller reads the whole document.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# What stands for the end of a line in front of deeper ones; no YAML holds these.
_DEEPER, _DEEPEST = "\0", "\1"
_ODD = frozenset(f"&*!|>%@`{{}}[]\\\t\r#{_DEEPER}{_DEEPEST}")
_ROOT = ("apiVersion", "kind", "metadata")
_NAMES = ("name", "namespace")
_HOOK = "helm.sh/hook"


def read(text: str) -> dict[str, Any] | None:
    """Return apiVersion, kind, name, namespace and hook of a document as an object, or None where it is not plain."""
    found: dict[str, str] = {}
    key = ""
    # Each part is a line at the margin, with the deeper lines below it.
    for part in text.replace("\n ", f"{_DEEPER} ").split("\n"):
        if part[:1] in ("'", '"') or (part[:1] == "#" and _DEEPER in part and key in _ROOT):
            # A key in quotes may be one of these; a comment may hide what is deeper than the key above it.
            return None
        if part[:1] == _DEEPER and key in _ROOT:
            # Behind an empty line.
            found[key] += part
        elif part and part[0] not in ("#", _DEEPER):
            key, colon, rest = part.partition(":")
            if key in found or (key in _ROOT and not colon):
                return None
            if key in _ROOT:
                found[key] = rest
    version, kind = _plain(found.get("apiVersion", "")), _plain(found.get("kind", ""))
    metadata = _metadata(found.get("metadata", ""))
    return {"apiVersion": version, "kind": kind, "metadata": metadata} if version and kind and metadata else None


def _plain(value: str) -> str | None:
    """Return a value without its quotes; None where a reader is needed to say what it is."""
    value = value.strip(" ")
    if value[:1] in ("'", '"') and value[-1:] == value[:1] and len(value) > 1:
        value = value[1:-1]
    return None if not value or not _ODD.isdisjoint(value) or "'" in value or '"' in value or ": " in value else value


def _metadata(text: str) -> dict[str, Any] | None:
    """Return name, namespace and hook; None where there is no name, or anything that somebody else must read."""
    body = text[1:].lstrip(" ")
    col = len(text) - len(body) - 1
    if text[:1] != _DEEPER or not body:
        return None
    found: dict[str, Any] = {}
    for part in text.replace(f"{_DEEPER}{' ' * (col + 1)}", f"{_DEEPEST} ").split(_DEEPER)[1:]:
        key, colon, value = part[col:].partition(":")
        if (
            part[:col].strip(" ")
            or not colon
            or key in found
            or key[:1] in _ODD
            or key[:1] in ("'", '"', "<", "?", "-")
        ):
            return None
        if key in _NAMES:
            found[key] = _plain(value)
            if found[key] is None:
                return None
        elif _HOOK in value or key == "annotations":
            hook = _hook(value) if key == "annotations" else None
            if hook is None:
                return None
            found[key] = hook
    return found if "name" in found else None


def _hook(text: str) -> dict[str, str] | None:
    """Return what annotations say of hooks; None where it is not plain."""
    first, *lines = text.split(_DEEPEST)
    if first.strip(" ") not in ("", "{}"):
        return None
    found: dict[str, str] = {}
    for line in lines if _HOOK in text else ():
        body = line.lstrip(" ")
        key, _, value = body.partition(":")
        if key == _HOOK:
            read, is_deeper = _plain(value), len(line) - len(body) != len(lines[0]) - len(lines[0].lstrip(" "))
            if key in found or read is None or is_deeper:
                return None
            found[key] = read
        elif _HOOK in line and key[:1] in ("'", '"'):
            return None
    return found
