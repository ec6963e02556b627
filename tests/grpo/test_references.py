"""References mean what OmegaConf makes of them: what is refused here it refuses too, and every value is its own."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf
from omegaconf.errors import GrammarParseError, OmegaConfBaseException

from grpo.values import catalogue
from grpo.values.reference_errors import (
    AboveRootError,
    CycleError,
    DanglingError,
    EscapedError,
    MalformedError,
    RefusedError,
    UnknownError,
    UnknownResolverError,
)
from grpo.values.references import BUILT_IN, ReferenceResolver, resolve
from tests.conftest import examples

REGISTERED = {*BUILT_IN, "mul", "div", "max"}


@pytest.fixture(autouse=True, scope="module")
def _as_nemo_rl_does() -> None:
    OmegaConf.register_new_resolver("mul", lambda a, b: a * b, replace=True)
    OmegaConf.register_new_resolver("div", lambda a, b: a / b, replace=True)
    OmegaConf.register_new_resolver("max", max, replace=True)


def judged(tree: dict[str, Any]) -> Any:
    """Return the tree with everything put in, or the error with which OmegaConf stops."""
    try:
        with warnings.catch_warnings():
            # Empty arguments are warned of.
            warnings.simplefilter("ignore")
            return OmegaConf.to_container(OmegaConf.create(tree), resolve=True)
    except (OmegaConfBaseException, RecursionError) as error:
        return error


def places(value: Any, place: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return where the texts with a reference are."""
    if isinstance(value, str):
        return [place] if "${" in value else []
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [each for key, below in pairs for each in places(below, (*place, str(key)))]


def told(tree: dict[str, Any]) -> tuple[list[Exception], bool]:
    """Return what is refused, and whether everything is known."""
    resolver, found, known = ReferenceResolver(tree, REGISTERED), [], True
    for place in places(tree):
        try:
            resolver.check(place)
        except (RefusedError, DanglingError) as error:
            found.append(error)
        except UnknownError:
            known = False
    return found, known


def assert_the_same(tree: dict[str, Any]) -> None:
    """Assert that nothing is refused that OmegaConf takes, nothing taken that it refuses, and every value is its."""
    found, known = told(tree)
    if any(isinstance(error, CycleError) and not error.place for error in found):
        # Sections that bring each other in: OmegaConf may take hours to come to its end.
        return
    expected = judged(tree)
    if found:
        assert isinstance(expected, Exception), (tree, found)
        return
    if not known:
        return
    assert not isinstance(expected, Exception), (tree, expected)
    for place in places(tree):
        value: Any = resolve(tree, place)
        wanted: Any = expected
        for part in place:
            wanted = wanted[int(part) if isinstance(wanted, list) else part]
        if not isinstance(wanted, (dict, list)):
            assert value == wanted, (tree, place)


CYCLES = [
    ({"a": "${b}", "b": "${a}"}, ["a", "b"], ""),
    ({"a": "${a}"}, ["a"], ""),
    ({"a": "x${b}", "b": "${c}", "c": "${mul:${a},2}"}, ["a", "b", "c"], ""),
    ({"a": "${oc.env:NONE,${a}}"}, ["a"], ""),
    ({"a": "${oc.env:NONE,'${a}'}"}, ["a"], ""),
    ({"a": "${oc.select:a,1}"}, ["a"], ""),
    ({"a": "${${b}}", "b": "${a}"}, ["a", "b"], ""),
    ({"s": {"t": "${s}"}}, ["s.t"], "s"),
    ({"s": {"t": "x${s}"}}, ["s.t"], "s"),
    ({"s": {"t": "${..s}"}}, ["s.t"], "s"),
    ({"s": {"t": "${.t}"}}, ["s.t"], ""),
    ({"s": {"u": {"t": "${s}"}}}, ["s.u.t"], "s"),
    ({"s": [1, "${s}"]}, ["s.1"], "s"),
    ({"x": {"r": "${y}"}, "y": {"r": "${x}"}}, ["x.r", "y.r"], ""),
    ({"x": {"r": "${y}"}, "y": {"r": "${z}"}, "z": {"r": ["${x}"]}}, ["x.r", "y.r", "z.r.0"], ""),
    ({"s": {"t": "${oc.select:s}"}}, ["s.t"], ""),
]


@pytest.mark.parametrize(("tree", "paths", "section"), CYCLES, ids=lambda value: str(value)[:60])
def test_a_circular_reference_is_rejected(tree: dict[str, Any], paths: list[str], section: str) -> None:
    assert isinstance(judged(tree), Exception)
    with pytest.raises(CycleError) as error:
        ReferenceResolver(tree).check(tuple(paths[0].split(".")))
    assert (error.value.paths, error.value.section) == (paths, section)


