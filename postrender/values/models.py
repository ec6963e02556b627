"""Look up the config.json of a model by its name on Hugging Face; schemas/models.yaml has the data."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from postrender import facts


@cache
def load(name: str) -> Mapping[str, Any] | None:
    """Return what is known of a model, with the keys of config.json; None for an unknown model."""
    models: Mapping[str, Mapping[str, Any]] = facts.load("models.json")
    return models.get(name)
