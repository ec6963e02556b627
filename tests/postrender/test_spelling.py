"""Misspelt names and natural guesses lead to the key that was meant."""

from __future__ import annotations

import re
from typing import Any

import pytest

from grpo.generate.sources import SECTIONS, read_yaml
from grpo.values import catalogue
from postrender import facts, paths, spelling
from postrender.schema import Schema
from tests.conftest import ROOT

SCHEMA: dict[str, Any] = Schema(paths.schema("grpo-job")).source
GUESSES: dict[str, str] = read_yaml(ROOT / "schemas/guesses.yaml")
KEY = re.compile(rf"\b(?:{'|'.join(SECTIONS)})(?:\.\w+)+")
# What stands for any name in a sentence.
ANY = "NAME"


def part_at(key: str) -> dict[str, Any] | None:
    """Return the part of the schema for a key; None if there is no such key."""
    part = SCHEMA
    for name in key.split("."):
        while "$ref" in part:
            part = SCHEMA["definitions"][part["$ref"].rpartition("/")[2]]
        patterns = part.get("patternProperties", {})
        if name in part.get("properties", {}):
            part = part["properties"][name]
        elif patterns and (name == ANY or any(re.search(pattern, name) for pattern in patterns)):
            part = next(iter(patterns.values()))
            part = part.get("else", part)
        elif part.get("additionalProperties") is not False and part.get("type") != "string":
            return {}
        else:
            return None
    return part


def test_every_guess_leads_to_existing_keys() -> None:
    for right in GUESSES.values():
        named = KEY.findall(right) if " " in right else [right]
        assert named or "-f " in right or "--namespace" in right or "config" in right or right in SECTIONS, right
        for key in named:
            assert part_at(key) is not None, key


def test_no_guessed_name_is_a_real_key_except_for_maps() -> None:
    for guess in GUESSES:
        part = part_at(guess)
        # Any name is one of a volume.
        assert part is None or "properties" in part or guess.startswith("storage."), guess


def test_the_generated_table_ignores_case_and_separators() -> None:
    table = facts.load("guesses.json")
    assert table["ray.numnodes"] == "ray.workers.replicas"
    assert len(table) == len(GUESSES)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("replicsa", "replicas"),
        ("REPLICAS", "replicas"),
        ("mount_path", "mountPath"),
        ("train_micro_batch_sise", "train_micro_batch_size"),
        # Two are as near.
        ("train_batch_size", ""),
        ("zork", ""),
    ],
)
def test_only_an_unambiguous_correction_is_suggested(name: str, meant: str) -> None:
    known = ["replicas", "env", "mountPath", "train_micro_batch_size", "train_global_batch_size"]
    assert spelling.meant(name, known) == meant


@pytest.mark.parametrize(
    ("value", "meant"),
    [("tarin", "train"), ("fp16", ""), ("v0.7", "v0.7.0"), ("v0.7.1", ""), ("Train", "train"), ("float8", "")],
)
def test_a_valid_looking_value_is_not_corrected_to_a_different_one(value: str, meant: str) -> None:
    assert spelling.meant(value, ["train", "bf16", "v0.6.0", "v0.7.0", "float16"], is_value=True) == meant


def test_the_nearest_name_is_suggested_first() -> None:
    assert spelling.near("nmae", ["name", "names", "label"], most=2) == ["name", "names"]
    assert spelling.near("zork", ["name"]) == []


@pytest.mark.parametrize("framework", ["nemo-rl", "verl"])
def test_names_from_other_frameworks_lead_to_existing_keys(framework: str) -> None:
    known = catalogue.load(framework, catalogue.versions(framework)[-1])
    names = {key.rpartition(".")[2] for key in known.keys}
    for name, keys in read_yaml(ROOT / f"schemas/catalogues/guesses/{framework}.yaml").items():
        assert name not in names, f"{name} is a name of the framework itself"
        assert keys
        assert [key for key in keys if not known.knows(key)] == [], name
        assert spelling.elsewhere(framework, name) == keys
