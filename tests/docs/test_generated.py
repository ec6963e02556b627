"""The generated files are fresh, strict, never echo a token, and careless sources are refused."""

from __future__ import annotations

import copy
import importlib
import json
import re
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from grpo.generate import facts, reference, schemas, sources, tutorial
from grpo.generate.__main__ import main
from grpo.generate.markdown import prose
from grpo.generate.sources import CHARTS, ROOT, SECTIONS, Schema, SourceError, Sources
from postrender.yaml import writer
from tests.conftest import thin

# Assembled here, so that no scanner takes this file for a leak.
TOKEN = "hf_" + "NotARealToken0123456789"
# The distribution has no type hints.
jsonschema: Any = importlib.import_module("jsonschema")
TREE = sources.load(ROOT)
# Keys of maps that "data" could not be.
EXAMPLE_KEYS = {
    "interfaces": "eth1",
    "subnets": "rdma-0",
    "configFor": "b200",
    "refuses": "spot",
    "env": "NCCL_X",
    "models": "google/gemma-3-1b-it",
    "datasets": "openai/gsm8k",
    "resources": "vpc.amazonaws.com/efa",
    "benchmarks": "math500",
}


@cache
def chart_schema(chart: str) -> Schema:
    content: Schema = json.loads((ROOT / "charts" / chart / "values.schema.json").read_text("utf-8"))
    return content


@cache
def validator_of(chart: str) -> jsonschema_rs.Draft7Validator:
    return jsonschema_rs.Draft7Validator(chart_schema(chart))


def errors(chart: str, values: object) -> list[jsonschema_rs.ValidationError]:
    return list(validator_of(chart).iter_errors(values))


def wrong(chart: str, values: object) -> list[tuple[str | int, ...]]:
    """Return the paths of the errors that are not about a missing key."""
    return [tuple(e.instance_path) for e in errors(chart, values) if e.kind.name != "required"]


def leaves(raw: Schema, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Schema]]:
    """Yield each leaf of a source with a path that could stand in a values file."""
    node = TREE.resolve(raw)
    if "properties" in node:
        for key, inner in node["properties"].items():
            yield from leaves(inner, (*path, key))
    elif isinstance(node.get("additionalProperties"), dict):
        key = EXAMPLE_KEYS.get(path[-1], "data")
        yield from leaves(node["additionalProperties"], (*path, key))
    else:
        yield path, node


def nested(path: tuple[str, ...], value: object) -> dict[str, Any]:
    out: Any = value
    for key in reversed(path):
        out = {key: out}
    return dict(out)


LEAVES = [(path, node) for section in SECTIONS for path, node in leaves(TREE.sections[section], (section,))]
STRINGS = [path for path, node in LEAVES if node["type"] == "string"]


