"""A plugin of pytest for a suite that may be cut off: it keeps on disk which tests have failed, and which are left."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

FOLDER = "GRPO_E2E_PROGRESS"


class Progress:
    """The files `failed` and `left` in a folder, a test a line; they are right also after SIGKILL."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.left: list[str] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note all tests."""
        self.left = [item.nodeid for item in session.items]
        self._write()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure."""
        if report.failed:
            with (self.folder / "failed").open("a") as stream:
                stream.write(f"{report.nodeid} ({report.when})\n")

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Note the end of a test; pytest does not call this for one that is interrupted."""
        self.left.remove(nodeid)
        self._write()

    def _write(self) -> None:
        (self.folder / "left").write_text("".join(f"{each}\n" for each in self.left))


def pytest_configure(config: pytest.Config) -> None:
    """Keep the progress in the folder that the environment names."""
    if folder := os.environ.get(FOLDER):
        # The cut is a SIGINT, which a shell ignores in what it starts in the background.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        config.pluginmanager.register(Progress(Path(folder)))
