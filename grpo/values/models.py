"""Look up a model's config.json by its Hugging Face name; schemas/models.yaml has the data."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from postrender import facts, json_text, textfile
from postrender.errors import InputError, Location

# The models of the user.
_added: dict[str, Mapping[str, Any]] = {}


def load(name: str) -> Mapping[str, Any] | None:
    """Return what is known about a model, with the keys of config.json; None for an unknown model."""
    return _added.get(name) or _shipped().get(name)


def names() -> list[str]:
    """Return the names of the models that are known without user input."""
    return [*_shipped()]


def add(name: str, file: str) -> None:
    """Add a model from its config.json; raise UnreadableError if it cannot be read, InputError if it is invalid."""
    try:
        config = json_text.loads(textfile.read_bytes(file))
    except ValueError as error:
        raise InputError(f"this is not JSON: {error}", at=Location(file), fix="give the model's config.json") from error
    if not isinstance(config, dict) or not isinstance(config.get("architectures"), list):
        raise InputError("expected a map with architectures", at=Location(file), fix="give the model's config.json")
    _added[name] = config


@cache
def _shipped() -> Mapping[str, Mapping[str, Any]]:
    models: Mapping[str, Mapping[str, Any]] = facts.load("models.json")
    return models