def test_the_committed_files_are_fresh(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0, capsys.readouterr().err


def copy_sources(folder: Path) -> None:
    """Copy what files are generated from."""
    for name in ("schemas", "values", "docs/metrics"):
        shutil.copytree(ROOT / name, folder / name)
    for template in tutorial.TEMPLATES.values():
        shutil.copy(ROOT / template, folder / "docs")


@pytest.mark.full
def test_a_stale_file_is_reported_with_the_command_that_updates_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy_sources(tmp_path)
    assert main([], root=tmp_path) == 0
    (tmp_path / "charts/storage/values.yaml").write_text("stack: {}\n", "utf-8")
    (tmp_path / "docs/tutorial.md").unlink()
    assert main(["--check"], root=tmp_path) == 1
    said = capsys.readouterr().err
    assert "charts/storage/values.yaml, docs/tutorial.md" in said
    assert "python -m grpo.generate" in said
    assert "network" not in said


@pytest.mark.full
def test_a_generated_file_without_a_source_is_named_and_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy_sources(tmp_path)
    (tmp_path / "schemas/catalogues/verl/0.6.1.yaml").unlink()
    assert main(["--check"], root=tmp_path) == 1
    assert "schemas/generated/catalogues/verl/0.6.1.json" in capsys.readouterr().err
    assert main([], root=tmp_path) == 0
    assert not (tmp_path / "schemas/generated/catalogues/verl/0.6.1.json").exists()
    assert main(["--check"], root=tmp_path) == 0


def test_a_model_can_only_refer_to_one_above_it() -> None:
    assert facts.models({"a": {"x": 1, "y": 2}, "b": {"like": "a", "y": 3}})["b"] == {"x": 1, "y": 3}
    with pytest.raises(SourceError, match="a is like b, expected a model above it in the file"):
        facts.models({"a": {"like": "b"}, "b": {"x": 1}})


@pytest.mark.parametrize("chart", CHARTS)
def test_a_schema_is_draft_07_and_its_patterns_use_no_lookaround(chart: str) -> None:
    content = chart_schema(chart)
    jsonschema.Draft7Validator.check_schema(content)
    jsonschema_rs.Draft7Validator(content, pattern_options=jsonschema_rs.RegexOptions())
    assert '"x-' not in json.dumps(content)


@pytest.mark.parametrize("chart", CHARTS)
def test_references_point_to_the_draft_07_definitions_section(chart: str) -> None:
    """Elsewhere they work too, but Helm then needs twice the time for the schema, at each command."""
    found = set(re.findall(r'"\$ref": "([^"]*)"', json.dumps(chart_schema(chart))))
    assert found == {reference for reference in found if reference.startswith("#/definitions/")} != set()


@pytest.mark.parametrize("chart", CHARTS)
def test_values_yaml_has_valid_defaults_of_exactly_the_sections_it_reads(chart: str) -> None:
    text = (ROOT / "charts" / chart / "values.yaml").read_text("utf-8")
    values = yaml.safe_load(text)
    assert text.startswith("# yaml-language-server: $schema=values.schema.json\n")
    assert list(values) == [s for s in CHARTS[chart] if s != "accelerator"]
    assert wrong(chart, values) == []
    assert values == reference.defaults(TREE, chart)


@pytest.mark.parametrize("chart", CHARTS)
def test_sections_of_other_charts_have_no_required_keys(chart: str) -> None:
    others: dict[str, Schema] = {s: {} for s in SECTIONS if s not in CHARTS[chart]}
    assert [e for e in errors(chart, others) if e.instance_path] == []


def test_a_key_is_required_only_by_charts_that_read_it() -> None:
    missing = {c: {e.kind.value for e in errors(c, reference.defaults(TREE, c))} for c in CHARTS}
    assert missing == {
        "network": {"name"},
        "storage": {"name"},
        "raycluster": {"name", "repository", "tag", "rayVersion"},
        "grpo-job": {"name", "version", "repository", "tag", "rayVersion"},
    }


@pytest.mark.parametrize("chart", CHARTS)
@pytest.mark.parametrize("path", thin([(path,) for path in sorted({p[:-1] for p, _ in LEAVES})], 12), ids=".".join)
def test_a_misspelt_key_fails_in_every_chart(chart: str, path: tuple[str, ...]) -> None:
    node: Any = TREE.sections[path[0]]
    for key in path[1:]:
        node = TREE.resolve(node)
        node = node["properties"][key] if "properties" in node else node["additionalProperties"]
    if "properties" in TREE.resolve(node):
        assert path in wrong(chart, nested((*path, "mispelt"), "x"))


@pytest.mark.parametrize("chart", CHARTS)
def test_an_unknown_section_fails_but_helms_own_keys_pass(chart: str) -> None:
    assert wrong(chart, {"values": {}}) == [()]
    assert wrong(chart, {"global": {"a": 1}, "common": {}, "enabled": True, "tags": {}}) == []


@pytest.mark.parametrize("chart", CHARTS)
def test_null_can_delete_only_map_entries(chart: str) -> None:
    maps = {
        "stack": {"labels": {"a": None}},
        "accelerator": {"interfaces": {"eth1": None}, "hostPaths": {"gib": None}},
        "network": {"rdma": {"subnets": {"rdma-0": None}}},
        "storage": {
            "old": None,
            "data": {"mountPath": "/x", "gcsfuse": {"bucket": "abc", "mountOptions": {"o": None}}},
        },
        "job": {"config": {"a": None}, "configFor": {"b200": None}},
        "checks": {"ignore": {"rule": None}},
    }
    assert wrong(chart, maps) == []
    assert wrong(chart, {"stack": {"name": None}}) == [("stack", "name")]
    assert set(wrong(chart, {"platform": {"kind": None}})) == {("platform", "kind")}


@pytest.mark.parametrize("chart", CHARTS)
@pytest.mark.parametrize("path", thin([(path,) for path in STRINGS], 12), ids=".".join)
def test_a_token_is_refused_in_every_string_and_never_echoed(chart: str, path: tuple[str, ...]) -> None:
    found = [e for e in errors(chart, nested(path, f"x{TOKEN}")) if tuple(e.instance_path) == path]
    assert [e.kind.name for e in found] == ["const"]
    assert "looks like a token" in found[0].message
    assert TOKEN not in found[0].message


@pytest.mark.parametrize("name", TREE.tokens)
def test_every_token_shape_is_part_of_the_combined_pattern(name: str) -> None:
    assert f"|{TREE.tokens[name]}|" in f"|{TREE.token_pattern}|"
    template = (ROOT / "charts/common/templates/_tokens.tpl").read_text("utf-8")
    assert f"`{TREE.tokens[name]}`" in template


@pytest.mark.parametrize("chart", CHARTS)
def test_helm_refuses_a_token_and_does_not_echo_it(chart: str, tmp_path: Path) -> None:
    helm = pytest.importorskip("helm_python", reason="NOT CHECKED: that Helm's own validator never echoes a token")
    values: dict[str, Any] = {}
    for path in STRINGS:
        _merge(values, nested(path, TOKEN))
    shutil.copy(ROOT / "charts" / chart / "values.schema.json", tmp_path)
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: probe\nversion: 0.1.0\n", "utf-8")
    (tmp_path / "templates").mkdir()
    with pytest.raises(helm.HelmError) as refused:
        helm.Chart.load(str(tmp_path)).validate_schema(values)
    said = str(refused.value)
    assert TOKEN[3:] not in said
    assert said.count("looks like a token") == len(STRINGS)


def _merge(into: dict[str, Any], other: dict[str, Any]) -> None:
    for key, value in other.items():
        if isinstance(value, dict):
            _merge(into.setdefault(key, {}), value)
        else:
            into[key] = value


@pytest.mark.parametrize("chart", ["raycluster", "grpo-job"])
def test_a_pod_spec_overlay_is_strict_and_allows_no_containers(chart: str) -> None:
    good = {"priorityClassName": "high", "tolerations": [{"key": "a", "operator": "Exists"}], "hostNetwork": True}
    assert wrong(chart, {"ray": {"workers": {"podSpec": good}}}) == []
    bad = {"containers": [], "tolerations": [{"kye": "a"}], "schedulerName": TOKEN, "hostNetwork": "yes"}
    found = errors(chart, {"ray": {"head": {"podSpec": bad}}})
    assert {tuple(e.instance_path)[3:] for e in found if e.instance_path[:1] == ["ray"]} == {
        (),
        ("tolerations", 0),
        ("schedulerName",),
        ("hostNetwork",),
    }


@pytest.mark.parametrize("chart", CHARTS)
def test_a_chart_readme_names_every_key_the_chart_reads(chart: str) -> None:
    """And says what the chart makes, needs, and what comes next."""
    page = (ROOT / reference.readme_path(chart)).read_text("utf-8")
    for heading in (f"# {chart}", "## What it makes", "## What it needs", "## Install", "## Next", "## Values"):
        assert f"\n{heading}\n" in page
    for section in SECTIONS:
        keys = [row.key for row in reference.rows(TREE, section)]
        assert all((f"| {key} |" in page) == (section in CHARTS[chart]) for key in keys)


def test_a_chart_without_a_readme_header_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"schemas/readme/network\.md: expected a head"):
        reference.readme(TREE, "network", tmp_path)


