"""A place in a file that a person can open."""

from __future__ import annotations


class Location:
    """Hold a file name, a line and a column, both counted from 1.

    Line 0 means the file as a whole, column 0 the line as a whole.
    """

    __slots__ = ("col", "file", "line")

    def __init__(self, file: str, line: int = 0, col: int = 0) -> None:
        self.file = file
        self.line = line
        self.col = col

    def in_repository(self) -> str:
        """Return the file's path as code hosts name it, from the root of the repository; another file's as it is.

        GITHUB_WORKSPACE says where that is, and without it the current folder is taken for it.
        """
        import os

        if self.file.startswith("<"):
            # It is a pipe, or what a chart renders.
            return self.file
        root = os.path.abspath(os.environ.get("GITHUB_WORKSPACE") or os.curdir)
        inside = os.path.relpath(os.path.abspath(self.file), root)
        return self.file if inside.split(os.sep)[0] == os.pardir else inside

    def _key(self) -> tuple[str, int, int]:
        return (self.file, self.line, self.col)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Location) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __lt__(self, other: Location) -> bool:
        return self._key() < other._key()

    def __str__(self) -> str:
        if not self.line:
            return self.file
        return f"{self.file}:{self.line}:{self.col}" if self.col else f"{self.file}, line {self.line}"

    def __repr__(self) -> str:
        return f"Location({self.file!r}, {self.line}, {self.col})"
