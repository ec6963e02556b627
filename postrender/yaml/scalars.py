"""Read plain YAML scalars as Kubernetes and Helm do: YAML 1.1 with the exceptions of Go's library.

Source: sigs.k8s.io/yaml, goyaml.v2/resolve.go; the tests compare every rule with Helm's own reader.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

Scalar: TypeAlias = str | int | float | bool | None

_TRUE: Final = ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")
_FALSE: Final = ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")
_NULL: Final = ("", "~", "null", "Null", "NULL")
# The unquoted words that YAML 1.1, and so Helm and Kubernetes, read as booleans and as null.
WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(_TRUE, True),
    **dict.fromkeys(_FALSE, False),
    **dict.fromkeys(_NULL, None),
}

# Helm turns values into JSON, which has no infinity: it refuses the file.
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
# An integer of 64 bits has at most 20 decimal digits; Python refuses to read one of more than 4300.
_INT = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]{0,19}))")
_BASES = (16, 2, 8, 10)
# Go removes this prefix before it reads the rest as a number, which may have a sign.
_BINARY = "0b"
# After a leading point, Go accepts an underscore only between two digits; elsewhere it drops every underscore.
_LOOSE_UNDERSCORE = re.compile(r"(?<![0-9])_|_(?![0-9])")
_FIRST = frozenset("+-.0123456789")
# From this number on, Go writes a float with an exponent, which is read as a float again.
_EXPONENT_FROM = 1e21


def _integer(text: str) -> int | None:
    if text.startswith((f"{_BINARY}+", f"{_BINARY}-")):
        text = f"{text[2]}{_BINARY}{text[3:]}"
    match = _INT.fullmatch(text)
    if not match:
        return None
    sign, *digits = match.groups()
    number = next(int(part, base) for part, base in zip(digits, _BASES, strict=True) if part)
    number = -number if sign == "-" else number
    # Signed 64 bits, or unsigned 64 bits without a sign: Go reads a larger number as a float, if it is decimal.
    if number < -(2**63) or number >= 2**64 or (sign and number >= 2**63):
        return None
    return number


def _float(text: str) -> float | None:
    if not _FLOAT.fullmatch(text):
        return None
    number = float(text)
    return None if number in (float("inf"), float("-inf")) else number


def number(text: str) -> int | float | None:
    """Return the number that Go reads from a plain scalar, or None if Go reads a string.

    Helm keeps every number as a 64-bit float, so an integer beyond 2**53 loses digits here too.
    """
    if text[:1] not in _FIRST:
        return None
    if text[0] == "." and _LOOSE_UNDERSCORE.search(text):
        return None
    plain = text.replace("_", "")
    found = _integer(plain)
    value = _float(plain) if found is None else float(found)
    if value is None:
        return None
    return int(value) if value.is_integer() and abs(value) < _EXPONENT_FROM else value


def loses_digits(text: str) -> bool:
    """Return whether a plain scalar is an integer that loses digits as a 64-bit float, which is Helm's number type."""
    if text[:1] not in _FIRST:
        return False
    found = _integer(text.replace("_", ""))
    return found is not None and int(float(found)) != found


def is_not_finite(text: str) -> bool:
    """Return whether a plain scalar is an infinity or NaN, which Helm rejects."""
    return text[:1] in _FIRST and _NOT_FINITE.fullmatch(text) is not None


def resolve(text: str) -> Scalar:
    """Return a plain scalar's value: a boolean, null, a number, or the text itself."""
    if text in WORDS:
        return WORDS[text]
    value = number(text)
    return text if value is None else value
