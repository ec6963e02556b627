"""Run a task program as the launcher does: its file, the modules beside it, a task file, an environment of its own."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.programs import flat_folder


@dataclass
class Done:
    """What a task program printed, and its exit code."""

    code: int
    output: str

    def fails(self) -> str:
        """Return the one sentence of a failure; anything else that looks like one is an error of the test."""
        assert self.code == 1, self.output
        assert "Traceback" not in self.output
        failures = [line for line in self.output.splitlines() if line.startswith("grpo: failed: ")]
        assert len(failures) == 1, self.output
        return failures[0].removeprefix("grpo: failed: ")

    def succeeds(self) -> str:
        assert self.code == 0, self.output
        return self.output


def run_task(program: str, task: dict[str, Any], folder: Path, **environment: str) -> Done:
    path = folder / "task.json"
    path.write_text(json.dumps(task), encoding="utf-8")
    names = ("HF_TOKEN", "HF_HOME", "HF_HUB_CACHE", "HF_ENDPOINT", "HF_HUB_OFFLINE", "GIT_DIR", "GIT_INDEX_FILE")
    inherited = {key: value for key, value in os.environ.items() if key not in names}
    done = subprocess.run(
        [sys.executable, str(flat_folder() / f"{program}.py"), str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=120,
        env={**inherited, "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1", **environment},
    )
    return Done(done.returncode, done.stdout)


def load_task(name: str) -> Any:
    """Return a program of jobs/ as a module."""
    return importlib.import_module(name)


# Rows of our own in the form of GSM8K, each with what its answer is as a number alone.
GSM8K = [
    (
        "Ana has 3 boxes with 24 pens each. How many pens has she?",
        "3 boxes hold 3*24 = <<3*24=72>>72 pens.\n#### 72",
        "72",
    ),
    (
        "A town of 900 grows by 180. How many live there?",
        "It grows to 900+180 = <<900+180=1080>>1080.\n#### 1,080",
        "1080",
    ),
    ("Two lots cost $1.5 million together. How much is that?", "2 lots are $1500000.\n#### $1,500,000", "1500000"),
    ("It is 4 degrees and gets 9 colder. How warm is it?", "4-9 = <<4-9=-5>>-5 degrees.\n#### -5", "-5"),
    ("Ben owes $12 and pays $4. What does he own?", "He owns 4-12 = -8 dollars.\n#### -$8", "-8"),
    ("A rope of 5 m is cut in two. How long is a part?", "5/2 = <<5/2=2.5>>2.5 m.\n#### 2.5", "2.5"),
    ("Tea costs $2.50. What cost 3 cups?", "3*2.5 = $<<3*2.5=7.5>>7.50.\n#### $7.50", "7.50"),
    ("Is #### in a text? Count 1 and 1.", "See #### 9 of the rules: 1+1 = 2.\n#### 2.", "2"),
]


def solutions() -> list[dict[str, str]]:
    return [{"question": question, "answer": answer} for question, answer, _ in GSM8K]


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
