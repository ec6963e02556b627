"""A terminal gets colour and tables; a pipe, a file, CI and a terminal that cannot draw get the plain text."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from grpo.cli import main as cli
from grpo.report import text as report_text
from tests.conftest import ROOT, SITE, stack_files, thin
from tests.jobs import checkpoint_files
from tests.postrender.test_secrets import EXAMPLES

STYLE = re.compile(r"\x1b\[[0-9;]*m")
STACK = [word for file in stack_files()[:2] for word in ("-f", str(file))] + ["-f", str(SITE), "-f", "my.yaml"]
LINT = ["lint", *STACK, "--no-render"]
Run = Callable[..., tuple[int, str]]


def environment(**more: str) -> dict[str, str]:
    unset = ("CI", "NO_COLOR", "FORCE_COLOR", "COLORTERM", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
    kept = {name: value for name, value in os.environ.items() if name not in unset}
    return {**kept, "TERM": "xterm-256color", "COLUMNS": "150", "PYTHONPATH": str(ROOT), **more}


def piped(folder: Path, *words: str, **more: str) -> str:
    """Return what a command prints where no terminal is; in this process, which has none."""
    out, nowhere = io.StringIO(), io.StringIO()
    report_text._source_lines.cache_clear()
    with (
        mock.patch.dict(os.environ, environment(**more), clear=True),
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(nowhere),
    ):
        cli.main(list(words))
    return out.getvalue()


# `grpo` without a progress bar, however long it takes.
PROGRAM = """
from grpo.terminal import progress
progress._AFTER_SECONDS = 3600.0
import runpy
runpy.run_module("grpo.cli", run_name="__main__")
"""
# The line on stderr that says what was judged.
SUMMARY = re.compile(r"^judged: .*\n", re.MULTILINE)


def watched(folder: Path, *words: str, **more: str) -> str:
    """Return what a command prints on a terminal, stdout and stderr together."""
    above, below = pty.openpty()
    seen: list[bytes] = []

    def read() -> None:
        # Linux says so when nobody holds the other side any more.
        try:
            while data := os.read(above, 65536):
                seen.append(data)
        except OSError:
            return

    reader = threading.Thread(target=read)
    reader.start()
    command = [sys.executable, "-c", PROGRAM, *words]
    try:
        subprocess.run(
            command, check=False, stdin=subprocess.DEVNULL, stdout=below, stderr=below, cwd=folder,
            env=environment(**more),
        )  # fmt: skip
    finally:
        os.close(below)
        reader.join()
        os.close(above)
    return SUMMARY.sub("", b"".join(seen).decode().replace("\r\n", "\n"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a folder with a values file in which something is wrong."""
    (tmp_path / "my.yaml").write_text("ray:\n  workers:\n    replicsa: 3\n")
    return tmp_path


def test_findings_on_a_terminal_are_coloured_with_the_same_text(folder: Path) -> None:
    plain, drawn = piped(folder, *LINT), watched(folder, *LINT)
    assert "\x1b" not in plain
    assert STYLE.sub("", drawn) == plain
    for part in ("my.yaml:3:5", "[values/unknown-key]", "why", "fix", "^", "1 error"):
        assert re.search(rf"\x1b\[[0-9;]+m{re.escape(part)}\x1b\[0m", drawn), part


@pytest.mark.full
@pytest.mark.parametrize("more", thin([{"NO_COLOR": "1"}, {"CI": "true"}, {"TERM": "dumb"}], 3))
def test_no_colour_is_printed_when_disabled(folder: Path, more: dict[str, str]) -> None:
    assert watched(folder, *LINT, **more) == piped(folder, *LINT)
    assert "\x1b" not in watched(folder, "rules", "pods", **more)


@pytest.mark.full
def test_no_environment_variable_forces_colour_into_a_pipe(folder: Path) -> None:
    for more in ({"FORCE_COLOR": "1"}, {"TTY_COMPATIBLE": "1"}, {"COLORTERM": "truecolor"}):
        assert "\x1b" not in piped(folder, *LINT, **more)