def test_referencing_the_same_section_twice_is_not_a_cycle() -> None:
    tree = {"s": {"t": 1, "u": "${.t}"}, "a": "${s}", "b": ["${s}", "${a}"], "c": {"d": "${b}", "e": "${a.u}"}}
    assert told(tree) == ([], True)
    assert_the_same(tree)


@pytest.mark.parametrize(
    ("text", "most"),
    [("${...a}", None), ("${....a}", 2), ("${oc.select:....a,1}", 2), ("${mul:${....a},2}", 2), ("${..a}", None)],
)
def test_leading_dots_may_reach_the_root(text: str, most: int | None) -> None:
    tree = {"a": 1, "s": {"a": 2, "t": text}} if most is None else {"a": 1, "s": {"t": text}}
    if text == "${...a}":
        tree, most = {"a": 1, "s": {"t": text}}, 2
    assert isinstance(judged(tree), Exception) == (most is not None)
    if most is None:
        assert resolve(tree, ("s", "t")) == 1
        return
    with pytest.raises(AboveRootError) as error:
        resolve(tree, ("s", "t"))
    assert error.value.most == most


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("${foo:1}", "foo"),
        ("x${foo:}", "foo"),
        ("${ foo-b.c : 1 }", "foo-b.c"),
        ("${HOME:-/root}", "HOME"),
        ("${env:HOME}", "env"),
        ("${oc.env:X,${foo:1}}", "foo"),
        ("${oc.Env:X}", "oc.Env"),
        ("${oc.env:NONE,x} ${foo:'a b'}", "foo"),
        ("${foo:[1,{a: 2}]}", "foo"),
        ("${https://example.org}", "https"),
    ],
)
def test_an_unregistered_resolver_is_rejected(text: str, name: str) -> None:
    assert isinstance(judged({"a": text}), Exception)
    with pytest.raises(UnknownResolverError) as error:
        ReferenceResolver({"a": text}, REGISTERED).check(("a",))
    assert error.value.name == name
    # What is registered is asked for only where it is known.
    with pytest.raises(UnknownError) as unknown:
        resolve({"a": text}, ("a",))
    assert not isinstance(unknown.value, RefusedError)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("\\${b}", "${b}"),
        ("\\\\${b}", "\\1"),
        ("\\\\\\${b}", "\\${b}"),
        ("\\\\\\\\${b}", "\\\\1"),
        ("x\\\\y", "x\\\\y"),
        ("x\\\\y${b}", "x\\\\y1"),
        ("\\\\ \\${b} ${b}", "\\\\ ${b} 1"),
        ("\\${open", "${open"),
        ("\\${open ${b}", "${open 1"),
        ("${b}\\${b}", "1${b}"),
        ("$${b}", "$1"),
        ("${b}}", "1}"),
        ("\\${no.such} \\${foo:1}", "${no.such} ${foo:1}"),
        ("${c}", "${b}"),
    ],
)
def test_backslashes_escape_only_directly_before_a_reference(text: str, value: str) -> None:
    tree = {"a": text, "b": 1, "c": "\\${b}"}
    assert resolve(tree, ("a",)) == value
    assert judged(tree)["a"] == value


@pytest.mark.parametrize("text", ["\\${b}", "\\${nope}", "\\${b", "x\\${foo:1}", "\\\\\\${nope}", "${c}", "${d}", "y"])
def test_a_value_resolved_in_place_is_resolved_again(text: str) -> None:
    tree = {"a": text, "b": 1, "c": "\\${b}", "d": "\\${nope}"}
    resolver = ReferenceResolver(tree, REGISTERED)
    resolver.check(("a",))
    config = OmegaConf.create({**tree, "d": None} if text != "${d}" else tree)
    try:
        OmegaConf.resolve(config)
        OmegaConf.to_container(config, resolve=True)
    except OmegaConfBaseException:
        with pytest.raises(EscapedError):
            resolver.check_again(("a",))
    else:
        resolver.check_again(("a",))


@pytest.mark.parametrize(
    ("text", "is_open"),
    [
        ("${b", True),
        ("${", True),
        ("${b:1", True),
        ("${mul:${b},2", True),
        ("${oc.env:X,${b}", True),
        ("\\${b} ${b", True),
        ("\\\\${b", True),
        ("${}", False),
        ("${.}", False),
        ("${b.}", False),
        ("${b c}", False),
        ("${b..c}", False),
        ("${b[c}", False),
        ("${b.[c]}", False),
        ("${foo${b}}", False),
        ("${1a:1}", False),
        ("${.b:1}", False),
        ("${:1}", False),
        ("${'b'}", False),
        ("${b\\c}", False),
    ],
)
def test_a_malformed_reference_is_rejected(text: str, is_open: bool) -> None:
    tree = {"a": text, "b": 1}
    assert isinstance(judged(tree), GrammarParseError)
    with pytest.raises(MalformedError) as error:
        resolve(tree, ("a",))
    assert error.value.is_open == is_open


