""".ci/run: a fixed list of parts, a table of them at the end, and no part that was not run is called passed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT, thin

# Each program that .ci/run starts: it notes its words, and ends as FAILS says of them.
PROGRAM = f"""#!{sys.executable}
import json, os, pathlib, sys
words = [pathlib.Path(sys.argv[0]).name, *sys.argv[1:]]
with open(os.environ["CALLS"], "a") as file:
    file.write(" ".join(words) + "\\n")
for part, code in json.loads(os.environ["FAILS"]).items():
    if part in " ".join(words):
        print("e2e: needs a machine", file=sys.stderr)
        sys.exit(code)
"""
PROGRAMS = ("bin/make", "bin/apt-get", "bin/chromium", ".venv/bin/python", "tools/node.sh")
WHOLE = [
    *("make demo", "make tools", "make test", "make lint", "make verify", "make docs", "make test-full", "make lowest"),
    *("make bench ROUNDS=1", "make e2e ONLY=ci", "make planted ONLY=ci LANES=2", "node.sh", "make e2e-node ONLY=ci"),
]


@dataclass
class Ended:
    """How a run of .ci/run has ended."""

    code: int
    calls: list[str]
    said: str
    rows: list[str]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a folder with .ci/run and stand-ins for all that it starts."""
    for name in PROGRAMS:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PROGRAM, encoding="utf-8")
        path.chmod(0o755)
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci/run")
    return tmp_path


def run(checkout: Path, fails: str = "{}") -> Ended:
    """Run .ci/run; `fails` gives the exit codes of what has some words in its command line."""
    own = {"PATH": f"{checkout / 'bin'}:{os.environ['PATH']}", "CALLS": str(checkout / "calls"), "FAILS": fails}
    done = subprocess.run(
        [checkout / ".ci/run"], env={**os.environ, **own}, capture_output=True, text=True, check=False, timeout=60
    )
    calls = (checkout / "calls").read_text().splitlines()
    parts = [call for call in calls if call.startswith(("make ", "node.sh"))]
    table = done.stdout.partition("== what ran\n")[2].splitlines()
    return Ended(done.returncode, parts, done.stderr, table)


def test_all_parts_run_in_order_and_are_listed_in_the_table(checkout: Path) -> None:
    ended = run(checkout)
    assert (ended.code, ended.calls) == (0, WHOLE)
    assert all(re.match(r" *\d+ s  ", row) for row in ended.rows)
    assert [part for part in WHOLE if not any(row.endswith(part) for row in ended.rows)] == []
    assert ended.rows[-1].endswith(" in all")
    assert "NOT RUN" not in ended.said


def test_a_part_that_fails_ends_the_run_with_its_code(checkout: Path) -> None:
    ended = run(checkout, '{"make docs": 2}')
    assert (ended.code, ended.calls[-1]) == (2, "make docs")
    assert any(row.endswith("make docs: FAILED, exit code 2") for row in ended.rows)
    assert any(row.endswith("make verify") for row in ended.rows)


@pytest.mark.parametrize("part", thin(["make e2e ONLY", "make planted", "make e2e-node"], 3))
def test_a_failing_end_to_end_test_fails_the_run(checkout: Path, part: str) -> None:
    ended = run(checkout, f'{{"{part}": 2}}')
    assert ended.code == 2
    assert any(part in row and "FAILED" in row for row in ended.rows)


@pytest.mark.parametrize(
    ("fails", "target", "reason"),
    [
        ('{"planted/run.py --preflight": 3}', "planted", "e2e: needs a machine"),
        pytest.param('{"node/run.py --preflight": 3}', "e2e-node", "e2e: needs a machine", marks=pytest.mark.full),
        ('{"node.sh": 1}', "e2e-node", "tools/node.sh has failed, or did not end within 15 minutes"),
    ],
)
def test_parts_the_machine_cannot_run_are_reported_as_not_run(
    checkout: Path, fails: str, target: str, reason: str
) -> None:
    ended = run(checkout, fails)
    assert ended.code == 0
    assert f"NOT RUN: make {target}, because {reason}" in ended.said
    assert f"make {target} ONLY=ci" not in ended.calls
    rows = [row for row in ended.rows if f"make {target}" in row]
    assert rows == [f"       -  make {target}: NOT RUN, because {reason}"]


def test_ci_runs_every_part_of_make_check() -> None:
    """CI runs its parts one by one, for the table."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (parts,) = re.findall(r"^check: (.*?) ##", makefile, re.MULTILINE)
    assert [part for part in parts.split() if f"make {part}" not in WHOLE] == []


def test_the_test_workflow_runs_what_ci_runs() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/test.yaml").read_text(encoding="utf-8"))["jobs"]
    assert [step["run"] for step in jobs["everything"]["steps"] if ".ci/run" in step.get("run", "")]
