"""A value is put into a values file so that the lines concerned change, and nothing else does."""

from __future__ import annotations

import difflib
from typing import Any

import pytest

from grpo.lint import values_editor
from postrender.errors import InputError
from postrender.yaml import reader

Path = tuple[str | int, ...]
FILE = """\
# yaml-language-server: $schema=values.schema.json
# What a site knows.
stack:   # named by us
  name:   gemma   # the team

# The run.
job:
  config:

    grpo: {num_prompts_per_step: 16, seed: 'a'}   # in braces
    policy:
    - not: a map
    checkpointing:
      metric_name: "zork"  # mine

      # Kept for long.
      save_period: 10

    # Indented as what is above.
  env:
    TEXT: |
      a

      b

# The end.
"""


def read(text: str) -> Any:
    return reader.values_from_bytes(text.encode(), "f.yaml").plain()


def changed(before: str, after: str) -> list[str]:
    """Return the lines that went and came."""
    lines = difflib.ndiff(before.splitlines(keepends=True), after.splitlines(keepends=True))
    return [line for line in lines if line[0] in "+-"]


CASES: dict[str, tuple[Path, object, list[str]]] = {
    "a text": (
        ("job", "config", "checkpointing", "metric_name"),
        "val:accuracy",
        ['-       metric_name: "zork"  # mine\n', '+       metric_name: "val:accuracy"  # mine\n'],
    ),
    "a number": (
        ("job", "config", "checkpointing", "save_period"),
        20,
        ["-       save_period: 10\n", "+       save_period: 20\n"],
    ),
    "null": (
        ("job", "config", "checkpointing", "save_period"),
        None,
        ["-       save_period: 10\n", "+       save_period: null\n"],
    ),
    "in braces": (
        ("job", "config", "grpo", "num_prompts_per_step"),
        8,
        [
            "-     grpo: {num_prompts_per_step: 16, seed: 'a'}   # in braces\n",
            "+     grpo: {num_prompts_per_step: 8, seed: 'a'}   # in braces\n",
        ],
    ),
    "new in braces": (
        ("job", "config", "grpo", "val_period"),
        8,
        [
            "-     grpo: {num_prompts_per_step: 16, seed: 'a'}   # in braces\n",
            "+     grpo: {\"val_period\": 8, num_prompts_per_step: 16, seed: 'a'}   # in braces\n",
        ],
    ),
    "a new key": (("job", "config", "checkpointing", "enabled"), True, ["+       enabled: true\n"]),
    "a new map": (
        ("job", "config", "data", "shuffle"),
        False,
        ["+     data:\n", "+       shuffle: false\n"],
    ),
    "behind a text of lines": (("job", "env", "MORE"), "1", ['+     MORE: "1"\n']),
    "a new section": (("ray", "workers", "replicas"), 2, ["+ ray:\n", "+   workers:\n", "+     replicas: 2\n"]),
    "a number for an index": (
        ("stack", "name"),
        "b",
        ["-   name:   gemma   # the team\n", '+   name:   "b"   # the team\n'],
    ),
    "what is there": (("stack", "name"), "gemma", []),
}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("case", CASES)
def test_only_the_affected_lines_change(case: str, end: str, mark: str) -> None:
    path, value, lines = CASES[case]
    before = mark + FILE.replace("\n", end)
    after = values_editor.with_value(before, "f.yaml", path, value)
    assert [line.replace("\r\n", "\n") for line in changed(before, after)] == lines
    assert after.count("\r") == (after.count("\n") if end == "\r\n" else 0)
    inside: Any = read(after)
    for part in path:
        inside = inside[part]
    assert inside == value
    assert type(inside) is type(value)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "a:\n  b: 1\n"),
        ("# nothing\n", "# nothing\na:\n  b: 1\n"),
        ("---\n", "---\na:\n  b: 1\n"),
        ("# no end", "# no end\na:\n  b: 1\n"),
        ("x: 1", "x: 1\na:\n  b: 1\n"),
        ("x: 1\n...\n", "x: 1\na:\n  b: 1\n...\n"),
        ("{}\n", "a:\n  b: 1\n"),
        ("a:\n", "a:\n  b: 1\n"),
        ("x: &x {b: 2}\na:\n  <<: *x\n", "x: &x {b: 2}\na:\n  <<: *x\n  b: 1\n"),
        ("a: {}\nc: 2\n", "a:\n  b: 1\nc: 2\n"),
        ("a: null # none\n", 'a: {"b": 1} # none\n'),
        ("a:\n    c: 1\n# x\nd: 1\n", "a:\n    c: 1\n    b: 1\n# x\nd: 1\n"),
        ("a:\n  c:\n  - 1\n  - 2 # two\n", "a:\n  c:\n  - 1\n  - 2 # two\n  b: 1\n"),
    ],
)
def test_a_missing_map_is_created(before: str, after: str) -> None:
    result = values_editor.with_value(before, "f.yaml", ("a", "b"), 1)
    assert read(result)["a"]["b"] == 1
    assert result == after


@pytest.mark.parametrize(
    "text",
    ["a: 1\n", "a: [1]\n", "a: text\n", "x: &x {b: 2, c: 3}\na: *x\n"],
)
def test_an_edit_that_would_change_anything_else_is_rejected(text: str) -> None:
    with pytest.raises(InputError):
        values_editor.with_value(text, "f.yaml", ("a", "b"), 1)


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize(
    ("path", "new", "lines"),
    [
        (("job",), "jobs", ["- job:\n", "+ jobs:\n"]),
        (("stack", "name"), "called", ["-   name:   gemma   # the team\n", "+   called:   gemma   # the team\n"]),
        (
            ("job", "config", "grpo", "seed"),
            "sead",
            [
                "-     grpo: {num_prompts_per_step: 16, seed: 'a'}   # in braces\n",
                "+     grpo: {num_prompts_per_step: 16, sead: 'a'}   # in braces\n",
            ],
        ),
    ],
)
def test_a_key_is_renamed(path: Path, new: str, lines: list[str], mark: str) -> None:
    after = values_editor.with_name(mark + FILE, "f.yaml", path, new)
    assert [line for line in changed(mark + FILE, after) if line[2:].strip()] == lines


def test_a_quoted_key_keeps_its_quotes() -> None:
    assert values_editor.with_name("a:\n  'x': x\n", "f.yaml", ("a", "x"), "y") == "a:\n  'y': x\n"


@pytest.mark.parametrize(
    ("text", "new", "why"),
    [
        ("a: {x: 1, w: 2}\n", "w", "w is set there too"),
        ("a: {x: 1}\n", "n", "cannot be renamed"),
        ("b: &b {x: 1}\na: *b\n", "w", "cannot be renamed"),
        ('a: {"\\x78": x}\n', "w", "cannot be renamed"),
        ("b: &b {x: 1}\na:\n  <<: *b\n", "w", "cannot be found"),
        ("a: {}\n", "w", "cannot be found"),
    ],
)
def test_a_rename_that_would_change_anything_else_is_rejected(text: str, new: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        values_editor.with_name(text, "f.yaml", ("a", "x"), new)
