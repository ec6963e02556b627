"""Take secrets out of objects before anything else sees them."""

from __future__ import annotations

import re
from typing import Any, Final

from postrender import secrets
from postrender.types import Json

HIDDEN: Final = "<hidden>"
# Who has changed which field, and the object once more: neither says anything about the run.
_DROPPED: Final = ("managedFields", "kubectl.kubernetes.io/last-applied-configuration")
# An argument such as --api-token=… or PASSWORD=…, as it stands in commands, messages and JSON within a text.
_ARGUMENT: Final = re.compile(
    # Not the beginning of the name: with it, the time would grow with the square of a long word.
    r"(?i)(?P<name>(?:"
    + "|".join(each.replace("_", "[_-]?") for each in secrets.SECRET_NAMES)
    + r")[\\'\"]*\s*[=:]\s*[\\'\"]*)"
    r"(?P<value>[^\s'\"\\&,;}{$<\[]{6,})"
)
_BEARER: Final = re.compile(r"(?i)(bearer\s+)[\w.~+/=-]{8,}")
_PASSWORD_IN_URL: Final = re.compile(r"(\w://[^\s:/@]*:)[^\s/@]+@")


def clean(value: Json) -> Any:  # noqa: ANN401 (the same type as the value)
    """Return an object without its secrets: variables and keys that name one, and texts that look like one."""
    if isinstance(value, dict):
        named = value.get("name") if "value" in value else None
        hides = isinstance(named, str) and secrets.names_secret(named)
        return {
            key: HIDDEN if _is_secret(key, each, hides=hides) else clean(each)
            for key, each in value.items()
            if key not in _DROPPED
        }
    if isinstance(value, list):
        return [clean(each) for each in value]
    return text(value) if isinstance(value, str) else value


def _is_secret(key: str, value: Json, *, hides: bool) -> bool:
    return isinstance(value, str) and bool(value) and ((hides and key == "value") or secrets.names_secret(key))


def text(value: str) -> str:
    """Return a text with what looks like a secret replaced."""
    masked = secrets.mask(value)
    masked = _ARGUMENT.sub(lambda found: found["name"] + HIDDEN, masked)
    masked = _BEARER.sub(lambda found: found[1] + HIDDEN, masked)
    return _PASSWORD_IN_URL.sub(lambda found: f"{found[1]}{HIDDEN}@", masked)
