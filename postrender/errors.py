"""The exception tree: one class for each way a command can end badly, with its exit code and the place in a file.

Exit codes of every `grpo` command: 0 clean, 1 findings, 2 usage or bad input, 3 could not run.
"""

from __future__ import annotations

import os
from typing import NamedTuple

EXIT_CLEAN = 0
EXIT_FINDINGS = 1
EXIT_USAGE = 2
EXIT_CANNOT_RUN = 3
# What a shell reports for a program that Ctrl-C ended: 128 + SIGINT.
EXIT_INTERRUPTED = 130
NO_MEMORY = "the system refuses more memory\n  fix: allow this process more (ulimit -v), or give it less at once"


class Location(NamedTuple):
    """Hold a place that a person can open: a file name, a line and a column, both counted from 1.

    Line 0 means the file as a whole, column 0 the line as a whole.
    """

    file: str
    line: int = 0
    col: int = 0

    def in_repository(self) -> str:
        """Return the file's path as code hosts name it, from the root of the repository; another file's as it is.

        GITHUB_WORKSPACE says where that is, and without it the current folder is taken for it.
        """
        if self.file.startswith("<"):
            # It is a pipe, or what a chart renders.
            return self.file
        root = os.path.abspath(os.environ.get("GITHUB_WORKSPACE") or os.curdir)
        inside = os.path.relpath(os.path.abspath(self.file), root)
        return self.file if inside.split(os.sep)[0] == os.pardir else inside

    def __str__(self) -> str:
        if not self.line:
            return self.file
        return f"{self.file}:{self.line}:{self.col}" if self.col else f"{self.file}, line {self.line}"


class GrpoError(Exception):
    """Say what was expected and what to do, in lower case, with the place where there is one."""

    exit_code = EXIT_CANNOT_RUN

    def __init__(self, message: str, *, at: Location | None = None, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.at = at
        self.fix = fix
        # The line at the place may hold a secret, and is not shown.
        self.secret = False

    def __str__(self) -> str:
        place = f"{self.at}: " if self.at else ""
        fix = f"\n  fix: {self.fix}" if self.fix else ""
        return f"{place}{self.message}{fix}"


class UsageError(GrpoError):
    """The command line cannot be understood."""

    exit_code = EXIT_USAGE


class InputError(GrpoError):
    """A file was read and is not what it should be."""

    exit_code = EXIT_USAGE


class UnreadableError(GrpoError):
    """A file cannot be opened or read."""


class SpliceError(InputError):
    """A document cannot be edited so that nothing but the wanted change is read from it."""


class OutputError(GrpoError):
    """A folder for output cannot be written."""


class RenderError(InputError):
    """Helm refused the chart or the values; the message is Helm's own, without its log lines."""

    @property
    def is_of_schema(self) -> bool:
        """Say whether a schema refused, and not the chart itself; both Helms use these words."""
        return "meet the specifications of the schema" in self.message


class OutputRefusedError(InputError):
    """A folder for output holds what this program did not write."""


class EngineError(GrpoError):
    """No Helm engine could be started, or it broke down."""


class ClusterError(GrpoError):
    """The cluster cannot be asked: no kubectl, no permission, no such pod."""


class InstallationError(GrpoError):
    """Files that belong to this package are missing or damaged."""
