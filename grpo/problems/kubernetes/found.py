"""Say what stands where an object violates its schema: a value, how long it is, or its type if it may be a secret."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from postrender import masking
from postrender.secrets import is_literal, is_sure, names_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

    from postrender.gate.manifests import Item
    from postrender.manifests.violations import Violation
    from postrender.types import Json, Path

# A longer text is not shown.
_LONGEST: Final = 40
_COUNTED: Final = {
    **dict.fromkeys(("minLength", "maxLength"), ("character", "characters")),
    **dict.fromkeys(("minItems", "maxItems"), ("entry", "entries")),
    **dict.fromkeys(("maxProperties",), ("key", "keys")),
}
# What these expect says enough about what stands there.
_TOLD: Final = ("propertyNames", "uniqueItems", "anyOf", "oneOf")
_WORDS: Final = {None: "null", True: "true", False: "false"}
_KINDS: Final[Mapping[type, str]] = {
    dict: "a map",
    list: "a list",
    str: "a string",
    int: "an integer",
    float: "a number",
}
# Of a variable with this name, what looks random is a secret.
_DOUBTFUL: Final = "token"


def found(item: Item, violation: Violation) -> str:
    """Return what stands at the path of a violation, as in `is -1`; an empty text if there is nothing to say."""
    value, keyword = _at(item.object, violation.path), violation.keyword
    if keyword in _TOLD:
        return ""
    if keyword in _COUNTED and isinstance(value, str | list | dict):
        one, more = _COUNTED[keyword]
        return f"has {len(value)} {one if len(value) == 1 else more}" if value else "is empty"
    if isinstance(value, dict | list):
        return f"is {_KINDS[type(value)]}"
    # A text in the place of a map or a list may be anything.
    is_misplaced = keyword == "type" and isinstance(value, str) and violation.message.endswith(("a map", "a list"))
    if not is_misplaced and not _is_hidden(item, violation.path, value):
        return f"is {_WORDS[value] if isinstance(value, bool | None) else repr(value)}"
    return f"is {_KINDS[type(value)]}" if keyword == "type" else ""


def _is_hidden(item: Item, path: Path, value: Json) -> bool:
    """Return whether a value may be a secret, or is too long for a message."""
    if isinstance(value, bool | None):
        return False
    *above, last = [part for part in path if isinstance(part, str)] or [""]
    if item.finding(path, "").secret or names_secret(last) or any(map(is_sure, above)):
        return True
    if not isinstance(value, str):
        return False
    return len(value) > _LONGEST or masking.text(value) != value or is_literal(_DOUBTFUL, value)


def _at(value: Json, path: Path) -> Json:
    for part in path:
        value = value[part]
    return value
