"""The errors of `${...}` references: one class per cause."""

from __future__ import annotations

from collections.abc import Sequence

Path = tuple[str, ...]


class NoValueError(Exception):
    """A reference without a value; `name` is its name, `place` the path of the text that contains it."""

    place: Path = ()

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class UnknownError(NoValueError):
    """A value that only the running job knows, or that the caller cannot use."""


class DanglingError(NoValueError):
    """A reference to a key that does not exist; `name` is that key."""


class RefusedError(UnknownError):
    """A reference that makes the framework fail."""


class MalformedError(RefusedError):
    """A text that OmegaConf's grammar rejects; `is_open` is true if the closing brace is missing."""

    def __init__(self, text: str, *, is_open: bool) -> None:
        super().__init__(text)
        self.is_open = is_open


class CycleError(RefusedError):
    """References that lead back to themselves; `paths` are the keys that contain them, in order.

    `section` is set if a single reference includes the section that contains it.
    """

    def __init__(self, paths: Sequence[Path], section: Path | None = None) -> None:
        super().__init__(".".join(paths[0]))
        self.paths = [".".join(path) for path in paths]
        self.section = ".".join(section) if section else ""


class AboveRootError(RefusedError):
    """A relative reference with too many leading dots; `most` is the number that leads to the root."""

    def __init__(self, name: str, most: int) -> None:
        super().__init__(name)
        self.most = most


class UnknownResolverError(RefusedError):
    """A call to a resolver that the framework does not register."""


class EscapedError(RefusedError):
    """A text with a backslash before `${` that fails when the framework resolves its configuration a second time."""
