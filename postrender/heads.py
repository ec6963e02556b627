"""Read which object a plain document is, without reading the document: most of a stream is nothing to wire.

What is read here is what Helm's templates print: apiVersion, kind and metadata at the left margin, in block style.
Whatever else there is, the answer is None, and the caller reads the whole document.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ODD = frozenset("&*!|>%@`{}[]\\\t\r#")
_HOOK = "helm.sh/hook"


def read(text: str) -> dict[str, Any] | None:
    """Return apiVersion, kind, name, namespace and hook of a document as an object, or None where it is not plain."""
    text = f"\n{text}"
    if text.find('\n"') >= 0 or text.find("\n'") >= 0:
        # A key in quotes at the margin may be one of these.
        return None
    version, kind = _root(text, "apiVersion"), _root(text, "kind")
    begin = text.find("\nmetadata:\n")
    if not version or not kind or begin < 0 or text.find("\nmetadata:", begin + 1) >= 0:
        return None
    metadata = _metadata(text, begin + len("\nmetadata:\n"))
    return None if metadata is None else {"apiVersion": version, "kind": kind, "metadata": metadata}


def _root(text: str, key: str) -> str:
    """Return a value at the left margin; empty where it is not there, twice there, or not plain."""
    mark = f"\n{key}:"
    at = text.find(mark)
    if at < 0 or text.find(mark, at + 1) >= 0:
        return ""
    end = text.find("\n", at + 1)
    return _plain(text[at + len(mark) : end if end >= 0 else len(text)]) or ""


def _plain(value: str) -> str | None:
    """Return a value without its quotes; None where a reader is needed to say what it is."""
    value = value.strip(" ")
    if value[:1] in ("'", '"') and value[-1:] == value[:1] and len(value) > 1:
        value = value[1:-1]
    return None if not value or not _ODD.isdisjoint(value) or "'" in value or '"' in value or ": " in value else value


def _metadata(text: str, begin: int) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    col, inside = 0, ""
    at = begin
    while at < len(text):
        end = text.find("\n", at)
        line = text[at : end if end >= 0 else len(text)]
        at += len(line) + 1
        body = line.lstrip(" ")
        if not body or body[0] == "#":
            continue
        indent = len(line) - len(body)
        col = col or indent
        if not indent:
            break
        key, colon, value = body.partition(":")
        if indent < col or not colon or key.startswith(("'", '"', "<", "?", "&", "*", "!", "- ")):
            # A list at the margin of its key, a text of several lines, a quoted key: somebody else reads that.
            if indent > col and _HOOK not in line:
                continue
            return None
        if indent == col:
            inside = key
            if key in found or (key == "annotations" and value.strip(" ") not in ("", "{}")):
                return None
            if key in ("name", "namespace"):
                if (read := _plain(value)) is None:
                    return None
                found[key] = read
        elif inside == "annotations" and key == _HOOK:
            if (read := _plain(value)) is None:
                return None
            found["annotations"] = {_HOOK: read}
    return found if "name" in found else None
