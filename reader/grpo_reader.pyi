"""Read one document of plain YAML as Helm and Kubernetes read it."""

from typing import Any

def read(text: str, /) -> dict[str, Any] | None:
    """Return the object of one document, or None where another reader is needed.

    Raises MemoryError only.
    """
