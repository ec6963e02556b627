"""Running a suite of end-to-end tests inside namespaces of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from harness import leftovers

INSIDE = "GRPO_E2E_INSIDE"
CANNOT_RUN = 3
REPOSITORY = Path(__file__).resolve().parents[3]


def enter(place: Path, program: str, arguments: list[str]) -> int:
    """Run `program` again in a network and a mount namespace, with a new folder in `place` for its work."""
    with tempfile.TemporaryDirectory(prefix="e2e-", dir=place) as work:
        os.environ[INSIDE] = work
        namespaces = ["unshare", "--net", "--mount", "--propagation", "private", "--"]
        return supervise([*namespaces, sys.executable, program, *arguments])


def run_inside(folder: Path, prepare: Callable[[Path], None], arguments: list[str]) -> int:
    """Prepare the sandbox, run the tests in `folder`, then make sure that no process outlives them."""
    leftovers.end_with_parent()
    work = Path(os.environ[INSIDE])
    try:
        prepare(work)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"e2e: cannot prepare the namespace: {error}", file=sys.stderr)
        return CANNOT_RUN
    leftovers.adopt_orphans()
    code = run_pytest(folder, arguments)
    survivors = leftovers.sweep()
    if survivors:
        print("e2e: processes were still running at the end: " + "; ".join(survivors), file=sys.stderr)
        code = code or 1
    keep_logs(work, code)
    return code


def run_pytest(here: Path, arguments: list[str]) -> int:
    """Run pytest on the tests in `here` with `arguments`, on all of them when no path is among the arguments."""
    options = ["-c", str(here / "pytest.ini"), "--rootdir", str(here), "-p", "no:cacheprovider"]
    chosen = any(Path(word.split("::")[0]).exists() for word in arguments if not word.startswith("-"))
    return supervise([sys.executable, "-m", "pytest", *options, *([] if chosen else [str(here)]), *arguments])


def supervise(command: list[str]) -> int:
    """Run a child in a session of its own and return its exit code.

    SIGINT and SIGTERM reach the child once, as the SIGINT on which pytest tears its fixtures down.
    """
    asked: list[int] = []
    with subprocess.Popen(command, start_new_session=True) as child:

        def forward(number: int, _frame: object) -> None:
            if not asked:
                child.send_signal(signal.SIGINT)
            asked.append(number)

        signal.signal(signal.SIGINT, forward)
        signal.signal(signal.SIGTERM, forward)
        code = child.wait()
    return 128 + asked[0] if asked else abs(code)


def keep_logs(work: Path, code: int) -> None:
    """Copy the logs to ./e2e-logs when something failed; an old copy never survives a newer run."""
    kept = REPOSITORY / "e2e-logs"
    shutil.rmtree(kept, ignore_errors=True)
    if code != 0 and (work / "logs").is_dir():
        shutil.copytree(work / "logs", kept)
        print(f"e2e: logs are in {kept}", file=sys.stderr)
