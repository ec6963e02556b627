"""SARIF and JUnit reports have the parts that their readers require, and say the same as the text."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from grpo.problems import index
from grpo.report import formats
from postrender import __version__
from postrender.errors import Location
from postrender.finding import Finding

# What the standard requires of a log with results, and what GitHub's code scanning requires besides, in our words.
PLACE = {
    "type": "object",
    "required": ["artifactLocation", "region"],
    "properties": {
        "artifactLocation": {
            "type": "object",
            "required": ["uri"],
            "properties": {"uri": {"type": "string", "format": "uri-reference"}, "uriBaseId": {"type": "string"}},
            "additionalProperties": False,
        },
        "region": {
            "type": "object",
            "required": ["startLine"],
            "properties": {"startLine": {"type": "integer", "minimum": 1}, "startColumn": {"minimum": 1}},
            "additionalProperties": False,
        },
    },
}
TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
SARIF = {
    "type": "object",
    "required": ["version", "runs", "$schema"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {"type": "array", "minItems": 1, "maxItems": 1, "items": {"$ref": "#/$defs/run"}},
    },
    "$defs": {
        "run": {
            "type": "object",
            "required": ["tool", "results"],
            "properties": {
                "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                "tool": {
                    "required": ["driver"],
                    "properties": {
                        "driver": {
                            "required": ["name", "rules"],
                            "properties": {
                                "rules": {"type": "array", "uniqueItems": True, "items": {"$ref": "#/$defs/rule"}}
                            },
                        }
                    },
                },
                "results": {"type": "array", "items": {"$ref": "#/$defs/result"}},
            },
        },
        "rule": {
            "type": "object",
            "required": ["id"],
            "properties": {
                "shortDescription": TEXT,
                "fullDescription": TEXT,
                "help": TEXT,
                "defaultConfiguration": {"required": ["level"], "properties": {"level": LEVEL}},
            },
        },
        "result": {
            "type": "object",
            "required": ["message", "ruleId", "ruleIndex", "level", "locations"],
            "properties": {
                "message": TEXT,
                "level": LEVEL,
                "ruleIndex": {"type": "integer", "minimum": 0},
                "locations": {
                    "type": "array",
                    "minItems": 1,
                    "items": {"required": ["physicalLocation"], "properties": {"physicalLocation": PLACE}},
                },
                "relatedLocations": {
                    "type": "array",
                    "items": {
                        "required": ["id", "physicalLocation", "message"],
                        "properties": {"message": TEXT, "physicalLocation": PLACE},
                    },
                },
            },
        },
    },
}
VALIDATOR = jsonschema_rs.Draft202012Validator(SARIF, validate_formats=True)
RULE = index.rules()[0]
ONE = Finding("a is 1", Location("my site,ü.yaml", 3, 5), rule=RULE.id, why=RULE.why, fix=RULE.fix)
ALSO = [(Location("other.yaml", 7, 1), "job.config.b")]
LESSER = Finding(
    "b is 2", Location("/data/f.yaml", 2), rule="values/x", why="w", fix="f", severity="warning", also=ALSO
)
LEAST = Finding("c", Location("<raycluster>"), rule="values/x", why="w", fix="f", severity="info")


def sarif(*findings: Finding) -> dict[str, Any]:
    log: dict[str, Any] = json.loads(formats.write(findings, "sarif"))
    assert [error.message for error in VALIDATOR.iter_errors(log)] == []
    (run,) = log["runs"]
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    return dict(run)


def junit(*findings: Finding, fail_on: str = "error") -> ET.Element:
    return ET.fromstring(formats.write(findings, "junit", fail_on))  # noqa: S314 - written by us


def test_sarif_names_the_tool_and_only_rules_with_findings() -> None:
    run = sarif(ONE, LESSER, ONE, LEAST)
    driver = run["tool"]["driver"]
    assert (driver["name"], driver["semanticVersion"]) == ("grpo-charts", __version__)
    assert [rule["id"] for rule in driver["rules"]] == [RULE.id, "values/x"]
    rule = driver["rules"][0]
    assert rule["shortDescription"]["text"] == RULE.title
    assert RULE.fix in rule["help"]["text"]
    assert RULE.source in rule["help"]["text"]
    assert sarif() == {**run, "results": [], "tool": {"driver": {**driver, "rules": []}}}


def test_sarif_locations_are_uris_with_lines_and_character_columns() -> None:
    run = sarif(ONE, LESSER, LEAST)
    assert run["columnKind"] == "unicodeCodePoints"
    one, lesser, least = (each["locations"][0]["physicalLocation"] for each in run["results"])
    assert one == {
        "artifactLocation": {"uri": "my%20site%2C%C3%BC.yaml", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 3, "startColumn": 5},
    }
    assert lesser == {"artifactLocation": {"uri": "file:///data/f.yaml"}, "region": {"startLine": 2}}
    assert least["region"] == {"startLine": 1}
    assert [each["level"] for each in run["results"]] == ["error", "warning", "note"]
    (related,) = run["results"][1]["relatedLocations"]
    assert (related["message"]["text"], related["physicalLocation"]["region"]["startLine"]) == ("job.config.b", 7)
    assert run["results"][0]["message"]["text"] == f"a is 1\nwhy: {RULE.why}\nfix: {RULE.fix}"


def test_a_related_place_appears_in_every_format(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of a finding at a rendered object, it names the object."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path.parent))
    one, lesser = json.loads(formats.write([ONE, LESSER], "json"))["findings"]
    assert (one["also"], lesser["also"]) == ([], [{"file": "other.yaml", "line": 7, "col": 1, "note": "job.config.b"}])
    place = f"{tmp_path.name}/other.yaml:7:1 job.config.b"
    assert f"::b is 2%0Aalso: {place}%0Awhy: w%0Afix: f\n" in formats.write([LESSER], "github")
    assert "also" not in formats.write([ONE], "github")
    (case,) = junit(LESSER).iter("system-out")
    assert "\nalso: other.yaml:7:1 job.config.b\nwhy: w\n" in (case.text or "")


def test_junit_has_one_test_case_per_finding() -> None:
    root = junit(ONE, LESSER, LEAST)
    (suite,) = root
    for each in (root, suite):
        assert (each.get("tests"), each.get("failures"), each.get("errors")) == ("3", "1", "0")
    first, second, third = suite
    assert (first.get("classname"), first.get("name")) == (RULE.id, "my site,ü.yaml:3:5: a is 1")
    assert (first.get("file"), first.get("line"), third.get("line")) == ("my site,ü.yaml", "3", None)
    (failure,) = first
    assert (failure.tag, failure.get("type"), failure.get("message")) == ("failure", "error", "a is 1")
    assert failure.text == f"my site,ü.yaml:3:5: a is 1\nwhy: {RULE.why}\nfix: {RULE.fix}\n"
    assert [(each.tag, (each.text or "").partition(":")[0]) for each in (*second, *third)] == [
        ("system-out", "warning"),
        ("system-out", "info"),
    ]


@pytest.mark.parametrize(("fail_on", "failures"), [("error", "1"), ("warning", "2"), ("info", "3")])
def test_junit_fails_whatever_the_command_fails_for(fail_on: str, failures: str) -> None:
    root = junit(ONE, LESSER, LEAST, fail_on=fail_on)
    assert root.get("failures") == failures
    assert len(root.findall(".//failure")) == int(failures)


def test_junit_without_findings_is_one_passing_case() -> None:
    root = junit()
    assert (root.get("tests"), root.get("failures")) == ("1", "0")
    (case,) = root.iter("testcase")
    assert list(case) == []


def test_characters_not_allowed_in_xml_are_escaped() -> None:
    one = Finding('a\x00\x1b <b> & "c"\nd \udc80 \ufffe', Location("f.yaml", 1, 1), rule="values/x", why="w", fix="f")
    (failure,) = junit(one).iter("failure")
    assert failure.get("message") == 'a\\u0000\\u001b <b> & "c"\nd \\udc80 \\ufffe'
