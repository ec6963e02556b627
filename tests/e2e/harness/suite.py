"""Running a suite of end-to-end tests inside namespaces of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from harness import leftovers

INSIDE = "GRPO_E2E_INSIDE"
CANNOT_RUN = 3
REPOSITORY = Path(__file__).resolve().parents[3]
TOOLS = REPOSITORY / ".tools"

Prepare = Callable[[Path], None]


def main(
    program: str,
    place: Path,
    prepare: Prepare,
    missing: Callable[[], list[str]],
    arguments: list[str],
    namespaces: Sequence[str] = (),
) -> int:
    """Run the tests beside `program` inside namespaces of their own and return pytest's exit code (3: could not run).

    `place` gets a folder for the work of this run, which is the argument of `prepare`; `missing` lists what this
    machine lacks, each entry with what to do about it; `namespaces` are options of unshare(1).
    """
    if INSIDE in os.environ:
        return run_inside(Path(program).resolve().parent, prepare, arguments)
    return refuse(missing()) or enter(place, program, arguments, namespaces)


def refuse(lacking: list[str]) -> int:
    """Print what is lacking and return the exit code for it, 0 when nothing is."""
    for entry in lacking:
        print(f"e2e: needs {entry}", file=sys.stderr)
    return CANNOT_RUN if lacking else 0


def not_installed(packages: dict[str, str]) -> list[str]:
    """List the commands that are not on PATH; `packages` says by command what brings it."""
    return [f"{name}: install {package}" for name, package in packages.items() if shutil.which(name) is None]


def not_built(programs: Iterable[str], folders: Iterable[str], how: str) -> list[str]:
    """List the programs of .tools/bin and the folders of .tools/share that do not exist, and how they are made."""
    lacking = [f".tools/bin/{name}" for name in programs if not os.access(TOOLS / "bin" / name, os.X_OK)]
    lacking += [f".tools/share/{name}" for name in folders if not (TOOLS / "share" / name).is_dir()]
    return [f"{entry}: run {how}" for entry in lacking]


def enter(place: Path, program: str, arguments: list[str], more: Sequence[str]) -> int:
    """Run `program` again in a network and a mount namespace, with a new folder in `place` for its work."""
    with tempfile.TemporaryDirectory(prefix="e2e-", dir=place) as work:
        os.environ[INSIDE] = work
        namespaces = ["unshare", "--net", "--mount", "--propagation", "private", *more, "--"]
        return supervise([*namespaces, sys.executable, program, *arguments], forks="--fork" in more)


def run_inside(folder: Path, prepare: Prepare, arguments: list[str]) -> int:
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
    # An interrupt gives pytest-xdist's workers a few seconds only: what they could not stop ends here.
    if survivors and code < 128:
        print("e2e: processes were still running at the end: " + "; ".join(survivors), file=sys.stderr)
        code = code or 1
    keep_logs(work, code)
    return code


def run_pytest(here: Path, arguments: list[str]) -> int:
    """Run pytest on the tests in `here` with `arguments`, on all of them when no path is among the arguments."""
    options = ["-c", str(here / "pytest.ini"), "--rootdir", str(here), "-p", "no:cacheprovider"]
    chosen = any(Path(word.split("::")[0]).exists() for word in arguments if not word.startswith("-"))
    return supervise([sys.executable, "-m", "pytest", *options, *([] if chosen else [str(here)]), *arguments])


def supervise(command: list[str], forks: bool = False) -> int:
    """Run a child in a session of its own and return its exit code.

    SIGINT and SIGTERM reach the child once, as the SIGINT on which pytest tears its fixtures down; or its own child, if
    it only waits for that and hears no signal, as unshare(1) does with --fork.
    """
    asked: list[int] = []
    with subprocess.Popen(command, start_new_session=True) as child:

        def forward(number: int, _frame: object) -> None:
            if not asked:
                leftovers.kill_all(leftovers.descendants(child.pid)[:1] if forks else [child.pid], signal.SIGINT)
            asked.append(number)

        signal.signal(signal.SIGINT, forward)
        signal.signal(signal.SIGTERM, forward)
        code = child.wait()
    return 128 + asked[0] if asked else abs(code)


def keep_logs(work: Path, code: int) -> None:
    """Copy the logs to ./e2e-logs when something failed; an old copy never survives a newer run."""
    kept = REPOSITORY / "e2e-logs"
    shutil.rmtree(kept, ignore_errors=True)
    # Those of each worker, where several have run.
    logs = [folder for folder in (work / "logs", *work.glob("gw*/logs")) if folder.is_dir()] if code != 0 else []
    for folder in logs:
        shutil.copytree(folder, kept / folder.parent.relative_to(work))
    if logs:
        print(f"e2e: logs are in {kept}", file=sys.stderr)
