"""Parse untrusted JSON: no other module of this package parses JSON from outside."""

from __future__ import annotations

import json
from typing import Final

from postrender.types import Untyped

# Whoever walks through a value calls a function for each level, and Python allows about a thousand such calls.
MAX_DEPTH: Final = 100
_TOO_DEEP: Final = f"nested deeper than {MAX_DEPTH} levels"


def loads(text: str | bytes) -> Untyped:
    """Return a JSON text's value; raise ValueError if the text is not JSON, or is nested deeper than MAX_DEPTH."""
    return decode(json.JSONDecoder(), text if isinstance(text, str) else text.decode(json.detect_encoding(text)))[0]


def decode(decoder: json.JSONDecoder, text: str, *, whole: bool = True) -> tuple[Untyped, int]:
    """Return the value at the start of a text, and the value's end; raise as `loads` does.

    With `whole`, nothing may follow the value.
    """
    try:
        value, end = (decoder.decode(text), len(text)) if whole else decoder.raw_decode(text)
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [below for each in level for below in _below(each)]
        if not level:
            return value, end
    raise ValueError(_TOO_DEEP)


def _below(value: Untyped) -> list[Untyped]:
    return [*value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []
