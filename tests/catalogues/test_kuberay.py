"""The definitions of KubeRay 1.7 that the tests build are those of its source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.catalogues import kuberay, sources
from tests.conftest import ROOT, require_tool


@pytest.fixture
def old() -> Path:
    """The definitions of KubeRay 1.6, which come with its operator."""
    require_tool("ray-operator")
    return ROOT / ".tools/share/kuberay-crds"


@pytest.mark.full
def test_facts_extracted_from_the_source_match_the_committed_file(old: Path) -> None:
    """Between the two versions nothing else differs: no type, default, limit or rule of a field that both have."""
    new = sources.tree("kuberay", "1.7.0") / "ray-operator/config/crd/bases"
    assert kuberay.facts(old, new) == yaml.safe_load(kuberay.FACTS.read_text("utf-8"))


@pytest.mark.full
def test_the_built_definitions_have_exactly_the_recorded_differences(old: Path, tmp_path: Path) -> None:
    built = kuberay.build(old, tmp_path)
    assert kuberay.facts(old, built) == yaml.safe_load(kuberay.FACTS.read_text("utf-8"))


def schema(**inside: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"groups": {"type": "array", "items": {"type": "object", **inside}}}}


def test_each_difference_is_named_by_its_outermost_field() -> None:
    before = schema(required=["address"], properties={"address": {"type": "string"}, "old": {"type": "string"}})
    new = {"type": "object", "description": "words", "properties": {"inner": {"type": "string"}}}
    after = schema(properties={"address": {"type": "string", "description": "other words"}, "new": new})
    assert list(kuberay.changes(before, after)) == [
        ("optional", "groups[].address", None),
        ("added", "groups[].new", {"type": "object"}),
        ("dropped", "groups[].old", None),
    ]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ({"type": "string"}, {"type": "integer"}, "groups[]: type was 'string' and is 'integer'"),
        ({}, {"enum": ["a"]}, "groups[]: enum was None and is ['a']"),
        ({}, {"required": ["a"]}, "groups[]: ['a'] are required now"),
    ],
)
def test_a_difference_the_facts_cannot_express_is_an_error(
    before: dict[str, Any], after: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=r"^groups") as caught:
        list(kuberay.changes(schema(**before), schema(**after)))
    assert str(caught.value) == message
