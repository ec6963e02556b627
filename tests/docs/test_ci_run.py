""".ci/run when the time of its last suite is over: what has failed by then is a failure, what was not run is named."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

SUITE = """
import pathlib, time

def test_passes(): pass
def test_fails(): assert False
def test_hangs():
    pathlib.Path("hangs").touch()
    time.sleep(600)
def test_later(): pass
"""
# The real one with minutes would take minutes: this one ends the suite as soon as a test hangs.
TIMEOUT = """
import os, pathlib, subprocess, sys, time
words = [word for word in sys.argv[1:] if not word.startswith("-")][1:]
if words != ["make", "e2e-node"]:
    sys.exit(subprocess.call(words))
with subprocess.Popen(words) as suite:
    while suite.poll() is None and not pathlib.Path("hangs").exists():
        time.sleep(0.1)
    if suite.poll() is not None:
        sys.exit(suite.returncode)
    suite.send_signal(int(os.environ["SIGNAL"]))
sys.exit({2: 124, 9: 137}[int(os.environ["SIGNAL"])])
"""
MAKE = f"""
import os, pathlib, signal, sys
if sys.argv[1:] == ["e2e-node"]:
    if "TESTS" not in os.environ:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        pathlib.Path("hangs").touch()
        __import__("time").sleep(600)
    options = ["-p", "harness.progress", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", "."]
    os.environ["PYTHONPATH"] = {str(ROOT / "tests/e2e")!r}
    # As in what a shell starts in the background.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.execv(sys.executable, [sys.executable, "-m", "pytest", *options, "-k", os.environ["TESTS"], "suite.py"])
"""
PROGRAMS = {"bin/timeout": TIMEOUT, "bin/make": MAKE, "bin/apt-get": "", ".venv/bin/python": ""}
PROGRAMS |= {"tools/ray.sh": "", "tools/node.sh": ""}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a folder with .ci/run, where all that it calls but the suite succeeds at once."""
    for name, text in PROGRAMS.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!{sys.executable}\n{text}", encoding="utf-8")
        path.chmod(0o755)
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci/run")
    (tmp_path / "suite.py").write_text(SUITE, encoding="utf-8")
    return tmp_path


def run(checkout: Path, tests: str, number: int = 2) -> tuple[int, str]:
    """Return the exit code and the errors of .ci/run with some tests, cut off by a signal."""
    chosen = {"TESTS": tests} if tests else {}
    own = {"PATH": f"{checkout / 'bin'}:{os.environ['PATH']}", "SIGNAL": str(number), "TMPDIR": str(checkout)}
    done = subprocess.run(
        [checkout / ".ci/run"],
        env={**os.environ, **own, **chosen},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=120,
    )
    assert not list(checkout.glob("tmp.*")), "a folder was left behind"
    return done.returncode, done.stderr


@pytest.mark.parametrize("number", [2, 9])
def test_a_failure_before_the_cut_is_a_failure(checkout: Path, number: int) -> None:
    """By the signal that lets the suite tear down, and by the one that does not."""
    code, said = run(checkout, "test", number)
    assert code == 1
    cut, _, failed = said.partition("FAILED before that:\n")
    assert "NOT FINISHED: make e2e-node was stopped after " in cut
    assert [line for line in cut.splitlines() if "::" in line] == ["suite.py::test_hangs", "suite.py::test_later"]
    assert failed.splitlines() == ["suite.py::test_fails (call)"]


def test_a_suite_that_is_only_out_of_time_is_no_failure_and_says_what_was_not_run(checkout: Path) -> None:
    code, said = run(checkout, "passes or hangs or later", 9)
    assert code == 0
    assert "NOT FINISHED" in said
    assert [line for line in said.splitlines() if "::" in line] == ["suite.py::test_hangs", "suite.py::test_later"]


def test_a_cut_before_the_first_test_says_that_none_was_run(checkout: Path) -> None:
    code, said = run(checkout, "")
    assert code == 0
    assert "NOT FINISHED" in said
    assert "all of its tests" in said


@pytest.mark.parametrize(("tests", "code"), [("passes", 0), ("passes or fails", 1)])
def test_a_suite_that_ends_decides_by_itself(checkout: Path, tests: str, code: int) -> None:
    ended, said = run(checkout, tests)
    assert (ended, "NOT FINISHED" in said) == (code, False)
