"""JSON of anybody: deep texts are refused, and no module parses it in another way."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo.cli import main as cli
from postrender import json_text
from tests.conftest import ROOT, stack_files

STACK = [word for path in stack_files() for word in ("-f", str(path))]
SHAPES: dict[str, Callable[[int], str]] = {
    "lists": lambda depth: "[" * depth + "]" * depth,
    "maps": lambda depth: '{"a":' * depth + "1" + "}" * depth,
    "both, wide": lambda depth: '[{"b": 1}, {"a": ' * (depth // 2) + "[]" + "}]" * (depth // 2),
}
LEAVES = st.none() | st.booleans() | st.integers() | st.text()
VALUES = st.recursive(LEAVES, lambda below: st.lists(below) | st.dictionaries(st.text(), below), max_leaves=30)


@given(VALUES)
def test_ordinary_json_is_parsed_like_python(value: Any) -> None:
    text = json.dumps(value)
    assert json_text.loads(text) == json_text.loads(text.encode()) == value


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("depth", [102, 500, 2_000, 200_000])
def test_deeply_nested_json_is_rejected(shape: str, depth: int) -> None:
    with pytest.raises(ValueError, match="nested deeper than 100 levels"):
        json_text.loads(SHAPES[shape](depth))
    json_text.loads(SHAPES[shape](100))


@pytest.mark.parametrize("depth", [150, 5_000, 100_000])
@pytest.mark.parametrize("shape", ["lists", "maps"])
@pytest.mark.parametrize(
    ("words", "place"),
    [
        (["try-reward", *STACK, "--set", "job.rewards.a.builtin=format", "--sample", "FILE"], "FILE:1:1: "),
        (["lint", *STACK, "--set-json", "job.config.a=TEXT"], "<--set-json>:1:"),
        (["lint", "-f", "FILE"], "FILE:1:"),
        (["render", *STACK, "-f", "FILE"], "FILE:1:"),
        (["diff", "--left", "FILE", "--right", "FILE"], "FILE:1:"),
        (["check", "FILE"], "FILE:1:"),
        (["plan", *STACK, "--model-config", "FILE"], "FILE: "),
        (["init", "--yes", "--accelerator", "b200", "--model", "a/b", "--model-config", "FILE"], "FILE: "),
        (["status", "--from", "FILE"], "FILE: "),
        (["watch", "FILE"], "FILE: "),
        (["report", "--format", "json", "FILE"], "FILE: "),
    ],
    ids=lambda each: each[0] if isinstance(each, list) else "",
)
def test_a_deeply_nested_file_is_an_input_error_in_every_command(
    words: list[str],
    place: str,
    shape: str,
    depth: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    file, text = tmp_path / "deep.json", SHAPES[shape](depth)
    file.write_text(text)
    assert cli.main([word.replace("FILE", str(file)).replace("TEXT", text) for word in words]) == 2
    err = capsys.readouterr().err
    assert err.startswith(place.replace("FILE", str(file))), err[:500]
    assert "\n  fix: " in err


# What this package or its own processes have written.
OWN = {"postrender/facts.py", "postrender/schema.py", "grpo/helm/engines.py", "grpo/helm/worker.py"}


def test_no_other_module_parses_foreign_json() -> None:
    found = set()
    for path in (path for name in ("grpo", "postrender") for path in (ROOT / name).rglob("*.py")):
        name = str(path.relative_to(ROOT))
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "json":
                found |= {name} if node.attr in ("load", "loads") else set()
    assert {name for name in found if not name.startswith("grpo/generate/")} == OWN
