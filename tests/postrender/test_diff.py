"""Differences are named by object and field; lists of named things are compared by name."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from postrender.manifests import diff


def pod(**spec: Any) -> dict[str, Any]:
    """Return an object with the given spec."""
    return {"kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def changes(one: dict[str, Any], two: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return path → values of the two sides."""
    return {found.path: dict(found.values) for found in diff.compare({"a": [one], "b": [two]})}


def test_fields_are_named_by_path() -> None:
    found = changes(pod(x={"deep": 1}, same=2, **{"a.b/c": 1}), pod(x={"deep": 2}, same=2, **{"a.b/c": 2}))
    assert found == {"spec.x.deep": {"a": 1, "b": 2}, 'spec["a.b/c"]': {"a": 1, "b": 2}}


def test_an_entry_more_in_a_named_list_is_one_difference() -> None:
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    assert changes(pod(env=env), pod(env=env[1:])) == {
        "spec.env[name=A].name": {"a": "A"},
        "spec.env[name=A].value": {"a": "1"},
    }
    assert changes(pod(args=["x", "y"]), pod(args=["x", "z"])) == {"spec.args[1]": {"a": "y", "b": "z"}}
    twice = [{"name": "A"}, {"name": "A"}]
    assert changes(pod(env=twice), pod(env=twice[:1])) == {
        "spec.env[0].name": {"a": "A"},
        "spec.env[1].name": {"a": "A"},
        "spec.env[name=A].name": {"b": "A"},
    }


def test_json_in_a_text_is_compared_field_by_field() -> None:
    facts = {"gpus": 8, "image": "x"}
    found = changes(pod(v=json.dumps(facts)), pod(v=json.dumps({**facts, "gpus": 4})))
    assert found == {"spec.v(JSON).gpus": {"a": 8, "b": 4}}
    assert changes(pod(v="{no json"), pod(v="{}")) == {"spec.v": {"a": "{no json", "b": "{}"}}


def test_types_count_and_empty_things_too() -> None:
    assert changes(pod(a=1, b=True, c=[]), pod(a="1", b=1, c={})) == {
        "spec.a": {"a": 1, "b": "1"},
        "spec.b": {"a": True, "b": 1},
        "spec.c": {"a": [], "b": {}},
    }


def test_an_object_that_one_side_lacks_is_shown_with_its_fields() -> None:
    found = diff.compare({"a": [pod(x=1)], "b": []})
    assert {one.object for one in found} == {"Pod/p"}
    assert all(set(one.values) == {"a"} for one in found)


TREES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(0, 3), st.text(max_size=3)),
    lambda below: (
        st.dictionaries(st.sampled_from(["name", "a", "b.c"]), below, max_size=3) | st.lists(below, max_size=3)
    ),
    max_leaves=10,
)


@given(tree=TREES)
def test_a_thing_does_not_differ_from_itself(tree: Any) -> None:
    assert diff.compare({"a": [pod(x=tree)], "b": [pod(x=tree)]}) == []


@given(one=TREES, two=TREES)
def test_things_that_differ_are_reported(one: Any, two: Any) -> None:
    same = json.dumps(one, sort_keys=True) == json.dumps(two, sort_keys=True)
    found = diff.compare({"a": [pod(x=one)], "b": [pod(x=two)]})
    assert same <= (not found)
    # The order of a list of named entries does not matter to Kubernetes' merge keys, so only it may go unsaid.
    assert found or same or "name" in json.dumps(one)


def test_text_groups_by_layer_and_object_and_shows_changed_lines_only() -> None:
    long = "same\n" + "x" * 300 + "\n"
    layers = {
        "network": diff.compare({"b200": [pod(x=1)], "h200": [pod(x=1)]}),
        "storage": diff.compare({"b200": [pod(x=1)], "h200": [pod(x=2)]}),
        "raycluster": diff.compare({"b200": [pod(t="same\none\n", n=1)], "h200": [pod(t=long)]}),
    }
    assert diff.as_text(layers, ["b200", "h200"]) == (
        "network: no field differs\n"
        "storage: 1 field differs\n"
        "  Pod/p\n    spec.x\n      b200  1\n      h200  2\n"
        "raycluster: 2 fields differ\n"
        "  Pod/p\n    spec.t\n      b200  one\n"
        f"      h200  {'x' * 100}… (300 characters)\n"
        "    spec.n\n      b200  1\n      h200  (not set)\n"
    )
    assert json.loads(diff.as_json(layers))["layers"]["storage"] == [
        {"object": "Pod/p", "path": "spec.x", "values": {"b200": 1, "h200": 2}}
    ]
