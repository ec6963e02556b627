"""Finding the processes that a test run has left behind."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections import defaultdict
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LIBC = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """Make this process the parent of every orphan below it, so that none can hide from `sweep`."""
    if LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def end_with_parent() -> None:
    """Ask the kernel for a SIGINT when this process' parent ends, even by SIGKILL."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)


def descendants(ancestor: int) -> list[int]:
    """List the live processes below `ancestor`, children before grandchildren."""
    children: dict[int, list[int]] = defaultdict(list)
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (status := stat_fields(folder)) is not None and status[0] != "Z":
            children[int(status[1])].append(int(folder.name))
    found: list[int] = []
    queue = [ancestor]
    while queue:
        below = children[queue.pop(0)]
        found += below
        queue += below
    return found


def stat_fields(folder: Path) -> list[str] | None:
    """Read state, parent and so on from /proc/PID/stat; None when the process has ended meanwhile."""
    try:
        return (folder / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def command_line(pid: int) -> str:
    """Name a process for a message."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        words = []
    return f"{pid} {b' '.join(words).decode(errors='replace')[:120]}".strip()


def kill_all(pids: list[int], number: signal.Signals) -> None:
    """Signal each process by its id; those that have ended are passed over."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def sweep() -> list[str]:
    """Kill what is still running below this process and return the command lines found.

    A process that is about to end of its own gets two seconds.
    """
    deadline = time.monotonic() + 2
    while (running := descendants(os.getpid())) and time.monotonic() < deadline:
        reap()
        time.sleep(0.1)
    named = [command_line(pid) for pid in running]
    while running := descendants(os.getpid()):
        kill_all(running, signal.SIGKILL)
        reap()
        time.sleep(0.05)
    return named


def reap() -> None:
    """Collect the exit status of orphans that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return
