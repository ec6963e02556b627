"""Texts are edited by insertion: what is read afterwards is what was asked for, and nothing else has moved."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, reject
from hypothesis import strategies as st

from postrender.errors import InputError, SpliceError
from postrender.yaml import editor, reader, writer


def parse(text: str) -> Any:
    """Read a text as Kubernetes does."""
    return reader.load_objects(text, "text")[0]


def edit(text: str, after: Any) -> str:
    """Edit a text so that it reads as another object."""
    return editor.edited(text, "text", parse(text), after, parse)


CASES: dict[str, tuple[str, Any, str]] = {
    "behind the first line": (
        "spec:\n  name: a # first\n  b: 1\n",
        {"spec": {"name": "a", "b": 1, "new": "y"}},
        'spec:\n  name: a # first\n  new: "y"\n  b: 1\n',
    ),
    "before a first entry of several lines": (
        "spec:\n  # of a\n  a:\n    b: 1\n    c: 2\n",
        {"spec": {"a": {"b": 1, "c": 2}, "new": True}},
        "spec:\n  new: true\n  # of a\n  a:\n    b: 1\n    c: 2\n",
    ),
    "behind a dash": (
        "- a:\n    b: 1\n    c: 2\n",
        [{"a": {"b": 1, "c": 2}, "new": 1}],
        "- new: 1\n  a:\n    b: 1\n    c: 2\n",
    ),
    "in front of a list": (
        "a:\n# of x\n- x\n",
        {"a": [{"name": "n"}, "x"]},
        'a:\n# of x\n- name: "n"\n- x\n',
    ),
    "in front of a deeper list": (
        "a:\n    # of x\n    - x: 1\n",
        {"a": ["n", {"x": 1}]},
        'a:\n    - "n"\n    # of x\n    - x: 1\n',
    ),
    "in place of nothing": ("a:\nb: 1\n", {"a": {"new": [1]}, "b": 1}, "a:\n  new:\n    - 1\nb: 1\n"),
    "in place of an empty map": ("a: {}\n", {"a": {"new": "x"}}, 'a:\n  new: "x"\n'),
    "in place of an empty list": ("- a: []\n", [{"a": ["n"]}], '- a:\n    - "n"\n'),
    "in place of an empty map with a comment": ("a: {} # c\n", {"a": {"new": 1}}, 'a: {"new": 1} # c\n'),
    "in place of null with a comment": ("a: # c\n", {"a": {"new": 1}}, 'a: {"new": 1} # c\n'),
    "in place of null": ("a: null\n", {"a": {"new": 1}}, "a:\n  new: 1\n"),
    "between braces": ('{"a": {"b": 1}}', {"a": {"b": 1, "new": "x"}}, '{"a": {"new": "x", "b": 1}}'),
    "between brackets": ("a: [1, 2]\n", {"a": [0, 1, 2]}, "a: [0, 1, 2]\n"),
    "empty between braces": ('{"a": {}}', {"a": {"new": 1}}, '{"a": {"new": 1}}'),
    "between braces around a comment": (
        'a: {\n  # "b": 1\n  }\n',
        {"a": {"new": 1}},
        'a: {"new": 1\n  # "b": 1\n  }\n',
    ),
    "between brackets around a comment": ('{"a": [ # c\n]}', {"a": ["x"]}, '{"a": ["x" # c\n]}'),
    "between anchored braces": ("a: &x { # c\n  }\n", {"a": {"new": 1}}, 'a: {"new": 1}\n'),
    "between braces that touch a sign": ("a: {# c\n  }\n", {"a": {"new": 1}}, 'a: {"new": 1}\n'),
    "a scalar": ("a: 'x' # c\nb: 1\n", {"a": "y", "b": 1}, 'a: "y" # c\nb: 1\n'),
    "a map that loses a key": (
        "a:\n  - name: x\n    from: y\n  - z\n",
        {"a": [{"name": "x", "value": "v"}, "z"]},
        'a:\n  - {"name": "x", "value": "v"}\n  - z\n',
    ),
    "without a last line end": ("a:\n  b: 1", {"a": {"b": 1, "c": 2}}, "a:\n  b: 1\n  c: 2\n"),
    "with the line ends of Windows": (
        "a:\r\n  b: 1\r\n",
        {"a": {"b": 1, "new": [2]}},
        "a:\r\n  b: 1\r\n  new:\r\n    - 2\r\n",
    ),
    "the same edit through an alias": (
        "a: &x\n  b: 1\nc: *x\n",
        {"a": {"b": 1, "new": 2}, "c": {"b": 1, "new": 2}},
        "a: &x\n  b: 1\n  new: 2\nc: *x\n",
    ),
    "beside a block text": (
        "a:\n  t: |\n    x: y\n\n  b: 1\n",
        {"a": {"t": "x: y\n", "b": 1, "new": 2}},
        "a:\n  new: 2\n  t: |\n    x: y\n\n  b: 1\n",
    ),
    "a list anchored on the line of its key": ("a: &l\n  - x\n", {"a": ["n", "x"]}, 'a: &l\n  - "n"\n  - x\n'),
    "under a comment at the margin": (
        "a:\n# c\n  b:\n    c: 1\n    d: 2\n",
        {"a": {"b": {"c": 1, "d": 2}, "new": 1}},
        "a:\n# c\n  new: 1\n  b:\n    c: 1\n    d: 2\n",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_edit_changes_only_the_affected_text(name: str) -> None:
    text, after, expected = CASES[name]
    assert (edit(text, after) if isinstance(after, dict) else _edit_list(text, after)) == expected


def _edit_list(text: str, after: Any) -> str:
    """Edit a document that is a list, which is no object, below a key."""
    body = "".join(f"  {line}\n" for line in text.splitlines())
    found = edit(f"k:\n{body}", {"k": after})
    return "".join(f"{line[2:]}\n" for line in found.splitlines()[1:])


@pytest.mark.parametrize(
    ("text", "after", "reason"),
    [
        (
            "a: &x\n  b: 1\nc: *x\n",
            {"a": {"b": 1, "n": 2}, "c": {"b": 1, "n": 3}},
            "an alias gives two objects the same text",
        ),
        (
            "a: &x\n  b: 1\nc: *x\n",
            {"a": {"b": 1, "n": 2}, "c": {"b": 1}},
            "an anchor or a merge key may be in the way",
        ),
        (
            "a: &x {b: {c: 1}}\nd:\n  <<: *x\n",
            {"a": {"b": {"c": 1}}, "d": {"b": {"c": 1, "n": 2}}},
            "merged from another one by <<",
        ),
        # There is a place where nothing else changes.
        ("a: |\n  x", {"a": "x", "n": 1}, ""),
    ],
)
def test_an_impossible_edit_is_rejected(text: str, after: Any, reason: str) -> None:
    if not reason:
        assert parse(edit(text, after)) == after
        return
    with pytest.raises(SpliceError, match=reason):
        edit(text, after)


@pytest.mark.parametrize(
    ("text", "after", "reading"),
    [
        # A key that is lacking, a value that is another, an entry too many, an item that has changed.
        ("a: 1\n", {"a": 1, "b": 2}, {"a": 1}),
        ("a: 1\n", {"a": 1, "b": 2}, {"a": 1, "b": 3}),
        ("a: 1\n", {"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}),
        ("a: 1\n", {"a": 1, "b": 2}, {"a": 7, "b": 2}),
        ("a: [x]\n", {"a": ["n", "x"]}, {"a": ["n", "y"]}),
        # Equal, and of other types.
        ("a: 1\n", {"a": 1, "b": 1}, {"a": 1, "b": True}),
        ("a: 1\n", {"a": 1, "b": {"c": 1}}, {"a": 1, "b": {"c": 1.0}}),
        ("a: 1\n", {"a": 1, "b": [0]}, {"a": 1, "b": [False]}),
        ("a: [x]\n", {"a": [1, "x"]}, {"a": [True, "x"]}),
        ("a: [{b: x}]\n", {"a": [{"b": 1}]}, {"a": [{"b": True}]}),
        ("a: x\n", {"a": 1}, {"a": 1.0}),
    ],
)
def test_a_result_that_parses_differently_is_rejected(text: str, after: Any, reading: Any) -> None:
    """The last guard: whatever the edits are, what comes out is read again and compared."""
    with pytest.raises(SpliceError, match="the edit would change other values"):
        editor.edited(text, "text", parse(text), after, lambda _: reading)


def test_an_untouched_value_may_be_parsed_as_a_different_type() -> None:
    text, before = "a: 1\nb: x\n", {"a": True, "b": "x"}
    assert editor.edited(text, "text", before, {"a": True, "b": "y"}, lambda _: {"a": 1, "b": "y"}) == 'a: 1\nb: "y"\n'


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [("a: [1, 2]\n", [1], [0, 1]), ("a: [1]\n", [1, 2], [1, 3]), ("a:\n- 1\n- 2\n", [2], [0, 2])],
)
def test_a_list_whose_length_differs_from_the_parsed_one_is_rejected(text: str, before: Any, after: Any) -> None:
    with pytest.raises(SpliceError, match="have different numbers of items"):
        editor.edited(text, "text", {"a": before}, {"a": after}, parse)


@pytest.mark.parametrize(
    ("text", "before", "after", "reason"),
    [
        ("a: 1\n", {"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, "expected a map in the text"),
        ("a: 1\n", {"a": [1]}, {"a": [0, 1]}, "expected a list in the text"),
        ("a: {b: 1}\n", {"a": {"c": 1}}, {"a": {"c": 2}}, "the key c cannot be found in the text"),
    ],
)
def test_text_that_differs_from_the_parsed_value_is_rejected(text: str, before: Any, after: Any, reason: str) -> None:
    with pytest.raises(SpliceError, match=reason):
        editor.edited(text, "text", before, after, parse)


def test_an_edit_inside_a_rewritten_value_is_rejected() -> None:
    """The map loses a key, so it is written anew, and the alias wants an insertion into a part of it."""
    text = "a: {b: &x {c: 1}, z: 1}\nd: *x\n"
    with pytest.raises(SpliceError, match="two edits of the document overlap"):
        edit(text, {"a": {"b": {"c": 1}}, "d": {"c": 1, "n": 2}})


def test_adjacent_edits_do_not_overlap() -> None:
    assert edit("{a: 1,b: 2}\n", {"a": 3, "b": 4, "c": 5}) == '{"c": 5, a: 3,b: 4}\n'


SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=12)
KEYS = st.text("abcyn01 .-/_:#'\"", min_size=1, max_size=6)
TREES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=12
)
OBJECTS = st.dictionaries(KEYS, TREES, min_size=1, max_size=4)


@given(tree=OBJECTS)
def test_written_text_parses_back_to_its_source_value(tree: Any) -> None:
    for text in ("\n".join(writer.block(tree)), writer.flow(tree)):
        assert editor.same(parse(text), tree)
        assert editor.same(yaml.safe_load(text), tree)


def test_a_lone_surrogate_is_rejected() -> None:
    with pytest.raises(ValueError, match="surrogates not allowed"):
        writer.text("\ud800")


def _grown(draw: Any, value: Any) -> Any:
    """Return a value that the wiring could make of another one: entries added, items put in front, leaves replaced."""
    if isinstance(value, dict):
        grown = {key: _grown(draw, item) for key, item in value.items()}
        new = draw(st.dictionaries(KEYS, TREES, max_size=2))
        return {**grown, **{key: item for key, item in new.items() if key not in grown}}
    if isinstance(value, list):
        return [*draw(st.lists(TREES, max_size=2)), *(_grown(draw, item) for item in value)]
    return draw(st.sampled_from([value, value, value, "new", 7, None]))


@given(data=st.data(), tree=OBJECTS, indent=st.integers(2, 4), flow=st.sampled_from([False, None, True]))
def test_any_addition_to_any_object_can_be_written(data: Any, tree: Any, indent: int, flow: bool | None) -> None:
    text = yaml.safe_dump(tree, indent=indent, default_flow_style=flow, allow_unicode=True, sort_keys=False)
    try:
        before = parse(text)
    except InputError:
        # PyYAML writes keys without quotes that are numbers to Kubernetes.
        reject()
    after = _grown(data.draw, before)
    assert editor.same(parse(edit(text, after)), after)
