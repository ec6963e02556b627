"""A problem with a row of data, or with all rows."""

from __future__ import annotations

from typing import NamedTuple


class RowFault(NamedTuple):
    """A problem with a row, worded the same for every row that has it."""

    rule: str
    what: str
    keys: tuple[str, ...]
    why: str
    fix: str
    # Whether one such row ends the run or its task; else a few of them do little harm.
    ends: bool = True
    # Whether it may be what the user wants: then it is a warning in any number of rows.
    is_doubtful: bool = False
