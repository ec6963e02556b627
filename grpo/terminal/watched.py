"""Detect a terminal: pipes, files and CI get plain text."""

from __future__ import annotations

import os
from typing import IO


def is_watched(stream: IO[str] | None) -> bool:
    """Return whether a stream is a terminal that a person reads; some CI systems give their jobs a terminal as well."""
    return stream is not None and stream.isatty() and "CI" not in os.environ and os.environ.get("TERM") != "dumb"
