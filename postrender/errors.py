"""The exceptions of all commands: one class for each kind of failure, with its exit code and a location in a file.

Exit codes of every `grpo` command: 0 no errors, 1 errors (or warnings with --fail-on warning), 2 usage or bad
input, 3 could not run.
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
# And for one that wrote into a pipe without a reader: 128 + SIGPIPE.
EXIT_UNREAD = 141
NO_MEMORY = "out of memory\n  fix: raise the memory limit of this process (ulimit -v), or pass less input at once"


class Location(NamedTuple):
    """A location in a file: the file name, and line and column counted from 1.

    Line 0 means the entire file, column 0 the entire line.
    """

    file: str
    line: int = 0
    col: int = 0

    def in_repository(self) -> str:
        """Return the file's path relative to the repository root; paths outside the repository are unchanged.

        The root is GITHUB_WORKSPACE, or the current folder if that variable is not set.
        """
        if self.file.startswith("<"):
            # This is a pipe or the output of a chart.
            return self.file
        root = os.path.abspath(os.environ.get("GITHUB_WORKSPACE") or os.curdir)
        inside = os.path.relpath(os.path.abspath(self.file), root)
        return self.file if inside.split(os.sep)[0] == os.pardir else inside

    def __str__(self) -> str:
        if not self.line:
            return self.file
        return f"{self.file}:{self.line}:{self.col}" if self.col else f"{self.file}, line {self.line}"


class GrpoError(Exception):
    """The base class: a message in lower case, the location if it is known, and what to do."""

    exit_code = EXIT_CANNOT_RUN

    def __init__(self, message: str, *, at: Location | None = None, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.at = at
        self.fix = fix
        # True if the line may contain a secret: it is not shown.
        self.secret = False
        # True if the message has been laid out in lines.
        self.is_report = False

    def __str__(self) -> str:
        place = f"{self.at}: " if self.at else ""
        fix = f"\n  fix: {self.fix}" if self.fix else ""
        return f"{place}{self.message}{fix}"


class UsageError(GrpoError):
    """The command line is wrong."""

    exit_code = EXIT_USAGE


class InputError(GrpoError):
    """A file was read, but its content is wrong."""

    exit_code = EXIT_USAGE


class UnreadableError(GrpoError):
    """A file cannot be opened or read."""


class SpliceError(InputError):
    """A document cannot be edited without additional changes."""


class OutputError(GrpoError):
    """An output folder is not writable."""


class RenderError(InputError):
    """Helm rejected the chart or the values; the message is Helm's, without its log lines."""

    @property
    def is_of_schema(self) -> bool:
        """Return whether a schema rejected the values, not a template; Helm 3 and 4 use the same words."""
        return "meet the specifications of the schema" in self.message


class OutputRefusedError(InputError):
    """An output folder contains files that this program did not write."""


class EngineError(GrpoError):
    """No Helm engine could be started, or it crashed."""


class ClusterError(GrpoError):
    """A request to the cluster failed: no kubectl, no permission, no such pod."""


class InstallationError(GrpoError):
    """Files that belong to this package are missing or damaged."""