@pytest.mark.parametrize("form", thin(["json", "github", "sarif", "junit"], 4))
def test_machine_readable_formats_have_no_colour(folder: Path, form: str) -> None:
    assert watched(folder, *LINT, "--format", form) == piped(folder, *LINT, "--format", form)


def test_errors_are_coloured_and_show_no_secret(folder: Path) -> None:
    secret = EXAMPLES["huggingface"]
    (folder / "my.yaml").write_text(f"a: 1\n{secret}: 2\n{secret}: 3\n")
    drawn = watched(folder, *LINT)
    assert secret not in drawn
    assert re.search(r"\x1b\[[0-9;]+mmy\.yaml:3:1\x1b\[0m: the key ", drawn)
    assert re.search(r"  \x1b\[[0-9;]+mfix\x1b\[0m: ", drawn)


@pytest.mark.full
def test_rules_are_printed_as_a_table(folder: Path) -> None:
    drawn = watched(folder, "rules", "nemo-rl")
    head, line, *_ = (text.rstrip() for text in STYLE.sub("", drawn).strip("\n").splitlines())
    assert head.split() == ["rule", "severity", "title", "versions"]
    assert {*line.strip()} == {"─"}
    ids = set(re.findall(r"^ *(nemo-rl/\S+)", STYLE.sub("", drawn), re.MULTILINE))
    assert ids == {line.split()[0] for line in piped(folder, "rules", "nemo-rl").splitlines()}
    without = watched(folder, "rules", "nemo-rl", NO_COLOR="1")
    assert without == STYLE.sub("", drawn)


@pytest.mark.full
def test_checkpoints_are_printed_as_a_table(folder: Path) -> None:
    run = folder / "runs/gemma"
    for step, value in ((10, 0.5), (20, 0.25)):
        checkpoint_files.nemo_rl(run, step, value=value)
    drawn = STYLE.sub("", watched(folder, "checkpoints", "runs/gemma"))
    plain = piped(folder, "checkpoints", "runs/gemma")
    assert "─" in drawn
    assert [line.split() for line in drawn.splitlines() if "─" not in line and line.strip()] == [
        line.split() for line in plain.splitlines()
    ]
    assert watched(folder, "checkpoints", "runs/gemma", "--format", "json") == piped(
        folder, "checkpoints", "runs/gemma", "--format", "json"
    )


def test_advice_about_a_broken_checkpoint_is_printed_below_the_table(folder: Path) -> None:
    run = folder / "runs/gemma"
    for step in (5, 10):
        checkpoint_files.nemo_rl(run, step, value=0.5)
    for path in sorted((run / "checkpoints/step_10").rglob("training_info.json")):
        path.unlink()
    drawn = STYLE.sub("", watched(folder, "checkpoints", "runs/gemma", COLUMNS="300"))
    plain = piped(folder, "checkpoints", "runs/gemma")
    assert plain.splitlines()[-1].startswith("runs/gemma/checkpoints/step_10 is not complete")
    assert drawn.splitlines()[-1] == plain.splitlines()[-1]


def test_dead_values_are_printed_as_a_table(folder: Path) -> None:
    chart = folder / "probe"
    chart.mkdir()
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: probe\nversion: 0.1.0\n")
    (chart / "values.yaml").write_text(f"a: 1\nb: {EXAMPLES['huggingface']}\n")
    drawn = STYLE.sub("", watched(folder, "dead-values", "probe"))
    assert re.search(r"^ *place +value +note", drawn, re.MULTILINE)
    assert re.search(r"probe/values\.yaml:1:1 +a = 1", drawn)
    assert drawn.endswith("2 of 2 values move nothing with these files\n")
    assert EXAMPLES["huggingface"] not in drawn


@pytest.mark.full
def test_render_folds_only_on_a_terminal(folder: Path) -> None:
    words = ["render", "grpo-job", *STACK[:-2]]
    whole, drawn = piped(folder, *words), watched(folder, *words)
    assert "… programs, " in drawn
    assert "lines of programs and of the lock are folded: --full prints them\n" in drawn
    assert "… programs, " not in whole
    assert watched(folder, *words, "--full").startswith(whole)
    assert watched(folder, *words, CI="true").startswith(whole)
