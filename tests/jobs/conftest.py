import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.programs import JOBS

from .harness import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
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
