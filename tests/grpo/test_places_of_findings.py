"""Findings stand at the values that a person edits: of keys, of a chart's refusal, of a rendered object."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from grpo.check import rendered
from grpo.check.rendered import Target
from grpo.check.trace import Origins
from grpo.helm.engines import Engine, Release
from grpo.helm.stack import Stack
from grpo.lint import refusals
from grpo.lint.ignores import Ignores
from grpo.lint.locate import ValueLocator
from postrender.errors import Location, RenderError
from postrender.finding import WARNING, Finding
from postrender.manifests.schemas import Kinds
from postrender.values import merge
from postrender.values.merge import Values
from postrender.yaml import reader
from tests.conftest import ROOT

RULE, OF_OBJECTS = "nemo-rl/rows-not-divisible", "pods/duplicate-merge-key"
NAMED = "accelerator: {name: b200}\njob:\n  version: v0.7.0\n"


def values(text: str) -> Values:
    return merge.merge([reader.values_from_bytes(text.encode(), "a.yaml")], ["a.yaml"])


def line(at: Location) -> int:
    assert at.file == "a.yaml"
    return at.line


def ignoring(rule: str, reason: str = "it is meant") -> Ignores:
    return Ignores(values(f"checks:\n  ignore:\n    {rule}: {reason}\n"))


def test_an_exception_that_suppressed_a_finding_is_not_reported() -> None:
    ignores = ignoring(RULE)
    assert ignores.left([Finding("a", rule=RULE), Finding("b", rule="job/no-gpu-node")]) == [
        Finding("b", rule="job/no-gpu-node")
    ]
    assert [*ignores.useless_of_values()] == []


@pytest.mark.parametrize("reason", ["null", '""'])
def test_an_exception_without_a_reason_suppresses_nothing(reason: str) -> None:
    ignores = ignoring(RULE, reason)
    assert len(ignores.left([Finding("a", rule=RULE)])) == 1


def test_an_unused_exception_is_reported_only_by_the_command_for_its_kind() -> None:
    (found,) = ignoring(RULE).useless_of_values()
    assert (found.what, line(found.at)) == (f"{RULE} finds nothing here", 3)
    assert [*ignoring(OF_OBJECTS).useless_of_values()] == []
    (found,) = ignoring(OF_OBJECTS).useless_of_objects(WARNING)
    assert (found.what, found.severity) == (f"{OF_OBJECTS} finds nothing here", WARNING)
    assert [*ignoring(RULE).useless_of_objects(WARNING)] == []
    (found,) = ignoring("nemo-rl/no-such").useless_of_values()
    assert found.what == "no rule is called nemo-rl/no-such"


def test_the_last_applied_overlay_wins() -> None:
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


def test_an_overlay_that_replaces_a_section_hides_the_keys_below_it() -> None:
    config = "  config:\n    s: {a: 1}\n  configFor:\n    b200:\n      s: {b: 2, _override_: %s}\n"
    assert ValueLocator.of(values(NAMED + config % "true")).path("job.config.s.a") is None
    assert ValueLocator.of(values(NAMED + config % "false")).path("job.config.s.a") == ("job", "config", "s", "a")


def test_a_duplicate_place_is_named_once() -> None:
    locator = ValueLocator.of(values("a: {b: 1}\n"))
    assert locator.place(["a.b", "a.b"]) == (Location("a.yaml", 1, 5), [])


def refused(message: str, text: str) -> int:
    error = RenderError(f"execution error at (grpo-job/templates/rayjob.yaml:3:4): {message}")
    return line(refusals.finding(error, values(text)).at)


def test_a_chart_error_is_placed_at_the_first_key_in_its_message() -> None:
    text = "job:\n  name: a\n  rewards:\n    - file: x\n  env:\n    A.B: {value: c}\n"
    assert refused("job.name is wrong, see job.rewards", text) == 2
    assert refused("job.rewards[0].file is missing", text) == 3
    assert refused("job.env.A.B.value is not allowed", text) == 6
    # The place in the template is no key of the values.
    assert refused("job.env is wrong", f'grpo-job/templates/rayjob: {{"yaml:3:4": 1}}\n{text}') == 6


def test_a_chart_error_whose_key_no_file_sets_is_placed_at_the_nearest_section() -> None:
    assert refused("job.cluster.mode is wrong", "a: 1\njob:\n  name: a\n") == 2
    assert refused("something is wrong", "a: 1\n") == 1


def test_an_already_reported_chart_error_is_not_repeated() -> None:
    error = RenderError("execution error at (a/templates/b.yaml:3:4): job.name is x: set it")
    merged = values("job:\n  name: x\n")
    (alone,) = refusals.findings(error, merged, [])
    assert (alone.what, alone.fix, str(alone.at)) == ("job.name is x", "set it", "a.yaml:2:3")
    same_line = Finding("a", Location("a.yaml", 2, 9))
    same_key = Finding("job.name is too long", Location("b.yaml", 7))
    other = Finding("job.volume is x", Location("b.yaml", 7))
    warning = same_key._replace(severity="warning")
    for reported, expected in ((same_line, []), (same_key, []), (other, [alone]), (warning, [alone])):
        assert refusals.findings(error, merged, [reported]) == expected
    assert refusals.explained(error, merged, [other, same_key]) == [same_key]
    both = Finding("job.volume and job.name are x", Location("b.yaml", 7))
    assert refusals.findings(error, merged, [both]) == []
    no_key = RenderError("execution error at (a/templates/b.yaml:3:4): the cluster is small: add a node")
    assert len(refusals.findings(no_key, merged, [Finding("the cluster is old", Location("b.yaml", 7))])) == 1


def test_lints_token_finding_replaces_the_charts_token_error() -> None:
    error = RenderError(
        "execution error at (a/templates/b.yaml:3:4): the values contain what looks like a token. Put it …"
    )
    token = Finding("this looks like a secret", Location("a.yaml", 1, 9), rule="values/token")
    assert refusals.findings(error, values("a: 1\n"), [token]) == []


def test_lint_findings_replace_the_schema_error_that_they_explain() -> None:
    error, merged = RenderError("values don't meet the specifications of the schema(s):\n- at '/d'"), values("d: 1\n")
    finding = Finding("there is no section called d", Location("a.yaml", 1, 1), rule="values/unknown-key")
    assert refusals.explained(error, merged, [finding]) == [finding]
    assert refusals.findings(error, merged, [finding]) == []
    assert [each.rule for each in refusals.findings(error, merged, [])] == ["values/refused-by-chart"]


def origins(text: str, template: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Origins:
    """Return the origins in what a template makes of values: names of ConfigMaps and their data."""
    merged = values(text)

    def render(change: Mapping[str, Any]) -> str:
        made = template(merge.overlay(merged.as_helm_merges(), change))
        objects = [{"kind": "ConfigMap", "metadata": {"name": name}, "data": data} for name, data in made.items()]
        return "".join(f"---\n{json.dumps(each)}\n" for each in objects)

    return Origins(merged, render)


def found(text: str, template: Callable[[Mapping[str, Any]], Mapping[str, Any]], name: str, key: str) -> str | None:
    place = ("ConfigMap", name), ("data", key)
    there = origins(text, template).of([place], lambda done, of: None).get(place)
    return there and there[1]


def test_among_several_values_the_one_affecting_the_fewest_fields_is_blamed() -> None:
    text = "everything: 1\nown: 2\n"
    made = lambda v: {  # noqa: E731 (a template)
        "a": {"sum": v["everything"] + v["own"]},
        "b": {"sum": v["everything"]},
        "c": {"sum": v["everything"]},
    }
    assert found(text, made, "a", "sum") == "own"
    assert found(text, made, "b", "sum") == "everything"


def test_a_value_that_renames_the_object_is_not_blamed() -> None:
    made = lambda v: {v["name"]: {"text": v["name"]}}  # noqa: E731 (a template)
    assert found("name: a\n", made, "a", "text") is None


def test_a_boolean_is_not_blamed_for_text() -> None:
    """`word` is in the text as it is, so it comes first, although `flag` moves fewer objects."""
    made = lambda v: {  # noqa: E731 (a template)
        "a": {"text": f"{v['flag']} {v['word']}"},
        "b": {"text": v["word"]},
    }
    assert found("flag: true\nword: hello\n", made, "a", "text") == "word"


class Refusing(Engine):
    """A Helm whose every chart refuses the values with one message."""

    def __init__(self, message: str) -> None:
        self._message = message

    @property
    def name(self) -> str:
        return "none"

    def _render(self, release: Release) -> tuple[str, str | None]:
        raise RenderError(self._message)


def test_values_that_accept_a_rule_do_not_accept_its_refusal_by_a_chart() -> None:
    sources = "".join(each.read_text() for each in (ROOT / "charts").rglob("*.tpl"))
    ids = sorted(set(re.findall(r" \[([a-z-]+/[a-z0-9-]+)\]\"", sources)))
    assert "job/head-without-cpu" in ids
    for rule in ids:
        stack = Stack((), values(f"checks: {{ignore: {{{rule}: a reason}}}}\n"))
        verdict = rendered.judge(stack, Refusing(f"job.name is wrong: change it [{rule}]"), Kinds(), Target(), [])
        assert [each.rule for each in verdict.findings] == [rule]
