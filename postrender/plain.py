"""Names of types that are checked where they are used; imported for annotations only."""

from __future__ import annotations

from typing import Any, TypeAlias

# A value as JSON has it: map with text keys, list, text, number, boolean, null.
Plain: TypeAlias = Any

# An object of a library without types.
Foreign: TypeAlias = Any
