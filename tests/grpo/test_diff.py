"""Differences are named by object and field; lists of named things are compared by name."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from grpo.generate.programs import pack
from grpo.manifests import diff


def pod(**spec: Any) -> dict[str, Any]:
    """Return an object with the given spec."""
    return {"kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def changes(one: dict[str, Any], two: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return path → values of the two sides."""
    return {found.path: dict(found.values) for found in diff.compare({"a": [one], "b": [two]})}


def test_differing_fields_are_named_by_path() -> None:
    found = changes(pod(x={"deep": 1}, same=2, **{"a.b/c": 1}), pod(x={"deep": 2}, same=2, **{"a.b/c": 2}))
    assert found == {"spec.x.deep": {"a": 1, "b": 2}, 'spec["a.b/c"]': {"a": 1, "b": 2}}


def test_an_extra_entry_in_a_named_list_is_one_difference() -> None:
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


def test_json_inside_a_string_is_compared_field_by_field() -> None:
    facts = {"gpus": 8, "image": "x"}
    found = changes(pod(v=json.dumps(facts)), pod(v=json.dumps({**facts, "gpus": 4})))
    assert found == {"spec.v(JSON).gpus": {"a": 8, "b": 4}}
    assert changes(pod(v="{no json"), pod(v="{}")) == {"spec.v": {"a": "{no json", "b": "{}"}}


def test_json_that_differs_only_in_formatting_is_reported() -> None:
    """The fields are the same, the text is not: it must not go unsaid."""
    one, two = '{"x": 1e-8, "y": 1}', '{"x": 1E-8, "y": 1}'
    assert changes(pod(v=one, vault=1), pod(v=two, vault=2)) == {
        "spec.vault": {"a": 1, "b": 2},
        "spec.v": {"a": one, "b": two},
    }
    assert changes(pod(v='{"x": 1}'), pod(v='{"x":1}')) == {"spec.v": {"a": '{"x": 1}', "b": '{"x":1}'}}


def test_reordered_named_entries_are_a_difference() -> None:
    one, two = [{"name": "A"}, {"name": "B"}], [{"name": "B"}, {"name": "A"}]
    assert changes(pod(env=one), pod(env=two)) == {"spec.env": {"a": "A, B", "b": "B, A"}}


def test_renamed_objects_are_paired_when_both_sides_have_equally_many() -> None:
    one, two = (
        [
            {"kind": "Service", "metadata": {"name": "same"}},
            {"kind": "Pod", "metadata": {"name": name}, "spec": {"x": x, "y": 1}},
        ]
        for name, x in (("mine", 1), ("yours", 2))
    )
    found = diff.compare({"a": one, "b": two})
    assert [(each.object, each.path, dict(each.values)) for each in found] == [
        ("Pod/mine", "metadata.name", {"a": "mine", "b": "yours"}),
        ("Pod/mine", "spec.x", {"a": 1, "b": 2}),
    ]
    found = diff.compare({"a": one, "b": [*two, {"kind": "Pod", "metadata": {"name": "third"}}]})
    assert {each.object for each in found} == {"Pod/mine", "Pod/yours", "Pod/third"}


def hook(name: str, *kinds: str) -> dict[str, Any]:
    annotations = {"helm.sh/hook": ",".join(kinds)} if kinds else {}
    return {"kind": "ConfigMap", "metadata": {"name": name, "annotations": annotations}}


def test_objects_whose_names_differ_only_in_a_number_are_paired() -> None:
    """Attempts of a run have their number in the names of their objects."""
    one = [hook("run-1-lock"), hook("run-1-mark", "pre-upgrade")]
    two = [hook("run-2-lock"), hook("run-1-mark", "post-upgrade"), hook("run-2-mark", "pre-upgrade")]
    found = diff.compare({"a": one, "b": two})
    assert [(each.object, each.path, dict(each.values)) for each in found if "annotations" not in each.path][:2] == [
        ("ConfigMap/run-1-lock", "metadata.name", {"a": "run-1-lock", "b": "run-2-lock"}),
        ("ConfigMap/run-1-mark (pre-upgrade)", "metadata.name", {"a": "run-1-mark", "b": "run-2-mark"}),
    ]
    assert {each.object for each in found[2:]} == {"ConfigMap/run-1-mark (post-upgrade)"}


def test_an_object_is_compared_with_itself_when_two_namespaces_share_its_name() -> None:
    """Two stacks have objects of one name in two namespaces, and another one comes before them."""

    def named(namespace: str, name: str = "p", **spec: Any) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec}

    one = [named("dev", x=1), named("prod", x=2)]
    assert diff.compare({"a": one, "b": [named("prod", x=2), named("dev", x=1)]}) == []
    found = diff.compare({"a": one, "b": [named("acme", x=3), named("dev", x=1), named("prod", x=2)]})
    assert {(each.object, tuple(each.values)) for each in found} == {("Pod/p (another one)", ("b",))}
    # A new name takes the place of none that both sides have.
    found = diff.compare({"a": one, "b": [named("dev", "q", x=3), named("dev", x=1), named("prod", x=2)]})
    assert {(each.object, tuple(each.values)) for each in found} == {("Pod/q", ("b",))}


