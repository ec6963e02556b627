"""Findings stand at the values that a person edits: of keys, of a chart's refusal, of a rendered object."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from postrender.check.trace import Origins
from postrender.errors import Location, RenderError
from postrender.finding import WARNING, Finding
from postrender.helm.engines import Engine
from postrender.helm.stack import Stack
from postrender.lint import refusals
from postrender.lint.ignores import Ignores
from postrender.lint.locate import ValueLocator
from postrender.values import merge
from postrender.values.merge import Values
from postrender.yaml import reader

RULE, OF_OBJECTS = "nemo-rl/rows-not-divisible", "pods/duplicate-merge-key"
NAMED = "accelerator: {name: b200}\njob:\n  version: v0.7.0\n"


def values(text: str) -> Values:
    return merge.merge([reader.values_from_bytes(text.encode(), "a.yaml")], ["a.yaml"])


def line(at: Location) -> int:
    assert at.file == "a.yaml"
    return at.line


def ignoring(rule: str, reason: str = "it is meant") -> Ignores:
    return Ignores(values(f"checks:\n  ignore:\n    {rule}: {reason}\n"))


def test_an_exception_that_accepted_a_finding_is_no_finding() -> None:
    ignores = ignoring(RULE)
    assert ignores.left([Finding("a", rule=RULE), Finding("b", rule="job/no-gpu-node")]) == [
        Finding("b", rule="job/no-gpu-node")
    ]
    assert [*ignores.useless_of_values()] == []


@pytest.mark.parametrize("reason", ["null", '""'])
def test_an_exception_without_a_reason_accepts_nothing(reason: str) -> None:
    ignores = ignoring(RULE, reason)
    assert len(ignores.left([Finding("a", rule=RULE)])) == 1


def test_an_exception_is_useless_for_the_command_that_judges_its_kind() -> None:
    (found,) = ignoring(RULE).useless_of_values()
    assert (found.what, line(found.at)) == (f"{RULE} finds nothing here", 3)
    assert [*ignoring(OF_OBJECTS).useless_of_values()] == []
    (found,) = ignoring(OF_OBJECTS).useless_of_objects(WARNING)
    assert (found.what, found.severity) == (f"{OF_OBJECTS} finds nothing here", WARNING)
    assert [*ignoring(RULE).useless_of_objects(WARNING)] == []
    (found,) = ignoring("nemo-rl/no-such").useless_of_values()
    assert found.what == "no rule is called nemo-rl/no-such"


def test_the_overlay_that_is_applied_last_wins() -> None:
    merged = values(
        f"{NAMED}  config: {{a: 1, c: 1}}\n  configFor:\n    v0.7.0:\n      a: 2\n      b: 2\n    b200:\n      a: 3\n"
    )
    locator = ValueLocator.of(merged)
    assert locator.path("job.config.a") == ("job", "configFor", "b200", "a")
    assert locator.path("job.config.b") == ("job", "configFor", "v0.7.0", "b")
    assert locator.path("job.config.c") == ("job", "config", "c")
    assert locator.target("job.config.d") == ("job", "config", "d")
    assert locator.place(["job.config.a", "job.config.b"]) == (
        Location("a.yaml", 10, 7),
        [(Location("a.yaml", 8, 7), "job.configFor.v0.7.0.b")],
    )


def test_an_overlay_that_replaces_a_section_hides_what_is_below() -> None:
    config = "  config:\n    s: {a: 1}\n  configFor:\n    b200:\n      s: {b: 2, _override_: %s}\n"
    assert ValueLocator.of(values(NAMED + config % "true")).path("job.config.s.a") is None
    assert ValueLocator.of(values(NAMED + config % "false")).path("job.config.s.a") == ("job", "config", "s", "a")


def test_one_place_is_named_once() -> None:
    locator = ValueLocator.of(values("a: {b: 1}\n"))
    assert locator.place(["a.b", "a.b"]) == (Location("a.yaml", 1, 5), [])


def refused(message: str, text: str) -> int:
    error = RenderError(f"execution error at (grpo-job/templates/rayjob.yaml:3:4): {message}")
    return line(refusals.finding(error, values(text)).at)


def test_a_refusal_stands_at_the_first_key_of_its_message() -> None:
    text = "job:\n  name: a\n  rewards:\n    - file: x\n  env:\n    A.B: {value: c}\n"
    assert refused("job.name is wrong, see job.rewards", text) == 2
    assert refused("job.rewards[0].file is missing", text) == 3
    assert refused("job.env.A.B.value is not allowed", text) == 6
    # The place in the template is no key of the values.
    assert refused("job.env is wrong", f'grpo-job/templates/rayjob: {{"yaml:3:4": 1}}\n{text}') == 6


REFUSED = "- at '/a~1b': additional properties 'c' not allowed\n- at '/d': got number, want string"


@pytest.mark.parametrize(
    ("keys", "lines", "expected"), [(REFUSED, (2, 3), True), (REFUSED, (2,), False), ("", (), False)]
)
def test_a_schema_error_is_reported_if_each_of_its_keys_is(
    keys: str, lines: tuple[int, ...], expected: bool, tmp_path: Path
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("a/b:\n  c: 1\nd: 2\n")
    error = RenderError(f"values don't meet the specifications of the schema(s):\n{keys}")
    reported = [Finding("x", Location(str(file), number)) for number in lines]
    assert refusals.is_reported(error, reported, [str(file)]) is expected


def origins(text: str, template: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Origins:
    """Return the origins in what a template makes of values: names of ConfigMaps and their data."""
    merged = values(text)

    def render(*_: object, change: Mapping[str, Any] | None, **__: object) -> SimpleNamespace:
        made = template(merge.overlay(merged.as_helm_merges(), change or {}))
        objects = [{"kind": "ConfigMap", "metadata": {"name": name}, "data": data} for name, data in made.items()]
        return SimpleNamespace(manifest="".join(f"---\n{json.dumps(each)}\n" for each in objects))

    return Origins(cast(Engine, None), cast(Stack, SimpleNamespace(values=merged, render=render)), "network", None)


def found(text: str, template: Callable[[Mapping[str, Any]], Mapping[str, Any]], name: str, key: str) -> str | None:
    place = ("ConfigMap", name), ("data", key)
    there = origins(text, template).of([place], lambda done, of: None).get(place)
    return there and there[1]


def test_of_several_values_the_one_that_moves_least_counts() -> None:
    text = "everything: 1\nown: 2\n"
    made = lambda v: {  # noqa: E731 (a template)
        "a": {"sum": v["everything"] + v["own"]},
        "b": {"sum": v["everything"]},
        "c": {"sum": v["everything"]},
    }
    assert found(text, made, "a", "sum") == "own"
    assert found(text, made, "b", "sum") == "everything"


def test_a_value_that_renames_the_object_does_not_count() -> None:
    made = lambda v: {v["name"]: {"text": v["name"]}}  # noqa: E731 (a template)
    assert found("name: a\n", made, "a", "text") is None


def test_a_boolean_is_no_part_of_a_text() -> None:
    """`word` is in the text as it is, so it comes first, although `flag` moves fewer objects."""
    made = lambda v: {  # noqa: E731 (a template)
        "a": {"text": f"{v['flag']} {v['word']}"},
        "b": {"text": v["word"]},
    }
    assert found("flag: true\nword: hello\n", made, "a", "text") == "word"
