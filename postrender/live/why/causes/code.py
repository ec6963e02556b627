"""Errors of Python that no other cause explains."""

from __future__ import annotations

from postrender.live.why import line
from postrender.live.why.cause import CONSEQUENCE, ERROR, HELPS, SAME, UNKNOWN, Cause, printed

PYTHON = Cause(
    "python-error",
    "the program ended with an error of Python",
    UNKNOWN,
    "read the last places of the traceback: the one in a file of yours, if there is one, is where to look",
    SAME,
    printed("error", "exception", "exit", "timeout", "failure", "notfound", pattern=line.ERROR.pattern, general=True),
    place=ERROR,
)

ENDED_BY_OTHERS = Cause(
    "lost-partner",
    "a process lost the connection to another one, which had ended before",
    UNKNOWN,
    "look for the error of the process that ended first",
    HELPS,
    printed(
        "connectionreseterror",
        "brokenpipeerror",
        "eoferror",
        "cancellederror",
        "keyboardinterrupt",
        "broken pipe",
        "connection reset by peer",
        "connection closed by peer",
        "connectionabortederror",
    )
    + printed(
        "exception",
        "error",
        pattern=r"concurrent\.futures\.process\.BrokenProcessPool|multiprocessing\.context\.\w+Error",
    ),
    place=CONSEQUENCE,
)
