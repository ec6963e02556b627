"""Read plain YAML in a fraction of the time, or not at all; the caller then reads with `yamlio`, which knows all rules.

`scan` says in the same way where the parts of a document stand; what it does not know, `composed` does.

`grpo_reader`, the compiled reader that lies under reader/, is used where it is installed: it knows which YAML all
readers take for the same, and is several times faster than to prove that of what py-yaml12 has read (`yamlproof`). It
searches streams too.
"""

# ruff: noqa: TID251 - this is the one module that may import grpo_reader

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from postrender.plain import Plain
    from postrender.spots import Spot

    class Compiled(Protocol):
        """What `grpo_reader` has."""

        @staticmethod
        def read(text: str, /) -> dict[str, Any] | None: ...
        @staticmethod
        def locate(text: str, /) -> tuple[dict[str, Any], Spot] | None: ...
        @staticmethod
        def find(data: bytes, word: bytes, start: int, /) -> int: ...


def _module() -> Compiled | None:
    """Return the compiled reader; it has to be built, and everything works without it."""
    try:
        import grpo_reader
    except ImportError:
        return None
    module: Any = grpo_reader
    # One of an older version may still be installed.
    return module if hasattr(module, "find") else None


_compiled = _module()


def is_compiled() -> bool:
    """Say whether the compiled reader is installed: with it no second process is worth its start to read."""
    return _compiled is not None


def find(data: bytes, word: bytes, start: int) -> int:
    """Return where a word first stands in a stream, from an offset on, or -1; the compiled search is ten times as fast.

    `start` is in or right behind the stream, and the word is not empty.
    """
    return _compiled.find(data, word, start) if _compiled else data.find(word, start)


def read(text: str) -> dict[str, Any] | None:
    """Return the object of one document, or None where another reader is needed."""
    if _compiled:
        return _compiled.read(text)
    from postrender import yamlproof

    return yamlproof.read(text)


def exact(text: str) -> dict[str, Any] | None:
    """Return the object of one document if the compiled reader is certain of it: no other reader has to be asked."""
    return _compiled.read(text) if _compiled else None


def located(text: str) -> tuple[dict[str, Any] | None, Spot | None]:
    """Return what `exact` does, and where the object stands."""
    return (_compiled.locate(text) if _compiled else None) or (None, None)


def scan(text: str) -> Spot | None:
    """Return where the object of a document stands, or None where `composed` has to say it.

    Without the compiled scanner, a part that turns out not to be plain raises NotPlainError when it is asked for.
    """
    _, root = located(text)
    if root is not None:
        return root
    from postrender import blocks

    return blocks.scan(text) if blocks.is_plain(text) else None


def parse(text: str) -> Plain:
    """Read any one document that is known to be plain, or ours; raise ValueError where the full reader is needed.

    What the compiled reader is not certain of is read as YAML 1.2: words that YAML 1.1 reads differently stay text, and
    of two equal keys the last one counts.
    """
    found = _compiled.read(text) if _compiled else None
    if found is not None:
        return found
    from postrender import yamlproof

    return yamlproof.parse(text)


def load(data: bytes) -> dict[str, Any] | None:
    """Return the values of a file, or None where it is not plain enough or no library is there."""
    try:
        text = data.decode("utf-8")
    except ValueError:
        return None
    # Helm 4 cuts a file at every line that starts so.
    cut = "\n---" in text or (text.startswith("---") and not text.startswith("---\n"))
    return None if cut else read(text)
