"""Know what config.json says of a model, by its name on Hugging Face: the facts of schemas/models.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from postrender import facts


@cache
def load(name: str) -> Mapping[str, Any] | None:
    """Return what is known of a model, keys as config.json names them; None of a model that the file does not have."""
    models: Mapping[str, Mapping[str, Any]] = facts.load("models.json")
    return models.get(name)
