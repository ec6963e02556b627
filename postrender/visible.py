"""Make text visible: no character in a log, a name or a file controls the terminal or the CI system that shows it.

All program output passes through `streams`, so no caller needs to take care of it. A document for another
program, such as a manifest in a pipe, goes to the stream that `exact` returns.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Final, TextIO, cast

# Control characters but tab and line feed, surrogates, no characters, what separates lines, what reorders a line.
_COLOUR_OR_UNSEEN: Final = re.compile(
    "\x1b\\[[0-9;]*m|([\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff])"
)
# GitHub runs a line that begins with `::`, and `##[` anywhere; Azure `##vso[` and TeamCity `##teamcity[`.
# Sources: https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands,
# https://learn.microsoft.com/en-us/azure/devops/pipelines/scripts/logging-commands
_COMMAND: Final = re.compile(r"(?m)^([^\S\n]*):|(##[A-Za-z]*)\[")
_BEGINNING: Final = re.compile(r"##?[A-Za-z]{0,32}\Z")
_LINE_FEED: Final = "\n"
_CONTINUED: Final = "\n      | "
_CI: Final = ("CI", "GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION")


def text(given: str) -> str:
    r"""Return a text without colours, each invisible character as an escape such as `\u001b`.

    JSON and double-quoted YAML read the escape as the character.
    """
    if given.isascii() and given.isprintable():
        return given
    return _COLOUR_OR_UNSEEN.sub(lambda found: f"\\u{ord(found[1]):04x}" if found[1] else "", given)


def lines(given: Iterable[str]) -> str:
    """Return texts as lines with line ends; text after an inner line feed is marked, so that it forges no line."""
    return "".join(f"{line.replace(_LINE_FEED, _CONTINUED)}\n" for line in given)


class VisibleStream:
    """Write visible text to a stream; in CI, also disable workflow commands."""

    def __init__(self, stream: TextIO, *, in_ci: bool) -> None:
        """Write to a stream."""
        self.exact, self._in_ci = stream, in_ci
        # What decides whether the next text goes on with a command: empty at the beginning of a line.
        self._before = ""

    def write(self, given: str) -> int:
        """Write a text; return its length."""
        shown = text(given)
        self.exact.write(self._without_commands(shown) if self._in_ci else shown)
        return len(given)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts in order."""
        for line in lines:
            self.write(line)

    def _without_commands(self, shown: str) -> str:
        whole = self._before + shown
        broken = _COMMAND.sub(lambda found: f"{found[2]}\\u005b" if found[2] else f"{found[1]}\\u003a", whole)
        done, line = len(self._before), whole.rpartition("\n")[2]
        beginning = _BEGINNING.search(line[-40:])
        self._before = (beginning[0] if beginning else ".") if line.strip() else ""
        return broken[done:]

    def __getattr__(self, name: str) -> object:
        """Return an attribute of the underlying stream."""
        return getattr(self.exact, name)


def exact(stream: TextIO) -> TextIO:
    """Return the stream that writes each character unchanged."""
    return stream.exact if isinstance(stream, VisibleStream) else stream


@contextlib.contextmanager
def streams() -> Iterator[None]:
    """Make stdout and stderr write visible text."""
    before = sys.stdout, sys.stderr
    in_ci = any(map(os.environ.get, _CI))
    sys.stdout, sys.stderr = (cast(TextIO, VisibleStream(exact(each), in_ci=in_ci)) for each in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
