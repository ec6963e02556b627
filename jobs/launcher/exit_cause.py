"""Explain why a program ended, as far as its exit code and the kernel's count of killed processes tell.

Sources: the kernel's cgroup-v2.rst (memory.events, memory.max) and cgroup-v1/memory.rst (memory.oom_control).
"""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path
from typing import Final

from files import gib

CONTROL: Final = Path("/sys/fs/cgroup")
# By version of control groups: where its files lie, the one that counts kills, and the one with the limit.
_V1: Final = (CONTROL / "memory", "memory.oom_control", "memory.limit_in_bytes")
_V2: Final = (CONTROL, "memory.events", "memory.max")


def _files() -> tuple[Path, Path] | None:
    """Return the files with the kill count and the limit of this process's cgroup; None if there are none."""
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        base, kills, limit = _V1 if "memory" in controllers.split(",") else _V2
        if controllers and base == CONTROL:
            continue
        # A pod sees its own group as the root, whatever the path says.
        for folder in (base / path.lstrip("/"), base):
            if (folder / kills).is_file():
                return folder / kills, folder / limit
    return None


class MemoryKills:
    """The processes in this pod that the kernel kills from now on because the pod has reached its memory limit."""

    def __init__(self) -> None:
        self.files = None
        with contextlib.suppress(OSError):
            self.files = _files()
        self.before = self.total()

    def total(self) -> int:
        """Return the number of kills over the pod's lifetime; 0 if it is unknown."""
        with contextlib.suppress(OSError, ValueError):
            lines = self.files[0].read_text(encoding="utf-8").splitlines() if self.files else []
            return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)
        return 0

    def limit(self) -> str:
        with contextlib.suppress(OSError, ValueError):
            return f", whose limit is {gib(int(self.files[1].read_text(encoding='utf-8')))}" if self.files else ""
        return ""

    def describe(self, code: int) -> str:
        """Describe how a program with this exit code ended; 128 + n means signal n."""
        name = ""
        with contextlib.suppress(ValueError):
            name = f" ({signal.Signals(code - 128).name})" if code > 128 else ""
        if code == 0 or (kills := self.total() - self.before) < 1:
            return f"exit code {code}{name}"
        many = "1 process" if kills == 1 else f"{kills} processes"
        return f"exit code {code}{name}: out of memory: the kernel killed {many} of this pod{self.limit()}"
