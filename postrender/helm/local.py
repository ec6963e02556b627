"""Run a program of this package on this machine, with a time limit; it may run code of the user's."""

# ruff: noqa: TID251 - this module, engines.py and kubectl.py may start programs

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from postrender import secrets


def run(program: str, arguments: Sequence[str], folder: str, seconds: float) -> int | None:
    """Run a Python program in a folder, its output on stderr; return its exit code, None after the time limit.

    All processes that it started end with it. Secrets in the output are masked.
    """
    words = [sys.executable, "-B", program, *arguments]
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output,
        subprocess.Popen(
            words,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            output.seek(0)
            sys.stderr.write(secrets.mask(output.read()))
