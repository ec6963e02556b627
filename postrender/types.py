"""Type aliases for annotations."""

from __future__ import annotations

from typing import Any, TypeAlias

# A JSON value: a map with text keys, a list, a text, a number, a boolean or null.
Json: TypeAlias = Any

# An object of a library without type annotations.
Untyped: TypeAlias = Any

# Keys and list positions that lead from the root of a value to a part of it.
Path: TypeAlias = tuple[str | int, ...]