@pytest.mark.parametrize(
    "text",
    [
        "${oc.env:X,\\}}",
        "${oc.env:X,\\{}",
        "${oc.env:X,'}'}",
        "${oc.env:X,'a\\'b'}",
        "${oc.env:X,[a,{b: c}]}",
        "${oc.env:X,a\\b}",
        "${oc.decode:'[1,2]'}",
        '${oc.env:X,"${b}"}',
        "${oc.create:{a: 1}}",
        "${oc.dict.keys:s}",
    ],
)
def test_syntax_that_the_resolver_does_not_evaluate_is_accepted(text: str) -> None:
    tree = {"a": text, "b": "q", "s": {"t": 1}}
    assert not isinstance(judged(tree), Exception)
    assert told(tree)[0] == []


ARGUMENTS = [
    "q",
    "007",
    "1_000",
    "inf",
    "-inf",
    "01.5",
    "1.",
    ".5",
    "-5",
    "+5",
    "1e5",
    "1e-05",
    "00",
    "-0",
    "-01",
    "a@b",
]
ARGUMENTS += ["1_0.5", "-", "TRUE", "None", "$x", "/a/b-c.d", "", "a  b: c"]
ARGUMENTS += ["'q'", '"it is"', "'a\\'b'", "a\\,b", ":x", "a\\\\b", "'1'"]


@pytest.mark.parametrize("text", ARGUMENTS)
def test_an_argument_is_parsed_like_omegaconf(text: str) -> None:
    assert_the_same({"a": f"${{oc.select:none, {text} }}"})
    assert told({"a": f"${{oc.select:none,{text}}}"}) == ([], True)


@pytest.mark.parametrize(
    ("tree", "value"),
    [
        ({"a": "${s.x}", "s": "${q}", "q": {"x": 4}}, 4),
        ({"a": "${s.t.x}", "s": {"t": "${..q}"}, "q": {"x": "${.y}", "y": 5}}, 5),
        ({"a": "${b.${k}}", "b": {"c": 3}, "k": "c"}, 3),
        ({"a": "${b[${k}].d}", "b": {"c": {"d": 3}}, "k": "c"}, 3),
        ({"a": "${oc.select:b.c,5}", "b": None}, 5),
        ({"a": "${oc.select:b,5}", "b": None}, None),
        ({"a": "${oc.select:${b}}", "b": "c", "c": 2}, 2),
    ],
)
def test_a_parent_may_be_a_reference(tree: dict[str, Any], value: object) -> None:
    assert resolve(tree, ("a",)) == value
    assert judged(tree)["a"] == value


@pytest.mark.parametrize(
    "tree",
    [
        {"a": "${s.x}", "s": "${q}", "q": {"y": 4}},
        {"a": "${oc.select:b,1}", "b": "${nope}"},
        {"a": "${oc.env:NONE,x}-${nope}"},
        {"a": "${foo:${nope}}"},
        {"a": "${b.c}", "b": 5},
        {"a": "${b.7}", "b": [5]},
    ],
)
def test_a_reference_to_a_missing_key_is_reported_wherever_it_is_used(tree: dict[str, Any]) -> None:
    assert isinstance(judged(tree), Exception)
    with pytest.raises(DanglingError):
        ReferenceResolver(tree).check(("a",))


@pytest.mark.parametrize("framework", ["nemo-rl", "verl"])
def test_nothing_in_the_base_files_is_rejected(framework: str) -> None:
    for version in catalogue.versions(framework):
        assert told(dict(catalogue.load(framework, version).base))[0] == [], version


@pytest.mark.parametrize("text", ["${b[${n}]}", "${${s}}", "${oc.${n}:x}", "${${n}:x}"])
def test_a_key_that_is_not_a_string_is_rejected(text: str) -> None:
    tree = {"a": text, "b": {"1": 2}, "n": 1, "s": {"t": 1}}
    assert isinstance(judged(tree), Exception)
    with pytest.raises(RefusedError) as error:
        ReferenceResolver(tree, REGISTERED).check(("a",))
    assert error.value.place == ("a",)


