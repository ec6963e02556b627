"""The task programs as text: they run on Python 3.10 with nothing but what they bring."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from tests.programs import PROGRAMS

from .tasks import run_task, run_task_here

OURS = ("runtime", "files", "owner", "task", "hub_cache", "code_digest", "fetch_code", "fetch_tables", "reward_numbers")
TASKS = ("fetch", "prepare_data", "clean")


def source(name: str) -> str:
    return PROGRAMS[name].read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [*OURS, *TASKS])
def test_a_program_needs_only_python_3_10(name: str) -> None:
    """What the training image holds is imported where it is used, and missed with a sentence."""
    tree = ast.parse(source(name), feature_version=(3, 10))
    top = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom) and node.col_offset == 0]
    modules = {alias.name for node in top if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module or "" for node in top if isinstance(node, ast.ImportFrom)}
    assert {module.split(".")[0] for module in modules} <= sys.stdlib_module_names | set(OURS)


@pytest.mark.parametrize("name", TASKS)
def test_a_task_file_that_is_not_one_is_a_sentence(name: str, tmp_path: Path) -> None:
    assert "usage: python3" in run_task(name, {}, tmp_path).fails()
    if name != "fetch":
        assert "the task file has no key" in run_task_here(name, {"x": 1}, tmp_path).fails()