def test_each_object_is_paired_with_only_one_other() -> None:
    """Those whose names differ in a number are taken; the rest is compared by its order."""
    one, two = [hook("y"), hook("a-1")], [hook("a-2"), hook("z")]
    found = diff.compare({"a": one, "b": two})
    assert [(each.object, dict(each.values)) for each in found] == [
        ("ConfigMap/y", {"a": "y", "b": "z"}),
        ("ConfigMap/a-1", {"a": "a-1", "b": "a-2"}),
    ]


def test_two_objects_with_the_same_name_do_not_hide_each_other() -> None:
    one, two = ([{"kind": "Role", "metadata": {"name": "r", "namespace": each}} for each in "xy"] for _ in "ab")
    two[0]["rules"] = []
    assert [(each.object, each.path) for each in diff.compare({"a": one, "b": two})] == [("Role/r", "rules")]


def entrypoint(program: str, attempt: int = 1, reward: str = "x = 1\n") -> str:
    """Return an entrypoint as the chart writes it."""
    plan = json.dumps({"attempt": attempt, "digest": str(attempt) * 64}, indent=2)
    return (
        f"set -eu\nexec 3<<'GRPO_PLAN'\n{plan}\nGRPO_PLAN\n"
        f"cat >\"$programs/rewards/mine.py\" <<'GRPO_FILE'\n{reward}GRPO_FILE\n"
        f"base64 -d <<'GRPO_PROGRAMS' | tar -xjoC \"$programs\"\n{pack({'__main__.py': program})}GRPO_PROGRAMS\n"
        "exec python3 -I \"$programs\" 'grpo-job 0.1.0'"
    )


def test_an_entrypoint_is_compared_part_by_part() -> None:
    one = pod(entrypoint=entrypoint("import a\n"))
    two = pod(entrypoint=entrypoint("import b\n", 2, "x = 2\n"))
    found = changes(one, two)
    shown = {path: getattr(values["b"], "short", values["b"]) for path, values in found.items()}
    assert shown == {
        "spec.entrypoint(plan).attempt": 2,
        "spec.entrypoint(plan).digest": "sha256 2222222222222222",
        "spec.entrypoint(__main__.py)": "1 line, sha256 a7eefbcf2a250038",
        "spec.entrypoint(rewards/mine.py)": "x = 2\n",
    }
    text = diff.as_text({"grpo-job": diff.compare({"left": [one], "right": [two]})}, ["left", "right"])
    assert "    spec.entrypoint(__main__.py): left 1 line, sha256 " in text
    assert "; right 1 line, sha256 a7eefbcf2a250038\n" in text
    assert "    spec.entrypoint(rewards/mine.py)\n      left   x = 1\n      right  x = 2\n" in text
    whole = diff.compare({"left": [one], "right": [two]}, full=True)
    assert sorted(each.path for each in whole) == sorted(found)
    text = diff.as_text({"grpo-job": whole}, ["left", "right"], full=True)
    assert "      left   import a\n" in text
    assert f"      right  {'2' * 64}\n" in text


@given(at=st.integers(0, 500), put=st.text(max_size=2))
def test_folding_never_hides_a_change(at: int, put: str) -> None:
    """One edit, anywhere in the programs, the plan, the user's files and the shell command."""
    one = entrypoint("import a\n")
    two = one[:at] + put + one[at + 1 :]
    assert bool(changes(pod(entrypoint=one), pod(entrypoint=two))) == (one != two)
    data = {"spec.yaml": one, "digest": "1" * 64, "a.py": one}
    lock = {"kind": "ConfigMap", "metadata": {"name": "l"}, "immutable": True, "data": data}
    for key, text in data.items():
        edited = {**lock, "data": {**data, key: text[:at] + put + text[at + 1 :]}}
        assert bool(changes(lock, edited)) == (edited != lock)


def test_a_changed_lock_is_shown_as_one_line() -> None:
    def lock(spec: str, digest: str) -> dict[str, Any]:
        data = {"spec.yaml": spec, "digest": digest * 64}
        return {"kind": "ConfigMap", "metadata": {"name": "l"}, "immutable": True, "data": data}

    one, two = lock("a: 1\n", "1"), lock("a: 1\nb: 2\n", "2")
    text = diff.as_text({"grpo-job": diff.compare({"a": [one], "b": [two]})}, ["a", "b"])
    assert text.splitlines()[2:] == [
        '    data["spec.yaml"]: a 1 line, sha256 37b128c59f1f5097; b 2 lines, sha256 d02b8bb58aa82e87',
        "    data.digest: a sha256 1111111111111111; b sha256 2222222222222222",
    ]
    without = {**one, "data": {"spec.yaml": "a: 1\n"}}
    text = diff.as_text({"grpo-job": diff.compare({"a": [one], "b": [without]})}, ["a", "b"])
    assert "    data.digest: a sha256 1111111111111111; b (not set)\n" in text


