"""The words that YAML 1.1, and so Helm and Kubernetes, read as booleans and as nothing."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_TRUE = ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")
_FALSE = ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")
_NULL = ("", "~", "null", "Null", "NULL")
WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(_TRUE, True),
    **dict.fromkeys(_FALSE, False),
    **dict.fromkeys(_NULL, None),
}
# Booleans to YAML 1.1 and text to YAML 1.2.
DISPUTED: Final = frozenset(word for word in (*_TRUE, *_FALSE) if word.lower() not in ("true", "false"))