def test_the_values_reference_names_every_leaf() -> None:
    pages = reference.pages(TREE)
    assert [*pages] == [f"docs/values/{section}.md" for section in SECTIONS]
    for path, node in LEAVES:
        assert prose(str(node["description"])) in pages[f"docs/values/{path[0]}.md"], path


def test_each_key_has_a_heading_followed_by_its_facts() -> None:
    pages, node = reference.pages(TREE), dict(LEAVES)["ray", "test", "timeoutSeconds"]
    heading = f"## `ray.test.timeoutSeconds`\n\ninteger; default `{node['default']}`; unit: seconds\n\n"
    assert f"{heading}{prose(node['description'])}\n" in pages["docs/values/ray.md"]
    assert "## `storage.NAME.gcsfuse.bucket`\n\nstring; **required**\n" in pages["docs/values/storage.md"]


@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_page_names_the_charts_that_read_the_section(section: str) -> None:
    (line,) = re.findall(r"^Charts that read .*$", reference.pages(TREE)[f"docs/values/{section}.md"], re.MULTILINE)
    assert re.findall("`([a-z-]+)`", line) == [chart for chart, read in CHARTS.items() if section in read]


@given(
    st.text(max_size=12)
    | st.sampled_from(["y", "No", "1e3", "0o7", "08", "1_000", ".inf", "~", "16", "64Gi", "v1", ""])
)
def test_a_default_string_stays_a_string(text: str) -> None:
    assert yaml.safe_load(f"a: {writer.readable(text)}") == {"a": text}