def test_a_line_is_not_truncated_where_that_would_hide_the_difference() -> None:
    one, two = (diff.compare({"a": [pod(t="x" * 300)], "b": [pod(t="x" * 299 + end)]}) for end in ("y", "y z"))
    for found in (one, two):
        text = diff.as_text({"storage": found}, ["a", "b"])
        assert f"      a  {'x' * 300}\n" in text
    long = diff.compare({"a": [pod(t="x" * 300)], "b": [pod(t="z")]})
    assert f"      a  {'x' * 300}\n" in diff.as_text({"storage": long}, ["a", "b"], full=True)


def test_lines_missing_from_one_side_are_shown() -> None:
    found = diff.compare({"a": [pod(t="same\none\n")], "b": [pod(t="same\n")]})
    assert diff.as_text({"storage": found}, ["a", "b"]).endswith("      a  one\n      b  (without these lines)\n")
    found = diff.compare({"a": [pod(t="x\ny\n")], "b": [pod(t="y\nx\n")]})
    assert diff.as_text({"storage": found}, ["a", "b"]).endswith("      (the same lines in another order or number)\n")


def test_different_types_and_empty_values_are_differences() -> None:
    assert changes(pod(a=1, b=True, c=[]), pod(a="1", b=1, c={})) == {
        "spec.a": {"a": 1, "b": "1"},
        "spec.b": {"a": True, "b": 1},
        "spec.c": {"a": [], "b": {}},
    }


def test_an_object_missing_from_one_side_is_shown_with_its_fields() -> None:
    found = diff.compare({"a": [pod(x=1)], "b": []})
    assert {one.object for one in found} == {"Pod/p"}
    assert all(set(one.values) == {"a"} for one in found)


def test_an_object_missing_from_one_side_is_one_line_unless_shown_in_full() -> None:
    both, other = pod(x=1), {"kind": "Job", "metadata": {"name": "j"}, "spec": {"y": 1, "z": "a"}}
    layers = {"grpo-job": diff.compare({"left": [both], "right": [both, other]})}
    assert diff.as_text(layers, ["left", "right"]) == (
        "grpo-job: 4 fields differ\n  Job/j: new object, only in right (4 fields; --full shows them)\n"
    )
    assert "    spec.z\n      left   (not set)\n" in diff.as_text(layers, ["left", "right"], full=True)
    gone = {"grpo-job": diff.compare({"left": [both, other], "right": [both]})}
    assert "\n  Job/j: object that is gone, only in left (4 fields; " in diff.as_text(gone, ["left", "right"])
    three = {"grpo-job": diff.compare({"a": [other], "b": [], "c": [other]})}
    assert "\n  Job/j: object, only in a, c (4 fields; " in diff.as_text(three, ["a", "b", "c"])
    # The sides that have it may differ.
    fields = [*three["grpo-job"][:3], diff.Difference("Job/j", "spec.x", {"a": 1, "c": 2})]
    assert "spec.x" in diff.as_text({"grpo-job": fields}, ["a", "b", "c"])
    fields = [*three["grpo-job"][:3], diff.Difference("Job/j", "spec.x", {"c": 2})]
    assert "spec.x" in diff.as_text({"grpo-job": fields}, ["a", "b", "c"])
    # One more field of an object that is there is no new object.
    more = {"storage": diff.compare({"left": [pod(x=1)], "right": [pod(x=1, y=2)]})}
    assert diff.as_text(more, ["left", "right"]).startswith("storage: 1 field differs\n  Pod/p\n    spec.y\n")
    assert [one["path"] for one in json.loads(diff.as_json(layers))["layers"]["grpo-job"]][-1] == "spec.z"


TREES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(0, 3), st.text(max_size=3)),
    lambda below: (
        st.dictionaries(st.sampled_from(["name", "a", "b.c"]), below, max_size=3) | st.lists(below, max_size=3)
    ),
    max_leaves=10,
)


@given(tree=TREES)
def test_an_object_does_not_differ_from_itself(tree: Any) -> None:
    assert diff.compare({"a": [pod(x=tree)], "b": [pod(x=tree)]}) == []


@given(one=TREES, two=TREES)
def test_values_are_reported_exactly_when_their_json_differs(one: Any, two: Any) -> None:
    same = json.dumps(one, sort_keys=True) == json.dumps(two, sort_keys=True)
    found = diff.compare({"a": [pod(x=one)], "b": [pod(x=two)]})
    assert same == (not found)


def test_text_output_groups_by_layer_and_object_and_shows_only_changed_lines() -> None:
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
