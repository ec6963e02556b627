"""Names of types that annotations use."""

from __future__ import annotations

from typing import Any, TypeAlias

# A value as JSON has it: a map with text keys, a list, a text, a number, a boolean or null.
Json: TypeAlias = Any

# An object of a library that has no types.
Untyped: TypeAlias = Any

# Keys and positions in lists, from the root of a value to a part of it.
Path: TypeAlias = tuple[str | int, ...]