@pytest.mark.parametrize(
    "text", ["y", "No", "ON", "1e3", "0o7", "08", "1_000", ".inf", "~", "16", "64Gi", "null", "0x1f"]
)
def test_helm_reads_a_default_string_as_a_string(text: str) -> None:
    helm = pytest.importorskip("helm_python", reason="NOT CHECKED: that Helm reads the quoted defaults as strings")
    assert helm.values_from_yaml(f"a: {writer.readable(text)}\n") == {"a": text}


LEAF: Schema = {"type": "string", "description": "A leaf.", "default": "x", "x-source": "ours"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"description": ""}, "platform.leaf: expected a description"),
        ({"x-source": None}, "platform.leaf: expected x-source"),
        ({"type": "integer", "default": 1}, "platform.leaf: expected x-unit"),
        ({"$ref": "#/$defs/nowhere"}, "platform.leaf: unknown $ref '#/$defs/nowhere'"),
        ({"$ref": "_defs.yaml#/name"}, "platform.leaf: unknown $ref"),
        ({"type": "object"}, "platform.leaf: an object has one of properties"),
        ({"default": None}, "platform.leaf: Helm ignores a null default"),
        ({"desciption": "x"}, "platform.leaf: unknown keyword 'desciption'"),
        ({"pattern": "^(?!x)"}, "platform.leaf: the pattern uses look-around"),
        ({"pattern": "^x$"}, "platform.leaf: expected examples of the pattern"),
        ({"pattern": "^x$", "examples": ["x", "y"]}, "platform.leaf: expected examples of the pattern"),
        ({"type": ["string", "null"]}, "platform.leaf: expected one type per key"),
        ({"type": "array", "default": []}, "platform.leaf: expected items"),
    ],
)
def test_an_incomplete_schema_leaf_is_refused(change: Schema, said: str) -> None:
    leaf = {k: v for k, v in {**LEAF, **change}.items() if v is not None or k == "default"}
    assert any(line.startswith(said) for line in problems({"leaf": leaf}))


def test_a_leaf_has_a_default_or_is_required_and_not_both() -> None:
    bare = {k: v for k, v in LEAF.items() if k != "default"}
    assert problems({"leaf": bare}) == ["platform.leaf: expected a default, or the key in its parent's required"]
    assert problems({"leaf": bare}, required=["leaf"]) == []
    assert problems({"leaf": LEAF}, required=["leaf"]) == [
        "platform.leaf: is required and has a default; remove one of them"
    ]
    assert problems({"leaf": LEAF}, required=["fear"]) == [
        "platform: requires 'fear', which is not among its properties"
    ]


@pytest.mark.full
def test_a_default_that_breaks_its_own_schema_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(ROOT / "schemas", tmp_path / "schemas")
    source = tmp_path / "schemas/values/platform.yaml"
    source.write_text(source.read_text("utf-8").replace("default: gke-standard", "default: gke-other"), "utf-8")
    assert main([], root=tmp_path) == SourceError.exit_code == 2
    assert "network: platform.kind: the default does not match its own schema" in capsys.readouterr().err


