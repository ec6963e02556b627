"""The one schema that lint compiles is the strictest of the four, and the validator agrees with another one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrender import paths
from postrender.errors import InstallationError
from postrender.schema import Schema
from tests.conftest import LAYERS, ROOT

# Keywords that say nothing about which values fit.
PROSE = {"description", "title", "$comment", "default", "examples"}


def followed(node: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    """Return a node with what its reference says."""
    target = whole["definitions"][node["$ref"].removeprefix("#/definitions/")] if "$ref" in node else {}
    joined = {**target, **{key: value for key, value in node.items() if key != "$ref"}}
    if joined.get("if") == {"type": "null"}:
        inner = followed(joined["else"], whole)
        return {**inner, "type": [inner["type"], "null"]}
    return joined


def narrower(loose: Any, strict: Any, path: str, whole: dict[str, Any], own: dict[str, Any] | None = None) -> list[str]:
    """Return the places where `strict` accepts something that `loose` refuses, compared keyword by keyword.

    `whole` is the schema of `strict`, `own` that of `loose`.
    """
    if not isinstance(loose, dict) or not isinstance(strict, dict):
        return [] if loose == strict else [path]
    if loose.get("$ref") != strict.get("$ref") or loose.get("if") != strict.get("if"):
        loose, strict = followed(loose, own or whole), followed(strict, whole)
    found = []
    for key, value in loose.items():
        inside = f"{path}/{key}"
        prose = key in PROSE and not isinstance(value, dict)
        # A definition that only one side has is followed where it is used.
        if prose or (path == "/definitions" and key not in strict):
            continue
        if key not in strict:
            found.append(inside)
        elif key == "required":
            found += [] if {*value} <= {*strict[key]} else [inside]
        else:
            found += narrower(value, strict[key], inside, whole, own)
    return found


@pytest.mark.parametrize("layer", LAYERS)
def test_whatever_another_chart_rejects_the_job_chart_rejects_too(layer: str) -> None:
    """Lint compiles the schema of grpo-job only, and this is why it may."""
    loose, strict = Schema(paths.schema(layer)).source, Schema(paths.schema("grpo-job")).source
    assert narrower(loose, strict, "", strict, loose) == []


def test_the_schema_comparison_detects_a_looser_schema() -> None:
    loose: dict[str, Any] = {"type": "object", "required": ["a"], "properties": {"a": {"minimum": 3}}}
    whole: dict[str, Any] = {"definitions": {"d": {"minimum": 3}}}
    assert narrower(loose, {**loose, "required": ["a", "b"]}, "", whole) == []
    assert narrower(loose, {**loose, "required": []}, "", whole) == ["/required"]
    assert narrower(loose, {**loose, "properties": {"a": {"minimum": 2}}}, "", whole) == ["/properties/a/minimum"]
    assert narrower(loose, {**loose, "properties": {"a": {"$ref": "#/definitions/d"}}}, "", whole) == []
    assert narrower(loose, {**loose, "properties": {"a": {}}}, "", whole) == ["/properties/a/minimum"]


LEAVES = st.sampled_from([0, 1, -1, 1.0, 2.5, "", "a", "v0.7.0", True, None, "4", 41])
SECTIONS = json.loads((ROOT / "charts/grpo-job/values.schema.json").read_text())["properties"]
KEYS = st.sampled_from(sorted({*SECTIONS, *(key for part in SECTIONS.values() if isinstance(part, dict) for key in part.get("properties", {}))}))  # fmt: skip  # noqa: E501
TREES = st.recursive(LEAVES, lambda below: st.dictionaries(KEYS, below, max_size=4), max_leaves=12)


@given(tree=st.dictionaries(KEYS, TREES, max_size=5))
def test_the_validator_agrees_with_jsonschema(tree: dict[str, Any]) -> None:
    schema = Schema(paths.schema("grpo-job"))
    oracle = jsonschema.Draft7Validator(schema.source)
    expected = sorted(
        (tuple(map(str, error.absolute_path)), str(error.validator)) for error in oracle.iter_errors(tree)
    )
    # jsonschema calls a `false` schema None; both give an error for each missing key, and one for all keys in excess.
    ours = sorted((tuple(map(str, problem.path)), problem.keyword.replace("falseSchema", "None")) for problem in schema.problems(tree))  # fmt: skip  # noqa: E501
    assert ours == expected
    assert schema.is_valid(tree) == (not expected)


def test_a_missing_or_broken_schema_is_reported_as_a_broken_installation(tmp_path: Path) -> None:
    with pytest.raises(InstallationError, match=r"a schema cannot be read: .*none\.json"):
        Schema(str(tmp_path / "none.json"))
    for text in ("{", '{"type": 3}'):
        (tmp_path / "s.json").write_text(text)
        with pytest.raises(InstallationError, match="is not a schema"):
            Schema(str(tmp_path / "s.json"))


def test_a_keyword_is_resolved_through_references(tmp_path: Path) -> None:
    source = {
        "properties": {"a": {"description": "Outer.", "$ref": "#/$defs/n"}},
        "$defs": {"n": {"if": {"type": "string"}, "then": {"maxLength": 2}}},
    }
    (tmp_path / "s.json").write_text(json.dumps(source))
    schema = Schema(str(tmp_path / "s.json"))
    (problem,) = schema.problems({"a": "long"})
    assert (problem.keyword, problem.expected, problem.path) == ("maxLength", 2, ("a",))
    assert schema.part(problem.rule) == {"maxLength": 2}
    assert schema.description(problem.rule) == "Outer."


def test_a_long_string_can_be_validated() -> None:
    """An engine that backtracks gives up, and its words would be told as a mistake in the values."""
    tree = {"job": {"prompts": {"long": "y" * 100_000}}}
    assert {problem.keyword for problem in Schema(paths.schema("grpo-job")).problems(tree)} == {"required"}