@pytest.mark.parametrize(
    ("text", "name"), [("${b.${k}}", "b.${...}"), ("${..${k}[c]}", "..${...}.c"), ("${${k}:1}", "${...}")]
)
def test_messages_do_not_show_resolved_values(text: str, name: str) -> None:
    with pytest.raises((DanglingError, AboveRootError, UnknownResolverError)) as error:
        ReferenceResolver({"a": text, "b": {}, "k": "secret"}, REGISTERED).check(("a",))
    assert error.value.name == name


@pytest.mark.parametrize("text", ["x${s}", "${s}${s}", "${s.l} and ${n}", "${oc.select:none,'${s}'}"])
def test_a_section_interpolated_into_a_string_is_formatted_like_omegaconf(text: str) -> None:
    tree = {"a": text, "s": {"t": 1, "l": [True, "${n}"]}, "n": None}
    assert told(tree) == ([], True)
    assert_the_same(tree)


@pytest.mark.parametrize("text", ["${oc.env:X,'a}", "${oc.env:X,[a}", "${mul:2,{a}", "${oc.env:X,a'b'}"])
def test_unparsable_arguments_are_rejected(text: str) -> None:
    assert isinstance(judged({"a": text}), GrammarParseError)
    with pytest.raises(MalformedError):
        resolve({"a": text}, ("a",))


@pytest.mark.parametrize(("key", "value"), [("+1", 5), ("01", 5), ("1", 5), ("-1", None), ("7", None)])
def test_a_list_index_is_parsed_like_a_python_integer(key: str, value: int | None) -> None:
    assert_the_same({"a": f"${{b[{key}]}}", "b": [4, 5]})
    assert_the_same({"a": f"${{oc.select:'b[{key}]'}}", "b": [4, 5]})
    assert resolve({"a": f"${{oc.select:'b[{key}]'}}", "b": [4, 5]}, ("a",)) == value


def test_a_computed_name_may_be_left_unresolved() -> None:
    for name in (".b", "b[c]", "b.c"):
        tree = {"s": {"a": "${${n}}", "b": {"c": 1}}, "n": name, "b": {"c": 2}}
        assert not isinstance(judged(tree), Exception)
        assert_the_same(tree)


def test_a_long_chain_and_a_growing_string_are_not_judged() -> None:
    chain = {f"k{at_}": f"${{k{at_ + 1}}}" for at_ in range(500)}
    doubled = {f"k{at_}": f"${{k{at_ + 1}}}" * 10 for at_ in range(12)} | {"k12": "xx"}
    nested = {"a": "${mul:1," * 300 + "1" + "}" * 300}
    for tree in (chain, doubled, nested, {"a": "${mul:x,9999999999}"}):
        with pytest.raises(UnknownError) as error:
            resolve(tree, next(iter(places(tree))))
        assert not isinstance(error.value, RefusedError)


KEYS = st.sampled_from(["a", "b", "c", "s", "t", "s.a", "s.t", "t.0", "s.t.b", "none", "c.a"])
SIMPLE = st.builds(lambda dots, key: f"${{{dots}{key}}}", st.sampled_from(["", "", "", ".", "..", "..."]), KEYS)
REFERENCES = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        st.builds(lambda left, right: f"${{mul:{left},{right}}}", inner, st.sampled_from(["2", "x", "${b}", " 1.5 "])),
        st.builds(lambda key, left: f"${{oc.select:{key},{left}}}", KEYS, inner),
        st.builds(lambda left: f"${{oc.env:NONE,{left}}}", inner),
        st.builds(lambda left: f"${{foo:{left}}}", inner),
        st.builds(lambda left: f"${{oc.env:NONE,'{left}'}}", inner),
        st.builds(lambda left: f"${{s.{left}}}", inner),
    ),
    max_leaves=3,
)
TEXTS = st.one_of(
    SIMPLE,
    REFERENCES,
    st.builds(
        lambda *parts: "".join(parts), st.sampled_from(["", "x", "\\", "\\\\", "y\\\\\\"]), REFERENCES, st.just("")
    ),
    st.lists(
        st.sampled_from(["${a}", "${", "}", "\\", "\\\\", "$", "x", ".", ":", "[", "]", "{", "'", ",", " ", "a"])
    ).map("".join),
)
LEAVES = st.one_of(st.integers(0, 9), st.none(), st.booleans(), st.just("word"), TEXTS, TEXTS, TEXTS)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from(["a", "b", "t"]), inner, max_size=3), st.lists(inner, max_size=2)
    ),
    max_leaves=5,
)


@settings(max_examples=examples(400))
@given(st.dictionaries(st.sampled_from(["a", "b", "c", "s", "t"]), VALUES, min_size=1, max_size=5))
def test_small_configurations_are_judged_like_omegaconf(tree: dict[str, Any]) -> None:
    assert_the_same(tree)
