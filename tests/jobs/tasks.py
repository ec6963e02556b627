"""Run a task program: in a process of its own as the launcher does, or in this one, which takes no time to start."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.programs import PROGRAMS, flat_folder

# What a program must not find in its environment because these tests run with it.
FOREIGN = ("HF_TOKEN", "HF_HOME", "HF_HUB_CACHE", "HF_ENDPOINT", "HF_HUB_OFFLINE", "GIT_DIR", "GIT_INDEX_FILE")


@dataclass
class Done:
    """What a program printed, and its exit code."""

    code: int
    output: str
    errors: str = ""

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


def task_file(task: dict[str, Any], folder: Path) -> Path:
    path = folder / "task.json"
    path.write_text(json.dumps(task), encoding="utf-8")
    return path


def run_task(program: str, task: dict[str, Any], folder: Path, **environment: str) -> Done:
    """Run a task program in a process of its own."""
    inherited = {key: value for key, value in os.environ.items() if key not in FOREIGN}
    done = subprocess.run(
        [sys.executable, str(flat_folder() / f"{program}.py"), str(task_file(task, folder))],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=120,
        env={**inherited, "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1", **environment},
    )
    return Done(done.returncode, done.stdout)


def run_task_here(program: str, task: dict[str, Any], folder: Path, **environment: str) -> Done:
    """Run a task program in this process; a test that uses `run_task` shows that it starts in one of its own."""
    with pytest.MonkeyPatch.context() as patch:
        for name in FOREIGN:
            patch.delenv(name, raising=False)
        done = run_here(program, task_file(task, folder), HOME=str(folder), **environment)
    return Done(done.code, done.output + done.errors)


def run_here(program: str, *words: object, **environment: str) -> Done:
    """Run a program of jobs/ in this process, with modules and signal handlers of its own."""
    # Programs also write bytes to the buffer of stdout.
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n", write_through=True) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, mock.patch.dict(os.environ, environment), own_modules(), own_handlers():
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        patch.setattr(sys, "argv", [f"{program}.py", *map(str, words)])
        try:
            runpy.run_path(str(PROGRAMS[program]), run_name="__main__")
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
            if isinstance(end.code, str):
                print(end.code, file=sys.stderr)
    return Done(code, *(stream.buffer.getvalue().decode() for stream in (out, err)))  # type: ignore[attr-defined]


@contextlib.contextmanager
def own_modules() -> Iterator[None]:
    """Let a program import the modules of jobs/ anew: some read the environment when they are imported."""
    kept = {name: sys.modules.pop(name) for name in PROGRAMS if name in sys.modules}
    try:
        yield
    finally:
        for name in PROGRAMS:
            sys.modules.pop(name, None)
        sys.modules.update(kept)


@contextlib.contextmanager
def own_handlers() -> Iterator[None]:
    """Give the handlers back: without one for SIGPIPE, a write to a process that has ended kills this one."""
    kept = {number: signal.getsignal(number) for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}}
    try:
        yield
    finally:
        for number, handler in kept.items():
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler)


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
