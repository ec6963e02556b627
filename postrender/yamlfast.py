"""Read plain YAML in a fraction of the time, or not at all; the caller then reads with `yamlio`, which knows all rules.

`grpo_reader`, the compiled reader that lies under reader/, is used where it is installed: it knows which YAML all
readers take for the same, and is several times faster than to prove that of what py-yaml12 has read (`yamlproof`).
"""

# ruff: noqa: TID251 - this is the one module that may import grpo_reader

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from postrender.plain import Plain


def _reader() -> Callable[[str], dict[str, Any] | None] | None:
    """Return the compiled reader; it has to be built, and everything works without it."""
    try:
        from grpo_reader import read
    except ImportError:
        return None
    found: Callable[[str], dict[str, Any] | None] = read
    return found


_compiled = _reader()


def is_compiled() -> bool:
    """Say whether to read takes so little time that nothing is faster: no second process, no look at the head alone."""
    return _compiled is not None


def read(text: str) -> dict[str, Any] | None:
    """Return the object of one document, or None where another reader is needed."""
    if _compiled:
        return _compiled(text)
    from postrender import yamlproof

    return yamlproof.read(text)


def parse(text: str) -> Plain:
    """Read any one document that is known to be plain, or ours; raise ValueError where the full reader is needed.

    What the compiled reader is not certain of is read as YAML 1.2: words that YAML 1.1 reads differently stay text, and
    of two equal keys the last one counts.
    """
    found = _compiled(text) if _compiled else None
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
