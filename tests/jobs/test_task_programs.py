"""The task programs as text: they run on Python 3.10 with nothing but what they bring."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from grpo.generate.programs import TASKS as PACKED
from grpo.generate.programs import files
from tests.conftest import ROOT

from .tasks import run_task, run_task_here

TASKS = ("fetch", "prepare_data", "clean")


@pytest.mark.parametrize("task", PACKED)
def test_a_task_needs_only_python_3_10_and_its_own_programs(task: str) -> None:
    """What the training image holds is imported where it is used, and missed with a sentence."""
    programs = files(ROOT, task)
    for name, text in programs.items():
        tree = ast.parse(text, feature_version=(3, 10))
        top = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom) and not node.col_offset]
        modules = {alias.name for node in top if isinstance(node, ast.Import) for alias in node.names}
        modules |= {node.module or "" for node in top if isinstance(node, ast.ImportFrom)}
        own = {Path(each).stem for each in programs}
        # Of this one NeMo RL's own process makes an actor.
        own |= {"torch", "ray", "nemo_rl"} if name == "nemo_rl_environment.py" else set()
        missing = {module.split(".")[0] for module in modules} - sys.stdlib_module_names - own
        assert not missing, f"{name} imports {missing}"


@pytest.mark.parametrize("name", TASKS)
def test_a_malformed_task_file_is_reported_in_one_sentence(name: str, tmp_path: Path) -> None:
    assert "usage: python3" in run_task(name, {}, tmp_path).fails()
    if name != "fetch":
        assert "the task file has no key" in run_task_here(name, {"x": 1}, tmp_path).fails()
