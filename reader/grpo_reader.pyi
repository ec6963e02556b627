"""Read one document of plain YAML as Helm and Kubernetes read it, and say where its parts stand."""

from typing import Any, Literal, final

def read(text: str, /) -> dict[str, Any] | None:
    """Return the object of one document, or None where another reader is needed.

    Raises MemoryError where Python has no memory; the process ends where there is none for a long scalar.
    """

def find(data: bytes, word: bytes, start: int, /) -> int:
    """Return where a word first stands in a stream, from an offset on, or -1."""

def locate(text: str, /) -> tuple[dict[str, Any], Spot] | None:
    """Return the object of one document and its place, or None where `read` does.

    Raises MemoryError where Python has no memory; the process ends where there is none for a long scalar.
    """

@final
class Spot:
    """The place of one value, as postrender/spots.py has it; offsets count characters."""

    @property
    def kind(self) -> Literal["map", "list", "scalar"]: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def flow(self) -> bool: ...
    @property
    def col(self) -> int: ...
    @property
    def first(self) -> int: ...
    def has(self, key: str) -> bool: ...
    def key_start(self, key: str) -> int: ...
    def child(self, key: str) -> Spot: ...
    def names(self) -> list[str]: ...
    def count(self) -> int: ...
    def item(self, number: int) -> Spot: ...
