"""Values files merge as Helm merges them, and every leaf knows the line that set it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grpo.helm.engines import Binary, Embedded
from postrender.errors import InputError, RenderError
from postrender.values import merge
from tests.conftest import require_tool

KEYS = st.sampled_from(["a", "b", "c"])
TREES = st.dictionaries(
    KEYS,
    st.recursive(
        st.one_of(
            st.none(), st.integers(-3, 3), st.sampled_from(["", "x", "on"]), st.lists(st.integers(0, 2), max_size=2)
        ),
        lambda children: st.dictionaries(KEYS, children, max_size=3),
        max_leaves=8,
    ),
    max_size=3,
)  # fmt: skip


@pytest.fixture
def echo(tmp_path: Path) -> Path:
    """Make a chart without defaults that prints the values it gets."""
    (tmp_path / "echo/templates").mkdir(parents=True)
    (tmp_path / "echo/Chart.yaml").write_text("apiVersion: v2\nname: echo\nversion: 0.1.0\n")
    template = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: echo}\ndata: {values: {{ .Values | toJson | quote }}}\n"
    )
    (tmp_path / "echo/templates/echo.yaml").write_text(template)
    return tmp_path / "echo"


def write(folder: Path, trees: list[dict[str, Any]]) -> list[str]:
    """Write each tree into a file of its own; JSON is YAML."""
    files = [folder / f"{at}.yaml" for at in range(len(trees))]
    for file, tree in zip(files, trees, strict=True):
        file.write_text(json.dumps(tree))
    return [str(file) for file in files]


def echoed(manifest: Any) -> Any:
    """Return the values that the chart printed."""
    return json.loads(manifest.documents[0]["data"]["values"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(trees=st.lists(TREES, min_size=1, max_size=4))
def test_files_merge_like_the_embedded_helm(
    trees: list[dict[str, Any]], echo: Path, helm: Embedded, tmp_path: Path
) -> None:
    files = write(tmp_path, trees)
    assert merge.load(files).as_helm_merges() == echoed(helm.render(str(echo), files))


@pytest.mark.parametrize("name", ["helm3", "helm4"])
def test_files_merge_like_the_helm_executable(name: str, echo: Path, tmp_path: Path) -> None:
    trees: list[dict[str, Any]] = [
        {"a": {"x": 1, "y": {"z": 1}}, "b": [1, 2], "c": {"d": 1}},
        {"a": {"y": {"z": None, "w": 2}}, "b": [3], "c": None, "e": None},
        {"a": {"x": {"deep": True}}, "c": {"f": 1}, "g": "on"},
    ]
    files = write(tmp_path, trees)
    with Binary(require_tool(name)) as engine:
        assert merge.load(files).as_helm_merges() == echoed(engine.render(str(echo), files, notes=False))


def test_a_leaf_is_located_in_the_last_file_that_set_it(tmp_path: Path) -> None:
    one, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
    one.write_text("a:\n  x: 1\n  z: 2\nb: [1]\n")
    two.write_text("# site\na:\n  z: 3\n")
    merged = merge.load([str(one), str(two)])
    assert str(merged.at(("a", "x"))) == f"{one}:2:3"
    assert str(merged.at(("a", "z"))) == f"{two}:3:3"
    assert str(merged.at(("a",))) == f"{two}:2:1"
    assert str(merged.at(("b", 0))) == f"{one}:4:5"
    assert str(merged.at(("a", "none", "below"))) == f"{two}:2:1"
    assert str(merged.at(("none",))) == f"{two}:2:1"
    assert (merged.get("a.z"), merged.get("a.none", 7), merged.files) == (3, 7, [str(one), str(two)])


def test_null_deletes_an_entry_except_in_the_framework_configuration(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(
        "storage: {a: null, b: {c: null, d: [null]}}\njob: {config: {x: null}, configFor: {b200: {v: null}}, z: null}\n"
    )
    merged = merge.load([str(file)])
    assert merged.effective() == {
        "storage": {"b": {"d": [None]}},
        "job": {"config": {"x": None}, "configFor": {"b200": {"v": None}}},
    }
    assert merged.as_helm_merges()["storage"]["a"] is None


def test_an_alias_keeps_the_place_of_its_anchor(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("a: &a {x: 1}\nb:\n  <<: *a\n  z: 2\n")
    assert str(merge.load([str(file)]).at(("b", "x"))) == f"{file}:1:8"


def test_the_first_bad_file_is_named(tmp_path: Path, helm: Embedded, echo: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text("a: 1\n")
    bad.write_text("a: [\n")
    with pytest.raises(InputError, match="not YAML") as caught:
        merge.load([str(good), str(bad)])
    assert caught.value.at is not None
    assert caught.value.at.file == str(bad)
    with pytest.raises(RenderError, match="YAML"):
        helm.render(str(echo), [good, bad])


@pytest.mark.parametrize("part", ["-1", "2"])
def test_an_index_outside_the_list_has_no_value(part: str) -> None:
    assert merge.value_at({"a": [1, 2]}, ("a", "1")) == 2
    with pytest.raises(KeyError):
        merge.value_at({"a": [1, 2]}, ("a", part))
