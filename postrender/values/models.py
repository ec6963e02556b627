"""Look up the config.json of a model by its name on Hugging Face; schemas/models.yaml has the data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from postrender import facts, textfile
from postrender.errors import InputError, Location

# The models of the user.
_added: dict[str, Mapping[str, Any]] = {}


def load(name: str) -> Mapping[str, Any] | None:
    """Return what is known of a model, with the keys of config.json; None for an unknown model."""
    return _added.get(name) or _shipped().get(name)


def add(name: str, file: str) -> None:
    """Add a model from its config.json; raise UnreadableError, or InputError for a file that is none."""
    try:
        config = json.loads(textfile.read_bytes(file))
    except ValueError as error:
        raise InputError(f"this is not JSON: {error}", at=Location(file), fix="give the model's config.json") from error
    if not isinstance(config, dict) or not isinstance(config.get("architectures"), list):
        raise InputError("expected a map with architectures", at=Location(file), fix="give the model's config.json")
    _added[name] = config


# What `parameters` reads of config.json.
SIZES = (
    "hidden_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "num_hidden_layers",
    "intermediate_size",
    "num_experts",
    "num_local_experts",
    "moe_intermediate_size",
    "vocab_size",
    "tie_word_embeddings",
)


def parameters(config: Mapping[str, Any]) -> int | None:
    """Return how many parameters the matrices of a decoder have: attention, gated MLPs, words; None without sizes.

    A model with other layers has more, or fewer if only some of its layers have experts.
    """
    if not all(isinstance(config.get(key), int | None) for key in SIZES):
        return None
    try:
        hidden, heads = config["hidden_size"], config["num_attention_heads"]
        width = config.get("head_dim") or hidden // heads
        attention = hidden * width * 2 * (heads + (config.get("num_key_value_heads") or heads))
        experts = config.get("num_experts") or config.get("num_local_experts") or 1
        feed = 3 * hidden * experts * (config.get("moe_intermediate_size") or config["intermediate_size"])
        tables = 2 if config.get("tie_word_embeddings") is False else 1
        return int(config["num_hidden_layers"] * (attention + feed) + tables * config["vocab_size"] * hidden)
    except (KeyError, ZeroDivisionError):
        return None


@cache
def _shipped() -> Mapping[str, Mapping[str, Any]]:
    models: Mapping[str, Mapping[str, Any]] = facts.load("models.json")
    return models
