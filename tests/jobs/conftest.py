import importlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.programs import JOBS

from .harness import Site
from .simulation.machine import Machine


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


def memory() -> str | None:
    """Return a folder in memory, None where there is none: a disk may flush each of the many heartbeats."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@pytest.fixture
def machine() -> Iterator[Machine]:
    with tempfile.TemporaryDirectory(prefix="grpo-machine-", dir=memory()) as folder:
        made = Machine(Path(folder))
        yield made
        made.close()


@pytest.fixture
def jobs() -> Iterator[Any]:
    """Import modules of jobs/ by their plain names, as the programs do; nothing of them stays."""
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(f"{JOBS}/"):
            del sys.modules[name]
