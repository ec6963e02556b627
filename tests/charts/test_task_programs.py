"""Each task travels with every module of jobs/ that its program imports."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Render

JOBS = ROOT / "jobs"
TASKS: dict[str, dict[str, Any]] = {
    "train": {},
    "fetch": {},
    "prepare-data": {"prepareData": {"gsm8k": {"repository": "openai/gsm8k"}}},
    "convert": {},
    "evaluate": {"evaluate": {"benchmarks": {"math500": {}}}},
}
# Engines that evaluate.py imports by the framework's name.
BY_NAME = {"evaluate.py": {"nemo_eval.py", "verl_eval.py"}}


def imported(path: Path) -> set[str]:
    """Return the modules of jobs/ that a program imports anywhere, and those that they import."""
    names = set(BY_NAME.get(path.name, set()))
    for part in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(part, ast.ImportFrom):
            names.add(f"{part.module}.py")
        elif isinstance(part, ast.Import):
            names |= {f"{name.name}.py" for name in part.names}
    found = {name for name in names if (JOBS / name).is_file()}
    return found.union(*(imported(JOBS / name) for name in found))


@pytest.mark.parametrize("task", TASKS)
def test_a_task_has_what_it_imports(render: Render, task: str) -> None:
    (job,) = (one for one in render("grpo-job", {"job": {"task": task, **TASKS[task]}}) if one["kind"] == "RayJob")
    entrypoint = job["spec"]["entrypoint"]
    carried = set(re.findall(r'"\$programs/(\S+\.py)" <<', entrypoint)) - {"__main__.py"} | {"launch.py"}
    program = "launch.py" if task == "train" else f"{task.replace('-', '_')}.py"
    needed = {"launch.py", program} | imported(JOBS / "launch.py") | imported(JOBS / program)
    assert needed <= carried, f"{needed - carried} are missing"