def test_a_missing_or_unknown_source_file_is_named(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "schemas", tmp_path / "schemas")
    (tmp_path / "schemas/values/ray.yaml").rename(tmp_path / "schemas/values/rya.yaml")
    with pytest.raises(SourceError, match=r"missing: \['ray'\], unknown: \['rya'\]"):
        sources.load(tmp_path)


def problems(properties: Schema, required: list[str] | None = None) -> list[str]:
    section = {"type": "object", "description": "A section.", "properties": properties}
    if required:
        section["required"] = required
    changed = {**copy.deepcopy(dict(TREE.sections)), "platform": section}
    return list(sources.check(Sources(changed, TREE.defs, TREE.tokens)))


def test_an_entry_with_an_enum_may_still_be_deleted() -> None:
    entry = schemas.nullable({"type": "string", "enum": ["a"]})
    validator = jsonschema_rs.Draft7Validator(entry)
    assert [validator.is_valid(v) for v in (None, "a", "b", 1)] == [True, True, False, False]


def test_a_shared_object_has_no_required_keys_in_sections_a_chart_ignores() -> None:
    shared: Schema = {
        "type": "object",
        "description": "Shared.",
        "required": ["a"],
        "properties": {"a": {"type": "integer", "description": "A.", "x-unit": "count", "x-source": "ours"}},
    }
    section = {"type": "object", "description": "S.", "properties": {"x": {"$ref": "#/$defs/shared"}}}
    tree = Sources({**TREE.sections, "platform": section, "ray": section}, {**TREE.defs, "shared": shared}, TREE.tokens)
    validator = jsonschema_rs.Draft7Validator(schemas.bundle(tree, "network", {}))
    values = reference.defaults(tree, "network")
    values["stack"]["name"] = "a"
    found = [tuple(e.instance_path) for e in validator.iter_errors({**values, "platform": {"x": {}}})]
    assert found == [("platform", "x")]
    assert validator.is_valid({**values, "ray": {"x": {}}})
    assert not validator.is_valid({**values, "ray": {"x": {"b": 1}}})


def test_the_editor_schema_is_as_strict_as_the_chart_schemas() -> None:
    """The schema of the modelines is as strict as the charts' about what stands in a file."""
    content = json.loads((ROOT / "schemas/values.schema.json").read_text("utf-8"))
    validator = jsonschema_rs.Draft7Validator(content)
    files = [
        file for folder in ("accelerators", "recipes", "examples") for file in (ROOT / "values" / folder).iterdir()
    ]
    for file in files:
        text = file.read_text("utf-8")
        assert text.startswith("# yaml-language-server: $schema=../../schemas/values.schema.json\n")
        assert validator.is_valid(yaml.safe_load(text)), file
    assert not validator.is_valid({"ray": {"workers": {"replicsa": 3}}})
    assert not validator.is_valid({"storage": {"data": {"mountPath": "data"}}})


def of_tokens(pattern: str) -> list[str]:
    return list(sources.check(Sources(TREE.sections, TREE.defs, {**TREE.tokens, "acme": pattern})))


@pytest.mark.parametrize("pattern", ["acme_[a-z]{8}|zz9[0-9]{8}", "ab|c", "acme_(a|b)|c", "[|]a|b"])
def test_a_token_pattern_with_alternatives_is_refused(pattern: str) -> None:
    assert of_tokens(pattern) == ["tokens.acme: the pattern has alternatives: write each as a separate shape"]


@pytest.mark.parametrize("pattern", ["[a-z]{8}", "a[a-z]{8}", "(?i)acme_", "(?:acme|other)_", "a?b", "^acme"])
def test_a_token_shape_must_begin_with_literal_text(pattern: str) -> None:
    (problem,) = of_tokens(pattern)
    assert problem.startswith("tokens.acme: expected two letters")


@pytest.mark.parametrize(
    "pattern", [r"\bacme_[a-z]+", "ac[me]_x", r"acme\|[|](?:a|b)", "acme_(a|(b|c))*", r"acme[\]|]"]
)
def test_token_shapes_with_a_literal_prefix_are_accepted(pattern: str) -> None:
    assert of_tokens(pattern) == []
